//! The mail between the keeper and a worker: [`JobQueue`] one way, [`VisitSender`] the other.
//!
//! Invariant: a lock is taken once per batch, never per job or per byte, and the receiver is woken once per batch.
//! Each engine sleeps in its own way, so each brings its own way of being woken: a write to an eventfd, a notification,
//! a condition variable.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;

/// How a worker is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopMode {
    /// No more job_queue will come: finish those that are in hand, then return.
    Drain,
    /// Drop everything and return.
    Now,
}

/// The keeper's job_queue to one worker. Both sides hold a clone of it.
pub struct JobQueue<J = Job> {
    tray: Arc<Tray<J>>,
}

struct Tray<J> {
    mail: Mutex<Mail<J>>,
    /// For engines that wait on it ([`JobQueue::wait`]).
    arrived: Condvar,
    /// For engines that sleep elsewhere and brought a waker.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

struct Mail<J> {
    jobs: Vec<J>,
    ending: Option<StopMode>,
}

impl<J> Clone for JobQueue<J> {
    fn clone(&self) -> Self {
        Self { tray: Arc::clone(&self.tray) }
    }
}

impl<J> Default for JobQueue<J> {
    fn default() -> Self {
        Self::new()
    }
}

impl<J> JobQueue<J> {
    pub fn new() -> Self {
        let mail = Mutex::new(Mail { jobs: Vec::new(), ending: None });
        Self { tray: Arc::new(Tray { mail, arrived: Condvar::new(), wake: OnceLock::new() }) }
    }

    /// Hands a batch over. The vector is left empty, with room for the next batch.
    pub fn send(&self, jobs: &mut Vec<J>) {
        if jobs.is_empty() {
            return;
        }
        let mut mail = self.lock();
        // Mail that is still lying there has been announced already.
        let announce = mail.jobs.is_empty();
        mail.jobs.append(jobs);
        drop(mail);
        if announce {
            self.announce();
        }
    }

    /// Asks the worker to end. `Now` may follow `Drain`, not the other way round.
    pub fn end(&self, ending: StopMode) {
        let mut mail = self.lock();
        mail.ending = mail.ending.max(Some(ending));
        drop(mail);
        self.announce();
    }

    /// The worker's side: how to wake it. Mail that came before is announced at once.
    pub fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A worker says this once, at its start; a second waker would be a mistake of ours, and the first one stays.
        let _ = self.tray.wake.set(Box::new(wake));
        let mail = self.lock();
        let waiting = !mail.jobs.is_empty() || mail.ending.is_some();
        drop(mail);
        if waiting {
            self.announce();
        }
    }

    /// The worker's side: what has come, without waiting. Jobs are appended to `into`.
    pub fn take(&self, into: &mut Vec<J>) -> Option<StopMode> {
        let mut mail = self.lock();
        Self::empty(&mut mail, into)
    }

    /// The worker's side: waits until something has come, or until `timeout` where one is given.
    pub fn wait(&self, into: &mut Vec<J>, timeout: Option<std::time::Duration>) -> Option<StopMode> {
        let quiet = |mail: &mut Mail<J>| mail.jobs.is_empty() && mail.ending.is_none();
        let mail = self.lock();
        let mut mail = match timeout {
            None => self.tray.arrived.wait_while(mail, quiet).unwrap_or_else(PoisonError::into_inner),
            Some(span) => {
                self.tray.arrived.wait_timeout_while(mail, span, quiet).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        Self::empty(&mut mail, into)
    }

    fn empty(mail: &mut Mail<J>, into: &mut Vec<J>) -> Option<StopMode> {
        if into.is_empty() {
            // The usual case: swap the two vectors, so that both keep their room.
            std::mem::swap(&mut mail.jobs, into);
        } else {
            into.append(&mut mail.jobs);
        }
        mail.ending
    }

    fn lock(&self) -> MutexGuard<'_, Mail<J>> {
        // The lock protects a vector that is whole between any two statements: a panic elsewhere cannot have torn it.
        self.tray.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self) {
        self.tray.arrived.notify_one();
        if let Some(wake) = self.tray.wake.get() {
            wake();
        }
    }
}

/// A worker's visit_sender to the keeper, sent in batches: `push` as they come, `send` before going to sleep.
pub struct VisitSender<R = Box<Visit>> {
    batch: Vec<R>,
    deliver: Arc<Deliver<R>>,
}

/// Takes what is in the vector and leaves it empty.
type Deliver<R> = dyn Fn(&mut Vec<R>) + Send + Sync;

/// VisitSender are sent without waiting for the end of a round where this many have gathered.
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
    fn mail_that_came_before_the_waker_is_announced() {
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
    fn the_harder_ending_wins() {
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
