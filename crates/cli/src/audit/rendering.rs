//! Findings about rendered pages: what differs between the response and the document that scripts make of it.

use argiope_core::crawl::render_facts::StaticFacts;

use super::{FindingId, Judge};
use crate::records::StoredRecord;
use crate::wording::plural;

/// The findings that need rendered pages.
pub(super) const FINDINGS: [FindingId; 5] = [
    FindingId::TitleByScript,
    FindingId::CanonicalByScript,
    FindingId::NoindexByScript,
    FindingId::LinksByScript,
    FindingId::TextByScript,
];

/// Text that scripts add is a finding from this number of words on. Fewer are a clock, a counter or a notice.
const MIN_WORDS: u64 = 20;

impl Judge<'_> {
    /// Compares a rendered page with its response. Pages without a rendered document are not judged.
    pub(super) fn judge_rendering(&mut self, record: &StoredRecord) {
        let Some(facts) = record.render.as_deref() else { return };
        let Some(before) = &facts.without_scripts else { return };
        let url = &*record.url;
        if let Some(detail) = difference(before.title.as_deref(), record.title.as_deref()) {
            self.add_finding(FindingId::TitleByScript, url, detail);
        }
        if let Some(detail) = difference(before.canonical.as_deref(), record.canonical.as_deref()) {
            self.add_finding(FindingId::CanonicalByScript, url, detail);
        }
        match (before.noindex, record.is_noindex()) {
            (false, true) => self.add_finding(FindingId::NoindexByScript, url, "added"),
            (true, false) => self.add_finding(FindingId::NoindexByScript, url, "removed"),
            _ => {}
        }
        let StaticFacts { links, words, .. } = before;
        if facts.links > 0 {
            let detail = format!("{} more than the {links} of the HTML", plural(u64::from(facts.links), "link"));
            self.add_finding(FindingId::LinksByScript, url, detail);
        }
        if facts.words >= MIN_WORDS {
            let detail = format!("{} more than the {words} of the HTML", plural(facts.words, "word"));
            self.add_finding(FindingId::TextByScript, url, detail);
        }
    }
}

/// How the rendered page differs from the response; `None` if it does not.
fn difference(before: Option<&str>, after: Option<&str>) -> Option<String> {
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map_or_else(|| "none".into(), quoted);
    (before.unwrap_or_default() != after.unwrap_or_default())
        .then(|| format!("{}, in the HTML {}", text(after), text(before)))
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
