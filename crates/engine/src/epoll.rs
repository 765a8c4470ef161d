//! Readiness of many sockets at once: epoll, and the eventfd that interrupts it.
//!
//! Invariant: this is the only file that uses epoll. The `callbacks` and `coroutines` engines are built on it.
//!
//! Registration is level-triggered: while a socket has bytes to read, every `wait` reports it again. So an engine may
//! read once per event and leave the rest for the next event. While an engine does not wait for a socket, it must
//! remove the socket from the set.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

/// Maximum number of events that one `wait` returns. The next call returns the others.
const MAX_EVENTS: usize = 1024;

/// The token of the wake-up eventfd; it never reaches the engine.
const WAKE: u64 = u64::MAX;

/// The event to report for a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Readable,
    Writable,
}

/// An event of a socket. After an error or a hang-up both flags are set, and the next read or write returns the error.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
}

/// A set of sockets, each with a token chosen by the engine and an interest.
pub struct Poller {
    epoll: OwnedFd,
    waker: Arc<OwnedFd>,
    /// Buffer for the events that the kernel returns.
    raw: Vec<epoll::Event>,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &waker, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self { epoll, waker: Arc::new(waker), raw: Vec::with_capacity(MAX_EVENTS) })
    }

    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), flags(interest))?)
    }

    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(token), flags(interest))?)
    }

    /// Stops reporting about a socket that stays open. A closed socket is removed by the kernel.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Sleeps until a socket has an event, `timeout` has passed, or a [`PollWaker`] is used. Without a timeout it
    /// sleeps as long as necessary. Appends the events to `into`; there may be none.
    pub fn wait(&mut self, into: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        // A timeout too long for the kernel's type means no timeout.
        let timeout = timeout.and_then(|span| Timespec::try_from(span).ok());
        self.raw.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.raw), timeout.as_ref()) {
            Ok(_) => {}
            // A signal interrupted the call.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for event in &self.raw {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == WAKE {
                let mut count = [0; 8];
                // Resets the counter. An error means that it is zero already.
                let _ = rustix::io::read(&*self.waker, &mut count);
                continue;
            }
            let has_ended = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            into.push(Event {
                token,
                readable: has_ended || flags.contains(EventFlags::IN),
                writable: has_ended || flags.contains(EventFlags::OUT),
            });
        }
        Ok(())
    }

    /// A handle with which other threads interrupt `wait`.
    pub fn waker(&self) -> PollWaker {
        PollWaker(Arc::clone(&self.waker))
    }
}

fn flags(interest: Interest) -> EventFlags {
    match interest {
        Interest::Readable => EventFlags::IN,
        Interest::Writable => EventFlags::OUT,
    }
}

/// Interrupts a [`Poller::wait`], the current or the next one.
#[derive(Clone)]
pub struct PollWaker(Arc<OwnedFd>);

impl PollWaker {
    /// A waker for an engine without epoll, and the eventfd that becomes readable when the waker is used. The eventfd
    /// is blocking: io_uring would fail a read of a non-blocking one instead of waiting.
    pub fn with_file() -> io::Result<(Self, OwnedFd)> {
        let waker = Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?));
        let file = waker.0.try_clone()?;
        Ok((waker, file))
    }

    pub fn wake(&self) {
        // The write can fail only if the counter is at its maximum, and then a wake-up is already pending.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::thread;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn wait(poller: &mut Poller, millis: u64) -> Vec<Event> {
        let mut events = Vec::new();
        poller.wait(&mut events, Some(Duration::from_millis(millis))).unwrap();
        events
    }

    #[test]
    fn unread_bytes_are_reported_by_every_wait() {
        let (mut near, mut far) = pair();
        let mut poller = Poller::new().unwrap();
        poller.add(&near, 7, Interest::Readable).unwrap();
        assert!(wait(&mut poller, 0).is_empty());
        far.write_all(b"x").unwrap();
        for _ in 0..2 {
            let events = wait(&mut poller, 5_000);
            assert!(matches!(events[..], [Event { token: 7, readable: true, writable: false }]), "{events:?}");
        }
        near.read_exact(&mut [0]).unwrap();
        assert!(wait(&mut poller, 0).is_empty());
        poller.modify(&near, 8, Interest::Writable).unwrap();
        assert!(matches!(wait(&mut poller, 0)[..], [Event { token: 8, readable: false, writable: true }]));
        poller.remove(&near).unwrap();
        drop(far);
        assert!(wait(&mut poller, 0).is_empty());
    }

    #[test]
    fn a_waker_interrupts_the_current_or_the_next_wait() {
        let (send, receive) = mpsc::channel();
        // The waits have no timeout, so they return only if they are interrupted.
        thread::spawn(move || {
            let mut poller = Poller::new().unwrap();
            let (waker, mut events) = (poller.waker(), Vec::new());
            waker.wake();
            waker.wake();
            poller.wait(&mut events, None).unwrap();
            // Both interruptions are consumed: the next wait sleeps.
            assert_eq!(rustix::io::read(&*poller.waker, &mut [0; 8]), Err(rustix::io::Errno::AGAIN));
            send.send(Some(waker)).unwrap();
            poller.wait(&mut events, None).unwrap();
            assert!(events.is_empty(), "{events:?}");
            send.send(None).unwrap();
        });
        let next = || receive.recv_timeout(Duration::from_secs(60)).expect("the wait was not interrupted");
        let waker = next().expect("a waker");
        waker.wake();
        assert!(next().is_none());
    }

    #[test]
    fn a_socket_is_readable_after_the_peer_has_closed() {
        let (near, far) = pair();
        let mut poller = Poller::new().unwrap();
        poller.add(&near, 1, Interest::Readable).unwrap();
        drop(far);
        assert!(wait(&mut poller, 5_000)[0].readable);
    }
}
