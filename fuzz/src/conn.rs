//! Responses as bytes: heads, framing and content codings, read by the connection that all engines use.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
use argiope_core::{ErrorKind, Time, Truncated};

use super::{piece, steered};

/// Any bytes as a response: reading them ends within the limits, with the same result for every split into pieces.
pub fn answer(data: &[u8]) {
    let (wire, steer) = steered(data, 1);
    same_in_pieces(wire, piece(steer));
}

/// Any bytes as a body with one or two content codings.
pub fn coding(data: &[u8]) {
    const CODINGS: [&str; 8] = ["gzip", "deflate", "br", "zstd", "x-gzip", "gzip, br", "identity", "gzip,gzip"];
    let (body, steer) = steered(data, 2);
    let coding = CODINGS[usize::from(steer.last().copied().unwrap_or(0)) % CODINGS.len()];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
    same_in_pieces(&[head.as_bytes(), body].concat(), piece(steer));
}

/// The result of an exchange.
#[derive(Default, PartialEq, Eq, Debug)]
struct Seen {
    status: Option<u16>,
    body: Vec<u8>,
    kind: Option<ErrorKind>,
    truncated: Option<Truncated>,
    reusable: bool,
}

impl Receiver for Seen {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        assert!(self.status.is_none(), "two heads");
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
fn same_in_pieces(wire: &[u8], piece: usize) {
    let whole = exchange(&[wire]);
    let pieces: Vec<&[u8]> = wire.chunks(piece).collect();
    let cut = exchange(&pieces);
    if [whole.kind, cut.kind].contains(&Some(ErrorKind::Decode)) {
        // With larger inputs, a decoder may report an error before it has returned all preceding output, and
        // its output may reach the limit first.
        assert_eq!(cut.status, whole.status);
        for kind in [whole.kind, cut.kind] {
            assert!(matches!(kind, Some(ErrorKind::Decode | ErrorKind::TooLarge)), "{kind:?} in pieces of {piece}");
        }
        assert!(cut.body.starts_with(&whole.body) || whole.body.starts_with(&cut.body), "in pieces of {piece}");
    } else {
        assert_eq!(whole, cut, "in pieces of {piece}");
    }
}

/// Feeds a response to a connection, and checks the limits.
fn exchange(pieces: &[&[u8]]) -> Seen {
    let limits = Limits { max_head: 4096, max_headers: 64, max_body: 1 << 16, max_wire: 1 << 16, ..Limits::default() };
    let now = Time::ZERO;
    let mut seen = Seen::default();
    let mut conn = Conn::plain(Arc::new(limits.clone()), now);
    conn.request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), now + Duration::from_secs(60), now);
    while let Step::Write(bytes) = conn.step() {
        let n = bytes.len();
        conn.wrote(n, now);
    }
    for piece in pieces {
        conn.feed(piece, now, &mut seen);
    }
    conn.closed(now, &mut seen);
    while conn.step() != Step::Done {
        conn.expire(conn.deadline(), &mut seen);
    }
    let end = conn.end();
    assert!(end.bytes_body <= limits.max_body);
    assert_eq!(end.bytes_body, seen.body.len() as u64);
    assert!(end.truncated.is_none() || end.failure.is_some(), "cut without a reason");
    seen.kind = end.failure.map(|failure| failure.kind);
    seen.truncated = end.truncated;
    seen.reusable = end.reusable;
    seen
}
