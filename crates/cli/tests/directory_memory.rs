//! `--max-memory`: many URLs in little memory, as measured by the kernel.
//!
//! By default, more than a hundred thousand URLs are queued within 64 MB; with `ARGIOPE_LONG=1`, more than nine million
//! within 256 MB.

#![allow(clippy::print_stderr, reason = "prints what was measured")]

mod durable_kit;

use argiope_practice::{Graph, GraphPlan, PracticeWeb, Site};
use durable_kit::{CrawlFixture, is_long, poll};
use std::process::Stdio;
use std::sync::Arc;

/// The peak memory of a process, in bytes.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Four hosts with `pages` pages each and `links` links per page. Nearly all links lead to different pages.
fn serve(pages: u32, links: u32) -> (argiope_practice::RunningWeb, String) {
    let site = Site::http("0.0.0.0:0").expect("a port");
    let plan = GraphPlan { hosts: 4, pages, links, cross: 100, size: 1_000, ..GraphPlan::default() };
    let has_tls = false;
    let graph = Arc::new(Graph::new(plan, site.address().port(), has_tls));
    let root = graph.roots().map(|id| graph.url(id)).next().expect("a root");
    (PracticeWeb::new().without_request_log().site(site.graph(&graph)).start().expect("a server"), root)
}

#[test]
fn many_queued_urls_fit_into_the_memory_limit() {
    let (pages, links, fetched, limit) =
        if is_long() { (20_000_000, 1_000, "13000", 256_u64) } else { (400_000, 500, "400", 64) };
    let (_web, root) = serve(pages, links);
    let fixture = CrawlFixture::new(&[root], &["-q", "--max-links", "5000"]);
    let memory = format!("{limit}M");
    let mut command = fixture.command(&["--max-pages", fetched, "--max-memory", &memory]);
    let mut crawl = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let mut peak_bytes = 0;
    let pid = crawl.id();
    assert!(poll(|| {
        peak_bytes = peak_memory(pid).unwrap_or(0).max(peak_bytes);
        crawl.try_wait().expect("the state of the process can be read").is_some()
    }));
    assert!(crawl.wait().expect("the process has ended").success());
    let last = fixture.records().pop().expect("records");
    let queued = last["queued"].as_u64().expect("a number");
    assert_eq!(last["reason"], "max_pages");
    eprintln!("{queued} URLs are queued; {} MB at most", peak_bytes >> 20);
    assert!(queued > if is_long() { 9_000_000 } else { 120_000 }, "{queued}");
    assert!(peak_bytes > 0 && peak_bytes < limit << 20, "{} MB", peak_bytes >> 20);
}

/// With too little memory, known and queued URLs are spilled to disk, and the crawl finishes.
#[test]
fn urls_beyond_the_memory_limit_are_spilled_to_disk() {
    let (_web, root) = serve(800, 60);
    let fixture = CrawlFixture::new(&[root], &["-q"]);
    fixture.succeed(&["--max-memory", "40k", "--max-pages", "500"]);
    let spilled = std::fs::read_dir(fixture.path("d.crawl").join("spill")).expect("a folder");
    assert!(spilled.flatten().any(|file| file.file_name().to_string_lossy().ends_with(".run")));
    fixture.succeed(&["--max-memory", "40k"]);
    let mut pages: Vec<String> = fixture
        .records()
        .iter()
        .filter(|record| record["type"] == "page")
        .map(|page| page["url"].to_string())
        .collect();
    assert_eq!(pages.len(), 4 * 800);
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), 4 * 800);
}
