//! The `tokio` engine, the default: the coroutines of the `coroutines` engine on a production runtime.
//!
//! Each worker has a current-thread runtime, so tasks do not move between threads and the data path takes no locks. Two
//! things differ from most programs on tokio, so that a waiting fetch takes little more memory than its state. No task
//! owns a read buffer: a socket that is ready is read into the worker's buffer. No task owns a tokio timer: all
//! deadlines of a worker are in one [`Timers`], which uses a single [`Sleep`].
//!
//! Shared with the `coroutines` engine: timers, and the hand-over of jobs to tasks (`task_slots`). Different: tokio's
//! sockets report readiness and read in one call (`poll_read`), errors do not say what the connection was doing, and
//! the runtime does not propagate panics of tasks (`PanicGuard`).
//!
//! Invariant: this is the only file that uses tokio's networking. There is one task per connection. While the
//! connection is idle, its task waits.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use argiope_core::Time;
use argiope_core::http::conn::Step;
use argiope_core::http::session::{Completed, Session, SlotKey};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::{Instant, Sleep, sleep};

use crate::channel::{StopMode, VisitSender};
use crate::connecting::{ConnectStep, Connecting};
use crate::resources::IDLE_CHECK_INTERVAL;
use crate::socket;
use crate::task_slots::{SlotEvent, TaskSlots};
use crate::timers::{Alarm, Timers};
use crate::worker::{JOB_BUFFER_CAPACITY, READ_BUFFER_SIZE, Worker};

// anchor: tokio-run
/// Runs a worker until it is told to stop.
pub fn run(worker: Worker) -> io::Result<()> {
    let slots = TaskSlots::new(&worker);
    let (wake_delay, clock) = (slots.wake_delay(), worker.clock);
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime
        .enable_io()
        .enable_time()
        .on_thread_park(move || {
            wake_delay.delay(clock, Time::NEVER);
        })
        .build()?;
    worker.report_ready();
    let state = Rc::new(WorkerState::new(worker, slots));
    // Tasks that are unfinished when `receive` returns are dropped with their sockets.
    LocalSet::new().block_on(&runtime, receive(Rc::clone(&state)));
    if state.has_lost_job.get() { Err(io::Error::other("a fault in Argiope: a job was lost")) } else { Ok(()) }
}
// end: tokio-run

/// The state that all tasks of a worker share.
struct WorkerState {
    worker: Worker,
    timers: Rc<Timers>,
    visit_sender: RefCell<VisitSender>,
    /// The number of jobs without a visit yet.
    unfinished: Cell<usize>,
    /// The tasks whose connection has room for a job, and the jobs that wait for a connection.
    slots: TaskSlots,
    /// Allocated after the first request is sent, because the allocation takes as long as sending it.
    buffer: RefCell<Box<[u8]>>,
    /// Wakes `receive`.
    receiver: Arc<Notify>,
    /// A job is lost because its task panicked. The worker ends, because the crawl would wait for that job forever.
    has_lost_job: Cell<bool>,
}

/// Reports the panic of a task to `receive`, because the runtime does not propagate it.
struct PanicGuard<'a>(&'a WorkerState);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_lost_job.set(true);
            self.0.receiver.notify_one();
        }
    }
}

/// The socket of a session, with its timer and its slot in the pool.
struct Transport {
    stream: TcpStream,
    alarm: Alarm,
    /// The slot under which the session is in the pool.
    pooled: Option<SlotKey>,
}

/// The first task: receives jobs, starts the others, and wakes those whose deadline has passed.
async fn receive(state: Rc<WorkerState>) {
    let receiver = Arc::clone(&state.receiver);
    state.worker.job_queue.set_waker(move || receiver.notify_one());
    spawn_local(evict_on_shortage(Rc::clone(&state)));
    let mut alarm_clock = pin!(sleep(Duration::ZERO));
    let mut jobs = Vec::new();
    loop {
        state.visit_sender.borrow_mut().send();
        let stop = state.worker.job_queue.take(&mut jobs);
        for job in jobs.drain(..) {
            state.unfinished.set(state.unfinished.get() + 1);
            start(&state, Box::new(job));
        }
        jobs.shrink_to(JOB_BUFFER_CAPACITY);
        match stop {
            Some(StopMode::Now) => return,
            _ if state.has_lost_job.get() => return,
            Some(StopMode::Drain) if state.unfinished.get() == 0 => return,
            _ => {}
        }
        let mut woken = pin!(state.receiver.notified());
        poll_fn(|cx| {
            state.poll_alarms(alarm_clock.as_mut(), cx);
            woken.as_mut().poll(cx)
        })
        .await;
    }
}

/// Starts a job: in the task whose connection has room for it, or in a new task.
fn start(state: &Rc<WorkerState>, job: Box<Job>) {
    if let Err(job) = state.slots.hand_over(job)
        && let Some(job) = state.slots.wait_for_connection(job)
    {
        // Boxed, because the runtime rounds tasks up to multiples of 128 bytes, and this one would take 384.
        drop(spawn_local(Box::pin(serve(Rc::clone(state), job))));
    }
}

/// Serves one connection: connects, then drives the session until it closes.
///
/// A task is as large as the largest state that it holds across an `await`, so large values are boxed here.
async fn serve(state: Rc<WorkerState>, job: Box<Job>) {
    let _guard = PanicGuard(&state);
    let (mut transport, mut session) = match Box::pin(connect(&state, job)).await {
        Ok(connected) => connected,
        Err(visits) => return visits.into_iter().for_each(|visit| state.report(visit)),
    };
    drive(&state, &mut transport, &mut session).await;
    state.leave_pool(&mut transport);
}

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(state: &Rc<WorkerState>, job: Box<Job>) -> Result<(Transport, Session), Vec<Box<Visit>>> {
    let worker = &state.worker;
    let mut alarm = Alarm::new(&state.timers);
    let mut connecting = Connecting::new(worker, job, state.now());
    // The socket is opened as in the other engines. Only the waiting is tokio's.
    let open = |address| socket::begin_connect(address).and_then(TcpStream::from_std);
    loop {
        match connecting.step(worker, open, connected, || state.slots.evict()) {
            ConnectStep::Connected(peer, stream) => {
                let mut waiting = state.slots.end_connecting(connecting.slot());
                let session = connecting.into_session(worker, peer, &mut waiting);
                state.start_all(waiting);
                let session = session.map_err(|visit| vec![visit])?;
                return Ok((Transport { stream, alarm, pooled: None }, session));
            }
            ConnectStep::Failed(failure) => {
                let waiting = state.slots.end_connecting(connecting.slot());
                return Err(connecting.into_failures(worker, &failure, waiting));
            }
            ConnectStep::Wait(until) => {
                poll_fn(|cx| {
                    // Poll every attempt, so that each of them can wake this task.
                    let ended = |stream: &&TcpStream| stream.poll_write_ready(cx).is_ready();
                    match connecting.sockets().filter(ended).count() {
                        0 => alarm.poll(until, state.now(), cx),
                        _ => Poll::Ready(()),
                    }
                })
                .await;
            }
        }
    }
}

/// Whether a connection attempt has succeeded. After a spurious readiness event, the closure returns `WouldBlock`, so
/// that tokio waits for the next event.
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
/// Does what the session needs until it closes.
async fn drive(state: &Rc<WorkerState>, transport: &mut Transport, session: &mut Session) {
    loop {
        state.deliver(session);
        if session.free_capacity() == 0 {
            state.leave_pool(transport);
        }
        // Keep only a bool of the step, because a task is as large as everything that it holds across an `await`.
        let waits_to_write = match session.step() {
            Step::Write(bytes) => match transport.stream.try_write(bytes) {
                Ok(count) => {
                    session.wrote(count, state.now());
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => true,
                Err(error) => {
                    session.broke(socket::io_failure(&error));
                    continue;
                }
            },
            Step::Read => false,
            Step::Pause => {
                yield_now().await;
                let until = session.deadline().min(state.now() + session.pause_duration());
                poll_fn(|cx| transport.alarm.poll(until, state.now(), cx)).await;
                session.expire(state.now());
                session.resume(state.now());
                continue;
            }
            Step::Done => return,
        };
        let has_more = match poll_fn(|cx| state.poll_event(transport, session, waits_to_write, cx)).await {
            Event::Writable => false,
            Event::Read(count) => state.feed(count, session),
            Event::Late => {
                if !waits_to_write {
                    state.read_now(transport, session);
                }
                session.expire(state.now());
                false
            }
            Event::Failed(error) => {
                session.broke(socket::io_failure(&error));
                false
            }
            Event::Slot(SlotEvent::Job(job)) => {
                state.accept(transport, session, job);
                false
            }
            Event::Slot(SlotEvent::Evicted) => return,
        };
        if has_more {
            // Yield, so that other connections are served.
            yield_now().await;
        }
    }
}
// end: tokio-drive

/// Closes idle connections while file descriptors are short: another worker may need them.
async fn evict_on_shortage(state: Rc<WorkerState>) {
    loop {
        sleep(IDLE_CHECK_INTERVAL).await;
        state.slots.evict_if_short(state.now());
    }
}

/// The event that woke a waiting connection.
enum Event {
    Writable,
    /// This many bytes are in the worker's buffer; zero: the peer closed its side.
    Read(usize),
    /// The deadline has passed.
    Late,
    Failed(io::Error),
    /// A job for the connection, or its eviction.
    Slot(SlotEvent),
}

impl WorkerState {
    fn new(worker: Worker, slots: TaskSlots) -> Self {
        Self {
            visit_sender: RefCell::new(worker.visit_sender.clone()),
            worker,
            timers: Rc::default(),
            unfinished: Cell::new(0),
            slots,
            buffer: RefCell::default(),
            receiver: Arc::default(),
            has_lost_job: Cell::new(false),
        }
    }

    fn now(&self) -> Time {
        self.worker.clock.now()
    }

    /// Wakes the tasks whose deadline has passed, and sets `alarm_clock`, which wakes the calling task at the next
    /// deadline.
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

    /// Takes the completed jobs of the session. Sends visits to the keeper, and starts jobs to retry.
    fn deliver(self: &Rc<Self>, session: &mut Session) {
        while let Some(completed) = session.finished(self.now()) {
            match completed {
                Completed::Visit(visit) => self.report(visit),
                Completed::Retry(job) => start(self, job),
            }
        }
    }

    /// Passes a job to the session. Also passes all other jobs that were handed over to its task meanwhile, so that
    /// their requests are written together.
    fn accept(self: &Rc<Self>, transport: &mut Transport, session: &mut Session, job: Box<Job>) {
        let mut next = Some(job);
        while let Some(job) = next {
            let refused = session.accept(job, &self.worker.rules, self.now()).err();
            if session.free_capacity() == 0 {
                self.leave_pool(transport);
            }
            if let Some(job) = refused {
                start(self, job);
            }
            next = self.slots.next_job(transport.pooled);
        }
    }

    /// Takes the connection out of the pool. Jobs that were handed over to it and not accepted start elsewhere.
    fn leave_pool(self: &Rc<Self>, transport: &mut Transport) {
        self.start_all(self.slots.remove(&mut transport.pooled));
    }

    fn start_all(self: &Rc<Self>, jobs: impl IntoIterator<Item = Box<Job>>) {
        jobs.into_iter().for_each(|job| start(self, job));
    }

    fn poll_event(
        &self,
        transport: &mut Transport,
        session: &Session,
        waits_to_write: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Event> {
        if (session.free_capacity() > 0 || transport.pooled.is_some())
            && let Poll::Ready(event) = self.slots.poll(session, &mut transport.pooled, self.now(), cx)
        {
            return Poll::Ready(Event::Slot(event));
        }
        let ready = if waits_to_write {
            transport.stream.poll_write_ready(cx).map_ok(|()| Event::Writable)
        } else {
            self.poll_read(transport, cx).map_ok(Event::Read)
        };
        match ready {
            Poll::Ready(event) => Poll::Ready(event.unwrap_or_else(Event::Failed)),
            Poll::Pending => transport.alarm.poll(session.deadline(), self.now(), cx).map(|()| Event::Late),
        }
    }

    // anchor: tokio-poll-read
    /// Reads into the worker's buffer once there is something to read.
    fn poll_read(&self, transport: &mut Transport, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() {
            *buffer = vec![0; READ_BUFFER_SIZE].into_boxed_slice();
        }
        let mut read_buf = ReadBuf::new(&mut buffer);
        Pin::new(&mut transport.stream).poll_read(cx, &mut read_buf).map_ok(|()| read_buf.filled().len())
    }
    // end: tokio-poll-read

    /// Feeds the first `count` bytes of the worker's buffer. No other task has run since they were read. Returns
    /// whether the buffer was full, so that more bytes may be available.
    fn feed(&self, count: usize, session: &mut Session) -> bool {
        match count {
            0 => session.closed(self.now()),
            _ => session.feed(&self.buffer.borrow()[..count], self.now()),
        }
        count == READ_BUFFER_SIZE
    }

    /// Reads once more at the deadline, because bytes may have arrived while the thread was busy with another page. The
    /// runtime has not polled the socket since then, so this reads from the socket directly.
    fn read_now(&self, transport: &Transport, session: &mut Session) {
        let mut buffer = self.buffer.borrow_mut();
        match socket::read_now(&transport.stream, &mut buffer) {
            Ok(0) => session.closed(self.now()),
            Ok(count) => session.feed(&buffer[..count], self.now()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => session.broke(socket::io_failure(&error)),
        }
    }

    fn report(&self, visit: Box<Visit>) {
        self.unfinished.set(self.unfinished.get() - 1);
        self.slots.record_fetch(&visit, self.unfinished.get());
        self.visit_sender.borrow_mut().push(visit);
        // `receive` sends it, together with the visits of all tasks that run before `receive` does.
        self.receiver.notify_one();
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
    fn a_waiting_task_is_small() {
        // Every waiting fetch has such a task, so the sizes must not grow unnoticed.
        let served = |state: Rc<WorkerState>, job: Box<Job>, (): ()| serve(state, job);
        assert!(future_size(served) <= 232, "{} bytes", future_size(served));
        assert!(future_size(drive) <= 112, "{} bytes", future_size(drive));
    }

    #[test]
    fn a_task_that_panics_ends_its_worker() {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        let rules = Arc::new(config.compile(0).unwrap());
        let worker = Worker {
            idle_limit: crate::worker::IdleLimit::new(&rules),
            rules,
            clock: Clock::start(),
            job_queue: JobQueue::new(),
            visit_sender: VisitSender::new(|visits: &mut Vec<Box<Visit>>| visits.clear()),
            notices: Notices::default(),
            file_shortage: FileShortage::default(),
            ready: std::sync::mpsc::channel().0,
        };
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        let slots = TaskSlots::new(&worker);
        let state = Rc::new(WorkerState::new(worker, slots));
        LocalSet::new().block_on(&runtime, async {
            let task = Rc::clone(&state);
            drop(spawn_local(async move {
                let _guard = PanicGuard(&task);
                panic!("a deliberate panic");
            }));
            receive(Rc::clone(&state)).await;
        });
        assert!(state.has_lost_job.get());
    }
}
