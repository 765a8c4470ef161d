//! Changes during a crawl: pause, drain, backpressure, limits, and links that are removed or taken back.

use std::cmp::Reverse;

use super::Workbench;
use crate::base::job::{LaneId, PagePart, Purpose};
use crate::base::link::Link;
use crate::base::outcome::Outcome;
use crate::base::time::Time;
use crate::crawl::rules::Pace;
use crate::crawl::schedule::lane::Lane;
use crate::crawl::visit::Visit;

/// Which requests may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MayStart {
    Nothing,
    /// Parts of pages that are being rendered, with the robots.txt files that they need: a page that is in the browser
    /// ends, as a request in flight does.
    Parts,
    #[default]
    All,
}

/// Why not all requests may start. Requests in flight may finish.
#[derive(Default)]
pub(super) struct Holds {
    /// The crawl ends.
    pub is_draining: bool,
    /// The user paused the crawl.
    pub is_paused: bool,
    /// The disk is behind.
    pub is_behind: bool,
    /// This process has used up its share of a limit of the fleet.
    pub awaits_share: bool,
    /// What may start beside a suspect.
    pub beside_suspect: MayStart,
}

impl Holds {
    pub fn may_start(&self) -> MayStart {
        if self.is_draining {
            MayStart::Nothing
        } else if self.is_paused || self.is_behind || self.awaits_share {
            MayStart::Parts.min(self.beside_suspect)
        } else {
            self.beside_suspect
        }
    }
}

impl Workbench {
    /// Stops handing out jobs. Requests in flight may finish.
    pub fn drain(&mut self) {
        self.holds.is_draining = true;
    }

    /// Pauses or continues: while paused no request starts, except those of pages that are being rendered.
    pub fn set_paused(&mut self, paused: bool) {
        self.holds.is_paused = paused;
    }

    /// Sets or ends backpressure: meanwhile no request starts, except those of pages that are being rendered.
    pub fn hold_back(&mut self, held_back: bool) {
        self.holds.is_behind = held_back;
    }

    /// Sets whether pages that were not tried yet may start. Everything else may.
    pub fn hold_pages(&mut self, are_held: bool, now: Time) {
        if self.pages.hold(are_held) && !are_held {
            self.place_all(now);
        }
    }

    /// Places all lanes again, because pages may start again.
    pub(super) fn place_all(&mut self, now: Time) {
        self.lanes.ids().into_iter().for_each(|id| self.place(id, now));
    }

    /// Starts or ends waiting for a larger share of a limit of the fleet: meanwhile no request starts, except those of
    /// pages that are being rendered.
    pub fn hold_for_share(&mut self, is_held: bool) {
        self.holds.awaits_share = is_held;
    }

    /// Sets what may start while a suspect waits to be alone, or is alone.
    pub fn hold_for_suspect(&mut self, may_start: MayStart) {
        self.holds.beside_suspect = may_start;
    }

    /// Whether pages must not start, whatever a suspect needs.
    pub fn holds_pages(&self) -> bool {
        let Holds { is_draining, is_paused, is_behind, awaits_share, beside_suspect: _ } = self.holds;
        is_draining || is_paused || is_behind || awaits_share
    }

    pub fn is_paused(&self) -> bool {
        self.holds.is_paused
    }

    pub fn is_draining(&self) -> bool {
        self.holds.is_draining
    }

    /// Changes the pace of all hosts.
    pub fn set_pace(&mut self, pace: Pace, now: Time) {
        self.rules.steer_pace(pace);
        self.addresses.set_limit(self.rules.per_ip);
        for id in self.lanes.ids() {
            if let Some(entry) = self.lanes.get_mut(id) {
                entry.lane.pace.set_mode(&self.rules);
            }
            self.place(id, now);
        }
    }

    pub fn pace(&self) -> Pace {
        self.rules.pace
    }

    /// Changes the limit on pages per second; `None` removes it.
    pub fn set_rate(&mut self, rate: Option<f64>, now: Time) {
        self.pages.set_rate(rate, now);
    }

    /// Changes the limit on requests in flight at one address. Requests in flight above a lower limit may finish.
    pub fn limit_addresses(&mut self, max_requests: usize) {
        self.addresses.set_limit(Some(max_requests));
    }

    /// The limit on pages per second, if there is one.
    pub fn rate(&self) -> Option<f64> {
        self.pages.rate()
    }

    /// Removes the queued pages and the retries for which `should_remove` is true, and returns them.
    pub fn remove(&mut self, should_remove: impl Fn(&Link) -> bool, now: Time) -> Vec<Link> {
        let mut removed = Vec::new();
        for id in self.lanes.ids() {
            let Some(entry) = self.lanes.get_mut(id) else { continue };
            let before = removed.len();
            let (matching, kept): (Vec<Link>, Vec<Link>) = entry.lane.queue.drain(..).partition(&should_remove);
            entry.lane.queue.extend(kept);
            removed.extend(matching);
            for Reverse(retry) in std::mem::take(&mut entry.lane.retries) {
                if retry.purpose.is_in_frontier() && should_remove(&retry.link) {
                    removed.push(retry.link);
                } else {
                    entry.lane.retries.push(Reverse(retry));
                }
            }
            if removed.len() > before {
                self.place(id, now);
            }
        }
        removed
    }

    /// Takes back all links that are not in flight, once no more jobs are handed out. Fetches of robots.txt files are
    /// dropped, because a later run starts its own.
    pub fn take_back(&mut self) -> Vec<Link> {
        let mut links = Vec::new();
        for id in self.lanes.ids() {
            let Some((entry, counts)) = self.lanes.get_with_counts(id) else { continue };
            take_links(&mut entry.lane, &mut links);
            if entry.update_counts(counts) {
                self.became_idle(id);
            }
        }
        links
    }

    /// Refuses the parts in a lane that `has_ended` selects and that are not requested yet.
    pub fn end_parts(&mut self, id: LaneId, has_ended: impl Fn(&PagePart) -> bool, now: Time) {
        if let Some(entry) = self.lanes.get_mut(id) {
            self.decided.extend(take_parts(&mut entry.lane, has_ended, now));
            self.place(id, now);
        }
    }

    /// Takes back all links of one lane that are not in flight, because another process takes the lane over. Fetches of
    /// robots.txt files are dropped. Parts of pages are refused, because their pages wait for an answer.
    pub fn withdraw(&mut self, id: LaneId, now: Time) -> Vec<Link> {
        let mut links = Vec::new();
        if let Some(entry) = self.lanes.get_mut(id) {
            entry.lane.backlog = 0;
            self.decided.extend(take_parts(&mut entry.lane, |_| true, now));
            take_links(&mut entry.lane, &mut links);
            self.place(id, now);
        }
        links
    }

    /// Lowers the number of concurrent requests, because the system lacks resources for more.
    pub fn limit_concurrency(&mut self, concurrency: usize) {
        self.slots.limit_concurrency(concurrency);
    }
}

/// Moves the links of a lane that are not in flight to `links`. Fetches of robots.txt files are dropped.
fn take_links(lane: &mut Lane, links: &mut Vec<Link>) {
    lane.site_files.take();
    links.extend(lane.queue.drain(..));
    let page_retries = lane.retries.drain().filter(|Reverse(retry)| retry.purpose.is_in_frontier());
    links.extend(page_retries.map(|Reverse(retry)| retry.link));
}

/// Removes the parts of pages that `is_taken` selects from a lane, and returns their visits.
fn take_parts(lane: &mut Lane, is_taken: impl Fn(&PagePart) -> bool, now: Time) -> Vec<Box<Visit>> {
    let is_taken = |purpose: &Purpose| matches!(purpose, Purpose::Part(part) if is_taken(part));
    let mut taken = Vec::new();
    for (link, purpose) in lane.site_files.take() {
        if is_taken(&purpose) { taken.push((link, purpose)) } else { lane.site_files.push_back(link, purpose) }
    }
    for Reverse(retry) in std::mem::take(&mut lane.retries) {
        if is_taken(&retry.purpose) {
            taken.push((retry.link, retry.purpose));
        } else {
            lane.retries.push(Reverse(retry));
        }
    }
    let refused = |(link, purpose)| Box::new(Visit::with_outcome(link, purpose, Outcome::Refused, now));
    taken.into_iter().map(refused).collect()
}
