//! Reads the records of a crawl directory, in the order in which they were written.
//!
//! Invariant: this module does not write, lock or wait. If the crawl is running, reading ends at the last commit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use argiope_core::crawl::rules::Config;
use argiope_core::crawl::schedule::trap::Cut;
use argiope_core::crawl::warc::WarcLocation;
use argiope_core::page::examine::OpenGraph;
use argiope_core::{Failure, LinkKind, Outcome, StoreError, StoreErrorKind, Truncated};
use argiope_fleet::segments::SegmentStore;
use argiope_store::disk::{self, CrawlFile, HistoryEvent};
use serde::Deserialize;

use crate::flags::settings::crawl_settings_of_stored;
use crate::results;

/// How many bytes of a record an error message contains.
const MAX_SHOWN_BYTES: usize = 80;
/// The key of fingerprints in commands that read results. They are never compared with those of the crawl, so any key works.
pub const ANY_FINGERPRINT_KEY: u64 = 0;

/// A parsed record. Fields that are absent from the record have their default value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StoredRecord {
    /// `page`, `aux` (a robots.txt or a sitemap), `run` or `skip`.
    pub r#type: String,
    /// The purpose of an `aux` record: `robots` or `sitemap`.
    pub r#for: Option<String>,
    pub url: String,
    /// The request method, unless it is GET.
    pub method: Option<String>,
    /// Distinguishes requests with different bodies to the same URL.
    pub request_id: Option<String>,
    pub status: Option<u16>,
    pub outcome: Option<Outcome>,
    pub error: Option<Failure>,
    pub redirect: Option<String>,
    /// The page on which the URL was found; `None` for a root.
    pub via: Option<String>,
    pub depth: u32,
    pub tries: u8,
    pub content_type: Option<String>,
    pub charset: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub h1: Option<String>,
    pub h1_count: Option<u32>,
    pub lang: Option<String>,
    pub meta_robots: Vec<String>,
    pub hreflang: BTreeMap<String, String>,
    /// The number of words. Present if facts of HTML pages were recorded.
    pub words: Option<u64>,
    pub images_without_alt: Option<u32>,
    /// Whether the page looks empty without scripts.
    pub needs_scripts: bool,
    /// The `MinHash` of the text, by which the texts of pages are compared, in hexadecimal digits.
    pub minhash: Option<String>,
    pub og: OpenGraph,
    pub bytes_wire: Option<u64>,
    pub bytes_body: Option<u64>,
    pub truncated: Option<Truncated>,
    pub links: Option<u32>,
    pub new_links: Option<u32>,
    pub noindex: bool,
    pub nofollow: bool,
    pub insecure: bool,
    pub canonical: Option<String>,
    pub ms: StoredTimings,
    /// When the request, or the run, started.
    pub started: Option<String>,
    pub ip: Option<String>,
    pub http: Option<String>,
    pub digest: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub warc: Option<WarcLocation>,
    pub data: Option<serde_json::Map<String, serde_json::Value>>,
    pub link_list: Option<Vec<StoredLink>>,
    /// How many pages link to this one. Not part of the record: a caller that has read the link graph sets it.
    #[serde(skip)]
    pub inlinks: Option<u32>,
    // Fields of `run` records.
    /// The version of Argiope.
    pub version: Option<String>,
    #[serde(deserialize_with = "settings")]
    pub settings: Option<Config>,
    /// Why the run ended. In a `skip` record: the rule of the scope that skipped the URL.
    pub reason: Option<String>,
    pub seconds: Option<f64>,
    pub queued: Option<u64>,
    pub traps: Vec<Cut>,
}

/// Reads the settings of the crawl in a `run` record. Settings that cannot be read count as the defaults.
fn settings<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Config>, D::Error> {
    let settings = Option::<serde_json::Map<String, serde_json::Value>>::deserialize(deserializer)?;
    Ok(settings.map(|settings| crawl_settings_of_stored(settings).unwrap_or_default()))
}

/// The duration of each phase of a request, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StoredTimings {
    pub dns: Option<u64>,
    pub connect: Option<u64>,
    pub tls: Option<u64>,
    pub ttfb: Option<u64>,
    pub total: Option<u64>,
}

/// A link of a page, if the records contain links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StoredLink {
    pub url: String,
    pub kind: LinkKind,
    #[serde(default)]
    pub nofollow: bool,
}

impl StoredRecord {
    /// Parses a record. The error message contains its beginning.
    pub fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let start = String::from_utf8_lossy(bytes.get(..MAX_SHOWN_BYTES).unwrap_or(bytes)).into_owned();
            StoreError::new(StoreErrorKind::Damaged, format!("a record cannot be read ({error}): {start:?}"))
        })
    }

    /// Whether search engines should not index the page.
    pub fn is_noindex(&self) -> bool {
        self.noindex || self.meta_robots.iter().any(|word| word == "noindex" || word == "none")
    }

    /// Whether this is the marker of a URL that was queued and then excluded or out of scope.
    pub fn is_skip(&self) -> bool {
        self.r#type == "skip"
    }

    /// Whether the response was 2xx, or 304 for a page whose earlier response was 2xx.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Ok | Outcome::NotModified))
    }

    /// As [`is_success`](Self::is_success), for HTML pages only.
    pub fn is_html_success(&self) -> bool {
        self.is_success() && matches!(self.content_type.as_deref(), Some("text/html" | "application/xhtml+xml"))
    }

    /// Whether the request was a GET without a body, so that the URL alone identifies it.
    pub fn is_plain_get(&self) -> bool {
        self.method.is_none() && self.request_id.is_none()
    }

    /// Whether this is the record of a page, not of a site file or a run.
    pub fn is_page(&self) -> bool {
        self.r#type == "page"
    }
}

/// Why reading or exporting records failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The data could not be written to its target.
    #[error(transparent)]
    Output(#[from] std::io::Error),
    /// The crawl cannot be written in the requested form, for the given reason.
    #[error("{0}")]
    Refused(String),
    /// The request needs another flag or another crawl.
    #[error("{0}")]
    Usage(String),
}

impl ReadError {
    /// Whether the reader closed its end of the pipe (`| head`), which is not an error.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

/// Calls `each` with every event of a crawl directory, in order.
pub fn walk(
    directory: &Path,
    each: impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    if SegmentStore::has_results(directory) {
        return results::walk(directory, each);
    }
    disk::history(directory, each)
}

/// The first bytes of the marker of a URL that was queued and then excluded or out of scope.
pub const SKIP_RECORD_START: &[u8] = br#"{"v":1,"type":"skip""#;

/// Calls `each` with every event of a crawl directory in order, but with only the last record of each URL in a round.
///
/// A URL has several records in a round if a later run queued it again. That happens to roots that failed, to URLs of
/// hosts that stopped responding, to URLs that were skipped and are in scope again, and to pages that a program with
/// the library did not process before it ended. While such a URL is queued, it has no record.
pub fn walk_latest(
    directory: &Path,
    mut each: impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    if SegmentStore::has_results(directory) {
        // A result folder has one record per URL.
        return walk(directory, each);
    }
    // A new round queues all its links before the first page is settled (`is_queueing`). A link that is queued again later
    // has an earlier record in the round, or an attempt without a record.
    let (mut queued_again, mut is_queueing) = (HashSet::new(), false);
    // For each page of depth 0: the position of its last record in the current round. A position is the number of an event.
    // `replaced` has the positions of the records that a later one replaces.
    let mut roots: HashMap<String, u64> = HashMap::new();
    let (mut position, mut replaced) = (0_u64, HashSet::new());
    walk(directory, |event| {
        position += 1;
        match event {
            HistoryEvent::Round => {
                is_queueing = true;
                roots.clear();
            }
            HistoryEvent::Link { url, again: true, .. } if !is_queueing => {
                queued_again.insert(Box::from(url));
            }
            HistoryEvent::FinalOutcome { line, .. } => {
                is_queueing = false;
                if has_depth_zero(line) {
                    replaced.extend(roots.insert(request_key(line)?, position));
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    if !queued_again.is_empty() {
        replaced.extend(replaced_records(directory, &queued_again)?);
    }
    position = 0;
    walk(directory, |event| {
        position += 1;
        if replaced.contains(&position) { Ok(()) } else { each(event) }
    })
}

/// The positions of the records of these URLs that are not valid any more: the URL was queued again later in the same
/// round, or has a later record.
fn replaced_records(directory: &Path, urls: &HashSet<Box<str>>) -> Result<HashSet<u64>, ReadError> {
    let mut latest: HashMap<String, u64> = HashMap::new();
    let (mut position, mut replaced) = (0_u64, HashSet::new());
    walk(directory, |event| {
        position += 1;
        match event {
            HistoryEvent::Round => latest.clear(),
            // Other requests than plain GET keep their record until they have a new one.
            HistoryEvent::Link { url, kind, is_plain: true, again: true, .. } if urls.contains(url) => {
                let record_type = if kind == LinkKind::SitemapFile { "aux" } else { "page" };
                // The keys are those that `request_key` makes for a plain GET, without method and body.
                for record_type in [record_type, "skip"] {
                    replaced.extend(latest.remove(&[record_type, "", "", url].join(" ")));
                }
            }
            HistoryEvent::FinalOutcome { line, .. } if url_of(line).is_some_and(|url| urls.contains(url)) => {
                replaced.extend(latest.insert(request_key(line)?, position));
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(replaced)
}

/// The identity of a request: type, method, body and URL.
fn request_key(line: &[u8]) -> Result<String, StoreError> {
    let StoredRecord { r#type, url, method, request_id, .. } = StoredRecord::read(line)?;
    let (method, request_id) = (method.unwrap_or_default(), request_id.unwrap_or_default());
    Ok([r#type, method, request_id, url].join(" "))
}

/// Finds the URL of a record without parsing the record. `None` if the URL has escaped characters; a normalized URL has
/// none.
fn url_of(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, after) = line.split_once("\"url\":\"")?;
    after.split_once('"').map(|(url, _)| url).filter(|url| !url.contains('\\'))
}

/// Whether a record belongs to a page of depth 0. Searches for bytes without parsing the record, which is possible because
/// this program wrote it.
fn has_depth_zero(line: &[u8]) -> bool {
    line.windows(DEPTH_ZERO.len()).any(|window| window == DEPTH_ZERO)
}

/// How the program writes the depth of a root, or of a page to which a root redirects.
const DEPTH_ZERO: &[u8] = b"\"depth\":0,";

/// Calls `each` with the records of all rounds, in order. If a URL has several records in a round, only the last one is
/// passed.
pub fn lines(directory: &Path, mut each: impl FnMut(&[u8]) -> Result<(), ReadError>) -> Result<CrawlFile, ReadError> {
    walk_latest(directory, |event| match event {
        // The marker of a skipped URL is not a record for users.
        HistoryEvent::FinalOutcome { line, .. } if line.starts_with(SKIP_RECORD_START) => Ok(()),
        HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } => each(line),
        HistoryEvent::Link { .. } | HistoryEvent::Note { .. } | HistoryEvent::Round => Ok(()),
    })
}

/// Calls `each` with the page records of the latest round: those since the last `--recrawl`, or all.
pub fn latest_pages(
    directory: &Path,
    mut each: impl FnMut(&StoredRecord) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    take_latest_pages(directory, |record| each(&record))
}

/// As [`latest_pages`], but `each` owns the record and can change or keep it.
pub fn take_latest_pages(
    directory: &Path,
    mut each: impl FnMut(StoredRecord) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    latest(directory, |record| if record.is_page() { each(record) } else { Ok(()) })
}

/// Calls `each` with the records of the latest round, also those of robots.txt files, sitemaps and runs, and the
/// markers of skipped URLs. If a URL has several records, only the last one is passed.
pub fn latest(
    directory: &Path,
    mut each: impl FnMut(StoredRecord) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    // The first pass counts the rounds after the first. The second pass counts them down to find the last one.
    let mut rounds_left = 0_u64;
    walk(directory, |event| {
        rounds_left += u64::from(event == HistoryEvent::Round);
        Ok(())
    })?;
    walk_latest(directory, |event| match event {
        HistoryEvent::Round => {
            rounds_left = rounds_left.saturating_sub(1);
            Ok(())
        }
        HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } if rounds_left == 0 => {
            each(StoredRecord::read(line)?)
        }
        _ => Ok(()),
    })
}

/// The message for a path that is not a crawl directory.
pub fn not_a_crawl_directory(path: &Path) -> String {
    let why = if path.exists() { "it has no crawl.json" } else { "it does not exist" };
    format!("{} is not a crawl directory: {why}", path.display())
}

/// Calls `each` with the page records of all rounds.
pub fn pages(
    directory: &Path,
    mut each: impl FnMut(&StoredRecord) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    lines(directory, |line| {
        let record = StoredRecord::read(line)?;
        if record.is_page() { each(&record) } else { Ok(()) }
    })
}
