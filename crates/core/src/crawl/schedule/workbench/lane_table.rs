//! [`LaneTable`]: the lanes in memory, and sums over all of them.
//!
//! Invariant: after each change of a lane, [`Entry::update_counts`] is called before the sums are read.

use std::net::IpAddr;

use hashbrown::HashMap;

use super::lane_counts::{CountedLane, LaneCounts};
use super::wait::Wait;
use crate::base::job::LaneId;
use crate::crawl::schedule::lane::Lane;

/// A lane and what the workbench knows about it.
pub(super) struct Entry {
    pub lane: Lane,
    pub wait: Wait,
    /// More links were requested from the frontier.
    pub awaits_refill: bool,
    /// What [`LaneCounts`] contains for this lane.
    pub counted: CountedLane,
    /// The address whose free slot woke this lane. If the lane does not use the slot, the next lane that waits for the
    /// address is woken.
    pub woken_by: Option<IpAddr>,
}

impl Entry {
    fn new(lane: Lane) -> Self {
        Self { lane, wait: Wait::Event, awaits_refill: false, counted: CountedLane::default(), woken_by: None }
    }

    /// Updates the counts after the lane changed. Returns whether the lane became idle.
    pub fn update_counts(&mut self, counts: &mut LaneCounts) -> bool {
        let counted = CountedLane::of(&self.lane);
        let before = std::mem::replace(&mut self.counted, counted);
        counts.replace(before, counted);
        counted.is_idle() && !before.is_idle()
    }
}

/// The lanes in memory.
#[derive(Default)]
pub(super) struct LaneTable {
    /// Boxed, because a hash table has up to twice as many slots as entries.
    entries: HashMap<LaneId, Box<Entry>>,
    counts: LaneCounts,
    /// How often [`LaneTable::check_counts`] was called since it compared the counts.
    #[cfg(debug_assertions)]
    calls_since_check: usize,
}

impl LaneTable {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn counts(&self) -> &LaneCounts {
        &self.counts
    }

    pub fn get(&self, id: LaneId) -> Option<&Entry> {
        self.entries.get(&id).map(|entry| &**entry)
    }

    pub fn get_mut(&mut self, id: LaneId) -> Option<&mut Entry> {
        self.entries.get_mut(&id).map(|entry| &mut **entry)
    }

    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.get(id).map(|entry| &entry.lane)
    }

    pub fn lane_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.get_mut(id).map(|entry| &mut entry.lane)
    }

    /// A lane with the counts, to update them after a change.
    pub fn get_with_counts(&mut self, id: LaneId) -> Option<(&mut Entry, &mut LaneCounts)> {
        let entry = self.entries.get_mut(&id)?;
        Some((&mut **entry, &mut self.counts))
    }

    /// A lane, which is created if it is not in memory.
    pub fn get_or_insert(&mut self, id: LaneId, create: impl FnOnce() -> Lane) -> &mut Entry {
        self.entries.entry(id).or_insert_with(|| Box::new(Entry::new(create())))
    }

    pub fn remove(&mut self, id: LaneId) -> Option<Lane> {
        let Entry { lane, counted, .. } = *self.entries.remove(&id)?;
        self.counts.replace(counted, CountedLane::default());
        Some(lane)
    }

    pub fn iter(&self) -> impl Iterator<Item = (LaneId, &Entry)> {
        self.entries.iter().map(|(id, entry)| (*id, &**entry))
    }

    /// The numbers of all lanes, to change the lanes one after the other.
    pub fn ids(&self) -> Vec<LaneId> {
        self.entries.keys().copied().collect()
    }

    /// In debug builds, compares the counts with a recount of all lanes. A recount visits all lanes, so it is made
    /// only once in as many calls as there are lanes.
    pub fn check_counts(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.calls_since_check += 1;
            if self.calls_since_check < self.entries.len() {
                return;
            }
            self.calls_since_check = 0;
            let mut counts = LaneCounts::default();
            for entry in self.entries.values() {
                counts.replace(CountedLane::default(), CountedLane::of(&entry.lane));
            }
            debug_assert!(self.counts.has_same_work(&counts), "{:?} and not {counts:?}", self.counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of 384 bytes has a size class of its own in the allocator; the next one has 448 bytes.
    #[test]
    fn a_lane_takes_at_most_384_bytes() {
        assert!(size_of::<Entry>() <= 384, "{}", size_of::<Entry>());
    }
}
