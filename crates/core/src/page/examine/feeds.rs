//! XML documents: XHTML, Atom, RSS, and anything with `xlink:href`.
//!
//! The tokenizer of HTML parses them too, because feeds are often not well-formed XML. Namespace prefixes are ignored.
//! The first `xml:base` counts, like `base` in HTML.

use super::links::{CapturedText, Collector, has_word, kind_of_rel};
use super::names::{self, key};
use super::tokenizer::{Tag, TextMode};
use crate::base::link::LinkKind;

/// Handles a start tag in XML.
pub fn start(collector: &mut Collector, tag: &Tag<'_>) -> TextMode {
    let name = tag.name.rsplit(|&byte| byte == b':').next().unwrap_or(tag.name);
    let has_prefix = name.len() < tag.name.len();
    let key = key(name);
    match key {
        names::RSS | names::FEED | names::RDF | names::CHANNEL => collector.is_feed = true,
        names::TITLE if !has_prefix && collector.title.is_none() && !tag.self_closing => {
            return collector.begin_capture(CapturedText::Title);
        }
        _ => {}
    }
    if collector.base.is_none() {
        let [base] = collector.values(tag, ["xml:base"]);
        collector.base = base.map(Box::from);
    }
    if collector.is_feed { start_in_feed(collector, key, tag) } else { start_in_document(collector, key, tag) }
}

fn start_in_feed(collector: &mut Collector, key: u64, tag: &Tag<'_>) -> TextMode {
    match key {
        names::LINK => {
            let [href, rel] = collector.values(tag, ["href", "rel"]);
            let Some(href) = href else {
                return if tag.self_closing { TextMode::Markup } else { collector.begin_capture(CapturedText::Link) };
            };
            collector.add(href, kind_of_feed_rel(rel));
        }
        names::GUID => {
            let [permanent] = collector.values(tag, ["isPermaLink"]);
            if !permanent.is_some_and(|value| value.eq_ignore_ascii_case(b"false")) && !tag.self_closing {
                return collector.begin_capture(CapturedText::Guid);
            }
        }
        _ => {
            // Enclosures and thumbnails have `url`. An Atom entry with external content has `src`.
            let [url, source, xlink] = collector.values(tag, ["url", "src", "xlink:href"]);
            collector.add_assets([url, source]);
            if let Some(xlink) = xlink {
                collector.add(xlink, LinkKind::Anchor);
            }
        }
    }
    TextMode::Markup
}

/// The kind of a link in a feed. A link without `rel` or with `alternate` is the page of an entry.
fn kind_of_feed_rel(rel: Option<&[u8]>) -> LinkKind {
    if rel.is_none_or(|rel| rel.trim_ascii().is_empty()) || has_word(rel, "alternate") {
        LinkKind::Anchor
    } else if has_word(rel, "enclosure") {
        LinkKind::Asset
    } else {
        kind_of_rel(rel)
    }
}

fn start_in_document(collector: &mut Collector, key: u64, tag: &Tag<'_>) -> TextMode {
    match key {
        names::IMAGE | names::USE | names::FEIMAGE => collector.handle_foreign(key, tag),
        _ => collector.handle_html(key, tag),
    }
    // `xlink:href` is a link, except in the elements that use it for a resource.
    let [xlink] = collector.values(tag, ["xlink:href"]);
    if let Some(xlink) = xlink
        && !matches!(key, names::IMAGE | names::USE | names::FEIMAGE | names::SCRIPT)
    {
        collector.add(xlink, LinkKind::Anchor);
    }
    let is_style = key == names::STYLE && !tag.self_closing && collector.limits.assets;
    if is_style { collector.begin_style() } else { TextMode::Markup }
}
