//! The reactor: wakes a coroutine that awaits a socket when the kernel reports that the socket is ready.
//!
//! Invariant: a socket is registered with the kernel only for an event that a coroutine waits for, or has just waited
//! for. An event without a waiting coroutine removes the registration, because a level-triggered event is reported
//! until the socket is read.

use std::cell::{RefCell, RefMut};
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;

use super::executor::{Park, RunQueue};
use crate::epoll::{Event, Interest, PollWaker, Poller};
use crate::worker::READ_BUFFER_SIZE;

/// An epoll set and the sockets registered in it.
pub struct Reactor {
    poller: RefCell<Poller>,
    sources: RefCell<Slab<Source>>,
    /// Buffer for the events of one wait.
    events: RefCell<Vec<Event>>,
    /// The read buffer, shared by all sockets.
    buffer: RefCell<Box<[u8]>>,
}

/// One socket: its registration, whether it is ready, and the waker of the coroutine that waits for it.
struct Source {
    stream: TcpStream,
    registered: Option<Interest>,
    ready: bool,
    waiter: Option<Waker>,
}

impl Reactor {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            poller: RefCell::new(Poller::new()?),
            sources: RefCell::default(),
            events: RefCell::default(),
            buffer: RefCell::new(vec![0; READ_BUFFER_SIZE].into_boxed_slice()),
        })
    }

    /// The read buffer of the thread. One is enough, because a coroutine does not await between reading and feeding.
    pub fn buffer(&self) -> RefMut<'_, Box<[u8]>> {
        self.buffer.borrow_mut()
    }
}

impl Park for Reactor {
    fn waker(&self) -> PollWaker {
        self.poller.borrow().waker()
    }

    fn park(&self, timeout: Option<Duration>, run_queue: &RunQueue) -> io::Result<()> {
        let mut events = self.events.borrow_mut();
        let timeout = if run_queue.may_sleep() { timeout } else { Some(Duration::ZERO) };
        let waited = self.poller.borrow_mut().wait(&mut events, timeout);
        run_queue.awake();
        waited?;
        let mut sources = self.sources.borrow_mut();
        for event in events.drain(..) {
            // The socket is closed, or another one has its index: a spurious wake-up, which is harmless.
            let Some(source) = sources.get_mut(event.token as usize) else { continue };
            match source.waiter.take() {
                Some(waiter) => {
                    source.ready = true;
                    waiter.wake();
                }
                // Reported before; the coroutine that was woken has not run yet.
                None if source.ready => {}
                None => {
                    source.registered = None;
                    self.poller.borrow().remove(&source.stream)?;
                }
            }
        }
        Ok(())
    }
}

/// A non-blocking socket that coroutines can await.
pub struct Socket {
    key: usize,
    reactor: Rc<Reactor>,
}

impl Socket {
    /// The stream must be non-blocking.
    pub fn new(stream: TcpStream, reactor: &Rc<Reactor>) -> Self {
        let source = Source { stream, registered: None, ready: false, waiter: None };
        let key = reactor.sources.borrow_mut().insert(source);
        Self { key, reactor: Rc::clone(reactor) }
    }

    /// Performs a non-blocking operation on the stream.
    pub fn try_io<T>(&self, act: impl FnOnce(&TcpStream) -> io::Result<T>) -> io::Result<T> {
        let sources = self.reactor.sources.borrow();
        let source = sources.get(self.key).ok_or(io::ErrorKind::NotConnected)?;
        act(&source.stream)
    }

    /// Ready once the kernel reports it. The report may be spurious: try, and poll again on `WouldBlock`.
    pub fn poll_ready(&self, interest: Interest, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut sources = self.reactor.sources.borrow_mut();
        let source = sources.get_mut(self.key).ok_or(io::ErrorKind::NotConnected)?;
        if source.ready && source.registered == Some(interest) {
            source.ready = false;
            return Poll::Ready(Ok(()));
        }
        let poller = self.reactor.poller.borrow();
        let token = self.key as u64;
        match source.registered {
            Some(same) if same == interest => {}
            Some(_) => poller.modify(&source.stream, token, interest)?,
            None => poller.add(&source.stream, token, interest)?,
        }
        source.registered = Some(interest);
        source.ready = false;
        if source.waiter.as_ref().is_none_or(|waiter| !waiter.will_wake(cx.waker())) {
            source.waiter = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    pub async fn readable(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_ready(Interest::Readable, cx)).await
    }

    pub async fn writable(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_ready(Interest::Writable, cx)).await
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The kernel removes a closed socket from epoll.
        self.reactor.sources.borrow_mut().try_remove(self.key);
    }
}
