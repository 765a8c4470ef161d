//! HTTP/1.1 responses and their results.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;

use argiope_core::ErrorKind::{self, *};
use argiope_core::Truncated::{self, Disconnect, Length, Time};
use argiope_core::http::conn::Limits;
use conn_kit::*;

/// A response and its expected result.
struct Case {
    name: &'static str,
    response: &'static str,
    after: After,
    status: Option<u16>,
    /// The error, and why the body is incomplete if a part of it is kept.
    failure: Option<(ErrorKind, Option<Truncated>)>,
    body: &'static str,
    reusable: bool,
}

/// A complete response, after which the connection can or cannot be reused.
const fn whole(name: &'static str, response: &'static str, status: u16, body: &'static str, reusable: bool) -> Case {
    Case { name, response, after: After::Stay, status: Some(status), failure: None, body, reusable }
}

/// A complete response that ends with the connection.
const fn closing(name: &'static str, response: &'static str, status: u16, body: &'static str) -> Case {
    Case { name, response, after: After::Close, status: Some(status), failure: None, body, reusable: false }
}

/// An unusable response, detected before the end of the connection.
const fn refused(name: &'static str, response: &'static str, kind: ErrorKind) -> Case {
    Case { name, response, after: After::Stay, status: None, failure: Some((kind, None)), body: "", reusable: false }
}

/// An incomplete body.
const fn cut(
    name: &'static str,
    response: &'static str,
    after: After,
    kind: ErrorKind,
    truncated: Truncated,
    body: &'static str,
) -> Case {
    Case { name, response, after, status: Some(200), failure: Some((kind, Some(truncated))), body, reusable: false }
}

const FRAMING: &[Case] = &[
    whole("length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true),
    whole("length zero", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true),
    whole(
        "length twice, equal",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        200,
        "hi",
        true,
    ),
    whole("length as a list", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2 ,2\r\n\r\nhi", 200, "hi", true),
    whole("length with zeros before it", "HTTP/1.1 200 OK\r\nContent-Length: 002\r\n\r\nhi", 200, "hi", true),
    refused("lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Protocol),
    refused("length with a minus", "HTTP/1.1 200 OK\r\nContent-Length: -12\r\n\r\n", Protocol),
    refused("length with a plus", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", Protocol),
    refused("length with a space in it", "HTTP/1.1 200 OK\r\nContent-Length: 1 2\r\n\r\n", Protocol),
    refused("length that is not a number", "HTTP/1.1 200 OK\r\nContent-Length: banana\r\n\r\n", Protocol),
    refused("length without value", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", Protocol),
    refused(
        "length that is too large for any number",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        Protocol,
    ),
    closing("until close", "HTTP/1.1 200 OK\r\n\r\nhello", 200, "hello"),
    closing("until close, nothing", "HTTP/1.1 200 OK\r\n\r\n", 200, ""),
    cut("until close, reset", "HTTP/1.1 200 OK\r\n\r\nhello", After::Reset, Reset, Disconnect, "hello"),
    cut(
        "length, closed",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        After::Close,
        Reset,
        Disconnect,
        "hello",
    ),
    cut("length, reset", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", After::Reset, Reset, Disconnect, "hello"),
    cut(
        "length, stalled",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        After::Stay,
        TimeoutIdle,
        Time,
        "hello",
    ),
    whole(
        "chunks",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        200,
        "hello world",
        true,
    ),
    whole(
        "chunks with extensions and trailers, sizes in capitals with zeros",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n00A;a=b;c=\"d\"\r\n0123456789\r\n0;x\r\nX-T: 1\r\nX-U: 2\r\n\r\n",
        200,
        "0123456789",
        true,
    ),
    whole(
        "chunk lines with blanks and bare LF",
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3  \nabc\n2\t;x\nde\n0\n\n",
        200,
        "abcde",
        true,
    ),
    whole(
        "chunks and a length: chunks win, and the connection is not reused",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
        200,
        "0123456789",
        false,
    ),
    whole(
        "identity is not a coding",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi",
        200,
        "hi",
        true,
    ),
    whole(
        "chunks in HTTP/1.0",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        200,
        "hi",
        false,
    ),
    whole(
        "chunked twice",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        200,
        "hi",
        false,
    ),
    whole(
        "identity and chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        200,
        "hi",
        false,
    ),
    refused("chunked and then gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", Protocol),
    refused("gzip as transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Decode),
    refused("unknown transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n", Decode),
    cut(
        "chunks, closed before the last",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        After::Close,
        Reset,
        Disconnect,
        "hello",
    ),
    cut(
        "chunks, closed in one",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        After::Close,
        Reset,
        Disconnect,
        "hel",
    ),
    closing(
        "chunks, closed right after the last one's size",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n",
        200,
        "hi",
    ),
];

const BROKEN_CHUNKS: &[(&str, &str)] = &[
    ("no size", "\r\n"),
    ("no number", "banana\r\n"),
    ("a prefix", "0x5\r\nhello\r\n"),
    ("a minus", "-1\r\n"),
    ("17 digits", "ffffffffffffffff0\r\n"),
    ("zeros without end", "00000000000000000\r\n"),
    ("CR alone after the size", "5\rhello"),
    ("CR alone in an extension", "5;a\rb\nhello"),
    ("longer than its size", "2\r\nhello\r\n0\r\n\r\n"),
    ("CR alone after the data", "2\r\nhi\r0\r\n\r\n"),
    ("CR alone in a trailer", "0\r\nX\rY: 1\r\n\r\n"),
];

const HEADS: &[Case] = &[
    // What is tolerated.
    whole("bare LF", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, "hi", true),
    whole("LF and CRLF mixed", "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nhi", 200, "hi", true),
    whole("no reason", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true),
    whole("an empty reason", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true),
    whole("a reason beyond ASCII", "HTTP/1.1 200 C\u{e9}\u{2713}\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true),
    whole(
        "values beyond ASCII",
        "HTTP/1.1 200 OK\r\nLocation: /\u{e9}\r\nContent-Length: 2\r\n\r\nhi",
        200,
        "hi",
        true,
    ),
    whole("white space around a value", "HTTP/1.1 200 OK\r\nContent-Length: \t 2 \t \r\n\r\nhi", 200, "hi", true),
    whole("no white space before a value", "HTTP/1.1 200 OK\r\nContent-Length:2\r\n\r\nhi", 200, "hi", true),
    whole("a folded value", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true),
    whole("a folded length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nhi", 200, "hi", true),
    whole("an unknown status", "HTTP/1.1 999 Denied\r\nContent-Length: 2\r\n\r\nhi", 999, "hi", true),
    whole(
        "interim responses",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        200,
        "hi",
        true,
    ),
    whole("a control in a value", "HTTP/1.1 200 OK\r\nX-A: a\x01\x7fb\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true),
    whole("a blank in a name", "HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true),
    whole("a blank after a name", "HTTP/1.1 200 OK\nX-A : b\n c\nContent-Length: 2\n\nhi", 200, "hi", true),
    whole("a name in brackets", "HTTP/1.1 200 OK\r\n(X)é: b\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true),
    // What is refused.
    refused("a length with a blank in its name", "HTTP/1.1 200 OK\r\nContent Length: 2\r\n\r\nhi", Protocol),
    refused("a malformed transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding\x0b: chunked\r\n\r\n", Protocol),
    refused("NUL in a name", "HTTP/1.1 200 OK\r\nX\0A: a\r\n\r\n", Protocol),
    refused("HTTP/0.9", "<html>hi", Protocol),
    refused("another protocol", "SSH-2.0-OpenSSH_9.6\r\n", Protocol),
    refused("an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", Protocol),
    refused("ICY", "ICY 200 OK\r\n\r\n", Protocol),
    refused("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", Protocol),
    refused("HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n", Protocol),
    refused("a negative status", "HTTP/1.1 -12 OK\r\n\r\n", Protocol),
    refused("a status of one digit", "HTTP/1.1 2 OK\r\n\r\n", Protocol),
    refused("a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", Protocol),
    refused("a status below 100", "HTTP/1.1 099 OK\r\n\r\n", Protocol),
    refused("no status", "HTTP/1.1 OK\r\n\r\n", Protocol),
    refused("two spaces before the status", "HTTP/1.1  200 OK\r\n\r\n", Protocol),
    refused("a field without colon", "HTTP/1.1 200 OK\r\nJustText\r\n\r\n", Protocol),
    refused("a field without name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", Protocol),
    refused("a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello", Protocol),
    refused("a space before the first field", "HTTP/1.1 200 OK\r\n X: 1\r\n\r\n", Protocol),
    refused("CR alone in a value", "HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: evil=1\r\n\r\n", Protocol),
    refused("NUL in a value", "HTTP/1.1 200 OK\r\nX-A: a\0b\r\n\r\n", Protocol),
    refused(
        "an upgrade that was not requested",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        Protocol,
    ),
];

/// Responses that differ in whether the connection can be reused.
const KEEPING: &[Case] = &[
    whole("close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", false),
    whole(
        "close among others",
        "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 2\r\n\r\nhi",
        200,
        "hi",
        false,
    ),
    whole(
        "close beats keep-alive",
        "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        200,
        "hi",
        false,
    ),
    whole("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", false),
    whole(
        "HTTP/1.0 that stays",
        "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi",
        200,
        "hi",
        true,
    ),
    whole("204", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true),
    whole(
        "304 with the length of what is not sent",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        304,
        "",
        true,
    ),
    whole("204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", 204, "", false),
    whole(
        "304 with a body in chunks",
        "HTTP/1.1 304 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        304,
        "",
        false,
    ),
    whole(
        "a second response",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        200,
        "hello",
        false,
    ),
];

/// Connections without a complete head.
const NOTHING: &[Case] = &[
    Case { after: After::Close, ..refused("nothing at all", "", EmptyReply) },
    Case { after: After::Reset, ..refused("a reset at once", "", Reset) },
    refused("silence", "", TimeoutFirstByte),
    Case { after: After::Close, ..refused("closed in the head", "HTTP/1.1 200 OK\r\nX-A: b", Reset) },
    Case { after: After::Reset, ..refused("reset in the head", "HTTP/1.1 200 OK\r\nX-A: b", Reset) },
    refused("silence in the head", "HTTP/1.1 200 OK\r\nX-A: b", TimeoutFirstByte),
    Case { after: After::Close, ..refused("closed after an interim response", "HTTP/1.1 100 Continue\r\n\r\n", Reset) },
    Case {
        after: After::Close,
        ..refused("closed in a head that is wrong", "HTTP/1.1 200 OK\r\nX\0A: b\r\n", Protocol)
    },
];

fn check(case: &Case) {
    let result = run_with_every_split(&limits(), case.response.as_bytes(), case.after);
    let name = case.name;
    assert_eq!((result.kind, result.truncated), (case.failure.map(|f| f.0), case.failure.and_then(|f| f.1)), "{name}");
    assert_eq!(result.status, case.status, "{name}");
    assert_eq!(result.body.escape_ascii().to_string(), case.body.as_bytes().escape_ascii().to_string(), "{name}");
    assert_eq!(result.reusable, case.reusable, "{name}");
    // Bytes after a complete response prevent reuse, and change nothing else.
    if result.kind.is_none() && case.after == After::Stay {
        let longer = [case.response.as_bytes(), b"HTTP/1.1 200 OK\r\n"].concat();
        let with_more = run_with_every_split(&limits(), &longer, After::Stay);
        assert_eq!(with_more, ExchangeResult { reusable: false, ..result }, "{name}, with more bytes after it");
    }
}

#[test]
fn bodies_are_framed_as_the_head_declares() {
    FRAMING.iter().for_each(check);
}

#[test]
fn heads_are_accepted_or_refused() {
    HEADS.iter().for_each(check);
}

#[test]
fn connections_are_reused_if_the_response_allows_it() {
    KEEPING.iter().for_each(check);
}

#[test]
fn connections_without_a_complete_head_fail() {
    NOTHING.iter().for_each(check);
}

#[test]
fn broken_chunks_truncate_the_body_or_fail_if_they_come_first() {
    let run = |chunks: &str| {
        let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        run_with_every_split(&limits(), response.as_bytes(), After::Stay)
    };
    for (name, chunks) in BROKEN_CHUNKS {
        let result = run(&format!("3\r\nabc\r\n{chunks}"));
        assert_eq!((result.kind, result.truncated), (Some(Protocol), Some(Truncated::Decode)), "{name}");
        assert!(result.body.starts_with(b"abc") && !result.reusable, "{name}");
    }
    for chunks in ["\r\n", "banana\r\n", "0x5\r\nhello\r\n"] {
        assert_eq!((run(chunks).kind, run(chunks).truncated), (Some(Protocol), None));
    }
}

#[test]
fn malformed_fields_are_dropped_and_reported() {
    let read = |fields: &str| {
        let mut recorder = Recorder::default();
        let response = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
        let end = exchange(&limits(), &[response.as_bytes()], After::Stay, &mut recorder);
        assert_eq!((end.failure, recorder.wire.as_slice()), (None, response.as_bytes()));
        recorder.head.unwrap()
    };
    let plain = read("A: 1\r\n");
    assert!(!plain.has_dropped_fields && !plain.has_controls);
    let dropped = read("A: 1\r\nB c: 2\r\n folded\r\nD:\t3 \r\n and 4\r\nSet-Cookie : a=b\r\n");
    assert!(dropped.has_dropped_fields && !dropped.has_controls);
    let fields: Vec<_> = dropped.iter().collect();
    let expected: [(&[u8], &[u8]); 3] = [(b"A", b"1"), (b"D", b"3 and 4"), (b"Content-Length", b"0")];
    assert_eq!(fields, expected);
    let controls = read("A: \x0c1\x1b[0m\x0c\r\n");
    assert!(!controls.has_dropped_fields && controls.has_controls);
    assert_eq!(controls.get("a"), Some(b"\x0c1\x1b[0m\x0c".as_slice()));
    // Dropped fields count too: the limit is 256.
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A b: c\r\n".repeat(257));
    assert_eq!(run_exchange(&limits(), &[many.as_bytes()], After::Stay).kind, Some(HeaderTooLarge));
}

#[test]
fn folded_fields_are_joined_and_raw_bytes_are_kept() {
    let raw = b"HTTP/1.1 200 OK\r\nA: 1\r\nFolded: x \r\n\t y\r\n  z\r\nB:\xe9\r\na: 2\r\nContent-Length: 0\r\n\r\n";
    for pieces in [vec![raw.as_slice()], raw.chunks(1).collect()] {
        let mut recorder = Recorder::default();
        let end = exchange(&limits(), &pieces, After::Stay, &mut recorder);
        let head = recorder.head.unwrap();
        assert_eq!(&*head.text(), raw);
        assert_eq!(recorder.wire, raw);
        assert_eq!(end.bytes_wire, raw.len() as u64);
        assert_eq!(head.get("folded"), Some(b"x y z".as_slice()));
        assert_eq!(head.get("b"), Some(b"\xe9".as_slice()));
        assert_eq!(head.get_all("A").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(head.get("c"), None);
        let names: Vec<&[u8]> = head.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [b"A".as_slice(), b"Folded", b"B", b"a", b"Content-Length"]);
    }
}

#[test]
fn heads_beyond_a_limit_fail() {
    let limits = Limits { max_head: 100, max_headers: 3, max_1xx: 2, ..limits() };
    let fits = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "a".repeat(57));
    assert_eq!(fits.len(), 100);
    assert_eq!(run_with_every_split(&limits, fits.as_bytes(), After::Stay).kind, None);
    let over = fits.replace("a\r", "aa\r");
    assert_eq!(run_with_every_split(&limits, over.as_bytes(), After::Stay).kind, Some(HeaderTooLarge));
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(300));
    assert_eq!(run_with_every_split(&limits, endless.as_bytes(), After::Stay).kind, Some(HeaderTooLarge));
    let many = "HTTP/1.1 200 OK\r\nA:1\r\nB:1\r\nC:1\r\nContent-Length:0\r\n\r\n";
    assert_eq!(run_with_every_split(&limits, many.as_bytes(), After::Stay).kind, Some(HeaderTooLarge));
    let storm = "HTTP/1.1 100 Continue\r\n\r\n".repeat(3);
    assert_eq!(run_with_every_split(&limits, storm.as_bytes(), After::Stay).kind, Some(Protocol));
}

#[test]
fn set_cookie_fields_do_not_count_whatever_the_limit_is() {
    let cookies = "Set-Cookie: a=b\r\n".repeat(70);
    for max_headers in [3, 64, 65, 100] {
        let limits = Limits { max_headers, ..limits() };
        let fields: String = (1..max_headers).map(|n| format!("X-{n}: {n}\r\n")).collect();
        let fits = format!("HTTP/1.1 200 OK\r\n{cookies}{fields}Content-Length: 0\r\n\r\n");
        let kind_of = |response: &str| {
            let end = exchange(&limits, &[response.as_bytes()], After::Stay, &mut Recorder::default());
            end.failure.map(|failure| failure.kind)
        };
        assert_eq!(kind_of(&fits), None, "{max_headers}");
        let over = fits.replace("Content-Length", "X: 1\r\nContent-Length");
        assert_eq!(kind_of(&over), Some(HeaderTooLarge), "{max_headers}");
    }
}

#[test]
fn heads_with_many_fields_are_read() {
    for count in [63, 64, 65, 150, 255] {
        let fields: String = (0..count).map(|n| format!("X-{n}: {n}\r\n")).collect();
        let response = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nhi");
        let mut recorder = Recorder::default();
        let end = exchange(&limits(), &[response.as_bytes()], After::Stay, &mut recorder);
        assert_eq!(end.failure, None);
        assert_eq!(recorder.head.unwrap().len(), count + 1);
    }
}

#[test]
fn chunk_extensions_and_trailers_are_limited() {
    let limits = Limits { max_extensions: 10, max_trailers: 10, ..limits() };
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let run = |chunks: &str| run_with_every_split(&limits, format!("{head}{chunks}").as_bytes(), After::Stay).kind;
    assert_eq!(run("1;12345\r\na\r\n1;12345\r\na\r\n0\r\n\r\n"), None);
    assert_eq!(run("1;12345\r\na\r\n1;123456\r\na\r\n0\r\n\r\n"), Some(Protocol));
    let flood = format!("{head}1;12345\r\na\r\n1;123456\r\na\r\n");
    assert_eq!(
        run_with_every_split(&limits, flood.as_bytes(), After::Stay).truncated,
        None,
        "a flood is not a broken chunk"
    );
    assert_eq!(run("1           \r\na\r\n0\r\n\r\n"), Some(Protocol));
    assert_eq!(run("1\r\na\r\n0\r\nA:34\r\nB:78\r\n\r\n"), None);
    assert_eq!(run("1\r\na\r\n0\r\nA:34\r\nB:78\r\nC:\r\nD\r\n\r\n"), Some(HeaderTooLarge));
}

#[test]
fn bodies_beyond_the_limit_are_truncated() {
    let limits = Limits { max_body: 5, ..limits() };
    for (head, frame) in [
        ("Content-Length: 6\r\n\r\n", "abcdef"),
        ("\r\n", "abcdef"),
        ("Transfer-Encoding: chunked\r\n\r\n", "2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n"),
    ] {
        let response = format!("HTTP/1.1 200 OK\r\n{head}{frame}");
        let result = run_with_every_split(&limits, response.as_bytes(), After::Close);
        assert_eq!((result.kind, result.truncated), (Some(TooLarge), Some(Length)));
        assert_eq!(result.body, b"abcde");
        assert!(!result.reusable);
    }
    let fits = run_with_every_split(&limits, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", After::Stay);
    assert_eq!((fits.kind, fits.reusable), (None, true));
    let fits = run_with_every_split(&limits, b"HTTP/1.1 200 OK\r\n\r\nabcde", After::Close);
    assert_eq!(fits.kind, None);
}

#[test]
fn an_unwanted_body_is_skipped() {
    let run = |response: &[u8], after| {
        let mut recorder = Recorder { declines_body: true, ..Recorder::default() };
        let end = exchange(&limits(), &[response], after, &mut recorder);
        assert_eq!((end.failure, end.truncated, end.bytes_body), (None, None, 0));
        end.reusable
    };
    assert!(run(b"HTTP/1.1 301 M\r\nContent-Length: 5\r\n\r\nhello", After::Stay));
    assert!(run(b"HTTP/1.1 301 M\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", After::Stay));
    assert!(run(b"HTTP/1.1 301 M\r\nContent-Encoding: foo\r\nContent-Length: 2\r\n\r\nhi", After::Stay));
    // A body above 64 KiB, or without a length, is not read to its end.
    assert!(!run(b"HTTP/1.1 301 M\r\nContent-Length: 65537\r\n\r\nhello", After::Stay));
    assert!(!run(b"HTTP/1.1 301 M\r\n\r\nhello", After::Stay));
    assert!(!run(b"HTTP/1.1 301 M\r\nContent-Length: 9\r\n\r\nhello", After::Close));
    assert!(!run(b"HTTP/1.1 301 M\r\nContent-Length: 9\r\n\r\nhello", After::Stay));
    let flood = format!("HTTP/1.1 301 M\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n{}", "x".repeat(0x20000));
    assert!(!run(flood.as_bytes(), After::Stay));
}
