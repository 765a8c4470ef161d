//! Tests of the workbench, one event at a time. Properties of whole crawls are tested in `testkit`, in virtual time.

use std::net::IpAddr;

use super::*;
use crate::base::custom_request::CustomRequest;
use crate::base::job::{PageCookies, PagePart, PartAccess};
use crate::base::link::LinkKind;
use crate::base::url::Url;
use crate::crawl::rules::{Config, Pace, Rate, RobotsPolicy};
use crate::crawl::schedule::lane::{Flight, LanePace, LoadSignal};
use crate::crawl::schedule::next::Next;

pub(super) fn bench(edit: impl FnOnce(&mut Config)) -> Workbench {
    let mut config = Config {
        roots: vec!["http://h0.example/".into()],
        robots: RobotsPolicy::Ignore,
        pace: Pace::Full,
        per_host: Some(2),
        ..Config::default()
    };
    edit(&mut config);
    Workbench::new(Arc::new(config.compile(0).expect("valid settings")))
}

pub(super) fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1_000)
}

pub(super) fn link(address: &str) -> Link {
    let url = Url::parse(address).expect("an address");
    Link { url, via: None, depth: 1, redirects: 5, tries: 0, kind: LinkKind::Anchor, request: None }
}

/// Adds lane 0 with this number of links, and resolves its name.
pub(super) fn stock(bench: &mut Workbench, count: u32) {
    stock_all(bench, &[(count, &["93.184.216.1"])]);
}

/// Adds lanes with these numbers of links, and resolves their names to these addresses.
pub(super) fn stock_all(bench: &mut Workbench, lanes: &[(u32, &[&str])]) {
    for (number, (count, _)) in (0..).zip(lanes) {
        let (id, name) = (LaneId(number), format!("h{number}.example"));
        bench.set_backlog(id, &name, 0, at(0));
        bench.add_links(id, (0..*count).map(|n| link(&format!("http://{name}/{n}"))).collect(), 0, at(0));
    }
    for _ in lanes {
        assert!(matches!(bench.next(at(0)), Some(Next::Resolve(..))), "the name is resolved first");
    }
    for (number, (_, ips)) in (0..).zip(lanes) {
        let ips = ips.iter().map(|ip| ip.parse().expect("an address")).collect();
        bench.resolved(LaneId(number), Ok((ips, Duration::from_secs(300))), at(0));
    }
}

pub(super) fn fetch(bench: &mut Workbench, now: Time) -> Option<Job> {
    match bench.next(now) {
        Some(Next::Fetch(job)) => Some(job),
        _ => None,
    }
}

/// The next link that has ended without a request, if that comes next.
pub(super) fn settled(bench: &mut Workbench, now: Time) -> Option<Box<Visit>> {
    if bench.next(now).is_none() { bench.take_decided() } else { None }
}

/// The evicted robots rules that are needed again, if that comes next.
pub(super) fn recalled(bench: &mut Workbench, now: Time) -> Option<(LaneId, Origin)> {
    if bench.next(now).is_none() { bench.take_recall() } else { None }
}

/// All jobs that can start now.
pub(super) fn fetches(bench: &mut Workbench, now: Time) -> Vec<Job> {
    std::iter::from_fn(|| fetch(bench, now)).collect()
}

/// Ends a job with this status.
pub(super) fn end(bench: &mut Workbench, job: Job, status: u16, now: Time) {
    let slot = Some((job.lane, job.slot));
    let mut visit = Visit::with_outcome(job.link, job.purpose, Outcome::Ok, now);
    visit.for_keeper.slot = slot;
    visit.facts.status = Some(status);
    bench.finish(&visit, now);
}

#[test]
fn a_lane_uses_all_its_slots_and_not_more() {
    let mut bench = bench(|_| {});
    stock(&mut bench, 5);
    let jobs = fetches(&mut bench, at(0));
    assert_eq!((jobs.len(), bench.in_flight(), bench.link_count()), (2, 2, 5));
    assert!(matches!(bench.next(at(0)), Some(Next::Wait(Time::NEVER))));
    for job in jobs {
        end(&mut bench, job, 200, at(10));
    }
    assert_eq!(fetches(&mut bench, at(10)).len(), 2);
}

#[test]
fn a_ready_lane_backs_off_after_a_503() {
    let mut bench = bench(|config| config.concurrency = 2);
    stock(&mut bench, 5);
    let mut jobs = fetches(&mut bench, at(0));
    let (one, two) = (jobs.remove(0), jobs.remove(0));
    // The first response makes the lane ready. Then the host reports overload.
    end(&mut bench, one, 200, at(10));
    end(&mut bench, two, 503, at(10));
    let Some(Next::Wait(until)) = bench.next(at(10)) else { panic!("it backs off") };
    assert_eq!(until, at(1_010));
}

#[test]
fn lanes_that_wait_for_an_address_are_woken_one_by_one() {
    let mut bench = bench(|config| (config.per_ip, config.per_host) = (Some(1), Some(1)));
    stock_all(&mut bench, &[(1, ["93.184.216.1"].as_slice()); 3]);
    // Events for lanes that wait must not queue them twice.
    let mut first = fetches(&mut bench, at(0));
    assert_eq!(first.len(), 1);
    for lane in 0..3 {
        for _ in 0..5 {
            bench.set_backlog(LaneId(lane), &format!("h{lane}.example"), 0, at(1));
            assert!(matches!(bench.next(at(1)), Some(Next::Wait(Time::NEVER))));
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
    assert!(bench.addresses.is_idle());
}

#[test]
fn a_slot_that_a_woken_lane_does_not_use_wakes_the_next_lane() {
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
fn a_request_counts_towards_every_address_of_its_host() {
    let mut bench = bench(|config| (config.per_ip, config.per_host) = (Some(1), Some(1)));
    let (a, b) = ("93.184.216.1", "93.184.216.2");
    stock_all(&mut bench, &[(1, &[a, b]), (1, &[b]), (1, &[a])]);
    let mut jobs = fetches(&mut bench, at(0));
    assert_eq!((jobs.len(), jobs[0].lane), (1, LaneId(0)));
    end(&mut bench, jobs.remove(0), 200, at(1));
    assert_eq!(fetches(&mut bench, at(1)).len(), 2);
}

#[test]
fn an_expired_address_still_serves_the_first_job() {
    let mut bench = bench(|config| config.per_host = Some(1));
    bench.set_backlog(LaneId(0), "h0.example", 0, at(0));
    bench.add_links(LaneId(0), vec![link("http://h0.example/1"), link("http://h0.example/2")], 0, at(0));
    assert!(matches!(bench.next(at(0)), Some(Next::Resolve(..))));
    bench.resolved(LaneId(0), Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::ZERO)), at(70));
    let mut jobs = fetches(&mut bench, at(900));
    assert_eq!((jobs.len(), jobs[0].dns()), (1, Some(Duration::from_millis(70))));
    end(&mut bench, jobs.remove(0), 200, at(1_000));
    assert!(matches!(bench.next(at(1_000)), Some(Next::Resolve(..))));
}

/// Adds a lane whose host is not a root, with one link for each of these paths.
fn add_foreign_lane(bench: &mut Workbench, name: &str, links: &[&str]) -> LaneId {
    let id = LaneId(7);
    bench.set_backlog(id, name, 0, at(0));
    bench.add_links(id, links.iter().map(|path| link(&format!("http://{name}{path}"))).collect(), 0, at(0));
    id
}

#[test]
fn a_job_contains_only_the_addresses_that_were_checked() {
    let mut bench = bench(|config| config.per_host = Some(1));
    let id = add_foreign_lane(&mut bench, "rebind.example", &["/1", "/2", "/3"]);
    let ips = |texts: &[&str]| texts.iter().map(|ip| ip.parse().expect("an address")).collect::<Vec<IpAddr>>();
    // The name resolves to a public address first, then to a public and two private ones, then to a private one.
    assert!(matches!(bench.next(at(0)), Some(Next::Resolve(..))));
    bench.resolved(id, Ok((ips(&["93.184.216.1"]), Duration::ZERO)), at(1));
    let job = fetches(&mut bench, at(1)).remove(0);
    assert_eq!(*job.addresses, ips(&["93.184.216.1"]));
    end(&mut bench, job, 200, at(2));
    assert!(matches!(bench.next(at(2)), Some(Next::Resolve(..))));
    bench.resolved(id, Ok((ips(&["93.184.216.1", "127.0.0.1", "::ffff:10.0.0.1"]), Duration::ZERO)), at(3));
    let job = fetches(&mut bench, at(3)).remove(0);
    assert_eq!(*job.addresses, ips(&["93.184.216.1"]), "the connection gets only the allowed addresses");
    end(&mut bench, job, 200, at(4));
    assert!(matches!(bench.next(at(4)), Some(Next::Resolve(..))));
    bench.resolved(id, Ok((ips(&["127.0.0.1"]), Duration::ZERO)), at(5));
    let Some(visit) = settled(&mut bench, at(5)) else { panic!("refused without a connection") };
    assert_eq!(
        (visit.facts.outcome, visit.facts.error.map(|e| e.kind)),
        (Outcome::Refused, Some(ErrorKind::PrivateAddress))
    );
}

#[test]
fn an_address_given_for_a_port_is_not_used_for_other_ports() {
    let mut bench = bench(|config| config.resolve = vec!["h7.example:8080:127.0.0.1".parse().expect("a mapping")]);
    // The port that `--resolve` names: no DNS lookup.
    let id = add_foreign_lane(&mut bench, "h7.example", &[":8080/1"]);
    let job = fetches(&mut bench, at(0)).remove(0);
    assert_eq!(*job.addresses, ["127.0.0.1".parse::<IpAddr>().expect("an address")]);
    end(&mut bench, job, 200, at(1));
    // Another port: it is looked up, and the given address does not apply to it.
    bench.add_links(id, vec![link("http://h7.example/2"), link("http://h7.example:8080/3")], 0, at(1));
    assert!(matches!(bench.next(at(1)), Some(Next::Resolve(..))));
    bench.resolved(id, Err(Failure::new(ErrorKind::DnsNxdomain, "none")), at(2));
    let mut results = Vec::new();
    loop {
        match bench.next(at(2)) {
            None => {
                let visit = bench.take_decided().expect("no rules are evicted");
                results.push((visit.link.url.port(), visit.facts.error.map(|failure| failure.kind)));
            }
            Some(Next::Fetch(job)) => results.push((job.link.url.port(), None)),
            Some(Next::Wait(_)) => break,
            Some(Next::Resolve(..) | Next::Done(_)) => panic!("the name is looked up once"),
        }
    }
    assert_eq!(results, [(80, Some(ErrorKind::DnsNxdomain)), (8080, None)]);
}

#[test]
fn refused_names_and_ports_cause_no_dns_lookup() {
    for (name, links, kind) in [
        ("printer.local", ["/1", "/2"], ErrorKind::PrivateAddress),
        ("www.example", [":22/", ":25/"], ErrorKind::BlockedPort),
    ] {
        let mut bench = bench(|_| {});
        add_foreign_lane(&mut bench, name, &links);
        for _ in links {
            let Some(visit) = settled(&mut bench, at(0)) else { panic!("{name} ends at once") };
            assert_eq!((visit.facts.outcome, visit.facts.error.map(|e| e.kind)), (Outcome::Refused, Some(kind)));
        }
        assert!(matches!(bench.next(at(0)), Some(Next::Wait(Time::NEVER))));
    }
}

#[test]
fn a_failed_lookup_is_repeated_and_then_given_up() {
    let mut bench = bench(|config| config.max_tries = 2);
    bench.set_backlog(LaneId(0), "h0.example", 0, at(0));
    bench.add_links(LaneId(0), vec![link("http://h0.example/1")], 0, at(0));
    let failure = || Err(Failure::new(ErrorKind::DnsServfail, "no"));
    assert!(matches!(bench.next(at(0)), Some(Next::Resolve(..))));
    bench.resolved(LaneId(0), failure(), at(5));
    let Some(Next::Wait(until)) = bench.next(at(5)) else { panic!("it waits") };
    assert_eq!(until, at(1_005));
    assert!(matches!(bench.next(until), Some(Next::Resolve(..))));
    bench.resolved(LaneId(0), failure(), at(2_000));
    let Some(visit) = settled(&mut bench, at(2_000)) else { panic!("it is given up") };
    assert_eq!((visit.facts.outcome, visit.link.tries), (Outcome::Failed, 2));
    // Later links end at once, and after an hour the name is looked up again.
    bench.add_links(LaneId(0), vec![link("http://h0.example/2")], 0, at(3_000));
    assert!(settled(&mut bench, at(3_000)).is_some());
    bench.add_links(LaneId(0), vec![link("http://h0.example/3")], 0, at(3_700_000));
    assert!(matches!(bench.next(at(3_700_000)), Some(Next::Resolve(..))));
    assert_eq!(bench.link_count(), 1);
}

#[test]
fn a_host_that_never_responds_is_given_up() {
    let mut bench = bench(|config| (config.per_host, config.max_tries) = (Some(1), 1));
    stock(&mut bench, 60);
    let (mut now, mut requested, mut settled) = (at(0), 0, 0);
    loop {
        match bench.next(now) {
            Some(Next::Fetch(job)) => {
                requested += 1;
                let visit = Visit::failed(job, Failure::new(ErrorKind::ConnectTimeout, "silence"), now, now);
                bench.finish(&visit, now);
                settled += 1;
            }
            None => {
                let visit = bench.take_decided().expect("no rules are evicted");
                assert_eq!(visit.facts.error.as_ref().map(|failure| failure.kind), Some(ErrorKind::ConnectTimeout));
                settled += 1;
            }
            Some(Next::Wait(until)) if until.is_never() => break,
            Some(Next::Wait(until)) => now = until,
            Some(Next::Resolve(..) | Next::Done(_)) => panic!("the name is known"),
        }
    }
    // After ten failures the host is given up. The other links end without a request.
    assert_eq!((requested, settled, bench.link_count()), (10, 60, 0));
    assert!(now - Time::ZERO < Duration::from_secs(300));
}

#[test]
fn a_host_that_is_always_overloaded_is_given_up() {
    let mut bench = bench(|config| (config.per_host, config.max_tries) = (Some(1), 1));
    stock(&mut bench, 60);
    let (mut now, mut requested, mut ended) = (at(0), 0, 0);
    loop {
        match bench.next(now) {
            Some(Next::Fetch(job)) => {
                requested += 1;
                end(&mut bench, job, 503, now);
            }
            None => {
                let visit = bench.take_decided().expect("no rules are evicted");
                assert_eq!(visit.facts.error.as_ref().map(|failure| failure.kind), Some(ErrorKind::Unreachable));
                assert_eq!(visit.link.tries, 0, "it was not requested");
                ended += 1;
            }
            Some(Next::Wait(until)) if until.is_never() => break,
            Some(Next::Wait(until)) => now = until,
            Some(Next::Resolve(lane, _)) => {
                bench.resolved(lane, Ok((vec![[93, 184, 216, 1].into()], Duration::MAX)), now);
            }
            Some(Next::Done(_)) => panic!("the keeper decides when the crawl is over"),
        }
    }
    // After 40 refusals the host is given up. The other links end without a request.
    assert_eq!((requested, ended, bench.link_count()), (40, 20, 0));
    assert!(now - Time::ZERO > Duration::from_secs(30 * 60), "the host is given up late");
    // After another response the count starts over.
    let mut pace = LanePace::new(&bench.rules);
    for moment in 0..100 {
        let flight = Flight { started: at(2 * moment), in_flight: 1 };
        pace.ended(LoadSignal::Overload(None), flight, Duration::from_secs(1), at(2 * moment));
        assert!(!pace.is_given_up());
        if moment % 30 == 29 {
            let nothing = Duration::ZERO;
            let answer = LoadSignal::Answer { first: nothing, whole: nothing, local_wait: nothing, kind: None };
            pace.ended(answer, flight, Duration::from_secs(1), at(2 * moment));
        }
    }
}

#[test]
fn the_rate_limits_pages_but_not_robots_txt() {
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
    let Some(Next::Wait(until)) = bench.next(at(10)) else { panic!("too fast") };
    assert_eq!(until, at(510));
    assert_eq!(fetches(&mut bench, until).len(), 1);
}

#[test]
fn forbidden_links_are_settled_at_once_although_the_lane_waits() {
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
    let Some(visit) = settled(&mut bench, at(10)) else { panic!("/1 is forbidden") };
    assert_eq!((visit.facts.outcome, visit.link.url.path()), (Outcome::Robots, "/1"));
    let Some(Next::Wait(until)) = bench.next(at(10)) else { panic!("/0 has to wait") };
    // The visit says that its request was sent at 10.
    assert_eq!(until, at(3_600_010));
    assert_eq!(
        bench.first_wait(at(10)).map(|first| (first.host.to_string(), first.reason)),
        Some(("h0.example".into(), crate::crawl::wait::WaitReason::Delay))
    );
}

#[test]
fn old_robots_rules_apply_if_the_robots_txt_cannot_be_fetched_again() {
    let mut bench = bench(|config| config.robots = RobotsPolicy::Obey);
    stock(&mut bench, 1);
    let job = fetches(&mut bench, at(0)).remove(0);
    let origin = job.link.url.origin();
    end(&mut bench, job, 200, at(0));
    bench.robots_known(LaneId(0), &origin, robots_rules(Robots::default(), at(0)), at(0));
    let job = fetches(&mut bench, at(1)).remove(0);
    end(&mut bench, job, 200, at(1));
    let day = Time::ZERO + ROBOTS_LIFE;
    bench.add_links(LaneId(0), vec![link("http://h0.example/later")], 0, day);
    assert!(matches!(bench.next(day), Some(Next::Resolve(..))));
    bench.resolved(LaneId(0), Ok((vec!["93.184.216.1".parse().expect("an IP address")], Duration::from_secs(9))), day);
    let job = fetches(&mut bench, day).remove(0);
    assert!(matches!(job.purpose, Purpose::Robots(_)));
    end(&mut bench, job, 500, day);
    let failure = Failure::new(ErrorKind::RobotsUnreachable, "500");
    bench.robots_known(LaneId(0), &origin, robots_failed(failure, Outcome::Robots, 4, day), day);
    let job = fetches(&mut bench, day).remove(0);
    assert_eq!((job.purpose, job.link.url.path()), (Purpose::Page, "/later"));
}

#[test]
fn take_back_returns_all_links_not_in_flight() {
    let mut bench = bench(|_| {});
    stock(&mut bench, 5);
    let mut jobs = fetches(&mut bench, at(0));
    bench.drain();
    let job = jobs.remove(0);
    let (lane, again) = (job.lane, Link { tries: 1, ..job.link.clone() });
    end(&mut bench, job, 500, at(10));
    bench.retry(lane, again, Purpose::Page, at(20), at(10));
    let mut links = bench.take_back();
    links.sort_by_key(|link| link.url.clone());
    assert_eq!(
        links.iter().map(|link| (link.url.path(), link.tries)).collect::<Vec<_>>(),
        [("/0", 1), ("/2", 0), ("/3", 0), ("/4", 0)]
    );
    assert_eq!(bench.link_count(), 1);
    assert!(matches!(bench.next(at(30)), Some(Next::Wait(Time::NEVER))));
    end(&mut bench, jobs.remove(0), 200, at(40));
    assert_eq!((bench.link_count(), bench.in_flight()), (0, 0));
}

/// A request of a page that is being rendered.
fn part(address: &str) -> (Link, Purpose) {
    let (access, cookies) = (PartAccess::SameOrigin, PageCookies::default());
    let part = PagePart { tab: 1, request: 1, kind: "script", access, cookies };
    (link(address), Purpose::Part(Box::new(part)))
}

#[test]
fn requests_of_rendered_pages_start_while_others_are_held_back() {
    let holds: [fn(&mut Workbench, bool); 3] =
        [|bench, on| bench.set_paused(on), |bench, on| bench.hold_back(on), |bench, on| bench.hold_for_share(on)];
    for hold in holds {
        let mut bench = bench(|_| {});
        stock_all(&mut bench, &[(3, &["93.184.216.1"]), (3, &["93.184.216.2"])]);
        hold(&mut bench, true);
        assert_eq!(bench.next(at(0)).map(is_long_wait), Some(true));
        let (script, purpose) = part("http://h1.example/script");
        bench.add_site_file(LaneId(1), script, purpose, at(0));
        let parts: Vec<String> =
            fetches(&mut bench, at(0)).into_iter().map(|job| job.link.url.target().to_owned()).collect();
        assert_eq!(parts, ["/script"]);
        assert_eq!(bench.next(at(0)).map(is_long_wait), Some(true));
        hold(&mut bench, false);
        // Each host has two slots, and the script uses one of them.
        assert_eq!(fetches(&mut bench, at(0)).len(), 3);
    }
}

#[test]
fn requests_of_rendered_pages_do_not_exceed_the_concurrency() {
    let mut bench = bench(|config| config.concurrency = 1);
    stock_all(&mut bench, &[(1, &["93.184.216.1"]), (1, &["93.184.216.2"])]);
    let page = fetch(&mut bench, at(0)).expect("a page");
    bench.set_paused(true);
    let (script, purpose) = part("http://h1.example/script");
    bench.add_site_file(LaneId(1), script, purpose, at(0));
    assert!(fetch(&mut bench, at(0)).is_none());
    end(&mut bench, page, 200, at(10));
    let part = fetch(&mut bench, at(10)).expect("the slot is free");
    assert_eq!(part.link.url.target(), "/script");
}

fn is_long_wait(next: Next) -> bool {
    matches!(next, Next::Wait(Time::NEVER))
}

#[test]
fn a_better_link_gives_its_host_a_better_place_in_the_wait_for_the_rate() {
    let mut bench = bench(|config| config.rate = Some(Rate { per_second: 1.0 }));
    bench.rank_links();
    stock_all(&mut bench, &[(2, &["93.184.216.1"]), (2, &["93.184.216.2"]), (2, &["93.184.216.3"])]);
    assert_eq!(fetches(&mut bench, at(0)).len(), 1);
    // All hosts wait for the rate now. The last of them gets a link with a priority.
    let better = CustomRequest { priority: 7, ..CustomRequest::default() };
    let better = Link { request: Some(Arc::new(better)), ..link("http://h2.example/better") };
    bench.add_links(LaneId(2), vec![better], 0, at(10));
    let next = fetch(&mut bench, at(1_000)).expect("the rate allows a page");
    assert_eq!(next.lane, LaneId(2));
}
