//! Eviction of what the workbench caches: the rules of robots.txt files, and idle lanes.
//!
//! Both caches save requests, and both would grow without bound on a site that invents hosts and ports, so both have a
//! limit. The least recently used entries without work are evicted first, and loaded or fetched again when needed.
//!
//! Robots rules that are not stored on disk can only be fetched again. They stay in memory for a minimum time while
//! their lane is busy, and a lane that needs a new robots.txt waits meanwhile, so no host is asked for its robots.txt
//! over and over.
//!
//! Invariant: a lane is evicted only if it has no request in flight, no link, and no delay to keep.

use std::time::Duration;

use hashbrown::HashSet;

use super::Workbench;
use super::queues::WaitState;
use crate::page::url::Origin;
use crate::rules::Rules;
use crate::schedule::job::LaneId;
use crate::schedule::lane::{Addresses, Lane, RobotsState};
use crate::time::Time;

/// Bytes for the robots rules of all hosts, unless `--max-memory` allows less.
pub const ROBOTS_ROOM: usize = 64 << 20;
/// Room for a few robots.txt files, however small `--max-memory` is.
const MIN_ROBOTS_ROOM: usize = 4 << 20;
/// Lanes in memory before idle ones are evicted.
pub const IDLE_LANES: usize = 16_384;
/// Rules are grouped by size in steps of this, and the largest are evicted first: most files are far smaller.
const WEIGHT_CLASS: usize = 64 << 10;
/// How long the rules of a busy lane that are not stored on disk stay in memory at least.
pub(super) const MIN_RESIDENCE: Duration = Duration::from_secs(60);
/// Pause after an eviction that freed nothing: a search visits all lanes.
const EVICTION_PAUSE: Duration = Duration::from_secs(1);

/// What can be evicted from the workbench: sizes and limits of the two caches.
pub(super) struct Evictable {
    /// Limit and current size of all robots rules, in bytes.
    room: usize,
    taken: usize,
    /// The last eviction freed nothing; the next search is at this time.
    full_until: Time,
    /// Number of lanes at which idle lanes are searched for.
    scan_at: usize,
    /// Lanes that were evicted and not used since.
    evicted: HashSet<LaneId>,
}

impl Evictable {
    pub fn new(rules: &Rules) -> Self {
        let allowed = rules.max_memory.map_or(ROBOTS_ROOM, |most| usize::try_from(most / 16).unwrap_or(ROBOTS_ROOM));
        Self {
            room: allowed.clamp(MIN_ROBOTS_ROOM, ROBOTS_ROOM),
            taken: 0,
            full_until: Time::ZERO,
            scan_at: IDLE_LANES,
            evicted: HashSet::new(),
        }
    }

    /// Accounts for the rules of a lane, which changed in size.
    pub fn adjust(&mut self, before: usize, after: usize) {
        self.taken = self.taken.saturating_sub(before).saturating_add(after);
    }

    /// Whether robots rules exceed their limit.
    pub fn is_full(&self) -> bool {
        self.taken > self.room
    }

    /// A lane is in memory again.
    pub fn readmitted(&mut self, id: LaneId) {
        self.evicted.remove(&id);
    }
}

impl Workbench {
    /// Number of hosts that the crawl has dealt with.
    pub fn hosts(&self) -> usize {
        self.lanes.len() + self.evictable.evicted.len()
    }

    /// Size of all robots rules in memory, in bytes.
    pub fn robots_bytes(&self) -> usize {
        self.evictable.taken
    }

    /// Evicts robots rules if they exceed their limit: first those of lanes without work, then large ones, then the least
    /// recently used. `newest` stays, since it is about to be used. Evicts down to three quarters of the limit, so that
    /// evictions are rare.
    pub(super) fn evict_robots(&mut self, newest: Option<(LaneId, &Origin)>, now: Time) {
        if !self.evictable.is_full() || now < self.evictable.full_until {
            return;
        }
        let mut all: Vec<_> = Vec::new();
        for (id, entry) in &self.lanes {
            let lane = &entry.lane;
            for (origin, state) in &lane.robots {
                let may_go = matches!(state, RobotsState::Rules { kept, .. } if *kept <= now || !lane.is_busy());
                if may_go && newest != Some((*id, origin)) {
                    let weight = state.weight();
                    let classes = std::cmp::Reverse(weight / WEIGHT_CLASS);
                    all.push((lane.is_busy(), classes, lane.pace.last_start(), weight, *id, origin.clone()));
                }
            }
        }
        all.sort_by_key(|(busy, heavy, used, ..)| (*busy, *heavy, *used));
        for (.., weight, id, origin) in all {
            if self.evictable.taken <= self.evictable.room / 4 * 3 {
                break;
            }
            if let Some(entry) = self.lanes.get_mut(&id) {
                entry.lane.set_robots(&origin, RobotsState::Away);
                self.evictable.adjust(weight, 0);
            }
        }
        if self.evictable.is_full() {
            self.evictable.full_until = now + EVICTION_PAUSE;
        }
    }

    /// Tries to make room for the rules of one more robots.txt. Returns when to try again if there is none.
    pub(super) fn retry_eviction(&mut self, now: Time) -> Option<Time> {
        self.evict_robots(None, now);
        self.evictable.is_full().then_some(self.evictable.full_until)
    }

    /// Evicts idle lanes, least recently used first, if there are many lanes.
    pub(super) fn evict_idle_lanes(&mut self, now: Time) {
        if self.lanes.len() < self.evictable.scan_at {
            return;
        }
        let is_idle = |lane: &Lane| {
            let given_up = matches!(lane.addresses, Addresses::Failed { until, .. } if until > now);
            !lane.has_work() && lane.in_flight() == 0 && lane.backlog == 0 && lane.pace.due() <= now && !given_up
        };
        let idle = self.lanes.iter().filter(|(_, entry)| {
            entry.wait == WaitState::Nowhere && !entry.awaits_refill && entry.woken_by.is_none() && is_idle(&entry.lane)
        });
        let mut idle: Vec<(Option<Time>, LaneId)> =
            idle.map(|(id, entry)| (entry.lane.pace.last_start(), *id)).collect();
        idle.sort_unstable();
        // Half of them stay: recently used hosts are often used again.
        for (_, id) in idle.iter().take(idle.len().div_ceil(2)) {
            if let Some(entry) = self.lanes.remove(id) {
                self.evictable.adjust(entry.lane.robots_weight(), 0);
                self.evictable.evicted.insert(*id);
            }
        }
        // A search visits all lanes, so the next one is when there are half as many more.
        self.evictable.scan_at = IDLE_LANES.max(self.lanes.len() / 2 * 3);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Next, robots_rules};
    use super::*;
    use crate::page::link::{Link, LinkKind};
    use crate::page::robots::Robots;
    use crate::page::url::Url;
    use crate::rules::{Config, Size};
    use crate::schedule::lane::MOST_ORIGINS;

    fn bench(edit: impl FnOnce(&mut Config)) -> Workbench {
        let mut config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        edit(&mut config);
        Workbench::new(Arc::new(config.compile(0).expect("settings that make sense")))
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn origin(host: u32, port: u16) -> Origin {
        Origin { https: false, host: format!("h{host}.example").into(), port }
    }

    fn link(origin: &Origin) -> Link {
        let url = Url::parse(&format!("{origin}/page")).expect("an address");
        Link { url, via: None, depth: 1, redirects: 5, tries: 0, kind: LinkKind::Anchor }
    }

    /// A file of some 80 KB of nothing but wildcards.
    fn heavy() -> Robots {
        let rules: String = (0..6_000).map(|n| format!("Disallow:/*{n}\n")).collect();
        let robots = Robots::parse(format!("User-agent: *\n{rules}").as_bytes(), "argiope");
        assert!(robots.weight() > 100 << 10, "{}", robots.weight());
        robots
    }

    #[test]
    fn rules_of_many_ports_and_hosts_stay_within_their_room() {
        let mut bench = bench(|config| config.max_memory = Some(Size(64 << 20)));
        let rules = heavy();
        for host in 0..50 {
            for port in 1_000..1_004 {
                bench.set_backlog(LaneId(host), &format!("h{host}.example"), 0, at(0));
                let state = robots_rules(rules.clone(), at(0));
                bench.robots_known(LaneId(host), &origin(host, port), state, at(0));
                assert!(bench.robots_bytes() <= 4 << 20, "{}", bench.robots_bytes());
            }
        }
        let held: usize = bench.lanes().map(|(_, lane)| lane.robots_weight()).sum();
        assert_eq!(held, bench.robots_bytes(), "what is counted is what is held");
    }

    #[test]
    fn a_host_with_every_port_is_known_at_a_few() {
        let mut bench = bench(|_| {});
        for port in 1_000..2_000 {
            bench.robots_known(LaneId(0), &origin(0, port), robots_rules(Robots::default(), at(0)), at(0));
        }
        let (_, lane) = bench.lanes().next().expect("a lane");
        assert_eq!(lane.robots.len(), MOST_ORIGINS);
        assert!(lane.robots_of(&origin(0, 1_999)).is_some(), "the last one is among them");
    }

    #[test]
    fn rules_that_made_room_are_recalled_before_the_host_is_asked_again() {
        let mut bench = bench(|config| config.max_memory = Some(Size(64 << 20)));
        let rules = heavy();
        for host in 0..60 {
            bench.robots_known(LaneId(host), &origin(host, 80), robots_rules(rules.clone(), at(0)), at(0));
        }
        let is_away = |lane: &Lane| matches!(lane.robots.first(), Some((_, RobotsState::Away)));
        let (away, _) = bench.lanes().find(|(_, lane)| is_away(lane)).expect("some had to make room");
        let site = origin(away.0, 80);
        bench.add_links(away, vec![link(&site)], 0, at(1));
        let Next::Resolve(lane, _) = bench.next(at(1)) else { panic!("the name is resolved first") };
        bench.resolved(lane, Ok((vec!["93.184.216.1".parse().expect("an address")], Duration::MAX)), at(1));
        let Next::Recall(lane, asked) = bench.next(at(1)) else { panic!("the notes are asked first") };
        assert_eq!((lane, &asked), (away, &site));
        bench.robots_not_stored(lane, &asked, at(1));
        let Next::Fetch(job) = bench.next(at(1)) else { panic!("then the host") };
        assert_eq!(job.link.url.target(), "/robots.txt");
    }

    #[test]
    fn busy_lanes_whose_rules_do_not_all_find_room_take_turns() {
        let mut bench = bench(|config| {
            config.max_memory = Some(Size(64 << 20));
            config.concurrency = 1;
        });
        let rules = Arc::new(heavy());
        let noted = || RobotsState::Rules { rules: Arc::clone(&rules), until: at(86_400), kept: at(0) };
        let (hosts, pages) = (60, 3);
        for host in 0..hosts {
            bench.robots_known(LaneId(host), &origin(host, 80), noted(), at(0));
            bench.add_links(LaneId(host), (0..pages).map(|_| link(&origin(host, 80))).collect(), 0, at(0));
        }
        let (mut started, mut recalls, mut now) = (0, 0, at(0));
        for _ in 0..hosts * pages * 4 {
            match bench.next(now) {
                Next::Fetch(job) => {
                    started += 1;
                    now += Duration::from_secs(1);
                    let mut visit = crate::visit::Visit::bare(job.link, job.purpose, crate::Outcome::Ok, now);
                    visit.message.slot = Some((job.lane, job.slot));
                    bench.finish(&visit, now);
                }
                Next::Resolve(lane, _) => {
                    bench.resolved(lane, Ok((vec!["93.184.216.1".parse().expect("an address")], Duration::MAX)), now);
                }
                Next::Recall(lane, origin) => {
                    recalls += 1;
                    bench.robots_recalled(lane, &origin, noted(), now);
                }
                Next::Settle(_) => {}
                Next::Wait(until) if until.is_never() => break,
                Next::Wait(until) => now = now.max(until),
            }
            assert!(bench.robots_bytes() <= 4 << 20, "{}", bench.robots_bytes());
        }
        assert_eq!(started, hosts * pages, "after {recalls} recalls");
        assert!(recalls > 0 && recalls <= started, "{recalls} recalls");
    }

    #[test]
    fn who_has_its_rules_at_hand_goes_first() {
        // The rules make room before the lanes are seated, or while they sit there.
        for is_late in [false, true] {
            let mut bench = bench(|config| config.concurrency = 1);
            let ids = [LaneId(0), LaneId(1), LaneId(2)];
            let ip = "93.184.216.1".parse().expect("an address");
            for id in ids {
                bench.robots_known(id, &origin(id.0, 80), robots_rules(Robots::default(), at(0)), at(0));
                // The first two have much to do, and were seated first.
                let count = if id == LaneId(2) { 1 } else { 50 };
                let lane = &mut bench.lanes.get_mut(&id).expect("a lane").lane;
                lane.addresses = Addresses::Known { list: [ip].into(), until: at(86_400), took: None };
                if !is_late && id != LaneId(2) {
                    lane.set_robots(&origin(id.0, 80), RobotsState::Away);
                }
                bench.add_links(id, (0..count).map(|_| link(&origin(id.0, 80))).collect(), 0, at(0));
            }
            for id in ids.iter().take(2) {
                let lane = &mut bench.lanes.get_mut(id).expect("a lane").lane;
                lane.set_robots(&origin(id.0, 80), RobotsState::Away);
            }
            let Next::Fetch(job) = bench.next(at(0)) else { panic!("a page, and no recall") };
            assert_eq!(job.lane, LaneId(2));
            let mut visit = crate::visit::Visit::bare(job.link, job.purpose, crate::Outcome::Ok, at(0));
            visit.message.slot = Some((job.lane, job.slot));
            bench.finish(&visit, at(0));
            let Next::Recall(lane, _) = bench.next(at(0)) else { panic!("now the others' turn has come") };
            assert_eq!(lane, LaneId(0), "who waited longest");
        }
    }

    #[test]
    fn an_origin_that_goes_for_another_is_no_longer_counted() {
        let mut bench = bench(|_| {});
        let most = u16::try_from(MOST_ORIGINS).expect("a few");
        for port in 0..most {
            bench.robots_known(LaneId(0), &origin(0, 8_000 + port), robots_rules(heavy(), at(0)), at(0));
        }
        bench.add_links(LaneId(0), vec![link(&origin(0, 9_000))], 0, at(0));
        let Next::Resolve(lane, _) = bench.next(at(0)) else { panic!("the name is resolved first") };
        bench.resolved(lane, Ok((vec!["93.184.216.1".parse().expect("an address")], Duration::MAX)), at(0));
        let Next::Fetch(_) = bench.next(at(0)) else { panic!("then its robots.txt") };
        let held: usize = bench.lanes().map(|(_, lane)| lane.robots_weight()).sum();
        assert_eq!(held, bench.robots_bytes(), "what is counted is what is held");
    }

    #[test]
    fn lanes_without_work_are_let_go_and_still_counted() {
        let mut bench = bench(|_| {});
        let hosts = 3 * u32::try_from(IDLE_LANES).expect("a few");
        for host in 0..hosts {
            bench.set_backlog(LaneId(host), &format!("h{host}.example"), 0, at(0));
        }
        assert!(bench.lanes().count() <= IDLE_LANES, "{}", bench.lanes().count());
        bench.set_backlog(LaneId(0), "h0.example", 0, at(1));
        assert_eq!(bench.hosts(), hosts as usize);
    }

    #[test]
    fn a_lane_that_owes_its_host_a_pause_stays() {
        let mut bench = bench(|_| {});
        bench.pause_until(LaneId(0), "h0.example", at(3_600));
        bench.set_backlog(LaneId(1), "h1.example", 7, at(0));
        for host in 2..2 * u32::try_from(IDLE_LANES).expect("a few") {
            bench.set_backlog(LaneId(host), &format!("h{host}.example"), 0, at(0));
        }
        assert!(bench.holds(LaneId(0)), "its host asked for a rest");
        assert!(bench.holds(LaneId(1)), "it has links");
    }

    #[test]
    fn what_was_judged_when_it_came_is_not_judged_again_with_every_helping() {
        let mut bench = bench(|_| {});
        let (site, all) = (origin(0, 80), robots_rules(Robots::default(), at(0)));
        bench.set_backlog(LaneId(0), "h0.example", 0, at(0));
        bench.robots_known(LaneId(0), &site, all, at(0));
        bench.add_links(LaneId(0), vec![link(&site)], 0, at(0));
        // Rules that came by without a word: who judges the first link again would find it forbidden.
        let none = Robots::parse(b"User-agent: *\nDisallow: /\n", "argiope");
        bench.lanes.get_mut(&LaneId(0)).expect("a lane").lane.set_robots(&site, robots_rules(none, at(0)));
        bench.add_links(LaneId(0), vec![link(&site)], 0, at(0));
        assert_eq!(bench.decided.len(), 1, "only the new link is judged");
        bench.resolved(LaneId(0), Ok((vec!["93.184.216.1".parse().expect("an address")], Duration::MAX)), at(0));
        assert_eq!(bench.decided.len(), 1, "and addresses say nothing about robots.txt");
    }
}
