//! [`Lane`]: the unit of politeness, one host name.
//!
//! A lane knows how many requests may be under way at its host (`width`), when the next one may start (`due`), and how
//! the host feels about it all (the pace, the back-off). It holds the part of the host's queue that is on the workbench,
//! the host's addresses, and the robots rules of each of its origins.
//!
//! Invariant: `in_flight <= width` whenever a job is handed out, and no job starts before `due`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::job::Purpose;
use crate::link::Link;
use crate::outcome::{Failure, Outcome};
use crate::robots::Robots;
use crate::rules::{Pace, Rules};
use crate::time::Time;
use crate::url::Origin;

/// Response times within this of the floor count as quick: jitter of a loaded machine is not the host's discomfort.
const JITTER: Duration = Duration::from_millis(50);
/// The longest rest that back-off by itself imposes.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// A robots.txt is believed for a day (RFC 9309, 2.4).
pub const ROBOTS_LIFE: Duration = Duration::from_secs(24 * 3600);

/// One host name and everything that being polite to it needs.
#[derive(Debug)]
pub struct Lane {
    pub name: Arc<str>,
    /// Links on the workbench, breadth first.
    pub queue: VecDeque<Link>,
    /// Links that wait for another attempt, earliest first.
    pub retries: BinaryHeap<Reverse<Retry>>,
    /// robots.txt and other errands that go before pages.
    pub errands: VecDeque<(Link, Purpose)>,
    /// How many more links the frontier holds for this lane.
    pub backlog: u64,
    pub addresses: Addresses,
    pub robots: Vec<(Origin, RobotsState)>,
    pub pace: LanePace,
    slots: Slots,
}

/// A link that waits for its next attempt.
#[derive(Debug)]
pub struct Retry {
    pub due: Time,
    pub seq: u64,
    pub link: Link,
    pub purpose: Purpose,
}

/// What is known of the host's addresses.
#[derive(Debug)]
pub enum Addresses {
    Unknown,
    /// Asked for at this moment, for the n-th time.
    Asked {
        since: Time,
        tries: u8,
    },
    Known {
        list: Arc<[IpAddr]>,
        until: Time,
        took: Option<Duration>,
    },
    /// The name could not be resolved for now: ask again at `at`.
    Again {
        at: Time,
        tries: u8,
    },
    /// Given up.
    Failed {
        failure: Failure,
        tries: u8,
        until: Time,
    },
}

/// What is known of one origin's robots.txt.
#[derive(Debug)]
pub enum RobotsState {
    /// Being fetched; the origin's links wait.
    Asked,
    Rules {
        rules: Arc<Robots>,
        until: Time,
    },
    /// Given up: every link of the origin ends like this.
    Failed {
        failure: Failure,
        outcome: Outcome,
        tries: u8,
        until: Time,
    },
}

impl Lane {
    pub fn new(name: Arc<str>, rules: &Rules) -> Self {
        Self {
            name,
            queue: VecDeque::new(),
            retries: BinaryHeap::new(),
            errands: VecDeque::new(),
            backlog: 0,
            addresses: Addresses::Unknown,
            robots: Vec::new(),
            pace: LanePace::new(rules),
            slots: Slots::default(),
        }
    }

    pub fn in_flight(&self) -> usize {
        self.slots.taken
    }

    /// Whether one more request may be under way.
    pub fn has_room(&self) -> bool {
        self.slots.taken < self.pace.width()
    }

    /// Takes a slot, for a request that counts at this address where addresses have a cap.
    pub fn take_slot(&mut self, ip: Option<IpAddr>) -> u16 {
        let slot = self.slots.take();
        if let Some(ip) = ip {
            let index = usize::from(slot);
            if self.slots.ips.len() <= index {
                self.slots.ips.resize(index + 1, None);
            }
            self.slots.ips[index] = Some(ip);
        }
        slot
    }

    /// Gives a slot back; says which address it counted at.
    pub fn free_slot(&mut self, slot: u16) -> Option<IpAddr> {
        self.slots.free(slot);
        self.slots.ips.get_mut(usize::from(slot)).and_then(Option::take)
    }

    /// Whether anything of this lane is still to be done by the workbench.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.retries.is_empty() || !self.errands.is_empty() || self.backlog > 0
    }

    pub fn robots_of(&self, origin: &Origin) -> Option<&RobotsState> {
        self.robots.iter().find(|(known, _)| known == origin).map(|(_, state)| state)
    }

    pub fn set_robots(&mut self, origin: &Origin, state: RobotsState) {
        match self.robots.iter_mut().find(|(known, _)| known == origin) {
            Some((_, old)) => *old = state,
            None => self.robots.push((origin.clone(), state)),
        }
    }
}

/// The numbered slots of a lane. The lowest free one is taken first, so that a lane that needs few connections keeps
/// using the same few.
#[derive(Debug, Default)]
struct Slots {
    taken: usize,
    high: u16,
    freed: BinaryHeap<Reverse<u16>>,
    ips: Vec<Option<IpAddr>>,
}

impl Slots {
    fn take(&mut self) -> u16 {
        self.taken += 1;
        if let Some(Reverse(slot)) = self.freed.pop() {
            return slot;
        }
        let slot = self.high;
        self.high = self.high.saturating_add(1);
        slot
    }

    fn free(&mut self, slot: u16) {
        self.taken = self.taken.saturating_sub(1);
        self.freed.push(Reverse(slot));
    }
}

impl PartialEq for Retry {
    fn eq(&self, other: &Self) -> bool {
        self.seq == other.seq
    }
}

impl Eq for Retry {}

impl PartialOrd for Retry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Retry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.seq).cmp(&(other.due, other.seq))
    }
}

/// How a host takes it: congestion control for the people at the other end.
///
/// The window opens by one for every windowful of quick answers, and halves on 429, 503, resets, time-outs and rising
/// response times. `Crawl-delay` means one connection and a due time after every start.
#[derive(Debug)]
pub struct LanePace {
    mode: Pace,
    /// Connections allowed now.
    window: u16,
    /// Connections allowed at best.
    ceiling: u16,
    /// Quick answers since the window last changed.
    credit: u16,
    /// The quickest response seen.
    floor: Duration,
    /// No halving before this: one bad moment counts once.
    calm_until: Time,
    /// Start to start.
    pub delay: Duration,
    crawl_delay: bool,
    /// The next request may start then.
    due: Time,
    /// Backing off until then.
    rest: Time,
    /// Bad signs in a row.
    bad: u8,
    retry_wait: Duration,
}

/// What one finished request told about the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It answered, after this long.
    Answer(Duration),
    /// 429 or 503; with Retry-After where it was sent.
    Overload(Option<Duration>),
    /// A reset, a time-out, a refused connection.
    Trouble,
}

impl LanePace {
    fn new(rules: &Rules) -> Self {
        let ceiling = u16::try_from(rules.per_host.max(1)).unwrap_or(u16::MAX);
        let (window, ceiling) = match rules.pace {
            Pace::Gentle => (1, 1),
            Pace::Steady => (ceiling.min(2), ceiling),
            Pace::Full => (ceiling, ceiling),
        };
        Self {
            mode: rules.pace,
            window,
            ceiling,
            credit: 0,
            floor: Duration::MAX,
            calm_until: Time::ZERO,
            delay: rules.delay,
            crawl_delay: false,
            due: Time::ZERO,
            rest: Time::ZERO,
            bad: 0,
            retry_wait: rules.retry_wait,
        }
    }

    /// How many requests may be under way at once.
    pub fn width(&self) -> usize {
        if self.crawl_delay { 1 } else { usize::from(self.window) }
    }

    /// How long it takes to answer, lately.
    pub fn typical(&self) -> Option<Duration> {
        (self.floor != Duration::MAX).then_some(self.floor)
    }

    /// When the next request may start, as far as time alone decides.
    pub fn due(&self) -> Time {
        self.due.max(self.rest)
    }

    /// Whether the lane rests because the host asked for it or failed.
    pub fn rests_until(&self) -> Time {
        self.rest
    }

    pub fn has_crawl_delay(&self) -> bool {
        self.crawl_delay
    }

    /// robots.txt asks for this much time between requests.
    pub fn obey_crawl_delay(&mut self, delay: Duration) {
        if !delay.is_zero() {
            self.crawl_delay = true;
            self.delay = self.delay.max(delay);
        }
    }

    /// A request starts now.
    pub fn started(&mut self, now: Time) {
        self.due = now + self.delay;
    }

    /// A request ended now.
    pub fn ended(&mut self, sign: Sign, now: Time) {
        match sign {
            Sign::Answer(took) => {
                self.bad = 0;
                if self.mode == Pace::Gentle {
                    self.due = self.due.max(now + (took * 5).max(Duration::from_secs(1)));
                }
                self.observe(took, now);
            }
            Sign::Overload(asked) => {
                self.worsen(now);
                let rest = asked.unwrap_or_else(|| self.back_off());
                self.rest = self.rest.max(now + rest);
            }
            Sign::Trouble => {
                self.worsen(now);
                if self.bad > 3 {
                    let rest = self.back_off();
                    self.rest = self.rest.max(now + rest);
                }
            }
        }
    }

    fn observe(&mut self, took: Duration, now: Time) {
        self.floor = self.floor.min(took);
        if self.mode != Pace::Steady {
            return;
        }
        if took <= self.floor * 2 + JITTER {
            self.credit += 1;
            if self.credit >= self.window && self.window < self.ceiling {
                self.window += 1;
                self.credit = 0;
            }
        } else if took > self.floor * 4 + JITTER * 4 {
            self.halve(now, took);
        }
    }

    fn worsen(&mut self, now: Time) {
        self.bad = self.bad.saturating_add(1);
        self.halve(now, self.retry_wait);
    }

    fn halve(&mut self, now: Time, calm: Duration) {
        if now >= self.calm_until {
            self.window = (self.window / 2).max(1);
            self.calm_until = now + calm;
        }
        self.credit = 0;
    }

    fn back_off(&self) -> Duration {
        let doublings = u32::from(self.bad.saturating_sub(1)).min(16);
        (self.retry_wait * 2u32.saturating_pow(doublings)).min(LONGEST_REST)
    }
}
