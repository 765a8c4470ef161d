//! Bodies with content codings: streaming compared with decoding at once, broken streams, bombs.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;

use std::io::{Read, Write};

use argiope_core::ErrorKind::{self, TooLarge};
use argiope_core::Truncated;
use argiope_core::http::conn::{Conn, ExchangeEnd, Limits, Step};
use conn_kit::*;
use flate2::Compression;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zstd(data: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(data, 3).unwrap()
}

/// Brotli without compression (RFC 7932, section 9.2): a window of 16 bits, blocks as they are, an empty last block.
fn brotli(data: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (index, block) in data.chunks(1 << 16).enumerate() {
        let length = block.len() as u32 - 1;
        // Not last, four nibbles of length, uncompressed; one bit before the first block encodes the window.
        let bits = length << 3 | 1 << 19;
        let bits = if index == 0 { bits << 1 } else { bits };
        stream.extend_from_slice(&bits.to_le_bytes()[..3]);
        stream.extend_from_slice(block);
    }
    // The empty last block, after the bit for the window if there is no other block.
    stream.push(if data.is_empty() { 0b110 } else { 0b11 });
    stream
}

const TEXT: &[u8] = b"to be or not to be, that is the question: ";
/// TEXT twenty times, as the reference encoder writes it.
const BROTLI_TEXT: &str = "1b4703f88dd365f6d3098d1a844e4e67bf89b995ed428219a832dd400ec184a4a37117382305631b01";
/// The same with a "large window", which is not allowed on the web.
const BROTLI_LARGE_WINDOW: &str =
    "115c1c0de0374e97d94f27346a103a399dfd26e656b60b0966a0ca740372108c90e868dc05ce48c1d846";
/// Eight megabytes of zeros in fourteen bytes.
const BROTLI_BOMB: &str = "9bffff7f002400e2b14072efff00";

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn response(coding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Decodes a body that arrives at once, and byte by byte. Both must have the same result.
fn decode(coding: &str, body: &[u8]) -> (ExchangeResult, ExchangeEnd) {
    let response = response(coding, body);
    let mut recorder = Recorder::default();
    let end = exchange(&limits(), &[&response], After::Stay, &mut recorder);
    let bytes: Vec<&[u8]> = response.chunks(1).collect();
    let mut again = Recorder::default();
    let end_again = exchange(&limits(), &bytes, After::Stay, &mut again);
    assert_eq!(end, end_again);
    assert_eq!(recorder.body, again.body);
    assert_eq!(recorder.wire, response, "the wire is recorded even if the body cannot be decoded");
    (result_of(recorder, &end), end)
}

/// Checks that a body is decoded to `expected`.
fn good(coding: &str, body: &[u8], expected: &[u8]) -> ExchangeEnd {
    let (result, end) = decode(coding, body);
    assert_eq!((result.kind, result.truncated, result.reusable), (None, None, true), "{coding}");
    assert!(result.body == expected, "{coding}: {}", result.body.escape_ascii());
    end
}

/// Checks that decoding a body fails, and why the body is incomplete if a part of it is kept.
fn bad(coding: &str, body: &[u8], truncated: Option<Truncated>) -> ExchangeResult {
    let (result, _) = decode(coding, body);
    assert_eq!((result.kind, result.truncated), (Some(ErrorKind::Decode), truncated), "{coding}");
    result
}

#[test]
fn every_coding_is_decoded() {
    let text = TEXT.repeat(20);
    for data in [b"".as_slice(), b"x", TEXT, &text, &noise(100_000)] {
        good("gzip", &gzip(data), data);
        good("x-GZip", &gzip(data), data);
        good("deflate", &zlib(data), data);
        good("deflate", &deflate(data), data);
        good("br", &brotli(data), data);
        good("zstd", &zstd(data), data);
        good("identity", data, data);
    }
    good("br", &unhex(BROTLI_TEXT), &text);
}

#[test]
fn chains_are_decoded_from_the_last_coding() {
    let data = TEXT.repeat(50);
    good("gzip, br", &brotli(&gzip(&data)), &data);
    good("zstd, deflate, gzip", &gzip(&zlib(&zstd(&data))), &data);
    good("gzip, identity", &gzip(&data), &data);
    let four = gzip(&gzip(&gzip(&gzip(b"x"))));
    bad("gzip, gzip, gzip, gzip", &four, None);
}

#[test]
fn consecutive_members_and_frames_are_one_body() {
    good("gzip", &[gzip(b"one "), gzip(b""), gzip(b"two")].concat(), b"one two");
    good("zstd", &[zstd(b"one "), zstd(b""), zstd(b"two")].concat(), b"one two");
    // A frame with three bytes that decoders skip.
    let skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
    good("zstd", &[skippable.as_slice(), &zstd(b"one")].concat(), b"one");
}

#[test]
fn an_empty_body_is_accepted_with_any_coding() {
    for coding in ["gzip", "deflate", "br", "zstd", "gzip, br", "foo"] {
        good(coding, b"", b"");
    }
}

#[test]
fn garbage_after_a_stream_is_ignored_and_reported() {
    for (coding, stream) in [("gzip", gzip(TEXT)), ("deflate", zlib(TEXT)), ("br", brotli(TEXT)), ("zstd", zstd(TEXT))]
    {
        assert!(!good(coding, &stream, TEXT).coding_defects.garbage);
        for garbage in [b"\0".as_slice(), b"\0\0\0\0\0\0", b"xyz and more of that kind, a hundred bytes or so"] {
            assert!(good(coding, &[&stream, garbage].concat(), TEXT).coding_defects.garbage, "{coding}");
        }
    }
}

#[test]
fn plain_text_with_a_coding_label_is_accepted() {
    for coding in ["gzip", "zstd"] {
        for text in [b"<!doctype html><title>x</title>".as_slice(), b"hi", "\u{feff}<p>\u{e9}".as_bytes()] {
            assert!(good(coding, text, text).coding_defects.mislabelled);
        }
    }
}

#[test]
fn a_chain_has_at_most_one_large_window() {
    // A frame that declares a window of 8 MiB and contains one raw block.
    let wide = |data: &[u8]| {
        let size = u32::try_from(data.len()).unwrap() << 3 | 1;
        [b"\x28\xb5\x2f\xfd\x00\x68", &size.to_le_bytes()[..3], data].concat()
    };
    good("zstd", &wide(b"hello"), b"hello");
    good("zstd, gzip", &gzip(&wide(b"hello")), b"hello");
    let (result, end) = decode("zstd, zstd", &wide(&wide(b"hello, hello")));
    assert_eq!((result.kind, result.body.len()), (Some(ErrorKind::Decode), 0));
    assert!(end.failure.unwrap().message.contains("large windows"));
}

#[test]
fn labels_that_do_not_name_a_coding_are_ignored_and_marked() {
    for label in ["none", "binary", "8bit", "7BIT", "UTF-8", "iso-8859-1", "windows-1252"] {
        let (result, end) = decode(label, b"hello");
        assert_eq!((result.kind, result.body.as_slice()), (None, &b"hello"[..]), "{label}");
        assert!(end.coding_defects.mislabelled, "{label}");
    }
    let (result, end) = decode("utf-8, gzip", &gzip(b"hello"));
    assert_eq!((result.kind, result.body.as_slice(), end.coding_defects.mislabelled), (None, &b"hello"[..], true));
    assert!(!decode("identity", b"hello").1.coding_defects.mislabelled);
    assert_eq!(decode("foo", b"hello").0.kind, Some(ErrorKind::Decode));
}

#[test]
fn an_invalid_stream_has_no_body() {
    let mut wrong = gzip(TEXT);
    wrong[0] = b'X';
    wrong[1] = b'Y';
    assert_eq!(bad("gzip", &wrong, None).body, b"");
    let mut method = gzip(TEXT);
    // The only compression method is 8.
    method[2] = 9;
    bad("gzip", &method, None);
    bad("zstd", b"\x28\xb5\x2f\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d", None);
    bad("deflate", b"\xff\xff\xff\xff", None);
    bad("br", b"\xff\xff\xff\xff\xff\xff\xff", None);
    bad("br", &unhex(BROTLI_LARGE_WINDOW), None);
    let result = bad("foo", b"whatever", None);
    assert_eq!(result.body, b"");
    assert!(result.reusable, "the body was read to its end");
}

#[test]
fn data_before_a_broken_part_is_kept() {
    let data = noise(50_000);
    for (coding, stream) in
        [("gzip", gzip(&data)), ("deflate", zlib(&data)), ("br", brotli(&data)), ("zstd", zstd(&data))]
    {
        let cut = &stream[..stream.len() - 20];
        let result = bad(coding, cut, Some(Truncated::Decode));
        assert!(data.starts_with(&result.body) && !result.body.is_empty(), "{coding}");
    }
    let mut sum = gzip(&data);
    let crc = sum.len() - 8;
    sum[crc] ^= 1;
    assert!(bad("gzip", &sum, Some(Truncated::Decode)).body == data);
    let second = [gzip(&data), gzip(&data)[..1_000].to_vec()].concat();
    assert!(bad("gzip", &second, Some(Truncated::Decode)).body.starts_with(&data));
}

#[test]
fn a_closed_connection_is_a_reset_if_the_length_is_known() {
    let stream = gzip(&noise(50_000));
    let whole = response("gzip", &stream);
    let result = run_exchange(&limits(), &[&whole[..whole.len() - 100]], After::Close);
    assert_eq!((result.kind, result.truncated), (Some(ErrorKind::Reset), Some(Truncated::Disconnect)));
    assert!(result.body.len() > 40_000);
    let until_close = [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n".as_slice(), &stream[..1_000]].concat();
    let result = run_exchange(&limits(), &[&until_close], After::Close);
    assert_eq!((result.kind, result.truncated), (Some(ErrorKind::Decode), Some(Truncated::Decode)));
}

#[test]
fn compression_bombs_stop_at_the_body_limit() {
    let zeros = vec![0; 16 << 20];
    let limit = limits().max_body as usize;
    let bombs = [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("deflate", deflate(&zeros)),
        ("zstd", zstd(&zeros)),
        ("br", unhex(BROTLI_BOMB)),
        ("gzip, gzip", gzip(&gzip(&zeros))),
    ];
    for (coding, bomb) in bombs {
        for piece in [1, 100, usize::MAX] {
            let response = response(coding, &bomb);
            let pieces: Vec<&[u8]> = response.chunks(piece).collect();
            let result = run_exchange(&limits(), &pieces, After::Stay);
            assert_eq!((result.kind, result.truncated), (Some(TooLarge), Some(Truncated::Length)), "{coding}");
            assert_eq!(result.body.len(), limit, "{coding}");
            assert!(!result.reusable);
        }
    }
}

/// A zstd frame with blocks of four bytes, each of which expands to 128 KiB.
fn zstd_bomb(blocks: u32) -> Vec<u8> {
    // The magic number, no options, a window of 2 MiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    for block in 1..=blocks {
        // The header of an RLE block: whether it is the last, type 1, and its size.
        let head = u32::from(block == blocks) | 1 << 1 | (128 << 10) << 3;
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.push(b'z');
    }
    frame
}

#[test]
fn a_compression_bomb_is_decoded_in_slices() {
    let spaces = vec![b' '; 2 << 20];
    let cases = [
        ("br", unhex(BROTLI_BOMB), 8 << 20),
        ("zstd", zstd_bomb(16), 2 << 20),
        ("gzip", gzip(&spaces), 2 << 20),
        ("zstd, gzip", gzip(&zstd_bomb(16)), 2 << 20),
        ("gzip, zstd", zstd(&gzip(&spaces)), 2 << 20),
        ("gzip, br", brotli(&gzip(&spaces)), 2 << 20),
    ];
    for (coding, body, whole) in cases {
        let limits = Limits { max_body: whole, ..limits() };
        let response = response(coding, &body);
        let (mut conn, mut recorder) = (Conn::plain(limits.into(), at(0)), Recorder::default());
        conn.request(REQUEST.to_vec(), at(8_000), at(0));
        conn.wrote(REQUEST.len(), at(0));
        let (mut rest, mut largest_slice, mut slices) = (&response[..], 0, 0);
        while !rest.is_empty() || conn.has_more() {
            let before = recorder.body.len();
            let used = conn.feed_some(rest, at(0), &mut recorder);
            rest = &rest[used..];
            largest_slice = largest_slice.max(recorder.body.len() - before);
            slices += 1;
        }
        assert_eq!(conn.step(), Step::Done, "{coding}");
        assert_eq!(conn.end().failure, None, "{coding}");
        assert_eq!(recorder.body.len() as u64, whole, "{coding}");
        // The decoder stops after 64 KiB. The step that reaches this limit may exceed it.
        assert!(largest_slice <= 96 << 10, "{coding}: {largest_slice} bytes at once");
        assert!(slices >= 16, "{coding}: {slices} slices");
    }
}

#[test]
fn a_bomb_in_the_outer_layer_stops_too() {
    // The outer layer expands to 20 MiB of empty blocks, which the inner one decodes to nothing.
    let nothing = b"\x00\x00\x00\xff\xff".repeat(4 << 20);
    let result = run_exchange(&limits(), &[&response("deflate, gzip", &gzip(&nothing))], After::Stay);
    assert_eq!((result.kind, result.truncated), (Some(TooLarge), Some(Truncated::Length)));
}

#[test]
fn a_body_of_exactly_the_limit_is_complete() {
    let limits = Limits { max_body: 1_000, ..limits() };
    for (size, kind) in [(999, None), (1_000, None), (1_001, Some(TooLarge))] {
        for (coding, stream) in
            [("gzip", gzip(&noise(size))), ("zstd", zstd(&noise(size))), ("br", brotli(&noise(size)))]
        {
            let result = run_exchange(&limits, &[&response(coding, &stream)], After::Stay);
            assert_eq!((result.kind, result.body.len()), (kind, size.min(1_000)), "{coding}");
        }
    }
}

#[test]
fn transferred_bytes_are_limited_too() {
    let limits = Limits { max_wire: 10_000, ..limits() };
    let result = run_exchange(&limits, &[&response("gzip", &gzip(&noise(50_000)))], After::Stay);
    assert_eq!((result.kind, result.truncated), (Some(TooLarge), Some(Truncated::Length)));
    let result = run_exchange(&limits, &[&response("foo", &noise(50_000))], After::Stay);
    assert_eq!((result.kind, result.truncated), (Some(ErrorKind::Decode), None));
}

#[test]
fn a_large_zstd_window_is_refused() {
    let data = noise(100);
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    // 16 MiB. The largest window on the web is 8 MiB (RFC 9659).
    encoder.set_parameter(zstd::stream::raw::CParameter::WindowLog(24)).unwrap();
    encoder.include_contentsize(false).unwrap();
    encoder.write_all(&data).unwrap();
    bad("zstd", &encoder.finish().unwrap(), None);
}

#[test]
fn large_fields_in_a_gzip_header_are_accepted() {
    let data = TEXT.repeat(3);
    let mut encoder = flate2::GzBuilder::new()
        .comment(vec![b'c'; 70_000])
        .extra(vec![b'e'; 65_000])
        .write(Vec::new(), Compression::new(6));
    encoder.write_all(&data).unwrap();
    good("gzip", &encoder.finish().unwrap(), &data);
}

#[test]
fn streaming_decodes_like_decoding_at_once() {
    let data = [TEXT.repeat(300), noise(30_000)].concat();
    let at_once = |coding: &str, stream: &[u8]| {
        let mut out = Vec::new();
        match coding {
            "gzip" => flate2::read::MultiGzDecoder::new(stream).read_to_end(&mut out),
            "deflate" => flate2::read::ZlibDecoder::new(stream).read_to_end(&mut out),
            "br" => brotli_decompressor::Decompressor::new(stream, 4096).read_to_end(&mut out),
            _ => zstd::stream::read::Decoder::new(stream).unwrap().read_to_end(&mut out),
        }
        .unwrap();
        out
    };
    for (coding, stream) in
        [("gzip", gzip(&data)), ("deflate", zlib(&data)), ("br", brotli(&data)), ("zstd", zstd(&data))]
    {
        let expected = at_once(coding, &stream);
        let response = response(coding, &stream);
        for piece in [1, 2, 3, 7, 100, 1_000, 16_384, usize::MAX] {
            let pieces: Vec<&[u8]> = response.chunks(piece).collect();
            assert!(run_exchange(&limits(), &pieces, After::Stay).body == expected, "{coding} in pieces of {piece}");
        }
    }
}

/// Incompressible bytes.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
