//! Runs a crawl for tests with real sockets, a real engine and a frontier in memory. Collects all visits and records.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argiope_core::Outcome;
use argiope_core::crawl::rules::{Config, EngineName, ProgramSettings, RobotsPolicy, Span};
use argiope_core::crawl::schedule::keeper::{ArchiveChunk, Settled};
use argiope_core::crawl::visit::Visit;
use argiope_engine::Clock;
use argiope_practice::RunningWeb;
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{CrawlSetup, KeeperHandle, Summary, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;
use argiope_store::MemoryFrontier;

/// The results of a crawl.
pub struct Crawled {
    pub summary: Summary,
    /// Pages, in the order of completion.
    pub pages: Vec<Box<Visit>>,
    /// robots.txt and sitemaps.
    pub site_files: Vec<Box<Visit>>,
    /// All records, those of site files included.
    pub lines: Vec<serde_json::Value>,
    /// The files of the archive.
    pub archive: BTreeMap<String, Vec<u8>>,
}

/// Settings for tests: these roots, short retry delays, robots.txt ignored.
pub fn config(engine: EngineName, roots: &[&str]) -> Config {
    Config {
        roots: roots.iter().map(|root| (*root).to_owned()).collect(),
        engine,
        robots: RobotsPolicy::Ignore,
        retry_wait: Span(Duration::from_millis(20)),
        ..Config::default()
    }
}

/// Makes the crawl trust the practice web's certificate authority. The returned file must live as long as the crawl.
pub fn trust(config: &mut Config, web: &RunningWeb) -> tempfile::TempPath {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(web.ca_pem().as_bytes()).expect("the certificate is written");
    config.ca_cert = Some(file.path().to_owned());
    file.into_temp_path()
}

/// Crawls to the end.
pub fn crawl(config: &Config) -> Crawled {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let rules = Arc::new(argiope_runtime::rules(config, ProgramSettings::default()).expect("the settings are valid"));
    let keeper = KeeperHandle::start(CrawlSetup {
        frontier: MemoryFrontier::new(rules.fingerprint_key),
        fetchers: Fetchers::engine(config.engine),
        rules,
        clock: Clock::start(),
        consumer: Collector(Arc::clone(&collected)),
        target: OutputTarget::default(),
        // No links come from outside.
        accepts_links: false,
    })
    .expect("the threads start");
    let summary = keeper.join().expect("the crawl ends");
    let settled = std::mem::take(&mut *collected.lock().unwrap_or_else(PoisonError::into_inner));
    let mut crawled =
        Crawled { summary, pages: Vec::new(), site_files: Vec::new(), lines: Vec::new(), archive: BTreeMap::new() };
    for Settled { visit, line, archive, .. } in settled {
        if let Some(ArchiveChunk { file, bytes, .. }) = archive {
            crawled.archive.entry(file.into()).or_default().extend(bytes);
        }
        crawled.lines.push(serde_json::from_slice(&line).expect("a record is JSON"));
        if visit.is_page() { crawled.pages.push(visit) } else { crawled.site_files.push(visit) }
    }
    crawled
}

/// Collects all settled visits.
struct Collector(Arc<Mutex<Vec<Settled>>>);

impl VisitConsumer for Collector {
    fn take(&mut self, settled: Settled) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(settled);
    }

    fn flush(&mut self) {}
}

impl Crawled {
    /// The one visit to this URL.
    pub fn page(&self, url: &str) -> &Visit {
        let mut found = self.pages.iter().filter(|visit| visit.link.url.as_str() == url);
        let visit = found.next().unwrap_or_else(|| panic!("{url} was not visited; {:?}", self.urls()));
        assert!(found.next().is_none(), "{url} was visited twice");
        visit
    }

    /// The URLs of all pages. Fails if a page was visited twice.
    pub fn urls(&self) -> BTreeSet<&str> {
        let urls: BTreeSet<&str> = self.pages.iter().map(|visit| visit.link.url.as_str()).collect();
        assert_eq!(urls.len(), self.pages.len(), "a page was visited twice");
        urls
    }

    /// Outcome, status and number of links, by URL. They must be the same with all engines.
    pub fn facts(&self) -> BTreeMap<String, (Outcome, Option<u16>, u32)> {
        self.pages
            .iter()
            .map(|visit| (visit.link.url.to_string(), (visit.facts.outcome, visit.facts.status, visit.findings.links)))
            .collect()
    }
}
