//! The cost of reading documents in a check of links, for arbitrary input.
//!
//! The input is a part of a document, repeated as in `work`. Its last byte selects the format.

use argiope_check::{DocumentType, steps_of_reading};

/// Bytes of the smallest document.
const SIZE: usize = 16 * 1024;
/// Bytes used of an input.
const MAX_PART: usize = 128;

/// HTML and Markdown: the steps grow by a factor of at most 2.2 when the document is doubled.
pub fn documents(data: &[u8]) {
    let (variant, part) = data.split_last().unwrap_or((&0, &[]));
    let part = String::from_utf8_lossy(part.get(..MAX_PART).unwrap_or(part));
    let kinds = [DocumentType::Markdown, DocumentType::Html, DocumentType::Xhtml];
    let kind = kinds[usize::from(*variant) % kinds.len()];
    let steps = [1, 2, 4].map(|factor| steps_of_reading(&part.repeat(SIZE * factor / part.len().max(1)), kind));
    for (small, large) in [(steps[0], steps[1]), (steps[1], steps[2])] {
        assert!(large * 10 <= small * 22 + 655_360, "{part:?} as {kind:?}: {steps:?}");
    }
}
