//! Scenarios in virtual time that would take days on a real network, or depend on chance.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::{Job, Purpose};
use argiope_core::crawl::rules::{Config, Pace, RobotsPolicy, ScopeKind, Size, Span};
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::{ErrorKind, Failure, Link, LinkKind, LinkList, Outcome, Time, Url};
use argiope_testkit::sim::{Arrival, ResolveResult, Sim, SimFetch, SimReply, SimReport, SimResponse, SimWeb};

/// The links of the simulated pages may be followed.
const WITHOUT_NOFOLLOW: bool = false;
const FINGERPRINT_KEY: u64 = 7;

/// A scripted web. `respond` is called with the request, the number of the attempt and the time.
struct Script<F> {
    latency: Duration,
    /// Number of requests for each URL.
    requests: std::collections::HashMap<Url, u32>,
    respond: F,
}

impl<F: FnMut(&Job, u32, Time) -> SimResponse> SimWeb for Script<F> {
    fn resolve(&mut self, host: &str, _now: Time) -> (Duration, ResolveResult) {
        if host.starts_with("nowhere") {
            return (Duration::ZERO, Err(Failure::new(ErrorKind::DnsNxdomain, "no such name")));
        }
        // Hosts have different addresses.
        let last_byte = host.bytes().fold(0, u8::wrapping_add);
        (Duration::from_millis(5), Ok((vec![IpAddr::from([93, 184, 216, last_byte])], Duration::from_secs(60))))
    }

    fn reply(&mut self, job: &Job, now: Time) -> SimReply {
        let requests = self.requests.entry(job.link.url.clone()).or_default();
        *requests += 1;
        SimReply::new(self.latency, job.addresses.first().copied(), (self.respond)(job, *requests, now))
    }
}

/// A simulation of a scripted web. `change` changes the settings, which have one root.
fn sim<F: FnMut(&Job, u32, Time) -> SimResponse>(change: impl FnOnce(&mut Config), respond: F) -> Sim<Script<F>> {
    let mut config = Config { roots: vec!["http://h.example/0".into()], scope: ScopeKind::Any, ..Config::default() };
    change(&mut config);
    let rules = Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings"));
    Sim::new(rules, Script { latency: Duration::from_millis(100), requests: Default::default(), respond })
}

/// Runs the simulation, and checks politeness.
fn run<F: FnMut(&Job, u32, Time) -> SimResponse>(sim: &mut Sim<Script<F>>) -> SimReport {
    let report = sim.run().expect("a crawl that ends");
    assert_eq!(sim.politeness.violations(), [] as [String; 0]);
    report
}

/// A page with links to these URLs.
fn links(urls: &[&str]) -> SimResponse {
    let mut links = LinkList::default();
    for url in urls {
        links.push(url, LinkKind::Anchor, WITHOUT_NOFOLLOW);
    }
    SimResponse::Page(links)
}

/// Pages `/0` to `/last`, each with a link to the next.
fn chain(job: &Job, last: u32) -> SimResponse {
    let number: u32 = job.link.url.path().trim_start_matches('/').parse().unwrap_or(0);
    let next = format!("http://{}/{}", job.link.url.authority(), number + 1);
    if number < last { links(&[&next]) } else { links(&[]) }
}

fn is_robots(job: &Job) -> bool {
    matches!(job.purpose, Purpose::Robots(_))
}

/// The requests for robots.txt.
fn robots_fetches(report: &SimReport) -> Vec<&SimFetch> {
    report.fetches.iter().filter(|fetched| matches!(fetched.purpose, Purpose::Robots(_))).collect()
}

/// URL, outcome and error of all settled pages.
fn outcomes(report: &SimReport) -> Vec<(&str, Outcome, Option<ErrorKind>)> {
    let pages = report.settled.iter().map(|settled| &settled.visit).filter(|visit| visit.is_page());
    pages
        .map(|visit| (visit.link.url.as_str(), visit.facts.outcome, visit.facts.error.as_ref().map(|error| error.kind)))
        .collect()
}

fn seconds(time: Time) -> f64 {
    (time - Time::ZERO).as_secs_f64()
}

#[test]
fn a_robots_txt_is_renewed_after_a_day() {
    let mut sim = sim(
        |config| config.max_crawl_delay = Span::from_secs(3_600),
        |job, _, _| {
            if is_robots(job) {
                SimResponse::Robots(b"User-agent: *\nCrawl-delay: 3600".to_vec())
            } else {
                chain(job, 60)
            }
        },
    );
    let report = run(&mut sim);
    let requests = robots_fetches(&report);
    assert_eq!(requests.len(), 3, "two and a half days at one page per hour");
    let interval = requests[1].start - requests[0].end;
    assert!((86_400..90_000).contains(&interval.as_secs()), "{interval:?}");
    assert_eq!(outcomes(&report).len(), 61);
}

#[test]
fn a_renewed_robots_txt_that_forbids_more_is_obeyed() {
    let mut sim = sim(
        |config| config.max_crawl_delay = Span::from_secs(3_600),
        |job, attempt, _| match (is_robots(job), attempt) {
            (true, 1) => SimResponse::Robots(b"User-agent: *\nCrawl-delay: 3600".to_vec()),
            (true, _) => SimResponse::Robots(b"User-agent: *\nDisallow: /".to_vec()),
            _ => chain(job, 60),
        },
    );
    let report = run(&mut sim);
    let results = outcomes(&report);
    assert_eq!(results.last().map(|(_, outcome, _)| *outcome), Some(Outcome::Robots));
    // One page per hour until the robots.txt is renewed after a day.
    assert!((24..27).contains(&results.len()), "{}", results.len());
}

#[test]
fn a_robots_txt_that_is_unreachable_for_a_while_delays_its_host() {
    let respond = |job: &Job, attempt: u32, _: Time| match (is_robots(job), attempt) {
        (true, 1) => SimResponse::Status(503),
        (true, 2) => SimResponse::Nothing(ErrorKind::ConnectRefused),
        (true, _) => SimResponse::Status(404),
        _ => chain(job, 2),
    };
    let mut sim = sim(|_| {}, respond);
    let report = run(&mut sim);
    assert_eq!(outcomes(&report).iter().filter(|(_, outcome, _)| *outcome == Outcome::Ok).count(), 3);
    // 5 ms for name resolution, attempts at 0, 1.1 and 3.2 s, three pages of 0.1 s each.
    assert!((3.6..3.8).contains(&seconds(report.ended)), "{}", seconds(report.ended));
}

#[test]
fn links_of_an_unreachable_robots_txt_have_the_documented_outcome() {
    type Case = (fn() -> SimResponse, Outcome, ErrorKind);
    let cases: [Case; 6] = [
        (|| SimResponse::Status(500), Outcome::Robots, ErrorKind::RobotsUnreachable),
        (|| SimResponse::Status(429), Outcome::Robots, ErrorKind::RobotsUnreachable),
        (|| SimResponse::Redirect("/robots.txt".into()), Outcome::Robots, ErrorKind::RobotsUnreachable),
        (
            || SimResponse::Redirect("http://127.0.0.1.example:25/".into()),
            Outcome::Robots,
            ErrorKind::RobotsUnreachable,
        ),
        (|| SimResponse::Redirect("http://nowhere.example/r".into()), Outcome::Failed, ErrorKind::DnsNxdomain),
        (|| SimResponse::Nothing(ErrorKind::Tls), Outcome::Failed, ErrorKind::Tls),
    ];
    for (respond, outcome, kind) in cases {
        let mut sim = sim(|_| {}, |job, _, _| if is_robots(job) { respond() } else { chain(job, 3) });
        let report = run(&mut sim);
        assert_eq!(outcomes(&report), [("http://h.example/0", outcome, Some(kind))]);
        assert_eq!((report.end, report.ended), (End::Finished, report.last_event));
    }
}

#[test]
fn the_origins_of_a_host_have_their_own_robots_txt_and_share_its_delay() {
    let urls = ["https://h.example/1", "http://h.example:8080/2", "https://h.example:8443/3", "http://h.example/4"];
    let mut sim = sim(
        |config| config.delay = Span::from_secs(2),
        |job, _, _| match job.link.url.path() {
            "/robots.txt" => SimResponse::Status(404),
            "/0" => links(&urls),
            _ => links(&[]),
        },
    );
    let report = run(&mut sim);
    assert_eq!((robots_fetches(&report).len(), report.fetches.len()), (4, 9));
    // Nine requests, two seconds between starts.
    assert!((16.1..16.2).contains(&seconds(report.ended)), "{}", seconds(report.ended));
}

#[test]
fn a_page_with_status_503_is_fetched_again() {
    let respond = |job: &Job, attempt: u32, _: Time| match (is_robots(job), job.link.url.path(), attempt) {
        (true, ..) => SimResponse::Status(404),
        (_, "/1", 1) => SimResponse::Status(503),
        (_, "/0", _) => links(&["http://h.example/1", "http://h.example/2", "http://h.example/3"]),
        _ => links(&[]),
    };
    let mut sim = sim(|config| (config.pace, config.per_host) = (Pace::Full, Some(1)), respond);
    let report = run(&mut sim);
    assert_eq!(report.end, End::Finished);
    assert_eq!(outcomes(&report).iter().filter(|(_, outcome, _)| *outcome == Outcome::Ok).count(), 4);
}

#[test]
fn a_loop_of_redirects_ends_because_its_pages_are_known() {
    let mut sim = sim(
        |_| {},
        |job, _, _| match job.link.url.path() {
            "/robots.txt" => SimResponse::Status(404),
            "/0" => SimResponse::Redirect("/1".into()),
            "/1" => SimResponse::Redirect("/2".into()),
            _ => SimResponse::Redirect("/0".into()),
        },
    );
    let report = run(&mut sim);
    assert_eq!((outcomes(&report).len(), sim.politeness.requested_pages().len()), (3, 3));
}

#[test]
fn redirects_are_followed_up_to_the_limit() {
    let mut sim = sim(
        |config| config.max_redirects = 3,
        |job, _, _| match job.link.url.path().trim_start_matches('/').parse::<u32>() {
            Ok(number) => SimResponse::Redirect(format!("/{}", number + 1)),
            Err(_) => SimResponse::Status(404),
        },
    );
    let report = run(&mut sim);
    let results = outcomes(&report);
    assert_eq!(results.len(), 4);
    assert_eq!(
        results.last().copied(),
        Some(("http://h.example/3", Outcome::Redirect, Some(ErrorKind::RedirectLimit)))
    );
}

#[test]
fn an_open_crawl_takes_links_while_it_runs_and_ends_when_it_is_closed() {
    let mut sim = sim(|_| {}, |job, _, _| if is_robots(job) { SimResponse::Status(404) } else { chain(job, 1) });
    let max_redirects = 10;
    let root = |text: &str| Link::root(Url::parse(text).expect("a URL"), max_redirects);
    let hour = Time::ZERO + Duration::from_secs(3_600);
    sim.feed_at(hour, vec![root("http://other.example/0"), root("http://h.example/0")]);
    sim.feed_at(hour + Duration::from_millis(150), vec![root("http://other.example/9")]);
    sim.close_at(hour + Duration::from_secs(60));
    let report = run(&mut sim);
    assert_eq!((report.end, report.ended), (End::Finished, hour + Duration::from_secs(60)));
    assert_eq!(outcomes(&report).len(), 5);
}

#[test]
fn a_root_without_a_scheme_is_tried_as_https_and_then_as_http() {
    let mut sim = sim(
        |config| (config.roots, config.scope) = (vec!["h.example/0".into()], ScopeKind::Host),
        |job, _, _| match (job.link.url.is_https(), is_robots(job)) {
            (true, _) => SimResponse::Nothing(ErrorKind::ConnectRefused),
            (_, true) => SimResponse::Status(404),
            _ => chain(job, 2),
        },
    );
    let report = run(&mut sim);
    let results = outcomes(&report);
    assert_eq!(
        results.first().copied(),
        Some(("https://h.example/0", Outcome::Failed, Some(ErrorKind::ConnectRefused)))
    );
    assert_eq!(results.len(), 4);
}

#[test]
fn a_single_host_uses_all_slots_at_full_pace() {
    let pages: Vec<String> = (0..500).map(|number| format!("http://h.example/p{number}")).collect();
    let page_urls: Vec<&str> = pages.iter().map(String::as_str).collect();
    let mut sim = sim(
        |config| (config.pace, config.concurrency, config.robots) = (Pace::Full, 50, RobotsPolicy::Ignore),
        |job, _, _| if job.link.url.path() == "/0" { links(&page_urls) } else { links(&[]) },
    );
    let report = run(&mut sim);
    assert_eq!(sim.politeness.max_in_flight_at("h.example"), 50);
    // 5 ms for name resolution, one page, then ten rounds.
    assert!((1.1..1.12).contains(&seconds(report.ended)), "{}", seconds(report.ended));
}

#[test]
fn a_host_that_stops_responding_does_not_delay_the_crawl_for_long() {
    let pages: Vec<String> = (0..300).map(|number| format!("http://h.example/p{number}")).collect();
    let page_urls: Vec<&str> = pages.iter().map(String::as_str).collect();
    let mut sim = sim(
        |_| {},
        |job, _, _| match job.link.url.path() {
            "/robots.txt" => SimResponse::Status(404),
            "/0" => links(&page_urls),
            _ => SimResponse::Nothing(ErrorKind::ConnectRefused),
        },
    );
    let report = run(&mut sim);
    assert_eq!(outcomes(&report).iter().filter(|(_, outcome, _)| *outcome == Outcome::Failed).count(), 300);
    assert!(seconds(report.ended) < 600.0, "{}", seconds(report.ended));
    assert!(report.fetches.len() < 60, "{}", report.fetches.len());
}

/// The frontier in memory does not store rules, so evicted rules can only be fetched from their host again.
#[test]
fn evicted_robots_rules_are_not_fetched_repeatedly() {
    // The rules of all hosts together need more memory than the limit allows for rules.
    let file: String = (0..6_000).map(|n| format!("Disallow:/*x{n}\n")).collect();
    let file = format!("User-agent: *\n{file}").into_bytes();
    let hosts = 60;
    let mut sim = sim(
        |config| {
            config.roots = (0..hosts).map(|host| format!("http://h{host}.example/0")).collect();
            config.max_memory = Some(Size(64 << 20));
            config.concurrency = 1;
        },
        |job, _, _| if is_robots(job) { SimResponse::Robots(file.clone()) } else { chain(job, 9) },
    );
    let report = run(&mut sim);
    assert_eq!(outcomes(&report).len(), hosts * 10);
    let requests = robots_fetches(&report).len();
    assert!(requests <= 2 * hosts, "{requests} times for {hosts} hosts");
}

/// Hosts that need a minute per page are crawled beside a fast host, which must be crawled nearly as fast as alone.
#[test]
fn slow_hosts_do_not_hold_all_slots() {
    const PAGES: usize = 400;

    struct SlowHosts {
        pages: Vec<String>,
    }

    impl SimWeb for SlowHosts {
        fn resolve(&mut self, host: &str, _now: Time) -> (Duration, ResolveResult) {
            let fast_host_byte = 200;
            let last_byte = host.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(fast_host_byte);
            (Duration::from_millis(5), Ok((vec![IpAddr::from([93, 184, 216, last_byte])], Duration::from_secs(3_600))))
        }

        fn reply(&mut self, job: &Job, _now: Time) -> SimReply {
            let url = &job.link.url;
            let is_slow = url.host().starts_with("slow") && !is_robots(job);
            let latency = Duration::from_millis(if is_slow { 60_000 } else { 20 });
            let response = match url.path() {
                "/robots.txt" => SimResponse::Status(404),
                "/0" => {
                    let pages: Vec<String> =
                        self.pages.iter().map(|page| format!("http://{}{page}", url.host())).collect();
                    links(&pages.iter().map(String::as_str).collect::<Vec<_>>())
                }
                _ => links(&[]),
            };
            SimReply::new(latency, job.addresses.first().copied(), response)
        }
    }

    // The time of the last page of the fast host.
    let last_page_end = |slow_hosts: usize| {
        let slow_roots = (0..slow_hosts).map(|host| format!("http://slow{host}.example/0"));
        let config = Config {
            // The fast host comes last.
            roots: slow_roots.chain(["http://quick.example/0".to_owned()]).collect(),
            concurrency: 64,
            max_time: Some(Span::from_secs(600)),
            ..Config::default()
        };
        let pages = (1..=PAGES).map(|page| format!("/{page}")).collect();
        let mut sim = Sim::new(Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings")), SlowHosts { pages });
        let report = sim.run().expect("a crawl that ends");
        let quick_fetches = report.fetches.iter().filter(|fetched| fetched.url.host() == "quick.example");
        let page_ends: Vec<Time> = quick_fetches.map(|fetched| fetched.end).collect();
        // With robots.txt and the root.
        assert_eq!(page_ends.len(), PAGES + 2);
        seconds(page_ends.into_iter().max().expect("pages"))
    };
    let (alone, beside_slow_hosts) = (last_page_end(0), last_page_end(40));
    assert!(alone / beside_slow_hosts >= 0.8, "{alone} s alone, {beside_slow_hosts} s beside slow hosts");
}

/// Of 401 hosts, 400 send their pages a few bytes at a time, and there are 256 slots. The good host must be crawled
/// nearly as fast as alone. If it comes last, it must not have to wait for the timeouts of the others.
#[test]
fn a_crowd_of_dripping_hosts_does_not_hold_all_slots() {
    struct Crowd {
        pages: usize,
    }

    impl SimWeb for Crowd {
        fn resolve(&mut self, host: &str, _now: Time) -> (Duration, ResolveResult) {
            let number: u16 = host.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(999);
            let [high, low] = number.to_be_bytes();
            (Duration::from_millis(1), Ok((vec![IpAddr::from([93, 184, high, low])], Duration::from_secs(3_600))))
        }

        fn reply(&mut self, job: &Job, _now: Time) -> SimReply {
            let url = &job.link.url;
            let drips = url.host().starts_with("drip") && !is_robots(job);
            let latency = Duration::from_millis(if drips { 60_000 } else { 10 });
            let response = match url.path() {
                "/robots.txt" => SimResponse::Status(404),
                "/0" => {
                    let pages: Vec<String> =
                        (1..=self.pages).map(|page| format!("http://{}/{page}", url.host())).collect();
                    links(&pages.iter().map(String::as_str).collect::<Vec<_>>())
                }
                _ => links(&[]),
            };
            let arrival = if drips { Arrival::Drips } else { Arrival::Whole };
            SimReply { arrival, ..SimReply::new(latency, job.addresses.first().copied(), response) }
        }
    }

    // Crawls the good host with these numbers of dripping hosts before and after it. Returns when the first request to
    // the good host started, and the time from then until its last response.
    let crawl = |pages: usize, before: usize, after: usize| {
        let drips = |range: std::ops::Range<usize>| range.map(|host| format!("http://drip{host}.example/0"));
        let good = ["http://good.example/0".to_owned()];
        let config = Config {
            roots: drips(0..before).chain(good).chain(drips(before..before + after)).collect(),
            max_time: Some(Span::from_secs(14)),
            ..Config::default()
        };
        let mut sim = Sim::new(Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings")), Crowd { pages });
        let report = sim.run().expect("a crawl that ends");
        assert_eq!(sim.politeness.violations(), [] as [String; 0]);
        let good: Vec<&SimFetch> = report.fetches.iter().filter(|fetch| fetch.url.host() == "good.example").collect();
        assert_eq!(good.len(), pages + 2, "{before} hosts before it and {after} after it");
        let start = good.iter().map(|fetch| fetch.start).min().expect("requests");
        let end = good.iter().map(|fetch| fetch.end).max().expect("requests");
        (seconds(start), (end - start).as_secs_f64())
    };
    let ((_, alone), (_, beside)) = (crawl(4_000, 0, 0), crawl(4_000, 0, 400));
    assert!(alone / beside >= 0.8, "{alone} s alone, {beside} s beside 400 hosts");
    let (start, _) = crawl(100, 400, 0);
    // Every five seconds, half of the slots become free. 256 hosts start at once, 128 after five seconds, and the good
    // host after ten, with the last of the others.
    assert!(start < 12.0, "the first request to the good host after {start} s");
}

/// 80 hosts accept requests and send nothing for 19 seconds. There are 64 slots, and 8 of them are reserved for quick
/// hosts. 20 quick hosts must get more slots than these.
#[test]
fn a_crowd_of_silent_hosts_does_not_hold_all_slots() {
    // The time of the last page of the quick hosts.
    let last_page_end = |silent_hosts: usize| {
        let quick = (0..20).map(|host| format!("http://quick{host}.example/0"));
        let silent = (0..silent_hosts).map(|host| format!("http://silent{host}.example/0"));
        let web = SilentHosts { silence: Duration::from_secs(19), pages: 100 };
        let (report, violations) = web.crawl(quick.chain(silent).collect());
        assert_eq!(violations, [] as [String; 0]);
        let quick: Vec<&SimFetch> =
            report.fetches.iter().filter(|fetch| fetch.url.host().starts_with("quick")).collect();
        // With robots.txt and the root of each.
        assert_eq!(quick.len(), 20 * 102);
        seconds(quick.iter().map(|fetch| fetch.end).max().expect("requests"))
    };
    let (alone, beside) = (last_page_end(0), last_page_end(80));
    // Silent responses are closed after five seconds, until half of the slots are free.
    assert!(beside < 2.0 * alone + 5.0, "{alone} s alone, {beside} s beside silent hosts");
}

#[test]
fn a_crawl_of_slow_hosts_only_loses_no_page() {
    let web = SilentHosts { silence: Duration::from_secs(8), pages: 3 };
    let (report, _) = web.crawl((0..150).map(|host| format!("http://silent{host}.example/0")).collect());
    let outcomes = outcomes(&report);
    assert_eq!(outcomes.len(), 150 * 4);
    let lost: Vec<_> = outcomes.iter().filter(|(_, outcome, _)| *outcome != Outcome::Ok).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let pages = report.fetches.iter().filter(|fetch| fetch.purpose == Purpose::Page).count();
    assert_eq!(pages, 150 * 4, "each page is requested once");
}

/// Hosts with a quick robots.txt. Those whose name begins with "silent" send nothing of a page for this time.
struct SilentHosts {
    silence: Duration,
    /// Number of pages that each root links to.
    pages: usize,
}

impl SilentHosts {
    /// Crawls these roots. Returns the report and the violations of politeness.
    fn crawl(self, roots: Vec<String>) -> (SimReport, Vec<String>) {
        let config = Config { roots, concurrency: 64, ..Config::default() };
        let mut sim = Sim::new(Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings")), self);
        let report = sim.run().expect("a crawl that ends");
        (report, sim.politeness.violations().to_vec())
    }
}

impl SimWeb for SilentHosts {
    fn resolve(&mut self, host: &str, _now: Time) -> (Duration, ResolveResult) {
        let number: u16 = host.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number");
        let [high, low] = number.to_be_bytes();
        let network = if host.starts_with("silent") { 184 } else { 185 };
        (Duration::from_millis(1), Ok((vec![IpAddr::from([93, network, high, low])], Duration::from_secs(3_600))))
    }

    fn reply(&mut self, job: &Job, _now: Time) -> SimReply {
        let url = &job.link.url;
        let is_silent = url.host().starts_with("silent") && !is_robots(job);
        let latency = if is_silent { self.silence } else { Duration::from_millis(50) };
        let response = match url.path() {
            "/robots.txt" => SimResponse::Status(404),
            "/0" => {
                let pages: Vec<String> = (1..=self.pages).map(|page| format!("http://{}/{page}", url.host())).collect();
                links(&pages.iter().map(String::as_str).collect::<Vec<_>>())
            }
            _ => links(&[]),
        };
        let arrival = if is_silent { Arrival::Silent } else { Arrival::Whole };
        SimReply { arrival, ..SimReply::new(latency, job.addresses.first().copied(), response) }
    }
}
