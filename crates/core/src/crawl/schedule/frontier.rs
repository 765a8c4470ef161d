//! [`Frontier`]: the set of known URLs and the queues of those that are not fetched yet.
//!
//! A link enters with `offer` or `put`. The test whether it is known and the insertion are one step, so a link that is
//! offered twice is queued only once. It is queued in its lane (its host name), leased with `take`, and leaves with
//! exactly one `settle`. `give_back` and `put_back` undo a lease. Between calls this holds, except in a shared frontier,
//! whose counts may be out of date:
//!
//! > known = queued + leased + settled
//!
//! The crawl has ended when nothing is queued and nothing is leased. This is a count; no timer is involved.
//!
//! A frontier belongs to one process, or the processes of a fleet share it. A shared frontier reports what the other
//! processes changed as [`FrontierNews`].

use crate::base::job::LaneId;
use crate::base::link::{Link, LinkKind, LinkRef};
use crate::base::link_list::LinkList;
use crate::base::outcome::Outcome;
use crate::base::url::{Url, UrlRef};
use crate::crawl::warc::ArchiveChunk;
use crate::crawl::warc::WarcLocation;
use std::fmt;
use std::sync::Arc;

pub use crate::crawl::schedule::store_error::{StoreError, StoreErrorKind};

/// The result of [`Frontier::put`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// For each link, in order: whether it was new.
    pub new: Vec<bool>,
    /// The lanes that got work, sorted and distinct.
    pub lanes: Vec<LaneId>,
}

impl Put {
    /// How many links were new.
    pub fn count(&self) -> usize {
        self.new.iter().filter(|new| **new).count()
    }
}

/// The final result of a link, with which it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalOutcome<'a> {
    /// The outcome of the link.
    pub outcome: Outcome,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The page's record: one JSON object without the line feed. A durable frontier stores it.
    pub record: &'a [u8],
    /// Whether `--max-pages` counts it.
    pub is_fetched_page: bool,
}

/// The links of a page or of a sitemap, for the link graph.
#[derive(Clone, Copy, Debug)]
pub struct FoundEdges<'a> {
    /// The URL of the page or sitemap.
    pub source: &'a Url,
    /// Whether the source is a sitemap, which is distinct from a page at the same URL.
    pub is_sitemap: bool,
    /// Its links.
    pub links: &'a LinkList,
    /// How many links were dropped because of a limit.
    pub cut: u32,
}

/// Number of links in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All links that were ever offered.
    pub known: u64,
    /// Links that wait to be taken, including deferred ones.
    pub queued: u64,
    /// Links that were taken, and neither settled nor given back.
    pub leased: u64,
    /// Links that have their outcome.
    pub settled: u64,
}

/// Something that happened in a frontier outside the calls of [`Frontier`]: work became available, or another process
/// or a shared limit changed what this process may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrontierNews {
    /// A lane was given work.
    Work(LaneId),
    /// A lane was given work for the first time. The note about its host has what earlier owners of the host knew.
    TakenOver(LaneId),
    /// Another process will take over this lane: start no new requests, and return the links that are not in flight.
    /// [`Frontier::left`] is the answer.
    Leaving(LaneId),
    /// The limit on pages is reached.
    MaxPages,
    /// The limit on bytes is reached.
    MaxBytes,
    /// With `true`: start no request, because this process has received as many bytes as its share of the limit allows.
    /// `false` ends the hold.
    Hold(bool),
    /// This process's share of the limit on pages a second.
    Rate(f64),
    /// This process's share of the limit on requests in flight to one IP address.
    PerIp(usize),
}

/// Wakes the crawl, so that it calls [`Frontier::news`].
#[derive(Clone)]
pub struct FrontierWaker(Arc<dyn Fn() + Send + Sync>);

impl FrontierWaker {
    /// A waker that calls `wake`, from any thread.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Makes the crawl call [`Frontier::news`] soon. May be called from any thread, even after the crawl has ended.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for FrontierWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrontierWaker")
    }
}

/// The set of known URLs and the queues of those that are not fetched yet.
///
/// Links come and go in batches: [`Frontier::put`] adds many, [`Frontier::take`] leases many. No call should wait for a
/// disk or a network, because the crawl has one scheduling thread. A frontier that has to wait completes the call on a
/// thread of its own. Meanwhile `put` may report a known link as new, and `take` returns no links. When work becomes
/// available, the frontier calls [`FrontierWaker::wake`] and reports the work as [`FrontierNews`]. Until then
/// [`Frontier::counts`] includes the links that are being added, so that the crawl does not end.
pub trait Frontier {
    /// Called once when the crawl starts. The frontier calls the waker whenever there is news.
    fn set_waker(&mut self, _waker: FrontierWaker) {}

    /// Adds one link: `Some(lane)` if it was new and is now queued in that lane, `None` if it was known.
    ///
    /// For a known link, an implementation should need one probe of the set of known URLs and no allocation.
    fn offer(&mut self, link: LinkRef<'_>) -> Result<Option<LaneId>, StoreError>;

    /// Announces links that are offered next. In a large set of known URLs, each probe is a cache miss. A frontier can
    /// overlap these misses.
    fn prefetch(&self, _links: &mut dyn Iterator<Item = LinkRef<'_>>) {}

    /// Whether a link with this URL was ever added. A sitemap file and a page at the same URL are different links.
    fn is_known(&self, url: UrlRef<'_>, kind: LinkKind) -> Result<bool, StoreError>;

    /// Leases up to `max_links` links of a lane in the order of [`LinkRef::rank`], and links of equal rank in order of
    /// arrival. Without priorities, this order is breadth first.
    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError>;

    /// Settles a leased link with its final result.
    fn settle(&mut self, link: &Link, final_outcome: FinalOutcome<'_>) -> Result<(), StoreError>;

    /// Returns a leased link to its queue, behind the others of its rank. Its fields, such as `tries`, are kept as
    /// given.
    fn give_back(&mut self, link: Link) -> Result<(), StoreError>;

    /// Records that the request of a leased link is about to be sent, and must not be sent twice. A durable frontier
    /// stores this. If the run ends before the link is settled, a later run takes the link with [`ALREADY_SENT`] tries.
    fn mark_sent(&mut self, _link: &Link) -> Result<(), StoreError> {
        Ok(())
    }

    /// Called when an attempt has failed and the link will be tried again. `link.tries` counts the attempts so far, and
    /// `bytes` are those that this one received; no record has them. A frontier that is shared stores the tries.
    fn attempt_failed(&mut self, _link: &Link, _bytes: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// After [`FrontierNews::Leaving`]: no request to the lane is in flight any more.
    fn left(&mut self, _lane: LaneId) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns a leased link for which no request was sent. If possible, the link gets its old place in its queue, and
    /// nothing is written, because a durable frontier does not store leases. The default is [`Frontier::give_back`].
    fn put_back(&mut self, link: Link) -> Result<(), StoreError> {
        self.give_back(link)
    }

    /// The lane of a host name; created if there is none.
    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError>;

    /// The host name of a lane.
    fn lane_name(&self, lane: LaneId) -> Option<&str>;

    /// Whether a host name has a lane. A frontier that cannot determine this returns true.
    fn has_lane(&self, _host: &str) -> bool {
        true
    }

    /// Whether the frontier can hold links to hosts without a lane ([`Frontier::defer`]).
    fn can_defer(&self) -> bool {
        false
    }

    /// Adds a link to a host that has no lane, without creating one. Returns whether it was new. The link is known and
    /// queued, but cannot be taken until [`Frontier::admit_deferred`] moves it to a lane.
    fn defer(&mut self, _link: LinkRef<'_>) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Number of deferred links.
    fn deferred(&self) -> u64 {
        0
    }

    /// Moves up to `max_links` deferred links to the lanes of their hosts, in the order of [`Frontier::take`]. Returns
    /// these lanes, sorted and distinct.
    fn admit_deferred(&mut self, _max_links: usize) -> Result<Vec<LaneId>, StoreError> {
        Ok(Vec::new())
    }

    /// How many links of a lane are queued.
    fn queued_in(&self, lane: LaneId) -> u64;

    /// The lanes with queued links, sorted.
    fn lanes_with_work(&self) -> Vec<LaneId>;

    /// The number of links in each state.
    fn counts(&self) -> Counts;

    /// Stores a note for the next run, about a lane or about the crawl itself. It replaces the previous one.
    fn keep_note(&mut self, _about: Option<LaneId>, _note: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    /// The note stored last; `None` if there is none, or if the frontier is not durable.
    fn note(&mut self, _about: Option<LaneId>) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    /// Whether this is a recrawl of a finished crawl.
    fn is_recrawl(&self) -> bool {
        false
    }

    /// In a recrawl: the record of a link from the previous round.
    fn earlier(&mut self, _url: UrlRef<'_>, _kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    /// Stores the links of a page in the link graph. They replace the page's earlier links.
    fn keep_edges(&mut self, _edges: &FoundEdges<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Called with the archived exchange of a visit before its record is stored. A frontier that stores records and
    /// archive together takes the bytes out of the chunk.
    fn keep_archive(&mut self, _place: &WarcLocation, _chunk: &mut ArchiveChunk) {}

    /// What has happened since the last call. Only a frontier that is shared, or that completes calls on a thread of its
    /// own, has any news.
    fn news(&mut self) -> Result<Vec<FrontierNews>, StoreError> {
        Ok(Vec::new())
    }

    /// Adds many links.
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

    /// Whether no link is queued or leased: the crawl has ended.
    fn is_done(&self) -> bool {
        let Counts { queued, leased, .. } = self.counts();
        queued == 0 && leased == 0
    }
}
