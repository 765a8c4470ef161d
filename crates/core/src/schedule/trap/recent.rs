//! [`Recent`]: a set of numbers that forgets the oldest.

use hashbrown::HashSet;

/// A set that holds the last numbers that were put in: at least `room` of them, never more than twice as many.
#[derive(Clone, Debug)]
pub struct Recent {
    room: usize,
    new: HashSet<u64>,
    old: HashSet<u64>,
}

impl Recent {
    pub fn with_room(room: usize) -> Self {
        Self { room: room.max(1), new: HashSet::new(), old: HashSet::new() }
    }

    /// Puts a number in; says whether it was not there before.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.new.len() >= self.room {
            // The old ones' memory is used again.
            std::mem::swap(&mut self.new, &mut self.old);
            self.new.clear();
        }
        self.new.insert(number) && !self.old.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_numbers_are_known_and_memory_has_an_end() {
        let mut recent = Recent::with_room(100);
        for number in 0..1_000 {
            assert!(recent.insert(number));
            assert!(!recent.insert(number));
            assert!(recent.new.len() + recent.old.len() <= 200);
        }
        assert!((900..1_000).all(|number| !recent.insert(number)));
        assert!(recent.insert(0), "long forgotten");
    }
}
