//! Findings about a crawled site, judged from the records of a crawl directory.
//!
//! Two passes over the records: the first gathers what is known of all pages ([`index`]), the second judges each page.
//! Findings that the records do not allow to judge are listed as such, with the flag that would help.

pub mod catalogue;
mod index;
mod languages;
mod near_duplicates;
mod robots_lint;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use argiope_core::Outcome;

use crate::records::{self, ReadError, StoredRecord};
pub use catalogue::{CATALOGUE, FindingId, FindingKind, Severity};
use index::{InsecureEdge, SiteIndex, foreign_canonical, is_readable, key};

const TITLE_LONG: usize = 70;
const TITLE_SHORT: usize = 10;
const DESCRIPTION_LONG: usize = 160;
const DESCRIPTION_SHORT: usize = 50;
/// Pages more clicks than this from a root are deep.
const DEEP: u32 = 5;
/// Images with more bytes are large.
const LARGE_IMAGE: u64 = 500_000;

/// What to look for, and how much of it to keep.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// Pages that take longer are slow.
    pub slow: Duration,
    /// Maximum number of pages kept per finding; all are counted.
    pub keep: usize,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { slow: Duration::from_secs(2), keep: 1_000 }
    }
}

/// A page with a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedPage {
    pub url: String,
    /// What exactly was found there.
    pub detail: String,
}

/// One kind of finding, and where it was found.
#[derive(Debug)]
pub struct Finding {
    pub kind: &'static FindingKind,
    pub total: u64,
    pub pages: Vec<AuditedPage>,
}

/// Findings that could not be judged, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjudged {
    pub ids: Vec<&'static str>,
    pub reason: &'static str,
}

/// What an audit found.
#[derive(Debug, Default)]
pub struct Audit {
    /// HTML pages that were judged.
    pub pages: u64,
    /// The kinds of findings that were found, the most severe first.
    pub findings: Vec<Finding>,
    pub unjudged: Vec<Unjudged>,
}

impl Audit {
    /// Audits the latest round of a crawl directory.
    pub fn of_directory(directory: &Path, options: &AuditOptions) -> Result<Self, ReadError> {
        let index = SiteIndex::of(directory)?;
        let mut judge = Judge { index: &index, options, found: Vec::new(), names: HashMap::new() };
        judge.found.resize_with(CATALOGUE.len(), Default::default);
        judge.robots();
        judge.insecure_edges();
        records::latest_pages(directory, |record| {
            judge.page(record);
            Ok(())
        })?;
        judge.name_near_duplicates();
        let findings = CATALOGUE
            .iter()
            .zip(judge.found)
            .filter(|(_, (total, _))| *total > 0)
            .map(|(kind, (total, pages))| Finding { kind, total, pages })
            .collect();
        Ok(Self { pages: index.html_pages, findings, unjudged: unjudged(&index) })
    }

    /// How many pages have findings of this severity, counted once for each finding.
    pub fn total(&self, severity: Severity) -> u64 {
        self.findings.iter().filter(|finding| finding.kind.severity == severity).map(|finding| finding.total).sum()
    }
}

fn unjudged(index: &SiteIndex) -> Vec<Unjudged> {
    let mut unjudged = Vec::new();
    let mut add = |is_known: bool, ids: &[FindingId], reason| {
        if !is_known {
            unjudged.push(Unjudged { ids: ids.iter().map(|id| id.kind().id).collect(), reason });
        }
    };
    use FindingId as F;
    add(index.html_pages > 0, &[F::TitleMissing], "no HTML page was fetched");
    let facts = [
        F::DescriptionMissing,
        F::DescriptionDuplicate,
        F::DescriptionLong,
        F::DescriptionShort,
        F::HeadingMissing,
        F::HeadingMultiple,
        F::ImageAlt,
    ];
    add(index.has_facts, &facts, "the records hold no descriptions and headings: crawl again with a newer version");
    add(
        index.has_sitemap,
        &[F::Orphan, F::SitemapMissing, F::SitemapError, F::SitemapNoindex, F::SitemapCanonical],
        "no sitemap was read: the site has none, or the crawl did not use --sitemap",
    );
    add(
        index.has_assets,
        &[F::BrokenResource, F::ImageLarge],
        "no images and files were fetched: there are none, or the crawl did not use --assets",
    );
    let reason = "no record has a fingerprint of its text: the pages are short, or were crawled with an older version";
    add(index.has_sketches, &[F::NearDuplicate], reason);
    unjudged
}

/// Judges pages one by one.
struct Judge<'a> {
    index: &'a SiteIndex,
    options: &'a AuditOptions,
    /// By [`FindingId`]: the total, and the pages that are kept.
    found: Vec<(u64, Vec<AuditedPage>)>,
    /// The URLs of near-duplicates, by the hash of the URL.
    names: HashMap<u64, String>,
}

impl Judge<'_> {
    /// Adds a page to a finding.
    fn find(&mut self, id: FindingId, url: &str, detail: impl Into<String>) {
        if let Some((total, pages)) = self.found.get_mut(id as usize) {
            *total += 1;
            if pages.len() < self.options.keep {
                pages.push(AuditedPage { url: url.to_owned(), detail: detail.into() });
            }
        }
    }

    fn robots(&mut self) {
        let mut files: Vec<(&String, &String)> = self.index.robots.iter().collect();
        files.sort();
        for (url, text) in files {
            let shown = url.replacen(":80/", "/", 1).replacen(":443/", "/", 1);
            for fault in robots_lint::faults(text) {
                self.find(FindingId::RobotsFault, &shown, fault);
            }
        }
    }

    fn page(&mut self, record: &StoredRecord) {
        let entry = self.index.get(&record.url).copied().unwrap_or_default();
        match record.outcome {
            Some(Outcome::Failed) if record.via.is_none() && self.index.is_guess(&record.url) => {}
            Some(Outcome::HttpError | Outcome::Failed) => {
                let id = if entry.is_asset { FindingId::BrokenResource } else { FindingId::BrokenLink };
                let cause = match (&record.error, record.status) {
                    (Some(error), _) => error.kind.to_string(),
                    (None, Some(status)) => status.to_string(),
                    (None, None) => String::new(),
                };
                let via = record.via.as_deref().map_or_else(|| "a root".to_owned(), |via| format!("on {via}"));
                self.find(id, &record.url, format!("{cause}, {via}"));
            }
            Some(Outcome::Redirect) => self.redirect(record),
            _ => {}
        }
        if entry.is_in_sitemap {
            self.in_sitemap(record);
        }
        if is_readable(record) {
            self.readable(record);
        }
        let is_image = record.content_type.as_deref().is_some_and(|kind| kind.starts_with("image/"));
        if is_image && let Some(size) = record.bytes_body.filter(|size| *size > LARGE_IMAGE) {
            self.find(FindingId::ImageLarge, &record.url, format!("{size} bytes"));
        }
    }

    fn redirect(&mut self, record: &StoredRecord) {
        let Some(target) = record.redirect.as_deref() else { return };
        if self.index.loops(key(&record.url)) {
            self.find(FindingId::RedirectLoop, &record.url, format!("to {target}"));
            return;
        }
        if record.url.starts_with("https://") && target.starts_with("http://") {
            self.find(FindingId::RedirectToHttp, &record.url, format!("to {target}"));
        }
        match self.index.get(target) {
            Some(next) if next.redirect.is_some() => {
                self.find(FindingId::RedirectChain, &record.url, format!("to {target}, which redirects too"));
            }
            Some(next) if next.is_broken => {
                self.find(FindingId::RedirectBroken, &record.url, format!("to {target}"));
            }
            _ => {}
        }
    }

    fn in_sitemap(&mut self, record: &StoredRecord) {
        let is_ok = matches!(record.outcome, Some(Outcome::Ok | Outcome::NotModified));
        if !is_ok {
            let status = record.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
            self.find(FindingId::SitemapError, &record.url, status);
        } else if record.is_noindex() {
            self.find(FindingId::SitemapNoindex, &record.url, "");
        } else if let Some(canonical) = foreign_canonical(record) {
            self.find(FindingId::SitemapCanonical, &record.url, format!("canonical {canonical}"));
        }
        if is_ok && !self.index.linked.contains(&key(&record.url)) && record.depth > 0 {
            self.find(FindingId::Orphan, &record.url, "");
        }
    }

    /// Judges an HTML page that was fetched successfully.
    fn readable(&mut self, record: &StoredRecord) {
        let url = record.url.as_str();
        let is_main = foreign_canonical(record).is_none() && !record.is_noindex();
        match record.title.as_deref().filter(|title| !title.is_empty()) {
            None => self.find(FindingId::TitleMissing, url, ""),
            Some(title) => {
                let length = title.chars().count();
                if length > TITLE_LONG {
                    self.find(FindingId::TitleLong, url, format!("{length} characters: {title}"));
                } else if length < TITLE_SHORT {
                    self.find(FindingId::TitleShort, url, title);
                }
                if is_main && self.index.titles.get(&key(title)).is_some_and(|count| *count > 1) {
                    self.find(FindingId::TitleDuplicate, url, title);
                }
            }
        }
        if record.words.is_some() {
            self.facts(record, is_main);
        }
        if let Some(canonical) = foreign_canonical(record) {
            if record.is_noindex() {
                self.find(FindingId::CanonicalConflict, url, format!("noindex and canonical {canonical}"));
            }
            match self.index.get(canonical) {
                Some(target) if target.is_broken || target.redirect.is_some() => {
                    self.find(FindingId::CanonicalBroken, url, format!("canonical {canonical}"));
                }
                Some(target) if target.is_ok && target.canonical.is_some() => {
                    self.find(FindingId::CanonicalChain, url, format!("canonical {canonical}"));
                }
                Some(target) if target.is_ok && target.noindex => {
                    self.find(FindingId::CanonicalConflict, url, format!("canonical {canonical} has noindex"));
                }
                _ => {}
            }
        }
        let digest = record.digest.as_deref().unwrap_or_default();
        if is_main && self.index.bodies.get(&key(digest)).is_some_and(|count| *count > 1) {
            self.find(FindingId::DuplicateBody, url, digest.get(..23).unwrap_or(digest));
        }
        let own = key(url);
        if self.index.near.contains_key(&own) {
            if self.names.len() < self.options.keep.saturating_mul(2) {
                self.names.insert(own, url.to_owned());
            }
            self.find(FindingId::NearDuplicate, url, "");
        }
        for (code, target) in &record.hreflang {
            if !languages::is_code(code) {
                self.find(FindingId::HreflangCode, url, code.as_str());
            }
            let is_known = self.index.get(target).is_some_and(|entry| entry.is_ok);
            let returns = self.index.translations.contains(&(key(target), key(url)));
            if is_known && target != url && !returns {
                self.find(FindingId::HreflangNoReturn, url, format!("{code}: {target}"));
            }
        }
        if record.depth > DEEP {
            self.find(FindingId::DeepPage, url, format!("{} clicks", record.depth));
        }
        if let Some(total) = record.ms.total.filter(|total| Duration::from_millis(*total) > self.options.slow) {
            self.find(FindingId::PageSlow, url, format!("{:.1} s", total as f64 / 1e3));
        }
        let is_indexed = self.index.get(url).is_some_and(|entry| entry.is_in_sitemap);
        if self.index.has_sitemap && is_main && !is_indexed && record.depth > 0 {
            self.find(FindingId::SitemapMissing, url, "");
        }
    }

    /// Adds to each near-duplicate the URL of the page that it resembles. Called when all URLs are known.
    fn name_near_duplicates(&mut self) {
        let Some((_, pages)) = self.found.get_mut(FindingId::NearDuplicate as usize) else { return };
        for page in pages {
            let other = self.index.near.get(&key(&page.url)).and_then(|other| self.names.get(other));
            page.detail = other.map_or_else(String::new, |other| format!("like {other}"));
        }
    }

    /// Judges description, headings and images, which records of older versions do not contain.
    fn facts(&mut self, record: &StoredRecord, is_main: bool) {
        let url = record.url.as_str();
        match record.description.as_deref().filter(|text| !text.is_empty()) {
            None => self.find(FindingId::DescriptionMissing, url, ""),
            Some(text) => {
                let length = text.chars().count();
                if length > DESCRIPTION_LONG {
                    self.find(FindingId::DescriptionLong, url, format!("{length} characters"));
                } else if length < DESCRIPTION_SHORT {
                    self.find(FindingId::DescriptionShort, url, text);
                }
                if is_main && self.index.descriptions.get(&key(text)).is_some_and(|count| *count > 1) {
                    self.find(FindingId::DescriptionDuplicate, url, text);
                }
            }
        }
        if record.h1.is_none() {
            self.find(FindingId::HeadingMissing, url, "");
        }
        if let Some(count) = record.h1_count.filter(|count| *count > 1) {
            self.find(FindingId::HeadingMultiple, url, format!("{count} headings"));
        }
        if let Some(count) = record.images_without_alt.filter(|count| *count > 0) {
            self.find(FindingId::ImageAlt, url, format!("{count} images"));
        }
    }

    /// Links from https to http.
    fn insecure_edges(&mut self) {
        for InsecureEdge { source, target, is_asset } in &self.index.insecure {
            let id = if *is_asset { FindingId::MixedContent } else { FindingId::InsecureLink };
            self.find(id, source, target.as_str());
        }
    }
}
