//! Writes the attributes of a tag: URLs replaced, values decoded and encoded again, dangerous ones left out.

use std::collections::HashSet;

use argiope_core::page::examine::tokenizer::Tag;
use argiope_core::page::examine::{TextContext, decode_character_references};

use super::places::{self, AttributeUse};
use super::{PageRewriter, ReferenceUse, Replacement, rewrite_css};

/// The maximum number of attributes of a tag that are copied.
const MAX_ATTRIBUTES: usize = 1024;

/// The decoded value of the first attribute with this name, in lower case.
pub fn attribute(tag: &Tag<'_>, name: &str) -> Option<String> {
    let found = tag.attributes().take(MAX_ATTRIBUTES).find(|(key, _)| key.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|(_, value)| decoded(value))
}

/// A value with its character references resolved.
fn decoded(value: &[u8]) -> String {
    decode_character_references(&String::from_utf8_lossy(value), TextContext::Attribute).into_owned()
}

/// Without the prefix of an XML namespace.
pub fn local_name(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or("")
}

/// The name of a tag as text; `None` for one that no known element has.
pub fn tag_name(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:.".contains(byte);
    let name = std::str::from_utf8(name).ok().filter(|name| name.bytes().all(|byte| is_plain(&byte)))?;
    (name.starts_with(|first: char| first.is_ascii_alphabetic())).then_some(name)
}

/// Each attribute of a tag that may be copied: its name as written, its name in lower case without prefix, its value.
/// The first of several with the same name counts.
pub fn copied_attributes(tag: &Tag<'_>) -> Vec<(String, String, String)> {
    let mut seen = HashSet::new();
    let mut copied = Vec::new();
    for (key, value) in tag.attributes().take(MAX_ATTRIBUTES) {
        let Some(name) = tag_name(key) else { continue };
        let lower = name.to_ascii_lowercase();
        if seen.insert(lower.clone()) {
            copied.push((name.to_owned(), local_name(&lower).to_owned(), decoded(value)));
        }
    }
    copied
}

/// The value that an attribute of an element gets in the copy; `None` if it is left out. `link` is the use of the `href`
/// of a `link` element.
pub fn new_value(
    element: &str,
    attribute: &str,
    value: &str,
    link: Option<ReferenceUse>,
    rewriter: &mut dyn PageRewriter,
) -> Option<String> {
    let use_as = match (link, attribute) {
        (Some(use_as), "href") => AttributeUse::Url(use_as),
        _ => places::use_of(element, attribute),
    };
    match use_as {
        AttributeUse::Dropped | AttributeUse::Page => None,
        AttributeUse::Url(_) if value.trim().is_empty() => Some(value.to_owned()),
        AttributeUse::Url(use_as) => match rewriter.replace(value.trim(), use_as) {
            Replacement::Keep => Some(value.trim().to_owned()),
            Replacement::With(new) => Some(new),
            Replacement::Remove => None,
        },
        AttributeUse::Srcset(use_as) => Some(rewrite_srcset(value, use_as, rewriter)),
        AttributeUse::Style => Some(rewrite_css(value, |url, use_as| rewriter.replace(url, use_as))),
        // The presentation attributes of SVG hold values of CSS, such as `fill="url(#a)"`.
        AttributeUse::Plain if value.contains('(') && !is_text(attribute) => {
            Some(rewrite_css(value, |url, use_as| rewriter.replace(url, use_as)))
        }
        AttributeUse::Plain => Some(value.to_owned()),
    }
}

/// Whether the value of an attribute is text for people or for scripts.
fn is_text(attribute: &str) -> bool {
    matches!(attribute, "alt" | "title" | "content" | "value" | "placeholder" | "label" | "d" | "transform")
        || attribute.starts_with("data-")
        || attribute.starts_with("aria-")
}

/// Replaces the URLs of a `srcset`: entries separated by commas, each with a URL and a descriptor such as `2x`.
fn rewrite_srcset(written: &str, use_as: ReferenceUse, rewriter: &mut dyn PageRewriter) -> String {
    let mut new = String::with_capacity(written.len());
    let mut rest = written;
    loop {
        rest = rest.trim_start_matches(|next: char| next.is_ascii_whitespace() || next == ',');
        if rest.is_empty() {
            return new;
        }
        let end = rest.find(|next: char| next.is_ascii_whitespace()).unwrap_or(rest.len());
        let (mut url, mut after) = rest.split_at(end);
        let mut descriptor = "";
        if url.ends_with(',') {
            url = url.trim_end_matches(',');
        } else {
            let end = after.find(',').unwrap_or(after.len());
            descriptor = after.get(..end).unwrap_or("").trim();
            after = after.get(end..).unwrap_or("");
        }
        let replaced = match rewriter.replace(url, use_as) {
            Replacement::Keep => Some(url.to_owned()),
            Replacement::With(url) => Some(url),
            Replacement::Remove => None,
        };
        if let Some(url) = replaced {
            let comma = if new.is_empty() { "" } else { ", " };
            let space = if descriptor.is_empty() { "" } else { " " };
            new.extend([comma, &url, space, descriptor]);
        }
        rest = after;
    }
}

/// Appends ` name="value"`.
pub fn push_attribute(out: &mut String, name: &str, value: &str) {
    out.extend([" ", name, "=\""]);
    push_escaped(out, value);
    out.push('"');
}

/// Appends text with the characters escaped that mean something in HTML or XML. Characters that XML does not allow are
/// left out.
pub fn push_escaped(out: &mut String, text: &str) {
    for next in text.chars() {
        match next {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(next),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {}
            _ => out.push(next),
        }
    }
}
