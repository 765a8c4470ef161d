//! [`SiteQueue`]: the robots.txt files that a lane has to fetch, and the parts of rendered pages. Sitemaps are queued like
//! pages.

use std::collections::VecDeque;

use crate::base::job::Purpose;
use crate::base::link::Link;

/// What a lane requests before its pages. Most lanes have none most of the time. An empty queue
/// allocates no memory.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "most lanes have none, so its place in the lane must be small")]
pub struct SiteQueue(Option<Box<VecDeque<(Link, Purpose)>>>);

impl SiteQueue {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.len())
    }

    pub fn push_back(&mut self, link: Link, purpose: Purpose) {
        self.queue().push_back((link, purpose));
    }

    pub fn push_front(&mut self, link: Link, purpose: Purpose) {
        self.queue().push_front((link, purpose));
    }

    pub fn pop_front(&mut self) -> Option<(Link, Purpose)> {
        let queue = self.0.as_mut()?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.0 = None;
        }
        first
    }

    pub fn has_parts(&self) -> bool {
        self.0.iter().flat_map(|queue| queue.iter()).any(|(_, purpose)| purpose.is_part())
    }

    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.0.iter().flat_map(|queue| queue.iter()).map(|(link, _)| link)
    }

    /// Removes and returns all entries.
    pub fn take(&mut self) -> VecDeque<(Link, Purpose)> {
        self.0.take().map(|queue| *queue).unwrap_or_default()
    }

    fn queue(&mut self) -> &mut VecDeque<(Link, Purpose)> {
        // Most queues hold one entry at a time. Without this capacity, a queue would start with room for four.
        self.0.get_or_insert_with(|| Box::new(VecDeque::with_capacity(1)))
    }
}
