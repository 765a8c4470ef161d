//! A crawl: its settings, what is requested next, and what comes of it.
//!
//! [`settings`] are those of the user, and [`rules`] are the same, checked and compiled. [`schedule`] decides which URL
//! is requested next, from which host, and when. A [`fetcher`] takes jobs and returns visits. [`session`] is what
//! engines drive: a connection with the jobs that it carries. A [`response`] is one that other fetchers have as a
//! whole. A [`transport`] answers requests in place of the network; [`canned`] pages are one for tests. [`fetch`] is
//! one job and its response, which becomes a [`visit`]. [`rendered`] adds what a browser found to a visit,
//! [`render_facts`] go into its record. [`record`] and [`warc`] are the formats in which visits are stored. [`hooks`]
//! are traits with which the library's user sees requests and responses. [`control`] and [`status`] are for those who
//! watch and steer a running crawl. A [`lease`] is the right of one process of a fleet to start requests. [`marks`] say
//! which responses are being processed.

#[deny(missing_docs)]
pub mod canned;
pub mod control;
pub mod fetch;
pub mod fetcher;
#[deny(missing_docs)]
pub mod hooks;
pub mod lease;
pub mod marks;
pub mod record;
pub mod render_facts;
pub mod rendered;
pub mod response;
pub mod rules;
pub mod schedule;
pub mod session;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the documentation of a setting is its help text, where brackets are no links"
)]
pub mod settings;
pub mod status;
pub mod transport;
pub mod visit;
pub mod wait;
pub mod warc;
