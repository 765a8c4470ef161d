//! The deciding half of Argiope: what to fetch, when, from whom, and what an answer means.
//!
//! Nothing here waits. There are no sockets, clocks, files or threads in this crate: time and bytes are arguments.

pub mod address;
pub mod budget;
pub mod chess;
pub mod conn;
pub mod cookies;
mod eight;
pub mod examine;
pub mod fetch;
pub mod follow;
pub mod found;
pub mod frontier;
pub mod job;
pub mod keeper;
pub mod lane;
#[cfg(test)]
mod limits_doc;
pub mod link;
pub mod notes;
pub mod outcome;
pub mod proxy;
pub mod race;
pub mod record;
pub mod retry;
pub mod robots;
pub mod rules;
pub mod scope;
pub mod sitemap;
pub mod time;
pub mod trap;
pub mod url;
pub mod visible;
pub mod visit;
pub mod warc;
pub mod workbench;

pub use found::Found;
pub use frontier::{Counts, Fate, Frontier, LaneId, LinkRef, Put, StoreError, StoreErrorKind};
pub use link::{FoundLink, Link, LinkKind, LinkList};
pub use outcome::{ErrorKind, Failure, Outcome, Truncated};
pub use race::{Race, RaceStep};
pub use time::Time;
pub use url::{BadUrl, Origin, Url, UrlRef};
