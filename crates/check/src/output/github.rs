//! GitHub Actions annotations: GitHub shows the findings next to the lines of a pull request.

use std::fmt::Write as _;

use argiope_core::base::escape::visible;

use super::{message, more_places};
use crate::finding::{CheckReport, LinkFinding, Occurrence, Verdict};
use crate::target::scheme;
use crate::web::LIST_NAME;

/// One workflow command for each target, at its first place in a file.
pub fn annotations(report: &CheckReport) -> String {
    let mut out = String::new();
    for finding in report.shown_findings() {
        let Some(on) = finding.on.iter().find(|on| is_file(on)).or(finding.on.first()) else { continue };
        let (level, title) = match finding.fault.verdict {
            Verdict::Broken => ("error", "Broken link"),
            Verdict::Unknown => ("warning", "Link could not be checked"),
        };
        let text = visible(&text(finding)).into_owned();
        // Only files can be annotated. For the page of a site and for a list of URLs, the message contains the name.
        let _ = if is_file(on) {
            // Lines and columns count from 1. A finding about a whole file has none.
            let (file, line, column) = (escape_property(&visible(&on.page)), on.line.max(1), on.column.max(1));
            writeln!(out, "::{level} file={file},line={line},col={column},title={title}::{}", escape(&text))
        } else {
            writeln!(out, "::{level} title={title}::{}", escape(&format!("{}: {text}", visible(&on.page))))
        };
    }
    out
}

/// The message, with the number of the other places.
fn text(finding: &LinkFinding) -> String {
    let more = more_places(finding.on.len(), 1).map(|more| format!(" ({more})")).unwrap_or_default();
    format!("{}{more}", message(finding))
}

fn is_file(on: &Occurrence) -> bool {
    scheme(&on.page).is_none() && on.page != LIST_NAME
}

/// Escapes the text of a workflow command.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn escape_property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}
