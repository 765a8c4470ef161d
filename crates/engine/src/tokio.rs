//! The `tokio` engine, the default: the coroutines of the `coroutines` engine on a production runtime.
//!
//! Each worker has a current-thread runtime, so tasks do not move between threads, and the data that they share needs no
//! locks. Two things differ from most programs on tokio, so that a waiting fetch takes little more memory than its
//! state. No task owns a read buffer: a socket that is ready is read into the thread's buffer. No task owns a timer of
//! tokio: all deadlines of a worker are in one [`Timers`], and one task sleeps until the next of them.
//!
//! Shared on purpose with the engines `coroutines` and `uring`: `worker_state`, `task_slots`, timers, and the names and
//! order of the functions in this file. What differs from `coroutines`:
//! - a socket of tokio reports readiness and reads in one call (`poll_read`);
//! - errors do not say what the connection was doing, because a task of tokio does not store its last
//!   step (`coroutines` stores it with `Executor::set_mark`);
//! - the runtime catches panics of tasks, so a guard reports them to the worker (`PanicGuard`);
//! - the timers need a task that sleeps (`fire_alarms`), where the hand-written executor asks them how long to sleep.
//!
//! A worker has a thread of its own ([`run`]), or is a task on a thread that it shares with workers of other crawls
//! ([`run_as_task`]). On a shared thread, wake-ups are not coalesced, because another crawl may have fast hosts.
//!
//! Invariant: this is the only file that uses tokio's networking. There is one task per connection. While the
//! connection is idle, its task waits.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use argiope_core::base::job::Job;
use argiope_core::crawl::session::{Session, SlotKey};
use argiope_core::crawl::visit::Visit;
use argiope_core::http::conn::Step;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::{Instant, sleep};

use crate::connecting::{ConnectStep, Connecting};
use crate::socket;
use crate::task_slots::SlotEvent;
use crate::timers::{Alarm, Timers};
use crate::worker::{READ_BUFFER_SIZE, Worker};
use crate::worker_state::{TaskRuntime, WorkerState, evict_on_shortage, receive};

// anchor: tokio-run
/// Runs a worker until it is told to stop.
pub fn run(worker: Worker) -> io::Result<()> {
    let state = Rc::new(WorkerState::new(worker, Rc::default()));
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().on_thread_park(state.slots.before_sleep()).build()?;
    // Tasks that are unfinished when `receive` returns are dropped with their sockets.
    first_tasks(&state).block_on(&runtime, receive(state))
}
// end: tokio-run

/// Like [`run`], as a task on the runtime of the calling thread.
pub async fn run_as_task(worker: Worker) -> io::Result<()> {
    let state = Rc::new(WorkerState::new(worker, Rc::default()));
    first_tasks(&state).run_until(receive(state)).await
}

/// The tasks of a worker, with those that are not about a connection.
fn first_tasks(state: &Rc<WorkerState<TokioTasks>>) -> LocalSet {
    state.worker.report_ready();
    let tasks = LocalSet::new();
    tasks.spawn_local(fire_alarms(Rc::clone(state)));
    tasks.spawn_local(evict_on_shortage(Rc::clone(state), state.runtime.alarm()));
    tasks
}

thread_local! {
    /// Sockets are read into this buffer, and its bytes are processed before any other task runs. Allocated after the first
    /// request is sent, because the allocation takes as long as sending the request.
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::default();
}

/// What the tasks of a worker need besides the runtime of tokio, which they find in a thread-local variable.
#[derive(Default)]
struct TokioTasks {
    timers: Rc<Timers>,
}

impl TokioTasks {
    fn alarm(&self) -> Alarm {
        Alarm::new(&self.timers)
    }
}

impl TaskRuntime for TokioTasks {
    fn spawn_connection(state: &Rc<WorkerState<Self>>, job: Box<Job>) {
        // Boxed, because the runtime rounds tasks up to multiples of 128 bytes, and this one would take 384.
        drop(spawn_local(Box::pin(serve(Rc::clone(state), job))));
    }
}

/// Reports the panic of a task to the worker, because the runtime does not propagate it.
struct PanicGuard<'a>(&'a WorkerState<TokioTasks>);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.report_lost_job();
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

/// Wakes the tasks whose deadline has passed. One sleep serves the deadlines of all tasks.
async fn fire_alarms(state: Rc<WorkerState<TokioTasks>>) {
    let timers = &state.runtime.timers;
    let mut alarm_clock = pin!(sleep(Duration::ZERO));
    poll_fn(|cx| {
        // This task is woken when an alarm is set that fires before all others.
        timers.watch(cx.waker());
        loop {
            timers.fire(state.now());
            let next = state.worker.clock.instant(timers.next()).map(Instant::from_std);
            let Some(next) = next else { return Poll::Pending };
            if alarm_clock.deadline() != next {
                alarm_clock.as_mut().reset(next);
            }
            ready!(alarm_clock.as_mut().poll(cx));
        }
    })
    .await
}

/// The life of a connection: connect, then drive the session until it closes.
///
/// A task is as large as the largest state that it holds across an `await`, so large values are boxed here.
async fn serve(state: Rc<WorkerState<TokioTasks>>, job: Box<Job>) {
    let _guard = PanicGuard(&state);
    let (mut transport, mut session) = match Box::pin(connect(&state, job)).await {
        Ok(connected) => connected,
        Err(visits) => return visits.into_iter().for_each(|visit| state.report(visit)),
    };
    drive(&state, &mut transport, &mut session).await;
    state.leave_pool(&mut transport.pooled);
}

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(state: &Rc<WorkerState<TokioTasks>>, job: Box<Job>) -> Result<(Transport, Session), Vec<Box<Visit>>> {
    let worker = &state.worker;
    let mut alarm = state.runtime.alarm();
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
async fn drive(state: &Rc<WorkerState<TokioTasks>>, transport: &mut Transport, session: &mut Session) {
    loop {
        state.deliver(session, &mut transport.pooled);
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
                state.accept(session, &mut transport.pooled, job);
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

/// The event that woke a waiting connection.
enum Event {
    Writable,
    /// This many bytes are in the thread's buffer; zero: the peer closed its side.
    Read(usize),
    /// The deadline has passed.
    Late,
    Failed(io::Error),
    /// A job for the connection, or its eviction.
    Slot(SlotEvent),
}

impl WorkerState<TokioTasks> {
    fn poll_event(
        &self,
        transport: &mut Transport,
        session: &Session,
        waits_to_write: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Event> {
        if let Poll::Ready(event) = self.slots.poll(session, &mut transport.pooled, self.now(), cx) {
            return Poll::Ready(Event::Slot(event));
        }
        let ready = if waits_to_write {
            transport.stream.poll_write_ready(cx).map_ok(|()| Event::Writable)
        } else {
            Self::poll_read(transport, cx).map_ok(Event::Read)
        };
        match ready {
            Poll::Ready(event) => Poll::Ready(event.unwrap_or_else(Event::Failed)),
            Poll::Pending => transport.alarm.poll(session.deadline(), self.now(), cx).map(|()| Event::Late),
        }
    }

    // anchor: tokio-poll-read
    /// Reads into the thread's buffer once there is something to read.
    fn poll_read(transport: &mut Transport, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            if buffer.is_empty() {
                *buffer = vec![0; READ_BUFFER_SIZE].into_boxed_slice();
            }
            let mut read_buf = ReadBuf::new(buffer);
            Pin::new(&mut transport.stream).poll_read(cx, &mut read_buf).map_ok(|()| read_buf.filled().len())
        })
    }
    // end: tokio-poll-read

    /// Feeds the first `count` bytes of the thread's buffer. No other task has run since they were read. Returns
    /// whether the buffer was full, so that more bytes may be available.
    fn feed(&self, count: usize, session: &mut Session) -> bool {
        match count {
            0 => session.closed(self.now()),
            _ => READ_BUFFER.with_borrow(|buffer| session.feed(&buffer[..count], self.now())),
        }
        count == READ_BUFFER_SIZE
    }

    /// Reads once more at the deadline, because bytes may have arrived while the thread was busy with another page. The
    /// runtime has not polled the socket since then, so this reads from the socket directly.
    fn read_now(&self, transport: &Transport, session: &mut Session) {
        READ_BUFFER.with_borrow_mut(|buffer| match socket::read_now(&transport.stream, buffer) {
            Ok(0) => session.closed(self.now()),
            Ok(count) => session.feed(&buffer[..count], self.now()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => session.broke(socket::io_failure(&error)),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use argiope_core::crawl::rules::Config;

    use super::*;
    use crate::worker::{FileShortage, Notices};
    use crate::{Clock, JobQueue, VisitSender};

    fn future_size<A, B, C, F: Future>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_waiting_task_is_small() {
        // Every waiting fetch has such a task, so the sizes must not grow unnoticed.
        let served = |state: Rc<WorkerState<TokioTasks>>, job: Box<Job>, (): ()| serve(state, job);
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
        let state = Rc::new(WorkerState::new(worker, Rc::default()));
        let (tasks, guarded) = (LocalSet::new(), Rc::clone(&state));
        tasks.spawn_local(async move {
            let _guard = PanicGuard(&guarded);
            panic!("a deliberate panic");
        });
        assert!(tasks.block_on(&runtime, receive(state)).is_err());
    }
}
