//! The writer threads, which make commits durable, one after the other.
//!
//! A commit covers a tenth of a second or a few hundred pages. The keeper puts it into a `CommitUnit`: the settled
//! visits with the bytes that they add to output files, and the frontier's sealed frame, which contains the length of
//! each output file as of this commit. Two threads process it in turn. The first, the outputs thread,
//!
//! 1. appends the bytes to their files and syncs them.
//!
//! The second, the writer thread,
//!
//! 2. writes and syncs the frame: from here on the commit is durable,
//! 3. tells the keeper,
//! 4. passes the visits to the consumer, so that everything printed or streamed is durable.
//!
//! So the outputs of a commit are synced while the frame of the previous commit is synced. On a slow disk, this doubles
//! the rate of commits. A crawl without output files has one sync per commit, and one commit in progress.
//!
//! After a crash, the output files are truncated to the lengths in the last frame. So delivered records are neither
//! lost nor duplicated.
//!
//! Invariant: when a commit starts, an output file holds exactly the bytes of all commits before it. So the keeper
//! knows all positions in output files in advance.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use argiope_core::Time;
use argiope_core::schedule::frontier::{Frontier, StoreError, StoreErrorKind};
use argiope_core::schedule::keeper::{ArchiveChunk, Settled};
use argiope_store::MemoryFrontier;
pub use argiope_store::disk::CommitBatch;
use argiope_store::disk::{Compaction, DiskFrontier, File, Files, Lock, LogWriter, OutputHash};

use crate::error::Error;
use crate::keeper_thread::{KeeperMessage, VisitConsumer};

/// A commit is due this long after its first event.
const COMMIT_AFTER: Duration = Duration::from_millis(100);
/// A commit is due after this many visits.
const COMMIT_VISITS: usize = 256;
/// A commit is due after about this many bytes, or fewer with a low memory limit.
const COMMIT_BYTES: usize = 4 << 20;
/// A commit is due after the memory limit divided by this, if that is less than [`COMMIT_BYTES`].
const COMMIT_PART: u64 = 64;
/// The lower bound of the bytes after which a commit is due.
const MIN_COMMIT_BYTES: usize = 256 << 10;
/// Maximum number of commits in progress, one for each thread. While there are this many, further events are added to
/// the next commit. So on a slow disk, a crash loses the events of two syncs.
const MAX_IN_PROGRESS: usize = 2;
/// Backpressure: no request starts while at least this many visits are not durable. The limit is higher if the visits
/// of [`OUTSTANDING_TIME`], or of the syncs of a commit and one more sync, are more.
const MAX_OUTSTANDING: usize = 512;
/// See [`MAX_OUTSTANDING`]. Also the window in which visits are counted.
const OUTSTANDING_TIME: Duration = Duration::from_millis(100);
/// Backpressure: if the next commit grows to this many times its usual size, the keeper blocks until the writer takes
/// it.
const MAX_GROWTH: usize = 8;
/// The maximum number of queued commits without a crawl directory, where commits are small.
const MAX_QUEUED: usize = 64;

/// A frontier whose commits may be durable.
pub trait CommitFrontier: Frontier {
    /// Seals the events since the last commit, with the length of each output file.
    fn commit(&mut self, _outputs: &[(&str, u64)], _last: bool) -> Result<Option<CommitBatch>, StoreError> {
        Ok(None)
    }

    /// A commit is durable.
    fn acknowledge(&mut self, _batch: &CommitBatch) -> Result<(), StoreError> {
        Ok(())
    }

    /// The end of the log, including records that are not committed yet.
    fn log_end(&self) -> u64 {
        0
    }

    /// Everything up to this position of the log is durable.
    fn durable_end(&self) -> u64 {
        u64::MAX
    }

    /// Sets the hash that an output file has as of the next commit.
    fn keep_output_hash(&mut self, _name: &str, _hash: u64) {}

    /// The compaction that is due now, if any. It may run on any thread, concurrently with the crawl.
    fn take_compaction(&mut self) -> Option<Compaction> {
        None
    }

    /// Approximate memory use.
    fn bytes(&self) -> usize {
        0
    }

    /// The memory that grows with the number of hosts and cannot be spilled to disk.
    fn host_bytes(&self) -> usize {
        0
    }

    /// Stores a record that does not belong to a page.
    fn keep_line(&mut self, _line: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
}

impl CommitFrontier for MemoryFrontier {
    fn bytes(&self) -> usize {
        MemoryFrontier::bytes(self)
    }

    fn host_bytes(&self) -> usize {
        MemoryFrontier::host_bytes(self)
    }
}

/// A fleet's frontier commits on threads of its own.
#[cfg(feature = "fleet")]
impl CommitFrontier for argiope_store::cluster::FleetFrontier {
    fn keep_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        argiope_store::cluster::FleetFrontier::keep_line(self, line);
        Ok(())
    }

    fn log_end(&self) -> u64 {
        self.marks()
    }

    fn durable_end(&self) -> u64 {
        self.durable_marks()
    }
}

impl CommitFrontier for DiskFrontier {
    fn commit(&mut self, outputs: &[(&str, u64)], last: bool) -> Result<Option<CommitBatch>, StoreError> {
        if last { self.commit_at_end(outputs) } else { DiskFrontier::commit(self, outputs) }
    }

    fn acknowledge(&mut self, batch: &CommitBatch) -> Result<(), StoreError> {
        DiskFrontier::acknowledge(self, batch)
    }

    fn log_end(&self) -> u64 {
        DiskFrontier::log_end(self)
    }

    fn durable_end(&self) -> u64 {
        DiskFrontier::durable_end(self)
    }

    fn keep_output_hash(&mut self, name: &str, hash: u64) {
        DiskFrontier::keep_output_hash(self, name, hash);
    }

    fn take_compaction(&mut self) -> Option<Compaction> {
        DiskFrontier::take_compaction(self)
    }

    fn bytes(&self) -> usize {
        DiskFrontier::bytes(self)
    }

    fn host_bytes(&self) -> usize {
        DiskFrontier::host_bytes(self)
    }

    fn keep_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        DiskFrontier::keep_line(self, line.strip_suffix(b"\n").unwrap_or(line))
    }
}

/// The outputs of a crawl. The default is none.
#[derive(Default)]
pub struct OutputTarget {
    pub folder: Option<LockedDirectory>,
    /// The output file for all records.
    pub jsonl: Option<OutputFile>,
    /// The first record of a run. If set, the run also ends with a record.
    pub first_line: Option<Vec<u8>>,
}

/// An output file that is being continued.
#[derive(Debug)]
pub struct OutputFile {
    /// Its name in the crawl directory, or its absolute path elsewhere.
    pub name: Box<str>,
    /// The hash of its content.
    pub hash: OutputHash,
}

/// A crawl directory whose lock is held.
pub struct LockedDirectory {
    pub log: LogWriter,
    pub files: Arc<dyn Files>,
    /// The committed lengths of the output files.
    pub outputs: BTreeMap<Box<str>, u64>,
    /// The lock of the directory, held until the last commit.
    pub lock: Option<Lock>,
}

/// The contents of one commit: its items in the order in which they were settled, and its frame.
struct CommitUnit {
    items: Vec<Item>,
    batch: Option<CommitBatch>,
}

enum Item {
    /// A record that does not belong to a visit.
    Line(Vec<u8>),
    Visit(Settled),
}

/// The keeper's side of the writer: collects events, and sends them to the writer when a commit is due.
pub struct CommitQueue {
    to_writer: Option<SyncSender<CommitUnit>>,
    writer: WriterThread,
    items: Vec<Item>,
    bytes: usize,
    /// A commit is due after about this many bytes.
    commit_bytes: usize,
    /// The time of the first event that is not sent yet.
    since: Option<Time>,
    /// Commits that were sent and are not durable yet.
    in_progress: usize,
    progress: CommitProgress,
    jsonl: Option<OutputFile>,
    /// The length of each output file including everything collected.
    ends: BTreeMap<Box<str>, u64>,
    /// The first commit, until [`CommitQueue::wake`] sends it.
    first_commit: Option<CommitUnit>,
    /// Whether there is a crawl directory.
    is_durable: bool,
    /// The thread that compacts the log, if one was started.
    compaction: Option<JoinHandle<Result<(), StoreError>>>,
}

/// The state of the writer thread, which starts with the first commit.
enum WriterThread {
    Waiting(Box<dyn FnOnce() -> Result<(), Error> + Send>),
    Runs(JoinHandle<Result<(), Error>>),
    Over,
}

impl CommitQueue {
    /// Prepares the writer. It reports commits and failures to the keeper's inbox.
    pub fn new<T: VisitConsumer + 'static>(
        target: OutputTarget,
        consumer: T,
        inbox: Sender<KeeperMessage>,
        max_memory: Option<u64>,
    ) -> Self {
        let is_durable = target.folder.is_some();
        let mut ends = target.folder.as_ref().map(|folder| folder.outputs.clone()).unwrap_or_default();
        if let Some(OutputFile { name, .. }) = &target.jsonl {
            ends.entry(name.clone()).or_insert(0);
        }
        let (to_writer, commits) = sync_channel(if is_durable { 1 } else { MAX_QUEUED });
        let (outputs, log) = target.folder.map(OutputFiles::new).unzip();
        let jsonl = target.jsonl.as_ref().map(|output| output.name.clone());
        let writer = Writer { outputs, log, jsonl, consumer, inbox: inbox.clone() };
        let work = move || {
            // Report a panic at once, like a disk error. Otherwise the keeper would notice it only at the end.
            let written = catch_unwind(AssertUnwindSafe(|| writer.run(commits))).unwrap_or_else(|_| {
                let message = "a fault in Argiope while records were written; what was committed is safe: run the same \
                             command to resume";
                Err(Error::internal(message))
            });
            if let Err(fault) = &written {
                // If the keeper has ended, it gets the error from `end`.
                let _ = inbox.send(KeeperMessage::Fault(fault.clone()));
            }
            written
        };
        Self {
            to_writer: Some(to_writer),
            writer: WriterThread::Waiting(Box::new(work)),
            items: Vec::new(),
            bytes: 0,
            commit_bytes: max_memory.map_or(COMMIT_BYTES, |limit| {
                let part = usize::try_from(limit / COMMIT_PART).unwrap_or(COMMIT_BYTES);
                part.clamp(MIN_COMMIT_BYTES, COMMIT_BYTES)
            }),
            since: None,
            in_progress: 0,
            progress: CommitProgress::default(),
            jsonl: target.jsonl,
            ends,
            first_commit: None,
            is_durable,
            compaction: None,
        }
    }

    /// Prepares the first commit, which contains the names of the outputs. It precedes all writes to them, so a
    /// non-empty file that no commit lists was not written by this crawl. [`CommitQueue::wake`] sends it after the
    /// first requests, which do not wait for it.
    pub fn announce<F: CommitFrontier>(&mut self, frontier: &mut F) -> Result<(), Error> {
        if self.is_durable {
            let batch = frontier.commit(&ends(&self.ends), false)?;
            self.first_commit = Some(CommitUnit { items: Vec::new(), batch });
        }
        Ok(())
    }

    /// Starts the writer, after the first requests are sent.
    pub fn wake(&mut self) -> Result<(), Error> {
        self.first_commit.take().map_or(Ok(()), |commit| self.dispatch(commit))
    }

    /// A record that does not belong to a visit.
    pub fn line<F: CommitFrontier>(&mut self, line: Vec<u8>, frontier: &mut F, now: Time) -> Result<(), Error> {
        frontier.keep_line(&line)?;
        self.add(Item::Line(line), now);
        Ok(())
    }

    /// Adds a settled visit. The frontier already has its record, except for robots.txt and sitemaps.
    pub fn visit<F: CommitFrontier>(&mut self, settled: Settled, frontier: &mut F, now: Time) -> Result<(), Error> {
        if settled.is_unsettled_site_file() {
            frontier.keep_line(&settled.line)?;
        }
        self.add(Item::Visit(settled), now);
        Ok(())
    }

    /// Makes a commit due soon, because of an event that is not among the collected items.
    pub fn touch(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    fn add(&mut self, item: Item, now: Time) {
        self.since.get_or_insert(now);
        self.progress.add(now);
        let line = match &item {
            Item::Line(line) => line,
            Item::Visit(settled) => {
                if let Some(ArchiveChunk { file, bytes, .. }) = &settled.archive {
                    self.bytes += bytes.len();
                    *self.ends.entry(file.clone()).or_insert(0) += bytes.len() as u64;
                }
                // The rest of the visit, mostly links.
                self.bytes += settled.visit.message.found.bytes();
                &settled.line
            }
        };
        self.bytes += line.len();
        if let Some(OutputFile { name, hash }) = &mut self.jsonl
            && let Some(end) = self.ends.get_mut(name)
        {
            *end += line.len() as u64;
            hash.add(line);
        }
        self.items.push(item);
    }

    /// Bytes that were collected and not sent to the writer yet.
    pub fn outstanding_bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Backpressure: whether the disk is so far behind that no request should start. Requests in flight continue.
    pub fn is_behind(&self) -> bool {
        let most = || self.progress.max_outstanding(self.max_in_progress());
        self.is_durable && self.items.len() + self.progress.sent_visits() >= most()
    }

    /// Whether a commit should be sent now. Sending blocks only if the writer is far behind.
    pub fn is_time(&self, now: Time) -> bool {
        let Some(since) = self.since else { return false };
        let size = (self.items.len() / COMMIT_VISITS).max(self.bytes / self.commit_bytes);
        let is_due = size > 0 || now >= since + COMMIT_AFTER;
        !self.is_durable || (is_due && (self.in_progress < self.max_in_progress() || size >= MAX_GROWTH))
    }

    /// How many commits may be in progress. A crawl without output files has one sync per commit, so a second commit
    /// would only wait.
    fn max_in_progress(&self) -> usize {
        if self.ends.is_empty() { 1 } else { MAX_IN_PROGRESS }
    }

    /// Commits what was collected.
    pub fn send<F: CommitFrontier>(&mut self, frontier: &mut F) -> Result<(), Error> {
        self.seal(frontier, false)
    }

    /// When the next commit is due if nothing else happens.
    pub fn due(&self) -> Time {
        match self.since {
            Some(since) if self.in_progress < self.max_in_progress() => since + COMMIT_AFTER,
            _ => Time::NEVER,
        }
    }

    /// A commit is durable.
    pub fn durable<F: CommitFrontier>(
        &mut self,
        batch: &CommitBatch,
        frontier: &mut F,
        now: Time,
    ) -> Result<(), Error> {
        self.in_progress = self.in_progress.saturating_sub(1);
        self.progress.durable(now);
        frontier.acknowledge(batch)?;
        if self.compaction.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        self.join_compaction()?;
        if let Some(compaction) = frontier.take_compaction() {
            let thread = thread::Builder::new().name("compaction".into()).spawn(move || compaction.run());
            self.compaction = Some(thread.map_err(Error::no_thread)?);
        }
        Ok(())
    }

    /// Makes the last commit.
    pub fn send_last<F: CommitFrontier>(&mut self, frontier: &mut F) -> Result<(), Error> {
        self.seal(frontier, true)?;
        // All pages of the run are sent. The remaining commits are portions of the snapshot.
        while let Some(batch) = frontier.commit(&ends(&self.ends), true)? {
            self.dispatch(CommitUnit { items: Vec::new(), batch: Some(batch) })?;
        }
        Ok(())
    }

    /// Ends the writer and drops unsent events. Returns when everything that was sent is durable and delivered.
    pub fn end(&mut self) -> Result<(), Error> {
        self.to_writer = None;
        match std::mem::replace(&mut self.writer, WriterThread::Over) {
            WriterThread::Runs(writer) => writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            WriterThread::Waiting(_) | WriterThread::Over => {}
        }
        self.join_compaction()
    }

    fn join_compaction(&mut self) -> Result<(), Error> {
        match self.compaction.take().map(JoinHandle::join) {
            Some(Ok(compacted)) => Ok(compacted?),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }

    /// Makes a commit of everything collected, and sends it to the writer.
    fn seal<F: CommitFrontier>(&mut self, frontier: &mut F, last: bool) -> Result<(), Error> {
        self.wake()?;
        if let Some(OutputFile { name, hash }) = &self.jsonl {
            frontier.keep_output_hash(name, hash.value());
        }
        let batch = frontier.commit(&ends(&self.ends), last)?;
        self.since = None;
        self.bytes = 0;
        let items = std::mem::take(&mut self.items);
        self.dispatch(CommitUnit { items, batch })
    }

    /// Sends a commit to the writer, which is started if it does not run.
    fn dispatch(&mut self, commit: CommitUnit) -> Result<(), Error> {
        self.writer = match std::mem::replace(&mut self.writer, WriterThread::Over) {
            WriterThread::Waiting(work) => {
                let thread = thread::Builder::new().name("writer".into()).spawn(work);
                WriterThread::Runs(thread.map_err(Error::no_thread)?)
            }
            begun => begun,
        };
        if commit.batch.is_some() {
            self.in_progress += 1;
            self.progress.sent(commit.items.len());
        }
        if let Some(to_writer) = &self.to_writer {
            // If the writer has ended, it has reported the reason.
            let _ = to_writer.send(commit);
        }
        Ok(())
    }
}

/// Measures how fast visits arrive and how long commits take. Both determine how many visits may be outstanding.
#[derive(Default)]
struct CommitProgress {
    /// The time of the latest event.
    now: Time,
    /// Start of the current tenth of a second, and the number of visits in it.
    tenth: (Time, usize),
    /// The largest number of visits in a tenth of a second, slowly decaying.
    most: usize,
    /// Commits that are not durable yet: when they were sent, and their visits.
    sent: VecDeque<(Time, usize)>,
    /// How long the last commit took.
    took: Duration,
}

impl CommitProgress {
    fn add(&mut self, now: Time) {
        self.now = now;
        if now >= self.tenth.0 + OUTSTANDING_TIME {
            // A tenth without events does not lower the number. Otherwise a slow disk would slow the crawl down more
            // and more.
            self.most = self.tenth.1.max(self.most - self.most / 16);
            self.tenth = (now, 0);
        }
        self.tenth.1 += 1;
    }

    fn sent(&mut self, visits: usize) {
        self.sent.push_back((self.now, visits));
    }

    fn durable(&mut self, now: Time) {
        self.now = now;
        if let Some((since, _)) = self.sent.pop_front() {
            self.took = now - since;
        }
    }

    fn sent_visits(&self) -> usize {
        self.sent.iter().map(|(_, visits)| visits).sum()
    }

    /// How many visits may be outstanding if a commit has this many syncs: as many as arrive during these syncs and one
    /// more, for which the next commit waits.
    fn max_outstanding(&self, syncs: usize) -> usize {
        let syncs = u32::try_from(syncs).unwrap_or(1).max(1);
        let span = (self.took + self.took / syncs).max(OUTSTANDING_TIME).as_millis();
        let visits = self.most.max(self.tenth.1) as u128 * span / OUTSTANDING_TIME.as_millis();
        usize::try_from(visits).unwrap_or(usize::MAX).max(MAX_OUTSTANDING)
    }
}

/// The lengths of the output files in the form that a frontier takes.
fn ends(ends: &BTreeMap<Box<str>, u64>) -> Vec<(&str, u64)> {
    ends.iter().map(|(name, end)| (&**name, *end)).collect()
}

/// The writer's side, which runs on its own threads. Only these wait for the disk.
struct Writer<T> {
    outputs: Option<OutputFiles>,
    log: Option<CrawlLog>,
    jsonl: Option<Box<str>>,
    consumer: T,
    inbox: Sender<KeeperMessage>,
}

impl<T: VisitConsumer> Writer<T> {
    /// Makes all commits durable, in order.
    fn run(self, commits: Receiver<CommitUnit>) -> Result<(), Error> {
        let Self { outputs, mut log, jsonl, mut consumer, inbox } = self;
        let mut finish = |commit| finish_commit(commit, log.as_mut(), &mut consumer, &inbox);
        let Some(mut outputs) = outputs else {
            return commits.iter().try_for_each(finish);
        };
        thread::scope(|scope| {
            let (to_log, synced) = sync_channel(0);
            let first = thread::Builder::new().name("outputs".into()).spawn_scoped(scope, move || {
                for commit in commits {
                    outputs.append(&commit.items, jsonl.as_deref())?;
                    if to_log.send(commit).is_err() {
                        // The log could not be written. The other thread has reported that.
                        return Ok(());
                    }
                }
                outputs.check_existence()
            });
            let first = first.map_err(Error::no_thread)?;
            let written = synced.iter().try_for_each(&mut finish);
            // Without a receiver, the outputs thread ends with its next commit.
            drop(synced);
            let appended = first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.and(appended)
        })
    }
}

/// Writes the frame of a commit whose outputs are durable, and delivers its visits.
fn finish_commit<T: VisitConsumer>(
    CommitUnit { items, batch }: CommitUnit,
    log: Option<&mut CrawlLog>,
    consumer: &mut T,
    inbox: &Sender<KeeperMessage>,
) -> Result<(), Error> {
    if let Some((log, batch)) = log.zip(batch) {
        log.writer.write(&batch)?;
        // Ignored: the keeper has ended.
        let _ = inbox.send(KeeperMessage::Durable(batch.written()));
    }
    for item in items {
        match item {
            Item::Line(line) => consumer.line(&line),
            Item::Visit(settled) => consumer.take(settled),
        }
    }
    consumer.flush();
    Ok(())
}

/// The log of a crawl directory, whose lock is held until the last commit.
struct CrawlLog {
    writer: LogWriter,
    _lock: Option<Lock>,
}

/// The output files of a crawl directory.
struct OutputFiles {
    files: Arc<dyn Files>,
    ends: BTreeMap<Box<str>, u64>,
    open: BTreeMap<Box<str>, Box<dyn File>>,
}

impl OutputFiles {
    fn new(folder: LockedDirectory) -> (Self, CrawlLog) {
        let LockedDirectory { log, files, outputs, lock } = folder;
        (Self { files, ends: outputs, open: BTreeMap::new() }, CrawlLog { writer: log, _lock: lock })
    }

    /// Appends these items to their files and syncs them.
    fn append(&mut self, items: &[Item], jsonl: Option<&str>) -> Result<(), Error> {
        if items.is_empty() {
            // The commit has only a portion of a snapshot. Keep the output files open for `check_existence`.
            return Ok(());
        }
        let mut pieces: Vec<(&str, Vec<u8>)> = Vec::new();
        for item in items {
            let (line, chunk) = match item {
                Item::Line(line) => (line, None),
                Item::Visit(settled) => (&settled.line, settled.archive.as_ref()),
            };
            let chunk = chunk.map(|ArchiveChunk { file, bytes, .. }| (&**file, bytes));
            for (name, bytes) in jsonl.map(|name| (name, line)).into_iter().chain(chunk) {
                match pieces.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, gathered)) => gathered.extend_from_slice(bytes),
                    None => pieces.push((name, bytes.clone())),
                }
            }
        }
        // Close archive files that this commit does not write to: they are full.
        self.open.retain(|open, _| pieces.iter().any(|(name, _)| **open == **name) || jsonl == Some(&**open));
        for (name, bytes) in pieces {
            let end = self.ends.get(name).copied().unwrap_or(0);
            let written = self.append_to(name, &bytes, end);
            written.map_err(|error| argiope_store::disk::failed(&*self.files, name, "write to", &error))?;
            self.ends.insert(name.into(), end + bytes.len() as u64);
        }
        Ok(())
    }

    /// Checks at the end that the files still exist, because writing to a removed file does not fail.
    fn check_existence(&self) -> Result<(), Error> {
        for name in self.open.keys() {
            let end = self.ends.get(name).copied().unwrap_or(0);
            let length = self.files.open(name).and_then(|file| file.length());
            let length = length.map_err(|error| argiope_store::disk::failed(&*self.files, name, "find", &error))?;
            if length < end {
                let message = format!("{} was changed by another program", self.files.describe(name));
                return Err(StoreError::new(StoreErrorKind::File, message).into());
            }
        }
        Ok(())
    }

    /// Appends bytes to a file, which is created if its committed length `end` is zero, and syncs it.
    fn append_to(&mut self, name: &str, bytes: &[u8], end: u64) -> std::io::Result<()> {
        let file = match self.open.entry(name.into()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                let file = if end == 0 {
                    self.files.make_folder(folder)?;
                    // Uncommitted bytes of this crawl were truncated when the directory was opened, so any content was
                    // written by another program.
                    if self.files.open(name).and_then(|file| file.length()).is_ok_and(|length| length > 0) {
                        let why = "it was not written by this crawl; move it";
                        return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, why));
                    }
                    let file = self.files.create(name)?;
                    self.files.sync_folder(folder)?;
                    file
                } else {
                    self.files.open(name)?
                };
                place.insert(file)
            }
        };
        file.write_at(bytes, end)?;
        file.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use argiope_store::disk::{self, CrawlSettings};
    use std::io;
    use std::sync::{Condvar, Mutex};

    #[test]
    fn a_file_that_was_removed_is_missed_though_only_a_snapshot_came_after() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = disk::open(folder.path(), &CrawlSettings::new(), usize::MAX).expect("opens");
        let files: Arc<dyn Files> = Arc::new(disk::OsFiles::new(folder.path()));
        let outputs = BTreeMap::new();
        let locked = LockedDirectory { log: opened.writer, files, outputs, lock: opened.lock };
        let (mut outputs, _log) = OutputFiles::new(locked);
        outputs.append(&[Item::Line(b"{}\n".to_vec())], Some("archive/1.warc")).expect("written");
        outputs.append(&[], None).expect("nothing to write");
        outputs.check_existence().expect("it is there");
        std::fs::remove_file(folder.path().join("archive/1.warc")).expect("removed");
        assert!(outputs.check_existence().is_err());
    }

    #[test]
    fn what_a_crash_would_lose_is_bounded_by_number_or_time() {
        let at = |millis: u64| Time::ZERO + Duration::from_millis(millis);
        let mut progress = CommitProgress::default();
        (0..40).for_each(|number| progress.add(at(number * 10)));
        assert_eq!(progress.max_outstanding(1), MAX_OUTSTANDING, "a hundred pages a second");
        // Ten thousand a second, with commits that take 50 ms.
        (0..5_000).for_each(|number| progress.add(at(1_000 + number / 10)));
        progress.sent(500);
        assert_eq!(progress.sent_visits(), 500);
        progress.durable(at(1_549));
        assert_eq!((progress.sent_visits(), progress.max_outstanding(1)), (0, 1_000));
        // The disk is slower: two commits' worth, so that the crawl does not become slower and slower.
        progress.sent(1_000);
        progress.durable(at(1_749));
        assert_eq!(progress.max_outstanding(1), 4_000);
        assert_eq!(progress.max_outstanding(2), 3_000, "outputs are synced while the log is");
        (0..2_000).for_each(|number| progress.add(at(2_000 + 100 * number)));
        assert_eq!(progress.max_outstanding(1), MAX_OUTSTANDING, "what was long ago does not count");
    }

    /// Files of a crawl whose log is synced only when an output file was synced twice, or after two seconds.
    struct MeetingFiles {
        inner: disk::OsFiles,
        meeting: Arc<SyncMeeting>,
    }

    /// How many times an output file was synced.
    #[derive(Default)]
    struct SyncMeeting {
        count: Mutex<usize>,
        changed: Condvar,
    }

    struct MeetingFile {
        inner: Box<dyn File>,
        is_log: bool,
        meeting: Arc<SyncMeeting>,
    }

    impl MeetingFiles {
        fn wrap(&self, name: &str, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
            let (is_log, meeting) = (name.starts_with("log/"), Arc::clone(&self.meeting));
            if !is_log && name != "pages.jsonl" {
                return file;
            }
            file.map(|inner| -> Box<dyn File> { Box::new(MeetingFile { inner, is_log, meeting }) })
        }
    }

    impl Files for MeetingFiles {
        fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
            self.wrap(name, self.inner.open(name))
        }
        fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
            self.wrap(name, self.inner.create(name))
        }
        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.inner.rename(from, to)
        }
        fn remove(&self, name: &str) -> io::Result<()> {
            self.inner.remove(name)
        }
        fn make_folder(&self, name: &str) -> io::Result<()> {
            self.inner.make_folder(name)
        }
        fn list(&self, folder: &str) -> io::Result<Vec<String>> {
            self.inner.list(folder)
        }
        fn sync_folder(&self, folder: &str) -> io::Result<()> {
            self.inner.sync_folder(folder)
        }
        fn describe(&self, name: &str) -> String {
            self.inner.describe(name)
        }
    }

    impl File for MeetingFile {
        fn length(&self) -> io::Result<u64> {
            self.inner.length()
        }
        fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
            self.inner.read_at(into, position)
        }
        fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<()> {
            self.inner.write_at(bytes, position)
        }
        fn set_len(&mut self, len: u64) -> io::Result<()> {
            self.inner.set_len(len)
        }
        fn sync(&mut self) -> io::Result<()> {
            let SyncMeeting { count, changed } = &*self.meeting;
            let mut count = count.lock().expect("not poisoned");
            if self.is_log {
                let alone = |count: &mut usize| *count < 2;
                let (_count, waited) =
                    changed.wait_timeout_while(count, Duration::from_secs(2), alone).expect("not poisoned");
                assert!(!waited.timed_out(), "the outputs of the next commit wait for the log");
            } else {
                *count += 1;
                changed.notify_all();
            }
            self.inner.sync()
        }
    }

    struct Lines(Vec<u8>);

    impl VisitConsumer for Lines {
        fn take(&mut self, _: Settled) {}
        fn line(&mut self, line: &[u8]) {
            self.0.extend_from_slice(line);
        }
        fn flush(&mut self) {}
    }

    #[test]
    fn outputs_are_synced_while_the_log_of_the_commit_before_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = MeetingFiles { inner: disk::OsFiles::new(folder.path()), meeting: Arc::default() };
        let files: Arc<dyn Files> = Arc::new(files);
        let mut opened = disk::open_in(Arc::clone(&files), &CrawlSettings::new()).expect("opens");
        let locked = LockedDirectory { log: opened.writer, files, outputs: BTreeMap::new(), lock: None };
        let (outputs, log) = OutputFiles::new(locked);
        let (inbox, messages) = std::sync::mpsc::channel();
        let (to_writer, commits) = sync_channel(3);
        for number in 1..=3_u64 {
            let line = format!("{{\"line\":{number}}}\n").into_bytes();
            opened.frontier.keep_line(&line).expect("kept");
            let batch = opened.frontier.commit(&[("pages.jsonl", 11 * number)]).expect("commits");
            to_writer.send(CommitUnit { items: vec![Item::Line(line)], batch }).expect("a receiver");
        }
        drop(to_writer);
        let jsonl = Some("pages.jsonl".into());
        let writer = Writer { outputs: Some(outputs), log: Some(log), jsonl, consumer: Lines(Vec::new()), inbox };
        writer.run(commits).expect("written");
        assert_eq!(messages.iter().filter(|message| matches!(message, KeeperMessage::Durable(_))).count(), 3);
        let written = std::fs::read_to_string(folder.path().join("pages.jsonl")).expect("a file");
        assert_eq!(written, "{\"line\":1}\n{\"line\":2}\n{\"line\":3}\n");
    }
}
