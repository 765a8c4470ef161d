//! [`Journal`]: the log as the frontier sees it. It has three parts: frames on disk, frames being written, and the
//! frame being built.
//!
//! Invariant: every position that `append` returns can be read from then on, on disk or in memory.

use super::fault::damaged;
use super::files::Files;
use super::log::{CommitBatch, FILE_HEADER, FRAME_HEADER, LogReader, file_name, seal};
use super::record::Record;
use super::snapshot_file::LogMark;
use argiope_core::{StoreError, StoreErrorKind};
use std::collections::VecDeque;
use std::sync::Arc;

/// A new file of the log is started when the current one has this size.
const MAX_FILE_SIZE: u64 = 256 << 20;
/// No record is added to a frame that is longer than this, because the length of a frame is stored in 32 bits. Commits
/// happen long before.
const MAX_FRAME: usize = 1 << 30;

/// The log with the records that are not on disk yet.
pub(super) struct Journal {
    files: Arc<dyn Files>,
    crawl: u64,
    /// The frames on disk.
    disk: LogReader,
    /// Sealed frames that are not acknowledged as durable, oldest first. Their records are read from memory.
    unacknowledged: VecDeque<CommitBatch>,
    /// The frame being built; its header is filled in when it is sealed.
    frame: Vec<u8>,
    /// The position of the frame being built.
    frame_at: u64,
    /// The number of the new log file, if the frame being built starts one.
    new_file_number: Option<u32>,
    /// The last frame that was sealed since the journal was opened.
    last_sealed: Option<LogMark>,
    /// The file that frames are written to.
    file: CurrentFile,
    /// The size at which a new log file is started.
    max_file_size: u64,
    /// Whether frames go to the current file even if it is full.
    stays_in_file: bool,
}

/// The log file that frames are written to.
struct CurrentFile {
    number: u32,
    /// The position of its header.
    base: u64,
}

impl Journal {
    /// A journal that continues at the end of a log.
    pub fn new(files: Arc<dyn Files>, crawl: u64, disk: LogReader, end: u64) -> Self {
        let (number, base) = disk.last_file();
        let mut journal = Self {
            files,
            crawl,
            disk,
            unacknowledged: VecDeque::new(),
            frame: Vec::new(),
            frame_at: end,
            new_file_number: None,
            last_sealed: None,
            file: CurrentFile { number, base },
            max_file_size: MAX_FILE_SIZE,
            stays_in_file: false,
        };
        journal.begin_frame(end);
        journal
    }

    /// For tests: sets the size at which a new file starts.
    pub fn set_max_file_size(&mut self, size: u64) {
        self.max_file_size = size;
    }

    /// Sets whether further frames go to the current file even if it is full.
    pub fn stay_in_file(&mut self, stay: bool) {
        self.stays_in_file = stay;
    }

    /// Starts a frame at a position, in a new file if the current one is full.
    fn begin_frame(&mut self, at: u64) {
        // A frame is often as long as the one before it, but an unusually long one must not keep its memory.
        self.frame = Vec::with_capacity(self.frame.capacity().min(1 << 20));
        self.frame.resize(FRAME_HEADER, 0);
        self.frame_at = at;
        self.new_file_number = None;
        if at - self.file.base >= self.max_file_size && !self.stays_in_file {
            self.file = CurrentFile { number: self.file.number + 1, base: at };
            self.new_file_number = Some(self.file.number);
            self.frame_at = at + FILE_HEADER as u64;
        }
    }

    /// Starts a new file with the frame being built. Does nothing if this frame has records or already starts a file,
    /// or if the current file is empty.
    pub fn begin_file(&mut self) {
        if self.is_empty() && self.new_file_number.is_none() && self.frame_at > self.file.base + FILE_HEADER as u64 {
            self.file = CurrentFile { number: self.file.number + 1, base: self.frame_at };
            self.new_file_number = Some(self.file.number);
            self.frame_at += FILE_HEADER as u64;
        }
    }

    /// Adds a record to the frame being built; returns its position.
    pub fn append(&mut self, record: &Record<'_>) -> Result<u64, StoreError> {
        if self.frame.len() > MAX_FRAME {
            return Err(StoreError::new(StoreErrorKind::Full, "a commit has more than 1 GiB"));
        }
        let position = self.frame_at + self.frame.len() as u64;
        record.encode(self.crawl, position, &mut self.frame);
        Ok(position)
    }

    /// The end of the last sealed frame.
    pub fn end(&self) -> u64 {
        if self.new_file_number.is_some() { self.file.base } else { self.frame_at }
    }

    /// The end of the last record that was appended, sealed or not.
    pub fn appended_end(&self) -> u64 {
        self.frame_at + self.frame.len() as u64
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.frame.len() <= FRAME_HEADER
    }

    /// Seals the current frame and starts another. If nothing happened since the last commit, the batch has no frame.
    /// If there was no commit since the journal was opened either, an empty frame is sealed, because a snapshot needs a
    /// mark.
    pub fn seal(&mut self) -> (CommitBatch, LogMark) {
        if let Some(mark) = self.last_sealed.filter(|_| self.is_empty()) {
            return (CommitBatch { start: self.end(), ..CommitBatch::default() }, mark);
        }
        let mut frame = std::mem::take(&mut self.frame);
        seal(&mut frame, self.crawl, self.frame_at);
        // The checksum is the last field of the header.
        let checksum = frame.get(8..FRAME_HEADER).and_then(|sum| sum.try_into().ok()).map_or(0, u64::from_le_bytes);
        let new_file_number = self.new_file_number;
        let batch =
            CommitBatch { start: self.frame_at, frame: Arc::new(frame), new_file_number, ..CommitBatch::default() };
        let mark = LogMark { frame: batch.start, end: batch.end(), checksum };
        self.last_sealed = Some(mark);
        self.unacknowledged.push_back(batch.clone());
        self.begin_frame(batch.end());
        (batch, mark)
    }

    /// Acknowledges that all frames up to `end` are on disk.
    pub fn acknowledge(&mut self, end: u64) -> Result<(), StoreError> {
        while let Some(batch) = self.unacknowledged.pop_front_if(|batch| batch.end() <= end) {
            if let Some(number) = batch.new_file_number {
                self.disk.add_section(number, batch.start - FILE_HEADER as u64)?;
            }
        }
        Ok(())
    }

    /// Whether the log has at least one complete file.
    pub fn has_complete_file(&self) -> bool {
        self.disk.numbers().count() > 1
    }

    /// Whether a compaction can remove files before a position.
    pub fn needs_compaction(&self, keep_from: u64) -> bool {
        self.disk.compaction_number(keep_from).is_some()
    }

    /// Closes the files before a position, which are not referenced any more.
    pub fn forget_before(&mut self, position: u64) {
        self.disk.forget_before(position);
    }

    /// Iterates over everything on disk.
    pub fn walk(&self, each: impl FnMut(u64, Record<'_>) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.disk.walk(self.disk.first(), each).map(|_| ())
    }

    /// Reads the record at a position.
    pub fn read<T>(&mut self, position: u64, with: impl FnOnce(Record<'_>) -> T) -> Result<T, StoreError> {
        let in_memory = if position >= self.frame_at {
            Some((self.frame_at, self.frame.as_slice()))
        } else {
            let batch = self.unacknowledged.iter().rev().find(|batch| batch.start <= position);
            batch.map(|batch| (batch.start, batch.frame.as_slice()))
        };
        let Some((start, frame)) = in_memory else { return self.disk.read(position, with) };
        let bytes = usize::try_from(position - start).ok().and_then(|skip| frame.get(skip..)).unwrap_or_default();
        let (record, _) = Record::decode(bytes, self.crawl, position)
            .map_err(|_| damaged(&*self.files, &file_name(self.file.number), "there is no record at a position"))?;
        Ok(with(record))
    }
}
