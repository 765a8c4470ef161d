//! [`WorkerPool`]: the workers of a crawl, all of the same engine.
//!
//! Invariant: an engine that this system cannot run says so here, before the crawl begins. No job is handed out before
//! all workers have what they need.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use argiope_core::rules::Rules;
use argiope_core::schedule::job::Job;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::epoll::Poller;
use crate::worker::FileShortage;
use crate::{Clock, JobQueue, Notices, StopMode, VisitSender, Worker};

/// FileShortage that a crawl needs besides its sockets: outputs, event loops, the resolver's own.
const OTHER_FILES: usize = 128;

/// The four ways to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineKind {
    #[default]
    Tokio,
    Coroutines,
    Callbacks,
    Threads,
}

impl EngineKind {
    pub const ALL: [Self; 4] = [Self::Tokio, Self::Coroutines, Self::Callbacks, Self::Threads];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Coroutines => "coroutines",
            Self::Callbacks => "callbacks",
            Self::Threads => "threads",
        }
    }

    /// How one worker of this kind works: until it is told to end.
    fn run(self) -> fn(Worker) -> io::Result<()> {
        match self {
            Self::Tokio => crate::tokio::run,
            Self::Coroutines => crate::coroutines::run,
            Self::Callbacks => crate::callbacks::run,
            Self::Threads => crate::threads::run,
        }
    }

    /// One worker per core, where a worker is a thread. The `threads` engine has one that hands out work to many.
    fn workers(self, rules: &Rules) -> usize {
        match self {
            Self::Threads => 1,
            _ => thread::available_parallelism().map_or(1, usize::from).min(rules.concurrency).max(1),
        }
    }

    /// How many fetches fit at once, as far as the system's limits go: each needs a file, and here and there a thread.
    /// The soft limit on files is raised as far as it may be.
    pub fn room(self) -> usize {
        let limit = getrlimit(Resource::Nofile);
        if limit.current < limit.maximum {
            // Where that is refused, the old limit holds.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        }
        let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files.min(1 << 32) as usize);
        let sockets = files.saturating_sub(OTHER_FILES).max(1);
        match self {
            Self::Threads => sockets.min(thread_room()),
            Self::Tokio | Self::Coroutines | Self::Callbacks => sockets,
        }
    }

    /// Whether this system can run it.
    fn check(self) -> io::Result<()> {
        match self {
            Self::Threads => Ok(()),
            Self::Tokio | Self::Coroutines | Self::Callbacks => Poller::new().map(drop).map_err(|error| {
                let words = format!("the {self} engine needs epoll ({error}); --engine threads works without it");
                io::Error::new(error.kind(), words)
            }),
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
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        known.ok_or_else(|| format!("{name:?} is no engine: tokio, coroutines, callbacks or threads"))
    }
}

/// The workers, and the way to them.
pub struct WorkerPool {
    kind: EngineKind,
    workers: Vec<(JobQueue, JoinHandle<io::Result<()>>)>,
    /// One for each worker that has not said yet that it has all it needs.
    signs: Vec<mpsc::Receiver<()>>,
    notices: Notices,
    most: usize,
}

impl WorkerPool {
    /// Starts the workers. They are on their way when this returns: [`WorkerPool::wait_ready`] waits for them.
    pub fn start(kind: EngineKind, rules: &Arc<Rules>, clock: Clock, visit_sender: &VisitSender) -> io::Result<Self> {
        let file_shortage = FileShortage::default();
        let (notices, most) = (Notices::default(), kind.room());
        let mut pool = Self { kind, workers: Vec::new(), signs: Vec::new(), notices, most };
        let mut spawn = || -> io::Result<()> {
            let (job_queue, (ready, sign)) = (JobQueue::new(), mpsc::channel());
            let worker = Worker {
                rules: Arc::clone(rules),
                clock,
                job_queue: job_queue.clone(),
                visit_sender: visit_sender.clone(),
                notices: pool.notices.clone(),
                file_shortage: file_shortage.clone(),
                ready,
            };
            let thread = thread::Builder::new().name(format!("{kind}-{}", pool.workers.len()));
            pool.workers.push((job_queue, thread.spawn(move || (kind.run())(worker))?));
            pool.signs.push(sign);
            Ok(())
        };
        // There is always one. While it begins, the system is asked how many more it has cores for.
        spawn()?;
        for _ in 1..kind.workers(rules) {
            spawn()?;
        }
        Ok(pool)
    }

    /// Waits until all workers have begun. The first jobs may use up files or memory that a worker still needs for that:
    /// so this comes before them.
    pub fn wait_ready(&mut self) -> io::Result<()> {
        if self.signs.drain(..).all(|sign| sign.recv().is_ok()) {
            return Ok(());
        }
        self.end(StopMode::Now);
        let fault = self.join();
        self.kind.check()?;
        Err(fault.unwrap_or_else(|| io::Error::other(format!("a worker of the {} engine did not begin", self.kind))))
    }

    /// How many fetches can be in flight at once, as far as the system's limits go.
    pub fn most(&self) -> usize {
        self.most
    }

    pub fn len(&self) -> usize {
        self.workers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// Hands a batch to one of the workers. The vector is left empty.
    pub fn send(&self, worker: usize, jobs: &mut Vec<Job>) {
        if let Some((job_queue, _)) = self.workers.get(worker) {
            job_queue.send(jobs);
        }
    }

    /// What a person should know, since the last time.
    pub fn notices(&self) -> Vec<String> {
        self.notices.take()
    }

    pub fn end(&self, ending: StopMode) {
        for (job_queue, _) in &self.workers {
            job_queue.end(ending);
        }
    }

    /// Whether a worker has ended that was not told to: what it had in hand will not come back.
    pub fn has_dead_worker(&self) -> bool {
        self.workers.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Ends the pool. Who is told to finish what is in hand is waited for; who is told to drop everything is not: he may
    /// be in the middle of an enormous page, and nobody wants it any more.
    pub fn shut_down(mut self, ending: StopMode) {
        self.end(ending);
        match ending {
            StopMode::Drain => drop(self.join()),
            StopMode::Now => self.workers.clear(),
        }
    }

    /// Waits until all workers have ended. Gives the first error that one of them ended with.
    pub fn join(&mut self) -> Option<io::Error> {
        let ends: Vec<_> = self.workers.drain(..).map(|(_, thread)| thread.join()).collect();
        ends.into_iter().find_map(|end| match end {
            Ok(end) => end.err(),
            Err(_) => Some(io::Error::other("a worker panicked")),
        })
    }
}

impl Drop for WorkerPool {
    /// Nobody can be told of what the workers still find out: they drop it and leave.
    fn drop(&mut self) {
        self.end(StopMode::Now);
    }
}

/// How many threads fit, as far as limits are written anywhere. More may still be refused when it comes to that.
fn thread_room() -> usize {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<usize>().ok();
    let processes = getrlimit(Resource::Nproc).current.map(|count| count.min(1 << 32) as usize);
    let limits = [
        number("/proc/sys/kernel/threads-max"),
        number("/sys/fs/cgroup/pids.max"),
        // Every thread has two mappings: its stack, and the guard below it.
        number("/proc/sys/vm/max_map_count").map(|maps| maps / 2),
        processes,
    ];
    limits.into_iter().flatten().min().unwrap_or(usize::MAX).saturating_sub(OTHER_FILES).max(1)
}
