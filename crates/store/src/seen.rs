//! [`SeenSet`]: the fingerprints of all addresses ever met, 9 to 12 bytes each.
//!
//! A hash table of 64-bit numbers that are hashes already. It is open addressing with one twist: a number's home is its
//! rank on the line of all numbers (`number * slots / 2^64`), and runs are kept in ascending order. So the table is at
//! the same time a sorted array with gaps:
//!
//! - a search that meets a larger number or a gap may stop: looking for what is not there is as cheap as finding;
//! - growing is one pass over the array, by any factor;
//! - a walk over the table yields the numbers in order, which is what a snapshot wants.
//!
//! The set is cut into shards by the leading bits, so that growing moves a 16th of it at a time and makes no long pause.
//! A shard grows in place: it is never in memory twice, and leaves no holes behind.
//!
//! Invariant: in each shard the numbers ascend, and between a number's home and its place there is no gap.

/// A gap. The number itself is held as [`STAND_IN`]; that two numbers share a place is the same odds as any collision.
const GAP: u64 = 0;
const STAND_IN: u64 = 1;

const SHARD_BITS: u32 = 4;
/// Slots beyond the last home to begin with; more are added if ever a run is that long.
const SLACK: usize = 16;
const FIRST_HOMES: usize = 8;

/// A set of 64-bit fingerprints.
#[derive(Clone)]
pub struct SeenSet {
    shards: Vec<Shard>,
    len: u64,
}

#[derive(Clone, Default)]
struct Shard {
    /// The homes, and behind them room for the run that starts near the end.
    slots: Vec<u64>,
    homes: usize,
    len: usize,
}

impl Default for SeenSet {
    fn default() -> Self {
        Self { shards: vec![Shard::default(); 1 << SHARD_BITS], len: 0 }
    }
}

impl SeenSet {
    /// Adds a fingerprint; says whether it was new.
    pub fn insert(&mut self, fingerprint: u64) -> bool {
        let number = stored(fingerprint);
        let new = self.shards[shard_of(number)].insert(number);
        self.len += u64::from(new);
        new
    }

    pub fn contains(&self, fingerprint: u64) -> bool {
        let number = stored(fingerprint);
        self.shards[shard_of(number)].find(number).is_ok()
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The table as it is, shard by shard: how many homes, and the slots. What [`SeenSet::from_shards`] takes back.
    pub fn shards(&self) -> impl Iterator<Item = (usize, &[u64])> {
        self.shards.iter().map(|shard| (shard.homes, shard.slots.as_slice()))
    }

    /// A set from its table. The table is taken at its word: whoever hands it over has checked that it is whole.
    pub fn from_shards(tables: impl Iterator<Item = (usize, Vec<u64>)>) -> Self {
        let mut set = Self::default();
        for (shard, (homes, slots)) in set.shards.iter_mut().zip(tables) {
            let len = slots.iter().filter(|number| **number != GAP).count();
            *shard = Shard { slots, homes, len };
            set.len += len as u64;
        }
        set
    }

    /// How many shards there are.
    pub const SHARDS: usize = 1 << SHARD_BITS;

    /// All fingerprints in ascending order (zero as one).
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.shards.iter().flat_map(|shard| shard.slots.iter().copied().filter(|number| *number != GAP))
    }

    /// The bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.slots.capacity() * 8 + size_of::<Shard>()).sum()
    }
}

/// A fingerprint as it is held.
pub(crate) fn stored(fingerprint: u64) -> u64 {
    if fingerprint == GAP { STAND_IN } else { fingerprint }
}

fn shard_of(number: u64) -> usize {
    (number >> (64 - SHARD_BITS)) as usize
}

impl Shard {
    /// `Ok(place)` where the number is, `Err(place)` where it belongs.
    fn find(&self, number: u64) -> Result<usize, usize> {
        let mut place = home(number, self.homes);
        while let Some(&held) = self.slots.get(place) {
            if held == number {
                return Ok(place);
            }
            if held == GAP || held > number {
                break;
            }
            place += 1;
        }
        Err(place)
    }

    fn insert(&mut self, number: u64) -> bool {
        let Err(mut place) = self.find(number) else { return false };
        // Nine in ten homes taken is where runs begin to get long.
        if self.len * 10 >= self.homes * 9 {
            self.grow();
            place = self.find(number).unwrap_or_else(|place| place);
        }
        // The rest of the run moves up by one, into the gap behind it.
        let rest = &self.slots[place..];
        let run = rest.iter().position(|held| *held == GAP).unwrap_or(rest.len());
        if place + run == self.slots.len() {
            self.slots.reserve_exact(SLACK);
            self.slots.push(GAP);
        }
        self.slots.copy_within(place..place + run, place + 1);
        self.slots[place] = number;
        self.len += 1;
        true
    }

    /// A quarter longer: between 72 and 90 of 100 homes are taken, so a number costs 9 to 11 bytes.
    ///
    /// In place, so that there is never a second table: all numbers move to the end, in order, and then each to where
    /// it belongs. That is never behind a number that still waits, because all of those belong further on.
    fn grow(&mut self) {
        let homes = (self.homes + self.homes / 4).max(FIRST_HOMES);
        let numbers = self.slots.iter().copied().filter(|number| *number != GAP);
        let end = numbers.fold(0, |next, number| home(number, homes).max(next) + 1);
        let before = self.slots.len();
        let length = (homes + SLACK).max(end).max(before);
        self.slots.reserve_exact(length - before);
        self.slots.resize(length, GAP);
        let mut waiting = length;
        for place in (0..before).rev() {
            let number = std::mem::replace(&mut self.slots[place], GAP);
            if number != GAP {
                waiting -= 1;
                self.slots[waiting] = number;
            }
        }
        let mut next = 0;
        for from in waiting..length {
            let number = std::mem::replace(&mut self.slots[from], GAP);
            let place = home(number, homes).max(next);
            self.slots[place] = number;
            next = place + 1;
        }
        self.homes = homes;
    }
}

/// The rank of a number among all that a shard may hold, scaled to its homes.
fn home(number: u64, homes: usize) -> usize {
    let within = number << SHARD_BITS;
    ((u128::from(within) * homes as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// SplitMix64: numbers that look like hashes.
    fn hashes(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        })
    }

    #[test]
    fn agrees_with_the_set_of_the_standard_library() {
        let (mut ours, mut theirs) = (SeenSet::default(), HashSet::new());
        // A window of 40,000 numbers offered again and again: new ones and known ones in turn.
        let numbers: Vec<u64> = hashes(1).take(40_000).collect();
        for pick in hashes(2).take(120_000) {
            let number = numbers[(pick % 40_000) as usize];
            assert_eq!(ours.insert(number), theirs.insert(number));
        }
        assert_eq!(ours.len(), theirs.len() as u64);
        assert!(numbers.iter().all(|number| ours.contains(*number) == theirs.contains(number)));
        assert!(hashes(3).take(10_000).all(|number| ours.contains(number) == theirs.contains(&number)));
        let mut sorted: Vec<u64> = theirs.into_iter().collect();
        sorted.sort_unstable();
        assert_eq!(ours.iter().collect::<Vec<_>>(), sorted);
    }

    #[test]
    fn holds_the_edges_of_the_line() {
        let mut set = SeenSet::default();
        for number in [0, u64::MAX, 2, u64::MAX - 1, 1 << 56, (1 << 56) - 1] {
            assert!(!set.contains(number) && set.insert(number) && !set.insert(number) && set.contains(number));
        }
    }

    #[test]
    fn numbers_that_all_want_the_same_place_are_kept_all_the_same() {
        let mut set = SeenSet::default();
        let ends: Vec<u64> = (0..5_000).map(|i| u64::MAX - i).chain((0..5_000).map(|i| (7 << 40) + i)).collect();
        assert!(ends.iter().all(|number| set.insert(*number)));
        assert!(ends.iter().all(|number| set.contains(*number) && !set.insert(*number)));
        assert_eq!(set.len(), 10_000);
    }

    #[test]
    fn a_number_costs_nine_to_twelve_bytes() {
        let mut set = SeenSet::default();
        for (held, number) in hashes(4).take(1_000_000).enumerate() {
            set.insert(number);
            if held > 200_000 && held % 1_000 == 0 {
                let each = set.bytes() as f64 / set.len() as f64;
                assert!((8.8..12.0).contains(&each), "{each} bytes each at {held}");
            }
        }
    }
}
