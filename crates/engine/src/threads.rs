//! The `threads` engine: one thread per fetch in flight, on blocking sockets.
//!
//! The easiest code of the four: where it waits, it just waits. A call returns when it is done, the locked of a fetch is
//! the stack of its thread, and an error has its whole history above it. The price: a stack and a place in the kernel's
//! scheduler for every fetch that does nothing but wait, and a limit on how many there can be. What the threads share
//! stands behind a lock.
//!
//! Invariant: a thread has one job at a time; the number of threads follows the number of jobs and is bounded only by
//! what the system grants.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use argiope_core::http::conn::{Conn, Step};
use argiope_core::http::fetch::{Fetch, Finished};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;
use argiope_core::{Failure, RaceStep, Time};
use slab::Slab;

use crate::channel::StopMode;
use crate::idle_pool::IdlePool;
use crate::socket::{self, Attempts};
use crate::worker::{ConnKey, IDLE_CHECK_INTERVAL, KEEP_ALIVE, SHORTAGE_RETRY, SlotKey, Worker, pause, slot_key};

/// A stack must hold a TLS handshake and a page being searched. It is reserved, not used: what is never touched costs
/// no memory.
const STACK: usize = 256 << 10;

/// Every thread has a buffer of its own, since it must have one in hand before it waits.
const READ_BUFFER_SIZE: usize = 16 << 10;

/// A thread without a job leaves after this long.
const THREAD_IDLE: Duration = Duration::from_secs(10);

/// Runs a worker until it is told to end.
pub fn run(worker: Worker) -> io::Result<()> {
    let state = WorkerState::new(worker);
    state.worker.is_ready();
    thread::scope(|scope| {
        let mut jobs = Vec::new();
        loop {
            let ending = state.worker.job_queue.wait(&mut jobs, Some(IDLE_CHECK_INTERVAL));
            state.close_old_ones();
            if ending == Some(StopMode::Now) || state.lock().lost {
                return state.drop_everything();
            }
            for job in jobs.drain(..) {
                start(&state, scope, Box::new(job));
            }
            if ending == Some(StopMode::Drain) && state.wait_for_the_last() {
                return state.drop_everything();
            }
        }
    });
    if state.lock().lost { Err(io::Error::other("a fault in Argiope: a job was lost")) } else { Ok(()) }
}

/// What the threads share.
struct WorkerState {
    worker: Worker,
    locked: Mutex<Locked>,
    /// Something changed: a job came, the last one ended, or all is over.
    changed: Condvar,
}

#[derive(Default)]
struct Locked {
    jobs: VecDeque<Box<Job>>,
    /// Jobs that have no visit yet.
    unfinished: usize,
    threads: usize,
    /// Of these, how many wait for a job.
    idle_threads: usize,
    idle: IdlePool<IdleConn>,
    /// The sockets in use, so that they can be shut when all is over: a thread that blocks cannot be told otherwise.
    open: Slab<Arc<TcpStream>>,
    over: bool,
    /// A thread panicked, and its job is lost: better an end than a crawl that waits for it for ever.
    lost: bool,
}

/// A connection between two requests.
struct IdleConn {
    transport: Transport,
    conn_key: ConnKey,
    conn: Box<Conn>,
    until: Time,
}

/// A connection, with the socket that it lacks by itself.
struct Transport {
    stream: Arc<TcpStream>,
    key: usize,
    ip: IpAddr,
}

// anchor: threads-start
/// A job begins: with a thread that has nothing to do, or with a new one.
fn start<'scope>(state: &'scope WorkerState, scope: &'scope Scope<'scope, '_>, job: Box<Job>) {
    let mut locked = state.lock();
    locked.jobs.push_back(job);
    locked.unfinished += 1;
    if locked.jobs.len() <= locked.idle_threads {
        drop(locked);
        // Only threads without a job wait while jobs still come, and one of them is enough.
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
            format!("the system grants no more than {count} threads ({error}): the crawl goes on with those it has")
        });
        if count == 0 {
            // Not a single one: this thread is all there is.
            serve_once(state, &mut vec![0; READ_BUFFER_SIZE]);
        }
    }
}
// end: threads-start

/// The life of a thread: one job after the other.
fn serve(state: &WorkerState) {
    let mut buffer = vec![0; READ_BUFFER_SIZE];
    // What can go wrong with an answer is caught where it is read. This is for what nobody thought of.
    let lived = catch_unwind(AssertUnwindSafe(|| while serve_once(state, &mut buffer) {}));
    if lived.is_err() {
        state.lock().lost = true;
    }
}

/// Waits for a job and does it. Says whether to go on.
fn serve_once(state: &WorkerState, buffer: &mut [u8]) -> bool {
    let Some(mut job) = state.next_job() else { return false };
    loop {
        let mut started = state.now();
        let (transport, mut fetch) = match state.take_idle(&job) {
            Some(IdleConn { transport, conn, .. }) => {
                let fetch = state.worker.begin_again(job, *conn, started);
                (transport, fetch)
            }
            None => match connect(state, &job, &mut started) {
                Ok(transport) => match state.worker.begin(job, started, transport.ip, state.now()) {
                    Ok(fetch) => (transport, fetch),
                    Err(visit) => {
                        state.close(transport);
                        return state.report(visit);
                    }
                },
                Err(failure) => return state.report(state.worker.lost(job, failure, started)),
            },
        };
        drive(state, &transport.stream, &mut fetch, buffer);
        match finish(state, transport, fetch) {
            // Where all is over, the connection was shut under the fetch: that is no reason to try again.
            Some(_) if state.lock().over => return false,
            Some(same) => job = same,
            None => return true,
        }
    }
}

/// Runs the race between the host's addresses. This is the one place where a thread must wait for several things at
/// once, and a blocking call waits for one: so the sockets do not block yet, and `poll` waits for all of them.
fn connect(state: &WorkerState, job: &Job, started: &mut Time) -> Result<Transport, Failure> {
    let mut race = state.worker.race(job, *started);
    let mut attempts = Attempts::default();
    loop {
        let now = state.now();
        if let Some((peer, stream)) = attempts.winner(&mut race, now, socket::connected) {
            match stream.set_nonblocking(false) {
                Ok(()) => return Ok(state.open(stream, peer.ip())),
                Err(error) => race.failed(peer, socket::connect_failure(peer, &error), now),
            }
        }
        match race.next(now) {
            RaceStep::Connect(address) => match socket::begin_connect(address) {
                Ok(stream) => attempts.push(address, stream),
                Err(error) if socket::is_shortage(&error) && attempts.is_empty() => {
                    // Not the host's fault: the race begins anew when a file may be free.
                    *started = if state.evict_idle() { now } else { now + SHORTAGE_RETRY };
                    race = state.worker.race(job, *started);
                    state.worker.out_of_files(now);
                }
                Err(error) => race.failed(address, socket::connect_failure(address, &error), now),
            },
            RaceStep::Wait(until) => {
                let span = until.since(now).min(IDLE_CHECK_INTERVAL);
                if let Err(error) = socket::wait_writable(attempts.sockets(), span) {
                    return Err(socket::broken(&error));
                }
                if state.lock().over {
                    return Err(Failure::new(argiope_core::ErrorKind::Internal, "the crawl was ended"));
                }
            }
            RaceStep::Lost(failure) => return Err(failure),
        }
    }
}

// anchor: threads-drive
/// Does what the fetch wants until it is done. The deadline goes along as the socket's own time-out.
fn drive(state: &WorkerState, mut stream: &TcpStream, fetch: &mut Fetch, buffer: &mut [u8]) {
    loop {
        let left = fetch.deadline().since(state.now()).max(Duration::from_millis(1));
        let done = match fetch.step() {
            Step::Write(bytes) => {
                let wrote = stream.set_write_timeout(Some(left)).and_then(|()| stream.write(bytes));
                wrote.map(|count| fetch.wrote(count, state.now()))
            }
            Step::Read => {
                let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(buffer));
                read.map(|count| match buffer.get(..count) {
                    None | Some([]) => fetch.closed(state.now()),
                    Some(bytes) => {
                        let now = state.now();
                        fetch.feed(bytes, now);
                        // One that drips faster than a socket's time-out can be never lets it come.
                        fetch.expire(now);
                    }
                })
            }
            Step::Pause => {
                thread::sleep(pause(fetch).min(left));
                fetch.expire(state.now());
                fetch.resume(state.now());
                Ok(())
            }
            Step::Done => return,
        };
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // This is how a blocking socket says that time is up.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                fetch.expire(state.now());
            }
            Err(error) => fetch.broke(socket::broken(&error)),
        }
    }
}
// end: threads-drive

/// The fetch is over: its visit goes to the keeper, its connection stays for the next one, or is closed. Gives the job
/// back where it must be tried once more, on a new connection.
fn finish(state: &WorkerState, transport: Transport, fetch: Fetch) -> Option<Box<Job>> {
    let (slot_key, conn_key) = (slot_key(fetch.job()), ConnKey::of(fetch.job()));
    match fetch.finish(state.now()) {
        Finished::Visit(visit, conn) => {
            match conn {
                Some(conn) => {
                    let until = state.now() + KEEP_ALIVE;
                    state.rest(slot_key, IdleConn { transport, conn_key, conn, until });
                }
                None => state.close(transport),
            }
            state.report(visit);
            None
        }
        Finished::Again(job) => {
            state.close(transport);
            Some(job)
        }
    }
}

impl WorkerState {
    fn new(worker: Worker) -> Self {
        Self { worker, locked: Mutex::default(), changed: Condvar::new() }
    }

    fn now(&self) -> Time {
        self.worker.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, Locked> {
        // Nothing that can panic runs under this lock.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; none where the thread leaves. It is not counted from that very moment on: a job that comes when
    /// no further thread can be had must not be left to one that is on its way out.
    fn next_job(&self) -> Option<Box<Job>> {
        let mut locked = self.lock();
        loop {
            if locked.over {
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

    /// Says whether to go on.
    fn report(&self, visit: Box<Visit>) -> bool {
        let mut visit_sender = self.worker.visit_sender.clone();
        let mut locked = self.lock();
        locked.unfinished -= 1;
        let (over, last) = (locked.over, locked.unfinished == 0);
        drop(locked);
        if !over {
            visit_sender.push(visit);
            visit_sender.send();
        }
        if last {
            self.changed.notify_all();
        }
        !over
    }

    fn open(&self, stream: TcpStream, ip: IpAddr) -> Transport {
        let stream = Arc::new(stream);
        let mut locked = self.lock();
        if locked.over {
            // All others have been shut already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let key = locked.open.insert(Arc::clone(&stream));
        Transport { stream, key, ip }
    }

    fn close(&self, transport: Transport) {
        self.lock().open.try_remove(transport.key);
    }

    fn rest(&self, slot_key: SlotKey, idle: IdleConn) {
        if !self.worker.may_keep_idle(self.now()) {
            return self.close(idle.transport);
        }
        let mut locked = self.lock();
        let is_full = self.worker.is_full(locked.idle.len());
        let longest = if is_full { locked.idle.longest(|_| true) } else { None };
        let longest = longest.and_then(|slot_key| locked.idle.remove(slot_key));
        let replaced = locked.idle.insert(slot_key, idle);
        for gone in longest.into_iter().chain(replaced) {
            locked.open.try_remove(gone.transport.key);
        }
    }

    /// The connection that rests in the job's slot_key, where it leads to the same conn_key and the host has not closed it.
    fn take_idle(&self, job: &Job) -> Option<IdleConn> {
        let mut locked = self.lock();
        let idle = locked.idle.remove(slot_key(job))?;
        if idle.conn_key == ConnKey::of(job) && socket::is_quiet(&idle.transport.stream) {
            return Some(idle);
        }
        locked.open.try_remove(idle.transport.key);
        None
    }

    /// Nobody hears of a connection that is closed while it rests: so all of them are looked at now and then.
    fn close_old_ones(&self) {
        let now = self.now();
        let mut locked = self.lock();
        let Locked { idle, open, .. } = &mut *locked;
        idle.retain(|rest| {
            let keep = now < rest.until && socket::is_quiet(&rest.transport.stream);
            if !keep {
                open.try_remove(rest.transport.key);
            }
            keep
        });
    }

    fn evict_idle(&self) -> bool {
        let mut locked = self.lock();
        let longest = locked.idle.longest(|_| true).and_then(|slot_key| locked.idle.remove(slot_key));
        if let Some(idle) = &longest {
            locked.open.try_remove(idle.transport.key);
        }
        longest.is_some()
    }

    /// Waits until no job is left. Says whether that is so; after a while it may not be.
    fn wait_for_the_last(&self) -> bool {
        let locked = self.lock();
        let busy = |locked: &mut Locked| locked.unfinished > 0;
        let (locked, _) =
            self.changed.wait_timeout_while(locked, IDLE_CHECK_INTERVAL, busy).unwrap_or_else(PoisonError::into_inner);
        locked.unfinished == 0
    }

    /// Everything that blocks comes back: those who wait for a job find that all is over, the others that their
    /// socket is.
    fn drop_everything(&self) {
        let mut locked = self.lock();
        locked.over = true;
        locked.jobs.clear();
        locked.idle.clear();
        for (_, stream) in &locked.open {
            // One that is closed already needs no shutting.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(locked);
        self.changed.notify_all();
    }
}
