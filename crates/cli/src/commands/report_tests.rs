use std::time::Duration;

use crate::report::Backlinks;
use argiope_core::{ErrorKind, FailedPart, Failure, Truncated};

use super::*;

fn page(url: &str) -> PageSummary<'_> {
    PageSummary {
        url,
        host: "example.com",
        via: Some("https://example.com/"),
        is_root: false,
        depth: 1,
        is_guess: false,
        outcome: Outcome::Ok,
        status: Some(200),
        error: None,
        redirect: None,
        redirect_in_scope: true,
        content_type: Some("text/html"),
        charset: Some("utf-8"),
        bytes_wire: 8_123,
        bytes_body: 31_234,
        truncated: None,
        needs_scripts: false,
        render: None,
        is_soft_404: false,
        digest: None,
        links: 40,
        new_links: 12,
        tries: 1,
        total: Some(Duration::from_millis(140)),
    }
}

#[test]
fn a_page_line_has_status_type_charset_size_and_link_counts() {
    let failure = Failure::new(ErrorKind::TimeoutIdle, "nothing for 20 s\x1b[0m");
    let url = "https://example.com/p";
    for (page, line) in [
        (page(url), "https://example.com/p 200 text/html utf-8 31234 12/40"),
        (
            PageSummary { truncated: Some(Truncated::Length), ..page(url) },
            "https://example.com/p 200 text/html utf-8 31234 12/40 truncated:length",
        ),
        (
            PageSummary {
                outcome: Outcome::Redirect,
                status: Some(301),
                redirect: Some("https://example.com/q"),
                ..page(url)
            },
            "https://example.com/p 301 redirect https://example.com/q",
        ),
        (
            PageSummary { outcome: Outcome::HttpError, status: Some(404), charset: None, bytes_body: 9, ..page(url) },
            "https://example.com/p 404 text/html - 9",
        ),
        (
            PageSummary { outcome: Outcome::Failed, status: None, error: Some(&failure), ..page(url) },
            "https://example.com/p failed timeout_idle: nothing for 20 s\\x1b[0m",
        ),
        (PageSummary { outcome: Outcome::Robots, status: None, ..page(url) }, "https://example.com/p robots"),
    ] {
        assert_eq!(page_line(&page), line);
    }
}

#[test]
fn a_report_has_the_sections_for_which_there_are_entries() {
    let mut report = CrawlReport::default();
    let nxdomain = Failure::new(ErrorKind::DnsNxdomain, "no such host");
    let pages = ["https://example.com/", "https://example.com/a"];
    for url in pages {
        report.add(&page(url));
        report.add_links(url, [Backlinks::fingerprint_of_text("https://example.com/gone")]);
    }
    report.add(&PageSummary {
        outcome: Outcome::HttpError,
        status: Some(404),
        bytes_body: 0,
        ..page("https://example.com/gone")
    });
    report.add(&PageSummary {
        outcome: Outcome::Redirect,
        status: Some(301),
        redirect: Some("https://example.com/a"),
        bytes_body: 0,
        ..page("https://example.com/old")
    });
    report.add(&PageSummary {
        outcome: Outcome::Robots,
        status: None,
        total: None,
        bytes_body: 0,
        bytes_wire: 0,
        ..page("https://example.com/private")
    });
    report.add(&PageSummary {
        host: "dead.example",
        via: None,
        is_root: true,
        outcome: Outcome::Failed,
        status: None,
        error: Some(&nxdomain),
        tries: 4,
        bytes_body: 0,
        bytes_wire: 0,
        total: Some(Duration::from_millis(2_500)),
        ..page("https://dead.example/")
    });
    report.add(&PageSummary {
        host: "moved.example",
        via: None,
        is_root: true,
        outcome: Outcome::Redirect,
        status: Some(302),
        redirect: Some("https://other.example/"),
        redirect_in_scope: false,
        bytes_body: 0,
        ..page("https://moved.example/")
    });
    report.close(Duration::from_millis(3_500), 0, End::Finished);
    let expected = "\
Finished after 3.5 s: 5 pages from 2 hosts, 40.6 kB, 1.4 pages/s

  ok                                 2
  redirects                          2   1 × 301 Moved Permanently, 1 × 302 Found
  HTTP errors                        1   1 × 404 Not Found
  failed                             1
  disallowed by robots.txt           1
  retries                            3

Roots
  https://dead.example/: no such host
  https://moved.example/ redirects to https://other.example/, which is out of scope; to crawl that site: argiope crawl https://other.example/

Failures
         1  no such host (dns_nxdomain)
            https://dead.example/

Broken links (2)
  https://example.com/gone  404 Not Found
      on https://example.com/
      on https://example.com/a
  https://dead.example/  no such host
      a root

Redirects (2)
  301  https://example.com/old → https://example.com/a
  302  https://moved.example/ → https://other.example/

Slowest pages
       2.5 s  https://dead.example/
      140 ms  https://example.com/
      140 ms  https://example.com/a
      140 ms  https://example.com/gone
      140 ms  https://example.com/old

Largest pages
     31.2 kB  https://example.com/
     31.2 kB  https://example.com/a

Hosts (3)
         4  example.com  32.5 kB, 140 ms a page, 1 broken
         1  moved.example  8.1 kB, 140 ms a page
         0  dead.example  0 B, 1 broken
";
    assert_eq!(render(&report, false), expected);
}

#[test]
fn an_unfinished_crawl_reports_the_number_of_queued_urls() {
    let mut report = CrawlReport::default();
    report.add(&page("https://example.com/"));
    report.close(Duration::from_secs(61), 1_200, End::MaxPages);
    let text = render(&report, false);
    assert!(text.starts_with("Stopped at the page limit after 1 min 1 s: 1 page from 1 host, 8.1 kB, 0.0 pages/s\n1,200 URLs still queued\n"), "{text}");
}

#[test]
fn urls_that_were_never_requested_are_not_pages() {
    let mut report = CrawlReport::default();
    report.add(&page("https://example.com/"));
    let not_requested = PageSummary { status: None, bytes_wire: 0, bytes_body: 0, total: None, ..page("https://h/") };
    for outcome in [Outcome::Robots, Outcome::Refused] {
        report.add(&PageSummary { outcome, ..not_requested.clone() });
    }
    // The name of the host cannot be resolved. Its URLs fail without a request; `tries` counts DNS lookups.
    let servfail = Failure::new(ErrorKind::DnsServfail, "the name server failed");
    // The host stopped responding. Its other URLs fail without a request, unless they were requested before.
    let mut given_up = Failure::new(ErrorKind::Reset, "the host was given up on: no response");
    given_up.part = FailedPart::Host;
    for (host, error, tries) in
        [("dead.example", &servfail, 4), ("lost.example", &given_up, 0), ("lost.example", &given_up, 1)]
    {
        let (outcome, error) = (Outcome::Failed, Some(error));
        report.add(&PageSummary { host, outcome, error, tries, ..not_requested.clone() });
    }
    report.close(Duration::from_secs(1), 0, End::Finished);
    let text = render(&report, false);
    assert!(text.starts_with("Finished after 1.0 s: 2 pages from 2 hosts, 8.1 kB, 2.0 pages/s\n"), "{text}");
    assert!(text.contains("         0  dead.example  0 B, 1 broken\n"), "{text}");
}

#[test]
fn a_shortened_list_ends_with_the_number_of_omitted_entries() {
    let mut report = CrawlReport::default();
    for number in 0..30 {
        let url = format!("https://example.com/{number}");
        report.add(&PageSummary { outcome: Outcome::HttpError, status: Some(500), ..page(&url) });
    }
    assert!(render(&report, false).contains("  … and 20 more\n"));
    assert!(!render(&report, true).contains("more\n"));
}

#[test]
fn the_columns_of_the_next_steps_are_aligned_for_any_directory() {
    let mut report = CrawlReport::default();
    report.add(&PageSummary { outcome: Outcome::HttpError, status: Some(404), ..page("https://example.com/gone") });
    report.close(Duration::from_secs(1), 0, End::Finished);
    report.has_root_page = true;
    for name in ["d.crawl".to_owned(), format!("{}.crawl", "long".repeat(12))] {
        let text = next_steps(&report, std::path::Path::new(&name));
        let columns: Vec<Option<usize>> = ["the whole report as a page", "why a URL failed", "to find out"]
            .iter()
            .map(|what| text.lines().find_map(|line| line.find(what)))
            .collect();
        assert!(columns[0].is_some() && columns.iter().all(|column| *column == columns[0]), "{columns:?} in {text}");
    }
}

#[test]
fn control_characters_from_the_web_are_escaped() {
    let mut report = CrawlReport::default();
    let failure = Failure::new(ErrorKind::Protocol, "\x1b]0;evil\x07");
    let url = "https://example.com/\x1b[2J";
    report.add(&PageSummary {
        is_root: true,
        outcome: Outcome::Failed,
        error: Some(&failure),
        via: Some("http://h/\u{202e}"),
        host: "\x1b",
        ..page(url)
    });
    report.add(&page("https://example.com/"));
    report.close(Duration::ZERO, 0, End::Finished);
    let text = render(&report, true);
    assert!(text.chars().all(|c| !c.is_control() || c == '\n') && !text.contains('\u{202e}'), "{text}");
}
