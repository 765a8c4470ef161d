//! References and anchors of HTML.

use argiope_core::base::link::LinkKind;
use argiope_core::page::examine::names::{self, key};
use argiope_core::page::examine::tokenizer::{Dialect, Tag, TextMode, TokenHandler, Tokenizer};
use argiope_core::page::examine::{
    ForeignStack, TextContext, decode_character_references, has_word, kind_of_rel, refresh_header, srcset_candidates,
};
use argiope_core::page::page_budget::{PageBudget, VISIT};

use super::{DocumentReferences, Reference, ReferenceKind, ReferenceText};
use crate::anchors::AnchorCollector;

/// Reads HTML, or XHTML if `is_xml`.
pub(super) fn read<'a>(
    text: &'a str,
    is_xml: bool,
    anchors: &mut impl AnchorCollector,
    budget: &PageBudget,
) -> DocumentReferences<'a> {
    // The tokenizer reads each byte once.
    if !budget.spend(text.len()) {
        return DocumentReferences::default();
    }
    let mut reader = HtmlReader {
        budget,
        text,
        is_xml,
        found: DocumentReferences::default(),
        anchors,
        foreign: ForeignStack::default(),
        template_depth: 0,
        open_link: None,
    };
    let mut tokenizer = Tokenizer::new(if is_xml { Dialect::Xml } else { Dialect::Html });
    // One chunk, so that every tag is a slice of `text` and has an offset in it.
    tokenizer.feed(text.as_bytes(), &mut reader);
    // The attributes of a tag may be in any order. Positions are computed in one pass over ascending offsets.
    reader.found.references.sort_by_key(|reference| reference.offset);
    reader.found
}

/// Collects references and anchors from the tokens of a document.
struct HtmlReader<'a, 'b, A> {
    text: &'a str,
    is_xml: bool,
    found: DocumentReferences<'a>,
    anchors: &'b mut A,
    budget: &'b PageBudget,
    /// The open elements of SVG and MathML.
    foreign: ForeignStack,
    /// The number of open `template` elements. Their content is not displayed.
    template_depth: u32,
    /// The index of the last link, if it is still open.
    open_link: Option<usize>,
}

/// The values of one tag's attributes that contain a reference or determine its kind.
#[derive(Default)]
struct AttributeValues<'t> {
    alt: Option<&'t [u8]>,
    background: Option<&'t [u8]>,
    content: Option<&'t [u8]>,
    data: Option<&'t [u8]>,
    data_src: Option<&'t [u8]>,
    data_srcset: Option<&'t [u8]>,
    href: Option<&'t [u8]>,
    http_equiv: Option<&'t [u8]>,
    imagesrcset: Option<&'t [u8]>,
    name: Option<&'t [u8]>,
    poster: Option<&'t [u8]>,
    property: Option<&'t [u8]>,
    rel: Option<&'t [u8]>,
    src: Option<&'t [u8]>,
    srcset: Option<&'t [u8]>,
    /// The attribute `type`.
    kind: Option<&'t [u8]>,
    /// The attribute `xlink:href`.
    xlink: Option<&'t [u8]>,
}

/// A `meta` element whose `property` or `name` is one of these has the URL of an image, video or audio as content.
const META_URL_NAMES: [&[u8]; 10] = [
    b"og:image",
    b"og:image:url",
    b"og:image:secure_url",
    b"og:video",
    b"og:video:url",
    b"og:video:secure_url",
    b"og:audio",
    b"og:audio:url",
    b"twitter:image",
    b"twitter:image:src",
];

impl<'a, A: AnchorCollector> HtmlReader<'a, '_, A> {
    /// Maps `bytes`, a slice of `self.text`, back to the text and its offset.
    fn locate(&self, bytes: &[u8]) -> Option<(&'a str, usize)> {
        let offset = bytes.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        Some((self.text.get(offset..offset.checked_add(bytes.len())?)?, offset))
    }

    /// Adds a reference. `written` is the attribute value, a slice of `self.text`.
    fn add(&mut self, written: Option<&[u8]>, kind: ReferenceKind, text: ReferenceText<'a>) {
        let Some((written, offset)) = written.and_then(|written| self.locate(written)) else { return };
        if !self.budget.spend(VISIT + written.len()) {
            return;
        }
        let href = decode_character_references(written, TextContext::Attribute);
        self.found.add(Reference { href, kind, offset, text });
    }

    /// Adds a link, whose text is the content of the element.
    fn add_link(&mut self, tag: &Tag<'_>, written: Option<&[u8]>) {
        self.close_link(tag.name);
        let count = self.found.references.len();
        let content = self.name_end(tag)..self.text.len();
        self.add(written, ReferenceKind::Link, ReferenceText::Content(content));
        self.open_link = (self.found.references.len() > count).then_some(count);
    }

    /// Ends the text of the open link before the tag with this name, a slice of `self.text`. Links do not nest, so the texts
    /// of all links together are at most as long as the page.
    fn close_link(&mut self, name: &[u8]) {
        let Some(index) = self.open_link.take() else { return };
        if let Some((_, offset)) = self.locate(name)
            && let Some(Reference { text: ReferenceText::Content(content), .. }) = self.found.references.get_mut(index)
        {
            content.end = offset;
        }
    }

    /// Adds a resource that the page needs for display. An empty URL is skipped.
    fn add_asset(&mut self, written: Option<&[u8]>, text: Option<&[u8]>) {
        if let Some(written) = written.filter(|written| !written.trim_ascii().is_empty()) {
            let text = self.text_of_attribute(text);
            self.add(Some(written), ReferenceKind::Asset, text);
        }
    }

    /// The text of a reference that an attribute contains, such as `alt`.
    fn text_of_attribute(&self, written: Option<&[u8]>) -> ReferenceText<'a> {
        match written.and_then(|written| self.locate(written)) {
            Some((written, _)) => ReferenceText::Given(decode_character_references(written, TextContext::Attribute)),
            None => ReferenceText::None,
        }
    }

    /// Adds the images of a `srcset` attribute.
    fn add_srcset(&mut self, written: Option<&[u8]>) {
        for source in srcset_candidates(written.unwrap_or(&[])) {
            self.add_asset(Some(source), None);
        }
    }

    /// Reads the attributes of a tag, and adds its id as an anchor. With `name_is_anchor`, adds its name too. Of duplicate
    /// attributes, the first is used.
    fn read_attributes<'t>(&mut self, tag: &Tag<'t>, name_is_anchor: bool) -> AttributeValues<'t> {
        const ID: u64 = const_key(b"id");
        const NAME: u64 = const_key(b"name");
        const ALT: u64 = const_key(b"alt");
        const CONTENT: u64 = const_key(b"content");
        const DATA: u64 = const_key(b"data");
        const DATA_SRC: u64 = const_key(b"data-src");
        const HREF: u64 = const_key(b"href");
        const POSTER: u64 = const_key(b"poster");
        const PROPERTY: u64 = const_key(b"property");
        const REL: u64 = const_key(b"rel");
        const SRC: u64 = const_key(b"src");
        const SRCSET: u64 = const_key(b"srcset");
        const TYPE: u64 = const_key(b"type");
        let mut values = AttributeValues::default();
        let mut id = None;
        for (name, value) in tag.attributes().take_while(|(name, value)| self.budget.spend(name.len() + value.len())) {
            let value_slot = match key(name) {
                ID => &mut id,
                NAME => &mut values.name,
                ALT => &mut values.alt,
                CONTENT => &mut values.content,
                DATA => &mut values.data,
                DATA_SRC => &mut values.data_src,
                HREF => &mut values.href,
                POSTER => &mut values.poster,
                PROPERTY => &mut values.property,
                REL => &mut values.rel,
                SRC => &mut values.src,
                SRCSET => &mut values.srcset,
                TYPE => &mut values.kind,
                // `key` is 0 for names of more than eight bytes.
                0 if name.eq_ignore_ascii_case(b"http-equiv") => &mut values.http_equiv,
                0 if name.eq_ignore_ascii_case(b"imagesrcset") => &mut values.imagesrcset,
                0 if name.eq_ignore_ascii_case(b"data-srcset") => &mut values.data_srcset,
                0 if name.eq_ignore_ascii_case(b"background") => &mut values.background,
                0 if name.eq_ignore_ascii_case(b"xlink:href") => &mut values.xlink,
                _ => continue,
            };
            value_slot.get_or_insert(value);
        }
        self.add_anchor(id);
        if name_is_anchor && values.name != id {
            self.add_anchor(values.name);
        }
        values
    }

    /// Adds an id or name as a possible target of fragments.
    fn add_anchor(&mut self, written: Option<&[u8]>) {
        if let Some((written, _)) = written.and_then(|written| self.locate(written))
            && !written.is_empty()
            && self.budget.spend(VISIT + written.len())
        {
            self.anchors.add(&decode_character_references(written, TextContext::Attribute));
        }
    }

    /// Reads only the id, for elements without references.
    fn read_id(&mut self, tag: &Tag<'_>) {
        let mut charged = tag.attributes().take_while(|(name, value)| self.budget.spend(name.len() + value.len()));
        let id = charged.find(|(name, _)| matches!(name, [b'i' | b'I', b'd' | b'D']));
        self.add_anchor(id.map(|(_, value)| value));
    }

    /// Reads the start tag of an HTML element.
    fn read_html_tag(&mut self, element: u64, tag: &Tag<'_>) {
        match element {
            names::A => {
                let values = self.read_attributes(tag, true);
                self.add_link(tag, values.href);
            }
            names::AREA => {
                let values = self.read_attributes(tag, false);
                let text = self.text_of_attribute(values.alt);
                self.add(values.href, ReferenceKind::Link, text);
            }
            names::LINK => self.read_link(tag),
            names::META => self.read_meta(tag),
            names::BASE => {
                let values = self.read_attributes(tag, false);
                if self.found.base.is_none()
                    && let Some((href, _)) = values.href.and_then(|href| self.locate(href))
                {
                    self.found.base = Some(decode_character_references(href, TextContext::Attribute));
                }
            }
            names::FRAME | names::IFRAME | names::SCRIPT | names::EMBED | names::TRACK | names::AUDIO => {
                let values = self.read_attributes(tag, false);
                self.add_asset(values.src, None);
                self.add_asset(values.data_src, None);
            }
            names::VIDEO => {
                let values = self.read_attributes(tag, false);
                self.add_asset(values.src, None);
                self.add_asset(values.poster, None);
            }
            names::IMG | names::IMAGE | names::SOURCE => {
                let values = self.read_attributes(tag, false);
                self.add_asset(values.src, values.alt);
                self.add_asset(values.data_src, values.alt);
                self.add_srcset(values.srcset);
                self.add_srcset(values.data_srcset);
            }
            names::OBJECT => {
                let values = self.read_attributes(tag, false);
                self.add_asset(values.data, None);
            }
            names::INPUT => {
                let values = self.read_attributes(tag, false);
                if values.kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"image")) {
                    self.add_asset(values.src, values.alt);
                }
            }
            names::BODY => {
                let values = self.read_attributes(tag, false);
                self.add_asset(values.background, None);
            }
            _ => self.read_id(tag),
        }
    }

    /// Reads a `link` element.
    fn read_link(&mut self, tag: &Tag<'_>) {
        let values = self.read_attributes(tag, false);
        self.add_srcset(values.imagesrcset);
        // Preconnect and DNS prefetch hints contain hosts, not pages.
        let is_hint = ["preconnect", "dns-prefetch"].iter().any(|word| has_word(values.rel, word));
        let Some(href) = values.href.filter(|href| !is_hint && !href.trim_ascii().is_empty()) else { return };
        match kind_of_rel(values.rel) {
            LinkKind::Asset => self.add_asset(Some(href), None),
            _ => self.add(Some(href), ReferenceKind::Meta, ReferenceText::None),
        }
    }

    /// Reads a `meta` element: a refresh, or the URL of an image, video or audio.
    fn read_meta(&mut self, tag: &Tag<'_>) {
        let values = self.read_attributes(tag, false);
        let Some(content) = values.content else { return };
        if values.http_equiv.is_some_and(|pragma| pragma.eq_ignore_ascii_case(b"refresh")) {
            if let Some((written, _)) = self.locate(content)
                && let Some(target) = refresh_header(written)
            {
                self.add(Some(target.as_bytes()), ReferenceKind::Link, ReferenceText::None);
            }
            return;
        }
        let has_url = |name: &[u8]| META_URL_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
        if values.property.or(values.name).is_some_and(has_url) && !content.trim_ascii().is_empty() {
            self.add(Some(content), ReferenceKind::Meta, ReferenceText::None);
        }
    }

    /// Reads the start tag of an element of SVG or MathML.
    fn read_foreign_tag(&mut self, element: u64, tag: &Tag<'_>) {
        match element {
            names::A => {
                let values = self.read_attributes(tag, false);
                self.add_link(tag, values.href.or(values.xlink));
            }
            names::IMAGE | names::USE | names::FEIMAGE | names::SCRIPT => {
                let values = self.read_attributes(tag, false);
                self.add_asset(values.href.or(values.xlink), None);
                self.add_asset(values.src, None);
            }
            _ => self.read_id(tag),
        }
    }

    /// The offset after the tag's name. The element's content begins after the next `>` outside of quotes.
    fn name_end(&self, tag: &Tag<'_>) -> usize {
        self.locate(tag.name).map_or(0, |(name, offset)| offset + name.len())
    }
}

/// Computes [`key`] of a lower-case name at compile time.
const fn const_key(name: &[u8]) -> u64 {
    let (mut key, mut index) = (0, 0);
    while index < name.len() {
        key |= (name[index] as u64) << (8 * index);
        index += 1;
    }
    key
}

impl<A: AnchorCollector> TokenHandler for HtmlReader<'_, '_, A> {
    fn start(&mut self, tag: &Tag<'_>) -> TextMode {
        if !self.budget.visit() {
            return TextMode::Markup;
        }
        let element = key(tag.name);
        let is_foreign = !self.is_xml && self.foreign.start(element, tag);
        if element == names::TEMPLATE && !is_foreign && !self.is_xml {
            if self.template_depth == 0 {
                self.read_id(tag);
            }
            self.template_depth += 1;
        }
        if self.template_depth == 0 {
            match is_foreign {
                true => self.read_foreign_tag(element, tag),
                false => self.read_html_tag(element, tag),
            }
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
        if key(name) == names::A {
            self.close_link(name);
        }
        if !self.is_xml {
            self.foreign.end(name);
            if self.template_depth > 0 && key(name) == names::TEMPLATE && !self.foreign.is_inside() {
                self.template_depth -= 1;
            }
        }
    }

    fn text(&mut self, _text: &[u8]) {}

    fn cdata(&mut self, _text: &[u8]) {}

    fn is_in_foreign(&self) -> bool {
        self.foreign.is_inside()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::LineCounter;

    fn references_and_anchors(text: &str) -> (Vec<String>, Vec<String>) {
        let mut anchors: Vec<String> = Vec::new();
        let found = read(text, false, &mut anchors, &PageBudget::unlimited());
        (found.references.iter().map(|reference| reference.href.to_string()).collect(), anchors)
    }

    #[test]
    fn references_and_anchors_of_many_elements_are_found() {
        let (references, anchors) = references_and_anchors(
            r#"<html id=top><link rel=canonical href=/c><link rel=preconnect href=//no>
            <meta property="og:image" content="og.png"><meta http-equiv=refresh content="5; url=r.html">
            <a href="a?x=1&amp;y=2" name=n1>x</a><A HREF=b id=i1 name=n2>y</A><img src=i.png srcset="j.png 2x, k.png 3x" data-src=l.png>
            <script src=s.js>document.write('<a href=no id=no>')</script><!-- <a href=no id=no> -->
            <template id=t><a href=no id=no></a></template><svg><use href="sprite.svg#x"/><a xlink:href=svg id=s1></a></svg>
            <video src=v poster=p></video><input type=image src=in><textarea><a href=no></textarea><p ID="é">"#,
        );
        assert_eq!(
            references,
            [
                "/c",
                "og.png",
                "r.html",
                "a?x=1&y=2",
                "b",
                "i.png",
                "j.png",
                "k.png",
                "l.png",
                "s.js",
                "sprite.svg#x",
                "svg",
                "v",
                "p",
                "in"
            ]
        );
        assert_eq!(anchors, ["top", "n1", "i1", "n2", "t", "s1", "é"]);
    }

    #[test]
    fn a_reference_has_a_position_and_a_text() {
        let text = "<p>é <a title='>' href=\"x\">one <b>two</b>\n three</a>";
        let found = read(text, false, &mut Vec::new(), &PageBudget::unlimited());
        let reference = found.references.first().expect("a link");
        assert_eq!(LineCounter::new(text).at(reference.offset), (1, 25));
        assert_eq!(LineCounter::new(text).link_text(&reference.text), "one two three");
    }

    #[test]
    fn the_texts_of_links_do_not_overlap() {
        let text = "<a href=x>one <a href=y><b>two</b></a> three <svg><a href=z>four</svg>";
        let found = read(text, false, &mut Vec::new(), &PageBudget::unlimited());
        let texts: Vec<String> =
            found.references.iter().map(|reference| LineCounter::new(text).link_text(&reference.text)).collect();
        assert_eq!(texts, ["one", "two", "four"]);
        let unclosed = "<a href=x>".repeat(1000);
        let found = read(&unclosed, false, &mut Vec::new(), &PageBudget::unlimited());
        let length = |reference: &Reference<'_>| match &reference.text {
            ReferenceText::Content(content) => content.len(),
            _ => 0,
        };
        let total: usize = found.references.iter().map(length).sum();
        assert!(total <= unclosed.len(), "{total}");
    }

    #[test]
    fn references_are_in_the_order_of_their_positions() {
        let text = "<img srcset=\"b.png 1x, c.png 2x\" src=\"a.png\"><img src=d.png>";
        let found = read(text, false, &mut Vec::new(), &PageBudget::unlimited());
        let hrefs: Vec<&str> = found.references.iter().map(|reference| &*reference.href).collect();
        assert_eq!(hrefs, ["b.png", "c.png", "a.png", "d.png"]);
        assert!(found.references.is_sorted_by_key(|reference| reference.offset));
    }

    #[test]
    fn character_references_in_the_alternative_text_of_areas_and_images_are_decoded() {
        let text = "<map><area href=x alt='A &amp; B &eacute;'></map><img src=y alt='A &amp; B &eacute;'>";
        let found = read(text, false, &mut Vec::new(), &PageBudget::unlimited());
        let texts: Vec<String> =
            found.references.iter().map(|reference| LineCounter::new(text).link_text(&reference.text)).collect();
        assert_eq!(texts, ["A & B é", "A & B é"]);
    }
}
