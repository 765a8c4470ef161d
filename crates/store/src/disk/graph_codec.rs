//! The encoding of the link graph in the log.
//!
//! A *chunk* holds the links of pages of one commit. A commit with new links has one chunk or more. Targets are indexes
//! into a dictionary of URLs. A *block* is a sequence of chunks that share a dictionary: each chunk adds its new URLs,
//! and later chunks of the block refer to them. A block is self-contained, so blocks of several directories or machines
//! can be concatenated.
//!
//! | chunk | |
//! |---|---|
//! | flags | 1 byte: 1 if edges have anchor texts, otherwise 0 |
//! | start | *number* of URLs in the block before this chunk; 0 begins a block |
//! | URLs | *count*; each: *bytes shared* with the previous URL of this chunk, *length of the rest*, rest |
//! | texts | only with anchor texts: *count*; each: *length*, text |
//! | pages | to the end, each: *source* times two, plus one for a sitemap; *links cut*; *count*; edges |
//! | edge | *step* from the previous target (zigzag) times two, plus one if kind or nofollow change; in that case 1 byte: kind (7 bits) and nofollow (high bit); with anchor texts the *number of the text* plus one, or 0 |
//!
//! Values in italics are varints. The first step of a page is relative to its source. The kind before the first edge is
//! anchor without nofollow.
//!
//! Decoding is total: any input yields edges or an error, never a panic.

use crate::varint::{Bytes, write_varint};
use argiope_core::LinkKind;
use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A block ends with the page that reaches this many URLs.
const MAX_URLS: u32 = 1 << 16;
/// A block ends with the page that reaches this many bytes of URLs, because a reader keeps the dictionary of one block
/// in memory.
const MAX_TEXT: usize = 4 << 20;
/// A chunk ends with the page that reaches this many bytes.
const MAX_CHUNK: usize = 4 << 20;

/// Memory of an entry of the dictionary in bytes: key, number, padding and the overhead of the hash table.
const DICTIONARY_ENTRY: usize = 18;

/// Flag of a chunk: its edges have anchor texts.
const WITH_TEXTS: u8 = 1;

/// The identity hasher, for keys that are hashes.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    /// Never called, because the keys are `u64`.
    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A map whose keys are keyed hashes.
pub(crate) type KeyMap<T> = HashMap<u64, T, BuildHasherDefault<KeyHasher>>;

/// An edge to be encoded.
#[derive(Clone, Copy)]
pub struct NewEdge<'a> {
    pub target: &'a str,
    pub kind: LinkKind,
    pub nofollow: bool,
    pub anchor: Option<&'a str>,
}

/// Encodes pages and their links.
///
/// URLs of a block are recognised by keyed 64-bit hashes, like the known URLs of the frontier.
pub struct GraphEncoder {
    /// The key of the hashes.
    key: u64,
    /// The dictionary of the block: the number of each URL, by its hash.
    dictionary: KeyMap<u32>,
    /// Length of all URLs of the block.
    dictionary_bytes: usize,
    /// How many URLs the block had before this chunk.
    urls_before: u32,
    /// How many URLs this chunk has added.
    added: u32,
    /// The encoded URLs of this chunk.
    urls: Vec<u8>,
    /// The URL that was added last.
    last_url: String,
    /// The number of each anchor text of this chunk, by its hash.
    texts: KeyMap<u32>,
    /// The encoded anchor texts of this chunk, after an unused byte. Empty if the chunk has no anchor texts.
    text_bytes: Vec<u8>,
    /// The encoded pages of this chunk.
    pages: Vec<u8>,
}

impl GraphEncoder {
    pub fn new(key: u64) -> Self {
        Self {
            key,
            dictionary: KeyMap::default(),
            dictionary_bytes: 0,
            urls_before: 0,
            added: 0,
            urls: Vec::new(),
            last_url: String::new(),
            texts: KeyMap::default(),
            text_bytes: Vec::new(),
            pages: Vec::new(),
        }
    }

    /// Approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.dictionary.capacity() * DICTIONARY_ENTRY
            + self.urls.capacity()
            + self.pages.capacity()
            + self.text_bytes.capacity()
    }

    /// Adds a page. `cut` is the number of links that were dropped because of a limit. With `with_texts`, the anchor
    /// texts are stored. If the page begins a new chunk, returns the previous chunk, which the caller must store.
    pub fn add<'a>(
        &mut self,
        source: &str,
        is_sitemap: bool,
        cut: u32,
        edges: impl ExactSizeIterator<Item = NewEdge<'a>>,
        with_texts: bool,
    ) -> Option<Vec<u8>> {
        let chunk = if self.is_full() || with_texts != self.has_texts() { self.take() } else { None };
        if self.dictionary.len() as u64 >= u64::from(MAX_URLS) || self.dictionary_bytes >= MAX_TEXT {
            self.dictionary.clear();
            (self.dictionary_bytes, self.urls_before) = (0, 0);
        }
        if with_texts && self.text_bytes.is_empty() {
            // A byte that is not stored. It makes `has_texts` true for a chunk with anchor texts.
            self.text_bytes.push(0);
        }
        let source = self.url_number(source);
        write_varint(u64::from(source) << 1 | u64::from(is_sitemap), &mut self.pages);
        write_varint(u64::from(cut), &mut self.pages);
        write_varint(edges.len() as u64, &mut self.pages);
        let (mut previous_target, mut kind_before) = (source, LinkKind::Anchor as u8);
        for edge in edges {
            let target = self.url_number(edge.target);
            let step = i64::from(target) - i64::from(previous_target);
            let zigzag = (step << 1 ^ step >> 63) as u64;
            // The high bit of the kind is nofollow.
            let kind = edge.kind as u8 | u8::from(edge.nofollow) << 7;
            write_varint(zigzag << 1 | u64::from(kind != kind_before), &mut self.pages);
            if kind != kind_before {
                self.pages.push(kind);
            }
            (previous_target, kind_before) = (target, kind);
            if with_texts {
                let text = edge.anchor.map_or(0, |text| self.text_number(text));
                write_varint(text, &mut self.pages);
            }
        }
        chunk
    }

    /// Whether the next page begins a new chunk.
    fn is_full(&self) -> bool {
        self.pages.len() + self.urls.len() + self.text_bytes.len() >= MAX_CHUNK
            || self.dictionary.len() as u64 >= u64::from(MAX_URLS)
            || self.dictionary_bytes >= MAX_TEXT
    }

    fn has_texts(&self) -> bool {
        !self.text_bytes.is_empty()
    }

    /// The number of a URL in the block's dictionary, to which it is added if necessary.
    fn url_number(&mut self, url: &str) -> u32 {
        let next = self.urls_before + self.added;
        let number = *self.dictionary.entry(xxh3_64_with_seed(url.as_bytes(), self.key)).or_insert(next);
        if number == next {
            let common = self.last_url.bytes().zip(url.bytes()).take_while(|(one, other)| one == other).count();
            let shared = url.floor_char_boundary(common);
            write_varint(shared as u64, &mut self.urls);
            write_varint((url.len() - shared) as u64, &mut self.urls);
            self.urls.extend_from_slice(url.as_bytes().get(shared..).unwrap_or_default());
            self.last_url.clear();
            self.last_url.push_str(url);
            self.added += 1;
            self.dictionary_bytes += url.len();
        }
        number
    }

    /// The number of an anchor text plus one.
    fn text_number(&mut self, text: &str) -> u64 {
        let next = self.texts.len() as u32;
        let number = *self.texts.entry(xxh3_64_with_seed(text.as_bytes(), self.key)).or_insert(next);
        if number == next {
            write_varint(text.len() as u64, &mut self.text_bytes);
            self.text_bytes.extend_from_slice(text.as_bytes());
        }
        u64::from(number) + 1
    }

    /// Takes the chunk of all pages since the last chunk; `None` if there are no pages.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.pages.is_empty() {
            self.text_bytes.clear();
            return None;
        }
        let mut chunk = Vec::with_capacity(self.urls.len() + self.text_bytes.len() + self.pages.len() + 16);
        chunk.push(if self.has_texts() { WITH_TEXTS } else { 0 });
        write_varint(u64::from(self.urls_before), &mut chunk);
        write_varint(u64::from(self.added), &mut chunk);
        chunk.append(&mut self.urls);
        if let Some(texts) = self.text_bytes.get(1..) {
            write_varint(self.texts.len() as u64, &mut chunk);
            chunk.extend_from_slice(texts);
        }
        chunk.append(&mut self.pages);
        self.urls_before += self.added;
        self.added = 0;
        self.last_url.clear();
        self.texts.clear();
        self.text_bytes.clear();
        Some(chunk)
    }
}

/// A list of strings, concatenated in one buffer.
#[derive(Clone, Debug, Default)]
struct TextTable {
    text: String,
    /// The end offset of each string.
    ends: Vec<u32>,
}

impl TextTable {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// The string with this number.
    fn get(&self, number: usize) -> Option<&str> {
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start as usize..*self.ends.get(number)? as usize)
    }

    /// Ends the current string with `rest`. The text after the last end is the beginning of the string.
    fn push(&mut self, rest: &str) -> Option<()> {
        self.text.push_str(rest);
        self.ends.push(u32::try_from(self.text.len()).ok()?);
        Some(())
    }

    /// Adds a string that shares its first `shared` bytes with the previous string. The first string of a chunk must
    /// not share any.
    fn push_after(&mut self, shared: usize, rest: &str, is_first: bool) -> Option<()> {
        if shared > 0 {
            if is_first {
                return None;
            }
            let last = self.ends.len().checked_sub(1)?;
            let start = last.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())? as usize;
            // Check that `shared` is within the previous string and on a character boundary.
            self.get(last)?.get(..shared)?;
            self.text.extend_from_within(start..start + shared);
        }
        self.push(rest)
    }
}

/// An edge with its target and text as indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredEdge {
    target: u32,
    kind: LinkKind,
    nofollow: bool,
    /// The number of the anchor text plus one, or 0.
    text: u32,
}

/// An edge of the link graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphEdge<'a> {
    pub target: &'a str,
    pub kind: LinkKind,
    pub nofollow: bool,
    /// The text of the link, if the crawl recorded it (`--with anchors`).
    pub anchor: Option<&'a str>,
}

/// A page with its links.
#[derive(Clone, Copy, Debug)]
pub struct PageEdges<'a> {
    pub source: &'a str,
    /// Whether the source is a sitemap.
    pub is_sitemap: bool,
    /// How many links were dropped because of a limit.
    pub cut: u32,
    edges: &'a [StoredEdge],
    urls: &'a TextTable,
    texts: &'a TextTable,
}

impl<'a> PageEdges<'a> {
    /// The links in page order, distinct by URL and kind.
    pub fn edges(&self) -> impl Iterator<Item = GraphEdge<'a>> {
        let (urls, texts) = (self.urls, self.texts);
        self.edges.iter().filter_map(move |edge| {
            let target = urls.get(edge.target as usize)?;
            let anchor = edge.text.checked_sub(1).and_then(|number| texts.get(number as usize));
            Some(GraphEdge { target, kind: edge.kind, nofollow: edge.nofollow, anchor })
        })
    }

    /// How many links the page has.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }
}

/// Decodes chunks, in the order in which they were written.
#[derive(Default)]
pub(crate) struct GraphDecoder {
    urls: TextTable,
    texts: TextTable,
    edges: Vec<StoredEdge>,
    /// Whether the last chunk began a block.
    is_block_start: bool,
}

impl GraphDecoder {
    /// Passes the pages of a chunk to `each`. `Ok(None)` if the chunk is malformed or does not continue the previous
    /// one.
    pub fn decode<E>(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(PageEdges<'_>) -> Result<(), E>,
    ) -> Result<Option<()>, E> {
        let mut bytes = Bytes(chunk);
        let Some(flags) = self.read_tables(&mut bytes) else { return Ok(None) };
        while !bytes.0.is_empty() {
            let Some((source, cut)) = self.read_page(&mut bytes, flags) else { return Ok(None) };
            let Some(url) = self.urls.get((source >> 1) as usize) else { return Ok(None) };
            each(PageEdges {
                source: url,
                is_sitemap: source & 1 == 1,
                cut,
                edges: &self.edges,
                urls: &self.urls,
                texts: &self.texts,
            })?;
        }
        Ok(Some(()))
    }

    /// For each page of a chunk, passes to `each` its source, whether it is a sitemap, and whether it links to
    /// `target`. This is faster than looking up the URL of every link. `target_number` carries the number of the target
    /// in the current block from call to call. Returns `None` if the chunk is malformed or does not continue the
    /// previous one.
    pub fn find_links(
        &mut self,
        chunk: &[u8],
        target: &str,
        target_number: &mut Option<u32>,
        mut each: impl FnMut(&str, bool, bool),
    ) -> Option<()> {
        let mut bytes = Bytes(chunk);
        let urls_before = self.urls.ends.len();
        let flags = self.read_tables(&mut bytes)?;
        // The number of the first URL of this chunk. A chunk that begins a block numbers its URLs from 0.
        let first = if self.is_block_start { 0 } else { urls_before };
        if first == 0 {
            *target_number = None;
        }
        if target_number.is_none() {
            let found = (first..self.urls.ends.len()).find(|number| self.urls.get(*number) == Some(target));
            *target_number = found.and_then(|number| u32::try_from(number).ok());
        }
        while !bytes.0.is_empty() {
            let (source, _) = self.read_page(&mut bytes, flags)?;
            let number = u32::try_from(source >> 1).ok()?;
            let has_link = target_number.is_some_and(|target_number| {
                number != target_number && self.edges.iter().any(|edge| edge.target == target_number)
            });
            each(self.urls.get(number as usize)?, source & 1 == 1, has_link);
        }
        Some(())
    }

    /// Reads the beginning of a chunk, up to its pages. Returns its flags.
    fn read_tables(&mut self, bytes: &mut Bytes<'_>) -> Option<u8> {
        let flags = bytes.byte()?;
        self.texts.clear();
        let start = usize::try_from(bytes.varint()?).ok()?;
        self.is_block_start = start == 0;
        if start == 0 {
            self.urls.clear();
        } else if start != self.urls.ends.len() {
            return None;
        }
        for number in 0..bytes.varint()? {
            let shared = usize::try_from(bytes.varint()?).ok()?;
            let rest = take_text(bytes)?;
            self.urls.push_after(shared, rest, number == 0)?;
        }
        if flags & WITH_TEXTS != 0 {
            for _ in 0..bytes.varint()? {
                let text = take_text(bytes)?;
                self.texts.push(text)?;
            }
        }
        Some(flags)
    }

    /// Reads one page into `edges`; returns its encoded source and the number of dropped links.
    fn read_page(&mut self, bytes: &mut Bytes<'_>, flags: u8) -> Option<(u64, u32)> {
        let source = bytes.varint()?;
        let cut = u32::try_from(bytes.varint()?).ok()?;
        let count = bytes.varint()?;
        self.edges.clear();
        let (mut target, mut kind) = (i64::try_from(source >> 1).ok()?, LinkKind::Anchor as u8);
        for _ in 0..count {
            let number = bytes.varint()?;
            let zigzag = number >> 1;
            let step = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            target = target.checked_add(step)?;
            if number & 1 == 1 {
                kind = bytes.byte()?;
            }
            let text = if flags & WITH_TEXTS == 0 { 0 } else { u32::try_from(bytes.varint()?).ok()? };
            self.edges.push(StoredEdge {
                target: u32::try_from(target).ok().filter(|target| (*target as usize) < self.urls.ends.len())?,
                kind: LinkKind::from_number(kind & 0x7F)?,
                nofollow: kind & 0x80 != 0,
                text,
            });
        }
        Some((source, cut))
    }
}

/// Reads a text that follows its length.
fn take_text<'a>(bytes: &mut Bytes<'a>) -> Option<&'a str> {
    std::str::from_utf8(bytes.sized()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each page: source, whether it is a sitemap, number of cut links, and edges. An edge is its target, kind,
    /// nofollow and anchor text.
    type DecodedPages = Vec<(String, bool, u32, Vec<(String, LinkKind, bool, Option<String>)>)>;

    fn decode_all(decoder: &mut GraphDecoder, chunk: &[u8]) -> Option<DecodedPages> {
        let mut pages = DecodedPages::new();
        let read = decoder.decode(chunk, |page| {
            let edges = page
                .edges()
                .map(|edge| (edge.target.to_owned(), edge.kind, edge.nofollow, edge.anchor.map(str::to_owned)));
            pages.push((page.source.to_owned(), page.is_sitemap, page.cut, edges.collect()));
            Ok::<(), ()>(())
        });
        read.ok()?.map(|()| pages)
    }

    fn edge(target: &str, kind: LinkKind, nofollow: bool) -> NewEdge<'_> {
        NewEdge { target, kind, nofollow, anchor: None }
    }

    #[test]
    fn chunks_of_a_block_share_their_urls() {
        let mut encoder = GraphEncoder::new(1);
        let edges = [edge("http://h/a/é", LinkKind::Anchor, false), edge("http://h/a/è", LinkKind::Asset, true)];
        assert_eq!(encoder.add("http://h/", false, 0, edges.into_iter(), false), None);
        let first = encoder.take().expect("a chunk");
        assert_eq!(encoder.take(), None);
        let edges = [edge("http://h/", LinkKind::Anchor, false), edge("http://h/a/è", LinkKind::Anchor, false)];
        assert_eq!(encoder.add("http://h/a/é", true, 7, edges.into_iter(), false), None);
        let second = encoder.take().expect("a chunk");
        assert!(second.len() < 12, "no URL is new: {second:?}");

        let mut decoder = GraphDecoder::default();
        let one = decode_all(&mut decoder, &first).expect("it decodes");
        let link = |url: &str, kind, nofollow| (url.to_owned(), kind, nofollow, None);
        let links = vec![link("http://h/a/é", LinkKind::Anchor, false), link("http://h/a/è", LinkKind::Asset, true)];
        assert_eq!(one, [("http://h/".to_owned(), false, 0, links)]);
        let two = decode_all(&mut decoder, &second).expect("it decodes");
        let links = vec![link("http://h/", LinkKind::Anchor, false), link("http://h/a/è", LinkKind::Anchor, false)];
        assert_eq!(two, [("http://h/a/é".to_owned(), true, 7, links)]);
        assert_eq!(decode_all(&mut GraphDecoder::default(), &second), None, "the block's beginning is missing");
    }

    #[test]
    fn anchor_texts_are_stored_if_requested() {
        let mut encoder = GraphEncoder::new(1);
        let with = |target, anchor| NewEdge { target, kind: LinkKind::Anchor, nofollow: false, anchor };
        let edges = [with("http://h/a", Some("more")), with("http://h/b", Some("more")), with("http://h/c", None)];
        assert_eq!(encoder.add("http://h/", false, 0, edges.into_iter(), true), None);
        let first = encoder.add("http://h/a", false, 0, [with("http://h/b", None)].into_iter(), false);
        let mut decoder = GraphDecoder::default();
        let texts = |decoded: Option<DecodedPages>| -> Vec<Option<String>> {
            decoded.expect("it decodes").into_iter().flat_map(|page| page.3).map(|edge| edge.3).collect()
        };
        let first = texts(decode_all(&mut decoder, &first.expect("a chunk without texts begins")));
        assert_eq!(first, [Some("more".to_owned()), Some("more".to_owned()), None]);
        assert_eq!(texts(decode_all(&mut decoder, &encoder.take().expect("a chunk"))), [None]);
    }

    #[test]
    fn a_block_ends_when_its_dictionary_is_large() {
        let mut encoder = GraphEncoder::new(1);
        let long = "x".repeat(3_000);
        let mut chunks = Vec::new();
        for page in 0..3_000 {
            let (source, target) = (format!("http://h/{page}"), format!("http://h/{page}/{long}"));
            let edges = [edge(&target, LinkKind::Anchor, false), edge("http://h/0", LinkKind::Anchor, false)];
            chunks.extend(encoder.add(&source, false, 0, edges.into_iter(), false));
        }
        chunks.extend(encoder.take());
        assert!(chunks.len() > 2, "{} chunks", chunks.len());
        let mut decoder = GraphDecoder::default();
        let mut pages = 0;
        for chunk in &chunks {
            pages += decode_all(&mut decoder, chunk).expect("it decodes").len();
            // The page that reaches the limit is still in the block.
            assert!(decoder.urls.text.len() < MAX_TEXT + 8_192);
        }
        assert_eq!(pages, 3_000);
    }

    #[test]
    fn malformed_chunks_do_not_cause_panics() {
        let mut encoder = GraphEncoder::new(1);
        let edges = ["http://h/a", "http://h/b", "http://other/"].map(|url| edge(url, LinkKind::Anchor, true));
        encoder.add("http://h/", false, 3, edges.into_iter(), false);
        let chunk = encoder.take().expect("a chunk");
        for at in 0..chunk.len() {
            drop(decode_all(&mut GraphDecoder::default(), &chunk[..at]));
            for bit in 0..8 {
                let mut other = chunk.clone();
                other[at] ^= 1 << bit;
                drop(decode_all(&mut GraphDecoder::default(), &other));
            }
        }
    }
}
