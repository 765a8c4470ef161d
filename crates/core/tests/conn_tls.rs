//! TLS against a server in memory, with generated certificates and a fixed date.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "not the core, only its tests and measurements"
)]

mod conn_kit;
mod tls_kit;

use std::sync::Arc;

use argiope_core::http::conn::{Conn, Step, Trust};
use argiope_core::{ErrorKind, TlsFault, Truncated};
use conn_kit::*;
use rcgen::{BasicConstraints, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ServerConfig, ServerConnection};
use tls_kit::*;

#[test]
fn valid_certificates_are_accepted() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example", "127.0.0.1", "::1"], |_| {});
    for name in ["h.example", "127.0.0.1", "[::1]"] {
        let (_, end, recorder) = try_once(&authority.client, &server, name).unwrap();
        assert!(end.reusable);
        assert_eq!((end.tls_done, end.ttfb), (Some(at(10)), Some(at(10))));
        assert_eq!(end.bytes_wire, HELLO.len() as u64);
        assert_eq!((recorder.body.as_slice(), recorder.wire.as_slice()), (b"hello".as_slice(), HELLO));
    }
}

#[test]
fn tls_1_2_and_1_3_work() {
    let authority = Authority::new("Known");
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["h.example"]).signed_by(&key, &authority.issuer).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = serve(certificate.der().clone(), &key, &[version]);
        try_once(&authority.client, &server, "h.example").unwrap();
    }
}

#[test]
fn invalid_certificates_are_described() {
    let authority = Authority::new("Known");
    let words = |server: &Arc<ServerConfig>, name: &str| {
        let failure = try_once(&authority.client, server, name).err().unwrap();
        assert_eq!(failure.kind, ErrorKind::Tls);
        failure.message.into_string()
    };

    let expired = authority.server(&["h.example"], |params| params.not_after = date_time_ymd(2025, 6, 7));
    assert_eq!(words(&expired, "h.example"), "certificate expired since 2025-06-07T00:00:00Z");

    let future = authority.server(&["h.example"], |params| params.not_before = date_time_ymd(2027, 6, 7));
    assert_eq!(words(&future, "h.example"), "certificate not valid before 2027-06-07T00:00:00Z");

    let other = authority.server(&["a.example", "b.example"], |_| {});
    assert_eq!(
        words(&other, "h.example"),
        "name mismatch: the certificate is for a.example, b.example, not for h.example"
    );

    for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let key = KeyPair::generate().unwrap();
        let mut params = params(&["h.example"]);
        params.is_ca = is_ca;
        let own = params.self_signed(&key).unwrap();
        let self_signed = serve(own.der().clone(), &key, rustls::ALL_VERSIONS);
        let message = words(&self_signed, "h.example");
        assert!(message.starts_with("certificate self-signed"), "{message}");
    }

    let other_issuer = Authority::new("Stranger").server(&["h.example"], |_| {});
    assert!(words(&other_issuer, "h.example").contains("unknown issuer"));
}

/// Most tools mark self-signed certificates as those of an authority, so both kinds are tested.
#[test]
fn a_self_signed_certificate_that_the_user_names_is_accepted() {
    let key = KeyPair::generate().unwrap();
    for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        for (not_after, name, expected) in [
            (2027, "h.example", None),
            (2025, "h.example", Some("certificate expired since 2025-06-07T00:00:00Z")),
            (2027, "i.example", Some("name mismatch: the certificate is for h.example, not for i.example")),
        ] {
            let mut params = params(&["h.example"]);
            (params.is_ca, params.not_after) = (is_ca, date_time_ymd(not_after, 6, 7));
            let own = params.self_signed(&key).unwrap();
            let server = serve(own.der().clone(), &key, rustls::ALL_VERSIONS);
            let named = vec![own.der().to_vec()];
            let trust = Trust { roots: named.clone(), pinned: named, ..Trust::default() };
            let result = try_once(&trust.compile(date).unwrap().anonymous, &server, name);
            assert_eq!(result.err().map(|failure| failure.message.into_string()).as_deref(), expected);
        }
    }
}

#[test]
fn a_chain_of_too_many_certificates_is_refused() {
    let authority = Authority::new("Known");
    let insecure_client = Trust { insecure: true, ..Trust::default() }.compile(date).unwrap().anonymous;
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["h.example"]).signed_by(&key, &authority.issuer).unwrap();
    for (intermediates, is_accepted) in [(0, true), (32, true), (33, false), (2_000, false)] {
        // Empty DER sequences instead of certificates.
        let filler = std::iter::repeat_n(CertificateDer::from(vec![0x30, 0]), intermediates);
        let chain = std::iter::once(certificate.der().clone()).chain(filler).collect();
        let server = serve_chain(chain, &key, rustls::ALL_VERSIONS);
        for client in [&authority.client, &insecure_client] {
            match try_once(client, &server, "h.example") {
                Ok(_) => assert!(is_accepted, "{intermediates} intermediates"),
                Err(failure) => {
                    let words = format!(
                        "the server sent {intermediates} certificates beside its own; more than 32 are refused"
                    );
                    assert_eq!((is_accepted, &*failure.message), (false, &*words));
                }
            }
        }
    }
}

#[test]
fn invalid_names_are_refused() {
    let authority = Authority::new("Known");
    for name in ["", "a b", "exa_mple..org"] {
        let failure = Conn::tls(Arc::clone(&authority.client), name, Arc::new(limits()), at(0)).err().unwrap();
        assert_eq!(failure.kind, ErrorKind::Tls);
    }
}

#[test]
fn sessions_are_resumed() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example"], |_| {});
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let mut conn = connect(&authority.client, "h.example");
        let mut session = ServerConnection::new(Arc::clone(&server)).unwrap();
        run_exchange_with(&mut conn, &mut session, HELLO, CloseBehaviour::Stays, usize::MAX, &mut Recorder::default());
        assert_eq!(conn.end().failure, None);
        kinds.push(session.handshake_kind());
    }
    assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed), Some(HandshakeKind::Resumed)]);
}

#[test]
fn a_kept_connection_serves_further_requests() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example"], |_| {});
    let mut conn = connect(&authority.client, "h.example");
    let mut session = ServerConnection::new(server).unwrap();
    for _ in 0..3 {
        let mut recorder = Recorder::default();
        run_exchange_with(&mut conn, &mut session, HELLO, CloseBehaviour::Stays, usize::MAX, &mut recorder);
        let end = conn.end();
        assert!(end.reusable && end.failure.is_none());
        assert_eq!(recorder.body, b"hello");
        conn.request(REQUEST.to_vec(), at(8_000), at(10));
    }
    conn.closed(at(11), &mut Recorder::default());
    assert!(conn.end().stale);
}

#[test]
fn records_may_be_split_anywhere() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example"], |_| {});
    let body = "x".repeat(100_000);
    let response =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for piece in [1, 2, 5, 100, 4_096, 65_536, usize::MAX] {
        let mut conn = connect(&authority.client, "h.example");
        let mut session = ServerConnection::new(Arc::clone(&server)).unwrap();
        session.set_buffer_limit(None);
        let mut recorder = Recorder::default();
        run_exchange_with(&mut conn, &mut session, response.as_bytes(), CloseBehaviour::Stays, piece, &mut recorder);
        let end = conn.end();
        assert_eq!((end.failure, end.reusable, end.bytes_wire), (None, true, response.len() as u64));
        assert!(recorder.body == body.as_bytes());
    }
}

#[test]
fn a_body_until_close_needs_a_close_notify() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example"], |_| {});
    let until_close = b"HTTP/1.1 200 OK\r\n\r\nhello".as_slice();
    for (response, close_behaviour, truncated) in [
        (until_close, CloseBehaviour::Closes, None),
        (until_close, CloseBehaviour::HangsUp, Some(Truncated::Disconnect)),
        (HELLO, CloseBehaviour::Closes, None),
        (HELLO, CloseBehaviour::HangsUp, None),
    ] {
        for piece in [1, usize::MAX] {
            let mut conn = connect(&authority.client, "h.example");
            let mut session = ServerConnection::new(Arc::clone(&server)).unwrap();
            let mut recorder = Recorder::default();
            run_exchange_with(&mut conn, &mut session, response, close_behaviour, piece, &mut recorder);
            let end = conn.end();
            assert_eq!(end.truncated, truncated);
            assert_eq!(end.failure.map(|failure| failure.kind), truncated.map(|_| ErrorKind::Reset));
            assert!(!end.reusable);
            assert_eq!(recorder.body, b"hello");
        }
    }
}

#[test]
fn a_handshake_may_precede_the_request() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example"], |_| {});
    let mut conn = Conn::tls(Arc::clone(&authority.client), "h.example", Arc::new(limits()), at(0)).unwrap();
    let mut session = ServerConnection::new(server).unwrap();
    let mut recorder = Recorder::default();
    run_exchange_with(&mut conn, &mut session, HELLO, CloseBehaviour::Stays, usize::MAX, &mut recorder);
    assert_eq!((conn.step(), conn.deadline()), (Step::Done, argiope_core::Time::NEVER));
    conn.request(REQUEST.to_vec(), at(8_000), at(10));
    run_exchange_with(&mut conn, &mut session, HELLO, CloseBehaviour::Stays, usize::MAX, &mut recorder);
    assert_eq!(conn.end().failure, None);

    let mut conn = Conn::tls(Arc::clone(&authority.client), "h.example", Arc::new(limits()), at(0)).unwrap();
    write_all(&mut conn, at(0));
    conn.feed(b"HTTP/1.1 400 Bad\r\n\r\n", at(1), &mut recorder);
    conn.request(REQUEST.to_vec(), at(8_000), at(1));
    assert_eq!(conn.step(), Step::Done);
    assert_eq!(conn.end().failure.unwrap().kind, ErrorKind::Tls);
}

/// The first flight of a server: everything that it sends before it waits for the client.
fn first_flight(conn: &mut Conn, server: &Arc<ServerConfig>) -> Vec<u8> {
    let mut session = ServerConnection::new(Arc::clone(server)).unwrap();
    let hello = write_all(conn, at(0));
    session.read_tls(&mut hello.as_slice()).unwrap();
    session.process_new_packets().unwrap();
    let mut flight = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut flight).unwrap();
    }
    flight
}

#[test]
fn an_incomplete_handshake_fails() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example"], |_| {});
    let length = first_flight(&mut connect(&authority.client, "h.example"), &server).len();
    for cut in (0..length - 1).step_by(37) {
        for after in [After::Close, After::Reset, After::Stay] {
            let mut conn = connect(&authority.client, "h.example");
            let flight = first_flight(&mut conn, &server);
            let mut recorder = Recorder::default();
            conn.feed(&flight[..cut.min(flight.len() - 1)], at(1), &mut recorder);
            write_all(&mut conn, at(1));
            assert_eq!(conn.step(), Step::Read);
            assert_eq!(conn.deadline(), at(2_000));
            let end = finish(&mut conn, &[], after, &mut recorder);
            let expected = if after == After::Stay { ErrorKind::ConnectTimeout } else { ErrorKind::Reset };
            assert_eq!(end.failure.map(|failure| failure.kind), Some(expected), "cut at {cut}");
            assert!(!end.reusable && !end.stale && end.tls_done.is_none());
        }
    }
}

#[test]
fn a_slow_handshake_does_not_extend_its_deadline() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example"], |_| {});
    let mut conn = connect(&authority.client, "h.example");
    let flight = first_flight(&mut conn, &server);
    let mut recorder = Recorder::default();
    for (second, byte) in flight.chunks(1).enumerate().take(2) {
        conn.feed(byte, at(second as u64 * 1_000), &mut recorder);
        assert_eq!(conn.deadline(), at(2_000));
    }
    conn.expire(at(2_000), &mut recorder);
    assert_eq!(conn.end().failure.unwrap().kind, ErrorKind::ConnectTimeout);
}

#[test]
fn other_protocols_and_alerts_are_reported() {
    let authority = Authority::new("Known");
    for (response, words) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(), "does not use TLS"),
        // The alerts unrecognized_name, protocol_version and handshake_failure.
        (b"\x15\x03\x03\x00\x02\x02\x70", "does not know this name"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "does not support TLS 1.2 or 1.3"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "refused the handshake"),
    ] {
        let fault = if response.starts_with(b"HTTP") { TlsFault::Absent } else { TlsFault::Handshake };
        let mut conn = connect(&authority.client, "h.example");
        write_all(&mut conn, at(0));
        let end = finish(&mut conn, &[response], After::Close, &mut Recorder::default());
        let failure = end.failure.unwrap();
        assert_eq!((failure.kind, failure.tls), (ErrorKind::Tls, Some(fault)));
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn an_invalid_record_truncates_the_body() {
    let authority = Authority::new("Known");
    let server = authority.server(&["h.example"], |_| {});
    let mut conn = connect(&authority.client, "h.example");
    let mut session = ServerConnection::new(server).unwrap();
    let mut recorder = Recorder::default();
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello";
    run_exchange_with(&mut conn, &mut session, response, CloseBehaviour::Stays, usize::MAX, &mut recorder);
    // A record of application data that cannot be decrypted.
    conn.feed(b"\x17\x03\x03\x00\x13nineteen bytes here", at(11), &mut recorder);
    assert_eq!(conn.step(), Step::Done);
    let end = conn.end();
    assert_eq!((end.failure.unwrap().kind, end.truncated), (ErrorKind::Tls, Some(Truncated::Disconnect)));
    assert_eq!(recorder.body, b"hello");
}
