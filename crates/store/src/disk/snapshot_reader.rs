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
use super::files::Files;
use super::queue::LaneQueue;
use super::snapshot_file::{LeasedLink, LogMark, MAGIC, NAME};
use super::state::State;
use crate::lanes::LaneNames;
use crate::seen::{SeenSet, Table};
use argiope_core::{LaneId, StoreError};
use std::sync::Arc;

/// A snapshot read from disk. Leased links are queued again.
pub(super) struct Loaded {
    /// The position from which the log is replayed.
    pub start: u64,
    /// The last frame that any part of the snapshot includes.
    pub mark: LogMark,
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
fn read_rest(from: &mut BlockReader, state: &mut State) -> Option<LogMark> {
    let mark = LogMark { frame: from.u64()?, end: from.u64()?, checksum: from.u64()? };
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
