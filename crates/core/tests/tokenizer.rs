//! The tokenizer against the html5lib vectors and against html5ever's.
//!
//! Compared are start tags with their attributes, and end tags: the rest is text, which this tokenizer does not make.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use argiope_core::Url;
use argiope_core::examine::tokenizer::{Content, Dialect, Sink, Tag, Tokenizer};
use argiope_core::examine::{Caps, Examiner, Place, resolve_references};
use html5ever::tokenizer::states::{Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer as Html5everTokenizer, TokenizerOpts,
};
use proptest::prelude::*;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Start { name: String, attributes: BTreeMap<String, String>, self_closing: bool },
    End(String),
}

/// Text as it is after decoding and newline normalisation.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes.to_ascii_lowercase()).replace('\0', "\u{FFFD}")
}

/// How a document goes on after this element, where nothing is known of a tree.
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
struct Ours {
    seen: Vec<Seen>,
    /// Whether elements change how the text after them is read.
    switches: bool,
    text: Vec<u8>,
}

impl Sink for Ours {
    fn start(&mut self, tag: &Tag<'_>) -> Content {
        let mut attributes = BTreeMap::new();
        for (attribute, value) in tag.attributes() {
            let value = text(value);
            attributes
                .entry(name(attribute))
                .or_insert_with(|| resolve_references(&value, Place::Attribute).into_owned());
        }
        let name = name(tag.name);
        let content = if self.switches { content_of(&name) } else { Content::Markup };
        self.seen.push(Seen::Start { name, attributes, self_closing: tag.self_closing });
        content
    }

    fn end(&mut self, tag: &[u8]) {
        self.seen.push(Seen::End(name(tag)));
    }

    fn text(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    fn cdata(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    fn in_foreign(&self) -> bool {
        false
    }
}

/// Runs ours over the bytes, cut into pieces of this size.
fn ours(mut tokenizer: Tokenizer, input: &[u8], piece: usize, switches: bool) -> Vec<Seen> {
    let mut sink = Ours { switches, ..Ours::default() };
    input.chunks(piece).for_each(|chunk| tokenizer.feed(chunk, &mut sink));
    tokenizer.finish(&mut sink);
    sink.seen
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
    let tokenizer =
        Html5everTokenizer::new(Theirs::default(), TokenizerOpts { discard_bom: false, ..Default::default() });
    let queue = BufferQueue::default();
    queue.push_back(input.into());
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    tokenizer.sink.0.take()
}

/// The folder of vectors, where there is one.
#[expect(clippy::print_stderr, reason = "a test that proves nothing must say so")]
fn vectors() -> Option<PathBuf> {
    let folder = std::env::var_os("ARGIOPE_VECTORS").map(|folder| PathBuf::from(folder).join("html5lib_tokenizer"));
    if folder.is_none() {
        eprintln!("ARGIOPE_VECTORS IS NOT SET: THE HTML5LIB VECTORS ARE NOT RUN");
    }
    folder
}

/// Undoes the vectors' second level of escapes; `None` for a lone surrogate, which no bytes can stand for.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\u") {
        out.push_str(before);
        out.push(char::from_u32(u32::from_str_radix(after.get(..4)?, 16).ok()?)?);
        rest = after.get(4..)?;
    }
    out.push_str(rest);
    Some(out)
}

/// The tags of a vector's expected output.
fn expected(case: &Value, escaped: bool) -> Option<Vec<Seen>> {
    let string = |value: &Value| -> Option<String> {
        let text = value.as_str()?;
        if escaped { unescape(text) } else { Some(text.to_owned()) }
    };
    let mut seen = Vec::new();
    for token in case["output"].as_array()? {
        match token[0].as_str()? {
            "StartTag" => {
                let attributes = token[2].as_object()?.iter();
                let attributes: Option<_> = attributes
                    .map(|(key, value)| Some((string(&Value::from(key.as_str()))?, string(value)?)))
                    .collect();
                seen.push(Seen::Start {
                    name: string(&token[1])?,
                    attributes: attributes?,
                    self_closing: token[3].as_bool().unwrap_or(false),
                });
            }
            "EndTag" => seen.push(Seen::End(string(&token[1])?)),
            _ => {}
        }
    }
    Some(seen)
}

#[test]
fn html5lib_tokenizer_vectors() {
    let Some(folder) = vectors() else { return };
    let (mut run, mut inexpressible) = (0, Vec::new());
    for (file, count) in [
        ("contentModelFlags.test", 24),
        ("domjs.test", 59),
        ("entities.test", 80),
        ("escapeFlag.test", 9),
        ("namedEntities.test", 4210),
        ("numericEntities.test", 336),
        ("pendingSpecChanges.test", 1),
        ("test1.test", 69),
        ("test2.test", 45),
        ("test3.test", 1786),
        ("test4.test", 85),
        ("unicodeChars.test", 323),
        ("unicodeCharsProblematic.test", 5),
        ("xmlViolation.test", 4),
    ] {
        let read = std::fs::read_to_string(folder.join(file)).expect("the vectors hold this file");
        let read: Value = serde_json::from_str(&read).expect("vectors are JSON");
        let cases = read["tests"].as_array().or(read["xmlViolationTests"].as_array()).expect("a list of cases");
        let mut here = 0;
        for case in cases {
            let default = vec![Value::from("Data state")];
            for state in case["initialStates"].as_array().unwrap_or(&default) {
                here += 1;
                let state = state.as_str().expect("a state's name");
                let last = case["lastStartTag"].as_str().unwrap_or("");
                let escaped = case["doubleEscaped"].as_bool().unwrap_or(false);
                let input = case["input"].as_str().expect("an input");
                let input = if escaped { unescape(input) } else { Some(input.to_owned()) };
                let (Some(input), Some(expected)) = (input, expected(case, escaped)) else {
                    inexpressible.push(format!("{file}: {} ({state})", case["description"]));
                    continue;
                };
                let content = match state {
                    "Data state" => Content::Markup,
                    "RCDATA state" => Content::RcData,
                    "RAWTEXT state" => Content::RawText,
                    "Script data state" => Content::Script,
                    "PLAINTEXT state" => Content::PlainText,
                    // The state itself cannot be entered from outside: the section is opened.
                    "CDATA section state" => Content::Markup,
                    other => panic!("a state that nobody knows: {other}"),
                };
                let (dialect, input) = match state {
                    "CDATA section state" => (Dialect::Xml, format!("<![CDATA[{input}")),
                    _ => (Dialect::Html, input),
                };
                for piece in [usize::MAX, 1, 3] {
                    let tokenizer = Tokenizer::within(dialect, content, last.as_bytes());
                    let found = ours(tokenizer, input.as_bytes(), piece, false);
                    assert_eq!(found, expected, "{file}: {} ({state}) {input:?}", case["description"]);
                }
                run += 1;
            }
        }
        assert_eq!(here, count, "{file}");
    }
    // Lone surrogates: no bytes decode to them.
    assert_eq!((run, inexpressible.len()), (7032, 4), "{inexpressible:#?}");
}

#[test]
fn html5lib_encoding_vectors() {
    let Some(folder) = vectors() else { return };
    let mut run = 0;
    for (file, count) in [("tests1.dat", 59), ("tests2.dat", 22), ("test-yahoo-jp.dat", 1)] {
        let read = std::fs::read(folder.join(file)).expect("the vectors hold this file");
        let read = String::from_utf8_lossy(&read).into_owned();
        let mut here = 0;
        for case in read.split("#data\n").filter(|case| !case.trim().is_empty()) {
            let (data, encoding) = case.split_once("\n#encoding\n").expect("a case names its encoding");
            let expected = encoding.trim().to_ascii_lowercase();
            // Where nothing is declared, the vectors expect the western default: with such text, detection says so too.
            let body = [data.as_bytes(), b" Das Caf\xE9 ist sch\xF6n und gro\xDF"].concat();
            let caps = Caps { max_links: 10, max_url: 100, max_attrs: 100, agent: Arc::from("argiope") };
            let mut examiner =
                Examiner::new(&Url::parse("http://h.de/").expect("an address"), Some(b"text/html"), caps);
            examiner.feed(&body);
            let found = examiner.finish().charset.expect("HTML has a charset");
            assert_eq!(found, expected, "{file} {data:?}");
            here += 1;
        }
        assert_eq!(here, count, "{file}");
        run += here;
    }
    assert_eq!(run, 82);
}

#[test]
fn real_pages_agree_with_html5ever() {
    let mut folders = vec![PathBuf::from("/usr/share/doc")];
    let (mut pages, mut tags) = (0, 0);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html" || extension == "htm") && pages < 200
            {
                let Ok(page) = std::fs::read(&path) else { continue };
                let page = String::from_utf8_lossy(&page);
                let found = ours(Tokenizer::new(Dialect::Html), page.as_bytes(), 1500, true);
                assert!(found == theirs(&page), "{}", path.display());
                pages += 1;
                tags += found.len();
            }
        }
    }
    // No page at all is fine: a machine may have no documentation.
    assert!(pages == 0 || tags > 0);
}

/// Bits of markup, whole and broken.
const PIECES: [&str; 60] = [
    "<a",
    "<a ",
    "href",
    "=",
    "\"",
    "'",
    ">",
    "/",
    "</a>",
    "</",
    "<",
    "<!--",
    "--",
    "-",
    ">",
    "!",
    "-->",
    "--!>",
    "<!",
    "<!-",
    "<!doctype",
    "[CDATA[",
    "<![CDATA[",
    "]]>",
    "<?",
    "<script>",
    "</script",
    "</script>",
    "<script",
    "<style>",
    "</style>",
    "</styl",
    "<title>",
    "</title>",
    "<textarea>",
    "</textarea >",
    "<xmp>",
    "</xmp/",
    "<plaintext>",
    "&amp;",
    "&amp",
    "&copy=",
    "&#x41;",
    "&#65",
    "&notin;",
    "&notit;",
    "&",
    " ",
    "\n",
    "\r\n",
    "\t",
    "\x0C",
    "\0",
    "é",
    "日",
    "x",
    "A",
    "1",
    "`",
    "<br/>",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn messy_pages_agree_with_html5ever(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..30),
        piece in 1usize..40,
    ) {
        let input = pieces.concat();
        let expected = theirs(&input);
        prop_assert_eq!(&ours(Tokenizer::new(Dialect::Html), input.as_bytes(), input.len().max(1), true), &expected, "{:?}", input);
        prop_assert_eq!(&ours(Tokenizer::new(Dialect::Html), input.as_bytes(), piece, true), &expected, "{:?}", input);
    }

    #[test]
    fn any_text_agrees_with_html5ever(input in any::<String>(), piece in 1usize..9) {
        prop_assert_eq!(ours(Tokenizer::new(Dialect::Html), input.as_bytes(), piece, true), theirs(&input));
    }
}
