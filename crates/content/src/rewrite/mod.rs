//! Rewrites pages: every URL that a browser would load or follow can be replaced. `base` and the attributes that would
//! stop browsers from loading changed files are disabled. All other bytes are kept.

use std::borrow::Cow;
use std::ops::Range;

use argiope_core::page::examine::tokenizer::{Dialect, Tag, TextMode, TokenHandler, Tokenizer};
use argiope_core::page::examine::{TextContext, decode_character_references, refresh_header};

mod css;

pub use css::rewrite_css;

/// How a page uses a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceUse {
    /// Followed by the user: `a`, forms, `link rel=canonical`.
    Link,
    /// A page within the page: `iframe`, `frame`.
    Frame,
    Image,
    Style,
    Script,
    /// Audio, video, tracks, embedded objects.
    Media,
    /// Loaded in advance or in addition to the page: preload, preconnect, manifests.
    Hint,
    /// A URL that only scripts read, such as `data-src`.
    Data,
}

/// The decision about a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    Keep,
    With(String),
}

/// Decides how the URLs of a page are replaced.
pub trait PageRewriter {
    /// The replacement of a URL. `url` is as written: it may be relative to the `base` that was passed to
    /// [`PageRewriter::base`].
    fn replace(&mut self, url: &str, use_as: ReferenceUse) -> Replacement;

    /// The first `base` of the page. Its `href` is emptied, so that replacements are relative to the page itself.
    fn base(&mut self, _href: &str) {}
}

/// Rewrites an HTML or XML page. `insert` is inserted at the beginning of its head.
///
/// Attributes that would stop browsers from loading the changed files (`integrity`, `crossorigin`, `nonce`, a
/// Content-Security-Policy in a meta element) are renamed to `data-...`. Takes linear time.
pub fn rewrite_page(page: &str, dialect: Dialect, insert: &str, rewriter: &mut dyn PageRewriter) -> String {
    let mut editor = PageEditor {
        page,
        rewriter,
        edits: Vec::new(),
        foreign: 0,
        style_start: None,
        has_base: false,
        after_head: None,
        first_tag: None,
    };
    // A `base` also applies to the references before it, so it is needed first.
    if let Some(base) = find_base(page, dialect) {
        editor.rewriter.base(&base);
    }
    let mut tokenizer = Tokenizer::new(dialect);
    tokenizer.feed(page.as_bytes(), &mut editor);
    let PageEditor { mut edits, after_head, first_tag, .. } = editor;
    if !insert.is_empty() {
        let at = after_head.or(first_tag).unwrap_or(0);
        edits.push((at..at, insert.to_owned()));
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(page.len() + page.len() / 8 + insert.len());
    let mut copied = 0;
    for (range, new) in edits {
        if range.start >= copied {
            out.push_str(page.get(copied..range.start).unwrap_or(""));
            out.push_str(&new);
            copied = range.end;
        }
    }
    out.push_str(page.get(copied..).unwrap_or(""));
    out
}

/// The bytes of a page that are searched for a `base`.
const MAX_BASE_SEARCH: usize = 256 << 10;

/// The `href` of the first `base` of a page.
fn find_base(page: &str, dialect: Dialect) -> Option<String> {
    struct Search(Option<String>);
    impl TokenHandler for Search {
        fn start(&mut self, tag: &Tag<'_>) -> TextMode {
            if self.0.is_none() && tag.name.eq_ignore_ascii_case(b"base") {
                self.0 = attribute(tag, "href").map(|(value, _)| text(value));
            }
            mode_after(tag, false)
        }
        fn end(&mut self, _name: &[u8]) {}
        fn text(&mut self, _text: &[u8]) {}
        fn cdata(&mut self, _text: &[u8]) {}
        fn is_in_foreign(&self) -> bool {
            false
        }
    }
    let mut search = Search(None);
    // `base` belongs to the head, so only the start of a large page is searched.
    let mut end = page.len().min(MAX_BASE_SEARCH);
    while !page.is_char_boundary(end) {
        end -= 1;
    }
    Tokenizer::new(dialect).feed(page.as_bytes().get(..end)?, &mut search);
    search.0
}

/// The text mode after a start tag. `is_in_foreign`: it is within SVG or MathML.
fn mode_after(tag: &Tag<'_>, is_in_foreign: bool) -> TextMode {
    let is = |name: &str| tag.name.eq_ignore_ascii_case(name.as_bytes());
    if is_in_foreign && (tag.self_closing || !(is("script") || is("style"))) {
        TextMode::Markup
    } else if is("script") {
        TextMode::Script
    } else if is("style") || is("xmp") || is("iframe") || is("noembed") || is("noframes") {
        TextMode::RawText
    } else if is("title") || is("textarea") {
        TextMode::RcData
    } else if is("plaintext") {
        TextMode::PlainText
    } else {
        TextMode::Markup
    }
}

/// The value of an attribute, and its name as written.
fn attribute<'a>(tag: &Tag<'a>, name: &str) -> Option<(&'a [u8], &'a [u8])> {
    let found = tag.attributes().take(MAX_ATTRIBUTES).find(|(key, _)| key.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|(key, value)| (value, key))
}

/// The maximum number of attributes of a tag that are read.
const MAX_ATTRIBUTES: usize = 1024;

/// The value of an attribute with its character references resolved.
fn text(value: &[u8]) -> String {
    decode_character_references(&String::from_utf8_lossy(value), TextContext::Attribute).into_owned()
}

/// Collects the edits of a page while it is tokenized.
struct PageEditor<'a> {
    page: &'a str,
    rewriter: &'a mut dyn PageRewriter,
    /// Ranges of the page, and the text that replaces each.
    edits: Vec<(Range<usize>, String)>,
    /// The number of open `svg` and `math` elements.
    foreign: u32,
    /// The start of the content of the open `style` element.
    style_start: Option<usize>,
    /// Whether a `base` with an `href` occurred.
    has_base: bool,
    /// The position after the start tag of `head`.
    after_head: Option<usize>,
    /// The position of the first tag that is neither `html` nor `head`.
    first_tag: Option<usize>,
}

impl PageEditor<'_> {
    /// The range of a slice within the page; `None` for bytes that the tokenizer generated.
    fn range_of(&self, slice: &[u8]) -> Option<Range<usize>> {
        let offset = slice.as_ptr().addr().wrapping_sub(self.page.as_ptr().addr());
        (offset <= self.page.len() && slice.len() <= self.page.len() - offset).then(|| offset..offset + slice.len())
    }

    /// Replaces the value of an attribute.
    fn set_value(&mut self, value: &[u8], new: &str) {
        let Some(range) = self.range_of(value) else { return };
        let quote = range.start.checked_sub(1).and_then(|before| self.page.as_bytes().get(before)).copied();
        let mut escaped = String::with_capacity(new.len() + 2);
        for next in new.chars() {
            match next {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '"' => escaped.push_str("&quot;"),
                '\'' => escaped.push_str("&#39;"),
                _ => escaped.push(next),
            }
        }
        // A value without quotes gets them.
        if !matches!(quote, Some(b'"' | b'\'')) {
            escaped = format!("\"{escaped}\"");
        }
        self.edits.push((range, escaped));
    }

    /// Renames an attribute so that browsers ignore it.
    fn disable(&mut self, name: &[u8]) {
        if let Some(range) = self.range_of(name) {
            self.edits.push((range.start..range.start, "data-".to_owned()));
        }
    }

    fn rewrite_url(&mut self, value: &[u8], use_as: ReferenceUse) {
        let url = text(value);
        if let Replacement::With(new) = self.rewriter.replace(url.trim(), use_as) {
            self.set_value(value, &new);
        }
    }

    /// Replaces the URLs of a `srcset`: entries separated by commas, each with a URL and a descriptor such as `2x`.
    fn rewrite_srcset(&mut self, value: &[u8], use_as: ReferenceUse) {
        let written = text(value);
        let mut new = String::with_capacity(written.len());
        let mut changed = false;
        let mut rest = written.as_str();
        loop {
            rest = rest.trim_start_matches(|next: char| next.is_ascii_whitespace() || next == ',');
            if rest.is_empty() {
                break;
            }
            let (mut url, mut after) =
                rest.split_at(rest.find(|next: char| next.is_ascii_whitespace()).unwrap_or(rest.len()));
            let mut descriptor = "";
            if url.ends_with(',') {
                url = url.trim_end_matches(',');
            } else {
                let end = after.find(',').unwrap_or(after.len());
                descriptor = after.get(..end).unwrap_or("").trim();
                after = after.get(end..).unwrap_or("");
            }
            if !new.is_empty() {
                new.push_str(", ");
            }
            match self.rewriter.replace(url, use_as) {
                Replacement::Keep => new.push_str(url),
                Replacement::With(url) => {
                    changed = true;
                    new.push_str(&url);
                }
            }
            if !descriptor.is_empty() {
                new.push(' ');
                new.push_str(descriptor);
            }
            rest = after;
        }
        if changed {
            self.set_value(value, &new);
        }
    }

    /// The rewritten style sheet; `None` if nothing changes.
    fn rewrite_style(&mut self, css: &str) -> Option<String> {
        let mut changed = false;
        let new = rewrite_css(css, |url, use_as| match self.rewriter.replace(url, use_as) {
            Replacement::Keep => None,
            Replacement::With(new) => {
                changed = true;
                Some(new)
            }
        });
        changed.then_some(new)
    }

    fn rewrite_meta(&mut self, tag: &Tag<'_>) {
        let Some((pragma, name)) = attribute(tag, "http-equiv") else { return };
        if pragma.trim_ascii().to_ascii_lowercase().starts_with(b"content-security-policy") {
            self.disable(name);
        } else if pragma.trim_ascii().eq_ignore_ascii_case(b"refresh")
            && let Some((content, _)) = attribute(tag, "content")
        {
            let written = text(content);
            if let Some(target) = refresh_header(&written)
                && let Replacement::With(new) = self.rewriter.replace(target, ReferenceUse::Link)
            {
                let delay: String =
                    written.trim_start().chars().take_while(|next| !matches!(next, ';' | ',')).collect();
                self.set_value(content, &format!("{}; url={new}", delay.trim()));
            }
        }
    }

    fn rewrite_attributes(&mut self, tag: &Tag<'_>) {
        let name = tag.name.to_ascii_lowercase();
        let name = String::from_utf8_lossy(&name);
        // XML namespace prefixes are ignored: `svg:image` is read as `image`.
        let name = name.rsplit(':').next().unwrap_or("");
        if name == "meta" {
            return self.rewrite_meta(tag);
        }
        let rel = attribute(tag, "rel").map(|(rel, _)| text(rel).to_ascii_lowercase());
        for (key, value) in tag.attributes().take(MAX_ATTRIBUTES) {
            let key_bytes = key.to_ascii_lowercase();
            let key_name: Cow<'_, str> = String::from_utf8_lossy(&key_bytes);
            if name == "base" {
                if key_name == "href" && !self.has_base {
                    self.has_base = true;
                    self.set_value(value, "");
                }
                continue;
            }
            match use_of(name, &key_name, rel.as_deref()) {
                Some(AttributeUse::Url(use_as)) if !value.trim_ascii().is_empty() => self.rewrite_url(value, use_as),
                Some(AttributeUse::Url(_)) => {}
                Some(AttributeUse::Srcset(use_as)) => self.rewrite_srcset(value, use_as),
                Some(AttributeUse::Style) => {
                    let css = text(value);
                    if let Some(new) = self.rewrite_style(&css) {
                        self.set_value(value, &new);
                    }
                }
                Some(AttributeUse::Disabled) => self.disable(key),
                None => {}
            }
        }
    }
}

/// How an attribute is rewritten.
enum AttributeUse {
    Url(ReferenceUse),
    Srcset(ReferenceUse),
    Style,
    /// Renamed, so that browsers ignore it.
    Disabled,
}

/// How an attribute is rewritten; `None` if it is kept.
fn use_of(element: &str, attribute: &str, rel: Option<&str>) -> Option<AttributeUse> {
    use AttributeUse::{Disabled, Srcset, Style, Url};
    use ReferenceUse::{Data, Frame, Hint, Image, Link, Media, Script};
    Some(match (element, attribute) {
        (_, "style") => Style,
        (_, "integrity" | "crossorigin" | "nonce") => Disabled,
        (_, "data-src" | "data-original" | "data-lazy-src") => Url(Data),
        (_, "data-srcset" | "data-lazy-srcset") => Srcset(Data),
        ("link", "href") => Url(use_of_rel(rel.unwrap_or(""))),
        ("link", "imagesrcset") => Srcset(Hint),
        ("image" | "use" | "feimage", "href" | "xlink:href") => Url(Image),
        ("script", "src" | "href" | "xlink:href") => Url(Script),
        ("a" | "area", "href" | "xlink:href") | ("form", "action") | ("button" | "input", "formaction") => Url(Link),
        ("iframe" | "frame", "src") => Url(Frame),
        ("video", "poster") | ("img" | "input" | "image", "src") => Url(Image),
        ("body" | "table" | "td" | "th" | "tr", "background") => Url(Image),
        ("source", "src") | ("video" | "audio" | "track" | "embed", "src") | ("object", "data") => Url(Media),
        ("img" | "source", "srcset") => Srcset(Image),
        _ => return None,
    })
}

fn use_of_rel(rel: &str) -> ReferenceUse {
    let has = |word: &str| rel.split_ascii_whitespace().any(|entry| entry == word);
    if has("stylesheet") {
        ReferenceUse::Style
    } else if has("icon") || has("apple-touch-icon") || has("apple-touch-icon-precomposed") || has("mask-icon") {
        ReferenceUse::Image
    } else if ["preload", "modulepreload", "prefetch", "prerender", "preconnect", "dns-prefetch", "manifest"]
        .into_iter()
        .any(has)
    {
        ReferenceUse::Hint
    } else {
        ReferenceUse::Link
    }
}

impl TokenHandler for PageEditor<'_> {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        let is = |name: &str| tag.name.eq_ignore_ascii_case(name.as_bytes());
        if is("head") {
            let name_end = self.range_of(tag.name).map(|range| range.end);
            let end = name_end.and_then(|from| tag_end(self.page, from, tag));
            self.after_head = self.after_head.or(end);
        } else if !is("html") && self.first_tag.is_none() {
            self.first_tag = self.range_of(tag.name).map(|range| range.start.saturating_sub(1));
        }
        self.rewrite_attributes(tag);
        if (is("svg") || is("math")) && !tag.self_closing {
            self.foreign += 1;
        }
        let mode = mode_after(tag, self.foreign > 0);
        if is("style") && mode == TextMode::RawText {
            self.style_start = self.range_of(tag.name).and_then(|range| tag_end(self.page, range.end, tag));
        }
        mode
    }

    fn end(&mut self, name: &[u8]) {
        if name.eq_ignore_ascii_case(b"svg") || name.eq_ignore_ascii_case(b"math") {
            self.foreign = self.foreign.saturating_sub(1);
        }
        // The content of a `style` ends before the `</` of its end tag.
        if let Some(from) = self.style_start.take()
            && let Some(range) = self.range_of(name)
            && let Some(end) = range.start.checked_sub(2)
            && let Some(css) = self.page.get(from..end)
            && let Some(new) = self.rewrite_style(css)
        {
            self.edits.push((from..end, new));
        }
    }

    fn text(&mut self, _text: &[u8]) {}

    fn cdata(&mut self, _text: &[u8]) {}

    fn is_in_foreign(&self) -> bool {
        self.foreign > 0
    }
}

/// The position after a tag whose name ends at `from`.
fn tag_end(page: &str, from: usize, tag: &Tag<'_>) -> Option<usize> {
    let mut attributes = tag.attributes();
    let mut end = from;
    for (name, value) in attributes.by_ref().take(MAX_ATTRIBUTES) {
        for slice in [name, value] {
            let offset = slice.as_ptr().addr().wrapping_sub(page.as_ptr().addr());
            if offset <= page.len() {
                end = end.max(offset.saturating_add(slice.len()));
            }
        }
    }
    page.get(end..)?.find('>').map(|close| end + close + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives every URL a prefix that names its use.
    struct Prefix;

    impl PageRewriter for Prefix {
        fn replace(&mut self, url: &str, use_as: ReferenceUse) -> Replacement {
            if url.starts_with('#') || url.starts_with("data:") {
                return Replacement::Keep;
            }
            Replacement::With(format!("{}:{url}", format!("{use_as:?}").to_lowercase()))
        }
    }

    fn rewritten(page: &str) -> String {
        rewrite_page(page, Dialect::Html, "", &mut Prefix)
    }

    #[test]
    fn the_urls_of_a_page_are_replaced() {
        for (page, expected) in [
            ("<a href=x>t</a>", "<a href=\"link:x\">t</a>"),
            ("<A HREF='x?a&amp;b' id=i>", "<A HREF='link:x?a&amp;b' id=i>"),
            (
                "<img src=\"a.png\" srcset='b.png 1x, c.png 2x'>",
                "<img src=\"image:a.png\" srcset='image:b.png 1x, image:c.png 2x'>",
            ),
            ("<p style='background:url(x)'>", "<p style='background:url(&#39;image:x&#39;)'>"),
            ("<style>a{b:url(x)}</style>", "<style>a{b:url('image:x')}</style>"),
            ("<style media=\"a>b\">@import 'x';</style>", "<style media=\"a>b\">@import 'style:x';</style>"),
            (
                "<link rel=stylesheet href=s integrity=x crossorigin>",
                "<link rel=stylesheet href=\"style:s\" data-integrity=x data-crossorigin>",
            ),
            ("<link rel=preconnect href=//c>", "<link rel=preconnect href=\"hint://c\">"),
            (
                "<script src=s></script><script>a='<img src=x>'</script>",
                "<script src=\"script:s\"></script><script>a='<img src=x>'</script>",
            ),
            (
                "<svg><use xlink:href='#i'/><image href=i /></svg>",
                "<svg><use xlink:href='#i'/><image href=\"image:i\" /></svg>",
            ),
            ("<base href=/b/ target=_top>", "<base href=\"\" target=_top>"),
            ("<meta http-equiv=refresh content='5; url=x'>", "<meta http-equiv=refresh content='5; url=link:x'>"),
            (
                "<meta http-equiv='Content-Security-Policy' content=\"default-src 'self'\">",
                "<meta data-http-equiv='Content-Security-Policy' content=\"default-src 'self'\">",
            ),
            (
                "<!-- <img src=x> --><textarea><img src=x></textarea>",
                "<!-- <img src=x> --><textarea><img src=x></textarea>",
            ),
            (
                "<video src=v poster=p><source src=s></video>",
                "<video src=\"media:v\" poster=\"image:p\"><source src=\"media:s\"></video>",
            ),
        ] {
            assert_eq!(rewritten(page), expected, "{page}");
        }
    }

    #[test]
    fn inserted_text_comes_first_in_the_head() {
        let with = |page: &str| rewrite_page(page, Dialect::Html, "[I]", &mut Prefix);
        assert_eq!(
            with("<!doctype html><html><head lang='>'><title>"),
            "<!doctype html><html><head lang='>'>[I]<title>"
        );
        assert_eq!(with("<!doctype html><!-- <head> --><p>"), "<!doctype html><!-- <head> -->[I]<p>");
        assert_eq!(with("text"), "[I]text");
    }

    proptest! {
        #[test]
        fn a_page_without_replacements_is_unchanged(page in "[<>a-c='\" /!é-]{0,80}") {
            struct Keep;
            impl PageRewriter for Keep {
                fn replace(&mut self, _url: &str, _use_as: ReferenceUse) -> Replacement {
                    Replacement::Keep
                }
            }
            prop_assert_eq!(rewrite_page(&page, Dialect::Html, "", &mut Keep), page);
        }
    }
}
