//! Reads the segments of a fleet as the history of one crawl.

use std::path::Path;

use argiope_core::crawl::rules::Config;
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::crawl::status::OutcomeCounts;
use argiope_core::{StoreError, StoreErrorKind};
use argiope_fleet::cluster::FleetSettings;
use argiope_fleet::segments::{LinkOrigin, SegmentItem, SegmentStore, redacted_place};
use argiope_runtime::run_lines;
use argiope_store::disk::HistoryEvent;
use serde::{Deserialize, Serialize};

use crate::flags::shared_settings::SharedSettings;
use crate::records::{self, ReadError, StoredRecord};

/// The content of `fleet.json` and `rounds/N.json`: the description of a round.
#[derive(Serialize, Deserialize)]
pub struct CrawlStart {
    /// The name of the crawl.
    pub fleet: String,
    /// When the round was created, by the clock of the store.
    pub started: String,
    /// The settings of the fleet. They make a recrawl possible after the crawl was removed from the store.
    pub settings: FleetSettings,
}

/// The content of `end.json`: how a round ended.
#[derive(Serialize, Deserialize)]
pub struct CrawlEnd {
    /// The name of an [`End`].
    pub reason: String,
    /// URLs that are known and not finished.
    pub queued: u64,
    /// The duration of the round.
    pub seconds: f64,
}

impl CrawlStart {
    /// Reads the description of a round.
    pub fn read(location: &Path, round: &SegmentStore) -> Result<Self, StoreError> {
        let about = round.about().map_err(|error| store_error(location, &error))?;
        serde_json::from_str(&about).map_err(|error| store_error(location, &error))
    }

    /// The shared settings of the crawl. Those of a process, such as its files, are the defaults: who can write to the
    /// results does not choose files that a reader opens.
    pub fn config(&self, location: &Path) -> Result<Config, StoreError> {
        let shared = SharedSettings::read(&self.settings.config).map_err(|why| store_error(location, &why))?;
        Ok(shared.with_own(&Config::default()))
    }
}

/// The `run` records of all rounds: the first of each, without the segments.
pub fn runs(location: &Path) -> Result<Vec<Vec<u8>>, ReadError> {
    let store = SegmentStore::open(location);
    let rounds = store.rounds().map_err(|error| store_error(location, &error))?;
    (1..=rounds.max(1)).map(|round| Ok(first_line(location, &store.of_round(round))?)).collect()
}

/// The record that begins a round.
fn first_line(location: &Path, store: &SegmentStore) -> Result<Vec<u8>, StoreError> {
    let start = CrawlStart::read(location, store)?;
    let mut line = run_lines::first(&start.config(location)?, &start.started);
    line.pop_if(|last| *last == b'\n');
    Ok(line)
}

fn store_error(location: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::File, format!("{}: {error}", redacted_place(location)))
}

/// Calls `each` with the events of all rounds of a fleet. Each round is presented as one run: its first event is a
/// `run` record, and so is its last event if the round has ended. Segments contain no link events, so a
/// `HistoryEvent::Link` is made from each record that settles a link.
pub fn walk(location: &Path, mut each: impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>) -> Result<(), ReadError> {
    let store = SegmentStore::open(location);
    let rounds = store.rounds().map_err(|error| store_error(location, &error))?;
    // Without any round, reading the first one gives the error.
    for round in 1..=rounds.max(1) {
        if round > 1 {
            each(HistoryEvent::Round)?;
        }
        walk_round(location, &store.of_round(round), &mut each)?;
    }
    Ok(())
}

/// Calls `each` with the events of one round.
pub fn walk_round(
    location: &Path,
    store: &SegmentStore,
    mut each: impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    each(HistoryEvent::Line { line: &first_line(location, store)? })?;
    let (mut stopped, mut outcomes, mut bytes_wire) = (None, OutcomeCounts::default(), 0);
    let read = store.read_items(|item| {
        let result = match item {
            // The link graph is not a part of the history; `LinkGraph` reads it.
            SegmentItem::Graph(_) => Ok(()),
            SegmentItem::Note { host, note } => each(HistoryEvent::Note { host, note }),
            SegmentItem::Line { line, origin } => emit_record(line, origin, &mut each, |record| {
                if let Some(outcome) = record.outcome.filter(|_| record.is_page()) {
                    outcomes.add(outcome);
                }
                bytes_wire += record.bytes_wire.unwrap_or(0);
            }),
        };
        // The callback can only return an I/O error. The real one is stored in `stopped`.
        result.map_err(|error| {
            stopped = Some(error);
            std::io::Error::other("stopped")
        })
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    read.map_err(|error| store_error(location, &error))?;
    if let Some(end) = store.end().map_err(|error| store_error(location, &error))? {
        let end: CrawlEnd = serde_json::from_str(&end).map_err(|error| store_error(location, &error))?;
        let reason = End::from_name(&end.reason).unwrap_or(End::Interrupted);
        let elapsed = std::time::Duration::try_from_secs_f64(end.seconds).unwrap_or_default();
        // The results of a fleet contain neither changes nor traps.
        let (changes, traps) = (None, Vec::new());
        let last = run_lines::last(&outcomes, end.queued, bytes_wire, reason, elapsed, changes, traps);
        each(HistoryEvent::Line { line: last.strip_suffix(b"\n").unwrap_or(&last) })?;
    }
    Ok(())
}

/// Calls `count` with the parsed record, and `each` with the events that are made from it.
fn emit_record(
    line: &[u8],
    origin: Option<LinkOrigin>,
    each: &mut impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>,
    mut count: impl FnMut(&StoredRecord),
) -> Result<(), ReadError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if records::read_lazily(line)?.is_skip() {
        return Ok(());
    }
    let record = records::read(line)?;
    count(&record);
    // A record without an origin, such as that of a robots.txt, does not settle a link.
    let Some((outcome, origin)) = record.outcome.zip(origin) else {
        return each(HistoryEvent::Line { line });
    };
    let StoredRecord { url, via, status, .. } = &record;
    let (depth, tries) = (record.depth(), record.tries());
    let via = via.as_deref();
    let LinkOrigin { kind, has_earlier_record: again, .. } = origin;
    let is_plain = record.is_plain_get();
    each(HistoryEvent::Link { url, via, depth, tries, kind, is_plain, again })?;
    each(HistoryEvent::FinalOutcome { outcome, status: *status, line })
}
