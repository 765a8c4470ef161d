//! `--max-memory`: many URLs in little memory, as measured by the kernel.
//!
//! By default, the site has a few hundred thousand URLs; with `ARGIOPE_LONG=1`, ten million in 256 MB.

#![allow(clippy::print_stderr, reason = "it tells what it measured")]

mod durable_kit;

use argiope_practice::{Graph, GraphPlan, PracticeWeb, Site};
use durable_kit::{Bench, is_long, poll};
use std::process::Stdio;
use std::sync::Arc;

/// The peak memory of a process, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// A site with this number of pages and links per page; nearly all links lead to different pages.
fn serve(pages: u32, links: u32) -> (argiope_practice::RunningWeb, String) {
    let site = Site::http("0.0.0.0:0").expect("a port");
    let plan = GraphPlan { hosts: 4, pages, links, cross: 100, size: 1_000, ..GraphPlan::default() };
    let graph = Arc::new(Graph::new(plan, site.address().port(), false));
    let root = graph.roots().map(|id| graph.url(id)).next().expect("a root");
    (PracticeWeb::new().counts_only().site(site.graph(&graph)).start().expect("a server"), root)
}

#[test]
fn very_many_addresses_fit_in_little_memory() {
    let (pages, links, fetched, limit) =
        if is_long() { (20_000_000, 1_000, "13000", 256_u64) } else { (400_000, 500, "400", 64) };
    let (_web, root) = serve(pages, links);
    let bench = Bench::new(&[root], &["-q", "--max-links", "5000"]);
    let memory = format!("{limit}M");
    let mut command = bench.command(&["--max-pages", fetched, "--max-memory", &memory]);
    let mut crawl = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut most = 0;
    let pid = crawl.id();
    assert!(poll(|| {
        most = peak(pid).unwrap_or(0).max(most);
        crawl.try_wait().expect("it can be waited for").is_some()
    }));
    assert!(crawl.wait().expect("it has ended").success());
    let last = bench.records().pop().expect("records");
    let known = last["queued"].as_u64().expect("a number");
    assert_eq!(last["reason"], "max_pages");
    eprintln!("{known} addresses are queued; {} MB at most", most >> 20);
    assert!(known > if is_long() { 9_000_000 } else { 120_000 }, "{known}");
    assert!(most > 0 && most < limit << 20, "{} MB", most >> 20);
}

/// With too little memory, known and queued URLs are spilled to disk, and the crawl finishes.
#[test]
fn a_crawl_that_exceeds_memory_continues_from_disk() {
    let (_web, root) = serve(800, 60);
    let bench = Bench::new(&[root], &["-q"]);
    bench.succeed(&["--max-memory", "40k", "--max-pages", "500"]);
    let spilled = std::fs::read_dir(bench.path("d.crawl").join("spill")).expect("a folder");
    assert!(spilled.flatten().any(|file| file.file_name().to_string_lossy().ends_with(".run")));
    bench.succeed(&["--max-memory", "40k"]);
    let mut pages: Vec<String> =
        bench.records().iter().filter(|record| record["type"] == "page").map(|page| page["url"].to_string()).collect();
    assert_eq!(pages.len(), 4 * 800);
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), 4 * 800);
}
