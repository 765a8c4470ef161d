//! [`WakeEvent`]: a waker that makes a file descriptor readable, which an event loop or a blocked thread waits for.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// A waker that makes a file descriptor readable.
#[derive(Debug)]
pub struct WakeEvent {
    fd: OwnedFd,
}

impl WakeEvent {
    /// A new event that was not woken.
    pub fn new() -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? }))
    }

    /// The number of the file descriptor.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// The event as a waker.
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Makes the file descriptor readable.
    pub fn set(&self) {
        // An error says that the counter is at its maximum, so the descriptor is readable.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// Makes the file descriptor not readable.
    pub fn clear(&self) {
        // An error says that it was not readable.
        let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
    }

    /// Blocks until the event is set, the time is over or a signal arrives. Returns whether the event is set.
    pub fn wait(&self, time: Option<Duration>) -> std::io::Result<bool> {
        let time = time.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], time.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Wake for WakeEvent {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}
