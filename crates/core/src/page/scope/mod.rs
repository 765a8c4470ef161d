//! [`Scope`]: which URLs belong to a crawl.
//!
//! Invariant: judging is a pure function of URL, depth and kind. It allocates only if patterns are tried on a
//! percent-encoded URL. Every rejection names the rule that caused it.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};
use percent_encoding::percent_decode_str;
use regex::{RegexSet, RegexSetBuilder};

use crate::base::link::LinkKind;
use crate::base::url::{self, Url, UrlRef};
use crate::http::address;
use crate::page::url_shape::is_deep;

/// Limit on the total size of compiled patterns in bytes. Larger ones are a mistake or an attack.
const MAX_PATTERN_SIZE: usize = 10 << 20;
/// Extra depth, beyond `--depth`, at which resources are fetched: a style sheet may import others.
const MAX_ASSET_STEPS: u32 = 5;

pub use crate::base::value::{AssetsScope, ScopeKind};

/// Which URLs belong to a crawl.
#[derive(Clone, Debug)]
pub struct Scope {
    scope_kind: ScopeKind,
    roots: HashSet<Url>,
    /// Host names of the roots, in the form of [`host_key`].
    hosts: HashSet<Box<str>>,
    /// The directories of the roots, by host.
    directories: HashMap<Box<str>, Vec<Box<str>>>,
    /// The registrable domains of the roots, or their hosts if they have none.
    domains: HashSet<Box<str>>,
    include: Option<RegexSet>,
    exclude: Option<RegexSet>,
    /// `--depth`: the largest depth of a page.
    depth: Option<u32>,
    /// The largest length of a URL in bytes.
    max_url: usize,
    /// Which resources of pages are followed, if any.
    assets: Option<AssetsScope>,
    /// Whether links in the data of scripts are followed.
    data: bool,
    /// Whether only what sitemaps list is followed.
    only_sitemaps: bool,
    /// Whether paths that repeat segments or are very deep are rejected.
    avoid_traps: bool,
}

/// The decision about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeVerdict {
    Follow,
    Reject(ScopeRule),
}

/// The rule that rejected a URL; its `Display` describes it. The names are stable: records and scripts use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ScopeRule {
    Exclude,
    MaxUrl,
    Name,
    Kind,
    Depth,
    Page,
    Prefix,
    Host,
    Domain,
    Include,
    PathDepth,
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {pattern:?} cannot be used: {reason}")]
pub struct BadPattern {
    pub pattern: String,
    pub reason: String,
}

impl Scope {
    /// A scope around these roots. Patterns are regular expressions that may match anywhere in the URL.
    pub fn new(
        roots: &[Url],
        scope_kind: ScopeKind,
        include: &[String],
        exclude: &[String],
        depth: Option<u32>,
        max_url: usize,
    ) -> Result<Self, BadPattern> {
        // There may be very many roots, so each set is built only for a scope that needs it.
        let mut directories: HashMap<Box<str>, Vec<Box<str>>> = HashMap::new();
        if scope_kind == ScopeKind::Prefix {
            for root in roots {
                directories.entry_ref(host_key(root.host())).or_default().push(directory(root.path()).into());
            }
        }
        let has_hosts = matches!(scope_kind, ScopeKind::Page | ScopeKind::Prefix | ScopeKind::Host);
        Ok(Self {
            scope_kind,
            roots: if scope_kind == ScopeKind::Page { roots.iter().cloned().collect() } else { HashSet::new() },
            hosts: if has_hosts { host_keys(roots) } else { HashSet::new() },
            directories,
            domains: if scope_kind == ScopeKind::Domain { domain_keys(roots) } else { HashSet::new() },
            include: compile_patterns(include)?,
            exclude: compile_patterns(exclude)?,
            depth,
            max_url,
            assets: None,
            data: false,
            only_sitemaps: false,
            avoid_traps: false,
        })
    }

    /// Also follows the resources that pages need for display, on the hosts that `assets` allows.
    #[must_use]
    pub fn with_assets(mut self, assets: Option<AssetsScope>, roots: &[Url]) -> Self {
        match assets {
            Some(AssetsScope::Host) => self.hosts = host_keys(roots),
            Some(AssetsScope::Domain) => self.domains = domain_keys(roots),
            Some(AssetsScope::Any) | None => {}
        }
        Self { assets, ..self }
    }

    /// Also follows links in the data of scripts.
    #[must_use]
    pub fn with_data(self, data: bool) -> Self {
        Self { data, ..self }
    }

    /// Follows only the roots and what sitemaps list, with their redirects.
    #[must_use]
    pub fn with_only_sitemaps(self, only_sitemaps: bool) -> Self {
        Self { only_sitemaps, ..self }
    }

    /// Whether links of this kind on pages are followed, if nothing else decides.
    pub fn follows(&self, kind: LinkKind) -> bool {
        match kind {
            LinkKind::Asset => self.assets.is_some(),
            kind if self.only_sitemaps => matches!(kind, LinkKind::Root | LinkKind::Sitemap | LinkKind::Redirect),
            LinkKind::Data => self.data,
            kind => kind.is_page(),
        }
    }

    /// Also rejects paths that repeat segments or are very deep.
    #[must_use]
    pub fn avoiding_traps(self, avoid_traps: bool) -> Self {
        Self { avoid_traps, ..self }
    }

    /// Whether to follow a link of this kind to this URL, at this depth.
    pub fn judge(&self, url: UrlRef<'_>, depth: u32, kind: LinkKind) -> ScopeVerdict {
        verdict(self.rejecting_rule(url, self.judge_host(url.host()), depth, kind))
    }

    /// A judge for many links in a row, which caches the decision about the last host.
    pub fn host_caching_judge(&self) -> ScopeJudge<'_> {
        ScopeJudge { scope: self, host: String::new(), host_verdict: self.judge_host("") }
    }

    fn judge_host(&self, host: &str) -> HostVerdict {
        let is_inside = match self.scope_kind {
            ScopeKind::Any => true,
            ScopeKind::Page | ScopeKind::Prefix | ScopeKind::Host => self.hosts.contains(host_key(host)),
            ScopeKind::Domain => self.domains.contains(domain_key(host)),
        };
        HostVerdict { is_resolvable: address::is_resolvable(host), is_inside }
    }

    /// The rule that rejects a link; `None` if it is followed.
    fn rejecting_rule(&self, url: UrlRef<'_>, host: HostVerdict, depth: u32, kind: LinkKind) -> Option<ScopeRule> {
        let text = url.as_str();
        if self.exclude.as_ref().is_some_and(|set| matches(set, text)) {
            return Some(ScopeRule::Exclude);
        }
        if text.len() > self.max_url {
            return Some(ScopeRule::MaxUrl);
        }
        if kind != LinkKind::Root && !host.is_resolvable {
            return Some(ScopeRule::Name);
        }
        match kind {
            LinkKind::Root => return None,
            // A sitemap file has no depth, and patterns for pages do not apply to it.
            LinkKind::SitemapFile => return self.rejecting_host_or_path_rule(url, host, kind),
            kind if self.follows(kind) => {}
            _ => return Some(ScopeRule::Kind),
        }
        // A page is incomplete without its resources, so they may be a few links further away.
        let extra_depth = if kind == LinkKind::Asset { MAX_ASSET_STEPS } else { 0 };
        if self.depth.is_some_and(|max_depth| depth > max_depth.saturating_add(extra_depth)) {
            return Some(ScopeRule::Depth);
        }
        if let Some(rule) = self.rejecting_host_or_path_rule(url, host, kind) {
            return Some(rule);
        }
        if !self.include.as_ref().is_none_or(|set| matches(set, text)) {
            return Some(ScopeRule::Include);
        }
        if !self.avoid_traps || !is_path_judged(kind) {
            return None;
        }
        is_deep(url.path()).then_some(ScopeRule::PathDepth)
    }

    /// The rule that rejects a URL because of its host or path; `None` if both are in scope.
    fn rejecting_host_or_path_rule(&self, url: UrlRef<'_>, host: HostVerdict, kind: LinkKind) -> Option<ScopeRule> {
        if let (LinkKind::Asset, Some(assets)) = (kind, self.assets) {
            return match assets {
                AssetsScope::Any => None,
                AssetsScope::Host => (!self.hosts.contains(host_key(url.host()))).then_some(ScopeRule::Host),
                AssetsScope::Domain => (!self.domains.contains(domain_key(url.host()))).then_some(ScopeRule::Domain),
            };
        }
        // Sitemap files are usually in another directory than the pages, so only their host counts.
        let is_sitemap_file = kind == LinkKind::SitemapFile;
        match self.scope_kind {
            ScopeKind::Any => None,
            ScopeKind::Page if !is_sitemap_file => (!self.is_root(url)).then_some(ScopeRule::Page),
            ScopeKind::Prefix if !is_sitemap_file => (!self.is_below_a_root(url)).then_some(ScopeRule::Prefix),
            ScopeKind::Page | ScopeKind::Prefix | ScopeKind::Host => (!host.is_inside).then_some(ScopeRule::Host),
            ScopeKind::Domain => (!host.is_inside).then_some(ScopeRule::Domain),
        }
    }

    fn is_root(&self, url: UrlRef<'_>) -> bool {
        self.roots.contains(url.as_str())
    }

    fn is_below_a_root(&self, url: UrlRef<'_>) -> bool {
        let directories = self.directories.get(host_key(url.host()));
        directories.is_some_and(|list| list.iter().any(|directory| url.path().starts_with(&**directory)))
    }
}

/// A [`Scope`] that caches the decision about the last host: most links of a page have the same host.
pub struct ScopeJudge<'a> {
    scope: &'a Scope,
    /// The last host.
    host: String,
    host_verdict: HostVerdict,
}

/// The part of the decision that depends only on the host.
#[derive(Clone, Copy)]
struct HostVerdict {
    /// Whether the name is valid in DNS.
    is_resolvable: bool,
    /// Whether the host is in scope.
    is_inside: bool,
}

impl ScopeJudge<'_> {
    /// See [`Scope::judge`].
    pub fn judge(&mut self, url: UrlRef<'_>, depth: u32, kind: LinkKind) -> ScopeVerdict {
        if url.host() != self.host {
            self.host.clear();
            self.host.push_str(url.host());
            self.host_verdict = self.scope.judge_host(url.host());
        }
        verdict(self.scope.rejecting_rule(url, self.host_verdict, depth, kind))
    }
}

/// Tries patterns on the normalized URL and on its percent-decoded form: a user writes `/café/` where the URL has
/// `/caf%C3%A9/`.
pub(crate) fn matches(patterns: &RegexSet, url: &str) -> bool {
    patterns.is_match(url) || percent_decoded(url).is_some_and(|decoded| patterns.is_match(&decoded))
}

/// The index of the first pattern that matches a URL, normalized or percent-decoded.
pub(crate) fn first_match(patterns: &RegexSet, url: &str) -> Option<usize> {
    let first = |url: &str| patterns.matches(url).iter().next();
    let decoded = percent_decoded(url).and_then(|decoded| first(&decoded));
    first(url).into_iter().chain(decoded).min()
}

/// The percent-decoded form of a URL, if it differs. Patterns are tried on both.
pub fn percent_decoded(url: &str) -> Option<String> {
    match percent_decode_str(url).decode_utf8_lossy() {
        Cow::Borrowed(_) => None,
        Cow::Owned(decoded) => Some(decoded),
    }
}

/// The keys of the hosts of these roots.
fn host_keys(roots: &[Url]) -> HashSet<Box<str>> {
    let mut hosts = HashSet::new();
    for root in roots {
        hosts.get_or_insert_with(host_key(root.host()), |host| host.into());
    }
    hosts
}

/// The keys of the registrable domains of these roots.
fn domain_keys(roots: &[Url]) -> HashSet<Box<str>> {
    let mut domains = HashSet::new();
    for root in roots {
        domains.get_or_insert_with(domain_key(root.host()), |domain| domain.into());
    }
    domains
}

fn verdict(rejecting_rule: Option<ScopeRule>) -> ScopeVerdict {
    rejecting_rule.map_or(ScopeVerdict::Follow, ScopeVerdict::Reject)
}

impl ScopeRule {
    pub const ALL: &'static [Self] = &[
        Self::Exclude,
        Self::MaxUrl,
        Self::Name,
        Self::Kind,
        Self::Depth,
        Self::Page,
        Self::Prefix,
        Self::Host,
        Self::Domain,
        Self::Include,
        Self::PathDepth,
    ];

    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exclude => "exclude",
            Self::MaxUrl => "max_url",
            Self::Name => "name",
            Self::Kind => "kind",
            Self::Depth => "depth",
            Self::Page => "page",
            Self::Prefix => "prefix",
            Self::Host => "host",
            Self::Domain => "domain",
            Self::Include => "include",
            Self::PathDepth => "path_depth",
        }
    }
}

impl serde::Serialize for ScopeRule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The key of a host: its name without a trailing dot, and without `www.` if at least two labels remain.
pub(crate) fn host_key(host: &str) -> &str {
    let host = without_dot(host);
    match host.strip_prefix("www.") {
        Some(rest) if rest.contains('.') => rest,
        _ => host,
    }
}

/// The registrable domain. An IP address, or a name that is a public suffix itself, is its own key.
pub(crate) fn domain_key(host: &str) -> &str {
    let host = without_dot(host);
    url::registrable_domain(host).unwrap_or(host)
}

fn without_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// A path up to its last slash.
fn directory(path: &str) -> &str {
    path.rfind('/').and_then(|slash| path.get(..=slash)).unwrap_or("/")
}

/// Compiles patterns that may match anywhere in a URL; `None` if there are none.
pub(crate) fn compile_patterns(texts: &[String]) -> Result<Option<RegexSet>, BadPattern> {
    if texts.is_empty() {
        return Ok(None);
    }
    let build = |texts: &[String]| RegexSetBuilder::new(texts).size_limit(MAX_PATTERN_SIZE).build();
    match build(texts) {
        Ok(set) => Ok(Some(set)),
        Err(error) => {
            // Find the pattern that fails. If none fails alone, they are too large together.
            let failing =
                texts.iter().find_map(|text| build(std::slice::from_ref(text)).err().map(|error| (text, error)));
            let (pattern, error) = failing.map_or((texts.join(" "), error), |(text, error)| (text.clone(), error));
            Err(BadPattern { pattern, reason: pattern_fault(&error) })
        }
    }
}

/// Checks a pattern that may be excluded while a crawl runs. The error says what is wrong with it.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    compile_patterns(&[pattern.to_owned()]).map(drop).map_err(|bad| bad.to_string())
}

/// What is wrong with a pattern, in one line. The message of the regex library shows the pattern first; its last line is
/// the reason.
pub(crate) fn pattern_fault(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        error => {
            let text = error.to_string();
            text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
        }
    }
}

/// Whether the rules about paths apply to links of this kind. Roots and sitemap entries are exempt.
fn is_path_judged(kind: LinkKind) -> bool {
    !matches!(kind, LinkKind::Root | LinkKind::Sitemap | LinkKind::SitemapFile)
}

#[cfg(test)]
mod tests;
