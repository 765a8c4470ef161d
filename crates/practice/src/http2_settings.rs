//! What connections and sites know of HTTP/2: its settings, and the connections that its thread takes over.

use rustix::fd::OwnedFd;
use rustls::ServerConnection;

/// The connection preface: the first bytes of an HTTP/2 client.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Maximum number of concurrent streams of a connection, unless a site sets another.
pub(crate) const DEFAULT_MAX_STREAMS: u32 = 100;

/// The HTTP/2 settings of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Http2 {
    /// Whether ALPN offers HTTP/1.1 as well.
    pub(crate) allows_http1: bool,
    /// Maximum number of concurrent streams of a connection.
    pub(crate) max_streams: u32,
}

/// A connection that uses HTTP/2, moved to the HTTP/2 thread.
pub(crate) struct HandedOver {
    pub(crate) socket: OwnedFd,
    pub(crate) tls: Option<Box<ServerConnection>>,
    /// Bytes that were already read and decrypted.
    pub(crate) input: Vec<u8>,
    /// The number of the connection in the log.
    pub(crate) id: u64,
    /// The index of the site in the web.
    pub(crate) site: usize,
}
