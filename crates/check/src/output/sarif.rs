//! SARIF 2.1.0, for code scanning services.

use serde_json::{Value, json};

use super::{findings_by_page, message};
use crate::finding::{CheckReport, FaultKind, Verdict};
use crate::target::scheme;

/// One run with a result for each occurrence.
pub fn sarif(report: &CheckReport) -> Value {
    let rules: Vec<Value> = FaultKind::ALL
        .iter()
        .map(|kind| json!({ "id": kind.as_str(), "shortDescription": { "text": kind.description() } }))
        .collect();
    let mut results = Vec::new();
    for (page, list) in findings_by_page(report) {
        for (on, finding) in list {
            let level = if finding.fault.verdict == Verdict::Broken { "error" } else { "note" };
            results.push(json!({
                "ruleId": finding.fault.kind.as_str(),
                "level": level,
                "message": { "text": message(finding) },
                "locations": [{
                    "physicalLocation": {
                        "artifactLocation": { "uri": uri(page) },
                        "region": { "startLine": on.line.max(1), "startColumn": on.column.max(1) },
                    },
                }],
            }));
        }
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "argiope check",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// Paths are relative references and need encoding; URLs are URIs already.
fn uri(page: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    const PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b':');
    if scheme(page).is_some() { page.to_owned() } else { utf8_percent_encode(page, PATH).to_string() }
}
