//! Deferred links: links to hosts that have no lane, because memory has no room for more host names.
//!
//! All deferred links are queued in one lane with an empty name. Since the name of the lane is not their host, the log
//! stores their URLs from the host name on. Beyond the memory limit, this queue moves to disk, like every long queue.
//! So a deferred link takes no memory, except for its fingerprint.
//!
//! When a deferred link gets the lane of its host, a second log entry in that lane replaces the first one.

use argiope_core::{Frontier, LinkRef, StoreError};

use super::DiskFrontier;
use super::links::LinkChange;
use crate::disk::record::{DEFERRED, QueuedAs};
use crate::disk::state::State;
use crate::link_codec::{after_host, after_scheme};

impl DiskFrontier {
    /// Adds a new link to the deferred ones.
    pub(super) fn defer(&mut self, link: LinkRef<'_>) -> Result<(), StoreError> {
        let lane = match self.deferred_lane {
            Some(lane) => lane,
            None => self.lane_of(DEFERRED)?,
        };
        self.deferred_lane = Some(lane);
        let position = self.write_link(lane, link, after_scheme(link.url), LinkChange::default())?;
        self.state.queue(lane, link.rank(), position);
        self.queued += 1;
        Ok(())
    }

    /// Moves up to `max_links` deferred links to the lanes of their hosts, which are added to `admitted`.
    pub(super) fn move_deferred(&mut self, max_links: usize) -> Result<(), StoreError> {
        let Some(deferred) = self.deferred_lane else { return Ok(()) };
        for _ in 0..max_links {
            let State { queues, storage, .. } = &mut self.state;
            let Some(queue) = queues.get_mut(deferred.index()) else { break };
            let Some((rank, position)) = queue.pop(storage)? else { break };
            let link = self.read_link(Some(deferred), position)?;
            let lane = self.lane_of(link.url.host())?;
            let change = LinkChange { replaces: Some(position), queued_as: QueuedAs::Admitted };
            let rest = after_host(link.url.as_ref());
            let position = self.write_link(lane, LinkRef::from(&link), rest, change)?;
            self.state.queue(lane, rank, position);
            self.admitted.push(lane);
        }
        self.admitted.sort_unstable();
        self.admitted.dedup();
        Ok(())
    }
}
