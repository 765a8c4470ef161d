//! GitHub Actions annotations: GitHub shows the findings next to the lines of a pull request.

use std::fmt::Write as _;

use argiope_core::output::escape::visible;

use super::{findings_by_page, message};
use crate::finding::{CheckReport, Verdict};
use crate::target::scheme;
use crate::web::LIST_NAME;

/// One workflow command for each occurrence.
pub fn annotations(report: &CheckReport) -> String {
    let mut out = String::new();
    for (page, list) in findings_by_page(report) {
        for (on, finding) in list {
            let (level, title) = match finding.fault.verdict {
                Verdict::Broken => ("error", "Broken link"),
                Verdict::Unknown => ("warning", "Link could not be checked"),
            };
            let text = visible(&message(finding)).into_owned();
            // Only files can be annotated. For the page of a site and for a list of URLs, the message contains the name.
            let _ = if scheme(page).is_some() || page == LIST_NAME {
                writeln!(out, "::{level} title={title}::{}", escape(&format!("{}: {text}", visible(page))))
            } else {
                let (file, line, column) = (escape_property(&visible(page)), on.line, on.column);
                writeln!(out, "::{level} file={file},line={line},col={column},title={title}::{}", escape(&text))
            };
        }
    }
    out
}

/// Escapes the text of a workflow command.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn escape_property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}
