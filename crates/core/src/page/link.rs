//! [`Link`]: an address and how we came to it.

use crate::page::url::{Url, UrlRef};

/// An address to fetch, and how we came to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub url: Url,
    /// The page that it was found on; none for a root.
    pub via: Option<Url>,
    /// Links from the root to here. A redirect costs none.
    pub depth: u32,
    /// How many redirects may still follow.
    pub redirects: u8,
    /// How many attempts were made already.
    pub tries: u8,
    pub kind: LinkKind,
}

/// What in a page, a header or a file led to the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum LinkKind {
    /// Given by the user.
    Root,
    /// `a` and `area`.
    Anchor,
    /// `frame` and `iframe`.
    Frame,
    /// Meta refresh and the `Refresh` header.
    Refresh,
    /// `link` and the `Link` header with rel next or prev.
    Rel,
    /// A redirect's target.
    Redirect,
    /// An entry of a sitemap.
    Sitemap,
    /// A sitemap itself: fetched to be read, recorded as `aux`.
    SitemapFile,
    /// What a page needs to be shown: images, scripts, styles, media. Recorded; followed with `--assets`.
    Asset,
    /// `link` with rel canonical.
    Canonical,
    /// `link` with rel alternate (hreflang, feeds).
    Alternate,
    /// A form with method GET. Never followed by default.
    Form,
    /// Any other `link` or attribute that holds an address.
    Other,
}

impl LinkKind {
    /// Whether links of this kind lead to pages, as CONTRACT's "followed by default" says.
    pub fn is_page(self) -> bool {
        matches!(
            self,
            Self::Root | Self::Anchor | Self::Frame | Self::Refresh | Self::Rel | Self::Redirect | Self::Sitemap
        )
    }

    /// All of them, in order.
    pub const ALL: [Self; 13] = [
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
    ];

    /// The kind whose `as u8` this is.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

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
        }
    }
}

impl Link {
    /// A root as the user gave it.
    pub fn root(url: Url, redirects: u8) -> Self {
        Self { url, via: None, depth: 0, redirects, tries: 0, kind: LinkKind::Root }
    }
}

/// The links of one page: texts in one arena, so that a link that turns out to be known costs no allocation.
///
/// Invariant: every text is an address in normal form; no (text, kind) is held twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkList {
    text: String,
    items: Vec<Item>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    start: u32,
    end: u32,
    kind: LinkKind,
    nofollow: bool,
}

/// One link of a [`LinkList`].
#[derive(Clone, Copy)]
pub struct FoundLink<'a> {
    pub url: UrlRef<'a>,
    pub kind: LinkKind,
    /// `rel=nofollow` on this link.
    pub nofollow: bool,
}

impl LinkList {
    /// Adds a link whose text is in normal form. Whether it is a duplicate is the caller's to know.
    pub fn push(&mut self, text: &str, kind: LinkKind, nofollow: bool) {
        let start = self.text.len();
        let end = start + text.len();
        if let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) {
            self.text.push_str(text);
            self.items.push(Item { start, end, kind, nofollow });
        }
    }

    /// Text and kind of the link with this number.
    pub fn get(&self, number: usize) -> Option<(&str, LinkKind)> {
        let item = self.items.get(number)?;
        Some((self.text.get(item.start as usize..item.end as usize)?, item.kind))
    }

    /// The link stands in another place too, where it may be followed.
    pub fn allow(&mut self, number: usize) {
        if let Some(item) = self.items.get_mut(number) {
            item.nofollow = false;
        }
    }

    /// An empty list with room for so many links, of so many bytes together.
    pub fn with_room(links: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), items: Vec::with_capacity(links) }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// How long all texts are together.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = FoundLink<'_>> {
        let mut before = None;
        self.items.iter().filter_map(move |item| {
            let text = self.text.get(item.start as usize..item.end as usize)?;
            let url = match before {
                Some(before) => UrlRef::from_normal_after(text, before)?,
                None => UrlRef::from_normal(text)?,
            };
            before = Some(url);
            Some(FoundLink { url, kind: item.kind, nofollow: item.nofollow })
        })
    }
}
