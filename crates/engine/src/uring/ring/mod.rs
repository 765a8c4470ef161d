//! [`Rings`]: connect, send and receive as io_uring operations.
//!
//! Invariant: this is the only file that uses io_uring. It does so through the crate `a10`, which keeps buffers alive
//! for as long as the kernel may write to them.
//!
//! A socket here is a *direct descriptor*: an entry in a table of the ring, not a file descriptor of the process. The
//! kernel limits the table of one ring to the number of open files, but it does not limit the number of rings. So a
//! worker adds rings as it needs them. It sleeps in the first one and checks the others every `RING_CHECK_INTERVAL`.
//!
//! No connection owns a read buffer. Each ring has a few, and the kernel takes one when bytes have arrived. A receive
//! that waits takes only an entry in the kernel and a waker.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use a10::fd::Kind;
use a10::io::{ReadBuf, ReadBufPool};
use a10::net::{Domain, Recv, Type, option};
use a10::{AsyncFd, Ring, SubmissionQueue};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::coroutines::run_queue::{Park, RunQueue};
use crate::epoll::PollWaker;

/// Size of a submission queue. When it is full, further operations wait for the next system call, which submits the
/// queued ones.
const SUBMISSIONS: u32 = 1024;

/// How many connection attempts a ring may start between two system calls. An attempt needs five operations, so the
/// queue has room for all operations of these attempts. The queue must not become full because of a limitation of
/// `a10`: an operation that waits for room in the queue can lose its wake-up if operations that wait before it are
/// dropped.
const MAX_STARTS: usize = SUBMISSIONS as usize * 3 / 16;

/// Size of a completion queue. When it is full, the kernel stores further results itself. The kernel's hash table of
/// pending operations, which it searches for each cancellation, grows with this size, up to 256 buckets at 8,192.
const COMPLETIONS: u32 = 8192;

/// Bounds of the number of connections per ring.
const MAX_CONNECTIONS: usize = 16 << 10;
const MIN_CONNECTIONS: usize = 512;

/// The descriptor table has one spare entry per this many connections. The kernel needs it for sockets whose task was
/// cancelled while they were being opened.
const CONNECTIONS_PER_SPARE: usize = 8;

/// How long a worker with several rings sleeps at most. It sleeps in the first ring. Events of the other rings do not
/// end its sleep, because their task work is deferred. Checking a ring takes less than a microsecond.
const RING_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// The kernel completes at least this many cancelled operations per system call on a ring: 20 since Linux 6.13, all of
/// them in older versions.
const CANCELLED_PER_CALL: usize = 16;

/// Maximum number of rings per worker.
const MAX_RINGS: usize = 256;

/// Read buffers of the first ring: their number and their size.
const BUFFERS: (u16, u32) = (64, 64 << 10);

/// Read buffers of every further ring. They are fewer and smaller: a worker that needs several rings has many
/// connections, and most of them wait.
const MORE_BUFFERS: (u16, u32) = (32, 16 << 10);

/// The rings of one worker.
pub struct Rings {
    rings: RefCell<Vec<Rc<ConnectionRing>>>,
    /// Connections per ring.
    capacity: usize,
    waker: PollWaker,
    /// Reads the eventfd of `waker` in a loop. When another thread uses the waker, the pending read completes and ends
    /// the sleep of the worker.
    wakeups: RefCell<Pin<Box<dyn Future<Output = ()>>>>,
}

/// One ring with its read buffers.
struct ConnectionRing {
    ring: RefCell<Ring>,
    queue: SubmissionQueue,
    buffers: ReadBufPool,
    buffer_count: usize,
    /// Tasks whose bytes arrived when no read buffer was free.
    waiting_for_buffer: RefCell<VecDeque<Waker>>,
    /// Tasks that wait to connect because [`MAX_STARTS`] others have started since the last system call.
    waiting_to_start: RefCell<VecDeque<Waker>>,
    /// Connection attempts that have started since the last system call.
    starts: Cell<usize>,
    /// Connections and attempts in this ring.
    connections: Cell<usize>,
    /// Receives that were dropped while they were pending, since the last [`Park::submit_queued`].
    dropped_receives: Cell<usize>,
}

impl Rings {
    /// Creates the first ring, for up to this many connections. More rings are added when they are needed.
    pub fn new(connections: usize) -> io::Result<Self> {
        // The upper bound is a number of files that no process reaches.
        let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files.min(1 << 32) as usize);
        // The descriptor table, with its spare entries, may not be larger than the limit on open files.
        let max_capacity = files / (CONNECTIONS_PER_SPARE + 1) * CONNECTIONS_PER_SPARE;
        let capacity = connections.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS).min(max_capacity).max(1);
        let (waker, file) = PollWaker::with_file()?;
        let first = ConnectionRing::new(capacity, BUFFERS)?;
        let file = AsyncFd::new(file, first.queue.clone());
        let wakeups = async move {
            loop {
                // The count that is read is not needed. An error means that the ring is being closed.
                let _ = file.read(Vec::with_capacity(8)).await;
            }
        };
        Ok(Self {
            rings: RefCell::new(vec![Rc::new(first)]),
            capacity,
            waker,
            wakeups: RefCell::new(Box::pin(wakeups)),
        })
    }

    /// Ready if a connection attempt that is made now starts at once. Only then may the time limit of the attempt
    /// begin, because a wait for our own queue says nothing about the host.
    pub fn poll_start(&self, cx: &Context<'_>) -> Poll<()> {
        let rings = self.rings.borrow();
        match rings.iter().rev().find(|ring| ring.connections.get() < self.capacity) {
            Some(ring) if ring.starts.get() >= MAX_STARTS => ring.wait_for_start(cx),
            // If all rings are full, a new ring is created for the attempt.
            _ => Poll::Ready(()),
        }
    }

    /// Starts to connect.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Attempt> {
        let reservation = self.reserve()?;
        let connect = async move {
            let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
            poll_fn(|cx| reservation.0.poll_start(cx)).await;
            let queue = reservation.0.queue.clone();
            let fd = a10::net::socket(queue, domain, Type::STREAM, None).kind(Kind::Direct).await?;
            connect_without_delay(&fd, address).await?;
            Ok(Connection { fd, reservation })
        };
        Ok(Attempt(RefCell::new(AttemptState::Running(Box::pin(connect)))))
    }

    /// Reserves room for a connection in a ring, or in a new ring if all are full.
    fn reserve(&self) -> io::Result<Reservation> {
        let mut rings = self.rings.borrow_mut();
        let ring = match rings.iter().rev().find(|ring| ring.connections.get() < self.capacity) {
            Some(ring) => Rc::clone(ring),
            None => {
                if rings.len() >= MAX_RINGS {
                    return Err(Errno::MFILE.into());
                }
                let ring = Rc::new(ConnectionRing::new(self.capacity, MORE_BUFFERS)?);
                rings.push(Rc::clone(&ring));
                ring
            }
        };
        ring.connections.set(ring.connections.get() + 1);
        Ok(Reservation(ring))
    }
}

impl Park for Rings {
    fn park(&self, timeout: Option<Duration>, run_queue: &RunQueue) -> io::Result<()> {
        let rings = self.rings.borrow();
        let Some(first) = rings.first() else { return Ok(()) };
        for ring in rings.iter() {
            ring.wake_waiting();
            ring.poll(Some(Duration::ZERO))?;
        }
        if timeout.is_some_and(|span| span.is_zero()) || !run_queue.may_sleep() {
            return Ok(());
        }
        // Start the read of the eventfd, with which other threads end the sleep. The queue has room for it, because the
        // loop above has submitted all operations. The future never ends; polling it starts the next read.
        let _ = self.wakeups.borrow_mut().as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let check = (rings.len() > 1).then_some(RING_CHECK_INTERVAL);
        let polled = first.poll(timeout.into_iter().chain(check).min());
        run_queue.end_sleep();
        polled
    }

    /// Submits the queued operations of cancelled tasks: cancellations and closes. If a queue became full, further
    /// cancellations would be lost, and every further socket would need a separate system call to close it. The kernel
    /// also completes the cancelled operations here, because it takes quadratic time to drop a ring with many of them.
    fn submit_queued(&self) -> io::Result<()> {
        self.rings.borrow().iter().try_for_each(|ring| {
            let calls = 1 + ring.dropped_receives.take().div_ceil(CANCELLED_PER_CALL);
            (0..calls).try_for_each(|_| ring.poll(Some(Duration::ZERO)))
        })
    }

    fn waker(&self) -> PollWaker {
        self.waker.clone()
    }
}

impl ConnectionRing {
    /// A ring for up to `capacity` connections, with `count` read buffers of this size.
    fn new(capacity: usize, (count, size): (u16, u32)) -> io::Result<Self> {
        // The number fits into 32 bits: `capacity` is at most `MAX_CONNECTIONS`.
        let table_size = (capacity + capacity.div_ceil(CONNECTIONS_PER_SPARE)) as u32;
        // Only this thread uses the ring, and only when it polls. So the kernel defers its work until then and does not
        // interrupt the thread (`defer_task_run`).
        let ring = Ring::config()
            .with_submission_queue_size(SUBMISSIONS)
            .with_completion_queue_size(COMPLETIONS)
            .single_issuer()
            .defer_task_run()
            .with_direct_descriptors(table_size)
            .build()?;
        let queue = ring.sq();
        let buffers = ReadBufPool::new(queue.clone(), count, size)?;
        Ok(Self {
            ring: RefCell::new(ring),
            queue,
            buffers,
            buffer_count: count.into(),
            waiting_for_buffer: RefCell::default(),
            waiting_to_start: RefCell::default(),
            starts: Cell::new(0),
            connections: Cell::new(0),
            dropped_receives: Cell::new(0),
        })
    }

    /// Wakes as many waiting tasks as there are buffers. All buffers are free again when the thread is about to sleep.
    /// If all tasks were woken, most would find no free buffer, and a burst of responses would take quadratic time. The
    /// same applies to tasks that wait to connect.
    fn wake_waiting(&self) {
        for (waiting, max) in [(&self.waiting_for_buffer, self.buffer_count), (&self.waiting_to_start, MAX_STARTS)] {
            let mut waiting = waiting.borrow_mut();
            let count = waiting.len().min(max);
            waiting.drain(..count).for_each(Waker::wake);
        }
    }

    /// Ready if another connection attempt may start now. If so, counts it.
    fn poll_start(&self, cx: &Context<'_>) -> Poll<()> {
        if self.starts.get() < MAX_STARTS {
            self.starts.set(self.starts.get() + 1);
            return Poll::Ready(());
        }
        self.wait_for_start(cx)
    }

    /// Queues this task to be woken after the next system call.
    fn wait_for_start(&self, cx: &Context<'_>) -> Poll<()> {
        self.waiting_to_start.borrow_mut().push_back(cx.waker().clone());
        Poll::Pending
    }

    /// Submits the queued operations, waits for a result until the timeout, and wakes the tasks whose operation is
    /// complete.
    fn poll(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.starts.set(0);
        match self.ring.borrow_mut().poll(timeout) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::TimedOut) => Ok(()),
            result => result,
        }
    }
}

/// Connects, and disables Nagle's algorithm. Requests are written in one piece, so the algorithm would only delay them.
/// Both operations are submitted together. An old kernel does not support setting the option; this error is ignored.
async fn connect_without_delay(fd: &AsyncFd, address: SocketAddr) -> io::Result<()> {
    let mut no_delay = Some(fd.set_socket_option::<option::TcpNoDelay>(true));
    let mut connect = fd.connect(address);
    poll_fn(|cx| {
        if no_delay.as_mut().is_some_and(|option| Pin::new(option).poll(cx).is_ready()) {
            no_delay = None;
        }
        let connected = ready!(Pin::new(&mut connect).poll(cx));
        // If the option is still being set, its result does not matter.
        Poll::Ready(connected)
    })
    .await
}

/// Room for one connection in a ring. Dropping it frees the room.
struct Reservation(Rc<ConnectionRing>);

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

/// A connection attempt. Dropping it cancels it.
pub struct Attempt(RefCell<AttemptState>);

/// The progress of a connection attempt.
enum AttemptState {
    Running(Pin<Box<dyn Future<Output = io::Result<Connection>>>>),
    Ended(io::Result<Connection>),
    /// The attempt failed, and the error was returned.
    Reported,
}

impl Attempt {
    /// Ready when the attempt has ended: then [`Self::is_connected`] returns the result.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.borrow_mut();
        if let AttemptState::Running(future) = &mut *state {
            let result = ready!(future.as_mut().poll(cx));
            *state = AttemptState::Ended(result);
        }
        Poll::Ready(())
    }

    /// The state of the attempt: `Ok(true)` connected, `Ok(false)` in progress, `Err` failed.
    pub fn is_connected(&self) -> io::Result<bool> {
        let mut state = self.0.borrow_mut();
        match std::mem::replace(&mut *state, AttemptState::Reported) {
            AttemptState::Ended(Err(error)) => Err(error),
            other => {
                let is_connected = matches!(other, AttemptState::Ended(Ok(_)));
                *state = other;
                Ok(is_connected)
            }
        }
    }

    /// The connection, if the attempt has succeeded.
    pub fn into_connection(self) -> Option<Connection> {
        match self.0.into_inner() {
            AttemptState::Ended(result) => result.ok(),
            _ => None,
        }
    }
}

/// An established connection. The fields are dropped in order: the descriptor is closed before its room is freed.
pub struct Connection {
    fd: AsyncFd,
    reservation: Reservation,
}

impl Connection {
    /// Sends bytes; the kernel owns them until they are sent. Returns how many were sent.
    pub fn send(&self, bytes: Vec<u8>) -> impl Future<Output = io::Result<usize>> + Unpin {
        self.fd.send(bytes)
    }

    /// The receiving side of the connection.
    pub fn receiver(&self) -> SocketReceiver<'_> {
        SocketReceiver { connection: self, running: None }
    }

    /// Shuts down both directions, which completes a pending receive. Dropping the connection is not enough: if the
    /// queue is full, the cancellation of the receive is lost, and the receive keeps the connection open until the peer
    /// sends or closes.
    pub async fn shut_down(&self) {
        // This fails if the peer has already closed the connection.
        let _ = self.fd.shutdown(Shutdown::Both).await;
    }
}

/// Receives from a connection, one operation at a time. So a connection whose bytes are not taken uses at most one
/// buffer.
pub struct SocketReceiver<'a> {
    connection: &'a Connection,
    running: Option<Recv<'a, ReadBuf>>,
}

impl<'a> SocketReceiver<'a> {
    pub fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// Starts a receive unless one is pending or its result has not been taken.
    pub fn start(&mut self, cx: &mut Context<'_>) {
        if self.running.is_none() {
            // An operation that has just been started is never complete.
            let _ = self.poll(cx);
        }
    }

    /// Ready with the bytes that have arrived, or with no bytes if the peer has closed its side. The buffer returns to
    /// the ring when it is dropped.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ReadBuf>> {
        let Connection { fd, reservation } = self.connection;
        let running = self.running.get_or_insert_with(|| fd.recv(reservation.0.buffers.get()));
        let result = ready!(Pin::new(running).poll(cx));
        self.running = None;
        match result {
            Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                reservation.0.waiting_for_buffer.borrow_mut().push_back(cx.waker().clone());
                Poll::Pending
            }
            result => Poll::Ready(result),
        }
    }

    /// Whether a receive is pending, or its result has not been taken.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

impl Drop for SocketReceiver<'_> {
    fn drop(&mut self) {
        let dropped_receives = &self.connection.reservation.0.dropped_receives;
        dropped_receives.set(dropped_receives.get() + usize::from(self.is_running()));
    }
}

#[cfg(test)]
mod tests;
