//! Requests with bodies.

use super::*;

/// A POST request with a body of this length.
fn form(length: usize, is_repeatable: bool) -> H2Request {
    let block = block(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "h"),
        (":path", "/"),
        ("content-length", "9"),
    ]);
    H2Request { block, body: (0..length).map(|at| at as u8).collect(), is_repeatable }
}

#[test]
fn a_body_is_sent_as_far_as_the_windows_allow() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, form(70_000, false));
    let sent = std::cell::RefCell::new(Vec::new());
    // The frames of stream 1 that were written since the last call: kind, flags and length of the payload.
    let written_frames = |conn: &mut H2Conn| {
        let new: Vec<SentFrame> = frames(&drain_output(conn)).into_iter().filter(|frame| frame.2 == 1).collect();
        let lengths: Vec<(u8, u8, usize)> = new.iter().map(|frame| (frame.0, frame.1, frame.3.len())).collect();
        new.iter()
            .filter(|frame| frame.0 == kind::DATA)
            .for_each(|frame| sent.borrow_mut().extend_from_slice(&frame.3));
        lengths
    };
    let first = written_frames(&mut conn);
    assert_eq!((first[0].0, first[0].1), (kind::HEADERS, flag::END_HEADERS), "a body follows");
    let data = |length| (kind::DATA, 0, length);
    assert_eq!(first[1..], [data(16_384), data(16_384), data(16_384), data(16_383)], "the default window");
    let update =
        |stream, by: u32| Server::without_settings().frame(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes()).0;
    let settings = Server::without_settings().settings(&[(setting::INITIAL_WINDOW_SIZE, 65_635)]).0;
    conn.feed(&settings, NOW, &mut events);
    assert_eq!(written_frames(&mut conn), [], "the window of the connection is used up");
    conn.feed(&update(0, 1_000_000), NOW, &mut events);
    assert_eq!(written_frames(&mut conn), [data(100)], "the window of the stream grew by a setting");
    conn.feed(&update(1, 4_000), NOW, &mut events);
    assert_eq!(written_frames(&mut conn), [data(4_000)]);
    conn.feed(&update(1, 4_000), NOW, &mut events);
    assert_eq!(written_frames(&mut conn), [(kind::DATA, flag::END_STREAM, 365)]);
    assert_eq!(*sent.borrow(), (0..70_000).map(|at| at as u8).collect::<Vec<u8>>());
    conn.feed(&Server::without_settings().page(1, b"x").0, NOW, &mut events);
    assert_eq!(events.all.last(), Some(&Event::End(0)));
    assert_eq!(written_frames(&mut conn), [], "everything was sent, so nothing is reset");
}

#[test]
fn an_early_response_ends_the_upload_and_a_form_is_not_repeated() {
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, form(100_000, false));
    drain_output(&mut conn);
    conn.feed(&Server::new().page(1, b"x").0, NOW, &mut events);
    assert_eq!(events.all.last(), Some(&Event::End(0)));
    let reset = frames(&drain_output(&mut conn)).into_iter().find(|frame| frame.0 == kind::RST_STREAM);
    assert_eq!(reset, Some((kind::RST_STREAM, 0, 1, code::CANCEL.to_be_bytes().to_vec())));
    conn.open(1, form(10, false));
    conn.open(2, form(10, true));
    conn.closed(NOW, &mut events);
    let [.., Event::Failed(1, form), Event::Failed(2, repeatable)] = events.all.as_slice() else {
        panic!("{:?}", events.all);
    };
    assert!(matches!(form, StreamFault::Failed(_)), "it may have been processed: {form:?}");
    assert!(matches!(repeatable, StreamFault::Unprocessed(_)), "{repeatable:?}");
}

#[test]
fn a_server_may_restore_the_window_that_a_body_used() {
    let update = |by: u32| Server::without_settings().frame(kind::WINDOW_UPDATE, 0, 1, &by.to_be_bytes()).0;
    let mut conn = conn();
    let mut events = Events::default();
    conn.feed(&Server::new().settings(&[(setting::INITIAL_WINDOW_SIZE, frame::MAX_WINDOW)]).0, NOW, &mut events);
    conn.open(0, form(20_000, false));
    drain_output(&mut conn);
    conn.feed(&update(20_000), NOW, &mut events);
    assert_eq!(events.all, []);
    conn.feed(&update(1), NOW, &mut events);
    assert!(matches!(events.all[..], [Event::Failed(0, _)]), "now the window is too large");
}

#[test]
fn an_unprocessed_form_may_be_sent_again() {
    for (request, is_unprocessed) in [(form(10, false), true), (request(), false)] {
        let mut conn = conn();
        let mut events = Events::default();
        conn.open(0, request);
        conn.feed(
            &Server::new().frame(kind::RST_STREAM, 0, 1, &code::REFUSED_STREAM.to_be_bytes()).0,
            NOW,
            &mut events,
        );
        let [Event::Failed(0, fault)] = &events.all[..] else { panic!("{:?}", events.all) };
        assert_eq!(matches!(fault, StreamFault::Unprocessed(_)), is_unprocessed, "{fault:?}");
    }
    let mut conn = conn();
    let mut events = Events::default();
    conn.open(0, form(10, false));
    conn.open(1, form(10, false));
    conn.feed(&Server::without_settings().settings(&[(setting::MAX_CONCURRENT_STREAMS, 1)]).0, NOW, &mut events);
    conn.feed(&Server::without_settings().frame(kind::PUSH_PROMISE, 0, 1, &[0; 4]).0, NOW, &mut events);
    let [Event::Failed(0, sent), Event::Failed(1, waiting)] = &events.all[..] else { panic!("{:?}", events.all) };
    assert!(matches!(sent, StreamFault::Failed(_)) && matches!(waiting, StreamFault::Unprocessed(_)));
}

#[test]
fn window_updates_for_a_body_are_not_a_flood() {
    let update =
        |stream: u32, by: u32| Server::without_settings().frame(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes()).0;
    let mut conn = conn();
    let mut events = Events::default();
    conn.feed(&Server::new().0, NOW, &mut events);
    conn.open(0, form(16 << 20, false));
    let mut sent = 0;
    // All within one second: the server sends window updates for each frame, to both windows.
    while sent < 16 << 20 {
        let data: Vec<usize> = frames(&drain_output(&mut conn))
            .iter()
            .filter(|frame| frame.0 == kind::DATA)
            .map(|frame| frame.3.len())
            .collect();
        assert!(!data.is_empty() && conn.accepts(), "after {sent} bytes: {:?}", events.all);
        for length in data {
            sent += length;
            conn.feed(&update(0, length as u32), NOW, &mut events);
            conn.feed(&update(1, length as u32), NOW, &mut events);
        }
    }
    assert_eq!(events.all, []);
    // Window updates without data that we sent are a flood. About 16,384 more are allowed, one for each KiB of the
    // body.
    for _ in 0..40_000 {
        conn.feed(&update(0, 1), NOW, &mut events);
    }
    assert!(conn.is_over());
}
