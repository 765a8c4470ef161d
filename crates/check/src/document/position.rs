//! Line, column and link text of a reference, computed from its offset.

use argiope_core::page::examine::{TextContext, decode_character_references};
use memchr::memchr_iter;

use super::ReferenceText;

/// Maximum number of characters shown of a link's text.
const MAX_TEXT: usize = 80;
/// Maximum number of bytes of a character in UTF-8.
const MAX_CHARACTER_BYTES: usize = 4;
/// The text of a link is searched for in at most this many bytes after the name in its start tag.
const MAX_SEARCH: usize = 4096;

/// Computes lines and columns, both counted from 1, and the texts of links. Columns count characters.
///
/// Each call continues where the previous one ended, so that the positions of all links of a page take linear time.
pub(crate) struct LineCounter<'a> {
    text: &'a str,
    /// The bytes that were read for positions and texts.
    steps: u64,
    /// The offset of `line` and `column`.
    offset: usize,
    line: u32,
    column: u32,
}

impl<'a> LineCounter<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, steps: 0, offset: 0, line: 1, column: 1 }
    }

    /// The bytes that were read so far, some of them several times.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Line and column of an offset. Offsets should ascend: an earlier one is counted from the start of the text.
    pub fn at(&mut self, offset: usize) -> (u32, u32) {
        if offset < self.offset {
            *self = Self { steps: self.steps, ..Self::new(self.text) };
        }
        let passed = self.text.get(self.offset..offset).unwrap_or_default();
        self.steps += passed.len() as u64;
        let mut line_start = None;
        for end in memchr_iter(b'\n', passed.as_bytes()) {
            self.line = self.line.saturating_add(1);
            line_start = Some(end + 1);
        }
        let first_column = if line_start.is_some() { 1 } else { self.column };
        let characters = passed.get(line_start.unwrap_or(0)..).unwrap_or_default().chars().count();
        self.column = first_column.saturating_add(u32::try_from(characters).unwrap_or(u32::MAX));
        self.offset = offset;
        (self.line, self.column)
    }

    /// The text of a reference as a reader sees it, with white space collapsed.
    pub fn link_text(&mut self, source: &ReferenceText<'_>) -> String {
        match source {
            ReferenceText::None => String::new(),
            ReferenceText::Given(text) => shorten(text),
            ReferenceText::Content(content) => {
                shorten(&element_text(self.text.get(content.clone()).unwrap_or(""), &mut self.steps))
            }
        }
    }
}

/// The text from the end of the tag whose attributes begin here to the next `</a`. Adds the bytes that it reads to `steps`.
fn element_text(from: &str, steps: &mut u64) -> String {
    let mut from = from.get(..from.floor_char_boundary(MAX_SEARCH)).unwrap_or(from);
    let mut shown = String::new();
    // Skips the rest of the tag, then alternates between text and tags.
    loop {
        let end = tag_end(from);
        *steps += end.unwrap_or(from.len()) as u64;
        let Some(end) = end else { break };
        from = from.get(end..).unwrap_or("");
        let next = from.find('<').unwrap_or(from.len());
        let (text, rest) = from.split_at(next);
        *steps += text.len() as u64;
        shown.push_str(&decode_character_references(text, TextContext::Text));
        let is_end = rest.get(..3).is_some_and(|tag| tag.eq_ignore_ascii_case("</a"));
        if rest.is_empty() || is_end || shown.len() > MAX_CHARACTER_BYTES * MAX_TEXT {
            break;
        }
        if let Some(alt) = alt_of(rest) {
            shown.push_str(alt);
        }
        from = rest;
    }
    shown
}

/// The alternative text of the `img` tag that begins here.
fn alt_of(tag: &str) -> Option<&str> {
    let is_image = tag.get(..4).is_some_and(|name| name.eq_ignore_ascii_case("<img"));
    let tag = tag.get(..tag_end(tag).filter(|_| is_image)?)?;
    let (_, after) = tag.split_once("alt=")?;
    let quote = after.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    after.get(1..)?.split(quote).next()
}

/// The offset after the `>` that ends a tag.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (index, byte) in tag.bytes().enumerate() {
        match (byte, quote) {
            (b'>', None) => return Some(index + 1),
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    None
}

/// Collapses white space and limits the length.
fn shorten(text: &str) -> String {
    let mut shown = String::new();
    for word in text.split_whitespace() {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
        if shown.chars().count() > MAX_TEXT {
            let cut: String = shown.chars().take(MAX_TEXT - 1).collect();
            return cut + "…";
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one() {
        let at = |text, offset| LineCounter::new(text).at(offset);
        assert_eq!(at("ab\ncd", 0), (1, 1));
        assert_eq!(at("ab\ncd", 4), (2, 2));
        assert_eq!(at("é\r\nü!", 6), (2, 2));
    }

    #[test]
    fn positions_do_not_depend_on_earlier_calls() {
        let text = "aé\nb\n\ncü d\nlast line";
        let mut counter = LineCounter::new(text);
        let offsets: Vec<usize> = text.char_indices().map(|(offset, _)| offset).collect();
        for offset in offsets.iter().chain(offsets.iter().rev()).chain(offsets.iter().step_by(3)) {
            assert_eq!(counter.at(*offset), LineCounter::new(text).at(*offset), "{offset}");
        }
    }

    #[test]
    fn the_text_of_a_link_is_its_visible_text() {
        let text = |html: &str| LineCounter::new(html).link_text(&ReferenceText::Content("<a".len()..html.len()));
        assert_eq!(text("<a href=x>a &amp; b</a> c"), "a & b");
        assert_eq!(text("<a href=x><img src=i alt='A picture'></a>"), "A picture");
        assert_eq!(text("<a href=x>never closed"), "never closed");
        assert_eq!(text("<a href=x"), "");
        assert_eq!(text(&format!("<a>{}</a>", "word ".repeat(100))).chars().count(), MAX_TEXT);
    }
}
