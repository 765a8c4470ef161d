//! [`WorkerState`]: what the tasks of one worker share, in the engines `coroutines`, `tokio` and `uring`.
//!
//! These engines have one task per connection. They share on purpose everything that is not waiting: how jobs arrive
//! and visits are sent ([`receive`]), how a job gets to a connection ([`WorkerState::start`]), and what a session does
//! with its jobs ([`WorkerState::deliver`], [`WorkerState::accept`]). Each engine has its own `connect` and `drive`,
//! because these wait for sockets.
//!
//! Invariant: a job counts as unfinished from the time when it is received until its visit is reported. A job that is
//! started again, on another connection, is not counted again.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use argiope_core::Time;
use argiope_core::base::job::Job;
use argiope_core::crawl::fetcher::{StopMode, VisitSender};
use argiope_core::crawl::session::{Completed, Session, SlotKey};
use argiope_core::crawl::visit::Visit;

use crate::resources::IDLE_CHECK_INTERVAL;
use crate::task_slots::TaskSlots;
use crate::timers::Alarm;
use crate::worker::{JOB_BUFFER_CAPACITY, Worker, lost_job_error};

/// What an engine runs its tasks on.
pub trait TaskRuntime: Sized + 'static {
    /// Spawns the task that connects for this job and then serves the connection until it closes.
    fn spawn_connection(state: &Rc<WorkerState<Self>>, job: Box<Job>);
}

/// The state that the tasks of one worker share. `R` is the part that differs between the engines.
pub struct WorkerState<R> {
    pub worker: Worker,
    pub runtime: Rc<R>,
    /// The tasks whose connection has room for a job, and the jobs that wait for a connection.
    pub slots: TaskSlots,
    visit_sender: RefCell<VisitSender>,
    /// The number of jobs without a visit yet.
    unfinished: Cell<usize>,
    /// Wakes [`receive`].
    receiver: OnceCell<Waker>,
    /// A job is lost because its task panicked, see [`Self::report_lost_job`].
    has_lost_job: Cell<bool>,
}

// anchor: receive
/// The first task: sends visits, receives jobs and starts them. It ends when the worker must stop.
pub async fn receive<R: TaskRuntime>(state: Rc<WorkerState<R>>) -> io::Result<()> {
    state.set_receiver().await;
    let mut jobs = Vec::new();
    loop {
        state.visit_sender.borrow_mut().send();
        let stop = state.worker.job_queue.take(&mut jobs);
        for job in jobs.drain(..) {
            state.unfinished.set(state.unfinished.get() + 1);
            state.start(Box::new(job));
        }
        jobs.shrink_to(JOB_BUFFER_CAPACITY);
        match stop {
            // A task has panicked. The crawl would wait for its job forever.
            _ if state.has_lost_job.get() => return Err(lost_job_error()),
            Some(StopMode::Now) => return Ok(()),
            Some(StopMode::Drain) if state.unfinished.get() == 0 => return Ok(()),
            _ => next_wake_up().await,
        }
    }
}
// end: receive

/// Waits until the calling task is woken. The wake-up may be meant for something else, so the caller checks again what
/// it waits for.
async fn next_wake_up() {
    let mut has_waited = false;
    poll_fn(|_| if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Closes idle connections while file descriptors are short: another worker may need them. The engines `coroutines` and
/// `tokio` run this as a task.
pub async fn evict_on_shortage<R: TaskRuntime>(state: Rc<WorkerState<R>>, mut alarm: Alarm) {
    loop {
        let until = state.now() + IDLE_CHECK_INTERVAL;
        poll_fn(|cx| alarm.poll(until, state.now(), cx)).await;
        state.slots.evict_if_short(state.now());
    }
}

impl<R: TaskRuntime> WorkerState<R> {
    pub fn new(worker: Worker, runtime: Rc<R>) -> Self {
        Self {
            slots: TaskSlots::new(&worker),
            visit_sender: RefCell::new(worker.visit_sender.clone()),
            worker,
            runtime,
            unfinished: Cell::new(0),
            receiver: OnceCell::new(),
            has_lost_job: Cell::new(false),
        }
    }

    pub fn now(&self) -> Time {
        self.worker.clock.now()
    }

    /// Starts a job: in the task whose connection has room for it, or in a new task.
    pub fn start(self: &Rc<Self>, job: Box<Job>) {
        if let Err(job) = self.slots.hand_over(job)
            && let Some(job) = self.slots.wait_for_connection(job)
        {
            R::spawn_connection(self, job);
        }
    }

    pub fn start_all(self: &Rc<Self>, jobs: impl IntoIterator<Item = Box<Job>>) {
        jobs.into_iter().for_each(|job| self.start(job));
    }

    /// Takes the completed jobs of the session: sends visits to the keeper, and starts jobs to retry. A session that
    /// has no room left leaves the pool. `pooled` is the slot under which the session is in the pool.
    pub fn deliver(self: &Rc<Self>, session: &mut Session, pooled: &mut Option<SlotKey>) {
        while let Some(completed) = session.finished(self.now()) {
            match completed {
                Completed::Visit(visit) => self.report(visit),
                Completed::Retry(job) => self.start(job),
            }
        }
        if session.free_capacity() == 0 {
            self.leave_pool(pooled);
        }
    }

    /// Passes a job to the session. Also passes all other jobs that were handed over to its task meanwhile, so that
    /// their requests are written together.
    pub fn accept(self: &Rc<Self>, session: &mut Session, pooled: &mut Option<SlotKey>, job: Box<Job>) {
        let mut next = Some(job);
        while let Some(job) = next {
            let refused = session.accept(job, &self.worker.rules, self.now()).err();
            if session.free_capacity() == 0 {
                self.leave_pool(pooled);
            }
            self.start_all(refused);
            next = self.slots.next_job(*pooled);
        }
    }

    /// Takes the connection out of the pool. Jobs that were handed over to it and not accepted start elsewhere.
    pub fn leave_pool(self: &Rc<Self>, pooled: &mut Option<SlotKey>) {
        self.start_all(self.slots.remove(pooled));
    }

    /// Queues a visit for the keeper. [`receive`] sends it, together with the visits of all tasks that run before
    /// [`receive`] does.
    pub fn report(&self, visit: Box<Visit>) {
        self.unfinished.set(self.unfinished.get() - 1);
        self.slots.record_fetch(&visit, self.unfinished.get());
        self.visit_sender.borrow_mut().push(visit);
        self.wake_receiver();
    }

    /// Ends the worker with an error, because the task of a job has panicked. Only the `tokio` engine needs this: its
    /// runtime catches panics of tasks. In the other engines a panic ends the worker's thread.
    pub fn report_lost_job(&self) {
        self.has_lost_job.set(true);
        self.wake_receiver();
    }

    /// Makes wake-ups by the keeper and by [`Self::report`] go to the calling task. A task has the same waker for its
    /// whole life, in our executor and in tokio.
    async fn set_receiver(&self) {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let keeper_waker = waker.clone();
        self.worker.job_queue.set_waker(move || keeper_waker.wake_by_ref());
        // This is called once, so the cell is empty.
        let _ = self.receiver.set(waker);
    }

    fn wake_receiver(&self) {
        if let Some(receiver) = self.receiver.get() {
            receiver.wake_by_ref();
        }
    }
}
