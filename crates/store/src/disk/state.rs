//! [`State`]: what a frontier keeps in memory, and moves to disk when memory is short. The links themselves are in the log.

use super::chains::Chains;
use super::files::Files;
use super::known::Known;
use super::queue::{LaneQueue, QueueStorage};
use super::spill::Spill;
use crate::chunked_vec::ChunkedVec;
use crate::lanes::LaneNames;
use argiope_core::{LaneId, StoreError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Memory of an entry of [`State::notes`]: key, value and the overhead of the hash table.
const NOTE_BYTES: usize = 17;

/// The state of a frontier, which a snapshot stores.
pub(super) struct State {
    pub known: Known,
    pub names: LaneNames,
    /// By lane number; shorter than `names` if the last lanes never had a queue.
    pub queues: ChunkedVec<LaneQueue>,
    pub settled: u64,
    /// The number of records that do not belong to an outcome.
    pub lines: u64,
    /// The position of the last note about each lane.
    pub notes: HashMap<LaneId, u64>,
    /// The committed lengths of the output files.
    pub outputs: BTreeMap<Box<str>, u64>,
    /// The hashes of the committed parts of the output files, if known.
    pub output_hashes: BTreeMap<Box<str>, u64>,
    /// The names of files, other than outputs, that this crawl created.
    pub created: BTreeSet<Box<str>>,
    /// The memory and the scratch file that all queues share.
    pub storage: QueueStorage,
    /// The memory limit for this state, in bytes.
    memory_limit: usize,
}

impl State {
    pub fn new(files: &Arc<dyn Files>, crawl: u64, memory_limit: usize) -> Self {
        Self {
            known: Known::new(Arc::clone(files), crawl),
            names: LaneNames::default(),
            queues: ChunkedVec::default(),
            settled: 0,
            lines: 0,
            notes: HashMap::new(),
            outputs: BTreeMap::new(),
            output_hashes: BTreeMap::new(),
            created: BTreeSet::new(),
            storage: QueueStorage {
                chains: Chains::new(),
                spill: Spill::new(Arc::clone(files), crawl, memory_limit / 16),
            },
            memory_limit,
        }
    }

    /// Approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        let queued: usize = self.queues.iter().map(LaneQueue::bytes).sum();
        self.known.bytes() + self.host_bytes() + queued + self.storage.chains.bytes() + self.storage.spill.bytes()
    }

    /// The part of [`Self::bytes`] that grows with the number of hosts and cannot be moved to disk.
    pub fn host_bytes(&self) -> usize {
        self.names.bytes() + self.queues.bytes() + self.notes.capacity() * NOTE_BYTES
    }

    /// By how much the log may grow before memory use is checked again.
    pub fn check_interval(&self) -> u64 {
        (self.memory_limit / 64) as u64
    }

    /// Moves state to disk when the memory limit is reached. If fingerprints use less than a quarter of the memory, the
    /// middle of long queues is moved first. Then, if that was not enough, fingerprints are moved, unless
    /// `is_snapshot_in_progress`. Host names stay in memory. `other_bytes` is the memory that the frontier uses in
    /// addition to this state.
    pub fn spill_if_full(&mut self, other_bytes: usize, is_snapshot_in_progress: bool) -> Result<(), StoreError> {
        if self.memory_limit == usize::MAX {
            return Ok(());
        }
        // However much the other memory is, a quarter of the limit is left for this state.
        let memory_limit = self.memory_limit.saturating_sub(other_bytes).max(self.memory_limit / 4);
        if self.bytes() <= memory_limit {
            return Ok(());
        }
        if self.known.in_memory.bytes() < memory_limit / 4 {
            for queue in self.queues.iter_mut() {
                queue.spill(&mut self.storage)?;
            }
        }
        // Only if less than an eighth of the memory is free. Spilling a very small table would free nothing.
        if !is_snapshot_in_progress
            && self.bytes() > memory_limit / 8 * 7
            && self.known.in_memory.bytes() > memory_limit / 32
        {
            let max_filter_bytes = memory_limit / 4;
            self.known.spill(max_filter_bytes)?;
        }
        Ok(())
    }

    /// Queues a link whose log position is larger than that of all queued links.
    pub fn queue(&mut self, lane: LaneId, rank: i32, position: u64) {
        // Creates the queue if the lane has none.
        self.queue_mut(lane);
        self.queues[lane.index()].push(rank, position, &mut self.storage.chains);
    }

    /// How many links are queued.
    pub fn queued(&self) -> u64 {
        self.queues.iter().map(|queue| queue.len(&self.storage.chains)).sum()
    }

    /// The queue of a lane, which is created if necessary.
    pub fn queue_mut(&mut self, lane: LaneId) -> &mut LaneQueue {
        self.queues.grow_to(lane.index() + 1);
        &mut self.queues[lane.index()]
    }
}
