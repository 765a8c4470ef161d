use std::io::Read as _;

use super::*;
use crate::base::budget::Budget;
use crate::base::digest::BodyDigest;
use crate::base::url::Url;
use crate::crawl::rules::{Config, Rules, WarcCompression};

/// A record that was read from an archive.
#[derive(Debug)]
struct ReadRecord {
    fields: Vec<(String, String)>,
    block: Vec<u8>,
    /// Where its gzip member starts in the file.
    offset: u64,
    length: u64,
}

impl ReadRecord {
    fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn kind(&self) -> &str {
        self.get("WARC-Type").expect("a type")
    }
}

/// All records of a file, member by member.
fn read_all(file: &[u8]) -> Vec<ReadRecord> {
    let mut records = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let mut member = flate2::bufread::GzDecoder::new(rest);
        let mut text = Vec::new();
        member.read_to_end(&mut text).expect("a whole gzip member");
        let after = member.into_inner();
        let (offset, length) = (file.len() - rest.len(), rest.len() - after.len());
        let end = text.windows(4).position(|four| four == b"\r\n\r\n").expect("an empty line") + 4;
        let header = std::str::from_utf8(&text[..end]).expect("fields are text");
        let mut lines = header.trim_end().split("\r\n");
        assert_eq!(lines.next(), Some("WARC/1.1"));
        let fields: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").expect("a field"))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut record = ReadRecord { fields, block: Vec::new(), offset: offset as u64, length: length as u64 };
        let size: usize = record.get("Content-Length").and_then(|size| size.parse().ok()).expect("a length");
        record.block = text[end..end + size].to_vec();
        assert_eq!(&text[end + size..], b"\r\n\r\n", "nothing but the end after the block");
        assert_eq!(record.get("WARC-Block-Digest"), Some(&*Sha1Sum::of(&[&record.block]).to_string()));
        records.push(record);
        rest = after;
    }
    records
}

fn rules(file_size: u64) -> Rules {
    let config = Config { roots: vec!["https://h.example/".into()], warc: true, ..Config::default() };
    config.compile(7).expect("rules").edited(|rules| rules.archive_size = file_size)
}

fn exchange(rules: &Rules, path: &str, payload: &[u8], truncated: Option<&'static str>) -> WarcExchange {
    exchange_for(rules, path, PLAIN_GET, payload, truncated)
}

/// The request of an exchange.
#[derive(Clone, Copy)]
struct TestRequest {
    has_body: bool,
    /// 0 for a plain GET.
    identity: u64,
}

const PLAIN_GET: TestRequest = TestRequest { has_body: false, identity: 0 };

fn exchange_for(
    rules: &Rules,
    path: &str,
    request: TestRequest,
    payload: &[u8],
    truncated: Option<&'static str>,
) -> WarcExchange {
    let url = Url::parse(&format!("https://h.example{path}")).expect("an address");
    let source = WarcSource {
        url: url.as_ref(),
        date: "2026-01-02T03:04:05.678Z".into(),
        times: WarcTimes::default(),
        ip: Some([203, 0, 113, 9].into()),
        request: b"GET / HTTP/1.1\r\nHost: h.example\r\n\r\n",
        request_has_body: request.has_body,
        request_identity: request.identity,
        head: b"HTTP/1.1 200 OK\r\nX: \xff\r\n\r\n",
        payload,
        truncated,
        // In place of a SHA-256, which no test compares with the payload.
        digest: Some(BodyDigest::Sha256([payload.len() as u8; 32])),
        key: rules.fingerprint_key,
        is_http2: false,
        compression: rules.archive_compression,
    };
    WarcExchange::encode(&source, rules.budget.hold())
}

#[test]
fn a_rendered_document_follows_its_response_as_a_resource() {
    let rules = rules(1 << 30);
    let mut layout = ArchiveLayout::new(&rules);
    let mut rendered = exchange(&rules, "/1", b"body", None);
    rendered.add_rendered("<p>\u{e9}".as_bytes());
    rendered.add_screenshot(b"\x89PNG");
    let bytes = rendered.bytes();
    let (location, chunk) = layout.place(rendered, None);
    let place = location.rendered_document().expect("a document");
    assert_eq!(place.offset, location.offset + location.length);
    let picture = location.screenshot().expect("a picture");
    assert_eq!(picture.offset, place.offset + place.length);
    assert_eq!(picture.offset + picture.length, chunk.bytes.len() as u64);
    let records = read_all(&chunk.bytes);
    let [info, request, response, document, picture] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(chunk.bytes.len() - bytes, info.length as usize);
    assert_eq!(["warcinfo", "request"], [info.kind(), request.kind()]);
    assert_eq!((document.kind(), document.block.as_slice()), ("resource", "<p>\u{e9}".as_bytes()));
    assert_eq!(document.get("WARC-Target-URI"), Some("urn:dom:https://h.example/1"));
    assert_eq!(document.get("WARC-Concurrent-To"), response.get("WARC-Record-ID"));
    assert_eq!(document.get("WARC-Refers-To"), None, "the standard forbids it in a resource");
    assert_eq!(document.get("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(
        (picture.get("WARC-Target-URI"), picture.block.as_slice()),
        (Some("urn:view:https://h.example/1"), &b"\x89PNG"[..])
    );
    // The next exchange begins after it, and one that was not rendered has no document.
    let (next, _) = layout.place(exchange(&rules, "/2", b"other", None), None);
    assert_eq!((next.rendered_document(), next.offset > place.offset + place.length), (None, true));
}

#[test]
fn a_file_has_one_kind_of_compression() {
    let rules_with = |compression| rules(1 << 20).edited(|rules| rules.archive_compression = compression);
    let (gzip, zstd) = (rules_with(WarcCompression::Gzip), rules_with(WarcCompression::Zstd));
    let mut layout = ArchiveLayout::new(&zstd);
    let (location, chunk) = layout.place(exchange(&zstd, "/a", b"hello", None), None);
    assert_eq!((&*location.file, &*chunk.file), ("archive/00001.warc.zst", "archive/00001.warc.zst"));
    assert!(chunk.bytes.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]), "the first bytes of a zstd frame");
    // The next run has another compression, so it starts a new file.
    let mut layout = ArchiveLayout::new(&gzip);
    layout.resume([("archive/00001.warc.zst", chunk.bytes.len() as u64), ("other", 5)]);
    assert_eq!(layout.place(exchange(&gzip, "/b", b"more", None), None).0.file, "archive/00002.warc.gz");
    let mut layout = ArchiveLayout::new(&zstd);
    layout.resume([("archive/00001.warc.zst", chunk.bytes.len() as u64)]);
    let (location, _) = layout.place(exchange(&zstd, "/b", b"more", None), None);
    assert_eq!(location.file, "archive/00001.warc.zst");
    assert!(location.offset > chunk.bytes.len() as u64, "after the request");
}

#[test]
fn records_contain_the_exact_bytes_and_all_fields() {
    let rules = rules(1 << 30);
    let (location, chunk) =
        ArchiveLayout::new(&rules).place(exchange(&rules, "/a", b"5\r\nhello\r\n0\r\n\r\n", Some("time")), None);
    assert_eq!(&*chunk.file, "archive/00001.warc.gz");
    let records = read_all(&chunk.bytes);
    let kinds: Vec<&str> = records.iter().map(ReadRecord::kind).collect();
    assert_eq!(kinds, ["warcinfo", "request", "response"]);
    let [info, request, response] = &records[..] else { panic!("three") };
    assert_eq!(info.get("WARC-Filename"), Some("00001.warc.gz"));
    assert!(String::from_utf8_lossy(&info.block).contains("\r\nhttp-header-user-agent: argiope/"));
    assert_eq!(request.block, b"GET / HTTP/1.1\r\nHost: h.example\r\n\r\n");
    assert_eq!(request.get("WARC-Concurrent-To"), response.get("WARC-Record-ID"));
    assert_eq!(response.block, b"HTTP/1.1 200 OK\r\nX: \xff\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let expected = Sha1Sum::of(&[b"5\r\nhello\r\n0\r\n\r\n"]).to_string();
    assert_eq!(response.get("WARC-Payload-Digest"), Some(&*expected));
    for (name, value) in [
        ("WARC-Target-URI", "https://h.example/a"),
        ("WARC-Date", "2026-01-02T03:04:05.678Z"),
        ("WARC-IP-Address", "203.0.113.9"),
        ("WARC-Truncated", "time"),
        ("Content-Type", "application/http; msgtype=response"),
    ] {
        assert_eq!(response.get(name), Some(value));
    }
    assert_eq!(
        (location.file.as_str(), location.offset, location.length),
        (&*chunk.file, response.offset, response.length)
    );
    assert_ne!(request.get("WARC-Record-ID"), response.get("WARC-Record-ID"));
}

#[test]
fn a_request_with_a_body_is_marked_as_truncated() {
    let rules = rules(1 << 30);
    let form = TestRequest { has_body: true, identity: 5 };
    let (_, chunk) = ArchiveLayout::new(&rules).place(exchange_for(&rules, "/form", form, b"ok", None), None);
    let records = read_all(&chunk.bytes);
    let request = records.iter().find(|record| record.kind() == "request").expect("a request");
    assert_eq!(request.get("WARC-Truncated"), Some("unspecified"));
    let (_, chunk) = ArchiveLayout::new(&rules).place(exchange(&rules, "/", b"ok", None), None);
    let records = read_all(&chunk.bytes);
    let request = records.iter().find(|record| record.kind() == "request").expect("a request");
    assert_eq!(request.get("WARC-Truncated"), None);
}

#[test]
fn forms_sent_in_the_same_millisecond_have_different_ids() {
    let rules = rules(1 << 30);
    let mut layout = ArchiveLayout::new(&rules);
    let mut file = Vec::new();
    for (identity, payload) in [(0, &b"page"[..]), (5, b"one"), (7, b"two"), (9, b"one")] {
        let request = TestRequest { has_body: identity != 0, identity };
        let (location, chunk) = layout.place(exchange_for(&rules, "/form", request, payload, None), None);
        assert!(location.payload.is_none(), "no response is a revisit of a response to a form");
        file.extend_from_slice(&chunk.bytes);
    }
    let records = read_all(&file);
    let ids: std::collections::HashSet<_> = records.iter().map(|record| record.get("WARC-Record-ID")).collect();
    assert_eq!((records.len(), ids.len()), (9, 9), "a warcinfo, and two records of each exchange");
    for pair in records[1..].chunks(2) {
        assert_eq!(pair[0].get("WARC-Concurrent-To"), pair[1].get("WARC-Record-ID"));
    }
}

#[test]
fn digests_and_ids_have_the_form_of_the_standard() {
    assert_eq!(Sha1Sum::of(&[]).to_string(), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
    assert_eq!(Sha1Sum::of(&[b"a", b"bc"]).to_string(), "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
    let id = WarcId::new(1, &["ab", "c"]).to_string();
    // The digit at position 24 is the version of the UUID.
    assert!(id.starts_with("<urn:uuid:") && id.len() == 47 && id.as_bytes()[24] == b'5', "{id}");
    assert_ne!(id, WarcId::new(1, &["a", "bc"]).to_string());
    assert_ne!(id, WarcId::new(2, &["ab", "c"]).to_string());
}

#[test]
fn a_repeated_payload_becomes_a_revisit_record() {
    let rules = rules(1 << 30);
    let mut layout = ArchiveLayout::new(&rules);
    let mut file = Vec::new();
    let mut locations = Vec::new();
    for (path, payload, truncated) in [
        ("/1", &b"same"[..], None),
        ("/2", b"same", None),
        ("/3", b"same", Some("length")),
        ("/4", b"", None),
        ("/5", b"", None),
        ("/6", b"cut", Some("time")),
        ("/7", b"cut", None),
    ] {
        let (location, chunk) = layout.place(exchange(&rules, path, payload, truncated), None);
        file.extend_from_slice(&chunk.bytes);
        locations.push(location);
    }
    let records = read_all(&file);
    let responses: Vec<&ReadRecord> = records.iter().filter(|r| ["response", "revisit"].contains(&r.kind())).collect();
    let kinds: Vec<&str> = responses.iter().map(|record| record.kind()).collect();
    assert_eq!(kinds, ["response", "revisit", "response", "response", "response", "response", "response"]);
    for (location, response) in locations.iter().zip(&responses) {
        assert_eq!((location.offset, location.length), (response.offset, response.length));
    }
    let revisit = responses[1];
    assert_eq!(revisit.block, b"HTTP/1.1 200 OK\r\nX: \xff\r\n\r\n", "the head alone");
    for (name, value) in [
        ("WARC-Target-URI", "https://h.example/2"),
        ("WARC-Refers-To-Target-URI", "https://h.example/1"),
        ("WARC-Refers-To-Date", "2026-01-02T03:04:05.678Z"),
        ("WARC-Truncated", "length"),
        ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"),
    ] {
        assert_eq!(revisit.get(name), Some(value));
    }
    let payload = locations[1].payload.as_deref().expect("a location");
    assert_eq!((payload.offset, payload.length), (responses[0].offset, responses[0].length));
    assert_eq!(revisit.get("WARC-Refers-To"), responses[0].get("WARC-Record-ID"));
    assert_eq!(revisit.get("WARC-Payload-Digest"), responses[0].get("WARC-Payload-Digest"));
}

#[test]
fn an_unchanged_page_refers_to_its_archived_body() {
    let rules = rules(1 << 30);
    let mut layout = ArchiveLayout::new(&rules);
    let (location, chunk) = layout.place(exchange(&rules, "/1", b"body", None), None);
    // After the warcinfo and the request.
    let response = read_all(&chunk.bytes).swap_remove(2);
    let body = crate::crawl::warc::WarcPayload {
        url: "https://h.example/1".into(),
        date: "2026-01-02T03:04:05.678Z".into(),
        file: location.file,
        offset: location.offset,
        length: location.length,
        rendered: None,
        screenshot: None,
    };
    let (location, chunk) = layout.place(exchange(&rules, "/1", b"", None), Some(body.clone()));
    assert_eq!(location.payload.as_deref(), Some(&body));
    let records = read_all(&chunk.bytes);
    // After the request.
    let revisit = &records[1];
    assert_eq!(revisit.kind(), "revisit");
    assert_eq!(revisit.get("WARC-Refers-To"), response.get("WARC-Record-ID"));
    for (name, value) in [
        ("WARC-Profile", Some("http://netpreserve.org/warc/1.1/revisit/server-not-modified")),
        ("WARC-Refers-To-Target-URI", Some("https://h.example/1")),
        ("WARC-Refers-To-Date", Some("2026-01-02T03:04:05.678Z")),
        ("WARC-Truncated", None),
    ] {
        assert_eq!(revisit.get(name), value);
    }
}

#[test]
fn bodies_with_equal_sha1_and_different_sha256_are_not_merged() {
    let rules = rules(1 << 30);
    let mut layout = ArchiveLayout::new(&rules);
    layout.place(exchange(&rules, "/1", b"same", None), None);
    let mut other = exchange(&rules, "/2", b"same", None);
    other.payload.digest = Some(BodyDigest::Sha256([9; 32]));
    let (_, chunk) = layout.place(other, None);
    assert_eq!(read_all(&chunk.bytes)[1].kind(), "response");
}

#[test]
fn a_full_file_is_followed_by_a_new_one_also_after_a_resume() {
    let rules = rules(1_000);
    let mut layout = ArchiveLayout::new(&rules);
    let mut files: std::collections::BTreeMap<Box<str>, Vec<u8>> = Default::default();
    for page in 0..10u8 {
        let (location, chunk) = layout.place(exchange(&rules, &format!("/{page}"), &[page; 90], None), None);
        let file = files.entry(chunk.file.clone()).or_default();
        file.extend_from_slice(&chunk.bytes);
        assert_eq!(location.offset + location.length, file.len() as u64);
        // After every third page, the crawl is interrupted and resumed.
        if page % 3 == 2 {
            layout = ArchiveLayout::new(&rules);
            layout.resume(files.iter().map(|(name, bytes)| (&**name, bytes.len() as u64)).chain([("pages.jsonl", 9)]));
        }
    }
    assert!(files.len() > 2, "{:?}", files.keys());
    let mut pages = 0;
    for (number, (name, bytes)) in (1..).zip(&files) {
        assert_eq!(**name, format!("archive/{number:05}.warc.gz"));
        let records = read_all(bytes);
        assert_eq!(records[0].kind(), "warcinfo");
        assert_eq!(records.iter().filter(|record| record.kind() == "warcinfo").count(), 1);
        pages += records.iter().filter(|record| record.kind() == "response").count();
    }
    assert_eq!(pages, 10);
}

#[test]
fn compressed_bytes_are_charged_until_they_are_written() {
    let budget = Budget::new(1 << 20);
    let rules = rules(1 << 30).edited(|rules| rules.budget = std::sync::Arc::clone(&budget));
    let (_, chunk) = ArchiveLayout::new(&rules).place(exchange(&rules, "/", b"hello", None), None);
    assert!(budget.response_bytes() > 0 && budget.response_bytes() <= chunk.bytes.len() as u64);
    drop(chunk);
    assert_eq!(budget.response_bytes(), 0);
}

#[test]
fn truncation_has_the_values_of_the_format() {
    assert_eq!(truncation(Some(Truncated::Disconnect), Some(ErrorKind::Reset)), Some("disconnect"));
    assert_eq!(truncation(Some(Truncated::Decode), Some(ErrorKind::Decode)), None);
    assert_eq!(truncation(None, Some(ErrorKind::Decode)), None);
    assert_eq!(truncation(None, Some(ErrorKind::Protocol)), Some("unspecified"));
    assert_eq!(truncation(None, None), None);
}
