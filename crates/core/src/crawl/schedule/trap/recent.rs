//! [`Recent`]: a bounded set of numbers that drops the oldest (two generations, an approximate LRU).

use hashbrown::HashSet;

/// A set of the most recently inserted numbers: at least `capacity` of them, at most twice as many.
#[derive(Clone, Debug)]
pub struct Recent {
    capacity: usize,
    new: HashSet<u64>,
    old: HashSet<u64>,
}

impl Recent {
    pub fn with_capacity(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), new: HashSet::new(), old: HashSet::new() }
    }

    /// Inserts a number. Returns whether it was absent.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.new.len() >= self.capacity {
            // Reuses the allocation of the older generation.
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
    fn the_last_numbers_are_known_and_memory_is_bounded() {
        let mut recent = Recent::with_capacity(100);
        for number in 0..1_000 {
            assert!(recent.insert(number));
            assert!(!recent.insert(number));
            assert!(recent.new.len() + recent.old.len() <= 200);
        }
        assert!((900..1_000).all(|number| !recent.insert(number)));
        assert!(recent.insert(0), "evicted long ago");
    }
}
