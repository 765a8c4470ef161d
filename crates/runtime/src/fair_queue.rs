//! [`FairQueue`]: a queue that serves hosts round-robin.
//!
//! A fast host that delivers six pages at a time must not delay a host that has delivered a single one: after each item
//! its host goes to the end of the line.
//!
//! Invariant: a host is in the line once, exactly as long as it has items; its own items keep their order.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

pub(crate) struct FairQueue<H, T> {
    line: VecDeque<H>,
    waiting: HashMap<H, VecDeque<T>>,
}

impl<H, T> Default for FairQueue<H, T> {
    fn default() -> Self {
        Self { line: VecDeque::new(), waiting: HashMap::new() }
    }
}

impl<H: Copy + Eq + Hash, T> FairQueue<H, T> {
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub fn push(&mut self, host: H, item: T) {
        match self.waiting.entry(host) {
            Entry::Occupied(mut entry) => entry.get_mut().push_back(item),
            Entry::Vacant(entry) => {
                entry.insert(VecDeque::from([item]));
                self.line.push_back(host);
            }
        }
    }

    pub fn pop(&mut self) -> Option<T> {
        let host = self.line.pop_front()?;
        let Entry::Occupied(mut entry) = self.waiting.entry(host) else { return None };
        let item = entry.get_mut().pop_front();
        if entry.get().is_empty() {
            entry.remove();
        } else {
            self.line.push_back(host);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_host_and_then_the_next() {
        let mut queue = FairQueue::default();
        assert!(queue.is_empty() && queue.pop().is_none());
        for (host, item) in [('a', 1), ('a', 2), ('a', 3), ('b', 4), ('c', 5), ('b', 6)] {
            queue.push(host, item);
        }
        assert_eq!((queue.pop(), queue.pop()), (Some(1), Some(4)));
        // It has just been served and has a new item: behind the others, its own items in their order.
        queue.push('a', 7);
        queue.push('d', 8);
        assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), [5, 2, 6, 8, 3, 7]);
        assert!(queue.is_empty() && queue.waiting.is_empty());
    }
}
