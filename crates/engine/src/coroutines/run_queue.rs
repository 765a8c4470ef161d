//! [`RunQueue`]: the tasks that can run, and [`Park`]: the reactor in which the thread sleeps when there are none.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::epoll::PollWaker;

/// Identifies a task: its index in the slab, and a serial number that differs from earlier tasks with the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    pub(super) index: u32,
    pub(super) serial: u32,
}

impl TaskId {
    /// The id of the future given to [`Executor::run`](super::executor::Executor::run), which is not in the slab.
    pub(super) const MAIN: Self = Self { index: u32::MAX, serial: u32::MAX };
}

/// The interface of a reactor in which the executor's thread sleeps.
pub trait Park {
    /// Waits for an event until the timeout (`None`: no limit), and wakes the tasks that wait for the event. Calls
    /// [`RunQueue::may_sleep`] before it sleeps, and [`RunQueue::end_sleep`] afterwards.
    fn park(&self, timeout: Option<Duration>, run_queue: &RunQueue) -> io::Result<()>;

    /// A handle with which other threads interrupt `park`.
    fn waker(&self) -> PollWaker;

    /// Called before tasks are cancelled and after each `CANCEL_BATCH` of them. A reactor that queues operations
    /// submits them here, so that the queue has room for those that cancel and close.
    fn submit_queued(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The ids of the tasks that can run. It has a lock, because wakers may be used on other threads. The lock is held only
/// for a push or a swap.
pub struct RunQueue {
    ready: Mutex<Ready>,
    waker: PollWaker,
}

#[derive(Default)]
struct Ready {
    ids: Vec<TaskId>,
    /// The executor's thread sleeps in the reactor, or is about to. A push must wake it.
    is_asleep: bool,
}

impl RunQueue {
    /// An empty queue. `waker` wakes the executor's thread.
    pub(super) fn new(waker: PollWaker) -> Self {
        Self { ready: Mutex::default(), waker }
    }

    pub(super) fn push(&self, id: TaskId) {
        let mut ready = self.lock();
        ready.ids.push(id);
        let was_asleep = std::mem::take(&mut ready.is_asleep);
        drop(ready);
        if was_asleep {
            self.waker.wake();
        }
    }

    pub(super) fn take(&self, into: &mut Vec<TaskId>) {
        std::mem::swap(&mut self.lock().ids, into);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().ids.is_empty()
    }

    /// Whether the thread may sleep, because no task can run. If so, a push wakes the thread, until
    /// [`Self::end_sleep`].
    pub fn may_sleep(&self) -> bool {
        let mut ready = self.lock();
        ready.is_asleep = ready.ids.is_empty();
        ready.is_asleep
    }

    /// Reports that the thread runs again: from now on a push need not wake it.
    pub fn end_sleep(&self) {
        self.lock().is_asleep = false;
    }

    fn lock(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
