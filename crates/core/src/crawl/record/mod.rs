//! Records: one JSON object per line (docs/records.md).
//!
//! Invariant: whatever a server sent, a line is valid JSON in UTF-8 and harmless on a terminal. An absent field means
//! that the value is not known or does not apply.

pub mod carried;

use hashbrown::HashSet;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use crate::base::escape::write_json;
use crate::base::job::Purpose;
use crate::base::link_list::LinkList;
use crate::base::outcome::{Failure, Outcome, Truncated};
use crate::base::time::WallClock;
use crate::base::url::Url;
use crate::crawl::visit::{Timings, Visit};
use crate::crawl::warc::WarcLocation;
use crate::page::examine::OpenGraph;
use crate::page::likeness::MinHash;

/// The version of the record format.
pub const VERSION: u8 = 1;

/// The record of a visit, with the fields of docs/records.md.
#[derive(Serialize)]
struct Line<'a> {
    v: u8,
    r#type: &'static str,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    site_file: Option<&'static str>,
    /// Absent for GET.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    /// Distinguishes requests for the same URL that have different bodies.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redirect: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'a str>,
    depth: u32,
    tries: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    charset: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    h1: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    h1_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lang: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    meta_robots: &'a [Box<str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    og: Option<&'a OpenGraph>,
    #[serde(skip_serializing_if = "Option::is_none")]
    images_without_alt: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    needs_scripts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    minhash: Option<MinHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_wire: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_body: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<Truncated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_links: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    capped: bool,
    #[serde(skip_serializing_if = "is_zero")]
    links_cut: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    odd: Vec<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    noindex: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    nofollow: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical: Option<&'a str>,
    #[serde(skip_serializing_if = "Languages::is_empty")]
    hreflang: Languages<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a serde_json::Map<String, serde_json::Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_limit: Option<&'static str>,
    ms: Millis,
    started: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<std::net::IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_modified: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warc: Option<&'a WarcLocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a crate::http::conn::Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_list: Option<LinkObjects<'a>>,
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The timings in milliseconds. They are rounded up, so that a phase that took time is not shown as zero.
#[derive(Serialize)]
struct Millis {
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connect: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttfb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

impl From<&Timings> for Millis {
    fn from(timings: &Timings) -> Self {
        let millis = |span: Option<std::time::Duration>| span.map(|s| s.as_micros().div_ceil(1_000) as u64);
        Self {
            dns: millis(timings.dns),
            connect: millis(timings.connect),
            tls: millis(timings.tls),
            ttfb: millis(timings.ttfb),
            total: millis(timings.total),
        }
    }
}

/// A digest in the form `sha256:` and hexadecimal digits.
struct Digest<'a>(&'a [u8; 32]);

impl Serialize for Digest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        // Seven bytes for the prefix, and two for each byte of the digest.
        let mut text = [0u8; 71];
        text[..7].copy_from_slice(b"sha256:");
        for (pair, byte) in text[7..].chunks_exact_mut(2).zip(self.0) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// The versions of a page in other languages, as in `{"de": "https://h/de"}`. Each language has its first URL.
struct Languages<'a>(&'a [(Box<str>, Url)]);

impl Languages<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Languages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seen = HashSet::with_capacity(self.0.len());
        let first = self.0.iter().filter(|(language, _)| seen.insert(language));
        serializer.collect_map(first.map(|(language, url)| (language, url.as_str())))
    }
}

/// The links of a page as a list of objects.
struct LinkObjects<'a>(&'a LinkList);

impl Serialize for LinkObjects<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct LinkObject<'a> {
            url: &'a str,
            kind: &'static str,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            nofollow: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            anchor: Option<&'a str>,
        }
        let mut seq = serializer.serialize_seq(Some(self.0.len()))?;
        for link in self.0.iter() {
            let (url, kind) = (link.url.as_str(), link.kind.as_str());
            seq.serialize_element(&LinkObject { url, kind, nofollow: link.nofollow, anchor: link.anchor })?;
        }
        seq.end()
    }
}

/// Appends the record of a visit, with its line feed, to `out`. `key` is the fingerprint key of the crawl, and `warc`
/// the position of the visit in the archive.
pub fn encode(visit: &Visit, clock: WallClock, key: u64, warc: Option<&WarcLocation>, out: &mut Vec<u8>) {
    let has_response = visit.facts.status.is_some();
    let content = visit.findings.content.as_deref();
    // For an unchanged page, the counts are those of the last full response.
    let has_link_counts = visit.is_page() && matches!(visit.facts.outcome, Outcome::Ok | Outcome::NotModified);
    let facts = visit.findings.facts.as_deref();
    let line = Line {
        v: VERSION,
        r#type: if visit.is_page() { "page" } else { "aux" },
        site_file: match visit.purpose {
            Purpose::Page => None,
            Purpose::Robots(_) => Some("robots"),
            Purpose::Sitemap => Some("sitemap"),
        },
        method: visit.link.request.as_ref().map(|request| request.method.as_str()).filter(|name| *name != "GET"),
        request_id: visit.link.request.as_ref().filter(|request| request.is_one_of_several()).map(|request| {
            // The hash has a secret key: forms can contain passwords, and a short text could be guessed from its hash.
            format!("{:016x}", request.identity(key))
        }),
        url: visit.link.url.as_str(),
        status: visit.facts.status,
        outcome: visit.facts.outcome,
        error: visit.facts.error.as_ref(),
        redirect: visit.facts.redirect.as_ref().map(|url| url.as_str()),
        via: visit.link.via.as_ref().map(|url| url.as_str()),
        depth: visit.link.depth,
        tries: visit.link.tries,
        content_type: visit.findings.content_type.as_deref(),
        charset: visit.findings.charset,
        title: visit.findings.title.as_deref(),
        description: facts.and_then(|facts| facts.description.as_deref()),
        h1: facts.and_then(|facts| facts.h1.as_deref()),
        h1_count: facts.map(|facts| facts.h1_count),
        lang: facts.and_then(|facts| facts.lang.as_deref()),
        meta_robots: facts.map_or(&[], |facts| &facts.meta_robots),
        words: facts.map(|facts| facts.words),
        og: facts.map(|facts| &facts.og).filter(|og| !og.is_empty()),
        images_without_alt: facts.map(|facts| facts.images_without_alt),
        needs_scripts: facts.is_some_and(|facts| facts.needs_scripts),
        minhash: facts.and_then(|facts| facts.minhash),
        bytes_wire: (visit.facts.bytes_wire > 0 || has_response).then_some(visit.facts.bytes_wire),
        bytes_body: has_response.then_some(visit.facts.bytes_body),
        truncated: visit.facts.truncated,
        links: has_link_counts.then_some(visit.findings.links),
        new_links: has_link_counts.then_some(visit.findings.new_links),
        capped: visit.findings.capped,
        links_cut: visit.findings.links_cut,
        odd: visit.facts.defects.names(),
        noindex: visit.findings.noindex,
        nofollow: visit.findings.nofollow,
        canonical: visit.findings.canonical.as_ref().map(|url| url.as_str()),
        hreflang: Languages(&visit.findings.hreflang),
        data: content.and_then(|content| content.data.as_ref()),
        text: content.and_then(|content| content.text.as_deref()),
        markdown: content.and_then(|content| content.markdown.as_deref()),
        kept: content.and_then(|content| content.kept),
        content_limit: content.and_then(|content| content.limited),
        ms: Millis::from(&visit.facts.timings),
        started: clock.text(visit.facts.started),
        ip: visit.facts.ip,
        http: visit.facts.http,
        insecure: visit.facts.insecure,
        digest: visit.findings.digest.as_ref().map(Digest),
        etag: visit.facts.etag.as_deref(),
        last_modified: visit.facts.last_modified.as_deref(),
        warc,
        headers: visit.facts.headers.as_deref(),
        link_list: visit.findings.all_links.as_deref().map(LinkObjects),
    };
    let start = out.len();
    // Writing to a Vec cannot fail. If a line cannot be encoded, nothing is appended.
    if write_json(out, &line).is_err() {
        out.truncate(start);
        return;
    }
    out.push(b'\n');
}

/// Appends the line of a link that is not followed, with its line feed.
pub fn encode_skip(url: &str, reason: &str, via: &str, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct Skip<'a> {
        v: u8,
        r#type: &'static str,
        url: &'a str,
        reason: &'a str,
        via: &'a str,
    }
    let start = out.len();
    // As in `encode`: if a line cannot be encoded, nothing is appended.
    match write_json(out, &Skip { v: VERSION, r#type: "skip", url, reason, via }) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::custom_request::{CustomRequest, Method};
    use crate::base::link::{Link, LinkKind};
    use crate::base::outcome::ErrorKind;
    use crate::base::time::Time;
    use crate::base::url::Url;
    use crate::page::examine::PageFacts;
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
        encode(visit, CLOCK, 7, warc, &mut out);
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
        visit.findings.digest = Some([0xAB; 32]);
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
        let place = WarcLocation { file: "a.warc.gz".into(), offset: 123, length: 456, payload: None };
        let expected = serde_json::json!({
            "v": 1, "type": "page", "url": "https://h.example/p", "status": 200, "outcome": "ok",
            "via": "https://h.example/", "depth": 2, "tries": 1, "content_type": "text/html", "charset": "utf-8",
            "title": "A \"title\"\u{7}", "bytes_wire": 8123, "bytes_body": 31234, "truncated": "length",
            "description": "What it is about", "h1": "A heading", "h1_count": 1, "lang": "en",
            "meta_robots": ["noindex", "max-snippet:-1"], "words": 420,
            "og": {"title": "Shared", "image": "https://h.example/i.png"}, "images_without_alt": 2, "needs_scripts": true,
            "minhash": "00000000000000ab",
            "links": 40, "new_links": 12, "ms": {"dns": 3, "total": 140}, "started": "2026-01-02T03:04:06.678Z",
            "ip": "203.0.113.9", "http": "1.1", "digest": format!("sha256:{}", "ab".repeat(32)),
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
}
