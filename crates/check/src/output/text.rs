//! Plain text: findings grouped by target, each with some of its places.

use std::fmt::Write as _;

use argiope_core::base::escape::visible;

use super::{MAX_PLACES, more_places, place};
use crate::finding::{CheckReport, CheckSummary, LinkFinding, Verdict};

/// Maximum lines of a short list: a screen or two.
const MAX_LINES: usize = 50;

/// How the findings are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    pub coloured: bool,
    /// All targets with all places, not only the first ones.
    pub all: bool,
    /// How the user sees all targets, for the end of a list that is cut.
    pub all_hint: &'static str,
}

/// The escape sequence that begins each style, and `plain`, which ends it; empty without colours.
struct Style {
    broken: &'static str,
    unknown: &'static str,
    faint: &'static str,
    plain: &'static str,
}

const COLOURED: Style = Style { broken: "\x1b[31m", unknown: "\x1b[33m", faint: "\x1b[2m", plain: "\x1b[0m" };
const PLAIN: Style = Style { broken: "", unknown: "", faint: "", plain: "" };

/// The findings grouped by target, broken ones first, without the summary.
pub fn text(report: &CheckReport, options: TextOptions) -> String {
    let style = if options.coloured { COLOURED } else { PLAIN };
    let mut findings: Vec<&LinkFinding> = report.shown_findings().collect();
    findings.sort_by_key(|finding| finding.fault.verdict);
    let (mut out, mut lines) = (String::new(), 0);
    for (index, finding) in findings.iter().enumerate() {
        if lines >= MAX_LINES && !options.all {
            let rest = findings.get(index..).unwrap_or_default();
            let places: usize = rest.iter().map(|finding| finding.on.len()).sum();
            let (targets, places) = (plural(rest.len() as u64, "target"), plural(places as u64, "place"));
            let _ = writeln!(out, "... and {targets} more ({places}){}", options.all_hint);
            break;
        }
        let start = out.len();
        write_finding(&mut out, &style, finding, if options.all { usize::MAX } else { MAX_PLACES });
        lines += out.get(start..).unwrap_or_default().lines().count();
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Writes a target and its first places.
fn write_finding(out: &mut String, style: &Style, finding: &LinkFinding, max_places: usize) {
    let LinkFinding { url, fault, on } = finding;
    let colour = if fault.verdict == Verdict::Broken { style.broken } else { style.unknown };
    let (verdict, message) = (fault.verdict.as_str(), visible(&fault.message));
    let _ = write!(out, "{colour}{verdict:<7}{} {}  {message}", style.plain, visible(url));
    let _ = if on.len() > 1 { writeln!(out, "  ({} places)", on.len()) } else { writeln!(out) };
    for on in on.iter().take(max_places) {
        let _ = write!(out, "        {}", visible(&place(on)));
        if !on.text.is_empty() {
            let _ = write!(out, "  {}\"{}\"{}", style.faint, visible(&on.text), style.plain);
        }
        out.push('\n');
    }
    if let Some(more) = more_places(on.len(), max_places) {
        let _ = writeln!(out, "        {more}");
    }
    if let Some(suggestion) = &fault.suggestion {
        let _ = writeln!(out, "        {}{}{}", style.faint, visible(suggestion), style.plain);
    }
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The totals in one line.
pub fn summary_line(summary: &CheckSummary) -> String {
    let mut line = format!("{}, {}", plural(summary.pages, "page"), plural(summary.links, "link"));
    if summary.external > 0 {
        let _ = write!(line, ", {} requested", plural(summary.external, "external URL"));
    }
    for (count, what) in [
        (summary.cached, "cached"),
        (summary.not_checked, "not checked"),
        (summary.ignored, "ignored"),
        (summary.over_limits, "over the limits"),
    ] {
        if count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    let broken = targets_and_places(summary.broken, "broken", summary.broken_places);
    let unknown = targets_and_places(summary.unknown, "unknown", summary.unknown_places);
    let _ = write!(line, ": {broken}, {unknown}");
    let _ = write!(line, " ({}.{:02} s)", summary.milliseconds / 1000, summary.milliseconds % 1000 / 10);
    line
}

/// `0 broken`, or `2 broken targets in 5 places`.
fn targets_and_places(targets: u64, verdict: &str, places: u64) -> String {
    if targets == 0 {
        return format!("0 {verdict}");
    }
    format!("{} in {}", plural(targets, &format!("{verdict} target")), plural(places, "place"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Fault, FaultKind, Occurrence};

    fn report(targets: usize, places: usize) -> CheckReport {
        let on = |number: usize| Occurrence { page: format!("p{number}.html"), line: 7, column: 2, text: "x".into() };
        let finding = |number: usize| LinkFinding {
            url: format!("gone{number}.html"),
            fault: Fault::broken(FaultKind::MissingFile, "no such file"),
            on: (0..places).map(on).collect(),
        };
        let mut report = CheckReport { findings: (0..targets).map(finding).collect(), ..CheckReport::default() };
        report.update_counts();
        report
    }

    #[test]
    fn a_target_is_shown_once_with_its_number_of_places_and_three_of_them() {
        let shown = text(&report(1, 527), TextOptions::default());
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.first(), Some(&"broken  gone0.html  no such file  (527 places)"));
        assert_eq!(lines.get(1), Some(&"        p0.html:7:2  \"x\""));
        assert_eq!(lines.get(4), Some(&"        and 524 more places"));
        assert_eq!(
            summary_line(&report(1, 527).summary),
            "0 pages, 0 links: 1 broken target in 527 places, 0 unknown (0.00 s)"
        );
    }

    #[test]
    fn a_long_list_is_cut_and_says_how_to_see_the_rest() {
        let options = TextOptions { all_hint: "; ask for all", ..TextOptions::default() };
        let shown = text(&report(1000, 5), options);
        assert!(shown.lines().count() <= MAX_LINES + 8, "{shown}");
        assert!(shown.ends_with("... and 990 targets more (4950 places); ask for all\n\n"), "{shown}");
        let all = text(&report(1000, 5), TextOptions { all: true, ..options });
        assert_eq!(all.matches("p4.html:7:2").count(), 1000);
    }
}
