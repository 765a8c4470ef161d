//! HTTPS: valid and invalid certificates, resumption, and closing without close_notify.

mod client;

use argiope_practice::{CertificateKind, Graph, GraphPlan, PageId, PracticeWeb, Response, Site};
use client::*;
use std::io::{ErrorKind, Write};
use std::sync::Arc;

fn site(kind: CertificateKind) -> Site {
    Site::https("127.0.0.1:0", kind).unwrap().name("good.test").page("/", Response::text("sealed"))
}

#[test]
fn a_good_certificate_is_valid_for_name_and_address() {
    let (web, address) = serve(site(CertificateKind::Good));
    let config = tls_config_trusting(web.authority());
    for name in ["good.test", "127.0.0.1"] {
        let mut stream = connect_tls(address, &config, name);
        send_get(&mut stream, "/");
        assert_eq!(read_response(&mut stream).1, b"sealed");
    }
    assert!(web.ca_pem().starts_with("-----BEGIN CERTIFICATE-----"));
}

#[test]
fn each_bad_certificate_fails_with_its_own_error() {
    for (kind, expected) in [
        (CertificateKind::SelfSigned, "UnknownIssuer"),
        (CertificateKind::Expired, "expired"),
        (CertificateKind::NotYetValid, "not valid yet"),
        (CertificateKind::WrongName, "not valid for name"),
    ] {
        let (web, address) = serve(site(kind));
        let mut stream = connect_tls(address, &tls_config_trusting(web.authority()), "good.test");
        let error = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap_err().to_string();
        assert!(error.contains(expected), "{kind:?}: {error}");
        drop(stream);
        assert!(web.wait_open(0, TIMEOUT));
        assert_eq!(web.requests(), 0);
    }
}

#[test]
fn sessions_are_resumed_if_the_site_allows_it() {
    for (site, resumed) in [(site(CertificateKind::Good), 2), (site(CertificateKind::Good).without_resumption(), 0)] {
        let (web, address) = serve(site);
        let config = tls_config_trusting(web.authority());
        for _ in 0..3 {
            let mut stream = connect_tls(address, &config, "good.test");
            send_get(&mut stream, "/");
            read_response(&mut stream);
        }
        let stats = web.stats();
        assert_eq!((stats.handshakes_full, stats.handshakes_resumed), (3 - resumed, resumed));
    }
}

#[test]
fn a_large_page_arrives_completely() {
    let site = Site::https("127.0.0.1:0", CertificateKind::Good).unwrap();
    let (web, address) = serve(site.page("/", Response::filled("<p>", 5_000_000).close_after()));
    let mut stream = connect_tls(address, &tls_config_trusting(web.authority()), "127.0.0.1");
    send_get(&mut stream, "/");
    let bytes = read_to_end(&mut stream).unwrap();
    let body_start = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(bytes.len() - body_start, 5_000_000);
}

#[test]
fn a_truncated_response_ends_without_close_notify() {
    let site = Site::https("127.0.0.1:0", CertificateKind::Good).unwrap();
    let (web, address) = serve(site.page("/", Response::text("0123456789").truncate_at(3)));
    let mut stream = connect_tls(address, &tls_config_trusting(web.authority()), "127.0.0.1");
    send_get(&mut stream, "/");
    assert_eq!(read_to_end(&mut stream).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn plain_http_to_a_tls_site_is_rejected() {
    let (web, address) = serve(site(CertificateKind::Good));
    let mut stream = connect(address);
    send_get(&mut stream, "/");
    let bytes = read_to_end(&mut stream).unwrap_or_default();
    assert!(!bytes.starts_with(b"HTTP/"));
    assert!(web.wait_open(0, TIMEOUT));
    assert_eq!(web.stats().handshakes_failed, 1);
}

#[test]
fn every_host_of_a_graph_has_its_own_certificate() {
    let site = Site::https("0.0.0.0:0", CertificateKind::Good).unwrap();
    let port = site.address().port();
    let is_https = true;
    let graph = Arc::new(Graph::new(GraphPlan { hosts: 300, ..GraphPlan::default() }, port, is_https));
    let web = PracticeWeb::new().site(site.graph(&graph)).start().unwrap();
    let config = tls_config_trusting(web.authority());
    for host in [0, 1, 299] {
        let address = graph.address_of(host);
        let mut stream = connect_tls((address, port).into(), &config, &address.to_string());
        write!(stream, "GET / HTTP/1.1\r\nHost: {address}:{port}\r\n\r\n").unwrap();
        let (head, body) = read_response(&mut stream);
        assert_eq!(status(&head), 200);
        assert!(String::from_utf8(body).unwrap().contains(&format!("<title>Page 0 of {host}</title>")));
        assert!(graph.url(PageId { host, page: 0 }).starts_with(&format!("https://{address}:{port}/")));
    }
}
