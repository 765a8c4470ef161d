//! [`RunFacts`]: which site was crawled, when, with which settings, and by which version.

use std::borrow::Cow;

use argiope_core::crawl::rules::Config;
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_store::disk::HistoryEvent;
use serde_json::Value;

use crate::records::{self, ReadError};
use crate::results::Results;

/// Maximum number of roots that are named.
const MAX_NAMED: usize = 3;

/// Facts of the latest round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// The hosts of the roots; empty if they are not known.
    pub site: String,
    /// When the first run of the round started.
    pub started: Option<String>,
    /// The version of Argiope of the last run.
    pub version: Option<String>,
    /// The settings of the last run that differ from the defaults, as flags.
    pub settings: Vec<String>,
}

impl RunFacts {
    /// Reads the `run` records of a crawl directory.
    pub fn of(results: &Results) -> Result<Self, ReadError> {
        let mut facts = Self::default();
        results.walk(|event| {
            match event {
                HistoryEvent::Round => facts.started = None,
                HistoryEvent::Line { line } => facts.add(line),
                _ => {}
            }
            Ok(())
        })?;
        Ok(facts)
    }

    /// Applies the first record of a run; others have no settings.
    fn add(&mut self, line: &[u8]) {
        let Some(run) = RunRecord::read(line) else { return };
        let Some(config) = records::settings_of(&run) else { return };
        self.started = self.started.take().or(run.started.map(Cow::into_owned));
        self.version = run.version.map(Cow::into_owned);
        self.site = site(config.roots.iter().map(String::as_str));
        self.settings = changed_settings(&config);
    }
}

/// The hosts of the roots: each once, the first few by name.
pub fn site<'a>(roots: impl IntoIterator<Item = &'a str>) -> String {
    let mut hosts: Vec<&str> = Vec::new();
    for root in roots {
        let host = root.split_once("://").map_or(root, |(_, rest)| rest);
        let host = host.split(['/', '?', '#']).next().unwrap_or(host);
        let host = host.rsplit('@').next().unwrap_or(host);
        if !hosts.contains(&host) {
            hosts.push(host);
        }
        if hosts.len() > MAX_NAMED {
            break;
        }
    }
    let more = if hosts.len() > MAX_NAMED { " and others" } else { "" };
    hosts.truncate(MAX_NAMED);
    format!("{}{more}", hosts.join(", "))
}

/// The settings whose values are paths of the machine. A report is for other people.
const PATHS: &[&str] = &["out", "jsonl", "cookies", "extract-file", "ca-cert", "cert", "key"];

/// The settings that differ from the defaults, as flags, without paths. Stored settings have no secrets.
fn changed_settings(config: &Config) -> Vec<String> {
    let map = |config: &Config| match serde_json::to_value(config) {
        Ok(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let defaults = map(&Config::default());
    let is_shown = |name: &str| name != "roots" && !PATHS.contains(&name);
    let is_changed = |name: &str, value: &Value| is_shown(name) && defaults.get(name) != Some(value);
    map(config).iter().filter(|(name, value)| is_changed(name, value)).map(|(name, value)| flag(name, value)).collect()
}

fn flag(name: &str, value: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    match value {
        Value::Bool(true) => format!("--{name}"),
        Value::Array(values) => {
            values.iter().map(|value| format!("--{name} {}", text(value))).collect::<Vec<_>>().join(" ")
        }
        value => format!("--{name} {}", text(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_site_and_the_changed_settings_are_named() {
        let roots = ["https://user@h.example/a", "http://h.example:81/", "i.example"].map(str::to_owned);
        assert_eq!(site(roots.iter().map(String::as_str)), "h.example, h.example:81, i.example");
        let config = Config { depth: Some(2), assets: true, ..Config::default() };
        assert_eq!(changed_settings(&config), ["--assets", "--depth 2"]);
        assert!(changed_settings(&Config::default()).is_empty());
    }

    #[test]
    fn paths_of_the_machine_are_not_named() {
        let values: serde_json::Map<String, Value> =
            PATHS.iter().map(|name| ((*name).into(), "/home/me/x".into())).collect();
        let config: Config = serde_json::from_value(values.into()).expect("settings");
        assert!(changed_settings(&config).is_empty());
    }
}
