//! Many crawls of one process: what they share, and that each ends by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use argiope::{Crawl, CrawlBuilder, Crawler, End};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

const PAGES: usize = 5;
const DELAY: Duration = Duration::from_millis(25);

/// A site whose root links to `pages` other pages.
fn serve(address: &str, pages: usize) -> (RunningWeb, String) {
    let paths: Vec<String> = (1..pages).map(|page| format!("/{page}")).collect();
    let site = Site::http(address).expect("a loopback address").page("/", Response::links(&paths));
    let site = site.page("/robots.txt", Response::text("User-agent: *\nDisallow: /none\n"));
    let site = site.fallback(Response::html("x").delay(Duration::from_millis(5)));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

/// Reads a crawl to its end, on a thread of its own. Returns the paths of its pages.
fn read(builder: CrawlBuilder) -> std::thread::JoinHandle<BTreeSet<String>> {
    std::thread::spawn(move || {
        let mut pages = builder.start_blocking().expect("it starts");
        let paths = pages.by_ref().inspect(|page| assert!(page.is_ok())).map(|page| page.url().path().to_owned());
        let paths = paths.collect();
        assert_eq!(pages.close().expect("it ends").end, End::Finished);
        paths
    })
}

#[test]
fn twenty_crawls_of_one_host_keep_its_delay_together_and_fetch_robots_txt_once() {
    const CRAWLS: usize = 20;
    let (web, root) = serve("127.5.7.1:0", PAGES);
    let crawler = Crawler::new();
    let crawls: Vec<_> = (0..CRAWLS).map(|_| read(crawler.crawl(&root).delay(DELAY))).collect();
    for crawl in crawls {
        assert_eq!(crawl.join().expect("it reads").len(), PAGES);
    }
    let log = web.log();
    let (robots, pages): (Vec<_>, Vec<_>) = log.iter().partition(|request| request.path == "/robots.txt");
    assert_eq!((robots.len(), pages.len()), (1, CRAWLS * PAGES));
    let gaps: Vec<Duration> = pages.windows(2).map(|pair| pair[1].start - pair[0].start).collect();
    // A request that arrives late on a busy machine makes the gap before it longer and the next one shorter.
    let short = gaps.iter().filter(|gap| **gap < DELAY / 2).count();
    assert!(short < CRAWLS / 2, "{short} of {} gaps are shorter than the delay", gaps.len());
    assert!(gaps.iter().sum::<Duration>() >= DELAY * (CRAWLS * PAGES - 1) as u32 * 9 / 10, "{gaps:?}");
    assert_eq!(crawler.running(), 0);
}

#[test]
fn a_small_crawl_does_not_wait_for_the_end_of_a_large_one() {
    let (web, root) = serve("127.5.7.2:0", 400);
    let crawler = Crawler::new();
    let mut large = crawler.crawl(&root).delay(DELAY).start_blocking().expect("it starts");
    assert!(large.next().is_some());
    assert!(web.wait_until(Duration::from_secs(20), |web| web.requests() >= 5));
    let small = read(crawler.crawl(&root).delay(DELAY).max_pages(1).configure(|config| config.depth = Some(0)));
    let handle = large.handle();
    let reader = std::thread::spawn(move || {
        let read = large.by_ref().count();
        (read, large.close().expect("it ends").end)
    });
    assert_eq!(small.join().expect("it reads").len(), 1);
    assert!(!reader.is_finished(), "the large crawl goes on");
    handle.stop();
    let (read, end) = reader.join().expect("it reads");
    assert!(read > 1 && end == End::Interrupted, "{read} {end:?}");
}

#[test]
fn a_host_is_free_when_its_crawl_is_dropped() {
    let (web, root) = serve("127.5.7.3:0", 400);
    let crawler = Crawler::new();
    let large = crawler.crawl(&root).delay(DELAY).start_blocking().expect("it starts");
    assert!(web.wait_until(Duration::from_secs(20), |web| web.requests() >= 3));
    let next = read(crawler.crawl(&root).delay(DELAY).configure(|config| config.depth = Some(0)));
    drop(large);
    assert_eq!(next.join().expect("it reads").len(), 1);
}

#[test]
fn crawls_of_one_crawler_can_be_resumed_from_their_directories() {
    let (_web, root) = serve("127.5.7.4:0", 30);
    let folder = tempfile::tempdir().expect("a folder");
    let crawler = Crawler::new();
    let directory = |number: usize| folder.path().join(number.to_string());
    for number in 0..2 {
        let first = crawler.crawl(&root).directory(directory(number)).max_pages(10).delay(DELAY / 5);
        assert_eq!(first.start_blocking().expect("it starts").count(), 10);
    }
    let rest: Vec<_> =
        (0..2).map(|number| read(crawler.crawl(&root).directory(directory(number)).delay(DELAY / 5))).collect();
    for crawl in rest {
        assert_eq!(crawl.join().expect("it reads").len(), 20);
    }
    // A crawl without a crawler is not affected.
    assert_eq!(Crawl::builder(&root).directory(directory(0)).start_blocking().expect("it starts").count(), 0);
}
