//! [`CrawlClock`]: the time of a crawl, which is that of the machine, or virtual.
//!
//! Invariant: virtual time stands still while anything else than time can happen: a message, a commit that is not
//! durable, or a page that the reader processes, unless it waits for the next one. So a crawl in virtual time is the
//! same in every run.

use argiope_core::Time;
use argiope_engine::Clock;

/// The time of a crawl.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrawlClock {
    machine: Clock,
    /// The time, if it is virtual.
    virtual_now: Option<Time>,
}

impl CrawlClock {
    pub fn new(machine: Clock, is_virtual: bool) -> Self {
        Self { machine, virtual_now: is_virtual.then_some(Time::ZERO) }
    }

    pub fn now(&self) -> Time {
        self.virtual_now.unwrap_or_else(|| self.machine.now())
    }

    pub fn is_virtual(&self) -> bool {
        self.virtual_now.is_some()
    }

    /// Sets virtual time to a later time.
    pub fn advance_to(&mut self, time: Time) {
        self.virtual_now = self.virtual_now.map(|now| now.max(time));
    }

    /// The machine's time, for waiting.
    pub fn machine(&self) -> Clock {
        self.machine
    }
}
