//! [`Head`]: status line and header fields of a response, as received.
//!
//! Invariant: a `Head` of HTTP/1.1 holds the exact bytes and an index into them. Fields are not interpreted, and only
//! folded values are copied. A head of HTTP/2 holds its fields, and is written in HTTP/1.1 syntax only if an output needs
//! it ([`Head::text`]). This is the only place that decides which faults of HTTP/1.1 are tolerated:
//!
//! | fault | treated as |
//! |---|---|
//! | lines that end in a bare LF, also mixed with CRLF | tolerated |
//! | a missing reason phrase, with or without the space before it | tolerated |
//! | bytes above 0x7f in the reason or in a value | tolerated, kept |
//! | additional spaces or tabs around a value or in the reason | tolerated, values are trimmed |
//! | a value folded over several lines (obs-fold) | tolerated, joined by one space |
//! | control characters other than NUL and CR in a value | tolerated, kept and marked |
//! | a field name with a blank or other bytes that a token may not have | the field is dropped and the head marked |
//! | such a name that resembles Content-Length or Transfer-Encoding | refused |
//! | anything before `HTTP/1.` (empty lines too), other versions, HTTP/0.9 | refused |
//! | a status that is not three digits, or below 100 | refused |
//! | a space before the first field, or around the version | refused |
//! | a field without colon, without name | refused |
//! | NUL; CR that is not followed by LF | refused |

use std::borrow::Cow;
use std::mem::MaybeUninit;

use crate::base::outcome::{ErrorKind, Failure};

use super::limits::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// Header names and values as text, in order.
pub type Headers = Vec<(Box<str>, Box<str>)>;

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Head {
    pub status: u16,
    pub version: Version,
    /// A field was dropped because of its malformed name.
    pub has_dropped_fields: bool,
    /// A value, or a dropped field, contains control characters.
    pub has_controls: bool,
    /// The head as received, followed by the unfolded copies of folded values. In HTTP/2, the names and values.
    bytes: Box<[u8]>,
    /// The number of bytes in `bytes` that were received in HTTP/1.1 syntax; zero in HTTP/2.
    received: u32,
    fields: Box<[Field]>,
}

/// The position of one field in the bytes of its head.
#[derive(Clone, Copy, Debug)]
struct Field {
    name_start: u32,
    name_len: u32,
    value_start: u32,
    value_len: u32,
}

/// The fields of a head of HTTP/2, in order. The caller has checked them: a value contains no control character.
#[derive(Default)]
pub(crate) struct HeadFields {
    bytes: Vec<u8>,
    fields: Vec<Field>,
}

impl HeadFields {
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let value = value.trim_ascii();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.fields.push(Field {
            name_start: start as u32,
            name_len: name.len() as u32,
            value_start: (start + name.len()) as u32,
            value_len: value.len() as u32,
        });
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

/// The result of parsing a head.
pub(super) enum ParsedHead {
    /// The head and its length.
    Whole(Head, usize),
    Partial,
}

/// The first bytes of every head.
const OPENING: &[u8] = b"HTTP/1.";

/// Heads with up to this many fields are parsed without a heap allocation for the parser.
const USUAL_FIELDS: usize = 64;

impl Head {
    /// The first value of this field.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields
            .iter()
            .find(|field| self.is_named(field, name))
            .map(|field| self.slice(field.value_start, field.value_len))
    }

    /// All values of this field, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.fields
            .iter()
            .filter(move |field| self.is_named(field, name))
            .map(|field| self.slice(field.value_start, field.value_len))
    }

    /// All fields as (name, value), in order, names as received.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|field| (self.slice(field.name_start, field.name_len), self.slice(field.value_start, field.value_len)))
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The head of HTTP/2 with this status and these fields.
    pub(crate) fn from_fields(status: u16, fields: HeadFields) -> Self {
        Self {
            status,
            version: Version::Http11,
            has_dropped_fields: false,
            has_controls: false,
            bytes: fields.bytes.into(),
            received: 0,
            fields: fields.fields.into(),
        }
    }

    /// The head in HTTP/1.1 syntax, including the empty line at the end: the exact bytes as received, or written from
    /// the fields of HTTP/2.
    pub fn text(&self) -> Cow<'_, [u8]> {
        if self.received > 0 {
            return Cow::Borrowed(self.slice(0, self.received));
        }
        let mut text = Vec::with_capacity(self.size());
        text.extend_from_slice(format!("HTTP/1.1 {:03} \r\n", self.status).as_bytes());
        for (name, value) in self.iter() {
            [name, b": ", value, b"\r\n"].into_iter().for_each(|part| text.extend_from_slice(part));
        }
        text.extend_from_slice(b"\r\n");
        Cow::Owned(text)
    }

    /// The length of [`Head::text`].
    pub fn size(&self) -> usize {
        match self.received {
            0 => "HTTP/1.1 200 \r\n\r\n".len() + self.bytes.len() + self.fields.len() * ": \r\n".len(),
            received => received as usize,
        }
    }

    /// Checks the number of fields, in HTTP/2.
    pub(super) fn check_count(&self, limits: &Limits) -> Result<(), Failure> {
        if self.counted_fields() <= limits.max_headers {
            return Ok(());
        }
        Err(explain(httparse::Error::TooManyHeaders, limits))
    }

    /// The number of fields that count towards `max_headers`. Set-Cookie does not count: ordinary hosts send many,
    /// `max_head` limits their bytes, and only a few of them are parsed.
    fn counted_fields(&self) -> usize {
        self.fields.iter().filter(|field| !self.is_named(field, "set-cookie")).count()
    }

    fn is_named(&self, field: &Field, name: &str) -> bool {
        field.name_len as usize == name.len()
            && self.slice(field.name_start, field.name_len).eq_ignore_ascii_case(name.as_bytes())
    }

    fn slice(&self, start: u32, len: u32) -> &[u8] {
        let start = start as usize;
        self.bytes.get(start..start + len as usize).unwrap_or_default()
    }

    /// Reads a head from the beginning of `bytes`.
    pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<ParsedHead, Failure> {
        check_opening(bytes)?;
        let mut slots = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
        let usual = USUAL_FIELDS.min(limits.max_headers);
        match parse_into(bytes, slots.get_mut(..usual).unwrap_or_default(), limits) {
            // Parse again with enough slots for all allowed fields. Set-Cookie fields need slots but are not counted.
            Err(httparse::Error::TooManyHeaders) => {
                let mut slots =
                    vec![MaybeUninit::uninit(); limits.max_headers.saturating_add(max_set_cookies(bytes, limits))];
                let parsed = parse_into(bytes, &mut slots, limits);
                match &parsed {
                    Ok(ParsedHead::Whole(head, _)) if head.counted_fields() > limits.max_headers => {
                        Err(httparse::Error::TooManyHeaders)
                    }
                    _ => parsed,
                }
            }
            result => result,
        }
        .or_else(|fault| match fault {
            httparse::Error::HeaderName | httparse::Error::HeaderValue => parse_leniently(bytes, limits),
            fault => Err(explain(fault, limits)),
        })
        .and_then(|parsed| match parsed {
            ParsedHead::Partial if bytes.len() > limits.max_head => Err(too_long(limits)),
            ParsedHead::Whole(_, used) if used > limits.max_head => Err(too_long(limits)),
            ParsedHead::Whole(head, _) if head.status < 100 => {
                Err(Failure::new(ErrorKind::Protocol, format!("{:03} is not a status", head.status)))
            }
            parsed => Ok(parsed),
        })
    }

    /// Builds a head from the result of `httparse`, whose names and values are slices of `raw`.
    fn build(response: &httparse::Response<'_, '_>, raw: &[u8]) -> Self {
        let base = raw.as_ptr().addr();
        let offset = |part: &[u8]| part.as_ptr().addr().wrapping_sub(base) as u32;
        let fields = response
            .headers
            .iter()
            .map(|header| Field {
                name_start: offset(header.name.as_bytes()),
                name_len: header.name.len() as u32,
                value_start: offset(header.value),
                value_len: header.value.len() as u32,
            })
            .collect();
        Self::assemble(response, raw, fields)
    }

    /// Builds a head from the positions of its fields. Folded values are unfolded.
    fn assemble(response: &httparse::Response<'_, '_>, raw: &[u8], mut fields: Box<[Field]>) -> Self {
        let mut unfolded = Vec::new();
        for field in &mut fields {
            let start = field.value_start as usize;
            let value = raw.get(start..start + field.value_len as usize).unwrap_or_default();
            if memchr::memchr(b'\n', value).is_some() {
                let start = raw.len() + unfolded.len();
                unfold(value, &mut unfolded);
                field.value_start = start as u32;
                field.value_len = (raw.len() + unfolded.len() - start) as u32;
            }
        }
        let bytes = if unfolded.is_empty() { Box::from(raw) } else { [raw, &unfolded].concat().into_boxed_slice() };
        Self {
            status: response.code.unwrap_or_default(),
            version: if response.version == Some(0) { Version::Http10 } else { Version::Http11 },
            has_dropped_fields: false,
            has_controls: false,
            bytes,
            received: raw.len() as u32,
            fields,
        }
    }
}

/// Parses a head with field names or values that `httparse` refuses and browsers accept.
fn parse_leniently(bytes: &[u8], limits: &Limits) -> Result<ParsedHead, Failure> {
    let protocol = |message: &str| Failure::new(ErrorKind::Protocol, message);
    // One byte more than the limit: enough to distinguish "too long" from "just fits".
    let bytes = bytes.get(..limits.max_head.saturating_add(1)).unwrap_or(bytes);
    let Some(status_end) = memchr::memchr(b'\n', bytes) else { return Ok(ParsedHead::Partial) };
    let mut fields: Vec<Field> = Vec::new();
    let (mut dropped, mut is_dropping, mut has_controls) = (0, false, false);
    let mut at = status_end + 1;
    let end = loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(length) = memchr::memchr(b'\n', rest) else { return Ok(ParsedHead::Partial) };
        let line = rest.get(..length).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (start, next) = (at, at + length + 1);
        at = next;
        if line.is_empty() {
            break next;
        }
        if line.iter().any(|byte| matches!(byte, 0 | b'\r')) {
            return Err(protocol("a header field with NUL, or with CR without LF"));
        }
        has_controls |= line.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f);
        // The line continues the field before it. If that field is dropped, so is this line.
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            match fields.last_mut() {
                _ if is_dropping => {}
                Some(field) => field.value_len = (start + line.len()) as u32 - field.value_start,
                None => return Err(protocol("a space before the first header field")),
            }
            continue;
        }
        let Some(colon) = memchr::memchr(b':', line).filter(|colon| *colon > 0) else {
            return Err(protocol("a header field without colon or without name"));
        };
        let (name, value) = line.split_at(colon);
        is_dropping = !name.iter().all(|byte| is_token(*byte));
        if is_dropping {
            if names_framing(name) {
                return Err(protocol("a malformed Content-Length or Transfer-Encoding field"));
            }
            dropped += 1;
            continue;
        }
        let value = value.get(1..).unwrap_or_default();
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let first = value.iter().position(|byte| !is_blank(byte)).unwrap_or(value.len());
        let last = value.iter().rposition(|byte| !is_blank(byte)).map_or(first, |last| last + 1);
        fields.push(Field {
            name_start: start as u32,
            name_len: colon as u32,
            value_start: (start + colon + 1 + first) as u32,
            value_len: (last - first) as u32,
        });
    };
    // The status line alone is a complete head once an empty line follows it.
    let status_line = [bytes.get(..=status_end).unwrap_or_default(), b"\r\n"].concat();
    let mut response = httparse::Response::new(&mut []);
    response.parse(&status_line).map_err(|fault| explain(fault, limits))?;
    let mut head = Head::assemble(&response, bytes.get(..end).unwrap_or(bytes), fields.into());
    (head.has_dropped_fields, head.has_controls) = (dropped > 0, has_controls);
    if head.counted_fields() + dropped > limits.max_headers {
        return Err(explain(httparse::Error::TooManyHeaders, limits));
    }
    Ok(ParsedHead::Whole(head, end))
}

/// True for the bytes that a field name may contain (RFC 9110, 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// True if a malformed name has the letters of a field that frames the message.
fn names_framing(name: &[u8]) -> bool {
    let letters = || name.iter().filter(|byte| byte.is_ascii_alphabetic()).map(u8::to_ascii_lowercase);
    ["contentlength", "transferencoding"].iter().any(|framing| letters().eq(framing.bytes()))
}

/// Refuses bytes that cannot begin an HTTP head, at the first wrong byte, so that a fetch does not wait for more.
pub(super) fn check_opening(bytes: &[u8]) -> Result<(), Failure> {
    const SHOWN: usize = 24;
    if bytes.iter().zip(OPENING).all(|(have, want)| have == want) {
        return Ok(());
    }
    let shown: String = bytes.iter().take(SHOWN).flat_map(|byte| byte.escape_ascii()).map(char::from).collect();
    Err(Failure::new(ErrorKind::Protocol, format!("the response does not begin with HTTP/1.x but with \"{shown}\"")))
}

/// The length of the head at the start of `bytes`; `None` if its end is missing. The first `searched` bytes do not
/// contain its end.
pub(super) fn end_of_head(bytes: &[u8], searched: usize) -> Option<usize> {
    // The end may have begun within the searched bytes, with LF or LF CR.
    let from = searched.saturating_sub(2);
    for at in memchr::memchr_iter(b'\n', bytes.get(from..)?) {
        let after = from + at + 1;
        match bytes.get(after) {
            Some(b'\n') => return Some(after + 1),
            Some(b'\r') if bytes.get(after + 1) == Some(&b'\n') => return Some(after + 2),
            _ => {}
        }
    }
    None
}

pub(super) fn too_long(limits: &Limits) -> Failure {
    Failure::new(ErrorKind::HeaderTooLarge, format!("the head is longer than {} bytes", limits.max_head))
}

/// Parses a head with `httparse`, which stores its fields in `slots`.
fn parse_into<'b>(
    bytes: &'b [u8],
    slots: &mut [MaybeUninit<httparse::Header<'b>>],
    limits: &Limits,
) -> Result<ParsedHead, httparse::Error> {
    // One byte more than the limit: enough to distinguish "too long" from "just fits".
    let bytes = bytes.get(..limits.max_head.saturating_add(1)).unwrap_or(bytes);
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let mut response = httparse::Response::new(&mut []);
    Ok(match config.parse_response_with_uninit_headers(&mut response, bytes, slots)? {
        httparse::Status::Partial => ParsedHead::Partial,
        httparse::Status::Complete(used) => {
            ParsedHead::Whole(Head::build(&response, bytes.get(..used).unwrap_or(bytes)), used)
        }
    })
}

/// An upper bound of the number of `Set-Cookie` fields.
fn max_set_cookies(bytes: &[u8], limits: &Limits) -> usize {
    const NAME: &[u8] = b"set-cookie:";
    let bytes = bytes.get(..limits.max_head).unwrap_or(bytes);
    let is_set_cookie = |line: &&[u8]| line.get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME));
    bytes.split(|byte| *byte == b'\n').filter(is_set_cookie).count()
}

fn explain(fault: httparse::Error, limits: &Limits) -> Failure {
    let message = match fault {
        httparse::Error::TooManyHeaders => {
            let message = format!("more than {} header fields", limits.max_headers);
            return Failure::new(ErrorKind::HeaderTooLarge, message);
        }
        httparse::Error::HeaderName => "a header field with a malformed name, or without colon",
        httparse::Error::HeaderValue => "a header field with a control character in its value",
        httparse::Error::NewLine => "a line of the head that ends in CR without LF",
        httparse::Error::Status => "a malformed status line",
        httparse::Error::Token => "a malformed status line",
        httparse::Error::Version => "an unknown version of HTTP",
    };
    Failure::new(ErrorKind::Protocol, message)
}

/// Joins the lines of a folded value with one space each.
fn unfold(value: &[u8], into: &mut Vec<u8>) {
    let start = into.len();
    for line in value.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if !line.is_empty() {
            if into.len() > start {
                into.push(b' ');
            }
            into.extend_from_slice(line);
        }
    }
}
