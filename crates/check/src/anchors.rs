//! The anchors of a document, and the fragments that refer to them.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use xxhash_rust::xxh3::xxh3_64;

use crate::text_fragment::DIRECTIVE;

/// Collects the ids and names of a document's elements.
pub(crate) trait AnchorCollector {
    /// Adds an id or a name.
    fn add(&mut self, id: &str);
}

/// Keeps the text of the anchors, for tests and suggestions.
impl AnchorCollector for Vec<String> {
    fn add(&mut self, id: &str) {
        self.push(id.to_owned());
    }
}

/// Drops the anchors, for documents whose anchors are already known.
impl AnchorCollector for () {
    fn add(&mut self, _id: &str) {}
}

/// The anchors of a document as sorted 64-bit hashes, which take 8 bytes per anchor.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnchorSet(Box<[u64]>);

/// Collects the hashes for an [`AnchorSet`].
#[derive(Debug, Default)]
pub(crate) struct AnchorHashes(Vec<u64>);

impl AnchorCollector for AnchorHashes {
    fn add(&mut self, id: &str) {
        self.0.push(xxh3_64(id.as_bytes()));
    }
}

impl AnchorHashes {
    /// Returns the collected set and empties the collector for reuse.
    pub fn take(&mut self) -> AnchorSet {
        self.0.sort_unstable();
        self.0.dedup();
        let set = AnchorSet(self.0.as_slice().into());
        self.0.clear();
        set
    }
}

/// What the fragment of a reference points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fragment<'a> {
    /// The page as a whole: no fragment, an empty one, or only a text directive (`:~:text=...`).
    Page,
    /// An element.
    Element(FragmentId<'a>),
}

/// A fragment that names an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FragmentId<'a> {
    /// Percent-encoded, as in the URL.
    encoded: Cow<'a, str>,
    /// Percent-decoded, if that differs.
    decoded: Option<String>,
}

/// The hashes of a [`FragmentId`], which a link stores until its target has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FragmentHash {
    encoded: u64,
    /// Equal to `encoded` if the decoded form does not differ.
    decoded: u64,
}

/// Characters that the URL standard percent-encodes in a fragment.
const FRAGMENT_ENCODE_SET: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`');

impl<'a> Fragment<'a> {
    /// Parses a fragment without its `#`. The part after `:~:` is a directive for the browser: see
    /// [`text_fragment`](crate::text_fragment).
    pub fn parse(written: &'a str) -> Self {
        let written = written.split_once(DIRECTIVE).map_or(written, |(fragment, _)| fragment);
        if written.is_empty() {
            return Self::Page;
        }
        let is_same_in_both_forms =
            |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'"' | b'<' | b'>' | b'`');
        if written.bytes().all(is_same_in_both_forms) {
            return Self::Element(FragmentId { encoded: Cow::Borrowed(written), decoded: None });
        }
        let encoded: Cow<'_, str> = utf8_percent_encode(written, FRAGMENT_ENCODE_SET).into();
        let decoded = percent_decode_str(&encoded).decode_utf8_lossy().into_owned();
        Self::Element(FragmentId { encoded, decoded: Some(decoded) })
    }
}

impl FragmentId<'_> {
    /// The decoded fragment, for messages.
    pub fn text(&self) -> &str {
        self.decoded.as_deref().unwrap_or(&self.encoded)
    }

    /// Whether the fragment is `top`, which every page has.
    pub fn is_top(&self) -> bool {
        self.text().eq_ignore_ascii_case("top")
    }

    /// Whether a script of the page probably interprets the fragment, as with `#/route` and `#!route`.
    pub fn is_route(&self) -> bool {
        self.text().starts_with(['/', '!'])
    }

    /// The hashes of both forms.
    pub fn hash(&self) -> FragmentHash {
        let encoded = xxh3_64(self.encoded.as_bytes());
        FragmentHash { encoded, decoded: self.decoded.as_ref().map_or(encoded, |text| xxh3_64(text.as_bytes())) }
    }
}

impl AnchorSet {
    /// Whether the document has the element. As in a browser, the fragment is compared as it is, then percent-decoded, both
    /// with case.
    pub fn has(&self, fragment: FragmentHash) -> bool {
        let contains = |hash: u64| self.0.binary_search(&hash).is_ok();
        contains(fragment.encoded) || (fragment.decoded != fragment.encoded && contains(fragment.decoded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_matches_an_anchor_as_it_is_or_decoded() {
        let mut hashes = AnchorHashes::default();
        for id in ["a", "Straße", "100%25", "with space", "x:y"] {
            hashes.add(id);
        }
        let set = hashes.take();
        let has = |written: &str| match Fragment::parse(written) {
            Fragment::Page => true,
            Fragment::Element(id) => id.is_top() || set.has(id.hash()),
        };
        for (fragment, expected) in [
            ("", true),
            ("a", true),
            ("A", false),
            ("b", false),
            ("top", true),
            ("TOP", true),
            ("Stra%C3%9Fe", true),
            ("Straße", true),
            ("stra%c3%9fe", false),
            ("100%25", true),
            ("with%20space", true),
            ("with space", true),
            ("x:y", true),
            ("a:~:text=foo", true),
            (":~:text=foo", true),
            ("b:~:text=foo", false),
        ] {
            assert_eq!(has(fragment), expected, "{fragment}");
        }
    }
}
