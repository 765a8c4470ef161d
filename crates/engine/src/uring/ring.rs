//! Rings: connect, send and receive as operations that the kernel carries out and reports as complete.
//!
//! Invariant: this is the only file that names io_uring (through the crate `a10`, which keeps buffers alive for as long
//! as the kernel may write to them).
//!
//! A socket here is a *direct descriptor*: an entry in a table of the ring, not a file descriptor of the process. The
//! kernel limits the table of one ring to the number of open files, but not the number of rings: a worker adds rings as
//! it needs them. It sleeps in the first one; an event in another ring completes an operation of the first.
//!
//! No connection owns a read buffer. The rings have a few, and the kernel takes one when bytes have arrived. A receive
//! that waits for an hour costs its entry in the kernel and a waker.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use a10::fd::Kind;
use a10::io::{ReadBuf, ReadBufPool};
use a10::net::{Domain, Recv, Type, option};
use a10::poll::Pollable;
use a10::{AsyncFd, Ring, SubmissionQueue};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::coroutines::executor::Park;
use crate::epoll::PollWaker;

/// Operations that can be queued before the kernel must be entered. Further operations wait for the next round.
const SUBMISSIONS: u32 = 1024;

/// Results that fit into the ring; the kernel keeps further ones.
const COMPLETIONS: u32 = 4096;

/// Connections per ring at most, and at least.
const MAX_CONNECTIONS: usize = 16 << 10;
const MIN_CONNECTIONS: usize = 512;

/// One in this many entries of the table is a reserve for sockets whose owner was cancelled while the kernel opened them.
const RESERVE: usize = 8;

/// How long a worker with several rings sleeps at most.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// Rings per worker at most.
const MAX_RINGS: usize = 256;

/// Read buffers of the first ring: their number and their size.
const BUFFERS: (u16, u32) = (64, 64 << 10);

/// Read buffers of every further ring. A worker has further rings only if most of its connections wait.
const MORE_BUFFERS: (u16, u32) = (32, 16 << 10);

/// The rings of one worker.
pub struct Rings {
    rings: RefCell<Vec<Rc<ConnectionRing>>>,
    /// Connections per ring.
    capacity: usize,
    waker: PollWaker,
    /// Reads the waker's file repeatedly: each use of the waker completes an operation.
    wakeups: RefCell<Pin<Box<dyn Future<Output = ()>>>>,
}

/// One ring with its read buffers.
struct ConnectionRing {
    ring: RefCell<Ring>,
    queue: SubmissionQueue,
    buffers: ReadBufPool,
    buffer_count: usize,
    /// Tasks whose bytes have arrived when no buffer was free.
    short_of_buffers: RefCell<VecDeque<Waker>>,
    connections: Cell<usize>,
    /// Completes an operation of the first ring when there is an event in this one.
    watch: Option<(SubmissionQueue, RefCell<Pin<Box<Pollable>>>)>,
}

impl Rings {
    /// The rings for about this many connections. More rings are added when they are needed.
    pub fn new(connections: usize) -> io::Result<Self> {
        let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files.min(1 << 32) as usize);
        let capacity = connections.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS).min(files / (RESERVE + 1) * RESERVE).max(1);
        let (waker, file) = PollWaker::with_file()?;
        let first = ConnectionRing::new(capacity, BUFFERS, None)?;
        let file = AsyncFd::new(file, first.queue.clone());
        let wakeups = async move {
            loop {
                // The count that is read has no meaning. An error means that the ring is being closed.
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
            let queue = place.0.queue.clone();
            let fd = a10::net::socket(queue, domain, Type::STREAM, None).kind(Kind::Direct).await?;
            // A request is written in one piece: Nagle's algorithm would only delay it. An old kernel cannot set it here.
            let _ = fd.set_socket_option::<option::TcpNoDelay>(true).await;
            fd.connect(address).await?;
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
                let Some(first) = rings.first().filter(|_| rings.len() < MAX_RINGS) else {
                    return Err(Errno::MFILE.into());
                };
                let ring = Rc::new(ConnectionRing::new(self.capacity, MORE_BUFFERS, Some(&first.queue))?);
                rings.push(Rc::clone(&ring));
                ring
            }
        };
        ring.connections.set(ring.connections.get() + 1);
        Ok(Place(ring))
    }
}

impl Park for Rings {
    fn park(&self, timeout: Option<Duration>) -> io::Result<()> {
        let mut cx = Context::from_waker(Waker::noop());
        // This future never ends; polling it starts the next read.
        let _ = self.wakeups.borrow_mut().as_mut().poll(&mut cx);
        let rings = self.rings.borrow();
        let mut is_woken = false;
        for ring in rings.iter() {
            is_woken |= ring.wake_for_buffers();
        }
        let timeout = if is_woken { Some(Duration::ZERO) } else { timeout };
        for ring in rings.iter().skip(1) {
            ring.poll_watch(&mut cx);
            ring.poll(Some(Duration::ZERO))?;
        }
        // An event in another ring has been missed in rare cases, so the wait is bounded while there are others.
        let timeout = if rings.len() > 1 { Some(timeout.map_or(MAX_WAIT, |span| span.min(MAX_WAIT))) } else { timeout };
        match rings.first() {
            Some(ring) => ring.poll(timeout),
            None => Ok(()),
        }
    }

    fn waker(&self) -> PollWaker {
        self.waker.clone()
    }
}

impl ConnectionRing {
    fn new(capacity: usize, (count, size): (u16, u32), first: Option<&SubmissionQueue>) -> io::Result<Self> {
        // At most MAX_CONNECTIONS and the reserve.
        let table = (capacity + capacity.div_ceil(RESERVE)) as u32;
        // Only this thread uses the ring, and it takes results only when it polls: the kernel need not interrupt it.
        let ring = Ring::config()
            .with_submission_queue_size(SUBMISSIONS)
            .with_completion_queue_size(COMPLETIONS)
            .single_issuer()
            .defer_task_run()
            .with_direct_descriptors(table)
            .build()?;
        let queue = ring.sq();
        let buffers = ReadBufPool::new(queue.clone(), count, size)?;
        let watch = first.map(|first| (first.clone(), RefCell::new(Box::pin(ring.pollable(first.clone())))));
        Ok(Self {
            ring: RefCell::new(ring),
            queue,
            buffers,
            buffer_count: count.into(),
            short_of_buffers: RefCell::default(),
            connections: Cell::new(0),
            watch,
        })
    }

    /// Wakes as many tasks as there are buffers: when the thread is about to sleep, all buffers are free again. If all
    /// waiting tasks were woken, all but a few would receive in vain, and a large wave of responses would take a time
    /// that grows with the square of its size. Returns whether there was one.
    fn wake_for_buffers(&self) -> bool {
        let mut waiting = self.short_of_buffers.borrow_mut();
        let count = waiting.len().min(self.buffer_count);
        waiting.drain(..count).for_each(Waker::wake);
        count > 0
    }

    /// Hands the queued operations to the kernel, waits for a result, and wakes the tasks whose operation is complete.
    fn poll(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self.ring.borrow_mut().poll(timeout) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::TimedOut) => Ok(()),
            result => result,
        }
    }

    /// Takes the reports of events in this ring, so that further ones are reported. The ring is polled in any case.
    fn poll_watch(&self, cx: &mut Context<'_>) {
        let Some((first, watch)) = &self.watch else { return };
        let mut watch = watch.borrow_mut();
        loop {
            match watch.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(()))) => {}
                // The kernel ends the operation after an event that another ring caused.
                Poll::Ready(_) => watch.set(self.ring.borrow().pollable(first.clone())),
                Poll::Pending => return,
            }
        }
    }
}

/// A connection's place in its ring.
struct Place(Rc<ConnectionRing>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

/// A connection attempt. Dropping it cancels it.
pub struct Attempt(RefCell<AttemptState>);

enum AttemptState {
    Running(Pin<Box<dyn Future<Output = io::Result<Connection>>>>),
    Ended(io::Result<Connection>),
    /// Its error was reported.
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

/// An established connection. The descriptor is closed before its place is free.
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
        SocketReceiver { connection: self, running: None, received: None }
    }

    /// Ends both directions. A pending receive completes; without this it would keep the connection open until the peer
    /// sends or closes, if its cancellation did not fit into the queue.
    pub async fn shut_down(&self) {
        // This fails if the peer has already closed the connection.
        let _ = self.fd.shutdown(Shutdown::Both).await;
    }
}

/// Receives from a connection, one operation at a time: a connection whose bytes are not taken holds one buffer at most.
pub struct SocketReceiver<'a> {
    connection: &'a Connection,
    running: Option<Recv<'a, ReadBuf>>,
    received: Option<io::Result<ReadBuf>>,
}

impl SocketReceiver<'_> {
    /// Starts a receive unless one is pending or its result has not been taken.
    pub fn start(&mut self, cx: &mut Context<'_>) {
        if self.received.is_none()
            && let Poll::Ready(result) = self.poll(cx)
        {
            self.received = Some(result);
        }
    }

    /// Ready with the bytes that have arrived; none: the peer has closed its side. The buffer returns to the ring when
    /// it is dropped.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ReadBuf>> {
        if let Some(result) = self.received.take() {
            return Poll::Ready(result);
        }
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::Clock;
    use crate::coroutines::executor::Executor;

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
        let server = std::thread::spawn(move || {
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
        let address = listener.local_addr().unwrap();
        let count = MIN_CONNECTIONS + 100;
        let server = std::thread::spawn(move || {
            let mut streams: Vec<_> = (0..count).map(|_| listener.accept().unwrap().0).collect();
            for stream in &mut streams {
                stream.write_all(b"x").unwrap();
            }
        });
        let executor = executor(1);
        let rings = Rc::clone(executor.reactor());
        let all = async {
            let mut connections = Vec::new();
            for _ in 0..count {
                connections.push(connected(&rings, address).await.unwrap());
            }
            assert_eq!(rings.rings.borrow().len(), 2);
            for connection in &connections {
                let mut receiver = connection.receiver();
                assert_eq!(poll_fn(|cx| receiver.poll(cx)).await.unwrap().as_slice(), b"x");
            }
            drop(connections);
            assert!(rings.rings.borrow().iter().all(|ring| ring.connections.get() == 0));
        };
        executor.run(all).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn a_wave_larger_than_the_buffers_is_received_with_few_attempts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let count = 20 * usize::from(BUFFERS.0);
        let server = std::thread::spawn(move || {
            let mut streams: Vec<_> = (0..count).map(|_| listener.accept().unwrap().0).collect();
            for stream in &mut streams {
                stream.write_all(b"x").unwrap();
            }
            streams
        });
        let executor = executor(count);
        let rings = Rc::clone(executor.reactor());
        let polls = Rc::new(Cell::new(0));
        let queue = Rc::new(crate::coroutines::queue::JoinQueue::<()>::default());
        let all = async {
            let mut connections = Vec::new();
            for _ in 0..count {
                connections.push(connected(&rings, address).await.unwrap());
            }
            // All bytes have arrived when the first receive starts.
            let _streams = server.join().unwrap();
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
