//! Properties of [`Conn`] with arbitrary servers: bytes in any pieces, silence, end of stream, errors. The exchanges
//! use plain text, TLS with invalid bytes, or real TLS with modified bytes.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use argiope_core::http::conn::{Conn, ExchangeEnd, Head, Limits, Receiver, Step, TlsConfig, Trust, Want};
use argiope_core::{ErrorKind, Failure, Time};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h.example\r\n\r\n";

fn limits() -> Limits {
    Limits { max_head: 4096, max_headers: 64, max_body: 1 << 16, max_wire: 1 << 16, ..Limits::default() }
}

/// Counts of the parts of a response.
#[derive(Default)]
struct ReceivedCounts {
    heads: u32,
    wire: u64,
    body: u64,
}

impl Receiver for ReceivedCounts {
    fn head(&mut self, head: &Head, _now: Time) -> Want {
        self.heads += 1;
        assert!((200..1000).contains(&head.status) || head.status == 101, "{} is not a final status", head.status);
        match head.status % 3 {
            0 => Want::UpTo(100),
            _ => Want::Body,
        }
    }

    fn wire(&mut self, raw: &[u8]) {
        self.wire += raw.len() as u64;
    }

    fn body(&mut self, decoded: &[u8]) {
        self.body += decoded.len() as u64;
    }
}

/// The exchange with an arbitrary server ends within its limits and then does not change. The first byte selects plain
/// text, invalid TLS, or TLS with modified bytes.
pub fn conn(data: &[u8]) {
    let Some((mode, script)) = data.split_first() else { return };
    let limits = Arc::new(limits());
    let now = Time::ZERO;
    let conn = match mode % 4 {
        3 => match Conn::tls(Arc::clone(client()), "h.example", Arc::clone(&limits), now) {
            Ok(conn) => conn,
            Err(_) => return,
        },
        2 => return over_tls(script, &limits),
        _ => Conn::plain(Arc::clone(&limits), now),
    };
    play(conn, script, &limits);
}

/// Interprets a script: one byte selects an action, and the bytes after it may be data that the server sends.
fn play(mut conn: Conn, script: &[u8], limits: &Limits) {
    let (mut now, mut received) = (Time::ZERO, ReceivedCounts::default());
    conn.request(REQUEST.to_vec(), now + limits.total, now);
    let mut script = script.iter().copied();
    while let Some(action) = script.next() {
        match action >> 5 {
            // The socket accepts up to this many bytes of the request.
            0 => {
                if let Step::Write(bytes) = conn.step() {
                    let count = bytes.len().min(usize::from(action & 31) + 1);
                    conn.wrote(count, now);
                }
            }
            // This many of the next bytes of the script arrive as a part of the response.
            1..=4 => {
                let piece: Vec<u8> = script.by_ref().take(usize::from(action - 32) + 1).collect();
                conn.feed(&piece, now, &mut received);
            }
            // Time passes.
            5 => {
                now += Duration::from_millis(u64::from(action & 31) * 700);
                conn.expire(now, &mut received);
            }
            6 => conn.set_paused(action & 1 == 1, now),
            _ if action & 1 == 1 => conn.closed(now, &mut received),
            _ => conn.broke(Failure::new(ErrorKind::Reset, "a scripted failure"), &mut received),
        }
    }
    conn.set_paused(false, now);
    finish(conn, received, limits);
}

/// Checks that deadlines end the exchange in any state, and that a finished exchange does not change.
fn finish(mut conn: Conn, mut received: ReceivedCounts, limits: &Limits) {
    for iteration in 0.. {
        assert!(iteration < 100, "deadlines end the exchange");
        match conn.step() {
            Step::Done => break,
            Step::Write(bytes) => {
                let count = bytes.len();
                conn.wrote(count, Time::ZERO);
            }
            Step::Read | Step::Pause => {
                let deadline = conn.deadline();
                assert!(!deadline.is_never(), "an exchange that is not done has a deadline");
                conn.expire(deadline, &mut received);
            }
        }
    }
    let before = (received.heads, received.body, received.wire);
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", Time::ZERO, &mut received);
    conn.closed(Time::ZERO, &mut received);
    assert_eq!((received.heads, received.body, received.wire), before, "a finished exchange does not change");
    assert!(matches!(conn.step(), Step::Done));
    let ExchangeEnd { bytes_body, failure, truncated, reusable, .. } = conn.end();
    assert!(received.heads <= 1, "there is only one final head");
    assert_eq!(bytes_body, received.body);
    assert!(received.body <= limits.max_body);
    assert!(truncated.is_none() || failure.is_some(), "a truncated response has a failure");
    assert!(failure.is_some() || received.heads == 1, "an exchange without a head has a failure");
    assert!(!reusable || failure.is_none(), "a failed connection is not reusable");
}

/// A real handshake and response, with some bytes of the server modified: either the original response arrives, or
/// none.
fn over_tls(script: &[u8], limits: &Arc<Limits>) {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let now = Time::ZERO;
    let Ok(mut conn) = Conn::tls(Arc::clone(client()), "h.example", Arc::clone(limits), now) else { return };
    let Ok(mut server) = ServerConnection::new(Arc::clone(server())) else { return };
    let mut received = ReceivedCounts::default();
    conn.request(REQUEST.to_vec(), now + limits.total, now);
    // Pairs of bytes: the distance to the next modification, and its value.
    let mut changes = script.chunks_exact(2).map(|pair| (usize::from(pair[0]), pair[1]));
    let mut next_change = changes.next();
    let (mut request, mut is_changed) = (Vec::new(), false);
    for _ in 0..100 {
        let mut has_progress = false;
        while let Step::Write(bytes) = conn.step() {
            let (mut rest, count) = (bytes, bytes.len());
            let _ =
                server.read_tls(&mut rest).and_then(|_| server.process_new_packets().map_err(std::io::Error::other));
            conn.wrote(count, now);
            has_progress = true;
        }
        let mut buffer = [0; 256];
        while let Ok(count @ 1..) = server.reader().read(&mut buffer) {
            request.extend_from_slice(&buffer[..count]);
            if request == REQUEST {
                let _ = server.writer().write_all(RESPONSE);
            }
        }
        let mut out = Vec::new();
        while server.wants_write() && server.write_tls(&mut out).is_ok() {}
        for byte in &mut out {
            match &mut next_change {
                Some((0, change)) => {
                    is_changed |= *change != 0;
                    *byte ^= *change;
                    next_change = changes.next();
                }
                Some((distance, _)) => *distance -= 1,
                None => {}
            }
        }
        has_progress |= !out.is_empty();
        for piece in out.chunks(97) {
            conn.feed(piece, now, &mut received);
        }
        if !has_progress || matches!(conn.step(), Step::Done) {
            break;
        }
    }
    assert!(is_changed || received.body == 5, "an unmodified response arrives");
    assert!([0, 5].contains(&received.body), "a modified response is refused");
    finish(conn, received, limits);
}

/// The TLS configurations of the client and of the server, created once.
fn tls_configs() -> &'static (Arc<TlsConfig>, Arc<ServerConfig>) {
    static CONFIGS: OnceLock<(Arc<TlsConfig>, Arc<ServerConfig>)> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        // Within the validity of the certificates: 2 January 2026.
        let unix_time = || Duration::from_secs(1_767_312_000);
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(vec!["h.example".to_owned()]).expect("a name");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).expect("a root");
        let issuer = rcgen::Issuer::new(params, key);
        let server_key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["h.example".to_owned()]).expect("a name");
        let certificate = params.signed_by(&server_key, &issuer).expect("a certificate");
        let trust = Trust { roots: vec![root.der().to_vec()], ..Trust::default() };
        let client = trust.compile(unix_time).expect("a client").anonymous;
        let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(server_key.serialize_der()).expect("a key"),
            )
            .expect("a server");
        (client, Arc::new(server))
    })
}

fn client() -> &'static Arc<TlsConfig> {
    &tls_configs().0
}

fn server() -> &'static Arc<ServerConfig> {
    &tls_configs().1
}
