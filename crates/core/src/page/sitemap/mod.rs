//! [`SitemapReader`]: streaming parser for sitemaps.
//!
//! Invariant: entries that are read before a fault or a limit are kept, and the fault is reported. Memory depends on the
//! entries, not on the length of the document. Only character references and the five predefined entities are expanded.
//! DTDs are ignored.
//!
//! Formats: sitemap XML and its index, RSS 1.0 and 2.0, Atom, and plain lists of URLs, each optionally gzipped. The
//! format is detected from the bytes, because types and file names are often wrong.

mod date;
mod markup;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use flate2::write::MultiGzDecoder;
use jiff::Timestamp;

use crate::base::url::Url;
use crate::page::scope::{domain_key, host_key};
pub use date::parse as parse_date;
use markup::Markup;

/// Limit on the bytes of a sitemap after decoding, by the protocol.
pub const MAX_BYTES: u64 = 50 << 20;
/// Limit on the length of a listed URL, by the protocol.
pub const MAX_LOCATION: usize = 2048;
/// Nesting limit of sitemap indexes: an index this deep is not read.
pub const MAX_INDEX_DEPTH: u32 = 2;
/// The first two bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Bytes examined to detect the character encoding.
const SNIFF_BYTES: usize = 256;
/// Limit on the bytes of one line, tag or comment.
const MAX_PIECE: usize = 1 << 20;
/// A text with more lines than this and no URL is not a list of URLs.
const MAX_JUNK_LINES: u32 = 1000;

/// The content of a sitemap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sitemap {
    pub format: Option<SitemapFormat>,
    /// The listed pages.
    pub entries: Vec<SitemapEntry>,
    /// The listed sitemaps. The scope decides whether they are fetched.
    pub children: Vec<SitemapEntry>,
    /// Listed pages of other sites. They are not followed, but they are links of the sitemap.
    pub foreign: Vec<Url>,
    /// When the whole list changed. Only feeds have this.
    pub lastmod: Option<Timestamp>,
    /// Number of entries that are not URLs, are too long, or belong to other sites.
    pub skipped: u32,
    /// Why it was not read to its end, or what could not be parsed.
    pub fault: Option<String>,
    /// Whether the fault is a limit of this crawler, not an error of the sitemap: too many bytes or entries, an index
    /// that is nested too deep, or an entity that is not expanded.
    pub limited: bool,
    /// Whether it was not read to its end.
    pub cut: bool,
}

/// A URL that a sitemap lists.
#[derive(Clone, Debug, PartialEq)]
pub struct SitemapEntry {
    pub url: Url,
    pub lastmod: Option<Timestamp>,
    /// From 0 to 1, if given.
    pub priority: Option<f32>,
    pub changefreq: Option<Changefreq>,
}

impl SitemapEntry {
    /// Its memory use in bytes.
    fn weight(&self) -> usize {
        size_of::<Self>() + self.url.as_str().len()
    }
}

/// How often a page changes, according to the sitemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changefreq {
    Always,
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
    Never,
}

/// The format of a sitemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitemapFormat {
    /// A list of pages in sitemap XML.
    UrlSet,
    /// A list of sitemaps in sitemap XML.
    Index,
    Rss,
    Atom,
    /// One URL per line.
    Text,
}

/// For which sites a sitemap may list URLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SitemapReach {
    /// Its own directory, with the same scheme, host and port, as the protocol requires.
    Directory,
    /// Its own host, with or without `www.`.
    Host,
    /// Its own registrable domain: the "same site" of browsers.
    #[default]
    Domain,
    Any,
}

/// Which URLs and how many bytes a reader accepts.
#[derive(Clone, Debug)]
pub struct SitemapBounds {
    pub reach: SitemapReach,
    /// Hosts whose robots.txt names this sitemap. Pages of these hosts may be listed like those of its own host, unless
    /// the reach is [`SitemapReach::Directory`].
    pub naming_hosts: Vec<Box<str>>,
    /// Whether it may be an index, which lists sitemaps.
    pub allows_index: bool,
    /// Limit on the number of listed pages, and also on the number of listed sitemaps.
    pub max_entries: usize,
    /// Limit on the bytes after decoding.
    pub max_bytes: u64,
}

impl Default for SitemapBounds {
    /// The limits of the sitemap protocol on bytes and entries. The reach is wider than in the protocol.
    fn default() -> Self {
        Self {
            reach: SitemapReach::default(),
            naming_hosts: Vec::new(),
            allows_index: true,
            max_entries: 50_000,
            max_bytes: MAX_BYTES,
        }
    }
}

impl SitemapBounds {
    /// Whether the sitemap may list this page.
    pub fn admits(&self, sitemap: &Url, page: &Url) -> bool {
        let has_same_key = |key: fn(&str) -> &str| {
            let page = key(page.host());
            key(sitemap.host()) == page || self.naming_hosts.iter().any(|host| key(host) == page)
        };
        match self.reach {
            SitemapReach::Any => true,
            SitemapReach::Domain => has_same_key(domain_key),
            SitemapReach::Host => has_same_key(host_key),
            SitemapReach::Directory => {
                let end = sitemap.path().rfind('/').map_or(0, |slash| slash + 1);
                let directory = sitemap.path().get(..end).unwrap_or("/");
                sitemap.origin() == page.origin() && page.path().starts_with(directory)
            }
        }
    }
}

/// Parses one sitemap.
pub struct SitemapReader {
    collector: EntryCollector,
    compression: Compression,
    encoding: EncodingState,
    /// Decoded text that is not parsed yet.
    text: String,
    syntax: Syntax,
    /// Number of decompressed bytes so far.
    decompressed: u64,
    /// See [`SitemapReader::is_done`].
    is_done: bool,
}

/// Whether the file is gzipped.
enum Compression {
    /// The first bytes, which are too few to decide.
    Unknown(Vec<u8>),
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

/// The character encoding of the file.
enum EncodingState {
    /// The first bytes, which are too few to decide.
    Unknown(Vec<u8>),
    Known(Box<encoding_rs::Decoder>),
}

/// The syntax of the file: a list of lines, or XML.
enum Syntax {
    Unknown,
    Lines,
    Markup(Box<Markup>),
}

impl SitemapReader {
    pub fn new(url: &Url, bounds: SitemapBounds) -> Self {
        Self {
            collector: EntryCollector { url: url.clone(), bounds, sitemap: Sitemap::default(), weight: 0 },
            compression: Compression::Unknown(Vec::new()),
            encoding: EncodingState::Unknown(Vec::new()),
            text: String::new(),
            syntax: Syntax::Unknown,
            decompressed: 0,
            is_done: false,
        }
    }

    /// Heap bytes of what was read.
    pub fn weight(&self) -> usize {
        self.collector.weight + self.text.capacity()
    }

    /// Whether a limit or a fault ended the parsing, so that further input cannot change the result.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Processes bytes of the body, after content codings. The result does not depend on how they are split.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.is_done {
            return;
        }
        let buffered = match &mut self.compression {
            Compression::Unknown(start) => {
                start.extend_from_slice(bytes);
                if start.len() < GZIP_MAGIC.len() {
                    return;
                }
                let start = std::mem::take(start);
                self.compression = if start.starts_with(&GZIP_MAGIC) {
                    Compression::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))
                } else {
                    Compression::Plain
                };
                Some(start)
            }
            Compression::Plain | Compression::Gzip(_) => None,
        };
        self.decompress(buffered.as_deref().unwrap_or(bytes));
    }

    /// The number of decompressed bytes so far.
    pub fn decompressed_bytes(&self) -> u64 {
        self.decompressed
    }

    /// Handles the end of the body: parses everything that is still buffered, and returns the result.
    pub fn finish(mut self) -> Sitemap {
        if let Compression::Unknown(start) = &mut self.compression {
            let start = std::mem::take(start);
            self.decompress(&start);
        }
        if let Compression::Gzip(decoder) = &mut self.compression {
            let is_cut = decoder.try_finish().is_err();
            let rest = std::mem::take(decoder.get_mut());
            self.feed_decompressed(&rest);
            if is_cut && !self.is_done {
                self.collector.set_fault("the gzip data is incomplete");
                self.collector.sitemap.cut = true;
            }
        }
        if !self.is_done {
            self.decode_end();
        }
        self.collector.finish(matches!(self.syntax, Syntax::Unknown))
    }

    fn decompress(&mut self, bytes: &[u8]) {
        if !matches!(self.compression, Compression::Gzip(_)) {
            return self.feed_decompressed(bytes);
        }
        // In small pieces, to bound the output of one call: gzip expands up to a thousandfold.
        for piece in bytes.chunks(4096) {
            let Compression::Gzip(decoder) = &mut self.compression else { return };
            let result = decoder.write_all(piece);
            if result.is_err() {
                // Output before the fault is still buffered; the next write flushes it and fails too.
                let _ = decoder.write(&[0]);
            }
            let decompressed = std::mem::take(decoder.get_mut());
            self.feed_decompressed(&decompressed);
            if result.is_err() && !self.is_done {
                self.collector.set_fault("the gzip data is broken");
                self.collector.sitemap.cut = true;
                self.decode_end();
                self.is_done = true;
            }
            if self.is_done {
                return;
            }
        }
    }

    /// Decodes bytes up to the size limit. Parsing ends there.
    fn feed_decompressed(&mut self, bytes: &[u8]) {
        if self.is_done {
            return;
        }
        let left = usize::try_from(self.collector.bounds.max_bytes - self.decompressed).unwrap_or(usize::MAX);
        let taken = bytes.get(..left).unwrap_or(bytes);
        self.decompressed += taken.len() as u64;
        let is_cut = taken.len() < bytes.len();
        self.decode(taken, is_cut);
        if is_cut && !self.is_done {
            self.collector.sitemap.limited = true;
            self.collector.sitemap.cut = true;
            let max_bytes = self.collector.bounds.max_bytes;
            self.collector.set_fault(format!("longer than {max_bytes} bytes: the rest was not read"));
            self.is_done = true;
        }
    }

    /// Decodes bytes to text, and parses it. With `is_last`, no more bytes follow.
    fn decode(&mut self, bytes: &[u8], is_last: bool) {
        let buffered = match &mut self.encoding {
            EncodingState::Unknown(start) => {
                start.extend_from_slice(bytes);
                if start.len() < SNIFF_BYTES && !is_last {
                    return;
                }
                let start = std::mem::take(start);
                self.encoding = EncodingState::Known(Box::new(encoding_of(&start).new_decoder()));
                Some(start)
            }
            EncodingState::Known(_) => None,
        };
        let EncodingState::Known(decoder) = &mut self.encoding else { return };
        let mut bytes = buffered.as_deref().unwrap_or(bytes);
        // In small pieces, so that parsed text is dropped before more is decoded.
        loop {
            let (piece, rest) = bytes.split_at(bytes.len().min(1 << 16));
            let is_last_piece = is_last && rest.is_empty();
            let Some(room) = decoder.max_utf8_buffer_length(piece.len()) else { return };
            self.text.reserve(room);
            let _ = decoder.decode_to_string(piece, &mut self.text, is_last_piece);
            match parse_text(&mut self.syntax, &self.text, is_last_piece, &mut self.collector) {
                Ok(used) => {
                    self.text.drain(..used);
                }
                Err(fault) => return self.stop(fault.0),
            }
            if self.text.len() > MAX_PIECE {
                return self.stop("a line, tag or comment is longer than a sitemap needs");
            }
            if rest.is_empty() {
                return;
            }
            bytes = rest;
        }
    }

    /// Decodes and parses what is left at the end of the body.
    fn decode_end(&mut self) {
        self.decode(&[], true);
    }

    /// Ends the parsing with a fault.
    fn stop(&mut self, fault: impl Into<String>) {
        self.collector.set_fault(fault);
        self.collector.sitemap.cut = true;
        self.is_done = true;
    }
}

/// Parses the lines or tags that are complete, and returns the length of that text. With `is_last`, everything
/// counts as complete.
fn parse_text(syntax: &mut Syntax, text: &str, is_last: bool, collector: &mut EntryCollector) -> Result<usize, Fault> {
    let blank = text.len() - text.trim_start().len();
    let rest = text.get(blank..).unwrap_or("");
    match syntax {
        Syntax::Unknown if rest.is_empty() => Ok(text.len()),
        Syntax::Unknown => {
            *syntax = if rest.starts_with('<') { Syntax::Markup(Box::default()) } else { Syntax::Lines };
            Ok(blank + parse_text(syntax, rest, is_last, collector)?)
        }
        Syntax::Lines => parse_lines(text, is_last, collector),
        Syntax::Markup(markup) => markup.read(text, is_last, collector),
    }
}

/// Parses a plain list: one URL per line. The last line counts even if it has no line end.
fn parse_lines(text: &str, is_last: bool, collector: &mut EntryCollector) -> Result<usize, Fault> {
    collector.sitemap.format = Some(SitemapFormat::Text);
    let end = if is_last { text.len() } else { text.rfind(['\n', '\r']).map_or(0, |at| at + 1) };
    for line in text.get(..end).unwrap_or("").split(['\n', '\r']) {
        if !line.trim().is_empty() {
            let draft = Draft { loc: Some(line.to_owned()), ..Draft::default() };
            collector.add_page(draft, AllowRelative::No)?;
        }
        if !collector.has_urls() && collector.sitemap.skipped > MAX_JUNK_LINES {
            return Err(Fault("neither XML nor a list of addresses".to_owned()));
        }
    }
    Ok(end)
}

/// The encoding that the XML declaration gives, or UTF-8. A byte order mark takes precedence; the decoder handles it.
fn encoding_of(start: &[u8]) -> &'static encoding_rs::Encoding {
    let head = String::from_utf8_lossy(start.get(..SNIFF_BYTES).unwrap_or(start));
    let declared =
        head.trim_start().strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")).and_then(|(rest, _)| {
            let value = rest.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            encoding_rs::Encoding::for_label(value.get(1..)?.split(quote).next()?.as_bytes())
        });
    match declared {
        // A declaration that is readable byte by byte is not UTF-16.
        Some(encoding) if encoding != encoding_rs::UTF_16LE && encoding != encoding_rs::UTF_16BE => encoding,
        _ => encoding_rs::UTF_8,
    }
}

/// Why parsing stops.
struct Fault(String);

/// An entry whose values are not parsed yet.
#[derive(Default)]
struct Draft {
    loc: Option<String>,
    lastmod: Option<String>,
    priority: Option<String>,
    changefreq: Option<String>,
}

/// Whether an entry may have a URL that is relative to the folder of the sitemap, such as `page.html`. A path that
/// starts with a slash is always accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowRelative {
    No,
    Yes,
}

/// Checks entries against the bounds, and collects them.
struct EntryCollector {
    /// The URL of the sitemap.
    url: Url,
    bounds: SitemapBounds,
    sitemap: Sitemap,
    /// Heap bytes of the entries.
    weight: usize,
}

impl EntryCollector {
    /// Stores a fault, unless there is an earlier one.
    fn set_fault(&mut self, fault: impl Into<String>) {
        self.sitemap.fault.get_or_insert_with(|| fault.into());
    }

    /// Adds a page.
    fn add_page(&mut self, draft: Draft, relative: AllowRelative) -> Result<(), Fault> {
        match self.parse_entry(&draft, relative) {
            None => self.sitemap.skipped = self.sitemap.skipped.saturating_add(1),
            Some(entry) if !self.bounds.admits(&self.url, &entry.url) => {
                self.sitemap.skipped = self.sitemap.skipped.saturating_add(1);
                if self.sitemap.entries.len() + self.sitemap.foreign.len() < self.bounds.max_entries {
                    self.weight += entry.weight();
                    self.sitemap.foreign.push(entry.url);
                }
            }
            Some(_) if self.sitemap.entries.len() >= self.bounds.max_entries => return Err(self.too_many()),
            Some(entry) => {
                self.weight += entry.weight();
                self.sitemap.entries.push(entry);
            }
        }
        Ok(())
    }

    /// Adds a sitemap.
    fn add_child(&mut self, draft: &Draft) -> Result<(), Fault> {
        match self.parse_entry(draft, AllowRelative::No) {
            None => self.sitemap.skipped = self.sitemap.skipped.saturating_add(1),
            Some(_) if self.sitemap.children.len() >= self.bounds.max_entries => return Err(self.too_many()),
            Some(entry) => {
                self.weight += entry.weight();
                self.sitemap.children.push(entry);
            }
        }
        Ok(())
    }

    /// Whether it lists any page, of its own site or of another one. Only an index has children, and it is XML.
    fn has_urls(&self) -> bool {
        !self.sitemap.entries.is_empty() || !self.sitemap.foreign.is_empty()
    }

    fn too_many(&mut self) -> Fault {
        self.sitemap.limited = true;
        Fault(format!("more than {} entries: the rest was not read", self.bounds.max_entries))
    }

    /// Parses an entry; `None` if it has no valid URL.
    fn parse_entry(&self, draft: &Draft, relative: AllowRelative) -> Option<SitemapEntry> {
        Some(SitemapEntry {
            url: self.resolve(draft.loc.as_deref()?, relative)?,
            lastmod: draft.lastmod.as_deref().and_then(date::parse),
            priority: draft.priority.as_deref().and_then(parse_priority),
            changefreq: draft.changefreq.as_deref().and_then(Changefreq::from_name),
        })
    }

    /// The URL of an entry. The protocol requires absolute URLs, but many sitemaps omit the scheme, and some the host.
    fn resolve(&self, text: &str, relative: AllowRelative) -> Option<Url> {
        let text = trim(text);
        if text.len() > MAX_LOCATION {
            return None;
        }
        let host = text.split(['/', '?']).next().unwrap_or(text);
        if let Ok(url) = Url::parse(text) {
            Some(url)
        } else if !host.is_empty() && host_key(&host.to_ascii_lowercase()) == host_key(self.url.host()) {
            self.url.join(&format!("//{text}")).ok()
        } else if (relative == AllowRelative::Yes && !text.is_empty()) || text.starts_with('/') {
            self.url.join(text).ok()
        } else {
            None
        }
    }

    /// The result. `is_blank`: the document has only white space.
    fn finish(mut self, is_blank: bool) -> Sitemap {
        if is_blank {
            self.set_fault("it is empty");
        } else if !self.has_urls() && self.sitemap.format == Some(SitemapFormat::Text) {
            self.set_fault("neither XML nor a list of addresses");
        }
        self.sitemap
    }
}

impl Changefreq {
    fn from_name(name: &str) -> Option<Self> {
        const NAMES: [(&str, Changefreq); 7] = [
            ("always", Changefreq::Always),
            ("hourly", Changefreq::Hourly),
            ("daily", Changefreq::Daily),
            ("weekly", Changefreq::Weekly),
            ("monthly", Changefreq::Monthly),
            ("yearly", Changefreq::Yearly),
            ("never", Changefreq::Never),
        ];
        let name = trim(name);
        NAMES.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, value)| value)
    }
}

fn parse_priority(text: &str) -> Option<f32> {
    trim(text).parse().ok().filter(|value| (0.0..=1.0).contains(value))
}

/// Trims white space of any script and invisible characters.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'))
}
