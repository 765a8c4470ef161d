//! Markdown, for comments on pull requests and job summaries.

use std::fmt::Write as _;

use argiope_core::output::escape::markdown_text;

use super::{findings_by_page, summary_line};
use crate::finding::{CheckReport, Verdict};

/// Maximum number of findings listed, because GitHub rejects long comments.
const MAX_LISTED: usize = 500;

/// The findings as one table for each page.
pub fn markdown(report: &CheckReport) -> String {
    let mut out = String::from("# Links\n\n");
    let _ = writeln!(out, "{}", summary_line(&report.summary));
    let mut listed = 0;
    let mut omitted = 0;
    for (page, list) in findings_by_page(report) {
        if listed >= MAX_LISTED {
            omitted += list.len();
            continue;
        }
        let _ = write!(out, "\n## {}\n\n| line | link | text | problem |\n|---|---|---|---|\n", markdown_text(page));
        for (on, finding) in list {
            if listed >= MAX_LISTED {
                omitted += 1;
                continue;
            }
            listed += 1;
            let fault = &finding.fault;
            let suggestion = fault.suggestion.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
            let verdict = if fault.verdict == Verdict::Unknown { "unknown: " } else { "" };
            let problem = markdown_text(&format!("{verdict}{}{suggestion}", fault.message));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {problem} |",
                on.line,
                markdown_text(&finding.url),
                markdown_text(&on.text)
            );
        }
    }
    if omitted > 0 {
        let _ = writeln!(out, "\n... and {omitted} more; --format json lists all");
    }
    out
}
