//! [`PushControl`]: what the thread that sends records and the threads of the crawl tell each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Backpressure: a crawl waits while this many records are not sent.
const MAX_UNSENT: u64 = 20_000;
/// How long records are collected for a batch.
const LINGER: Duration = Duration::from_millis(500);

/// The state of sending, shared by threads.
#[derive(Default)]
pub struct PushControl {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many records the crawl has made durable.
    delivered: u64,
    /// How many of them the receiver has, and how many records it got in all.
    covered: u64,
    sent: u64,
    /// The crawl makes no more records.
    is_finished: bool,
    /// The user wants the process to end.
    is_stopped: bool,
    /// No more records are sent.
    is_over: bool,
}

/// What the thread sends next.
pub struct PushWork {
    /// The number of records that were durable when it began.
    pub delivered: u64,
    /// No more records follow.
    pub is_last: bool,
}

impl PushControl {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits while `condition` holds, at most until a time.
    fn wait_while(&self, until: Option<Instant>, condition: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while condition(&state) {
            let Some(until) = until else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    /// The crawl has made a record durable.
    pub fn add_delivered(&self) {
        let mut state = self.state();
        state.delivered += 1;
        // A thread that waits for the first record is woken once.
        if state.delivered == state.covered + 1 {
            self.changed.notify_all();
        }
    }

    /// Waits while too many records are not sent.
    pub fn wait_for_room(&self) {
        drop(self.wait_while(None, |state| {
            let is_waiting = !(state.is_over || state.is_stopped);
            is_waiting && state.delivered.saturating_sub(state.covered) >= MAX_UNSENT
        }));
    }

    /// The crawl has ended: the rest is sent.
    pub fn finish(&self) {
        self.change(|state| state.is_finished = true);
    }

    /// The user wants the process to end: a receiver that does not take records is not asked again.
    pub fn stop(&self) {
        self.change(|state| state.is_stopped = true);
    }

    /// No more records are sent.
    pub fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    /// How many records the receiver got.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// Waits until sending has ended, at most this long. Returns whether it has.
    pub fn wait_for_end(&self, time: Duration) -> bool {
        self.wait_while(Some(Instant::now() + time), |state| !state.is_over).is_over
    }

    /// Waits for records to send, and then for more of them, which go into the same batch.
    pub(super) fn next_work(&self) -> PushWork {
        drop(self.wait_while(None, |state| state.delivered == state.covered && !state.is_finished));
        let state = self.wait_while(Some(Instant::now() + LINGER), |state| !state.is_finished);
        PushWork { delivered: state.delivered, is_last: state.is_finished }
    }

    /// The receiver has the records up to this number.
    pub(super) fn has_sent_up_to(&self, delivered: u64) {
        self.change(|state| state.covered = delivered);
    }

    /// The receiver got records.
    pub(super) fn add_sent(&self, records: u64) {
        self.change(|state| state.sent += records);
    }

    /// Waits before the next try. Returns `false` if there is none because the user wants the process to end.
    pub(super) fn pause(&self, time: Duration) -> bool {
        !self.wait_while(Some(Instant::now() + time), |state| !state.is_stopped).is_stopped
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_crawl_waits_while_too_many_records_are_not_sent() {
        let control = Arc::new(PushControl::default());
        (0..MAX_UNSENT).for_each(|_| control.add_delivered());
        let waiting = Arc::clone(&control);
        let waited = std::thread::spawn(move || waiting.wait_for_room());
        assert_eq!(control.next_work().delivered, MAX_UNSENT);
        assert!(!waited.is_finished(), "the receiver has none of them");
        control.has_sent_up_to(1);
        waited.join().expect("there is room");
        control.add_delivered();
        control.end();
        control.wait_for_room();
    }

    #[test]
    fn a_stop_ends_the_wait_for_the_next_try() {
        let control = PushControl::default();
        assert!(control.pause(Duration::ZERO));
        control.stop();
        assert!(!control.pause(Duration::from_secs(3_600)));
    }
}
