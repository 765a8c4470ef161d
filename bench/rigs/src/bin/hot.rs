//! Runs one hot path, for counting instructions: `hot PATH ROUNDS` repeats the same work.
//!
//! bench/guards runs it under callgrind with two numbers of rounds. The difference of the two counts excludes the start of
//! the program. Therefore all rounds must do the same work.

#![allow(clippy::print_stdout, reason = "it prints a result, so that the compiler keeps the work")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::digest::BodyDigest;
use argiope_core::base::job::Purpose;
use argiope_core::base::time::WallClock;
use argiope_core::base::value::DigestAlgorithm;
use argiope_core::crawl::record::CrawlRecord;
use argiope_core::crawl::rules::{Config, Pace, RobotsPolicy, Rules};
use argiope_core::crawl::schedule::frontier::NewHosts;
use argiope_core::crawl::schedule::next::Next;
use argiope_core::crawl::schedule::workbench::Workbench;
use argiope_core::crawl::visit::Visit;
use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
use argiope_core::page::examine::tokenizer::{Dialect, Tokenizer};
use argiope_core::page::examine::{ExamineLimits, Examiner};
use argiope_core::{Frontier, LaneId, Link, LinkKind, Outcome, StoreError, Time, Url};
use argiope_rigs::{AddressGenerator, TagCounter};
use argiope_store::MemoryFrontier;

/// A hot path: its name, and a function that prepares it and returns the work of one round. The work returns a number, so
/// that the compiler cannot remove it.
type Path = (&'static str, fn() -> Box<dyn FnMut() -> u64>);

const PATHS: &[Path] = &[
    ("head", head),
    ("tokenizer", tokenizer),
    ("links", links),
    ("page", page),
    ("put", put),
    ("next-finish", next_finish),
    ("record", encode),
];

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || {
        let names: Vec<&str> = PATHS.iter().map(|(name, _)| *name).collect();
        format!("usage: hot PATH ROUNDS, where PATH is one of {}", names.join(" "))
    };
    let [name, rounds] = &arguments[..] else { return Err(usage()) };
    let rounds: u64 = rounds.parse().map_err(|_| usage())?;
    let (_, make) = PATHS.iter().find(|(path, _)| path == name).ok_or_else(usage)?;
    let mut round = make();
    let sum = (0..rounds).fold(0_u64, |sum, _| sum.wrapping_add(round()));
    println!("{sum}");
    Ok(())
}

/// A response with usual headers.
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
Date: Sun, 15 Nov 2026 12:00:00 GMT\r\n\
Server: nginx/1.27.1\r\n\
Content-Type: text/html; charset=utf-8\r\n\
Content-Length: 5\r\n\
Connection: keep-alive\r\n\
Vary: Accept-Encoding, Cookie\r\n\
Cache-Control: max-age=600, public\r\n\
ETag: \"5f2c7a1b-2e10\"\r\n\
Last-Modified: Tue, 03 Nov 2026 08:14:02 GMT\r\n\
Strict-Transport-Security: max-age=63072000; includeSubDomains\r\n\
X-Content-Type-Options: nosniff\r\n\
Set-Cookie: session=0123456789abcdef; Path=/; HttpOnly\r\n\
\r\nhello";

/// A receiver that counts headers and bytes.
#[derive(Default)]
struct CountingReceiver(u64);

impl Receiver for CountingReceiver {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        self.0 += head.len() as u64;
        Want::Body
    }

    fn wire(&mut self, _raw: &[u8]) {}

    fn body(&mut self, decoded: &[u8]) {
        self.0 += decoded.len() as u64;
    }
}

/// One exchange whose response has a dozen headers.
fn head() -> Box<dyn FnMut() -> u64> {
    let limits = Arc::new(Limits::default());
    Box::new(move || {
        let now = Time::from_micros(1_000);
        let mut count = CountingReceiver::default();
        let mut conn = Conn::plain(Arc::clone(&limits), now);
        conn.request(b"GET / HTTP/1.1\r\nHost: h.example\r\n\r\n".to_vec(), now + limits.total, now);
        while let Step::Write(bytes) = conn.step() {
            let length = bytes.len();
            conn.wrote(length, now);
        }
        conn.feed(RESPONSE, now, &mut count);
        count.0 + conn.end().bytes_wire
    })
}

/// A page of about 12 kB with 50 links of the usual kinds, and other usual content.
fn html() -> String {
    let mut html = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page &amp; its links</title>\n\
         <link rel=\"stylesheet\" href=\"/style.css\"><script>if (1 < 2) { document.write(\"<a href=x>\"); }</script>\n\
         <style>p > a { color: red }</style></head>\n<body class=\"page\"><!-- a comment -- with > in it -->\n",
    );
    for number in 0..50 {
        let href = match number % 5 {
            0 => format!("/section-{number}/page-{}.html", number * 7),
            1 => format!("page-{number}.html?a=1&amp;b={number}#part"),
            2 => format!("../up/{number}/"),
            3 => format!("https://www.host-{number}.example/"),
            _ => format!("#part-{number}"),
        };
        html += &format!(
            "<div class=\"entry\" id='e{number}'><h2>Number {number}</h2><p>Some text that is about as long as the text \
             between links is, with an <em>emphasis</em> and an &eacute;ntity.</p>\
             <a class=\"link\" href=\"{href}\" title=\"to {number}\">link {number}</a></div>\n"
        );
    }
    html + "</body></html>\n"
}

/// Splits a page into tags and text.
fn tokenizer() -> Box<dyn FnMut() -> u64> {
    let html = html();
    Box::new(move || {
        let mut tags = TagCounter::default();
        let mut tokenizer = Tokenizer::new(Dialect::Html);
        html.as_bytes().chunks(4096).for_each(|chunk| tokenizer.feed(chunk, &mut tags));
        tags.0
    })
}

fn page_url() -> Url {
    Url::parse("https://www.example.org/docs/guide/page.html").expect("a URL")
}

/// Examines a whole page: charset, tokens, links, title, digest.
fn page() -> Box<dyn FnMut() -> u64> {
    examine_rounds(html())
}

/// Examines a page of links only, so that most of the work is resolving them.
fn links() -> Box<dyn FnMut() -> u64> {
    let hrefs = |html: String| -> Vec<String> {
        html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    examine_rounds(hrefs(html()).iter().map(|href| format!("<a href=\"{href}\">")).collect())
}

/// A round that examines this page.
fn examine_rounds(html: String) -> Box<dyn FnMut() -> u64> {
    let url = page_url();
    let agent: Arc<str> = Arc::from("argiope");
    Box::new(move || {
        let limits = ExamineLimits {
            max_links: 10_000,
            max_url: 4096,
            max_attrs: 256,
            agent: Arc::clone(&agent),
            assets: false,
            anchors: false,
            digest: DigestAlgorithm::Xxh3,
        };
        let mut examiner = Examiner::new(&url, Some(b"text/html; charset=utf-8"), limits);
        html.as_bytes().chunks(4096).for_each(|chunk| examiner.feed(chunk));
        examiner.finish().links.len() as u64
    })
}

/// Puts 2,000 URLs into an empty frontier, each five times on average. So four of five offers are of a known URL.
fn put() -> Box<dyn FnMut() -> u64> {
    let (distinct, times) = (2_000, 5);
    let addresses = AddressGenerator::new(distinct, times);
    Box::new(move || {
        let fingerprint_key = 7;
        let mut frontier = MemoryFrontier::new(fingerprint_key);
        let result: Result<(), StoreError> =
            addresses.batches(|links| frontier.put(links, NewHosts::GetLanes, &mut |_, _| true).map(drop));
        result.map_or(0, |()| frontier.counts().known)
    })
}

/// Settings without robots.txt and delays.
fn rules() -> Arc<Rules> {
    let config = Config {
        roots: vec!["http://h0.example/".into()],
        robots: RobotsPolicy::Ignore,
        pace: Pace::Full,
        per_host: Some(2),
        concurrency: 64,
        ..Config::default()
    };
    let fingerprint_key = 0;
    Arc::new(config.compile(fingerprint_key).expect("valid settings"))
}

/// Takes and finishes the jobs of fifty hosts with twenty links each, until none is left.
fn next_finish() -> Box<dyn FnMut() -> u64> {
    const LANES: u32 = 50;
    let rules = rules();
    let url = |lane: u32, page: u32| Url::parse(&format!("http://h{lane}.example/{page}")).expect("a URL");
    let links: Vec<Vec<Url>> = (0..LANES).map(|lane| (0..20).map(|page| url(lane, page)).collect()).collect();
    let ips: Vec<IpAddr> = (0..LANES as u8).map(|lane| IpAddr::from([93, 184, 216, lane])).collect();
    // All links of a lane are given to the workbench, so none is left in a frontier.
    let backlog = 0;
    Box::new(move || {
        let mut now = Time::from_micros(1_000);
        let mut bench = Workbench::new(Arc::clone(&rules));
        for (id, urls) in (0..).zip(&links) {
            let link = |url: &Url| Link {
                url: url.clone(),
                via: None,
                depth: 1,
                redirects: 5,
                tries: 0,
                kind: LinkKind::Anchor,
                request: None,
            };
            bench.set_backlog(LaneId(id), &format!("h{id}.example"), backlog, now);
            bench.add_links(LaneId(id), urls.iter().map(link).collect(), backlog, now);
        }
        let mut fetched = 0;
        loop {
            now += Duration::from_micros(100);
            let next = bench.next(now).expect("every link is requested");
            match next {
                Next::Resolve(lane, _) => {
                    bench.resolved(lane, Ok((vec![ips[lane.0 as usize]], Duration::from_secs(300))), now);
                }
                Next::Fetch(job) => {
                    let mut visit = Visit::requested(job, Outcome::Ok, now);
                    visit.facts.status = Some(200);
                    bench.finish(&visit, now);
                    fetched += 1;
                }
                Next::Wait(_) | Next::Done(_) => return fetched,
            }
        }
    })
}

/// Encodes the record of a page.
fn encode() -> Box<dyn FnMut() -> u64> {
    let kind = LinkKind::Anchor;
    let link = Link { url: page_url(), via: Some(page_url()), depth: 3, redirects: 9, tries: 1, kind, request: None };
    let mut visit = Visit::with_outcome(link, Purpose::Page, Outcome::Ok, Time::from_micros(2_000_000));
    visit.facts.status = Some(200);
    visit.findings.content_type = Some("text/html".into());
    visit.findings.charset = Some("utf-8");
    visit.findings.title = Some("A page & its \"links\"".into());
    (visit.facts.bytes_wire, visit.facts.bytes_body, visit.findings.links, visit.findings.new_links) =
        (8_123, 31_234, 40, 12);
    visit.facts.timings.ttfb = Some(Duration::from_micros(12_345));
    visit.facts.timings.total = Some(Duration::from_micros(23_456));
    visit.facts.ip = Some(IpAddr::from([203, 0, 113, 9]));
    visit.facts.http = Some("1.1");
    visit.findings.digest = Some(BodyDigest::Xxh3([0xAB; 16]));
    visit.facts.etag = Some("\"5f2c7a1b-2e10\"".into());
    let clock = WallClock { start: 1_767_323_045_678_000 };
    let (fingerprint_key, warc_location) = (0, None);
    let mut out = Vec::new();
    Box::new(move || {
        out.clear();
        CrawlRecord::of(&visit, clock, fingerprint_key, warc_location).encode(&mut out);
        out.len() as u64
    })
}
