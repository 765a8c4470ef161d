//! Counts the cases of a vector file: passed, intended deviations, failures.

use std::fmt::Debug;

/// Intended deviations: a reason, and the names of the cases.
pub type Deviations = &'static [(&'static str, &'static [&'static str])];

/// The results of one vector file.
pub struct Tally {
    pub file: &'static str,
    pub total: usize,
    pub passed: usize,
    pub deviations: Deviations,
    /// Listed deviations that occurred.
    seen_deviations: Vec<String>,
    failures: Vec<String>,
}

impl Tally {
    pub fn new(file: &'static str, deviations: Deviations) -> Self {
        Self { file, total: 0, passed: 0, deviations, seen_deviations: Vec::new(), failures: Vec::new() }
    }

    /// Counts one case. Deviations must be listed, and listed cases must deviate.
    pub fn case<T: PartialEq + Debug>(&mut self, id: &str, got: T, expected: T) {
        self.total += 1;
        let is_listed = self.deviations.iter().any(|(_, ids)| ids.contains(&id));
        match (got == expected, is_listed) {
            (true, false) => self.passed += 1,
            (false, true) => self.seen_deviations.push(id.to_owned()),
            (true, true) => self.failures.push(format!("{id}: listed as a deviation, but passes")),
            (false, false) => self.failures.push(format!("{id}: got {got:?}, expected {expected:?}")),
        }
    }

    /// Ends the file: asserts that no case failed and that every listed deviation occurred.
    pub fn finish(self, total: usize) -> Self {
        assert!(
            self.failures.is_empty(),
            "{} failures in {}:\n{}",
            self.failures.len(),
            self.file,
            self.failures.join("\n")
        );
        assert_eq!(self.total, total, "cases in {}", self.file);
        for id in self.deviations.iter().flat_map(|(_, ids)| *ids) {
            assert!(
                self.seen_deviations.iter().any(|seen| seen == id),
                "{id} is listed as a deviation, but is not a case"
            );
        }
        self
    }
}
