//! A thousand crawls of one process: what they cost. The only test of this file, because it counts the threads and the
//! descriptors of the process.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use argiope::{Crawler, Pages, RobotsPolicy};
use argiope_practice::{PracticeWeb, Response, Site};

const CRAWLS: usize = 1_000;
/// The bar for the memory of a crawl. A debug build uses as much as a release build.
const CRAWL_KIB: usize = 64;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux").count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// The resident memory of the process, in KiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

#[test]
fn a_thousand_crawls_have_no_thread_and_no_descriptor_each() {
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 5, 8, 1);
    let site =
        Site::http("127.5.8.1:0").expect("a loopback address").fallback(Response::html("<a href=/next>next</a>"));
    let port = site.address().port();
    let web = PracticeWeb::new().site(site).without_request_log().start().expect("the practice web starts");
    let crawler = Crawler::new();
    let crawl = |number: usize| -> Pages {
        let builder = crawler.crawl(format!("http://h{number}.test:{port}/")).robots(RobotsPolicy::Ignore);
        let builder = builder.resolve_with(|_| Some(vec![IpAddr::V4(ADDRESS)])).allow_private().no_sitemap();
        let mut pages = builder.start_blocking().expect("it starts");
        // The page is not processed, so the crawl stays open.
        assert!(pages.next().expect("a page").is_ok());
        pages
    };
    // The first crawl starts the threads.
    let mut crawls = vec![crawl(0)];
    let (threads_before, memory_before) = (threads(), memory());
    crawls.extend((1..CRAWLS).map(crawl));
    assert_eq!(crawler.running(), CRAWLS);
    // A connection has two ends in this process, and is kept for the next request.
    let connections = web.open() as usize;
    let (threads, descriptors, memory) = (threads(), descriptors(), memory());
    let kib = memory.saturating_sub(memory_before) / (CRAWLS - 1);
    assert!(threads <= threads_before, "{threads} threads, {threads_before} before");
    assert!(descriptors <= 2 * connections + 64, "{descriptors} descriptors, {connections} connections");
    assert!(kib <= CRAWL_KIB, "{kib} KiB for each of {CRAWLS} crawls, with {threads} threads");
    for (number, pages) in crawls.into_iter().enumerate() {
        match number % 3 {
            0 => drop(pages.close().expect("it ends")),
            1 => drop(pages),
            _ => assert_eq!(pages.filter(argiope::Page::is_ok).count(), 1),
        }
    }
    let waited = std::time::Instant::now();
    while crawler.running() > 0 {
        assert!(waited.elapsed() < Duration::from_secs(60), "{} crawls did not end", crawler.running());
        std::thread::yield_now();
    }
}
