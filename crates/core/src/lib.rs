//! Decisions of the Argiope web crawler: what to fetch, when, from which host, and what a response means.
//!
//! This crate does no I/O. It has no sockets, clocks, files or threads: time and bytes are arguments.

pub mod budget;
pub mod control;
pub mod http;
pub mod lease;
#[cfg(test)]
mod limits_doc;
pub mod outcome;
pub mod output;
pub mod page;
pub mod page_budget;
pub mod rules;
pub mod schedule;
pub mod status;
mod swar;
pub mod time;
pub mod visit;

pub use http::race::{Race, RaceStep};
pub use outcome::{ErrorKind, FailedPart, Failure, Outcome, TlsFault, Truncated};
pub use page::follow_list::FollowList;
pub use page::link::{FoundLink, Link, LinkKind, LinkList};
pub use page::url::{BadUrl, Origin, Url, UrlRef};
pub use schedule::frontier::{Counts, FinalOutcome, FoundEdges, Frontier, LaneId, LinkRef, Put};
pub use schedule::store_error::{Remedy, StoreError, StoreErrorKind};
pub use time::Time;
