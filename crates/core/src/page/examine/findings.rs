//! Computes the findings at the end of a page, when charset and base URL are known: resolves links, decodes texts.

use encoding_rs::{Encoding, UTF_8};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::borrow::Cow;
use std::hash::BuildHasher;

use super::Findings;
use super::entities::{self, TextContext};
use super::facts::{OpenGraph, PageFacts};
use super::headers::refresh_header;
use super::links::Collector;
use super::resolve::BaseUrl;
use super::tokenizer::Dialect;
use crate::base::link::LinkKind;
use crate::base::link_list::LinkList;
use crate::base::url::{BadUrl, MAX_URL_LEN, Url, UrlRef};

/// Titles, headings, descriptions and texts of links are cut at this many bytes.
pub(crate) const MAX_TITLE: usize = 2048;

/// Limit on the total bytes of the URLs of a page. With a long base URL, a few bytes of markup become a long URL.
pub(crate) const MAX_RESOLVED: usize = 5 << 20;

/// The collected data of a page, and what is needed to resolve its links and decode its texts.
pub struct LinkResolution<'a> {
    pub collector: &'a Collector,
    pub page: &'a Url,
    /// The charset of the collected bytes.
    pub text_charset: &'static Encoding,
    /// The charset of the page, in which queries are encoded.
    pub query_charset: &'static Encoding,
}

impl LinkResolution<'_> {
    /// Fills in the findings of a page.
    pub fn fill(self, findings: &mut Findings) {
        let collector = self.collector;
        findings.title =
            collector.title.as_deref().and_then(|title| collapse_spaces(&self.text(title, TextContext::Text)));
        findings.directives = collector.directives;
        findings.capped = collector.capped;
        let is_html = collector.dialect == Dialect::Html;
        findings.likeness = collector.likeness.clone().finish().filter(|_| is_html);
        findings.other_schemes = collector.links.other_schemes;
        findings.too_long = collector.links.too_long;
        findings.links_over_limit = collector.links.over_limit;
        let base = self.base();
        self.resolve_links(&base, findings);
        findings.canonical =
            collector.canonical.clone().and_then(|range| self.url(&base, collector.links.bytes(range)));
        findings.hreflang = collector
            .hreflang
            .iter()
            .filter_map(|(language, range)| {
                let url = self.url(&base, collector.links.bytes(range.clone()))?;
                Some((self.text(language, TextContext::Attribute).into(), url))
            })
            .collect();
        if is_html || findings.content_type.as_deref() == Some("application/xhtml+xml") {
            findings.facts = Some(Box::new(self.facts(&base)));
        }
    }

    /// Fills in the links of a file other than markup that contains URLs of resources.
    pub fn resolve_resources(&self, findings: &mut Findings) {
        self.resolve_links(&BaseUrl::new(self.page), findings);
    }

    fn facts(&self, base: &BaseUrl) -> PageFacts {
        let raw = &self.collector.facts;
        let text = |bytes: Option<&[u8]>, context| bytes.and_then(|bytes| collapse_spaces(&self.text(bytes, context)));
        let image = raw.og_image.clone().and_then(|range| self.url(base, self.collector.links.bytes(range)));
        let words = self.collector.likeness.words();
        PageFacts {
            description: text(raw.description.as_deref(), TextContext::Attribute),
            h1: text(Some(&raw.h1), TextContext::Text),
            h1_count: raw.h1_count,
            lang: text(raw.lang.as_deref(), TextContext::Attribute),
            meta_robots: raw.meta_robots.clone(),
            // Ideographs are recognised by their bytes in UTF-8.
            words: words.spaced + if self.text_charset == UTF_8 { words.ideographs } else { 0 },
            og: OpenGraph {
                title: text(raw.og_title.as_deref(), TextContext::Attribute),
                image: image.map(|url| url.as_str().into()),
            },
            images_without_alt: raw.images_without_alt,
            needs_scripts: self.collector.empty_page.looks_empty(words.total()),
            minhash: self.collector.likeness.min_hash(),
        }
    }

    /// The URL of the first `base` element, or of the page if there is no usable one.
    fn base(&self) -> BaseUrl {
        let page_base = BaseUrl::new(self.page);
        let href = self.collector.base.as_deref().map(|href| self.text(href, TextContext::Attribute));
        href.and_then(|href| page_base.rebased(&href, self.query_charset)).unwrap_or(page_base)
    }

    fn resolve_links(&self, base: &BaseUrl, findings: &mut Findings) {
        let max_len = self.collector.limits.max_url.min(MAX_URL_LEN);
        let links = &self.collector.links;
        // Reserve the memory at once: a list that grew by doubling would exceed its charge to the budget. Most URLs are
        // at most as long as received, plus the origin of the page and the `base` element.
        let origin_len = self.page.as_str().len() - self.page.target().len();
        let base_len = self.collector.base.as_ref().map_or(0, |base| base.len()) + origin_len;
        // The limit is checked before a link is added, so one URL may exceed it.
        let capacity = (links.received_bytes() + links.len() * base_len).min(MAX_RESOLVED + max_len);
        let mut distinct = Distinct::with_capacity(links.len(), capacity);
        let mut out = String::new();
        for (raw_index, (bytes, raw_link)) in self.collector.links.iter().enumerate() {
            let text = self.text(bytes, TextContext::Attribute);
            let href = match raw_link.kind {
                LinkKind::Refresh => refresh_header(&text),
                _ => Some(&*text),
            };
            let Some(href) = href else { continue };
            if distinct.list.bytes() > MAX_RESOLVED {
                findings.capped = true;
                break;
            }
            match base.resolve(href, self.query_charset, &mut out) {
                // What the data adds to the other links counts. A string that is not a URL is not a faulty link.
                Ok(()) if raw_link.kind == LinkKind::Data && (out == self.page.as_str() || distinct.has(&out)) => {}
                Err(_) if raw_link.kind == LinkKind::Data => {}
                Ok(()) if out.len() <= max_len => {
                    let anchor = self.collector.anchors.as_ref().and_then(|anchors| anchors.raw(raw_index));
                    let anchor = anchor.and_then(|text| collapse_spaces(&self.text(text, TextContext::Text)));
                    let index = distinct.add(&out, raw_link.kind, raw_link.nofollow, anchor.as_deref());
                    let rel = self.collector.anchors.as_ref().and_then(|anchors| anchors.rel(raw_index));
                    if let (Some(index), Some(rel)) = (index, rel) {
                        let rel = self.text(rel, TextContext::Attribute);
                        distinct.list.set_rel(index as usize, collapse_spaces(&rel).as_deref().unwrap_or_default());
                    }
                }
                Ok(()) | Err(BadUrl::TooLong) => findings.too_long += 1,
                Err(BadUrl::Scheme) => findings.other_schemes += 1,
                Err(BadUrl::Syntax | BadUrl::Port) => findings.malformed += 1,
            }
        }
        findings.links = distinct.list;
    }

    /// Resolves a link as received.
    fn url(&self, base: &BaseUrl, bytes: &[u8]) -> Option<Url> {
        let mut out = String::new();
        base.resolve(&self.text(bytes, TextContext::Attribute), self.query_charset, &mut out).ok()?;
        let max_len = self.collector.limits.max_url;
        UrlRef::from_normal(&out).filter(|_| out.len() <= max_len).map(UrlRef::to_url)
    }

    /// Decodes a text as received, and resolves its character references.
    fn text<'b>(&self, bytes: &'b [u8], context: TextContext) -> Cow<'b, str> {
        match self.text_charset.decode_without_bom_handling(bytes).0 {
            Cow::Borrowed(text) => entities::resolve(text, context),
            Cow::Owned(text) => Cow::Owned(entities::resolve(&text, context).into_owned()),
        }
    }
}

/// A list of links without duplicates. Links that differ as received may resolve to the same URL.
struct Distinct {
    list: LinkList,
    /// Indexes in `list`, by the hash of URL and kind.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Distinct {
    fn with_capacity(links: usize, bytes: usize) -> Self {
        Self {
            list: LinkList::with_capacity(links, bytes),
            index: HashTable::with_capacity(links),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Whether there is a link of any kind to a URL.
    fn has(&self, url: &str) -> bool {
        LinkKind::ALL.iter().any(|&kind| {
            let hash = self.hasher.hash_one((url, kind));
            self.index.find(hash, |&index| self.list.get(index as usize) == Some((url, kind))).is_some()
        })
    }

    /// Adds a link, or merges it into the link of the list that has the same URL and kind. Returns its index in the
    /// list; `None` if the list is full.
    fn add(&mut self, url: &str, kind: LinkKind, nofollow: bool, anchor: Option<&str>) -> Option<u32> {
        let hash = self.hasher.hash_one((url, kind));
        if let Some(&known) = self.index.find(hash, |&index| self.list.get(index as usize) == Some((url, kind))) {
            if !nofollow {
                self.list.clear_nofollow(known as usize);
            }
            if let Some(anchor) = anchor {
                self.list.set_anchor(known as usize, anchor);
            }
            return Some(known);
        }
        let index = u32::try_from(self.list.len()).ok()?;
        self.list.push(url, kind, nofollow);
        if let Some(anchor) = anchor {
            self.list.set_anchor(index as usize, anchor);
        }
        let (list, hasher) = (&self.list, &self.hasher);
        self.index.insert_unique(hash, index, |&index| {
            list.get(index as usize).map_or(0, |(url, kind)| hasher.hash_one((url, kind)))
        });
        Some(index)
    }
}

/// A text with collapsed white space, up to [`MAX_TITLE`] bytes; `None` if it is empty.
fn collapse_spaces(text: &str) -> Option<Box<str>> {
    let mut out = String::new();
    // A cut text may end in an incomplete character, which was decoded to U+FFFD: remove it.
    for word in text.trim_end_matches('\u{FFFD}').split_ascii_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        if out.len() > MAX_TITLE {
            out.truncate(out.floor_char_boundary(MAX_TITLE));
            break;
        }
    }
    (!out.is_empty()).then(|| out.into_boxed_str())
}
