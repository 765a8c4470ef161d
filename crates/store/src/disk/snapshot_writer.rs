//! [`SnapshotWriter`]: takes a snapshot in portions, at most one per commit, so that no commit waits for all of it.
//!
//! The crawl continues between two portions, so the parts of a snapshot are from different times. The snapshot contains
//! the earliest log position, from which the log must be replayed onto it.
//! `docs/decisions/0005-snapshots-in-portions.md` explains why the result is correct.
//!
//! Invariant: while a snapshot is being taken, no fingerprints are moved to disk.

use super::blocks::BlockWriter;
use super::snapshot_file::{LeasedLink, LogMark, MAGIC, Portion};
use super::state::State;
use crate::seen::{SeenSet, Table};
use argiope_core::StoreError;

/// Number of bytes of a long text that are added between two checks of the portion's size.
const PIECE: usize = 64 << 10;

/// A snapshot in progress.
pub(super) struct SnapshotWriter {
    out: BlockWriter,
    next: Part,
    /// Number of lanes when the snapshot was started. Later lanes are not part of it.
    lanes: usize,
    /// Total length of the names of these lanes.
    text_length: usize,
    /// Number of bytes returned so far.
    length: u64,
    /// The end of the log when the snapshot was started.
    pub started_at: u64,
    /// Whether it is the snapshot at the end of a run.
    pub is_at_end: bool,
}

/// The next part to write.
#[derive(Clone, Copy)]
enum Part {
    /// The names of the lanes, from this byte on.
    Names(usize),
    /// The end offset of each name, from this lane on.
    Ends(usize),
    /// This shard of the fingerprints in memory.
    Shard(usize),
    /// The list of run files.
    Runs,
    /// The queues, from this lane on.
    Queues(usize),
    /// The last frame, the positions of notes, the outputs and the names of created files.
    Rest,
}

impl SnapshotWriter {
    /// Starts a snapshot directly after a commit, whose frame is `start`.
    pub fn begin(crawl: u64, start: LogMark, state: &State, is_at_end: bool) -> Self {
        let (lanes, text_length) = (state.names.len(), state.names.parts().0.len());
        let mut out = BlockWriter::new(crawl);
        out.u64s([MAGIC, start.end, state.settled, state.lines, lanes as u64, text_length as u64]);
        Self { out, next: Part::Names(0), lanes, text_length, length: 0, started_at: start.end, is_at_end }
    }

    /// Returns the next portion, of about this size. Must be called directly after a commit. The portion says whether
    /// it completes the snapshot.
    pub fn portion(
        &mut self,
        size: usize,
        mark: LogMark,
        state: &State,
        leased: impl Iterator<Item = LeasedLink> + Clone,
    ) -> Result<Portion, StoreError> {
        let at = self.length;
        let portion = loop {
            let Some(next) = self.add(size, mark, state, leased.clone())? else {
                let runs = state.known.runs.iter().map(|run| run.number).collect();
                // `finish` consumes the writer, which is not used any more.
                let blocks = std::mem::replace(&mut self.out, BlockWriter::new(0)).finish();
                break Portion { at, blocks, completes: Some(runs) };
            };
            self.next = next;
            // A portion also ends after a group of queues.
            if self.out.len() >= size || matches!(next, Part::Queues(1..)) {
                break Portion { at, blocks: self.out.take(), completes: None };
            }
        };
        self.length += portion.blocks.iter().map(|block| block.len() as u64).sum::<u64>();
        Ok(portion)
    }

    /// The number of bytes returned so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds the next part, or some of it. `None` if everything was added.
    fn add(
        &mut self,
        size: usize,
        mark: LogMark,
        state: &State,
        leased: impl Iterator<Item = LeasedLink>,
    ) -> Result<Option<Part>, StoreError> {
        let (text, ends) = state.names.parts();
        Ok(Some(match self.next {
            Part::Names(from) if from < self.text_length => {
                let to = self.text_length.min(from + PIECE);
                self.out.write(text.as_bytes().get(from..to).unwrap_or_default());
                Part::Names(to)
            }
            Part::Names(_) => Part::Ends(0),
            Part::Ends(from) if from < self.lanes => {
                let to = self.lanes.min(from + PIECE / 4);
                let ends = ends.get(from..to).unwrap_or_default();
                ends.iter().for_each(|end| self.out.write(&end.to_le_bytes()));
                Part::Ends(to)
            }
            Part::Ends(_) => Part::Shard(0),
            Part::Shard(number) if number < SeenSet::SHARDS => {
                if let Some(Table { homes, width, len, slots }) = state.known.in_memory.tables().nth(number) {
                    self.out.u64s([*homes, *width, *len, slots.len()].map(|number| number as u64));
                    self.out.write(slots);
                }
                Part::Shard(number + 1)
            }
            Part::Shard(_) => Part::Runs,
            Part::Runs => {
                self.list(state.known.runs.iter().map(|run| [u64::from(run.number), run.count]));
                Part::Queues(0)
            }
            Part::Queues(from) => {
                let to = self.queues(from, size, mark, state)?;
                let group = from..to;
                let leased: Vec<LeasedLink> = leased.filter(|(lane, ..)| group.contains(&lane.index())).collect();
                self.list(
                    leased.iter().map(|(lane, rank, position)| [lane.0.into(), (*rank as u32).into(), *position]),
                );
                if to < self.lanes { Part::Queues(to) } else { Part::Rest }
            }
            Part::Rest => {
                self.out.u64s([mark.frame, mark.end, mark.checksum]);
                self.list(state.notes.iter().map(|(lane, position)| [lane.0.into(), *position]));
                self.list(state.outputs.iter().map(|(name, length)| {
                    let hash = state.output_hashes.get(name);
                    [*length, u64::from(hash.is_some()), hash.copied().unwrap_or(0), name.len() as u64]
                }));
                state.outputs.keys().for_each(|name| self.out.write(name.as_bytes()));
                self.list(state.created.iter().map(|name| [name.len() as u64]));
                state.created.iter().for_each(|name| self.out.write(name.as_bytes()));
                return Ok(None);
            }
        }))
    }

    /// Adds a group of queues in their state after this commit; returns the first lane of the next group. A group ends
    /// at an eighth of `size`: queues are scattered in memory, so reading them takes longer per byte.
    fn queues(&mut self, from: usize, size: usize, mark: LogMark, state: &State) -> Result<usize, StoreError> {
        self.out.u64s([mark.end]);
        let mut lane = from;
        while lane < self.lanes && (lane == from || self.out.len() < size / 8) {
            if let Some(queue) = state.queues.get(lane).filter(|queue| !queue.is_empty()) {
                // Lanes are counted from one, because a zero ends the list of queues.
                self.out.varint(lane as u64 + 1);
                queue.encode(&mut self.out, &state.storage)?;
            }
            lane += 1;
        }
        self.out.varint(0);
        self.out.varint(lane as u64);
        Ok(lane)
    }

    /// Adds a list with its length.
    fn list<const N: usize>(&mut self, list: impl ExactSizeIterator<Item = [u64; N]>) {
        self.out.u64s([list.len() as u64]);
        self.out.u64s(list.flatten());
    }
}
