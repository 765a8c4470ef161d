//! The writer threads' side of the commit queue: the code that waits for the disk.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use argiope_core::crawl::schedule::frontier::{StoreError, StoreErrorKind};
use argiope_core::crawl::schedule::keeper::ArchiveChunk;
use argiope_store::disk::{File, Files, Lock, LogWriter};

use super::{CommitUnit, Item, LockedDirectory};
use crate::error::Error;
use crate::keeper_message::{Inbox, KeeperMessage, VisitConsumer};

/// The writer's side, which runs on its own threads. Only these wait for the disk.
pub(super) struct Writer<T> {
    /// The output files; `None` without a crawl directory.
    pub outputs: Option<OutputFiles>,
    /// The log; `None` without a crawl directory.
    pub log: Option<CrawlLog>,
    /// The name of the output file for all records.
    pub jsonl: Option<Box<str>>,
    pub consumer: T,
    pub inbox: Inbox,
}

impl<T: VisitConsumer> Writer<T> {
    /// Makes all commits durable, in order. Each of the two threads reports its own failure to the keeper before it
    /// waits for the other one, because the other one may be waiting for the keeper.
    pub fn run(self, commits: Receiver<CommitUnit>) -> Result<(), Error> {
        let Self { outputs, mut log, jsonl, mut consumer, inbox } = self;
        let mut finish = |commit| finish_commit(commit, log.as_mut(), &mut consumer, &inbox);
        let Some(mut outputs) = outputs else {
            return reporting(&inbox, || commits.iter().try_for_each(&mut finish));
        };
        thread::scope(|scope| {
            // Without a buffer, the outputs thread is at most one commit ahead of the log.
            let (to_log, synced) = sync_channel(0);
            let to_keeper = inbox.clone();
            let append = move || reporting(&to_keeper, || outputs.append_all(&commits, jsonl.as_deref(), &to_log));
            let outputs_thread = thread::Builder::new().name("outputs".into()).spawn_scoped(scope, append);
            let outputs_thread = reporting(&inbox, || outputs_thread.map_err(Error::no_thread))?;
            let written = reporting(&inbox, || synced.iter().try_for_each(&mut finish));
            // Without a receiver, the outputs thread ends with its next commit.
            drop(synced);
            let appended = outputs_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.and(appended)
        })
    }
}

/// Does a part of the writer's work. Sends an error or a panic to the keeper at once, which then ends the crawl.
fn reporting<R>(inbox: &Inbox, work: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::internal("a fault in Argiope while records were written; what was committed is safe"))
    });
    if let Err(fault) = &done {
        // If the keeper has ended, it gets the error from `CommitQueue::end`.
        let _ = inbox.send(KeeperMessage::Fault(fault.clone()));
    }
    done
}

/// Writes the frame of a commit whose outputs are durable, and delivers its visits.
fn finish_commit<T: VisitConsumer>(
    CommitUnit { items, batch, .. }: CommitUnit,
    log: Option<&mut CrawlLog>,
    consumer: &mut T,
    inbox: &Inbox,
) -> Result<(), Error> {
    if let Some((log, batch)) = log.zip(batch) {
        log.writer.write(&batch)?;
        // The keeper does not need the portion of a snapshot that the batch may contain. Sending fails if the keeper
        // has ended. Then the message is not needed.
        let _ = inbox.send(KeeperMessage::Durable(batch.without_portion()));
    }
    deliver(items, consumer);
    Ok(())
}

/// Passes the items of a commit to the consumer.
pub(super) fn deliver<T: VisitConsumer + ?Sized>(items: Vec<Item>, consumer: &mut T) {
    for item in items {
        match item {
            Item::Line(line) => consumer.line(&line),
            Item::Visit(settled) => consumer.take(settled),
        }
    }
    consumer.flush();
}

/// The log of a crawl directory, and a share of the directory's lock.
pub(super) struct CrawlLog {
    writer: LogWriter,
    _lock: Option<Arc<Lock>>,
}

/// The bytes of a commit for each output file.
type Pieces<'a> = Vec<(&'a str, Vec<u8>)>;

/// The output files of a crawl directory.
pub(super) struct OutputFiles {
    files: Arc<dyn Files>,
    /// The length of each file.
    lengths: BTreeMap<Box<str>, u64>,
    /// The files that are open for writing.
    open: BTreeMap<Box<str>, Box<dyn File>>,
}

impl OutputFiles {
    pub fn new(folder: LockedDirectory) -> (Self, CrawlLog) {
        let LockedDirectory { log, files, outputs, lock } = folder;
        (Self { files, lengths: outputs, open: BTreeMap::new() }, CrawlLog { writer: log, _lock: lock })
    }

    /// Appends the items of all commits to their files, and passes each commit on to the log.
    ///
    /// Before a file receives its first bytes, the commit that lists it is durable. So the next run knows that this crawl
    /// wrote it, whichever write fails.
    pub fn append_all(
        &mut self,
        commits: &Receiver<CommitUnit>,
        jsonl: Option<&str>,
        to_log: &SyncSender<CommitUnit>,
    ) -> Result<(), Error> {
        for commit in commits {
            self.begin(&commit.begins)?;
            let pieces = pieces(&commit.items, jsonl);
            let is_first = pieces.iter().any(|(name, _)| self.length(name) == 0);
            // An empty commit is taken when all commits before it are finished.
            if is_first && to_log.send(CommitUnit::default()).is_err() {
                return Ok(());
            }
            self.append(pieces, jsonl)?;
            if to_log.send(commit).is_err() {
                // The log could not be written. The other thread has reported that.
                return Ok(());
            }
        }
        self.check_existence()
    }

    /// Creates these files, which the crawl has not written to. They stay empty until a commit that lists them is
    /// durable, so any content was written by another program.
    pub fn begin(&mut self, names: &[Box<str>]) -> Result<(), Error> {
        for name in names {
            let begun = self.begin_file(name);
            let file = begun.map_err(|error| argiope_store::disk::failed(&*self.files, name, "begin", error))?;
            self.open.insert(name.clone(), file);
        }
        Ok(())
    }

    fn begin_file(&self, name: &str) -> io::Result<Box<dyn File>> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.files.make_folder(folder)?;
        match self.files.open(name) {
            Ok(file) if file.length()? > 0 => {
                let why = "it was not written by this crawl; move it";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let file = self.files.create(name)?;
        self.files.sync_folder(folder)?;
        Ok(file)
    }

    /// The length of a file including all commits so far.
    fn length(&self, name: &str) -> u64 {
        self.lengths.get(name).copied().unwrap_or(0)
    }

    /// Appends bytes to their files and syncs them.
    pub fn append(&mut self, pieces: Pieces<'_>, jsonl: Option<&str>) -> Result<(), Error> {
        if pieces.is_empty() {
            // The commit has only a frame or a portion of a snapshot. Keep the output files open for `check_existence`.
            return Ok(());
        }
        // Close archive files that this commit does not write to. Most of them are full. One that is not is opened
        // again when needed.
        self.open.retain(|open, _| pieces.iter().any(|(name, _)| **open == **name) || jsonl == Some(&**open));
        for (name, bytes) in pieces {
            let length = self.length(name);
            let written = self.append_to(name, &bytes, length);
            written.map_err(|error| argiope_store::disk::failed(&*self.files, name, "write to", error))?;
            self.lengths.insert(name.into(), length + bytes.len() as u64);
        }
        Ok(())
    }

    /// Checks at the end of the crawl that the files still exist. Writing to a removed file does not fail.
    pub fn check_existence(&self) -> Result<(), Error> {
        for name in self.open.keys() {
            let committed = self.lengths.get(name).copied().unwrap_or(0);
            let length = self.files.open(name).and_then(|file| file.length());
            let length = length.map_err(|error| argiope_store::disk::failed(&*self.files, name, "find", error))?;
            if length < committed {
                let message = format!("{} was changed by another program", self.files.describe(name));
                return Err(StoreError::new(StoreErrorKind::File, message).into());
            }
        }
        Ok(())
    }

    /// Appends bytes to a file and syncs it.
    fn append_to(&mut self, name: &str, bytes: &[u8], committed: u64) -> io::Result<()> {
        let file = match self.open.entry(name.into()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => place.insert(self.files.open(name)?),
        };
        file.write_at(bytes, committed)?;
        file.sync()
    }
}

/// The bytes that these items add to each output file. `jsonl` is the file for all records.
pub(super) fn pieces<'a>(items: &'a [Item], jsonl: Option<&'a str>) -> Pieces<'a> {
    let mut pieces: Pieces<'a> = Vec::new();
    for item in items {
        let (line, chunk) = match item {
            Item::Line(line) => (line, None),
            Item::Visit(settled) => (&settled.line, settled.archive.as_ref()),
        };
        let chunk = chunk.map(|ArchiveChunk { file, bytes, .. }| (&**file, bytes));
        for (name, bytes) in jsonl.map(|name| (name, line)).into_iter().chain(chunk) {
            match pieces.iter_mut().find(|(known, _)| *known == name) {
                Some((_, collected)) => collected.extend_from_slice(bytes),
                None => pieces.push((name, bytes.clone())),
            }
        }
    }
    pieces
}
