//! What has changed since the last time, for people: `--recrawl`.

use std::fmt::Write as _;

use argiope_core::schedule::keeper::{Change, Changes};

use crate::screen::wording;
use argiope_core::output::escape::visible;

/// Pages that are named of each kind.
const NAMED: usize = 10;

/// The pages that are worth naming.
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

    /// The counts are those of the whole round; the names are those of this run.
    pub fn render(&self, counts: Changes) -> String {
        let Changes { new, changed, gone, same } = counts;
        let mut text = String::from("\nSince the last time\n");
        for (what, count, named) in [
            ("new", new, self.new.as_slice()),
            ("changed", changed, &self.changed),
            ("gone", gone, &self.gone),
            ("the same", same, &[]),
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
        assert!(text.contains("  the same                       1,234\n"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
