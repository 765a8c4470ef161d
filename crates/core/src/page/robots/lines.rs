//! The lines of a robots.txt, independent of the crawler.
//!
//! Invariant: every line is parsed on its own. An invalid one does not affect the others.

use std::borrow::Cow;

use memchr::memmem;

/// Limit on the bytes of a file that are read. RFC 9309 requires crawlers to read at least this many.
pub const MAX_ROBOTS_BYTES: usize = 500 * 1024;

/// Limit on the length of a line. It is that of Google's parser, whose buffer has 8 * 2083 bytes with the final zero.
pub(crate) const MAX_LINE: usize = 16_663;

/// The record type of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsField {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
    /// A known record that this crawler does not apply, such as `Request-rate`.
    Other,
    /// An unknown record, which `argiope robots` reports.
    Unknown,
}

/// A line with a name and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RobotsLine<'a> {
    /// Line number, from 1. Empty lines count.
    pub number: u32,
    pub field: RobotsField,
    pub name: &'a [u8],
    /// Without surrounding white space and comment. May be empty.
    pub value: &'a [u8],
}

/// An iterator over the lines of a file that have a name and a value.
pub struct RobotsLines<'a> {
    rest: &'a [u8],
    /// Number of the last line that was read.
    number: u32,
}

/// Prepares a file for [`RobotsLines`]. Cuts it at the size limit, removes the byte order mark, converts UTF-16 to
/// UTF-8, and removes the tags of an HTML page. Other encodings keep their bytes.
pub fn prepare(bytes: &[u8]) -> Cow<'_, [u8]> {
    let bytes = match bytes.get(..MAX_ROBOTS_BYTES) {
        Some(head) if bytes.len() > MAX_ROBOTS_BYTES => {
            // A line that is cut by the limit is dropped: a part of a rule means something else.
            let is_last_line_complete = matches!(bytes.get(MAX_ROBOTS_BYTES), Some(b'\n' | b'\r'));
            let end = if is_last_line_complete {
                MAX_ROBOTS_BYTES
            } else {
                head.iter().rposition(|b| is_line_end(*b)).map_or(0, |at| at + 1)
            };
            head.get(..end).unwrap_or_default()
        }
        _ => bytes,
    };
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => Cow::Owned(encoding_rs::UTF_16LE.decode(rest).0.into_owned().into_bytes()),
        [0xfe, 0xff, rest @ ..] => Cow::Owned(encoding_rs::UTF_16BE.decode(rest).0.into_owned().into_bytes()),
        // UTF-16 without a byte order mark: every second byte of ASCII characters is zero.
        [1..=0xff, 0, 1..=0xff, 0, ..] => Cow::Owned(encoding_rs::UTF_16LE.decode(bytes).0.into_owned().into_bytes()),
        [0, 1..=0xff, 0, 1..=0xff, ..] => Cow::Owned(encoding_rs::UTF_16BE.decode(bytes).0.into_owned().into_bytes()),
        // Some editors leave a part of the byte order mark.
        [0xef, 0xbb, 0xbf, rest @ ..] | [0xef, 0xbb, rest @ ..] | [0xef, rest @ ..] => Cow::Borrowed(rest),
        _ => Cow::Borrowed(bytes),
    };
    if is_html(&text) { Cow::Owned(without_tags(&text)) } else { text }
}

/// Whether the file is an HTML page. Pages have one of these tags near their start.
fn is_html(text: &[u8]) -> bool {
    const SEARCHED_BYTES: usize = 2048;
    let head = text.get(..SEARCHED_BYTES).unwrap_or(text).to_ascii_lowercase();
    [&b"<html"[..], b"<head", b"<body"].into_iter().any(|tag| memmem::find(&head, tag).is_some())
}

/// Removes the text from `<` to `>` where both are on the same line, so that line numbers do not change.
fn without_tags(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|b| is_line_end(*b)) {
        let mut rest = line;
        while let Some(start) = memchr::memchr(b'<', rest) {
            let (before, tag) = rest.split_at(start);
            let Some(end) = memchr::memchr(b'>', tag) else { break };
            out.extend_from_slice(before);
            rest = tag.get(end + 1..).unwrap_or_default();
        }
        out.extend_from_slice(rest);
    }
    out
}

impl<'a> RobotsLines<'a> {
    /// Iterates over a text that [`prepare`] returned.
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text, number: 0 }
    }
}

impl<'a> Iterator for RobotsLines<'a> {
    type Item = RobotsLine<'a>;

    fn next(&mut self) -> Option<RobotsLine<'a>> {
        while !self.rest.is_empty() {
            let end = memchr::memchr2(b'\n', b'\r', self.rest).unwrap_or(self.rest.len());
            let (line, rest) = self.rest.split_at(end);
            self.rest = match rest {
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => rest,
            };
            self.number = self.number.saturating_add(1);
            if let Some((name, value)) = name_and_value(line.get(..MAX_LINE).unwrap_or(line)) {
                return Some(RobotsLine { number: self.number, field: classify(name, value), name, value });
            }
        }
        None
    }
}

/// Splits `name: value`, or the common mistake `name value` if the line has exactly two words.
fn name_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.split(|b| *b == b'#').next().unwrap_or(line).trim_ascii();
    let (name, value) = if let Some(colon) = memchr::memchr(b':', line) {
        (line.get(..colon)?, line.get(colon + 1..)?)
    } else {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let two = (words.next()?, words.next()?);
        if words.next().is_some() {
            return None;
        }
        two
    };
    let name = name.trim_ascii();
    (!name.is_empty()).then_some((name, value.trim_ascii()))
}

fn classify(name: &[u8], value: &[u8]) -> RobotsField {
    /// Known names, with common misspellings of some.
    const NAMES: &[(RobotsField, &[&str])] = &[
        (RobotsField::UserAgent, &["user-agent", "useragent", "user agent", "user_agent", "user-agents", "useg-agent"]),
        (RobotsField::Allow, &["allow"]),
        (
            RobotsField::Disallow,
            &["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw", "desallow", "disllow"],
        ),
        (RobotsField::CrawlDelay, &["crawl-delay", "crawldelay", "crawl delay"]),
        (RobotsField::Sitemap, &["sitemap", "site-map", "sitemaps"]),
        (
            RobotsField::Other,
            &[
                "clean-param",
                "comment",
                "content-signal",
                "content-usage",
                "host",
                "no-index",
                "noarchive",
                "noindex",
                "nofollow",
                "request-rate",
                "robot-version",
                "visit-time",
            ],
        ),
    ];
    for (field, names) in NAMES {
        if names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
            return *field;
        }
    }
    match name.get(..5) {
        // Records of the Automated Content Access Protocol.
        Some(head) if head.eq_ignore_ascii_case(b"acap-") => RobotsField::Other,
        _ if is_bare_sitemap(name, value) => RobotsField::Sitemap,
        _ => RobotsField::Unknown,
    }
}

/// Whether a record that RFC 9309 does not define applies to every crawler, wherever it occurs.
pub(super) fn is_global(name: &[u8]) -> bool {
    ["content-signal", "content-signals", "host", "llm-policy"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// The name of a record in lower case and in its most common spelling.
pub(super) fn canonical_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    match name.as_str() {
        "content-signals" => "content-signal".to_owned(),
        "no-index" => "noindex".to_owned(),
        _ => name,
    }
}

/// Whether the line is the URL of a sitemap without `Sitemap:` before it. Such a line is parsed as a record
/// named `http` or `https`.
fn is_bare_sitemap(name: &[u8], value: &[u8]) -> bool {
    let is_scheme = name.eq_ignore_ascii_case(b"http") || name.eq_ignore_ascii_case(b"https");
    is_scheme && value.starts_with(b"//") && memmem::find(value, b"sitemap").is_some()
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
