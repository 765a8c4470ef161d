//! [`ForeignStack`]: tracks whether the tokenizer is within SVG or MathML, as far as possible without a tree.
//!
//! This matters in two ways: within SVG and MathML, CDATA sections exist, and `title`, `style` and `script` are
//! ordinary elements. A stack of the relevant elements replaces the tree. Approximations: an end tag that closes
//! elements around the foreign ones is recognised by the standard's break-out list (`</div>` closes an open `<svg>`),
//! not by the open elements; nesting beyond the limit is ignored.

use super::names::{self, key};
use super::tokenizer::Tag;

/// Limit on the stack of open elements.
pub(crate) const MAX_FOREIGN_DEPTH: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Svg,
    Math,
    /// An element of SVG or MathML whose content is HTML again; by the key of its name, or a small number for long
    /// names.
    Html(u64),
}

#[derive(Default)]
pub struct ForeignStack {
    stack: Vec<Mark>,
}

/// The key of an element name. The two names of HTML containers that are too long for a key are 1 and 2.
fn integration(name: &[u8]) -> u64 {
    if name.eq_ignore_ascii_case(b"foreignobject") {
        1
    } else if name.eq_ignore_ascii_case(b"annotation-xml") {
        2
    } else {
        key(name)
    }
}

impl ForeignStack {
    pub fn is_inside(&self) -> bool {
        matches!(self.stack.last(), Some(Mark::Svg | Mark::Math))
    }

    /// Handles a start tag. Returns true if its element belongs to SVG or MathML.
    pub fn start(&mut self, key: u64, tag: &Tag<'_>) -> bool {
        if self.stack.is_empty() && key != names::SVG && key != names::MATH {
            return false;
        }
        if self.is_inside() && closes(key, tag) {
            self.leave();
            return false;
        }
        let mark = match (self.stack.last(), key) {
            (_, names::SVG) => Mark::Svg,
            (_, names::MATH) => Mark::Math,
            (Some(Mark::Svg), names::TITLE | names::DESC) => Mark::Html(key),
            (Some(Mark::Svg), 0) if integration(tag.name) == 1 => Mark::Html(1),
            (Some(Mark::Math), names::MI | names::MO | names::MN | names::MS | names::MTEXT) => Mark::Html(key),
            (Some(Mark::Math), 0) if integration(tag.name) == 2 && holds_html(tag) => Mark::Html(2),
            _ => return self.is_inside(),
        };
        if !tag.self_closing && self.stack.len() < MAX_FOREIGN_DEPTH {
            self.stack.push(mark);
        }
        true
    }

    pub fn end(&mut self, name: &[u8]) {
        if self.stack.is_empty() {
            return;
        }
        let mark = match integration(name) {
            names::SVG => Mark::Svg,
            names::MATH => Mark::Math,
            other => Mark::Html(other),
        };
        if let Some(open) = self.stack.iter().rposition(|&entry| entry == mark) {
            self.stack.truncate(open);
        } else if self.is_inside() && names::breaks_out(name) {
            self.leave();
        }
    }

    /// Pops foreign elements up to the nearest one whose content is HTML.
    fn leave(&mut self) {
        while self.is_inside() {
            self.stack.pop();
        }
    }
}

/// Whether a start tag ends SVG and MathML: by its name, or `font` with one of these attributes.
fn closes(key: u64, tag: &Tag<'_>) -> bool {
    let telling = |name: &[u8]| [b"color".as_slice(), b"face", b"size"].iter().any(|n| name.eq_ignore_ascii_case(n));
    names::breaks_out(tag.name) || (key == names::FONT && tag.attributes().any(|(name, _)| telling(name)))
}

fn holds_html(tag: &Tag<'_>) -> bool {
    tag.attributes().find(|(name, _)| name.eq_ignore_ascii_case(b"encoding")).is_some_and(|(_, value)| {
        value.eq_ignore_ascii_case(b"text/html") || value.eq_ignore_ascii_case(b"application/xhtml+xml")
    })
}
