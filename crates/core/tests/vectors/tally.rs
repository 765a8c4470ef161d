//! Counts cases: passed, intended deviations, failures.

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
    seen: Vec<String>,
    wrong: Vec<String>,
}

impl Tally {
    pub fn new(file: &'static str, deviations: Deviations) -> Self {
        Self { file, total: 0, passed: 0, deviations, seen: Vec::new(), wrong: Vec::new() }
    }

    /// Counts one case. Deviations must be listed, and listed cases must deviate.
    pub fn case<T: PartialEq + Debug>(&mut self, id: &str, got: T, expected: T) {
        self.total += 1;
        let listed = self.deviations.iter().any(|(_, ids)| ids.contains(&id));
        match (got == expected, listed) {
            (true, false) => self.passed += 1,
            (false, true) => self.seen.push(id.to_owned()),
            (true, true) => self.wrong.push(format!("{id}: listed as a deviation, but passes")),
            (false, false) => self.wrong.push(format!("{id}: got {got:?}, expected {expected:?}")),
        }
    }

    /// Ends the file: asserts that no case failed and that every listed deviation was seen.
    pub fn finish(self, total: usize) -> Self {
        assert!(self.wrong.is_empty(), "{} wrong in {}:\n{}", self.wrong.len(), self.file, self.wrong.join("\n"));
        assert_eq!(self.total, total, "cases in {}", self.file);
        for id in self.deviations.iter().flat_map(|(_, ids)| *ids) {
            assert!(self.seen.iter().any(|seen| seen == id), "{id} is listed as a deviation, but is not a case");
        }
        self
    }
}
