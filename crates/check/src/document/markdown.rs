//! References and anchors of Markdown: CommonMark with front matter, tables, bare URLs and embedded HTML.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use memchr::memmem;

use argiope_core::page::page_budget::{PageBudget, VISIT};
use pulldown_cmark::{Event, LinkType, MetadataBlockKind, Options, Parser, Tag, TagEnd};

use super::{DocumentReferences, Reference, ReferenceKind, ReferenceText, html, nesting};
use crate::anchors::AnchorCollector;

/// The text of a link is kept up to about this many bytes. Less of it is shown.
const MAX_LINK_TEXT: usize = 400;

/// At most this many open links and images, the innermost ones, get a piece of text. Images may nest to any depth.
const MAX_NESTED_TEXTS: usize = 8;

/// Characters with a meaning in Markdown that are read of a document. The parser builds a tree of the whole document before
/// it returns the first event, with a node of about 80 bytes for each of them.
const MAX_MARKUP: usize = 2_000_000;

/// The beginning of a text with at most [`MAX_MARKUP`] characters that have a meaning, up to the end of a line if it has
/// one.
fn limited_markup(text: &str) -> &str {
    let is_markup = |byte: &u8| !byte.is_ascii_alphanumeric() && byte.is_ascii() && !matches!(byte, b' ' | b',' | b'/');
    let Some((end, _)) = text.bytes().enumerate().filter(|(_, byte)| is_markup(byte)).nth(MAX_MARKUP) else {
        return text;
    };
    let kept = text.get(..end).unwrap_or_default();
    kept.rfind('\n').and_then(|end| kept.get(..=end)).unwrap_or(kept)
}

/// Reads Markdown.
pub(super) fn read<'a>(
    text: &'a str,
    anchors: &mut impl AnchorCollector,
    budget: &PageBudget,
) -> DocumentReferences<'a> {
    // The limit on nesting and the parser each read every byte.
    if !budget.spend(2 * text.len()) {
        return DocumentReferences::default();
    }
    let mut document = DocumentReferences::default();
    let mut slugs = Slugs::default();
    // The open links and images, as indices of `document.references`. Their texts arrive in pieces.
    let mut open_links: Vec<usize> = Vec::new();
    // The id and the title of the open heading.
    let mut heading: Option<(Option<String>, String)> = None;
    // The HTML of the document, with everything else replaced by spaces, so that offsets stay the same.
    let mut markup: Option<Vec<u8>> = None;
    let mut in_front_matter = false;
    let mut in_code_block = false;
    // The end of the last bare URL, which is one that is not marked as a link. The parser splits texts at characters such
    // as `_`, which may be part of a URL, so the next piece of text may begin within that URL.
    let mut bare_end = 0;
    let kept = limited_markup(text);
    document.is_cut = kept.len() < text.len();
    let source = nesting::limited(kept);
    for (event, range) in Parser::new_ext(&source, options()).into_offset_iter() {
        if !budget.visit() {
            break;
        }
        match event {
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                let href = if link_type == LinkType::Email { format!("mailto:{dest_url}").into() } else { dest_url };
                open_links.push(document.references.len());
                document.add(reference(href.into_string(), ReferenceKind::Link, range.start));
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                open_links.push(document.references.len());
                document.add(reference(dest_url.into_string(), ReferenceKind::Asset, range.start));
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                open_links.pop();
            }
            Event::Start(Tag::Heading { id, .. }) => heading = Some((id.map(|id| id.into_string()), String::new())),
            Event::End(TagEnd::Heading(_)) => {
                if let Some((id, title)) = heading.take() {
                    anchors.add(&slugs.next(&title));
                    if let Some(id) = id {
                        anchors.add(&id);
                    }
                }
            }
            Event::Start(Tag::MetadataBlock(MetadataBlockKind::YamlStyle | MetadataBlockKind::PlusesStyle)) => {
                in_front_matter = true;
            }
            Event::End(TagEnd::MetadataBlock(_)) => in_front_matter = false,
            Event::Start(Tag::CodeBlock(_)) => in_code_block = true,
            Event::End(TagEnd::CodeBlock) => in_code_block = false,
            Event::Text(piece) | Event::Code(piece) if !in_front_matter => {
                let is_code = in_code_block || text.as_bytes().get(range.start) == Some(&b'`');
                if open_links.is_empty() && !is_code {
                    while let Some(bare) = next_bare_url(text, range.start.max(bare_end)..range.end, budget) {
                        bare_end = bare.end;
                        let url = text.get(bare.clone()).unwrap_or_default();
                        let text = ReferenceText::Given(Cow::Borrowed(url));
                        let (href, kind, offset) = (Cow::Borrowed(url), ReferenceKind::Link, bare.start);
                        document.add(Reference { href, kind, offset, text });
                    }
                }
                add_text(&mut document.references, &open_links, &piece, budget);
                if let Some((_, title)) = heading.as_mut().filter(|_| budget.spend(piece.len())) {
                    title.push_str(&piece);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                add_text(&mut document.references, &open_links, " ", budget);
            }
            Event::Html(_) | Event::InlineHtml(_) => {
                let markup = markup.get_or_insert_with(|| vec![b' '; text.len()]);
                if let (Some(copy), Some(original)) = (markup.get_mut(range.clone()), text.as_bytes().get(range)) {
                    copy.copy_from_slice(original);
                }
            }
            _ => {}
        }
    }
    if let Some(markup) = markup.and_then(|markup| String::from_utf8(markup).ok()) {
        let is_xml = false;
        let embedded = html::read(&markup, is_xml, anchors, budget);
        let references = embedded.references.into_iter().map(|reference| Reference {
            href: Cow::Owned(reference.href.into_owned()),
            text: match reference.text {
                ReferenceText::Given(text) => ReferenceText::Given(Cow::Owned(text.into_owned())),
                ReferenceText::Content(offset) => ReferenceText::Content(offset),
                ReferenceText::None => ReferenceText::None,
            },
            ..reference
        });
        document.is_cut |= embedded.is_cut;
        references.for_each(|reference| document.add(reference));
        document.references.sort_by_key(|reference| reference.offset);
    }
    document
}

/// The extensions of CommonMark that are read.
pub(super) fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS
}

/// Adds a piece of text to the innermost open links.
fn add_text(references: &mut [Reference<'_>], open_links: &[usize], piece: &str, budget: &PageBudget) {
    for &index in open_links.iter().rev().take(MAX_NESTED_TEXTS) {
        let Some(Reference { text: ReferenceText::Given(text), .. }) = references.get_mut(index) else { continue };
        let Some(room) = MAX_LINK_TEXT.checked_sub(text.len()) else { continue };
        let piece = piece.get(..piece.ceil_char_boundary(room)).unwrap_or(piece);
        if !budget.spend(VISIT + piece.len()) {
            return;
        }
        text.to_mut().push_str(piece);
    }
}

/// The first URL that begins within a range of the text and is not marked as a link. GitHub and others show it as a link.
/// It may extend beyond the range.
fn next_bare_url(text: &str, range: Range<usize>, budget: &PageBudget) -> Option<Range<usize>> {
    let searched = text.get(range.clone())?.as_bytes();
    // Only what is searched is charged, because the search continues after each URL.
    let mut charged = 0;
    for at in memmem::find_iter(searched, "://") {
        if !budget.spend(at - charged) {
            return None;
        }
        charged = at;
        if let Some(url) = bare_url(text, range.start, range.start + at, budget) {
            return Some(url);
        }
    }
    // Nothing is left to do, so a refusal changes nothing here.
    let _ = budget.spend(searched.len() - charged);
    None
}

/// The URL whose `://` is at this offset; `None` if its scheme begins before `start` or within a word.
fn bare_url(text: &str, start: usize, colon: usize, budget: &PageBudget) -> Option<Range<usize>> {
    let before = text.get(start..colon)?;
    let scheme = ["https", "http"].into_iter().find(|scheme| before.ends_with(scheme))?;
    let start = colon - scheme.len();
    if text.get(..start)?.ends_with(char::is_alphanumeric) {
        return None;
    }
    let rest = text.get(start..)?;
    let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '`' | '|' | '"' | ']' | '\\'));
    let end = end.unwrap_or(rest.len());
    let url = without_punctuation(rest.get(..end).filter(|_| budget.spend(2 * end))?);
    (url.len() > scheme.len() + "://".len()).then_some(start..start + url.len())
}

/// The URL without the punctuation at its end, and without closing parentheses that were opened before the URL.
fn without_punctuation(mut url: &str) -> &str {
    let count = |byte: u8| memchr::memchr_iter(byte, url.as_bytes()).count();
    let mut surplus = count(b')').saturating_sub(count(b'('));
    loop {
        let trimmed = url.trim_end_matches(['?', '!', '.', ',', ':', ';', '*', '_', '~', '\'']);
        let closed = trimmed.strip_suffix(')').filter(|_| surplus > 0);
        surplus = surplus.saturating_sub(usize::from(closed.is_some()));
        let shorter = closed.unwrap_or(trimmed);
        if shorter.len() == url.len() {
            return url;
        }
        url = shorter;
    }
}

/// A link or image whose text is still empty.
fn reference<'a>(href: String, kind: ReferenceKind, offset: usize) -> Reference<'a> {
    Reference { href: Cow::Owned(href), kind, offset, text: ReferenceText::Given(Cow::Owned(String::new())) }
}

/// The heading ids that GitHub, GitLab and mdBook generate.
#[derive(Default)]
struct Slugs {
    /// How often each slug was used.
    used: HashMap<String, u32>,
}

impl Slugs {
    /// The id of the next heading. Repeated titles get a number.
    fn next(&mut self, title: &str) -> String {
        let mut slug = String::with_capacity(title.len());
        for c in title.trim().chars().flat_map(char::to_lowercase) {
            if c.is_alphanumeric() || matches!(c, '-' | '_') {
                slug.push(c);
            } else if c.is_whitespace() {
                slug.push('-');
            }
        }
        let count = self.used.entry(slug.clone()).or_insert(0);
        let number = *count;
        *count += 1;
        if number == 0 {
            return slug;
        }
        let slug = format!("{slug}-{number}");
        // The title of a later heading may have this slug.
        self.used.insert(slug.clone(), 1);
        slug
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::LineCounter;

    #[test]
    fn links_images_references_and_html_are_found() {
        let text = "---\ntitle: \"[no](no.md)\"\n---\n# One *two* `three`\n\n[a *b*](a.md \"title\") ![pic](p.png)\n\
                    [ref][r] <https://auto.example/> <me@example.com>\n\n`[no](no.md)`\n\n    [no](no.md)\n\n\
                    <a id=\"here\" href=\"h.html\">text</a>\n\n# One two three\n## Mine {#my-id}\n\n[r]: r.md#x\n";
        let mut anchors: Vec<String> = Vec::new();
        let document = read(text, &mut anchors, &PageBudget::unlimited());
        let found: Vec<(String, String, u32)> = document
            .references
            .iter()
            .map(|reference| {
                let (line, _) = LineCounter::new(text).at(reference.offset);
                (reference.href.to_string(), LineCounter::new(text).link_text(&reference.text), line)
            })
            .collect();
        let expected = [
            ("a.md", "a b", 6),
            ("p.png", "pic", 6),
            ("r.md#x", "ref", 7),
            ("https://auto.example/", "https://auto.example/", 7),
            ("mailto:me@example.com", "me@example.com", 7),
            ("h.html", "text", 13),
        ];
        assert_eq!(found, expected.map(|(href, text, line)| (href.to_owned(), text.to_owned(), line)));
        assert_eq!(anchors, ["one-two-three", "one-two-three-1", "mine", "my-id", "here"]);
    }

    #[test]
    fn bare_urls_are_links() {
        let text = "See https://a.example/x_y_z?q=1&r=2, or (http://b.example/f(1)).\n\n| https://c.example | **https://d.example/** |\n\
                    |---|---|\n| `https://no.example/` | https:// |\n\n```\nhttps://no.example/\n```\n\n\
                    [text https://no.example/](t.md) xhttps://no.example/ <https://e.example/>\n";
        let document = read(text, &mut Vec::new(), &PageBudget::unlimited());
        let found: Vec<&str> = document.references.iter().map(|reference| &*reference.href).collect();
        let expected = [
            "https://a.example/x_y_z?q=1&r=2",
            "http://b.example/f(1)",
            "https://c.example",
            "https://d.example/",
            "t.md",
            "https://e.example/",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn markup_and_references_beyond_a_limit_are_not_read() {
        let dense = "a**b_".repeat(MAX_MARKUP);
        let kept = limited_markup(&dense).len();
        assert!(kept.abs_diff(5 * MAX_MARKUP / 3) <= 5, "three of five characters are markup: {kept}");
        assert!(read(&dense, &mut Vec::new(), &PageBudget::unlimited()).is_cut);
        let lines = "* a\n".repeat(MAX_MARKUP);
        assert_eq!(limited_markup(&lines).len(), 4 * MAX_MARKUP / 2, "whole lines");
        let text = "A page of prose, with a [link](x.md).\n".repeat(10_000);
        assert_eq!(limited_markup(&text), text);
        let links = "[](x)".repeat(super::super::MAX_REFERENCES + 1);
        let document = read(&links, &mut Vec::new(), &PageBudget::unlimited());
        assert!(document.is_cut && document.references.len() == super::super::MAX_REFERENCES);
    }

    #[test]
    fn the_end_of_a_bare_url_is_found_in_one_pass() {
        for (text, url) in [
            (format!("http://a{}", ")".repeat(80_000)), "http://a"),
            (format!("(http://a(b){}", ".)".repeat(40_000)), "http://a(b)"),
            (format!("http://a/b{}", "_".repeat(80_000)), "http://a/b"),
        ] {
            let document = read(&text, &mut Vec::new(), &PageBudget::unlimited());
            let found: Vec<&str> = document.references.iter().map(|reference| &*reference.href).collect();
            assert_eq!(found, [url]);
        }
        let joined = "http://a_".repeat(1000);
        let document = read(&joined, &mut Vec::new(), &PageBudget::unlimited());
        let lengths: Vec<usize> = document.references.iter().map(|reference| reference.href.len()).collect();
        assert_eq!(lengths, [joined.len() - 1], "the pieces of the text are parts of one URL");
    }

    #[test]
    fn a_long_line_with_many_bare_urls_is_charged_once() {
        let steps = |count: usize| {
            let budget = PageBudget::unlimited();
            let text = "http://aa) and then ".repeat(count);
            assert_eq!(read(&text, &mut Vec::new(), &budget).references.len(), count);
            assert!(read("see http", &mut Vec::new(), &budget).references.is_empty());
            budget.steps()
        };
        let [small, large] = [1_000, 2_000].map(steps);
        assert!(large * 10 <= small * 22, "{small} {large}");
    }

    #[test]
    fn nested_images_keep_a_limited_part_of_their_text() {
        let kept = |depth: usize| {
            let text = format!("{}{}", "![a ".repeat(depth), "](x)".repeat(depth));
            let length = |reference: &Reference<'_>| match &reference.text {
                ReferenceText::Given(text) => text.len(),
                _ => 0,
            };
            read(&text, &mut Vec::new(), &PageBudget::unlimited()).references.iter().map(length).sum::<usize>()
        };
        assert_eq!(kept(3), "a a a a a a ".len());
        assert!(kept(2000) <= 2000 * MAX_LINK_TEXT, "{}", kept(2000));
    }
}
