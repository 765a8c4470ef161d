//! The part of the lease thread that moves buckets: it follows its [`plan`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::client::{Acquired, BucketState};
use super::super::connection::Unreachable;
use super::super::crawl::Members;
use super::super::plan::{Plan, PlannedBucket, PlannedOwner, Tolerance, plan};
use super::super::shared::LeaseEvent;
use super::{LeaseThread, LeasedBucket};

/// After processes have joined or left, even small differences of work are balanced for this long.
const REBALANCING_TIME: Duration = Duration::from_secs(15);
/// For how long this process must have much more work than the mean before it releases some, if no process joins or
/// leaves.
const UNEVEN_TIME: Duration = Duration::from_secs(10);
/// A bucket with work that no process has taken for this long may be taken by any.
const UNCLAIMED_TIME: Duration = Duration::from_secs(5);

impl LeaseThread {
    /// Moves towards an even share of the work: releases buckets above it, and acquires free ones ([`plan`]).
    pub(super) fn balance(&mut self, states: &[BucketState], members: &Members) -> Result<(), Unreachable> {
        let active = self.active_processes(members.live);
        // A process that cannot store results takes nothing.
        let takers = members.live().take(active).filter(|member| member.stalled.is_none());
        let takers: Vec<String> = takers.map(|member| member.id.clone()).collect();
        if takers != self.takers.0 {
            self.takers = (takers.clone(), Instant::now());
        }
        if takers.is_empty() {
            return Ok(());
        }
        let buckets = self.planned_buckets(states, &takers, members.now_ms);
        let own_id = self.client.owner().to_owned();
        let me = takers.iter().position(|id| *id == own_id);
        let tolerance = if self.takers.1.elapsed() < REBALANCING_TIME { Tolerance::Small } else { Tolerance::Large };
        let Plan { mut release, acquire } = match me {
            Some(me) => plan(&buckets, me, takers.len(), tolerance),
            None => Plan { release: self.held.keys().copied().collect(), acquire: Vec::new() },
        };
        // The work of the same processes changes all the time, so it must be uneven for a while.
        if release.is_empty() || tolerance == Tolerance::Small || me.is_none() {
            self.uneven_since = None;
        } else if self.uneven_since.get_or_insert_with(Instant::now).elapsed() < UNEVEN_TIME {
            release.clear();
        } else {
            self.uneven_since = None;
        }
        for bucket in release {
            let Some(held) = self.held.get_mut(&bucket).filter(|held| !held.is_leaving) else { continue };
            held.is_leaving = true;
            self.shared.send_event(LeaseEvent::Leaving { bucket });
        }
        let unclaimed = self.unclaimed(&buckets).into_iter().filter(|_| me.is_some());
        let mut free: Vec<u32> = acquire.into_iter().chain(unclaimed).collect();
        free.sort_unstable();
        free.dedup();
        self.acquire(&free)
    }

    /// The buckets as a plan sees them.
    fn planned_buckets(&self, states: &[BucketState], takers: &[String], now_ms: u64) -> Vec<PlannedBucket> {
        let indexes: HashMap<&str, usize> = takers.iter().zip(0..).map(|(id, index)| (id.as_str(), index)).collect();
        let planned = |(number, state): (u32, &BucketState)| {
            if let Some(held) = self.held.get(&number) {
                let me = indexes.get(self.client.owner()).filter(|_| !held.is_leaving);
                let owner = me.map_or(PlannedOwner::Other, |me| PlannedOwner::Taker(*me));
                return PlannedBucket { hosts: held.hosts_with_work(), owner };
            }
            // This process owns a bucket without holding it if the answer to `acquire` was lost.
            let is_free = state.owner.is_empty() || state.owner == self.client.owner() || state.until <= now_ms;
            let owner = match indexes.get(state.owner.as_str()) {
                _ if is_free => PlannedOwner::Free,
                Some(taker) => PlannedOwner::Taker(*taker),
                None => PlannedOwner::Other,
            };
            PlannedBucket { hosts: state.hosts, owner }
        };
        (0..).zip(states).map(planned).collect()
    }

    /// Buckets with work that have been free for so long that any process may take them.
    fn unclaimed(&mut self, buckets: &[PlannedBucket]) -> Vec<u32> {
        let mut unclaimed = Vec::new();
        for ((number, bucket), since) in (0..).zip(buckets).zip(&mut self.free_since) {
            if bucket.owner != PlannedOwner::Free || bucket.hosts == 0 {
                *since = None;
            } else if since.get_or_insert_with(Instant::now).elapsed() >= UNCLAIMED_TIME {
                unclaimed.push(number);
            }
        }
        unclaimed
    }

    /// Acquires those of these buckets that no other process acquires first.
    fn acquire(&mut self, free: &[u32]) -> Result<(), Unreachable> {
        if free.is_empty() {
            return Ok(());
        }
        let (sent_at, lease_start) = (Instant::now(), (self.shared.now)());
        let is_limited = self.settings.max_pages.is_some();
        let acquired = self.client.acquire(free, self.times.lease_ms(), is_limited)?;
        // One lease of the process covers all its buckets. This call has not renewed older ones, so only the first
        // acquisition may set the end of the lease.
        if self.held.is_empty() && !acquired.is_empty() {
            self.shared.lease.renew(lease_start + self.times.lease, (self.shared.now)());
            self.last_renewal = sent_at;
        }
        for Acquired { bucket, epoch, queued } in acquired {
            // `take` requests a quota when it is 0.
            let quota = is_limited.then_some(0);
            let held = LeasedBucket {
                epoch,
                takes: 0,
                hosts: HashMap::new(),
                queued,
                should_take: queued > 0,
                busy_hosts: 0,
                is_leaving: false,
                quota,
            };
            self.held.insert(bucket, held);
            self.shared.send_event(LeaseEvent::Acquired { bucket, epoch });
        }
        Ok(())
    }
}
