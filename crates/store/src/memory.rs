//! [`MemoryFrontier`]: the frontier of a crawl that cannot be resumed.
//!
//! A queued link is stored as a header of a few bytes and the part of its URL after the host name. The header contains
//! scheme and kind, redirects, tries, and the number of the page on which the link was found. A request that is not a
//! plain GET is stored after them.
//!
//! Invariant: a lane without queued links has no queue. A page (`via`) is stored as long as a queued link refers to it.

use crate::bytequeue::ByteQueue;
use crate::lanes::LaneNames;
use crate::seen::SeenSet;
use argiope_core::page::custom_request::CustomRequest;
use argiope_core::schedule::frontier::link_fingerprint;
use argiope_core::{
    Counts, FinalOutcome, Frontier, LaneId, Link, LinkKind, LinkRef, StoreError, StoreErrorKind, Url, UrlRef,
};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

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

    /// Approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        let pages = (self.pages.entries.len() - self.pages.free.len()) * PAGE_BYTES;
        // Add a quarter for the unused capacity of queue segments.
        let links = self.queued_bytes / 4 * 5 + self.busy_lanes * QUEUE_BYTES;
        self.seen.bytes() + self.host_bytes() + links + pages + self.leased.capacity() * LEASED_BYTES
    }

    /// The part of [`Self::bytes`] that grows with the number of hosts.
    pub fn host_bytes(&self) -> usize {
        self.names.bytes() + self.queues.capacity() * size_of::<Option<Box<Queue>>>()
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
    // anchor: frontier-offer
    fn offer(&mut self, link: LinkRef<'_>) -> Result<Option<LaneId>, StoreError> {
        if !self.seen.insert(link.fingerprint(self.key)) {
            return Ok(None);
        }
        let lane = self.lane_of(link.url.host())?;
        self.push(lane, link);
        Ok(Some(lane))
    }
    // end: frontier-offer

    fn prefetch(&self, links: &mut dyn Iterator<Item = LinkRef<'_>>) {
        self.seen.prefetch(links.map(|link| link.fingerprint(self.key)));
    }

    fn is_known(&self, url: UrlRef<'_>, kind: LinkKind) -> Result<bool, StoreError> {
        Ok(self.seen.contains(link_fingerprint(url, kind, self.key)))
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        let mut links = Vec::new();
        let Some(Some(queue)) = self.queues.get_mut(lane.index()) else { return Ok(links) };
        let host = self.names.name(lane).unwrap_or("");
        while links.len() < max_links {
            let Some((mut link, page)) = queue.pop(host) else { break };
            link.via = page.and_then(|page| self.pages.release(page));
            self.leased.insert(link.fingerprint(self.key));
            self.queued -= 1;
            let request = link.request.as_ref().map_or(0, |request| REQUEST_HEAD + request.encode().len());
            // `saturating_sub`, because encoding user data with fractions again may give another length.
            let bytes = HEAD + after_host(link.url.as_ref()).len() + request;
            self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
            links.push(link);
        }
        if queue.len == 0 {
            self.queues[lane.index()] = None;
            self.busy_lanes -= 1;
        }
        Ok(links)
    }

    fn settle(&mut self, link: &Link, _final_outcome: FinalOutcome<'_>) -> Result<(), StoreError> {
        self.end_lease(link)?;
        self.settled += 1;
        Ok(())
    }

    fn give_back(&mut self, link: Link) -> Result<(), StoreError> {
        self.end_lease(&link)?;
        let lane = self.lane_of(link.url.host())?;
        self.push(lane, LinkRef::from(&link));
        Ok(())
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        self.names.intern(host).map(|(lane, _)| lane)
    }

    fn lane_name(&self, lane: LaneId) -> Option<&str> {
        self.names.name(lane)
    }

    fn has_lane(&self, host: &str) -> bool {
        self.names.find(host).is_some()
    }

    fn queued_in(&self, lane: LaneId) -> u64 {
        self.queues.get(lane.index()).and_then(Option::as_ref).map_or(0, |queue| queue.len)
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        let with_work = (0..).zip(&self.queues).filter(|(_, queue)| queue.is_some());
        with_work.map(|(number, _)| LaneId(number)).collect()
    }

    fn counts(&self) -> Counts {
        let Self { queued, settled, .. } = *self;
        Counts { known: self.seen.len(), queued, leased: self.leased.len() as u64, settled }
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
        let rest = after_host(link.url);
        let mut item = Vec::with_capacity(HEAD + rest.len());
        let has_request = if link.request.is_some() { HAS_REQUEST } else { 0 };
        let flags = link.kind as u8 | has_request | if link.url.is_https() { HTTPS } else { 0 };
        item.extend([flags, link.redirects, link.tries]);
        item.extend(page.unwrap_or(NO_PAGE).to_le_bytes());
        item.extend((rest.len() as u16).to_le_bytes());
        item.extend(rest.as_bytes());
        if let Some(request) = link.request {
            let encoded = request.encode();
            item.extend(link.depth.to_le_bytes());
            item.extend((encoded.len() as u32).to_le_bytes());
            item.extend(encoded);
        }
        self.levels[index].links.push(&item);
        self.len += 1;
        item.len()
    }

    /// Removes the first link of the lowest rank. Returns it with the number of its page.
    fn pop(&mut self, host: &str) -> Option<(Link, Option<u32>)> {
        let level = self.levels.front_mut()?;
        let popped = level.pop(host);
        if level.links.is_empty() {
            self.levels.pop_front();
        }
        self.len -= 1;
        popped
    }
}

/// Length of the header of a queued link: flags (kind, [`HAS_REQUEST`], [`HTTPS`]), redirects, tries, page number,
/// length of the rest of the URL.
const HEAD: usize = 9;
/// The page number of a link that was not found on a page.
const NO_PAGE: u32 = u32::MAX;
/// Flag in the first byte: the scheme is https.
const HTTPS: u8 = 0x80;
/// Length of the header of a request: depth and length.
const REQUEST_HEAD: usize = 8;
/// Flag in the first byte: depth and request follow the URL.
const HAS_REQUEST: u8 = 0x40;

impl Level {
    /// Removes the first link and returns it with the number of its page. Never `None`, because only `push` writes
    /// here.
    fn pop(&mut self, host: &str) -> Option<(Link, Option<u32>)> {
        let (head, rest) = self.links.front().split_at_checked(HEAD)?;
        let &[flags, redirects, tries, p0, p1, p2, p3, l0, l1] = head else { return None };
        let (page, len) = (u32::from_le_bytes([p0, p1, p2, p3]), usize::from(u16::from_le_bytes([l0, l1])));
        let scheme = if flags & HTTPS == 0 { "http://" } else { "https://" };
        let text = [scheme, host, std::str::from_utf8(rest.get(..len)?).ok()?].concat();
        let mut link = Link {
            url: UrlRef::from_normal(&text)?.to_url(),
            via: None,
            depth: u32::try_from(self.rank).unwrap_or(0),
            redirects,
            tries,
            kind: LinkKind::from_number(flags & !(HTTPS | HAS_REQUEST))?,
            request: None,
        };
        let mut length = HEAD + len;
        if flags & HAS_REQUEST != 0 {
            let (&[d0, d1, d2, d3, l0, l1, l2, l3], rest) = rest.get(len..)?.split_first_chunk::<REQUEST_HEAD>()?;
            let encoded = rest.get(..u32::from_le_bytes([l0, l1, l2, l3]) as usize)?;
            link.depth = u32::from_le_bytes([d0, d1, d2, d3]);
            link.request = Some(Arc::new(CustomRequest::decode(encoded)?));
            length += REQUEST_HEAD + encoded.len();
        }
        self.links.advance(length);
        Some((link, (page != NO_PAGE).then_some(page)))
    }
}

/// The part of a URL that its lane does not determine: port, path and query.
pub(crate) fn after_host(url: UrlRef<'_>) -> &str {
    let scheme = if url.is_https() { "https://".len() } else { "http://".len() };
    url.as_str().get(scheme + url.host().len()..).unwrap_or("/")
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
    use super::*;

    #[test]
    fn memory_use_follows_the_queued_links() {
        let mut frontier = MemoryFrontier::new(7);
        let empty = frontier.bytes();
        let links = (0..1_000).map(|number| {
            let url = Url::parse(&format!("http://h{number}.example/a/rather/long/path")).expect("a URL");
            Link::root(url, 0)
        });
        frontier.put(links.collect()).expect("a frontier in memory does not fail");
        let full = frontier.bytes();
        assert!((400_000..1_000_000).contains(&(full - empty)), "{full} after {empty}");
        for lane in frontier.lanes_with_work() {
            assert_eq!(frontier.take(lane, 10).expect("a frontier in memory does not fail").len(), 1);
        }
        assert_eq!((frontier.queued_bytes, frontier.busy_lanes), (0, 0));
        assert!(frontier.bytes() < full / 2, "{} after {full}", frontier.bytes());
    }
}
