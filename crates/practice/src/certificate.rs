//! Certificates: a private authority created when a web starts, and valid and invalid certificates for its sites.
//!
//! Nothing is stored, and only clients that get [`TestAuthority::pem`] trust it. All certificates of an authority share one
//! key pair; they differ in names and dates, which is what clients check.
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
    /// Signed by the authority, valid only in many years.
    NotYetValid,
    /// Signed by the authority, for another name.
    WrongName,
}

/// A private certificate authority.
pub struct TestAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    key: KeyPair,
}

fn fault(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl TestAuthority {
    /// Creates an authority with new keys.
    pub fn new() -> io::Result<TestAuthority> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Argiope practice authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(fault)?).map_err(fault)?;
        Ok(TestAuthority { issuer, key: KeyPair::generate().map_err(fault)? })
    }

    /// The authority's certificate as PEM, for clients to trust.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's certificate as DER.
    pub fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// A certificate for other servers, with its key, both as PEM.
    pub fn issue(&self, names: Vec<String>) -> io::Result<(String, String)> {
        let mut params = CertificateParams::new(names).map_err(fault)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&self.key, &self.issuer).map_err(fault)?;
        Ok((certificate.pem(), self.key.serialize_pem()))
    }

    fn certificate(&self, kind: CertificateKind, names: Vec<String>) -> io::Result<CertificateDer<'static>> {
        let names = if kind == CertificateKind::WrongName { vec!["somebody-else.test".to_owned()] } else { names };
        let mut params = CertificateParams::new(names).map_err(fault)?;
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
        Ok(certificate.map_err(fault)?.der().clone())
    }

    fn resolver(&self, kind: CertificateKind, names: Vec<String>) -> io::Result<Arc<dyn ResolvesServerCert>> {
        let chain = vec![self.certificate(kind, names)?];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let certified = CertifiedKey::from_der(chain, key, &default_provider()).map_err(fault)?;
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }
}

/// The TLS configurations of one site, one per address.
///
/// Clients send no server name for a bare address, so a site on thousands of addresses needs a certificate for each. They
/// are created on first use. All share their ticket keys, so that sessions can be resumed.
pub(crate) struct SiteTls {
    authority: Arc<TestAuthority>,
    kind: CertificateKind,
    names: Vec<String>,
    base: ServerConfig,
    by_address: Mutex<HashMap<IpAddr, Arc<ServerConfig>>>,
}

impl SiteTls {
    pub(crate) fn new(
        authority: &Arc<TestAuthority>,
        kind: CertificateKind,
        names: Vec<String>,
        resume: bool,
        http2: Option<Http2>,
    ) -> io::Result<SiteTls> {
        let mut base = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(fault)?
            .with_no_client_auth()
            .with_cert_resolver(authority.resolver(kind, names.clone())?);
        base.alpn_protocols = match http2 {
            None => vec![b"http/1.1".to_vec()],
            Some(Http2 { or_http1: true, .. }) => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Some(Http2 { or_http1: false, .. }) => vec![b"h2".to_vec()],
        };
        if resume {
            base.ticketer = Ticketer::new().map_err(fault)?;
        } else {
            base.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
            base.send_tls13_tickets = 0;
        }
        Ok(SiteTls { authority: Arc::clone(authority), kind, names, base, by_address: Mutex::default() })
    }

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
