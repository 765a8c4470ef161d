//! Shared by the connection tests: a receiver that keeps everything, and ways to feed a response.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use argiope_core::http::conn::{Conn, ExchangeEnd, Head, Limits, Receiver, Step, Want};
use argiope_core::{ErrorKind, Failure, Time, Truncated};

pub const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// The limits for which the hostile cases are written.
pub fn limits() -> Limits {
    Limits {
        max_head: 64 << 10,
        max_headers: 256,
        max_1xx: 16,
        max_body: 4 << 20,
        max_wire: 1 << 20,
        max_codings: 3,
        idle: Duration::from_secs(2),
        connect: Duration::from_secs(2),
        total: Duration::from_secs(8),
        min_rate: 64,
        ..Limits::default()
    }
}

pub fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1_000)
}

/// Keeps all parts of a response.
#[derive(Default)]
pub struct Kept {
    pub head: Option<Head>,
    pub wire: Vec<u8>,
    pub body: Vec<u8>,
    /// Whether the receiver declines the body.
    pub unwanted: bool,
}

impl Receiver for Kept {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        assert!(self.head.is_none(), "two heads");
        self.head = Some(head.clone());
        if self.unwanted { Want::Nothing } else { Want::Body }
    }

    fn wire(&mut self, raw: &[u8]) {
        self.wire.extend_from_slice(raw);
    }

    fn body(&mut self, decoded: &[u8]) {
        assert!(!decoded.is_empty(), "an empty piece of a body");
        self.body.extend_from_slice(decoded);
    }
}

/// What the server does after its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Close,
    Reset,
    Stay,
}

/// The result of a response.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub status: Option<u16>,
    pub kind: Option<ErrorKind>,
    pub truncated: Option<Truncated>,
    pub body: Vec<u8>,
    pub wire: Vec<u8>,
    pub reusable: bool,
}

pub fn write_all(conn: &mut Conn, now: Time) -> Vec<u8> {
    let mut written = Vec::new();
    while let Step::Write(bytes) = conn.step() {
        let some = bytes.len().div_ceil(2);
        written.extend_from_slice(&bytes[..some]);
        conn.wrote(some, now);
    }
    written
}

/// One exchange over a plain connection, with the response in these pieces.
pub fn exchange(limits: &Limits, pieces: &[&[u8]], after: After, kept: &mut Kept) -> ExchangeEnd {
    let now = at(0);
    let mut conn = Conn::plain(Arc::new(limits.clone()), now);
    conn.request(REQUEST.to_vec(), now + limits.total, now);
    assert_eq!(write_all(&mut conn, now), REQUEST);
    finish(&mut conn, pieces, after, kept)
}

/// Feeds a response and advances the clock until the exchange ends.
pub fn finish(conn: &mut Conn, pieces: &[&[u8]], after: After, kept: &mut Kept) -> ExchangeEnd {
    let now = at(1);
    for piece in pieces {
        conn.feed(piece, now, kept);
    }
    match after {
        After::Close => conn.closed(now, kept),
        After::Reset => conn.broke(Failure::new(ErrorKind::Reset, "reset"), kept),
        After::Stay => {}
    }
    while conn.step() != Step::Done {
        let deadline = conn.deadline();
        assert!(!deadline.is_never(), "waits without a deadline");
        conn.expire(deadline, kept);
    }
    conn.end()
}

pub fn seen(kept: Kept, end: &ExchangeEnd) -> Seen {
    assert_eq!(end.bytes_body, kept.body.len() as u64);
    assert!(end.bytes_wire >= kept.wire.len() as u64);
    assert!(end.truncated.is_none() || end.failure.is_some(), "cut without a reason");
    Seen {
        status: kept.head.map(|head| head.status),
        kind: end.failure.as_ref().map(|failure| failure.kind),
        truncated: end.truncated,
        body: kept.body,
        wire: kept.wire,
        reusable: end.reusable,
    }
}

pub fn once(limits: &Limits, pieces: &[&[u8]], after: After) -> Seen {
    let mut kept = Kept::default();
    let end = exchange(limits, pieces, after, &mut kept);
    seen(kept, &end)
}

/// Feeds the same response at once, byte by byte, and split at every position: all must have the same result.
pub fn every_way(limits: &Limits, answer: &[u8], after: After) -> Seen {
    let whole = once(limits, &[answer], after);
    let bytes: Vec<&[u8]> = answer.chunks(1).collect();
    assert_eq!(once(limits, &bytes, after), whole, "byte by byte: {}", answer.escape_ascii());
    for cut in 0..=answer.len() {
        let (first, second) = answer.split_at(cut);
        assert_eq!(once(limits, &[first, second], after), whole, "cut at {cut}: {}", answer.escape_ascii());
    }
    whole
}
