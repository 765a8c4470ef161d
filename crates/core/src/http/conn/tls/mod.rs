//! TLS over memory buffers: decrypts received bytes and encrypts bytes to be sent.
//!
//! Invariant: this folder is the only place that uses rustls. Other modules see bytes and [`Failure`]s.

pub mod certificate;
mod messages;
mod sessions;
pub mod trust;
mod verify;

use std::io::{BufRead, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion};

use crate::base::outcome::{Failure, TlsFault};
use crate::base::time::Time;

use super::Conn;
use crate::http::conn::limits::Limits;
use certificate::CertificateSummary;
use messages::{explain, tls_failure};
use sessions::{ConnSessions, SessionCache};
#[cfg(test)]
pub(crate) use verify::MAX_INTERMEDIATES;

/// Shared settings of TLS connections: roots, versions, session cache. Built by [`trust::Trust`].
pub struct TlsConfig {
    /// Accepted authorities and client certificate.
    client: ClientConfig,
    sessions: Arc<SessionCache>,
}

impl TlsConfig {
    /// The settings for one connection: with its own session store, and offering these protocols (ALPN).
    fn for_connection(&self, sessions: &Arc<ConnSessions>, protocols: &[&[u8]]) -> ClientConfig {
        let mut client = self.client.clone();
        client.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        client.resumption = Resumption::store(Arc::<ConnSessions>::clone(sessions));
        client
    }
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    /// As in `TLS 1.3`.
    pub version: &'static str,
    pub cipher: &'static str,
    /// An earlier session was resumed.
    pub resumed: bool,
    /// The server's own certificate.
    pub certificate: CertificateSummary,
}

/// One TLS session.
pub(crate) struct Tls {
    session: ClientConnection,
    conn_sessions: Arc<ConnSessions>,
    record: Record,
    /// Ciphertext to be written, and how many bytes of it were written.
    out: Vec<u8>,
    sent: usize,
    /// The deadline of the handshake, and when it completed.
    deadline: Time,
    done: Option<Time>,
    /// The peer has sent a record of TLS.
    has_record: bool,
    /// The peer sent close_notify.
    is_closed_cleanly: bool,
}

impl Conn {
    /// A connection with TLS. `server_name` is the host as written in the URL.
    pub fn tls(config: Arc<TlsConfig>, server_name: &str, limits: Arc<Limits>, now: Time) -> Result<Self, Failure> {
        Self::tls_offering(&[], config, server_name, limits, now)
    }

    /// Like [`Conn::tls`], and offers these protocols (ALPN).
    pub fn tls_offering(
        protocols: &[&[u8]],
        config: Arc<TlsConfig>,
        server_name: &str,
        limits: Arc<Limits>,
        now: Time,
    ) -> Result<Self, Failure> {
        let bare = server_name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| tls_failure(format!("{server_name:?} is not a host name that a certificate can contain")))?;
        let conn_sessions = Arc::new(ConnSessions::new(&config.sessions));
        let mut session = ClientConnection::new(Arc::new(config.for_connection(&conn_sessions, protocols)), name)
            .map_err(|error| explain(&error, false))?;
        session.set_buffer_limit(None);
        let (deadline, record, out) = (now + limits.connect, Record::default(), Vec::new());
        let mut tls = Box::new(Tls {
            session,
            conn_sessions,
            record,
            out,
            sent: 0,
            deadline,
            done: None,
            has_record: false,
            is_closed_cleanly: false,
        });
        tls.collect_ciphertext();
        let mut conn = Self::plain(limits, now);
        conn.tls = Some(tls);
        Ok(conn)
    }

    /// The result of the handshake; `None` before its end, or without TLS.
    pub fn tls_info(&self) -> Option<TlsInfo> {
        self.tls.as_ref()?.tls_info()
    }
}

impl Tls {
    /// Queues plaintext; it is sent once the handshake is complete.
    pub(crate) fn send(&mut self, plaintext: &[u8]) {
        // Writing to the session's buffer cannot fail: it has no limit.
        let _ = self.session.writer().write_all(plaintext);
        self.collect_ciphertext();
    }

    /// Processes ciphertext, at most one record. Returns false if nothing was consumed.
    pub(crate) fn read(&mut self, ciphertext: &mut &[u8]) -> Result<bool, Failure> {
        // A copy finds the end of the record. The session may take fewer bytes, and only these are counted.
        let mut record = self.record;
        let (mut piece, _) = ciphertext.split_at(record.take(ciphertext));
        let took = self.session.read_tls(&mut piece).map_err(|error| tls_failure(error.to_string()))?;
        let (taken, rest) = ciphertext.split_at(took);
        *ciphertext = rest;
        self.record.take(taken);
        self.conn_sessions.add_received(took);
        let result = self.session.process_new_packets();
        self.collect_ciphertext();
        let state = result.map_err(|error| explain(&error, self.has_record))?;
        self.has_record |= self.record.is_begun();
        if let Some(size) = self.record.complete_size()
            && state.plaintext_bytes_to_read() > 0
        {
            self.conn_sessions.subtract_page_content(size);
        }
        self.is_closed_cleanly = state.peer_has_closed();
        Ok(took > 0)
    }

    /// The next piece of plaintext; `consume` removes it.
    pub(crate) fn plaintext(&mut self) -> Option<&[u8]> {
        let chunk = self.session.reader().into_first_chunk().ok()?;
        (!chunk.is_empty()).then_some(chunk)
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.session.reader().consume(bytes);
    }

    /// The protocol that the handshake agreed on.
    pub(super) fn alpn(&self) -> Option<&[u8]> {
        self.session.alpn_protocol()
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// The fault if the connection ends during the handshake.
    pub(super) fn broken_handshake(&self) -> TlsFault {
        if self.has_record { TlsFault::Handshake } else { TlsFault::Absent }
    }

    /// Stores the time at which the handshake completed. Returns true on the first call after that.
    pub(super) fn note_done(&mut self, now: Time) -> bool {
        let is_new = self.done.is_none() && !self.is_handshaking();
        if is_new {
            self.done = Some(now);
        }
        is_new
    }

    /// When the handshake completed.
    pub(crate) fn done(&self) -> Option<Time> {
        self.done
    }

    pub(crate) fn tls_info(&self) -> Option<TlsInfo> {
        let certificate = self.session.peer_certificates().and_then(<[_]>::first);
        Some(TlsInfo {
            version: match self.session.protocol_version()? {
                ProtocolVersion::TLSv1_2 => "TLS 1.2",
                ProtocolVersion::TLSv1_3 => "TLS 1.3",
                _ => "TLS",
            },
            cipher: self.session.negotiated_cipher_suite()?.suite().as_str().unwrap_or("an unknown cipher"),
            resumed: self.session.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: certificate.map(|der| CertificateSummary::read(der)).unwrap_or_default(),
        })
    }

    /// The deadline of the handshake.
    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Sets the deadline again when the handshake starts late, after the conversation with a proxy.
    pub(super) fn set_deadline(&mut self, deadline: Time) {
        self.deadline = deadline;
    }

    /// True if the peer sent close_notify.
    pub(crate) fn is_closed_cleanly(&self) -> bool {
        self.is_closed_cleanly
    }

    /// Ciphertext to be written.
    pub(crate) fn pending(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.out.len() {
            self.out = Vec::new();
            self.sent = 0;
        }
    }

    /// Moves the ciphertext that the session has to send to `out`.
    fn collect_ciphertext(&mut self) {
        while self.session.wants_write() {
            if !matches!(self.session.write_tls(&mut self.out), Ok(bytes) if bytes > 0) {
                break;
            }
        }
    }
}

/// The progress within a TLS record. A record contains either only page content or none. So records are processed one
/// by one, to count the bytes that are not page content (see `sessions`).
#[derive(Clone, Copy, Default)]
struct Record {
    /// The last two bytes are the length of the record without its header.
    header: [u8; RECORD_HEADER],
    /// Bytes received so far, header included.
    received: usize,
}

/// Length of the header of a TLS record.
const RECORD_HEADER: usize = 5;

impl Record {
    /// Consumes bytes up to the end of the record and returns how many. After a complete record, the next one begins.
    fn take(&mut self, bytes: &[u8]) -> usize {
        if self.complete_size().is_some() {
            self.received = 0;
        }
        let header_rest = self.header.iter_mut().skip(self.received);
        let in_header = header_rest.zip(bytes).map(|(slot, byte)| *slot = *byte).count();
        self.received += in_header;
        let missing = self.size().map_or(0, |size| size.saturating_sub(self.received));
        let in_body = missing.min(bytes.len() - in_header);
        self.received += in_body;
        in_header + in_body
    }

    /// The size of the record, header included; `None` until its header is complete.
    fn size(&self) -> Option<usize> {
        let [.., high, low] = self.header;
        (self.received >= RECORD_HEADER).then(|| RECORD_HEADER + usize::from(u16::from_be_bytes([high, low])))
    }

    /// Whether the bytes so far are those of a TLS record: a type from 20 to 23, and the version 3. Half a record is one.
    fn is_begun(&self) -> bool {
        let [kind, version, ..] = self.header;
        self.received >= 2 && matches!(kind, 20..=23) && version == 3
    }

    /// The size of the record; `None` until it is complete.
    fn complete_size(&self) -> Option<usize> {
        self.size().filter(|size| self.received >= *size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_recognised_at_any_split_of_the_input() {
        // Each record: type (application data), version, length and content.
        let stream: Vec<u8> = [3, 0, 700, 1]
            .iter()
            .flat_map(|size: &u16| [&[23, 3, 3][..], &size.to_be_bytes(), &vec![9; usize::from(*size)]].concat())
            .collect();
        for step in [1, 2, 4, 5, 6, 100, stream.len()] {
            let (mut record, mut sizes) = (Record::default(), Vec::new());
            for mut piece in stream.chunks(step) {
                while !piece.is_empty() {
                    let took = record.take(piece);
                    piece = &piece[took..];
                    sizes.extend(record.complete_size());
                }
            }
            assert_eq!(sizes, [8, 5, 705, 6], "{step} at a time");
        }
    }
}
