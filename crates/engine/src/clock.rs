//! [`Clock`]: the source of the core's time.
//!
//! Invariant: engines read the machine's clock only through this type, so every [`Time`] in a process counts from the
//! same instant.

use std::time::{Duration, Instant, SystemTime};

use argiope_core::Time;

/// The monotonic clock since the crawl started, and the wall clock at that instant. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The monotonic clock at [`Time::ZERO`].
    start: Instant,
    /// The wall clock at [`Time::ZERO`].
    wall_start: SystemTime,
}

impl Clock {
    /// The crawl starts now.
    pub fn start() -> Self {
        Self { start: Instant::now(), wall_start: SystemTime::now() }
    }

    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// The wall clock at [`Time::ZERO`]. Times for users are this time plus the monotonic time since then. So they stay
    /// in order even if the machine's clock is changed while the crawl runs.
    pub fn wall_start(&self) -> SystemTime {
        self.wall_start
    }

    /// How long until `time`: zero if it has passed, `None` for [`Time::NEVER`].
    pub fn until(&self, time: Time) -> Option<Duration> {
        (!time.is_never()).then(|| time.since(self.now()))
    }

    /// `time` on the machine's monotonic clock; `None` for [`Time::NEVER`].
    pub fn instant(&self, time: Time) -> Option<Instant> {
        if time.is_never() { None } else { self.start.checked_add(time.since(Time::ZERO)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back_and_the_time_never_has_no_timeout() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert_eq!(clock.until(Time::ZERO), Some(Duration::ZERO));
        assert_eq!(clock.until(Time::NEVER), None);
        assert_eq!(clock.instant(Time::NEVER), None);
        assert_eq!(clock.instant(Time::from_micros(5)), Some(clock.start + Duration::from_micros(5)));
        assert!(clock.wall_start() <= SystemTime::now());
    }
}
