//! The `uring` engine: waits for completed operations (io_uring), not for readiness. Linux only.
//!
//! The engines on epoll wait until a socket can be read, and then read it. This one submits the whole operation to the
//! kernel and waits for its result. One system call submits all operations that were queued since the last one and
//! takes all results. Read the `coroutines` engine first: the executor, the timers and the shared state (`worker_state`)
//! are the same, and the functions have the same names. Three things differ:
//!
//! - **Buffers.** Between submission and completion a buffer belongs to the kernel. So bytes to send are passed by value.
//!   Bytes that arrive are in a buffer of the ring, which the kernel chooses when they arrive ([`ring`]).
//! - **Cancelling.** Dropping a future does not end its operation. It only submits a cancellation, and the result may
//!   still arrive. So a connection with a pending receive is shut down before it is dropped.
//! - **Descriptors.** Sockets are entries in tables of the rings, so the limit on open files does not limit fetches. For
//!   the same reason, this engine does not evict idle connections when other sockets need file descriptors.
//!
//! Invariant: one coroutine per connection, and at most one pending receive per connection.

pub mod ring;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use argiope_core::base::job::Job;
use argiope_core::crawl::session::{Session, SlotKey};
use argiope_core::crawl::visit::Visit;
use argiope_core::http::conn::Step;
use argiope_core::{ErrorKind, Failure};

use crate::connecting::{ConnectStep, Connecting};
use crate::coroutines::executor::{Executor, yield_now};
use crate::socket;
use crate::task_slots::SlotEvent;
use crate::timers::Alarm;
use crate::worker::Worker;
use crate::worker_state::{TaskRuntime, WorkerState, receive};
use ring::{Attempt, Connection, Rings, SocketReceiver};

/// Runs a worker until it is told to stop.
pub fn run(worker: Worker) -> io::Result<()> {
    let executor = Executor::with_reactor(worker.clock, Rings::new(worker.rules.concurrency)?);
    worker.report_ready();
    let state = Rc::new(WorkerState::new(worker, Rc::clone(&executor)));
    executor.set_wake_delay(state.slots.wake_delay());
    // Tasks that are unfinished when `receive` returns are cancelled, and their sockets are closed with the ring.
    executor.run(receive(state))?
}

/// Whether this system has io_uring and allows it.
pub fn probe() -> io::Result<()> {
    Rings::new(1).map(drop)
}

impl TaskRuntime for Executor<Rings> {
    fn spawn_connection(state: &Rc<WorkerState<Self>>, job: Box<Job>) {
        // The memory of a coroutine has room for its arguments until it ends. So the job is not an argument of `serve`:
        // it belongs to the race, which is boxed and ends early.
        let own_state = Rc::clone(state);
        let connecting = async move { (connect(&own_state, job).await, own_state) };
        state.runtime.spawn(serve(Box::pin(connecting)));
    }
}

/// A connection that is being served. It is one struct, so that the coroutine holds only one reference while it waits.
struct Serving<'a> {
    state: Rc<WorkerState<Executor<Rings>>>,
    receiver: SocketReceiver<'a>,
    session: Session,
    alarm: Alarm,
    /// The slot under which the session is in the pool.
    pooled: Option<SlotKey>,
}

/// A new connection with its session; the visits of the jobs if there is none.
type Connected = Result<(Connection, Alarm, Session), Vec<Box<Visit>>>;

/// The life of a connection: connect, then drive the session until it closes.
async fn serve(connecting: Pin<Box<impl Future<Output = (Connected, Rc<WorkerState<Executor<Rings>>>)>>>) {
    let (connection, alarm, session, state) = match connecting.await {
        (Ok((connection, alarm, session)), state) => (connection, alarm, session, state),
        (Err(visits), state) => return visits.into_iter().for_each(|visit| state.report(visit)),
    };
    let mut serving = Serving { state, receiver: connection.receiver(), session, alarm, pooled: None };
    drive(&mut serving).await;
    serving.state.leave_pool(&mut serving.pooled);
    if serving.receiver.is_running() {
        // Boxed for the same reason as `send` in `drive`.
        Box::pin(connection.shut_down()).await;
    }
}

/// Runs the race between the host's addresses. Losing attempts are cancelled by being dropped.
async fn connect(state: &Rc<WorkerState<Executor<Rings>>>, job: Box<Job>) -> Connected {
    let worker = &state.worker;
    let mut alarm = state.runtime.alarm();
    poll_fn(|cx| state.runtime.reactor().poll_start(cx)).await;
    let mut connecting = Connecting::new(worker, job, state.now());
    let open = |address| state.runtime.reactor().connect(address);
    loop {
        match connecting.step(worker, open, Attempt::is_connected, || state.slots.evict()) {
            ConnectStep::Connected(peer, attempt) => {
                let mut jobs = state.slots.end_connecting(connecting.slot());
                let Some(connection) = attempt.into_connection() else {
                    let failure = Failure::new(ErrorKind::Unreachable, "the connection was lost");
                    return Err(connecting.into_failures(worker, &failure, jobs));
                };
                let session = connecting.into_session(worker, peer, &mut jobs);
                state.start_all(jobs);
                let session = session.map_err(|visit| vec![visit])?;
                return Ok((connection, alarm, session));
            }
            ConnectStep::Failed(failure) => {
                let jobs = state.slots.end_connecting(connecting.slot());
                return Err(connecting.into_failures(worker, &failure, jobs));
            }
            ConnectStep::Wait(until) => {
                poll_fn(|cx| {
                    // Poll every attempt, so that each of them can wake this coroutine.
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
/// Does what the session needs until it closes. It does not check whether a socket is ready: it sends and receives, and
/// is woken when the operation is complete.
async fn drive(serving: &mut Serving<'_>) {
    loop {
        serving.state.deliver(&mut serving.session, &mut serving.pooled);
        match serving.session.step() {
            Step::Write(bytes) => {
                let bytes = bytes.to_vec();
                // Boxed, so that the task is not larger while it waits for a response.
                Box::pin(send(serving, bytes)).await;
                continue;
            }
            Step::Read => {}
            Step::Pause => {
                Box::pin(pause(serving)).await;
                continue;
            }
            Step::Done => return,
        }
        match poll_fn(|cx| serving.poll_event(cx)).await {
            Event::Fed { has_more: false } => {}
            // Yield, so that other connections are served.
            Event::Fed { has_more: true } => yield_now().await,
            Event::Late => {
                // Bytes may have arrived while this thread was busy with another page. They must not count as a
                // timeout. Their completion is in the ring, which is polled before this coroutine runs again.
                yield_now().await;
                poll_fn(|cx| Poll::Ready(serving.poll_received(cx).is_ready())).await;
                serving.session.expire(serving.state.now());
            }
            Event::Slot(SlotEvent::Job(job)) => serving.state.accept(&mut serving.session, &mut serving.pooled, job),
            Event::Slot(SlotEvent::Evicted) => return,
        }
    }
}
// end: uring-drive

/// Sends bytes of the session. The receive of the response is submitted in the same system call.
async fn send(serving: &mut Serving<'_>, bytes: Vec<u8>) {
    let Serving { state, receiver, session, alarm, pooled } = serving;
    let mut sending = receiver.connection().send(bytes);
    loop {
        let sent = poll_fn(|cx| {
            if let Poll::Ready(result) = Pin::new(&mut sending).poll(cx) {
                return Poll::Ready(Some(result));
            }
            receiver.start(cx);
            alarm.poll(session.deadline(), state.now(), cx).map(|()| None)
        })
        .await;
        match sent {
            Some(Ok(count)) => return session.wrote(count, state.now()),
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => return,
            Some(Err(error)) => return session.broke(socket::io_failure(&error)),
            None => session.expire(state.now()),
        }
        if matches!(session.step(), Step::Done) {
            return;
        }
        if !session.is_http2() {
            // It is unknown how much of the request was sent.
            return session.broke(Failure::new(ErrorKind::Reset, "the peer did not read the request in time"));
        }
        // One of several streams has expired; the bytes being sent belong to all of them.
        state.deliver(session, pooled);
        yield_now().await;
    }
}

/// Waits until the session may read again. If the session only yields, other tasks run first.
async fn pause(serving: &mut Serving<'_>) {
    let Serving { state, session, alarm, .. } = serving;
    yield_now().await;
    let until = session.deadline().min(state.now() + session.pause_duration());
    poll_fn(|cx| alarm.poll(until, state.now(), cx)).await;
    session.expire(state.now());
    session.resume(state.now());
}

/// The event that wakes a waiting connection.
enum Event {
    /// The bytes that have arrived, or the end of the connection, were passed to the session.
    Fed { has_more: bool },
    /// The deadline has passed.
    Late,
    /// A job for the connection, or its eviction.
    Slot(SlotEvent),
}

impl Serving<'_> {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let Self { state, session, pooled, .. } = self;
        if let Poll::Ready(event) = state.slots.poll(session, pooled, state.now(), cx) {
            return Poll::Ready(Event::Slot(event));
        }
        match self.poll_received(cx) {
            Poll::Ready(has_more) => Poll::Ready(Event::Fed { has_more }),
            Poll::Pending => self.alarm.poll(self.session.deadline(), self.state.now(), cx).map(|()| Event::Late),
        }
    }

    /// Feeds the bytes that have arrived to the session. Ready with whether more may be available.
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Self { state, receiver, session, .. } = self;
        let mut has_more = false;
        match ready!(receiver.poll(cx)) {
            Ok(bytes) if bytes.is_empty() => session.closed(state.now()),
            Ok(bytes) => {
                session.feed(&bytes, state.now());
                has_more = bytes.len() == bytes.capacity();
            }
            Err(error) => session.broke(socket::io_failure(&error)),
        }
        Poll::Ready(has_more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_size<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_waiting_connection_is_small() {
        // The next larger size class of the allocator is 224 bytes.
        let served = |connecting: Pin<Box<std::future::Pending<_>>>| serve(connecting);
        assert!(future_size(served) <= 192, "{} bytes", future_size(served));
    }
}
