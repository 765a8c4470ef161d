//! [`LinkGraph`]: the links of all pages of a crawl, read from its directory.
//!
//! Nothing is locked, and memory does not grow with the number of links: pages are passed to the caller one after the
//! other, with the dictionary of one block in memory. Where there was a recrawl, eight bytes and a number for each page
//! say which of its entries is the latest.
//!
//! Files of format 1 have no graph. Their part of it comes from the records that list links, and otherwise from the page
//! on which each URL was found first.

use super::directory::CrawlFile;
use super::fault::damaged;
use super::files::Files;
use super::graph_codec::{GraphDecoder, GraphEdge, GraphEncoder, KeyMap, NewEdge, PageEdges};
use super::index::{IndexKey, LogIndex};
use super::log::{FOLDER, LogReader};
use super::os_files::OsFiles;
use super::record::Record;
use crate::lanes::LaneNames;
use argiope_core::{LinkKind, StoreError};
use serde::Deserialize;
use std::borrow::Cow;
#[cfg(feature = "fleet")]
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Which state of the graph is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphRound {
    /// After everything that is committed.
    #[default]
    Latest,
    /// When the last `--recrawl` began.
    Previous,
}

/// The links of all pages of a crawl.
pub struct LinkGraph {
    files: Arc<dyn Files>,
    key: u64,
    /// `None` for the results of many machines.
    log: Option<LogReader>,
    #[cfg_attr(not(feature = "fleet"), allow(dead_code))]
    directory: PathBuf,
    /// Where the chunks are, in order.
    chunks: Vec<u64>,
    /// Where the last round began, if there is more than one.
    round: Option<u64>,
    /// With more than one round: the entry that counts, by source.
    latest: Option<KeyMap<u64>>,
}

/// The pages that link to a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referrers {
    /// How many pages there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<String>,
}

/// How many pages link to each URL: about 35 bytes for each URL.
pub struct Inlinks {
    key: u64,
    counts: KeyMap<u32>,
}

impl Inlinks {
    /// How many pages link to this URL, itself left out.
    pub fn of(&self, url: &str) -> u32 {
        self.counts.get(&xxh3_64_with_seed(url.as_bytes(), self.key)).copied().unwrap_or(0)
    }
}

impl LinkGraph {
    /// Opens the graph of a crawl directory, or of the results of a crawl on many machines.
    pub fn open(directory: &Path, round: GraphRound) -> Result<Self, StoreError> {
        let files = Arc::new(OsFiles::new(directory));
        #[cfg(feature = "fleet")]
        if crate::segments::SegmentStore::is_there(directory) {
            let (directory, key) = (directory.to_owned(), RandomState::new().hash_one(0));
            return Ok(Self { files, key, log: None, directory, chunks: Vec::new(), round: None, latest: None });
        }
        Self::open_in(files, round)
    }

    /// The same for any kind of files.
    pub fn open_in(files: Arc<dyn Files>, round: GraphRound) -> Result<Self, StoreError> {
        let crawl = CrawlFile::read(&*files)?;
        let (log, _) = LogReader::open(Arc::clone(&files), crawl.crawl)?;
        let index = LogIndex::open(&*files, &log, true)?;
        let mut chunks = index.values(&*files, IndexKey::Chunk)?;
        let last_round = index.values(&*files, IndexKey::Round)?.pop();
        if let (GraphRound::Previous, Some(start)) = (round, last_round) {
            chunks.retain(|position| *position < start);
        }
        let (key, log, directory) = (crawl.key, Some(log), PathBuf::new());
        let mut graph = Self { files, key, log, directory, chunks, round: None, latest: None };
        if last_round.is_some() {
            graph.round = last_round.filter(|_| round == GraphRound::Previous);
            graph.latest = Some(graph.latest_entries()?);
        }
        Ok(graph)
    }

    /// Calls `each` with every page that has links, in the order of the crawl. A URL is a source once, or twice where it
    /// is a sitemap and a page.
    pub fn pages<E: From<StoreError>>(
        &mut self,
        mut each: impl FnMut(PageEdges<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let latest = self.latest.take();
        let (mut entry, key) = (0, self.key);
        let walked = self.entries(|page| {
            entry += 1;
            let counts = latest.as_ref().is_none_or(|latest| latest.get(&source_key(&page, key)) == Some(&entry));
            if counts && !(page.is_empty() && page.cut == 0) { each(page) } else { Ok(()) }
        });
        self.latest = latest;
        walked
    }

    /// How many pages link to each URL. Links by which pages are reached count: anchors, frames, refreshes, redirects and
    /// the like; images, canonical links and sitemaps do not.
    pub fn inlinks(&mut self) -> Result<Inlinks, StoreError> {
        let key = self.key;
        let mut counts: KeyMap<u32> = KeyMap::default();
        let mut of_page = Vec::new();
        self.pages(|page| {
            of_page.clear();
            let targets = page.edges().filter(|edge| edge.kind.is_page() && edge.target != page.source);
            if !page.is_sitemap {
                of_page.extend(targets.map(|edge| xxh3_64_with_seed(edge.target.as_bytes(), key)));
            }
            of_page.sort_unstable();
            of_page.dedup();
            for target in &of_page {
                let count = counts.entry(*target).or_insert(0);
                *count = count.saturating_add(1);
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(Inlinks { key, counts })
    }

    /// For each of these URLs, in their order: how many pages link to it in any way, and the first `most` of them. One
    /// pass over the graph, however many URLs there are.
    pub fn referrers<T: AsRef<str>>(&mut self, urls: &[T], most: usize) -> Result<Vec<Referrers>, StoreError> {
        let key = self.key;
        let mut found = vec![Referrers::default(); urls.len()];
        let mut places: KeyMap<Vec<usize>> = KeyMap::default();
        for (place, url) in urls.iter().enumerate() {
            places.entry(xxh3_64_with_seed(url.as_ref().as_bytes(), key)).or_default().push(place);
        }
        let mut of_page: Vec<usize> = Vec::new();
        self.pages(|page| {
            of_page.clear();
            for edge in page.edges().filter(|edge| edge.target != page.source) {
                of_page.extend(places.get(&xxh3_64_with_seed(edge.target.as_bytes(), key)).into_iter().flatten());
            }
            of_page.sort_unstable();
            of_page.dedup();
            for place in &of_page {
                let Some(referrers) = found.get_mut(*place) else { continue };
                referrers.count += 1;
                if referrers.first.len() < most {
                    referrers.first.push(page.source.to_owned());
                }
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(found)
    }

    /// Encodes the latest entries that were stored before a position, for a log that begins with them.
    pub(super) fn encode_again(
        &mut self,
        before: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let latest = self.latest.take().unwrap_or_default();
        self.chunks.retain(|position| *position < before);
        let (mut encoder, mut entry, key) = (GraphEncoder::new(self.key), 0, self.key);
        self.entries(|page| {
            entry += 1;
            if page.is_empty() && page.cut == 0 || latest.get(&source_key(&page, key)) != Some(&entry) {
                return Ok(());
            }
            let edges: Vec<NewEdge<'_>> = page
                .edges()
                .map(|GraphEdge { target, kind, nofollow, anchor }| NewEdge { target, kind, nofollow, anchor })
                .collect();
            let with_texts = edges.iter().any(|edge| edge.anchor.is_some());
            let chunk = encoder.add(page.source, page.is_sitemap, page.cut, edges.into_iter(), with_texts);
            chunk.map_or(Ok(()), |chunk| each(&chunk))
        })?;
        encoder.take().map_or(Ok(()), |chunk| each(&chunk))
    }

    /// The number of the last entry of each source.
    fn latest_entries(&mut self) -> Result<KeyMap<u64>, StoreError> {
        let (mut latest, mut entry, key) = (KeyMap::default(), 0, self.key);
        self.entries(|page| {
            entry += 1;
            latest.insert(source_key(&page, key), entry);
            Ok::<(), StoreError>(())
        })?;
        Ok(latest)
    }

    /// Calls `each` with every entry, also with those that a later one replaces.
    fn entries<E: From<StoreError>>(&mut self, mut each: impl FnMut(PageEdges<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut decoder = GraphDecoder::default();
        self.old_entries(&mut decoder, &mut each)?;
        let Self { files, log, chunks, .. } = self;
        let Some(log) = log else {
            #[cfg(feature = "fleet")]
            return segment_entries(&self.directory, &mut decoder, each);
            #[cfg(not(feature = "fleet"))]
            return Ok(());
        };
        for position in chunks.iter() {
            let mut ended = Ok(());
            let decoded = log.read(*position, |record| match record {
                Record::Edges { chunk, .. } => decoder
                    .decode(chunk, |page| each(page).map_err(|error| ended = Err(error)))
                    .is_ok_and(|read| read.is_some()),
                _ => false,
            })?;
            ended?;
            if !decoded {
                let what = format!("the links at position {position} cannot be read");
                return Err(damaged(&**files, FOLDER, &what).into());
            }
        }
        Ok(())
    }

    /// The entries of files that have no graph. A page's new links are in the log before its record, so only one page's
    /// links are held.
    fn old_entries<E: From<StoreError>>(
        &self,
        decoder: &mut GraphDecoder,
        each: &mut impl FnMut(PageEdges<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(log) = &self.log else { return Ok(()) };
        let end = log.without_graph().min(self.round.unwrap_or(u64::MAX));
        if end <= log.first() {
            return Ok(());
        }
        let mut names = LaneNames::default();
        let mut page = (0, String::new());
        let mut found: Vec<(String, LinkKind)> = Vec::new();
        let mut ended = Ok(());
        let stop = || StoreError::new(argiope_core::StoreErrorKind::Misuse, "");
        let walked = log.walk_until(log.first(), end, |position, record| {
            match record {
                Record::Lane { name } => {
                    names.intern(name)?;
                }
                Record::Page { url } => page = (position, url.to_owned()),
                Record::Link(link) if !link.again && link.replaces.is_none() && link.via == Some(page.0) => {
                    let scheme = if link.https { "https://" } else { "http://" };
                    let url = [scheme, names.name(link.lane).unwrap_or(""), link.rest].concat();
                    found.push((url, link.kind));
                }
                Record::Fate { line, .. } => {
                    let Ok(record) = serde_json::from_slice::<OldRecord<'_>>(line) else { return Ok(()) };
                    let mut links = record.links();
                    if record.link_list.is_none() && page.1 == record.url {
                        let new = found.iter().filter(|(_, kind)| *kind != LinkKind::Redirect);
                        links.extend(new.map(|(target, kind)| plain(target, *kind)));
                    }
                    if !links.is_empty()
                        && let Some(entry) = decoder.page(&record.url, record.r#type == "aux", links.into_iter())
                        && let Err(error) = each(entry)
                    {
                        ended = Err(error);
                        return Err(stop());
                    }
                    found.clear();
                }
                _ => {}
            }
            Ok(())
        });
        ended?;
        match walked {
            Err(error) if error.kind != argiope_core::StoreErrorKind::Misuse => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The entries of a crawl on many machines: its records list the links.
#[cfg(feature = "fleet")]
fn segment_entries<E: From<StoreError>>(
    directory: &Path,
    decoder: &mut GraphDecoder,
    mut each: impl FnMut(PageEdges<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut ended = Ok(());
    let read = crate::segments::SegmentStore::open(directory).read(|line| {
        let Ok(record) = serde_json::from_slice::<OldRecord<'_>>(line) else { return Ok(()) };
        let links = record.links();
        if !links.is_empty()
            && let Some(entry) = decoder.page(&record.url, record.r#type == "aux", links.into_iter())
            && let Err(error) = each(entry)
        {
            ended = Err(error);
            return Err(std::io::Error::other("stopped"));
        }
        Ok(())
    });
    ended?;
    read.map_err(|error| {
        let message = format!("{}: {error}", directory.display());
        StoreError::new(argiope_core::StoreErrorKind::File, message).into()
    })
}

/// A page and a sitemap at the same URL are different sources.
fn source_key(page: &PageEdges<'_>, key: u64) -> u64 {
    xxh3_64_with_seed(page.source.as_bytes(), key) ^ u64::from(page.is_sitemap)
}

/// What a record that lists links says about links.
#[derive(Deserialize)]
struct OldRecord<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    redirect: Option<Cow<'a, str>>,
    #[serde(borrow)]
    link_list: Option<Vec<OldLink<'a>>>,
}

impl OldRecord<'_> {
    fn links(&self) -> Vec<NewEdge<'_>> {
        let listed = self.link_list.iter().flatten().map(|link| NewEdge {
            target: &link.url,
            kind: link.kind,
            nofollow: link.nofollow,
            anchor: link.anchor.as_deref(),
        });
        listed.chain(self.redirect.iter().map(|to| plain(to, LinkKind::Redirect))).collect()
    }
}

/// An edge of which no more is known.
fn plain(target: &str, kind: LinkKind) -> NewEdge<'_> {
    NewEdge { target, kind, nofollow: false, anchor: None }
}

#[derive(Deserialize)]
struct OldLink<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    kind: LinkKind,
    #[serde(default)]
    nofollow: bool,
    #[serde(borrow)]
    anchor: Option<Cow<'a, str>>,
}
