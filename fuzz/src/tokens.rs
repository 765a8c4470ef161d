//! The tokenizer against html5ever's: start tags with their attributes, and end tags.

use std::cell::RefCell;
use std::collections::BTreeMap;

use argiope_core::examine::tokenizer::{Content, Dialect, Sink, Tag, Tokenizer};
use argiope_core::examine::{Place, resolve_references};
use html5ever::tokenizer::states::{Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer as Html5everTokenizer, TokenizerOpts,
};

use super::{piece, steered};

/// Both see the same tags, however the page is cut.
pub fn tokenizer(data: &[u8]) {
    let (page, steer) = steered(data, 1);
    let page = String::from_utf8_lossy(page);
    let expected = theirs(&page);
    assert_eq!(ours(page.as_bytes(), page.len().max(1)), expected, "{page:?}");
    assert_eq!(ours(page.as_bytes(), piece(steer)), expected, "in pieces: {page:?}");
    // Bytes that are no text, and XML, have no oracle here: they must be read to the end.
    let mut sink = Ours::default();
    let mut tokenizer = Tokenizer::new(Dialect::Xml);
    data.chunks(piece(steer)).for_each(|chunk| tokenizer.feed(chunk, &mut sink));
    tokenizer.finish(&mut sink);
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Start { name: String, attributes: BTreeMap<String, String>, self_closing: bool },
    End(String),
}

fn content_of(name: &str) -> Content {
    match name {
        "script" => Content::Script,
        "style" | "xmp" | "iframe" | "noembed" | "noframes" => Content::RawText,
        "title" | "textarea" => Content::RcData,
        "plaintext" => Content::PlainText,
        _ => Content::Markup,
    }
}

#[derive(Default)]
struct Ours(Vec<Seen>);

impl Sink for Ours {
    fn start(&mut self, tag: &Tag<'_>) -> Content {
        let mut attributes = BTreeMap::new();
        for (attribute, value) in tag.attributes() {
            let value = String::from_utf8_lossy(value).replace("\r\n", "\n").replace('\r', "\n");
            let value = || resolve_references(&value, Place::Attribute).into_owned();
            attributes.entry(name(attribute)).or_insert_with(value);
        }
        let name = name(tag.name);
        let content = content_of(&name);
        self.0.push(Seen::Start { name, attributes, self_closing: tag.self_closing });
        content
    }

    fn end(&mut self, tag: &[u8]) {
        self.0.push(Seen::End(name(tag)));
    }

    fn text(&mut self, _text: &[u8]) {}

    fn cdata(&mut self, _text: &[u8]) {}

    fn in_foreign(&self) -> bool {
        false
    }
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes.to_ascii_lowercase()).replace('\0', "\u{FFFD}")
}

fn ours(page: &[u8], piece: usize) -> Vec<Seen> {
    let mut sink = Ours::default();
    let mut tokenizer = Tokenizer::new(Dialect::Html);
    page.chunks(piece).for_each(|chunk| tokenizer.feed(chunk, &mut sink));
    tokenizer.finish(&mut sink);
    sink.0
}

#[derive(Default)]
struct Theirs(RefCell<Vec<Seen>>);

impl TokenSink for Theirs {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        let name = tag.name.to_string();
        if tag.kind == TagKind::EndTag {
            self.0.borrow_mut().push(Seen::End(name));
            return TokenSinkResult::Continue;
        }
        let result = match content_of(&name) {
            Content::Script => TokenSinkResult::RawData(ScriptData),
            Content::RawText => TokenSinkResult::RawData(Rawtext),
            Content::RcData => TokenSinkResult::RawData(Rcdata),
            Content::PlainText => TokenSinkResult::Plaintext,
            Content::Markup | Content::Heard => TokenSinkResult::Continue,
        };
        let attributes = tag.attrs.iter().map(|a| (a.name.local.to_string(), a.value.to_string())).collect();
        self.0.borrow_mut().push(Seen::Start { name, attributes, self_closing: tag.self_closing });
        result
    }
}

fn theirs(input: &str) -> Vec<Seen> {
    let options = TokenizerOpts { discard_bom: false, ..Default::default() };
    let tokenizer = Html5everTokenizer::new(Theirs::default(), options);
    let queue = BufferQueue::default();
    queue.push_back(input.into());
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    tokenizer.sink.0.take()
}
