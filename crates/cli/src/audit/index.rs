//! [`SiteIndex`]: the facts about all pages that are needed to judge a single page. Most URLs and texts are kept as
//! hashes, to save memory.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::carryover::LaneNote;
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_core::{LinkKind, Outcome, UrlRef};
use argiope_store::disk::{GraphRound, HistoryEvent, PageEdges};
use xxhash_rust::xxh3::xxh3_64;

use super::gaps::Gaps;
use super::near_duplicates::{self, TextSketch};
use crate::records::{self, ANY_FINGERPRINT_KEY, ReadError, StoredRecord};
use crate::report::{FaultySitemap, is_guess};
use crate::results::Results;
use crate::soft_404::ErrorAnswers;

/// The hash that stands for a URL or a text.
pub fn text_hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

/// The hash that stands for the body of a page; 0 if it has no digest.
fn body_hash(record: &StoredRecord) -> u64 {
    record.digest.map_or(0, |digest| digest.short())
}

/// The hash of the body, if it is what the page shows. Applications send the same body for all pages that scripts make.
pub fn shown_body(record: &StoredRecord) -> Option<u64> {
    record.digest.filter(|_| record.render.is_none()).map(|digest| digest.short())
}

/// The facts about a page that are needed to judge other pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageEntry {
    /// Whether it was fetched successfully.
    pub is_ok: bool,
    /// Whether links to it are broken.
    pub is_broken: bool,
    /// Whether it is the redirect that closes a loop.
    pub is_loop: bool,
    pub noindex: bool,
    /// The hash of the canonical URL, if it differs from the URL of the page.
    pub canonical: Option<u64>,
    /// The hash of the redirect target.
    pub redirect: Option<u64>,
    /// Whether a page loads it as an image, script or other resource.
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

/// Facts about all pages of the latest round. A `u64` is the hash of a URL or of a text ([`text_hash`]).
#[derive(Debug, Default)]
pub struct SiteIndex {
    pub pages: HashMap<u64, PageEntry>,
    /// The number of pages with each title.
    pub titles: HashMap<u64, u32>,
    /// The number of pages with each description.
    pub descriptions: HashMap<u64, u32>,
    /// The number of pages with each body.
    pub bodies: HashMap<u64, u32>,
    /// Fingerprints of the texts of pages; empty after `near_duplicates` was computed.
    sketches: Vec<TextSketch>,
    /// Whether any page has a fingerprint of its text.
    pub has_sketches: bool,
    /// For each page with nearly the same text as another page: that other page.
    pub near_duplicates: HashMap<u64, u64>,
    /// URLs to which another page links.
    pub linked_urls: HashSet<u64>,
    /// Pairs of a page and a translation that it names with `hreflang`.
    pub translations: HashSet<(u64, u64)>,
    /// Links from https to http, in the order of the crawl.
    pub insecure: Vec<InsecureEdge>,
    /// Whether any record has descriptions and headings.
    pub has_facts: bool,
    /// Whether any page was rendered.
    pub has_rendered: bool,
    /// Whether images, scripts and other files were fetched.
    pub has_assets: bool,
    /// Whether a sitemap was read.
    pub has_sitemap: bool,
    /// The texts of robots.txt files, by URL. The URLs always contain the port.
    pub robots: HashMap<String, String>,
    pub html_pages: u64,
    /// The answers of hosts for pages that do not exist.
    pub error_answers: ErrorAnswers,
    /// Sitemaps that could not be read to their end, and why.
    pub faulty_sitemaps: Vec<FaultySitemap>,
    /// The settings of the last run whose settings are valid; `None` if there is no such run.
    pub rules: Option<Rules>,
    /// What keeps pages of the site out of the crawl.
    pub gaps: Gaps,
}

/// Whether this is a successfully fetched HTML page.
pub fn is_fetched_html(record: &StoredRecord) -> bool {
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

/// Whether a robots.txt names this sitemap, by its whole URL or by its path.
fn names_sitemap(robots: &str, url: &str) -> bool {
    let named = robots.lines().filter_map(|line| line.split_once(':'));
    named.filter(|(field, _)| field.trim().eq_ignore_ascii_case("sitemap")).any(|(_, value)| {
        let value = value.split('#').next().unwrap_or(value).trim();
        value == url || (value.starts_with('/') && url.ends_with(value))
    })
}

impl SiteIndex {
    /// Whether this is the https candidate of a root without a scheme that was tried over http instead.
    pub fn is_guess(&self, record: &StoredRecord) -> bool {
        let outcome = record.outcome.unwrap_or(Outcome::Failed);
        record.via.is_none()
            && self.rules.as_ref().is_some_and(|rules| is_guess(outcome, record.error.as_deref(), &record.url, rules))
    }

    /// Reads the records and the link graph of a crawl.
    pub fn of(results: &Results) -> Result<Self, ReadError> {
        let mut index = Self::default();
        results.walk(|event| {
            match event {
                HistoryEvent::Link { url, kind, .. } => {
                    let entry = index.pages.entry(text_hash(url)).or_default();
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
                    let Some(run) = RunRecord::read(line) else { return Ok(()) };
                    let settings = records::settings_of(&run);
                    index.gaps.read_run(&run, settings.as_ref());
                    let rules = settings.and_then(|settings| settings.compile(ANY_FINGERPRINT_KEY).ok());
                    index.rules = rules.or(index.rules.take());
                }
                HistoryEvent::FinalOutcome { .. } | HistoryEvent::Round => {}
            }
            Ok(())
        })?;
        results.latest(|record| {
            index.error_answers.add(&record);
            if record.is_page() {
                index.add(&record);
            } else {
                index.faulty_sitemaps.extend(FaultySitemap::of(&record));
                index.gaps.unread_sitemaps += u64::from(FaultySitemap::is_forbidden(&record));
            }
            Ok(())
        })?;
        // A missing /sitemap.xml is a fault only if a robots.txt names it. `--sitemap` also requests this file from
        // sites whose robots.txt does not name it.
        let robots = &index.robots;
        index
            .faulty_sitemaps
            .retain(|sitemap| !sitemap.may_be_guess || robots.values().any(|text| names_sitemap(text, &sitemap.url)));
        // A sitemap that does not exist lists nothing.
        let unread = index.faulty_sitemaps.iter().filter(|sitemap| !sitemap.is_missing());
        index.gaps.unread_sitemaps += unread.count() as u64;
        index.near_duplicates = near_duplicates::pairs(std::mem::take(&mut index.sketches));
        let mut graph = results.graph(GraphRound::Latest)?;
        graph.pages(|page| {
            index.add_edges(&page);
            Ok::<(), ReadError>(())
        })?;
        index.follow_redirects();
        Ok(index)
    }

    fn add(&mut self, record: &StoredRecord) {
        let url = text_hash(&record.url);
        let entry = self.pages.entry(url).or_default();
        entry.is_ok = is_ok(record);
        entry.is_broken = match record.outcome {
            Some(Outcome::HttpError | Outcome::Failed) => true,
            Some(Outcome::Redirect) => record.error.is_some(),
            _ => false,
        };
        entry.is_loop = record.error.as_ref().is_some_and(|error| error.kind.as_str() == "redirect_loop");
        entry.noindex = record.is_noindex();
        entry.canonical = foreign_canonical(record).map(text_hash);
        entry.redirect = record.redirect.as_deref().map(text_hash);
        let is_asset = entry.is_asset;
        self.has_assets |= is_asset;
        if !is_asset && !self.is_guess(record) {
            self.gaps.read_page(record);
        }
        if is_fetched_html(record) {
            self.html_pages += 1;
            // Records with the number of words also have the other facts.
            self.has_facts |= record.words.is_some();
            self.has_rendered |= record.render.as_ref().is_some_and(|facts| facts.without_scripts.is_some());
            let count = |counts: &mut HashMap<u64, u32>, text: Option<&Cow<'_, str>>| {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    *counts.entry(text_hash(text)).or_default() += 1;
                }
            };
            // A page that names another page as canonical is expected to have the same content as that page.
            if foreign_canonical(record).is_none() && !record.is_noindex() && record.truncated.is_none() {
                count(&mut self.titles, record.title.as_ref());
                count(&mut self.descriptions, record.description.as_ref());
                if let Some(body) = shown_body(record) {
                    *self.bodies.entry(body).or_default() += 1;
                }
                if let Some(min_hash) = record.minhash {
                    let body = body_hash(record);
                    self.sketches.push(TextSketch { min_hash, body, url });
                    self.has_sketches = true;
                }
            }
        }
        for target in record.hreflang.values() {
            self.translations.insert((url, text_hash(target)));
        }
    }

    /// A link to a redirect is also a link to its target.
    fn follow_redirects(&mut self) {
        let mut open: Vec<u64> = self.linked_urls.iter().copied().collect();
        while let Some(url) = open.pop() {
            if let Some(target) = self.pages.get(&url).and_then(|entry| entry.redirect)
                && self.linked_urls.insert(target)
            {
                open.push(target);
            }
        }
    }

    fn add_edges(&mut self, page: &PageEdges<'_>) {
        let is_secure = page.source.starts_with("https://");
        let host = UrlRef::from_normal(page.source).map_or("", UrlRef::host);
        for edge in page.edges() {
            // A sitemap index lists other sitemaps, not pages.
            if page.is_sitemap && edge.kind == LinkKind::SitemapFile {
                continue;
            }
            if page.is_sitemap {
                self.has_sitemap = true;
                self.pages.entry(text_hash(edge.target)).or_default().is_in_sitemap = true;
                continue;
            }
            if edge.kind.is_page() && edge.target != page.source {
                self.linked_urls.insert(text_hash(edge.target));
            }
            let is_asset = edge.kind == LinkKind::Asset;
            let is_same_host = || UrlRef::from_normal(edge.target).is_some_and(|url| url.host() == host);
            if is_secure
                && edge.target.starts_with("http://")
                && (is_asset || (edge.kind == LinkKind::Anchor && is_same_host()))
            {
                let (source, target) = (page.source.to_owned(), edge.target.to_owned());
                self.insecure.push(InsecureEdge { source, target, is_asset });
            }
        }
    }

    /// The facts about a URL, if it is known.
    pub fn get(&self, url: &str) -> Option<&PageEntry> {
        self.pages.get(&text_hash(url))
    }

    /// Whether the redirects from a URL lead into a loop. `start` is the hash of the URL.
    pub fn leads_to_loop(&self, start: u64) -> bool {
        let mut seen = HashSet::from([start]);
        let mut url = start;
        while let Some(next) = self.pages.get(&url).and_then(|entry| entry.redirect) {
            if self.pages.get(&next).is_some_and(|entry| entry.is_loop) || !seen.insert(next) {
                return true;
            }
            url = next;
        }
        self.pages.get(&url).is_some_and(|entry| entry.is_loop)
    }
}
