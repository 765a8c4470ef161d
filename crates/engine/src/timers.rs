//! [`Timers`]: deadlines of waiting coroutines, for the engines that wait with futures.
//!
//! Invariant: at most one entry per [`Alarm`]. Every received byte moves the deadline of a fetch to a later time, and
//! the alarm follows lazily. It keeps its earlier time, wakes its coroutine too early once, and is then set again. So a
//! busy connection needs no timer work.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use argiope_core::Time;

/// The alarms of one thread, ordered by time.
#[derive(Default)]
pub struct Timers {
    /// The wakers of set alarms, by time and serial number of the alarm.
    alarms: RefCell<BTreeMap<(Time, u64), Waker>>,
    /// The serial number of the next alarm.
    next_serial: Cell<u64>,
    /// The task that sleeps until the next alarm and must be woken for an earlier one.
    sleeper: RefCell<Option<Waker>>,
}

impl Timers {
    /// When the next alarm fires; [`Time::NEVER`] if none is set.
    pub fn next(&self) -> Time {
        self.alarms.borrow().first_key_value().map_or(Time::NEVER, |((time, _), _)| *time)
    }

    /// Wakes every coroutine whose alarm time has come. Returns how many there were.
    pub fn fire(&self, now: Time) -> usize {
        let mut fired = 0;
        loop {
            // The borrow ends before `wake`, which is code of the runtime and may use the timers.
            let mut alarms = self.alarms.borrow_mut();
            let due = alarms.first_entry().filter(|entry| entry.key().0 <= now).map(|entry| entry.remove());
            drop(alarms);
            match due {
                Some(waker) => waker.wake(),
                None => return fired,
            }
            fired += 1;
        }
    }

    /// From now on `sleeper` is woken when an alarm is set that fires before all others.
    pub fn watch(&self, sleeper: &Waker) {
        *self.sleeper.borrow_mut() = Some(sleeper.clone());
    }

    fn insert(&self, time: Time, serial: u64, waker: &Waker) {
        let is_first = time < self.next();
        self.alarms.borrow_mut().insert((time, serial), waker.clone());
        if is_first && let Some(sleeper) = &*self.sleeper.borrow() {
            sleeper.wake_by_ref();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.alarms.borrow().is_empty()
    }
}

/// The alarm of one coroutine, used for one deadline after the other.
pub struct Alarm {
    timers: Rc<Timers>,
    serial: u64,
    /// When the alarm fires; [`Time::NEVER`] if it is not set.
    set_for: Time,
}

impl Alarm {
    pub fn new(timers: &Rc<Timers>) -> Self {
        let serial = timers.next_serial.get();
        timers.next_serial.set(serial + 1);
        Self { timers: Rc::clone(timers), serial, set_for: Time::NEVER }
    }

    /// Ready once `deadline` has passed. Otherwise the coroutine is woken at the deadline or earlier.
    pub fn poll(&mut self, deadline: Time, now: Time, cx: &Context<'_>) -> Poll<()> {
        if now >= deadline {
            return Poll::Ready(());
        }
        // If its time has passed, the alarm has fired.
        let is_set_early_enough = self.set_for > now && self.set_for <= deadline;
        if !is_set_early_enough && !deadline.is_never() {
            self.unset();
            self.timers.insert(deadline, self.serial, cx.waker());
            self.set_for = deadline;
        }
        Poll::Pending
    }

    fn unset(&mut self) {
        if !self.set_for.is_never() {
            self.timers.alarms.borrow_mut().remove(&(self.set_for, self.serial));
            self.set_for = Time::NEVER;
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.unset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn an_alarm_follows_its_deadline_lazily() {
        let (timers, count) = (Rc::new(Timers::default()), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&waker);
        let mut alarm = Alarm::new(&timers);
        assert!(alarm.poll(at(10), at(0), &cx).is_pending());
        // A later deadline does not move the alarm. An earlier one does.
        assert!(alarm.poll(at(30), at(1), &cx).is_pending());
        assert_eq!(timers.next(), at(10));
        assert!(alarm.poll(at(5), at(2), &cx).is_pending());
        assert_eq!(timers.next(), at(5));
        assert_eq!(timers.fire(at(4)), 0);
        assert_eq!(timers.fire(at(5)), 1);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        // The coroutine was woken too early, so the alarm is set again.
        assert!(alarm.poll(at(30), at(5), &cx).is_pending());
        assert_eq!(timers.next(), at(30));
        timers.fire(at(30));
        assert!(alarm.poll(at(30), at(30), &cx).is_ready());
        assert!(timers.is_empty());
    }

    #[test]
    fn a_dropped_alarm_is_removed() {
        let timers = Rc::new(Timers::default());
        let cx = Context::from_waker(Waker::noop());
        let mut alarms: Vec<_> = (0..3).map(|_| Alarm::new(&timers)).collect();
        for alarm in &mut alarms {
            assert!(alarm.poll(at(7), at(0), &cx).is_pending());
            assert!(alarm.poll(Time::NEVER, at(0), &cx).is_pending());
        }
        drop(alarms);
        assert!(timers.is_empty());
        assert_eq!(timers.next(), Time::NEVER);
    }
}
