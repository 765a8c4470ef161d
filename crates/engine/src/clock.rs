//! [`Clock`]: the source of the core's time.
//!
//! Invariant: engines read the machine's clock only through this type, so every [`Time`] in a process counts from the
//! same instant.

use std::time::{Duration, Instant, SystemTime};

use argiope_core::Time;

/// The monotonic clock since the crawl started, and the wall clock at that instant. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
    wall: SystemTime,
}

impl Clock {
    /// The crawl starts now.
    pub fn start() -> Self {
        Self { began: Instant::now(), wall: SystemTime::now() }
    }

    pub fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// The wall clock at [`Time::ZERO`]. Times are shown to users as this plus the time since then, so they stay in
    /// order even if the machine's clock is set while the crawl runs.
    pub fn wall_start(&self) -> SystemTime {
        self.wall
    }

    /// How long until `moment`; zero if it has passed, none for [`Time::NEVER`].
    pub fn until(&self, moment: Time) -> Option<Duration> {
        (!moment.is_never()).then(|| moment.since(self.now()))
    }

    /// The same moment on the machine's clock; none for [`Time::NEVER`].
    pub fn instant(&self, moment: Time) -> Option<Instant> {
        if moment.is_never() { None } else { self.began.checked_add(moment.since(Time::ZERO)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_advances_and_never_has_no_timeout() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert_eq!(clock.until(Time::ZERO), Some(Duration::ZERO));
        assert_eq!(clock.until(Time::NEVER), None);
        assert_eq!(clock.instant(Time::NEVER), None);
        assert_eq!(clock.instant(Time::from_micros(5)), Some(clock.began + Duration::from_micros(5)));
        assert!(clock.wall_start() <= SystemTime::now());
    }
}
