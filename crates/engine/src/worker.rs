//! What all engines share: a [`Worker`] and how its fetches begin.
//!
//! Invariant: every job that a worker was given comes back as exactly one visit, unless the worker is told to drop
//! everything.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::conn::{Conn, Limits, TlsConfig};
use argiope_core::fetch::{Fetch, Origins};
use argiope_core::job::{Job, LaneId};
use argiope_core::rules::Rules;
use argiope_core::visit::Visit;
use argiope_core::{Failure, Race, Time};

use crate::{Clock, Orders, Reports};

/// How long a connection waits for its lane's next request before it is closed. Most servers close theirs after 5 to
/// 75 seconds; one that leaves first is noticed.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How long a fetch waits when the system has no file left for its socket.
pub const SHORTAGE: Duration = Duration::from_millis(250);

/// How long a fetch that must not read now waits before it asks again.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Bytes are read into a buffer of this size, one per worker: a fetch that waits owns none.
pub const BUFFER: usize = 64 << 10;

/// What a worker works with.
pub struct Worker {
    pub index: usize,
    pub rules: Arc<Rules>,
    pub limits: Arc<Limits>,
    /// Asked for when the first https connection begins: a certificate store takes long to read.
    pub tls: Arc<dyn Fn() -> Arc<TlsConfig> + Send + Sync>,
    pub clock: Clock,
    pub orders: Orders<Job>,
    pub reports: Reports<Report>,
}

/// What a worker tells the keeper.
#[derive(Debug)]
pub enum Report {
    Visit(Box<Visit>),
    /// Something that a person should know: said once.
    Notice(Box<str>),
}

/// The place of a connection: at most one lives in each slot of a lane.
pub type Seat = (LaneId, u16);

/// What a kept-alive connection leads to, besides the host that its lane stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    pub https: bool,
    pub port: u16,
}

impl Door {
    pub fn of(job: &Job) -> Self {
        Self { https: job.link.url.is_https(), port: job.link.url.port() }
    }
}

pub fn seat(job: &Job) -> Seat {
    (job.lane, job.slot)
}

impl Worker {
    pub fn race(&self, job: &Job, started: Time) -> Race {
        Race::new(Arc::clone(&job.addresses), job.link.url.port(), started, self.rules.connect_timeout)
    }

    /// The first request over a connection that has just been made. The error is a visit already.
    pub fn begin(&self, job: Job, started: Time, peer: SocketAddr, now: Time) -> Result<Fetch, Box<Visit>> {
        let url = &job.link.url;
        let conn = if url.is_https() {
            Conn::tls((self.tls)(), url.host(), Arc::clone(&self.limits), now)
        } else {
            Ok(Conn::plain(Arc::clone(&self.limits), now))
        };
        let origins = Origins { started, connected: Some(now), ip: Some(peer.ip()) };
        match conn {
            Ok(conn) => Ok(Fetch::new(job, conn, Arc::clone(&self.rules), origins, now)),
            Err(failure) => Err(Box::new(Visit::failed(job, failure, started, now))),
        }
    }

    /// The next request over a connection that was kept.
    pub fn begin_again(&self, job: Job, conn: Conn, ip: IpAddr, now: Time) -> Fetch {
        let origins = Origins { started: now, connected: None, ip: Some(ip) };
        Fetch::new(job, conn, Arc::clone(&self.rules), origins, now)
    }

    /// A job that never got a connection.
    pub fn lost(&self, job: Job, failure: Failure, started: Time) -> Box<Visit> {
        Box::new(Visit::failed(job, failure, started, self.clock.now()))
    }
}

/// Said once where the system runs out of files.
pub const NO_FILES: &str = "the system has no more files for sockets: fetches wait until others end (raise `ulimit -n` or lower --concurrency)";
