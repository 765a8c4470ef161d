//! [`SeenSet`]: a compact set of URL fingerprints, 7 to 9 bytes each.
//!
//! It is a hash table with open addressing for 64-bit numbers that are already hashes. It differs from a usual table in
//! two ways.
//!
//! The home of a number, the slot where its search begins, is proportional to its value (`number * homes / 2^64`, where
//! `number` is without the bits that select the shard). A *run* is a sequence of slots without a gap; its numbers are
//! in ascending order. So the table is a sorted array with gaps:
//!
//! - a search stops at a larger number or a gap, so a miss is as cheap as a hit;
//! - growing is one pass over the array, by any factor;
//! - iteration yields the numbers in order, as a snapshot needs them.
//!
//! Since a number is always near its home, its slot implies its leading bits. Only the other bits are stored: six of
//! eight bytes in a set of ten million. The full number can be computed from the slot and the stored bits.
//!
//! The set is sharded by the leading bits, so that growing moves only a 16th of it at a time.
//!
//! Invariant: in each shard the numbers ascend, all slots between a number's home and its slot are taken, and the slot
//! is within `reach` of the home.

/// The value of an empty slot. A number whose stored part would be zero is stored as the next number, which is as
/// unlikely to cause a false match as any hash collision.
const GAP: u64 = 0;

/// Leading bits of a number that select its shard.
const SHARD_BITS: u32 = 4;
/// The initial number of slots after the last home. More are added if a run needs them.
const SLACK: usize = 16;
/// The minimum number of homes that a growth adds.
const MIN_ADDED_HOMES: usize = 8;
/// Minimum bytes per slot.
const MIN_WIDTH: usize = 5;
/// Maximum bytes per slot.
const MAX_WIDTH: usize = 8;
/// Sets with fewer bytes than this are not prefetched, because they fit into the cache.
const MIN_PREFETCHED: usize = 2 << 20;
/// How many fingerprints are computed before their slots are loaded.
const PREFETCHED: usize = 64;
/// How many cache lines are loaded for each fingerprint. Most searches and insertions read no more.
const SEARCHED_LINES: usize = 3;
/// Bytes per cache line.
const CACHE_LINE: usize = 64;
/// How many slots are copied at a time when the table grows.
const BLOCK: usize = 256;
/// Slots are wide enough for a reach of at least this.
const MIN_REACH: usize = 64;

/// A set of 64-bit fingerprints.
#[derive(Clone)]
pub struct SeenSet {
    shards: Vec<Shard>,
    len: u64,
}

/// The numbers with the same leading bits.
#[derive(Clone)]
struct Shard {
    /// The smallest number of this shard.
    first: u64,
    table: Table,
    /// The distance between the numbers of adjacent homes, shifted left by [`SHARD_BITS`].
    step: u64,
}

/// A shard as it is written to a snapshot.
#[derive(Clone, Default)]
pub struct Table {
    /// The number of homes.
    pub homes: usize,
    /// The number of bytes per slot.
    pub width: usize,
    /// How many slots are in use.
    pub len: usize,
    /// The slots of all homes, then extra slots for a run that starts near the end, then padding so that eight bytes
    /// can be read at any slot.
    pub slots: Vec<u8>,
}

impl Table {
    /// Whether the fields are consistent.
    fn is_consistent(&self) -> bool {
        let Self { homes, width, len, slots } = self;
        let min_length = homes.checked_mul(*width).and_then(|bytes| bytes.checked_add(MAX_WIDTH - MIN_WIDTH));
        (MIN_WIDTH..=MAX_WIDTH).contains(width)
            && (*homes == 0 || min_length.is_some_and(|min_length| slots.len() >= min_length))
            && *len <= slots.len() / width
    }

    /// The number of slots, without the padding.
    fn slot_count(&self) -> usize {
        self.slots.len().saturating_sub(MAX_WIDTH - self.width) / self.width
    }

    /// The stored part of a slot: [`GAP`] if it is empty, `None` after the last slot.
    #[inline]
    fn stored_part(&self, slot: usize) -> Option<u64> {
        let bytes = self.slots.get(slot * self.width..slot * self.width + MAX_WIDTH)?;
        Some(u64::from_le_bytes(bytes.try_into().unwrap_or_default()) & mask(self.width))
    }

    /// The number of slots from this one to the next gap.
    fn run_at(&self, slot: usize) -> usize {
        let (mut slots, mut run) = (self.slots.get(slot * self.width..).unwrap_or_default(), 0);
        while let Some(bytes) = slots.first_chunk()
            && u64::from_le_bytes(*bytes) & mask(self.width) != GAP
        {
            slots = &slots[self.width.min(MAX_WIDTH)..];
            run += 1;
        }
        run
    }

    /// Stores the low bytes of a number in a slot.
    #[inline]
    fn set(&mut self, slot: usize, number: u64) {
        let mask = mask(self.width);
        if let Some(bytes) = self.bytes_mut(slot) {
            *bytes = (u64::from_le_bytes(*bytes) & !mask | number & mask).to_le_bytes();
        }
    }

    /// Stores the low bytes of a number in a slot, and clears the start of the next slot.
    #[inline]
    fn put(&mut self, slot: usize, low: u64) {
        if let Some(bytes) = self.bytes_mut(slot) {
            *bytes = low.to_le_bytes();
        }
    }

    #[inline]
    fn bytes_mut(&mut self, slot: usize) -> Option<&mut [u8; MAX_WIDTH]> {
        self.slots.get_mut(slot * self.width..)?.first_chunk_mut()
    }
}

impl Default for SeenSet {
    fn default() -> Self {
        let empty = Table { width: MAX_WIDTH, ..Table::default() };
        Self { shards: (0..Self::SHARDS).map(|number| Shard::new(number, empty.clone())).collect(), len: 0 }
    }
}

impl SeenSet {
    /// Adds a fingerprint; returns whether it was new.
    pub fn insert(&mut self, fingerprint: u64) -> bool {
        let number = as_stored(fingerprint);
        let new = self.shards[shard_of(number)].insert(number);
        self.len += u64::from(new);
        new
    }

    /// Loads the slots from which searches for these fingerprints start, so that later searches find them in the cache.
    /// The loads do not depend on each other, so the processor overlaps their cache misses.
    pub fn prefetch(&self, mut fingerprints: impl Iterator<Item = u64>) {
        if self.bytes() < MIN_PREFETCHED {
            return;
        }
        // The sum depends on all loads, so that the compiler does not remove them.
        let (mut numbers, mut sum) = ([0; PREFETCHED], 0_u8);
        loop {
            // Fingerprints are computed first, because that takes many instructions, and loads between them would not
            // overlap.
            let mut count = 0;
            for (number, fingerprint) in numbers.iter_mut().zip(&mut fingerprints) {
                *number = as_stored(fingerprint);
                count += 1;
            }
            for &number in numbers.iter().take(count) {
                let Table { homes, width, slots, .. } = &self.shards[shard_of(number)].table;
                let first = home(number, *homes) * width;
                for line in 0..SEARCHED_LINES {
                    sum ^= slots.get(first + line * CACHE_LINE).copied().unwrap_or(0);
                }
            }
            if count < PREFETCHED {
                break;
            }
        }
        std::hint::black_box(sum);
    }

    pub fn contains(&self, fingerprint: u64) -> bool {
        let number = as_stored(fingerprint);
        self.shards[shard_of(number)].find(number).is_ok()
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tables of all shards: the input of [`SeenSet::from_tables`].
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.shards.iter().map(|shard| &shard.table)
    }

    /// Builds a set from its tables; `None` if they are inconsistent. The caller must have verified their checksums.
    pub fn from_tables(tables: Vec<Table>) -> Option<Self> {
        if tables.len() != Self::SHARDS || !tables.iter().all(Table::is_consistent) {
            return None;
        }
        let len = tables.iter().map(|table| table.len as u64).sum();
        let shards = tables.into_iter().enumerate().map(|(number, table)| Shard::new(number, table)).collect();
        Some(Self { shards, len })
    }

    /// The number of shards.
    pub const SHARDS: usize = 1 << SHARD_BITS;

    /// All fingerprints in ascending order, as they are stored.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.shards.iter().flat_map(Shard::iter)
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.table.slots.capacity() + size_of::<Shard>()).sum()
    }
}

/// A fingerprint as it is stored: its last bytes are not all zero.
pub(crate) fn as_stored(fingerprint: u64) -> u64 {
    if fingerprint & mask(MIN_WIDTH) == GAP { fingerprint | 1 } else { fingerprint }
}

/// The index of the shard of a number.
fn shard_of(number: u64) -> usize {
    (number >> (64 - SHARD_BITS)) as usize
}

/// The bit mask of this many bytes.
fn mask(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width)
}

/// The maximum distance from home at which the stored bytes still identify the number.
fn reach(homes: usize, width: usize) -> usize {
    match (64 - SHARD_BITS as usize).checked_sub(8 * width) {
        // The stored bytes are unique among the numbers of `homes >> implied_bits` adjacent homes. The number in a slot
        // has one of `reach + 1` homes, and `number_of` rounds, so that one home less can be distinguished.
        Some(implied_bits) => (homes >> implied_bits).saturating_sub(2),
        // The whole number is stored.
        None => usize::MAX,
    }
}

impl Shard {
    fn new(number: usize, table: Table) -> Self {
        let first = (number as u64) << (64 - SHARD_BITS);
        Self { first, step: step(table.homes), table }
    }

    /// The number in a slot: [`GAP`] if it is empty, `None` after the last slot.
    #[inline]
    fn number_at(&self, slot: usize) -> Option<u64> {
        let low = self.table.stored_part(slot)?;
        Some(if low == GAP { GAP } else { self.number_of(low, slot) })
    }

    /// The number whose low bytes are `low`, in a slot.
    #[inline]
    fn number_of(&self, low: u64, slot: usize) -> u64 {
        // The home of a number is not after its slot, so no number in this slot is above `upper_bound`. The number is
        // the largest one up to `upper_bound` that ends with the stored bytes.
        let upper_bound = (slot as u64 + 1).saturating_mul(self.step).saturating_add(self.table.homes as u64 + 1);
        let upper_bound = self.first | (upper_bound >> SHARD_BITS);
        upper_bound.wrapping_sub(upper_bound.wrapping_sub(low) & mask(self.table.width))
    }

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..).map_while(|slot| self.number_at(slot)).filter(|number| *number != GAP)
    }

    /// `Ok(slot)` if the number is present, otherwise `Err(slot)` with the slot for its insertion.
    fn find(&self, number: u64) -> Result<usize, usize> {
        let mut slot = home(number, self.table.homes);
        while let Some(held) = self.number_at(slot) {
            if held == number {
                return Ok(slot);
            }
            if held == GAP || held > number {
                break;
            }
            slot += 1;
        }
        Err(slot)
    }

    /// Adds a number; returns whether it was new.
    fn insert(&mut self, number: u64) -> bool {
        let Err(mut slot) = self.find(number) else { return false };
        // Grow when 90 percent of the homes are taken, because runs get long then.
        let mut must_grow = self.table.len * 10 >= self.table.homes * 9;
        let mut run;
        loop {
            if must_grow {
                self.grow();
                slot = self.find(number).unwrap_or_else(|slot| slot);
            }
            run = self.table.run_at(slot);
            must_grow = !self.may_move(number, slot, run);
            if !must_grow {
                break;
            }
        }
        // The rest of the run moves up by one, into the gap after it.
        let width = self.table.width;
        if self.table.stored_part(slot + run).is_none() {
            self.table.slots.reserve_exact(SLACK * width);
            self.table.slots.resize(self.table.slots.len() + width, 0);
        }
        self.table.slots.copy_within(slot * width..(slot + run) * width, (slot + 1) * width);
        self.table.set(slot, number);
        self.table.len += 1;
        true
    }

    /// Whether a number can be inserted at a slot, with the run there moved up by one, so that all stay within reach of
    /// their homes.
    fn may_move(&self, number: u64, slot: usize, run: usize) -> bool {
        let Table { homes, width, .. } = self.table;
        let reach = reach(homes, width);
        let is_within_reach = |number: u64, slot: usize| slot - home(number, homes) <= reach;
        // The numbers that move have the same home as the new one or a later one. So if the end of the run is within
        // reach of the home of the new number, all of them stay within reach of theirs.
        is_within_reach(number, slot + run)
            || is_within_reach(number, slot)
                && (slot..slot + run)
                    .all(|from| self.number_at(from).is_some_and(|held| is_within_reach(held, from + 1)))
    }

    /// Grows by an eighth, with slots as narrow as possible: 80 to 90 percent of the homes are then taken.
    fn grow(&mut self) {
        let homes = (self.table.homes + self.table.homes / 8).max(self.table.homes + MIN_ADDED_HOMES);
        let narrower = (MIN_WIDTH..self.table.width).find(|width| reach(homes, *width) > MIN_REACH);
        match narrower.and_then(|narrower| self.narrowest(homes, narrower)) {
            None => self.spread(homes),
            Some(width) => self.rebuild(homes, width),
        }
        self.table.homes = homes;
        self.step = step(homes);
    }

    /// The smallest width of a slot that is enough for all numbers in a table with this many homes, from `min_width` to
    /// less than the current width.
    fn narrowest(&self, homes: usize, min_width: usize) -> Option<usize> {
        let (mut end, mut max_distance) = (0, 0);
        for number in self.iter() {
            let home = home(number, homes);
            max_distance = max_distance.max(end.max(home) - home);
            end = end.max(home) + 1;
        }
        (min_width..self.table.width).find(|width| reach(homes, *width) > max_distance)
    }

    /// Rearranges the slots for more homes.
    ///
    /// Works in place, to avoid a second table and heap fragmentation. The slots are moved to the end of the longer
    /// table. Then the numbers are read from there in order, and written to their new slots. A number moves up by at
    /// most the added homes and one more slot, since its home moves up by no more than that, and so do the homes of the
    /// numbers before it. So no unread slot is overwritten. A number's distance from its home grows by at most one,
    /// which is less than the growth of the reach.
    fn spread(&mut self, homes: usize) {
        let (width, old_slots) = (self.table.width, self.table.slot_count());
        // How far the slots are moved: the added homes, one more slot, and the start of the next slot, which `put`
        // clears.
        let ahead = homes - self.table.homes + 2;
        let length = (homes + SLACK).max(old_slots + ahead) * width + (MAX_WIDTH - width);
        self.table.slots.reserve_exact(length - self.table.slots.len());
        self.table.slots.resize(length, 0);
        self.table.slots.copy_within(..old_slots * width, ahead * width);
        self.table.slots[..ahead * width].fill(0);
        let mut block = [0; (BLOCK + 1) * MAX_WIDTH];
        let mut end = 0;
        for first in (0..old_slots).step_by(BLOCK) {
            let count = BLOCK.min(old_slots - first);
            let unread = &mut self.table.slots[(first + ahead) * width..][..count * width];
            block[..unread.len()].copy_from_slice(unread);
            unread.fill(0);
            // Without branches that depend on the numbers, which would be mispredicted.
            for old in first..first + count {
                let low = read(&block, (old - first) * width) & mask(width);
                let is_number = low != GAP;
                let home = home(self.number_of(low, old), homes);
                let slot = if is_number { end.max(home) } else { end };
                self.table.put(slot, low);
                end = slot + usize::from(is_number);
            }
        }
        self.table.slots.truncate((homes + SLACK).max(end) * width + (MAX_WIDTH - width));
    }

    /// Replaces the table by one with this many homes and narrower slots, which is very rare.
    fn rebuild(&mut self, homes: usize, width: usize) {
        let numbers: Vec<u64> = self.iter().collect();
        let mut end = 0;
        let slots = numbers.iter().map(|number| {
            end = home(*number, homes).max(end) + 1;
            end - 1
        });
        let slots: Vec<usize> = slots.collect();
        self.table.width = width;
        self.table.slots.clear();
        self.table.slots.resize((homes + SLACK).max(end) * width + (MAX_WIDTH - width), 0);
        slots.into_iter().zip(numbers).for_each(|(slot, number)| self.table.set(slot, number));
    }
}

/// The eight bytes at an offset of a block.
fn read(block: &[u8; (BLOCK + 1) * MAX_WIDTH], offset: usize) -> u64 {
    block.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// See [`Shard::step`].
fn step(homes: usize) -> u64 {
    u64::MAX / homes.max(1) as u64
}

/// The home of a number: its value scaled to the number of homes.
fn home(number: u64, homes: usize) -> usize {
    let without_shard = number << SHARD_BITS;
    ((u128::from(without_shard) * homes as u128) >> 64) as usize
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
        let (mut set, mut expected) = (SeenSet::default(), HashSet::new());
        // 120,000 insertions of 40,000 different numbers, so both new and known numbers are inserted.
        let numbers: Vec<u64> = hashes(1).take(40_000).collect();
        for pick in hashes(2).take(120_000) {
            let number = numbers[(pick % 40_000) as usize];
            assert_eq!(set.insert(number), expected.insert(number));
        }
        assert_eq!(set.len(), expected.len() as u64);
        assert!(numbers.iter().all(|number| set.contains(*number) == expected.contains(number)));
        assert!(hashes(3).take(10_000).all(|number| set.contains(number) == expected.contains(&number)));
        let mut sorted: Vec<u64> = expected.into_iter().collect();
        sorted.sort_unstable();
        assert_eq!(set.iter().collect::<Vec<_>>(), sorted);
    }

    #[test]
    fn stores_the_smallest_and_largest_numbers() {
        let mut set = SeenSet::default();
        for number in [0, u64::MAX, 2, u64::MAX - 1, 1 << 56, (1 << 56) - 1] {
            assert!(!set.contains(number) && set.insert(number) && !set.insert(number) && set.contains(number));
        }
    }

    #[test]
    fn stores_many_numbers_with_one_home() {
        let mut set = SeenSet::default();
        let ends: Vec<u64> = (0..5_000).map(|i| u64::MAX - i).chain((1..=5_000).map(|i| (7 << 40) + i)).collect();
        assert!(ends.iter().all(|number| set.insert(*number)));
        assert!(ends.iter().all(|number| set.contains(*number) && !set.insert(*number)));
        assert_eq!(set.len(), 10_000);
        // With many other numbers, slots are narrow.
        assert_eq!(hashes(5).take(500_000).filter(|number| set.insert(*number)).count(), 500_000);
        let more: Vec<u64> = (1..=5_000).map(|i| (9 << 50) + i).collect();
        assert!(more.iter().all(|number| set.insert(*number)));
        assert!(ends.iter().chain(&more).all(|number| set.contains(*number) && !set.insert(*number)));
        assert!(set.iter().is_sorted() && set.iter().count() == 515_000);
    }

    #[test]
    fn a_number_takes_seven_to_nine_bytes_and_is_restored_completely() {
        let mut set = SeenSet::default();
        for (held, number) in hashes(4).take(1_000_000).enumerate() {
            set.insert(number);
            if held > 200_000 && held % 1_000 == 0 {
                let each = set.bytes() as f64 / set.len() as f64;
                assert!((7.5..9.2).contains(&each), "{each} bytes each at {held}");
            }
        }
        let mut sorted: Vec<u64> = hashes(4).take(1_000_000).collect();
        sorted.sort_unstable();
        assert!(set.iter().eq(sorted));
    }

    #[test]
    fn inconsistent_tables_are_refused() {
        let mut set = SeenSet::default();
        assert_eq!(hashes(7).take(10_000).filter(|number| set.insert(*number)).count(), 10_000);
        let tables: Vec<Table> = set.tables().cloned().collect();
        assert!(SeenSet::from_tables(tables.clone()).is_some_and(|copy| copy.iter().eq(set.iter())));
        let damages: [fn(&mut Table); 4] = [
            |table| table.width = 9,
            |table| table.homes = usize::MAX,
            |table| table.slots.truncate(100),
            |table| table.len = 1 << 40,
        ];
        for damage in damages {
            let mut tables = tables.clone();
            damage(&mut tables[3]);
            assert!(SeenSet::from_tables(tables).is_none());
        }
        assert!(SeenSet::from_tables(tables[1..].to_vec()).is_none());
    }

    /// Shards as they are in sets too large for a test: numbers of one shard only.
    #[test]
    fn numbers_are_restored_completely_from_slots_of_six_bytes() {
        let numbers = || hashes(6).take(400_000).map(|number| number >> SHARD_BITS);
        let mut set = SeenSet::default();
        assert_eq!(numbers().filter(|number| set.insert(*number)).count(), 400_000);
        assert_eq!(set.tables().next().map(|table| table.width), Some(6));
        assert!(numbers().all(|number| set.contains(number) && !set.insert(number)));
        assert!(numbers().all(|number| !set.contains(number ^ (1 << 59)) && !set.contains(number ^ (1 << 48))));
        let mut sorted: Vec<u64> = numbers().collect();
        sorted.sort_unstable();
        assert!(set.iter().eq(sorted.iter().copied()));
        let copy = SeenSet::from_tables(set.tables().cloned().collect()).expect("its own tables");
        assert!(copy.len() == 400_000 && copy.iter().eq(sorted));
    }
}
