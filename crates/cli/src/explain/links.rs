//! Why the links to a URL were not followed, from the link graph and the records of the linking pages.

use std::collections::{BTreeSet, HashMap};

use argiope_core::crawl::rules::Rules;
use argiope_core::{LinkKind, UrlRef};
use argiope_store::disk::{LinkGraph, Referrers};

use crate::records::{self, ReadError};
use crate::results::Results;

/// Why a link is not followed, apart from scope and traps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnfollowedReason {
    /// The link, or its whole page, is marked nofollow.
    Nofollow,
    /// It is an image, a style, a script or the like.
    Asset,
    /// It is a string of the data in a script.
    Data,
    /// `--pick` or `--next` decides about the links of the page.
    NotPicked,
    /// It is the entry of a sitemap, which may have changed last before the date of `--since`.
    Old,
    /// It is a canonical link, a form or another link that does not lead to a page.
    OnlyRecorded,
    /// It is the entry of a sitemap of another site.
    OtherSite,
}

impl UnfollowedReason {
    /// What the user reads.
    pub fn description(self) -> &'static str {
        match self {
            Self::Nofollow => "marked nofollow; --follow-nofollow follows them, in a new crawl directory",
            Self::Asset => "images, styles, scripts or media; --assets fetches them, in a new crawl directory",
            Self::Data => "in the data of scripts; --follow data follows them",
            Self::NotPicked => "not among the links that --pick and --next choose on these pages",
            Self::Old => "entries of a sitemap with a date before --since",
            Self::OnlyRecorded => "canonical or alternate links, forms or the like, which are only recorded",
            Self::OtherSite => "entries of a sitemap of another site, which cannot add pages here",
        }
    }
}

/// A page that links to the URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageWithLink {
    pub depth: u32,
    /// Whether the page forbids following its links.
    pub nofollow: bool,
}

/// The depth of these pages, and whether they forbid following their links.
pub fn linking_pages(results: &Results, urls: &[String]) -> Result<HashMap<String, PageWithLink>, ReadError> {
    let texts: Vec<&str> = urls.iter().map(String::as_str).collect();
    let traces = results.tracer()?.urls(&texts)?;
    urls.iter()
        .zip(traces)
        .map(|(url, trace)| {
            let record = trace.records.last().map(|record| records::read(record)).transpose()?;
            let depth = trace.links.first().map_or(0, |link| link.depth);
            Ok((url.clone(), PageWithLink { depth, nofollow: record.is_some_and(|record| record.nofollow) }))
        })
        .collect()
}

/// Why the links of these pages to the URL are not followed. Empty if one of them is of a kind that is followed: then
/// another rule decided, such as the scope.
pub fn unfollowed(
    graph: &mut LinkGraph,
    url: &str,
    pages: &HashMap<String, PageWithLink>,
    rules: Option<&Rules>,
    is_in_scope: bool,
) -> Result<Vec<UnfollowedReason>, ReadError> {
    let follows_nofollow = rules.is_some_and(|rules| rules.follow_nofollow);
    let picks = rules.is_some_and(|rules| !rules.pick.is_empty() || !rules.next.is_empty());
    let is_since = rules.is_some_and(|rules| rules.since.is_some());
    let (mut reasons, mut has_followed_link) = (BTreeSet::new(), false);
    graph.pages(|page| {
        let Some(linking_page) = pages.get(page.source) else { return Ok::<(), ReadError>(()) };
        for edge in page.edges().filter(|edge| edge.target == url) {
            let is_asset = edge.kind == LinkKind::Asset;
            if page.is_sitemap && is_in_scope && is_since && is_same_host(page.source, url) {
                reasons.insert(UnfollowedReason::Old);
            } else if page.is_sitemap
                && edge.kind == LinkKind::Sitemap
                && !is_in_scope
                && is_same_host(page.source, url)
            {
                // The sitemap may list the page. The scope has rejected it.
                has_followed_link = true;
            } else if page.is_sitemap && edge.kind == LinkKind::Sitemap {
                reasons.insert(UnfollowedReason::OtherSite);
            } else if (edge.nofollow || linking_page.nofollow) && !follows_nofollow {
                reasons.insert(UnfollowedReason::Nofollow);
            } else if is_asset && !rules.is_some_and(|rules| rules.assets) {
                reasons.insert(UnfollowedReason::Asset);
            } else if edge.kind == LinkKind::Data {
                let is_followed = rules.is_some_and(|rules| rules.scope.follows(LinkKind::Data));
                has_followed_link |= is_followed;
                if !is_followed {
                    reasons.insert(UnfollowedReason::Data);
                }
            } else if is_in_scope && edge.kind.is_page() && !page.is_sitemap && picks {
                reasons.insert(UnfollowedReason::NotPicked);
            } else if edge.kind.is_page() || is_asset || edge.kind == LinkKind::SitemapFile {
                has_followed_link = true;
            } else {
                reasons.insert(UnfollowedReason::OnlyRecorded);
            }
        }
        Ok(())
    })?;
    Ok(if has_followed_link { Vec::new() } else { reasons.into_iter().collect() })
}

/// Whether a sitemap lists the URL.
pub fn is_listed(graph: &mut LinkGraph, url: &str) -> Result<bool, ReadError> {
    let mut is_listed = false;
    graph.pages(|page| {
        let has_entry = |kind, target| kind == LinkKind::Sitemap && target == url;
        is_listed |= page.is_sitemap && page.edges().any(|edge| has_entry(edge.kind, edge.target));
        Ok::<(), ReadError>(())
    })?;
    Ok(is_listed)
}

/// The pages of which not all links are known, because a limit cut their list.
pub fn cut_pages(graph: &mut LinkGraph, max_listed: usize) -> Result<Referrers, ReadError> {
    let mut cut = Referrers::default();
    graph.pages(|page| {
        if page.cut > 0 && !page.is_sitemap {
            cut.count += 1;
            if cut.first.len() < max_listed {
                cut.first.push(page.source.to_owned());
            }
        }
        Ok::<(), ReadError>(())
    })?;
    Ok(cut)
}

/// Whether two URLs have the same host; `www.` does not count.
fn is_same_host(one: &str, other: &str) -> bool {
    let host = |url| UrlRef::from_normal(url).map(|url| url.host().trim_start_matches("www.").to_owned());
    host(one).is_some_and(|one| host(other) == Some(one))
}
