//! JSON: one document, or one finding per line.

use serde::Serialize;

use crate::finding::{CheckReport, CheckSummary, LinkFinding, Occurrence};

/// One document `{"findings":[...],"summary":{...}}`, with `notes` if there are any.
pub fn document(report: &CheckReport) -> impl Serialize + '_ {
    JsonReport { findings: lines(report).collect(), summary: &report.summary, notes: &report.notes }
}

/// The findings, each to be written as one line.
pub fn lines(report: &CheckReport) -> impl Iterator<Item = impl Serialize + '_> {
    report.findings.iter().map(JsonFinding::of)
}

#[derive(Serialize)]
struct JsonReport<'a, F> {
    findings: Vec<F>,
    summary: &'a CheckSummary,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

/// The fields are in the order of the documentation.
#[derive(Serialize)]
struct JsonFinding<'a> {
    #[serde(rename = "type")]
    verdict: &'static str,
    url: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<&'a str>,
    on: &'a [Occurrence],
}

impl<'a> JsonFinding<'a> {
    fn of(LinkFinding { url, fault, on }: &'a LinkFinding) -> Self {
        Self {
            verdict: fault.verdict.as_str(),
            url,
            kind: fault.kind.as_str(),
            status: fault.status,
            message: &fault.message,
            suggestion: fault.suggestion.as_deref(),
            on,
        }
    }
}
