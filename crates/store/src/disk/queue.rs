//! [`LaneQueue`]: the queued links of one lane, as positions in the log.
//!
//! The links themselves stay on disk. In memory, a queued link is the difference to the position of the previous link,
//! which takes two or three bytes. The log is in the order of arrival, so the positions of a level (the links of one
//! rank) ascend.
//!
//! Of a million lanes, most have few links or none. These are stored inline in the lane's entry, or in a short chain of
//! bytes in a shared arena ([`Chains`]). If memory is short, only the two ends of a very long queue stay in memory, and
//! the middle is on disk ([`Spill`]).
//!
//! Links are ordered by rank. The rank is the depth of the link, unless the link has a priority. Then it may be
//! negative.
//!
//! Invariant: there is one level per rank. Levels are in order of rank, none is empty, and the positions of a level
//! ascend.

use super::blocks::{BlockReader, BlockWriter};
use super::chains::{Chain, Chains};
use super::spill::{PIECE, Spill, SpilledPiece};
use crate::varint::{Bytes, MAX_VARINT, varint_bytes, write_varint};
use argiope_core::StoreError;
use std::collections::{HashSet, VecDeque};

/// The queue of one lane.
///
/// A short queue is *encoded* in one sequence of bytes: for each link, in order, its rank and its position as
/// differences to the previous link. When the rank changes, the position is stored as such. The difference to a
/// negative first rank wraps around at 32 bits.
pub(super) enum LaneQueue {
    /// Encoded inline; initially empty.
    Inline { length: u8, bytes: [u8; MAX_INLINE] },
    /// Encoded in a chain.
    Chained(Chain),
    #[expect(clippy::box_collection, reason = "a lane is as large as its largest form, and most lanes are short")]
    /// One entry per rank.
    Leveled(Box<Vec<Level>>),
}

/// A queued link: its rank, and the position of its record in the log.
type QueuedPosition = (i32, u64);

/// The number of bytes that are stored inline.
const MAX_INLINE: usize = 22;
/// The maximum length of the encoded form. Longer queues have levels.
const MAX_ENCODED: usize = 160;

/// In a snapshot: the queue follows in its encoded form.
const IS_ENCODED: u8 = 2;
/// In a snapshot: the levels of the queue follow.
const HAS_LEVELS: u8 = 3;

/// The storage that all queues share, in memory and on disk.
pub(super) struct QueueStorage {
    pub chains: Chains,
    pub spill: Spill,
}

/// The queued links of one rank.
pub(super) struct Level {
    rank: i32,
    count: u32,
    /// The position of the first link.
    first: u64,
    /// The position of the last link.
    last: u64,
    /// The differences between the positions of consecutive links, as varints.
    steps: Chain,
    /// The rest of the differences, if not all of them are in memory.
    rest: Option<Box<RestOfLevel>>,
}

/// The differences after `steps`: on disk, then in memory again.
#[derive(Default)]
struct RestOfLevel {
    /// The differences on disk.
    spilled: VecDeque<SpilledPiece>,
    /// The last differences, in memory.
    tail: Chain,
}

impl Default for LaneQueue {
    fn default() -> Self {
        Self::Inline { length: 0, bytes: [0; MAX_INLINE] }
    }
}

impl LaneQueue {
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Inline { length: 0, .. })
    }

    pub fn len(&self, chains: &Chains) -> u64 {
        match self {
            Self::Inline { length, bytes } => numbers_in(bytes.get(..usize::from(*length)).unwrap_or_default()) / 2,
            Self::Chained(chain) => chains.pieces(chain).map(numbers_in).sum::<u64>() / 2,
            Self::Leveled(levels) => levels.iter().map(|level| u64::from(level.count)).sum(),
        }
    }

    /// The encoded form. Empty for a queue that has levels.
    fn encoded(&self, chains: &Chains) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(MAX_ENCODED + 2 * MAX_VARINT);
        match self {
            Self::Inline { length, bytes } => encoded.extend(bytes.iter().take(usize::from(*length))),
            Self::Chained(chain) => chains.pieces(chain).for_each(|piece| encoded.extend_from_slice(piece)),
            Self::Leveled(_) => {}
        }
        encoded
    }

    /// Replaces the encoded form.
    fn set_encoded(&mut self, encoded: &[u8], chains: &mut Chains) {
        if let Self::Chained(chain) = self {
            chains.take(chain, usize::MAX);
        }
        let mut bytes = [0; MAX_INLINE];
        *self = match bytes.get_mut(..encoded.len()) {
            Some(inline) => {
                inline.copy_from_slice(encoded);
                Self::Inline { length: encoded.len() as u8, bytes }
            }
            None => Self::Chained(chains.chain(encoded)),
        };
    }

    /// Adds a link whose position is larger than all others of its rank.
    pub fn push(&mut self, rank: i32, position: u64, chains: &mut Chains) {
        if let Self::Leveled(levels) = self {
            return push_into(levels, rank, position, chains);
        }
        let mut encoded = self.encoded(chains);
        let last = links(&encoded).last().unwrap_or_default();
        let old_length = encoded.len();
        let is_last = old_length == 0 || last.0 <= rank;
        if is_last {
            encode_link(last, (rank, position), &mut encoded);
        } else {
            // Insert the link after the links of its rank and before those of higher ranks.
            let links_before = links(&encoded).take_while(|link| link.0 <= rank);
            let links_after = links(&encoded).skip_while(|link| link.0 <= rank);
            encoded = encode_links(links_before.chain([(rank, position)]).chain(links_after));
        }
        match self {
            _ if encoded.len() > MAX_ENCODED => {
                let mut levels = Vec::with_capacity(1);
                links(&encoded).for_each(|(rank, position)| push_into(&mut levels, rank, position, chains));
                self.set_encoded(&[], chains);
                *self = Self::Leveled(Box::new(levels));
            }
            Self::Chained(chain) if is_last => chains.push(chain, encoded.get(old_length..).unwrap_or_default()),
            _ => self.set_encoded(&encoded, chains),
        }
    }

    /// Removes the next link: the first of the lowest rank.
    pub fn pop(&mut self, storage: &mut QueueStorage) -> Result<Option<QueuedPosition>, StoreError> {
        let Self::Leveled(levels) = self else {
            let encoded = self.encoded(&storage.chains);
            let mut links = links(&encoded);
            let popped = links.next();
            self.set_encoded(&encode_links(links), &mut storage.chains);
            return Ok(popped);
        };
        let Some(level) = levels.first_mut() else { return Ok(None) };
        let popped = (level.rank, level.first);
        level.count -= 1;
        if level.count == 0 {
            levels.remove(0);
        } else {
            level.first += level.next_step(storage)?;
        }
        if levels.is_empty() {
            *self = Self::default();
        }
        Ok(Some(popped))
    }

    /// Prepends links. They must be in order, and belong before all links of the queue.
    fn prepend(&mut self, mut before: Vec<QueuedPosition>, chains: &mut Chains) {
        let Self::Leveled(levels) = self else {
            before.extend(links(&self.encoded(chains)));
            self.set_encoded(&[], chains);
            before.into_iter().for_each(|(rank, position)| self.push(rank, position, chains));
            return;
        };
        for group in before.chunk_by(|one, other| one.0 == other.0).rev() {
            let positions: Vec<u64> = group.iter().map(|link| link.1).collect();
            if let Some(&(rank, first)) = group.first() {
                prepend_to(levels, rank, first, &positions, chains);
            }
        }
    }

    /// Adds links at any place, optimized for places near the front.
    pub fn insert(&mut self, mut links: Vec<QueuedPosition>, storage: &mut QueueStorage) -> Result<(), StoreError> {
        let Some(&last) = links.iter().max() else { return Ok(()) };
        while let Some(front) = self.pop(storage)? {
            links.push(front);
            if front > last {
                break;
            }
        }
        links.sort_unstable();
        self.prepend(links, &mut storage.chains);
        Ok(())
    }

    /// Removes the links with these positions, optimized for positions near the front.
    pub fn remove(&mut self, mut positions: HashSet<u64>, storage: &mut QueueStorage) -> Result<(), StoreError> {
        let mut kept = Vec::new();
        while !positions.is_empty() {
            let Some(link) = self.pop(storage)? else { break };
            if !positions.remove(&link.1) {
                kept.push(link);
            }
        }
        if !kept.is_empty() {
            self.prepend(kept, &mut storage.chains);
        }
        Ok(())
    }

    /// Moves the middle of long queues to disk.
    pub fn spill(&mut self, storage: &mut QueueStorage) -> Result<(), StoreError> {
        if let Self::Leveled(levels) = self {
            levels.iter_mut().try_for_each(|level| level.spill(storage))?;
        }
        Ok(())
    }

    /// Writes the queue to a snapshot.
    pub fn encode(&self, out: &mut BlockWriter, storage: &QueueStorage) -> Result<(), StoreError> {
        match self {
            Self::Leveled(levels) => {
                out.write(&[HAS_LEVELS]);
                out.varint(levels.len() as u64);
                levels.iter().try_for_each(|level| level.encode(out, storage))?;
            }
            _ => {
                let encoded = self.encoded(&storage.chains);
                out.write(&[IS_ENCODED]);
                out.varint(encoded.len() as u64);
                out.write(&encoded);
            }
        }
        Ok(())
    }

    /// Reads what `encode` wrote. `None` if the bytes are malformed.
    pub fn decode(from: &mut BlockReader, storage: &mut QueueStorage) -> Result<Option<Self>, StoreError> {
        let mut decode_encoded = |from: &mut BlockReader| {
            let length = from.varint()?;
            let mut queue = Self::default();
            queue.set_encoded(&from.bytes(length)?, &mut storage.chains);
            Some(queue)
        };
        match from.byte() {
            Some(IS_ENCODED) => return Ok(decode_encoded(from)),
            Some(HAS_LEVELS) => {}
            _ => return Ok(None),
        }
        let mut levels = Vec::new();
        let Some(count) = from.varint() else { return Ok(None) };
        for _ in 0..count {
            let Some(level) = Level::decode(from, storage)? else { return Ok(None) };
            levels.push(level);
        }
        Ok(Some(Self::Leveled(Box::new(levels))))
    }

    /// Heap memory in bytes, without chains.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Inline { .. } | Self::Chained(_) => 0,
            Self::Leveled(levels) => {
                let rest = levels.iter().filter_map(|level| level.rest.as_ref());
                let rest =
                    rest.map(|rest| size_of::<RestOfLevel>() + rest.spilled.capacity() * size_of::<SpilledPiece>());
                size_of::<Vec<Level>>() + levels.capacity() * size_of::<Level>() + rest.sum::<usize>()
            }
        }
    }
}

impl Level {
    fn new(rank: i32, position: u64) -> Self {
        Self { rank, count: 1, first: position, last: position, steps: Chain::default(), rest: None }
    }

    /// The chain to which further differences are appended.
    fn end(&mut self) -> &mut Chain {
        self.rest.as_mut().map_or(&mut self.steps, |rest| &mut rest.tail)
    }

    /// Adds a link whose position is larger than all others.
    fn push(&mut self, position: u64, chains: &mut Chains) {
        let step = position.saturating_sub(self.last);
        chains.push(self.end(), varint_bytes(step, &mut [0; MAX_VARINT]));
        self.last = position;
        self.count += 1;
    }

    /// Removes and returns the difference from the first to the second link.
    fn next_step(&mut self, storage: &mut QueueStorage) -> Result<u64, StoreError> {
        let QueueStorage { chains, spill } = storage;
        if self.steps.is_empty()
            && let Some(rest) = &mut self.rest
        {
            match rest.spilled.pop_front() {
                Some(spilled) => self.steps = chains.chain(&spill.take(spilled)?),
                None => {
                    self.steps = std::mem::take(&mut rest.tail);
                    self.rest = None;
                }
            }
        }
        let mut step = Vec::with_capacity(MAX_VARINT);
        while let Some(byte) = chains.pop(&mut self.steps) {
            step.push(byte);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(Bytes(&step).varint().unwrap_or(0))
    }

    /// Moves all but the first and the last piece of the differences to disk.
    fn spill(&mut self, storage: &mut QueueStorage) -> Result<(), StoreError> {
        let QueueStorage { chains, spill } = storage;
        if self.rest.is_none() {
            // Two pieces stay in memory, so a shorter level has nothing to move.
            if self.steps.len() < 3 * PIECE {
                return Ok(());
            }
            let front = whole_steps(&mut self.steps, chains);
            let tail = std::mem::replace(&mut self.steps, chains.chain(&front));
            self.rest = Some(Box::new(RestOfLevel { spilled: VecDeque::new(), tail }));
        }
        if let Some(rest) = &mut self.rest {
            while rest.tail.len() > PIECE {
                let piece = whole_steps(&mut rest.tail, chains);
                rest.spilled.push_back(spill.store(&piece)?);
            }
        }
        Ok(())
    }

    fn encode(&self, out: &mut BlockWriter, storage: &QueueStorage) -> Result<(), StoreError> {
        let Self { rank, count, first, last, steps, rest } = self;
        let spilled = || rest.iter().flat_map(|rest| &rest.spilled);
        let here = steps.len() + rest.as_ref().map_or(0, |rest| rest.tail.len());
        let length = here as u64 + spilled().map(|spilled| u64::from(spilled.length)).sum::<u64>();
        for number in [u64::from(*rank as u32), u64::from(*count), *first, last - first, length] {
            out.varint(number);
        }
        for piece in storage.chains.pieces(steps) {
            out.write(piece);
        }
        for spilled in spilled() {
            out.write(&storage.spill.read(*spilled)?);
        }
        for piece in rest.iter().flat_map(|rest| storage.chains.pieces(&rest.tail)) {
            out.write(piece);
        }
        Ok(())
    }

    fn decode(from: &mut BlockReader, storage: &mut QueueStorage) -> Result<Option<Self>, StoreError> {
        let head = |from: &mut BlockReader| {
            let (rank, count) = (u32::try_from(from.varint()?).ok()? as i32, u32::try_from(from.varint()?).ok()?);
            let first = from.varint()?;
            let last = first.checked_add(from.varint()?)?;
            let level = Self { rank, count, first, last, steps: Chain::default(), rest: None };
            Some((level, from.varint()?))
        };
        let Some((mut level, mut length)) = head(from) else { return Ok(None) };
        while length > 0 {
            let piece = length.min(PIECE as u64);
            let Some(()) = from.read(piece as usize, |bytes| storage.chains.push(level.end(), bytes)) else {
                return Ok(None);
            };
            length -= piece;
            if level.end().len() > storage.spill.max_level_bytes {
                level.spill(storage)?;
            }
        }
        Ok(Some(level))
    }
}

/// Removes as many complete differences as fit into a piece.
fn whole_steps(steps: &mut Chain, chains: &mut Chains) -> Vec<u8> {
    let mut piece = chains.take(steps, PIECE);
    let end = piece.iter().rposition(|byte| byte & 0x80 == 0).map_or(piece.len(), |last| last + 1);
    chains.prepend(steps, &piece.split_off(end));
    piece
}

/// Adds a link to the level of its rank, which is created if necessary.
fn push_into(levels: &mut Vec<Level>, rank: i32, position: u64, chains: &mut Chains) {
    let at = levels.partition_point(|level| level.rank < rank);
    match levels.get_mut(at).filter(|level| level.rank == rank) {
        Some(level) => level.push(position, chains),
        None => {
            levels.reserve_exact(1);
            levels.insert(at, Level::new(rank, position));
        }
    }
}

/// Prepends positions of one rank.
fn prepend_to(levels: &mut Vec<Level>, rank: i32, first: u64, positions: &[u64], chains: &mut Chains) {
    let Some(level) = levels.first_mut().filter(|level| level.rank == rank) else {
        let mut level = Level::new(rank, first);
        positions.iter().skip(1).for_each(|position| level.push(*position, chains));
        levels.insert(0, level);
        return;
    };
    let mut steps = Vec::new();
    let next = positions.iter().skip(1).chain([&level.first]);
    positions.iter().zip(next).for_each(|(one, next)| write_varint(next.saturating_sub(*one), &mut steps));
    chains.prepend(&mut level.steps, &steps);
    level.first = first;
    level.count += positions.len() as u32;
}

/// How many numbers end in these bytes of the encoded form. Each link is two numbers.
fn numbers_in(encoded: &[u8]) -> u64 {
    encoded.iter().filter(|byte| **byte & 0x80 == 0).count() as u64
}

/// The links of the encoded form.
fn links(encoded: &[u8]) -> impl Iterator<Item = QueuedPosition> {
    let mut bytes = Bytes(encoded);
    let (mut rank, mut position) = (0_i32, 0);
    std::iter::from_fn(move || {
        let step = u32::try_from(bytes.varint()?).ok()?;
        if step > 0 {
            (rank, position) = (rank.wrapping_add_unsigned(step), 0);
        }
        position += bytes.varint()?;
        Some((rank, position))
    })
}

/// Encodes links.
fn encode_links(links: impl Iterator<Item = QueuedPosition>) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(MAX_ENCODED + 2 * MAX_VARINT);
    let mut before = (0, 0);
    for link in links {
        encode_link(before, link, &mut encoded);
        before = link;
    }
    encoded
}

/// Encodes one link, relative to the one before it.
fn encode_link(before: QueuedPosition, (rank, position): QueuedPosition, out: &mut Vec<u8>) {
    write_varint(u64::from(rank.wrapping_sub(before.0) as u32), out);
    write_varint(if rank == before.0 { position - before.1 } else { position }, out);
}

#[cfg(test)]
mod tests {
    use super::super::files::Files;
    use super::super::os_files::OsFiles;
    use super::*;
    use std::sync::Arc;

    /// The id of the crawl.
    const CRAWL: u64 = 5;

    /// Files, and storage that keeps about `max_level_bytes` of a level in memory.
    fn files(max_level_bytes: usize) -> (tempfile::TempDir, Arc<dyn Files>, QueueStorage) {
        let folder = tempfile::tempdir().expect("a folder");
        let files: Arc<dyn Files> = Arc::new(OsFiles::new(folder.path()));
        let spill = Spill::new(Arc::clone(&files), CRAWL, max_level_bytes);
        let storage = QueueStorage { chains: Chains::new(), spill };
        (folder, files, storage)
    }

    fn drain(queue: &mut LaneQueue, storage: &mut QueueStorage) -> Vec<QueuedPosition> {
        std::iter::from_fn(|| queue.pop(storage).expect("reads")).collect()
    }

    /// Writes a queue to a file as a snapshot does, and reads it.
    fn copy(queue: &LaneQueue, files: &dyn Files, storage: &mut QueueStorage) -> LaneQueue {
        let mut out = BlockWriter::new(CRAWL);
        assert!(queue.encode(&mut out, storage).is_ok());
        files.create("queue").and_then(|mut file| file.write_at(&out.finish().concat(), 0)).expect("writes");
        let mut from = BlockReader::new(files.open("queue").expect("a file"), CRAWL);
        let read = LaneQueue::decode(&mut from, storage).expect("reads").expect("what was written");
        assert!(from.reached_end());
        read
    }

    #[test]
    fn pops_by_rank_and_then_by_arrival() {
        let (_folder, _, mut storage) = files(usize::MAX);
        let mut queue = LaneQueue::default();
        let arrivals = [(3, 10), (1, 20), (3, 500), (-70_000, 100_000), (1, 100_001), (3, 1 << 50)];
        for (rank, position) in arrivals {
            queue.push(rank, position, &mut storage.chains);
        }
        assert_eq!(queue.len(&storage.chains), 6);
        assert_eq!(queue.pop(&mut storage).expect("reads"), Some((-70_000, 100_000)));
        queue.push(1, (1 << 50) + 1, &mut storage.chains);
        let rest = drain(&mut queue, &mut storage);
        assert_eq!(rest, [(1, 20), (1, 100_001), (1, (1 << 50) + 1), (3, 10), (3, 500), (3, 1 << 50)]);
        assert!(queue.is_empty());
    }

    /// Compares queues with a sorted list: of 0 to 30,000 links, with three ranks, in memory and with the middle on
    /// disk.
    #[test]
    fn every_form_keeps_order_and_can_be_written_and_read() {
        let lengths = (0..120).chain([2_000, 30_000]);
        for (length, max_level_bytes) in lengths.flat_map(|length| [(length, usize::MAX), (length, 100)]) {
            let (_folder, files, mut storage) = files(max_level_bytes);
            let links: Vec<QueuedPosition> =
                (0..length).map(|i| ((i * i * 7 % 11 % 3) as i32 - 1, 40 + i * 131)).collect();
            let mut queue = LaneQueue::default();
            for (number, (rank, position)) in links.iter().enumerate() {
                queue.push(*rank, *position, &mut storage.chains);
                if max_level_bytes == 100 && number % 700 == 0 {
                    queue.spill(&mut storage).expect("spills");
                }
            }
            let mut sorted = links;
            sorted.sort_unstable();
            let mut read = copy(&queue, &*files, &mut storage);
            assert_eq!((queue.len(&storage.chains), read.len(&storage.chains)), (length, length));
            if length == 30_000 && max_level_bytes == 100 {
                // Both queues together have 60,000 links, which would take 120,000 bytes in memory.
                let bytes = read.bytes() + queue.bytes() + storage.chains.bytes();
                assert!(bytes < 60_000 + 20_000, "{bytes}");
            }
            // Remove every other link of the first half, and insert these links again below.
            let gone: Vec<QueuedPosition> = sorted.iter().copied().take(length as usize / 2).step_by(2).collect();
            let positions: HashSet<u64> = gone.iter().map(|link| link.1).collect();
            queue.remove(positions.clone(), &mut storage).expect("reads");
            let left: Vec<QueuedPosition> =
                sorted.iter().copied().filter(|link| !positions.contains(&link.1)).collect();
            assert_eq!(queue.len(&storage.chains), left.len() as u64);
            assert_eq!(drain(&mut copy(&queue, &*files, &mut storage), &mut storage), left);
            queue.insert(gone.into_iter().rev().collect(), &mut storage).expect("reads");
            assert_eq!(drain(&mut read, &mut storage), sorted);
            assert_eq!(drain(&mut queue, &mut storage), sorted);
            assert!(queue.is_empty());
        }
    }

    #[test]
    fn a_queued_link_costs_a_few_bytes() {
        let (_folder, _, mut storage) = files(usize::MAX);
        let mut queue = LaneQueue::default();
        for number in 0..100_000_u64 {
            queue.push(2, number * 300, &mut storage.chains);
        }
        let bytes = queue.bytes() + storage.chains.bytes();
        assert!(bytes < 100_000 * 5 / 2, "{bytes} bytes");
        for number in 0..100_000_u64 {
            assert_eq!(queue.pop(&mut storage).expect("reads"), Some((2, number * 300)));
        }
        assert!(size_of::<LaneQueue>() <= 24);
    }
}
