//! Where lanes sit while they wait for their turn, and who is called first.
//!
//! Invariant: a lane has one seat, and `ready`, `rated`, `later` and the queues of addresses say the same as its seat.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Entry, Workbench};
use crate::schedule::job::LaneId;
use crate::schedule::lane::{Addresses, Lane};
use crate::schedule::wait::WaitReason;
use crate::time::Time;

/// A lane with fewer links than this on the bench asks the frontier for more.
const LOW: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seat {
    /// Waits for an event.
    Nowhere,
    Ready(Ready),
    Later(Time),
    /// In the queue of an address.
    Queued,
    /// Waits for the rate.
    Rated,
}

/// A lane that may start now. New hosts go first, because their first page tells how much there is to do; then those
/// with most polite waiting ahead: the longest job decides when all is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready {
    pub weight: u64,
    pub seq: Reverse<u64>,
    pub lane: LaneId,
}

/// What hosts on one address share.
#[derive(Default)]
pub(super) struct Shared {
    pub in_flight: usize,
    pub waiting: VecDeque<LaneId>,
}

impl Workbench {
    /// Puts a lane where it belongs after something about it changed.
    pub(super) fn place(&mut self, id: LaneId, now: Time) {
        self.fail_all(id, now);
        self.ask_for_more(id);
        let pages = self.pages_left > 0;
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if matches!(entry.seat, Seat::Ready(_) | Seat::Queued | Seat::Rated) {
            return; // it is looked at again when its turn comes
        }
        let at = entry.lane.due(pages);
        if at <= now {
            self.seat_ready(id);
        } else {
            self.seat_later(id, at);
        }
    }

    pub(super) fn ask_for_more(&mut self, id: LaneId) {
        if self.pages_left == 0 {
            return;
        }
        if let Some(entry) = self.lanes.get_mut(&id)
            && !entry.is_hungry
            && entry.lane.backlog > 0
            && entry.lane.queue.len() < LOW
        {
            entry.is_hungry = true;
            self.hungry.push(id);
        }
    }

    pub(super) fn seat_ready(&mut self, id: LaneId) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if let Seat::Later(time) = entry.seat {
            self.later.remove(&(time, id));
        }
        self.seq += 1;
        let order = Reverse(self.seq);
        self.seat_by_rank(id, order);
    }

    fn seat_by_rank(&mut self, id: LaneId, order: Reverse<u64>) {
        let Some(ready) = self.rank(id, order) else { return };
        if let Some(entry) = self.lanes.get_mut(&id) {
            entry.seat = Seat::Ready(ready);
            self.ready.insert(ready);
        }
    }

    /// A lane that has less under way than when it was seated ranks higher. Else it would wait until those that were
    /// seated after it have as much under way as it had then: one host after the other would get all there is, and find
    /// its connections closed.
    pub(super) fn seat_anew(&mut self, id: LaneId) {
        if let Some(Seat::Ready(ready)) = self.lanes.get(&id).map(|entry| entry.seat) {
            self.ready.remove(&ready);
            self.seat_by_rank(id, ready.seq);
        }
    }

    pub(super) fn rank(&self, id: LaneId, order: Reverse<u64>) -> Option<Ready> {
        let lane = &self.lanes.get(&id)?.lane;
        let spacing = u64::try_from(lane.pace.spacing().as_nanos()).unwrap_or(u64::MAX);
        // What is under way already counts: fetches spread over the hosts, and the connections to each are used again.
        let ahead = lane.left().saturating_mul(spacing) / (lane.in_flight() as u64 + 1);
        if self.recalled == Some(id) {
            return Some(Ready { weight: u64::MAX, seq: Reverse(0), lane: id });
        }
        let weight = match lane.pace.is_fresh() {
            _ if lane.is_without_rules() => 0,
            true => u64::MAX,
            false => ahead,
        };
        Some(Ready { weight, seq: order, lane: id })
    }

    /// Seats a lane until a time; never is nowhere.
    pub(super) fn seat_later(&mut self, id: LaneId, at: Time) {
        let Some(entry) = self.lanes.get_mut(&id) else {
            return;
        };
        if let Seat::Later(time) = entry.seat {
            self.later.remove(&(time, id));
        }
        if at.is_never() {
            entry.seat = Seat::Nowhere;
        } else {
            entry.seat = Seat::Later(at);
            self.later.insert((at, id));
        }
    }

    pub(super) fn wake_due(&mut self, now: Time) {
        while let Some((_, id)) = self.later.first().copied().filter(|(time, _)| *time <= now) {
            self.seat_ready(id);
        }
    }

    pub(super) fn free_addresses(&mut self, addresses: &[IpAddr]) {
        if self.rules.per_ip.is_none() {
            return;
        }
        for ip in addresses {
            if let Some(shared) = self.by_ip.get_mut(ip) {
                shared.in_flight -= 1;
            }
            self.call_next(*ip);
        }
    }

    /// Calls up a lane that waits for a slot at this address, where one is free. One lane at a time: if that one does
    /// not take the slot, it is the next one's turn.
    pub(super) fn call_next(&mut self, ip: IpAddr) {
        let Some(shared) = self.by_ip.get_mut(&ip) else {
            return;
        };
        if self.rules.per_ip.is_some_and(|cap| shared.in_flight >= cap) {
            return;
        }
        let called = shared.waiting.pop_front();
        if shared.in_flight == 0 && shared.waiting.is_empty() {
            self.by_ip.remove(&ip);
        }
        if let Some(id) = called
            && let Some(entry) = self.lanes.get_mut(&id)
        {
            entry.called_by = Some(ip);
            self.seat_ready(id);
        }
    }

    /// Why nothing happens, for a person: the lane that will move first, and what it waits for.
    pub fn waits_for(&self, now: Time) -> Option<(Arc<str>, WaitReason, Duration)> {
        let (time, id) = self.later.first()?;
        let lane = &self.lanes.get(id)?.lane;
        Some((Arc::clone(&lane.name), reason(lane, now), *time - now))
    }

    /// What a lane waits for, and how long at least; zero where only an event can help.
    pub fn wait_of(&self, id: LaneId, now: Time) -> Option<(WaitReason, Duration)> {
        let Entry { lane, seat, .. } = self.lanes.get(&id)?;
        match seat {
            _ if matches!(lane.addresses, Addresses::Asked { .. }) => Some((WaitReason::Dns, Duration::ZERO)),
            Seat::Later(time) => Some((reason(lane, now), *time - now)),
            Seat::Nowhere if lane.in_flight() > 0 => Some((WaitReason::Responses, Duration::ZERO)),
            Seat::Rated => Some((WaitReason::Rate, self.next_start - now)),
            Seat::Nowhere | Seat::Ready(_) | Seat::Queued => None,
        }
    }
}

/// Why a lane that waits for a time does.
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
