//! [`WakeBatcher`]: wake-up coalescing for workers whose responses are all slow.
//!
//! A wake-up costs more than reading a response: the kernel switches threads, and the caches are cold for the woken
//! thread. If all responses are slow, a worker may be woken separately for each of thousands of responses. If the
//! fastest response takes a second, a delay of a millisecond does not matter. So a worker with many fetches in flight
//! first sleeps for a small fraction of the response time. Then it waits for sockets and serves all that are ready.
//!
//! Invariant: the delay is at most a 512th of the time of the fastest response in the last second. A worker with work
//! does not sleep. An engine that knows its next deadline does not sleep past that deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use argiope_core::Time;
use argiope_core::crawl::visit::Visit;

use crate::Clock;

/// The delay is the fastest response time divided by this.
const FRACTION: u32 = 512;
/// A shorter delay is not used, because it coalesces nothing.
const MIN_DELAY: Duration = Duration::from_micros(200);
/// A longer delay is not used, because it hardly coalesces more.
const MAX_DELAY: Duration = Duration::from_millis(2);
/// With fewer fetches in flight there is little to coalesce.
const MIN_IN_FLIGHT: usize = 64;
/// A fast response is remembered for at least this long, and for less than three times as long.
const WINDOW: Duration = Duration::from_secs(1);

/// Computes the delay from the response times of one worker.
#[derive(Debug)]
pub struct WakeBatcher {
    /// The time of the fastest response in the current window.
    fastest: Option<Duration>,
    /// The time of the fastest response in the previous window.
    previous_fastest: Option<Duration>,
    window_start: Time,
    delay: WakeDelay,
}

/// Handle to the current delay, for the place where the worker goes to sleep.
#[derive(Clone, Debug)]
pub struct WakeDelay {
    clock: Clock,
    shared: Arc<SharedDelay>,
}

#[derive(Debug, Default)]
struct SharedDelay {
    /// The delay in microseconds; zero if wake-ups are not coalesced.
    micros: AtomicU64,
    /// When [`WakeDelay::sleep`] last returned, in microseconds.
    last_call: AtomicU64,
}

impl WakeBatcher {
    pub fn new(clock: Clock) -> Self {
        Self { fastest: None, previous_fastest: None, window_start: Time::ZERO, delay: WakeDelay::none(clock) }
    }

    /// Records the end of a fetch while `in_flight` others are in progress. The duration of a failed fetch is ignored:
    /// a refused connection, for example, fails much faster than a server responds.
    pub fn record_fetch(&mut self, visit: &Visit, in_flight: usize) {
        let response_time = visit.facts.timings.total.filter(|_| visit.facts.error.is_none());
        self.update_delay(response_time, in_flight, self.delay.clock.now());
    }

    /// Adds a response time to the current window, and computes the delay from the fastest of the last two windows.
    fn update_delay(&mut self, response_time: Option<Duration>, in_flight: usize, now: Time) {
        if now >= self.window_start + WINDOW {
            let is_recent = now < self.window_start + 2 * WINDOW;
            self.previous_fastest = self.fastest.take().filter(|_| is_recent);
            self.window_start = now;
        }
        self.fastest = self.fastest.into_iter().chain(response_time).min();
        let fastest = self.fastest.into_iter().chain(self.previous_fastest).min();
        let delay = fastest.map_or(Duration::ZERO, |fastest| delay_for(fastest, in_flight));
        self.delay.shared.micros.store(u64::try_from(delay.as_micros()).unwrap_or(0), Ordering::Relaxed);
    }

    pub fn wake_delay(&self) -> &WakeDelay {
        &self.delay
    }
}

/// The delay with this many fetches in flight, if the fastest response took this long.
fn delay_for(fastest: Duration, in_flight: usize) -> Duration {
    let delay = (fastest / FRACTION).min(MAX_DELAY);
    if in_flight >= MIN_IN_FLIGHT && delay >= MIN_DELAY { delay } else { Duration::ZERO }
}

impl WakeDelay {
    /// A delay of zero.
    pub fn none(clock: Clock) -> Self {
        Self { clock, shared: Arc::default() }
    }

    /// Sleeps before the worker waits for sockets, but not past the next deadline. If the last call is longer ago than
    /// the delay, wake-ups are already rare enough, and this does not sleep. Returns whether it slept.
    pub fn sleep(&self, next_deadline: Time) -> bool {
        let micros = self.shared.micros.load(Ordering::Relaxed);
        if micros == 0 {
            return false;
        }
        let sleep_time = self.sleep_time(micros, self.clock.now(), next_deadline);
        if let Some(sleep_time) = sleep_time {
            thread::sleep(sleep_time);
        }
        self.shared.last_call.store(self.clock.now().as_micros(), Ordering::Relaxed);
        sleep_time.is_some()
    }

    /// How long to sleep now; `None` if not at all.
    fn sleep_time(&self, micros: u64, now: Time, next_deadline: Time) -> Option<Duration> {
        let since_last_call = now.as_micros().saturating_sub(self.shared.last_call.load(Ordering::Relaxed));
        let sleep_time = Duration::from_micros(micros).min(next_deadline.since(now));
        (since_last_call < micros && !sleep_time.is_zero()).then_some(sleep_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn only_many_slow_fetches_cause_a_delay() {
        let after = |millis, in_flight| delay_for(Duration::from_millis(millis), in_flight);
        assert_eq!(after(1_024, MIN_IN_FLIGHT), MAX_DELAY);
        assert_eq!(after(60_000, MIN_IN_FLIGHT), MAX_DELAY);
        assert_eq!(after(512, MIN_IN_FLIGHT), Duration::from_millis(1));
        assert_eq!(after(102, MIN_IN_FLIGHT), Duration::ZERO);
        assert!(after(103, MIN_IN_FLIGHT) >= MIN_DELAY);
        assert_eq!(after(1_024, MIN_IN_FLIGHT - 1), Duration::ZERO);
    }

    #[test]
    fn the_worker_sleeps_for_the_delay_and_stores_its_end() {
        let clock = Clock::start();
        let delay = WakeDelay::none(clock);
        assert!(!delay.sleep(Time::NEVER), "there is no delay yet");
        delay.shared.micros.store(2_000, Ordering::Relaxed);
        // A time in the future, so that no time has passed since then, however slow the machine is.
        delay.shared.last_call.store(u64::MAX, Ordering::Relaxed);
        let before = clock.now();
        assert!(delay.sleep(Time::NEVER));
        assert!(clock.now() >= before + MAX_DELAY);
        assert!(delay.shared.last_call.load(Ordering::Relaxed) >= before.as_micros() + 2_000);
    }

    #[test]
    fn a_worker_does_not_sleep_past_a_deadline_or_long_after_the_last_call() {
        let delay = WakeDelay::none(Clock::start());
        delay.shared.last_call.store(1_000, Ordering::Relaxed);
        let sleep_time = |now, next| delay.sleep_time(2_000, at(now), next);
        assert_eq!(sleep_time(1_500, Time::NEVER), Some(Duration::from_millis(2)));
        assert_eq!(sleep_time(2_999, at(3_099)), Some(Duration::from_micros(100)), "no further than to the deadline");
        assert_eq!(sleep_time(1_500, at(1_500)), None, "a deadline has been reached");
        assert_eq!(sleep_time(3_000, Time::NEVER), None, "the last call is long ago");
    }

    #[test]
    fn one_fast_response_ends_the_delay_for_a_while() {
        let mut batcher = WakeBatcher::new(Clock::start());
        let delay = batcher.wake_delay().clone();
        let mut micros = |took: u64, millis: u64| {
            batcher.update_delay(Some(Duration::from_millis(took)), MIN_IN_FLIGHT, at(millis * 1_000));
            delay.shared.micros.load(Ordering::Relaxed)
        };
        assert_eq!(micros(2_000, 2_000), 2_000);
        assert_eq!(micros(2_000, 3_500), 2_000);
        assert_eq!(micros(5, 3_600), 0);
        assert_eq!(micros(2_000, 4_400), 0);
        // A new window starts at 4,600 ms. The fast response is in the previous window, which still counts.
        assert_eq!(micros(2_000, 4_600), 0);
        assert_eq!(micros(2_000, 5_500), 0);
        assert_eq!(micros(2_000, 5_700), 2_000);
        // After a long silence the previous window does not count.
        assert_eq!(micros(5, 5_800), 0);
        assert_eq!(micros(2_000, 9_000), 2_000);
    }
}
