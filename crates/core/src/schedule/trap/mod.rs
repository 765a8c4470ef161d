//! [`Traps`]: budgets that keep the crawl out of endless sites.
//!
//! Some sites are endless: calendars, session identifiers in URLs, combinations of facets, error pages with status 200,
//! mazes for crawlers. They cannot be distinguished from a large site by a single URL. So no URL is forbidden by
//! itself. Links are charged to budgets:
//!
//! | a link is charged | to | rule |
//! |---|---|---|
//! | found on a page with the same text as another page of its host | its pattern and its host | `stale_pattern`, `stale_host` |
//! | far from the roots, found on a page with nearly the same text | its pattern and its host | `alike_pattern`, `alike_host` |
//! | with a combination of parameters beyond the first few of its path | its path | `query_variants` |
//! | found on a page that links almost only to unknown pages | its host | `endless_host` |
//! | to an unknown host | its registrable domain | `domain_hosts` |
//! | any | its host, with `--max-pages-per-host` | `max_pages_per_host` |
//! | any, by its length | the site of its page, which gets credit for bytes and pages | `log_bytes` |
//! | to an unknown host of another domain | the site of its page | `source_hosts` |
//! | named by a robots.txt or an index of sitemaps | its site | `sitemap_files`, `sitemap_bytes` |
//! | listed by a sitemap | its site | `sitemap_entries`, `log_bytes` |
//!
//! Every other link is free. On an ordinary site, all links are free. Pages with new text refill the budgets. A link
//! whose budget is spent does not enter the frontier: it has no record and is counted here. Paths that repeat or are
//! very deep are rejected by [`crate::page::scope`]; they are counted here too.
//!
//! Roots and links that the user adds are not charged. They only count towards `--max-pages-per-host`. Entries of
//! sitemaps count towards this limit too, and are charged only to the budgets of sitemaps and of the log (`costs`).
//!
//! Each run starts with full budgets, except those for the hosts of a domain and for `--max-pages-per-host`. Memory is
//! bounded, independent of the number of hosts and patterns.

mod costs;
mod domains;
mod likeness;
mod pattern;
mod recent;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::outcome::Truncated;
use crate::page::link::{Link, LinkKind};
use crate::page::scope::{ScopeRule, domain_key};
use crate::page::sitemap::Sitemap;
use crate::page::url::{Url, UrlRef};
use crate::rules::{Rules, ScopeKind, TrapPolicy};
use crate::schedule::frontier::{LaneId, LinkRef};
use crate::visit::Visit;

use costs::{Cost, SiteCosts};
use domains::Domains;
pub use likeness::{Likeness, LikenessReader, MinHash, WordCount};
pub use pattern::{is_circular, is_deep, pattern};
pub use recent::Recent;

/// How many fingerprints are kept at least; at most twice as many are. Each page has two fingerprints.
const KEPT_FINGERPRINTS: usize = 1 << 17;
/// Limit on hosts with charges. Links to further hosts are not charged.
///
/// Also the number of paths whose combinations of parameters are kept at least; at most twice as many are.
const MAX_TRACKED: usize = 4_096;
/// Limit on patterns per host with their own budgets. Links of other patterns are charged to the host only.
const MAX_PATTERNS: usize = 64;
/// Limit on cuts, which are places with skipped links, that are reported individually.
const MAX_CUTS: usize = 1_000;
/// Limit on the characters of the example URL of a cut.
const MAX_EXAMPLE: usize = 1_000;
/// Limit on cuts per host, so that one host does not displace others from the report.
const MAX_CUTS_PER_HOST: usize = 64;
/// The place under which all further skipped links are counted.
const ELSEWHERE: &str = "elsewhere";
/// Depth beyond which nearly equal pages are charged. Large sites are wide and shallow; chains of "next" links are
/// deep.
const FAR_DEPTH: u32 = 64;
/// Number of charges that a page with new text refunds.
const REFUND: u32 = 16;
/// Free combinations of parameter names per path, because one script may serve a whole site.
const FREE_COMBINATIONS: usize = 16;
/// A page links almost only to unknown pages if fewer than one in this many of its links is known.
const LINKS_PER_KNOWN: u32 = 20;

/// The budgets, all derived from `--trap-budget`. Each is a number of links, except `hosts`. The weaker a sign of a trap
/// is, the larger is its budget.
#[derive(Clone, Copy, Debug)]
struct Budgets {
    /// Per pattern: links on pages with the same text as another page.
    same: u32,
    /// Per pattern: links on distant pages with nearly the same text as another page.
    alike: u32,
    /// Per path: links with new combinations of parameters.
    variants: u32,
    /// Per host: links on pages that link almost only to unknown pages.
    unknown: u32,
    /// How many hosts a registrable domain without useful hosts may have: see [`Domains`].
    hosts: u32,
}

impl Budgets {
    fn new(budget: u32) -> Self {
        Self {
            same: budget,
            alike: budget.saturating_mul(4),
            variants: budget.saturating_mul(4),
            unknown: budget.saturating_mul(256),
            hosts: (budget / 64).max(1),
        }
    }
}

/// The budget of a host is this many times that of one of its patterns.
const PATTERNS_PER_HOST: u32 = 16;

/// Why a link was skipped. The names are stable, because records and scripts use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrapRule {
    PathDepth,
    PathRepeats,
    StalePattern,
    StaleHost,
    AlikePattern,
    AlikeHost,
    QueryVariants,
    EndlessHost,
    DomainHosts,
    SourceHosts,
    LogBytes,
    SitemapFiles,
    SitemapEntries,
    SitemapBytes,
    HostMemory,
    MaxPagesPerHost,
}

impl TrapRule {
    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PathDepth => "path_depth",
            Self::PathRepeats => "path_repeats",
            Self::StalePattern => "stale_pattern",
            Self::StaleHost => "stale_host",
            Self::AlikePattern => "alike_pattern",
            Self::AlikeHost => "alike_host",
            Self::QueryVariants => "query_variants",
            Self::EndlessHost => "endless_host",
            Self::DomainHosts => "domain_hosts",
            Self::SourceHosts => "source_hosts",
            Self::LogBytes => "log_bytes",
            Self::SitemapFiles => "sitemap_files",
            Self::SitemapEntries => "sitemap_entries",
            Self::SitemapBytes => "sitemap_bytes",
            Self::HostMemory => "host_memory",
            Self::MaxPagesPerHost => "max_pages_per_host",
        }
    }

    /// Description for reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::PathDepth => "the path is very deep",
            Self::PathRepeats => "the path repeats itself",
            Self::StalePattern | Self::StaleHost => "found on pages with the same text as other pages",
            Self::AlikePattern | Self::AlikeHost => {
                "found deep in the site, on pages with nearly the same text as others"
            }
            Self::QueryVariants => "very many combinations of parameters of one path",
            Self::EndlessHost => "the pages of this host link almost only to new pages",
            Self::DomainHosts => "this domain has very many hosts, and few of them have pages with new content",
            Self::SourceHosts => "this site links to very many new hosts, and has few pages with new content",
            Self::LogBytes => "the links of this site are very long compared with what it sends",
            Self::SitemapFiles => "this site has very many sitemaps, and few pages with new content",
            Self::SitemapEntries => "the sitemaps of this site list very many pages, and few with new content",
            Self::SitemapBytes => "the sitemaps of this site are very long, and few of its pages have new content",
            Self::HostMemory => "the names of more hosts do not fit into --max-memory",
            Self::MaxPagesPerHost => "the limit of pages per host",
        }
    }

    /// How to lift the restriction.
    pub fn advice(self) -> &'static str {
        match self {
            Self::PathDepth | Self::PathRepeats => "--traps ignore with --recrawl",
            Self::MaxPagesPerHost => "raise --max-pages-per-host, with --recrawl",
            Self::HostMemory => "raise --max-memory, or use a crawl directory",
            _ => "raise --trap-budget, or --traps ignore, with --recrawl",
        }
    }

    fn of_scope(rule: ScopeRule) -> Option<Self> {
        match rule {
            ScopeRule::PathDepth => Some(Self::PathDepth),
            ScopeRule::PathRepeats => Some(Self::PathRepeats),
            _ => None,
        }
    }
}

/// A place where links were skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    pub rule: TrapRule,
    /// The pattern, path, host or domain.
    pub at: Box<str>,
    /// Number of skipped links; a link found twice counts twice.
    #[serde(alias = "left")]
    pub skipped: u64,
    /// The first skipped link. For the rules about paths, only its first characters.
    pub example: Box<str>,
}

impl Cut {
    /// Whether a URL that is not in the frontier may be one of the links that were skipped here.
    pub fn covers(&self, url: UrlRef<'_>) -> bool {
        if *self.at == *ELSEWHERE {
            return match self.rule {
                TrapRule::PathDepth => is_deep(url.path()),
                TrapRule::PathRepeats => is_circular(url.path()),
                TrapRule::QueryVariants => url.query().is_some_and(|query| query.contains('&')),
                TrapRule::SitemapFiles | TrapRule::SitemapBytes => false,
                _ => true,
            };
        }
        let at = match self.rule {
            // These cuts are named after the site on which the links were found, which does not follow from the URL.
            TrapRule::SourceHosts | TrapRule::LogBytes | TrapRule::HostMemory => return true,
            TrapRule::SitemapFiles | TrapRule::SitemapBytes | TrapRule::SitemapEntries => domain_key(url.host()),
            TrapRule::StalePattern | TrapRule::AlikePattern => return *self.at == *pattern(url),
            TrapRule::QueryVariants => return *self.at == *path_of(url),
            TrapRule::DomainHosts => domain_key(url.host()),
            TrapRule::PathDepth => return *self.at == *url.host() && is_deep(url.path()),
            TrapRule::PathRepeats => return *self.at == *url.host() && is_circular(url.path()),
            TrapRule::StaleHost | TrapRule::AlikeHost | TrapRule::EndlessHost | TrapRule::MaxPagesPerHost => url.host(),
        };
        *self.at == *at
    }
}

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
    /// Whether the link that was judged last is to the page's own host.
    is_same_host: bool,
    /// The number of links to the page's own host.
    links: u32,
    /// How many of these were unknown.
    unknown: u32,
    /// In bytes of the log: the credit for this response, the cost of its links so far, and the limit on that cost.
    log_credit: u64,
    log_cost: u64,
    log_limit: u64,
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
    /// The hosts of each domain; `None` if the scope excludes other hosts.
    domains: Option<Domains>,
    /// The costs of sites; `None` with `--traps ignore`.
    costs: Option<SiteCosts>,
    max_pages_per_host: Option<u64>,
    /// With `--max-pages-per-host`: the number of links that entered the frontier, by the hash of the host.
    pages: HashMap<u64, u64>,
    cuts: HashMap<(TrapRule, Box<str>), Cut>,
    /// Number of cuts, by the hash of the host.
    cuts_of_host: HashMap<u64, usize>,
}

/// The charges of one host: in total, and by the hash of a pattern.
#[derive(Debug, Default)]
struct HostCharges {
    all: Charges,
    patterns: HashMap<u64, Charges>,
}

/// Numbers of charged links.
#[derive(Clone, Copy, Debug, Default)]
struct Charges {
    /// Links on pages with the same text as another page.
    same: u32,
    /// Links on pages with nearly the same text as another page.
    alike: u32,
}

impl Charges {
    fn of(&mut self, novelty: Novelty) -> &mut u32 {
        if novelty == Novelty::Same { &mut self.same } else { &mut self.alike }
    }
}

/// The combinations of parameters of one path.
#[derive(Clone, Debug, Default)]
struct Variants {
    /// Hashes of the free combinations.
    combinations: Vec<u64>,
    /// Number of links with other combinations.
    charged: u32,
}

impl Traps {
    pub fn new(rules: &Rules) -> Self {
        let budgets = (rules.traps == TrapPolicy::Avoid).then(|| Budgets::new(rules.trap_budget));
        let is_wide = matches!(rules.scope_kind, ScopeKind::Domain | ScopeKind::Any);
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
            cuts: HashMap::new(),
            cuts_of_host: HashMap::new(),
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
            is_same_host: false,
            links: 0,
            unknown: 0,
            log_credit: 0,
            log_cost: 0,
            log_limit: u64::MAX,
        };
        let (Some(lane), Some(_)) = (lane, self.budgets) else { return judging };
        for rejected in &visit.findings.rejected {
            if let Some(rule) = TrapRule::of_scope(rejected.rule) {
                self.cut(rule, visit.link.url.host(), u64::from(rejected.count), &rejected.example);
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
        let is_new_text = self.seen.insert(likeness::mix(text ^ lane));
        // Inverted, so that a sketch does not equal a text in the same set.
        let is_new_sketch = self.seen.insert(!likeness::mix(sketch ^ lane));
        match (is_new_text, is_new_sketch) {
            (false, _) => Novelty::Same,
            (true, false) => Novelty::Alike,
            (true, true) => Novelty::New,
        }
    }

    /// Refunds charges to the pattern and host of a page with new text.
    fn refund(&mut self, judging: &Judging, visit: &Visit) {
        if judging.novelty == Novelty::Same || visit.for_keeper.likeness.is_none() {
            return;
        }
        if let (Some(domains), Some(lane)) = (&mut self.domains, judging.lane) {
            domains.count_useful_page(lane, visit.link.url.host());
        }
        let url = visit.link.url.as_ref();
        let Some(host) = self.charges.get_mut(&xxh3_64(url.host().as_bytes())) else { return };
        let of_pattern = host.patterns.get_mut(&xxh3_64(pattern(url).as_bytes()));
        for charges in of_pattern.into_iter().chain([&mut host.all]) {
            charges.same = charges.same.saturating_sub(REFUND);
            if judging.novelty == Novelty::New {
                charges.alike = charges.alike.saturating_sub(REFUND);
            }
        }
    }

    /// Charges a link. Returns the rule if the link must be skipped. `is_known` returns whether the link is already in
    /// the frontier. Such a link is not charged.
    pub fn judge<E>(
        &mut self,
        judging: &mut Judging,
        link: LinkRef<'_>,
        is_known: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Option<TrapRule>, E> {
        let url = link.url;
        let is_same_host = url.host() == judging.page.host();
        judging.is_same_host = is_same_host;
        judging.links += u32::from(is_same_host);
        let Some(budgets) = self.budgets else {
            let Some(max_pages) = self.max_pages_per_host else { return Ok(None) };
            return Ok(if is_known()? { None } else { self.count_page(url, max_pages) });
        };
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
        let is_charged =
            is_stale || is_endless || is_new_host || is_costly || query.is_some() || self.max_pages_per_host.is_some();
        if !is_charged || is_known()? {
            return Ok(None);
        }
        // The cheapest checks come first; those with permanent effects come last.
        let rule = if is_endless { self.skip_link(TrapRule::EndlessHost, url.host(), url) } else { None };
        let site = domain_key(judging.page.host());
        let rule = rule
            .or_else(|| if is_costly { self.skip_link(TrapRule::LogBytes, site, url) } else { None })
            .or_else(|| query.and_then(|query| self.charge_combination(url, query, budgets)))
            .or_else(|| if is_stale { self.charge_stale(judging.novelty, url, budgets) } else { None })
            .or_else(|| if is_new_host { self.admit_host(link, site) } else { None })
            .or_else(|| self.max_pages_per_host.and_then(|max_pages| self.count_page(url, max_pages)));
        judging.unknown += u32::from(is_same_host && rule.is_some());
        Ok(rule)
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

    /// Removes the links of a sitemap, or those to sitemaps, that the budgets of the site of `host` do not allow. They
    /// are counted as skipped.
    pub fn limit_sitemap(&mut self, host: &str, links: &mut Vec<Link>) {
        let Some(costs) = &self.costs else { return };
        let left = |cost| costs.left(cost, host);
        let (mut files, mut entries, mut log) = (left(Cost::SitemapFiles), left(Cost::SitemapEntries), left(Cost::Log));
        if left(Cost::SitemapBytes) == 0 {
            files = 0;
        }
        let site = domain_key(host);
        links.retain(|link| {
            let text = link.url.as_str();
            let (cost, left, amount) = match link.kind {
                LinkKind::SitemapFile => (Cost::SitemapFiles, &mut files, 1),
                // An amount that never fits.
                _ if costs::of_entry(text) > log => (Cost::Log, &mut log, u64::MAX),
                _ => (Cost::SitemapEntries, &mut entries, 1),
            };
            let fits = *left >= amount;
            if fits {
                *left -= amount;
                log = log.saturating_sub(costs::of_entry(text));
            } else {
                self.cut(cost.rule(), site, 1, text);
            }
            fits
        });
    }

    /// Charges the links that a site's sitemap, or the list of its sitemaps, added to the frontier.
    pub fn charge_sitemap<'a>(&mut self, host: &str, new: impl Iterator<Item = &'a Link>) {
        let Some(costs) = &mut self.costs else { return };
        let (mut files, mut entries, mut log) = (0, 0, 0);
        for link in new {
            let is_file = link.kind == LinkKind::SitemapFile;
            files += u64::from(is_file);
            entries += u64::from(!is_file);
            log += costs::of_entry(link.url.as_str());
        }
        costs.charge(Cost::SitemapFiles, host, files, 0);
        costs.charge(Cost::SitemapEntries, host, entries, 0);
        costs.charge(Cost::Log, host, log, 0);
    }

    /// Charges a sitemap that was read, with `bytes` after decoding. Returns whether the budget of its site is now
    /// spent.
    pub fn sitemap_read(&mut self, host: &str, bytes: u64, sitemap: &Sitemap) -> bool {
        let Some(costs) = &mut self.costs else { return false };
        let credit = (sitemap.entries.len() as u64).saturating_mul(costs::BYTES_PER_ENTRY);
        costs.charge(Cost::SitemapBytes, host, bytes, credit);
        costs.left(Cost::SitemapBytes, host) == 0
    }

    /// Whether the site of a sitemap file has used up its budget for bytes of sitemaps.
    pub fn is_sitemap_spent(&self, host: &str) -> bool {
        self.costs.as_ref().is_some_and(|costs| !costs.is_empty() && costs.left(Cost::SitemapBytes, host) == 0)
    }

    /// Counts a link to a host whose name does not fit into memory.
    pub fn refuse_host(&mut self, url: UrlRef<'_>) -> TrapRule {
        self.cut(TrapRule::HostMemory, ELSEWHERE, 1, url.as_str());
        TrapRule::HostMemory
    }

    /// Counts a queued sitemap file that is skipped because the budget of its site is spent.
    pub fn drop_sitemap(&mut self, url: UrlRef<'_>) -> TrapRule {
        self.cut(TrapRule::SitemapBytes, domain_key(url.host()), 1, url.as_str());
        TrapRule::SitemapBytes
    }

    /// Takes the waiting links to hosts that the budget of their domain allows now.
    pub fn take_released(&mut self) -> Vec<Link> {
        self.domains.as_mut().map(Domains::take_released).unwrap_or_default()
    }

    /// How many links to a host entered the frontier, with `--max-pages-per-host`.
    pub fn pages_of(&self, host: &str) -> Option<u64> {
        self.max_pages_per_host?;
        self.pages.get(&xxh3_64(host.as_bytes())).copied()
    }

    /// The places where links were skipped, largest numbers first.
    pub fn cuts(&self) -> Vec<Cut> {
        let mut cuts: Vec<Cut> = self.cuts.values().cloned().collect();
        cuts.sort_unstable_by(|a, b| (b.skipped, a.rule, &a.at).cmp(&(a.skipped, b.rule, &b.at)));
        cuts
    }

    /// Charges a new combination of parameters to its path.
    fn charge_combination(&mut self, url: UrlRef<'_>, query: &str, budgets: Budgets) -> Option<TrapRule> {
        let path = path_of(url);
        let key = xxh3_64(path.as_bytes());
        if self.variants.len() >= MAX_TRACKED && !self.variants.contains_key(&key) {
            self.older_variants = std::mem::take(&mut self.variants);
        }
        let older = &mut self.older_variants;
        let variants = self.variants.entry(key).or_insert_with(|| older.remove(&key).unwrap_or_default());
        let combination = pattern::combination(query);
        if variants.combinations.contains(&combination) {
            return None;
        }
        if variants.combinations.len() < FREE_COMBINATIONS {
            variants.combinations.push(combination);
            return None;
        }
        if variants.charged >= budgets.variants {
            return self.skip_link(TrapRule::QueryVariants, &path, url);
        }
        variants.charged += 1;
        None
    }

    /// Charges a link on a page without new text to its pattern and its host.
    fn charge_stale(&mut self, novelty: Novelty, url: UrlRef<'_>, budgets: Budgets) -> Option<TrapRule> {
        let pattern = pattern(url);
        let is_same = novelty == Novelty::Same;
        let pattern_budget = if is_same { budgets.same } else { budgets.alike };
        let rules = if is_same {
            [TrapRule::StalePattern, TrapRule::StaleHost]
        } else {
            [TrapRule::AlikePattern, TrapRule::AlikeHost]
        };
        let key = xxh3_64(url.host().as_bytes());
        if self.charges.len() >= MAX_TRACKED && !self.charges.contains_key(&key) {
            return None;
        }
        let HostCharges { all, patterns } = self.charges.entry(key).or_default();
        let key = xxh3_64(pattern.as_bytes());
        let has_budget = patterns.len() < MAX_PATTERNS || patterns.contains_key(&key);
        let pattern_charges = has_budget.then(|| patterns.entry(key).or_default());
        let charged_to_host = all.of(novelty);
        let mut charged_to_pattern = pattern_charges.map(|charges| charges.of(novelty));
        if charged_to_pattern.as_ref().is_some_and(|charged| **charged >= pattern_budget) {
            return self.skip_link(rules[0], &pattern, url);
        }
        if *charged_to_host >= pattern_budget.saturating_mul(PATTERNS_PER_HOST) {
            return self.skip_link(rules[1], url.host(), url);
        }
        *charged_to_host += 1;
        if let Some(charged) = &mut charged_to_pattern {
            **charged += 1;
        }
        None
    }

    /// Admits an unknown host that a page of `site` links to, if the budgets of its domain and of that site allow.
    fn admit_host(&mut self, link: LinkRef<'_>, site: &str) -> Option<TrapRule> {
        let is_other_site = domain_key(link.url.host()) != site;
        if is_other_site && self.costs.as_ref().is_some_and(|costs| costs.left(Cost::Hosts, site) == 0) {
            return self.skip_link(TrapRule::SourceHosts, site, link.url);
        }
        let domains = self.domains.as_mut()?;
        if domains.admit(link.url.host()) {
            if let Some(costs) = self.costs.as_mut().filter(|_| is_other_site) {
                costs.charge(Cost::Hosts, site, 1, 0);
            }
            return None;
        }
        domains.wait(link);
        self.skip_link(TrapRule::DomainHosts, domain_key(link.url.host()), link.url)
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
        self.cut(rule, at, 1, url.as_str());
        Some(rule)
    }

    /// Counts `links` skipped links at a place.
    fn cut(&mut self, rule: TrapRule, at: &str, links: u64, example: &str) {
        let mut key = (rule, Box::from(at));
        if !self.cuts.contains_key(&key) {
            let host = at.split('/').next().unwrap_or(at);
            let host_hash = xxh3_64(host.as_bytes());
            let cuts_of_host = self.cuts_of_host.get(&host_hash).copied().unwrap_or(0);
            if self.cuts.len() >= MAX_CUTS || cuts_of_host >= MAX_CUTS_PER_HOST {
                key.1 = ELSEWHERE.into();
            } else {
                self.cuts_of_host.insert(host_hash, cuts_of_host + 1);
            }
        }
        let new_cut = || {
            let example: String = example.chars().take(MAX_EXAMPLE).collect();
            Cut { rule, at: key.1.clone(), skipped: 0, example: example.into() }
        };
        self.cuts.entry(key.clone()).or_insert_with(new_cut).skipped += links;
    }
}

/// Authority and path of a URL.
fn path_of(url: UrlRef<'_>) -> String {
    format!("{}{}", url.authority(), url.path())
}

/// Whether the rules about paths apply to links of this kind. Roots and sitemap entries are exempt.
pub fn is_judged(kind: LinkKind) -> bool {
    !matches!(kind, LinkKind::Root | LinkKind::Sitemap | LinkKind::SitemapFile)
}

#[cfg(test)]
mod tests;
