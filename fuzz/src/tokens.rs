//! The tokenizer against html5ever's: start tags with their attributes, and end tags.

use argiope_core::page::examine::tokenizer::{Dialect, Tokenizer};

use super::{piece, steered};

#[path = "../../crates/core/tests/tokens/mod.rs"]
mod tags;

use tags::{ours, theirs};

/// Both see the same tags, however the page is cut.
pub fn tokenizer(data: &[u8]) {
    let (page, steer) = steered(data, 1);
    let page = String::from_utf8_lossy(page);
    let expected = theirs(&page);
    for piece in [page.len().max(1), piece(steer)] {
        let found = ours(Tokenizer::new(Dialect::Html), page.as_bytes(), piece, true);
        assert_eq!(found, expected, "in pieces of {piece}: {page:?}");
    }
    // Bytes that are no text, and XML, have no oracle here: they must be read to the end.
    ours(Tokenizer::new(Dialect::Xml), data, piece(steer), true);
}
