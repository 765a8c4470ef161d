//! The two `run` records: the settings of a crawl, and how it ended.

use std::time::Duration;

use argiope_core::base::escape::write_json;
use argiope_core::crawl::record::VERSION;
use argiope_core::crawl::schedule::keeper::{Changes, End};
use argiope_core::crawl::schedule::trap::Cut;
use serde::Serialize;

use argiope_core::crawl::status::OutcomeCounts;

/// The record at the start of a run.
#[derive(Serialize)]
struct First<'a, S> {
    /// The version of the record format.
    v: u8,
    r#type: &'static str,
    /// The version of Argiope.
    version: &'static str,
    started: &'a str,
    settings: &'a S,
}

/// The record at the end of a run.
#[derive(Serialize)]
struct Last {
    /// The version of the record format.
    v: u8,
    r#type: &'static str,
    reason: &'static str,
    outcomes: serde_json::Map<String, serde_json::Value>,
    queued: u64,
    bytes_wire: u64,
    seconds: f64,
    /// The changes since the last round (`--recrawl`).
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
    /// Places where links were skipped because of a trap.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traps: Vec<Cut>,
}

/// The first line, with its line feed. `settings` is the [`Config`](argiope_core::crawl::rules::Config), which does not
/// serialize secrets, or a structure that contains it. `started` is the wall-clock time, as in page records.
pub fn first(settings: &impl Serialize, started: &str) -> Vec<u8> {
    line(&First { v: VERSION, r#type: "run", version: env!("CARGO_PKG_VERSION"), started, settings })
}

/// The last line: outcomes, queued URLs, and why the run ended.
pub fn last(
    outcomes: &OutcomeCounts,
    queued: u64,
    bytes_wire: u64,
    end: End,
    elapsed: Duration,
    changes: Option<Changes>,
    traps: Vec<Cut>,
) -> Vec<u8> {
    line(&Last {
        v: VERSION,
        r#type: "run",
        reason: end.as_str(),
        outcomes: outcomes.iter().map(|(outcome, count)| (outcome.to_string(), count.into())).collect(),
        queued,
        bytes_wire,
        seconds: (elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0,
        changes,
        traps,
    })
}

/// Encodes a record as a line of JSON.
fn line(record: &impl Serialize) -> Vec<u8> {
    // This cannot fail, because the records are plain data with text keys.
    let mut line = Vec::new();
    let _ = write_json(&mut line, record);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use argiope_core::Outcome;
    use argiope_core::crawl::rules::Config;

    use super::*;

    #[test]
    fn the_first_line_holds_the_settings_without_secrets() {
        let config = Config {
            roots: vec!["https://h/".into()],
            user: Some("me:s3cret".parse().unwrap()),
            header: vec!["X-Key: s3cret".parse().unwrap()],
            ..Config::default()
        };
        let line = String::from_utf8(first(&config, "2026-01-02T03:04:05.678Z")).unwrap();
        assert!(!line.contains("s3cret"), "{line}");
        let line: serde_json::Value = serde_json::from_str(line.trim_end()).unwrap();
        assert_eq!(line["type"], "run");
        assert_eq!(line["settings"]["roots"][0], "https://h/");
        assert_eq!(line["settings"]["max-size"], "10M");
    }

    #[test]
    fn the_last_line_has_the_reason_of_the_end() {
        let outcomes = [(Outcome::Ok, 3), (Outcome::Robots, 1)].into_iter().collect();
        let line = last(&outcomes, 7, 1_000, End::MaxPages, Duration::from_micros(1_234_567), None, Vec::new());
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "{\"v\":1,\"type\":\"run\",\"reason\":\"max_pages\",\"outcomes\":{\"ok\":3,\"robots\":1},\
             \"queued\":7,\"bytes_wire\":1000,\"seconds\":1.235}\n"
        );
    }
}
