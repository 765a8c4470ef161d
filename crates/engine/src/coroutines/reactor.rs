//! The reactor: wakes a coroutine that awaits a socket when the kernel reports that the socket is ready.
//!
//! Invariant: a socket is registered with the kernel only for an event that a coroutine waits for, or has just waited
//! for. If an event has no waiting coroutine, the registration is removed: a level-triggered event would be reported
//! again until the socket is read.

use std::cell::{RefCell, RefMut};
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;

use super::run_queue::{Park, RunQueue};
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

/// One socket.
struct Source {
    stream: TcpStream,
    /// The event for which the socket is registered with the kernel.
    registered: Option<Interest>,
    /// The event has occurred, and the coroutine has not polled since.
    is_ready: bool,
    /// The waker of the coroutine that waits for the event.
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
        run_queue.end_sleep();
        waited?;
        let mut sources = self.sources.borrow_mut();
        for event in events.drain(..) {
            // The socket may be closed, and another one may have its index. Then this is a spurious wake-up, which is
            // harmless.
            let Some(source) = sources.get_mut(event.token as usize) else { continue };
            match source.waiter.take() {
                Some(waiter) => {
                    source.is_ready = true;
                    waiter.wake();
                }
                // The event was reported before, and the coroutine that was woken has not run yet.
                None if source.is_ready => {}
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
        let source = Source { stream, registered: None, is_ready: false, waiter: None };
        let key = reactor.sources.borrow_mut().insert(source);
        Self { key, reactor: Rc::clone(reactor) }
    }

    /// Performs a non-blocking operation on the stream.
    pub fn try_io<T>(&self, operation: impl FnOnce(&TcpStream) -> io::Result<T>) -> io::Result<T> {
        let sources = self.reactor.sources.borrow();
        let source = sources.get(self.key).ok_or(io::ErrorKind::NotConnected)?;
        operation(&source.stream)
    }

    /// Ready once the kernel reports the event. The report may be spurious: the caller tries the operation, and polls
    /// again if it returns `WouldBlock`.
    pub fn poll_ready(&self, interest: Interest, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut sources = self.reactor.sources.borrow_mut();
        let source = sources.get_mut(self.key).ok_or(io::ErrorKind::NotConnected)?;
        if source.is_ready && source.registered == Some(interest) {
            source.is_ready = false;
            return Poll::Ready(Ok(()));
        }
        let poller = self.reactor.poller.borrow();
        let token = self.key as u64;
        match source.registered {
            Some(registered) if registered == interest => {}
            Some(_) => poller.modify(&source.stream, token, interest)?,
            None => poller.add(&source.stream, token, interest)?,
        }
        source.registered = Some(interest);
        source.is_ready = false;
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
