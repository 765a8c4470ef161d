//! [`Limits`]: size and time limits of one exchange.
//!
//! Invariant: every loop and every buffer in `conn` is bounded by one of these limits or by a constant, also for bytes
//! that are discarded.

use std::time::Duration;

/// Heads up to this length are not charged to the budget.
pub(crate) const UNCHARGED_HEAD: usize = 4 << 10;

/// The limits of one exchange, shared by all connections of a crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one response head (curl: 300 KiB, hyper: 400 KiB).
    pub max_head: usize,
    /// Header fields in one head (curl: 5,000; hyper's 100 is too few for the web).
    pub max_headers: usize,
    /// Interim (1xx) responses before the final one.
    pub max_1xx: u8,
    /// Bytes of the decoded body. Applies to every layer of a chain of codings.
    pub max_body: u64,
    /// Bytes of the body before decoding, without chunk framing.
    pub max_wire: u64,
    /// Bytes of chunk extensions in one body (as hyper).
    pub max_extensions: u32,
    /// Bytes of trailer fields after the last chunk (as hyper).
    pub max_trailers: u32,
    /// Content codings in a chain (curl and urllib3: 5).
    pub max_codings: u8,
    /// Maximum time until the head is complete, and maximum time between two reads of body bytes.
    pub idle: Duration,
    /// Time for a TLS handshake: the connect timeout of the crawl. [`Rules::connect_timeout`] applies the same timeout
    /// to TCP connections and proxy tunnels.
    ///
    /// [`Rules::connect_timeout`]: crate::crawl::rules::RuleValues::connect_timeout
    pub connect: Duration,
    /// Time for a whole fetch. `Conn` receives the resulting deadline as an argument. The duration is here for callers
    /// that compute the deadline, and for messages.
    pub total: Duration,
    /// Bytes per second that a body must deliver, on average over a window as long as `idle`; 0 disables the check.
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
