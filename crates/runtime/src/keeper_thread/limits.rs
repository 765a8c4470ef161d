//! The limits of the process on disk and memory, which the keeper's thread checks in its loop.

use std::time::Duration;

use argiope_core::Time;
use argiope_core::base::budget::MemoryPart;
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::crawl::visit::Visit;

use super::KeeperLoop;
use crate::error::Error;
use argiope_store::Store;

/// How often memory use is reported to the memory budget.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The minimum memory for host names, even if `--max-memory` is smaller.
const MIN_HOST_BYTES: u64 = 1 << 20;

impl<F: Store> KeeperLoop<F> {
    /// Checks `--max-disk`. Near the limit, no more requests start, and pages in flight are still written if they fit.
    pub(super) fn check_disk(&mut self, now: Time) {
        let unwritten = self.commits.outstanding_bytes();
        if self.disk.as_mut().is_some_and(|disk| disk.is_near(unwritten, now)) {
            self.keeper.stop(End::MaxDisk);
            self.drain_until = self.drain_until.min(now + self.drain_time);
        }
    }

    /// Whether the archive has room for a page. If not, the crawl ends now, and the next run fetches the page again.
    pub(super) fn has_disk_room(&mut self, visit: &Visit, now: Time) -> Result<bool, Error> {
        let Some((disk, exchange)) = self.disk.as_mut().zip(visit.for_keeper.archive()) else { return Ok(true) };
        let bytes = exchange.bytes() as u64;
        if disk.admit(bytes) {
            return Ok(true);
        }
        self.collect_settled(now)?;
        let unwritten = self.commits.outstanding_bytes();
        let fits = self.disk.as_mut().is_none_or(|disk| {
            disk.measure(unwritten);
            disk.admit(bytes)
        });
        if !fits {
            self.keeper.stop(End::MaxDisk);
            self.drain_until = now;
        }
        Ok(fits)
    }

    /// Reports memory use to the [`Budget`](argiope_core::base::budget::Budget). The frontier moves links beyond its share to
    /// disk, but host names stay in memory. Therefore links to unknown hosts are deferred when host names use three
    /// eighths of the limit.
    pub(super) fn check_memory(&mut self, now: Time) {
        if now < self.next_memory_check {
            return;
        }
        self.next_memory_check = now + MEMORY_CHECK_INTERVAL;
        let bytes = self.keeper.frontier().bytes() as u64;
        self.rules.budget.set(MemoryPart::Frontier, bytes);
        self.rules.budget.set(MemoryPart::Connections, self.fetchers.idle_bytes() as u64);
        self.keeper.report_memory();
        if let Some(limit) = self.rules.max_memory {
            let hosts = self.keeper.frontier().host_bytes() as u64;
            self.keeper.set_full_of_hosts(hosts > (limit / 8 * 3).max(MIN_HOST_BYTES));
        }
    }
}
