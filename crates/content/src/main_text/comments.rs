//! Class names of comments: the weakest evidence.

use argiope_core::page::page_budget::PageBudget;

use super::measure::Measure;
use crate::document::{Document, Element, names};

/// A page with more characters beside its comments has content of its own.
const MAX_BESIDE_COMMENTS: u32 = 1_000;
/// Fewer elements are not what a page consists of.
const MIN_COMMENTS: u32 = 3;

/// What the elements of a page are whose class names a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comments {
    /// Comments of readers, which are not content.
    AreNot,
    /// Nearly everything that the page says, as on pages that are made from comments in source code.
    AreContent,
}

impl Comments {
    pub(super) fn of(page: &Document, measure: &Measure, budget: &PageBudget) -> Self {
        let (mut within, mut end, mut count) = (0u32, 0, 0);
        let mut is_after_heading = false;
        for element in page.elements() {
            if !budget.visit() || !budget.spend(element.source_len()) {
                break;
            }
            // A wrapper of the page that has the word stands before the heading.
            is_after_heading |= element.name_id() == names::H1;
            let is_named = element.raw_attribute("class").is_some_and(|class| class.contains("comment"));
            if is_list(element) {
                return Self::AreNot;
            }
            if is_after_heading && element.node >= end && is_named {
                count += 1;
                within = within.saturating_add(measure.prose(element));
                end = element.end();
            }
        }
        let rest = measure.prose(page.root()).saturating_sub(within);
        if count >= MIN_COMMENTS && rest < MAX_BESIDE_COMMENTS && rest * 3 < within {
            Self::AreContent
        } else {
            Self::AreNot
        }
    }
}

/// Whether an element is the list of the comments of readers, by the names that blog programs give to it.
fn is_list(element: Element<'_>) -> bool {
    let is_name =
        |word: &str| matches!(word, "comments" | "comment-list" | "commentlist" | "comments-area" | "respond");
    let class = element.raw_attribute("class").unwrap_or_default();
    element.raw_attribute("id").is_some_and(is_name) || class.split_ascii_whitespace().take(8).any(is_name)
}
