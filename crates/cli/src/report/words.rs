//! Words for parts of a report that its text, its HTML page and the list of roots share.

use std::fmt::Write as _;

use argiope_core::base::escape::visible;

use super::{BrokenReason, CrawlReport, End};
use crate::wording;

/// What follows from a root without a scheme that does not speak TLS.
pub const PLAIN_HTTP: &str = "the root has no scheme, so http was tried. An attacker who can reset connections can force \
                              this; a root that begins with https:// cannot be changed to http";

/// Renders the first lines: how the crawl ended, how long it took, how much it fetched.
pub fn headline(report: &CrawlReport) -> String {
    let mut text = String::new();
    let verb = match report.end {
        _ if report.is_running => "Still running",
        end => end_words(end),
    };
    let hosts = report.hosts.values().filter(|totals| totals.pages > 0).count() as u64;
    // Hosts beyond the limit of `report.hosts` are not counted separately.
    let more_than = if report.other_hosts.pages > 0 { "more than " } else { "" };
    let _ = writeln!(
        text,
        "{verb} after {}: {} from {more_than}{}, {}, {} pages/s",
        wording::span(report.elapsed),
        wording::plural(report.pages, "page"),
        wording::plural(hosts, "host"),
        wording::bytes(report.bytes_wire),
        wording::rate(report.pages_per_second()),
    );
    if report.queued > 0 {
        let _ = writeln!(text, "{} still queued", wording::plural(report.queued, "URL"));
    }
    text
}

/// Why a crawl ended.
pub fn end_words(end: End) -> &'static str {
    match end {
        End::Finished => "Finished",
        End::MaxPages => "Stopped at the page limit",
        End::MaxBytes => "Stopped at the byte limit",
        End::MaxTime => "Stopped at the time limit",
        End::MaxDisk => "Stopped at the disk limit",
        End::MaxMemory => "Stopped at the memory limit",
        End::Stopped => "Stopped on request",
        _ => "Interrupted",
    }
}

/// A status with its reason phrase.
pub fn with_phrase(status: u16) -> String {
    format!("{status} {}", wording::reason_phrase(status)).trim_end().to_owned()
}

/// Describes why a link is broken.
pub fn reason_words(reason: &BrokenReason) -> String {
    match reason {
        BrokenReason::Status(status) => with_phrase(*status),
        BrokenReason::Failure(failure) => {
            let words = wording::failure(failure.kind);
            // A message with the same text adds nothing.
            let message = failure.advised(wording::advice);
            if message.is_empty() || message == words {
                words.to_owned()
            } else {
                format!("{words} ({})", visible(&message))
            }
        }
    }
}
