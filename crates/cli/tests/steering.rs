//! A running crawl is monitored and controlled with `argiope ctl`, over HTTP, and by a signal.

mod durable_kit;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use argiope_practice::GraphPlan;
use durable_kit::{Bench, PATIENCE, Practice, signal, wait};
use rustix::process::Signal;
use serde_json::Value;

fn plan(pages: u32) -> GraphPlan {
    GraphPlan { seed: 7, hosts: 2, pages, links: 8, cross: 200, latency_us: (5_000, 20_000), ..GraphPlan::default() }
}

/// `argiope ctl`: its exit code, standard output and standard error.
fn ctl(bench: &Bench, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    let output = command.arg("ctl").arg(bench.path("d.crawl")).args(arguments).output().expect("the command was built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn obeys(bench: &Bench, arguments: &[&str]) {
    let (code, _, said) = ctl(bench, arguments);
    assert_eq!(code, 0, "{arguments:?}: {said}");
}

fn status(bench: &Bench) -> Value {
    let (code, text, said) = ctl(bench, &["status", "--json"]);
    assert_eq!(code, 0, "{said}");
    serde_json::from_str(&text).expect("JSON")
}

/// Waits until the control socket of the crawl responds.
fn reached(bench: &Bench, crawl: &mut Child) {
    let begin = Instant::now();
    while ctl(bench, &["status"]).0 != 0 {
        assert!(crawl.try_wait().expect("a process").is_none(), "the crawl ended");
        assert!(begin.elapsed() < PATIENCE, "the crawl has no socket");
    }
}

/// Waits until no fetch is in flight; from then on the pause is effective.
fn at_rest(bench: &Bench) -> Value {
    let begin = Instant::now();
    loop {
        let now = status(bench);
        if now["state"] == "paused" && now["in_flight"] == 0 {
            return now;
        }
        assert!(begin.elapsed() < PATIENCE, "{now}");
    }
}

fn pauses_and_resumes(engine: &str) {
    let practice = Practice::serve(plan(1_500));
    let bench = Bench::new(&practice.roots, &["--engine", engine]);
    let mut crawl = bench.spawn(&[]);
    practice.wait_for(40, &mut crawl);
    reached(&bench, &mut crawl);
    obeys(&bench, &["pause"]);
    let paused = at_rest(&bench);
    let requests = practice.web.requests();
    assert!(paused["queued"].as_u64() > Some(0), "{paused}");
    assert!(!practice.web.wait_requests(requests + 1, Duration::from_millis(700)), "a request during a pause");

    obeys(&bench, &["rate", "40/s"]);
    obeys(&bench, &["pace", "gentle"]);
    let now = status(&bench);
    assert_eq!((&now["pace"], now["rate"].as_f64()), (&"gentle".into(), Some(40.0)), "{now}");
    // From now on one host is excluded: its queued URLs must not be requested any more.
    let host_of = |url: &str| url.trim_start_matches("http://").split(':').next().expect("a host").to_owned();
    let first = host_of(&practice.roots[0]);
    let host = practice.expected.keys().map(|url| host_of(url)).find(|host| *host != first).expect("another host");
    obeys(&bench, &["exclude", &format!("^http://{}:", host.replace('.', "\\."))]);
    assert_eq!(ctl(&bench, &["exclude", "("]).0, 1);
    obeys(&bench, &["pace", "full"]);
    obeys(&bench, &["rate", "none"]);
    obeys(&bench, &["resume"]);
    assert!(wait(&mut crawl).success());
    let late = practice.web.log().split_off(usize::try_from(requests).expect("few"));
    assert!(late.iter().all(|seen| !seen.host.starts_with(&host)), "{engine}: an excluded host was asked");
    assert!(late.len() > 100, "{engine}: {} requests after the pause", late.len());
    assert!(!bench.path("d.crawl/control.sock").exists());
    // Excluded URLs leave the queue without a record.
    assert_eq!(bench.records().iter().filter(|record| record["type"] == "skip").count(), 0);
    assert_eq!(ctl(&bench, &["status"]).0, 1);
}

#[test]
fn tokio_is_paused_slowed_narrowed_and_resumed() {
    pauses_and_resumes("tokio");
}

#[test]
fn coroutines_are_paused_slowed_narrowed_and_resumed() {
    pauses_and_resumes("coroutines");
}

#[test]
fn callbacks_are_paused_slowed_narrowed_and_resumed() {
    pauses_and_resumes("callbacks");
}

#[test]
fn threads_are_paused_slowed_narrowed_and_resumed() {
    pauses_and_resumes("threads");
}

#[test]
fn changes_are_durable_and_a_pause_is_not() {
    let practice = Practice::serve(plan(2_000));
    let bench = Bench::new(&practice.roots, &[]);
    let mut crawl = bench.spawn(&[]);
    practice.wait_for(30, &mut crawl);
    reached(&bench, &mut crawl);
    obeys(&bench, &["rate", "25/s"]);
    obeys(&bench, &["exclude", "/p/1[0-9]*$"]);
    obeys(&bench, &["pause"]);
    obeys(&bench, &["stop"]);
    assert!(wait(&mut crawl).success(), "a crawl that was stopped on request ends well");

    let mut crawl = bench.spawn(&[]);
    reached(&bench, &mut crawl);
    let now = status(&bench);
    assert_eq!(now["state"], "running");
    assert_eq!((now["rate"].as_f64(), &now["excludes"]), (Some(25.0), &serde_json::json!(["/p/1[0-9]*$"])), "{now}");
    obeys(&bench, &["stop"]);
    assert!(wait(&mut crawl).success());

    // A new value on the command line overrides an earlier change made with `ctl`.
    let mut crawl = bench.spawn(&["--rate", "50/s"]);
    reached(&bench, &mut crawl);
    assert_eq!(status(&bench)["rate"].as_f64(), Some(50.0));
    obeys(&bench, &["stop"]);
    assert!(wait(&mut crawl).success());
}

#[test]
fn a_signal_prints_a_status_line_and_the_dashboard_is_served() {
    let practice = Practice::serve(plan(2_000));
    let bench = Bench::new(&practice.roots, &["--rate", "50/s"]);
    let mut crawl = bench
        .command(&["--serve", "127.0.0.1:0", "--no-progress"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command was built");
    let mut lines = BufReader::new(crawl.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let address = lines.find_map(|line| {
        line.strip_prefix("serving http://").and_then(|rest| rest.strip_suffix('/')).map(ToOwned::to_owned)
    });
    let address = address.expect("where it is served");
    practice.wait_for(10, &mut crawl);
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).expect("a server");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("UTF-8");
        answer
    };
    assert!(get("/metrics").contains("argiope_up 1\n"));
    assert!(get("/api/v1/status").contains("\"state\":\"running\""));
    let root = practice.roots[0].replace(':', "%3A").replace('/', "%2F");
    let explained = get(&format!("/api/v1/explain?url={root}"));
    assert!(explained.contains("a root"), "{explained}");
    assert!(get("/report").contains("<!doctype html>"));
    signal(&crawl, Signal::USR1);
    let line = lines.find(|line| line.contains("in flight")).expect("a status line");
    assert!(line.contains("pages") && line.contains("queued"), "{line}");
    reached(&bench, &mut crawl);
    obeys(&bench, &["stop"]);
    assert!(wait(&mut crawl).success());
    assert!(TcpStream::connect(&address).is_err());
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
    let (code, said) = run(&["crawl", "http://127.0.0.1:9/", "-d", &directory, "--serve", "0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--serve-token-file"), "{said}");
    assert_eq!(run(&["serve", &directory]).0, Some(1));
    assert_eq!(run(&["ctl", &directory, "pause"]).0, Some(1));
    assert_eq!(run(&["ctl", &directory, "pace", "fast"]).0, Some(2));
}
