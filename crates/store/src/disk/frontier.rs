//! [`DiskFrontier`]: the frontier of a crawl directory.
//!
//! Invariant: what the journal says, played from the beginning, gives exactly this state, apart from leases.

use super::directory::CrawlFile;
use super::fault::damaged;
use super::files::Files;
use super::journal::Journal;
use super::known;
use super::log::{Batch, FOLDER, LogReader, LogWriter};
use super::record::{LinkRecord, Record};
use super::snapshot::{self, State};
use super::spill;
use crate::memory::behind_host;
use argiope_core::frontier::seen_key;
use argiope_core::{Counts, Fate, Frontier, LaneId, Link, LinkKind, LinkRef, StoreError, StoreErrorKind, Url, UrlRef};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A snapshot is due when the log has grown by this much since the last one, and by half of that one's length: so
/// opening reads little of the log, and snapshots cost less than the log itself.
const SNAPSHOT_AFTER: u64 = 16 << 20;

/// While the log is played, so many links leave their queues together.
const TAKEN_OUT_TOGETHER: usize = 1 << 18;

/// No lane has this number: notes under it are about the crawl itself.
const THE_CRAWL: LaneId = LaneId(u32::MAX);
/// Nor this one: the note under it is where in the log the last round began.
pub(super) const THE_ROUND: LaneId = LaneId(u32::MAX - 1);

/// A frontier whose every commit lasts.
pub struct DiskFrontier {
    files: Arc<dyn Files>,
    crawl: u64,
    key: u64,
    state: State,
    queued: u64,
    leased: HashMap<u64, Leased>,
    pub(super) journal: Journal,
    /// Where the fates of the round before are, by the fingerprints of their links.
    pub(super) earlier: HashMap<u64, u64>,
    /// Whether there was a round before.
    pub(super) is_again: bool,
    /// The page that was written to the journal last: links found on it refer to it.
    page_written: Option<(Url, u64)>,
    /// The page that was read last: the links of a page are taken in a row.
    page_read: Option<(u64, Url)>,
    snapshots: Snapshots,
    /// Where the log ended when memory was looked at last.
    weighed: u64,
}

#[derive(Clone, Copy)]
struct Leased {
    lane: LaneId,
    depth: u32,
    position: u64,
}

/// When the last snapshot was taken, and whether it is still on its way.
#[derive(Default)]
struct Snapshots {
    at: u64,
    length: u64,
    /// Where the frame ends that it comes into force with, and the runs that nobody speaks of then.
    on_its_way: Option<(u64, Vec<u32>)>,
}

/// What opening had to do.
pub(super) struct Recovered {
    pub frontier: DiskFrontier,
    pub writer: LogWriter,
    /// For people: what was found to be amiss, and put right.
    pub notes: Vec<String>,
}

impl DiskFrontier {
    /// Begins a log.
    pub(super) fn create(files: Arc<dyn Files>, file: CrawlFile, room: usize) -> Result<(Self, LogWriter), StoreError> {
        let (crawl, key) = (file.crawl, file.key);
        snapshot::remove(&*files)?;
        let mut state = State::new(&files, crawl, room);
        spill::clear_away(&*files)?;
        state.known.clear_away()?;
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
            state,
            leased: HashMap::new(),
            earlier: HashMap::new(),
            is_again: false,
            page_written: None,
            page_read: None,
            snapshots: Snapshots::default(),
            weighed: end,
        }
    }

    /// Goes on with a log: snapshot, then the frames behind it; what is torn is cut off.
    pub(super) fn open(files: Arc<dyn Files>, crawl: u64, key: u64, room: usize) -> Result<Recovered, StoreError> {
        let (log, unused) = LogReader::open(Arc::clone(&files), crawl)?;
        let mut notes = Vec::new();
        spill::clear_away(&*files)?;
        let mut loaded = snapshot::read(&files, crawl, room)?;
        if let Some(found) = &loaded
            && !log.has_frame(found.mark.frame, found.mark.end, found.mark.checksum)?
        {
            notes.push("the snapshot speaks of commits that the log does not have; it was set aside".to_owned());
            loaded = None;
        }
        let (from, mut state, length) = match loaded {
            Some(loaded) => (loaded.mark.end, loaded.state, loaded.length),
            None => (LogReader::FIRST, State::new(&files, crawl, room), 0),
        };
        if length == 0 {
            snapshot::remove(&*files)?;
        }
        state.known.clear_away()?;
        let mut replay =
            Replay { key, files: &*files, gone: HashMap::new(), settled: 0, weighed: from, text: String::new() };
        let tail = log.walk(from, |position, record| replay.play(&mut state, position, record))?;
        replay.take_out(&mut state)?;
        if tail.torn > 0 {
            notes.push(format!("{} bytes of a commit that was never finished were cut off", tail.torn));
        }
        let writer = log.writer(&tail, unused)?;
        let mut frontier = Self::new(files, crawl, key, state, log, tail.end);
        frontier.snapshots = Snapshots { at: from, length, on_its_way: None };
        let Counts { known, queued, settled, .. } = frontier.counts();
        if known != queued + settled {
            let what = format!("{known} addresses are known, but {queued} are queued and {settled} settled");
            return Err(damaged(&*frontier.files, FOLDER, &what));
        }
        frontier.recall_round()?;
        Ok(Recovered { frontier, writer, notes })
    }

    /// The key of the fingerprints.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Up to where each output file is part of the crawl.
    pub fn outputs(&self) -> &BTreeMap<Box<str>, u64> {
        &self.state.outputs
    }

    /// How many lines were kept that are no fates.
    pub fn lines(&self) -> u64 {
        self.state.lines
    }

    /// Keeps a record that is no fate: a run's beginning and end, robots.txt, what was skipped.
    pub fn keep_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        self.journal.append(&Record::Line { line })?;
        self.state.lines += 1;
        Ok(())
    }

    /// Keeps what a lane wants to know in the next run, in place of what it said before.
    pub fn keep_lane_state(&mut self, lane: LaneId, state: &[u8]) -> Result<(), StoreError> {
        let position = self.journal.append(&Record::LaneState { lane, state })?;
        self.state.lane_states.insert(lane, position);
        Ok(())
    }

    /// What a lane said last.
    pub fn lane_state(&mut self, lane: LaneId) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(&position) = self.state.lane_states.get(&lane) else { return Ok(None) };
        self.journal.read(position, |record| match record {
            Record::LaneState { state, .. } => Some(state.to_vec()),
            _ => None,
        })
    }

    /// Seals all that happened since the last commit, with the length of each output file whose bytes belong to it.
    /// `None` where nothing happened. A snapshot comes with it when one is due.
    pub fn commit(&mut self, outputs: &[(&str, u64)]) -> Result<Option<Batch>, StoreError> {
        self.seal(outputs, false)
    }

    /// The last commit of a run: with a snapshot, so that the next one opens at once.
    pub fn commit_at_end(&mut self, outputs: &[(&str, u64)]) -> Result<Option<Batch>, StoreError> {
        self.seal(outputs, true)
    }

    fn seal(&mut self, outputs: &[(&str, u64)], at_end: bool) -> Result<Option<Batch>, StoreError> {
        for &(name, position) in outputs {
            if self.state.outputs.get(name) != Some(&position) {
                self.journal.append(&Record::Output { position, name })?;
                self.state.outputs.insert(name.into(), position);
            }
        }
        // At the end a frame without records serves, where there is no snapshot of the last one.
        let stale = at_end && self.journal.end() > self.snapshots.at;
        if self.journal.is_empty() && !stale {
            return Ok(None);
        }
        if self.journal.end() - self.weighed > self.state.patience() {
            self.weighed = self.journal.end();
            self.state.make_room()?;
        }
        let (mut batch, mark) = self.journal.seal();
        let grown = mark.end.saturating_sub(self.snapshots.at);
        let due = at_end || grown > SNAPSHOT_AFTER.max(self.snapshots.length / 2);
        if due && self.snapshots.on_its_way.is_none() {
            let leased: Vec<_> = self.leased.values().map(|link| (link.lane, link.depth, link.position)).collect();
            self.snapshots.length = snapshot::write(&*self.files, self.crawl, mark, &self.state, &leased)?;
            self.snapshots.at = mark.end;
            self.snapshots.on_its_way = Some((mark.end, self.state.known.retire()));
            batch.snapshot = Some(self.state.known.runs.iter().map(|run| run.number).collect());
        }
        Ok(Some(batch))
    }

    /// Everything up to the end of this batch is durable.
    pub fn acknowledge(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if let Some((_, retired)) = self.snapshots.on_its_way.take_if(|(end, _)| *end <= batch.end()) {
            known::remove(&*self.files, &retired)?;
        }
        self.journal.acknowledge(batch.end())
    }

    /// For tests: begin a new file of the log at this size.
    #[doc(hidden)]
    pub fn set_full_file(&mut self, size: u64) {
        self.journal.set_full_file(size);
    }

    /// The bytes of memory that it holds, roughly, beside commits on their way.
    pub fn bytes(&self) -> usize {
        self.state.bytes()
    }

    /// A settled link is queued again.
    pub(super) fn append_again(&mut self, lane: LaneId, link: LinkRef<'_>) -> Result<(), StoreError> {
        self.append_record(lane, link, None, true)?;
        self.state.settled -= 1;
        Ok(())
    }

    fn append_link(&mut self, lane: LaneId, link: LinkRef<'_>, replaces: Option<u64>) -> Result<(), StoreError> {
        self.append_record(lane, link, replaces, false)
    }

    fn append_record(
        &mut self,
        lane: LaneId,
        link: LinkRef<'_>,
        replaces: Option<u64>,
        again: bool,
    ) -> Result<(), StoreError> {
        let via = match (link.via, &self.page_written) {
            (None, _) => None,
            (Some(via), Some((url, position))) if url == via => Some(*position),
            (Some(via), _) => {
                let position = self.journal.append(&Record::Page { url: via.as_str() })?;
                self.page_written = Some((via.clone(), position));
                Some(position)
            }
        };
        let position = self.journal.append(&Record::Link(LinkRecord {
            lane,
            depth: link.depth,
            redirects: link.redirects,
            tries: link.tries,
            kind: link.kind,
            https: link.url.is_https(),
            via,
            replaces,
            again,
            rest: behind_host(link.url),
        }))?;
        self.state.queue(lane, link.depth, position);
        self.queued += 1;
        Ok(())
    }

    pub(super) fn read_link(&mut self, lane: LaneId, position: u64) -> Result<Link, StoreError> {
        let wrong = |what: &str| damaged(&*self.files, FOLDER, &format!("position {position} holds no {what}"));
        let host = self.state.names.name(lane).unwrap_or("");
        let (mut link, via) = self
            .journal
            .read(position, |record| match record {
                Record::Link(record) if record.lane == lane => {
                    let link = Link {
                        url: UrlRef::from_normal(&address(&record, host))?.to_url(),
                        via: None,
                        depth: record.depth,
                        redirects: record.redirects,
                        tries: record.tries,
                        kind: record.kind,
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

    fn end_lease(&mut self, link: &Link) -> Result<Leased, StoreError> {
        let ended = self.leased.remove(&seen_key(link.url.as_ref(), link.kind, self.key));
        ended.ok_or_else(|| StoreError::new(StoreErrorKind::Misuse, format!("{} is not leased", link.url)))
    }
}

fn address(record: &LinkRecord<'_>, host: &str) -> String {
    [if record.https { "https://" } else { "http://" }, host, record.rest].concat()
}

impl Frontier for DiskFrontier {
    fn offer(&mut self, link: LinkRef<'_>) -> Result<Option<LaneId>, StoreError> {
        if !self.state.known.insert(seen_key(link.url, link.kind, self.key))? {
            return Ok(None);
        }
        let lane = self.lane_of(link.url.host())?;
        self.append_link(lane, link, None)?;
        Ok(Some(lane))
    }

    fn is_known(&self, url: UrlRef<'_>, kind: LinkKind) -> Result<bool, StoreError> {
        self.state.known.contains(seen_key(url, kind, self.key))
    }

    fn take(&mut self, lane: LaneId, room: usize) -> Result<Vec<Link>, StoreError> {
        let mut links = Vec::new();
        while links.len() < room {
            let State { queues, shelf, .. } = &mut self.state;
            let Some(queue) = queues.get_mut(lane.index()) else { break };
            let Some((depth, position)) = queue.pop(shelf)? else { break };
            let link = self.read_link(lane, position)?;
            let fingerprint = seen_key(link.url.as_ref(), link.kind, self.key);
            self.leased.insert(fingerprint, Leased { lane, depth, position });
            self.queued -= 1;
            links.push(link);
        }
        Ok(links)
    }

    fn settle(&mut self, link: &Link, fate: Fate<'_>) -> Result<(), StoreError> {
        let Leased { lane, position, .. } = self.end_lease(link)?;
        let Fate { outcome, status, record: line } = fate;
        self.journal.append(&Record::Fate { lane, link: position, outcome, status, line })?;
        self.state.settled += 1;
        Ok(())
    }

    fn give_back(&mut self, link: Link) -> Result<(), StoreError> {
        let Leased { lane, position, .. } = self.end_lease(&link)?;
        self.append_link(lane, LinkRef::from(&link), Some(position))
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        let (lane, new) = self.state.names.intern(host)?;
        if new {
            self.journal.append(&Record::Lane { name: host })?;
        }
        Ok(lane)
    }

    fn lane_name(&self, lane: LaneId) -> Option<&str> {
        self.state.names.name(lane)
    }

    fn queued_in(&self, lane: LaneId) -> u64 {
        self.state.queues.get(lane.index()).map_or(0, |queue| queue.len(&self.state.shelf.chains))
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        let with_work = (0..).zip(&self.state.queues).filter(|(_, queue)| !queue.is_empty());
        with_work.map(|(number, _)| LaneId(number)).collect()
    }

    fn keep_note(&mut self, about: Option<LaneId>, note: &[u8]) -> Result<(), StoreError> {
        self.keep_lane_state(about.unwrap_or(THE_CRAWL), note)
    }

    fn note(&mut self, about: Option<LaneId>) -> Result<Option<Vec<u8>>, StoreError> {
        self.lane_state(about.unwrap_or(THE_CRAWL))
    }

    fn is_again(&self) -> bool {
        self.is_again
    }

    fn earlier(&mut self, url: UrlRef<'_>, kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        self.earlier_record(url, kind)
    }

    fn counts(&self) -> Counts {
        let (known, leased) = (self.state.known.len(), self.leased.len() as u64);
        Counts { known, queued: self.queued, leased, settled: self.state.settled }
    }
}

/// Plays records onto a state. Links that leave their queue are noted, and taken out together.
struct Replay<'a> {
    key: u64,
    files: &'a dyn Files,
    gone: HashMap<LaneId, HashSet<u64>>,
    /// How many are gone and not taken out yet.
    settled: usize,
    /// Where in the log memory was looked at last.
    weighed: u64,
    text: String,
}

impl Replay<'_> {
    fn play(&mut self, state: &mut State, position: u64, record: Record<'_>) -> Result<(), StoreError> {
        if self.settled >= TAKEN_OUT_TOGETHER {
            self.take_out(state)?;
        }
        if position - self.weighed > state.patience() {
            self.weighed = position;
            state.make_room()?;
        }
        match record {
            Record::Lane { name } => {
                state.names.intern(name)?;
            }
            Record::Link(link) => {
                let Some(host) = state.names.name(link.lane) else {
                    return Err(damaged(self.files, FOLDER, "a link has a lane that nobody named"));
                };
                match link.replaces {
                    Some(earlier) => {
                        self.leaves(link.lane, earlier);
                    }
                    None if link.again => {
                        let Some(settled) = state.settled.checked_sub(1) else {
                            return Err(damaged(self.files, FOLDER, "more is queued again than was settled"));
                        };
                        state.settled = settled;
                    }
                    None => {
                        self.text.clear();
                        self.text.push_str(if link.https { "https://" } else { "http://" });
                        self.text.push_str(host);
                        self.text.push_str(link.rest);
                        let Some(url) = UrlRef::from_normal(&self.text) else {
                            return Err(damaged(self.files, FOLDER, "a link is no address"));
                        };
                        state.known.insert(seen_key(url, link.kind, self.key))?;
                    }
                }
                state.queue(link.lane, link.depth, position);
            }
            Record::Fate { lane, link, .. } => {
                self.leaves(lane, link);
                state.settled += 1;
            }
            Record::LaneState { lane, .. } => {
                state.lane_states.insert(lane, position);
            }
            Record::Output { position, name } => {
                state.outputs.insert(name.into(), position);
            }
            Record::Line { .. } => state.lines += 1,
            Record::Page { .. } => {}
        }
        Ok(())
    }

    fn leaves(&mut self, lane: LaneId, position: u64) {
        self.gone.entry(lane).or_default().insert(position);
        self.settled += 1;
    }

    fn take_out(&mut self, state: &mut State) -> Result<(), StoreError> {
        self.settled = 0;
        for (lane, gone) in self.gone.drain() {
            let mut queue = std::mem::take(state.queue_mut(lane));
            queue.remove(gone, &mut state.shelf)?;
            *state.queue_mut(lane) = queue;
        }
        Ok(())
    }
}
