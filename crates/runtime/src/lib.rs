//! Where the parts of a crawl meet: keeper thread, writer thread, crawl directory and the files of this machine.
//!
//! This crate is plumbing for the library `argiope` and the command `argiope-cli`. Its API has no stability promise.

pub mod atomic_file;
mod cookies;
pub mod directory;
mod fair_queue;
pub mod keeper_thread;
mod proxies;
pub mod run_lines;
pub mod status;
mod tally;
mod trust;
pub mod writer_thread;

use argiope_core::rules::{Config, ConfigError, EngineName, Rules};
use argiope_core::schedule::frontier::StoreError;
use argiope_engine::EngineKind;

/// Why a crawl could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the crawl's threads could not be started: {0}")]
    Threads(#[from] std::io::Error),
}

/// Checks the settings, and makes ready what they need from this machine.
pub fn rules(config: &Config) -> Result<Rules, Error> {
    // Fingerprints must not be made to collide.
    let mut rules = config.compile(unpredictable())?;
    rules.tls = trust::source(config)?;
    rules.cookies = cookies::jar(config)?;
    rules.proxies = proxies::located(config)?;
    if rules.max_memory.is_none() {
        // A quarter of what the machine has, unless it was said.
        let machine = rustix::system::sysinfo();
        let total = u64::from(machine.mem_unit).saturating_mul(machine.totalram);
        rules.max_memory = Some(total / 4).filter(|quarter| *quarter > 0);
    }
    Ok(rules)
}

/// A number that nobody can predict.
pub fn unpredictable() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// The engine of this name.
pub fn engine_kind(name: EngineName) -> EngineKind {
    match name {
        EngineName::Tokio => EngineKind::Tokio,
        EngineName::Coroutines => EngineKind::Coroutines,
        EngineName::Callbacks => EngineKind::Callbacks,
        EngineName::Threads => EngineKind::Threads,
    }
}
