//! [`AnchorTexts`]: the texts of links as received, if they are requested.

use std::ops::Range;

/// Limit on the bytes that are kept of the text of one link.
const MAX_TEXT: usize = 512;
/// Limit on the bytes of all texts of a page. Later links have no text.
const MAX_TEXTS: usize = 1 << 20;

/// The texts of the links of a page. A link that occurs several times has the first of its texts that is not empty.
#[derive(Default)]
pub struct AnchorTexts {
    bytes: Vec<u8>,
    /// The range of each text in `bytes`, by the index of its link.
    ranges: Vec<Range<u32>>,
    /// Index of a link, and its `rel` attribute. Sorted, each link once.
    rels: Vec<(u32, Box<[u8]>)>,
    /// The link whose text is being read, and where its text starts.
    open: Option<(u32, u32)>,
}

impl AnchorTexts {
    /// Starts to read the text of a link, unless it has one already.
    pub fn begin(&mut self, link: u32) {
        self.end();
        if self.raw(link as usize).is_none()
            && let Ok(start) = u32::try_from(self.bytes.len())
            && self.bytes.len() < MAX_TEXTS
        {
            self.open = Some((link, start));
        }
    }

    /// Stores the `rel` attribute of a link. Links must come in order: the call is ignored if this link or a later one
    /// already has a `rel` attribute. The number of stored attributes is limited, so that their bytes do not exceed
    /// `MAX_TEXTS`.
    pub fn set_rel(&mut self, link: u32, rel: &[u8]) {
        let is_new = self.rels.last().is_none_or(|(last, _)| *last < link);
        if is_new && self.rels.len() * MAX_TEXT < MAX_TEXTS {
            self.rels.push((link, rel.get(..MAX_TEXT).unwrap_or(rel).into()));
        }
    }

    /// The `rel` attribute of a link by its index, as received.
    pub fn rel(&self, link: usize) -> Option<&[u8]> {
        let at = self.rels.binary_search_by_key(&u32::try_from(link).ok()?, |(link, _)| *link).ok()?;
        self.rels.get(at).map(|(_, rel)| &**rel)
    }

    /// Whether the text of a link is being read.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Adds text to the link that is being read.
    pub fn push(&mut self, text: &[u8]) {
        let Some((_, start)) = self.open else { return };
        let room = (start as usize + MAX_TEXT).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(text.get(..room).unwrap_or(text));
    }

    /// Stores the text of the link that is being read, if it is not empty.
    pub fn end(&mut self) {
        let Some((link, start)) = self.open.take() else { return };
        let Ok(end) = u32::try_from(self.bytes.len()) else { return };
        if self.bytes.get(start as usize..).is_none_or(|text| text.iter().all(u8::is_ascii_whitespace)) {
            return self.bytes.truncate(start as usize);
        }
        let link = link as usize;
        if self.ranges.len() <= link {
            self.ranges.resize(link + 1, 0..0);
        }
        if let Some(range) = self.ranges.get_mut(link) {
            *range = start..end;
        }
    }

    /// The text of a link by its index, as received; `None` if it has none.
    pub fn raw(&self, link: usize) -> Option<&[u8]> {
        let range = self.ranges.get(link).filter(|range| !range.is_empty())?;
        self.bytes.get(range.start as usize..range.end as usize)
    }

    /// Heap bytes.
    pub fn weight(&self) -> usize {
        let rels: usize = self.rels.iter().map(|(_, rel)| rel.len() + size_of::<(u32, Box<[u8]>)>()).sum();
        self.bytes.capacity() + self.ranges.capacity() * size_of::<Range<u32>>() + rels
    }
}
