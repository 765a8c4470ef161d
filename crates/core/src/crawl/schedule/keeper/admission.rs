//! [`Admission`]: which links enter the frontier, and which of those that wait there may still be fetched.
//!
//! The scope was applied where a link was found. Here decide the budgets against crawler traps
//! ([`crate::crawl::schedule::trap`]), the memory for host names, and what the user excluded while the crawl was running.

use std::sync::Arc;

use regex::RegexSet;

use super::Keeper;
use super::lane_links::LaneLinks;
use super::notes::Notes;
use crate::base::custom_request::CustomRequest;
use crate::base::job::LaneId;
use crate::base::link::{Link, LinkKind, LinkRef};
use crate::base::outcome::Outcome;
use crate::base::time::Time;
use crate::crawl::record::CrawlRecord;
use crate::crawl::rules::Rules;
use crate::crawl::schedule::frontier::{
    FinalOutcome, Frontier, History, NewHosts, Placement, ReturnTo, Settlement, Standing, StoreError, lanes_of,
};
use crate::crawl::schedule::trap::{Cut, Judging, TrapRule, Traps};
use crate::crawl::visit::{PageFindings, Visit};
use crate::page::scope::{self, BadPattern, ScopeRule, ScopeVerdict};

/// How many links are added to the frontier in one call. The cache lines that a frontier prefetches for them must fit into
/// the processor's cache.
const BATCH: usize = 64;
/// How many links of a queue are skipped before other work continues.
const MAX_SKIPPED_PER_CALL: usize = 4_096;

/// Decides about links.
pub(super) struct Admission {
    rules: Arc<Rules>,
    pub traps: Traps,
    /// Patterns that the user excluded while the crawl was running.
    excludes: Option<RegexSet>,
    /// Whether memory has no room for further host names.
    pub is_full_of_hosts: bool,
    /// How many links a lane of the workbench takes.
    pub lane_links: LaneLinks,
}

impl Admission {
    pub fn new(rules: &Arc<Rules>) -> Self {
        let traps = Traps::new(rules);
        Self {
            rules: Arc::clone(rules),
            traps,
            excludes: None,
            is_full_of_hosts: false,
            lane_links: LaneLinks::default(),
        }
    }

    /// Excludes these patterns, in place of those before.
    pub fn exclude(&mut self, patterns: &[String]) -> Result<(), BadPattern> {
        self.excludes = scope::compile_patterns(patterns)?;
        Ok(())
    }

    pub fn is_excluded(&self, link: &Link) -> bool {
        self.excludes(link.url.as_str())
    }

    fn excludes(&self, url: &str) -> bool {
        self.excludes.as_ref().is_some_and(|set| scope::matches(set, url))
    }

    /// The rule by which a link of a page does not enter the frontier; `None` if it does, or is known.
    fn judge(&mut self, judging: &mut Judging, link: LinkRef<'_>, standing: Standing) -> Option<&'static str> {
        match standing {
            _ if self.excludes(link.url.as_str()) => Some(ScopeRule::Exclude.as_str()),
            Standing::NoRoom => Some(self.traps.refuse_host(link.url).as_str()),
            _ => self.traps.judge(judging, link, standing == Standing::Known).map(TrapRule::as_str),
        }
    }

    /// Whether links that wait in the frontier need [`Admission::skip_rule`]. Sitemaps always do.
    pub fn checks_queued(&self, is_scope_changed: bool) -> bool {
        self.excludes.is_some() || is_scope_changed
    }

    /// The rule by which a queued link must not be fetched any more; `None` if it may be fetched.
    pub fn skip_rule(&mut self, link: &Link, is_scope_changed: bool) -> Option<&'static str> {
        if self.is_excluded(link) {
            return Some(ScopeRule::Exclude.as_str());
        }
        if is_scope_changed
            && let ScopeVerdict::Reject(rule) = self.rules.scope.judge(link.url.as_ref(), link.depth, link.kind)
        {
            return Some(rule.as_str());
        }
        let is_spent = link.kind == LinkKind::SitemapFile && self.traps.is_sitemap_spent(link.url.host());
        is_spent.then(|| self.traps.drop_sitemap(link.url.as_ref()).as_str())
    }

    /// Adds a batch of a page's links. `pages` gets the counts to store with `--max-pages-per-host`, with the index of the
    /// link that reached them.
    fn put(
        &mut self,
        frontier: &mut impl Frontier,
        batch: &[LinkRef<'_>],
        judging: &mut Judging,
        findings: &mut PageFindings,
        pages: &mut Vec<(usize, u64)>,
    ) -> Result<Vec<Placement>, StoreError> {
        let new_hosts = if self.is_full_of_hosts { NewHosts::AreDeferred } else { NewHosts::GetLanes };
        frontier.put(batch, new_hosts, &mut |index, standing| {
            let Some(&link) = batch.get(index) else { return false };
            if let Some(rule) = self.judge(judging, link, standing) {
                if self.rules.log_skips {
                    findings.skipped.push((link.url.as_str().into(), rule));
                }
                return false;
            }
            if standing == Standing::New {
                Traps::entered(judging, link);
                pages.extend(self.traps.pages_to_note(link.url.host()).map(|pages| (index, pages)));
            }
            true
        })
    }
}

impl<F: Frontier + History> Keeper<F> {
    /// Adds the links of a page that the trap budgets allow. Returns the lanes that got work.
    pub(super) fn admit(&mut self, visit: &mut Visit, now: Time) -> Result<Vec<LaneId>, StoreError> {
        let mut placements = Vec::new();
        if visit.for_keeper.found.is_empty() && !visit.is_page() {
            return Ok(Vec::new());
        }
        let redirected = redirected_request(visit);
        // The state of the trap budgets for the links of this page.
        let mut judging = self.admission.traps.open(visit);
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
        self.admission.traps.close(&judging);
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
        let mut counts = Vec::new();
        let placements = self.admission.put(&mut self.frontier, batch, judging, findings, &mut counts)?;
        for (link, placement) in batch.iter().zip(&placements) {
            if let Placement::Queued(lane) = placement {
                self.bench.rank_again(*lane, link.rank());
            }
        }
        for (index, pages) in counts {
            if let Some(Placement::Queued(lane)) = placements.get(index) {
                Notes::change_lane(&mut self.frontier, *lane, |note| {
                    note.pages = pages;
                    true
                })?;
            }
        }
        Ok(placements)
    }

    /// The places where links were skipped, with the rule that decided.
    pub fn cuts(&self) -> Vec<Cut> {
        self.admission.traps.cuts()
    }

    /// Adds links that had to wait for the budget of their domain, and whose hosts the budget allows now.
    pub(super) fn release_hosts(&mut self, now: Time) -> Result<(), StoreError> {
        let released = self.admission.traps.take_released();
        if released.is_empty() { Ok(()) } else { self.put(released, now).map(drop) }
    }

    /// Leases links of a lane. Links that must not be fetched any more (see [`Admission::skip_rule`]) are settled without a
    /// fetch, and are not returned.
    fn take_included(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        let mut links = self.frontier.take(lane, max_links)?;
        let is_scope_changed = self.notes.progress.scope_changed;
        let mut skipped = 0;
        loop {
            let is_not_sitemap = |link: &Link| link.kind != LinkKind::SitemapFile;
            if !self.admission.checks_queued(is_scope_changed) && links.iter().all(is_not_sitemap) {
                return Ok(links);
            }
            let taken = links.len();
            let mut included = Vec::with_capacity(taken);
            for link in links {
                match self.admission.skip_rule(&link, is_scope_changed) {
                    None => included.push(link),
                    Some(rule) => {
                        self.skip(&link, rule)?;
                        skipped += 1;
                    }
                }
            }
            if !included.is_empty() || taken < max_links || skipped >= MAX_SKIPPED_PER_CALL {
                return Ok(included);
            }
            links = self.frontier.take(lane, max_links)?;
        }
    }

    /// Leases links for a lane: a batch, or fewer if requests are large.
    pub(super) fn take_for_workbench(&mut self, lane: LaneId) -> Result<Vec<Link>, StoreError> {
        let queued = self.bench.lane(lane).map_or(0, |lane| lane.queue.len());
        let max_links = self.admission.lane_links.room(queued, self.bench.lane_batch());
        if max_links == 0 {
            return Ok(Vec::new());
        }
        let mut links = self.take_included(lane, max_links)?;
        self.admission.lane_links.note(&links);
        // The first large requests of a resumed crawl are found only now.
        if let Some(excess) = self.admission.lane_links.split_excess(&mut links) {
            self.frontier.give_back(excess, ReturnTo::OldPlace)?;
        }
        Ok(links)
    }

    /// Settles a link without fetching it. Its record has the rule, for `explain`.
    pub(super) fn skip(&mut self, link: &Link, rule: &str) -> Result<(), StoreError> {
        let mut line = Vec::new();
        let via = link.via.as_ref().map_or("", |via| via.as_str());
        CrawlRecord::of_skip(link.url.as_str(), rule, via).encode(&mut line);
        let record = line.strip_suffix(b"\n").unwrap_or(&line);
        let final_outcome = FinalOutcome { outcome: Outcome::Refused, status: None, record, is_fetched_page: false };
        self.frontier.settle(&mut [Settlement::of(link, final_outcome)])
    }

    /// Counts the hosts and pages of earlier runs towards the budgets.
    pub(super) fn recall_traps(&mut self) -> Result<(), StoreError> {
        if !self.admission.traps.needs_earlier_hosts() {
            return Ok(());
        }
        for number in 0..u32::MAX {
            let lane = LaneId(number);
            let Some(host) = self.lane_name(lane).map(str::to_owned) else { break };
            // The lane of deferred links has no name.
            if host.is_empty() {
                continue;
            }
            let pages = Notes::of_lane(&mut self.frontier, lane)?.map_or(0, |note| note.pages);
            self.admission.traps.recall(&host, pages);
        }
        Ok(())
    }
}

/// The request for the target of a visit's redirect, if it is not a plain GET.
pub(super) fn redirected_request(visit: &Visit) -> Option<Arc<CustomRequest>> {
    let (request, target) = (visit.link.request.as_ref()?, visit.facts.redirect.as_ref()?);
    request.redirected(visit.facts.status?, target.origin() == visit.link.url.origin())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::job::Purpose;
    use crate::base::url::Url;
    use crate::crawl::rules::Config;

    #[test]
    fn a_link_is_judged_by_excludes_then_by_room_then_by_budgets() {
        let config =
            Config { roots: vec!["http://h.example/".into()], max_pages_per_host: Some(1), ..Config::default() };
        let mut admission = Admission::new(&Arc::new(config.compile(0).expect("valid settings")));
        let link = |path: &str| Link::root(Url::parse(&format!("http://h.example/{path}")).expect("a URL"), 5);
        let page = Visit::with_outcome(link(""), Purpose::Page, Outcome::Ok, Time::ZERO);
        let mut judging = admission.traps.open(&page);
        admission.exclude(&["/private/".to_owned()]).expect("a pattern");
        let mut judge = |path, standing| admission.judge(&mut judging, LinkRef::from(&link(path)), standing);
        assert_eq!(judge("private/a", Standing::NoRoom), Some("exclude"));
        assert_eq!(judge("a", Standing::NoRoom), Some("host_memory"));
        assert_eq!(judge("a", Standing::New), None);
        assert_eq!(judge("a", Standing::Known), None, "a known link is not counted again");
        assert_eq!(judge("b", Standing::New), Some("max_pages_per_host"));
    }

    #[test]
    fn a_queued_link_is_skipped_if_it_was_excluded_or_left_the_scope() {
        let config = Config { roots: vec!["http://h.example/".into()], depth: Some(1), ..Config::default() };
        let mut admission = Admission::new(&Arc::new(config.compile(0).expect("valid settings")));
        let link = |path: &str, depth: u32| Link {
            depth,
            kind: LinkKind::Anchor,
            ..Link::root(Url::parse(&format!("http://h.example/{path}")).expect("a URL"), 5)
        };
        assert!(!admission.checks_queued(false));
        assert_eq!(admission.skip_rule(&link("deep", 2), false), None, "it was in scope when it was queued");
        assert_eq!(admission.skip_rule(&link("deep", 2), true), Some("depth"));
        assert!(admission.exclude(&["(".to_owned()]).is_err());
        admission.exclude(&["/private/".to_owned()]).expect("a pattern");
        assert!(admission.checks_queued(false));
        assert_eq!(admission.skip_rule(&link("private/a", 1), false), Some("exclude"));
        assert_eq!(admission.skip_rule(&link("a", 1), true), None);
    }
}
