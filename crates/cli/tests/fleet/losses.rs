//! A store that loses the crawl, results that lose files, and commands that would lose URLs.

use std::process::Child;
use std::time::Duration;

use argiope_practice::{GraphPlan, PracticeWeb, Response, Site};
use argiope_testkit::redis_cluster::{RedisCluster, ServerAccess};

use crate::durable_kit::{GraphWeb, TIMEOUT, wait};
use crate::kit::{Fleet, certificate_files, plan};

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_that_the_store_lost_is_restored_from_its_results() {
    // So slow that the first segments are settled long before the end.
    let practice = GraphWeb::serve_with_headers(GraphPlan { latency_us: (200_000, 400_000), ..plan(31, 12, 30) });
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.extend(["--per-host", "1"]);
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&arguments)).collect();
    let positions = fleet.folder.path().join("results/settled");
    let deadline = std::time::Instant::now() + TIMEOUT;
    while std::fs::read_dir(&positions).map_or(0, Iterator::count) < 2 {
        assert!(std::time::Instant::now() < deadline, "no results:\n{}", fleet.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fleet.cluster.call(0, &["FLUSHALL"]).as_deref(), Some("OK\n"));
    for process in &mut processes {
        assert_eq!(wait(process).code(), Some(1), "{}", fleet.logs());
    }
    assert!(fleet.logs().contains("argiope fleet restore"), "{}", fleet.logs());
    let address = fleet.cluster.address();
    // The same command, as a supervisor repeats it, does not start the crawl anew.
    let again = fleet.command(&arguments).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(1) && stderr.contains("argiope fleet restore"), "{stderr}");
    let restored = fleet.run(&["fleet", "restore", &address, "--name", "test", "--out", "results"]);
    assert!(restored.0 && restored.1.contains("settled"), "{}", restored.1);
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&arguments)).collect();
    fleet.finish(processes);
    practice.check(&fleet.records());
    let finished = fleet.run(&["fleet", "restore", &address, "--name", "test", "--out", "results"]);
    assert!(!finished.0 && finished.1.contains("is finished"), "{}", finished.1);
}

#[test]
#[ignore = "needs redis-server"]
fn readers_notice_a_deleted_segment() {
    let practice = GraphWeb::serve_with_headers(plan(32, 4, 6));
    let mut fleet = Fleet::new(RedisCluster::single());
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let process = fleet.spawn(&roots);
    fleet.finish(vec![process]);
    let segments = fleet.folder.path().join("results/records");
    let segment = std::fs::read_dir(&segments).expect("there").next().expect("a segment").expect("an entry");
    std::fs::remove_file(segment.path()).expect("removed");
    for command in [&["export", "results", "--format", "jsonl"][..], &["report", "results"], &["merge", "results", "a"]]
    {
        let (is_success, printed) = fleet.run(command);
        assert!(!is_success && printed.contains("--allow-missing"), "{command:?}: {printed}");
    }
    let merged = fleet.run(&["merge", "--allow-missing", "results", "rest.crawl"]);
    assert!(merged.0, "{}", merged.1);
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_with_queued_urls_is_not_removed_unasked() {
    let practice = GraphWeb::serve_with_headers(plan(33, 6, 6));
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.extend(["--max-pages", "10"]);
    let process = fleet.spawn(&arguments);
    fleet.finish(vec![process]);
    let address = fleet.cluster.address();
    let remove = ["fleet", "remove", &address, "--name", "test", "--yes"];
    let refused = fleet.run(&remove);
    assert!(!refused.0 && refused.1.contains("--unfinished"), "{}", refused.1);
    let removed = fleet.run(&[&remove[..], &["--unfinished"]].concat());
    assert!(removed.0, "{}", removed.1);
}

#[test]
#[ignore = "needs redis-server"]
fn no_request_starts_while_results_cannot_be_stored() {
    let paths: Vec<String> = (0..3_000).map(|number| format!("/{number}")).collect();
    let site = Site::http("127.0.0.1:0").expect("a port").robots("").page("/", Response::links(&paths));
    let root = site.url("/");
    let page = Response::html("<p>x").delay(Duration::from_millis(10));
    let web = PracticeWeb::new().site(site.fallback(page)).start().expect("a server");
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut process = fleet.spawn(&[&root, "--no-sitemap", "--rate", "30/s"]);
    assert!(web.wait_requests(20, TIMEOUT));
    // A folder of this name cannot become a file, so no segment can be written.
    let records = fleet.folder.path().join("results/records");
    let _ = std::fs::remove_dir_all(&records);
    std::fs::write(&records, "").expect("written");
    fleet.wait_for_log("results are kept");
    // What was in flight ends. The number of requests then stays the same.
    std::thread::sleep(Duration::from_secs(1));
    let before = web.requests();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(web.requests(), before, "{}", fleet.logs());
    process.kill().expect("the process is killed");
    wait(&mut process);
}

#[test]
#[ignore = "needs redis-server"]
fn errors_of_the_store_name_the_remedy() {
    let files = certificate_files();
    let path = |name: &str| files.path().join(name);
    let cluster = RedisCluster::with_tls_and_login(ServerAccess {
        certificate: path("server.pem"),
        key: path("key.pem"),
        authority: path("ca.pem"),
        user: "worker".to_owned(),
        password: "s3cr3t".to_owned(),
    });
    let plain = RedisCluster::single();
    let run = |address: &str, more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.current_dir(files.path()).args(["fleet", "status", address, "--name", "x"]).args(more);
        let output = command.output().expect("the command runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let tls = |login: &str| format!("rediss://{login}@127.0.0.1:{}", cluster.port(0));
    let (ca, port) = (["--ca-cert", "ca.pem"], cluster.port(0));
    for (address, more, words) in [
        (tls("worker:wrong"), &ca[..], "--frontier-password-file"),
        (format!("rediss://127.0.0.1:{port}"), &ca[..], "--frontier-password-file"),
        (tls("worker:s3cr3t"), &[], "--ca-cert"),
        (format!("redis://127.0.0.1:{port}"), &[], "rediss://"),
        (format!("rediss://127.0.0.1:{}", plain.port(0)), &ca[..], "write redis://"),
    ] {
        let (code, message) = run(&address, more);
        assert!(code == Some(1) && message.contains(words), "{address}: {message}");
        assert!(!message.contains("Server(") && !message.contains("{ "), "a debug text: {message}");
    }
    // A user who may do too little.
    let rule = ["ACL", "SETUSER", "reader", "on", "nopass", "~*", "+info"];
    assert_eq!(plain.call(0, &rule).as_deref(), Some("OK\n"));
    let (code, message) = run(&format!("redis://reader:x@127.0.0.1:{}", plain.port(0)), &[]);
    assert!(code == Some(1) && message.contains("ACL"), "{message}");
}

#[test]
#[ignore = "needs redis-server"]
fn the_documented_permissions_are_enough() {
    let text = include_str!("../../../../docs/fleet/operations.md");
    let rule = text.lines().map(str::trim).find(|line| line.starts_with("ACL SETUSER")).expect("a rule");
    let rule = rule.replace("PASSWORD", "s3cr3t");
    let practice = GraphWeb::serve_with_headers(plan(34, 6, 5));
    for fleet in [Fleet::new(RedisCluster::single()), Fleet::new(RedisCluster::start())] {
        for index in 0..fleet.cluster.len() {
            let set = fleet.cluster.call(index, &rule.split(' ').collect::<Vec<_>>());
            assert_eq!(set.as_deref(), Some("OK\n"), "{rule}");
        }
        let address = fleet.cluster.address().replace("redis://", "redis://argiope:s3cr3t@");
        let mut crawl =
            vec!["crawl", "--frontier", &address, "--name", "example", "--out", "results", "--buckets", "64"];
        crawl.extend(["--scope", "any", "--allow-private", "--pace", "full", "-q"]);
        crawl.extend(practice.roots.iter().map(String::as_str));
        let of_crawl = |action: &'static str| ["fleet", action, &address, "--name", "example"];
        for command in [
            crawl.clone(),
            [&crawl[..], &["--recrawl"]].concat(),
            of_crawl("status").to_vec(),
            vec!["ctl", &address, "--name", "example", "pause"],
            [&of_crawl("remove")[..], &["--yes"]].concat(),
        ] {
            let (is_success, printed) = fleet.run(&command);
            assert!(is_success, "{command:?}: {printed}");
        }
    }
}

#[test]
fn rendering_is_refused_in_a_fleet() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.args(["crawl", "http://127.0.0.1/", "--frontier", "redis://127.0.0.1:1", "--name", "x", "--out", "x"]);
    let output = command.args(["--render", "always"]).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && stderr.contains("other processes own"), "{stderr}");
}
