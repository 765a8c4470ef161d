//! The comparison: every engine crawls the same slow web, one after the other, each in its own process.
//!
//! Invariant: all engines get the same web, politeness settings and concurrency; only the way of waiting differs.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use argiope_core::crawl::rules::EngineName;
use serde::Serialize;

use super::child::{CrawlCost, CrawlTask, CrawlerProcess};
use super::memory::{self, MemorySlope};
use super::proc::{ContextSwitches, status};
use super::web::SlowWeb;
use argiope_runtime::engine_kind;

/// Interval of sampling threads and context switches.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The parameters of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineComparison {
    pub web: SlowWeb,
    pub concurrency: usize,
    pub per_host: usize,
    /// Fetches in flight for the memory measurement; `None` skips it.
    pub memory_fetches: Option<usize>,
}

/// The result of one engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineResult {
    pub engine: EngineName,
    /// The limit on fetches in flight: the requested limit, or a lower one if the system allows fewer.
    pub concurrency: usize,
    /// The lower bound of the crawl time, in seconds.
    pub ideal: f64,
    pub cost: CrawlCost,
    /// Peak number of threads.
    pub threads: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// Peak memory with two different numbers of fetches in flight.
    pub memory: Option<MemorySlope>,
}

impl EngineResult {
    /// Wall time divided by the ideal time; 1 is perfect.
    pub fn ratio(&self) -> f64 {
        if self.ideal > 0.0 { self.cost.wall / self.ideal } else { f64::NAN }
    }

    /// Seconds of CPU time per page.
    pub fn cpu_per_page(&self) -> f64 {
        self.cost.cpu / (self.cost.pages + self.cost.failed).max(1) as f64
    }

    /// Context switches per page, voluntary and involuntary.
    pub fn switches_per_page(&self) -> f64 {
        (self.voluntary_switches + self.involuntary_switches) as f64
            / (self.cost.pages + self.cost.failed).max(1) as f64
    }
}

impl EngineComparison {
    /// The number of concurrent fetches that this engine can run on this system.
    pub fn max_fetches(&self, engine: EngineName) -> usize {
        self.concurrency.min(engine_kind(engine).max_fetches())
    }

    /// Runs one engine: crawls the web, then measures memory if requested.
    pub fn run(&self, program: &Path, engine: EngineName) -> io::Result<EngineResult> {
        let served = self.web.serve(program)?;
        let concurrency = self.max_fetches(engine);
        let task = CrawlTask {
            engine,
            roots: served.roots.clone(),
            ca: served.ca.clone(),
            concurrency,
            per_host: self.per_host,
        };
        let mut crawler = CrawlerProcess::start(program, &task)?;
        let (mut switches, mut threads) = (ContextSwitches::default(), 0);
        let pid = crawler.pid();
        // Nothing is sent on this channel: receiving from it waits for the sampling interval.
        let (_never, nothing) = mpsc::channel::<()>();
        while !crawler.has_ended()? {
            switches.sample(pid);
            threads = status(pid).map_or(threads, |status| status.threads.max(threads));
            let _ = nothing.recv_timeout(POLL_INTERVAL);
        }
        let cost = crawler.cost()?;
        drop(served);
        let memory = match self.memory_fetches {
            Some(count) => {
                Some(memory::slope(program, engine, count.min(engine_kind(engine).max_fetches()), self.web.tls)?)
            }
            None => None,
        };
        let (voluntary_switches, involuntary_switches) = switches.sums();
        let ideal = self.web.ideal(concurrency, self.per_host).as_secs_f64();
        Ok(EngineResult { engine, concurrency, ideal, cost, threads, voluntary_switches, involuntary_switches, memory })
    }
}
