//! Sums over subtrees: characters, characters within links, and commas.

use argiope_core::page::page_budget::PageBudget;

use super::noscript::is_short_noscript;
use crate::document::{Document, Element, TEXT, names};

/// Prefix sums over the nodes of a page in document order. The sum over a subtree is the difference of two prefix sums.
pub(super) struct Measure {
    /// Numbers of characters.
    text: Vec<u32>,
    /// Numbers of characters within links.
    link_text: Vec<u32>,
    /// Numbers of commas.
    commas: Vec<u32>,
}

impl Measure {
    /// Computes the sums of a page. `removed` has one flag per node; the text of a flagged element is not counted. A
    /// missing flag counts as false.
    pub(super) fn of(page: &Document, removed: &[bool], budget: &PageBudget) -> Self {
        // Without a budget, all sums are zero.
        let count = if budget.hold(page.len() * 3 * size_of::<u32>()) { page.len() } else { 0 };
        let mut measure = Self {
            text: Vec::with_capacity(count + 1),
            link_text: Vec::with_capacity(count + 1),
            commas: Vec::with_capacity(count + 1),
        };
        let (mut text, mut link_text, mut commas) = (0u32, 0u32, 0u32);
        // The ends of the current link and of the current subtree that is not counted.
        let (mut link_end, mut skip_end) = (0u32, 0u32);
        for id in 0..count as u32 {
            measure.text.push(text);
            measure.link_text.push(link_text);
            measure.commas.push(commas);
            let Some(node) = page.node(id).filter(|_| budget.visit()) else { break };
            if id < skip_end {
                continue;
            }
            if node.name == TEXT {
                if !budget.spend(page.raw_text(node).len()) {
                    break;
                }
                let (length, found) = count_text(page.raw_text(node));
                text = text.saturating_add(length);
                commas = commas.saturating_add(found);
                if id < link_end {
                    link_text = link_text.saturating_add(length);
                }
            } else if is_never_shown(node.name)
                || (node.name == names::NOSCRIPT && is_short_noscript(page.element(id), budget))
                || removed.get(id as usize) == Some(&true)
            {
                skip_end = page.element(id).end();
            } else if node.name == names::A {
                link_end = page.element(id).end().max(link_end);
            }
        }
        measure.text.push(text);
        measure.link_text.push(link_text);
        measure.commas.push(commas);
        measure
    }

    /// The bytes that are charged for it.
    pub(super) fn memory(&self) -> usize {
        self.text.len().saturating_sub(1) * 3 * size_of::<u32>()
    }

    /// The sum over the subtree of an element.
    fn sum_over(sums: &[u32], element: Element<'_>) -> u32 {
        let at = |id: u32| sums.get(id as usize).copied().unwrap_or(0);
        at(element.end()).saturating_sub(at(element.node))
    }

    /// The approximate number of characters, with every run of white space counted as one.
    pub(super) fn text(&self, element: Element<'_>) -> u32 {
        Self::sum_over(&self.text, element)
    }

    /// The number of characters outside of links.
    pub(super) fn prose(&self, element: Element<'_>) -> u32 {
        self.text(element).saturating_sub(Self::sum_over(&self.link_text, element))
    }

    pub(super) fn commas(&self, element: Element<'_>) -> u32 {
        Self::sum_over(&self.commas, element)
    }

    /// The proportion of text that is within links.
    pub(super) fn link_density(&self, element: Element<'_>) -> f32 {
        let text = self.text(element);
        if text == 0 { 0.0 } else { Self::sum_over(&self.link_text, element) as f32 / text as f32 }
    }
}

/// Whether the text of an element is never content.
fn is_never_shown(name: names::Name) -> bool {
    matches!(
        name,
        names::SCRIPT | names::STYLE | names::TEMPLATE | names::IFRAME | names::TITLE | names::TEXTAREA | names::SELECT
    )
}

/// Counts characters after collapsing white space, and commas of any script.
fn count_text(text: &str) -> (u32, u32) {
    let (mut length, mut commas, mut is_after_space) = (0u32, 0u32, true);
    for character in text.chars() {
        if character.is_whitespace() {
            if !is_after_space {
                length += 1;
            }
            is_after_space = true;
            continue;
        }
        is_after_space = false;
        length += 1;
        if matches!(character, ',' | '\u{3001}' | '\u{ff0c}' | '\u{60c}') {
            commas += 1;
        }
    }
    if is_after_space && length > 0 {
        length -= 1;
    }
    (length, commas)
}
