//! [`SlowResponseQuota`]: how many slow responses must be closed now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// After this time without a first byte, a response counts as silent.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(5);

/// How many slow responses must be closed because other requests wait for their slots. The workbench sets the number,
/// and every job has access to it. A connection that finds its response slow (`http::conn::deadline`) decrements it and
/// closes the response.
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
