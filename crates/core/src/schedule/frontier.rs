//! [`Frontier`]: all that is known and all that is still to do.
//!
//! A link enters by `put`, which tests and inserts in one call, so that no two callers can both find it new. It is
//! queued under its lane (its host name), leased by `take`, and leaves by exactly one `settle`. `give_back` undoes a
//! lease. Between calls, whatever they were:
//!
//! > known = queued + leased + settled
//!
//! The crawl has ended when nothing is queued and nothing is leased: a count, not a timer.
//!
//! One process owns a frontier for now; the verbs are those that a shared one can keep too.

use crate::outcome::Outcome;
use crate::page::link::{Link, LinkKind};
use crate::page::url::{Url, UrlRef};
use std::fmt;

/// A lane's number within one frontier. A lane is a host name; the frontier numbers them as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u32);

impl LaneId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A [`Link`] that borrows its texts: what is offered to a frontier, most of the time in vain.
#[derive(Clone, Copy)]
pub struct LinkRef<'a> {
    pub url: UrlRef<'a>,
    pub via: Option<&'a Url>,
    pub depth: u32,
    pub redirects: u8,
    pub tries: u8,
    pub kind: LinkKind,
}

impl<'a> From<&'a Link> for LinkRef<'a> {
    fn from(link: &'a Link) -> Self {
        let Link { url, via, depth, redirects, tries, kind } = link;
        Self { url: url.as_ref(), via: via.as_ref(), depth: *depth, redirects: *redirects, tries: *tries, kind: *kind }
    }
}

impl LinkRef<'_> {
    pub fn to_link(&self) -> Link {
        Link {
            url: self.url.to_url(),
            via: self.via.cloned(),
            depth: self.depth,
            redirects: self.redirects,
            tries: self.tries,
            kind: self.kind,
        }
    }
}

/// What a call of [`Frontier::put`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// For each link, in order: whether it was new.
    pub new: Vec<bool>,
    /// The lanes that were given work, each once, in order of their numbers.
    pub lanes: Vec<LaneId>,
}

impl Put {
    /// How many links were new.
    pub fn count(&self) -> usize {
        self.new.iter().filter(|new| **new).count()
    }
}

/// The one and final fate of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate<'a> {
    pub outcome: Outcome,
    pub status: Option<u16>,
    /// The page's record, one JSON object without the line's end. A frontier that lasts keeps it beside the fate.
    pub record: &'a [u8],
}

/// How many links are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub known: u64,
    pub queued: u64,
    pub leased: u64,
    pub settled: u64,
}

/// All that is known and all that is still to do.
pub trait Frontier {
    /// Offers one link: `Some(lane)` where it was new and is queued in that lane now, `None` where it was known.
    ///
    /// A known link costs one probe of the seen set and no allocation.
    fn offer(&mut self, link: LinkRef<'_>) -> Result<Option<LaneId>, StoreError>;

    /// Whether an address was ever offered as work of this kind.
    fn is_known(&self, url: UrlRef<'_>, kind: LinkKind) -> Result<bool, StoreError>;

    /// Leases up to `room` links of a lane, breadth first: lower depth first, then in order of arrival.
    fn take(&mut self, lane: LaneId, room: usize) -> Result<Vec<Link>, StoreError>;

    /// A leased link gets its one and final fate.
    fn settle(&mut self, link: &Link, fate: Fate<'_>) -> Result<(), StoreError>;

    /// A leased link goes back to its queue, behind those of its depth: not fetched after all, or to be tried again.
    /// What it says of itself (`tries`, say) is what it will say when it is taken again.
    fn give_back(&mut self, link: Link) -> Result<(), StoreError>;

    /// The lane of a host name, made where there is none yet.
    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError>;

    fn lane_name(&self, lane: LaneId) -> Option<&str>;

    fn queued_in(&self, lane: LaneId) -> u64;

    /// The lanes in which something is queued, in order of their numbers.
    fn lanes_with_work(&self) -> Vec<LaneId>;

    fn counts(&self) -> Counts;

    /// Keeps a note for the next run, in place of the one before: about a lane, or about the crawl itself.
    fn keep_note(&mut self, _about: Option<LaneId>, _note: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    /// The note that was kept last. There is none where nothing lasts.
    fn note(&mut self, _about: Option<LaneId>) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    /// Whether all of this was crawled before, and is asked for again.
    fn is_again(&self) -> bool {
        false
    }

    /// The record that a link had the last time.
    fn earlier(&mut self, _url: UrlRef<'_>, _kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    /// Offers many links.
    fn put(&mut self, links: Vec<Link>) -> Result<Put, StoreError> {
        let mut put = Put { new: Vec::with_capacity(links.len()), lanes: Vec::new() };
        for link in &links {
            let lane = self.offer(LinkRef::from(link))?;
            put.new.push(lane.is_some());
            put.lanes.extend(lane);
        }
        put.lanes.sort_unstable();
        put.lanes.dedup();
        Ok(put)
    }

    /// Whether nothing is left to do: the crawl has ended.
    fn is_done(&self) -> bool {
        let Counts { queued, leased, .. } = self.counts();
        queued == 0 && leased == 0
    }
}

/// What the seen set holds of a link: a keyed fingerprint of its address. A sitemap that is read as a sitemap is
/// other work than the page at the same address.
pub fn seen_key(url: UrlRef<'_>, kind: LinkKind, key: u64) -> u64 {
    const SITEMAP_FILE: u64 = 0x517E_3A9F_1E00_C0DE;
    match kind {
        LinkKind::SitemapFile => url.fingerprint(key) ^ SITEMAP_FILE,
        _ => url.fingerprint(key),
    }
}

/// What stops the crawl: the message says which file, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    pub kind: StoreErrorKind,
    pub message: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Another process holds the crawl directory.
    Locked,
    /// A file is not what was written.
    Damaged,
    /// The directory was written by a newer program, or is none.
    Format,
    /// The directory belongs to a crawl with other roots, scope or robots policy.
    OtherCrawl,
    /// No room is left, on disk or in a number.
    Full,
    /// A file could not be read or written.
    File,
    /// A call that the contract forbids: settling what is not leased.
    Misuse,
}

impl StoreError {
    pub fn new(kind: StoreErrorKind, message: impl Into<Box<str>>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sitemap_file_is_other_work_than_the_page_at_its_address() {
        let url = Url::parse("https://h.example/sitemap.xml").expect("an address");
        let page = seen_key(url.as_ref(), LinkKind::Anchor, 7);
        assert_eq!(page, seen_key(url.as_ref(), LinkKind::Root, 7));
        assert_ne!(page, seen_key(url.as_ref(), LinkKind::SitemapFile, 7));
        assert_ne!(page, seen_key(url.as_ref(), LinkKind::Anchor, 8));
    }
}
