//! [`LinkGraph`]: the links of all pages of a crawl, read from its directory.
//!
//! Reading takes no lock, and memory does not grow with the number of links: pages are passed to the caller one by one,
//! with the URLs of one block (see `graph_codec`) in memory. After a recrawl, a page can have several entries. A map
//! from the hash of each page to the number of its latest entry is then kept in memory.

use super::crawl_file::CrawlFile;
use super::fault::damaged;
use super::files::Files;
use super::graph_codec::{GraphDecoder, GraphEdge, GraphEncoder, KeyMap, NewEdge, PageEdges};
use super::index::{IndexKey, LogIndex};
use super::log::{FOLDER, LogReader};
use super::os_files::OsFiles;
use super::record::{REFETCH_NOTE, Record};
use argiope_core::StoreError;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The round whose graph is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphRound {
    /// The state after the last commit.
    #[default]
    Latest,
    /// The state at the start of the last `--recrawl`.
    Previous,
}

/// The links of all pages of a crawl.
pub struct LinkGraph {
    files: Arc<dyn Files>,
    /// The key of the hashes of URLs.
    key: u64,
    source: GraphSource,
    /// Whether a source may have several entries, because there was a recrawl or pages were fetched again. Only the
    /// last entry counts.
    may_repeat_sources: bool,
    /// With `may_repeat_sources`: the number of the entry that counts, by source. Computed when it is first needed.
    latest: Option<KeyMap<u64>>,
}

/// Where the chunks of the graph are.
enum GraphSource {
    /// In the log of a crawl directory, at these positions.
    Log { log: LogReader, chunks: Vec<u64> },
    /// Outside of a crawl directory.
    Elsewhere(Box<dyn GraphChunks>),
}

/// The chunks of a graph that is stored outside of a crawl directory.
pub trait GraphChunks {
    /// Calls `each` with every chunk, oldest first. Stops at the first error of `each`.
    fn read(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), StoreError>;
}

/// The pages that link to a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referrers {
    /// The number of pages.
    pub count: u64,
    /// The first pages.
    pub first: Vec<String>,
}

/// How many pages link to each URL of a given set. Uses twelve bytes per URL.
pub struct Inlinks {
    /// The key of the hashes.
    key: u64,
    /// The hashes of the URLs, sorted.
    urls: Vec<u64>,
    /// The number of pages that link to each of `urls`.
    counts: Vec<u32>,
    /// The total number of links on all pages, including repeated ones.
    pub links: u64,
    /// Pages with links.
    pub pages: u64,
}

impl Inlinks {
    /// How many other pages link to this URL; `None` if it is not in the set.
    pub fn of(&self, url: &str) -> Option<u32> {
        let index_of_url = self.urls.binary_search(&xxh3_64_with_seed(url.as_bytes(), self.key)).ok()?;
        self.counts.get(index_of_url).copied()
    }
}

impl LinkGraph {
    /// Opens the graph of a crawl directory.
    pub fn open(directory: &Path, round: GraphRound) -> Result<Self, StoreError> {
        Self::open_in(Arc::new(OsFiles::new(directory)), round)
    }

    /// A graph with these chunks. `may_repeat_sources` says whether a page can have several entries, of which the last
    /// one counts.
    pub fn of_chunks(directory: &Path, chunks: Box<dyn GraphChunks>, may_repeat_sources: bool) -> Self {
        // The hashes are not stored, so a random key is enough.
        let (files, key) = (Arc::new(OsFiles::new(directory)), RandomState::new().hash_one(0));
        Self { files, key, source: GraphSource::Elsewhere(chunks), may_repeat_sources, latest: None }
    }

    /// [`Self::open`] on any implementation of [`Files`].
    pub fn open_in(files: Arc<dyn Files>, round: GraphRound) -> Result<Self, StoreError> {
        let crawl = CrawlFile::read(&*files)?;
        let (log, _) = LogReader::open(Arc::clone(&files), crawl.crawl)?;
        let index = LogIndex::open_for_graph(&*files, &log)?;
        Self::with_index(files, crawl.key, log, &index, round)
    }

    /// The graph of a log whose index is known.
    pub(super) fn with_index(
        files: Arc<dyn Files>,
        key: u64,
        log: LogReader,
        index: &LogIndex,
        round: GraphRound,
    ) -> Result<Self, StoreError> {
        let mut chunks = index.values(&*files, IndexKey::Chunk)?;
        let last_round = index.values(&*files, IndexKey::Round)?.pop();
        if let (GraphRound::Previous, Some(start)) = (round, last_round) {
            chunks.retain(|position| *position < start);
        }
        let is_refetched = !index.values(&*files, IndexKey::Note(REFETCH_NOTE.0))?.is_empty();
        let may_repeat_sources = last_round.is_some() || is_refetched;
        Ok(Self { files, key, source: GraphSource::Log { log, chunks }, may_repeat_sources, latest: None })
    }

    /// The number of the entry that counts, by source; `None` if each source has only one.
    fn take_latest(&mut self) -> Result<Option<KeyMap<u64>>, StoreError> {
        match self.latest.take() {
            None if self.may_repeat_sources => self.latest_entries().map(Some),
            latest => Ok(latest),
        }
    }

    /// Calls `each` with every page that has links, in the order of the crawl. A URL occurs once as a source, or twice
    /// if it is both a sitemap and a page.
    pub fn pages<E: From<StoreError>>(
        &mut self,
        mut each: impl FnMut(PageEdges<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let latest = self.take_latest()?;
        let (mut entry, key) = (0, self.key);
        let walked = self.entries(|page| {
            entry += 1;
            let is_latest = latest.as_ref().is_none_or(|latest| latest.get(&source_key(&page, key)) == Some(&entry));
            if is_latest && !(page.is_empty() && page.cut == 0) { each(page) } else { Ok(()) }
        });
        self.latest = latest;
        walked
    }

    /// The number that stands for a URL in [`LinkGraph::inlinks`].
    pub fn url_key(&self, url: &str) -> u64 {
        xxh3_64_with_seed(url.as_bytes(), self.key)
    }

    /// How many pages link to each of these URLs, given by [`LinkGraph::url_key`]. Only links that lead to pages count
    /// (anchors, frames, refreshes, redirects and the like), not images, canonical links or sitemaps.
    pub fn inlinks(&mut self, mut urls: Vec<u64>) -> Result<Inlinks, StoreError> {
        let key = self.key;
        urls.sort_unstable();
        urls.dedup();
        let mut inlinks = Inlinks { key, counts: vec![0; urls.len()], urls, links: 0, pages: 0 };
        let mut targets_of_page = Vec::new();
        self.pages(|page| {
            targets_of_page.clear();
            if page.is_sitemap {
                return Ok::<(), StoreError>(());
            }
            inlinks.links += page.len() as u64;
            inlinks.pages += 1;
            let targets = page.edges().filter(|edge| edge.kind.is_page() && edge.target != page.source);
            let keys = targets.map(|edge| xxh3_64_with_seed(edge.target.as_bytes(), key));
            targets_of_page.extend(keys.filter_map(|key| inlinks.urls.binary_search(&key).ok()));
            // A page may link to a URL in several ways.
            targets_of_page.sort_unstable();
            targets_of_page.dedup();
            for index_of_url in &targets_of_page {
                if let Some(count) = inlinks.counts.get_mut(*index_of_url) {
                    *count = count.saturating_add(1);
                }
            }
            Ok(())
        })?;
        Ok(inlinks)
    }

    /// For each of these URLs, in order: how many pages link to it with any kind of link, and the first
    /// `max_sources` of them. Needs one pass over the graph for all URLs.
    pub fn referrers<T: AsRef<str>>(&mut self, urls: &[T], max_sources: usize) -> Result<Vec<Referrers>, StoreError> {
        let key = self.key;
        let mut found = vec![Referrers::default(); urls.len()];
        let mut indexes: KeyMap<Vec<usize>> = KeyMap::default();
        for (index_of_url, url) in urls.iter().enumerate() {
            indexes.entry(xxh3_64_with_seed(url.as_ref().as_bytes(), key)).or_default().push(index_of_url);
        }
        let mut targets_of_page: Vec<usize> = Vec::new();
        self.pages(|page| {
            targets_of_page.clear();
            for edge in page.edges().filter(|edge| edge.target != page.source) {
                targets_of_page
                    .extend(indexes.get(&xxh3_64_with_seed(edge.target.as_bytes(), key)).into_iter().flatten());
            }
            targets_of_page.sort_unstable();
            targets_of_page.dedup();
            for index_of_url in &targets_of_page {
                let Some(referrers) = found.get_mut(*index_of_url) else { continue };
                referrers.count += 1;
                if referrers.first.len() < max_sources {
                    referrers.first.push(page.source.to_owned());
                }
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(found)
    }

    /// How many pages link to one URL in any way, and the first `max_sources` of them. Faster than
    /// [`LinkGraph::referrers`], and without memory for each page.
    pub fn referrers_of(&mut self, url: &str, max_sources: usize) -> Result<Referrers, StoreError> {
        let (log, chunks) = match &mut self.source {
            GraphSource::Log { log, chunks } => (log, chunks),
            GraphSource::Elsewhere(_) => {
                return Ok(self.referrers(&[url], max_sources)?.pop().unwrap_or_default());
            }
        };
        let (key, mut found) = (self.key, FoundSources::default());
        let (mut decoder, mut target_number) = (GraphDecoder::default(), None);
        for position in chunks.iter() {
            let read = log.read(*position, |record| match record {
                Record::Edges { chunk, .. } => {
                    decoder.find_links(chunk, url, &mut target_number, |source, is_sitemap, has_link| {
                        // An entry without the link only matters if it may replace an earlier one with the link.
                        if has_link || !found.sources.is_empty() {
                            found.add(
                                source,
                                // As in `source_key`.
                                xxh3_64_with_seed(source.as_bytes(), key) ^ u64::from(is_sitemap),
                                has_link,
                            );
                        }
                    })
                }
                _ => None,
            })?;
            if read.is_none() {
                let what = format!("the links at position {position} cannot be read");
                return Err(damaged(&*self.files, FOLDER, &what));
            }
        }
        let mut sources: Vec<(u64, Option<String>)> = found.sources.into_values().collect();
        sources.sort_unstable_by_key(|(number, _)| *number);
        let count = sources.len() as u64;
        let first = sources.into_iter().take(max_sources).filter_map(|(_, source)| source).collect();
        Ok(Referrers { count, first })
    }

    /// Encodes those of the latest entries that were stored before a position, for the base file of a compacted log.
    pub(super) fn encode_again(
        &mut self,
        before: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let latest = self.take_latest()?.unwrap_or_default();
        match &mut self.source {
            GraphSource::Log { chunks, .. } => chunks.retain(|position| *position < before),
            GraphSource::Elsewhere(_) => {}
        }
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

    /// Calls `each` with every entry, including those that a later entry replaces.
    fn entries<E: From<StoreError>>(&mut self, mut each: impl FnMut(PageEdges<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut decoder = GraphDecoder::default();
        let (log, chunks) = match &mut self.source {
            GraphSource::Log { log, chunks } => (log, chunks),
            GraphSource::Elsewhere(chunks) => return entries_elsewhere(&**chunks, &mut decoder, each),
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
                return Err(damaged(&*self.files, FOLDER, &what).into());
            }
        }
        Ok(())
    }
}

/// The entries of the chunks outside of a crawl directory.
fn entries_elsewhere<E: From<StoreError>>(
    chunks: &dyn GraphChunks,
    decoder: &mut GraphDecoder,
    mut each: impl FnMut(PageEdges<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut ended = Ok(());
    let read = chunks.read(&mut |chunk| {
        let decoded = decoder.decode(chunk, |page| each(page).map_err(|error| ended = Err(error)));
        match decoded {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(io::Error::other("links cannot be read")),
            Err(()) => Err(io::Error::other("stopped")),
        }
    });
    ended?;
    read.map_err(E::from)
}

/// The sources whose last entry links to a URL.
#[derive(Default)]
struct FoundSources {
    /// For each source its number in the order of discovery, and its URL if it is one of the first.
    sources: KeyMap<(u64, Option<String>)>,
    /// How many entries with the link were added.
    found: u64,
}

impl FoundSources {
    /// Adds the next entry of a source, which replaces earlier ones. `has_link` says whether it links to the URL.
    fn add(&mut self, source: &str, key: u64, has_link: bool) {
        /// How many URLs are stored. This is more than callers request, because some may be removed later.
        const MAX_URLS: u64 = 1_000;
        if has_link {
            self.found += 1;
            let (number, url) = (self.found, (self.found <= MAX_URLS).then(|| source.to_owned()));
            self.sources.entry(key).or_insert((number, url));
        } else {
            self.sources.remove(&key);
        }
    }
}

/// The hash of a source. A page and a sitemap at the same URL are different sources.
fn source_key(page: &PageEdges<'_>, key: u64) -> u64 {
    xxh3_64_with_seed(page.source.as_bytes(), key) ^ u64::from(page.is_sitemap)
}
