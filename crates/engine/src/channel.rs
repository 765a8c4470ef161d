//! [`JobQueue`]: the channel from the keeper to a worker. The way back is a
//! [`VisitSender`](argiope_core::crawl::fetcher::VisitSender).
//!
//! Invariant: a lock is taken once per batch, or once per pass of an engine's loop, and never per job or per byte. The
//! receiver is woken once per batch. Each engine sleeps in its own way, so each sets its own waker: `callbacks` writes
//! to an eventfd, and the engines with tasks wake their first task. The `threads` engine waits on a condition variable
//! of the queue.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use argiope_core::base::job::Job;
use argiope_core::crawl::fetcher::StopMode;

/// The keeper's jobs for one worker. Both sides hold a clone.
pub struct JobQueue<J = Job> {
    shared: Arc<Shared<J>>,
}

/// The part of a queue that both sides share.
struct Shared<J> {
    queued: Mutex<Queued<J>>,
    /// Wakes an engine that blocks in [`JobQueue::wait`].
    arrived: Condvar,
    /// Wakes an engine that sleeps elsewhere, see [`JobQueue::set_waker`].
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What the keeper has sent and the worker has not taken yet.
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

    /// Sends a batch. The vector is left empty and keeps its capacity.
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

    /// Makes the worker stop. `Now` replaces `Drain`; `Drain` does not replace `Now`.
    pub fn stop(&self, mode: StopMode) {
        let mut queued = self.lock();
        queued.stop = queued.stop.max(Some(mode));
        drop(queued);
        self.wake();
    }

    /// Sets the function that wakes the worker. It is called at once if something is queued already.
    pub fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        // This is called once, when the worker starts. A second waker would be ignored.
        let _ = self.shared.wake.set(Box::new(wake));
        let queued = self.lock();
        let has_message = !queued.jobs.is_empty() || queued.stop.is_some();
        drop(queued);
        if has_message {
            self.wake();
        }
    }

    /// Takes the queued jobs, without waiting, and appends them to `into`. Returns how to stop; `None` if the worker
    /// must not stop.
    pub fn take(&self, into: &mut Vec<J>) -> Option<StopMode> {
        let mut queued = self.lock();
        Self::move_jobs(&mut queued, into)
    }

    /// Like [`take`](Self::take), but waits until a job or a stop is queued, for `timeout` at most.
    pub fn wait(&self, into: &mut Vec<J>, timeout: Option<std::time::Duration>) -> Option<StopMode> {
        let is_empty = |queued: &mut Queued<J>| queued.jobs.is_empty() && queued.stop.is_none();
        let queued = self.lock();
        let mut queued = match timeout {
            None => self.shared.arrived.wait_while(queued, is_empty).unwrap_or_else(PoisonError::into_inner),
            Some(span) => {
                let waited = self.shared.arrived.wait_timeout_while(queued, span, is_empty);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        Self::move_jobs(&mut queued, into)
    }

    /// Moves all queued jobs to `into`. Returns how to stop; `None` if the worker must not stop.
    fn move_jobs(queued: &mut Queued<J>, into: &mut Vec<J>) -> Option<StopMode> {
        if into.is_empty() {
            // The usual case: swap the two vectors, so that both keep their capacity.
            std::mem::swap(&mut queued.jobs, into);
        } else {
            into.append(&mut queued.jobs);
        }
        queued.stop
    }

    fn lock(&self) -> MutexGuard<'_, Queued<J>> {
        // The queue is consistent after every statement, so a panic under the lock does not leave it half-changed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn the_worker_is_woken_once_until_it_takes_the_jobs() {
        let job_queue = JobQueue::new();
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        job_queue.set_waker(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(wakes.load(Ordering::SeqCst), 0);
        let mut batch = vec![1, 2];
        job_queue.send(&mut batch);
        assert!(batch.is_empty());
        job_queue.send(&mut vec![3]);
        job_queue.send(&mut Vec::new());
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        let mut received = Vec::new();
        assert_eq!(job_queue.take(&mut received), None);
        assert_eq!(received, [1, 2, 3]);
        job_queue.send(&mut vec![4]);
        assert_eq!(wakes.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn jobs_sent_before_the_waker_is_set_wake_the_worker() {
        let job_queue = JobQueue::<u8>::new();
        job_queue.send(&mut vec![1]);
        let (sender, receiver) = std::sync::mpsc::channel();
        job_queue.set_waker(move || sender.send(()).unwrap());
        receiver.try_recv().unwrap();
    }

    #[test]
    fn waiting_ends_with_a_job_or_at_the_timeout() {
        let job_queue = JobQueue::new();
        let mut received = Vec::new();
        assert_eq!(job_queue.wait(&mut received, Some(Duration::from_millis(1))), None);
        assert!(received.is_empty());
        let sender = job_queue.clone();
        let sending_thread = thread::spawn(move || sender.send(&mut vec![7]));
        assert_eq!(job_queue.wait(&mut received, None), None);
        assert_eq!(received, [7]);
        sending_thread.join().unwrap();
    }

    #[test]
    fn drain_does_not_replace_an_immediate_stop() {
        let job_queue = JobQueue::<u8>::new();
        job_queue.stop(StopMode::Now);
        job_queue.stop(StopMode::Drain);
        assert_eq!(job_queue.wait(&mut Vec::new(), None), Some(StopMode::Now));
    }
}
