//! [`LaneQueue`]: what is queued in one lane, as positions in the log.
//!
//! The links themselves stay on the disk; in memory a queued link is the distance from the one before it, two or three
//! bytes. A position in the log is also the order of arrival, so a level's positions ascend, and a level that was taken
//! apart can be put together again by sorting.
//!
//! Invariant: levels are in order of depth, none is empty, and the positions of a level ascend.

use super::record::{Bytes, write_number};
use crate::bytequeue::ByteQueue;
use std::collections::VecDeque;

/// The queue of one lane. Of a million lanes most hold none or one.
#[derive(Default)]
pub(super) enum LaneQueue {
    #[default]
    Empty,
    One {
        depth: u32,
        position: u64,
    },
    Many(Box<VecDeque<Level>>),
}

/// The queued links of one depth.
pub(super) struct Level {
    pub depth: u32,
    pub count: u32,
    /// The position of the first.
    pub first: u64,
    /// The position of the last.
    pub last: u64,
    /// From the first to the second, from the second to the third, and so on.
    pub steps: ByteQueue,
}

impl LaneQueue {
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::One { .. } => 1,
            Self::Many(levels) => levels.iter().map(|level| u64::from(level.count)).sum(),
        }
    }

    /// Adds a link that arrived later than all others.
    pub fn push(&mut self, depth: u32, position: u64) {
        match self {
            Self::Empty => *self = Self::One { depth, position },
            Self::One { depth: other, position: earlier } => {
                let mut levels = Box::new(VecDeque::with_capacity(1));
                push_into(&mut levels, *other, *earlier);
                push_into(&mut levels, depth, position);
                *self = Self::Many(levels);
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
        std::iter::from_fn(|| self.pop()).collect()
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

    /// The bytes of memory that it holds beside itself.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Empty | Self::One { .. } => 0,
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
        assert_eq!(size_of::<LaneQueue>(), 16);
    }
}
