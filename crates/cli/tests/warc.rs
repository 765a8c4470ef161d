//! The archive of a crawl: compared with the records of the crawl, verified with warcio, replayed with pywb.

mod readers;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use argiope_core::crawl::rules::{Config, EngineName, RobotsPolicy, Size};
use argiope_practice::{CertificateKind, PracticeWeb, Response, ResponseEnd, RunningWeb, Site};
use argiope_testkit::crawling::{self, Crawled};
use serde_json::{Value, json};

/// Maximum bytes of a body in the crawl, less than those of `/big`.
const LIMIT: u64 = 40_000;
const TWIN_BODY: &str = "<title>Twins</title><p>Two addresses, one page.";

/// Two hosts whose responses have every kind of framing and coding. Returns their roots.
fn web() -> (RunningWeb, Vec<String>) {
    let paths = [
        "/chunked",
        "/gzip",
        "/gzip-chunked",
        "/old",
        "/redirect",
        "/gone",
        "/empty",
        "/twin-1",
        "/twin-2",
        "/big",
        "/cut",
        "/interim",
        "/folded",
        "/flaky",
        "/binary",
        "/broken-gzip",
    ];
    let long = "A sentence that a coding makes short. ".repeat(300);
    let site = |site: Site| {
        site.page("/", Response::links(paths))
            .robots("User-agent: *\nDisallow: /secret\nSitemap: /map.xml\n")
            .page(
                "/map.xml",
                Response::bytes("<urlset><url><loc>/from-map</loc></url></urlset>").content_type("text/xml"),
            )
            .page("/chunked", Response::html(format!("<p>{long}")).chunked([1, 1000, 7]))
            .page("/gzip", Response::html(long.clone()).gzip())
            .page("/gzip-chunked", Response::html(long.clone()).gzip().chunked([100]))
            .page("/old", Response::html("until the end").http10().until_close())
            .redirect("/redirect", "/twin-1", 301)
            .page("/gone", Response::html("<p>no more").with_status(410))
            .page("/empty", Response::html(""))
            .page("/twin-1", Response::html(TWIN_BODY))
            .page("/twin-2", Response::html(TWIN_BODY).header("X-Other", "head"))
            .page("/big", Response::filled("<p>", 100_000))
            .page("/cut", Response::html("x".repeat(500)).truncate_at(200).ending(ResponseEnd::Close))
            .page("/interim", Response::html("after a hint").interim(103, &[("Link", "</style.css>")]))
            .page(
                "/folded",
                Response::raw("HTTP/1.1 200 OK\nX-Folded: one\n  two\nX-Bytes: \u{e9}\ncontent-length: 2\n\nok"),
            )
            .fail_times("/flaky", 1, Response::html("not now").with_status(503), Response::html("now"))
            .page("/binary", Response::bytes((0..=255).cycle().take(5_000).collect::<Vec<u8>>()))
            .page("/broken-gzip", Response::html(*b"\x1f\x8b\x08\0\0\0\0\0\0\x03 no more").content_encoding("gzip"))
    };
    let plain = site(Site::http("127.0.0.1:0").expect("a socket"));
    let secure = site(Site::https("127.0.0.2:0", CertificateKind::Good).expect("a socket"));
    let roots = vec![plain.url("/"), secure.url("/")];
    let web = PracticeWeb::new().site(plain).site(secure).start().expect("the web is served");
    (web, roots)
}

/// Crawls both hosts. Returns their roots, too.
fn crawl() -> (Crawled, Vec<String>) {
    let (web, roots) = web();
    let roots_ref: Vec<&str> = roots.iter().map(String::as_str).collect();
    let mut config = Config {
        warc: true,
        robots: RobotsPolicy::Obey,
        max_size: Size(LIMIT),
        max_tries: 2,
        ..crawling::config(EngineName::Tokio, &roots_ref)
    };
    let _authority = crawling::trust(&mut config, &web);
    (crawling::crawl(&config), roots)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Fields and block of the record at a position of the archive.
fn record_at(archive: &BTreeMap<String, Vec<u8>>, location: &Value) -> (BTreeMap<String, String>, Vec<u8>) {
    let file = &archive[location["file"].as_str().expect("a file")];
    let number = |name: &str| usize::try_from(location[name].as_u64().expect("a number")).expect("small");
    let member = &file[number("offset")..number("offset") + number("length")];
    let mut text = Vec::new();
    let mut reader = flate2::bufread::GzDecoder::new(member);
    reader.read_to_end(&mut text).expect("one gzip member");
    assert!(reader.into_inner().is_empty(), "the location covers exactly one record");
    let end = text.windows(4).position(|four| four == b"\r\n\r\n").expect("an empty line");
    let header = String::from_utf8(text[..end].to_vec()).expect("fields are text");
    let fields = header.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    let fields: BTreeMap<String, String> = fields.map(|(name, value)| (name.into(), value.into())).collect();
    let length: usize = fields["Content-Length"].parse().expect("a number");
    (fields, text[end + 4..end + 4 + length].to_vec())
}

#[test]
fn every_recorded_response_is_in_the_archive_unchanged() {
    let (crawled, roots) = crawl();
    // Two hosts have the same pages. The first response contains the payload, the second is a revisit record.
    let find = |path: &str| {
        let urls: Vec<String> = roots.iter().map(|root| format!("{}{path}", root.trim_end_matches('/'))).collect();
        let lines = crawled.lines.iter().filter(|line| urls.iter().any(|url| line["url"] == url.as_str()));
        let found = lines.map(|line| (record_at(&crawled.archive, &line["warc"]), line.clone()));
        let response = found.into_iter().find(|((fields, _), _)| fields["WARC-Type"] == "response");
        let ((fields, block), line) = response.unwrap_or_else(|| panic!("{path} is not in the archive"));
        assert_eq!((&*fields["WARC-Target-URI"], &*fields["WARC-Date"]), (text(&line["url"]), text(&line["started"])));
        assert_eq!(fields["WARC-IP-Address"], text(&line["ip"]));
        (fields, block, line)
    };
    for line in &crawled.lines {
        assert!(line["warc"].is_object(), "{line}");
    }
    let (_, block, line) = find("/chunked");
    assert!(block.windows(5).any(|five| five == b"\r\n1\r\n"), "the framing is kept");
    assert_eq!(block.len() as u64, line["bytes_wire"]);
    let (_, block, _) = find("/gzip");
    assert!(block.windows(4).any(|four| four == b"\r\n\x1f\x8b"), "the coding is kept");
    let (fields, block, _) = find("/big");
    assert_eq!(fields["WARC-Truncated"], "length");
    let head = block.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    assert_eq!((block.len() - head) as u64, LIMIT);
    let (fields, _, line) = find("/cut");
    assert_eq!((&*fields["WARC-Truncated"], &line["truncated"]), ("disconnect", &json!("disconnect")));
    let (_, block, _) = find("/interim");
    assert!(block.starts_with(b"HTTP/1.1 200 "), "the early hint is not part of the response");
    let (_, block, _) = find("/folded");
    assert_eq!(block, "HTTP/1.1 200 OK\nX-Folded: one\n  two\nX-Bytes: \u{e9}\ncontent-length: 2\n\nok".as_bytes());
    let (_, block, line) = find("/flaky");
    assert!(block.starts_with(b"HTTP/1.1 200 ") && line["tries"] == 2, "the last response is archived");
    let (fields, _, line) = find("/broken-gzip");
    assert!(!fields.contains_key("WARC-Truncated") && line["error"]["kind"] == "decode", "{line}");
    find("/robots.txt");
    find("/map.xml");
    let (_, block, _) = find("/redirect");
    assert!(block.starts_with(b"HTTP/1.1 301 "));
    // Four identical pages on two hosts: only the first record holds the payload.
    let twins: Vec<String> = ["/twin-1", "/twin-2"]
        .iter()
        .flat_map(|path| roots.iter().map(move |root| format!("{}{path}", root.trim_end_matches('/'))))
        .map(|url| crawled.lines.iter().find(|line| line["url"] == url.as_str()).expect("a record")["warc"].clone())
        .map(|location| record_at(&crawled.archive, &location).0["WARC-Type"].clone())
        .collect();
    assert_eq!(twins.iter().filter(|kind| *kind == "revisit").count(), 3, "{twins:?}");
}

#[test]
#[ignore = "needs python"]
fn warcio_verifies_and_pywb_replays_the_archive() {
    let (crawled, _) = crawl();
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in &crawled.archive {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }
    let expected = folder.path().join("expected.json");
    std::fs::write(&expected, Value::from(expectations(&crawled.lines)).to_string()).expect("written");
    readers::run("replay.py", &[&folder.path().join("archive"), Path::new(&expected)]);
}

/// The expected replay, derived from the records.
fn expectations(lines: &[Value]) -> Vec<Value> {
    let pages = lines.iter().filter(|line| line["type"] == "page" && line["outcome"] != "robots");
    pages
        .map(|line| {
            // An incomplete or undecodable body has no digest that a replay could match.
            let digest = line["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
            let is_complete = line["truncated"].is_null() && line["error"].is_null() && line["outcome"] != "redirect";
            json!({"url": line["url"], "status": line["status"], "sha256": digest.filter(|_| is_complete)})
        })
        .collect()
}
