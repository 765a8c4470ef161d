//! [`IdlePool`]: the connections that rest, by slot_key, and which of them has rested longest.
//!
//! There is an end to the room for them. Whoever has just been used is likely to be used again soon, so it is the one
//! that has rested longest that makes room: a newcomer that was turned away instead would be connected anew for its
//! next job, and be turned away again.
//!
//! Invariant: every guest stands in `order` once under its own number, unless it was asked to leave; numbers of those
//! that have left are passed over, and cleared away before they are the most.

use std::collections::{HashMap, VecDeque};

use crate::worker::SlotKey;

/// What rests, by slot_key.
pub struct IdlePool<T> {
    guests: HashMap<SlotKey, (u64, T)>,
    /// In the order of arrival.
    order: VecDeque<(u64, SlotKey)>,
    arrivals: u64,
}

impl<T> Default for IdlePool<T> {
    fn default() -> Self {
        Self { guests: HashMap::new(), order: VecDeque::new(), arrivals: 0 }
    }
}

impl<T> IdlePool<T> {
    pub fn len(&self) -> usize {
        self.guests.len()
    }

    pub fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }

    pub fn get(&self, slot_key: SlotKey) -> Option<&T> {
        self.guests.get(&slot_key).map(|(_, guest)| guest)
    }

    pub fn get_mut(&mut self, slot_key: SlotKey) -> Option<&mut T> {
        self.guests.get_mut(&slot_key).map(|(_, guest)| guest)
    }

    /// Takes a slot_key. Gives back whoever sat there.
    pub fn insert(&mut self, slot_key: SlotKey, guest: T) -> Option<T> {
        self.arrivals += 1;
        if self.order.len() > 2 * self.guests.len() + 16 {
            let guests = &self.guests;
            self.order.retain(|(number, slot_key)| guests.get(slot_key).is_some_and(|(own, _)| own == number));
        }
        self.order.push_back((self.arrivals, slot_key));
        self.guests.insert(slot_key, (self.arrivals, guest)).map(|(_, before)| before)
    }

    pub fn remove(&mut self, slot_key: SlotKey) -> Option<T> {
        self.guests.remove(&slot_key).map(|(_, guest)| guest)
    }

    /// Who has rested longest, of those that may leave. Each is named once.
    pub fn longest(&mut self, may_leave: impl Fn(&T) -> bool) -> Option<SlotKey> {
        while let Some((number, slot_key)) = self.order.pop_front() {
            let guest = self.guests.get(&slot_key).filter(|(own, _)| *own == number);
            if guest.is_some_and(|(_, guest)| may_leave(guest)) {
                return Some(slot_key);
            }
        }
        None
    }

    /// Keeps those that `stays` says of.
    pub fn retain(&mut self, mut stays: impl FnMut(&mut T) -> bool) {
        self.guests.retain(|_, (_, guest)| stays(guest));
    }

    pub fn clear(&mut self) {
        self.guests.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use argiope_core::LaneId;

    fn slot_key(number: u16) -> SlotKey {
        (LaneId(7), number)
    }

    #[test]
    fn who_has_rested_longest_leaves_first() {
        let mut idle_pool = IdlePool::default();
        for number in 0..4 {
            assert_eq!(idle_pool.insert(slot_key(number), number), None);
        }
        // Used again, and resting again: it is the last now.
        assert_eq!(idle_pool.remove(slot_key(0)), Some(0));
        assert_eq!(idle_pool.insert(slot_key(0), 0), None);
        assert_eq!(idle_pool.longest(|guest| *guest != 1), Some(slot_key(2)));
        assert_eq!(idle_pool.remove(slot_key(2)), Some(2));
        assert_eq!(idle_pool.longest(|_| true), Some(slot_key(3)), "one that may not leave is passed over");
        assert_eq!(idle_pool.longest(|_| true), Some(slot_key(0)));
        assert_eq!(idle_pool.longest(|_| true), None, "each is named once");
        assert_eq!((idle_pool.len(), idle_pool.get_mut(slot_key(1))), (3, Some(&mut 1)));
    }

    #[test]
    fn a_seat_that_is_used_again_and_again_takes_no_room() {
        let mut idle_pool = IdlePool::default();
        for round in 0..10_000 {
            idle_pool.insert(slot_key(round % 8), round);
            idle_pool.remove(slot_key(round % 8));
        }
        assert!(idle_pool.is_empty() && idle_pool.order.len() < 64, "{}", idle_pool.order.len());
    }
}
