//! [`Crawler`]: many crawls of one process that are polite together.

use std::fmt;

use argiope_runtime::shared_hosts::SharedHosts;

use crate::{CrawlBuilder, Seed};

/// Many crawls of one process that share what is known about hosts. A clone is the same crawler.
///
/// Crawls that are started without a crawler know nothing of each other: two crawls of one host ask it twice as often. The
/// crawls of one crawler take turns. Each host is asked by one of them at a time, which obeys the delay since the last
/// request of another one, and limits such as `per_host`; robots.txt is fetched once. A crawl keeps a host until it has no more
/// work for it, or for about a second if others wait. Crawls of different hosts do not wait for each other. The limit on
/// requests to one IP address holds for each crawl by itself if several hosts have the same address.
///
/// Each crawl ends, is closed or is dropped by itself. A crawl with a [transport](CrawlBuilder::with_transport) runs in
/// virtual time and shares no hosts.
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
#[derive(Clone, Default)]
pub struct Crawler {
    hosts: SharedHosts,
}

impl fmt::Debug for Crawler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crawler").field("running", &self.running()).finish()
    }
}

impl Crawler {
    /// A crawler without crawls.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the settings of a crawl that begins at `root` and belongs to this crawler: see
    /// [`Crawl::builder`](crate::Crawl::builder).
    pub fn crawl(&self, root: impl Into<Seed>) -> CrawlBuilder {
        CrawlBuilder::new(root.into()).sharing(&self.hosts)
    }

    /// How many of its crawls have not ended.
    pub fn running(&self) -> usize {
        self.hosts.crawls()
    }
}
