//! Connections in virtual time; keep-alive; memory of a waiting connection.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;

use std::sync::Arc;

use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
use argiope_core::{ErrorKind, Failure, Time, Truncated};
use conn_kit::*;

/// A connection whose request has been sent.
fn asked() -> Conn {
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    write_all(&mut conn, at(0));
    conn
}

/// Feeds `drip` every `beat` milliseconds until the exchange ends; returns the result and the time.
fn drip(conn: &mut Conn, drip: &[u8], beat: u64, kept: &mut Kept) -> (ErrorKind, Option<Truncated>, u64) {
    let mut now = at(0);
    let mut next = at(beat);
    while conn.step() != Step::Done {
        now = now.max(conn.deadline().min(next));
        if now == next {
            conn.feed(drip, now, kept);
            next = at(next.as_micros() / 1_000 + beat);
        }
        conn.expire(now, kept);
    }
    let end = conn.end();
    (end.failure.unwrap().kind, end.truncated, now.as_micros() / 1_000)
}

#[test]
fn a_head_must_be_whole_in_time_however_it_drips() {
    let mut conn = asked();
    assert_eq!(conn.deadline(), at(2_000));
    let mut kept = Kept::default();
    conn.feed(b"HTTP/1.1 200 OK\r\n", at(900), &mut kept);
    assert_eq!(conn.deadline(), at(2_000));
    let ended = drip(&mut conn, b"X-A: b\r\n", 1_000, &mut kept);
    assert_eq!(ended, (ErrorKind::TimeoutFirstByte, None, 2_000));
}

#[test]
fn interim_answers_gain_no_time() {
    let mut conn = asked();
    let ended = drip(&mut conn, b"HTTP/1.1 100 Continue\r\n\r\n", 500, &mut Kept::default());
    assert_eq!(ended, (ErrorKind::TimeoutFirstByte, None, 2_000));
}

#[test]
fn the_servers_time_begins_when_the_request_is_out() {
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    conn.wrote(10, at(500));
    assert_eq!(conn.deadline(), at(2_000));
    conn.wrote(REQUEST.len() - 10, at(1_500));
    assert_eq!(conn.deadline(), at(3_500));
}

#[test]
fn a_dripping_body_is_too_slow() {
    let mut conn = asked();
    let mut kept = Kept::default();
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", at(0), &mut kept);
    let ended = drip(&mut conn, b"x", 1_000, &mut kept);
    assert_eq!(ended, (ErrorKind::TooSlow, Some(Truncated::Time), 2_000));
    assert!(!kept.body.is_empty());
}

#[test]
fn a_body_that_moves_meets_the_total_deadline() {
    let mut conn = asked();
    let mut kept = Kept::default();
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", at(0), &mut kept);
    let ended = drip(&mut conn, &[b'x'; 200], 1_000, &mut kept);
    assert_eq!(ended, (ErrorKind::TimeoutTotal, Some(Truncated::Time), 8_000));
}

#[test]
fn expiring_early_changes_nothing() {
    let mut conn = asked();
    conn.expire(at(1_999), &mut Kept::default());
    assert_eq!(conn.step(), Step::Read);
}

#[test]
fn a_held_body_waits_without_clocks_but_not_for_ever() {
    let mut conn = asked();
    let mut kept = Kept::default();
    conn.set_paused(true, at(0));
    assert_eq!(conn.step(), Step::Read, "a head is always welcome");
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", at(100), &mut kept);
    assert_eq!(conn.step(), Step::Pause);
    assert_eq!(conn.deadline(), at(3_600_000));
    conn.expire(at(9_000), &mut kept);
    assert_eq!(conn.step(), Step::Pause);
    conn.set_paused(false, at(10_000));
    assert_eq!((conn.step(), conn.deadline()), (Step::Read, at(12_000)));
    conn.feed(b"world", at(10_100), &mut kept);
    assert_eq!(conn.step(), Step::Done);
    assert_eq!(conn.end().failure, None);
    assert_eq!(kept.body, b"helloworld");
}

#[test]
fn a_body_that_is_held_for_an_hour_ends() {
    let mut conn = asked();
    let mut kept = Kept::default();
    conn.set_paused(true, at(0));
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", at(100), &mut kept);
    conn.expire(at(3_600_000), &mut kept);
    assert_eq!(conn.step(), Step::Done);
    let end = conn.end();
    assert_eq!((end.failure.unwrap().kind, end.truncated), (ErrorKind::TimeoutTotal, Some(Truncated::Time)));
}

#[test]
fn pauses_count_neither_for_the_server_nor_against_it() {
    // The server sends one byte, then the receiver pauses, and so on. The minimum rate is 64 bytes a second.
    let mut conn = asked();
    let mut kept = Kept::default();
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", at(0), &mut kept);
    let mut now = 0;
    while conn.step() != Step::Done {
        assert!(now < 3_500, "a drip wins time by making us pause");
        now += 250;
        conn.feed(b"x", at(now), &mut kept);
        conn.set_paused(true, at(now));
        now += 100;
        conn.set_paused(false, at(now));
        conn.expire(at(now), &mut kept);
    }
    // Eight bytes, one every 250 ms: two seconds. The eight pauses of 100 ms do not count.
    assert_eq!((now, kept.body.len()), (2_800, 8));
    assert_eq!(conn.end().failure.unwrap().kind, ErrorKind::TooSlow);
}

#[test]
fn a_pause_in_the_head_is_none() {
    let mut conn = asked();
    conn.set_paused(true, at(0));
    conn.set_paused(false, at(1_500));
    assert_eq!(conn.deadline(), at(2_000));
}

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A connection that can be reused after its first exchange.
fn reused() -> Conn {
    let mut conn = asked();
    let end = finish(&mut conn, &[HELLO], After::Stay, &mut Kept::default());
    assert!(end.reusable);
    assert_eq!((conn.step(), conn.deadline()), (Step::Done, Time::NEVER));
    conn
}

fn ask_again(conn: &mut Conn) {
    conn.request(REQUEST.to_vec(), at(8_000), at(1));
    write_all(conn, at(1));
}

#[test]
fn a_kept_connection_answers_again() {
    let mut conn = reused();
    for _ in 0..3 {
        ask_again(&mut conn);
        let mut kept = Kept::default();
        let end = finish(&mut conn, &[HELLO], After::Stay, &mut kept);
        assert_eq!((end.failure, end.reusable, end.stale, end.bytes_wire), (None, true, false, HELLO.len() as u64));
        assert_eq!(end.ttfb, Some(at(1)));
        assert_eq!(kept.body, b"hello");
    }
}

#[test]
fn a_kept_connection_that_is_gone_is_stale() {
    for after in [After::Close, After::Reset] {
        let mut conn = reused();
        ask_again(&mut conn);
        let end = finish(&mut conn, &[], after, &mut Kept::default());
        assert!(end.stale && !end.reusable);
        assert!(matches!(end.failure.unwrap().kind, ErrorKind::EmptyReply | ErrorKind::Reset));
    }
    let mut fresh = asked();
    assert!(!finish(&mut fresh, &[], After::Close, &mut Kept::default()).stale);
    let mut conn = reused();
    ask_again(&mut conn);
    assert!(!finish(&mut conn, &[b"HTTP/1.1 2"], After::Close, &mut Kept::default()).stale, "an answer had begun");
}

#[test]
fn what_comes_or_goes_between_exchanges_spoils_the_connection() {
    for after in [After::Close, After::Reset, After::Stay] {
        let mut conn = reused();
        match after {
            After::Close => conn.closed(at(1), &mut Kept::default()),
            After::Reset => conn.broke(Failure::new(ErrorKind::Reset, "reset"), &mut Kept::default()),
            After::Stay => conn.feed(b"evil", at(1), &mut Kept::default()),
        }
        conn.request(REQUEST.to_vec(), at(8_000), at(1));
        assert_eq!(conn.step(), Step::Done);
        assert!(conn.end().stale);
    }
}

#[test]
fn leftovers_of_the_last_answer_are_not_this_ones_fault() {
    let mut conn = reused();
    ask_again(&mut conn);
    let bad = finish(&mut conn, &[b"HTTP/1.1 200 OK\r\nbad\r\n\r\n"], After::Stay, &mut Kept::default());
    assert!(!bad.stale, "a bad answer is this one's fault");
    let mut conn = reused();
    ask_again(&mut conn);
    let end = finish(&mut conn, &[b"leftovers"], After::Stay, &mut Kept::default());
    assert!(end.stale && !end.reusable);
    assert_eq!(end.failure.unwrap().kind, ErrorKind::Protocol);
}

#[test]
fn an_answer_before_the_request_is_out_ends_the_connection() {
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    conn.wrote(3, at(0));
    let mut kept = Kept::default();
    conn.feed(HELLO, at(0), &mut kept);
    assert_eq!(conn.step(), Step::Done);
    let end = conn.end();
    assert_eq!((end.failure, end.reusable), (None, false));
}

#[test]
fn a_waiting_connection_owns_next_to_nothing() {
    assert!(size_of::<Conn>() <= 256, "{}", size_of::<Conn>());
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    assert_eq!(conn.heap_bytes(), 0);
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    assert!(conn.heap_bytes() >= REQUEST.len());
    write_all(&mut conn, at(0));
    assert_eq!((conn.step(), conn.heap_bytes()), (Step::Read, 0));
    conn.feed(&HELLO[..40], at(0), &mut Kept::default());
    assert_eq!((conn.step(), conn.heap_bytes()), (Step::Read, 0), "in an identity body");
    conn.feed(&HELLO[40..], at(0), &mut Kept::default());
    conn.end();
    assert_eq!(conn.heap_bytes(), 0);
}

#[test]
fn a_connection_can_move_between_threads() {
    fn moves<T: Send>() {}
    moves::<Conn>();
}

/// Asserts that the body is passed on without a copy.
struct Lent<'a>(&'a [u8]);

impl Receiver for Lent<'_> {
    fn head(&mut self, _head: &Head, _now: Time) -> Want {
        Want::Body
    }

    fn wire(&mut self, _raw: &[u8]) {}

    fn body(&mut self, decoded: &[u8]) {
        assert!(self.0.as_ptr_range().contains(&decoded.as_ptr()));
    }
}

#[test]
fn a_plain_body_is_lent_not_copied() {
    let mut conn = asked();
    conn.feed(HELLO, at(0), &mut Lent(HELLO));
    assert_eq!(conn.end().bytes_body, 5);
}

#[test]
fn a_megabyte_of_one_byte_chunks() {
    let limits = Limits { max_head: 256 << 10, ..limits() };
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    answer.extend(b"1\r\nx\r\n".repeat(1 << 20));
    answer.extend(b"0\r\n\r\n");
    let pieces: Vec<&[u8]> = answer.chunks(64 << 10).collect();
    let seen = once(&limits, &pieces, After::Stay);
    assert_eq!((seen.kind, seen.body.len(), seen.wire.len()), (None, 1 << 20, answer.len()));
}

#[test]
fn a_long_head_byte_by_byte_takes_linear_time() {
    let limits = Limits { max_head: 1 << 20, max_headers: 100_000, ..limits() };
    let answer = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X-A: b\r\n".repeat(60_000));
    let bytes: Vec<&[u8]> = answer.as_bytes().chunks(1).collect();
    assert_eq!(once(&limits, &bytes, After::Stay).kind, None);
}
