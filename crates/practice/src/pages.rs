//! The set of requested pages, as a count and a digest, so that two crawlers can be compared without lists.
//!
//! A page counts once it was served with status 200. The digest does not depend on the order and is the same for the same
//! set in every process.
//!
//! Invariant: equal digests and equal counts mean equal sets, except with a probability of 2⁻⁶⁴.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// The set of pages seen so far.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    known: HashSet<u64, BuildHasherDefault<AsIs>>,
    digest: u64,
}

impl Pages {
    pub(crate) fn add(&mut self, host: &str, target: &str) {
        // A hasher with fixed keys: the digest is compared between processes.
        let mut hasher = DefaultHasher::new();
        (host, target).hash(&mut hasher);
        let page = hasher.finish();
        if self.known.insert(page) {
            self.digest ^= page;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.known.len() as u64
    }

    pub(crate) fn digest(&self) -> String {
        format!("{:016x}", self.digest)
    }
}

/// The keys are already hashes.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pages: &[(&str, &str)]) -> (u64, String) {
        let mut set = Pages::default();
        pages.iter().for_each(|(host, target)| set.add(host, target));
        (set.count(), set.digest())
    }

    #[test]
    fn order_and_repetition_do_not_count() {
        let once = of(&[("a", "/"), ("a", "/p1"), ("b", "/")]);
        assert_eq!(once, of(&[("b", "/"), ("a", "/p1"), ("b", "/"), ("a", "/")]));
        assert_eq!(once.0, 3);
    }

    #[test]
    fn another_set_has_another_digest() {
        assert_ne!(of(&[("a", "/b")]).1, of(&[("a/", "b")]).1);
        assert_ne!(of(&[("a", "/")]).1, of(&[("b", "/")]).1);
        assert_eq!(of(&[]), (0, "0000000000000000".to_owned()));
    }
}
