//! Limits how deep the containers of Markdown (quotes, lists, footnotes) nest.
//!
//! A line may continue the paragraph of every open container, so the parser's work on a line grows with their number. With
//! a fixed limit on the number, the work on a document is linear in its length.

use std::borrow::Cow;

/// Maximum levels of containers that one line opens, by its markers and its indentation.
const MAX_LEVELS: usize = 100;
/// Columns of indentation that one level of a list takes at least.
const COLUMNS_PER_LEVEL: usize = 2;
/// Columns of a tab.
const TAB: usize = 4;
/// Maximum digits of the number of a list item, by CommonMark.
const MAX_DIGITS: usize = 9;
/// Replaces the first byte of a marker, which makes it text.
const NO_MARKER: u8 = b'x';

/// The text with every marker beyond [`MAX_LEVELS`] made text. Offsets stay the same.
pub(super) fn limited(text: &str) -> Cow<'_, str> {
    let mut changed: Option<Vec<u8>> = None;
    let mut start = 0;
    for line in text.split_inclusive(['\n', '\r']) {
        if let Some(at) = surplus_marker(line.as_bytes())
            && let Some(byte) = changed.get_or_insert_with(|| text.as_bytes().to_vec()).get_mut(start + at)
        {
            *byte = NO_MARKER;
        }
        start += line.len();
    }
    // Only ASCII bytes are replaced, so the bytes stay UTF-8.
    changed.and_then(|bytes| String::from_utf8(bytes).ok()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The offset of the first marker of a line that is beyond the limit.
fn surplus_marker(line: &[u8]) -> Option<usize> {
    let (mut at, mut markers, mut columns) = (0, 0, 0);
    loop {
        let rest = line.get(at..)?;
        match rest.first()? {
            b' ' => (at, columns) = (at + 1, columns + 1),
            b'\t' => (at, columns) = (at + 1, columns + TAB),
            _ => {
                let length = marker_length(rest)?;
                if markers + columns / COLUMNS_PER_LEVEL >= MAX_LEVELS {
                    return Some(at);
                }
                (at, markers) = (at + length, markers + 1);
            }
        }
    }
}

/// The length of the marker that begins here: of a quote, of a list item or of a footnote.
fn marker_length(rest: &[u8]) -> Option<usize> {
    let is_end = |at: usize| rest.get(at).is_none_or(u8::is_ascii_whitespace);
    match rest.first()? {
        b'>' => Some(1),
        b'-' | b'+' | b'*' => is_end(1).then_some(1),
        b'0'..=b'9' => {
            let digits = rest.iter().take(MAX_DIGITS).take_while(|byte| byte.is_ascii_digit()).count();
            (matches!(rest.get(digits), Some(b'.' | b')')) && is_end(digits + 1)).then_some(digits + 1)
        }
        b'[' if rest.get(1) == Some(&b'^') => {
            let end = memchr::memchr(b']', rest)?;
            (rest.get(end + 1) == Some(&b':')).then_some(end + 2)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_beyond_the_limit_become_text_and_others_stay() {
        for text in ["> - 1. [^a]: text", "- - -", "a > b", "\n\n", "", &"> ".repeat(60), &"-".repeat(500)] {
            assert_eq!(limited(text), text);
        }
        let quotes = |count: usize| ">".repeat(count);
        assert_eq!(limited(&quotes(102)), format!("{}x>", quotes(100)));
        assert_eq!(limited(&format!("é\n{}- a", " ".repeat(200))), format!("é\n{}x a", " ".repeat(200)));
        assert_eq!(limited(&"10) ".repeat(100)).matches('x').count(), 1);
    }
}
