//! The summary of what changed since the last round of a crawl (`--recrawl`).

use std::fmt::Write as _;

use argiope_core::schedule::keeper::{Change, Changes};

use crate::screen::wording;
use argiope_core::output::escape::visible;

/// Pages listed per kind of change.
const NAMED: usize = 10;

/// Pages to list, by kind of change.
#[derive(Default)]
pub struct ChangeList {
    new: Vec<Box<str>>,
    changed: Vec<Box<str>>,
    gone: Vec<Box<str>>,
}

impl ChangeList {
    pub fn add(&mut self, change: Change, url: &str) {
        let list = match change {
            Change::New => &mut self.new,
            Change::Changed => &mut self.changed,
            Change::Gone => &mut self.gone,
            Change::Same => return,
        };
        if list.len() < NAMED {
            list.push(url.into());
        }
    }

    /// Renders the summary. The counts cover the whole round; the listed pages are those of this run.
    pub fn render(&self, counts: Changes) -> String {
        let Changes { new, changed, gone, same } = counts;
        let mut text = String::from("\nChanges since the last round\n");
        for (what, count, named) in [
            ("new", new, self.new.as_slice()),
            ("changed", changed, &self.changed),
            ("gone", gone, &self.gone),
            ("unchanged", same, &[]),
        ] {
            let _ = writeln!(text, "  {what:<12}{:>24}", wording::count(count));
            for url in named {
                let _ = writeln!(text, "              {}", visible(url));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_and_a_few_are_named() {
        let mut list = ChangeList::default();
        for page in 0..30 {
            list.add(Change::Changed, &format!("https://h/{page}"));
        }
        list.add(Change::Gone, "https://h/\u{1b}[2J");
        list.add(Change::Same, "https://h/same");
        let text = list.render(Changes { new: 0, changed: 30, gone: 1, same: 1_234 });
        assert_eq!(text.matches("https://h/").count(), NAMED + 1, "{text}");
        assert!(text.contains("  unchanged                      1,234\n"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
