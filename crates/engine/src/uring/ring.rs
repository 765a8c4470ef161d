//! [`Rings`]: connect, send and receive as io_uring operations.
//!
//! Invariant: this is the only file that names io_uring (through the crate `a10`, which keeps buffers alive for as long
//! as the kernel may write to them).
//!
//! A socket here is a *direct descriptor*: an entry in a table of the ring, not a file descriptor of the process. The
//! kernel limits the table of one ring to the number of open files, but not the number of rings: a worker adds rings as
//! it needs them. It sleeps in the first one and checks the others every `RING_CHECK_INTERVAL`.
//!
//! No connection owns a read buffer. The rings have a few, and the kernel takes one when bytes have arrived. A receive
//! that waits for an hour costs its entry in the kernel and a waker.

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

use crate::coroutines::executor::{Park, RunQueue};
use crate::epoll::PollWaker;

/// Size of a submission queue. Further operations wait until the next system call has submitted these.
const SUBMISSIONS: u32 = 1024;

/// How many connection attempts a ring may start between two system calls. An attempt needs five operations, so the
/// queue has room for all operations of these attempts. A full queue is avoided because of a limitation of `a10`: an
/// operation that finds the queue full is woken after a later submission, but this wake-up can be lost if operations
/// that wait before it are dropped.
const STARTS: usize = SUBMISSIONS as usize * 3 / 16;

/// Size of a completion queue; the kernel stores further results itself. The kernel's hash table of pending operations,
/// which it searches for a cancellation, grows with this size, up to 256 buckets at 8,192.
const COMPLETIONS: u32 = 8192;

/// Bounds of the number of connections per ring.
const MAX_CONNECTIONS: usize = 16 << 10;
const MIN_CONNECTIONS: usize = 512;

/// The descriptor table has one spare entry per this many connections, for sockets whose task was cancelled while the
/// kernel opened them.
const RESERVE: usize = 8;

/// How long a worker with several rings sleeps at most. It sleeps in the first ring, and events of the others do not
/// end its sleep (because of deferred task work). Checking a ring takes less than a microsecond.
const RING_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// The kernel ends at least this many cancelled operations per system call on a ring (20 since Linux 6.13, all of them
/// in older versions).
const CANCELLED_PER_ENTRY: usize = 16;

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
    short_of_buffers: RefCell<VecDeque<Waker>>,
    /// Tasks that wait to connect because [`STARTS`] others have started since the last system call.
    short_of_starts: RefCell<VecDeque<Waker>>,
    /// Connection attempts since the last system call.
    starts: Cell<usize>,
    /// Connections and attempts in this ring.
    connections: Cell<usize>,
    /// Receives that were dropped while they were pending, since the last [`Park::cancelled`].
    cancelled: Cell<usize>,
}

impl Rings {
    /// Creates the first ring, for up to this many connections. More rings are added when they are needed.
    pub fn new(connections: usize) -> io::Result<Self> {
        let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files.min(1 << 32) as usize);
        // The descriptor table, with its spare entries, may not be larger than the limit on open files.
        let capacity = connections.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS).min(files / (RESERVE + 1) * RESERVE).max(1);
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

    /// Starts to connect.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Attempt> {
        let place = self.place()?;
        let connect = async move {
            let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
            poll_fn(|cx| place.0.poll_start(cx)).await;
            let queue = place.0.queue.clone();
            let fd = a10::net::socket(queue, domain, Type::STREAM, None).kind(Kind::Direct).await?;
            connect_without_delay(&fd, address).await?;
            Ok(Connection { fd, place })
        };
        Ok(Attempt(RefCell::new(AttemptState::Running(Box::pin(connect)))))
    }

    /// A place in a ring with room, or in a new ring.
    fn place(&self) -> io::Result<Place> {
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
        Ok(Place(ring))
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
        // Start the read of the eventfd, with which other threads end the sleep. It is started this late because the
        // queue certainly has room now. The future never ends; polling it starts the next read.
        let _ = self.wakeups.borrow_mut().as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let check = (rings.len() > 1).then_some(RING_CHECK_INTERVAL);
        let polled = first.poll(timeout.into_iter().chain(check).min());
        run_queue.awake();
        polled
    }

    /// Submits the queued operations of cancelled tasks: cancellations and closes. If a queue became full, further
    /// cancellations would be lost, and every further socket would need a separate system call to close it. Pending
    /// operations are cancelled because the kernel takes quadratic time to drop a ring with many of them.
    fn cancelled(&self) -> io::Result<()> {
        self.rings.borrow().iter().try_for_each(|ring| {
            let entries = 1 + ring.cancelled.take().div_ceil(CANCELLED_PER_ENTRY);
            (0..entries).try_for_each(|_| ring.poll(Some(Duration::ZERO)))
        })
    }

    fn waker(&self) -> PollWaker {
        self.waker.clone()
    }
}

impl ConnectionRing {
    fn new(capacity: usize, (count, size): (u16, u32)) -> io::Result<Self> {
        // The number fits into 32 bits: `capacity` is at most `MAX_CONNECTIONS`.
        let table = (capacity + capacity.div_ceil(RESERVE)) as u32;
        // Only this thread uses the ring, and only when it polls. So the kernel need not interrupt it
        // (`defer_task_run`).
        let ring = Ring::config()
            .with_submission_queue_size(SUBMISSIONS)
            .with_completion_queue_size(COMPLETIONS)
            .single_issuer()
            .defer_task_run()
            .with_direct_descriptors(table)
            .build()?;
        let queue = ring.sq();
        let buffers = ReadBufPool::new(queue.clone(), count, size)?;
        Ok(Self {
            ring: RefCell::new(ring),
            queue,
            buffers,
            buffer_count: count.into(),
            short_of_buffers: RefCell::default(),
            short_of_starts: RefCell::default(),
            starts: Cell::new(0),
            connections: Cell::new(0),
            cancelled: Cell::new(0),
        })
    }

    /// Wakes as many waiting tasks as there are buffers; all buffers are free again when the thread is about to sleep.
    /// If all tasks were woken, most would find no buffer, and a burst of responses would take quadratic time. The same
    /// holds for tasks that wait to connect.
    fn wake_waiting(&self) {
        for (waiting, most) in [(&self.short_of_buffers, self.buffer_count), (&self.short_of_starts, STARTS)] {
            let mut waiting = waiting.borrow_mut();
            let count = waiting.len().min(most);
            waiting.drain(..count).for_each(Waker::wake);
        }
    }

    /// Ready if another connection attempt may start now.
    fn poll_start(&self, cx: &Context<'_>) -> Poll<()> {
        if self.starts.get() < STARTS {
            self.starts.set(self.starts.get() + 1);
            return Poll::Ready(());
        }
        self.short_of_starts.borrow_mut().push_back(cx.waker().clone());
        Poll::Pending
    }

    /// Hands the queued operations to the kernel, waits for a result, and wakes the tasks whose operation is complete.
    fn poll(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.starts.set(0);
        match self.ring.borrow_mut().poll(timeout) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::TimedOut) => Ok(()),
            result => result,
        }
    }
}

/// Connects, and turns off Nagle's algorithm, which would only delay requests, because each is written in one piece.
/// Both operations are submitted together. An old kernel does not support the second; its error is ignored.
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

/// One of the connections that a ring has room for. Dropping it frees the place.
struct Place(Rc<ConnectionRing>);

impl Drop for Place {
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
                let connected = matches!(other, AttemptState::Ended(Ok(_)));
                *state = other;
                Ok(connected)
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

/// Bytes that have arrived, in a buffer of the ring.
pub type ReceivedBytes = ReadBuf;

/// An established connection. The fields are dropped in order: the descriptor is closed before the place is freed.
pub struct Connection {
    fd: AsyncFd,
    place: Place,
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

/// Receives from a connection, one operation at a time. So a connection whose bytes are not taken holds one buffer at
/// most.
pub struct SocketReceiver<'a> {
    connection: &'a Connection,
    running: Option<Recv<'a, ReadBuf>>,
}

impl SocketReceiver<'_> {
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
        let Connection { fd, place } = self.connection;
        let running = self.running.get_or_insert_with(|| fd.recv(place.0.buffers.get()));
        let result = ready!(Pin::new(running).poll(cx));
        self.running = None;
        match result {
            Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                place.0.short_of_buffers.borrow_mut().push_back(cx.waker().clone());
                Poll::Pending
            }
            result => Poll::Ready(result),
        }
    }

    /// Whether the kernel is receiving.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

impl Drop for SocketReceiver<'_> {
    fn drop(&mut self) {
        let cancelled = &self.connection.place.0.cancelled;
        cancelled.set(cancelled.get() + usize::from(self.is_running()));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;
    use crate::Clock;
    use crate::coroutines::executor::{Executor, yield_now};
    use crate::coroutines::queue::JoinQueue;

    fn executor(connections: usize) -> Rc<Executor<Rings>> {
        Executor::on(Clock::start(), Rings::new(connections).unwrap())
    }

    async fn connected(rings: &Rings, address: SocketAddr) -> io::Result<Connection> {
        let attempt = rings.connect(address)?;
        poll_fn(|cx| attempt.poll(cx)).await;
        attempt.is_connected()?;
        Ok(attempt.into_connection().unwrap())
    }

    #[test]
    fn bytes_are_sent_and_received() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 5];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&request).unwrap();
        });
        let executor = executor(1);
        let rings = Rc::clone(executor.reactor());
        let echo = async {
            let connection = connected(&rings, address).await.unwrap();
            assert_eq!(connection.send(b"hello".to_vec()).await.unwrap(), 5);
            let mut receiver = connection.receiver();
            let bytes = poll_fn(|cx| receiver.poll(cx)).await.unwrap();
            assert_eq!(bytes.as_slice(), b"hello");
            let end = poll_fn(|cx| receiver.poll(cx)).await.unwrap();
            assert!(end.is_empty());
        };
        executor.run(echo).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn a_closed_port_refuses() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let executor = executor(1);
        let rings = Rc::clone(executor.reactor());
        let refused = executor.run(async { connected(&rings, address).await.err().unwrap() }).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn connections_beyond_one_ring_are_served_by_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let executor = executor(1);
        let rings = Rc::clone(executor.reactor());
        let all = async {
            let (connections, mut streams) = connect_all(&rings, &listener, MIN_CONNECTIONS + 100).await;
            assert_eq!(rings.rings.borrow().len(), 2);
            for (connection, stream) in connections.iter().zip(&mut streams) {
                stream.write_all(b"x").unwrap();
                let mut receiver = connection.receiver();
                assert_eq!(poll_fn(|cx| receiver.poll(cx)).await.unwrap().as_slice(), b"x");
            }
            drop(connections);
            assert!(rings.rings.borrow().iter().all(|ring| ring.connections.get() == 0));
        };
        executor.run(all).unwrap();
    }

    /// Both ends of this many connections. Accepted in batches, because few fit into the listener's queue.
    async fn connect_all(rings: &Rings, listener: &TcpListener, count: usize) -> (Vec<Connection>, Vec<TcpStream>) {
        let address = listener.local_addr().unwrap();
        let (mut connections, mut streams) = (Vec::new(), Vec::new());
        while connections.len() < count {
            let some = (count - connections.len()).min(64);
            let attempts: Vec<_> = (0..some).map(|_| rings.connect(address).unwrap()).collect();
            poll_fn(|cx| match attempts.iter().filter(|attempt| attempt.poll(cx).is_pending()).count() {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            })
            .await;
            connections.extend(attempts.into_iter().map(|attempt| attempt.into_connection().unwrap()));
            streams.extend((0..some).map(|_| listener.accept().unwrap().0));
        }
        (connections, streams)
    }

    /// Ready with `Some` when `poll` is, and with `None` after some seconds.
    async fn in_time<T>(executor: &Executor<Rings>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        let (mut alarm, deadline) = (executor.alarm(), executor.now() + Duration::from_secs(20));
        poll_fn(|cx| match poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value).filter(|_| executor.now() < deadline)),
            Poll::Pending => alarm.poll(deadline, executor.now(), cx).map(|()| None),
        })
        .await
    }

    #[test]
    fn bytes_in_another_ring_arrive_while_the_worker_sleeps_in_the_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let executor = executor(MIN_CONNECTIONS);
        let rings = Rc::clone(executor.reactor());
        let waited = async {
            let (connections, mut streams) = connect_all(&rings, &listener, MIN_CONNECTIONS + 1).await;
            assert_eq!(rings.rings.borrow().len(), 2, "the last connection is in another ring");
            let mut last = streams.pop().unwrap();
            let mut receivers: Vec<_> = connections.iter().map(Connection::receiver).collect();
            let (go, ready) = mpsc::channel::<()>();
            let server = thread::spawn(move || {
                ready.recv().unwrap();
                last.write_all(b"x").unwrap();
            });
            let mut go = Some(go);
            let received = in_time(&executor, |cx| {
                if let Some(go) = go.take() {
                    receivers.iter_mut().for_each(|receiver| receiver.start(cx));
                    go.send(()).unwrap();
                }
                receivers.last_mut().unwrap().poll(cx)
            });
            let bytes = received.await.expect("the other ring is checked").unwrap();
            assert_eq!(bytes.as_slice(), b"x");
            server.join().unwrap();
        };
        executor.run(waited).unwrap();
    }

    /// Another thread wakes the worker by a write to the eventfd, so a read of the eventfd must be pending before the
    /// worker sleeps. The test fills the queue with receives that never complete. So the worker sleeps right after it
    /// has submitted them.
    #[test]
    fn a_wake_up_arrives_although_the_queue_was_full_before_the_sleep() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let executor = executor(SUBMISSIONS as usize);
        let rings = Rc::clone(executor.reactor());
        let (send, receive) = mpsc::channel::<Waker>();
        let wakes = Arc::new(AtomicUsize::new(0));
        let other = thread::spawn({
            let wakes = Arc::clone(&wakes);
            move || {
                for waker in receive {
                    wakes.fetch_add(1, Ordering::AcqRel);
                    waker.wake();
                }
            }
        });
        let waited = async {
            let (connections, _streams) = connect_all(&rings, &listener, SUBMISSIONS as usize).await;
            let mut receivers: Vec<_> = connections.iter().map(Connection::receiver).collect();
            let mut next = 0;
            let woken = in_time(&executor, |cx| {
                let wakes = wakes.load(Ordering::Acquire);
                if wakes == 2 {
                    return Poll::Ready(());
                }
                if wakes == next {
                    // The first wake-up has completed the pending read of the eventfd. The second one needs a new read.
                    if wakes == 1 {
                        receivers.iter_mut().for_each(|receiver| receiver.start(cx));
                    }
                    send.send(cx.waker().clone()).unwrap();
                    next += 1;
                }
                Poll::Pending
            });
            woken.await.expect("the other thread ends the sleep");
            drop(send);
        };
        executor.run(waited).unwrap();
        other.join().unwrap();
    }

    #[test]
    fn attempts_that_are_given_up_do_not_block_later_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let executor = executor(4 * SUBMISSIONS as usize);
        let rings = Rc::clone(executor.reactor());
        let (finished, waiter) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None::<Waker>)));
        let main = async {
            let count = 3 * SUBMISSIONS as usize;
            let tasks: Vec<_> = (0..count)
                .map(|_| {
                    let (rings, finished, waiter) = (Rc::clone(&rings), Rc::clone(&finished), Rc::clone(&waiter));
                    executor.spawn(async move {
                        let _connection = connected(&rings, address).await.unwrap();
                        finished.set(finished.get() + 1);
                        waiter.take().into_iter().for_each(Waker::wake);
                    })
                })
                .collect();
            // All of them have begun; most of them wait for room in the queue.
            yield_now().await;
            let (given_up, kept) = tasks.split_at(count - 50);
            assert!(given_up.iter().all(|task| executor.cancel(*task)));
            let ended = in_time(&executor, |cx| {
                if finished.get() == kept.len() {
                    return Poll::Ready(());
                }
                waiter.replace(Some(cx.waker().clone()));
                Poll::Pending
            });
            ended.await
        };
        executor.run(main).unwrap().expect("the others connect");
    }

    #[test]
    fn the_end_of_a_worker_cancels_its_pending_receives() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // More than fit into the queue at once, in two rings.
        let executor = executor(2 * SUBMISSIONS as usize);
        let rings = Rc::clone(executor.reactor());
        let started = Rc::new(JoinQueue::<()>::default());
        let main = async {
            let (connections, streams) = connect_all(&rings, &listener, 3 * SUBMISSIONS as usize).await;
            for connection in connections {
                let started = Rc::clone(&started);
                started.count_in();
                executor.spawn(async move {
                    let (mut receiver, mut is_started) = (connection.receiver(), false);
                    let received = poll_fn(|cx| {
                        if !std::mem::replace(&mut is_started, true) {
                            started.done();
                        }
                        receiver.poll(cx)
                    });
                    let _ = received.await;
                });
            }
            started.join().await;
            streams
        };
        // Every connection is closed: a pending receive would keep it open. The rings still exist; dropping them would
        // cancel everything in any case.
        for mut stream in executor.run(main).unwrap() {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        assert_eq!(rings.rings.borrow().len(), 2);
    }

    #[test]
    fn a_wave_larger_than_the_buffers_is_received_with_few_attempts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let count = 20 * usize::from(BUFFERS.0);
        let executor = executor(count);
        let rings = Rc::clone(executor.reactor());
        let polls = Rc::new(Cell::new(0));
        let queue = Rc::new(JoinQueue::<()>::default());
        let all = async {
            let (connections, mut streams) = connect_all(&rings, &listener, count).await;
            // All bytes have arrived when the first receive starts.
            streams.iter_mut().for_each(|stream| stream.write_all(b"x").unwrap());
            for connection in connections {
                let (polls, queue) = (Rc::clone(&polls), Rc::clone(&queue));
                queue.count_in();
                executor.spawn(async move {
                    let mut receiver = connection.receiver();
                    let received = poll_fn(|cx| {
                        polls.set(polls.get() + 1);
                        receiver.poll(cx)
                    });
                    assert_eq!(received.await.unwrap().as_slice(), b"x");
                    queue.done();
                });
            }
            queue.join().await;
        };
        executor.run(all).unwrap();
        assert!(polls.get() <= 6 * count, "{} polls for {count} receives", polls.get());
    }
}
