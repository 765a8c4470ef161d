//! Cases about HTTPS.

use argiope_core::crawl::rules::EngineName;
use argiope_core::{ErrorKind, Outcome, Truncated};
use argiope_practice::{CertificateKind, Response, Site};

use super::serve;
use crate::crawling::{Crawled, config, crawl, trust};

fn https_site(address: &str, certificate: CertificateKind) -> Site {
    Site::https(&format!("{address}:0"), certificate).expect("a loopback address")
}

/// Crawls a host with this certificate, and checks that the TLS error contains `expected`.
fn check_tls_error(engine: EngineName, address: &str, certificate: CertificateKind, expected: &str) {
    let site = https_site(address, certificate).fallback(Response::html("page"));
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    let _ca = trust(&mut config, &web);
    let crawled = crawl(&config);
    let page = &crawled.pages[0];
    let failure = page.facts.error.as_ref().expect("a failure");
    assert_eq!((page.facts.outcome, failure.kind, page.link.tries), (Outcome::Failed, ErrorKind::Tls, 1));
    assert!(failure.message.to_lowercase().contains(expected), "{failure}");
    assert_eq!(web.requests(), 0);
}

/// Crawls a site whose certificate authority is trusted. `change` adjusts the settings.
fn crawl_trusted(
    engine: EngineName,
    site: Site,
    change: impl FnOnce(&mut argiope_core::crawl::rules::Config),
) -> (Crawled, argiope_practice::Stats) {
    let root = site.url("/");
    let web = serve([site]);
    let mut config = config(engine, &[&root]);
    let _ca = trust(&mut config, &web);
    change(&mut config);
    (crawl(&config), web.stats())
}

pub fn a_good_certificate(engine: EngineName) {
    let body = "<title>safe</title>".to_owned() + &"x".repeat(100_000);
    let site = https_site("127.4.0.1", CertificateKind::Good).page("/", Response::html(body));
    let (crawled, stats) = crawl_trusted(engine, site, |_| {});
    let page = &crawled.pages[0];
    assert_eq!(
        (page.facts.outcome, page.findings.title.as_deref(), page.facts.truncated),
        (Outcome::Ok, Some("safe"), None)
    );
    assert!(page.facts.timings.tls.is_some());
    assert_eq!(stats.handshakes_full, 1);
}

pub fn a_self_signed_certificate(engine: EngineName) {
    check_tls_error(engine, "127.4.0.2", CertificateKind::SelfSigned, "self-signed");
}

pub fn an_expired_certificate(engine: EngineName) {
    check_tls_error(engine, "127.4.0.3", CertificateKind::Expired, "expired");
}

pub fn a_wrong_name(engine: EngineName) {
    check_tls_error(engine, "127.4.0.4", CertificateKind::WrongName, "name");
}

pub fn insecure_on_demand(engine: EngineName) {
    let site = https_site("127.4.0.5", CertificateKind::Expired).page("/", Response::html("x"));
    let (crawled, _) = crawl_trusted(engine, site, |config| config.insecure = true);
    assert_eq!(crawled.pages[0].facts.outcome, Outcome::Ok);
}

pub fn tls_keep_alive(engine: EngineName) {
    let links: Vec<String> = (0..30).map(|n| format!("/{n}")).collect();
    let site = https_site("127.4.0.6", CertificateKind::Good)
        .page("/", Response::links(&links))
        .fallback(Response::html("page"));
    let (crawled, stats) = crawl_trusted(engine, site, |config| config.per_host = Some(2));
    assert_eq!(crawled.pages.len(), 31);
    assert!(crawled.pages.iter().all(|page| page.facts.outcome == Outcome::Ok));
    assert!(stats.connections <= 2, "{} connections", stats.connections);
}

pub fn tls_until_close(engine: EngineName) {
    let site =
        https_site("127.4.0.7", CertificateKind::Good).page("/", Response::html("<title>all</title>").until_close());
    let (crawled, _) = crawl_trusted(engine, site, |_| {});
    assert_eq!((crawled.pages[0].facts.outcome, crawled.pages[0].facts.truncated), (Outcome::Ok, None));
    let truncated = Response::html("<title>all</title>".repeat(50)).false_length(5_000).close_after();
    let site = https_site("127.4.0.7", CertificateKind::Good).page("/", truncated);
    let (crawled, _) = crawl_trusted(engine, site, |config| config.max_tries = 1);
    assert_eq!(crawled.pages[0].facts.truncated, Some(Truncated::Disconnect));
}

pub fn both_families(engine: EngineName) {
    // A name with an address of each family, only one of which responds.
    let site = Site::http("127.4.0.8:0").expect("a loopback address").page("/", Response::html("found"));
    let port = site.address().port();
    let _web = serve([site]);
    let mut config = config(engine, &[&format!("http://both.example:{port}/")]);
    config.resolve = vec![format!("both.example:{port}:[::1],127.4.0.8").parse().expect("a mapping")];
    let crawled = crawl(&config);
    assert_eq!(
        (crawled.pages[0].facts.outcome, crawled.pages[0].facts.ip),
        (Outcome::Ok, Some("127.4.0.8".parse().expect("an address")))
    );
}
