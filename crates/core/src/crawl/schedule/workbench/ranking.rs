//! Links with priorities: a lane takes one link at a time from the frontier, and returns it when a better one is found.
//!
//! Without priorities, a lane takes a batch, because links of a host are requested in the order in which they are found.

use super::Workbench;
use crate::base::job::LaneId;
use crate::base::link::Link;

impl Workbench {
    /// From now on links have priorities.
    pub fn rank_links(&mut self) {
        self.ranks_links = true;
    }

    /// Whether links have priorities.
    pub fn ranks_links(&self) -> bool {
        self.ranks_links
    }

    /// A link of this rank was added to a lane in the frontier. If it precedes a link that the lane has taken, the lane
    /// takes links again.
    pub fn rank_again(&mut self, id: LaneId, rank: i32) {
        if !self.ranks_links {
            return;
        }
        if let Some(entry) = self.lanes.get_mut(id)
            && !entry.awaits_refill
            && entry.lane.queue.iter().any(|link| link.tries == 0 && link.rank() > rank)
        {
            entry.awaits_refill = true;
            self.wants_refill.push(id);
        }
    }

    /// Takes the links from a lane that it has taken from the frontier and not requested. The caller returns them, and
    /// adds links again.
    pub fn take_outranked(&mut self, id: LaneId) -> Vec<Link> {
        if !self.ranks_links {
            return Vec::new();
        }
        let Some((entry, counts)) = self.lanes.get_with_counts(id) else { return Vec::new() };
        let queue = std::mem::take(&mut entry.lane.queue);
        let (begun, links): (Vec<Link>, Vec<Link>) = queue.into_iter().partition(|link| link.tries > 0);
        entry.lane.queue = begun.into();
        entry.update_counts(counts);
        links
    }
}
