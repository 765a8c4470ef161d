//! [`RawLinks`]: links as received, before they are resolved.
//!
//! They are kept as bytes until the page ends, for two reasons. Their meaning depends on charset and `base`, which may
//! be known late. And most pages repeat links: duplicates are found by comparing bytes, before any parsing.
//!
//! Invariant: no pair of bytes and kind is stored twice. Links that clearly have a scheme other than http and https
//! are not stored.

use hashbrown::{DefaultHashBuilder, HashTable};
use memchr::memchr;
use std::hash::BuildHasher;
use std::ops::Range;

use crate::base::link::LinkKind;

/// A link as received.
#[derive(Clone)]
pub struct RawLink {
    /// The range of its URL in [`RawLinks::text`].
    pub bytes: Range<usize>,
    pub kind: LinkKind,
    pub nofollow: bool,
}

/// The links of a page, as received.
#[derive(Default)]
pub struct RawLinks {
    /// The URLs of all links as received, concatenated.
    text: Vec<u8>,
    items: Vec<RawLink>,
    /// Positions in `items` by hash, to find duplicates.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Number of links with a scheme that is not crawled.
    pub other_schemes: u32,
    /// Number of links that are too long.
    pub too_long: u32,
    /// Number of links beyond the limit on their number. Repeated links count each time.
    pub over_limit: u32,
    /// The index of the link that was passed to `add` last; `None` if it was not stored.
    pub latest: Option<u32>,
}

impl RawLinks {
    /// Adds a link. Returns the range of its bytes if it is stored, now or before. `max_links` limits the number of
    /// links, `max_url` the bytes of a URL.
    pub fn add(
        &mut self,
        href: &[u8],
        kind: LinkKind,
        nofollow: bool,
        max_links: usize,
        max_url: usize,
    ) -> Option<Range<usize>> {
        self.latest = None;
        // A refresh is stored with its delay and parsed at the end of the page.
        let href = if kind == LinkKind::Refresh { href } else { without_fragment(trim(href)) };
        if kind != LinkKind::Refresh && has_other_scheme(href) {
            self.other_schemes = self.other_schemes.saturating_add(1);
            return None;
        }
        // A resolved URL may be shorter than its text, because of character references and dot segments. On real
        // pages, a factor of four is enough for that.
        if href.len() > max_url.saturating_mul(4) {
            self.too_long = self.too_long.saturating_add(1);
            return None;
        }
        let hash = self.hasher.hash_one((href, kind));
        let (text, items) = (&self.text, &self.items);
        let is_same = |&index: &u32| {
            items
                .get(index as usize)
                .is_some_and(|item| item.kind == kind && text.get(item.bytes.clone()) == Some(href))
        };
        if let Some(&known) = self.index.find(hash, is_same) {
            self.latest = Some(known);
            let item = self.items.get_mut(known as usize)?;
            // A link is followed if it occurs once without nofollow.
            item.nofollow &= nofollow;
            return Some(item.bytes.clone());
        }
        if self.items.len() >= max_links {
            self.over_limit = self.over_limit.saturating_add(1);
            return None;
        }
        if self.items.is_empty() {
            // A typical page has about this many links. Reserving the memory avoids repeated growth. A hash table with
            // 64 buckets holds 56 entries. Its hash function is not called, because there is nothing to move.
            self.text.reserve(2048);
            self.items.reserve(56);
            self.index.reserve(56, |_| 0);
        }
        let new_index = u32::try_from(self.items.len()).ok()?;
        self.latest = Some(new_index);
        let bytes = self.text.len()..self.text.len() + href.len();
        self.text.extend_from_slice(href);
        self.items.push(RawLink { bytes: bytes.clone(), kind, nofollow });
        let (text, items, hasher) = (&self.text, &self.items, &self.hasher);
        self.index.insert_unique(hash, new_index, |&index| {
            let Some(item) = items.get(index as usize) else { return 0 };
            hasher.hash_one((text.get(item.bytes.clone()).unwrap_or(&[]), item.kind))
        });
        Some(bytes)
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.text.get(range).unwrap_or(&[])
    }

    /// Heap bytes.
    pub fn weight(&self) -> usize {
        let control_byte = 1;
        let index = self.index.capacity() * (size_of::<u32>() + control_byte);
        self.text.capacity() + self.items.capacity() * size_of::<RawLink>() + index
    }

    /// Total bytes of all links as received.
    pub fn received_bytes(&self) -> usize {
        self.text.len()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &RawLink)> {
        self.items.iter().map(|item| (self.bytes(item.bytes.clone()), item))
    }
}

/// Strips the bytes that the URL standard strips at both ends.
fn trim(href: &[u8]) -> &[u8] {
    let start = href.iter().position(|&byte| byte > b' ').unwrap_or(href.len());
    let end = href.iter().rposition(|&byte| byte > b' ').map_or(start, |last| last + 1);
    href.get(start..end).unwrap_or(&[])
}

/// Removes the fragment, which begins at the first `#`. Nothing is removed if the `#` belongs to a character reference
/// such as `&#38;`. After a space, the `#` is kept: otherwise the space, which is part of the URL, would be stripped
/// later.
fn without_fragment(href: &[u8]) -> &[u8] {
    match memchr(b'#', href) {
        Some(hash) if hash > 0 && href.get(hash - 1).is_some_and(|&byte| byte <= b' ') => {
            href.get(..=hash).unwrap_or(href)
        }
        Some(hash) if hash == 0 || href.get(hash - 1) != Some(&b'&') => href.get(..hash).unwrap_or(href),
        _ => href,
    }
}

/// Whether the link clearly has a scheme other than http and https.
fn has_other_scheme(href: &[u8]) -> bool {
    if !href.first().is_some_and(u8::is_ascii_alphabetic) {
        return false;
    }
    let end = href.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"+-.".contains(byte));
    match end.map(|end| href.split_at(end)) {
        Some((scheme, [b':', ..])) => !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_links_are_stored_once() {
        let mut links = RawLinks::default();
        let mut add = |href: &str, kind, nofollow| links.add(href.as_bytes(), kind, nofollow, 3, 10).is_some();
        assert!(add(" /a#x ", LinkKind::Anchor, true));
        assert!(add("/a#y", LinkKind::Anchor, false));
        assert!(add("/a", LinkKind::Asset, false));
        assert!(add("/a&#38;b", LinkKind::Anchor, false));
        assert!(!add("/b", LinkKind::Anchor, false), "the limit is three");
        assert!(!add("mailto:x", LinkKind::Anchor, false));
        assert!(!add("JavaScript:x#", LinkKind::Anchor, false));
        assert!(!add(&"x".repeat(41), LinkKind::Anchor, false));
        assert!(links.over_limit > 0);
        assert_eq!((links.other_schemes, links.too_long), (2, 1));
        let stored: Vec<_> = links.iter().map(|(bytes, item)| (bytes, item.kind, item.nofollow)).collect();
        assert_eq!(
            stored,
            [
                (b"/a".as_slice(), LinkKind::Anchor, false),
                (b"/a", LinkKind::Asset, false),
                (b"/a&#38;b", LinkKind::Anchor, false),
            ]
        );
    }

    #[test]
    fn fragments_are_removed() {
        for (href, kept) in [("/a#b", "/a"), ("#", ""), ("/a #b", "/a #"), ("/a&#38;b", "/a&#38;b"), ("/a", "/a")] {
            assert_eq!(without_fragment(href.as_bytes()), kept.as_bytes(), "{href}");
        }
    }

    #[test]
    fn other_schemes_are_recognised() {
        for (href, has_other) in [
            ("mailto:x", true),
            ("tel:1", true),
            ("data:,", true),
            ("HTTP:x", false),
            ("https://h", false),
            ("a/b:c", false),
            ("a?b:c", false),
            (":x", false),
            ("1:x", false),
            ("é:x", false),
            ("", false),
            ("view-source:x", true),
        ] {
            assert_eq!(has_other_scheme(href.as_bytes()), has_other, "{href}");
        }
    }
}
