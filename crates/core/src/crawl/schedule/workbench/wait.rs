//! [`Wait`]: what a lane waits for. [`Ready`]: the rank of a lane among those that may start.

use std::cmp::Reverse;

use crate::base::job::LaneId;
use crate::base::time::Time;

/// A lane that may start now. The order is:
///
/// 1. the lane whose evicted robots rules were just loaded again;
/// 2. lanes with requests of rendered pages, which hold memory of the browser;
/// 3. hosts whose robots.txt was just fetched, while the connection is open;
/// 4. new hosts, because their first page shows how much work there is;
/// 5. the other lanes with robots rules in memory, those with the longest remaining time first, because they determine
///    when the crawl ends;
/// 6. lanes whose robots rules were evicted.
///
/// If links have priorities, the lanes of 3 to 5 are ordered by the rank of their next link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready {
    /// The largest is served first.
    pub weight: u64,
    /// With equal weights, the lane that was queued first is served first.
    pub seq: Reverse<u64>,
    pub lane: LaneId,
}

/// What a lane waits for. The head of the workbench shows which follows which.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// An event: a response, a DNS answer, a robots.txt, more links. The lane is in no queue.
    Event,
    /// This time.
    Until(Time),
    /// Its turn: it may start now.
    Turn(Ready),
    /// The time at which `--rate` allows a page.
    Rate(Ready),
    /// A free slot of an address: see [`super::address_slots`].
    Address,
    /// More free slots, because its requests hold slots for long.
    FreeSlots,
    /// A free slot that is not reserved for quick lanes.
    UnreservedSlot(Ready),
}
