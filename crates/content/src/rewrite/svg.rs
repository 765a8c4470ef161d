//! [`rewrite_svg`]: a copy of an SVG image as XML, which runs no script and loads nothing when it is opened as a document.
//!
//! An SVG file cannot carry a policy, so only elements that [`places::is_svg_element`] knows are copied, all in the
//! namespace of SVG: without scripts, `foreignObject`, style sheets of the prolog, document type and entities.

use argiope_core::page::examine::tokenizer::{Dialect, Tag, TextMode, TokenHandler, Tokenizer};
use argiope_core::page::examine::{TextContext, decode_character_references};

use super::attributes::{copied_attributes, local_name, new_value, push_attribute, push_escaped, tag_name};
use super::page::is_animation_of_links;
use super::{PageRewriter, places, rewrite_css};

/// The limit on nested elements. The content of deeper ones is left out.
const MAX_DEPTH: usize = 1024;

/// Copies an SVG image. Takes linear time.
pub fn rewrite_svg(svg: &str, rewriter: &mut dyn PageRewriter) -> String {
    let out = String::with_capacity(svg.len() + svg.len() / 8);
    let mut writer = SvgWriter { out, rewriter, open: Vec::new(), dropped: 0, style: None, is_done: false };
    let mut tokenizer = Tokenizer::of_whole_page(Dialect::Xml);
    tokenizer.feed(svg.as_bytes(), &mut writer);
    tokenizer.finish(&mut writer);
    while !writer.open.is_empty() {
        writer.end_element();
    }
    writer.out
}

struct SvgWriter<'a> {
    out: String,
    rewriter: &'a mut dyn PageRewriter,
    /// The names of the open elements that were copied.
    open: Vec<String>,
    /// The number of open elements that are left out: one that is not copied, and those within it.
    dropped: usize,
    /// The text of the open `style` element.
    style: Option<String>,
    /// Whether the root has ended.
    is_done: bool,
}

impl SvgWriter<'_> {
    fn start_element(&mut self, tag: &Tag<'_>, name: &str) {
        let attributes = copied_attributes(tag);
        let lower = name.to_ascii_lowercase();
        self.out.extend(["<", name]);
        if self.open.is_empty() {
            self.out.push_str(" xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\"");
        }
        for (written, local, value) in &attributes {
            let prefix = written.rsplit_once(':').map_or("", |(prefix, _)| prefix);
            let is_known =
                written != "xmlns" && matches!((prefix, local.as_str()), ("" | "xlink", _) | ("xml", "space" | "lang"));
            let new = new_value(&lower, local, value, None, self.rewriter).filter(|_| is_known);
            if let Some(new) = new {
                push_attribute(&mut self.out, written, &new);
            }
        }
        self.out.push('>');
        self.open.push(name.to_owned());
        self.style = (name == "style").then(String::new);
    }

    fn end_element(&mut self) {
        if let Some(style) = self.style.take() {
            let css = rewrite_css(&style, |url, use_as| self.rewriter.replace(url, use_as));
            push_escaped(&mut self.out, if computes_urls(&css) { "" } else { &css });
        }
        if let Some(name) = self.open.pop() {
            self.out.extend(["</", &name, ">"]);
        }
        self.is_done = self.open.is_empty();
    }

    fn is_copied(&self, name: &str, tag: &Tag<'_>) -> bool {
        let is_root = name == "svg" && self.open.is_empty();
        let is_inner = !self.open.is_empty() && self.open.len() < MAX_DEPTH && self.style.is_none();
        self.dropped == 0
            && (is_root || is_inner)
            && places::is_svg_element(name)
            && !is_animation_of_links(&name.to_ascii_lowercase(), &copied_attributes(tag))
    }

    fn add_text(&mut self, text: &str) {
        if self.dropped > 0 || self.open.is_empty() {
            return;
        }
        match &mut self.style {
            Some(style) => style.push_str(text),
            None => push_escaped(&mut self.out, text),
        }
    }
}

/// Whether a style sheet can build a URL from strings: `image-set(var(--a))`.
fn computes_urls(css: &str) -> bool {
    let css = css.to_ascii_lowercase();
    css.contains('\\') && (css.contains("--") || css.contains('('))
        || ["image-set", "src(", "attr("].iter().any(|name| css.contains(name))
}

impl TokenHandler for SvgWriter<'_> {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        let name = tag_name(tag.name).map_or("", local_name);
        if self.is_done {
            return TextMode::Captured;
        }
        if self.is_copied(name, tag) {
            self.start_element(tag, name);
            if tag.self_closing {
                self.end_element();
            }
        } else if !tag.self_closing && !self.open.is_empty() {
            self.dropped += 1;
        }
        TextMode::Captured
    }

    fn end(&mut self, name: &[u8]) {
        let name = tag_name(name).map_or("", local_name);
        if self.dropped > 0 {
            self.dropped -= 1;
        } else if self.open.last().is_some_and(|open| open == name) {
            self.end_element();
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.add_text(&decode_character_references(&String::from_utf8_lossy(text), TextContext::Text));
    }

    fn cdata(&mut self, text: &[u8]) {
        self.add_text(&String::from_utf8_lossy(text));
    }

    fn is_in_foreign(&self) -> bool {
        false
    }
}
