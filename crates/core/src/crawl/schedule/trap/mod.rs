//! [`Traps`]: budgets that keep the crawl out of endless sites.
//!
//! Some sites are endless: calendars, session identifiers in URLs, combinations of facets, error pages with status 200,
//! mazes for crawlers. Most of their URLs look like those of a large site, so a single URL is rejected only if its path
//! is very deep. [`crate::page::scope`] rejects such paths, and they are counted here. Other links are charged to
//! budgets:
//!
//! | a link is charged | to | rule |
//! |---|---|---|
//! | found on a page with the same text as another page of its host | its pattern and its host | `stale_pattern`, `stale_host` |
//! | far from the roots, found on a page with nearly the same text | its pattern and its host | `alike_pattern`, `alike_host` |
//! | with a path that repeats itself | its host | `path_repeats` |
//! | with a combination of parameters beyond the first few of its path | its path | `query_variants` |
//! | found on a page that links almost only to unknown pages | its host | `endless_host` |
//! | to an unknown host, also by a request of a rendered page | its registrable domain | `domain_hosts` |
//! | any | its host, with `--max-pages-per-host` | `max_pages_per_host` |
//! | any, by its length | the site of its page, which gets credit for bytes and pages | `log_bytes` |
//! | the same, of another domain | the site of its page | `source_hosts` |
//! | named by a robots.txt or an index of sitemaps | the site of that file | `sitemap_files`, `sitemap_bytes` |
//! | listed by a sitemap | the site of the sitemap | `sitemap_entries`, `log_bytes` |
//!
//! On an ordinary site, no budget runs out. Pages with new text refill the budgets. A link whose budget is spent does
//! not enter the frontier: it has no record and is counted here.
//!
//! Roots and links that the user adds are not charged. They only count towards `--max-pages-per-host`. Entries of
//! sitemaps count towards this limit too, and are charged only to the budgets of sitemaps and of the log (`costs`).
//!
//! Each run starts with full budgets, except those for the hosts of a domain and for `--max-pages-per-host`. Memory is
//! bounded, independent of the number of hosts and patterns.

mod charges;
mod costs;
mod cuts;
mod domains;
mod recent;
mod rule;
mod sitemaps;

use hashbrown::HashMap;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::base::job::LaneId;
use crate::base::link::Link;
use crate::base::link::LinkRef;
use crate::base::outcome::Truncated;
use crate::base::url::{Url, UrlRef};
use crate::crawl::rules::{Rules, ScopeKind, TrapPolicy};
use crate::crawl::visit::Visit;
use crate::page::likeness::{Likeness, mix};
use crate::page::scope::domain_key;
use crate::page::url_shape::is_circular;

use charges::{Budgets, HostCharges, Variants};
use costs::{Cost, SiteCosts};
pub use cuts::Cut;
use cuts::{Cuts, ELSEWHERE};
use domains::Domains;
pub use recent::Recent;
pub use rule::TrapRule;

/// How many fingerprints are kept at least; at most twice as many are. Each page has two fingerprints.
const KEPT_FINGERPRINTS: usize = 1 << 17;
/// Depth beyond which nearly equal pages are charged. Large sites are wide and shallow; chains of "next" links are
/// deep.
const FAR_DEPTH: u32 = 64;
/// A page links almost only to unknown pages if fewer than one in this many of its links is known.
const LINKS_PER_KNOWN: u32 = 20;

/// How new the text of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Novelty {
    /// New, or too short to compare.
    New,
    /// Not the same as that of any other page, but nearly the same as one.
    Alike,
    /// The same as that of another page, or truncated by a deadline.
    Same,
}

/// The state while the links of one page are judged.
#[derive(Debug)]
pub struct Judging {
    /// The URL of the page.
    page: Url,
    /// The lane of the page; `None` if it is not a page that was fetched.
    lane: Option<LaneId>,
    novelty: Novelty,
    /// Whether a deadline cut off the page.
    is_cut: bool,
    /// Whether the link that was judged last is to the page's own host.
    is_same_host: bool,
    /// Whether the path of at least one link repeats itself.
    has_circular_path: bool,
    /// The number of links to the page's own host.
    links: u32,
    /// How many of these were unknown.
    unknown: u32,
    /// In bytes of the log: the credit for this response, the cost of its links so far, and the limit on that cost.
    log_credit: u64,
    log_cost: u64,
    log_limit: u64,
}

impl Judging {
    /// Whether another page of the host has the same text, or nearly the same.
    pub fn repeats_text(&self) -> bool {
        self.novelty != Novelty::New && !self.is_cut
    }
}

/// The budgets of the crawl, and the charges to them.
#[derive(Debug)]
pub struct Traps {
    /// `None` with `--traps ignore`.
    budgets: Option<Budgets>,
    /// Fingerprints of texts and sketches of pages, mixed with their lane.
    seen: Recent,
    /// Random, so that a site cannot construct a text that collides with one of another host.
    key: u64,
    /// Charges of hosts and of their patterns, by the hash of the host.
    charges: HashMap<u64, HostCharges>,
    /// Combinations of parameters, by path (the newer half of a two-generation cache).
    variants: HashMap<u64, Variants>,
    /// Paths not seen since `variants` was last full (the older half).
    older_variants: HashMap<u64, Variants>,
    /// The number of links on pages that link almost only to unknown pages, by lane.
    unknown: Vec<u32>,
    /// The hosts of each domain; `None` with `--traps ignore`, or if the scope excludes other hosts and no page is
    /// rendered.
    domains: Option<Domains>,
    /// The costs of sites; `None` with `--traps ignore`.
    costs: Option<SiteCosts>,
    max_pages_per_host: Option<u64>,
    /// With `--max-pages-per-host`: the number of links that entered the frontier, by the hash of the host.
    pages: HashMap<u64, u64>,
    cuts: Cuts,
}

impl Traps {
    pub fn new(rules: &Rules) -> Self {
        let budgets = (rules.traps == TrapPolicy::Avoid).then(|| Budgets::new(rules.trap_budget));
        let is_wide = matches!(rules.scope_kind, ScopeKind::Domain | ScopeKind::Any) || rules.render.is_some();
        Self {
            budgets,
            seen: Recent::with_capacity(KEPT_FINGERPRINTS),
            key: rules.fingerprint_key,
            charges: HashMap::new(),
            variants: HashMap::new(),
            older_variants: HashMap::new(),
            unknown: Vec::new(),
            domains: budgets.filter(|_| is_wide).map(|budgets| Domains::new(budgets.hosts)),
            costs: budgets.map(|_| SiteCosts::new(rules.trap_budget)),
            max_pages_per_host: rules.max_pages_per_host,
            pages: HashMap::new(),
            cuts: Cuts::default(),
        }
    }

    /// Admits the host of a link without a charge, and counts the link towards `--max-pages-per-host`. Used for links
    /// from the user, from a sitemap, or to hosts that were released.
    pub fn admit_uncharged(&mut self, host: &str) {
        if let Some(domains) = &mut self.domains {
            domains.admit_always(host);
        }
        if self.max_pages_per_host.is_some() {
            *self.pages.entry(xxh3_64(host.as_bytes())).or_default() += 1;
        }
    }

    /// Whether the budgets depend on the hosts of earlier runs.
    pub fn needs_earlier_hosts(&self) -> bool {
        self.domains.is_some() || self.max_pages_per_host.is_some()
    }

    /// Restores a host of an earlier run, and how many links to it entered the frontier.
    pub fn recall(&mut self, host: &str, pages: u64) {
        if let Some(domains) = &mut self.domains {
            domains.recall(host);
        }
        if self.max_pages_per_host.is_some() {
            self.pages.insert(xxh3_64(host.as_bytes()), pages);
        }
    }

    /// Starts judging the links of a page.
    pub fn open(&mut self, visit: &Visit) -> Judging {
        let lane = visit.for_keeper.slot.map(|(lane, _)| lane).filter(|_| visit.is_page());
        let mut judging = Judging {
            page: visit.link.url.clone(),
            lane,
            novelty: Novelty::New,
            is_cut: visit.facts.truncated == Some(Truncated::Time),
            is_same_host: false,
            has_circular_path: visit.for_keeper.found.has_circular_path(),
            links: 0,
            unknown: 0,
            log_credit: 0,
            log_cost: 0,
            log_limit: u64::MAX,
        };
        let (Some(lane), Some(_)) = (lane, self.budgets) else { return judging };
        for rejected in &visit.findings.rejected {
            if let Some(rule) = TrapRule::of_scope(rejected.rule) {
                self.cuts.add(rule, visit.link.url.host(), u64::from(rejected.count), &rejected.example);
            }
        }
        judging.novelty = self.novelty(visit, lane);
        self.refund(&judging, visit);
        if let Some(costs) = &mut self.costs {
            // A page without a likeness is too short to show that the site has new text.
            let is_new = judging.novelty != Novelty::Same && visit.for_keeper.likeness.is_some();
            if is_new {
                costs.credit_new_page(visit.link.url.host());
            }
            judging.log_credit = costs::log_credit(visit.facts.bytes_wire, visit.facts.status.is_some());
            judging.log_limit = judging.log_credit.saturating_add(costs.left(Cost::Log, visit.link.url.host()));
        }
        judging
    }

    /// Compares the text of a page with the other pages of its host.
    fn novelty(&mut self, visit: &Visit, lane: LaneId) -> Novelty {
        if visit.facts.truncated == Some(Truncated::Time) {
            return Novelty::Same;
        }
        let Some(Likeness { text, sketch }) = visit.for_keeper.likeness else { return Novelty::New };
        let lane = xxh3_64_with_seed(&lane.0.to_le_bytes(), self.key);
        let is_new_text = self.seen.insert(mix(text ^ lane));
        // Inverted, so that a sketch does not equal a text in the same set.
        let is_new_sketch = self.seen.insert(!mix(sketch ^ lane));
        match (is_new_text, is_new_sketch) {
            (false, _) => Novelty::Same,
            (true, false) => Novelty::Alike,
            (true, true) => Novelty::New,
        }
    }

    /// Charges a link. Returns the rule if the link must be skipped. A link that is already in the frontier is not
    /// charged.
    pub fn judge(&mut self, judging: &mut Judging, link: LinkRef<'_>, is_known: bool) -> Option<TrapRule> {
        let url = link.url;
        let is_same_host = url.host() == judging.page.host();
        judging.is_same_host = is_same_host;
        judging.links += u32::from(is_same_host);
        let Some(budgets) = self.budgets else {
            let max_pages = self.max_pages_per_host.filter(|_| !is_known)?;
            return self.count_page(url, max_pages);
        };
        if is_known {
            return None;
        }
        let is_stale = match judging.novelty {
            Novelty::New => false,
            Novelty::Alike => link.depth > FAR_DEPTH,
            Novelty::Same => true,
        };
        let unknown = judging.lane.and_then(|lane| self.unknown.get(lane.index())).copied().unwrap_or(0);
        let is_endless = is_same_host && unknown >= budgets.unknown;
        let is_new_host = !is_same_host && self.domains.as_ref().is_some_and(|domains| !domains.knows(url.host()));
        // A single parameter is not a combination.
        let query = url.query().filter(|query| query.contains('&'));
        let is_costly = judging.log_cost >= judging.log_limit;
        let is_circular = judging.has_circular_path && is_circular(url.path());
        // The cheapest checks come first; those with permanent effects come last.
        let rule = if is_endless { self.skip_link(TrapRule::EndlessHost, url.host(), url) } else { None };
        let site = domain_key(judging.page.host());
        let rule = rule
            .or_else(|| if is_costly { self.skip_link(TrapRule::LogBytes, site, url) } else { None })
            .or_else(|| if is_circular { self.charge_circular(url, budgets) } else { None })
            .or_else(|| query.and_then(|query| self.charge_combination(url, query, budgets)))
            .or_else(|| if is_stale { self.charge_stale(judging.novelty, url, budgets) } else { None })
            .or_else(|| if is_new_host { self.admit_linked_host(link, site) } else { None })
            .or_else(|| self.max_pages_per_host.and_then(|max_pages| self.count_page(url, max_pages)));
        judging.unknown += u32::from(is_same_host && rule.is_some());
        rule
    }

    /// Counts the link that was judged last, which was new and has entered the frontier.
    pub fn entered(judging: &mut Judging, link: LinkRef<'_>) {
        judging.unknown += u32::from(judging.is_same_host);
        judging.log_cost += costs::of_link(link.url.as_str());
    }

    /// Ends judging the links of a page.
    pub fn close(&mut self, judging: &Judging) {
        let (Some(lane), Some(budgets)) = (judging.lane, self.budgets) else { return };
        if let Some(costs) = &mut self.costs {
            costs.charge(Cost::Log, judging.page.host(), judging.log_cost, judging.log_credit);
        }
        if self.unknown.len() <= lane.index() {
            self.unknown.resize(lane.index() + 1, 0);
        }
        let Some(unknown) = self.unknown.get_mut(lane.index()) else { return };
        // A page with enough known links refunds as many charges as it has links.
        let known = judging.links.saturating_sub(judging.unknown);
        *unknown = if judging.unknown == 0 || known.saturating_mul(LINKS_PER_KNOWN) >= judging.links {
            unknown.saturating_sub(judging.links.max(1))
        } else {
            unknown.saturating_add(judging.unknown).min(budgets.unknown)
        };
    }

    /// Counts a link to a host whose name does not fit into memory.
    pub fn refuse_host(&mut self, url: UrlRef<'_>) -> TrapRule {
        self.cuts.add(TrapRule::HostMemory, ELSEWHERE, 1, url.as_str());
        TrapRule::HostMemory
    }

    /// Takes the waiting links to hosts that the budget of their domain allows now.
    pub fn take_released(&mut self) -> Vec<Link> {
        self.domains.as_mut().map(Domains::take_released).unwrap_or_default()
    }

    /// With `--max-pages-per-host`: how many links to a host entered the frontier, if that is to be stored, because the
    /// limit applies to all runs together. The count is stored in steps: after a crash, a host may exceed the limit by a
    /// sixteenth.
    pub fn pages_to_note(&self, host: &str) -> Option<u64> {
        let limit = self.max_pages_per_host?;
        let pages = self.pages.get(&xxh3_64(host.as_bytes())).copied()?;
        (pages == limit || pages.is_multiple_of((limit / 16).max(1))).then_some(pages)
    }

    /// The places where links were skipped, largest numbers first.
    pub fn cuts(&self) -> Vec<Cut> {
        self.cuts.list()
    }

    /// Charges a request of a rendered page, if its host is not known. Returns the rule if it must not be sent.
    pub fn judge_part(&mut self, link: &Link, is_full_of_hosts: bool) -> Option<TrapRule> {
        let url = link.url.as_ref();
        if self.domains.as_ref()?.knows(url.host()) {
            return None;
        }
        if is_full_of_hosts {
            return Some(self.refuse_host(url));
        }
        self.admit_host(url, domain_key(link.via.as_ref().map_or(url.host(), Url::host)))
    }

    /// As [`Self::admit_host`]. If the domain has no room, the link waits until it has.
    fn admit_linked_host(&mut self, link: LinkRef<'_>, site: &str) -> Option<TrapRule> {
        let rule = self.admit_host(link.url, site)?;
        if let (TrapRule::DomainHosts, Some(domains)) = (rule, &mut self.domains) {
            domains.wait(link);
        }
        Some(rule)
    }

    /// Admits an unknown host to which a page of `site` refers, if the budgets of its domain and of that site allow.
    fn admit_host(&mut self, url: UrlRef<'_>, site: &str) -> Option<TrapRule> {
        let is_other_site = domain_key(url.host()) != site;
        if is_other_site && self.costs.as_ref().is_some_and(|costs| costs.left(Cost::Hosts, site) == 0) {
            return self.skip_link(TrapRule::SourceHosts, site, url);
        }
        let domains = self.domains.as_mut()?;
        if domains.admit(url.host()) {
            if let Some(costs) = self.costs.as_mut().filter(|_| is_other_site) {
                costs.charge(Cost::Hosts, site, 1, 0);
            }
            return None;
        }
        self.skip_link(TrapRule::DomainHosts, domain_key(url.host()), url)
    }

    /// Counts a link towards `--max-pages-per-host`.
    fn count_page(&mut self, url: UrlRef<'_>, max_pages: u64) -> Option<TrapRule> {
        let pages = self.pages.entry(xxh3_64(url.host().as_bytes())).or_default();
        if *pages >= max_pages {
            return self.skip_link(TrapRule::MaxPagesPerHost, url.host(), url);
        }
        *pages += 1;
        None
    }

    /// Counts one skipped link, and returns the rule.
    fn skip_link(&mut self, rule: TrapRule, at: &str, url: UrlRef<'_>) -> Option<TrapRule> {
        self.cuts.add(rule, at, 1, url.as_str());
        Some(rule)
    }
}

#[cfg(test)]
mod tests;
