//! [`SitemapReader`]: the addresses that a sitemap lists, taken from its bytes as they come.
//!
//! Invariant: what was read before a fault or a limit is kept, and the fault is told; memory is bounded by the entries,
//! never by the document; no entity is expanded beyond XML's own five, no DTD is looked at.
//!
//! Understood are the sitemap protocol's XML and its index, RSS 1.0 and 2.0, Atom and plain lists of addresses, each in
//! gzip or not: found out by looking at the bytes, since types and file names are often wrong.

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

/// What a sitemap may hold, by the protocol: bytes after decoding.
pub const MAX_BYTES: u64 = 50 << 20;
/// How many bytes are looked at to learn the character encoding.
const SNIFF: usize = 256;
/// One line, tag or comment may be this long.
const MAX_PIECE: usize = 1 << 20;
/// So many lines without a single address are no list of addresses.
const MAX_JUNK_LINES: u32 = 1000;

/// What a sitemap says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sitemap {
    pub format: Option<SitemapFormat>,
    /// The pages that it lists.
    pub entries: Vec<SitemapEntry>,
    /// The sitemaps that it lists. Whether to fetch them is for the scope to say.
    pub children: Vec<SitemapEntry>,
    /// When the whole list was changed; feeds say so.
    pub lastmod: Option<Timestamp>,
    /// Entries that are no addresses, or of other sites.
    pub skipped: u32,
    /// Why it was not read to its end, or what in it could not be understood.
    pub fault: Option<String>,
    /// The fault is a limit that was reached.
    pub limited: bool,
    /// It was not read to its end.
    pub cut: bool,
}

/// An address that a sitemap lists.
#[derive(Clone, Debug, PartialEq)]
pub struct SitemapEntry {
    pub url: Url,
    pub lastmod: Option<Timestamp>,
    /// From 0 to 1, where it was given.
    pub priority: Option<f32>,
    pub changefreq: Option<Changefreq>,
}

impl SitemapEntry {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.url.as_str().len()
    }
}

/// How often a page is said to change.
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

/// Which sites a sitemap may speak for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SitemapReach {
    /// Its own directory, over its own scheme, host and port: the letter of the protocol.
    Directory,
    /// Its own host, with or without `www.`.
    Host,
    /// Its own registrable domain: what browsers call the same site.
    #[default]
    Domain,
    Any,
}

/// What a reader accepts.
#[derive(Clone, Debug)]
pub struct SitemapBounds {
    pub reach: SitemapReach,
    /// Hosts whose robots.txt names this sitemap: it may speak for them as for its own.
    pub vouched: Vec<Box<str>>,
    /// Whether it may list sitemaps: those that come from an index may not.
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
    /// Whether the sitemap may speak for this page.
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

/// Reads one sitemap.
pub struct SitemapReader {
    found: Found,
    packing: Packing,
    decoding: Decoding,
    /// Text that was decoded and not understood yet.
    text: String,
    shape: Shape,
    bytes: u64,
    done: bool,
}

enum Packing {
    /// Too few bytes to know.
    Unknown(Vec<u8>),
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

enum Decoding {
    Unknown(Vec<u8>),
    Known(Box<encoding_rs::Decoder>),
}

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

    /// The bytes of memory that what was read takes.
    pub fn weight(&self) -> usize {
        self.found.weight + self.text.capacity()
    }

    /// Nothing that may still come can change the result: a limit was reached, or a fault.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Takes the next bytes of the body, after content codings. Any division into chunks gives the same result.
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

    /// Bytes that were read so far, unpacked.
    pub fn unpacked(&self) -> u64 {
        self.bytes
    }

    /// The body has ended.
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
        // Small pieces, so that what one of them expands to stays small: gzip makes at most a thousand out of one.
        for piece in bytes.chunks(4096) {
            let Packing::Gzip(decoder) = &mut self.packing else { return };
            let result = decoder.write_all(piece);
            if result.is_err() {
                // What was unpacked before the fault is still inside; the next byte makes it come out, and fails too.
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

    /// Lets as much through as the limit on bytes allows.
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
        // Small pieces here as well: what was understood is dropped before more is decoded.
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

/// Understands as much of the text as is complete; returns how much that was.
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

/// A plain list: one address a line. A last line without an end counts: nobody can tell whether it is whole.
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

/// The encoding that an XML declaration names; a byte order mark, which comes first, is the decoder's to see.
fn encoding_of(start: &[u8]) -> &'static encoding_rs::Encoding {
    let head = String::from_utf8_lossy(start.get(..SNIFF).unwrap_or(start));
    let declared =
        head.trim_start().strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")).and_then(|(rest, _)| {
            let value = rest.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            encoding_rs::Encoding::for_label(value.get(1..)?.split(quote).next()?.as_bytes())
        });
    match declared {
        // Who could read the declaration byte by byte does not read UTF-16.
        Some(encoding) if encoding != encoding_rs::UTF_16LE && encoding != encoding_rs::UTF_16BE => encoding,
        _ => encoding_rs::UTF_8,
    }
}

/// Why reading stops.
struct Fault(String);

/// An entry as it is written.
#[derive(Default)]
struct Draft {
    loc: Option<String>,
    lastmod: Option<String>,
    priority: Option<String>,
    changefreq: Option<String>,
}

/// What was found so far.
struct Found {
    url: Url,
    bounds: SitemapBounds,
    sitemap: Sitemap,
    /// The bytes of memory that the entries take.
    weight: usize,
}

impl Found {
    /// The first fault is the one that is told.
    fn fault(&mut self, fault: impl Into<String>) {
        self.sitemap.fault.get_or_insert_with(|| fault.into());
    }

    /// Adds a page; `relative` where addresses may be so.
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

    /// The address that is meant. The protocol wants whole ones; many leave out the scheme, some the host.
    fn locate(&self, text: &str, relative: bool) -> Option<Url> {
        let text = trim(text);
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

/// Without white space of any script, and without the marks that nobody sees.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'))
}
