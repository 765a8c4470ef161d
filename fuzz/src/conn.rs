//! Properties of [`Conn`] for arbitrary responses: heads, framing and content codings.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
use argiope_core::{ErrorKind, Time, Truncated};

use super::{piece_size, split_control};

/// Any bytes as a response: the exchange ends within the limits, with the same result for every split into pieces.
pub fn answer(data: &[u8]) {
    let (wire, control) = split_control(data, 1);
    same_in_pieces(wire, piece_size(control));
}

/// Any bytes as a body with one or two content codings.
pub fn coding(data: &[u8]) {
    const CODINGS: [&str; 8] = ["gzip", "deflate", "br", "zstd", "x-gzip", "gzip, br", "identity", "gzip,gzip"];
    let (body, control) = split_control(data, 2);
    let coding = CODINGS[usize::from(control.last().copied().unwrap_or(0)) % CODINGS.len()];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
    same_in_pieces(&[head.as_bytes(), body].concat(), piece_size(control));
}

/// The received response and the result of its exchange.
#[derive(Default, PartialEq, Eq, Debug)]
struct ReceivedResponse {
    status: Option<u16>,
    body: Vec<u8>,
    /// The kind of failure, if the exchange failed.
    kind: Option<ErrorKind>,
    truncated: Option<Truncated>,
    reusable: bool,
}

impl Receiver for ReceivedResponse {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        assert!(self.status.is_none(), "there is only one final head");
        self.status = Some(head.status);
        for (name, _) in head.iter() {
            assert!(!name.is_empty());
        }
        Want::Body
    }

    fn wire(&mut self, _raw: &[u8]) {}

    fn body(&mut self, decoded: &[u8]) {
        self.body.extend_from_slice(decoded);
    }
}

/// Checks that the result of an exchange does not depend on the pieces in which the response arrives.
fn same_in_pieces(wire: &[u8], size: usize) {
    let at_once = exchange(&[wire]);
    let pieces: Vec<&[u8]> = wire.chunks(size).collect();
    let in_pieces = exchange(&pieces);
    if [at_once.kind, in_pieces.kind].contains(&Some(ErrorKind::Decode)) {
        // With a larger input, a decoder may report an error before it has returned all output before the error. With
        // a smaller one, this output may reach the limit first.
        assert_eq!(in_pieces.status, at_once.status);
        for kind in [at_once.kind, in_pieces.kind] {
            assert!(matches!(kind, Some(ErrorKind::Decode | ErrorKind::TooLarge)), "{kind:?} in pieces of {size}");
        }
        let (one, other) = (&at_once.body, &in_pieces.body);
        assert!(other.starts_with(one) || one.starts_with(other), "in pieces of {size}");
    } else {
        assert_eq!(at_once, in_pieces, "in pieces of {size}");
    }
}

/// Feeds a response to a connection, and checks the limits.
fn exchange(pieces: &[&[u8]]) -> ReceivedResponse {
    let limits = Limits { max_head: 4096, max_headers: 64, max_body: 1 << 16, max_wire: 1 << 16, ..Limits::default() };
    let now = Time::ZERO;
    let mut received = ReceivedResponse::default();
    let mut conn = Conn::plain(Arc::new(limits.clone()), now);
    conn.request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), now + Duration::from_secs(60), now);
    while let Step::Write(bytes) = conn.step() {
        let count = bytes.len();
        conn.wrote(count, now);
    }
    for piece in pieces {
        conn.feed(piece, now, &mut received);
    }
    conn.closed(now, &mut received);
    while conn.step() != Step::Done {
        conn.expire(conn.deadline(), &mut received);
    }
    let end = conn.end();
    assert!(end.bytes_body <= limits.max_body);
    assert_eq!(end.bytes_body, received.body.len() as u64);
    assert!(end.truncated.is_none() || end.failure.is_some(), "a truncated response has a failure");
    received.kind = end.failure.map(|failure| failure.kind);
    received.truncated = end.truncated;
    received.reusable = end.reusable;
    received
}
