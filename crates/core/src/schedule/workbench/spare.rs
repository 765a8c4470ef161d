//! What the workbench holds although nobody needs it now, and how it lets go of it: the rules of robots.txt files, and
//! lanes without work.
//!
//! Both are kept because they save asking a host again, and both can be made to grow by whoever invents hosts and ports:
//! so there is an end to them. What goes first is what was used longest ago and is needed least; what is needed after
//! all is asked for again.
//!
//! Rules that nobody noted can come back only from their host. They are kept for a while as long as their lane is busy,
//! and who needs a new robots.txt waits meanwhile: no host is asked for its robots.txt again and again.
//!
//! Invariant: a lane that goes owes its host nothing: no request is under way, no link waits, and its next request could
//! start at once.

use std::time::Duration;

use hashbrown::HashSet;

use super::Workbench;
use super::seats::Seat;
use crate::page::url::Origin;
use crate::rules::Rules;
use crate::schedule::job::LaneId;
use crate::schedule::lane::{Addresses, Lane, RobotsState};
use crate::time::Time;

/// Bytes that the rules of all hosts may take, unless less memory is allowed.
pub const ROBOTS_ROOM: usize = 64 << 20;
/// However little memory there is, a few files must find room.
const LEAST_ROOM: usize = 4 << 20;
/// Lanes that are held before any is let go.
pub const IDLE_LANES: usize = 16_384;
/// Rules that weigh more than others by a multiple of this go first: most files are far smaller.
const HEAVY: usize = 64 << 10;
/// For so long the rules of a busy lane that nobody noted do not make room.
pub(super) const KEPT: Duration = Duration::from_secs(60);
/// Where nothing could make room, it is looked for again after this long: looking costs as much as there are lanes.
const SEARCH_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Spare {
    /// Bytes that robots rules may take, and do take.
    room: usize,
    taken: usize,
    /// Nothing could make room when it was last looked for; it is looked for again then.
    full_until: Time,
    /// With so many lanes it is time to look for some to let go.
    many: usize,
    /// Lanes that were let go and have not come back.
    gone: HashSet<LaneId>,
}

impl Spare {
    pub fn new(rules: &Rules) -> Self {
        let allowed = rules.max_memory.map_or(ROBOTS_ROOM, |most| usize::try_from(most / 16).unwrap_or(ROBOTS_ROOM));
        Self {
            room: allowed.clamp(LEAST_ROOM, ROBOTS_ROOM),
            taken: 0,
            full_until: Time::ZERO,
            many: IDLE_LANES,
            gone: HashSet::new(),
        }
    }

    /// The rules of a lane weighed so much before, and weigh so much now.
    pub fn weighs(&mut self, before: usize, after: usize) {
        self.taken = self.taken.saturating_sub(before).saturating_add(after);
    }

    /// Whether rules take more than they may.
    pub fn is_full(&self) -> bool {
        self.taken > self.room
    }

    /// A lane is held from now on.
    pub fn comes(&mut self, id: LaneId) {
        self.gone.remove(&id);
    }
}

impl Workbench {
    /// How many hosts the crawl has had to do with.
    pub fn hosts(&self) -> usize {
        self.lanes.len() + self.spare.gone.len()
    }

    /// The bytes that robots rules take.
    pub fn robots_bytes(&self) -> usize {
        self.spare.taken
    }

    /// Lets rules go where all of them take more than they may: of lanes without work first, then the heavy ones, then
    /// those used longest ago. What has just come stays: it is about to be used. A quarter more than necessary goes, so
    /// that this is rare.
    pub(super) fn make_room(&mut self, newest: Option<(LaneId, &Origin)>, now: Time) {
        if !self.spare.is_full() || now < self.spare.full_until {
            return;
        }
        let mut all: Vec<_> = Vec::new();
        for (id, entry) in &self.lanes {
            let lane = &entry.lane;
            for (origin, state) in &lane.robots {
                let may_go = matches!(state, RobotsState::Rules { kept, .. } if *kept <= now || !lane.is_busy());
                if may_go && newest != Some((*id, origin)) {
                    let weight = state.weight();
                    let classes = std::cmp::Reverse(weight / HEAVY);
                    all.push((lane.is_busy(), classes, lane.pace.last_start(), weight, *id, origin.clone()));
                }
            }
        }
        all.sort_by_key(|(busy, heavy, used, ..)| (*busy, *heavy, *used));
        for (.., weight, id, origin) in all {
            if self.spare.taken <= self.spare.room / 4 * 3 {
                break;
            }
            if let Some(entry) = self.lanes.get_mut(&id) {
                entry.lane.set_robots(&origin, RobotsState::Away);
                self.spare.weighs(weight, 0);
            }
        }
        if self.spare.is_full() {
            self.spare.full_until = now + SEARCH_PAUSE;
        }
    }

    /// Makes room for rules that come from a host; says when to try again where there is none.
    pub(super) fn find_room(&mut self, now: Time) -> Option<Time> {
        self.make_room(None, now);
        self.spare.is_full().then_some(self.spare.full_until)
    }

    /// Lets lanes go that have nothing to do, where there are many: those used longest ago first.
    pub(super) fn let_lanes_go(&mut self, now: Time) {
        if self.lanes.len() < self.spare.many {
            return;
        }
        let is_idle = |lane: &Lane| {
            let given_up = matches!(lane.addresses, Addresses::Failed { until, .. } if until > now);
            !lane.has_work() && lane.in_flight() == 0 && lane.backlog == 0 && lane.pace.due() <= now && !given_up
        };
        let idle = self.lanes.iter().filter(|(_, entry)| {
            entry.seat == Seat::Nowhere && !entry.is_hungry && entry.called_by.is_none() && is_idle(&entry.lane)
        });
        let mut idle: Vec<(Option<Time>, LaneId)> =
            idle.map(|(id, entry)| (entry.lane.pace.last_start(), *id)).collect();
        idle.sort_unstable();
        // Half of them stay: hosts that were asked lately are often asked again.
        for (_, id) in idle.iter().take(idle.len().div_ceil(2)) {
            if let Some(entry) = self.lanes.remove(id) {
                self.spare.weighs(entry.lane.robots_weight(), 0);
                self.spare.gone.insert(*id);
            }
        }
        // Looking costs as much as there are lanes: the next time when there are half as many more.
        self.spare.many = IDLE_LANES.max(self.lanes.len() / 2 * 3);
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
                bench.offer(LaneId(host), &format!("h{host}.example"), 0, at(0));
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
        bench.give(away, vec![link(&site)], 0, at(1));
        let Next::Resolve(lane, _) = bench.next(at(1)) else { panic!("the name comes first") };
        bench.resolved(lane, Ok((vec!["93.184.216.1".parse().expect("an address")], Duration::MAX)), at(1));
        let Next::Recall(lane, asked) = bench.next(at(1)) else { panic!("the notes are asked first") };
        assert_eq!((lane, &asked), (away, &site));
        bench.robots_forgotten(lane, &asked, at(1));
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
            bench.give(LaneId(host), (0..pages).map(|_| link(&origin(host, 80))).collect(), 0, at(0));
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
                bench.give(id, (0..count).map(|_| link(&origin(id.0, 80))).collect(), 0, at(0));
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
        bench.give(LaneId(0), vec![link(&origin(0, 9_000))], 0, at(0));
        let Next::Resolve(lane, _) = bench.next(at(0)) else { panic!("the name comes first") };
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
            bench.offer(LaneId(host), &format!("h{host}.example"), 0, at(0));
        }
        assert!(bench.lanes().count() <= IDLE_LANES, "{}", bench.lanes().count());
        bench.offer(LaneId(0), "h0.example", 0, at(1));
        assert_eq!(bench.hosts(), hosts as usize);
    }

    #[test]
    fn a_lane_that_owes_its_host_a_pause_stays() {
        let mut bench = bench(|_| {});
        bench.let_rest(LaneId(0), "h0.example", at(3_600));
        bench.offer(LaneId(1), "h1.example", 7, at(0));
        for host in 2..2 * u32::try_from(IDLE_LANES).expect("a few") {
            bench.offer(LaneId(host), &format!("h{host}.example"), 0, at(0));
        }
        assert!(bench.holds(LaneId(0)), "its host asked for a rest");
        assert!(bench.holds(LaneId(1)), "it has links");
    }

    #[test]
    fn what_was_judged_when_it_came_is_not_judged_again_with_every_helping() {
        let mut bench = bench(|_| {});
        let (site, all) = (origin(0, 80), robots_rules(Robots::default(), at(0)));
        bench.offer(LaneId(0), "h0.example", 0, at(0));
        bench.robots_known(LaneId(0), &site, all, at(0));
        bench.give(LaneId(0), vec![link(&site)], 0, at(0));
        // Rules that came by without a word: who judges the first link again would find it forbidden.
        let none = Robots::parse(b"User-agent: *\nDisallow: /\n", "argiope");
        bench.lanes.get_mut(&LaneId(0)).expect("a lane").lane.set_robots(&site, robots_rules(none, at(0)));
        bench.give(LaneId(0), vec![link(&site)], 0, at(0));
        assert_eq!(bench.verdicts.len(), 1, "only the new link is judged");
        bench.resolved(LaneId(0), Ok((vec!["93.184.216.1".parse().expect("an address")], Duration::MAX)), at(0));
        assert_eq!(bench.verdicts.len(), 1, "and addresses say nothing about robots.txt");
    }
}
