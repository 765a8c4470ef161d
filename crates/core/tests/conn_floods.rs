//! Endless or very slow responses, fed in pieces as a socket delivers them. The connection must end each one at its
//! limit of size or time.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;

use std::io::Write;
use std::sync::Arc;

use argiope_core::http::conn::{Conn, Step};
use argiope_core::{ErrorKind, Truncated};
use conn_kit::*;

/// The bytes of one read.
const READ: usize = 16 << 10;

/// Feeds `opening` and then `unit` repeatedly until the connection fails, which must happen within `max_bytes`. Returns
/// the failure, why the body is incomplete, and the number of bytes that were fed.
fn flood(opening: &[u8], unit: &[u8], max_bytes: usize) -> (ErrorKind, Option<Truncated>, usize) {
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    write_all(&mut conn, at(0));
    let mut recorder = Recorder::default();
    conn.feed(opening, at(1), &mut recorder);
    let repeated = unit.repeat(READ.div_ceil(unit.len()).max(1));
    let mut fed = opening.len();
    'flood: loop {
        for read in repeated.chunks(READ) {
            if conn.step() == Step::Done {
                break 'flood;
            }
            conn.feed(read, at(2), &mut recorder);
            fed += read.len();
            assert!(fed <= max_bytes, "continues after {fed} bytes");
            assert!(conn.heap_bytes() <= 4 * limits().max_head, "holds {} bytes", conn.heap_bytes());
        }
    }
    let end = conn.end();
    assert!(!end.reusable);
    (end.failure.unwrap().kind, end.truncated, fed)
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn endless_interim_responses_fail() {
    let (kind, truncated, _) = flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n", READ);
    assert_eq!((kind, truncated), (ErrorKind::Protocol, None));
}

#[test]
fn an_endless_field_fails() {
    let (kind, truncated, _) = flood(&[OK, b"X-Big: "].concat(), b"a", 128 << 10);
    assert_eq!((kind, truncated), (ErrorKind::HeaderTooLarge, None));
}

#[test]
fn endless_fields_fail() {
    let (kind, truncated, _) = flood(OK, b"X-A: b\r\n", 128 << 10);
    assert_eq!((kind, truncated), (ErrorKind::HeaderTooLarge, None));
}

#[test]
fn endless_chunks_are_truncated() {
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 65_536], b"\r\n"].concat();
    let (kind, truncated, _) = flood(CHUNKED, &chunk, 2 << 20);
    assert_eq!((kind, truncated), (ErrorKind::TooLarge, Some(Truncated::Length)));
}

#[test]
fn an_endless_body_is_truncated() {
    let (kind, truncated, _) = flood(b"HTTP/1.1 200 OK\r\n\r\n", b"x", 2 << 20);
    assert_eq!((kind, truncated), (ErrorKind::TooLarge, Some(Truncated::Length)));
}

#[test]
fn endless_chunk_extensions_fail() {
    let chunk = [b"1;".as_slice(), &[b'e'; 16 << 10], b"\r\nx\r\n"].concat();
    let (kind, truncated, _) = flood(CHUNKED, &chunk, 64 << 10);
    assert_eq!((kind, truncated), (ErrorKind::Protocol, None));
}

#[test]
fn endless_trailers_fail() {
    let (kind, truncated, _) = flood(&[CHUNKED, b"1\r\nx\r\n0\r\n"].concat(), b"X-A: b\r\n", 64 << 10);
    assert_eq!((kind, truncated), (ErrorKind::HeaderTooLarge, None));
}

#[test]
fn endless_empty_gzip_members_are_truncated() {
    let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(1)).finish().unwrap();
    let (kind, truncated, _) = flood(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", &empty, 2 << 20);
    assert_eq!((kind, truncated), (ErrorKind::TooLarge, Some(Truncated::Length)));
}

#[test]
fn a_slow_compression_bomb_is_reported_as_too_slow() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(9));
    encoder.write_all(&vec![0; 16 << 20]).unwrap();
    let bomb = encoder.finish().unwrap();
    let mut conn = Conn::plain(Arc::new(limits()), at(0));
    conn.request(REQUEST.to_vec(), at(8_000), at(0));
    write_all(&mut conn, at(0));
    let mut recorder = Recorder::default();
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", at(0), &mut recorder);
    for (second, byte) in bomb.chunks(1).enumerate() {
        conn.expire(at(second as u64 * 1_000), &mut recorder);
        if conn.step() == Step::Done {
            break;
        }
        conn.feed(byte, at(second as u64 * 1_000), &mut recorder);
    }
    let end = conn.end();
    assert_eq!((end.failure.unwrap().kind, end.truncated), (ErrorKind::TooSlow, Some(Truncated::Time)));
}
