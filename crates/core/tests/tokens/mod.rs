//! The tags of a page according to the tokenizer of this crate and to that of html5ever.
//!
//! Start tags with attributes and end tags are compared. Text is not.
#![allow(dead_code, reason = "not every test compares the two")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use argiope_core::page::examine::tokenizer::{Tag, TextMode, TokenHandler, Tokenizer};
use argiope_core::page::examine::{TextContext, decode_character_references};
use html5ever::tokenizer::states::{Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer as Html5everTokenizer, TokenizerOpts,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundTag {
    Start { name: String, attributes: BTreeMap<String, String>, self_closing: bool },
    End(String),
}

/// Text after decoding and newline normalization.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes.to_ascii_lowercase()).replace('\0', "\u{FFFD}")
}

/// The tokenizer state after the start tag of this element. In a browser, the tree builder sets it.
fn mode_after(name: &str) -> TextMode {
    match name {
        "script" => TextMode::Script,
        "style" | "xmp" | "iframe" | "noembed" | "noframes" => TextMode::RawText,
        "title" | "textarea" => TextMode::RcData,
        "plaintext" => TextMode::PlainText,
        _ => TextMode::Markup,
    }
}

#[derive(Default)]
struct ArgiopeHandler {
    tags: Vec<FoundTag>,
    /// Whether elements such as `script` change how their content is read ([`mode_after`]).
    switches_mode: bool,
}

impl TokenHandler for ArgiopeHandler {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        let mut attributes = BTreeMap::new();
        for (attribute, value) in tag.attributes() {
            let value = text(value);
            attributes
                .entry(name(attribute))
                .or_insert_with(|| decode_character_references(&value, TextContext::Attribute).into_owned());
        }
        let name = name(tag.name);
        let mode = if self.switches_mode { mode_after(&name) } else { TextMode::Markup };
        self.tags.push(FoundTag::Start { name, attributes, self_closing: tag.self_closing });
        mode
    }

    fn end(&mut self, tag: &[u8]) {
        self.tags.push(FoundTag::End(name(tag)));
    }

    fn text(&mut self, _text: &[u8]) {}

    fn cdata(&mut self, _text: &[u8]) {}

    fn is_in_foreign(&self) -> bool {
        false
    }
}

/// The tags that the tokenizer of this crate finds in the bytes, which are fed in pieces of this size. `switches_mode`:
/// elements such as `script` change how their content is read.
pub fn argiope_tags(mut tokenizer: Tokenizer, input: &[u8], piece: usize, switches_mode: bool) -> Vec<FoundTag> {
    let mut handler = ArgiopeHandler { switches_mode, ..ArgiopeHandler::default() };
    input.chunks(piece).for_each(|chunk| tokenizer.feed(chunk, &mut handler));
    tokenizer.finish(&mut handler);
    handler.tags
}

#[derive(Default)]
struct Html5everSink(RefCell<Vec<FoundTag>>);

impl TokenSink for Html5everSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        let name = tag.name.to_string();
        if tag.kind == TagKind::EndTag {
            self.0.borrow_mut().push(FoundTag::End(name));
            return TokenSinkResult::Continue;
        }
        // `mode_after` never returns the modes named `Captured`. They differ only in the text that the handler gets.
        let result = match mode_after(&name) {
            TextMode::Script | TextMode::CapturedScript => TokenSinkResult::RawData(ScriptData),
            TextMode::RawText | TextMode::CapturedRawText => TokenSinkResult::RawData(Rawtext),
            TextMode::RcData => TokenSinkResult::RawData(Rcdata),
            TextMode::PlainText => TokenSinkResult::Plaintext,
            TextMode::Markup | TextMode::Captured => TokenSinkResult::Continue,
        };
        let attributes = tag.attrs.iter().map(|a| (a.name.local.to_string(), a.value.to_string())).collect();
        self.0.borrow_mut().push(FoundTag::Start { name, attributes, self_closing: tag.self_closing });
        result
    }
}

/// The tags that html5ever finds.
pub fn html5ever_tags(input: &str) -> Vec<FoundTag> {
    let tokenizer =
        Html5everTokenizer::new(Html5everSink::default(), TokenizerOpts { discard_bom: false, ..Default::default() });
    let queue = BufferQueue::default();
    queue.push_back(input.into());
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    tokenizer.sink.0.take()
}
