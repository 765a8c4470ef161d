//! [`TagCounter`]: a minimal handler for the tokenizer.

use argiope_core::page::examine::tokenizer::{Tag, TextMode, TokenHandler};

/// Counts start tags and bytes of text, in one number.
#[derive(Default)]
pub struct TagCounter(pub u64);

impl TokenHandler for TagCounter {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        self.0 += 1;
        match tag.name {
            b"script" => TextMode::Script,
            b"style" => TextMode::RawText,
            _ => TextMode::Markup,
        }
    }

    fn end(&mut self, _: &[u8]) {}

    fn text(&mut self, text: &[u8]) {
        self.0 += text.len() as u64;
    }

    fn cdata(&mut self, _: &[u8]) {}

    fn is_in_foreign(&self) -> bool {
        false
    }
}
