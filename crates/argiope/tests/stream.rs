//! The library: a crawl as a stream that accepts more links and can be closed gracefully.

use std::pin::pin;

use argiope::{Config, Crawl, Outcome};
use argiope_core::crawl::rules::{RobotsPolicy, ScopeKind};
use argiope_core::crawl::schedule::keeper::End;
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use futures_core::Stream;

fn serve() -> (RunningWeb, Config, String) {
    let site = Site::http("127.5.0.1:0")
        .expect("a loopback address")
        .page("/", Response::links(["/a"]))
        .page("/a", Response::html("a"))
        .fallback(Response::html("fed"));
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let config = Config { roots: vec![root.clone()], robots: RobotsPolicy::Ignore, ..Config::default() };
    (web, config, root)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without I/O").block_on(future)
}

#[test]
fn all_pages_are_delivered_and_the_stream_ends() {
    let (_web, config, root) = serve();
    block_on(async {
        let mut crawl = Crawl::start(&config).await.expect("it starts");
        let mut urls = Vec::new();
        while let Some(page) = crawl.next().await {
            assert_eq!(page.outcome(), Outcome::Ok);
            let record = page.record();
            assert_eq!((&*record.url, record.status, record.digest.is_some()), (page.url().as_str(), Some(200), true));
            assert_eq!(serde_json::to_value(&record).expect("a record")["type"], "page");
            urls.push(page.url().to_string());
        }
        assert_eq!(urls, [root.clone(), format!("{root}a")]);
        let summary = crawl.close().await.expect("it ended well");
        assert_eq!((summary.end, summary.left), (End::Finished, 0));
    });
}

#[test]
fn the_stream_ends_only_after_the_last_fed_link() {
    // The next link is not on any page: the reader feeds it after each page. The crawl is idle in between, and must
    // not end before the reader has requested the next page.
    let (web, config, root) = serve();
    block_on(async {
        let mut crawl = Crawl::start(&config).await.expect("it starts");
        let mut count = 0;
        while let Some(_page) = crawl.next().await {
            count += 1;
            if count <= 50 {
                crawl.feed([format!("{root}fed/{count}").as_str()]).expect("a URL");
            }
        }
        assert_eq!(count, 2 + 50);
        crawl.close().await.expect("it ended well");
    });
    assert_eq!(web.requests(), 52);
}

#[test]
fn known_links_are_not_requested_again() {
    let (web, config, root) = serve();
    block_on(async {
        let mut crawl = Crawl::start(&config).await.expect("it starts");
        while let Some(page) = crawl.next().await {
            crawl.feed([page.url().as_str(), &root]).expect("addresses");
        }
    });
    assert_eq!(web.requests(), 2);
}

#[test]
fn a_crawl_implements_stream() {
    let (_web, config, _) = serve();
    block_on(async {
        let crawl = Crawl::start(&config).await.expect("it starts");
        let mut stream = pin!(crawl);
        let mut count = 0;
        while std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await.is_some() {
            count += 1;
        }
        assert_eq!(count, 2);
    });
}

#[test]
fn a_crawl_with_queued_links_can_be_closed() {
    let (web, mut config, root) = serve();
    config.scope = ScopeKind::Any;
    block_on(async {
        let mut crawl = Crawl::start(&config).await.expect("it starts");
        crawl.next().await.expect("the root");
        for n in 0..1_000 {
            crawl.feed([format!("{root}many/{n}").as_str()]).expect("a URL");
        }
        let summary = crawl.close().await.expect("it ended well");
        assert!(matches!(summary.end, End::Interrupted | End::Finished), "{:?}", summary.end);
    });
    assert!(web.requests() <= 1_002);
}

#[test]
fn dropping_the_crawl_stops_it() {
    let (web, config, _) = serve();
    let crawl = block_on(Crawl::start(&config)).expect("it starts");
    drop(crawl);
    let idle = web.wait_open(0, std::time::Duration::from_secs(30));
    assert!(idle, "connections are still open after the crawl was dropped");
}

#[test]
fn bad_settings_are_refused_before_the_crawl_starts() {
    let config = Config { roots: vec!["ftp://h/".into()], ..Config::default() };
    let error = block_on(Crawl::start(&config)).expect_err("it does not start");
    assert!(error.to_string().contains("ftp://h/"), "{error}");
}

#[test]
fn a_stream_resumes_in_its_directory() {
    let (_web, config, root) = serve();
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config { out: Some(folder.path().join("d.crawl")), ..config };
    block_on(async {
        let mut crawl = Crawl::start(&config).await.expect("it starts");
        assert_eq!(crawl.next().await.expect("the root").url().as_str(), root);
        crawl.close().await.expect("it ended well");
        let mut crawl = Crawl::start(&config).await.expect("it resumes");
        let mut rest = Vec::new();
        while let Some(page) = crawl.next().await {
            rest.push(page.url().to_string());
        }
        assert_eq!(rest, [format!("{root}a")], "the root was processed before");
        crawl.close().await.expect("it ended well");
    });
}

#[test]
fn a_cancelled_wait_for_the_end_loses_neither_the_end_nor_its_error() {
    let (_web, config, _) = serve();
    block_on(async {
        let mut crawl = Crawl::start(&config).await.expect("it starts");
        let mut pages = 0;
        // Each call is dropped after one poll.
        loop {
            let polled = std::future::poll_fn(|cx| pin!(crawl.try_next()).poll(cx)).await;
            match polled.expect("the crawl ends well") {
                Some(_) => pages += 1,
                None => break,
            }
        }
        assert_eq!(pages, 2);
        assert_eq!(crawl.try_next().await.expect("the end again").map(|page| page.url().to_string()), None);
        assert_eq!(crawl.close().await.expect("it ended well").end, End::Finished);
    });
}
