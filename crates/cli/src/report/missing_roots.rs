//! [`MissingRoots`]: why the roots, and the URLs to which they redirect, have given no page.
//!
//! Invariant: every URL is counted. URLs are counted by reason, so the number of roots does not matter for memory.

use std::collections::BTreeMap;

use argiope_core::Outcome;
use argiope_core::crawl::schedule::retry;

use super::words::reason_words;
use super::{BrokenReason, PageSummary};
use crate::wording;

/// How many reasons a message names.
const MAX_NAMED: usize = 3;

/// How to find the line of a robots.txt.
const SHOW_RULE: &str = "argiope explain DIR URL shows the rule";

/// The reasons, each with the number of URLs and an example.
#[derive(Clone, Debug, Default)]
pub struct MissingRoots {
    reasons: BTreeMap<&'static str, Reason>,
    /// By status.
    statuses: BTreeMap<u16, Reason>,
    /// How many URLs robots.txt disallows.
    disallowed: u64,
    /// Whether another attempt may succeed for one of them.
    pub may_succeed_later: bool,
}

#[derive(Clone, Debug)]
struct Reason {
    count: u64,
    /// The first URL with this reason.
    url: String,
    /// The reason in full, for that URL.
    words: String,
    /// What to do about it.
    advice: Option<String>,
}

impl MissingRoots {
    /// Adds a finished URL, if it is a root or the target of its redirects, and has given no page.
    pub fn add(&mut self, page: &PageSummary<'_>) {
        if page.depth > 0 || page.is_guess {
            return;
        }
        match page.outcome {
            Outcome::Ok | Outcome::NotModified => {}
            Outcome::Robots if page.error.is_none() => self.disallowed += 1,
            Outcome::Redirect if page.error.is_none() => {
                if let Some(to) = page.redirect.filter(|_| !page.redirect_in_scope) {
                    let words = format!("redirects to {to}, which is out of scope");
                    let advice = format!("to crawl that site: argiope crawl {to}");
                    count(&mut self.reasons, "redirects out of scope", page.url, words, Some(advice));
                }
            }
            _ => self.add_broken(page),
        }
    }

    fn add_broken(&mut self, page: &PageSummary<'_>) {
        let reason = page.broken_reason();
        let words = reason_words(&reason);
        match &reason {
            BrokenReason::Status(status) => {
                self.may_succeed_later |= retry::is_transient_status(*status);
                count(&mut self.statuses, *status, page.url, words, None);
            }
            BrokenReason::Failure(failure) => {
                self.may_succeed_later |= retry::is_transient(failure.kind);
                count(&mut self.reasons, wording::failure(failure.kind), page.url, words, None);
            }
        }
    }

    /// The message for exit code 4.
    pub fn message(&self) -> String {
        let mut all: Vec<(String, &Reason)> =
            self.reasons.iter().map(|(name, reason)| ((*name).to_owned(), reason)).collect();
        all.extend(self.statuses.values().map(|reason| (reason.words.clone(), reason)));
        all.sort_by_key(|(_, reason)| std::cmp::Reverse(reason.count));
        let mut parts = Vec::new();
        match (self.disallowed, all.is_empty()) {
            (0, _) => {}
            (_, true) => parts.push(format!("robots.txt disallows them; {SHOW_RULE}")),
            (count, false) => {
                parts.push(format!("robots.txt disallows {}; {SHOW_RULE}", wording::plural(count, "URL")))
            }
        }
        parts.extend(all.iter().take(MAX_NAMED).map(|(name, reason)| reason.describe(name)));
        let hidden = all.len().saturating_sub(MAX_NAMED) as u64;
        parts.extend((hidden > 0).then(|| format!("and {}", wording::plural(hidden, "more reason"))));
        let separator = if parts.is_empty() { ";" } else { ":" };
        if self.may_succeed_later || parts.is_empty() {
            parts.push("run the same command to try them again".to_owned());
        }
        format!("no root has given a page{separator} {}", parts.join("; "))
    }
}

impl Reason {
    fn describe(&self, name: &str) -> String {
        let Self { count, url, words, advice } = self;
        let advice = advice.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
        match count {
            1 => format!("{url}: {words}{advice}"),
            _ => format!("{} roots: {name}, such as {url}: {words}{advice}", wording::count(*count)),
        }
    }
}

/// Counts a URL, which is the example if it is the first with this reason.
fn count<K: Ord>(reasons: &mut BTreeMap<K, Reason>, name: K, url: &str, words: String, advice: Option<String>) {
    reasons.entry(name).or_insert_with(|| Reason { count: 0, url: url.to_owned(), words, advice }).count += 1;
}
