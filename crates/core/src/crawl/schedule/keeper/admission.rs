//! [`Admission`]: which links enter the frontier, and which of those that wait there may still be fetched.
//!
//! The scope was applied where a link was found. Here decide the budgets against crawler traps
//! ([`crate::crawl::schedule::trap`]), the memory for host names, and what the user excluded while the crawl was running.

use std::sync::Arc;

use regex::RegexSet;

use super::Keeper;
use super::notes::Notes;
use crate::base::custom_request::CustomRequest;
use crate::base::job::LaneId;
use crate::base::link::{Link, LinkKind, LinkRef};
use crate::base::time::Time;
use crate::crawl::rules::Rules;
use crate::crawl::schedule::frontier::{Frontier, History, NewHosts, Placement, Standing, StoreError, lanes_of};
use crate::crawl::schedule::trap::{Cut, Judging, TrapRule, Traps};
use crate::crawl::visit::{PageFindings, Visit};
use crate::page::scope::{self, BadPattern, ScopeRule, ScopeVerdict};

/// How many links are added to the frontier in one call. The cache lines that a frontier prefetches for them must fit into
/// the processor's cache.
const BATCH: usize = 64;

/// Decides about links.
pub(super) struct Admission {
    rules: Arc<Rules>,
    pub traps: Traps,
    /// Patterns that the user excluded while the crawl was running.
    excludes: Option<RegexSet>,
    /// Whether memory has no room for further host names.
    pub is_full_of_hosts: bool,
}

impl Admission {
    pub fn new(rules: &Arc<Rules>) -> Self {
        let traps = Traps::new(rules);
        Self { rules: Arc::clone(rules), traps, excludes: None, is_full_of_hosts: false }
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
    use crate::base::outcome::Outcome;
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
