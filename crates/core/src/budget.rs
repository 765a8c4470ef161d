//! [`Budget`]: one limit for the bytes of all response bodies in memory.
//!
//! Most bodies are not kept: they are examined as they arrive. An archive needs whole bodies until they are written, and
//! all of them together stay within one budget. When it is used up, reading from sockets pauses: TCP backpressure makes
//! the hosts wait, and nothing fails.
//!
//! Invariant: at most one holder at a time may exceed the budget, so that one can always finish and release its bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The limit in bytes, and how many bytes are in use.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    held: AtomicU64,
    /// Whether a holder exceeds the limit to guarantee progress.
    overdrawn: AtomicBool,
}

/// A share of the budget; dropping it releases the bytes.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    bytes: u64,
    overdraws: bool,
}

impl Budget {
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicU64::new(0), overdrawn: AtomicBool::new(false) })
    }

    /// A new holder of zero bytes.
    pub fn hold(self: &Arc<Self>) -> Held {
        Held { budget: Arc::clone(self), bytes: 0, overdraws: false }
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

impl Held {
    /// Adds bytes that have already arrived, even beyond the limit; [`Held::may_grow`] decides about reading more.
    pub fn grow(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.budget.held.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Charges memory before it is allocated. False if there is no room: then nothing is charged.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.budget.limit);
        let has_room = self.budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Whether this holder is the one that may exceed the limit.
    pub fn overdraws(&self) -> bool {
        self.overdraws
    }

    /// Whether more may be read now.
    pub fn may_grow(&mut self) -> bool {
        if self.overdraws || self.budget.held() < self.budget.limit {
            return true;
        }
        self.overdraw()
    }

    /// Lets this holder exceed the limit, unless another one does.
    pub fn overdraw(&mut self) -> bool {
        self.overdraws = self.overdraws || !self.budget.overdrawn.swap(true, Ordering::AcqRel);
        self.overdraws
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.overdraws {
            self.budget.overdrawn.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_goes_beyond_the_budget_and_all_comes_back() {
        let budget = Budget::new(10);
        let (mut a, mut b, mut c) = (budget.hold(), budget.hold(), budget.hold());
        a.grow(6);
        assert!(a.may_grow() && b.may_grow());
        b.grow(6);
        assert!(a.may_grow(), "the first to ask goes beyond");
        assert!(!b.may_grow() && !c.may_grow());
        a.grow(100);
        assert!(a.may_grow());
        drop(a);
        assert!(b.may_grow() && c.may_grow());
        drop(b);
        drop(c);
        assert_eq!(budget.held(), 0);
    }
}
