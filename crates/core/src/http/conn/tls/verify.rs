//! [`Verifier`]: verification of server certificates.
//!
//! It wraps the standard verifier of rustls, with these differences:
//!
//! - It reports self-signed certificates as such.
//! - It accepts pinned certificates that are marked as those of an authority.
//! - It can be configured to accept every certificate.
//! - It refuses very long chains, because each certificate takes many times its size in memory.
//!
//! Signatures of the handshake are always checked.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};

use super::certificate::is_self_issued;

/// Limit on the certificates in addition to the server's own. Real chains have one to four, and the standard verifier
/// follows at most six.
pub(crate) const MAX_INTERMEDIATES: usize = 32;

/// The verifier of server certificates.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None`: accept every certificate.
    roots: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that are accepted as a server's own certificate.
    pinned: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Accepts certificates issued by these roots, and the pinned ones.
    pub(super) fn with_roots(
        roots: RootCertStore,
        pinned: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let roots = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { roots: Some(roots), pinned, ..Self::accepting_all(provider) })
    }

    /// Accepts every certificate.
    pub(super) fn accepting_all(provider: &Arc<CryptoProvider>) -> Self {
        Self { roots: None, pinned: Vec::new(), algorithms: provider.signature_verification_algorithms }
    }
}

/// The error for a self-signed certificate, which the standard verifier does not distinguish from other faults.
#[derive(Debug, thiserror::Error)]
#[error("certificate self-signed: no trusted authority has signed it")]
pub(super) struct SelfSigned;

/// The error for a chain that is too long.
#[derive(Debug, thiserror::Error)]
#[error("the server sent {0} certificates beside its own; more than {MAX_INTERMEDIATES} are refused")]
pub(super) struct LongChain(usize);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if intermediates.len() > MAX_INTERMEDIATES {
            return Err(CertificateError::Other(OtherError(Arc::new(LongChain(intermediates.len())))).into());
        }
        let result = match &self.roots {
            None => Ok(ServerCertVerified::assertion()),
            Some(roots) => roots.verify_server_cert(certificate, intermediates, name, ocsp, now),
        };
        // The standard verifier returns this error for an authority's certificate in place of a server's. It checks the
        // validity period before that, so the certificate is valid now.
        if matches!(result, Err(Error::InvalidCertificate(CertificateError::Other(_))))
            && self.pinned.iter().any(|pinned| pinned == certificate)
        {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let may_be_self_signed = matches!(
            result,
            Err(Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_)
            ))
        );
        if may_be_self_signed && is_self_issued(certificate) {
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
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
