//! In which queue a lane waits for its turn, and the order of the lanes that may start.
//!
//! Invariant: a lane is in at most one queue, and its [`WaitState`] says which.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::lane_queues::Ready;
use super::{Entry, Workbench};
use crate::rules::RobotsPolicy;
use crate::schedule::job::LaneId;
use crate::schedule::lane::{Addresses, Lane};
use crate::schedule::wait::WaitReason;
use crate::time::Time;

/// A lane with fewer links in memory than its batch divided by this gets more from the frontier.
const REFILL_PART: usize = 4;

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

/// One slot in this many is not given to a slow lane that already has a request in flight. Up to the same number of
/// slots is reserved for quick lanes.
const RESERVED_PART: usize = 8;

/// How many slots are reserved for one quick lane.
const QUICK_LANE_SLOTS: usize = 6;

/// A page with more bytes of links than this delays the next request to its host, if other quick lanes have work.
const HEAVY_LINKS: usize = 128 << 10;
/// The delay for each byte of links, in nanoseconds. The work itself takes about a fifth of that.
const NANOS_PER_LINK_BYTE: u64 = 10;
/// The longest delay of this kind.
const LONGEST_WORK_PAUSE: Duration = Duration::from_secs(2);

/// A response that holds its slot for longer than this may be closed if other hosts wait.
const HELD_LONG: Duration = Duration::from_secs(5);
/// How often slots are counted while all are taken.
const SLOT_COUNT_INTERVAL: Duration = Duration::from_millis(500);

/// Weight of a host whose robots.txt was the only request so far, and of a host without any request.
const FIRST_PAGE: u64 = u64::MAX;
const NEW_HOST: u64 = u64::MAX - 1;

impl Workbench {
    /// Puts a lane in the right queue after it changed.
    pub(super) fn place(&mut self, id: LaneId, now: Time) {
        self.fail_all(id, now);
        self.request_refill(id);
        self.note_idle(id);
        let pages = self.pages_left > 0;
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if matches!(
            entry.wait,
            WaitState::Ready(_) | WaitState::Queued | WaitState::Rated | WaitState::Crowded | WaitState::Unproven
        ) {
            return; // it is checked again when it is first in its queue
        }
        let at = entry.lane.due(pages);
        if at <= now {
            self.enqueue_ready(id);
        } else {
            self.enqueue_later(id, at);
        }
    }

    /// Asks for more links of a lane from the frontier, if the lane has few left.
    pub(super) fn request_refill(&mut self, id: LaneId) {
        if self.pages_left == 0 {
            return;
        }
        let refill_below = self.lane_batch().div_ceil(REFILL_PART);
        if let Some(entry) = self.lanes.get_mut(&id)
            && !entry.awaits_refill
            && entry.lane.backlog > 0
            && entry.lane.queue.len() < refill_below
        {
            entry.awaits_refill = true;
            self.wants_refill.push(id);
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

    /// Ranks a queued lane again after one of its requests ended: fewer requests in flight mean a higher rank. Otherwise
    /// it would wait until the lanes behind it had as many in flight as it had when it was queued. Hosts would be served
    /// one after the other, and idle connections would be closed in between.
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
        // Dividing by the requests in flight spreads requests over hosts and keeps the connections of each in use.
        let ahead = lane.left().saturating_mul(spacing) / (lane.in_flight() as u64 + 1);
        if self.recalled == Some(id) {
            return Some(Ready { weight: u64::MAX, seq: Reverse(0), lane: id });
        }
        let weight = match lane.pace.starts() {
            _ if lane.is_without_rules() => 0,
            0 => NEW_HOST,
            1 if self.rules.robots == RobotsPolicy::Obey => FIRST_PAGE,
            1 => NEW_HOST,
            _ => ahead.min(NEW_HOST - 1),
        };
        Some(Ready { weight, seq: order, lane: id })
    }

    /// Queues a lane until a time; [`Time::NEVER`] means no queue.
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

    /// Whether few slots are left and fast lanes can use them. Then a slow lane that has a slot gets no more; otherwise
    /// slow hosts would hold all slots.
    pub(super) fn is_crowded(&self) -> bool {
        let reserve = self.concurrency / RESERVED_PART;
        self.fast_lanes > 0 && self.in_flight >= self.concurrency - reserve
    }

    /// Whether all free slots are reserved for quick lanes, whose pages hold slots for a short time. Otherwise hosts
    /// that hold slots for long, or of which no page is known, could take all slots, one each. Slots in use by quick
    /// lanes count as reserved, so that few or none stay empty.
    pub(super) fn is_reserved(&self) -> bool {
        let reserve = (self.concurrency / RESERVED_PART).min(self.quick.lanes * QUICK_LANE_SLOTS);
        let unused = reserve.saturating_sub(self.quick.in_flight);
        unused > 0 && self.in_flight + unused >= self.concurrency
    }

    /// Queues a lane that is not quick as unproven if all free slots are reserved. Returns whether it did.
    pub(super) fn keeps_out(&mut self, ready: Ready) -> bool {
        if !self.is_reserved() {
            return false;
        }
        let Some(entry) = self.lanes.get_mut(&ready.lane).filter(|entry| entry.quick_slots.is_none()) else {
            return false;
        };
        entry.wait = WaitState::Unproven;
        self.queues.insert_unproven(ready);
        true
    }

    /// Makes the first lane ready that waited for a slot that is not reserved, if there is such a slot.
    pub(super) fn admit_unproven(&mut self) {
        if self.is_reserved() {
            return;
        }
        if let Some(ready) = self.queues.pop_unproven()
            && let Some(entry) = self.lanes.get_mut(&ready.lane)
        {
            entry.wait = WaitState::Ready(ready);
            self.queues.insert_ready(ready);
        }
    }

    /// Delays the next request of a lane whose page has very many links, if other quick lanes have work: such pages keep
    /// the threads busy that all hosts share.
    pub(super) fn share_work_time(&mut self, id: LaneId, link_bytes: usize, now: Time) {
        let Some(entry) = self.lanes.get_mut(&id).filter(|_| link_bytes > HEAVY_LINKS) else { return };
        if self.quick.lanes > usize::from(entry.quick_slots.is_some()) {
            let work = Duration::from_nanos(link_bytes as u64 * NANOS_PER_LINK_BYTE);
            entry.lane.pace.extend_pause(work, LONGEST_WORK_PAUSE, now);
        }
    }

    /// Called while all slots, or all unreserved slots, are in use. If slow responses hold more than half of all slots
    /// while a quick lane or an unproven lane waits, has the workers close the excess ones. Returns when to count again.
    pub(super) fn press_slow_responses(&mut self, now: Time) -> Time {
        let is_kept_out = self.queues.has_unproven();
        if (self.queues.is_nothing_ready() && !is_kept_out) || self.fast_lanes == 0 {
            self.rules.limits.pressure.set(0);
            return Time::NEVER;
        }
        if now < self.next_slot_count {
            return self.next_slot_count;
        }
        self.next_slot_count = now + SLOT_COUNT_INTERVAL;
        let (mut held_long, mut is_fast_waiting) = (0, is_kept_out);
        for Entry { lane, wait, .. } in self.lanes.values() {
            let long = lane.flights().filter(|(_, started)| now - *started > HELD_LONG).count();
            held_long += long;
            let is_ready = matches!(wait, WaitState::Ready(_));
            is_fast_waiting |= is_ready && long == 0 && lane.left() > 0 && lane.pace.is_quick();
        }
        let excess = held_long.saturating_sub(self.concurrency / 2);
        self.rules.limits.pressure.set(if is_fast_waiting { excess } else { 0 });
        self.next_slot_count
    }

    /// Makes the crowded lanes ready if enough slots are free.
    pub(super) fn wake_crowded(&mut self) {
        if !self.queues.has_crowded() || self.is_crowded() {
            return;
        }
        for id in self.queues.take_crowded() {
            self.enqueue_ready(id);
        }
    }

    /// Moves the lanes whose time has come to the `ready` queue.
    pub(super) fn wake_due(&mut self, now: Time) {
        while let Some((_, id)) = self.queues.first_later().filter(|(time, _)| *time <= now) {
            self.enqueue_ready(id);
        }
    }

    /// Ends a request at these addresses, and wakes a lane that waits for each.
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
        Some((Arc::clone(&lane.name), reason(lane, now), time - now))
    }

    /// What a lane waits for, and how long at least; zero if it waits for an event.
    pub fn wait_of(&self, id: LaneId, now: Time) -> Option<(WaitReason, Duration)> {
        let Entry { lane, wait, .. } = self.lanes.get(&id)?;
        match wait {
            _ if matches!(lane.addresses, Addresses::Asked { .. }) => Some((WaitReason::Dns, Duration::ZERO)),
            WaitState::Later(time) => Some((reason(lane, now), *time - now)),
            WaitState::Nowhere if lane.in_flight() > 0 => Some((WaitReason::Responses, Duration::ZERO)),
            WaitState::Rated => Some((WaitReason::Rate, self.next_start - now)),
            WaitState::Nowhere | WaitState::Ready(_) | WaitState::Queued | WaitState::Crowded | WaitState::Unproven => {
                None
            }
        }
    }
}

/// Why a lane waits for a known time.
fn reason(lane: &Lane, now: Time) -> WaitReason {
    if lane.pace.rests_until() > now {
        WaitReason::BackOff
    } else if lane.pace.has_crawl_delay() {
        WaitReason::CrawlDelay
    } else if lane.pace.due() > now {
        WaitReason::Delay
    } else {
        WaitReason::Retry
    }
}
