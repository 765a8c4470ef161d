//! [`Worker`]: the input of every engine, and how an engine is structured.
//!
//! # How to read an engine
//!
//! An engine drives [sessions](argiope_core::crawl::session): connections that accept jobs while they have room and
//! yield visits. All engines have the same parts in the same order:
//!
//! - `run`: takes jobs from the keeper until the worker must stop;
//! - `start`: passes a job to a connection with room, or opens a new connection;
//! - `serve`: calls `connect` and `drive`, one after the other (in `callbacks`, the table replaces this function);
//! - `connect`: runs the race between the host's addresses ([`Connecting`](crate::connecting::Connecting));
//! - `drive`: does the next step of the session, and waits for the socket, the deadline or the next job.
//!
//! The engines with tasks (`coroutines`, `tokio`, `uring`) share the code that receives and starts jobs, in
//! `worker_state`.
//!
//! `drive` serves idle connections too. It then waits until the server closes the connection, the keep-alive deadline
//! passes, or a job arrives.
//!
//! Engines do not depend on how many jobs a session carries at once. While its [`Session::free_capacity`] is above
//! zero, a session is in the pool of connections with room, from which the engine takes the session for the next job.
//! The `threads` engine is an exception by design: a thread that blocks on a socket cannot take a second job, so each
//! of its sessions has one job at a time, also with HTTP/2. Its idle connections have no thread. They are checked at
//! regular intervals.
//!
//! A panic ends the worker, because the job that caused it has no visit and the crawl would wait for it forever. In the
//! engines `callbacks`, `coroutines` and `uring`, a panic unwinds through the loop of the worker's thread. In `threads`
//! it ends only one of many threads, and tokio catches the panics of tasks. So these two report a lost job to the
//! worker.
//!
//! The idle pool, file shortages and wake-up coalescing are handled in [`resources`](crate::resources).
//!
//! [`Session::free_capacity`]: argiope_core::crawl::session::Session::free_capacity
//!
//! Invariant: a worker returns exactly one visit for every job, unless it is stopped with
//! [`StopMode::Now`](crate::StopMode::Now).

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use argiope_core::Time;
use argiope_core::crawl::rules::Rules;

use crate::{Clock, JobQueue, VisitSender};

/// Size of the read buffer in the engines `tokio`, `coroutines` and `callbacks`. There is one per worker, and none per
/// session.
pub const READ_BUFFER_SIZE: usize = 64 << 10;

/// The capacity to which a worker's receive buffer shrinks after a large batch of jobs.
pub const JOB_BUFFER_CAPACITY: usize = 64;

/// For how long workers close idle connections after the process ran out of file descriptors.
const SHORTAGE_DURATION: Duration = Duration::from_secs(1);

/// The input of a worker.
pub struct Worker {
    pub rules: Arc<Rules>,
    pub clock: Clock,
    pub job_queue: JobQueue,
    pub visit_sender: VisitSender,
    pub notices: Notices,
    pub file_shortage: FileShortage,
    pub idle_limit: IdleLimit,
    /// Receives a message when the engine has started. It is dropped without a message if the engine could not start.
    pub ready: mpsc::Sender<()>,
}

impl Worker {
    /// Reports that the engine has started.
    pub fn report_ready(&self) {
        // The receiver is gone if the worker pool was dropped meanwhile.
        let _ = self.ready.send(());
    }

    /// Records that a socket was refused because no file descriptor is left.
    pub fn report_file_shortage(&self, now: Time) {
        self.file_shortage.report(now);
        self.notices.add("files", || {
            "the system has no more file descriptors for sockets: fetches wait until others end \
             (raise the limit of open files, or lower the concurrency)"
                .to_owned()
        });
    }
}

/// The error of a worker that has lost a job, usually because of a panic.
pub(crate) fn lost_job_error() -> io::Error {
    io::Error::other("a fault in Argiope: a job was lost")
}

/// Whether the process has recently run out of file descriptors. All workers share them, so a worker closes its idle
/// connections if another one needs a socket. The value is the time in microseconds at which the shortage ends.
#[derive(Clone, Default)]
pub struct FileShortage(Arc<AtomicU64>);

impl FileShortage {
    fn report(&self, now: Time) {
        self.0.fetch_max((now + SHORTAGE_DURATION).as_micros(), Ordering::Relaxed);
    }

    pub fn is_active(&self, now: Time) -> bool {
        now.as_micros() < self.0.load(Ordering::Relaxed)
    }
}

/// The number of idle connections of all workers, and its limit.
#[derive(Clone)]
pub struct IdleLimit {
    /// The number of idle connections of all workers.
    count: Arc<AtomicUsize>,
    limit: usize,
}

/// The limit on idle connections is at least this, unless memory or file descriptors are short. If the limit were as
/// low as a small `--concurrency`, a connection would often be closed just before the next request to its host, because
/// fetches alternate between hosts.
const MIN_IDLE: usize = 256;
/// The limit is at least this, even if memory or file descriptors are short.
const MIN_IDLE_IF_SHORT: usize = 32;
/// Estimated size of an idle connection in bytes, mostly its TLS session with buffers.
const IDLE_BYTES: usize = 10 << 10;
/// Idle connections may take `--max-memory` divided by this.
const IDLE_DIVISOR: u64 = 16;

impl IdleLimit {
    pub fn new(rules: &Rules) -> Self {
        let max_bytes = rules.max_memory.and_then(|limit| usize::try_from(limit / IDLE_DIVISOR).ok());
        let max_connections = max_bytes.map_or(usize::MAX, |bytes| bytes / IDLE_BYTES).max(MIN_IDLE_IF_SHORT);
        Self { count: Arc::default(), limit: rules.concurrency.max(MIN_IDLE).min(max_connections) }
    }

    /// Lowers the limit to the number of sockets that the fetches leave over. The process may open `sockets` in total.
    #[must_use]
    pub fn within(self, sockets: usize, rules: &Rules) -> Self {
        let spare = sockets.saturating_sub(rules.concurrency).max(MIN_IDLE_IF_SHORT);
        Self { limit: self.limit.min(spare), ..self }
    }

    pub fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.limit
    }

    /// The estimated memory of all idle connections, in bytes.
    pub fn bytes(&self) -> usize {
        self.count.load(Ordering::Relaxed).saturating_mul(IDLE_BYTES)
    }

    pub(crate) fn add(&self, count: usize) {
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, count: usize) {
        self.count.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Messages of workers for the user. There is at most one message per topic, whichever worker adds it.
#[derive(Clone, Default)]
pub struct Notices(Arc<Mutex<NoticeLog>>);

#[derive(Default)]
struct NoticeLog {
    /// The topics of all messages so far.
    topics: HashSet<&'static str>,
    /// Messages that [`Notices::take`] has not returned yet.
    unread: Vec<String>,
}

impl Notices {
    /// Adds a message unless there was one on the same `topic`.
    pub fn add(&self, topic: &'static str, message: impl FnOnce() -> String) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.topics.insert(topic) {
            log.unread.push(message());
        }
    }

    /// Returns the messages since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).unread)
    }
}
