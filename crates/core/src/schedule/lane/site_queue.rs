//! [`SiteQueue`]: the site files of a lane that are to be fetched.

use std::collections::VecDeque;

use crate::page::link::Link;
use crate::schedule::job::Purpose;

/// robots.txt and other site files, which go before pages. Empty for most lanes at most times, and then without memory.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "most lanes have none, so its place in the lane must be small")]
pub struct SiteQueue(Option<Box<VecDeque<(Link, Purpose)>>>);

impl SiteQueue {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
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

    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.0.iter().flat_map(|queue| queue.iter()).map(|(link, _)| link)
    }

    /// Takes all of them.
    pub fn take(&mut self) -> VecDeque<(Link, Purpose)> {
        self.0.take().map(|queue| *queue).unwrap_or_default()
    }

    fn queue(&mut self) -> &mut VecDeque<(Link, Purpose)> {
        // One at a time, mostly; a queue grows to four elements otherwise.
        self.0.get_or_insert_with(|| Box::new(VecDeque::with_capacity(1)))
    }
}
