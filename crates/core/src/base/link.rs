//! [`Link`]: a URL and how it was found. [`LinkRef`]: the same with borrowed strings.

use std::sync::Arc;

use crate::base::custom_request::{CustomRequest, rank};
use crate::base::url::{Url, UrlRef};

/// A URL to fetch and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The URL to fetch.
    pub url: Url,
    /// The page it was found on; `None` for a root.
    pub via: Option<Url>,
    /// Number of links from a root. Redirects do not count.
    pub depth: u32,
    /// How many more redirects may be followed.
    pub redirects: u8,
    /// Attempts made so far, or [`ALREADY_SENT`].
    pub tries: u8,
    /// The element, header or file that contained the URL.
    pub kind: LinkKind,
    /// How its request differs from a plain GET; `None` if it does not.
    pub request: Option<Arc<CustomRequest>>,
}

/// The element, header or file that contained the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[non_exhaustive]
pub enum LinkKind {
    /// Given by the user.
    Root,
    /// `a` and `area`; in XML also `xlink:href` and the links of feeds.
    Anchor,
    /// `frame` and `iframe`.
    Frame,
    /// Meta refresh and the `Refresh` header.
    Refresh,
    /// `link` and the `Link` header with rel next or prev.
    Rel,
    /// The target of a redirect.
    Redirect,
    /// An entry of a sitemap.
    Sitemap,
    /// A sitemap file. Its record has the type `aux`.
    SitemapFile,
    /// A resource that a page needs for display: image, script, style, media. Recorded; followed with `--assets`.
    Asset,
    /// `link` with rel canonical.
    Canonical,
    /// `link` with rel alternate (hreflang, feeds).
    Alternate,
    /// A form with method GET. Recorded, not followed.
    Form,
    /// Any other `link` element. A robots.txt has this kind too.
    Other,
    /// Made by a script: only the rendered document has it.
    Script,
    /// A string of the data in a script. Recorded; followed with `--follow data`.
    Data,
}

impl LinkKind {
    /// Whether links of this kind are followed by default (docs/records.md).
    pub fn is_page(self) -> bool {
        matches!(
            self,
            Self::Root
                | Self::Anchor
                | Self::Frame
                | Self::Refresh
                | Self::Rel
                | Self::Redirect
                | Self::Sitemap
                | Self::Script
        )
    }

    /// All kinds, in order.
    pub const ALL: [Self; 15] = [
        Self::Root,
        Self::Anchor,
        Self::Frame,
        Self::Refresh,
        Self::Rel,
        Self::Redirect,
        Self::Sitemap,
        Self::SitemapFile,
        Self::Asset,
        Self::Canonical,
        Self::Alternate,
        Self::Form,
        Self::Other,
        Self::Script,
        Self::Data,
    ];

    /// The kind with this `as u8` value.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Anchor => "anchor",
            Self::Frame => "frame",
            Self::Refresh => "refresh",
            Self::Rel => "rel",
            Self::Redirect => "redirect",
            Self::Sitemap => "sitemap",
            Self::SitemapFile => "sitemap_file",
            Self::Asset => "asset",
            Self::Canonical => "canonical",
            Self::Alternate => "alternate",
            Self::Form => "form",
            Self::Other => "other",
            Self::Script => "script",
            Self::Data => "data",
        }
    }
}

impl Link {
    /// A root as given by the user.
    pub fn root(url: Url, redirects: u8) -> Self {
        Self { url, via: None, depth: 0, redirects, tries: 0, kind: LinkKind::Root, request: None }
    }

    /// Whether its request may be sent again although the server may have processed it.
    pub fn is_repeatable(&self) -> bool {
        self.request.as_ref().is_none_or(|request| request.is_repeatable())
    }

    /// The order in which the links of a lane are taken: the smallest first.
    pub fn rank(&self) -> i32 {
        rank(self.depth, self.request.as_ref().map_or(0, |request| request.priority))
    }

    /// A hash of what distinguishes its request from a plain GET for the same URL; zero if nothing does.
    pub fn request_identity(&self, key: u64) -> u64 {
        self.request.as_ref().map_or(0, |request| request.identity(key))
    }

    /// Its fingerprint, by which the frontier recognises it.
    pub fn fingerprint(&self, key: u64) -> u64 {
        link_fingerprint(self.url.as_ref(), self.kind, key) ^ self.request_identity(key)
    }
}

/// A [`Link`] that borrows its strings, because most links offered to a frontier are already known.
#[derive(Clone, Copy)]
pub struct LinkRef<'a> {
    /// See [`Link::url`].
    pub url: UrlRef<'a>,
    /// See [`Link::via`].
    pub via: Option<&'a Url>,
    /// See [`Link::depth`].
    pub depth: u32,
    /// See [`Link::redirects`].
    pub redirects: u8,
    /// See [`Link::tries`].
    pub tries: u8,
    /// See [`Link::kind`].
    pub kind: LinkKind,
    /// See [`Link::request`].
    pub request: Option<&'a Arc<CustomRequest>>,
    /// The fingerprint of the URL, if it was already computed.
    pub hash: Option<UrlHash>,
}

/// The fingerprint of a URL. It depends on the key of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlHash {
    /// The key of the hash.
    pub key: u64,
    /// The hash of the URL with this key.
    pub fingerprint: u64,
}

impl<'a> From<&'a Link> for LinkRef<'a> {
    fn from(link: &'a Link) -> Self {
        let Link { url, via, depth, redirects, tries, kind, request } = link;
        Self {
            url: url.as_ref(),
            via: via.as_ref(),
            depth: *depth,
            redirects: *redirects,
            tries: *tries,
            kind: *kind,
            request: request.as_ref(),
            hash: None,
        }
    }
}

impl LinkRef<'_> {
    /// A copy that owns its strings.
    pub fn to_link(&self) -> Link {
        Link {
            url: self.url.to_url(),
            via: self.via.cloned(),
            depth: self.depth,
            redirects: self.redirects,
            tries: self.tries,
            kind: self.kind,
            request: self.request.cloned(),
        }
    }

    /// The order in which the links of a lane are taken: the smallest first.
    pub fn rank(&self) -> i32 {
        rank(self.depth, self.request.map_or(0, |request| request.priority))
    }

    /// Its fingerprint, by which the frontier recognises it. `key` is the key of the hash.
    pub fn fingerprint(&self, key: u64) -> u64 {
        let url_fingerprint = match self.hash {
            Some(hash) if hash.key == key => hash.fingerprint,
            _ => self.url.fingerprint(key),
        };
        of_kind(url_fingerprint, self.kind) ^ self.request.map_or(0, |request| request.identity(key))
    }
}

/// The number of tries of a link whose request was sent by an earlier run that ended before the response.
pub const ALREADY_SENT: u8 = u8::MAX;

/// The fingerprint of a GET request without a body, by which the frontier recognises it. `key` is the key of the hash.
/// A sitemap file and a page at the same URL have different fingerprints.
pub fn link_fingerprint(url: UrlRef<'_>, kind: LinkKind, key: u64) -> u64 {
    of_kind(url.fingerprint(key), kind)
}

/// The fingerprint of a link of this kind, from that of its URL.
fn of_kind(url_fingerprint: u64, kind: LinkKind) -> u64 {
    /// A random number.
    const SITEMAP_FILE: u64 = 0x517E_3A9F_1E00_C0DE;
    if kind == LinkKind::SitemapFile { url_fingerprint ^ SITEMAP_FILE } else { url_fingerprint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sitemap_and_a_page_at_one_url_have_different_fingerprints() {
        let url = Url::parse("https://h.example/sitemap.xml").expect("a URL");
        let page = link_fingerprint(url.as_ref(), LinkKind::Anchor, 7);
        assert_eq!(page, link_fingerprint(url.as_ref(), LinkKind::Root, 7));
        assert_ne!(page, link_fingerprint(url.as_ref(), LinkKind::SitemapFile, 7));
        assert_ne!(page, link_fingerprint(url.as_ref(), LinkKind::Anchor, 8));
    }
}
