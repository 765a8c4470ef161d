//! TLS, driven over memory: ciphertext in, plaintext out, and back.
//!
//! Invariant: this folder is the only place that names rustls; everybody else sees bytes and [`Failure`]s.

pub mod certificate;
mod sessions;
pub mod trust;
mod verify;
mod words;

use std::io::{BufRead, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion};

use crate::outcome::Failure;
use crate::time::Time;

use super::{Clock, Conn};
use crate::conn::limits::Limits;
use certificate::Certificate;
use words::{explain, tls};

/// What TLS connections share: roots, versions, the cache of sessions. It is made outside the core, which has no files.
pub type TlsConfig = ClientConfig;

/// What a handshake agreed on, and with whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// `TLS 1.3`
    pub version: &'static str,
    pub cipher: &'static str,
    /// Whether an earlier handshake was gone on with.
    pub resumed: bool,
    /// The server's own certificate, as it describes itself.
    pub certificate: Certificate,
}

/// One TLS session.
pub(super) struct Tls {
    session: ClientConnection,
    /// Ciphertext that is to be written, and how much of it was.
    out: Vec<u8>,
    sent: usize,
    deadline: Time,
    done: Option<Time>,
    /// The peer has said that nothing more comes.
    closed: bool,
}

impl Conn {
    /// A connection that speaks TLS. `server_name` is the host of the address, as it stands there.
    pub fn tls(config: Arc<TlsConfig>, server_name: &str, limits: Arc<Limits>, now: Time) -> Result<Self, Failure> {
        let bare = server_name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| tls(format!("{server_name:?} is not a name that a certificate can be for")))?;
        let mut session = ClientConnection::new(config, name).map_err(|error| explain(&error))?;
        session.set_buffer_limit(None);
        let deadline = now + limits.connect;
        let mut tls = Box::new(Tls { session, out: Vec::new(), sent: 0, deadline, done: None, closed: false });
        tls.collect();
        let mut conn = Self::plain(limits, now);
        conn.clock = Clock::new(Time::NEVER, now);
        conn.tls = Some(tls);
        Ok(conn)
    }

    /// What its handshake agreed on; none before its end, or without TLS.
    pub fn secured(&self) -> Option<Secured> {
        self.tls.as_ref()?.secured()
    }
}

impl Tls {
    /// Plaintext to be sent; it waits here until the handshake is over.
    pub(super) fn send(&mut self, plaintext: &[u8]) {
        // Writing into the session's own memory cannot fail: it has no limit.
        let _ = self.session.writer().write_all(plaintext);
        self.collect();
    }

    /// Takes some of the ciphertext. False where no more is taken.
    pub(super) fn read(&mut self, ciphertext: &mut &[u8]) -> Result<bool, Failure> {
        let took = self.session.read_tls(ciphertext).map_err(|error| tls(error.to_string()))?;
        let result = self.session.process_new_packets();
        self.collect();
        let state = result.map_err(|error| explain(&error))?;
        self.closed = state.peer_has_closed();
        Ok(took > 0)
    }

    /// The next piece of plaintext, to be taken away by `consume`.
    pub(super) fn plaintext(&mut self) -> Option<&[u8]> {
        let chunk = self.session.reader().into_first_chunk().ok()?;
        (!chunk.is_empty()).then_some(chunk)
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.session.reader().consume(bytes);
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Notes the end of the handshake. True at the moment it ends.
    pub(super) fn note_done(&mut self, now: Time) -> bool {
        let done = self.done.is_none() && !self.is_handshaking();
        if done {
            self.done = Some(now);
        }
        done
    }

    pub(super) fn done(&self) -> Option<Time> {
        self.done
    }

    fn secured(&self) -> Option<Secured> {
        let shown = self.session.peer_certificates().and_then(<[_]>::first);
        Some(Secured {
            version: match self.session.protocol_version()? {
                ProtocolVersion::TLSv1_2 => "TLS 1.2",
                ProtocolVersion::TLSv1_3 => "TLS 1.3",
                _ => "TLS",
            },
            cipher: self.session.negotiated_cipher_suite()?.suite().as_str().unwrap_or("an unknown cipher"),
            resumed: self.session.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: shown.map(|der| Certificate::read(der)).unwrap_or_default(),
        })
    }

    /// Until when the handshake must be over.
    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// The handshake begins only now: a proxy had to make the connection first.
    pub(super) fn set_deadline(&mut self, deadline: Time) {
        self.deadline = deadline;
    }

    /// Has the peer said that nothing more comes?
    pub(super) fn is_closed_cleanly(&self) -> bool {
        self.closed
    }

    /// Ciphertext to be written.
    pub(super) fn pending(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    pub(super) fn wrote(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.out.len() {
            self.out = Vec::new();
            self.sent = 0;
        }
    }

    fn collect(&mut self) {
        while self.session.wants_write() {
            if !matches!(self.session.write_tls(&mut self.out), Ok(bytes) if bytes > 0) {
                break;
            }
        }
    }
}
