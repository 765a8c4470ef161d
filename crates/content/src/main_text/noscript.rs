//! The content for readers without scripts.

use argiope_core::page::page_budget::PageBudget;

use crate::document::{Element, TEXT};

/// A `noscript` element with fewer bytes of text is not content.
const MIN_NOSCRIPT: usize = 400;

/// Whether a `noscript` element has only a hint or a picture. A longer one has the content for readers without scripts.
pub(super) fn is_short_noscript(element: Element<'_>, budget: &PageBudget) -> bool {
    let page = element.document;
    let mut length = 0;
    for id in element.node + 1..element.end() {
        let Some(node) = page.node(id).filter(|_| budget.visit()) else { break };
        if node.name == TEXT {
            let text = page.raw_text(node).trim();
            // A page that was saved by a browser has its markup as text.
            length += if text.starts_with('<') || text.starts_with("&lt;") { 0 } else { text.len() };
        }
        if length >= MIN_NOSCRIPT {
            return false;
        }
    }
    true
}
