//! Decisions of the Argiope web crawler: what to fetch, when, from which host, and what a response means.
//!
//! This crate does no I/O. It has no sockets, clocks, files or threads: time and bytes are arguments.

pub mod base;
pub mod control;
pub mod http;
pub mod lease;
#[cfg(test)]
mod limits_doc;
pub mod output;
pub mod page;
pub mod page_budget;
pub mod rules;
pub mod schedule;
pub mod status;
pub mod visit;

pub use base::job::LaneId;
pub use base::link::{Link, LinkKind, LinkRef};
pub use base::link_list::{FoundLink, LinkList};
pub use base::outcome::{ErrorKind, FailedPart, Failure, Outcome, TlsFault, Truncated};
pub use base::time::Time;
pub use base::url::{BadUrl, Origin, Url, UrlRef};
pub use http::race::{Race, RaceStep};
pub use page::follow_list::FollowList;
pub use schedule::frontier::{Counts, FinalOutcome, FoundEdges, Frontier, Put};
pub use schedule::store_error::{Remedy, StoreError, StoreErrorKind};
