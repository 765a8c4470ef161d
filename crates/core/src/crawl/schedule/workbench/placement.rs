//! Which queue a lane moves to after it changed, and its rank among the lanes that may start.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::time::Duration;

use super::Workbench;
use super::wait::{Ready, Wait};
use crate::base::job::LaneId;
use crate::base::link::Link;
use crate::base::time::Time;
use crate::crawl::rules::RobotsPolicy;
use crate::crawl::schedule::lane::{Addresses, Lane};
use crate::crawl::status::HostWait;
use crate::crawl::wait::WaitReason;

/// A lane gets more links from the frontier when fewer than one batch divided by this are left in memory.
const REFILL_DIVISOR: usize = 4;

/// The weight ([`Ready::weight`]) of a lane with requests of rendered pages.
pub(super) const PARTS: u64 = u64::MAX;
/// The weight of a host whose robots.txt was the only request so far.
const FIRST_PAGE: u64 = u64::MAX - 1;
/// The weight of a host without any request, or with a single one if robots.txt files are ignored.
const NEW_HOST: u64 = u64::MAX - 2;

/// A page with more bytes of links than this delays the next request to its host, if other quick lanes have work.
const HEAVY_LINKS: usize = 128 << 10;
/// The delay for each byte of links, in nanoseconds. The work itself takes about a tenth of that.
const NANOS_PER_LINK_BYTE: u64 = 20;
/// The longest delay of this kind.
const LONGEST_WORK_PAUSE: Duration = Duration::from_secs(2);

impl Workbench {
    /// Puts a lane in the right queue after it changed.
    pub(super) fn place(&mut self, id: LaneId, now: Time) {
        self.fail_all(id, now);
        self.update_lane(id);
        let Some(entry) = self.lanes.get(id) else { return };
        match entry.wait {
            Wait::Event | Wait::Until(_) => {}
            // The lane is checked again when it is the first in its queue.
            Wait::Turn(_) | Wait::Rate(_) | Wait::Address | Wait::FreeSlots | Wait::UnreservedSlot(_) => return,
        }
        let due = entry.lane.due(self.pages.may_start());
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
        let Some((entry, counts)) = self.lanes.get_with_counts(id) else { return };
        let has_few = entry.lane.backlog > 0 && entry.lane.queue.len() < refill_below;
        if has_few && !entry.awaits_refill && self.pages.may_start() {
            entry.awaits_refill = true;
            self.wants_refill.push(id);
        }
        if entry.update_counts(counts) {
            self.became_idle(id);
        }
    }

    /// Releases the memory that a lane without work does not need, and allows its eviction.
    pub(super) fn became_idle(&mut self, id: LaneId) {
        if let Some(entry) = self.lanes.get_mut(id) {
            entry.lane.release_memory();
        }
        self.residence.became_idle(id, &self.lanes);
    }

    /// Gives a lane its turn, after the lanes of the same weight that have theirs already.
    pub(super) fn enqueue_ready(&mut self, id: LaneId) {
        let order = Reverse(self.queues.next_seq());
        self.enqueue_ranked(id, order, Wait::Turn);
    }

    /// Moves a lane to a queue that is ordered by rank.
    pub(super) fn enqueue_ranked(&mut self, id: LaneId, order: Reverse<u64>, wait: impl FnOnce(Ready) -> Wait) {
        let Some(entry) = self.lanes.get_mut(id) else { return };
        let ready = if self.robots.is_recalled(id) {
            // Sequence numbers start at one, so this ranks before all other lanes.
            Ready { weight: u64::MAX, seq: Reverse(0), lane: id }
        } else {
            Ready { weight: weight(&entry.lane, self.rules.robots, self.ranks_links), seq: order, lane: id }
        };
        let wait = wait(ready);
        // After most requests, a lane is ranked as it was queued just before.
        if wait != entry.wait {
            self.queues.move_to(id, &mut entry.wait, wait);
        }
    }

    /// Ranks a lane that waits in an ordered queue again after its links changed or one of its requests ended, because
    /// better links and fewer requests in flight mean a higher rank. With the old rank, the lane would wait until the
    /// other lanes had as many requests in flight as it had when it was queued. Hosts would then be served one after the
    /// other, and idle connections would be closed in between.
    pub(super) fn update_rank(&mut self, id: LaneId) {
        match self.lanes.get(id).map(|entry| entry.wait) {
            Some(Wait::Turn(ready)) => self.enqueue_ranked(id, ready.seq, Wait::Turn),
            Some(Wait::Rate(ready)) => self.enqueue_ranked(id, ready.seq, Wait::Rate),
            Some(Wait::UnreservedSlot(ready)) => self.enqueue_ranked(id, ready.seq, Wait::UnreservedSlot),
            Some(Wait::Event | Wait::Until(_) | Wait::Address | Wait::FreeSlots) | None => {}
        }
    }

    /// Lets a lane wait until a time; until an event with [`Time::NEVER`].
    pub(super) fn enqueue_later(&mut self, id: LaneId, at: Time) {
        if let Some(entry) = self.lanes.get_mut(id) {
            let wait = if at.is_never() { Wait::Event } else { Wait::Until(at) };
            self.queues.move_to(id, &mut entry.wait, wait);
        }
    }

    /// Gives the lanes whose time has come their turn.
    pub(super) fn wake_due(&mut self, now: Time) {
        while let Some((_, id)) = self.queues.first_later().filter(|(time, _)| *time <= now) {
            self.enqueue_ready(id);
        }
    }

    /// Gives the first lane that waits for a slot that is not reserved its turn, if there is such a slot.
    pub(super) fn wake_for_unreserved(&mut self, now: Time) {
        if self.queues.has_lane_for_unreserved() && !self.slots.is_reserved(self.lanes.counts(), now) {
            self.queues.release_one_for_unreserved(&mut self.lanes);
        }
    }

    /// Gives the lanes that wait for more free slots their turn, if enough are free.
    pub(super) fn wake_for_free_slots(&mut self, now: Time) {
        if self.queues.has_lane_for_free_slots() && !self.slots.is_short(self.lanes.counts(), now) {
            self.queues.take_for_free_slots().into_iter().for_each(|id| self.enqueue_ready(id));
        }
    }

    /// Gives a lane that waited for a slot of this address its turn. If it does not use the slot, the next one is woken.
    pub(super) fn wake_for_address(&mut self, id: LaneId, ip: IpAddr) {
        if let Some(entry) = self.lanes.get_mut(id) {
            entry.woken_by = Some(ip);
            self.enqueue_ready(id);
        }
    }

    /// Delays the next request of a lane whose page has very many links, if other quick lanes have work. Such pages
    /// keep the threads busy, and all hosts share these threads.
    pub(super) fn share_work_time(&mut self, id: LaneId, link_bytes: usize, now: Time) {
        if link_bytes <= HEAVY_LINKS {
            return;
        }
        let Some((entry, counts)) = self.lanes.get_with_counts(id) else { return };
        if counts.quick() > usize::from(entry.counted.is_quick()) {
            let work = Duration::from_nanos(link_bytes as u64 * NANOS_PER_LINK_BYTE);
            entry.lane.pace.extend_pause(work, LONGEST_WORK_PAUSE, now);
        }
    }

    /// The lane that will start first, and what it waits for, for the live view.
    pub fn first_wait(&self, now: Time) -> Option<HostWait> {
        let wait_of = |lane: &Lane, reason, next_in| HostWait { host: lane.name.as_ref().into(), reason, next_in };
        if let Some(entry) = self.queues.first_for_rate().and_then(|id| self.lanes.get(id)) {
            return Some(wait_of(&entry.lane, WaitReason::Rate, self.pages.next_start() - now));
        }
        let (time, id) = self.queues.first_later()?;
        let lane = &self.lanes.get(id)?.lane;
        Some(wait_of(lane, wait_reason(lane, now), time - now))
    }

    /// What a lane waits for, and how long at least; zero if it waits for an event. `None` if it only waits for its
    /// turn.
    pub fn wait_of(&self, id: LaneId, now: Time) -> Option<(WaitReason, Duration)> {
        let entry = self.lanes.get(id)?;
        let lane = &entry.lane;
        match entry.wait {
            _ if matches!(lane.addresses, Addresses::Resolving { .. }) => Some((WaitReason::Dns, Duration::ZERO)),
            Wait::Until(time) => Some((wait_reason(lane, now), time - now)),
            Wait::Event if lane.in_flight() > 0 => Some((WaitReason::Responses, Duration::ZERO)),
            Wait::Rate(_) => Some((WaitReason::Rate, self.pages.next_start() - now)),
            Wait::Event | Wait::Turn(_) | Wait::Address | Wait::FreeSlots | Wait::UnreservedSlot(_) => None,
        }
    }
}

/// The weight of a lane among those that may start. [`Ready`] describes the order.
fn weight(lane: &Lane, robots: RobotsPolicy, ranks_links: bool) -> u64 {
    match lane.pace.starts() {
        _ if lane.has_parts() => PARTS,
        _ if lane.is_without_rules() => 0,
        _ if ranks_links && lane.site_files.is_empty() => {
            let rank = lane.queue.iter().map(Link::rank).min().unwrap_or(i32::MAX);
            u64::try_from(i64::from(i32::MAX) - i64::from(rank)).unwrap_or(0)
        }
        0 => NEW_HOST,
        1 if robots == RobotsPolicy::Obey => FIRST_PAGE,
        1 => NEW_HOST,
        _ => {
            let spacing = u64::try_from(lane.pace.spacing().as_nanos()).unwrap_or(u64::MAX);
            // The remaining time of the lane. Dividing it by the requests in flight spreads requests over hosts, and
            // keeps the connections of each in use.
            let remaining = lane.left().saturating_mul(spacing) / (lane.in_flight() as u64 + 1);
            remaining.min(NEW_HOST - 1)
        }
    }
}

/// Why a lane that waits for a time does so.
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
