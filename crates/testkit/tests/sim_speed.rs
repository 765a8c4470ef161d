//! Measures how close the scheduler comes to the optimum that politeness allows, and how large a web it can handle.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::Time;
use argiope_core::base::job::Purpose;
use argiope_core::crawl::rules::{Config, Pace, ScopeKind, Size, Span};
use argiope_core::crawl::schedule::keeper::End;
use argiope_testkit::sim::broad::BroadWeb;
use argiope_testkit::sim::{Sim, SimReport};

const FINGERPRINT_KEY: u64 = 3;

/// The full size if `ARGIOPE_LONG` is set, otherwise a fraction of it.
fn size(full: usize, divisor: usize) -> usize {
    if std::env::var_os("ARGIOPE_LONG").is_some() { full } else { full / divisor }
}

/// Crawls a web; returns the report and eta, the ideal time divided by the time that the crawl took.
fn crawl(web: &BroadWeb, config: Config) -> (SimReport, f64) {
    let (delay, concurrency) = (config.delay.0, config.concurrency);
    let config = Config { roots: web.roots(), scope: ScopeKind::Any, ..config };
    let rules = Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings"));
    let mut sim = Sim::new(rules, web.clone());
    let report = sim.run().expect("a crawl that ends");
    assert_eq!(sim.politeness.violations(), [] as [String; 0]);
    assert_eq!((report.end, report.counts.settled), (End::Finished, web.total()));
    let ideal = web.ideal(delay, concurrency);
    let eta = ideal.as_secs_f64() / (report.ended - Time::ZERO).as_secs_f64();
    (report, eta)
}

/// Prints the figures of a crawl. They are visible if the test runs with its output shown.
#[expect(clippy::print_stderr, reason = "the figures are for people who run this test")]
fn print_figures(what: &str, report: &SimReport, eta: f64) {
    eprintln!("{what}: {:?} of virtual time, eta {eta:.4}, {} orders", report.ended - Time::ZERO, report.orders);
}

/// Hosts of very different sizes, half of them found late, with few slots.
#[test]
fn a_polite_crawl_of_unequal_hosts_is_close_to_the_ideal() {
    let web = BroadWeb {
        seed: 7,
        sizes: BroadWeb::zipf(1_000, 50_000, 1.1),
        latency: (Duration::from_millis(20), Duration::from_millis(200)),
        found_late: 50,
        dns: Duration::from_millis(20),
        crawl_delay: (0, Duration::ZERO),
    };
    let config = Config { concurrency: 64, per_host: Some(1), delay: Span::from_millis(100), ..Config::default() };
    let (report, eta) = crawl(&web, config);
    print_figures("1,000 unequal hosts, 64 in flight", &report, eta);
    assert!(eta >= 0.95, "eta {eta}");
}

/// The Crawl-delay of some hosts is longer than the delay of the settings.
#[test]
fn hosts_with_a_crawl_delay_do_not_delay_the_others() {
    let web = BroadWeb {
        seed: 11,
        sizes: BroadWeb::zipf(1_000, 20_000, 0.6),
        latency: (Duration::from_millis(20), Duration::from_millis(200)),
        found_late: 50,
        dns: Duration::from_millis(20),
        crawl_delay: (20, Duration::from_millis(500)),
    };
    let config = Config { concurrency: 64, per_host: Some(1), delay: Span::from_millis(100), ..Config::default() };
    let (report, eta) = crawl(&web, config);
    print_figures("1,000 hosts, 20 with Crawl-delay, 64 in flight", &report, eta);
    assert!(eta >= 0.95, "eta {eta}");
}

/// With few slots the order of hosts matters: if the longest queues do not come first, the crawl waits for them at the
/// end. The ideal time assumes that the sizes of all hosts are known in advance; a crawl must discover them.
#[test]
fn with_few_slots_the_longest_queues_go_first() {
    let web = BroadWeb {
        seed: 13,
        sizes: BroadWeb::zipf(1_000, 20_000, 0.6),
        latency: (Duration::from_millis(20), Duration::from_millis(200)),
        found_late: 0,
        dns: Duration::from_millis(20),
        crawl_delay: (0, Duration::ZERO),
    };
    for concurrency in [8, 16, 20, 24, 32] {
        let config = Config { concurrency, per_host: Some(1), delay: Span::from_millis(100), ..Config::default() };
        let (report, eta) = crawl(&web, config);
        print_figures(&format!("1,000 hosts, {concurrency} in flight"), &report, eta);
        assert!(eta >= 0.95, "eta {eta}");
    }
}

/// Ten thousand hosts at full size.
#[test]
fn many_slow_hosts_are_crawled_in_near_ideal_time() {
    let hosts = size(10_000, 10);
    let web = BroadWeb {
        seed: 5,
        sizes: vec![5; hosts],
        latency: (Duration::from_secs(1), Duration::from_secs(3)),
        found_late: 0,
        dns: Duration::from_millis(20),
        crawl_delay: (0, Duration::ZERO),
    };
    let config = Config { concurrency: hosts, per_host: Some(1), pace: Pace::Full, ..Config::default() };
    let (report, eta) = crawl(&web, config);
    print_figures("slow hosts, all of them in flight", &report, eta);
    assert!(eta >= 0.95, "eta {eta}");
}

/// A hundred thousand hosts and a million pages, at full size.
#[test]
fn a_broad_crawl_of_very_many_hosts_ends_after_few_orders() {
    let hosts = size(100_000, 50);
    let web = BroadWeb {
        seed: 9,
        sizes: BroadWeb::zipf(hosts, 10 * hosts as u64, 0.5),
        latency: (Duration::from_millis(50), Duration::from_millis(500)),
        found_late: 80,
        dns: Duration::from_millis(20),
        crawl_delay: (0, Duration::ZERO),
    };
    let started = std::time::Instant::now();
    let config = Config { concurrency: 5_000, delay: Span::from_millis(500), ..Config::default() };
    let (report, eta) = crawl(&web, config);
    print_figures(&format!("{hosts} hosts, {} pages in {:?}", web.total(), started.elapsed()), &report, eta);
    assert!(report.orders < 12 * web.total(), "{} orders for {} pages", report.orders, web.total());
}

/// There are more hosts than the memory limit allows lanes. Hosts wait in the frontier, and all slots stay in use.
#[test]
fn hosts_beyond_the_limit_of_lanes_wait_in_the_frontier() {
    let web = BroadWeb {
        seed: 17,
        sizes: vec![2; 12_000],
        latency: (Duration::from_millis(100), Duration::from_millis(300)),
        found_late: 50,
        dns: Duration::from_millis(20),
        crawl_delay: (0, Duration::ZERO),
    };
    let config = Config {
        concurrency: 256,
        delay: Span::from_millis(500),
        max_memory: Some(Size(64 << 20)),
        ..Config::default()
    };
    let (report, eta) = crawl(&web, config);
    print_figures("12,000 hosts, room for 4,096 lanes", &report, eta);
    assert!(eta >= 0.9, "eta {eta}");
}

/// The first page of a host is fetched directly after its robots.txt, while the connection is open, not after all other
/// robots.txt files.
#[test]
fn a_page_is_fetched_right_after_its_robots_txt() {
    let web = BroadWeb {
        seed: 19,
        sizes: vec![3; 500],
        latency: (Duration::from_millis(100), Duration::from_millis(300)),
        found_late: 0,
        dns: Duration::from_millis(20),
        crawl_delay: (0, Duration::ZERO),
    };
    let (report, _) = crawl(&web, Config { concurrency: 16, ..Config::default() });
    let mut robots_ended = std::collections::HashMap::new();
    let mut waits = Vec::new();
    for fetch in &report.fetches {
        if fetch.purpose != Purpose::Page {
            robots_ended.insert(fetch.url.host().to_owned(), fetch.end);
        } else if let Some(ended) = robots_ended.remove(fetch.url.host()) {
            waits.push(fetch.start - ended);
        }
    }
    // A few hosts wait for a short time, because slots are reserved for hosts that are known to be fast.
    let longest = waits.iter().max().copied().unwrap_or_default();
    let at_once = waits.iter().filter(|wait| wait.is_zero()).count();
    assert_eq!(waits.len(), 500);
    assert!(at_once > 450 && longest < Duration::from_millis(50), "{at_once} at once, the longest after {longest:?}");
}
