//! The last record of each URL, in a crawl directory, whose log may have several in a round.

use std::collections::{HashMap, HashSet};

use argiope_core::LinkKind;
use argiope_core::crawl::record::LazyRecord;
use argiope_store::disk::HistoryEvent;

use super::Results;
use crate::records::{ReadError, read_lazily};

/// Calls `each` with every event but the records that a later one of the same round replaces.
pub fn walk(
    results: &Results,
    mut each: impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    // A new round queues all its links before the first page is settled (`is_queueing`). A link that is queued again later
    // has an earlier record in the round, or an attempt without a record.
    let (mut queued_again, mut is_queueing) = (HashSet::new(), false);
    // For each page of depth 0: the position of its last record in the current round. A position is the number of an event.
    // `replaced` has the positions of the records that a later one replaces.
    let mut roots: HashMap<String, u64> = HashMap::new();
    let (mut position, mut replaced) = (0_u64, HashSet::new());
    results.walk(|event| {
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
        replaced.extend(replaced_records(results, &queued_again)?);
    }
    position = 0;
    results.walk(|event| {
        position += 1;
        if replaced.contains(&position) { Ok(()) } else { each(event) }
    })
}

/// The positions of the records of these URLs that are not valid any more: the URL was queued again later in the same
/// round, or has a later record.
fn replaced_records(results: &Results, urls: &HashSet<Box<str>>) -> Result<HashSet<u64>, ReadError> {
    let mut latest: HashMap<String, u64> = HashMap::new();
    let (mut position, mut replaced) = (0_u64, HashSet::new());
    results.walk(|event| {
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
