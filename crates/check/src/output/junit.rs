//! JUnit XML: one suite per page with findings, for CI systems that show test results.

use std::fmt::Write as _;

use argiope_core::base::escape::{visible, write_markup_text};

use super::{findings_by_page, message};
use crate::finding::{CheckReport, Verdict};

/// Broken links become failures, unknown ones skipped tests. Without findings, one passing test is written.
pub fn junit(report: &CheckReport) -> String {
    let pages = findings_by_page(report);
    let count = |verdict: Verdict| {
        pages.iter().flat_map(|(_, list)| list).filter(|(_, finding)| finding.fault.verdict == verdict).count()
    };
    let (failures, skipped) = (count(Verdict::Broken), count(Verdict::Unknown));
    let seconds = seconds(report);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let tests = (failures + skipped).max(1);
    let _ = writeln!(
        out,
        "<testsuites name=\"argiope check\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\" time=\"{seconds}\">"
    );
    if pages.is_empty() {
        let links = report.summary.links;
        let _ =
            writeln!(out, "  <testsuite name=\"links\" tests=\"1\" failures=\"0\" skipped=\"0\" time=\"{seconds}\">");
        let _ = writeln!(out, "    <testcase classname=\"links\" name=\"{links} links are good\"/>\n  </testsuite>");
    }
    for (page, list) in pages {
        let failures = list.iter().filter(|(_, finding)| finding.fault.verdict == Verdict::Broken).count();
        let (page, tests, skipped) = (escape(page), list.len(), list.len() - failures);
        let _ = writeln!(
            out,
            "  <testsuite name=\"{page}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\">"
        );
        for (on, finding) in list {
            let name = format!("{}:{} {}", on.line, on.column, finding.url);
            let _ = writeln!(out, "    <testcase classname=\"{page}\" name=\"{}\">", escape(&name));
            let (text, kind) = (escape(&message(finding)), finding.fault.kind);
            let _ = match finding.fault.verdict {
                Verdict::Broken => writeln!(out, "      <failure type=\"{kind}\" message=\"{text}\"/>"),
                Verdict::Unknown => writeln!(out, "      <skipped message=\"{text}\"/>"),
            };
            out.push_str("    </testcase>\n");
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// The duration of the check in seconds.
fn seconds(report: &CheckReport) -> String {
    let milliseconds = report.summary.milliseconds;
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// Escapes text for XML. Characters that act on a terminal are shown as in [`visible`].
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    // Writing to a string cannot fail.
    let _ = write_markup_text(&mut escaped, &visible(text), String::write_char);
    escaped
}
