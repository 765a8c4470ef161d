//! Compares the tokenizer with that of html5ever by their start tags with attributes and their end tags.

use argiope_core::page::examine::tokenizer::{Dialect, Tokenizer};

use super::{piece_size, split_control};

#[path = "../../crates/core/tests/tokens/mod.rs"]
mod tags;

use tags::{argiope_tags, html5ever_tags};

/// Elements such as `script` change how their content is read.
const SWITCHES_MODE: bool = true;

/// Both tokenizers find the same tags, for every split of the page.
pub fn tokenizer(data: &[u8]) {
    let (page, control) = split_control(data, 1);
    let page = String::from_utf8_lossy(page);
    let expected = html5ever_tags(&page);
    for piece in [page.len().max(1), piece_size(control)] {
        let found = argiope_tags(Tokenizer::new(Dialect::Html), page.as_bytes(), piece, SWITCHES_MODE);
        assert_eq!(found, expected, "in pieces of {piece}: {page:?}");
    }
    // There is no other implementation for XML here, so this only checks that the data is read without a panic.
    argiope_tags(Tokenizer::new(Dialect::Xml), data, piece_size(control), SWITCHES_MODE);
}
