//! [`WakeBatcher`]: when a worker may look away for a moment.
//!
//! To be woken up costs more than to read an answer: the kernel changes threads, and what the processor had at hand of
//! this one is gone. A worker that is woken for each of ten thousand slow answers pays that ten thousand times. Where the
//! quickest answer takes a second, nobody notices a millisecond: so with many fetches in hand a worker lets what comes
//! gather for a small part of the time that answers take, and then serves all of it in one go.
//!
//! Invariant: a moment is never longer than a 512th of the quickest answer of the last second, and nobody looks away
//! while there is something to do. An engine that knows its next alarm does not look away beyond it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use argiope_core::Time;
use argiope_core::visit::Visit;

use crate::Clock;

/// The quickest answer takes so many times longer than a moment of wake_batcher.
const PART: u32 = 512;
/// Shorter moments gather nothing, ...
const SHORTEST: Duration = Duration::from_micros(200);
/// ... and longer ones hardly more.
const LONGEST: Duration = Duration::from_millis(2);
/// With fewer fetches in hand there is little to gather.
const MANY: usize = 64;
/// For so long at least, and for less than three times that, a quick answer is remembered.
const MEMORY: Duration = Duration::from_secs(1);

/// What a worker knows about how long its answers take.
#[derive(Debug, Default)]
pub struct WakeBatcher {
    /// The quickest since `since`, and the one of the time before.
    quickest: Option<Duration>,
    before: Option<Duration>,
    since: Time,
    moment: WakeDelay,
}

/// For how long to look away. It can be asked for from wherever the worker goes to sleep.
#[derive(Clone, Debug, Default)]
pub struct WakeDelay(Arc<Span>);

#[derive(Debug, Default)]
struct Span {
    micros: AtomicU64,
    /// When the worker was about to sleep last.
    last: AtomicU64,
}

impl WakeBatcher {
    /// A fetch has ended, and so many are still in hand. What it took counts where it brought an answer: a connection that
    /// is refused at once is waited for by nobody.
    pub fn note(&mut self, visit: &Visit, in_hand: usize, now: Time) {
        let took = visit.facts.timings.total.filter(|_| visit.facts.error.is_none());
        self.remember(took, in_hand, now);
    }

    fn remember(&mut self, took: Option<Duration>, in_hand: usize, now: Time) {
        if now >= self.since + MEMORY {
            let is_fresh = now < self.since + 2 * MEMORY;
            self.before = self.quickest.take().filter(|_| is_fresh);
            self.since = now;
        }
        self.quickest = self.quickest.into_iter().chain(took).min();
        let quickest = self.quickest.into_iter().chain(self.before).min();
        let moment = quickest.map_or(Duration::ZERO, |quickest| moment(quickest, in_hand));
        self.moment.0.micros.store(u64::try_from(moment.as_micros()).unwrap_or(0), Ordering::Relaxed);
    }

    pub fn moment(&self) -> WakeDelay {
        self.moment.clone()
    }
}

/// How long a worker may look away, with so many fetches in hand, of which the quickest took so long.
fn moment(quickest: Duration, in_hand: usize) -> Duration {
    let moment = (quickest / PART).min(LONGEST);
    if in_hand >= MANY && moment >= SHORTEST { moment } else { Duration::ZERO }
}

impl WakeDelay {
    /// Looks away before the worker sleeps, where that does no harm, and no further than to the next alarm. So a worker is
    /// woken about once in a moment: where the last time is longer ago than that, whether it worked or waited meanwhile,
    /// it does not look away. Says whether it did.
    pub fn delay(&self, clock: Clock, next: Time) -> bool {
        let moment = self.0.micros.load(Ordering::Relaxed);
        if moment == 0 {
            return false;
        }
        let now = clock.now();
        let since_last = now.as_micros().saturating_sub(self.0.last.load(Ordering::Relaxed));
        let span = Duration::from_micros(moment).min(next.since(now));
        let looks_away = since_last < moment && !span.is_zero();
        if looks_away {
            thread::sleep(span);
        }
        self.0.last.store(clock.now().as_micros(), Ordering::Relaxed);
        looks_away
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
        assert_eq!(after(102, MANY), Duration::ZERO);
        assert!(after(103, MANY) >= SHORTEST);
        assert_eq!(after(1_024, MANY - 1), Duration::ZERO);
    }

    #[test]
    fn whoever_has_just_looked_looks_away() {
        let (clock, moment) = (Clock::start(), WakeDelay::default());
        assert!(!moment.delay(clock, Time::NEVER), "there is no time for it");
        moment.0.micros.store(2_000, Ordering::Relaxed);
        moment.0.last.store(clock.now().as_micros(), Ordering::Relaxed);
        let before = clock.now();
        assert!(moment.delay(clock, Time::NEVER));
        assert!(clock.now() >= before + LONGEST);
        assert!(moment.0.last.load(Ordering::Relaxed) >= before.as_micros() + 2_000);
    }

    #[test]
    fn nobody_looks_away_when_something_is_due_or_much_time_has_passed() {
        let (clock, moment) = (Clock::start(), WakeDelay::default());
        moment.0.micros.store(2_000, Ordering::Relaxed);
        moment.0.last.store(u64::MAX, Ordering::Relaxed);
        assert!(!moment.delay(clock, Time::ZERO));
        moment.0.micros.store(1, Ordering::Relaxed);
        moment.0.last.store(0, Ordering::Relaxed);
        while clock.now() <= Time::from_micros(1) {}
        assert!(!moment.delay(clock, Time::NEVER));
    }

    #[test]
    fn one_quick_answer_is_enough_and_is_forgotten_in_time() {
        let mut wake_batcher = WakeBatcher::default();
        let moment = wake_batcher.moment();
        let mut micros = |took: u64, at: u64| {
            wake_batcher.remember(Some(Duration::from_millis(took)), MANY, Time::from_micros(at * 1_000));
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
