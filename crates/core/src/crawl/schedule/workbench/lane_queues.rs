//! [`LaneQueues`]: the queues in which lanes wait for a time, a slot or their turn.
//!
//! Invariant: a lane is in at most one queue, and its [`Wait`] says which. [`LaneQueues::move_to`] changes both.

use std::collections::{BTreeSet, VecDeque};

use super::lane_table::LaneTable;
use super::placement::PARTS;
use super::wait::{Ready, Wait};
use crate::base::job::LaneId;
use crate::base::time::Time;

/// The queues of the workbench, except those of addresses. Where the order matters, the last lane is served first.
#[derive(Default)]
pub(super) struct LaneQueues {
    /// [`Wait::Turn`].
    ready: BTreeSet<Ready>,
    /// [`Wait::Rate`].
    for_rate: BTreeSet<Ready>,
    /// [`Wait::FreeSlots`].
    for_free_slots: VecDeque<LaneId>,
    /// [`Wait::UnreservedSlot`].
    for_unreserved: BTreeSet<Ready>,
    /// [`Wait::Until`].
    later: BTreeSet<(Time, LaneId)>,
    /// The last sequence number that was given out.
    seq: u64,
}

impl LaneQueues {
    /// Gives out the next sequence number. Sequence numbers order lanes by arrival.
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Moves a lane to the queue for `to`. A lane that waits for an address or for free slots has left its queue before.
    pub fn move_to(&mut self, lane: LaneId, wait: &mut Wait, to: Wait) {
        match *wait {
            Wait::Event | Wait::Address | Wait::FreeSlots => {}
            Wait::Until(time) => drop(self.later.remove(&(time, lane))),
            Wait::Turn(ready) => drop(self.ready.remove(&ready)),
            Wait::Rate(ready) => drop(self.for_rate.remove(&ready)),
            Wait::UnreservedSlot(ready) => drop(self.for_unreserved.remove(&ready)),
        }
        *wait = to;
        match to {
            Wait::Event | Wait::Address => {}
            Wait::FreeSlots => self.for_free_slots.push_back(lane),
            Wait::Until(time) => drop(self.later.insert((time, lane))),
            Wait::Turn(ready) => drop(self.ready.insert(ready)),
            Wait::Rate(ready) => drop(self.for_rate.insert(ready)),
            Wait::UnreservedSlot(ready) => drop(self.for_unreserved.insert(ready)),
        }
    }

    /// Takes the lane that is served first; with `only_parts`, of those with requests of rendered pages. It waits for an
    /// event until it is moved to a queue again.
    pub fn pop_ready(&mut self, only_parts: bool, lanes: &mut LaneTable) -> Option<Ready> {
        let ready = if only_parts {
            // Only a lane whose rules were just loaded may precede them.
            let mut first = self.ready.iter().rev().take_while(|ready| ready.weight == PARTS);
            let has_parts = |ready: &&Ready| lanes.get(ready.lane).is_some_and(|entry| entry.counted.has_parts());
            let ready = *first.find(has_parts)?;
            self.ready.remove(&ready);
            ready
        } else {
            self.ready.pop_last()?
        };
        if let Some(entry) = lanes.get_mut(ready.lane) {
            entry.wait = Wait::Event;
        }
        Some(ready)
    }

    /// Gives the first lane that waits for `--rate` its turn.
    pub fn release_one_for_rate(&mut self, lanes: &mut LaneTable) {
        if let Some(ready) = self.for_rate.pop_last() {
            self.give_turn(ready, lanes);
        }
    }

    /// Gives the first lane that waits for a slot that is not reserved its turn.
    pub fn release_one_for_unreserved(&mut self, lanes: &mut LaneTable) {
        if let Some(ready) = self.for_unreserved.pop_last() {
            self.give_turn(ready, lanes);
        }
    }

    fn give_turn(&mut self, ready: Ready, lanes: &mut LaneTable) {
        if let Some(entry) = lanes.get_mut(ready.lane) {
            entry.wait = Wait::Turn(ready);
            self.ready.insert(ready);
        }
    }

    /// Takes the lanes that wait for more free slots. The caller moves them to a queue again.
    pub fn take_for_free_slots(&mut self) -> VecDeque<LaneId> {
        std::mem::take(&mut self.for_free_slots)
    }

    /// The lane that starts when `--rate` allows the next page.
    pub fn first_for_rate(&self) -> Option<LaneId> {
        self.for_rate.last().map(|ready| ready.lane)
    }

    /// The lane that waits for the earliest time, with that time.
    pub fn first_later(&self) -> Option<(Time, LaneId)> {
        self.later.first().copied()
    }

    /// The lane that waits for the latest time, with that time.
    pub fn last_later(&self) -> Option<(Time, LaneId)> {
        self.later.last().copied()
    }

    /// Whether no lane may start now or when `--rate` allows a page.
    pub fn has_no_ready_lane(&self) -> bool {
        self.ready.is_empty() && self.for_rate.is_empty()
    }

    pub fn has_lane_for_rate(&self) -> bool {
        !self.for_rate.is_empty()
    }

    pub fn has_lane_for_free_slots(&self) -> bool {
        !self.for_free_slots.is_empty()
    }

    pub fn has_lane_for_unreserved(&self) -> bool {
        !self.for_unreserved.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn a_lane_is_in_the_queue_that_its_wait_names_and_in_no_other() {
        let (lane, at) = (LaneId(3), Time::from_micros(9));
        let ready = Ready { weight: 1, seq: Reverse(1), lane };
        let (mut queues, mut wait) = (LaneQueues::default(), Wait::Event);
        let states = [
            Wait::Until(at),
            Wait::Turn(ready),
            Wait::Turn(Ready { weight: 2, ..ready }),
            Wait::Rate(ready),
            Wait::UnreservedSlot(ready),
            Wait::Event,
        ];
        for to in states {
            queues.move_to(lane, &mut wait, to);
            let lengths = [&queues.ready, &queues.for_rate, &queues.for_unreserved].map(BTreeSet::len);
            let expected = match wait {
                Wait::Turn(_) => [1, 0, 0],
                Wait::Rate(_) => [0, 1, 0],
                Wait::UnreservedSlot(_) => [0, 0, 1],
                _ => [0; 3],
            };
            assert_eq!(lengths, expected);
            assert_eq!(queues.first_later().is_some(), matches!(wait, Wait::Until(_)));
        }
    }
}
