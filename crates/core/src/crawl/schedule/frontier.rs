//! The seam between the crawl and its stores: [`Frontier`] and [`History`]. Stores also implement `Commits`
//! (`argiope_store::commits`), which says when something is durable.
//!
//! A link enters with [`Frontier::put`]. The test whether it is known and the insertion are one step, so a link that is
//! put twice is queued only once. It is queued in its lane (its host name), leased with `take`, and leaves with exactly
//! one `settle`. `give_back` undoes a lease. Between calls this holds, except in a shared frontier, whose counts may be
//! out of date:
//!
//! > known = queued + leased + settled
//!
//! The crawl has ended when nothing is queued and nothing is leased. This is a count; no timer is involved.
//!
//! What only some stores can do has no method of its own. The crawl tells a store what has happened as
//! [`CrawlEvent`]s, and the store answers with [`FrontierNews`]. A store ignores the events that it does not need.

use crate::base::job::LaneId;
use crate::base::link::{Link, LinkKind, LinkRef};
use crate::base::link_list::LinkList;
use crate::base::outcome::Outcome;
use crate::base::time::Time;
use crate::base::url::{Url, UrlRef};
use crate::crawl::warc::ArchiveChunk;
use crate::crawl::warc::WarcLocation;
use std::fmt;
use std::sync::Arc;

pub use crate::crawl::schedule::store_error::{StoreError, StoreErrorKind};

/// What a frontier knows about a link that is put, before it is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was added before.
    Known,
    /// It is new.
    New,
    /// The frontier determines later whether it is new.
    Unknown,
    /// It is new, but its host has no lane, and the frontier may not create one and cannot defer links.
    NoRoom,
}

/// What became of a link that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It was not added: it is known, or the caller rejected it.
    NotAdded,
    /// It was new, and is queued in this lane.
    Queued(LaneId),
    /// It was new, and is queued without a lane.
    Deferred,
    /// The frontier adds it later if it is new.
    Pending,
}

/// What a frontier does with new links to hosts that have no lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewHosts {
    /// It creates the lanes.
    GetLanes,
    /// It creates no lane, because memory has no room for more host names. It queues the links without a lane, if it can,
    /// until [`CrawlEvent::RoomForHosts`].
    AreDeferred,
}

/// The result of [`put_all`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// For each link, in order: whether it was new, or may have been ([`Placement::Pending`]).
    pub new: Vec<bool>,
    /// For each link, in order: what became of it.
    pub placements: Vec<Placement>,
    /// The lanes that got work, sorted and distinct.
    pub lanes: Vec<LaneId>,
}

impl Put {
    /// How many links were new.
    pub fn count(&self) -> usize {
        self.new.iter().filter(|new| **new).count()
    }
}

/// Adds these links to a frontier.
pub fn put_all<'a, F: Frontier + ?Sized>(
    frontier: &mut F,
    links: impl IntoIterator<Item = &'a Link>,
) -> Result<Put, StoreError> {
    let links: Vec<LinkRef<'_>> = links.into_iter().map(LinkRef::from).collect();
    let placements = frontier.put(&links, NewHosts::GetLanes, &mut |_, _| true)?;
    let new = placements.iter().map(|placement| *placement != Placement::NotAdded).collect();
    Ok(Put { new, lanes: lanes_of(&placements), placements })
}

/// The lanes of these links, sorted and distinct.
pub fn lanes_of(placements: &[Placement]) -> Vec<LaneId> {
    let lane = |placement: &Placement| if let Placement::Queued(lane) = placement { Some(*lane) } else { None };
    let mut lanes: Vec<LaneId> = placements.iter().filter_map(lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

/// Where a link that is given back goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnTo {
    /// To its old place in its queue, if possible, because no request was sent for it. A durable frontier writes nothing,
    /// because it does not store leases.
    OldPlace,
    /// Behind the other links of its rank. Its fields, such as `tries`, are kept as given.
    End,
}

/// One entry of [`Frontier::settle`]. All of its parts become durable together, and `archive` and `edges` not without the
/// record.
#[derive(Debug)]
pub struct Settlement<'a> {
    /// What is settled.
    pub subject: SettledSubject<'a>,
    /// The links of the page or sitemap. They replace its earlier links.
    pub edges: Option<FoundEdges<'a>>,
    /// The archived exchange that the record refers to. A frontier that stores records and archive together takes the
    /// bytes out of the chunk.
    pub archive: Option<(&'a WarcLocation, &'a mut ArchiveChunk)>,
}

/// What is settled.
#[derive(Clone, Copy, Debug)]
pub enum SettledSubject<'a> {
    /// A leased link gets its final result.
    Link(&'a Link, FinalOutcome<'a>),
    /// A record that belongs to no link: start and end of a run, robots.txt, skipped links.
    Line(&'a [u8]),
}

impl<'a> Settlement<'a> {
    /// A leased link and its final result.
    pub fn of(link: &'a Link, final_outcome: FinalOutcome<'a>) -> Self {
        Self { subject: SettledSubject::Link(link, final_outcome), edges: None, archive: None }
    }

    /// A record that belongs to no link. It may end with a line feed.
    pub fn line(record: &'a [u8]) -> Self {
        let record = record.strip_suffix(b"\n").unwrap_or(record);
        Self { subject: SettledSubject::Line(record), edges: None, archive: None }
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
    /// The part of `queued` that has no lane and so cannot be taken: see [`NewHosts::AreDeferred`].
    pub deferred: u64,
}

impl Counts {
    /// Whether no link is queued or leased: the crawl has ended.
    pub fn is_done(&self) -> bool {
        self.queued == 0 && self.leased == 0
    }
}

/// A lane, as the frontier sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedLane<'a> {
    /// The host name.
    pub name: &'a str,
    /// How many of its links are queued and can be taken.
    pub queued: u64,
}

/// Something that happened in the crawl.
#[derive(Clone, Copy, Debug)]
pub enum CrawlEvent<'a> {
    /// The crawl starts. A frontier that completes calls on a thread of its own calls the waker when there is news.
    Started(&'a FrontierWaker),
    /// The request of a leased link is about to be sent, and must not be sent twice. A durable frontier stores this. If
    /// the run ends before the link is settled, a later run takes the link with
    /// [`ALREADY_SENT`](crate::base::link::ALREADY_SENT) tries.
    Sending(&'a Link),
    /// An attempt has failed, and the link will be tried again. `link.tries` counts the attempts so far, and `bytes` are
    /// those that this one received; no record has them. A frontier that is shared stores the tries.
    AttemptFailed {
        /// The link.
        link: &'a Link,
        /// The bytes that the attempt received.
        bytes: u64,
    },
    /// After [`FrontierNews::Leaving`]: no request to the lane is in flight any more.
    Left(LaneId),
    /// Memory has room for host names again: move up to this many deferred links to the lanes of their hosts, in the
    /// order of [`Frontier::take`]. [`FrontierNews::Work`] reports these lanes.
    RoomForHosts(usize),
}

/// Something that happened in a frontier: work became available, or another process or a shared limit changed what this
/// process may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrontierNews {
    /// A lane was given work.
    Work(LaneId),
    /// A lane was given work for the first time. The note about its host has what earlier owners of the host knew.
    TakenOver(LaneId),
    /// Another process will take over this lane: start no new requests, and return the links that are not in flight.
    /// [`CrawlEvent::Left`] is the answer.
    Leaving(LaneId),
    /// The limit on pages is reached.
    MaxPages,
    /// The limit on bytes is reached.
    MaxBytes,
    /// With `true`: start no request, because this process has received as many bytes as its share of the limit allows,
    /// or because the store takes no results. `false` ends the hold.
    Hold(bool),
    /// This process's share of the limit on pages a second; `None` if there is no limit any more.
    Rate(Option<f64>),
    /// This process's share of the limit on requests in flight to one IP address.
    PerIp(usize),
}

/// The result of [`Frontier::news`].
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// What has happened, in order.
    pub events: Vec<FrontierNews>,
    /// When to ask again, if nothing else happens: a queued link is due then, which cannot be taken before.
    pub due: Time,
}

impl Default for News {
    fn default() -> Self {
        Self { events: Vec::new(), due: Time::NEVER }
    }
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
/// Links come and go in batches. No call should wait for a disk or a network, because the crawl has one scheduling
/// thread. A frontier that has to wait completes the call on a thread of its own. Meanwhile `put` places links as
/// [`Placement::Pending`], and `take` returns no links. When work becomes available, the frontier calls
/// [`FrontierWaker::wake`] and reports the work as [`FrontierNews`]. Until then [`Frontier::counts`] includes the links
/// that are being added, so that the crawl does not end.
///
/// A frontier may hold a link until a time of its own, for example until the next visit of a page that is monitored:
/// the link is queued, but `take` does not return it and its lane does not count it. [`News::due`] is the time of the
/// next one, and [`FrontierNews::Work`] then reports its lane.
pub trait Frontier {
    /// Adds links, in order. `admit` is called for each link, with its index and what the frontier knows about it, before
    /// the next one is tested; the link is added if it is new and `admit` returns true. Returns what became of each.
    ///
    /// The links of a batch are tested together: in a large set of known URLs each test is a cache miss, and in a
    /// database a query.
    fn put(
        &mut self,
        links: &[LinkRef<'_>],
        new_hosts: NewHosts,
        admit: &mut dyn FnMut(usize, Standing) -> bool,
    ) -> Result<Vec<Placement>, StoreError>;

    /// Leases up to `max_links` links of a lane in the order of [`LinkRef::rank`], and links of equal rank in order of
    /// arrival. Without priorities, this order is breadth first.
    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError>;

    /// Settles leased links with their final results, and stores records.
    fn settle(&mut self, batch: &mut [Settlement<'_>]) -> Result<(), StoreError>;

    /// Returns leased links to their queues, in the order in which they are to be taken again.
    fn give_back(&mut self, links: Vec<Link>, to: ReturnTo) -> Result<(), StoreError>;

    /// The lane of a host name; created if there is none.
    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError>;

    /// A lane and its queue; `None` if there is no such lane.
    fn lane(&self, lane: LaneId) -> Option<QueuedLane<'_>>;

    /// The lanes with queued links, sorted.
    fn lanes_with_work(&self) -> Vec<LaneId>;

    /// The number of links in each state.
    fn counts(&self) -> Counts;

    /// Tells the frontier what happened in the crawl.
    fn tell(&mut self, _event: CrawlEvent<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// What has happened since the last call.
    fn news(&mut self, _now: Time) -> Result<News, StoreError> {
        Ok(News::default())
    }
}

/// What a store remembers from earlier runs and rounds. The defaults are those of a store that remembers nothing.
pub trait History {
    /// Stores a note for the next run, about a lane or about the crawl itself. It replaces the previous one.
    fn keep_note(&mut self, _about: Option<LaneId>, _note: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    /// The note stored last; `None` if there is none, or if the store is not durable.
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
}
