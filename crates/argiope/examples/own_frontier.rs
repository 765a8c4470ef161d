//! A custom frontier that counts how often each page is linked:
//! `cargo run --example own_frontier -- https://example.com/`

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use argiope::store::{
    Commits, Counts, History, LaneId, LinkRef, NewHosts, Placement, QueuedLane, ReturnTo, Settlement, Standing,
    StoreError,
};
use argiope::{Crawl, CrawlHandle, Frontier, Link, MemoryFrontier, Page, Sink, SinkError};

/// Stores URLs in memory, and counts every offered link, including links to known URLs.
struct Counting {
    inner: MemoryFrontier,
    offers: Arc<Mutex<HashMap<String, u64>>>,
}

impl Frontier for Counting {
    fn put(
        &mut self,
        links: &[LinkRef<'_>],
        new_hosts: NewHosts,
        admit: &mut dyn FnMut(usize, Standing) -> bool,
    ) -> Result<Vec<Placement>, StoreError> {
        if let Ok(mut offers) = self.offers.lock() {
            for link in links {
                *offers.entry(link.url.as_str().to_owned()).or_default() += 1;
            }
        }
        self.inner.put(links, new_hosts, admit)
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        self.inner.take(lane, max_links)
    }

    fn settle(&mut self, batch: &mut [Settlement<'_>]) -> Result<(), StoreError> {
        self.inner.settle(batch)
    }

    fn give_back(&mut self, links: Vec<Link>, to: ReturnTo) -> Result<(), StoreError> {
        self.inner.give_back(links, to)
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        self.inner.lane_of(host)
    }

    fn lane(&self, lane: LaneId) -> Option<QueuedLane<'_>> {
        self.inner.lane(lane)
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        self.inner.lanes_with_work()
    }

    fn counts(&self) -> Counts {
        self.inner.counts()
    }
}

// This store remembers nothing after the crawl, and makes nothing durable.
impl History for Counting {}
impl Commits for Counting {}

/// Ignores the pages.
struct NoOutput;

impl Sink for NoOutput {
    fn page(&mut self, _page: Page, _crawl: &CrawlHandle) -> Result<(), SinkError> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "https://example.com/".to_owned());
    let offers = Arc::new(Mutex::new(HashMap::new()));
    let frontier = Counting { inner: MemoryFrontier::new(1), offers: Arc::clone(&offers) };
    Crawl::builder(root).run_with_store(frontier, &mut NoOutput)?;
    let offers = offers.lock().map_err(|_| "a thread died")?;
    let mut popular: Vec<(&u64, &String)> = offers.iter().map(|(url, count)| (count, url)).collect();
    popular.sort_by_key(|(count, url)| (std::cmp::Reverse(**count), (*url).clone()));
    for (count, url) in popular.iter().take(5) {
        println!("{count} {url}");
    }
    Ok(())
}
