//! Pages that are expensive for naive parsers. Each is read in linear time, also in small pieces.
//!
//! The allowed time is a hundred times what reading takes. Work that grows with the square of the size would take
//! minutes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use argiope_core::Url;
use argiope_core::base::value::DigestAlgorithm;
use argiope_core::page::examine::{ExamineLimits, Examiner, Findings};

const SIZE: usize = 300_000;

fn examine(content_type: &str, body: &[u8], piece: usize) -> Findings {
    let limits = ExamineLimits {
        max_links: 10_000,
        max_url: 4096,
        max_attrs: 256,
        agent: Arc::from("argiope"),
        assets: true,
        anchors: true,
        digest: DigestAlgorithm::Xxh3,
    };
    let page = Url::parse("http://h/").expect("an address");
    let mut examiner = Examiner::new(&page, Some(content_type.as_bytes()), limits);
    body.chunks(piece).for_each(|chunk| examiner.feed(chunk));
    examiner.finish()
}

/// A page of about [`SIZE`] bytes that repeats `pattern`; `{}` is replaced by the number of the repetition.
fn repeat(head: &str, pattern: &str) -> Vec<u8> {
    let mut page = head.to_owned();
    let mut number = 0;
    while page.len() < SIZE {
        page.push_str(&pattern.replace("{}", &number.to_string()));
        number += 1;
    }
    page.into_bytes()
}

#[test]
fn hostile_pages_are_read_in_linear_time() {
    for (name, page) in [
        ("text without tags", repeat("", "x")),
        ("nested lists", repeat("", "<ul><li>")),
        ("nested anchors", repeat("", "<a><i></a>")),
        ("a tag of many attributes", repeat("<a ", "a{}=b ")),
        ("a tag of one value", repeat("<a href='", "x")),
        ("a tag of one name", repeat("<a", "x")),
        ("a tag of slashes", repeat("<a ", "/")),
        ("a tag of equals signs", repeat("<a ", "=")),
        ("a tag of quotes", repeat("<a ", "\"'=")),
        ("many links", repeat("", "<a href=/{}>")),
        ("one link many times", repeat("", "<a href=/>")),
        ("many titles", repeat("", "<title>x</title>")),
        ("one title", repeat("<title>", "</titl ")),
        ("less-than signs", repeat("", "<")),
        ("openings", repeat("", "<!-")),
        ("half comments", repeat("<!--", "-- >")),
        ("dashes", repeat("<!--", "-")),
        ("a script of openings", repeat("<script>", "<!--<script>")),
        ("a script of ends", repeat("<script>", "</scrip")),
        ("CDATA in foreign content", repeat("<svg><![CDATA[", "]]")),
        ("nested svg", repeat("", "<svg><title>")),
        ("svg and ends", repeat("<svg>", "<g></desc></p>")),
        ("templates", repeat("", "<template>")),
        ("references", repeat("<a href='", "&a&#")),
        ("a long reference", repeat("<title>&", "a")),
        ("a long number", repeat("<title>&#", "9")),
        ("srcset", repeat("<img srcset='", ",")),
        ("bases", repeat("", "<base href=//[>")),
        ("NULs", repeat("", "\0")),
        ("brackets", repeat("<!DOCTYPE x [", "] ")),
        ("end tags", repeat("", "</a>")),
        ("metas", repeat("", "<meta charset=x content='charset charset'>")),
        ("dots", repeat("<a href='", "../")),
    ] {
        for content_type in ["text/html; charset=utf-8", "text/html", "text/xml", "text/html; charset=utf-16le"] {
            let start = Instant::now();
            let whole = examine(content_type, &page, usize::MAX);
            let cut = examine(content_type, &page, 7);
            assert!(start.elapsed() < Duration::from_secs(20), "{name} as {content_type}: {:?}", start.elapsed());
            assert_eq!(format!("{whole:?}"), format!("{cut:?}"), "{name} as {content_type}");
            assert!(whole.links.len() <= 10_000);
        }
    }
}

#[test]
fn binary_data_is_read_without_harm() {
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(SIZE)
    .collect();
    for content_type in ["text/html", "text/xml", "text/html;charset=iso-2022-jp", "text/html;charset=gb18030", ""] {
        let whole = examine(content_type, &noise, usize::MAX);
        let cut = examine(content_type, &noise, 1);
        assert_eq!(format!("{whole:?}"), format!("{cut:?}"), "{content_type}");
    }
}
