//! The `threads` engine: one thread per fetch in flight, on blocking sockets.
//!
//! The easiest code of the four: where it waits, it just waits. A call returns when it is done, the state of a fetch is
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

use crate::lounge::Lounge;
use crate::mail::Ending;
use crate::socket::{self, Attempts};
use crate::worker::{Door, GLANCE, KEEP_ALIVE, SHORTAGE, Seat, Worker, pause, seat};

/// A stack must hold a TLS handshake and a page being searched. It is reserved, not used: what is never touched costs
/// no memory.
const STACK: usize = 256 << 10;

/// Every thread has a buffer of its own, since it must have one in hand before it waits.
const BUFFER: usize = 16 << 10;

/// A thread without a job leaves after this long.
const IDLE: Duration = Duration::from_secs(10);

/// Runs a worker until it is told to end.
pub fn run(worker: Worker) -> io::Result<()> {
    let shop = Shop::new(worker);
    shop.worker.is_ready();
    thread::scope(|scope| {
        let mut jobs = Vec::new();
        loop {
            let ending = shop.worker.orders.wait(&mut jobs, Some(GLANCE));
            shop.close_old_ones();
            if ending == Some(Ending::AtOnce) || shop.lock().lost {
                return shop.drop_everything();
            }
            for job in jobs.drain(..) {
                start(&shop, scope, Box::new(job));
            }
            if ending == Some(Ending::WhenDone) && shop.wait_for_the_last() {
                return shop.drop_everything();
            }
        }
    });
    if shop.lock().lost { Err(io::Error::other("a fault in Argiope: a job was lost")) } else { Ok(()) }
}

/// What the threads share.
struct Shop {
    worker: Worker,
    state: Mutex<State>,
    /// Something changed: a job came, the last one ended, or all is over.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Box<Job>>,
    /// Jobs that have no visit yet.
    unfinished: usize,
    threads: usize,
    /// Of these, how many wait for a job.
    idle: usize,
    resting: Lounge<Resting>,
    /// The sockets in use, so that they can be shut when all is over: a thread that blocks cannot be told otherwise.
    open: Slab<Arc<TcpStream>>,
    over: bool,
    /// A thread panicked, and its job is lost: better an end than a crawl that waits for it for ever.
    lost: bool,
}

/// A connection between two requests.
struct Resting {
    line: Line,
    door: Door,
    conn: Box<Conn>,
    until: Time,
}

/// A connection, with the socket that it lacks by itself.
struct Line {
    stream: Arc<TcpStream>,
    key: usize,
    ip: IpAddr,
}

// anchor: threads-start
/// A job begins: with a thread that has nothing to do, or with a new one.
fn start<'scope>(shop: &'scope Shop, scope: &'scope Scope<'scope, '_>, job: Box<Job>) {
    let mut state = shop.lock();
    state.jobs.push_back(job);
    state.unfinished += 1;
    if state.jobs.len() <= state.idle {
        drop(state);
        // Only threads without a job wait while jobs still come, and one of them is enough.
        return shop.changed.notify_one();
    }
    state.threads += 1;
    drop(state);
    let spawned = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || serve(shop));
    if let Err(error) = spawned {
        let mut state = shop.lock();
        state.threads -= 1;
        let count = state.threads;
        drop(state);
        shop.worker.notices.say("threads", || {
            format!("the system grants no more than {count} threads ({error}): the crawl goes on with those it has")
        });
        if count == 0 {
            // Not a single one: this thread is all there is.
            serve_once(shop, &mut vec![0; BUFFER]);
        }
    }
}
// end: threads-start

/// The life of a thread: one job after the other.
fn serve(shop: &Shop) {
    let mut buffer = vec![0; BUFFER];
    // What can go wrong with an answer is caught where it is read. This is for what nobody thought of.
    let lived = catch_unwind(AssertUnwindSafe(|| while serve_once(shop, &mut buffer) {}));
    if lived.is_err() {
        shop.lock().lost = true;
    }
}

/// Waits for a job and does it. Says whether to go on.
fn serve_once(shop: &Shop, buffer: &mut [u8]) -> bool {
    let Some(mut job) = shop.next_job() else { return false };
    loop {
        let mut started = shop.now();
        let (line, mut fetch) = match shop.take_resting(&job) {
            Some(Resting { line, conn, .. }) => {
                let fetch = shop.worker.begin_again(job, *conn, started);
                (line, fetch)
            }
            None => match connect(shop, &job, &mut started) {
                Ok(line) => match shop.worker.begin(job, started, line.ip, shop.now()) {
                    Ok(fetch) => (line, fetch),
                    Err(visit) => {
                        shop.close(line);
                        return shop.report(visit);
                    }
                },
                Err(failure) => return shop.report(shop.worker.lost(job, failure, started)),
            },
        };
        drive(shop, &line.stream, &mut fetch, buffer);
        match finish(shop, line, fetch) {
            // Where all is over, the connection was shut under the fetch: that is no reason to try again.
            Some(_) if shop.lock().over => return false,
            Some(same) => job = same,
            None => return true,
        }
    }
}

/// Runs the race between the host's addresses. This is the one place where a thread must wait for several things at
/// once, and a blocking call waits for one: so the sockets do not block yet, and `poll` waits for all of them.
fn connect(shop: &Shop, job: &Job, started: &mut Time) -> Result<Line, Failure> {
    let mut race = shop.worker.race(job, *started);
    let mut attempts = Attempts::default();
    loop {
        let now = shop.now();
        if let Some((peer, stream)) = attempts.winner(&mut race, now, socket::connected) {
            match stream.set_nonblocking(false) {
                Ok(()) => return Ok(shop.open(stream, peer.ip())),
                Err(error) => race.failed(peer, socket::connect_failure(peer, &error), now),
            }
        }
        match race.next(now) {
            RaceStep::Connect(address) => match socket::begin_connect(address) {
                Ok(stream) => attempts.push(address, stream),
                Err(error) if socket::is_shortage(&error) && attempts.is_empty() => {
                    // Not the host's fault: the race begins anew when a file may be free.
                    *started = if shop.close_a_resting_one() { now } else { now + SHORTAGE };
                    race = shop.worker.race(job, *started);
                    shop.worker.out_of_files(now);
                }
                Err(error) => race.failed(address, socket::connect_failure(address, &error), now),
            },
            RaceStep::Wait(until) => {
                let span = until.since(now).min(GLANCE);
                if let Err(error) = socket::wait_writable(attempts.sockets(), span) {
                    return Err(socket::broken(&error));
                }
                if shop.lock().over {
                    return Err(Failure::new(argiope_core::ErrorKind::Internal, "the crawl was ended"));
                }
            }
            RaceStep::Lost(failure) => return Err(failure),
        }
    }
}

// anchor: threads-drive
/// Does what the fetch wants until it is done. The deadline goes along as the socket's own time-out.
fn drive(shop: &Shop, mut stream: &TcpStream, fetch: &mut Fetch, buffer: &mut [u8]) {
    loop {
        let left = fetch.deadline().since(shop.now()).max(Duration::from_millis(1));
        let done = match fetch.step() {
            Step::Write(bytes) => {
                let wrote = stream.set_write_timeout(Some(left)).and_then(|()| stream.write(bytes));
                wrote.map(|count| fetch.wrote(count, shop.now()))
            }
            Step::Read => {
                let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(buffer));
                read.map(|count| match buffer.get(..count) {
                    None | Some([]) => fetch.closed(shop.now()),
                    Some(bytes) => {
                        let now = shop.now();
                        fetch.feed(bytes, now);
                        // One that drips faster than a socket's time-out can be never lets it come.
                        fetch.expire(now);
                    }
                })
            }
            Step::Pause => {
                thread::sleep(pause(fetch).min(left));
                fetch.expire(shop.now());
                fetch.resume(shop.now());
                Ok(())
            }
            Step::Done => return,
        };
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // This is how a blocking socket says that time is up.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                fetch.expire(shop.now());
            }
            Err(error) => fetch.broke(socket::broken(&error)),
        }
    }
}
// end: threads-drive

/// The fetch is over: its visit goes to the keeper, its connection stays for the next one, or is closed. Gives the job
/// back where it must be tried once more, on a new connection.
fn finish(shop: &Shop, line: Line, fetch: Fetch) -> Option<Box<Job>> {
    let (seat, door) = (seat(fetch.job()), Door::of(fetch.job()));
    match fetch.finish(shop.now()) {
        Finished::Visit(visit, conn) => {
            match conn {
                Some(conn) => {
                    let until = shop.now() + KEEP_ALIVE;
                    shop.rest(seat, Resting { line, door, conn, until });
                }
                None => shop.close(line),
            }
            shop.report(visit);
            None
        }
        Finished::Again(job) => {
            shop.close(line);
            Some(job)
        }
    }
}

impl Shop {
    fn new(worker: Worker) -> Self {
        Self { worker, state: Mutex::default(), changed: Condvar::new() }
    }

    fn now(&self) -> Time {
        self.worker.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; none where the thread leaves. It is not counted from that very moment on: a job that comes when
    /// no further thread can be had must not be left to one that is on its way out.
    fn next_job(&self) -> Option<Box<Job>> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let (back, waited) = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = back;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads = state.threads.saturating_sub(1);
                return None;
            }
        }
    }

    /// Says whether to go on.
    fn report(&self, visit: Box<Visit>) -> bool {
        let mut reports = self.worker.reports.clone();
        let mut state = self.lock();
        state.unfinished -= 1;
        let (over, last) = (state.over, state.unfinished == 0);
        drop(state);
        if !over {
            reports.push(visit);
            reports.send();
        }
        if last {
            self.changed.notify_all();
        }
        !over
    }

    fn open(&self, stream: TcpStream, ip: IpAddr) -> Line {
        let stream = Arc::new(stream);
        let mut state = self.lock();
        if state.over {
            // All others have been shut already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let key = state.open.insert(Arc::clone(&stream));
        Line { stream, key, ip }
    }

    fn close(&self, line: Line) {
        self.lock().open.try_remove(line.key);
    }

    fn rest(&self, seat: Seat, resting: Resting) {
        if !self.worker.may_rest(self.now()) {
            return self.close(resting.line);
        }
        let mut state = self.lock();
        let is_full = self.worker.is_full(state.resting.len());
        let longest = if is_full { state.resting.longest(|_| true) } else { None };
        let longest = longest.and_then(|seat| state.resting.remove(seat));
        let replaced = state.resting.insert(seat, resting);
        for gone in longest.into_iter().chain(replaced) {
            state.open.try_remove(gone.line.key);
        }
    }

    /// The connection that rests in the job's seat, where it leads to the same door and the host has not closed it.
    fn take_resting(&self, job: &Job) -> Option<Resting> {
        let mut state = self.lock();
        let resting = state.resting.remove(seat(job))?;
        if resting.door == Door::of(job) && socket::is_quiet(&resting.line.stream) {
            return Some(resting);
        }
        state.open.try_remove(resting.line.key);
        None
    }

    /// Nobody hears of a connection that is closed while it rests: so all of them are looked at now and then.
    fn close_old_ones(&self) {
        let now = self.now();
        let mut state = self.lock();
        let State { resting, open, .. } = &mut *state;
        resting.retain(|rest| {
            let keep = now < rest.until && socket::is_quiet(&rest.line.stream);
            if !keep {
                open.try_remove(rest.line.key);
            }
            keep
        });
    }

    fn close_a_resting_one(&self) -> bool {
        let mut state = self.lock();
        let longest = state.resting.longest(|_| true).and_then(|seat| state.resting.remove(seat));
        if let Some(resting) = &longest {
            state.open.try_remove(resting.line.key);
        }
        longest.is_some()
    }

    /// Waits until no job is left. Says whether that is so; after a while it may not be.
    fn wait_for_the_last(&self) -> bool {
        let state = self.lock();
        let busy = |state: &mut State| state.unfinished > 0;
        let (state, _) = self.changed.wait_timeout_while(state, GLANCE, busy).unwrap_or_else(PoisonError::into_inner);
        state.unfinished == 0
    }

    /// Everything that blocks comes back: those who wait for a job find that all is over, the others that their
    /// socket is.
    fn drop_everything(&self) {
        let mut state = self.lock();
        state.over = true;
        state.jobs.clear();
        state.resting.clear();
        for (_, stream) in &state.open {
            // One that is closed already needs no shutting.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.changed.notify_all();
    }
}
