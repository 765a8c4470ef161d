//! [`Workbench`]: the lanes in memory, and which of them may send the next request.
//!
//! The frontier holds all known URLs. The workbench holds the lanes being worked on. Politeness is ownership: a [`Job`]
//! is the right to use one slot of a lane. [`Workbench::next`] hands it out, and [`Workbench::finish`] releases it. A
//! worker without a job cannot send a request, so requests cannot exceed the limits.
//!
//! A lane that can start a request is in exactly one queue:
//!
//! - `ready`: it may start now.
//! - `later`: it may start at a known time.
//! - `rated`: it may start when `--rate` allows a page.
//! - `crowded`: it holds slots for long, and may start when more slots are free (see `slots`).
//! - `unproven`: it may start when a slot is free that is not reserved for quick lanes (see `slots`).
//! - the queue of an IP address: it may start when fewer requests are in flight at that address (`--per-ip`).
//!
//! A lane that waits for an event (a response, a DNS answer, a robots.txt, more links) is in none of them. When the
//! event occurs, the lane is queued again.
//!
//! Robots rules may be evicted while their lane has work (see `eviction`). Such a lane ranks after all lanes whose
//! rules are in memory. When it is the first in the queue, its rules are loaded again, and it is served before all
//! other lanes. So every reload leads to a request or a decision, and lanes cannot evict each other's rules forever.
//!
//! Invariants:
//!
//! - Requests in flight never exceed the concurrency, the width of a lane, or the cap of an address.
//! - No request starts before its lane is due.
//! - robots.txt is fetched before the first page of an origin.
//! - A link whose outcome is known is settled at once, so that no timer decides when the crawl ends.

mod dispatch;
mod eviction;
mod lane_counts;
mod lane_queues;
mod pick;
mod placement;
mod ranking;
mod selection;
mod slots;
mod steering;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use self::eviction::{Evictable, MIN_RESIDENCE};
#[cfg(test)]
pub(crate) use self::eviction::{IDLE_LANES, MAX_ROBOTS_MEMORY};
use self::lane_counts::{CountedLane, LaneCounts};
use self::lane_queues::LaneQueues;
use self::pick::Update;
use self::placement::WaitState;
use crate::base::job::{Job, LaneId, Purpose, SendReporter, SentRequest};
use crate::base::link::Link;
use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::base::time::Time;
use crate::base::url::Origin;
use crate::crawl::rules::Rules;
use crate::crawl::schedule::lane::{Addresses, Lane, Measured, PendingRetry, ROBOTS_LIFE, RobotsState};
use crate::crawl::schedule::retry;
use crate::crawl::visit::Visit;
use crate::http::address::DnsResult;
use crate::page::robots::Robots;

/// How long no requests are sent to an unreachable host.
const GIVEN_UP_LIFE: Duration = Duration::from_secs(3600);
/// The wait before a DNS lookup is repeated doubles at most this often.
const MAX_DNS_DOUBLINGS: u32 = 16;
/// Redirects that are followed for a robots.txt (RFC 9309, 2.3.1.2).
pub const ROBOTS_REDIRECTS: u8 = 5;

/// The lanes in memory, and what each of them waits for.
pub struct Workbench {
    rules: Arc<Rules>,
    /// Boxed, because a hash table has up to twice as many slots as entries.
    lanes: HashMap<LaneId, Box<Entry>>,
    queues: LaneQueues,
    /// Lanes whose host name must be resolved.
    to_resolve: VecDeque<LaneId>,
    /// Visits of links that end without a request.
    decided: VecDeque<Box<Visit>>,
    /// Lanes that need more links from the frontier.
    wants_refill: Vec<LaneId>,
    /// Evicted robots rules that are needed again.
    recalls: VecDeque<(LaneId, Origin)>,
    /// The lane whose rules were just loaded again. It is ranked before all others.
    recalled: Option<LaneId>,
    evictable: Evictable,
    counts: LaneCounts,
    /// How often [`Workbench::next`] was called since the counts were checked.
    #[cfg(debug_assertions)]
    calls_since_check: usize,
    concurrency: usize,
    /// When the slots that slow responses hold are counted next.
    next_slot_count: Time,
    /// Limit on the slots that are reserved for fast and quick lanes.
    max_reserve: usize,
    /// When to check next whether a lane can use the reserved slots.
    next_reserve_check: Time,
    /// No slots are reserved before this time, because no lane could use them at the last check.
    reserve_lifted_until: Time,
    /// How many pages may still be requested.
    pages_left: u64,
    /// With `--rate`: no page starts before this time.
    next_start: Time,
    draining: bool,
    paused: bool,
    /// Whether no request starts because the disk is behind.
    held_back: bool,
    /// See [`Workbench::rank_links`].
    ranks_links: bool,
    /// Whether no request starts because this process has used up its share of a limit of the fleet.
    held_for_share: bool,
    /// Reports when requests are sent, for lanes with a delay. Without it, delays count from the start of a job.
    send_reporter: Option<SendReporter>,
}

/// What to do next.
#[derive(Debug)]
pub enum Next {
    /// Fetch this.
    Fetch(Job),
    /// This link has ended without a request.
    Settle(Box<Visit>),
    /// Resolve this lane's name, and answer with [`Workbench::resolved`].
    Resolve(LaneId, Arc<str>),
    /// The robots rules of an origin were evicted and are needed again. Answered by [`Workbench::robots_recalled`] if
    /// the frontier stored them, by [`Workbench::robots_not_stored`] otherwise.
    Recall(LaneId, Origin),
    /// Nothing before this time, unless an event occurs first; [`Time::NEVER`] if only an event can change that.
    Wait(Time),
}

struct Entry {
    lane: Lane,
    wait: WaitState,
    /// More links were requested from the frontier.
    awaits_refill: bool,
    /// What [`LaneCounts`] contains for this lane.
    counted: CountedLane,
    /// The address whose free slot woke this lane. If the lane does not use the slot, the next lane that waits for the
    /// address is woken.
    woken_by: Option<IpAddr>,
}

impl Entry {
    /// Updates the counts after the lane changed. Returns whether the lane became idle.
    fn update_counts(&mut self, counts: &mut LaneCounts) -> bool {
        let counted = CountedLane::of(&self.lane);
        let before = std::mem::replace(&mut self.counted, counted);
        counts.replace(before, counted);
        counted.is_idle() && !before.is_idle()
    }
}

impl Workbench {
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            concurrency: rules.concurrency.max(1),
            max_reserve: rules.concurrency / slots::SLOTS_PER_RESERVED,
            pages_left: rules.max_pages.unwrap_or(u64::MAX),
            evictable: Evictable::new(&rules),
            ranks_links: rules.link_filter.as_ref().is_some_and(|filter| filter.ranks()),
            rules,
            lanes: HashMap::new(),
            queues: LaneQueues::default(),
            to_resolve: VecDeque::new(),
            decided: VecDeque::new(),
            wants_refill: Vec::new(),
            recalls: VecDeque::new(),
            recalled: None,
            counts: LaneCounts::default(),
            #[cfg(debug_assertions)]
            calls_since_check: 0,
            next_slot_count: Time::ZERO,
            next_reserve_check: Time::ZERO,
            reserve_lifted_until: Time::ZERO,
            next_start: Time::ZERO,
            draining: false,
            paused: false,
            held_back: false,
            held_for_share: false,
            send_reporter: None,
        }
    }

    /// Sets how many links the frontier holds for this lane.
    pub fn set_backlog(&mut self, id: LaneId, name: &str, backlog: u64, now: Time) {
        self.evict_idle_lanes(now);
        let entry = self.entry(id, name);
        entry.lane.backlog = backlog;
        self.place(id, now);
    }

    /// Whether a lane is in memory. If not, its links may be queued in the frontier, or it was idle and was evicted.
    pub fn holds(&self, id: LaneId) -> bool {
        self.lanes.contains_key(&id)
    }

    /// Counts pages that an earlier run requested towards `--max-pages`.
    pub fn spend_pages(&mut self, pages: u64) {
        if self.rules.max_pages.is_some() {
            self.pages_left = self.pages_left.saturating_sub(pages);
        }
    }

    /// Does not count a page towards `--max-pages`, because the job that [`Workbench::next`] returned last is not sent.
    /// [`Workbench::finish`] must follow, which queues the lane again if this was the last page of the limit.
    pub fn return_page(&mut self, job: &Job) {
        if job.purpose == Purpose::Page && job.link.tries == 0 {
            self.pages_left = self.pages_left.saturating_add(1);
        }
    }

    /// Sends the host no request before `until`, as it demanded in an earlier run.
    pub fn pause_until(&mut self, id: LaneId, name: &str, until: Time) {
        self.entry(id, name).lane.pace.back_off_until(until);
    }

    /// Applies a Crawl-delay that an earlier run or another process has stored.
    pub fn obey_crawl_delay(&mut self, id: LaneId, name: &str, delay: Duration) {
        let delay = delay.min(self.rules.max_crawl_delay);
        self.entry(id, name).lane.pace.obey_crawl_delay(delay);
    }

    /// Until when a lane backs off.
    pub fn backs_off_until(&self, id: LaneId) -> Time {
        self.lanes.get(&id).map_or(Time::ZERO, |entry| entry.lane.pace.backs_off_until())
    }

    /// Delays the first request, because an earlier run or another process may have sent one. `ago` is the time since
    /// then.
    pub fn keep_initial_delay(&mut self, id: LaneId, ago: Duration, now: Time) {
        if let Some(entry) = self.lanes.get_mut(&id) {
            let pace = &mut entry.lane.pace;
            pace.pause_until(now + pace.delay().saturating_sub(ago));
            self.place(id, now);
        }
    }

    /// Takes the lanes that need more links, each once.
    pub fn take_refills(&mut self) -> Vec<LaneId> {
        std::mem::take(&mut self.wants_refill)
    }

    /// Adds links of a lane from the frontier, which still holds `backlog` more.
    pub fn add_links(&mut self, id: LaneId, links: Vec<Link>, backlog: u64, now: Time) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        entry.awaits_refill = false;
        entry.lane.backlog = backlog;
        let update = Update::Links(entry.lane.queue.len());
        if entry.lane.queue.capacity() == 0 {
            // Most hosts have few links. Without this, a queue would start with room for four.
            entry.lane.queue.reserve_exact(links.len());
        }
        entry.lane.queue.extend(links);
        self.move_decided(id, update, now);
        self.place(id, now);
        if self.ranks_links {
            self.update_rank(id);
        }
    }

    /// Adds a robots.txt to fetch before the lane's pages: at the user's request, or as the target of a redirect.
    pub fn add_site_file(&mut self, id: LaneId, link: Link, purpose: Purpose, now: Time) {
        let name: Arc<str> = Arc::from(link.url.host());
        self.entry(id, &name).lane.site_files.push_back(link, purpose);
        self.move_decided(id, Update::SiteFiles, now);
        self.place(id, now);
    }

    /// Schedules another attempt for a link at `due`.
    pub fn retry(&mut self, id: LaneId, link: Link, purpose: Purpose, due: Time, now: Time) {
        let name: Arc<str> = Arc::from(link.url.host());
        let seq = self.queues.next_seq();
        self.entry(id, &name).lane.retries.push(Reverse(PendingRetry { due, seq, link, purpose }));
        self.place(id, now);
    }

    /// The answer to [`Next::Resolve`].
    pub fn resolved(&mut self, id: LaneId, answer: DnsResult, now: Time) {
        let rules = Arc::clone(&self.rules);
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        // How long the lookup took, and how often the name was looked up.
        let (took, tries) = match entry.lane.addresses {
            Addresses::Resolving { since, tries } => (Measured::of(now - since), tries.saturating_add(1)),
            _ => (Measured::default(), 1),
        };
        entry.lane.addresses = match answer {
            Ok((list, life)) => Addresses::Known { list: list.into(), until: now + life, took },
            Err(failure) if retry::is_transient(failure.kind) && tries < rules.max_tries => {
                let doublings = u32::from(tries.saturating_sub(1)).min(MAX_DNS_DOUBLINGS);
                let wait = rules.retry_wait.saturating_mul(2u32.saturating_pow(doublings));
                Addresses::RetryAt { at: now + wait, tries }
            }
            Err(failure) => Addresses::Failed { failure, tries, until: now + GIVEN_UP_LIFE },
        };
        self.move_decided(id, Update::Addresses, now);
        self.place(id, now);
    }

    /// Sets the state of an origin's robots.txt.
    pub fn robots_known(&mut self, id: LaneId, origin: &Origin, mut state: RobotsState, now: Time) {
        let max_crawl_delay = self.rules.max_crawl_delay;
        let entry = self.entry(id, &origin.host);
        // If a robots.txt cannot be fetched again, the old rules stay in force for a while.
        if let RobotsState::Failed { until, .. } = state
            && let Some(RobotsState::Requested { old: Some(old) }) = entry.lane.robots_of(origin)
        {
            state = RobotsState::Rules { rules: Arc::clone(old), until, evictable_from: now + MIN_RESIDENCE };
        }
        if let RobotsState::Rules { rules, .. } = &state
            && let Some(delay) = rules.crawl_delay()
        {
            entry.lane.pace.obey_crawl_delay(delay.min(max_crawl_delay));
        }
        let before = entry.lane.robots_weight();
        entry.lane.set_robots(origin, state);
        let after = entry.lane.robots_weight();
        self.evictable.adjust(before, after);
        self.move_decided(id, Update::Robots(origin), now);
        self.place(id, now);
        self.evict_robots(Some((id, origin)), now);
    }

    /// The answer to [`Next::Recall`] if the robots.txt was stored. The lane is served next, while its rules are in
    /// memory.
    pub fn robots_recalled(&mut self, id: LaneId, origin: &Origin, state: RobotsState, now: Time) {
        self.recalled = Some(id);
        self.robots_known(id, origin, state, now);
        self.recalled = None;
    }

    /// The answer to [`Next::Recall`] if the robots.txt was not stored: it is fetched again.
    pub fn robots_not_stored(&mut self, id: LaneId, origin: &Origin, now: Time) {
        if let Some(entry) = self.lanes.get_mut(&id) {
            let before = entry.lane.robots_weight();
            entry.lane.forget_robots(origin);
            self.evictable.adjust(before, entry.lane.robots_weight());
            self.place(id, now);
        }
    }

    /// Ends a visit: releases its slot, and updates the pace of the lane.
    pub fn finish(&mut self, visit: &Visit, now: Time) {
        let Some((id, slot)) = visit.for_keeper.slot else {
            return;
        };
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        let Some(holder) = entry.lane.free_slot(slot) else {
            return;
        };
        let lane = &mut entry.lane;
        // A Crawl-delay counts from the request for the robots.txt that contains it. When that request was sent, the
        // delay was not known, so the worker did not report the time.
        let sent_at = matches!(visit.purpose, Purpose::Robots(_)).then(|| pick::sent_at(visit));
        lane.pace.sent(slot, sent_at);
        lane.update_http(visit);
        let signal = pick::load_signal(visit, now - holder.flight.started);
        lane.pace.ended(signal, holder.flight, self.rules.retry_wait, now);
        if lane.pace.is_given_up() {
            lane.pace.forget_failures();
            let failure = match (&visit.facts.error, visit.facts.status) {
                (Some(last), _) => Failure::given_up(last),
                (None, status) => {
                    let why = format!("all its responses have the status {}", status.unwrap_or_default());
                    Failure::given_up(&Failure::new(ErrorKind::Unreachable, why))
                }
            };
            // The other links keep their own number of tries, because most were not requested.
            lane.addresses = Addresses::Failed { failure, tries: 0, until: now + GIVEN_UP_LIFE };
        }
        self.free_addresses(&holder.addresses);
        self.share_work_time(id, visit.for_keeper.found.bytes(), now);
        self.place(id, now);
        self.update_rank(id);
    }

    /// Makes delays count from the time at which a request is sent. Workers report that time through `reporter`, and
    /// the reports are passed on to [`Workbench::sent`].
    pub fn set_send_reporter(&mut self, reporter: SendReporter) {
        self.send_reporter = Some(reporter);
    }

    /// Records that a request was sent.
    pub fn sent(&mut self, request: SentRequest, now: Time) {
        if let Some(entry) = self.lanes.get_mut(&request.lane) {
            entry.lane.pace.sent(request.slot, Some(request.at));
            self.place(request.lane, now);
        }
    }

    /// Whether lanes wait for links from the frontier.
    pub fn awaits_refill(&self) -> bool {
        !self.wants_refill.is_empty()
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.counts.in_flight()
    }

    /// Number of links on the workbench: queued, waiting for a retry or for settling, or in flight. The crawl cannot
    /// end while there are any.
    pub fn link_count(&self) -> usize {
        self.counts.waiting() + self.counts.in_flight() + self.decided.len()
    }

    /// Whether `--max-pages` is reached and all pages that were started have ended.
    pub fn is_spent(&self) -> bool {
        self.pages_left == 0 && self.in_flight() == 0 && !self.lanes.values().any(|entry| entry.lane.has_begun_pages())
    }

    /// How many pages may still be requested.
    pub fn pages_left(&self) -> u64 {
        self.pages_left
    }

    /// In debug builds, compares the counts with a recount of all lanes. A recount visits all lanes, so it is made
    /// only once in as many calls as there are lanes.
    fn check_counts(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.calls_since_check += 1;
            if self.calls_since_check < self.lanes.len() {
                return;
            }
            self.calls_since_check = 0;
            let (mut links, mut in_flight, mut resolving) = (self.decided.len(), 0, 0);
            for (_, lane) in self.lanes() {
                links += lane.queue.len() + lane.site_files.links().count() + lane.retries.len() + lane.in_flight();
                in_flight += lane.in_flight();
                resolving += usize::from(matches!(lane.addresses, Addresses::Resolving { .. }));
            }
            debug_assert_eq!(self.link_count(), links, "the links on the workbench");
            debug_assert_eq!(self.in_flight(), in_flight, "the requests in flight");
            debug_assert_eq!(self.counts.resolving(), resolving, "the host names being resolved");
        }
    }

    pub fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        self.lanes.iter().map(|(id, entry)| (*id, &entry.lane))
    }

    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.get(&id).map(|entry| &entry.lane)
    }

    /// The entry of a lane. A lane that is not in memory is created.
    fn entry(&mut self, id: LaneId, name: &str) -> &mut Entry {
        let (rules, evictable) = (&self.rules, &mut self.evictable);
        self.lanes.entry(id).or_insert_with(|| {
            let mut lane = Lane::new(Arc::from(name), rules);
            evictable.readmitted(id, &mut lane);
            Box::new(Entry {
                lane,
                wait: WaitState::Nowhere,
                awaits_refill: false,
                counted: CountedLane::default(),
                woken_by: None,
            })
        })
    }
}

/// The state after the last attempt at a robots.txt failed. Every link of its origin ends with this outcome.
pub fn robots_failed(failure: Failure, outcome: Outcome, tries: u8, now: Time) -> RobotsState {
    RobotsState::Failed { failure, outcome, tries, until: now + GIVEN_UP_LIFE }
}

/// The state after a robots.txt was read and before it is stored.
pub fn robots_rules(rules: impl Into<Arc<Robots>>, now: Time) -> RobotsState {
    RobotsState::Rules { rules: rules.into(), until: now + ROBOTS_LIFE, evictable_from: now + MIN_RESIDENCE }
}
