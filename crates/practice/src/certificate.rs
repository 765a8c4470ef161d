//! Certificates: a private authority created when a web starts, and valid and invalid certificates for its sites.
//!
//! The authority is never stored. Only clients that get [`TestAuthority::pem`] trust it. All certificates of an authority
//! share one key pair; they differ in names and dates, which is what clients check.
//!
//! Invariant: only `CertificateKind::Good` verifies against the authority, for the names and address of its site.

use crate::http2::Http2;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rcgen::{KeyUsagePurpose, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Which certificate a site presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateKind {
    /// Signed by the authority, for the site's own names and address.
    Good,
    /// Self-signed.
    SelfSigned,
    /// Signed by the authority, expired years ago.
    Expired,
    /// Signed by the authority, not valid before 2090.
    NotYetValid,
    /// Signed by the authority, for another name.
    WrongName,
}

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
    /// `names` are those of the certificate besides the addresses. `allows_resumption`: whether clients can resume sessions.
    pub(crate) fn new(
        authority: &Arc<TestAuthority>,
        kind: CertificateKind,
        names: Vec<String>,
        allows_resumption: bool,
        http2: Option<Http2>,
    ) -> io::Result<SiteTls> {
        let mut base = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(other_error)?
            .with_no_client_auth()
            .with_cert_resolver(authority.resolver(kind, names.clone())?);
        base.alpn_protocols = match http2 {
            None => vec![b"http/1.1".to_vec()],
            Some(Http2 { allows_http1: true, .. }) => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Some(Http2 { allows_http1: false, .. }) => vec![b"h2".to_vec()],
        };
        if allows_resumption {
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
