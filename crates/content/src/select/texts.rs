//! [`TextIndex`]: the visible texts of all elements of a region, as ranges of one string.

use std::collections::VecDeque;

use argiope_core::page::page_budget::PageBudget;
use memchr::memmem;

use crate::document::{Document, NodeId, TEXT, breaks_words, is_hidden, push_collapsed};

/// The visible texts of elements. That of an element is a part of that of its parent. The text of a hidden element is
/// not visible in its parent, so it stands apart.
pub(super) struct TextIndex {
    text: String,
    /// For each node, where its text begins and ends.
    ranges: Vec<(u32, u32)>,
}

impl TextIndex {
    /// The texts of the nodes from `first` to `end`, which are the subtree of `first`. `None` if the budget is used up.
    pub(super) fn of(document: &Document, (first, end): (NodeId, NodeId), budget: &PageBudget) -> Option<Self> {
        let nodes = (end - first) as usize;
        if !budget.hold(nodes * size_of::<(u32, u32)>()) {
            return None;
        }
        let mut index = Self { text: String::new(), ranges: vec![(0, 0); nodes] };
        let mut apart = VecDeque::from([first]);
        while let Some(root) = apart.pop_front() {
            index.add(document, (first, root), &mut apart, budget)?;
        }
        Some(index)
    }

    /// Adds the text of an element. The hidden elements within it are added to `apart`.
    fn add(
        &mut self,
        document: &Document,
        (first, root): (NodeId, NodeId),
        apart: &mut VecDeque<NodeId>,
        budget: &PageBudget,
    ) -> Option<()> {
        self.text.push('\n');
        self.begin(first, root);
        let mut open = vec![root];
        let (mut id, end) = (root + 1, document.element(root).end());
        while id < end {
            budget.visit().then_some(())?;
            self.close_ended(document, first, &mut open, id);
            let node = document.node(id)?;
            id += 1;
            if node.name == TEXT {
                let length = document.raw_text(node).len();
                (budget.spend(length) && budget.hold(length)).then_some(())?;
                push_collapsed(&mut self.text, &document.text_of(node));
            } else if is_hidden(node.name) {
                apart.push_back(id - 1);
                id = document.element(id - 1).end().max(id);
            } else {
                if breaks_words(node.name) {
                    push_collapsed(&mut self.text, " ");
                }
                self.begin(first, id - 1);
                open.push(id - 1);
            }
        }
        self.close_ended(document, first, &mut open, NodeId::MAX);
        Some(())
    }

    /// Ends the open elements whose subtree ends at or before `id`.
    fn close_ended(&mut self, document: &Document, first: NodeId, open: &mut Vec<NodeId>, id: NodeId) {
        while let Some(ended) = open.pop_if(|node| document.element(*node).end() <= id) {
            let length = self.text.len() as u32;
            if let Some(range) = self.ranges.get_mut((ended - first) as usize) {
                range.1 = length;
            }
            if breaks_words(document.element(ended).name_id()) {
                push_collapsed(&mut self.text, " ");
            }
        }
    }

    fn begin(&mut self, first: NodeId, node: NodeId) {
        let length = self.text.len() as u32;
        if let Some(range) = self.ranges.get_mut((node - first) as usize) {
            *range = (length, length);
        }
    }

    /// For each node, whether its text contains `needle`. Empty if the budget is used up.
    pub(super) fn containing(&self, needle: &str, budget: &PageBudget) -> Vec<bool> {
        let Some(occurrences) = Occurrences::of(&self.text, needle, budget) else { return Vec::new() };
        if !budget.hold(self.ranges.len()) || !budget.spend(self.ranges.len()) {
            return Vec::new();
        }
        let contains = |&(start, end): &(u32, u32)| {
            // White space is collapsed, so at most one space is trimmed at each end.
            let text = self.text.get(start as usize..end as usize).unwrap_or("");
            let from = start as usize + text.len() - text.trim_start().len();
            let to = start as usize + text.trim_end().len();
            needle.is_empty() || (from + needle.len() <= to && occurrences.any_in(from, to - needle.len() + 1))
        };
        self.ranges.iter().map(contains).collect()
    }
}

/// The positions at which a text occurs in another one.
struct Occurrences {
    /// A bit for each position.
    bits: Vec<u64>,
    /// The number of set bits before each word.
    before: Vec<u32>,
}

impl Occurrences {
    fn of(text: &str, needle: &str, budget: &PageBudget) -> Option<Self> {
        let words = text.len() / 64 + 1;
        (budget.hold(words * 12) && budget.spend(text.len())).then_some(())?;
        let mut bits = vec![0u64; words];
        let finder = memmem::Finder::new(needle);
        let mut from = 0;
        while !needle.is_empty()
            && let Some(at) = text.as_bytes().get(from..).and_then(|rest| finder.find(rest))
        {
            budget.spend(needle.len()).then_some(())?;
            let found = from + at;
            if let Some(word) = bits.get_mut(found / 64) {
                *word |= 1 << (found % 64);
            }
            from = found + 1;
        }
        let count = |sum: &mut u32, word: &u64| {
            let before = *sum;
            *sum += word.count_ones();
            Some(before)
        };
        let before = bits.iter().scan(0, count).collect();
        Some(Self { bits, before })
    }

    /// How many occurrences begin before `position`.
    fn count_before(&self, position: usize) -> u32 {
        let (word, bit) = (position / 64, position % 64);
        let part = self.bits.get(word).map_or(0, |word| (word & ((1 << bit) - 1)).count_ones());
        self.before.get(word).copied().unwrap_or(0) + part
    }

    /// Whether an occurrence begins at `from` or later and before `to`.
    fn any_in(&self, from: usize, to: usize) -> bool {
        self.count_before(to) > self.count_before(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_has_the_text_of_every_element() {
        let html = "<body> a <div> b<p>c </p> <i> d</i><object>e <b> f</b><iframe>g</iframe></object></div>\
                    <template><p>h</template>&amp;<br>i<table><td>1<td>2</table>";
        let page = Document::parse(html);
        let budget = PageBudget::unlimited();
        let index = TextIndex::of(&page, (0, page.len() as NodeId), &budget).unwrap();
        for element in page.elements() {
            let (start, end) = index.ranges[element.node as usize];
            assert_eq!(index.text[start as usize..end as usize].trim(), element.text(), "{}", element.name());
        }
    }

    #[test]
    fn occurrences_may_overlap() {
        let found = Occurrences::of(&"aa ".repeat(50), "a", &PageBudget::unlimited()).unwrap();
        assert!(found.any_in(0, 1) && !found.any_in(2, 3) && found.any_in(2, 4) && found.any_in(145, 150));
        let overlapping = Occurrences::of("ababa", "aba", &PageBudget::unlimited()).unwrap();
        assert!(overlapping.any_in(2, 3) && !overlapping.any_in(1, 2));
    }
}
