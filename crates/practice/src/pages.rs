//! The set of requested pages, as a count and a digest. With these, the page sets of two crawlers can be compared.
//!
//! A page counts if a GET request for it gets the status 200. The digest does not depend on the order, and is
//! the same for the same set in every process.
//!
//! Invariant: equal digests and equal counts mean equal sets, except with a probability of 2⁻⁶⁴.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// The set of pages seen so far.
#[derive(Debug, Default)]
pub(crate) struct PageSet {
    known: HashSet<u64, BuildHasherDefault<IdentityHasher>>,
    digest: u64,
}

impl PageSet {
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

/// A hasher that returns its input, because the keys are already hashes.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
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

    fn count_and_digest(pages: &[(&str, &str)]) -> (u64, String) {
        let mut set = PageSet::default();
        pages.iter().for_each(|(host, target)| set.add(host, target));
        (set.count(), set.digest())
    }

    #[test]
    fn order_and_repetition_do_not_change_the_digest() {
        let once = count_and_digest(&[("a", "/"), ("a", "/p1"), ("b", "/")]);
        assert_eq!(once, count_and_digest(&[("b", "/"), ("a", "/p1"), ("b", "/"), ("a", "/")]));
        assert_eq!(once.0, 3);
    }

    #[test]
    fn different_sets_have_different_digests() {
        assert_ne!(count_and_digest(&[("a", "/b")]).1, count_and_digest(&[("a/", "b")]).1);
        assert_ne!(count_and_digest(&[("a", "/")]).1, count_and_digest(&[("b", "/")]).1);
        assert_eq!(count_and_digest(&[]), (0, "0000000000000000".to_owned()));
    }
}
