//! [`Url`]: a normalized absolute http or https URL.
//!
//! Invariant: the text is the serialization of the WHATWG parser without fragment and user information. The crawler
//! treats two URLs as the same page exactly if their texts are equal.

mod strip;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use memchr::memchr;

pub use strip::StripParams;

/// Longer URLs are refused regardless of settings, because `UrlOffsets` are 16 bits wide.
pub const MAX_URL_LEN: usize = 60_000;

/// A normalized absolute http or https URL. Cheap to clone.
#[derive(Clone)]
pub struct Url {
    text: Arc<str>,
    offsets: UrlOffsets,
}

/// A [`Url`] that borrows its text; used for links while a page is processed.
#[derive(Clone, Copy)]
pub struct UrlRef<'a> {
    text: &'a str,
    offsets: UrlOffsets,
}

/// The parsed parts of a URL: offsets in its text, port and scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UrlOffsets {
    /// End of the host.
    host_end: u16,
    /// Start of the path, which is the end of host and port.
    path: u16,
    /// The effective port, explicit or default.
    port: u16,
    https: bool,
}

/// Scheme, host and port: the scope of credentials, robots.txt and connections.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Whether the scheme is https.
    pub https: bool,
    /// The host in normal form.
    pub host: Arc<str>,
    /// The effective port, explicit or default.
    pub port: u16,
}

/// Why a text is not a URL that can be crawled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadUrl {
    /// The text cannot be parsed as an absolute URL.
    #[error("not an absolute URL that can be parsed")]
    Syntax,
    /// The port is not a number from 0 to 65535.
    #[error("the port is not a number from 0 to 65535")]
    Port,
    /// The scheme is neither http nor https.
    #[error("neither http nor https")]
    Scheme,
    /// The URL is longer than the limit for URLs.
    #[error("longer than the limit for URLs")]
    TooLong,
}

/// The registrable domain: the public suffix and one more label. A suffix from the private section of the
/// public suffix list counts too, such as `github.io`. `None` for IP addresses, single labels and suffixes.
pub fn registrable_domain(host: &str) -> Option<&str> {
    let is_address = host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok();
    if is_address { None } else { psl::domain_str(host) }
}

/// The text of a URL for messages, without user name and password. Also finds them in the invalid forms that the parser
/// accepts: it skips tabs and line ends, and reads `http:\\me:pw@h`, `http:/me:pw@h` and `http:me:pw@h` as
/// `http://me:pw@h`.
pub fn without_user_info(text: &str) -> String {
    let text = text.replace(['\t', '\n', '\r'], "");
    // The parser also skips spaces and control characters before the scheme.
    let scheme_end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-. ".contains(c) || c.is_control()));
    let (scheme, rest) = match scheme_end.and_then(|end| text.split_at_checked(end + 1)) {
        Some((scheme, rest)) if scheme.ends_with(':') => (scheme, rest),
        _ => ("", text.as_str()),
    };
    if scheme.eq_ignore_ascii_case("mailto:") {
        return text; // a mailbox is not a login
    }
    let after_slashes = rest.trim_start_matches(['/', '\\']);
    let (slashes, _) = rest.split_at(rest.len() - after_slashes.len());
    let end = after_slashes.find(['/', '\\', '?', '#']).unwrap_or(after_slashes.len());
    let (authority, after) = after_slashes.split_at(end);
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, after_login)| after_login);
    format!("{scheme}{slashes}{host_and_port}{after}")
}

/// Replaces more than two slashes at the start by two. `///host/path` on a page means `//host/path`: the standard skips
/// all slashes before a host, but the crate `url` skips only two.
pub(crate) fn without_extra_slashes(href: &str) -> Cow<'_, str> {
    let text = href.trim_start_matches(|c: char| c <= ' ');
    if !text.starts_with(['/', '\\']) {
        return Cow::Borrowed(href);
    }
    // The parser ignores tabs and line ends anywhere in a URL.
    let rest = text.trim_start_matches(['/', '\\', '\t', '\n', '\r']);
    let skipped = text.get(..text.len() - rest.len()).unwrap_or("");
    let slashes = skipped.matches(['/', '\\']).count();
    if slashes > 2 { Cow::Owned(format!("//{rest}")) } else { Cow::Borrowed(href) }
}

impl Url {
    /// Parses and normalizes an absolute URL.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        if text.len() > MAX_URL_LEN {
            return Err(BadUrl::TooLong);
        }
        Self::from_parsed(url::Url::parse(text).map_err(|error| match error {
            url::ParseError::InvalidPort => BadUrl::Port,
            _ => BadUrl::Syntax,
        })?)
    }

    /// Resolves `href` against this URL.
    pub fn join(&self, href: &str) -> Result<Self, BadUrl> {
        if href.len() > MAX_URL_LEN {
            return Err(BadUrl::TooLong);
        }
        let base = url::Url::parse(&self.text).map_err(|_| BadUrl::Syntax)?;
        Self::from_parsed(base.join(&without_extra_slashes(href)).map_err(|_| BadUrl::Syntax)?)
    }

    /// Normalizes a parsed URL.
    pub(crate) fn from_parsed(mut parsed: url::Url) -> Result<Self, BadUrl> {
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(BadUrl::Scheme);
        }
        parsed.set_fragment(None);
        if !parsed.username().is_empty() || parsed.password().is_some() {
            parsed.set_username("").map_err(|()| BadUrl::Syntax)?;
            parsed.set_password(None).map_err(|()| BadUrl::Syntax)?;
        }
        UrlRef::from_normal(parsed.as_str()).ok_or(BadUrl::TooLong).map(UrlRef::to_url)
    }

    /// The URL of an origin's robots.txt.
    pub fn robots_of(origin: &Origin) -> Self {
        let text: Arc<str> = format!("{origin}/robots.txt").into();
        let host_start = scheme_len(origin.https);
        let offset = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        let offsets = UrlOffsets {
            host_end: offset(host_start + origin.host.len()),
            path: offset(text.len() - "/robots.txt".len()),
            port: origin.port,
            https: origin.https,
        };
        Self { text, offsets }
    }

    /// The URL, borrowed.
    pub fn as_ref(&self) -> UrlRef<'_> {
        UrlRef { text: &self.text, offsets: self.offsets }
    }

    /// The text of the URL, in normal form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.offsets.https
    }

    /// The host in normal form.
    pub fn host(&self) -> &str {
        self.as_ref().host()
    }

    /// The effective port, explicit or default.
    pub fn port(&self) -> u16 {
        self.offsets.port
    }

    /// Host, and port if it is not the default: the value of the `Host` header.
    pub fn authority(&self) -> &str {
        self.as_ref().authority()
    }

    /// The path, without the query.
    pub fn path(&self) -> &str {
        self.as_ref().path()
    }

    /// The query without its question mark; `None` if there is none.
    pub fn query(&self) -> Option<&str> {
        self.as_ref().query()
    }

    /// The request target: path and query.
    pub fn target(&self) -> &str {
        self.as_ref().target()
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> Origin {
        Origin { https: self.offsets.https, host: Arc::from(self.host()), port: self.offsets.port }
    }

    /// Whether scheme, host and port are those of this origin.
    pub fn has_origin(&self, origin: &Origin) -> bool {
        (self.offsets.https, self.offsets.port, self.host()) == (origin.https, origin.port, &*origin.host)
    }

    /// The registrable domain by the public suffix list. `None` for IP addresses and suffixes.
    pub fn registrable_domain(&self) -> Option<&str> {
        registrable_domain(self.host())
    }

    /// A 64-bit fingerprint with a key of this crawl, so that collisions cannot be constructed.
    pub fn fingerprint(&self, key: u64) -> u64 {
        self.as_ref().fingerprint(key)
    }
}

impl<'a> UrlRef<'a> {
    /// Parses a text that is normalized already. `None` if it is too long or not a URL.
    pub fn from_normal(text: &'a str) -> Option<Self> {
        if text.len() > MAX_URL_LEN {
            return None;
        }
        let bytes = text.as_bytes();
        let https = match bytes {
            [b'h', b't', b't', b'p', b':', b'/', b'/', ..] => false,
            [b'h', b't', b't', b'p', b's', b':', b'/', b'/', ..] => true,
            _ => return None,
        };
        let host_start = scheme_len(https);
        // One pass instead of several searches, because this runs several times for every link of every page.
        let (mut colon, mut path) = (None, None);
        for (index, byte) in bytes.iter().enumerate().skip(host_start) {
            match byte {
                b'/' | b'?' => {
                    path = Some(index);
                    break;
                }
                b':' => colon = Some(index),
                // The colons before the bracket belong to an IPv6 address.
                b']' => colon = None,
                _ => {}
            }
        }
        let path = path?;
        let (host_end, port) = match colon {
            Some(colon) => (colon, text.get(colon + 1..path)?.parse().ok()?),
            None => (path, if https { 443 } else { 80 }),
        };
        Some(Self {
            text,
            offsets: UrlOffsets {
                host_end: u16::try_from(host_end).ok()?,
                path: u16::try_from(path).ok()?,
                port,
                https,
            },
        })
    }

    /// Like [`UrlRef::from_normal`], but faster if the text has the origin of `other`: most links of a page have the
    /// origin of the previous one.
    pub fn from_normal_after(text: &'a str, other: UrlRef<'_>) -> Option<Self> {
        let path = usize::from(other.offsets.path);
        let has_same_origin = text.get(..path).is_some_and(|origin| other.text.get(..path) == Some(origin));
        match text.as_bytes().get(path) {
            Some(b'/' | b'?') if has_same_origin && text.len() <= MAX_URL_LEN => {
                Some(Self { text, offsets: other.offsets })
            }
            _ => Self::from_normal(text),
        }
    }

    /// A URL from a text that was parsed before, given the result of [`UrlRef::offsets`].
    pub(crate) fn with_offsets(text: &'a str, offsets: UrlOffsets) -> Self {
        Self { text, offsets }
    }

    /// The offsets of its parts.
    pub(crate) fn offsets(self) -> UrlOffsets {
        self.offsets
    }

    /// A copy that owns its text.
    pub fn to_url(self) -> Url {
        Url { text: Arc::from(self.text), offsets: self.offsets }
    }

    /// See [`Url::as_str`].
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// See [`Url::is_https`].
    pub fn is_https(self) -> bool {
        self.offsets.https
    }

    /// See [`Url::host`].
    pub fn host(self) -> &'a str {
        self.text.get(self.host_start()..usize::from(self.offsets.host_end)).unwrap_or("")
    }

    /// See [`Url::port`].
    pub fn port(self) -> u16 {
        self.offsets.port
    }

    /// See [`Url::authority`].
    pub fn authority(self) -> &'a str {
        self.text.get(self.host_start()..usize::from(self.offsets.path)).unwrap_or("")
    }

    /// See [`Url::path`].
    pub fn path(self) -> &'a str {
        let target = self.target();
        memchr(b'?', target.as_bytes()).and_then(|mark| target.get(..mark)).unwrap_or(target)
    }

    /// See [`Url::query`].
    pub fn query(self) -> Option<&'a str> {
        let target = self.target();
        memchr(b'?', target.as_bytes()).and_then(|mark| target.get(mark + 1..))
    }

    /// See [`Url::target`].
    pub fn target(self) -> &'a str {
        self.text.get(usize::from(self.offsets.path)..).unwrap_or("/")
    }

    /// The keyed 64-bit hash of the URL.
    pub fn fingerprint(self, key: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(self.text.as_bytes(), key)
    }

    fn host_start(self) -> usize {
        scheme_len(self.offsets.https)
    }
}

/// The length of `http://` or `https://`.
fn scheme_len(is_https: bool) -> usize {
    if is_https { "https://".len() } else { "http://".len() }
}

impl PartialEq for Url {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Url {}

impl PartialEq<str> for Url {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Url {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl AsRef<str> for Url {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl std::str::FromStr for Url {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        Self::parse(text)
    }
}

impl PartialOrd for Url {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Url {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl std::borrow::Borrow<str> for Url {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl Hash for Url {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for UrlRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, default_port) = if self.https { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != default_port { write!(f, ":{}", self.port) } else { Ok(()) }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for Url {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
