//! The two `run` records: the settings of a crawl, and how it ended.

use std::time::Duration;

use argiope_core::base::escape::json_line;
use argiope_core::crawl::schedule::keeper::{Changes, End};
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_core::crawl::schedule::trap::Cut;
use serde::Serialize;
use serde_json::Value;

use argiope_core::crawl::status::OutcomeCounts;

/// The first line, with its line feed. `settings` is the [`Config`](argiope_core::crawl::rules::Config), which does not
/// serialize secrets, or a structure that contains it. `started` is the wall-clock time, as in page records.
pub fn first(settings: &impl Serialize, started: &str) -> Vec<u8> {
    // This cannot fail, because the settings are plain data with text keys.
    let settings = serde_json::to_value(settings).ok().and_then(|settings| match settings {
        Value::Object(settings) => Some(settings),
        _ => None,
    });
    let (version, started) = (Some(env!("CARGO_PKG_VERSION").into()), Some(started.into()));
    json_line(&RunRecord { version, started, settings, ..RunRecord::new() })
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
    json_line(&RunRecord {
        reason: Some(end.as_str().into()),
        outcomes: Some(outcomes.iter().map(|(outcome, count)| (outcome.to_string(), count.into())).collect()),
        queued: Some(queued),
        bytes_wire: Some(bytes_wire),
        seconds: Some((elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0),
        changes,
        traps,
        ..RunRecord::new()
    })
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
