//! Compares the tokenizer with that of html5ever, on real pages and on malformed ones. The html5lib vectors are in
//! `vectors/html.rs`.

#![allow(clippy::disallowed_methods, reason = "tests read files")]

mod tokens;

use std::path::PathBuf;

use argiope_core::page::examine::tokenizer::{Dialect, Tokenizer};
use proptest::prelude::*;
use tokens::{argiope_tags, html5ever_tags};

/// Elements such as `script` change how their content is read.
const SWITCHES_MODE: bool = true;

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
                let found = argiope_tags(Tokenizer::new(Dialect::Html), page.as_bytes(), 1500, SWITCHES_MODE);
                assert!(found == html5ever_tags(&page), "{}", path.display());
                pages += 1;
                tags += found.len();
            }
        }
    }
    // There may be no pages: not every machine has documentation installed.
    assert!(pages == 0 || tags > 0);
}

/// Pieces of markup, valid and broken.
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
    fn malformed_pages_agree_with_html5ever(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..30),
        piece in 1usize..40,
    ) {
        let input = pieces.concat();
        let expected = html5ever_tags(&input);
        prop_assert_eq!(&argiope_tags(Tokenizer::new(Dialect::Html), input.as_bytes(), input.len().max(1), SWITCHES_MODE), &expected, "{:?}", input);
        prop_assert_eq!(&argiope_tags(Tokenizer::new(Dialect::Html), input.as_bytes(), piece, SWITCHES_MODE), &expected, "{:?}", input);
    }

    #[test]
    fn any_text_agrees_with_html5ever(input in any::<String>(), piece in 1usize..9) {
        prop_assert_eq!(argiope_tags(Tokenizer::new(Dialect::Html), input.as_bytes(), piece, SWITCHES_MODE), html5ever_tags(&input));
    }
}
