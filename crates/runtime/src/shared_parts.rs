//! [`SharedParts`]: what the crawls of one process share besides the machine.
//!
//! Threads, name lookups, the certificates that TLS trusts, hosts and the account of memory exist once, however many
//! crawls there are. A clone is the same parts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use argiope_core::base::budget::Budget;
use argiope_core::crawl::rules::{Config, ConfigError, memory_budget};
use argiope_core::http::conn::TlsSource;
use argiope_engine::SharedThreads;

use crate::shared_hosts::SharedHosts;
use crate::trust::TrustedPem;
use crate::{machine_memory, trust};

/// What crawls share.
#[derive(Clone)]
pub struct SharedParts {
    pub threads: SharedThreads,
    pub hosts: SharedHosts,
    pub budget: Arc<Budget>,
    tls: Arc<Mutex<HashMap<TrustSettings, TlsSource>>>,
}

/// The settings on which the trusted certificates and the client certificate depend.
#[derive(Clone, PartialEq, Eq, Hash)]
struct TrustSettings {
    insecure: bool,
    ca_cert: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    pem: TrustedPem,
}

impl SharedParts {
    /// The crawls together may use this much memory; `None` for a quarter of that of the machine.
    pub fn new(max_memory: Option<u64>) -> Self {
        let budget = memory_budget(max_memory.or_else(machine_memory::default_limit));
        Self { threads: SharedThreads::default(), hosts: SharedHosts::default(), budget, tls: Arc::default() }
    }

    /// The certificates for these settings. Files that they name are read once.
    pub(crate) fn tls(&self, config: &Config, pem: &TrustedPem) -> Result<TlsSource, ConfigError> {
        let settings = TrustSettings {
            insecure: config.insecure,
            ca_cert: config.ca_cert.clone(),
            cert: config.cert.clone(),
            key: config.key.clone(),
            pem: pem.clone(),
        };
        let mut known = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = known.get(&settings) {
            return Ok(source.clone());
        }
        let source = trust::source(config, pem)?;
        known.insert(settings, source.clone());
        Ok(source)
    }
}
