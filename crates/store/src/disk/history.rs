//! The history of a crawl, read from the beginning of its log in constant memory.
//!
//! Reading takes no lock. Commits only append to the log. A compaction replaces whole files, which stay readable while
//! they are open. While a crawl runs, the history ends with its last complete commit.

use super::crawl_file::CrawlFile;
use super::files::Files;
use super::log::LogReader;
use super::os_files::OsFiles;
use super::record::{LinkRecord, QueuedAs, ROUND_NOTE, Record};
use crate::lanes::LaneNames;
use crate::link_codec::BareLink;
use argiope_core::{LinkKind, Outcome, StoreError};
use std::path::Path;
use std::sync::Arc;

/// An event in the history of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryEvent<'a> {
    /// A link was new and was queued, or was queued again (`again`). Its request may differ from a plain GET
    /// (`is_plain` is false), so that several links with the same URL exist.
    Link { url: &'a str, via: Option<&'a str>, depth: u32, tries: u8, kind: LinkKind, is_plain: bool, again: bool },
    /// A link got its outcome; `line` is its record.
    FinalOutcome { outcome: Outcome, status: Option<u16>, line: &'a [u8] },
    /// Another record: run, robots.txt.
    Line { line: &'a [u8] },
    /// All URLs are fetched again (`--recrawl`). Later events replace those before this one.
    Round,
    /// The note about a host, which replaces its earlier note.
    Note { host: &'a str, note: &'a [u8] },
}

/// Passes all events of a crawl directory to `each`, in order. An error of `each` ends the walk and is returned.
pub fn history<E: From<StoreError>>(
    directory: &Path,
    each: impl FnMut(HistoryEvent<'_>) -> Result<(), E>,
) -> Result<CrawlFile, E> {
    history_in(Arc::new(OsFiles::new(directory)), each)
}

/// Like [`history`], for any implementation of [`Files`].
pub fn history_in<E: From<StoreError>>(
    files: Arc<dyn Files>,
    mut each: impl FnMut(HistoryEvent<'_>) -> Result<(), E>,
) -> Result<CrawlFile, E> {
    let crawl = CrawlFile::read(&*files)?;
    let (log, _) = LogReader::open(files, crawl.crawl)?;
    // In a compacted log, the first round queues URLs again whose first record was removed. Such a link counts as new.
    let mut is_requeued_new = log.is_compacted;
    let mut names = LaneNames::default();
    // Position and URL of the last page record. The links after it refer to it.
    let mut page = (0, String::new());
    let mut text = String::new();
    log.walk(log.first(), |position, record| match record {
        Record::Lane { name } => Ok(names.intern(name).map(drop)?),
        Record::Page { url } => {
            page = (position, url.to_owned());
            Ok(())
        }
        Record::Link(link) => {
            let LinkRecord { lane, via, replaces, queued_as, link } = link;
            link.write_url(names.name(lane).unwrap_or(""), &mut text);
            let via = via.filter(|via| *via == page.0).map(|_| page.1.as_str());
            let BareLink { depth, tries, kind, .. } = link;
            let again = replaces.is_some() || (queued_as == QueuedAs::Again && !is_requeued_new);
            let is_plain = link.request.is_none();
            each(HistoryEvent::Link { url: &text, via, depth, tries, kind, is_plain, again })
        }
        Record::FinalOutcome { outcome, status, line, .. } => {
            is_requeued_new = false;
            each(HistoryEvent::FinalOutcome { outcome, status, line })
        }
        Record::Line { line } => {
            is_requeued_new = false;
            each(HistoryEvent::Line { line })
        }
        Record::Note { lane: ROUND_NOTE, .. } => each(HistoryEvent::Round),
        Record::Note { lane, note } => match names.name(lane) {
            Some(host) => each(HistoryEvent::Note { host, note }),
            // The note is about the crawl as a whole.
            None => Ok(()),
        },
        Record::Output { .. } | Record::Created { .. } | Record::Edges { .. } => Ok(()),
    })?;
    Ok(crawl)
}
