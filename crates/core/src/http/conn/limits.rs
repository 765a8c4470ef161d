//! [`Limits`]: how much of an answer, and how long, a connection puts up with.
//!
//! Invariant: every loop and every buffer in `conn` is bounded by one of these numbers. They hold for bytes that are
//! thrown away as well.

use std::time::Duration;

/// The bounds of one exchange. Shared by all connections of a crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one response head (curl: 300 KiB, hyper: 400 KiB).
    pub max_head: usize,
    /// Header fields in one head (curl: 5,000; hyper's 100 is too few for the web).
    pub max_headers: usize,
    /// Interim (1xx) answers before the final one.
    pub max_1xx: u8,
    /// Bytes of the body after decoding; each step of a chain of codings is held to it as well.
    pub max_body: u64,
    /// Bytes of the body before decoding, without the framing of chunks.
    pub max_wire: u64,
    /// Bytes of chunk extensions in one body (as hyper).
    pub max_extensions: u32,
    /// Bytes of trailer fields after the last chunk (as hyper).
    pub max_trailers: u32,
    /// Content codings on top of each other (curl and urllib3: 5).
    pub max_codings: u8,
    /// A head must be whole, and a body must move, within this time.
    pub idle: Duration,
    /// A TLS handshake must be over within this time.
    pub connect: Duration,
    /// A whole fetch. `Conn` is told the moment it ends; the span is kept here for those who compute that moment.
    pub total: Duration,
    /// Bytes a second that a body must bring, over a window as long as `idle`; 0 for none.
    pub min_rate: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_head: 256 << 10,
            max_headers: 1_000,
            max_1xx: 16,
            max_body: 10 << 20,
            max_wire: 10 << 20,
            max_extensions: 16 << 10,
            max_trailers: 16 << 10,
            max_codings: 3,
            idle: Duration::from_secs(20),
            connect: Duration::from_secs(10),
            total: Duration::from_secs(60),
            min_rate: 32,
        }
    }
}
