//! The `uring` engine: waits for completed operations (io_uring), not for readiness. Linux only.
//!
//! The other engines ask the kernel *when* a socket can be read, and then read it. This one hands the kernel the whole
//! operation and is told when it is done. One system call submits all operations that were queued since the last one
//! and takes all results. Read the `coroutines` engine first: the executor, the timers and the shared state
//! ([`worker_state`](crate::coroutines::worker_state)) are the same, and the functions have the same names. Three
//! things differ, all because the kernel works independently:
//!
//! - **Buffers.** Between submission and completion a buffer belongs to the kernel. So bytes to send are handed over by
//!   value, and bytes that arrive are in a buffer of the ring, which the kernel chooses when they arrive ([`ring`]).
//! - **Cancelling.** Dropping a future does not end its operation: the kernel is asked to cancel it, and the result may
//!   still arrive. A connection with a pending receive is shut down before it is dropped.
//! - **Descriptors.** Sockets are entries in tables of the rings, so the limit on open files does not limit fetches.
//!
//! Invariant: one coroutine per connection, and at most one pending receive per connection.

pub mod ring;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use argiope_core::http::conn::Step;
use argiope_core::http::session::{Session, SlotKey};
use argiope_core::schedule::job::Job;
use argiope_core::visit::Visit;
use argiope_core::{ErrorKind, Failure};

use crate::connecting::{ConnectStep, Connecting};
use crate::coroutines::executor::{Executor, yield_now};
use crate::coroutines::worker_state::{ServeConnection, WorkerState, receive};
use crate::socket;
use crate::task_slots::SlotEvent;
use crate::timers::Alarm;
use crate::worker::Worker;
use ring::{Attempt, Connection, ReceivedBytes, Rings, SocketReceiver};

/// Runs a worker until it is told to stop.
pub fn run(worker: Worker) -> io::Result<()> {
    let executor = Executor::on(worker.clock, Rings::new(worker.rules.concurrency)?);
    worker.report_ready();
    let state = Rc::new(WorkerState::new(worker, &executor));
    // Tasks that are unfinished when `receive` returns are cancelled, and their sockets are closed with the ring.
    executor.run(receive(state))
}

/// Whether this system has io_uring and allows it.
pub fn probe() -> io::Result<()> {
    Rings::new(1).map(drop)
}

impl ServeConnection for Rings {
    fn serve(state: Rc<WorkerState<Self>>) -> impl Future<Output = ()> + 'static {
        serve(state)
    }
}

/// The state of a session besides its connection.
struct Waiting {
    alarm: Alarm,
    /// The slot under which the session is in the pool.
    pooled: Option<SlotKey>,
}

/// The life of a connection: connect, then drive the session until it closes.
async fn serve(state: Rc<WorkerState<Rings>>) {
    let job = state.work.get().await;
    let (connection, mut waiting, mut session) = match Box::pin(connect(&state, job)).await {
        Ok(connected) => connected,
        Err(visits) => return visits.into_iter().for_each(|visit| state.report(visit)),
    };
    let mut receiver = connection.receiver();
    drive(&state, &connection, &mut receiver, &mut waiting, &mut session).await;
    state.leave_pool(&mut waiting.pooled);
    if receiver.is_running() {
        connection.shut_down().await;
    }
}

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(
    state: &Rc<WorkerState<Rings>>,
    job: Box<Job>,
) -> Result<(Connection, Waiting, Session), Vec<Box<Visit>>> {
    let worker = &state.worker;
    let mut alarm = state.executor.alarm();
    let mut connecting = Connecting::new(worker, job, state.now());
    let open = |address| state.executor.reactor().connect(address);
    loop {
        match connecting.step(worker, open, Attempt::is_connected, || state.slots.evict()) {
            ConnectStep::Connected(peer, attempt) => {
                let mut jobs = state.slots.end_connecting(connecting.slot());
                let Some(connection) = attempt.into_connection() else {
                    let failure = Failure::new(ErrorKind::Unreachable, "the connection was lost");
                    return Err(connecting.into_failures(worker, &failure, jobs));
                };
                let session = connecting.into_session(worker, peer, &mut jobs);
                state.restart_all(jobs);
                let session = session.map_err(|visit| vec![visit])?;
                return Ok((connection, Waiting { alarm, pooled: None }, session));
            }
            ConnectStep::Failed(failure) => {
                let jobs = state.slots.end_connecting(connecting.slot());
                return Err(connecting.into_failures(worker, &failure, jobs));
            }
            ConnectStep::Wait(until) => {
                poll_fn(|cx| {
                    // Every attempt is polled, so that every one of them can wake this coroutine.
                    match connecting.sockets().filter(|attempt| attempt.poll(cx).is_ready()).count() {
                        0 => alarm.poll(until, state.now(), cx),
                        _ => Poll::Ready(()),
                    }
                })
                .await;
            }
        }
    }
}

// anchor: uring-drive
/// Does what the session needs until it closes. Nothing here asks whether a socket is ready: it sends, it receives, and
/// it is woken when that is done.
async fn drive<'a>(
    state: &Rc<WorkerState<Rings>>,
    connection: &'a Connection,
    receiver: &mut SocketReceiver<'a>,
    waiting: &mut Waiting,
    session: &mut Session,
) {
    loop {
        state.deliver(session);
        if session.free_capacity() == 0 {
            state.leave_pool(&mut waiting.pooled);
        }
        match session.step() {
            Step::Write(bytes) => {
                let bytes = bytes.to_vec();
                // Boxed, so that the task is not larger while it waits for a response.
                Box::pin(send(state, connection, receiver, waiting, session, bytes)).await;
                continue;
            }
            Step::Read => {}
            Step::Pause => {
                yield_now().await;
                let until = session.deadline().min(state.now() + session.pause());
                poll_fn(|cx| waiting.alarm.poll(until, state.now(), cx)).await;
                session.expire(state.now());
                session.resume(state.now());
                continue;
            }
            Step::Done => return,
        }
        match poll_fn(|cx| state.poll_event(receiver, waiting, session, cx)).await {
            Event::Received(result) => {
                if state.feed(result, session) {
                    // Yield, so that other connections are served.
                    yield_now().await;
                }
            }
            Event::Late => {
                // Take bytes that arrived while this thread was busy with another page: they must not count as a
                // timeout. Their completion is in the ring, which is polled before this coroutine runs again.
                yield_now().await;
                let received = poll_fn(|cx| Poll::Ready(receiver.poll(cx))).await;
                if let Poll::Ready(result) = received {
                    state.feed(result, session);
                }
                session.expire(state.now());
            }
            Event::Slot(SlotEvent::Job(job)) => state.accept(&mut waiting.pooled, session, job),
            Event::Slot(SlotEvent::Evicted) => return,
        }
    }
}
// end: uring-drive

/// Sends bytes of the session. The receive of the response is handed to the kernel in the same system call.
async fn send<'a>(
    state: &Rc<WorkerState<Rings>>,
    connection: &'a Connection,
    receiver: &mut SocketReceiver<'a>,
    waiting: &mut Waiting,
    session: &mut Session,
    bytes: Vec<u8>,
) {
    let mut sending = connection.send(bytes);
    loop {
        let sent = poll_fn(|cx| {
            if let Poll::Ready(result) = Pin::new(&mut sending).poll(cx) {
                return Poll::Ready(Some(result));
            }
            receiver.start(cx);
            waiting.alarm.poll(session.deadline(), state.now(), cx).map(|()| None)
        })
        .await;
        match sent {
            Some(Ok(count)) => return session.wrote(count, state.now()),
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => return,
            Some(Err(error)) => return session.broke(socket::broken(&error)),
            None => session.expire(state.now()),
        }
        if matches!(session.step(), Step::Done) {
            return;
        }
        if !session.is_http2() {
            // It is unknown how much of the request was sent.
            return session.broke(Failure::new(ErrorKind::Reset, "the peer did not take the request"));
        }
        // One of several streams has expired; the bytes being sent belong to all of them.
        state.deliver(session);
        yield_now().await;
    }
}

/// The event that wakes a waiting connection.
enum Event {
    Received(io::Result<ReceivedBytes>),
    /// The deadline has passed.
    Late,
    /// A job for the connection, or its eviction.
    Slot(SlotEvent),
}

impl WorkerState<Rings> {
    fn poll_event(
        &self,
        receiver: &mut SocketReceiver<'_>,
        waiting: &mut Waiting,
        session: &Session,
        cx: &mut Context<'_>,
    ) -> Poll<Event> {
        if (session.free_capacity() > 0 || waiting.pooled.is_some())
            && let Poll::Ready(event) = self.slots.poll(session, &mut waiting.pooled, self.now(), cx)
        {
            return Poll::Ready(Event::Slot(event));
        }
        match receiver.poll(cx) {
            Poll::Ready(result) => Poll::Ready(Event::Received(result)),
            Poll::Pending => waiting.alarm.poll(session.deadline(), self.now(), cx).map(|()| Event::Late),
        }
    }

    /// Feeds the bytes that have arrived. Returns whether more may be available.
    fn feed(&self, result: io::Result<ReceivedBytes>, session: &mut Session) -> bool {
        match result {
            Ok(bytes) if bytes.is_empty() => session.closed(self.now()),
            Ok(bytes) => {
                session.feed(&bytes, self.now());
                return bytes.len() == bytes.capacity();
            }
            Err(error) => session.broke(socket::broken(&error)),
        }
        false
    }
}
