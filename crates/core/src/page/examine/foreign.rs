//! [`ForeignStack`]: tracks whether the tokenizer is within SVG or MathML, as far as possible without a tree.
//!
//! This matters for two reasons. Within SVG and MathML, CDATA sections exist, and `title`, `style` and `script` are
//! ordinary elements. A stack of the relevant elements replaces the tree.
//!
//! There are two approximations. An end tag that closes elements around the foreign ones is recognised by the break-out
//! list of the standard (`</div>` closes an open `<svg>`), not by the open elements. Nesting beyond the limit is
//! ignored.

use super::names::{self, key};
use super::tokenizer::Tag;

/// Limit on the stack of open elements.
pub(crate) const MAX_FOREIGN_DEPTH: usize = 64;

/// The key of `foreignObject`, whose name is too long for [`names::key`]. No name has the key 1 or 2 there.
const FOREIGN_OBJECT: u64 = 1;
/// The key of `annotation-xml`, whose name is too long too.
const ANNOTATION_XML: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenElement {
    Svg,
    Math,
    /// An element of SVG or MathML whose content is HTML, by its [`element_key`].
    Html(u64),
}

/// The open elements that decide whether the tokenizer is within SVG or MathML.
#[derive(Default)]
pub struct ForeignStack {
    stack: Vec<OpenElement>,
}

/// The key of an element name, also for the two elements with HTML content whose names are too long for [`names::key`].
fn element_key(name: &[u8]) -> u64 {
    if name.eq_ignore_ascii_case(b"foreignobject") {
        FOREIGN_OBJECT
    } else if name.eq_ignore_ascii_case(b"annotation-xml") {
        ANNOTATION_XML
    } else {
        key(name)
    }
}

impl ForeignStack {
    /// Whether the current element belongs to SVG or MathML.
    pub fn is_inside(&self) -> bool {
        matches!(self.stack.last(), Some(OpenElement::Svg | OpenElement::Math))
    }

    /// Handles a start tag. Returns whether its element belongs to SVG or MathML.
    pub fn start(&mut self, key: u64, tag: &Tag<'_>) -> bool {
        if self.stack.is_empty() && key != names::SVG && key != names::MATH {
            return false;
        }
        if self.is_inside() && closes(key, tag) {
            self.leave();
            return false;
        }
        let element = match (self.stack.last(), key) {
            (_, names::SVG) => OpenElement::Svg,
            (_, names::MATH) => OpenElement::Math,
            (Some(OpenElement::Svg), names::TITLE | names::DESC) => OpenElement::Html(key),
            (Some(OpenElement::Svg), names::LONG_NAME) if element_key(tag.name) == FOREIGN_OBJECT => {
                OpenElement::Html(FOREIGN_OBJECT)
            }
            (Some(OpenElement::Math), names::MI | names::MO | names::MN | names::MS | names::MTEXT) => {
                OpenElement::Html(key)
            }
            (Some(OpenElement::Math), names::LONG_NAME)
                if element_key(tag.name) == ANNOTATION_XML && declares_html(tag) =>
            {
                OpenElement::Html(ANNOTATION_XML)
            }
            _ => return self.is_inside(),
        };
        if !tag.self_closing && self.stack.len() < MAX_FOREIGN_DEPTH {
            self.stack.push(element);
        }
        true
    }

    /// Handles an end tag.
    pub fn end(&mut self, name: &[u8]) {
        if self.stack.is_empty() {
            return;
        }
        let element = match element_key(name) {
            names::SVG => OpenElement::Svg,
            names::MATH => OpenElement::Math,
            other => OpenElement::Html(other),
        };
        if let Some(open) = self.stack.iter().rposition(|&entry| entry == element) {
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

/// Whether a start tag ends SVG and MathML: by its name, or as `font` with an attribute that only HTML has.
fn closes(key: u64, tag: &Tag<'_>) -> bool {
    let is_html = |name: &[u8]| [b"color".as_slice(), b"face", b"size"].iter().any(|n| name.eq_ignore_ascii_case(n));
    names::breaks_out(tag.name) || (key == names::FONT && tag.attributes().any(|(name, _)| is_html(name)))
}

/// Whether the `encoding` attribute says that the content is HTML.
fn declares_html(tag: &Tag<'_>) -> bool {
    tag.attributes().find(|(name, _)| name.eq_ignore_ascii_case(b"encoding")).is_some_and(|(_, value)| {
        value.eq_ignore_ascii_case(b"text/html") || value.eq_ignore_ascii_case(b"application/xhtml+xml")
    })
}
