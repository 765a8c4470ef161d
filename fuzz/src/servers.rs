//! Tests the whole connection with arbitrary servers: bytes in any pieces, silence, end of stream, errors. It runs over
//! TCP, over TLS with invalid bytes, and over real TLS with modified bytes.

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
struct Seen {
    heads: u32,
    wire: u64,
    body: u64,
}

impl Receiver for Seen {
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

/// Plays an arbitrary server, over TCP, over invalid TLS, or over TLS with modified bytes. The exchange ends within its
/// limits and stays ended.
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
    let (mut now, mut seen) = (Time::ZERO, Seen::default());
    conn.request(REQUEST.to_vec(), now + limits.total, now);
    let mut script = script.iter().copied();
    while let Some(what) = script.next() {
        match what >> 5 {
            // Number of bytes of the request that are written.
            0 => {
                if let Step::Write(bytes) = conn.step() {
                    let count = bytes.len().min(usize::from(what & 31) + 1);
                    conn.wrote(count, now);
                }
            }
            // Number of bytes of the response that arrive.
            1..=4 => {
                let piece: Vec<u8> = script.by_ref().take(usize::from(what - 32) + 1).collect();
                conn.feed(&piece, now, &mut seen);
            }
            5 => {
                now += Duration::from_millis(u64::from(what & 31) * 700);
                conn.expire(now, &mut seen);
            }
            6 => conn.set_paused(what & 1 == 1, now),
            _ if what & 1 == 1 => conn.closed(now, &mut seen),
            _ => conn.broke(Failure::new(ErrorKind::Reset, "the script says so"), &mut seen),
        }
    }
    conn.set_paused(false, now);
    finish(conn, seen, limits);
}

/// A deadline ends the exchange in any state, and a finished exchange does not change.
fn finish(mut conn: Conn, mut seen: Seen, limits: &Limits) {
    for turn in 0.. {
        assert!(turn < 100, "time does not end it");
        match conn.step() {
            Step::Done => break,
            Step::Write(bytes) => {
                let count = bytes.len();
                conn.wrote(count, Time::ZERO);
            }
            Step::Read | Step::Pause => {
                let deadline = conn.deadline();
                assert!(!deadline.is_never(), "nothing would ever end it");
                conn.expire(deadline, &mut seen);
            }
        }
    }
    let before = (seen.heads, seen.body, seen.wire);
    conn.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", Time::ZERO, &mut seen);
    conn.closed(Time::ZERO, &mut seen);
    assert_eq!((seen.heads, seen.body, seen.wire), before, "what is over is over");
    assert!(matches!(conn.step(), Step::Done));
    let ExchangeEnd { bytes_body, failure, truncated, reusable, .. } = conn.end();
    assert!(seen.heads <= 1, "two heads");
    assert_eq!(bytes_body, seen.body);
    assert!(seen.body <= limits.max_body);
    assert!(truncated.is_none() || failure.is_some(), "cut without a reason");
    assert!(failure.is_some() || seen.heads == 1, "nothing came, and nothing is wrong");
    assert!(!reusable || failure.is_none(), "a connection that failed is used again");
}

/// A real handshake and response with bytes modified in transit: either the original response arrives, or none.
fn over_tls(script: &[u8], limits: &Arc<Limits>) {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let now = Time::ZERO;
    let Ok(mut conn) = Conn::tls(Arc::clone(client()), "h.example", Arc::clone(limits), now) else { return };
    let Ok(mut server) = ServerConnection::new(Arc::clone(server())) else { return };
    let mut seen = Seen::default();
    conn.request(REQUEST.to_vec(), now + limits.total, now);
    // Pairs of bytes: the distance to the next modification, and its value.
    let mut changes = script.chunks_exact(2).map(|pair| (usize::from(pair[0]), pair[1]));
    let mut next = changes.next();
    let (mut asked, mut is_changed) = (Vec::new(), false);
    for _ in 0..100 {
        let mut moved = false;
        while let Step::Write(bytes) = conn.step() {
            let (mut rest, count) = (bytes, bytes.len());
            let _ =
                server.read_tls(&mut rest).and_then(|_| server.process_new_packets().map_err(std::io::Error::other));
            conn.wrote(count, now);
            moved = true;
        }
        let mut buffer = [0; 256];
        while let Ok(count @ 1..) = server.reader().read(&mut buffer) {
            asked.extend_from_slice(&buffer[..count]);
            if asked == REQUEST {
                let _ = server.writer().write_all(ANSWER);
            }
        }
        let mut out = Vec::new();
        while server.wants_write() && server.write_tls(&mut out).is_ok() {}
        for byte in &mut out {
            match &mut next {
                Some((0, change)) => {
                    is_changed |= *change != 0;
                    *byte ^= *change;
                    next = changes.next();
                }
                Some((left, _)) => *left -= 1,
                None => {}
            }
        }
        moved |= !out.is_empty();
        for piece in out.chunks(97) {
            conn.feed(piece, now, &mut seen);
        }
        if !moved || matches!(conn.step(), Step::Done) {
            break;
        }
    }
    assert!(is_changed || seen.body == 5, "an unmodified response did not arrive");
    assert!([0, 5].contains(&seen.body), "what TLS protects was changed");
    finish(conn, seen, limits);
}

fn keys() -> &'static (Arc<TlsConfig>, Arc<ServerConfig>) {
    static KEYS: OnceLock<(Arc<TlsConfig>, Arc<ServerConfig>)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let date = || Duration::from_secs(1_767_312_000);
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(vec!["h.example".to_owned()]).expect("a name");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).expect("a root");
        let issuer = rcgen::Issuer::new(params, key);
        let own = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["h.example".to_owned()]).expect("a name");
        let certificate = params.signed_by(&own, &issuer).expect("a certificate");
        let trust = Trust { roots: vec![root.der().to_vec()], ..Trust::default() };
        let client = trust.compile(date).expect("a client").anonymous;
        let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(own.serialize_der()).expect("a key"),
            )
            .expect("a server");
        (client, Arc::new(server))
    })
}

fn client() -> &'static Arc<TlsConfig> {
    &keys().0
}

fn server() -> &'static Arc<ServerConfig> {
    &keys().1
}
