//! [`DiskFrontier`]: the frontier of a crawl directory.
//!
//! Invariant: replaying the log from the beginning gives exactly this state, apart from leases.

mod commits;
mod deferred;
mod links;
mod round;

pub use self::round::{Requeued, UnreachedLinks};

use self::commits::Snapshots;
use self::links::LinkChange;
use self::round::{EarlierOutcomes, Requeue};
use super::crawl_file::CrawlFile;
use super::fault::damaged;
use super::files::Files;
use super::graph_codec::{GraphEncoder, NewEdge};
use super::journal::Journal;
use super::log::{FOLDER, LogReader, LogWriter};
use super::record::{CRAWL_NOTES, DEFERRED, REFETCH_NOTE, REQUEUE_NOTE, ROUND_NOTE, Record};
use super::replay::LogReplay;
use super::snapshot_file;
use super::snapshot_reader::{self, QueuePositions};
use super::spill;
use super::state::State;
use crate::link_codec::after_host;
use argiope_core::base::link::ALREADY_SENT;
use argiope_core::crawl::schedule::frontier::{
    CrawlEvent, FrontierNews, NewHosts, News, Placement, QueuedLane, ReturnTo, SettledSubject, Settlement, Standing,
};
use argiope_core::{
    Counts, FinalOutcome, FoundEdges, Frontier, History, LaneId, Link, LinkKind, LinkRef, StoreError, StoreErrorKind,
    Time, Url, UrlRef,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A frontier with durable commits.
pub struct DiskFrontier {
    files: Arc<dyn Files>,
    /// The id of the crawl, which is the seed of all checksums.
    crawl: u64,
    /// The key of the fingerprints.
    key: u64,
    state: State,
    queued: u64,
    /// The lane of deferred links, if there have been any.
    deferred_lane: Option<LaneId>,
    /// Lanes that got deferred links, and that `news` has not reported yet.
    admitted: Vec<LaneId>,
    /// The links that were taken and not settled, by fingerprint.
    leased: HashMap<u64, Leased>,
    journal: Journal,
    /// Log positions of the outcomes of the previous round, by the fingerprints of their links.
    earlier: EarlierOutcomes,
    /// The links of this round that are not queued again yet.
    requeue: Requeue,
    /// Whether there was a previous round.
    is_recrawl: bool,
    /// The page that was last written to the journal, and its position. Links found on it refer to this position.
    page_written: Option<(Url, u64)>,
    /// The page that was last read from the log, cached because consecutive links are usually from the same page.
    page_read: Option<(u64, Url)>,
    /// The log positions of the start of the last round and of the round before it. Log entries before both can be
    /// compacted. `None` in the first round, and once `take_compaction` has taken them.
    rounds: Option<(u64, u64)>,
    /// Hashes of output files, to be stored with the next commit.
    new_hashes: HashMap<Box<str>, u64>,
    /// Links of pages that are not in the journal yet.
    graph: GraphEncoder,
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
        snapshot_file::remove(&*files)?;
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
            admitted: Vec::new(),
            is_recrawl: false,
            page_written: None,
            page_read: None,
            rounds: None,
            new_hashes: HashMap::new(),
            graph: GraphEncoder::new(key),
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
        let mut loaded = snapshot_reader::read(&files, crawl, memory_limit)?;
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
            snapshot_file::remove(&*files)?
        } else {
            snapshot_file::remove_leftovers(&*files)?
        }
        state.known.remove_leftovers()?;
        let mut replay = LogReplay::new(&*files, key, included, from);
        let tail = log.walk(from, |position, record| replay.apply(&mut state, position, record))?;
        replay.remove_collected(&mut state)?;
        if tail.torn_bytes > 0 {
            messages.push(format!("{} bytes of an unfinished commit were truncated", tail.torn_bytes));
        }
        let writer = log.writer(&tail, unused)?;
        let mut frontier = Self::new(files, crawl, key, state, log, tail.end);
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

    /// Stores a record that belongs to no link: start and end of a run, robots.txt, skipped links.
    pub fn keep_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        self.journal.append(&Record::Line { line })?;
        self.state.lines += 1;
        Ok(())
    }

    /// Appends the current notes, the lengths and hashes of the output files, and the names of created files to the log
    /// again. So they can be read without earlier log files.
    fn rewrite_state(&mut self) -> Result<(), StoreError> {
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

    /// Stores the links of a page in the link graph. They replace the page's earlier links.
    pub fn keep_edges(&mut self, found: &FoundEdges<'_>) -> Result<(), StoreError> {
        let edges = found.links.texts();
        let edges = edges.map(|(target, kind, nofollow, anchor)| NewEdge { target, kind, nofollow, anchor });
        let with_texts = found.links.has_anchors();
        let chunk = self.graph.add(found.source.as_str(), found.is_sitemap, found.cut, edges, with_texts);
        chunk.map_or(Ok(()), |chunk| self.append_chunk(&chunk))
    }

    /// Queues a new link in the lane of its host, or without a lane.
    fn add_link(&mut self, link: LinkRef<'_>, new_hosts: NewHosts) -> Result<Placement, StoreError> {
        let host = link.url.host();
        if new_hosts == NewHosts::AreDeferred && self.state.names.find(host).is_none() {
            self.defer(link)?;
            return Ok(Placement::Deferred);
        }
        let lane = self.lane_of(host)?;
        self.append_link(lane, link, None)?;
        Ok(Placement::Queued(lane))
    }

    /// Records that the request of a leased link is sent.
    fn mark_sent(&mut self, link: &Link) -> Result<(), StoreError> {
        let Leased { lane, rank, position } = self.end_lease(link)?;
        let sent = Link { tries: ALREADY_SENT, ..link.clone() };
        let change = LinkChange { replaces: Some(position), ..LinkChange::default() };
        let position = self.write_link(lane, LinkRef::from(&sent), after_host(sent.url.as_ref()), change)?;
        self.leased.insert(link.fingerprint(self.key), Leased { lane, rank, position });
        Ok(())
    }

    /// How many links of a lane are queued.
    fn queue_length(&self, lane: LaneId) -> u64 {
        self.state.queues.get(lane.index()).map_or(0, |queue| queue.len(&self.state.storage.chains))
    }

    /// Removes a link from `leased` and returns it; an error if it is not leased.
    fn end_lease(&mut self, link: &Link) -> Result<Leased, StoreError> {
        let ended = self.leased.remove(&link.fingerprint(self.key));
        ended.ok_or_else(|| StoreError::new(StoreErrorKind::Misuse, format!("{} is not leased", link.url)))
    }
}

impl Frontier for DiskFrontier {
    fn put(
        &mut self,
        links: &[LinkRef<'_>],
        new_hosts: NewHosts,
        admit: &mut dyn FnMut(usize, Standing) -> bool,
    ) -> Result<Vec<Placement>, StoreError> {
        let fingerprints: Vec<u64> = links.iter().map(|link| link.fingerprint(self.key)).collect();
        self.state.known.in_memory.prefetch(fingerprints.iter().copied());
        let mut placements = Vec::with_capacity(links.len());
        for (index, (link, fingerprint)) in links.iter().zip(fingerprints).enumerate() {
            let is_known = self.state.known.contains(fingerprint)?;
            let is_admitted = admit(index, if is_known { Standing::Known } else { Standing::New });
            placements.push(if is_known || !is_admitted {
                Placement::NotAdded
            } else {
                self.state.known.insert(fingerprint)?;
                self.add_link(*link, new_hosts)?
            });
        }
        Ok(placements)
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

    fn settle(&mut self, batch: &mut [Settlement<'_>]) -> Result<(), StoreError> {
        for Settlement { subject, edges, .. } in batch {
            if let Some(found) = edges {
                self.keep_edges(found)?;
            }
            match *subject {
                SettledSubject::Link(link, FinalOutcome { outcome, status, record: line, .. }) => {
                    let Leased { lane, position, .. } = self.end_lease(link)?;
                    self.journal.append(&Record::FinalOutcome { lane, link: position, outcome, status, line })?;
                    self.state.settled += 1;
                }
                SettledSubject::Line(line) => self.keep_line(line)?,
            }
        }
        Ok(())
    }

    fn give_back(&mut self, links: Vec<Link>, to: ReturnTo) -> Result<(), StoreError> {
        for link in links {
            let Leased { lane, rank, position } = self.end_lease(&link)?;
            // A snapshot in progress may already contain the lane's queue without this link, and would lose it.
            if to == ReturnTo::End || self.snapshots.in_progress.is_some() {
                self.append_link(lane, LinkRef::from(&link), Some(position))?;
                continue;
            }
            // Creates the queue if the lane has none.
            self.state.queue_mut(lane);
            let State { queues, storage, .. } = &mut self.state;
            if let Some(queue) = queues.get_mut(lane.index()) {
                queue.insert(vec![(rank, position)], storage)?;
            }
            self.queued += 1;
        }
        Ok(())
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        let (lane, is_new) = self.state.names.intern(host)?;
        if is_new {
            self.journal.append(&Record::Lane { name: host })?;
        }
        Ok(lane)
    }

    fn lane(&self, lane: LaneId) -> Option<QueuedLane<'_>> {
        Some(QueuedLane { name: self.state.names.name(lane)?, queued: self.queue_length(lane) })
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        let with_work = (0..).zip(self.state.queues.iter()).filter(|(_, queue)| !queue.is_empty());
        with_work.map(|(number, _)| LaneId(number)).filter(|lane| Some(*lane) != self.deferred_lane).collect()
    }

    fn counts(&self) -> Counts {
        let (known, leased) = (self.state.known.len(), self.leased.len() as u64);
        let deferred = self.deferred_lane.map_or(0, |lane| self.queue_length(lane));
        Counts { known, queued: self.queued, leased, settled: self.state.settled, deferred }
    }

    fn tell(&mut self, event: CrawlEvent<'_>) -> Result<(), StoreError> {
        match event {
            CrawlEvent::Sending(link) => self.mark_sent(link),
            CrawlEvent::RoomForHosts(max_links) => self.move_deferred(max_links),
            CrawlEvent::Started(_) | CrawlEvent::AttemptFailed { .. } | CrawlEvent::Left(_) => Ok(()),
        }
    }

    fn news(&mut self, _now: Time) -> Result<News, StoreError> {
        let lanes = std::mem::take(&mut self.admitted);
        Ok(News { events: lanes.into_iter().map(FrontierNews::Work).collect(), ..News::default() })
    }
}

impl History for DiskFrontier {
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
}
