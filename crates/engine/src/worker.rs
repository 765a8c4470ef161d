//! [`Worker`]: the input of every engine, and how an engine is structured.
//!
//! # How to read an engine
//!
//! An engine drives [sessions](argiope_core::http::session): connections that accept jobs while they have room and
//! yield visits. All engines have the same parts in the same order:
//!
//! - `run`: takes jobs from the keeper until it is told to stop;
//! - `start`: hands a job to a connection with room, or starts a new connection;
//! - `connect`: runs the race between the host's addresses ([`Connecting`](crate::connecting::Connecting));
//! - `drive`: asks the session for its next step and waits for the socket, the deadline or the next job.
//!
//! `drive` serves idle connections too: an idle session waits for the server to close it, for its keep-alive deadline,
//! or for a job. Nothing in an engine depends on how many jobs a session carries at once. The pool of connections with
//! room lists a session while its [`Session::free_capacity`] is above zero, and the engine takes the session for the
//! next job from this pool. The results of several jobs are collected in one call. The `threads` engine is an exception
//! by design: a thread that blocks on a socket cannot take a second job, so each of its sessions has one job at a time,
//! with every protocol.
//!
//! The idle pool, file shortages and wake-up coalescing are handled in [`resources`](crate::resources).
//!
//! [`Session::free_capacity`]: argiope_core::http::session::Session::free_capacity
//!
//! Invariant: every job that a worker was given comes back as exactly one visit, unless the worker is told to drop
//! everything.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use argiope_core::Time;
use argiope_core::rules::Rules;

use crate::{Clock, JobQueue, VisitSender};

/// Size of the read buffer. There is one per worker: a waiting session owns none.
pub const READ_BUFFER_SIZE: usize = 64 << 10;

/// How many jobs a worker's receive buffer keeps capacity for after a large batch.
pub const JOB_BUFFER_CAPACITY: usize = 64;

/// How long workers close idle connections after the process ran out of file descriptors.
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
    pub fn out_of_files(&self, now: Time) {
        self.file_shortage.report(now);
        self.notices.say("files", || {
            "the system has no more files for sockets: fetches wait until others end \
             (raise `ulimit -n`, or lower --concurrency)"
                .to_owned()
        });
    }
}

/// Whether the process has recently run out of file descriptors. They are shared by all workers: a worker with idle
/// connections must close them for another that needs a socket.
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
    count: Arc<AtomicUsize>,
    /// The limit.
    most: usize,
}

/// The limit on idle connections is at least this, unless memory or file descriptors are short. Fetches alternate
/// between hosts. If the limit were as low as a small `--concurrency`, a connection would often be closed just before
/// its host is due again.
const MIN_IDLE: usize = 256;
/// The limit is at least this, even if memory or file descriptors are short.
const MIN_IDLE_IF_SHORT: usize = 32;
/// Estimated size of an idle connection in bytes, mostly its TLS session with buffers.
const IDLE_BYTES: usize = 10 << 10;
/// Idle connections may use `--max-memory` divided by this.
const IDLE_PART: u64 = 16;

impl IdleLimit {
    pub fn new(rules: &Rules) -> Self {
        // The memory for idle connections in bytes, and the number of connections that it has room for.
        let room = rules.max_memory.and_then(|limit| usize::try_from(limit / IDLE_PART).ok());
        let max_connections = room.map_or(usize::MAX, |room| room / IDLE_BYTES).max(MIN_IDLE_IF_SHORT);
        Self { count: Arc::default(), most: rules.concurrency.max(MIN_IDLE).min(max_connections) }
    }

    /// Lowers the limit to the number of sockets that the fetches do not need. The process may have `sockets` in total.
    #[must_use]
    pub fn within(self, sockets: usize, rules: &Rules) -> Self {
        let spare = sockets.saturating_sub(rules.concurrency).max(MIN_IDLE_IF_SHORT);
        Self { most: self.most.min(spare), ..self }
    }

    pub fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.most
    }

    /// The memory of all idle connections, in bytes: an estimate.
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

/// Messages for the user about the engine. Each topic is reported once, by the first worker that encounters it.
#[derive(Clone, Default)]
pub struct Notices(Arc<Mutex<NoticeLog>>);

#[derive(Default)]
struct NoticeLog {
    /// The topics of all messages so far.
    given: HashSet<&'static str>,
    unread: Vec<String>,
}

impl Notices {
    /// Adds a message unless one on the same `topic` was given before.
    pub fn say(&self, topic: &'static str, message: impl FnOnce() -> String) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.given.insert(topic) {
            log.unread.push(message());
        }
    }

    /// The messages since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).unread)
    }
}
