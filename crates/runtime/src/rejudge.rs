//! Applies a changed scope, depth or pattern of an existing crawl to its known links.
//!
//! Links that the old settings rejected and the new ones admit are queued. They are found in the link graph, which has
//! all links. Links that an earlier change removed from the queue are queued again if they are admitted now. Queued
//! links that are not admitted any more stay in the queue; the keeper drops them when it takes them. Fetched pages
//! stay.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use argiope_core::base::link::LinkRef;
use argiope_core::crawl::record::LazyRecord;
use argiope_core::crawl::rules::{Config, Rules};
use argiope_core::crawl::schedule::frontier::{StoreError, put_all};
use argiope_core::crawl::settings::Settings as _;
use argiope_core::page::scope::ScopeVerdict;
use argiope_core::page::sitemap::SitemapBounds;
use argiope_core::{LinkKind, Url, UrlRef};
use argiope_store::disk::{self, DiskFrontier, GraphRound, HistoryEvent, LinkGraph, SettingChange};

use crate::changed_roots;

/// Queues the links that are admitted now; returns how many there are.
pub fn rejudge(
    directory: &Path,
    frontier: &mut DiskFrontier,
    rules: &Rules,
    config: &Config,
    changes: &[SettingChange],
) -> Result<u64, StoreError> {
    let is_admitted =
        |rules: &Rules, url: UrlRef<'_>, depth, kind| rules.scope.judge(url, depth, kind) == ScopeVerdict::Follow;
    let mut queued = frontier.requeue_skipped(|link| is_admitted(rules, link.url.as_ref(), link.depth, link.kind))?;
    // Only the scope of the old rules is used, so any fingerprint key will do.
    let Ok(old) = settings_before(config, changes).compile(0) else { return Ok(queued) };
    let KnownPages { depths, sitemaps } = known_pages(directory, rules)?;
    LinkGraph::open(directory, GraphRound::Latest)?.pages(|page| {
        let Ok(source) = Url::parse(page.source) else { return Ok(()) };
        let depth = if page.is_sitemap { Some(0) } else { depths.get(&fingerprint(&source, rules)).copied() };
        // `known_pages` leaves out pages that forbid following their links.
        let Some(depth) = depth else { return Ok(()) };
        let naming_hosts = sitemaps.get(&fingerprint(&source, rules)).cloned();
        let bounds = SitemapBounds { naming_hosts: naming_hosts.into_iter().collect(), ..SitemapBounds::default() };
        let mut links = Vec::new();
        for edge in page.edges() {
            if !rules.scope.follows(edge.kind) || (edge.nofollow && !rules.follow_nofollow) {
                continue;
            }
            let Some(target) = UrlRef::from_normal(edge.target) else { continue };
            // A sitemap cannot add pages of other sites, whatever the scope.
            if page.is_sitemap && edge.kind == LinkKind::Sitemap && !bounds.admits(&source, &target.to_url()) {
                continue;
            }
            let is_redirect = edge.kind == LinkKind::Redirect;
            let stripped = if is_redirect { None } else { rules.strip_params.strip(target) };
            let url = stripped.as_ref().map_or(target, Url::as_ref);
            let depth = if is_redirect { depth } else { depth.saturating_add(1) };
            if is_admitted(&old, url, depth, edge.kind) || !is_admitted(rules, url, depth, edge.kind) {
                continue;
            }
            let (via, kind) = (Some(&source), edge.kind);
            let redirects = rules.max_redirects;
            let link = LinkRef { url, via, depth, redirects, tries: 0, kind, request: None, hash: None };
            links.push(link.to_link());
        }
        queued += put_all(frontier, &links)?.count() as u64;
        Ok::<(), StoreError>(())
    })?;
    Ok(queued)
}

/// The settings before the changes.
fn settings_before(config: &Config, changes: &[SettingChange]) -> Config {
    let mut config = config.clone();
    for SettingChange { name, before, .. } in changes {
        if let Some(setting) = Config::TABLE.iter().find(|setting| setting.key == name) {
            let texts: Vec<OsString> = match name.as_str() {
                "roots" => before.iter().map(|root| changed_roots::as_written(root).into()).collect(),
                _ => before.iter().map(OsString::from).collect(),
            };
            // Ignored: a stored value that cannot be read is as if it had not changed.
            let _ = config.set(setting, &texts);
        }
    }
    config
}

/// What is known about the pages whose links may be followed, by fingerprint.
#[derive(Default)]
struct KnownPages {
    depths: HashMap<u64, u32>,
    /// For each sitemap, the host of the file that names it.
    sitemaps: HashMap<u64, Box<str>>,
}

fn known_pages(directory: &Path, rules: &Rules) -> Result<KnownPages, StoreError> {
    let mut known = KnownPages::default();
    disk::history(directory, |event| {
        let KnownPages { depths, sitemaps } = &mut known;
        match event {
            HistoryEvent::Link { url, via: Some(via), kind: LinkKind::SitemapFile, .. } => {
                if let (Some(url), Some(via)) = (UrlRef::from_normal(url), UrlRef::from_normal(via)) {
                    sitemaps.entry(url.fingerprint(rules.fingerprint_key)).or_insert_with(|| via.host().into());
                }
            }
            HistoryEvent::Link { url, depth, kind, .. } if kind != LinkKind::SitemapFile => {
                if let Some(url) = UrlRef::from_normal(url) {
                    depths.entry(url.fingerprint(rules.fingerprint_key)).or_insert(depth);
                }
            }
            // The page forbids following its links.
            HistoryEvent::FinalOutcome { line, .. } if !rules.follow_nofollow => {
                let record = LazyRecord::read(line).filter(LazyRecord::nofollow);
                if let Some(url) = record.as_ref().map(LazyRecord::url)
                    && let Some(url) = UrlRef::from_normal(&url)
                {
                    depths.remove(&url.fingerprint(rules.fingerprint_key));
                }
            }
            _ => {}
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(known)
}

fn fingerprint(url: &Url, rules: &Rules) -> u64 {
    url.fingerprint(rules.fingerprint_key)
}
