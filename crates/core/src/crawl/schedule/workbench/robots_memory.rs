//! [`RobotsMemory`]: the memory that the robots rules of all lanes take, their eviction, and which are loaded again.
//!
//! Cached rules save requests. On a site that invents hosts and ports they would grow without bound, so they have a
//! limit. Evicted rules are loaded from the frontier's notes when they are needed, or fetched again.
//!
//! Rules that are not stored on disk can only be fetched again. While their lane is busy, they stay in memory for a
//! minimum time, so that no robots.txt is fetched repeatedly. Meanwhile a lane that needs a new robots.txt waits.
//!
//! Invariant: every change of the rules of a lane in memory passes through [`RobotsMemory::change`], so the size is exact.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use super::lane_table::LaneTable;
use crate::base::job::LaneId;
use crate::base::time::Time;
use crate::base::url::Origin;
use crate::crawl::schedule::lane::{Lane, RobotsState};

/// Limit on the memory of all robots rules, in bytes. A small `--max-memory` lowers it.
pub const MAX_ROBOTS_MEMORY: usize = 64 << 20;
/// The limit is at least this, however small `--max-memory` is.
pub(super) const MIN_ROBOTS_MEMORY: usize = 4 << 20;
/// Rules are grouped by size in steps of this many bytes, and the largest are evicted first. Most files are far smaller
/// than one step.
const WEIGHT_CLASS: usize = 64 << 10;
/// How long the rules of a busy lane that are not stored on disk stay in memory at least.
pub(super) const MIN_RESIDENCE: Duration = Duration::from_secs(60);
/// The pause after an eviction that freed too little. It limits the cost, because each search visits all lanes.
const EVICTION_PAUSE: Duration = Duration::from_secs(1);

/// The size of all robots rules in memory and its limit, and the evicted rules that are needed again.
pub(super) struct RobotsMemory {
    limit: usize,
    bytes: usize,
    /// If the last eviction freed too little: when the next one may start.
    next_eviction: Time,
    /// Evicted rules that are needed again.
    recalls: VecDeque<(LaneId, Origin)>,
    /// The lane whose rules were just loaded again. It is ranked before all others.
    recalled: Option<LaneId>,
}

/// Rules that may be evicted.
struct Candidate {
    lane: LaneId,
    origin: Origin,
    order: EvictionOrder,
}

/// The order in which candidates are evicted: rules of lanes without work, then large ones, then the least recently used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionOrder {
    is_busy: bool,
    size_class: Reverse<usize>,
    last_start: Option<Time>,
}

impl RobotsMemory {
    /// `share` is the memory that robots rules may use, in bytes.
    pub fn new(share: usize) -> Self {
        let limit = share.clamp(MIN_ROBOTS_MEMORY, MAX_ROBOTS_MEMORY);
        Self { limit, bytes: 0, next_eviction: Time::ZERO, recalls: VecDeque::new(), recalled: None }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the rules exceed their limit.
    pub fn is_full(&self) -> bool {
        self.bytes > self.limit
    }

    /// Changes the rules of a lane, and updates their size.
    pub fn change(&mut self, lane: &mut Lane, change: impl FnOnce(&mut Lane)) {
        let before = lane.robots_weight();
        change(lane);
        self.bytes = self.bytes.saturating_sub(before).saturating_add(lane.robots_weight());
    }

    /// Subtracts the rules of a lane that was removed from memory.
    pub fn removed(&mut self, lane: &Lane) {
        self.bytes = self.bytes.saturating_sub(lane.robots_weight());
    }

    /// Evicts rules if they exceed their limit. `newest` stays, since it is about to be used. Evicts down to three
    /// quarters of the limit, so that evictions are rare.
    pub fn evict(&mut self, lanes: &mut LaneTable, newest: Option<(LaneId, &Origin)>, now: Time) {
        if !self.is_full() || now < self.next_eviction {
            return;
        }
        let mut candidates: Vec<Candidate> =
            lanes.iter().flat_map(|(id, entry)| candidates(id, &entry.lane, now)).collect();
        candidates.retain(|candidate| newest != Some((candidate.lane, &candidate.origin)));
        candidates.sort_by_key(|candidate| candidate.order);
        for Candidate { lane, origin, .. } in candidates {
            if self.bytes <= self.limit / 4 * 3 {
                break;
            }
            if let Some(entry) = lanes.get_mut(lane) {
                self.change(&mut entry.lane, |lane| lane.set_robots(&origin, RobotsState::Evicted));
            }
        }
        if self.is_full() {
            self.next_eviction = now + EVICTION_PAUSE;
        }
    }

    /// Requests the evicted rules of a lane.
    pub fn request_recall(&mut self, lane: LaneId, origin: Origin) {
        self.recalls.push_back((lane, origin));
    }

    pub fn take_recall(&mut self) -> Option<(LaneId, Origin)> {
        self.recalls.pop_front()
    }

    pub fn awaits_recall(&self) -> bool {
        !self.recalls.is_empty()
    }

    /// Sets whose rules were just loaded again.
    pub fn set_recalled(&mut self, lane: Option<LaneId>) {
        self.recalled = lane;
    }

    /// Whether the rules of this lane were just loaded again.
    pub fn is_recalled(&self, lane: LaneId) -> bool {
        self.recalled == Some(lane)
    }

    /// Tries to free memory for the rules of one more robots.txt. If that fails, returns when to try again.
    pub fn retry_eviction(&mut self, lanes: &mut LaneTable, now: Time) -> Option<Time> {
        self.evict(lanes, None, now);
        self.is_full().then_some(self.next_eviction)
    }
}

/// The rules of a lane that may be evicted now.
fn candidates(id: LaneId, lane: &Lane, now: Time) -> impl Iterator<Item = Candidate> {
    let is_busy = lane.is_busy();
    let may_evict = move |state: &RobotsState| match state {
        RobotsState::Rules { evictable_from, .. } => *evictable_from <= now || !is_busy,
        RobotsState::Requested { .. } | RobotsState::Failed { .. } | RobotsState::Evicted => false,
    };
    let evictable = lane.robots.iter().filter(move |(_, state)| may_evict(state));
    evictable.map(move |(origin, state)| {
        let size_class = Reverse(state.weight() / WEIGHT_CLASS);
        let order = EvictionOrder { is_busy, size_class, last_start: lane.pace.last_start() };
        Candidate { lane: id, origin: origin.clone(), order }
    })
}
