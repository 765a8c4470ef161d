//! [`Results`]: what a crawl has written, whether one process or a fleet ran it. All commands that read a crawl use it.
//!
//! Invariant: this module does not write, lock or wait. If the crawl is running, reading ends at the last commit.

mod latest;
pub mod segments;
mod tracer;

use std::path::{Path, PathBuf};

use argiope_core::{Outcome, StoreError};
use argiope_fleet::segments::{SegmentStore, open_graph};
use argiope_store::disk::{self, GraphRound, HistoryEvent, LinkGraph};

use crate::records::{self, ReadError, StoredRecord};

pub use tracer::Tracer;

/// The results of a crawl, by their location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Results {
    /// A crawl directory.
    Directory(PathBuf),
    /// The segments that the processes of a fleet have written, in a folder or in object storage.
    Fleet(PathBuf),
}

impl Results {
    /// The results at a location. If there are none, reading them gives the error.
    pub fn at(location: &Path) -> Self {
        let location = location.to_owned();
        if SegmentStore::has_results(&location) { Self::Fleet(location) } else { Self::Directory(location) }
    }

    pub fn location(&self) -> &Path {
        match self {
            Self::Directory(location) | Self::Fleet(location) => location,
        }
    }

    /// Refuses a location without results.
    pub fn check(&self) -> Result<(), ReadError> {
        match self {
            Self::Fleet(_) => Ok(()),
            Self::Directory(directory) if directory.join("crawl.json").is_file() => Ok(()),
            Self::Directory(directory) => {
                let why = if directory.exists() { "it has no crawl.json" } else { "it does not exist" };
                Err(ReadError::Refused(format!("{} is not a crawl directory: {why}", directory.display())))
            }
        }
    }

    /// The crawl directory. Refuses the results of a fleet.
    pub fn directory(&self) -> Result<&Path, ReadError> {
        self.check()?;
        match self {
            Self::Directory(directory) => Ok(directory),
            Self::Fleet(location) => Err(ReadError::Refused(format!(
                "{} has the results of many machines; argiope merge makes a crawl directory of them",
                location.display()
            ))),
        }
    }

    /// The location of the results of a fleet. Refuses a crawl directory.
    pub fn fleet(&self) -> Result<&Path, ReadError> {
        match self {
            Self::Fleet(location) => Ok(location),
            Self::Directory(directory) => {
                let why = format!("{} does not contain the results of many machines", directory.display());
                Err(ReadError::Refused(why))
            }
        }
    }

    /// The process that is crawling in this directory now. Not known for a fleet.
    pub fn crawled_by(&self) -> Option<String> {
        disk::crawled_by(self.location())
    }

    /// Whether the crawl is running; for a fleet, whether its latest round is not finished.
    pub fn is_running(&self) -> Result<bool, ReadError> {
        match self {
            Self::Directory(directory) => Ok(disk::crawled_by(directory).is_some()),
            Self::Fleet(location) => Ok(!SegmentStore::latest(location).and_then(|round| round.is_final())?),
        }
    }

    /// The link graph.
    pub fn graph(&self, round: GraphRound) -> Result<LinkGraph, StoreError> {
        open_graph(self.location(), round)
    }

    /// Finds what the results contain about single URLs.
    pub fn tracer(&self) -> Result<Tracer, ReadError> {
        Tracer::open(self)
    }

    /// Calls `each` with every event, in order.
    pub fn walk(&self, each: impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>) -> Result<(), ReadError> {
        match self {
            Self::Directory(directory) => disk::history(directory, each).map(drop),
            Self::Fleet(location) => segments::walk(location, each),
        }
    }

    /// The first value that `find` returns for an event. Nothing is read after it.
    pub fn find<T>(
        &self,
        mut find: impl FnMut(HistoryEvent<'_>) -> Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let mut found = None;
        let walked = self.walk(|event| {
            found = find(event)?;
            // The error ends the walk.
            if found.is_some() { Err(ReadError::Refused(String::new())) } else { Ok(()) }
        });
        if found.is_some() { Ok(found) } else { walked.map(|()| None) }
    }

    /// Calls `each` with every event in order, but with only the last record of each URL in a round.
    ///
    /// A URL has several records in a round if a later run queued it again. That happens to roots that failed, to URLs of
    /// hosts that stopped responding, to URLs that were skipped and are in scope again, and to pages that a program with
    /// the library did not process before it ended. While such a URL is queued, it has no record.
    pub fn walk_latest(&self, each: impl FnMut(HistoryEvent<'_>) -> Result<(), ReadError>) -> Result<(), ReadError> {
        match self {
            Self::Directory(_) => latest::walk(self, each),
            // The segments have one record for each URL.
            Self::Fleet(_) => self.walk(each),
        }
    }

    /// Calls `each` with the records of all rounds, in order. If a URL has several records in a round, only the last one
    /// is passed.
    pub fn lines(&self, mut each: impl FnMut(&[u8]) -> Result<(), ReadError>) -> Result<(), ReadError> {
        self.walk_latest(|event| match event {
            // The marker of a URL that was queued and then skipped is not a record for users.
            HistoryEvent::FinalOutcome { line, .. } if records::read_lazily(line)?.is_skip() => Ok(()),
            HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } => each(line),
            HistoryEvent::Link { .. } | HistoryEvent::Note { .. } | HistoryEvent::Round => Ok(()),
        })
    }

    /// Calls `each` with the page records of all rounds.
    pub fn pages(&self, mut each: impl FnMut(&StoredRecord) -> Result<(), ReadError>) -> Result<(), ReadError> {
        self.lines(|line| {
            let record = records::read(line)?;
            if record.is_page() { each(&record) } else { Ok(()) }
        })
    }

    /// Calls `each` with the page records of the latest round: those since the last `--recrawl`, or all.
    pub fn latest_pages(&self, mut each: impl FnMut(&StoredRecord) -> Result<(), ReadError>) -> Result<(), ReadError> {
        self.latest(|record| if record.is_page() { each(&record) } else { Ok(()) })
    }

    /// As [`Self::latest_pages`], with the bytes of the records.
    pub fn latest_page_lines(&self, mut each: impl FnMut(&[u8]) -> Result<(), ReadError>) -> Result<(), ReadError> {
        self.latest_lines(|line| if records::read_lazily(line)?.is_page() { each(line) } else { Ok(()) })
    }

    /// Calls `each` with the records of the latest round, also those of robots.txt files, sitemaps and runs, and the
    /// markers of skipped URLs. If a URL has several records, only the last one is passed.
    pub fn latest(&self, mut each: impl FnMut(StoredRecord) -> Result<(), ReadError>) -> Result<(), ReadError> {
        self.latest_lines(|line| each(records::read(line)?))
    }

    /// As [`Self::latest`], with the bytes of the records.
    fn latest_lines(&self, mut each: impl FnMut(&[u8]) -> Result<(), ReadError>) -> Result<(), ReadError> {
        // The first pass counts the rounds after the first. The second pass counts them down to find the last one.
        let mut rounds_left = 0_u64;
        self.walk(|event| {
            rounds_left += u64::from(event == HistoryEvent::Round);
            Ok(())
        })?;
        self.walk_latest(|event| match event {
            HistoryEvent::Round => {
                rounds_left = rounds_left.saturating_sub(1);
                Ok(())
            }
            HistoryEvent::FinalOutcome { line, .. } | HistoryEvent::Line { line } if rounds_left == 0 => each(line),
            _ => Ok(()),
        })
    }

    /// Whether a root has given a page, directly or after redirects, in any round. Reads until the first such page.
    pub fn has_root_page(&self) -> Result<bool, ReadError> {
        let found = self.find(|event| {
            let HistoryEvent::FinalOutcome { outcome: Outcome::Ok | Outcome::NotModified, line, .. } = event else {
                return Ok(None);
            };
            let record = records::read(line)?;
            Ok((record.is_page() && record.depth() == 0).then_some(()))
        })?;
        Ok(found.is_some())
    }
}
