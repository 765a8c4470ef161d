//! The result of a case: the records of the crawl, the requests that the servers received, and the program's messages.
//!
//! Records are JSON, as every crawl prints them (docs/records.md), so that a case does not need the crawler's types.

use super::Expect;
use crate::log::SeenRequest;
use serde_json::Value;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// `Ok`, or a description of what is wrong.
pub type CaseVerdict = Result<(), String>;

/// `Ok` if the condition is true; otherwise this message as the error.
pub fn demand(condition: bool, message: impl Into<String>) -> CaseVerdict {
    if condition { Ok(()) } else { Err(message.into()) }
}

/// All facts about a finished crawl.
#[derive(Clone, Debug, Default)]
pub struct CaseReport {
    /// The records on standard output.
    pub records: Vec<Value>,
    /// Every request to the sites and raw servers of the case.
    pub requests: Vec<SeenRequest>,
    /// Every name that was looked up, once per query.
    pub queried_names: Vec<String>,
    /// The URLs that the expectation applies to.
    pub judged: Vec<String>,
    /// Standard error.
    pub stderr: String,
    /// The exit code.
    pub exit: Option<i32>,
    /// The crawl directory.
    pub directory: PathBuf,
    /// The program that crawled, for further commands.
    pub program: PathBuf,
}

impl CaseReport {
    /// The record of a URL: a page record if there is one, otherwise that of a robots.txt or sitemap.
    pub fn record(&self, url: &str) -> Option<&Value> {
        let with_type = |kind: &str| self.records.iter().find(|record| record["type"] == kind && record["url"] == url);
        with_type("page").or_else(|| with_type("aux"))
    }

    /// The record of the first judged URL; null if there is none.
    pub fn first_judged(&self) -> &Value {
        self.judged_records().next().unwrap_or(&Value::Null)
    }

    /// The records of all judged URLs, in order.
    pub fn judged_records(&self) -> impl Iterator<Item = &Value> {
        self.judged.iter().filter_map(|url| self.record(url))
    }

    /// All page records, including those of the control host, a well-behaved host that is crawled with every case.
    pub fn pages(&self) -> impl Iterator<Item = &Value> {
        self.records.iter().filter(|record| record["type"] == "page")
    }

    /// How often this path (with its query) was requested, on any site of the case.
    pub fn request_count(&self, path: &str) -> usize {
        self.requests.iter().filter(|request| request.path == path).count()
    }

    /// Runs another command of the program (`report`, `export`, ...) in the folder of the crawl directory.
    pub fn run(&self, arguments: &[&str]) -> std::io::Result<Output> {
        let folder = self.directory.parent().unwrap_or(&self.directory);
        Command::new(&self.program).args(arguments).current_dir(folder).stdin(Stdio::null()).output()
    }

    /// Whether this URL ended as expected.
    pub fn judge(&self, url: &str, expect: Expect) -> CaseVerdict {
        let Some(record) = self.record(url) else {
            return demand(expect == Expect::NotFetched, format!("{url} has no record"));
        };
        let outcome = record["outcome"].as_str().unwrap_or_default();
        let kind = record["error"]["kind"].as_str();
        let truncated = record["truncated"].as_str();
        let is_as_expected = match expect {
            Expect::Ok => outcome == "ok" && truncated.is_none(),
            Expect::Truncated(how, cause) => {
                outcome == "ok" && truncated == Some(how) && (cause.is_none() || cause == kind)
            }
            Expect::NotFetched => matches!(outcome, "robots" | "refused"),
            Expect::Error(expected) => matches!(outcome, "failed" | "redirect" | "refused") && kind == Some(expected),
            Expect::HttpErrorOrRedirect => matches!(outcome, "http_error" | "redirect"),
        };
        demand(is_as_expected, format!("not {expect}: {record}"))
    }
}

/// The decompressed content of all archive files, concatenated.
pub(super) fn archived(report: &CaseReport) -> Result<Vec<u8>, String> {
    let describe = |error: std::io::Error| format!("the archive: {error}");
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(report.directory.join("archive")).map_err(describe)? {
        let file = std::fs::File::open(entry.map_err(describe)?.path()).map_err(describe)?;
        flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).map_err(describe)?;
    }
    Ok(bytes)
}
