//! One crawl by several processes on a real Redis cluster. Processes join, and are killed, paused and interrupted.
//!
//! The tests check mainly the server logs and the records. Every process sends its number in the header `X-Process`, so
//! that the log shows which process sent a request.

#[path = "../durable_kit/mod.rs"]
mod durable_kit;
mod kit;
mod limits;
mod losses;
mod objects;
mod planted;
mod politeness;
mod recrawl;
mod status;
mod steering;

use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use argiope_practice::{GraphPlan, PracticeWeb, Response, Site};
use argiope_testkit::redis_cluster::{RedisCluster, ServerAccess};
use durable_kit::{GraphWeb, SeededRng, TIMEOUT, is_long, records, signal, wait};
use kit::{Fleet, certificate_files, check_ownership, plan, processes_of_connections};
use rustix::process::Signal;

#[test]
#[ignore = "needs redis-server"]
fn four_processes_crawl_the_same_pages_as_one() {
    let cluster = RedisCluster::start();
    let practice = GraphWeb::serve_with_headers(plan(1, 60, 20));
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes = vec![fleet.spawn(&roots)];
    for _ in 0..3 {
        // With the same roots, these processes join the crawl. Without roots, they would send no headers.
        processes.push(fleet.spawn(&roots));
    }
    fleet.finish(processes);
    assert!(!fleet.logs().contains("error: "), "{}", fleet.logs());
    practice.check(&fleet.records());
    let most_requested = practice.requests().into_iter().max_by_key(|(_, count)| *count).expect("pages were requested");
    assert_eq!(most_requested.1, 1, "{} was requested twice", most_requested.0);
    check_ownership(&practice, 0);
    let status = fleet.run(&["fleet", "status", &fleet.cluster.address(), "--name", "test"]);
    assert!(status.0 && status.1.contains("test: finished") && status.1.ends_with('\n'), "{}", status.1);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("the device");
    let mut unwritable = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
    unwritable.args(["fleet", "status", &fleet.cluster.address(), "--name", "test"]).stdout(full);
    assert_eq!(unwritable.output().expect("the command runs").status.code(), Some(1));
    // The results form one crawl directory and do not need the store.
    let removed = fleet.run(&["fleet", "remove", &fleet.cluster.address(), "--name", "test", "--yes"]);
    assert!(removed.0, "{}", removed.1);
    let merged = fleet.run(&["merge", "results", "merged.crawl"]);
    assert!(merged.0, "{}", merged.1);
    let exported = fleet.run(&["export", "merged.crawl", "--format", "jsonl", "-o", "merged.jsonl"]);
    assert!(exported.0, "{}", exported.1);
    practice.check(&records(&fleet.folder.path().join("merged.jsonl")));
    // All commands give the same answers for the result folder and for the merged crawl directory.
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
    let redirected = fleet.records().into_iter().find(|record| record["redirect"].is_string());
    let redirected = redirected.expect("a page redirects")["url"].as_str().expect("a URL").to_owned();
    let explain = |place: &str| fleet.run(&["explain", place, &redirected]);
    assert_eq!(explain("results"), explain("merged.crawl"));
    let again = fleet.run(&["merge", "results", "merged.crawl"]);
    assert!(!again.0 && again.1.contains("exists already"), "{}", again.1);
    // The merged directory can be recrawled: all pages are known and unchanged.
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
    let practice = GraphWeb::serve_with_headers(plan(12, 10, 12));
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.push("--warc");
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&arguments)).collect();
    assert!(practice.web.wait_requests(50, TIMEOUT));
    let mut killed = processes.remove(0);
    killed.kill().expect("the process is killed");
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
    // What an interrupted merge left is replaced.
    let path = |name: &str| fleet.folder.path().join(name);
    std::fs::rename(path("merged.crawl"), path("again.crawl.merging")).expect("renamed");
    let again = fleet.run(&["merge", "results", "again.crawl"]);
    assert!(again.0 && path("again.crawl").is_dir() && !path("again.crawl.merging").exists(), "{}", again.1);
    // Broken links count over all processes: this one fetches nothing.
    let output = fleet.command(&["--warc", "--fail-on", "broken"]).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && stderr.contains("\nBroken links ("), "{stderr}");
}

#[test]
#[ignore = "needs redis-server"]
fn broken_links_are_listed_once() {
    let site = Site::http("127.0.0.1:0").expect("a port").robots("").page("/", Response::links(["/missing"]));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let fleet = Fleet::new(RedisCluster::single());
    let output =
        fleet.command(&[&root, "-q", "--no-sitemap", "--fail-on", "broken"]).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), stderr.matches("Broken links (1)").count()), (Some(3), 1), "{stderr}");
}

#[test]
#[ignore = "needs redis-server"]
fn the_dashboard_of_a_process_has_the_name_of_the_crawl() {
    let practice = GraphWeb::serve(plan(1, 4, 20));
    let mut fleet = Fleet::new(RedisCluster::single());
    // So slow that the crawl does not end before the request.
    let mut process = fleet.spawn(&[&practice.roots[0], "--rate", "1/s", "--serve", "127.0.0.1:0"]);
    fleet.wait_for_log("serving http://");
    let logs = fleet.logs();
    let address = logs.lines().find_map(|line| line.strip_prefix("serving http://")?.strip_suffix('/'));
    let address = address.expect("the address of the dashboard");
    let mut stream = std::net::TcpStream::connect(address).expect("a server");
    write!(stream, "GET /api/v1/status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("a server");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("UTF-8");
    assert!(response.contains("\"name\":\"test\""), "{response}");
    signal(&process, Signal::TERM);
    assert_eq!(wait(&mut process).code(), Some(143), "{}", fleet.logs());
}

#[test]
#[ignore = "needs redis-server"]
fn every_page_is_recorded_once_although_processes_are_killed() {
    let cluster = RedisCluster::start();
    let kills = if is_long() { 100 } else { 6 };
    let practice = GraphWeb::serve_with_headers(plan(2, 40, 8 + kills * 4));
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&roots)).collect();
    let mut rng = SeededRng::new(2);
    for _ in 0..kills {
        let target = practice.web.requests() + 10 + rng.below(60);
        assert!(practice.web.wait_requests(target, TIMEOUT));
        let pick = rng.below(processes.len() as u64) as usize;
        let mut killed = std::mem::replace(&mut processes[pick], fleet.spawn(&roots));
        killed.kill().expect("the process is killed");
        wait(&mut killed);
    }
    fleet.finish(processes);
    practice.check(&fleet.records());
    check_ownership(&practice, 0);
}

#[test]
#[ignore = "needs redis-server"]
fn a_process_that_was_paused_past_its_lease_sends_no_requests_for_it() {
    let cluster = RedisCluster::start();
    let practice = GraphWeb::serve_with_headers(GraphPlan { latency_us: (30_000, 90_000), ..plan(3, 30, 40) });
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    // The first process has hosts before the second joins.
    let first = fleet.spawn(&roots);
    assert!(practice.web.wait_requests(50, TIMEOUT));
    let processes = vec![first, fleet.spawn(&roots)];
    assert!(practice.web.wait_requests(150, TIMEOUT));
    signal(&processes[0], Signal::STOP);
    // Longer than its lease and the skew that the store tolerates.
    std::thread::sleep(Duration::from_secs(4));
    let deadline = Instant::now() + TIMEOUT;
    // The number of requests after a change of ownership is not limited, because a process that joins
    // again gets hosts back.
    while check_ownership(&practice, usize::MAX) == 0 {
        assert!(Instant::now() < deadline, "the second process takes no hosts over");
        std::thread::sleep(Duration::from_millis(20));
    }
    let resumed_at = practice.web.log().last().expect("the other process sends requests").start;
    signal(&processes[0], Signal::CONT);
    fleet.finish(processes);
    practice.check(&fleet.records());
    // The process joins again and may then get hosts back, but not before two surveys, which take a second.
    let log = practice.web.log();
    let connections = processes_of_connections(&log);
    let is_early = |start: Duration| start > resumed_at && start < resumed_at + Duration::from_secs(1);
    let is_first = |connection: &u64| connections.get(connection).is_some_and(|process| process == "1");
    let early = log.iter().filter(|seen| is_early(seen.start) && is_first(&seen.connection)).count();
    // A worker thread that was stopped between its check of the lease and its request may still send that request.
    let tolerated = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(early <= tolerated, "{early} requests without a lease");
}

#[test]
#[ignore = "needs redis-server"]
fn no_page_is_lost_if_a_primary_of_the_store_dies() {
    let cluster = RedisCluster::start();
    let node_deaths = if is_long() { 20 } else { 1 };
    let practice =
        GraphWeb::serve_with_headers(GraphPlan { latency_us: (30_000, 90_000), ..plan(4, 30, 20 + 20 * node_deaths) });
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&roots)).collect();
    for deaths in 0..node_deaths {
        practice.wait_for(practice.web.requests() + 80, &mut processes[0]);
        if processes[0].try_wait().expect("the state of the process can be read").is_some() {
            assert!(deaths > node_deaths / 2, "only {deaths} deaths before the crawl finished: the site is too small");
            break;
        }
        let Some(primary) = (0..fleet.cluster.len()).find(|index| fleet.cluster.is_primary(*index)) else { break };
        fleet.cluster.kill_node(primary);
        let until = Instant::now() + TIMEOUT;
        // The index of a node that is alive.
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
    let practice = GraphWeb::serve_with_headers(plan(5, 30, 20));
    let mut fleet = Fleet::new(cluster);
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.extend(["--max-pages", "123"]);
    let mut processes: Vec<Child> = (0..3).map(|_| fleet.spawn(&arguments)).collect();
    assert!(practice.web.wait_requests(40, TIMEOUT));
    let mut killed = processes.remove(0);
    killed.kill().expect("the process is killed");
    wait(&mut killed);
    fleet.finish(processes);
    let pages = fleet.records().iter().filter(|record| record["type"] == "page").count();
    assert_eq!(pages, 123);
}

#[test]
#[ignore = "needs redis-server"]
fn a_signal_ends_a_process_that_waits_for_a_crawl() {
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut waiting = fleet.spawn(&[]);
    fleet.wait_for_log("waiting up to 60 s");
    signal(&waiting, Signal::INT);
    assert_eq!(wait(&mut waiting).code(), Some(130), "{}", fleet.logs());
}

#[test]
#[ignore = "needs redis-server"]
fn another_process_continues_after_one_is_interrupted() {
    let cluster = RedisCluster::single();
    let practice = GraphWeb::serve_with_headers(GraphPlan { latency_us: (20_000, 60_000), ..plan(6, 20, 20) });
    let mut fleet = Fleet::new(cluster);
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut first = fleet.spawn(&roots);
    assert!(practice.web.wait_requests(100, TIMEOUT));
    signal(&first, Signal::TERM);
    assert_eq!(wait(&mut first).code(), Some(143), "{}", fleet.logs());
    let second = fleet.spawn(&roots);
    fleet.finish(vec![second]);
    practice.check(&fleet.records());
    check_ownership(&practice, 0);
    // Conflicting settings are rejected, and the message names them.
    for (more, words) in [
        (vec!["http://other.example/"], "its roots are"),
        (vec!["--depth", "3"], "--depth"),
        (vec!["--max-pages", "7"], "--max-pages"),
        (vec!["--jsonl", "x"], "--jsonl is not supported"),
        (vec!["--log-skips"], "--log-skips is not supported"),
        (vec!["--max-pages-per-host", "3"], "--max-pages-per-host"),
    ] {
        let output = fleet.command(&more).output().expect("the command runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(stderr.contains(words), "{more:?}: {stderr}");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn processes_wait_for_a_store_that_is_silent_longer_than_a_lease() {
    let practice = GraphWeb::serve_with_headers(GraphPlan { latency_us: (20_000, 60_000), ..plan(7, 20, 20) });
    let mut fleet = Fleet::new(RedisCluster::single());
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&roots)).collect();
    assert!(practice.web.wait_requests(100, TIMEOUT));
    let server = fleet.cluster.pid(0).expect("the server runs").to_string();
    let kill = |name: &str| assert!(Command::new("kill").args([name, &server]).status().expect("kill").success());
    kill("-STOP");
    fleet.wait_for_log("joining again");
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
fn processes_wait_for_a_full_store_and_no_page_is_lost() {
    let practice = GraphWeb::serve_with_headers(GraphPlan { latency_us: (10_000, 30_000), ..plan(8, 20, 20) });
    let mut fleet = Fleet::new(RedisCluster::single());
    // A busy machine may delay the renewal of a lease by some seconds.
    fleet.lease = 8;
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let mut processes = vec![fleet.spawn(&roots)];
    assert!(practice.web.wait_requests(60, TIMEOUT));
    let set_max_memory = |limit: &str| {
        let set = fleet.cluster.call(0, &["CONFIG", "SET", "maxmemory", limit, "maxmemory-policy", "noeviction"]);
        assert_eq!(set.as_deref(), Some("OK\n"));
    };
    set_max_memory("500kb");
    fleet.wait_for_log("OOM");
    // Longer than a lease: leases are renewed although the store is full.
    std::thread::sleep(Duration::from_secs(9));
    assert!(!fleet.logs().contains("joining again"), "{}", fleet.logs());
    set_max_memory("0");
    processes.push(fleet.spawn(&[]));
    fleet.finish(processes);
    practice.check(&fleet.records());
    let most_requested = practice.requests().into_iter().max_by_key(|(_, count)| *count).expect("pages were requested");
    assert_eq!(most_requested.1, 1, "{} was requested twice", most_requested.0);
}

#[test]
#[ignore = "needs redis-server"]
fn tls_a_login_and_a_configuration_file_work() {
    let files = certificate_files();
    let path = |name: &str| files.path().join(name);
    let cluster = RedisCluster::with_tls_and_login(ServerAccess {
        certificate: path("server.pem"),
        key: path("key.pem"),
        authority: path("ca.pem"),
        user: "worker".to_owned(),
        password: "s3cr3t".to_owned(),
    });
    let practice = GraphWeb::serve_with_headers(plan(10, 4, 5));
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
        let output = command.current_dir(files.path()).args(arguments).output().expect("the command runs");
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!printed.contains("s3cr3t"), "{printed}");
        (output.status.code(), printed)
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
#[ignore = "needs redis-server, mount"]
fn a_process_whose_disk_is_full_ends_and_another_takes_its_hosts_over() {
    let practice = GraphWeb::serve_with_headers(plan(9, 20, 20));
    let mut fleet = Fleet::new(RedisCluster::single());
    std::fs::create_dir_all(fleet.folder.path().join("results/records")).expect("a folder");
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    // This process has a small file system in place of the folder of records.
    let mut full = fleet.spawn_after("mount -t tmpfs -o size=4k none results/records", &roots);
    assert!(practice.web.wait_requests(60, TIMEOUT));
    let other = fleet.spawn(&[]);
    assert_eq!(wait(&mut full).code(), Some(1), "{}", fleet.logs());
    assert!(fleet.logs().contains("results cannot be written: No space left on device"), "{}", fleet.logs());
    fleet.finish(vec![other]);
    practice.check(&fleet.records());
}

#[test]
#[ignore = "needs redis-server, mount"]
fn a_merge_to_a_full_disk_leaves_no_directory_and_can_be_repeated() {
    let practice = GraphWeb::serve_with_headers(plan(10, 10, 20));
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    roots.push("--warc");
    let process = fleet.spawn(&roots);
    fleet.finish(vec![process]);
    std::fs::create_dir(fleet.folder.path().join("disk")).expect("a folder");
    // With more space each time: full in the log, then in the archive.
    let script = "mount -t tmpfs -o size=16k none disk || exit 77; size=16; \
        while ! \"$0\" merge results disk/m.crawl; do \
            test ! -e disk/m.crawl || exit 78; size=$((size + 24)); mount -o remount,size=${size}k disk; \
        done; \
        \"$0\" export disk/m.crawl --format jsonl -o all.jsonl";
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "/bin/sh", "-c", script, env!("CARGO_BIN_EXE_argiope")]);
    let output = unshare.current_dir(fleet.folder.path()).output().expect("unshare runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {stderr}", output.status);
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(errors.iter().all(|error| error.contains("No space left on device")), "{stderr}");
    for words in ["disk/m.crawl.merging/log/", "archive/", "cannot be copied"] {
        assert!(errors.iter().any(|error| error.contains(words)), "{words}: {stderr}");
    }
    practice.check(&records(&fleet.folder.path().join("all.jsonl")));
}

#[test]
#[ignore = "needs redis-server"]
fn a_fleet_whose_roots_give_no_page_exits_with_4() {
    let fleet = Fleet::new(RedisCluster::single());
    let site = Site::http("127.6.60.9:0").expect("a loopback address").fallback(Response::status(404));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    // A port without a server, on which the crawl of a directory could succeed later.
    let closed = format!(
        "http://{}/",
        std::net::TcpListener::bind("127.6.60.9:0").and_then(|port| port.local_addr()).expect("a port")
    );
    // The second process finds the crawl finished.
    for _ in 0..2 {
        let output = fleet.command(&[&root, &closed, "--max-tries", "1"]).output().expect("the command runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{stderr}");
        assert!(!stderr.contains("run the same command"), "{stderr}");
    }
}
