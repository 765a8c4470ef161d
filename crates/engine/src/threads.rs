//! The `threads` engine: one thread per fetch in flight, on blocking sockets.
//!
//! The simplest engine: a call that must wait blocks. The state of a fetch is the stack of its thread, and the
//! backtrace of an error shows its whole history. The cost: a stack and an entry in the kernel's scheduler for every
//! fetch that only waits, and a limit on the number of threads. State that the threads share is behind a lock.
//!
//! Invariant: a thread has one job at a time, and so does a session here. The number of threads follows the number of
//! jobs and is bounded only by the system.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use argiope_core::http::conn::Step;
use argiope_core::http::session::{Completed, Session, slot_key};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;
use argiope_core::{Failure, Time};
use slab::Slab;

use crate::channel::StopMode;
use crate::connecting::{ConnectStep, Connecting};
use crate::resources::{IDLE_CHECK_INTERVAL, Resources};
use crate::socket;
use crate::worker::Worker;

/// Stack size of a thread, in bytes: enough for a TLS handshake and the examination of a page. The memory is only
/// reserved; pages of the stack that are never touched cost nothing.
const STACK: usize = 256 << 10;

/// Size of a read buffer, in bytes. Every thread has its own, because a blocking read holds it while it waits.
const BUFFER: usize = 16 << 10;

/// A thread ends after this time without a job.
const THREAD_IDLE: Duration = Duration::from_secs(10);

/// Runs a worker until it is told to stop.
pub fn run(worker: Worker) -> io::Result<()> {
    let state = WorkerState::new(worker);
    state.worker.report_ready();
    thread::scope(|scope| {
        let mut jobs = Vec::new();
        loop {
            let stop = state.worker.job_queue.wait(&mut jobs, Some(IDLE_CHECK_INTERVAL));
            state.close_dead_connections();
            if stop == Some(StopMode::Now) || state.lock().panicked {
                return state.drop_everything();
            }
            for job in jobs.drain(..) {
                start(&state, scope, Box::new(job));
            }
            if stop == Some(StopMode::Drain) && state.wait_for_the_last() {
                return state.drop_everything();
            }
        }
    });
    if state.lock().panicked { Err(io::Error::other("a fault in Argiope: a job was lost")) } else { Ok(()) }
}

/// The state that the threads share.
struct WorkerState {
    worker: Worker,
    locked: Mutex<Locked>,
    /// Signals a change: a job arrived, the last one ended, or all jobs are dropped.
    changed: Condvar,
}

/// The part of the shared state that is behind the lock.
struct Locked {
    jobs: VecDeque<Box<Job>>,
    /// Jobs without a visit yet.
    unfinished: usize,
    threads: usize,
    /// How many of them wait for a job.
    idle_threads: usize,
    resources: Resources<(Transport, Session)>,
    /// The sockets in use, to shut them down at the end: a thread that blocks on one cannot be reached otherwise.
    open: Slab<Arc<TcpStream>>,
    stopped: bool,
    /// A thread panicked and its job is lost. The worker ends: the crawl would wait for that job forever.
    panicked: bool,
}

/// The socket of a session.
struct Transport {
    stream: Arc<TcpStream>,
    /// Its key in the table of open sockets.
    key: usize,
}

// anchor: threads-start
/// Starts a job: on a thread that has none, or on a new thread.
fn start<'scope>(state: &'scope WorkerState, scope: &'scope Scope<'scope, '_>, job: Box<Job>) {
    let mut locked = state.lock();
    locked.jobs.push_back(job);
    locked.unfinished += 1;
    if locked.jobs.len() <= locked.idle_threads {
        drop(locked);
        // `notify_one` is enough: only idle threads wait for this signal while jobs arrive, and any of them can take
        // the job.
        return state.changed.notify_one();
    }
    locked.threads += 1;
    drop(locked);
    let spawned = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || serve(state));
    if let Err(error) = spawned {
        let mut locked = state.lock();
        locked.threads -= 1;
        let count = locked.threads;
        drop(locked);
        state.worker.notices.say("threads", || {
            format!("the system grants no more than {count} threads ({error}): the crawl continues with those it has")
        });
        if count == 0 {
            // No thread can be started, so this thread does the work.
            serve_once(state, &mut vec![0; BUFFER]);
        }
    }
}
// end: threads-start

/// The body of a thread: serves one job after the other.
fn serve(state: &WorkerState) {
    let mut buffer = vec![0; BUFFER];
    // Panics while a response is read are caught in the core. This catches all others.
    let served = catch_unwind(AssertUnwindSafe(|| while serve_once(state, &mut buffer) {}));
    if served.is_err() {
        state.lock().panicked = true;
    }
}

/// Waits for a job and serves it. Returns whether the thread continues.
fn serve_once(state: &WorkerState, buffer: &mut [u8]) -> bool {
    let Some(mut job) = state.next_job() else { return false };
    loop {
        let (transport, mut session) = match state.take_idle(job) {
            Ok(kept) => kept,
            Err(job) => match connect(state, job) {
                Ok(connected) => connected,
                Err(visit) => return state.report(visit),
            },
        };
        let completed = drive(state, &transport.stream, &mut session, buffer);
        state.keep(transport, session);
        match completed {
            Some(Completed::Visit(visit)) => return state.report(visit),
            // The fetch failed because `drop_everything` shut its socket down: do not retry it.
            Some(Completed::Retry(_)) if state.lock().stopped => return false,
            Some(Completed::Retry(same)) => job = same,
            // A session returns every job before it closes. If one did not, the job would be lost: stop the worker.
            None => {
                state.lock().panicked = true;
                return false;
            }
        }
    }
}

/// Runs the race between the host's addresses. This is the one place where a thread must wait for several things at
/// once, and a blocking call waits for one: so the sockets are non-blocking here, and `poll` waits for all of them.
fn connect(state: &WorkerState, job: Box<Job>) -> Result<(Transport, Session), Box<Visit>> {
    let worker = &state.worker;
    let mut connecting = Connecting::new(worker, job, state.now());
    let failure = loop {
        match connecting.step(worker, socket::begin_connect, socket::connected, || state.evict()) {
            ConnectStep::Connected(peer, stream) => match stream.set_nonblocking(false) {
                Ok(()) => {
                    // No other jobs wait for this connection, because a session has one job here.
                    return connecting
                        .into_session(worker, peer, &mut Vec::new())
                        .map(|session| (state.open(stream), session));
                }
                Err(error) => break socket::connect_failure(peer, &error),
            },
            ConnectStep::Failed(failure) => break failure,
            ConnectStep::Wait(until) => {
                let span = until.since(state.now()).min(IDLE_CHECK_INTERVAL);
                if let Err(error) = socket::wait_writable(connecting.sockets(), span) {
                    break socket::broken(&error);
                }
                if state.lock().stopped {
                    break Failure::new(argiope_core::ErrorKind::Internal, "the crawl was stopped");
                }
            }
        }
    };
    let mut visits = connecting.into_failures(worker, &failure, Vec::new());
    Err(visits.remove(0))
}

// anchor: threads-drive
/// Does what the session needs until its job is done. The deadline becomes the socket's own timeout.
fn drive(state: &WorkerState, mut stream: &TcpStream, session: &mut Session, buffer: &mut [u8]) -> Option<Completed> {
    loop {
        let completed = session.finished(state.now());
        if completed.is_some() {
            return completed;
        }
        let left = session.deadline().since(state.now()).max(Duration::from_millis(1));
        let done = match session.step() {
            Step::Write(bytes) => {
                let wrote = stream.set_write_timeout(Some(left)).and_then(|()| stream.write(bytes));
                wrote.map(|count| session.wrote(count, state.now()))
            }
            Step::Read => {
                let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(buffer));
                read.map(|count| match buffer.get(..count) {
                    None | Some([]) => session.closed(state.now()),
                    Some(bytes) => {
                        let now = state.now();
                        session.feed(bytes, now);
                        // A steady trickle never trips the read timeout, so check the deadline here.
                        session.expire(now);
                    }
                })
            }
            Step::Pause => {
                thread::sleep(session.pause().min(left));
                session.expire(state.now());
                session.resume(state.now());
                Ok(())
            }
            Step::Done => return None,
        };
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // This is how a blocking socket reports its timeout.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                session.expire(state.now());
            }
            Err(error) => session.broke(socket::broken(&error)),
        }
    }
}
// end: threads-drive

impl WorkerState {
    fn new(worker: Worker) -> Self {
        let locked = Locked {
            jobs: VecDeque::new(),
            unfinished: 0,
            threads: 0,
            idle_threads: 0,
            resources: Resources::new(&worker),
            open: Slab::new(),
            stopped: false,
            panicked: false,
        };
        Self { worker, locked: Mutex::new(locked), changed: Condvar::new() }
    }

    fn now(&self) -> Time {
        self.worker.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, Locked> {
        // Nothing that can panic runs under this lock.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job; `None` if the thread must end. A thread that ends because it was idle is removed from
    /// the count `threads`, so that [`start`] does not rely on it for the next job.
    fn next_job(&self) -> Option<Box<Job>> {
        let mut locked = self.lock();
        loop {
            if locked.stopped {
                return None;
            }
            if let Some(job) = locked.jobs.pop_front() {
                return Some(job);
            }
            locked.idle_threads += 1;
            let (back, waited) = self.changed.wait_timeout(locked, THREAD_IDLE).unwrap_or_else(PoisonError::into_inner);
            locked = back;
            locked.idle_threads -= 1;
            if waited.timed_out() && locked.jobs.is_empty() {
                locked.threads = locked.threads.saturating_sub(1);
                return None;
            }
        }
    }

    /// Sends the visit to the keeper, unless the worker was stopped. Returns whether the thread continues.
    fn report(&self, visit: Box<Visit>) -> bool {
        let mut visit_sender = self.worker.visit_sender.clone();
        let mut locked = self.lock();
        locked.unfinished -= 1;
        let (stopped, last) = (locked.stopped, locked.unfinished == 0);
        drop(locked);
        if !stopped {
            visit_sender.push(visit);
            visit_sender.send();
        }
        if last {
            self.changed.notify_all();
        }
        !stopped
    }

    /// Adds a socket to the table of open ones, so that `drop_everything` can shut it down.
    fn open(&self, stream: TcpStream) -> Transport {
        let stream = Arc::new(stream);
        let mut locked = self.lock();
        if locked.stopped {
            // All other sockets have been shut down already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let key = locked.open.insert(Arc::clone(&stream));
        Transport { stream, key }
    }

    /// Keeps an idle connection for the next job of its slot, or closes it.
    fn keep(&self, transport: Transport, session: Session) {
        let now = self.now();
        let mut locked = self.lock();
        let Locked { resources, open, .. } = &mut *locked;
        match session.slot().filter(|slot| session.is_idle() && resources.may_keep(*slot, now)) {
            Some(slot) => {
                let oldest = resources.evict_if_full(|_| true).and_then(|slot| resources.pool().remove(slot));
                if let Some((evicted, _)) = oldest {
                    open.try_remove(evicted.key);
                }
                resources.pool().insert(slot, (transport, session));
            }
            None => {
                open.try_remove(transport.key);
            }
        }
    }

    /// Starts a job on the idle connection in its slot, if that leads to the same origin and the server has not closed
    /// it. Otherwise returns the job.
    fn take_idle(&self, job: Box<Job>) -> Result<(Transport, Session), Box<Job>> {
        let mut locked = self.lock();
        let Some((transport, mut session)) = locked.resources.pool().remove(slot_key(&job)) else { return Err(job) };
        // On an idle HTTP/2 connection, unread bytes are normal: the server may send frames such as PING.
        let accepted = match session.is_http2() || socket::is_quiet(&transport.stream) {
            true => session.accept(job, &self.worker.rules, self.now()),
            false => Err(job),
        };
        match accepted {
            Ok(()) => Ok((transport, session)),
            Err(job) => {
                locked.open.try_remove(transport.key);
                Err(job)
            }
        }
    }

    /// Removes idle connections that the server has closed or whose keep-alive time has passed. No thread reads from an
    /// idle connection, so all of them are checked at regular intervals.
    fn close_dead_connections(&self) {
        let now = self.now();
        let mut locked = self.lock();
        let Locked { resources, open, .. } = &mut *locked;
        resources.pool().retain(|(transport, session)| {
            let keep = now < session.deadline() && (session.is_http2() || socket::is_quiet(&transport.stream));
            if !keep {
                open.try_remove(transport.key);
            }
            keep
        });
    }

    /// Closes the least recently used idle connection. Returns whether there was one.
    fn evict(&self) -> bool {
        let mut locked = self.lock();
        let Locked { resources, open, .. } = &mut *locked;
        let oldest = resources.pool().oldest(|_| true).and_then(|slot| resources.pool().remove(slot));
        oldest.inspect(|(transport, _)| drop(open.try_remove(transport.key))).is_some()
    }

    /// Waits for a limited time until no job is left. Returns whether none is left.
    fn wait_for_the_last(&self) -> bool {
        let locked = self.lock();
        let busy = |locked: &mut Locked| locked.unfinished > 0;
        let waited = self.changed.wait_timeout_while(locked, IDLE_CHECK_INTERVAL, busy);
        waited.unwrap_or_else(PoisonError::into_inner).0.unfinished == 0
    }

    /// Makes every blocking call return: threads that wait for a job see that the worker has stopped, and all others
    /// see that their socket is shut down.
    fn drop_everything(&self) {
        let mut locked = self.lock();
        locked.stopped = true;
        locked.jobs.clear();
        locked.resources.pool().clear();
        for (_, stream) in &locked.open {
            // This fails if the socket is already closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(locked);
        self.changed.notify_all();
    }
}
