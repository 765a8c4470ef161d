//! [`SlowWeb`]: the web of the comparison, and a lower bound for crawling it.
//!
//! Invariant: the bound depends only on the servers' delays, not on engines, machines or schedulers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argiope_practice::{Graph, GraphPlan, PageId, ServerProcess, spawn_child};

/// A web of slow hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SlowWeb {
    pub hosts: u32,
    /// Pages per host.
    pub pages: u32,
    /// The range of response times.
    pub latency: (Duration, Duration),
    pub tls: bool,
}

/// A server process and the files that a crawl of it needs.
pub struct ServedWeb {
    pub server: ServerProcess,
    /// A file of roots, one per line.
    pub roots: PathBuf,
    /// A file with the certificate authority; `None` without TLS.
    pub ca: Option<PathBuf>,
    /// The temporary folder with both files.
    folder: PathBuf,
}

impl Drop for ServedWeb {
    fn drop(&mut self) {
        // An error is ignored, because leftovers in the temporary folder are harmless.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl SlowWeb {
    fn plan(&self) -> GraphPlan {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        GraphPlan {
            hosts: self.hosts,
            root_hosts: self.hosts,
            pages: self.pages,
            latency_us: (micros(self.latency.0), micros(self.latency.1)),
            ..GraphPlan::default()
        }
    }

    /// Starts a server.
    pub fn serve(&self, program: &Path) -> io::Result<ServedWeb> {
        let text = |number: u32| number.to_string();
        let millis = |duration: Duration| format!("{:.3}", duration.as_secs_f64() * 1e3);
        let latency = format!("{}-{}", millis(self.latency.0), millis(self.latency.1));
        let flags = [
            ("--hosts", text(self.hosts)),
            ("--seeds", text(self.hosts)),
            ("--pages", text(self.pages)),
            ("--latency-ms", latency),
        ];
        serve(program, &flags, self.tls)
    }

    /// The number of requests of a crawl, including those for robots.txt.
    pub fn requests(&self) -> u64 {
        u64::from(self.hosts) * (u64::from(self.pages) + 1)
    }

    /// A lower bound for the crawl time with `at_once` requests in flight and `per_host` per host. On each host,
    /// robots.txt is fetched first, then the first page, then the pages that it leads to. The result is the larger of
    /// two bounds:
    ///
    /// - the slowest host: the delay of robots.txt, plus the larger of two times: the delays along the longest chain of
    ///   links, and the delays of all pages divided by `per_host`;
    /// - all hosts: the sum of all delays divided by `at_once`.
    pub fn ideal(&self, at_once: usize, per_host: usize) -> Duration {
        // No page is requested, so the port is irrelevant.
        let graph = Graph::new(self.plan(), 80, self.tls);
        let mut longest = Duration::ZERO;
        let mut sum = Duration::ZERO;
        for host in 0..self.hosts {
            let robots = graph.latency(graph.robots_of(host));
            let pages: Duration = (0..self.pages).map(|page| graph.latency(PageId { host, page })).sum();
            let chain = longest_chain(&graph, host, self.pages);
            longest = longest.max(robots + chain.max(pages.div_f64(per_host.max(1) as f64)));
            sum += robots + pages;
        }
        longest.max(sum.div_f64(at_once.max(1) as f64))
    }

    /// The time of a crawler without any cost of its own that keeps every slot in use, but cannot know a delay before the
    /// response. Its last responses arrive while most slots are empty, because no request is left. No crawler can avoid
    /// this, so the ideal is out of reach for all of them. Hosts with the most known pages go first.
    pub fn greedy(&self, at_once: usize, per_host: usize) -> Duration {
        // No page is requested, so the port is irrelevant.
        let graph = Graph::new(self.plan(), 80, self.tls);
        let mut hosts: Vec<GreedyHost> = (0..self.hosts).map(|_| GreedyHost::default()).collect();
        // New hosts go before all others; after robots.txt, the first page follows at once.
        let mut ready: BinaryHeap<(usize, Reverse<u32>)> =
            (0..self.hosts).map(|host| (usize::MAX - 1, Reverse(host))).collect();
        let mut responses: BinaryHeap<Reverse<(Duration, u32, u32)>> = BinaryHeap::new();
        let mut now = Duration::ZERO;
        loop {
            while responses.len() < at_once.max(1) {
                let Some((_, Reverse(host))) = ready.pop() else { break };
                let Some(state) = hosts.get_mut(host as usize) else { break };
                let page = state.queue.pop_front().unwrap_or(graph.robots_of(host).page);
                state.in_flight += 1;
                responses.push(Reverse((now + graph.latency(PageId { host, page }), host, page)));
                if state.may_start(per_host) {
                    ready.push((state.queue.len(), Reverse(host)));
                }
            }
            let Some(Reverse((time, host, page))) = responses.pop() else { return now };
            now = time;
            let Some(state) = hosts.get_mut(host as usize) else { return now };
            let was_waiting = state.may_start(per_host);
            state.in_flight -= 1;
            let is_robots = page == graph.robots_of(host).page;
            if is_robots {
                state.find(0);
            } else if state.known.len() < self.pages as usize {
                graph.links(PageId { host, page }, |target| {
                    if target.host == host {
                        state.find(target.page);
                    }
                });
            }
            if !was_waiting && state.may_start(per_host) {
                let rank = if is_robots { usize::MAX } else { state.queue.len() };
                ready.push((rank, Reverse(host)));
            }
        }
    }

    /// A lower bound for the crawl time with one request at a time.
    pub fn one_by_one(&self) -> Duration {
        self.ideal(1, 1)
    }
}

/// What the crawler of [`SlowWeb::greedy`] knows of a host.
#[derive(Default)]
struct GreedyHost {
    known: HashSet<u32>,
    queue: VecDeque<u32>,
    in_flight: usize,
}

impl GreedyHost {
    fn find(&mut self, page: u32) {
        if self.known.insert(page) {
            self.queue.push_back(page);
        }
    }

    /// Whether a request for a known page may start.
    fn may_start(&self, per_host: usize) -> bool {
        !self.queue.is_empty() && self.in_flight < per_host.max(1)
    }
}

/// The earliest time at which the last page can be complete, counted from the request for the first page. A page is
/// found by the first complete page that links to it, so this is Dijkstra's algorithm.
fn longest_chain(graph: &Graph, host: u32, pages: u32) -> Duration {
    let mut latest = Duration::ZERO;
    let mut known = HashSet::from([0]);
    let mut queue = BinaryHeap::from([Reverse((graph.latency(PageId { host, page: 0 }), 0))]);
    while let Some(Reverse((finished_at, page))) = queue.pop() {
        latest = latest.max(finished_at);
        if known.len() < pages as usize {
            graph.links(PageId { host, page }, |target| {
                if target.host == host && known.insert(target.page) {
                    queue.push(Reverse((finished_at + graph.latency(target), target.page)));
                }
            });
        }
    }
    latest
}

/// Starts a server whose hosts respond only to requests for robots.txt and their first page. All other requests wait for
/// the command `release`.
pub fn serve_silent_hosts(program: &Path, hosts: u32, pages: u32, tls: bool) -> io::Result<ServedWeb> {
    serve(
        program,
        &[("--family", "silent".to_owned()), ("--hosts", hosts.to_string()), ("--pages", pages.to_string())],
        tls,
    )
}

fn serve(program: &Path, flags: &[(&str, String)], tls: bool) -> io::Result<ServedWeb> {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("argiope-exhibition-{}-{count}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (roots, ca) = (folder.join("roots.txt"), folder.join("ca.pem"));
    let mut args = vec![super::child::SERVER.to_owned(), "serve".to_owned()];
    args.extend(flags.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]));
    args.extend(["--roots-out".to_owned(), roots.display().to_string()]);
    if tls {
        args.extend(["--tls", "good", "--ca-out"].map(str::to_owned));
        args.push(ca.display().to_string());
    }
    let server = spawn_child(program, args)?;
    Ok(ServedWeb { server, roots, ca: tls.then_some(ca), folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web(hosts: u32, pages: u32) -> SlowWeb {
        let latency = Duration::from_millis(100);
        SlowWeb { hosts, pages, latency: (latency, latency), tls: false }
    }

    #[test]
    fn with_enough_concurrency_the_slowest_host_decides() {
        // robots.txt and five pages in sequence.
        assert_eq!(web(50, 5).ideal(50, 1), Duration::from_millis(600));
        // With more connections the chain of links decides: robots.txt, the first page, the pages it links to.
        assert_eq!(web(50, 5).ideal(500, 6), Duration::from_millis(300));
    }

    #[test]
    fn with_little_concurrency_the_sum_of_all_delays_decides() {
        assert_eq!(web(50, 5).ideal(10, 1), Duration::from_secs(3));
        assert_eq!(web(50, 5).one_by_one(), Duration::from_secs(30));
        assert_eq!(web(50, 5).requests(), 300);
    }

    #[test]
    fn with_equal_delays_a_greedy_crawler_takes_the_ideal_time() {
        for (at_once, per_host) in [(1, 1), (10, 1), (50, 1), (500, 6)] {
            assert_eq!(web(50, 5).greedy(at_once, per_host), web(50, 5).ideal(at_once, per_host), "{at_once} at once");
        }
    }

    #[test]
    fn with_unknown_delays_the_last_responses_take_longer() {
        let latency = (Duration::from_secs(1), Duration::from_secs(3));
        let web = SlowWeb { hosts: 2_000, pages: 3, latency, tls: false };
        let (ideal, greedy) = (web.ideal(1_000, 1).as_secs_f64(), web.greedy(1_000, 1).as_secs_f64());
        // The last request starts when nothing else is left, and takes up to three seconds. On average, the others in
        // flight need about one more second then.
        assert!((1.7..2.1).contains(&(greedy - ideal)), "{greedy} s instead of {ideal} s");
    }
}
