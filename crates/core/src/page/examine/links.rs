//! [`Collector`]: extracts from tags what a crawler needs.
//!
//! Collects links by kind, title, robots directives, base and declared charset. Links and texts are stored as received,
//! and are resolved and decoded when the page ends. Content of `noscript` counts, because scripts are not executed.
//! Content of `template` elements does not. Of a page in a `srcdoc` attribute, only the resources count.

use encoding_rs::Encoding;
use memchr::memmem;
use std::ops::Range;

use super::ExamineLimits;
use super::anchor_texts::AnchorTexts;
use super::characters::is_space;
use super::charset;
use super::css::{CssReader, CssUrl, unescape_css};
use super::data_links::{DataReader, ScriptForm};
use super::directives::Directives;
use super::empty_page::EmptyPageReader;
use super::entities::{self, TextContext};
use super::facts::{RawFacts, alt_text};
use super::foreign::ForeignStack;
use super::imports::{ImportReader, MAX_IMPORT_MAP, import_map};
use super::names;
use super::places;
use super::raw_links::RawLinks;
use super::tokenizer::{Dialect, Tag, TextMode, Tokenizer};
use crate::base::link::LinkKind;
use crate::page::likeness::{LikenessReader, WordCount};

/// Bytes kept of a title, or of a link that is the text of an element.
const MAX_TEXT: usize = 8 * 1024;
/// How deep pages in `srcdoc` attributes are read.
const MAX_NESTING: u8 = 2;
/// Limit on the bytes of a language in `hreflang`.
const MAX_LANGUAGE: usize = 64;

/// The meaning of captured text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedText {
    Title,
    /// The URL of an RSS item or channel.
    Link,
    /// The identifier of an RSS item, which may be its URL.
    Guid,
}

/// A `script` element that is being read.
pub enum OpenScript {
    /// Its imports are read if resources are requested.
    Code(Option<ImportReader>),
    ImportMap(Vec<u8>),
    Data,
}

/// Receives the tokens of a page and collects links and facts.
pub struct Collector {
    pub dialect: Dialect,
    pub limits: ExamineLimits,
    pub links: RawLinks,
    /// The text of the first title, as received.
    pub title: Option<Vec<u8>>,
    /// The URL of the first `base` element or, in XML, also of the first `xml:base` attribute, as received.
    pub base: Option<Box<[u8]>>,
    /// The charset that a meta element declares, anywhere in the page.
    pub charset: Option<&'static Encoding>,
    /// The range of the canonical URL in the bytes of `links`.
    pub canonical: Option<Range<usize>>,
    /// Language, and range of the URL in the bytes of `links`, of each alternate with a language.
    pub hreflang: Vec<(Box<[u8]>, Range<usize>)>,
    pub directives: Directives,
    pub facts: RawFacts,
    /// Whether a limit was reached.
    pub capped: bool,
    /// Whether the document is a feed: `link` has another meaning there.
    pub is_feed: bool,
    /// Reads the text of the page, for near-duplicate detection and the word count.
    pub likeness: LikenessReader,
    /// Recognises pages that look empty without scripts.
    pub empty_page: EmptyPageReader,
    pub(super) foreign: ForeignStack,
    /// Number of open `template` elements.
    pub(super) templates: u32,
    /// The meaning of the text that is being captured; `None` if none is.
    pub(super) capturing: Option<CapturedText>,
    /// The captured text so far.
    captured: Vec<u8>,
    /// The word count before the captured text.
    words_before_capture: WordCount,
    /// Reads the `style` element that is open.
    pub(super) style: Option<CssReader>,
    /// Reads the `script` element that is open.
    pub(super) script: Option<OpenScript>,
    /// Reads the data in scripts.
    pub data: DataReader,
    /// The texts of links, if they are requested.
    pub anchors: Option<Box<AnchorTexts>>,
    /// In how many `srcdoc` attributes this page stands.
    nesting: u8,
}

impl Collector {
    pub fn new(dialect: Dialect, limits: ExamineLimits) -> Self {
        Self {
            dialect,
            anchors: limits.anchors.then(Box::default),
            limits,
            links: RawLinks::default(),
            title: None,
            base: None,
            charset: None,
            canonical: None,
            hreflang: Vec::new(),
            directives: Directives::default(),
            facts: RawFacts::default(),
            capped: false,
            is_feed: false,
            likeness: LikenessReader::default(),
            empty_page: EmptyPageReader::default(),
            foreign: ForeignStack::default(),
            templates: 0,
            capturing: None,
            captured: Vec::new(),
            words_before_capture: WordCount::default(),
            style: None,
            script: None,
            data: DataReader::default(),
            nesting: 0,
        }
    }

    /// Ends what is still open at the end of the page.
    pub fn finish(&mut self) {
        self.end_capture();
        self.end_anchor();
        self.end_script();
        self.add_data_links();
        self.capped |= self.links.over_limit > 0;
    }

    /// Adds a link without nofollow. Returns the range of its bytes in `links`, if it is stored.
    pub fn add(&mut self, href: &[u8], kind: LinkKind) -> Option<Range<usize>> {
        self.add_link(href, kind, false)
    }

    /// Adds a link. Returns the range of its bytes in `links`, if it is stored.
    fn add_link(&mut self, href: &[u8], kind: LinkKind, nofollow: bool) -> Option<Range<usize>> {
        self.links.add(href, kind, nofollow, self.limits.max_links, self.limits.max_url)
    }

    /// Adds resources that are needed for display. Empty URLs are skipped.
    pub fn add_assets<const N: usize>(&mut self, sources: [Option<&[u8]>; N]) {
        for source in sources.into_iter().flatten().filter(|source| !source.trim_ascii().is_empty()) {
            self.add(source, LinkKind::Asset);
        }
    }

    /// Adds a URL of a style sheet.
    pub fn add_css(&mut self, url: &CssUrl<'_>) {
        if !url.written.iter().any(|byte| matches!(byte, b'\\' | b'&')) {
            return self.add_assets([Some(url.written)]);
        }
        // The bytes outside of escapes are in the charset of the page, which is not known yet.
        let mut stored = Vec::with_capacity(url.written.len() + 16);
        for run in url.written.chunk_by(|one, next| one.is_ascii() == next.is_ascii()) {
            match std::str::from_utf8(run) {
                Ok(ascii) if ascii.is_ascii() => {
                    unescape_css(ascii).chars().for_each(|char| entities::push_as_reference(&mut stored, char));
                }
                _ => stored.extend_from_slice(run),
            }
        }
        self.add_assets([Some(&stored)]);
    }

    /// Adds a resource whose URL has no character references and is not in the charset of the page.
    pub fn add_plain(&mut self, url: &str) {
        let mut stored = Vec::with_capacity(url.len() + 16);
        url.chars().for_each(|char| entities::push_as_reference(&mut stored, char));
        self.add_assets([Some(&stored)]);
    }

    /// Starts to read a `style` element, if resources are requested. Returns the mode for its text.
    pub fn begin_style(&mut self) -> TextMode {
        if !self.limits.assets {
            return TextMode::RawText;
        }
        self.style = Some(CssReader::default());
        TextMode::CapturedRawText
    }

    /// Adds the links in the data of scripts, after all others: if there is no room for them, it is used by the others.
    fn add_data_links(&mut self) {
        let data = std::mem::take(&mut self.data);
        for link in data.links() {
            self.add(link, LinkKind::Data);
        }
        self.capped |= data.is_capped();
    }

    /// Starts to read the data and the imports of a `script` element. Returns the mode for its text.
    pub(super) fn begin_script(&mut self, tag: &Tag<'_>) -> TextMode {
        let [kind] = self.values(tag, ["type"]);
        let kind = kind.unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let is = |names: &[&str]| names.iter().any(|name| *kind == *name.as_bytes());
        self.script = if is(&["", "module", "text/javascript", "application/javascript"]) {
            self.data.begin(ScriptForm::Code);
            Some(OpenScript::Code(self.limits.assets.then(ImportReader::default)))
        } else if is(&["importmap"]) && self.limits.assets {
            Some(OpenScript::ImportMap(Vec::new()))
        } else if is(&["application/json", "text/json"]) || kind.ends_with(b"+json") {
            self.data.begin(ScriptForm::Json);
            Some(OpenScript::Data)
        } else {
            None
        };
        if self.script.is_some() { TextMode::CapturedScript } else { TextMode::Script }
    }

    pub(super) fn read_script(&mut self, text: &[u8]) {
        match self.script.take() {
            Some(OpenScript::Code(mut imports)) => {
                self.data.feed(text);
                if let Some(reader) = &mut imports {
                    reader.feed(text, |url| self.add_plain(url));
                }
                self.script = Some(OpenScript::Code(imports));
            }
            Some(OpenScript::Data) => {
                self.data.feed(text);
                self.script = Some(OpenScript::Data);
            }
            Some(OpenScript::ImportMap(mut map)) => {
                let room = MAX_IMPORT_MAP.saturating_sub(map.len());
                map.extend_from_slice(text.get(..room).unwrap_or(text));
                self.script = Some(OpenScript::ImportMap(map));
            }
            None => {}
        }
    }

    pub(super) fn end_script(&mut self) {
        match self.script.take() {
            Some(OpenScript::ImportMap(map)) => import_map(&map).iter().for_each(|url| self.add_plain(url)),
            Some(OpenScript::Code(_) | OpenScript::Data) => self.data.end(),
            None => {}
        }
    }

    /// Adds the URLs of a `style` attribute and of attributes for lazy loading.
    pub(super) fn add_hidden_assets(&mut self, tag: &Tag<'_>) {
        // Few tags have such attributes, so search for them before parsing all attributes. Spellings such as `Url(` are
        // missed.
        let rest = tag.attributes().remainder();
        if memmem::find(rest, b"url(").is_some() || memmem::find(rest, b"URL(").is_some() {
            let [style] = self.values(tag, ["style"]);
            if let Some(style) = style {
                // `add_css` unescapes the characters that the charset of the page may not have.
                let style = entities::resolve_in_bytes(style, |out, char| match u8::try_from(char) {
                    Ok(byte) if byte.is_ascii() => out.push(byte),
                    _ => out.extend_from_slice(format!("\\{:x} ", u32::from(char)).as_bytes()),
                });
                let mut reader = CssReader::default();
                reader.feed(&style, |url| self.add_css(&url));
                reader.finish(|url| self.add_css(&url));
            }
        }
        if memmem::find(rest, b"background=").is_some() && names::key(tag.name) != names::BODY {
            let values = self.values(tag, ["background"]);
            self.add_assets(values);
        }
        if memmem::find(rest, b"data-").is_some() {
            let names = ["data-src", "data-lazy-src", "data-original", "data-srcset", "data-lazy-srcset"];
            let [source, lazy, original, srcset, lazy_srcset] = self.values(tag, names);
            // Scripts define these attributes. A value with a space is not a URL.
            let may_be_url = |value: &&[u8]| !value.contains(&b' ');
            self.add_assets([source, lazy, original].map(|value| value.filter(may_be_url)));
            self.add_srcset(srcset);
            self.add_srcset(lazy_srcset);
        }
    }

    /// Adds the resources of a page in a `srcdoc` attribute. Its links, title, directives and texts are not those of
    /// this page.
    fn add_nested_page(&mut self, page: &[u8]) {
        if self.nesting >= MAX_NESTING {
            return;
        }
        // The charset is not known yet, so characters that are not ASCII stay references.
        let page = entities::resolve_in_bytes(page, |out, char| match u8::try_from(char) {
            Ok(byte) if byte.is_ascii() => out.push(byte),
            _ => entities::push_as_reference(out, char),
        });
        let mut nested = Self { nesting: self.nesting + 1, ..Self::new(Dialect::Html, self.limits.clone()) };
        let mut tokenizer = Tokenizer::new(Dialect::Html);
        tokenizer.feed(&page, &mut nested);
        tokenizer.finish(&mut nested);
        nested.finish();
        for (href, link) in nested.links.iter() {
            // Its anchors are not followed: they do not belong to this page.
            if link.kind == LinkKind::Asset {
                self.add_link(href, link.kind, link.nofollow);
            }
        }
        self.capped |= nested.capped;
    }

    fn add_srcset(&mut self, srcset: Option<&[u8]>) {
        for source in srcset_candidates(srcset.unwrap_or(&[])) {
            self.add(source, LinkKind::Asset);
        }
    }

    /// The values of the attributes with these names. Of duplicates, the first counts, as the standard requires.
    pub fn values<'a, const N: usize>(&mut self, tag: &Tag<'a>, names: [&str; N]) -> [Option<&'a [u8]>; N] {
        let mut values = [None; N];
        let mut attributes = tag.attributes();
        for count in 0.. {
            let Some((name, value)) = attributes.next() else { break };
            if count >= self.limits.max_attrs {
                self.capped = true;
                break;
            }
            let index = names.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
            if let Some(slot) = index.and_then(|index| values.get_mut(index)) {
                slot.get_or_insert(value);
            }
        }
        // A tag that is cut usually ends within a data URL: then no link is lost. If it ends within an `href`, this link
        // is too long. Otherwise, what is lost is not known.
        let unfinished = attributes.remainder();
        // Enough bytes for the name of the attribute and the scheme.
        let is_data_url = memmem::find(unfinished.get(..64).unwrap_or(unfinished), b"data:").is_some();
        if tag.is_cut && unfinished.trim_ascii_start().get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"href="))
        {
            self.links.too_long = self.links.too_long.saturating_add(1);
        } else {
            self.capped |= tag.is_cut && !is_data_url;
        }
        values
    }

    /// Starts to capture text, and returns the mode for it.
    pub fn begin_capture(&mut self, what: CapturedText) -> TextMode {
        self.capturing = Some(what);
        self.words_before_capture = self.likeness.words();
        self.captured.clear();
        TextMode::Captured
    }

    pub(super) fn end_capture(&mut self) {
        let Some(what) = self.capturing.take() else { return };
        let captured = std::mem::take(&mut self.captured);
        match what {
            CapturedText::Title => {
                self.title = Some(captured);
                // The title is not part of the visible text.
                self.likeness.set_words(self.words_before_capture);
            }
            CapturedText::Link => {
                self.add(&captured, LinkKind::Anchor);
            }
            // An identifier is a link only if it looks like a URL.
            CapturedText::Guid if is_absolute(&captured) => {
                self.add(&captured, LinkKind::Anchor);
            }
            CapturedText::Guid => {}
        }
    }

    /// Starts to read the text of the link that was added last.
    pub fn begin_anchor(&mut self) {
        if let (Some(anchors), Some(link)) = (&mut self.anchors, self.links.latest) {
            anchors.begin(link);
        }
    }

    fn end_anchor(&mut self) {
        if let Some(anchors) = &mut self.anchors {
            anchors.end();
        }
    }

    /// Applies the effects of any tag to words, anchor texts and headings. A tag of an inline element does not end a
    /// word. The tag of any heading ends a heading.
    pub(super) fn apply_to_texts(&mut self, key: u64, name: &[u8]) {
        if self.likeness.is_in_word() && !names::is_inline(key) {
            self.likeness.end_word();
        }
        if let Some(anchors) = &mut self.anchors {
            if key == names::A {
                anchors.end();
            } else if !names::is_inline(key) {
                anchors.push(b" ");
            }
        }
        if self.facts.in_heading {
            if names::is_heading(name) {
                self.facts.in_heading = false;
            } else if !names::is_inline(key) {
                self.facts.push_heading(b" ");
            }
        }
    }

    pub(super) fn push_captured(&mut self, text: &[u8]) {
        if self.capturing.is_some() {
            let room = MAX_TEXT.saturating_sub(self.captured.len());
            self.captured.extend_from_slice(text.get(..room).unwrap_or(text));
        }
    }

    /// Handles a start tag of HTML. `key` is the key of its name: see `names`.
    pub fn handle_html(&mut self, key: u64, tag: &Tag<'_>) {
        match key {
            names::A | names::AREA => {
                let [href, rel] = self.values(tag, ["href", "rel"]);
                if let Some(href) = href {
                    self.add_link(href, LinkKind::Anchor, has_word(rel, "nofollow"));
                    if key == names::A {
                        self.begin_anchor();
                    }
                    if let (Some(anchors), Some(link), Some(rel)) = (&mut self.anchors, self.links.latest, rel) {
                        anchors.set_rel(link, rel);
                    }
                }
            }
            names::FRAME | names::IFRAME => {
                let [source, page] = self.values(tag, ["src", "srcdoc"]);
                // A browser ignores `src` if there is a `srcdoc`.
                if let Some(page) = page.filter(|_| key == names::IFRAME) {
                    self.add_nested_page(page);
                } else if let Some(source) = source.filter(|source| !source.trim_ascii().is_empty()) {
                    self.add(source, LinkKind::Frame);
                }
            }
            names::LINK => self.handle_link(tag),
            names::META => self.handle_meta(tag),
            names::BASE if self.base.is_none() => {
                let [href] = self.values(tag, ["href"]);
                self.base = href.map(Box::from);
            }
            names::FORM => {
                // The target of a form is a page only if the form is submitted with GET, which is the default.
                let [action, method] = self.values(tag, ["action", "method"]);
                if let Some(action) = action
                    && !method.is_some_and(|method| {
                        method.eq_ignore_ascii_case(b"post") || method.eq_ignore_ascii_case(b"dialog")
                    })
                {
                    self.add(action, LinkKind::Form);
                }
            }
            names::IMG => {
                let [source, srcset, alt, low, dynamic] =
                    self.values(tag, ["src", "srcset", "alt", "lowsrc", "dynsrc"]);
                self.add_assets([source, low, dynamic]);
                self.add_srcset(srcset);
                match alt {
                    None => self.facts.images_without_alt = self.facts.images_without_alt.saturating_add(1),
                    Some(alt) if self.facts.in_heading => self.facts.push_heading(&alt_text(alt)),
                    Some(_) => {}
                }
                if let (Some(anchors), Some(alt)) = (self.anchors.as_mut().filter(|anchors| anchors.is_open()), alt) {
                    anchors.push(&alt_text(alt));
                }
            }
            names::H1 => self.facts.begin_heading(),
            names::HTML => {
                let [lang, xml_lang] = self.values(tag, ["lang", "xml:lang"]);
                self.facts.set_lang(lang.or(xml_lang));
            }
            names::IMAGE | names::SOURCE => {
                let [source, srcset] = self.values(tag, ["src", "srcset"]);
                self.add_assets([source]);
                self.add_srcset(srcset);
            }
            names::VIDEO | names::AUDIO | names::TRACK | names::EMBED | names::BGSOUND | names::SCRIPT => {
                let values = self.values(tag, ["src", "poster"]);
                self.add_assets(values);
            }
            names::OBJECT | names::APPLET => {
                let [data, archive] = self.values(tag, ["data", "archive"]);
                self.add_assets([data.filter(|_| key == names::OBJECT)]);
                let separates = |byte: &u8| is_space(*byte) || *byte == b',';
                archive.into_iter().flat_map(|list| list.split(separates)).for_each(|url| self.add_assets([Some(url)]));
            }
            names::INPUT => {
                let [kind, source] = self.values(tag, ["type", "src"]);
                if kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"image")) {
                    self.add_assets([source]);
                }
            }
            names::BODY => {
                let values = self.values(tag, ["background"]);
                self.add_assets(values);
            }
            _ => {}
        }
    }

    fn handle_link(&mut self, tag: &Tag<'_>) {
        let [href, rel, language, srcset] = self.values(tag, ["href", "rel", "hreflang", "imagesrcset"]);
        self.add_srcset(srcset);
        let Some(href) = href.filter(|href| !href.trim_ascii().is_empty()) else { return };
        let kind = kind_of_rel(rel);
        let range = self.add(href, kind);
        match (kind, range) {
            (LinkKind::Canonical, Some(range)) if self.canonical.is_none() => self.canonical = Some(range),
            (LinkKind::Alternate, Some(range)) => {
                if let Some(language) = language.map(<[u8]>::trim_ascii).filter(|language| !language.is_empty()) {
                    if self.hreflang.len() < self.limits.max_links && language.len() <= MAX_LANGUAGE {
                        self.hreflang.push((Box::from(language), range));
                    } else {
                        self.capped = true;
                    }
                }
            }
            _ => {}
        }
    }

    fn handle_meta(&mut self, tag: &Tag<'_>) {
        if self.charset.is_none() {
            self.charset = charset::meta_charset(&mut tag.attributes());
        }
        let [name, pragma, content, property] = self.values(tag, ["name", "http-equiv", "content", "property"]);
        let Some(content) = content else { return };
        if pragma.is_some_and(|pragma| pragma.eq_ignore_ascii_case(b"refresh")) {
            self.add(content, LinkKind::Refresh);
        }
        let name = name.map(<[u8]>::trim_ascii);
        if name.is_some_and(|name| {
            name.eq_ignore_ascii_case(b"robots") || name.eq_ignore_ascii_case(self.limits.agent.as_bytes())
        }) {
            let content = String::from_utf8_lossy(content);
            let content = entities::resolve(&content, TextContext::Attribute);
            self.directives = self.directives.merge(Directives::from_content(&content));
            self.facts.add_robots(&content);
        } else if let Some(name) = name.or(property.map(<[u8]>::trim_ascii)) {
            if name.eq_ignore_ascii_case(b"og:image") {
                if !content.trim_ascii().is_empty() {
                    let range = self.add(content, LinkKind::Asset);
                    self.facts.og_image = self.facts.og_image.take().or(range);
                }
            } else {
                self.facts.add_meta(name, content);
            }
        }
    }

    /// Handles a start tag of SVG or MathML, in HTML or in XML.
    pub fn handle_foreign(&mut self, key: u64, tag: &Tag<'_>) {
        let [href, xlink, rel, source] = self.values(tag, ["href", "xlink:href", "rel", "src"]);
        let href = href.or(xlink);
        match key {
            names::A => {
                if let Some(href) = href {
                    self.add_link(href, LinkKind::Anchor, has_word(rel, "nofollow"));
                    self.begin_anchor();
                }
            }
            names::SCRIPT => self.add_assets([href, source]),
            // Most of these refer to an element of the same page.
            _ if href.or(source).is_some() && places::is_svg_place(tag.name) => {
                let is_elsewhere = |url: &&[u8]| !url.trim_ascii_start().starts_with(b"#");
                self.add_assets([href, source].map(|url| url.filter(is_elsewhere)));
            }
            _ => {}
        }
    }
}

/// Whether a text starts like an absolute http or https URL.
fn is_absolute(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [b"http://".as_slice(), b"https://"]
        .iter()
        .any(|start| text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)))
}

/// Whether a list of words, as in `rel`, contains this word.
pub fn has_word(list: Option<&[u8]>, word: &str) -> bool {
    words(list).any(|entry| entry.eq_ignore_ascii_case(word.as_bytes()))
}

fn words(list: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
    list.unwrap_or(&[]).split(|&byte| is_space(byte)).filter(|word| !word.is_empty())
}

/// The kind of a `link` element by its `rel`.
pub fn kind_of_rel(rel: Option<&[u8]>) -> LinkKind {
    /// Relations to resources that are needed for display.
    const RESOURCES: [&str; 9] = [
        "stylesheet",
        "icon",
        "apple-touch-icon",
        "apple-touch-icon-precomposed",
        "mask-icon",
        "preload",
        "modulepreload",
        "manifest",
        "image_src",
    ];
    if has_word(rel, "canonical") {
        LinkKind::Canonical
    } else if has_word(rel, "next") || has_word(rel, "prev") || has_word(rel, "previous") {
        LinkKind::Rel
    } else if RESOURCES.iter().any(|word| has_word(rel, word)) {
        LinkKind::Asset
    } else if has_word(rel, "alternate") {
        LinkKind::Alternate
    } else {
        LinkKind::Other
    }
}

/// The URLs in a `srcset`: `a.png 1x, b.png 2x`.
///
/// A URL may contain commas, but does not end with one. A descriptor may contain commas in parentheses.
pub fn srcset_candidates(srcset: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = srcset;
    std::iter::from_fn(move || {
        rest = rest.get(rest.iter().position(|&byte| !is_space(byte) && byte != b',')?..)?;
        let (url, after) = rest.split_at(rest.iter().position(|&byte| is_space(byte)).unwrap_or(rest.len()));
        if url.ends_with(b",") {
            // The commas end the candidate, which has no descriptor.
            rest = after;
            let last = url.iter().rposition(|&byte| byte != b',')?;
            return url.get(..=last);
        }
        let mut in_parentheses = false;
        let end = after.iter().position(|&byte| {
            match byte {
                b'(' => in_parentheses = true,
                b')' => in_parentheses = false,
                _ => {}
            }
            byte == b',' && !in_parentheses
        });
        rest = after.get(end.unwrap_or(after.len())..)?;
        Some(url)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urls_of_a_srcset_are_found() {
        let split = |srcset: &str| {
            srcset_candidates(srcset.as_bytes())
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(split("a.png 1x, b.png 2x"), ["a.png", "b.png"]);
        assert_eq!(split(" , a.png,b.png , c.png,"), ["a.png,b.png", "c.png"]);
        assert_eq!(split("a,, b"), ["a", "b"]);
        assert_eq!(split("a 1w(x,y) 2h,b"), ["a", "b"]);
        assert_eq!(split("data:,x 1x"), ["data:,x"]);
        assert!(split("").is_empty());
        assert!(split(" , ,").is_empty());
    }

    #[test]
    fn the_rel_attribute_determines_the_kind() {
        for (rel, kind) in [
            ("canonical", LinkKind::Canonical),
            ("NEXT", LinkKind::Rel),
            ("x prev", LinkKind::Rel),
            ("alternate stylesheet", LinkKind::Asset),
            ("shortcut icon", LinkKind::Asset),
            ("alternate", LinkKind::Alternate),
            ("preload", LinkKind::Asset),
            ("dns-prefetch", LinkKind::Other),
            ("nextish", LinkKind::Other),
            ("", LinkKind::Other),
        ] {
            assert_eq!(kind_of_rel(Some(rel.as_bytes())), kind, "{rel}");
        }
        assert_eq!(kind_of_rel(None), LinkKind::Other);
    }
}
