//! Changes to a running crawl, and crawls that continue after a limit.

use std::process::Child;
use std::time::Duration;

use argiope_practice::GraphPlan;
use argiope_testkit::redis_cluster::RedisCluster;
use serde_json::Value;

use crate::durable_kit::{GraphWeb, TIMEOUT, wait};
use crate::kit::{Fleet, plan};

impl Fleet {
    /// Runs `argiope ctl` on the crawl.
    fn ctl(&self, action: &[&str]) {
        let address = self.cluster.address();
        let (is_success, printed) = self.run(&[&["ctl", &address, "--name", "test"][..], action].concat());
        assert!(is_success, "{action:?}: {printed}");
    }
}

fn slow_web(seed: u64, latency_us: (u64, u64)) -> GraphWeb {
    GraphWeb::serve_with_headers(GraphPlan { latency_us, ..plan(seed, 12, 20) })
}

fn pages(records: &[Value]) -> usize {
    records.iter().filter(|record| record["type"] == "page").count()
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_at_its_limit_of_pages_continues_with_a_higher_one() {
    let practice = slow_web(41, (30_000, 60_000));
    let mut fleet = Fleet::new(RedisCluster::single());
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let with_limit = |limit: &'static str| [&roots[..], &["--max-pages", limit]].concat();
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&with_limit("30"))).collect();
    fleet.finish(processes);
    assert_eq!(pages(&fleet.records()), 30);
    let lower = fleet.command(&with_limit("20")).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&lower.stderr).into_owned();
    assert!(lower.status.code() == Some(2) && stderr.contains("raised only"), "{stderr}");
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&with_limit("70"))).collect();
    fleet.finish(processes);
    assert_eq!(pages(&fleet.records()), 70, "{}", fleet.logs());
    // A supervisor repeats the first command: that changes nothing.
    let repeated = fleet.spawn(&with_limit("30"));
    fleet.finish(vec![repeated]);
    assert_eq!(pages(&fleet.records()), 70);
    let process = fleet.spawn(&with_limit("100000"));
    fleet.finish(vec![process]);
    practice.check(&fleet.records());
    let report = fleet.run(&["report", "results"]);
    assert!(report.0 && report.1.contains("Finished after"), "{}", report.1);
}

#[test]
#[ignore = "needs redis-server"]
fn a_crawl_at_its_limit_of_time_continues_with_a_longer_one() {
    let practice = slow_web(42, (200_000, 400_000));
    let mut fleet = Fleet::new(RedisCluster::single());
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    let first = [&roots[..], &["--max-time", "3s", "--per-host", "1"]].concat();
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&first)).collect();
    fleet.finish(processes);
    let status = fleet.run(&["fleet", "status", &fleet.cluster.address(), "--name", "test"]);
    assert!(status.0 && status.1.contains("the limit of time is reached"), "{}", status.1);
    let report = fleet.run(&["report", "results"]);
    assert!(report.0 && report.1.contains("time"), "{}", report.1);
    let longer = [&roots[..], &["--max-time", "10m", "--per-host", "1"]].concat();
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&longer)).collect();
    fleet.finish(processes);
    practice.check(&fleet.records());
}

#[test]
#[ignore = "needs redis-server"]
fn ctl_changes_all_processes_of_a_crawl() {
    let practice = slow_web(43, (30_000, 60_000));
    let mut fleet = Fleet::new(RedisCluster::single());
    let mut arguments: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    arguments.extend(["--per-host", "1"]);
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&arguments)).collect();
    assert!(practice.web.wait_requests(40, TIMEOUT));
    fleet.ctl(&["pause"]);
    // Processes read changes twice a second with the leases of these tests, and requests in flight end.
    std::thread::sleep(Duration::from_secs(2));
    let before = practice.web.requests();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(practice.web.requests(), before, "{}", fleet.logs());
    fleet.ctl(&["rate", "500/s"]);
    let status = fleet.run(&["fleet", "status", &fleet.cluster.address(), "--name", "test", "--json"]);
    let status: Value = serde_json::from_str(&status.1).expect("JSON");
    assert_eq!((&status["orders"]["is_paused"], &status["orders"]["rate"]), (&true.into(), &500.0.into()), "{status}");
    fleet.ctl(&["resume"]);
    assert!(practice.web.wait_requests(before + 10, TIMEOUT), "{}", fleet.logs());
    fleet.ctl(&["stop"]);
    for process in &mut processes {
        assert_eq!(wait(process).code(), Some(0), "{}", fleet.logs());
    }
    let stopped = fleet.command(&arguments).output().expect("the command runs");
    let stderr = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert!(stopped.status.code() == Some(0) && stderr.contains("stopped"), "{stderr}");
    let bad = fleet.run(&["ctl", &fleet.cluster.address(), "--name", "test", "exclude", "("]);
    assert!(!bad.0 && !bad.1.is_empty(), "{}", bad.1);
    fleet.ctl(&["resume"]);
    let processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&arguments)).collect();
    fleet.finish(processes);
    practice.check(&fleet.records());
}
