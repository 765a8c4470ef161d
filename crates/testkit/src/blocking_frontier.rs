//! [`BlockingFrontier`]: implements [`Frontier`] with the scripts of a cluster, one round trip per call.

use std::collections::{BTreeMap, HashMap, HashSet};

use argiope_core::base::link::ALREADY_SENT;
use argiope_core::crawl::schedule::frontier::{
    CrawlEvent, NewHosts, Placement, QueuedLane, ReturnTo, SettledSubject, Settlement, Standing,
};
use argiope_core::{Counts, Frontier, LaneId, Link, LinkRef, StoreError, StoreErrorKind};

use argiope_fleet::cluster::{
    FleetClient, LeaseToken, QueuedLink, SettleReply, SettleRequest, TakeRequest, Unreachable, bucket_of,
};
use argiope_store::lanes::LaneNames;

/// Duration of this frontier's leases.
const LEASE_MS: u64 = 60_000;

fn store_error(fault: Unreachable) -> StoreError {
    StoreError::new(StoreErrorKind::File, format!("the store of the fleet: {}", fault.message))
}

/// A frontier in a cluster that waits for every reply, for tests of the scripts. A crawl uses
/// `FleetFrontier` instead.
pub struct BlockingFrontier {
    client: FleetClient,
    /// The key of the fingerprints.
    key: u64,
    /// The number of buckets of the crawl.
    buckets: u32,
    names: LaneNames,
    /// The buckets that this frontier has leased.
    held: HashMap<u32, HeldEpoch>,
    /// The number of queued links of each lane.
    queued: HashMap<LaneId, u64>,
    /// The fingerprints of the links that were put. No other client puts links into the crawls of the tests.
    known: HashSet<u64>,
    /// The fingerprints of the leased links.
    leased: HashSet<u64>,
    counts: Counts,
}

/// The lease of a bucket. Its settles and takes have sequence numbers, so that the store recognises a repeated request.
#[derive(Clone, Copy, Default)]
struct HeldEpoch {
    epoch: u64,
    last_settle: u64,
    last_take: u64,
}

impl BlockingFrontier {
    pub fn new(client: FleetClient, key: u64, buckets: u32) -> Self {
        Self {
            client,
            key,
            buckets,
            names: LaneNames::default(),
            held: HashMap::new(),
            queued: HashMap::new(),
            known: HashSet::new(),
            leased: HashSet::new(),
            counts: Counts::default(),
        }
    }

    /// The fencing token of a bucket, which is acquired if it is not held.
    fn token(&mut self, bucket: u32) -> Result<LeaseToken, StoreError> {
        if let Some(held) = self.held.get(&bucket) {
            return Ok(LeaseToken { bucket, epoch: held.epoch });
        }
        // The crawls of the tests have no page limit.
        let is_limited = false;
        let acquired = self.client.acquire(&[bucket], LEASE_MS, is_limited).map_err(store_error)?;
        let Some(acquired) = acquired.first() else {
            return Err(StoreError::new(StoreErrorKind::Locked, format!("bucket {bucket} has another owner")));
        };
        self.held.insert(bucket, HeldEpoch { epoch: acquired.epoch, ..HeldEpoch::default() });
        Ok(LeaseToken { bucket, epoch: acquired.epoch })
    }

    fn fingerprint(&self, link: &Link) -> u64 {
        link.fingerprint(self.key)
    }

    /// Removes a link from `leased`; returns its fingerprint, or an error if it is not leased.
    fn end_lease(&mut self, link: &Link) -> Result<u64, StoreError> {
        let fingerprint = self.fingerprint(link);
        if self.leased.remove(&fingerprint) {
            return Ok(fingerprint);
        }
        Err(StoreError::new(StoreErrorKind::Misuse, format!("{} is not leased", link.url)))
    }
}

impl Frontier for BlockingFrontier {
    fn put(
        &mut self,
        links: &[LinkRef<'_>],
        _new_hosts: NewHosts,
        admit: &mut dyn FnMut(usize, Standing) -> bool,
    ) -> Result<Vec<Placement>, StoreError> {
        let mut batches: BTreeMap<u32, (Vec<usize>, Vec<QueuedLink>)> = BTreeMap::new();
        for (index, link) in links.iter().enumerate() {
            let bucket = bucket_of(link.url.host(), self.buckets);
            let is_known = self.known.contains(&link.fingerprint(self.key));
            if admit(index, if is_known { Standing::Known } else { Standing::Unknown }) {
                self.known.insert(link.fingerprint(self.key));
                let (indexes, batch) = batches.entry(bucket).or_default();
                indexes.push(index);
                batch.push(QueuedLink::new(*link, self.key));
            }
        }
        let (mut indexes_by_bucket, mut links_by_bucket) = (Vec::new(), Vec::new());
        for (bucket, (indexes, batch)) in batches {
            indexes_by_bucket.push(indexes);
            links_by_bucket.push((bucket, batch));
        }
        let results = self.client.put_idempotent(&links_by_bucket).map_err(store_error)?;
        let mut placements = vec![Placement::NotAdded; links.len()];
        for (indexes, result) in indexes_by_bucket.into_iter().zip(results) {
            for (index, _) in indexes.into_iter().zip(result.new).filter(|(_, new)| *new) {
                let lane = self.lane_of(links[index].url.host())?;
                self.counts.known += 1;
                self.counts.queued += 1;
                *self.queued.entry(lane).or_default() += 1;
                placements[index] = Placement::Queued(lane);
            }
        }
        Ok(placements)
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        let Some(host) = self.names.name(lane).map(Box::<str>::from) else { return Ok(Vec::new()) };
        let token = self.token(bucket_of(&host, self.buckets))?;
        // The caller may pass `usize::MAX`, which Lua cannot represent.
        let max_links = max_links.min(1 << 20);
        let sequence = self.held.get(&token.bucket).map_or(0, |held| held.last_take) + 1;
        let request = TakeRequest { token, sequence, max_links, max_per_other_host: 0, hosts: vec![(host, max_links)] };
        let Some(Some(result)) = self.client.take(&[request]).map_err(store_error)?.into_iter().next() else {
            return Err(StoreError::new(StoreErrorKind::Locked, "the lease of a bucket has ended"));
        };
        if let Some(held) = self.held.get_mut(&token.bucket) {
            held.last_take = sequence;
        }
        let mut links = Vec::new();
        for host in result.hosts {
            links.extend(host.links.into_iter().map(|taken| taken.link));
            self.queued.insert(lane, host.left);
        }
        self.leased.extend(links.iter().map(|link| link.fingerprint(self.key)));
        self.counts.queued -= links.len() as u64;
        self.counts.leased += links.len() as u64;
        Ok(links)
    }

    fn settle(&mut self, batch: &mut [Settlement<'_>]) -> Result<(), StoreError> {
        for settlement in batch {
            let SettledSubject::Link(link, _) = settlement.subject else { continue };
            let fingerprint = self.end_lease(link)?;
            let token = self.token(bucket_of(link.url.host(), self.buckets))?;
            let sequence = self.held.get(&token.bucket).map_or(0, |held| held.last_settle) + 1;
            let request = SettleRequest { token, sequence, pages: 1, bytes: 0, fingerprints: vec![fingerprint] };
            if let Some(SettleReply::Refused(why)) =
                self.client.settle(&[request]).map_err(store_error)?.into_iter().next()
            {
                return Err(StoreError::new(StoreErrorKind::Locked, format!("a settle was refused: {why}")));
            }
            if let Some(held) = self.held.get_mut(&token.bucket) {
                held.last_settle = sequence;
            }
            self.counts.leased -= 1;
            self.counts.settled += 1;
        }
        Ok(())
    }

    fn give_back(&mut self, links: Vec<Link>, _to: ReturnTo) -> Result<(), StoreError> {
        for link in links {
            self.end_lease(&link)?;
            let token = self.token(bucket_of(link.url.host(), self.buckets))?;
            let stored = QueuedLink::new(LinkRef::from(&link), self.key);
            if !self.client.give_back(token, &[stored]).map_err(store_error)? {
                return Err(StoreError::new(StoreErrorKind::Locked, "the lease of a bucket has ended"));
            }
            let lane = self.lane_of(link.url.host())?;
            *self.queued.entry(lane).or_default() += 1;
            self.counts.leased -= 1;
            self.counts.queued += 1;
        }
        Ok(())
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        self.names.intern(host).map(|(lane, _)| lane)
    }

    fn lane(&self, lane: LaneId) -> Option<QueuedLane<'_>> {
        let queued = self.queued.get(&lane).copied().unwrap_or(0);
        Some(QueuedLane { name: self.names.name(lane)?, queued })
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        let mut lanes: Vec<_> = self.queued.iter().filter(|(_, count)| **count > 0).map(|(lane, _)| *lane).collect();
        lanes.sort_unstable();
        lanes
    }

    fn counts(&self) -> Counts {
        self.counts
    }
    fn tell(&mut self, event: CrawlEvent<'_>) -> Result<(), StoreError> {
        let CrawlEvent::Sending(link) = event else { return Ok(()) };
        let token = self.token(bucket_of(link.url.host(), self.buckets))?;
        // The number of tries tells the next owner of the bucket that the request was sent.
        let sent = Link { tries: ALREADY_SENT, ..link.clone() };
        let stored = QueuedLink::new(LinkRef::from(&sent), self.key);
        if !self.client.update_leased(token, &[stored]).map_err(store_error)? {
            return Err(StoreError::new(StoreErrorKind::Locked, "the lease of a bucket has ended"));
        }
        Ok(())
    }
}
