//! [`TrapRule`]: why a link was skipped.

use serde::{Deserialize, Serialize};

use crate::page::scope::ScopeRule;

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
    pub fn description(self) -> &'static str {
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
            Self::HostMemory => "the names of more hosts do not fit into the memory limit",
            Self::MaxPagesPerHost => "the limit of pages per host",
        }
    }

    /// The rule of the traps that corresponds to a rule of the scope, if there is one.
    pub(super) fn of_scope(rule: ScopeRule) -> Option<Self> {
        match rule {
            ScopeRule::PathDepth => Some(Self::PathDepth),
            _ => None,
        }
    }
}
