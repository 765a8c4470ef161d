//! [`RecordLog`]: the records of a crawl directory from a position on, for readers that continue where they stopped.
//!
//! Invariant: the position of a record never changes, so a position and the id of the crawl identify a record. Reading
//! takes no lock, and ends with the last complete commit.

use std::path::Path;
use std::sync::Arc;

use argiope_core::StoreError;

use super::crawl_file::CrawlFile;
use super::files::Files;
use super::log::LogReader;
use super::os_files::OsFiles;
use super::record::Record;

/// The records of a crawl directory, in the order of their commits.
pub struct RecordLog {
    log: LogReader,
    crawl: u64,
}

impl RecordLog {
    /// Opens the log. Records of later commits may be seen or not.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let files: Arc<dyn Files> = Arc::new(OsFiles::new(directory));
        let crawl = CrawlFile::read(&*files)?.crawl;
        let (log, _) = LogReader::open(files, crawl)?;
        Ok(Self { log, crawl })
    }

    /// The id of the crawl.
    pub fn crawl(&self) -> u64 {
        self.crawl
    }

    /// The position at which the log begins; records before it were removed by a compaction.
    pub fn first(&self) -> u64 {
        self.log.first()
    }

    /// Calls `each` with the position and the text of every record from `from` on, which is 0 or what an earlier call
    /// returned: where a later call continues. Records that a compaction has removed meanwhile are left out.
    pub fn read<E: From<StoreError>>(
        &self,
        from: u64,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let tail = self.log.walk(from.max(self.log.first()), |position, record| match record {
            Record::FinalOutcome { line, .. } | Record::Line { line } => each(position, line),
            _ => Ok(()),
        })?;
        Ok(tail.end)
    }
}
