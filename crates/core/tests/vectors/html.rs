//! The html5lib tests of tokenizers (start tags, attributes, end tags) and of the encoding sniffing algorithm.

use std::sync::Arc;

use argiope_core::Url;
use argiope_core::base::value::DigestAlgorithm;
use argiope_core::page::examine::tokenizer::{Dialect, TextMode, Tokenizer};
use argiope_core::page::examine::{ExamineLimits, Examiner};
use serde_json::Value;

use crate::tally::{Deviations, Tally};
use crate::tokens::{FoundTag, argiope_tags};
use crate::{read, read_bytes};

const TOKENIZER_DEVIATIONS: Deviations = &[(
    "a lone surrogate in the text, which no bytes decode to",
    &[
        "unicodeCharsProblematic.test: Invalid Unicode character U+DFFF (Data state)",
        "unicodeCharsProblematic.test: Invalid Unicode character U+D800 (Data state)",
        "unicodeCharsProblematic.test: Invalid Unicode character U+DFFF with valid preceding character (Data state)",
        "unicodeCharsProblematic.test: Invalid Unicode character U+D800 with valid following character (Data state)",
    ],
)];

/// The files and the number of cases of each; a test counts once for each initial state.
const TOKENIZER_FILES: [(&str, usize); 14] = [
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
];

#[test]
#[ignore = "needs vectors/html5lib_tokenizer"]
fn html5lib_tokenizer() {
    tokenizer();
}

pub fn tokenizer() -> Tally {
    let mut tally = Tally::new("html5lib_tokenizer/*.test", TOKENIZER_DEVIATIONS);
    for (file, count) in TOKENIZER_FILES {
        let vectors = read(&format!("html5lib_tokenizer/{file}"));
        let cases = vectors["tests"].as_array().or(vectors["xmlViolationTests"].as_array()).expect("a list of cases");
        let before = tally.total;
        for case in cases {
            let default = vec![Value::from("Data state")];
            for state in case["initialStates"].as_array().unwrap_or(&default) {
                let state = state.as_str().expect("a state's name");
                let id = format!("{file}: {} ({state})", case["description"].as_str().unwrap_or(""));
                tally.case(&id, finds_expected_tags(case, state), true);
            }
        }
        assert_eq!(tally.total - before, count, "{file}");
    }
    tally.finish(7036)
}

/// Whether the tokenizer finds the expected tags, for several splits of the input.
fn finds_expected_tags(case: &Value, state: &str) -> bool {
    let last_start_tag = case["lastStartTag"].as_str().unwrap_or("");
    let escaped = case["doubleEscaped"].as_bool().unwrap_or(false);
    let input = case["input"].as_str().expect("an input");
    let input = if escaped { unescape(input) } else { Some(input.to_owned()) };
    let (Some(input), Some(expected)) = (input, expected(case, escaped)) else { return false };
    let text_mode = match state {
        "Data state" => TextMode::Markup,
        "RCDATA state" => TextMode::RcData,
        "RAWTEXT state" => TextMode::RawText,
        "Script data state" => TextMode::Script,
        "PLAINTEXT state" => TextMode::PlainText,
        // This state cannot be set from outside, so the input opens the section.
        "CDATA section state" => TextMode::Markup,
        other => panic!("unknown state: {other}"),
    };
    let (dialect, input) = match state {
        "CDATA section state" => (Dialect::Xml, format!("<![CDATA[{input}")),
        _ => (Dialect::Html, input),
    };
    [usize::MAX, 1, 3].into_iter().all(|piece| {
        let tokenizer = Tokenizer::within(dialect, text_mode, last_start_tag.as_bytes());
        let switches_mode = false;
        argiope_tags(tokenizer, input.as_bytes(), piece, switches_mode) == expected
    })
}

/// Decodes the second level of escapes in the vectors; `None` for a lone surrogate, which has no encoding.
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
fn expected(case: &Value, escaped: bool) -> Option<Vec<FoundTag>> {
    let string = |value: &Value| -> Option<String> {
        let text = value.as_str()?;
        if escaped { unescape(text) } else { Some(text.to_owned()) }
    };
    let mut tags = Vec::new();
    for token in case["output"].as_array()? {
        match token[0].as_str()? {
            "StartTag" => {
                let attributes = token[2].as_object()?.iter();
                let attributes: Option<_> = attributes
                    .map(|(key, value)| Some((string(&Value::from(key.as_str()))?, string(value)?)))
                    .collect();
                tags.push(FoundTag::Start {
                    name: string(&token[1])?,
                    attributes: attributes?,
                    self_closing: token[3].as_bool().unwrap_or(false),
                });
            }
            "EndTag" => tags.push(FoundTag::End(string(&token[1])?)),
            _ => {}
        }
    }
    Some(tags)
}

#[test]
#[ignore = "needs vectors/html5lib_tokenizer"]
fn html5lib_encoding() {
    encoding();
}

pub fn encoding() -> Tally {
    let mut tally = Tally::new("html5lib_tokenizer/*.dat (encoding)", &[]);
    for (file, count) in [("tests1.dat", 59), ("tests2.dat", 22), ("test-yahoo-jp.dat", 1)] {
        let read = read_bytes(&format!("html5lib_tokenizer/{file}"));
        let read = String::from_utf8_lossy(&read);
        let before = tally.total;
        for case in read.split("#data\n").filter(|case| !case.trim().is_empty()) {
            let (data, encoding) = case.split_once("\n#encoding\n").expect("a case names its encoding");
            let expected = encoding.trim().to_ascii_lowercase();
            // Without a declaration the vectors expect windows-1252, which is also what detection finds for this text.
            let body = [data.as_bytes(), b" Das Caf\xE9 ist sch\xF6n und gro\xDF"].concat();
            let limits = ExamineLimits {
                max_links: 10,
                max_url: 100,
                max_attrs: 100,
                agent: Arc::from("argiope"),
                assets: false,
                anchors: false,
                digest: DigestAlgorithm::Xxh3,
            };
            let page = Url::parse("http://h.de/").expect("an address");
            let mut examiner = Examiner::new(&page, Some(b"text/html"), limits);
            examiner.feed(&body);
            tally.case(data, examiner.finish().charset, Some(expected.as_str()));
        }
        assert_eq!(tally.total - before, count, "{file}");
    }
    tally.finish(82)
}
