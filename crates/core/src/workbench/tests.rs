//! The workbench, one event at a time. What must hold over whole crawls is tested in virtual time.

use super::*;
use crate::outcome::ErrorKind;
use crate::rules::{Config, Pace, Rate, RobotsPolicy};

fn bench(edit: impl FnOnce(&mut Config)) -> Workbench {
    let mut config = Config {
        roots: vec!["http://h0.example/".into()],
        robots: RobotsPolicy::Ignore,
        pace: Pace::Full,
        per_host: Some(2),
        ..Config::default()
    };
    edit(&mut config);
    Workbench::new(Arc::new(config.compile(0).expect("settings that make sense")))
}

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1_000)
}

fn link(address: &str) -> Link {
    let url = Url::parse(address).expect("an address");
    Link { url, via: None, depth: 1, redirects: 5, tries: 0, kind: LinkKind::Anchor }
}

/// Lane 0 with so many links, its name known.
fn stock(bench: &mut Workbench, count: u32) {
    stock_all(bench, &[(count, &["93.184.216.1"])]);
}

/// Lanes with so many links at these addresses.
fn stock_all(bench: &mut Workbench, lanes: &[(u32, &[&str])]) {
    for (number, (count, _)) in (0..).zip(lanes) {
        let (id, name) = (LaneId(number), format!("h{number}.example"));
        bench.offer(id, &name, 0, at(0));
        bench.give(id, (0..*count).map(|n| link(&format!("http://{name}/{n}"))).collect(), 0, at(0));
    }
    for _ in lanes {
        assert!(matches!(bench.next(at(0)), Next::Resolve(..)), "the name comes first");
    }
    for (number, (_, ips)) in (0..).zip(lanes) {
        let ips = ips.iter().map(|ip| ip.parse().expect("an address")).collect();
        bench.resolved(LaneId(number), Ok((ips, Duration::from_secs(300))), at(0));
    }
}

fn fetch(bench: &mut Workbench, now: Time) -> Option<Job> {
    match bench.next(now) {
        Next::Fetch(job) => Some(job),
        _ => None,
    }
}

fn fetches(bench: &mut Workbench, now: Time) -> Vec<Job> {
    std::iter::from_fn(|| fetch(bench, now)).collect()
}

fn end(bench: &mut Workbench, job: Job, status: u16, now: Time) {
    let slot = Some((job.lane, job.slot));
    let visit = Visit { slot, status: Some(status), ..Visit::bare(job.link, job.purpose, Outcome::Ok, now) };
    bench.finish(&visit, now);
}

#[test]
fn a_lane_is_as_wide_as_it_may_be_and_no_wider() {
    let mut bench = bench(|_| {});
    stock(&mut bench, 5);
    let jobs = fetches(&mut bench, at(0));
    assert_eq!((jobs.len(), bench.in_flight(), bench.held()), (2, 2, 5));
    assert!(matches!(bench.next(at(0)), Next::Wait(Time::NEVER)));
    for job in jobs {
        end(&mut bench, job, 200, at(10));
    }
    assert_eq!(fetches(&mut bench, at(10)).len(), 2);
}

#[test]
fn a_lane_that_was_ready_rests_when_its_host_asks_for_it() {
    let mut bench = bench(|config| config.concurrency = 2);
    stock(&mut bench, 5);
    let mut jobs = fetches(&mut bench, at(0));
    let (one, two) = (jobs.remove(0), jobs.remove(0));
    end(&mut bench, one, 200, at(10)); // the lane is seated as ready ...
    end(&mut bench, two, 503, at(10)); // ... and then the host has had enough
    let Next::Wait(until) = bench.next(at(10)) else { panic!("it rests") };
    assert_eq!(until, at(1_010));
}

#[test]
fn lanes_at_a_full_address_are_called_one_by_one_and_none_is_forgotten() {
    let mut bench = bench(|config| (config.per_ip, config.per_host) = (Some(1), Some(1)));
    stock_all(&mut bench, &[(1, ["93.184.216.1"].as_slice()); 3]);
    // Events for lanes that wait must not queue them twice.
    let mut first = fetches(&mut bench, at(0));
    assert_eq!(first.len(), 1);
    for lane in 0..3 {
        for _ in 0..5 {
            bench.offer(LaneId(lane), &format!("h{lane}.example"), 0, at(1));
            assert!(matches!(bench.next(at(1)), Next::Wait(Time::NEVER)));
        }
    }
    let mut seen = vec![first[0].lane];
    end(&mut bench, first.remove(0), 200, at(2));
    for moment in 3..5 {
        let mut jobs = fetches(&mut bench, at(moment));
        assert_eq!(jobs.len(), 1);
        seen.push(jobs[0].lane);
        end(&mut bench, jobs.remove(0), 200, at(moment));
    }
    seen.sort_unstable();
    assert_eq!(seen, [LaneId(0), LaneId(1), LaneId(2)]);
    assert!(bench.by_ip.is_empty());
}

#[test]
fn a_lane_that_does_not_take_the_slot_passes_it_on() {
    let mut bench = bench(|config| {
        (config.per_ip, config.per_host, config.delay) = (Some(1), Some(1), "10s".parse().expect("a span"))
    });
    stock_all(&mut bench, &[(2, &["93.184.216.1"]), (1, &["93.184.216.1"]), (1, &["93.184.216.1"])]);
    let mut jobs = fetches(&mut bench, at(0));
    assert_eq!((jobs.len(), jobs[0].lane), (1, LaneId(0)));
    end(&mut bench, jobs.remove(0), 200, at(5));
    // Lane 0 is not due for ten seconds; the others share the address one after the other.
    let mut jobs = fetches(&mut bench, at(5));
    assert_eq!(jobs.len(), 1);
    end(&mut bench, jobs.remove(0), 200, at(6));
    assert_eq!(fetches(&mut bench, at(6)).len(), 1);
}

#[test]
fn a_request_counts_at_every_address_that_it_may_go_to() {
    let mut bench = bench(|config| (config.per_ip, config.per_host) = (Some(1), Some(1)));
    let (a, b) = ("93.184.216.1", "93.184.216.2");
    stock_all(&mut bench, &[(1, &[a, b]), (1, &[b]), (1, &[a])]);
    let mut jobs = fetches(&mut bench, at(0));
    assert_eq!((jobs.len(), jobs[0].lane), (1, LaneId(0)));
    end(&mut bench, jobs.remove(0), 200, at(1));
    assert_eq!(fetches(&mut bench, at(1)).len(), 2);
}

#[test]
fn an_address_that_may_not_be_believed_for_long_serves_one_job_at_least() {
    let mut bench = bench(|config| config.per_host = Some(1));
    bench.offer(LaneId(0), "h0.example", 0, at(0));
    bench.give(LaneId(0), vec![link("http://h0.example/1"), link("http://h0.example/2")], 0, at(0));
    assert!(matches!(bench.next(at(0)), Next::Resolve(..)));
    bench.resolved(LaneId(0), Ok((vec!["93.184.216.1".parse().expect("an address")], Duration::ZERO)), at(70));
    let mut jobs = fetches(&mut bench, at(900));
    assert_eq!((jobs.len(), jobs[0].dns()), (1, Some(Duration::from_millis(70))));
    end(&mut bench, jobs.remove(0), 200, at(1_000));
    assert!(matches!(bench.next(at(1_000)), Next::Resolve(..)));
}

#[test]
fn a_name_that_fails_is_asked_for_again_and_then_given_up() {
    let mut bench = bench(|config| config.max_tries = 2);
    bench.offer(LaneId(0), "h0.example", 0, at(0));
    bench.give(LaneId(0), vec![link("http://h0.example/1")], 0, at(0));
    let failure = || Err(Failure::new(ErrorKind::DnsServfail, "no"));
    assert!(matches!(bench.next(at(0)), Next::Resolve(..)));
    bench.resolved(LaneId(0), failure(), at(5));
    let Next::Wait(until) = bench.next(at(5)) else { panic!("it waits") };
    assert_eq!(until, at(1_005));
    assert!(matches!(bench.next(until), Next::Resolve(..)));
    bench.resolved(LaneId(0), failure(), at(2_000));
    let Next::Settle(visit) = bench.next(at(2_000)) else { panic!("it is given up") };
    assert_eq!((visit.outcome, visit.link.tries), (Outcome::Failed, 2));
    // What comes later ends at once, and after an hour the name gets another chance.
    bench.give(LaneId(0), vec![link("http://h0.example/2")], 0, at(3_000));
    assert!(matches!(bench.next(at(3_000)), Next::Settle(_)));
    bench.give(LaneId(0), vec![link("http://h0.example/3")], 0, at(3_700_000));
    assert!(matches!(bench.next(at(3_700_000)), Next::Resolve(..)));
    assert_eq!(bench.held(), 1);
}

#[test]
fn a_host_that_never_answers_is_given_up_on() {
    let mut bench = bench(|config| (config.per_host, config.max_tries) = (Some(1), 1));
    stock(&mut bench, 60);
    let (mut now, mut asked, mut settled) = (at(0), 0, 0);
    loop {
        match bench.next(now) {
            Next::Fetch(job) => {
                asked += 1;
                let visit = Visit::failed(job, Failure::new(ErrorKind::ConnectTimeout, "silence"), now, now);
                bench.finish(&visit, now);
                settled += 1;
            }
            Next::Settle(visit) => {
                assert_eq!(visit.error.as_ref().map(|failure| failure.kind), Some(ErrorKind::ConnectTimeout));
                settled += 1;
            }
            Next::Wait(until) if until.is_never() => break,
            Next::Wait(until) => now = until,
            Next::Resolve(..) | Next::Recall(..) => panic!("name and rules are known"),
        }
    }
    assert_eq!((asked, settled, bench.held()), (10, 60, 0));
    assert!(now - Time::ZERO < Duration::from_secs(300));
}

#[test]
fn the_rate_holds_back_pages_and_nothing_else() {
    let mut bench = bench(|config| {
        (config.rate, config.robots) = (Some(Rate { per_second: 2.0 }), RobotsPolicy::Obey);
    });
    stock_all(&mut bench, &[(3, &["93.184.216.1"]), (3, &["93.184.216.2"])]);
    let robots = fetches(&mut bench, at(0));
    assert_eq!(robots.len(), 2, "both robots.txt at once");
    for job in robots {
        let origin = job.link.url.origin();
        let lane = job.lane;
        end(&mut bench, job, 404, at(10));
        bench.robots_known(lane, &origin, robots_rules(Robots::default(), at(10)), at(10));
    }
    assert_eq!(fetches(&mut bench, at(10)).len(), 1);
    let Next::Wait(until) = bench.next(at(10)) else { panic!("too fast") };
    assert_eq!(until, at(510));
    assert_eq!(fetches(&mut bench, until).len(), 1);
}

#[test]
fn forbidden_links_end_at_once_though_the_lane_must_wait() {
    let mut bench = bench(|config| {
        (config.delay, config.robots) = ("1h".parse().expect("a span"), RobotsPolicy::Obey);
    });
    stock(&mut bench, 2);
    let mut jobs = fetches(&mut bench, at(0));
    let job = jobs.remove(0);
    assert!(matches!(job.purpose, Purpose::Robots(_)));
    let origin = job.link.url.origin();
    end(&mut bench, job, 200, at(10));
    let rules = Robots::parse(b"User-agent: *\nDisallow: /1", "argiope");
    bench.robots_known(LaneId(0), &origin, robots_rules(rules, at(10)), at(10));
    let Next::Settle(visit) = bench.next(at(10)) else { panic!("/1 is forbidden") };
    assert_eq!((visit.outcome, visit.link.url.path()), (Outcome::Robots, "/1"));
    let Next::Wait(until) = bench.next(at(10)) else { panic!("/0 has to wait") };
    assert_eq!(until, at(3_600_000));
    assert_eq!(
        bench.waits_for(at(10)).map(|(name, why, _)| (name.to_string(), why)),
        Some(("h0.example".into(), "delay"))
    );
}

#[test]
fn a_robots_txt_that_cannot_be_renewed_holds_on_for_an_hour() {
    let mut bench = bench(|config| config.robots = RobotsPolicy::Obey);
    stock(&mut bench, 1);
    let job = fetches(&mut bench, at(0)).remove(0);
    let origin = job.link.url.origin();
    end(&mut bench, job, 200, at(0));
    bench.robots_known(LaneId(0), &origin, robots_rules(Robots::default(), at(0)), at(0));
    let job = fetches(&mut bench, at(1)).remove(0);
    end(&mut bench, job, 200, at(1));
    let day = Time::ZERO + ROBOTS_LIFE;
    bench.give(LaneId(0), vec![link("http://h0.example/later")], 0, day);
    assert!(matches!(bench.next(day), Next::Resolve(..)));
    bench.resolved(LaneId(0), Ok((vec!["93.184.216.1".parse().expect("an address")], Duration::from_secs(9))), day);
    let job = fetches(&mut bench, day).remove(0);
    assert!(matches!(job.purpose, Purpose::Robots(_)));
    end(&mut bench, job, 500, day);
    let failure = Failure::new(ErrorKind::RobotsUnreachable, "500");
    bench.robots_known(LaneId(0), &origin, robots_failed(failure, Outcome::Robots, 4, day), day);
    let job = fetches(&mut bench, day).remove(0);
    assert_eq!((job.purpose, job.link.url.path()), (Purpose::Page, "/later"));
}

#[test]
fn what_is_held_and_not_under_way_is_surrendered() {
    let mut bench = bench(|_| {});
    stock(&mut bench, 5);
    let mut jobs = fetches(&mut bench, at(0));
    bench.drain();
    let job = jobs.remove(0);
    let (lane, again) = (job.lane, Link { tries: 1, ..job.link.clone() });
    end(&mut bench, job, 500, at(10));
    bench.retry(lane, again, Purpose::Page, at(20), at(10));
    let mut links = bench.surrender();
    links.sort_by_key(|link| link.url.clone());
    assert_eq!(
        links.iter().map(|link| (link.url.path(), link.tries)).collect::<Vec<_>>(),
        [("/0", 1), ("/2", 0), ("/3", 0), ("/4", 0)]
    );
    assert_eq!(bench.held(), 1);
    assert!(matches!(bench.next(at(30)), Next::Wait(Time::NEVER)));
    end(&mut bench, jobs.remove(0), 200, at(40));
    assert_eq!((bench.held(), bench.in_flight()), (0, 0));
}

#[test]
fn fetches_spread_over_hosts_that_are_nearly_alike() {
    let mut bench = bench(|config| (config.per_host, config.concurrency) = (Some(64), 8));
    stock_all(&mut bench, &[(20, &["93.184.216.1"]), (20, &["93.184.216.2"])]);
    let first: Vec<Job> = (0..2).filter_map(|_| fetch(&mut bench, at(0))).collect();
    for job in first {
        let took = Duration::from_micros(if job.lane == LaneId(0) { 100 } else { 60 });
        let mut visit = Visit::bare(job.link, job.purpose, Outcome::Ok, at(1));
        (visit.slot, visit.status) = (Some((job.lane, job.slot)), Some(200));
        (visit.timings.ttfb, visit.timings.total) = (Some(took), Some(took));
        bench.finish(&visit, at(1));
    }
    let jobs = fetches(&mut bench, at(1));
    let slower = jobs.iter().filter(|job| job.lane == LaneId(0)).count();
    assert_eq!((jobs.len(), slower), (8, 5));
}
