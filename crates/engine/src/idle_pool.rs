//! [`IdlePool`]: connections with room for a job, by slot, in LRU order.
//!
//! Eviction is LRU: a connection that was just used is likely to be used again soon. If a full pool refused new
//! connections instead, a host whose connection does not fit would reconnect for every request.
//!
//! Invariant: each entry is in `order` once under its own number, unless it was already returned for eviction. `order`
//! may also contain the numbers of removed entries. They are skipped, and deleted when they outnumber the entries.

use std::collections::{HashMap, VecDeque};

use argiope_core::crawl::session::SlotKey;

use crate::worker::IdleLimit;

/// Limit on the entries that one search skips because they may not be evicted.
const MAX_SKIPPED: usize = 64;

/// Entries by slot, with the order in which they were inserted.
pub struct IdlePool<T> {
    /// The entries, each with the number of its insertion.
    entries: HashMap<SlotKey, (u64, T)>,
    /// Numbers and slots in the order of insertion.
    order: VecDeque<(u64, SlotKey)>,
    /// Number of the last insertion.
    insertions: u64,
    /// Counts the entries of all workers.
    limit: IdleLimit,
}

impl<T> Drop for IdlePool<T> {
    fn drop(&mut self) {
        self.limit.remove(self.entries.len());
    }
}

impl<T> IdlePool<T> {
    pub fn new(limit: IdleLimit) -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), insertions: 0, limit }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, slot: SlotKey) -> Option<&T> {
        self.entries.get(&slot).map(|(_, entry)| entry)
    }

    pub fn get_mut(&mut self, slot: SlotKey) -> Option<&mut T> {
        self.entries.get_mut(&slot).map(|(_, entry)| entry)
    }

    /// Inserts an entry as the most recently used one. Returns the entry that was in the slot.
    pub fn insert(&mut self, slot: SlotKey, entry: T) -> Option<T> {
        self.insertions += 1;
        // More than half of `order` are numbers of removed entries. The 16 spare a small pool frequent cleaning.
        if self.order.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            self.order
                .retain(|(number, slot)| entries.get(slot).is_some_and(|(entry_number, _)| entry_number == number));
        }
        self.order.push_back((self.insertions, slot));
        let before = self.entries.insert(slot, (self.insertions, entry));
        self.limit.add(usize::from(before.is_none()));
        before.map(|(_, before)| before)
    }

    pub fn remove(&mut self, slot: SlotKey) -> Option<T> {
        let (_, entry) = self.entries.remove(&slot)?;
        self.limit.remove(1);
        Some(entry)
    }

    /// The slot of the least recently used entry that may be evicted. Each entry is returned at most once. An entry
    /// that may not be evicted counts as used: it is checked again after the others.
    pub fn next_to_evict(&mut self, may_evict: impl Fn(&T) -> bool) -> Option<SlotKey> {
        let mut skipped = 0;
        while skipped < MAX_SKIPPED
            && let Some((number, slot)) = self.order.pop_front()
        {
            match self.entries.get(&slot).filter(|(entry_number, _)| *entry_number == number) {
                Some((_, entry)) if may_evict(entry) => return Some(slot),
                Some(_) => {
                    self.order.push_back((number, slot));
                    skipped += 1;
                }
                // The entry was removed.
                None => {}
            }
        }
        None
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|_, (_, entry)| keep(entry));
        self.limit.remove(before - self.entries.len());
    }

    pub fn clear(&mut self) {
        self.limit.remove(self.entries.len());
        self.entries.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use argiope_core::LaneId;
    use argiope_core::crawl::rules::Config;

    fn slot(number: u32) -> SlotKey {
        (LaneId(7), number)
    }

    fn pool() -> IdlePool<u32> {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        IdlePool::new(IdleLimit::new(&config.compile(0).expect("valid settings")))
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let mut pool = pool();
        for number in 0..4 {
            assert_eq!(pool.insert(slot(number), number), None);
        }
        // Used again: it is the most recent one now.
        assert_eq!(pool.remove(slot(0)), Some(0));
        assert_eq!(pool.insert(slot(0), 0), None);
        assert_eq!(pool.next_to_evict(|entry| *entry != 1), Some(slot(2)), "an entry that must stay is skipped");
        assert_eq!(pool.remove(slot(2)), Some(2));
        assert_eq!(pool.next_to_evict(|_| true), Some(slot(3)));
        assert_eq!(pool.next_to_evict(|_| true), Some(slot(0)));
        assert_eq!(pool.next_to_evict(|_| true), Some(slot(1)), "it is checked again after the others");
        assert_eq!(pool.next_to_evict(|_| true), None, "each entry is returned once");
        assert_eq!((pool.entries.len(), pool.get_mut(slot(1))), (3, Some(&mut 1)));
    }

    #[test]
    fn the_idle_limit_leaves_sockets_for_fetches() {
        let config = Config { roots: vec!["http://h/".into()], concurrency: 1_000, ..Config::default() };
        let rules = config.compile(0).expect("valid settings");
        for (sockets, expected) in [(100_000, 1_000), (1_500, 500), (1_000, 32)] {
            let limit = IdleLimit::new(&rules).within(sockets, &rules);
            limit.add(expected - 1);
            assert!(!limit.is_full());
            limit.add(1);
            assert!(limit.is_full(), "{sockets} sockets");
        }
    }

    #[test]
    fn reusing_a_slot_does_not_grow_the_pool() {
        let mut pool = pool();
        for round in 0..10_000 {
            pool.insert(slot(round % 8), round);
            pool.remove(slot(round % 8));
        }
        assert!(pool.is_empty() && pool.order.len() < 64, "{}", pool.order.len());
    }
}
