//! The snapshot: a checkpoint of the frontier's state, so that opening a directory reads only the end of the log.
//!
//! It is optional: if it is missing or damaged, the whole log is replayed instead. It is taken in portions while the
//! crawl continues ([`SnapshotWriter`](super::snapshot_writer::SnapshotWriter)), each written to a temporary file with
//! a commit. The file is renamed after the log was synced up to the last position that the snapshot refers to. The
//! snapshot contains the position and the checksum of the frame that ends there, so a snapshot that does not match the
//! log is not used.
//!
//! Links that are leased when a portion is taken are listed after its queues. They are queued again when the directory
//! is opened, because leases do not survive a restart.

use super::blocks::BlockReader;
use super::chains::Chains;
use super::fault::{damaged, failed};
use super::files::{File, Files};
use super::known::Known;
use super::queue::{LaneQueue, QueueStorage};
use super::run;
use super::snapshot_writer::LeasedLink;
use super::spill::Spill;
use crate::chunked_vec::ChunkedVec;
use crate::lanes::LaneNames;
use crate::seen::{SeenSet, Table};
use argiope_core::{LaneId, StoreError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

pub(super) const NAME: &str = "snapshot";
const TEMPORARY_NAME: &str = "snapshot.new";
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ARGSNAP1");
/// The file is synced after this many bytes, because a sync of more would delay a commit for too long.
const SYNC_AFTER: usize = 8 << 20;

/// Memory of an entry of [`State::notes`]: key, value and the overhead of the hash table.
const NOTE_BYTES: usize = 17;

/// Identifies a frame of the log: where it starts, where it ends, and its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The position of the frame.
    pub frame: u64,
    /// The position after the frame.
    pub end: u64,
    pub checksum: u64,
}

/// The state of a frontier that a snapshot stores. The links themselves are in the log.
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

/// A part of a snapshot's bytes, written with a commit.
pub(super) struct Portion {
    /// The offset in the file. Zero starts a new file.
    pub at: u64,
    pub blocks: Vec<Vec<u8>>,
    /// `None` except for the last portion, which completes the snapshot: the numbers of the run files that the snapshot
    /// refers to.
    pub completes: Option<Vec<u32>>,
}

/// The snapshot being written, used by the writer thread.
#[derive(Default)]
pub(super) struct SnapshotFile {
    /// The temporary file; `None` if no snapshot is in progress.
    file: Option<Box<dyn File>>,
    /// How many bytes were written since the last sync.
    unsynced: usize,
}

impl SnapshotFile {
    /// Writes a portion; the last portion completes the snapshot. The log must already be synced up to all positions in
    /// the portion.
    pub fn write(&mut self, files: &dyn Files, portion: &Portion) -> Result<(), StoreError> {
        self.append(files, portion).map_err(|error| failed(files, TEMPORARY_NAME, "write", error))?;
        portion.completes.as_deref().map_or(Ok(()), |runs| self.publish(files, runs))
    }

    /// Writes a portion to the temporary file.
    fn append(&mut self, files: &dyn Files, portion: &Portion) -> io::Result<()> {
        if portion.at == 0 {
            *self = Self { file: Some(files.create(TEMPORARY_NAME)?), unsynced: 0 };
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut at = portion.at;
        for block in &portion.blocks {
            file.write_at(block, at)?;
            at += block.len() as u64;
            self.unsynced += block.len();
        }
        if self.unsynced >= SYNC_AFTER || portion.completes.is_some() {
            file.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Syncs the runs that the snapshot refers to, then renames the snapshot.
    fn publish(&mut self, files: &dyn Files, runs: &[u32]) -> Result<(), StoreError> {
        for name in runs.iter().map(|number| run::file_name(*number)) {
            let synced = files.open(&name).and_then(|mut file| file.sync());
            synced.map_err(|error| failed(files, &name, "sync", error))?;
        }
        let rename = || -> io::Result<()> {
            if !runs.is_empty() {
                files.sync_folder(run::FOLDER)?;
            }
            files.rename(TEMPORARY_NAME, NAME)?;
            files.sync_folder("")
        };
        self.file = None;
        rename().map_err(|error| failed(files, NAME, "replace", error))
    }
}

/// Removes all snapshots. Refuses a file of that name that is not a snapshot.
pub(super) fn remove(files: &dyn Files) -> Result<(), StoreError> {
    if !is_ours(files, NAME) {
        return Err(damaged(files, NAME, "it is not a snapshot of a crawl"));
    }
    remove_all(files, &[NAME, TEMPORARY_NAME])
}

/// Whether a file is a snapshot, begins with zeros as after a crash, is empty, or does not exist.
pub(super) fn is_ours(files: &dyn Files, name: &str) -> bool {
    let file = match files.open(name) {
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
        Ok(file) => file,
    };
    // A file starts with the length and the checksum of the first block, 12 bytes. The magic follows, 8 bytes.
    let mut start = [0; 20];
    let read = file.read_at(&mut start, 0).unwrap_or(0);
    let content = start.get(12..read.max(12)).unwrap_or_default();
    read == 0 || start.iter().all(|byte| *byte == 0) || content == MAGIC.to_le_bytes()
}

/// Removes an incomplete snapshot.
pub(super) fn remove_leftovers(files: &dyn Files) -> Result<(), StoreError> {
    remove_all(files, &[TEMPORARY_NAME])
}

/// Removes files; those that do not exist are skipped.
fn remove_all(files: &dyn Files, names: &[&str]) -> Result<(), StoreError> {
    let mut removed = false;
    for name in names {
        match files.remove(name) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(files, name, "remove", error)),
        }
    }
    if removed {
        files.sync_folder("").map_err(|error| failed(files, "", "sync", error))?;
    }
    Ok(())
}

/// A snapshot read from disk. Leased links are queued again.
pub(super) struct Loaded {
    /// The position from which the log is replayed.
    pub start: u64,
    /// The last frame that any part of the snapshot includes.
    pub mark: Mark,
    pub included: QueuePositions,
    pub state: State,
    /// Its length in bytes.
    pub length: u64,
}

/// The log positions up to which the queues of a snapshot are current. Each portion has a group of lanes with its own
/// position.
#[derive(Default)]
pub(super) struct QueuePositions {
    /// For each group, the lane after its last lane, and the position.
    groups: Vec<(u32, u64)>,
    /// The largest of these positions.
    latest: u64,
}

impl QueuePositions {
    /// Whether the queue of a lane already includes the record at a position.
    pub fn includes(&self, lane: LaneId, record: u64) -> bool {
        record < self.latest && {
            let group = self.groups.partition_point(|(end_lane, _)| *end_lane <= lane.0);
            self.groups.get(group).is_some_and(|(_, position)| record < *position)
        }
    }
}

/// Reads the snapshot. `None` if there is none, or if it is incomplete, of another format or invalid.
pub(super) fn read(files: &Arc<dyn Files>, crawl: u64, memory_limit: usize) -> Result<Option<Loaded>, StoreError> {
    let Ok(file) = files.open(NAME) else { return Ok(None) };
    let mut from = BlockReader::new(file, crawl);
    let length = from.length();
    let mut state = State::new(files, crawl, memory_limit);
    let Some(start) = read_names_and_known(&mut from, &mut state) else { return Ok(None) };
    let (mut included, mut leased, mut last_size_check) = (QueuePositions::default(), Vec::new(), 0);
    while included.groups.is_empty() || included.groups.last().is_some_and(|group| group.0 < state.names.len() as u32) {
        let Some(position) = from.u64() else { return Ok(None) };
        loop {
            // Lanes are counted from one. A zero ends the group.
            let Some(lane) = from.varint() else { return Ok(None) };
            let Some(lane) = lane.checked_sub(1) else { break };
            let lane = u32::try_from(lane).ok().map(LaneId).filter(|lane| state.names.name(*lane).is_some());
            let Some(lane) = lane else { return Ok(None) };
            let Some(queue) = LaneQueue::decode(&mut from, &mut state.storage)? else { return Ok(None) };
            *state.queue_mut(lane) = queue;
            if from.position() - last_size_check > state.check_interval() {
                last_size_check = from.position();
                state.spill_if_full(0, false)?;
            }
        }
        let Some(end_lane) = read_leased(&mut from, &state, &mut leased) else { return Ok(None) };
        included.groups.push((end_lane, position));
        included.latest = included.latest.max(position);
    }
    let Some(mark) = read_rest(&mut from, &mut state) else { return Ok(None) };
    if !from.reached_end() || start > mark.end || included.latest > mark.end {
        return Ok(None);
    }
    leased.sort_unstable();
    for group in leased.chunk_by(|one, other| one.0 == other.0) {
        let links = group.iter().map(|(_, rank, position)| (*rank, *position)).collect();
        let lane = group.first().map_or(LaneId(0), |link| link.0);
        let mut queue = std::mem::take(state.queue_mut(lane));
        queue.insert(links, &mut state.storage)?;
        *state.queue_mut(lane) = queue;
    }
    Ok(Some(Loaded { start, mark, included, state, length }))
}

/// Reads names and fingerprints; returns the position from which the log is replayed.
fn read_names_and_known(from: &mut BlockReader, state: &mut State) -> Option<u64> {
    if from.u64()? != MAGIC {
        return None;
    }
    let start = from.u64()?;
    (state.settled, state.lines) = (from.u64()?, from.u64()?);
    let (lanes, text_length) = (from.u64()?, from.u64()?);
    let text = String::from_utf8(from.bytes(text_length)?).ok()?;
    let ends = from.bytes(lanes.checked_mul(4)?)?;
    let ends = ends.chunks_exact(4).map(|end| u32::from_le_bytes(end.try_into().unwrap_or_default())).collect();
    state.names = LaneNames::from_parts(text, ends);
    let mut tables = Vec::with_capacity(SeenSet::SHARDS);
    for _ in 0..SeenSet::SHARDS {
        let mut next_usize = || usize::try_from(from.u64()?).ok();
        let (homes, width, len, length) = (next_usize()?, next_usize()?, next_usize()?, next_usize()?);
        tables.push(Table { homes, width, len, slots: from.bytes(length as u64)? });
    }
    state.known.in_memory = SeenSet::from_tables(tables)?;
    let runs = from.u64()?;
    let runs = from.u64s(runs.checked_mul(2)?)?;
    let runs: Option<Vec<(u32, u64)>> =
        runs.chunks_exact(2).map(|pair| Some((u32::try_from(pair[0]).ok()?, pair[1]))).collect();
    state.known.open_runs(&runs?)?;
    Some(start)
}

/// Reads what follows the queues of a group: its end lane (one after its last lane) and its leased links. Returns the
/// end lane.
fn read_leased(from: &mut BlockReader, state: &State, leased: &mut Vec<LeasedLink>) -> Option<u32> {
    let end_lane = u32::try_from(from.varint()?).ok()?;
    for _ in 0..from.u64()? {
        let lane = LaneId(u32::try_from(from.u64()?).ok()?);
        state.names.name(lane)?;
        let rank = u32::try_from(from.u64()?).ok()? as i32;
        leased.push((lane, rank, from.u64()?));
    }
    Some(end_lane)
}

/// Reads the last part: the last frame, the positions of notes, the outputs and the names of created files.
fn read_rest(from: &mut BlockReader, state: &mut State) -> Option<Mark> {
    let mark = Mark { frame: from.u64()?, end: from.u64()?, checksum: from.u64()? };
    for _ in 0..from.u64()? {
        let lane = LaneId(u32::try_from(from.u64()?).ok()?);
        state.notes.insert(lane, from.u64()?);
    }
    let outputs = from.u64()?;
    let numbers = from.u64s(outputs.checked_mul(4)?)?;
    // For each output: its length, whether there is a hash, the hash, and the length of the name.
    for output in numbers.chunks_exact(4) {
        let name: Box<str> = String::from_utf8(from.bytes(output[3])?).ok()?.into();
        if output[1] == 1 {
            state.output_hashes.insert(name.clone(), output[2]);
        }
        state.outputs.insert(name, output[0]);
    }
    let count = from.u64()?;
    for length in from.u64s(count)? {
        state.created.insert(String::from_utf8(from.bytes(length)?).ok()?.into());
    }
    Some(mark)
}
