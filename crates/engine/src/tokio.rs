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

use crate::leisure::Leisure;
use crate::lounge::Lounge;
use crate::mail::{Ending, Reports};
use crate::socket::{self, Attempts};
use crate::timers::{Alarm, Timers};
use crate::worker::{BUFFER, Door, FEW, GLANCE, KEEP_ALIVE, SHORTAGE, Seat, Worker, pause, seat};

// anchor: tokio-run
/// Runs a worker until it is told to end.
pub fn run(worker: Worker) -> io::Result<()> {
    let leisure = Leisure::default();
    let (moment, clock) = (leisure.moment(), worker.clock);
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime
        .enable_io()
        .enable_time()
        .on_thread_park(move || {
            moment.enjoy(clock, Time::NEVER);
        })
        .build()?;
    worker.is_ready();
    let shop = Rc::new(Shop::new(worker, leisure));
    // What is unfinished when `receive` returns is dropped with its sockets.
    LocalSet::new().block_on(&runtime, receive(Rc::clone(&shop)));
    if shop.lost.get() { Err(io::Error::other("a fault in Argiope: a job was lost")) } else { Ok(()) }
}
// end: tokio-run

/// What the tasks of one thread share.
struct Shop {
    worker: Worker,
    timers: Rc<Timers>,
    reports: RefCell<Reports>,
    unfinished: std::cell::Cell<usize>,
    leisure: RefCell<Leisure>,
    /// Tasks that rest with their connection, and wait for the next job of their seat.
    resting: RefCell<Lounge<Chair>>,
    /// Made when the first request is out: making it takes as long as sending that.
    buffer: RefCell<Box<[u8]>>,
    /// Wakes `receive`.
    bell: Arc<Notify>,
    /// A task panicked, and its job is lost: better an end than a crawl that waits for it for ever.
    lost: std::cell::Cell<bool>,
}

/// Tells `receive` of a panic, which the runtime would keep to itself.
struct Witness<'a>(&'a Shop);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lost.set(true);
            self.0.bell.notify_one();
        }
    }
}

struct Chair {
    waker: Waker,
    job: Option<Box<Job>>,
    /// Somebody else needs its file.
    must_leave: bool,
}

/// What a connection lacks by itself: a socket, and somebody who knows when it is late.
struct Line {
    stream: TcpStream,
    alarm: Alarm,
}

/// The first task: takes the mail, starts the others, and wakes those that are late.
async fn receive(shop: Rc<Shop>) {
    let bell = Arc::clone(&shop.bell);
    shop.worker.orders.on_arrival(move || bell.notify_one());
    spawn_local(tidy(Rc::clone(&shop)));
    let mut alarm_clock = pin!(sleep(Duration::ZERO));
    let mut jobs = Vec::new();
    loop {
        shop.reports.borrow_mut().send();
        let ending = shop.worker.orders.take(&mut jobs);
        for job in jobs.drain(..) {
            start(&shop, Box::new(job));
        }
        jobs.shrink_to(FEW);
        match ending {
            Some(Ending::AtOnce) => return,
            _ if shop.lost.get() => return,
            Some(Ending::WhenDone) if shop.unfinished.get() == 0 => return,
            _ => {}
        }
        let mut rung = pin!(shop.bell.notified());
        poll_fn(|cx| {
            shop.poll_alarms(alarm_clock.as_mut(), cx);
            rung.as_mut().poll(cx)
        })
        .await;
    }
}

/// A job begins: with the task that rests in its seat, or with a new one.
fn start(shop: &Rc<Shop>, job: Box<Job>) {
    shop.unfinished.set(shop.unfinished.get() + 1);
    match shop.resting.borrow_mut().get_mut(seat(&job)) {
        Some(chair) if chair.job.is_none() && !chair.must_leave => {
            chair.job = Some(job);
            chair.waker.wake_by_ref();
        }
        // In a box: the runtime aligns its tasks to 128 bytes, and would round this one up to three times that.
        _ => drop(spawn_local(Box::pin(serve(Rc::clone(shop), job)))),
    }
}

/// The life of a connection: connect, fetch, rest, fetch, rest, until nobody wants it.
///
/// A task is as large as all that it holds across its largest `await`: what is large stands in boxes here.
async fn serve(shop: Rc<Shop>, mut job: Box<Job>) {
    let _witness = Witness(&shop);
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

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(shop: &Shop, job: Box<Job>) -> Result<(Line, Fetch), Box<Visit>> {
    let mut started = shop.now();
    let mut alarm = Alarm::new(&shop.timers);
    let mut race = shop.worker.race(&job, started);
    let mut attempts = Attempts::default();
    loop {
        let now = shop.now();
        if let Some((peer, stream)) = attempts.winner(&mut race, now, connected) {
            let fetch = shop.worker.begin(job, started, peer.ip(), now)?;
            return Ok((Line { stream, alarm }, fetch));
        }
        let until = match race.next(now) {
            RaceStep::Wait(until) => until,
            RaceStep::Lost(failure) => return Err(shop.worker.lost(job, failure, started)),
            // The socket is begun as in the other engines; tokio is only told to watch it.
            RaceStep::Connect(address) => {
                match socket::begin_connect(address).and_then(TcpStream::from_std) {
                    Ok(stream) => attempts.push(address, stream),
                    Err(error) if socket::is_shortage(&error) && attempts.is_empty() => {
                        // Not the host's fault: the race begins anew when a file may be free.
                        started = now + if shop.close_a_resting_one() { Duration::from_millis(1) } else { SHORTAGE };
                        race = shop.worker.race(&job, started);
                        shop.worker.out_of_files(now);
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
                0 => alarm.poll(until, shop.now(), cx),
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
async fn drive(shop: &Shop, line: &mut Line, fetch: &mut Fetch) {
    loop {
        let deadline = fetch.deadline();
        match fetch.step() {
            Step::Write(bytes) => {
                // Nothing of this is held while it waits: a task is as large as what it holds then.
                let is_full = match line.stream.try_write(bytes) {
                    Ok(count) => {
                        fetch.wrote(count, shop.now());
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
                    match poll_fn(|cx| shop.in_time(line.stream.poll_write_ready(cx), deadline, &mut line.alarm, cx))
                        .await
                    {
                        None => fetch.expire(shop.now()),
                        Some(Err(error)) => fetch.broke(socket::broken(&error)),
                        Some(Ok(())) => {}
                    }
                }
            }
            Step::Read => {
                match poll_fn(|cx| shop.in_time(shop.poll_read(line, cx), deadline, &mut line.alarm, cx)).await {
                    None => {
                        // What came while the thread was busy with another page is not the host's silence. The runtime
                        // has not heard of it yet, so the kernel is asked.
                        let mut buffer = shop.buffer.borrow_mut();
                        match socket::read_now(&line.stream, &mut buffer) {
                            Ok(0) => fetch.closed(shop.now()),
                            Ok(count) => fetch.feed(&buffer[..count], shop.now()),
                            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                            Err(error) => fetch.broke(socket::broken(&error)),
                        }
                        fetch.expire(shop.now());
                    }
                    Some(Ok(0)) => fetch.closed(shop.now()),
                    // The bytes are still in the worker's buffer: nothing else ran since they came.
                    Some(Ok(count)) => {
                        fetch.feed(&shop.buffer.borrow()[..count], shop.now());
                        if count == BUFFER {
                            // There is more, as fast as we can read: the others have their turn first.
                            yield_now().await;
                        }
                    }
                    Some(Err(error)) => fetch.broke(socket::broken(&error)),
                }
            }
            Step::Pause => {
                yield_now().await;
                let deadline = deadline.min(shop.now() + pause(fetch));
                poll_fn(|cx| line.alarm.poll(deadline, shop.now(), cx)).await;
                fetch.expire(shop.now());
                fetch.resume(shop.now());
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
    let now = shop.now();
    if shop.resting.borrow().get(seat).is_some() || !shop.worker.may_rest(now) {
        return None;
    }
    if shop.worker.is_full(shop.resting.borrow().len()) {
        shop.close_a_resting_one();
    }
    let until = now + KEEP_ALIVE;
    let mut is_seated = false;
    let next = poll_fn(|cx| {
        let mut resting = shop.resting.borrow_mut();
        if !std::mem::replace(&mut is_seated, true) {
            resting.insert(seat, Chair { waker: cx.waker().clone(), job: None, must_leave: false });
        }
        let Some(chair) = resting.get_mut(seat) else { return Poll::Ready(None) };
        if let Some(job) = chair.job.take() {
            return Poll::Ready(Some(job));
        }
        if chair.must_leave {
            return Poll::Ready(None);
        }
        shop.in_time(quiet_no_more(&line.stream, cx), until, &mut line.alarm, cx).map(|_| None)
    })
    .await;
    shop.resting.borrow_mut().remove(seat);
    next
}

/// Gives up what rests while files are short: another worker may need them.
async fn tidy(shop: Rc<Shop>) {
    loop {
        sleep(GLANCE).await;
        while shop.worker.files.are_short(shop.now()) && shop.close_a_resting_one() {}
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

impl Shop {
    fn new(worker: Worker, leisure: Leisure) -> Self {
        Self {
            reports: RefCell::new(worker.reports.clone()),
            worker,
            timers: Rc::default(),
            unfinished: std::cell::Cell::new(0),
            leisure: RefCell::new(leisure),
            resting: RefCell::default(),
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
    fn poll_read(&self, line: &mut Line, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() {
            *buffer = vec![0; BUFFER].into_boxed_slice();
        }
        let mut room = ReadBuf::new(&mut buffer);
        Pin::new(&mut line.stream).poll_read(cx, &mut room).map_ok(|()| room.filled().len())
    }
    // end: tokio-poll-read

    fn report(&self, visit: Box<Visit>) {
        self.unfinished.set(self.unfinished.get() - 1);
        self.leisure.borrow_mut().note(&visit, self.unfinished.get(), self.now());
        self.reports.borrow_mut().push(visit);
        // It is sent when `receive` has its turn, with those of all tasks that run before it.
        self.bell.notify_one();
    }

    /// Has a task that rests leave, and close its socket, as soon as it has its turn.
    fn close_a_resting_one(&self) -> bool {
        let mut resting = self.resting.borrow_mut();
        let longest = resting.longest(|chair| chair.job.is_none() && !chair.must_leave);
        let Some(chair) = longest.and_then(|seat| resting.get_mut(seat)) else { return false };
        chair.must_leave = true;
        chair.waker.wake_by_ref();
        true
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::rules::Config;

    use super::*;
    use crate::worker::{Files, Notices};
    use crate::{Clock, Orders};

    fn future_size<A, B, C, F: Future>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_task_that_waits_is_small() {
        let served = |shop: Rc<Shop>, job: Box<Job>, (): ()| serve(shop, job);
        assert!(future_size(served) <= 232, "{} bytes", future_size(served));
        assert!(future_size(drive) <= 112, "{} bytes", future_size(drive));
    }

    #[test]
    fn a_task_that_panics_ends_its_worker() {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        let worker = Worker {
            rules: Arc::new(config.compile(0).unwrap()),
            clock: Clock::start(),
            orders: Orders::new(),
            reports: Reports::new(|visits: &mut Vec<Box<Visit>>| visits.clear()),
            notices: Notices::default(),
            files: Files::default(),
            ready: std::sync::mpsc::channel().0,
        };
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        let shop = Rc::new(Shop::new(worker, Leisure::default()));
        LocalSet::new().block_on(&runtime, async {
            let task = Rc::clone(&shop);
            drop(spawn_local(async move {
                let _witness = Witness(&task);
                panic!("a fault of ours, on purpose");
            }));
            receive(Rc::clone(&shop)).await;
        });
        assert!(shop.lost.get());
    }
}
