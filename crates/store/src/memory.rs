//! [`MemoryFrontier`]: the frontier of a crawl that cannot be resumed.
//!
//! A queued link is stored as the number of the page on which it was found, and its stored form (`link_codec`).
//!
//! Invariant: a lane without queued links has no queue. A page (`via`) is stored as long as a queued link refers to it.

use crate::bytequeue::ByteQueue;
use crate::disk::Commits;
use crate::lanes::LaneNames;
use crate::link_codec::BareLink;
use crate::seen::SeenSet;
use crate::varint::{Bytes, write_varint};
use argiope_core::crawl::schedule::frontier::{
    NewHosts, Placement, QueuedLane, ReturnTo, SettledSubject, Settlement, Standing,
};
use argiope_core::{Counts, Frontier, History, LaneId, Link, LinkRef, StoreError, StoreErrorKind, Url};
use std::collections::{HashSet, VecDeque};

/// A frontier in memory.
pub struct MemoryFrontier {
    /// The key of the fingerprints, a secret of this crawl.
    key: u64,
    seen: SeenSet,
    names: LaneNames,
    /// By lane number; shorter than `names` if the last lanes never had a queue.
    queues: Vec<Option<Box<Queue>>>,
    pages: Pages,
    /// Fingerprints of the links that were taken and not settled.
    leased: HashSet<u64>,
    queued: u64,
    settled: u64,
    /// Bytes of all queued links.
    queued_bytes: usize,
    /// How many lanes have queued links.
    busy_lanes: usize,
}

/// Space for what an item contains besides the URL: number of the page, flags, redirects, tries and depth.
const MAX_HEAD: usize = 13;
/// Estimated size of a queue with one level, without its links, in bytes.
const QUEUE_BYTES: usize = 400;
/// Size of an entry of the leased links, with the overhead of the hash set.
const LEASED_BYTES: usize = 9;
/// Estimated size of a page on which queued links were found, in bytes.
const PAGE_BYTES: usize = 160;

impl MemoryFrontier {
    pub fn new(key: u64) -> Self {
        Self {
            key,
            seen: SeenSet::default(),
            names: LaneNames::default(),
            queues: Vec::new(),
            pages: Pages::default(),
            leased: HashSet::new(),
            queued: 0,
            settled: 0,
            queued_bytes: 0,
            busy_lanes: 0,
        }
    }

    /// Queues a link.
    fn push(&mut self, lane: LaneId, link: LinkRef<'_>) {
        if self.queues.len() <= lane.index() {
            self.queues.resize_with(lane.index() + 1, || None);
        }
        let page = link.via.map(|via| self.pages.hold(via));
        let queue = &mut self.queues[lane.index()];
        self.busy_lanes += usize::from(queue.is_none());
        self.queued_bytes += queue.get_or_insert_default().push(link, page);
        self.queued += 1;
    }

    /// Removes a link from `leased`; an error if it is not leased.
    fn end_lease(&mut self, link: &Link) -> Result<(), StoreError> {
        if self.leased.remove(&link.fingerprint(self.key)) {
            return Ok(());
        }
        Err(StoreError::new(StoreErrorKind::Misuse, format!("{} is not leased", link.url)))
    }
}

impl Frontier for MemoryFrontier {
    // anchor: frontier-put
    fn put(
        &mut self,
        links: &[LinkRef<'_>],
        new_hosts: NewHosts,
        admit: &mut dyn FnMut(usize, Standing) -> bool,
    ) -> Result<Vec<Placement>, StoreError> {
        let fingerprints: Vec<u64> = links.iter().map(|link| link.fingerprint(self.key)).collect();
        self.seen.prefetch(fingerprints.iter().copied());
        let mut placements = Vec::with_capacity(links.len());
        for (index, (link, fingerprint)) in links.iter().zip(fingerprints).enumerate() {
            let standing = if self.seen.contains(fingerprint) {
                Standing::Known
            } else if new_hosts == NewHosts::AreDeferred && self.names.find(link.url.host()).is_none() {
                Standing::NoRoom
            } else {
                Standing::New
            };
            if !admit(index, standing) || standing != Standing::New {
                placements.push(Placement::NotAdded);
                continue;
            }
            let lane = self.lane_of(link.url.host())?;
            self.seen.insert(fingerprint);
            self.push(lane, *link);
            placements.push(Placement::Queued(lane));
        }
        Ok(placements)
    }
    // end: frontier-put

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        let mut links = Vec::new();
        let Some(Some(queue)) = self.queues.get_mut(lane.index()) else { return Ok(links) };
        let host = self.names.name(lane).unwrap_or("");
        while links.len() < max_links {
            let Some(PoppedLink { mut link, page, bytes }) = queue.pop(host) else { break };
            link.via = page.and_then(|page| self.pages.release(page));
            self.leased.insert(link.fingerprint(self.key));
            self.queued -= 1;
            self.queued_bytes -= bytes;
            links.push(link);
        }
        if queue.len == 0 {
            self.queues[lane.index()] = None;
            self.busy_lanes -= 1;
        }
        Ok(links)
    }

    fn settle(&mut self, batch: &mut [Settlement<'_>]) -> Result<(), StoreError> {
        for settlement in batch {
            if let SettledSubject::Link(link, _) = settlement.subject {
                self.end_lease(link)?;
                self.settled += 1;
            }
        }
        Ok(())
    }

    fn give_back(&mut self, links: Vec<Link>, _to: ReturnTo) -> Result<(), StoreError> {
        for link in links {
            self.end_lease(&link)?;
            let lane = self.lane_of(link.url.host())?;
            self.push(lane, LinkRef::from(&link));
        }
        Ok(())
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        self.names.intern(host).map(|(lane, _)| lane)
    }

    fn lane(&self, lane: LaneId) -> Option<QueuedLane<'_>> {
        let queue = self.queues.get(lane.index()).and_then(Option::as_ref);
        Some(QueuedLane { name: self.names.name(lane)?, queued: queue.map_or(0, |queue| queue.len) })
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        let with_work = (0..).zip(&self.queues).filter(|(_, queue)| queue.is_some());
        with_work.map(|(number, _)| LaneId(number)).collect()
    }

    fn counts(&self) -> Counts {
        let Self { queued, settled, .. } = *self;
        Counts { known: self.seen.len(), queued, leased: self.leased.len() as u64, settled, deferred: 0 }
    }
}

impl History for MemoryFrontier {}

impl Commits for MemoryFrontier {
    fn bytes(&self) -> usize {
        let pages = (self.pages.entries.len() - self.pages.free.len()) * PAGE_BYTES;
        // Add a quarter for the unused capacity of queue segments.
        let links = self.queued_bytes / 4 * 5 + self.busy_lanes * QUEUE_BYTES;
        self.seen.bytes() + self.host_bytes() + links + pages + self.leased.capacity() * LEASED_BYTES
    }

    fn host_bytes(&self) -> usize {
        self.names.bytes() + self.queues.capacity() * size_of::<Option<Box<Queue>>>()
    }
}

/// The queue of one lane: one level per rank. The rank of a link without a priority is its depth.
#[derive(Default)]
struct Queue {
    levels: VecDeque<Level>,
    len: u64,
}

/// The queued links of one rank, in order of arrival.
struct Level {
    rank: i32,
    links: ByteQueue,
}

impl Queue {
    /// Adds a link; returns its length.
    fn push(&mut self, link: LinkRef<'_>, page: Option<u32>) -> usize {
        let rank = link.rank();
        let index = self.levels.partition_point(|level| level.rank < rank);
        if self.levels.get(index).is_none_or(|level| level.rank != rank) {
            self.levels.insert(index, Level { rank, links: ByteQueue::default() });
        }
        let request = link.request.map(|request| request.encode());
        let mut item = Vec::with_capacity(MAX_HEAD + link.url.as_str().len());
        write_varint(page.map_or(0, |page| u64::from(page) + 1), &mut item);
        BareLink::new(link, request.as_deref()).encode(&mut item);
        self.levels[index].links.push(&item);
        self.len += 1;
        item.len()
    }

    /// Removes the first link of the lowest rank. Never `None` before the queue is empty, because only `push` writes here.
    fn pop(&mut self, host: &str) -> Option<PoppedLink> {
        let level = self.levels.front_mut()?;
        let popped = level.links.front().and_then(|item| PoppedLink::decode(item, host));
        level.links.advance();
        if level.links.is_empty() {
            self.levels.pop_front();
        }
        self.len -= 1;
        popped
    }
}

/// A link that was removed from its queue.
struct PoppedLink {
    link: Link,
    /// The number of its page.
    page: Option<u32>,
    /// The length of its item.
    bytes: usize,
}

impl PoppedLink {
    /// Decodes an item that [`Queue::push`] encoded.
    fn decode(item: &[u8], host: &str) -> Option<Self> {
        let mut bytes = Bytes(item);
        // Pages are counted from one. Zero stands for none.
        let page = bytes.varint()?.checked_sub(1).and_then(|page| u32::try_from(page).ok());
        Some(Self { link: BareLink::decode(bytes)?.to_link(host, None)?, page, bytes: item.len() })
    }
}

/// The pages on which queued links were found, each stored once for all of its links.
#[derive(Default)]
struct Pages {
    /// The pages by number, each with the number of queued links that refer to it.
    entries: Vec<Option<(Url, u32)>>,
    /// Unused indexes of `entries`.
    free: Vec<u32>,
    /// The page that was added last.
    latest: Option<u32>,
}

impl Pages {
    /// Adds a reference to a page; returns its number. Links of a page arrive together, so only the latest page is
    /// checked for equality.
    fn hold(&mut self, page: &Url) -> u32 {
        if let Some(latest) = self.latest
            && let Some(Some((url, count))) = self.entries.get_mut(latest as usize)
            && url == page
        {
            *count += 1;
            return latest;
        }
        let entry = Some((page.clone(), 1));
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.latest = Some(number);
        number
    }

    /// Removes a reference; returns the URL of the page.
    fn release(&mut self, number: u32) -> Option<Url> {
        let entry = self.entries.get_mut(number as usize)?;
        let (url, count) = entry.as_mut()?;
        *count -= 1;
        if *count > 0 {
            return Some(url.clone());
        }
        self.free.push(number);
        entry.take().map(|(url, _)| url)
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::crawl::schedule::frontier::put_all;

    use super::*;

    #[test]
    fn memory_use_follows_the_queued_links() {
        let mut frontier = MemoryFrontier::new(7);
        let empty = frontier.bytes();
        let links = (0..1_000).map(|number| {
            let url = Url::parse(&format!("http://h{number}.example/a/rather/long/path")).expect("a URL");
            Link::root(url, 0)
        });
        put_all(&mut frontier, &links.collect::<Vec<Link>>()).expect("a frontier in memory does not fail");
        let full = frontier.bytes();
        assert!((400_000..1_000_000).contains(&(full - empty)), "{full} after {empty}");
        for lane in frontier.lanes_with_work() {
            assert_eq!(frontier.take(lane, 10).expect("a frontier in memory does not fail").len(), 1);
        }
        assert_eq!((frontier.queued_bytes, frontier.busy_lanes), (0, 0));
        assert!(frontier.bytes() < full / 2, "{} after {full}", frontier.bytes());
    }
}
