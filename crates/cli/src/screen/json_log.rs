//! `--log-json`: messages on standard error as JSON, one object per line.
//!
//! Invariant: a line is one JSON object whose field `log` names its kind. A line contains only printable characters; control
//! characters are written as `\u` escapes.

use crate::report::{CrawlReport, PageSummary};
use argiope_core::Outcome;
use argiope_core::crawl::status::{CrawlState, OutcomeCounts, Status};
use serde_json::{Map, Value, json};

use argiope_core::base::escape;

/// A message for the user. `kind` is `note`, `warning` or `error`.
pub fn message(kind: &str, text: &str) -> String {
    line(&json!({ "log": kind, "message": text }))
}

/// The current state of the crawl.
pub fn progress(status: &Status) -> String {
    line(&json!({
        "log": "progress",
        "seconds": tenths(status.elapsed.as_secs_f64()),
        "pages": status.pages,
        "pages_per_second": tenths(status.pages_per_second),
        "bytes": status.bytes,
        "bytes_per_second": status.bytes_per_second.round(),
        "in_flight": status.in_flight,
        "queued": status.queued,
        "hosts": status.hosts,
        "outcomes": outcomes(&status.outcomes),
        "draining": status.state == CrawlState::Draining,
        "paused": status.state == CrawlState::Paused,
    }))
}

/// One page (`-v`).
pub fn page(page: &PageSummary<'_>) -> String {
    let mut object = Map::new();
    object.insert("log".into(), "page".into());
    object.insert("url".into(), page.url.into());
    object.insert("outcome".into(), page.outcome.to_string().into());
    if let Some(status) = page.status {
        object.insert("status".into(), status.into());
    }
    if let Some(error) = page.error {
        object.insert("error".into(), json!({ "kind": error.kind.to_string(), "message": error.message }));
    }
    if let Some(to) = page.redirect {
        object.insert("redirect".into(), to.into());
    }
    line(&Value::Object(object))
}

/// A link that is not followed (`-vv`).
pub fn skip(url: &str, reason: &str, via: &str) -> String {
    line(&json!({ "log": "skip", "url": url, "reason": reason, "via": via }))
}

/// The figures of the final report.
pub fn summary(report: &CrawlReport) -> String {
    let statuses: Map<String, Value> =
        report.statuses.iter().map(|(status, count)| (status.to_string(), (*count).into())).collect();
    let failures: Map<String, Value> =
        report.failures.iter().map(|(kind, group)| (kind.to_string(), group.count.into())).collect();
    line(&json!({
        "log": "summary",
        "reason": report.end.as_str(),
        "seconds": tenths(report.elapsed.as_secs_f64()),
        "pages": report.pages,
        "outcomes": outcomes(&report.outcomes),
        "statuses": statuses,
        "errors": failures,
        "broken": report.broken_total,
        "retries": report.retries,
        "bytes": report.bytes_wire,
        "queued": report.queued,
    }))
}

fn outcomes(outcomes: &OutcomeCounts) -> Value {
    Outcome::ALL.iter().map(|outcome| (outcome.to_string(), Value::from(outcomes.get(*outcome)))).collect()
}

/// Rounds to one decimal digit.
fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn line(object: &Value) -> String {
    let mut line = Vec::new();
    // Writing to memory cannot fail, and the output is UTF-8.
    let _ = escape::write_json(&mut line, object);
    String::from_utf8(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_can_be_read_back() {
        let text = "a\u{1b}[31m\n\u{9b}0m gpj.\u{202e}exe \u{e0001} é 日本";
        let line = message("note", text);
        assert!(!line.chars().any(escape::is_unsafe_char), "{line:?}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&read["log"], &read["message"]), (&"note".into(), &text.into()));
    }

    #[test]
    fn progress_has_a_count_for_every_outcome() {
        let read: Value = serde_json::from_str(&progress(&Status::default())).unwrap();
        for outcome in Outcome::ALL {
            assert_eq!(read["outcomes"][outcome.to_string()], 0, "{outcome}");
        }
        assert_eq!((&read["log"], &read["pages"]), (&"progress".into(), &0.into()));
    }

    #[test]
    fn pages_are_the_urls_that_were_requested() {
        let outcomes = || Outcome::ALL.iter().map(|outcome| (*outcome, 1)).collect();
        let status = Status { pages: 4, outcomes: outcomes(), ..Status::default() };
        let mut report = CrawlReport::default();
        (report.pages, report.outcomes) = (4, outcomes());
        // Of the URLs with the seven outcomes, three were not requested: forbidden, refused, of an unreachable host.
        for line in [progress(&status), summary(&report)] {
            let read: Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&read["pages"], &read["outcomes"]["robots"]), (&4.into(), &1.into()), "{line}");
        }
    }
}
