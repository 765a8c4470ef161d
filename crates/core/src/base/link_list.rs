//! [`LinkList`]: the links that were found on one page.

use crate::base::link::LinkKind;
use crate::base::url::UrlRef;

/// The links of one page. All URLs are in one buffer, so that a link does not need an allocation of its own.
///
/// Invariant: every URL is normalized, and no pair of URL and kind occurs twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkList {
    /// All URLs, one after the other.
    text: String,
    items: Vec<Item>,
    /// The anchor texts and `rel` attributes of the links, if they are kept (`--with anchors`, or a link filter).
    anchors: Option<Box<LinkAnchors>>,
}

/// The anchor texts and `rel` attributes of links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LinkAnchors {
    /// All anchor texts, one after the other.
    text: String,
    /// Start and end of each anchor text, by the index of its link.
    ranges: Vec<(u32, u32)>,
    /// Index of a link, and its `rel` attribute. Sorted by index.
    rels: Vec<(u32, Box<str>)>,
}

impl LinkAnchors {
    fn heap_bytes(&self) -> usize {
        let rels: usize = self.rels.iter().map(|(_, rel)| rel.len()).sum();
        let lists =
            self.ranges.capacity() * size_of::<(u32, u32)>() + self.rels.capacity() * size_of::<(u32, Box<str>)>();
        size_of::<Self>() + self.text.capacity() + lists + rels
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    /// Start and end of its URL in the text.
    start: u32,
    end: u32,
    kind: LinkKind,
    nofollow: bool,
}

/// One link of a [`LinkList`].
#[derive(Clone, Copy)]
pub struct FoundLink<'a> {
    /// The URL that the link leads to.
    pub url: UrlRef<'a>,
    /// The element, header or file that contained the link.
    pub kind: LinkKind,
    /// Whether it is marked `rel=nofollow`.
    pub nofollow: bool,
    /// Its anchor text, if it is kept.
    pub anchor: Option<&'a str>,
    /// Its `rel` attribute, if it is kept.
    pub rel: Option<&'a str>,
}

impl LinkList {
    /// Adds a link. `text` must be a normalized URL. The caller checks for duplicates.
    pub fn push(&mut self, text: &str, kind: LinkKind, nofollow: bool) {
        let start = self.text.len();
        let end = start + text.len();
        if let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) {
            self.text.push_str(text);
            self.items.push(Item { start, end, kind, nofollow });
        }
    }

    /// Sets the anchor text of a link, unless it has one already.
    pub fn set_anchor(&mut self, index: usize, anchor: &str) {
        if index >= self.items.len() || self.anchor(index).is_some() {
            return;
        }
        let LinkAnchors { text, ranges, .. } = &mut **self.anchors.get_or_insert_default();
        if let (Ok(start), Ok(end)) = (u32::try_from(text.len()), u32::try_from(text.len() + anchor.len())) {
            text.push_str(anchor);
            if ranges.len() <= index {
                ranges.resize(index + 1, (0, 0));
            }
            if let Some(place) = ranges.get_mut(index) {
                *place = (start, end);
            }
        }
    }

    /// The anchor text of a link by its index, if it is kept and not empty.
    pub fn anchor(&self, index: usize) -> Option<&str> {
        let LinkAnchors { text, ranges, .. } = &**self.anchors.as_ref()?;
        let (start, end) = *ranges.get(index)?;
        text.get(start as usize..end as usize).filter(|text| !text.is_empty())
    }

    /// Sets the `rel` attribute of a link, unless it or a later one has one already.
    pub fn set_rel(&mut self, index: usize, rel: &str) {
        let rels = &mut self.anchors.get_or_insert_default().rels;
        if let Ok(index) = u32::try_from(index)
            && rels.last().is_none_or(|(last, _)| *last < index)
        {
            rels.push((index, rel.into()));
        }
    }

    /// The `rel` attribute of a link by its index, if it is kept.
    pub fn rel(&self, index: usize) -> Option<&str> {
        let rels = &self.anchors.as_ref()?.rels;
        let at = rels.binary_search_by_key(&u32::try_from(index).ok()?, |(index, _)| *index).ok()?;
        rels.get(at).map(|(_, rel)| &**rel)
    }

    /// Drops all anchor texts and `rel` attributes.
    pub fn drop_anchors(&mut self) {
        self.anchors = None;
    }

    /// Whether any link has an anchor text or a `rel` attribute.
    pub fn has_anchors(&self) -> bool {
        self.anchors.is_some()
    }

    /// URL and kind of a link by its index.
    pub fn get(&self, index: usize) -> Option<(&str, LinkKind)> {
        let item = self.items.get(index)?;
        Some((self.text.get(item.start as usize..item.end as usize)?, item.kind))
    }

    /// URL, kind, nofollow and anchor text of every link, in page order.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = (&str, LinkKind, bool, Option<&str>)> {
        self.items.iter().enumerate().map(|(index, item)| {
            let text = self.text.get(item.start as usize..item.end as usize).unwrap_or_default();
            (text, item.kind, item.nofollow, self.anchor(index))
        })
    }

    /// Marks a link as followable because it also occurs without nofollow.
    pub fn clear_nofollow(&mut self, index: usize) {
        if let Some(item) = self.items.get_mut(index) {
            item.nofollow = false;
        }
    }

    /// Drops the links beyond this many bytes of URLs. Returns how many were dropped.
    pub fn truncate(&mut self, max_bytes: usize) -> usize {
        let kept = self.items.partition_point(|item| item.end as usize <= max_bytes);
        let dropped = self.items.len() - kept;
        if dropped > 0 {
            self.items.truncate(kept);
            self.text.truncate(self.items.last().map_or(0, |item| item.end as usize));
            if let Some(anchors) = &mut self.anchors {
                anchors.ranges.truncate(kept);
                anchors.rels.truncate(anchors.rels.partition_point(|(index, _)| (*index as usize) < kept));
                let end = anchors.ranges.iter().map(|(_, end)| *end as usize).max().unwrap_or(0);
                anchors.text.truncate(end);
            }
        }
        dropped
    }

    /// An empty list with capacity for this many links and bytes.
    pub fn with_capacity(links: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), items: Vec::with_capacity(links), anchors: None }
    }

    /// Number of links.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Heap bytes of the list.
    pub fn heap_bytes(&self) -> usize {
        let anchors = self.anchors.as_ref().map_or(0, |anchors| anchors.heap_bytes());
        self.text.capacity() + self.items.capacity() * size_of::<Item>() + anchors
    }

    /// Releases unused capacity.
    pub fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.items.shrink_to_fit();
        if let Some(anchors) = &mut self.anchors {
            anchors.text.shrink_to_fit();
            anchors.ranges.shrink_to_fit();
            anchors.rels.shrink_to_fit();
        }
    }

    /// Total length of all URLs.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Whether there are no links.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The links, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = FoundLink<'_>> {
        let mut previous = None;
        self.items.iter().enumerate().filter_map(move |(index, item)| {
            let text = self.text.get(item.start as usize..item.end as usize)?;
            let url = match previous {
                Some(previous) => UrlRef::from_normal_after(text, previous)?,
                None => UrlRef::from_normal(text)?,
            };
            previous = Some(url);
            Some(FoundLink {
                url,
                kind: item.kind,
                nofollow: item.nofollow,
                anchor: self.anchor(index),
                rel: self.rel(index),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchor_texts_and_rels_are_counted_and_truncated_with_their_links() {
        let mut list = LinkList::default();
        for index in 0..100 {
            list.push(&format!("http://h/{index:04}"), LinkKind::Anchor, false);
            list.set_anchor(index, &"t".repeat(500));
            list.set_rel(index, &"r".repeat(300));
        }
        assert!(list.heap_bytes() > 100 * 800, "{}", list.heap_bytes());
        let url_bytes = "http://h/0000".len();
        assert_eq!(list.truncate(10 * url_bytes), 90);
        list.shrink();
        assert_eq!((list.len(), list.rel(9).map(str::len), list.rel(10)), (10, Some(300), None));
        assert!(list.heap_bytes() < 10 * 1_000, "{}", list.heap_bytes());
    }
}
