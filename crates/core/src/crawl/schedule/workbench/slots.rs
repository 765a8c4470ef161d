//! The sharing of slots between lanes. Some slots are reserved for lanes that hold slots for a short time, and slow
//! responses may be closed.
//!
//! A lane is *fast* if its requests held their slots for a short time on average. A lane is *quick* if its last page
//! held its slot for a short time, and if it has no delay. A lane is *unproven* if it is not quick.

use std::time::Duration;

use super::lane_queues::Ready;
use super::placement::WaitState;
use super::{Entry, Workbench};
use crate::base::job::LaneId;
use crate::base::time::Time;
use crate::crawl::rules::RobotsPolicy;
use crate::http::conn::SILENT_AFTER;

/// At most one slot in this many is reserved for fast and quick lanes, unless long-held slots make quick lanes wait.
pub(super) const SLOTS_PER_RESERVED: usize = 8;

/// How many slots are reserved for each fast or quick lane.
const FAST_LANE_SLOTS: usize = 6;

/// How often the workbench checks whether a lane can use the reserved slots.
const RESERVE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A page with more bytes of links than this delays the next request to its host, if other quick lanes have work.
const HEAVY_LINKS: usize = 128 << 10;
/// The delay for each byte of links, in nanoseconds. The work itself takes about a tenth of that.
const NANOS_PER_LINK_BYTE: u64 = 20;
/// The longest delay of this kind.
const LONGEST_WORK_PAUSE: Duration = Duration::from_secs(2);

/// A slow response that holds its slot for longer than this may be closed if a quick lane waits.
const QUICK_LANE_THRESHOLD: Duration = Duration::from_secs(1);
/// A slow response that holds its slot for longer than this may be closed if a lane waits that has not requested a page
/// yet. A response counts as silent after the same time without a first byte, so that one count of slots serves both.
const NEW_LANE_THRESHOLD: Duration = SILENT_AFTER;
/// How often slots are counted while all are taken.
const SLOT_COUNT_INTERVAL: Duration = Duration::from_millis(100);
/// With many lanes, slots are counted less often: after this time for each lane.
const SLOT_COUNT_INTERVAL_PER_LANE: Duration = Duration::from_micros(50);

/// The slots that requests hold for longer than a threshold.
struct LongHeldSlots {
    /// Whether a lane waits to which this threshold applies.
    is_awaited: bool,
    count: usize,
    threshold: Duration,
}

impl Workbench {
    /// Whether all free slots are reserved for fast lanes. Then a slow lane that has a slot gets no more; otherwise
    /// slow hosts would hold all slots.
    pub(super) fn is_crowded(&self, now: Time) -> bool {
        self.is_short_of_slots(self.counts.fast(), now)
    }

    /// Whether all free slots are reserved, if slots are reserved for this number of lanes. The slots that quick lanes
    /// use count as part of the reserve. The more of them are in use, the fewer free slots are kept back.
    fn is_short_of_slots(&self, lanes: usize, now: Time) -> bool {
        if self.in_flight() + self.max_reserve < self.concurrency {
            // More slots are free than may be reserved.
            return false;
        }
        let reserve = self.max_reserve.min(lanes * FAST_LANE_SLOTS);
        let unused = reserve.saturating_sub(self.counts.quick_in_flight());
        unused > 0 && self.in_flight() + unused >= self.concurrency && now >= self.reserve_lifted_until
    }

    /// Whether all free slots are reserved for quick lanes, whose pages hold slots for a short time. Otherwise hosts
    /// that hold slots for long, or of which no page is known, could take all slots, one each.
    pub(super) fn is_reserved(&self, now: Time) -> bool {
        self.is_short_of_slots(self.counts.quick(), now)
    }

    /// Makes the reserved slots available for a while if no lane can use them, because requests of all fast and quick
    /// lanes are slow now. Otherwise these slots would stay empty until a response ends, which may never happen. Called
    /// when no lane may start. Returns when to check again; `None` if lanes may start now.
    pub(super) fn lift_unused_reserve(&mut self, now: Time) -> Option<Time> {
        if !self.queues.has_crowded() && !self.queues.has_unproven() {
            return Some(Time::NEVER);
        }
        if now >= self.next_reserve_check {
            self.next_reserve_check = now + RESERVE_CHECK_INTERVAL;
            let is_fast_or_quick = |entry: &Entry| entry.counted.is_fast() || entry.counted.is_quick();
            if !self.lanes.values().any(|entry| is_fast_or_quick(entry) && !entry.lane.is_slow(now)) {
                self.reserve_lifted_until = self.next_reserve_check;
                return None;
            }
        }
        Some(self.next_reserve_check)
    }

    /// Queues a lane that is not quick as unproven if all free slots are reserved. Returns whether it was queued.
    pub(super) fn queue_if_reserved(&mut self, ready: Ready, now: Time) -> bool {
        if !self.is_reserved(now) {
            return false;
        }
        let Some(entry) = self.lanes.get_mut(&ready.lane).filter(|entry| !entry.counted.is_quick()) else {
            return false;
        };
        entry.wait = WaitState::Unproven;
        self.queues.insert_unproven(ready);
        true
    }

    /// Makes the first lane ready that waited for a slot that is not reserved, if there is such a slot.
    pub(super) fn admit_unproven(&mut self, now: Time) {
        if !self.queues.has_unproven() || self.is_reserved(now) {
            return;
        }
        if let Some(ready) = self.queues.pop_unproven()
            && let Some(entry) = self.lanes.get_mut(&ready.lane)
        {
            entry.wait = WaitState::Ready(ready);
            self.queues.insert_ready(ready);
        }
    }

    /// Delays the next request of a lane whose page has very many links, if other quick lanes have work. Such pages
    /// keep the threads busy, and all hosts share these threads.
    pub(super) fn share_work_time(&mut self, id: LaneId, link_bytes: usize, now: Time) {
        let Some(entry) = self.lanes.get_mut(&id).filter(|_| link_bytes > HEAVY_LINKS) else { return };
        if self.counts.quick() > usize::from(entry.counted.is_quick()) {
            let work = Duration::from_nanos(link_bytes as u64 * NANOS_PER_LINK_BYTE);
            entry.lane.pace.extend_pause(work, LONGEST_WORK_PAUSE, now);
        }
    }

    /// Called while all slots, or all unreserved slots, are in use. Counts the slots that requests hold for longer than
    /// the threshold of a waiting lane. If these are more than half of all slots, the workers close as many slow
    /// responses as there are slots above one half. The number of responses to close stays set until the next count,
    /// even if waiting lanes take freed slots in between. Silent responses are closed by the same rule, but only if a
    /// quick lane waits: a new lane may be as slow as the silent ones. Returns when to count again.
    pub(super) fn close_slow_responses(&mut self, now: Time) -> Time {
        let has_unproven = self.queues.has_unproven();
        if self.queues.has_no_ready_lane() && !has_unproven {
            self.keep_slow_responses();
            return Time::NEVER;
        }
        if now < self.next_slot_count {
            return self.next_slot_count;
        }
        let lanes = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        self.next_slot_count = now + SLOT_COUNT_INTERVAL.max(SLOT_COUNT_INTERVAL_PER_LANE.saturating_mul(lanes));
        // The only request to a new host was that for its robots.txt.
        let starts_of_new = u8::from(self.rules.robots == RobotsPolicy::Obey);
        let mut quick = LongHeldSlots { is_awaited: false, count: 0, threshold: QUICK_LANE_THRESHOLD };
        let mut new = LongHeldSlots { is_awaited: has_unproven, count: 0, threshold: NEW_LANE_THRESHOLD };
        for entry in self.lanes.values() {
            let Entry { lane, wait, .. } = &**entry;
            let held_longer_than = |span| lane.flights().filter(|(_, started)| now - *started > span).count();
            let own_for_quick = held_longer_than(quick.threshold);
            let own_for_new = held_longer_than(new.threshold);
            quick.count += own_for_quick;
            new.count += own_for_new;
            if matches!(wait, WaitState::Ready(_)) && lane.left() > 0 {
                let is_new = lane.in_flight() == 0 && lane.pace.starts() <= starts_of_new;
                quick.is_awaited |= lane.pace.is_quick() && own_for_quick == 0;
                new.is_awaited |= is_new || (lane.pace.is_quick() && own_for_new == 0);
            }
        }
        let half = self.concurrency / 2;
        let excess_silent = if quick.is_awaited { new.count.saturating_sub(half) } else { 0 };
        self.rules.slow_response_quota.set_silent(excess_silent);
        // Otherwise other slow lanes would take the slots of closed responses.
        self.max_reserve =
            if quick.is_awaited && new.count >= half { half } else { self.concurrency / SLOTS_PER_RESERVED };
        match [quick, new].into_iter().find(|slots| slots.is_awaited) {
            Some(slots) => {
                let excess = slots.count.saturating_sub(self.concurrency / 2);
                self.rules.slow_response_quota.set(excess, slots.threshold);
            }
            None => self.rules.slow_response_quota.clear(),
        }
        self.next_slot_count
    }

    /// Called if no lane waits for a slot: responses stay open even if they are slow, and the usual number of slots may
    /// be reserved.
    pub(super) fn keep_slow_responses(&mut self) {
        self.rules.slow_response_quota.clear();
        self.max_reserve = self.concurrency / SLOTS_PER_RESERVED;
    }

    /// Makes the crowded lanes ready if enough slots are free.
    pub(super) fn wake_crowded(&mut self, now: Time) {
        if !self.queues.has_crowded() || self.is_crowded(now) {
            return;
        }
        for id in self.queues.take_crowded() {
            self.enqueue_ready(id);
        }
    }
}
