//! [`FairQueue`]: a queue that shares the keeper's time fairly among hosts (deficit round-robin).
//!
//! A fast host that delivers six pages at a time must not delay a host that has delivered one. A page with ten thousand
//! links is more work than a page with fifty. So hosts take turns, and each turn adds an allowance of work to the
//! host's credit. An item that costs more than the credit of its host waits for further turns, in which the other hosts
//! are served.
//!
//! Invariant: a host is in `hosts` once, exactly as long as it has items; its own items keep their order.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The credit that a host gets with each turn, in units of work. Most items cost less.
const TURN_ALLOWANCE: usize = 256;

/// A queue of items with costs, by host.
pub(crate) struct FairQueue<H, T> {
    /// The hosts with items, in the order of their turns.
    hosts: VecDeque<H>,
    /// The items of each host that has some.
    waiting: HashMap<H, HostItems<T>>,
}

/// The items of one host.
struct HostItems<T> {
    /// Items and their costs.
    items: VecDeque<(T, usize)>,
    /// Units of work that the host may use in its next turn.
    credit: usize,
}

impl<H, T> Default for FairQueue<H, T> {
    fn default() -> Self {
        Self { hosts: VecDeque::new(), waiting: HashMap::new() }
    }
}

impl<H: Copy + Eq + Hash, T> FairQueue<H, T> {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Adds an item with this cost.
    pub fn push(&mut self, host: H, item: T, work: usize) {
        match self.waiting.entry(host) {
            Entry::Occupied(mut entry) => entry.get_mut().items.push_back((item, work)),
            Entry::Vacant(entry) => {
                entry.insert(HostItems { items: VecDeque::from([(item, work)]), credit: 0 });
                self.hosts.push_back(host);
            }
        }
    }

    /// Takes the next item of the host whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        loop {
            let host = self.hosts.pop_front()?;
            let is_alone = self.hosts.is_empty();
            let Entry::Occupied(mut entry) = self.waiting.entry(host) else { return None };
            let HostItems { items, credit } = entry.get_mut();
            *credit += TURN_ALLOWANCE;
            let work = items.front().map_or(0, |(_, work)| *work);
            // A host without competitors does not wait for credit.
            if work > *credit && !is_alone {
                self.hosts.push_back(host);
                continue;
            }
            let item = items.pop_front().map(|(item, _)| item);
            if items.is_empty() {
                entry.remove();
            } else {
                // Unused credit is not carried over. A host is served one item per turn.
                *credit = 0;
                self.hosts.push_back(host);
            }
            return item;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_take_turns_with_one_item_each() {
        let mut queue = FairQueue::default();
        assert!(queue.is_empty() && queue.pop().is_none());
        for (host, item) in [('a', 1), ('a', 2), ('a', 3), ('b', 4), ('c', 5), ('b', 6)] {
            queue.push(host, item, 1);
        }
        assert_eq!((queue.pop(), queue.pop()), (Some(1), Some(4)));
        // A host that was just served and gets a new item goes behind the others; its own items keep their order.
        queue.push('a', 7, 1);
        queue.push('d', 8, 1);
        assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), [5, 2, 6, 8, 3, 7]);
        assert!(queue.is_empty() && queue.waiting.is_empty());
    }

    #[test]
    fn an_expensive_item_waits_while_other_hosts_are_served() {
        let mut queue = FairQueue::default();
        (0..3).for_each(|item| queue.push('h', item, 4 * TURN_ALLOWANCE));
        (10..30).for_each(|item| queue.push('g', item, 50));
        let order: Vec<i32> = std::iter::from_fn(|| queue.pop()).collect();
        let heavy: Vec<usize> = (0..3).filter_map(|item| order.iter().position(|other| *other == item)).collect();
        // In the first three turns of `h`, its credit is too low.
        assert_eq!(heavy, [3, 8, 13], "the others are served before each: {order:?}");
        assert_eq!(order.len(), 23);
    }
}
