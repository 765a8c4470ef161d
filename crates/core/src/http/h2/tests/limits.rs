//! Limits on what a server may send, and on the memory of a connection.

use std::time::Duration;

use super::*;
use crate::http::h2::conn::Stream;

/// `accept-encoding: gzip, deflate`, the longest entry of the static HPACK table.
const LONGEST_ENTRY: u8 = 0x90;

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
        drain_output(&mut conn);
        conn.feed(&server.0, NOW, &mut events);
        assert!(matches!(events.all.last(), Some(Event::Failed(0, _))));
        let out = frames(&drain_output(&mut conn));
        assert_eq!(out.last().unwrap().3[4..], code::ENHANCE_YOUR_CALM.to_be_bytes());
        assert_eq!(conn.step(), Step::Done);
    }
    let head = Server::new().headers(0, 1, &[(":status", "200")]);
    let empty = (0..1_000).fold(head.clone(), |server, _| server.data(0, 1, b""));
    assert_eq!(kind_of(failure(&empty)), ErrorKind::Protocol);
    let padded = (0..1_000).fold(head, |server, _| server.frame(kind::DATA, flag::PADDED, 1, &[2, 0, 0]));
    assert_eq!(kind_of(failure(&padded)), ErrorKind::Protocol);
    let open_block = Server::new().frame(kind::HEADERS, 0, 1, &[STATUS_200]);
    let continued = (0..1_000).fold(open_block, |server, _| server.frame(kind::CONTINUATION, 0, 1, b""));
    assert_eq!(kind_of(failure(&continued)), ErrorKind::Protocol);
    // The same number of frames over some seconds is not a flood.
    let mut conn = conn();
    let mut events = Events::default();
    for second in 0..10 {
        for _ in 0..100 {
            conn.feed(&Server::without_settings().settings(&[]).0, NOW + Duration::from_secs(second), &mut events);
        }
        drain_output(&mut conn);
    }
    assert!(conn.accepts());
}

#[test]
fn replies_that_the_server_does_not_read_are_bounded() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.feed(&Server::new().0, NOW, &mut events);
    let mut second = 0;
    while conn.accepts() {
        second += 1;
        // Fewer than the limit on frames without content per second.
        for _ in 0..400 {
            conn.feed(
                &Server::without_settings().frame(kind::PING, 0, 0, &[0; 8]).0,
                NOW + Duration::from_secs(second),
                &mut events,
            );
        }
        assert!(conn.heap_bytes() < 1 << 20);
    }
}

#[test]
fn header_blocks_are_limited() {
    let long = block(&[(":status", "200"), ("x", &"v".repeat(5_000))]);
    let (events, out) = exchange_requests(
        1,
        &Server::new().frame(kind::HEADERS, flag::END_HEADERS, 1, &long).data(flag::END_STREAM, 1, b"x"),
    );
    assert!(matches!(&events[..], [Event::Failed(0, fault)] if kind_of(fault.clone()) == ErrorKind::HeaderTooLarge));
    assert!(out.iter().any(|frame| frame.0 == kind::RST_STREAM) && out.iter().all(|frame| frame.0 != kind::GOAWAY));
    // Many short references: the decoded bytes count.
    let bomb = [&[STATUS_200][..], &[LONGEST_ENTRY; 2_000]].concat();
    let (events, _) = exchange_requests(1, &Server::new().frame(kind::HEADERS, flag::END_HEADERS, 1, &bomb));
    assert!(matches!(&events[..], [Event::Failed(0, fault)] if kind_of(fault.clone()) == ErrorKind::HeaderTooLarge));
    // Endless CONTINUATION: the connection is ended, and little was stored.
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    drain_output(&mut conn);
    conn.feed(&Server::new().frame(kind::HEADERS, 0, 1, &[STATUS_200]).0, NOW, &mut events);
    for _ in 0..100 {
        conn.feed(
            &Server::without_settings().frame(kind::CONTINUATION, 0, 1, &[LONGEST_ENTRY; 1_000]).0,
            NOW,
            &mut events,
        );
        assert!(conn.heap_bytes() < 20_000, "{}", conn.heap_bytes());
    }
    assert!(
        matches!(&events.all[..], [Event::Failed(0, fault)] if kind_of(fault.clone()) == ErrorKind::HeaderTooLarge)
    );
    assert!(!conn.accepts());
}

#[test]
fn padding_does_not_count_as_body_but_has_a_limit() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    conn.feed(&Server::new().headers(0, 1, &[(":status", "200")]).0, NOW, &mut events);
    // The length of the padding, the content, and the padding.
    let padded = |content: usize| [&[255][..], &vec![b'x'; content], &[0; 255]].concat();
    for _ in 0..190 {
        conn.feed(&Server::without_settings().frame(kind::DATA, flag::PADDED, 1, &padded(1_000)).0, NOW, &mut events);
    }
    conn.feed(&Server::without_settings().data(flag::END_STREAM, 1, b"y").0, NOW, &mut events);
    let [Event::Head(..), Event::Data(0, body), Event::End(0)] = &events.all[..] else { panic!("{:?}", events.all) };
    assert_eq!(body.len(), 190_001, "the padded payloads take 238,640 bytes, and the limit on bodies is 200,000");

    conn.open(1, request());
    events.all.clear();
    conn.feed(&Server::without_settings().headers(0, 3, &[(":status", "200")]).0, NOW, &mut events);
    let mut sent = 0;
    while conn.accepts() && sent < 1 << 22 {
        conn.feed(&Server::without_settings().frame(kind::DATA, flag::PADDED, 3, &padded(1)).0, NOW, &mut events);
        sent += padded(1).len();
    }
    // The frames may take 1 MiB and twice the body. The body is a tiny part of them.
    assert!(sent < 3 << 20, "{sent} bytes");
}

#[test]
fn many_heads_on_a_closed_stream_end_the_connection() {
    let mut server = Server::new().page(1, b"x");
    // More than the limit on frames without content per second.
    for _ in 0..600 {
        server = server.frame(kind::HEADERS, flag::END_HEADERS, 1, &[]);
    }
    let mut conn = conn();
    conn.open(0, request());
    conn.feed(&server.0, NOW, &mut Events::default());
    assert!(conn.is_over());
}

#[test]
fn windows_are_granted_as_the_body_is_consumed() {
    let updates = |conn: &mut H2Conn, stream: u32| -> Vec<u32> {
        let all = frames(&drain_output(conn));
        let of_stream = all.iter().filter(|frame| frame.0 == kind::WINDOW_UPDATE && frame.2 == stream);
        of_stream.map(|frame| u32::from_be_bytes(frame.3[..].try_into().unwrap())).collect()
    };
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    conn.feed(&Server::new().headers(0, 1, &[(":status", "200")]).0, NOW, &mut events);
    drain_output(&mut conn);
    let piece = Server::without_settings().data(0, 1, &[b'x'; 16_384]);
    conn.feed(&piece.0, NOW, &mut events);
    assert!(updates(&mut conn, 1).is_empty());
    conn.feed(&piece.0, NOW, &mut events);
    let granted = updates(&mut conn, 1);
    assert_eq!(granted, [2 * 65_535 - (65_535 - 2 * 16_384)], "twice the window from now on");
    // A consumer that pauses gets no more window; the connection's window is not affected.
    events.is_paused = true;
    for _ in 0..6 {
        conn.feed(&piece.0, NOW, &mut events);
        assert!(updates(&mut conn, 1).is_empty());
    }
    conn.consumed(0, 6 * 16_384);
    assert_eq!(updates(&mut conn, 1).len(), 1, "the rest of the limit on the body");
    // In total, the limit on the body plus one byte was granted.
    events.is_paused = false;
    for _ in 0..4 {
        conn.feed(&piece.0, NOW, &mut events);
    }
    assert!(conn.accepts(), "196,608 of 200,001 bytes");
    assert!(updates(&mut conn, 1).is_empty());
    conn.feed(&piece.0, NOW, &mut events);
    assert!(matches!(events.all.last(), Some(Event::Failed(0, _))), "more than was granted");
}

#[test]
fn the_connection_window_is_granted_as_bytes_arrive() {
    // The least window: it is raised to the default of HTTP/2, 65,535 bytes.
    let mut conn = H2Conn::new(limits(), 0, NOW);
    let mut events = Events { is_paused: true, ..Events::default() };
    for key in 0..10 {
        conn.open(key, request());
    }
    conn.feed(&Server::new().0, NOW, &mut events);
    // Ten streams with paused consumers receive 7.5 times the connection's window, and the connection still has room.
    for stream in (1..20).step_by(2) {
        conn.feed(&Server::without_settings().headers(0, stream, &[(":status", "200")]).0, NOW, &mut events);
        for _ in 0..3 {
            conn.feed(&Server::without_settings().data(0, stream, &[b'x'; 16_384]).0, NOW, &mut events);
        }
    }
    assert!(conn.accepts());
}

#[test]
fn data_on_a_closed_stream_is_limited_to_its_window() {
    let piece = |stream: u32| Server::without_settings().data(0, stream, &[b'x'; 16_384]).0;
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, request());
    conn.feed(&Server::new().headers(0, 1, &[(":status", "200")]).0, NOW, &mut events);
    conn.cancel(0, NOW);
    for _ in 0..3 {
        conn.feed(&piece(1), NOW, &mut events);
        assert!(conn.accepts(), "the server may have sent it before the reset arrived");
    }
    conn.feed(&piece(1), NOW, &mut events);
    assert!(conn.is_over(), "more than the window of 65,535 bytes");

    let (_, out) = exchange_requests(1, &Server::new().page(1, b"x").data(0, 1, b"y"));
    let goaway = out.last().expect("a frame");
    assert_eq!((goaway.0, &goaway.3[4..]), (kind::GOAWAY, &code::STREAM_CLOSED.to_be_bytes()[..]));
}

#[test]
fn pings_are_answered_and_a_waiting_connection_is_small() {
    let (_, out) = exchange_requests(
        1,
        &Server::new().frame(kind::PING, 0, 0, b"12345678").frame(kind::PING, flag::ACK, 0, &[0; 8]),
    );
    assert_eq!(out[1..], [(kind::PING, flag::ACK, 0, b"12345678".to_vec())]);
    let mut conn = conn();
    conn.open(0, request());
    conn.feed(&Server::new().0, NOW, &mut Events::default());
    drain_output(&mut conn);
    let one = size_of::<H2Conn>() + conn.heap_bytes();
    assert!(one <= 1_024, "{one} bytes");
    assert!(size_of::<Stream>() <= 88, "{}", size_of::<Stream>());
}
