//! Crawls without a network: over canned pages, in virtual time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use argiope::{CannedResponse, CannedWeb, Crawl, CrawlBuilder, End, ErrorKind, Outcome, Summary};

const ROOT: &str = "https://site.example/";

fn html(body: &str) -> CannedResponse {
    CannedResponse::html(body)
}

/// Crawls to the end. Returns the outcome of each page, and the summary.
fn crawl(builder: CrawlBuilder) -> (BTreeMap<String, Outcome>, Summary) {
    let mut pages = builder.start_blocking().expect("the crawl starts");
    let found = pages.by_ref().map(|page| (page.url().path().to_owned(), page.outcome())).collect();
    (found, pages.close().expect("the crawl ends"))
}

#[test]
fn a_crawl_over_canned_pages_finds_what_they_link_to() {
    let web = CannedWeb::from([
        (ROOT, html("<title>Home</title><a href=/a><a href=/gone><a href=/old><a href=/dead>")),
        ("https://site.example/a", html("<a href=https://other.example/>")),
        ("https://site.example/old", CannedResponse::redirect("/a")),
        ("https://site.example/dead", CannedResponse::failure(ErrorKind::ConnectRefused)),
    ]);
    let (pages, summary) = crawl(Crawl::builder(ROOT).with_transport(web));
    let expected = [
        ("/", Outcome::Ok),
        ("/a", Outcome::Ok),
        ("/gone", Outcome::HttpError),
        ("/old", Outcome::Redirect),
        ("/dead", Outcome::Failed),
    ];
    assert_eq!(pages, expected.map(|(path, outcome)| (path.to_owned(), outcome)).into());
    assert_eq!(summary.end, End::Finished);
}

#[test]
fn hours_of_crawl_delay_pass_in_virtual_time() {
    const PAGES: usize = 500;
    let links: String = (0..PAGES).map(|page| format!("<a href=/{page}>")).collect();
    let pages = (0..PAGES).map(|page| (format!("{ROOT}{page}"), html("").latency(Duration::from_secs(2))));
    let web: CannedWeb = pages.collect();
    let web = web
        .page(ROOT, html(&links))
        .page("https://site.example/robots.txt", CannedResponse::text("User-agent: *\nCrawl-delay: 30\n"));
    let begun = Instant::now();
    let (pages, summary) = crawl(Crawl::builder(ROOT).with_transport(web));
    assert_eq!(pages.len(), PAGES + 1);
    assert!(summary.elapsed >= Duration::from_secs(30) * PAGES as u32, "{:?}", summary.elapsed);
    assert!(begun.elapsed() < summary.elapsed, "virtual time is not waited for");
}

#[test]
fn robots_txt_redirects_and_retries_work_as_over_the_network() {
    let web = CannedWeb::new()
        .page(ROOT, html("<a href=/secret/x><a href=/shaky>"))
        .page("https://site.example/robots.txt", CannedResponse::text("User-agent: *\nDisallow: /secret/\n"))
        .page("https://site.example/shaky", CannedResponse::status(503).header("Retry-After", "120"))
        .page("https://site.example/shaky", html("there at the second try"));
    let (pages, summary) = crawl(Crawl::builder(ROOT).with_transport(web));
    assert_eq!(pages.get("/secret/x"), Some(&Outcome::Robots));
    assert_eq!(pages.get("/shaky"), Some(&Outcome::Ok));
    assert!(summary.elapsed >= Duration::from_secs(120), "Retry-After is obeyed: {:?}", summary.elapsed);
}

#[test]
fn every_run_is_the_same_also_with_links_that_are_fed() {
    let run = || {
        let pages = (0..40).map(|page| {
            let latency = Duration::from_millis(page * 37 % 300);
            (format!("{ROOT}{page}"), html(&format!("<a href=/{}>", page + 1)).latency(latency))
        });
        let web: CannedWeb = pages.collect();
        let web = web.page("https://site.example/fed", html("").latency(Duration::from_millis(5)));
        let mut pages =
            Crawl::builder(format!("{ROOT}0")).with_transport(web).start_blocking().expect("the crawl starts");
        let mut order = Vec::new();
        while let Some(page) = pages.next() {
            if page.url().path() == "/7" {
                // The reader is slow. Virtual time waits for it.
                std::thread::sleep(Duration::from_millis(30));
                pages.feed([format!("{ROOT}fed")]).expect("the crawl accepts links");
            }
            order.push((page.url().path().to_owned(), page.facts().timings.total));
        }
        (order, pages.close().expect("the crawl ends").elapsed)
    };
    let first = run();
    assert_eq!(first.0.len(), 42);
    assert_eq!(first, run());
}

#[test]
fn a_response_slower_than_the_timeout_fails() {
    let slow = html("late").latency(Duration::from_secs(100));
    let web = CannedWeb::from([(ROOT, html("<a href=/slow>")), ("https://site.example/slow", slow)]);
    let builder = Crawl::builder(ROOT).with_transport(web).configure(|config| config.max_tries = 1);
    let mut pages = builder.start_blocking().expect("the crawl starts");
    let errors: Vec<_> = pages.by_ref().filter_map(|page| page.error().map(|failure| failure.kind)).collect();
    assert_eq!(errors, [ErrorKind::TimeoutFirstByte]);
}

#[test]
fn a_crawl_directory_works_in_virtual_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let web = || {
        let page = |body: &str| html(body).latency(Duration::from_secs(1));
        CannedWeb::from([(ROOT, page("<a href=/a>")), ("https://site.example/a", page("end"))])
    };
    let builder = || Crawl::builder(ROOT).directory(folder.path().join("crawl")).with_transport(web());
    assert_eq!(crawl(builder().max_pages(1)).0.len(), 1);
    let (pages, summary) = crawl(builder());
    assert_eq!(pages.into_keys().collect::<Vec<_>>(), ["/a"]);
    assert_eq!(summary.left, 0);
}

#[test]
fn a_transport_serves_one_crawl() {
    let builder = Crawl::builder(ROOT).with_transport(CannedWeb::from([(ROOT, html("one"))]));
    let copy = builder.clone();
    assert_eq!(crawl(builder).0.len(), 1);
    let Err(error) = copy.start_blocking() else { panic!("the transport is used by the other crawl") };
    assert!(error.to_string().contains("set one for each crawl"), "{error}");
}
