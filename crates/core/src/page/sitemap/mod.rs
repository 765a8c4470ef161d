//! [`SitemapReader`]: streaming parser for sitemaps.
//!
//! Invariant: entries read before a fault or a limit are kept, and the fault is reported. Memory is bounded by the
//! entries, not by the document. Only the five predefined entities are expanded; DTDs are ignored.
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

use crate::page::scope::{domain_key, host_key};
use crate::page::url::Url;
pub use date::parse as parse_date;
use markup::Markup;

/// Limit on the bytes of a sitemap after decoding, by the protocol.
pub const MAX_BYTES: u64 = 50 << 20;
/// Limit on the length of a listed URL, by the protocol.
pub const MAX_LOCATION: usize = 2048;
/// Bytes examined to detect the character encoding.
const SNIFF: usize = 256;
/// Limit on the bytes of one line, tag or comment.
const MAX_PIECE: usize = 1 << 20;
/// A text with this many lines and no URL is not a list of URLs.
const MAX_JUNK_LINES: u32 = 1000;

/// The content of a sitemap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sitemap {
    pub format: Option<SitemapFormat>,
    /// The listed pages.
    pub entries: Vec<SitemapEntry>,
    /// The listed sitemaps. The scope decides whether they are fetched.
    pub children: Vec<SitemapEntry>,
    /// When the whole list changed; only feeds say this.
    pub lastmod: Option<Timestamp>,
    /// Entries that are not URLs, are too long, or belong to other sites.
    pub skipped: u32,
    /// Why it was not read to its end, or what could not be parsed.
    pub fault: Option<String>,
    /// The fault is an exceeded limit.
    pub limited: bool,
    /// It was not read to its end.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitemapFormat {
    UrlSet,
    Index,
    Rss,
    Atom,
    Text,
}

/// For which sites a sitemap may list URLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SitemapReach {
    /// Its own directory, with the same scheme, host and port, as the protocol demands.
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
    /// Hosts whose robots.txt names this sitemap, treated like its own.
    pub vouched: Vec<Box<str>>,
    /// Whether it may be an index, which lists sitemaps.
    pub index: bool,
    pub max_entries: usize,
    /// After decoding.
    pub max_bytes: u64,
}

impl Default for SitemapBounds {
    /// The limits of the sitemap protocol.
    fn default() -> Self {
        Self {
            reach: SitemapReach::default(),
            vouched: Vec::new(),
            index: true,
            max_entries: 50_000,
            max_bytes: MAX_BYTES,
        }
    }
}

impl SitemapBounds {
    /// True if the sitemap may list this page.
    pub fn admits(&self, sitemap: &Url, page: &Url) -> bool {
        let same = |key: fn(&str) -> &str| {
            let page = key(page.host());
            key(sitemap.host()) == page || self.vouched.iter().any(|host| key(host) == page)
        };
        match self.reach {
            SitemapReach::Any => true,
            SitemapReach::Domain => same(domain_key),
            SitemapReach::Host => same(host_key),
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
    found: Found,
    packing: Packing,
    decoding: Decoding,
    /// Decoded text that is not parsed yet.
    text: String,
    shape: Shape,
    bytes: u64,
    done: bool,
}

/// Whether the file is gzipped.
enum Packing {
    /// Too few bytes to decide.
    Unknown(Vec<u8>),
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

/// The character encoding of the file.
enum Decoding {
    Unknown(Vec<u8>),
    Known(Box<encoding_rs::Decoder>),
}

/// The syntax of the file: a list of lines, or XML.
enum Shape {
    Unknown,
    Lines,
    Markup(Box<Markup>),
}

impl SitemapReader {
    pub fn new(url: &Url, bounds: SitemapBounds) -> Self {
        Self {
            found: Found { url: url.clone(), bounds, sitemap: Sitemap::default(), weight: 0 },
            packing: Packing::Unknown(Vec::new()),
            decoding: Decoding::Unknown(Vec::new()),
            text: String::new(),
            shape: Shape::Unknown,
            bytes: 0,
            done: false,
        }
    }

    /// Heap bytes of what was read.
    pub fn weight(&self) -> usize {
        self.found.weight + self.text.capacity()
    }

    /// True if further input cannot change the result: a limit or a fault was reached.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Processes bytes of the body, after content codings. The result does not depend on how they are split.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.done {
            return;
        }
        let held = match &mut self.packing {
            Packing::Unknown(start) => {
                start.extend_from_slice(bytes);
                if start.len() < 2 {
                    return;
                }
                let start = std::mem::take(start);
                self.packing = if start.starts_with(&[0x1f, 0x8b]) {
                    Packing::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))
                } else {
                    Packing::Plain
                };
                Some(start)
            }
            Packing::Plain | Packing::Gzip(_) => None,
        };
        self.unpack(held.as_deref().unwrap_or(bytes));
    }

    /// Decompressed bytes so far.
    pub fn unpacked(&self) -> u64 {
        self.bytes
    }

    /// The body is complete.
    pub fn finish(mut self) -> Sitemap {
        if let Packing::Unknown(start) = &mut self.packing {
            let start = std::mem::take(start);
            self.unpack(&start);
        }
        if let Packing::Gzip(decoder) = &mut self.packing {
            let cut = decoder.try_finish().is_err();
            let rest = std::mem::take(decoder.get_mut());
            self.measure(&rest);
            if cut && !self.done {
                self.found.fault("the gzip data is cut");
                self.found.sitemap.cut = true;
            }
        }
        if !self.done {
            self.decode(&[], true);
        }
        self.found.finish(matches!(self.shape, Shape::Unknown))
    }

    fn unpack(&mut self, bytes: &[u8]) {
        if !matches!(self.packing, Packing::Gzip(_)) {
            return self.measure(bytes);
        }
        // In small pieces, to bound the output of one call: gzip expands up to a thousandfold.
        for piece in bytes.chunks(4096) {
            let Packing::Gzip(decoder) = &mut self.packing else { return };
            let result = decoder.write_all(piece);
            if result.is_err() {
                // Output before the fault is still buffered; the next write flushes it and fails too.
                let _ = decoder.write(&[0]);
            }
            let unpacked = std::mem::take(decoder.get_mut());
            self.measure(&unpacked);
            if result.is_err() && !self.done {
                self.found.fault("the gzip data is broken");
                self.found.sitemap.cut = true;
                self.decode(&[], true);
                self.done = true;
            }
            if self.done {
                return;
            }
        }
    }

    /// Passes bytes on up to the size limit.
    fn measure(&mut self, bytes: &[u8]) {
        if self.done {
            return;
        }
        let left = usize::try_from(self.found.bounds.max_bytes - self.bytes).unwrap_or(usize::MAX);
        let taken = bytes.get(..left).unwrap_or(bytes);
        self.bytes += taken.len() as u64;
        let cut = taken.len() < bytes.len();
        self.decode(taken, cut);
        if cut && !self.done {
            self.found.sitemap.limited = true;
            self.found.sitemap.cut = true;
            self.found.fault(format!("longer than {} bytes: the rest was not read", self.found.bounds.max_bytes));
            self.done = true;
        }
    }

    fn decode(&mut self, bytes: &[u8], last: bool) {
        let held = match &mut self.decoding {
            Decoding::Unknown(start) => {
                start.extend_from_slice(bytes);
                if start.len() < SNIFF && !last {
                    return;
                }
                let start = std::mem::take(start);
                self.decoding = Decoding::Known(Box::new(encoding_of(&start).new_decoder()));
                Some(start)
            }
            Decoding::Known(_) => None,
        };
        let Decoding::Known(decoder) = &mut self.decoding else { return };
        let mut bytes = held.as_deref().unwrap_or(bytes);
        // In small pieces here too: parsed text is dropped before more is decoded.
        loop {
            let (piece, rest) = bytes.split_at(bytes.len().min(1 << 16));
            let ends = last && rest.is_empty();
            let Some(room) = decoder.max_utf8_buffer_length(piece.len()) else { return };
            self.text.reserve(room);
            let _ = decoder.decode_to_string(piece, &mut self.text, ends);
            match understand(&mut self.shape, &self.text, ends, &mut self.found) {
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

    fn stop(&mut self, fault: impl Into<String>) {
        self.found.fault(fault);
        self.found.sitemap.cut = true;
        self.done = true;
    }
}

/// Parses the complete part of the text and returns its length.
fn understand(shape: &mut Shape, text: &str, last: bool, found: &mut Found) -> Result<usize, Fault> {
    let blank = text.len() - text.trim_start().len();
    let rest = text.get(blank..).unwrap_or("");
    match shape {
        Shape::Unknown if rest.is_empty() => Ok(text.len()),
        Shape::Unknown => {
            *shape = if rest.starts_with('<') { Shape::Markup(Box::default()) } else { Shape::Lines };
            Ok(blank + understand(shape, rest, last, found)?)
        }
        Shape::Lines => lines(text, last, found),
        Shape::Markup(markup) => markup.read(text, last, found),
    }
}

/// A plain list: one URL per line. A last line without line end counts: it cannot be known whether it is complete.
fn lines(text: &str, last: bool, found: &mut Found) -> Result<usize, Fault> {
    found.sitemap.format = Some(SitemapFormat::Text);
    let end = if last { text.len() } else { text.rfind(['\n', '\r']).map_or(0, |at| at + 1) };
    for line in text.get(..end).unwrap_or("").split(['\n', '\r']) {
        if !line.trim().is_empty() {
            let draft = Draft { loc: Some(line.to_owned()), ..Draft::default() };
            found.page(draft, false)?;
        }
        if found.sitemap.entries.is_empty() && found.sitemap.skipped > MAX_JUNK_LINES {
            return Err(Fault("neither XML nor a list of addresses".to_owned()));
        }
    }
    Ok(end)
}

/// The encoding of the XML declaration. The decoder handles a byte order mark, which takes precedence.
fn encoding_of(start: &[u8]) -> &'static encoding_rs::Encoding {
    let head = String::from_utf8_lossy(start.get(..SNIFF).unwrap_or(start));
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

/// An entry as written.
#[derive(Default)]
struct Draft {
    loc: Option<String>,
    lastmod: Option<String>,
    priority: Option<String>,
    changefreq: Option<String>,
}

/// The result so far.
struct Found {
    url: Url,
    bounds: SitemapBounds,
    sitemap: Sitemap,
    /// Heap bytes of the entries.
    weight: usize,
}

impl Found {
    /// The first fault is reported.
    fn fault(&mut self, fault: impl Into<String>) {
        self.sitemap.fault.get_or_insert_with(|| fault.into());
    }

    /// Adds a page; `relative` if relative URLs are allowed.
    fn page(&mut self, draft: Draft, relative: bool) -> Result<(), Fault> {
        let entry = self.entry(&draft, relative);
        match entry.filter(|entry| self.bounds.admits(&self.url, &entry.url)) {
            None => self.sitemap.skipped = self.sitemap.skipped.saturating_add(1),
            Some(_) if self.sitemap.entries.len() >= self.bounds.max_entries => return Err(self.too_many()),
            Some(entry) => {
                self.weight += entry.weight();
                self.sitemap.entries.push(entry);
            }
        }
        Ok(())
    }

    /// Adds a sitemap.
    fn child(&mut self, draft: &Draft) -> Result<(), Fault> {
        match self.entry(draft, false) {
            None => self.sitemap.skipped = self.sitemap.skipped.saturating_add(1),
            Some(_) if self.sitemap.children.len() >= self.bounds.max_entries => return Err(self.too_many()),
            Some(entry) => {
                self.weight += entry.weight();
                self.sitemap.children.push(entry);
            }
        }
        Ok(())
    }

    fn too_many(&mut self) -> Fault {
        self.sitemap.limited = true;
        Fault(format!("more than {} entries: the rest was not read", self.bounds.max_entries))
    }

    fn entry(&self, draft: &Draft, relative: bool) -> Option<SitemapEntry> {
        Some(SitemapEntry {
            url: self.locate(draft.loc.as_deref()?, relative)?,
            lastmod: draft.lastmod.as_deref().and_then(date::parse),
            priority: draft.priority.as_deref().and_then(parse_priority),
            changefreq: draft.changefreq.as_deref().and_then(Changefreq::from_name),
        })
    }

    /// The URL of an entry. The protocol demands absolute URLs; many leave out the scheme, some the host.
    fn locate(&self, text: &str, relative: bool) -> Option<Url> {
        let text = trim(text);
        if text.len() > MAX_LOCATION {
            return None;
        }
        let host = text.split(['/', '?']).next().unwrap_or(text);
        if let Ok(url) = Url::parse(text) {
            Some(url)
        } else if !host.is_empty() && host_key(&host.to_ascii_lowercase()) == host_key(self.url.host()) {
            self.url.join(&format!("//{text}")).ok()
        } else if (relative && !text.is_empty()) || text.starts_with('/') {
            self.url.join(text).ok()
        } else {
            None
        }
    }

    fn finish(mut self, empty: bool) -> Sitemap {
        let nothing = self.sitemap.entries.is_empty() && self.sitemap.children.is_empty();
        if empty {
            self.fault("it is empty");
        } else if nothing && self.sitemap.format == Some(SitemapFormat::Text) {
            self.fault("neither XML nor a list of addresses");
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
