//! Eviction of robots rules and idle lanes, which the workbench caches.
//!
//! Both caches save requests. Both would grow without bound on a site that invents hosts and ports, so both have a
//! limit. The least recently used entries without work are evicted first. They are loaded or fetched again when needed.
//!
//! Robots rules that are not stored on disk can only be fetched again. While their lane is busy, they stay in memory
//! for a minimum time, so that no robots.txt is fetched repeatedly. Meanwhile a lane that needs a new robots.txt waits.
//!
//! The number of lanes is limited too. Hosts beyond the limit wait in the frontier ([`Workbench::takes_lane`]). When
//! the limit is reached, idle lanes are evicted. After them, lanes that wait for longer than [`PARK_AFTER`] are parked:
//! their links return to the frontier.
//!
//! Invariant: a lane is evicted only if it has no request in flight and no link. A delay, a back-off or a failure that
//! is still in force is kept in a compact form ([`Carried`]) and applies when the lane returns.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use hashbrown::HashMap;

use super::lane_counts::CountedLane;
use super::placement::WaitState;
use super::{Entry, Workbench};
use crate::base::job::LaneId;
use crate::base::link::Link;
use crate::base::outcome::Failure;
use crate::base::time::Time;
use crate::base::url::Origin;
use crate::crawl::rules::Rules;
use crate::crawl::schedule::lane::{Addresses, Lane, RobotsState};

/// Limit on the memory of all robots rules, in bytes. A small `--max-memory` lowers it.
pub const MAX_ROBOTS_MEMORY: usize = 64 << 20;
/// The limit is at least this, however small `--max-memory` is.
const MIN_ROBOTS_MEMORY: usize = 4 << 20;
/// Limit on idle lanes in memory. If half of the limit on lanes is less, that half is the limit on idle lanes. The same
/// number limits `Evictable::eager_lanes`, unless `concurrency` is larger.
pub const IDLE_LANES: usize = 16_384;
/// Lanes, links on the workbench and robots rules may each use `--max-memory` divided by this.
const MEMORY_DIVISOR: u64 = 16;
/// The memory that is divided if there is no `--max-memory`.
const DEFAULT_MEMORY: u64 = 1 << 30;
/// Estimated bytes of a lane and its state: the limit on lanes is the memory for lanes divided by this.
const LANE_BYTES: u64 = 1_024;
/// Estimated bytes of a link on the workbench: the limit on links is the memory for links divided by this.
const LINK_BYTES: u64 = 256;
/// The limit on lanes is at least this, however small `--max-memory` is.
const MIN_LANES: usize = 1_024;
/// The limit on links on the workbench over all lanes is at most this.
const MAX_LINKS: usize = 65_536;
/// How many links a lane takes from the frontier at a time, at most and at least.
const MAX_BATCH: usize = 64;
const MIN_BATCH: usize = 2;
/// Limit on the evicted lanes whose delays are kept in memory.
const MAX_CARRIED: usize = 65_536;
/// How many idle lanes one call of [`Workbench::evict_idle_lanes`] examines.
const EVICTION_STEPS: usize = 8;
/// A lane that cannot start a request for this long is parked, if the limit on lanes is reached and no lane in memory
/// can start one of the further requests that `concurrency` allows.
pub const PARK_AFTER: Duration = Duration::from_secs(60);
/// Rules are grouped by size in steps of this many bytes, and the largest are evicted first. Most files are far smaller
/// than one step.
const WEIGHT_CLASS: usize = 64 << 10;
/// How long the rules of a busy lane that are not stored on disk stay in memory at least.
pub(super) const MIN_RESIDENCE: Duration = Duration::from_secs(60);
/// The pause after an eviction that freed too little. It limits the cost, because each search visits all lanes.
const EVICTION_PAUSE: Duration = Duration::from_secs(1);

/// Sizes and limits of the caches of the workbench.
pub(super) struct Evictable {
    /// Limit on the size of all robots rules, in bytes.
    robots_limit: usize,
    /// Current size of all robots rules, in bytes.
    robots_bytes: usize,
    /// If the last eviction freed too little: when the next one may start.
    next_eviction: Time,
    /// Limit on lanes.
    max_lanes: usize,
    /// While fewer lanes than this have work, further lanes are taken from the frontier. Otherwise a lane is taken only
    /// if no lane in memory can start one of the further requests that `concurrency` allows.
    eager_lanes: usize,
    /// Limit on links on the workbench. Very many lanes may exceed it, because each gets at least [`MIN_BATCH`].
    max_links: usize,
    /// Lanes in the order in which they became idle. Lanes that are busy again are skipped when they are reached.
    idle: VecDeque<LaneId>,
    /// Delays and failures that still apply to evicted lanes.
    carried: HashMap<LaneId, Carried>,
    /// The keys of `carried`, in the order in which the entries end.
    carried_until: BTreeSet<(Time, LaneId)>,
}

/// A delay or failure that still applies to an evicted lane.
struct Carried {
    /// No request to the host starts before this time.
    until: Time,
    /// If the host was given up: the failure, and the number of tries.
    given_up: Option<Box<(Failure, u8)>>,
}

impl Evictable {
    pub fn new(rules: &Rules) -> Self {
        let share = rules.max_memory.unwrap_or(DEFAULT_MEMORY) / MEMORY_DIVISOR;
        // How many items of this size fit into one share of the memory.
        let items_of = |size: u64| usize::try_from(share / size).unwrap_or(usize::MAX);
        let max_lanes = items_of(LANE_BYTES).max(MIN_LANES).max(rules.concurrency.saturating_mul(2));
        Self {
            robots_limit: items_of(1).clamp(MIN_ROBOTS_MEMORY, MAX_ROBOTS_MEMORY),
            robots_bytes: 0,
            next_eviction: Time::ZERO,
            max_lanes,
            eager_lanes: IDLE_LANES.min(max_lanes / 2).max(rules.concurrency),
            max_links: items_of(LINK_BYTES).min(MAX_LINKS),
            idle: VecDeque::new(),
            carried: HashMap::new(),
            carried_until: BTreeSet::new(),
        }
    }

    /// Updates the size of all robots rules after the rules of a lane changed in size.
    pub fn adjust(&mut self, before: usize, after: usize) {
        self.robots_bytes = self.robots_bytes.saturating_sub(before).saturating_add(after);
    }

    /// Whether robots rules exceed their limit.
    pub fn is_full(&self) -> bool {
        self.robots_bytes > self.robots_limit
    }

    /// Applies the carried state of a lane that is in memory again.
    pub fn readmitted(&mut self, id: LaneId, lane: &mut Lane) {
        let Some(Carried { until, given_up }) = self.carried.remove(&id) else { return };
        self.carried_until.remove(&(until, id));
        match given_up {
            Some(given_up) => lane.addresses = Addresses::Failed { failure: given_up.0, tries: given_up.1, until },
            None => lane.pace.back_off_until(until),
        }
    }

    /// Keeps the delay or failure that still applies to a lane. Returns false if there is no room for it.
    fn carry(&mut self, id: LaneId, lane: &Lane, now: Time) -> bool {
        while let Some((until, ended)) = self.carried_until.first().copied().filter(|(until, _)| *until <= now) {
            self.carried_until.remove(&(until, ended));
            self.carried.remove(&ended);
        }
        let carried = match &lane.addresses {
            Addresses::Failed { failure, tries, until } if *until > now => {
                Carried { until: *until, given_up: Some(Box::new((failure.clone(), *tries))) }
            }
            _ => Carried { until: lane.pace.due(), given_up: None },
        };
        if carried.until <= now {
            return true;
        }
        if self.carried.len() >= MAX_CARRIED {
            return false;
        }
        self.carried_until.insert((carried.until, id));
        self.carried.insert(id, carried);
        true
    }
}

impl Workbench {
    /// Size of all robots rules in memory, in bytes.
    pub fn robots_bytes(&self) -> usize {
        self.evictable.robots_bytes
    }

    /// Estimated size of all lanes in memory, in bytes, without their robots rules.
    pub fn lanes_bytes(&self) -> usize {
        let links = usize::try_from(LINK_BYTES).unwrap_or(0).saturating_mul(self.link_count());
        // Three times the size of the value: the estimate includes its key in the map and in the ordered set.
        let carried = self.evictable.carried.len() * 3 * size_of::<Carried>();
        self.lanes.len() * usize::try_from(LANE_BYTES).unwrap_or(0) + links + carried
    }

    /// How many links a lane takes from the frontier at a time: fewer if there are many lanes, and one if links have
    /// priorities.
    pub fn lane_batch(&self) -> usize {
        if self.ranks_links {
            return 1;
        }
        (self.evictable.max_links / self.lanes.len().max(1)).clamp(MIN_BATCH, MAX_BATCH)
    }

    /// Whether one more lane should be taken from the frontier now. Evicts idle lanes if there are too many.
    pub fn takes_lane(&mut self, now: Time) -> bool {
        if self.draining || self.paused || self.pages_left == 0 {
            return false;
        }
        self.evict_idle_lanes(now);
        if self.lanes.len() >= self.evictable.max_lanes {
            return false;
        }
        let active = self.lanes.len() - self.counts.idle().min(self.lanes.len());
        active < self.evictable.eager_lanes || self.is_short_of_lanes()
    }

    /// Whether `concurrency` allows further requests and no lane in memory can start one now.
    fn is_short_of_lanes(&self) -> bool {
        let is_idle = self.queues.has_no_ready_lane() && self.to_resolve.is_empty();
        is_idle && self.decided.is_empty() && self.in_flight() + self.counts.resolving() < self.concurrency
    }

    /// Removes the lane with the longest wait from the workbench. Returns its links, and when it may start again. Does
    /// nothing if memory has room for another lane, if `concurrency` allows no further request, if a lane in memory can
    /// start one, or if the wait is shorter than `PARK_AFTER`.
    pub fn park_lane(&mut self, now: Time) -> Option<(LaneId, Time, Vec<Link>)> {
        if self.lanes.len() < self.evictable.max_lanes || !self.is_short_of_lanes() {
            return None;
        }
        let (due, id) = self.queues.last_later()?;
        if due < now + PARK_AFTER {
            return None;
        }
        let lane = &self.lanes.get(&id)?.lane;
        // The frontier takes links back without a log entry only if no request was sent for them.
        let is_begun = lane.has_begun_pages() || !lane.retries.is_empty() || !lane.site_files.is_empty();
        let has_robots_pending = lane.robots.iter().any(|(_, state)| matches!(state, RobotsState::Requested { .. }));
        if lane.in_flight() > 0 || is_begun || has_robots_pending || !self.evictable.carry(id, lane, now) {
            return None;
        }
        self.queues.remove_later(due, id);
        self.wants_refill.retain(|other| *other != id);
        let lane = self.remove_lane(id)?;
        Some((id, due, lane.queue.into()))
    }

    /// Removes a lane from memory and from the counts.
    fn remove_lane(&mut self, id: LaneId) -> Option<Lane> {
        let Entry { lane, counted, .. } = *self.lanes.remove(&id)?;
        self.counts.replace(counted, CountedLane::default());
        self.evictable.adjust(lane.robots_weight(), 0);
        Some(lane)
    }

    /// Evicts robots rules if they exceed their limit: first those of lanes without work, then large ones, then the
    /// least recently used. `newest` stays, since it is about to be used. Evicts down to three quarters of the limit,
    /// so that evictions are rare.
    pub(super) fn evict_robots(&mut self, newest: Option<(LaneId, &Origin)>, now: Time) {
        if !self.evictable.is_full() || now < self.evictable.next_eviction {
            return;
        }
        let mut candidates: Vec<_> = Vec::new();
        for (id, entry) in &self.lanes {
            let lane = &entry.lane;
            for (origin, state) in &lane.robots {
                let may_evict = matches!(state, RobotsState::Rules { evictable_from, .. } if *evictable_from <= now || !lane.is_busy());
                if may_evict && newest != Some((*id, origin)) {
                    let weight = state.weight();
                    let weight_class = std::cmp::Reverse(weight / WEIGHT_CLASS);
                    candidates.push((
                        lane.is_busy(),
                        weight_class,
                        lane.pace.last_start(),
                        weight,
                        *id,
                        origin.clone(),
                    ));
                }
            }
        }
        candidates.sort_by_key(|(is_busy, weight_class, last_start, ..)| (*is_busy, *weight_class, *last_start));
        for (.., weight, id, origin) in candidates {
            if self.evictable.robots_bytes <= self.evictable.robots_limit / 4 * 3 {
                break;
            }
            if let Some(entry) = self.lanes.get_mut(&id) {
                entry.lane.set_robots(&origin, RobotsState::Evicted);
                self.evictable.adjust(weight, 0);
            }
        }
        if self.evictable.is_full() {
            self.evictable.next_eviction = now + EVICTION_PAUSE;
        }
    }

    /// Tries to free memory for the rules of one more robots.txt. If that fails, returns when to try again.
    pub(super) fn retry_eviction(&mut self, now: Time) -> Option<Time> {
        self.evict_robots(None, now);
        self.evictable.is_full().then_some(self.evictable.next_eviction)
    }

    /// Adds a lane that became idle to those that may be evicted.
    pub(super) fn became_idle(&mut self, id: LaneId) {
        if let Some(entry) = self.lanes.get_mut(&id) {
            entry.lane.release_memory();
        }
        let idle = &mut self.evictable.idle;
        idle.push_back(id);
        if idle.len() > 2 * self.lanes.len() + 64 {
            // Lanes that became idle several times have several entries. Only the latest is kept.
            let mut seen = hashbrown::HashSet::new();
            let mut kept: VecDeque<LaneId> = std::mem::take(idle)
                .into_iter()
                .rev()
                .filter(|id| self.lanes.get(id).is_some_and(|entry| entry.counted.is_idle()) && seen.insert(*id))
                .collect();
            kept.make_contiguous().reverse();
            self.evictable.idle = kept;
        }
    }

    /// Evicts idle lanes, longest idle first, while there are too many of them or the limit on lanes is reached. Each
    /// call examines only a few.
    pub(super) fn evict_idle_lanes(&mut self, now: Time) {
        for _ in 0..EVICTION_STEPS {
            let (idle_lanes, max_lanes) = (self.counts.idle(), self.evictable.max_lanes);
            if idle_lanes == 0 || (idle_lanes <= IDLE_LANES.min(max_lanes / 2) && self.lanes.len() < max_lanes) {
                return;
            }
            let Some(id) = self.evictable.idle.pop_front() else { return };
            let Some(entry) = self.lanes.get(&id).filter(|entry| entry.counted.is_idle()) else { continue };
            // A lane that was offered a free slot of its address must first use the slot or pass it on (`woken_by`).
            let may_evict = entry.wait == WaitState::Nowhere && !entry.awaits_refill && entry.woken_by.is_none();
            if may_evict && self.evictable.carry(id, &entry.lane, now) {
                self.remove_lane(id);
            } else {
                self.evictable.idle.push_back(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Next, robots_rules};
    use super::*;
    use crate::base::link::{Link, LinkKind};
    use crate::base::url::Url;
    use crate::crawl::rules::{Config, Size};
    use crate::crawl::schedule::lane::{MAX_ORIGINS, Measured};
    use crate::page::robots::Robots;

    fn bench(edit: impl FnOnce(&mut Config)) -> Workbench {
        let mut config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        edit(&mut config);
        Workbench::new(Arc::new(config.compile(0).expect("valid settings")))
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn origin(host: u32, port: u16) -> Origin {
        Origin { https: false, host: format!("h{host}.example").into(), port }
    }

    fn link(origin: &Origin) -> Link {
        let url = Url::parse(&format!("{origin}/page")).expect("an address");
        Link { url, via: None, depth: 1, redirects: 5, tries: 0, kind: LinkKind::Anchor, request: None }
    }

    /// A file of about 95 KB that consists of rules with wildcards.
    fn heavy() -> Robots {
        let rules: String = (0..6_000).map(|n| format!("Disallow:/*{n}\n")).collect();
        let robots = Robots::parse(format!("User-agent: *\n{rules}").as_bytes(), "argiope");
        assert!(robots.weight() > 100 << 10, "{}", robots.weight());
        robots
    }

    #[test]
    fn robots_rules_of_many_origins_stay_within_their_limit() {
        let mut bench = bench(|config| config.max_memory = Some(Size(64 << 20)));
        let rules = heavy();
        for host in 0..50 {
            for port in 1_000..1_004 {
                bench.set_backlog(LaneId(host), &format!("h{host}.example"), 0, at(0));
                let state = robots_rules(rules.clone(), at(0));
                bench.robots_known(LaneId(host), &origin(host, port), state, at(0));
                assert!(bench.robots_bytes() <= MIN_ROBOTS_MEMORY, "{}", bench.robots_bytes());
            }
        }
        let held: usize = bench.lanes().map(|(_, lane)| lane.robots_weight()).sum();
        assert_eq!(held, bench.robots_bytes(), "the count matches the rules in memory");
    }

    #[test]
    fn the_number_of_origins_of_a_host_is_limited() {
        let mut bench = bench(|_| {});
        for port in 1_000..2_000 {
            bench.robots_known(LaneId(0), &origin(0, port), robots_rules(Robots::default(), at(0)), at(0));
        }
        let (_, lane) = bench.lanes().next().expect("a lane");
        assert_eq!(lane.robots.len(), MAX_ORIGINS);
        assert!(lane.robots_of(&origin(0, 1_999)).is_some(), "the last one is among them");
    }

    #[test]
    fn evicted_rules_are_loaded_before_they_are_fetched_again() {
        let mut bench = bench(|config| config.max_memory = Some(Size(64 << 20)));
        let rules = heavy();
        for host in 0..60 {
            bench.robots_known(LaneId(host), &origin(host, 80), robots_rules(rules.clone(), at(0)), at(0));
        }
        let is_evicted = |lane: &Lane| matches!(lane.robots.first(), Some((_, RobotsState::Evicted)));
        let (id, _) = bench.lanes().find(|(_, lane)| is_evicted(lane)).expect("some rules were evicted");
        let site = origin(id.0, 80);
        bench.add_links(id, vec![link(&site)], 0, at(1));
        let Next::Resolve(lane, _) = bench.next(at(1)) else { panic!("the name is resolved first") };
        bench.resolved(lane, Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::MAX)), at(1));
        let Next::Recall(lane, recalled) = bench.next(at(1)) else { panic!("stored rules are loaded first") };
        assert_eq!((lane, &recalled), (id, &site));
        bench.robots_not_stored(lane, &recalled, at(1));
        let Next::Fetch(job) = bench.next(at(1)) else { panic!("then the robots.txt is fetched") };
        assert_eq!(job.link.url.target(), "/robots.txt");
    }

    #[test]
    fn busy_lanes_whose_rules_do_not_all_fit_into_memory_are_all_served() {
        let mut bench = bench(|config| {
            config.max_memory = Some(Size(64 << 20));
            config.concurrency = 1;
        });
        let rules = Arc::new(heavy());
        let stored_rules =
            || RobotsState::Rules { rules: Arc::clone(&rules), until: at(86_400), evictable_from: at(0) };
        let (hosts, pages) = (60, 3);
        for host in 0..hosts {
            bench.robots_known(LaneId(host), &origin(host, 80), stored_rules(), at(0));
            bench.add_links(LaneId(host), (0..pages).map(|_| link(&origin(host, 80))).collect(), 0, at(0));
        }
        let (mut started, mut recalls, mut now) = (0, 0, at(0));
        for _ in 0..hosts * pages * 4 {
            match bench.next(now) {
                Next::Fetch(job) => {
                    started += 1;
                    now += Duration::from_secs(1);
                    let mut visit =
                        crate::crawl::visit::Visit::with_outcome(job.link, job.purpose, crate::Outcome::Ok, now);
                    visit.for_keeper.slot = Some((job.lane, job.slot));
                    bench.finish(&visit, now);
                }
                Next::Resolve(lane, _) => {
                    bench.resolved(
                        lane,
                        Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::MAX)),
                        now,
                    );
                }
                Next::Recall(lane, origin) => {
                    recalls += 1;
                    bench.robots_recalled(lane, &origin, stored_rules(), now);
                }
                Next::Settle(_) => {}
                Next::Wait(until) if until.is_never() => break,
                Next::Wait(until) => now = now.max(until),
            }
            assert!(bench.robots_bytes() <= MIN_ROBOTS_MEMORY, "{}", bench.robots_bytes());
        }
        assert_eq!(started, hosts * pages, "after {recalls} recalls");
        assert!(recalls > 0 && recalls <= started, "{recalls} recalls");
    }

    #[test]
    fn lanes_with_rules_in_memory_go_first() {
        // The rules are evicted before the lanes enter the queue `ready`, or (late) while they are in it.
        for is_late in [false, true] {
            let mut bench = bench(|config| config.concurrency = 1);
            let ids = [LaneId(0), LaneId(1), LaneId(2)];
            let ip = "93.184.216.1".parse().expect("an address");
            for id in ids {
                bench.robots_known(id, &origin(id.0, 80), robots_rules(Robots::default(), at(0)), at(0));
                // The first two have many links and enter the queue first, so that only their rules rank them last.
                let count = if id == LaneId(2) { 1 } else { 50 };
                let lane = &mut bench.lanes.get_mut(&id).expect("a lane").lane;
                lane.addresses = Addresses::Known { list: [ip].into(), until: at(86_400), took: Measured::default() };
                if !is_late && id != LaneId(2) {
                    lane.set_robots(&origin(id.0, 80), RobotsState::Evicted);
                }
                bench.add_links(id, (0..count).map(|_| link(&origin(id.0, 80))).collect(), 0, at(0));
            }
            for id in ids.iter().take(2) {
                let lane = &mut bench.lanes.get_mut(id).expect("a lane").lane;
                lane.set_robots(&origin(id.0, 80), RobotsState::Evicted);
            }
            let Next::Fetch(job) = bench.next(at(0)) else { panic!("a page, and no recall") };
            assert_eq!(job.lane, LaneId(2));
            let mut visit = crate::crawl::visit::Visit::with_outcome(job.link, job.purpose, crate::Outcome::Ok, at(0));
            visit.for_keeper.slot = Some((job.lane, job.slot));
            bench.finish(&visit, at(0));
            let Next::Recall(lane, _) = bench.next(at(0)) else { panic!("the other lanes are next") };
            assert_eq!(lane, LaneId(0), "the lane that waited longest");
        }
    }

    #[test]
    fn robots_bytes_stay_exact_when_an_origin_beyond_the_limit_is_added() {
        let mut bench = bench(|_| {});
        let max_origins = u16::try_from(MAX_ORIGINS).expect("a small number");
        for port in 0..max_origins {
            bench.robots_known(LaneId(0), &origin(0, 8_000 + port), robots_rules(heavy(), at(0)), at(0));
        }
        bench.add_links(LaneId(0), vec![link(&origin(0, 9_000))], 0, at(0));
        let Next::Resolve(lane, _) = bench.next(at(0)) else { panic!("the name is resolved first") };
        bench.resolved(lane, Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::MAX)), at(0));
        let Next::Fetch(_) = bench.next(at(0)) else { panic!("then its robots.txt") };
        let held: usize = bench.lanes().map(|(_, lane)| lane.robots_weight()).sum();
        assert_eq!(held, bench.robots_bytes(), "the count matches the rules in memory");
    }

    /// An entry of 384 bytes has a size class of its own in the allocator; the next one has 448 bytes.
    #[test]
    fn a_lane_takes_at_most_384_bytes() {
        assert!(size_of::<Entry>() <= 384, "{}", size_of::<Entry>());
    }

    #[test]
    fn lanes_without_work_are_evicted() {
        let mut bench = bench(|_| {});
        let hosts = 3 * u32::try_from(IDLE_LANES).expect("a small number");
        bench.set_backlog(LaneId(1), "h1.example", 7, at(0));
        for host in 2..hosts {
            bench.set_backlog(LaneId(host), &format!("h{host}.example"), 0, at(0));
        }
        assert!(bench.lanes().count() <= IDLE_LANES + 2, "{}", bench.lanes().count());
        assert!(bench.holds(LaneId(1)), "it has links");
        assert!(bench.holds(LaneId(hosts - 1)) && !bench.holds(LaneId(2)), "the latest are kept");
        // Lanes that are used repeatedly are counted once.
        for _ in 0..3 {
            for host in hosts - 1_000..hosts {
                bench.set_backlog(LaneId(host), &format!("h{host}.example"), 1, at(0));
                bench.set_backlog(LaneId(host), &format!("h{host}.example"), 0, at(0));
            }
        }
        let idle = bench.lanes.values().filter(|entry| !entry.lane.is_busy()).count();
        assert_eq!(idle, bench.counts.idle());
    }

    #[test]
    fn the_lookup_of_an_evicted_lane_is_not_counted() {
        let mut bench = bench(|config| config.max_memory = Some(Size(1 << 20)));
        let name = |host: u32| format!("h{host}.example");
        bench.set_backlog(LaneId(0), &name(0), 0, at(0));
        bench.add_links(LaneId(0), vec![link(&origin(0, 80))], 0, at(0));
        assert!(matches!(bench.next(at(0)), Next::Resolve(..)));
        assert_eq!(bench.counts.resolving(), 1);
        assert_eq!(bench.withdraw(LaneId(0), at(0)).len(), 1);
        for host in 1..2 * u32::try_from(MIN_LANES).expect("a small number") {
            bench.set_backlog(LaneId(host), &name(host), 0, at(0));
        }
        assert!(!bench.holds(LaneId(0)), "it was idle");
        bench.resolved(LaneId(0), Ok((Vec::new(), Duration::from_secs(300))), at(1));
        assert_eq!((bench.counts.resolving(), bench.link_count()), (0, 0));
    }

    #[test]
    fn delays_of_an_evicted_lane_apply_when_it_returns() {
        let mut bench = bench(|_| {});
        bench.pause_until(LaneId(0), "h0.example", at(3_600));
        bench.set_backlog(LaneId(0), "h0.example", 0, at(0));
        bench.set_backlog(LaneId(1), "h1.example", 0, at(0));
        bench.resolved(LaneId(1), Err(Failure::new(crate::ErrorKind::DnsNxdomain, "no such name")), at(0));
        for host in 2..2 * u32::try_from(IDLE_LANES).expect("a small number") {
            bench.set_backlog(LaneId(host), &format!("h{host}.example"), 0, at(0));
        }
        assert!(!bench.holds(LaneId(0)) && !bench.holds(LaneId(1)), "both are evicted");
        bench.set_backlog(LaneId(0), "h0.example", 0, at(10));
        assert_eq!(bench.backs_off_until(LaneId(0)), at(3_600));
        bench.set_backlog(LaneId(1), "h1.example", 0, at(10));
        bench.add_links(LaneId(1), vec![link(&origin(1, 80))], 0, at(10));
        let Next::Settle(visit) = bench.next(at(10)) else { panic!("the host was given up") };
        assert_eq!(visit.facts.error.map(|failure| failure.kind), Some(crate::ErrorKind::DnsNxdomain));
    }

    #[test]
    fn lanes_that_wait_long_are_parked_at_the_limit() {
        let mut bench = bench(|config| {
            config.max_memory = Some(Size(64 << 20));
            config.concurrency = 2;
        });
        let max_lanes = u32::try_from(bench.evictable.max_lanes).expect("a small number");
        for host in 0..max_lanes {
            bench.pause_until(LaneId(host), &format!("h{host}.example"), at(120 + u64::from(host)));
            bench.set_backlog(LaneId(host), &format!("h{host}.example"), 1, at(0));
            bench.add_links(LaneId(host), vec![link(&origin(host, 80))], 0, at(0));
        }
        assert!(!bench.takes_lane(at(0)), "lanes are at their limit");
        let (lane, due, links) = bench.park_lane(at(0)).expect("all of them wait");
        assert_eq!((lane, due, links.len()), (LaneId(max_lanes - 1), at(119 + u64::from(max_lanes)), 1));
        assert_eq!(bench.link_count(), max_lanes as usize - 1);
        assert!(bench.takes_lane(at(0)) && bench.park_lane(at(0)).is_none());
        bench.set_backlog(lane, "h.example", 1, at(1));
        assert_eq!(bench.backs_off_until(lane), due, "it still waits");
    }

    #[test]
    fn queued_links_are_not_judged_again_when_others_are_added() {
        let mut bench = bench(|_| {});
        let (site, allow_all) = (origin(0, 80), robots_rules(Robots::default(), at(0)));
        bench.set_backlog(LaneId(0), "h0.example", 0, at(0));
        bench.robots_known(LaneId(0), &site, allow_all, at(0));
        bench.add_links(LaneId(0), vec![link(&site)], 0, at(0));
        // The rules are replaced without an update: if the first link were judged again, it would be forbidden.
        let allow_none = Robots::parse(b"User-agent: *\nDisallow: /\n", "argiope");
        bench.lanes.get_mut(&LaneId(0)).expect("a lane").lane.set_robots(&site, robots_rules(allow_none, at(0)));
        bench.add_links(LaneId(0), vec![link(&site)], 0, at(0));
        assert_eq!(bench.decided.len(), 1, "only the new link is judged");
        bench.resolved(LaneId(0), Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::MAX)), at(0));
        assert_eq!(bench.decided.len(), 1, "new addresses do not affect robots.txt");
    }
}
