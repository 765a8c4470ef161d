//! [`TaskSlots`]: how a job reaches the task that owns a connection with room for it.
//!
//! Shared by `coroutines` and `tokio` on purpose: both have one task per connection, and a task can only be reached
//! through its waker. What they do not share is the executor, the reactor and how a socket is awaited.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use argiope_core::Time;
use argiope_core::http::session::{ConnKey, Session, SlotKey, slot_key};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;

use crate::resources::Resources;
use crate::wake_batcher::WakeDelay;
use crate::worker::Worker;

/// The connections with room for a job, each owned by a task.
pub struct TaskSlots(RefCell<Resources<TaskSlot>>);

/// A connection with room, as the tasks that do not own it see it.
struct TaskSlot {
    waker: Waker,
    key: ConnKey,
    room: usize,
    jobs: VecDeque<Box<Job>>,
    is_idle: bool,
    evicted: bool,
}

impl TaskSlot {
    fn may_leave(&self) -> bool {
        self.is_idle && self.jobs.is_empty() && !self.evicted
    }

    /// Has the owner close its connection as soon as it runs.
    fn evict(&mut self) {
        self.evicted = true;
        self.waker.wake_by_ref();
    }
}

/// What the owner of a connection with room is told.
pub enum SlotEvent {
    Job(Box<Job>),
    /// Close the connection: its file descriptor is needed elsewhere.
    Evicted,
}

impl TaskSlots {
    pub fn new(worker: &Worker) -> Self {
        Self(RefCell::new(Resources::new(worker)))
    }

    pub fn wake_delay(&self) -> WakeDelay {
        self.0.borrow().wake_delay()
    }

    /// A fetch has ended; `in_flight` others have not.
    pub fn note(&self, visit: &Visit, in_flight: usize) {
        self.0.borrow_mut().note(visit, in_flight);
    }

    /// Hands a job to the task whose connection has room for it. Gives it back if there is none.
    pub fn give(&self, job: Box<Job>) -> Result<(), Box<Job>> {
        let mut resources = self.0.borrow_mut();
        let Some(slot) = resources.pool().get_mut(slot_key(&job)) else { return Err(job) };
        if slot.evicted || slot.jobs.len() >= slot.room {
            return Err(job);
        }
        if slot.key != ConnKey::of(&job) {
            // The host's requests go to another port now; the old connection is of no more use.
            if slot.may_leave() {
                slot.evict();
            }
            return Err(job);
        }
        slot.jobs.push_back(job);
        slot.waker.wake_by_ref();
        Ok(())
    }

    /// For the owner of a session with room: ready when a job was handed over or the connection was evicted. The first
    /// call enters the session in the pool and remembers that in `entered`.
    pub fn poll(
        &self,
        session: &Session,
        entered: &mut Option<SlotKey>,
        now: Time,
        cx: &Context<'_>,
    ) -> Poll<SlotEvent> {
        let (Some(key), Some(slot)) = (session.key(), session.slot()) else { return Poll::Pending };
        let mut resources = self.0.borrow_mut();
        if entered.is_none() {
            if !resources.may_keep(slot, now) {
                return if session.is_idle() { Poll::Ready(SlotEvent::Evicted) } else { Poll::Pending };
            }
            let oldest = resources.evict_if_full(TaskSlot::may_leave);
            if let Some(oldest) = oldest.and_then(|oldest| resources.pool().get_mut(oldest)) {
                oldest.evict();
            }
            let waker = cx.waker().clone();
            let jobs = VecDeque::new();
            let own = TaskSlot { waker, key, room: 0, jobs, is_idle: false, evicted: false };
            resources.pool().insert(slot, own);
            *entered = Some(slot);
        }
        let Some(own) = resources.pool().get_mut(slot) else { return Poll::Pending };
        if let Some(job) = own.jobs.pop_front() {
            return Poll::Ready(SlotEvent::Job(job));
        }
        if own.evicted {
            return Poll::Ready(SlotEvent::Evicted);
        }
        own.room = session.room();
        own.is_idle = session.is_idle();
        Poll::Pending
    }

    /// The session has no more room, or is closed. Gives back the jobs that were handed over and not accepted.
    pub fn leave(&self, entered: &mut Option<SlotKey>) -> VecDeque<Box<Job>> {
        let slot = entered.take().and_then(|slot| self.0.borrow_mut().pool().remove(slot));
        slot.map(|slot| slot.jobs).unwrap_or_default()
    }

    /// Has the least recently used idle connection closed as soon as its task runs. Says whether there is one.
    pub fn evict(&self) -> bool {
        let mut resources = self.0.borrow_mut();
        let oldest = resources.pool().oldest(TaskSlot::may_leave);
        oldest.and_then(|slot| resources.pool().get_mut(slot)).map(TaskSlot::evict).is_some()
    }

    /// Evicts idle connections while file descriptors are short, for the sake of other workers.
    pub fn evict_if_short(&self, now: Time) {
        let mut resources = self.0.borrow_mut();
        while let Some(slot) = resources.evict_if_short(now, TaskSlot::may_leave) {
            if let Some(slot) = resources.pool().get_mut(slot) {
                slot.evict();
            }
        }
    }
}
