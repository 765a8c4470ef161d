//! Markdown, for comments on pull requests and job summaries.

use std::fmt::Write as _;

use argiope_core::output::escape::visible;

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
        let _ = write!(out, "\n## {}\n\n| line | link | text | problem |\n|---|---|---|---|\n", escape(page));
        for (on, finding) in list {
            if listed >= MAX_LISTED {
                omitted += 1;
                continue;
            }
            listed += 1;
            let fault = &finding.fault;
            let suggestion = fault.suggestion.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
            let verdict = if fault.verdict == Verdict::Unknown { "unknown: " } else { "" };
            let problem = escape(&format!("{verdict}{}{suggestion}", fault.message));
            let _ = writeln!(out, "| {} | {} | {} | {problem} |", on.line, escape(&finding.url), escape(&on.text));
        }
    }
    if omitted > 0 {
        let _ = writeln!(out, "\n... and {omitted} more; --format json lists all");
    }
    out
}

/// Text escaped so that Markdown shows it literally: no markup, no table borders, no HTML.
fn escape(text: &str) -> String {
    let mut shown = String::new();
    for c in visible(text).chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '!' | '#' | '~' => {
                shown.push('\\');
                shown.push(c);
            }
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            // Prevents user mentions and mail links.
            '@' => shown.push_str("&#64;"),
            c => shown.push(c),
        }
    }
    // Prevents links to bare URLs.
    shown.replace("://", ":&#47;/")
}
