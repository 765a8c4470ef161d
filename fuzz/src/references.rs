//! Compares heads with httparse, and coded bodies with the decoders alone. Our connection, fed in pieces and with
//! limits, must produce what they produce from the whole input.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
use argiope_core::{ErrorKind, Time, Truncated};

use super::{piece, steered};

/// The limit on bodies.
const MOST: u64 = 1 << 16;

#[derive(Default)]
struct Seen {
    status: Option<u16>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Receiver for Seen {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        self.status = Some(head.status);
        self.fields = head.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect();
        Want::Body
    }

    fn wire(&mut self, _raw: &[u8]) {}

    fn body(&mut self, decoded: &[u8]) {
        self.body.extend_from_slice(decoded);
    }
}

/// Sends a response and closes the connection.
fn exchange(wire: &[u8], piece: usize) -> (Seen, Option<ErrorKind>, Option<Truncated>) {
    let limits = Limits { max_headers: 64, max_body: MOST, max_wire: MOST, ..Limits::default() };
    let (now, mut seen) = (Time::ZERO, Seen::default());
    let mut conn = Conn::plain(Arc::new(limits), now);
    conn.request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), now + Duration::from_secs(60), now);
    while let Step::Write(bytes) = conn.step() {
        let count = bytes.len();
        conn.wrote(count, now);
    }
    wire.chunks(piece).for_each(|piece| conn.feed(piece, now, &mut seen));
    conn.closed(now, &mut seen);
    let end = conn.end();
    (seen, end.failure.map(|failure| failure.kind), end.truncated)
}

/// A head is accepted only if httparse accepts it, with the same contents.
pub fn head(data: &[u8]) {
    let (wire, steer) = steered(data, 1);
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let read = config.parse_response(&mut response, wire);
    let (seen, kind, _) = exchange(wire, piece(steer));
    match (read, response.code) {
        // An interim response or a protocol switch, after which other data follows.
        (Ok(httparse::Status::Complete(_)), Some(100..200)) => {}
        (Ok(httparse::Status::Complete(_)), Some(code)) if seen.status.is_some() => {
            assert_eq!(seen.status, Some(code));
            let theirs = response.headers.iter();
            let theirs: Vec<_> =
                theirs.map(|field| (field.name.to_ascii_lowercase().into_bytes(), field.value)).collect();
            assert_eq!(seen.fields.len(), theirs.len());
            for ((name, value), (their_name, their_value)) in seen.fields.iter().zip(theirs) {
                assert_eq!(*name, their_name);
                // A value over several lines (obsolete folding) is joined with spaces.
                let words = |value: &[u8]| {
                    let parts = value.split(|byte| b" \t\r\n".contains(byte)).filter(|part| !part.is_empty());
                    parts.map(<[u8]>::to_vec).collect::<Vec<_>>()
                };
                assert_eq!(words(value), words(their_value));
            }
        }
        // We are stricter: ambiguous framing and invalid statuses are refused.
        (Ok(httparse::Status::Complete(_)), _) => assert!(kind.is_some(), "refused without a word"),
        // We are more tolerant: odd field names are dropped, control characters in values are kept.
        (Err(httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::Token), _) => {}
        (Ok(httparse::Status::Partial) | Err(_), _) => {
            assert!(seen.status.is_none(), "a head that httparse does not see");
            assert!(kind.is_some(), "no head, and nothing is wrong");
        }
    }
}

/// A coded body is decoded like with the decoder alone, up to the limit.
pub fn body(data: &[u8]) {
    let (input, steer) = steered(data, 2);
    let choice = steer.last().copied().unwrap_or(0);
    // Either arbitrary bytes with a coding, or validly encoded bytes.
    let (coding, coded) = match (choice & 3, choice & 4 != 0) {
        (0, true) => ("gzip", gzip(input)),
        (0, false) => ("gzip", input.to_vec()),
        (1, true) => ("deflate", zlib(input)),
        (1, false) => ("deflate", input.to_vec()),
        (2, true) => ("zstd", zstd::encode_all(input, 1).unwrap_or_default()),
        (2, false) => ("zstd", input.to_vec()),
        _ => ("br", input.to_vec()),
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", coded.len());
    let (seen, kind, truncated) = exchange(&[head.as_bytes(), &coded].concat(), piece(steer));
    if coded.len() as u64 > MOST {
        return;
    }
    assert!(seen.body.len() as u64 <= MOST);
    let (theirs, is_whole) = match coding {
        "gzip" => read(flate2::read::MultiGzDecoder::new(&*coded)),
        "deflate" => read(flate2::read::ZlibDecoder::new(&*coded)),
        "zstd" => zstd::stream::read::Decoder::new(&*coded).map_or((Vec::new(), false), read),
        _ => read(brotli_decompressor::Decompressor::new(&*coded, 4096)),
    };
    if choice & 4 != 0 && choice & 3 != 3 {
        let all = seen.body == input && kind.is_none();
        let cut =
            kind == Some(ErrorKind::TooLarge) && truncated == Some(Truncated::Length) && input.starts_with(&seen.body);
        assert!(if input.len() as u64 > MOST { cut } else { all }, "{coding}: {kind:?}");
    } else if kind.is_none() && is_whole && !seen.body.is_empty() && seen.body != coded {
        // Input that is not a coded body may be accepted as a plain one; deflate has two forms, and gzip may have a
        // trailer.
        assert!(
            theirs.starts_with(&seen.body) || seen.body.starts_with(&theirs),
            "{coding}: other bytes than the decoder's"
        );
    }
}

/// The output of a decoder, up to slightly more than our limit, and whether the stream ended.
fn read(decoder: impl Read) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let read = decoder.take(MOST + 1).read_to_end(&mut out);
    (out, read.is_ok())
}

fn gzip(input: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(input).and_then(|()| encoder.finish()).unwrap_or_default()
}

fn zlib(input: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(input).and_then(|()| encoder.finish()).unwrap_or_default()
}
