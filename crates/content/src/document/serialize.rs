//! Serializes the tree to text and HTML.

use std::borrow::Cow;

use argiope_core::page::page_budget::PageBudget;

use super::names::{self, Name, RAW};
use super::{Element, TEXT};

/// Whether the text of the element is not visible.
pub(crate) fn is_hidden(name: Name) -> bool {
    matches!(
        name,
        names::SCRIPT
            | names::STYLE
            | names::TEMPLATE
            | names::NOFRAMES
            | names::NOEMBED
            | names::IFRAME
            | names::OBJECT
    )
}

/// Whether the element separates the words before, within and after it.
pub(crate) fn breaks_words(name: Name) -> bool {
    name.is_block() || matches!(name, names::BR | names::TD | names::TH)
}

/// Appends `text` with every run of white space collapsed to one space. Leading white space is dropped if `out` is empty
/// or ends in white space.
pub(crate) fn push_collapsed(out: &mut String, text: &str) {
    for (index, word) in text.split(|character: char| character.is_whitespace()).enumerate() {
        if index > 0 && !out.is_empty() && !out.ends_with([' ', '\n']) {
            out.push(' ');
        }
        out.push_str(word);
    }
}

pub(super) fn text(element: Element<'_>, max_bytes: usize, budget: &PageBudget) -> String {
    let document = element.document;
    let mut out = String::new();
    let (mut id, end) = (element.node + 1, element.end());
    // The ends of the open elements that separate words.
    let mut block_ends: Vec<u32> = Vec::new();
    while id < end && out.len() <= max_bytes {
        let Some(node) = document.node(id).filter(|_| budget.visit()) else { break };
        while block_ends.last().is_some_and(|&block| block <= id) {
            block_ends.pop();
            push_collapsed(&mut out, " ");
        }
        id += 1;
        if node.name == TEXT {
            if !budget.spend(document.raw_text(node).len()) {
                break;
            }
            push_collapsed(&mut out, &document.text_of(node));
        } else if is_hidden(node.name) {
            id = node.end.max(id);
        } else if breaks_words(node.name) {
            push_collapsed(&mut out, " ");
            block_ends.push(node.end);
        }
    }
    let length = out.trim_end().len();
    out.truncate(length);
    out
}

fn escape_text(text: &str) -> Cow<'_, str> {
    escape(text, false)
}

/// Escapes the value of an attribute in double quotes.
fn escape_attribute(value: &str) -> Cow<'_, str> {
    escape(value, true)
}

fn escape(text: &str, is_attribute: bool) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\u{a0}']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '\u{a0}' => out.push_str("&nbsp;"),
            '<' if !is_attribute => out.push_str("&lt;"),
            '>' if !is_attribute => out.push_str("&gt;"),
            '"' if is_attribute => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

pub(super) fn html(element: Element<'_>, max_bytes: usize, budget: &PageBudget) -> String {
    let document = element.document;
    let mut out = String::new();
    // The end and the name of each open element.
    let mut open: Vec<(u32, Name)> = Vec::new();
    let (mut id, end) = (element.node, element.end());
    while id < end && out.len() <= max_bytes {
        let Some(node) = document.node(id) else { break };
        if !budget.visit() || !budget.spend(document.element(id).source_len()) {
            break;
        }
        while let Some(&(element_end, name)) = open.last()
            && element_end <= id
        {
            open.pop();
            push_end_tag(&mut out, document.name_text(name));
        }
        if node.name == TEXT {
            let is_raw =
                open.last().is_some_and(|(_, name)| name.has(RAW) && !matches!(*name, names::TITLE | names::TEXTAREA));
            if is_raw {
                out.push_str(document.raw_text(node));
            } else {
                out.push_str(&escape_text(&document.text_of(node)));
            }
        } else {
            out.push('<');
            out.push_str(document.name_text(node.name));
            for (name, value) in document.element(id).attributes() {
                out.push(' ');
                out.push_str(name);
                out.push_str("=\"");
                out.push_str(&escape_attribute(&value));
                out.push('"');
            }
            out.push('>');
            if !node.name.is_void() {
                open.push((node.end, node.name));
            }
        }
        id += 1;
    }
    while let Some((_, name)) = open.pop() {
        push_end_tag(&mut out, document.name_text(name));
    }
    out
}

fn push_end_tag(out: &mut String, name: &str) {
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}
