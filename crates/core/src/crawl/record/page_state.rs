//! [`Comparison`]: how a URL differs between two crawls of it.
//!
//! The recrawl, its report and `argiope diff` share this definition.

use serde::{Deserialize, Serialize};

use crate::base::digest::BodyDigest;
use crate::base::outcome::Outcome;

/// How a URL compares with the previous round, or with the earlier crawl in `argiope diff`. Every URL has exactly one of
/// these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// There was no record of it before.
    New,
    /// It has a usable response, which differs from the one before.
    Changed,
    /// It had a usable response before and has none now, or the later crawl has no record of it.
    Gone,
    /// It has the same body or redirects in the same way, or it has no usable response, as before.
    Same,
}

/// The effect of a change on links to the URL, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeNote {
    /// Links to it are broken now and were not before.
    NewlyBroken,
    /// Links to it were broken before and are not any more.
    Repaired,
    /// It redirects now. Before, it did not redirect, or had another target or status.
    Redirected,
}

/// How a URL differs between two crawls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The kind of difference.
    pub change: Change,
    /// The effect on links to the URL, if there is one.
    pub note: Option<ChangeNote>,
}

/// The state of a URL in one crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState<'a> {
    /// The outcome of the URL.
    pub outcome: Outcome,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Whether the record has an error.
    pub has_error: bool,
    /// The digest of the body.
    pub digest: Option<BodyDigest>,
    /// The target of a redirect.
    pub redirect: Option<&'a str>,
}

impl PageState<'_> {
    /// Whether links to the URL are broken.
    pub fn is_broken(&self) -> bool {
        match self.outcome {
            Outcome::HttpError | Outcome::Failed => true,
            Outcome::Redirect => self.has_error,
            Outcome::Ok | Outcome::NotModified | Outcome::Robots | Outcome::Refused => false,
        }
    }

    /// Whether the response was usable.
    fn is_usable(&self) -> bool {
        matches!(self.outcome, Outcome::Ok | Outcome::NotModified | Outcome::Redirect) && !self.is_broken()
    }

    /// Whether the response was a page, not a redirect.
    fn is_page(&self) -> bool {
        matches!(self.outcome, Outcome::Ok | Outcome::NotModified)
    }
}

impl Comparison {
    /// Compares the states of a URL in two crawls. A state is `None` if that crawl has no record of the URL.
    pub fn of(before: Option<&PageState<'_>>, after: Option<&PageState<'_>>) -> Self {
        match (before, after) {
            (Some(before), Some(after)) => Self::of_both(before, after),
            (None, Some(after)) => {
                Self { change: Change::New, note: after.is_broken().then_some(ChangeNote::NewlyBroken) }
            }
            (Some(before), None) => {
                Self { change: Change::Gone, note: before.is_broken().then_some(ChangeNote::Repaired) }
            }
            (None, None) => Self { change: Change::Same, note: None },
        }
    }

    /// Compares the states of a URL that both crawls recorded.
    fn of_both(before: &PageState<'_>, after: &PageState<'_>) -> Self {
        let is_same_redirect = before.outcome == Outcome::Redirect
            && before.status == after.status
            && before.redirect == after.redirect
            && before.has_error == after.has_error;
        let is_same = match after.outcome {
            Outcome::NotModified => true,
            Outcome::Ok => before.is_page() && before.digest == after.digest,
            Outcome::Redirect => is_same_redirect,
            Outcome::HttpError | Outcome::Failed | Outcome::Robots | Outcome::Refused => !before.is_usable(),
        };
        let change = match is_same {
            true => Change::Same,
            false if after.is_usable() => Change::Changed,
            false => Change::Gone,
        };
        let note = match (before.is_broken(), after.is_broken()) {
            (false, true) => Some(ChangeNote::NewlyBroken),
            (true, false) if after.is_usable() => Some(ChangeNote::Repaired),
            (false, false) if after.outcome == Outcome::Redirect && !is_same_redirect => Some(ChangeNote::Redirected),
            _ => None,
        };
        Self { change, note }
    }
}

/// Numbers of URLs by change and by [`ChangeNote`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// URLs with [`Change::New`].
    pub new: u64,
    /// URLs with [`Change::Changed`].
    pub changed: u64,
    /// URLs with [`Change::Gone`].
    pub gone: u64,
    /// URLs with [`Change::Same`].
    pub same: u64,
    /// URLs with [`ChangeNote::NewlyBroken`].
    pub newly_broken: u64,
    /// URLs with [`ChangeNote::Repaired`].
    pub repaired: u64,
    /// URLs with [`ChangeNote::Redirected`].
    pub redirected: u64,
}

impl Changes {
    /// Counts the comparison of one URL.
    pub fn count(&mut self, comparison: Comparison) {
        match comparison.change {
            Change::New => self.new += 1,
            Change::Changed => self.changed += 1,
            Change::Gone => self.gone += 1,
            Change::Same => self.same += 1,
        }
        match comparison.note {
            Some(ChangeNote::NewlyBroken) => self.newly_broken += 1,
            Some(ChangeNote::Repaired) => self.repaired += 1,
            Some(ChangeNote::Redirected) => self.redirected += 1,
            None => {}
        }
    }

    /// These counts without some URLs, which will be counted again.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            new: self.new.saturating_sub(other.new),
            changed: self.changed.saturating_sub(other.changed),
            gone: self.gone.saturating_sub(other.gone),
            same: self.same.saturating_sub(other.same),
            newly_broken: self.newly_broken.saturating_sub(other.newly_broken),
            repaired: self.repaired.saturating_sub(other.repaired),
            redirected: self.redirected.saturating_sub(other.redirected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(outcome: Outcome, status: u16) -> PageState<'static> {
        PageState { outcome, status: Some(status), has_error: false, digest: None, redirect: None }
    }

    fn page(digest: u8) -> PageState<'static> {
        PageState { digest: Some(BodyDigest::Xxh3([digest; 16])), ..state(Outcome::Ok, 200) }
    }

    #[test]
    fn urls_are_compared_by_outcome_digest_and_target() {
        use Change::{Changed, Gone, New, Same};
        use ChangeNote::{NewlyBroken, Redirected, Repaired};
        let missing = state(Outcome::HttpError, 404);
        let to = |target| PageState { redirect: Some(target), ..state(Outcome::Redirect, 301) };
        let in_a_loop = PageState { has_error: true, ..to("https://h/b") };
        for (before, after, change, note) in [
            (Some(page(1)), Some(page(1)), Same, None),
            (Some(page(1)), Some(page(2)), Changed, None),
            (Some(page(1)), Some(state(Outcome::NotModified, 304)), Same, None),
            (Some(page(1)), Some(missing), Gone, Some(NewlyBroken)),
            (Some(page(1)), Some(state(Outcome::Robots, 200)), Gone, None),
            (Some(page(1)), Some(to("https://h/b")), Changed, Some(Redirected)),
            (Some(page(1)), Some(in_a_loop), Gone, Some(NewlyBroken)),
            (Some(page(1)), None, Gone, None),
            (None, Some(page(1)), New, None),
            (None, Some(missing), New, Some(NewlyBroken)),
            (Some(missing), Some(state(Outcome::HttpError, 410)), Same, None),
            (Some(missing), Some(page(1)), Changed, Some(Repaired)),
            (Some(missing), Some(to("https://h/b")), Changed, Some(Repaired)),
            (Some(missing), None, Gone, Some(Repaired)),
            (Some(to("https://h/b")), Some(to("https://h/b")), Same, None),
            (Some(to("https://h/b")), Some(to("https://h/c")), Changed, Some(Redirected)),
            (Some(to("https://h/b")), Some(page(1)), Changed, None),
        ] {
            let compared = Comparison::of(before.as_ref(), after.as_ref());
            assert_eq!(compared, Comparison { change, note }, "{before:?} {after:?}");
        }
    }
}
