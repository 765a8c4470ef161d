//! [`CrawlReport`]: the results of a crawl, gathered page by page.
//!
//! Invariant: memory use is bounded, independent of the length of the crawl. Lists are capped. Counts are exact, except
//! those of duplicates and media types: beyond a limit, new bodies and new types are not counted.

mod backlinks;
mod changes;
mod checked;
pub mod detail;
mod duplicates;
mod faulty_sitemap;
mod from_results;
mod link_facts;
mod missing_roots;
mod redirect_loops;
mod rendered;
pub mod run_facts;
mod top;
mod url_list;
pub mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use argiope_core::base::digest::BodyDigest;
use argiope_core::base::outcome::is_requested;
use argiope_core::crawl::render_facts::RenderFacts;
use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::trap::Cut;
use argiope_core::crawl::visit::Visit;
use argiope_core::page::scope::ScopeVerdict;
use argiope_core::{ErrorKind, Failure, LinkKind, Outcome, StoreError, Truncated, Url};

use argiope_core::crawl::status::OutcomeCounts;
use argiope_store::disk::GraphRound;

use crate::results::Results;
use crate::soft_404::says_not_found;
pub use argiope_core::crawl::schedule::keeper::End;
pub use backlinks::Backlinks;
pub use changes::ChangeList;
pub use checked::CheckedLinks;
pub use detail::ReportDetail;
pub use duplicates::Duplicates;
pub use faulty_sitemap::FaultySitemap;
pub use link_facts::LinkFacts;
pub use missing_roots::MissingRoots;
pub use redirect_loops::{LoopMember, RedirectLoops};
pub use rendered::Rendered;
pub use run_facts::RunFacts;
pub use top::Top;

/// Maximum number of broken links that are listed. The constants below are maximums too.
const MAX_BROKEN: usize = 1_000;
/// Redirects listed.
const MAX_REDIRECTS: usize = 100;
/// Roots with a problem that are listed.
const MAX_ROOTS: usize = 100;
/// Sitemaps with a problem that are listed.
const MAX_SITEMAPS: usize = 100;
/// Slowest and largest pages listed.
const MAX_TOP_PAGES: usize = 10;
/// Hosts counted separately.
const MAX_HOSTS: usize = 10_000;
/// Media types counted separately.
const MAX_TYPES: usize = 100;
/// Pages listed per broken link.
const MAX_REFERRERS: usize = 10;
/// URLs listed per kind of failure.
const MAX_FAILED_URLS: usize = 10;

/// The fields of a finished URL that the report needs. Borrowed, because most are only counted.
#[derive(Clone, Debug)]
pub struct PageSummary<'a> {
    pub url: &'a str,
    /// The host of the URL.
    pub host: &'a str,
    /// The page where the link was found; `None` for a root.
    pub via: Option<&'a str>,
    /// Whether the user gave this URL.
    pub is_root: bool,
    /// Number of links from a root to this URL; redirects do not count.
    pub depth: u32,
    /// Whether this is the https candidate of a root without a scheme that was tried over http instead. It is not counted.
    pub is_guess: bool,
    pub outcome: Outcome,
    pub status: Option<u16>,
    pub error: Option<&'a Failure>,
    /// The redirect target.
    pub redirect: Option<&'a str>,
    /// Whether the redirect target is in scope; true without a redirect.
    pub redirect_in_scope: bool,
    pub content_type: Option<&'a str>,
    pub charset: Option<&'a str>,
    pub bytes_wire: u64,
    pub bytes_body: u64,
    pub truncated: Option<Truncated>,
    /// Whether the page looks empty without scripts.
    pub needs_scripts: bool,
    /// How the page was rendered, if it was.
    pub render: Option<&'a RenderFacts>,
    /// Whether it is an error page with status 200.
    pub is_soft_404: bool,
    /// The first eight bytes of the body's digest.
    pub digest: Option<u64>,
    pub links: u32,
    pub new_links: u32,
    pub tries: u8,
    /// Duration of the whole fetch; `None` if nothing was requested.
    pub total: Option<Duration>,
}

impl<'a> PageSummary<'a> {
    /// Converts a visit for the report.
    pub fn of(visit: &'a Visit, rules: &Rules) -> Self {
        let in_scope =
            |to: &Url| rules.scope.judge(to.as_ref(), visit.link.depth, LinkKind::Redirect) == ScopeVerdict::Follow;
        Self {
            url: visit.link.url.as_str(),
            host: visit.link.url.host(),
            via: visit.link.via.as_ref().map(Url::as_str),
            is_root: visit.link.kind == LinkKind::Root,
            depth: visit.link.depth,
            is_guess: visit.link.kind == LinkKind::Root
                && is_guess(visit.facts.outcome, visit.facts.error.as_ref(), visit.link.url.as_str(), rules),
            outcome: visit.facts.outcome,
            status: visit.facts.status,
            error: visit.facts.error.as_ref(),
            redirect: visit.facts.redirect.as_ref().map(Url::as_str),
            redirect_in_scope: visit.facts.redirect.as_ref().is_none_or(in_scope),
            content_type: visit.findings.content_type.as_deref(),
            charset: visit.findings.charset,
            bytes_wire: visit.facts.bytes_wire,
            bytes_body: visit.facts.bytes_body,
            truncated: visit.facts.truncated,
            is_soft_404: visit.facts.status == Some(200)
                && visit.findings.facts.as_ref().is_some_and(|facts| {
                    says_not_found(visit.findings.title.as_deref(), facts.h1.as_deref(), Some(facts.words))
                }),
            needs_scripts: visit.findings.facts.as_ref().is_some_and(|facts| facts.needs_scripts),
            render: visit.findings.render.as_deref(),
            digest: visit.findings.digest.as_ref().map(BodyDigest::short),
            links: visit.findings.links,
            new_links: visit.findings.new_links,
            tries: visit.link.tries,
            total: visit.facts.timings.total.map(as_recorded),
        }
    }

    /// Whether the URL was requested from its host, as `Visit::is_fetched_page` says of a visit.
    fn was_requested(&self) -> bool {
        is_requested(self.total.is_some(), self.tries, self.error)
    }

    /// Whether links to this URL are broken.
    pub fn is_broken(&self) -> bool {
        match self.outcome {
            Outcome::HttpError | Outcome::Failed => true,
            Outcome::Redirect => self.error.is_some(),
            Outcome::Ok | Outcome::NotModified | Outcome::Robots | Outcome::Refused => false,
        }
    }

    /// Why links to this URL are broken, or why it was not fetched.
    fn broken_reason(&self) -> BrokenReason {
        match (self.error, self.status) {
            (Some(error), _) => BrokenReason::Failure(error.clone()),
            (None, Some(status)) => BrokenReason::Status(status),
            (None, None) => BrokenReason::Failure(Failure::new(ErrorKind::Internal, "no reason was recorded")),
        }
    }
}

/// Rounds a duration up to milliseconds, as in records, so that the final report and the report of the directory are
/// the same.
fn as_recorded(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX))
}

/// Whether this is the https candidate of a root without a scheme, and the root was tried over http instead. The user
/// did not write that URL, so its failure is not counted.
pub fn is_guess(outcome: Outcome, error: Option<&Failure>, url: &str, rules: &Rules) -> bool {
    let allows_http = |error| Url::parse(url).is_ok_and(|url| rules.allows_plain_http(&url, error));
    outcome == Outcome::Failed && rules.is_guess(url) && error.is_some_and(allows_http)
}

/// Why a link is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokenReason {
    Status(u16),
    Failure(Failure),
}

/// A broken link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLink {
    pub url: Box<str>,
    pub reason: BrokenReason,
    /// Pages that link to it; the one it was found on comes first.
    pub on_pages: Vec<Box<str>>,
    /// Number of further pages that link to it.
    pub more_pages: u64,
}

impl BrokenLink {
    /// The number of pages that link to it.
    pub fn referrers(&self) -> u64 {
        self.on_pages.len() as u64 + self.more_pages
    }
}

/// The URLs with one kind of error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureGroup {
    pub count: u64,
    /// The first URLs, up to [`MAX_FAILED_URLS`].
    pub urls: Vec<Box<str>>,
}

/// A redirect and the page where the link to it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirected {
    pub from: Box<str>,
    pub to: Box<str>,
    pub status: Option<u16>,
    pub found_on: Option<Box<str>>,
}

/// A root with a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootProblem {
    /// It could not be fetched.
    Failed { url: Box<str>, reason: BrokenReason },
    /// robots.txt disallows it.
    Disallowed { url: Box<str> },
    /// The crawler refused to request it, for example because of a blocked port.
    Refused { url: Box<str>, reason: BrokenReason },
    /// It redirects out of scope: `to` is the root to use instead.
    OutOfScope { url: Box<str>, to: Box<str> },
    /// The https candidate of a root without a scheme: it does not speak TLS, so the root was tried over http.
    PlainHttp { url: Box<str>, reason: BrokenReason },
}

/// Totals of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTotals {
    /// URLs that were requested.
    pub pages: u64,
    pub bytes: u64,
    /// Broken links to this host.
    pub broken: u64,
    /// Sum of all response times.
    pub time: Duration,
    /// URLs without a response, because of an error of their own or because the host could not be reached.
    pub failed: u64,
    pub has_responded: bool,
    /// Whether the host could not be reached at some time.
    pub was_lost: bool,
}

impl HostTotals {
    /// Whether the host has responded, and could not be reached for at least one URL.
    pub fn stopped_responding(&self) -> bool {
        self.has_responded && self.was_lost
    }
}

/// The results of a crawl.
#[derive(Clone, Debug)]
pub struct CrawlReport {
    /// URLs that were requested. URLs whose host was not contacted have an outcome, but are not pages.
    pub pages: u64,
    pub outcomes: OutcomeCounts,
    pub statuses: BTreeMap<u16, u64>,
    /// Statuses by outcome. A status may occur with several outcomes: 304, for example, may be an error.
    pub outcome_statuses: BTreeMap<(Outcome, u16), u64>,
    /// The URLs with an error, by the kind of the error.
    pub failures: BTreeMap<ErrorKind, FailureGroup>,
    /// Pages with an incomplete body.
    pub truncated: u64,
    /// Pages that look empty without scripts.
    pub needs_scripts: u64,
    /// What rendering has gained.
    pub rendered: Rendered,
    /// Error pages with status 200.
    pub soft_404s: u64,
    /// Hosts that answered with status 200 for a page that does not exist.
    pub hosts_without_404: u64,
    /// Attempts after the first one of each URL.
    pub retries: u64,
    pub bytes_wire: u64,
    pub bytes_body: u64,
    pub types: BTreeMap<Box<str>, u64>,
    /// Capped; further hosts are counted in `other_hosts`.
    pub hosts: BTreeMap<Box<str>, HostTotals>,
    pub other_hosts: HostTotals,
    pub broken: Vec<BrokenLink>,
    /// The number of broken links, listed or not.
    pub broken_total: u64,
    pub redirects: Vec<Redirected>,
    pub slowest: Top<Duration>,
    pub largest: Top<u64>,
    pub roots: Vec<RootProblem>,
    /// Why the roots have given no page; all of them, if `has_root_page` is false.
    pub missing_roots: MissingRoots,
    /// Sitemaps that could not be read to their end.
    pub sitemaps: Vec<FaultySitemap>,
    /// The number of these sitemaps, listed or not.
    pub sitemaps_total: u64,
    /// Whether at least one root gave a page, directly or after redirects.
    pub has_root_page: bool,
    /// Pages whose body is identical to another page's.
    pub duplicates: Duplicates,
    /// The changes since the previous round, if there was one.
    pub changes: Option<ChangeList>,
    /// Crawler traps where links were skipped.
    pub cuts: Vec<Cut>,
    backlinks: Backlinks,
    loops: RedirectLoops,

    // The following fields are set at the end.
    pub elapsed: Duration,
    /// URLs that are still queued.
    pub queued: u64,
    pub end: End,
    /// Whether a process is still crawling.
    pub is_running: bool,
}

impl Default for CrawlReport {
    fn default() -> Self {
        Self {
            pages: 0,
            outcomes: OutcomeCounts::default(),
            statuses: BTreeMap::new(),
            outcome_statuses: BTreeMap::new(),
            failures: BTreeMap::new(),
            truncated: 0,
            needs_scripts: 0,
            rendered: Rendered::default(),
            soft_404s: 0,
            hosts_without_404: 0,
            retries: 0,
            bytes_wire: 0,
            bytes_body: 0,
            types: BTreeMap::new(),
            hosts: BTreeMap::new(),
            other_hosts: HostTotals::default(),
            broken: Vec::new(),
            broken_total: 0,
            redirects: Vec::new(),
            slowest: Top::new(MAX_TOP_PAGES),
            largest: Top::new(MAX_TOP_PAGES),
            roots: Vec::new(),
            missing_roots: MissingRoots::default(),
            sitemaps: Vec::new(),
            sitemaps_total: 0,
            has_root_page: false,
            duplicates: Duplicates::default(),
            changes: None,
            cuts: Vec::new(),
            backlinks: Backlinks::default(),
            loops: RedirectLoops::default(),
            elapsed: Duration::ZERO,
            queued: 0,
            end: End::Finished,
            is_running: false,
        }
    }
}

impl CrawlReport {
    /// Adds one finished URL. If it closes a loop of redirects, returns the other members, which are added as broken.
    pub fn add(&mut self, page: &PageSummary<'_>) -> Vec<LoopMember> {
        if page.is_root && self.roots.len() < MAX_ROOTS {
            self.roots.extend(root_problem(page));
        }
        if page.is_guess {
            return Vec::new();
        }
        self.missing_roots.add(page);
        self.outcomes.add(page.outcome);
        self.pages += u64::from(page.was_requested());
        // Redirects do not increase the depth, so pages of depth 0 are the roots and their redirect targets.
        self.has_root_page |= page.depth == 0 && matches!(page.outcome, Outcome::Ok | Outcome::NotModified);
        self.bytes_wire += page.bytes_wire;
        self.bytes_body += page.bytes_body;
        self.retries += u64::from(page.tries.saturating_sub(1));
        self.truncated += u64::from(page.truncated.is_some());
        // What a page lacks is known only of pages that were read to their end.
        let is_whole = page.truncated.is_none();
        self.soft_404s += u64::from(page.is_soft_404 && is_whole);
        let is_usable = matches!(page.outcome, Outcome::Ok | Outcome::NotModified);
        self.needs_scripts += u64::from(page.needs_scripts && is_usable && is_whole);
        if let (Some(facts), Ok(url)) = (page.render, Url::parse(page.url)) {
            self.rendered.add(url.as_ref(), facts);
        }
        if let Some(status) = page.status {
            *self.statuses.entry(status).or_default() += 1;
            *self.outcome_statuses.entry((page.outcome, status)).or_default() += 1;
        }
        if let Some(error) = page.error {
            let group = self.failures.entry(error.kind).or_default();
            group.count += 1;
            if group.urls.len() < MAX_FAILED_URLS {
                group.urls.push(page.url.into());
            }
        }
        // A page with status 304 still has its earlier body.
        let is_success = matches!(page.outcome, Outcome::Ok | Outcome::NotModified);
        if let Some(kind) = page.content_type.filter(|_| is_success) {
            count_up(&mut self.types, kind, MAX_TYPES);
        }
        if let Some(total) = page.total {
            self.slowest.add(total, page.url);
        }
        if page.bytes_body > 0 {
            self.largest.add(page.bytes_body, page.url);
        }
        // An application sends one response for all pages that its scripts make.
        let is_own_body = is_success && page.bytes_body > 0 && page.render.is_none();
        if let Some(digest) = page.digest.filter(|_| is_own_body) {
            self.duplicates.add(digest, page.url);
        }
        self.add_to_host(page);
        if page.is_broken() {
            self.add_broken(page);
        }
        let members = self.loops.add(page);
        for member in &members {
            let member = member.summary();
            self.add_broken(&member);
            self.hosts.get_mut(member.host).unwrap_or(&mut self.other_hosts).broken += 1;
        }
        if let (Some(to), None) = (page.redirect, page.error)
            && self.redirects.len() < MAX_REDIRECTS
        {
            self.redirects.push(Redirected {
                from: page.url.into(),
                to: to.into(),
                status: page.status,
                found_on: page.via.map(Into::into),
            });
        }
        members
    }

    /// Adds a sitemap that could not be read to its end, unless its URL may be a guess.
    pub fn add_sitemap(&mut self, sitemap: FaultySitemap) {
        if sitemap.may_be_guess {
            return;
        }
        self.sitemaps_total += 1;
        if self.sitemaps.len() < MAX_SITEMAPS {
            self.sitemaps.push(sitemap);
        }
    }

    /// Adds the links of a page, so that all pages with a broken link can be listed without a crawl directory. Links are
    /// fingerprints made with [`Backlinks::fingerprint`].
    pub fn add_links(&mut self, page: &str, links: impl IntoIterator<Item = u64>) {
        self.backlinks.add(page, links);
    }

    /// Completes the report: sets duration, queued URLs and reason of the end, and finds the pages with broken links.
    pub fn close(&mut self, elapsed: Duration, queued: u64, end: End) {
        (self.elapsed, self.queued, self.end) = (elapsed, queued, end);
        let fingerprints: Vec<u64> =
            self.broken.iter().map(|broken| Backlinks::fingerprint_of_text(&broken.url)).collect();
        let pages = self.backlinks.pages_with(&fingerprints);
        for (broken, mut pages) in self.broken.iter_mut().zip(pages) {
            pages.retain(|page| broken.on_pages.iter().all(|known| &**known != *page));
            let room = MAX_REFERRERS.saturating_sub(broken.on_pages.len());
            broken.more_pages = pages.len().saturating_sub(room) as u64;
            broken.on_pages.extend(pages.into_iter().take(room).map(Into::into));
        }
        self.backlinks = Backlinks::default();
        self.duplicates.close();
    }

    /// Replaces the pages of each broken link by those in the link graph of the crawl directory, with exact counts. Reads the
    /// graph once, or not at all if no link is broken.
    pub fn name_referrers(&mut self, results: &Results) -> Result<(), StoreError> {
        if self.broken.is_empty() {
            return Ok(());
        }
        let urls: Vec<&str> = self.broken.iter().map(|broken| &*broken.url).collect();
        let found = results.graph(GraphRound::Latest)?.referrers(&urls, MAX_REFERRERS)?;
        for (broken, found) in self.broken.iter_mut().zip(found) {
            // Without a graph, keep the page on which the link was found.
            if found.count > 0 {
                let via = broken.on_pages.first().cloned();
                broken.on_pages = found.first.into_iter().map(Into::into).collect();
                // The page on which the link was found comes first.
                broken.on_pages.sort_by_key(|page| Some(page) != via.as_ref());
                broken.more_pages = found.count.saturating_sub(broken.on_pages.len() as u64);
            }
        }
        Ok(())
    }

    /// Adds the traps at which a run skipped links.
    pub fn add_cuts(&mut self, cuts: Vec<Cut>) {
        for cut in cuts {
            match self.cuts.iter_mut().find(|known| (known.rule, &known.at) == (cut.rule, &cut.at)) {
                Some(known) => known.skipped += cut.skipped,
                None => self.cuts.push(cut),
            }
        }
    }

    /// The hosts that have responded, and could not be reached for at least one URL.
    pub fn lost_hosts(&self) -> impl Iterator<Item = (&str, &HostTotals)> {
        self.hosts.iter().filter(|(_, totals)| totals.stopped_responding()).map(|(host, totals)| (&**host, totals))
    }

    /// Pages per second over the whole crawl.
    pub fn pages_per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        #[allow(clippy::cast_precision_loss)]
        if seconds > 0.0 { self.pages as f64 / seconds } else { 0.0 }
    }

    fn add_to_host(&mut self, page: &PageSummary<'_>) {
        if self.hosts.len() < MAX_HOSTS && !self.hosts.contains_key(page.host) {
            self.hosts.insert(page.host.into(), HostTotals::default());
        }
        let totals = self.hosts.get_mut(page.host).unwrap_or(&mut self.other_hosts);
        totals.pages += u64::from(page.was_requested());
        totals.bytes += page.bytes_wire;
        totals.broken += u64::from(page.is_broken());
        totals.time += page.total.unwrap_or_default();
        let is_response =
            matches!(page.outcome, Outcome::Ok | Outcome::Redirect | Outcome::NotModified | Outcome::HttpError);
        totals.has_responded |= is_response;
        // The outcome `robots` has an error if the robots.txt could not be fetched.
        if let (Outcome::Failed | Outcome::Robots, Some(error)) = (page.outcome, page.error) {
            totals.failed += 1;
            totals.was_lost |= error.concerns_host();
        }
    }

    fn add_broken(&mut self, page: &PageSummary<'_>) {
        self.broken_total += 1;
        if self.broken.len() < MAX_BROKEN {
            let on_pages = page.via.map(Into::into).into_iter().collect();
            self.broken.push(BrokenLink {
                url: page.url.into(),
                reason: page.broken_reason(),
                on_pages,
                more_pages: 0,
            });
        }
    }
}

/// Increments the count of a name. A new name is not counted if there are already `max_names` names.
fn count_up(counts: &mut BTreeMap<Box<str>, u64>, name: &str, max_names: usize) {
    let has_room = counts.len() < max_names;
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None if has_room => {
            counts.insert(name.into(), 1);
        }
        None => {}
    }
}

/// The problem of a root, if it has one.
fn root_problem(page: &PageSummary<'_>) -> Option<RootProblem> {
    let url = page.url.into();
    match page.outcome {
        _ if page.is_guess => Some(RootProblem::PlainHttp { url, reason: page.broken_reason() }),
        Outcome::Robots if page.error.is_none() => Some(RootProblem::Disallowed { url }),
        // The robots.txt could not be fetched, so the root was not requested.
        Outcome::Robots => Some(RootProblem::Failed { url, reason: page.broken_reason() }),
        Outcome::Refused => Some(RootProblem::Refused { url, reason: page.broken_reason() }),
        _ if page.is_broken() => Some(RootProblem::Failed { url, reason: page.broken_reason() }),
        Outcome::Redirect if !page.redirect_in_scope => {
            page.redirect.map(|to| RootProblem::OutOfScope { url, to: to.into() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
