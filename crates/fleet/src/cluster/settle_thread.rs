//! The thread that makes results durable: it puts links into their buckets, writes records into segments, and settles.
//!
//! Its order of operations makes a crash harmless. Links are put and replicated before the page that they were found on
//! is settled. Records are durable before they are settled. Every settle has the next sequence number of its bucket and
//! epoch, so a reader can recognise the records that were settled.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use argiope_core::crawl::record::{CrawlRecord, LazyRecord};
use argiope_core::crawl::warc::WarcLocation;
use argiope_core::{Remedy, StoreError, StoreErrorKind, Time};

use super::QueuedLink;
use super::client::{FleetClient, LeaseToken, SettleReply, SettleRequest};
use super::host_note::WireNote;
use super::shared::{ArchivedExchange, LeaseCommand, LeaseEvent, Outgoing, OutgoingNote, SettledRecord, Shared};
use crate::segments::{SegmentGroup, SegmentStore};
use argiope_store::disk::is_full;
use argiope_store::disk::{GraphEncoder, NewEdge};

/// A segment is closed when it has this size.
const SEGMENT_BYTES: usize = 64 << 20;
/// A segment is closed when its first record is this old.
pub const SEGMENT_AGE: Duration = Duration::from_secs(10);
/// Time between two attempts to write results.
const WRITE_RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How long a process that is to end tries to store its results.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(5);
/// How long links are held back so that several are put in one batch.
const PUT_DELAY: Duration = Duration::from_millis(20);
/// How many buckets one put covers.
const BUCKETS_PER_PUT: usize = 256;

/// Makes the first record (`warcinfo`) of an archive file with this name.
pub type ArchiveStart = Box<dyn Fn(&str) -> Vec<u8> + Send>;

/// The state of the settle thread: the segment that is being filled.
pub struct SettleThread {
    client: FleetClient,
    shared: Arc<Shared>,
    segments: SegmentStore,
    /// The last sequence number of each token.
    sequences: HashMap<LeaseToken, u64>,
    /// The records of the next segment.
    records: Vec<SettledRecord>,
    /// Approximate size of `records`.
    bytes: usize,
    /// When the first of `records` arrived; `None` if there are no records.
    first_record_at: Option<Instant>,
    /// Notes about hosts, by bucket and host. They are added to the next segment with records of their bucket.
    notes: HashMap<(u32, Box<str>), Vec<u8>>,
    /// The key of the fingerprints.
    key: u64,
    archive_start: ArchiveStart,
    /// The number of this session in its process.
    session: u64,
    /// Number of segments that this session has written.
    segments_written: u64,
    /// Whether the user was notified that results cannot be stored.
    has_warned: bool,
    /// When this process was requested to end.
    closing_since: Option<Instant>,
}

impl SettleThread {
    pub fn new(
        client: FleetClient,
        shared: Arc<Shared>,
        segments: SegmentStore,
        session: u64,
        key: u64,
        archive_start: ArchiveStart,
    ) -> Self {
        Self {
            key,
            archive_start,
            client,
            shared,
            segments,
            sequences: HashMap::new(),
            records: Vec::new(),
            bytes: 0,
            first_record_at: None,
            notes: HashMap::new(),
            session,
            segments_written: 0,
            has_warned: false,
            closing_since: None,
        }
    }

    /// Runs the thread. An error ends it, and is reported to the keeper.
    pub fn run(mut self) -> Result<(), StoreError> {
        let worked = self.work();
        if let Err(error) = &worked {
            self.shared.send_event(LeaseEvent::Failed(error.clone()));
        }
        worked
    }

    /// The loop of the thread: takes outgoing work, puts links, marks requests, and closes segments that are due.
    fn work(&mut self) -> Result<(), StoreError> {
        loop {
            let shared = Arc::clone(&self.shared);
            let mut outgoing = shared.outgoing();
            if outgoing.is_empty() && !outgoing.close && !outgoing.abandon {
                let time_left =
                    self.first_record_at.map_or(SEGMENT_AGE, |first| SEGMENT_AGE.saturating_sub(first.elapsed()));
                // A flush is due even without new work.
                let wait = if outgoing.flush && self.first_record_at.is_some() { Duration::ZERO } else { time_left };
                outgoing = shared
                    .outgoing_changed
                    .wait_timeout(outgoing, wait.min(SEGMENT_AGE))
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            let is_urgent = !outgoing.settled.is_empty() || !outgoing.marks.is_empty() || !outgoing.notes.is_empty();
            let has_links_only = !outgoing.links.is_empty() && !is_urgent;
            if has_links_only && !outgoing.close && !outgoing.abandon {
                // Wait for more links, because those of one page arrive one by one.
                outgoing =
                    shared.outgoing_changed.wait_timeout(outgoing, PUT_DELAY).unwrap_or_else(PoisonError::into_inner).0;
            }
            let Outgoing { links, settled, notes, marks, flush, close, abandon } = std::mem::take(&mut *outgoing);
            drop(outgoing);
            if abandon {
                return Ok(());
            }
            if close {
                self.closing_since.get_or_insert_with(Instant::now);
            }
            let marked = marks.len() + notes.len();
            self.keep_notes(notes)?;
            self.mark(marks)?;
            if marked > 0 {
                self.shared.send_event(LeaseEvent::Marked(marked as u64));
            }
            self.put(links.into_iter().collect())?;
            for record in settled {
                self.first_record_at.get_or_insert_with(Instant::now);
                self.bytes += record.bytes();
                self.records.push(record);
            }
            self.shared.unsettled.store(self.records.len() as u64, Ordering::Relaxed);
            let is_old = self.first_record_at.is_some_and(|first| first.elapsed() >= SEGMENT_AGE);
            if flush || close || is_old || self.bytes >= SEGMENT_BYTES {
                self.close_segment()?;
            }
            if close {
                return Ok(());
            }
        }
    }

    /// Puts links and waits until they are replicated, for as long as the lease lasts.
    fn put(&mut self, batches: Vec<(u32, Vec<QueuedLink>)>) -> Result<(), StoreError> {
        for batch in batches.chunks(BUCKETS_PER_PUT) {
            let results = self.retry(|client| client.put(batch))?;
            for ((bucket, _), result) in batch.iter().zip(results) {
                if result.queued > 0 {
                    self.shared.send_command(LeaseCommand::Queued { bucket: *bucket, queued: result.queued });
                }
            }
        }
        Ok(())
    }

    /// Stores notes about hosts. The last note about a host replaces the earlier ones.
    fn keep_notes(&mut self, notes: Vec<OutgoingNote>) -> Result<(), StoreError> {
        let mut by_token: HashMap<LeaseToken, HashMap<Box<str>, (WireNote, Time)>> = HashMap::new();
        for OutgoingNote { token, note, until, text } in notes {
            self.notes.insert((token.bucket, note.host.clone()), text);
            by_token.entry(token).or_default().insert(note.host.clone(), (note, until));
        }
        if by_token.is_empty() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let kept = self.retry(|client| {
            // The wait is what is left when the note is sent.
            let now = (shared.now)();
            let left = |until: Time| (until - now).as_millis() as u64;
            let notes: Vec<(LeaseToken, Vec<WireNote>)> = by_token
                .iter()
                .map(|(token, notes)| {
                    let notes = notes.values().map(|(note, until)| WireNote { wait_ms: left(*until), ..note.clone() });
                    (*token, notes.collect())
                })
                .collect();
            client.keep_notes(&notes)
        })?;
        match by_token.keys().zip(kept).find(|(_, is_kept)| !is_kept) {
            Some((token, _)) => Err(lost(format!("another process has taken over bucket {}", token.bucket))),
            None => Ok(()),
        }
    }

    /// Stores the state of links whose request is about to be sent or has failed.
    fn mark(&mut self, marks: Vec<(LeaseToken, QueuedLink)>) -> Result<(), StoreError> {
        let mut by_token: HashMap<LeaseToken, Vec<QueuedLink>> = HashMap::new();
        for (token, link) in marks {
            by_token.entry(token).or_default().push(link);
        }
        for (token, links) in by_token {
            if !self.retry(|client| client.update_leased(token, &links))? {
                return Err(lost(format!("another process has taken over bucket {}", token.bucket)));
            }
        }
        Ok(())
    }

    /// Writes the records as one segment, and settles their links.
    fn close_segment(&mut self) -> Result<(), StoreError> {
        let records = std::mem::take(&mut self.records);
        (self.bytes, self.first_record_at) = (0, None);
        if records.is_empty() {
            return Ok(());
        }
        self.segments_written += 1;
        let owner = self.client.owner().to_owned();
        let name = format!("{owner}-{:03}-{:06}", self.session, self.segments_written);
        let records = self.archive(&name, records)?;
        let mut groups: BTreeMap<(u32, u64), Vec<SettledRecord>> = BTreeMap::new();
        for record in records {
            groups.entry((record.bucket, record.epoch)).or_default().push(record);
        }
        let mut requests = Vec::new();
        let mut segment = Vec::new();
        // The number of records of each bucket.
        let mut counts = Vec::new();
        for ((bucket, epoch), records) in groups {
            let token = LeaseToken { bucket, epoch };
            let sequence = self.sequences.get(&token).copied().unwrap_or(0) + 1;
            let lines = records.iter().flat_map(|record| record.line.iter().copied()).collect();
            let graph = self.graph(&records);
            let origins = records.iter().map(|record| record.origin).collect();
            let hosts: Vec<(u32, Box<str>)> =
                self.notes.keys().filter(|(bucket_of_note, _)| *bucket_of_note == bucket).cloned().collect();
            let notes: Vec<(Box<str>, Vec<u8>)> = hosts
                .into_iter()
                .filter_map(|key| {
                    let note = self.notes.remove(&key)?;
                    Some((key.1, note))
                })
                .collect();
            segment.push(SegmentGroup { bucket, epoch, sequence, lines, origins, graph, notes });
            requests.push(SettleRequest {
                token,
                sequence,
                pages: records.iter().filter(|record| record.is_page).count() as u64,
                bytes: records.iter().map(|record| record.received).sum(),
                fingerprints: records.iter().filter_map(|record| record.fingerprint).collect(),
            });
            counts.push((bucket, records.len() as u64));
        }
        self.retry_write(|segments| segments.write(&owner, &name, &segment))?;
        let replies = self.retry(|client| client.settle(&requests))?;
        for (request, reply) in requests.iter().zip(replies) {
            if let SettleReply::Refused(why) = reply {
                return Err(lost(format!("the store refused a settle of bucket {}: {why}", request.token.bucket)));
            }
            self.sequences.insert(request.token, request.sequence);
            self.shared.settled_bytes.fetch_add(request.bytes, Ordering::AcqRel);
        }
        let positions: Vec<_> = requests
            .iter()
            .map(|request| (request.token.bucket, request.token.epoch, owner.clone(), request.sequence))
            .collect();
        self.retry_write(|segments| segments.write_positions(&name, &positions))?;
        for (bucket, count) in counts {
            self.shared.send_event(LeaseEvent::Settled { bucket, count });
        }
        self.shared.unsettled.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the archived exchanges of these records as one archive file, and updates the records with their position
    /// in it.
    fn archive(&mut self, name: &str, mut records: Vec<SettledRecord>) -> Result<Vec<SettledRecord>, StoreError> {
        let place = records.iter().find_map(|record| Some(&record.archive.as_ref()?.place));
        // All archived exchanges have the same file extension, such as `.warc.gz`.
        let Some(extension) = place.and_then(|place| place.file.find(".warc").map(|at| place.file[at..].to_owned()))
        else {
            return Ok(records);
        };
        let file = format!("archive/{name}{extension}");
        let mut bytes = (self.archive_start)(&file);
        for record in &mut records {
            let Some(ArchivedExchange { place, bytes: exchange }) = record.archive.take() else { continue };
            bytes.extend_from_slice(&exchange);
            // Only the rendered document and the picture follow the response.
            let views = place.rendered.unwrap_or(0) + place.screenshot.unwrap_or(0);
            let offset = (bytes.len() as u64).saturating_sub(place.length + views);
            let moved = WarcLocation { file: file.clone(), offset, ..place.clone() };
            record.line = with_location(&record.line, &moved).ok_or_else(|| {
                let message = format!("a record has no place in the archive for {file}");
                StoreError::new(StoreErrorKind::Damaged, message)
            })?;
        }
        self.retry_write(|segments| segments.write_archive(&file, &bytes))?;
        Ok(records)
    }

    /// The links of these pages as chunks of the link graph. The first chunk begins a block.
    fn graph(&self, records: &[SettledRecord]) -> Vec<Vec<u8>> {
        let mut encoder = GraphEncoder::new(self.key);
        let mut chunks = Vec::new();
        for page in records.iter().filter_map(|record| record.links.as_ref()) {
            let edges = page.links.texts();
            let edges = edges.map(|(target, kind, nofollow, anchor)| NewEdge { target, kind, nofollow, anchor });
            let with_texts = page.links.has_anchors();
            chunks.extend(encoder.add(&page.source, page.is_sitemap, page.cut, edges, with_texts));
        }
        chunks.extend(encoder.take());
        chunks
    }

    /// Repeats a call until the store answers, for as long as the lease lasts. There is no pause between two calls,
    /// because each of them retries for [`Nodes::MAX_RETRY_TIME`](super::Nodes::MAX_RETRY_TIME).
    fn retry<T>(
        &mut self,
        mut call: impl FnMut(&mut FleetClient) -> Result<T, super::Unreachable>,
    ) -> Result<T, StoreError> {
        loop {
            match call(&mut self.client) {
                Ok(result) => {
                    self.end_stall();
                    return Ok(result);
                }
                Err(fault) if fault.is_final => return Err(lost(fault.message)),
                Err(fault) => self.stall(format!("the store does not take results ({})", fault.message))?,
            }
        }
    }

    /// Writes results, and repeats that while it fails, for as long as the lease lasts. A full disk is an error at once:
    /// the hosts of this process are for processes that can store results.
    fn retry_write(&mut self, write: impl Fn(&SegmentStore) -> io::Result<()>) -> Result<(), StoreError> {
        loop {
            match write(&self.segments) {
                Ok(()) => {
                    self.end_stall();
                    return Ok(());
                }
                Err(error) => {
                    let why = format!("{} cannot be written: {error}", self.segments);
                    if is_full(&error) {
                        let full = StoreError::new(StoreErrorKind::Full, why).with_source(error);
                        return Err(full.with_remedy(Remedy::FreeSpace));
                    }
                    // A file with this name and other content exists, so a retry cannot succeed.
                    if error.kind() == io::ErrorKind::AlreadyExists {
                        return Err(lost(why));
                    }
                    self.stall(why)?;
                    std::thread::sleep(WRITE_RETRY_PAUSE);
                }
            }
        }
    }

    /// Records that results cannot be stored, which stops the leasing of links. Notifies the user once. Returns an
    /// error when it is time to give up.
    fn stall(&mut self, why: String) -> Result<(), StoreError> {
        self.shared.set_stall(Some(why.clone()));
        if !std::mem::replace(&mut self.has_warned, true) {
            self.shared.notify_user(&format!("{why}: results are kept, and stored when that is possible again"));
        }
        let (close, abandon) = {
            let outgoing = self.shared.outgoing();
            (outgoing.close, outgoing.abandon)
        };
        if close {
            self.closing_since.get_or_insert_with(Instant::now);
        }
        let has_timed_out = self.closing_since.is_some_and(|since| since.elapsed() >= MAX_CLOSE_TIME);
        if has_timed_out || abandon || self.shared.has_lease_ended() { Err(lost(why)) } else { Ok(()) }
    }

    /// Ends a stall, and notifies the user.
    fn end_stall(&mut self) {
        if std::mem::take(&mut self.has_warned) {
            self.shared.set_stall(None);
            self.shared.notify_user("results are stored again");
        }
    }
}

/// The error that ends the session of this process. What it has not settled is crawled again.
fn lost(why: String) -> StoreError {
    StoreError::new(StoreErrorKind::LeaseLost, why)
}

/// Replaces the archive position in a record, and keeps all other bytes: fields that this version does not know stay.
/// `None` if the record has no position.
fn with_location(line: &[u8], new: &WarcLocation) -> Option<Vec<u8>> {
    let field = CrawlRecord::FIELDS.iter().position(|field| field.name == "warc")?;
    let record = LazyRecord::read(line)?;
    let old = record.raw(field)?;
    // `old` is a part of `line`.
    let start = old.as_ptr().addr().checked_sub(line.as_ptr().addr())?;
    let (before, after) = (line.get(..start)?, line.get(start + old.len()..)?);
    Some([before, &serde_json::to_vec(new).ok()?, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_archive_position_of_a_record_is_replaced() {
        let old = r#"{"file":"archive/old.warc.gz","offset":7,"length":9}"#;
        let new = WarcLocation {
            file: "archive/new.warc.gz".into(),
            offset: 70,
            ..serde_json::from_str(old).expect("a position")
        };
        for record in [
            r#"{"v":1,"type":"sub","page":"http://h.example/","url":"http://h.example/a.js","kind":"script","warc":POSITION}"#,
            r#"{"v":1,"type":"page","url":"http://h.example/","warc":POSITION,"field_of_a_later_version":[1, 2]}"#,
        ] {
            let line = record.replace("POSITION", old) + "\n";
            let expected = record.replace("POSITION", &serde_json::to_string(&new).expect("JSON")) + "\n";
            let moved = with_location(line.as_bytes(), &new).expect("a record with a position");
            assert_eq!(String::from_utf8_lossy(&moved), expected);
        }
        assert_eq!(with_location(b"{\"v\":1,\"type\":\"page\",\"url\":\"http://h.example/\"}\n", &new), None);
    }
}
