//! The writer: one commit after the other.
//!
//! A commit is what happened in a tenth of a second or to a few hundred pages. The keeper packs it into a `CommitUnit`:
//! the visits that were settled, with the bytes that they add to output files, and the frontier's own sealed frame,
//! which says up to where each output file belongs to it. The writer's thread then
//!
//! 1. appends the bytes to their files and syncs these,
//! 2. writes and syncs the frame: from here on all of it has happened,
//! 3. tells the keeper,
//! 4. hands the visits to whoever takes them: what is printed or streamed is durable.
//!
//! After a crash the files are cut back to what the last frame says; nothing is lost that anybody was told of, and
//! nothing is there twice.
//!
//! Invariant: an output file holds exactly the bytes of the parcels before this one when a parcel begins. So the keeper
//! knows every position without asking.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
use argiope_store::disk::{DiskFrontier, File, Files, Lock, LogWriter};

use crate::error::Error;
use crate::keeper_thread::{KeeperMessage, VisitConsumer};

/// What happened waits at most this long for its commit...
const COMMIT_AFTER: Duration = Duration::from_millis(100);
/// ... or until it is so many visits, ...
const COMMIT_VISITS: usize = 256;
/// ... or about so many bytes.
const COMMIT_BYTES: usize = 4 << 20;
/// Parcels that may be on their way before more is gathered into the next one instead.
const ON_THEIR_WAY: usize = 2;
/// A parcel that has grown to so many times its usual size makes the crawl wait for the writer.
const FAR_BEHIND: usize = 8;
/// Without a disk to wait for, parcels are small, and so many may be waiting.
const UNREAD: usize = 64;

/// A frontier whose commits may last.
pub trait CommitFrontier: Frontier {
    /// Seals what happened since the last commit, with the length of each output file.
    fn commit(&mut self, _outputs: &[(&str, u64)], _last: bool) -> Result<Option<CommitBatch>, StoreError> {
        Ok(None)
    }

    /// A commit is durable.
    fn acknowledge(&mut self, _batch: &CommitBatch) -> Result<(), StoreError> {
        Ok(())
    }

    /// The bytes of memory that it holds, roughly.
    fn bytes(&self) -> usize {
        0
    }

    /// Keeps a record that is no page's.
    fn keep_line(&mut self, _line: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
}

impl CommitFrontier for MemoryFrontier {}

impl CommitFrontier for DiskFrontier {
    fn commit(&mut self, outputs: &[(&str, u64)], last: bool) -> Result<Option<CommitBatch>, StoreError> {
        if last { self.commit_at_end(outputs) } else { DiskFrontier::commit(self, outputs) }
    }

    fn acknowledge(&mut self, batch: &CommitBatch) -> Result<(), StoreError> {
        DiskFrontier::acknowledge(self, batch)
    }

    fn bytes(&self) -> usize {
        DiskFrontier::bytes(self)
    }

    fn keep_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        DiskFrontier::keep_line(self, line.strip_suffix(b"\n").unwrap_or(line))
    }
}

/// Where a crawl is written to. The default is nowhere.
#[derive(Default)]
pub struct OutputTarget {
    pub folder: Option<LockedDirectory>,
    /// The output file that gets every record, by its name in the crawl directory; an absolute path elsewhere.
    pub jsonl: Option<Box<str>>,
    /// The record that a run begins with; one that ends it belongs to it.
    pub first_line: Option<Vec<u8>>,
}

/// A crawl directory that is held.
pub struct LockedDirectory {
    pub log: LogWriter,
    pub files: Arc<dyn Files>,
    /// How long the output files are, as far as they are committed.
    pub outputs: BTreeMap<Box<str>, u64>,
    /// Held until the last commit.
    pub lock: Option<Lock>,
}

/// What belongs to one commit, in the order of completion.
struct CommitUnit {
    items: Vec<Item>,
    batch: Option<CommitBatch>,
}

enum Item {
    /// A record that is no visit's.
    Line(Vec<u8>),
    Visit(Settled),
}

/// The keeper's end: gathers what happened, and sends it off as a parcel when it is time.
pub struct CommitQueue {
    to_writer: Option<SyncSender<CommitUnit>>,
    writer: Thread,
    items: Vec<Item>,
    bytes: usize,
    /// When the first thing happened that is not on its way yet.
    since: Option<Time>,
    on_their_way: usize,
    jsonl: Option<Box<str>>,
    /// How long each output file will be with all that was gathered.
    ends: BTreeMap<Box<str>, u64>,
    /// The first parcel, not sent off yet.
    announcement: Option<CommitUnit>,
    lasts: bool,
}

/// The writer's thread: it begins with the first parcel.
enum Thread {
    Waiting(Box<dyn FnOnce() -> Result<(), Error> + Send>),
    Runs(JoinHandle<Result<(), Error>>),
    Over,
}

impl CommitQueue {
    /// Makes the writer ready. It tells the keeper by mail what is durable, and what went wrong.
    pub fn new<T: VisitConsumer + 'static>(target: OutputTarget, consumer: T, inbox: Sender<KeeperMessage>) -> Self {
        let lasts = target.folder.is_some();
        let mut ends = target.folder.as_ref().map(|folder| folder.outputs.clone()).unwrap_or_default();
        if let Some(name) = &target.jsonl {
            ends.entry(name.clone()).or_insert(0);
        }
        let (to_writer, parcels) = sync_channel(if lasts { ON_THEIR_WAY } else { UNREAD });
        let mut writer = Writer {
            target: target.folder.map(Outputs::new),
            jsonl: target.jsonl.clone(),
            consumer,
            inbox: inbox.clone(),
        };
        let work = move || {
            // A fault of ours is told like one of the disk, and at once: nobody would look for it before the end.
            let written = catch_unwind(AssertUnwindSafe(|| writer.write_all(&parcels))).unwrap_or_else(|_| {
                let words = "a fault in Argiope while records were written; what was committed is safe: run the same \
                             command again";
                Err(Error::internal(words))
            });
            if let Err(fault) = &written {
                // A keeper that has left learns it when it asks for the end.
                let _ = inbox.send(KeeperMessage::Fault(fault.clone()));
            }
            written
        };
        Self {
            to_writer: Some(to_writer),
            writer: Thread::Waiting(Box::new(work)),
            items: Vec::new(),
            bytes: 0,
            since: None,
            on_their_way: 0,
            jsonl: target.jsonl,
            ends,
            announcement: None,
            lasts,
        }
    }

    /// Commits that there are these outputs, before a byte is written to them: a file that is not empty and that no
    /// commit speaks of is somebody else's. The first requests need not wait for it: see [`CommitQueue::wake`].
    pub fn announce<F: CommitFrontier>(&mut self, frontier: &mut F) -> Result<(), Error> {
        if self.lasts {
            let batch = frontier.commit(&ends(&self.ends), false)?;
            self.announcement = Some(CommitUnit { items: Vec::new(), batch });
        }
        Ok(())
    }

    /// Lets the writer begin, once the first requests are on their way.
    pub fn wake(&mut self) -> Result<(), Error> {
        self.announcement.take().map_or(Ok(()), |parcel| self.dispatch(parcel))
    }

    /// A record that is no visit's.
    pub fn line<F: CommitFrontier>(&mut self, line: Vec<u8>, frontier: &mut F, now: Time) -> Result<(), Error> {
        frontier.keep_line(&line)?;
        self.add(Item::Line(line), now);
        Ok(())
    }

    /// A visit that was settled. The frontier knows the record already, unless it is an errand of the crawl's own.
    pub fn visit<F: CommitFrontier>(&mut self, settled: Settled, frontier: &mut F, now: Time) -> Result<(), Error> {
        if settled.is_unsettled_errand() {
            frontier.keep_line(&settled.line)?;
        }
        self.add(Item::Visit(settled), now);
        Ok(())
    }

    fn add(&mut self, item: Item, now: Time) {
        self.since.get_or_insert(now);
        let line = match &item {
            Item::Line(line) => line,
            Item::Visit(settled) => {
                if let Some(ArchiveChunk { file, bytes, .. }) = &settled.archive {
                    self.bytes += bytes.len();
                    *self.ends.entry(file.clone()).or_insert(0) += bytes.len() as u64;
                }
                // What the visit holds besides: its links, mostly.
                self.bytes += settled.visit.message.found.bytes();
                &settled.line
            }
        };
        self.bytes += line.len();
        if let Some(end) = self.jsonl.as_ref().and_then(|name| self.ends.get_mut(name)) {
            *end += line.len() as u64;
        }
        self.items.push(item);
    }

    /// Whether what was gathered should be sent off now. Only when the writer is far behind does that mean waiting for it.
    pub fn is_time(&self, now: Time) -> bool {
        let Some(since) = self.since else { return false };
        let size = (self.items.len() / COMMIT_VISITS).max(self.bytes / COMMIT_BYTES);
        let is_ripe = size > 0 || now >= since + COMMIT_AFTER;
        !self.lasts || (is_ripe && (self.on_their_way < ON_THEIR_WAY || size >= FAR_BEHIND))
    }

    /// Sends off what was gathered.
    pub fn send<F: CommitFrontier>(&mut self, frontier: &mut F) -> Result<(), Error> {
        self.seal(frontier, false)
    }

    /// When it will be time, if nothing happens before.
    pub fn due(&self) -> Time {
        match self.since {
            Some(since) if self.on_their_way < ON_THEIR_WAY => since + COMMIT_AFTER,
            _ => Time::NEVER,
        }
    }

    /// A parcel is durable.
    pub fn durable<F: CommitFrontier>(&mut self, batch: &CommitBatch, frontier: &mut F) -> Result<(), Error> {
        self.on_their_way = self.on_their_way.saturating_sub(1);
        Ok(frontier.acknowledge(batch)?)
    }

    /// Sends off the last commit.
    pub fn send_last<F: CommitFrontier>(&mut self, frontier: &mut F) -> Result<(), Error> {
        self.seal(frontier, true)?;
        // The pages of the run are on their way; what follows is its snapshot, piece by piece.
        while let Some(batch) = frontier.commit(&ends(&self.ends), true)? {
            self.dispatch(CommitUnit { items: Vec::new(), batch: Some(batch) })?;
        }
        Ok(())
    }

    /// No commit any more: what was gathered and not sent off has not happened. Returns when everything that was is durable
    /// and taken.
    pub fn end(&mut self) -> Result<(), Error> {
        self.to_writer = None;
        match std::mem::replace(&mut self.writer, Thread::Over) {
            Thread::Runs(writer) => writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Thread::Waiting(_) | Thread::Over => Ok(()),
        }
    }

    fn seal<F: CommitFrontier>(&mut self, frontier: &mut F, last: bool) -> Result<(), Error> {
        self.wake()?;
        let batch = frontier.commit(&ends(&self.ends), last)?;
        self.since = None;
        self.bytes = 0;
        let items = std::mem::take(&mut self.items);
        self.dispatch(CommitUnit { items, batch })
    }

    fn dispatch(&mut self, parcel: CommitUnit) -> Result<(), Error> {
        self.writer = match std::mem::replace(&mut self.writer, Thread::Over) {
            Thread::Waiting(work) => {
                let thread = thread::Builder::new().name("writer".into()).spawn(work);
                Thread::Runs(thread.map_err(Error::no_thread)?)
            }
            begun => begun,
        };
        self.on_their_way += usize::from(parcel.batch.is_some());
        if let Some(to_writer) = &self.to_writer {
            // A writer that is gone has sent word of the reason.
            let _ = to_writer.send(parcel);
        }
        Ok(())
    }
}

fn ends(ends: &BTreeMap<Box<str>, u64>) -> Vec<(&str, u64)> {
    ends.iter().map(|(name, end)| (&**name, *end)).collect()
}

/// The other end, on a thread of its own: the only one that waits for disks.
struct Writer<T> {
    target: Option<Outputs>,
    jsonl: Option<Box<str>>,
    consumer: T,
    inbox: Sender<KeeperMessage>,
}

impl<T: VisitConsumer> Writer<T> {
    fn write_all(&mut self, parcels: &Receiver<CommitUnit>) -> Result<(), Error> {
        for CommitUnit { items, batch } in parcels {
            if let Some(target) = &mut self.target {
                target.append(&items, self.jsonl.as_deref())?;
                if let Some(batch) = batch {
                    target.log.write(&batch)?;
                    // A keeper that has left has no use for it.
                    let _ = self.inbox.send(KeeperMessage::Durable(batch.written()));
                }
            }
            for item in items {
                match item {
                    Item::Line(line) => self.consumer.line(&line),
                    Item::Visit(settled) => self.consumer.take(settled),
                }
            }
            self.consumer.flush();
        }
        self.target.as_ref().map_or(Ok(()), Outputs::are_there)
    }
}

/// The output files of a crawl directory, and its log.
struct Outputs {
    log: LogWriter,
    files: Arc<dyn Files>,
    ends: BTreeMap<Box<str>, u64>,
    open: BTreeMap<Box<str>, Box<dyn File>>,
    _lock: Option<Lock>,
}

impl Outputs {
    fn new(folder: LockedDirectory) -> Self {
        let LockedDirectory { log, files, outputs, lock } = folder;
        Self { log, files, ends: outputs, open: BTreeMap::new(), _lock: lock }
    }

    /// Appends what these items bring to the files that it belongs to, and makes it last.
    fn append(&mut self, items: &[Item], jsonl: Option<&str>) -> Result<(), Error> {
        if items.is_empty() {
            // The rest of a snapshot: the files of the last pages stay open, and are looked at when all has ended.
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
        // An archive file that is full is not written to again.
        self.open.retain(|open, _| pieces.iter().any(|(name, _)| **open == **name) || jsonl == Some(&**open));
        for (name, bytes) in pieces {
            let end = self.ends.get(name).copied().unwrap_or(0);
            let written = self.append_to(name, &bytes, end);
            written.map_err(|error| argiope_store::disk::failed(&*self.files, name, "write to", &error))?;
            self.ends.insert(name.into(), end + bytes.len() as u64);
        }
        Ok(())
    }

    /// A file that somebody removed takes what is written to it with it, and nobody is told: better ask at the end.
    fn are_there(&self) -> Result<(), Error> {
        for name in self.open.keys() {
            let end = self.ends.get(name).copied().unwrap_or(0);
            let length = self.files.open(name).and_then(|file| file.length());
            let length = length.map_err(|error| argiope_store::disk::failed(&*self.files, name, "find", &error))?;
            if length < end {
                let message = format!("{} was changed by somebody else", self.files.describe(name));
                return Err(StoreError::new(StoreErrorKind::File, message).into());
            }
        }
        Ok(())
    }

    fn append_to(&mut self, name: &str, bytes: &[u8], end: u64) -> std::io::Result<()> {
        let file = match self.open.entry(name.into()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                let file = if end == 0 {
                    self.files.make_folder(folder)?;
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

/// What a thread says that could not be started.
#[cfg(test)]
mod tests {
    use super::*;
    use argiope_store::disk::{self, CrawlSettings};

    #[test]
    fn a_file_that_was_removed_is_missed_though_only_a_snapshot_came_after() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = disk::open(folder.path(), &CrawlSettings::new(), usize::MAX).expect("opens");
        let files: Arc<dyn Files> = Arc::new(disk::OsFiles::new(folder.path()));
        let outputs = BTreeMap::new();
        let mut outputs = Outputs::new(LockedDirectory { log: opened.writer, files, outputs, lock: opened.lock });
        outputs.append(&[Item::Line(b"{}\n".to_vec())], Some("archive/1.warc")).expect("written");
        outputs.append(&[], None).expect("nothing to write");
        outputs.are_there().expect("it is there");
        std::fs::remove_file(folder.path().join("archive/1.warc")).expect("removed");
        assert!(outputs.are_there().is_err());
    }
}
