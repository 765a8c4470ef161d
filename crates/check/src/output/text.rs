//! Plain text: findings grouped by page.

use std::fmt::Write as _;

use argiope_core::output::escape::visible;

use super::findings_by_page;
use crate::finding::{CheckReport, CheckSummary, LinkFinding, Occurrence, Verdict};

/// The escape sequence that begins each style, and `plain`, which ends it; empty without colours.
struct Style {
    page: &'static str,
    broken: &'static str,
    unknown: &'static str,
    faint: &'static str,
    plain: &'static str,
}

const COLOURED: Style =
    Style { page: "\x1b[1m", broken: "\x1b[31m", unknown: "\x1b[33m", faint: "\x1b[2m", plain: "\x1b[0m" };
const PLAIN: Style = Style { page: "", broken: "", unknown: "", faint: "", plain: "" };

/// The findings grouped by page, without the summary.
pub fn text(report: &CheckReport, coloured: bool) -> String {
    let style = if coloured { COLOURED } else { PLAIN };
    let mut out = String::new();
    for (page, list) in findings_by_page(report) {
        let _ = writeln!(out, "{}{}{}", style.page, visible(page), style.plain);
        for (on, finding) in list {
            write_line(&mut out, &style, on, finding);
        }
        out.push('\n');
    }
    out
}

/// Writes one occurrence of a finding.
fn write_line(out: &mut String, style: &Style, on: &Occurrence, LinkFinding { url, fault, .. }: &LinkFinding) {
    let colour = if fault.verdict == Verdict::Broken { style.broken } else { style.unknown };
    let position = if on.line > 0 { format!("{}:{}", on.line, on.column) } else { "-".to_owned() };
    let _ = write!(out, "  {position:<8} {colour}{:<7}{} {}", fault.verdict.as_str(), style.plain, visible(url));
    let _ = write!(out, "  {}", visible(&fault.message));
    if !on.text.is_empty() {
        let _ = write!(out, "  {}\"{}\"{}", style.faint, visible(&on.text), style.plain);
    }
    out.push('\n');
    if let Some(suggestion) = &fault.suggestion {
        let _ = writeln!(out, "           {}{}{}", style.faint, visible(suggestion), style.plain);
    }
}

/// The totals in one line.
pub fn summary_line(summary: &CheckSummary) -> String {
    let plural = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut line = format!("{}, {}", plural(summary.pages, "page"), plural(summary.links, "link"));
    if summary.external > 0 {
        let _ = write!(line, ", {} requested", plural(summary.external, "external URL"));
    }
    for (count, what) in
        [(summary.cached, "cached"), (summary.not_checked, "not checked"), (summary.ignored, "ignored")]
    {
        if count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    let _ = write!(line, ": {} broken, {} unknown", summary.broken, summary.unknown);
    let _ = write!(line, " ({}.{:02} s)", summary.milliseconds / 1000, summary.milliseconds % 1000 / 10);
    line
}
