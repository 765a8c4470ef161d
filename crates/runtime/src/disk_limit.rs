//! [`DiskLimit`]: the crawl directory stays below `--max-disk`.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::Time;
use argiope_store::disk::Files;

/// How often the size of the crawl directory is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The limit divided by this is left free, for records of pages in flight and for the last snapshot.
const RESERVE_DIVISOR: u64 = 16;

/// The size of a crawl directory and its limit.
pub(crate) struct DiskLimit {
    files: Arc<dyn Files>,
    /// In bytes, without the reserve.
    limit: u64,
    next_check: Time,
    /// The size at the last check, including bytes that were not written yet. `None` before the first check.
    size: Option<u64>,
    /// Bytes that were added to the archive since the last check.
    added: u64,
}

impl DiskLimit {
    pub fn new(files: Arc<dyn Files>, limit: u64) -> Self {
        Self { files, limit: limit - limit / RESERVE_DIVISOR, next_check: Time::ZERO, size: None, added: 0 }
    }

    /// Whether the limit is near. `unwritten` is the number of bytes that will be written. Returns false between two
    /// checks, which are [`CHECK_INTERVAL`] apart.
    pub fn is_near(&mut self, unwritten: u64, now: Time) -> bool {
        if now < self.next_check {
            return false;
        }
        self.next_check = now + CHECK_INTERVAL;
        let before = self.size;
        let size = self.measure(unwritten);
        // The directory is expected to grow by as much as since the last check: once until the next check, and once
        // more for the pages in flight.
        let growth = size.saturating_sub(before.unwrap_or(size));
        size.saturating_add(growth.saturating_mul(2)) >= self.limit
    }

    /// Measures the size of the directory and adds `unwritten` bytes.
    pub fn measure(&mut self, unwritten: u64) -> u64 {
        let size = self.files.size().saturating_add(unwritten);
        (self.size, self.added) = (Some(size), 0);
        size
    }

    /// Adds a page with this many bytes to the size, if it fits; returns whether it does. Before the first
    /// measurement, no page fits.
    pub fn admit(&mut self, bytes: u64) -> bool {
        let sum = self.size.unwrap_or(u64::MAX).saturating_add(self.added).saturating_add(bytes);
        if sum <= self.limit {
            self.added += bytes;
        }
        sum <= self.limit
    }
}
