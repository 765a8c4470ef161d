//! [`Workbench`]: the lanes that are held now, and who may be asked next.
//!
//! What exists is the frontier's business; what is held now is the workbench's. Politeness is ownership here: a
//! [`Job`] is the right to one slot of a lane, it is handed out by [`Workbench::next`] and given back by
//! [`Workbench::finish`], and nothing is counted afterwards.
//!
//! Every lane that could do something sits in one place: in `ready` (it may start now), in `later` (it may start at a
//! known time), in `rated` (a page may start there once the rate allows one), or in the queue of an address that has no
//! slot free. A lane that waits for another event (an answer, a
//! name, a robots.txt, more links) sits nowhere; the event puts it back.
//!
//! Rules of robots.txt files may have to make room while their lane has work (see `spare`). Such a lane goes after all
//! whose rules are at hand; when its turn comes its rules are recalled, and it is the very next to go: so every recall
//! brings a start or a verdict, and lanes cannot take each other's rules away for ever.
//!
//! Invariants: requests under way never exceed the concurrency, a lane's width, or an address's cap; none starts before
//! its lane is due; robots.txt goes before the first page of an origin; a link whose fate is known is settled at once,
//! so that no timer decides when the crawl ends.

mod choice;
mod pick;
mod seats;
mod spare;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use self::choice::Choice;
use self::pick::News;
use self::seats::{Ready, Seat, Shared};
#[cfg(test)]
pub(crate) use self::spare::{IDLE_LANES, ROBOTS_ROOM};
use self::spare::{KEPT, Spare};
use crate::outcome::{ErrorKind, Failure, Outcome};
use crate::page::link::Link;
use crate::page::robots::Robots;
use crate::page::url::Origin;
use crate::rules::{Pace, Rules};
use crate::schedule::job::{Job, LaneId, Purpose, Rare};
use crate::schedule::lane::{Addresses, Lane, ROBOTS_LIFE, Retry, RobotsState};
use crate::schedule::retry;
use crate::time::Time;
use crate::visit::Visit;

/// A host given up on is asked again after this long.
const GIVEN_UP_LIFE: Duration = Duration::from_secs(3600);
/// Redirects that a robots.txt may take (RFC 9309, 2.3.1.2).
pub const ROBOTS_REDIRECTS: u8 = 5;

/// The lanes that are held now.
pub struct Workbench {
    rules: Arc<Rules>,
    lanes: HashMap<LaneId, Entry>,
    ready: BTreeSet<Ready>,
    /// Lanes that could ask for a page if the rate allowed it.
    rated: BinaryHeap<Ready>,
    later: BTreeSet<(Time, LaneId)>,
    by_ip: HashMap<IpAddr, Shared>,
    /// Names to resolve.
    names: VecDeque<LaneId>,
    /// Links that end without being asked for.
    verdicts: VecDeque<Box<Visit>>,
    /// Lanes that want more links from the frontier.
    hungry: Vec<LaneId>,
    /// Robots rules that had to make room and are needed again.
    recalls: VecDeque<(LaneId, Origin)>,
    /// The lane whose rules are just coming back: it is seated before all others.
    recalled: Option<LaneId>,
    spare: Spare,
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
    paused: bool,
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
    /// The robots rules of an origin had to make room and are needed again. Answered by [`Workbench::robots_recalled`]
    /// where they were noted, by [`Workbench::robots_forgotten`] where not.
    Recall(LaneId, Origin),
    /// Nothing before this time, unless an event comes first; [`Time::NEVER`] where only an event can help.
    Wait(Time),
}

struct Entry {
    lane: Lane,
    seat: Seat,
    is_hungry: bool,
    /// The address whose free slot this lane was called up for. If it does not take it, the next lane in that queue is
    /// called.
    called_by: Option<IpAddr>,
}

impl Workbench {
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            concurrency: rules.concurrency.max(1),
            pages_left: rules.max_pages.unwrap_or(u64::MAX),
            spare: Spare::new(&rules),
            rules,
            lanes: HashMap::new(),
            ready: BTreeSet::new(),
            rated: BinaryHeap::new(),
            later: BTreeSet::new(),
            by_ip: HashMap::new(),
            names: VecDeque::new(),
            verdicts: VecDeque::new(),
            hungry: Vec::new(),
            recalls: VecDeque::new(),
            recalled: None,
            in_flight: 0,
            next_start: Time::ZERO,
            held: 0,
            seq: 0,
            draining: false,
            paused: false,
        }
    }

    /// The frontier holds `backlog` links for this lane.
    pub fn offer(&mut self, id: LaneId, name: &str, backlog: u64, now: Time) {
        self.let_lanes_go(now);
        let entry = self.entry(id, name);
        entry.lane.backlog = backlog;
        self.place(id, now);
    }

    /// Whether a lane is held. One that is not may have been, and was let go since it had nothing to do.
    pub fn holds(&self, id: LaneId) -> bool {
        self.lanes.contains_key(&id)
    }

    /// An earlier run spent some of the pages that may be asked for.
    pub fn spend_pages(&mut self, pages: u64) {
        if self.rules.max_pages.is_some() {
            self.pages_left = self.pages_left.saturating_sub(pages);
        }
    }

    /// An earlier run was asked by a host to leave it alone until then.
    pub fn let_rest(&mut self, id: LaneId, name: &str, until: Time) {
        self.entry(id, name).lane.pace.rest_until(until);
    }

    /// Until when a lane rests.
    pub fn rests_until(&self, id: LaneId) -> Time {
        self.lanes.get(&id).map_or(Time::ZERO, |entry| entry.lane.pace.rests_until())
    }

    /// An earlier run may have asked this lane's host so long ago: the usual distance is kept from that.
    pub fn keep_distance(&mut self, id: LaneId, ago: Duration, now: Time) {
        if let Some(entry) = self.lanes.get_mut(&id) {
            let pace = &mut entry.lane.pace;
            pace.pause_until(now + pace.delay().saturating_sub(ago));
            self.place(id, now);
        }
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
        let news = News::Links(entry.lane.queue.len());
        entry.lane.queue.extend(links);
        self.sweep(id, news, now);
        self.place(id, now);
    }

    /// Something to fetch for the crawl's own sake, before the lane's pages.
    pub fn errand(&mut self, id: LaneId, link: Link, purpose: Purpose, now: Time) {
        let name: Arc<str> = Arc::from(link.url.host());
        self.entry(id, &name).lane.errands.push_back((link, purpose));
        self.held += 1;
        self.sweep(id, News::Errands, now);
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
                let wait = rules.retry_wait.saturating_mul(2u32.saturating_pow(doublings));
                Addresses::Again { at: now + wait, tries }
            }
            Err(failure) => Addresses::Failed { failure, tries, until: now + GIVEN_UP_LIFE },
        };
        self.sweep(id, News::Addresses, now);
        self.place(id, now);
    }

    /// What is known of an origin's robots.txt now.
    pub fn robots_known(&mut self, id: LaneId, origin: &Origin, mut state: RobotsState, now: Time) {
        let ceiling = self.rules.max_crawl_delay;
        let entry = self.entry(id, &origin.host);
        if let RobotsState::Failed { until, .. } = state
            && let Some(RobotsState::Asked { old: Some(old) }) = entry.lane.robots_of(origin)
        {
            state = RobotsState::Rules { rules: Arc::clone(old), until, kept: now + KEPT };
        }
        if let RobotsState::Rules { rules, .. } = &state
            && let Some(delay) = rules.crawl_delay()
        {
            entry.lane.pace.obey_crawl_delay(delay.min(ceiling));
        }
        let before = entry.lane.robots_weight();
        entry.lane.set_robots(origin, state);
        let after = entry.lane.robots_weight();
        self.spare.weighs(before, after);
        self.sweep(id, News::Robots(origin), now);
        self.place(id, now);
        self.make_room(Some((id, origin)), now);
    }

    /// The answer to [`Next::Recall`] where it was noted what the robots.txt said. The lane goes next, while its rules
    /// are at hand.
    pub fn robots_recalled(&mut self, id: LaneId, origin: &Origin, state: RobotsState, now: Time) {
        self.recalled = Some(id);
        self.robots_known(id, origin, state, now);
        self.recalled = None;
    }

    /// The answer to [`Next::Recall`] where nobody noted what the robots.txt said: the host is asked again.
    pub fn robots_forgotten(&mut self, id: LaneId, origin: &Origin, now: Time) {
        if let Some(entry) = self.lanes.get_mut(&id) {
            let before = entry.lane.robots_weight();
            entry.lane.forget_robots(origin);
            self.spare.weighs(before, entry.lane.robots_weight());
            self.place(id, now);
        }
    }

    /// A visit is over: its slot comes back, and the lane learns how its host took it.
    pub fn finish(&mut self, visit: &Visit, now: Time) {
        let Some((id, slot)) = visit.message.slot else {
            return;
        };
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        let Some(taken) = entry.lane.free_slot(slot) else {
            return;
        };
        self.in_flight -= 1;
        self.held -= 1;
        let lane = &mut entry.lane;
        let sign = pick::sign(visit, now - taken.flight.started);
        lane.pace.ended(sign, taken.flight, self.rules.retry_wait, now);
        if lane.pace.is_hopeless() {
            lane.pace.forget_failures();
            let failure = match (&visit.facts.error, visit.facts.status) {
                (Some(last), _) => Failure::new(last.kind, format!("the host was given up on: {}", last.message)),
                (None, status) => {
                    let status = status.unwrap_or_default();
                    let words = format!("the host was given up on: it answers nothing but {status}");
                    Failure::new(ErrorKind::Unreachable, words)
                }
            };
            lane.addresses = Addresses::Failed { failure, tries: visit.link.tries, until: now + GIVEN_UP_LIFE };
        }
        self.free_addresses(&taken.addresses);
        self.place(id, now);
        self.seat_anew(id);
    }

    /// No more jobs are handed out; what is in flight may end.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Starts nothing while paused; what is in flight may end.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Changes the pace of all hosts.
    pub fn set_pace(&mut self, pace: Pace, now: Time) {
        self.rules = Arc::new(self.rules.with_pace(pace));
        let ids: Vec<LaneId> = self.lanes.keys().copied().collect();
        for id in ids {
            if let Some(entry) = self.lanes.get_mut(&id) {
                entry.lane.pace.set_mode(&self.rules);
            }
            self.place(id, now);
        }
    }

    pub fn pace(&self) -> Pace {
        self.rules.pace
    }

    /// Changes the limit on pages a second; none removes it.
    pub fn set_rate(&mut self, rate: Option<f64>, now: Time) {
        Arc::make_mut(&mut self.rules).rate = rate;
        let spacing = rate.map_or(Duration::ZERO, spacing);
        self.next_start = self.next_start.min(now + spacing);
    }

    /// Pages a second, where they are limited.
    pub fn rate(&self) -> Option<f64> {
        self.rules.rate
    }

    /// Takes links off the bench that are not in flight.
    pub fn remove(&mut self, is_meant: impl Fn(&Link) -> bool, now: Time) -> Vec<Link> {
        let mut removed = Vec::new();
        let ids: Vec<LaneId> = self.lanes.keys().copied().collect();
        for id in ids {
            let Some(entry) = self.lanes.get_mut(&id) else { continue };
            let before = removed.len();
            let (out, kept): (Vec<Link>, Vec<Link>) = entry.lane.queue.drain(..).partition(&is_meant);
            entry.lane.queue.extend(kept);
            removed.extend(out);
            for Reverse(retry) in std::mem::take(&mut entry.lane.retries) {
                if !matches!(retry.purpose, Purpose::Robots(_)) && is_meant(&retry.link) {
                    removed.push(retry.link);
                } else {
                    entry.lane.retries.push(Reverse(retry));
                }
            }
            if removed.len() > before {
                self.held -= removed.len() - before;
                self.place(id, now);
            }
        }
        removed
    }

    /// Whether lanes wait for links from the frontier.
    pub fn is_hungry(&self) -> bool {
        !self.hungry.is_empty()
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
        self.pages_left == 0 && self.in_flight == 0 && !self.lanes.values().any(|entry| entry.lane.has_begun_pages())
    }

    /// Takes everything back that is held and not under way, once no more jobs are handed out. Errands are dropped: a
    /// later crawl runs its own.
    pub fn surrender(&mut self) -> Vec<Link> {
        let mut links = Vec::new();
        for entry in self.lanes.values_mut() {
            links.extend(entry.lane.queue.drain(..));
            let retries =
                entry.lane.retries.drain().filter(|Reverse(retry)| !matches!(retry.purpose, Purpose::Robots(_)));
            links.extend(retries.map(|Reverse(retry)| retry.link));
            entry.lane.errands.clear();
        }
        self.held = self.in_flight + self.verdicts.len();
        links
    }

    /// How many pages may still be asked for.
    pub fn pages_left(&self) -> u64 {
        self.pages_left
    }

    pub fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        self.lanes.iter().map(|(id, entry)| (*id, &entry.lane))
    }

    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.get(&id).map(|entry| &entry.lane)
    }

    /// Lowers how many fetches may be under way: the system has no more to give.
    pub fn limit_concurrency(&mut self, concurrency: usize) {
        self.concurrency = self.concurrency.min(concurrency.max(1));
    }

    /// What to do next.
    pub fn next(&mut self, now: Time) -> Next {
        loop {
            // First of all: nothing happens to a lane between its turn and its rules.
            if let Some((id, origin)) = self.recalls.pop_front() {
                return Next::Recall(id, origin);
            }
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
            if self.draining || self.paused || self.in_flight >= self.concurrency {
                return Next::Wait(Time::NEVER);
            }
            if now >= self.next_start {
                self.ready.extend(self.rated.pop());
            }
            let Some(Ready { lane, weight, seq }) = self.ready.pop_last() else {
                let due = self.later.first().map_or(Time::NEVER, |(time, _)| *time);
                return Next::Wait(if self.rated.is_empty() { due } else { due.min(self.next_start) });
            };
            if weight > 0 && self.lanes.get(&lane).is_some_and(|entry| entry.lane.is_without_rules()) {
                // Its rules made room while it waited here.
                let last = Ready { weight: 0, seq, lane };
                if let Some(Seat::Ready(seat)) = self.lanes.get_mut(&lane).map(|entry| &mut entry.seat) {
                    *seat = last;
                }
                self.ready.insert(last);
                continue;
            }
            let called_by = self.lanes.get_mut(&lane).and_then(|entry| {
                entry.seat = Seat::Nowhere;
                entry.called_by.take()
            });
            let job = self.start(lane, now);
            if let Some(ip) = called_by {
                self.call_next(ip);
            }
            if let Some(job) = job {
                return Next::Fetch(job);
            }
        }
    }

    fn start(&mut self, id: LaneId, now: Time) -> Option<Job> {
        let (link, purpose, addresses) = match self.choose(id, now) {
            Choice::Go(link, purpose, addresses) => (link, purpose, addresses),
            Choice::Blocked(until) => {
                self.ask_for_more(id);
                if !until.is_never() {
                    self.seat_later(id, until);
                }
                return None;
            }
            Choice::Full(ip) => {
                self.by_ip.entry(ip).or_default().waiting.push_back(id);
                if let Some(entry) = self.lanes.get_mut(&id) {
                    entry.seat = Seat::Queued;
                }
                return None;
            }
            Choice::TooFast => {
                self.seq += 1;
                let ready = self.rank(id, Reverse(self.seq));
                if let Some(entry) = self.lanes.get_mut(&id) {
                    entry.seat = Seat::Rated;
                    self.rated.extend(ready);
                }
                return None;
            }
            Choice::Crowded => {
                match self.find_room(now) {
                    Some(later) => self.seat_later(id, later),
                    None => self.seat_ready(id),
                }
                return None;
            }
        };
        if self.rules.per_ip.is_some() {
            for ip in addresses.iter() {
                self.by_ip.entry(*ip).or_default().in_flight += 1;
            }
        }
        if purpose == Purpose::Page {
            if link.tries == 0 {
                self.pages_left = self.pages_left.saturating_sub(1);
            }
            if let Some(rate) = self.rules.rate {
                self.next_start = now + spacing(rate);
            }
        }
        self.in_flight += 1;
        let lane = &mut self.lanes.get_mut(&id)?.lane;
        lane.pace.started(now);
        let slot = lane.take_slot(Arc::clone(&addresses), now);
        let dns = match &mut lane.addresses {
            Addresses::Known { took, .. } => took.take(),
            _ => None,
        };
        self.place(id, now);
        let rare = dns.map(|dns| Box::new(Rare { dns: Some(dns), ..Rare::default() }));
        Some(Job { link, purpose, lane: id, slot, addresses, rare })
    }

    fn entry(&mut self, id: LaneId, name: &str) -> &mut Entry {
        let (rules, spare) = (&self.rules, &mut self.spare);
        self.lanes.entry(id).or_insert_with(|| {
            spare.comes(id);
            let lane = Lane::new(Arc::from(name), rules);
            Entry { lane, seat: Seat::Nowhere, is_hungry: false, called_by: None }
        })
    }
}

/// From one page to the next, at a rate of pages a second.
fn spacing(rate: f64) -> Duration {
    Duration::from_secs_f64(1.0 / rate.max(1e-6))
}

/// The state after a robots.txt was given up on: every link of its origin ends with this outcome.
pub fn robots_failed(failure: Failure, outcome: Outcome, tries: u8, now: Time) -> RobotsState {
    RobotsState::Failed { failure, outcome, tries, until: now + GIVEN_UP_LIFE }
}

/// The state after a robots.txt was read, and before anybody noted it.
pub fn robots_rules(rules: Robots, now: Time) -> RobotsState {
    RobotsState::Rules { rules: Arc::new(rules), until: now + ROBOTS_LIFE, kept: now + KEPT }
}
