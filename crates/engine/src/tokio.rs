//! The `tokio` engine, the default: the coroutines of the `coroutines` engine on a runtime made by others.
//!
//! One current-thread runtime per worker, so nothing moves between threads and nothing on the way of a byte is locked.
//! Two things are done differently from what most programs on tokio do, both for the sake of the many fetches that
//! wait: nobody owns a read buffer (a socket that is ready is read into the worker's own), and nobody owns a timer (all
//! deadlines of a worker stand in one [`Timers`], and one sleep serves them all). A waiting fetch then costs little
//! more than its state.
//!
//! Invariant: this is the only file that names tokio's networking. One task per connection; while the connection
//! rests, its task does.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use argiope_core::http::conn::{Conn, Step};
use argiope_core::http::fetch::{Fetch, Finished};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;
use argiope_core::{RaceStep, Time};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::{Instant, Sleep, sleep};

use crate::channel::{StopMode, VisitSender};
use crate::idle_pool::IdlePool;
use crate::socket::{self, Attempts};
use crate::timers::{Alarm, Timers};
use crate::wake_batcher::WakeBatcher;
use crate::worker::{
    ConnKey, IDLE_CHECK_INTERVAL, JOB_BUFFER_CAPACITY, KEEP_ALIVE, READ_BUFFER_SIZE, SHORTAGE_RETRY, SlotKey, Worker,
    pause, slot_key,
};

// anchor: tokio-run
/// Runs a worker until it is told to end.
pub fn run(worker: Worker) -> io::Result<()> {
    let wake_batcher = WakeBatcher::default();
    let (moment, clock) = (wake_batcher.moment(), worker.clock);
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime
        .enable_io()
        .enable_time()
        .on_thread_park(move || {
            moment.delay(clock, Time::NEVER);
        })
        .build()?;
    worker.is_ready();
    let state = Rc::new(WorkerState::new(worker, wake_batcher));
    // What is unfinished when `receive` returns is dropped with its sockets.
    LocalSet::new().block_on(&runtime, receive(Rc::clone(&state)));
    if state.lost.get() { Err(io::Error::other("a fault in Argiope: a job was lost")) } else { Ok(()) }
}
// end: tokio-run

/// What the tasks of one thread share.
struct WorkerState {
    worker: Worker,
    timers: Rc<Timers>,
    visit_sender: RefCell<VisitSender>,
    unfinished: std::cell::Cell<usize>,
    wake_batcher: RefCell<WakeBatcher>,
    /// Tasks that rest with their connection, and wait for the next job of their slot_key.
    idle: RefCell<IdlePool<IdleSlot>>,
    /// Made when the first request is out: making it takes as long as sending that.
    buffer: RefCell<Box<[u8]>>,
    /// Wakes `receive`.
    bell: Arc<Notify>,
    /// A task panicked, and its job is lost: better an end than a crawl that waits for it for ever.
    lost: std::cell::Cell<bool>,
}

/// Tells `receive` of a panic, which the runtime would keep to itself.
struct Witness<'a>(&'a WorkerState);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lost.set(true);
            self.0.bell.notify_one();
        }
    }
}

struct IdleSlot {
    waker: Waker,
    job: Option<Box<Job>>,
    /// Somebody else needs its file.
    must_leave: bool,
}

/// What a connection lacks by itself: a socket, and somebody who knows when it is late.
struct Transport {
    stream: TcpStream,
    alarm: Alarm,
}

/// The first task: takes the mail, starts the others, and wakes those that are late.
async fn receive(state: Rc<WorkerState>) {
    let bell = Arc::clone(&state.bell);
    state.worker.job_queue.set_waker(move || bell.notify_one());
    spawn_local(tidy(Rc::clone(&state)));
    let mut alarm_clock = pin!(sleep(Duration::ZERO));
    let mut jobs = Vec::new();
    loop {
        state.visit_sender.borrow_mut().send();
        let ending = state.worker.job_queue.take(&mut jobs);
        for job in jobs.drain(..) {
            start(&state, Box::new(job));
        }
        jobs.shrink_to(JOB_BUFFER_CAPACITY);
        match ending {
            Some(StopMode::Now) => return,
            _ if state.lost.get() => return,
            Some(StopMode::Drain) if state.unfinished.get() == 0 => return,
            _ => {}
        }
        let mut rung = pin!(state.bell.notified());
        poll_fn(|cx| {
            state.poll_alarms(alarm_clock.as_mut(), cx);
            rung.as_mut().poll(cx)
        })
        .await;
    }
}

/// A job begins: with the task that rests in its slot_key, or with a new one.
fn start(state: &Rc<WorkerState>, job: Box<Job>) {
    state.unfinished.set(state.unfinished.get() + 1);
    match state.idle.borrow_mut().get_mut(slot_key(&job)) {
        Some(idle_slot) if idle_slot.job.is_none() && !idle_slot.must_leave => {
            idle_slot.job = Some(job);
            idle_slot.waker.wake_by_ref();
        }
        // In a box: the runtime aligns its tasks to 128 bytes, and would round this one up to three times that.
        _ => drop(spawn_local(Box::pin(serve(Rc::clone(state), job)))),
    }
}

/// The life of a connection: connect, fetch, rest, fetch, rest, until nobody wants it.
///
/// A task is as large as all that it holds across its largest `await`: what is large stands in boxes here.
async fn serve(state: Rc<WorkerState>, mut job: Box<Job>) {
    let _witness = Witness(&state);
    'connection: loop {
        let (mut transport, mut fetch) = match Box::pin(connect(&state, job)).await {
            Ok(connected) => connected,
            Err(visit) => return state.report(visit),
        };
        loop {
            drive(&state, &mut transport, &mut fetch).await;
            let (slot_key, conn_key) = (slot_key(fetch.job()), ConnKey::of(fetch.job()));
            let conn = match finish(&state, fetch) {
                Next::Rest(conn) => conn,
                Next::Again(same) => {
                    job = same;
                    continue 'connection;
                }
                Next::Leave => return,
            };
            let Some(next) = rest(&state, slot_key, &mut transport).await else { return };
            if ConnKey::of(&next) != conn_key {
                job = next;
                continue 'connection;
            }
            fetch = state.worker.begin_again(next, *conn, state.now());
        }
    }
}

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(state: &WorkerState, job: Box<Job>) -> Result<(Transport, Fetch), Box<Visit>> {
    let mut started = state.now();
    let mut alarm = Alarm::new(&state.timers);
    let mut race = state.worker.race(&job, started);
    let mut attempts = Attempts::default();
    loop {
        let now = state.now();
        if let Some((peer, stream)) = attempts.winner(&mut race, now, connected) {
            let fetch = state.worker.begin(job, started, peer.ip(), now)?;
            return Ok((Transport { stream, alarm }, fetch));
        }
        let until = match race.next(now) {
            RaceStep::Wait(until) => until,
            RaceStep::Lost(failure) => return Err(state.worker.lost(job, failure, started)),
            // The socket is begun as in the other engines; tokio is only told to watch it.
            RaceStep::Connect(address) => {
                match socket::begin_connect(address).and_then(TcpStream::from_std) {
                    Ok(stream) => attempts.push(address, stream),
                    Err(error) if socket::is_shortage(&error) && attempts.is_empty() => {
                        // Not the host's fault: the race begins anew when a file may be free.
                        started = now + if state.evict_idle() { Duration::from_millis(1) } else { SHORTAGE_RETRY };
                        race = state.worker.race(&job, started);
                        state.worker.out_of_files(now);
                    }
                    Err(error) => race.failed(address, socket::connect_failure(address, &error), now),
                }
                continue;
            }
        };
        poll_fn(|cx| {
            // Every attempt is asked, so that every one of them can wake us.
            let ended = |stream: &&TcpStream| stream.poll_write_ready(cx).is_ready();
            match attempts.sockets().filter(ended).count() {
                0 => alarm.poll(until, state.now(), cx),
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

/// How an attempt stands. Where tokio took it for ended and it is not, `WouldBlock` tells tokio so.
fn connected(stream: &TcpStream) -> io::Result<bool> {
    let ended = stream.try_io(tokio::io::Interest::WRITABLE, || match (stream.take_error()?, stream.peer_addr()) {
        (Some(error), _) => Err(error),
        (None, Err(error)) if error.kind() == ErrorKind::NotConnected => Err(ErrorKind::WouldBlock.into()),
        (None, peer) => peer.map(|_| true),
    });
    match ended {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        ended => ended,
    }
}

// anchor: tokio-drive
/// Does what the fetch wants until it is done.
async fn drive(state: &WorkerState, transport: &mut Transport, fetch: &mut Fetch) {
    loop {
        let deadline = fetch.deadline();
        match fetch.step() {
            Step::Write(bytes) => {
                // Nothing of this is held while it waits: a task is as large as what it holds then.
                let is_full = match transport.stream.try_write(bytes) {
                    Ok(count) => {
                        fetch.wrote(count, state.now());
                        false
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => false,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => true,
                    Err(error) => {
                        fetch.broke(socket::broken(&error));
                        false
                    }
                };
                if is_full {
                    match poll_fn(|cx| {
                        state.in_time(transport.stream.poll_write_ready(cx), deadline, &mut transport.alarm, cx)
                    })
                    .await
                    {
                        None => fetch.expire(state.now()),
                        Some(Err(error)) => fetch.broke(socket::broken(&error)),
                        Some(Ok(())) => {}
                    }
                }
            }
            Step::Read => {
                match poll_fn(|cx| state.in_time(state.poll_read(transport, cx), deadline, &mut transport.alarm, cx))
                    .await
                {
                    None => {
                        // What came while the thread was busy with another page is not the host's silence. The runtime
                        // has not heard of it yet, so the kernel is asked.
                        let mut buffer = state.buffer.borrow_mut();
                        match socket::read_now(&transport.stream, &mut buffer) {
                            Ok(0) => fetch.closed(state.now()),
                            Ok(count) => fetch.feed(&buffer[..count], state.now()),
                            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                            Err(error) => fetch.broke(socket::broken(&error)),
                        }
                        fetch.expire(state.now());
                    }
                    Some(Ok(0)) => fetch.closed(state.now()),
                    // The bytes are still in the worker's buffer: nothing else ran since they came.
                    Some(Ok(count)) => {
                        fetch.feed(&state.buffer.borrow()[..count], state.now());
                        if count == READ_BUFFER_SIZE {
                            // There is more, as fast as we can read: the others have their turn first.
                            yield_now().await;
                        }
                    }
                    Some(Err(error)) => fetch.broke(socket::broken(&error)),
                }
            }
            Step::Pause => {
                yield_now().await;
                let deadline = deadline.min(state.now() + pause(fetch));
                poll_fn(|cx| transport.alarm.poll(deadline, state.now(), cx)).await;
                fetch.expire(state.now());
                fetch.resume(state.now());
            }
            Step::Done => return,
        }
    }
}
// end: tokio-drive

/// What a connection does after a fetch.
enum Next {
    Rest(Box<Conn>),
    Again(Box<Job>),
    Leave,
}

/// The fetch is over: its visit goes to the keeper.
fn finish(state: &WorkerState, fetch: Fetch) -> Next {
    match fetch.finish(state.now()) {
        Finished::Visit(visit, conn) => {
            state.report(visit);
            conn.map_or(Next::Leave, Next::Rest)
        }
        Finished::Again(job) => Next::Again(job),
    }
}

/// Waits for the slot_key's next job. None where the host closes the connection first, or time does.
async fn rest(state: &WorkerState, slot_key: SlotKey, transport: &mut Transport) -> Option<Box<Job>> {
    let now = state.now();
    if state.idle.borrow().get(slot_key).is_some() || !state.worker.may_keep_idle(now) {
        return None;
    }
    if state.worker.is_full(state.idle.borrow().len()) {
        state.evict_idle();
    }
    let until = now + KEEP_ALIVE;
    let mut is_seated = false;
    let next = poll_fn(|cx| {
        let mut idle = state.idle.borrow_mut();
        if !std::mem::replace(&mut is_seated, true) {
            idle.insert(slot_key, IdleSlot { waker: cx.waker().clone(), job: None, must_leave: false });
        }
        let Some(idle_slot) = idle.get_mut(slot_key) else { return Poll::Ready(None) };
        if let Some(job) = idle_slot.job.take() {
            return Poll::Ready(Some(job));
        }
        if idle_slot.must_leave {
            return Poll::Ready(None);
        }
        state.in_time(quiet_no_more(&transport.stream, cx), until, &mut transport.alarm, cx).map(|_| None)
    })
    .await;
    state.idle.borrow_mut().remove(slot_key);
    next
}

/// Gives up what rests while files are short: another worker may need them.
async fn tidy(state: Rc<WorkerState>) {
    loop {
        sleep(IDLE_CHECK_INTERVAL).await;
        while state.worker.file_shortage.is_active(state.now()) && state.evict_idle() {}
    }
}

/// Ready when something has come on a connection that nobody uses, be it its end.
fn quiet_no_more(stream: &TcpStream, cx: &mut Context<'_>) -> Poll<()> {
    // What tokio knows may be left over from the last read: the socket itself is asked, and tokio told.
    while stream.poll_read_ready(cx).is_ready() {
        match stream.try_io(tokio::io::Interest::READABLE, || socket::must_be_quiet(stream)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => return Poll::Ready(()),
        }
    }
    Poll::Pending
}

impl WorkerState {
    fn new(worker: Worker, wake_batcher: WakeBatcher) -> Self {
        Self {
            visit_sender: RefCell::new(worker.visit_sender.clone()),
            worker,
            timers: Rc::default(),
            unfinished: std::cell::Cell::new(0),
            wake_batcher: RefCell::new(wake_batcher),
            idle: RefCell::default(),
            buffer: RefCell::default(),
            bell: Arc::default(),
            lost: std::cell::Cell::new(false),
        }
    }

    fn now(&self) -> Time {
        self.worker.clock.now()
    }

    /// Wakes those who are late, and has this task woken when the next one will be.
    fn poll_alarms(&self, mut alarm_clock: Pin<&mut Sleep>, cx: &mut Context<'_>) {
        self.timers.watch(cx.waker());
        loop {
            self.timers.fire(self.now());
            let Some(next) = self.worker.clock.instant(self.timers.next()).map(Instant::from_std) else { return };
            if alarm_clock.deadline() != next {
                alarm_clock.as_mut().reset(next);
            }
            if alarm_clock.as_mut().poll(cx).is_pending() {
                return;
            }
        }
    }

    /// What has come, or `None` where the deadline came first.
    fn in_time<T>(&self, ready: Poll<T>, deadline: Time, alarm: &mut Alarm, cx: &Context<'_>) -> Poll<Option<T>> {
        match ready {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => alarm.poll(deadline, self.now(), cx).map(|()| None),
        }
    }

    // anchor: tokio-poll-read
    /// Reads into the worker's buffer, once there is something to read.
    fn poll_read(&self, transport: &mut Transport, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() {
            *buffer = vec![0; READ_BUFFER_SIZE].into_boxed_slice();
        }
        let mut room = ReadBuf::new(&mut buffer);
        Pin::new(&mut transport.stream).poll_read(cx, &mut room).map_ok(|()| room.filled().len())
    }
    // end: tokio-poll-read

    fn report(&self, visit: Box<Visit>) {
        self.unfinished.set(self.unfinished.get() - 1);
        self.wake_batcher.borrow_mut().note(&visit, self.unfinished.get(), self.now());
        self.visit_sender.borrow_mut().push(visit);
        // It is sent when `receive` has its turn, with those of all tasks that run before it.
        self.bell.notify_one();
    }

    /// Has a task that rests leave, and close its socket, as soon as it has its turn.
    fn evict_idle(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        let longest = idle.longest(|idle_slot| idle_slot.job.is_none() && !idle_slot.must_leave);
        let Some(idle_slot) = longest.and_then(|slot_key| idle.get_mut(slot_key)) else { return false };
        idle_slot.must_leave = true;
        idle_slot.waker.wake_by_ref();
        true
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::rules::Config;

    use super::*;
    use crate::worker::{FileShortage, Notices};
    use crate::{Clock, JobQueue};

    fn future_size<A, B, C, F: Future>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_task_that_waits_is_small() {
        let served = |state: Rc<WorkerState>, job: Box<Job>, (): ()| serve(state, job);
        assert!(future_size(served) <= 232, "{} bytes", future_size(served));
        assert!(future_size(drive) <= 112, "{} bytes", future_size(drive));
    }

    #[test]
    fn a_task_that_panics_ends_its_worker() {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        let worker = Worker {
            rules: Arc::new(config.compile(0).unwrap()),
            clock: Clock::start(),
            job_queue: JobQueue::new(),
            visit_sender: VisitSender::new(|visits: &mut Vec<Box<Visit>>| visits.clear()),
            notices: Notices::default(),
            file_shortage: FileShortage::default(),
            ready: std::sync::mpsc::channel().0,
        };
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        let state = Rc::new(WorkerState::new(worker, WakeBatcher::default()));
        LocalSet::new().block_on(&runtime, async {
            let task = Rc::clone(&state);
            drop(spawn_local(async move {
                let _witness = Witness(&task);
                panic!("a fault of ours, on purpose");
            }));
            receive(Rc::clone(&state)).await;
        });
        assert!(state.lost.get());
    }
}
