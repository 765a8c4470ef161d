//! Findings about a crawled site, judged from the records of a crawl directory.
//!
//! An audit has two steps: the first collects facts about all pages ([`index`]), the second judges each page. If the
//! records do not contain what a finding depends on, the finding is listed as not judged, with the reason.

pub mod catalogue;
mod gaps;
mod index;
mod languages;
mod near_duplicates;
mod rendering;
mod robots_lint;

use std::collections::HashMap;
use std::time::Duration;

use argiope_core::Outcome;

use crate::records::{ReadError, StoredRecord};
use crate::report::CheckedLinks;
use crate::results::Results;
pub use catalogue::{CATALOGUE, FindingId, FindingKind, Severity};
use index::{InsecureEdge, SiteIndex, foreign_canonical, is_fetched_html, shown_body, text_hash};

// Titles and descriptions with more or fewer characters than these are findings.
const TITLE_LONG: usize = 70;
const TITLE_SHORT: usize = 10;
const DESCRIPTION_LONG: usize = 160;
const DESCRIPTION_SHORT: usize = 50;
/// Pages that are more links than this from a root are findings.
const DEEP_PAGE: u32 = 5;
/// Images with more bytes than this are findings.
const LARGE_IMAGE: u64 = 500_000;

/// What counts as a finding, and how many pages are kept.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// Pages that take longer are slow.
    pub slow_after: Duration,
    /// Maximum number of pages listed per finding. All are counted.
    pub max_listed: usize,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { slow_after: Duration::from_secs(2), max_listed: 1_000 }
    }
}

/// A page with a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedPage {
    pub url: String,
    /// Details for the user; may be empty.
    pub detail: String,
}

/// One kind of finding, and where it was found.
#[derive(Debug)]
pub struct Finding {
    pub kind: &'static FindingKind,
    /// The number of pages with this finding.
    pub total: u64,
    /// The first of these pages, up to [`AuditOptions::max_listed`].
    pub pages: Vec<AuditedPage>,
}

/// Kinds of findings that could not be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjudged {
    pub ids: Vec<&'static str>,
    /// Why, and what the user can do, as a text for the user.
    pub reason: String,
}

/// The result of an audit.
#[derive(Debug, Default)]
pub struct Audit {
    /// The number of HTML pages that were judged.
    pub pages: u64,
    /// The kinds of findings that were found, the most severe first.
    pub findings: Vec<Finding>,
    pub unjudged: Vec<Unjudged>,
}

impl Audit {
    /// Audits the latest round of a crawl directory.
    pub fn of(results: &Results, options: &AuditOptions) -> Result<Self, ReadError> {
        let index = SiteIndex::of(results)?;
        let mut judge = Judge {
            index: &index,
            options,
            judges_orphans: index.has_sitemap && index.gaps.reason().is_none(),
            judges_missing_entries: index.has_sitemap && index.gaps.sitemap_reason().is_none(),
            findings: Vec::new(),
            near_duplicate_urls: HashMap::new(),
        };
        judge.findings.resize_with(CATALOGUE.len(), Default::default);
        judge.judge_robots_files();
        judge.judge_sitemaps();
        judge.judge_insecure_links();
        let checked = CheckedLinks::of(results)?;
        if let Some(checked) = &checked {
            judge.judge_checked_links(checked);
        }
        results.latest_pages(|record| {
            judge.judge_page(record);
            Ok(())
        })?;
        judge.name_near_duplicates();
        let findings = CATALOGUE
            .iter()
            .zip(judge.findings)
            .filter(|(_, (total, _))| *total > 0)
            .map(|(kind, (total, pages))| Finding { kind, total, pages })
            .collect();
        Ok(Self { pages: index.html_pages, findings, unjudged: unjudged(&index, checked.as_ref()) })
    }

    /// How many pages have findings of this severity, counted once for each finding.
    pub fn total(&self, severity: Severity) -> u64 {
        self.findings.iter().filter(|finding| finding.kind.severity == severity).map(|finding| finding.total).sum()
    }
}

/// The findings for which the crawl has no data.
fn unjudged(index: &SiteIndex, checked: Option<&CheckedLinks>) -> Vec<Unjudged> {
    let mut unjudged = Vec::new();
    let mut add = |ids: &[FindingId], reason: Option<String>| {
        let ids = ids.iter().map(|id| id.kind().id).collect();
        unjudged.extend(reason.map(|reason| Unjudged { ids, reason }));
    };
    let unless = |has_data: bool, reason: &str| (!has_data).then(|| reason.to_owned());
    use FindingId as F;
    let pages = [F::TitleMissing, F::NearDuplicate];
    add(&pages, unless(index.html_pages > 0, "no HTML page was fetched"));
    let facts = [
        F::DescriptionMissing,
        F::DescriptionDuplicate,
        F::DescriptionLong,
        F::DescriptionShort,
        F::HeadingMissing,
        F::HeadingMultiple,
        F::ImageAlt,
    ];
    add(&facts, unless(index.has_facts, "no HTML page was read"));
    if index.has_sitemap {
        add(&[F::Orphan], index.gaps.reason());
        add(&[F::SitemapMissing], index.gaps.sitemap_reason());
    } else {
        let sitemap = [F::Orphan, F::SitemapMissing, F::SitemapError, F::SitemapNoindex, F::SitemapCanonical];
        add(&sitemap, unless(false, "no sitemap was read: the site has none, or the crawl did not use --sitemap"));
    }
    let reason = "no images and files were fetched: there are none, or the crawl did not use --assets";
    add(&[F::BrokenResource, F::ImageLarge], unless(index.has_assets, reason));
    let reason = "no page has a fingerprint of its text: all are short, cut, or name another page as canonical";
    add(&[F::NearDuplicate], unless(index.has_sketches || index.html_pages == 0, reason));
    let reason = "links to other sites and fragments were not checked: argiope check URL -d DIR does that";
    add(&[F::ExternalBroken, F::FragmentMissing], unless(checked.is_some(), reason));
    let is_checked = checked.is_none_or(|checked| checked.summary.external > 0);
    let reason = "no link to another site was checked: there are none, or the check used --external no";
    add(&[F::ExternalBroken], unless(is_checked, reason));
    add(&rendering::FINDINGS, unless(index.has_rendered, "no page was rendered: the crawl did not use --render"));
    unjudged
}

/// Judges pages one by one.
struct Judge<'a> {
    index: &'a SiteIndex,
    options: &'a AuditOptions,
    judges_orphans: bool,
    /// Whether pages that are in no sitemap are judged.
    judges_missing_entries: bool,
    /// For each [`FindingId`]: the total, and the listed pages.
    findings: Vec<(u64, Vec<AuditedPage>)>,
    /// The URLs of near-duplicates, by the hash of the URL.
    near_duplicate_urls: HashMap<u64, String>,
}

impl Judge<'_> {
    /// Adds a page to a finding.
    fn add_finding(&mut self, id: FindingId, url: &str, detail: impl Into<String>) {
        if let Some((total, pages)) = self.findings.get_mut(id as usize) {
            *total += 1;
            if pages.len() < self.options.max_listed {
                pages.push(AuditedPage { url: url.to_owned(), detail: detail.into() });
            }
        }
    }

    fn judge_robots_files(&mut self) {
        let mut files: Vec<(&String, &String)> = self.index.robots.iter().collect();
        files.sort();
        for (url, text) in files {
            // The index has the port in every URL; the default ports are not shown.
            let shown = url.replacen(":80/", "/", 1).replacen(":443/", "/", 1);
            for fault in robots_lint::faults(text) {
                self.add_finding(FindingId::RobotsFault, &shown, fault);
            }
        }
    }

    /// Judges what `argiope check` found. A page of the crawl is judged from its record.
    fn judge_checked_links(&mut self, checked: &CheckedLinks) {
        for link in checked.broken() {
            let id = match link.kind.as_str() {
                "fragment" => FindingId::FragmentMissing,
                _ if self.index.get(&link.url).is_some() => continue,
                _ if link.is_external() => FindingId::ExternalBroken,
                _ => FindingId::BrokenLink,
            };
            self.add_finding(id, &link.url, format!("{}, {}", link.message, link.places()));
        }
    }

    fn judge_sitemaps(&mut self) {
        for sitemap in &self.index.faulty_sitemaps {
            self.add_finding(FindingId::SitemapFault, &sitemap.url, sitemap.description());
        }
    }

    fn judge_page(&mut self, record: &StoredRecord) {
        let entry = self.index.get(&record.url).copied().unwrap_or_default();
        match record.outcome {
            // The user did not write this URL.
            Some(Outcome::Failed) if self.index.is_guess(record) => {}
            Some(Outcome::HttpError | Outcome::Failed) => {
                let id = if entry.is_asset { FindingId::BrokenResource } else { FindingId::BrokenLink };
                let cause = match (&record.error, record.status) {
                    (Some(error), _) => error.kind.to_string(),
                    (None, Some(status)) => status.to_string(),
                    (None, None) => String::new(),
                };
                let via = record.via.as_deref().map_or_else(|| "a root".to_owned(), |via| format!("on {via}"));
                self.add_finding(id, &record.url, format!("{cause}, {via}"));
            }
            Some(Outcome::Redirect) => self.judge_redirect(record),
            _ => {}
        }
        if entry.is_in_sitemap {
            self.judge_sitemap_entry(record);
        }
        if is_fetched_html(record) {
            self.judge_html_page(record);
        }
        let is_image = record.content_type.as_deref().is_some_and(|kind| kind.starts_with("image/"));
        if is_image && let Some(size) = record.bytes_body.filter(|size| *size > LARGE_IMAGE) {
            self.add_finding(FindingId::ImageLarge, &record.url, format!("{size} bytes"));
        }
    }

    fn judge_redirect(&mut self, record: &StoredRecord) {
        let Some(target) = record.redirect.as_deref() else { return };
        if self.index.leads_to_loop(text_hash(&record.url)) {
            self.add_finding(FindingId::RedirectLoop, &record.url, format!("to {target}"));
            return;
        }
        if record.url.starts_with("https://") && target.starts_with("http://") {
            self.add_finding(FindingId::RedirectToHttp, &record.url, format!("to {target}"));
        }
        match self.index.get(target) {
            Some(next) if next.redirect.is_some() => {
                self.add_finding(FindingId::RedirectChain, &record.url, format!("to {target}, which redirects too"));
            }
            Some(next) if next.is_broken => {
                self.add_finding(FindingId::RedirectBroken, &record.url, format!("to {target}"));
            }
            _ => {}
        }
    }

    fn judge_sitemap_entry(&mut self, record: &StoredRecord) {
        let is_ok = matches!(record.outcome, Some(Outcome::Ok | Outcome::NotModified));
        // Of a URL that was not requested, because of robots.txt or a setting, the status is not known.
        let was_requested = !matches!(record.outcome, None | Some(Outcome::Robots | Outcome::Refused));
        if !is_ok && was_requested {
            let status = record.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
            self.add_finding(FindingId::SitemapError, &record.url, status);
        } else if is_ok && record.is_noindex() {
            self.add_finding(FindingId::SitemapNoindex, &record.url, "");
        } else if let Some(canonical) = foreign_canonical(record).filter(|_| is_ok) {
            self.add_finding(FindingId::SitemapCanonical, &record.url, format!("canonical {canonical}"));
        }
        if is_ok
            && self.judges_orphans
            && !self.index.linked_urls.contains(&text_hash(&record.url))
            && record.depth() > 0
        {
            self.add_finding(FindingId::Orphan, &record.url, "");
        }
    }

    /// Judges an HTML page that was fetched successfully.
    fn judge_html_page(&mut self, record: &StoredRecord) {
        let url = &*record.url;
        // What a page lacks, and what is the same on another page, is known only of pages that were read to their end.
        let is_whole = record.truncated.is_none();
        // What scripts add is not known without rendering.
        let is_shown = is_whole && !record.needs_scripts;
        // Duplicates are reported only for pages that search engines index under this URL.
        let is_main = is_whole && foreign_canonical(record).is_none() && !record.is_noindex();
        match record.title.as_deref().filter(|title| !title.is_empty()) {
            None if !is_shown => {}
            None => self.add_finding(FindingId::TitleMissing, url, ""),
            Some(title) => {
                let length = title.chars().count();
                if length > TITLE_LONG {
                    self.add_finding(FindingId::TitleLong, url, format!("{length} characters: {title}"));
                } else if length < TITLE_SHORT {
                    self.add_finding(FindingId::TitleShort, url, title);
                }
                if is_main && self.index.titles.get(&text_hash(title)).is_some_and(|count| *count > 1) {
                    self.add_finding(FindingId::TitleDuplicate, url, title);
                }
            }
        }
        if record.words.is_some() {
            self.judge_description_and_headings(record, is_main);
        }
        if let Some(canonical) = foreign_canonical(record) {
            if record.is_noindex() {
                self.add_finding(FindingId::CanonicalConflict, url, format!("noindex and canonical {canonical}"));
            }
            match self.index.get(canonical) {
                Some(target) if target.is_broken || target.redirect.is_some() => {
                    self.add_finding(FindingId::CanonicalBroken, url, format!("canonical {canonical}"));
                }
                Some(target) if target.is_ok && target.canonical.is_some() => {
                    self.add_finding(FindingId::CanonicalChain, url, format!("canonical {canonical}"));
                }
                Some(target) if target.is_ok && target.noindex => {
                    self.add_finding(FindingId::CanonicalConflict, url, format!("canonical {canonical} has noindex"));
                }
                _ => {}
            }
        }
        let same_bodies = shown_body(record).and_then(|body| self.index.bodies.get(&body));
        if is_main && same_bodies.is_some_and(|count| *count > 1) {
            // The name of the algorithm and the first 16 digits.
            let digest = record.digest.map_or_else(String::new, |digest| digest.to_string());
            let end = digest.find(':').map_or(0, |colon| colon + 17);
            self.add_finding(FindingId::DuplicateBody, url, digest.get(..end).unwrap_or(&digest));
        }
        let url_hash = text_hash(url);
        if self.index.near_duplicates.contains_key(&url_hash) {
            // At most `max_listed` pages are listed, and each names one other page.
            if self.near_duplicate_urls.len() < self.options.max_listed.saturating_mul(2) {
                self.near_duplicate_urls.insert(url_hash, url.to_owned());
            }
            self.add_finding(FindingId::NearDuplicate, url, "");
        }
        for (code, target) in &record.hreflang {
            if !languages::is_hreflang_code(code) {
                self.add_finding(FindingId::HreflangCode, url, &**code);
            }
            let is_fetched = self.index.get(target).is_some_and(|entry| entry.is_ok);
            let has_return_link = self.index.translations.contains(&(text_hash(target), text_hash(url)));
            if is_fetched && target != url && !has_return_link {
                self.add_finding(FindingId::HreflangNoReturn, url, format!("{code}: {target}"));
            }
        }
        let is_error_page = is_whole && record.status == Some(200);
        if is_error_page && self.index.error_answers.says_not_found(record) {
            let title = record.title.as_deref().or(record.h1.as_deref());
            self.add_finding(FindingId::SoftError, url, title.unwrap_or_default());
        } else if let Some(missing) = self.index.error_answers.resembled(record).filter(|_| is_error_page) {
            self.add_finding(FindingId::SoftError, url, format!("like the answer for {missing}, which does not exist"));
        }
        if record.needs_scripts && is_whole {
            self.add_finding(FindingId::NeedsScripts, url, "");
        }
        if is_whole {
            self.judge_rendering(record);
        }
        if record.depth() > DEEP_PAGE {
            self.add_finding(FindingId::DeepPage, url, format!("{} clicks", record.depth()));
        }
        if let Some(total) =
            record.ms.unwrap_or_default().total.filter(|total| Duration::from_millis(*total) > self.options.slow_after)
        {
            self.add_finding(FindingId::PageSlow, url, format!("{:.1} s", total as f64 / 1e3));
        }
        let is_in_sitemap = self.index.get(url).is_some_and(|entry| entry.is_in_sitemap);
        if self.judges_missing_entries && is_main && !is_in_sitemap && record.depth() > 0 {
            self.add_finding(FindingId::SitemapMissing, url, "");
        }
    }

    /// Adds to each near-duplicate the URL of the page that it resembles. Called when all URLs are known.
    fn name_near_duplicates(&mut self) {
        let Some((_, pages)) = self.findings.get_mut(FindingId::NearDuplicate as usize) else { return };
        for page in pages {
            let other = self
                .index
                .near_duplicates
                .get(&text_hash(&page.url))
                .and_then(|other| self.near_duplicate_urls.get(other));
            page.detail = other.map_or_else(String::new, |other| format!("like {other}"));
        }
    }

    /// Judges description, headings and images.
    fn judge_description_and_headings(&mut self, record: &StoredRecord, is_main: bool) {
        let url = &*record.url;
        let is_shown = record.truncated.is_none() && !record.needs_scripts;
        match record.description.as_deref().filter(|text| !text.is_empty()) {
            None if !is_shown => {}
            None => self.add_finding(FindingId::DescriptionMissing, url, ""),
            Some(text) => {
                let length = text.chars().count();
                if length > DESCRIPTION_LONG {
                    self.add_finding(FindingId::DescriptionLong, url, format!("{length} characters"));
                } else if length < DESCRIPTION_SHORT {
                    self.add_finding(FindingId::DescriptionShort, url, text);
                }
                if is_main && self.index.descriptions.get(&text_hash(text)).is_some_and(|count| *count > 1) {
                    self.add_finding(FindingId::DescriptionDuplicate, url, text);
                }
            }
        }
        if record.h1.is_none() && is_shown {
            self.add_finding(FindingId::HeadingMissing, url, "");
        }
        if let Some(count) = record.h1_count.filter(|count| *count > 1) {
            self.add_finding(FindingId::HeadingMultiple, url, format!("{count} headings"));
        }
        if let Some(count) = record.images_without_alt.filter(|count| *count > 0) {
            self.add_finding(FindingId::ImageAlt, url, format!("{count} images"));
        }
    }

    /// Reports links from https pages to http URLs.
    fn judge_insecure_links(&mut self) {
        for InsecureEdge { source, target, is_asset } in &self.index.insecure {
            let id = if *is_asset { FindingId::MixedContent } else { FindingId::InsecureLink };
            self.add_finding(id, source, target.as_str());
        }
    }
}
