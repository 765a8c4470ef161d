//! Browser processes: found, started, watched, ended. [`BrowserFetcher`] continues the pages of a crawl in one.
//!
//! The state of the browser and of its pages is in `argiope_core::render`. This crate moves bytes between that state and
//! a process, and requests of pages to the keeper, where they become jobs like all others.
//!
//! Invariants:
//!
//! - The browser has no network: it gets a network namespace without interfaces where the system allows it, and a proxy
//!   that does not exist everywhere.
//! - No process is left: all processes of a browser form one process group and, where the system allows it, one process
//!   namespace. Both end with the crawl. What a killed crawl leaves nevertheless is ended by the next start
//!   (`lock`).

mod cache;
mod fetcher;
mod launch;
mod lock;
mod shared;
mod suspects;
mod worker;

pub use fetcher::BrowserFetcher;
pub use launch::{BrowserError, BrowserProgram};
