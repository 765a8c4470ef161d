//! [`Workbench`]: the lanes in memory, and which of them may send the next request.
//!
//! The frontier holds all known URLs. The workbench holds the lanes being worked on. Politeness is ownership: a [`Job`]
//! is the right to use one slot of a lane. [`Workbench::next`] hands it out, and [`Workbench::finish`] releases it. A
//! worker without a job cannot send a request, so requests cannot exceed the limits.
//!
//! A lane waits for one thing at a time (`Wait`):
//!
//! ```text
//!            changed, not due                time has come
//!   +-------+ ------------> +------------+ ----------------> +------+ --> its next request starts: again
//!   | Event |               | Until time |                   | Turn |     Event, Until or Turn
//!   +-------+ <-----------  +------------+                   +------+
//!       |      changed: nothing to do                         |    ^
//!       +--------------------- changed, due --------------->--+    | what it lacked is there
//!                                                             |    |
//!               on its turn, the next request lacks ...       v    |
//!               +----------------+-----------------+-----------+---------------+
//!               | a page of      | a slot of its   | a slot of | enough slots  |
//!               | --rate: Rate   | IP: Address     | its class | for slow lanes|
//!               +----------------+-----------------+-----------+---------------+
//!                                          UnreservedSlot       FreeSlots
//! ```
//!
//! An event is a response, a DNS answer, a robots.txt or more links; `Workbench::place` then moves the lane. A lane that
//! waits for its turn or lacks something stays where it is when it changes, and is checked again on its turn.
//!
//! Each part owns its fields, and the workbench connects the parts:
//!
//! | part | owns |
//! |---|---|
//! | `LaneTable` | the lanes, and sums over them |
//! | `LaneQueues` | which lane waits for what, and who is first |
//! | `AddressSlots` | requests in flight at each IP address (`--per-ip`) |
//! | `PageStarts` | `--max-pages` and `--rate` |
//! | `SlotPolicy` | how lanes share `concurrency`, and which slow responses are closed |
//! | `RobotsMemory` | the memory of robots rules, their eviction, and which are loaded again |
//! | `Residence` | how many lanes are in memory, and which are evicted or parked |
//! | `Holds` | why no request starts, or only those of rendered pages |
//!
//! Robots rules may be evicted while their lane has work. Such a lane ranks after all lanes whose rules are in memory.
//! When it is the first in the queue, its rules are loaded again, and it is served before all other lanes. So every
//! reload leads to a request or a decision, and lanes cannot evict each other's rules forever.
//!
//! Invariants:
//!
//! - Requests in flight never exceed the concurrency, the width of a lane, or the cap of an address.
//! - No request starts before its lane is due.
//! - robots.txt is fetched before the first page of an origin.
//! - A link whose outcome is known is settled at once, so that no timer decides when the crawl ends.

mod address_slots;
mod carried;
mod dispatch;
mod lane_counts;
mod lane_queues;
mod lane_table;
mod page_starts;
mod pick;
mod placement;
mod ranking;
mod residence;
mod robots_memory;
mod selection;
mod slots;
#[cfg(test)]
mod slots_tests;
mod steering;
#[cfg(test)]
mod tests;
mod wait;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::address_slots::AddressSlots;
use self::lane_queues::LaneQueues;
use self::lane_table::{Entry, LaneTable};
use self::page_starts::PageStarts;
use self::pick::Update;
#[cfg(test)]
pub(crate) use self::residence::IDLE_LANES;
pub use self::residence::ParkedLane;
use self::residence::{Residence, memory_share};
#[cfg(test)]
pub(crate) use self::robots_memory::MAX_ROBOTS_MEMORY;
use self::robots_memory::{MIN_RESIDENCE, RobotsMemory};
use self::slots::SlotPolicy;
use self::steering::Holds;
pub use self::steering::MayStart;
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
    lanes: LaneTable,
    queues: LaneQueues,
    addresses: AddressSlots,
    pages: PageStarts,
    slots: SlotPolicy,
    robots: RobotsMemory,
    residence: Residence,
    holds: Holds,
    /// Lanes whose host name must be resolved.
    to_resolve: VecDeque<LaneId>,
    /// Visits of links that end without a request.
    decided: VecDeque<Box<Visit>>,
    /// Lanes that need more links from the frontier.
    wants_refill: Vec<LaneId>,
    /// See [`Workbench::rank_links`].
    ranks_links: bool,
    /// Reports when requests are sent, for lanes with a delay. Without it, delays count from the start of a job.
    send_reporter: Option<SendReporter>,
}

impl Workbench {
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            lanes: LaneTable::default(),
            ranks_links: rules.link_filter.as_ref().is_some_and(|filter| filter.ranks()),
            queues: LaneQueues::default(),
            addresses: AddressSlots::new(rules.per_ip),
            pages: PageStarts::new(&rules),
            slots: SlotPolicy::new(&rules),
            robots: RobotsMemory::new(memory_share(&rules)),
            residence: Residence::new(&rules),
            holds: Holds::default(),
            rules,
            to_resolve: VecDeque::new(),
            decided: VecDeque::new(),
            wants_refill: Vec::new(),
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
        self.lanes.get(id).is_some()
    }

    /// Counts pages that an earlier run requested towards `--max-pages`.
    pub fn spend_pages(&mut self, pages: u64) {
        self.pages.spend(pages);
    }

    /// Does not count a page towards `--max-pages`, because the job that [`Workbench::next`] returned last is not sent.
    pub fn return_page(&mut self, job: &Job, now: Time) {
        if job.purpose == Purpose::Page && job.link.tries == 0 {
            self.give_back_page(now);
        }
    }

    /// Does not count a page towards `--max-pages`, because it was not requested in the end. If it was the last page of
    /// the limit, all lanes are placed again: those with pages wait for nothing else.
    pub fn give_back_page(&mut self, now: Time) {
        if self.pages.give_back() {
            self.place_all(now);
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
        self.lanes.get(id).map_or(Time::ZERO, |entry| entry.lane.pace.backs_off_until())
    }

    /// Delays the first request, because an earlier run or another process may have sent one. `ago` is the time since
    /// then.
    pub fn keep_initial_delay(&mut self, id: LaneId, ago: Duration, now: Time) {
        if let Some(entry) = self.lanes.get_mut(id) {
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
        let Some(entry) = self.lanes.get_mut(id) else {
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

    /// Adds a request to make before the lane's pages: a robots.txt at the user's request or as the target of a
    /// redirect, or a part of a page that is being rendered.
    pub fn add_site_file(&mut self, id: LaneId, link: Link, purpose: Purpose, now: Time) {
        let name: Arc<str> = Arc::from(link.url.host());
        self.entry(id, &name).lane.site_files.push_back(link, purpose);
        self.move_decided(id, Update::SiteFiles, now);
        self.place(id, now);
        self.update_rank(id);
    }

    /// Schedules another attempt for a link at `due`.
    pub fn retry(&mut self, id: LaneId, link: Link, purpose: Purpose, due: Time, now: Time) {
        let name: Arc<str> = Arc::from(link.url.host());
        let seq = self.queues.next_seq();
        self.entry(id, &name).lane.retries.push(Reverse(PendingRetry { due, seq, link, purpose }));
        self.place(id, now);
    }

    /// The answer to the lookup of a lane's host name.
    pub fn resolved(&mut self, id: LaneId, answer: DnsResult, now: Time) {
        let rules = Arc::clone(&self.rules);
        let Some(entry) = self.lanes.get_mut(id) else {
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
        self.entry(id, &origin.host);
        let Some(entry) = self.lanes.get_mut(id) else { return };
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
        self.robots.change(&mut entry.lane, |lane| lane.set_robots(origin, state));
        self.move_decided(id, Update::Robots(origin), now);
        self.place(id, now);
        self.robots.evict(&mut self.lanes, Some((id, origin)), now);
    }

    /// The answer to [`Workbench::take_recall`] if the robots.txt was stored. The lane is served next, while its rules are in
    /// memory.
    pub fn robots_recalled(&mut self, id: LaneId, origin: &Origin, state: RobotsState, now: Time) {
        self.robots.set_recalled(Some(id));
        self.robots_known(id, origin, state, now);
        self.robots.set_recalled(None);
    }

    /// The answer to [`Workbench::take_recall`] if the robots.txt was not stored: it is fetched again.
    pub fn robots_not_stored(&mut self, id: LaneId, origin: &Origin, now: Time) {
        if let Some(entry) = self.lanes.get_mut(id) {
            self.robots.change(&mut entry.lane, |lane| lane.forget_robots(origin));
            self.place(id, now);
        }
    }

    /// Takes the visit of a link that has ended without a request.
    pub fn take_decided(&mut self) -> Option<Box<Visit>> {
        self.decided.pop_front()
    }

    /// Takes the lane and origin of robots rules that were evicted and are needed again. Answered by
    /// [`Workbench::robots_recalled`] if the frontier stored them, by [`Workbench::robots_not_stored`] otherwise.
    pub fn take_recall(&mut self) -> Option<(LaneId, Origin)> {
        self.robots.take_recall()
    }

    /// Ends a visit: releases its slot, and updates the pace of the lane.
    pub fn finish(&mut self, visit: &Visit, now: Time) {
        let Some((id, slot)) = visit.for_keeper.slot else { return };
        let Some(lane) = self.lanes.lane_mut(id) else { return };
        let Some(holder) = lane.free_slot(slot) else { return };
        // A Crawl-delay counts from the request for the robots.txt that contains it. When that request was sent, the
        // delay was not known, so the worker did not report the time.
        let sent_at = matches!(visit.purpose, Purpose::Robots(_)).then(|| pick::sent_at(visit));
        lane.pace.sent(slot, sent_at);
        lane.update_http(visit);
        let signal = pick::load_signal(visit, now - holder.flight.started);
        lane.pace.ended(signal, holder.flight, self.rules.retry_wait, now);
        let asks_to_wait = visit.for_keeper.asks_to_wait_longer_than(self.rules.longest_wait);
        if lane.pace.is_given_up() || asks_to_wait {
            lane.pace.forget_failures();
            let failure = match (&visit.facts.error, visit.facts.status) {
                _ if asks_to_wait => {
                    let seconds = visit.for_keeper.retry_after.unwrap_or_default().as_secs();
                    let why = format!("it asks to wait for {seconds} s");
                    Failure::given_up(&Failure::new(ErrorKind::Unreachable, why))
                }
                (Some(last), _) => Failure::given_up(last),
                (None, status) => {
                    let why = format!("all its responses have the status {}", status.unwrap_or_default());
                    Failure::given_up(&Failure::new(ErrorKind::Unreachable, why))
                }
            };
            // The other links keep their own number of tries, because most were not requested.
            lane.addresses = Addresses::Failed { failure, tries: 0, until: now + GIVEN_UP_LIFE };
        }
        for ip in holder.addresses.iter() {
            if let Some(next) = self.addresses.end(*ip) {
                self.wake_for_address(next, *ip);
            }
        }
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
        if let Some(entry) = self.lanes.get_mut(request.lane) {
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
        self.lanes.counts().in_flight()
    }

    /// Number of links on the workbench: queued, waiting for a retry or for settling, or in flight. The crawl cannot
    /// end while there are any.
    pub fn link_count(&self) -> usize {
        let counts = self.lanes.counts();
        counts.waiting() + counts.in_flight() + self.decided.len()
    }

    /// Whether `--max-pages` is reached and all pages that were started have ended.
    pub fn is_spent(&self) -> bool {
        let has_begun_pages = || self.lanes().any(|(_, lane)| lane.has_begun_pages());
        self.pages.left() == 0 && self.in_flight() == 0 && !has_begun_pages()
    }

    /// How many pages may still be requested.
    pub fn pages_left(&self) -> u64 {
        self.pages.left()
    }

    pub fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        self.lanes.iter().map(|(id, entry)| (id, &entry.lane))
    }

    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.lane(id)
    }

    /// The entry of a lane. A lane that is not in memory is created.
    fn entry(&mut self, id: LaneId, name: &str) -> &mut Entry {
        let (rules, carried) = (&self.rules, &mut self.residence.carried);
        self.lanes.get_or_insert(id, || {
            let mut lane = Lane::new(Arc::from(name), rules);
            carried.apply(id, &mut lane);
            lane
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
