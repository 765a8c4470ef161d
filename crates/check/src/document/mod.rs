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
use encoding_rs::Encoding;

use crate::anchors::AnchorCollector;
pub(crate) use position::{LineCounter, link_text};
pub(crate) use text::page_text;

/// The bytes that mark a file as UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

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

/// The references of a document.
#[derive(Debug, Default)]
pub(crate) struct DocumentReferences<'a> {
    pub references: Vec<Reference<'a>>,
    /// The `href` of the first `base` element that has one.
    pub base: Option<Cow<'a, str>>,
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

/// Reads a document. Adds the possible targets of fragments to `anchors`.
pub(crate) fn read<'a>(
    text: &'a str,
    kind: DocumentType,
    anchors: &mut impl AnchorCollector,
) -> DocumentReferences<'a> {
    match kind {
        DocumentType::Html | DocumentType::Xhtml => html::read(text, kind == DocumentType::Xhtml, anchors),
        DocumentType::Markdown => markdown::read(text, anchors),
    }
}
