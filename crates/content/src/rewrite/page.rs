//! [`rewrite_page`]: a copy of a page as HTML.

use argiope_core::page::examine::names::key;
use argiope_core::page::examine::tokenizer::{Dialect, Tag, TextMode, TokenHandler, Tokenizer};
use argiope_core::page::examine::{ForeignStack, TextContext, decode_character_references, refresh_header};

use super::attributes::{attribute, copied_attributes, local_name, new_value, push_attribute, push_escaped, tag_name};
use super::places::{self, ElementUse};
use super::{PageRewriter, ReferenceUse, Replacement, rewrite_css};

/// How deep pages in `srcdoc` attributes are copied. Each level escapes the levels below it again.
const MAX_NESTING: usize = 2;
/// The bytes of a page that are searched for a `base`.
const MAX_BASE_SEARCH: usize = 256 << 10;

/// Copies an HTML or XML page as HTML. `head` is written right after the doctype, before anything of the page.
///
/// Left out: scripts, event handlers, comments, processing instructions, `base`, and every `meta http-equiv` but a
/// refresh. XHTML becomes HTML: empty elements get an end tag, and CDATA sections become text. Takes linear time.
pub fn rewrite_page(page: &str, dialect: Dialect, head: &str, rewriter: &mut dyn PageRewriter) -> String {
    // A `base` also applies to the references before it, so it is needed first.
    if let Some(base) = find_base(page, dialect) {
        rewriter.base(&base);
    }
    let doctype = if dialect == Dialect::Xml { Some("<!DOCTYPE html>") } else { doctype(page) };
    let start = format!("{}{head}", doctype.unwrap_or(""));
    write_page(page, dialect, start, head, rewriter, 0)
}

fn write_page(
    page: &str,
    dialect: Dialect,
    start: String,
    head: &str,
    rewriter: &mut dyn PageRewriter,
    nesting: usize,
) -> String {
    let mut out = start;
    out.reserve(page.len() + page.len() / 8);
    let foreign = ForeignStack::default();
    let mut writer =
        PageWriter { out, dialect, head, rewriter, nesting, foreign, style: None, dropped: None, is_xmp: false };
    let mut tokenizer = Tokenizer::of_whole_page(dialect);
    tokenizer.feed(page.as_bytes(), &mut writer);
    tokenizer.finish(&mut writer);
    writer.end_style();
    writer.out
}

/// The document type at the start of an HTML page, as written: it decides the mode of the layout. `None` if there is none,
/// or if it holds markup.
fn doctype(page: &str) -> Option<&str> {
    let mut rest = page.trim_start_matches('\u{feff}').trim_start();
    while let Some(comment) = rest.strip_prefix("<!--") {
        rest = comment.get(comment.find("-->")? + 3..)?.trim_start();
    }
    let doctype = rest.get(..=rest.find('>')?)?;
    let is_doctype = doctype.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("<!doctype"));
    (is_doctype && doctype.rfind('<') == Some(0)).then_some(doctype)
}

/// The `href` of the first `base` of a page.
fn find_base(page: &str, dialect: Dialect) -> Option<String> {
    let mut search = BaseSearch { found: None, foreign: ForeignStack::default() };
    // `base` belongs to the head, so only the start of a large page is searched.
    let mut end = page.len().min(MAX_BASE_SEARCH);
    while !page.is_char_boundary(end) {
        end -= 1;
    }
    Tokenizer::new(dialect).feed(page.as_bytes().get(..end)?, &mut search);
    search.found
}

struct BaseSearch {
    found: Option<String>,
    foreign: ForeignStack,
}

impl TokenHandler for BaseSearch {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        if self.foreign.start(key(tag.name), tag) {
            return TextMode::Markup;
        }
        if self.found.is_none() && tag.name.eq_ignore_ascii_case(b"base") {
            self.found = attribute(tag, "href");
        }
        mode_after(tag.name)
    }
    fn end(&mut self, name: &[u8]) {
        self.foreign.end(name);
    }
    fn text(&mut self, _text: &[u8]) {}
    fn cdata(&mut self, _text: &[u8]) {}
    fn is_in_foreign(&self) -> bool {
        self.foreign.is_inside()
    }
}

/// The text mode after a start tag of HTML. The text of `plaintext` is read as markup, because it becomes a `pre`.
fn mode_after(name: &[u8]) -> TextMode {
    let is = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    if is(&["script"]) {
        TextMode::Script
    } else if is(&["style", "xmp"]) {
        TextMode::CapturedRawText
    } else if is(&["iframe", "noembed", "noframes"]) {
        TextMode::RawText
    } else if is(&["title", "textarea"]) {
        TextMode::RcData
    } else {
        TextMode::Captured
    }
}

/// The content of a `style` element that is open.
struct OpenStyle {
    css: String,
    /// Whether the page has character references in it.
    has_references: bool,
    /// Whether the copy has it as raw text.
    is_raw: bool,
}

struct PageWriter<'a> {
    out: String,
    dialect: Dialect,
    /// Written at the start of a page in a `srcdoc` too.
    head: &'a str,
    rewriter: &'a mut dyn PageRewriter,
    nesting: usize,
    foreign: ForeignStack,
    style: Option<OpenStyle>,
    /// The name of the open element that is left out with its text.
    dropped: Option<String>,
    /// Whether the text is that of an `xmp`, which has no character references.
    is_xmp: bool,
}

impl PageWriter<'_> {
    /// The name that an element has in the copy. In XML, without a prefix.
    fn name<'n>(&self, name: &'n [u8]) -> Option<&'n str> {
        let name = tag_name(name)?;
        Some(if self.dialect == Dialect::Xml { local_name(name) } else { name }).filter(|name| !name.is_empty())
    }

    /// Writes a start tag. `false` if the element is left out, which then has no end tag.
    fn write_start(&mut self, tag: &Tag<'_>, name: &str, lower: &str) -> bool {
        let link = match lower {
            "meta" if attribute(tag, "http-equiv").is_some() => {
                self.write_refresh(tag);
                return false;
            }
            "link" => {
                let rel = attribute(tag, "rel").unwrap_or_default().to_ascii_lowercase();
                let Some(use_as) = places::use_of_rel(&rel) else { return false };
                Some(use_as)
            }
            _ => None,
        };
        let attributes = copied_attributes(tag);
        if is_animation_of_links(lower, &attributes) {
            return false;
        }
        self.out.extend(["<", name]);
        for (written, local, value) in &attributes {
            let new = match (lower, local.as_str()) {
                ("iframe", "srcdoc") => self.nested_page(value),
                _ => new_value(lower, local, value, link, self.rewriter),
            };
            if let Some(new) = new {
                push_attribute(&mut self.out, written, &new);
            }
        }
        self.out.push('>');
        true
    }

    /// A page in a `srcdoc` attribute.
    fn nested_page(&mut self, page: &str) -> Option<String> {
        let nesting = self.nesting + 1;
        let start = self.head.to_owned();
        let head = self.head;
        (nesting <= MAX_NESTING).then(|| write_page(page, Dialect::Html, start, head, self.rewriter, nesting))
    }

    /// Of all `meta http-equiv`, only a refresh is copied, if the rewriter allows its target.
    fn write_refresh(&mut self, tag: &Tag<'_>) {
        if !attribute(tag, "http-equiv").is_some_and(|pragma| pragma.trim().eq_ignore_ascii_case("refresh")) {
            return;
        }
        let Some(content) = attribute(tag, "content") else { return };
        let Some(target) = refresh_header(&content) else { return };
        let Replacement::With(new) = self.rewriter.replace(target, ReferenceUse::Refresh) else { return };
        let seconds: String = content.trim_start().chars().take_while(char::is_ascii_digit).take(9).collect();
        let delay = if seconds.is_empty() { "0" } else { &seconds };
        self.out.push_str("<meta http-equiv=\"refresh\"");
        push_attribute(&mut self.out, "content", &format!("{delay}; url={new}"));
        self.out.push('>');
    }

    /// Writes the style sheet that is open. In raw text, a `<` that is not a comparison and an `&` that could begin a
    /// reference are escapes of CSS.
    fn end_style(&mut self) {
        let Some(style) = self.style.take() else { return };
        let css = rewrite_css(&style.css, |url, use_as| self.rewriter.replace(url, use_as));
        if !style.is_raw {
            return push_escaped(&mut self.out, &css);
        }
        let mut rest = css.as_str();
        while let Some(at) = rest.find(['<', '&']) {
            let (before, from) = rest.split_at(at);
            let next = from.as_bytes().get(1).copied().unwrap_or(b'!');
            let escape = match from.as_bytes().first() {
                Some(b'<') if next != b' ' && next != b'=' && !next.is_ascii_digit() => "\\3c ",
                Some(b'&') if next.is_ascii_alphabetic() || next == b'#' => "\\26 ",
                _ => from.get(..1).unwrap_or(""),
            };
            self.out.extend([before, escape]);
            rest = from.get(1..).unwrap_or("");
        }
        self.out.push_str(rest);
    }

    /// Writes text whose references are unresolved.
    fn push_text(&mut self, text: &str) {
        for (index, piece) in text.split('<').enumerate() {
            self.out.push_str(if index > 0 { "&lt;" } else { "" });
            self.out.push_str(piece);
        }
    }

    /// Handles text; in `is_plain` text, `&` does not begin a reference.
    fn add_text(&mut self, text: &[u8], is_plain: bool) {
        if self.dropped.is_some() {
            return;
        }
        let text = String::from_utf8_lossy(text);
        match &mut self.style {
            Some(style) if is_plain || !style.has_references => style.css.push_str(&text),
            Some(style) => style.css.push_str(&decode_character_references(&text, TextContext::Text)),
            None if is_plain || self.is_xmp => push_escaped(&mut self.out, &text),
            None => self.push_text(&text),
        }
    }
}

/// Whether an element of SVG animates the target of a link, so that a click would lead elsewhere or run a script. One that
/// does not say what it animates counts too.
pub fn is_animation_of_links(element: &str, attributes: &[(String, String, String)]) -> bool {
    let mut animated =
        attributes.iter().filter(|(_, name, _)| name == "attributename").map(|(.., value)| value).peekable();
    (element == "set" || element.starts_with("animate") && element != "animatemotion")
        && (animated.peek().is_none() || animated.any(|value| local_name(&value.trim().to_ascii_lowercase()) == "href"))
}

impl TokenHandler for PageWriter<'_> {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        self.end_style();
        let is_html = self.dialect == Dialect::Html;
        let is_foreign = self.foreign.start(key(tag.name), tag);
        let mode = if is_html && !is_foreign { mode_after(tag.name) } else { TextMode::Captured };
        let Some(name) = self.name(tag.name) else { return mode };
        let lower = name.to_ascii_lowercase();
        let is_empty = tag.self_closing && (is_foreign || !is_html);
        let written = match places::element_use(local_name(&lower)) {
            ElementUse::Copied => name,
            ElementUse::Renamed(new) => new,
            ElementUse::Unwrapped => return mode,
            ElementUse::Dropped => {
                self.dropped = self.dropped.take().or((!is_empty).then_some(lower));
                return mode;
            }
        };
        if self.dropped.is_some() {
            return mode;
        }
        self.is_xmp = lower == "xmp" && mode == TextMode::CapturedRawText;
        if !self.write_start(tag, written, local_name(&lower)) {
            return mode;
        }
        if is_empty && !places::is_void(&lower) {
            self.out.extend(["</", written, ">"]);
        } else if lower == "style" && !tag.self_closing {
            let has_references = is_foreign || !is_html;
            self.style = Some(OpenStyle { css: String::new(), has_references, is_raw: !is_foreign });
        }
        mode
    }

    fn end(&mut self, name: &[u8]) {
        self.end_style();
        self.is_xmp = false;
        self.foreign.end(name);
        let Some(name) = self.name(name) else { return };
        let lower = name.to_ascii_lowercase();
        if self.dropped.is_some() {
            self.dropped.take_if(|dropped| *dropped == lower);
            return;
        }
        match places::element_use(local_name(&lower)) {
            // In XHTML, `<br></br>` is one line break. In HTML, it would be two.
            ElementUse::Copied if self.dialect == Dialect::Xml && places::is_void(&lower) => {}
            ElementUse::Copied => self.out.extend(["</", name, ">"]),
            ElementUse::Renamed(new) => self.out.extend(["</", new, ">"]),
            ElementUse::Unwrapped | ElementUse::Dropped => {}
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.add_text(text, false);
    }

    fn cdata(&mut self, text: &[u8]) {
        self.add_text(text, true);
    }

    fn is_in_foreign(&self) -> bool {
        self.foreign.is_inside()
    }
}
