//! Listings.

use super::escape::longest_backtick_run;
use super::{Writer, without_invisible};
use crate::document::{Element, TEXT, names};

/// How many bytes of a class are searched for a language.
const MAX_CLASS: usize = 1000;

impl<'a> Writer<'a> {
    /// Renders preformatted text. In Markdown it is a fenced block.
    pub(super) fn listing(&mut self, element: Element<'a>) {
        self.flush();
        let mut code = String::new();
        let mut id = element.node + 1;
        while id < element.end() {
            let Some(node) = self.page.node(id) else { break };
            if !self.may_add(if node.name == TEXT { self.page.raw_text(node).len() } else { 0 }) {
                break;
            }
            id += 1;
            if node.name == TEXT {
                code.push_str(&without_invisible(&self.page.text_of(node)));
            } else if node.name == names::BR {
                code.push('\n');
            } else if self.is_removed(id - 1) {
                id = self.page.element(id - 1).end().max(id);
            }
        }
        let code = code.replace("\r\n", "\n");
        let code = code.trim_matches('\n').trim_end();
        if code.trim().is_empty() {
            return;
        }
        if !self.is_markdown {
            return self.write_lines(code);
        }
        let fence = "`".repeat(longest_backtick_run(code).max(2) + 1);
        self.write_lines(&format!("{fence}{}\n{code}\n{fence}", language(element)));
    }
}

/// The language of a listing, from the class of the element or of one close to it: `language-rust`, `highlight-python3`.
fn language(element: Element<'_>) -> String {
    let near = std::iter::successors(Some(element), Element::parent).take(3).chain(element.children().take(1));
    for element in near {
        let declared = ["data-lang", "data-language"].into_iter().find_map(|name| element.raw_attribute(name));
        if let Some(name) = declared.filter(|name| is_language(name)) {
            return name.to_ascii_lowercase();
        }
        let class = element.raw_attribute("class").unwrap_or_default();
        let class = class.get(..class.floor_char_boundary(MAX_CLASS)).unwrap_or_default();
        // Pandoc writes `sourceCode rust`.
        let pandoc = class.strip_prefix("sourceCode ").and_then(|rest| rest.split_ascii_whitespace().next());
        if let Some(name) = pandoc.filter(|name| element.name_id() == names::PRE && is_language(name)) {
            return name.to_owned();
        }
        for word in class.split_ascii_whitespace() {
            let prefixes = ["language-", "lang-", "highlight-source-", "highlight-", "brush:"];
            let Some(name) = prefixes.iter().find_map(|prefix| word.strip_prefix(prefix)) else { continue };
            if is_language(name) {
                return if matches!(name, "default" | "none" | "text") { String::new() } else { name.to_owned() };
            }
        }
    }
    String::new()
}

/// Whether a text can be the name of a language.
fn is_language(name: &str) -> bool {
    let is_part = |next: char| next.is_ascii_alphanumeric() || "+#-".contains(next);
    !name.is_empty() && name.len() <= 20 && name.chars().all(is_part)
}
