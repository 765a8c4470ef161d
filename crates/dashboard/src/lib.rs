//! The HTTP server of a crawl: dashboard, JSON interface, metrics and control.
//!
//! The server runs on one thread with a runtime of its own, so it works beside every engine. It takes a status from
//! the crawl ([`CrawlSource`]) a few times a second while a client is connected, once every few seconds otherwise, and shares it between all
//! clients: the cost to the crawl does not depend on the number of clients.
//!
//! Nothing that a crawled site wrote can act in the page: the page sets text only, and its content security policy
//! allows the files of this crate and nothing else. The module `guard` says who may ask.

mod api;
mod guard;
mod hub;
mod metrics;
mod server;

use std::net::SocketAddr;

pub use argiope_core::control::CrawlSource;
pub use metrics::render as render_metrics;
pub use server::Server;

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub address: SocketAddr,
    /// Required from every client where it is set. Addresses other than loopback need one.
    pub token: Option<String>,
    /// What the page calls the crawl.
    pub name: String,
}

/// The shortest token that is accepted: a short one can be guessed over the network.
pub const MIN_TOKEN: usize = 16;
