//! [`Trust`]: which certificates a TLS connection accepts, and which client certificate it presents.
//!
//! Invariant: certificates are verified unless the user explicitly disabled it. The core accesses neither files nor
//! clocks: roots are passed as bytes, and the time of day by a function.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};

use super::TlsConfig;
use super::certificate::is_for_key;
use super::sessions::SessionCache;
use super::verify::Verifier;

/// Accepted authorities and the client certificate.
#[derive(Debug, Default)]
pub struct Trust {
    /// Certificates of authorities, in DER.
    pub roots: Vec<Vec<u8>>,
    /// Certificates, in DER, that are accepted as a server's own certificate. A self-signed certificate is often marked
    /// as that of an authority, which the standard verifier refuses for a server.
    pub pinned: Vec<Vec<u8>>,
    /// Accept every certificate.
    pub insecure: bool,
    /// The client certificate that is presented.
    pub identity: Option<ClientIdentity>,
}

/// A client certificate chain with its private key.
#[derive(Clone)]
pub struct ClientIdentity(Arc<SingleCertAndKey>);

/// Which part of a client identity is invalid, and why.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientIdentityError {
    Certificate(String),
    Key(String),
}

impl ClientIdentity {
    /// Parses two PEM texts, which may be the same. The key may be PKCS #8, PKCS #1 or SEC 1.
    pub fn read(chain: &[u8], key: &[u8]) -> Result<Self, ClientIdentityError> {
        let chain = certificates(chain).map_err(ClientIdentityError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            ClientIdentityError::Key(match error {
                pem::Error::NoItemsFound => {
                    "it holds no private key in PEM (an encrypted one has to be decrypted first)".to_owned()
                }
                error => format!("it is not PEM: {error}"),
            })
        })?;
        let key = aws_lc_rs::default_provider()
            .key_provider
            .load_private_key(key)
            .map_err(|error| ClientIdentityError::Key(format!("it holds no key that can be used: {error}")))?;
        // Not `CertifiedKey::from_der`, which refuses certificates of version 1. Servers that issued them accept them.
        let is_own_key = key.public_key().zip(chain.first()).map(|(key, own)| is_for_key(own, &key));
        match is_own_key {
            Some(None) => Err(ClientIdentityError::Certificate(
                "it holds something that is not an X.509 certificate of version 3".to_owned(),
            )),
            Some(Some(false)) => Err(ClientIdentityError::Key("it is not the key of that certificate".to_owned())),
            // `None`: the kind of key does not tell its public half. The server decides.
            Some(Some(true)) | None => {
                let chain = chain.into_iter().map(CertificateDer::from).collect();
                Ok(Self(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key)))))
            }
        }
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientIdentity")
    }
}

/// Returns the time since the Unix epoch.
pub type TimeOfDay = fn() -> Duration;

/// TLS configurations with and without the client certificate. Each has its own session cache, because resuming a
/// session reveals the identity.
pub struct TlsConfigs {
    /// Without the client certificate, for all origins except those of the URLs that the user gave.
    pub anonymous: Arc<TlsConfig>,
    /// With the client certificate, for the origins of the URLs that the user gave.
    pub identified: Arc<TlsConfig>,
}

impl Trust {
    /// Builds the configurations.
    pub fn compile(self, time_of_day: TimeOfDay) -> Result<TlsConfigs, String> {
        let mut roots = RootCertStore::empty();
        if !self.insecure {
            // The system's bundle may contain certificates that cannot be parsed; they are skipped.
            roots.add_parsable_certificates(self.roots.into_iter().map(CertificateDer::from));
        }
        let roots = (!self.insecure).then_some(roots);
        let pinned: Vec<_> = self.pinned.into_iter().map(CertificateDer::from).collect();
        let anonymous = config(roots.clone(), pinned.clone(), None, time_of_day)?;
        let identified = match self.identity {
            None => Arc::clone(&anonymous),
            Some(identity) => config(roots, pinned, Some(identity), time_of_day)?,
        };
        Ok(TlsConfigs { anonymous, identified })
    }
}

/// Builds one configuration. Without roots, it accepts every certificate.
fn config(
    roots: Option<RootCertStore>,
    pinned: Vec<CertificateDer<'static>>,
    identity: Option<ClientIdentity>,
    time_of_day: TimeOfDay,
) -> Result<Arc<TlsConfig>, String> {
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let verifier = match roots {
        None => Verifier::accepting_all(&provider),
        Some(roots) => Verifier::with_roots(roots, pinned, &provider)?,
    };
    let builder = ClientConfig::builder_with_details(provider, Arc::new(TimeOfDayProvider(time_of_day)))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let client = match identity {
        None => builder.with_no_client_auth(),
        Some(ClientIdentity(certified)) => builder.with_client_cert_resolver(certified),
    };
    Ok(Arc::new(TlsConfig { client, sessions: Arc::new(SessionCache::new()) }))
}

/// The certificates of a PEM text, as DER.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).map(|one| one.map(|der| der.to_vec())).collect();
    match read {
        Ok(found) if found.is_empty() => Err("it holds no certificate in PEM".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("it is not PEM: {error}")),
    }
}

/// Like `certificates`, for authorities that the user gives. Fails if one of them is unusable. Otherwise the mistake
/// would show only later, as an unknown issuer.
pub fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found = certificates(pem)?;
    for (index, der) in found.iter().enumerate() {
        if let Err(error) = RootCertStore::empty().add(CertificateDer::from(der.as_slice())) {
            return Err(format!("certificate {} of {} in it is not valid: {error}", index + 1, found.len()));
        }
    }
    Ok(found)
}

/// [`TlsConfigs`] that are built for the first https connection: loading the system's roots takes time, which a crawl
/// of plain http sites saves.
#[derive(Clone)]
pub struct TlsSource(Arc<LazyLock<BuiltConfigs, BuildConfigs>>);

type BuiltConfigs = Result<TlsConfigs, String>;
type BuildConfigs = Box<dyn FnOnce() -> BuiltConfigs + Send>;

impl TlsSource {
    pub fn new(build: impl FnOnce() -> Result<TlsConfigs, String> + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(build))))
    }

    /// The configuration, built on first use, with or without the client certificate.
    pub fn config(&self, is_identified: bool) -> Result<&Arc<TlsConfig>, &str> {
        let configs = LazyLock::force(&self.0).as_ref().map_err(String::as_str)?;
        Ok(if is_identified { &configs.identified } else { &configs.anonymous })
    }
}

impl Default for TlsSource {
    /// A source without authorities: every https connection fails.
    fn default() -> Self {
        Self::new(|| Err("no certificate authorities were given".to_owned()))
    }
}

impl fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsSource")
    }
}

struct TimeOfDayProvider(TimeOfDay);

impl fmt::Debug for TimeOfDayProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeOfDayProvider")
    }
}

impl TimeProvider for TimeOfDayProvider {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch((self.0)()))
    }
}
