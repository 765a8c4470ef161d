//! The results of a crawl on many machines, as the history of one crawl.

use std::path::Path;

use argiope_core::rules::Config;
use argiope_core::schedule::keeper::End;
use argiope_core::status::OutcomeCounts;
use argiope_core::{LinkKind, StoreError, StoreErrorKind};
use argiope_runtime::run_lines;
use argiope_store::disk::{CrawlFile, HistoryEvent};
use argiope_store::segments::{SegmentItem, SegmentStore, shown_place};
use serde::{Deserialize, Serialize};

use crate::records::{EXCLUDED, ReadError, StoredRecord};

/// What the crawl is: `fleet.json`.
#[derive(Serialize, Deserialize)]
pub struct CrawlStart {
    /// The name of the crawl.
    pub fleet: String,
    /// The key of the fingerprints.
    pub key: u64,
    /// When it was created, by the clock of the store.
    pub started: String,
    /// The settings that all processes share, as JSON.
    pub config: String,
}

/// How the crawl ended: `end.json`.
#[derive(Serialize, Deserialize)]
pub struct CrawlEnd {
    pub reason: String,
    /// URLs that are known and not finished.
    pub queued: u64,
    pub seconds: f64,
}

impl CrawlStart {
    pub fn read(place: &Path) -> Result<Self, StoreError> {
        let about = SegmentStore::open(place).about().map_err(|error| fault(place, &error))?;
        serde_json::from_str(&about).map_err(|error| fault(place, &error))
    }

    /// The settings of the crawl.
    pub fn config(&self, place: &Path) -> Result<Config, StoreError> {
        serde_json::from_str(&self.config).map_err(|error| fault(place, &error))
    }
}

fn fault(place: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::File, format!("{}: {error}", shown_place(place)))
}

/// Calls `each` with the events of a crawl on many machines. The page that led to another one is in the other one's
/// record. The first and the last record are those of one run, from the start of the crawl to its end.
pub fn walk(
    place: &Path,
    mut each: impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>,
) -> Result<CrawlFile, ReadError> {
    let start = CrawlStart::read(place)?;
    let first = run_lines::first(&start.config(place)?, &start.started);
    each(HistoryEvent::Line { line: first.strip_suffix(b"\n").unwrap_or(&first) })?;
    let (mut stopped, mut outcomes, mut bytes_wire) = (None, OutcomeCounts::default(), 0);
    let store = SegmentStore::open(place);
    let read = store.read_items(|item| {
        let told = match item {
            SegmentItem::Graph(_) => Ok(()),
            SegmentItem::Note { host, note } => each(HistoryEvent::Note { host, note }),
            SegmentItem::Line(line) => tell(line, &mut each, |record| {
                if let Some(outcome) = record.outcome.filter(|_| record.is_page()) {
                    outcomes.add(outcome);
                }
                bytes_wire += record.bytes_wire.unwrap_or(0);
            }),
        };
        told.map_err(|error| {
            stopped = Some(error);
            std::io::Error::other("stopped")
        })
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    read.map_err(|error| fault(place, &error))?;
    if let Some(end) = store.end().map_err(|error| fault(place, &error))? {
        let end: CrawlEnd = serde_json::from_str(&end).map_err(|error| fault(place, &error))?;
        let reason = End::from_name(&end.reason).unwrap_or(End::Interrupted);
        let elapsed = std::time::Duration::try_from_secs_f64(end.seconds).unwrap_or_default();
        let last = run_lines::last(&outcomes, end.queued, bytes_wire, reason, elapsed, None, Vec::new());
        each(HistoryEvent::Line { line: last.strip_suffix(b"\n").unwrap_or(&last) })?;
    }
    Ok(CrawlFile::without_directory())
}

/// Tells a record as the events that it stands for.
fn tell(
    line: &[u8],
    each: &mut impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>,
    mut count: impl FnMut(&StoredRecord),
) -> Result<(), ReadError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if line.starts_with(EXCLUDED) {
        return Ok(());
    }
    let record = StoredRecord::read(line)?;
    count(&record);
    let Some(outcome) = record.outcome.filter(|_| record.r#for.as_deref() != Some("robots")) else {
        return each(HistoryEvent::Line { line });
    };
    let StoredRecord { url, via, depth, tries, status, .. } = &record;
    let via = via.as_deref();
    let kind = link_kind(&record);
    each(HistoryEvent::Link { url, via, depth: *depth, tries: *tries, kind, again: false })?;
    each(HistoryEvent::Fate { outcome, status: *status, line })
}

/// The kind of link by which a URL was found. Records name the page that led to it, not the kind of its link.
pub fn link_kind(record: &StoredRecord) -> LinkKind {
    match (record.is_page(), record.via.is_some()) {
        (false, _) => LinkKind::SitemapFile,
        (true, false) => LinkKind::Root,
        (true, true) => LinkKind::Anchor,
    }
}
