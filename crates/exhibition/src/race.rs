//! The race: every engine crawls the same slow web, each in a process of its own, one after the other.
//!
//! Invariant: all of them get the same web, the same politeness and the same room; only the waiting differs.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use argiope_core::rules::EngineName;
use serde::Serialize;

use super::child::{CrawlCost, CrawlTask, CrawlerProcess};
use super::memory::{self, MemorySlope};
use super::proc::{ContextSwitches, status};
use super::web::SlowWeb;
use argiope_runtime::engine_kind;

/// How often a racer is looked at from outside.
const GLANCE: Duration = Duration::from_millis(100);

/// What is raced for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineRace {
    pub web: SlowWeb,
    pub concurrency: usize,
    pub per_host: usize,
    /// Fetches in flight where memory is measured; none measures no memory.
    pub weighed: Option<usize>,
}

/// How one engine did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineResult {
    pub engine: EngineName,
    /// What was allowed to be in flight: less than asked for where the system has no more.
    pub concurrency: usize,
    /// Seconds that no engine could have undercut.
    pub ideal: f64,
    pub cost: CrawlCost,
    /// Most threads at a time.
    pub threads: u64,
    /// Context switches: a thread went to wait, a thread was pushed aside.
    pub waited: u64,
    pub pushed: u64,
    pub memory: Option<MemorySlope>,
}

impl EngineResult {
    /// Wall time over the ideal: 1 is perfect.
    pub fn ratio(&self) -> f64 {
        if self.ideal > 0.0 { self.cost.wall / self.ideal } else { f64::NAN }
    }

    /// Seconds of processor time for a page.
    pub fn cpu_per_page(&self) -> f64 {
        self.cost.cpu / (self.cost.pages + self.cost.failed).max(1) as f64
    }

    pub fn switches_per_page(&self) -> f64 {
        (self.waited + self.pushed) as f64 / (self.cost.pages + self.cost.failed).max(1) as f64
    }
}

impl EngineRace {
    /// How many fetches fit at once with this engine.
    pub fn room(&self, engine: EngineName) -> usize {
        self.concurrency.min(engine_kind(engine).room())
    }

    /// Lets one engine run.
    pub fn run(&self, program: &Path, engine: EngineName) -> io::Result<EngineResult> {
        let served = self.web.serve(program)?;
        let concurrency = self.room(engine);
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
        let (_never, nothing) = mpsc::channel::<()>();
        while !crawler.is_over()? {
            switches.look(pid);
            threads = status(pid).map_or(threads, |now| now.threads.max(threads));
            let _ = nothing.recv_timeout(GLANCE);
        }
        let cost = crawler.cost()?;
        drop(served);
        let memory = match self.weighed {
            Some(count) => Some(memory::slope(program, engine, count.min(engine_kind(engine).room()), self.web.tls)?),
            None => None,
        };
        let (waited, pushed) = switches.sums();
        let ideal = self.web.ideal(concurrency, self.per_host).as_secs_f64();
        Ok(EngineResult { engine, concurrency, ideal, cost, threads, waited, pushed, memory })
    }
}
