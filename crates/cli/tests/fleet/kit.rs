//! The parts that the fleet tests share: a fleet of processes, and what the servers' logs must show.

use std::borrow::BorrowMut;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use argiope_practice::{GraphPlan, SeenRequest};
use argiope_testkit::redis_cluster::RedisCluster;

use crate::durable_kit::{GraphWeb, TIMEOUT, records};

/// A crawl that several processes share, and the folder in which they run.
pub struct Fleet {
    pub cluster: RedisCluster,
    pub folder: tempfile::TempDir,
    /// The number of processes started so far.
    pub started: u32,
    /// Where the results are stored: `--out`.
    pub out: String,
    /// The duration of a lease in seconds: `--lease`.
    pub lease: u32,
    /// The wait before the second attempt at a page: `--retry-wait`.
    pub retry_wait: &'static str,
    /// Environment variables of all processes.
    pub environment: Vec<(&'static str, String)>,
}

impl Fleet {
    pub fn new(cluster: RedisCluster) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // A short lease keeps the tests short.
        Self {
            cluster,
            folder,
            started: 0,
            out: "results".to_owned(),
            lease: 2,
            retry_wait: "20ms",
            environment: Vec::new(),
        }
    }

    /// A process of the fleet.
    pub fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let usual = "--scope any --allow-private --pace full -c 32 --buckets 64 --no-progress";
        command.current_dir(self.folder.path()).arg("crawl").args(usual.split(' '));
        command.args(["--frontier", &self.cluster.address(), "--name", "test", "--out", &self.out]);
        command.args(["--lease", &self.lease.to_string(), "--retry-wait", self.retry_wait]);
        command.args(more).stdin(Stdio::null()).envs(self.environment.iter().cloned());
        command
    }

    /// Starts another process, which sends its number in its requests.
    pub fn spawn(&mut self, more: &[&str]) -> Child {
        let command = self.next_command(more);
        self.spawn_logged(command)
    }

    /// As `spawn`, in a mount name space of its own in which a command of the shell runs first.
    pub fn spawn_after(&mut self, preparation: &str, more: &[&str]) -> Child {
        let command = self.next_command(more);
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "/bin/sh", "-c", &format!("{preparation} && exec \"$0\" \"$@\"")]);
        unshare.current_dir(self.folder.path()).arg(command.get_program()).args(command.get_args());
        self.spawn_logged(unshare.stdin(Stdio::null()).envs(self.environment.iter().cloned()))
    }

    /// The command of another process, which sends its number in its requests.
    fn next_command(&mut self, more: &[&str]) -> Command {
        self.started += 1;
        let mut command = self.command(more);
        command.args(["--header", &format!("X-Process: {}", self.started)]);
        command
    }

    fn spawn_logged(&self, mut command: impl BorrowMut<Command>) -> Child {
        let log = std::fs::File::create(self.folder.path().join(format!("{}.log", self.started))).expect("a file");
        command.borrow_mut().stdout(Stdio::null()).stderr(log).spawn().expect("the command starts")
    }

    /// The records as `export` reads them from the segments.
    pub fn records(&self) -> Vec<serde_json::Value> {
        let (is_success, printed) = self.run(&["export", &self.out, "--format", "jsonl", "-o", "all.jsonl"]);
        assert!(is_success, "{printed}");
        records(&self.folder.path().join("all.jsonl"))
    }

    /// Runs a command. Returns whether it succeeded, and what it printed.
    pub fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = command
            .current_dir(self.folder.path())
            .args(arguments)
            .envs(self.environment.iter().cloned())
            .output()
            .expect("the command runs");
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// The messages of all processes.
    pub fn logs(&self) -> String {
        let logs = (1..=self.started).map(|number| {
            let text = std::fs::read_to_string(self.folder.path().join(format!("{number}.log"))).unwrap_or_default();
            format!("-- process {number}\n{text}\n")
        });
        logs.collect()
    }

    /// Waits until the log of a process contains this text.
    pub fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.logs().contains(text) {
            assert!(Instant::now() < deadline, "no log contains {text:?}:\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the processes have ended, and asserts success.
    pub fn finish(&self, mut processes: Vec<Child>) {
        for process in &mut processes {
            let started = Instant::now();
            let status = loop {
                if let Some(status) = process.try_wait().expect("the state of the process can be read") {
                    break status;
                }
                assert!(started.elapsed() < 2 * TIMEOUT, "it does not end:\n{}", self.logs());
                std::thread::sleep(Duration::from_millis(20));
            };
            assert!(status.success(), "{status}\n{}", self.logs());
        }
    }
}

/// Prints the logs of the processes if a test fails.
impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let status = self.run(&["fleet", "status", &self.cluster.address(), "--name", "test"]);
            let _ = writeln!(std::io::stderr(), "{}\n-- status\n{}", self.logs(), status.1);
        }
    }
}

/// The number of the process that sent a request. A request for robots.txt does not contain it.
fn process_of(seen: &SeenRequest) -> Option<&str> {
    let header = seen.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-process"));
    header.map(|(_, value)| value.as_str())
}

/// The number of the process that opened a connection, by connection. Requests for robots.txt have no user headers, but
/// requests for pages on the same connection have them.
pub fn processes_of_connections(log: &[SeenRequest]) -> BTreeMap<u64, String> {
    log.iter().filter_map(|seen| Some((seen.connection, process_of(seen)?.to_owned()))).collect()
}

/// The shortest time in which a process can lose a host, another can take it over, and the first can get it back: two
/// surveys of the buckets, which are half a second apart in these tests, and some tolerance.
const MIN_OWNERSHIP: Duration = Duration::from_millis(400);

/// Asserts by the server log that no process sent requests to a host that another process owned: no host changes from
/// one process to another and back within [`MIN_OWNERSHIP`]. Up to `tolerated` such changes are accepted. Also asserts
/// that every request for a page has the header `X-Process`. Returns the number of changes of ownership.
pub fn check_ownership(practice: &GraphWeb, tolerated: usize) -> usize {
    let log = practice.web.log();
    let is_page = |seen: &&SeenRequest| seen.path != "/robots.txt";
    let without_name: Vec<&SeenRequest> =
        log.iter().filter(is_page).filter(|seen| process_of(seen).is_none()).collect();
    assert!(without_name.is_empty(), "{} pages without X-Process: {:?}", without_name.len(), without_name.first());
    let connections = processes_of_connections(&log);
    assert!(!connections.is_empty(), "no request has the header X-Process");
    let mut by_host: BTreeMap<String, Vec<(Duration, String)>> = BTreeMap::new();
    for seen in log {
        if let Some(process) = connections.get(&seen.connection) {
            by_host.entry(seen.host).or_default().push((seen.start, process.clone()));
        }
    }
    let (mut changes, mut intruders) = (0, Vec::new());
    for (host, mut requests) in by_host {
        requests.sort();
        let (changes_of_host, intruders_of_host) = ownership_changes(&requests);
        changes += changes_of_host;
        intruders.extend(intruders_of_host.into_iter().map(|process| (host.clone(), process)));
    }
    assert!(intruders.len() <= tolerated, "requests to hosts of another process: {intruders:?}");
    changes
}

/// How often the process that sends requests to a host changes, and the processes whose requests lie between two requests
/// of another process that follow each other within [`MIN_OWNERSHIP`]. `requests` are sorted by time.
fn ownership_changes(requests: &[(Duration, String)]) -> (usize, Vec<String>) {
    let (mut changes, mut intruders) = (0, Vec::new());
    // The process that sends requests now, since when, and the process before it.
    let (mut owner, mut since, mut owner_before) = ("", Duration::ZERO, "");
    for (start, process) in requests {
        if process == owner {
            continue;
        }
        changes += usize::from(!owner.is_empty());
        if process == owner_before && *start - since < MIN_OWNERSHIP {
            intruders.push(owner.to_owned());
        }
        (owner_before, owner, since) = (owner, process, *start);
    }
    (changes, intruders)
}

#[test]
fn a_request_without_a_lease_is_found_between_requests_of_the_owner() {
    let of = |requests: &[(u64, &str)]| {
        let requests: Vec<_> =
            requests.iter().map(|(start, process)| (Duration::from_millis(*start), (*process).to_owned())).collect();
        ownership_changes(&requests)
    };
    // The second process takes the host over, and releases it again after a second.
    assert_eq!(of(&[(0, "1"), (2_000, "2"), (2_900, "2"), (3_000, "1")]), (2, Vec::new()));
    // The first process sends one more request while the second one owns the host.
    assert_eq!(of(&[(0, "1"), (2_000, "2"), (2_500, "1"), (2_550, "2")]), (3, vec!["1".to_owned()]));
    // The request of the first process is delayed until just after the second one has begun.
    assert_eq!(of(&[(1_950, "1"), (2_000, "2"), (2_010, "1")]), (2, vec!["2".to_owned()]));
}

/// A web with missing pages and redirects, and with this number of pages on each host.
pub fn plan(seed: u64, hosts: u32, pages: u32) -> GraphPlan {
    GraphPlan {
        seed,
        hosts,
        // Headers are sent to the hosts of roots only.
        root_hosts: hosts,
        pages,
        links: 8,
        cross: 200,
        missing: 40,
        redirects: 60,
        latency_us: (1_000, 40_000),
        ..GraphPlan::default()
    }
}

/// A folder with a certificate for 127.0.0.1 (`server.pem`), its key (`key.pem`) and its authority (`ca.pem`).
pub fn certificate_files() -> tempfile::TempDir {
    let files = tempfile::tempdir().expect("a folder");
    let authority = argiope_practice::TestAuthority::new().expect("an authority");
    let (certificate, key) = authority.issue(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    for (name, text) in [("server.pem", certificate), ("key.pem", key), ("ca.pem", authority.pem())] {
        std::fs::write(files.path().join(name), text).expect("written");
    }
    files
}
