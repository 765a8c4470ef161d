//! Limits that hold over all processes of a fleet.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use argiope_practice::{PracticeWeb, Response, Site};
use argiope_testkit::redis_cluster::RedisCluster;
use serde_json::Value;

use crate::durable_kit::GraphWeb;
use crate::kit::{Fleet, plan, processes_of_connections};

#[test]
#[ignore = "needs redis-server"]
fn all_processes_together_keep_the_rate() {
    let practice = GraphWeb::serve_with_headers(plan(9, 12, 12));
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.extend(["--rate", "60/s"]);
    let processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&arguments)).collect();
    fleet.finish(processes);
    practice.check(&fleet.records());
    let log = practice.web.log();
    let mut starts: Vec<Duration> =
        log.iter().filter(|seen| !seen.path.starts_with("/robots.txt")).map(|seen| seen.start).collect();
    starts.sort();
    for (index, start) in starts.iter().enumerate() {
        let within = starts[index..].iter().take_while(|other| **other < *start + Duration::from_secs(1)).count();
        // A tenth more than the rate, because the network delays requests by different times.
        assert!(within <= 66, "{within} pages within a second");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn all_processes_together_keep_the_byte_limit() {
    const LIMIT: u64 = 600_000;
    const PAGE: u64 = 10_000;
    const HOSTS: u32 = 10;
    let mut site = Site::http("0.0.0.0:0").expect("a port").robots("");
    let port = site.address().port();
    let paths: Vec<String> = (0..30).map(|number| format!("/{number}")).collect();
    for path in &paths {
        site = site.page(path, Response::filled("<p>", PAGE).delay(Duration::from_millis(10)));
    }
    let web = PracticeWeb::new().site(site.page("/", Response::links(&paths))).start().expect("a server");
    let mut fleet = Fleet::new(RedisCluster::single());
    let roots: Vec<String> = (1..=HOSTS).map(|number| format!("http://127.0.0.{number}:{port}/")).collect();
    let mut arguments: Vec<&str> = roots.iter().map(String::as_str).collect();
    arguments.extend(["--max-bytes", "600k", "--per-host", "1", "--no-sitemap"]);
    let processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&arguments)).collect();
    fleet.finish(processes);
    let received: u64 = fleet.records().iter().filter_map(|record| record["bytes_wire"].as_u64()).sum::<u64>();
    // The last `run` record repeats the sum.
    let received = received / 2;
    // One response of each host may be in flight when the limit is reached.
    let max_received = LIMIT + u64::from(HOSTS) * (PAGE + 1_000);
    assert!((LIMIT..=max_received).contains(&received), "{received} bytes");
    // The whole web would need more than 300 requests.
    assert!(web.requests() < 120, "{} requests", web.requests());
    let report = fleet.run(&["fleet", "status", &fleet.cluster.address(), "--name", "test"]);
    assert!(report.0 && report.1.contains("the limit of bytes is reached"), "{}", report.1);
    let refused = fleet.command(&["--max-disk", "1G"]).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && stderr.contains("--max-bytes"), "{stderr}");
}

#[test]
#[ignore = "needs redis-server"]
fn all_processes_together_keep_the_limit_per_ip_address() {
    let (max_in_flight, records) = in_flight_at_one_address(&["--per-ip", "4", "--max-pages-per-host", "3"]);
    // Two at least: otherwise the test would not show that the limit has an effect.
    assert!((2..=4).contains(&max_in_flight), "{max_in_flight} requests in flight at one address");
    // The root and three links of each host.
    let of_host = |host: &str| {
        let start = format!("http://{host}:");
        let is_page = |record: &&Value| record["type"] == "page";
        records
            .iter()
            .filter(is_page)
            .filter(|record| record["url"].as_str().is_some_and(|url| url.starts_with(&start)))
            .count()
    };
    for number in 0..24 {
        assert_eq!(of_host(&format!("h{number}.test")), 4, "h{number}.test");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn all_processes_together_keep_the_default_limit_per_ip_address() {
    // With `--pace full`, the default limit per address is the concurrency of one process, 32 here. More than four show that
    // the limit of the test above does not apply.
    let (max_in_flight, _) = in_flight_at_one_address(&[]);
    assert!((5..=32).contains(&max_in_flight), "{max_in_flight} requests in flight at one address");
}

/// The most requests in flight at one address when three processes crawl many hosts there, without those that a joining
/// process finds in flight. Also returns the records.
fn in_flight_at_one_address(flags: &[&str]) -> (usize, Vec<Value>) {
    let site = Site::http("127.0.0.1:0").expect("a port");
    let port = site.address().port();
    let hosts: Vec<String> = (0..24).map(|number| format!("h{number}.test")).collect();
    let links: String = (0..6).map(|number| format!("<a href=\"/{number}\">x</a>")).collect();
    let page = Response::html(links).delay(Duration::from_millis(60));
    let web = PracticeWeb::new().keep_headers().site(site.fallback(page)).start().expect("a server");
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<String> = hosts.iter().map(|host| format!("http://{host}:{port}/")).collect();
    for host in &hosts {
        arguments.extend(["--resolve".to_owned(), format!("{host}:{port}:127.0.0.1")]);
    }
    arguments.push("--no-sitemap".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(flags.iter().copied()).collect();
    let processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&arguments)).collect();
    fleet.finish(processes);
    // Robots.txt requests count as well.
    let log = web.log();
    let connections = processes_of_connections(&log);
    let mut joined: BTreeMap<&str, Duration> = BTreeMap::new();
    for seen in &log {
        if let Some(process) = connections.get(&seen.connection) {
            let first = joined.entry(process).or_insert(seen.start);
            *first = seen.start.min(*first);
        }
    }
    assert!(!joined.is_empty(), "no request has the header X-Process");
    // Requests that are in flight when a process sends its first request are completed, even above the new share.
    let in_flight_at = |at: Duration| {
        let last_join = joined.values().copied().filter(|start| *start <= at).max().unwrap_or_default();
        let is_counted = |start: Duration| last_join <= start && start <= at;
        log.iter().filter(|seen| is_counted(seen.start) && seen.end.is_none_or(|end| end > at)).count()
    };
    let max_in_flight = log.iter().map(|seen| in_flight_at(seen.start)).max().unwrap_or(0);
    let records = fleet.records();
    (max_in_flight, records)
}
