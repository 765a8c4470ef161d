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

use crate::outcome::{Failure, Outcome};
use crate::page::link::Link;
use crate::page::robots::Robots;
use crate::page::url::Origin;
use crate::rules::{Pace, Rules};
use crate::schedule::job::Purpose;
use crate::time::Time;

/// Response times within this of the floor count as quick: jitter of a loaded machine is not the host's discomfort.
const JITTER: Duration = Duration::from_millis(50);
/// The longest rest that back-off by itself imposes.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// With the gentle pace, the next request starts at least this long after the last answer...
const GENTLE_PAUSE: Duration = Duration::from_secs(1);
/// ... and at least this many times as long as the answer took.
const GENTLE_FACTOR: u32 = 5;
/// After so many answers it is looked at who kept whom waiting.
const LOOK: u16 = 8;
/// Bad moments in a row without any answer after which a host is given up on: some four minutes with the usual waits.
const LAST_STRAW: u8 = 10;
/// The same where the host does answer, but never with anything else than that it is overloaded: half an hour with the
/// usual waits, and as long as it asks for with its own.
const LAST_REFUSAL: u8 = 40;
/// Origins of one host (schemes and ports) of which is known what their robots.txt says. Whoever asks for it often
/// enough to need more is not a site, but a trap.
pub const MOST_ORIGINS: usize = 64;
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
    /// Believed until then, and in any case for the first job: whoever waits long for a free slot must not have to ask
    /// for the name again and again. `took` is what the first job reports.
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
    /// The host was given up on, because of its name or because it never answers: its links end like this.
    Failed {
        failure: Failure,
        tries: u8,
        until: Time,
    },
}

/// What is known of one origin's robots.txt.
#[derive(Debug)]
pub enum RobotsState {
    /// Being fetched; the origin's links wait. What an earlier fetch brought holds on where this one fails (RFC 9309,
    /// 2.4).
    Asked { old: Option<Arc<Robots>> },
    Rules {
        rules: Arc<Robots>,
        until: Time,
        /// While the lane has work, these do not make room before then: nobody noted them, and the host would be asked
        /// again.
        kept: Time,
    },
    /// Given up: every link of the origin ends like this.
    Failed { failure: Failure, outcome: Outcome, tries: u8, until: Time },
    /// Rules that had to make room: whoever needs them asks the frontier's notes first, then the host.
    Away,
}

impl RobotsState {
    /// The bytes that its rules take.
    pub fn weight(&self) -> usize {
        match self {
            Self::Asked { old: Some(rules) } | Self::Rules { rules, .. } => rules.weight(),
            Self::Asked { old: None } | Self::Failed { .. } | Self::Away => 0,
        }
    }
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

    /// Takes a slot, for a request that may connect to any of these addresses.
    pub fn take_slot(&mut self, addresses: Arc<[IpAddr]>, now: Time) -> u16 {
        self.slots.take(Taken { addresses, since: now })
    }

    /// Gives a slot back; says what it was taken for.
    pub fn free_slot(&mut self, slot: u16) -> Option<Taken> {
        self.slots.free(slot)
    }

    /// Whether anything of this lane is on the bench, now or later.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.retries.is_empty() || !self.errands.is_empty()
    }

    /// Whether the host will be asked for something soon, or is being asked.
    pub fn is_busy(&self) -> bool {
        self.has_work() || self.backlog > 0 || self.in_flight() > 0
    }

    /// Whether the next link cannot start before rules that made room are back.
    pub fn is_without_rules(&self) -> bool {
        let is_away = |link: &Link| {
            let mut away = self.robots.iter().filter(|(_, state)| matches!(state, RobotsState::Away));
            away.any(|(origin, _)| link.url.is_of(origin))
        };
        self.errands.is_empty() && self.queue.front().is_some_and(is_away)
    }

    /// How many links are still to be asked for, as far as they are known.
    pub fn left(&self) -> u64 {
        self.backlog.saturating_add(self.queue.len() as u64)
    }

    /// When the next request could start, as far as this lane knows; `pages`: whether new pages may be asked for.
    pub fn due(&self, pages: bool) -> Time {
        if !self.has_room() {
            return Time::NEVER;
        }
        let begun = |link: &Link| link.tries > 0;
        if !self.errands.is_empty() || (pages && !self.queue.is_empty()) || self.queue.iter().any(begun) {
            return self.pace.due();
        }
        self.retries.peek().map_or(Time::NEVER, |Reverse(retry)| retry.due.max(self.pace.due()))
    }

    /// Whether a page that was asked for waits to be asked for again.
    pub fn has_begun_pages(&self) -> bool {
        self.queue.iter().any(|link| link.tries > 0)
            || self.retries.iter().any(|Reverse(retry)| retry.purpose == Purpose::Page)
    }

    pub fn robots_of(&self, origin: &Origin) -> Option<&RobotsState> {
        self.robots.iter().find(|(known, _)| known == origin).map(|(_, state)| state)
    }

    /// An origin's robots.txt is about to be fetched.
    pub fn ask_robots(&mut self, origin: &Origin) {
        let old = match self.robots_of(origin) {
            Some(RobotsState::Rules { rules, .. }) => Some(Arc::clone(rules)),
            _ => None,
        };
        self.set_robots(origin, RobotsState::Asked { old });
    }

    pub fn set_robots(&mut self, origin: &Origin, state: RobotsState) {
        match self.robots.iter_mut().find(|(known, _)| known == origin) {
            Some((_, old)) => *old = state,
            None => self.robots.push((origin.clone(), state)),
        }
        if self.robots.len() > MOST_ORIGINS {
            // The one that came first, unless its answer is under way.
            let first = self.robots.iter().position(|(_, state)| !matches!(state, RobotsState::Asked { .. }));
            if let Some(first) = first {
                self.robots.remove(first);
            }
        }
    }

    /// Nothing is known of an origin's robots.txt any more.
    pub fn forget_robots(&mut self, origin: &Origin) {
        self.robots.retain(|(known, _)| known != origin);
    }

    /// The bytes that the rules of all its origins take.
    pub fn robots_weight(&self) -> usize {
        self.robots.iter().map(|(_, state)| state.weight()).sum()
    }
}

/// What a slot was taken for.
#[derive(Debug)]
pub struct Taken {
    /// Where its request counts.
    pub addresses: Arc<[IpAddr]>,
    pub since: Time,
}

/// The numbered slots of a lane. The lowest free one is taken
/// first, so that a lane that needs few connections keeps using the same few.
#[derive(Debug, Default)]
struct Slots {
    taken: usize,
    all: Vec<Option<Taken>>,
    freed: BinaryHeap<Reverse<u16>>,
}

impl Slots {
    fn take(&mut self, taken: Taken) -> u16 {
        self.taken += 1;
        if let Some(Reverse(slot)) = self.freed.pop()
            && let Some(free) = self.all.get_mut(usize::from(slot))
        {
            *free = Some(taken);
            return slot;
        }
        self.all.push(Some(taken));
        // A lane is never wider than 16 bits can count: see the settings.
        u16::try_from(self.all.len() - 1).unwrap_or(u16::MAX)
    }

    fn free(&mut self, slot: u16) -> Option<Taken> {
        let taken = self.all.get_mut(usize::from(slot))?.take()?;
        self.taken -= 1;
        self.freed.push(Reverse(slot));
        Some(taken)
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
///
/// One bad moment counts once, however many requests were under way: only a request that started after the last bad
/// sign can be another one.
///
/// What the host can take is one thing; what we can make use of is another. Where requests and answers lie here for
/// longer than the host takes, the machine is the bottleneck: more of them at once would come no sooner, and would only
/// stand in the way of other hosts' answers. So with the steady pace a lane is no wider than is useful. A host that
/// answers at once, a trap perhaps, then has a page or two with us at a time; one that takes its time has all its
/// connections.
#[derive(Debug)]
pub struct LanePace {
    mode: Pace,
    /// Connections allowed now.
    window: u16,
    /// Connections allowed at best.
    ceiling: u16,
    /// Connections that are of use to us.
    useful: u16,
    /// Answers since that was last looked at, ...
    looked_at: u16,
    /// ... how long the host took, and how long they lay here, request and answer.
    coming: Duration,
    lying: Duration,
    /// Quick answers since the window last changed.
    credit: u16,
    /// The quickest response seen.
    floor: Option<Duration>,
    /// How long answers take, lately: each one counts an eighth.
    typical: Option<Duration>,
    /// The last bad moment: what started before it tells nothing new.
    shaken: Time,
    /// Start to start.
    pub delay: Duration,
    crawl_delay: bool,
    last_start: Option<Time>,
    /// Requests so far, as far as it matters.
    starts: u8,
    /// With the gentle pace, or after an earlier run: the next request may start then.
    pause: Time,
    /// Backing off until then.
    rest: Time,
    /// Bad moments in a row.
    bad: u8,
    /// Bad moments in a row that brought no answer at all.
    silent: u8,
    retry_wait: Duration,
}

/// What one finished request told about the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It answered: how long the first byte took, and all of them; and how long request and answer lay here.
    Answer { first: Duration, whole: Duration, lying: Duration },
    /// 429 or 503; with Retry-After where it was sent.
    Overload(Option<Duration>),
    /// A reset, a time-out, a refused connection.
    Trouble,
}

impl LanePace {
    pub fn new(rules: &Rules) -> Self {
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
            useful: ceiling,
            looked_at: 0,
            coming: Duration::ZERO,
            lying: Duration::ZERO,
            credit: 0,
            floor: None,
            typical: None,
            shaken: Time::ZERO,
            delay: rules.delay,
            crawl_delay: false,
            last_start: None,
            starts: 0,
            pause: Time::ZERO,
            rest: Time::ZERO,
            bad: 0,
            silent: 0,
            retry_wait: rules.retry_wait,
        }
    }

    /// How many requests may be under way at once.
    pub fn width(&self) -> usize {
        if self.crawl_delay { 1 } else { usize::from(self.window.min(self.useful)) }
    }

    /// How long it takes to answer, lately.
    pub fn typical(&self) -> Option<Duration> {
        self.typical
    }

    /// When the last request started, where there was one.
    pub fn last_start(&self) -> Option<Time> {
        self.last_start
    }

    /// When the next request may start, as far as time alone decides.
    pub fn due(&self) -> Time {
        let due = self.last_start.map_or(Time::ZERO, |start| start + self.delay);
        due.max(self.pause).max(self.rest)
    }

    /// Until when the lane rests because the host asked for it or failed.
    pub fn rests_until(&self) -> Time {
        self.rest
    }

    /// Rests at least until then.
    pub fn rest_until(&mut self, time: Time) {
        self.rest = self.rest.max(time);
    }

    /// Starts nothing before then.
    pub fn pause_until(&mut self, time: Time) {
        self.pause = self.pause.max(time);
    }

    pub fn has_crawl_delay(&self) -> bool {
        self.crawl_delay
    }

    /// Whether the host was asked for so little (its robots.txt, a page) that nobody knows how much there is to do.
    pub fn is_fresh(&self) -> bool {
        self.starts < 2
    }

    /// Whether the host has been silent, or too busy, for so long that it is better given up on.
    pub fn is_hopeless(&self) -> bool {
        self.silent >= LAST_STRAW || self.bad >= LAST_REFUSAL
    }

    /// The host was given up on; should it be asked again, it is with new patience.
    pub fn forget_silence(&mut self) {
        (self.bad, self.silent) = (0, 0);
    }

    /// From one request to the next, at the best pace that is allowed now. Hosts that answer within the jitter count as
    /// equally quick: what differs between them is how long their answers waited for us.
    pub fn spacing(&self) -> Duration {
        // What is of use to us changes from moment to moment, and says nothing about how much there is to do.
        let width = if self.crawl_delay { 1 } else { u32::from(self.window.max(1)) };
        self.delay.max(self.floor.unwrap_or_default().max(JITTER) / width)
    }

    /// robots.txt asks for this much time between requests, the one for itself included.
    pub fn obey_crawl_delay(&mut self, delay: Duration) {
        if !delay.is_zero() {
            self.crawl_delay = true;
            self.delay = self.delay.max(delay);
        }
    }

    /// A request starts now.
    pub fn started(&mut self, now: Time) {
        self.last_start = Some(now);
        self.starts = self.starts.saturating_add(1);
    }

    /// A request that began at `started` ended now.
    pub fn ended(&mut self, sign: Sign, started: Time, now: Time) {
        let pause = match sign {
            Sign::Answer { whole, .. } => whole.saturating_mul(GENTLE_FACTOR).max(GENTLE_PAUSE),
            Sign::Overload(_) | Sign::Trouble => GENTLE_PAUSE,
        };
        if self.mode == Pace::Gentle {
            self.pause = self.pause.max(now + pause);
        }
        match sign {
            Sign::Answer { first, whole, lying } => {
                (self.bad, self.silent) = (0, 0);
                self.observe(first, started, now);
                if self.mode == Pace::Steady {
                    self.look(whole, lying);
                }
            }
            Sign::Overload(asked) => {
                self.silent = 0;
                if self.halve(started, now) {
                    self.bad = self.bad.saturating_add(1);
                }
                self.rest =
                    self.rest.max(now + asked.map_or_else(|| self.back_off(), |asked| asked.max(self.retry_wait)));
            }
            Sign::Trouble => {
                if self.halve(started, now) {
                    self.bad = self.bad.saturating_add(1);
                    self.silent = self.silent.saturating_add(1);
                }
                // A few failures are the pages' own, and their retries wait by themselves.
                if self.bad > 3 {
                    self.rest = self.rest.max(now + self.back_off());
                }
            }
        }
    }

    fn observe(&mut self, took: Duration, started: Time, now: Time) {
        let floor = self.floor.map_or(took, |floor| floor.min(took));
        self.floor = Some(floor);
        self.typical = Some(self.typical.map_or(took, |typical| (typical.saturating_mul(7).saturating_add(took)) / 8));
        if self.mode == Pace::Full || took <= floor.saturating_mul(2).saturating_add(JITTER) {
            self.credit = self.credit.saturating_add(1);
            if self.credit >= self.window && self.window < self.ceiling {
                self.window += 1;
                self.credit = 0;
            }
        } else if took > floor.saturating_add(JITTER).saturating_mul(4) {
            self.halve(started, now);
        }
    }

    /// Who keeps whom waiting, the host us or we its answers?
    fn look(&mut self, coming: Duration, lying: Duration) {
        self.looked_at += 1;
        self.coming = self.coming.saturating_add(coming);
        self.lying = self.lying.saturating_add(lying);
        if self.looked_at < LOOK {
            return;
        }
        if self.lying > self.coming {
            self.useful = self.useful.min(self.window).saturating_sub(1).max(1);
        } else if self.lying.saturating_mul(2) < self.coming {
            self.useful = self.useful.saturating_add(1).min(self.ceiling);
        }
        (self.looked_at, self.coming, self.lying) = (0, Duration::ZERO, Duration::ZERO);
    }

    /// Halves the window, unless this belongs to a bad moment that was counted already.
    fn halve(&mut self, started: Time, now: Time) -> bool {
        self.credit = 0;
        let is_new = started >= self.shaken;
        if is_new {
            self.window = (self.window / 2).max(1);
            self.shaken = now;
        }
        is_new
    }

    fn back_off(&self) -> Duration {
        let doublings = u32::from(self.bad.saturating_sub(1)).min(16);
        self.retry_wait.saturating_mul(2u32.saturating_pow(doublings)).min(LONGEST_REST.max(self.retry_wait))
    }
}

#[cfg(test)]
mod tests;
