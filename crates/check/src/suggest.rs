//! Suggestions for broken links: what the author probably meant.

use std::collections::HashMap;

use strsim::damerau_levenshtein;

/// Maximum number of findings that get a suggestion. If a check has more faults, they are probably not misspellings.
pub(crate) const MAX_SUGGESTED: usize = 500;
/// Maximum number of candidates compared by edit distance; more would take too long.
const MAX_COMPARED: usize = 20_000;
/// Words of more bytes are compared only for equality except for case.
const MAX_WORD: usize = 256;
/// Maximum steps of all comparisons of a check. A step is one byte of a candidate, or one cell of an edit distance.
const MAX_STEPS: u64 = 20_000_000;
/// Maximum bytes of a character in UTF-8.
const MAX_CHARACTER_BYTES: usize = 4;

/// Finds the candidate that is most similar to a word. The work of all calls together is limited.
pub(crate) struct Suggester {
    steps_left: u64,
}

/// The existing paths, by folder and by file name.
pub(crate) struct PathIndex<'a> {
    by_folder: HashMap<&'a str, Vec<&'a str>>,
    by_name: HashMap<&'a str, Vec<&'a str>>,
}

impl Suggester {
    pub fn new() -> Self {
        Self { steps_left: MAX_STEPS }
    }

    /// Charges the steps of a comparison. Returns whether they are within the limit.
    fn charge(&mut self, steps: usize) -> bool {
        let left = self.steps_left.checked_sub(steps as u64);
        self.steps_left = left.unwrap_or(0);
        left.is_some()
    }

    /// The candidate that is most similar to `word`: equal except for case, or with a few different letters.
    pub fn similar<'a>(&mut self, word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let length = word.chars().count();
        // One letter in four may differ, up to four letters. In words of less than four letters, only the case may differ.
        let max_distance = if length < 4 { 0 } else { (length / 4).clamp(1, 4) };
        let lower = word.to_lowercase();
        let mut best: Option<(usize, &str)> = None;
        for candidate in candidates.take(MAX_COMPARED) {
            if !self.charge(1) {
                break;
            }
            if candidate.eq_ignore_ascii_case(word) {
                return Some(candidate);
            }
            let has_similar_length = candidate.len().abs_diff(word.len()) <= MAX_CHARACTER_BYTES * max_distance;
            if max_distance == 0 || word.len() > MAX_WORD || !has_similar_length || !self.charge(candidate.len()) {
                continue;
            }
            let distance = self.distance(&lower, &candidate.to_lowercase(), max_distance);
            if let Some(distance) = distance
                && best.is_none_or(|(best_distance, _)| distance < best_distance)
            {
                best = Some((distance, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// The edit distance of two words, if it is at most `max`.
    fn distance(&mut self, a: &str, b: &str, max: usize) -> Option<usize> {
        if byte_difference(a, b) > MAX_CHARACTER_BYTES * max || !self.charge(a.len() * b.len()) {
            return None;
        }
        Some(damerau_levenshtein(a, b)).filter(|distance| *distance <= max)
    }

    /// The existing path that a missing path probably means. In this order: a similar name in the same folder, the same
    /// name with another extension there, the only file of the same name in another folder, or the same name in a folder
    /// with a similar path.
    pub fn similar_path<'a>(&mut self, missing: &str, index: &PathIndex<'a>) -> Option<&'a str> {
        let missing = missing.trim_end_matches('/');
        let (folder, name) = missing.rsplit_once('/')?;
        let siblings = index.by_folder.get(folder).map_or(&[][..], Vec::as_slice).iter().take(MAX_COMPARED);
        if !self.charge(siblings.len()) {
            return None;
        }
        let (stem, extension) = split_name(name);
        let parts = siblings.map(|path| (*path, split_name(name_of(path))));
        let same_extension = parts.clone().filter(|(_, (_, other))| other.eq_ignore_ascii_case(extension));
        let misspelled = self.similar(stem, same_extension.map(|(_, (other, _))| other));
        // Otherwise the same name with another extension: `page.md` for `page.html`.
        let wanted = misspelled.unwrap_or(stem);
        let sibling = parts.clone().find(|(_, (other, _))| *other == wanted);
        if let Some((path, _)) = sibling {
            return Some(path);
        }
        let same_name = index.by_name.get(name).map_or(&[][..], Vec::as_slice);
        // Many folders have an index page, so the only one in another folder is not a likely replacement.
        if let [only] = same_name
            && !matches!(name, "index.html" | "README.md" | "index.md")
        {
            return Some(only);
        }
        // The folder may be misspelled. Only files of the same name are compared: `similar` accepts several different
        // letters in a long path, so it would also accept unrelated files.
        self.similar(missing, same_name.iter().copied())
    }
}

impl<'a> PathIndex<'a> {
    pub fn new(paths: impl Iterator<Item = &'a str>) -> Self {
        let mut index = Self { by_folder: HashMap::new(), by_name: HashMap::new() };
        for path in paths {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            index.by_folder.entry(folder).or_default().push(path);
            index.by_name.entry(name).or_default().push(path);
        }
        index
    }
}

/// How many bytes of one word are missing in the other, at least. Each different letter changes at most four bytes, so a
/// large number excludes a small edit distance.
fn byte_difference(a: &str, b: &str) -> usize {
    let mut counts = [0_i32; 256];
    a.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    b.bytes().for_each(|byte| counts[usize::from(byte)] -= 1);
    let sum = |sign: i32| counts.iter().map(|count| (count * sign).max(0).unsigned_abs() as usize).sum::<usize>();
    sum(1).max(sum(-1))
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The part of a file name before its extension, and the extension.
fn split_name(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similar<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        Suggester::new().similar(word, candidates)
    }

    fn similar_path<'a>(missing: &str, paths: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        Suggester::new().similar_path(missing, &PathIndex::new(paths))
    }

    #[test]
    fn a_misspelled_word_gets_the_similar_candidate() {
        let ids = ["installation", "usage", "license"];
        assert_eq!(similar("instalation", ids.into_iter()), Some("installation"));
        assert_eq!(similar("Usage", ids.into_iter()), Some("usage"));
        assert_eq!(similar("contact", ids.into_iter()), None);
    }

    #[test]
    fn a_missing_path_gets_the_moved_or_misspelled_file() {
        let paths = ["/s/guide/start.html", "/s/about.html", "/s/a/index.html", "/s/b/index.html", "/s/notes.md"];
        let suggest = |missing: &str| similar_path(missing, paths.into_iter());
        assert_eq!(suggest("/s/abuot.html"), Some("/s/about.html"));
        assert_eq!(suggest("/s/start.html"), Some("/s/guide/start.html"));
        assert_eq!(suggest("/s/guide/strat.html"), Some("/s/guide/start.html"));
        assert_eq!(suggest("/s/giude/start.html"), Some("/s/guide/start.html"));
        assert_eq!(suggest("/s/notes.html"), Some("/s/notes.md"));
        assert_eq!(suggest("/s/x.html"), None);
        assert_eq!(similar_path("/a/long/folder/name/other.md", ["/a/long/folder/name/r.md"].into_iter()), None);
        let (right, wrong) = ("/guide/a/index.html", "/other/a/index.html");
        assert_eq!(similar_path("/giude/a/index.html", [right, wrong].into_iter()), Some(right));
        assert_eq!(suggest("/s/nothing-like-it.html"), None);
    }

    #[test]
    fn long_words_and_many_candidates_are_not_compared_by_edit_distance() {
        let long: Vec<String> = (0..20).map(|number| format!("{number:02}{}", "ab".repeat(15_000))).collect();
        let mut suggester = Suggester::new();
        assert_eq!(suggester.similar(&"ab".repeat(15_001), long.iter().map(String::as_str)), None);
        assert!(MAX_STEPS - suggester.steps_left < 100, "{}", suggester.steps_left);
        // Anagrams, which differ in too many letters, although they have the same bytes.
        let anagrams: Vec<String> = (1..200).map(|at| format!("{}{}", "a".repeat(at), "b".repeat(200 - at))).collect();
        let word = "ab".repeat(100);
        for _ in 0..20 {
            assert_eq!(suggester.similar(&word, anagrams.iter().map(String::as_str)), None);
        }
        assert_eq!(suggester.steps_left, 0, "the steps of all calls together are limited");
    }
}
