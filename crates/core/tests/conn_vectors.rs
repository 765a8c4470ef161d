//! The web platform's own cases about heads and lengths (read from where `ARGIOPE_VECTORS` points).

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;

use std::path::PathBuf;

use argiope_core::ErrorKind;
use base64::Engine as _;
use conn_kit::*;
use serde_json::Value;

fn vectors() -> Option<Value> {
    let Some(folder) = std::env::var_os("ARGIOPE_VECTORS") else {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "LEFT OUT: ARGIOPE_VECTORS is not set, wpt_http1.json was not run");
        return None;
    };
    let path = PathBuf::from(folder).join("wpt_http1.json");
    let text = std::fs::read_to_string(path).expect("the vectors can be read");
    Some(serde_json::from_str(&text).expect("the vectors are JSON"))
}

fn cases<'a>(vectors: &'a Value, group: &str, count: usize) -> &'a [Value] {
    let cases = vectors[group].as_array().expect("a list");
    assert_eq!(cases.len(), count, "{group}");
    cases
}

/// Browsers pass over a Content-Length that is no number and read until the connection closes. We refuse it: whoever
/// sends that does not know where the answer ends, and neither do we.
const LENGTHS_REFUSED: [&str; 9] = [
    "Content-Length: aaaah\r\nContent-Length: aaaah",
    "Content-Length: aaaah, aaaah",
    "Content-Length: aaaah",
    "Content-Length: 42s",
    "Content-Length: 30s",
    "Content-Length: -1",
    "Content-Length: 0x20",
    "Content-Length: \"30\"",
    "Content-Length: ",
];

#[test]
fn content_lengths() {
    let Some(vectors) = vectors() else { return };
    let mut refused = 0;
    for case in cases(&vectors, "content_length", 35) {
        let input = case["input"].as_str().expect("a text");
        let answer = format!("HTTP/1.1 200 OK\r\n{input}\r\n\r\n{}", "x".repeat(42));
        let seen = every_way(&limits(), answer.as_bytes(), After::Close);
        if LENGTHS_REFUSED.contains(&input) {
            refused += 1;
            assert_eq!(seen.kind, Some(ErrorKind::Protocol), "{input:?}");
            continue;
        }
        match case["output"].as_u64() {
            Some(length) => assert_eq!((seen.kind, seen.body.len() as u64), (None, length), "{input:?}"),
            None => assert_eq!(seen.kind, Some(ErrorKind::Protocol), "{input:?}"),
        }
    }
    assert_eq!(refused, LENGTHS_REFUSED.len());
}

/// Where we read what the vector says should not be read.
///
/// - A colon is an ordinary character in a value and in a reason phrase (the vectors say "protocol" because a browser
///   then ignores the X-Frame-Options it is part of); in a name it ends the name.
/// - A bare LF ends a line, so these heads end early, or go on, as they would with CRLF.
/// - `200  OK` stands twice in the vectors, once as good and once as bad.
const HEADS_READ: [&str; 12] = [
    "h1_COLON_after-colon",
    "h1_COLON_before-colon",
    "h1_COLON_after-value",
    "h1_COLON_in-value",
    "h1_COLON_after-reason",
    "h1_COLON_before-reason",
    "h1_COLON_in-name",
    "h1_LF_after-reason",
    "h1_LF_after-value",
    "h1_LF_leading",
    "h1_SP_after-num",
    "lonecr_5",
];

fn check(id: &str, answer: &[u8], expected: &str) {
    let seen = every_way(&limits(), answer, After::Close);
    let expected = if HEADS_READ.contains(&id) { "ok" } else { expected };
    match expected {
        "ok" => assert_eq!(seen.kind, None, "{id}: {}", answer.escape_ascii()),
        _ => assert_eq!(seen.kind, Some(ErrorKind::Protocol), "{id}: {}", answer.escape_ascii()),
    }
}

#[test]
fn heads() {
    let Some(vectors) = vectors() else { return };
    for case in cases(&vectors, "h1_parsing", 102) {
        let answer = case["response_b64"].as_str().expect("a text");
        let answer = base64::engine::general_purpose::STANDARD.decode(answer).expect("base64");
        check(case["id"].as_str().expect("a text"), &answer, case["expected"].as_str().expect("a text"));
    }
    for case in cases(&vectors, "lone_cr", 10) {
        let answer = case["response"].as_str().expect("a text");
        check(case["id"].as_str().expect("a text"), answer.as_bytes(), case["expected"].as_str().expect("a text"));
    }
}
