//! [`Limits`]: size and time limits of one exchange.
//!
//! Invariant: every loop and every buffer in `conn` is bounded by one of these limits or by a constant, also for bytes
//! that are discarded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// After this time without a first byte, a response counts as silent.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Heads up to this length are not charged to the budget.
pub(crate) const UNCHARGED_HEAD: usize = 4 << 10;

/// How many slow responses must be closed because other requests wait for their slots. The keeper sets the number. A
/// connection that finds its response slow (`deadline::must_free_slot`) decrements it and closes the response.
#[derive(Clone, Debug, Default)]
pub struct SlowResponseQuota(Arc<QuotaState>);

#[derive(Debug, Default)]
struct QuotaState {
    responses: AtomicUsize,
    /// Responses whose first byte arrived less than this many microseconds ago are not closed.
    min_age: AtomicU64,
    /// How many responses without a first byte must be closed.
    silent: AtomicUsize,
}

impl SlowResponseQuota {
    /// Sets how many slow responses must be closed, of those whose first byte arrived at least `min_age` ago.
    pub fn set(&self, responses: usize, min_age: Duration) {
        self.0.min_age.store(u64::try_from(min_age.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.0.responses.store(responses, Ordering::Relaxed);
    }

    /// Sets how many silent responses must be closed: those without a first byte after `SILENT_AFTER`.
    pub fn set_silent(&self, responses: usize) {
        self.0.silent.store(responses, Ordering::Relaxed);
    }

    /// Sets both numbers to 0, so that responses stay open even if they are slow.
    pub fn clear(&self) {
        self.0.responses.store(0, Ordering::Relaxed);
        self.0.silent.store(0, Ordering::Relaxed);
    }

    /// Whether slow responses must be closed, and a response whose first byte arrived `age` ago is old enough.
    pub(crate) fn applies_to(&self, age: Duration) -> bool {
        self.0.responses.load(Ordering::Relaxed) > 0
            && age.as_micros() >= u128::from(self.0.min_age.load(Ordering::Relaxed))
    }

    /// Called for a slow response whose first byte arrived `age` ago. Returns whether it must be closed. If so,
    /// decrements the number, and that of silent responses: each closed response frees a slot, whatever its kind.
    pub fn take(&self, age: Duration) -> bool {
        let is_taken = self.applies_to(age) && decrement(&self.0.responses);
        if is_taken {
            decrement(&self.0.silent);
        }
        is_taken
    }

    /// Called for a request that was sent `age` ago and has no response yet. Returns whether it must be closed. If so,
    /// decrements the number of silent responses, and that of slow ones: each closed response frees a slot.
    pub fn take_silent(&self, age: Duration) -> bool {
        let is_taken = age >= SILENT_AFTER && decrement(&self.0.silent);
        if is_taken {
            decrement(&self.0.responses);
        }
        is_taken
    }
}

/// Decrements a number of responses to close. Returns false if it is 0.
fn decrement(responses: &AtomicUsize) -> bool {
    responses.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| number.checked_sub(1)).is_ok()
}

/// All quotas are equal: a quota is state of a running crawl, and must not make two [`Limits`] differ.
impl PartialEq for SlowResponseQuota {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SlowResponseQuota {}

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
    /// How many slow responses must be closed now. Not a setting: the keeper changes it during the crawl.
    pub slow_response_quota: SlowResponseQuota,
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
            slow_response_quota: SlowResponseQuota::default(),
        }
    }
}
