//! TLS, driven over memory: ciphertext in, plaintext out, and back.
//!
//! Invariant: this folder is the only place that names rustls; everybody else sees bytes and [`Failure`]s.

pub mod trust;

use std::io::{BufRead, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    Error, InvalidMessage, OtherError, SignatureScheme,
};

use crate::outcome::{ErrorKind, Failure};
use crate::time::Time;

use super::{Clock, Conn};
use crate::conn::limits::Limits;

/// What TLS connections share: roots, versions, the cache of sessions. It is made outside the core, which has no files.
pub type TlsConfig = ClientConfig;

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

    /// Until when the handshake must be over.
    pub(super) fn deadline(&self) -> Time {
        self.deadline
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

fn tls(words: impl Into<Box<str>>) -> Failure {
    Failure::new(ErrorKind::Tls, words)
}

/// Says in words what was wrong.
fn explain(error: &Error) -> Failure {
    tls(match error {
        Error::InvalidCertificate(fault) => explain_certificate(fault),
        Error::AlertReceived(AlertDescription::UnrecognisedName) => "the server does not know this name".to_owned(),
        Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server speaks no version of TLS from 1.2 on".to_owned()
        }
        Error::AlertReceived(alert) => format!("the server refused the handshake: {alert:?}"),
        Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
            "the server does not speak TLS on this port".to_owned()
        }
        Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => {
            "a handshake, or a chain of certificates, larger than 64 KiB".to_owned()
        }
        Error::PeerIncompatible(why) => format!("no common version or cipher of TLS: {why:?}"),
        other => other.to_string(),
    })
}

fn explain_certificate(fault: &CertificateError) -> String {
    match fault {
        CertificateError::ExpiredContext { not_after, .. } => format!("certificate expired since {}", date(*not_after)),
        CertificateError::Expired => "certificate expired".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("certificate not valid before {}", date(*not_before))
        }
        CertificateError::NotValidYet => "certificate not valid yet".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            const SHOWN: usize = 5;
            let mut names: Vec<_> = presented.iter().take(SHOWN).map(|name| bare_name(name)).collect();
            if presented.len() > SHOWN {
                names.push("...");
            }
            let names = if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") };
            format!("name mismatch: the certificate is for {names}, not for {}", expected.to_str())
        }
        CertificateError::NotValidForName => "name mismatch: the certificate is for another name".to_owned(),
        CertificateError::UnknownIssuer => {
            "certificate from an unknown issuer: its chain leads to no trusted root".to_owned()
        }
        CertificateError::Revoked => "certificate revoked".to_owned(),
        CertificateError::BadSignature => "certificate with a wrong signature".to_owned(),
        CertificateError::Other(OtherError(why)) if why.is::<SelfSigned>() => SelfSigned.to_string(),
        other => format!("bad certificate: {other}"),
    }
}

/// `DnsName("a.example")` as the verifier writes it, without its wrapping.
fn bare_name(name: &str) -> &str {
    match (name.find('"'), name.rfind('"')) {
        (Some(first), Some(last)) if first < last => name.get(first + 1..last).unwrap_or(name),
        _ => name,
    }
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| format!("{seconds} s"), |time| time.to_string())
}

/// The reason that a verifier has no word for.
#[derive(Debug, thiserror::Error)]
#[error("certificate self-signed: nobody but the server itself vouches for it")]
struct SelfSigned;

/// Wraps a verifier so that it tells "self-signed" from "signed by somebody unknown". What is accepted stays the same.
pub fn explaining(verifier: Arc<dyn ServerCertVerifier>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Explaining(verifier))
}

#[derive(Debug)]
struct Explaining(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for Explaining {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result = self.0.verify_server_cert(certificate, intermediates, name, ocsp, now);
        let unvouched = matches!(
            result,
            Err(Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_)
            ))
        );
        if unvouched && is_self_issued(certificate) == Some(true) {
            return Err(CertificateError::Other(OtherError(Arc::new(SelfSigned))).into());
        }
        result
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.0.root_hint_subjects()
    }
}

/// Does a certificate name itself as its issuer? (RFC 5280: version, serial, algorithm, issuer, validity, subject.)
fn is_self_issued(certificate: &[u8]) -> Option<bool> {
    const VERSION: u8 = 0xa0;
    let (_, certificate, _) = element(certificate)?;
    let (_, body, _) = element(certificate)?;
    let (tag, _, after_version) = element(body)?;
    let (_, _, rest) = element(if tag == VERSION { after_version } else { body })?;
    let (_, _, rest) = element(rest)?;
    let (_, issuer, rest) = element(rest)?;
    let (_, _, rest) = element(rest)?;
    let (_, subject, _) = element(rest)?;
    Some(issuer == subject)
}

/// The DER element that `bytes` begin with: its tag, its content, and what comes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if digits.len() > 4 {
            return None;
        }
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}
