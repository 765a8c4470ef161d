//! [`SharedHosts`]: the hosts of several crawls of one process, and which crawl owns each.
//!
//! A crawl sees its store through [`SharedStore`]. Of the hosts that several crawls want, each is owned by one crawl at a
//! time, as `docs/decisions/0013-store.md` says; to the others it looks as if no link to it were queued. The owner gives
//! the host up when it has no more work for it, or when its turn is over. With the host goes its note: robots.txt,
//! Crawl-delay, back-off, and when the last request may have been sent.
//!
//! Invariant: no request to a host starts before the earlier owner has none in flight.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use argiope_core::crawl::schedule::carryover::LaneNote;
use argiope_core::crawl::schedule::frontier::{
    Counts, CrawlEvent, Frontier, FrontierNews, FrontierWaker, History, NewHosts, News, Placement, QueuedLane,
    ReturnTo, SettledSubject, Settlement, Standing, StoreError,
};
use argiope_core::{LaneId, Link, LinkKind, LinkRef, Time, UrlRef};
use argiope_store::disk::{CommitBatch, CommittedOutput, Compaction};
use argiope_store::{Commits, Store};

/// How long a crawl keeps a host that others wait for, if it has sent a request.
const TURN: Duration = Duration::from_secs(1);
/// How long it keeps the host if it has not sent one, for example because nobody reads its pages. Longer than most
/// Crawl-delays.
const MAX_IDLE_TURN: Duration = Duration::from_secs(60);
/// Hosts without an owner whose notes are kept.
const MAX_REMEMBERED: usize = 65_536;

/// The hosts of several crawls. Clones are the same hosts.
#[derive(Clone, Default)]
pub struct SharedHosts(Arc<Mutex<HostTable>>);

#[derive(Default)]
struct HostTable {
    hosts: HashMap<Arc<str>, SharedHost>,
    crawls: HashMap<u64, CrawlEntry>,
    /// The number of the crawl that was added last.
    last_crawl: u64,
    /// Hosts that have lost their owner, the oldest first. Some of them have another one by now.
    ownerless: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct SharedHost {
    owner: Option<u64>,
    /// When the owner got it.
    since: Option<Instant>,
    /// The crawls that want it, in the order in which they get it.
    waiting: VecDeque<u64>,
    note: LaneNote,
}

/// What the table knows about a crawl.
#[derive(Default)]
struct CrawlEntry {
    waker: Option<FrontierWaker>,
    /// Set if there is something below.
    has_news: Arc<AtomicBool>,
    /// Hosts that were given to it.
    granted: Vec<Arc<str>>,
    /// Its hosts that others wait for.
    contested: Vec<Arc<str>>,
}

impl CrawlEntry {
    fn signal(&self) -> Option<FrontierWaker> {
        self.has_news.store(true, Ordering::Release);
        self.waker.clone()
    }
}

impl SharedHosts {
    /// The store of a crawl that shares these hosts; without `hosts`, of a crawl that has all hosts for itself.
    pub fn share<S: Store>(hosts: Option<&Self>, store: S) -> SharedStore<S> {
        let membership = hosts.map(|hosts| {
            let mut table = hosts.lock();
            table.last_crawl += 1;
            let crawl = table.last_crawl;
            let has_news = Arc::clone(&table.crawls.entry(crawl).or_default().has_news);
            drop(table);
            Membership {
                hosts: hosts.clone(),
                crawl,
                has_news,
                lanes: HashMap::new(),
                regained: Vec::new(),
                next_check: Time::NEVER,
            }
        });
        SharedStore { inner: store, membership }
    }

    /// How many crawls share these hosts.
    pub fn crawls(&self) -> usize {
        self.lock().crawls.len()
    }

    fn lock(&self) -> MutexGuard<'_, HostTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHosts").field("crawls", &self.crawls()).finish()
    }
}

impl HostTable {
    /// A crawl wants a host. `Ok` if it owns the host now.
    ///
    /// # Errors
    ///
    /// Another crawl owns the host: the waker of that crawl.
    fn want(&mut self, crawl: u64, name: &Arc<str>) -> Result<(), Option<FrontierWaker>> {
        let host = self.hosts.entry(Arc::clone(name)).or_default();
        let Some(owner) = host.owner else {
            (host.owner, host.since) = (Some(crawl), Some(Instant::now()));
            return Ok(());
        };
        if owner == crawl {
            return Ok(());
        }
        if !host.waiting.contains(&crawl) {
            host.waiting.push_back(crawl);
        }
        let Some(entry) = self.crawls.get_mut(&owner) else { return Err(None) };
        if !entry.contested.contains(name) {
            entry.contested.push(Arc::clone(name));
        }
        Err(entry.signal())
    }

    /// The owner gives a host up. Returns the waker of the next owner.
    fn release(&mut self, crawl: u64, name: &Arc<str>) -> Option<FrontierWaker> {
        let host = self.hosts.get_mut(name).filter(|host| host.owner == Some(crawl))?;
        host.owner = None;
        while let Some(next) = host.waiting.pop_front() {
            let Some(entry) = self.crawls.get_mut(&next) else { continue };
            (host.owner, host.since) = (Some(next), Some(Instant::now()));
            entry.granted.push(Arc::clone(name));
            if !host.waiting.is_empty() {
                entry.contested.push(Arc::clone(name));
            }
            return entry.signal();
        }
        self.remember(Arc::clone(name));
        None
    }

    /// Keeps the note about a host without an owner, and forgets the oldest such note if there are too many.
    fn remember(&mut self, name: Arc<str>) {
        self.ownerless.push_back(name);
        if self.ownerless.len() > MAX_REMEMBERED
            && let Some(oldest) = self.ownerless.pop_front()
            && self.hosts.get(&oldest).is_some_and(|host| host.owner.is_none())
        {
            self.hosts.remove(&oldest);
        }
    }

    /// A crawl is over. Returns the wakers of the next owners of its hosts.
    fn remove_crawl(&mut self, crawl: u64, owned: &[Arc<str>]) -> Vec<FrontierWaker> {
        // Hosts that were granted and not picked up yet.
        let granted = self.crawls.remove(&crawl).map(|entry| entry.granted).unwrap_or_default();
        owned.iter().chain(&granted).filter_map(|name| self.release(crawl, name)).collect()
    }
}

/// A crawl among those that share hosts.
struct Membership {
    hosts: SharedHosts,
    crawl: u64,
    /// Whether the table has news for this crawl.
    has_news: Arc<AtomicBool>,
    lanes: HashMap<LaneId, SharedLane>,
    /// Lanes that had left, and whose hosts nobody else owned when they were wanted again.
    regained: Vec<LaneId>,
    /// When a turn is over.
    next_check: Time,
}

struct SharedLane {
    host: Arc<str>,
    state: LaneState,
    /// How many of its links are leased.
    leased: u64,
    /// Whether a request has ended since the crawl owns it.
    has_asked: bool,
    /// Whether the crawl had the host before, so that it must be told that it has it again.
    has_left: bool,
    /// How many links to the host entered the frontier. This part of its note is not shared.
    pages: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LaneState {
    /// Nothing is queued for it.
    Unwanted,
    Wanted,
    Owned,
    /// Owned until nothing is in flight.
    Leaving,
}

/// What the table has for a crawl.
#[derive(Default)]
struct TableNews {
    /// Hosts that were given to it.
    granted: Vec<Arc<str>>,
    /// Its hosts that others wait for, and for how long it has had them.
    contested: Vec<(Arc<str>, Duration)>,
}

impl Membership {
    fn lane(&mut self, lane: LaneId, host: &str) -> &mut SharedLane {
        self.lanes.entry(lane).or_insert_with(|| SharedLane {
            host: host.into(),
            state: LaneState::Unwanted,
            leased: 0,
            has_asked: false,
            has_left: false,
            pages: 0,
        })
    }

    fn owns(&self, lane: LaneId) -> bool {
        self.lanes.get(&lane).is_some_and(|lane| lane.state == LaneState::Owned)
    }

    /// A lane has work: it is owned now, or when its turn comes.
    fn want(&mut self, id: LaneId, host: &str) {
        let lane = self.lane(id, host);
        if lane.state != LaneState::Unwanted {
            return;
        }
        let (name, has_left) = (Arc::clone(&lane.host), lane.has_left);
        let wanted = self.hosts.lock().want(self.crawl, &name);
        let state = if wanted.is_ok() { LaneState::Owned } else { LaneState::Wanted };
        self.lane(id, host).state = state;
        match wanted {
            Ok(()) if has_left => {
                self.regained.push(id);
                self.has_news.store(true, Ordering::Release);
            }
            Err(Some(owner)) => owner.wake(),
            Ok(()) | Err(None) => {}
        }
    }

    /// A link of a lane was settled, or an attempt has failed: a request was sent.
    fn asked(&mut self, id: LaneId, settled: u64) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.leased = lane.leased.saturating_sub(settled);
            lane.has_asked = true;
            // If others wait, a lane without work is given up.
            if lane.leased == 0 {
                self.next_check = Time::ZERO;
            }
        }
    }

    /// Nothing is in flight on a lane that leaves: its host goes to the next owner.
    fn left(&mut self, id: LaneId, has_work: bool) {
        let Some(lane) = self.lanes.get_mut(&id).filter(|lane| lane.state == LaneState::Leaving) else { return };
        (lane.state, lane.has_left) = (LaneState::Unwanted, true);
        let host = Arc::clone(&lane.host);
        let mut table = self.hosts.lock();
        // A link that is leased still was in flight until now.
        let has_asked = std::mem::take(&mut lane.has_asked) || lane.leased > 0;
        if let Some(shared) = table.hosts.get_mut(&host).filter(|_| has_asked) {
            shared.note.asked = Some(unix_millis());
        }
        let next = table.release(self.crawl, &host);
        drop(table);
        next.into_iter().for_each(|waker| waker.wake());
        if has_work {
            self.want(id, &host);
        }
    }

    /// What has changed for this crawl.
    fn take_news(&mut self) -> TableNews {
        self.has_news.store(false, Ordering::Release);
        let mut table = self.hosts.lock();
        let HostTable { crawls, hosts, .. } = &mut *table;
        let Some(entry) = crawls.get_mut(&self.crawl) else { return TableNews::default() };
        let owned_for = |name: &Arc<str>| hosts.get(name)?.since.map(|since| since.elapsed());
        let is_contested = |name: &Arc<str>| {
            hosts.get(name).is_some_and(|host| host.owner == Some(self.crawl) && !host.waiting.is_empty())
        };
        entry.contested.retain(is_contested);
        let contested = entry.contested.iter().map(|name| (Arc::clone(name), owned_for(name).unwrap_or_default()));
        let contested = contested.collect();
        TableNews { granted: std::mem::take(&mut entry.granted), contested }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let owned = |lane: &&SharedLane| matches!(lane.state, LaneState::Owned | LaneState::Leaving);
        let hosts: Vec<Arc<str>> = self.lanes.values().filter(owned).map(|lane| Arc::clone(&lane.host)).collect();
        let mut table = self.hosts.lock();
        for host in &hosts {
            if let Some(shared) = table.hosts.get_mut(host) {
                // Requests in flight are dropped with the crawl.
                shared.note.asked = Some(unix_millis());
            }
        }
        let next = table.remove_crawl(self.crawl, &hosts);
        drop(table);
        next.into_iter().for_each(|waker| waker.wake());
    }
}

fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A store as one of several crawls sees it, which share hosts.
pub struct SharedStore<S> {
    inner: S,
    /// `None` if the crawl shares no hosts.
    membership: Option<Membership>,
}

impl<S: Store> SharedStore<S> {
    /// This lane has queued links.
    fn want(&mut self, lane: LaneId) {
        if let Some((membership, queued)) = self.membership.as_mut().zip(self.inner.lane(lane)) {
            membership.want(lane, queued.name);
        }
    }

    fn is_hidden(&self, lane: LaneId) -> bool {
        self.membership.as_ref().is_some_and(|membership| !membership.owns(lane))
    }

    fn queued(&self, lane: LaneId) -> u64 {
        self.inner.lane(lane).map_or(0, |lane| lane.queued)
    }

    /// Adds what other crawls have changed.
    fn shared_news(&mut self, now: Time, news: &mut News) -> Result<(), StoreError> {
        let Some(membership) = &mut self.membership else { return Ok(()) };
        if !membership.has_news.load(Ordering::Acquire) && now < membership.next_check {
            news.due = news.due.min(membership.next_check);
            return Ok(());
        }
        let TableNews { granted, contested } = membership.take_news();
        membership.next_check = Time::NEVER;
        news.events.extend(membership.regained.drain(..).map(FrontierNews::TakenOver));
        for host in granted {
            let lane = self.inner.lane_of(&host)?;
            let shared = membership.lane(lane, &host);
            (shared.state, shared.has_asked) = (LaneState::Owned, false);
            news.events.push(FrontierNews::TakenOver(lane));
        }
        for (host, owned_for) in contested {
            let id = self.inner.lane_of(&host)?;
            let has_queued = self.inner.lane(id).is_some_and(|lane| lane.queued > 0);
            let shared = membership.lane(id, &host);
            if shared.state != LaneState::Owned {
                continue;
            }
            let turn = if shared.has_asked { TURN } else { MAX_IDLE_TURN };
            if owned_for >= turn || (!has_queued && shared.leased == 0) {
                shared.state = LaneState::Leaving;
                news.events.push(FrontierNews::Leaving(id));
            } else {
                membership.next_check = membership.next_check.min(now + turn.saturating_sub(owned_for));
            }
        }
        news.due = news.due.min(membership.next_check);
        Ok(())
    }
}

impl<S: Store> Frontier for SharedStore<S> {
    fn put(
        &mut self,
        links: &[LinkRef<'_>],
        new_hosts: NewHosts,
        admit: &mut dyn FnMut(usize, Standing) -> bool,
    ) -> Result<Vec<Placement>, StoreError> {
        let placements = self.inner.put(links, new_hosts, admit)?;
        if self.membership.is_some() {
            for placement in &placements {
                if let Placement::Queued(lane) = placement {
                    self.want(*lane);
                }
            }
        }
        Ok(placements)
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        if self.is_hidden(lane) {
            return Ok(Vec::new());
        }
        let links = self.inner.take(lane, max_links)?;
        if let Some(shared) = self.membership.as_mut().and_then(|membership| membership.lanes.get_mut(&lane)) {
            shared.leased += links.len() as u64;
        }
        Ok(links)
    }

    fn settle(&mut self, batch: &mut [Settlement<'_>]) -> Result<(), StoreError> {
        self.inner.settle(batch)?;
        let Some(membership) = &mut self.membership else { return Ok(()) };
        for settlement in batch {
            if let SettledSubject::Link(link, _) = settlement.subject {
                membership.asked(self.inner.lane_of(link.url.host())?, 1);
            }
        }
        Ok(())
    }

    fn give_back(&mut self, links: Vec<Link>, to: ReturnTo) -> Result<(), StoreError> {
        if self.membership.is_some() {
            for link in &links {
                let lane = self.inner.lane_of(link.url.host())?;
                if let Some(shared) = self.membership.as_mut().and_then(|membership| membership.lanes.get_mut(&lane)) {
                    shared.leased = shared.leased.saturating_sub(1);
                }
            }
        }
        self.inner.give_back(links, to)
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        self.inner.lane_of(host)
    }

    fn lane(&self, lane: LaneId) -> Option<QueuedLane<'_>> {
        let queued = self.inner.lane(lane)?;
        Some(if self.is_hidden(lane) { QueuedLane { queued: 0, ..queued } } else { queued })
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        let mut lanes = self.inner.lanes_with_work();
        lanes.retain(|lane| !self.is_hidden(*lane));
        lanes
    }

    fn counts(&self) -> Counts {
        self.inner.counts()
    }

    fn tell(&mut self, event: CrawlEvent<'_>) -> Result<(), StoreError> {
        match event {
            CrawlEvent::Started(waker) => {
                if let Some(membership) = &self.membership {
                    let mut table = membership.hosts.lock();
                    table.crawls.entry(membership.crawl).or_default().waker = Some(waker.clone());
                }
                // Links of an earlier run.
                for lane in self.inner.lanes_with_work() {
                    self.want(lane);
                }
            }
            CrawlEvent::AttemptFailed { link, .. } => {
                let lane = self.inner.lane_of(link.url.host())?;
                if let Some(membership) = &mut self.membership {
                    membership.asked(lane, 0);
                }
            }
            CrawlEvent::Left(lane) => {
                let has_work = self.queued(lane) > 0;
                if let Some(membership) = &mut self.membership {
                    membership.left(lane, has_work);
                }
            }
            CrawlEvent::Sending(_) | CrawlEvent::RoomForHosts(_) => {}
        }
        self.inner.tell(event)
    }

    fn news(&mut self, now: Time) -> Result<News, StoreError> {
        let mut news = self.inner.news(now)?;
        for event in &news.events {
            if let FrontierNews::Work(lane) = event {
                self.want(*lane);
            }
        }
        // Lanes of other owners have no work for this crawl.
        news.events.retain(|event| !matches!(event, FrontierNews::Work(lane) if self.is_hidden(*lane)));
        self.shared_news(now, &mut news)?;
        Ok(news)
    }
}

impl<S: Store> History for SharedStore<S> {
    fn keep_note(&mut self, about: Option<LaneId>, note: &[u8]) -> Result<(), StoreError> {
        if let Some((id, membership)) = about.zip(self.membership.as_mut())
            && let Some(lane) = membership.lanes.get_mut(&id)
            && let Ok(content) = serde_json::from_slice::<LaneNote>(note)
        {
            lane.pages = content.pages;
            if let Some(host) = membership.hosts.lock().hosts.get_mut(&lane.host) {
                let asked = host.note.asked;
                host.note = LaneNote { pages: 0, asked, ..content };
            }
        }
        self.inner.keep_note(about, note)
    }

    fn note(&mut self, about: Option<LaneId>) -> Result<Option<Vec<u8>>, StoreError> {
        let own = self.inner.note(about)?;
        let Some(lane) = about.and_then(|id| self.membership.as_ref()?.lanes.get(&id)) else { return Ok(own) };
        let table = self.membership.as_ref().map(|membership| membership.hosts.lock());
        let shared = table.as_ref().and_then(|table| table.hosts.get(&lane.host)).map(|host| &host.note);
        match shared.filter(|note| **note != LaneNote::default()) {
            Some(note) => {
                let note = LaneNote { pages: lane.pages, ..note.clone() };
                Ok(Some(serde_json::to_vec(&note).unwrap_or_default()))
            }
            None => Ok(own),
        }
    }

    fn is_recrawl(&self) -> bool {
        self.inner.is_recrawl()
    }

    fn earlier(&mut self, url: UrlRef<'_>, kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.earlier(url, kind)
    }
}

impl<S: Store> Commits for SharedStore<S> {
    fn commit(&mut self, outputs: &[CommittedOutput<'_>], is_last: bool) -> Result<Option<CommitBatch>, StoreError> {
        self.inner.commit(outputs, is_last)
    }

    fn acknowledge(&mut self, batch: &CommitBatch) -> Result<(), StoreError> {
        self.inner.acknowledge(batch)
    }

    fn log_end(&self) -> u64 {
        self.inner.log_end()
    }

    fn durable_end(&self) -> u64 {
        self.inner.durable_end()
    }

    fn awaits_note(&self, lane: LaneId) -> bool {
        self.inner.awaits_note(lane)
    }

    fn take_compaction(&mut self) -> Option<Compaction> {
        self.inner.take_compaction()
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    fn host_bytes(&self) -> usize {
        self.inner.host_bytes()
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::crawl::schedule::frontier::put_all;
    use argiope_core::{FinalOutcome, Outcome, Url};
    use argiope_store::MemoryFrontier;

    use super::*;

    fn store(hosts: &SharedHosts) -> SharedStore<MemoryFrontier> {
        let mut store = SharedHosts::share(Some(hosts), MemoryFrontier::new(1));
        let waker = FrontierWaker::new(|| ());
        store.tell(CrawlEvent::Started(&waker)).expect("it starts");
        store
    }

    fn add(store: &mut SharedStore<MemoryFrontier>, path: &str) -> LaneId {
        let url = Url::parse(&format!("https://a.example/{path}")).expect("a URL");
        let put = put_all(store, &[Link::root(url, 0)]).expect("put");
        put.lanes[0]
    }

    fn settle(store: &mut SharedStore<MemoryFrontier>, links: &[Link]) {
        let outcome = FinalOutcome { outcome: Outcome::Ok, status: Some(200), record: b"{}", is_fetched_page: true };
        for link in links {
            store.settle(&mut [Settlement::of(link, outcome)]).expect("settled");
        }
    }

    fn news(store: &mut SharedStore<MemoryFrontier>) -> Vec<FrontierNews> {
        store.news(Time::ZERO).expect("news").events
    }

    #[test]
    fn a_host_goes_to_the_next_crawl_with_its_note_when_nothing_is_in_flight() {
        let hosts = SharedHosts::default();
        let (mut first, mut second) = (store(&hosts), store(&hosts));
        let lane = add(&mut first, "1");
        assert_eq!(add(&mut second, "2"), lane, "each crawl numbers its lanes");
        let links = first.take(lane, 8).expect("links");
        assert_eq!((links.len(), second.take(lane, 8).expect("none").len()), (1, 0));
        assert_eq!((second.lane(lane).map(|lane| lane.queued), second.counts().queued), (Some(0), 1));
        let note = LaneNote { delay_ms: 700, pages: 5, ..LaneNote::default() };
        first.keep_note(Some(lane), &serde_json::to_vec(&note).expect("a note")).expect("kept");
        assert_eq!(news(&mut first), [], "the link is in flight");
        settle(&mut first, &links);
        assert_eq!(news(&mut first), [FrontierNews::Leaving(lane)]);
        assert_eq!(news(&mut second), [], "nothing has left yet");
        first.tell(CrawlEvent::Left(lane)).expect("left");
        assert_eq!(news(&mut second), [FrontierNews::TakenOver(lane)]);
        let taken: LaneNote =
            serde_json::from_slice(&second.note(Some(lane)).expect("a note").expect("a note")).expect("JSON");
        assert_eq!((taken.delay_ms, taken.pages), (700, 0), "numbers of links are those of each crawl");
        assert!(taken.asked.is_some_and(|asked| asked <= unix_millis()));
        assert_eq!(second.take(lane, 8).expect("links").len(), 1);
    }

    #[test]
    fn a_crawl_gets_its_host_back_when_it_wants_it_again() {
        let hosts = SharedHosts::default();
        let (mut first, mut second) = (store(&hosts), store(&hosts));
        let lane = add(&mut first, "1");
        add(&mut second, "2");
        let links = first.take(lane, 8).expect("links");
        settle(&mut first, &links);
        assert_eq!(news(&mut first), [FrontierNews::Leaving(lane)]);
        first.tell(CrawlEvent::Left(lane)).expect("left");
        // The other crawl is over. The host is free, and the crawl is told so, because it has given the lane up.
        drop(second);
        add(&mut first, "3");
        assert_eq!(news(&mut first), [FrontierNews::TakenOver(lane)]);
        assert_eq!((first.take(lane, 8).expect("links").len(), hosts.crawls()), (1, 1));
    }

    #[test]
    fn a_store_that_shares_no_hosts_is_as_before() {
        let mut store = SharedHosts::share(None, MemoryFrontier::new(1));
        let lane = add(&mut store, "1");
        assert_eq!((store.lanes_with_work(), store.take(lane, 8).expect("links").len()), (vec![lane], 1));
        assert_eq!(store.note(Some(lane)).expect("no note"), None);
    }
}
