//! The `coroutines` engine: `async fn`s on an executor of our own.
//!
//! A coroutine is what the `callbacks` engine writes by hand: a record of where a fetch stopped and how it goes on. Here
//! the compiler writes it. The text reads from top to bottom again, a connection is a local variable again, and it
//! costs the same. Read [`executor`] first (what a task and a waker are), then [`reactor`] (how a socket wakes a task),
//! [`queue`] (how the end of all work is known), then this file.
//!
//! Between two `await`s nothing else runs on this thread. So what all coroutines share needs no locks: it may be
//! borrowed freely as long as no borrow lives across an `await`, and the compiler's `RefCell` would say so at once.
//!
//! Invariant: one coroutine per connection. While the connection rests, its coroutine does: that is the keep-alive
//! pool, there is no other.

pub mod executor;
pub mod queue;
pub mod reactor;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use argiope_core::http::conn::{Conn, Step};
use argiope_core::http::fetch::{Fetch, Finished};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;
use argiope_core::{Failure, RaceStep, Time};

use crate::channel::{StopMode, VisitSender};
use crate::epoll::Interest;
use crate::idle_pool::IdlePool;
use crate::socket::{self, Attempts};
use crate::timers::Alarm;
use crate::wake_batcher::WakeBatcher;
use crate::worker::{
    ConnKey, IDLE_CHECK_INTERVAL, JOB_BUFFER_CAPACITY, KEEP_ALIVE, READ_BUFFER_SIZE, SHORTAGE_RETRY, SlotKey, Worker,
    pause, slot_key,
};
use executor::{Executor, TaskEvent, TaskId, first, yield_now};
use queue::JoinQueue;
use reactor::Socket;

/// Runs a worker until it is told to end.
pub fn run(worker: Worker) -> io::Result<()> {
    run_observed(worker, None::<fn(TaskEvent)>)
}

/// The same, with somebody looking on.
pub fn run_observed(worker: Worker, observer: Option<impl Fn(TaskEvent) + 'static>) -> io::Result<()> {
    let executor = Executor::new(worker.clock)?;
    worker.is_ready();
    if let Some(observer) = observer {
        executor.watch(observer);
    }
    let state = Rc::new(WorkerState::new(worker, &executor));
    executor.spawn(tidy(Rc::clone(&state)));
    // What is unfinished when `receive` returns is dropped with its sockets.
    executor.run(receive(state))
}

/// What the coroutines of one thread share.
struct WorkerState {
    worker: Worker,
    executor: Rc<Executor>,
    visit_sender: RefCell<VisitSender>,
    /// Jobs on their way to a new coroutine, and how many jobs are unfinished.
    work: JoinQueue<Box<Job>>,
    /// Coroutines that rest with their connection, and wait for the next job of their slot_key.
    idle: RefCell<IdlePool<IdleSlot>>,
    buffer: RefCell<Box<[u8]>>,
    /// Wakes `receive`.
    bell: RefCell<Option<Waker>>,
    wake_batcher: RefCell<WakeBatcher>,
}

struct IdleSlot {
    task: TaskId,
    waker: Waker,
    job: Option<Box<Job>>,
}

/// What a connection lacks by itself: a socket, and somebody who knows when it is late.
struct Transport {
    socket: Socket,
    alarm: Alarm,
}

/// The first coroutine: takes the mail and starts the others.
async fn receive(state: Rc<WorkerState>) {
    state.executor.mark("waiting for mail");
    let mut jobs = Vec::new();
    loop {
        let ending = poll_fn(|cx| state.poll_mail(cx, &mut jobs)).await;
        if ending == Some(StopMode::Now) {
            return;
        }
        for job in jobs.drain(..) {
            start(&state, Box::new(job));
        }
        jobs.shrink_to(JOB_BUFFER_CAPACITY);
        if ending == Some(StopMode::Drain) {
            first(state.work.join(), poll_fn(|cx| state.poll_drop(cx))).await;
            return state.visit_sender.borrow_mut().send();
        }
    }
}

/// A job begins: with the coroutine that rests in its slot_key, or with a new one.
fn start(state: &Rc<WorkerState>, job: Box<Job>) {
    match state.idle.borrow_mut().get_mut(slot_key(&job)) {
        Some(idle_slot) if idle_slot.job.is_none() => {
            state.work.count_in();
            idle_slot.job = Some(job);
            idle_slot.waker.wake_by_ref();
        }
        _ => {
            state.work.put(job);
            state.executor.spawn(serve(Rc::clone(state)));
        }
    }
}

// anchor: coroutines-serve
/// The life of a connection: connect, fetch, rest, fetch, rest, until nobody wants it.
///
/// A coroutine is as large as all that it holds across its largest `await`. So what is large stands in boxes here: the
/// job, the fetch, and even the coroutine of the race, which is over long before the answer comes.
async fn serve(state: Rc<WorkerState>) {
    let mut job = state.work.get().await;
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
// end: coroutines-serve

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(state: &WorkerState, job: Box<Job>) -> Result<(Transport, Fetch), Box<Visit>> {
    state.executor.mark("connecting");
    let mut started = state.now();
    let mut alarm = state.executor.alarm();
    let mut race = state.worker.race(&job, started);
    let mut attempts = Attempts::default();
    loop {
        let now = state.now();
        let connected = |attempt: &Socket| attempt.now(socket::connected);
        if let Some((peer, socket)) = attempts.winner(&mut race, now, connected) {
            let fetch = state.worker.begin(job, started, peer.ip(), now)?;
            return Ok((Transport { socket, alarm }, fetch));
        }
        match race.next(now) {
            RaceStep::Connect(address) => match socket::begin_connect(address) {
                Ok(stream) => attempts.push(address, Socket::new(stream, state.executor.reactor())),
                Err(error) if socket::is_shortage(&error) && attempts.is_empty() => {
                    // Not the host's fault: the race begins anew when a file may be free.
                    started = if state.evict_idle() { now } else { now + SHORTAGE_RETRY };
                    race = state.worker.race(&job, started);
                    state.worker.out_of_files(now);
                }
                Err(error) => race.failed(address, socket::connect_failure(address, &error), now),
            },
            RaceStep::Wait(until) => {
                poll_fn(|cx| {
                    // Every attempt is asked, so that every one of them can wake us.
                    let ended = |socket: &&Socket| socket.poll_ready(Interest::Writable, cx).is_ready();
                    match attempts.sockets().filter(ended).count() {
                        0 => alarm.poll(until, state.now(), cx),
                        _ => Poll::Ready(()),
                    }
                })
                .await;
            }
            RaceStep::Lost(failure) => return Err(state.worker.lost(job, failure, started)),
        }
    }
}

// anchor: coroutines-drive
/// Does what the fetch wants until it is done: the loop that every engine has, with the waiting in plain sight.
async fn drive(state: &WorkerState, transport: &mut Transport, fetch: &mut Fetch) {
    loop {
        let deadline = fetch.deadline();
        let waits_for = match fetch.step() {
            Step::Write(bytes) => match transport.socket.now(|mut stream| stream.write(bytes)) {
                Ok(count) => {
                    fetch.wrote(count, state.now());
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Interest::Writable,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    fetch.broke(state.broken(&error));
                    continue;
                }
            },
            Step::Read => Interest::Readable,
            Step::Pause => {
                state.executor.mark("paused");
                yield_now().await;
                let until = deadline.min(state.now() + pause(fetch));
                poll_fn(|cx| transport.alarm.poll(until, state.now(), cx)).await;
                fetch.expire(state.now());
                fetch.resume(state.now());
                continue;
            }
            Step::Done => return,
        };
        state.executor.mark(if waits_for == Interest::Readable { "reading" } else { "writing" });
        let ready = poll_fn(|cx| state.poll_ready(transport, waits_for, deadline, cx)).await;
        if let Ready::Failed(error) = &ready {
            fetch.broke(state.broken(error));
        } else if waits_for == Interest::Readable && state.read(transport, fetch) {
            // There is more, as fast as we can read: the others have their turn first.
            yield_now().await;
        }
        if let Ready::No = ready {
            fetch.expire(state.now());
        }
    }
}
// end: coroutines-drive

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
    if state.idle.borrow().get(slot_key).is_some() || !state.worker.may_keep_idle(state.now()) {
        return None;
    }
    if state.worker.is_full(state.idle.borrow().len()) {
        state.evict_idle();
    }
    state.executor.mark("resting");
    let until = state.now() + KEEP_ALIVE;
    let task = state.executor.current();
    let mut is_seated = false;
    let next = poll_fn(|cx| {
        let mut idle = state.idle.borrow_mut();
        if !std::mem::replace(&mut is_seated, true) {
            idle.insert(slot_key, IdleSlot { task, waker: cx.waker().clone(), job: None });
        }
        let Some(idle_slot) = idle.get_mut(slot_key) else { return Poll::Ready(None) };
        if let Some(job) = idle_slot.job.take() {
            return Poll::Ready(Some(job));
        }
        match state.poll_ready(transport, Interest::Readable, until, cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    state.idle.borrow_mut().remove(slot_key);
    next
}

/// Gives up what rests while files are short: another worker may need them.
async fn tidy(state: Rc<WorkerState>) {
    state.executor.mark("tidying");
    loop {
        state.executor.sleep(IDLE_CHECK_INTERVAL).await;
        while state.worker.file_shortage.is_active(state.now()) && state.evict_idle() {}
    }
}

/// How a wait for a socket ended.
enum Ready {
    Yes,
    /// The deadline came first.
    No,
    Failed(io::Error),
}

impl WorkerState {
    fn new(worker: Worker, executor: &Rc<Executor>) -> Self {
        let wake_batcher = WakeBatcher::default();
        executor.set_wake_delay(wake_batcher.moment());
        Self {
            visit_sender: RefCell::new(worker.visit_sender.clone()),
            worker,
            executor: Rc::clone(executor),
            work: JoinQueue::default(),
            idle: RefCell::default(),
            buffer: RefCell::new(vec![0; READ_BUFFER_SIZE].into_boxed_slice()),
            bell: RefCell::default(),
            wake_batcher: RefCell::new(wake_batcher),
        }
    }

    fn now(&self) -> Time {
        self.executor.now()
    }

    /// Sends what was found out, and takes what has come.
    fn poll_mail(&self, cx: &Context<'_>, jobs: &mut Vec<Job>) -> Poll<Option<StopMode>> {
        if self.bell.borrow().is_none() {
            *self.bell.borrow_mut() = Some(cx.waker().clone());
            let waker = cx.waker().clone();
            self.worker.job_queue.set_waker(move || waker.wake_by_ref());
        }
        self.visit_sender.borrow_mut().send();
        let ending = self.worker.job_queue.take(jobs);
        if jobs.is_empty() && ending.is_none() { Poll::Pending } else { Poll::Ready(ending) }
    }

    /// While the last jobs end: ready when even they are to be dropped.
    fn poll_drop(&self, cx: &Context<'_>) -> Poll<()> {
        match self.poll_mail(cx, &mut Vec::new()) {
            Poll::Ready(Some(StopMode::Now)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    fn poll_ready(
        &self,
        transport: &mut Transport,
        interest: Interest,
        deadline: Time,
        cx: &Context<'_>,
    ) -> Poll<Ready> {
        match transport.socket.poll_ready(interest, cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Ready::Yes),
            Poll::Ready(Err(error)) => Poll::Ready(Ready::Failed(error)),
            Poll::Pending => transport.alarm.poll(deadline, self.now(), cx).map(|()| Ready::No),
        }
    }

    /// Feeds what has come. Bytes are there: only now is a buffer needed, and the thread has one for all. Where it is late
    /// they may be there as well: what came while the thread was busy with another page is not the host's silence. Says
    /// whether the buffer was too small for all of it.
    fn read(&self, transport: &Transport, fetch: &mut Fetch) -> bool {
        let mut buffer = self.buffer.borrow_mut();
        match transport.socket.now(|mut stream| stream.read(&mut buffer)) {
            Ok(0) => fetch.closed(self.now()),
            Ok(count) => {
                fetch.feed(&buffer[..count], self.now());
                return count == READ_BUFFER_SIZE;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => fetch.broke(self.broken(&error)),
        }
        false
    }

    // anchor: coroutines-broken
    /// The error knows where it happened, however many awaits ago that was begun.
    fn broken(&self, error: &io::Error) -> Failure {
        let mut failure = socket::broken(error);
        failure.message = format!("{} (while {})", failure.message, self.executor.place()).into();
        failure
    }
    // end: coroutines-broken

    fn report(&self, visit: Box<Visit>) {
        self.work.done();
        self.wake_batcher.borrow_mut().note(&visit, self.work.unfinished(), self.now());
        self.visit_sender.borrow_mut().push(visit);
        // It is sent when `receive` has its turn, with those of all coroutines that run before it.
        if let Some(bell) = &*self.bell.borrow() {
            bell.wake_by_ref();
        }
    }

    /// Cancels a coroutine that rests: its socket is closed with it.
    fn evict_idle(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        let Some(slot_key) = idle.longest(|idle_slot| idle_slot.job.is_none()) else { return false };
        let idle_slot = idle.remove(slot_key);
        drop(idle);
        idle_slot.is_some_and(|idle_slot| self.executor.cancel(idle_slot.task))
    }
}
