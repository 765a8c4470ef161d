//! [`LaneQueue`]: what is queued in one lane, as positions in the log.
//!
//! The links themselves stay on the disk; in memory a queued link is the distance from the one before it, two or three
//! bytes. A position in the log is also the order of arrival, so a level's positions ascend.
//!
//! Of a million lanes most hold none, one or a few links, so these have forms of their own. Of a very long queue only
//! both ends need to be in memory: where there is no room, the middle waits on the disk ([`Spill`]).
//!
//! Invariant: levels are in order of depth, none is empty, and the positions of a level ascend.

use super::blocks::{BlockReader, BlockWriter};
use super::record::{Bytes, write_number};
use super::spill::{Away, Spill};
use crate::bytequeue::{ByteQueue, LARGEST_SEGMENT};
use argiope_core::StoreError;
use std::collections::{HashSet, VecDeque};
use std::io;

/// The queue of one lane.
#[derive(Default)]
pub(super) enum LaneQueue {
    #[default]
    Empty,
    One {
        depth: u32,
        position: u64,
    },
    /// In order; each link as its depth and position, both as the step from the link before, where the position starts
    /// from zero again when the depth has changed. Written anew at each change, which is cheap while it is short.
    Few(Box<[u8]>),
    #[expect(clippy::box_collection, reason = "a lane is as large as its largest form, and most lanes are short")]
    Many(Box<VecDeque<Level>>),
}

/// A queue longer than this is written in levels.
const FEW: usize = 96;

/// The queued links of one depth.
pub(super) struct Level {
    depth: u32,
    count: u32,
    /// The position of the first.
    first: u64,
    /// The position of the last.
    last: u64,
    /// From the first to the second, from the second to the third, and so on.
    steps: ByteQueue,
    /// Where the steps go on, if not all of them are in memory.
    more: Option<Box<More>>,
}

/// The steps behind those at the front.
struct More {
    away: VecDeque<Away>,
    /// The last of them, in memory again.
    tail: ByteQueue,
}

impl LaneQueue {
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::One { .. } => 1,
            Self::Few(bytes) => few(bytes).count() as u64,
            Self::Many(levels) => levels.iter().map(|level| u64::from(level.count)).sum(),
        }
    }

    /// Adds a link that arrived later than all others.
    pub fn push(&mut self, depth: u32, position: u64) {
        match self {
            Self::Empty => *self = Self::One { depth, position },
            Self::One { depth: other, position: earlier } => {
                let mut links = [(*other, *earlier), (depth, position)];
                links.sort_unstable();
                *self = Self::Few(write_few(links.into_iter()));
            }
            Self::Few(bytes) if bytes.len() < FEW => {
                // The new one stands behind those of its depth, and before those that are deeper.
                let shallow = few(bytes).take_while(|link| link.0 <= depth);
                let deep = few(bytes).skip_while(|link| link.0 <= depth);
                *self = Self::Few(write_few(shallow.chain([(depth, position)]).chain(deep)));
            }
            Self::Few(bytes) => {
                let mut levels = VecDeque::with_capacity(1);
                few(bytes).for_each(|(depth, position)| push_into(&mut levels, depth, position));
                push_into(&mut levels, depth, position);
                *self = Self::Many(Box::new(levels));
            }
            Self::Many(levels) => push_into(levels, depth, position),
        }
    }

    /// Takes the next link: the first of the lowest depth.
    pub fn pop(&mut self, spill: &mut Spill) -> Result<Option<(u32, u64)>, StoreError> {
        Ok(match self {
            Self::Empty => None,
            Self::One { depth, position } => {
                let popped = (*depth, *position);
                *self = Self::Empty;
                Some(popped)
            }
            Self::Few(bytes) => {
                let mut links = few(bytes);
                let popped = links.next();
                let rest = write_few(links);
                *self = if rest.is_empty() { Self::Empty } else { Self::Few(rest) };
                popped
            }
            Self::Many(levels) => {
                let Some(level) = levels.front_mut() else { return Ok(None) };
                let popped = (level.depth, level.first);
                level.count -= 1;
                if level.count == 0 {
                    levels.pop_front();
                } else {
                    level.first += level.next_step(spill)?;
                }
                if levels.is_empty() {
                    *self = Self::Empty;
                }
                Some(popped)
            }
        })
    }

    /// Puts links before all others: in order, and none of them belongs behind one that is there.
    fn prepend(&mut self, mut links: Vec<(u32, u64)>) {
        let Self::Many(levels) = self else {
            let mut rest = std::mem::take(self);
            match &mut rest {
                Self::One { depth, position } => links.push((*depth, *position)),
                Self::Few(bytes) => links.extend(few(bytes)),
                Self::Empty | Self::Many(_) => {}
            }
            links.into_iter().for_each(|(depth, position)| self.push(depth, position));
            return;
        };
        for group in links.chunk_by(|one, other| one.0 == other.0).rev() {
            let positions: Vec<u64> = group.iter().map(|link| link.1).collect();
            if let Some(&(depth, first)) = group.first() {
                prepend_to(levels, depth, first, &positions);
            }
        }
    }

    /// Adds links that may belong anywhere, near the front most likely.
    pub fn insert(&mut self, mut links: Vec<(u32, u64)>, spill: &mut Spill) -> Result<(), StoreError> {
        let Some(&last) = links.iter().max() else { return Ok(()) };
        while let Some(front) = self.pop(spill)? {
            links.push(front);
            if front > last {
                break;
            }
        }
        links.sort_unstable();
        self.prepend(links);
        Ok(())
    }

    /// Takes out the links with these positions, which are near the front most likely.
    pub fn remove(&mut self, mut gone: HashSet<u64>, spill: &mut Spill) -> Result<(), StoreError> {
        let mut kept = Vec::new();
        while !gone.is_empty() {
            let Some(link) = self.pop(spill)? else { break };
            if !gone.remove(&link.1) {
                kept.push(link);
            }
        }
        if !kept.is_empty() {
            self.prepend(kept);
        }
        Ok(())
    }

    /// Puts the middle of long queues on the disk.
    pub fn spill(&mut self, spill: &mut Spill) -> Result<(), StoreError> {
        if let Self::Many(levels) = self {
            levels.iter_mut().try_for_each(|level| level.spill(spill))?;
        }
        Ok(())
    }

    /// Writes the queue as a snapshot holds it: its form, and what that form holds.
    pub fn encode(&self, out: &mut BlockWriter, spill: &Spill) -> Result<(), EncodeFault> {
        match self {
            Self::Empty => out.write(&[0])?,
            Self::One { depth, position } => {
                out.write(&[1])?;
                out.number(u64::from(*depth))?;
                out.number(*position)?;
            }
            Self::Few(bytes) => {
                out.write(&[2])?;
                out.number(bytes.len() as u64)?;
                out.write(bytes)?;
            }
            Self::Many(levels) => {
                out.write(&[3])?;
                out.number(levels.len() as u64)?;
                levels.iter().try_for_each(|level| level.encode(out, spill))?;
            }
        }
        Ok(())
    }

    /// Reads back what `encode` wrote. `None` where that is not what is there.
    pub fn decode(from: &mut BlockReader, spill: &mut Spill) -> Result<Option<Self>, StoreError> {
        let Some(form) = from.byte() else { return Ok(None) };
        let short = |from: &mut BlockReader| {
            Some(match form {
                0 => Self::Empty,
                1 => Self::One { depth: u32::try_from(from.number()?).ok()?, position: from.number()? },
                2 => {
                    let length = from.number()?;
                    Self::Few(Box::from(from.bytes(length)?))
                }
                _ => return None,
            })
        };
        if form != 3 {
            return Ok(short(from));
        }
        let mut levels = VecDeque::new();
        let Some(count) = from.number() else { return Ok(None) };
        for _ in 0..count {
            let Some(level) = Level::decode(from, spill)? else { return Ok(None) };
            levels.push_back(level);
        }
        Ok(Some(Self::Many(Box::new(levels))))
    }

    /// The bytes of memory that it holds beside itself.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Empty | Self::One { .. } => 0,
            // With what the allocator adds.
            Self::Few(bytes) => (bytes.len() + 8).next_multiple_of(16),
            Self::Many(levels) => {
                let steps: usize = levels.iter().map(Level::bytes).sum();
                size_of::<VecDeque<Level>>() + levels.capacity() * size_of::<Level>() + steps
            }
        }
    }
}

/// Why a queue could not be written: the snapshot's file, or the pieces that are away.
pub(super) enum EncodeFault {
    Write(io::Error),
    Read(StoreError),
}

impl From<io::Error> for EncodeFault {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl Level {
    fn new(depth: u32, position: u64) -> Self {
        Self { depth, count: 1, first: position, last: position, steps: ByteQueue::default(), more: None }
    }

    fn push(&mut self, position: u64) {
        let mut step = Vec::with_capacity(10);
        write_number(position.saturating_sub(self.last), &mut step);
        match &mut self.more {
            Some(more) => more.tail.push(&step),
            None => self.steps.push(&step),
        }
        self.last = position;
        self.count += 1;
    }

    /// Takes the step from the first to the second.
    fn next_step(&mut self, spill: &mut Spill) -> Result<u64, StoreError> {
        if self.steps.is_empty()
            && let Some(more) = &mut self.more
        {
            match more.away.pop_front() {
                Some(away) => self.steps = ByteQueue::from_segment(spill.take(away)?),
                None => {
                    self.steps = std::mem::take(&mut more.tail);
                    self.more = None;
                }
            }
        }
        Ok(self.steps.pop_with(|bytes| {
            let mut rest = Bytes(bytes);
            let step = rest.number().unwrap_or(0);
            (step, bytes.len() - rest.0.len())
        }))
    }

    /// Puts all but the first and the last segment of the steps on the disk.
    fn spill(&mut self, spill: &mut Spill) -> Result<(), StoreError> {
        let more = match &mut self.more {
            Some(more) => more,
            none => {
                let mut behind = self.steps.take_behind_first();
                if behind.len() < 2 {
                    behind.into_iter().for_each(|segment| self.steps.push_segment(segment));
                    return Ok(());
                }
                let mut tail = ByteQueue::default();
                behind.drain(..).for_each(|segment| tail.push_segment(segment));
                none.insert(Box::new(More { away: VecDeque::new(), tail }))
            }
        };
        for segment in more.tail.take_before_last() {
            for piece in pieces(&segment) {
                more.away.push_back(spill.store(piece)?);
            }
        }
        Ok(())
    }

    fn encode(&self, out: &mut BlockWriter, spill: &Spill) -> Result<(), EncodeFault> {
        let Self { depth, count, first, last, steps, more } = self;
        let away = || more.iter().flat_map(|more| &more.away);
        let tail = || more.iter().flat_map(|more| more.tail.pieces());
        let here: usize = steps.pieces().chain(tail()).map(<[u8]>::len).sum();
        let length = here as u64 + away().map(|away| u64::from(away.length)).sum::<u64>();
        for number in [u64::from(*depth), u64::from(*count), *first, last - first, length] {
            out.number(number)?;
        }
        for piece in steps.pieces() {
            out.write(piece)?;
        }
        for away in away() {
            out.write(&spill.read(*away).map_err(EncodeFault::Read)?)?;
        }
        for piece in tail() {
            out.write(piece)?;
        }
        Ok(())
    }

    fn decode(from: &mut BlockReader, spill: &mut Spill) -> Result<Option<Self>, StoreError> {
        let head = |from: &mut BlockReader| {
            let (depth, count) = (u32::try_from(from.number()?).ok()?, u32::try_from(from.number()?).ok()?);
            let first = from.number()?;
            let last = first.checked_add(from.number()?)?;
            let level = Self { depth, count, first, last, steps: ByteQueue::default(), more: None };
            Some((level, from.number()?))
        };
        let Some((mut level, mut length)) = head(from) else { return Ok(None) };
        // Segment by segment; a step that is cut in two waits for its other half.
        let mut half = Vec::new();
        let mut in_memory = 0;
        while length > 0 {
            let wanted = length.min((LARGEST_SEGMENT - half.len()) as u64);
            let Some(bytes) = from.bytes(wanted) else { return Ok(None) };
            length -= wanted;
            half.extend_from_slice(&bytes);
            let Some(end) = half.iter().rposition(|byte| byte & 0x80 == 0) else { return Ok(None) };
            let rest = half.split_off(end + 1);
            in_memory += half.len();
            half.shrink_to_fit();
            match &mut level.more {
                Some(more) => more.tail.push_segment(half),
                None => level.steps.push_segment(half),
            }
            half = rest;
            if in_memory > spill.long {
                level.spill(spill)?;
                in_memory = 0;
            }
        }
        Ok(half.is_empty().then_some(level))
    }

    fn bytes(&self) -> usize {
        let more = self
            .more
            .as_ref()
            .map_or(0, |more| size_of::<More>() + more.away.capacity() * size_of::<Away>() + more.tail.bytes());
        self.steps.bytes() + more
    }
}

/// Cuts a segment into pieces that are no longer than a place on the disk, and that hold whole steps.
fn pieces(mut segment: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let most = segment.len().min(LARGEST_SEGMENT);
        let end = segment.get(..most)?.iter().rposition(|byte| byte & 0x80 == 0)? + 1;
        let (piece, rest) = segment.split_at_checked(end)?;
        segment = rest;
        Some(piece)
    })
}

fn push_into(levels: &mut VecDeque<Level>, depth: u32, position: u64) {
    let at = levels.partition_point(|level| level.depth < depth);
    match levels.get_mut(at).filter(|level| level.depth == depth) {
        Some(level) => level.push(position),
        None => levels.insert(at, Level::new(depth, position)),
    }
}

/// Puts positions of one depth before all others.
fn prepend_to(levels: &mut VecDeque<Level>, depth: u32, first: u64, positions: &[u64]) {
    let Some(level) = levels.front_mut().filter(|level| level.depth == depth) else {
        let mut level = Level::new(depth, first);
        positions.iter().skip(1).for_each(|position| level.push(*position));
        levels.push_front(level);
        return;
    };
    let mut steps = Vec::new();
    let next = positions.iter().skip(1).chain([&level.first]);
    positions.iter().zip(next).for_each(|(one, next)| write_number(next.saturating_sub(*one), &mut steps));
    level.steps.prepend(steps);
    level.first = first;
    level.count += positions.len() as u32;
}

/// The links of the short form.
fn few(bytes: &[u8]) -> impl Iterator<Item = (u32, u64)> {
    let mut bytes = Bytes(bytes);
    let (mut depth, mut position) = (0, 0);
    std::iter::from_fn(move || {
        let deeper = u32::try_from(bytes.number()?).ok()?;
        if deeper > 0 {
            (depth, position) = (depth + deeper, 0);
        }
        position += bytes.number()?;
        Some((depth, position))
    })
}

fn write_few(links: impl Iterator<Item = (u32, u64)>) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(FEW + 20);
    let mut before = (0, 0);
    for (depth, position) in links {
        write_number(u64::from(depth - before.0), &mut bytes);
        write_number(if depth == before.0 { position - before.1 } else { position }, &mut bytes);
        before = (depth, position);
    }
    Box::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::files::{Files, Folder};
    use super::*;
    use std::sync::Arc;

    /// Files, and a spill that has room for so much of a level.
    fn files(long: usize) -> (tempfile::TempDir, Arc<dyn Files>, Spill) {
        let folder = tempfile::tempdir().expect("a folder");
        let files: Arc<dyn Files> = Arc::new(Folder::new(folder.path()));
        let spill = Spill::new(Arc::clone(&files), 5, long);
        (folder, files, spill)
    }

    fn drain(queue: &mut LaneQueue, spill: &mut Spill) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| queue.pop(spill).expect("reads")).collect()
    }

    fn copy(queue: &LaneQueue, files: &dyn Files, spill: &mut Spill) -> LaneQueue {
        let mut out = BlockWriter::new(files.create("queue").expect("a file"), 5);
        assert!(queue.encode(&mut out, spill).is_ok());
        out.finish().expect("writes");
        let mut from = BlockReader::new(files.open("queue").expect("a file"), 5);
        let read = LaneQueue::decode(&mut from, spill).expect("reads").expect("what was written");
        assert!(from.ends());
        read
    }

    #[test]
    fn pops_by_depth_and_then_by_arrival() {
        let (_folder, _, mut spill) = files(usize::MAX);
        let mut queue = LaneQueue::default();
        let arrivals = [(3, 10), (1, 20), (3, 500), (2, 100_000), (1, 100_001), (3, 1 << 50)];
        for (depth, position) in arrivals {
            queue.push(depth, position);
        }
        assert_eq!(queue.len(), 6);
        assert_eq!(queue.pop(&mut spill).expect("reads"), Some((1, 20)));
        queue.push(1, (1 << 50) + 1);
        let rest = drain(&mut queue, &mut spill);
        assert_eq!(rest, [(1, 100_001), (1, (1 << 50) + 1), (2, 100_000), (3, 10), (3, 500), (3, 1 << 50)]);
        assert!(matches!(queue, LaneQueue::Empty));
    }

    /// All lengths from none to many, all ways to mix three depths, in memory and with the middle on the disk: against
    /// a sorted list.
    #[test]
    fn every_form_keeps_order_and_can_be_written_and_read() {
        let lengths = (0..120).chain([2_000, 30_000]);
        for (length, long) in lengths.flat_map(|length| [(length, usize::MAX), (length, 100)]) {
            let (_folder, files, mut spill) = files(long);
            let links: Vec<(u32, u64)> = (0..length).map(|i| ((i * i * 7 % 11 % 3) as u32, 40 + i * 131)).collect();
            let mut queue = LaneQueue::default();
            for (number, (depth, position)) in links.iter().enumerate() {
                queue.push(*depth, *position);
                if long == 100 && number % 700 == 0 {
                    queue.spill(&mut spill).expect("spills");
                }
            }
            let mut sorted = links;
            sorted.sort_unstable();
            let mut read = copy(&queue, &*files, &mut spill);
            assert_eq!((queue.len(), read.len()), (length, length));
            if length == 30_000 && long == 100 {
                assert!(read.bytes() < 30_000 && queue.bytes() < 30_000, "{} {}", read.bytes(), queue.bytes());
            }
            // A third goes away, from the front and from within; some of that comes back.
            let gone: Vec<(u32, u64)> = sorted.iter().copied().take(length as usize / 2).step_by(2).collect();
            let positions: HashSet<u64> = gone.iter().map(|link| link.1).collect();
            queue.remove(positions.clone(), &mut spill).expect("reads");
            let left: Vec<(u32, u64)> = sorted.iter().copied().filter(|link| !positions.contains(&link.1)).collect();
            assert_eq!(queue.len(), left.len() as u64);
            assert_eq!(drain(&mut copy(&queue, &*files, &mut spill), &mut spill), left);
            queue.insert(gone.into_iter().rev().collect(), &mut spill).expect("reads");
            assert_eq!(drain(&mut read, &mut spill), sorted);
            assert_eq!(drain(&mut queue, &mut spill), sorted);
            assert!(matches!(queue, LaneQueue::Empty));
        }
    }

    #[test]
    fn a_queued_link_costs_a_few_bytes() {
        let (_folder, _, mut spill) = files(usize::MAX);
        let mut queue = LaneQueue::default();
        for number in 0..100_000_u64 {
            queue.push(2, number * 300);
        }
        assert!(queue.bytes() < 100_000 * 3, "{} bytes", queue.bytes());
        for number in 0..100_000_u64 {
            assert_eq!(queue.pop(&mut spill).expect("reads"), Some((2, number * 300)));
        }
        assert!(size_of::<LaneQueue>() <= 24);
    }
}
