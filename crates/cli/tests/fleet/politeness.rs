//! Hosts that change hands are asked no sooner than their delay, their Crawl-delay and their `Retry-After` allow. Judged
//! by the servers' logs: the time between two requests to a host counts, from any process.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::{Duration, Instant};

use argiope_practice::{PracticeWeb, Response, RunningWeb, SeenRequest, Site};
use argiope_testkit::redis_cluster::RedisCluster;
use rustix::process::Signal;

use crate::durable_kit::{TIMEOUT, is_long, signal, wait};
use crate::kit::Fleet;

/// Hosts of one server, told apart by their address. They have the same robots.txt and these many pages each.
struct SlowHosts {
    web: RunningWeb,
    roots: Vec<String>,
    pages: usize,
}

impl SlowHosts {
    fn serve(hosts: usize, pages: usize, robots: &str) -> Self {
        let site = Site::http("0.0.0.0:0").expect("a port").robots(robots);
        let links = (1..pages).map(|page| format!("/{page}"));
        let site = site.page("/", Response::links(links)).fallback(Response::html("a page"));
        let roots = (1..=hosts).map(|host| format!("http://127.7.1.{host}:{}/", site.address().port())).collect();
        let web = PracticeWeb::new().keep_headers().site(site).start().expect("the practice web starts");
        Self { web, roots, pages }
    }

    /// Waits until the hosts were asked this many times in all.
    fn wait_for(&self, requests: usize) {
        assert!(self.web.wait_requests(requests as u64, 2 * TIMEOUT), "only {} requests", self.web.requests());
    }

    fn spawn(&self, fleet: &mut Fleet, more: &[&str]) -> Child {
        let roots = self.roots.iter().map(String::as_str);
        fleet.spawn(&roots.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// Asserts that every page has one record.
    fn check_records(&self, fleet: &Fleet) {
        let records = fleet.records();
        let urls: Vec<&str> = records
            .iter()
            .filter(|record| record["type"] == "page")
            .filter_map(|record| record["url"].as_str())
            .collect();
        let distinct: std::collections::BTreeSet<&&str> = urls.iter().collect();
        assert_eq!((urls.len(), distinct.len()), (self.roots.len() * self.pages, urls.len()));
    }
}

/// The requests to each host, in order of arrival.
fn by_host(log: &[SeenRequest]) -> BTreeMap<&str, Vec<&SeenRequest>> {
    let mut hosts: BTreeMap<&str, Vec<&SeenRequest>> = BTreeMap::new();
    for seen in log {
        hosts.entry(&seen.host).or_default().push(seen);
    }
    for requests in hosts.values_mut() {
        requests.sort_by_key(|seen| seen.start);
    }
    hosts
}

/// Asserts that any two requests to a host are at least `delay` apart. A tenth less is tolerated, because requests arrive
/// with varying delays. Returns how often a host changed from one connection to another.
fn check_gaps(log: &[SeenRequest], delay: Duration) -> usize {
    let mut changes = 0;
    for (host, requests) in by_host(log) {
        for pair in requests.windows(2) {
            let gap = pair[1].start - pair[0].start;
            assert!(
                gap >= delay * 9 / 10,
                "{host}: {} and {} are {gap:?} apart, and the delay is {delay:?}",
                pair[0].path,
                pair[1].path
            );
            changes += usize::from(pair[0].connection != pair[1].connection);
        }
    }
    changes
}

/// Asserts that a host is not asked for as long as it demanded with `Retry-After`, by any process. Returns the number of
/// demands that were followed by another request.
fn check_demands(log: &[SeenRequest], wait: Duration) -> usize {
    let mut kept = 0;
    for (host, requests) in by_host(log) {
        for pair in requests.windows(2).filter(|pair| pair[0].status == 429) {
            let gap = pair[1].start - pair[0].start;
            assert!(gap >= wait * 9 / 10, "{host}: asked again after {gap:?}; it demanded {wait:?}");
            kept += 1;
        }
    }
    kept
}

/// One crawl during which processes join, are ended, killed and stopped.
fn crawl_with_changing_processes(hosts: &SlowHosts, more: &[&str], delay: Duration) {
    let mut fleet = Fleet::new(RedisCluster::single());
    let portion = hosts.roots.len();
    let mut asked = 2 * portion;
    let mut next = || {
        hosts.wait_for(asked);
        asked += portion;
    };
    let mut first = hosts.spawn(&mut fleet, more);
    next();
    let mut second = hosts.spawn(&mut fleet, more);
    next();
    signal(&first, Signal::TERM);
    assert_eq!(wait(&mut first).code(), Some(143), "{}", fleet.logs());
    let third = hosts.spawn(&mut fleet, more);
    next();
    second.kill().expect("the process is killed");
    wait(&mut second);
    let fourth = hosts.spawn(&mut fleet, more);
    next();
    signal(&third, Signal::STOP);
    // Longer than its lease and the skew that the store tolerates.
    std::thread::sleep(Duration::from_secs(4));
    next();
    signal(&third, Signal::CONT);
    fleet.finish(vec![third, fourth]);
    hosts.check_records(&fleet);
    let log = hosts.web.log();
    assert!(check_gaps(&log, delay) > 0, "no host changed hands:\n{}", fleet.logs());
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_delay_holds_across_processes() {
    let hosts = SlowHosts::serve(8, 8, "User-agent: *\nCrawl-delay: 1.2\n");
    crawl_with_changing_processes(&hosts, &["--max-crawl-delay", "60s"], Duration::from_millis(1_200));
}

#[test]
#[ignore = "needs redis-server"]
fn a_delay_of_eight_seconds_holds_across_processes() {
    let hosts = SlowHosts::serve(8, 6, "");
    crawl_with_changing_processes(&hosts, &["--delay", "8s"], Duration::from_secs(8));
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_delay_of_half_a_minute_holds_across_processes() {
    // The long form waits five minutes; the short one checks the first hand-over.
    let (delay, pages) = if is_long() { (35, 8) } else { (12, 6) };
    let hosts = SlowHosts::serve(6, pages, &format!("User-agent: *\nCrawl-delay: {delay}\n"));
    crawl_with_changing_processes(&hosts, &["--max-crawl-delay", "60s"], Duration::from_secs(delay));
}

#[test]
#[ignore = "needs redis-server"]
fn a_demanded_wait_holds_after_a_kill() {
    const WAIT: Duration = Duration::from_secs(9);
    let mut web = PracticeWeb::new().keep_headers();
    let mut roots = Vec::new();
    for host in 1..=4 {
        let site = Site::http(&format!("127.7.2.{host}:0")).expect("a loopback address");
        let refusal = Response::status(429).header("Retry-After", "9");
        let links = (1..4).map(|page| format!("/{page}"));
        let site = site.sequence("/late", [refusal, Response::html("a page")]);
        let site = site.page("/", Response::links(links.chain(["/late".to_owned()]))).fallback(Response::html("x"));
        roots.push(site.url("/"));
        web = web.site(site);
    }
    let web = web.start().expect("the practice web starts");
    let mut fleet = Fleet::new(RedisCluster::single());
    let arguments: Vec<&str> =
        roots.iter().map(String::as_str).chain(["--max-tries", "3", "--delay", "500ms"]).collect();
    let refused = || web.log().iter().filter(|seen| seen.status == 429).count();
    let wait_refused = |count| {
        let deadline = Instant::now() + TIMEOUT;
        while refused() < count {
            assert!(Instant::now() < deadline, "only {} refusals", refused());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut first = fleet.spawn(&arguments);
    wait_refused(4);
    // Its notes are stored within a round trip. A process that is killed before that may lose one.
    std::thread::sleep(Duration::from_millis(500));
    first.kill().expect("the process is killed");
    wait(&mut first);
    let second = fleet.spawn(&arguments);
    fleet.finish(vec![second]);
    assert_eq!(check_demands(&web.log(), WAIT), 4);
    check_gaps(&web.log(), Duration::from_millis(500));
}

#[test]
#[ignore = "needs redis-server"]
fn a_demanded_wait_holds_after_a_failover_and_a_signal() {
    const WAIT: Duration = Duration::from_secs(14);
    let site = Site::http("0.0.0.0:0").expect("a port");
    // Every host refuses its root once; the pages of a server are told apart by their path.
    let mut site = site.fallback(Response::html("a page"));
    let mut paths = Vec::new();
    for host in 1..=6 {
        let path = format!("/{host}");
        site = site.sequence(&path, [Response::status(429).header("Retry-After", "14"), Response::html("a page")]);
        paths.push((host, path));
    }
    let port = site.address().port();
    let roots: Vec<String> = paths.iter().map(|(host, path)| format!("http://127.7.3.{host}:{port}{path}")).collect();
    let web = PracticeWeb::new().keep_headers().site(site).start().expect("the practice web starts");
    let mut fleet = Fleet::new(RedisCluster::start());
    fleet.lease = 6;
    let arguments: Vec<&str> = roots.iter().map(String::as_str).chain(["--max-tries", "3"]).collect();
    let mut first = fleet.spawn(&arguments);
    assert!(web.wait_requests(12, TIMEOUT), "robots.txt and root of six hosts");
    // The release waits until the notes are stored.
    signal(&first, Signal::TERM);
    assert_eq!(wait(&mut first).code(), Some(143), "{}", fleet.logs());
    let primary = (0..fleet.cluster.len()).find(|index| fleet.cluster.is_primary(*index)).expect("a primary");
    fleet.cluster.kill_node(primary);
    let second = fleet.spawn(&arguments);
    fleet.finish(vec![second]);
    assert_eq!(check_demands(&web.log(), WAIT), 6);
}

#[test]
#[ignore = "needs redis-server"]
fn a_page_is_tried_as_often_as_allowed_by_any_process() {
    let site = Site::http("0.0.0.0:0").expect("a port").fallback(Response::status(503).header("Retry-After", "1"));
    let port = site.address().port();
    let roots: Vec<String> = (1..=12).map(|host| format!("http://127.7.4.{host}:{port}/")).collect();
    let web = PracticeWeb::new().keep_headers().site(site.page("/robots.txt", Response::status(404))).start();
    let web = web.expect("the practice web starts");
    let mut fleet = Fleet::new(RedisCluster::single());
    fleet.retry_wait = "3s";
    let more = ["--max-tries", "2"];
    let arguments: Vec<&str> = roots.iter().map(String::as_str).chain(more).collect();
    let first = fleet.spawn(&arguments);
    assert!(web.wait_requests(24, TIMEOUT), "robots.txt and root of twelve hosts");
    // The second process gets half of the hosts before their second attempt.
    let second = fleet.spawn(&arguments);
    for mut process in [first, second] {
        wait(&mut process);
    }
    let log = web.log();
    for (host, requests) in by_host(&log) {
        let tries = requests.iter().filter(|seen| seen.path == "/").count();
        assert_eq!(tries, 2, "{host}: {tries} tries\n{}", fleet.logs());
    }
}
