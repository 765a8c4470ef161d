//! [`Budget`]: one number of bytes for all bodies that are held.
//!
//! Most bodies are not held at all: they are examined as they arrive. What an archive needs is held until it is
//! written, and all of that together stays within one budget. Where the budget is used up, answers are not read on:
//! the hosts wait, nothing fails.
//!
//! Invariant: at any time at most one holder goes beyond the budget, so somebody can always finish and give back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many bytes may be held, and how many are.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    held: AtomicU64,
    /// Whether somebody goes beyond the limit so that things move on.
    overdrawn: AtomicBool,
}

/// Bytes of the budget that are held; dropping it gives them back.
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

    /// Begins to hold, with nothing.
    pub fn hold(self: &Arc<Self>) -> Held {
        Held { budget: Arc::clone(self), bytes: 0, overdraws: false }
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

impl Held {
    /// Bytes that have arrived already are held, whatever the budget says; [`Held::may_grow`] decides about more.
    pub fn grow(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.budget.held.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether more may be read now.
    pub fn may_grow(&mut self) -> bool {
        if self.overdraws || self.budget.held() < self.budget.limit {
            return true;
        }
        self.overdraws = !self.budget.overdrawn.swap(true, Ordering::AcqRel);
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
