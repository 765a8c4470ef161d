//! HTTP/2 frames that are invalid, excessive, or sent at the wrong time. They are written by hand, because the crate
//! `h2`, which serves the rest of the practice web, cannot violate the protocol.
//!
//! Every case is a TLS server that negotiates HTTP/2. A client that retries with HTTP/1.1 gets an ordinary page, unless
//! the case says otherwise.

mod catalogue;
mod framing;
mod peer;
mod streams;

use super::tls::CaseAuthority;
use super::{Case, CaseBuilder, Expect, demand};
use crate::raw::RawConnection;
use peer::Peer;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

// Flags.
const NO_FLAGS: u8 = 0;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Bytes before the payload of a frame: length, type, flags and stream.
const FRAME_HEAD: usize = 9;
/// The largest payload that a client accepts unless its SETTINGS say otherwise.
const MAX_PAYLOAD: usize = 16_384;

/// The stream number of frames that belong to the connection.
const CONNECTION: u32 = 0;
/// In GOAWAY: no stream was handled.
const NO_STREAM: u32 = 0;
/// A parameter of SETTINGS.
const MAX_CONCURRENT_STREAMS: u16 = 3;
// Error codes.
const NO_ERROR: u32 = 0;
const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
const HTTP_1_1_REQUIRED: u32 = 13;

/// HPACK: the entry `:status: 200` of the static table.
const STATUS_200: u8 = 0x88;
/// HPACK: the first entry of the dynamic table.
const DYNAMIC_ENTRY: u8 = 0xbe;
/// HPACK: the start of a literal field that is added to the dynamic table.
const LITERAL_INDEXED: u8 = 0x40;

const PROTOCOL: Expect = Expect::error("protocol");
/// The header fields of an HTML page.
const HTML: [(&str, &str); 2] = [(":status", "200"), ("content-type", "text/html")];

pub(super) fn cases() -> Vec<Case> {
    [catalogue::cases(), framing::cases(), streams::cases()].concat()
}

/// Sends one frame and waits until the client closes the connection.
fn send_and_wait(peer: &mut Peer<'_>, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
    peer.frame(kind, flags, stream, payload)?;
    peer.wait_until_closed()
}

/// The number of connections so far.
type Connections = Arc<AtomicUsize>;

/// Checks the number of connections.
fn expect_count(connections: &Connections, expected: std::ops::RangeInclusive<usize>) -> super::CaseVerdict {
    let found = connections.load(SeqCst);
    demand(expected.contains(&found), format!("{found} connections, not {expected:?}"))
}

/// A server that runs this function for every HTTP/2 connection, and sends a page to clients that use HTTP/1.1.
fn serve_http2(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    serve_http2_or_http1(case, behaviour, |peer| {
        peer.http1_request()?;
        let body = "<title>here</title>";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", body.len());
        peer.send(&[head.as_bytes(), body.as_bytes()].concat())?;
        peer.wait_until_closed()
    })
}

/// A server that sends its settings, then runs this function for every request, with the stream id.
fn on_request(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>, u32) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    on_request_counted(case, behaviour).map(|_| ())
}

/// Like [`on_request`]; returns the number of connections.
fn on_request_counted(
    case: &mut CaseBuilder,
    behaviour: impl Fn(&mut Peer<'_>, u32) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    serve_http2(case, move |peer| {
        peer.settings(&[])?;
        while let Some(stream) = peer.request()? {
            behaviour(peer, stream)?;
        }
        Ok(())
    })
}

/// A server with one function for HTTP/2 connections and another for HTTP/1.1.
fn serve_http2_or_http1(
    case: &mut CaseBuilder,
    http2: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
    http1: impl Fn(&mut Peer<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Connections> {
    let authority = CaseAuthority::new("Known")?;
    case.trust(authority.root.pem());
    case.set("robots", "ignore");
    let connections = Connections::default();
    let counted = Arc::clone(&connections);
    let config_cell: OnceLock<Result<Arc<ServerConfig>, String>> = OnceLock::new();
    let address = case.raw(move |conn: &mut RawConnection| {
        let ip = conn.stream().local_addr()?.ip();
        let number = counted.fetch_add(1, SeqCst);
        let config = config_cell.get_or_init(|| {
            let describe = |error: io::Error| error.to_string();
            let (chain, key) = (vec![authority.leaf(ip).map_err(describe)?], authority.leaf_key().map_err(describe)?);
            let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?;
            let config = builder.with_no_client_auth().with_single_cert(chain, key);
            let mut config = config.map_err(|error| error.to_string())?;
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            Ok(Arc::new(config))
        });
        let config = config.as_ref().map_err(|why| io::Error::other(why.as_str()))?;
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let mut peer = Peer { session, socket: conn.stream(), input: Vec::new(), has_preface: false, number };
        while peer.session.is_handshaking() {
            let Peer { session, socket, .. } = &mut peer;
            session.complete_io(socket)?;
        }
        if peer.session.alpn_protocol() == Some(b"h2") { http2(&mut peer) } else { http1(&mut peer) }
    })?;
    case.root(format!("https://{address}/"));
    Ok(connections)
}
