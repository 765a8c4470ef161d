//! [`LaneCounts`]: sums over all lanes of the workbench.
//!
//! After each change of a lane, [`LaneCounts::replace`] replaces what the lane contributed before. No other code changes
//! these sums, so code that moves links, takes slots or frees them does not update them.

use crate::crawl::schedule::lane::{Addresses, Lane};

/// What one lane contributes to [`LaneCounts`]. The default is a lane that is not counted. The numbers are small types,
/// because there are many lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CountedLane {
    /// The number of links that are queued or wait for a retry.
    waiting: u32,
    /// The number of requests in flight.
    in_flight: u16,
    kind: LaneKind,
}

/// The properties for which lanes are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LaneKind {
    is_idle: bool,
    is_fast: bool,
    is_quick: bool,
    is_resolving: bool,
    has_parts: bool,
}

impl CountedLane {
    pub fn of(lane: &Lane) -> Self {
        let waiting = u32::try_from(lane.waiting()).unwrap_or(u32::MAX);
        let in_flight = u16::try_from(lane.in_flight()).unwrap_or(u16::MAX);
        let is_busy = waiting > 0 || in_flight > 0 || lane.backlog > 0;
        let kind = LaneKind {
            is_idle: !is_busy,
            is_fast: is_busy && lane.is_fast(),
            is_quick: is_busy && lane.pace.is_quick() && lane.pace.delay().is_zero(),
            is_resolving: matches!(lane.addresses, Addresses::Resolving { .. }),
            has_parts: lane.has_parts(),
        };
        Self { waiting, in_flight, kind }
    }

    /// A busy lane with this number of requests in flight.
    #[cfg(test)]
    pub fn for_test(in_flight: u16, is_quick: bool) -> Self {
        Self { waiting: 0, in_flight, kind: LaneKind { is_quick, ..LaneKind::default() } }
    }

    /// Whether the lane has no work.
    pub fn is_idle(self) -> bool {
        self.kind.is_idle
    }

    /// Whether a request of a rendered page waits in the lane.
    pub fn has_parts(self) -> bool {
        self.kind.has_parts
    }

    /// Whether the lane has work, and its requests held their slots for a short time on average.
    pub fn is_fast(self) -> bool {
        self.kind.is_fast
    }

    /// Whether the lane has work and no delay, and its last page held its slot for a short time. Such a lane can use
    /// free slots at once.
    pub fn is_quick(self) -> bool {
        self.kind.is_quick
    }

    fn quick_in_flight(self) -> usize {
        if self.kind.is_quick { usize::from(self.in_flight) } else { 0 }
    }
}

/// Sums over all lanes in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneCounts {
    waiting: usize,
    in_flight: usize,
    quick_in_flight: usize,
    idle: usize,
    fast: usize,
    quick: usize,
    resolving: usize,
    with_parts: usize,
}

impl LaneCounts {
    /// Replaces what a lane contributes.
    pub fn replace(&mut self, before: CountedLane, now: CountedLane) {
        self.waiting = self.waiting + now.waiting as usize - before.waiting as usize;
        self.in_flight = self.in_flight + usize::from(now.in_flight) - usize::from(before.in_flight);
        self.quick_in_flight = self.quick_in_flight + now.quick_in_flight() - before.quick_in_flight();
        // Most changes of a lane do not change its kind.
        if now.kind != before.kind {
            self.replace_kind(before.kind, now.kind);
        }
    }

    fn replace_kind(&mut self, before: LaneKind, now: LaneKind) {
        self.idle = self.idle + usize::from(now.is_idle) - usize::from(before.is_idle);
        self.fast = self.fast + usize::from(now.is_fast) - usize::from(before.is_fast);
        self.quick = self.quick + usize::from(now.is_quick) - usize::from(before.is_quick);
        self.resolving = self.resolving + usize::from(now.is_resolving) - usize::from(before.is_resolving);
        self.with_parts = self.with_parts + usize::from(now.has_parts) - usize::from(before.has_parts);
    }

    /// Whether links, requests and lookups are the same in other sums. Whether a lane is fast or quick may have changed
    /// with time.
    #[cfg(debug_assertions)]
    pub fn has_same_work(&self, other: &Self) -> bool {
        let work = |counts: &Self| [counts.waiting, counts.in_flight, counts.resolving, counts.with_parts];
        work(self) == work(other)
    }

    /// The number of links that are queued or wait for a retry.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The number of requests in flight of quick lanes.
    pub fn quick_in_flight(&self) -> usize {
        self.quick_in_flight
    }

    /// The number of idle lanes.
    pub fn idle(&self) -> usize {
        self.idle
    }

    /// The number of fast lanes.
    pub fn fast(&self) -> usize {
        self.fast
    }

    /// The number of quick lanes.
    pub fn quick(&self) -> usize {
        self.quick
    }

    /// The number of lanes in which requests of rendered pages wait.
    pub fn with_parts(&self) -> usize {
        self.with_parts
    }

    /// The number of lanes whose host name is being resolved.
    pub fn resolving(&self) -> usize {
        self.resolving
    }
}
