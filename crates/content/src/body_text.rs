//! The text of bodies that are not HTML: plain text, Markdown, JSON, XML and PDF.

use std::borrow::Cow;

use argiope_core::page::examine::{TextContext, decode_character_references};
use argiope_core::page::page_budget::PageBudget;
use argiope_core::page::reader::decode;

use crate::about::{AboutSource, Declared, PageAbout};
use crate::document::{Document, ParseLimits};
use crate::main_text::{PageText, TextRequest, count_words};

/// What kind of text a body has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyKind {
    Plain,
    Markdown,
    Json,
    Xml,
    #[cfg(feature = "pdf")]
    Pdf,
}

impl BodyKind {
    fn of(content_type: &str) -> Option<Self> {
        let subtype = content_type.rsplit(['/', '+']).next().unwrap_or_default();
        match content_type {
            "text/plain" => Some(Self::Plain),
            "text/markdown" | "text/x-markdown" => Some(Self::Markdown),
            "image/svg+xml" | "application/xhtml+xml" => None,
            #[cfg(feature = "pdf")]
            "application/pdf" => Some(Self::Pdf),
            _ if subtype == "json" => Some(Self::Json),
            _ if subtype == "xml" => Some(Self::Xml),
            _ => None,
        }
    }
}

/// Whether bodies of this type, which is not HTML, have text.
pub fn has_body_text(content_type: &str) -> bool {
    BodyKind::of(content_type).is_some()
}

/// The text of a body that is not HTML; `None` for types without text. All of it is the content of the body.
pub fn read_body_text(
    content_type: &str,
    (body, charset): (&[u8], Option<&str>),
    request: &TextRequest,
) -> Option<PageText> {
    let kind = BodyKind::of(content_type)?;
    #[cfg(feature = "pdf")]
    if kind == BodyKind::Pdf {
        return Some(pdf_text(body, request, &crate::pdf::PdfText::budget(body)));
    }
    let budget = &PageBudget::for_page(body.len());
    // The text is copied, fenced and counted.
    if !budget.spend(body.len() * 4) || !budget.hold(body.len() * 4) {
        return Some(PageText { limited: Some(crate::document::USED_UP), ..PageText::default() });
    }
    let text = crate::main_text::without_invisible(&decode(body, charset)).replace("\r\n", "\n");
    let (plain, markdown) = match kind {
        BodyKind::Markdown => (text.clone(), text),
        BodyKind::Json => (text.clone(), fenced("json", &text)),
        BodyKind::Xml => {
            let text = xml_texts(&text, budget);
            let paragraphs: Vec<String> = text.lines().map(crate::main_text::escape_paragraph).collect();
            (text, paragraphs.join("\n\n") + "\n")
        }
        _ => (text.clone(), fenced("", &text)),
    };
    let limited = budget.is_used_up().then_some(crate::document::USED_UP);
    Some(PageText { limited, ..whole(None, (plain, markdown), request) })
}

/// The result for a text that is kept as a whole.
fn whole(title: Option<String>, (plain, markdown): (String, String), request: &TextRequest) -> PageText {
    let words = count_words(&plain);
    let about = PageAbout {
        language: crate::about::detected_language(&plain).map(|value| Declared { value, source: AboutSource::Text }),
        words: Some(Declared { value: words, source: AboutSource::Text }),
        ..PageAbout::default()
    };
    PageText {
        title,
        plain: request.plain.then_some(plain),
        markdown: request.markdown.then_some(markdown),
        kept: (words > 0).then_some(1.0),
        about,
        limited: None,
    }
}

#[cfg(feature = "pdf")]
fn pdf_text(body: &[u8], request: &TextRequest, budget: &PageBudget) -> PageText {
    let found = crate::pdf::PdfText::of(body, budget);
    let mut markdown = found.markdown;
    if request.markdown && !found.links.is_empty() {
        markdown.push('\n');
        for link in &found.links {
            // A URL has no space and no `<` or `>`.
            markdown.push_str(&format!("- <{link}>\n"));
        }
    }
    let mut text = whole(found.title, (found.plain, markdown), request);
    text.about.pages = Some(Declared { value: found.pages, source: AboutSource::Document });
    text.limited = found.limited;
    text
}

/// A listing that holds the text as it is.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|next| next != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// The texts of XML, one line for each. Markup within a text, as in the entries of feeds, is left out.
fn xml_texts(xml: &str, budget: &PageBudget) -> String {
    let mut out = String::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        push_xml_text(&mut out, before, budget);
        let (end, inner) = if let Some(data) = tag.strip_prefix("<![CDATA[") {
            let length = data.find("]]>").unwrap_or(data.len());
            (9 + (length + 3).min(data.len()), data.get(..length))
        } else if tag.starts_with("<!--") {
            (tag.find("-->").map_or(tag.len(), |at| at + 3), None)
        } else {
            (tag.find('>').map_or(tag.len(), |at| at + 1), None)
        };
        push_html_text(&mut out, inner.unwrap_or_default(), budget);
        rest = tag.get(end..).unwrap_or_default();
        if !budget.visit() {
            return out;
        }
    }
    push_xml_text(&mut out, rest, budget);
    out
}

/// Appends a text between tags as a line. An entry of a feed has its HTML as such a text.
fn push_xml_text(out: &mut String, text: &str, budget: &PageBudget) {
    let text = decode_character_references(text.trim(), TextContext::Text);
    if text.contains('<') {
        push_html_text(out, &text, budget);
    } else if !text.trim().is_empty() {
        out.push_str(text.trim());
        out.push('\n');
    }
}

/// Appends the text of a piece of HTML as a line.
fn push_html_text(out: &mut String, html: &str, budget: &PageBudget) {
    if !budget.spend(html.len()) {
        return;
    }
    let text = if html.contains('<') {
        let before = budget.memory();
        let text = Document::parse_within(html, &ParseLimits::default(), budget).root().text_within(usize::MAX, budget);
        budget.release(budget.memory().saturating_sub(before) as usize);
        Cow::Owned(text)
    } else {
        decode_character_references(html, TextContext::Text)
    };
    let text = text.trim();
    if !text.is_empty() {
        out.push_str(text);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, body: &str) -> PageText {
        let request = TextRequest { plain: true, markdown: true, ..TextRequest::default() };
        read_body_text(content_type, (body.as_bytes(), Some("utf-8")), &request).expect("a text")
    }

    #[test]
    fn text_and_json_are_listings_and_markdown_stays_as_it_is() {
        let plain = read("text/plain", "a\r\n# ``` b\n");
        assert_eq!(plain.plain.as_deref(), Some("a\n# ``` b\n"));
        assert_eq!(plain.markdown.as_deref(), Some("````\na\n# ``` b\n````\n"));
        assert_eq!(plain.kept, Some(1.0));
        assert_eq!(read("application/ld+json", "{}").markdown.as_deref(), Some("```json\n{}\n```\n"));
        assert_eq!(read("text/markdown", "# a\n").markdown.as_deref(), Some("# a\n"));
        assert!(!has_body_text("image/png") && !has_body_text("image/svg+xml"));
    }

    #[test]
    fn a_feed_has_the_texts_of_its_entries() {
        let feed = "<?xml version='1.0'?><rss><channel><title>News</title><item><title>One &amp; two</title>\
            <description>&lt;p&gt;Webs &amp;amp; silk&lt;/p&gt;</description><content><![CDATA[<p>All <b>of</b> it</p>]]></content>\
            <!-- no --></item></channel></rss>";
        assert_eq!(
            read("application/rss+xml", feed).plain.as_deref(),
            Some("News\nOne & two\nWebs & silk\nAll of it\n")
        );
    }

    #[test]
    fn the_texts_of_xml_share_one_budget() {
        let cost = |body: &str| {
            let budget = PageBudget::unlimited();
            xml_texts(body, &budget);
            (budget.steps(), budget.peak_memory())
        };
        // One large text with markup, and many small ones.
        for entry in [format!("<a>{}</a>", "&lt;b&gt;x".repeat(50_000)), "<a>&lt;b&gt;x</a>".repeat(50_000)] {
            let (steps, memory) = cost(&entry);
            assert!(steps > entry.len() as u64 * 2, "markup is charged: {steps}");
            assert!(memory < entry.len() as u64 * 40, "{memory} bytes at once");
            let (twice, _) = cost(&entry.repeat(2));
            assert!(twice <= steps * 9 / 4, "{steps} {twice}");
        }
        let hostile = format!("<a>{}</a>", "&lt;b x=1&gt;".repeat(400_000));
        let cost = allocation_counter::measure(|| {
            read("application/xml", &hostile);
        });
        assert!(cost.bytes_max < 130 << 20, "{} bytes at once", cost.bytes_max);
    }
}
