//! Reads the records of a crawl directory, in the order in which they were written.
//!
//! Invariant: this module does not write, lock or wait. If the crawl is running, reading ends at the last commit.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use argiope_core::crawl::record::{CrawlRecord, LazyRecord};
use argiope_core::crawl::rules::Config;
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_core::{LinkKind, StoreError, StoreErrorKind};
use argiope_fleet::segments::SegmentStore;
use argiope_store::disk::{self, CrawlFile, HistoryEvent};

use crate::flags::settings::crawl_settings_of_stored;
use crate::results;

/// How many bytes of a record an error message contains.
const MAX_SHOWN_BYTES: usize = 80;
/// The key of fingerprints in commands that read results. They are never compared with those of the crawl, so any key works.
pub const ANY_FINGERPRINT_KEY: u64 = 0;

/// A record that was read from a crawl.
pub type StoredRecord = CrawlRecord<'static>;

/// Reads a record. The error message contains its beginning.
pub fn read(bytes: &[u8]) -> Result<StoredRecord, StoreError> {
    CrawlRecord::read(bytes).map_err(|error| damaged(bytes, &error.to_string()))
}

/// Finds the fields of a record. The error message contains its beginning.
pub fn read_lazily(bytes: &[u8]) -> Result<LazyRecord<'_>, StoreError> {
    LazyRecord::read(bytes).ok_or_else(|| damaged(bytes, "not a JSON object"))
}

fn damaged(bytes: &[u8], error: &str) -> StoreError {
    let start = String::from_utf8_lossy(bytes.get(..MAX_SHOWN_BYTES).unwrap_or(bytes)).into_owned();
    StoreError::new(StoreErrorKind::Damaged, format!("a record cannot be read ({error}): {start:?}"))
}

/// The settings of the crawl in the record of a run. Settings that cannot be read count as the defaults. `None` if the
/// record has no settings.
pub fn settings_of(run: &RunRecord<'_>) -> Option<Config> {
    run.settings.clone().map(|settings| crawl_settings_of_stored(settings).unwrap_or_default())
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
                let record = read_lazily(line)?;
                if record.depth() == Some(0) {
                    replaced.extend(roots.insert(request_key(&record), position));
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
            HistoryEvent::FinalOutcome { line, .. } => {
                let record = read_lazily(line)?;
                if urls.contains(&*record.url()) {
                    replaced.extend(latest.insert(request_key(&record), position));
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(replaced)
}

/// The identity of a request: type, method, body and URL.
fn request_key(record: &LazyRecord<'_>) -> String {
    let (method, request_id) = (record.method().unwrap_or_default(), record.request_id().unwrap_or_default());
    [record.r#type(), method, request_id, record.url()].join(" ")
}

/// Calls `each` with the records of all rounds, in order. If a URL has several records in a round, only the last one is
/// passed.
pub fn lines(directory: &Path, mut each: impl FnMut(&[u8]) -> Result<(), ReadError>) -> Result<CrawlFile, ReadError> {
    walk_latest(directory, |event| match event {
        // The marker of a URL that was queued and then skipped is not a record for users.
        HistoryEvent::FinalOutcome { line, .. } if read_lazily(line)?.is_skip() => Ok(()),
        HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } => each(line),
        HistoryEvent::Link { .. } | HistoryEvent::Note { .. } | HistoryEvent::Round => Ok(()),
    })
}

/// Calls `each` with the page records of the latest round: those since the last `--recrawl`, or all.
pub fn latest_pages(
    directory: &Path,
    mut each: impl FnMut(&StoredRecord) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    latest(directory, |record| if record.is_page() { each(&record) } else { Ok(()) })
}

/// As [`latest_pages`], with the bytes of the records.
pub fn latest_page_lines(
    directory: &Path,
    mut each: impl FnMut(&[u8]) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    latest_lines(directory, |line| if read_lazily(line)?.is_page() { each(line) } else { Ok(()) })
}

/// Calls `each` with the records of the latest round, also those of robots.txt files, sitemaps and runs, and the
/// markers of skipped URLs. If a URL has several records, only the last one is passed.
pub fn latest(
    directory: &Path,
    mut each: impl FnMut(StoredRecord) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    latest_lines(directory, |line| each(read(line)?))
}

/// As [`latest`], with the bytes of the records.
fn latest_lines(
    directory: &Path,
    mut each: impl FnMut(&[u8]) -> Result<(), ReadError>,
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
        HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } if rounds_left == 0 => each(line),
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
        let record = read(line)?;
        if record.is_page() { each(&record) } else { Ok(()) }
    })
}
