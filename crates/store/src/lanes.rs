//! [`LaneNames`]: maps host names to numbers and back, with about 30 bytes per host.
//!
//! Invariant: numbers are assigned from zero without gaps, and never change.

use argiope_core::{LaneId, StoreError, StoreErrorKind};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Host names, numbered in order of arrival.
#[derive(Default)]
pub(crate) struct LaneNames {
    /// All names, concatenated.
    text: String,
    /// The end offset of each name.
    ends: Vec<u32>,
    by_name: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl LaneNames {
    pub fn name(&self, lane: LaneId) -> Option<&str> {
        name_at(&self.text, &self.ends, lane.index())
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * 4 + self.by_name.capacity() * 5
    }

    /// All names, concatenated, and the end offset of each: the input of [`LaneNames::from_parts`].
    pub fn parts(&self) -> (&str, &[u32]) {
        (&self.text, &self.ends)
    }

    pub fn from_parts(text: String, ends: Vec<u32>) -> Self {
        let mut names = Self { text, ends, ..Self::default() };
        let Self { text, ends, by_name, hasher } = &mut names;
        let hash = |lane: &u32| hasher.hash_one(name_at(text, ends, *lane as usize).unwrap_or(""));
        by_name.reserve(ends.len(), hash);
        for lane in (0..).take(ends.len()) {
            by_name.insert_unique(hash(&lane), lane, hash);
        }
        names
    }

    pub fn find(&self, name: &str) -> Option<LaneId> {
        let hash = self.hasher.hash_one(name);
        let same = |lane: &u32| name_at(&self.text, &self.ends, *lane as usize) == Some(name);
        self.by_name.find(hash, same).map(|lane| LaneId(*lane))
    }

    /// Returns the number of a name, and whether it is new.
    pub fn intern(&mut self, name: &str) -> Result<(LaneId, bool), StoreError> {
        if let Some(lane) = self.find(name) {
            return Ok((lane, false));
        }
        let full = |_| StoreError::new(StoreErrorKind::Full, "more host names than one crawl can number");
        let number = u32::try_from(self.ends.len()).map_err(full)?;
        let end = u32::try_from(self.text.len() + name.len()).map_err(full)?;
        self.text.push_str(name);
        self.ends.push(end);
        let Self { text, ends, by_name, hasher } = self;
        let rehash = |lane: &u32| hasher.hash_one(name_at(text, ends, *lane as usize).unwrap_or(""));
        by_name.insert_unique(hasher.hash_one(name), number, rehash);
        Ok((LaneId(number), true))
    }
}

fn name_at<'a>(text: &'a str, ends: &[u32], index: usize) -> Option<&'a str> {
    let end = *ends.get(index)?;
    let start = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    text.get(start as usize..end as usize)
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
}
