//! Admission of a page's links to the frontier, as far as [`crate::crawl::schedule::trap`] allows.

use std::sync::Arc;

use super::Keeper;
use crate::base::custom_request::CustomRequest;
use crate::base::job::LaneId;
use crate::base::link::LinkRef;
use crate::base::time::Time;
use crate::crawl::schedule::frontier::{Frontier, History, NewHosts, Placement, Standing, StoreError, lanes_of};
use crate::crawl::schedule::trap::{Cut, Judging, TrapRule, Traps};
use crate::crawl::visit::{PageFindings, Visit};

use crate::page::scope::{self, ScopeRule};

/// How many links are added to the frontier in one call. The cache lines that a frontier prefetches for them must fit into
/// the processor's cache.
const BATCH: usize = 64;

impl<F: Frontier + History> Keeper<F> {
    /// Adds the links of a page that the trap budgets allow. Returns the lanes that got work.
    pub(super) fn admit(&mut self, visit: &mut Visit, now: Time) -> Result<Vec<LaneId>, StoreError> {
        let mut placements = Vec::new();
        if visit.for_keeper.found.is_empty() && !visit.is_page() {
            return Ok(Vec::new());
        }
        let redirected = redirected_request(visit);
        // The state of the trap budgets for the links of this page.
        let mut judging = self.traps.open(visit);
        let found = std::mem::take(&mut visit.for_keeper.found);
        let mut rest =
            found.links(&visit.link.url).map(|link| LinkRef { request: redirected.as_ref().or(link.request), ..link });
        let mut batch = Vec::with_capacity(BATCH.min(found.len()));
        loop {
            batch.clear();
            batch.extend(rest.by_ref().take(BATCH));
            if batch.is_empty() {
                break;
            }
            placements.extend(self.admit_batch(&batch, &mut judging, &mut visit.findings)?);
        }
        drop(rest);
        visit.for_keeper.found = found;
        let is_new = |placement: &&Placement| matches!(placement, Placement::Queued(_) | Placement::Deferred);
        visit.findings.new_links = u32::try_from(placements.iter().filter(is_new).count()).unwrap_or(u32::MAX);
        self.traps.close(&judging);
        self.probe_host(visit, judging.repeats_text(), now)?;
        Ok(lanes_of(&placements))
    }

    /// Adds a batch of a page's links.
    fn admit_batch(
        &mut self,
        batch: &[LinkRef<'_>],
        judging: &mut Judging,
        findings: &mut PageFindings,
    ) -> Result<Vec<Placement>, StoreError> {
        let Self { frontier, traps, rules, excludes, .. } = self;
        // With `--max-pages-per-host`: the page counts to store, by the index of the link that reached them.
        let mut counts = Vec::new();
        let mut admit = |index: usize, standing: Standing| {
            let Some(&link) = batch.get(index) else { return false };
            let is_excluded = excludes.as_ref().is_some_and(|set| scope::matches(set, link.url.as_str()));
            let rule = match standing {
                _ if is_excluded => Some(ScopeRule::Exclude.as_str()),
                Standing::NoRoom => Some(traps.refuse_host(link.url).as_str()),
                _ => traps.judge(judging, link, standing == Standing::Known).map(TrapRule::as_str),
            };
            if let Some(rule) = rule {
                if rules.log_skips {
                    findings.skipped.push((link.url.as_str().into(), rule));
                }
                return false;
            }
            if standing == Standing::New {
                Traps::entered(judging, link);
                counts.extend(traps.pages_to_note(link.url.host()).map(|pages| (index, pages)));
            }
            true
        };
        let new_hosts = if self.is_full_of_hosts { NewHosts::AreDeferred } else { NewHosts::GetLanes };
        let placements = frontier.put(batch, new_hosts, &mut admit)?;
        for (link, placement) in batch.iter().zip(&placements) {
            if let Placement::Queued(lane) = placement {
                self.bench.rank_again(*lane, link.rank());
            }
        }
        for (index, pages) in counts {
            if let Some(Placement::Queued(lane)) = placements.get(index) {
                let mut note = self.lane_note(*lane)?.unwrap_or_default();
                note.pages = pages;
                self.keep_lane_note(*lane, &note)?;
            }
        }
        Ok(placements)
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
            let Some(host) = self.lane_name(lane).map(str::to_owned) else { break };
            // The lane of deferred links has no name.
            if host.is_empty() {
                continue;
            }
            let pages = self.lane_note(lane)?.map_or(0, |note| note.pages);
            self.traps.recall(&host, pages);
        }
        Ok(())
    }
}

/// The request for the target of a visit's redirect, if it is not a plain GET.
pub(super) fn redirected_request(visit: &Visit) -> Option<Arc<CustomRequest>> {
    let (request, target) = (visit.link.request.as_ref()?, visit.facts.redirect.as_ref()?);
    request.redirected(visit.facts.status?, target.origin() == visit.link.url.origin())
}
