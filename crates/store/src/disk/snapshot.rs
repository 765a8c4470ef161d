//! The snapshot: the state that the log's beginning adds up to, so that opening reads only the log's end.
//!
//! It is never needed: without it, or when it is damaged in the least, everything is read from the log instead. It is
//! written aside, synced, and renamed, after the log was synced up to the position that it speaks of. It names the last
//! frame before that position by place and checksum, so a snapshot of another history is never believed.
//!
//! What is leased while it is written is listed beside the queues: a process that opens the directory has no leases.

use super::blocks::{BlockReader, BlockWriter};
use super::fault::failed;
use super::files::Files;
use super::queue::LaneQueue;
use super::record::{Bytes, write_number};
use crate::lanes::LaneNames;
use crate::seen::SeenSet;
use argiope_core::{LaneId, StoreError};
use std::collections::{BTreeMap, HashMap};
use std::io;

pub(super) const NAME: &str = "snapshot";
const ASIDE: &str = "snapshot.new";
/// Queues are written and read in portions of about this size.
const PORTION: usize = 1 << 20;
const MAGIC: u64 = u64::from_le_bytes(*b"ARGSNAP1");

/// Where in the log a snapshot was taken: behind this frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub frame: u64,
    pub end: u64,
    pub checksum: u64,
}

/// All that a frontier knows, apart from the links themselves.
#[derive(Default)]
pub(super) struct State {
    pub seen: SeenSet,
    pub names: LaneNames,
    /// By lane number; shorter than `names` where the last lanes were never queued in.
    pub queues: Vec<LaneQueue>,
    pub settled: u64,
    /// The lines of the log that are no fates.
    pub lines: u64,
    /// Where each lane's state was said last.
    pub lane_states: HashMap<LaneId, u64>,
    /// Up to where the output files are committed.
    pub outputs: BTreeMap<Box<str>, u64>,
}

impl State {
    pub fn queue_mut(&mut self, lane: LaneId) -> &mut LaneQueue {
        if self.queues.len() <= lane.index() {
            self.queues.resize_with(lane.index() + 1, LaneQueue::default);
        }
        &mut self.queues[lane.index()]
    }
}

/// Writes a snapshot aside; gives its length. It counts for nothing until it is brought into force.
pub(super) fn write(
    files: &dyn Files,
    crawl: u64,
    mark: Mark,
    state: &State,
    leased: &[(LaneId, u32, u64)],
) -> Result<u64, StoreError> {
    let write = || -> io::Result<u64> {
        let mut out = BlockWriter::new(files.create(ASIDE)?, crawl);
        let counts = [state.settled, state.lines, state.names.len() as u64];
        for number in [MAGIC, mark.frame, mark.end, mark.checksum].into_iter().chain(counts) {
            out.write(&number.to_le_bytes())?;
        }
        let (text, ends) = state.names.parts();
        out.write(&(text.len() as u64).to_le_bytes())?;
        out.write(text.as_bytes())?;
        for end in ends {
            out.write(&end.to_le_bytes())?;
        }
        for (homes, slots) in state.seen.shards() {
            out.write(&(homes as u64).to_le_bytes())?;
            out.write(&(slots.len() as u64).to_le_bytes())?;
            for piece in slots.chunks(1 << 16) {
                let buffer = out.buffer()?;
                let start = buffer.len();
                buffer.resize(start + piece.len() * 8, 0);
                for (place, number) in buffer[start..].chunks_exact_mut(8).zip(piece) {
                    place.copy_from_slice(&number.to_le_bytes());
                }
            }
        }
        write_queues(&mut out, &state.queues)?;
        write_list(
            &mut out,
            leased.iter().map(|(lane, depth, position)| [u64::from(lane.0), u64::from(*depth), *position]),
        )?;
        write_list(&mut out, state.lane_states.iter().map(|(lane, position)| [u64::from(lane.0), *position]))?;
        write_list(&mut out, state.outputs.iter().map(|(name, position)| [*position, name.len() as u64]))?;
        for name in state.outputs.keys() {
            out.write(name.as_bytes())?;
        }
        out.finish()
    };
    write().map_err(|error| failed(files, ASIDE, "write", &error))
}

fn write_list<const N: usize>(out: &mut BlockWriter, list: impl ExactSizeIterator<Item = [u64; N]>) -> io::Result<()> {
    out.write(&(list.len() as u64).to_le_bytes())?;
    for number in list.flatten() {
        out.write(&number.to_le_bytes())?;
    }
    Ok(())
}

/// In portions, each with its length before it.
fn write_queues(out: &mut BlockWriter, queues: &[LaneQueue]) -> io::Result<()> {
    let mut portion = Vec::new();
    for (lane, queue) in (0..).zip(queues) {
        if !matches!(queue, LaneQueue::Empty) {
            write_number(lane, &mut portion);
            queue.encode(&mut portion);
        }
        if portion.len() >= PORTION {
            out.write(&(portion.len() as u64).to_le_bytes())?;
            out.write(&portion)?;
            portion.clear();
        }
    }
    out.write(&(portion.len() as u64).to_le_bytes())?;
    out.write(&portion)?;
    if !portion.is_empty() {
        out.write(&0_u64.to_le_bytes())?;
    }
    Ok(())
}

/// Makes the snapshot that was written aside the one that counts.
pub(super) fn bring_into_force(files: &dyn Files) -> Result<(), StoreError> {
    let swap = || -> io::Result<()> {
        files.open(ASIDE)?.sync()?;
        files.rename(ASIDE, NAME)?;
        files.sync_folder("")
    };
    swap().map_err(|error| failed(files, NAME, "replace", &error))
}

/// Removes whatever snapshots there are.
pub(super) fn remove(files: &dyn Files) -> Result<(), StoreError> {
    let mut removed = false;
    for name in [NAME, ASIDE] {
        match files.remove(name) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(files, name, "remove", &error)),
        }
    }
    if removed {
        files.sync_folder("").map_err(|error| failed(files, "", "sync", &error))?;
    }
    Ok(())
}

/// A snapshot as it was read. What was leased is queued again.
pub(super) struct Loaded {
    pub mark: Mark,
    pub state: State,
    /// Its length as a file.
    pub length: u64,
}

/// Reads the snapshot. `None` where there is none, or none that is whole.
pub(super) fn read(files: &dyn Files, crawl: u64) -> Option<Loaded> {
    let file = files.open(NAME).ok()?;
    let length = file.length().ok()?;
    let mut from = BlockReader::new(file, crawl);
    if from.u64()? != MAGIC {
        return None;
    }
    let mark = Mark { frame: from.u64()?, end: from.u64()?, checksum: from.u64()? };
    let mut state = State { settled: from.u64()?, lines: from.u64()?, ..State::default() };
    let (lanes, text_length) = (from.u64()?, from.u64()?);
    let text = String::from_utf8(from.bytes(text_length)?).ok()?;
    let ends = from.bytes(lanes.checked_mul(4)?)?;
    let ends = ends.chunks_exact(4).map(|end| u32::from_le_bytes(end.try_into().unwrap_or_default())).collect();
    state.names = LaneNames::from_parts(text, ends);
    let mut tables = Vec::with_capacity(SeenSet::SHARDS);
    for _ in 0..SeenSet::SHARDS {
        let homes = usize::try_from(from.u64()?).ok()?;
        let count = from.u64()?;
        tables.push((homes, from.u64s(count)?));
    }
    state.seen = SeenSet::from_shards(tables.into_iter());
    state.queues.reserve_exact(state.names.len());
    loop {
        let length = from.u64()?;
        if length == 0 {
            break;
        }
        let portion = from.bytes(length)?;
        let mut portion = Bytes(&portion);
        while !portion.0.is_empty() {
            let lane = portion.lane()?;
            state.names.name(lane)?;
            *state.queue_mut(lane) = LaneQueue::decode(&mut portion)?;
        }
    }
    let mut leased: BTreeMap<LaneId, Vec<(u32, u64)>> = BTreeMap::new();
    for _ in 0..from.u64()? {
        let lane = LaneId(u32::try_from(from.u64()?).ok()?);
        state.names.name(lane)?;
        leased.entry(lane).or_default().push((u32::try_from(from.u64()?).ok()?, from.u64()?));
    }
    for _ in 0..from.u64()? {
        let lane = LaneId(u32::try_from(from.u64()?).ok()?);
        state.lane_states.insert(lane, from.u64()?);
    }
    let outputs = from.u64()?;
    let numbers = from.u64s(outputs.checked_mul(2)?)?;
    for pair in numbers.chunks_exact(2) {
        let name = String::from_utf8(from.bytes(pair[1])?).ok()?;
        state.outputs.insert(name.into(), pair[0]);
    }
    if !from.ends() {
        return None;
    }
    for (lane, mut links) in leased {
        let queue = state.queue_mut(lane);
        links.extend(queue.drain());
        *queue = LaneQueue::gather(links);
    }
    Some(Loaded { mark, state, length })
}
