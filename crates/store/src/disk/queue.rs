//! [`LaneQueue`]: what is queued in one lane, as positions in the log.
//!
//! The links themselves stay on the disk; in memory a queued link is the distance from the one before it, two or three
//! bytes. A position in the log is also the order of arrival, so a level's positions ascend, and a queue that was taken
//! apart can be put together again by sorting.
//!
//! Of a million lanes most hold none, one or a few links, so these have forms of their own.
//!
//! Invariant: levels are in order of depth, none is empty, and the positions of a level ascend.

use super::record::{Bytes, write_number};
use crate::bytequeue::ByteQueue;
use std::collections::VecDeque;

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
    pub fn pop(&mut self) -> Option<(u32, u64)> {
        match self {
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
                let level = levels.front_mut()?;
                let popped = (level.depth, level.first);
                level.count -= 1;
                level.first += level.steps.pop_with(|bytes| {
                    let mut rest = Bytes(bytes);
                    let step = rest.number().unwrap_or(0);
                    (step, bytes.len() - rest.0.len())
                });
                if level.count == 0 {
                    levels.pop_front();
                }
                if levels.is_empty() {
                    *self = Self::Empty;
                }
                Some(popped)
            }
        }
    }

    /// Takes everything apart.
    pub fn drain(&mut self) -> Vec<(u32, u64)> {
        match std::mem::take(self) {
            Self::Few(bytes) => few(&bytes).collect(),
            mut other => std::iter::from_fn(|| other.pop()).collect(),
        }
    }

    /// Puts a queue together from links in any order.
    pub fn gather(mut links: Vec<(u32, u64)>) -> Self {
        links.sort_unstable();
        let mut queue = Self::default();
        for (depth, position) in links {
            queue.push(depth, position);
        }
        queue
    }

    /// Appends the queue's bytes as a snapshot holds them: its form, and what that form holds.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Empty => out.push(0),
            Self::One { depth, position } => {
                out.push(1);
                write_number(u64::from(*depth), out);
                write_number(*position, out);
            }
            Self::Few(bytes) => {
                out.push(2);
                write_number(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Self::Many(levels) => {
                out.push(3);
                write_number(levels.len() as u64, out);
                for Level { depth, count, first, last, steps } in levels.iter() {
                    let length: usize = steps.pieces().map(<[u8]>::len).sum();
                    for number in [u64::from(*depth), u64::from(*count), *first, last - first, length as u64] {
                        write_number(number, out);
                    }
                    steps.pieces().for_each(|piece| out.extend_from_slice(piece));
                }
            }
        }
    }

    /// Reads back what `encode` wrote.
    pub fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(match bytes.byte()? {
            0 => Self::Empty,
            1 => Self::One { depth: u32::try_from(bytes.number()?).ok()?, position: bytes.number()? },
            2 => Self::Few(Box::from(bytes.piece()?)),
            3 => {
                let mut levels = VecDeque::new();
                for _ in 0..bytes.number()? {
                    let (depth, count) = (u32::try_from(bytes.number()?).ok()?, u32::try_from(bytes.number()?).ok()?);
                    let first = bytes.number()?;
                    let last = first.checked_add(bytes.number()?)?;
                    let steps = ByteQueue::from_piece(bytes.piece()?.to_vec());
                    levels.push_back(Level { depth, count, first, last, steps });
                }
                Self::Many(Box::new(levels))
            }
            _ => return None,
        })
    }

    /// The bytes of memory that it holds beside itself.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Empty | Self::One { .. } => 0,
            Self::Few(bytes) => bytes.len(),
            Self::Many(levels) => {
                let steps: usize = levels.iter().map(|level| level.steps.bytes()).sum();
                size_of::<VecDeque<Level>>() + levels.capacity() * size_of::<Level>() + steps
            }
        }
    }
}

fn push_into(levels: &mut VecDeque<Level>, depth: u32, position: u64) {
    let at = levels.partition_point(|level| level.depth < depth);
    match levels.get_mut(at).filter(|level| level.depth == depth) {
        Some(level) => {
            let mut step = Vec::with_capacity(10);
            write_number(position.saturating_sub(level.last), &mut step);
            level.steps.push(&step);
            level.last = position;
            level.count += 1;
        }
        None => {
            let level = Level { depth, count: 1, first: position, last: position, steps: ByteQueue::default() };
            levels.insert(at, level);
        }
    }
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
    use super::*;

    #[test]
    fn pops_by_depth_and_then_by_arrival() {
        let mut queue = LaneQueue::default();
        let arrivals = [(3, 10), (1, 20), (3, 500), (2, 100_000), (1, 100_001), (3, 1 << 50)];
        for (depth, position) in arrivals {
            queue.push(depth, position);
        }
        assert_eq!(queue.len(), 6);
        assert_eq!(queue.pop(), Some((1, 20)));
        queue.push(1, (1 << 50) + 1);
        let rest = queue.drain();
        assert_eq!(rest, [(1, 100_001), (1, (1 << 50) + 1), (2, 100_000), (3, 10), (3, 500), (3, 1 << 50)]);
        assert!(matches!(queue, LaneQueue::Empty));
        let mut shuffled = rest.clone();
        shuffled.reverse();
        assert_eq!(LaneQueue::gather(shuffled).drain(), rest);
    }

    /// All lengths from none to many, all ways to mix three depths: against a sorted list.
    #[test]
    fn every_form_keeps_order_and_can_be_written_and_read() {
        for length in 0..120_u64 {
            let links: Vec<(u32, u64)> = (0..length).map(|i| ((i * i * 7 % 11 % 3) as u32, 40 + i * 131)).collect();
            let mut queue = LaneQueue::default();
            for (depth, position) in &links {
                queue.push(*depth, *position);
            }
            let mut sorted = links;
            sorted.sort_unstable();
            let mut bytes = Vec::new();
            queue.encode(&mut bytes);
            let mut rest = Bytes(&bytes);
            let mut read = LaneQueue::decode(&mut rest).expect("what was written");
            assert!(rest.0.is_empty());
            assert_eq!((queue.len(), read.len()), (length, length));
            assert_eq!(read.drain(), sorted);
            assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), sorted);
            assert!(matches!(queue, LaneQueue::Empty));
        }
    }

    #[test]
    fn a_queued_link_costs_a_few_bytes() {
        let mut queue = LaneQueue::default();
        for number in 0..100_000_u64 {
            queue.push(2, number * 300);
        }
        assert!(queue.bytes() < 100_000 * 3, "{} bytes", queue.bytes());
        for number in 0..100_000_u64 {
            assert_eq!(queue.pop(), Some((2, number * 300)));
        }
        assert!(size_of::<LaneQueue>() <= 24);
    }
}
