//! A running crawl is monitored and controlled with `argiope ctl`, over HTTP, and by a signal.

mod durable_kit;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use argiope_practice::GraphPlan;
use durable_kit::{CrawlFixture, GraphWeb, TIMEOUT, signal, wait};
use rustix::process::Signal;
use serde_json::Value;

fn plan(pages: u32) -> GraphPlan {
    GraphPlan { seed: 7, hosts: 2, pages, links: 8, cross: 200, latency_us: (5_000, 20_000), ..GraphPlan::default() }
}

/// `argiope ctl`: its exit code, standard output and standard error.
fn ctl(fixture: &CrawlFixture, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    let output =
        command.arg("ctl").arg(fixture.path("d.crawl")).args(arguments).output().expect("the command was built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Runs `argiope ctl` and asserts success.
fn ctl_succeeds(fixture: &CrawlFixture, arguments: &[&str]) {
    let (code, _, stderr) = ctl(fixture, arguments);
    assert_eq!(code, 0, "{arguments:?}: {stderr}");
}

fn status(fixture: &CrawlFixture) -> Value {
    let (code, text, stderr) = ctl(fixture, &["status", "--json"]);
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&text).expect("JSON")
}

/// Waits until the control socket of the crawl responds.
fn wait_for_socket(fixture: &CrawlFixture, crawl: &mut Child) {
    let started = Instant::now();
    while ctl(fixture, &["status"]).0 != 0 {
        assert!(crawl.try_wait().expect("a process").is_none(), "the crawl ended");
        assert!(started.elapsed() < TIMEOUT, "the crawl has no socket");
    }
}

/// Waits until the crawl is paused and no fetch is in flight.
fn wait_until_paused(fixture: &CrawlFixture) -> Value {
    let started = Instant::now();
    loop {
        let now = status(fixture);
        if now["state"] == "paused" && now["in_flight"] == 0 {
            return now;
        }
        assert!(started.elapsed() < TIMEOUT, "{now}");
    }
}

/// Pauses a crawl, changes its pace, rate and scope, and resumes it.
fn check_control(engine: &str) {
    let practice = GraphWeb::serve(plan(1_500));
    let fixture = CrawlFixture::new(&practice.roots, &["--engine", engine]);
    let mut crawl = fixture.spawn(&[]);
    practice.wait_for(40, &mut crawl);
    wait_for_socket(&fixture, &mut crawl);
    ctl_succeeds(&fixture, &["pause"]);
    let paused = wait_until_paused(&fixture);
    let requests = practice.web.requests();
    assert!(paused["queued"].as_u64() > Some(0), "{paused}");
    assert!(!practice.web.wait_requests(requests + 1, Duration::from_millis(700)), "a request during a pause");

    ctl_succeeds(&fixture, &["rate", "40/s"]);
    ctl_succeeds(&fixture, &["pace", "gentle"]);
    let now = status(&fixture);
    assert_eq!((&now["pace"], now["rate"].as_f64()), (&"gentle".into(), Some(40.0)), "{now}");
    // From now on one host is excluded: its queued URLs must not be requested any more.
    let host_of = |url: &str| url.trim_start_matches("http://").split(':').next().expect("a host").to_owned();
    let first = host_of(&practice.roots[0]);
    let excluded = practice.expected.keys().map(|url| host_of(url)).find(|host| *host != first).expect("another host");
    ctl_succeeds(&fixture, &["exclude", &format!("^http://{}:", excluded.replace('.', "\\."))]);
    assert_eq!(ctl(&fixture, &["exclude", "("]).0, 1);
    ctl_succeeds(&fixture, &["pace", "full"]);
    ctl_succeeds(&fixture, &["rate", "none"]);
    ctl_succeeds(&fixture, &["resume"]);
    assert!(wait(&mut crawl).success());
    let late = practice.web.log().split_off(usize::try_from(requests).expect("few"));
    assert!(
        late.iter().all(|request| !request.host.starts_with(&excluded)),
        "{engine}: an excluded host was requested"
    );
    assert!(late.len() > 100, "{engine}: {} requests after the pause", late.len());
    assert!(!fixture.path("d.crawl/control.sock").exists());
    // Excluded URLs leave the queue without a record.
    assert_eq!(fixture.records().iter().filter(|record| record["type"] == "skip").count(), 0);
    assert_eq!(ctl(&fixture, &["status"]).0, 1);
}

#[test]
fn tokio_is_paused_slowed_narrowed_and_resumed() {
    check_control("tokio");
}

#[test]
fn coroutines_are_paused_slowed_narrowed_and_resumed() {
    check_control("coroutines");
}

#[test]
fn callbacks_are_paused_slowed_narrowed_and_resumed() {
    check_control("callbacks");
}

#[test]
fn threads_are_paused_slowed_narrowed_and_resumed() {
    check_control("threads");
}

#[test]
fn changes_by_ctl_apply_to_later_runs_and_a_pause_does_not() {
    let practice = GraphWeb::serve(plan(2_000));
    let fixture = CrawlFixture::new(&practice.roots, &[]);
    let mut crawl = fixture.spawn(&[]);
    practice.wait_for(30, &mut crawl);
    wait_for_socket(&fixture, &mut crawl);
    ctl_succeeds(&fixture, &["rate", "25/s"]);
    ctl_succeeds(&fixture, &["exclude", "/p/1[0-9]*$"]);
    ctl_succeeds(&fixture, &["pause"]);
    ctl_succeeds(&fixture, &["stop"]);
    assert!(wait(&mut crawl).success(), "a crawl that was stopped on request succeeds");

    let mut crawl = fixture.spawn(&[]);
    wait_for_socket(&fixture, &mut crawl);
    let now = status(&fixture);
    assert_eq!(now["state"], "running");
    assert_eq!((now["rate"].as_f64(), &now["excludes"]), (Some(25.0), &serde_json::json!(["/p/1[0-9]*$"])), "{now}");
    ctl_succeeds(&fixture, &["stop"]);
    assert!(wait(&mut crawl).success());

    // A new value on the command line overrides an earlier change made with `ctl`.
    let mut crawl = fixture.spawn(&["--rate", "50/s"]);
    wait_for_socket(&fixture, &mut crawl);
    assert_eq!(status(&fixture)["rate"].as_f64(), Some(50.0));
    ctl_succeeds(&fixture, &["stop"]);
    assert!(wait(&mut crawl).success());
}

#[test]
fn a_signal_prints_a_status_line_and_the_dashboard_is_served() {
    let practice = GraphWeb::serve(plan(2_000));
    let fixture = CrawlFixture::new(&practice.roots, &["--rate", "50/s"]);
    let mut crawl = fixture
        .command(&["--serve", "127.0.0.1:0", "--no-progress"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command was built");
    let mut lines = BufReader::new(crawl.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let address = lines.find_map(|line| {
        line.strip_prefix("serving http://").and_then(|rest| rest.strip_suffix('/')).map(ToOwned::to_owned)
    });
    let address = address.expect("the address of the dashboard");
    practice.wait_for(10, &mut crawl);
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).expect("a server");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
            .expect("the request is sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("UTF-8");
        response
    };
    assert!(get("/metrics").contains("argiope_up 1\n"));
    let running = get("/api/v1/status");
    assert!(running.contains("\"state\":\"running\""), "{running}");
    let site = practice.roots[0].split('/').nth(2).expect("a host");
    assert!(running.contains(&format!("\"name\":\"{site}")), "the crawl is titled with its site: {running}");
    let root = practice.roots[0].replace(':', "%3A").replace('/', "%2F");
    let explained = get(&format!("/api/v1/explain?url={root}"));
    assert!(explained.contains("a root"), "{explained}");
    assert!(get("/report").contains("<!doctype html>"));
    signal(&crawl, Signal::USR1);
    let line = lines.find(|line| line.contains("in flight")).expect("a status line");
    assert!(line.contains("pages") && line.contains("queued"), "{line}");
    wait_for_socket(&fixture, &mut crawl);
    ctl_succeeds(&fixture, &["stop"]);
    assert!(wait(&mut crawl).success());
    assert!(TcpStream::connect(&address).is_err());
    // Not "interrupted": a person stopped it, and the exit code is 0.
    let report: Vec<String> = lines.collect();
    assert!(report.iter().any(|line| line.starts_with("Stopped on request after ")), "{report:?}");
    assert!(report.iter().any(|line| line.contains("run the same command")), "{report:?}");
    let end = fixture.records().into_iter().rfind(|record| record["type"] == "run").expect("the last record");
    assert_eq!(end["reason"], "stopped", "{end}");
}

/// `--quiet` prints the address of the dashboard only if the system chose its port.
#[test]
fn a_quiet_crawl_prints_only_an_address_that_users_cannot_know() {
    let practice = GraphWeb::serve(plan(20));
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    for (address, is_printed) in [(format!("127.0.0.1:{port}"), false), ("127.0.0.1:0".to_owned(), true)] {
        let fixture = CrawlFixture::new(&practice.roots, &["-q"]);
        let output = fixture.command(&["--serve", &address]).output().expect("the command was built");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
        assert_eq!(stderr.contains("serving http://127.0.0.1:"), is_printed, "{stderr}");
        assert_eq!(stderr.is_empty(), !is_printed, "{stderr}");
    }
}

#[test]
fn serving_beyond_loopback_needs_a_token() {
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("x.crawl").display().to_string();
    let (code, stderr) = run(&["crawl", "http://127.0.0.1:9/", "-d", &directory, "--serve", "0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("--serve-token-file"), "{stderr}");
    assert_eq!(run(&["serve", &directory]).0, Some(1));
    assert_eq!(run(&["ctl", &directory, "pause"]).0, Some(1));
    assert_eq!(run(&["ctl", &directory, "pace", "fast"]).0, Some(2));
}
