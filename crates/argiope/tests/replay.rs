//! Replay of archives, and pages without a crawl.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use argiope::config::WarcCompression;
use argiope::{
    CannedResponse, CannedWeb, Crawl, CrawlBuilder, DeliveredBodies, End, ErrorKind, Method, Outcome, Page, Replay,
    Request,
};
use argiope_practice::{PracticeWeb, Response, Site};

const ROOT: &str = "https://site.example/";

/// What is the same in the crawl of a site and in that of its archive.
type Seen = BTreeMap<(String, String), (Option<u16>, Outcome, Vec<u8>, Vec<String>, Option<Duration>)>;

/// Crawls to the end.
fn crawl(builder: CrawlBuilder) -> Seen {
    let mut pages = builder.bodies(DeliveredBodies::All).start_blocking().expect("the crawl starts");
    let seen = pages.by_ref().map(|page| {
        let key = (page.method().to_string(), page.url().path().to_owned());
        let links = page.links().iter().map(|link| link.url.to_string()).collect();
        (key, (page.status(), page.outcome(), page.body().to_vec(), links, page.facts().timings.total))
    });
    let seen = seen.collect();
    assert_eq!(pages.close().expect("the crawl ends").end, End::Finished);
    seen
}

fn archived(builder: CrawlBuilder, directory: &Path) -> CrawlBuilder {
    builder.directory(directory).configure(|config| config.warc = true)
}

#[test]
fn a_replay_gives_the_pages_of_the_archived_crawl_with_their_times() {
    let slow = CannedResponse::html("<a href=/>back").latency(Duration::from_secs(7));
    let page = |body: &str| CannedResponse::html(body).latency(Duration::from_millis(120));
    let web = || {
        CannedWeb::from([
            (ROOT, page("<a href=/slow><a href=/same><a href=/twin><a href=/old><a href=/gone>")),
            ("https://site.example/slow", slow.clone()),
            ("https://site.example/same", page("one body")),
            ("https://site.example/twin", page("one body")),
            ("https://site.example/old", CannedResponse::redirect("/same")),
            ("https://site.example/robots.txt", CannedResponse::text("User-agent: *\nCrawl-delay: 2\n")),
        ])
    };
    let folder = tempfile::tempdir().expect("a folder");
    for compression in WarcCompression::ALL {
        let directory = folder.path().join(compression.as_str());
        let builder = archived(Crawl::builder(ROOT).with_transport(web()), &directory);
        let original = crawl(builder.configure(|config| config.warc_compression = *compression));
        assert_eq!(original.len(), 6);
        let replay = Replay::from_warc(&directory).expect("an archive");
        assert_eq!(replay.urls().count(), 7, "with robots.txt");
        assert_eq!(crawl(Crawl::builder(ROOT).with_transport(replay)), original, "{compression:?}");
        let slow = &original[&("GET".to_owned(), "/slow".to_owned())];
        assert!(slow.4 >= Some(Duration::from_secs(7)), "{slow:?}");
    }
}

#[test]
fn chunked_and_compressed_pages_of_a_server_and_forms_are_replayed() {
    let site = Site::http("127.5.6.1:0").expect("a loopback address");
    let site = site.page("/", Response::html("<a href=/gzip><a href=/chunks>").delay(Duration::from_millis(80)));
    let site = site.page("/gzip", Response::html("packed ".repeat(900)).gzip());
    let site = site.page("/chunks", Response::html("in chunks ".repeat(900)).chunked([100]));
    let site = site.fallback(Response::html("found"));
    let root = site.url("/");
    let folder = tempfile::tempdir().expect("a folder");
    let builder = || {
        let search = Request::post(&format!("{root}search")).expect("a URL").form([("q", "orb")]);
        Crawl::builder(&root).root(search)
    };
    let web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let original = crawl(archived(builder(), folder.path()));
    web.stop().expect("it stops");
    let replay = Replay::from_warc(folder.path().join("archive/00001.warc.gz")).expect("an archive");
    let replayed = crawl(builder().with_transport(replay));
    assert_eq!(replayed.keys().collect::<Vec<_>>(), original.keys().collect::<Vec<_>>());
    assert_eq!(replayed.len(), 4);
    for (key, page) in &original {
        let again = &replayed[key];
        assert_eq!((&again.0, &again.1, &again.2, &again.3), (&page.0, &page.1, &page.2, &page.3), "{key:?}");
    }
    assert!(replayed[&("GET".to_owned(), "/".to_owned())].4 >= Some(Duration::from_millis(80)));
}

#[test]
fn a_page_that_was_not_modified_is_replayed_with_its_body() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = |status: u16| CannedResponse::status(status).header("ETag", "\"1\"").header("Content-Type", "text/html");
    let web = CannedWeb::new().page(ROOT, page(200).body("the page")).page(ROOT, page(304));
    // One web for both crawls: it answers the second request with 304.
    let first = archived(Crawl::builder(ROOT).with_transport(web.clone()), folder.path());
    assert_eq!(crawl(first).len(), 1);
    let web = CannedWeb::new().page(ROOT, page(304));
    let mut second = archived(Crawl::builder(ROOT).with_transport(web).recrawl(), folder.path())
        .start_blocking()
        .expect("the crawl starts");
    assert_eq!(second.next().map(|page| page.outcome()), Some(Outcome::NotModified));
    second.close().expect("it ends");
    let replay = Replay::from_warc(folder.path()).expect("an archive");
    let mut builder = Crawl::builder(ROOT).root(Request::get(ROOT).expect("a URL").key("again"));
    builder = builder.root(Request::get(ROOT).expect("a URL").key("third"));
    let pages: Vec<Page> = builder.with_transport(replay).start_blocking().expect("it starts").collect();
    assert_eq!(pages.len(), 3);
    assert!(pages.iter().all(|page| page.body() == b"the page"));
}

#[test]
fn archives_of_other_programs_are_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let response = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<a href=/other>";
    let record = |url: &str, block: &str| {
        let length = block.len();
        format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <{url}>\r\nWARC-Date: 2020-02-03T04:05:06Z\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {length}\r\n\r\n{block}\r\n\r\n"
        )
    };
    let info = "WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 4\r\n\r\na: b\r\n\r\n";
    let cut = &record("http://site.example/cut", response)[..250];
    let text = format!("{info}{}{cut}", record("http://site.example/", response));
    let file = folder.path().join("other.warc");
    std::fs::write(&file, text).expect("a file");
    let mut pages = Crawl::builder("http://site.example/")
        .with_transport(Replay::from_warc(&file).expect("an archive"))
        .start_blocking()
        .expect("it starts");
    let page = pages.next().expect("the root");
    assert!(
        page.is_ok() && page.record().started.as_deref().is_some_and(|at| at.starts_with("2020-02-03")),
        "{:?}",
        page.record()
    );
    assert_eq!(pages.next().and_then(|page| page.status()), Some(404), "not in the archive");
    assert!(pages.next().is_none());
}

#[test]
fn what_is_not_an_archive_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = |path: &Path| Replay::from_warc(path).expect_err("not an archive").to_string();
    assert!(error(folder.path()).contains("no WARC file"));
    assert!(error(&folder.path().join("missing.warc")).contains("missing.warc"));
    let text = folder.path().join("text.warc");
    std::fs::write(&text, "hello").expect("a file");
    assert!(Replay::from_warc(&text).is_err());
    let empty = folder.path().join("empty.warc.gz");
    std::fs::write(&empty, "").expect("a file");
    assert!(error(&empty).contains("no responses"));
}

#[test]
fn a_page_can_be_built_for_a_test() {
    let request = Request::post("https://site.example/a").expect("a URL").user_data(7);
    let response =
        CannedResponse::status(201).header("Content-Type", "text/html; charset=latin1").body(*b"<h1>\xE9</h1>");
    let page = Page::builder(request).response(response).build().expect("a page");
    assert_eq!((page.method(), page.status(), page.user_data().as_i64()), (Method::Post, Some(201), Some(7)));
    assert_eq!(page.select_text("h1").expect("a selector").as_deref(), Some("é"));
    assert_eq!((page.record().status, page.header("content-type")), (Some(201), Some("text/html; charset=latin1")));
    let failed = Page::builder(ROOT).response(CannedResponse::failure(ErrorKind::Reset)).build().expect("a page");
    assert_eq!(failed.error().map(|error| error.kind), Some(ErrorKind::Reset));
    assert!(Page::builder("mailto:a@b.example").build().is_err());
}
