//! `argiope fleet status`: rates of processes, and warnings.

use std::process::Child;
use std::time::{Duration, Instant};

use argiope_practice::{PracticeWeb, Response, Site};
use argiope_testkit::redis_cluster::RedisCluster;
use serde_json::Value;

use crate::durable_kit::{TIMEOUT, wait};
use crate::kit::Fleet;

impl Fleet {
    fn status(&self) -> Value {
        let (_, json) = self.run(&["fleet", "status", &self.cluster.address(), "--name", "test", "--json"]);
        serde_json::from_str(&json).unwrap_or_default()
    }

    /// Polls the status until a condition holds.
    fn wait_for_status(&self, what: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + TIMEOUT;
        loop {
            let status = self.status();
            if is_met(&status) {
                return status;
            }
            assert!(Instant::now() < until, "never {what}: {status}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Whether the status has a warning of this kind.
fn has_warning(status: &Value, kind: &str) -> bool {
    status["stuck"].as_array().is_some_and(|stuck| stuck.iter().any(|warning| warning["kind"] == kind))
}

#[test]
#[ignore = "needs redis-server"]
fn the_status_has_rates_and_warnings() {
    let mut site = Site::http("0.0.0.0:0").expect("a port").robots("");
    let port = site.address().port();
    // More pages than a slow machine fetches before the processes are killed: the queue must not run empty.
    let paths: Vec<String> = (0..2000).map(|number| format!("/{number}")).collect();
    for path in &paths {
        site = site.page(path, Response::html("<p>x").delay(Duration::from_millis(50)));
    }
    let busy = Response::status(503).header("Retry-After", "50");
    // Only one host gets requests for this page, so that its name is the one in the status.
    let site = site.page("/", Response::links(&paths)).page("/busy", busy);
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let mut fleet = Fleet::new(RedisCluster::single());
    let roots: Vec<String> = (1..=8).map(|number| format!("http://127.0.0.{number}:{port}/")).collect();
    let mut arguments: Vec<&str> = roots.iter().map(String::as_str).collect();
    let busy = format!("http://127.0.0.9:{port}/busy");
    arguments.extend([busy.as_str(), "--no-sitemap", "--per-host", "1"]);
    let mut processes: Vec<Child> = (0..2).map(|_| fleet.spawn(&arguments)).collect();
    let running = fleet.wait_for_status("two processes with pages", |status| {
        let processes = status["processes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let works = |process: &Value| process["pages_per_second"].as_f64().is_some_and(|rate| rate > 0.0);
        processes.len() == 2 && processes.iter().all(works) && has_warning(status, "resting_hosts")
    });
    assert_eq!((&running["state"], &running["round"]), (&"running".into(), &1.into()), "{running}");
    assert!(running["processes"][0]["pages"].as_u64() > Some(0) && running["processes"][0]["lease_ms"].is_u64());
    let text = fleet.run(&["fleet", "status", &fleet.cluster.address(), "--name", "test"]);
    assert!(text.1.contains("in back-off; 127.0.0.9 waits"), "{}", text.1);
    for process in &mut processes {
        process.kill().expect("the process is killed");
        wait(process);
    }
    let stuck = fleet.wait_for_status("free buckets", |status| {
        has_warning(status, "no_owner") && has_warning(status, "silent_process")
    });
    assert!(stuck["queued"].as_u64() > Some(100), "{stuck}");
    let set = fleet.cluster.call(0, &["CONFIG", "SET", "maxmemory", "1mb"]);
    assert_eq!(set.as_deref(), Some("OK\n"));
    assert!(has_warning(&fleet.status(), "store_memory"), "{}", fleet.status());
    assert!(web.requests() > 20);
}

#[test]
#[ignore = "needs redis-server"]
fn processes_that_join_get_even_shares_of_the_hosts() {
    let paths: Vec<String> = (0..400).map(|number| format!("/{number}")).collect();
    let site = Site::http("0.0.0.0:0").expect("a port").robots("");
    let port = site.address().port();
    let page = Response::links(&paths).delay(Duration::from_millis(500));
    let _web = PracticeWeb::new().site(site.fallback(page)).start().expect("a server");
    let mut fleet = Fleet::new(RedisCluster::single());
    // A busy machine may delay the renewal of a lease by some seconds.
    fleet.lease = 10;
    let roots: Vec<String> = (1..=120).map(|number| format!("http://127.0.3.{number}:{port}/")).collect();
    let mut arguments: Vec<&str> = roots.iter().map(String::as_str).collect();
    arguments.extend(["--no-sitemap", "--per-host", "1"]);
    let mut processes = vec![fleet.spawn(&arguments)];
    let hosts_of = |status: &Value| -> Vec<u64> {
        let processes = status["processes"].as_array().map(Vec::as_slice).unwrap_or_default();
        processes.iter().filter_map(|process| process["hosts"].as_u64()).collect()
    };
    fleet.wait_for_status("all hosts at the first process", |status| hosts_of(status) == [120]);
    processes.extend((0..2).map(|_| fleet.spawn(&arguments)));
    // Within 15 % of the mean of 40. The hosts of a bucket move together.
    fleet.wait_for_status("even shares", |status| {
        let hosts = hosts_of(status);
        hosts.len() == 3 && hosts.iter().all(|hosts| (34..=46).contains(hosts)) && hosts.iter().sum::<u64>() == 120
    });
    let mut killed = processes.remove(0);
    killed.kill().expect("the process is killed");
    wait(&mut killed);
    fleet.wait_for_status("even shares of two processes", |status| {
        let live = status["processes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let live = live.iter().filter(|process| process["is_live"] == true);
        let hosts: Vec<u64> = live.filter_map(|process| process["hosts"].as_u64()).collect();
        hosts.len() == 2 && hosts.iter().all(|hosts| (51..=69).contains(hosts))
    });
    for process in &mut processes {
        process.kill().expect("the process is killed");
        wait(process);
    }
}
