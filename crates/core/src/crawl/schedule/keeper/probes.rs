//! [`Probes`]: requests for pages that do not exist, to learn how a host answers them.
//!
//! Some hosts answer every path with status 200. Their error pages can be told from real pages only by comparing them
//! with such an answer. A host is asked only if there is a reason, and at most once in a run. The request is a job of its
//! host like all others: robots.txt, pace and limits on time apply. It is no link, and it does not count as a page. Its
//! record has the fingerprints of the answer; `argiope audit` compares them with those of the pages.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Keeper;
use super::activation::LaneSet;
use crate::base::job::{LaneId, Purpose};
use crate::base::link::{Link, LinkKind};
use crate::base::time::Time;
use crate::base::url::Url;
use crate::crawl::rules::{Rules, Soft404};
use crate::crawl::schedule::frontier::{Frontier, History, StoreError};
use crate::crawl::schedule::trap::Recent;
use crate::crawl::visit::Visit;
use crate::page::follow_list::FollowList;
use crate::page::scope::ScopeVerdict;

/// How many titles of repeated texts are remembered.
const KEPT_TITLES: usize = 4_096;

/// Which hosts were asked in this run, and which may be.
pub(super) struct Probes {
    asked: LaneSet,
    /// The titles of pages that repeat the text of another one, mixed with their lane.
    repeated_titles: Recent,
}

impl Default for Probes {
    fn default() -> Self {
        Self { asked: LaneSet::default(), repeated_titles: Recent::with_capacity(KEPT_TITLES) }
    }
}

impl Probes {
    /// Whether a page that repeats the text of another one is the second to do so with this title. Error pages have a
    /// title, and all have the same; a page that a site has twice is not a reason to ask.
    fn repeats_title(&mut self, lane: LaneId, title: Option<&str>) -> bool {
        let mixed = |title: &str| xxh3_64_with_seed(title.as_bytes(), lane.index() as u64);
        title.is_some_and(|title| !self.repeated_titles.insert(mixed(title)))
    }
}

impl<F: Frontier + History> Keeper<F> {
    /// Asks the host of a page for one that does not exist, if the page is a reason to: its status is 200, two other
    /// pages of the host have the same text or nearly the same, and one of these has the same title.
    pub(super) fn probe_host(&mut self, visit: &Visit, repeats_text: bool, now: Time) -> Result<(), StoreError> {
        let is_page = visit.is_page() && visit.facts.status == Some(200) && visit.link.request.is_none();
        let Some((lane, _)) = visit.for_keeper.slot.filter(|_| is_page) else { return Ok(()) };
        let is_reason = match self.rules.soft_404 {
            Soft404::Never => false,
            Soft404::Auto => repeats_text && self.probes.repeats_title(lane, visit.findings.title.as_deref()),
            Soft404::Always => visit.findings.facts.is_some(),
        };
        if !is_reason || self.ended().is_some() || self.waiting.is_leaving(lane) || !self.probes.asked.insert(lane) {
            return Ok(());
        }
        if let Some(link) = probe_of(&visit.link, &self.rules) {
            self.bench.add_site_file(lane, link, Purpose::Probe, now);
        }
        Ok(())
    }

    /// Applies the answer of a host. Its links are not followed.
    pub(super) fn read_probe(visit: &mut Visit) {
        visit.for_keeper.found = FollowList::default();
        visit.findings.skipped = Default::default();
    }
}

/// The request for a page that does not exist, in the folder of this page; `None` if its URL is out of scope. The name
/// depends on the crawl's secret key, so that a host cannot know it.
fn probe_of(page: &Link, rules: &Rules) -> Option<Link> {
    let name = xxh3_64_with_seed(page.url.authority().as_bytes(), rules.fingerprint_key);
    let url: Url = page.url.join(&format!("argiope-{name:016x}")).ok()?;
    let kind = LinkKind::Other;
    let is_in_scope = rules.scope.judge(url.as_ref(), page.depth, LinkKind::Anchor) == ScopeVerdict::Follow;
    let (via, depth, redirects) = (Some(page.url.clone()), page.depth, rules.max_redirects);
    is_in_scope.then_some(Link { url, via, depth, redirects, tries: 0, kind, request: None })
}
