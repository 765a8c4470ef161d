//! [`Tokenizer`]: finds tags with the rules of the HTML standard's tokenizer, without building a tree.
//!
//! It is fed in chunks and processes every byte a bounded number of times. Text is skipped with `memchr`. A tag within
//! one chunk is passed on without a copy, and only a tag across a chunk border is buffered. The [`TokenHandler`]
//! interprets tags: it tracks the state that a tree builder would have, and returns the mode for the bytes after a start
//! tag.
//!
//! Works on every encoding in which the bytes of `<`, `>`, `/`, `=`, quotes and white space always mean these
//! characters: all encodings of the web except UTF-16 and ISO-2022-JP.
//!
//! Invariant: the calls of the handler do not depend on how the input is split.

use memchr::memchr;

use super::characters::{ends_name, is_space, starts_with};
use super::raw_text::{self, ScriptState};
use super::scan::{self, CommentScan, DoctypeScan, TagScan};

/// The size limit of a tag. Attributes that end beyond it are ignored.
pub const MAX_TAG: usize = 64 * 1024;

/// How the bytes after a tag are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextMode {
    /// Tags and text. The text is passed to [`TokenHandler::visible_text`] only.
    Markup,
    /// Tags and text. The text is also passed to [`TokenHandler::text`].
    Captured,
    /// Text with character references up to the end tag of the same name (`title`, `textarea`). It is passed to both
    /// methods.
    RcData,
    /// Text up to the end tag of the same name (`style`, `xmp`, `iframe` and others). It is not passed on.
    RawText,
    /// Like `RawText`, but the text is passed to [`TokenHandler::text`].
    CapturedRawText,
    /// Raw text with the comment rules of scripts.
    Script,
    /// Like `Script`, but the text is passed to [`TokenHandler::text`].
    CapturedScript,
    /// Text to the end of the document.
    PlainText,
}

impl TextMode {
    /// Whether text is passed to [`TokenHandler::text`].
    fn is_captured(self) -> bool {
        matches!(self, Self::Captured | Self::RcData | Self::CapturedRawText | Self::CapturedScript)
    }

    /// Whether text is passed to [`TokenHandler::visible_text`].
    fn is_visible(self) -> bool {
        matches!(self, Self::Markup | Self::Captured | Self::RcData)
    }
}

/// The language whose rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Html,
    /// CDATA sections are allowed everywhere, and a document type may have an internal subset.
    Xml,
}

/// Receives the tokens.
pub trait TokenHandler {
    /// A start tag. Returns the mode for the bytes after it.
    fn start(&mut self, tag: &Tag<'_>) -> TextMode;
    /// An end tag, with its name as received.
    fn end(&mut self, name: &[u8]);
    /// A piece of text, in the modes `Captured`, `RcData`, `CapturedRawText` and `CapturedScript`. Character references
    /// are unresolved.
    fn text(&mut self, text: &[u8]);
    /// A piece of visible text, in the modes `Markup`, `Captured` and `RcData`.
    fn visible_text(&mut self, _text: &[u8]) {}
    /// A piece of a CDATA section: text without character references.
    fn cdata(&mut self, text: &[u8]);
    /// Whether the current element belongs to SVG or MathML. In HTML, CDATA sections exist only there.
    fn is_in_foreign(&self) -> bool;
}

/// A start tag, as received.
#[derive(Clone, Copy)]
pub struct Tag<'a> {
    /// The name as received, in any case.
    pub name: &'a [u8],
    /// The bytes after the name, including the final `>` unless the tag was cut.
    rest: &'a [u8],
    pub self_closing: bool,
    /// Whether the tag is longer than [`MAX_TAG`], so that its end is missing.
    pub is_cut: bool,
}

/// The attributes of a tag as received: names in any case, values with references, duplicates included.
#[derive(Clone)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

/// The position in the markup.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Within text, or before a `<`.
    Text,
    /// Within the first bytes after a `<`, which are buffered.
    Opening,
    /// Within a tag, which is buffered up to the limit.
    Tag(TagScan),
    Comment(CommentScan),
    /// Within something that ends at the next `>`: a bogus comment, a document type, a processing instruction.
    UntilGreater,
    /// Within a CDATA section, after this many closing brackets (0 to 2).
    Cdata(u8),
    /// Within an XML document type.
    Doctype(DoctypeScan),
}

/// Finds the tags of a document.
pub struct Tokenizer {
    state: State,
    /// How the text at this position is processed.
    mode: TextMode,
    dialect: Dialect,
    /// The name of the element whose end tag ends the raw text.
    raw_name: Vec<u8>,
    /// The state within a `script` element.
    script: ScriptState,
    /// Bytes from earlier chunks, from a `<` on: an incomplete tag, or too few bytes to decide what the `<` begins.
    buffer: Vec<u8>,
    /// Whether the buffered tag is longer than the limit.
    is_cut: bool,
    /// The size limit of a tag.
    max_tag: usize,
    /// The mode after an end tag.
    mode_between: TextMode,
}

/// The classification of bytes that begin with `<`.
enum Opening {
    /// Not decided yet.
    Undecided,
    /// The `<` is text.
    Text,
    Tag,
    /// Other markup: the new state and the number of bytes consumed.
    Markup(State, usize),
    /// Text of a script: the new state and the number of bytes consumed.
    Script(ScriptState, usize),
}

impl Tokenizer {
    pub fn new(dialect: Dialect) -> Self {
        Self::within(dialect, TextMode::Markup, b"")
    }

    /// A tokenizer that starts inside the element `name`.
    pub fn within(dialect: Dialect, mode: TextMode, name: &[u8]) -> Self {
        Self {
            state: State::Text,
            mode,
            dialect,
            raw_name: name.to_ascii_lowercase(),
            script: ScriptState::default(),
            buffer: Vec::new(),
            is_cut: false,
            max_tag: MAX_TAG,
            mode_between: TextMode::Markup,
        }
    }

    /// A tokenizer for a page that is in memory as a whole: without a limit on the size of a tag, and with all text between
    /// tags passed on.
    pub fn of_whole_page(dialect: Dialect) -> Self {
        let mode = TextMode::Captured;
        Self { max_tag: usize::MAX, mode_between: mode, ..Self::within(dialect, mode, b"") }
    }

    /// Processes the next chunk of the input.
    pub fn feed(&mut self, chunk: &[u8], handler: &mut impl TokenHandler) {
        let mut rest = chunk;
        while !rest.is_empty() {
            rest = match self.state {
                // The common case first: a predictable branch is cheaper than a seven-way match.
                State::Text => self.read_text(rest, handler),
                _ => self.step(rest, handler),
            };
        }
    }

    /// Processes some bytes and returns the unprocessed ones.
    fn step<'a>(&mut self, rest: &'a [u8], handler: &mut impl TokenHandler) -> &'a [u8] {
        match self.state {
            State::Text => self.read_text(rest, handler),
            State::Opening => self.continue_opening(rest, handler),
            State::Tag(scan) => self.continue_tag(scan, rest, handler),
            State::Comment(scan) => self.continue_comment(scan, rest),
            State::UntilGreater => self.skip_until_greater(rest),
            State::Cdata(brackets) => self.continue_cdata(brackets, rest, handler),
            State::Doctype(scan) => self.continue_doctype(scan, rest),
        }
    }

    /// Ends the input. As the standard requires, an incomplete tag is dropped. A `<` that is not classified yet is
    /// text, with the bytes after it. It is passed on in the modes that capture text.
    pub fn finish(&mut self, handler: &mut impl TokenHandler) {
        if matches!(self.state, State::Opening) && self.mode.is_captured() {
            handler.text(&self.buffer);
        }
        self.buffer.clear();
        self.state = State::Text;
    }

    /// Processes the text before the next `<`, and what the `<` begins. Returns the unprocessed bytes.
    fn read_text<'a>(&mut self, rest: &'a [u8], handler: &mut impl TokenHandler) -> &'a [u8] {
        let next = match self.mode {
            TextMode::PlainText => None,
            TextMode::Script | TextMode::CapturedScript => self.script.skip_to_less_than(rest),
            _ => scan::find(b'<', rest),
        };
        let (text, markup) = rest.split_at(next.unwrap_or(rest.len()));
        if !text.is_empty() {
            if self.mode.is_captured() {
                handler.text(text);
            }
            if self.mode.is_visible() {
                handler.visible_text(text);
            }
        }
        if markup.is_empty() { markup } else { self.read_markup(markup, handler) }
    }

    /// Processes the markup or text at the start of `rest`, whose first byte is `<`. Returns the unprocessed bytes.
    fn read_markup<'a>(&mut self, rest: &'a [u8], handler: &mut impl TokenHandler) -> &'a [u8] {
        // Usually this is a complete tag. Check the other cases only if it is not.
        if matches!(self.mode, TextMode::Markup | TextMode::Captured)
            && begins_tag(rest)
            && let Some(next) = self.read_whole_tag(rest, handler)
        {
            return next;
        }
        match self.decide(rest, handler) {
            Opening::Undecided => {
                self.buffer.clear();
                self.buffer.extend_from_slice(rest);
                self.state = State::Opening;
                &[]
            }
            Opening::Text => {
                if self.mode.is_captured() {
                    handler.text(b"<");
                }
                rest.get(1..).unwrap_or(&[])
            }
            Opening::Tag => self.read_whole_tag(rest, handler).unwrap_or_else(|| {
                // The tag does not end in this chunk. The scan records the state at the end of the chunk.
                let mut scan = TagScan::at_name();
                scan.find_end(rest.get(name_start(rest)..).unwrap_or(&[]));
                self.buffer.clear();
                self.is_cut = false;
                self.push_tag_bytes(rest);
                self.state = State::Tag(scan);
                &[]
            }),
            Opening::Markup(state, length) => {
                self.state = state;
                rest.get(length..).unwrap_or(&[])
            }
            Opening::Script(script, length) => {
                self.script = script;
                if self.mode.is_captured() {
                    handler.text(rest.get(..length).unwrap_or(rest));
                }
                rest.get(length..).unwrap_or(&[])
            }
        }
    }

    /// Processes a tag that ends within the chunk. Returns the bytes after it; `None` if the tag is incomplete.
    fn read_whole_tag<'a>(&mut self, rest: &'a [u8], handler: &mut impl TokenHandler) -> Option<&'a [u8]> {
        let after = rest.get(name_start(rest)..)?;
        let (name, after) = after.split_at(scan::name_end(after)?);
        let (end, self_closing) = scan::whole_tag(after)?;
        let (attributes, next) = after.split_at(end + 1);
        let length = rest.len() - next.len();
        let tag = if length > self.max_tag {
            let excess = length - self.max_tag;
            let kept = attributes.len().saturating_sub(excess);
            let name = name.get(..self.max_tag - name_start(rest)).unwrap_or(name);
            Tag { name, rest: attributes.get(..kept).unwrap_or(&[]), self_closing, is_cut: true }
        } else {
            Tag { name, rest: attributes, self_closing, is_cut: false }
        };
        self.emit(tag, is_end_tag(rest), handler);
        Some(next)
    }

    /// Continues an opening that crosses a chunk border, byte by byte: it is decided within a few bytes.
    fn continue_opening<'a>(&mut self, rest: &'a [u8], handler: &mut impl TokenHandler) -> &'a [u8] {
        let mut buffer = std::mem::take(&mut self.buffer);
        for (index, &byte) in rest.iter().enumerate() {
            buffer.push(byte);
            if !matches!(self.decide(&buffer, handler), Opening::Undecided) {
                // Decided: the buffered bytes are processed again as if they had arrived in one chunk.
                self.state = State::Text;
                let mut buffered = buffer.as_slice();
                while !buffered.is_empty() {
                    buffered = self.step(buffered, handler);
                }
                return rest.get(index + 1..).unwrap_or(&[]);
            }
        }
        self.buffer = buffer;
        &[]
    }

    fn continue_tag<'a>(&mut self, mut scan: TagScan, rest: &'a [u8], handler: &mut impl TokenHandler) -> &'a [u8] {
        match scan.find_end(rest) {
            Some(end) => {
                let (tail, rest) = rest.split_at((end + 1).min(rest.len()));
                self.push_tag_bytes(tail);
                let buffer = std::mem::take(&mut self.buffer);
                let start = name_start(&buffer);
                let after = buffer.get(start..).unwrap_or(&[]);
                let (name, attributes) = after.split_at(scan::name_end(after).unwrap_or(after.len()));
                let tag = Tag { name, rest: attributes, self_closing: scan.self_closing, is_cut: self.is_cut };
                self.emit(tag, is_end_tag(&buffer), handler);
                self.buffer = buffer;
                self.buffer.clear();
                rest
            }
            None => {
                self.push_tag_bytes(rest);
                self.state = State::Tag(scan);
                &[]
            }
        }
    }

    /// Buffers bytes of a tag, up to the limit.
    fn push_tag_bytes(&mut self, bytes: &[u8]) {
        let room = self.max_tag.saturating_sub(self.buffer.len());
        self.is_cut |= bytes.len() > room;
        self.buffer.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Passes a tag to the handler, and sets the mode for the bytes after it.
    fn emit(&mut self, tag: Tag<'_>, is_end_tag: bool, handler: &mut impl TokenHandler) {
        self.state = State::Text;
        if is_end_tag {
            self.mode = self.mode_between;
            handler.end(tag.name);
            return;
        }
        self.mode = handler.start(&tag);
        if matches!(
            self.mode,
            TextMode::RcData
                | TextMode::RawText
                | TextMode::CapturedRawText
                | TextMode::Script
                | TextMode::CapturedScript
        ) {
            self.raw_name.clear();
            self.raw_name.extend(tag.name.iter().map(u8::to_ascii_lowercase));
            self.script = ScriptState::default();
        }
    }

    /// Classifies `bytes`, which begin with `<`.
    fn decide(&self, bytes: &[u8], handler: &impl TokenHandler) -> Opening {
        match self.mode {
            TextMode::Markup | TextMode::Captured => self.decide_markup(bytes, handler),
            TextMode::RcData | TextMode::RawText | TextMode::CapturedRawText => {
                match raw_text::is_end_tag(bytes, &self.raw_name) {
                    None => Opening::Undecided,
                    Some(true) => Opening::Tag,
                    Some(false) => Opening::Text,
                }
            }
            TextMode::Script | TextMode::CapturedScript => match self.script.decide(bytes, &self.raw_name) {
                None => Opening::Undecided,
                Some(raw_text::ScriptStep::EndTag) => Opening::Tag,
                Some(raw_text::ScriptStep::Text(script, length)) => Opening::Script(script, length),
            },
            TextMode::PlainText => Opening::Text,
        }
    }

    fn decide_markup(&self, bytes: &[u8], handler: &impl TokenHandler) -> Opening {
        match bytes.get(1) {
            None => Opening::Undecided,
            Some(byte) if byte.is_ascii_alphabetic() => Opening::Tag,
            Some(b'/') => match bytes.get(2) {
                None => Opening::Undecided,
                Some(byte) if byte.is_ascii_alphabetic() => Opening::Tag,
                Some(_) => Opening::Markup(State::UntilGreater, 2),
            },
            Some(b'?') => Opening::Markup(State::UntilGreater, 1),
            Some(b'!') => {
                let may_be_cdata = self.dialect == Dialect::Xml || handler.is_in_foreign();
                let may_be_doctype = self.dialect == Dialect::Xml;
                let declared = bytes.get(2..).unwrap_or(&[]);
                match (
                    starts_with(declared, b"--"),
                    if may_be_cdata { starts_with(declared, b"[CDATA[") } else { Some(false) },
                    if may_be_doctype { starts_with(declared, b"DOCTYPE") } else { Some(false) },
                ) {
                    (Some(true), ..) => Opening::Markup(State::Comment(CommentScan::Start), b"<!--".len()),
                    (_, Some(true), _) => Opening::Markup(State::Cdata(0), b"<![CDATA[".len()),
                    (.., Some(true)) => Opening::Markup(State::Doctype(DoctypeScan::Head), b"<!DOCTYPE".len()),
                    (Some(false), Some(false), Some(false)) => Opening::Markup(State::UntilGreater, 2),
                    _ => Opening::Undecided,
                }
            }
            Some(_) => Opening::Text,
        }
    }

    fn skip_until_greater<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        match memchr(b'>', rest) {
            Some(end) => {
                self.state = State::Text;
                rest.get(end + 1..).unwrap_or(&[])
            }
            None => &[],
        }
    }

    fn continue_comment<'a>(&mut self, mut scan: CommentScan, rest: &'a [u8]) -> &'a [u8] {
        let end = scan.find_end(rest);
        self.state = if end.is_some() { State::Text } else { State::Comment(scan) };
        end.and_then(|end| rest.get(end + 1..)).unwrap_or(&[])
    }

    fn continue_doctype<'a>(&mut self, mut scan: DoctypeScan, rest: &'a [u8]) -> &'a [u8] {
        let end = scan.find_end(rest);
        self.state = if end.is_some() { State::Text } else { State::Doctype(scan) };
        end.and_then(|end| rest.get(end + 1..)).unwrap_or(&[])
    }

    fn continue_cdata<'a>(&mut self, mut brackets: u8, rest: &'a [u8], handler: &mut impl TokenHandler) -> &'a [u8] {
        let is_captured = self.mode == TextMode::Captured;
        for (index, &byte) in rest.iter().enumerate() {
            match (byte, brackets) {
                (b'>', 2) => {
                    self.state = State::Text;
                    return rest.get(index + 1..).unwrap_or(&[]);
                }
                // Only the last two brackets can end the section. The one before them is text.
                (b']', 2) if is_captured => handler.cdata(b"]"),
                (b']', _) => brackets = (brackets + 1).min(2),
                _ => {
                    if is_captured {
                        handler.cdata(b"]]".get(..usize::from(brackets)).unwrap_or(b""));
                    }
                    let text = rest.get(index..).unwrap_or(&[]);
                    let (text, rest) = text.split_at(memchr(b']', text).unwrap_or(text.len()));
                    if is_captured {
                        handler.cdata(text);
                    }
                    self.state = State::Cdata(0);
                    return rest;
                }
            }
        }
        self.state = State::Cdata(brackets);
        &[]
    }
}

/// Whether this `<` certainly begins a tag.
fn begins_tag(bytes: &[u8]) -> bool {
    match bytes {
        [_, b'/', byte, ..] | [_, byte, ..] => byte.is_ascii_alphabetic(),
        _ => false,
    }
}

/// Whether the bytes from `<` on are an end tag.
fn is_end_tag(tag: &[u8]) -> bool {
    tag.get(1) == Some(&b'/')
}

/// The offset of the tag name in the bytes from `<` on.
fn name_start(tag: &[u8]) -> usize {
    if is_end_tag(tag) { 2 } else { 1 }
}

impl<'a> Tag<'a> {
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes { rest: self.rest }
    }
}

impl<'a> Attributes<'a> {
    /// The attributes in `bytes`, which begin right after the tag name.
    pub fn over(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes after the attributes that the iterator has returned.
    pub fn remainder(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    /// The next name and value; `None` at the end of the tag, or at an attribute that is cut off.
    fn next(&mut self) -> Option<Self::Item> {
        let start = self.rest.iter().position(|&byte| !is_space(byte) && byte != b'/')?;
        let rest = self.rest.get(start..)?;
        if rest.first() == Some(&b'>') {
            return None;
        }
        // A leading `=` belongs to the name.
        let end = 1 + rest.get(1..)?.iter().position(|&byte| ends_name(byte) || byte == b'=')?;
        let (name, rest) = rest.split_at(end);
        let after = rest.iter().position(|&byte| !is_space(byte))?;
        if rest.get(after) != Some(&b'=') {
            self.rest = rest;
            return Some((name, b""));
        }
        let rest = rest.get(after + 1..)?;
        let rest = rest.get(rest.iter().position(|&byte| !is_space(byte))?..)?;
        match rest.first()? {
            quote @ (b'"' | b'\'') => {
                let value = rest.get(1..)?;
                let end = scan::find(*quote, value)?;
                self.rest = value.get(end + 1..)?;
                Some((name, value.get(..end)?))
            }
            b'>' => {
                self.rest = rest;
                Some((name, b""))
            }
            _ => {
                let end = rest.iter().position(|&byte| is_space(byte) || byte == b'>')?;
                self.rest = rest.get(end..)?;
                Some((name, rest.get(..end)?))
            }
        }
    }
}
