//! [`PageStarts`]: how many pages may still be requested (`--max-pages`), and when the next one may start (`--rate`).

use std::time::Duration;

use crate::base::time::Time;
use crate::crawl::rules::Rules;

/// The limits on pages over all lanes. A page that is tried again does not count again.
pub(super) struct PageStarts {
    /// How many pages may still be requested; `None` without a limit.
    left: Option<u64>,
    /// The limit on pages per second.
    rate: Option<f64>,
    /// With a rate: no page starts before this time.
    next_start: Time,
    /// Whether no page starts for now, because many are being rendered.
    is_held: bool,
}

impl PageStarts {
    pub fn new(rules: &Rules) -> Self {
        Self { left: rules.max_pages, rate: rules.rate, next_start: Time::ZERO, is_held: false }
    }

    /// How many pages may still be requested.
    pub fn left(&self) -> u64 {
        self.left.unwrap_or(u64::MAX)
    }

    /// Whether further pages may be requested now.
    pub fn may_start(&self) -> bool {
        self.left != Some(0) && !self.is_held
    }

    /// Sets whether no page starts for now. Returns whether that is a change.
    pub fn hold(&mut self, is_held: bool) -> bool {
        std::mem::replace(&mut self.is_held, is_held) != is_held
    }

    /// When `--rate` allows the next page.
    pub fn next_start(&self) -> Time {
        self.next_start
    }

    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Changes the limit on pages per second; `None` removes it.
    pub fn set_rate(&mut self, rate: Option<f64>, now: Time) {
        self.rate = rate;
        self.next_start = self.next_start.min(now + rate.map_or(Duration::ZERO, spacing));
    }

    /// Counts pages that an earlier run requested.
    pub fn spend(&mut self, pages: u64) {
        self.left = self.left.map(|left| left.saturating_sub(pages));
    }

    /// Counts a page that starts now. `is_first` is false if the page was tried before.
    pub fn start(&mut self, is_first: bool, now: Time) {
        if is_first {
            self.spend(1);
        }
        if let Some(rate) = self.rate {
            self.next_start = now + spacing(rate);
        }
    }

    /// Takes back the count of a page that was not requested. Returns whether it was the last page of the limit, so that
    /// lanes may start a page again.
    pub fn give_back(&mut self) -> bool {
        let was_spent = self.left == Some(0);
        self.left = self.left.map(|left| left.saturating_add(1));
        was_spent && self.may_start()
    }
}

/// Time between two pages at a rate of pages per second.
fn spacing(rate: f64) -> Duration {
    // The minimum prevents a division by zero.
    Duration::from_secs_f64(1.0 / rate.max(1e-6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_first_attempts_count_and_each_start_delays_the_next() {
        let now = Time::from_micros(1_000_000);
        let mut starts = PageStarts { left: Some(2), rate: Some(2.0), next_start: Time::ZERO, is_held: false };
        starts.start(true, now);
        starts.start(false, now);
        assert_eq!((starts.left(), starts.next_start()), (1, now + Duration::from_millis(500)));
        starts.start(true, now);
        assert!(!starts.may_start());
        assert!(starts.give_back() && starts.may_start());
        assert!(!starts.give_back(), "pages could start before");
        assert!(starts.hold(true) && !starts.hold(true) && !starts.may_start());
        starts.hold(false);
        starts.set_rate(None, now);
        assert_eq!(starts.next_start(), now, "the old rate delays no page");
        let mut unlimited = PageStarts { left: None, ..starts };
        unlimited.spend(u64::MAX);
        assert!(unlimited.may_start());
    }
}
