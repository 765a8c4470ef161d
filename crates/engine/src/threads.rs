//! The `threads` engine: one thread per fetch in flight, on blocking sockets.
//!
//! This is the simplest engine: a call that must wait blocks. The state of a fetch is the stack of its thread, so a
//! backtrace shows all steps that led to an error. Every waiting fetch takes a stack and an entry in the kernel's
//! scheduler, and the system limits the number of threads. State that the threads share is behind a lock.
//!
//! What differs from the other engines:
//! - No thread reads from an idle connection, so `run` checks all of them at regular intervals.
//! - A panic ends only one of the threads, so it is reported to the worker (`has_lost_job`).
//! - Wake-ups are not coalesced, because each thread waits for one socket.
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

use argiope_core::base::job::Job;
use argiope_core::crawl::fetcher::StopMode;
use argiope_core::crawl::session::{Completed, Session, slot_key};
use argiope_core::crawl::visit::Visit;
use argiope_core::http::conn::Step;
use argiope_core::{Failure, Time};
use slab::Slab;

use crate::connecting::{ConnectStep, Connecting};
use crate::resources::{IDLE_CHECK_INTERVAL, Resources};
use crate::socket;
use crate::worker::{Worker, lost_job_error};

/// Stack size of a thread, in bytes: enough for a TLS handshake and the examination of a page. The memory is only
/// reserved; pages of the stack that are never touched cost nothing.
const STACK_SIZE: usize = 256 << 10;

/// Size of a read buffer, in bytes. Every thread has its own, because a blocking read uses it while it waits.
const BUFFER_SIZE: usize = 16 << 10;

/// A thread ends after this time without a job.
const MAX_THREAD_IDLE: Duration = Duration::from_secs(10);

/// Runs a worker until it is told to stop.
pub fn run(worker: Worker) -> io::Result<()> {
    let state = SharedState::new(worker);
    state.worker.report_ready();
    thread::scope(|scope| {
        let mut jobs = Vec::new();
        loop {
            let stop = state.worker.job_queue.wait(&mut jobs, Some(IDLE_CHECK_INTERVAL));
            state.close_dead_connections();
            if stop == Some(StopMode::Now) || state.lock().has_lost_job {
                return state.interrupt_all();
            }
            for job in jobs.drain(..) {
                start(&state, scope, Box::new(job));
            }
            if stop == Some(StopMode::Drain) && state.wait_until_finished() {
                return state.interrupt_all();
            }
        }
    });
    if state.lock().has_lost_job { Err(lost_job_error()) } else { Ok(()) }
}

/// The state that the threads share.
struct SharedState {
    worker: Worker,
    locked: Mutex<Locked>,
    /// Signals that a job arrived, that the last job ended, or that the worker stops.
    changed: Condvar,
}

/// The part of the shared state that is behind the lock.
struct Locked {
    /// Jobs that no thread has taken yet.
    jobs: VecDeque<Box<Job>>,
    /// Jobs without a visit yet.
    unfinished: usize,
    /// The number of threads.
    threads: usize,
    /// How many of them wait for a job.
    idle_threads: usize,
    resources: Resources<(Transport, Session)>,
    /// All open sockets. At the end they are shut down, which is the only way to interrupt a thread that blocks on one.
    open_sockets: Slab<Arc<TcpStream>>,
    is_stopped: bool,
    /// A job is lost, usually because its thread panicked. The worker ends, because the crawl would wait for that job
    /// forever.
    has_lost_job: bool,
}

/// The socket of a session.
struct Transport {
    stream: Arc<TcpStream>,
    /// The key of the socket in the table of open sockets.
    key: usize,
}

// anchor: threads-start
/// Starts a job: on an idle thread, or on a new thread.
fn start<'scope>(state: &'scope SharedState, scope: &'scope Scope<'scope, '_>, job: Box<Job>) {
    let mut locked = state.lock();
    locked.jobs.push_back(job);
    locked.unfinished += 1;
    if locked.jobs.len() <= locked.idle_threads {
        drop(locked);
        // `notify_one` is enough, because only idle threads wait for this signal while jobs arrive, and any of them can
        // take the job.
        return state.changed.notify_one();
    }
    locked.threads += 1;
    drop(locked);
    let spawned = thread::Builder::new().stack_size(STACK_SIZE).spawn_scoped(scope, || serve(state));
    if let Err(error) = spawned {
        let mut locked = state.lock();
        locked.threads -= 1;
        let count = locked.threads;
        drop(locked);
        state.worker.notices.add("threads", || {
            format!("the system allows no more than {count} threads ({error}): the crawl continues with these")
        });
        if count == 0 {
            // No thread can be started, so this thread does the work.
            serve_once(state, &mut vec![0; BUFFER_SIZE]);
        }
    }
}
// end: threads-start

/// The body of a thread: serves one job after the other.
fn serve(state: &SharedState) {
    let mut buffer = vec![0; BUFFER_SIZE];
    // Panics while a response is read are caught in the core. This catches all others.
    let result = catch_unwind(AssertUnwindSafe(|| while serve_once(state, &mut buffer) {}));
    if result.is_err() {
        state.lock().has_lost_job = true;
    }
}

/// Waits for a job and serves it. Returns whether the thread continues.
fn serve_once(state: &SharedState, buffer: &mut [u8]) -> bool {
    let Some(mut job) = state.next_job() else { return false };
    loop {
        let (transport, mut session) = match state.take_idle(job) {
            Ok(idle) => idle,
            Err(job) => match connect(state, job) {
                Ok(connected) => connected,
                Err(visit) => return state.report(visit),
            },
        };
        let completed = drive(state, &transport.stream, &mut session, buffer);
        state.keep_or_close(transport, session);
        match completed {
            Some(Completed::Visit(visit)) => return state.report(visit),
            // The fetch failed because `interrupt_all` shut its socket down: do not retry it.
            Some(Completed::Retry(_)) if state.lock().is_stopped => return false,
            Some(Completed::Retry(same_job)) => job = same_job,
            // A session returns every job before it closes. If it did not, the job would be lost, so stop the worker.
            None => {
                state.lock().has_lost_job = true;
                return false;
            }
        }
    }
}

/// Runs the race between the host's addresses. Only here must a thread wait for several sockets at once, which a
/// blocking call cannot do. So the sockets are non-blocking here, and `poll` waits for all of them.
fn connect(state: &SharedState, job: Box<Job>) -> Result<(Transport, Session), Box<Visit>> {
    let worker = &state.worker;
    let mut connecting = Connecting::new(worker, job, state.now());
    let failure = loop {
        match connecting.step(worker, socket::begin_connect, socket::connected, || state.evict()) {
            ConnectStep::Connected(peer, stream) => match stream.set_nonblocking(false) {
                Ok(()) => {
                    // No other jobs wait for this connection, because a session has one job here.
                    return connecting
                        .into_session(worker, peer, &mut Vec::new())
                        .map(|session| (state.add_socket(stream), session));
                }
                Err(error) => break socket::connect_failure(peer, &error),
            },
            ConnectStep::Failed(failure) => break failure,
            ConnectStep::Wait(until) => {
                let span = until.since(state.now()).min(IDLE_CHECK_INTERVAL);
                if let Err(error) = socket::wait_writable(connecting.sockets(), span) {
                    break socket::io_failure(&error);
                }
                if state.lock().is_stopped {
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
fn drive(state: &SharedState, mut stream: &TcpStream, session: &mut Session, buffer: &mut [u8]) -> Option<Completed> {
    loop {
        let completed = session.finished(state.now());
        if completed.is_some() {
            return completed;
        }
        // A timeout of zero would mean no timeout.
        let timeout = session.deadline().since(state.now()).max(Duration::from_millis(1));
        let result = match session.step() {
            Step::Write(bytes) => {
                let written = stream.set_write_timeout(Some(timeout)).and_then(|()| stream.write(bytes));
                written.map(|count| session.wrote(count, state.now()))
            }
            Step::Read => {
                let read = stream.set_read_timeout(Some(timeout)).and_then(|()| stream.read(buffer));
                read.map(|count| match buffer.get(..count) {
                    None | Some([]) => session.closed(state.now()),
                    Some(bytes) => {
                        let now = state.now();
                        session.feed(bytes, now);
                        // The read timeout starts again with every read, so check the deadline here.
                        session.expire(now);
                    }
                })
            }
            Step::Pause => {
                thread::sleep(session.pause_duration().min(timeout));
                session.expire(state.now());
                session.resume(state.now());
                Ok(())
            }
            Step::Done => return None,
        };
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A blocking socket reports its timeout with these errors.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                session.expire(state.now());
            }
            Err(error) => session.broke(socket::io_failure(&error)),
        }
    }
}
// end: threads-drive

impl SharedState {
    fn new(worker: Worker) -> Self {
        let locked = Locked {
            jobs: VecDeque::new(),
            unfinished: 0,
            threads: 0,
            idle_threads: 0,
            resources: Resources::new(&worker),
            open_sockets: Slab::new(),
            is_stopped: false,
            has_lost_job: false,
        };
        Self { worker, locked: Mutex::new(locked), changed: Condvar::new() }
    }

    fn now(&self) -> Time {
        self.worker.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, Locked> {
        // After a panic under the lock the worker ends (`has_lost_job`), so the poisoning is ignored.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job; `None` if the thread must end. If it ends because it was idle, the count `threads` is
    /// lowered here.
    fn next_job(&self) -> Option<Box<Job>> {
        let mut locked = self.lock();
        loop {
            if locked.is_stopped {
                return None;
            }
            if let Some(job) = locked.jobs.pop_front() {
                return Some(job);
            }
            locked.idle_threads += 1;
            let waited = self.changed.wait_timeout(locked, MAX_THREAD_IDLE);
            let (relocked, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            locked = relocked;
            locked.idle_threads -= 1;
            if timeout.timed_out() && locked.jobs.is_empty() {
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
        let (is_stopped, is_last) = (locked.is_stopped, locked.unfinished == 0);
        drop(locked);
        if !is_stopped {
            visit_sender.push(visit);
            visit_sender.send();
        }
        if is_last {
            self.changed.notify_all();
        }
        !is_stopped
    }

    /// Adds a socket to the table of open ones, so that `interrupt_all` can shut it down.
    fn add_socket(&self, stream: TcpStream) -> Transport {
        let stream = Arc::new(stream);
        let mut locked = self.lock();
        if locked.is_stopped {
            // All other sockets have been shut down already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let key = locked.open_sockets.insert(Arc::clone(&stream));
        Transport { stream, key }
    }

    /// Puts an idle connection into the pool for the next job of its slot, or closes it.
    fn keep_or_close(&self, transport: Transport, session: Session) {
        let now = self.now();
        let mut locked = self.lock();
        let Locked { resources, open_sockets, .. } = &mut *locked;
        let kept = match session.slot().filter(|_| session.is_idle()) {
            Some(slot) => resources.keep(slot, (transport, session), now, |_| true),
            None => Err((transport, session)),
        };
        if let Some((closed, _)) = kept.unwrap_or_else(Some) {
            open_sockets.try_remove(closed.key);
        }
    }

    /// Passes a job to the idle connection in its slot. Returns the job if there is none, if it is for another origin,
    /// or if the server has closed it.
    fn take_idle(&self, job: Box<Job>) -> Result<(Transport, Session), Box<Job>> {
        let mut locked = self.lock();
        let Some((transport, mut session)) = locked.resources.pool().remove(slot_key(&job)) else { return Err(job) };
        // On an idle HTTP/2 connection, unread bytes are normal: the server may send frames such as PING.
        let is_usable = session.is_http2() || socket::is_reusable(&transport.stream);
        let accepted = if is_usable { session.accept(job, &self.worker.rules, self.now()) } else { Err(job) };
        match accepted {
            Ok(()) => Ok((transport, session)),
            Err(job) => {
                locked.open_sockets.try_remove(transport.key);
                Err(job)
            }
        }
    }

    /// Removes idle connections that the server has closed or whose keep-alive time has passed. No thread reads from an
    /// idle connection, so all of them are checked at regular intervals.
    fn close_dead_connections(&self) {
        let now = self.now();
        let mut locked = self.lock();
        let Locked { resources, open_sockets, .. } = &mut *locked;
        resources.pool().retain(|(transport, session)| {
            let is_usable = session.is_http2() || socket::is_reusable(&transport.stream);
            let is_alive = is_usable && now < session.deadline();
            if !is_alive {
                open_sockets.try_remove(transport.key);
            }
            is_alive
        });
    }

    /// Closes the least recently used idle connection. Returns whether there was one.
    fn evict(&self) -> bool {
        let mut locked = self.lock();
        let Locked { resources, open_sockets, .. } = &mut *locked;
        let evicted = resources.evict(|_| true);
        evicted.map(|(transport, _)| open_sockets.try_remove(transport.key)).is_some()
    }

    /// Waits for a limited time until no job is left. Returns whether none is left.
    fn wait_until_finished(&self) -> bool {
        let locked = self.lock();
        let has_unfinished = |locked: &mut Locked| locked.unfinished > 0;
        let waited = self.changed.wait_timeout_while(locked, IDLE_CHECK_INTERVAL, has_unfinished);
        waited.unwrap_or_else(PoisonError::into_inner).0.unfinished == 0
    }

    /// Discards waiting jobs and idle connections, and makes every blocking call return. Threads that wait for a job
    /// see that the worker has stopped. The sockets of all others are shut down.
    fn interrupt_all(&self) {
        let mut locked = self.lock();
        locked.is_stopped = true;
        locked.jobs.clear();
        locked.resources.pool().clear();
        for (_, stream) in &locked.open_sockets {
            // This fails if the socket is already closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(locked);
        self.changed.notify_all();
    }
}
