//! The memory per fetch in flight: peak memory with n fetches minus that with n/2, divided by n/2.
//!
//! All hosts accept requests, but respond only after a command. The figure includes the URL, its entries in frontier and
//! workbench, the connection, and what the engine needs to wait for it. It excludes the fixed cost of the program.
//!
//! Invariant: memory is read only after the servers have reported the expected number of waiting requests.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use argiope_core::crawl::rules::EngineName;
use serde::Serialize;

use super::child::{CrawlTask, CrawlerProcess};
use super::proc::{self, ProcStatus};
use super::web::{self, ServedWeb};

/// Maximum number of hosts per server. The number of connections to a host is not limited.
const MAX_HOSTS: u32 = 100;
/// Maximum number of fetches per server process. Each connection is a file descriptor, and these are limited per
/// process.
const MAX_FETCHES_PER_SERVER: usize = 18_000;
/// Time limit until all fetches wait.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Added to the time limit for each additional server.
const TIMEOUT_PER_SERVER: Duration = Duration::from_secs(30);
/// Interval of polling the server for the number of waiting requests.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The peak memory of one engine with two different numbers of fetches in flight: (fetches, bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemorySlope {
    pub few: (usize, u64),
    pub many: (usize, u64),
    /// Number of threads with the larger number of fetches.
    pub threads: u64,
}

impl MemorySlope {
    /// Bytes per additional fetch in flight.
    pub fn bytes(&self) -> u64 {
        let ((few, few_bytes), (many, many_bytes)) = (self.few, self.many);
        many_bytes.saturating_sub(few_bytes) / many.saturating_sub(few).max(1) as u64
    }
}

/// Several measurements of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryMeasurement {
    /// The median.
    pub median: MemorySlope,
    /// The smallest result, in bytes per fetch.
    pub least: u64,
    /// The largest result, in bytes per fetch.
    pub most: u64,
}

impl MemoryMeasurement {
    /// `None` if there is no measurement.
    fn of(mut slopes: Vec<MemorySlope>) -> Option<Self> {
        slopes.sort_by_key(MemorySlope::bytes);
        let (least, most) = (slopes.first()?.bytes(), slopes.last()?.bytes());
        Some(Self { median: *slopes.get(slopes.len() / 2)?, least, most })
    }
}

/// Measures several times, because the peak contains a varying amount of transient data.
pub fn measure(
    program: &Path,
    engine: EngineName,
    count: usize,
    tls: bool,
    runs: usize,
) -> io::Result<MemoryMeasurement> {
    let slopes: io::Result<Vec<_>> = (0..runs.max(1)).map(|_| slope(program, engine, count, tls)).collect();
    MemoryMeasurement::of(slopes?).ok_or_else(|| io::Error::other("nothing was measured"))
}

/// Measures an engine with `count` fetches in flight and with half as many, each in a new process.
pub fn slope(program: &Path, engine: EngineName, count: usize, tls: bool) -> io::Result<MemorySlope> {
    let (few, few_status) = waiting_and_status(program, engine, count / 2, tls)?;
    let (many, many_status) = waiting_and_status(program, engine, count, tls)?;
    Ok(MemorySlope { few: (few, few_status.peak), many: (many, many_status.peak), threads: many_status.threads })
}

/// The number of waiting fetches, and the crawler's status at that time.
fn waiting_and_status(program: &Path, engine: EngineName, count: usize, tls: bool) -> io::Result<(usize, ProcStatus)> {
    let mut waiting_crawl = WaitingCrawl::start(program, engine, count, tls)?;
    waiting_crawl.wait_until_all_wait(&|_| ())?;
    Ok((waiting_crawl.count, waiting_crawl.status()?))
}

/// The result of `--crowd`: many fetches wait at the same time, then the servers respond to all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CrowdResult {
    /// Fetches in flight when memory was read.
    pub in_flight: usize,
    pub processes: usize,
    /// Peak memory of these processes while all fetches waited.
    pub bytes: u64,
    /// Growth of the kernel's slab memory. It contains both ends of all connections.
    pub kernel_bytes: u64,
    /// Seconds from the start of the processes until all fetches waited.
    pub opened: f64,
    /// Seconds from the release of all responses until the crawls ended.
    pub answered: f64,
    /// CPU seconds of the processes, from start to end.
    pub cpu: f64,
    /// Pages with a response.
    pub pages: u64,
    /// Pages that should have a response but do not.
    pub missing: u64,
}

/// The progress of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrowdProgress {
    /// This many fetches wait.
    Waiting(usize),
    /// This many responses were sent.
    Answered(u64),
}

/// Keeps `count` fetches in flight, then lets the servers respond to all of them. `max_per_process` limits the fetches of
/// one process: an engine whose connections are file descriptors needs several processes for a large count.
pub fn measure_processes(
    program: &Path,
    engine: EngineName,
    count: usize,
    max_per_process: usize,
    progress: &dyn Fn(CrowdProgress),
) -> io::Result<CrowdResult> {
    let kernel_before = proc::kernel_slabs();
    let processes = count.div_ceil(max_per_process.max(1)).max(1);
    let mut crawls = Vec::new();
    let start = Instant::now();
    for number in 0..processes {
        // The shares differ by one at most.
        let share = count * (number + 1) / processes - count * number / processes;
        let tls = false;
        crawls.push(WaitingCrawl::start(program, engine, share, tls)?);
    }
    let mut crowd = CrowdResult { processes, ..CrowdResult::default() };
    let mut waiting_so_far = 0;
    for waiting_crawl in &mut crawls {
        waiting_crawl.wait_until_all_wait(&|waits| progress(CrowdProgress::Waiting(waiting_so_far + waits)))?;
        waiting_so_far += waiting_crawl.count;
    }
    crowd.opened = start.elapsed().as_secs_f64();
    crowd.kernel_bytes = proc::kernel_slabs().saturating_sub(kernel_before);
    for waiting_crawl in &crawls {
        crowd.in_flight += waiting_crawl.count;
        crowd.bytes += waiting_crawl.status()?.peak;
    }
    let release = Instant::now();
    for served in crawls.iter_mut().flat_map(|waiting_crawl| &mut waiting_crawl.served) {
        served.server.release()?;
    }
    for waiting_crawl in &mut crawls {
        waiting_crawl.wait_for_end(&|answered| progress(CrowdProgress::Answered(crowd.pages + answered)))?;
        crowd.pages += waiting_crawl.pages;
    }
    // The exact numbers are those of the crawlers.
    crowd.pages = 0;
    for waiting_crawl in crawls {
        let expected = waiting_crawl.pages;
        let cost = waiting_crawl.crawler.cost()?;
        crowd.cpu += cost.cpu;
        crowd.pages += cost.pages;
        crowd.missing += expected.saturating_sub(cost.pages);
    }
    crowd.answered = release.elapsed().as_secs_f64();
    Ok(crowd)
}

/// A crawler whose fetches all wait.
struct WaitingCrawl {
    crawler: CrawlerProcess,
    served: Vec<ServedWeb>,
    /// Fetches in flight.
    count: usize,
    /// Pages of all hosts. These are more than the fetches in flight, because each host responds to its first page at
    /// once.
    pages: u64,
}

impl WaitingCrawl {
    fn start(program: &Path, engine: EngineName, count: usize, tls: bool) -> io::Result<Self> {
        let servers = count.div_ceil(MAX_FETCHES_PER_SERVER).max(1);
        let share = count.div_ceil(servers);
        let hosts = MAX_HOSTS.min(u32::try_from(share).unwrap_or(MAX_HOSTS)).max(1);
        let per_host = share.div_ceil(hosts as usize);
        // Each host has one more page, the first one, which lists the others.
        let all_pages = (per_host as u64 + 1) * u64::from(hosts) * servers as u64;
        let pages = u32::try_from(per_host).map_err(|_| io::Error::other("too many fetches for one host"))?;
        let serve = |_| web::serve_silent_hosts(program, hosts, pages, tls);
        let served = (0..servers).map(serve).collect::<io::Result<Vec<_>>>()?;
        let Some(first) = served.first() else { return Err(io::Error::other("there is no server")) };
        let (roots, ca) = (first.roots.clone(), first.ca.clone());
        let mut all_roots = String::new();
        for (number, server) in served.iter().enumerate() {
            // Every server listens on all loopback addresses, so each gets its own hosts.
            let hosts = format!("//127.{}.", number + 1);
            all_roots += &std::fs::read_to_string(&server.roots)?.replace("//127.1.", &hosts);
        }
        std::fs::write(&roots, all_roots)?;
        let task = CrawlTask { engine, roots, ca, concurrency: count, per_host };
        Ok(Self { crawler: CrawlerProcess::start(program, &task)?, served, count, pages: all_pages })
    }

    /// Waits until the servers report all requests as waiting. Calls `progress` with their number.
    fn wait_until_all_wait(&mut self, progress: &dyn Fn(usize)) -> io::Result<()> {
        let timeout = START_TIMEOUT + TIMEOUT_PER_SERVER * (self.served.len() as u32 - 1);
        let deadline = Instant::now() + timeout;
        loop {
            let (requests, answered) = self.served_so_far()?;
            let waiting = requests.saturating_sub(answered) as usize;
            if waiting >= self.count {
                return Ok(());
            }
            progress(waiting);
            if self.crawler.has_ended()? {
                return Err(io::Error::other("the crawler ended instead of waiting"));
            }
            if Instant::now() >= deadline {
                return Err(io::Error::other(format!(
                    "only {waiting} of {} fetches wait after {timeout:?}",
                    self.count
                )));
            }
            wait_for_next_poll();
        }
    }

    /// Waits until the crawler has ended. Calls `progress` with the number of responses.
    fn wait_for_end(&mut self, progress: &dyn Fn(u64)) -> io::Result<()> {
        while !self.crawler.has_ended()? {
            progress(self.served_so_far()?.1);
            wait_for_next_poll();
        }
        Ok(())
    }

    /// The number of requests and the number of responses, of all servers.
    fn served_so_far(&mut self) -> io::Result<(u64, u64)> {
        let mut sums = (0, 0);
        for served in &mut self.served {
            let stats = served.server.stats()?;
            sums = (sums.0 + stats.requests, sums.1 + stats.answered);
        }
        Ok(sums)
    }

    fn status(&self) -> io::Result<ProcStatus> {
        proc::status(self.crawler.pid()).ok_or_else(|| io::Error::other("this system has no /proc/PID/status"))
    }
}

/// Sleeps for the polling interval. The server sends no events about requests, so it must be polled.
fn wait_for_next_poll() {
    // Nothing is sent on this channel, so receiving from it waits for the whole interval.
    let (_never, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(POLL_INTERVAL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_the_cost_of_one_more_fetch() {
        let slope = MemorySlope { few: (1_000, 9_000_000), many: (2_000, 9_900_000), threads: 5 };
        assert_eq!(slope.bytes(), 900);
        assert_eq!(MemorySlope { few: (5, 10), many: (5, 10), threads: 1 }.bytes(), 0);
    }

    #[test]
    fn the_median_is_reported() {
        let slope = |bytes: u64| MemorySlope { few: (1, 100), many: (2, 100 + bytes), threads: 1 };
        let measured = MemoryMeasurement::of(vec![slope(30), slope(10), slope(20)]);
        assert_eq!(measured, Some(MemoryMeasurement { median: slope(20), least: 10, most: 30 }));
        assert_eq!(MemoryMeasurement::of(Vec::new()), None);
    }
}
