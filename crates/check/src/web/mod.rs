//! [`WebCheck`]: checks sites and URLs on the web, with the crawler.
//!
//! A site is crawled as by `argiope crawl`, and its pages are read as they arrive. All other targets of references are then
//! requested once: resources of the site, its pages that were not crawled, and external URLs. External hosts get one request
//! at a time.

mod fetch;
mod page_source;
mod results;
mod spool;

use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use argiope_core::crawl::rules::Config;
use argiope_core::crawl::visit::Visit;
use argiope_core::page::examine::BaseUrl;
use argiope_core::{LinkKind, Outcome, Url};
use argiope_runtime::Error;
use encoding_rs::Encoding;
use hashbrown::HashMap;

use crate::anchors::{AnchorHashes, Fragment};
use crate::cache::CheckCache;
use crate::document::{self, DocumentType, LineCounter, ReferenceKind};
use crate::finding::{CheckReport, CheckSummary, Fault, FaultKind, LinkFinding, Occurrence, TargetVerdict, Verdict};
use crate::limits::{ReferenceBudget, RequestLimits, TargetMemory};
use crate::options::{CheckOptions, CheckProgress};
use crate::remote::{RemoteFaults, RemoteTarget};
use crate::suggest::{MAX_SUGGESTED, PathIndex, Suggester};
use crate::target::{self, Target};
use crate::text_fragment;
pub use fetch::CHECK_FILE;
use fetch::FetchGoal;
use page_source::{PageSource, StaticReferences};
use results::{PageTargets, WebResults};
use spool::{ReferenceSpool, SpooledReference};

/// Maximum number of rounds of requests. Each round requests the redirect targets that the previous round found. Targets with
/// longer redirect chains get no verdict.
const MAX_ROUNDS: usize = 12;
/// A key for fingerprints that are not compared with others.
const ANY_FINGERPRINT_KEY: u64 = 0;
/// The document name of a list of URLs from standard input.
pub const LIST_NAME: &str = "-";

/// A check of sites and of URLs on the web.
pub struct WebCheck {
    config: Config,
    options: CheckOptions,
    progress: Arc<CheckProgress>,
    site: Arc<Mutex<SiteReader>>,
    /// The hosts of the sites, without `www.`.
    hosts: HashSet<String>,
}

/// Reads the pages of a site as they arrive.
struct SiteReader {
    options: CheckOptions,
    results: WebResults,
    /// A buffer for the anchors of the current page.
    hashes: AnchorHashes,
    /// The URLs of pages, by the numbers that the spool uses.
    pages: Vec<Box<str>>,
    /// The distinct targets, by the numbers that the spool uses.
    targets: Vec<SiteTarget>,
    /// The number of each target.
    target_numbers: HashMap<SiteTarget, u32>,
    /// The URLs of the list that the user gave.
    listed: HashSet<String>,
    spool: ReferenceSpool,
    /// The first error of writing to the spool.
    spool_error: Option<io::Error>,
    summary: CheckSummary,
    notes: Vec<String>,
    /// The pages that were not read to their end.
    cut: Vec<Box<str>>,
    /// What the current page may cause.
    budget: ReferenceBudget,
    memory: TargetMemory,
}

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SiteTarget {
    Url(RemoteTarget),
    Malformed { written: String, message: String },
}

impl WebCheck {
    /// Creates a check. `config` has the network settings; `config.roots` are the sites.
    ///
    /// # Errors
    ///
    /// No temporary file can be created.
    pub fn new(config: Config, options: CheckOptions, progress: Arc<CheckProgress>) -> io::Result<Self> {
        let site = SiteReader::empty(&options)?;
        Ok(Self { config, options, progress, site: Arc::new(Mutex::new(site)), hosts: HashSet::new() })
    }

    /// Crawls the sites and reads their pages.
    ///
    /// # Errors
    ///
    /// A setting cannot be used, or the crawl could not start or continue.
    pub fn crawl(&mut self) -> Result<(), Error> {
        let config = Config { assets: false, ..self.config.clone() };
        let (site, progress) = (Arc::clone(&self.site), Arc::clone(&self.progress));
        fetch::crawl(&config, move |visit| {
            progress.done.fetch_add(1, Ordering::Relaxed);
            site.lock().unwrap_or_else(PoisonError::into_inner).take(visit);
        })?;
        // Only the roots are needed here, so any key works.
        let rules = config.compile(ANY_FINGERPRINT_KEY)?;
        let urls = rules.roots.iter().flat_map(|root| &root.candidates);
        self.hosts.extend(urls.map(|url| without_www(url.host()).to_owned()));
        let mut site = self.site.lock().unwrap_or_else(PoisonError::into_inner);
        site.spool_error.take().map_or(Ok(()), |error| Err(Error::system(error)))
    }

    /// Adds a list of URLs, one per line, as a document that links to them.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub fn add_list(&self, text: &str) -> io::Result<()> {
        let mut site = self.site.lock().unwrap_or_else(PoisonError::into_inner);
        site.read_list(text)
    }

    /// Requests all targets that were not requested yet: those of the pages and lists, and `others`. Good results of `cache`
    /// are reused, and the new results are stored in it.
    ///
    /// # Errors
    ///
    /// As [`WebCheck::crawl`].
    pub fn request(&self, others: &[RemoteTarget], cache: Option<&mut CheckCache>) -> Result<RemoteFaults, Error> {
        let mut targets: Vec<RemoteTarget> = others.to_vec();
        {
            let site = self.site.lock().unwrap_or_else(PoisonError::into_inner);
            targets.extend(site.targets.iter().filter_map(|target| match target {
                SiteTarget::Url(target) => Some(target.clone()),
                SiteTarget::Malformed { .. } => None,
            }));
        }
        targets.sort_unstable();
        targets.dedup();
        targets.retain(|target| self.options.external || self.is_of_site(&target.url));
        let total = self.count_external(&targets);
        if let Some(cache) = &cache {
            targets.retain(|target| self.is_of_site(&target.url) || !cache.is_good(&target.full_url()));
        }
        let cached = total.saturating_sub(self.count_external(&targets));
        let (left_out, notes) = self.request_in_rounds(&targets)?;
        targets.retain(|target| !left_out.contains(target));
        let mut faults = self.faults(&targets, cached > 0);
        (faults.requested, faults.cached) = (self.count_external(&targets), cached);
        faults.left_out.extend(left_out);
        faults.notes.extend(notes);
        if let Some(cache) = cache {
            for target in targets.iter().filter(|target| !self.is_of_site(&target.url)) {
                let is_good = !faults.faults.contains_key(target) && !faults.left_out.contains(target);
                cache.set(&target.full_url(), is_good);
            }
        }
        Ok(faults)
    }

    /// The number of distinct external URLs.
    fn count_external(&self, targets: &[RemoteTarget]) -> u64 {
        let urls = targets.iter().map(|target| target.url.as_str()).filter(|url| !self.is_of_site(url));
        urls.collect::<HashSet<&str>>().len() as u64
    }

    /// The faults of targets that were requested. If the network is down, external targets are unknown. `is_any_cached`: the
    /// cache has a good result, so the network works.
    fn faults(&self, targets: &[RemoteTarget], is_any_cached: bool) -> RemoteFaults {
        let site = self.site.lock().unwrap_or_else(PoisonError::into_inner);
        let is_network_down = !is_any_cached && site.results.is_network_down(|url| !self.is_of_site(url));
        let mut faults = RemoteFaults { is_network_down, ..RemoteFaults::default() };
        if faults.is_network_down {
            let count = self.count_external(targets);
            let urls = if count == 1 { "1 external URL was".to_owned() } else { format!("{count} external URLs were") };
            let note = format!("no external host could be reached, so {urls} not checked: is the network down?");
            faults.notes.push(note);
        }
        let mut budgets = HashMap::new();
        for target in targets {
            let mut fault = match site.results.verdict(target, &self.options, &mut budgets) {
                TargetVerdict::Good => continue,
                TargetVerdict::Faulty(fault) => fault,
                TargetVerdict::OverLimits => {
                    faults.left_out.insert(target.clone());
                    continue;
                }
            };
            if faults.is_network_down && fault.kind == FaultKind::Failed && !self.is_of_site(&target.url) {
                fault.verdict = Verdict::Unknown;
            }
            faults.faults.insert(target.clone(), fault);
        }
        faults
    }

    /// Requests the targets, then their redirect targets, until all are known. Returns the targets for which a limit left no
    /// room, and notes about them.
    fn request_in_rounds(&self, targets: &[RemoteTarget]) -> Result<(HashSet<RemoteTarget>, Vec<String>), Error> {
        let mut limits = RequestLimits::new(self.options.limits);
        let mut left_out = HashSet::new();
        let mut requested: HashSet<(String, FetchGoal)> = HashSet::new();
        for _ in 0..MAX_ROUNDS {
            let mut goals = self.missing_urls(targets, &mut limits, &mut left_out);
            goals.retain(|url, goal| requested.insert((url.clone(), *goal)));
            if goals.is_empty() {
                break;
            }
            self.request_goals(&goals)?;
            let site = self.site.lock().unwrap_or_else(PoisonError::into_inner);
            site.results.urls().filter(|url| !self.is_of_site(url)).for_each(|url| limits.count(url));
        }
        Ok((left_out, limits.notes()))
    }

    /// The URLs that must be requested for the targets: the targets, or what they redirect to. Targets over the limits are
    /// added to `left_out`. A list of the user may have any number of URLs.
    fn missing_urls(
        &self,
        targets: &[RemoteTarget],
        limits: &mut RequestLimits,
        left_out: &mut HashSet<RemoteTarget>,
    ) -> HashMap<String, FetchGoal> {
        let mut goals: HashMap<String, FetchGoal> = HashMap::new();
        let mut site = self.site.lock().unwrap_or_else(PoisonError::into_inner);
        for target in targets {
            let Some(url) = site.results.missing_url(target).map(str::to_owned) else { continue };
            let is_limited = !self.is_of_site(&url) && !site.listed.contains(&target.url);
            if is_limited && !limits.may_request(&url) {
                left_out.insert(target.clone());
                continue;
            }
            if target.fragment.as_deref().is_some_and(text_fragment::has_text) {
                site.results.keep_text_of(&url);
            }
            let needs_anchors = target.fragment.is_some() && self.options.fragments;
            let goal = goals.entry(url).or_insert(FetchGoal::Status);
            if needs_anchors {
                *goal = FetchGoal::Page;
            }
        }
        goals
    }

    /// Requests each of these URLs.
    fn request_goals(&self, goals: &HashMap<String, FetchGoal>) -> Result<(), Error> {
        self.progress.total.fetch_add(goals.len() as u64, Ordering::Relaxed);
        for goal in [FetchGoal::Status, FetchGoal::Page] {
            for is_of_site in [true, false] {
                let urls =
                    goals.iter().filter(|(url, url_goal)| **url_goal == goal && self.is_of_site(url) == is_of_site);
                let mut urls: Vec<Url> = urls.filter_map(|(url, _)| Url::parse(url).ok()).collect();
                urls.sort_unstable();
                if !urls.is_empty() {
                    self.request_urls(urls, goal, is_of_site)?;
                }
            }
        }
        Ok(())
    }

    /// Requests these URLs and adds their results.
    fn request_urls(&self, urls: Vec<Url>, goal: FetchGoal, is_of_site: bool) -> Result<(), Error> {
        let external = (!is_of_site).then_some(&self.options.limits);
        let (site, progress) = (Arc::clone(&self.site), Arc::clone(&self.progress));
        let advice = self.options.advice_words;
        fetch::request(&self.config, urls, goal, external, move |visit| {
            progress.done.fetch_add(1, Ordering::Relaxed);
            let mut site = site.lock().unwrap_or_else(PoisonError::into_inner);
            let SiteReader { results, hashes, .. } = &mut *site;
            let read = PageSource::take(visit).map(|source| {
                for (text, _) in source.documents() {
                    document::read(text, DocumentType::Html, hashes);
                }
                let shown = source.rendered.as_ref().unwrap_or(&source.text);
                let page_text = || document::page_text(shown, DocumentType::Html);
                PageTargets { anchors: hashes.take(), text: results.keeps_text_of(&visit.link.url).then(page_text) }
            });
            results.add(visit, read, goal == FetchGoal::Page, advice);
        })
    }

    /// Whether a URL is on a host of the crawled sites.
    fn is_of_site(&self, url: &str) -> bool {
        if self.hosts.is_empty() {
            return false;
        }
        Url::parse(url).is_ok_and(|url| self.hosts.contains(without_www(url.host())))
    }

    /// Returns the findings in the pages of the sites and in the lists.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read.
    pub fn finish(self, faults: &RemoteFaults) -> io::Result<CheckReport> {
        let site = std::mem::replace(
            &mut *self.site.lock().unwrap_or_else(PoisonError::into_inner),
            SiteReader::empty(&self.options)?,
        );
        site.finish(faults)
    }
}

fn without_www(host: &str) -> &str {
    host.strip_prefix("www.").unwrap_or(host)
}

/// Which document of a page is read.
enum ReadPass<'a> {
    /// The response of a page that was not rendered.
    Only,
    /// The response of a rendered page.
    Static(&'a mut StaticReferences),
    /// The rendered document, whose response has these references.
    Rendered(&'a StaticReferences),
}

impl SiteReader {
    /// A reader that has read no pages.
    fn empty(options: &CheckOptions) -> io::Result<Self> {
        Ok(Self {
            options: options.clone(),
            results: WebResults::default(),
            hashes: AnchorHashes::default(),
            pages: Vec::new(),
            targets: Vec::new(),
            target_numbers: HashMap::new(),
            listed: HashSet::new(),
            spool: ReferenceSpool::new()?,
            spool_error: None,
            summary: CheckSummary::default(),
            notes: Vec::new(),
            cut: Vec::new(),
            budget: ReferenceBudget::new(0, &options.limits),
            memory: TargetMemory::new(&options.limits),
        })
    }

    /// Reads a visit of the site's crawl.
    fn take(&mut self, visit: &mut Visit) {
        let mut content = None;
        if let Some(source) = PageSource::take(visit) {
            let read = self.read_page(&visit.link.url, &source);
            content = Some(PageTargets { anchors: self.hashes.take(), text: None });
            if let Err(error) = read {
                self.spool_error.get_or_insert(error);
            }
        }
        if visit.link.kind == LinkKind::Root && visit.facts.outcome != Outcome::Ok && visit.facts.redirect.is_none() {
            let status = visit.facts.status.map_or_else(String::new, |status| format!(" {status}"));
            let error = visit.facts.error.as_ref().map_or_else(String::new, |error| {
                format!(": {}: {}", error.kind, error.advised(self.options.advice_words))
            });
            self.notes.push(format!("{}: {}{status}{error}", visit.link.url, visit.facts.outcome));
        }
        // The crawl requests bodies.
        let has_body = true;
        self.results.add(visit, content, has_body, self.options.advice_words);
    }

    /// Adds the references of a page to the spool, and its anchors to `hashes`.
    fn read_page(&mut self, url: &Url, source: &PageSource) -> io::Result<()> {
        let page = self.add_page(url.as_str());
        self.budget = ReferenceBudget::new(source.len(), &self.options.limits);
        let Some(rendered) = &source.rendered else {
            return self.read_document(page, url, &source.text, source.encoding, &mut ReadPass::Only);
        };
        let mut known = StaticReferences::default();
        self.read_document(page, url, &source.text, source.encoding, &mut ReadPass::Static(&mut known))?;
        self.read_document(page, url, rendered, encoding_rs::UTF_8, &mut ReadPass::Rendered(&known))
    }

    /// Reads one document of a page. The lines of a rendered document are no lines of a file, so a reference that only
    /// scripts added has none.
    fn read_document(
        &mut self,
        page: u32,
        url: &Url,
        text: &str,
        encoding: &'static Encoding,
        pass: &mut ReadPass<'_>,
    ) -> io::Result<()> {
        let document = document::read(text, DocumentType::Html, &mut self.hashes);
        if document.is_cut {
            self.cut.push(url.as_str().into());
        }
        let page_url = BaseUrl::new(url);
        let base = document.base.as_deref().and_then(|base| page_url.rebased(base, encoding)).unwrap_or(page_url);
        let mut out = String::new();
        let mut lines = LineCounter::new(text);
        for reference in &document.references {
            match pass {
                ReadPass::Rendered(known) if known.has_href(reference) => continue,
                ReadPass::Static(known) => known.add_href(reference),
                _ => {}
            }
            self.summary.links += 1;
            if reference.kind == ReferenceKind::Asset && !self.options.assets {
                self.summary.not_checked += 1;
                continue;
            }
            let Some(target) = self.target_number(&reference.href, &base, encoding, &mut out) else { continue };
            let (line, column) = match pass {
                ReadPass::Rendered(known) if known.has_target(target) => {
                    // Written in another way in the response.
                    self.summary.links -= 1;
                    continue;
                }
                ReadPass::Rendered(_) => (0, 0),
                ReadPass::Static(known) => {
                    known.add_target(target);
                    lines.at(reference.offset)
                }
                ReadPass::Only => lines.at(reference.offset),
            };
            let text = lines.link_text(&reference.text);
            self.spool.add(&SpooledReference { page, target, line, column, text })?;
        }
        Ok(())
    }

    /// Adds a page or list. Returns its number.
    fn add_page(&mut self, name: &str) -> u32 {
        self.summary.pages += 1;
        self.pages.push(name.into());
        u32::try_from(self.pages.len() - 1).unwrap_or(u32::MAX)
    }

    /// The number of a reference's target; `None` if there is nothing to request: the reference is a valid mail address, is
    /// ignored, or has a scheme that is not checked.
    fn target_number(
        &mut self,
        href: &str,
        base: &BaseUrl,
        encoding: &'static Encoding,
        out: &mut String,
    ) -> Option<u32> {
        if self.options.ignore.is_match(href) {
            self.summary.ignored += 1;
            return None;
        }
        if !self.budget.may_resolve(href, out) {
            self.summary.over_limits += 1;
            return None;
        }
        let (address, fragment) = target::split_fragment(href);
        let target = match target::resolve(address, base, encoding, out) {
            Target::Mail => return None,
            Target::NotChecked => {
                self.summary.not_checked += 1;
                return None;
            }
            Target::Malformed(message) => SiteTarget::Malformed { written: href.trim().to_owned(), message },
            Target::Web if self.options.ignore.is_match(out) => {
                self.summary.ignored += 1;
                return None;
            }
            Target::Web if !self.budget.may_request(out) => {
                self.summary.over_limits += 1;
                return None;
            }
            Target::Web => {
                let is_element = matches!(fragment.map(Fragment::parse), Some(Fragment::Element(_)));
                let has_text = fragment.is_some_and(text_fragment::has_text);
                let is_checked = (is_element || has_text) && self.options.fragments;
                let fragment = fragment.filter(|_| is_checked).map(str::to_owned);
                SiteTarget::Url(RemoteTarget { url: out.clone(), fragment })
            }
        };
        if let Some(&known) = self.target_numbers.get(&target) {
            return Some(known);
        }
        if !self.memory.charge(href.len() + out.len()) {
            self.summary.over_limits += 1;
            return None;
        }
        let number = u32::try_from(self.targets.len()).ok()?;
        self.targets.push(target.clone());
        self.target_numbers.insert(target, number);
        Some(number)
    }

    /// Reads a list of URLs, one per line, as the references of a document.
    fn read_list(&mut self, text: &str) -> io::Result<()> {
        let page = self.add_page(LIST_NAME);
        self.budget = ReferenceBudget::of_list(text.len(), &self.options.limits);
        // All addresses of a list are absolute, so the base is never used.
        let Ok(placeholder) = Url::parse("https://list.invalid/") else { return Ok(()) };
        let base = BaseUrl::new(&placeholder);
        let mut out = String::new();
        for (index, line) in text.lines().enumerate() {
            let written = line.trim();
            if written.is_empty() || written.starts_with('#') {
                continue;
            }
            self.summary.links += 1;
            let address =
                if target::scheme(written).is_some() { written.to_owned() } else { format!("https://{written}") };
            let Some(target) = self.target_number(&address, &base, encoding_rs::UTF_8, &mut out) else { continue };
            if let Some(SiteTarget::Url(target)) = self.targets.get(target as usize) {
                self.listed.insert(target.url.clone());
            }
            let column = u32::try_from(line.len() - line.trim_start().len() + 1).unwrap_or(1);
            let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
            self.spool.add(&SpooledReference { page, target, line, column, text: String::new() })?;
        }
        Ok(())
    }

    /// Turns the references with faults into findings.
    fn finish(self, faults: &RemoteFaults) -> io::Result<CheckReport> {
        let mut report = CheckReport { summary: self.summary, notes: self.notes, ..CheckReport::default() };
        let mut index: HashMap<(String, FaultKind), usize> = HashMap::new();
        let (pages, targets) = (&self.pages, &self.targets);
        let (mut over_limits, mut memory) = (0, self.memory);
        self.spool.read(|reference| {
            let (url, fault) = match targets.get(reference.target as usize) {
                Some(SiteTarget::Malformed { written, message }) => {
                    (written.clone(), Fault::broken(FaultKind::Malformed, message.clone()))
                }
                Some(SiteTarget::Url(target)) => {
                    over_limits += u64::from(faults.left_out.contains(target));
                    let Some(fault) = faults.faults.get(target) else { return };
                    let url = if fault.kind == FaultKind::Fragment { target.full_url() } else { target.url.clone() };
                    (url, fault.clone())
                }
                None => return,
            };
            let page = pages.get(reference.page as usize).map_or_else(String::new, ToString::to_string);
            if !memory.charge(url.len() + page.len() + reference.text.len()) {
                over_limits += 1;
                return;
            }
            let on = Occurrence { page, line: reference.line, column: reference.column, text: reference.text };
            let next = report.findings.len();
            let position = *index.entry((url.clone(), fault.kind)).or_insert(next);
            if position == next {
                report.findings.push(LinkFinding { url, fault, on: Vec::new() });
            }
            if let Some(finding) = report.findings.get_mut(position) {
                finding.on.push(on);
            }
        })?;
        report.summary.over_limits += over_limits;
        report.findings.extend(self.cut.into_iter().map(|url| LinkFinding::not_read(url.into_string(), document::CUT)));
        report.findings.sort_by(|a, b| a.on.first().cmp(&b.on.first()));
        suggest(&mut report.findings, &self.results);
        Ok(report)
    }
}

/// Suggests good URLs for missing ones.
fn suggest(findings: &mut [LinkFinding], results: &WebResults) {
    let urls = PathIndex::new(results.good_urls().into_iter());
    let mut suggester = Suggester::new();
    let missing = findings.iter_mut().filter(|LinkFinding { fault, .. }| {
        let is_missing = fault.kind == FaultKind::HttpError && matches!(fault.status, Some(404 | 410));
        is_missing && fault.suggestion.is_none()
    });
    for finding in missing.take(MAX_SUGGESTED) {
        let similar = suggester.similar_path(&finding.url, &urls);
        finding.fault.suggestion = similar.map(|url| format!("did you mean {url}?"));
    }
}
