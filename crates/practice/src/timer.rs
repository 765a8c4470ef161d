//! A timer queue: ordered deadlines, and one system timer for the earliest.
//!
//! Each connection that waits for a time has one entry in an ordered set. The system timer is updated only when the
//! earliest deadline changes. It is a `timerfd`, because epoll's timeout has a resolution of one millisecond: too
//! coarse for a latency of 25 ms with an error below one percent.
//!
//! Invariant: a connection has at most one deadline.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// Deadlines of one server thread.
pub(crate) struct DeadlineQueue {
    deadlines: BTreeSet<(Instant, u64)>,
    timer: OwnedFd,
    /// The deadline that the system timer is set to.
    armed: Option<Instant>,
}

impl DeadlineQueue {
    pub(crate) fn new() -> io::Result<DeadlineQueue> {
        let timer =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(DeadlineQueue { deadlines: BTreeSet::new(), timer, armed: None })
    }

    /// The descriptor to watch for reading.
    pub(crate) fn timer(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// Adds a deadline of a token. An earlier one stays until it passes or is cancelled.
    pub(crate) fn set(&mut self, due: Instant, token: u64) {
        self.deadlines.insert((due, token));
    }

    /// Removes a deadline that was set.
    pub(crate) fn cancel(&mut self, due: Instant, token: u64) {
        self.deadlines.remove(&(due, token));
    }

    /// Removes and returns the next token whose deadline has passed.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<u64> {
        let &(due, token) = self.deadlines.first()?;
        if due > now {
            return None;
        }
        self.deadlines.pop_first();
        Some(token)
    }

    /// Sets the system timer to the earliest deadline, if that has changed.
    pub(crate) fn arm(&mut self) -> io::Result<()> {
        let earliest = self.deadlines.first().map(|&(due, _)| due);
        if earliest == self.armed {
            return Ok(());
        }
        // Zero would disarm the timer, so a deadline that has just passed is set one nanosecond ahead.
        let wait = earliest
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let spec = Itimerspec { it_interval: zero, it_value: value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)?;
        self.armed = earliest;
        Ok(())
    }

    /// Handles an event of the system timer: clears it, so that `arm` sets it again.
    pub(crate) fn timer_expired(&mut self) {
        let mut count = [0; 8];
        // The error is ignored: if the timer was set again meanwhile, there is nothing to read.
        let _ = rustix::io::read(&self.timer, &mut count);
        self.armed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_returned_in_order_of_their_deadlines() {
        let mut timers = DeadlineQueue::new().unwrap();
        let now = Instant::now();
        timers.set(now + Duration::from_secs(3), 3);
        timers.set(now + Duration::from_secs(1), 1);
        timers.set(now + Duration::from_secs(2), 2);
        timers.cancel(now + Duration::from_secs(2), 2);
        assert_eq!(timers.pop(now), None);
        let later = now + Duration::from_secs(9);
        assert_eq!((timers.pop(later), timers.pop(later), timers.pop(later)), (Some(1), Some(3), None));
    }
}
