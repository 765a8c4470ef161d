//! Shared by the connection tests: a receiver that records everything, and functions that feed a response.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::quota::SlowResponseQuota;
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

/// The time this many milliseconds after the start.
pub fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1_000)
}

/// A receiver that records all parts of a response.
#[derive(Default)]
pub struct Recorder {
    pub head: Option<Head>,
    /// The response as received.
    pub wire: Vec<u8>,
    /// The decoded body.
    pub body: Vec<u8>,
    /// Whether the receiver declines the body.
    pub declines_body: bool,
    /// How many slow responses must be closed.
    pub quota: SlowResponseQuota,
}

impl Receiver for Recorder {
    fn slow_response_quota(&self) -> Option<&SlowResponseQuota> {
        Some(&self.quota)
    }

    fn head(&mut self, head: &Head, _now: Time) -> Want {
        assert!(self.head.is_none(), "two heads");
        self.head = Some(head.clone());
        if self.declines_body { Want::Nothing } else { Want::Body }
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
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
    /// Leaves the connection open and sends nothing.
    Stay,
}

/// The result of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub struct ExchangeResult {
    pub status: Option<u16>,
    pub kind: Option<ErrorKind>,
    pub truncated: Option<Truncated>,
    pub body: Vec<u8>,
    pub wire: Vec<u8>,
    pub reusable: bool,
}

/// Writes everything that the connection has to write, and returns it. Each write accepts only half of the offered bytes.
pub fn write_all(conn: &mut Conn, now: Time) -> Vec<u8> {
    let mut written = Vec::new();
    while let Step::Write(bytes) = conn.step() {
        let half = bytes.len().div_ceil(2);
        written.extend_from_slice(&bytes[..half]);
        conn.wrote(half, now);
    }
    written
}

/// One exchange over a plain connection, with the response in these pieces.
pub fn exchange(limits: &Limits, pieces: &[&[u8]], after: After, recorder: &mut Recorder) -> ExchangeEnd {
    let now = at(0);
    let mut conn = Conn::plain(Arc::new(limits.clone()), now);
    conn.request(REQUEST.to_vec(), now + limits.total, now);
    assert_eq!(write_all(&mut conn, now), REQUEST);
    finish(&mut conn, pieces, after, recorder)
}

/// Feeds a response and advances the clock until the exchange ends.
pub fn finish(conn: &mut Conn, pieces: &[&[u8]], after: After, recorder: &mut Recorder) -> ExchangeEnd {
    let now = at(1);
    for piece in pieces {
        conn.feed(piece, now, recorder);
    }
    match after {
        After::Close => conn.closed(now, recorder),
        After::Reset => conn.broke(Failure::new(ErrorKind::Reset, "reset"), recorder),
        After::Stay => {}
    }
    while conn.step() != Step::Done {
        let deadline = conn.deadline();
        assert!(!deadline.is_never(), "waits without a deadline");
        conn.expire(deadline, recorder);
    }
    conn.end()
}

/// The result of an exchange that ended like this.
pub fn result_of(recorder: Recorder, end: &ExchangeEnd) -> ExchangeResult {
    assert_eq!(end.bytes_body, recorder.body.len() as u64);
    assert!(end.bytes_wire >= recorder.wire.len() as u64);
    assert!(end.truncated.is_none() || end.failure.is_some(), "truncated without a failure");
    ExchangeResult {
        status: recorder.head.map(|head| head.status),
        kind: end.failure.as_ref().map(|failure| failure.kind),
        truncated: end.truncated,
        body: recorder.body,
        wire: recorder.wire,
        reusable: end.reusable,
    }
}

/// Runs one exchange and returns its result.
pub fn run_exchange(limits: &Limits, pieces: &[&[u8]], after: After) -> ExchangeResult {
    let mut recorder = Recorder::default();
    let end = exchange(limits, pieces, after, &mut recorder);
    result_of(recorder, &end)
}

/// Feeds the same response at once, byte by byte, and split at every position: all must have the same result.
pub fn run_with_every_split(limits: &Limits, response: &[u8], after: After) -> ExchangeResult {
    let whole = run_exchange(limits, &[response], after);
    let bytes: Vec<&[u8]> = response.chunks(1).collect();
    assert_eq!(run_exchange(limits, &bytes, after), whole, "byte by byte: {}", response.escape_ascii());
    for cut in 0..=response.len() {
        let (first, second) = response.split_at(cut);
        assert_eq!(run_exchange(limits, &[first, second], after), whole, "cut at {cut}: {}", response.escape_ascii());
    }
    whole
}
