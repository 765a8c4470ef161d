//! [`LogWriter`]: writes frames to disk.

use super::{CommitBatch, FILE_HEADER, FOLDER, file_name, file_number, header};
use crate::disk::crawl_file::{CrawlFile, FORMAT};
use crate::disk::fault::failed;
use crate::disk::files::{File, Files};
use crate::disk::snapshot_file::SnapshotFile;
use argiope_core::StoreError;
use std::io;
use std::sync::Arc;

/// Writes frames to disk, one after the other. Used by the writer thread, which may block on the disk.
pub struct LogWriter {
    pub(super) files: Arc<dyn Files>,
    /// The id of the crawl.
    pub(super) crawl: u64,
    /// The file that frames are written to, and its name.
    pub(super) file: Box<dyn File>,
    pub(super) name: String,
    /// The position of the file's header.
    pub(super) base: u64,
    /// The snapshot being written.
    pub(super) snapshot: SnapshotFile,
    /// Set until the first commit: the first log file is not synced, and `crawl.json` is not written yet.
    pub(super) unwritten_crawl_file: Option<CrawlFile>,
    /// `crawl.json` with changed settings. It is written after the next commit, which contains the links that the new
    /// settings admit.
    pub(super) changed_settings: Option<CrawlFile>,
    /// The error of a failed write. The state of the disk is then unknown, so later writes fail too.
    pub(super) failure: Option<StoreError>,
}

impl LogWriter {
    /// Creates the first file of a new log. Syncing is left to the first commit, so that a crawl starts without waiting
    /// for the disk.
    pub(in crate::disk) fn create(files: Arc<dyn Files>, crawl: CrawlFile) -> Result<Self, StoreError> {
        files.make_folder(FOLDER).map_err(|error| failed(&*files, FOLDER, "make", error))?;
        // Files may be left from an interrupted creation or removal of the directory.
        for name in files.list(FOLDER).map_err(|error| failed(&*files, FOLDER, "list", error))? {
            let Some(name) = file_number(&name).map(file_name) else { continue };
            files.remove(&name).map_err(|error| failed(&*files, &name, "remove", error))?;
        }
        let (file, name) = begin_file(&*files, 1, crawl.crawl, 0)?;
        Ok(Self {
            files,
            crawl: crawl.crawl,
            file,
            name,
            base: 0,
            snapshot: SnapshotFile::default(),
            unwritten_crawl_file: Some(crawl),
            changed_settings: None,
            failure: None,
        })
    }

    /// Changes the settings of the crawl with the next commit.
    pub(in crate::disk) fn write_settings(&mut self, crawl: CrawlFile) {
        self.changed_settings = Some(crawl);
    }

    /// Makes the start of a new log durable, and only then writes `crawl.json`.
    fn make_durable(&mut self, mut crawl: CrawlFile) -> Result<(), StoreError> {
        let mut sync = || -> io::Result<()> {
            self.file.sync()?;
            self.files.sync_folder(FOLDER)?;
            self.files.sync_folder("")
        };
        sync().map_err(|error| failed(&*self.files, &self.name, "sync", error))?;
        crawl.write(&*self.files)
    }

    /// Writes a frame and returns once it is durable. The outputs that the commit refers to must already be durable.
    pub fn write(&mut self, batch: &CommitBatch) -> Result<(), StoreError> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let written = self.try_write(batch);
        self.failure = written.as_ref().err().cloned();
        written
    }

    /// Writes a frame, and what has to be written before and after it.
    fn try_write(&mut self, batch: &CommitBatch) -> Result<(), StoreError> {
        if let Some(crawl) = self.unwritten_crawl_file.take() {
            self.make_durable(crawl)?;
        }
        if let Some(number) = batch.new_file_number {
            self.base = batch.start - FILE_HEADER as u64;
            (self.file, self.name) = begin_file(&*self.files, number, self.crawl, self.base)?;
            let sync = self.file.sync().and_then(|()| self.files.sync_folder(FOLDER));
            sync.map_err(|error| failed(&*self.files, &self.name, "begin", error))?;
        }
        if !batch.frame.is_empty() {
            let error = |doing, error| failed(&*self.files, &self.name, doing, error);
            self.file.write_at(&batch.frame, batch.start - self.base).map_err(|e| error("write to", e))?;
            self.file.sync().map_err(|e| error("sync", e))?;
            if let Some(mut crawl) = self.changed_settings.take() {
                crawl.write(&*self.files)?;
            }
        }
        batch.snapshot.as_ref().map_or(Ok(()), |portion| self.snapshot.write(&*self.files, portion))
    }
}

/// Creates a log file with its header. `base` is the position of the header.
fn begin_file(files: &dyn Files, number: u32, crawl: u64, base: u64) -> Result<(Box<dyn File>, String), StoreError> {
    let name = file_name(number);
    let begin = || -> io::Result<Box<dyn File>> {
        let mut file = files.create(&name)?;
        file.write_at(&header(FORMAT, number, crawl, base), 0)?;
        Ok(file)
    };
    let file = begin().map_err(|error| failed(files, &name, "begin", error))?;
    Ok((file, name))
}
