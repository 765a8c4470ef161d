//! Connects the parts of a crawl: keeper thread, writer thread, crawl directory and the machine's files.
//!
//! The library `argiope` and the command `argiope-cli` are built on this crate. Its API is not stable.

pub mod atomic_file;
pub mod changed_roots;
pub mod content_reader;
mod cookies;
pub mod directory;
mod disk_limit;
mod error;
mod fair_queue;
pub mod fetchers;
mod keeper_message;
pub mod keeper_thread;
mod machine_memory;
mod pick_filter;
mod proxies;
mod random;
mod rejudge;
pub mod run_lines;
pub mod shared_hosts;
pub mod shared_parts;
pub mod status;
mod trust;
pub mod writer_thread;

use std::sync::Arc;

use argiope_core::crawl::rules::{Config, ConfigError, EngineName, Environment, ProgramSettings, Rules};
use argiope_engine::EngineKind;

pub use argiope_engine::SharedThreads;
pub use argiope_store::{Commits, Store};
pub use error::Error;
pub use random::unpredictable;
pub use shared_parts::SharedParts;
pub use trust::TrustedPem;

/// Compiles the settings of the user and of the program. Reads what they need from the machine: files, environment
/// variables and memory size.
pub fn rules(config: &Config, program: ProgramSettings) -> Result<Rules, ConfigError> {
    rules_with(config, program, &TrustedPem::default(), None)
}

/// Like [`rules`], with certificates from memory, and for a crawl that may share parts with others.
pub fn rules_with(
    config: &Config,
    mut program: ProgramSettings,
    pem: &TrustedPem,
    shared: Option<&SharedParts>,
) -> Result<Rules, ConfigError> {
    program.link_filter = pick_filter::PickFilter::before(config, program.link_filter)?;
    let reader = content_reader::ContentReader::of(config)?;
    let environment = Environment {
        // Unpredictable, so that a site cannot construct URLs whose fingerprints collide.
        fingerprint_key: unpredictable(),
        tls: shared.map_or_else(|| trust::source(config, pem), |shared| shared.tls(config, pem))?,
        has_identity: pem.identity.is_some(),
        cookies: cookies::initial(config)?,
        proxies: Some(proxies::load(config)?),
        max_memory: machine_memory::default_limit(),
        shared_budget: shared.map(|shared| Arc::clone(&shared.budget)),
        reader: reader.map(|reader| Arc::new(reader) as _),
    };
    config.compile_in(environment, program)
}

/// The engine of this name.
pub fn engine_kind(name: EngineName) -> EngineKind {
    match name {
        EngineName::Tokio => EngineKind::Tokio,
        EngineName::Coroutines => EngineKind::Coroutines,
        EngineName::Callbacks => EngineKind::Callbacks,
        EngineName::Threads => EngineKind::Threads,
        EngineName::Uring => EngineKind::Uring,
    }
}
