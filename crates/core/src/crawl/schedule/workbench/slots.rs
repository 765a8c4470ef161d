//! [`SlotPolicy`]: how lanes share the requests that `concurrency` allows. Some slots are reserved for lanes that hold
//! slots for a short time, and slow responses may be closed.
//!
//! A lane is *fast* if its requests held their slots for a short time on average. A lane is *quick* if it has no delay and
//! its last page held its slot for a short time. A lane is *slow* if its requests held their slots for long on average, or
//! one in flight does.
//!
//! - Slots reserved for quick lanes are not used by other lanes ([`SlotPolicy::is_reserved`]). Otherwise hosts that hold
//!   slots for long, or of which no page is known, could take all slots, one each.
//! - Slots reserved for fast lanes are not used by a slow lane that has a slot already ([`SlotPolicy::is_short`]).
//!   Otherwise slow hosts would hold all slots.

use std::time::Duration;

use super::lane_counts::LaneCounts;
use super::lane_queues::LaneQueues;
use super::lane_table::{Entry, LaneTable};
use super::wait::Wait;
use crate::base::quota::{SILENT_AFTER, SlowResponseQuota};
use crate::base::time::Time;
use crate::crawl::rules::{RobotsPolicy, Rules};

/// At most one slot in this many is reserved for fast and quick lanes, unless long-held slots make quick lanes wait.
const SLOTS_PER_RESERVED: usize = 8;

/// How many slots are reserved for each fast or quick lane.
const FAST_LANE_SLOTS: usize = 6;

/// How often the workbench checks whether a lane can use the reserved slots.
const RESERVE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A slow response that holds its slot for longer than this may be closed if a quick lane waits.
const QUICK_LANE_THRESHOLD: Duration = Duration::from_secs(1);
/// A slow response that holds its slot for longer than this may be closed if a lane waits that has not requested a page
/// yet. A response counts as silent after the same time without a first byte, so that one count of slots serves both.
const NEW_LANE_THRESHOLD: Duration = SILENT_AFTER;
/// How often slots are counted while all are taken.
const SLOT_COUNT_INTERVAL: Duration = Duration::from_millis(100);
/// With many lanes, slots are counted less often: after this time for each lane.
const SLOT_COUNT_INTERVAL_PER_LANE: Duration = Duration::from_micros(50);

/// The sharing of slots between lanes.
pub(super) struct SlotPolicy {
    /// The number of slots: requests that may be in flight.
    concurrency: usize,
    /// Limit on the slots that are reserved.
    max_reserve: usize,
    /// No slots are reserved before this time, because no lane could use them at the last check.
    reserve_lifted_until: Time,
    /// When to check next whether a lane can use the reserved slots.
    next_reserve_check: Time,
    /// When the slots that slow responses hold are counted next.
    next_count: Time,
    /// The number of slow responses that the workers must close.
    quota: SlowResponseQuota,
    /// How many requests a host has had at most before its first page: one if robots.txt files are fetched.
    starts_of_new: u8,
}

/// The slots that requests hold for longer than a threshold.
struct LongHeldSlots {
    /// Whether a lane waits to which this threshold applies.
    is_awaited: bool,
    count: usize,
    threshold: Duration,
}

impl LongHeldSlots {
    /// How many slots of this lane are held for longer than the threshold.
    fn count_of(&self, Entry { lane, .. }: &Entry, now: Time) -> usize {
        lane.flights().filter(|(_, started)| now - *started > self.threshold).count()
    }
}

impl SlotPolicy {
    pub fn new(rules: &Rules) -> Self {
        Self {
            concurrency: rules.concurrency.max(1),
            max_reserve: rules.concurrency / SLOTS_PER_RESERVED,
            reserve_lifted_until: Time::ZERO,
            next_reserve_check: Time::ZERO,
            next_count: Time::ZERO,
            quota: SlowResponseQuota::default(),
            starts_of_new: u8::from(rules.robots == RobotsPolicy::Obey),
        }
    }

    /// The quota, for the jobs whose slots it concerns.
    pub fn slow_responses(&self) -> &SlowResponseQuota {
        &self.quota
    }

    pub fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Lowers the number of slots, because the system lacks resources for more.
    pub fn limit_concurrency(&mut self, concurrency: usize) {
        self.concurrency = self.concurrency.min(concurrency.max(1));
        self.keep_slow_responses();
    }

    /// Whether no slot is free.
    pub fn are_all_taken(&self, counts: &LaneCounts) -> bool {
        counts.in_flight() >= self.concurrency
    }

    /// Whether all free slots are reserved for fast lanes.
    pub fn is_short(&self, counts: &LaneCounts, now: Time) -> bool {
        self.has_only_reserved(counts.fast(), counts, now)
    }

    /// Whether all free slots are reserved for quick lanes.
    pub fn is_reserved(&self, counts: &LaneCounts, now: Time) -> bool {
        self.has_only_reserved(counts.quick(), counts, now)
    }

    /// Whether all free slots are reserved, if slots are reserved for this number of lanes. The slots that quick lanes
    /// use count as part of the reserve. The more of them are in use, the fewer free slots are kept back.
    fn has_only_reserved(&self, lanes: usize, counts: &LaneCounts, now: Time) -> bool {
        let in_flight = counts.in_flight();
        if in_flight + self.max_reserve < self.concurrency {
            // More slots are free than may be reserved.
            return false;
        }
        let reserve = self.max_reserve.min(lanes * FAST_LANE_SLOTS);
        let unused = reserve.saturating_sub(counts.quick_in_flight());
        unused > 0 && in_flight + unused >= self.concurrency && now >= self.reserve_lifted_until
    }

    /// Makes the reserved slots available for a while if no lane can use them, because requests of all fast and quick
    /// lanes are slow now. Otherwise these slots would stay empty until a response ends, which may never happen. Called
    /// when no lane may start. Returns when to check again; `None` if lanes may start now.
    pub fn lift_unused_reserve(&mut self, lanes: &LaneTable, queues: &LaneQueues, now: Time) -> Option<Time> {
        if !queues.has_lane_for_free_slots() && !queues.has_lane_for_unreserved() {
            return Some(Time::NEVER);
        }
        if now >= self.next_reserve_check {
            self.next_reserve_check = now + RESERVE_CHECK_INTERVAL;
            let is_fast_or_quick = |entry: &Entry| entry.counted.is_fast() || entry.counted.is_quick();
            if !lanes.iter().any(|(_, entry)| is_fast_or_quick(entry) && !entry.lane.is_slow(now)) {
                self.reserve_lifted_until = self.next_reserve_check;
                return None;
            }
        }
        Some(self.next_reserve_check)
    }

    /// Called while all slots, or all unreserved slots, are in use. Counts the slots that requests hold for longer than
    /// the threshold of a waiting lane. If these are more than half of all slots, the workers close as many slow
    /// responses as there are slots above one half. The number of responses to close stays set until the next count,
    /// even if waiting lanes take freed slots in between. Silent responses are closed by the same rule, but only if a
    /// quick lane waits: a new lane may be as slow as the silent ones. Returns when to count again.
    pub fn close_slow_responses(&mut self, lanes: &LaneTable, queues: &LaneQueues, now: Time) -> Time {
        let has_unreserved = queues.has_lane_for_unreserved();
        if queues.has_no_ready_lane() && !has_unreserved {
            self.keep_slow_responses();
            return Time::NEVER;
        }
        if now < self.next_count {
            return self.next_count;
        }
        let lane_count = u32::try_from(lanes.len()).unwrap_or(u32::MAX);
        self.next_count = now + SLOT_COUNT_INTERVAL.max(SLOT_COUNT_INTERVAL_PER_LANE.saturating_mul(lane_count));
        let mut quick = LongHeldSlots { is_awaited: false, count: 0, threshold: QUICK_LANE_THRESHOLD };
        let mut new = LongHeldSlots { is_awaited: has_unreserved, count: 0, threshold: NEW_LANE_THRESHOLD };
        for (_, entry) in lanes.iter() {
            let (own_for_quick, own_for_new) = (quick.count_of(entry, now), new.count_of(entry, now));
            quick.count += own_for_quick;
            new.count += own_for_new;
            let Entry { lane, wait, .. } = entry;
            if matches!(wait, Wait::Turn(_)) && lane.left() > 0 {
                let is_new = lane.in_flight() == 0 && lane.pace.starts() <= self.starts_of_new;
                quick.is_awaited |= lane.pace.is_quick() && own_for_quick == 0;
                new.is_awaited |= is_new || (lane.pace.is_quick() && own_for_new == 0);
            }
        }
        let half = self.concurrency / 2;
        self.quota.set_silent(if quick.is_awaited { new.count.saturating_sub(half) } else { 0 });
        // Otherwise other slow lanes would take the slots of closed responses.
        self.max_reserve =
            if quick.is_awaited && new.count >= half { half } else { self.concurrency / SLOTS_PER_RESERVED };
        match [quick, new].into_iter().find(|slots| slots.is_awaited) {
            Some(slots) => self.quota.set(slots.count.saturating_sub(half), slots.threshold),
            None => self.quota.clear(),
        }
        self.next_count
    }

    /// Called if no lane waits for a slot: responses stay open even if they are slow, and the usual number of slots may
    /// be reserved.
    pub fn keep_slow_responses(&mut self) {
        self.quota.clear();
        self.max_reserve = self.concurrency / SLOTS_PER_RESERVED;
    }
}

#[cfg(test)]
mod tests {
    use super::super::lane_counts::CountedLane;
    use super::*;
    use crate::crawl::rules::Config;

    #[test]
    fn slots_are_reserved_only_for_as_many_lanes_as_can_use_them() {
        let config = Config { roots: vec!["http://h/".into()], concurrency: 64, ..Config::default() };
        let mut slots = SlotPolicy::new(&config.compile(0).expect("valid settings"));
        let now = Time::from_micros(1);
        let counts = |slow_in_flight, quick_lanes| {
            let mut counts = LaneCounts::default();
            counts.replace(CountedLane::default(), CountedLane::for_test(slow_in_flight, false));
            (0..quick_lanes).for_each(|_| counts.replace(CountedLane::default(), CountedLane::for_test(1, true)));
            counts
        };
        assert!(!slots.is_reserved(&counts(63, 0), now), "no lane needs the reserve");
        assert!(!slots.is_reserved(&counts(54, 1), now));
        // Eight slots are reserved at most, and six for each lane, of which it uses one.
        assert!(slots.is_reserved(&counts(58, 1), now) && !slots.is_reserved(&counts(57, 1), now));
        assert!(slots.is_reserved(&counts(56, 2), now));
        slots.limit_concurrency(32);
        assert!(slots.are_all_taken(&counts(32, 0)) && !slots.are_all_taken(&counts(31, 0)));
    }
}
