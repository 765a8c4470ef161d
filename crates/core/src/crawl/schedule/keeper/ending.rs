//! [`Ending`]: whether the crawl goes on, and why it ends.

use crate::base::time::Time;
use crate::crawl::rules::Rules;
use crate::crawl::schedule::next::End;

/// What ends a crawl, and what keeps it open.
#[derive(Default)]
pub(super) struct Ending {
    /// `--max-time`: requests in flight at this time are abandoned.
    pub deadline: Time,
    /// Why the keeper hands out no more work; `None` while it still does.
    ended: Option<End>,
    /// The number of visits that a fetcher continues: see [`Keeper::postpone`](super::Keeper::postpone).
    pub postponed: usize,
    /// The number of requests for parts of these pages that have no response yet.
    pub open_parts: usize,
    /// Whether the crawl waits for links of the library's user when no work is left.
    pub is_open: bool,
    /// Whether each settled page sets `is_open`, because the user of the library may respond to the page with links.
    pub reopens_after_pages: bool,
}

/// The work that is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkLeft {
    /// Whether links are on the workbench.
    pub is_on_workbench: bool,
    /// Links that are known and not settled, including those in flight.
    pub unfinished: u64,
    /// The part of `unfinished` that waits until memory has room for its hosts.
    pub deferred: u64,
    /// Requests in flight.
    pub in_flight: usize,
    /// Whether `--max-pages` is reached, and all pages that were started have ended.
    pub is_spent: bool,
}

impl Ending {
    pub fn new(rules: &Rules) -> Self {
        Self { deadline: rules.max_time.map_or(Time::NEVER, |span| Time::ZERO + span), ..Self::default() }
    }

    /// Why the keeper hands out no more work.
    pub fn ended(&self) -> Option<End> {
        self.ended
    }

    /// Records that no more work is handed out. The first reason counts.
    pub fn stop(&mut self, end: End) {
        self.ended.get_or_insert(end);
    }

    /// Why the crawl is over; `None` if it continues.
    pub fn reason(&self, left: WorkLeft) -> Option<End> {
        if !left.is_on_workbench && (left.unfinished == 0 || left.unfinished == left.deferred) {
            // If every link is settled, the crawl is finished, even if a limit was reached too. An open crawl waits for
            // links of the library's user, unless it was ended.
            let end = if left.unfinished == 0 { End::Finished } else { self.ended.unwrap_or(End::MaxMemory) };
            return if self.is_open { self.ended } else { Some(end) };
        }
        // A page that waits for its parts cannot be completed when no more requests start: the next run fetches it again.
        let awaits_postponed = self.postponed > 0 && !(self.ended.is_some() && self.open_parts > 0);
        if left.in_flight > 0 || awaits_postponed {
            return None;
        }
        self.ended.or_else(|| left.is_spent.then_some(End::MaxPages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::rules::Config;

    #[test]
    fn the_crawl_is_over_when_no_work_is_left_or_a_limit_is_reached() {
        let config = Config { roots: vec!["http://h/".into()], ..Config::default() };
        let mut ending = Ending::new(&config.compile(0).expect("valid settings"));
        let none = WorkLeft { is_on_workbench: false, unfinished: 0, deferred: 0, in_flight: 0, is_spent: false };
        let waiting = WorkLeft { is_on_workbench: true, unfinished: 3, ..none };
        assert_eq!((ending.reason(none), ending.reason(waiting)), (Some(End::Finished), None));
        let deferred = WorkLeft { unfinished: 3, deferred: 3, ..none };
        assert_eq!(ending.reason(deferred), Some(End::MaxMemory));
        assert_eq!(ending.reason(WorkLeft { is_spent: true, ..waiting }), Some(End::MaxPages));
        ending.is_open = true;
        assert_eq!((ending.reason(none), ending.reason(deferred)), (None, None), "the user may add links");
        ending.stop(End::Stopped);
        ending.stop(End::MaxBytes);
        assert_eq!(ending.reason(WorkLeft { in_flight: 1, ..waiting }), None, "requests in flight may finish");
        ending.postponed = 1;
        assert_eq!(ending.reason(waiting), None, "a fetcher still has a page");
        ending.open_parts = 1;
        assert_eq!(ending.reason(waiting), Some(End::Stopped), "the page has parts that are not requested any more");
        (ending.postponed, ending.open_parts) = (0, 0);
        assert_eq!((ending.reason(waiting), ending.reason(none)), (Some(End::Stopped), Some(End::Stopped)));
    }
}
