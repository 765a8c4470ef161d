//! Cases about responses: how they arrive, and how they fail.

use std::net::TcpListener;
use std::time::Duration;

use argiope_core::crawl::rules::{Config, EngineName, Size, Span};
use argiope_core::crawl::visit::Visit;
use argiope_core::{ErrorKind, Outcome, Truncated};
use argiope_practice::Response;

use super::{serve, site};
use crate::crawling::{Crawled, config, crawl};

/// Short, for responses that reach the timeout.
const SHORT_TIMEOUT: Span = Span(Duration::from_millis(300));

/// The kind of a visit's error.
fn error_kind(visit: &Visit) -> Option<ErrorKind> {
    visit.facts.error.as_ref().map(|failure| failure.kind)
}

/// Crawls a site of one page without retries.
fn crawl_one_page(engine: EngineName, address: &str, response: Response) -> Crawled {
    crawl_with_idle_timeout(Config::default().idle_timeout, engine, address, response)
}

fn crawl_with_idle_timeout(timeout: Span, engine: EngineName, address: &str, response: Response) -> Crawled {
    let site = site(address).page("/", response);
    let root = site.url("/");
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.idle_timeout = timeout;
    config.max_tries = 1;
    crawl(&config)
}

pub fn a_server_that_keeps_the_connection(engine: EngineName) {
    let crawled = crawl_one_page(engine, "127.2.0.1", Response::html("<title>kept</title>"));
    assert_eq!(crawled.pages[0].findings.title.as_deref(), Some("kept"));
    assert_eq!((crawled.pages[0].facts.outcome, crawled.pages[0].facts.truncated), (Outcome::Ok, None));
}

pub fn a_body_that_ends_by_closing(engine: EngineName) {
    for response in [Response::html("<title>all</title>").until_close(), Response::html("<title>all</title>").http10()]
    {
        let crawled = crawl_one_page(engine, "127.2.0.2", response);
        let page = &crawled.pages[0];
        assert_eq!(
            (page.facts.outcome, page.facts.truncated, page.findings.title.as_deref()),
            (Outcome::Ok, None, Some("all"))
        );
    }
}

pub fn chunked_and_gzip(engine: EngineName) {
    let body = "<title>long</title>".to_owned() + &"words and more words ".repeat(5_000);
    for response in [
        Response::html(body.clone()).chunked([1, 2, 3, 1000, 7]),
        Response::html(body.clone()).gzip(),
        Response::html(body.clone()).gzip().chunked([10]),
    ] {
        let crawled = crawl_one_page(engine, "127.2.0.3", response);
        let page = &crawled.pages[0];
        assert_eq!(
            (page.facts.outcome, page.facts.truncated, page.facts.bytes_body),
            (Outcome::Ok, None, body.len() as u64)
        );
        assert_eq!(page.findings.title.as_deref(), Some("long"));
    }
}

pub fn charset_and_title(engine: EngineName) {
    let site = site("127.2.0.4")
        .page("/", Response::links(["/latin", "/meta", "/none"]))
        .page(
            "/latin",
            Response::html(b"<title>caf\xe9 \n noir</title>".to_vec()).content_type("text/html; charset=ISO-8859-1"),
        )
        .page(
            "/meta",
            Response::html(b"<meta charset=koi8-r><title>\xf0\xd2\xc9\xd7\xc5\xd4</title>".to_vec())
                .content_type("text/html"),
        )
        .page("/none", Response::html("<title>naïve</title>").content_type("text/html"));
    let urls = ["/latin", "/meta", "/none"].map(|path| site.url(path));
    let root = site.url("/");
    let _web = serve([site]);
    let crawled = crawl(&config(engine, &[&root]));
    let charset_and_title_of =
        |url: &str| (crawled.page(url).findings.charset, crawled.page(url).findings.title.clone());
    assert_eq!(charset_and_title_of(&urls[0]), (Some("windows-1252"), Some("café noir".into())));
    assert_eq!(charset_and_title_of(&urls[1]), (Some("koi8-r"), Some("Привет".into())));
    assert_eq!(charset_and_title_of(&urls[2]), (Some("utf-8"), Some("naïve".into())));
}

pub fn truncation(engine: EngineName) {
    let crawled = crawl_one_page(
        engine,
        "127.2.0.5",
        Response::html("<title>half</title>".repeat(100)).false_length(10_000).close_after(),
    );
    let page = &crawled.pages[0];
    assert_eq!((page.facts.outcome, page.facts.truncated), (Outcome::Ok, Some(Truncated::Disconnect)));
    assert_eq!((page.facts.bytes_body, page.findings.title.as_deref()), (1_900, Some("half")));
}

pub fn a_reset_within_the_body(engine: EngineName) {
    let response = Response::filled("<title>cut</title>", 200_000)
        .truncate_at(100_000)
        .ending(argiope_practice::ResponseEnd::Reset);
    let crawled = crawl_one_page(engine, "127.2.0.6", response);
    let page = &crawled.pages[0];
    // A reset may overtake data that was sent before it, so the whole response may be lost. The page is never complete.
    match page.facts.outcome {
        Outcome::Ok => {
            assert_eq!((page.facts.truncated, error_kind(page)), (Some(Truncated::Disconnect), Some(ErrorKind::Reset)))
        }
        outcome => assert_eq!((outcome, error_kind(page)), (Outcome::Failed, Some(ErrorKind::Reset))),
    }
}

pub fn a_slow_drip(engine: EngineName) {
    // Long enough for the first bytes even on a busy machine.
    let timeout = Span::from_secs(2);
    // A response that takes longer than the timeout, but has no long pauses, is read to the end. Its rate of 400 bytes a
    // second is above the minimum.
    let drip = Response::html("<title>drip</title>".repeat(60)).drip(60, Duration::from_millis(150));
    let crawled = crawl_with_idle_timeout(timeout, engine, "127.2.0.7", drip);
    assert_eq!((crawled.pages[0].facts.outcome, crawled.pages[0].facts.truncated), (Outcome::Ok, None));
    // A stalled body: the received bytes are kept.
    let stall = Response::html("<title>stall</title>").truncate_at(10).ending(argiope_practice::ResponseEnd::Hang);
    let crawled = crawl_with_idle_timeout(timeout, engine, "127.2.0.7", stall);
    let page = &crawled.pages[0];
    assert_eq!(
        (page.facts.outcome, page.facts.truncated, error_kind(page)),
        (Outcome::Ok, Some(Truncated::Time), Some(ErrorKind::TimeoutIdle))
    );
    assert_eq!(page.facts.bytes_body, 10);
}

pub fn a_page_that_takes_long_to_read(engine: EngineName) {
    // The first bytes decode to a lot of data, and examining it may take longer than the idle timeout. Meanwhile the
    // rest arrives, so this must not count as a timeout.
    // The end of the body is pseudo-random text, which compresses badly.
    let mut state = 1_u32;
    let noise: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        format!("{state:x}")
    })
    .take(20_000)
    .collect();
    let body = format!("{}{noise}", "<a href=#>x</a>".repeat(300_000));
    let size = body.len() as u64;
    let crawled = crawl_with_idle_timeout(SHORT_TIMEOUT, engine, "127.2.0.18", Response::html(body).gzip());
    let page = &crawled.pages[0];
    assert_eq!((page.facts.outcome, page.facts.truncated, error_kind(page)), (Outcome::Ok, None, None));
    assert_eq!(page.facts.bytes_body, size);
}

pub fn a_stalled_head(engine: EngineName) {
    for response in [Response::hang(), Response::html("x").drip_all(1, Duration::from_millis(100))] {
        let crawled = crawl_with_idle_timeout(SHORT_TIMEOUT, engine, "127.2.0.8", response);
        let page = &crawled.pages[0];
        assert_eq!((page.facts.outcome, error_kind(page)), (Outcome::Failed, Some(ErrorKind::TimeoutFirstByte)));
    }
}

pub fn a_huge_head(engine: EngineName) {
    // The limit on heads is between 100 kB and 500 kB.
    let crawled = crawl_one_page(engine, "127.2.0.9", Response::html("x").huge_head(500, 1_000));
    let page = &crawled.pages[0];
    assert_eq!((page.facts.outcome, error_kind(page)), (Outcome::Failed, Some(ErrorKind::HeaderTooLarge)));
    let crawled = crawl_one_page(engine, "127.2.0.9", Response::html("x").huge_head(100, 1_000));
    assert_eq!(crawled.pages[0].facts.outcome, Outcome::Ok);
}

pub fn a_huge_body(engine: EngineName) {
    let site = site("127.2.0.10").page("/", Response::filled("<title>huge</title>", 50 << 20));
    let root = site.url("/");
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.max_size = Size(1 << 20);
    let crawled = crawl(&config);
    let page = &crawled.pages[0];
    assert_eq!(
        (page.facts.outcome, page.facts.truncated, error_kind(page)),
        (Outcome::Ok, Some(Truncated::Length), Some(ErrorKind::TooLarge))
    );
    assert_eq!((page.facts.bytes_body, page.findings.title.as_deref()), (1 << 20, Some("huge")));
    config.max_size = Size(64 << 20);
    let crawled = crawl(&config);
    assert_eq!((crawled.pages[0].facts.bytes_body, crawled.pages[0].facts.truncated), (50 << 20, None));
}

pub fn interim_responses(engine: EngineName) {
    let response =
        Response::html("<title>after</title>").interim(103, &[("Link", "</x.css>; rel=preload")]).interim(102, &[]);
    let crawled = crawl_one_page(engine, "127.2.0.11", response);
    assert_eq!((crawled.pages[0].facts.status, crawled.pages[0].findings.title.as_deref()), (Some(200), Some("after")));
}

pub fn a_stale_connection(engine: EngineName) {
    // Every response says `Connection: keep-alive`, but the server closes every connection. The retry after a stale
    // connection does not count as an attempt.
    let links: Vec<String> = (0..20).map(|n| format!("/{n}")).collect();
    let site = site("127.2.0.12")
        .page("/", Response::links(&links).keep_alive_then_close())
        .fallback(Response::html("page").keep_alive_then_close());
    let root = site.url("/");
    let _web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.max_tries = 1;
    config.per_host = Some(1);
    let crawled = crawl(&config);
    assert_eq!(crawled.pages.len(), 21);
    for page in &crawled.pages {
        assert_eq!((page.facts.outcome, page.link.tries), (Outcome::Ok, 1), "{} {:?}", page.link.url, page.facts.error);
    }
}

pub fn keep_alive_is_used(engine: EngineName) {
    let links: Vec<String> = (0..50).map(|n| format!("/{n}")).collect();
    let site = site("127.2.0.13").page("/", Response::links(&links)).fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    config.per_host = Some(3);
    assert_eq!(crawl(&config).pages.len(), 51);
    assert!(web.stats().connections <= 3, "{} connections for three slots", web.stats().connections);
}

pub fn connection_refused(engine: EngineName) {
    let listener = TcpListener::bind("127.2.0.14:0").expect("a loopback address");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let crawled = crawl(&config(engine, &[&format!("http://{address}/")]));
    let page = &crawled.pages[0];
    // Four tries are the default.
    assert_eq!(
        (page.facts.outcome, error_kind(page), page.link.tries),
        (Outcome::Failed, Some(ErrorKind::ConnectRefused), 4)
    );
}

pub fn an_empty_reply(engine: EngineName) {
    let crawled = crawl_one_page(engine, "127.2.0.15", Response::close());
    assert_eq!(error_kind(&crawled.pages[0]), Some(ErrorKind::EmptyReply));
    let crawled = crawl_one_page(engine, "127.2.0.15", Response::reset());
    assert_eq!(error_kind(&crawled.pages[0]), Some(ErrorKind::Reset));
}

pub fn bytes_that_are_not_http(engine: EngineName) {
    for bytes in [&b"\x16\x03\x01 not HTTP at all\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/9.9 200 OK\r\n\r\n"]
    {
        let crawled = crawl_one_page(engine, "127.2.0.16", Response::raw(bytes));
        let page = &crawled.pages[0];
        assert_eq!((page.facts.outcome, error_kind(page)), (Outcome::Failed, Some(ErrorKind::Protocol)), "{bytes:?}");
    }
}
