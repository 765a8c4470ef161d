//! [`Leisure`]: when a worker may look away for a moment.
//!
//! To be woken up costs more than to read an answer: the kernel changes threads, and what the processor had at hand of
//! this one is gone. A worker that is woken for each of ten thousand slow answers pays that ten thousand times. Where the
//! quickest answer takes a second, nobody notices a millisecond: so with many fetches in hand a worker lets what comes
//! gather for a small part of the time that answers take, and then serves all of it in one go.
//!
//! Invariant: a moment is never longer than the quickest answer of the last second or two, divided by [`PART`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use argiope_core::Time;

use crate::Clock;

/// The quickest answer takes so many times longer than a moment of leisure.
const PART: u32 = 512;
/// Shorter moments gather nothing, ...
const SHORTEST: Duration = Duration::from_micros(200);
/// ... and longer ones hardly more.
const LONGEST: Duration = Duration::from_millis(2);
/// With fewer fetches in hand there is little to gather.
const MANY: usize = 64;
/// For so long, and at most for twice that, a quick answer is remembered.
const MEMORY: Duration = Duration::from_secs(1);

/// What a worker knows about how long its answers take.
#[derive(Debug, Default)]
pub struct Leisure {
    /// The quickest since `since`, and the one of the time before.
    quickest: Option<Duration>,
    before: Option<Duration>,
    since: Time,
    moment: Moment,
}

/// For how long to look away. It can be asked for from wherever the worker goes to sleep.
#[derive(Clone, Debug, Default)]
pub struct Moment(Arc<Span>);

#[derive(Debug, Default)]
struct Span {
    micros: AtomicU64,
    /// When somebody was about to sleep last.
    last: AtomicU64,
}

impl Leisure {
    /// A fetch has ended that took so long, and so many are still in hand.
    pub fn note(&mut self, took: Option<Duration>, in_hand: usize, now: Time) {
        let Some(took) = took else { return };
        if now >= self.since + MEMORY {
            let is_fresh = now < self.since + 2 * MEMORY;
            self.before = self.quickest.take().filter(|_| is_fresh);
            self.since = now;
        }
        let quickest = self.quickest.map_or(took, |quickest| quickest.min(took));
        self.quickest = Some(quickest);
        let moment = moment(self.before.map_or(quickest, |before| before.min(quickest)), in_hand);
        self.moment.0.micros.store(u64::try_from(moment.as_micros()).unwrap_or(0), Ordering::Relaxed);
    }

    pub fn moment(&self) -> Moment {
        self.moment.clone()
    }
}

/// How long a worker may look away, with so many fetches in hand, of which the quickest took so long.
fn moment(quickest: Duration, in_hand: usize) -> Duration {
    let moment = (quickest / PART).min(LONGEST);
    if in_hand >= MANY && moment >= SHORTEST { moment } else { Duration::ZERO }
}

impl Moment {
    /// Looks away before the worker sleeps, where that does no harm. Whoever has worked for longer than a moment does not:
    /// enough has gathered meanwhile.
    pub fn enjoy(&self, clock: Clock) {
        let micros = self.0.micros.load(Ordering::Relaxed);
        if micros == 0 {
            return;
        }
        let now = clock.now().as_micros();
        let worked = now.saturating_sub(self.0.last.load(Ordering::Relaxed));
        let looks_away = worked < micros;
        if looks_away {
            thread::sleep(Duration::from_micros(micros));
        }
        let last = if looks_away { clock.now().as_micros() } else { now };
        self.0.last.store(last, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_slow_fetches_leave_time() {
        let after = |millis, in_hand| moment(Duration::from_millis(millis), in_hand);
        assert_eq!(after(1_024, MANY), LONGEST);
        assert_eq!(after(60_000, MANY), LONGEST);
        assert_eq!(after(512, MANY), Duration::from_millis(1));
        assert_eq!(after(25, MANY), Duration::ZERO);
        assert_eq!(after(1_024, MANY - 1), Duration::ZERO);
    }

    #[test]
    fn whoever_has_just_looked_looks_away() {
        let (clock, moment) = (Clock::start(), Moment::default());
        moment.enjoy(clock);
        assert_eq!(moment.0.last.load(Ordering::Relaxed), 0, "there is no time for it");
        moment.0.micros.store(2_000, Ordering::Relaxed);
        moment.0.last.store(clock.now().as_micros(), Ordering::Relaxed);
        let before = clock.now();
        moment.enjoy(clock);
        assert!(clock.now() >= before + LONGEST);
        assert!(moment.0.last.load(Ordering::Relaxed) >= before.as_micros() + 2_000);
    }

    #[test]
    fn one_quick_answer_is_enough_and_is_forgotten_in_time() {
        let mut leisure = Leisure::default();
        let moment = leisure.moment();
        let mut micros = |took: u64, at: u64| {
            leisure.note(Some(Duration::from_millis(took)), MANY, Time::from_micros(at * 1_000));
            moment.0.micros.load(Ordering::Relaxed)
        };
        assert_eq!(micros(2_000, 2_000), 2_000);
        assert_eq!(micros(2_000, 3_500), 2_000);
        assert_eq!(micros(5, 3_600), 0);
        assert_eq!(micros(2_000, 4_400), 0);
        // A second after it began to be remembered; it counts as what was before, for one second more.
        assert_eq!(micros(2_000, 4_600), 0);
        assert_eq!(micros(2_000, 5_500), 0);
        assert_eq!(micros(2_000, 5_700), 2_000);
        // Long silence: nothing of before counts.
        assert_eq!(micros(5, 5_800), 0);
        assert_eq!(micros(2_000, 9_000), 2_000);
    }
}
