//! Suggestions for broken links: what the author probably meant.

use strsim::damerau_levenshtein;

/// Maximum number of candidates compared by edit distance; more would take too long.
const MAX_COMPARED: usize = 20_000;

/// The candidate that is most similar to `word`: equal except for case, or with a few different letters.
pub(crate) fn similar<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // One letter in four may differ, up to four letters. In words of less than four letters, only the case may differ.
    let max_distance = if length < 4 { 0 } else { (length / 4).clamp(1, 4) };
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates.take(MAX_COMPARED) {
        if candidate.eq_ignore_ascii_case(word) {
            return Some(candidate);
        }
        if candidate.chars().count().abs_diff(length) > max_distance {
            continue;
        }
        let distance = damerau_levenshtein(&candidate.to_lowercase(), &word.to_lowercase());
        if distance <= max_distance && best.is_none_or(|(best_distance, _)| distance < best_distance) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The existing path that a missing path probably means. In this order: a similar name in the same folder, the same name
/// with another extension there, the only file of the same name in another folder, or the same name in a folder with a
/// similar path.
pub(crate) fn similar_path<'a>(missing: &str, paths: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let missing = missing.trim_end_matches('/');
    let (folder, name) = missing.rsplit_once('/')?;
    let siblings = paths.clone().filter_map(|path| {
        let (other_folder, other_name) = path.rsplit_once('/')?;
        (other_folder == folder).then_some(other_name)
    });
    let (stem, extension) = split_name(name);
    let same_extension = siblings.clone().filter(|other| split_name(other).1.eq_ignore_ascii_case(extension));
    let misspelled = similar(stem, same_extension.map(|other| split_name(other).0));
    let sibling = misspelled
        .and_then(|found| siblings.clone().find(|other| split_name(other).0 == found))
        // The same name with another extension: `page.md` for `page.html`.
        .or_else(|| siblings.clone().find(|other| split_name(other).0 == stem));
    if let Some(sibling) = sibling {
        return paths.clone().find(|path| {
            path.rsplit_once('/')
                .is_some_and(|(other_folder, other_name)| other_folder == folder && other_name == sibling)
        });
    }
    let mut same_name = paths.clone().filter(|path| path.rsplit('/').next().is_some_and(|other| other == name));
    let only = same_name.next();
    // Many folders have an index page, so the only one in another folder is not a likely replacement.
    if only.is_some() && same_name.next().is_none() && !matches!(name, "index.html" | "README.md" | "index.md") {
        return only;
    }
    // The folder may be misspelled. Only files of the same name are compared: `similar` accepts several different letters
    // in a long path, so it would also accept unrelated files.
    similar(missing, paths.filter(|path| path.rsplit('/').next() == Some(name)))
}

/// The part of a file name before its extension, and the extension.
fn split_name(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
