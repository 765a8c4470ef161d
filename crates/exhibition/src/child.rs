//! The child process of the exhibition that runs a crawl and reports its cost. The server is another child process.
//!
//! Separate processes keep the figures independent: memory that one engine used does not count for the next, and server
//! and crawler have separate limits on file descriptors.
//!
//! Invariant: a child never outlives its handle. It prints only one line of JSON on standard output.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::Outcome;
use argiope_core::crawl::rules::{Config, EngineName, Pace, ProgramSettings, Span};
use argiope_core::crawl::schedule::keeper::Settled;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{Clock, CrawlSetup, KeeperHandle, MemoryFrontier, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;

/// The hidden subcommand with which the program starts itself as the server.
pub const SERVER: &str = "exhibition-server";
/// The hidden subcommand with which the program starts itself as the crawler.
pub const CRAWLER: &str = "exhibition-crawler";

/// Timeout of a fetch in the exhibition.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// The task of a child, which is passed as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CrawlTask {
    pub engine: EngineName,
    /// A file of roots, one per line.
    pub roots: PathBuf,
    /// A file with the certificate authority of the servers.
    pub ca: Option<PathBuf>,
    pub concurrency: usize,
    pub per_host: usize,
}

/// The cost of the crawl, as measured by the child.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CrawlCost {
    /// Pages with a response.
    pub pages: u64,
    /// Pages that failed.
    pub failed: u64,
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of CPU time, user and system, of all threads.
    pub cpu: f64,
    /// Peak memory in bytes.
    pub peak: u64,
    pub notices: Vec<String>,
}

/// A crawl in a child process.
pub struct CrawlerProcess {
    process: std::process::Child,
    output: BufReader<ChildStdout>,
}

impl CrawlerProcess {
    pub fn start(program: &Path, task: &CrawlTask) -> io::Result<Self> {
        let json = serde_json::to_string(task)?;
        let mut process =
            Command::new(program).args([CRAWLER, &json]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("the crawler has no standard output");
        let output = BufReader::new(process.stdout.take().ok_or_else(missing)?);
        Ok(Self { process, output })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.process.try_wait()?.is_some())
    }

    /// Waits until the crawl ends, and reads its cost.
    pub fn cost(mut self) -> io::Result<CrawlCost> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let status = self.process.wait()?;
        serde_json::from_str(&line).map_err(|_| io::Error::other(format!("the crawler failed ({status})")))
    }
}

impl Drop for CrawlerProcess {
    fn drop(&mut self) {
        // Usually it has ended. Otherwise its result is not needed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs in the child: crawls and returns the cost.
pub fn crawl(task: &CrawlTask) -> Result<CrawlCost, argiope_runtime::Error> {
    let text = std::fs::read_to_string(&task.roots).map_err(argiope_runtime::Error::system)?;
    let config = Config {
        roots: text.lines().map(str::to_owned).collect(),
        engine: task.engine,
        concurrency: task.concurrency,
        per_host: Some(task.per_host),
        // No limit.
        per_ip: Some(0),
        pace: Pace::Full,
        allow_private: true,
        ca_cert: task.ca.clone(),
        timeout: Span(TIMEOUT),
        idle_timeout: Span(TIMEOUT),
        connect_timeout: Span(TIMEOUT),
        ..Config::default()
    };
    // The list of roots must not be in memory during the measurement.
    drop(text);
    let rules = Arc::new(argiope_runtime::rules(&config, ProgramSettings::default())?);
    drop(config);
    let clock = Clock::start();
    let keeper = KeeperHandle::start(CrawlSetup {
        frontier: MemoryFrontier::new(rules.fingerprint_key),
        fetchers: Fetchers::engine(task.engine),
        rules,
        clock,
        consumer: DiscardVisits,
        target: OutputTarget::default(),
        accepts_links: false,
    })?;
    let summary = keeper.join()?;
    let failed = summary.tally.outcomes.get(Outcome::Failed);
    Ok(CrawlCost {
        pages: summary.tally.pages().saturating_sub(failed),
        failed,
        wall: summary.elapsed.as_secs_f64(),
        cpu: seconds(ClockId::ProcessCPUTime),
        peak: super::proc::status(std::process::id()).map_or(0, |status| status.peak),
        notices: summary.notices,
    })
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Discards all visits.
struct DiscardVisits;

impl VisitConsumer for DiscardVisits {
    fn take(&mut self, _settled: Settled) {}

    fn flush(&mut self) {}
}
