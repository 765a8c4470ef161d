//! Deadlines of connections in virtual time, keep-alive, and the memory of a waiting connection.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;

use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::quota::SlowResponseQuota;
use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
use argiope_core::{ErrorKind, Failure, Time, Truncated};
use conn_kit::*;

/// A connection whose request has been sent.
fn conn_after_request() -> Conn {
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    write_all(&mut conn, at(0));
    conn
}

/// Feeds `bytes` every `interval` milliseconds until the exchange ends. Returns the error, the kind of truncation, and
/// the time in milliseconds.
fn feed_periodically(
    conn: &mut Conn,
    bytes: &[u8],
    interval: u64,
    recorder: &mut Recorder,
) -> (ErrorKind, Option<Truncated>, u64) {
    let mut now = at(0);
    let mut next = at(interval);
    while conn.step() != Step::Done {
        now = now.max(conn.deadline().min(next));
        if now == next {
            conn.feed(bytes, now, recorder);
            next = at(next.as_micros() / 1_000 + interval);
        }
        conn.expire(now, recorder);
    }
    let end = conn.end();
    (end.failure.unwrap().kind, end.truncated, now.as_micros() / 1_000)
}

#[test]
fn a_slow_head_does_not_extend_its_deadline() {
    let mut conn = conn_after_request();
    assert_eq!(conn.deadline(), at(2_000));
    let mut recorder = Recorder::default();
    conn.feed(b"HTTP/1.1 200 OK\r\n", at(900), &mut recorder);
    assert_eq!(conn.deadline(), at(2_000));
    let ended = feed_periodically(&mut conn, b"X-A: b\r\n", 1_000, &mut recorder);
    assert_eq!(ended, (ErrorKind::TimeoutFirstByte, None, 2_000));
}

#[test]
fn interim_responses_do_not_extend_the_deadline() {
    let mut conn = conn_after_request();
    let ended = feed_periodically(&mut conn, b"HTTP/1.1 100 Continue\r\n\r\n", 500, &mut Recorder::default());
    assert_eq!(ended, (ErrorKind::TimeoutFirstByte, None, 2_000));
}

#[test]
fn the_response_deadline_starts_when_the_request_is_sent() {
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    conn.wrote(10, at(500));
    assert_eq!(conn.deadline(), at(2_000));
    conn.wrote(REQUEST.len() - 10, at(1_500));
    assert_eq!(conn.deadline(), at(3_500));
}

#[test]
fn a_body_below_the_minimum_rate_is_too_slow() {
    let mut conn = conn_after_request();
    let mut recorder = Recorder::default();
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", at(0), &mut recorder);
    let ended = feed_periodically(&mut conn, b"x", 1_000, &mut recorder);
    assert_eq!(ended, (ErrorKind::TooSlow, Some(Truncated::Time), 2_000));
    assert!(!recorder.body.is_empty());
}

#[test]
fn a_head_that_drips_ends_if_its_slot_is_needed() {
    // Longer than the total timeout.
    let idle = Duration::from_secs(20);
    for (needed, ended) in [(0, (ErrorKind::TimeoutTotal, 8_000)), (1, (ErrorKind::TooSlow, 1_100))] {
        let mut conn = Conn::plain(Arc::new(Limits { idle, ..limits() }), at(0));
        conn.request(REQUEST.to_vec(), at(8_000), at(0));
        write_all(&mut conn, at(0));
        let mut recorder = Recorder::default();
        recorder.quota.set(needed, Duration::from_secs(1));
        conn.feed(b"HTTP/1.1 200 OK\r\nX: ", at(50), &mut recorder);
        let (kind, truncated, millis) = feed_periodically(&mut conn, b"drip", 100, &mut recorder);
        assert_eq!(((kind, millis), truncated), (ended, None), "{needed} slots are needed");
    }
}

#[test]
fn a_silent_response_ends_if_its_slot_is_needed() {
    for (needed, ended) in [(0, (ErrorKind::TimeoutFirstByte, 20_000)), (1, (ErrorKind::TooSlow, 5_000))] {
        let mut recorder = Recorder::default();
        // The quota of responses that have begun does not apply.
        recorder.quota.set(1, Duration::from_secs(1));
        recorder.quota.set_silent(needed);
        let mut conn = Conn::plain(Arc::new(Limits::default()), at(0));
        conn.request(REQUEST.to_vec(), at(60_000), at(0));
        write_all(&mut conn, at(0));
        assert_eq!(expire_until_done(&mut conn, &mut recorder), (ended.0, None, ended.1), "{needed} slots are needed");
    }
}

#[test]
fn a_request_that_is_still_being_sent_does_not_end_if_its_slot_is_needed() {
    let mut conn = Conn::plain(Arc::new(Limits::default()), at(0));
    conn.request(REQUEST.to_vec(), at(60_000), at(0));
    assert!(matches!(conn.step(), Step::Write(_)));
    conn.wrote(1, at(0));
    assert_eq!(conn.deadline(), at(20_000), "no check of the slot precedes the idle timeout");
    // It is checked once it is sent.
    write_all(&mut conn, at(8_000));
    assert_eq!(conn.deadline(), at(13_000));
}

#[test]
fn the_first_check_of_a_body_is_not_postponed_by_a_slow_head() {
    let mut conn = Conn::plain(Arc::new(Limits::default()), at(0));
    conn.request(REQUEST.to_vec(), at(60_000), at(0));
    write_all(&mut conn, at(0));
    for second in 5..15 {
        assert_eq!(conn.deadline(), at(second * 1_000));
        conn.expire(at(second * 1_000), &mut Recorder::default());
    }
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", at(14_500), &mut Recorder::default());
    assert_eq!(conn.deadline(), at(19_500));
}

#[test]
fn a_closed_response_counts_for_both_quotas() {
    let quota = SlowResponseQuota::default();
    let long = Duration::from_secs(10);
    quota.set(2, Duration::from_secs(1));
    quota.set_silent(2);
    assert!(quota.take(long) && quota.take_silent(long));
    assert!(!quota.take(long) && !quota.take_silent(long), "two slots were needed");
}

#[test]
fn a_response_that_stalls_ends_if_its_slot_is_needed() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
    for (received, kind, truncated) in
        [(&head[..20], ErrorKind::TimeoutFirstByte, None), (&head[..], ErrorKind::TimeoutIdle, Some(Truncated::Time))]
    {
        for (needed, ended) in [(0, (kind, truncated, 20_000)), (1, (ErrorKind::TooSlow, truncated, 5_000))] {
            let mut recorder = Recorder::default();
            recorder.quota.set(needed, Duration::from_secs(1));
            let mut conn = Conn::plain(Arc::new(Limits::default()), at(0));
            conn.request(REQUEST.to_vec(), at(60_000), at(0));
            write_all(&mut conn, at(0));
            conn.feed(received, at(0), &mut recorder);
            assert_eq!(expire_until_done(&mut conn, &mut recorder), ended, "{needed} slots are needed");
        }
    }
}

/// Calls `expire` at each deadline until the exchange ends. Returns the error, the kind of truncation, and the time in
/// milliseconds.
fn expire_until_done(conn: &mut Conn, recorder: &mut Recorder) -> (ErrorKind, Option<Truncated>, u64) {
    loop {
        let now = conn.deadline();
        conn.expire(now, recorder);
        if conn.step() == Step::Done {
            let end = conn.end();
            return (end.failure.expect("a failure").kind, end.truncated, (now - at(0)).as_millis() as u64);
        }
        assert!(conn.deadline() > now, "the deadline does not change");
    }
}

#[test]
fn a_steady_body_ends_at_the_total_deadline() {
    let mut conn = conn_after_request();
    let mut recorder = Recorder::default();
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", at(0), &mut recorder);
    let ended = feed_periodically(&mut conn, &[b'x'; 200], 1_000, &mut recorder);
    assert_eq!(ended, (ErrorKind::TimeoutTotal, Some(Truncated::Time), 8_000));
}

#[test]
fn an_early_expire_changes_nothing() {
    let mut conn = conn_after_request();
    conn.expire(at(1_999), &mut Recorder::default());
    assert_eq!(conn.step(), Step::Read);
}

#[test]
fn a_paused_body_has_only_the_deadline_of_one_hour() {
    let mut conn = conn_after_request();
    let mut recorder = Recorder::default();
    conn.set_paused(true, at(0));
    assert_eq!(conn.step(), Step::Read, "heads are read even while the connection is paused");
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", at(100), &mut recorder);
    assert_eq!(conn.step(), Step::Pause);
    assert_eq!(conn.deadline(), at(3_600_000));
    conn.expire(at(9_000), &mut recorder);
    assert_eq!(conn.step(), Step::Pause);
    conn.set_paused(false, at(10_000));
    assert_eq!((conn.step(), conn.deadline()), (Step::Read, at(12_000)));
    conn.feed(b"world", at(10_100), &mut recorder);
    assert_eq!(conn.step(), Step::Done);
    assert_eq!(conn.end().failure, None);
    assert_eq!(recorder.body, b"helloworld");
}

#[test]
fn a_body_paused_for_an_hour_times_out() {
    let mut conn = conn_after_request();
    let mut recorder = Recorder::default();
    conn.set_paused(true, at(0));
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", at(100), &mut recorder);
    conn.expire(at(3_600_000), &mut recorder);
    assert_eq!(conn.step(), Step::Done);
    let end = conn.end();
    assert_eq!((end.failure.unwrap().kind, end.truncated), (ErrorKind::TimeoutTotal, Some(Truncated::Time)));
}

#[test]
fn pauses_do_not_count_in_the_rate() {
    // The server sends one byte, then the receiver pauses, and so on. The minimum rate is 64 bytes a second.
    let mut conn = conn_after_request();
    let mut recorder = Recorder::default();
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", at(0), &mut recorder);
    let mut now = 0;
    while conn.step() != Step::Done {
        assert!(now < 3_500, "pauses must not start the time anew");
        now += 250;
        conn.feed(b"x", at(now), &mut recorder);
        conn.set_paused(true, at(now));
        now += 100;
        conn.set_paused(false, at(now));
        conn.expire(at(now), &mut recorder);
    }
    // Eight bytes, one every 250 ms: two seconds. The eight pauses of 100 ms do not count.
    assert_eq!((now, recorder.body.len()), (2_800, 8));
    assert_eq!(conn.end().failure.unwrap().kind, ErrorKind::TooSlow);
}

#[test]
fn a_pause_does_not_extend_the_deadline_of_a_head() {
    let mut conn = conn_after_request();
    conn.set_paused(true, at(0));
    conn.set_paused(false, at(1_500));
    assert_eq!(conn.deadline(), at(2_000));
}

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A connection that can be reused after its first exchange.
fn reusable_conn() -> Conn {
    let mut conn = conn_after_request();
    let end = finish(&mut conn, &[HELLO], After::Stay, &mut Recorder::default());
    assert!(end.reusable);
    assert_eq!((conn.step(), conn.deadline()), (Step::Done, Time::NEVER));
    conn
}

fn send_request(conn: &mut Conn) {
    conn.request(REQUEST.to_vec(), at(8_000), at(1));
    write_all(conn, at(1));
}

#[test]
fn a_kept_connection_serves_further_requests() {
    let mut conn = reusable_conn();
    for _ in 0..3 {
        send_request(&mut conn);
        let mut recorder = Recorder::default();
        let end = finish(&mut conn, &[HELLO], After::Stay, &mut recorder);
        assert_eq!((end.failure, end.reusable, end.stale, end.bytes_wire), (None, true, false, HELLO.len() as u64));
        assert_eq!(end.ttfb, Some(at(1)));
        assert_eq!(recorder.body, b"hello");
    }
}

#[test]
fn a_kept_connection_that_was_closed_is_stale() {
    for after in [After::Close, After::Reset] {
        let mut conn = reusable_conn();
        send_request(&mut conn);
        let end = finish(&mut conn, &[], after, &mut Recorder::default());
        assert!(end.stale && !end.reusable);
        assert!(matches!(end.failure.unwrap().kind, ErrorKind::EmptyReply | ErrorKind::Reset));
    }
    let mut fresh = conn_after_request();
    assert!(!finish(&mut fresh, &[], After::Close, &mut Recorder::default()).stale);
    let mut conn = reusable_conn();
    send_request(&mut conn);
    assert!(!finish(&mut conn, &[b"HTTP/1.1 2"], After::Close, &mut Recorder::default()).stale, "a response had begun");
}

#[test]
fn bytes_or_a_close_between_exchanges_make_a_connection_stale() {
    for after in [After::Close, After::Reset, After::Stay] {
        let mut conn = reusable_conn();
        match after {
            After::Close => conn.closed(at(1), &mut Recorder::default()),
            After::Reset => conn.broke(Failure::new(ErrorKind::Reset, "reset"), &mut Recorder::default()),
            After::Stay => conn.feed(b"evil", at(1), &mut Recorder::default()),
        }
        conn.request(REQUEST.to_vec(), at(8_000), at(1));
        assert_eq!(conn.step(), Step::Done);
        assert!(conn.end().stale);
    }
}

#[test]
fn leftover_bytes_make_a_connection_stale_and_a_bad_response_does_not() {
    let mut conn = reusable_conn();
    send_request(&mut conn);
    let bad = finish(&mut conn, &[b"HTTP/1.1 200 OK\r\nbad\r\n\r\n"], After::Stay, &mut Recorder::default());
    assert!(!bad.stale, "a bad response is not a leftover");
    let mut conn = reusable_conn();
    send_request(&mut conn);
    let end = finish(&mut conn, &[b"leftovers"], After::Stay, &mut Recorder::default());
    assert!(end.stale && !end.reusable);
    assert_eq!(end.failure.unwrap().kind, ErrorKind::Protocol);
}

#[test]
fn a_response_before_the_whole_request_prevents_reuse() {
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    conn.wrote(3, at(0));
    let mut recorder = Recorder::default();
    conn.feed(HELLO, at(0), &mut recorder);
    assert_eq!(conn.step(), Step::Done);
    let end = conn.end();
    assert_eq!((end.failure, end.reusable), (None, false));
}

#[test]
fn a_waiting_connection_has_no_heap_memory() {
    assert!(size_of::<Conn>() <= 256, "{}", size_of::<Conn>());
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    assert_eq!(conn.heap_bytes(), 0);
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    assert!(conn.heap_bytes() >= REQUEST.len());
    write_all(&mut conn, at(0));
    assert_eq!((conn.step(), conn.heap_bytes()), (Step::Read, 0));
    conn.feed(&HELLO[..40], at(0), &mut Recorder::default());
    assert_eq!((conn.step(), conn.heap_bytes()), (Step::Read, 0), "also within a body without coding");
    conn.feed(&HELLO[40..], at(0), &mut Recorder::default());
    conn.end();
    assert_eq!(conn.heap_bytes(), 0);
}

#[test]
fn a_connection_can_move_between_threads() {
    fn moves<T: Send>() {}
    moves::<Conn>();
}

/// Asserts that the body is passed on without a copy.
struct NoCopyReceiver<'a>(&'a [u8]);

impl Receiver for NoCopyReceiver<'_> {
    fn head(&mut self, _head: &Head, _now: Time) -> Want {
        Want::Body
    }

    fn wire(&mut self, _raw: &[u8]) {}

    fn body(&mut self, decoded: &[u8]) {
        assert!(self.0.as_ptr_range().contains(&decoded.as_ptr()));
    }
}

#[test]
fn a_plain_body_is_passed_on_without_a_copy() {
    let mut conn = conn_after_request();
    conn.feed(HELLO, at(0), &mut NoCopyReceiver(HELLO));
    assert_eq!(conn.end().bytes_body, 5);
}

#[test]
fn a_megabyte_of_one_byte_chunks_is_read() {
    let limits = Limits { max_head: 256 << 10, ..limits() };
    let mut response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    response.extend(b"1\r\nx\r\n".repeat(1 << 20));
    response.extend(b"0\r\n\r\n");
    let pieces: Vec<&[u8]> = response.chunks(64 << 10).collect();
    let result = run_exchange(&limits, &pieces, After::Stay);
    assert_eq!((result.kind, result.body.len(), result.wire.len()), (None, 1 << 20, response.len()));
}

/// Parsing the head again for each byte would take minutes.
#[test]
fn a_long_head_is_read_byte_by_byte() {
    let limits = Limits { max_head: 1 << 20, max_headers: 100_000, ..limits() };
    let response = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X-A: b\r\n".repeat(60_000));
    let bytes: Vec<&[u8]> = response.as_bytes().chunks(1).collect();
    assert_eq!(run_exchange(&limits, &bytes, After::Stay).kind, None);
}
