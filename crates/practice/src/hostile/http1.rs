//! Heads and framings of HTTP/1.1 that lie, contradict themselves or never end.

use super::{Case, Expect};
use crate::answer::Answer;

/// A complete answer with these header lines, written as they are.
fn lines(lines: &str, body: &str) -> Answer {
    Answer::raw(format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{lines}\r\n{body}"))
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("H102", "a negative Content-Length", Expect::error("protocol"), |stage| {
            stage.page(lines("Content-Length: -12\r\n", "hello"))
        }),
        Case::new("H104", "a Content-Length beyond all numbers", Expect::error("protocol"), |stage| {
            stage.page(lines("Content-Length: 99999999999999999999999999\r\n", "hello"))
        })
        .choosing("a length that no number can hold is refused as no length at all; nothing is allocated by it"),
    ]
}
