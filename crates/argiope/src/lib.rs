//! Argiope: a web crawler that is polite, exact and fast. This is the library's front door.
//!
//! A crawl is a stream of visits that takes links back while it runs:
//!
//! ```
//! # use argiope::{Config, Crawl};
//! # async fn run(root: String) -> Result<(), argiope::Error> {
//! let config = Config { roots: vec![root], max_pages: Some(100), ..Config::default() };
//! let mut crawl = Crawl::start(&config)?;
//! while let Some(visit) = crawl.next().await {
//!     println!("{} {} {:?}", visit.outcome, visit.link.url, visit.title);
//! }
//! println!("{} pages left", crawl.close().await?.left);
//! # Ok(())
//! # }
//! ```

pub mod aside;
mod cookies;
pub mod crawl;
pub mod directory;
pub mod exhibition;
pub mod explain;
pub mod export;
pub mod keeping;
pub mod past;
pub mod picture;
mod proxies;
pub mod report;
pub mod run_lines;
pub mod snapshot;
mod trust;
mod turns;
pub mod writing;

pub use argiope_core as core;
pub use argiope_core::rules::{Config, Rules};
pub use argiope_core::visit::Visit;
pub use argiope_core::{Link, Outcome, Url};
pub use crawl::{Crawl, Error};
pub use keeping::Summary;

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

/// The examples of the README are compiled too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
