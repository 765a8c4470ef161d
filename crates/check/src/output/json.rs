//! JSON: one document, or one finding a line.

use serde_json::{Map, Value, json};

use crate::finding::{CheckReport, CheckSummary, LinkFinding};

/// One document `{"findings":[...],"summary":{...}}`.
pub fn document(report: &CheckReport) -> Value {
    let findings: Vec<Value> = report.findings.iter().map(finding).collect();
    json!({ "findings": findings, "summary": summary(&report.summary), "notes": report.notes })
}

/// One finding a line.
pub fn lines(report: &CheckReport) -> impl Iterator<Item = Value> {
    report.findings.iter().map(finding)
}

fn finding(finding: &LinkFinding) -> Value {
    let mut object = Map::new();
    let fault = &finding.fault;
    object.insert("type".into(), fault.verdict.as_str().into());
    object.insert("url".into(), finding.url.as_str().into());
    object.insert("kind".into(), fault.kind.as_str().into());
    if let Some(status) = fault.status {
        object.insert("status".into(), status.into());
    }
    object.insert("message".into(), fault.message.as_str().into());
    if let Some(suggestion) = &fault.suggestion {
        object.insert("suggestion".into(), suggestion.as_str().into());
    }
    let on: Vec<Value> = finding
        .on
        .iter()
        .map(|on| json!({ "page": on.page, "line": on.line, "column": on.column, "text": on.text }))
        .collect();
    object.insert("on".into(), on.into());
    object.into()
}

fn summary(summary: &CheckSummary) -> Value {
    json!({
        "pages": summary.pages,
        "links": summary.links,
        "not_checked": summary.not_checked,
        "ignored": summary.ignored,
        "external": summary.external,
        "broken": summary.broken,
        "unknown": summary.unknown,
        "milliseconds": summary.milliseconds,
    })
}
