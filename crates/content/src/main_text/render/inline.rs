//! Links, emphasis and code within a paragraph.

use super::Writer;
use super::escape::{escape_url, longest_backtick_run};
use crate::document::Element;

impl<'a> Writer<'a> {
    /// Renders the children, then replaces their text with the result of `finish`, if they did not start a new
    /// paragraph.
    fn inline(&mut self, element: Element<'a>, finish: impl FnOnce(&str) -> String) {
        let (start, paragraphs) = (self.line.len(), self.paragraphs);
        self.children(element);
        self.finish_inline(start, paragraphs, finish);
    }

    /// Replaces the text of the line from `start` on, if no new paragraph was started since there were `paragraphs`.
    fn finish_inline(&mut self, start: usize, paragraphs: usize, finish: impl FnOnce(&str) -> String) {
        if self.paragraphs != paragraphs {
            return;
        }
        let inner_length = self.line.len().saturating_sub(start);
        self.is_cut |= !self.budget.spend(inner_length);
        if self.is_cut {
            return;
        }
        let Some(inner) = self.line.get(start..) else { return };
        let trimmed = inner.trim();
        if trimmed.is_empty() {
            return;
        }
        let (has_leading, has_trailing) = (inner.starts_with([' ', '\n']), inner.ends_with([' ', '\n']));
        let finished = finish(trimmed);
        self.line.truncate(start);
        if has_leading {
            self.line.push(' ');
        }
        self.line.push_str(&finished);
        if has_trailing {
            self.line.push(' ');
        }
    }

    /// Renders the children between two marks, such as `**`.
    pub(super) fn emphasis(&mut self, mark: &'static str, element: Element<'a>) {
        if !self.is_markdown || self.in_code {
            return self.children(element);
        }
        // A mark between a letter and a punctuation character is text.
        let is_after_word = self.line.ends_with(char::is_alphanumeric);
        let before = self.line.len();
        let mut is_marked = false;
        self.inline(element, |inner| {
            // Marks are omitted around several lines and around other emphasis.
            let is_plain = inner.contains('\n') || inner.starts_with('*');
            if is_plain || (is_after_word && !inner.starts_with(char::is_alphanumeric)) {
                return inner.to_owned();
            }
            is_marked = true;
            format!("{mark}{inner}{mark}")
        });
        let ends_in_mark = self.line.ends_with(mark) && self.line.len() > before;
        let inner = self.line.get(..self.line.len().saturating_sub(mark.len())).unwrap_or("");
        if is_marked && ends_in_mark && !inner.ends_with(char::is_alphanumeric) {
            self.open_mark = Some((before, mark, self.line.len()));
        }
    }

    /// Removes the marks of the emphasis that ends the line, if the closing one would be text, because it stands between
    /// a punctuation character and the letter that follows.
    pub(super) fn settle_mark(&mut self, next: &str) {
        let Some((before, mark, end)) = self.open_mark.take() else { return };
        if self.line.len() != end || !next.starts_with(char::is_alphanumeric) {
            return;
        }
        self.line.truncate(end - mark.len());
        let start = self.line.get(before..).and_then(|inner| inner.find(mark)).map(|at| before + at);
        if let Some(start) = start {
            self.line.replace_range(start..start + mark.len(), "");
        }
    }

    /// Renders code. A link within it ends the code before it, and has code of its own.
    pub(super) fn inline_code(&mut self, element: Element<'a>) {
        if !self.is_markdown || self.in_code {
            return self.children(element);
        }
        self.in_code = true;
        self.code_start = self.line.len();
        self.children(element);
        self.close_code();
        self.in_code = false;
    }

    /// Marks the code since `code_start`.
    fn close_code(&mut self) {
        let start = self.code_start.min(self.line.len());
        let inner = self.line.split_off(start);
        self.is_cut |= !self.budget.spend(inner.len());
        let trimmed = inner.trim();
        if trimmed.is_empty() {
            self.line.push_str(&inner);
        } else {
            let fence = "`".repeat(longest_backtick_run(trimmed) + 1);
            let space = if trimmed.starts_with('`') || trimmed.ends_with('`') { " " } else { "" };
            let (before, after) = (inner.starts_with([' ', '\n']), inner.ends_with([' ', '\n']));
            if before {
                self.line.push(' ');
            }
            let is_after_code = self.line.ends_with('`');
            // Two pieces of code side by side would be one.
            self.line.push_str(if is_after_code { " " } else { "" });
            self.line.push_str(&format!("{fence}{space}{}{space}{fence}", trimmed.replace('\n', " ")));
            if after {
                self.line.push(' ');
            }
        }
        self.code_start = self.line.len();
    }

    pub(super) fn link(&mut self, element: Element<'a>) {
        let target = if self.is_markdown && !self.in_link { self.selection.link_target(element) } else { None };
        let Some(target) = target else { return self.children(element) };
        if !self.may_add(target.len() * 2) {
            return;
        }
        self.max_out += escape_url(&target).len();
        self.in_link = true;
        if self.in_code {
            self.close_code();
            self.code_start = self.line.len();
        }
        let is_code = self.in_code;
        let (start, paragraphs) = (self.line.len(), self.paragraphs);
        self.children(element);
        if is_code && self.paragraphs == paragraphs {
            self.close_code();
        }
        self.finish_inline(start, paragraphs, |inner| {
            format!("[{}]({})", inner.replace('\n', " "), escape_url(&target))
        });
        self.code_start = self.line.len();
        self.in_link = false;
    }
}
