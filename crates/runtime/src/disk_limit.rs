//! [`DiskLimit`]: the crawl directory stays below `--max-disk`.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::Time;
use argiope_store::disk::Files;

/// How often the size of the crawl directory is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// This fraction (one nth) of the limit is left for records of pages in flight and for the last snapshot.
const RESERVED_PART: u64 = 16;

/// The size of a crawl directory and its limit.
pub(crate) struct DiskLimit {
    files: Arc<dyn Files>,
    /// In bytes, without the reserve.
    limit: u64,
    next_check: Time,
    /// The size at the last check, with what was not written yet.
    size: Option<u64>,
    /// Bytes that were added to the archive since the last check.
    added: u64,
}

impl DiskLimit {
    pub fn new(files: Arc<dyn Files>, limit: u64) -> Self {
        Self { files, limit: limit - limit / RESERVED_PART, next_check: Time::ZERO, size: None, added: 0 }
    }

    /// Whether the limit is near. `unwritten` are bytes that will be written. The size is checked ten times a second.
    pub fn is_near(&mut self, unwritten: u64, now: Time) -> bool {
        if now < self.next_check {
            return false;
        }
        self.next_check = now + CHECK_INTERVAL;
        let before = self.size;
        let size = self.measure(unwritten);
        // Reserve for the growth until the next check and for the pages in flight.
        let growth = size.saturating_sub(before.unwrap_or(size));
        size.saturating_add(growth.saturating_mul(2)) >= self.limit
    }

    /// Checks the size now.
    pub fn measure(&mut self, unwritten: u64) -> u64 {
        let size = self.files.size().saturating_add(unwritten);
        (self.size, self.added) = (Some(size), 0);
        size
    }

    /// Whether a page with this many bytes fits into the archive. If so, it counts from then on.
    pub fn admit(&mut self, bytes: u64) -> bool {
        let sum = self.size.unwrap_or(u64::MAX).saturating_add(self.added).saturating_add(bytes);
        if sum <= self.limit {
            self.added += bytes;
        }
        sum <= self.limit
    }
}
