//! `--max-memory` limits the memory for hosts, headers, cookies and pages in flight, as measured by the kernel.
//!
//! The servers send several times more than a small limit allows in memory at once. With `ARGIOPE_LONG=1` they send ten
//! times as much.

#![allow(clippy::print_stderr, reason = "prints what was measured")]

mod durable_kit;

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use durable_kit::{CrawlFixture, is_long, poll};
use std::process::Stdio;

const LIMIT_MB: u64 = 32;

/// The peak memory of a process so far, in bytes.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Serves this response at every path except /robots.txt.
fn serve(response: impl FnOnce(&Site) -> Response) -> (RunningWeb, String) {
    let site = Site::http("0.0.0.0:0").expect("a port");
    let url = site.url("/");
    let response = response(&site);
    let site = site.page("/robots.txt", Response::status(404)).fallback(response);
    (PracticeWeb::new().without_request_log().site(site).start().expect("a server"), url)
}

/// Crawls with a memory limit; returns the peak memory and the last record.
fn crawl(fixture: &CrawlFixture, arguments: &[&str]) -> (u64, serde_json::Value) {
    let mut command = fixture.command(arguments);
    let mut crawl = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let (mut peak_bytes, pid) = (0, crawl.id());
    assert!(poll(|| {
        peak_bytes = peak_memory(pid).unwrap_or(0).max(peak_bytes);
        crawl.try_wait().expect("the state of the process can be read").is_some()
    }));
    assert!(crawl.wait().expect("the process has ended").success());
    (peak_bytes, fixture.records().pop().expect("records"))
}

/// The peak memory of a crawl of one page, at least 16 MB. The code of a debug build alone is large.
fn peak_of_one_page() -> u64 {
    let (_web, root) = serve(|_| Response::html("<p>one page"));
    let (peak_bytes, _) = crawl(&CrawlFixture::new(&[root], &["-q"]), &["--max-memory", "32M"]);
    peak_bytes.max(16 << 20)
}

/// Asserts that the peak `peak_bytes` is within the limit.
fn assert_within_limit(what: &str, limit_mb: u64, peak_bytes: u64) {
    // A tenth more, because the budget does not count every allocation.
    let allowed = (limit_mb << 20) * 11 / 10 + peak_of_one_page();
    eprintln!("{what}: {} MB at most, {} MB allowed", peak_bytes >> 20, allowed >> 20);
    assert!(peak_bytes > 0 && peak_bytes <= allowed, "{what}: {} MB, {} MB allowed", peak_bytes >> 20, allowed >> 20);
}

/// Crawls `count` URLs of one host at once, all with this response.
fn crawl_within_limit(what: &str, count: usize, response: impl FnOnce(&Site) -> Response) {
    let (_web, root) = serve(response);
    let count = if is_long() { 10 * count } else { count };
    let roots: Vec<String> = (0..count).map(|number| format!("{root}r{number}")).collect();
    let fixture = CrawlFixture::new(&roots, &["-q", "--depth", "0"]);
    let (peak_bytes, last) = crawl(&fixture, &["--max-memory", "32M"]);
    assert_within_limit(what, LIMIT_MB, peak_bytes);
    assert_eq!(last["reason"], "finished", "{last}");
    let pages = fixture.records().iter().filter(|record| record["type"] == "page").count();
    assert_eq!(pages, count, "nothing is lost");
}

#[test]
fn long_response_heads_stay_within_the_limit() {
    crawl_within_limit("long heads", 300, |_| Response::html("<p>hello").huge_head(60, 4_000));
}

#[test]
fn cookies_stay_within_the_limit() {
    crawl_within_limit("cookies", 300, |_| {
        let page = Response::html("<p>hello");
        (0..50).fold(page, |page, number| page.header("Set-Cookie", format!("c{number}={}", "v".repeat(4_000))))
    });
}

#[test]
fn validators_of_many_pages_stay_within_the_limit() {
    crawl_within_limit("ETags", 2_000, |_| Response::html("<p>hello").etag(&format!("\"{}\"", "e".repeat(1_000))));
}

/// A long base URL turns 15 KB of markup into 4 MiB of links, which are held for the link graph even if none is followed.
#[test]
fn long_link_lists_stay_within_the_limit() {
    let links: String = (0..1_040).map(|number| format!("<a href={number}>")).collect();
    let page = format!("<base href='/{}/'>{links}", "b".repeat(3_980));
    crawl_within_limit("lists of 4 MiB", 16, |_| Response::html(page));
}

/// One body that is much longer than the memory limit, held for the archive and for its text, is cut.
#[test]
fn one_long_body_stays_within_the_limit() {
    let (_web, root) = serve(|_| Response::filled("<p>hello", 400 << 20));
    let flags = ["-q", "--depth", "0", "--max-size", "4G", "--warc", "--text"];
    let fixture = CrawlFixture::new(&[root], &flags);
    let (peak_bytes, last) = crawl(&fixture, &["--max-memory", "128M"]);
    assert_within_limit("a long body", 128, peak_bytes);
    assert_eq!(last["reason"], "finished", "{last}");
    let records = fixture.records();
    let page = records.iter().find(|record| record["type"] == "page").expect("a page");
    assert_eq!((&page["outcome"], &page["truncated"]), (&"ok".into(), &"length".into()), "{page}");
    assert_eq!(page["error"]["kind"], "too_large", "{page}");
}

/// Hosts that are not being crawled yet are only entries of the frontier, even if they are roots.
#[test]
fn many_queued_hosts_stay_within_the_limit() {
    let site = Site::http("0.0.0.0:0").expect("a port");
    let port = site.address().port();
    let site = site.page("/robots.txt", Response::status(404)).fallback(Response::html("<p>hello"));
    let _web = PracticeWeb::new().without_request_log().site(site).start().expect("a server");
    let hosts = if is_long() { 100_000 } else { 3_000 };
    // 250 values in each of the last two bytes.
    let host = |n: u64| format!("http://127.{}.{}.{}:{port}/\n", 1 + n / 62_500, n / 250 % 250, 1 + n % 250);
    let fixture = CrawlFixture::new(&[], &["-q", "-i", "hosts.txt"]);
    std::fs::write(fixture.path("hosts.txt"), (0..hosts).map(host).collect::<String>()).expect("written");
    let pages = if is_long() { "5000" } else { "1000" };
    let (peak_bytes, last) = crawl(&fixture, &["--max-memory", "32M", "--max-pages", pages]);
    assert_within_limit("many hosts", LIMIT_MB, peak_bytes);
    assert_eq!(last["queued"].as_u64(), Some(hosts - pages.parse::<u64>().expect("a number")), "{last}");
}
