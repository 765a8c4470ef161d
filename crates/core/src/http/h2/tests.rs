//! The connection against hand-made frames, whole and byte by byte.

use std::sync::Arc;
use std::time::Duration;

use super::frame::{self, FrameHeader, HEADER, code, flag, kind, setting};
use super::{H2Conn, H2Request, StreamEvents, StreamFault, hpack, request_block};
use crate::http::conn::{Limits, Step};
use crate::outcome::ErrorKind;
use crate::time::Time;

/// Events of the streams, in order. Consecutive data of one stream is joined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Head(u32, String),
    Data(u32, Vec<u8>),
    End(u32),
    Failed(u32, StreamFault),
}

#[derive(Default)]
struct Events {
    all: Vec<Event>,
    /// If set, data is not consumed at once.
    hold: bool,
    wire: u64,
}

impl StreamEvents for Events {
    fn head(&mut self, key: u32, head: &[u8], _now: Time) {
        self.all.push(Event::Head(key, String::from_utf8(head.to_vec()).unwrap()));
    }

    fn data(&mut self, key: u32, bytes: &[u8], _now: Time) -> usize {
        assert!(!bytes.is_empty());
        match self.all.last_mut() {
            Some(Event::Data(last, all)) if *last == key => all.extend_from_slice(bytes),
            _ => self.all.push(Event::Data(key, bytes.to_vec())),
        }
        if self.hold { 0 } else { bytes.len() }
    }

    fn end(&mut self, key: u32, wire: u64, _now: Time) {
        self.wire = wire;
        self.all.push(Event::End(key));
    }

    fn failed(&mut self, key: u32, wire: u64, fault: StreamFault, _now: Time) {
        self.wire = wire;
        self.all.push(Event::Failed(key, fault));
    }
}

const NOW: Time = Time::from_micros(7_000_000);

fn limits() -> Arc<Limits> {
    Arc::new(Limits { max_head: 4_096, max_wire: 200_000, ..Limits::default() })
}

fn conn() -> H2Conn {
    H2Conn::new(limits(), 1 << 20, NOW)
}

fn request() -> H2Request {
    H2Request::plain(request_block(true, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
}

/// Frames that a server sends.
#[derive(Default, Clone)]
struct Server(Vec<u8>);

impl Server {
    fn new() -> Self {
        Self::default().settings(&[])
    }

    fn frame(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        frame::push(&mut self.0, kind, flags, stream, payload);
        self
    }

    fn settings(mut self, settings: &[(u16, u32)]) -> Self {
        frame::push_settings(&mut self.0, settings);
        self
    }

    fn headers(self, flags: u8, stream: u32, fields: &[(&str, &str)]) -> Self {
        self.frame(kind::HEADERS, flags | flag::END_HEADERS, stream, &block(fields))
    }

    fn data(self, flags: u8, stream: u32, bytes: &[u8]) -> Self {
        self.frame(kind::DATA, flags, stream, bytes)
    }

    fn page(self, stream: u32, body: &[u8]) -> Self {
        self.headers(0, stream, &[(":status", "200")]).data(flag::END_STREAM, stream, body)
    }
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::encode(&mut block, name.as_bytes(), value.as_bytes());
    }
    block
}

fn written(conn: &mut H2Conn) -> Vec<u8> {
    let mut all = Vec::new();
    while let Step::Write(bytes) = conn.step() {
        let some = bytes.len().div_ceil(2);
        all.extend_from_slice(&bytes[..some]);
        conn.wrote(some);
    }
    all
}

/// Kind, flags, stream and payload of a frame.
type Sent = (u8, u8, u32, Vec<u8>);

/// Parses the written frames, without the preface.
fn frames(bytes: &[u8]) -> Vec<Sent> {
    let mut rest = bytes.strip_prefix(frame::PREFACE).unwrap_or(bytes);
    let mut found = Vec::new();
    while !rest.is_empty() {
        let header = FrameHeader::parse(rest[..HEADER].try_into().unwrap());
        let end = HEADER + header.length as usize;
        found.push((header.kind, header.flags, header.stream, rest[HEADER..end].to_vec()));
        rest = &rest[end..];
    }
    found
}

/// Feeds a server's bytes to a connection with this many requests, split in several ways. Returns the events, and the
/// frames written after the requests.
fn talk(requests: u32, server: &Server) -> (Vec<Event>, Vec<Sent>) {
    let run = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut conn = conn();
        let mut events = Events::default();
        for key in 0..requests {
            conn.open(key, request());
        }
        written(&mut conn);
        for piece in pieces {
            conn.feed(piece, NOW, &mut events);
        }
        let out = frames(&written(&mut conn));
        (events.all, out)
    };
    let whole = run(&mut std::iter::once(&server.0[..]));
    assert_eq!(run(&mut server.0.chunks(1)), whole, "byte by byte");
    for size in [2, 3, 7, 8, 9, 10, 64] {
        assert_eq!(run(&mut server.0.chunks(size)), whole, "{size} bytes at a time");
    }
    whole
}

/// The fault of the only stream.
fn failure(server: &Server) -> StreamFault {
    let (events, _) = talk(1, server);
    match events.last() {
        Some(Event::Failed(0, fault)) => fault.clone(),
        other => panic!("{other:?}"),
    }
}

fn kind_of(fault: StreamFault) -> ErrorKind {
    fault.failure().kind
}

#[test]
fn a_request_and_its_answer() {
    let mut conn = conn();
    conn.open(7, request());
    let out = written(&mut conn);
    assert!(out.starts_with(frame::PREFACE));
    let sent = frames(&out);
    assert_eq!(sent[0].0, kind::SETTINGS);
    assert_eq!(sent[0].3, [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 6, 0, 0, 0x10, 0], "no table, no push, 4 KiB heads");
    assert_eq!((sent[1].0, sent[1].2), (kind::WINDOW_UPDATE, 0));
    assert_eq!((sent[2].0, sent[2].1, sent[2].2), (kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 1));
    assert_eq!(conn.step(), Step::Read);
    let server = Server::new().headers(0, 1, &[(":status", "200"), ("content-length", "5")]).data(1, 1, b"hello");
    let (events, out) = talk(1, &server);
    let head = "HTTP/1.1 200 \r\ncontent-length: 5\r\n\r\n".to_owned();
    assert_eq!(events, [Event::Head(0, head), Event::Data(0, b"hello".to_vec()), Event::End(0)]);
    assert_eq!(out, [(kind::SETTINGS, flag::ACK, 0, vec![])]);
}

#[test]
fn wire_bytes_are_those_of_the_streams_frames() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    let server = Server::new().page(1, b"hello");
    conn.feed(&server.0, NOW, &mut events);
    assert_eq!(events.wire, (server.0.len() - HEADER) as u64, "all but the SETTINGS");
}

#[test]
fn streams_interleave() {
    let server = Server::new()
        .settings(&[(setting::MAX_CONCURRENT_STREAMS, 100)])
        .headers(0, 3, &[(":status", "200")])
        .headers(0, 1, &[(":status", "200")])
        .data(0, 3, b"cc")
        .data(0, 1, b"aa")
        .data(flag::END_STREAM, 3, b"dd")
        .data(flag::END_STREAM, 1, b"bb");
    let (events, _) = talk(2, &server);
    let data: Vec<_> =
        events.iter().filter(|event| matches!(event, Event::Data(..) | Event::End(_))).cloned().collect();
    assert_eq!(
        data,
        [
            Event::Data(1, b"cc".to_vec()),
            Event::Data(0, b"aa".to_vec()),
            Event::Data(1, b"dd".to_vec()),
            Event::End(1),
            Event::Data(0, b"bb".to_vec()),
            Event::End(0)
        ]
    );
}

fn form(length: usize, is_repeatable: bool) -> H2Request {
    let block = request_block(true, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
    H2Request { block, body: (0..length).map(|at| at as u8).collect(), is_repeatable }
}

#[test]
fn a_body_is_sent_as_far_as_the_windows_allow() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, form(70_000, false));
    let sent = std::cell::RefCell::new(Vec::new());
    // The frames of stream 1 that were written since the last call: kind, flags and length of the payload.
    let hear = |conn: &mut H2Conn| {
        let new: Vec<Sent> = frames(&written(conn)).into_iter().filter(|frame| frame.2 == 1).collect();
        let lengths: Vec<(u8, u8, usize)> = new.iter().map(|frame| (frame.0, frame.1, frame.3.len())).collect();
        new.iter()
            .filter(|frame| frame.0 == kind::DATA)
            .for_each(|frame| sent.borrow_mut().extend_from_slice(&frame.3));
        lengths
    };
    let first = hear(&mut conn);
    assert_eq!((first[0].0, first[0].1), (kind::HEADERS, flag::END_HEADERS), "a body follows");
    let data = |length| (kind::DATA, 0, length);
    assert_eq!(first[1..], [data(16_384), data(16_384), data(16_384), data(16_383)], "the default window");
    let update = |stream, by: u32| Server::default().frame(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes()).0;
    let settings = Server::default().settings(&[(setting::INITIAL_WINDOW_SIZE, 65_635)]).0;
    conn.feed(&settings, NOW, &mut events);
    assert_eq!(hear(&mut conn), [], "the window of the connection is used up");
    conn.feed(&update(0, 1_000_000), NOW, &mut events);
    assert_eq!(hear(&mut conn), [data(100)], "the window of the stream grew by a setting");
    conn.feed(&update(1, 4_000), NOW, &mut events);
    assert_eq!(hear(&mut conn), [data(4_000)]);
    conn.feed(&update(1, 4_000), NOW, &mut events);
    assert_eq!(hear(&mut conn), [(kind::DATA, flag::END_STREAM, 365)]);
    assert_eq!(*sent.borrow(), (0..70_000).map(|at| at as u8).collect::<Vec<u8>>());
    conn.feed(&Server::default().page(1, b"x").0, NOW, &mut events);
    assert_eq!(events.all.last(), Some(&Event::End(0)));
    assert_eq!(hear(&mut conn), [], "everything was sent, so nothing is reset");
}

#[test]
fn an_early_answer_ends_a_body_and_a_form_is_not_repeated() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, form(100_000, false));
    written(&mut conn);
    conn.feed(&Server::new().page(1, b"x").0, NOW, &mut events);
    assert_eq!(events.all.last(), Some(&Event::End(0)));
    let reset = frames(&written(&mut conn)).into_iter().find(|frame| frame.0 == kind::RST_STREAM);
    assert_eq!(reset, Some((kind::RST_STREAM, 0, 1, code::CANCEL.to_be_bytes().to_vec())));
    conn.open(1, form(10, false));
    conn.open(2, form(10, true));
    conn.closed(NOW, &mut events);
    let [.., Event::Failed(1, form), Event::Failed(2, marked)] = events.all.as_slice() else {
        panic!("{:?}", events.all);
    };
    assert!(matches!(form, StreamFault::Failed(_)), "it may have been processed: {form:?}");
    assert!(matches!(marked, StreamFault::Unprocessed(_)), "{marked:?}");
}

#[test]
fn requests_wait_for_the_servers_limit() {
    let mut conn = conn();
    let mut events = Events::default();
    for key in 0..4 {
        conn.open(key, request());
    }
    let opened = |out: &[u8]| frames(out).iter().filter(|frame| frame.0 == kind::HEADERS).count();
    assert_eq!(opened(&written(&mut conn)), 1, "one before the settings are known");
    conn.feed(&Server::default().settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)]).0, NOW, &mut events);
    assert_eq!(conn.stream_limit(), Some(2));
    assert_eq!(opened(&written(&mut conn)), 1, "two in all");
    assert!(!conn.is_waiting(1) && conn.is_waiting(2));
    conn.feed(&Server::default().page(1, b"x").0, NOW, &mut events);
    assert_eq!(opened(&written(&mut conn)), 1, "one for the one that ended");
    conn.feed(&Server::default().settings(&[(setting::MAX_CONCURRENT_STREAMS, 9)]).0, NOW, &mut events);
    assert_eq!(opened(&written(&mut conn)), 1, "all the others");
}

#[test]
fn no_streams_at_all_are_a_matter_of_time() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.feed(&Server::default().settings(&[(setting::MAX_CONCURRENT_STREAMS, 0)]).0, NOW, &mut events);
    conn.open(0, request());
    assert!(frames(&written(&mut conn)).iter().all(|frame| frame.0 != kind::HEADERS));
    assert!(conn.is_waiting(0) && events.all.is_empty());
    assert_eq!(conn.cancel(0, NOW), 0);
    assert!(conn.is_idle() && written(&mut conn).is_empty());
}

#[test]
fn interim_heads_continuations_padding_priority_and_trailers() {
    let fields = block(&[(":status", "200"), ("x-long", &"v".repeat(300))]);
    let (first, rest) = fields.split_at(100);
    let padded = [&[3][..], &[0, 0, 0, 0, 9], first, &[0; 3]].concat();
    let server = Server::new()
        .headers(0, 1, &[(":status", "103"), ("link", "</a>")])
        .frame(kind::HEADERS, flag::PADDED | flag::PRIORITY, 1, &padded)
        .frame(kind::CONTINUATION, 0, 1, &rest[..50])
        .frame(kind::CONTINUATION, flag::END_HEADERS, 1, &rest[50..])
        .frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1])
        .frame(kind::DATA, flag::PADDED, 1, b"\x04body....")
        .frame(0xee, 0xff, 1, b"an unknown frame")
        .frame(0xef, 0, 0, b"")
        .frame(kind::DATA, flag::PADDED, 1, b"\x00")
        .headers(flag::END_STREAM, 1, &[("x-checksum", "1")]);
    let (events, _) = talk(1, &server);
    let head = format!("HTTP/1.1 200 \r\nx-long: {}\r\n\r\n", "v".repeat(300));
    assert_eq!(
        events,
        [
            Event::Head(0, "HTTP/1.1 103 \r\nlink: </a>\r\n\r\n".into()),
            Event::Head(0, head),
            Event::Data(0, b"body".to_vec()),
            Event::End(0)
        ]
    );
}

#[test]
fn heads_that_cannot_be_are_errors_of_the_stream() {
    let heads: [&[(&str, &str)]; 4] = [
        &[(":status", "200"), ("Content-Type", "text/html")],
        &[(":status", "200"), ("connection", "close")],
        &[("content-type", "text/html")],
        &[(":status", "101")],
    ];
    for fields in heads {
        let server = Server::new().headers(0, 1, fields).data(flag::END_STREAM, 1, b"x");
        let (events, out) = talk(1, &server);
        assert!(
            matches!(&events[..], [Event::Failed(0, fault)] if kind_of(fault.clone()) == ErrorKind::Protocol),
            "{events:?}"
        );
        assert!(out.contains(&(kind::RST_STREAM, 0, 1, code::PROTOCOL_ERROR.to_be_bytes().to_vec())), "{out:?}");
        assert!(out.iter().all(|frame| frame.0 != kind::GOAWAY), "the connection stays");
    }
}

#[test]
fn content_length_is_checked() {
    let length = [(":status", "200"), ("content-length", "10")];
    for body in [&b"12345"[..], b"12345678901"] {
        let (events, _) = talk(1, &Server::new().headers(0, 1, &length).data(flag::END_STREAM, 1, body));
        let kept = body[..body.len().min(10)].to_vec();
        assert_eq!(events[1], Event::Data(0, kept));
        assert!(matches!(&events[2], Event::Failed(0, fault) if kind_of(fault.clone()) == ErrorKind::Protocol));
    }
    let (events, _) =
        talk(1, &Server::new().headers(flag::END_STREAM, 1, &[(":status", "304"), ("content-length", "9")]));
    assert_eq!(events[1], Event::End(0), "a 304 describes the page");
}

#[test]
fn faults_that_end_the_connection() {
    let ok = [(":status", "200")];
    let cases: Vec<(&str, Server, u32)> = vec![
        ("push", Server::new().frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2]), code::PROTOCOL_ERROR),
        ("data on stream 0", Server::new().data(0, 0, b"x"), code::PROTOCOL_ERROR),
        ("ping on a stream", Server::new().frame(kind::PING, 0, 1, &[0; 8]), code::PROTOCOL_ERROR),
        ("a stream of the server", Server::new().headers(0, 2, &ok), code::PROTOCOL_ERROR),
        ("an idle stream", Server::new().headers(0, 3, &ok), code::PROTOCOL_ERROR),
        ("a reset of an idle stream", Server::new().frame(kind::RST_STREAM, 0, 9, &[0; 4]), code::PROTOCOL_ERROR),
        ("a short ping", Server::new().frame(kind::PING, 0, 0, &[0; 7]), code::FRAME_SIZE_ERROR),
        ("a long reset", Server::new().frame(kind::RST_STREAM, 0, 1, &[0; 5]), code::FRAME_SIZE_ERROR),
        ("odd settings", Server::new().frame(kind::SETTINGS, 0, 0, &[0; 7]), code::FRAME_SIZE_ERROR),
        ("an ACK with content", Server::new().frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), code::FRAME_SIZE_ERROR),
        ("too long a frame", Server::new().data(0, 1, &[0; 16_385]), code::FRAME_SIZE_ERROR),
        ("push enabled", Server::new().settings(&[(setting::ENABLE_PUSH, 1)]), code::PROTOCOL_ERROR),
        ("a huge window", Server::new().settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]), code::FLOW_CONTROL_ERROR),
        ("a small frame limit", Server::new().settings(&[(setting::MAX_FRAME_SIZE, 16_383)]), code::PROTOCOL_ERROR),
        ("a window update of 0", Server::new().frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]), code::PROTOCOL_ERROR),
        (
            "a window that overflows",
            Server::new().frame(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
            code::FLOW_CONTROL_ERROR,
        ),
        ("a lone CONTINUATION", Server::new().frame(kind::CONTINUATION, 4, 1, &[0x88]), code::PROTOCOL_ERROR),
        (
            "an interrupted header block",
            Server::new().frame(kind::HEADERS, 0, 1, &[0x88]).frame(kind::PING, 0, 0, &[0; 8]),
            code::PROTOCOL_ERROR,
        ),
        ("padding over the end", Server::new().frame(kind::DATA, flag::PADDED, 1, &[9, 0, 0]), code::PROTOCOL_ERROR),
        ("padding without length", Server::new().frame(kind::DATA, flag::PADDED, 1, &[]), code::FRAME_SIZE_ERROR),
        ("a dynamic entry", Server::new().frame(kind::HEADERS, 4, 1, &[0x88, 0xbe]), code::COMPRESSION_ERROR),
    ];
    for (name, server, expected) in cases {
        let (events, out) = talk(1, &server);
        let Some(Event::Failed(0, fault)) = events.last() else { panic!("{name}: {events:?}") };
        assert_eq!(kind_of(fault.clone()), ErrorKind::Protocol, "{name}");
        let last = out.last().unwrap();
        assert_eq!((last.0, &last.3[4..]), (kind::GOAWAY, &expected.to_be_bytes()[..]), "{name}");
    }
}

#[test]
fn an_answer_in_http1_is_told_at_its_first_bytes() {
    let fault = failure(&Server(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()));
    assert!(matches!(fault, StreamFault::Http1(failure) if failure.kind == ErrorKind::Protocol));
    assert!(matches!(failure(&Server(b"HTTP".to_vec())), StreamFault::Http1(_)));
    let fault = failure(&Server::default().frame(kind::PING, 0, 0, &[0; 8]));
    assert!(matches!(fault, StreamFault::Http1(_)), "SETTINGS come first");
}

#[test]
fn resets_by_their_meaning() {
    let reset = |code: u32| failure(&Server::new().frame(kind::RST_STREAM, 0, 1, &code.to_be_bytes()));
    for code in [code::CANCEL, code::REFUSED_STREAM, code::ENHANCE_YOUR_CALM, code::INTERNAL_ERROR, code::NO_ERROR] {
        assert!(matches!(reset(code), StreamFault::Failed(failure) if failure.kind == ErrorKind::Reset), "{code}");
    }
    assert!(matches!(reset(code::HTTP_1_1_REQUIRED), StreamFault::Http1(_)));
    assert!(matches!(reset(code::PROTOCOL_ERROR), StreamFault::Failed(failure) if failure.kind == ErrorKind::Protocol));
}

#[test]
fn goaway_separates_the_processed_from_the_others() {
    let goaway = |last: u32, code: u32| [last.to_be_bytes(), code.to_be_bytes()].concat();
    let server = Server::new()
        .frame(kind::GOAWAY, 0, 0, &[&goaway(1, code::NO_ERROR)[..], b"some words"].concat())
        .page(1, b"x");
    let (events, _) = talk(2, &server);
    assert!(matches!(&events[0], Event::Failed(1, StreamFault::Unprocessed(_))), "{events:?}");
    assert_eq!(events.last(), Some(&Event::End(0)), "the others finish");
    for (code, is_http1) in [(code::HTTP_1_1_REQUIRED, true), (code::ENHANCE_YOUR_CALM, false)] {
        let fault = failure(&Server::new().frame(kind::GOAWAY, 0, 0, &goaway(0, code)));
        assert_eq!(matches!(fault, StreamFault::Http1(_)), is_http1);
        assert_eq!(matches!(fault, StreamFault::Failed(_)), !is_http1);
    }
    let mut conn = conn();
    conn.feed(&Server::new().frame(kind::GOAWAY, 0, 0, &goaway(0, 0)).0, NOW, &mut Events::default());
    written(&mut conn);
    assert!(!conn.accepts());
    assert_eq!(conn.step(), Step::Done);
}

#[test]
fn a_lost_connection() {
    let mut events = Events::default();
    let mut fresh = conn();
    fresh.open(0, request());
    fresh.closed(NOW, &mut events);
    assert!(
        matches!(&events.all[0], Event::Failed(0, StreamFault::Failed(failure)) if failure.kind == ErrorKind::EmptyReply)
    );
    let mut used = conn();
    used.open(0, request());
    used.feed(&Server::new().page(1, b"x").0, NOW, &mut events);
    used.open(1, request());
    used.open(2, request());
    used.feed(&Server::default().headers(0, 3, &[(":status", "200")]).0, NOW, &mut events);
    events.all.clear();
    used.closed(NOW, &mut events);
    assert!(
        matches!(&events.all[0], Event::Failed(1, StreamFault::Failed(failure)) if failure.kind == ErrorKind::Reset)
    );
    assert!(matches!(&events.all[1], Event::Failed(2, StreamFault::Unprocessed(_))), "nothing came of it");
    written(&mut used);
    assert!(used.step() == Step::Done && !used.accepts());
}

#[test]
fn floods_end_the_connection() {
    let flood = |frame: &dyn Fn(Server) -> Server| (0..1_000).fold(Server::new(), |server, _| frame(server));
    let floods = [
        flood(&|server| server.frame(kind::PING, 0, 0, &[0; 8])),
        flood(&|server| server.settings(&[])),
        flood(&|server| server.frame(kind::PRIORITY, 0, 1, &[0; 5])),
        flood(&|server| server.frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        flood(&|server| server.frame(0xfe, 0, 0, b"unknown")),
        flood(&|server| server.frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8])),
    ];
    for server in &floods {
        let mut conn = conn();
        let mut events = Events::default();
        conn.open(0, request());
        written(&mut conn);
        conn.feed(&server.0, NOW, &mut events);
        assert!(matches!(events.all.last(), Some(Event::Failed(0, _))));
        let out = frames(&written(&mut conn));
        assert_eq!(out.last().unwrap().3[4..], code::ENHANCE_YOUR_CALM.to_be_bytes());
        assert_eq!(conn.step(), Step::Done);
    }
    let head = Server::new().headers(0, 1, &[(":status", "200")]);
    let empty = (0..1_000).fold(head.clone(), |server, _| server.data(0, 1, b""));
    assert_eq!(kind_of(failure(&empty)), ErrorKind::Protocol);
    let padded = (0..1_000).fold(head, |server, _| server.frame(kind::DATA, flag::PADDED, 1, &[2, 0, 0]));
    assert_eq!(kind_of(failure(&padded)), ErrorKind::Protocol);
    let open_block = Server::new().frame(kind::HEADERS, 0, 1, &[0x88]);
    let continued = (0..1_000).fold(open_block, |server, _| server.frame(kind::CONTINUATION, 0, 1, b""));
    assert_eq!(kind_of(failure(&continued)), ErrorKind::Protocol);
    // The same number of frames over some seconds is not a flood.
    let mut conn = conn();
    let mut events = Events::default();
    for second in 0..10 {
        for _ in 0..100 {
            conn.feed(&Server::default().settings(&[]).0, NOW + Duration::from_secs(second), &mut events);
        }
        written(&mut conn);
    }
    assert!(conn.accepts());
}

#[test]
fn answers_that_are_never_read_have_a_bound() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.feed(&Server::new().0, NOW, &mut events);
    let mut second = 0;
    while conn.accepts() {
        second += 1;
        for _ in 0..400 {
            conn.feed(
                &Server::default().frame(kind::PING, 0, 0, &[0; 8]).0,
                NOW + Duration::from_secs(second),
                &mut events,
            );
        }
        assert!(conn.heap_bytes() < 1 << 20);
    }
}

#[test]
fn header_blocks_have_a_limit() {
    let long = block(&[(":status", "200"), ("x", &"v".repeat(5_000))]);
    let (events, out) = talk(1, &Server::new().frame(kind::HEADERS, flag::END_HEADERS, 1, &long).data(1, 1, b"x"));
    assert!(matches!(&events[..], [Event::Failed(0, fault)] if kind_of(fault.clone()) == ErrorKind::HeaderTooLarge));
    assert!(out.iter().any(|frame| frame.0 == kind::RST_STREAM) && out.iter().all(|frame| frame.0 != kind::GOAWAY));
    // Many short references: the decoded bytes count.
    let bomb = [&[0x88][..], &[0x90; 2_000]].concat();
    let (events, _) = talk(1, &Server::new().frame(kind::HEADERS, flag::END_HEADERS, 1, &bomb));
    assert!(matches!(&events[..], [Event::Failed(0, fault)] if kind_of(fault.clone()) == ErrorKind::HeaderTooLarge));
    // Endless CONTINUATION: the connection is ended, and little was stored.
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    written(&mut conn);
    conn.feed(&Server::new().frame(kind::HEADERS, 0, 1, &[0x88]).0, NOW, &mut events);
    for _ in 0..100 {
        conn.feed(&Server::default().frame(kind::CONTINUATION, 0, 1, &[0x90; 1_000]).0, NOW, &mut events);
        assert!(conn.heap_bytes() < 20_000, "{}", conn.heap_bytes());
    }
    assert!(
        matches!(&events.all[..], [Event::Failed(0, fault)] if kind_of(fault.clone()) == ErrorKind::HeaderTooLarge)
    );
    assert!(!conn.accepts());
}

#[test]
fn windows_are_granted_as_the_body_is_consumed() {
    let updates = |conn: &mut H2Conn, stream: u32| -> Vec<u32> {
        let all = frames(&written(conn));
        let of = all.iter().filter(|frame| frame.0 == kind::WINDOW_UPDATE && frame.2 == stream);
        of.map(|frame| u32::from_be_bytes(frame.3[..].try_into().unwrap())).collect()
    };
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    conn.feed(&Server::new().headers(0, 1, &[(":status", "200")]).0, NOW, &mut events);
    written(&mut conn);
    let piece = Server::default().data(0, 1, &[b'x'; 16_384]);
    conn.feed(&piece.0, NOW, &mut events);
    assert!(updates(&mut conn, 1).is_empty());
    conn.feed(&piece.0, NOW, &mut events);
    let granted = updates(&mut conn, 1);
    assert_eq!(granted, [2 * 65_535 - (65_535 - 2 * 16_384)], "twice the window from now on");
    // A consumer that pauses gets no more window; the connection's window is not affected.
    events.hold = true;
    for _ in 0..6 {
        conn.feed(&piece.0, NOW, &mut events);
        assert!(updates(&mut conn, 1).is_empty());
    }
    conn.consumed(0, 6 * 16_384);
    assert_eq!(updates(&mut conn, 1).len(), 1, "the rest of the limit on the body");
    // In total, the limit on the body plus one byte was granted.
    events.hold = false;
    let all = Server::default().data(0, 1, &[b'x'; 16_384]);
    for _ in 0..4 {
        conn.feed(&all.0, NOW, &mut events);
    }
    assert!(conn.accepts(), "196,608 of 200,001 bytes");
    assert!(updates(&mut conn, 1).is_empty());
    conn.feed(&all.0, NOW, &mut events);
    assert!(matches!(events.all.last(), Some(Event::Failed(0, _))), "more than was granted");
}

#[test]
fn the_connections_window_is_granted_as_bytes_come() {
    let mut conn = H2Conn::new(limits(), 0, NOW);
    let mut events = Events { hold: true, ..Events::default() };
    for key in 0..10 {
        conn.open(key, request());
    }
    conn.feed(&Server::new().0, NOW, &mut events);
    // Ten streams with paused consumers use up ten windows, and the connection still has room.
    for stream in (1..20).step_by(2) {
        conn.feed(&Server::default().headers(0, stream, &[(":status", "200")]).0, NOW, &mut events);
        for _ in 0..3 {
            conn.feed(&Server::default().data(0, stream, &[b'x'; 16_384]).0, NOW, &mut events);
        }
    }
    assert!(conn.accepts());
}

#[test]
fn cancelled_streams() {
    let mut conn = conn();
    let mut events = Events::default();
    for key in 0..3 {
        conn.open(key, request());
    }
    let short = [(":status", "200"), ("content-length", "100")];
    let server = Server::new().headers(0, 1, &short).headers(0, 3, &[(":status", "200")]).headers(0, 5, &short);
    conn.feed(&server.0, NOW, &mut events);
    written(&mut conn);
    events.all.clear();
    conn.cancel(0, NOW);
    assert!(written(&mut conn).is_empty(), "a short rest is read");
    conn.cancel(1, NOW);
    let reset = (kind::RST_STREAM, 0, 3, code::CANCEL.to_be_bytes().to_vec());
    assert_eq!(frames(&written(&mut conn)), [reset], "a rest of unknown length is cut off");
    conn.feed(
        &Server::default().data(0, 1, &[b'x'; 60]).data(0, 3, b"late").data(1, 1, &[b'x'; 40]).0,
        NOW,
        &mut events,
    );
    assert!(events.all.is_empty(), "no events of a cancelled stream");
    assert!(conn.accepts() && !conn.is_idle());
    conn.cancel(2, NOW);
    assert!(conn.is_idle());
    assert_eq!(conn.deadline(), NOW + Duration::from_secs(5));
    conn.expire(conn.deadline());
    assert_eq!(frames(&written(&mut conn)).len(), 1, "one that stalls is reset");
    assert_eq!(conn.deadline(), Time::NEVER);
}

#[test]
fn pings_are_answered_and_waiting_takes_little() {
    let (_, out) =
        talk(1, &Server::new().frame(kind::PING, 0, 0, b"12345678").frame(kind::PING, flag::ACK, 0, &[0; 8]));
    assert_eq!(out[1..], [(kind::PING, flag::ACK, 0, b"12345678".to_vec())]);
    let mut conn = conn();
    conn.open(0, request());
    conn.feed(&Server::new().0, NOW, &mut Events::default());
    written(&mut conn);
    let one = size_of::<H2Conn>() + conn.heap_bytes();
    assert!(one <= 1_024, "{one} bytes");
    assert!(size_of::<super::conn::Stream>() <= 88, "{}", size_of::<super::conn::Stream>());
}

#[test]
fn a_silent_connection_takes_no_more() {
    let mut conn = conn();
    conn.feed(&Server::new().0, NOW, &mut Events::default());
    conn.retire_if_silent(Duration::from_secs(20), NOW + Duration::from_secs(19));
    assert!(conn.accepts());
    conn.retire_if_silent(Duration::from_secs(20), NOW + Duration::from_secs(20));
    assert!(!conn.accepts());
}

#[test]
fn the_first_block_empties_the_servers_table() {
    let mut conn = conn();
    conn.feed(&Server::new().settings(&[(setting::HEADER_TABLE_SIZE, 0)]).0, NOW, &mut Events::default());
    conn.open(0, request());
    conn.open(1, request());
    let heads = frames(&written(&mut conn)).into_iter().filter(|frame| frame.0 == kind::HEADERS);
    let first_bytes: Vec<u8> = heads.map(|frame| frame.3[0]).collect();
    assert_eq!(first_bytes, [hpack::EMPTY_TABLE, request().block[0]]);
}

#[test]
fn a_server_may_give_back_the_window_that_a_body_used() {
    let update = |by: u32| Server::default().frame(kind::WINDOW_UPDATE, 0, 1, &by.to_be_bytes()).0;
    let mut conn = conn();
    let mut events = Events::default();
    conn.feed(&Server::new().settings(&[(setting::INITIAL_WINDOW_SIZE, frame::MAX_WINDOW)]).0, NOW, &mut events);
    conn.open(0, form(20_000, false));
    written(&mut conn);
    conn.feed(&update(20_000), NOW, &mut events);
    assert_eq!(events.all, []);
    conn.feed(&update(1), NOW, &mut events);
    assert!(matches!(events.all[..], [Event::Failed(0, _)]), "now the window is too large");
}

#[test]
fn padding_does_not_count_as_body_but_has_a_limit() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    conn.feed(&Server::new().headers(0, 1, &[(":status", "200")]).0, NOW, &mut events);
    let padded = |content: usize| [&[255][..], &vec![b'x'; content], &[0; 255]].concat();
    for _ in 0..190 {
        conn.feed(&Server::default().frame(kind::DATA, flag::PADDED, 1, &padded(1_000)).0, NOW, &mut events);
    }
    conn.feed(&Server::default().data(flag::END_STREAM, 1, b"y").0, NOW, &mut events);
    let [Event::Head(..), Event::Data(0, body), Event::End(0)] = &events.all[..] else { panic!("{:?}", events.all) };
    assert_eq!(body.len(), 190_001, "with 238,640 bytes of frames, where bodies may have 200,000");

    conn.open(1, request());
    events.all.clear();
    conn.feed(&Server::default().headers(0, 3, &[(":status", "200")]).0, NOW, &mut events);
    let mut sent = 0;
    while conn.accepts() && sent < 1 << 22 {
        conn.feed(&Server::default().frame(kind::DATA, flag::PADDED, 3, &padded(1)).0, NOW, &mut events);
        sent += 257;
    }
    assert!(sent < 3 << 20, "{sent} bytes");
}

#[test]
fn data_on_a_closed_stream_is_limited_to_its_window() {
    let piece = |stream: u32| Server::default().data(0, stream, &[b'x'; 16_384]).0;
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    conn.feed(&Server::new().headers(0, 1, &[(":status", "200")]).0, NOW, &mut events);
    conn.cancel(0, NOW);
    for _ in 0..3 {
        conn.feed(&piece(1), NOW, &mut events);
        assert!(conn.accepts(), "it was sent before the reset arrived");
    }
    conn.feed(&piece(1), NOW, &mut events);
    assert!(conn.is_over(), "more than the window of 65,535 bytes");

    let (_, out) = talk(1, &Server::new().page(1, b"x").data(0, 1, b"y"));
    let goaway = out.last().expect("a frame");
    assert_eq!((goaway.0, &goaway.3[4..]), (kind::GOAWAY, &code::STREAM_CLOSED.to_be_bytes()[..]));
}

#[test]
fn heads_on_a_closed_stream_are_a_flood() {
    let mut server = Server::new().page(1, b"x");
    for _ in 0..600 {
        server = server.frame(kind::HEADERS, flag::END_HEADERS, 1, &[]);
    }
    let mut conn = conn();
    conn.open(0, request());
    conn.feed(&server.0, NOW, &mut Events::default());
    assert!(conn.is_over());
}

#[test]
fn a_form_that_was_not_processed_is_sent_again() {
    for (request, is_sent_again) in [(form(10, false), true), (request(), false)] {
        let mut conn = conn();
        let mut events = Events::default();
        conn.open(0, request);
        conn.feed(
            &Server::new().frame(kind::RST_STREAM, 0, 1, &code::REFUSED_STREAM.to_be_bytes()).0,
            NOW,
            &mut events,
        );
        let [Event::Failed(0, fault)] = &events.all[..] else { panic!("{:?}", events.all) };
        assert_eq!(matches!(fault, StreamFault::Unprocessed(_)), is_sent_again, "{fault:?}");
    }
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, form(10, false));
    conn.open(1, form(10, false));
    conn.feed(&Server::default().settings(&[(setting::MAX_CONCURRENT_STREAMS, 1)]).0, NOW, &mut events);
    conn.feed(&Server::default().frame(kind::PUSH_PROMISE, 0, 1, &[0; 4]).0, NOW, &mut events);
    let [Event::Failed(0, sent), Event::Failed(1, waiting)] = &events.all[..] else { panic!("{:?}", events.all) };
    assert!(matches!(sent, StreamFault::Failed(_)) && matches!(waiting, StreamFault::Unprocessed(_)));
}
