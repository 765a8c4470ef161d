//! [`WorkerPool`]: the workers of a crawl, all of the same engine.
//!
//! With the engine `tokio`, a crawl can have one worker that is a task on a thread which it shares with other crawls.
//!
//! Invariant: an engine that this system cannot run fails here, before the crawl starts. No job is handed out before
//! all workers are ready.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use argiope_core::Time;
use argiope_core::base::job::Job;
use argiope_core::crawl::fetcher::{Fetcher, FetcherContext, StopMode};
use argiope_core::crawl::rules::Rules;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::epoll::Poller;
use crate::worker::{FileShortage, IdleLimit};
use crate::{Clock, JobQueue, Notices, SharedThread, Worker};

/// File descriptors that a crawl needs besides its sockets: for outputs, event loops and the resolver.
const OTHER_FILES: usize = 128;

/// A limit of the system above this counts as this. No process reaches it.
const MAX_SYSTEM_LIMIT: u64 = 1 << 32;

/// Limit on parallel fetches of the `uring` engine. The limit on open files does not apply to it. This limit bounds the
/// memory of the kernel.
const MAX_URING_FETCHES: usize = 2_000_000;

/// The advice in messages about a system without io_uring.
const OTHER_ENGINES: &str = "the engines tokio, coroutines, callbacks and threads work without it";

/// The engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineKind {
    #[default]
    Tokio,
    Coroutines,
    Callbacks,
    Threads,
    Uring,
}

impl EngineKind {
    pub const ALL: [Self; 5] = [Self::Tokio, Self::Coroutines, Self::Callbacks, Self::Threads, Self::Uring];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Coroutines => "coroutines",
            Self::Callbacks => "callbacks",
            Self::Threads => "threads",
            Self::Uring => "uring",
        }
    }

    /// The function that runs one worker until it must stop.
    fn run_function(self) -> fn(Worker) -> io::Result<()> {
        match self {
            Self::Tokio => crate::tokio::run,
            Self::Coroutines => crate::coroutines::run,
            Self::Callbacks => crate::callbacks::run,
            Self::Threads => crate::threads::run,
            #[cfg(target_os = "linux")]
            Self::Uring => crate::uring::run,
            #[cfg(not(target_os = "linux"))]
            Self::Uring => |_| Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// How many workers are started: one per core. The `threads` engine has a single worker, which starts many threads.
    fn worker_count(self, rules: &Rules) -> usize {
        match self {
            Self::Threads => 1,
            _ => thread::available_parallelism().map_or(1, usize::from).min(rules.concurrency).max(1),
        }
    }

    /// How many fetches the system's limits allow at once. Each needs a file descriptor, except with `uring`. With
    /// `threads`, each also needs a thread. Raises the soft limit on open files to the hard limit.
    pub fn max_fetches(self) -> usize {
        let limit = getrlimit(Resource::Nofile);
        if limit.current < limit.maximum {
            // If the system refuses this, the old limit stays.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        }
        let files =
            getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files.min(MAX_SYSTEM_LIMIT) as usize);
        let sockets = files.saturating_sub(OTHER_FILES).max(1);
        match self {
            Self::Threads => sockets.min(max_threads()),
            Self::Tokio | Self::Coroutines | Self::Callbacks => sockets,
            // The sockets of this engine are not file descriptors of the process.
            Self::Uring => MAX_URING_FETCHES,
        }
    }

    /// Whether this system can run the engine. The error says what is missing and which engines work without it.
    pub fn check(self) -> io::Result<()> {
        match self {
            Self::Threads => Ok(()),
            Self::Tokio | Self::Coroutines | Self::Callbacks => Poller::new().map(drop).map_err(|error| {
                let message = format!("the {self} engine needs epoll ({error}); the engine threads works without it");
                io::Error::new(error.kind(), message)
            }),
            #[cfg(target_os = "linux")]
            Self::Uring => crate::uring::probe().map_err(|error| {
                let reason = match error.kind() {
                    io::ErrorKind::OutOfMemory => "the limit on locked memory is too low (raise `ulimit -l`)",
                    io::ErrorKind::PermissionDenied => {
                        "this system forbids it (a container's seccomp profile, or the \
                                                        sysctl kernel.io_uring_disabled)"
                    }
                    _ => "this kernel is too old (Linux 6.1 is needed) or lacks it",
                };
                let message = format!("the uring engine needs io_uring: {reason} ({error}); {OTHER_ENGINES}");
                io::Error::new(error.kind(), message)
            }),
            #[cfg(not(target_os = "linux"))]
            Self::Uring => {
                let message = format!("the uring engine needs io_uring, which only Linux has; {OTHER_ENGINES}");
                Err(io::Error::new(io::ErrorKind::Unsupported, message))
            }
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let engine = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        engine.ok_or_else(|| format!("{name:?} is not an engine: tokio, coroutines, callbacks, threads or uring"))
    }
}

/// A worker that was started.
enum Started {
    OnThread(JoinHandle<io::Result<()>>),
    /// A task on a shared thread. The receiver has no sender when it has ended.
    OnSharedThread(mpsc::Receiver<Infallible>),
}

impl Started {
    fn has_ended(&self) -> bool {
        match self {
            Self::OnThread(thread) => thread.is_finished(),
            Self::OnSharedThread(end) => end.try_recv() == Err(mpsc::TryRecvError::Disconnected),
        }
    }

    /// Waits until a thread has ended. A task is not awaited: its keeper may be on the same thread.
    fn join(self) -> io::Result<()> {
        match self {
            Self::OnThread(thread) => thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked"))),
            Self::OnSharedThread(_) => Ok(()),
        }
    }
}

/// The workers of one engine, and their job queues.
pub struct WorkerPool {
    kind: EngineKind,
    clock: Clock,
    workers: Vec<(JobQueue, Started)>,
    /// The shared thread on which the only worker runs; `None` if each worker has a thread of its own.
    shared: Option<SharedThread>,
    /// One receiver per worker, for the message that it has started.
    ready_receivers: Vec<mpsc::Receiver<()>>,
    /// Accepted jobs that are not sent yet, for each worker.
    batches: Vec<Vec<Job>>,
    notices: Notices,
    /// How many fetches the system's limits allow at once.
    capacity: usize,
    /// `None` before the start.
    idle_limit: Option<IdleLimit>,
}

impl WorkerPool {
    /// A pool without workers. [`Fetcher::start`] starts them.
    pub fn new(kind: EngineKind, clock: Clock) -> Self {
        Self {
            kind,
            clock,
            workers: Vec::new(),
            shared: None,
            ready_receivers: Vec::new(),
            batches: Vec::new(),
            notices: Notices::default(),
            capacity: kind.max_fetches(),
            idle_limit: None,
        }
    }

    /// Runs one worker on this thread, if the engine is `tokio`. The other engines keep threads of their own.
    #[must_use]
    pub fn sharing(mut self, thread: Option<SharedThread>) -> Self {
        self.shared = thread.filter(|_| self.kind == EngineKind::Tokio);
        self
    }

    fn spawn(&mut self, crawl: &FetcherContext, shortage: &FileShortage, idle_limit: &IdleLimit) -> io::Result<()> {
        let (job_queue, (ready_sender, ready_receiver)) = (JobQueue::new(), mpsc::channel());
        let worker = Worker {
            rules: Arc::clone(&crawl.rules),
            clock: self.clock,
            job_queue: job_queue.clone(),
            visit_sender: crawl.visits.clone(),
            notices: self.notices.clone(),
            file_shortage: shortage.clone(),
            idle_limit: idle_limit.clone(),
            ready: ready_sender,
        };
        let started = match &self.shared {
            Some(thread) => {
                let (end_sender, end) = mpsc::channel();
                thread.spawn(move || async move {
                    // An error means that a job is lost. The keeper learns it from the end of the worker.
                    let _ = crate::tokio::run_as_task(worker).await;
                    drop(end_sender);
                });
                Started::OnSharedThread(end)
            }
            None => {
                let run = self.kind.run_function();
                let thread = thread::Builder::new().name(format!("{}-{}", self.kind, self.workers.len()));
                Started::OnThread(thread.spawn(move || run(worker))?)
            }
        };
        self.workers.push((job_queue, started));
        self.ready_receivers.push(ready_receiver);
        self.batches.push(Vec::new());
        Ok(())
    }

    /// Waits until all workers have ended. Returns the first error among them.
    pub fn join_all(&mut self) -> Option<io::Error> {
        let results: Vec<_> = self.workers.drain(..).map(|(_, worker)| worker.join()).collect();
        results.into_iter().find_map(Result::err)
    }
}

impl Fetcher for WorkerPool {
    /// Starts the workers.
    fn start(&mut self, crawl: &FetcherContext) -> io::Result<()> {
        let shortage = FileShortage::default();
        let idle_limit = IdleLimit::new(&crawl.rules).within(self.capacity, &crawl.rules);
        self.idle_limit = Some(idle_limit.clone());
        // The first worker starts before the number of cores is determined, which takes time.
        self.spawn(crawl, &shortage, &idle_limit)?;
        let count = if self.shared.is_some() { 1 } else { self.kind.worker_count(&crawl.rules) };
        for _ in 1..count {
            self.spawn(crawl, &shortage, &idle_limit)?;
        }
        Ok(())
    }

    /// Waits until all workers run: the first jobs may use up files or memory that a worker still needs to start.
    fn wait_ready(&mut self) -> io::Result<()> {
        if self.ready_receivers.drain(..).all(|receiver| receiver.recv().is_ok()) {
            return Ok(());
        }
        self.stop(StopMode::Now);
        let fault = self.join_all();
        // If the system cannot run this engine, the message of `check` is more helpful than that of the worker.
        self.kind.check()?;
        Err(fault.unwrap_or_else(|| io::Error::other(format!("a worker of the {} engine did not start", self.kind))))
    }

    /// Adds a job to the batch of its worker: the slots of a lane belong to fixed workers.
    fn accept(&mut self, job: Job, _now: Time) -> Result<(), Job> {
        // Jobs that share a connection go to the same worker.
        let slot = if job.shares_connection() { 0 } else { usize::from(job.slot) };
        let worker = (job.lane.index() + slot) % self.batches.len().max(1);
        match self.batches.get_mut(worker) {
            Some(batch) => batch.push(job),
            None => return Err(job),
        }
        Ok(())
    }

    /// Sends the batches to their workers.
    fn flush(&mut self) {
        for ((job_queue, _), batch) in self.workers.iter().zip(&mut self.batches) {
            job_queue.send(batch);
        }
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn idle_bytes(&self) -> usize {
        self.idle_limit.as_ref().map_or(0, IdleLimit::bytes)
    }

    fn notices(&self) -> Vec<String> {
        self.notices.take()
    }

    fn has_died(&self) -> bool {
        self.workers.iter().any(|(_, worker)| worker.has_ended())
    }

    fn stop(&mut self, mode: StopMode) {
        for (job_queue, _) in &self.workers {
            job_queue.stop(mode);
        }
    }

    fn join(&mut self) {
        self.join_all();
    }
}

impl Drop for WorkerPool {
    /// Stops the workers, because their visits have no receiver any more.
    fn drop(&mut self) {
        self.stop(StopMode::Now);
    }
}

/// How many threads the documented limits of the system allow. Starting one may still fail.
fn max_threads() -> usize {
    let read_number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<usize>().ok();
    let processes = getrlimit(Resource::Nproc).current.map(|count| count.min(MAX_SYSTEM_LIMIT) as usize);
    let limits = [
        read_number("/proc/sys/kernel/threads-max"),
        read_number("/sys/fs/cgroup/pids.max"),
        // Every thread has two mappings: its stack and the guard page below it.
        read_number("/proc/sys/vm/max_map_count").map(|maps| maps / 2),
        processes,
    ];
    // The reserve for other threads is as large as that for other files.
    limits.into_iter().flatten().min().unwrap_or(usize::MAX).saturating_sub(OTHER_FILES).max(1)
}
