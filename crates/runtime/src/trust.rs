//! Trusted certificates: fills the core's [`Trust`] with the certificates of this machine.

use std::path::Path;
use std::time::{Duration, SystemTime};

use argiope_core::crawl::rules::{Config, ConfigError};
use argiope_core::http::conn::{ClientIdentity, ClientIdentityError, TlsSource, Trust, authorities};

/// Certificates from memory, in PEM.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct TrustedPem {
    /// Authorities that are trusted besides those of the system.
    pub authorities: Vec<u8>,
    /// The client certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// The trusted certificates for these settings, and those from memory. Files named by the user are read now, so that a mistake is reported
/// before the crawl starts. The root certificates of the system are read when the first https host needs them.
pub(crate) fn source(config: &Config, pem: &TrustedPem) -> Result<TlsSource, ConfigError> {
    let mut trust = Trust { insecure: config.insecure, ..Trust::default() };
    if let Some(path) = &config.ca_cert {
        trust.pinned = authorities(&read("ca-cert", path)?).map_err(|why| config_error("ca-cert", path, why))?;
        trust.roots.clone_from(&trust.pinned);
    }
    if let (Some(cert), Some(key)) = (&config.cert, &config.key) {
        let identity = ClientIdentity::read(&read("cert", cert)?, &read("key", key)?).map_err(|wrong| match wrong {
            ClientIdentityError::Certificate(why) => config_error("cert", cert, why),
            ClientIdentityError::Key(why) => config_error("key", key, why),
        })?;
        trust.identity = Some(identity);
    }
    let pem_error = |key, problem| ConfigError { key, value: "PEM".to_owned(), problem };
    if !pem.authorities.is_empty() {
        let more = authorities(&pem.authorities).map_err(|why| pem_error("ca-cert", why))?;
        trust.pinned.extend(more.iter().cloned());
        trust.roots.extend(more);
    }
    if let Some((cert, key)) = &pem.identity {
        let identity = ClientIdentity::read(cert, key).map_err(|wrong| match wrong {
            ClientIdentityError::Certificate(why) => pem_error("cert", why),
            ClientIdentityError::Key(why) => pem_error("key", why),
        })?;
        trust.identity = Some(identity);
    }
    Ok(TlsSource::new(move || {
        if !trust.insecure {
            trust.roots.extend(system_roots());
        }
        trust.compile(unix_time)
    }))
}

/// The root certificates of the system, or the bundled ones if it has none.
fn system_roots() -> Vec<Vec<u8>> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| der.to_vec()).collect()
    } else {
        found.certs.into_iter().map(|der| der.to_vec()).collect()
    }
}

/// The time since the Unix epoch.
fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| config_error(key, path, error.to_string()))
}

fn config_error(key: &'static str, path: &Path, problem: String) -> ConfigError {
    ConfigError { key, value: path.display().to_string(), problem }
}
