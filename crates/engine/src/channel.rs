//! The channels between the keeper and a worker: [`JobQueue`] one way, [`VisitSender`] the other.
//!
//! Invariant: a lock is taken once per batch, never per job or per byte, and the receiver is woken once per batch. Each
//! engine sleeps in its own way, so each sets its own waker: a write to an eventfd, a `Notify` of tokio, or a condition
//! variable.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;

/// How a worker is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopMode {
    /// No more jobs will come: finish those in flight, then return.
    Drain,
    /// Drop everything and return.
    Now,
}

/// The keeper's jobs for one worker. Both sides hold a clone.
pub struct JobQueue<J = Job> {
    shared: Arc<Shared<J>>,
}

/// The part of a queue that both sides share.
struct Shared<J> {
    queued: Mutex<Queued<J>>,
    /// For engines that block on it ([`JobQueue::wait`]).
    arrived: Condvar,
    /// For engines that sleep elsewhere.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What the worker has not taken yet.
struct Queued<J> {
    jobs: Vec<J>,
    stop: Option<StopMode>,
}

impl<J> Clone for JobQueue<J> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<J> Default for JobQueue<J> {
    fn default() -> Self {
        Self::new()
    }
}

impl<J> JobQueue<J> {
    pub fn new() -> Self {
        let queued = Mutex::new(Queued { jobs: Vec::new(), stop: None });
        Self { shared: Arc::new(Shared { queued, arrived: Condvar::new(), wake: OnceLock::new() }) }
    }

    /// Hands over a batch. The vector is left empty and keeps its capacity.
    pub fn send(&self, jobs: &mut Vec<J>) {
        if jobs.is_empty() {
            return;
        }
        let mut queued = self.lock();
        // If jobs are still queued, the worker has been woken already.
        let must_wake = queued.jobs.is_empty();
        queued.jobs.append(jobs);
        drop(queued);
        if must_wake {
            self.wake();
        }
    }

    /// Asks the worker to stop. `Now` replaces `Drain`; `Drain` does not replace `Now`.
    pub fn end(&self, mode: StopMode) {
        let mut queued = self.lock();
        queued.stop = queued.stop.max(Some(mode));
        drop(queued);
        self.wake();
    }

    /// Sets the function that wakes the worker. It is called at once if something is queued already.
    pub fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        // Called once, when the worker starts. If it were called twice, the first waker would stay.
        let _ = self.shared.wake.set(Box::new(wake));
        let queued = self.lock();
        let waiting = !queued.jobs.is_empty() || queued.stop.is_some();
        drop(queued);
        if waiting {
            self.wake();
        }
    }

    /// Takes what is queued, without waiting. Jobs are appended to `into`. Returns how to stop, if the worker was asked
    /// to.
    pub fn take(&self, into: &mut Vec<J>) -> Option<StopMode> {
        let mut queued = self.lock();
        Self::empty(&mut queued, into)
    }

    /// Like [`take`](Self::take), but waits until something is queued, for `timeout` at most.
    pub fn wait(&self, into: &mut Vec<J>, timeout: Option<std::time::Duration>) -> Option<StopMode> {
        let quiet = |queued: &mut Queued<J>| queued.jobs.is_empty() && queued.stop.is_none();
        let queued = self.lock();
        let mut queued = match timeout {
            None => self.shared.arrived.wait_while(queued, quiet).unwrap_or_else(PoisonError::into_inner),
            Some(span) => {
                self.shared.arrived.wait_timeout_while(queued, span, quiet).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        Self::empty(&mut queued, into)
    }

    /// Moves all queued jobs to `into`. Returns how to stop, if the worker was asked to.
    fn empty(queued: &mut Queued<J>, into: &mut Vec<J>) -> Option<StopMode> {
        if into.is_empty() {
            // The usual case: swap the two vectors, so that both keep their capacity.
            std::mem::swap(&mut queued.jobs, into);
        } else {
            into.append(&mut queued.jobs);
        }
        queued.stop
    }

    fn lock(&self) -> MutexGuard<'_, Queued<J>> {
        // The vector is consistent between any two statements, so a panic elsewhere cannot have left it half-changed.
        self.shared.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the worker, in either of the two ways.
    fn wake(&self) {
        self.shared.arrived.notify_one();
        if let Some(wake) = self.shared.wake.get() {
            wake();
        }
    }
}

/// A worker's visits for the keeper, sent in batches: `push` as they come, `send` before going to sleep.
pub struct VisitSender<R = Box<Visit>> {
    batch: Vec<R>,
    deliver: Arc<Deliver<R>>,
}

/// Takes what is in the vector and leaves it empty.
type Deliver<R> = dyn Fn(&mut Vec<R>) + Send + Sync;

/// A batch of this size is sent at once.
const FULL_BATCH: usize = 64;

impl<R> Clone for VisitSender<R> {
    /// The clone has a batch of its own, empty at first.
    fn clone(&self) -> Self {
        Self { batch: Vec::new(), deliver: Arc::clone(&self.deliver) }
    }
}

impl<R> VisitSender<R> {
    /// `deliver` takes what is in the vector and leaves it empty. It is called on the workers' threads.
    pub fn new(deliver: impl Fn(&mut Vec<R>) + Send + Sync + 'static) -> Self {
        Self { batch: Vec::new(), deliver: Arc::new(deliver) }
    }

    pub fn push(&mut self, report: R) {
        self.batch.push(report);
        if self.batch.len() >= FULL_BATCH {
            self.send();
        }
    }

    pub fn send(&mut self) {
        if !self.batch.is_empty() {
            (self.deliver)(&mut self.batch);
            self.batch.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_batch_is_announced_once_until_it_is_taken() {
        let job_queue = JobQueue::new();
        let rings = Arc::new(AtomicUsize::new(0));
        let bell = Arc::clone(&rings);
        job_queue.set_waker(move || {
            bell.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(rings.load(Ordering::SeqCst), 0);
        let mut batch = vec![1, 2];
        job_queue.send(&mut batch);
        assert!(batch.is_empty());
        job_queue.send(&mut vec![3]);
        job_queue.send(&mut Vec::new());
        assert_eq!(rings.load(Ordering::SeqCst), 1);
        let mut got = Vec::new();
        assert_eq!(job_queue.take(&mut got), None);
        assert_eq!(got, [1, 2, 3]);
        job_queue.send(&mut vec![4]);
        assert_eq!(rings.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn messages_sent_before_the_waker_is_set_wake_it() {
        let job_queue = JobQueue::<u8>::new();
        job_queue.send(&mut vec![1]);
        let (sender, receiver) = std::sync::mpsc::channel();
        job_queue.set_waker(move || sender.send(()).unwrap());
        receiver.try_recv().unwrap();
    }

    #[test]
    fn waiting_ends_with_mail_or_with_time() {
        let job_queue = JobQueue::new();
        let mut got = Vec::new();
        assert_eq!(job_queue.wait(&mut got, Some(Duration::from_millis(1))), None);
        assert!(got.is_empty());
        let sender = job_queue.clone();
        let other = thread::spawn(move || sender.send(&mut vec![7]));
        assert_eq!(job_queue.wait(&mut got, None), None);
        assert_eq!(got, [7]);
        other.join().unwrap();
    }

    #[test]
    fn immediate_stop_overrides_drain() {
        let job_queue = JobQueue::<u8>::new();
        job_queue.end(StopMode::Now);
        job_queue.end(StopMode::Drain);
        assert_eq!(job_queue.wait(&mut Vec::new(), None), Some(StopMode::Now));
    }

    #[test]
    fn reports_go_out_in_batches() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let mut visit_sender = VisitSender::new(move |batch: &mut Vec<u8>| seen.lock().unwrap().push(batch.len()));
        for _ in 0..FULL_BATCH + 1 {
            visit_sender.push(0);
        }
        visit_sender.send();
        visit_sender.send();
        assert_eq!(*sizes.lock().unwrap(), [FULL_BATCH, 1]);
    }
}
