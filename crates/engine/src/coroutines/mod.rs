//! The `coroutines` engine: `async fn`s on a hand-written executor.
//!
//! The `callbacks` engine stores explicitly where a fetch stopped and how it continues. Here the compiler generates
//! this state: it is the coroutine. The code can be read from top to bottom, a connection is a local variable, and the
//! cost is the same. Read [`executor`] first (what a task and a waker are), then [`reactor`] (how a socket wakes a
//! task), `worker_state` (how jobs arrive and visits are sent), then this file.
//!
//! Between two `await`s nothing else runs on this thread. So shared state needs no locks: it may be borrowed freely as
//! long as no borrow lives across an `await`. If one did, the `RefCell` would panic at once.
//!
//! Invariant: there is one coroutine per connection. While the connection is idle, its coroutine waits for a job.
//!
//! Shared on purpose with the engines `tokio` and `uring`: `worker_state` and `task_slots` (the hand-over of jobs to
//! tasks), [timers](crate::timers), and the names and order of the functions in this file. What differs from `tokio`:
//! - this engine waits for readiness and reads afterwards; a socket of tokio does both in one call;
//! - its errors say what the connection was doing ([`executor::Executor::set_mark`]); tasks of tokio have no such mark;
//! - a panic of a coroutine unwinds through the executor and ends the worker; `tokio` catches panics of tasks.

pub mod executor;
pub mod reactor;
pub mod run_queue;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;
use std::task::{Context, Poll};

use argiope_core::Failure;
use argiope_core::base::job::Job;
use argiope_core::crawl::session::{Session, SlotKey};
use argiope_core::crawl::visit::Visit;
use argiope_core::http::conn::Step;

use crate::connecting::{ConnectStep, Connecting};
use crate::epoll::Interest;
use crate::socket;
use crate::task_slots::SlotEvent;
use crate::timers::Alarm;
use crate::worker::{READ_BUFFER_SIZE, Worker};
use crate::worker_state::{TaskRuntime, WorkerState, evict_on_shortage, receive};
use executor::{Executor, TaskEvent, yield_now};
use reactor::Socket;

/// Runs a worker until it is told to stop.
pub fn run(worker: Worker) -> io::Result<()> {
    run_observed(worker, None::<fn(TaskEvent)>)
}

/// Like [`run`], with an observer of the executor's events.
pub fn run_observed(worker: Worker, observer: Option<impl Fn(TaskEvent) + 'static>) -> io::Result<()> {
    let executor = Executor::new(worker.clock)?;
    worker.report_ready();
    if let Some(observer) = observer {
        executor.observe(observer);
    }
    let state = Rc::new(WorkerState::new(worker, Rc::clone(&executor)));
    executor.set_wake_delay(state.slots.wake_delay());
    executor.spawn(evict_on_shortage(Rc::clone(&state), executor.alarm()));
    executor.set_mark("waiting for jobs");
    // Tasks that are unfinished when `receive` returns are dropped with their sockets.
    executor.run(receive(state))?
}

impl TaskRuntime for Executor {
    fn spawn_connection(state: &Rc<WorkerState<Self>>, job: Box<Job>) {
        state.runtime.spawn(serve(Rc::clone(state), job));
    }
}

/// The socket of a session, with its timer and its slot in the pool.
struct Transport {
    socket: Socket,
    alarm: Alarm,
    /// The slot under which the session is in the pool.
    pooled: Option<SlotKey>,
}

// anchor: coroutines-serve
/// The life of a connection: connect, then drive the session until it closes.
///
/// A coroutine is as large as the largest state that it holds across an `await`. So large values are boxed: the job, the
/// data of the session, and even the coroutine of the race, which ends long before the response arrives.
async fn serve(state: Rc<WorkerState<Executor>>, job: Box<Job>) {
    let (mut transport, mut session) = match Box::pin(connect(&state, job)).await {
        Ok(connected) => connected,
        Err(visits) => return visits.into_iter().for_each(|visit| state.report(visit)),
    };
    drive(&state, &mut transport, &mut session).await;
    state.leave_pool(&mut transport.pooled);
}
// end: coroutines-serve

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(state: &Rc<WorkerState<Executor>>, job: Box<Job>) -> Result<(Transport, Session), Vec<Box<Visit>>> {
    state.runtime.set_mark("connecting");
    let worker = &state.worker;
    let mut alarm = state.runtime.alarm();
    let mut connecting = Connecting::new(worker, job, state.now());
    let open = |address| Ok(Socket::new(socket::begin_connect(address)?, state.runtime.reactor()));
    let connected = |attempt: &Socket| attempt.try_io(socket::connected);
    loop {
        match connecting.step(worker, open, connected, || state.slots.evict()) {
            ConnectStep::Connected(peer, socket) => {
                let mut waiting = state.slots.end_connecting(connecting.slot());
                let session = connecting.into_session(worker, peer, &mut waiting);
                state.start_all(waiting);
                let session = session.map_err(|visit| vec![visit])?;
                return Ok((Transport { socket, alarm, pooled: None }, session));
            }
            ConnectStep::Failed(failure) => {
                let waiting = state.slots.end_connecting(connecting.slot());
                return Err(connecting.into_failures(worker, &failure, waiting));
            }
            ConnectStep::Wait(until) => {
                poll_fn(|cx| {
                    // Poll every attempt, so that each of them can wake this coroutine.
                    let ended = |socket: &&Socket| socket.poll_ready(Interest::Writable, cx).is_ready();
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

// anchor: coroutines-drive
/// Does what the session needs until it closes. Every engine has this loop; here each wait is an `await`.
async fn drive(state: &Rc<WorkerState<Executor>>, transport: &mut Transport, session: &mut Session) {
    loop {
        state.deliver(session, &mut transport.pooled);
        let waits_for = match session.step() {
            Step::Write(bytes) => match transport.socket.try_io(|mut stream| stream.write(bytes)) {
                Ok(count) => {
                    session.wrote(count, state.now());
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Interest::Writable,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    session.broke(state.io_failure(&error));
                    continue;
                }
            },
            Step::Read => Interest::Readable,
            Step::Pause => {
                state.runtime.set_mark("paused");
                yield_now().await;
                let until = session.deadline().min(state.now() + session.pause_duration());
                poll_fn(|cx| transport.alarm.poll(until, state.now(), cx)).await;
                session.expire(state.now());
                session.resume(state.now());
                continue;
            }
            Step::Done => return,
        };
        state.mark_wait(waits_for, session);
        let has_more = match poll_fn(|cx| state.poll_event(transport, session, waits_for, cx)).await {
            Event::Ready => waits_for == Interest::Readable && state.read(transport, session),
            Event::Late => {
                // Read before checking the deadline: bytes that arrived while this thread was busy with another page
                // must not count as a timeout.
                if waits_for == Interest::Readable {
                    state.read(transport, session);
                }
                session.expire(state.now());
                false
            }
            Event::Failed(error) => {
                session.broke(state.io_failure(&error));
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
// end: coroutines-drive

/// The event that wakes a waiting connection.
enum Event {
    /// The socket is ready.
    Ready,
    /// The deadline has passed.
    Late,
    Failed(io::Error),
    /// A job for the connection, or its eviction.
    Slot(SlotEvent),
}

impl WorkerState<Executor> {
    fn poll_event(
        &self,
        transport: &mut Transport,
        session: &Session,
        interest: Interest,
        cx: &Context<'_>,
    ) -> Poll<Event> {
        if let Poll::Ready(event) = self.slots.poll(session, &mut transport.pooled, self.now(), cx) {
            return Poll::Ready(Event::Slot(event));
        }
        match transport.socket.poll_ready(interest, cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Event::Ready),
            Poll::Ready(Err(error)) => Poll::Ready(Event::Failed(error)),
            Poll::Pending => transport.alarm.poll(session.deadline(), self.now(), cx).map(|()| Event::Late),
        }
    }

    /// Reads available bytes and feeds them to the session. The buffer is needed only during this call, so the thread
    /// has one for all connections. Returns whether the buffer was filled.
    fn read(&self, transport: &Transport, session: &mut Session) -> bool {
        let mut buffer = self.runtime.reactor().buffer();
        match transport.socket.try_io(|mut stream| stream.read(&mut buffer)) {
            Ok(0) => session.closed(self.now()),
            Ok(count) => {
                session.feed(&buffer[..count], self.now());
                return count == READ_BUFFER_SIZE;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => session.broke(self.io_failure(&error)),
        }
        false
    }

    /// Marks what the connection waits for.
    fn mark_wait(&self, waits_for: Interest, session: &Session) {
        self.runtime.set_mark(match waits_for {
            Interest::Readable if session.is_idle() => "idle",
            Interest::Readable => "reading",
            Interest::Writable => "writing",
        });
    }

    // anchor: coroutines-failure
    /// The failure of the connection, with the current mark in its message. The mark may have been set many awaits ago.
    fn io_failure(&self, error: &io::Error) -> Failure {
        let mut failure = socket::io_failure(error);
        failure.message = format!("{} (while {})", failure.message, self.runtime.mark()).into();
        failure
    }
    // end: coroutines-failure
}
