//! [`ChangeList`]: what changed since the previous round of a crawl (`--recrawl`).

use std::collections::BTreeSet;

use argiope_core::crawl::schedule::keeper::{Change, ChangeNote, Changes, Comparison};

use crate::diff::Diff;
use crate::records::ReadError;
use crate::results::Results;

/// How many URLs are listed for each kind of change.
const MAX_LISTED: usize = 10;
/// How many newly broken links are kept. Reports list [`MAX_LISTED`] of them; `--fail-on new-broken` lists all that are kept.
const MAX_NEWLY_BROKEN: usize = 1_000;

/// The counts of changes, and the alphabetically first URLs of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeList {
    /// The counts of the whole round.
    pub counts: Changes,
    new: BTreeSet<Box<str>>,
    changed: BTreeSet<Box<str>>,
    gone: BTreeSet<Box<str>>,
    newly_broken: BTreeSet<Box<str>>,
    repaired: BTreeSet<Box<str>>,
    redirected: BTreeSet<Box<str>>,
}

/// One kind of change: its name, its count, and its first URLs.
pub struct ChangeKind<'a> {
    pub name: &'static str,
    pub count: u64,
    pub urls: Vec<&'a str>,
}

impl ChangeList {
    /// Compares the last two rounds of a crawl; `None` if there is only one round.
    pub fn of(results: &Results) -> Result<Option<Self>, ReadError> {
        let Some(mut diff) = Diff::of_rounds(results, &mut |_| ())? else { return Ok(None) };
        let mut list = Self::default();
        let totals = diff.each(|entry| {
            list.add_url(entry.comparison, entry.url);
            Ok(())
        })?;
        list.counts = totals.changes;
        Ok(Some(list))
    }

    /// Adds a URL to the lists of its change, up to their limits. Does not change `counts`.
    pub fn add_url(&mut self, comparison: Comparison, url: &str) {
        let by_change = match comparison.change {
            Change::New => Some(&mut self.new),
            Change::Changed => Some(&mut self.changed),
            Change::Gone => Some(&mut self.gone),
            Change::Same => None,
        };
        by_change.into_iter().for_each(|list| insert_first(list, url, MAX_LISTED));
        match comparison.note {
            Some(ChangeNote::NewlyBroken) => insert_first(&mut self.newly_broken, url, MAX_NEWLY_BROKEN),
            Some(ChangeNote::Repaired) => insert_first(&mut self.repaired, url, MAX_LISTED),
            Some(ChangeNote::Redirected) => insert_first(&mut self.redirected, url, MAX_LISTED),
            None => {}
        }
    }

    /// All kinds, in the order of the report.
    pub fn kinds(&self) -> [ChangeKind<'_>; 7] {
        // Unchanged URLs are not listed.
        const NONE: &BTreeSet<Box<str>> = &BTreeSet::new();
        let Changes { new, changed, gone, same, newly_broken, repaired, redirected } = self.counts;
        [
            ("new", new, &self.new),
            ("changed", changed, &self.changed),
            ("gone", gone, &self.gone),
            ("unchanged", same, NONE),
            ("newly broken", newly_broken, &self.newly_broken),
            ("repaired", repaired, &self.repaired),
            ("redirected", redirected, &self.redirected),
        ]
        .map(|(name, count, urls)| ChangeKind {
            name,
            count,
            urls: urls.iter().take(MAX_LISTED).map(|url| &**url).collect(),
        })
    }

    /// Whether this link is listed as newly broken.
    pub fn is_newly_broken(&self, url: &str) -> bool {
        self.newly_broken.contains(url)
    }
}

/// Inserts a URL, and keeps only the alphabetically first `limit` URLs.
fn insert_first(list: &mut BTreeSet<Box<str>>, url: &str, limit: usize) {
    if list.len() < limit || list.last().is_some_and(|last| url < &**last) {
        list.insert(url.into());
        if list.len() > limit {
            list.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabetically_first_urls_are_listed_in_any_order_of_insertion() {
        let lists = [(0..30).collect::<Vec<_>>(), (0..30).rev().collect()].map(|order| {
            let mut list = ChangeList::default();
            for page in order {
                list.add_url(Comparison { change: Change::Changed, note: None }, &format!("https://h/{page:02}"));
            }
            let note = Some(ChangeNote::NewlyBroken);
            list.add_url(Comparison { change: Change::Gone, note }, "https://h/gone");
            list
        });
        assert_eq!(lists[0], lists[1]);
        let [_, changed, gone, _, broken, ..] = lists[0].kinds();
        assert_eq!(
            (changed.urls.len(), changed.urls[0], changed.urls[9]),
            (MAX_LISTED, "https://h/00", "https://h/09")
        );
        assert_eq!((gone.urls, broken.urls), (vec!["https://h/gone"], vec!["https://h/gone"]));
        assert!(lists[0].is_newly_broken("https://h/gone"));
    }
}
