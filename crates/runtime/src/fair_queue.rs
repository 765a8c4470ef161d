//! [`FairQueue`]: a queue in which every host has its turn.
//!
//! A host that answers at once, with six pages at a time, must not keep one waiting that has sent a single page: whoever
//! comes first in line is served, and goes to the end of the line if it brought more.
//!
//! Invariant: a host stands in the line once, exactly as long as something of it waits; its own things keep their order.

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

    pub fn push(&mut self, host: H, thing: T) {
        match self.waiting.entry(host) {
            Entry::Occupied(mut entry) => entry.get_mut().push_back(thing),
            Entry::Vacant(entry) => {
                entry.insert(VecDeque::from([thing]));
                self.line.push_back(host);
            }
        }
    }

    pub fn pop(&mut self) -> Option<T> {
        let host = self.line.pop_front()?;
        let Entry::Occupied(mut entry) = self.waiting.entry(host) else { return None };
        let thing = entry.get_mut().pop_front();
        if entry.get().is_empty() {
            entry.remove();
        } else {
            self.line.push_back(host);
        }
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_host_and_then_the_next() {
        let mut turns = FairQueue::default();
        assert!(turns.is_empty() && turns.pop().is_none());
        for (host, thing) in [('a', 1), ('a', 2), ('a', 3), ('b', 4), ('c', 5), ('b', 6)] {
            turns.push(host, thing);
        }
        assert_eq!((turns.pop(), turns.pop()), (Some(1), Some(4)));
        // It has just been served and has something new: behind the others, in its old order.
        turns.push('a', 7);
        turns.push('d', 8);
        assert_eq!(std::iter::from_fn(|| turns.pop()).collect::<Vec<_>>(), [5, 2, 6, 8, 3, 7]);
        assert!(turns.is_empty() && turns.waiting.is_empty());
    }
}
