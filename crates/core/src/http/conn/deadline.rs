//! [`ReadDeadlines`]: when an exchange has taken too long, and in which way.
//!
//! Three clocks run: the *total* one from beginning to end; the *idle* one, which a head must beat as a whole and a
//! body byte by byte; and the *rate* one, which looks at a body over windows as long as the idle time-out.
//!
//! Invariant: the moment that `head` or `body` name is the earliest at which `expired` has something to say, and a
//! peer that drips cannot push it away for ever.
//!
//! A body that brings a few bytes and then falls silent is both slow and stalled. It is called stalled: where the
//! second half of a window was silent, the judgement waits for the idle clock; the next byte, should it come, is
//! judged by the rate.

use crate::time::Time;

use super::limits::Limits;

#[derive(Clone, Copy, Debug)]
pub(super) struct ReadDeadlines {
    total: Time,
    /// When the request was out, then when the last byte of the body came.
    last: Time,
    /// When the current window began.
    window: Time,
    /// Bytes in the current window.
    bytes: u64,
}

/// Which clock ran out.
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

    /// The request is out, or the body begins: idle and rate begin anew.
    pub(super) fn restart(&mut self, now: Time) {
        self.last = now;
        self.window = now;
        self.bytes = 0;
    }

    /// Reading goes on after a pause of ours, which counts for neither idle nor rate. They go on where they stood: a body
    /// that makes us pause again and again must not win time by it.
    pub(super) fn stood_still(&mut self, since: Time, now: Time) {
        let pause = now - since.max(self.last);
        self.last += pause;
        self.window += pause;
    }

    /// Some bytes of the body came. True where too few came in too long a time.
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

    /// Until when the head must be whole.
    pub(super) fn head(&self, limits: &Limits) -> Time {
        self.total.min(self.last + limits.idle)
    }

    /// Until when something must happen in a body.
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

    /// When the body is too slow, if nothing comes until then.
    fn slow_at(&self, limits: &Limits) -> Time {
        let end = self.window + limits.idle;
        if !self.is_short(limits) || end.since(self.last) > limits.idle / 2 { Time::NEVER } else { end }
    }

    fn is_short(&self, limits: &Limits) -> bool {
        u128::from(self.bytes) * 1_000_000 < u128::from(limits.min_rate) * limits.idle.as_micros()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: fn() -> Limits = || Limits { idle: Duration::from_secs(2), min_rate: 64, ..Limits::default() };

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    #[test]
    fn a_drip_is_slow_whatever_its_beat() {
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
                assert!(now < 10_000, "a drip every {beat} ms goes on for ever");
            };
            assert_eq!(found, Expired::Slow, "{beat}");
        }
    }

    #[test]
    fn a_stall_is_a_stall() {
        let (limits, mut clock) = (LIMITS(), ReadDeadlines::new(Time::NEVER, at(0)));
        assert!(!clock.moved(10, at(100), &limits));
        assert_eq!(clock.body(&limits), at(2_100));
        assert_eq!(clock.body_expired(at(2_099), &limits), None);
        assert_eq!(clock.body_expired(at(2_100), &limits), Some(Expired::Idle));
    }

    #[test]
    fn enough_is_enough() {
        let (limits, mut clock) = (LIMITS(), ReadDeadlines::new(at(9_000), at(0)));
        for second in 1..9 {
            assert!(!clock.moved(64, at(second * 1_000), &limits));
            assert_eq!(clock.body_expired(at(second * 1_000), &limits), None);
        }
        assert_eq!(clock.body_expired(at(9_000), &limits), Some(Expired::Total));
    }

    #[test]
    fn no_rate_is_asked_for() {
        let limits = Limits { min_rate: 0, ..LIMITS() };
        let mut clock = ReadDeadlines::new(Time::NEVER, at(0));
        for second in 1..100 {
            assert!(!clock.moved(1, at(second * 1_000), &limits));
        }
    }
}
