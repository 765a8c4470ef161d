//! `argiope crawl`, `fetch` and `demo`, run as the built binary.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::Value;

fn argiope() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    let folder = tempfile::tempdir().expect("a temporary folder").keep();
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    argiope().args(arguments).output().expect("the binary runs")
}

fn records(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("records are UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
}

fn pages(records: &[Value]) -> Vec<&Value> {
    records.iter().filter(|record| record["type"] == "page").collect()
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

fn site(address: &str) -> Site {
    Site::http(&format!("{address}:0")).expect("a loopback address")
}

fn serve(site: Site) -> RunningWeb {
    PracticeWeb::new().site(site).start().expect("the practice web starts")
}

#[test]
fn records_go_to_standard_output_and_messages_to_standard_error() {
    let site = site("127.6.0.1")
        .page("/", Response::links(["/a", "/gone"]))
        .page("/a", Response::html("<title>A \u{1b}[31m red</title>"));
    let root = site.url("/");
    let _web = serve(site);
    let output = run(&["crawl", &root, "--jsonl", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    let records = records(&output);
    assert_eq!((&records[0]["type"], &records[0]["v"]), (&"run".into(), &1.into()));
    let last = records.last().expect("a last line");
    assert_eq!((&last["type"], &last["reason"], &last["queued"]), (&"run".into(), &"finished".into(), &0.into()));
    let pages = pages(&records);
    assert_eq!(pages.len(), 3);
    for page in &pages {
        for key in ["v", "url", "outcome", "depth", "tries", "ms", "started"] {
            assert!(!page[key].is_null(), "{key} is missing: {page}");
        }
    }
    let stderr = stderr_of(&output);
    assert!(stderr.contains("404") && stderr.contains("/gone"), "{stderr}");
    assert!(!stderr.contains('\u{1b}'), "an escape from the web reached the terminal: {stderr:?}");
    let quiet = run(&["crawl", &root, "--jsonl", "-", "-q"]);
    assert_eq!(stderr_of(&quiet), "");
}

#[test]
fn verbose_prints_a_line_for_every_page() {
    let site = site("127.6.0.2").page("/", Response::links(["/a"])).page("/a", Response::html("a"));
    let root = site.url("/");
    let _web = serve(site);
    let stderr = stderr_of(&run(&["crawl", &root, "-v"]));
    // `1/1`: new links of all links on the page.
    assert!(
        stderr.lines().any(|line| line.contains("200") && line.contains("text/html") && line.contains("1/1")),
        "{stderr}"
    );
}

#[test]
fn exactly_as_many_pages_are_requested_as_the_page_limit() {
    let links: Vec<String> = (0..3_000).map(|n| format!("/p/{n}")).collect();
    let site = site("127.6.0.3").page("/", Response::links(&links)).fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve(site);
    let output = run(&["crawl", &root, "--max-pages", "1000", "-c", "200", "--pace", "full", "--jsonl", "-", "-q"]);
    assert_eq!(output.status.code(), Some(0));
    let requested: Vec<String> =
        web.log().into_iter().map(|seen| seen.path).filter(|path| path != "/robots.txt").collect();
    let records = records(&output);
    assert_eq!((requested.len(), pages(&records).len()), (1_000, 1_000));
    assert_eq!(records.last().expect("a last line")["reason"], "max_pages");
}

#[test]
fn a_root_that_refuses_connections_gives_exit_code_4() {
    let listener = TcpListener::bind("127.6.0.4:0").expect("a loopback address");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let output = run(&["crawl", &format!("http://{address}/"), "--jsonl", "-", "--retry-wait", "10ms"]);
    assert_eq!(output.status.code(), Some(4), "no root has given a page");
    let records = records(&output);
    let page = pages(&records)[0].clone();
    assert_eq!((&page["outcome"], &page["error"]["kind"]), (&"failed".into(), &"connect_refused".into()));
    assert!(stderr_of(&output).contains(&address.to_string()), "{}", stderr_of(&output));
}

#[test]
fn broken_links_give_exit_code_3_on_request() {
    let site = site("127.6.0.5").page("/", Response::links(["/gone"]));
    let root = site.url("/");
    let _web = serve(site);
    assert_eq!(run(&["crawl", &root, "-q"]).status.code(), Some(0));
    assert_eq!(run(&["crawl", &root, "-q", "--fail-on", "broken"]).status.code(), Some(3));
}

#[test]
fn an_output_that_cannot_be_written_is_reported_before_the_crawl_starts() {
    let site = site("127.6.0.6").page("/", Response::html("x"));
    let root = site.url("/");
    let web = serve(site);
    let output = run(&["crawl", &root, "--jsonl", "/nowhere/at/all/pages.jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr_of(&output).contains("/nowhere/at/all/pages.jsonl"), "{}", stderr_of(&output));
    assert_eq!(web.requests(), 0);
}

#[test]
fn a_reader_that_closes_the_pipe_stops_the_crawl() {
    let links: Vec<String> = (0..2_000).map(|n| format!("/p/{n}")).collect();
    let page = Response::html("page").delay(Duration::from_millis(20));
    let site = site("127.6.0.7").page("/", Response::links(&links)).fallback(page);
    let root = site.url("/");
    let web = serve(site);
    let mut child: Child = argiope()
        .args(["crawl", &root, "--jsonl", "-", "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    reader.read_line(&mut String::new()).expect("the first line");
    drop(reader);
    let status = child.wait().expect("the process ends");
    assert_eq!(status.code(), Some(0), "a closed pipe is not an error");
    assert!(web.requests() < 2_000, "the crawl continued although the reader was gone");
}

#[test]
fn an_interrupt_drains_the_crawl_and_prints_the_report() {
    let links: Vec<String> = (0..500).map(|n| format!("/p/{n}")).collect();
    let page = Response::html("page").delay(Duration::from_millis(50));
    let site = site("127.6.0.8").page("/", Response::links(&links)).fallback(page);
    let root = site.url("/");
    let web = serve(site);
    let child = argiope()
        .args(["crawl", &root, "--jsonl", "-", "--no-progress"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    assert!(web.wait_requests(10, Duration::from_secs(60)), "the crawl is under way");
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("an id")).expect("an id");
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("the signal is sent");
    let output = child.wait_with_output().expect("the process ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr_of(&output));
    let records = records(&output);
    assert_eq!(records.last().expect("a last line")["reason"], "interrupted");
    assert!(pages(&records).iter().all(|page| page["outcome"] == "ok"), "fetches in flight were completed");
    assert!(stderr_of(&output).to_lowercase().contains("interrupted"), "{}", stderr_of(&output));
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let site = site("127.6.0.9").page("/", Response::links(["/hang"])).page("/hang", Response::hang());
    let root = site.url("/");
    let web = serve(site);
    let arguments = ["crawl", &root, "-q", "--robots", "ignore", "--timeout", "1h", "--drain-time", "1h"];
    let mut child = argiope().args(arguments).stderr(Stdio::piped()).spawn().expect("the binary runs");
    assert!(web.wait_requests(2, Duration::from_secs(60)), "the root and /hang were requested");
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("an id")).expect("an id");
    let started = std::time::Instant::now();
    let code = loop {
        // The kernel merges signals that are still pending, so more than two may be needed.
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("the signal is sent");
        if let Some(status) = child.try_wait().expect("the state of the process can be read") {
            break status.code();
        }
        assert!(started.elapsed() < Duration::from_secs(60), "the process waits for the request");
        std::thread::yield_now();
    };
    assert_eq!(code, Some(143));
}

#[test]
fn fetch_prints_request_and_response() {
    let site = site("127.6.0.10").page("/x", Response::html("<title>Shown</title>").header("X-Mood", "calm"));
    let url = site.url("/x");
    let _web = serve(site);
    let output = run(&["fetch", &url]);
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8(output.stdout).expect("text");
    for part in ["127.6.0.10", "GET /x HTTP/1.1", "HTTP/1.1 200", "X-Mood: calm", "Shown"] {
        assert!(shown.contains(part), "{part} is missing in:\n{shown}");
    }
    assert!(!shown.contains("<title>"), "{shown}");
    let shown = String::from_utf8(run(&["fetch", &url, "--body"]).stdout).expect("text");
    assert!(shown.contains("\nBody\n  <title>Shown</title>\n"), "{shown}");
}

#[test]
fn a_root_without_a_scheme_is_tried_as_https_then_http() {
    let site = site("127.6.0.11").page("/", Response::html("plain"));
    let address = site.address();
    let _web = serve(site);
    let output =
        run(&["crawl", &address.to_string(), "--jsonl", "-", "-q", "--retry-wait", "10ms", "--connect-timeout", "2s"]);
    let records = records(&output);
    let ok: Vec<&str> =
        pages(&records).iter().filter(|page| page["outcome"] == "ok").filter_map(|page| page["url"].as_str()).collect();
    assert_eq!(ok, [format!("http://{address}/")]);
}

#[test]
fn a_guessed_scheme_that_failed_is_not_a_broken_link() {
    let site = site("127.6.0.12").page("/", Response::html("plain"));
    let address = site.address().to_string();
    let _web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("c").display().to_string();
    let quick = ["--retry-wait", "10ms", "--connect-timeout", "2s", "--fail-on", "broken", "-d", &out];
    let output = run(&[&["crawl", &address], &quick[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    assert!(!stderr_of(&output).contains("Broken links"), "{}", stderr_of(&output));
    let again = run(&["report", &out]);
    let report = String::from_utf8(again.stdout).expect("text");
    assert!(report.contains("Finished") && !report.contains("Broken links"), "{report}");
    assert!(report.contains(": 1 page from 1 host"), "{report}");
    let audit = run(&["audit", &out, "--fail-on", "error"]);
    assert_eq!(audit.status.code(), Some(0), "{audit:?}");
    let listed = run(&["report", &out, "--list", "outcome:failed"]);
    assert!(listed.stdout.is_empty(), "{listed:?}");
}

#[test]
fn messages_can_be_json_objects() {
    let site = site("127.6.0.13")
        .page("/", Response::links(["/a", "/gone", "http://elsewhere.example/\u{202e}"]))
        .page("/a", Response::html("a"));
    let root = site.url("/");
    let _web = serve(site);
    let output = run(&["crawl", &root, "-vv", "--log-json", "--jsonl", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    let lines: Vec<Value> = stderr_of(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of_kind = |kind: &str| lines.iter().filter(|line| line["log"] == kind).collect::<Vec<_>>();
    assert_eq!(of_kind("page").len(), 3);
    assert_eq!(of_kind("skip").iter().map(|line| &line["reason"]).collect::<Vec<_>>(), ["host"]);
    let [summary] = of_kind("summary")[..] else { panic!("expected one summary: {lines:?}") };
    assert_eq!((&summary["reason"], &summary["statuses"]["404"]), (&"finished".into(), &1.into()));
    // Skipped links, which -vv prints, are not recorded without --log-skips.
    assert!(records(&output).iter().all(|record| record["type"] != "skip"));
    let plain = stderr_of(&run(&["crawl", &root, "-vv", "--fresh"]));
    assert!(plain.contains("not followed: "), "{plain}");
    let refused = run(&["crawl", &root, "--log-json", "--jsonl", "/nowhere/at/all"]);
    let error: Value = serde_json::from_str(stderr_of(&refused).trim()).expect("JSON");
    assert_eq!(error["log"], "error");
}

#[test]
fn the_demo_refuses_outputs_that_need_a_crawl_directory() {
    for (arguments, flag) in [(&["demo", "--csv", "-"][..], "--csv"), (&["demo", "--warc"], "--warc")] {
        let output = run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("{flag} is not supported by demo")), "{stderr}");
    }
}

#[test]
fn the_demo_finishes_and_records_every_page_once() {
    let output = run(&["demo", "--jsonl", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    let records = records(&output);
    let pages = pages(&records);
    assert!(pages.len() > 200, "{} pages", pages.len());
    let distinct: BTreeSet<&str> = pages.iter().filter_map(|page| page["url"].as_str()).collect();
    assert_eq!(distinct.len(), pages.len());
    assert_eq!(records.last().expect("a last line")["reason"], "finished");
}

#[test]
fn a_resumed_crawl_that_has_reached_max_bytes_fetches_nothing() {
    let links: Vec<String> = (0..50).map(|number| format!("/{number}")).collect();
    let site =
        site("127.6.0.31").robots("").page("/", Response::links(&links)).fallback(Response::html("x".repeat(5000)));
    let root = site.url("/");
    let web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("c").display().to_string();
    let crawl = ["crawl", &root, "-d", &out, "--max-bytes", "20k", "--per-host", "1", "--no-sitemap"];
    let first = run(&crawl);
    assert!(stderr_of(&first).contains("Stopped at the byte limit"), "{}", stderr_of(&first));
    let requests = web.requests();
    let again = run(&crawl);
    assert!(again.status.success() && stderr_of(&again).contains("Stopped at the byte limit"), "{}", stderr_of(&again));
    assert_eq!(web.requests(), requests);
    let more = run(&["crawl", &root, "-d", &out, "--max-bytes", "60k", "--per-host", "1", "--no-sitemap"]);
    assert!(more.status.success() && web.requests() > requests, "{}", stderr_of(&more));
}

/// Responses that are cut off count as problems of the pages. The crawl does not back off from such a host.
#[test]
fn a_host_whose_responses_are_all_cut_off_is_crawled_to_the_end() {
    let links: Vec<String> = (0..12).map(|number| format!("/{number}")).collect();
    let cut = Response::html("<p>half").false_length(1_000).close_after();
    let site = site("127.6.0.32").robots("").page("/", Response::links(&links)).fallback(cut);
    let root = site.url("/");
    let _web = serve(site);
    let output = run(&["crawl", &root, "--jsonl", "-", "-q", "--retry-wait", "10ms", "--no-sitemap"]);
    let records = records(&output);
    let cut: Vec<_> = pages(&records).into_iter().filter(|page| page["url"] != root.as_str()).collect();
    assert_eq!(cut.len(), 12);
    for page in cut {
        assert_eq!((&page["outcome"], &page["truncated"]), (&"ok".into(), &"disconnect".into()), "{page}");
    }
}

#[test]
fn a_rate_of_zero_is_refused() {
    let output = run(&["ctl", "none.crawl", "rate", "0/s"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr_of(&output));
    assert!(stderr_of(&output).contains("is not a rate"), "{}", stderr_of(&output));
}

#[test]
fn invalid_file_names_are_reported_before_the_crawl() {
    use std::os::unix::ffi::OsStrExt as _;
    let site = site("127.6.0.33").page("/", Response::html("x"));
    let root = site.url("/");
    let web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let crawl = |flag: &str, value: &std::ffi::OsStr| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.args(["crawl", &root, "-q", flag]).arg(value).current_dir(folder.path());
        let output = command.output().expect("the command was built");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for flag in ["-d", "--csv"] {
        let (code, stderr) = crawl(flag, std::ffi::OsStr::from_bytes(b"n\xff"));
        assert!(code == Some(2) && stderr.contains("its name is not UTF-8"), "{flag}: {code:?} {stderr}");
    }
    let (code, stderr) = crawl("--csv", "none/pages.csv".as_ref());
    assert!(code == Some(1) && stderr.contains("there is no folder none"), "{stderr}");
    let (code, stderr) = crawl("--csv", ".".as_ref());
    assert!(code == Some(1) && stderr.contains("it is a folder; name a file"), "{stderr}");
    assert_eq!(web.requests(), 0);
}

#[test]
fn statuses_are_listed_beside_their_outcome_and_unknown_groups_are_refused() {
    let site = site("127.6.0.34")
        .robots("")
        .page("/", Response::links(["/300", "/304", "/302"]))
        .page("/300", Response::status(300))
        .page("/304", Response::status(304))
        .redirect("/302", "/", 302);
    let root = site.url("/");
    let _web = serve(site);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("c").display().to_string();
    let output = run(&["crawl", &root, "-d", &out, "--no-sitemap"]);
    let row =
        |name: &str| stderr_of(&output).lines().find(|line| line.trim_start().starts_with(name)).map(str::to_owned);
    let errors = row("HTTP errors").unwrap_or_default();
    assert!(errors.contains("1 × 300") && errors.contains("1 × 304"), "{}", stderr_of(&output));
    assert!(row("redirects").is_some_and(|row| row.contains("302") && !row.contains("300")), "{}", stderr_of(&output));
    for group in ["statuss:404", "outcome:broken", "nothing"] {
        let listed = run(&["report", &out, "--list", group]);
        assert_eq!(listed.status.code(), Some(2), "{group}: {}", stderr_of(&listed));
    }
}
