//! [`BodyFraming`]: where the body of a response ends.
//!
//! Invariant: `take` never reads beyond the end of the body. It buffers nothing: for a chunk line that is split across
//! reads, it stores a number and a state. Ambiguous framing is an error, or at least prevents reuse of the connection:
//!
//! | fault | treated as |
//! |---|---|
//! | several values of Content-Length, as fields or as a list, that are equal byte by byte | tolerated |
//! | values of Content-Length that differ; a value that is empty, signed, too large or not digits | refused |
//! | Transfer-Encoding and Content-Length | chunked wins; connection not reused |
//! | Transfer-Encoding: identity, alone | ignored |
//! | chunked more than once, or together with identity | chunked once; connection not reused |
//! | chunked in HTTP/1.0 | tolerated; connection not reused |
//! | any other transfer coding | refused as `decode` (none is requested); as `protocol` if it comes after chunked |
//! | chunk lines that end in a bare LF; blanks after a chunk size | tolerated |
//! | a chunk size without digits, with more than 16 digits, or with the prefix `0x` | broken: earlier chunks are kept |
//! | more chunk extensions or trailers than the limits allow | refused |
//! | end of the connection after the last chunk, within the trailers | tolerated: the body is complete |

use crate::base::outcome::{ErrorKind, Failure};

use super::head::{Head, Version};
use super::limits::Limits;

/// At most this many bytes of a server's text are quoted in a message.
pub(super) const MAX_QUOTED: usize = 40;

/// How the end of a body is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// This many bytes are still to come.
    Length(u64),
    Chunked(Chunked),
    /// Everything up to the end of the connection.
    UntilClose,
}

/// The next piece of a body, as returned by [`BodyFraming::take`].
pub(super) struct Piece<'a> {
    /// Bytes of the body.
    pub(super) body: &'a [u8],
    /// Bytes consumed, framing included.
    pub(super) used: usize,
}

/// A framing error.
pub(super) struct FramingError {
    pub(super) failure: Failure,
    /// Bytes up to and including the faulty one. They are counted, so that the result does not depend on how the input
    /// was split.
    pub(super) used: usize,
    /// True if the framing is malformed: the body up to here is kept. False if a limit was exceeded: the body is not
    /// kept.
    pub(super) keeps_body: bool,
}

/// The state of the chunked decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunked {
    state: State,
    /// While a chunk size is being read: its value so far. In a chunk: its bytes that are still to come.
    left: u64,
    /// Digits of the chunk size so far.
    digits: u8,
    /// Bytes of chunk extensions, and of blanks after chunk sizes, so far. After the last chunk: bytes of trailers.
    extra_bytes: u32,
}

/// What the next byte belongs to. `DataCr` expects the end of the line after a chunk. `...Lf` states expect the line
/// feed after a CR; `LastLf` expects that of the empty line which ends the body.
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

/// The framing of the body and the reuse of the connection, according to a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyPlan {
    pub(super) framing: BodyFraming,
    /// The connection may be reused after this body.
    pub(super) may_reuse: bool,
}

impl BodyPlan {
    /// `is_head_request`: the request was HEAD.
    pub(super) fn of(head: &Head, is_head_request: bool) -> Result<Self, Failure> {
        let mut may_reuse = stays_open(head);
        if is_head_request {
            return Ok(Self { framing: BodyFraming::Length(0), may_reuse });
        }
        let is_bodiless = matches!(head.status, 204 | 304);
        let transfer = transfer_coding(head)?;
        let framing = if transfer != TransferCoding::None {
            let is_clean = transfer == TransferCoding::Chunked && head.get("content-length").is_none();
            may_reuse &= head.version == Version::Http11 && is_clean && !is_bodiless;
            BodyFraming::Chunked(Chunked::new())
        } else if let Some(length) = content_length(head)? {
            // A 204 must not have a body. A server that announces one may also send it, so do not reuse the connection.
            may_reuse &= head.status != 204 || length == 0;
            BodyFraming::Length(length)
        } else {
            may_reuse &= is_bodiless;
            BodyFraming::UntilClose
        };
        let framing = if is_bodiless { BodyFraming::Length(0) } else { framing };
        Ok(Self { framing, may_reuse })
    }
}

impl BodyFraming {
    /// Returns the next piece of the body in `bytes`. `used` is zero only if `bytes` is empty or the body is complete.
    pub(super) fn take<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Piece<'a>, FramingError> {
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

    /// True if the body is complete.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.state == State::End,
            Self::UntilClose => false,
        }
    }

    /// True if the body counts as complete when the connection is closed here.
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
        Self { state: State::Size, left: 0, digits: 0, extra_bytes: 0 }
    }

    /// True after the last chunk.
    fn is_past_data(&self) -> bool {
        matches!(self.state, State::TrailerStart | State::Trailer | State::TrailerLf | State::LastLf | State::End)
    }

    fn take<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Piece<'a>, FramingError> {
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
                _ => self.take_line_byte(byte, limits).map_err(|fault| FramingError { used: used + 1, ..fault })?,
            }
            used += 1;
        }
        Ok(Piece { body: &[], used })
    }

    /// Consumes one byte outside of chunk data. The caller sets `used` of an error.
    fn take_line_byte(&mut self, byte: u8, limits: &Limits) -> Result<(), FramingError> {
        self.state = match (self.state, byte) {
            (State::Size, byte) if byte.is_ascii_hexdigit() => {
                self.digits += 1;
                // 16 hexadecimal digits fill `left`.
                if self.digits > 16 {
                    return Err(malformed("a chunk size of more than 16 digits"));
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.left = self.left << 4 | u64::from(digit);
                State::Size
            }
            (State::Size, _) if self.digits == 0 => return Err(malformed("a chunk without a size")),
            (State::Size | State::Blank, b' ' | b'\t') => {
                self.count_extra(limits.max_extensions, || too_many_extensions(limits))?;
                State::Blank
            }
            (State::Size | State::Blank, b';') => State::Extension,
            (State::Size | State::Blank | State::Extension, b'\r') => State::SizeLf,
            (State::Size | State::Blank | State::Extension | State::SizeLf, b'\n') => {
                self.digits = 0;
                if self.left > 0 {
                    State::Data
                } else {
                    self.extra_bytes = 0;
                    State::TrailerStart
                }
            }
            (State::Extension, _) => {
                self.count_extra(limits.max_extensions, || too_many_extensions(limits))?;
                State::Extension
            }
            (State::Size | State::Blank, _) => return Err(malformed("a chunk size that is not a number")),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataCr | State::DataLf, b'\n') => State::Size,
            (State::DataCr | State::DataLf, _) => return Err(malformed("a chunk longer than its size")),
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::TrailerStart | State::LastLf, b'\n') => State::End,
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::Trailer | State::TrailerLf, b'\n') => State::TrailerStart,
            (State::TrailerStart | State::Trailer, _) => {
                self.count_extra(limits.max_trailers, || too_many_trailers(limits))?;
                State::Trailer
            }
            (State::SizeLf | State::TrailerLf | State::LastLf, _) => {
                return Err(malformed("a chunk size or trailer line that ends in CR without LF"));
            }
            // The caller handles these states.
            (State::Data | State::End, _) => self.state,
        };
        Ok(())
    }

    /// Counts one byte of extensions or trailers.
    fn count_extra(&mut self, limit: u32, failure: impl FnOnce() -> Failure) -> Result<(), FramingError> {
        self.extra_bytes = self.extra_bytes.saturating_add(1);
        if self.extra_bytes > limit {
            Err(FramingError { failure: failure(), used: 0, keeps_body: false })
        } else {
            Ok(())
        }
    }
}

fn too_many_extensions(limits: &Limits) -> Failure {
    Failure::new(ErrorKind::Protocol, format!("more than {} bytes of chunk extensions", limits.max_extensions))
}

fn too_many_trailers(limits: &Limits) -> Failure {
    Failure::new(ErrorKind::HeaderTooLarge, format!("more than {} bytes of trailer fields", limits.max_trailers))
}

fn protocol(message: &str) -> Failure {
    Failure::new(ErrorKind::Protocol, message)
}

fn malformed(message: &str) -> FramingError {
    FramingError { failure: protocol(message), used: 0, keeps_body: true }
}

/// The first `count` bytes, or all if there are fewer.
fn prefix(bytes: &[u8], count: u64) -> &[u8] {
    usize::try_from(count).ok().and_then(|count| bytes.get(..count)).unwrap_or(bytes)
}

/// The elements of the comma-separated lists in all fields of this name, trimmed.
pub(super) fn list_elements<'a>(head: &'a Head, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    head.get_all(name).flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// True if the server intends to keep the connection open.
fn stays_open(head: &Head) -> bool {
    let mut stays_open = head.version == Version::Http11;
    for token in list_elements(head, "connection") {
        if token.eq_ignore_ascii_case(b"close") {
            return false;
        }
        stays_open |= token.eq_ignore_ascii_case(b"keep-alive");
    }
    stays_open
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransferCoding {
    None,
    Chunked,
    /// Chunked, named more than once or together with identity. Browsers and curl read this as chunked.
    OddlyChunked,
}

fn transfer_coding(head: &Head) -> Result<TransferCoding, Failure> {
    let (mut is_chunked, mut has_oddity) = (false, false);
    for token in list_elements(head, "transfer-encoding").filter(|token| !token.is_empty()) {
        if token.eq_ignore_ascii_case(b"chunked") {
            has_oddity |= is_chunked;
            is_chunked = true;
        } else if token.eq_ignore_ascii_case(b"identity") {
            has_oddity = true;
        } else if is_chunked {
            return Err(protocol("a transfer coding on top of chunked"));
        } else {
            let name = String::from_utf8_lossy(token.get(..MAX_QUOTED).unwrap_or(token));
            return Err(Failure::new(ErrorKind::Decode, format!("transfer coding {name:?} was not requested")));
        }
    }
    Ok(match (is_chunked, has_oddity) {
        (false, _) => TransferCoding::None,
        (true, false) => TransferCoding::Chunked,
        (true, true) => TransferCoding::OddlyChunked,
    })
}

fn content_length(head: &Head) -> Result<Option<u64>, Failure> {
    let mut elements = list_elements(head, "content-length");
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
            let shown = String::from_utf8_lossy(first.get(..MAX_QUOTED).unwrap_or(first));
            Err(protocol(&format!("Content-Length {shown:?} is not a length")))
        }
    }
}
