//! Changes to a running crawl: pause, pace, rate and excludes. Also settles queued links that may not be fetched any more.
//!
//! Pace, rate and excludes are stored with the crawl's progress, so that a resumed crawl has them. A pause is not
//! stored.

use super::Keeper;
use crate::base::job::LaneId;
use crate::base::link::{Link, LinkKind};
use crate::base::outcome::Outcome;
use crate::base::time::Time;
use crate::crawl::control::{Control, ControlVerdict};
use crate::crawl::record::CrawlRecord;
use crate::crawl::schedule::carryover::Steering;
use crate::crawl::schedule::frontier::{FinalOutcome, Frontier, History, ReturnTo, Settlement, StoreError};
use crate::crawl::schedule::keeper::End;
use crate::page::scope::{self, ScopeRule};

/// Limit on patterns that are excluded while a crawl is running: every URL is matched against all of them.
const MAX_EXCLUDES: usize = 1_000;
/// How many links of a queue are skipped before other work continues.
const MAX_SKIPPED_PER_CALL: usize = 4_096;

impl<F: Frontier + History> Keeper<F> {
    /// Applies a command of the user.
    pub fn control(&mut self, control: &Control, now: Time) -> Result<ControlVerdict, StoreError> {
        match control {
            Control::Pause => self.bench.set_paused(true),
            Control::Resume => self.bench.set_paused(false),
            Control::Stop => self.stop(End::Stopped),
            Control::Pace { pace } => {
                self.notes.progress.steering.pace = Some((self.rules.pace, *pace));
                self.bench.set_pace(*pace, now);
            }
            Control::Rate { rate } => {
                let rate = rate.map(|rate| rate.per_second);
                self.notes.progress.steering.rate = Some((self.rules.rate, rate));
                self.bench.set_rate(rate, now);
            }
            Control::Exclude { .. } | Control::ExcludeHost { .. } => {
                let pattern = control.exclude_pattern().unwrap_or_default();
                return self.exclude(pattern, now);
            }
        }
        Ok(ControlVerdict::Done)
    }

    /// The changes made while the crawl was running, in this run and earlier ones.
    pub fn steering(&self) -> &Steering {
        &self.notes.progress.steering
    }

    /// Excludes a pattern, and removes the matching links from the workbench.
    fn exclude(&mut self, pattern: String, now: Time) -> Result<ControlVerdict, StoreError> {
        let excludes = &self.notes.progress.steering.excludes;
        if excludes.contains(&pattern) {
            return Ok(ControlVerdict::Done);
        }
        if excludes.len() >= MAX_EXCLUDES {
            return Ok(ControlVerdict::Refused(format!("{MAX_EXCLUDES} patterns are excluded already")));
        }
        let mut all = excludes.clone();
        all.push(pattern);
        if let Err(bad) = self.admission.exclude(&all) {
            return Ok(ControlVerdict::Refused(bad.to_string()));
        }
        self.notes.progress.steering.excludes = all;
        for link in self.bench.remove(|link| self.admission.is_excluded(link), now) {
            self.skip(&link, ScopeRule::Exclude.as_str())?;
        }
        Ok(ControlVerdict::Done)
    }

    /// Drops the sitemap files of a site whose budget for them is spent. Those on the workbench are dropped now, those
    /// in the frontier when they are taken.
    pub(super) fn drop_sitemaps(&mut self, host: &str, now: Time) -> Result<(), StoreError> {
        let site = scope::domain_key(host);
        let is_of_site = |link: &Link| link.kind == LinkKind::SitemapFile && scope::domain_key(link.url.host()) == site;
        for link in self.bench.remove(is_of_site, now) {
            let rule = self.admission.traps.drop_sitemap(link.url.as_ref());
            self.skip(&link, rule.as_str())?;
        }
        Ok(())
    }

    /// Applies the changes of earlier runs. If the command line has another value than when the change was made, the
    /// command line wins.
    pub(super) fn recall_steering(&mut self, now: Time) {
        let steering = self.notes.progress.steering.clone();
        if let Some((given, pace)) = steering.pace {
            if given == self.rules.pace {
                self.bench.set_pace(pace, now);
            } else {
                self.notes.progress.steering.pace = None;
            }
        }
        if let Some((given, rate)) = steering.rate {
            if given == self.rules.rate {
                self.bench.set_rate(rate, now);
            } else {
                self.notes.progress.steering.rate = None;
            }
        }
        // The patterns were checked when they were added.
        let _ = self.admission.exclude(&steering.excludes);
    }

    /// Leases links of a lane. Links that must not be fetched any more (see [`Admission::skip_rule`](super::admission::Admission::skip_rule)) are settled without a
    /// fetch, and are not returned.
    pub(super) fn take_included(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
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
        let max_links = self.lane_links.room(queued, self.bench.lane_batch());
        if max_links == 0 {
            return Ok(Vec::new());
        }
        let mut links = self.take_included(lane, max_links)?;
        self.lane_links.note(&links);
        // The first large requests of a resumed crawl are found only now.
        if let Some(excess) = self.lane_links.split_excess(&mut links) {
            self.frontier.give_back(excess, ReturnTo::OldPlace)?;
        }
        Ok(links)
    }

    /// Settles a link without fetching it. Its record has the rule, for `explain`.
    fn skip(&mut self, link: &Link, rule: &str) -> Result<(), StoreError> {
        let mut line = Vec::new();
        let via = link.via.as_ref().map_or("", |via| via.as_str());
        CrawlRecord::of_skip(link.url.as_str(), rule, via).encode(&mut line);
        let record = line.strip_suffix(b"\n").unwrap_or(&line);
        let final_outcome = FinalOutcome { outcome: Outcome::Refused, status: None, record, is_fetched_page: false };
        self.frontier.settle(&mut [Settlement::of(link, final_outcome)])
    }
}
