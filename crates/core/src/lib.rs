//! Decisions of the Argiope web crawler: what to fetch, when, from which host, and what a response means.
//!
//! This crate does no I/O. It has no sockets, clocks, files or threads: time and bytes are arguments.
//!
//! It has five layers. Each uses only those before it: [`base`] (URLs, links, jobs, outcomes, time, memory), [`http`]
//! (a request in; head, body and end out), [`page`] (bytes in, findings out), [`render`] (a browser without a network and
//! without a clock) and [`crawl`] (what to request, and what comes of it).

pub mod base;
pub mod crawl;
pub mod http;
#[cfg(test)]
mod limits_doc;
pub mod page;
pub mod render;

pub use base::job::LaneId;
pub use base::link::{Link, LinkKind, LinkRef};
pub use base::link_list::{FoundLink, LinkList};
pub use base::outcome::{Advice, ErrorKind, FailedPart, Failure, Outcome, TlsFault, Truncated};
pub use base::time::Time;
pub use base::url::{BadUrl, Origin, Url, UrlRef};
pub use crawl::schedule::frontier::{Counts, FinalOutcome, FoundEdges, Frontier, History};
pub use crawl::schedule::store_error::{Remedy, StoreError, StoreErrorKind};
pub use http::race::{Race, RaceStep};
pub use page::follow_list::FollowList;
