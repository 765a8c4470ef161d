//! Tests of fetches.

use std::io::Read as _;
use std::net::IpAddr;

use super::result::is_whole_range;
use super::*;
use crate::base::job::LaneId;
use crate::base::job::Purpose;
use crate::base::link::Link;
use crate::base::outcome::{ErrorKind, Outcome};
use crate::base::url::Url;
use crate::crawl::rules::{Config, RuleValues};
use crate::crawl::visit::SiteFile;
use crate::crawl::warc::ArchiveLayout;
use crate::http::conn::Limits;
use crate::page::follow::{LinkFilter, LinkJudge, LinkPage};

#[test]
fn the_state_of_a_fetch_takes_at_most_248_bytes() {
    assert!(size_of::<FetchState>() <= 248, "{} bytes", size_of::<FetchState>());
}

#[test]
fn a_content_range_is_whole_only_from_first_to_last_byte() {
    for (value, whole) in [
        ("bytes 0-99/100", true),
        ("bytes 0-9/100", false),
        ("bytes 1-99/100", false),
        ("bytes 0-18446744073709551615/0", false),
        ("bytes */100", false),
        ("bytes 0-9/*", false),
        ("banana", false),
    ] {
        assert_eq!(is_whole_range(Some(value.as_bytes())), whole, "{value}");
    }
    assert!(!is_whole_range(None));
}

/// A fetch of `address` whose request has been sent, with `edit` applied to its rules.
fn fetch(address: &str, purpose: Purpose, edit: impl FnOnce(&mut RuleValues)) -> Fetch {
    let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
    let rules = config.compile(1).expect("valid settings").edited(edit);
    let link = Link::root(Url::parse(address).expect("a valid URL"), 1);
    let job = Job { lane: LaneId(7), slot: 3, ..Job::detached(link, purpose, [IpAddr::from([127, 0, 0, 1])]) };
    let conn = Conn::plain(Arc::new(Limits::default()), Time::ZERO);
    let start = FetchStart { started: Time::ZERO, connected: Some(Time::ZERO) };
    let mut fetch = Fetch::new(Box::new(job), conn, Arc::new(rules), start, Time::ZERO);
    while let Step::Write(bytes) = fetch.step() {
        let count = bytes.len();
        fetch.wrote(count, Time::ZERO);
    }
    fetch
}

#[test]
fn sitemap_entries_are_charged_to_the_budget() {
    let budget = crate::base::budget::Budget::new(100_000);
    let start = || {
        let budget = Arc::clone(&budget);
        let mut fetch = fetch("http://h/map.txt", Purpose::Sitemap, |rules| rules.budget = budget);
        fetch.feed(b"HTTP/1.1 200 OK\r\n\r\n", Time::ZERO);
        fetch
    };
    let lines: String = (0..2_000).map(|n| format!("http://h/{n}\n")).collect();
    let (mut first, mut second) = (start(), start());
    first.feed(lines.as_bytes(), Time::ZERO);
    assert!(budget.response_bytes() > 100_000, "{}", budget.response_bytes());
    assert!(matches!(first.step(), Step::Read), "one may exceed the budget");
    second.feed(b"http://h/\n", Time::ZERO);
    assert!(matches!(second.step(), Step::Pause), "the others wait");
    first.closed(Time::ZERO);
    let Finished::Visit(visit, _) = first.finish(Time::ZERO) else { panic!("a visit") };
    assert!(budget.response_bytes() > 100_000, "charged until the keeper drops the visit");
    drop(visit);
    assert!(second.resume(Time::ZERO));
}

/// Feeds a response at once and returns the number of slices that processing took.
fn feed_in_slices(fetch: &mut Fetch, answer: &[u8]) -> usize {
    fetch.feed(answer, Time::ZERO);
    let mut slices = 1;
    while fetch.is_yielding() {
        assert!(matches!(fetch.step(), Step::Pause));
        fetch.resume(Time::ZERO);
        slices += 1;
    }
    slices
}

#[test]
fn bodies_that_expand_are_decoded_in_slices() {
    use std::io::Write as _;
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text).expect("writing to memory cannot fail");
        encoder.finish().expect("writing to memory cannot fail")
    };
    let answer = |coding: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\n{coding}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let page = "<p>0</p>".repeat(1 << 20);
    let map: String = (0..100_000).map(|n| format!("http://h/{n}\n")).collect();
    for (purpose, coding, text) in [
        (Purpose::Page, "Content-Encoding: gzip\r\n", &page),
        (Purpose::Sitemap, "", &map),
        (Purpose::Sitemap, "Content-Encoding: gzip\r\n", &map),
    ] {
        let mut fetch = fetch("http://h/map.txt", purpose.clone(), |_| {});
        let slices = feed_in_slices(&mut fetch, &answer(coding, &gzip(text.as_bytes())));
        // On average, a slice has at least half of `DECODE_SLICE` (64 KiB).
        let max_slices = text.len() / (32 << 10) + 2;
        assert!(slices > 3 && slices <= max_slices, "{slices} slices of {} bytes as {purpose:?}", text.len());
        let Finished::Visit(visit, conn) = fetch.finish(Time::ZERO) else { panic!("a visit") };
        assert_eq!((visit.facts.outcome, visit.facts.truncated, conn.is_some()), (Outcome::Ok, None, true));
    }
    // An ordinary page is processed in one slice.
    let mut fetch = fetch("http://h/", Purpose::Page, |_| {});
    assert_eq!(feed_in_slices(&mut fetch, &answer("", page.get(..60_000).unwrap_or_default().as_bytes())), 1);
}

/// The visit that results from a response after which the connection is closed.
fn visit(purpose: Purpose, response: &[u8]) -> Visit {
    let mut fetch = fetch("http://h/map.xml", purpose, |_| {});
    feed_in_slices(&mut fetch, response);
    fetch.closed(Time::ZERO);
    let Finished::Visit(visit, _) = fetch.finish(Time::ZERO) else { panic!("a visit") };
    *visit
}

#[test]
fn long_header_values_are_ignored_or_shortened() {
    let long = "x".repeat(200_000);
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nhi");
    let fields = format!("ETag: \"{long}\"\r\nContent-Type: text/{}\r\n", "x".repeat(40_000));
    let page = visit(Purpose::Page, head(&fields).as_bytes());
    assert_eq!((page.facts.outcome, page.facts.etag), (Outcome::Ok, None));
    assert!(page.findings.content_type.is_none_or(|name| name.len() <= 255));
    let page = visit(Purpose::Page, head("ETag: \"a\"\r\nLast-Modified: today\r\n").as_bytes());
    assert_eq!((page.facts.etag.as_deref(), page.facts.last_modified.as_deref()), (Some("\"a\""), Some("today")));
    let coded = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {long}\r\n\r\n");
    let failure = visit(Purpose::Page, coded.as_bytes()).facts.error.expect("a failure");
    assert_eq!(failure.kind, ErrorKind::Decode);
    assert!(failure.message.len() < 200, "{} bytes", failure.message.len());
    let longest_message = crate::base::outcome::MAX_MESSAGE + "…".len();
    assert_eq!(Failure::new(ErrorKind::Tls, long).message.len(), longest_message);
}

#[test]
fn large_windows_are_allocated_only_within_the_budget() {
    let budget = crate::base::budget::Budget::new(10 << 20);
    // A zstd frame with a window of 8 MiB and one raw block of two bytes, which is the last one. The decoder reads 16
    // bytes before it identifies a stream, so five more bytes are fed after the eleven bytes of the frame.
    let body = b"\x28\xb5\x2f\xfd\x00\x68\x11\x00\x00hi";
    let start = |coding: &str| {
        let budget = Arc::clone(&budget);
        let mut fetch = fetch("http://h/", Purpose::Page, |rules| rules.budget = budget);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 100\r\n\r\n");
        fetch.feed(&[head.as_bytes(), body, &body[..5]].concat(), Time::ZERO);
        fetch
    };
    let mut first = start("zstd");
    assert!(budget.response_bytes() >= 8 << 20, "{}", budget.response_bytes());
    assert!(matches!(first.step(), Step::Read));
    let mut second = start("zstd");
    assert!(matches!(second.step(), Step::Read), "one may exceed the budget");
    let held = budget.response_bytes();
    let mut others: Vec<Fetch> = (0..20).map(|_| start("zstd")).collect();
    assert_eq!(budget.response_bytes(), held, "the others allocate nothing");
    for other in &mut others {
        assert!(matches!(other.step(), Step::Pause) && !other.is_yielding());
        assert!(!other.resume(Time::ZERO));
    }
    drop((first, second));
    assert_eq!(budget.response_bytes(), 0);
    let resumed = others.iter_mut().map(|other| other.resume(Time::ZERO)).filter(|resumed| *resumed).count();
    assert_eq!(resumed, 2, "one within the budget, and one that may exceed it");
    drop(others);
    // A brotli window of 4 MiB fits into the budget.
    let mut brotli = fetch("http://h/", Purpose::Page, |rules| rules.budget = Arc::clone(&budget));
    brotli.feed(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\n\x0b", Time::ZERO);
    assert!(matches!(brotli.step(), Step::Read));
}

#[test]
fn a_response_whose_head_has_the_overdraft_may_allocate_a_window() {
    let budget = crate::base::budget::Budget::new(1 << 20);
    let mut fetch = fetch("http://h/", Purpose::Page, |rules| rules.budget = Arc::clone(&budget));
    let mut other = budget.hold();
    other.grow(1 << 20);
    let cookie = "x".repeat(crate::http::conn::UNCHARGED_HEAD);
    let head = format!("HTTP/1.1 200 OK\r\nX-Long: {cookie}\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\n");
    fetch.feed(head.as_bytes(), Time::ZERO);
    assert!(matches!(fetch.step(), Step::Read), "the charge for the head takes the overdraft");
    fetch.feed(b"\x0b", Time::ZERO);
    assert!(budget.part(crate::base::budget::MemoryPart::Windows) > 0);
    assert!(matches!(fetch.step(), Step::Read), "the window belongs to the same response");
}

#[test]
fn headers_of_the_crawl_with_the_same_name_are_all_sent_unless_they_are_replaced() {
    let config = Config {
        roots: vec!["http://h/".into()],
        header: ["X-A: 1", "x-a: 2", "X-B: 3", "x-b: 4"].map(|line| line.parse().expect("a header")).into(),
        ..Config::default()
    };
    let rules = config.compile(1).expect("valid settings");
    let link = Link::root(Url::parse("http://h/").expect("a valid URL"), 1);
    let mut job = Job { lane: LaneId(7), slot: 3, ..Job::detached(link, Purpose::Page, []) };
    let own_fields = |job: &Job| -> Vec<String> {
        let text = String::from_utf8(exchange::with_request(job, &rules, |request| request.to_bytes())).expect("text");
        text.lines().filter(|line| line.to_ascii_lowercase().starts_with("x-")).map(str::to_owned).collect()
    };
    assert_eq!(own_fields(&job), ["X-A: 1", "x-a: 2", "X-B: 3", "x-b: 4"]);
    job.extras_mut().headers = vec![("X-b".into(), "5".into())];
    assert_eq!(own_fields(&job), ["X-b: 5", "X-A: 1", "x-a: 2"]);
}

#[test]
fn a_retry_after_date_is_compared_with_the_date_header() {
    let when = "Retry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n";
    let run = |fields: &str| {
        let response = format!("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n{fields}\r\n");
        let for_keeper = visit(Purpose::Page, response.as_bytes()).for_keeper;
        (for_keeper.retry_after.map(|wait| wait.as_secs()), for_keeper.retry_at)
    };
    assert_eq!(run(&format!("{when}Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n")), (Some(60), None));
    assert_eq!(run(when), (None, Some(784_111_837)));
    assert_eq!(run("Retry-After: 7\r\n"), (Some(7), None));
}

#[test]
fn a_broken_compressed_sitemap_keeps_its_first_entries() {
    use std::io::Write as _;
    // Numbers that compress badly, so that the compressed form can be cut in the middle.
    let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let urls: String = (0..5_000).map(|n| format!("<url><loc>http://h/{}</loc></url>", number(n))).collect();
    let text = format!("<?xml version='1.0'?><urlset>{urls}</urlset>");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).expect("writing to memory cannot fail");
    let packed = encoder.finish().expect("writing to memory cannot fail");
    let (half, mut broken) = (packed.get(..packed.len() / 2).unwrap_or_default(), packed.clone());
    broken.iter_mut().skip(packed.len() / 2).take(400).for_each(|byte| *byte = 0xff);
    for coding in ["", "Content-Encoding: gzip\r\n"] {
        for (body, length) in [(half, packed.len()), (half, half.len()), (&broken, broken.len())] {
            let head = format!("HTTP/1.1 200 OK\r\n{coding}Content-Length: {length}\r\n\r\n");
            let visit = visit(Purpose::Sitemap, &[head.as_bytes(), body].concat());
            let Some(SiteFile::Sitemap(sitemap, _)) = visit.for_keeper.site_file.map(|site_file| *site_file) else {
                panic!("no sitemap: {:?}", visit.facts.error);
            };
            assert!(sitemap.entries.len() > 1_000, "{coding:?}: {} entries", sitemap.entries.len());
        }
    }
}

#[test]
fn a_panic_fails_one_page_only() {
    let lane = LaneId(7);
    let mut fetch = fetch("http://h/", Purpose::Page, |_| {});
    fetch.catching_panics(|_, _| panic!("a fault"));
    assert!(matches!(fetch.step(), Step::Done));
    let Finished::Visit(visit, None) = fetch.finish(Time::ZERO) else {
        panic!("a panic must give a visit without a reusable connection");
    };
    assert_eq!((visit.facts.outcome, visit.for_keeper.slot), (Outcome::Failed, Some((lane, 3))));
    assert_eq!(visit.facts.error.map(|failure| failure.kind), Some(ErrorKind::Internal));
}

#[test]
fn a_list_of_16_kib_of_links_is_charged() {
    let budget = crate::base::budget::Budget::new(1 << 20);
    let mut page = fetch("http://h/", Purpose::Page, |rules| rules.budget = Arc::clone(&budget));
    let links: String = (0..1_000).map(|number| format!("<a href=/{number}>")).collect();
    page.feed(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", Time::ZERO);
    page.feed(links.as_bytes(), Time::ZERO);
    let held = budget.part(crate::base::budget::MemoryPart::Pages);
    assert!(held >= 16 << 10, "hundreds of such pages may be in flight: {held} bytes charged");
    drop(page);
    assert_eq!(budget.response_bytes(), 0);
}

#[test]
fn errors_after_a_complete_response_do_not_mark_it_as_truncated_in_the_archive() {
    #[derive(Debug)]
    struct PanickingFilter;

    impl LinkFilter for PanickingFilter {
        fn open<'a>(&'a self, _: LinkPage<'a>) -> LinkJudge<'a> {
            Box::new(|_| panic!("a fault of the user"))
        }
    }

    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<a href=/a>link</a>";
    let redirect = "HTTP/1.1 302 Found\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n";
    for (response, kind) in [(page, ErrorKind::Hook), (redirect, ErrorKind::RedirectInvalid)] {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        let mut layout = ArchiveLayout::new(&config.compile(1).expect("valid settings"));
        let mut fetch = fetch("http://h/", Purpose::Page, |rules| {
            rules.archive = true;
            rules.link_filter = Some(Arc::new(PanickingFilter));
        });
        feed_in_slices(&mut fetch, response.as_bytes());
        let Finished::Visit(visit, _) = fetch.finish(Time::ZERO) else { panic!("a visit") };
        assert_eq!(visit.facts.error.as_ref().map(|failure| failure.kind), Some(kind));
        let exchange = visit.for_keeper.archive.expect("the exchange is archived");
        let (_, chunk) = layout.place(*exchange, None);
        let mut records = String::new();
        flate2::bufread::MultiGzDecoder::new(&chunk.bytes[..]).read_to_string(&mut records).expect("gzip members");
        assert!(records.contains("WARC-Type: response") && !records.contains("WARC-Truncated"), "{records}");
    }
}
