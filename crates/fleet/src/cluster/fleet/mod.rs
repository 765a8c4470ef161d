//! [`FleetFrontier`]: the frontier of one process of a fleet. Its methods never wait for the store (the Redis cluster).
//!
//! Found links go to the settle thread, which puts them into their buckets. Links to fetch come from the lease thread,
//! which leases them in advance. A page is settled by the settle thread after its links are in the store and its record
//! is durable.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use argiope_core::base::link::{ALREADY_SENT, link_fingerprint};
use argiope_core::base::time::WallClock;
use argiope_core::crawl::record::LazyRecord;
use argiope_core::crawl::schedule::carryover::LaneNote;
use argiope_core::crawl::schedule::frontier::{
    CrawlEvent, FrontierNews, NewHosts, News, Placement, QueuedLane, ReturnTo, SettledSubject, Settlement, Standing,
};
use argiope_core::{
    Counts, FinalOutcome, FoundEdges, Frontier, History, LaneId, Link, LinkKind, LinkRef, StoreError, StoreErrorKind,
    Time, UrlRef,
};
use argiope_store::Commits;

use super::bucket_of;
use super::client::LeaseToken;
use super::codec::{QueuedLink, TakenLink};
use super::crawl::FleetSettings;
use super::host_note::{from_wire, to_wire};
use super::shared::{
    ArchivedExchange, FleetTotals, LeaseCommand, LeaseEvent, OutgoingNote, PageLinks, SettledRecord, Shared,
};
use crate::segments::LinkOrigin;

/// The number of entries in the cache of recently put fingerprints. A link in the cache is not put again. This saves
/// puts for links that are on every page.
const RECENT_ENTRIES: usize = 1 << 18;

/// The frontier of one process.
pub struct FleetFrontier {
    shared: Arc<Shared>,
    /// Converts times of the crawl to the times in notes.
    wall: WallClock,
    /// The key of the hash that computes fingerprints.
    key: u64,
    /// The number of buckets of the crawl.
    buckets: u32,
    /// The round of the crawl, counted from 1.
    round: u32,
    /// Direct-mapped cache of the fingerprints that were put.
    recent: Vec<u64>,
    /// The hosts of held buckets, and other hosts that the keeper needed a lane for. Numbers are not used again,
    /// because the workbench may still have an idle lane with an earlier number.
    lanes: HashMap<LaneId, FleetLane>,
    /// The number of the next lane.
    next_lane: u32,
    /// The lanes of hosts in held buckets, and of other hosts that the keeper needed a lane for.
    by_host: HashMap<Box<str>, LaneId>,
    /// The buckets that this process has leased.
    held: HashMap<u32, HeldBucket>,
    /// The links that the keeper holds: fingerprint, bucket and lane.
    leased: HashMap<u64, (u32, LaneId)>,
    /// The number of links that are leased in advance, in all lanes.
    ahead: u64,
    /// In a recrawl: the previous records of the leased links, by fingerprint.
    earlier_records: HashMap<u64, Box<[u8]>>,
    /// With a byte limit: how many bytes this process has received.
    received: u64,
    /// How many bytes this process may receive, since it joined; `None` without a byte limit.
    max_received: Option<u64>,
    /// Bytes of retried attempts that no settled record includes yet.
    retried: u64,
    /// Whether [`FrontierNews::Hold`] stops requests: this process has received `max_received` bytes, or cannot store
    /// results.
    is_holding: bool,
    /// How many links were marked as sent or failed, and how many notes about hosts were made.
    marks: u64,
    /// How many of these marks and notes are replicated.
    durable_marks: u64,
    totals: FleetTotals,
    /// Whether the end of the crawl was detected.
    is_over: bool,
    /// Why this process has lost its lease or cannot store results, if so.
    failure: Option<StoreError>,
}

/// What is sent to the settle thread together with a record.
#[derive(Default)]
struct RecordParts {
    /// The fingerprint and the origin of the link, if the record settles one.
    link: Option<(u64, LinkOrigin)>,
    /// Whether `--max-pages` counts it.
    is_page: bool,
    links: Option<PageLinks>,
    archive: Option<ArchivedExchange>,
}

/// One host with the links that are leased in advance.
struct FleetLane {
    host: Box<str>,
    bucket: u32,
    /// Links that are leased in advance, by rank.
    links: BTreeMap<i32, VecDeque<Link>>,
    /// The number of links in `links`.
    count: u64,
    /// The number of links still queued in the store.
    left: u64,
    /// The number of links that the keeper holds.
    taken: u64,
    /// Whether the lease thread knows that the host has work.
    is_busy: bool,
    /// The note about the host (an encoded `LaneNote`), which earlier owners of the bucket may have stored.
    note: Option<Vec<u8>>,
    /// The number of the last mark or note about this host.
    last_mark: u64,
    /// Whether the host has a Crawl-delay. Its pages then wait until the note with it is replicated.
    has_crawl_delay: bool,
}

/// A bucket that this process has leased.
#[derive(Default)]
struct HeldBucket {
    /// The number of this lease of the bucket (fencing token). The store checks it when links are leased or settled.
    epoch: u64,
    /// Whether the bucket is to be released when its last link is settled.
    is_leaving: bool,
    /// The lanes of its hosts. They are removed when the bucket is released.
    lanes: Vec<LaneId>,
    /// The number of links that the keeper holds.
    leased: u64,
    /// The number of records that are not settled in the store yet.
    unsettled: u64,
    /// While the bucket is to be released: the lanes that may still have requests in flight.
    in_flight: HashSet<LaneId>,
}

impl FleetFrontier {
    pub fn new(shared: Arc<Shared>, settings: &FleetSettings, wall: WallClock) -> Self {
        let FleetSettings { key, buckets, round, .. } = *settings;
        Self {
            shared,
            wall,
            key,
            buckets,
            round,
            recent: vec![0; RECENT_ENTRIES],
            lanes: HashMap::new(),
            next_lane: 0,
            by_host: HashMap::new(),
            held: HashMap::new(),
            leased: HashMap::new(),
            ahead: 0,
            earlier_records: HashMap::new(),
            received: 0,
            retried: 0,
            // With a byte limit, 0 until the lease thread sends this process's share.
            max_received: settings.max_bytes.map(|_| 0),
            is_holding: false,
            marks: 0,
            durable_marks: 0,
            totals: FleetTotals::default(),
            is_over: false,
            failure: None,
        }
    }

    pub fn totals(&self) -> FleetTotals {
        self.totals
    }

    /// Marks a link in the store, with the token of its bucket. The bucket is not released before the mark is stored.
    fn mark(&mut self, link: &Link) -> Result<(), StoreError> {
        let bucket = bucket_of(link.url.host(), self.buckets);
        let Some(held) = self.held.get(&bucket) else {
            return Err(StoreError::new(StoreErrorKind::Misuse, format!("{} is not leased", link.url)));
        };
        let token = LeaseToken { bucket, epoch: held.epoch };
        self.shared.outgoing().marks.push((token, QueuedLink::new(LinkRef::from(link), self.key)));
        self.shared.outgoing_changed.notify_one();
        self.marks += 1;
        let marks = self.marks;
        // The lane of a leased link is listed in its bucket, even after `by_host` has forgotten it.
        for lane in self.held.get(&bucket).into_iter().flat_map(|held| &held.lanes) {
            if let Some(entry) = self.lanes.get_mut(lane)
                && *entry.host == *link.url.host()
            {
                entry.last_mark = marks;
            }
        }
        Ok(())
    }

    /// Returns an error if this process has lost its lease, or cannot store results.
    fn check_lease(&self) -> Result<(), StoreError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.shared.has_lease_ended() {
            let message = "the lease on this process's hosts has ended; what was not settled is crawled again";
            return Err(StoreError::new(StoreErrorKind::LeaseLost, message));
        }
        Ok(())
    }

    /// Keeps the first failure, which is the cause of further ones.
    fn fail(&mut self, failure: StoreError) {
        self.failure.get_or_insert(failure);
    }

    /// Removes a link from `leased`. Returns its fingerprint and bucket.
    fn end_lease(&mut self, link: &Link) -> Result<(u64, u32), StoreError> {
        let fingerprint = link.fingerprint(self.key);
        let Some((bucket, lane)) = self.leased.remove(&fingerprint) else {
            return Err(StoreError::new(StoreErrorKind::Misuse, format!("{} is not leased", link.url)));
        };
        if let Some(entry) = self.lanes.get_mut(&lane) {
            entry.taken = entry.taken.saturating_sub(1);
        }
        self.note_work(lane);
        if let Some(held) = self.held.get_mut(&bucket) {
            held.leased = held.leased.saturating_sub(1);
        }
        self.earlier_records.remove(&fingerprint);
        Ok((fingerprint, bucket))
    }

    /// Tells the lease thread if a host has got work, or has none any more.
    fn note_work(&mut self, lane: LaneId) {
        let Some(entry) = self.lanes.get_mut(&lane) else { return };
        let is_busy = entry.count + entry.left + entry.taken > 0;
        if std::mem::replace(&mut entry.is_busy, is_busy) != is_busy {
            self.shared.send_command(LeaseCommand::Busy { bucket: entry.bucket, is_busy });
        }
    }

    /// Releases a bucket that is to be given up, once no request to its hosts is in flight, its records are settled, and
    /// what the next owner must know is stored.
    fn release_if_idle(&mut self, bucket: u32) {
        let is_stored = |lane: &LaneId| self.lanes.get(lane).is_none_or(|lane| lane.last_mark <= self.durable_marks);
        let is_idle = |held: &HeldBucket| {
            let is_done = held.leased == 0 && held.unsettled == 0 && held.in_flight.is_empty();
            held.is_leaving && is_done && held.lanes.iter().all(is_stored)
        };
        if self.held.get(&bucket).is_some_and(is_idle)
            && let Some(held) = self.held.remove(&bucket)
        {
            for lane in held.lanes {
                self.lanes.remove(&lane);
            }
            self.shared.send_command(LeaseCommand::Release { bucket });
        }
    }

    /// Sends a record to the settle thread, which makes it durable and then settles its link.
    fn send_record(&mut self, host: &str, record: &[u8], parts: RecordParts) {
        let RecordParts { link, is_page, links, archive } = parts;
        let bucket = bucket_of(host, self.buckets);
        // The record of a robots.txt of a host that another process owns is dropped.
        let Some(held) = self.held.get_mut(&bucket) else { return };
        held.unsettled += 1;
        let line = [record, b"\n"].concat();
        let mut received = 0;
        if self.max_received.is_some() {
            let record_bytes = LazyRecord::read(record).and_then(|record| record.bytes_wire()).unwrap_or(0);
            self.received += record_bytes;
            received = record_bytes + std::mem::take(&mut self.retried);
        }
        if is_page {
            self.shared.pages.fetch_add(1, Ordering::Relaxed);
        }
        let is_over_share = self.max_received.is_some_and(|limit| self.received >= limit);
        // Whether this process has no link left to fetch.
        let is_idle = self.leased.is_empty() && self.ahead == 0;
        let mut outgoing = self.shared.outgoing();
        let (fingerprint, origin) = link.unzip();
        let epoch = held.epoch;
        outgoing.settled.push(SettledRecord {
            bucket,
            epoch,
            fingerprint,
            is_page,
            received,
            origin,
            line,
            links,
            archive,
        });
        // Settle at once: other processes may be waiting for the last pages, or for a new division of the byte limit.
        outgoing.flush |= is_idle || is_over_share;
        self.shared.outgoing_changed.notify_one();
    }

    /// Ends the lease of a link that gets its final result. Returns what is sent with its record.
    fn settle_link(&mut self, link: &Link, is_page: bool) -> Result<RecordParts, StoreError> {
        self.check_lease()?;
        let has_earlier_record = self.earlier_records.contains_key(&link.fingerprint(self.key));
        let (fingerprint, _) = self.end_lease(link)?;
        let priority = link.request.as_ref().map_or(0, |request| request.priority);
        let origin = LinkOrigin { kind: link.kind, redirects: link.redirects, has_earlier_record, priority };
        Ok(RecordParts { link: Some((fingerprint, origin)), is_page, ..RecordParts::default() })
    }

    /// Counts the bytes of a failed attempt, and stores the number of tries, so that the next owner of the host counts on.
    fn attempt_failed(&mut self, link: &Link, bytes: u64) -> Result<(), StoreError> {
        if self.max_received.is_some() {
            self.received += bytes;
            self.retried += bytes;
        }
        if self.leased.contains_key(&link.fingerprint(self.key)) { self.mark(link) } else { Ok(()) }
    }

    /// Records that no request to a lane is in flight.
    fn left(&mut self, lane: LaneId) {
        let Some(bucket) = self.lanes.get(&lane).map(|lane| lane.bucket) else { return };
        if let Some(held) = self.held.get_mut(&bucket) {
            held.in_flight.remove(&lane);
        }
        self.release_if_idle(bucket);
    }

    /// Queues a link for its lane again. If its bucket is to be released, only ends the local lease.
    fn put_back(&mut self, link: Link) -> Result<(), StoreError> {
        let earlier = self.earlier_records.remove_entry(&link.fingerprint(self.key));
        let (_, bucket) = self.end_lease(&link)?;
        if self.held.get(&bucket).is_none_or(|held| held.is_leaving) {
            self.release_if_idle(bucket);
            return Ok(());
        }
        self.earlier_records.extend(earlier);
        let lane = self.lane_of(link.url.host())?;
        if let Some(entry) = self.lanes.get_mut(&lane) {
            entry.links.entry(link.rank()).or_default().push_front(link);
            entry.count += 1;
            self.ahead += 1;
        }
        self.note_work(lane);
        Ok(())
    }

    /// Applies an event of one of the threads, and adds the resulting news for the keeper to `news`.
    fn apply_event(&mut self, event: LeaseEvent, news: &mut Vec<FrontierNews>) {
        match event {
            LeaseEvent::Acquired { bucket, epoch } => {
                self.held.insert(bucket, HeldBucket { epoch, ..HeldBucket::default() });
            }
            LeaseEvent::Taken { bucket, epoch, host, at, earlier } => {
                // In a recrawl, links may arrive after their bucket was released.
                let is_current = |held: &HeldBucket| !held.is_leaving && held.epoch == epoch;
                if !self.held.get(&bucket).is_some_and(is_current) {
                    return;
                }
                let Ok(lane) = self.lane_of(&host.host) else { return };
                let (Some(held), Some(entry)) = (self.held.get_mut(&bucket), self.lanes.get_mut(&lane)) else { return };
                let is_new = !held.lanes.contains(&lane);
                if is_new {
                    held.lanes.push(lane);
                }
                entry.left = host.left;
                if is_new {
                    let note = from_wire(&host.news, self.wall, at);
                    entry.note = (note != LaneNote::default()).then(|| serde_json::to_vec(&note).unwrap_or_default());
                }
                entry.count += host.links.len() as u64;
                self.ahead += host.links.len() as u64;
                for (taken, record) in host.links.iter().zip(earlier) {
                    let record = record.map(|record| (taken.link.fingerprint(self.key), record));
                    self.earlier_records.extend(record);
                }
                for TakenLink { link, .. } in host.links {
                    entry.links.entry(link.rank()).or_default().push_back(link);
                }
                self.note_work(lane);
                news.push(if is_new { FrontierNews::TakenOver(lane) } else { FrontierNews::Work(lane) });
            }
            LeaseEvent::Leaving { bucket } => {
                let Some(held) = self.held.get_mut(&bucket) else { return };
                let was_leaving = std::mem::replace(&mut held.is_leaving, true);
                if !was_leaving {
                    held.in_flight = held.lanes.iter().copied().collect();
                }
                for lane in held.lanes.iter().copied().filter(|_| !was_leaving) {
                    let Some(entry) = self.lanes.get_mut(&lane) else { continue };
                    for link in std::mem::take(&mut entry.links).into_values().flatten() {
                        self.earlier_records.remove(&link.fingerprint(self.key));
                    }
                    self.ahead -= entry.count;
                    (entry.count, entry.left) = (0, 0);
                    // If the bucket is acquired again, its hosts get new lanes.
                    self.by_host.remove(&entry.host);
                    news.push(FrontierNews::Leaving(lane));
                }
                self.shared.outgoing().flush = true;
                self.shared.outgoing_changed.notify_one();
                self.release_if_idle(bucket);
            }
            LeaseEvent::Settled { bucket, count } => {
                if let Some(held) = self.held.get_mut(&bucket) {
                    held.unsettled = held.unsettled.saturating_sub(count);
                }
                self.release_if_idle(bucket);
            }
            LeaseEvent::Marked(count) => {
                self.durable_marks += count;
                let leaving = self.held.iter().filter(|(_, held)| held.is_leaving).map(|(bucket, _)| *bucket);
                for bucket in leaving.collect::<Vec<u32>>() {
                    self.release_if_idle(bucket);
                }
            }
            LeaseEvent::Totals(totals) => self.totals = totals,
            LeaseEvent::Rate(rate) => news.push(FrontierNews::Rate(rate)),
            LeaseEvent::PerIp(limit) => news.push(FrontierNews::PerIp(limit)),
            LeaseEvent::MaxReceived(limit) => {
                self.max_received = Some(limit);
                if self.received >= limit {
                    // The shares of the other processes depend on what this process has settled.
                    self.shared.outgoing().flush = true;
                    self.shared.outgoing_changed.notify_one();
                }
            }
            LeaseEvent::Over(limit) => {
                self.is_over = true;
                news.extend(limit);
            }
            LeaseEvent::Lost(why) => self.fail(StoreError::new(StoreErrorKind::LeaseLost, why)),
            LeaseEvent::Failed(failure) => self.fail(failure),
        }
    }
}

impl Frontier for FleetFrontier {
    /// Queues the links for the settle thread. It is not known yet whether a link is new, unless it was put recently. If
    /// it is new, the owner of its bucket leases it later.
    fn put(
        &mut self,
        links: &[LinkRef<'_>],
        _new_hosts: NewHosts,
        admit: &mut dyn FnMut(usize, Standing) -> bool,
    ) -> Result<Vec<Placement>, StoreError> {
        let mut placements = Vec::with_capacity(links.len());
        for (index, link) in links.iter().enumerate() {
            let fingerprint = link.fingerprint(self.key);
            let is_recent = self.recent[fingerprint as usize % RECENT_ENTRIES] == fingerprint;
            let is_admitted = admit(index, if is_recent { Standing::Known } else { Standing::Unknown });
            if is_recent || !is_admitted {
                placements.push(Placement::NotAdded);
                continue;
            }
            self.recent[fingerprint as usize % RECENT_ENTRIES] = fingerprint;
            let bucket = bucket_of(link.url.host(), self.buckets);
            let stored = QueuedLink::new(*link, self.key);
            self.shared.outgoing().links.entry(bucket).or_default().push(stored);
            self.shared.outgoing_changed.notify_one();
            placements.push(Placement::Pending);
        }
        Ok(placements)
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        self.check_lease()?;
        let Some(entry) = self.lanes.get_mut(&lane) else { return Ok(Vec::new()) };
        let mut links = Vec::new();
        while links.len() < max_links {
            let Some(mut level) = entry.links.first_entry() else { break };
            links.extend(level.get_mut().pop_front());
            if level.get().is_empty() {
                level.remove();
            }
        }
        if links.is_empty() {
            return Ok(links);
        }
        entry.count -= links.len() as u64;
        entry.taken += links.len() as u64;
        self.ahead -= links.len() as u64;
        let (bucket, count) = (entry.bucket, links.len());
        if let Some(held) = self.held.get_mut(&bucket) {
            held.leased += count as u64;
        }
        for link in &links {
            self.leased.insert(link.fingerprint(self.key), (bucket, lane));
        }
        self.shared.send_command(LeaseCommand::Consumed { bucket, host: entry.host.clone(), count });
        Ok(links)
    }

    fn settle(&mut self, batch: &mut [Settlement<'_>]) -> Result<(), StoreError> {
        for Settlement { subject, edges, archive } in batch {
            let (host, record, mut parts) = match *subject {
                SettledSubject::Link(link, FinalOutcome { record, is_fetched_page, .. }) => {
                    (link.url.host().to_owned(), record, self.settle_link(link, is_fetched_page)?)
                }
                // A record that belongs to no host, such as that of a run, is not a result of the fleet.
                SettledSubject::Line(record) => match host_of(record) {
                    Some(host) => (host, record, RecordParts::default()),
                    None => continue,
                },
            };
            parts.links = edges.as_ref().map(|FoundEdges { source, is_sitemap, links, cut }| PageLinks {
                source: source.as_str().into(),
                is_sitemap: *is_sitemap,
                cut: *cut,
                links: (*links).clone(),
            });
            parts.archive = archive.as_mut().map(|(place, chunk)| ArchivedExchange {
                place: place.clone(),
                bytes: std::mem::take(&mut chunk.bytes),
            });
            self.send_record(&host, record, parts);
        }
        Ok(())
    }

    /// To the end: only ends the local leases. The store queues the links again when the bucket is released.
    fn give_back(&mut self, links: Vec<Link>, to: ReturnTo) -> Result<(), StoreError> {
        for link in links.into_iter().rev() {
            if to == ReturnTo::OldPlace {
                self.put_back(link)?;
            } else {
                let (_, bucket) = self.end_lease(&link)?;
                self.release_if_idle(bucket);
            }
        }
        Ok(())
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        if let Some(lane) = self.by_host.get(host) {
            return Ok(*lane);
        }
        let full = || StoreError::new(StoreErrorKind::Full, "more than four billion hosts");
        let lane = LaneId(self.next_lane);
        self.next_lane = self.next_lane.checked_add(1).ok_or_else(full)?;
        let bucket = bucket_of(host, self.buckets);
        let links = BTreeMap::new();
        self.lanes.insert(
            lane,
            FleetLane {
                host: host.into(),
                bucket,
                links,
                count: 0,
                left: 0,
                taken: 0,
                is_busy: false,
                note: None,
                last_mark: 0,
                has_crawl_delay: false,
            },
        );
        self.by_host.insert(host.into(), lane);
        Ok(lane)
    }

    fn lane(&self, lane: LaneId) -> Option<QueuedLane<'_>> {
        // Links that are still in the store cannot be taken at once, so they do not count. `news` reports them when
        // they arrive.
        self.lanes.get(&lane).map(|lane| QueuedLane { name: &lane.host, queued: lane.count })
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        let with_work = self.lanes.iter().filter(|(_, lane)| lane.count > 0);
        let mut lanes: Vec<LaneId> = with_work.map(|(id, _)| *id).collect();
        lanes.sort_unstable();
        lanes
    }

    /// The counts of the whole fleet in the last survey. At least one link counts as queued until the end of the crawl
    /// is detected, so that the keeper does not stop early.
    fn counts(&self) -> Counts {
        if self.is_over {
            let settled = self.totals.settled;
            return Counts { known: self.totals.known, settled, ..Counts::default() };
        }
        let FleetTotals { known, queued, leased, settled, .. } = self.totals;
        Counts { known, queued: queued.max(1), leased, settled, deferred: 0 }
    }

    fn tell(&mut self, event: CrawlEvent<'_>) -> Result<(), StoreError> {
        match event {
            CrawlEvent::Sending(link) => self.mark(&Link { tries: ALREADY_SENT, ..link.clone() }),
            CrawlEvent::AttemptFailed { link, bytes } => self.attempt_failed(link, bytes),
            CrawlEvent::Left(lane) => {
                self.left(lane);
                Ok(())
            }
            // The threads of the fleet wake the crawl on their own, and no link is deferred.
            CrawlEvent::Started(_) | CrawlEvent::RoomForHosts(_) => Ok(()),
        }
    }

    fn news(&mut self, _now: Time) -> Result<News, StoreError> {
        self.check_lease()?;
        let mut news = Vec::new();
        for event in self.shared.take_events() {
            self.apply_event(event, &mut news);
        }
        let is_over_share = self.max_received.is_some_and(|limit| self.received >= limit);
        // What is fetched while results cannot be stored would only wait in memory.
        let is_held = is_over_share || self.shared.stalled.load(Ordering::Acquire);
        if std::mem::replace(&mut self.is_holding, is_held) != is_held {
            news.push(FrontierNews::Hold(is_held));
        }
        self.check_lease()?;
        Ok(News { events: news, ..News::default() })
    }
}

impl History for FleetFrontier {
    fn is_recrawl(&self) -> bool {
        self.round > 1
    }

    fn earlier(&mut self, url: UrlRef<'_>, kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.earlier_records.get(&link_fingerprint(url, kind, self.key)).map(|record| record.to_vec()))
    }

    fn keep_note(&mut self, about: Option<LaneId>, note: &[u8]) -> Result<(), StoreError> {
        let Some((id, lane)) = about.and_then(|id| Some((id, self.lanes.get_mut(&id)?))) else { return Ok(()) };
        lane.note = Some(note.to_vec());
        // The owner of a host writes the notes about it.
        let Some(held) = self.held.get(&lane.bucket).filter(|held| held.lanes.contains(&id)) else { return Ok(()) };
        let Ok(content) = serde_json::from_slice::<LaneNote>(note) else { return Ok(()) };
        let now = (self.shared.now)();
        let sent = to_wire(&lane.host, &content, self.wall, now);
        let until = now + Duration::from_millis(sent.wait_ms);
        if until > now {
            self.shared.set_backoff(&lane.host, until);
        }
        let token = LeaseToken { bucket: lane.bucket, epoch: held.epoch };
        self.marks += 1;
        (lane.last_mark, lane.has_crawl_delay) = (self.marks, content.delay_ms > 0);
        self.shared.outgoing().notes.push(OutgoingNote { token, note: sent, until, text: note.to_vec() });
        self.shared.outgoing_changed.notify_one();
        Ok(())
    }

    fn note(&mut self, about: Option<LaneId>) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(about.and_then(|lane| self.lanes.get(&lane)).and_then(|lane| lane.note.clone()))
    }
}

/// Commits are made by the threads of the fleet. Instead of log positions, marks of links and notes about hosts are
/// counted, and those of them that are replicated.
impl Commits for FleetFrontier {
    fn log_end(&self) -> u64 {
        self.marks
    }

    fn durable_end(&self) -> u64 {
        self.durable_marks
    }

    /// Whether the host of a lane has a Crawl-delay that the next owner would not know. Its pages wait until it is
    /// stored.
    fn awaits_note(&self, lane: LaneId) -> bool {
        self.lanes.get(&lane).is_some_and(|lane| lane.has_crawl_delay && lane.last_mark > self.durable_marks)
    }
}

/// The host that a record is about.
fn host_of(record: &[u8]) -> Option<String> {
    UrlRef::from_normal(&LazyRecord::read(record)?.url()).map(|url| url.host().to_owned())
}

#[cfg(test)]
mod tests;
