//! A custom frontier that counts how often each page is linked:
//! `cargo run --example own_frontier -- https://example.com/`

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use argiope::frontier::{Counts, FinalOutcome, LaneId, LinkRef, StoreError, UrlRef};
use argiope::{Crawl, CrawlHandle, Frontier, Link, LinkKind, MemoryFrontier, Page, Sink, SinkError};

/// Stores URLs in memory, and counts every offered link, including links to known URLs.
struct Counting {
    inner: MemoryFrontier,
    offers: Arc<Mutex<HashMap<String, u64>>>,
}

impl Frontier for Counting {
    fn offer(&mut self, link: LinkRef<'_>) -> Result<Option<LaneId>, StoreError> {
        if let Ok(mut offers) = self.offers.lock() {
            *offers.entry(link.url.as_str().to_owned()).or_default() += 1;
        }
        self.inner.offer(link)
    }

    fn is_known(&self, url: UrlRef<'_>, kind: LinkKind) -> Result<bool, StoreError> {
        self.inner.is_known(url, kind)
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        self.inner.take(lane, max_links)
    }

    fn settle(&mut self, link: &Link, final_outcome: FinalOutcome<'_>) -> Result<(), StoreError> {
        self.inner.settle(link, final_outcome)
    }

    fn give_back(&mut self, link: Link) -> Result<(), StoreError> {
        self.inner.give_back(link)
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        self.inner.lane_of(host)
    }

    fn lane_name(&self, lane: LaneId) -> Option<&str> {
        self.inner.lane_name(lane)
    }

    fn queued_in(&self, lane: LaneId) -> u64 {
        self.inner.queued_in(lane)
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        self.inner.lanes_with_work()
    }

    fn counts(&self) -> Counts {
        self.inner.counts()
    }
}

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
    Crawl::builder(root).run_with_frontier(frontier, &mut NoOutput)?;
    let offers = offers.lock().map_err(|_| "a thread died")?;
    let mut popular: Vec<(&u64, &String)> = offers.iter().map(|(url, count)| (count, url)).collect();
    popular.sort_by_key(|(count, url)| (std::cmp::Reverse(**count), (*url).clone()));
    for (count, url) in popular.iter().take(5) {
        println!("{count} {url}");
    }
    Ok(())
}
