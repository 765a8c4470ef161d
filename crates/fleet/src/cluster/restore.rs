//! Puts a crawl that the store has lost into the store again, from its results.
//!
//! The results have every settled link with its record, the links of every page, how far each lease was settled, and
//! notes about hosts. What was queued is found again: the roots, the links of pages that are not settled, and in a
//! recrawl the URLs of the previous round. What the store alone knew is lost: settles whose positions were not written,
//! so that their links are crawled again and get one record.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use argiope_core::base::time::WallClock;
use argiope_core::crawl::record::LazyRecord;
use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::carryover::LaneNote;
use argiope_core::page::scope::ScopeVerdict;
use argiope_core::page::sitemap::SitemapBounds;
use argiope_core::{Link, LinkKind, LinkRef, StoreError, Time, Url, UrlRef};

use super::bucket_of;
use super::client::{FleetClient, RestoredBucket};
use super::codec::QueuedLink;
use super::connection::Unreachable;
use super::crawl::{FleetSettings, FleetState};
use super::host_note::to_wire;
use super::round::{LINKS_PER_PUT, RequeueError, link_of, requeue};
use crate::segments::{SegmentItem, SegmentStore, graph_of_round};

/// How many links a restored crawl has.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoredCounts {
    pub settled: u64,
    pub queued: u64,
}

/// A settled page, as far as its links need it.
#[derive(Clone, Copy)]
struct SettledPage {
    depth: u32,
    /// How many redirects its link might still follow.
    redirects: u8,
    kind: LinkKind,
}

/// Puts the crawl of these results into the store. `client` has the name of their round in the store, which has no data
/// of it. `wall` is the clock of this process.
pub fn restore(
    client: &mut FleetClient,
    settings: &FleetSettings,
    results: &SegmentStore,
    rules: &Rules,
    wall: WallClock,
) -> Result<RestoredCounts, RequeueError> {
    settings.create(client)?;
    FleetState::Restoring.set(client)?;
    client.set_max_per_host(settings.max_pages_per_host);
    let mut restoration = Restoration {
        client,
        settings,
        rules,
        wall,
        pages: HashMap::new(),
        sitemaps: HashMap::new(),
        queued: Batches::default(),
    };
    let buckets = restoration.put_settled(results)?;
    let roots = rules.roots.iter().filter_map(|root| root.candidates.first());
    let roots: Vec<Link> = roots.map(|url| Link::root(url.clone(), rules.max_redirects)).collect();
    for link in &roots {
        restoration.queue(LinkRef::from(link))?;
    }
    restoration.queue_rest()?;
    if settings.round > 1 {
        requeue(restoration.client, settings, results, |_| true)?;
    }
    restoration.queue_links(results)?;
    let now = FleetSettings::store_time(restoration.client)?;
    restoration.client.restore_buckets(&buckets, now)?;
    if let Some(max_pages) = settings.max_pages {
        let fetched = buckets.values().map(|bucket| bucket.pages).sum();
        let left = max_pages.saturating_sub(fetched).to_string();
        let pool = restoration.client.crawl_key("pool");
        restoration.client.plain_replicated(&pool, &[b"HSET", pool.as_bytes(), b"left", left.as_bytes()])?;
    }
    let states = restoration.client.survey(settings.buckets)?;
    FleetState::Running.set(restoration.client)?;
    Ok(RestoredCounts {
        settled: states.iter().map(|state| state.settled).sum(),
        queued: states.iter().map(|state| state.queued).sum(),
    })
}

/// Links on their way to the store, by bucket.
#[derive(Default)]
struct Batches {
    links: BTreeMap<u32, Vec<QueuedLink>>,
    count: usize,
}

impl Batches {
    fn add(&mut self, bucket: u32, link: QueuedLink) {
        self.links.entry(bucket).or_default().push(link);
        self.count += 1;
    }

    fn is_full(&self) -> bool {
        self.count >= LINKS_PER_PUT
    }

    fn take(&mut self) -> Vec<(u32, Vec<QueuedLink>)> {
        self.count = 0;
        std::mem::take(&mut self.links).into_iter().collect()
    }
}

/// The state of a restoration.
struct Restoration<'a> {
    client: &'a mut FleetClient,
    settings: &'a FleetSettings,
    rules: &'a Rules,
    wall: WallClock,
    /// The settled pages whose links may be followed, by the fingerprint of their URL.
    pages: HashMap<u64, SettledPage>,
    /// For each sitemap, the host of the file that names it.
    sitemaps: HashMap<u64, Box<str>>,
    /// Links to queue.
    queued: Batches,
}

impl Restoration<'_> {
    /// Adds all settled links. Returns what the results say about the buckets.
    fn put_settled(&mut self, results: &SegmentStore) -> Result<BTreeMap<u32, RestoredBucket>, RequeueError> {
        let mut buckets: BTreeMap<u32, RestoredBucket> = BTreeMap::new();
        for (bucket, epoch, owner, last) in results.positions().map_err(RequeueError::Results)? {
            buckets.entry(bucket).or_default().positions.push((epoch, owner, last));
        }
        let mut batches = Batches::default();
        let mut store_error = None;
        let read = results.read_items(|item| {
            match item {
                SegmentItem::Graph(_) => {}
                SegmentItem::Note { host, note } => {
                    if let Ok(note) = serde_json::from_slice::<LaneNote>(note) {
                        let wire = to_wire(host, &note, self.wall, Time::ZERO);
                        let notes = &mut buckets.entry(self.bucket(host)).or_default().notes;
                        notes.retain(|earlier| earlier.host != wire.host);
                        notes.push(wire);
                    }
                }
                SegmentItem::Line { line, origin } => {
                    let Some(record) = LazyRecord::read(line) else { return Ok(()) };
                    let Some(link) = origin.and_then(|origin| link_of(&record, origin)) else { return Ok(()) };
                    let bucket = self.bucket(link.url.host());
                    let totals = buckets.entry(bucket).or_default();
                    totals.pages += u64::from(record.is_fetched_page());
                    if self.settings.max_bytes.is_some() {
                        totals.bytes += record.bytes_wire().unwrap_or(0);
                    }
                    self.note_page(&link, record.nofollow());
                    batches.add(bucket, QueuedLink::new(LinkRef::from(&link), self.settings.key));
                }
            }
            if batches.is_full() {
                self.client.put_settled(&batches.take()).map_err(|fault| stop(&mut store_error, fault))?;
            }
            Ok(())
        });
        if let Some(fault) = store_error {
            return Err(fault.into());
        }
        read.map_err(RequeueError::Results)?;
        self.client.put_settled(&batches.take())?;
        Ok(buckets)
    }

    fn bucket(&self, host: &str) -> u32 {
        bucket_of(host, self.settings.buckets)
    }

    /// Remembers what the links of a settled page need.
    fn note_page(&mut self, link: &Link, is_nofollow: bool) {
        let fingerprint = link.url.fingerprint(self.settings.key);
        if link.kind == LinkKind::SitemapFile {
            if let Some(via) = &link.via {
                self.sitemaps.entry(fingerprint).or_insert_with(|| via.host().into());
            }
        } else if !is_nofollow || self.rules.follow_nofollow {
            let Link { depth, redirects, kind, .. } = *link;
            self.pages.entry(fingerprint).or_insert(SettledPage { depth, redirects, kind });
        }
    }

    /// Queues the links of all settled pages and sitemaps. Those that are settled are known.
    fn queue_links(&mut self, results: &SegmentStore) -> Result<(), RequeueError> {
        let mut store_error = None;
        let read = graph_of_round(Path::new(&self.settings.out), results.clone()).pages(|page| {
            let Ok(source) = Url::parse(page.source) else { return Ok(()) };
            let fingerprint = source.fingerprint(self.settings.key);
            let of_sitemap = SettledPage { depth: 0, redirects: self.rules.max_redirects, kind: LinkKind::SitemapFile };
            let found = if page.is_sitemap { Some(of_sitemap) } else { self.pages.get(&fingerprint).copied() };
            let Some(settled) = found else { return Ok(()) };
            let naming_hosts = self.sitemaps.get(&fingerprint).cloned().into_iter().collect();
            let bounds = SitemapBounds { naming_hosts, ..SitemapBounds::default() };
            for edge in page.edges() {
                if edge.nofollow && !self.rules.follow_nofollow {
                    continue;
                }
                let Some(link) = self.followed(&source, settled, edge.target, edge.kind) else { continue };
                if page.is_sitemap && edge.kind == LinkKind::Sitemap && !bounds.admits(&source, &link.url) {
                    continue;
                }
                self.queue(LinkRef::from(&link)).map_err(|fault| stop(&mut store_error, fault))?;
            }
            Ok::<(), StoppedReading>(())
        });
        if let Some(fault) = store_error {
            return Err(fault.into());
        }
        read.map_err(|StoppedReading(error)| RequeueError::Results(error))?;
        Ok(self.queue_rest()?)
    }

    /// The link that a settled page adds to the crawl; `None` if it is not followed.
    fn followed(&self, source: &Url, page: SettledPage, target: &str, kind: LinkKind) -> Option<Link> {
        let is_redirect = kind == LinkKind::Redirect;
        // The resources of an embedded page are not followed.
        let is_wanted = match kind {
            LinkKind::SitemapFile => true,
            kind => self.rules.scope.follows(kind) && (is_redirect || page.kind != LinkKind::Asset),
        };
        let target = UrlRef::from_normal(target).filter(|_| is_wanted)?;
        let stripped = if is_redirect { None } else { self.rules.strip_params.strip(target) };
        let url = stripped.unwrap_or_else(|| target.to_url());
        let depth = if is_redirect { page.depth } else { page.depth.saturating_add(1) };
        let redirects = if is_redirect { page.redirects.checked_sub(1)? } else { self.rules.max_redirects };
        let judged_as = if is_redirect && page.kind == LinkKind::Asset { LinkKind::Asset } else { kind };
        let is_followed = self.rules.scope.judge(url.as_ref(), depth, judged_as) == ScopeVerdict::Follow;
        let via = Some(source.clone());
        is_followed.then_some(Link { url, via, depth, redirects, tries: 0, kind, request: None })
    }

    fn queue(&mut self, link: LinkRef<'_>) -> Result<(), Unreachable> {
        let bucket = self.bucket(link.url.host());
        self.queued.add(bucket, QueuedLink::new(link, self.settings.key));
        if self.queued.is_full() { self.queue_rest() } else { Ok(()) }
    }

    fn queue_rest(&mut self) -> Result<(), Unreachable> {
        let batches = self.queued.take();
        self.client.put(&batches).map(drop)
    }
}

/// Keeps an error of the store, and returns one that ends the reading of results.
fn stop(kept: &mut Option<Unreachable>, fault: Unreachable) -> io::Error {
    *kept = Some(fault);
    io::Error::other("stopped")
}

/// Why the reading of the link graph ended.
struct StoppedReading(io::Error);

impl From<io::Error> for StoppedReading {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<StoreError> for StoppedReading {
    fn from(error: StoreError) -> Self {
        Self(io::Error::other(error))
    }
}
