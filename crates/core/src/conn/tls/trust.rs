//! [`Trust`]: whom a TLS connection believes, and as whom it speaks.
//!
//! Invariant: certificates are checked unless somebody said, in as many words, that they shall not be. Files and clocks
//! are not for the core: roots arrive as bytes, and the time of day from whoever has a clock.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::{TlsConfig, explaining};

/// Host names whose sessions are remembered, so that a reconnect costs half a handshake.
const SESSIONS: usize = 16_384;

/// Whom to believe, and as whom to speak.
#[derive(Debug, Default)]
pub struct Trust {
    /// Certificates of authorities, in DER.
    pub roots: Vec<Vec<u8>>,
    /// Believe everybody.
    pub insecure: bool,
    /// A client's certificate chain and key, each a PEM text.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Seconds since the Unix epoch, from somebody who has a clock.
pub type TimeOfDay = fn() -> Duration;

impl Trust {
    /// Compiles it. The message of an error says what is wrong with the identity.
    pub fn compile(self, time_of_day: TimeOfDay) -> Result<Arc<TlsConfig>, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::new(Clock(time_of_day)))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            let mut roots = RootCertStore::empty();
            // The system's bundle may hold a certificate that nobody can read; the others count.
            roots.add_parsable_certificates(self.roots.into_iter().map(CertificateDer::from));
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| error.to_string())?;
            // The standard verifier, in words that a person understands.
            builder.dangerous().with_custom_certificate_verifier(explaining(verifier))
        };
        let mut config = match self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
                let chain = chain.map_err(|error| format!("the client certificate is no PEM: {error}"))?;
                let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("the key is no PEM: {error}"))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
            }
        };
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Ok(Arc::new(config))
    }
}

/// The certificates in a PEM text, as DER.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).map(|one| one.map(|der| der.to_vec())).collect();
    match read {
        Ok(found) if found.is_empty() => Err("it holds no certificate".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

/// A [`TlsConfig`] that is made when the first https host comes: reading the system's roots takes time that a crawl
/// of plain sites need not spend.
#[derive(Clone)]
pub struct TlsSource(Arc<LazyLock<Made, Make>>);

type Made = Result<Arc<TlsConfig>, String>;
type Make = Box<dyn FnOnce() -> Made + Send>;

impl TlsSource {
    pub fn new(make: impl FnOnce() -> Result<Arc<TlsConfig>, String> + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// The configuration, made now if it was not before.
    pub fn config(&self) -> Result<&Arc<TlsConfig>, &str> {
        LazyLock::force(&self.0).as_ref().map_err(String::as_str)
    }
}

impl Default for TlsSource {
    /// Trusts nobody.
    fn default() -> Self {
        Self::new(|| Err("no certificate authorities were given".to_owned()))
    }
}

impl fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsSource")
    }
}

struct Clock(TimeOfDay);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch((self.0)()))
    }
}

/// `--insecure`: every certificate will do. Signatures are still checked, so that the handshake itself is sound.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
