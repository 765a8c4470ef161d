//! What a connection and its user say to each other: [`Receiver`] takes the response, [`Step`] says what the connection
//! needs next, and [`ExchangeEnd`] is the result.

use super::{CodingDefects, Head};
use crate::base::budget::BudgetCharge;
use crate::base::outcome::{Failure, Truncated};
use crate::base::quota::SlowResponseQuota;
use crate::base::time::Time;

/// Consumes a response.
pub trait Receiver {
    /// A new memory charge for a head that arrives in pieces; `None` if heads are not charged to a budget.
    fn new_head_charge(&self) -> Option<BudgetCharge> {
        None
    }

    /// Called with the head of the final response. Returns whether the body is wanted.
    fn head(&mut self, head: &Head, now: Time) -> Want;

    /// Whether [`Receiver::wire`] uses the bytes. If not, a head of HTTP/2 is not written in HTTP/1.1 syntax.
    fn wants_wire(&self) -> bool {
        true
    }

    /// Bytes of the response exactly as received, after TLS: head, framing and body. Excludes interim (1xx) heads and
    /// anything after the response.
    fn wire(&mut self, raw: &[u8]);

    /// Bytes of the decoded body.
    fn body(&mut self, decoded: &[u8]);

    /// Charges memory of a decoder before it is allocated. Returns false if the budget has no room; decoding then
    /// waits, see [`Conn::awaits_memory`](super::Conn::awaits_memory).
    fn reserve(&mut self, _bytes: usize) -> bool {
        true
    }

    /// How many slow responses must be closed because other requests wait for their slots; `None` if slow responses stay
    /// open.
    fn slow_response_quota(&self) -> Option<&SlowResponseQuota> {
        None
    }

    /// The number of bytes that the receiver itself has decompressed so far; `None` if it does not decompress.
    fn decompressed_bytes(&self) -> Option<u64> {
        None
    }
}

/// Whether a body is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Body,
    /// Yes, with this size limit in place of `max_body` and `max_wire` of [`Limits`](super::Limits): sitemaps may be larger than
    /// pages.
    UpTo(u64),
    /// No. A short body is read and discarded if the connection can be reused after it. Otherwise the connection is
    /// closed.
    Nothing,
}

/// What a connection needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Write these bytes, or some of them, then call `wrote`.
    Write(&'a [u8]),
    /// Wait for bytes, then `feed` them.
    Read,
    /// Do not read for now; see [`Conn::set_paused`](super::Conn::set_paused).
    Pause,
    /// Nothing: the exchange is complete (call `end` for the result), or none was started.
    Done,
}

/// The result of an exchange.
///
/// Without a failure, the response is complete. With a failure and `truncated`, there is a response, with a body up to
/// the failure. With a failure alone, no usable response was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeEnd {
    pub failure: Option<Failure>,
    pub truncated: Option<Truncated>,
    /// Size of the response as received, head and framing included, after TLS.
    pub bytes_wire: u64,
    /// Size of the decoded body.
    pub bytes_body: u64,
    /// The connection can be used for another request.
    pub reusable: bool,
    /// The response did not begin, because the kept-alive connection was closed or delivered bytes of an earlier
    /// response. So the request can be repeated on a new connection.
    pub stale: bool,
    /// When the first byte of the response arrived.
    pub ttfb: Option<Time>,
    /// When the TLS handshake completed; on a reused connection, before this exchange began.
    pub tls_done: Option<Time>,
    pub coding_defects: CodingDefects,
    /// The exchange was a stream of HTTP/2.
    pub is_http2: bool,
}
