//! [`Verifier`]: whether a server is who it says it is.
//!
//! The standard verifier of rustls does the work; this one adds three things. It tells "self-signed" from "signed by
//! somebody unknown", it believes everybody where that was asked for, and it takes no chain of very many certificates:
//! in memory each costs many times the bytes that it came in. Signatures are checked either way, so that the handshake
//! itself is sound.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};

use super::certificate::is_self_issued;

/// Certificates beside the server's own. Real chains have one to four, and the standard verifier follows none that has
/// more than six.
pub(crate) const MAX_INTERMEDIATES: usize = 32;

#[derive(Debug)]
pub(super) struct Verifier {
    /// None: believe everybody.
    roots: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Believes what these roots vouch for.
    pub(super) fn believing(roots: RootCertStore, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let roots = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { roots: Some(roots), ..Self::credulous(provider) })
    }

    /// Believes everybody.
    pub(super) fn credulous(provider: &Arc<CryptoProvider>) -> Self {
        Self { roots: None, algorithms: provider.signature_verification_algorithms }
    }
}

/// The reason that the standard verifier has no word for.
#[derive(Debug, thiserror::Error)]
#[error("certificate self-signed: nobody but the server itself vouches for it")]
pub(super) struct SelfSigned;

/// The same for a chain that is none.
#[derive(Debug, thiserror::Error)]
#[error("the server shows {0} certificates beside its own; more than {MAX_INTERMEDIATES} are no chain")]
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
        let is_unvouched = matches!(
            result,
            Err(Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_)
            ))
        );
        if is_unvouched && is_self_issued(certificate) {
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
