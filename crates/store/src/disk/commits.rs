//! [`Commits`]: when the changes of a store become durable, and how much memory they take. [`Store`]: all that a crawl
//! requires of a store.

use argiope_core::{Frontier, History, LaneId, StoreError};

use super::compaction::Compaction;
use super::log::CommitBatch;

/// An output file as of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedOutput<'a> {
    /// Its name in the crawl directory, or its absolute path elsewhere.
    pub name: &'a str,
    /// Its length.
    pub length: u64,
    /// The hash of its content, if it is computed.
    pub hash: Option<u64>,
}

/// When the changes of a store become durable. The defaults are those of a store without a log: it is not durable, or it
/// is durable without commits.
pub trait Commits {
    /// Seals the changes since the last commit, together with the state of each output file. Returns `None` if there is
    /// nothing to commit. At the end of a run, `is_last` is true, and the caller repeats the call until it returns
    /// `None`: these batches also contain the portions of a snapshot.
    fn commit(&mut self, _outputs: &[CommittedOutput<'_>], _is_last: bool) -> Result<Option<CommitBatch>, StoreError> {
        Ok(None)
    }

    /// Called when a commit is durable.
    fn acknowledge(&mut self, _batch: &CommitBatch) -> Result<(), StoreError> {
        Ok(())
    }

    /// The number of the last change. When [`Self::durable_end`] has reached it, all current changes are durable. A store
    /// without a log returns 0, so the keeper never waits.
    fn log_end(&self) -> u64 {
        0
    }

    /// All changes up to this one are durable. [`u64::MAX`] for a store without a log.
    fn durable_end(&self) -> u64 {
        u64::MAX
    }

    /// Whether the next page of this lane must wait until the current changes are durable ([`Self::log_end`]).
    fn awaits_note(&self, _lane: LaneId) -> bool {
        false
    }

    /// The compaction that is due now, if any. It may run on any thread, concurrently with the crawl.
    fn take_compaction(&mut self) -> Option<Compaction> {
        None
    }

    /// Approximate memory use in bytes.
    fn bytes(&self) -> usize {
        0
    }

    /// The part of [`Self::bytes`] that grows with the number of hosts and cannot be moved to disk.
    fn host_bytes(&self) -> usize {
        0
    }
}

/// All that a crawl requires of a store: memory, a crawl directory, the store of a fleet, and a user's own.
pub trait Store: Frontier + History + Commits {}

impl<S: Frontier + History + Commits> Store for S {}
