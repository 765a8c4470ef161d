//! Properties that hold for every response, valid or not.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;

use std::io::Write;

use argiope_core::ErrorKind;
use argiope_core::http::conn::Limits;
use conn_kit::*;
use proptest::prelude::*;

/// How a server may frame a body.
#[derive(Clone, Copy, Debug)]
enum Frame {
    Length,
    Chunked,
    Close,
}

/// A well-formed response and its body.
#[derive(Clone, Debug)]
struct ValidResponse {
    status: u16,
    body: Vec<u8>,
    coding: &'static str,
    frame: Frame,
    /// Bytes per chunk.
    chunk: usize,
    fields: Vec<(String, String)>,
    /// Lines end with LF instead of CRLF.
    lf: bool,
}

impl ValidResponse {
    fn bytes(&self) -> Vec<u8> {
        let end = if self.lf { "\n" } else { "\r\n" };
        let mut head = format!("HTTP/1.1 {} Fine{end}", self.status);
        for (name, value) in &self.fields {
            head += &format!("X-{name}: {value}{end}");
        }
        let body = encode(self.coding, &self.body);
        if !self.coding.is_empty() {
            head += &format!("Content-Encoding: {}{end}", self.coding);
        }
        let framed = match self.frame {
            Frame::Close => body,
            Frame::Length => {
                head += &format!("Content-Length: {}{end}", body.len());
                body
            }
            Frame::Chunked => {
                head += &format!("Transfer-Encoding: chunked{end}");
                let mut framed = Vec::new();
                for chunk in body.chunks(self.chunk) {
                    framed.extend(format!("{:x};e={}{end}", chunk.len(), chunk.len()).bytes());
                    framed.extend(chunk);
                    framed.extend(end.bytes());
                }
                framed.extend(format!("0{end}X-T: 1{end}{end}").bytes());
                framed
            }
        };
        [head.as_bytes(), end.as_bytes(), &framed].concat()
    }
}

fn encode(coding: &str, body: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::new(3);
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::bulk::compress(body, 1).unwrap(),
        _ => body.to_vec(),
    }
}

fn valid_response() -> impl Strategy<Value = ValidResponse> {
    (
        prop_oneof![Just(200_u16), Just(404), Just(500), 600..=999_u16],
        prop::collection::vec(any::<u8>(), 0..3_000),
        prop_oneof![Just(""), Just("gzip"), Just("deflate"), Just("zstd")],
        prop_oneof![Just(Frame::Length), Just(Frame::Chunked), Just(Frame::Close)],
        1..500_usize,
        prop::collection::vec(("[a-zA-Z0-9-]{1,20}", "[ -~]{0,40}"), 0..10),
        any::<bool>(),
    )
        .prop_map(|(status, body, coding, frame, chunk, fields, lf)| ValidResponse {
            status,
            body,
            coding,
            frame,
            chunk,
            fields,
            lf,
        })
}

/// Splits bytes at these positions.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    positions.extend([0, bytes.len()]);
    positions.sort_unstable();
    positions.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

fn after() -> impl Strategy<Value = After> {
    prop_oneof![Just(After::Close), Just(After::Reset), Just(After::Stay)]
}

fn small_limits() -> Limits {
    Limits { max_body: 2_000, max_wire: 2_500, max_head: 300, max_headers: 8, ..limits() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn a_valid_response_is_received_exactly(valid_response in valid_response(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let bytes = valid_response.bytes();
        let result = run_exchange(&limits(), &pieces(&bytes, &cuts), After::Close);
        prop_assert_eq!(result.kind, None);
        prop_assert_eq!(result.status, Some(valid_response.status));
        prop_assert!(result.body == valid_response.body);
        prop_assert!(result.wire == bytes);
    }

    #[test]
    fn any_bytes_have_the_same_result_for_any_split(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        opening in prop_oneof![Just(""), Just("HTTP/1.1 200 OK\r\n"), Just("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        after in after(),
    ) {
        let bytes = [opening.as_bytes(), &bytes].concat();
        let whole = run_exchange(&small_limits(), &[&bytes], after);
        prop_assert_eq!(run_exchange(&small_limits(), &pieces(&bytes, &cuts), after), whole);
    }

    #[test]
    fn a_damaged_response_stays_within_the_limits(
        valid_response in valid_response(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        after in after(),
    ) {
        let mut bytes = valid_response.bytes();
        for (place, byte) in &damage {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        let whole = run_exchange(&small_limits(), &[&bytes], after);
        let cut = run_exchange(&small_limits(), &pieces(&bytes, &cuts), after);
        prop_assert!(whole.body.len() <= 2_000 && cut.body.len() <= 2_000);
        prop_assert_eq!(whole.status, cut.status);
        if valid_response.coding.is_empty() {
            prop_assert_eq!(whole, cut);
        } else {
            // How much a decoder returns before an error depends on the pieces, so the limit may be reached before it.
            let is_either = |kind| matches!(kind, Some(ErrorKind::Decode | ErrorKind::TooLarge));
            prop_assert!(whole.kind == cut.kind || is_either(whole.kind) && is_either(cut.kind));
        }
    }
}
