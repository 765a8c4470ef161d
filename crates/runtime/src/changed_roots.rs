//! The roots of an existing crawl, with roots added or removed.
//!
//! A removed root changes the scope: its host may no longer be in it. The page itself stays a page of the crawl.

use std::path::Path;

use argiope_core::Url;
use argiope_store::disk;

/// Between the URLs that a root without a scheme stands for, in the settings of a directory.
pub(crate) const OR: &str = " or ";

/// The roots after a change.
#[derive(Debug, PartialEq, Eq)]
pub struct ChangedRoots {
    /// As the user wrote them.
    pub roots: Vec<String>,
    /// Roots that were to be removed and are none.
    pub unknown: Vec<String>,
}

/// The roots of the crawl in a directory with these changes; `None` if it has no crawl.
pub fn changed_roots(directory: &Path, added: &[String], removed: &[String]) -> Option<ChangedRoots> {
    let stored = disk::settings_of(directory)?.get("roots").cloned().unwrap_or_default();
    let mut known: Vec<bool> = vec![false; removed.len()];
    let mut roots: Vec<String> = Vec::new();
    for root in &stored {
        let urls: Vec<&str> = root.split(OR).collect();
        let mut is_removed = false;
        for (removed, known) in removed.iter().zip(&mut known) {
            if normal_forms(removed).iter().any(|url| urls.contains(&url.as_str())) {
                (is_removed, *known) = (true, true);
            }
        }
        if !is_removed {
            roots.push(as_written(root).to_owned());
        }
    }
    roots.extend(added.iter().cloned());
    let unknown = removed.iter().zip(known).filter(|(_, known)| !known).map(|(root, _)| root.clone()).collect();
    Some(ChangedRoots { roots, unknown })
}

/// A root of the settings of a directory as a user writes it: without a scheme if it stands for two URLs.
pub(crate) fn as_written(stored: &str) -> &str {
    let first = stored.split_once(OR).map(|(first, _)| first);
    first.map_or(stored, |first| first.strip_prefix("https://").unwrap_or(first))
}

/// The URLs that a root stands for.
fn normal_forms(root: &str) -> Vec<Url> {
    let texts = if root.contains("://") {
        vec![root.to_owned()]
    } else {
        ["https://", "http://"].map(|s| format!("{s}{root}")).into()
    };
    texts.iter().filter_map(|text| Url::parse(text).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_root_is_as_the_user_wrote_it() {
        assert_eq!(as_written("https://h.example/ or http://h.example/"), "h.example/");
        assert_eq!(as_written("http://h.example/a"), "http://h.example/a");
    }

    #[test]
    fn a_root_without_a_scheme_stands_for_two_urls() {
        let forms: Vec<String> = normal_forms("H.example").iter().map(|url| url.as_str().to_owned()).collect();
        assert_eq!(forms, ["https://h.example/", "http://h.example/"]);
        assert_eq!(normal_forms("http://H.example").len(), 1);
    }

    #[test]
    fn a_folder_without_a_crawl_has_no_roots() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(changed_roots(folder.path(), &["a.example".into()], &[]), None);
    }
}
