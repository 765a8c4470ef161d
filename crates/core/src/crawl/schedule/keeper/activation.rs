//! Activation of lanes: which hosts with queued links are on the workbench.
//!
//! A waiting host uses little memory: its entry in the frontier and a number in [`WaitingLanes`]. While the workbench
//! has few lanes, it accepts new ones at once. Beyond that, it accepts one only if a slot would stay empty. At its
//! limit it evicts idle lanes, and parks lanes that cannot start a request for a long time: the links of a parked lane
//! return to the frontier.
//!
//! Links to hosts for which memory has no room are deferred: the frontier holds them without a lane. When no lane waits
//! and memory has room again, they are moved to lanes.
//!
//! Invariant: a lane with queued links is on the workbench, waiting, parked, or being handed to another process.

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::Keeper;
use crate::base::job::LaneId;
use crate::base::time::Time;
use crate::crawl::schedule::frontier::{CrawlEvent, Frontier, History, QueuedLane, ReturnTo, StoreError};
use crate::crawl::schedule::workbench::ParkedLane;

/// How many deferred links are moved to lanes at a time.
const MAX_ADMITTED_PER_CALL: usize = 1_024;
/// Estimated bytes of a parked lane in its ordered set.
const PARKED_BYTES: usize = 32;

/// Lanes with queued links that are not on the workbench, and those that leave for another process.
#[derive(Debug, Default)]
pub(super) struct WaitingLanes {
    /// In order of arrival.
    queue: VecDeque<LaneId>,
    /// Lanes that were on the workbench, and when they may start again.
    parked: BTreeSet<(Time, LaneId)>,
    /// Lanes in `queue` or `parked`.
    waiting: LaneSet,
    /// Lanes that have had work in this run.
    had_work: LaneSet,
    /// Lanes that are being handed over to another process.
    leaving: HashSet<LaneId>,
    /// When to ask the frontier at the latest whether other processes have changed something.
    pub news_due: Time,
}

impl WaitingLanes {
    /// Adds a lane to the end of the queue, unless it is already waiting.
    fn push(&mut self, lane: LaneId) {
        if self.waiting.insert(lane) {
            self.queue.push_back(lane);
        }
    }

    /// Adds a lane that may not start a request before `until`.
    fn park(&mut self, lane: LaneId, until: Time) {
        if self.waiting.insert(lane) {
            self.parked.insert((until, lane));
        }
    }

    /// Takes the next lane: a parked one whose time has come, otherwise the one that has waited longest in the queue.
    fn pop(&mut self, now: Time) -> Option<LaneId> {
        let ready = self.parked.first().copied().filter(|(until, _)| *until <= now);
        let lane = match ready {
            Some(first) => {
                self.parked.remove(&first);
                Some(first.1)
            }
            None => self.queue.pop_front(),
        };
        lane.inspect(|lane| self.waiting.remove(*lane))
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.parked.is_empty()
    }

    /// When the first parked lane may start again.
    pub fn due(&self) -> Time {
        self.parked.first().map_or(Time::NEVER, |(until, _)| *until)
    }

    /// Another process takes this lane over. Those that left earlier and are not `in_use` any more are forgotten.
    pub fn leave(&mut self, lane: LaneId, in_use: impl Fn(LaneId) -> bool) {
        self.leaving.retain(|lane| in_use(*lane));
        self.leaving.insert(lane);
    }

    /// This process has the lane again.
    pub fn stay(&mut self, lane: LaneId) {
        self.leaving.remove(&lane);
    }

    /// Whether another process takes this lane over.
    pub fn is_leaving(&self, lane: LaneId) -> bool {
        self.leaving.contains(&lane)
    }

    /// Number of hosts that had work in this run.
    pub fn hosts(&self) -> u64 {
        self.had_work.count
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        let sets = (self.waiting.words.capacity() + self.had_work.words.capacity()) * size_of::<u64>();
        self.queue.capacity() * size_of::<LaneId>() + self.parked.len() * PARKED_BYTES + sets
    }
}

/// A set of lanes, one bit each.
#[derive(Debug, Default)]
pub(super) struct LaneSet {
    words: Vec<u64>,
    count: u64,
}

impl LaneSet {
    /// Adds a lane; returns whether it was new.
    pub fn insert(&mut self, lane: LaneId) -> bool {
        let (word, bit) = (lane.index() / 64, 1 << (lane.index() % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let Some(word) = self.words.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    fn remove(&mut self, lane: LaneId) {
        if let Some(word) = self.words.get_mut(lane.index() / 64) {
            let bit = 1 << (lane.index() % 64);
            self.count -= u64::from(*word & bit != 0);
            *word &= !bit;
        }
    }
}

impl<F: Frontier + History> Keeper<F> {
    /// Records that a lane has queued links: updates it on the workbench, or adds it to the waiting lanes.
    pub(super) fn announce_lane(&mut self, lane: LaneId, now: Time) {
        self.waiting.had_work.insert(lane);
        if !self.bench.holds(lane) {
            self.waiting.push(lane);
        } else if let Some(QueuedLane { name, queued }) = self.frontier.lane(lane) {
            self.bench.set_backlog(lane, name, queued, now);
        }
    }

    /// Puts waiting lanes on the workbench while it accepts them. Returns whether it accepted one.
    pub(super) fn activate_lanes(&mut self, now: Time) -> Result<bool, StoreError> {
        let mut activated = false;
        if self.waiting.is_empty() {
            self.admit_deferred(now)?;
        }
        while !self.waiting.is_empty() {
            if !self.bench.takes_lane(now) && !self.park_lane(now)? {
                break;
            }
            let Some(lane) = self.waiting.pop(now) else { break };
            self.activate(lane, now)?;
            // Load its links now: they may fill the empty slots, and then no further lane is needed.
            self.refill_lanes(now)?;
            activated = true;
        }
        Ok(activated)
    }

    /// Moves deferred links to the lanes of their hosts, if memory has room for more hosts. Called when no lane waits,
    /// so that few of these hosts are in memory at a time.
    fn admit_deferred(&mut self, now: Time) -> Result<(), StoreError> {
        if self.admission.is_full_of_hosts || self.ended().is_some() || self.frontier.counts().deferred == 0 {
            return Ok(());
        }
        self.frontier.tell(CrawlEvent::RoomForHosts(MAX_ADMITTED_PER_CALL))?;
        self.apply_news(now)
    }

    /// Puts a lane on the workbench, with the stored state of its host.
    pub(super) fn activate(&mut self, lane: LaneId, now: Time) -> Result<(), StoreError> {
        let Some(QueuedLane { name, queued: backlog }) = self.frontier.lane(lane) else { return Ok(()) };
        if backlog == 0 || self.waiting.is_leaving(lane) {
            return Ok(());
        }
        let name = name.to_owned();
        let asked = self.recall_lane(lane, &name, now)?;
        self.bench.set_backlog(lane, &name, backlog, now);
        self.keep_initial_delay(lane, asked, now);
        Ok(())
    }

    /// Removes a lane with a long wait from the workbench, to make room for one that can start. Returns whether one was
    /// removed.
    fn park_lane(&mut self, now: Time) -> Result<bool, StoreError> {
        if self.waiting.queue.is_empty() && self.waiting.due() > now {
            return Ok(false);
        }
        let Some(ParkedLane { lane, until, links }) = self.bench.park_lane(now) else { return Ok(false) };
        self.frontier.give_back(links, ReturnTo::OldPlace)?;
        self.waiting.park(lane, until);
        Ok(true)
    }

    /// Number of hosts that had work in this run.
    pub fn hosts(&self) -> u64 {
        self.waiting.hosts()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn waiting_lanes_are_returned_in_order_and_once() {
        let mut lanes = WaitingLanes::default();
        for number in [3, 70, 3, 1_000_000, 70] {
            lanes.push(LaneId(number));
        }
        lanes.park(LaneId(5), at(10));
        lanes.park(LaneId(3), at(1));
        assert_eq!((lanes.due(), lanes.is_empty()), (at(10), false));
        assert_eq!(
            (lanes.pop(at(9)), lanes.pop(at(10)), lanes.pop(at(10))),
            (Some(LaneId(3)), Some(LaneId(5)), Some(LaneId(70)))
        );
        lanes.push(LaneId(3));
        let rest: Vec<_> = std::iter::from_fn(|| lanes.pop(at(0))).collect();
        assert_eq!(rest, [LaneId(1_000_000), LaneId(3)]);
        assert!(lanes.is_empty() && lanes.waiting.count == 0);
        lanes.leave(LaneId(7), |_| true);
        lanes.leave(LaneId(8), |lane| lane != LaneId(7));
        assert!(!lanes.is_leaving(LaneId(7)) && lanes.is_leaving(LaneId(8)));
        lanes.stay(LaneId(8));
        assert!(!lanes.is_leaving(LaneId(8)));
    }
}
