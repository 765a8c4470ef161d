//! [`Collector`] as the handler of the tokens of a page.

use super::feeds;
use super::links::{CapturedText, Collector};
use super::names::{self, key};
use super::tokenizer::{Dialect, Tag, TextMode, TokenHandler};

impl TokenHandler for Collector {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        self.likeness.tag();
        if self.capturing.is_some() {
            self.end_capture();
        }
        let key = key(tag.name);
        self.apply_to_texts(key, tag.name);
        if self.dialect == Dialect::Xml {
            return feeds::start(self, tag);
        }
        if self.foreign.start(key, tag) {
            if self.templates == 0 {
                self.handle_foreign(key, tag);
                if self.limits.assets {
                    self.add_hidden_assets(tag);
                }
            }
            return TextMode::Markup;
        }
        if key == names::TEMPLATE {
            self.templates += 1;
        }
        if self.templates == 0 {
            self.empty_page.start(key, tag, self.likeness.words().total());
            self.handle_html(key, tag);
            if self.limits.assets {
                self.add_hidden_assets(tag);
            }
        }
        match key {
            names::SCRIPT if self.templates == 0 => self.begin_script(tag),
            names::SCRIPT => TextMode::Script,
            names::STYLE if self.templates == 0 => self.begin_style(),
            names::STYLE | names::XMP | names::IFRAME | names::NOEMBED | names::NOFRAMES => TextMode::RawText,
            names::TITLE if self.title.is_none() && self.templates == 0 => {
                self.begin_capture(CapturedText::Title);
                TextMode::RcData
            }
            names::TITLE | names::TEXTAREA => TextMode::RcData,
            names::LONG_NAME if tag.name.eq_ignore_ascii_case(b"plaintext") => TextMode::PlainText,
            _ => TextMode::Markup,
        }
    }

    fn end(&mut self, name: &[u8]) {
        self.likeness.tag();
        if self.capturing.is_some() {
            self.end_capture();
        }
        if let Some(mut style) = self.style.take() {
            style.finish(|url| self.add_css(&url));
        }
        if self.script.is_some() {
            self.end_script();
        }
        self.apply_to_texts(key(name), name);
        if self.dialect == Dialect::Html {
            if self.templates == 0 {
                self.empty_page.end(key(name), name, self.likeness.words().total());
            }
            self.foreign.end(name);
            if self.templates > 0 && key(name) == names::TEMPLATE && !self.foreign.is_inside() {
                self.templates -= 1;
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        if let Some(mut style) = self.style.take() {
            style.feed(text, |url| self.add_css(&url));
            self.style = Some(style);
            return;
        }
        if self.script.is_some() {
            return self.read_script(text);
        }
        self.push_captured(text);
    }

    fn visible_text(&mut self, text: &[u8]) {
        if !self.is_feed {
            self.likeness.text(text);
        }
        self.empty_page.text(text);
        if self.facts.in_heading {
            self.facts.push_heading(text);
        }
        if let Some(anchors) = &mut self.anchors {
            anchors.push(text);
        }
    }

    fn cdata(&mut self, text: &[u8]) {
        // Character references in captured text are resolved later, so a literal ampersand is escaped.
        for (index, piece) in text.split(|&byte| byte == b'&').enumerate() {
            if index > 0 {
                self.push_captured(b"&amp;");
            }
            self.push_captured(piece);
        }
    }

    fn is_in_foreign(&self) -> bool {
        self.foreign.is_inside()
    }
}
