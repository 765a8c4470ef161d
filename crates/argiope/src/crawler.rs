//! [`Crawler`]: many crawls of one process that share threads, memory and hosts.

use std::fmt;

use argiope_runtime::SharedParts;

use crate::{CrawlBuilder, Seed};

/// Many crawls of one process that share their means. A clone is the same crawler.
///
/// Crawls of one crawler share:
///
/// - Threads: one for each core, one that looks names up, and one that starts crawls. A crawl has no thread of its own, and
///   its work runs on one core. So a process can have thousands of them, and a single large crawl is better started
///   [without a crawler](crate::Crawl::builder).
/// - Memory: the account of all crawls together is a quarter of the machine's memory, or
///   [`with_max_memory`](Self::with_max_memory). When it is used up, reading from sockets pauses.
/// - The certificates that TLS trusts, name servers, and the answers of these.
/// - Hosts. Each host is asked by one crawl at a time, which obeys the delay since the last request of another one, and
///   limits such as `per_host`; robots.txt is fetched once. A crawl keeps a host until it has no more work for it, or for
///   about a second if others wait. Crawls of different hosts do not wait for each other. The limit on requests to one IP
///   address holds for each crawl by itself if several hosts have the same address.
///
/// Some crawls need threads of their own: one with a [directory](CrawlBuilder::directory) has three, because it waits for
/// the disk; so do crawls that [render](CrawlBuilder::render) pages, have a [store](CrawlBuilder::run_with_store) of your
/// own, or another engine than `tokio`. Closures such as [`on_request`](CrawlBuilder::on_request) run on threads of all
/// crawls, so one that blocks delays them all.
///
/// Each crawl ends, is closed or is dropped by itself. A crawl with a [transport](CrawlBuilder::with_transport) runs in
/// virtual time, on threads of its own, and shares no hosts.
///
/// ```
/// # async fn run(roots: Vec<String>) -> Result<(), argiope::Error> {
/// use argiope::Crawler;
///
/// let crawler = Crawler::new();
/// let mut crawls = Vec::new();
/// for root in roots {
///     crawls.push(crawler.crawl(root).max_pages(20).start().await?);
/// }
/// for mut crawl in crawls {
///     while let Some(page) = crawl.next().await {
///         println!("{}", page.url());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Crawler {
    shared: SharedParts,
}

impl Default for Crawler {
    fn default() -> Self {
        Self { shared: SharedParts::new(None) }
    }
}

impl fmt::Debug for Crawler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crawler").field("running", &self.running()).finish()
    }
}

impl Crawler {
    /// A crawler without crawls.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A crawler whose crawls use at most this much memory together. [`CrawlBuilder::max_memory`] also limits one of
    /// them.
    #[must_use]
    pub fn with_max_memory(bytes: u64) -> Self {
        Self { shared: SharedParts::new(Some(bytes)) }
    }

    /// Returns the settings of a crawl that begins at `root` and belongs to this crawler: see
    /// [`Crawl::builder`](crate::Crawl::builder).
    pub fn crawl(&self, root: impl Into<Seed>) -> CrawlBuilder {
        CrawlBuilder::new(root.into()).sharing(&self.shared)
    }

    /// How many of its crawls have not ended.
    pub fn running(&self) -> usize {
        self.shared.hosts.crawls()
    }
}
