//! Certificates: a private authority created when a web starts, and valid and invalid certificates for its sites.
//!
//! The authority is never stored. Only clients that get [`TestAuthority::pem`] trust it. All certificates of an authority
//! share one key pair; they differ in names and dates, which is what clients check.
//!
//! Invariant: only [`CertificateKind::Good`] verifies against the authority, for the names and address of its site.

use crate::http2_settings::Http2;
use crate::site::{CertificateKind, Site};
use base64::Engine as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rcgen::{KeyUsagePurpose, SigningKey as _, date_time_ymd};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::ResolvesServerCert;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// A private certificate authority.
pub struct TestAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// The key pair of all certificates that the authority issues.
    key: KeyPair,
}

fn other_error(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl TestAuthority {
    /// Creates an authority with new keys.
    pub fn new() -> io::Result<TestAuthority> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Argiope practice authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer =
            CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(other_error)?).map_err(other_error)?;
        Ok(TestAuthority { issuer, key: KeyPair::generate().map_err(other_error)? })
    }

    /// The authority's certificate as PEM, for clients to trust.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's certificate as DER.
    pub fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// Issues a certificate for a server outside this crate. Returns the certificate and its private key, both as PEM.
    pub fn issue(&self, names: Vec<String>) -> io::Result<(String, String)> {
        let mut params = CertificateParams::new(names).map_err(other_error)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&self.key, &self.issuer).map_err(other_error)?;
        Ok((certificate.pem(), self.key.serialize_pem()))
    }

    /// A self-signed certificate of X.509 version 1 and its private key, both as PEM.
    pub fn issue_version1() -> io::Result<(String, String)> {
        let key = KeyPair::generate().map_err(other_error)?;
        let modern = CertificateParams::default().self_signed(&key).map_err(other_error)?;
        let version1 = der::version1(modern.der(), |content| key.sign(content).ok());
        let text = base64::engine::general_purpose::STANDARD.encode(version1.ok_or_else(|| other_error(fmt::Error))?);
        Ok((format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"), key.serialize_pem()))
    }

    /// A certificate of this kind for a site with these names.
    fn certificate(&self, kind: CertificateKind, names: Vec<String>) -> io::Result<CertificateDer<'static>> {
        let names = if kind == CertificateKind::WrongName { vec!["another-name.test".to_owned()] } else { names };
        let mut params = CertificateParams::new(names).map_err(other_error)?;
        params.distinguished_name.push(DnType::CommonName, "Argiope practice site");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        match kind {
            CertificateKind::Expired => {
                params.not_before = date_time_ymd(2001, 1, 1);
                params.not_after = date_time_ymd(2002, 1, 1);
            }
            CertificateKind::NotYetValid => {
                params.not_before = date_time_ymd(2090, 1, 1);
                params.not_after = date_time_ymd(2091, 1, 1);
            }
            _ => {}
        }
        let certificate = match kind {
            CertificateKind::SelfSigned => params.self_signed(&self.key),
            _ => params.signed_by(&self.key, &self.issuer),
        };
        Ok(certificate.map_err(other_error)?.der().clone())
    }

    /// A resolver that always presents such a certificate.
    fn resolver(&self, kind: CertificateKind, names: Vec<String>) -> io::Result<Arc<dyn ResolvesServerCert>> {
        let chain = vec![self.certificate(kind, names)?];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let certified = CertifiedKey::from_der(chain, key, &default_provider()).map_err(other_error)?;
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }
}

/// The TLS configurations of one site, one per address.
///
/// A client sends no server name if the URL has an IP address, so each address of a site needs its own certificate. The
/// configurations are created on first use. They share the ticket keys, so that sessions can be resumed.
pub(crate) struct SiteTls {
    authority: Arc<TestAuthority>,
    kind: CertificateKind,
    names: Vec<String>,
    /// The configuration of every address, except for the certificate.
    base: ServerConfig,
    by_address: Mutex<HashMap<IpAddr, Arc<ServerConfig>>>,
}

impl SiteTls {
    pub(crate) fn new(authority: &Arc<TestAuthority>, kind: CertificateKind, site: &Site) -> io::Result<SiteTls> {
        let names = site.names.clone();
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(other_error)?;
        let builder = match site.requires_client_certificate {
            true => builder.with_client_cert_verifier(Arc::new(AnyClientCertificate)),
            false => builder.with_no_client_auth(),
        };
        let mut base = builder.with_cert_resolver(authority.resolver(kind, names.clone())?);
        base.alpn_protocols = match site.http2 {
            None => vec![b"http/1.1".to_vec()],
            Some(Http2 { allows_http1: true, .. }) => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Some(Http2 { allows_http1: false, .. }) => vec![b"h2".to_vec()],
        };
        if site.allows_resumption {
            base.ticketer = Ticketer::new().map_err(other_error)?;
        } else {
            base.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
            base.send_tls13_tickets = 0;
        }
        Ok(SiteTls { authority: Arc::clone(authority), kind, names, base, by_address: Mutex::default() })
    }

    /// The configuration for connections to this address, with a certificate for it.
    pub(crate) fn config(&self, address: IpAddr) -> io::Result<Arc<ServerConfig>> {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = by_address.get(&address) {
            return Ok(Arc::clone(config));
        }
        let mut names = self.names.clone();
        names.push(address.to_string());
        let mut config = self.base.clone();
        config.cert_resolver = self.authority.resolver(self.kind, names)?;
        let config = Arc::new(config);
        by_address.insert(address, Arc::clone(&config));
        Ok(config)
    }
}

/// Requires that a client presents a certificate, of any version, and accepts every one.
#[derive(Debug)]
struct AnyClientCertificate;

impl ClientCertVerifier for AnyClientCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// DER, as far as certificates of version 1 need it.
mod der {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    /// Tags of the parts that version 1 does not have: the version and the extensions.
    const LATER_PARTS: [u8; 2] = [0xa0, 0xa3];

    /// The certificate without the parts that version 1 does not have, signed again.
    pub(super) fn version1(modern: &[u8], sign: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let (_, certificate, _) = element(modern)?;
        let (whole, _, rest) = element(certificate)?;
        let (algorithm, _, _) = element(rest)?;
        let (_, mut parts, _) = element(whole)?;
        let mut kept = Vec::new();
        while let Some((part, _, rest)) = element(parts) {
            if part.first().is_some_and(|tag| !LATER_PARTS.contains(tag)) {
                kept.extend_from_slice(part);
            }
            parts = rest;
        }
        let content = wrap(SEQUENCE, &kept);
        // A bit string begins with the number of its unused bits.
        let signature = [vec![0], sign(&content)?].concat();
        Some(wrap(SEQUENCE, &[&content, algorithm, &wrap(BIT_STRING, &signature)].concat()))
    }

    fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        match u8::try_from(content.len()) {
            Ok(short) if short < 0x80 => out.push(short),
            _ => {
                out.push(0x82);
                out.extend(u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes());
            }
        }
        out.extend_from_slice(content);
        out
    }

    /// The first element: the whole of it, its content, and what follows it.
    fn element(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
        let first = *bytes.get(1)?;
        let digits = if first < 0x80 { &[][..] } else { bytes.get(2..2 + usize::from(first & 0x7f))? };
        let length = match digits {
            [] => usize::from(first),
            digits => digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)),
        };
        let start = 2 + digits.len();
        let (whole, rest) = bytes.split_at_checked(start + length)?;
        Some((whole, whole.get(start..)?, rest))
    }
}
