//! The snapshot: the state that the log's beginning adds up to, so that opening reads only the log's end.
//!
//! It is never needed: without it, or when it is damaged in the least, everything is read from the log instead. It is
//! written aside, synced, and renamed, after the log was synced up to the position that it speaks of. It names the last
//! frame before that position by place and checksum, so a snapshot of another history is never believed.
//!
//! What is leased while it is written is listed beside the queues: a process that opens the directory has no leases.

use super::blocks::{BlockReader, BlockWriter};
use super::chains::Chains;
use super::fault::failed;
use super::files::Files;
use super::known::Known;
use super::queue::{EncodeFault, LaneQueue, Shelf};
use super::run;
use super::spill::Spill;
use crate::lanes::LaneNames;
use crate::seen::{SeenSet, Table};
use argiope_core::{LaneId, StoreError};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

pub(super) const NAME: &str = "snapshot";
const ASIDE: &str = "snapshot.new";
const MAGIC: u64 = u64::from_le_bytes(*b"ARGSNAP3");

/// Where in the log a snapshot was taken: behind this frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub frame: u64,
    pub end: u64,
    pub checksum: u64,
}

/// All that a frontier knows, apart from the links themselves.
pub(super) struct State {
    pub known: Known,
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
    /// Where the queues keep their bytes.
    pub shelf: Shelf,
    /// So many bytes of memory may all of this have.
    room: usize,
}

impl State {
    pub fn new(files: &Arc<dyn Files>, crawl: u64, room: usize) -> Self {
        Self {
            known: Known::new(Arc::clone(files), crawl),
            names: LaneNames::default(),
            queues: Vec::new(),
            settled: 0,
            lines: 0,
            lane_states: HashMap::new(),
            outputs: BTreeMap::new(),
            shelf: Shelf { chains: Chains::new(), spill: Spill::new(Arc::clone(files), crawl, room / 16) },
            room,
        }
    }

    /// The bytes of memory that it holds, roughly.
    pub fn bytes(&self) -> usize {
        let queues = self.queues.capacity() * size_of::<LaneQueue>();
        let queued: usize = self.queues.iter().map(LaneQueue::bytes).sum();
        self.known.bytes()
            + self.names.bytes()
            + queues
            + queued
            + self.shelf.chains.bytes()
            + self.shelf.spill.bytes()
            + self.lane_states.capacity() * 17
    }

    /// By how much the log may grow before it is time to ask again whether there is room.
    pub fn patience(&self) -> u64 {
        (self.room / 64) as u64
    }

    /// Moves to the disk what is too much for memory: the middle of queues when they are most of it, otherwise
    /// fingerprints. Names of hosts stay.
    pub fn make_room(&mut self) -> Result<(), StoreError> {
        let room = self.room;
        if room == usize::MAX || self.bytes() <= room {
            return Ok(());
        }
        if self.known.young.bytes() < room / 4 {
            for queue in &mut self.queues {
                queue.spill(&mut self.shelf)?;
            }
        }
        // A table that is very small frees nothing.
        if self.bytes() > room / 8 * 7 && self.known.young.bytes() > room / 32 {
            self.known.spill(room / 4)?;
        }
        Ok(())
    }

    /// Queues a link that arrived later than all others.
    pub fn queue(&mut self, lane: LaneId, depth: u32, position: u64) {
        self.queue_mut(lane);
        self.queues[lane.index()].push(depth, position, &mut self.shelf.chains);
    }

    /// How many links are queued.
    pub fn queued(&self) -> u64 {
        self.queues.iter().map(|queue| queue.len(&self.shelf.chains)).sum()
    }

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
    let write = || -> Result<u64, EncodeFault> {
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
        for Table { homes, width, len, slots } in state.known.young.tables() {
            for number in [*homes, *width, *len, slots.len()] {
                out.write(&(number as u64).to_le_bytes())?;
            }
            out.write(slots)?;
        }
        write_list(&mut out, state.known.runs.iter().map(|run| [u64::from(run.number), run.count]))?;
        write_queues(&mut out, state)?;
        write_list(
            &mut out,
            leased.iter().map(|(lane, depth, position)| [u64::from(lane.0), u64::from(*depth), *position]),
        )?;
        write_list(&mut out, state.lane_states.iter().map(|(lane, position)| [u64::from(lane.0), *position]))?;
        write_list(&mut out, state.outputs.iter().map(|(name, position)| [*position, name.len() as u64]))?;
        for name in state.outputs.keys() {
            out.write(name.as_bytes())?;
        }
        Ok(out.finish()?)
    };
    write().map_err(|fault| match fault {
        EncodeFault::Write(error) => failed(files, ASIDE, "write", &error),
        EncodeFault::Read(error) => error,
    })
}

fn write_list<const N: usize>(out: &mut BlockWriter, list: impl ExactSizeIterator<Item = [u64; N]>) -> io::Result<()> {
    out.write(&(list.len() as u64).to_le_bytes())?;
    for number in list.flatten() {
        out.write(&number.to_le_bytes())?;
    }
    Ok(())
}

fn write_queues(out: &mut BlockWriter, state: &State) -> Result<(), EncodeFault> {
    let is_used = |queue: &&LaneQueue| !queue.is_empty();
    out.write(&(state.queues.iter().filter(is_used).count() as u64).to_le_bytes())?;
    for (lane, queue) in (0..).zip(&state.queues).filter(|(_, queue)| is_used(queue)) {
        out.number(lane)?;
        queue.encode(out, &state.shelf)?;
    }
    Ok(())
}

/// Makes the snapshot that was written aside the one that counts, after the runs that it speaks of were made to last.
pub(super) fn bring_into_force(files: &dyn Files, runs: &[u32]) -> Result<(), StoreError> {
    for name in runs.iter().map(|number| run::file_name(*number)) {
        let synced = files.open(&name).and_then(|mut file| file.sync());
        synced.map_err(|error| failed(files, &name, "sync", &error))?;
    }
    let swap = || -> io::Result<()> {
        if !runs.is_empty() {
            files.sync_folder(run::FOLDER)?;
        }
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
pub(super) fn read(files: &Arc<dyn Files>, crawl: u64, room: usize) -> Result<Option<Loaded>, StoreError> {
    let Ok(file) = files.open(NAME) else { return Ok(None) };
    let mut from = BlockReader::new(file, crawl);
    let length = from.length();
    let mut state = State::new(files, crawl, room);
    let Some(mark) = read_names_and_known(&mut from, &mut state) else { return Ok(None) };
    let Some(count) = from.u64() else { return Ok(None) };
    let mut asked = 0;
    for _ in 0..count {
        let lane = from.number().and_then(|lane| u32::try_from(lane).ok()).map(LaneId);
        let Some(lane) = lane.filter(|lane| state.names.name(*lane).is_some()) else { return Ok(None) };
        let Some(queue) = LaneQueue::decode(&mut from, &mut state.shelf)? else { return Ok(None) };
        *state.queue_mut(lane) = queue;
        if from.position() - asked > state.patience() {
            asked = from.position();
            state.make_room()?;
        }
    }
    let Some(leased) = read_lists(&mut from, &mut state) else { return Ok(None) };
    if !from.ends() {
        return Ok(None);
    }
    for (lane, links) in leased {
        let mut queue = std::mem::take(state.queue_mut(lane));
        queue.insert(links, &mut state.shelf)?;
        *state.queue_mut(lane) = queue;
    }
    Ok(Some(Loaded { mark, state, length }))
}

fn read_names_and_known(from: &mut BlockReader, state: &mut State) -> Option<Mark> {
    if from.u64()? != MAGIC {
        return None;
    }
    let mark = Mark { frame: from.u64()?, end: from.u64()?, checksum: from.u64()? };
    (state.settled, state.lines) = (from.u64()?, from.u64()?);
    let (lanes, text_length) = (from.u64()?, from.u64()?);
    let text = String::from_utf8(from.bytes(text_length)?).ok()?;
    let ends = from.bytes(lanes.checked_mul(4)?)?;
    let ends = ends.chunks_exact(4).map(|end| u32::from_le_bytes(end.try_into().unwrap_or_default())).collect();
    state.names = LaneNames::from_parts(text, ends);
    let mut tables = Vec::with_capacity(SeenSet::SHARDS);
    for _ in 0..SeenSet::SHARDS {
        let mut number = || usize::try_from(from.u64()?).ok();
        let (homes, width, len, length) = (number()?, number()?, number()?, number()?);
        tables.push(Table { homes, width, len, slots: from.bytes(length as u64)? });
    }
    state.known.young = SeenSet::from_tables(tables)?;
    let runs = from.u64()?;
    let runs = from.u64s(runs.checked_mul(2)?)?;
    let runs: Option<Vec<(u32, u64)>> =
        runs.chunks_exact(2).map(|pair| Some((u32::try_from(pair[0]).ok()?, pair[1]))).collect();
    state.known.take_up(&runs?)?;
    state.queues.reserve_exact(state.names.len());
    Some(mark)
}

/// What was leased, by lane; the rest goes to the state.
fn read_lists(from: &mut BlockReader, state: &mut State) -> Option<BTreeMap<LaneId, Vec<(u32, u64)>>> {
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
    Some(leased)
}
