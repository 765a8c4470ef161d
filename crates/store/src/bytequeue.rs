//! [`ByteQueue`]: a FIFO queue of small byte items without an allocation per item.
//!
//! An item is stored after its length, a varint. Items are stored in segments that grow with the queue up to a maximum
//! size and are freed after reading. So a short queue is small, and a long queue neither moves its items nor keeps
//! those already read.
//!
//! Invariant: an item never crosses a segment boundary; no segment is empty.

use crate::varint::{Bytes, MAX_VARINT, varint_bytes};
use std::collections::VecDeque;

/// A FIFO queue of byte items.
#[derive(Default)]
pub(crate) struct ByteQueue {
    segments: VecDeque<Vec<u8>>,
    /// Number of bytes of the first segment that were already read.
    read: usize,
}

/// Capacity of the first segment, in bytes.
const MIN_SEGMENT: usize = 16;
/// Maximum capacity of a segment, unless an item is longer.
const MAX_SEGMENT: usize = 4 * 1024;

impl ByteQueue {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn push(&mut self, item: &[u8]) {
        let mut buffer = [0; MAX_VARINT];
        let length = varint_bytes(item.len() as u64, &mut buffer);
        let needed = length.len() + item.len();
        if let Some(segment) = self.segments.back_mut().filter(|segment| segment.len() + needed <= segment.capacity()) {
            segment.extend_from_slice(length);
            segment.extend_from_slice(item);
            return;
        }
        let size = self.segments.back().map_or(MIN_SEGMENT, |last| last.capacity() * 2).min(MAX_SEGMENT);
        let mut segment = Vec::with_capacity(size.max(needed));
        segment.extend_from_slice(length);
        segment.extend_from_slice(item);
        self.segments.push_back(segment);
    }

    /// The bytes at the front: the first item after its length, and the items after it in its segment.
    fn unread(&self) -> Bytes<'_> {
        Bytes(self.segments.front().and_then(|segment| segment.get(self.read..)).unwrap_or_default())
    }

    /// The first item; `None` if the queue is empty.
    pub fn front(&self) -> Option<&[u8]> {
        self.unread().sized()
    }

    /// Removes the first item.
    pub fn advance(&mut self) {
        let mut rest = self.unread();
        let before = rest.0.len();
        let _ = rest.sized();
        self.read += before - rest.0.len();
        if self.segments.front().is_some_and(|segment| self.read >= segment.len()) {
            self.segments.pop_front();
            self.read = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_order_and_read_segments_are_freed() {
        let mut queue = ByteQueue::default();
        let item = |number: usize| vec![number as u8; 1 + number % 50];
        for number in 0..10_000 {
            queue.push(&item(number));
        }
        let capacity = |queue: &ByteQueue| queue.segments.iter().map(Vec::capacity).sum::<usize>();
        let full = capacity(&queue);
        for number in 0..10_000 {
            let expected = item(number);
            assert_eq!(queue.front(), Some(expected.as_slice()));
            queue.advance();
            // A tenth of the items is left.
            if number == 9_000 {
                assert!(capacity(&queue) < full / 4);
            }
        }
        assert!(queue.is_empty() && queue.front().is_none());
    }

    #[test]
    fn an_item_larger_than_any_segment_is_kept_whole() {
        let mut queue = ByteQueue::default();
        queue.push(b"small");
        queue.push(&[7; 3 * MAX_SEGMENT]);
        queue.advance();
        assert_eq!(queue.front(), Some([7; 3 * MAX_SEGMENT].as_slice()));
    }
}
