//! [`Workbench`]: the lanes that are held now, and who may be asked next.
//!
//! What exists is the frontier's business; what is held now is the workbench's. Politeness is ownership here: a
//! [`Job`] is the right to one slot of a lane, it is handed out by [`Workbench::next`] and given back by
//! [`Workbench::finish`], and nothing is counted afterwards.
//!
//! Every lane that could do something sits in one of two places: `ready` (it may start now) or `later` (it may start at
//! a known time). A lane that waits for an event (an answer, a name, a robots.txt, more links, a free slot at its
//! address) sits in neither; the event puts it back.
//!
//! Invariants: requests under way never exceed the concurrency, a lane's width, or an address's cap; none starts before
//! its lane is due; robots.txt goes before the first page of an origin.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::address;
use crate::job::{Job, LaneId, Purpose};
use crate::lane::{Addresses, Lane, ROBOTS_LIFE, Retry, RobotsState, Sign};
use crate::link::{Link, LinkKind};
use crate::outcome::{ErrorKind, Failure, Outcome};
use crate::retry;
use crate::robots::Robots;
use crate::rules::{RobotsPolicy, Rules};
use crate::time::Time;
use crate::url::{Origin, Url};
use crate::visit::Visit;

/// A lane with fewer links than this on the bench asks the frontier for more.
const LOW: usize = 16;
/// How far into a queue to look for a link whose origin is not waiting for its robots.txt.
const LOOK_AHEAD: usize = 32;
/// A host given up on is asked again after this long.
const GIVEN_UP_LIFE: Duration = Duration::from_secs(3600);
/// Redirects that a robots.txt may take (RFC 9309, 2.3.1.2).
pub const ROBOTS_REDIRECTS: u8 = 5;

/// The lanes that are held now.
pub struct Workbench {
    rules: Arc<Rules>,
    lanes: HashMap<LaneId, Entry>,
    ready: BinaryHeap<Ready>,
    later: BTreeSet<(Time, LaneId)>,
    by_ip: HashMap<IpAddr, Shared>,
    /// Names to resolve.
    names: VecDeque<LaneId>,
    /// Links that end without being asked for.
    verdicts: VecDeque<Box<Visit>>,
    /// Lanes that want more links from the frontier.
    hungry: Vec<LaneId>,
    in_flight: usize,
    concurrency: usize,
    /// How many pages may still be asked for.
    pages_left: u64,
    /// `--rate`: no page starts before this.
    next_start: Time,
    /// Links held here: queued, waiting for a retry, or in flight.
    held: usize,
    seq: u64,
    draining: bool,
}

/// What to do next.
#[derive(Debug)]
pub enum Next {
    /// Fetch this.
    Fetch(Job),
    /// This link has ended without being asked for.
    Settle(Box<Visit>),
    /// Resolve this lane's name, and say so with [`Workbench::resolved`].
    Resolve(LaneId, Arc<str>),
    /// Nothing before this time, unless an event comes first; [`Time::NEVER`] where only an event can help.
    Wait(Time),
}

struct Entry {
    lane: Lane,
    seat: Seat,
    is_hungry: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seat {
    /// Waits for an event.
    Nowhere,
    Ready(u64),
    Later(Time),
}

/// A lane that may start now. Those with most polite waiting ahead go first: the longest job decides when all is done.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    weight: u64,
    seq: Reverse<u64>,
    lane: LaneId,
}

/// What hosts on one address share.
#[derive(Default)]
struct Shared {
    in_flight: usize,
    waiting: VecDeque<LaneId>,
}

/// What a lane can do now.
enum Choice {
    Go(Link, Purpose, Arc<[IpAddr]>, Option<IpAddr>),
    /// Not before then; never means: when an event comes.
    Blocked(Time),
}

impl Workbench {
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            concurrency: rules.concurrency.max(1),
            pages_left: rules.max_pages.unwrap_or(u64::MAX),
            rules,
            lanes: HashMap::new(),
            ready: BinaryHeap::new(),
            later: BTreeSet::new(),
            by_ip: HashMap::new(),
            names: VecDeque::new(),
            verdicts: VecDeque::new(),
            hungry: Vec::new(),
            in_flight: 0,
            next_start: Time::ZERO,
            held: 0,
            seq: 0,
            draining: false,
        }
    }

    /// The frontier holds `backlog` links for this lane.
    pub fn offer(&mut self, id: LaneId, name: &str, backlog: u64, now: Time) {
        let entry = self.entry(id, name);
        entry.lane.backlog = backlog;
        self.place(id, now);
    }

    /// Lanes that want more links, each once.
    pub fn hungry(&mut self) -> Vec<LaneId> {
        std::mem::take(&mut self.hungry)
    }

    /// Links of a lane from the frontier, and how many more it still holds.
    pub fn give(&mut self, id: LaneId, links: Vec<Link>, backlog: u64, now: Time) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        entry.is_hungry = false;
        entry.lane.backlog = backlog;
        self.held += links.len();
        entry.lane.queue.extend(links);
        self.place(id, now);
    }

    /// Something to fetch for the crawl's own sake, before the lane's pages.
    pub fn errand(&mut self, id: LaneId, link: Link, purpose: Purpose, now: Time) {
        let name: Arc<str> = Arc::from(link.url.host());
        self.entry(id, &name).lane.errands.push_back((link, purpose));
        self.held += 1;
        self.place(id, now);
    }

    /// A link is to be tried again at `due`.
    pub fn retry(&mut self, id: LaneId, link: Link, purpose: Purpose, due: Time, now: Time) {
        let name: Arc<str> = Arc::from(link.url.host());
        self.seq += 1;
        let seq = self.seq;
        self.entry(id, &name).lane.retries.push(Reverse(Retry { due, seq, link, purpose }));
        self.held += 1;
        self.place(id, now);
    }

    /// The answer to [`Next::Resolve`].
    pub fn resolved(&mut self, id: LaneId, answer: Result<(Vec<IpAddr>, Duration), Failure>, now: Time) {
        let rules = Arc::clone(&self.rules);
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        let (took, tries) = match entry.lane.addresses {
            Addresses::Asked { since, tries } => (Some(now - since), tries.saturating_add(1)),
            _ => (None, 1),
        };
        entry.lane.addresses = match answer {
            Ok((list, life)) => Addresses::Known { list: list.into(), until: now + life, took },
            Err(failure) if retry::is_passing(failure.kind) && tries < rules.max_tries => {
                let doublings = u32::from(tries.saturating_sub(1)).min(16);
                Addresses::Again { at: now + rules.retry_wait * 2u32.saturating_pow(doublings), tries }
            }
            Err(failure) => Addresses::Failed { failure, tries, until: now + GIVEN_UP_LIFE },
        };
        self.place(id, now);
    }

    /// What is known of an origin's robots.txt now.
    pub fn robots_known(&mut self, id: LaneId, origin: &Origin, state: RobotsState, now: Time) {
        let ceiling = self.rules.max_crawl_delay;
        let entry = self.entry(id, &origin.host);
        if let RobotsState::Rules { rules, .. } = &state
            && let Some(delay) = rules.crawl_delay()
        {
            entry.lane.pace.obey_crawl_delay(delay.min(ceiling));
        }
        entry.lane.set_robots(origin, state);
        self.place(id, now);
    }

    /// A visit is over: its slot comes back, and the lane learns how its host took it.
    pub fn finish(&mut self, visit: &Visit, now: Time) {
        let Some((id, slot)) = visit.slot else {
            return;
        };
        self.in_flight = self.in_flight.saturating_sub(1);
        self.held = self.held.saturating_sub(1);
        let freed = match self.lanes.get_mut(&id) {
            Some(entry) => {
                entry.lane.pace.ended(sign(visit), now);
                entry.lane.free_slot(slot)
            }
            None => None,
        };
        if let Some(ip) = freed {
            self.free_ip(ip, now);
        }
        self.place(id, now);
    }

    /// No more jobs are handed out; what is in flight may end.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// How many fetches are under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Links held here: queued, waiting for a retry or a verdict, or in flight.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether the limit on pages is reached and nothing that was begun is left.
    pub fn is_spent(&self) -> bool {
        self.pages_left == 0 && self.in_flight == 0 && !self.has_retries()
    }

    /// How many pages may still be asked for.
    pub fn pages_left(&self) -> u64 {
        self.pages_left
    }

    pub fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        self.lanes.iter().map(|(id, entry)| (*id, &entry.lane))
    }

    /// Lowers how many fetches may be under way: the system has no more to give.
    pub fn limit_concurrency(&mut self, concurrency: usize) {
        self.concurrency = self.concurrency.min(concurrency.max(1));
    }

    /// What to do next.
    pub fn next(&mut self, now: Time) -> Next {
        loop {
            if let Some(visit) = self.verdicts.pop_front() {
                self.held = self.held.saturating_sub(1);
                return Next::Settle(visit);
            }
            if let Some(id) = self.names.pop_front() {
                if let Some(entry) = self.lanes.get(&id) {
                    return Next::Resolve(id, Arc::clone(&entry.lane.name));
                }
                continue;
            }
            self.wake_due(now);
            if self.draining || self.in_flight >= self.concurrency {
                return Next::Wait(Time::NEVER);
            }
            let Some(ready) = self.ready.pop() else {
                return Next::Wait(self.later.first().map_or(Time::NEVER, |(time, _)| *time));
            };
            match self.lanes.get_mut(&ready.lane) {
                Some(entry) if entry.seat == Seat::Ready(ready.seq.0) => entry.seat = Seat::Nowhere,
                _ => continue,
            }
            if now < self.next_start {
                self.seat_later(ready.lane, self.next_start);
                continue;
            }
            if let Some(job) = self.start(ready.lane, now) {
                return Next::Fetch(job);
            }
        }
    }

    /// Why nothing happens, for a person: the lane that will move first, and what it waits for.
    pub fn waits_for(&self, now: Time) -> Option<(Arc<str>, &'static str, Duration)> {
        let (time, id) = self.later.first()?;
        let lane = &self.lanes.get(id)?.lane;
        let why = if lane.pace.rests_until() > now {
            "backing off"
        } else if lane.pace.has_crawl_delay() {
            "Crawl-delay"
        } else if !lane.pace.delay.is_zero() {
            "delay"
        } else {
            "a retry"
        };
        Some((Arc::clone(&lane.name), why, *time - now))
    }

    fn start(&mut self, id: LaneId, now: Time) -> Option<Job> {
        let choice = self.choose(id, now);
        let (link, purpose, addresses, ip) = match choice {
            Choice::Go(link, purpose, addresses, ip) => (link, purpose, addresses, ip),
            Choice::Blocked(until) => {
                self.ask_for_more(id);
                if !until.is_never() {
                    self.seat_later(id, until.max(now));
                }
                return None;
            }
        };
        if let Some(ip) = ip {
            self.by_ip.entry(ip).or_default().in_flight += 1;
        }
        if purpose == Purpose::Page {
            if link.tries == 0 {
                self.pages_left -= 1;
            }
            if let Some(rate) = self.rules.rate {
                self.next_start = self.next_start.max(now) + Duration::from_secs_f64(1.0 / rate.max(1e-6));
            }
        }
        self.in_flight += 1;
        let entry = self.lanes.get_mut(&id)?;
        entry.lane.pace.started(now);
        let slot = entry.lane.take_slot(ip);
        let dns = match &mut entry.lane.addresses {
            Addresses::Known { took, .. } => took.take(),
            _ => None,
        };
        self.place(id, now);
        Some(Job { link, purpose, lane: id, slot, addresses, dns, conditional: None })
    }

    /// What this lane can do now. Links that need no asking end here.
    fn choose(&mut self, id: LaneId, now: Time) -> Choice {
        let rules = Arc::clone(&self.rules);
        let Some(entry) = self.lanes.get_mut(&id) else {
            return Choice::Blocked(Time::NEVER);
        };
        let lane = &mut entry.lane;
        match &lane.addresses {
            Addresses::Known { until, .. } if *until > now => {}
            Addresses::Asked { .. } => return Choice::Blocked(Time::NEVER),
            Addresses::Again { at, .. } if *at > now => return Choice::Blocked(*at),
            Addresses::Failed { failure, tries, until } if *until > now => {
                let (failure, tries) = (failure.clone(), *tries);
                self.fail_all(id, &failure, tries, now);
                return Choice::Blocked(Time::NEVER);
            }
            Addresses::Again { tries, .. } => {
                lane.addresses = Addresses::Asked { since: now, tries: *tries };
                self.names.push_back(id);
                return Choice::Blocked(Time::NEVER);
            }
            _ => {
                lane.addresses = Addresses::Asked { since: now, tries: 0 };
                self.names.push_back(id);
                return Choice::Blocked(Time::NEVER);
            }
        }
        let Addresses::Known { list, .. } = &lane.addresses else {
            return Choice::Blocked(Time::NEVER);
        };
        let list = Arc::clone(list);
        let mut blocked = Time::NEVER;
        loop {
            let (link, purpose) = match pick(lane, self.pages_left > 0, &rules, now) {
                Pick::Take(link, purpose) => (link, purpose),
                Pick::AskRobots(origin) => {
                    lane.set_robots(&origin, RobotsState::Asked);
                    self.held += 1;
                    (robots_link(&origin), Purpose::Robots(Box::new(origin)))
                }
                Pick::End(link, outcome, failure) => {
                    self.verdicts.push_back(Box::new(Visit::unasked(link, outcome, Some(failure), now)));
                    continue;
                }
                Pick::Forbidden(link) => {
                    self.verdicts.push_back(Box::new(Visit::unasked(link, Outcome::Robots, None, now)));
                    continue;
                }
                Pick::Nothing(until) => {
                    blocked = blocked.min(until);
                    return Choice::Blocked(blocked);
                }
            };
            let addresses = match permitted(&rules, &link.url, &list) {
                Ok(addresses) => addresses,
                Err(failure) => {
                    let mut visit = Visit::bare(link, purpose, Outcome::Refused, now);
                    visit.error = Some(failure);
                    self.verdicts.push_back(Box::new(visit));
                    continue;
                }
            };
            let ip = rules.per_ip.and_then(|cap| Some((addresses.iter().min().copied()?, cap)));
            if let Some((ip, cap)) = ip {
                let shared = self.by_ip.entry(ip).or_default();
                if shared.in_flight >= cap {
                    shared.waiting.push_back(id);
                    put_back(lane, link, purpose);
                    return Choice::Blocked(Time::NEVER);
                }
            }
            return Choice::Go(link, purpose, addresses, ip.map(|(ip, _)| ip));
        }
    }

    /// Every link of a lane ends with this failure.
    fn fail_all(&mut self, id: LaneId, failure: &Failure, tries: u8, now: Time) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        let lane = &mut entry.lane;
        let queued = lane.queue.drain(..).map(|link| (link, None));
        let errands = lane.errands.drain(..).map(|(link, purpose)| (link, Some(purpose)));
        let mut ended: Vec<_> = queued.chain(errands).collect();
        ended.extend(lane.retries.drain().map(|Reverse(retry)| (retry.link, Some(retry.purpose))));
        for (mut link, purpose) in ended {
            link.tries = link.tries.max(tries);
            let mut visit = Visit::unasked(link, Outcome::Failed, Some(failure.clone()), now);
            if let Some(purpose) = purpose {
                visit.purpose = purpose;
            }
            self.verdicts.push_back(Box::new(visit));
        }
    }

    fn entry(&mut self, id: LaneId, name: &str) -> &mut Entry {
        let rules = &self.rules;
        self.lanes.entry(id).or_insert_with(|| Entry {
            lane: Lane::new(Arc::from(name), rules),
            seat: Seat::Nowhere,
            is_hungry: false,
        })
    }

    /// Puts a lane where it belongs after something about it changed.
    fn place(&mut self, id: LaneId, now: Time) {
        self.ask_for_more(id);
        let pages = self.pages_left > 0;
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if matches!(entry.seat, Seat::Ready(_)) {
            return;
        }
        let lane = &entry.lane;
        let at = if !lane.has_room() {
            Time::NEVER
        } else if !lane.errands.is_empty() || (pages && !lane.queue.is_empty()) {
            lane.pace.due()
        } else {
            lane.retries.peek().map_or(Time::NEVER, |Reverse(retry)| retry.due.max(lane.pace.due()))
        };
        if at <= now {
            self.seat_ready(id);
        } else if at.is_never() {
            if let Seat::Later(time) = entry.seat {
                self.later.remove(&(time, id));
            }
            entry.seat = Seat::Nowhere;
        } else {
            self.seat_later(id, at);
        }
    }

    fn ask_for_more(&mut self, id: LaneId) {
        if self.pages_left == 0 {
            return;
        }
        if let Some(entry) = self.lanes.get_mut(&id)
            && !entry.is_hungry
            && entry.lane.backlog > 0
            && entry.lane.queue.len() < LOW
        {
            entry.is_hungry = true;
            self.hungry.push(id);
        }
    }

    fn seat_ready(&mut self, id: LaneId) {
        self.seq += 1;
        let seq = self.seq;
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if let Seat::Later(time) = entry.seat {
            self.later.remove(&(time, id));
        }
        entry.seat = Seat::Ready(seq);
        let left = entry.lane.backlog + entry.lane.queue.len() as u64;
        let weight = left.saturating_mul(entry.lane.pace.delay.as_millis() as u64);
        self.ready.push(Ready { weight, seq: Reverse(seq), lane: id });
    }

    fn seat_later(&mut self, id: LaneId, at: Time) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if let Seat::Later(time) = entry.seat {
            self.later.remove(&(time, id));
        }
        entry.seat = Seat::Later(at);
        self.later.insert((at, id));
    }

    fn wake_due(&mut self, now: Time) {
        while let Some((time, id)) = self.later.first().copied() {
            if time > now {
                break;
            }
            self.later.pop_first();
            if let Some(entry) = self.lanes.get_mut(&id) {
                entry.seat = Seat::Nowhere;
            }
            self.seat_ready(id);
        }
    }

    fn free_ip(&mut self, ip: IpAddr, now: Time) {
        let Some(shared) = self.by_ip.get_mut(&ip) else {
            return;
        };
        shared.in_flight = shared.in_flight.saturating_sub(1);
        let woken = shared.waiting.pop_front();
        if shared.in_flight == 0 && shared.waiting.is_empty() {
            self.by_ip.remove(&ip);
        }
        if let Some(id) = woken {
            self.place(id, now);
        }
    }

    fn has_retries(&self) -> bool {
        self.lanes.values().any(|entry| !entry.lane.retries.is_empty() || !entry.lane.errands.is_empty())
    }
}

/// The next link of a lane, as far as robots.txt and retries decide.
enum Pick {
    Take(Link, Purpose),
    AskRobots(Origin),
    Forbidden(Link),
    End(Link, Outcome, Failure),
    Nothing(Time),
}

fn pick(lane: &mut Lane, pages: bool, rules: &Rules, now: Time) -> Pick {
    if let Some((link, purpose)) = lane.errands.pop_front() {
        return Pick::Take(link, purpose);
    }
    let mut until = Time::NEVER;
    if let Some(Reverse(retry)) = lane.retries.peek() {
        if retry.due > now {
            until = retry.due;
        } else if let Some(Reverse(retry)) = lane.retries.pop() {
            return Pick::Take(retry.link, retry.purpose);
        }
    }
    if !pages {
        return Pick::Nothing(until);
    }
    if rules.robots == RobotsPolicy::Ignore {
        return match lane.queue.pop_front() {
            Some(link) => {
                let purpose = purpose_of(&link);
                Pick::Take(link, purpose)
            }
            None => Pick::Nothing(until),
        };
    }
    for index in 0..lane.queue.len().min(LOOK_AHEAD) {
        let Some(link) = lane.queue.get(index) else {
            break;
        };
        let origin = link.url.origin();
        match lane.robots_of(&origin) {
            None => return Pick::AskRobots(origin),
            Some(RobotsState::Asked) => {}
            Some(RobotsState::Rules { until: life, .. } | RobotsState::Failed { until: life, .. }) if *life <= now => {
                return Pick::AskRobots(origin);
            }
            Some(RobotsState::Failed { failure, outcome, tries, .. }) => {
                let (failure, outcome, tries) = (failure.clone(), *outcome, *tries);
                let Some(mut link) = lane.queue.remove(index) else {
                    break;
                };
                link.tries = link.tries.max(tries);
                return Pick::End(link, outcome, failure);
            }
            Some(RobotsState::Rules { rules, .. }) => {
                let allowed = rules.allows(link.url.target());
                let Some(link) = lane.queue.remove(index) else {
                    break;
                };
                if !allowed {
                    return Pick::Forbidden(link);
                }
                let purpose = purpose_of(&link);
                return Pick::Take(link, purpose);
            }
        }
    }
    Pick::Nothing(until)
}

fn purpose_of(link: &Link) -> Purpose {
    if link.kind == LinkKind::SitemapFile { Purpose::Sitemap } else { Purpose::Page }
}

fn put_back(lane: &mut Lane, link: Link, purpose: Purpose) {
    match purpose {
        Purpose::Robots(_) => lane.errands.push_front((link, purpose)),
        Purpose::Page | Purpose::Sitemap if link.tries > 0 => {
            lane.retries.push(Reverse(Retry { due: Time::ZERO, seq: 0, link, purpose }));
        }
        Purpose::Page | Purpose::Sitemap => lane.queue.push_front(link),
    }
}

/// The link to an origin's robots.txt.
fn robots_link(origin: &Origin) -> Link {
    let mut link = Link::root(Url::robots_of(origin), ROBOTS_REDIRECTS);
    link.kind = LinkKind::Other;
    link
}

/// The addresses of a link's host that may be connected to.
fn permitted(rules: &Rules, url: &Url, list: &Arc<[IpAddr]>) -> Result<Arc<[IpAddr]>, Failure> {
    if address::is_blocked_port(url.port()) {
        let message = format!("port {} is blocked: it belongs to another protocol", url.port());
        return Err(Failure::new(ErrorKind::BlockedPort, message));
    }
    if rules.allows_private(url.host(), url.port()) {
        return Ok(Arc::clone(list));
    }
    let refusal = list.iter().find_map(|ip| address::refusal(*ip).map(|why| (ip, why)));
    let Some((ip, why)) = refusal else {
        return Ok(Arc::clone(list));
    };
    let public: Arc<[IpAddr]> = list.iter().copied().filter(|ip| address::refusal(*ip).is_none()).collect();
    if public.is_empty() {
        let message = format!("{} is at {ip}, a {why} address; --allow-private allows it", url.host());
        return Err(Failure::new(ErrorKind::PrivateAddress, message));
    }
    Ok(public)
}

/// What a visit tells about how its host feels.
fn sign(visit: &Visit) -> Sign {
    use ErrorKind as K;
    if let Some(429 | 503) = visit.status {
        return Sign::Overload(visit.retry_after.map(|asked| asked.min(retry::LONGEST_RETRY_AFTER)));
    }
    match visit.error.as_ref().map(|failure| failure.kind) {
        Some(
            K::Reset
            | K::EmptyReply
            | K::TimeoutFirstByte
            | K::TimeoutIdle
            | K::TimeoutTotal
            | K::TooSlow
            | K::ConnectRefused
            | K::ConnectTimeout
            | K::Unreachable,
        ) => Sign::Trouble,
        _ => {
            let timings = &visit.timings;
            let setup = timings.connect.unwrap_or_default() + timings.tls.unwrap_or_default();
            Sign::Answer(timings.ttfb.or(timings.total).unwrap_or_default().saturating_sub(setup))
        }
    }
}

/// The state after a robots.txt was given up on: every link of its origin ends with this outcome.
pub fn robots_failed(failure: Failure, outcome: Outcome, tries: u8, now: Time) -> RobotsState {
    RobotsState::Failed { failure, outcome, tries, until: now + GIVEN_UP_LIFE }
}

/// The state after a robots.txt was read.
pub fn robots_rules(rules: Robots, now: Time) -> RobotsState {
    RobotsState::Rules { rules: Arc::new(rules), until: now + ROBOTS_LIFE }
}
