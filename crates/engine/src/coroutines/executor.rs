//! The executor: polls the coroutines that can make progress, and sleeps when none can.
//!
//! Invariant: a coroutine is polled only after something has woken it, and a wake-up is never lost.
//!
//! The terms:
//! - A **future** is a state machine that the compiler makes of an `async fn`. `poll` runs it to its next `await`.
//! - A **task** is a future that the executor owns, in a slab, under an id.
//! - A **waker** is a handle with that id. The source of the event that the task waits for keeps the handle: the reactor
//!   for a socket, the timers for a deadline, a queue for an item. When the event occurs, the source uses the waker,
//!   which pushes the id to the run queue.
//! - To **cancel** a task is to drop its future. Everything that the future holds is dropped with it, and its sockets are
//!   closed. Waking a task that no longer exists has no effect.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use argiope_core::Time;
use slab::Slab;

use super::reactor::Reactor;
use super::run_queue::{Park, RunQueue, TaskId};
use crate::Clock;
use crate::timers::{Alarm, Timers};
use crate::wake_batcher::WakeDelay;

/// An event of the executor, for its observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    Spawned(TaskId),
    Runs(TaskId),
    /// The task awaits something. The text is its last [mark](Executor::set_mark).
    Waits(TaskId, &'static str),
    Finished(TaskId),
    Cancelled(TaskId),
    /// No task can make progress: the thread goes to sleep.
    Sleeps,
    /// The thread has slept.
    Wakes,
}

type Observer = Box<dyn Fn(TaskEvent)>;

/// A spawned future.
struct Task {
    serial: u32,
    /// `None` while it is being polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Arc<TaskWaker>,
    /// The last [mark](Executor::set_mark) of the task.
    mark: &'static str,
}

/// Size of a task in the slab, without its future and its waker.
#[cfg(test)]
pub(super) const SIZE_OF_TASK: usize = size_of::<Task>();

/// How many tasks are cancelled between two calls of [`Park::submit_queued`].
const CANCEL_BATCH: usize = 256;

/// A single-threaded executor. `P` is the reactor in which its thread sleeps.
pub struct Executor<P = Reactor> {
    clock: Clock,
    tasks: RefCell<Slab<Task>>,
    /// The serial number of the next task.
    next_serial: Cell<u32>,
    /// The task that is being polled.
    current: Cell<TaskId>,
    /// The last mark of the future given to [`Executor::run`].
    main_mark: Cell<&'static str>,
    queue: Arc<RunQueue>,
    reactor: Rc<P>,
    timers: Rc<Timers>,
    observer: RefCell<Option<Observer>>,
    wake_delay: RefCell<WakeDelay>,
}

impl Executor {
    pub fn new(clock: Clock) -> io::Result<Rc<Self>> {
        Ok(Self::with_reactor(clock, Reactor::new()?))
    }
}

impl<P: Park> Executor<P> {
    /// An executor that sleeps in `reactor`.
    pub fn with_reactor(clock: Clock, reactor: P) -> Rc<Self> {
        let queue = Arc::new(RunQueue::new(reactor.waker()));
        Rc::new(Self {
            clock,
            tasks: RefCell::default(),
            next_serial: Cell::new(0),
            current: Cell::new(TaskId::MAIN),
            main_mark: Cell::new(""),
            queue,
            reactor: Rc::new(reactor),
            timers: Rc::default(),
            observer: RefCell::new(None),
            wake_delay: RefCell::new(WakeDelay::none(clock)),
        })
    }

    /// From now on `observer` is called with every event.
    pub fn observe(&self, observer: impl Fn(TaskEvent) + 'static) {
        *self.observer.borrow_mut() = Some(Box::new(observer));
    }

    /// Sets the delay before waiting for sockets, which coalesces wake-ups.
    pub fn set_wake_delay(&self, wake_delay: WakeDelay) {
        *self.wake_delay.borrow_mut() = wake_delay;
    }

    // anchor: executor-run
    /// Runs all tasks until the future `main` ends. Tasks that are unfinished then are cancelled.
    pub fn run<T>(&self, main: impl Future<Output = T>) -> io::Result<T> {
        let mut main = pin!(main);
        let task_waker = self.new_waker(TaskId::MAIN);
        let waker = Waker::from(Arc::clone(&task_waker));
        waker.wake_by_ref();
        let mut ready = Vec::new();
        loop {
            self.queue.take(&mut ready);
            for id in ready.drain(..) {
                if id != TaskId::MAIN {
                    self.poll_task(id);
                    continue;
                }
                task_waker.is_queued.store(false, Ordering::Release);
                self.notify(TaskEvent::Runs(id));
                self.current.set(id);
                if let Poll::Ready(value) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                    self.cancel_all()?;
                    return Ok(value);
                }
                self.notify(TaskEvent::Waits(id, self.main_mark.get()));
            }
            self.wait_for_events()?;
        }
    }
    // end: executor-run

    /// Spawns a task, which runs after the tasks that are already queued.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> TaskId {
        let serial = self.next_serial.get();
        self.next_serial.set(serial.wrapping_add(1));
        let mut tasks = self.tasks.borrow_mut();
        let slot = tasks.vacant_entry();
        // The cast cannot truncate: four billion tasks do not fit into memory.
        let id = TaskId { index: slot.key() as u32, serial };
        let waker = self.new_waker(id);
        slot.insert(Task { serial, future: Some(Box::pin(future)), waker: Arc::clone(&waker), mark: "" });
        drop(tasks);
        self.notify(TaskEvent::Spawned(id));
        waker.wake();
        id
    }

    // anchor: executor-cancel
    /// Drops a task wherever it is waiting. Returns whether it existed.
    pub fn cancel(&self, id: TaskId) -> bool {
        let mut tasks = self.tasks.borrow_mut();
        if tasks.get(id.index as usize).is_none_or(|task| task.serial != id.serial) {
            return false;
        }
        let task = tasks.remove(id.index as usize);
        // Dropping the future may access the slab: end the borrow first.
        drop(tasks);
        drop(task);
        self.notify(TaskEvent::Cancelled(id));
        true
    }
    // end: executor-cancel

    /// How many tasks there are, running or waiting.
    pub fn len(&self) -> usize {
        self.tasks.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The task that runs now.
    pub fn current(&self) -> TaskId {
        self.current.get()
    }

    /// Sets a text that says what the current task is doing. It is kept across every `await`, so an error can report
    /// where it happened although the stack is lost at each `await`.
    pub fn set_mark(&self, mark: &'static str) {
        let id = self.current.get();
        match self.tasks.borrow_mut().get_mut(id.index as usize) {
            Some(task) if task.serial == id.serial => task.mark = mark,
            _ => self.main_mark.set(mark),
        }
    }

    /// The last mark of the current task.
    pub fn mark(&self) -> &'static str {
        let id = self.current.get();
        match self.tasks.borrow().get(id.index as usize) {
            Some(task) if task.serial == id.serial => task.mark,
            _ => self.main_mark.get(),
        }
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    pub fn reactor(&self) -> &Rc<P> {
        &self.reactor
    }

    pub fn alarm(&self) -> Alarm {
        Alarm::new(&self.timers)
    }

    pub async fn sleep(&self, span: Duration) {
        self.sleep_until(self.now() + span).await;
    }

    pub async fn sleep_until(&self, time: Time) {
        let mut alarm = self.alarm();
        poll_fn(|cx| alarm.poll(time, self.now(), cx)).await;
    }

    fn new_waker(&self, id: TaskId) -> Arc<TaskWaker> {
        Arc::new(TaskWaker { id, is_queued: AtomicBool::new(false), queue: Arc::clone(&self.queue) })
    }

    fn poll_task(&self, id: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        let found = tasks.get_mut(id.index as usize).filter(|task| task.serial == id.serial);
        let taken = found.and_then(|task| Some((task.future.take()?, Arc::clone(&task.waker))));
        let Some((mut future, task_waker)) = taken else { return };
        drop(tasks);
        // From here on a wake-up queues the task for the next round.
        task_waker.is_queued.store(false, Ordering::Release);
        self.notify(TaskEvent::Runs(id));
        self.current.set(id);
        let waker = Waker::from(task_waker);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut tasks = self.tasks.borrow_mut();
        // The task may have been cancelled while it ran, even by itself. Then the slot is empty or belongs to another
        // task.
        let slot = tasks.get_mut(id.index as usize).filter(|task| task.serial == id.serial);
        let event = match (slot, polled) {
            (Some(task), Poll::Pending) => {
                task.future = Some(future);
                let mark = task.mark;
                drop(tasks);
                TaskEvent::Waits(id, mark)
            }
            (Some(_), Poll::Ready(())) => {
                let finished = tasks.remove(id.index as usize);
                drop(tasks);
                drop((finished, future));
                TaskEvent::Finished(id)
            }
            // `cancel` has reported the end.
            (None, _) => {
                drop(tasks);
                drop(future);
                return;
            }
        };
        self.notify(event);
    }

    /// Collects events of sockets and timers. If no task can run, sleeps until there is an event.
    fn wait_for_events(&self) -> io::Result<()> {
        let has_ready_task = !self.queue.is_empty();
        if !has_ready_task {
            self.notify(TaskEvent::Sleeps);
            self.wake_delay.borrow().sleep(self.timers.next());
        }
        let timeout = if has_ready_task { Some(Duration::ZERO) } else { self.clock.until(self.timers.next()) };
        self.reactor.park(timeout, &self.queue)?;
        if !has_ready_task {
            self.notify(TaskEvent::Wakes);
        }
        self.timers.fire(self.now());
        Ok(())
    }

    fn cancel_all(&self) -> io::Result<()> {
        // A dropped future may spawn tasks. The next iteration drops them.
        while !self.is_empty() {
            let mut tasks = std::mem::take(&mut *self.tasks.borrow_mut());
            let mut cancelled = tasks.drain();
            // Submit the operations that the tasks have queued so far.
            self.reactor.submit_queued()?;
            let cancel = |task: Task| {
                let id = task.waker.id;
                drop(task);
                self.notify(TaskEvent::Cancelled(id));
            };
            while cancelled.by_ref().take(CANCEL_BATCH).map(cancel).count() > 0 {
                self.reactor.submit_queued()?;
            }
        }
        Ok(())
    }

    fn notify(&self, event: TaskEvent) {
        if let Some(observer) = &*self.observer.borrow() {
            observer(event);
        }
    }
}

// anchor: executor-waker
/// The data behind a task's waker. `is_queued` prevents a second entry of the task in the run queue.
struct TaskWaker {
    id: TaskId,
    is_queued: AtomicBool,
    queue: Arc<RunQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.id);
        }
    }
}
// end: executor-waker

// anchor: executor-yield
/// Yields once, so that other tasks that are ready run first.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
// end: executor-yield
