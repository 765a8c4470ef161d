//! Examination of a response body: links, title, charset, robots directives, digest.
//!
//! [`Examiner`] is a pure state machine. It is fed a decoded body in chunks and returns [`Findings`] at the end. It
//! keeps its findings, not the body: memory grows with the links of a page, not with its size. (Only web app manifests,
//! which are small, are buffered.) The work per byte is bounded.
//!
//! Invariant: the findings do not depend on how the body is split into chunks.
//!
//! | file | subject |
//! |---|---|
//! | `tokenizer`, `scan`, `raw_text` | where tags and attributes are (HTML standard, section 13.2.5) |
//! | `foreign` | whether the tokenizer is within SVG or MathML |
//! | `anchor_texts` | the texts of links |
//! | `links`, `feeds`, `names` | what elements mean, in HTML and in XML |
//! | `data_links` | addresses of pages in the data of scripts |
//! | `raw_links`, `resolve` | links as received, and the URLs that result |
//! | `facts` | facts for the record of a page |
//! | `empty_page` | whether a page looks empty without scripts |
//! | `findings` | from collected data to findings, at the end of a page |
//! | `css`, `manifest` | URLs of style sheets and of web app manifests |
//! | `charset`, `entities` | from bytes to text |
//! | `kind` | whether and how a body is examined |
//! | `directives`, `headers` | robots directives; type, refresh and links in headers |
//!
//! No tree is built, so some results are approximations:
//! - Elements that a tree builder would drop are examined: a `frame` outside a frameset, anything but options within a
//!   `select`.
//! - SVG and MathML are tracked as described in `foreign`.
//! - A `srcset` is split before its character references are resolved.
//! - Robots directives are decoded as UTF-8, because they are read before the charset is known.
//! - XML namespaces are recognised by their usual prefixes.

use encoding_rs::{Decoder, Encoding, UTF_8};
use std::sync::Arc;

mod anchor_texts;
mod characters;
mod charset;
mod css;
mod data_links;
mod directives;
mod empty_page;
mod entities;
mod facts;
mod feeds;
mod findings;
mod foreign;
mod handler;
mod headers;
mod imports;
mod kind;
mod links;
mod manifest;
pub mod names;
pub mod places;
mod raw_links;
mod raw_text;
mod resolve;
mod scan;
pub mod tokenizer;

pub use charset::of_page as charset_of_page;
pub use css::{CssReader, CssUrl, CssUse, unescape_css};
pub use directives::{Directives, x_robots_tag};
pub use entities::{TextContext, resolve as decode_character_references};
pub use facts::{OpenGraph, PageFacts};
pub(crate) use findings::MAX_RESOLVED;
#[cfg(test)]
pub(crate) use findings::MAX_TITLE;
pub use foreign::ForeignStack;
#[cfg(test)]
pub(crate) use foreign::MAX_FOREIGN_DEPTH;
pub use headers::{MediaType, link_header, refresh_header};
pub use links::{has_word, kind_of_rel, srcset_candidates};
pub use resolve::BaseUrl;

use crate::base::digest::{BodyDigest, BodyHasher};
use crate::base::link_list::LinkList;
use crate::base::url::Url;
use crate::base::value::DigestAlgorithm;
use crate::page::likeness::Likeness;
use charset::Utf8Check;
use findings::LinkResolution;
use imports::ImportReader;
use kind::DocumentKind;
use links::Collector;
use manifest::ManifestReader;
use tokenizer::{Dialect, Tokenizer};

/// The name of a charset as it appears in records; `None` if the label is unknown.
pub fn charset_name(label: &str) -> Option<&'static str> {
    Encoding::for_label(label.as_bytes()).map(charset::name)
}

/// Limits and options of an examination. If a limit on numbers is reached, [`Findings::capped`] is set.
#[derive(Clone, Debug)]
pub struct ExamineLimits {
    /// Limit on the links of a page, of all kinds.
    pub max_links: usize,
    /// Limit on the bytes of a normalized URL. [`Findings::too_long`] counts longer ones.
    pub max_url: usize,
    /// Limit on the attributes of one tag.
    pub max_attrs: usize,
    /// The product token of this crawler. Robots directives may be addressed to it.
    pub agent: Arc<str>,
    /// Whether to look for resources also in style sheets, `style` elements and attributes, lazy images, manifests,
    /// imports of scripts and import maps.
    pub assets: bool,
    /// Whether to keep the texts of links.
    pub anchors: bool,
    /// How the body is digested.
    pub digest: DigestAlgorithm,
}

/// The result of an examination.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The essence of the media type in lower case: as declared, or as detected if nothing usable is declared.
    pub content_type: Option<Box<str>>,
    /// The WHATWG name of the charset in lower case; for text only.
    pub charset: Option<&'static str>,
    /// Whether the header declares an unknown charset.
    pub unknown_charset: bool,
    pub title: Option<Box<str>>,
    /// Distinct by URL and kind, http and https only, in page order.
    pub links: LinkList,
    pub directives: Directives,
    pub canonical: Option<Url>,
    /// Language and URL of the versions of the page in other languages.
    pub hreflang: Vec<(Box<str>, Url)>,
    /// Facts for the record; for HTML and XHTML only.
    pub facts: Option<Box<PageFacts>>,
    /// The digest of all bytes.
    pub digest: BodyDigest,
    /// For HTML with enough text: the fingerprint for near-duplicate detection.
    pub likeness: Option<Likeness>,
    /// Length of the body.
    pub bytes: u64,
    /// Whether a limit was reached: the page has more than was kept.
    pub capped: bool,
    /// Number of links that could not be parsed.
    pub malformed: u32,
    /// Number of links with a scheme that is not crawled.
    pub other_schemes: u32,
    /// Number of links longer than the limit.
    pub too_long: u32,
    /// Number of links beyond [`ExamineLimits::max_links`].
    pub links_over_limit: u32,
}

/// Examines a body.
pub struct Examiner {
    page: Url,
    /// The media type that the `Content-Type` header declares.
    declared: Option<MediaType>,
    digest: BodyHasher,
    bytes: u64,
    limits: ExamineLimits,
    stage: Stage,
}

enum Stage {
    /// Collecting the first bytes, which decide how the rest is processed.
    Opening(Vec<u8>),
    Reading(Box<Reading>),
}

/// How the body is processed, once its first bytes are known.
struct Reading {
    kind: DocumentKind,
    /// The charset that the header or the first bytes declare; `None` if they declare none.
    charset: Option<&'static Encoding>,
    /// Used if `charset` is `None`.
    utf8_check: Utf8Check,
    /// A decoder and its output buffer, for charsets in which the tokenizer cannot find the markup.
    decoder: Option<(Decoder, String)>,
    /// For HTML and XML.
    markup: Option<(Tokenizer, Collector)>,
    /// For files other than markup that contain URLs of resources, if resources are requested.
    resources: Option<ResourceReader>,
}

/// Reads a file other than markup that contains URLs of resources.
enum ResourceReader {
    Css(CssReader, Collector),
    Manifest(ManifestReader, Collector),
    Script(ImportReader, Collector),
}

impl Examiner {
    pub fn new(page: &Url, content_type: Option<&[u8]>, limits: ExamineLimits) -> Self {
        Self {
            page: page.clone(),
            declared: content_type.and_then(MediaType::parse),
            digest: BodyHasher::new(limits.digest),
            bytes: 0,
            limits,
            stage: Stage::Opening(Vec::new()),
        }
    }

    /// Processes bytes of the body.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.digest.update(chunk);
        self.bytes += chunk.len() as u64;
        let mut rest = chunk;
        if let Stage::Opening(opening) = &mut self.stage {
            let room = charset::PRESCAN_BYTES.saturating_sub(opening.len()).min(rest.len());
            let (head, tail) = rest.split_at(room);
            opening.extend_from_slice(head);
            if opening.len() < charset::PRESCAN_BYTES {
                return;
            }
            rest = tail;
            self.start_reading();
        }
        if let Stage::Reading(reading) = &mut self.stage {
            reading.feed(rest);
        }
    }

    /// Decides from the first bytes how the body is processed, and processes them. Has no effect if this was done.
    fn start_reading(&mut self) {
        let Stage::Opening(opening) = &mut self.stage else { return };
        let opening = std::mem::take(opening);
        let label = self.declared.as_ref().and_then(|declared| declared.charset.as_deref());
        let essence = self.declared.as_ref().map(|declared| &*declared.essence);
        let kind = DocumentKind::of(essence, &opening);
        let resources = self.limits.assets.then(|| ResourceReader::for_type(essence, &self.limits)).flatten();
        self.stage = Stage::Reading(Box::new(Reading::new(kind, label, &opening, &self.limits, resources)));
    }

    /// An estimate of the bytes that the links found so far take once they are resolved.
    pub fn resolved_weight(&self) -> usize {
        /// Estimate of the bytes of a link in a [`LinkList`] besides its URL.
        const LINK_OVERHEAD: usize = 32;
        let Stage::Reading(reading) = &self.stage else { return 0 };
        let Some((_, collector)) = &reading.markup else { return 0 };
        let base = collector.base.as_ref().map_or(0, |base| base.len()).max(self.page.as_str().len());
        let of_data: usize = collector.data.links().map(|link| link.len() + base + LINK_OVERHEAD).sum();
        collector.links.received_bytes() + collector.links.len() * (base + LINK_OVERHEAD) + of_data
    }

    /// Heap bytes of the links found so far.
    pub fn weight(&self) -> usize {
        let Stage::Reading(reading) = &self.stage else { return 0 };
        reading.markup.as_ref().map_or(0, |(_, collector)| {
            collector.links.weight()
                + collector.data.weight()
                + collector.anchors.as_ref().map_or(0, |anchors| anchors.weight())
        })
    }

    /// Processes the end of the body, and returns the result.
    pub fn finish(mut self) -> Findings {
        self.start_reading();
        let label = self.declared.as_ref().and_then(|declared| declared.charset.as_deref());
        let mut findings = Findings {
            unknown_charset: label.is_some_and(|label| Encoding::for_label(label.as_bytes()).is_none()),
            content_type: self.declared.map(|declared| declared.essence),
            charset: None,
            title: None,
            links: LinkList::default(),
            directives: Directives::default(),
            canonical: None,
            hreflang: Vec::new(),
            facts: None,
            digest: self.digest.finish(),
            likeness: None,
            bytes: self.bytes,
            capped: false,
            malformed: 0,
            other_schemes: 0,
            too_long: 0,
            links_over_limit: 0,
        };
        if let Stage::Reading(reading) = self.stage {
            reading.finish(&self.page, &mut findings);
        }
        findings
    }
}

impl ResourceReader {
    /// A reader for this media type; `None` if such files have no URLs of resources.
    fn for_type(essence: Option<&str>, limits: &ExamineLimits) -> Option<Self> {
        // No tags are passed to this collector, so its dialect does not matter.
        let collector = || Collector::new(Dialect::Html, limits.clone());
        match essence? {
            "text/css" => Some(Self::Css(CssReader::default(), collector())),
            "text/javascript" | "application/javascript" | "application/x-javascript" => {
                Some(Self::Script(ImportReader::default(), collector()))
            }
            "application/manifest+json" => Some(Self::Manifest(ManifestReader::default(), collector())),
            _ => None,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Css(reader, collector) => reader.feed(bytes, |url| collector.add_css(&url)),
            Self::Manifest(reader, _) => reader.feed(bytes),
            Self::Script(reader, collector) => reader.feed(bytes, |url| collector.add_plain(url)),
        }
    }

    fn finish(self) -> Collector {
        match self {
            Self::Css(mut reader, mut collector) => {
                reader.finish(|url| collector.add_css(&url));
                collector
            }
            Self::Manifest(reader, mut collector) => {
                for source in reader.finish() {
                    collector.add_plain(&source);
                }
                collector
            }
            Self::Script(_, collector) => collector,
        }
    }
}

impl Reading {
    fn new(
        kind: DocumentKind,
        label: Option<&str>,
        opening: &[u8],
        limits: &ExamineLimits,
        resources: Option<ResourceReader>,
    ) -> Self {
        let dialect = match kind {
            DocumentKind::Html => Some(Dialect::Html),
            DocumentKind::Xml => Some(Dialect::Xml),
            DocumentKind::Text | DocumentKind::Other => None,
        };
        let declared = match kind {
            DocumentKind::Other => None,
            _ => charset::declared(opening, label, dialect.is_some()),
        };
        let charset = declared.map(|(encoding, _)| encoding);
        let mut reading = Self {
            kind,
            charset,
            utf8_check: Utf8Check::default(),
            decoder: charset
                .filter(|encoding| charset::hides_markup(encoding))
                .map(|encoding| (encoding.new_decoder_without_bom_handling(), String::new())),
            markup: dialect.map(|dialect| (Tokenizer::new(dialect), Collector::new(dialect, limits.clone()))),
            resources,
        };
        let bom_length = declared.map_or(0, |(_, length)| length);
        reading.feed(opening.get(bom_length..).unwrap_or(&[]));
        reading
    }

    fn feed(&mut self, bytes: &[u8]) {
        if self.charset.is_none() && self.kind != DocumentKind::Other {
            self.utf8_check.feed(bytes);
        }
        if let Some(resources) = &mut self.resources {
            resources.feed(bytes);
        }
        let Some((tokenizer, collector)) = &mut self.markup else { return };
        match &mut self.decoder {
            None => tokenizer.feed(bytes, collector),
            Some((decoder, text)) => {
                // In pieces, to bound the size of the decoded text.
                for piece in bytes.chunks(4096) {
                    text.clear();
                    text.reserve(decoder.max_utf8_buffer_length(piece.len()).unwrap_or(0));
                    let _ = decoder.decode_to_string(piece, text, false);
                    tokenizer.feed(text.as_bytes(), collector);
                }
            }
        }
    }

    fn finish(self, page: &Url, findings: &mut Findings) {
        if findings.content_type.is_none() {
            findings.content_type = self.kind.essence().map(Box::from);
        }
        if self.kind == DocumentKind::Other {
            return;
        }
        // A meta element beyond the first bytes may declare the charset too.
        let late_declaration = self.markup.as_ref().and_then(|(_, collector)| collector.charset);
        let charset = self.charset.or(late_declaration).unwrap_or_else(|| self.utf8_check.decide(page.host()));
        findings.charset = Some(charset::name(charset));
        if let Some(resources) = self.resources {
            let collector = resources.finish();
            LinkResolution { collector: &collector, page, text_charset: charset, query_charset: UTF_8 }
                .resolve_resources(findings);
        }
        let Some((mut tokenizer, mut collector)) = self.markup else { return };
        let mut text_charset = charset;
        if let Some((mut decoder, mut text)) = self.decoder {
            text.clear();
            text.reserve(decoder.max_utf8_buffer_length(0).unwrap_or(0));
            let _ = decoder.decode_to_string(&[], &mut text, true);
            tokenizer.feed(text.as_bytes(), &mut collector);
            // The decoder has converted the collected text to UTF-8. Queries are encoded in the charset of the page.
            text_charset = UTF_8;
        }
        tokenizer.finish(&mut collector);
        collector.finish();
        LinkResolution { collector: &collector, page, text_charset, query_charset: charset }.fill(findings);
    }
}
