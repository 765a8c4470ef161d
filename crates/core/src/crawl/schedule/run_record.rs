//! [`RunRecord`]: the records at the start and at the end of a run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::trap::Cut;
use crate::crawl::record::page_state::Changes;
use crate::crawl::record::{LazyRecord, VERSION};

/// The record of a run: its settings at the start, and how it went at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord<'a> {
    pub v: u8,
    pub r#type: Cow<'a, str>,
    /// At the start: the version of Argiope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Cow<'a, str>>,
    /// At the start: when the run started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Cow<'a, str>>,
    /// At the start: the settings, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
    /// At the end, as all that follows: why the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// The number of pages of each outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<Map<String, Value>>,
    /// The number of queued URLs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_wire: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The changes since the last round (`--recrawl`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Places where links were skipped because of a trap.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traps: Vec<Cut>,
}

impl RunRecord<'_> {
    /// A record of a run without further fields.
    pub fn new() -> Self {
        Self { v: VERSION, r#type: "run".into(), ..Self::default() }
    }

    /// Reads a record; `None` if it is not that of a run.
    pub fn read(record: &[u8]) -> Option<Self> {
        // The reader does not decode other records, which may be long.
        if LazyRecord::read(record)?.r#type() == "run" { serde_json::from_slice(record).ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::escape::json_line;

    #[test]
    fn only_the_records_of_runs_are_read() {
        let run = RunRecord { seconds: Some(1.5), ..RunRecord::new() };
        assert_eq!(RunRecord::read(&json_line(&run)), Some(run));
        assert_eq!(RunRecord::read(br#"{"type":"page","seconds":1.5}"#), None);
    }
}
