//! [`Head`]: status line and header fields of an answer, as received.
//!
//! Invariant: a `Head` keeps the exact bytes and an index into them; nothing is copied per field, nothing is
//! interpreted. What is tolerated and what is refused is decided here and nowhere else:
//!
//! | fault | treated as |
//! |---|---|
//! | lines that end in a bare LF, also mixed with CRLF | tolerated |
//! | no reason phrase, with or without the space before it | tolerated |
//! | bytes above 0x7f in the reason or in a value | tolerated, kept as they are |
//! | more spaces or tabs around a value or in the reason | tolerated, values are trimmed |
//! | a value folded over several lines (obs-fold) | tolerated, joined by one space |
//! | anything before `HTTP/1.` (empty lines too), other versions, HTTP/0.9 | refused |
//! | a status that is not three digits, or below 100 | refused |
//! | a space in or after a field name, before the first field, or around the version | refused |
//! | a field without colon, without name | refused |
//! | CR that is not followed by LF, NUL and other controls | refused |

use std::mem::MaybeUninit;

use crate::outcome::{ErrorKind, Failure};

use super::limits::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    pub status: u16,
    pub version: Version,
    /// The head as received; after it, values that had to be unfolded.
    bytes: Box<[u8]>,
    /// How many of `bytes` were received.
    received: u32,
    fields: Box<[Field]>,
}

/// Where in a head's bytes one field stands.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: u32,
    name_len: u32,
    value: u32,
    value_len: u32,
}

/// What became of an attempt to read a head.
pub(super) enum ParsedHead {
    /// The head, and how many bytes it took.
    Whole(Head, usize),
    Partial,
}

/// What every head begins with.
const OPENING: &[u8] = b"HTTP/1.";

/// Heads with up to this many fields are parsed without asking for memory for the parser.
const USUAL_FIELDS: usize = 64;

impl Head {
    /// The first value of this field.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields
            .iter()
            .find(|field| self.is_named(field, name))
            .map(|field| self.slice(field.value, field.value_len))
    }

    /// All values of this field, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.fields
            .iter()
            .filter(move |field| self.is_named(field, name))
            .map(|field| self.slice(field.value, field.value_len))
    }

    /// All fields as (name, value), in order, names as they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|field| (self.slice(field.name, field.name_len), self.slice(field.value, field.value_len)))
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The exact bytes as received, with the empty line at the end.
    pub fn raw(&self) -> &[u8] {
        self.slice(0, self.received)
    }

    /// How many fields count towards the limit. Cookies come in crowds, from honest hosts too; there is a limit on their
    /// bytes, and only a few of them are ever looked at.
    fn counted(&self) -> usize {
        self.fields.iter().filter(|field| !self.is_named(field, "set-cookie")).count()
    }

    fn is_named(&self, field: &Field, name: &str) -> bool {
        field.name_len as usize == name.len()
            && self.slice(field.name, field.name_len).eq_ignore_ascii_case(name.as_bytes())
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
            Err(httparse::Error::TooManyHeaders) if limits.max_headers > usual => {
                let mut slots =
                    vec![MaybeUninit::uninit(); limits.max_headers.saturating_add(cookie_lines(bytes, limits))];
                let parsed = parse_into(bytes, &mut slots, limits);
                match &parsed {
                    Ok(ParsedHead::Whole(head, _)) if head.counted() > limits.max_headers => {
                        Err(httparse::Error::TooManyHeaders)
                    }
                    _ => parsed,
                }
            }
            result => result,
        }
        .map_err(|fault| explain(fault, limits))
        .and_then(|parsed| match parsed {
            ParsedHead::Partial if bytes.len() > limits.max_head => Err(too_long(limits)),
            ParsedHead::Whole(_, used) if used > limits.max_head => Err(too_long(limits)),
            ParsedHead::Whole(head, _) if head.status < 100 => {
                Err(Failure::new(ErrorKind::Protocol, format!("status {:03} is none", head.status)))
            }
            parsed => Ok(parsed),
        })
    }

    fn build(response: &httparse::Response<'_, '_>, raw: &[u8]) -> Self {
        let base = raw.as_ptr().addr();
        let place = |part: &[u8]| part.as_ptr().addr().wrapping_sub(base) as u32;
        let mut unfolded = Vec::new();
        let fields = response
            .headers
            .iter()
            .map(|header| {
                let (value, value_len) = if memchr::memchr(b'\n', header.value).is_some() {
                    let start = raw.len() + unfolded.len();
                    unfold(header.value, &mut unfolded);
                    (start as u32, (raw.len() + unfolded.len() - start) as u32)
                } else {
                    (place(header.value), header.value.len() as u32)
                };
                Field { name: place(header.name.as_bytes()), name_len: header.name.len() as u32, value, value_len }
            })
            .collect();
        let bytes = if unfolded.is_empty() { Box::from(raw) } else { [raw, &unfolded].concat().into_boxed_slice() };
        Self {
            status: response.code.unwrap_or_default(),
            version: if response.version == Some(0) { Version::Http10 } else { Version::Http11 },
            bytes,
            received: raw.len() as u32,
            fields,
        }
    }
}

/// Tells garbage from a beginning head at the first byte that differs, so that nobody waits for the rest of it.
pub(super) fn check_opening(bytes: &[u8]) -> Result<(), Failure> {
    if bytes.iter().zip(OPENING).all(|(have, want)| have == want) {
        return Ok(());
    }
    let shown: String = bytes.iter().take(24).flat_map(|byte| byte.escape_ascii()).map(char::from).collect();
    Err(Failure::new(ErrorKind::Protocol, format!("the answer does not begin with HTTP/1.x but with \"{shown}\"")))
}

/// Where the head that begins `bytes` ends, if its end is there. `from` says how far was searched before.
pub(super) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(2);
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

fn parse_into<'b>(
    bytes: &'b [u8],
    slots: &mut [MaybeUninit<httparse::Header<'b>>],
    limits: &Limits,
) -> Result<ParsedHead, httparse::Error> {
    // One byte more than is allowed: enough to tell "too long" from "just fits".
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

/// At least as many as there are `Set-Cookie` fields.
fn cookie_lines(bytes: &[u8], limits: &Limits) -> usize {
    const NAME: &[u8] = b"set-cookie:";
    let bytes = bytes.get(..limits.max_head).unwrap_or(bytes);
    let is_one = |line: &&[u8]| line.get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME));
    bytes.split(|byte| *byte == b'\n').filter(is_one).count()
}

fn explain(fault: httparse::Error, limits: &Limits) -> Failure {
    let words = match fault {
        httparse::Error::TooManyHeaders => {
            let words = format!("more than {} header fields", limits.max_headers);
            return Failure::new(ErrorKind::HeaderTooLarge, words);
        }
        httparse::Error::HeaderName => "a header field with a malformed name, or without colon",
        httparse::Error::HeaderValue => "a header field with a control character in its value",
        httparse::Error::NewLine => "a line of the head that ends in CR without LF",
        httparse::Error::Status => "a malformed status line",
        httparse::Error::Token => "a malformed status line",
        httparse::Error::Version => "an unknown version of HTTP",
    };
    Failure::new(ErrorKind::Protocol, words)
}

/// Joins the lines of a folded value by one space each.
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
