//! Links of a page, following them by selector, status and pause, roots of strangers, and errors at the end.

use std::time::Duration;

use argiope::status::CrawlState;
use argiope::{CannedResponse, CannedWeb, Crawl, DeliveredBodies, ErrorKind, LinkKind, Outcome, RobotsPolicy};
use argiope_practice::{PracticeWeb, Response, Site};

const HOST: &str = "https://site.example";

fn web(pages: &[(&str, &str)]) -> CannedWeb {
    pages.iter().map(|(path, html)| (format!("{HOST}{path}"), CannedResponse::html(*html))).collect()
}

#[test]
fn a_page_lists_its_links_with_text_rel_kind_and_scope() {
    let html = "<base href=/x/><a href=a rel='tag me'>The <b>first</b> one</a><a href=a>again</a>\
        <a href=https://other.example/ rel=nofollow>other</a><img src=/i.png alt=picture><link rel=next href=2>";
    let crawl = Crawl::builder(format!("{HOST}/")).with_transport(web(&[("/", html)])).max_pages(1);
    let page = crawl.start_blocking().expect("it starts").next().expect("a page");
    let links: Vec<_> = page
        .links()
        .iter()
        .map(|link| (link.url.as_str(), &*link.text, &*link.rel, link.kind, link.nofollow, link.in_scope))
        .collect();
    let first = format!("{HOST}/x/a");
    assert!(links.contains(&(&first, "The first one", "tag me", LinkKind::Anchor, false, true)), "{links:?}");
    let other = "https://other.example/";
    assert!(links.contains(&(other, "other", "nofollow", LinkKind::Anchor, true, false)), "{links:?}");
    assert!(links.iter().any(|(url, .., kind, _, _)| url.ends_with("/i.png") && *kind == LinkKind::Asset), "{links:?}");
    assert!(links.iter().any(|(url, .., kind, _, _)| url.ends_with("/x/2") && *kind == LinkKind::Rel), "{links:?}");
    assert_eq!(links.iter().filter(|(url, ..)| *url == first).count(), 1);
    let crawl = Crawl::builder(format!("{HOST}/")).with_transport(web(&[("/", html)])).max_pages(1);
    let page = crawl.bodies(DeliveredBodies::None).start_blocking().expect("it starts").next().expect("a page");
    assert!(page.links().is_empty(), "without a body");
}

#[test]
fn elements_of_a_page_are_followed_by_selector() {
    let pages = [
        ("/1", "<a href=/skip>skip</a><a class=next href=/2>next</a>"),
        ("/2", "<a class=next href=/3>next</a><a class=next href='javascript:x()'>none</a>"),
        ("/3", "<a href=/1>first</a>"),
    ];
    let mut crawl = Crawl::builder(format!("{HOST}/1"))
        .with_transport(web(&pages))
        .follow(|_| false)
        .start_blocking()
        .expect("it starts");
    let mut seen = Vec::new();
    while let Some(page) = crawl.try_next().expect("the crawl works") {
        seen.push((page.url().path().to_owned(), page.depth()));
        crawl.follow(&page, "a.next").expect("a selector");
        assert!(crawl.follow(&page, "a[").is_err());
    }
    assert_eq!(seen, [("/1".to_owned(), 0), ("/2".to_owned(), 1), ("/3".to_owned(), 2)]);
    assert!(crawl.try_next().expect("it ended well").is_none());
    assert_eq!(crawl.close().expect("it ended well").left, 0);
}

#[test]
fn preferred_urls_are_fetched_first() {
    let root = "<a href=/a><a href=/b><a href=/news/1><a href=/spiders>";
    let pages =
        [("/", root), ("/a", ""), ("/b", "<a href=/news/2>"), ("/news/1", ""), ("/news/2", ""), ("/spiders", "")];
    let crawl = Crawl::builder(format!("{HOST}/")).with_transport(web(&pages)).configure(|config| {
        config.per_host = Some(1);
        config.prefer = vec!["spider".into(), "/news/".into()];
    });
    let order: Vec<String> =
        crawl.start_blocking().expect("it starts").map(|page| page.url().path().to_owned()).collect();
    assert_eq!(order, ["/", "/spiders", "/news/1", "/a", "/b", "/news/2"]);
    let crawl = Crawl::builder(HOST).configure(|config| config.prefer = vec!["[".into()]);
    let error = crawl.start_blocking().map(|_| ()).expect_err("the pattern cannot be used").to_string();
    assert!(error.contains("prefer"), "{error}");
}

#[test]
fn a_crawl_shows_its_status_and_can_be_paused() {
    let paths: Vec<String> = (0..200).map(|number| format!("/{number}")).collect();
    let site = Site::http("127.5.4.34:0").expect("a loopback address").page("/", Response::links(&paths));
    let site = site.fallback(Response::html("x"));
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let mut pages = Crawl::builder(&root).robots(RobotsPolicy::Ignore).start_blocking().expect("it starts");
    pages.next().expect("the root");
    let handle = pages.handle();
    handle.pause();
    let status = handle.status().expect("it runs");
    assert_eq!(status.state, CrawlState::Paused);
    assert!(status.pages >= 1 && status.memory_bytes > 0);
    // Requests in flight end, and no others start.
    assert!(web.wait_until(Duration::from_secs(20), |_| handle.status().is_ok_and(|status| status.in_flight == 0)));
    let requests = web.requests();
    assert!(requests < 200, "{requests}");
    assert_eq!(handle.status().expect("it runs").queued, 201 - requests);
    handle.resume();
    assert_eq!(pages.by_ref().count(), 200);
    pages.close().expect("it ends");
    assert!(handle.status().is_err());
}

#[test]
fn roots_of_strangers_do_not_reach_the_own_network() {
    let site = Site::http("127.5.4.35:0").expect("a loopback address").fallback(Response::html("secret"));
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let guarded = Crawl::builder(&root).roots(["http://127.0.0.1:8080/", "http://[::1]:8081/"]).refuse_private_roots();
    let pages: Vec<_> = guarded.clone().start_blocking().expect("it starts").collect();
    assert_eq!(pages.len(), 3);
    for page in pages {
        assert_eq!(page.outcome(), Outcome::Refused, "{}", page.url());
        let error = page.error().expect("an error");
        assert_eq!(error.kind, ErrorKind::PrivateAddress);
        assert!(!error.message.contains("allow_private"), "{}", error.message);
    }
    assert_eq!(web.requests(), 0);
    assert!(guarded.allow_private().start_blocking().is_err_and(|error| error.is_config()));
    assert!(Crawl::builder(&root).start_blocking().expect("it starts").all(|page| page.is_ok()));
}

#[test]
fn the_error_that_ended_a_crawl_is_returned_by_the_last_try_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    let pages: Vec<(String, String)> =
        (0..50).map(|number| (format!("/{number}"), format!("<a href=/{}>", number + 1))).collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|(path, html)| (path.as_str(), html.as_str())).collect();
    let crawl = Crawl::builder(format!("{HOST}/0")).with_transport(web(&pages)).directory(&directory);
    let crawl = crawl.configure(|config| config.jsonl = Some(folder.path().join("records.jsonl")));
    let mut pages = crawl.start_blocking().expect("it starts");
    pages.try_next().expect("it runs").expect("a page");
    std::fs::remove_file(folder.path().join("records.jsonl")).expect("it can be removed");
    let error = loop {
        match pages.try_next() {
            Ok(page) => assert!(page.is_some(), "the crawl ends with an error"),
            Err(error) => break error,
        }
    };
    assert!(error.is_store(), "{error}");
    assert!(pages.close().is_err_and(|error| error.is_store()), "the error is returned again");
}
