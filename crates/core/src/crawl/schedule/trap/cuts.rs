//! [`Cuts`]: the places where links were skipped, for reports.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::rule::TrapRule;
use crate::base::url::UrlRef;
use crate::page::scope::domain_key;
use crate::page::url_shape::{is_circular, is_deep, pattern};

/// Limit on cuts, which are places with skipped links, that are reported individually.
pub(super) const MAX_CUTS: usize = 1_000;
/// Limit on the characters of the example URL of a cut.
pub(super) const MAX_EXAMPLE: usize = 1_000;
/// Limit on cuts per host, so that one host does not displace others from the report.
const MAX_CUTS_PER_HOST: usize = 64;
/// The place under which all further skipped links are counted.
pub(super) const ELSEWHERE: &str = "elsewhere";

/// A place where links were skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    pub rule: TrapRule,
    /// The pattern, path, host or domain.
    pub at: Box<str>,
    /// Number of skipped links; a link found twice counts twice.
    pub skipped: u64,
    /// The first skipped link, or its first 1,000 characters.
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

/// The cuts of a crawl, and how many links were skipped at each.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    by_place: HashMap<(TrapRule, Box<str>), Cut>,
    /// Number of cuts, by the hash of the host.
    of_host: HashMap<u64, usize>,
}

impl Cuts {
    /// The places where links were skipped, largest numbers first.
    pub fn list(&self) -> Vec<Cut> {
        let mut cuts: Vec<Cut> = self.by_place.values().cloned().collect();
        cuts.sort_unstable_by(|a, b| (b.skipped, a.rule, &a.at).cmp(&(a.skipped, b.rule, &b.at)));
        cuts
    }

    /// Counts `links` skipped links at a place.
    pub fn add(&mut self, rule: TrapRule, at: &str, links: u64, example: &str) {
        let mut key = (rule, Box::from(at));
        if !self.by_place.contains_key(&key) {
            let host = at.split('/').next().unwrap_or(at);
            let host_hash = xxh3_64(host.as_bytes());
            let cuts_of_host = self.of_host.get(&host_hash).copied().unwrap_or(0);
            if self.by_place.len() >= MAX_CUTS || cuts_of_host >= MAX_CUTS_PER_HOST {
                key.1 = ELSEWHERE.into();
            } else {
                self.of_host.insert(host_hash, cuts_of_host + 1);
            }
        }
        let new_cut = || {
            let example: String = example.chars().take(MAX_EXAMPLE).collect();
            Cut { rule, at: key.1.clone(), skipped: 0, example: example.into() }
        };
        self.by_place.entry(key.clone()).or_insert_with(new_cut).skipped += links;
    }
}

/// Authority and path of a URL.
pub(super) fn path_of(url: UrlRef<'_>) -> String {
    format!("{}{}", url.authority(), url.path())
}
