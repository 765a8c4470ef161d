//! [`Residence`]: how many lanes are in memory, and which leave it.
//!
//! Lanes without work stay in memory, because they save requests and lookups. On a site that invents hosts they would
//! grow without bound, so lanes have a limit. Hosts beyond it wait in the frontier ([`Workbench::takes_lane`]). When the
//! limit is reached, idle lanes are evicted, longest idle first. After them, lanes that wait for longer than
//! [`PARK_AFTER`] are parked: their links return to the frontier.
//!
//! Invariant: a lane leaves memory only if it has no request in flight, and no link unless it is parked. A delay, a
//! back-off or a failure that is still in force is kept ([`CarriedStates`]) and applies when the lane returns.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashSet;

use super::Workbench;
use super::carried::CarriedStates;
use super::lane_table::{Entry, LaneTable};
use super::steering::MayStart;
use super::wait::Wait;
use crate::base::job::LaneId;
use crate::base::link::Link;
use crate::base::time::Time;
use crate::crawl::rules::Rules;
use crate::crawl::schedule::lane::{Lane, RobotsState};

/// Limit on idle lanes in memory. If half of the limit on lanes is less, that half is the limit on idle lanes. The same
/// number limits `Residence::eager_lanes`, unless `concurrency` is larger.
pub const IDLE_LANES: usize = 16_384;
/// Lanes, links on the workbench and robots rules may each use `--max-memory` divided by this.
const MEMORY_DIVISOR: u64 = 16;
/// The memory that is divided if there is no `--max-memory`.
const DEFAULT_MEMORY: u64 = 1 << 30;
/// Estimated bytes of a lane and its state: the limit on lanes is the memory for lanes divided by this.
const LANE_BYTES: usize = 1_024;
/// Estimated bytes of a link on the workbench: the limit on links is the memory for links divided by this.
const LINK_BYTES: usize = 256;
/// The limit on lanes is at least this, however small `--max-memory` is.
const MIN_LANES: usize = 1_024;
/// The limit on links on the workbench over all lanes is at most this.
const MAX_LINKS: usize = 65_536;
/// How many links a lane takes from the frontier at a time, at most and at least.
const MAX_BATCH: usize = 64;
const MIN_BATCH: usize = 2;
/// How many idle lanes one call of [`Workbench::evict_idle_lanes`] examines.
const EVICTION_STEPS: usize = 8;
/// A lane that cannot start a request for this long is parked, if the limit on lanes is reached and no lane in memory
/// can start one of the further requests that `concurrency` allows.
pub const PARK_AFTER: Duration = Duration::from_secs(60);

/// The limits on lanes and links in memory, and the lanes that may leave it.
pub(super) struct Residence {
    max_lanes: usize,
    /// While fewer lanes than this have work, further lanes are taken from the frontier. Otherwise a lane is taken only
    /// if no lane in memory can start one of the further requests that `concurrency` allows.
    eager_lanes: usize,
    /// Limit on links on the workbench. Very many lanes may exceed it, because each gets at least [`MIN_BATCH`].
    max_links: usize,
    /// Lanes in the order in which they became idle. Lanes that are busy again are skipped when they are reached.
    idle: VecDeque<LaneId>,
    pub carried: CarriedStates,
}

/// A lane that was removed from the workbench although it has links.
pub struct ParkedLane {
    pub lane: LaneId,
    /// When it may start again.
    pub until: Time,
    /// Its links, which return to the frontier.
    pub links: Vec<Link>,
}

/// How much memory lanes, links or robots rules may use, in bytes.
pub(super) fn memory_share(rules: &Rules) -> usize {
    usize::try_from(rules.max_memory.unwrap_or(DEFAULT_MEMORY) / MEMORY_DIVISOR).unwrap_or(usize::MAX)
}

impl Residence {
    pub fn new(rules: &Rules) -> Self {
        let share = memory_share(rules);
        let max_lanes = (share / LANE_BYTES).max(MIN_LANES).max(rules.concurrency.saturating_mul(2));
        Self {
            max_lanes,
            eager_lanes: IDLE_LANES.min(max_lanes / 2).max(rules.concurrency),
            max_links: (share / LINK_BYTES).min(MAX_LINKS),
            idle: VecDeque::new(),
            carried: CarriedStates::default(),
        }
    }

    /// Adds a lane that became idle to those that may be evicted.
    pub fn became_idle(&mut self, id: LaneId, lanes: &LaneTable) {
        self.idle.push_back(id);
        if self.idle.len() > 2 * lanes.len() + 64 {
            // Lanes that became idle several times have several entries. Only the latest is kept.
            let is_idle = |id: &LaneId| lanes.get(*id).is_some_and(|entry| entry.counted.is_idle());
            let mut seen = HashSet::new();
            let latest_first = self.idle.drain(..).rev().filter(|id| is_idle(id) && seen.insert(*id));
            let mut kept: Vec<LaneId> = latest_first.collect();
            kept.reverse();
            self.idle = kept.into();
        }
    }

    /// Whether lanes without work must leave memory.
    fn has_too_many(&self, lanes: &LaneTable) -> bool {
        let idle = lanes.counts().idle();
        idle > 0 && (idle > IDLE_LANES.min(self.max_lanes / 2) || lanes.len() >= self.max_lanes)
    }

    /// Takes a lane to be evicted, if one of the longest idle ones may be.
    fn pop_evictable(&mut self, lanes: &LaneTable, now: Time) -> Option<LaneId> {
        let id = self.idle.pop_front()?;
        let entry = lanes.get(id).filter(|entry| entry.counted.is_idle())?;
        // A lane that was offered a free slot of its address must first use the slot or pass it on (`woken_by`).
        let may_evict = entry.wait == Wait::Event && !entry.awaits_refill && entry.woken_by.is_none();
        if may_evict && self.carried.keep(id, &entry.lane, now) {
            return Some(id);
        }
        self.idle.push_back(id);
        None
    }
}

impl Workbench {
    /// Size of all robots rules in memory, in bytes.
    pub fn robots_bytes(&self) -> usize {
        self.robots.bytes()
    }

    /// Estimated size of all lanes in memory, in bytes, without their robots rules.
    pub fn lanes_bytes(&self) -> usize {
        let links = LINK_BYTES.saturating_mul(self.link_count());
        self.lanes.len() * LANE_BYTES + links + self.residence.carried.bytes()
    }

    /// How many links a lane takes from the frontier at a time: fewer if there are many lanes, and one if links have
    /// priorities.
    pub fn lane_batch(&self) -> usize {
        if self.ranks_links {
            return 1;
        }
        (self.residence.max_links / self.lanes.len().max(1)).clamp(MIN_BATCH, MAX_BATCH)
    }

    /// Whether one more lane should be taken from the frontier now. Evicts idle lanes if there are too many.
    pub fn takes_lane(&mut self, now: Time) -> bool {
        let is_held = self.holds.is_draining || self.holds.is_paused || self.holds.beside_suspect != MayStart::All;
        if is_held || !self.pages.may_start() {
            return false;
        }
        self.evict_idle_lanes(now);
        if self.lanes.len() >= self.residence.max_lanes {
            return false;
        }
        let active = self.lanes.len() - self.lanes.counts().idle().min(self.lanes.len());
        active < self.residence.eager_lanes || self.is_short_of_lanes()
    }

    /// Whether `concurrency` allows further requests and no lane in memory can start one now.
    fn is_short_of_lanes(&self) -> bool {
        let is_idle = self.queues.has_no_ready_lane() && self.to_resolve.is_empty() && self.decided.is_empty();
        let counts = self.lanes.counts();
        is_idle && counts.in_flight() + counts.resolving() < self.slots.concurrency()
    }

    /// Removes the lane with the longest wait from the workbench. Does nothing if memory has room for another lane, if
    /// `concurrency` allows no further request, if a lane in memory can start one, or if the wait is shorter than
    /// `PARK_AFTER`.
    pub fn park_lane(&mut self, now: Time) -> Option<ParkedLane> {
        if self.lanes.len() < self.residence.max_lanes || !self.is_short_of_lanes() {
            return None;
        }
        let (until, id) = self.queues.last_later().filter(|(until, _)| *until >= now + PARK_AFTER)?;
        let Entry { lane, wait, .. } = self.lanes.get_mut(id)?;
        if !may_park(lane) || !self.residence.carried.keep(id, lane, now) {
            return None;
        }
        self.queues.move_to(id, wait, Wait::Event);
        self.wants_refill.retain(|other| *other != id);
        let lane = self.remove_lane(id)?;
        Some(ParkedLane { lane: id, until, links: lane.queue.into() })
    }

    /// Removes a lane from memory and from the counts.
    fn remove_lane(&mut self, id: LaneId) -> Option<Lane> {
        let lane = self.lanes.remove(id)?;
        self.robots.removed(&lane);
        Some(lane)
    }

    /// Evicts idle lanes, longest idle first, while there are too many of them or the limit on lanes is reached. Each
    /// call examines only a few.
    pub(super) fn evict_idle_lanes(&mut self, now: Time) {
        for _ in 0..EVICTION_STEPS {
            if !self.residence.has_too_many(&self.lanes) {
                return;
            }
            if let Some(id) = self.residence.pop_evictable(&self.lanes, now) {
                self.remove_lane(id);
            }
        }
    }
}

/// Whether a lane with queued links may be parked. The frontier takes links back without a log entry only if no request
/// was sent for them.
fn may_park(lane: &Lane) -> bool {
    let is_begun = lane.has_begun_pages() || !lane.retries.is_empty() || !lane.site_files.is_empty();
    let has_robots_pending = lane.robots.iter().any(|(_, state)| matches!(state, RobotsState::Requested { .. }));
    lane.in_flight() == 0 && !is_begun && !has_robots_pending
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::robots_memory::MIN_ROBOTS_MEMORY;
    use super::super::robots_rules;
    use super::super::tests::{recalled, settled};
    use super::*;
    use crate::base::link::LinkKind;
    use crate::base::outcome::Failure;
    use crate::base::url::{Origin, Url};
    use crate::crawl::rules::{Config, Size};
    use crate::crawl::schedule::lane::{Addresses, MAX_ORIGINS, Measured};
    use crate::crawl::schedule::next::Next;
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
        let Some(Next::Resolve(lane, _)) = bench.next(at(1)) else { panic!("the name is resolved first") };
        bench.resolved(lane, Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::MAX)), at(1));
        let Some((lane, needed)) = recalled(&mut bench, at(1)) else { panic!("stored rules are loaded first") };
        assert_eq!((lane, &needed), (id, &site));
        bench.robots_not_stored(lane, &needed, at(1));
        let Some(Next::Fetch(job)) = bench.next(at(1)) else { panic!("then the robots.txt is fetched") };
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
            let Some(next) = bench.next(now) else {
                let (lane, origin) = bench.take_recall().expect("no link ends without a request");
                recalls += 1;
                bench.robots_recalled(lane, &origin, stored_rules(), now);
                continue;
            };
            match next {
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
                Next::Wait(until) if until.is_never() => break,
                Next::Wait(until) => now = now.max(until),
                Next::Done(_) => panic!("the keeper decides when the crawl is over"),
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
                let lane = &mut bench.lanes.get_mut(id).expect("a lane").lane;
                lane.addresses = Addresses::Known { list: [ip].into(), until: at(86_400), took: Measured::default() };
                if !is_late && id != LaneId(2) {
                    lane.set_robots(&origin(id.0, 80), RobotsState::Evicted);
                }
                bench.add_links(id, (0..count).map(|_| link(&origin(id.0, 80))).collect(), 0, at(0));
            }
            for id in ids.iter().take(2) {
                let lane = &mut bench.lanes.get_mut(*id).expect("a lane").lane;
                lane.set_robots(&origin(id.0, 80), RobotsState::Evicted);
            }
            let Some(Next::Fetch(job)) = bench.next(at(0)) else { panic!("a page, and no recall") };
            assert_eq!(job.lane, LaneId(2));
            let mut visit = crate::crawl::visit::Visit::with_outcome(job.link, job.purpose, crate::Outcome::Ok, at(0));
            visit.for_keeper.slot = Some((job.lane, job.slot));
            bench.finish(&visit, at(0));
            let Some((lane, _)) = recalled(&mut bench, at(0)) else { panic!("the other lanes are next") };
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
        let Some(Next::Resolve(lane, _)) = bench.next(at(0)) else { panic!("the name is resolved first") };
        bench.resolved(lane, Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::MAX)), at(0));
        let Some(Next::Fetch(_)) = bench.next(at(0)) else { panic!("then its robots.txt") };
        let held: usize = bench.lanes().map(|(_, lane)| lane.robots_weight()).sum();
        assert_eq!(held, bench.robots_bytes(), "the count matches the rules in memory");
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
        let idle = bench.lanes().filter(|(_, lane)| !lane.is_busy()).count();
        assert_eq!(idle, bench.lanes.counts().idle());
    }

    #[test]
    fn the_lookup_of_an_evicted_lane_is_not_counted() {
        let mut bench = bench(|config| config.max_memory = Some(Size(1 << 20)));
        let name = |host: u32| format!("h{host}.example");
        bench.set_backlog(LaneId(0), &name(0), 0, at(0));
        bench.add_links(LaneId(0), vec![link(&origin(0, 80))], 0, at(0));
        assert!(matches!(bench.next(at(0)), Some(Next::Resolve(..))));
        assert_eq!(bench.lanes.counts().resolving(), 1);
        assert_eq!(bench.withdraw(LaneId(0), at(0)).len(), 1);
        for host in 1..2 * u32::try_from(MIN_LANES).expect("a small number") {
            bench.set_backlog(LaneId(host), &name(host), 0, at(0));
        }
        assert!(!bench.holds(LaneId(0)), "it was idle");
        bench.resolved(LaneId(0), Ok((Vec::new(), Duration::from_secs(300))), at(1));
        assert_eq!((bench.lanes.counts().resolving(), bench.link_count()), (0, 0));
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
        let Some(visit) = settled(&mut bench, at(10)) else { panic!("the host was given up") };
        assert_eq!(visit.facts.error.map(|failure| failure.kind), Some(crate::ErrorKind::DnsNxdomain));
    }

    #[test]
    fn lanes_that_wait_long_are_parked_at_the_limit() {
        let mut bench = bench(|config| {
            config.max_memory = Some(Size(64 << 20));
            config.concurrency = 2;
        });
        let max_lanes = u32::try_from(bench.residence.max_lanes).expect("a small number");
        for host in 0..max_lanes {
            bench.pause_until(LaneId(host), &format!("h{host}.example"), at(120 + u64::from(host)));
            bench.set_backlog(LaneId(host), &format!("h{host}.example"), 1, at(0));
            bench.add_links(LaneId(host), vec![link(&origin(host, 80))], 0, at(0));
        }
        assert!(!bench.takes_lane(at(0)), "lanes are at their limit");
        let ParkedLane { lane, until, links } = bench.park_lane(at(0)).expect("all of them wait");
        assert_eq!((lane, until, links.len()), (LaneId(max_lanes - 1), at(119 + u64::from(max_lanes)), 1));
        assert_eq!(bench.link_count(), max_lanes as usize - 1);
        assert!(bench.takes_lane(at(0)) && bench.park_lane(at(0)).is_none());
        bench.set_backlog(lane, "h.example", 1, at(1));
        assert_eq!(bench.backs_off_until(lane), until, "it still waits");
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
        bench.lanes.get_mut(LaneId(0)).expect("a lane").lane.set_robots(&site, robots_rules(allow_none, at(0)));
        bench.add_links(LaneId(0), vec![link(&site)], 0, at(0));
        assert_eq!(bench.decided.len(), 1, "only the new link is judged");
        bench.resolved(LaneId(0), Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::MAX)), at(0));
        assert_eq!(bench.decided.len(), 1, "new addresses do not affect robots.txt");
    }
}
