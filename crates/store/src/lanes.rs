//! [`LaneNames`]: maps host names to numbers and back, with about 30 bytes per host.
//!
//! Invariant: numbers are assigned from zero without gaps, and never change.

use argiope_core::{LaneId, StoreError, StoreErrorKind};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::ops::Range;

/// Host names, numbered in order of arrival.
#[derive(Default)]
pub struct LaneNames {
    /// All names, concatenated.
    text: String,
    offsets: NameOffsets,
    /// The numbers of the names, by the hash of the name.
    by_name: HashTable<u32>,
    /// The lane that was looked up last. The links of a page are mostly to one host.
    latest: u32,
    hasher: DefaultHashBuilder,
}

impl LaneNames {
    pub fn name(&self, lane: LaneId) -> Option<&str> {
        name_at(&self.text, &self.offsets, lane.index())
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.ends.len()
    }

    /// Approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        // An entry of `by_name` takes four bytes, and one byte of metadata.
        self.text.capacity() + self.offsets.bytes() + self.by_name.capacity() * 5
    }

    /// All names, concatenated, and the end offset of each modulo 2^32: the input of [`LaneNames::from_parts`].
    pub fn parts(&self) -> (&str, &[u32]) {
        (&self.text, &self.offsets.ends)
    }

    /// Restores the names from [`LaneNames::parts`].
    pub fn from_parts(text: String, ends: Vec<u32>) -> Self {
        let mut names = Self { text, offsets: NameOffsets::from_ends(ends), ..Self::default() };
        let Self { text, offsets, by_name, hasher, .. } = &mut names;
        let hash = |lane: &u32| hasher.hash_one(name_at(text, offsets, *lane as usize).unwrap_or(""));
        by_name.reserve(offsets.ends.len(), hash);
        for lane in (0..).take(offsets.ends.len()) {
            by_name.insert_unique(hash(&lane), lane, hash);
        }
        names
    }

    /// The number of a name, if it has one.
    pub fn find(&self, name: &str) -> Option<LaneId> {
        let hash = self.hasher.hash_one(name);
        let has_name = |lane: &u32| name_at(&self.text, &self.offsets, *lane as usize) == Some(name);
        self.by_name.find(hash, has_name).map(|lane| LaneId(*lane))
    }

    /// Returns the number of a name, and whether it is new.
    pub fn intern(&mut self, name: &str) -> Result<(LaneId, bool), StoreError> {
        let latest = LaneId(self.latest);
        if self.name(latest) == Some(name) {
            return Ok((latest, false));
        }
        if let Some(lane) = self.find(name) {
            self.latest = lane.0;
            return Ok((lane, false));
        }
        let full = |_| StoreError::new(StoreErrorKind::Full, "more host names than one crawl can number");
        let number = u32::try_from(self.len()).map_err(full)?;
        self.text.push_str(name);
        self.offsets.push(self.text.len() as u64);
        self.latest = number;
        let Self { text, offsets, by_name, hasher, .. } = self;
        let rehash = |lane: &u32| hasher.hash_one(name_at(text, offsets, *lane as usize).unwrap_or(""));
        by_name.insert_unique(hasher.hash_one(name), number, rehash);
        Ok((LaneId(number), true))
    }
}

/// Where each name is in the text. An end offset takes four bytes, although the text may be longer than 4 GiB.
#[derive(Default)]
struct NameOffsets {
    /// The end offset of each name, modulo 2^32.
    ends: Vec<u32>,
    /// The start offset of the first name of each group of [`GROUP`] names.
    starts: Vec<u64>,
}

/// Names per group. The names of a group take less than 2^32 bytes together, so an end offset is unique in its group.
const GROUP: usize = 4_096;

impl NameOffsets {
    /// The offsets of names with these ends, modulo 2^32.
    fn from_ends(ends: Vec<u32>) -> Self {
        let (mut starts, mut end) = (Vec::with_capacity(ends.len() / GROUP + 1), 0);
        for (index, low) in ends.iter().enumerate() {
            if index % GROUP == 0 {
                starts.push(end);
            }
            end = full_offset(end, *low);
        }
        Self { ends, starts }
    }

    /// Adds a name that ends at this offset.
    fn push(&mut self, end: u64) {
        if self.ends.len().is_multiple_of(GROUP) {
            self.starts.push(self.ends.len().checked_sub(1).and_then(|last| self.end(last)).unwrap_or(0));
        }
        // The high half is in `starts`.
        self.ends.push(end as u32);
    }

    /// The end offset of a name.
    fn end(&self, index: usize) -> Option<u64> {
        Some(full_offset(*self.starts.get(index / GROUP)?, *self.ends.get(index)?))
    }

    /// The offsets of a name.
    fn range(&self, index: usize) -> Option<Range<usize>> {
        let start = if index.is_multiple_of(GROUP) { *self.starts.get(index / GROUP)? } else { self.end(index - 1)? };
        Some(usize::try_from(start).ok()?..usize::try_from(self.end(index)?).ok()?)
    }

    /// Memory use in bytes.
    fn bytes(&self) -> usize {
        self.ends.capacity() * 4 + self.starts.capacity() * 8
    }
}

/// The first offset at or after `start` whose low half is `low`.
fn full_offset(start: u64, low: u32) -> u64 {
    start + u64::from(low.wrapping_sub(start as u32))
}

fn name_at<'a>(text: &'a str, offsets: &NameOffsets, index: usize) -> Option<&'a str> {
    text.get(offsets.range(index)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_mapped_both_ways() {
        let mut lanes = LaneNames::default();
        for number in 0..5_000 {
            let name = format!("host-{number}.example");
            assert_eq!(lanes.intern(&name), Ok((LaneId(number), true)));
            assert_eq!(lanes.intern(&name), Ok((LaneId(number), false)));
        }
        assert_eq!(lanes.intern(""), Ok((LaneId(5_000), true)));
        assert_eq!(lanes.name(LaneId(4_321)), Some("host-4321.example"));
        assert_eq!(lanes.find("host-17.example"), Some(LaneId(17)));
        let (text, ends) = lanes.parts();
        let copy = LaneNames::from_parts(text.to_owned(), ends.to_vec());
        assert_eq!(
            (copy.find("host-17.example"), copy.find(""), copy.len()),
            (Some(LaneId(17)), Some(LaneId(5_000)), 5_001)
        );
        assert_eq!((lanes.find("absent"), lanes.name(LaneId(5_001))), (None, None));
    }

    #[test]
    fn offsets_beyond_four_gibibytes_are_kept() {
        // Longer than host names can be, so that few are needed.
        const LENGTH: usize = 1_000_000;
        let count = 9_500;
        let mut offsets = NameOffsets::default();
        for number in 1..=count {
            offsets.push((number * LENGTH) as u64);
        }
        let copy = NameOffsets::from_ends(offsets.ends.clone());
        for index in (0..count).step_by(97).chain([GROUP - 1, GROUP, count - 1]) {
            let expected = index * LENGTH..(index + 1) * LENGTH;
            assert_eq!((offsets.range(index), copy.range(index)), (Some(expected.clone()), Some(expected)));
        }
        assert_eq!(offsets.range(count), None);
    }
}
