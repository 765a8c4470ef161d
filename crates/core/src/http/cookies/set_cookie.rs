//! [`SetCookie`]: one `Set-Cookie` line, parsed with the algorithm of RFC 6265bis, section 5.6.
//!
//! Invariant: name and value have at most 4096 bytes together, and no byte that ends a line.

use super::date;

/// How many `Set-Cookie` lines of one response are parsed, as in curl.
pub const MAX_PER_RESPONSE: usize = 50;
/// Limit on the bytes of name and value together.
pub(crate) const MAX_COOKIE: usize = 4_096;
/// Limit on the bytes of an attribute value.
pub(crate) const MAX_ATTRIBUTE: usize = 1_024;

/// A cookie as a server sent it. The [`CookieJar`](super::CookieJar) decides whether it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct SetCookie {
    pub(super) name: Box<[u8]>,
    pub(super) value: Box<[u8]>,
    /// Empty if none was given.
    pub(super) domain: Box<str>,
    pub(super) path: CookiePath,
    pub(super) expiry: CookieExpiry,
    pub(super) secure: bool,
    /// `SameSite=None`, which is valid only with `Secure`.
    pub(super) same_site_none: bool,
}

impl SetCookie {
    /// Size in bytes, heap included. The constant covers a path of usual length and the overhead of the allocations.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.value.len() + self.domain.len() + 64
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CookiePath {
    /// The directory of the page that set the cookie.
    Default,
    Given(Box<str>),
}

/// When a cookie expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CookieExpiry {
    Never,
    /// In seconds since the Unix epoch.
    At(i64),
    /// In seconds from now on.
    After(i64),
}

impl SetCookie {
    /// Parses a line. `None` if it is not a valid cookie.
    pub fn parse(line: &[u8]) -> Option<Self> {
        if line.iter().copied().any(is_control) {
            return None;
        }
        let mut parts = line.split(|byte| *byte == b';');
        let (name, value) = match split(parts.next()?) {
            (value, None) => (&[][..], value),
            (name, Some(value)) => (name, value),
        };
        if (name.is_empty() && value.is_empty()) || name.len() + value.len() > MAX_COOKIE {
            return None;
        }
        let mut cookie = Self {
            name: name.into(),
            value: value.into(),
            domain: Box::default(),
            path: CookiePath::Default,
            expiry: CookieExpiry::Never,
            secure: false,
            same_site_none: false,
        };
        let (mut expires, mut max_age, mut domain) = (None, None, &[][..]);
        for part in parts {
            let (name, value) = split(part);
            let value = value.unwrap_or_default();
            if value.len() > MAX_ATTRIBUTE {
                continue;
            }
            // The last attribute of each kind counts.
            match name.to_ascii_lowercase().as_slice() {
                b"expires" => expires = date::parse(value).or(expires),
                b"max-age" => max_age = parse_max_age(value).or(max_age),
                b"domain" => domain = value.strip_prefix(b".").unwrap_or(value),
                b"path" if value.starts_with(b"/") => {
                    // URL paths are ASCII, so a path with other bytes matches no page.
                    cookie.path = CookiePath::Given(String::from_utf8_lossy(value).into());
                }
                b"path" => cookie.path = CookiePath::Default,
                b"secure" => cookie.secure = true,
                b"samesite" => cookie.same_site_none = value.eq_ignore_ascii_case(b"none"),
                // `HttpOnly` hides a cookie from scripts, which are not executed.
                _ => {}
            }
        }
        // Hosts in URLs are ASCII (punycode), so another domain would match no host: the cookie is dropped.
        cookie.domain = std::str::from_utf8(domain).ok().filter(|domain| domain.is_ascii())?.into();
        cookie.expiry = match (max_age, expires) {
            (Some(seconds), _) => CookieExpiry::After(seconds),
            (None, Some(time)) => CookieExpiry::At(time),
            (None, None) => CookieExpiry::Never,
        };
        Some(cookie)
    }
}

impl std::fmt::Debug for SetCookie {
    /// Values are secrets and stay out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}=…", self.name.escape_ascii())
    }
}

/// True for control characters except the tab.
pub(super) fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// Name and value of an attribute, trimmed. The value is `None` if there is no `=`.
fn split(part: &[u8]) -> (&[u8], Option<&[u8]>) {
    match part.iter().position(|byte| *byte == b'=') {
        None => (trim(part), None),
        Some(at) => {
            let (name, value) = part.split_at(at);
            (trim(name), Some(trim(value.get(1..).unwrap_or_default())))
        }
    }
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// A number of any length, saturated at the limits of the type.
fn parse_max_age(value: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) || digits.is_empty() {
        return None;
    }
    let append = |number: i64, digit: &u8| number.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    let number = digits.iter().fold(0, append);
    Some(if is_negative { -number } else { number })
}
