//! Shared by the tests of the crawl directory: a site whose records are known, and the built command with its output.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use argiope_practice::{CrawlReach, ExpectedRecord, Graph, GraphPlan, PracticeWeb, RunningWeb, Site};
use argiope_testkit::sim::rng::SimRng;
use serde_json::Value;

/// A timeout that a passing test does not reach, even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// A web generated from a plan, and the expected records of its crawl.
pub struct GraphWeb {
    pub web: RunningWeb,
    pub roots: Vec<String>,
    /// The expected record of each URL.
    pub expected: BTreeMap<String, ExpectedRecord>,
}

impl GraphWeb {
    pub fn serve(plan: GraphPlan) -> Self {
        Self::serve_on(plan, PracticeWeb::new())
    }

    /// Like `serve`, with request headers in the log.
    pub fn serve_with_headers(plan: GraphPlan) -> Self {
        Self::serve_on(plan, PracticeWeb::new().keep_headers())
    }

    fn serve_on(plan: GraphPlan, web: PracticeWeb) -> Self {
        let site = Site::http("0.0.0.0:0").expect("a port");
        let has_tls = false;
        let graph = Arc::new(Graph::new(plan, site.address().port(), has_tls));
        let roots = graph.roots().map(|id| graph.url(id)).collect();
        let expected = graph.reachable(graph.roots(), CrawlReach::Everywhere);
        let web = web.site(site.graph(&graph)).start().expect("a server");
        Self { web, roots, expected }
    }

    /// Waits until the servers have received this number of requests, or the crawl has ended. Unlike a duration, this
    /// point does not depend on the speed of the machine.
    pub fn wait_for(&self, requests: u64, crawl: &mut Child) {
        let is_alive = |crawl: &mut Child| crawl.try_wait().expect("the state of the process can be read").is_none();
        while !self.web.wait_requests(requests, Duration::from_millis(100)) && is_alive(crawl) {}
    }

    /// The number of requests for each page.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let mut requests = BTreeMap::new();
        for seen in self.web.log() {
            if seen.path != "/robots.txt" {
                *requests.entry(format!("{}{}", seen.host, seen.path)).or_insert(0) += 1;
            }
        }
        requests
    }

    /// Asserts that each expected page has exactly one record, with the expected status.
    pub fn check(&self, records: &[Value]) {
        let mut found = BTreeMap::new();
        for record in records.iter().filter(|record| record["type"] == "page") {
            let url = record["url"].as_str().expect("a URL").to_owned();
            let earlier = found.insert(url, record["status"].as_u64().unwrap_or(0));
            assert!(earlier.is_none(), "a second record: {record}");
        }
        let expected: BTreeMap<String, u64> =
            self.expected.iter().map(|(url, page)| (url.clone(), u64::from(page.status))).collect();
        let missing: Vec<&String> = expected.keys().filter(|url| !found.contains_key(*url)).collect();
        assert!(missing.is_empty(), "{} of {} are missing: {:?}", missing.len(), expected.len(), missing.first());
        assert_eq!(found, expected);
    }
}

/// A temporary folder, and the arguments of the `argiope crawl` that runs in it.
pub struct CrawlFixture {
    pub folder: tempfile::TempDir,
    arguments: Vec<String>,
}

impl CrawlFixture {
    /// `argiope crawl` at full speed, with the directory `d.crawl` and records in `p.jsonl`.
    pub fn new(roots: &[String], extra: &[&str]) -> Self {
        let common = "--scope any --allow-private --pace full --per-ip 0 -c 32 --retry-wait 20ms";
        let arguments = ["crawl"].into_iter().chain(common.split(' ')).chain(["-d", "d.crawl", "--jsonl", "p.jsonl"]);
        let arguments = arguments.chain(extra.iter().copied()).chain(roots.iter().map(String::as_str));
        Self { folder: tempfile::tempdir().expect("a folder"), arguments: arguments.map(str::to_owned).collect() }
    }

    /// A path in the temporary folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with extra arguments.
    pub fn command(&self, extra: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.current_dir(self.folder.path()).args(&self.arguments).args(extra).stdin(Stdio::null());
        command
    }

    /// Starts the command without waiting.
    pub fn spawn(&self, extra: &[&str]) -> Child {
        self.command(extra).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts")
    }

    /// Runs the command to its end.
    pub fn run(&self, extra: &[&str]) -> Output {
        self.command(extra).output().expect("the command runs")
    }

    /// Runs the command, asserts success, and returns its messages.
    pub fn succeed(&self, extra: &[&str]) -> String {
        let output = self.run(extra);
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(output.status.success(), "{:?}: {stderr}", output.status);
        stderr
    }

    /// Runs the command, asserts this exit code, and returns its messages.
    pub fn fail(&self, code: i32, extra: &[&str]) -> String {
        let output = self.run(extra);
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        stderr
    }

    /// The records that the crawl has written.
    pub fn records(&self) -> Vec<Value> {
        records(&self.path("p.jsonl"))
    }
}

/// The records of a file; every line must be complete, including the last.
pub fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("records");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is incomplete");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Waits for the end of a process.
pub fn wait(child: &mut Child) -> ExitStatus {
    assert!(
        poll(|| child.try_wait().expect("the state of the process can be read").is_some()),
        "the process does not end"
    );
    child.wait().expect("the process has ended")
}

/// Polls until a condition holds. Returns `false` after [`TIMEOUT`].
pub fn poll(mut is_met: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !is_met() {
        if started.elapsed() > TIMEOUT {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Sends a signal to a process.
pub fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    // Ignored: the process may have ended just before.
    let _ = rustix::process::kill_process(pid, signal);
}

/// Seeded random numbers, the same in every run.
pub struct SeededRng(SimRng);

impl SeededRng {
    pub fn new(seed: u64) -> Self {
        Self(SimRng::new(seed))
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    /// Sleeps for a random time below `millis`.
    pub fn pause(&mut self, millis: u64) {
        std::thread::sleep(Duration::from_micros(self.below(millis * 1_000)));
    }
}

/// Whether the long variants of tests are requested.
pub fn is_long() -> bool {
    std::env::var_os("ARGIOPE_LONG").is_some()
}
