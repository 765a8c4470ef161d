//! The references and anchors of a document.
//!
//! The core's tokenizer (HTML) or pulldown-cmark (Markdown) reads the document in one pass, without building a tree. The
//! result borrows from the text. Positions are byte offsets; line, column and link text are computed from them when needed.

mod html;
mod markdown;
mod nesting;
mod position;
mod text;

use std::borrow::Cow;
use std::ops::Range;

use argiope_core::page::examine::charset_of_page;
use argiope_core::page::page_budget::PageBudget;
use encoding_rs::Encoding;

use crate::anchors::AnchorCollector;
pub(crate) use position::LineCounter;
pub(crate) use text::page_text;

/// The bytes that mark a file as UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the user reads about a document whose budget was used up.
pub(crate) const CUT: &str =
    "not read to its end, because it takes too much work for its length, or has too much markup";

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentType {
    Html,
    Xhtml,
    Markdown,
}

impl DocumentType {
    /// The format by the extension of a file name.
    pub fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        let is_extension = |known: &&str| extension.eq_ignore_ascii_case(known);
        if ["html", "htm"].iter().any(is_extension) {
            Some(Self::Html)
        } else if ["xhtml", "xht"].iter().any(is_extension) {
            Some(Self::Xhtml)
        } else if ["md", "markdown"].iter().any(is_extension) {
            Some(Self::Markdown)
        } else {
            None
        }
    }
}

/// The purpose of a reference. Some options apply only to certain kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// A link that a reader can follow.
    Link,
    /// A resource that the page needs for display: image, style, script, media file, frame.
    Asset,
    /// Data about the page: canonical, hreflang, Open Graph and other `link` and `meta` elements.
    Meta,
}

/// Where to find the text of a reference.
#[derive(Clone, Debug)]
pub(crate) enum ReferenceText<'a> {
    None,
    /// The text itself: the value of an attribute, or the text of a Markdown link.
    Given(Cow<'a, str>),
    /// The content of an element: from the end of the name in its start tag to the tag that ends it.
    Content(Range<usize>),
}

/// A reference from a document to a target.
#[derive(Clone, Debug)]
pub(crate) struct Reference<'a> {
    /// As written, with character references decoded.
    pub href: Cow<'a, str>,
    pub kind: ReferenceKind,
    /// The position in bytes from the start of the text.
    pub offset: usize,
    pub text: ReferenceText<'a>,
}

/// References of one document that are read. Each takes memory until the document is judged.
const MAX_REFERENCES: usize = 300_000;

/// The references of a document.
#[derive(Debug, Default)]
pub(crate) struct DocumentReferences<'a> {
    pub references: Vec<Reference<'a>>,
    /// The `href` of the first `base` element that has one.
    pub base: Option<Cow<'a, str>>,
    /// Whether the document was not read to its end, because its budget was used up or it has too many references.
    pub is_cut: bool,
}

impl<'a> DocumentReferences<'a> {
    /// Adds a reference, unless there are too many.
    fn add(&mut self, reference: Reference<'a>) {
        if self.references.len() < MAX_REFERENCES {
            self.references.push(reference);
        } else {
            self.is_cut = true;
        }
    }
}

/// A document as text, and the encoding that it was written in.
pub(crate) struct DecodedText<'a> {
    pub text: Cow<'a, str>,
    pub encoding: &'static Encoding,
}

impl<'a> DecodedText<'a> {
    /// Decodes the bytes of a file, without its byte order mark.
    pub fn of_file(bytes: &'a [u8], kind: DocumentType) -> Self {
        let (encoding, mark_length) = match kind {
            DocumentType::Markdown if bytes.starts_with(UTF8_MARK) => (encoding_rs::UTF_8, UTF8_MARK.len()),
            DocumentType::Markdown => (encoding_rs::UTF_8, 0),
            DocumentType::Html | DocumentType::Xhtml => charset_of_page(bytes),
        };
        let bytes = bytes.get(mark_length..).unwrap_or(&[]);
        Self { text: encoding.decode_without_bom_handling(bytes).0, encoding }
    }
}

/// Reads a document. Adds the possible targets of fragments to `anchors`. All work is charged to the budget of the document.
pub(crate) fn read<'a>(
    text: &'a str,
    kind: DocumentType,
    anchors: &mut impl AnchorCollector,
) -> DocumentReferences<'a> {
    read_within(text, kind, anchors, &PageBudget::for_page(text.len()))
}

/// The steps to read a document, and to find the positions and texts of its references. For measurements: no limit ends
/// the work.
pub fn steps_of_reading(text: &str, kind: DocumentType) -> u64 {
    let budget = PageBudget::unlimited();
    let document = read_within(text, kind, &mut Vec::new(), &budget);
    let mut lines = LineCounter::new(text);
    for reference in &document.references {
        lines.at(reference.offset);
        lines.link_text(&reference.text);
    }
    budget.steps() + lines.steps()
}

/// Like [`read`], with a budget of the caller.
fn read_within<'a>(
    text: &'a str,
    kind: DocumentType,
    anchors: &mut impl AnchorCollector,
    budget: &PageBudget,
) -> DocumentReferences<'a> {
    let mut document = match kind {
        DocumentType::Html | DocumentType::Xhtml => html::read(text, kind == DocumentType::Xhtml, anchors, budget),
        DocumentType::Markdown => markdown::read(text, anchors, budget),
    };
    document.is_cut |= budget.is_used_up();
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents of one form, by the number of repetitions.
    type Family = (DocumentType, fn(usize) -> String);

    /// Documents that cost much for their length.
    const FAMILIES: &[Family] = &[
        (DocumentType::Markdown, |n| format!("http://a{}", ")".repeat(n))),
        (DocumentType::Markdown, |n| format!("http://a({}", ").".repeat(n))),
        (DocumentType::Markdown, |n| "http://a_".repeat(n)),
        (DocumentType::Markdown, |n| "http://_".repeat(n)),
        (DocumentType::Markdown, |n| "http:// ".repeat(n)),
        (DocumentType::Markdown, |n| "xhttp://".repeat(n)),
        (DocumentType::Markdown, |n| "![".repeat(n)),
        (DocumentType::Markdown, |n| format!("{}{}", "![a ".repeat(n), "](x)".repeat(n))),
        (DocumentType::Markdown, |n| format!("{}{}", "![".repeat(n), "a_http://b](x)".repeat(n))),
        (DocumentType::Markdown, |n| format!("{}a\n{}", ">".repeat(n), "a\n".repeat(n))),
        (DocumentType::Markdown, |n| format!("{}a\n{}", "- ".repeat(n), "a\n".repeat(n))),
        (DocumentType::Markdown, |n| format!("{}a\n{}", "[^a]: > ".repeat(n), "a\n".repeat(n))),
        (DocumentType::Markdown, |n| "# a\n".repeat(n)),
        (DocumentType::Markdown, |n| format!("|a{}\n|-{}\n{}", "|a".repeat(n), "|-".repeat(n), "|b\n".repeat(n))),
        (DocumentType::Markdown, |n| "a <b id=x>\n\n".repeat(n)),
        (DocumentType::Html, |n| "<img srcset='b 1x, c 2x' src=a>".repeat(n)),
        (DocumentType::Html, |n| "<img srcset src>".repeat(n)),
        (DocumentType::Html, |n| "<a href=x>".repeat(n)),
        (DocumentType::Html, |n| "<a href='x\">".repeat(n)),
        (DocumentType::Html, |n| format!("<img srcset='{}'>", "a 1x,".repeat(n))),
        (DocumentType::Html, |n| format!("<p{}>", " id=a".repeat(n))),
        (DocumentType::Html, |n| "<svg><a href=x>".repeat(n)),
        (DocumentType::Html, |n| "<template><a href=x>".repeat(n)),
        (DocumentType::Xhtml, |n| "<a href='&amp;'/>".repeat(n)),
    ];

    /// The steps of a document that is read to its end.
    fn steps(kind: DocumentType, text: &str) -> u64 {
        let document = read(text, kind, &mut Vec::new());
        assert!(!document.is_cut, "{}", text.get(..40).unwrap_or(text));
        assert!(document.references.is_sorted_by_key(|reference| reference.offset), "positions take one pass");
        steps_of_reading(text, kind)
    }

    #[test]
    fn the_work_on_a_document_grows_with_its_length() {
        for (number, (kind, family)) in FAMILIES.iter().enumerate() {
            let [once, twice, four_times] = [2_000, 4_000, 8_000].map(|size| steps(*kind, &family(size)));
            for (small, large) in [(once, twice), (twice, four_times)] {
                assert!(large * 10 <= small * 22, "family {number}: {small} steps, then {large}");
            }
        }
    }
}
