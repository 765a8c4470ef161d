//! What all engines share: a [`Worker`] and how its fetches begin.
//!
//! Invariant: every job that a worker was given comes back as exactly one visit, unless the worker is told to drop
//! everything.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use argiope_core::http::conn::{Conn, Tunnel};
use argiope_core::http::fetch::{Fetch, FetchStart};
use argiope_core::rules::Rules;
use argiope_core::schedule::job::{Job, LaneId};
use argiope_core::visit::Visit;
use argiope_core::{ErrorKind, Failure, Race, Time};

use crate::{Clock, JobQueue, VisitSender};

/// How long a connection waits for its lane's next request before it is closed. Most servers close theirs after 5 to
/// 75 seconds; one that leaves first is noticed.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How long a fetch waits when the system has no file left for its socket.
pub const SHORTAGE_RETRY: Duration = Duration::from_millis(250);

/// How often a worker looks whether its resting connections are in another worker's way.
pub const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How long a fetch that must not read now waits before it asks again.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a fetch pauses. One that only lets others have their turn goes on after them, without waiting.
pub fn pause(fetch: &Fetch) -> Duration {
    if fetch.is_yielding() { Duration::ZERO } else { PAUSE }
}

/// Bytes are read into a buffer of this size, one per worker: a fetch that waits owns none.
pub const READ_BUFFER_SIZE: usize = 64 << 10;

/// So many connections may rest in any case. Fetches move between hosts from moment to moment: with room for no more
/// than are used at once, one host's connections would be closed for another's.
const MIN_IDLE: usize = 256;

/// A vector that once held many jobs keeps room for this many.
pub const JOB_BUFFER_CAPACITY: usize = 64;

/// What a worker works with.
pub struct Worker {
    pub rules: Arc<Rules>,
    pub clock: Clock,
    pub job_queue: JobQueue,
    pub visit_sender: VisitSender,
    pub notices: Notices,
    pub file_shortage: FileShortage,
    /// Told once the engine has all that it needs to run; dropped without a word where it could not get it.
    pub ready: mpsc::Sender<()>,
}

/// Whether the process has run out of files lately. All workers draw on the same ones: a worker that has connections at
/// rest must give them up for another that has none.
#[derive(Clone, Default)]
pub struct FileShortage(Arc<AtomicU64>);

impl FileShortage {
    /// For a second from now on, nobody keeps what he does not use.
    fn report(&self, now: Time) {
        self.0.fetch_max((now + Duration::from_secs(1)).as_micros(), Ordering::Relaxed);
    }

    pub fn is_active(&self, now: Time) -> bool {
        now.as_micros() < self.0.load(Ordering::Relaxed)
    }
}

/// What a person should know about the engine: each thing is said once, by whichever worker meets it first.
#[derive(Clone, Default)]
pub struct Notices(Arc<Mutex<Said>>);

#[derive(Default)]
struct Said {
    ever: HashSet<&'static str>,
    unread: Vec<String>,
}

impl Notices {
    /// `about` is what must not be said twice.
    pub fn say(&self, about: &'static str, words: impl FnOnce() -> String) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.ever.insert(about) {
            said.unread.push(words());
        }
    }

    /// What was said since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).unread)
    }
}

/// The place of a connection: at most one lives in each slot of a lane.
pub type SlotKey = (LaneId, u16);

/// What a kept-alive connection leads to, besides the host that its lane stands for.
///
/// With the host it is the origin, and within one crawl all else that tells connections apart follows from that: the
/// proxy, the credentials, what TLS believes and shows. Crawls share neither connections nor TLS sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnKey {
    pub https: bool,
    pub port: u16,
}

impl ConnKey {
    pub fn of(job: &Job) -> Self {
        Self { https: job.link.url.is_https(), port: job.link.url.port() }
    }
}

pub fn slot_key(job: &Job) -> SlotKey {
    (job.lane, job.slot)
}

impl Worker {
    /// The engine has all that it needs.
    pub fn is_ready(&self) {
        // Nobody waits for it where the pool is gone already.
        let _ = self.ready.send(());
    }

    pub fn race(&self, job: &Job, started: Time) -> Race {
        let (addresses, port) = match self.rules.proxies.of(job.link.url.as_ref()) {
            Some(proxy) => (Arc::clone(&proxy.addresses), proxy.port),
            None => (Arc::clone(&job.addresses), job.link.url.port()),
        };
        Race::new(addresses, port, started, self.rules.connect_timeout)
    }

    /// The host's own address, for a socket that leads to `peer`: none where a proxy looks for it.
    fn address(&self, job: &Job, peer: IpAddr) -> Option<IpAddr> {
        match self.rules.proxies.of(job.link.url.as_ref()) {
            None => Some(peer),
            Some(proxy) if proxy.resolves() => None,
            // A proxy is told one address. Another try takes another one.
            Some(_) => job.addresses.iter().copied().cycle().nth(usize::from(job.link.tries)),
        }
    }

    /// The first request over a connection that has just been made. The error is a visit already.
    pub fn begin(&self, job: Box<Job>, started: Time, ip: IpAddr, now: Time) -> Result<Fetch, Box<Visit>> {
        let url = &job.link.url;
        let conn = if url.is_https() {
            let trusted =
                self.rules.tls.config(self.rules.identifies_to(url)).map_err(|why| Failure::new(ErrorKind::Tls, why));
            trusted.and_then(|config| Conn::tls(Arc::clone(config), url.host(), Arc::clone(&self.rules.limits), now))
        } else {
            Ok(Conn::plain(Arc::clone(&self.rules.limits), now))
        };
        let ip = self.address(&job, ip);
        let proxy = self.rules.proxies.of(url.as_ref());
        let tunnel = proxy.and_then(|proxy| Tunnel::new(proxy, url.as_ref(), ip, now + self.rules.connect_timeout));
        let conn = conn.map(|conn| conn.through(tunnel));
        let start = FetchStart { started, connected: Some(now) };
        match conn {
            Ok(mut conn) => {
                conn.peer = ip;
                Ok(Fetch::new(job, conn, Arc::clone(&self.rules), start, now))
            }
            Err(failure) => Err(Box::new(Visit::failed(*job, failure, started, now))),
        }
    }

    /// The next request over a connection that was kept.
    pub fn begin_again(&self, job: Box<Job>, conn: Conn, now: Time) -> Fetch {
        let start = FetchStart { started: now, connected: None };
        Fetch::new(job, conn, Arc::clone(&self.rules), start, now)
    }

    /// A socket was refused for want of files.
    pub fn out_of_files(&self, now: Time) {
        self.file_shortage.report(now);
        self.notices.say("files", || {
            "the system has no more files for sockets: fetches wait until others end \
             (raise `ulimit -n`, or lower --concurrency)"
                .to_owned()
        });
    }

    /// Whether connections may stay open unused.
    pub fn may_keep_idle(&self, now: Time) -> bool {
        !self.file_shortage.is_active(now)
    }

    /// Whether so many at rest leave no room for one more, unless another leaves.
    pub fn is_full(&self, resting: usize) -> bool {
        resting >= self.rules.concurrency.max(MIN_IDLE)
    }

    /// A job that never got a connection.
    #[expect(clippy::boxed_local, reason = "who waits keeps it in a box, and the box ends here")]
    pub fn lost(&self, job: Box<Job>, mut failure: Failure, started: Time) -> Box<Visit> {
        if let Some(proxy) = self.rules.proxies.of(job.link.url.as_ref()) {
            failure.message = format!("the proxy {proxy}: {}", failure.message).into();
        }
        Box::new(Visit::failed(*job, failure, started, self.clock.now()))
    }
}
