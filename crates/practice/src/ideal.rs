//! Lower bounds for the time of crawling a graph, computed from the latencies of its pages.
//!
//! A crawler has a limit on requests in flight, a limit per host, and a minimum delay between the starts of two
//! requests to a host. If robots.txt is obeyed, it is requested first. There are three lower bounds, and the ideal time
//! is the largest of them:
//!
//! - **depth**: the longest chain of pages that are found through each other, with their latencies and the delays
//!   between requests to one host;
//! - **host**: for every time `t`, the pages of a host that cannot be found before `t` must be fetched after `t`, with
//!   the delays between them, over the allowed connections;
//! - **at once**: as for one host, but with the pages of all hosts, over the allowed requests in flight.
//!
//! The bounds consider every `t`, because otherwise they would be far too low if many pages are found late. CPU time
//! and transfer time are assumed to be zero.
//!
//! Invariant: every bound holds for every schedule and is independent of the crawler.

use crate::graph::{Graph, PageId, PageKind};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

/// The limits of a crawler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrawlerLimits {
    /// Maximum number of requests in flight.
    pub at_once: usize,
    /// Maximum number of requests in flight per host.
    pub per_host: usize,
    /// Minimum time between the starts of two requests to a host.
    pub delay: Duration,
    /// Whether robots.txt is fetched before the pages of a host.
    pub robots: bool,
    /// The timeout of a fetch.
    pub timeout: Duration,
}

/// The lower bounds, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ideal {
    /// The largest of the three bounds, which the module documentation explains.
    pub ideal: f64,
    pub depth: f64,
    pub host: f64,
    pub at_once: f64,
    /// The number of pages that can be found, without those of dead hosts.
    pub pages: u64,
}

/// A fetch: its earliest start and its duration, in seconds.
#[derive(Clone, Copy)]
struct Fetch {
    start: f64,
    duration: f64,
}

impl Graph {
    /// The minimum time for a crawl from the graph's roots that follows links to all hosts.
    pub fn ideal(&self, limits: CrawlerLimits) -> Ideal {
        let by_host = earliest_fetches(self, limits);
        let mut ideal = Ideal::default();
        let mut all = Vec::new();
        for (host, HostFetches { robots, pages }) in by_host {
            let is_dead = self.kind(PageId { host, page: 0 }) == PageKind::Dead;
            ideal.pages += if is_dead { 0 } else { pages.len() as u64 };
            all.extend(robots);
            all.extend(&pages);
            ideal.host = ideal.host.max(lower_bound(pages, limits.delay, |late| late.min_time_on_host(limits)));
        }
        ideal.depth = all.iter().map(|fetch| fetch.start + fetch.duration).fold(0.0, f64::max);
        ideal.at_once = lower_bound(all, Duration::ZERO, |late| late.min_time(limits.at_once));
        ideal.ideal = ideal.depth.max(ideal.host).max(ideal.at_once);
        ideal
    }

    /// The duration of a page's response, to its last byte; the timeout on a dead host.
    fn fetch_duration(&self, id: PageId, limits: CrawlerLimits) -> f64 {
        if self.kind(id) == PageKind::Dead {
            return limits.timeout.as_secs_f64();
        }
        let (bytes, every) = self.plan().drip;
        let drip_time = Duration::from_micros(u64::from(bytes.saturating_sub(1)) * every);
        (self.latency(id) + drip_time).as_secs_f64()
    }
}

/// The fetches of each host.
type ByHost = HashMap<u32, HostFetches>;

/// The fetches of one host.
#[derive(Default)]
struct HostFetches {
    robots: Option<Fetch>,
    pages: Vec<Fetch>,
}

/// The earliest fetch of every page, by Dijkstra's algorithm.
fn earliest_fetches(graph: &Graph, limits: CrawlerLimits) -> ByHost {
    let delay = limits.delay.as_secs_f64();
    let mut by_host = ByHost::new();
    // The time from which pages of a host may be requested: the host is known, and its robots.txt was read.
    let mut open_from: HashMap<u32, f64> = HashMap::new();
    // The earliest start of each page found so far.
    let mut best: HashMap<PageId, f64> = HashMap::new();
    let mut queue = BinaryHeap::new();
    // Adds a page to the queue. A link to it is found at `found`; the delay of its host allows the request at `allowed`.
    let mut offer = |id: PageId, found: f64, allowed: f64, by_host: &mut ByHost, queue: &mut BinaryHeap<_>| {
        let open = *open_from.entry(id.host).or_insert_with(|| {
            let host = by_host.entry(id.host).or_default();
            if !limits.robots {
                return found;
            }
            let robots = Fetch { start: found, duration: graph.fetch_duration(graph.robots_of(id.host), limits) };
            host.robots = Some(robots);
            found + robots.duration
        });
        let start = allowed.max(open);
        let best_start = best.entry(id).or_insert(f64::INFINITY);
        if start < *best_start {
            *best_start = start;
            queue.push(Reverse((Nanos::of(start + graph.fetch_duration(id, limits)), Nanos::of(start), id)));
        }
    };
    for root in graph.roots() {
        offer(root, 0.0, 0.0, &mut by_host, &mut queue);
    }
    let mut settled = std::collections::HashSet::new();
    while let Some(Reverse((end, start, id))) = queue.pop() {
        if !settled.insert(id) {
            continue;
        }
        let (start, end) = (start.seconds(), end.seconds());
        // The crawl waits for the timeout of a dead host's robots.txt, and then requests none of its pages.
        if !(limits.robots && graph.kind(id) == PageKind::Dead) {
            by_host.entry(id.host).or_default().pages.push(Fetch { start, duration: end - start });
        }
        graph.links(id, |target| {
            let allowed = if target.host == id.host { end.max(start + delay) } else { end };
            offer(target, end, allowed, &mut by_host, &mut queue);
        });
    }
    by_host
}

/// Whole nanoseconds, which have a total order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Nanos(u64);

impl Nanos {
    fn of(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9).round() as u64)
    }

    fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// Totals of the fetches that cannot start before a given time.
#[derive(Clone, Copy)]
struct LateFetches {
    count: usize,
    /// The sum of their durations.
    sum: f64,
    /// The sum of the larger of duration and delay.
    spaced_sum: f64,
    /// The shortest duration.
    shortest: f64,
}

impl LateFetches {
    /// The minimum time for them with this number in flight.
    fn min_time(self, in_flight: usize) -> f64 {
        let in_flight = in_flight.max(1);
        (self.sum / in_flight as f64).max(self.count.div_ceil(in_flight) as f64 * self.shortest)
    }

    /// The minimum time for them on one host.
    fn min_time_on_host(self, limits: CrawlerLimits) -> f64 {
        let delay = limits.delay.as_secs_f64();
        // The delays between all starts, and the last response.
        let starts = (self.count - 1) as f64 * delay + self.shortest;
        // One at a time: each start waits for the delay and for the previous response. Only the last fetch is not
        // followed by a delay. The bound is lowest if the shortest fetch is the last.
        let single = if limits.per_host <= 1 { self.spaced_sum - (delay - self.shortest).max(0.0) } else { 0.0 };
        self.min_time(limits.per_host).max(starts).max(single)
    }
}

/// The largest lower bound over all times `t`: `t` plus the minimum time of the fetches that cannot start before `t`.
fn lower_bound(mut fetches: Vec<Fetch>, delay: Duration, min_time: impl Fn(LateFetches) -> f64) -> f64 {
    // From the latest start to the earliest: with each fetch, `t` becomes its start.
    fetches.sort_by(|a, b| b.start.total_cmp(&a.start));
    let mut late = LateFetches { count: 0, sum: 0.0, spaced_sum: 0.0, shortest: f64::INFINITY };
    let mut bound: f64 = 0.0;
    for fetch in fetches {
        late.count += 1;
        late.sum += fetch.duration;
        late.spaced_sum += fetch.duration.max(delay.as_secs_f64());
        late.shortest = late.shortest.min(fetch.duration);
        bound = bound.max(fetch.start + min_time(late));
    }
    bound
}

/// Parses the flags of `argiope-practice ideal`: those of `serve`, and the limits of a crawler.
pub(crate) fn parse(flags: impl IntoIterator<Item = String>) -> Result<(crate::ServeOptions, CrawlerLimits), String> {
    let mut limits = CrawlerLimits {
        at_once: 1,
        per_host: 1,
        delay: Duration::ZERO,
        robots: true,
        timeout: Duration::from_secs(10),
    };
    let mut serve_flags = Vec::new();
    let mut flags = flags.into_iter();
    while let Some(flag) = flags.next() {
        if flag == "--no-robots" {
            limits.robots = false;
            continue;
        }
        if !["--at-once", "--per-host", "--delay-ms", "--patience-ms"].contains(&flag.as_str()) {
            serve_flags.push(flag);
            continue;
        }
        let value = flags.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number: u64 = value.parse().map_err(|_| format!("{flag} {value}: a number is needed"))?;
        match flag.as_str() {
            "--at-once" => limits.at_once = number as usize,
            "--per-host" => limits.per_host = number as usize,
            "--delay-ms" => limits.delay = Duration::from_millis(number),
            _ => limits.timeout = Duration::from_millis(number),
        }
    }
    Ok((crate::ServeOptions::parse(serve_flags)?, limits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphPlan, Shape};

    const TENTH: Duration = Duration::from_millis(100);

    fn limits(at_once: usize, per_host: usize, delay_ms: u64) -> CrawlerLimits {
        let delay = Duration::from_millis(delay_ms);
        CrawlerLimits { at_once, per_host, delay, robots: true, timeout: Duration::from_secs(10) }
    }

    /// Every page takes a tenth of a second.
    fn web(plan: GraphPlan) -> Graph {
        let micros = TENTH.as_micros() as u64;
        Graph::new(GraphPlan { latency_us: (micros, micros), ..plan }, 80, false)
    }

    fn is_close(ideal: f64, expected: f64) -> bool {
        (ideal - expected).abs() < 1e-6
    }

    #[test]
    fn one_at_a_time_takes_the_sum_of_all_latencies() {
        let graph = web(GraphPlan { pages: 5, ..GraphPlan::default() });
        let ideal = graph.ideal(limits(1, 1, 0));
        assert!(is_close(ideal.ideal, 0.6), "robots.txt and five pages: {ideal:?}");
        assert_eq!(ideal.pages, 5);
    }

    #[test]
    fn with_enough_concurrency_the_longest_chain_decides() {
        // robots.txt, the first page, and everything it links to.
        let graph = web(GraphPlan { pages: 5, ..GraphPlan::default() });
        let ideal = graph.ideal(limits(100, 100, 0));
        assert!(is_close(ideal.ideal, 0.3) && is_close(ideal.depth, 0.3), "{ideal:?}");
    }

    #[test]
    fn pages_found_late_are_counted_from_their_discovery() {
        // robots.txt, the first page, 30 archives; then 1,469 posts in fifteen rounds of a hundred.
        let graph = web(GraphPlan { shape: Shape::Blog, pages: 1500, ..GraphPlan::default() });
        let ideal = graph.ideal(limits(100, 100, 0));
        assert!(is_close(ideal.ideal, 1.8), "{ideal:?}");
    }

    #[test]
    fn the_delay_applies_between_starts() {
        let graph = web(GraphPlan { pages: 5, ..GraphPlan::default() });
        // After robots.txt come five starts with a second between them, and the last response.
        let ideal = graph.ideal(limits(10, 1, 1000));
        assert!(is_close(ideal.host, 0.1 + 4.0 + 0.1), "{ideal:?}");
        // A delay shorter than the response has no effect.
        assert!(is_close(graph.ideal(limits(10, 1, 50)).ideal, 0.6));
    }

    #[test]
    fn a_host_found_through_a_link_starts_later() {
        let graph = web(GraphPlan { hosts: 2, root_hosts: 1, pages: 1, ..GraphPlan::default() });
        let ideal = graph.ideal(limits(10, 1, 0));
        assert!(is_close(ideal.depth, 0.4), "robots.txt and page, twice: {ideal:?}");
    }

    #[test]
    fn a_dead_host_takes_one_timeout() {
        // About half of the hosts are dead.
        let graph = web(GraphPlan { hosts: 50, root_hosts: 50, pages: 2, dead: 500, ..GraphPlan::default() });
        let ideal = graph.ideal(limits(100, 1, 0));
        assert!(is_close(ideal.ideal, 10.0), "{ideal:?}");
        assert!(ideal.pages < 100 && ideal.pages.is_multiple_of(2), "{ideal:?}");
    }

    #[test]
    fn dripping_pages_take_longer() {
        let graph = web(GraphPlan { pages: 1, drip: (50, 20_000), ..GraphPlan::default() });
        let ideal = graph.ideal(limits(1, 1, 0));
        assert!(is_close(ideal.ideal, 2.0 * (0.1 + 49.0 * 0.02)), "{ideal:?}");
    }

    #[test]
    fn flags_of_web_and_crawler_are_parsed() {
        let flags = "--hosts 3 --at-once 64 --delay-ms 100 --no-robots --pages 7";
        let (options, limits) = parse(flags.split(' ').map(str::to_owned)).unwrap();
        assert_eq!((options.plan.hosts, options.plan.pages), (3, 7));
        assert_eq!((limits.at_once, limits.per_host, limits.delay, limits.robots), (64, 1, TENTH, false));
        assert!(parse(["--at-once".to_owned()]).is_err());
    }
}
