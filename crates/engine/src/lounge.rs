//! [`Lounge`]: the connections that rest, by seat, and which of them has rested longest.
//!
//! There is an end to the room for them. Whoever has just been used is likely to be used again soon, so it is the one
//! that has rested longest that makes room: a newcomer that was turned away instead would be connected anew for its
//! next job, and be turned away again.
//!
//! Invariant: every guest stands in `order` once under its own number, unless it was asked to leave; numbers of those
//! that have left are passed over, and cleared away before they are the most.

use std::collections::{HashMap, VecDeque};

use crate::worker::Seat;

/// What rests, by seat.
pub struct Lounge<T> {
    guests: HashMap<Seat, (u64, T)>,
    /// In the order of arrival.
    order: VecDeque<(u64, Seat)>,
    arrivals: u64,
}

impl<T> Default for Lounge<T> {
    fn default() -> Self {
        Self { guests: HashMap::new(), order: VecDeque::new(), arrivals: 0 }
    }
}

impl<T> Lounge<T> {
    pub fn len(&self) -> usize {
        self.guests.len()
    }

    pub fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }

    pub fn get(&self, seat: Seat) -> Option<&T> {
        self.guests.get(&seat).map(|(_, guest)| guest)
    }

    pub fn get_mut(&mut self, seat: Seat) -> Option<&mut T> {
        self.guests.get_mut(&seat).map(|(_, guest)| guest)
    }

    /// Takes a seat. Gives back whoever sat there.
    pub fn insert(&mut self, seat: Seat, guest: T) -> Option<T> {
        self.arrivals += 1;
        if self.order.len() > 2 * self.guests.len() + 16 {
            let guests = &self.guests;
            self.order.retain(|(number, seat)| guests.get(seat).is_some_and(|(own, _)| own == number));
        }
        self.order.push_back((self.arrivals, seat));
        self.guests.insert(seat, (self.arrivals, guest)).map(|(_, before)| before)
    }

    pub fn remove(&mut self, seat: Seat) -> Option<T> {
        self.guests.remove(&seat).map(|(_, guest)| guest)
    }

    /// Who has rested longest, of those that may leave. Each is named once.
    pub fn longest(&mut self, may_leave: impl Fn(&T) -> bool) -> Option<Seat> {
        while let Some((number, seat)) = self.order.pop_front() {
            let guest = self.guests.get(&seat).filter(|(own, _)| *own == number);
            if guest.is_some_and(|(_, guest)| may_leave(guest)) {
                return Some(seat);
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

    fn seat(number: u16) -> Seat {
        (LaneId(7), number)
    }

    #[test]
    fn who_has_rested_longest_leaves_first() {
        let mut lounge = Lounge::default();
        for number in 0..4 {
            assert_eq!(lounge.insert(seat(number), number), None);
        }
        // Used again, and resting again: it is the last now.
        assert_eq!(lounge.remove(seat(0)), Some(0));
        assert_eq!(lounge.insert(seat(0), 0), None);
        assert_eq!(lounge.longest(|guest| *guest != 1), Some(seat(2)));
        assert_eq!(lounge.remove(seat(2)), Some(2));
        assert_eq!(lounge.longest(|_| true), Some(seat(3)), "one that may not leave is passed over");
        assert_eq!(lounge.longest(|_| true), Some(seat(0)));
        assert_eq!(lounge.longest(|_| true), None, "each is named once");
        assert_eq!((lounge.len(), lounge.get_mut(seat(1))), (3, Some(&mut 1)));
    }

    #[test]
    fn a_seat_that_is_used_again_and_again_takes_no_room() {
        let mut lounge = Lounge::default();
        for round in 0..10_000 {
            lounge.insert(seat(round % 8), round);
            lounge.remove(seat(round % 8));
        }
        assert!(lounge.is_empty() && lounge.order.len() < 64, "{}", lounge.order.len());
    }
}
