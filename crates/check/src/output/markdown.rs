//! Markdown, for comments on pull requests and job summaries.

use std::fmt::Write as _;

use argiope_core::base::escape::{markdown_text, visible};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{MAX_PLACES, more_places, place, summary_line};
use crate::finding::{CheckReport, LinkFinding, Occurrence, Verdict};
use crate::target::scheme;

/// Maximum number of findings listed, because GitHub rejects long comments.
const MAX_LISTED: usize = 500;
/// Characters that could end the destination of a link or a cell of a table.
const DESTINATION: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'`').add(b'|');

/// The findings as one table, with a row for each target.
pub fn markdown(report: &CheckReport) -> String {
    let mut out = String::from("# Links\n\n");
    let _ = writeln!(out, "{}", summary_line(&report.summary));
    let shown: Vec<&LinkFinding> = report.shown_findings().collect();
    if !shown.is_empty() {
        out.push_str("\n| link | problem | places |\n|---|---|---|\n");
    }
    for finding in shown.iter().take(MAX_LISTED) {
        write_row(&mut out, finding);
    }
    let omitted = shown.len().saturating_sub(MAX_LISTED);
    if omitted > 0 {
        let _ = writeln!(out, "\n... and {omitted} more; the report as JSON lists all");
    }
    out
}

fn write_row(out: &mut String, LinkFinding { url, fault, on }: &LinkFinding) {
    let suggestion = fault.suggestion.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
    let verdict = if fault.verdict == Verdict::Unknown { "unknown: " } else { "" };
    let problem = markdown_text(&format!("{verdict}{}{suggestion}", fault.message));
    let mut places: Vec<String> = on.iter().take(MAX_PLACES).map(place_cell).collect();
    places.extend(more_places(on.len(), MAX_PLACES));
    let _ = writeln!(out, "| {} | {problem} | {} |", link(url, url), places.join("<br>"));
}

/// A place with the text of the link.
fn place_cell(on: &Occurrence) -> String {
    let text = if on.text.is_empty() { String::new() } else { format!(" {}", markdown_text(&on.text)) };
    format!("{}{text}", link(&place(on), &on.page))
}

/// A link that can be followed, if the address is on the web; otherwise the text.
fn link(text: &str, address: &str) -> String {
    let is_web =
        scheme(address).is_some_and(|scheme| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)));
    let text = markdown_text(text);
    if !is_web {
        return text;
    }
    // `visible` replaces invisible characters, which could hide where the link leads.
    format!("[{text}](<{}>)", utf8_percent_encode(&visible(address), DESTINATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_addresses_are_links_and_nothing_else_is() {
        assert_eq!(
            link("https://h.example/a_b", "https://h.example/a_b"),
            "[https:&#47;/h.example/a\\_b](<https://h.example/a_b>)"
        );
        assert_eq!(link("x", "http://h.example/>|\n"), "[x](<http://h.example/%3E%7C%5Cn>)");
        for plain in ["docs/a.md", "javascript:alert(1)", "mailto:a", "-"] {
            assert_eq!(link(plain, plain), markdown_text(plain));
        }
    }
}
