//! [`Time`]: the time of a crawl, which is always an argument. [`WallClock`] converts it to the time of day.
//!
//! Invariant: this crate does not read a clock. The caller passes in a [`Time`]: an engine reads the machine's monotonic
//! clock, and a simulation uses virtual time.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Microseconds since the start of the crawl. Monotonic: independent of changes to the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The start of the crawl.
    pub const ZERO: Self = Self(0);
    /// Later than every other time. Stands for an event that is not expected, or for a time that is not known.
    pub const NEVER: Self = Self(u64::MAX);

    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time elapsed since `earlier`, clamped to zero.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates at [`Time::NEVER`].
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// Converts the crawl's own time to wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallClock {
    /// Microseconds since the Unix epoch at [`Time::ZERO`].
    pub start: i64,
}

impl WallClock {
    /// The wall-clock time; the Unix epoch if that time is out of range.
    pub fn at(self, time: Time) -> jiff::Timestamp {
        let micros = self.start.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
        jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// The clock whose time zero is this date: `2026-01-02T03:04:05.678Z`. `None` if it is not a date.
    pub fn starting_at(date: &str) -> Option<Self> {
        let start: jiff::Timestamp = date.parse().ok()?;
        Some(Self { start: start.as_microsecond() })
    }

    /// The time as text, in the form `2026-01-02T03:04:05.678Z`.
    pub fn text(self, time: Time) -> String {
        format!("{:.3}", self.at(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_absorbing_and_spans_are_never_negative() {
        assert_eq!(Time::NEVER + Duration::from_secs(1), Time::NEVER);
        assert_eq!(Time::ZERO - Time::from_micros(5), Duration::ZERO);
        assert_eq!((Time::ZERO + Duration::from_millis(2)).as_micros(), 2_000);
    }
}
