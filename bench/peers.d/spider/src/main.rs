//! A crawler built on the crate `spider`, for comparison. Crawls all roots of a file at the same time, with a limit on
//! connections.
//!
//! Usage: `spider-bench ROOTS CONNECTIONS`. robots.txt is ignored, there is no delay, and pages are discarded.

use spider::website::Website;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let roots = arguments.next().expect("a file with roots");
    let connections: usize = arguments.next().and_then(|text| text.parse().ok()).expect("a number of connections");
    let roots = std::fs::read_to_string(roots).expect("the roots can be read");
    let roots: Vec<String> = roots.lines().map(str::to_owned).collect();
    let each = (connections / roots.len().max(1)).max(1);
    let crawls: Vec<_> = roots
        .into_iter()
        .map(|root| {
            tokio::spawn(async move {
                let mut website = Website::new(&root);
                website.with_respect_robots_txt(false).with_delay(0).with_concurrency_limit(Some(each));
                website.with_ignore_sitemap(true).with_no_control_thread(true);
                website.crawl_raw().await;
            })
        })
        .collect();
    for crawl in crawls {
        crawl.await.expect("the crawl ends");
    }
}
