//! [`BodyFraming`]: where the body of an answer ends.
//!
//! Invariant: `take` never looks at a byte beyond the end of the body, and keeps no byte: a chunk's line that is cut
//! between two reads lives on as a number and a state. Ambiguity is an error, or ends the connection's life:
//!
//! | fault | treated as |
//! |---|---|
//! | several Content-Length that are equal, byte by byte, also as a list | tolerated |
//! | Content-Length that differ, are empty, signed, too large or not digits | refused |
//! | Transfer-Encoding and Content-Length | chunks win; connection not used again |
//! | Transfer-Encoding: identity, alone | tolerated, as if it were not there |
//! | chunked in HTTP/1.0 | tolerated; connection not used again |
//! | chunked twice or not as the last | refused |
//! | any other transfer coding | refused as `decode`: it was not asked for |
//! | chunk lines that end in a bare LF; blanks after a chunk's size | tolerated |
//! | a chunk size without digits, with more than 16, or with a prefix | refused |
//! | the end of the connection after the last chunk, in the trailers | tolerated: the body is whole |

use crate::outcome::{ErrorKind, Failure};

use super::head::{Head, Version};
use super::limits::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Chunked),
    /// Whatever comes until the connection is closed.
    UntilClose,
}

/// What [`BodyFraming::take`] found at the beginning of some bytes.
pub(super) struct Piece<'a> {
    /// Bytes of the body.
    pub(super) body: &'a [u8],
    /// How many bytes that took, framing included.
    pub(super) used: usize,
}

/// A body in chunks, at some point of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunked {
    state: State,
    /// The size being read, then what is left of the chunk.
    left: u64,
    digits: u8,
    /// Bytes of extensions, then of trailers, so far.
    extra: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    End,
}

/// What a head says about the body and the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyPlan {
    pub(super) framing: BodyFraming,
    /// May the connection be used again after this body?
    pub(super) keep: bool,
}

impl BodyPlan {
    pub(super) fn of(head: &Head) -> Result<Self, Failure> {
        let mut keep = stays_open(head);
        let bodiless = matches!(head.status, 204 | 304);
        let codings = transfer_codings(head)?;
        let framing = if codings {
            keep &= head.version == Version::Http11 && head.get("content-length").is_none() && !bodiless;
            BodyFraming::Chunked(Chunked::new())
        } else if let Some(length) = content_length(head)? {
            // A 204 with a length promises bytes that must not come: whoever sends that may send them.
            keep &= head.status != 204 || length == 0;
            BodyFraming::Length(length)
        } else {
            keep &= bodiless;
            BodyFraming::UntilClose
        };
        let framing = if bodiless { BodyFraming::Length(0) } else { framing };
        Ok(Self { framing, keep })
    }
}

impl BodyFraming {
    /// The next piece of the body in `bytes`; `used` is zero only where `bytes` is empty or the body is over. A fault
    /// comes with the number of bytes up to it, so that it is the same however the bytes were cut.
    pub(super) fn take<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Piece<'a>, (Failure, usize)> {
        match self {
            Self::Length(left) => {
                let body = prefix(bytes, *left);
                *left -= body.len() as u64;
                Ok(Piece { body, used: body.len() })
            }
            Self::Chunked(chunked) => chunked.take(bytes, limits),
            Self::UntilClose => Ok(Piece { body: bytes, used: bytes.len() }),
        }
    }

    /// Is the body whole?
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.state == State::End,
            Self::UntilClose => false,
        }
    }

    /// Is the body whole if the connection ends here?
    pub(super) fn may_end_here(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.is_past_data(),
            Self::UntilClose => true,
        }
    }
}

impl Chunked {
    fn new() -> Self {
        Self { state: State::Size, left: 0, digits: 0, extra: 0 }
    }

    fn is_past_data(&self) -> bool {
        matches!(self.state, State::TrailerStart | State::Trailer | State::TrailerLf | State::LastLf | State::End)
    }

    fn take<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Piece<'a>, (Failure, usize)> {
        let mut used = 0;
        while let Some(&byte) = bytes.get(used) {
            match self.state {
                State::End => break,
                State::Data => {
                    let body = prefix(bytes.get(used..).unwrap_or_default(), self.left);
                    self.left -= body.len() as u64;
                    if self.left == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok(Piece { body, used: used + body.len() });
                }
                _ => self.line(byte, limits).map_err(|failure| (failure, used + 1))?,
            }
            used += 1;
        }
        Ok(Piece { body: &[], used })
    }

    /// Goes on by one byte of a line between chunks.
    fn line(&mut self, byte: u8, limits: &Limits) -> Result<(), Failure> {
        self.state = match (self.state, byte) {
            (State::Size, byte) if byte.is_ascii_hexdigit() => {
                self.digits += 1;
                if self.digits > 16 {
                    return Err(protocol("a chunk size of more than 16 digits"));
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.left = self.left << 4 | u64::from(digit);
                State::Size
            }
            (State::Size, _) if self.digits == 0 => return Err(protocol("a chunk without a size")),
            (State::Size | State::Blank, b' ' | b'\t') => {
                self.count(limits.max_extensions, || extensions(limits))?;
                State::Blank
            }
            (State::Size | State::Blank, b';') => State::Extension,
            (State::Size | State::Blank | State::Extension, b'\r') => State::SizeLf,
            (State::Size | State::Blank | State::Extension | State::SizeLf, b'\n') => {
                self.digits = 0;
                if self.left > 0 {
                    State::Data
                } else {
                    self.extra = 0;
                    State::TrailerStart
                }
            }
            (State::Extension, _) => {
                self.count(limits.max_extensions, || extensions(limits))?;
                State::Extension
            }
            (State::Size | State::Blank, _) => return Err(protocol("a chunk size that is not a number")),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataCr | State::DataLf, b'\n') => State::Size,
            (State::DataCr | State::DataLf, _) => return Err(protocol("a chunk longer than its size")),
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::TrailerStart | State::LastLf, b'\n') => State::End,
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::Trailer | State::TrailerLf, b'\n') => State::TrailerStart,
            (State::TrailerStart | State::Trailer, _) => {
                self.count(limits.max_trailers, || trailers(limits))?;
                State::Trailer
            }
            (State::SizeLf | State::TrailerLf | State::LastLf, _) => {
                return Err(protocol("a line between chunks that ends in CR without LF"));
            }
            (State::Data | State::End, _) => self.state,
        };
        Ok(())
    }

    fn count(&mut self, limit: u32, failure: impl FnOnce() -> Failure) -> Result<(), Failure> {
        self.extra = self.extra.saturating_add(1);
        if self.extra > limit { Err(failure()) } else { Ok(()) }
    }
}

fn extensions(limits: &Limits) -> Failure {
    Failure::new(ErrorKind::Protocol, format!("more than {} bytes of chunk extensions", limits.max_extensions))
}

fn trailers(limits: &Limits) -> Failure {
    Failure::new(ErrorKind::HeaderTooLarge, format!("more than {} bytes of trailer fields", limits.max_trailers))
}

fn protocol(words: &str) -> Failure {
    Failure::new(ErrorKind::Protocol, words)
}

/// As much of `bytes` as `most` allows.
fn prefix(bytes: &[u8], most: u64) -> &[u8] {
    usize::try_from(most).ok().and_then(|most| bytes.get(..most)).unwrap_or(bytes)
}

/// The elements of a comma-separated list over all fields of that name, trimmed.
pub(super) fn list<'a>(head: &'a Head, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    head.get_all(name).flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// Does the server mean to keep the connection open?
fn stays_open(head: &Head) -> bool {
    let mut keep = head.version == Version::Http11;
    for token in list(head, "connection") {
        if token.eq_ignore_ascii_case(b"close") {
            return false;
        }
        keep |= token.eq_ignore_ascii_case(b"keep-alive");
    }
    keep
}

/// Is the body in chunks?
fn transfer_codings(head: &Head) -> Result<bool, Failure> {
    let mut chunked = false;
    let mut identity = false;
    for token in list(head, "transfer-encoding").filter(|token| !token.is_empty()) {
        if chunked {
            return Err(protocol("a transfer coding on top of chunked"));
        }
        if token.eq_ignore_ascii_case(b"chunked") {
            chunked = true;
        } else if token.eq_ignore_ascii_case(b"identity") {
            identity = true;
        } else {
            let name = String::from_utf8_lossy(token);
            return Err(Failure::new(ErrorKind::Decode, format!("transfer coding {name:?} was not asked for")));
        }
    }
    if chunked && identity {
        return Err(protocol("transfer codings chunked and identity at once"));
    }
    Ok(chunked)
}

fn content_length(head: &Head) -> Result<Option<u64>, Failure> {
    let mut elements = list(head, "content-length");
    let Some(first) = elements.next() else { return Ok(None) };
    if elements.any(|other| other != first) {
        return Err(protocol("several values of Content-Length that differ"));
    }
    let length = (!first.is_empty() && first.iter().all(u8::is_ascii_digit))
        .then(|| std::str::from_utf8(first).ok()?.parse().ok())
        .flatten();
    match length {
        Some(length) => Ok(Some(length)),
        None => {
            let shown = String::from_utf8_lossy(first.get(..40).unwrap_or(first));
            Err(protocol(&format!("Content-Length {shown:?} is no length")))
        }
    }
}
