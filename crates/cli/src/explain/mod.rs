//! Explains why a URL was or was not fetched, from the results of a crawl.

mod links;

use std::borrow::Cow;

use argiope_core::base::url::StripParams;
use argiope_core::crawl::rules::{Config, RobotsPolicy, Rules};
use argiope_core::crawl::schedule::carryover::LaneNote;
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_core::crawl::schedule::trap::Cut;
use argiope_core::page::robots::{Robots, RobotsVerdict};
use argiope_core::page::scope::{ScopeRule, ScopeVerdict, percent_decoded};
use argiope_core::{LinkKind, Outcome, Url};
use argiope_store::disk::{CrawlSettings, HostTrace, Referrers, TracedLink, UrlTrace};
use regex::Regex;

pub use links::UnfollowedReason;

use crate::records::{self, ANY_FINGERPRINT_KEY, ReadError, StoredRecord};
use crate::results::{Results, Tracer};

/// Redirects that are followed and shown.
const MAX_HOPS: usize = 20;
/// How many of the pages that link to the URL are named.
const MAX_REFERRERS: usize = 10;

/// Everything that is known about one URL.
#[derive(Debug)]
pub struct Explanation {
    /// The normalized URL, as the crawler would request it.
    pub url: Url,
    pub scope: ScopeExplanation,
    pub robots: RobotsExplanation,
    pub host: HostExplanation,
    /// The discovery path from a root to the URL, both included; empty if the URL was never seen.
    pub chain: Vec<DiscoveryStep>,
    pub url_state: UrlState,
    /// The pages that link to the URL.
    pub referrers: Referrers,
    /// The process that is crawling in this directory now, if any. The explanation may then change.
    pub crawled_by: Option<String>,
    /// The traps at which similar links were skipped, if the URL was never seen.
    pub cuts: Vec<Cut>,
    /// If the URL was never seen: why the links to it are not followed, as far as the pages named in `referrers` tell.
    pub unfollowed: Vec<UnfollowedReason>,
    /// If no known page links to the URL: the pages of which not all links are known.
    pub cut_pages: Referrers,
    /// Why the last run ended, if a URL may still be queued because of that.
    pub last_end: Option<End>,
    /// Where the URL redirects to, through further redirects; empty if it does not redirect.
    pub redirects: RedirectPath,
    /// Whether the next run requests the URL again, because its host stopped responding.
    pub is_requested_again: bool,
}

/// Whether the URL is in scope.
#[derive(Debug, PartialEq, Eq)]
pub struct ScopeExplanation {
    /// The rule that rejects it; `None` if it is in scope.
    pub rejected: Option<ScopeRule>,
    /// The regular expression of `--include` or `--exclude` that decides, if one does.
    pub pattern: Option<String>,
    /// The kind of the link that the scope was applied to.
    pub kind: LinkKind,
    /// The depth of that link.
    pub depth: u32,
    /// `host`, `domain` and so on.
    pub scope_kind: &'static str,
}

/// What robots.txt determines for the URL.
#[derive(Debug, PartialEq, Eq)]
pub enum RobotsExplanation {
    /// The crawl ignores robots.txt.
    Ignored,
    /// The file was not read, or could not be fetched.
    Unknown,
    /// There is no robots.txt, or it has no rules for this crawler.
    NoRules,
    Judged(RobotsVerdict),
}

/// The state of the URL's host.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HostExplanation {
    pub host: String,
    /// Known URLs of the host.
    pub known: u64,
    /// How many of them are finished.
    pub settled: u64,
    /// Time until which the host must not be contacted, in milliseconds since the Unix epoch.
    pub backoff_until: Option<i64>,
    pub crawl_delay: Option<std::time::Duration>,
}

/// A page on the discovery path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryStep {
    pub url: String,
    /// The page before it; `None` for a root.
    pub via: Option<String>,
    /// How that page links to it.
    pub kind: LinkKind,
    pub depth: u32,
}

/// The state of the URL.
#[derive(Debug, PartialEq)]
pub enum UrlState {
    NeverSeen,
    /// Known, not finished.
    Queued {
        /// Attempts so far.
        tries: u8,
    },
    /// Finished: its last record, and the number of its records.
    Settled(Box<StoredRecord>, u64),
}

/// Where a URL redirects to, through further redirects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RedirectPath {
    /// The targets of the redirects in order. The URL that is explained is not included.
    pub urls: Vec<String>,
    /// If the redirects form a loop: the target of the last redirect, which is an earlier URL of the path.
    pub back_to: Option<String>,
}

/// Why a URL cannot be explained: it is invalid, or the crawl directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error("'{0}' is not a URL that can be fetched: {1}")]
    Url(String, argiope_core::BadUrl),
    #[error(transparent)]
    Records(#[from] ReadError),
}

/// Explains one URL.
pub fn explain(results: &Results, text: &str) -> Result<Explanation, ExplainError> {
    let mut tracer = results.tracer()?;
    let candidates = match text.starts_with('/') {
        true => candidates_at_path(&tracer.first_roots()?, text),
        false => candidates(text),
    };
    let candidates = candidates.map_err(|bad| ExplainError::Url(text.to_owned(), bad))?;
    let mut found = search(&mut tracer, candidates)?;
    let config = found.config.take().unwrap_or_default();
    let rules = config.compile(ANY_FINGERPRINT_KEY).ok();
    let mut kind = found.first_step.as_ref().map_or(LinkKind::Anchor, |step| step.kind);
    let known_depth = found.first_step.as_ref().map(|step| step.depth);
    let note: LaneNote = found.note.and_then(|note| serde_json::from_slice(&note).ok()).unwrap_or_default();
    let (robots, crawl_delay) = robots(&found.url, &note, rules.as_ref());
    let url_state = match (found.record, &found.first_step) {
        (Some(record), _) => UrlState::Settled(Box::new(record), found.record_count),
        (None, Some(_)) => UrlState::Queued { tries: found.tries },
        (None, None) => UrlState::NeverSeen,
    };
    let chain = match found.first_step {
        Some(step) => discovery_path(&mut tracer, step)?,
        None => Vec::new(),
    };
    let host = HostExplanation { backoff_until: note.rest, crawl_delay, ..found.host };
    let redirects = match &url_state {
        UrlState::Settled(record, _) => redirects(&mut tracer, found.url.as_str(), record)?,
        _ => RedirectPath::default(),
    };
    let is_given_up = |record: &StoredRecord| record.error.as_deref().is_some_and(argiope_core::Failure::is_given_up);
    let is_requested_again = matches!(results, Results::Directory(_))
        && matches!(&url_state, UrlState::Settled(record, _) if is_given_up(record));
    let mut graph = tracer.into_graph()?;
    let referrers = graph.referrers_of(found.url.as_str(), MAX_REFERRERS).map_err(ReadError::from)?;
    // Without a known link, the URL is judged as one on the page of a root.
    let (mut depth, mut unfollowed, mut cut_pages) = (known_depth.unwrap_or(1), Vec::new(), Referrers::default());
    if url_state == UrlState::NeverSeen && referrers.first.is_empty() {
        cut_pages = links::cut_pages(&mut graph, MAX_REFERRERS)?;
    } else if url_state == UrlState::NeverSeen {
        let pages = links::linking_pages(results, &referrers.first)?;
        // The depth that the crawl would have given to the URL: that of the first link to it.
        depth = pages.values().map(|page| page.depth.saturating_add(1)).min().unwrap_or(1);
        // With `only`, the kind of the link decides.
        if config.only.is_some() && links::is_listed(&mut graph, found.url.as_str())? {
            kind = LinkKind::Sitemap;
        }
        let is_in_scope = scope(&found.url, kind, depth, &config, rules.as_ref()).rejected.is_none();
        unfollowed = links::unfollowed(&mut graph, found.url.as_str(), &pages, rules.as_ref(), is_in_scope)?;
    }
    let scope = scope(&found.url, kind, depth, &config, rules.as_ref());
    let crawled_by = results.crawled_by();
    let mut cuts = found.cuts;
    cuts.retain(|cut| url_state == UrlState::NeverSeen && cut.covers(found.url.as_ref()));
    Ok(Explanation {
        url: found.url,
        scope,
        robots,
        host,
        chain,
        url_state,
        referrers,
        crawled_by,
        cuts,
        unfollowed,
        cut_pages,
        last_end: found.last_end.filter(|end| *end != End::Finished),
        redirects,
        is_requested_again,
    })
}

/// The URLs that the text may stand for: one, or https and http if it has no scheme, as with roots.
fn candidates(text: &str) -> Result<Vec<Url>, argiope_core::BadUrl> {
    if text.contains("://") {
        return Ok(vec![Url::parse(text)?]);
    }
    Ok(vec![Url::parse(&format!("https://{text}"))?, Url::parse(&format!("http://{text}"))?])
}

/// Follows the redirect of a record as far as the crawl knows it.
fn redirects(tracer: &mut Tracer, url: &str, record: &StoredRecord) -> Result<RedirectPath, ReadError> {
    let mut path = RedirectPath::default();
    let mut next = record.redirect.clone().map(Cow::into_owned);
    while let Some(to) = next.filter(|_| path.urls.len() < MAX_HOPS) {
        if to == url || path.urls.contains(&to) {
            path.back_to = Some(to);
            break;
        }
        let lines = tracer.url(&to)?.records;
        path.urls.push(to);
        let last = url_records(&lines)?.pop();
        next = last.and_then(|record| record.redirect).map(Cow::into_owned);
    }
    Ok(path)
}

/// The records of a URL, without those of requests that rendered pages made for it.
fn url_records(lines: &[Vec<u8>]) -> Result<Vec<StoredRecord>, ReadError> {
    let mut found = Vec::new();
    for line in lines {
        let record = records::read(line)?;
        if !record.is_part() {
            found.push(record);
        }
    }
    Ok(found)
}

/// The discovery path from a root to `last`.
fn discovery_path(tracer: &mut Tracer, last: DiscoveryStep) -> Result<Vec<DiscoveryStep>, ReadError> {
    let mut chain = vec![last];
    while let Some(via) = chain.last().and_then(|step| step.via.clone()) {
        // The path may form a cycle: with a redirect, two pages can each have been found through the other.
        if chain.iter().any(|step| step.url == via) {
            break;
        }
        // A robots.txt names sitemaps, but was not found by a link itself.
        let link = tracer.first_link(&via)?;
        let (before, kind, depth) = link.map_or((None, LinkKind::Other, 0), |link| (link.via, link.kind, link.depth));
        chain.push(DiscoveryStep { url: via, via: before, kind, depth });
    }
    chain.reverse();
    Ok(chain)
}

/// Finds everything about a URL.
fn search(tracer: &mut Tracer, candidates: Vec<Url>) -> Result<SearchResult, ReadError> {
    let (mut config, mut cuts, mut last_end) = (None, Vec::new(), None);
    for line in tracer.runs()? {
        let Some(run) = RunRecord::read(&line) else { continue };
        let settings = records::settings_of(&run);
        if !run.traps.is_empty() {
            cuts = run.traps;
        }
        config = settings.or(config);
        last_end = run.reason.as_deref().and_then(End::from_name);
    }
    // A run without URLs to fetch writes no `run` record, but may change the settings of the directory.
    config = config.map(|config| match tracer.newer_settings() {
        Some(settings) => with_settings(config, settings),
        None => config,
    });
    // As in the crawl, the parameters of `--strip-param` are removed from the URL.
    let strip = StripParams::new(config.as_ref().map_or(&[], |config: &Config| &config.strip_param));
    let mut candidates: Vec<Url> = candidates.into_iter().map(|url| strip.strip(url.as_ref()).unwrap_or(url)).collect();
    // Without a scheme in the argument there are two candidates. The one that the crawl has seen is explained.
    let texts: Vec<&str> = candidates.iter().map(Url::as_str).collect();
    let mut traces: Vec<UrlTrace> = tracer.urls(&texts)?;
    // Sitemap files are site files. They do not count as pages that the crawl has found.
    traces.iter_mut().for_each(|trace| trace.links.retain(|link| link.kind != LinkKind::SitemapFile));
    let seen = traces.iter().position(|trace| !trace.links.is_empty()).unwrap_or(0);
    let (url, trace) = (candidates.swap_remove(seen), traces.swap_remove(seen));
    let tries = trace.links.last().map_or(0, |link| link.tries);
    let first_step = trace.links.into_iter().next().map(|link| {
        let TracedLink { via, depth, kind, .. } = link;
        DiscoveryStep { url: url.as_str().to_owned(), via, kind, depth }
    });
    let (mut last, mut record_count): (Option<StoredRecord>, u64) = (None, 0);
    for record in url_records(&trace.records)? {
        // Page records take precedence over robots.txt and sitemap records of the same URL.
        if record.is_page() || last.as_ref().is_none_or(|last| !last.is_page()) {
            last = Some(record);
            record_count += 1;
        }
    }
    let name = url.host().to_owned();
    let HostTrace { known, settled, note } = tracer.host(&name)?;
    let host = HostExplanation { host: name, known, settled, ..HostExplanation::default() };
    Ok(SearchResult { url, first_step, tries, record: last, record_count, host, note, config, cuts, last_end })
}

/// Replaces the settings that a later run may change by those of the crawl directory, which are newer than the record.
fn with_settings(mut config: Config, settings: &CrawlSettings) -> Config {
    let values = |name: &str| settings.get(name).map_or(&[][..], Vec::as_slice);
    config.include = values("include").to_vec();
    config.exclude = values("exclude").to_vec();
    config.depth = values("depth").first().and_then(|depth| depth.parse().ok());
    if let Some(scope_kind) = values("scope").first().and_then(|name| serde_json::from_value(name.as_str().into()).ok())
    {
        config.scope = scope_kind;
    }
    config
}

/// The URLs that a path without a host may stand for: this path at each of the roots.
fn candidates_at_path(roots: &[Url], path: &str) -> Result<Vec<Url>, argiope_core::BadUrl> {
    let found: Vec<Url> = roots.iter().map(|root| root.join(path)).collect::<Result<_, _>>()?;
    if found.is_empty() { Err(argiope_core::BadUrl::Syntax) } else { Ok(found) }
}

/// What the log contains about a URL.
struct SearchResult {
    url: Url,
    /// How it was first found; `None` if it was never seen.
    first_step: Option<DiscoveryStep>,
    /// Attempts so far.
    tries: u8,
    /// Its last record.
    record: Option<StoredRecord>,
    /// The number of its records.
    record_count: u64,
    host: HostExplanation,
    /// The note about its host, as JSON of a [`LaneNote`].
    note: Option<Vec<u8>>,
    /// The settings of the last run.
    config: Option<Config>,
    /// The traps of the last run that has any.
    cuts: Vec<Cut>,
    /// Why the last run ended; `None` if it is running, or ended without a record.
    last_end: Option<End>,
}

/// Applies the scope to the URL, and finds the pattern that decided.
fn scope(url: &Url, kind: LinkKind, depth: u32, config: &Config, rules: Option<&Rules>) -> ScopeExplanation {
    let rejected = rules.and_then(|rules| match rules.scope.judge(url.as_ref(), depth, kind) {
        ScopeVerdict::Follow => None,
        ScopeVerdict::Reject(rule) => Some(rule),
    });
    let decoded = percent_decoded(url.as_str());
    let first_match = |patterns: &[String]| {
        let is_match = |text: &&String| {
            let pattern = Regex::new(text).ok();
            pattern.is_some_and(|pattern| {
                pattern.is_match(url.as_str()) || decoded.as_ref().is_some_and(|decoded| pattern.is_match(decoded))
            })
        };
        patterns.iter().find(is_match).cloned()
    };
    let pattern = match rejected {
        Some(ScopeRule::Exclude) => first_match(&config.exclude),
        None => first_match(&config.include),
        Some(_) => None,
    };
    ScopeExplanation { rejected, pattern, kind, depth, scope_kind: rules.map_or("", |rules| rules.scope_kind.as_str()) }
}

/// Applies the stored robots.txt to the URL. The second value is its `Crawl-delay`.
fn robots(url: &Url, note: &LaneNote, rules: Option<&Rules>) -> (RobotsExplanation, Option<std::time::Duration>) {
    let Some(rules) = rules else { return (RobotsExplanation::Unknown, None) };
    if rules.robots == RobotsPolicy::Ignore {
        return (RobotsExplanation::Ignored, None);
    }
    let Some(file) = note.robots.iter().find(|file| (file.https, file.port) == (url.is_https(), url.port())) else {
        return (RobotsExplanation::Unknown, None);
    };
    let robots = Robots::parse(file.text.as_bytes(), &rules.agent_token);
    let delay = robots.crawl_delay();
    if robots.is_empty() {
        return (RobotsExplanation::NoRules, delay);
    }
    (RobotsExplanation::Judged(robots.judge(url.target())), delay)
}

impl Explanation {
    /// A one-word verdict: the outcome, or the state before it.
    pub fn verdict(&self) -> String {
        match &self.url_state {
            UrlState::Settled(record, _) if record.is_skip() => "excluded".to_owned(),
            UrlState::Settled(record, _) => record.outcome.unwrap_or(Outcome::Failed).to_string(),
            UrlState::Queued { .. } => "queued".to_owned(),
            UrlState::NeverSeen if self.scope.rejected.is_some() => "out_of_scope".to_owned(),
            UrlState::NeverSeen if !self.cuts.is_empty() => "left_out".to_owned(),
            UrlState::NeverSeen => "never_seen".to_owned(),
        }
    }
}
