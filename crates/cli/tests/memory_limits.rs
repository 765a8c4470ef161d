//! `--max-memory` limits the memory for hosts, headers, cookies and pages in flight, as measured by the kernel.
//!
//! The short forms send several times more than a small limit allows in memory at once; with `ARGIOPE_LONG=1` they send
//! ten times as much.

#![allow(clippy::print_stderr, reason = "it tells what it measured")]

mod durable_kit;

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use durable_kit::{Bench, is_long, poll};
use std::process::Stdio;

const LIMIT_MB: u64 = 32;

/// The peak memory of a process so far, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Serves this response at every path except /robots.txt.
fn serve(answer: impl FnOnce(&Site) -> Response) -> (RunningWeb, String) {
    let site = Site::http("0.0.0.0:0").expect("a port");
    let url = site.url("/");
    let answer = answer(&site);
    let site = site.page("/robots.txt", Response::status(404)).fallback(answer);
    (PracticeWeb::new().counts_only().site(site).start().expect("a server"), url)
}

/// Crawls with a memory limit; returns the peak memory and the last record.
fn crawl(bench: &Bench, arguments: &[&str]) -> (u64, serde_json::Value) {
    let mut command = bench.command(arguments);
    let mut crawl = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let (mut most, pid) = (0, crawl.id());
    assert!(poll(|| {
        most = peak(pid).unwrap_or(0).max(most);
        crawl.try_wait().expect("it can be waited for").is_some()
    }));
    assert!(crawl.wait().expect("it has ended").success());
    (most, bench.records().pop().expect("records"))
}

/// The peak memory of a crawl of one page. The code of a debug build alone is large.
fn overhead() -> u64 {
    let (_web, root) = serve(|_| Response::html("<p>one page"));
    let (most, _) = crawl(&Bench::new(&[root], &["-q"]), &["--max-memory", "32M"]);
    most.max(16 << 20)
}

/// Asserts that the peak `most` is within the limit.
fn holds(what: &str, most: u64) {
    let allowed = (LIMIT_MB << 20) * 11 / 10 + overhead();
    eprintln!("{what}: {} MB at most, {} MB allowed", most >> 20, allowed >> 20);
    assert!(most > 0 && most <= allowed, "{what}: {} MB, {} MB allowed", most >> 20, allowed >> 20);
}

/// Crawls `count` URLs of one host at once, all with this response.
fn attack(what: &str, count: usize, answer: impl FnOnce(&Site) -> Response) {
    let (_web, root) = serve(answer);
    let count = if is_long() { 10 * count } else { count };
    let roots: Vec<String> = (0..count).map(|number| format!("{root}r{number}")).collect();
    let bench = Bench::new(&roots, &["-q", "--depth", "0"]);
    let (most, last) = crawl(&bench, &["--max-memory", "32M"]);
    holds(what, most);
    assert_eq!(last["reason"], "finished", "{last}");
    let pages = bench.records().iter().filter(|record| record["type"] == "page").count();
    assert_eq!(pages, count, "nothing is lost");
}

#[test]
fn heads_wait_for_memory() {
    attack("long heads", 300, |_| Response::html("<p>hello").huge_head(60, 4_000));
}

#[test]
fn cookies_stay_within_their_share() {
    attack("cookies", 300, |_| {
        let page = Response::html("<p>hello");
        (0..50).fold(page, |page, number| page.header("Set-Cookie", format!("c{number}={}", "v".repeat(4_000))))
    });
}

#[test]
fn validators_of_many_pages_stay_within_the_limit() {
    attack("ETags", 2_000, |_| Response::html("<p>hello").etag(&format!("\"{}\"", "e".repeat(1_000))));
}

/// A long base URL turns 15 KB of markup into 4 MiB of links, which are held for the link graph even if none is followed.
#[test]
fn link_lists_wait_for_memory() {
    let links: String = (0..1_040).map(|number| format!("<a href={number}>")).collect();
    let page = format!("<base href='/{}/'>{links}", "b".repeat(3_980));
    attack("lists of 4 MiB", 16, |_| Response::html(page));
}

/// Hosts that are not being crawled yet are only entries of the frontier, even if they are roots.
#[test]
fn very_many_hosts_wait_in_the_frontier() {
    let site = Site::http("0.0.0.0:0").expect("a port");
    let port = site.address().port();
    let site = site.page("/robots.txt", Response::status(404)).fallback(Response::html("<p>hello"));
    let _web = PracticeWeb::new().counts_only().site(site).start().expect("a server");
    let hosts = if is_long() { 100_000 } else { 3_000 };
    let host = |n: u64| format!("http://127.{}.{}.{}:{port}/\n", 1 + n / 62_500, n / 250 % 250, 1 + n % 250);
    let bench = Bench::new(&[], &["-q", "-i", "hosts.txt"]);
    std::fs::write(bench.path("hosts.txt"), (0..hosts).map(host).collect::<String>()).expect("written");
    let pages = if is_long() { "5000" } else { "1000" };
    let (most, last) = crawl(&bench, &["--max-memory", "32M", "--max-pages", pages]);
    holds("many hosts", most);
    assert_eq!(last["queued"].as_u64(), Some(hosts - pages.parse::<u64>().expect("a number")), "{last}");
}
