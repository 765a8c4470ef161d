//! [`SharedThreads`]: a fixed number of threads for many crawls of one process.
//!
//! Each thread has a runtime of tokio, on which the workers and keepers of crawls are tasks. A task stays on its thread,
//! so what it owns needs no locks. Name lookups with the same settings share one thread and its cache, and work that
//! blocks shortly, such as reading certificates at the start of a crawl, has a thread too.
//!
//! Invariant: a thread starts when it is needed first, and ends when the last clone of [`SharedThreads`] is dropped and
//! the crawls on it have ended. Nothing on a thread of tasks waits for another task by blocking.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc as tasks};
use tokio::task::{LocalSet, spawn_local};

use crate::resolver::{ResolverSettings, ResolverThread};

/// A task, as it is on its thread.
pub type LocalTask = Pin<Box<dyn Future<Output = ()>>>;
/// Makes a task, on its thread.
type MakeTask = Box<dyn FnOnce() -> LocalTask + Send>;
/// Work that blocks shortly.
type BlockingWork = Box<dyn FnOnce() + Send>;

/// The threads. A clone is the same threads.
#[derive(Clone, Default)]
pub struct SharedThreads(Arc<Threads>);

#[derive(Default)]
struct Threads {
    /// The threads of tasks, once they run.
    workers: Mutex<Vec<SharedThread>>,
    /// How many tasks were placed so far.
    placed: AtomicUsize,
    resolvers: Mutex<HashMap<ResolverSettings, ResolverThread>>,
    blocking: Mutex<Option<mpsc::Sender<BlockingWork>>>,
}

/// One of the threads. It runs as long as there is a clone.
#[derive(Clone)]
pub struct SharedThread(tasks::UnboundedSender<MakeTask>);

impl SharedThreads {
    /// The thread for the next crawl: one after the other.
    ///
    /// # Errors
    ///
    /// The system refuses the threads.
    pub fn place(&self) -> io::Result<SharedThread> {
        let mut workers = lock(&self.0.workers);
        if workers.is_empty() {
            let count = thread::available_parallelism().map_or(1, usize::from);
            *workers = (0..count).map(SharedThread::start).collect::<io::Result<_>>()?;
        }
        let next = self.0.placed.fetch_add(1, Ordering::Relaxed) % workers.len();
        workers.get(next).cloned().ok_or_else(|| io::Error::other("no thread for crawls"))
    }

    /// The thread that looks names up with these settings.
    pub fn resolver(&self, settings: &ResolverSettings) -> ResolverThread {
        lock(&self.0.resolvers).entry(settings.clone()).or_default().clone()
    }

    /// Does work that blocks shortly, on a thread for such work, one after the other.
    ///
    /// # Errors
    ///
    /// The system refuses the thread. Then the work is not done.
    pub fn run_blocking(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut blocking = lock(&self.0.blocking);
        let sender = match blocking.take() {
            Some(sender) => sender,
            None => {
                let (sender, receiver) = mpsc::channel::<BlockingWork>();
                // Work that panics drops what it would have answered with, which its caller sees.
                let serve = move || receiver.iter().for_each(|work| drop(catch_unwind(AssertUnwindSafe(work))));
                thread::Builder::new().name("argiope-start".into()).spawn(serve)?;
                sender
            }
        };
        // The thread lives as long as its sender.
        let _ = sender.send(Box::new(work));
        *blocking = Some(sender);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedThread {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (sender, mut receiver) = tasks::unbounded_channel::<MakeTask>();
        let serve = async move {
            while let Some(make_task) = receiver.recv().await {
                spawn_local(make_task());
            }
        };
        let run = move || LocalSet::new().block_on(&runtime, serve);
        thread::Builder::new().name(format!("argiope-{number}")).spawn(run)?;
        Ok(Self(sender))
    }

    /// Runs a task on this thread. The thread runs at least until the task ends.
    pub fn spawn<T: Future<Output = ()> + 'static>(&self, make_task: impl FnOnce() -> T + Send + 'static) {
        let thread = self.clone();
        let make_task = move || -> LocalTask {
            let task = make_task();
            Box::pin(async move {
                task.await;
                drop(thread);
            })
        };
        // The thread lives as long as this handle.
        let _ = self.0.send(Box::new(make_task));
    }
}

/// What a task waits for that takes messages: that one has arrived. A clone is the same.
#[derive(Clone, Default)]
pub struct Arrivals(Arc<Notify>);

impl Arrivals {
    /// Wakes the task, also if it begins to wait later.
    pub fn announce(&self) {
        self.0.notify_one();
    }

    /// Waits for [`announce`](Self::announce), until this time at the latest.
    pub async fn wait(&self, until: Option<Instant>) {
        match until {
            None => self.0.notified().await,
            // Whether the time is over is seen by the clock.
            Some(until) => drop(tokio::time::timeout_at(until.into(), self.0.notified()).await),
        }
    }
}

/// Lets the other tasks of the thread run.
pub async fn yield_to_others() {
    tokio::task::yield_now().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_run_on_a_fixed_number_of_threads() {
        let threads = SharedThreads::default();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..100 {
            let sender = sender.clone();
            threads.place().expect("a thread").spawn(move || async move {
                yield_to_others().await;
                sender.send(thread::current().id()).expect("the receiver is alive");
            });
        }
        drop(sender);
        let ids: std::collections::HashSet<_> = receiver.iter().collect();
        assert_eq!(ids.len(), thread::available_parallelism().map_or(1, usize::from));
    }

    #[test]
    fn a_thread_runs_until_its_tasks_have_ended() {
        let (arrivals, (sender, receiver)) = (Arrivals::default(), mpsc::channel());
        let threads = SharedThreads::default();
        let awaited = arrivals.clone();
        threads.place().expect("a thread").spawn(move || async move {
            awaited.wait(None).await;
            sender.send(7).expect("the receiver is alive");
        });
        drop(threads);
        arrivals.announce();
        assert_eq!(receiver.recv(), Ok(7));
        assert!(receiver.recv().is_err());
    }

    #[test]
    fn blocking_work_continues_after_work_that_panics() {
        let (threads, (sender, receiver)) = (SharedThreads::default(), mpsc::channel());
        threads.run_blocking(|| panic!("a deliberate panic")).expect("a thread");
        threads.run_blocking(move || sender.send(7).expect("the receiver is alive")).expect("a thread");
        assert_eq!(receiver.recv(), Ok(7));
    }
}
