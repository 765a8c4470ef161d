//! [`SiteIndex`]: facts about all pages that are needed to judge a single page, in a few dozen bytes per page.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use argiope_core::rules::Rules;
use argiope_core::schedule::carryover::LaneNote;
use argiope_core::{LinkKind, Outcome, UrlRef};
use argiope_store::disk::{GraphRound, HistoryEvent, LinkGraph, PageEdges};
use xxhash_rust::xxh3::xxh3_64;

use super::near_duplicates::{self, TextSketch};
use crate::records::{self, ReadError, StoredRecord};

/// A URL by its hash.
pub fn key(url: &str) -> u64 {
    xxh3_64(url.as_bytes())
}

/// The facts about a page that are needed to judge other pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageEntry {
    pub is_ok: bool,
    pub is_broken: bool,
    pub is_loop: bool,
    pub noindex: bool,
    /// The hash of the canonical URL, if it differs from the URL of the page.
    pub canonical: Option<u64>,
    pub redirect: Option<u64>,
    pub is_asset: bool,
    pub is_in_sitemap: bool,
}

/// A link from an https page to an http URL: a resource of the page, or a page of the same host.
#[derive(Debug)]
pub struct InsecureEdge {
    pub source: String,
    pub target: String,
    pub is_asset: bool,
}

/// Facts about all pages of the latest round. URLs and texts are represented by their hash ([`key`]).
#[derive(Debug, Default)]
pub struct SiteIndex {
    pub pages: HashMap<u64, PageEntry>,
    /// How many pages have the same title, description or body.
    pub titles: HashMap<u64, u32>,
    pub descriptions: HashMap<u64, u32>,
    pub bodies: HashMap<u64, u32>,
    /// Pages whose text can be compared; empty once `near` is known.
    sketches: Vec<TextSketch>,
    /// Whether the text of any page can be compared.
    pub has_sketches: bool,
    /// Pages with nearly the same text as another page, and that page.
    pub near: HashMap<u64, u64>,
    /// URLs that a page other than themselves links to.
    pub linked: HashSet<u64>,
    /// Pairs of page and translation: the page names the translation.
    pub translations: HashSet<(u64, u64)>,
    /// Links from https to http, in the order of the crawl.
    pub insecure: Vec<InsecureEdge>,
    /// Whether any record has descriptions and headings.
    pub has_facts: bool,
    pub has_assets: bool,
    pub has_sitemap: bool,
    /// The texts of robots.txt files, by URL. The URLs always contain the port.
    pub robots: HashMap<String, String>,
    pub html_pages: u64,
    /// The settings of the last run.
    pub rules: Option<Rules>,
}

/// Whether this is a successfully fetched HTML page.
pub fn is_readable(record: &StoredRecord) -> bool {
    let is_html = record.content_type.as_deref().is_some_and(|kind| kind.contains("html"));
    is_ok(record) && is_html
}

fn is_ok(record: &StoredRecord) -> bool {
    matches!(record.outcome, Some(Outcome::Ok | Outcome::NotModified))
}

/// The canonical URL, if it differs from the URL of the page.
pub fn foreign_canonical(record: &StoredRecord) -> Option<&str> {
    record.canonical.as_deref().filter(|canonical| *canonical != record.url)
}

impl SiteIndex {
    /// Whether this is the https candidate of a root without a scheme.
    pub fn is_guess(&self, url: &str) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.is_guess(url))
    }

    pub fn of(directory: &Path) -> Result<Self, ReadError> {
        let mut index = Self::default();
        records::walk(directory, |event| {
            match event {
                HistoryEvent::Link { url, kind, .. } => {
                    let entry = index.pages.entry(key(url)).or_default();
                    entry.is_asset |= kind == LinkKind::Asset;
                    entry.is_in_sitemap |= kind == LinkKind::Sitemap;
                    index.has_sitemap |= kind == LinkKind::Sitemap;
                }
                HistoryEvent::Note { host, note } => {
                    let note: LaneNote = serde_json::from_slice(note).unwrap_or_default();
                    for robots in note.robots {
                        let scheme = if robots.https { "https" } else { "http" };
                        index.robots.insert(format!("{scheme}://{host}:{}/robots.txt", robots.port), robots.text);
                    }
                }
                HistoryEvent::Line { line } => {
                    let rules = StoredRecord::read(line)?.settings.and_then(|settings| settings.compile(0).ok());
                    index.rules = rules.or(index.rules.take());
                }
                HistoryEvent::FinalOutcome { .. } | HistoryEvent::Round => {}
            }
            Ok(())
        })?;
        records::latest_pages(directory, |record| {
            index.add(record);
            Ok(())
        })?;
        index.near = near_duplicates::pairs(std::mem::take(&mut index.sketches));
        let mut graph = LinkGraph::open(directory, GraphRound::Latest)?;
        graph.pages(|page| {
            index.add_edges(&page);
            Ok::<(), ReadError>(())
        })?;
        Ok(index)
    }

    fn add(&mut self, record: &StoredRecord) {
        let url = key(&record.url);
        let entry = self.pages.entry(url).or_default();
        entry.is_ok = is_ok(record);
        entry.is_broken = match record.outcome {
            Some(Outcome::HttpError | Outcome::Failed) => true,
            Some(Outcome::Redirect) => record.error.is_some(),
            _ => false,
        };
        entry.is_loop = record.error.as_ref().is_some_and(|error| error.kind.as_str() == "redirect_loop");
        entry.noindex = record.is_noindex();
        entry.canonical = foreign_canonical(record).map(key);
        entry.redirect = record.redirect.as_deref().map(key);
        self.has_assets |= entry.is_asset;
        if is_readable(record) {
            self.html_pages += 1;
            self.has_facts |= record.words.is_some();
            let count = |counts: &mut HashMap<u64, u32>, text: Option<&String>| {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    *counts.entry(key(text)).or_default() += 1;
                }
            };
            // A page that names another one as canonical is expected to duplicate it.
            if foreign_canonical(record).is_none() && !record.is_noindex() {
                count(&mut self.titles, record.title.as_ref());
                count(&mut self.descriptions, record.description.as_ref());
                count(&mut self.bodies, record.digest.as_ref());
                if let Some(min_hash) = record.minhash.as_deref().and_then(|text| text.parse().ok()) {
                    let body = key(record.digest.as_deref().unwrap_or_default());
                    self.sketches.push(TextSketch { min_hash, body, url });
                    self.has_sketches = true;
                }
            }
        }
        for target in record.hreflang.values() {
            self.translations.insert((url, key(target)));
        }
    }

    fn add_edges(&mut self, page: &PageEdges<'_>) {
        let is_secure = page.source.starts_with("https://");
        let host = UrlRef::from_normal(page.source).map_or("", UrlRef::host);
        for edge in page.edges() {
            if page.is_sitemap {
                self.has_sitemap = true;
                self.pages.entry(key(edge.target)).or_default().is_in_sitemap = true;
                continue;
            }
            if edge.kind.is_page() && edge.target != page.source {
                self.linked.insert(key(edge.target));
            }
            let is_asset = edge.kind == LinkKind::Asset;
            let is_own = || UrlRef::from_normal(edge.target).is_some_and(|url| url.host() == host);
            if is_secure
                && edge.target.starts_with("http://")
                && (is_asset || (edge.kind == LinkKind::Anchor && is_own()))
            {
                let (source, target) = (page.source.to_owned(), edge.target.to_owned());
                self.insecure.push(InsecureEdge { source, target, is_asset });
            }
        }
    }

    pub fn get(&self, url: &str) -> Option<&PageEntry> {
        self.pages.get(&key(url))
    }

    /// Whether the redirects from this URL lead into a loop.
    pub fn loops(&self, start: u64) -> bool {
        let mut seen = HashSet::from([start]);
        let mut at = start;
        while let Some(next) = self.pages.get(&at).and_then(|entry| entry.redirect) {
            if self.pages.get(&next).is_some_and(|entry| entry.is_loop) || !seen.insert(next) {
                return true;
            }
            at = next;
        }
        self.pages.get(&at).is_some_and(|entry| entry.is_loop)
    }
}
