//! [`ReadDeadlines`]: the timeouts of one exchange.
//!
//! Three timers run. *Total* covers the whole exchange. *Idle* requires a complete head, then progress of the body.
//! *Rate* requires a minimum number of body bytes in each window. A window is as long as the idle timeout.
//!
//! The slot check is not a timeout. It is a time at which the connection checks whether other requests need its slot.
//! The connection checks this also when bytes arrive, but a silent peer sends none.
//!
//! Invariant: `head_deadline` and `body_deadline` return the earliest time at which `head_expired` and `body_expired`
//! report something. A peer that sends a trickle of bytes cannot postpone that time for ever.
//!
//! A body that delivers a few bytes and then stalls is both too slow and idle. It is reported as idle: if nothing
//! arrived in the second half of a window, the rate timer does not expire and the idle timer decides. If another byte
//! arrives, the rate is checked at that time.

use std::time::Duration;

use crate::base::quota::{SILENT_AFTER, SlowResponseQuota};
use crate::base::time::Time;

use super::limits::Limits;

/// Bytes per second below which a response may be ended to free its slot for other requests.
pub(super) const SLOT_RATE: u32 = 1_024;

/// How long a body may pause for memory or for a slow reader. A longer pause ends the body, but not before the deadline
/// of the whole exchange.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(3_600);

/// The timers of one exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadDeadlines {
    total: Time,
    /// When the request was sent; in the body, when the last byte arrived.
    last_progress: Time,
    window_start: Time,
    /// Bytes received in the current window.
    window_bytes: u64,
}

/// Which timer expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    Total,
    Idle,
    Slow,
}

impl ReadDeadlines {
    pub(super) fn new(total: Time, now: Time) -> Self {
        Self { total, last_progress: now, window_start: now, window_bytes: 0 }
    }

    /// Restarts idle and rate timers: the tunnel or the TLS handshake is complete, the request is sent, or the body
    /// begins.
    pub(super) fn restart(&mut self, now: Time) {
        self.last_progress = now;
        self.window_start = now;
        self.window_bytes = 0;
    }

    /// Does not count a pause of our own towards any timer. The timers continue from where they stopped, so a body that
    /// causes many pauses gains no time.
    pub(super) fn exclude_pause(&mut self, since: Time, now: Time) {
        // Kept input that was processed during the pause has restarted the idle timer already.
        let pause = now - since.max(self.last_progress);
        self.last_progress += pause;
        self.window_start += pause;
        self.total += now - since;
    }

    /// Counts body bytes. Returns true if a window ended with too few of them.
    pub(super) fn count_bytes(&mut self, bytes: usize, now: Time, limits: &Limits) -> bool {
        self.last_progress = now;
        self.window_bytes += bytes as u64;
        if now < self.window_start + limits.idle {
            return false;
        }
        let is_slow = self.is_below_min_rate(limits);
        self.window_start = now;
        self.window_bytes = 0;
        is_slow
    }

    /// Whether a body must end because it is slow and other requests wait for its slot. `age` is the time since the
    /// first byte of the response. If so, the quota of slow responses is decremented.
    pub(super) fn must_free_slot(&self, age: Duration, now: Time, quota: Option<&SlowResponseQuota>) -> bool {
        must_free_slot(self.window_bytes, now - self.window_start, age, quota)
    }

    /// Whether a request without a response must end because other requests wait for its slot. If so, the quota of
    /// silent responses is decremented.
    pub(super) fn must_free_silent_slot(&self, now: Time, quota: Option<&SlowResponseQuota>) -> bool {
        quota.is_some_and(|quota| quota.take_silent(now - self.last_progress))
    }

    /// When to check whether other requests need the slot. `delay` is the number of seconds by which earlier checks
    /// have postponed this one; the largest number ends the checks.
    pub(super) fn slot_check(&self, delay: u16) -> Time {
        match delay {
            u16::MAX => Time::NEVER,
            _ => self.last_progress + SILENT_AFTER + Duration::from_secs(delay.into()),
        }
    }

    /// The `delay` of [`Self::slot_check`] after a check at `now`: the next check is at most one second later.
    pub(super) fn slot_check_delay(&self, now: Time) -> u16 {
        let late = (now - self.last_progress).saturating_sub(SILENT_AFTER);
        u16::try_from(late.as_secs() + 1).unwrap_or(u16::MAX)
    }

    /// The deadline of a complete head.
    pub(super) fn head_deadline(&self, limits: &Limits) -> Time {
        self.total.min(self.last_progress + limits.idle)
    }

    /// The deadline of the next progress of a body.
    pub(super) fn body_deadline(&self, limits: &Limits) -> Time {
        self.total.min(self.last_progress + limits.idle).min(self.slow_at(limits))
    }

    pub(super) fn total(&self) -> Time {
        self.total
    }

    pub(super) fn head_expired(&self, now: Time, limits: &Limits) -> Option<Expired> {
        let idle_end = self.last_progress + limits.idle;
        if now < self.total.min(idle_end) {
            return None;
        }
        Some(if self.total < idle_end { Expired::Total } else { Expired::Idle })
    }

    pub(super) fn body_expired(&self, now: Time, limits: &Limits) -> Option<Expired> {
        let idle_end = self.last_progress + limits.idle;
        let slow_at = self.slow_at(limits);
        if now < self.total.min(idle_end).min(slow_at) {
            None
        } else if self.total < idle_end.min(slow_at) {
            Some(Expired::Total)
        } else if idle_end <= slow_at {
            Some(Expired::Idle)
        } else {
            Some(Expired::Slow)
        }
    }

    /// When the rate timer expires if no byte arrives before. Never, if nothing arrived in the second half of the
    /// window: then the idle timer decides.
    fn slow_at(&self, limits: &Limits) -> Time {
        let window_end = self.window_start + limits.idle;
        let is_stalled = window_end.since(self.last_progress) > limits.idle / 2;
        if is_stalled || !self.is_below_min_rate(limits) { Time::NEVER } else { window_end }
    }

    /// Whether the window has fewer bytes than the minimum rate requires.
    fn is_below_min_rate(&self, limits: &Limits) -> bool {
        u128::from(self.window_bytes) * 1_000_000 < u128::from(limits.min_rate) * limits.idle.as_micros()
    }
}

/// Whether a response must end because it is slow and other requests wait for its slot: `bytes` arrived within `span`,
/// and its first byte arrived `age` ago. If so, the quota of slow responses is decremented.
pub(super) fn must_free_slot(bytes: u64, span: Duration, age: Duration, quota: Option<&SlowResponseQuota>) -> bool {
    let is_slow = || u128::from(bytes) * 1_000_000 < u128::from(SLOT_RATE) * span.as_micros();
    quota.is_some_and(|quota| quota.applies_to(age) && is_slow() && quota.take(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_limits() -> Limits {
        Limits { idle: Duration::from_secs(2), min_rate: 64, ..Limits::default() }
    }

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    #[test]
    fn a_trickle_is_too_slow_at_any_interval() {
        for interval in [20, 100, 700, 1_000, 1_500, 1_999] {
            let (limits, mut deadlines) = (test_limits(), ReadDeadlines::new(Time::NEVER, at(0)));
            let mut now = 0;
            let found = loop {
                now += interval;
                if let Some(expired) = deadlines.body_expired(at(now), &limits) {
                    break expired;
                }
                if deadlines.count_bytes(1, at(now), &limits) {
                    break Expired::Slow;
                }
                assert!(now < 10_000, "one byte every {interval} ms postpones the timeout for ever");
            };
            assert_eq!(found, Expired::Slow, "one byte every {interval} ms");
        }
    }

    #[test]
    fn a_stalled_body_is_reported_as_idle() {
        let (limits, mut deadlines) = (test_limits(), ReadDeadlines::new(Time::NEVER, at(0)));
        assert!(!deadlines.count_bytes(10, at(100), &limits));
        assert_eq!(deadlines.body_deadline(&limits), at(2_100));
        assert_eq!(deadlines.body_expired(at(2_099), &limits), None);
        assert_eq!(deadlines.body_expired(at(2_100), &limits), Some(Expired::Idle));
    }

    #[test]
    fn a_body_at_the_minimum_rate_is_not_slow() {
        let (limits, mut deadlines) = (test_limits(), ReadDeadlines::new(at(9_000), at(0)));
        for second in 1..9 {
            assert!(!deadlines.count_bytes(64, at(second * 1_000), &limits));
            assert_eq!(deadlines.body_expired(at(second * 1_000), &limits), None);
        }
        assert_eq!(deadlines.body_expired(at(9_000), &limits), Some(Expired::Total));
    }

    #[test]
    fn a_minimum_rate_of_zero_disables_the_check() {
        let limits = Limits { min_rate: 0, ..test_limits() };
        let mut deadlines = ReadDeadlines::new(Time::NEVER, at(0));
        for second in 1..100 {
            assert!(!deadlines.count_bytes(1, at(second * 1_000), &limits));
        }
    }

    #[test]
    fn a_slow_body_ends_only_while_the_quota_is_above_zero() {
        const AGE: Duration = Duration::from_millis(9_900);
        const FRESH_AGE: Duration = Duration::from_millis(3_900);
        let limits = Limits { min_rate: 1, idle: Duration::from_secs(20), ..Limits::default() };
        let quota = SlowResponseQuota::default();
        let mut deadlines = ReadDeadlines::new(Time::NEVER, at(0));
        for tenth in 1..100 {
            let now = at(tenth * 100);
            assert!(
                !deadlines.count_bytes(8, now, &limits)
                    && !deadlines.must_free_slot(now - Time::ZERO, now, Some(&quota))
            );
        }
        quota.set(1, Duration::from_secs(5));
        let mut quick = ReadDeadlines::new(Time::NEVER, at(0));
        assert!(!quick.count_bytes(20_000, at(9_000), &limits) && !quick.must_free_slot(AGE, at(9_900), Some(&quota)));
        let fresh = ReadDeadlines::new(Time::NEVER, at(6_000));
        assert!(!fresh.must_free_slot(FRESH_AGE, at(9_900), Some(&quota)), "its first byte arrived less than 5 s ago");
        assert!(deadlines.must_free_slot(AGE, at(9_900), Some(&quota)));
        assert!(!deadlines.must_free_slot(AGE, at(9_900), Some(&quota)), "the quota was one response");
        quota.set(1, Duration::from_secs(1));
        assert!(fresh.must_free_slot(FRESH_AGE, at(9_900), Some(&quota)), "its first byte arrived more than 1 s ago");
    }
}
