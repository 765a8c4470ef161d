//! [`Lease`]: the right to start requests until a given time. Another thread renews it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::time::Time;

/// The right to start requests until a given time, which can be postponed. The default never expires.
#[derive(Clone, Debug)]
pub struct Lease(Arc<State>);

#[derive(Debug)]
struct State {
    /// The end of the lease, in microseconds of the crawl's time.
    until: AtomicU64,
    /// Set by the first check that finds the lease expired. The lease cannot be renewed after that.
    has_expired: AtomicBool,
}

impl Default for Lease {
    fn default() -> Self {
        Self::until(Time::NEVER)
    }
}

impl Lease {
    pub fn until(time: Time) -> Self {
        Self(Arc::new(State { until: AtomicU64::new(time.as_micros()), has_expired: AtomicBool::new(false) }))
    }

    /// Postpones the end. An expired lease cannot be renewed.
    pub fn renew(&self, until: Time, now: Time) {
        if !self.has_ended(now) {
            self.0.until.fetch_max(until.as_micros(), Ordering::AcqRel);
        }
    }

    /// Whether the lease has expired, so that no request may be started. The result stays true once it was true.
    pub fn has_ended(&self, now: Time) -> bool {
        if self.0.has_expired.load(Ordering::Acquire) {
            return true;
        }
        let has_ended = now.as_micros() >= self.0.until.load(Ordering::Acquire);
        if has_ended {
            self.0.has_expired.store(true, Ordering::Release);
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_lease_that_has_ended_is_not_renewed() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let lease = Lease::until(at(10));
        assert!(!lease.has_ended(at(9)));
        lease.renew(at(20), at(9));
        assert!(!lease.has_ended(at(15)));
        assert!(lease.has_ended(at(20)));
        lease.renew(at(40), at(20));
        assert!(lease.has_ended(at(21)), "an expired lease stays expired");
        assert!(!Lease::default().has_ended(at(1 << 30)));
    }
}
