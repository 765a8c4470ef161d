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
//! 3. sends [`KeeperMessage::Durable`] to the keeper,
//! 4. passes the visits to the consumer, so that everything printed or streamed is durable.
//!
//! A crawl without a crawl directory has nothing to sync. If its consumer does not block, it has no writer thread: the
//! keeper passes the visits on.
//!
//! So the outputs of a commit are synced while the frame of the previous commit is synced. On a slow disk, this doubles
//! the rate of commits. A crawl without output files has one sync per commit, and one commit in progress.
//!
//! After a crash, the output files are truncated to the lengths in the last frame. So delivered records are neither
//! lost nor duplicated.
//!
//! Invariants:
//! - When a commit starts, an output file holds exactly the bytes of all commits before it. So the keeper can compute all
//!   positions in output files in advance.
//! - An output file is empty until a commit that lists it is durable. So after any fault, the next run knows which files
//!   this crawl wrote.
//! - A thread that fails sends its error to the keeper before it waits for another thread, and closes its channels. The
//!   keeper then waits for nothing but the end of both threads. So no failure leaves a thread waiting.

mod progress;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use argiope_core::Time;
use argiope_core::crawl::schedule::frontier::{Settlement, StoreError};
use argiope_core::crawl::schedule::keeper::{ArchiveChunk, Settled};
use argiope_store::disk::{CommitBatch, Files, Lock, LogWriter, OutputHash, is_inside};

#[cfg(doc)]
use argiope_store::Commits;
use argiope_store::{CommittedOutput, Store};

use self::progress::CommitProgress;
use self::writer::{OutputFiles, Writer, deliver};
use crate::error::Error;
#[cfg(doc)]
use crate::keeper_message::KeeperMessage;
use crate::keeper_message::{Inbox, VisitConsumer};

/// A commit is due this long after its first event.
const COMMIT_AFTER: Duration = Duration::from_millis(100);
/// A commit is due after this many visits.
const COMMIT_VISITS: usize = 256;
/// A commit is due after about this many bytes.
const COMMIT_BYTES: usize = 4 << 20;
/// With a low memory limit, a commit is due after the limit divided by this, in bytes.
const COMMIT_MEMORY_DIVISOR: u64 = 64;
/// The lower bound of the bytes after which a commit is due.
const MIN_COMMIT_BYTES: usize = 256 << 10;
/// Maximum number of commits in progress, one for each thread. While there are this many, further events are added to
/// the next commit. So on a slow disk, commits become larger. A crash loses the events of these commits and of the next
/// one.
const MAX_IN_PROGRESS: usize = 2;
/// While the disk is behind, a commit is due after this many visits. No requests start in that state, so few further
/// visits arrive to fill a larger commit.
const COMMIT_VISITS_BEHIND: usize = COMMIT_VISITS / 4;
/// Requests in flight count as outstanding visits, because they may end before the disk has caught up. At most the
/// limit of outstanding visits divided by this is counted for them.
const IN_FLIGHT_DIVISOR: usize = 8;
/// Backpressure: if the next commit grows to this many times its usual size, the keeper blocks until the writer takes
/// it.
const MAX_GROWTH: usize = 8;
/// The maximum number of queued commits of a crawl without a crawl directory. Its commits are small, because each is
/// sent at once.
const MAX_QUEUED: usize = 64;

/// Argument of [`Commits::commit`]: a commit at the end of a run.
const LAST: bool = true;
/// Argument of [`Commits::commit`]: a commit during a run.
const NOT_LAST: bool = false;

/// The outputs of a crawl. The default has none.
#[derive(Default)]
pub struct OutputTarget {
    /// The crawl directory; `None` for a crawl in memory.
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
    /// The lock of the directory, held until writer and compaction have ended.
    pub lock: Option<Arc<Lock>>,
}

/// The contents of one commit: its items in the order in which they were settled, and its frame.
#[derive(Default)]
struct CommitUnit {
    /// The output files that this commit lists and that have no content yet.
    begins: Vec<Box<str>>,
    items: Vec<Item>,
    /// The frame; `None` without a crawl directory, or if the frontier has nothing to commit.
    batch: Option<CommitBatch>,
}

/// One entry of a commit.
enum Item {
    /// A record that does not belong to a visit.
    Line(Vec<u8>),
    Visit(Settled),
}

/// The keeper's side of the writer: collects events, and sends them to the writer when a commit is due.
pub struct CommitQueue {
    /// `None` after [`CommitQueue::end`].
    to_writer: Option<SyncSender<CommitUnit>>,
    writer: WriterThread,
    /// The items of the next commit.
    items: Vec<Item>,
    /// How many of them are pages.
    pages: usize,
    /// The size of `items` in bytes.
    bytes: usize,
    /// A commit is due after about this many bytes.
    commit_bytes: usize,
    /// When the first event of the next commit was added; `None` if there is none.
    first_event: Option<Time>,
    /// Whether the reader waits for the next commit.
    is_urgent: bool,
    /// Commits that were sent and are not durable yet.
    in_progress: usize,
    progress: CommitProgress,
    /// The output file for all records.
    jsonl: Option<OutputFile>,
    /// The length of each output file including everything collected.
    lengths: BTreeMap<Box<str>, u64>,
    /// The output files that the next commit is the first to list.
    begins: Vec<Box<str>>,
    /// The first commit, until [`CommitQueue::send_first_commit_once`] sends it.
    first_commit: Option<CommitUnit>,
    /// Whether the crawl has a crawl directory.
    has_crawl_directory: bool,
    /// The thread that compacts the log, if one was started.
    compaction: Option<JoinHandle<Result<(), StoreError>>>,
    /// The lock of the directory. Every thread that writes to the directory has a share of it.
    lock: Option<Arc<Lock>>,
}

/// The state of the writer thread, which starts with the first commit.
enum WriterThread {
    /// There is nothing to write, and this consumer does not block.
    NotNeeded(Box<dyn VisitConsumer>),
    NotStarted(Box<dyn FnOnce() -> Result<(), Error> + Send>),
    Running(JoinHandle<Result<(), Error>>),
    Ended,
}

impl CommitQueue {
    /// Prepares the writer. It reports commits and failures to the keeper's inbox.
    pub fn new<T: VisitConsumer + 'static>(
        target: OutputTarget,
        consumer: T,
        inbox: impl Into<Inbox>,
        max_memory: Option<u64>,
    ) -> Self {
        let has_crawl_directory = target.folder.is_some();
        let lock = target.folder.as_ref().and_then(|folder| folder.lock.clone());
        let mut lengths = target.folder.as_ref().map(|folder| folder.outputs.clone()).unwrap_or_default();
        if let Some(OutputFile { name, .. }) = &target.jsonl {
            lengths.entry(name.clone()).or_insert(0);
        }
        // With a crawl directory, one commit may wait. The keeper blocks when it sends a further one.
        let (to_writer, commits) = sync_channel(if has_crawl_directory { 1 } else { MAX_QUEUED });
        let (outputs, log) = target.folder.map(OutputFiles::new).unzip();
        let jsonl = target.jsonl.as_ref().map(|output| output.name.clone());
        let writer = if has_crawl_directory || consumer.may_block() {
            let writer = Writer { outputs, log, jsonl, consumer, inbox: inbox.into() };
            WriterThread::NotStarted(Box::new(move || writer.run(commits)))
        } else {
            WriterThread::NotNeeded(Box::new(consumer))
        };
        Self {
            to_writer: Some(to_writer),
            writer,
            items: Vec::new(),
            pages: 0,
            bytes: 0,
            commit_bytes: max_memory.map_or(COMMIT_BYTES, |limit| {
                let part = usize::try_from(limit / COMMIT_MEMORY_DIVISOR).unwrap_or(COMMIT_BYTES);
                part.clamp(MIN_COMMIT_BYTES, COMMIT_BYTES)
            }),
            first_event: None,
            is_urgent: false,
            in_progress: 0,
            progress: CommitProgress::default(),
            jsonl: target.jsonl,
            lengths,
            begins: Vec::new(),
            first_commit: None,
            has_crawl_directory,
            compaction: None,
            lock,
        }
    }

    /// Prepares the first commit, which lists the outputs. [`CommitQueue::send_first_commit_once`] sends it after the
    /// first requests, which do not wait for it.
    pub fn prepare_first_commit<S: Store>(&mut self, store: &mut S) -> Result<(), Error> {
        if self.has_crawl_directory {
            let batch = store.commit(&self.outputs(), NOT_LAST)?;
            self.first_commit = Some(CommitUnit { begins: self.empty_outputs(), items: Vec::new(), batch });
        }
        Ok(())
    }

    /// The outputs without committed bytes. An earlier run may have listed them and not created them. A manipulated log
    /// could name any file, so a file outside of the directory must be the one that the current command names.
    fn empty_outputs(&self) -> Vec<Box<str>> {
        let jsonl = self.jsonl.as_ref().map(|output| &output.name);
        let empty = self.lengths.iter().filter(|(_, length)| **length == 0).map(|(name, _)| name);
        empty.filter(|name| is_inside(name) || jsonl == Some(name)).cloned().collect()
    }

    /// Adds an output file to the next commit, unless an earlier one lists it; returns whether it was added. The caller
    /// sends that commit before the first bytes of the file.
    pub fn begin_output(&mut self, name: &str) -> bool {
        if !self.has_crawl_directory || self.lengths.contains_key(name) {
            return false;
        }
        self.lengths.insert(name.into(), 0);
        self.begins.push(name.into());
        true
    }

    /// Starts the writer with the first commit, if that was not done yet. Called after the first requests are sent.
    pub fn send_first_commit_once(&mut self) -> Result<(), Error> {
        self.first_commit.take().map_or(Ok(()), |commit| self.dispatch(commit, 0))
    }

    /// Adds a record that does not belong to a visit.
    pub fn add_line<S: Store>(&mut self, line: Vec<u8>, store: &mut S, now: Time) -> Result<(), Error> {
        store.settle(&mut [Settlement::line(&line)])?;
        self.add(Item::Line(line), now);
        Ok(())
    }

    /// Adds a settled visit. The store already has its record.
    pub fn add_visit(&mut self, settled: Settled, now: Time) {
        self.add(Item::Visit(settled), now);
    }

    /// Makes a commit due soon, because of an event that is not among the collected items.
    pub fn request_commit(&mut self, now: Time) {
        self.first_event.get_or_insert(now);
    }

    /// Makes a commit due now, because somebody waits until it is durable.
    pub fn request_commit_at_once(&mut self, now: Time) {
        self.request_commit(now);
        self.is_urgent = true;
    }

    /// Adds an item to the next commit.
    fn add(&mut self, item: Item, now: Time) {
        self.first_event.get_or_insert(now);
        self.progress.add(now);
        let line = match &item {
            Item::Line(line) => line,
            Item::Visit(settled) => {
                if let Some(ArchiveChunk { file, bytes, .. }) = &settled.archive {
                    self.bytes += bytes.len();
                    *self.lengths.entry(file.clone()).or_insert(0) += bytes.len() as u64;
                }
                self.pages += usize::from(settled.visit.is_page());
                // The rest of the visit, mostly links.
                self.bytes += settled.visit.for_keeper.found().bytes();
                &settled.line
            }
        };
        self.bytes += line.len();
        if let Some(OutputFile { name, hash }) = &mut self.jsonl
            && let Some(end) = self.lengths.get_mut(name)
        {
            *end += line.len() as u64;
            hash.add(line);
        }
        self.items.push(item);
    }

    /// Whether the crawl has a crawl directory, so that commits become durable.
    pub fn has_crawl_directory(&self) -> bool {
        self.has_crawl_directory
    }

    /// Bytes that were collected and are not durable yet.
    pub fn outstanding_bytes(&self) -> u64 {
        (self.bytes + self.progress.sent_bytes()) as u64
    }

    /// Backpressure: whether the disk is so far behind that no request should start. Requests in flight continue.
    pub fn is_behind(&mut self, in_flight: usize, now: Time) -> bool {
        let max_outstanding = self.progress.max_outstanding();
        let outstanding =
            self.items.len() + self.progress.sent_visits() + in_flight.min(max_outstanding / IN_FLIGHT_DIVISOR);
        let is_behind = self.has_crawl_directory && outstanding >= max_outstanding;
        self.progress.set_held(is_behind, now);
        is_behind
    }

    /// Whether a commit should be sent now. Sending blocks only if the writer is far behind.
    pub fn should_send(&self, now: Time) -> bool {
        let Some(first_event) = self.first_event else { return false };
        // The size in multiples of the usual size.
        let size = (self.items.len() / COMMIT_VISITS).max(self.bytes / self.commit_bytes);
        // Requests are held back until the disk has caught up.
        let blocks_requests = self.progress.is_held() && self.items.len() >= COMMIT_VISITS_BEHIND;
        let is_due = self.is_urgent || size > 0 || blocks_requests || now >= first_event + COMMIT_AFTER;
        // Without a crawl directory, each commit is sent at once.
        !self.has_crawl_directory || (is_due && (self.in_progress < self.max_in_progress() || size >= MAX_GROWTH))
    }

    /// How many commits may be in progress. A crawl without output files has one sync per commit, so a second commit
    /// would only wait.
    fn max_in_progress(&self) -> usize {
        if self.lengths.is_empty() { 1 } else { MAX_IN_PROGRESS }
    }

    /// Commits what was collected.
    pub fn send<S: Store>(&mut self, store: &mut S) -> Result<(), Error> {
        self.send_collected(store, NOT_LAST)
    }

    /// When the next commit is due if nothing else happens.
    pub fn due(&self) -> Time {
        match self.first_event {
            Some(first_event) if self.in_progress < self.max_in_progress() => {
                if self.is_urgent {
                    first_event
                } else {
                    first_event + COMMIT_AFTER
                }
            }
            _ => Time::NEVER,
        }
    }

    /// The pages that no commit contains yet.
    pub fn collected_pages(&self) -> usize {
        self.pages
    }

    /// Whether a commit is in progress.
    pub fn is_busy(&self) -> bool {
        self.in_progress > 0
    }

    /// Records that a commit is durable. Starts a compaction if one is due and none runs.
    pub fn mark_durable<S: Store>(&mut self, batch: &CommitBatch, store: &mut S) -> Result<(), Error> {
        self.in_progress = self.in_progress.saturating_sub(1);
        self.progress.remove_durable();
        store.acknowledge(batch)?;
        if self.compaction.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        self.join_compaction()?;
        if let Some(compaction) = store.take_compaction() {
            let lock = self.lock.clone();
            let thread = thread::Builder::new().name("compaction".into()).spawn(move || {
                let _lock = lock;
                compaction.run()
            });
            self.compaction = Some(thread.map_err(Error::no_thread)?);
        }
        Ok(())
    }

    /// Makes the last commit.
    pub fn send_last<S: Store>(&mut self, store: &mut S) -> Result<(), Error> {
        self.send_collected(store, LAST)?;
        // All pages of the run are sent. The remaining commits are portions of the snapshot.
        while let Some(batch) = store.commit(&self.outputs(), LAST)? {
            self.dispatch(CommitUnit { batch: Some(batch), ..CommitUnit::default() }, 0)?;
        }
        Ok(())
    }

    /// Ends the writer and drops unsent events. Returns when everything that was sent is durable and delivered.
    pub fn end(&mut self) -> Result<(), Error> {
        self.to_writer = None;
        let written = match std::mem::replace(&mut self.writer, WriterThread::Ended) {
            WriterThread::Running(writer) => writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            WriterThread::NotNeeded(_) | WriterThread::NotStarted(_) | WriterThread::Ended => Ok(()),
        };
        // Also after an error: the compaction may still be writing to the directory.
        written.and(self.join_compaction())
    }

    /// Waits for the end of the compaction, if one was started.
    fn join_compaction(&mut self) -> Result<(), Error> {
        match self.compaction.take().map(JoinHandle::join) {
            Some(Ok(compacted)) => Ok(compacted?),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }

    /// Makes a commit of everything collected, and sends it to the writer.
    fn send_collected<S: Store>(&mut self, store: &mut S, is_last: bool) -> Result<(), Error> {
        self.send_first_commit_once()?;
        let batch = store.commit(&self.outputs(), is_last)?;
        (self.first_event, self.is_urgent, self.pages) = (None, false, 0);
        let (begins, items) = (std::mem::take(&mut self.begins), std::mem::take(&mut self.items));
        let bytes = std::mem::take(&mut self.bytes);
        self.dispatch(CommitUnit { begins, items, batch }, bytes)
    }

    /// The state of the output files including everything collected.
    fn outputs(&self) -> Vec<CommittedOutput<'_>> {
        let hash =
            |name: &str| self.jsonl.as_ref().filter(|jsonl| *jsonl.name == *name).map(|jsonl| jsonl.hash.value());
        self.lengths.iter().map(|(name, length)| CommittedOutput { name, length: *length, hash: hash(name) }).collect()
    }

    /// Sends a commit to the writer, which is started if it does not run.
    fn dispatch(&mut self, commit: CommitUnit, bytes: usize) -> Result<(), Error> {
        if let WriterThread::NotNeeded(consumer) = &mut self.writer {
            deliver(commit.items, &mut **consumer);
            return Ok(());
        }
        self.writer = match std::mem::replace(&mut self.writer, WriterThread::Ended) {
            WriterThread::NotStarted(work) => {
                let thread = thread::Builder::new().name("writer".into()).spawn(work);
                WriterThread::Running(thread.map_err(Error::no_thread)?)
            }
            started => started,
        };
        if commit.batch.is_some() {
            self.in_progress += 1;
            self.progress.add_sent(commit.items.len(), bytes);
        }
        if let Some(to_writer) = &self.to_writer {
            // If the writer has ended, it has reported the reason.
            let _ = to_writer.send(commit);
        }
        Ok(())
    }
}
