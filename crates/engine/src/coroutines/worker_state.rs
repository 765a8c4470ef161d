//! [`WorkerState`]: what the coroutines of one thread share. It receives jobs, starts coroutines for them, and sends
//! their visits.
//!
//! The `coroutines` and `uring` engines use it. They differ in how a connection is served ([`ServeConnection::serve`]).
//!
//! Invariant: a job counts as unfinished from `start` until its visit is reported.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use argiope_core::Time;
use argiope_core::http::session::{Completed, Session, SlotKey};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;

use super::executor::{Executor, Park, select};
use super::queue::JoinQueue;
use crate::channel::{StopMode, VisitSender};
use crate::task_slots::TaskSlots;
use crate::worker::{JOB_BUFFER_CAPACITY, Worker};

/// A reactor with the coroutine that serves a connection on it.
pub trait ServeConnection: Park + Sized + 'static {
    /// Takes a job from [`WorkerState::work`], connects, and serves jobs until the connection closes.
    fn serve(state: Rc<WorkerState<Self>>) -> impl Future<Output = ()> + 'static;
}

/// The state that the coroutines of one thread share.
pub struct WorkerState<P> {
    pub worker: Worker,
    pub executor: Rc<Executor<P>>,
    /// Jobs for coroutines that were just spawned, and the number of unfinished jobs.
    pub work: JoinQueue<Box<Job>>,
    /// The coroutines whose connection has room for a job, and the jobs that wait for a connection.
    pub slots: TaskSlots,
    visit_sender: RefCell<VisitSender>,
    /// Wakes `receive`.
    receiver: RefCell<Option<Waker>>,
}

/// The first coroutine: receives jobs and starts the others.
pub async fn receive<P: ServeConnection>(state: Rc<WorkerState<P>>) {
    state.executor.set_mark("waiting for jobs");
    let mut jobs = Vec::new();
    loop {
        let stop = poll_fn(|cx| state.poll_jobs(cx, &mut jobs)).await;
        if stop == Some(StopMode::Now) {
            return;
        }
        for job in jobs.drain(..) {
            state.start(Box::new(job));
        }
        jobs.shrink_to(JOB_BUFFER_CAPACITY);
        if stop == Some(StopMode::Drain) {
            select(state.work.join(), poll_fn(|cx| state.poll_stop_now(cx))).await;
            return state.visit_sender.borrow_mut().send();
        }
    }
}

impl<P: ServeConnection> WorkerState<P> {
    pub fn new(worker: Worker, executor: &Rc<Executor<P>>) -> Self {
        let slots = TaskSlots::new(&worker);
        executor.set_wake_delay(slots.wake_delay());
        Self {
            visit_sender: RefCell::new(worker.visit_sender.clone()),
            worker,
            executor: Rc::clone(executor),
            work: JoinQueue::default(),
            slots,
            receiver: RefCell::default(),
        }
    }

    pub fn now(&self) -> Time {
        self.executor.now()
    }

    /// Starts a job: in the coroutine whose connection has room for it, or in a new coroutine.
    pub fn start(self: &Rc<Self>, job: Box<Job>) {
        match self.slots.hand_over(job) {
            Ok(()) => self.work.add_unfinished(),
            Err(job) => match self.slots.wait_for_connection(job) {
                None => self.work.add_unfinished(),
                Some(job) => {
                    self.work.put(job);
                    self.executor.spawn(P::serve(Rc::clone(self)));
                }
            },
        }
    }

    /// Restarts jobs that are already counted as unfinished.
    pub fn restart_all(self: &Rc<Self>, jobs: impl IntoIterator<Item = Box<Job>>) {
        jobs.into_iter().for_each(|job| self.restart(job));
    }

    /// Starts a job that is already counted as unfinished. `start` counts it again, so `done` corrects the count.
    fn restart(self: &Rc<Self>, job: Box<Job>) {
        self.start(job);
        self.work.done();
    }

    /// Takes the completed jobs of the session. Sends visits to the keeper, and starts jobs to retry.
    pub fn deliver(self: &Rc<Self>, session: &mut Session) {
        while let Some(completed) = session.finished(self.now()) {
            match completed {
                Completed::Visit(visit) => self.report(visit),
                Completed::Retry(job) => self.restart(job),
            }
        }
    }

    /// Passes a job to the session. Also passes all other jobs that were handed over to its coroutine meanwhile, so
    /// that their requests are written together. `pooled` is the slot under which the session is in the pool.
    pub fn accept(self: &Rc<Self>, pooled: &mut Option<SlotKey>, session: &mut Session, job: Box<Job>) {
        let mut next = Some(job);
        while let Some(job) = next {
            let refused = session.accept(job, &self.worker.rules, self.now()).err();
            if session.free_capacity() == 0 {
                self.leave_pool(pooled);
            }
            self.restart_all(refused);
            next = self.slots.next_job(*pooled);
        }
    }

    /// Takes the connection out of the pool. Jobs that were handed over to it and not accepted start elsewhere.
    pub fn leave_pool(self: &Rc<Self>, pooled: &mut Option<SlotKey>) {
        self.restart_all(self.slots.remove(pooled));
    }

    /// Queues a visit for the keeper. `receive` sends it, together with the visits of all coroutines that run before
    /// `receive` does.
    pub fn report(&self, visit: Box<Visit>) {
        self.work.done();
        self.slots.record_fetch(&visit, self.work.unfinished());
        self.visit_sender.borrow_mut().push(visit);
        if let Some(receiver) = &*self.receiver.borrow() {
            receiver.wake_by_ref();
        }
    }

    /// Sends the visits so far, and takes the jobs that have arrived.
    fn poll_jobs(&self, cx: &Context<'_>, jobs: &mut Vec<Job>) -> Poll<Option<StopMode>> {
        if self.receiver.borrow().is_none() {
            *self.receiver.borrow_mut() = Some(cx.waker().clone());
            let waker = cx.waker().clone();
            self.worker.job_queue.set_waker(move || waker.wake_by_ref());
        }
        self.visit_sender.borrow_mut().send();
        let stop = self.worker.job_queue.take(jobs);
        if jobs.is_empty() && stop.is_none() { Poll::Pending } else { Poll::Ready(stop) }
    }

    /// Used while the worker drains: ready when it must drop the remaining jobs too.
    fn poll_stop_now(&self, cx: &Context<'_>) -> Poll<()> {
        match self.poll_jobs(cx, &mut Vec::new()) {
            Poll::Ready(Some(StopMode::Now)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}
