//! [`CommitFrontier`]: a frontier with the operations that commits need.

use argiope_core::LaneId;
use argiope_core::crawl::schedule::frontier::{Frontier, StoreError};
use argiope_store::MemoryFrontier;
use argiope_store::disk::{CommitBatch, Compaction, DiskFrontier};

/// A frontier with the operations that commits need. The default methods are those of a frontier without a log.
pub trait CommitFrontier: Frontier {
    /// Seals the events since the last commit, together with the length of each output file. Returns `None` if there is
    /// nothing to commit. At the end of a run, `is_last` is true, and the caller repeats the call until it returns
    /// `None`: these batches also contain the portions of a snapshot.
    fn commit(&mut self, _outputs: &[(&str, u64)], _is_last: bool) -> Result<Option<CommitBatch>, StoreError> {
        Ok(None)
    }

    /// Called when a commit is durable.
    fn acknowledge(&mut self, _batch: &CommitBatch) -> Result<(), StoreError> {
        Ok(())
    }

    /// The end of the log, including records that are not committed yet. When [`Self::durable_end`] has reached this
    /// value, all current records are durable. A frontier without a log returns 0, so the keeper never waits.
    fn log_end(&self) -> u64 {
        0
    }

    /// Everything up to this position of the log is durable. [`u64::MAX`] for a frontier without a log.
    fn durable_end(&self) -> u64 {
        u64::MAX
    }

    /// Whether the next page of this lane must wait until the current records are durable ([`Self::log_end`]).
    fn awaits_note(&self, _lane: LaneId) -> bool {
        false
    }

    /// Sets the hash of an output file, to be stored by the next commit.
    fn keep_output_hash(&mut self, _name: &str, _hash: u64) {}

    /// The compaction that is due now, if any. It may run on any thread, concurrently with the crawl.
    fn take_compaction(&mut self) -> Option<Compaction> {
        None
    }

    /// Approximate memory use.
    fn bytes(&self) -> usize {
        0
    }

    /// The memory that grows with the number of hosts and cannot be spilled to disk.
    fn host_bytes(&self) -> usize {
        0
    }

    /// Stores a record that does not belong to a page: start and end of a run, robots.txt, sitemaps, skipped links.
    fn keep_line(&mut self, _line: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
}

impl CommitFrontier for MemoryFrontier {
    fn bytes(&self) -> usize {
        MemoryFrontier::bytes(self)
    }

    fn host_bytes(&self) -> usize {
        MemoryFrontier::host_bytes(self)
    }
}

/// The frontier of a fleet commits on its own threads, so [`CommitFrontier::commit`] has nothing to do. Instead of log
/// positions, it counts marks of links and notes about hosts, and those of them that are replicated.
#[cfg(feature = "fleet")]
impl CommitFrontier for argiope_fleet::cluster::FleetFrontier {
    fn keep_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        argiope_fleet::cluster::FleetFrontier::keep_line(self, line);
        Ok(())
    }

    fn log_end(&self) -> u64 {
        self.marks()
    }

    fn durable_end(&self) -> u64 {
        self.durable_marks()
    }

    fn awaits_note(&self, lane: LaneId) -> bool {
        argiope_fleet::cluster::FleetFrontier::awaits_note(self, lane)
    }
}

impl CommitFrontier for DiskFrontier {
    fn commit(&mut self, outputs: &[(&str, u64)], is_last: bool) -> Result<Option<CommitBatch>, StoreError> {
        if is_last { self.commit_at_end(outputs) } else { DiskFrontier::commit(self, outputs) }
    }

    fn acknowledge(&mut self, batch: &CommitBatch) -> Result<(), StoreError> {
        DiskFrontier::acknowledge(self, batch)
    }

    fn log_end(&self) -> u64 {
        DiskFrontier::log_end(self)
    }

    fn durable_end(&self) -> u64 {
        DiskFrontier::durable_end(self)
    }

    fn keep_output_hash(&mut self, name: &str, hash: u64) {
        DiskFrontier::keep_output_hash(self, name, hash);
    }

    fn take_compaction(&mut self) -> Option<Compaction> {
        DiskFrontier::take_compaction(self)
    }

    fn bytes(&self) -> usize {
        DiskFrontier::bytes(self)
    }

    fn host_bytes(&self) -> usize {
        DiskFrontier::host_bytes(self)
    }

    fn keep_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        DiskFrontier::keep_line(self, line.strip_suffix(b"\n").unwrap_or(line))
    }
}
