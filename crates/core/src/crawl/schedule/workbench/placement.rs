//! The queue in which each lane waits, and the order of the lanes that may start.
//!
//! Invariant: a lane is in at most one queue, and its [`WaitState`] says which.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::lane_queues::Ready;
use super::{Entry, Workbench};
use crate::base::job::LaneId;
use crate::base::link::Link;
use crate::base::time::Time;
use crate::crawl::rules::RobotsPolicy;
use crate::crawl::schedule::lane::{Addresses, Lane};
use crate::crawl::wait::WaitReason;

/// A lane gets more links from the frontier when fewer than one batch divided by this are left in memory.
const REFILL_DIVISOR: usize = 4;

/// Which queue a lane is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitState {
    /// In no queue: it waits for an event.
    Nowhere,
    Ready(Ready),
    Later(Time),
    /// In the queue of an address without a free slot.
    Queued,
    /// Waits until `--rate` allows a page.
    Rated,
    /// Waits until more slots are free, because its requests hold slots for long.
    Crowded,
    /// Waits until a slot is free that is not reserved for quick lanes.
    Unproven,
}

/// The weight ([`Ready::weight`]) of a host whose robots.txt was the only request so far.
const FIRST_PAGE: u64 = u64::MAX;
/// The weight of a host without any request, or with a single one if robots.txt files are ignored.
const NEW_HOST: u64 = u64::MAX - 1;

impl Workbench {
    /// Puts a lane in the right queue after it changed.
    pub(super) fn place(&mut self, id: LaneId, now: Time) {
        self.fail_all(id, now);
        self.update_lane(id);
        let may_start_pages = self.pages_left > 0;
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if matches!(
            entry.wait,
            WaitState::Ready(_) | WaitState::Queued | WaitState::Rated | WaitState::Crowded | WaitState::Unproven
        ) {
            // The lane is checked again when it is the first in its queue.
            return;
        }
        let due = entry.lane.due(may_start_pages);
        if due <= now {
            self.enqueue_ready(id);
        } else {
            self.enqueue_later(id, due);
        }
    }

    /// Called after a lane changed: updates the counts, and requests more links of the lane from the frontier if it has
    /// few left.
    pub(super) fn update_lane(&mut self, id: LaneId) {
        let refill_below = self.lane_batch().div_ceil(REFILL_DIVISOR);
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if self.pages_left > 0
            && !entry.awaits_refill
            && entry.lane.backlog > 0
            && entry.lane.queue.len() < refill_below
        {
            entry.awaits_refill = true;
            self.wants_refill.push(id);
        }
        if entry.update_counts(&mut self.counts) {
            self.became_idle(id);
        }
    }

    /// Moves a lane to the `ready` queue.
    pub(super) fn enqueue_ready(&mut self, id: LaneId) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if let WaitState::Later(time) = entry.wait {
            self.queues.remove_later(time, id);
        }
        let order = Reverse(self.queues.next_seq());
        self.enqueue_ranked(id, order);
    }

    fn enqueue_ranked(&mut self, id: LaneId, order: Reverse<u64>) {
        let Some(ready) = self.rank(id, order) else { return };
        if let Some(entry) = self.lanes.get_mut(&id) {
            entry.wait = WaitState::Ready(ready);
            self.queues.insert_ready(ready);
        }
    }

    /// Ranks a queued lane again after one of its requests ended, because fewer requests in flight mean a higher rank.
    /// With the old rank, the lane would wait until the other lanes had as many requests in flight as it had when it
    /// was queued. Hosts would then be served one after the other, and idle connections would be closed in between.
    pub(super) fn update_rank(&mut self, id: LaneId) {
        if let Some(WaitState::Ready(ready)) = self.lanes.get(&id).map(|entry| entry.wait) {
            self.queues.remove_ready(&ready);
            self.enqueue_ranked(id, ready.seq);
        }
    }

    /// The rank of a lane among those that may start. [`Ready`] describes the order.
    pub(super) fn rank(&self, id: LaneId, order: Reverse<u64>) -> Option<Ready> {
        let lane = &self.lanes.get(&id)?.lane;
        let spacing = u64::try_from(lane.pace.spacing().as_nanos()).unwrap_or(u64::MAX);
        // The remaining time of the lane. Dividing it by the requests in flight spreads requests over hosts, and keeps
        // the connections of each in use.
        let remaining = lane.left().saturating_mul(spacing) / (lane.in_flight() as u64 + 1);
        if self.recalled == Some(id) {
            // Sequence numbers start at one, so this ranks before all other lanes.
            return Some(Ready { weight: u64::MAX, seq: Reverse(0), lane: id });
        }
        let weight = match lane.pace.starts() {
            _ if lane.is_without_rules() => 0,
            _ if self.ranks_links && lane.site_files.is_empty() => {
                let rank = lane.queue.iter().map(Link::rank).min().unwrap_or(i32::MAX);
                u64::try_from(i64::from(i32::MAX) - i64::from(rank)).unwrap_or(0)
            }
            0 => NEW_HOST,
            1 if self.rules.robots == RobotsPolicy::Obey => FIRST_PAGE,
            1 => NEW_HOST,
            _ => remaining.min(NEW_HOST - 1),
        };
        Some(Ready { weight, seq: order, lane: id })
    }

    /// Queues a lane until a time. With [`Time::NEVER`] it is in no queue.
    pub(super) fn enqueue_later(&mut self, id: LaneId, at: Time) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if let WaitState::Later(time) = entry.wait {
            self.queues.remove_later(time, id);
        }
        if at.is_never() {
            entry.wait = WaitState::Nowhere;
        } else {
            entry.wait = WaitState::Later(at);
            self.queues.insert_later(at, id);
        }
    }

    /// Moves the lanes whose time has come to the `ready` queue.
    pub(super) fn wake_due(&mut self, now: Time) {
        while let Some((_, id)) = self.queues.first_later().filter(|(time, _)| *time <= now) {
            self.enqueue_ready(id);
        }
    }

    /// Counts the end of a request at these addresses. For each address, wakes one lane that waits for it.
    pub(super) fn free_addresses(&mut self, addresses: &[IpAddr]) {
        if self.rules.per_ip.is_none() {
            return;
        }
        for ip in addresses {
            self.queues.end_at(*ip);
            self.wake_next(*ip);
        }
    }

    /// Wakes one lane that waits for a slot at this address, if a slot is free. If that lane does not use the slot, the
    /// next one is woken.
    pub(super) fn wake_next(&mut self, ip: IpAddr) {
        if let Some(id) = self.queues.pop_waiting(ip, self.rules.per_ip)
            && let Some(entry) = self.lanes.get_mut(&id)
        {
            entry.woken_by = Some(ip);
            self.enqueue_ready(id);
        }
    }

    /// The lane that will start first, and what it waits for, for the live view.
    pub fn waits_for(&self, now: Time) -> Option<(Arc<str>, WaitReason, Duration)> {
        if let Some(entry) = self.queues.first_rated().and_then(|id| self.lanes.get(&id)) {
            return Some((Arc::clone(&entry.lane.name), WaitReason::Rate, self.next_start - now));
        }
        let (time, id) = self.queues.first_later()?;
        let lane = &self.lanes.get(&id)?.lane;
        Some((Arc::clone(&lane.name), wait_reason(lane, now), time - now))
    }

    /// What a lane waits for, and how long at least; zero if it waits for an event. `None` if it only waits for its
    /// turn.
    pub fn wait_of(&self, id: LaneId, now: Time) -> Option<(WaitReason, Duration)> {
        let Entry { lane, wait, .. } = &**self.lanes.get(&id)?;
        match wait {
            _ if matches!(lane.addresses, Addresses::Resolving { .. }) => Some((WaitReason::Dns, Duration::ZERO)),
            WaitState::Later(time) => Some((wait_reason(lane, now), *time - now)),
            WaitState::Nowhere if lane.in_flight() > 0 => Some((WaitReason::Responses, Duration::ZERO)),
            WaitState::Rated => Some((WaitReason::Rate, self.next_start - now)),
            WaitState::Nowhere | WaitState::Ready(_) | WaitState::Queued | WaitState::Crowded | WaitState::Unproven => {
                None
            }
        }
    }
}

/// Why a lane in the queue `later` waits.
fn wait_reason(lane: &Lane, now: Time) -> WaitReason {
    if lane.pace.backs_off_until() > now {
        WaitReason::BackOff
    } else if lane.pace.has_crawl_delay() {
        WaitReason::CrawlDelay
    } else if lane.pace.due() > now {
        WaitReason::Delay
    } else {
        WaitReason::Retry
    }
}
