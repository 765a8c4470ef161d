//! Compares the tokenizer with that of html5ever: start tags with attributes, and end tags.

use argiope_core::page::examine::tokenizer::{Dialect, Tokenizer};

use super::{piece, steered};

#[path = "../../crates/core/tests/tokens/mod.rs"]
mod tags;

use tags::{argiope_tags, html5ever_tags};

/// Both tokenizers find the same tags, for every split of the page.
pub fn tokenizer(data: &[u8]) {
    let (page, steer) = steered(data, 1);
    let page = String::from_utf8_lossy(page);
    let expected = html5ever_tags(&page);
    for piece in [page.len().max(1), piece(steer)] {
        let found = argiope_tags(Tokenizer::new(Dialect::Html), page.as_bytes(), piece, true);
        assert_eq!(found, expected, "in pieces of {piece}: {page:?}");
    }
    // There is no oracle for binary data and XML here, so they are only read to the end.
    argiope_tags(Tokenizer::new(Dialect::Xml), data, piece(steer), true);
}
