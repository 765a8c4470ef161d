//! Resolves the text of a link to a URL in normal form.
//!
//! The crate `url` is the reference. Most links are simple: their URLs are built from bytes by a fast path. All other
//! links are passed to `url`.
//!
//! Invariant: the fast path returns exactly what `url` returns, or refuses the link.

use encoding_rs::{EncoderResult, Encoding, UTF_8};
use memchr::memchr;
use std::cell::OnceCell;

use crate::base::url::{BadUrl, MAX_URL_LEN, Url, without_extra_slashes};

/// The base URL of a page.
pub struct BaseUrl {
    /// `None` if the base is neither http nor https. Then no link takes the fast path.
    normal: Option<Normal>,
    /// For links that are not simple. Parsed when the first one occurs.
    parsed: OnceCell<Option<url::Url>>,
}

/// A base URL in normal form, and the ends of its parts.
struct Normal {
    url: Url,
    /// The index after the colon of the scheme.
    scheme_end: usize,
    /// The index after the authority: the start of the path.
    origin_end: usize,
    /// The index after the last slash of the path.
    folder_end: usize,
    /// The index after the path.
    path_end: usize,
}

impl BaseUrl {
    pub fn new(page: &Url) -> Self {
        Self { normal: Some(Normal::new(page)), parsed: OnceCell::new() }
    }

    /// The base as a `url::Url`. Always present: a URL in normal form can be parsed, and a base without a normal form
    /// was parsed by [`BaseUrl::rebased`].
    fn parsed(&self) -> Option<&url::Url> {
        let make = || url::Url::parse(self.normal.as_ref()?.url.as_str()).ok();
        self.parsed.get_or_init(make).as_ref()
    }

    /// The base URL after a `base` element with this `href`. `None` if the element is ignored, as the standard says for
    /// `data` and `javascript` URLs.
    pub fn rebased(&self, href: &str, encoding: &'static Encoding) -> Option<Self> {
        let parsed = parse(href, self.parsed()?, encoding).ok()?;
        if matches!(parsed.scheme(), "data" | "javascript") {
            return None;
        }
        let normal = Url::from_parsed(parsed.clone()).ok().map(|url| Normal::new(&url));
        Some(Self { normal, parsed: OnceCell::from(Some(parsed)) })
    }

    /// Writes the target of `href` to `out`, which is cleared first. `encoding` is that of the page, and is used for
    /// queries.
    pub fn resolve(&self, href: &str, encoding: &'static Encoding, out: &mut String) -> Result<(), BadUrl> {
        if let Some(normal) = &self.normal
            && normal.resolve(href, out)
        {
            return Ok(());
        }
        out.clear();
        let base = self.parsed().ok_or(BadUrl::Syntax)?;
        let url = Url::from_parsed(parse(href, base, encoding).map_err(|_| BadUrl::Syntax)?)?;
        out.push_str(url.as_str());
        Ok(())
    }
}

/// The encoding with this label; UTF-8 if there is none.
fn encoding_of(charset: Option<&str>) -> &'static Encoding {
    charset.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8)
}

impl Url {
    /// Like [`Url::join`], for a link of a page in this charset. The charset is used for the query, as in browsers.
    pub fn join_in_charset(&self, href: &str, charset: Option<&str>) -> Result<Self, BadUrl> {
        let encoding = encoding_of(charset).output_encoding();
        if encoding == UTF_8 || href.len() > MAX_URL_LEN {
            return self.join(href);
        }
        let base = url::Url::parse(self.as_str()).map_err(|_| BadUrl::Syntax)?;
        Self::from_parsed(parse(href, &base, encoding).map_err(|_| BadUrl::Syntax)?)
    }
}

/// The slow path: parses a link with the crate `url`.
fn parse(href: &str, base: &url::Url, encoding: &'static Encoding) -> Result<url::Url, url::ParseError> {
    // Pages in UTF-16 encode their queries in UTF-8.
    let encoding = encoding.output_encoding();
    let options = url::Url::options().base_url(Some(base));
    let is_web = matches!(base.scheme(), "http" | "https");
    let href = &*if is_web { without_extra_slashes(href) } else { href.into() };
    if encoding == UTF_8 {
        return options.parse(href);
    }
    options.encoding_override(Some(&|query| encode_query(query, encoding).into())).parse(href)
}

/// Encodes a query. Characters that the encoding lacks become escaped character references, as the URL standard says.
fn encode_query(query: &str, encoding: &'static Encoding) -> Vec<u8> {
    let mut encoder = encoding.new_encoder();
    let mut out = Vec::with_capacity(query.len() + 16);
    let mut rest = query;
    loop {
        let capacity =
            encoder.max_buffer_length_from_utf8_without_replacement(rest.len()).unwrap_or(rest.len() * 4 + 16);
        out.reserve(capacity);
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut out, true);
        rest = rest.get(read..).unwrap_or("");
        match result {
            EncoderResult::InputEmpty => return out,
            EncoderResult::OutputFull => {}
            EncoderResult::Unmappable(character) => {
                // `&#1103;`, percent-encoded.
                out.extend_from_slice(format!("%26%23{}%3B", u32::from(character)).as_bytes());
            }
        }
    }
}

impl Normal {
    fn new(url: &Url) -> Self {
        let text = url.as_str();
        let scheme_end = if url.is_https() { "https:".len() } else { "http:".len() };
        let origin_end = text.len() - url.target().len();
        let path_end = origin_end + url.path().len();
        let folder_end = text.get(..path_end).and_then(|text| text.rfind('/')).map_or(path_end, |slash| slash + 1);
        Self { url: url.clone(), scheme_end, origin_end, folder_end, path_end }
    }

    /// The fast path. Returns whether `href` is simple. If it is not, the contents of `out` are meaningless.
    fn resolve(&self, href: &str, out: &mut String) -> bool {
        out.clear();
        let base = self.url.as_str();
        let href = href.trim_matches(|character: char| character <= ' ');
        let href = memchr(b'#', href.as_bytes()).and_then(|hash| href.get(..hash)).unwrap_or(href);
        let bytes = href.as_bytes();
        // How much of the base is kept, and what is appended to it.
        let (kept, rest) = match bytes.first() {
            None => (base.len(), href),
            Some(b'?') => (self.path_end, href),
            Some(b'/') if !matches!(bytes.get(1), Some(b'/' | b'\\')) => {
                (self.origin_end + 1, href.get(1..).unwrap_or(""))
            }
            Some(b'/') => return self.resolve_authority(base.get(..self.scheme_end).unwrap_or(""), href, out),
            Some(b'h') if href.starts_with("https:") => {
                return self.resolve_authority("https:", href.get("https:".len()..).unwrap_or(""), out);
            }
            Some(b'h') if href.starts_with("http:") => {
                return self.resolve_authority("http:", href.get("http:".len()..).unwrap_or(""), out);
            }
            Some(_) => {
                // A colon may end a scheme.
                if bytes.iter().take_while(|&&byte| byte != b'/' && byte != b'?').any(|&byte| byte == b':') {
                    return false;
                }
                (self.folder_end, href)
            }
        };
        out.push_str(base.get(..kept).unwrap_or(""));
        push_target(rest, self.origin_end, out)
    }

    /// The fast path for links with a host. `rest` is the link after its scheme. Returns whether the link is simple: it
    /// must start with `//`, and its authority must be in normal form, or its origin that of the base.
    fn resolve_authority(&self, scheme: &str, rest: &str, out: &mut String) -> bool {
        let Some(after) = rest.strip_prefix("//") else { return false };
        let end = after.bytes().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(after.len());
        let (authority, target) = after.split_at(end);
        // `http:` and `https:` have different lengths, so equal lengths mean the same scheme.
        let has_origin_of_base = scheme.len() == self.scheme_end && authority == self.url.authority();
        if !(has_origin_of_base || is_normal_authority(scheme, authority)) {
            return false;
        }
        out.push_str(scheme);
        out.push_str("//");
        out.push_str(authority);
        let origin_end = out.len();
        out.push('/');
        push_target(target.strip_prefix('/').unwrap_or(target), origin_end, out)
    }
}

/// Whether host and port are in normal form, so that the parser would not change them: a simple name or an IPv4 address
/// in dotted decimal form, and either no port or one that is not the default of the scheme.
fn is_normal_authority(scheme: &str, authority: &str) -> bool {
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    let default_port = if scheme == "https:" { "443" } else { "80" };
    port.is_none_or(|port| port != default_port && is_plain_number(port, u32::from(u16::MAX)))
        && (is_normal_name(host) || is_plain_ipv4(host))
}

/// Whether this is four decimal numbers without leading zeros.
fn is_plain_ipv4(host: &str) -> bool {
    host.split('.').count() == 4 && host.split('.').all(|part| is_plain_number(part, 255))
}

/// Whether this is a decimal number without leading zeros, up to `max`.
fn is_plain_number(text: &str, max: u32) -> bool {
    (1..=5).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'))
        && text.parse::<u32>().is_ok_and(|number| number <= max)
}

/// Whether a host name is in normal form: lower-case labels that IDNA does not process. The last label consists of
/// letters, because a name that ends in a number could be an IPv4 address.
fn is_normal_name(host: &str) -> bool {
    let ends_in_letters = host.rsplit('.').next().is_some_and(|label| label.bytes().all(|b| b.is_ascii_lowercase()));
    // Names that may exceed the limits of DNS (253 bytes, 63 per label) are left to the parser.
    host.len() <= 200
        && ends_in_letters
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && !label.starts_with("xn-")
                && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        })
}

/// The class of a byte on the fast path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Unchanged in a path and in a query.
    Plain,
    Slash,
    Question,
    /// Unchanged in a query. In a path, the parser must handle it, except most escapes: see [`push_target`].
    Query,
    /// Only the parser can handle it.
    Other,
}

/// The class of each byte.
const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => Class::Plain,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':'
            | b'@' => Class::Plain,
            b'/' => Class::Slash,
            b'?' => Class::Question,
            b'%' | b'[' | b']' | b'|' => Class::Query,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> Class {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(Class::Other)
}

/// Appends `target`, a path and a query, to `out`. Returns whether all of it is simple.
///
/// If the target has a path, `out` must end with the slash of the folder that the path is relative to. Otherwise it must
/// end with a complete path. `origin_end` is the start of the path in `out`.
fn push_target(target: &str, origin_end: usize, out: &mut String) -> bool {
    let bytes = target.as_bytes();
    let mut start = 0;
    let mut only_dots = true;
    for (index, &byte) in bytes.iter().enumerate() {
        match class(byte) {
            Class::Plain => only_dots &= byte == b'.',
            Class::Slash => {
                let segment = target.get(start..index).unwrap_or("");
                if only_dots && pops_drive_letter(segment, out) {
                    return false;
                }
                if !(only_dots && push_dots(segment, origin_end, out)) {
                    out.push_str(segment);
                    out.push('/');
                }
                start = index + 1;
                only_dots = true;
            }
            Class::Question => {
                let (segment, query) = (target.get(start..index).unwrap_or(""), target.get(index..).unwrap_or(""));
                if only_dots && pops_drive_letter(segment, out) {
                    return false;
                }
                if !(only_dots && push_dots(segment, origin_end, out)) {
                    out.push_str(segment);
                }
                out.push_str(query);
                return query.bytes().all(|byte| class(byte) != Class::Other);
            }
            // `%2e` counts as a dot, so the parser must resolve it. Other escapes are unchanged.
            Class::Query if byte == b'%' && !is_escaped_dot(bytes, index) => only_dots = false,
            Class::Query | Class::Other => return false,
        }
    }
    let segment = target.get(start..).unwrap_or("");
    if only_dots && pops_drive_letter(segment, out) {
        return false;
    }
    if !(only_dots && push_dots(segment, origin_end, out)) {
        out.push_str(segment);
    }
    true
}

fn is_escaped_dot(bytes: &[u8], percent: usize) -> bool {
    bytes.get(percent + 1..percent + 3).is_some_and(|digits| digits.eq_ignore_ascii_case(b"2e"))
}

/// Whether the segment is `..` after a segment like `/C:/`, which the parser treats in a special way.
fn pops_drive_letter(segment: &str, out: &str) -> bool {
    let is_drive = |path: &[u8]| matches!(path, [.., b'/', letter, b':' | b'|', b'/'] if letter.is_ascii_alphabetic());
    segment == ".." && is_drive(out.as_bytes())
}

/// Resolves `.` and `..`. Returns whether the segment is one of them.
fn push_dots(segment: &str, origin_end: usize, out: &mut String) -> bool {
    match segment {
        "." => true,
        ".." => {
            let parent = out.get(origin_end..out.len().saturating_sub(1)).and_then(|path| path.rfind('/'));
            out.truncate(parent.map_or(origin_end, |slash| origin_end + slash) + 1);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
