//! [`Connecting`]: the opening of a connection for a job, with a race between the addresses of the host.
//!
//! Engines differ in how they open a socket and how they wait for several of them. Everything else about a race is the
//! same in all engines, and is implemented here. A shortage of file descriptors is not the host's fault, so the race
//! starts again later.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use argiope_core::base::job::Job;
use argiope_core::crawl::session::{self, Session, SlotKey};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Failure, Race, RaceStep, Time};

use crate::socket::{self, Attempts};
use crate::worker::Worker;

/// How long a fetch waits if no file descriptor is left for its socket.
const SHORTAGE_RETRY: Duration = Duration::from_millis(250);

/// How long the fetch waits after an idle connection was evicted for it. The task that owns that connection must run
/// before the socket is closed.
const EVICTION_RETRY: Duration = Duration::from_millis(1);

/// A job whose connection is being established. `S` is the engine's socket.
pub struct Connecting<S> {
    job: Box<Job>,
    /// When the race began. After a shortage of file descriptors, when it begins again.
    started: Time,
    race: Race,
    attempts: Attempts<S>,
}

/// The next action of the engine.
pub enum ConnectStep<S> {
    /// One attempt has succeeded. The others are cancelled by dropping the [`Connecting`].
    Connected(SocketAddr, S),
    /// Wait until one of [`Connecting::sockets`] is writable, or until this time, then call [`Connecting::step`] again.
    Wait(Time),
    /// No address could be connected to.
    Failed(Failure),
}

impl<S> Connecting<S> {
    pub fn new(worker: &Worker, job: Box<Job>, now: Time) -> Self {
        let race = session::race(&job, &worker.rules, now);
        Self { job, started: now, race, attempts: Attempts::default() }
    }

    /// Makes as much progress as possible without waiting. `open` starts a non-blocking connect. `connected` returns
    /// whether it has succeeded. `evict` closes an idle connection and returns whether there was one.
    pub fn step(
        &mut self,
        worker: &Worker,
        mut open: impl FnMut(SocketAddr) -> io::Result<S>,
        connected: impl Fn(&S) -> io::Result<bool>,
        mut evict: impl FnMut() -> bool,
    ) -> ConnectStep<S> {
        let now = worker.clock.now();
        if let Some((peer, socket)) = self.attempts.take_winner(&mut self.race, now, connected) {
            return ConnectStep::Connected(peer, socket);
        }
        loop {
            match self.race.next(now) {
                RaceStep::Connect(address) => match open(address) {
                    Ok(socket) => self.attempts.push(address, socket),
                    // If an attempt is in progress, this address only counts as failed (below), and the race continues.
                    Err(error) if socket::is_shortage(&error) && self.attempts.is_empty() => {
                        worker.report_file_shortage(now);
                        self.started = now + if evict() { EVICTION_RETRY } else { SHORTAGE_RETRY };
                        self.race = session::race(&self.job, &worker.rules, self.started);
                    }
                    Err(error) => self.race.failed(address, socket::connect_failure(address, &error), now),
                },
                RaceStep::Wait(until) => return ConnectStep::Wait(until),
                RaceStep::Lost(failure) => return ConnectStep::Failed(failure),
            }
        }
    }

    /// The sockets of the attempts in progress.
    pub fn sockets(&self) -> impl Iterator<Item = &S> {
        self.attempts.sockets()
    }

    /// The slot of the connection.
    pub fn slot(&self) -> SlotKey {
        session::slot_key(&self.job)
    }

    /// The session over the connection to `peer`. It accepts the jobs in `waiting`; those that it refuses stay there.
    /// If the session cannot be opened, the error is the visit of the job for which the connection was opened.
    pub fn into_session(
        self,
        worker: &Worker,
        peer: SocketAddr,
        waiting: &mut Vec<Box<Job>>,
    ) -> Result<Session, Box<Visit>> {
        let now = worker.clock.now();
        let mut session = Session::open(self.job, &worker.rules, self.started, peer.ip(), now)?;
        let refused = waiting.drain(..).filter_map(|job| session.accept(job, &worker.rules, now).err()).collect();
        *waiting = refused;
        Ok(session)
    }

    /// The failed visits of the job for which no connection could be opened, and of the jobs that wait for the
    /// connection.
    pub fn into_failures(self, worker: &Worker, failure: &Failure, waiting: Vec<Box<Job>>) -> Vec<Box<Visit>> {
        let (now, started) = (worker.clock.now(), self.started);
        let jobs = std::iter::once(self.job).chain(waiting);
        jobs.map(|job| session::unconnected_visit(*job, &worker.rules, failure.clone(), started, now)).collect()
    }
}
