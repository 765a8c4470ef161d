//! The HTTP server of a crawl: dashboard, JSON interface, metrics and control.
//!
//! The server runs on one thread with its own runtime, so it works with every engine. It requests a status from the
//! crawl ([`CrawlSource`]) a few times a second while a client is connected, and every few seconds otherwise. All
//! clients share the status, so the cost to the crawl does not depend on the number of clients.
//!
//! Text from crawled sites cannot execute in the page: the page only sets text, and its content security policy allows
//! only the files of this crate. The module `guard` controls access.

mod api;
mod guard;
mod hub;
mod metrics;
mod places;
mod server;

use std::net::SocketAddr;

pub use argiope_core::crawl::control::CrawlSource;
pub use metrics::render as render_metrics;
pub use server::Server;

/// Options of the server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub address: SocketAddr,
    /// If set, every client must present it. Addresses other than loopback require a token.
    pub token: Option<String>,
    /// The name of the crawl on the page.
    pub name: String,
}

/// Minimum length of a token. A shorter one could be guessed over the network.
pub const MIN_TOKEN: usize = 16;
