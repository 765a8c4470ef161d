//! One crawl by several processes on a real Redis cluster. Processes are killed, paused, joined and interrupted.
//!
//! The tests check the server logs and the records, not the output of the processes. Every process sends its name in a
//! header, so that the log shows which process sent a request.

mod durable_kit;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use argiope_practice::{GraphPlan, PracticeWeb, Response, SeenRequest, Site};
use argiope_testkit::redis_cluster::{RedisCluster, ServerGuard};
use argiope_testkit::s3_server::{S3Certificate, S3Server, SECRET};
use durable_kit::{Dice, PATIENCE, Practice, is_long, records, signal, wait};
use rustix::process::Signal;

/// A short lease keeps the tests short.
const LEASE: &str = "2";

/// A shared crawl in its own folder.
struct Fleet {
    cluster: RedisCluster,
    folder: tempfile::TempDir,
    started: u32,
    out: String,
    environment: Vec<(&'static str, String)>,
}

impl Fleet {
    fn new(cluster: RedisCluster) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { cluster, folder, started: 0, out: "results".to_owned(), environment: Vec::new() }
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let usual = "--scope any --allow-private --pace full -c 32 --retry-wait 20ms --buckets 64 --no-progress";
        command.current_dir(self.folder.path()).arg("crawl").args(usual.split(' '));
        command.args(["--frontier", &self.cluster.address(), "--name", "test", "--out", &self.out, "--lease", LEASE]);
        command.args(more).stdin(Stdio::null()).envs(self.environment.iter().cloned());
        command
    }

    /// Starts another process, which sends its name in its requests.
    fn spawn(&mut self, more: &[&str]) -> Child {
        self.started += 1;
        let log = std::fs::File::create(self.folder.path().join(format!("{}.log", self.started))).expect("a file");
        let name = format!("X-Process: {}", self.started);
        let mut command = self.command(more);
        command.args(["--header", &name]).stdout(Stdio::null()).stderr(log);
        command.spawn().expect("it starts")
    }

    /// The records as `export` reads them from the segments.
    fn records(&self) -> Vec<serde_json::Value> {
        let done = self.run(&["export", &self.out, "--format", "jsonl", "-o", "all.jsonl"]);
        assert!(done.0, "{}", done.1);
        records(&self.folder.path().join("all.jsonl"))
    }

    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = command
            .current_dir(self.folder.path())
            .args(arguments)
            .envs(self.environment.iter().cloned())
            .output()
            .expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    fn logs(&self) -> String {
        let logs = (1..=self.started).map(|number| {
            let text = std::fs::read_to_string(self.folder.path().join(format!("{number}.log"))).unwrap_or_default();
            format!("-- process {number}\n{text}\n")
        });
        logs.collect()
    }

    /// Waits until the log of a process contains these words.
    fn wait_for_words(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.logs().contains(words) {
            assert!(Instant::now() < until, "no process said {words:?}:\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn finish(&self, mut processes: Vec<Child>) {
        for process in &mut processes {
            let begin = Instant::now();
            let status = loop {
                if let Some(status) = process.try_wait().expect("it can be waited for") {
                    break status;
                }
                assert!(begin.elapsed() < 2 * PATIENCE, "it does not end:\n{}", self.logs());
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

/// Asserts by the server log that no process sent a request to a host after another process had taken it over, unless
/// it took the host over again. Returns the number of changes of ownership.
fn check_ownership(practice: &Practice, tolerated: usize) -> usize {
    let log = practice.web.log();
    let named = |seen: &SeenRequest| {
        let name = seen.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-process"));
        name.map(|(_, value)| value.clone())
    };
    // Requests for robots.txt carry no user headers; page requests on the same connection do.
    let connections: BTreeMap<u64, String> =
        log.iter().filter_map(|seen| Some((seen.connection, named(seen)?))).collect();
    let mut by_host: BTreeMap<String, Vec<(Duration, String)>> = BTreeMap::new();
    for seen in log {
        if let Some(process) = connections.get(&seen.connection) {
            by_host.entry(seen.host).or_default().push((seen.start, process.clone()));
        }
    }
    let (mut changes, mut intruders) = (0, Vec::new());
    for (host, mut requests) in by_host {
        requests.sort();
        // The last request of each process to this host.
        let mut last: BTreeMap<&str, Duration> = BTreeMap::new();
        let mut owner = "";
        for (start, process) in &requests {
            if process != owner {
                changes += usize::from(!owner.is_empty());
                // A process that has lost a host gets it back only after the next owner has died or left, which takes
                // longer than this.
                let since = last.get(owner).map(|last| start.saturating_sub(*last));
                if last.contains_key(process.as_str()) && since.is_some_and(|since| since < Duration::from_secs(1)) {
                    intruders.push((host.clone(), process.clone()));
                }
                owner = process;
            }
            last.insert(process, *start);
        }
    }
    assert!(intruders.len() <= tolerated, "requests after another process had taken over: {intruders:?}");
    changes
}

fn plan(seed: u64, hosts: u32, pages: u32) -> GraphPlan {
    GraphPlan {
        seed,
        hosts,
        // Headers are sent to the hosts of roots only.
        seeds: hosts,
        pages,
        links: 8,
        cross: 200,
        missing: 40,
        redirects: 60,
        latency_us: (1_000, 40_000),
        ..GraphPlan::default()
    }
}

#[test]
#[ignore = "needs redis-server"]
fn four_processes_crawl_the_same_pages_as_one() {
    let cluster = RedisCluster::start();
    let practice = Practice::serve_with_headers(plan(1, 60, 20));
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes = vec![fleet.spawn(&roots)];
    for _ in 0..3 {
        // Without roots, these processes join the crawl.
        processes.push(fleet.spawn(&[]));
    }
    fleet.finish(processes);
    assert!(!fleet.logs().contains("error: "), "{}", fleet.logs());
    practice.check(&fleet.records());
    let most = practice.requests().into_iter().max_by_key(|(_, count)| *count).expect("pages were asked for");
    assert_eq!(most.1, 1, "{} was asked for twice", most.0);
    check_ownership(&practice, 0);
    let status = fleet.run(&["fleet", "status", &fleet.cluster.address(), "--name", "test"]);
    assert!(status.0 && status.1.contains("test: finished") && status.1.ends_with('\n'), "{}", status.1);
    // The results form one crawl directory and do not need the store.
    let removed = fleet.run(&["fleet", "remove", &fleet.cluster.address(), "--name", "test", "--yes"]);
    assert!(removed.0, "{}", removed.1);
    let merged = fleet.run(&["merge", "results", "merged.crawl"]);
    assert!(merged.0, "{}", merged.1);
    let exported = fleet.run(&["export", "merged.crawl", "--format", "jsonl", "-o", "merged.jsonl"]);
    assert!(exported.0, "{}", exported.1);
    practice.check(&records(&fleet.folder.path().join("merged.jsonl")));
    // Folder and crawl directory say the same.
    let page = practice.expected.keys().find(|url| !practice.roots.contains(url)).expect("pages that are not roots");
    for place in ["results", "merged.crawl"] {
        let report = fleet.run(&["report", place]);
        assert!(report.0 && report.1.contains("Finished after"), "{place}: {}", report.1);
        let explained = fleet.run(&["explain", place, page]);
        assert!(explained.0 && explained.1.contains("--scope any"), "{place}: {}", explained.1);
        let audited = fleet.run(&["audit", place]);
        assert!(!audited.1.contains("error: "), "{place}: {}", audited.1);
    }
    let links = |place: &str| {
        let done = fleet.run(&["export", place, "--format", "links"]);
        let mut lines: Vec<String> = done.1.lines().map(str::to_owned).collect();
        lines.sort();
        (done.0, lines)
    };
    let (of_folder, of_directory) = (links("results"), links("merged.crawl"));
    assert!(of_folder.0 && of_folder.1.len() > practice.expected.len(), "{} links", of_folder.1.len());
    assert_eq!(of_folder, of_directory);
    let again = fleet.run(&["merge", "results", "merged.crawl"]);
    assert!(!again.0 && again.1.contains("exists already"), "{}", again.1);
    // The crawl directory can be recrawled, and knows what there was.
    let mut recrawl = vec!["crawl", "--recrawl", "--out", "merged.crawl", "--scope", "any", "--allow-private"];
    recrawl.extend(["--pace", "full", "--per-ip", "0", "--quiet"]);
    recrawl.extend(&roots);
    let recrawled = fleet.run(&recrawl);
    assert!(recrawled.0, "{}", recrawled.1);
    let changes = fleet.run(&["diff", "merged.crawl"]);
    assert!(changes.0 && changes.1.contains("0 new, 0 changed, 0 gone"), "{}", changes.1);
}

#[test]
#[ignore = "needs redis-server"]
fn pages_of_killed_processes_are_archived_once_and_broken_links_decide_the_exit_code() {
    let practice = Practice::serve_with_headers(plan(12, 10, 12));
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.push("--warc");
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&arguments)).collect();
    practice.web.wait_requests(50, PATIENCE);
    let mut killed = processes.remove(0);
    killed.kill().expect("it is killed");
    wait(&mut killed);
    fleet.finish(processes);
    let records = fleet.records();
    practice.check(&records);
    let archived = records.iter().filter(|record| record["warc"].is_object()).count();
    let answered = records.iter().filter(|record| record["status"].is_u64()).count();
    assert!(archived == answered && archived > 50, "{archived} of {answered}");
    let merged = fleet.run(&["merge", "results", "merged.crawl"]);
    assert!(merged.0, "{}", merged.1);
    // The folder and the crawl directory give the same pages from their archives.
    let text = |place: &str, format: &str| {
        let done = fleet.run(&["export", place, "--format", format]);
        assert!(done.0, "{place} {format}: {}", done.1);
        let mut lines: Vec<String> = done.1.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for format in ["markdown", "cdxj"] {
        let of_folder = text("results", format);
        assert!(of_folder.len() > 30, "{format}: {of_folder:?}");
        assert_eq!(of_folder, text("merged.crawl", format), "{format}");
    }
    let archives: Vec<_> =
        std::fs::read_dir(fleet.folder.path().join("merged.crawl/archive")).expect("there").collect();
    assert!(!archives.is_empty());
    for archive in archives {
        let file = std::fs::File::open(archive.expect("an entry").path()).expect("there");
        let mut start = String::new();
        let read = std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut start);
        assert!(read.is_ok() && start.contains("WARC-Type: warcinfo"), "{start}");
    }
    // Broken links count over all processes: this one fetches nothing.
    let output = fleet.command(&["--warc", "--fail-on", "broken"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "needs redis-server"]
fn killed_processes_lose_nothing_and_write_nothing_twice() {
    let cluster = RedisCluster::start();
    let kills = if is_long() { 100 } else { 6 };
    let practice = Practice::serve_with_headers(plan(2, 40, 8 + kills * 4));
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&roots)).collect();
    let mut dice = Dice::new(2);
    for _ in 0..kills {
        let target = practice.web.requests() + 10 + dice.roll(60);
        practice.web.wait_requests(target, Duration::from_secs(10));
        let pick = dice.roll(processes.len() as u64) as usize;
        let mut killed = std::mem::replace(&mut processes[pick], fleet.spawn(&roots));
        killed.kill().expect("it is killed");
        wait(&mut killed);
    }
    fleet.finish(processes);
    practice.check(&fleet.records());
    check_ownership(&practice, 0);
}

#[test]
#[ignore = "needs redis-server"]
fn a_process_paused_past_its_lease_does_no_harm() {
    let cluster = RedisCluster::start();
    let practice = Practice::serve_with_headers(GraphPlan { latency_us: (30_000, 90_000), ..plan(3, 30, 40) });
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&roots)).collect();
    practice.web.wait_requests(150, PATIENCE);
    signal(&processes[0], Signal::STOP);
    // Longer than its lease and the skew that the store tolerates.
    std::thread::sleep(Duration::from_secs(4));
    signal(&processes[0], Signal::CONT);
    fleet.finish(processes);
    practice.check(&fleet.records());
    // A worker thread that was stopped between its check of the lease and its request may still send that request.
    check_ownership(&practice, std::thread::available_parallelism().map_or(1, usize::from));
}

#[test]
#[ignore = "needs redis-server"]
fn primaries_that_die_lose_nothing() {
    let cluster = RedisCluster::start();
    let rounds = if is_long() { 20 } else { 1 };
    let practice =
        Practice::serve_with_headers(GraphPlan { latency_us: (30_000, 90_000), ..plan(4, 30, 20 + 20 * rounds) });
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&roots)).collect();
    for _ in 0..rounds {
        practice.web.wait_requests(practice.web.requests() + 80, Duration::from_secs(30));
        let Some(primary) = (0..fleet.cluster.len()).find(|index| fleet.cluster.is_primary(*index)) else { break };
        fleet.cluster.kill_node(primary);
        let until = Instant::now() + PATIENCE;
        let other = usize::from(primary == 0);
        let is_ok = |info: String| info.contains("cluster_state:ok");
        while !fleet.cluster.call(other, &["CLUSTER", "INFO"]).is_some_and(is_ok) {
            assert!(Instant::now() < until, "the cluster does not recover");
            std::thread::sleep(Duration::from_millis(50));
        }
        fleet.cluster.start_node(primary);
        fleet.cluster.wait_until_ready();
    }
    fleet.finish(processes);
    practice.check(&fleet.records());
    check_ownership(&practice, 0);
}

#[test]
#[ignore = "needs redis-server"]
fn the_limit_on_pages_is_exact_over_all_processes() {
    let cluster = RedisCluster::start();
    let practice = Practice::serve_with_headers(plan(5, 30, 20));
    let mut fleet = Fleet::new(cluster);
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.extend(["--max-pages", "123"]);
    let mut processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&arguments)).collect();
    practice.web.wait_requests(40, PATIENCE);
    let mut killed = processes.remove(0);
    killed.kill().expect("it is killed");
    wait(&mut killed);
    fleet.finish(processes);
    let pages = fleet.records().iter().filter(|record| record["type"] == "page").count();
    assert_eq!(pages, 123);
}

#[test]
#[ignore = "needs redis-server"]
fn a_process_leaves_on_a_signal_and_another_continues() {
    let cluster = RedisCluster::single();
    let practice = Practice::serve_with_headers(GraphPlan { latency_us: (20_000, 60_000), ..plan(6, 20, 20) });
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut first = fleet.spawn(&roots);
    practice.web.wait_requests(100, PATIENCE);
    signal(&first, Signal::TERM);
    assert_eq!(wait(&mut first).code(), Some(143), "{}", fleet.logs());
    let second = fleet.spawn(&[]);
    fleet.finish(vec![second]);
    practice.check(&fleet.records());
    check_ownership(&practice, 0);
    // Conflicting settings are rejected, and the message names them.
    for (more, words) in [
        (vec!["http://other.example/"], "its roots are"),
        (vec!["--depth", "3"], "--depth"),
        (vec!["--max-pages", "7"], "--max-pages"),
        (vec!["--jsonl", "x"], "--jsonl is not supported"),
        (vec!["--rate", "3/s"], "--rate"),
    ] {
        let output = fleet.command(&more).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {said}");
        assert!(said.contains(words), "{more:?}: {said}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_store_that_is_silent_for_longer_than_a_lease_is_waited_for() {
    let practice = Practice::serve_with_headers(GraphPlan { latency_us: (20_000, 60_000), ..plan(7, 20, 20) });
    let mut fleet = Fleet::new(RedisCluster::single());
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&roots)).collect();
    practice.web.wait_requests(100, PATIENCE);
    let server = fleet.cluster.pid(0).expect("it runs").to_string();
    let kill = |name: &str| assert!(Command::new("kill").args([name, &server]).status().expect("kill").success());
    kill("-STOP");
    fleet.wait_for_words("joining again");
    // Without a lease, no request is sent.
    let before = practice.web.requests();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(practice.web.requests(), before);
    kill("-CONT");
    fleet.finish(processes);
    practice.check(&fleet.records());
    check_ownership(&practice, 0);
}

#[test]
#[ignore = "needs redis-server"]
fn a_full_store_is_waited_for_and_nothing_is_lost() {
    let practice = Practice::serve_with_headers(GraphPlan { latency_us: (10_000, 30_000), ..plan(8, 20, 20) });
    let mut fleet = Fleet::new(RedisCluster::single());
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes = vec![fleet.spawn(&roots)];
    practice.web.wait_requests(60, PATIENCE);
    let memory = |most: &str| {
        let set = fleet.cluster.call(0, &["CONFIG", "SET", "maxmemory", most, "maxmemory-policy", "noeviction"]);
        assert_eq!(set.as_deref(), Some("OK\n"));
    };
    memory("500kb");
    fleet.wait_for_words("OOM");
    // Longer than a lease: leases are renewed although the store is full.
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(!fleet.logs().contains("joining again"), "{}", fleet.logs());
    memory("0");
    processes.push(fleet.spawn(&[]));
    fleet.finish(processes);
    practice.check(&fleet.records());
    let most = practice.requests().into_iter().max_by_key(|(_, count)| *count).expect("pages were asked for");
    assert_eq!(most.1, 1, "{} was asked for twice", most.0);
}

#[test]
#[ignore = "needs redis-server"]
fn the_rate_holds_over_all_processes() {
    let practice = Practice::serve_with_headers(plan(9, 12, 12));
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.extend(["--rate", "60/s"]);
    let processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&arguments)).collect();
    fleet.finish(processes);
    practice.check(&fleet.records());
    let log = practice.web.log();
    let mut starts: Vec<Duration> =
        log.iter().filter(|seen| !seen.path.starts_with("/robots.txt")).map(|seen| seen.start).collect();
    starts.sort();
    for (index, start) in starts.iter().enumerate() {
        let within = starts[index..].iter().take_while(|other| **other < *start + Duration::from_secs(1)).count();
        assert!(within <= 66, "{within} pages within a second");
    }
}

/// A folder with a certificate for 127.0.0.1 (`server.pem`), its key (`key.pem`) and its authority (`ca.pem`).
fn certificate_files() -> tempfile::TempDir {
    let files = tempfile::tempdir().expect("a folder");
    let authority = argiope_practice::TestAuthority::new().expect("an authority");
    let (certificate, key) = authority.issue(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    for (name, text) in [("server.pem", certificate), ("key.pem", key), ("ca.pem", authority.pem())] {
        std::fs::write(files.path().join(name), text).expect("written");
    }
    files
}

#[test]
#[ignore = "needs redis-server"]
fn tls_a_login_and_a_configuration_file_work() {
    let files = certificate_files();
    let path = |name: &str| files.path().join(name);
    let cluster = RedisCluster::guarded(ServerGuard {
        certificate: path("server.pem"),
        key: path("key.pem"),
        authority: path("ca.pem"),
        user: "worker".to_owned(),
        password: "s3cr3t".to_owned(),
    });
    let practice = Practice::serve_with_headers(plan(10, 4, 5));
    let address = |login: &str| format!("rediss://{login}@127.0.0.1:{}", cluster.port(0));
    let config = |login: &str| {
        let roots = practice.roots.iter().map(|root| format!("{root:?}")).collect::<Vec<_>>().join(", ");
        let text = format!(
            "roots = [{roots}]\nfrontier = \"{}\"\nname = \"guarded\"\nout = \"results\"\nscope = \"any\"\n\
             allow-private = true\nca-cert = \"{}\"\n",
            address(login),
            path("ca.pem").display()
        );
        std::fs::write(path("argiope.toml"), text).expect("written");
    };
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = command.current_dir(files.path()).args(arguments).output().expect("it runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!said.contains("s3cr3t"), "{said}");
        (output.status.code(), said)
    };
    config("worker:wrong-s3cr3t-word");
    let refused = run(&["crawl", "--config", "argiope.toml"]);
    assert!(refused.0 == Some(1) && refused.1.contains("store"), "{refused:?}");
    config("worker:s3cr3t");
    let done = run(&["crawl", "--config", "argiope.toml"]);
    assert_eq!(done.0, Some(0), "{}", done.1);
    let exported = run(&["export", "results", "--format", "jsonl", "-o", "all.jsonl"]);
    assert_eq!(exported.0, Some(0), "{}", exported.1);
    practice.check(&records(&path("all.jsonl")));
    let login = address("worker:s3cr3t");
    let status = run(&["fleet", "status", &login, "--name", "guarded", "--ca-cert", "ca.pem", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.1).expect("JSON");
    assert_eq!((&status["state"], &status["queued"]), (&"finished".into(), &0.into()), "{status}");
    let untrusted = run(&["fleet", "status", &login, "--name", "guarded"]);
    assert_eq!(untrusted.0, Some(1), "{}", untrusted.1);
    for (file, words) in [("results/fleet.json", "s3cr3t"), ("all.jsonl", "s3cr3t")] {
        assert!(!std::fs::read_to_string(path(file)).expect("there").contains(words), "{file}");
    }
    let alone = run(&["crawl", "http://127.0.0.1/", "--name", "x"]);
    assert!(alone.0 == Some(2) && alone.1.contains("--frontier"), "{alone:?}");
}

#[test]
#[ignore = "needs redis-server, moto"]
fn results_go_to_object_storage_and_are_read_from_there() {
    let server = S3Server::start("crawls");
    let practice = Practice::serve_with_headers(plan(11, 20, 10));
    let mut fleet = Fleet::new(RedisCluster::single());
    fleet.out = "s3://crawls/a/first".to_owned();
    fleet.environment = server.environment();
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&roots)).collect();
    practice.web.wait_requests(60, PATIENCE);
    let mut killed = std::mem::replace(&mut processes[0], fleet.spawn(&roots));
    killed.kill().expect("it is killed");
    wait(&mut killed);
    fleet.finish(processes);
    practice.check(&fleet.records());
    let root = practice.roots[0].as_str();
    for arguments in [&["report", &fleet.out][..], &["explain", &fleet.out, root], &["audit", &fleet.out]] {
        let done = fleet.run(arguments);
        assert!(!done.1.contains("error: ") && done.1.len() > 100, "{arguments:?}: {}", done.1);
    }
    let merged = fleet.run(&["merge", &fleet.out, "merged.crawl"]);
    assert!(merged.0, "{}", merged.1);
    let exported = fleet.run(&["export", "merged.crawl", "--format", "jsonl", "-o", "merged.jsonl"]);
    assert!(exported.0, "{}", exported.1);
    practice.check(&records(&fleet.folder.path().join("merged.jsonl")));
    // Credentials are neither in what the processes say nor in the objects.
    let listed = server.ask("GET", "/crawls?list-type=2&prefix=a/first");
    assert!(listed.contains("a/first/fleet.json") && listed.contains("a/first/settled/final.json"), "{listed}");
    let about = server.ask("GET", "/crawls/a/first/fleet.json");
    for text in [&fleet.logs(), &about, &merged.1] {
        assert!(!text.contains(SECRET) && !text.contains("AKIA"), "{text}");
    }
    // No upload is left half done.
    let uploads = server.ask("GET", "/crawls?uploads");
    assert!(uploads.starts_with("HTTP/1.1 200") && !uploads.contains("<UploadId>"), "{uploads}");
    // A prefix without results, and a bucket that does not exist, are named.
    for place in ["s3://crawls/none", "s3://absent/none"] {
        let none = fleet.run(&["report", place]);
        assert!(!none.0 && none.1.contains(place) && none.1.contains("no such object"), "{}", none.1);
    }
}

#[test]
#[ignore = "needs moto"]
fn object_storage_is_reached_over_tls_with_a_private_authority() {
    let files = certificate_files();
    let path = |name: &str| files.path().join(name);
    let (certificate, key, authority) = (path("server.pem"), path("key.pem"), path("ca.pem"));
    let server = S3Server::secure(S3Certificate { certificate, key, authority });
    let report = |environment: Vec<(&str, String)>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = command.args(["report", "s3://absent/x"]).envs(environment).output().expect("it runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let trusted = report(server.environment());
    assert!(trusted.contains("no such object"), "{trusted}");
    let mut environment = server.environment();
    environment.retain(|(name, _)| *name != "AWS_CA_BUNDLE");
    let untrusted = report(environment);
    assert!(untrusted.contains("certificate") && !untrusted.contains("no such object"), "{untrusted}");
}

#[test]
#[ignore = "needs redis-server"]
fn the_limit_on_requests_at_one_address_holds_over_all_processes() {
    let site = Site::http("127.0.0.1:0").expect("a port");
    let port = site.address().port();
    let hosts: Vec<String> = (0..24).map(|number| format!("h{number}.test")).collect();
    let links: String = (0..6).map(|number| format!("<a href=\"/{number}\">x</a>")).collect();
    let page = Response::html(links).delay(Duration::from_millis(60));
    let web = PracticeWeb::new().site(site.fallback(page)).start().expect("a server");
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<String> = hosts.iter().map(|host| format!("http://{host}:{port}/")).collect();
    for host in &hosts {
        arguments.extend(["--resolve".to_owned(), format!("{host}:{port}:127.0.0.1")]);
    }
    arguments.extend(["--per-ip", "4", "--no-sitemap", "--max-pages-per-host", "3"].map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&arguments)).collect();
    fleet.finish(processes);
    // Robots.txt requests count as well.
    let log = web.log();
    let in_flight_at =
        |at: Duration| log.iter().filter(|seen| seen.start <= at && seen.end.is_none_or(|end| end > at)).count();
    let most = log.iter().map(|seen| in_flight_at(seen.start)).max().unwrap_or(0);
    assert!((2..=4).contains(&most), "{most} requests in flight at one address");
    // The root and three links of each host.
    let records = fleet.records();
    let of_host = |host: &str| {
        let start = format!("http://{host}:");
        let is_page = |record: &&serde_json::Value| record["type"] == "page";
        records
            .iter()
            .filter(is_page)
            .filter(|record| record["url"].as_str().is_some_and(|url| url.starts_with(&start)))
            .count()
    };
    for host in &hosts {
        assert_eq!(of_host(host), 4, "{host}");
    }
}
