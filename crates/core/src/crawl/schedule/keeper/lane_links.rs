//! [`LaneLinks`]: how many links a lane of the workbench holds.

use crate::base::link::Link;

/// A request of this size, in bytes, is large. Then lanes hold fewer links.
const LARGE_REQUEST: usize = 64 << 10;
/// Maximum bytes of the requests of a lane, unless a single request is larger.
const MAX_LANE_REQUEST_BYTES: usize = 4 << 20;

/// Limit on the number of links in one lane of the workbench. It limits memory, because each link holds the body of its
/// request. `None` until the first large request.
#[derive(Default)]
pub(super) struct LaneLinks(Option<usize>);

impl LaneLinks {
    /// Lowers the limit if one of these requests is large.
    pub fn note(&mut self, links: &[Link]) {
        let sizes = links.iter().filter_map(|link| Some(link.request.as_ref()?.bytes()));
        if let Some(largest) = sizes.max().filter(|&bytes| bytes >= LARGE_REQUEST) {
            let limit = (MAX_LANE_REQUEST_BYTES / largest).max(1);
            self.0 = Some(self.0.map_or(limit, |max_links| max_links.min(limit)));
        }
    }

    /// How many links a lane takes that holds `queued`, and would take `batch` without this limit.
    pub fn room(&self, queued: usize, batch: usize) -> usize {
        // At least one link, so that the lane continues.
        self.0.map_or(batch, |limit| batch.min(limit.saturating_sub(queued)).max(usize::from(queued == 0)))
    }

    /// Removes the links that are too many for a lane; `None` if all have room.
    pub fn split_excess(&self, links: &mut Vec<Link>) -> Option<Vec<Link>> {
        self.0.filter(|&limit| links.len() > limit).map(|limit| links.split_off(limit))
    }

    /// Heap bytes of the requests in these links, if some are large.
    pub fn bytes<'a>(&self, links: impl Iterator<Item = &'a Link>) -> usize {
        if self.0.is_none() {
            return 0;
        }
        links.filter_map(|link| Some(link.request.as_ref()?.bytes())).sum()
    }
}
