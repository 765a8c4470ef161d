//! How streams and connections end.

use std::time::Duration;

use super::*;

/// A reference to entry 62, the first one after the static HPACK table.
const INDEX_62: u8 = 0xbe;

#[test]
fn connection_errors_are_answered_with_goaway() {
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
        (
            "a lone CONTINUATION",
            Server::new().frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[STATUS_200]),
            code::PROTOCOL_ERROR,
        ),
        (
            "an interrupted header block",
            Server::new().frame(kind::HEADERS, 0, 1, &[STATUS_200]).frame(kind::PING, 0, 0, &[0; 8]),
            code::PROTOCOL_ERROR,
        ),
        ("padding over the end", Server::new().frame(kind::DATA, flag::PADDED, 1, &[9, 0, 0]), code::PROTOCOL_ERROR),
        ("padding without length", Server::new().frame(kind::DATA, flag::PADDED, 1, &[]), code::FRAME_SIZE_ERROR),
        (
            "an index beyond the HPACK tables",
            Server::new().frame(kind::HEADERS, flag::END_HEADERS, 1, &[STATUS_200, INDEX_62]),
            code::COMPRESSION_ERROR,
        ),
    ];
    for (name, server, expected) in cases {
        let (events, out) = exchange_requests(1, &server);
        let Some(Event::Failed(0, fault)) = events.last() else { panic!("{name}: {events:?}") };
        assert_eq!(kind_of(fault.clone()), ErrorKind::Protocol, "{name}");
        let last = out.last().unwrap();
        // The payload of GOAWAY: the last stream (four bytes), then the error code.
        assert_eq!((last.0, &last.3[4..]), (kind::GOAWAY, &expected.to_be_bytes()[..]), "{name}");
    }
}

#[test]
fn an_http1_response_is_recognised_at_its_first_bytes() {
    let fault = failure(&Server(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()));
    assert!(matches!(fault, StreamFault::Http1(failure) if failure.kind == ErrorKind::Protocol));
    assert!(matches!(failure(&Server(b"HTTP".to_vec())), StreamFault::Http1(_)));
    let fault = failure(&Server::without_settings().frame(kind::PING, 0, 0, &[0; 8]));
    assert!(matches!(fault, StreamFault::Http1(_)), "the first frame must be SETTINGS");
}

#[test]
fn the_code_of_a_reset_decides_the_kind_of_fault() {
    let reset = |code: u32| failure(&Server::new().frame(kind::RST_STREAM, 0, 1, &code.to_be_bytes()));
    for code in [code::CANCEL, code::REFUSED_STREAM, code::ENHANCE_YOUR_CALM, code::INTERNAL_ERROR, code::NO_ERROR] {
        assert!(matches!(reset(code), StreamFault::Failed(failure) if failure.kind == ErrorKind::Reset), "{code}");
    }
    assert!(matches!(reset(code::HTTP_1_1_REQUIRED), StreamFault::Http1(_)));
    assert!(matches!(reset(code::PROTOCOL_ERROR), StreamFault::Failed(failure) if failure.kind == ErrorKind::Protocol));
}

#[test]
fn streams_after_the_last_one_of_goaway_are_unprocessed() {
    let goaway = |last: u32, code: u32| [last.to_be_bytes(), code.to_be_bytes()].concat();
    let server = Server::new()
        .frame(kind::GOAWAY, 0, 0, &[&goaway(1, code::NO_ERROR)[..], b"some words"].concat())
        .page(1, b"x");
    let (events, _) = exchange_requests(2, &server);
    assert!(matches!(&events[0], Event::Failed(1, StreamFault::Unprocessed(_))), "{events:?}");
    assert_eq!(events.last(), Some(&Event::End(0)), "the processed stream finishes");
    for (code, is_http1) in [(code::HTTP_1_1_REQUIRED, true), (code::ENHANCE_YOUR_CALM, false)] {
        let fault = failure(&Server::new().frame(kind::GOAWAY, 0, 0, &goaway(0, code)));
        assert_eq!(matches!(fault, StreamFault::Http1(_)), is_http1);
        assert_eq!(matches!(fault, StreamFault::Failed(_)), !is_http1);
    }
    let mut conn = conn();
    conn.feed(&Server::new().frame(kind::GOAWAY, 0, 0, &goaway(0, code::NO_ERROR)).0, NOW, &mut Events::default());
    drain_output(&mut conn);
    assert!(!conn.accepts());
    assert_eq!(conn.step(), Step::Done);
}

#[test]
fn a_lost_connection_fails_all_its_streams() {
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
    used.feed(&Server::without_settings().headers(0, 3, &[(":status", "200")]).0, NOW, &mut events);
    events.all.clear();
    used.closed(NOW, &mut events);
    assert!(
        matches!(&events.all[0], Event::Failed(1, StreamFault::Failed(failure)) if failure.kind == ErrorKind::Reset)
    );
    assert!(matches!(&events.all[1], Event::Failed(2, StreamFault::Unprocessed(_))), "nothing of its response arrived");
    drain_output(&mut used);
    assert!(used.step() == Step::Done && !used.accepts());
}

#[test]
fn cancelled_streams_are_drained_or_reset() {
    let mut conn = conn();
    let mut events = Events::default();
    for key in 0..3 {
        conn.open(key, request());
    }
    let short = [(":status", "200"), ("content-length", "100")];
    let server = Server::new().headers(0, 1, &short).headers(0, 3, &[(":status", "200")]).headers(0, 5, &short);
    conn.feed(&server.0, NOW, &mut events);
    drain_output(&mut conn);
    events.all.clear();
    conn.cancel(0, NOW);
    assert!(drain_output(&mut conn).is_empty(), "the rest of a short body is read");
    conn.cancel(1, NOW);
    let reset = (kind::RST_STREAM, 0, 3, code::CANCEL.to_be_bytes().to_vec());
    assert_eq!(frames(&drain_output(&mut conn)), [reset], "a stream whose body has an unknown length is reset");
    conn.feed(
        &Server::without_settings()
            .data(0, 1, &[b'x'; 60])
            .data(0, 3, b"late")
            .data(flag::END_STREAM, 1, &[b'x'; 40])
            .0,
        NOW,
        &mut events,
    );
    assert!(events.all.is_empty(), "no events of a cancelled stream");
    assert!(conn.accepts() && !conn.is_idle());
    conn.cancel(2, NOW);
    assert!(conn.is_idle());
    assert_eq!(conn.deadline(), NOW + Duration::from_secs(5));
    conn.expire(conn.deadline(), &mut events);
    assert_eq!(frames(&drain_output(&mut conn)).len(), 1, "a drained stream that stalls is reset");
    assert_eq!(conn.deadline(), Time::NEVER);
}

#[test]
fn a_silent_connection_accepts_no_more_requests() {
    let mut conn = conn();
    conn.feed(&Server::new().0, NOW, &mut Events::default());
    conn.retire_if_silent(Duration::from_secs(20), NOW + Duration::from_secs(19));
    assert!(conn.accepts());
    conn.retire_if_silent(Duration::from_secs(20), NOW + Duration::from_secs(20));
    assert!(!conn.accepts());
}

#[test]
fn the_end_of_a_complete_body_is_awaited_for_some_seconds() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    let length = [(":status", "200"), ("content-length", "5")];
    conn.feed(&Server::new().headers(0, 1, &length).data(0, 1, b"123").0, NOW, &mut events);
    assert!(!conn.wait_for_end(0, NOW), "the body is not complete");
    conn.feed(&Server::without_settings().data(0, 1, b"45").0, NOW, &mut events);
    assert!(conn.wait_for_end(0, NOW));
    assert_eq!(conn.deadline(), NOW + Duration::from_secs(5));
    drain_output(&mut conn);
    conn.expire(conn.deadline(), &mut events);
    assert_eq!(events.all.last(), Some(&Event::End(0)));
    let reset = (kind::RST_STREAM, 0, 1, code::CANCEL.to_be_bytes().to_vec());
    assert_eq!(frames(&drain_output(&mut conn)), [reset]);
    assert!(conn.accepts());
}
