//! [`UrlTracer`]: finds all log entries about one URL and its host, using the index.
//!
//! In this file, an entry is a `Record` of the log. A record is the JSON object that some entries contain (`line` in the
//! code).

use super::crawl_file::CrawlSettings;
use super::files::Files;
use super::graph::{GraphRound, LinkGraph};
use super::index::{self, IndexKey, LogIndex};
use super::log::LogReader;
use super::os_files::OsFiles;
use super::record::{DEFERRED, LinkRecord, Record};
use crate::link_codec::{BareLink, after_host, after_scheme};
use argiope_core::crawl::record::LazyRecord;
use argiope_core::{LinkKind, StoreError, UrlRef};
use std::path::Path;
use std::sync::Arc;

/// Finds the log entries about a URL. Takes no lock. Commits after `open` are not found.
pub struct UrlTracer {
    files: Arc<dyn Files>,
    key: u64,
    log: LogReader,
    index: LogIndex,
    settings: CrawlSettings,
}

/// One occasion on which a URL was found or queued again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedLink {
    pub via: Option<String>,
    pub depth: u32,
    pub tries: u8,
    pub kind: LinkKind,
}

/// The log entries about a URL, in order: links to it, and its JSON records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlTrace {
    pub links: Vec<TracedLink>,
    pub records: Vec<Vec<u8>>,
}

/// What the log contains about a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTrace {
    /// The number of known URLs.
    pub known: u64,
    /// How many of them are settled.
    pub settled: u64,
    /// The last note about the host.
    pub note: Option<Vec<u8>>,
}

impl UrlTracer {
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_in(Arc::new(OsFiles::new(directory)))
    }

    /// Like `open`, for any kind of files.
    pub fn open_in(files: Arc<dyn Files>) -> Result<Self, StoreError> {
        let (crawl, log) = index::open_log(&files)?;
        let index = LogIndex::open(&*files, &log)?;
        Ok(Self { files, key: crawl.key, log, index, settings: crawl.settings })
    }

    /// The link graph of the crawl.
    pub fn into_graph(self) -> Result<LinkGraph, StoreError> {
        LinkGraph::with_index(self.files, self.key, self.log, &self.index, GraphRound::Latest)
    }

    /// The roots. A root that was given without a scheme is the text `https://h/ or http://h/`, which contains both
    /// candidates.
    pub fn roots(&self) -> &[String] {
        self.settings.get("roots").map_or(&[], Vec::as_slice)
    }

    /// The settings that decide which pages are crawled.
    pub fn settings(&self) -> &CrawlSettings {
        &self.settings
    }

    /// The records that begin and end each run, in order.
    pub fn runs(&mut self) -> Result<Vec<Vec<u8>>, StoreError> {
        self.lines(IndexKey::Run)
    }

    /// All log entries about a URL, which must be normalized.
    pub fn url(&mut self, url: &str) -> Result<UrlTrace, StoreError> {
        let mut trace = UrlTrace::default();
        let Some(parsed) = UrlRef::from_normal(url) else { return Ok(trace) };
        let mut records: Vec<(u64, Vec<u8>)> = Vec::new();
        let https = parsed.is_https();
        for (name, rest) in [(parsed.host(), after_host(parsed)), (DEFERRED, after_scheme(parsed))] {
            // Deferred links are queued in a lane of their own, named `DEFERRED`. If a link was moved from there to its
            // host's lane, its entries in the host's lane are enough.
            if !trace.links.is_empty() {
                break;
            }
            let Some(lane) = self.lane(name)? else { continue };
            for position in self.index.values(&*self.files, IndexKey::Link(lane, https, rest))? {
                let found = self.log.read(position, |entry| match entry {
                    Record::Link(LinkRecord { lane: found, via, link, .. })
                        if (found.0, link.https, link.rest) == (lane, https, rest) =>
                    {
                        let BareLink { depth, tries, kind, .. } = link;
                        Some((TracedLink { via: None, depth, tries, kind }, via))
                    }
                    _ => None,
                })?;
                let Some((mut link, via)) = found else { continue };
                if let Some(via) = via {
                    link.via = self.log.read(via, |entry| match entry {
                        Record::Page { url } => Some(url.to_owned()),
                        _ => None,
                    })?;
                }
                trace.links.push(link);
                for final_outcome in self.index.values(&*self.files, IndexKey::FinalOutcome(position))? {
                    let line = self.log.read(final_outcome, |entry| match entry {
                        Record::FinalOutcome { link, line, .. } if link == position => Some(line.to_vec()),
                        _ => None,
                    })?;
                    records.extend(line.map(|line| (final_outcome, line)));
                }
            }
        }
        // Records that have an entry of their own, such as that of a robots.txt.
        for position in self.index.values(&*self.files, IndexKey::Line(url))? {
            let line = self.log.read(position, |entry| match entry {
                Record::Line { line } if LazyRecord::read(line).is_some_and(|record| record.url() == url) => {
                    Some(line.to_vec())
                }
                _ => None,
            })?;
            records.extend(line.map(|line| (position, line)));
        }
        records.sort_unstable_by_key(|(position, _)| *position);
        trace.records = records.into_iter().map(|(_, line)| line).collect();
        Ok(trace)
    }

    /// What the log contains about a host.
    pub fn host(&mut self, host: &str) -> Result<HostTrace, StoreError> {
        let Some(lane) = self.lane(host)? else { return Ok(HostTrace::default()) };
        let (known, settled) = self.index.counts(&*self.files, lane)?;
        let last = self.index.values(&*self.files, IndexKey::Note(lane))?.pop();
        let note = match last {
            Some(position) => self.log.read(position, |entry| match entry {
                Record::Note { lane: found, note } if found.0 == lane => Some(note.to_vec()),
                _ => None,
            })?,
            None => None,
        };
        Ok(HostTrace { known, settled, note })
    }

    /// The lane number of a host.
    fn lane(&mut self, host: &str) -> Result<Option<u32>, StoreError> {
        for lane in self.index.values(&*self.files, IndexKey::Host(host))? {
            let Ok(lane) = u32::try_from(lane) else { continue };
            for position in self.index.values(&*self.files, IndexKey::Lane(lane))? {
                if self.log.read(position, |entry| matches!(entry, Record::Lane { name } if name == host))? {
                    return Ok(Some(lane));
                }
            }
        }
        Ok(None)
    }

    /// The records with this key that have an entry of their own ([`Record::Line`]): those of runs, robots.txt files
    /// and skips. The record of a settled link is in its [`Record::FinalOutcome`] instead.
    fn lines(&mut self, key: IndexKey<'_>) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut lines = Vec::new();
        for position in self.index.values(&*self.files, key)? {
            lines.extend(self.log.read(position, |entry| match entry {
                Record::Line { line } => Some(line.to_vec()),
                _ => None,
            })?);
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use argiope_core::crawl::schedule::frontier::put_all;
    use argiope_core::{Link, Url};

    #[test]
    fn a_collision_of_hashes_does_not_show_another_url_or_host() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut opened = super::super::open(folder.path(), &CrawlSettings::new(), usize::MAX).expect("opens");
        let urls = ["http://a.example/", "http://b.example/"];
        let links = urls.map(|url| Link::root(Url::parse(url).expect("a URL"), 0));
        let lanes = put_all(&mut opened.frontier, &links).expect("put").lanes;
        opened.frontier.write_note(lanes[0], b"note").expect("writes");
        let line = br#"{"v":1,"type":"robots","url":"http://a.example/robots.txt"}"#;
        opened.frontier.keep_line(line).expect("keeps");
        let batch = opened.frontier.commit(&[]).expect("commits").expect("a batch");
        opened.writer.write(&batch).expect("writes");

        let mut tracer = UrlTracer::open(folder.path()).expect("opens");
        let files = Arc::clone(&tracer.files);
        for other in ["b.example", "c.example"] {
            let robots = format!("http://{other}/robots.txt");
            let index = &mut tracer.index;
            index.add_collision(&*files, IndexKey::Host("a.example"), IndexKey::Host(other));
            index.add_collision(&*files, IndexKey::Line("http://a.example/robots.txt"), IndexKey::Line(&robots));
            assert_eq!(tracer.url(&robots).expect("reads"), UrlTrace::default());
            assert_eq!(tracer.host(other).expect("reads").note, None);
        }
        assert_eq!(tracer.host("b.example").expect("reads").known, 1);
        assert_eq!(tracer.host("c.example").expect("reads"), HostTrace::default());
        assert_eq!(tracer.url("http://b.example/").expect("reads").links.len(), 1);
        assert_eq!(tracer.url("http://a.example/robots.txt").expect("reads").records, [line]);
        assert_eq!(tracer.host("a.example").expect("reads").note.as_deref(), Some(b"note".as_slice()));
    }
}
