//! Lower bounds for the time of crawling a graph, from the servers' delays alone.
//!
//! A crawler has a limit on requests in flight, a limit per host, and a minimum delay between the starts of two
//! requests to a host. robots.txt is requested first if it is obeyed. There are three lower bounds, and the ideal time
//! is the largest of them:
//!
//! - **depth**: the longest chain of discoveries, including each page's delay and the waits that it forces on the next;
//! - **host**: for every time `t`, the pages of a host that cannot be known before `t` must be fetched after `t`, with
//!   the delays between them, over the allowed connections;
//! - **at once**: as for one host, but with the pages of all hosts, over the allowed requests in flight.
//!
//! Considering every `t` makes the bounds tight if many pages are found late. CPU time and bandwidth are assumed to be
//! free.
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
    /// Requests in flight.
    pub at_once: usize,
    /// Requests in flight per host.
    pub per_host: usize,
    /// Minimum time between the starts of two requests to a host.
    pub delay: Duration,
    /// Whether robots.txt comes first.
    pub robots: bool,
    /// The timeout of a fetch.
    pub patience: Duration,
}

/// The bounds, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ideal {
    pub ideal: f64,
    pub depth: f64,
    pub host: f64,
    pub at_once: f64,
    /// Pages that can be found, without those of dead hosts.
    pub pages: u64,
}

/// A fetch: its earliest start and its duration, in seconds.
#[derive(Clone, Copy)]
struct Fetch {
    start: f64,
    takes: f64,
}

impl Graph {
    /// The minimum time for a crawl from the graph's roots that follows links to all hosts.
    pub fn ideal(&self, may: CrawlerLimits) -> Ideal {
        let by_host = earliest(self, may);
        let mut ideal = Ideal::default();
        let mut all = Vec::new();
        for (host, (robots, fetches)) in by_host {
            let dead = self.kind(PageId { host, page: 0 }) == PageKind::Dead;
            ideal.pages += if dead { 0 } else { fetches.len() as u64 };
            all.extend(robots);
            all.extend(&fetches);
            ideal.host = ideal.host.max(rest_takes(fetches, may.delay, |rest| rest.on_host(may)));
        }
        ideal.depth = all.iter().map(|fetch| fetch.start + fetch.takes).fold(0.0, f64::max);
        ideal.at_once = rest_takes(all, Duration::ZERO, |rest| rest.over(may.at_once));
        ideal.ideal = ideal.depth.max(ideal.host).max(ideal.at_once);
        ideal
    }

    /// The duration of a page's response, to its last byte.
    fn takes(&self, id: PageId, may: CrawlerLimits) -> f64 {
        if self.kind(id) == PageKind::Dead {
            return may.patience.as_secs_f64();
        }
        let (bytes, every) = self.plan().drip;
        let drips = Duration::from_micros(u64::from(bytes.saturating_sub(1)) * every);
        (self.latency(id) + drips).as_secs_f64()
    }
}

/// For every host, the fetch of its robots.txt and those of its pages.
type ByHost = HashMap<u32, (Option<Fetch>, Vec<Fetch>)>;

/// The earliest request time of every page: Dijkstra's algorithm.
fn earliest(graph: &Graph, may: CrawlerLimits) -> ByHost {
    let delay = may.delay.as_secs_f64();
    let mut by_host = ByHost::new();
    // The time from which pages of a host may be requested: the host is known, and its robots.txt was read.
    // In `offer`, the page is first linked to at `named`, and the politeness delay allows it from `after` on.
    let mut open_from: HashMap<u32, f64> = HashMap::new();
    let mut best: HashMap<PageId, f64> = HashMap::new();
    let mut queue = BinaryHeap::new();
    let mut offer = |id: PageId, named: f64, after: f64, by_host: &mut ByHost, queue: &mut BinaryHeap<_>| {
        let open = *open_from.entry(id.host).or_insert_with(|| {
            let host = by_host.entry(id.host).or_default();
            if !may.robots {
                return named;
            }
            let robots = Fetch { start: named, takes: graph.takes(graph.robots_of(id.host), may) };
            host.0 = Some(robots);
            named + robots.takes
        });
        let start = after.max(open);
        let known = best.entry(id).or_insert(f64::INFINITY);
        if start < *known {
            *known = start;
            queue.push(Reverse((Nanos::of(start + graph.takes(id, may)), Nanos::of(start), id)));
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
        // A crawl waits for a dead host's robots.txt as long as for a page; after that it requests nothing more.
        if !(may.robots && graph.kind(id) == PageKind::Dead) {
            by_host.entry(id.host).or_default().1.push(Fetch { start, takes: end - start });
        }
        graph.links(id, |target| {
            let after = if target.host == id.host { end.max(start + delay) } else { end };
            offer(target, end, after, &mut by_host, &mut queue);
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
struct Rest {
    count: usize,
    /// The sum of their durations.
    sum: f64,
    /// The sum of the larger of duration and delay.
    held_back: f64,
    /// The shortest duration.
    least: f64,
}

impl Rest {
    /// The minimum time for them with this number in flight.
    fn over(self, lanes: usize) -> f64 {
        let lanes = lanes.max(1);
        (self.sum / lanes as f64).max(self.count.div_ceil(lanes) as f64 * self.least)
    }

    /// The minimum time for them on one host.
    fn on_host(self, may: CrawlerLimits) -> f64 {
        let delay = may.delay.as_secs_f64();
        let starts = (self.count - 1) as f64 * delay + self.least;
        // One at a time: each start waits for the delay and for the previous response. No start follows the last one.
        let single = if may.per_host <= 1 { self.held_back - (delay - self.least).max(0.0) } else { 0.0 };
        self.over(may.per_host).max(starts).max(single)
    }
}

/// The largest lower bound over all times `t`: `t` plus the minimum time of the fetches that cannot start before `t`.
fn rest_takes(mut fetches: Vec<Fetch>, delay: Duration, least_time: impl Fn(Rest) -> f64) -> f64 {
    fetches.sort_by(|a, b| b.start.total_cmp(&a.start));
    let mut rest = Rest { count: 0, sum: 0.0, held_back: 0.0, least: f64::INFINITY };
    let mut latest: f64 = 0.0;
    for fetch in fetches {
        rest.count += 1;
        rest.sum += fetch.takes;
        rest.held_back += fetch.takes.max(delay.as_secs_f64());
        rest.least = rest.least.min(fetch.takes);
        latest = latest.max(fetch.start + least_time(rest));
    }
    latest
}

/// Parses the flags of `argiope-practice ideal`: those of `serve`, and the limits of a crawler.
pub(crate) fn parse(flags: impl IntoIterator<Item = String>) -> Result<(crate::ServeOptions, CrawlerLimits), String> {
    let mut may = CrawlerLimits {
        at_once: 1,
        per_host: 1,
        delay: Duration::ZERO,
        robots: true,
        patience: Duration::from_secs(10),
    };
    let mut web = Vec::new();
    let mut flags = flags.into_iter();
    while let Some(flag) = flags.next() {
        if flag == "--no-robots" {
            may.robots = false;
            continue;
        }
        if !["--at-once", "--per-host", "--delay-ms", "--patience-ms"].contains(&flag.as_str()) {
            web.push(flag);
            continue;
        }
        let value = flags.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number: u64 = value.parse().map_err(|_| format!("{flag} {value}: a number is needed"))?;
        match flag.as_str() {
            "--at-once" => may.at_once = number as usize,
            "--per-host" => may.per_host = number as usize,
            "--delay-ms" => may.delay = Duration::from_millis(number),
            _ => may.patience = Duration::from_millis(number),
        }
    }
    Ok((crate::ServeOptions::parse(web)?, may))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphPlan, Shape};

    const TENTH: Duration = Duration::from_millis(100);

    fn may(at_once: usize, per_host: usize, delay_ms: u64) -> CrawlerLimits {
        let delay = Duration::from_millis(delay_ms);
        CrawlerLimits { at_once, per_host, delay, robots: true, patience: Duration::from_secs(10) }
    }

    /// Every page takes a tenth of a second.
    fn web(plan: GraphPlan) -> Graph {
        let micros = TENTH.as_micros() as u64;
        Graph::new(GraphPlan { latency_us: (micros, micros), ..plan }, 80, false)
    }

    fn close(ideal: f64, wanted: f64) -> bool {
        (ideal - wanted).abs() < 1e-6
    }

    #[test]
    fn one_at_a_time_takes_the_sum_of_all_delays() {
        let graph = web(GraphPlan { pages: 5, ..GraphPlan::default() });
        let ideal = graph.ideal(may(1, 1, 0));
        assert!(close(ideal.ideal, 0.6), "robots.txt and five pages: {ideal:?}");
        assert_eq!(ideal.pages, 5);
    }

    #[test]
    fn with_enough_concurrency_the_longest_chain_decides() {
        // robots.txt, the first page, and everything it links to.
        let graph = web(GraphPlan { pages: 5, ..GraphPlan::default() });
        let ideal = graph.ideal(may(100, 100, 0));
        assert!(close(ideal.ideal, 0.3) && close(ideal.depth, 0.3), "{ideal:?}");
    }

    #[test]
    fn pages_found_late_are_counted_from_their_discovery() {
        // robots.txt, the first page, 30 archives; then 1,469 posts in fifteen rounds of a hundred.
        let graph = web(GraphPlan { shape: Shape::Blog, pages: 1500, ..GraphPlan::default() });
        let ideal = graph.ideal(may(100, 100, 0));
        assert!(close(ideal.ideal, 1.8), "{ideal:?}");
    }

    #[test]
    fn pauses_count_between_starts() {
        let graph = web(GraphPlan { pages: 5, ..GraphPlan::default() });
        // After robots.txt five starts with pauses of a second, and the last response.
        let ideal = graph.ideal(may(10, 1, 1000));
        assert!(close(ideal.host, 0.1 + 4.0 + 0.1), "{ideal:?}");
        // A pause shorter than the response has no effect.
        assert!(close(graph.ideal(may(10, 1, 50)).ideal, 0.6));
    }

    #[test]
    fn hosts_found_on_the_way_start_later() {
        let graph = web(GraphPlan { hosts: 2, seeds: 1, pages: 1, ..GraphPlan::default() });
        let ideal = graph.ideal(may(10, 1, 0));
        assert!(close(ideal.depth, 0.4), "robots.txt and page, twice: {ideal:?}");
    }

    #[test]
    fn a_dead_host_takes_one_timeout() {
        let graph = web(GraphPlan { hosts: 50, seeds: 50, pages: 2, dead: 500, ..GraphPlan::default() });
        let ideal = graph.ideal(may(100, 1, 0));
        assert!(close(ideal.ideal, 10.0), "{ideal:?}");
        assert!(ideal.pages < 100 && ideal.pages.is_multiple_of(2), "{ideal:?}");
    }

    #[test]
    fn dripping_pages_take_longer() {
        let graph = web(GraphPlan { pages: 1, drip: (50, 20_000), ..GraphPlan::default() });
        let ideal = graph.ideal(may(1, 1, 0));
        assert!(close(ideal.ideal, 2.0 * (0.1 + 49.0 * 0.02)), "{ideal:?}");
    }

    #[test]
    fn flags_of_both_kinds_are_read() {
        let words = "--hosts 3 --at-once 64 --delay-ms 100 --no-robots --pages 7";
        let (order, may) = parse(words.split(' ').map(str::to_owned)).unwrap();
        assert_eq!((order.plan.hosts, order.plan.pages), (3, 7));
        assert_eq!((may.at_once, may.per_host, may.delay, may.robots), (64, 1, TENTH, false));
        assert!(parse(["--at-once".to_owned()]).is_err());
    }
}
