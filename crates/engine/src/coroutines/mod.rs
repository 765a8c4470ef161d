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

use crate::epoll::Interest;
use crate::leisure::Leisure;
use crate::lounge::Lounge;
use crate::mail::{Ending, Reports};
use crate::socket::{self, Attempts};
use crate::timers::Alarm;
use crate::worker::{BUFFER, Door, FEW, GLANCE, KEEP_ALIVE, SHORTAGE, Seat, Worker, pause, seat};
use executor::{Executor, Happening, TaskId, first, yield_now};
use queue::JoinQueue;
use reactor::Socket;

/// Runs a worker until it is told to end.
pub fn run(worker: Worker) -> io::Result<()> {
    run_watched(worker, None::<fn(Happening)>)
}

/// The same, with somebody looking on.
pub fn run_watched(worker: Worker, onlooker: Option<impl Fn(Happening) + 'static>) -> io::Result<()> {
    let executor = Executor::new(worker.clock)?;
    worker.is_ready();
    if let Some(onlooker) = onlooker {
        executor.watch(onlooker);
    }
    let shop = Rc::new(Shop::new(worker, &executor));
    executor.spawn(tidy(Rc::clone(&shop)));
    // What is unfinished when `receive` returns is dropped with its sockets.
    executor.run(receive(shop))
}

/// What the coroutines of one thread share.
struct Shop {
    worker: Worker,
    executor: Rc<Executor>,
    reports: RefCell<Reports>,
    /// Jobs on their way to a new coroutine, and how many jobs are unfinished.
    work: JoinQueue<Box<Job>>,
    /// Coroutines that rest with their connection, and wait for the next job of their seat.
    resting: RefCell<Lounge<Chair>>,
    buffer: RefCell<Box<[u8]>>,
    /// Wakes `receive`.
    bell: RefCell<Option<Waker>>,
    leisure: RefCell<Leisure>,
}

struct Chair {
    task: TaskId,
    waker: Waker,
    job: Option<Box<Job>>,
}

/// What a connection lacks by itself: a socket, and somebody who knows when it is late.
struct Line {
    socket: Socket,
    alarm: Alarm,
}

/// The first coroutine: takes the mail and starts the others.
async fn receive(shop: Rc<Shop>) {
    shop.executor.mark("waiting for mail");
    let mut jobs = Vec::new();
    loop {
        let ending = poll_fn(|cx| shop.poll_mail(cx, &mut jobs)).await;
        if ending == Some(Ending::AtOnce) {
            return;
        }
        for job in jobs.drain(..) {
            start(&shop, Box::new(job));
        }
        jobs.shrink_to(FEW);
        if ending == Some(Ending::WhenDone) {
            first(shop.work.join(), poll_fn(|cx| shop.poll_drop(cx))).await;
            return shop.reports.borrow_mut().send();
        }
    }
}

/// A job begins: with the coroutine that rests in its seat, or with a new one.
fn start(shop: &Rc<Shop>, job: Box<Job>) {
    match shop.resting.borrow_mut().get_mut(seat(&job)) {
        Some(chair) if chair.job.is_none() => {
            shop.work.count_in();
            chair.job = Some(job);
            chair.waker.wake_by_ref();
        }
        _ => {
            shop.work.put(job);
            shop.executor.spawn(serve(Rc::clone(shop)));
        }
    }
}

// anchor: coroutines-serve
/// The life of a connection: connect, fetch, rest, fetch, rest, until nobody wants it.
///
/// A coroutine is as large as all that it holds across its largest `await`. So what is large stands in boxes here: the
/// job, the fetch, and even the coroutine of the race, which is over long before the answer comes.
async fn serve(shop: Rc<Shop>) {
    let mut job = shop.work.get().await;
    'connection: loop {
        let (mut line, mut fetch) = match Box::pin(connect(&shop, job)).await {
            Ok(connected) => connected,
            Err(visit) => return shop.report(visit),
        };
        loop {
            drive(&shop, &mut line, &mut fetch).await;
            let (seat, door) = (seat(fetch.job()), Door::of(fetch.job()));
            let conn = match finish(&shop, fetch) {
                Next::Rest(conn) => conn,
                Next::Again(same) => {
                    job = same;
                    continue 'connection;
                }
                Next::Leave => return,
            };
            let Some(next) = rest(&shop, seat, &mut line).await else { return };
            if Door::of(&next) != door {
                job = next;
                continue 'connection;
            }
            fetch = shop.worker.begin_again(next, *conn, shop.now());
        }
    }
}
// end: coroutines-serve

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(shop: &Shop, job: Box<Job>) -> Result<(Line, Fetch), Box<Visit>> {
    shop.executor.mark("connecting");
    let mut started = shop.now();
    let mut alarm = shop.executor.alarm();
    let mut race = shop.worker.race(&job, started);
    let mut attempts = Attempts::default();
    loop {
        let now = shop.now();
        let connected = |attempt: &Socket| attempt.now(socket::connected);
        if let Some((peer, socket)) = attempts.winner(&mut race, now, connected) {
            let fetch = shop.worker.begin(job, started, peer.ip(), now)?;
            return Ok((Line { socket, alarm }, fetch));
        }
        match race.next(now) {
            RaceStep::Connect(address) => match socket::begin_connect(address) {
                Ok(stream) => attempts.push(address, Socket::new(stream, shop.executor.reactor())),
                Err(error) if socket::is_shortage(&error) && attempts.is_empty() => {
                    // Not the host's fault: the race begins anew when a file may be free.
                    started = if shop.close_a_resting_one() { now } else { now + SHORTAGE };
                    race = shop.worker.race(&job, started);
                    shop.worker.out_of_files(now);
                }
                Err(error) => race.failed(address, socket::connect_failure(address, &error), now),
            },
            RaceStep::Wait(until) => {
                poll_fn(|cx| {
                    // Every attempt is asked, so that every one of them can wake us.
                    let ended = |socket: &&Socket| socket.poll_ready(Interest::Writable, cx).is_ready();
                    match attempts.sockets().filter(ended).count() {
                        0 => alarm.poll(until, shop.now(), cx),
                        _ => Poll::Ready(()),
                    }
                })
                .await;
            }
            RaceStep::Lost(failure) => return Err(shop.worker.lost(job, failure, started)),
        }
    }
}

// anchor: coroutines-drive
/// Does what the fetch wants until it is done: the loop that every engine has, with the waiting in plain sight.
async fn drive(shop: &Shop, line: &mut Line, fetch: &mut Fetch) {
    loop {
        let deadline = fetch.deadline();
        let waits_for = match fetch.step() {
            Step::Write(bytes) => match line.socket.now(|mut stream| stream.write(bytes)) {
                Ok(count) => {
                    fetch.wrote(count, shop.now());
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Interest::Writable,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    fetch.broke(shop.broken(&error));
                    continue;
                }
            },
            Step::Read => Interest::Readable,
            Step::Pause => {
                shop.executor.mark("paused");
                yield_now().await;
                let until = deadline.min(shop.now() + pause(fetch));
                poll_fn(|cx| line.alarm.poll(until, shop.now(), cx)).await;
                fetch.expire(shop.now());
                fetch.resume(shop.now());
                continue;
            }
            Step::Done => return,
        };
        shop.executor.mark(if waits_for == Interest::Readable { "reading" } else { "writing" });
        let ready = poll_fn(|cx| shop.poll_ready(line, waits_for, deadline, cx)).await;
        if let Ready::Failed(error) = &ready {
            fetch.broke(shop.broken(error));
        } else if waits_for == Interest::Readable && shop.read(line, fetch) {
            // There is more, as fast as we can read: the others have their turn first.
            yield_now().await;
        }
        if let Ready::No = ready {
            fetch.expire(shop.now());
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
fn finish(shop: &Shop, fetch: Fetch) -> Next {
    match fetch.finish(shop.now()) {
        Finished::Visit(visit, conn) => {
            shop.report(visit);
            conn.map_or(Next::Leave, Next::Rest)
        }
        Finished::Again(job) => Next::Again(job),
    }
}

/// Waits for the seat's next job. None where the host closes the connection first, or time does.
async fn rest(shop: &Shop, seat: Seat, line: &mut Line) -> Option<Box<Job>> {
    if shop.resting.borrow().get(seat).is_some() || !shop.worker.may_rest(shop.now()) {
        return None;
    }
    if shop.worker.is_full(shop.resting.borrow().len()) {
        shop.close_a_resting_one();
    }
    shop.executor.mark("resting");
    let until = shop.now() + KEEP_ALIVE;
    let task = shop.executor.current();
    let mut is_seated = false;
    let next = poll_fn(|cx| {
        let mut resting = shop.resting.borrow_mut();
        if !std::mem::replace(&mut is_seated, true) {
            resting.insert(seat, Chair { task, waker: cx.waker().clone(), job: None });
        }
        let Some(chair) = resting.get_mut(seat) else { return Poll::Ready(None) };
        if let Some(job) = chair.job.take() {
            return Poll::Ready(Some(job));
        }
        match shop.poll_ready(line, Interest::Readable, until, cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    shop.resting.borrow_mut().remove(seat);
    next
}

/// Gives up what rests while files are short: another worker may need them.
async fn tidy(shop: Rc<Shop>) {
    shop.executor.mark("tidying");
    loop {
        shop.executor.sleep(GLANCE).await;
        while shop.worker.files.are_short(shop.now()) && shop.close_a_resting_one() {}
    }
}

/// How a wait for a socket ended.
enum Ready {
    Yes,
    /// The deadline came first.
    No,
    Failed(io::Error),
}

impl Shop {
    fn new(worker: Worker, executor: &Rc<Executor>) -> Self {
        let leisure = Leisure::default();
        executor.enjoys(leisure.moment());
        Self {
            reports: RefCell::new(worker.reports.clone()),
            worker,
            executor: Rc::clone(executor),
            work: JoinQueue::default(),
            resting: RefCell::default(),
            buffer: RefCell::new(vec![0; BUFFER].into_boxed_slice()),
            bell: RefCell::default(),
            leisure: RefCell::new(leisure),
        }
    }

    fn now(&self) -> Time {
        self.executor.now()
    }

    /// Sends what was found out, and takes what has come.
    fn poll_mail(&self, cx: &Context<'_>, jobs: &mut Vec<Job>) -> Poll<Option<Ending>> {
        if self.bell.borrow().is_none() {
            *self.bell.borrow_mut() = Some(cx.waker().clone());
            let waker = cx.waker().clone();
            self.worker.orders.on_arrival(move || waker.wake_by_ref());
        }
        self.reports.borrow_mut().send();
        let ending = self.worker.orders.take(jobs);
        if jobs.is_empty() && ending.is_none() { Poll::Pending } else { Poll::Ready(ending) }
    }

    /// While the last jobs end: ready when even they are to be dropped.
    fn poll_drop(&self, cx: &Context<'_>) -> Poll<()> {
        match self.poll_mail(cx, &mut Vec::new()) {
            Poll::Ready(Some(Ending::AtOnce)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    fn poll_ready(&self, line: &mut Line, interest: Interest, deadline: Time, cx: &Context<'_>) -> Poll<Ready> {
        match line.socket.poll_ready(interest, cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Ready::Yes),
            Poll::Ready(Err(error)) => Poll::Ready(Ready::Failed(error)),
            Poll::Pending => line.alarm.poll(deadline, self.now(), cx).map(|()| Ready::No),
        }
    }

    /// Feeds what has come. Bytes are there: only now is a buffer needed, and the thread has one for all. Where it is late
    /// they may be there as well: what came while the thread was busy with another page is not the host's silence. Says
    /// whether the buffer was too small for all of it.
    fn read(&self, line: &Line, fetch: &mut Fetch) -> bool {
        let mut buffer = self.buffer.borrow_mut();
        match line.socket.now(|mut stream| stream.read(&mut buffer)) {
            Ok(0) => fetch.closed(self.now()),
            Ok(count) => {
                fetch.feed(&buffer[..count], self.now());
                return count == BUFFER;
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
        self.leisure.borrow_mut().note(&visit, self.work.unfinished(), self.now());
        self.reports.borrow_mut().push(visit);
        // It is sent when `receive` has its turn, with those of all coroutines that run before it.
        if let Some(bell) = &*self.bell.borrow() {
            bell.wake_by_ref();
        }
    }

    /// Cancels a coroutine that rests: its socket is closed with it.
    fn close_a_resting_one(&self) -> bool {
        let mut resting = self.resting.borrow_mut();
        let Some(seat) = resting.longest(|chair| chair.job.is_none()) else { return false };
        let chair = resting.remove(seat);
        drop(resting);
        chair.is_some_and(|chair| self.executor.cancel(chair.task))
    }
}
