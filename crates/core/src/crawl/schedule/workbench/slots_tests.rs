//! How lanes share the slots.

use super::tests::{at, bench, end, fetch, fetches, link, stock_all};
use super::*;
use crate::base::link::LinkKind;
use crate::base::url::Url;
use crate::crawl::rules::{Pace, RobotsPolicy};
use crate::crawl::schedule::next::Next;

/// Longer than any response may hold its slot while others wait.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn fetches_are_spread_over_quick_hosts() {
    let mut bench = bench(|config| (config.per_host, config.concurrency) = (Some(64), 8));
    stock_all(&mut bench, &[(20, &["93.184.216.1"]), (20, &["93.184.216.2"])]);
    let first: Vec<Job> = (0..2).filter_map(|_| fetch(&mut bench, at(0))).collect();
    for job in first {
        let took = Duration::from_micros(if job.lane == LaneId(0) { 20_000 } else { 60 });
        let mut visit = Visit::with_outcome(job.link, job.purpose, Outcome::Ok, at(1));
        (visit.for_keeper.slot, visit.facts.status) = (Some((job.lane, job.slot)), Some(200));
        (visit.facts.timings.ttfb, visit.facts.timings.total) = (Some(took), Some(took));
        bench.finish(&visit, at(1));
    }
    let jobs = fetches(&mut bench, at(1));
    let slower = jobs.iter().filter(|job| job.lane == LaneId(0)).count();
    assert_eq!((jobs.len(), slower), (8, 4));
}

/// Ends a job whose response took this number of milliseconds, and is processed now.
fn answered(bench: &mut Workbench, job: Job, started: Time, took: u64, now: Time) {
    let ended = started + Duration::from_millis(took);
    let mut visit = Visit::with_outcome(job.link, job.purpose, Outcome::Ok, now);
    (visit.for_keeper.slot, visit.facts.status, visit.facts.started, visit.facts.ended) =
        (Some((job.lane, job.slot)), Some(200), started, ended);
    visit.facts.timings.total = Some(ended - started);
    bench.finish(&visit, now);
}

#[test]
fn the_local_limit_leaves_slots_for_slower_hosts() {
    let mut bench = bench(|config| (config.pace, config.per_host) = (Pace::Steady, None));
    stock_all(&mut bench, &[(900, &["93.184.216.1"]), (900, &["93.184.216.2"])]);
    let (mut in_flight, mut largest, mut now) = ([0_usize; 2], [0; 2], 0);
    // Pages of both lanes wait here for ten milliseconds before and after the fetch: lane 0 responds at once, and
    // lane 1 takes a tenth of a second.
    let mut jobs: VecDeque<(u64, u64, Job)> = VecDeque::new();
    for round in 0..200 {
        for job in fetches(&mut bench, at(now)) {
            let took = [0, 100][job.lane.index()];
            in_flight[job.lane.index()] += 1;
            jobs.push_back((now, took, job));
        }
        if round >= 150 {
            largest = [0, 1].map(|lane| in_flight[lane].max(largest[lane]));
        }
        now += 10;
        for _ in 0..jobs.len() {
            let Some((taken, took, job)) = jobs.pop_front() else { break };
            if now < taken + 20 + took {
                jobs.push_back((taken, took, job));
            } else {
                in_flight[job.lane.index()] -= 1;
                answered(&mut bench, job, at(taken + 10), took, at(now));
            }
        }
    }
    assert_eq!(largest, [1, 6], "pages on this machine at a time");
}

#[test]
fn the_rank_of_a_host_is_updated_when_its_fetches_end() {
    let mut bench = bench(|config| (config.per_host, config.concurrency) = (Some(64), 8));
    stock_all(&mut bench, &[(40, &["93.184.216.1"]), (2, &["93.184.216.2"])]);
    let (few, mut many): (Vec<Job>, Vec<Job>) =
        fetches(&mut bench, at(0)).into_iter().partition(|job| job.lane == LaneId(1));
    few.into_iter().for_each(|job| end(&mut bench, job, 200, at(1)));
    many.extend(fetches(&mut bench, at(1)));
    assert_eq!(many.len(), 8, "one host has everything in flight, and is ranked accordingly");
    bench.add_links(LaneId(1), (2..40).map(|n| link(&format!("http://h1.example/{n}"))).collect(), 0, at(1));
    many.into_iter().for_each(|job| end(&mut bench, job, 200, at(2)));
    let jobs = fetches(&mut bench, at(2));
    let first = jobs.iter().filter(|job| job.lane == LaneId(0)).count();
    assert!(jobs.len() == 8 && (3..=5).contains(&first), "{first} of {}", jobs.len());
}

#[test]
fn slow_responses_are_asked_to_give_way_to_a_quick_host() {
    let mut bench = bench(|config| {
        config.concurrency = 4;
        config.robots = RobotsPolicy::Ignore;
    });
    let ips: &[&str] = &["93.184.216.1"];
    stock_all(&mut bench, &[(1, ips), (1, ips), (1, ips), (1, ips), (9, ips)]);
    let quota = bench.slots.slow_responses().clone();
    let jobs = fetches(&mut bench, at(0));
    assert_eq!(jobs.len(), 4);
    let (quick, slow): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.lane == LaneId(4));
    assert!(quick.is_empty(), "the first four go first");
    assert!(matches!(bench.next(at(100)), Some(Next::Wait(again)) if again == at(200)));
    let mut slow = slow.into_iter();
    end(&mut bench, slow.next().expect("a job"), 200, at(200));
    let quick = fetches(&mut bench, at(200));
    assert_eq!(quick.iter().map(|job| job.lane).collect::<Vec<_>>(), [LaneId(4)]);
    for job in quick {
        end(&mut bench, job, 200, at(300));
    }
    // The quick lane has one slot now, and other lanes hold three.
    let mut quick = fetches(&mut bench, at(300));
    assert_eq!(quick.len(), 1);
    assert!(matches!(bench.next(at(1_000)), Some(Next::Wait(again)) if again == at(1_100)));
    assert!(!quota.take(LONG), "no response has held its slot for more than a second");
    end(&mut bench, quick.remove(0), 200, at(1_200));
    assert_eq!(fetches(&mut bench, at(1_250)).len(), 1);
    assert!(!quota.take(Duration::from_millis(900)), "a response that began less than a second ago continues");
    assert!(quota.take(LONG) && !quota.take(LONG), "three slots are held for long: one more than half");
    quota.set(1, Duration::ZERO);
    end(&mut bench, slow.next().expect("a job"), 200, at(1_300));
    assert_eq!(fetches(&mut bench, at(1_300)).len(), 1);
    assert!(!quota.take(LONG), "no lane waits");
}

#[test]
fn slow_responses_are_asked_to_give_way_to_a_new_host() {
    let mut bench = bench(|config| config.concurrency = 4);
    let ips: &[&str] = &["93.184.216.1"];
    stock_all(&mut bench, &[(1, ips), (1, ips), (1, ips), (1, ips), (1, ips), (1, ips)]);
    let quota = bench.slots.slow_responses().clone();
    let jobs = fetches(&mut bench, at(0));
    assert!(jobs.len() == 4 && jobs.iter().all(|job| job.lane.0 < 4), "the first four go first");
    assert!(matches!(bench.next(at(4_900)), Some(Next::Wait(again)) if again == at(5_000)));
    assert!(!quota.take(LONG), "no response has held its slot for more than five seconds");
    assert!(matches!(bench.next(at(5_150)), Some(Next::Wait(_))));
    assert!(!quota.take(Duration::from_millis(4_900)));
    let mut jobs = jobs.into_iter();
    for lane in [4, 5] {
        assert!(quota.take(LONG), "one for each host that waits");
        end(&mut bench, jobs.next().expect("a job"), 200, at(5_200));
        assert_eq!(fetches(&mut bench, at(5_200)).iter().map(|job| job.lane.0).collect::<Vec<_>>(), [lane]);
    }
    assert!(!quota.take(LONG), "half of the slots stay in use");
}

#[test]
fn some_slots_are_reserved_for_a_quick_host() {
    let mut bench = bench(|config| (config.concurrency, config.per_host, config.per_ip) = (16, Some(6), Some(64)));
    let ips: &[&str] = &["93.184.216.1"];
    let lanes: Vec<(u32, &[&str])> = (0..40).map(|lane| (if lane == 0 { 90 } else { 1 }, ips)).collect();
    stock_all(&mut bench, &lanes);
    let (quick, mut slow): (Vec<Job>, Vec<Job>) =
        fetches(&mut bench, at(0)).into_iter().partition(|job| job.lane == LaneId(0));
    assert_eq!((quick.len(), slow.len()), (1, 15), "all are new");
    let mut in_flight = VecDeque::from(quick);
    for round in 1..20 {
        // One of the slow jobs ends in the first round, and the next host takes its slot. The others never end.
        end(&mut bench, in_flight.pop_front().expect("a job"), 200, at(round * 10));
        if round == 1 {
            end(&mut bench, slow.remove(0), 200, at(10));
        }
        let (quick, others): (Vec<Job>, Vec<Job>) =
            fetches(&mut bench, at(round * 10)).into_iter().partition(|job| job.lane == LaneId(0));
        in_flight.extend(quick);
        slow.extend(others);
        assert_eq!((in_flight.len(), slow.len()), (2, 14), "two slots in sixteen are for the quick host");
    }
    // When the quick lane has no links left, the other lanes get all slots.
    while let Some(job) = in_flight.pop_front() {
        end(&mut bench, job, 200, at(300));
        let (quick, others): (Vec<Job>, Vec<Job>) =
            fetches(&mut bench, at(300)).into_iter().partition(|job| job.lane == LaneId(0));
        in_flight.extend(quick);
        slow.extend(others);
    }
    assert_eq!(slow.len(), 16);
    assert_eq!((bench.lanes.counts().quick(), bench.lanes.counts().quick_in_flight()), (0, 0));
}

#[test]
fn a_host_with_megabytes_of_links_is_delayed_if_others_have_work() {
    for (others, is_delayed) in [(0, false), (1, true)] {
        let mut bench = bench(|_| {});
        let ips: &[&str] = &["93.184.216.1"];
        stock_all(&mut bench, &vec![(90, ips); 1 + others]);
        let long = Url::parse(&format!("http://h0.example/{}", "l".repeat(50_000))).expect("a URL");
        for job in fetches(&mut bench, at(0)) {
            let slot = Some((job.lane, job.slot));
            let mut visit = Visit::with_outcome(job.link, job.purpose, Outcome::Ok, at(10));
            (visit.for_keeper.slot, visit.facts.status) = (slot, Some(200));
            if slot.is_some_and(|(lane, _)| lane == LaneId(0)) {
                (0..80).for_each(|_| visit.for_keeper.found.push(long.as_ref(), LinkKind::Anchor));
            }
            bench.finish(&visit, at(10));
        }
        let first = fetches(&mut bench, at(11));
        assert_eq!(first.iter().any(|job| job.lane == LaneId(0)), !is_delayed, "beside {others}");
        assert!(others == 0 || first.iter().any(|job| job.lane == LaneId(1)));
        first.into_iter().for_each(|job| end(&mut bench, job, 200, at(50)));
        assert!(fetches(&mut bench, at(200)).iter().any(|job| job.lane == LaneId(0)), "it goes on");
    }
}

#[test]
fn reserved_slots_are_used_if_the_fast_lanes_are_slow_now() {
    let mut bench = bench(|config| (config.concurrency, config.per_host, config.per_ip) = (32, Some(40), Some(64)));
    let ips: &[&str] = &["93.184.216.1"];
    stock_all(&mut bench, &[(2, ips), (90, ips)]);
    let (mut fast, mut slow): (Vec<Job>, Vec<Job>) =
        fetches(&mut bench, at(0)).into_iter().partition(|job| job.lane == LaneId(0));
    assert_eq!((fast.len(), slow.len()), (2, 30));
    end(&mut bench, fast.remove(0), 200, at(10));
    assert_eq!(fetches(&mut bench, at(10)).len(), 0, "the free slot is reserved for lane 0");
    for job in slow.drain(..11) {
        end(&mut bench, job, 200, at(3_000));
    }
    // The second request of lane 0 has not ended, so its lane still counts as fast.
    assert_eq!((bench.lanes.counts().fast(), bench.lanes.counts().quick()), (1, 1));
    assert_eq!(fetches(&mut bench, at(3_000)).len(), 12, "lane 0 cannot use the slots that are reserved for it");
    assert_eq!(bench.in_flight(), 32);
}
