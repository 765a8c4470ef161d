//! [`ReadDeadlines`]: the timeouts of one exchange.
//!
//! Three timers run. *Total* covers the whole exchange. *Idle* requires a complete head, then progress of the body.
//! *Rate* requires a minimum number of body bytes in each window of the length of the idle timeout.
//!
//! Invariant: the time that `head` or `body` returns is the earliest at which an `expired` method reports something,
//! and a peer that sends a trickle of bytes cannot postpone it for ever.
//!
//! A body that delivers a few bytes and then stalls is both too slow and idle. It is reported as idle: if nothing
//! arrived in the second half of a window, the decision is left to the idle timer. If another byte arrives, the rate is
//! checked then.

use std::time::Duration;

use crate::time::Time;

use super::limits::Limits;

/// While slots are scarce, a body is ended if fewer bytes a second than this arrive in a window of at least
/// [`PRESSED_AFTER`].
pub(super) const PRESSED_RATE: u32 = 1_024;
const PRESSED_AFTER: Duration = Duration::from_secs(5);

/// How long a body may pause for memory or for a slow reader. A longer pause ends it.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(3_600);

/// The timers of one exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadDeadlines {
    total: Time,
    /// When the request was sent, later when the last body byte arrived.
    last: Time,
    /// Start of the current window.
    window: Time,
    /// Bytes received in the current window.
    bytes: u64,
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
        Self { total, last: now, window: now, bytes: 0 }
    }

    /// Restarts idle and rate timers: the request is sent, or the body begins.
    pub(super) fn restart(&mut self, now: Time) {
        self.last = now;
        self.window = now;
        self.bytes = 0;
    }

    /// Excludes a pause of our own from all timers. They continue from where they stopped, so a body that makes us pause
    /// often gains no time.
    pub(super) fn exclude_pause(&mut self, since: Time, now: Time) {
        let pause = now - since.max(self.last);
        self.last += pause;
        self.window += pause;
        self.total += now - since;
    }

    /// Counts body bytes. Returns true if a window ended with too few of them.
    pub(super) fn moved(&mut self, bytes: usize, now: Time, limits: &Limits) -> bool {
        self.last = now;
        self.bytes += bytes as u64;
        if now < self.window + limits.idle {
            return false;
        }
        let slow = self.is_short(limits);
        self.window = now;
        self.bytes = 0;
        slow
    }

    /// Whether the body must end because it is slow and other requests wait for its slot.
    pub(super) fn must_yield(&self, now: Time, limits: &Limits) -> bool {
        let span = now - self.window;
        let is_slow = || u128::from(self.bytes) * 1_000_000 < u128::from(PRESSED_RATE) * span.as_micros();
        span >= PRESSED_AFTER && is_slow() && limits.pressure.take()
    }

    /// The deadline of a complete head.
    pub(super) fn head(&self, limits: &Limits) -> Time {
        self.total.min(self.last + limits.idle)
    }

    /// The deadline of the next progress of a body.
    pub(super) fn body(&self, limits: &Limits) -> Time {
        self.total.min(self.last + limits.idle).min(self.slow_at(limits))
    }

    pub(super) fn total(&self) -> Time {
        self.total
    }

    pub(super) fn head_expired(&self, now: Time, limits: &Limits) -> Option<Expired> {
        let idle = self.last + limits.idle;
        if now < self.total.min(idle) {
            return None;
        }
        Some(if self.total < idle { Expired::Total } else { Expired::Idle })
    }

    pub(super) fn body_expired(&self, now: Time, limits: &Limits) -> Option<Expired> {
        let idle = self.last + limits.idle;
        let slow = self.slow_at(limits);
        if now < self.total.min(idle).min(slow) {
            None
        } else if self.total < idle.min(slow) {
            Some(Expired::Total)
        } else if idle <= slow {
            Some(Expired::Idle)
        } else {
            Some(Expired::Slow)
        }
    }

    /// When the rate timer expires if no byte arrives before.
    fn slow_at(&self, limits: &Limits) -> Time {
        let end = self.window + limits.idle;
        if !self.is_short(limits) || end.since(self.last) > limits.idle / 2 { Time::NEVER } else { end }
    }

    /// Whether the window has fewer bytes than the minimum rate requires.
    fn is_short(&self, limits: &Limits) -> bool {
        u128::from(self.bytes) * 1_000_000 < u128::from(limits.min_rate) * limits.idle.as_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: fn() -> Limits = || Limits { idle: Duration::from_secs(2), min_rate: 64, ..Limits::default() };

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    #[test]
    fn a_trickle_is_too_slow_at_any_interval() {
        for beat in [20, 100, 700, 1_000, 1_500, 1_999] {
            let (limits, mut clock) = (LIMITS(), ReadDeadlines::new(Time::NEVER, at(0)));
            let mut now = 0;
            let found = loop {
                now += beat;
                if let Some(expired) = clock.body_expired(at(now), &limits) {
                    break expired;
                }
                if clock.moved(1, at(now), &limits) {
                    break Expired::Slow;
                }
                assert!(now < 10_000, "one byte every {beat} ms postpones the timeout for ever");
            };
            assert_eq!(found, Expired::Slow, "{beat}");
        }
    }

    #[test]
    fn a_stalled_body_is_reported_as_idle() {
        let (limits, mut clock) = (LIMITS(), ReadDeadlines::new(Time::NEVER, at(0)));
        assert!(!clock.moved(10, at(100), &limits));
        assert_eq!(clock.body(&limits), at(2_100));
        assert_eq!(clock.body_expired(at(2_099), &limits), None);
        assert_eq!(clock.body_expired(at(2_100), &limits), Some(Expired::Idle));
    }

    #[test]
    fn a_body_at_the_minimum_rate_is_not_slow() {
        let (limits, mut clock) = (LIMITS(), ReadDeadlines::new(at(9_000), at(0)));
        for second in 1..9 {
            assert!(!clock.moved(64, at(second * 1_000), &limits));
            assert_eq!(clock.body_expired(at(second * 1_000), &limits), None);
        }
        assert_eq!(clock.body_expired(at(9_000), &limits), Some(Expired::Total));
    }

    #[test]
    fn a_minimum_rate_of_zero_disables_the_check() {
        let limits = Limits { min_rate: 0, ..LIMITS() };
        let mut clock = ReadDeadlines::new(Time::NEVER, at(0));
        for second in 1..100 {
            assert!(!clock.moved(1, at(second * 1_000), &limits));
        }
    }

    #[test]
    fn a_slow_body_gives_way_only_if_it_is_asked_to() {
        let limits = Limits { min_rate: 1, idle: Duration::from_secs(20), ..Limits::default() };
        let mut clock = ReadDeadlines::new(Time::NEVER, at(0));
        for tenth in 1..100 {
            assert!(!clock.moved(8, at(tenth * 100), &limits) && !clock.must_yield(at(tenth * 100), &limits));
        }
        limits.pressure.set(1);
        let mut quick = ReadDeadlines::new(Time::NEVER, at(0));
        assert!(!quick.moved(20_000, at(9_000), &limits) && !quick.must_yield(at(9_900), &limits));
        let fresh = ReadDeadlines::new(Time::NEVER, at(6_000));
        assert!(!fresh.must_yield(at(9_900), &limits), "it has not had its five seconds");
        assert!(clock.must_yield(at(9_900), &limits));
        assert!(!clock.must_yield(at(9_900), &limits), "one was asked");
    }
}
