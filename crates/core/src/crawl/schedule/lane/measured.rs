//! [`Measured`]: a duration that may be unknown, in four bytes.

use std::num::NonZeroU32;
use std::time::Duration;

/// A duration, if it was measured. It saturates at 71 minutes and takes four bytes instead of sixteen, because a crawl
/// has very many lanes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// In microseconds, plus one.
    micros: Option<NonZeroU32>,
}

impl Measured {
    pub fn of(span: Duration) -> Self {
        Self { micros: NonZeroU32::new(micros(span).saturating_add(1)) }
    }

    pub fn get(self) -> Option<Duration> {
        self.micros.map(|micros| Duration::from_micros(u64::from(micros.get() - 1)))
    }

    pub fn is_known(self) -> bool {
        self.micros.is_some()
    }
}

/// A duration in microseconds. It saturates at 71 minutes.
pub(super) fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_kept_in_microseconds_up_to_71_minutes() {
        for micros in [0, 1, 1_000_000, 4_000_000_000] {
            let span = Duration::from_micros(micros);
            assert_eq!(Measured::of(span + Duration::from_nanos(999)).get(), Some(span));
        }
        assert!(Measured::of(Duration::MAX).get().is_some_and(|most| most > Duration::from_secs(71 * 60)));
        assert_eq!((Measured::default().get(), size_of::<Measured>()), (None, 4));
    }
}
