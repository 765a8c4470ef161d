//! Certificates from files: the core's [`Trust`] with what this machine believes.

use std::path::Path;
use std::time::{Duration, SystemTime};

use argiope_core::conn::{Identity, IdentityFault, TlsSource, Trust, certificates};
use argiope_core::rules::Config;

use crate::Error;

/// What TLS believes under these settings. Files that the user named are read now, so that a mistake shows before the
/// crawl starts; the system's own roots are read when the first https host comes.
pub fn source(config: &Config) -> Result<TlsSource, Error> {
    let mut trust = Trust { insecure: config.insecure, ..Trust::default() };
    if let Some(path) = &config.ca_cert {
        let pem = read(path)?;
        trust.roots = certificates(&pem).map_err(|why| fault(path, why))?;
    }
    if let (Some(cert), Some(key)) = (&config.cert, &config.key) {
        let identity = Identity::read(&read(cert)?, &read(key)?).map_err(|wrong| match wrong {
            IdentityFault::Certificate(why) => fault(cert, why),
            IdentityFault::Key(why) => fault(key, why),
        })?;
        trust.identity = Some(identity);
    }
    Ok(TlsSource::new(move || {
        if !trust.insecure {
            trust.roots.extend(system_roots());
        }
        trust.compile(time_of_day)
    }))
}

/// The system's roots, or the bundled ones where the system has none.
fn system_roots() -> Vec<Vec<u8>> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| der.to_vec()).collect()
    } else {
        found.certs.into_iter().map(|der| der.to_vec()).collect()
    }
}

fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Certificates { path: path.display().to_string(), source })
}

fn fault(path: &Path, why: String) -> Error {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    Error::Certificates { path: path.display().to_string(), source }
}
