//! The text of a page as a reader sees it, for links to a part of the text (`#:~:text=`).

use argiope_core::page::examine::names::{self, key};
use argiope_core::page::examine::tokenizer::{Dialect, Tag, TextMode, TokenHandler, Tokenizer};
use argiope_core::page::examine::{ForeignStack, TextContext, decode_character_references};
use pulldown_cmark::{Event, Parser, Tag as Block, TagEnd};

use super::{DocumentType, markdown, nesting};
use crate::text_fragment::TargetText;

/// Elements within a line of text. All others separate words.
const INLINE: [&str; 27] = [
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "wbr",
];

/// The text of a document.
pub(crate) fn page_text(text: &str, kind: DocumentType) -> TargetText {
    let mut collector = TextCollector::default();
    match kind {
        DocumentType::Html | DocumentType::Xhtml => read_html(text, kind == DocumentType::Xhtml, &mut collector),
        DocumentType::Markdown => read_markdown(text, &mut collector),
    }
    collector.0
}

fn read_html(text: &str, is_xml: bool, collector: &mut TextCollector) {
    let mut reader = TextReader { is_xml, collector, foreign: ForeignStack::default(), hidden: None };
    let mut tokenizer = Tokenizer::new(if is_xml { Dialect::Xml } else { Dialect::Html });
    tokenizer.feed(text.as_bytes(), &mut reader);
}

fn read_markdown(text: &str, collector: &mut TextCollector) {
    for event in Parser::new_ext(&nesting::limited(text), markdown::options()) {
        match event {
            Event::Text(piece) | Event::Code(piece) => collector.add(&piece),
            Event::Html(markup) => read_html(&markup, false, collector),
            Event::InlineHtml(_)
            | Event::Start(Block::Emphasis | Block::Strong | Block::Strikethrough | Block::Link { .. })
            | Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link) => {}
            _ => collector.separate(),
        }
    }
}

#[derive(Debug, Default)]
struct TextCollector(TargetText);

impl TextCollector {
    fn add(&mut self, text: &str) {
        for c in text.chars() {
            if c.is_whitespace() {
                self.separate();
            } else {
                self.0.text.extend(c.to_lowercase());
            }
        }
    }

    fn separate(&mut self) {
        let TargetText { text, .. } = &mut self.0;
        if !text.is_empty() && !text.ends_with(' ') {
            text.push(' ');
        }
    }
}

/// Collects the visible text of HTML.
struct TextReader<'a> {
    is_xml: bool,
    collector: &'a mut TextCollector,
    foreign: ForeignStack,
    /// The element whose content is not shown, and how many of its kind are open.
    hidden: Option<(u64, u32)>,
}

impl TextReader<'_> {
    fn separate(&mut self, name: &[u8]) {
        if !INLINE.iter().any(|inline| name.eq_ignore_ascii_case(inline.as_bytes())) {
            self.collector.separate();
        }
    }
}

impl TokenHandler for TextReader<'_> {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        let element = key(tag.name);
        let is_foreign = !self.is_xml && self.foreign.start(element, tag);
        self.separate(tag.name);
        self.collector.0.has_scripts |= element == names::SCRIPT;
        match &mut self.hidden {
            Some((hidden, depth)) => *depth += u32::from(*hidden == element),
            None if element == names::TEMPLATE => self.hidden = Some((element, 1)),
            None => {}
        }
        if is_foreign || self.is_xml {
            return TextMode::Markup;
        }
        match element {
            names::SCRIPT => TextMode::Script,
            names::STYLE | names::XMP | names::IFRAME | names::NOEMBED | names::NOFRAMES => TextMode::RawText,
            names::TITLE | names::TEXTAREA => TextMode::RcData,
            0 if tag.name.eq_ignore_ascii_case(b"plaintext") => TextMode::PlainText,
            _ => TextMode::Markup,
        }
    }

    fn end(&mut self, name: &[u8]) {
        self.separate(name);
        if !self.is_xml {
            self.foreign.end(name);
        }
        if let Some((hidden, depth)) = &mut self.hidden
            && *hidden == key(name)
        {
            *depth -= 1;
            if *depth == 0 {
                self.hidden = None;
            }
        }
    }

    fn text(&mut self, _text: &[u8]) {}

    fn visible_text(&mut self, text: &[u8]) {
        if self.hidden.is_none()
            && let Ok(text) = std::str::from_utf8(text)
        {
            self.collector.add(&decode_character_references(text, TextContext::Text));
        }
    }

    fn cdata(&mut self, text: &[u8]) {
        self.collector.add(&String::from_utf8_lossy(text));
    }

    fn is_in_foreign(&self) -> bool {
        self.foreign.is_inside()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_html_and_markdown_is_what_a_reader_sees() {
        for (text, kind, shown) in [
            (
                "<title>T</title><h1>One</h1><p>a<b>B</b> &amp;\n c<br>d<script>no()</script><!-- no --><template>no</template>",
                DocumentType::Html,
                "t one ab & c d ",
            ),
            (
                "# One *two*\n\na [link](x.md) `Code`\nmore\n\n| c |\n|---|\n| d |\n",
                DocumentType::Markdown,
                "one two a link code more c d ",
            ),
        ] {
            let page = page_text(text, kind);
            assert_eq!((page.text.as_str(), page.has_scripts), (shown, kind == DocumentType::Html));
        }
    }
}
