//! Argiope: a polite, exact and fast web crawler. This is the library.
//!
//! A crawl is a stream of visits to which links can be added while it runs:
//!
//! ```
//! # use argiope::{Config, Crawl};
//! # async fn run(root: String) -> Result<(), argiope::Error> {
//! let config = Config { roots: vec![root], max_pages: Some(100), ..Config::default() };
//! let mut crawl = Crawl::start(&config)?;
//! while let Some(visit) = crawl.next().await {
//!     println!("{} {} {:?}", visit.facts.outcome, visit.link.url, visit.findings.title);
//! }
//! println!("{} pages left", crawl.close().await?.left);
//! # Ok(())
//! # }
//! ```

mod crawl;

pub use argiope_core as core;
pub use argiope_core::rules::{Config, Rules};
pub use argiope_core::visit::Visit;
pub use argiope_core::{Link, Outcome, Url};
pub use argiope_runtime::Error;
pub use argiope_runtime::keeper_thread::Summary;
pub use crawl::Crawl;

/// The examples of the README are compiled too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
