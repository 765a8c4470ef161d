//! [`LaneQueues`]: the queues in which lanes wait.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::net::IpAddr;

use hashbrown::HashMap;

use crate::base::job::LaneId;
use crate::base::time::Time;

/// A lane that may start now. The order is:
///
/// 1. the lane whose evicted robots rules were just loaded again;
/// 2. hosts whose robots.txt was just fetched, while the connection is open;
/// 3. new hosts, because their first page shows how much work there is;
/// 4. the other lanes with robots rules in memory, those with the longest remaining time first, because they determine
///    when the crawl ends;
/// 5. lanes whose robots rules were evicted.
///
/// If links have priorities, the lanes of 2 to 4 are ordered by the rank of their next link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready {
    /// The largest is served first.
    pub weight: u64,
    /// With equal weights, the lane that was queued first is served first.
    pub seq: Reverse<u64>,
    pub lane: LaneId,
}

/// The use of one address, which several hosts may share.
#[derive(Default)]
struct AddressUse {
    /// The number of requests in flight.
    in_flight: usize,
    /// Lanes that wait for a free slot.
    waiting: VecDeque<LaneId>,
}

/// All queues of the workbench.
#[derive(Default)]
pub(super) struct LaneQueues {
    /// Lanes that may start now; the last one is served first.
    ready: BTreeSet<Ready>,
    /// Lanes that may start when `--rate` allows a page.
    rated: BinaryHeap<Ready>,
    /// Slow lanes with requests in flight that wait until more slots are free.
    crowded: VecDeque<LaneId>,
    /// Lanes that may start when a slot is free that is not reserved; the last one is served first.
    unproven: BTreeSet<Ready>,
    /// Lanes that may start at a known time.
    later: BTreeSet<(Time, LaneId)>,
    /// Requests in flight and waiting lanes of each address.
    by_ip: HashMap<IpAddr, AddressUse>,
    /// The last sequence number that was given out.
    seq: u64,
}

impl LaneQueues {
    /// Gives out the next sequence number. Sequence numbers order lanes by arrival.
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub fn insert_ready(&mut self, ready: Ready) {
        self.ready.insert(ready);
    }

    pub fn remove_ready(&mut self, ready: &Ready) {
        self.ready.remove(ready);
    }

    /// Removes the lane that is served first.
    pub fn pop_ready(&mut self) -> Option<Ready> {
        self.ready.pop_last()
    }

    pub fn insert_rated(&mut self, ready: Ready) {
        self.rated.push(ready);
    }

    /// Makes the first lane that waits for `--rate` ready.
    pub fn release_rated(&mut self) {
        self.ready.extend(self.rated.pop());
    }

    pub fn has_rated(&self) -> bool {
        !self.rated.is_empty()
    }

    pub fn insert_later(&mut self, at: Time, lane: LaneId) {
        self.later.insert((at, lane));
    }

    pub fn remove_later(&mut self, at: Time, lane: LaneId) {
        self.later.remove(&(at, lane));
    }

    /// The lane that starts when `--rate` allows the next page.
    pub fn first_rated(&self) -> Option<LaneId> {
        self.rated.peek().map(|ready| ready.lane)
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
        self.ready.is_empty() && self.rated.is_empty()
    }

    /// Queues a slow lane with requests in flight until more slots are free.
    pub fn insert_crowded(&mut self, lane: LaneId) {
        self.crowded.push_back(lane);
    }

    pub fn has_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// Takes the lanes that wait until more slots are free.
    pub fn take_crowded(&mut self) -> VecDeque<LaneId> {
        std::mem::take(&mut self.crowded)
    }

    /// Queues a lane until a slot is free that is not reserved.
    pub fn insert_unproven(&mut self, ready: Ready) {
        self.unproven.insert(ready);
    }

    pub fn has_unproven(&self) -> bool {
        !self.unproven.is_empty()
    }

    /// Removes the first lane that waits for a slot that is not reserved.
    pub fn pop_unproven(&mut self) -> Option<Ready> {
        self.unproven.pop_last()
    }

    /// Queues a lane until a slot of this address is free.
    pub fn wait_for_address(&mut self, ip: IpAddr, lane: LaneId) {
        self.by_ip.entry(ip).or_default().waiting.push_back(lane);
    }

    /// Counts a request that starts at this address.
    pub fn start_at(&mut self, ip: IpAddr) {
        self.by_ip.entry(ip).or_default().in_flight += 1;
    }

    /// Counts a request that ended at this address.
    pub fn end_at(&mut self, ip: IpAddr) {
        if let Some(address) = self.by_ip.get_mut(&ip) {
            address.in_flight -= 1;
        }
    }

    pub fn in_flight_at(&self, ip: IpAddr) -> usize {
        self.by_ip.get(&ip).map_or(0, |address| address.in_flight)
    }

    /// Removes the lane that has waited longest for this address, if fewer than `cap` requests are in flight there.
    pub fn pop_waiting(&mut self, ip: IpAddr, cap: Option<usize>) -> Option<LaneId> {
        let address = self.by_ip.get_mut(&ip)?;
        if cap.is_some_and(|cap| address.in_flight >= cap) {
            return None;
        }
        let lane = address.waiting.pop_front();
        if address.in_flight == 0 && address.waiting.is_empty() {
            self.by_ip.remove(&ip);
        }
        lane
    }

    /// Whether no address has a request in flight or a waiting lane.
    #[cfg(test)]
    pub fn is_idle_everywhere(&self) -> bool {
        self.by_ip.is_empty()
    }
}
