//! Tests the pace controller with a catalogue of simulated servers, in virtual time.
//!
//! The width is the number of requests to one host that may be in flight. Every server is crawled with `--pace steady`,
//! where the controller sets the width, and with each fixed width from 1 to 6 (`--pace full --per-host N`). The
//! required results are those of docs/pace.md; `UPDATE_PACE=1` rewrites the table there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::{Job, Purpose};
use argiope_core::crawl::rules::{Config, Pace};
use argiope_core::{LinkKind, LinkList, Time};
use argiope_testkit::sim::{ResolveResult, Sim, SimReply, SimReport, SimResponse, SimWeb};

/// The links of the simulated pages may be followed.
const WITHOUT_NOFOLLOW: bool = false;
const FINGERPRINT_KEY: u64 = 7;

const MAX_WIDTH: usize = 6;

/// A server: maps the page number, the time and the number of requests in flight (including this one) to a response.
type Server = Box<dyn FnMut(u32, Time, usize) -> ServerResponse>;

/// A response: a page after this time, or this status.
enum ServerResponse {
    Page(Duration),
    Refused(u16),
}

/// A host whose index page links to all its other pages.
struct SingleHost {
    paths: Vec<String>,
    server: Server,
    /// The end times of the requests in flight.
    ends: BinaryHeap<Reverse<Time>>,
}

impl SimWeb for SingleHost {
    fn resolve(&mut self, _host: &str, _now: Time) -> (Duration, ResolveResult) {
        (Duration::from_millis(1), Ok((vec![IpAddr::from([93, 184, 216, 34])], Duration::from_secs(86_400))))
    }

    fn reply(&mut self, job: &Job, now: Time) -> SimReply {
        let ip = job.addresses.first().copied();
        if matches!(job.purpose, Purpose::Robots(_)) {
            return SimReply::new(Duration::from_millis(1), ip, SimResponse::Status(404));
        }
        if job.link.url.target() == "/" {
            let mut links = LinkList::default();
            for path in &self.paths {
                links.push(&format!("{}{path}", job.link.url.origin()), LinkKind::Anchor, WITHOUT_NOFOLLOW);
            }
            return SimReply::new(Duration::from_millis(5), ip, SimResponse::Page(links));
        }
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= now) {
            self.ends.pop();
        }
        let number = job.link.url.target().rsplit('/').next().and_then(|last| last.parse().ok()).unwrap_or(0);
        let (after, response) = match (self.server)(number, now, self.ends.len() + 1) {
            ServerResponse::Page(after) => (after, SimResponse::Page(LinkList::default())),
            ServerResponse::Refused(status) => (Duration::from_millis(10), SimResponse::Status(status)),
        };
        self.ends.push(Reverse(now + after));
        SimReply::new(after, ip, response)
    }
}

/// Several hosts at one address, each with a server of its own.
struct SharedAddress(Vec<SingleHost>);

impl SimWeb for SharedAddress {
    fn resolve(&mut self, host: &str, now: Time) -> (Duration, ResolveResult) {
        self.0[0].resolve(host, now)
    }

    fn reply(&mut self, job: &Job, now: Time) -> SimReply {
        let number = if job.link.url.host() == "h.example" { 0 } else { 1 };
        self.0[number].reply(job, now)
    }
}

/// Crawls a server. Checks that every page is fetched in the end, and that no request violates politeness.
fn crawl(paths: Vec<String>, server: Server, pace: Pace, per_host: usize) -> SimReport {
    let count = paths.len();
    let mut config = Config { roots: vec!["http://h.example/".into()], pace, ..Config::default() };
    // Many tries, because a server may refuse a page repeatedly.
    (config.per_host, config.max_tries) = (Some(per_host), 50);
    let rules = Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings"));
    let mut sim = Sim::new(rules, SingleHost { paths, server, ends: BinaryHeap::new() });
    let report = sim.run().expect("a crawl that ends");
    assert_eq!(sim.politeness.violations(), [] as [String; 0]);
    assert_eq!(report.settled.iter().filter(|settled| settled.visit.is_page()).count(), count + 1);
    report
}

/// The time of a crawl.
fn seconds(report: &SimReport) -> f64 {
    (report.last_event - Time::ZERO).as_secs_f64()
}

/// A number between 0 and 1 that depends only on its arguments. Different values of `salt` give independent numbers.
fn noise(number: u32, salt: u32) -> f64 {
    let mut x = u64::from(number) << 32 | u64::from(salt);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A normally distributed number (Box-Muller transform). Its exponential is log-normal.
fn standard_normal(number: u32) -> f64 {
    let (a, b) = (noise(number, 1).max(1e-9), noise(number, 2));
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A server whose response time depends only on the page.
fn latency_per_page(latency: impl Fn(u32) -> f64 + 'static) -> Server {
    Box::new(move |number, _, _| ServerResponse::Page(secs(latency(number))))
}

/// A server with one queue for all workers. Each page occupies one of them for about `service` seconds.
fn queue(workers: usize, service: f64) -> Server {
    // When each worker is free.
    let mut free: BinaryHeap<Reverse<Time>> = (0..workers).map(|_| Reverse(Time::ZERO)).collect();
    Box::new(move |number, now, _| {
        let Reverse(begin) = free.pop().expect("a worker");
        let end = begin.max(now) + secs(service * (0.9 + 0.2 * noise(number, 3)));
        free.push(Reverse(end));
        ServerResponse::Page(end - now + Duration::from_millis(5))
    })
}

/// A server with one queue for all workers, whose pages take log-normally distributed times with a mean of `service`.
fn noisy_queue(workers: usize, service: f64, sigma: f64, seed: u32) -> Server {
    let mut free: BinaryHeap<Reverse<Time>> = (0..workers).map(|_| Reverse(Time::ZERO)).collect();
    Box::new(move |number, now, _| {
        let Reverse(begin) = free.pop().expect("a worker");
        let factor = (sigma * standard_normal(number + seed * 100_003) - sigma * sigma / 2.0).exp();
        let end = begin.max(now) + secs(service * factor);
        free.push(Reverse(end));
        ServerResponse::Page(end - now + Duration::from_millis(1))
    })
}

/// A server with a token bucket, which refuses requests that exceed the rate.
fn rate_limit(rate: f64, burst: f64, latency: f64) -> Server {
    let (mut tokens, mut last) = (burst, Time::ZERO);
    Box::new(move |_, now, _| {
        tokens = (tokens + (now - last).as_secs_f64() * rate).min(burst);
        last = now;
        if tokens < 1.0 {
            return ServerResponse::Refused(429);
        }
        tokens -= 1.0;
        ServerResponse::Page(secs(latency))
    })
}

/// A server that is shared with other clients. These keep `others` requests in its queue during the second minute of
/// the crawl.
fn shared_queue(workers: f64, service: f64, others: f64) -> Server {
    let mut alone = queue(workers as usize, service);
    Box::new(move |number, now, in_flight| {
        if (60.0..120.0).contains(&(now - Time::ZERO).as_secs_f64()) {
            return ServerResponse::Page(secs((others + in_flight as f64) / workers * service));
        }
        alone(number, now, in_flight)
    })
}

fn paths(count: u32, section: impl Fn(u32) -> String) -> Vec<String> {
    (0..count).map(|number| format!("/{}/{number}", section(number))).collect()
}

/// A server of the catalogue.
struct Case {
    name: &'static str,
    /// The longest time that the controller may take, as a multiple of the best fixed width's time.
    max_ratio: f64,
    /// The first part of the path of a page. Pages with the same first part are of one kind (`page_kind` in the core).
    /// The controller compares latencies only within one kind.
    section: fn(u32) -> String,
    server: fn() -> Server,
}

fn cases() -> Vec<Case> {
    let page = |_| "page".to_owned();
    vec![
        Case {
            name: "constant 400 ms, robots.txt without delay",
            max_ratio: 1.15,
            section: page,
            server: || latency_per_page(|n| 0.39 + 0.02 * noise(n, 0)),
        },
        Case {
            name: "static pages 2 ms and dynamic pages 600 ms, mixed",
            max_ratio: 1.25,
            section: |n| if n % 2 == 0 { "static".into() } else { "app".into() },
            server: || latency_per_page(|n| if n % 2 == 0 { 0.002 } else { 0.6 }),
        },
        Case {
            name: "the same pages with paths of one kind",
            max_ratio: 1.25,
            section: page,
            server: || latency_per_page(|n| if noise(n, 0) < 0.5 { 0.002 } else { 0.6 }),
        },
        Case {
            name: "sections with 50 ms, 500 ms and 2 s, mixed",
            max_ratio: 1.25,
            section: |n| ["quick", "middle", "slow"][n as usize % 3].into(),
            server: || latency_per_page(|n| [0.05, 0.5, 2.0][n as usize % 3]),
        },
        Case {
            name: "sections with 50 ms, 500 ms and 2 s, one after the other",
            max_ratio: 1.25,
            section: |n| ["quick", "middle", "slow"][(n as usize * 3 / 1_000).min(2)].into(),
            server: || latency_per_page(|n| [0.05, 0.5, 2.0][(n as usize * 3 / 1_000).min(2)]),
        },
        Case {
            name: "log-normal latencies (median 200 ms, sigma 1)",
            max_ratio: 1.25,
            section: page,
            server: || latency_per_page(|n| 0.2 * standard_normal(n).exp()),
        },
        Case {
            name: "100 ms, the first page of each section 2 s (cold cache)",
            max_ratio: 1.25,
            section: |n| format!("{}", char::from(b'a' + (n / 40 % 26) as u8)),
            server: || latency_per_page(|n| if n % 40 == 0 { 2.0 } else { 0.1 }),
        },
    ]
}

#[test]
fn the_controller_is_close_to_the_best_fixed_width() {
    for case in cases() {
        for count in [60, 1_000] {
            let best = (1..=MAX_WIDTH)
                .map(|width| seconds(&crawl(paths(count, case.section), (case.server)(), Pace::Full, width)))
                .fold(f64::INFINITY, f64::min);
            let steady = seconds(&crawl(paths(count, case.section), (case.server)(), Pace::Steady, MAX_WIDTH));
            // A crawl of 60 pages takes few seconds, so one second more than the best is accepted too.
            let is_close = steady <= best * case.max_ratio || (count == 60 && steady <= best + 1.0);
            assert!(is_close, "{}, {count} pages: {steady:.2} s, the best width takes {best:.2} s", case.name);
        }
    }
}

/// Mean number of requests in flight in each interval of ten seconds. The keys are the numbers of the intervals.
fn widths(report: &SimReport) -> BTreeMap<u64, f64> {
    let mut intervals: BTreeMap<u64, f64> = BTreeMap::new();
    for page in report.fetches.iter().filter(|fetched| fetched.purpose == Purpose::Page) {
        let (start, end) = ((page.start - Time::ZERO).as_secs_f64(), (page.end - Time::ZERO).as_secs_f64());
        for interval in (start / 10.0) as u64..=(end / 10.0) as u64 {
            let begin = interval as f64 * 10.0;
            *intervals.entry(interval).or_default() += (end.min(begin + 10.0) - start.max(begin)) / 10.0;
        }
    }
    intervals
}

fn mean(widths: &BTreeMap<u64, f64>, intervals: std::ops::Range<u64>) -> f64 {
    let values: Vec<f64> = widths.range(intervals).map(|(_, width)| *width).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Pages per second and the proportion of rejected requests, both after the first minute.
fn rate_and_refused_share(report: &SimReport) -> (f64, f64) {
    let is_late = |time: Time| (time - Time::ZERO).as_secs_f64() >= 60.0;
    let starts = report.fetches.iter().filter(|fetched| fetched.purpose == Purpose::Page && is_late(fetched.start));
    let started = starts.count() as f64;
    let settled: Vec<Time> =
        report.settled.iter().map(|settled| settled.visit.facts.ended).filter(|ended| is_late(*ended)).collect();
    let span = seconds(report) - 60.0;
    (settled.len() as f64 / span, 1.0 - settled.len() as f64 / started.max(1.0))
}

#[test]
fn the_width_stays_near_the_number_of_workers_of_a_server() {
    for (workers, service, range) in [(2, 0.2, 2.0..4.0), (2, 0.02, 2.0..4.0), (1, 0.3, 1.0..2.0)] {
        let report = crawl(paths(1_000, |_| "page".into()), queue(workers, service), Pace::Steady, MAX_WIDTH);
        let widths = widths(&report);
        let last = *widths.keys().last().expect("pages");
        let width = mean(&widths, last / 2..last);
        assert!(range.start - 0.3 <= width && width <= range.end + 0.3, "{workers} workers: {width:.1}, {widths:?}");
        let throughput = 1_000.0 / seconds(&report) / (workers as f64 / service);
        assert!(throughput >= 0.9, "{workers} workers: {throughput:.2} of the server's throughput");
    }
}

/// Mean number of requests in flight to a host in the second half of the crawl.
fn late_width(report: &SimReport, host: &str) -> f64 {
    let half = seconds(report) / 2.0;
    let pages = report.fetches.iter().filter(|fetched| fetched.purpose == Purpose::Page && fetched.url.host() == host);
    let busy = pages.map(|page| {
        let (start, end) = ((page.start - Time::ZERO).as_secs_f64(), (page.end - Time::ZERO).as_secs_f64());
        (end - start.max(half)).max(0.0)
    });
    busy.sum::<f64>() / half
}

#[test]
fn a_small_server_gets_few_requests_at_once_even_in_a_short_crawl() {
    const SEEDS: u32 = 5;
    for (workers, sigma) in [(1, 0.0), (1, 0.3), (1, 0.6), (2, 0.0), (2, 0.3), (2, 0.6)] {
        for count in [300, 1_000] {
            let (mut width, mut throughput) = (0.0, 0.0);
            for seed in 0..SEEDS {
                let server = noisy_queue(workers, 0.06, sigma, seed);
                let steady = crawl(paths(count, |_| "page".into()), server, Pace::Steady, MAX_WIDTH);
                let server = noisy_queue(workers, 0.06, sigma, seed);
                let full = crawl(paths(count, |_| "page".into()), server, Pace::Full, MAX_WIDTH);
                width += late_width(&steady, "h.example") / f64::from(SEEDS);
                throughput += seconds(&full) / seconds(&steady) / f64::from(SEEDS);
            }
            let case = format!("{workers} workers, sigma {sigma}, {count} pages");
            assert!(width <= workers as f64 + 2.0, "{case}: {width:.1} requests at once");
            assert!(throughput >= 0.9, "{case}: {throughput:.2} of the throughput");
        }
    }
}

#[test]
fn two_small_servers_at_one_address_get_few_requests_at_once() {
    for workers in [1, 2] {
        let hosts = (0..2).map(|seed| SingleHost {
            paths: paths(300, |_| "page".into()),
            server: noisy_queue(workers, 0.06, 0.3, seed),
            ends: BinaryHeap::new(),
        });
        let roots = vec!["http://h.example/".into(), "http://i.example/".into()];
        let config = Config { roots, ..Config::default() };
        let rules = Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings"));
        let report = Sim::new(rules, SharedAddress(hosts.collect())).run().expect("a crawl that ends");
        for host in ["h.example", "i.example"] {
            let width = late_width(&report, host);
            assert!(width <= workers as f64 + 2.0, "{workers} workers, {host}: {width:.1} requests at once");
        }
    }
}

#[test]
fn a_rate_limited_host_is_crawled_at_its_limit() {
    let limited = |max: usize| -> Server {
        Box::new(
            move |_, _, in_flight| {
                if in_flight <= max { ServerResponse::Page(secs(0.3)) } else { ServerResponse::Refused(503) }
            },
        )
    };
    let servers: [(&str, f64, Server); 5] = [
        ("503 above a width of 4", 4.0 / 0.3, limited(4)),
        ("10 a second, no burst, 50 ms", 10.0, rate_limit(10.0, 1.0, 0.05)),
        ("10 a second, bursts of 10, 50 ms", 10.0, rate_limit(10.0, 10.0, 0.05)),
        ("10 a second, bursts of 2, 300 ms", 10.0, rate_limit(10.0, 2.0, 0.3)),
        ("10 a second, bursts of 10, 400 ms", 10.0, rate_limit(10.0, 10.0, 0.4)),
    ];
    for (name, allowed, server) in servers {
        let report = crawl(paths(3_000, |_| "page".into()), server, Pace::Steady, MAX_WIDTH);
        let (rate, refused) = rate_and_refused_share(&report);
        assert!(rate >= 0.9 * allowed, "{name}: {rate:.1} of {allowed:.1} a second");
        assert!(refused < 0.05, "{name}: {refused:.3} refused");
    }
}

#[test]
fn the_width_recovers_after_a_slow_minute() {
    // The host is slower for a minute, not because of the crawl. The width stays, or recovers within half a minute.
    let slower_server: Server = Box::new(|_, now, _| {
        let is_slow = (60.0..120.0).contains(&(now - Time::ZERO).as_secs_f64());
        ServerResponse::Page(secs(if is_slow { 1.2 } else { 0.4 }))
    });
    let widths_of_slower_server =
        widths(&crawl(paths(2_500, |_| "page".into()), slower_server, Pace::Steady, MAX_WIDTH));
    // From 150 to 160 s: half a minute after the slow minute.
    assert!(mean(&widths_of_slower_server, 15..16) > 5.0, "{widths_of_slower_server:?}");
    // Other clients use the same queue for a minute. The width shrinks, and recovers.
    for (workers, others) in [(2.0, 4.0), (4.0, 12.0)] {
        let server = shared_queue(workers, 0.1, others);
        let widths = widths(&crawl(paths(4_000, |_| "page".into()), server, Pace::Steady, MAX_WIDTH));
        let (before, during, after) = (mean(&widths, 4..6), mean(&widths, 8..12), mean(&widths, 15..18));
        assert!(during < 0.7 * before && during >= 0.9, "{workers} workers: {widths:?}");
        assert!(after > 0.9 * workers.min(before), "{workers} workers: {widths:?}");
    }
}

/// The table in docs/pace.md must agree with the controller.
#[test]
fn the_table_in_the_documentation_is_current() {
    let mut table = String::from(
        "| server | pages | best fixed width | its time | steady | ratio | required |\n|---|---|---|---|---|---|---|\n",
    );
    for case in cases() {
        for count in [60, 1_000] {
            let times = (1..=MAX_WIDTH)
                .map(|width| (width, seconds(&crawl(paths(count, case.section), (case.server)(), Pace::Full, width))));
            let (width, best) = times.min_by(|a, b| a.1.total_cmp(&b.1)).expect("six widths");
            let steady = seconds(&crawl(paths(count, case.section), (case.server)(), Pace::Steady, MAX_WIDTH));
            let required = if count == 60 { "+1 s".to_owned() } else { format!("{:.2}", case.max_ratio) };
            let ratio = steady / best;
            writeln!(
                table,
                "| {} | {count} | {width} | {best:.1} s | {steady:.1} s | {ratio:.2} | {required} |",
                case.name
            )
            .expect("a string");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pace.md");
    let page = std::fs::read_to_string(&path).expect("docs/pace.md");
    let (head, rest) = page.split_once("<!-- pace:begin -->\n").expect("a mark");
    let (_, tail) = rest.split_once("<!-- pace:end -->").expect("a mark");
    let expected = format!("{head}<!-- pace:begin -->\n{table}<!-- pace:end -->{tail}");
    if std::env::var_os("UPDATE_PACE").is_some() {
        std::fs::write(&path, &expected).expect("docs/pace.md can be written");
    }
    let page = std::fs::read_to_string(&path).expect("docs/pace.md");
    assert!(page == expected, "UPDATE_PACE=1 cargo nextest run -p argiope-testkit --test sim_pace writes it anew");
}
