//! Compares [`Conn`] with other implementations: heads with httparse, compressed bodies with the decoders alone. The
//! connection gets the input in pieces and has limits. The others get the whole input.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
use argiope_core::{ErrorKind, Time, Truncated};

use super::{piece_size, split_control};

/// The limit on bodies.
const MAX_BODY: u64 = 1 << 16;

/// The response that a connection received.
#[derive(Default)]
struct ReceivedResponse {
    status: Option<u16>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Receiver for ReceivedResponse {
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

/// Feeds a response in pieces of this size to a connection and closes it.
fn exchange(wire: &[u8], size: usize) -> (ReceivedResponse, Option<ErrorKind>, Option<Truncated>) {
    let limits = Limits { max_headers: 64, max_body: MAX_BODY, max_wire: MAX_BODY, ..Limits::default() };
    let (now, mut received) = (Time::ZERO, ReceivedResponse::default());
    let mut conn = Conn::plain(Arc::new(limits), now);
    conn.request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), now + Duration::from_secs(60), now);
    while let Step::Write(bytes) = conn.step() {
        let count = bytes.len();
        conn.wrote(count, now);
    }
    wire.chunks(size).for_each(|piece| conn.feed(piece, now, &mut received));
    conn.closed(now, &mut received);
    let end = conn.end();
    (received, end.failure.map(|failure| failure.kind), end.truncated)
}

/// A head is accepted only if httparse accepts it, with the same contents. The exceptions are in the match below.
pub fn head(data: &[u8]) {
    let (wire, control) = split_control(data, 1);
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let parsed = config.parse_response(&mut response, wire);
    let (received, kind, _) = exchange(wire, piece_size(control));
    match (parsed, response.code) {
        // After an interim response or a protocol switch, other data follows. It is not compared.
        (Ok(httparse::Status::Complete(_)), Some(100..200)) => {}
        (Ok(httparse::Status::Complete(_)), Some(code)) if received.status.is_some() => {
            assert_eq!(received.status, Some(code));
            let theirs = response.headers.iter();
            let theirs: Vec<_> =
                theirs.map(|field| (field.name.to_ascii_lowercase().into_bytes(), field.value)).collect();
            assert_eq!(received.fields.len(), theirs.len());
            for ((name, value), (their_name, their_value)) in received.fields.iter().zip(theirs) {
                assert_eq!(*name, their_name);
                // A value over several lines (obsolete folding) is joined with spaces.
                let words = |value: &[u8]| {
                    let parts = value.split(|byte| b" \t\r\n".contains(byte)).filter(|part| !part.is_empty());
                    parts.map(<[u8]>::to_vec).collect::<Vec<_>>()
                };
                assert_eq!(words(value), words(their_value));
            }
        }
        // The connection is stricter: it refuses ambiguous framing and invalid statuses.
        (Ok(httparse::Status::Complete(_)), _) => assert!(kind.is_some(), "a refused head has a failure"),
        // The connection is more tolerant: it drops fields with malformed names, and keeps control characters in
        // values.
        (Err(httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::Token), _) => {}
        (Ok(httparse::Status::Partial) | Err(_), _) => {
            assert!(received.status.is_none(), "a head that httparse refuses is refused");
            assert!(kind.is_some(), "an exchange without a head has a failure");
        }
    }
}

/// A compressed body is decoded to the same bytes as with the decoder alone, up to the limit.
pub fn body(data: &[u8]) {
    let (input, control) = split_control(data, 2);
    let choice = control.last().copied().unwrap_or(0);
    // The input is compressed, or used unchanged as a compressed body. There is no encoder for brotli here.
    let is_compressed = choice & 4 != 0 && choice & 3 != 3;
    let (coding, coded) = match (choice & 3, is_compressed) {
        (0, true) => ("gzip", gzip(input)),
        (0, false) => ("gzip", input.to_vec()),
        (1, true) => ("deflate", zlib(input)),
        (1, false) => ("deflate", input.to_vec()),
        (2, true) => ("zstd", zstd::encode_all(input, 1).unwrap_or_default()),
        (2, false) => ("zstd", input.to_vec()),
        _ => ("br", input.to_vec()),
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", coded.len());
    let (received, kind, truncated) = exchange(&[head.as_bytes(), &coded].concat(), piece_size(control));
    if coded.len() as u64 > MAX_BODY {
        return;
    }
    assert!(received.body.len() as u64 <= MAX_BODY);
    let (theirs, is_complete) = match coding {
        "gzip" => decode(flate2::read::MultiGzDecoder::new(&*coded)),
        "deflate" => decode(flate2::read::ZlibDecoder::new(&*coded)),
        "zstd" => zstd::stream::read::Decoder::new(&*coded).map_or((Vec::new(), false), decode),
        _ => decode(brotli_decompressor::Decompressor::new(&*coded, 4096)),
    };
    if is_compressed {
        let is_exact = received.body == input && kind.is_none();
        let is_cut = kind == Some(ErrorKind::TooLarge)
            && truncated == Some(Truncated::Length)
            && input.starts_with(&received.body);
        assert!(if input.len() as u64 > MAX_BODY { is_cut } else { is_exact }, "{coding}: {kind:?}");
    } else if kind.is_none() && is_complete && !received.body.is_empty() && received.body != coded {
        // The condition excludes input that was accepted as plain text. One output may be longer than the other,
        // because deflate has two forms and bytes may follow a gzip stream.
        assert!(
            theirs.starts_with(&received.body) || received.body.starts_with(&theirs),
            "{coding}: the output differs from that of the decoder"
        );
    }
}

/// The output of a decoder, up to one byte more than the limit, and whether there was no error.
fn decode(decoder: impl Read) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let result = decoder.take(MAX_BODY + 1).read_to_end(&mut out);
    (out, result.is_ok())
}

fn gzip(input: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(input).and_then(|()| encoder.finish()).unwrap_or_default()
}

fn zlib(input: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(input).and_then(|()| encoder.finish()).unwrap_or_default()
}
