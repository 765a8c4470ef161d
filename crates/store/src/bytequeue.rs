//! [`ByteQueue`]: small items of bytes, one behind the other, first in, first out.
//!
//! Items lie in segments that grow with the queue up to some size and are freed as they are read. So an item costs its
//! bytes and no allocation, a short queue is small, and a long one neither moves nor keeps what was read.
//!
//! Invariant: an item never crosses from one segment to the next; no segment is empty.

use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct ByteQueue {
    segments: VecDeque<Vec<u8>>,
    /// How much of the first segment was read already.
    read: usize,
}

const SMALLEST_SEGMENT: usize = 16;
pub(crate) const LARGEST_SEGMENT: usize = 4 * 1024;

impl ByteQueue {
    /// A queue of one segment.
    pub fn from_segment(segment: Vec<u8>) -> Self {
        let mut queue = Self::default();
        queue.push_segment(segment);
        queue
    }

    /// Adds a segment of whole items as it is.
    pub fn push_segment(&mut self, segment: Vec<u8>) {
        if !segment.is_empty() {
            self.segments.push_back(segment);
        }
    }

    /// Puts whole items before all others.
    pub fn prepend(&mut self, items: Vec<u8>) {
        if items.is_empty() {
            return;
        }
        if self.read > 0
            && let Some(first) = self.segments.front_mut()
        {
            first.drain(..self.read);
        }
        self.read = 0;
        self.segments.push_front(items);
    }

    /// Takes all segments behind the first.
    pub fn take_behind_first(&mut self) -> VecDeque<Vec<u8>> {
        self.segments.split_off(self.segments.len().min(1))
    }

    /// Takes all segments before the last, of a queue that nothing was read from.
    pub fn take_before_last(&mut self) -> VecDeque<Vec<u8>> {
        let last = self.segments.split_off(self.segments.len().saturating_sub(1));
        std::mem::replace(&mut self.segments, last)
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn push(&mut self, item: &[u8]) {
        let fits = |segment: &&mut Vec<u8>| segment.len() + item.len() <= segment.capacity();
        if let Some(segment) = self.segments.back_mut().filter(fits) {
            segment.extend_from_slice(item);
            return;
        }
        let size = self.segments.back().map_or(SMALLEST_SEGMENT, |last| last.capacity() * 2).min(LARGEST_SEGMENT);
        let mut segment = Vec::with_capacity(size.max(item.len()));
        segment.extend_from_slice(item);
        self.segments.push_back(segment);
    }

    /// What stands at the front: the first item and more behind it.
    pub fn front(&self) -> &[u8] {
        self.segments.front().and_then(|segment| segment.get(self.read..)).unwrap_or_default()
    }

    /// Lets go of the first item, which has this length.
    pub fn advance(&mut self, length: usize) {
        self.read += length;
        if self.segments.front().is_some_and(|segment| self.read >= segment.len()) {
            self.segments.pop_front();
            self.read = 0;
        }
    }

    /// Reads the first item: `read` tells what it means and how long it is.
    pub fn pop_with<T>(&mut self, read: impl FnOnce(&[u8]) -> (T, usize)) -> T {
        let (item, length) = read(self.front());
        self.advance(length);
        item
    }

    /// The pieces that were not read yet.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let rest = self.segments.iter().skip(1).map(Vec::as_slice);
        std::iter::once(self.front()).chain(rest)
    }

    /// The bytes of memory that it holds beside itself.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(Vec::capacity).sum::<usize>() + self.segments.capacity() * size_of::<Vec<u8>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_order_and_what_was_read_is_freed() {
        let mut queue = ByteQueue::default();
        let item = |number: usize| vec![number as u8; 1 + number % 50];
        for number in 0..10_000 {
            queue.push(&item(number));
        }
        let length: usize = (0..10_000).map(|number| item(number).len()).sum();
        assert_eq!(queue.pieces().map(<[u8]>::len).sum::<usize>(), length);
        let all = queue.bytes();
        for number in 0..10_000 {
            let expected = item(number);
            assert_eq!(queue.front().get(..expected.len()), Some(expected.as_slice()));
            queue.advance(expected.len());
            if number == 9_000 {
                assert!(queue.bytes() < all / 4);
            }
        }
        assert!(queue.is_empty() && queue.front().is_empty());
    }

    #[test]
    fn an_item_larger_than_any_segment_is_kept_whole() {
        let mut queue = ByteQueue::default();
        queue.push(b"small");
        queue.push(&[7; 3 * LARGEST_SEGMENT]);
        queue.advance(5);
        assert_eq!(queue.front(), [7; 3 * LARGEST_SEGMENT]);
    }
}
