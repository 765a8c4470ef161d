//! Admission of a page's links to the frontier, as far as [`crate::crawl::schedule::trap`] allows.

use std::sync::Arc;

use super::Keeper;
use crate::base::custom_request::CustomRequest;
use crate::base::job::LaneId;
use crate::base::time::Time;
use crate::crawl::schedule::frontier::{Frontier, StoreError};
use crate::crawl::schedule::trap::{Cut, Traps};
use crate::crawl::visit::Visit;
use crate::page::scope::ScopeRule;

/// How many links are announced to the frontier at a time. The cache lines that the frontier prefetches for them must
/// fit into the processor's cache.
const PREFETCHED: usize = 64;

impl<F: Frontier> Keeper<F> {
    /// Adds the links of a page that the trap budgets allow. Returns the lanes that got work.
    pub(super) fn admit(&mut self, visit: &mut Visit) -> Result<Vec<LaneId>, StoreError> {
        let (mut lanes, mut new_links) = (Vec::new(), 0_u32);
        if visit.for_keeper.found.is_empty() && !visit.is_page() {
            return Ok(lanes);
        }
        let redirected = redirected_request(visit);
        // The state of the trap budgets for the links of this page.
        let mut judging = self.traps.open(visit);
        let found = std::mem::take(&mut visit.for_keeper.found);
        // The same links, read ahead for prefetching.
        let mut ahead = found.links(&visit.link.url);
        for (index, mut link) in found.links(&visit.link.url).enumerate() {
            if index % PREFETCHED == 0 {
                self.frontier.prefetch(&mut ahead.by_ref().take(PREFETCHED));
            }
            if redirected.is_some() {
                link.request = redirected.as_ref();
            }
            if self.is_excluded(link.url.as_str()) {
                if self.rules.log_skips {
                    visit.findings.skipped.push((link.url.as_str().into(), ScopeRule::Exclude.as_str()));
                }
                continue;
            }
            let lacks_lane = self.is_full_of_hosts && !self.frontier.has_lane(link.url.host());
            if lacks_lane && !self.frontier.can_defer() {
                let rule = self.traps.refuse_host(link.url);
                if self.rules.log_skips {
                    visit.findings.skipped.push((link.url.as_str().into(), rule.as_str()));
                }
                continue;
            }
            let is_known = || self.frontier.is_known(link.url, link.kind);
            if let Some(rule) = self.traps.judge(&mut judging, link, is_known)? {
                if self.rules.log_skips {
                    visit.findings.skipped.push((link.url.as_str().into(), rule.as_str()));
                }
                continue;
            }
            if lacks_lane {
                if self.frontier.defer(link)? {
                    Traps::entered(&mut judging, link);
                    new_links = new_links.saturating_add(1);
                }
            } else if let Some(lane) = self.frontier.offer(link)? {
                Traps::entered(&mut judging, link);
                self.note_pages(lane, link.url.host())?;
                self.bench.rank_again(lane, link.rank());
                new_links = new_links.saturating_add(1);
                if lanes.last() != Some(&lane) {
                    lanes.push(lane);
                }
            }
        }
        drop(ahead);
        visit.for_keeper.found = found;
        visit.findings.new_links = new_links;
        self.traps.close(&judging);
        lanes.sort_unstable();
        lanes.dedup();
        Ok(lanes)
    }

    /// The places where links were skipped, with the rule that decided.
    pub fn cuts(&self) -> Vec<Cut> {
        self.traps.cuts()
    }

    /// Adds links that had to wait for the budget of their domain, and whose hosts the budget allows now.
    pub(super) fn release_hosts(&mut self, now: Time) -> Result<(), StoreError> {
        let released = self.traps.take_released();
        if released.is_empty() { Ok(()) } else { self.put(released, now).map(drop) }
    }

    /// Counts the hosts and pages of earlier runs towards the budgets.
    pub(super) fn recall_traps(&mut self) -> Result<(), StoreError> {
        if !self.traps.needs_earlier_hosts() {
            return Ok(());
        }
        for number in 0..u32::MAX {
            let lane = LaneId(number);
            let Some(host) = self.frontier.lane_name(lane).map(str::to_owned) else { break };
            // The lane of deferred links has no name.
            if host.is_empty() {
                continue;
            }
            let pages = self.lane_note(lane)?.map_or(0, |note| note.pages);
            self.traps.recall(&host, pages);
        }
        Ok(())
    }

    /// Stores the page count of a host, since `--max-pages-per-host` applies to all runs together. The count is stored
    /// in steps: after a crash, a host may exceed the limit by a sixteenth.
    fn note_pages(&mut self, lane: LaneId, host: &str) -> Result<(), StoreError> {
        let Some(limit) = self.rules.max_pages_per_host else { return Ok(()) };
        let Some(pages) = self.traps.pages_of(host) else { return Ok(()) };
        if pages == limit || pages.is_multiple_of((limit / 16).max(1)) {
            let mut note = self.lane_note(lane)?.unwrap_or_default();
            note.pages = pages;
            self.keep_lane_note(lane, &note)?;
        }
        Ok(())
    }
}

/// The request for the target of a visit's redirect, if it is not a plain GET.
pub(super) fn redirected_request(visit: &Visit) -> Option<Arc<CustomRequest>> {
    let (request, target) = (visit.link.request.as_ref()?, visit.facts.redirect.as_ref()?);
    request.redirected(visit.facts.status?, target.origin() == visit.link.url.origin())
}
