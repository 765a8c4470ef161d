//! [`SimRng`]: seeded random numbers, the same on every machine and in every run.

use argiope_practice::mix;

/// A random number generator with 64 bits of state (SplitMix64), which is fast and good enough for tests.
#[derive(Clone, Debug)]
pub struct SimRng(u64);

impl SimRng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for one item. Its numbers depend only on `seed` and `thing`, not on the order of creation.
    pub fn of(seed: u64, thing: u64) -> Self {
        let mut rng = Self(seed ^ thing.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        rng.throw();
        rng
    }

    /// The next random number.
    pub fn throw(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        number
    }

    /// A number below `n`; zero if `n` is zero.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.throw() % n as u64) as usize }
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.throw() % (high - low + 1)
    }

    /// True in this percentage of calls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.throw() % 100 < percent
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.below(all.len())).copied()
    }
}
