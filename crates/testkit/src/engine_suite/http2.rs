//! Cases about HTTP/2: one stream uses one slot, and one connection serves an origin.

use std::time::Duration;

use argiope_core::crawl::rules::{Config, EngineName, HttpVersion, Pace, RobotsPolicy, Span};
use argiope_core::{ErrorKind, Outcome, Truncated};
use argiope_practice::{CertificateKind, PracticeProxy, Response, Site, Stats};

use super::politeness::{DELAY, assert_spaced};
use super::serve;
use crate::crawling::{Crawled, config, crawl, trust};

fn https_site(address: &str) -> Site {
    Site::https(&format!("{address}:0"), CertificateKind::Good).expect("a loopback address")
}

/// Crawls a site from `/` with its authority trusted. `change` adjusts the settings.
fn crawl_site(engine: EngineName, site: Site, change: impl FnOnce(&mut Config)) -> (Crawled, Stats) {
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    let _ca = trust(&mut config, &web);
    change(&mut config);
    (crawl(&config), web.stats())
}

fn links(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("/{n}")).collect()
}

/// Maximum number of connections to an origin. The `threads` engine uses one per concurrent job, the other engines use one.
/// `per_host` is the setting of the crawl, which is 6 unless the test changes it.
fn max_connections(engine: EngineName, per_host: u64) -> u64 {
    if engine == EngineName::Threads { per_host } else { 1 }
}

pub fn http2_is_negotiated(engine: EngineName) {
    let site = https_site("127.7.0.1")
        .http2()
        .page("/", Response::links(links(60)))
        .fallback(Response::html("<title>p</title>"));
    let (crawled, stats) = crawl_site(engine, site, |config| config.per_host = Some(6));
    assert_eq!(crawled.pages.len(), 61);
    for page in &crawled.pages {
        assert_eq!((page.facts.outcome, page.facts.http), (Outcome::Ok, Some("2")), "{:?}", page.facts.error);
        assert!(page.facts.bytes_wire > 0 && page.link.tries == 1);
    }
    assert!(crawled.lines.iter().filter(|line| line["type"] == "page").all(|line| line["http"] == "2"));
    assert!(stats.connections <= max_connections(engine, 6), "{} connections", stats.connections);
    let handshakes = crawled.pages.iter().filter(|page| page.facts.timings.tls.is_some()).count() as u64;
    assert!(handshakes >= 1 && handshakes <= stats.connections, "{handshakes} handshakes in records");
}

pub fn http2_in_clear_text(engine: EngineName) {
    let site = Site::http("127.7.0.2:0").expect("a loopback address");
    let site = site.http2().page("/", Response::links(links(20))).fallback(Response::html("page"));
    let (crawled, stats) = crawl_site(engine, site, |config| config.http = HttpVersion::Http2);
    assert_eq!(crawled.pages.len(), 21);
    assert!(crawled.pages.iter().all(|page| page.facts.http == Some("2")));
    assert!(stats.connections <= max_connections(engine, 6), "{} connections", stats.connections);
}

pub fn http1_on_request(engine: EngineName) {
    let site = || https_site("127.7.0.3").http2().page("/", Response::links(links(3))).fallback(Response::html("page"));
    let (crawled, _) = crawl_site(engine, site(), |config| config.http = HttpVersion::Http1);
    assert!(crawled.pages.iter().all(|page| (page.facts.outcome, page.facts.http) == (Outcome::Ok, Some("1.1"))));
    // A host that supports only HTTP/1.1 is crawled with it automatically, over at most `per_host` connections.
    let site = https_site("127.7.0.3").page("/", Response::links(links(20))).fallback(Response::html("page"));
    let (crawled, stats) = crawl_site(engine, site, |config| config.per_host = Some(4));
    assert_eq!(crawled.pages.len(), 21);
    assert!(crawled.pages.iter().all(|page| (page.facts.outcome, page.facts.http) == (Outcome::Ok, Some("1.1"))));
    assert!(stats.connections <= 4, "{} connections", stats.connections);
}

pub fn http2_that_is_required(engine: EngineName) {
    let site = https_site("127.7.0.4").page("/", Response::html("page"));
    let (crawled, _) = crawl_site(engine, site, |config| config.http = HttpVersion::Http2);
    let page = &crawled.pages[0];
    let kind = page.facts.error.as_ref().map(|failure| failure.kind);
    assert!(matches!(kind, Some(ErrorKind::Tls | ErrorKind::Protocol)), "{kind:?}");
    assert_eq!(page.facts.outcome, Outcome::Failed);
    let site = https_site("127.7.0.4").only_http2().page("/", Response::html("page"));
    let (crawled, _) = crawl_site(engine, site, |_| {});
    assert_eq!(crawled.pages[0].facts.http, Some("2"));
}

pub fn a_stream_is_a_slot(engine: EngineName) {
    let slow = Response::html("page").delay(Duration::from_millis(30));
    let site = https_site("127.7.0.5").http2().page("/", Response::links(links(24))).fallback(slow.clone());
    let (crawled, stats) = crawl_site(engine, site, |config| {
        config.per_host = Some(3);
        config.pace = Pace::Full;
    });
    assert_eq!((crawled.pages.len(), stats.max_at_once), (25, 3));
    assert!(stats.connections <= max_connections(engine, 3), "{} connections", stats.connections);
    // The server's limit applies as well.
    let site = https_site("127.7.0.5").http2().max_streams(2).page("/", Response::links(links(24))).fallback(slow);
    let (crawled, stats) = crawl_site(engine, site, |config| {
        config.per_host = Some(10);
        config.pace = Pace::Full;
    });
    assert!(crawled.pages.iter().all(|page| (page.facts.outcome, page.link.tries) == (Outcome::Ok, 1)));
    // The server limits the streams of a connection, and the `threads` engine has several connections.
    if engine != EngineName::Threads {
        assert!(stats.max_at_once <= 2 && stats.connections == 1, "{} at once", stats.max_at_once);
    }
}

pub fn bodies_over_http2(engine: EngineName) {
    let site = https_site("127.7.0.6")
        .http2()
        .page("/", Response::links(["/large", "/gzip", "/chunked", "/cut", "/huge", "/drip", "/none"]))
        .page("/large", Response::filled("<title>large</title>", 3_000_000))
        .page("/gzip", Response::html("<title>gzip</title>".repeat(2_000)).gzip())
        .page("/chunked", Response::html("<title>chunked</title>").chunked([3]))
        .page("/cut", Response::html("<title>cut</title>".repeat(20)).truncate_at(100))
        .page("/huge", Response::filled("<title>huge</title>", 50_000_000))
        .page("/drip", Response::html("<title>drip</title>").drip(2, Duration::from_millis(3)))
        .page("/none", Response::status(204));
    let (crawled, stats) = crawl_site(engine, site, |config| config.max_tries = 1);
    let page_at = |path: &str| crawled.pages.iter().find(|page| page.link.url.path() == path).expect("a page");
    assert_eq!((page_at("/large").facts.bytes_body, page_at("/large").facts.truncated), (3_000_000, None));
    for path in ["/gzip", "/chunked", "/drip"] {
        assert_eq!(page_at(path).findings.title.as_deref(), path.get(1..), "{path}");
        assert_eq!(page_at(path).facts.truncated, None, "{path}");
    }
    assert_eq!(page_at("/cut").facts.truncated, Some(Truncated::Disconnect));
    assert_eq!(page_at("/huge").facts.truncated, Some(Truncated::Length));
    assert_eq!(page_at("/none").facts.status, Some(204));
    assert!(stats.bytes_sent < 30_000_000, "flow control must stop a body that is too large: {}", stats.bytes_sent);
    assert!(stats.connections <= max_connections(engine, 6), "{} connections", stats.connections);
}

pub fn http2_through_a_proxy(engine: EngineName) {
    let site = https_site("127.7.0.7").http2().name("far.example");
    let site = site.page("/", Response::links(links(8))).fallback(Response::html("page"));
    let (root, address) = (site.url_as("far.example", "/"), site.address());
    let web = serve([site]);
    let proxy = PracticeProxy::http().name("far.example", address.ip()).start("127.7.0.8").expect("a proxy");
    let mut config = config(engine, &[&root]);
    let _ca = trust(&mut config, &web);
    config.proxy = Some(format!("http://{}", proxy.address()));
    let crawled = crawl(&config);
    assert_eq!(crawled.pages.len(), 9);
    assert!(crawled.pages.iter().all(|page| (page.facts.outcome, page.facts.http) == (Outcome::Ok, Some("2"))));
    assert!(proxy.requests().len() as u64 <= max_connections(engine, 6), "{:?}", proxy.requests());
}

/// Checks that requests are spaced by a delay. The responses take longer than the delay, so that streams overlap
/// unless a Crawl-delay prevents it.
fn check_spacing(engine: EngineName, site: Site, change: impl FnOnce(&mut Config)) {
    let slow = Response::html("page").delay(2 * DELAY);
    let site = site.http2().page("/", Response::links(links(5))).fallback(slow);
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    let _ca = trust(&mut config, &web);
    config.pace = Pace::Full;
    config.per_host = Some(4);
    change(&mut config);
    let crawled = crawl(&config);
    assert_eq!(crawled.pages.len(), 6);
    assert!(crawled.pages.iter().all(|page| (page.facts.outcome, page.facts.http) == (Outcome::Ok, Some("2"))));
    assert_spaced(&web.log(), DELAY);
    let (connections, max) = (web.stats().connections, max_connections(engine, 4));
    assert!(connections <= max, "{connections} connections");
}

pub fn delays_between_streams(engine: EngineName) {
    check_spacing(engine, https_site("127.7.0.9"), |config| config.delay = Span(DELAY));
}

pub fn a_crawl_delay_between_streams(engine: EngineName) {
    let robots = format!("User-agent: *\nCrawl-delay: {}\n", DELAY.as_secs_f32());
    let site = https_site("127.7.0.10").robots(&robots);
    check_spacing(engine, site, |config| config.robots = RobotsPolicy::Obey);
}

pub fn per_ip_counts_streams(engine: EngineName) {
    let names: Vec<String> = (0..4).map(|n| format!("host{n}.example")).collect();
    let page = Response::html("page").delay(Duration::from_millis(20));
    let site = https_site("127.7.0.11").http2().page("/", Response::links(links(6))).fallback(page);
    let site = names.iter().fold(site, |site, name| site.name(name));
    let (ip, port) = (site.address().ip(), site.address().port());
    let roots: Vec<String> = names.iter().map(|name| format!("https://{name}:{port}/")).collect();
    let web = serve([site]);
    let mut config = config(engine, &roots.iter().map(String::as_str).collect::<Vec<_>>());
    let _ca = trust(&mut config, &web);
    config.pace = Pace::Full;
    config.per_ip = Some(3);
    config.resolve = names.iter().map(|name| format!("{name}:{port}:{ip}").parse().expect("a mapping")).collect();
    let crawled = crawl(&config);
    assert_eq!(crawled.pages.len(), 28);
    assert!(crawled.pages.iter().all(|page| (page.facts.outcome, page.facts.http) == (Outcome::Ok, Some("2"))));
    let peak = web.stats().max_at_once;
    assert!((2..=3).contains(&peak), "{peak} streams at once");
}
