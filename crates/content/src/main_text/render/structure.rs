//! Definition lists, figures, admonitions and readings.

use super::{MAX_PICTURE_ELEMENTS, Writer, is_picture};
use crate::document::names::Name;
use crate::document::{Element, TEXT, names};

impl<'a> Writer<'a> {
    /// Renders a definition list. In Markdown, each term is an item of a list, and its definitions are in the item.
    pub(super) fn definitions(&mut self, list: Element<'a>) {
        self.flush();
        if !self.is_markdown || self.is_cell {
            self.children(list);
            return self.flush();
        }
        let mut is_first = true;
        self.entries(list, &mut is_first, 0);
        self.is_tight = false;
    }

    /// Renders the terms and definitions in an element of a definition list. Groups of them may be in a `div`.
    fn entries(&mut self, around: Element<'a>, is_first: &mut bool, depth: usize) {
        for id in around.children_nodes() {
            let Some(node) = self.page.node(id).filter(|_| !self.is_cut) else { break };
            let entry = self.page.element(id);
            if node.name == TEXT {
                self.text(node);
            } else if self.is_removed(id) {
            } else if node.name == names::DIV && depth == 0 {
                self.flush();
                self.entries(entry, is_first, depth + 1);
            } else if node.name == names::DT {
                self.flush();
                self.is_tight = !*is_first;
                let is_pushed = self.push_prefix("  ");
                if is_pushed {
                    self.marker = Some("- ".to_owned());
                }
                let before = self.paragraphs;
                self.emphasis("**", entry);
                self.flush();
                self.pop_prefix(is_pushed);
                self.marker.take_if(|_| is_pushed);
                *is_first = *is_first && self.paragraphs == before;
                self.is_tight = false;
            } else if node.name == names::DD && !*is_first {
                self.flush();
                let is_pushed = self.push_prefix("  ");
                self.children(entry);
                self.flush();
                self.pop_prefix(is_pushed);
            } else {
                self.element(entry);
            }
        }
        self.flush();
    }

    /// Renders a figure: its pictures, then its caption. The plain text of an article is without pictures.
    pub(super) fn figure(&mut self, figure: Element<'a>) {
        if !self.is_markdown && self.selection.is_article && is_picture(figure, self.budget) {
            return;
        }
        self.flush();
        self.in_figure = true;
        self.children(figure);
        self.flush();
        self.in_figure = false;
    }

    /// Renders a note or a warning as a quote. Its title is the first line.
    pub(super) fn admonition(&mut self, element: Element<'a>) {
        self.with_prefix("> ", element);
    }

    /// Renders the reading of ruby text in parentheses, or not at all.
    pub(super) fn reading(&mut self, element: Element<'a>, name: Name) {
        if !self.selection.has_readings {
            return;
        }
        let parent = element.parent();
        let has_parentheses = parent
            .is_some_and(|ruby| ruby.children().take(MAX_PICTURE_ELEMENTS).any(|child| child.name_id() == names::RP));
        if name == names::RP || has_parentheses {
            return self.children(element);
        }
        self.line.push('(');
        self.children(element);
        self.line.push(')');
    }
}

/// Whether an element is a note or a warning beside the text, by its class.
pub(super) fn is_admonition(element: Element<'_>) -> bool {
    if !matches!(element.name_id(), names::DIV | names::ASIDE | names::SECTION) {
        return false;
    }
    let class = element.raw_attribute("class").unwrap_or_default();
    let mut words = class.split_ascii_whitespace().take(8);
    words.any(|word| {
        matches!(
            word,
            "admonition" | "admonitionblock" | "callout" | "note" | "warning" | "tip" | "caution" | "important"
        )
    })
}
