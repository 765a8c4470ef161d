//! [`DiskFrontier`]: the frontier of a crawl directory.
//!
//! Invariant: replaying the log from the beginning gives exactly this state, apart from leases.

use super::compaction::Compaction;
use super::deferred::DEFERRED;
use super::directory::CrawlFile;
use super::fault::damaged;
use super::files::Files;
use super::graph_codec::{GraphEncoder, NewEdge};
use super::journal::Journal;
use super::known;
use super::log::{CommitBatch, FOLDER, LogReader, LogWriter};
use super::record::{LinkRecord, Record};
use super::replay::Replay;
use super::round::{EarlierOutcomes, Requeue};
use super::snapshot::{self, Mark, Portion, QueuePositions, State};
use super::snapshot_writer::SnapshotWriter;
use super::spill;
use crate::memory::after_host;
use argiope_core::page::custom_request::CustomRequest;
use argiope_core::schedule::frontier::{ALREADY_SENT, link_fingerprint};
use argiope_core::{
    Counts, FinalOutcome, FoundEdges, Frontier, LaneId, Link, LinkKind, LinkRef, StoreError, StoreErrorKind, Url,
    UrlRef,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A snapshot is due when the log has grown by this many bytes, and by more than half of the last snapshot's length. So
/// opening a directory replays little of the log, and snapshots do not cost much more than the log itself.
const SNAPSHOT_AFTER: u64 = 16 << 20;
/// At the end of a run, a snapshot is written only if more of the log than this would have to be replayed. Replaying
/// less takes milliseconds, while a snapshot costs several syncs.
const MAX_REPLAY_AT_END: u64 = 4 << 20;
/// A snapshot is written in portions, one with each commit. A portion has at least this many bytes.
const MIN_PORTION: usize = 1 << 20;
/// A portion has at least this many times the bytes that the log has grown by since the previous portion.
const PORTION_PER_GROWTH: u64 = 4;
/// A portion has at most this many bytes, unless a single indivisible part is longer.
const MAX_PORTION: usize = 8 << 20;

/// A reserved lane number: notes under it belong to the crawl itself.
const CRAWL_NOTES: LaneId = LaneId(u32::MAX);
/// A reserved lane number: its note has the log position at which the last round began.
pub(super) const ROUND_NOTE: LaneId = LaneId(u32::MAX - 1);
/// A reserved lane number: its note has the log position of the last link that this round has queued again.
pub(super) const REQUEUE_NOTE: LaneId = LaneId(u32::MAX - 2);
/// A reserved lane number: a note under it says that settled pages were queued again within a round. Readers of the
/// link graph then expect several entries of a page.
pub(super) const REFETCH_NOTE: LaneId = LaneId(u32::MAX - 3);

/// A frontier with durable commits.
pub struct DiskFrontier {
    files: Arc<dyn Files>,
    /// The id of the crawl, which is the seed of all checksums.
    crawl: u64,
    /// The key of the fingerprints.
    key: u64,
    pub(super) state: State,
    pub(super) queued: u64,
    /// The lane of deferred links, if there have been any.
    pub(super) deferred_lane: Option<LaneId>,
    /// The links that were taken and not settled, by fingerprint.
    leased: HashMap<u64, Leased>,
    pub(super) journal: Journal,
    /// Log positions of the outcomes of the previous round, by the fingerprints of their links.
    pub(super) earlier: EarlierOutcomes,
    /// The links of this round that are not queued again yet.
    pub(super) requeue: Requeue,
    /// Whether there was a previous round.
    pub(super) is_recrawl: bool,
    /// The page that was last written to the journal, and its position. Links found on it refer to this position.
    page_written: Option<(Url, u64)>,
    /// The page that was last read from the log, cached because consecutive links are usually from the same page.
    page_read: Option<(u64, Url)>,
    /// The log positions of the start of the last round and of the round before it. Log entries before both can be
    /// compacted. `None` in the first round, and once `take_compaction` has taken them.
    pub(super) rounds: Option<(u64, u64)>,
    /// Hashes of output files, to be stored with the next commit.
    new_hashes: HashMap<Box<str>, u64>,
    /// Links of pages that are not in the journal yet.
    graph: GraphEncoder,
    /// The position of the last chunk of the link graph.
    last_chunk: Option<u64>,
    snapshots: Snapshots,
    /// The end of the log when memory use was last checked.
    last_size_check: u64,
    /// Everything up to this position is on disk.
    durable: u64,
    /// Whether a log file was completed since the last compaction. An index of that file can be written.
    has_completed_file: bool,
}

/// A link that was taken and not settled. `position` is that of its record in the log.
#[derive(Clone, Copy)]
struct Leased {
    lane: LaneId,
    rank: i32,
    position: u64,
}

/// How the record of a link relates to an earlier record of the same link. The default is a new link.
#[derive(Clone, Copy, Default)]
pub(super) struct LinkChange {
    /// The position of the record that is replaced.
    pub replaces: Option<u64>,
    /// Whether the link was settled and is queued again.
    pub again: bool,
    /// Whether the replaced record is that of a deferred link.
    pub was_deferred: bool,
}

/// The last complete snapshot, the one in progress, and when the next is due.
struct Snapshots {
    /// The end of the log when the last complete snapshot was started.
    last_start: u64,
    /// The length of the last complete snapshot.
    last_length: u64,
    /// The snapshot in progress.
    in_progress: Option<SnapshotWriter>,
    /// The end of the commit that completes the last snapshot, and the run files that can be deleted once it is
    /// durable.
    unacknowledged: Option<(u64, Vec<u32>)>,
    /// The growth of the log after which a snapshot is started.
    min_growth: u64,
    /// The same for a snapshot at the end of a run.
    min_growth_at_end: u64,
    /// Each commit carries at least this many bytes of a snapshot.
    min_portion: usize,
    /// See [`PORTION_PER_GROWTH`].
    portion_per_growth: u64,
    /// The end of the commit with the last portion, and whether that commit is still being written.
    last_portion: (u64, bool),
}

impl Snapshots {
    fn new(last_start: u64, last_length: u64) -> Self {
        Self {
            last_start,
            last_length,
            in_progress: None,
            unacknowledged: None,
            min_growth: SNAPSHOT_AFTER,
            min_growth_at_end: MAX_REPLAY_AT_END,
            min_portion: MIN_PORTION,
            portion_per_growth: PORTION_PER_GROWTH,
            last_portion: (last_start, false),
        }
    }
}

/// The result of opening a log.
pub(super) struct Recovered {
    pub frontier: DiskFrontier,
    pub writer: LogWriter,
    /// Messages for the user about damage that was found and repaired.
    pub messages: Vec<String>,
}

impl DiskFrontier {
    /// Creates a frontier with a new log.
    pub(super) fn create(
        files: Arc<dyn Files>,
        file: CrawlFile,
        memory_limit: usize,
    ) -> Result<(Self, LogWriter), StoreError> {
        let (crawl, key) = (file.crawl, file.key);
        snapshot::remove(&*files)?;
        let mut state = State::new(&files, crawl, memory_limit);
        spill::remove_leftovers(&*files)?;
        state.known.remove_leftovers()?;
        let writer = LogWriter::create(Arc::clone(&files), file)?;
        let (log, _) = LogReader::open(Arc::clone(&files), crawl)?;
        Ok((Self::new(files, crawl, key, state, log, LogReader::FIRST), writer))
    }

    fn new(files: Arc<dyn Files>, crawl: u64, key: u64, state: State, log: LogReader, end: u64) -> Self {
        Self {
            journal: Journal::new(Arc::clone(&files), crawl, log, end),
            files,
            crawl,
            key,
            queued: state.queued(),
            deferred_lane: state.names.find(DEFERRED),
            state,
            leased: HashMap::new(),
            earlier: EarlierOutcomes::default(),
            requeue: Requeue::default(),
            is_recrawl: false,
            page_written: None,
            page_read: None,
            rounds: None,
            new_hashes: HashMap::new(),
            graph: GraphEncoder::new(key),
            last_chunk: None,
            snapshots: Snapshots::new(0, 0),
            last_size_check: end,
            durable: end,
            has_completed_file: false,
        }
    }

    /// Continues a log: loads the snapshot, replays the frames after it, and truncates a torn frame.
    pub(super) fn open(
        files: Arc<dyn Files>,
        crawl: u64,
        key: u64,
        memory_limit: usize,
    ) -> Result<Recovered, StoreError> {
        let (log, unused) = LogReader::open(Arc::clone(&files), crawl)?;
        let mut messages = Vec::new();
        spill::remove_leftovers(&*files)?;
        let mut loaded = snapshot::read(&files, crawl, memory_limit)?;
        // An older snapshot refers to log files that were removed.
        loaded.take_if(|found| found.start < log.uncompacted_start());
        if let Some(found) = &loaded
            && !log.has_frame(found.mark.frame, found.mark.end, found.mark.checksum)?
        {
            messages.push("the snapshot refers to commits that are not in the log; it was ignored".to_owned());
            loaded = None;
        }
        let (from, included, mut state, length) = match loaded {
            Some(loaded) => (loaded.start, loaded.included, loaded.state, loaded.length),
            None => (log.first(), QueuePositions::default(), State::new(&files, crawl, memory_limit), 0),
        };
        if length == 0 {
            snapshot::remove(&*files)?
        } else {
            snapshot::remove_leftovers(&*files)?
        }
        state.known.remove_leftovers()?;
        let mut replay = Replay::new(&*files, key, included, from);
        let tail = log.walk(from, |position, record| replay.apply(&mut state, position, record))?;
        replay.remove_collected(&mut state)?;
        if tail.torn_bytes > 0 {
            messages.push(format!("{} bytes of an unfinished commit were truncated", tail.torn_bytes));
        }
        let writer = log.writer(&tail, unused)?;
        let is_current = log.is_current();
        let mut frontier = Self::new(files, crawl, key, state, log, tail.end);
        // All entries of a log file have the same format.
        if !is_current {
            frontier.journal.begin_file();
        }
        frontier.has_completed_file = frontier.journal.has_complete_file();
        frontier.snapshots = Snapshots::new(from, length);
        let Counts { known, queued, settled, .. } = frontier.counts();
        if known != queued + settled {
            let what = format!("{known} URLs are known, but {queued} are queued and {settled} settled");
            return Err(damaged(&*frontier.files, FOLDER, &what));
        }
        frontier.recall_round()?;
        Ok(Recovered { frontier, writer, messages })
    }

    /// The end of the log, including records that are not committed yet.
    pub fn log_end(&self) -> u64 {
        self.journal.appended_end()
    }

    /// Everything up to this position is on disk.
    pub fn durable_end(&self) -> u64 {
        self.durable
    }

    /// The key of the fingerprints.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The committed length of each output file.
    pub fn outputs(&self) -> &BTreeMap<Box<str>, u64> {
        &self.state.outputs
    }

    /// The hash of the committed part of an output file, if it is known.
    pub fn output_hash(&self, name: &str) -> Option<u64> {
        self.state.output_hashes.get(name).copied()
    }

    /// Sets the hash of an output file, to be stored by the next commit.
    pub fn keep_output_hash(&mut self, name: &str, hash: u64) {
        self.new_hashes.insert(name.into(), hash);
    }

    /// Whether [`record_created`](Self::record_created) recorded a file of this name.
    pub fn has_created(&self, name: &str) -> bool {
        self.state.created.contains(name)
    }

    /// Records a file as created by this crawl, so that `--fresh` removes it.
    pub fn record_created(&mut self, name: &str) -> Result<(), StoreError> {
        if self.state.created.insert(name.into()) {
            self.journal.append(&Record::Created { name })?;
        }
        Ok(())
    }

    /// The number of records stored with [`keep_line`](Self::keep_line).
    pub fn lines(&self) -> u64 {
        self.state.lines
    }

    /// Stores a record that does not belong to an outcome: start and end of a run, robots.txt, skipped links.
    pub fn keep_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        self.journal.append(&Record::Line { line })?;
        self.state.lines += 1;
        Ok(())
    }

    /// Appends the current notes, the lengths and hashes of the output files, and the names of created files to the log
    /// again. So they can be read without earlier log files.
    pub(super) fn rewrite_state(&mut self) -> Result<(), StoreError> {
        let mut positions: Vec<(u64, LaneId)> =
            self.state.notes.iter().map(|(lane, position)| (*position, *lane)).collect();
        positions.sort_unstable();
        // These notes are about a round, and `begin_round` has already written those of the new round.
        for (_, lane) in
            positions.into_iter().filter(|(_, lane)| ![ROUND_NOTE, REQUEUE_NOTE, REFETCH_NOTE].contains(lane))
        {
            if let Some(note) = self.read_note(lane)? {
                self.write_note(lane, &note)?;
            }
        }
        for (name, length) in &self.state.outputs {
            let hash = self.state.output_hashes.get(name).copied();
            self.journal.append(&Record::Output { length: *length, hash, name })?;
        }
        for name in &self.state.created {
            self.journal.append(&Record::Created { name })?;
        }
        Ok(())
    }

    /// Stores a note about a lane, replacing its previous note.
    pub fn write_note(&mut self, lane: LaneId, note: &[u8]) -> Result<(), StoreError> {
        let position = self.journal.append(&Record::Note { lane, note })?;
        self.state.notes.insert(lane, position);
        Ok(())
    }

    /// The last note about a lane.
    pub fn read_note(&mut self, lane: LaneId) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(&position) = self.state.notes.get(&lane) else { return Ok(None) };
        self.journal.read(position, |record| match record {
            Record::Note { note, .. } => Some(note.to_vec()),
            _ => None,
        })
    }

    /// Seals everything since the last commit, with the length of each output file that belongs to it. `None` if there
    /// is nothing to commit. The batch also has a portion of a snapshot when one is due.
    pub fn commit(&mut self, outputs: &[(&str, u64)]) -> Result<Option<CommitBatch>, StoreError> {
        self.seal(outputs, false)
    }

    /// Like [`Self::commit`], at the end of a run. Must be called until it returns `None`. These commits include a
    /// snapshot, so that the next run opens quickly, unless the log is short.
    pub fn commit_at_end(&mut self, outputs: &[(&str, u64)]) -> Result<Option<CommitBatch>, StoreError> {
        self.seal(outputs, true)
    }

    /// Makes a commit, as described at [`Self::commit`] and [`Self::commit_at_end`].
    fn seal(&mut self, outputs: &[(&str, u64)], at_end: bool) -> Result<Option<CommitBatch>, StoreError> {
        if let Some(chunk) = self.graph.take() {
            self.append_chunk(&chunk)?;
        }
        for &(name, length) in outputs {
            let is_new = self.state.outputs.get(name) != Some(&length);
            // Without a new hash, the stored one is valid only if the length is the same.
            let hash = match self.new_hashes.remove(name) {
                None if !is_new => self.state.output_hashes.get(name).copied(),
                hash => hash,
            };
            if is_new || self.state.output_hashes.get(name).copied() != hash {
                self.journal.append(&Record::Output { length, hash, name })?;
                self.state.outputs.insert(name.into(), length);
                match hash {
                    Some(hash) => self.state.output_hashes.insert(name.into(), hash),
                    None => self.state.output_hashes.remove(name),
                };
            }
        }
        if at_end {
            // Abandon a snapshot that was started earlier: it would leave a part of the log to replay.
            self.snapshots.in_progress.take_if(|in_progress| !in_progress.is_at_end);
        }
        // At the end a snapshot is taken even if nothing happened, unless the last one is recent enough.
        let is_old = self.journal.end().saturating_sub(self.snapshots.last_start) > self.snapshots.min_growth_at_end;
        let needs_snapshot = self.snapshots.in_progress.is_some() || is_old;
        if self.journal.is_empty() && !(at_end && needs_snapshot) {
            return Ok(None);
        }
        if self.journal.end() - self.last_size_check > self.state.check_interval() {
            self.last_size_check = self.journal.end();
            let other_bytes = self.earlier.bytes() + self.requeue.bytes();
            self.state.spill_if_full(other_bytes, self.snapshots.in_progress.is_some())?;
        }
        let (mut batch, mark) = self.journal.seal();
        let growth = mark.end.saturating_sub(self.snapshots.last_start);
        let usual_growth = self.snapshots.min_growth.max(self.snapshots.last_length / 2);
        let is_due = growth > if at_end { self.snapshots.min_growth_at_end } else { usual_growth };
        if is_due && self.snapshots.in_progress.is_none() {
            self.snapshots.last_portion.0 = mark.end;
            self.snapshots.in_progress = Some(SnapshotWriter::begin(self.crawl, mark, &self.state, at_end));
        }
        batch.snapshot = self.portion(mark)?.map(Arc::new);
        batch.completes_snapshot = batch.snapshot.as_ref().is_some_and(|portion| portion.completes.is_some());
        Ok(Some(batch))
    }

    /// The next portion of the snapshot in progress, if any. Portions are large and the disk may be slow, so only one
    /// is written at a time, except at the end of a run.
    fn portion(&mut self, mark: Mark) -> Result<Option<Portion>, StoreError> {
        let (before, is_pending) = self.snapshots.last_portion;
        let Some(in_progress) =
            self.snapshots.in_progress.as_mut().filter(|in_progress| in_progress.is_at_end || !is_pending)
        else {
            return Ok(None);
        };
        let wanted = mark.end.saturating_sub(before).saturating_mul(self.snapshots.portion_per_growth);
        let size = usize::try_from(wanted).unwrap_or(MAX_PORTION).min(MAX_PORTION).max(self.snapshots.min_portion);
        self.snapshots.last_portion = (mark.end, true);
        let leased = self.leased.values().map(|link| (link.lane, link.rank, link.position));
        let portion = in_progress.portion(size, mark, &self.state, leased)?;
        if portion.completes.is_some() {
            (self.snapshots.last_start, self.snapshots.last_length) = (in_progress.started_at, in_progress.length());
            self.snapshots.in_progress = None;
            let (end, retired) = self.snapshots.unacknowledged.get_or_insert_default();
            *end = mark.end;
            retired.extend(self.state.known.take_retired());
        }
        Ok(Some(portion))
    }

    /// Records that everything up to the end of this batch is durable.
    pub fn acknowledge(&mut self, batch: &CommitBatch) -> Result<(), StoreError> {
        let (last_portion, is_pending) = &mut self.snapshots.last_portion;
        *is_pending &= *last_portion > batch.end();
        let is_durable = |(end, _): &mut (u64, Vec<u32>)| batch.completes_snapshot && *end <= batch.end();
        if let Some((_, retired)) = self.snapshots.unacknowledged.take_if(is_durable) {
            // The earlier snapshot is replaced, so its run files are not needed any more.
            known::remove(&*self.files, &retired)?;
        }
        self.durable = self.durable.max(batch.end());
        self.has_completed_file |= batch.new_file_number.is_some();
        self.journal.acknowledge(batch.end())
    }

    /// Returns the compaction that is due, if any. One is due when the commit that begins a round is durable, and when
    /// a file of the log is complete.
    pub fn take_compaction(&mut self) -> Option<Compaction> {
        let rounds = self.rounds.take_if(|(start, _)| self.durable > *start);
        let keep_from = rounds.map(|(_, keep_from)| keep_from).filter(|from| self.journal.needs_compaction(*from));
        if !std::mem::take(&mut self.has_completed_file) && keep_from.is_none() {
            return None;
        }
        if let Some(keep_from) = keep_from {
            self.journal.forget_before(keep_from);
        }
        Some(Compaction { files: Arc::clone(&self.files), crawl: self.crawl, keep_from })
    }

    /// For tests: sets the log growth that starts a snapshot, during a run and at its end, and the portion size.
    #[doc(hidden)]
    pub fn set_snapshots(&mut self, min_growth: u64, min_growth_at_end: u64, min_portion: usize) {
        let snapshots = &mut self.snapshots;
        (snapshots.min_growth, snapshots.min_growth_at_end) = (min_growth, min_growth_at_end);
        (snapshots.min_portion, snapshots.portion_per_growth) = (min_portion, 0);
    }

    /// For tests: sets the size at which a new file of the log starts.
    #[doc(hidden)]
    pub fn set_max_file_size(&mut self, size: u64) {
        self.journal.set_max_file_size(size);
    }

    /// Approximate memory use in bytes, without commits being written.
    pub fn bytes(&self) -> usize {
        self.state.bytes()
            + self.graph.bytes()
            + self.earlier.bytes()
            + self.requeue.bytes()
            // The hash table has one byte of metadata per entry.
            + self.leased.capacity() * (size_of::<(u64, Leased)>() + 1)
    }

    /// The memory that grows with the number of hosts and cannot be spilled to disk: names, the entry of each queue,
    /// and the position of each lane's note.
    pub fn host_bytes(&self) -> usize {
        self.state.host_bytes()
    }

    /// Appends a chunk of the link graph to the journal.
    fn append_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        let position = self.journal.append(&Record::Edges { previous: self.last_chunk, chunk })?;
        self.last_chunk = Some(position);
        Ok(())
    }

    /// Queues a settled link again.
    pub(super) fn append_again(&mut self, lane: LaneId, link: LinkRef<'_>) -> Result<(), StoreError> {
        self.append_record(lane, link, None, true)?;
        self.state.settled -= 1;
        Ok(())
    }

    /// Queues a link that is new, or that replaces its earlier record.
    fn append_link(&mut self, lane: LaneId, link: LinkRef<'_>, replaces: Option<u64>) -> Result<(), StoreError> {
        self.append_record(lane, link, replaces, false)
    }

    /// Appends the record of a link to the journal, and queues it.
    fn append_record(
        &mut self,
        lane: LaneId,
        link: LinkRef<'_>,
        replaces: Option<u64>,
        again: bool,
    ) -> Result<(), StoreError> {
        let rest = after_host(link.url);
        let position = self.write_link(lane, link, rest, LinkChange { replaces, again, ..LinkChange::default() })?;
        self.state.queue(lane, link.rank(), position);
        self.queued += 1;
        Ok(())
    }

    /// Appends the record of a link. `rest` is the part of its URL after the name of the lane. Returns the position.
    pub(super) fn write_link(
        &mut self,
        lane: LaneId,
        link: LinkRef<'_>,
        rest: &str,
        change: LinkChange,
    ) -> Result<u64, StoreError> {
        let LinkChange { replaces, again, was_deferred } = change;
        let via = match (link.via, &self.page_written) {
            (None, _) => None,
            (Some(via), Some((url, position))) if url == via => Some(*position),
            (Some(via), _) => {
                let position = self.journal.append(&Record::Page { url: via.as_str() })?;
                self.page_written = Some((via.clone(), position));
                Some(position)
            }
        };
        let request = link.request.map(|request| request.encode());
        self.journal.append(&Record::Link(LinkRecord {
            lane,
            depth: link.depth,
            redirects: link.redirects,
            tries: link.tries,
            kind: link.kind,
            https: link.url.is_https(),
            via,
            replaces,
            again,
            was_deferred,
            request: request.as_deref(),
            rest,
        }))
    }

    /// Reads the link at a log position. Returns an error if there is no link, or if it belongs to another lane. `None`
    /// accepts any lane.
    pub(super) fn read_link(&mut self, lane: Option<LaneId>, position: u64) -> Result<Link, StoreError> {
        let wrong = |what: &str| damaged(&*self.files, FOLDER, &format!("position {position} does not hold a {what}"));
        let names = &self.state.names;
        let (mut link, via) = self
            .journal
            .read(position, |record| match record {
                Record::Link(record) if lane.is_none_or(|lane| record.lane == lane) => {
                    let host = names.name(record.lane)?;
                    let link = Link {
                        url: UrlRef::from_normal(&url_text(&record, host))?.to_url(),
                        via: None,
                        depth: record.depth,
                        redirects: record.redirects,
                        tries: record.tries,
                        kind: record.kind,
                        request: match record.request {
                            None => None,
                            Some(request) => Some(Arc::new(CustomRequest::decode(request)?)),
                        },
                    };
                    Some((link, record.via))
                }
                _ => None,
            })?
            .ok_or_else(|| wrong("link"))?;
        if let Some(via) = via {
            link.via = match &self.page_read {
                Some((position, url)) if *position == via => Some(url.clone()),
                _ => {
                    let page = self.journal.read(via, |record| match record {
                        Record::Page { url } => Some(UrlRef::from_normal(url)?.to_url()),
                        _ => None,
                    })?;
                    let page = page.ok_or_else(|| wrong("link whose page is known"))?;
                    self.page_read = Some((via, page.clone()));
                    Some(page)
                }
            };
        }
        Ok(link)
    }

    /// Removes a link from `leased` and returns it; an error if it is not leased.
    fn end_lease(&mut self, link: &Link) -> Result<Leased, StoreError> {
        let ended = self.leased.remove(&link.fingerprint(self.key));
        ended.ok_or_else(|| StoreError::new(StoreErrorKind::Misuse, format!("{} is not leased", link.url)))
    }
}

/// The URL of a link record, as text.
fn url_text(record: &LinkRecord<'_>, host: &str) -> String {
    [if record.https { "https://" } else { "http://" }, host, record.rest].concat()
}

impl Frontier for DiskFrontier {
    fn offer(&mut self, link: LinkRef<'_>) -> Result<Option<LaneId>, StoreError> {
        if !self.state.known.insert(link.fingerprint(self.key))? {
            return Ok(None);
        }
        let lane = self.lane_of(link.url.host())?;
        self.append_link(lane, link, None)?;
        Ok(Some(lane))
    }

    fn prefetch(&self, links: &mut dyn Iterator<Item = LinkRef<'_>>) {
        self.state.known.in_memory.prefetch(links.map(|link| link.fingerprint(self.key)));
    }

    fn is_known(&self, url: UrlRef<'_>, kind: LinkKind) -> Result<bool, StoreError> {
        self.state.known.contains(link_fingerprint(url, kind, self.key))
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        let mut links = Vec::new();
        while links.len() < max_links {
            let State { queues, storage, .. } = &mut self.state;
            let Some(queue) = queues.get_mut(lane.index()) else { break };
            let Some((rank, position)) = queue.pop(storage)? else { break };
            let link = self.read_link(Some(lane), position)?;
            self.leased.insert(link.fingerprint(self.key), Leased { lane, rank, position });
            self.queued -= 1;
            links.push(link);
        }
        Ok(links)
    }

    fn settle(&mut self, link: &Link, final_outcome: FinalOutcome<'_>) -> Result<(), StoreError> {
        let Leased { lane, position, .. } = self.end_lease(link)?;
        let FinalOutcome { outcome, status, record: line, .. } = final_outcome;
        self.journal.append(&Record::FinalOutcome { lane, link: position, outcome, status, line })?;
        self.state.settled += 1;
        Ok(())
    }

    fn give_back(&mut self, link: Link) -> Result<(), StoreError> {
        let Leased { lane, position, .. } = self.end_lease(&link)?;
        self.append_link(lane, LinkRef::from(&link), Some(position))
    }

    fn mark_sent(&mut self, link: &Link) -> Result<(), StoreError> {
        let Leased { lane, rank, position } = self.end_lease(link)?;
        let sent = Link { tries: ALREADY_SENT, ..link.clone() };
        let change = LinkChange { replaces: Some(position), ..LinkChange::default() };
        let position = self.write_link(lane, LinkRef::from(&sent), after_host(sent.url.as_ref()), change)?;
        self.leased.insert(link.fingerprint(self.key), Leased { lane, rank, position });
        Ok(())
    }

    fn put_back(&mut self, link: Link) -> Result<(), StoreError> {
        if self.snapshots.in_progress.is_some() {
            // The snapshot in progress may already contain the lane's queue without this link, and would lose it.
            return self.give_back(link);
        }
        let Leased { lane, rank, position } = self.end_lease(&link)?;
        // Creates the queue if the lane has none.
        self.state.queue_mut(lane);
        let State { queues, storage, .. } = &mut self.state;
        if let Some(queue) = queues.get_mut(lane.index()) {
            queue.insert(vec![(rank, position)], storage)?;
        }
        self.queued += 1;
        Ok(())
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        let (lane, is_new) = self.state.names.intern(host)?;
        if is_new {
            self.journal.append(&Record::Lane { name: host })?;
        }
        Ok(lane)
    }

    fn lane_name(&self, lane: LaneId) -> Option<&str> {
        self.state.names.name(lane)
    }

    fn has_lane(&self, host: &str) -> bool {
        self.state.names.find(host).is_some()
    }

    fn can_defer(&self) -> bool {
        true
    }

    fn defer(&mut self, link: LinkRef<'_>) -> Result<bool, StoreError> {
        self.defer_link(link)
    }

    fn deferred(&self) -> u64 {
        self.deferred_lane.map_or(0, |lane| self.queued_in(lane))
    }

    fn admit_deferred(&mut self, max_links: usize) -> Result<Vec<LaneId>, StoreError> {
        self.move_deferred(max_links)
    }

    fn queued_in(&self, lane: LaneId) -> u64 {
        self.state.queues.get(lane.index()).map_or(0, |queue| queue.len(&self.state.storage.chains))
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        let with_work = (0..).zip(self.state.queues.iter()).filter(|(_, queue)| !queue.is_empty());
        with_work.map(|(number, _)| LaneId(number)).filter(|lane| Some(*lane) != self.deferred_lane).collect()
    }

    fn keep_note(&mut self, about: Option<LaneId>, note: &[u8]) -> Result<(), StoreError> {
        self.write_note(about.unwrap_or(CRAWL_NOTES), note)
    }

    fn note(&mut self, about: Option<LaneId>) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_note(about.unwrap_or(CRAWL_NOTES))
    }

    fn is_recrawl(&self) -> bool {
        self.is_recrawl
    }

    fn earlier(&mut self, url: UrlRef<'_>, kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        self.earlier_record(url, kind)
    }

    fn keep_edges(&mut self, found: &FoundEdges<'_>) -> Result<(), StoreError> {
        let edges = found.links.texts();
        let edges = edges.map(|(target, kind, nofollow, anchor)| NewEdge { target, kind, nofollow, anchor });
        let with_texts = found.links.has_anchors();
        let chunk = self.graph.add(found.source.as_str(), found.is_sitemap, found.cut, edges, with_texts);
        chunk.map_or(Ok(()), |chunk| self.append_chunk(&chunk))
    }

    fn counts(&self) -> Counts {
        let (known, leased) = (self.state.known.len(), self.leased.len() as u64);
        Counts { known, queued: self.queued, leased, settled: self.state.settled }
    }
}
