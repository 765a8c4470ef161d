//! [`Compaction`]: removes rounds older than the last two from the log, and indexes its complete files.
//!
//! A round begins with a new file, in which every known URL is queued again. So two things are still needed of
//! the files before the last two rounds: the names of the lanes, and the links of pages whose links were not stored
//! again since. Compaction writes these to one new file, the base. It replaces the last of the old files and is the new
//! beginning of the log. Positions in later files do not change, so compaction may run during a crawl.
//!
//! A crash at any point is harmless: the new file is complete and synced before it is renamed, and the old files are
//! removed afterwards. Old files that a crash leaves behind are removed when the directory is opened.

use super::fault::failed;
use super::files::{File, Files};
use super::graph::{GraphRound, LinkGraph};
use super::index;
use super::log::{self, FILE_HEADER, FOLDER, FRAME_HEADER, LogReader};
use super::record::Record;
use argiope_core::StoreError;
use std::io;
use std::sync::Arc;

/// A frame of the new file is written once it is longer than this.
const FULL_FRAME: usize = 1 << 20;

/// A pending compaction, which can run on any thread.
pub struct Compaction {
    pub(super) files: Arc<dyn Files>,
    /// The id of the crawl.
    pub(super) crawl: u64,
    /// The position of the first file to keep, if there is something to remove.
    pub(super) keep_from: Option<u64>,
}

impl Compaction {
    /// Compacts the log, and creates missing indexes. Does nothing if both were done before.
    pub fn run(self) -> Result<(), StoreError> {
        if let Some(keep_from) = self.keep_from {
            let written = self.write(keep_from);
            if written.is_err() {
                // Frees the space on a full disk. The original error is returned, so an error here is ignored.
                let _ = self.files.remove(log::COMPACTION_OUTPUT);
            }
            written?;
        }
        index::write_missing(&self.files, self.crawl)
    }

    /// Writes the new first file and replaces the old files by it.
    fn write(&self, keep_from: u64) -> Result<(), StoreError> {
        let (log, _) = LogReader::open(Arc::clone(&self.files), self.crawl)?;
        let Some(number) = log.compaction_number(keep_from) else { return Ok(()) };
        let mut base = BaseFile::create(&self.files, self.crawl, number)?;
        log.walk_until(log.first(), keep_from, |_, record| match record {
            Record::Lane { .. } => base.add(&record),
            _ => Ok(()),
        })?;
        // Entries that the last round replaces are kept, so that the graph of the previous round can still be read.
        let mut graph = LinkGraph::open_in(Arc::clone(&self.files), GraphRound::Previous)?;
        graph.encode_again(keep_from, |chunk| base.add(&Record::Edges { chunk }))?;
        let end = base.finish()?;
        let failed = |name: &str, doing, error| failed(&*self.files, name, doing, error);
        if end > keep_from {
            // The new file starts at position 0 and must end before the first kept file. It would not fit, so the old
            // files stay.
            return self
                .files
                .remove(log::COMPACTION_OUTPUT)
                .map_err(|error| failed(log::COMPACTION_OUTPUT, "remove", error));
        }
        let name = log::file_name(number);
        let replaced = self.files.rename(log::COMPACTION_OUTPUT, &name).and_then(|()| self.files.sync_folder(FOLDER));
        replaced.map_err(|error| failed(&name, "replace", error))?;
        log::remove_obsolete(&*self.files, number)
    }
}

/// The new first file of the log.
struct BaseFile<'a> {
    files: &'a dyn Files,
    crawl: u64,
    file: Box<dyn File>,
    /// The frame being built.
    frame: Vec<u8>,
    /// The position where the current frame starts.
    frame_start: u64,
}

impl<'a> BaseFile<'a> {
    fn create(files: &'a Arc<dyn Files>, crawl: u64, number: u32) -> Result<Self, StoreError> {
        let create = || -> io::Result<Box<dyn File>> {
            let mut file = files.create(log::COMPACTION_OUTPUT)?;
            file.write_at(&log::compacted_header(number, crawl), 0)?;
            Ok(file)
        };
        let file = create().map_err(|error| failed(&**files, log::COMPACTION_OUTPUT, "make", error))?;
        Ok(Self { files: &**files, crawl, file, frame: vec![0; FRAME_HEADER], frame_start: FILE_HEADER as u64 })
    }

    /// Adds a record.
    fn add(&mut self, record: &Record<'_>) -> Result<(), StoreError> {
        let position = self.frame_start + self.frame.len() as u64;
        record.encode(self.crawl, position, &mut self.frame);
        if self.frame.len() > FULL_FRAME { self.write_frame() } else { Ok(()) }
    }

    /// Writes the frame being built, if it has records, and starts the next one.
    fn write_frame(&mut self) -> Result<(), StoreError> {
        if self.frame.len() > FRAME_HEADER {
            log::seal(&mut self.frame, self.crawl, self.frame_start);
            let written = self.file.write_at(&self.frame, self.frame_start);
            written.map_err(|error| failed(self.files, log::COMPACTION_OUTPUT, "write to", error))?;
            self.frame_start += self.frame.len() as u64;
            self.frame.truncate(FRAME_HEADER);
        }
        Ok(())
    }

    /// Syncs the file; returns its length.
    fn finish(mut self) -> Result<u64, StoreError> {
        self.write_frame()?;
        self.file.sync().map_err(|error| failed(self.files, log::COMPACTION_OUTPUT, "sync", error))?;
        Ok(self.frame_start)
    }
}
