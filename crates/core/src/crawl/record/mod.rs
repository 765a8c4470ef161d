//! Records: one JSON object per line (docs/records.md).
//!
//! Invariant: whatever a server sent, a line is valid JSON in UTF-8 and harmless on a terminal. An absent field means
//! that the value is not known or does not apply.

mod fields;
#[deny(missing_docs)]
pub mod page_state;
mod part;
#[cfg(test)]
mod record_docs;
mod schema;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::base::escape::write_json;
use crate::base::job::Purpose;
use crate::base::link_list::FoundLink;
use crate::base::outcome::Outcome;
use crate::base::time::WallClock;
use crate::crawl::visit::Visit;
use crate::crawl::warc::WarcLocation;

pub use fields::{CrawlRecord, LazyRecord, Millis, RecordedLink};
pub use part::encode_part;
pub use schema::{About, FieldKind, RecordField, Section};

/// The version of the record format.
pub const VERSION: u8 = 1;

impl<'a> CrawlRecord<'a> {
    /// The record of a visit. `key` is the fingerprint key of the crawl, and `warc` the position of the visit in the
    /// archive.
    pub fn of(visit: &'a Visit, clock: WallClock, key: u64, warc: Option<&'a WarcLocation>) -> Self {
        let has_response = visit.facts.status.is_some();
        // For an unchanged page, the counts are those of the last full response.
        let has_link_counts = visit.is_page() && matches!(visit.facts.outcome, Outcome::Ok | Outcome::NotModified);
        let request = visit.link.request.as_ref();
        let findings = &visit.findings;
        let content = findings.content.as_deref();
        let facts = findings.facts.as_deref();
        Self {
            v: VERSION,
            r#type: if visit.is_page() { "page" } else { "aux" }.into(),
            r#for: match visit.purpose {
                Purpose::Page => None,
                Purpose::Robots(_) => Some("robots".into()),
                Purpose::Sitemap => Some("sitemap".into()),
                Purpose::Part(_) => Some("part".into()),
                Purpose::Probe => Some("probe".into()),
            },
            method: request.map(|request| request.method.as_str()).filter(|name| *name != "GET").map(Cow::Borrowed),
            // The hash has a secret key: forms can contain passwords, and a short text could be guessed from its hash.
            request_id: request
                .filter(|request| request.is_one_of_several())
                .map(|request| format!("{:016x}", request.identity(key)).into()),
            url: visit.link.url.as_str().into(),
            status: visit.facts.status,
            outcome: Some(visit.facts.outcome),
            error: visit.facts.error.as_ref().map(Cow::Borrowed),
            redirect: visit.facts.redirect.as_ref().map(|url| url.as_str().into()),
            via: visit.link.via.as_ref().map(|url| url.as_str().into()),
            depth: Some(visit.link.depth),
            tries: Some(visit.link.tries),
            reason: None,
            change: None,
            content_type: findings.content_type.as_deref().map(Cow::Borrowed),
            charset: findings.charset.map(Cow::Borrowed),
            title: findings.title.as_deref().map(Cow::Borrowed),
            description: facts.and_then(|facts| facts.description.as_deref()).map(Cow::Borrowed),
            h1: facts.and_then(|facts| facts.h1.as_deref()).map(Cow::Borrowed),
            h1_count: facts.map(|facts| facts.h1_count),
            lang: facts.and_then(|facts| facts.lang.as_deref()).map(Cow::Borrowed),
            meta_robots: facts.map_or(&[][..], |facts| &facts.meta_robots).into(),
            words: facts.map(|facts| facts.words),
            og: facts.map(|facts| &facts.og).filter(|og| !og.is_empty()).map(Cow::Borrowed),
            images_without_alt: facts.map(|facts| facts.images_without_alt),
            needs_scripts: facts.is_some_and(|facts| facts.needs_scripts),
            minhash: facts.and_then(|facts| facts.minhash),
            bytes_wire: (visit.facts.bytes_wire > 0 || has_response).then_some(visit.facts.bytes_wire),
            bytes_body: has_response.then_some(visit.facts.bytes_body),
            truncated: visit.facts.truncated,
            links: has_link_counts.then_some(findings.links),
            new_links: has_link_counts.then_some(findings.new_links),
            capped: findings.capped,
            links_cut: (findings.links_cut > 0).then_some(findings.links_cut),
            odd: visit.facts.defects.names().into_iter().map(Cow::Borrowed).collect(),
            noindex: findings.noindex,
            nofollow: findings.nofollow,
            canonical: findings.canonical.as_ref().map(|url| url.as_str().into()),
            hreflang: languages(visit),
            data: content.and_then(|content| content.data.as_ref()).map(Cow::Borrowed),
            text: content.and_then(|content| content.text.as_deref()).map(Cow::Borrowed),
            markdown: content.and_then(|content| content.markdown.as_deref()).map(Cow::Borrowed),
            kept: content.and_then(|content| content.kept),
            about: content.and_then(|content| content.about.as_ref()).map(Cow::Borrowed),
            content_limit: content.and_then(|content| content.limited).map(Cow::Borrowed),
            render: findings.render.as_deref().map(Cow::Borrowed),
            ms: Some(Millis::from(&visit.facts.timings)),
            started: Some(clock.text(visit.facts.started).into()),
            ip: visit.facts.ip,
            http: visit.facts.http.map(Cow::Borrowed),
            insecure: visit.facts.insecure,
            digest: findings.digest,
            etag: visit.facts.etag.as_deref().map(Cow::Borrowed),
            last_modified: visit.facts.last_modified.as_deref().map(Cow::Borrowed),
            warc: warc.map(Cow::Borrowed),
            headers: visit.facts.headers.as_ref().map(|headers| headers.as_slice().into()),
            link_list: findings.all_links.as_deref().map(|links| links.iter().map(RecordedLink::from).collect()),
        }
    }

    /// The record of a link that is not followed.
    pub fn of_skip(url: &'a str, reason: &'a str, via: &'a str) -> Self {
        Self {
            v: VERSION,
            r#type: "skip".into(),
            url: url.into(),
            via: Some(via.into()),
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Appends the record as a line of JSON, with its line feed.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        // Writing to a Vec cannot fail. If a line cannot be encoded, nothing is appended.
        match write_json(out, self) {
            Ok(()) => out.push(b'\n'),
            Err(_) => out.truncate(start),
        }
    }
}

/// The versions of a page in other languages. Each language has its first URL.
fn languages(visit: &Visit) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
    // The first URL of a language is inserted last.
    let languages = visit.findings.hreflang.iter().rev();
    languages.map(|(language, url)| (Cow::from(&**language), Cow::from(url.as_str()))).collect()
}

impl<'a> From<FoundLink<'a>> for RecordedLink<'a> {
    fn from(link: FoundLink<'a>) -> Self {
        let (url, anchor) = (link.url.as_str().into(), link.anchor.map(Cow::Borrowed));
        Self { url, kind: link.kind, nofollow: link.nofollow, anchor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::custom_request::{CustomRequest, Method};
    use crate::base::digest::BodyDigest;
    use crate::base::link::{Link, LinkKind};
    use crate::base::outcome::{ErrorKind, Failure, Truncated};
    use crate::base::time::Time;
    use crate::base::url::Url;
    use crate::page::examine::{OpenGraph, PageFacts};
    use crate::page::likeness::MinHash;
    use std::sync::Arc;
    use std::time::Duration;

    /// The crawl started at 2026-01-02T03:04:05.678Z.
    const CLOCK: WallClock = WallClock { start: 1_767_323_045_678_000 };

    fn url(text: &str) -> Url {
        Url::parse(text).expect("an address")
    }

    fn visit(purpose: Purpose, outcome: Outcome) -> Visit {
        let via = Some(url("https://h.example/"));
        let kind = LinkKind::Anchor;
        let link = Link { url: url("https://h.example/p"), via, depth: 2, redirects: 9, tries: 1, kind, request: None };
        Visit::with_outcome(link, purpose, outcome, Time::ZERO)
    }

    fn line(visit: &Visit, warc: Option<&WarcLocation>) -> serde_json::Value {
        let mut out = b"before\n".to_vec();
        CrawlRecord::of(visit, CLOCK, 7, warc).encode(&mut out);
        let text = std::str::from_utf8(&out).expect("UTF-8").strip_prefix("before\n").expect("appended");
        assert_eq!(text.matches('\n').count(), 1);
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn the_record_of_a_page_has_all_known_fields() {
        let mut visit = visit(Purpose::Page, Outcome::Ok);
        visit.facts.status = Some(200);
        visit.findings.content_type = Some("text/html".into());
        visit.findings.charset = Some("utf-8");
        visit.findings.title = Some("A \"title\"\u{7}".into());
        (visit.facts.bytes_wire, visit.facts.bytes_body, visit.findings.links, visit.findings.new_links) =
            (8_123, 31_234, 40, 12);
        visit.facts.truncated = Some(Truncated::Length);
        visit.facts.timings.dns = Some(Duration::from_micros(2_001));
        visit.facts.timings.total = Some(Duration::from_millis(140));
        visit.facts.ip = Some("203.0.113.9".parse().expect("an address"));
        visit.facts.http = Some("1.1");
        visit.findings.digest = Some(BodyDigest::Xxh3([0xAB; 16]));
        visit.findings.facts = Some(Box::new(PageFacts {
            description: Some("What it is about".into()),
            h1: Some("A heading".into()),
            h1_count: 1,
            lang: Some("en".into()),
            meta_robots: vec!["noindex".into(), "max-snippet:-1".into()],
            words: 420,
            og: OpenGraph { title: Some("Shared".into()), image: Some("https://h.example/i.png".into()) },
            images_without_alt: 2,
            needs_scripts: true,
            minhash: Some(MinHash(0xAB)),
        }));
        visit.facts.started = Time::from_micros(1_000_000);
        let place = WarcLocation::of_record("a.warc.gz".into(), 123, 456);
        let expected = serde_json::json!({
            "v": 1, "type": "page", "url": "https://h.example/p", "status": 200, "outcome": "ok",
            "via": "https://h.example/", "depth": 2, "tries": 1, "content_type": "text/html", "charset": "utf-8",
            "title": "A \"title\"\u{7}", "bytes_wire": 8123, "bytes_body": 31234, "truncated": "length",
            "description": "What it is about", "h1": "A heading", "h1_count": 1, "lang": "en",
            "meta_robots": ["noindex", "max-snippet:-1"], "words": 420,
            "og": {"title": "Shared", "image": "https://h.example/i.png"}, "images_without_alt": 2, "needs_scripts": true,
            "minhash": "00000000000000ab",
            "links": 40, "new_links": 12, "ms": {"dns": 3, "total": 140}, "started": "2026-01-02T03:04:06.678Z",
            "ip": "203.0.113.9", "http": "1.1", "digest": format!("xxh3:{}", "ab".repeat(16)),
            "warc": {"file": "a.warc.gz", "offset": 123, "length": 456},
        });
        assert_eq!(line(&visit, Some(&place)), expected);
    }

    #[test]
    fn requests_with_different_bodies_have_different_ids() {
        let mut visit = visit(Purpose::Page, Outcome::Ok);
        let body = *b"user=spider";
        let request = CustomRequest { method: Method::Post, body: body.into(), ..CustomRequest::default() };
        visit.link.request = Some(Arc::new(request));
        let line = line(&visit, None);
        assert_eq!(line["method"], "POST");
        let id = line["request_id"].as_str().expect("an id").to_owned();
        assert_eq!(id.len(), 16);
        let other = CustomRequest { method: Method::Post, body: (*b"user=ant").into(), ..CustomRequest::default() };
        visit.link.request = Some(Arc::new(other));
        assert_ne!(self::line(&visit, None)["request_id"], id);
    }

    #[test]
    fn unknown_fields_are_absent() {
        let mut visit = visit(Purpose::Page, Outcome::Failed);
        visit.facts.error = Some(Failure::new(ErrorKind::TimeoutIdle, "nothing for 20s"));
        let expected = serde_json::json!({
            "v": 1, "type": "page", "url": "https://h.example/p", "outcome": "failed",
            "error": {"kind": "timeout_idle", "message": "nothing for 20s"}, "via": "https://h.example/", "depth": 2,
            "tries": 1, "ms": {}, "started": "2026-01-02T03:04:05.678Z",
        });
        assert_eq!(line(&visit, None), expected);
    }

    #[test]
    fn robots_txt_and_sitemaps_are_recorded_as_aux() {
        let origin = Box::new(url("https://h.example/").origin());
        let robots = line(&visit(Purpose::Robots(origin), Outcome::Ok), None);
        assert_eq!((robots["type"].as_str(), robots["for"].as_str()), (Some("aux"), Some("robots")));
        let sitemap = line(&visit(Purpose::Sitemap, Outcome::Ok), None);
        assert_eq!((sitemap["type"].as_str(), sitemap["for"].as_str()), (Some("aux"), Some("sitemap")));
        assert!(sitemap.get("links").is_none());
    }

    #[test]
    fn a_time_out_of_range_does_not_panic() {
        assert_eq!(CLOCK.text(Time::NEVER), "1970-01-01T00:00:00.000Z");
        assert_eq!(WallClock { start: i64::MIN }.text(Time::ZERO), "1970-01-01T00:00:00.000Z");
    }

    /// The line of the record of an exchange with status 304, completed by an earlier record.
    fn completed(line: &str, earlier: &str) -> String {
        let mut record = CrawlRecord::read(line.as_bytes()).expect("a record");
        record.add_missing(CrawlRecord::read(earlier.as_bytes()).expect("a record"));
        let mut out = Vec::new();
        record.encode(&mut out);
        String::from_utf8(out).expect("UTF-8").trim_end().to_owned()
    }

    #[test]
    fn fields_that_describe_the_page_are_added() {
        let line = r#"{"v":1,"type":"page","url":"http://h/","status":304,"title":"new"}"#;
        let earlier = r#"{"v":1,"type":"page","url":"http://g/","status":200,"title":"old","words":7,"capped":true,
            "ip":"::1","odd":["coding_label"],"og":{"title":"\u001b"},"data":{"a":[1]},"content_limit":"time"}"#;
        let expected = r#"{"v":1,"type":"page","url":"http://h/","status":304,"title":"new","words":7,"og":{"title":"\u001b"},"capped":true,"odd":["coding_label"],"data":{"a":[1]},"content_limit":"time"}"#;
        assert_eq!(completed(line, earlier), expected);
    }

    #[test]
    fn records_of_unchanged_pages_refer_to_the_archived_body() {
        let body = |record: &str| CrawlRecord::read(record.as_bytes()).expect("a record").archived_body();
        let full = r#"{"url":"http://h/","status":200,"started":"D1","warc":{"file":"f","offset":1,"length":2}}"#;
        let found = body(full).expect("an archived body");
        assert_eq!(
            (&*found.url, &*found.date, &*found.file, found.offset, found.length),
            ("http://h/", "D1", "f", 1, 2)
        );
        // The new record has another start time than the archived response, so the record must name that response.
        let second = completed(r#"{"url":"http://h/","status":304,"started":"D2"}"#, full);
        let third = completed(r#"{"url":"http://h/","status":304,"started":"D3"}"#, &second);
        assert_eq!(body(&second), Some(found.clone()));
        assert_eq!(body(&third), Some(found));
        let without_body =
            r#"{"url":"http://h/","status":304,"started":"D","warc":{"file":"f","offset":1,"length":2}}"#;
        assert_eq!(body(without_body), None);
    }

    #[test]
    fn a_lazy_record_has_the_fields_that_can_be_read() {
        let line =
            br#"{"v":1,"type":"page","new":{"x":[1]},"url":"http://h/\u00e9","depth":0,"status":"no","nofollow":true}"#;
        let record = LazyRecord::read(line).expect("an object");
        assert_eq!((&*record.url(), record.depth(), record.status()), ("http://h/é", Some(0), None));
        assert!(record.is_page() && record.nofollow() && !record.noindex() && !record.has_error());
        assert!(LazyRecord::read(b"[]").is_none() && LazyRecord::read(b"{\"url\":").is_none());
    }
}
