//! Tests of the connection with hand-made frames, received at once and in pieces.

mod ends;
mod limits;
mod uploads;

use std::sync::Arc;

use super::frame::{self, FrameHeader, HEADER, code, flag, kind, setting};
use super::{H2Conn, H2Request, StreamEvents, StreamFault, hpack};
use crate::base::outcome::ErrorKind;
use crate::base::time::Time;
use crate::http::conn::{Head, Limits, Step};

/// An event of a stream, with the stream's key. Consecutive data of one stream is joined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Head(u32, String),
    Data(u32, Vec<u8>),
    End(u32),
    Failed(u32, StreamFault),
}

/// Collects the events of a connection.
#[derive(Default)]
struct Events {
    all: Vec<Event>,
    /// If set, data is not consumed at once.
    is_paused: bool,
    /// The size of all frames of the stream that ended last.
    wire: u64,
}

impl StreamEvents for Events {
    fn head(&mut self, key: u32, head: &Head, _now: Time) {
        self.all.push(Event::Head(key, String::from_utf8(head.text().into_owned()).unwrap()));
    }

    fn data(&mut self, key: u32, bytes: &[u8], _now: Time) -> usize {
        assert!(!bytes.is_empty());
        match self.all.last_mut() {
            Some(Event::Data(last, all)) if *last == key => all.extend_from_slice(bytes),
            _ => self.all.push(Event::Data(key, bytes.to_vec())),
        }
        if self.is_paused { 0 } else { bytes.len() }
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

/// `:status: 200` as an entry of the static HPACK table.
const STATUS_200: u8 = 0x88;

fn limits() -> Arc<Limits> {
    Arc::new(Limits { max_head: 4_096, max_wire: 200_000, ..Limits::default() })
}

/// A new connection with a receive window of 1 MiB.
fn conn() -> H2Conn {
    H2Conn::new(limits(), 1 << 20, NOW)
}

fn request() -> H2Request {
    H2Request::plain(block(&[(":method", "GET"), (":scheme", "https"), (":authority", "h"), (":path", "/")]))
}

/// Frames that a server sends.
#[derive(Clone)]
struct Server(Vec<u8>);

impl Server {
    /// The first frames of a connection: starts with the required SETTINGS frame.
    fn new() -> Self {
        Self::without_settings().settings(&[])
    }

    /// Later frames of a connection, or a server that violates the protocol.
    fn without_settings() -> Self {
        Self(Vec::new())
    }

    fn frame(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        frame::push(&mut self.0, kind, flags, stream, payload);
        self
    }

    fn settings(mut self, settings: &[(u16, u32)]) -> Self {
        frame::push_settings(&mut self.0, settings);
        self
    }

    /// A whole header block in one frame. END_HEADERS is added to `flags`.
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

/// Writes all bytes that the connection has to write, in several parts, and returns them.
fn drain_output(conn: &mut H2Conn) -> Vec<u8> {
    let mut all = Vec::new();
    while let Step::Write(bytes) = conn.step() {
        let half = bytes.len().div_ceil(2);
        all.extend_from_slice(&bytes[..half]);
        conn.wrote(half);
    }
    all
}

/// Kind, flags, stream and payload of a frame.
type SentFrame = (u8, u8, u32, Vec<u8>);

/// Parses the written frames, without the preface.
fn frames(bytes: &[u8]) -> Vec<SentFrame> {
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
fn exchange_requests(requests: u32, server: &Server) -> (Vec<Event>, Vec<SentFrame>) {
    let run = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut conn = conn();
        let mut events = Events::default();
        for key in 0..requests {
            conn.open(key, request());
        }
        drain_output(&mut conn);
        for piece in pieces {
            conn.feed(piece, NOW, &mut events);
        }
        let out = frames(&drain_output(&mut conn));
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
    let (events, _) = exchange_requests(1, server);
    match events.last() {
        Some(Event::Failed(0, fault)) => fault.clone(),
        other => panic!("{other:?}"),
    }
}

fn kind_of(fault: StreamFault) -> ErrorKind {
    fault.failure().kind
}

#[test]
fn a_request_gets_its_response() {
    let mut conn = conn();
    conn.open(7, request());
    let out = drain_output(&mut conn);
    assert!(out.starts_with(frame::PREFACE));
    let sent = frames(&out);
    assert_eq!(sent[0].0, kind::SETTINGS);
    assert_eq!(sent[0].3, [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 6, 0, 0, 0x10, 0], "no table, no push, 4 KiB heads");
    assert_eq!((sent[1].0, sent[1].2), (kind::WINDOW_UPDATE, 0));
    assert_eq!((sent[2].0, sent[2].1, sent[2].2), (kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 1));
    assert_eq!(conn.step(), Step::Read);
    let server =
        Server::new().headers(0, 1, &[(":status", "200"), ("content-length", "5")]).data(flag::END_STREAM, 1, b"hello");
    let (events, out) = exchange_requests(1, &server);
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
fn frames_of_several_streams_may_interleave() {
    let server = Server::new()
        .settings(&[(setting::MAX_CONCURRENT_STREAMS, 100)])
        .headers(0, 3, &[(":status", "200")])
        .headers(0, 1, &[(":status", "200")])
        .data(0, 3, b"cc")
        .data(0, 1, b"aa")
        .data(flag::END_STREAM, 3, b"dd")
        .data(flag::END_STREAM, 1, b"bb");
    let (events, _) = exchange_requests(2, &server);
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

#[test]
fn requests_beyond_the_servers_limit_wait() {
    let mut conn = conn();
    let mut events = Events::default();
    for key in 0..4 {
        conn.open(key, request());
    }
    let opened = |out: &[u8]| frames(out).iter().filter(|frame| frame.0 == kind::HEADERS).count();
    assert_eq!(opened(&drain_output(&mut conn)), 1, "one before the settings are known");
    conn.feed(&Server::without_settings().settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)]).0, NOW, &mut events);
    assert_eq!(conn.stream_limit(), Some(2));
    assert_eq!(opened(&drain_output(&mut conn)), 1, "two in total");
    assert!(!conn.is_waiting(1) && conn.is_waiting(2));
    conn.feed(&Server::without_settings().page(1, b"x").0, NOW, &mut events);
    assert_eq!(opened(&drain_output(&mut conn)), 1, "one in place of the stream that ended");
    conn.feed(&Server::without_settings().settings(&[(setting::MAX_CONCURRENT_STREAMS, 9)]).0, NOW, &mut events);
    assert_eq!(opened(&drain_output(&mut conn)), 1, "the last one");
}

#[test]
fn requests_wait_while_the_server_allows_no_stream() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.feed(&Server::without_settings().settings(&[(setting::MAX_CONCURRENT_STREAMS, 0)]).0, NOW, &mut events);
    conn.open(0, request());
    assert!(frames(&drain_output(&mut conn)).iter().all(|frame| frame.0 != kind::HEADERS));
    assert!(conn.is_waiting(0) && events.all.is_empty());
    assert_eq!(conn.cancel(0, NOW), 0);
    assert!(conn.is_idle() && drain_output(&mut conn).is_empty());
}

#[test]
fn interim_heads_continuations_padding_priority_and_trailers_are_parsed() {
    let fields = block(&[(":status", "200"), ("x-long", &"v".repeat(300))]);
    let (first, rest) = fields.split_at(100);
    // The length of the padding, a stream dependency with a weight, a part of the header block, and the padding.
    let padded = [&[3][..], &[0, 0, 0, 0, 9], first, &[0; 3]].concat();
    let server = Server::new()
        .headers(0, 1, &[(":status", "103"), ("link", "</a>")])
        .frame(kind::HEADERS, flag::PADDED | flag::PRIORITY, 1, &padded)
        .frame(kind::CONTINUATION, 0, 1, &rest[..50])
        .frame(kind::CONTINUATION, flag::END_HEADERS, 1, &rest[50..])
        .frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1])
        .frame(kind::DATA, flag::PADDED, 1, b"\x04body....")
        .frame(0xee, 0xff, 1, b"an unknown frame")
        // Another unknown frame, empty and not on a stream.
        .frame(0xef, 0, 0, b"")
        .frame(kind::DATA, flag::PADDED, 1, b"\x00")
        .headers(flag::END_STREAM, 1, &[("x-checksum", "1")]);
    let (events, _) = exchange_requests(1, &server);
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
fn malformed_heads_are_stream_errors() {
    let heads: [&[(&str, &str)]; 4] = [
        &[(":status", "200"), ("Content-Type", "text/html")],
        &[(":status", "200"), ("connection", "close")],
        &[("content-type", "text/html")],
        &[(":status", "101")],
    ];
    for fields in heads {
        let server = Server::new().headers(0, 1, fields).data(flag::END_STREAM, 1, b"x");
        let (events, out) = exchange_requests(1, &server);
        assert!(
            matches!(&events[..], [Event::Failed(0, fault)] if kind_of(fault.clone()) == ErrorKind::Protocol),
            "{events:?}"
        );
        assert!(out.contains(&(kind::RST_STREAM, 0, 1, code::PROTOCOL_ERROR.to_be_bytes().to_vec())), "{out:?}");
        assert!(out.iter().all(|frame| frame.0 != kind::GOAWAY), "the connection stays open");
    }
}

#[test]
fn content_length_is_checked() {
    let length = [(":status", "200"), ("content-length", "10")];
    for body in [&b"12345"[..], b"12345678901"] {
        let (events, _) = exchange_requests(1, &Server::new().headers(0, 1, &length).data(flag::END_STREAM, 1, body));
        let kept = body[..body.len().min(10)].to_vec();
        assert_eq!(events[1], Event::Data(0, kept));
        assert!(matches!(&events[2], Event::Failed(0, fault) if kind_of(fault.clone()) == ErrorKind::Protocol));
    }
    let (events, _) = exchange_requests(
        1,
        &Server::new().headers(flag::END_STREAM, 1, &[(":status", "304"), ("content-length", "9")]),
    );
    assert_eq!(events[1], Event::End(0), "the length in a 304 is that of the page, which does not follow");
}

#[test]
fn the_first_block_empties_the_servers_table() {
    let mut conn = conn();
    conn.feed(&Server::new().settings(&[(setting::HEADER_TABLE_SIZE, 0)]).0, NOW, &mut Events::default());
    conn.open(0, request());
    conn.open(1, request());
    let heads = frames(&drain_output(&mut conn)).into_iter().filter(|frame| frame.0 == kind::HEADERS);
    let first_bytes: Vec<u8> = heads.map(|frame| frame.3[0]).collect();
    assert_eq!(first_bytes, [hpack::EMPTY_TABLE, request().block[0]]);
}
