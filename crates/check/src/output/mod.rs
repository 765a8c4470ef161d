//! The formats in which findings are written.
//!
//! Control characters and the special characters of each format are escaped, so that text from pages cannot become markup.

mod github;
mod json;
mod junit;
mod markdown;
mod sarif;
mod text;

pub use github::annotations;
pub use json::{document as json_document, lines as json_lines};
pub use junit::junit;
pub use markdown::markdown;
pub use sarif::sarif;
pub use text::{TextOptions, summary_line, text};

use crate::finding::{CheckReport, LinkFinding, Occurrence};

/// Maximum number of places that are shown of a target. Machine-readable formats have all.
const MAX_PLACES: usize = 3;

/// A place: the page, with line and column if they are known.
fn place(on: &Occurrence) -> String {
    if on.line == 0 { on.page.clone() } else { format!("{}:{}:{}", on.page, on.line, on.column) }
}

/// How many places are not shown, if there are any.
fn more_places(count: usize, shown: usize) -> Option<String> {
    let more = count.saturating_sub(shown);
    (more > 0).then(|| format!("and {more} more place{}", if more == 1 { "" } else { "s" }))
}

/// The message of a finding, in one line.
fn message(finding: &LinkFinding) -> String {
    let LinkFinding { url, fault, .. } = finding;
    let suggestion = fault.suggestion.as_ref().map(|suggestion| format!("; {suggestion}")).unwrap_or_default();
    format!("{url}: {}{suggestion}", fault.message)
}

/// The findings by page, in the order of the first finding of each page; within a page, by line and column.
fn findings_by_page(report: &CheckReport) -> Vec<(&str, Vec<(&Occurrence, &LinkFinding)>)> {
    let mut pages: Vec<(&str, Vec<(&Occurrence, &LinkFinding)>)> = Vec::new();
    let mut index = std::collections::HashMap::new();
    for finding in &report.findings {
        for on in &finding.on {
            let position = *index.entry(on.page.as_str()).or_insert_with(|| {
                pages.push((on.page.as_str(), Vec::new()));
                pages.len() - 1
            });
            if let Some((_, list)) = pages.get_mut(position) {
                list.push((on, finding));
            }
        }
    }
    for (_, list) in &mut pages {
        list.sort_by_key(|(on, _)| (on.line, on.column));
    }
    pages
}
