//! The bytes of a segment: a zstd file of JSON lines that any zstd tool reads.
//!
//! | part | |
//! |---|---|
//! | group | one frame for each bucket, epoch and sequence number: its records, one per line |
//! | links | after the group, in skippable frames: chunks of the link graph, each compressed |
//! | notes | after the links, in a skippable frame: the notes about hosts, as JSON, compressed |
//! | index | the last skippable frame: owner and groups with the places of their parts, as JSON; then the length of this JSON, 4 bytes |

use std::io::{self, Read as _, Write as _};

use argiope_core::LinkKind;
use serde::{Deserialize, Serialize};

/// The magic number of a skippable frame of zstd.
const SKIPPABLE: u32 = 0x184D_2A50;
/// Compression level of zstd.
const LEVEL: i32 = 3;
/// The largest content of a part. A segment is closed at 64 MiB, and a part has the records of one settle.
const MAX_PART: u64 = 512 << 20;
/// The largest window of a frame, as a power of two. It is allocated before the first byte is decompressed.
const MAX_WINDOW_LOG: u32 = 27;

/// The records that were settled together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentGroup {
    pub bucket: u32,
    pub epoch: u64,
    pub sequence: u64,
    /// Records, each with its line feed.
    pub lines: Vec<u8>,
    /// For each record, the origin of the link that it settles; `None` for a robots.txt.
    pub origins: Vec<Option<LinkOrigin>>,
    /// The links of the pages of these records, as chunks of the link graph.
    pub graph: Vec<Vec<u8>>,
    /// New notes about hosts.
    pub notes: Vec<(Box<str>, Vec<u8>)>,
}

/// Facts about a link that its record does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOrigin {
    pub kind: LinkKind,
    /// Redirects that may still be followed.
    pub redirects: u8,
    /// Whether the previous round has a record of the link.
    pub has_earlier_record: bool,
    /// The priority of the link.
    pub priority: i16,
}

impl LinkOrigin {
    /// Factor of `redirects` in the encoded number. Larger than the number of kinds.
    const KINDS: u16 = 16;
    /// Flag in the encoded number: `has_earlier_record`. Larger than the sum of the other parts.
    const HAS_EARLIER_RECORD: u16 = 0x2000;

    /// The encoded number: see [`IndexEntry`].
    fn to_number(origin: Option<Self>) -> u16 {
        origin.map_or(0, |Self { kind, redirects, has_earlier_record, .. }| {
            let flag = if has_earlier_record { Self::HAS_EARLIER_RECORD } else { 0 };
            flag + 1 + kind as u16 + Self::KINDS * u16::from(redirects)
        })
    }

    fn from_number(number: u16, priority: i16) -> Option<Self> {
        let has_earlier_record = number & Self::HAS_EARLIER_RECORD != 0;
        let number = (number & !Self::HAS_EARLIER_RECORD).checked_sub(1)?;
        let kind = LinkKind::from_number(u8::try_from(number % Self::KINDS).ok()?)?;
        Some(Self { kind, redirects: u8::try_from(number / Self::KINDS).ok()?, has_earlier_record, priority })
    }
}

/// Offset and length of a part, in bytes.
pub type Place = (u64, u64);

/// Where a group is in its segment.
#[derive(Serialize, Deserialize)]
pub struct IndexEntry {
    pub bucket: u32,
    pub epoch: u64,
    pub sequence: u64,
    /// Offset of the compressed records in the segment.
    offset: u64,
    length: u64,
    /// The places of the chunks of the link graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    graph: Vec<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notes: Option<Place>,
    /// For each record 0 if it settles no link, otherwise the sum of: 1, the kind of the link, 16 times its redirects,
    /// and 8,192 if the previous round has a record of the link.
    origins: Vec<u16>,
    /// The priority of the link of each record. Empty if all are 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    priorities: Vec<i16>,
}

/// The index at the end of a segment.
#[derive(Serialize, Deserialize)]
pub struct SegmentIndex {
    pub owner: String,
    pub groups: Vec<IndexEntry>,
}

impl SegmentIndex {
    /// Whether all parts follow each other, as they are written. Otherwise one frame, counted many times, could
    /// decompress to any size.
    pub fn is_in_order(&self) -> bool {
        let mut end = 0;
        self.groups.iter().flat_map(IndexEntry::places).all(|(offset, length)| {
            let is_after = offset >= end;
            end = offset.saturating_add(length.max(1));
            is_after
        })
    }
}

/// The bytes of a segment with these groups.
pub fn encode(owner: &str, groups: &[SegmentGroup]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut index = SegmentIndex { owner: owner.to_owned(), groups: Vec::new() };
    for SegmentGroup { bucket, epoch, sequence, lines, origins, graph, notes } in groups {
        let offset = bytes.len() as u64;
        let mut encoder = zstd::Encoder::new(&mut bytes, LEVEL)?;
        encoder.write_all(lines)?;
        encoder.finish()?;
        let length = bytes.len() as u64 - offset;
        let graph = graph.iter().map(|chunk| push_skippable(&mut bytes, chunk)).collect::<io::Result<_>>()?;
        let notes = match notes.as_slice() {
            [] => None,
            notes => {
                let notes: Vec<(&str, String)> =
                    notes.iter().map(|(host, note)| (&**host, String::from_utf8_lossy(note).into_owned())).collect();
                Some(push_skippable(&mut bytes, &serde_json::to_vec(&notes).map_err(io::Error::other)?)?)
            }
        };
        let (bucket, epoch, sequence) = (*bucket, *epoch, *sequence);
        let mut priorities: Vec<i16> =
            origins.iter().map(|origin| origin.map_or(0, |origin| origin.priority)).collect();
        if priorities.iter().all(|priority| *priority == 0) {
            priorities.clear();
        }
        let origins = origins.iter().map(|origin| LinkOrigin::to_number(*origin)).collect();
        index.groups.push(IndexEntry { bucket, epoch, sequence, offset, length, graph, notes, origins, priorities });
    }
    let text = serde_json::to_vec(&index).map_err(io::Error::other)?;
    bytes.extend(SKIPPABLE.to_le_bytes());
    // The length of the frame: the text, and the four bytes of its length after it.
    bytes.extend((text.len() as u32 + 4).to_le_bytes());
    bytes.extend(&text);
    bytes.extend((text.len() as u32).to_le_bytes());
    Ok(bytes)
}

/// Adds a skippable frame with this content, compressed. Returns the place of the compressed content.
fn push_skippable(bytes: &mut Vec<u8>, content: &[u8]) -> io::Result<Place> {
    let packed = zstd::encode_all(content, LEVEL)?;
    let length = u32::try_from(packed.len()).map_err(io::Error::other)?;
    bytes.extend(SKIPPABLE.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    let offset = bytes.len() as u64;
    bytes.extend(packed);
    Ok((offset, u64::from(length)))
}

/// Reads the index at the end of a segment.
pub fn index_of(segment: &[u8]) -> Option<SegmentIndex> {
    let (rest, length) = segment.split_last_chunk::<4>()?;
    let start = rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
    serde_json::from_slice(rest.get(start..)?).ok()
}

impl IndexEntry {
    /// Decompresses the records. `None` if the segment is damaged.
    pub fn lines(&self, segment: &[u8]) -> Option<Vec<u8>> {
        decompress(part(segment, self.place())?)
    }

    /// Where its records are in the segment.
    pub fn place(&self) -> Place {
        (self.offset, self.length)
    }

    /// The origin of the link of a record, if it has one. `line` is the index of the record in the group.
    pub fn origin(&self, line: usize) -> Option<LinkOrigin> {
        LinkOrigin::from_number(*self.origins.get(line)?, self.priorities.get(line).copied().unwrap_or(0))
    }

    /// The places of all its parts, in the order in which they are written.
    fn places(&self) -> impl Iterator<Item = Place> {
        std::iter::once(self.place()).chain(self.graph.iter().copied()).chain(self.notes)
    }

    /// Decompresses the chunks of the link graph, one at a time. `None` if the segment is damaged, or if the chunks
    /// before and this one are larger than any part that Argiope writes.
    pub fn graph(&self, segment: &[u8]) -> impl Iterator<Item = Option<Vec<u8>>> {
        self.graph_up_to(segment, MAX_PART)
    }

    fn graph_up_to(&self, segment: &[u8], mut limit: u64) -> impl Iterator<Item = Option<Vec<u8>>> {
        self.graph.iter().map(move |place| {
            let chunk = decompress_up_to(part(segment, *place)?, limit)?;
            limit -= chunk.len() as u64;
            Some(chunk)
        })
    }

    /// Decompresses the notes: host and note. `None` if the segment is damaged.
    pub fn notes(&self, segment: &[u8]) -> Option<Vec<(String, String)>> {
        let Some(place) = self.notes else { return Some(Vec::new()) };
        serde_json::from_slice(&decompress(part(segment, place)?)?).ok()
    }
}

/// The compressed part at a place of a segment.
fn part(segment: &[u8], (offset, length): Place) -> Option<&[u8]> {
    let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(length)?).ok()?);
    segment.get(start..end)
}

/// Decompresses one zstd frame. `None` if it is damaged, or larger than any part that Argiope writes.
pub fn decompress(frame: &[u8]) -> Option<Vec<u8>> {
    decompress_up_to(frame, MAX_PART)
}

fn decompress_up_to(frame: &[u8], limit: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut decoder = zstd::Decoder::new(frame).ok()?;
    decoder.window_log_max(MAX_WINDOW_LOG).ok()?;
    decoder.take(limit + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= limit).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_grows_beyond_the_limit_is_damaged() {
        let small = zstd::encode_all(&[b'x'; 1_000][..], LEVEL).expect("compressed");
        assert_eq!(decompress_up_to(&small, 1_000).map(|content| content.len()), Some(1_000));
        assert_eq!(decompress_up_to(&small, 999), None);
    }

    #[test]
    fn origins_are_read_as_they_were_written() {
        let origin =
            |priority| Some(LinkOrigin { kind: LinkKind::Anchor, redirects: 20, has_earlier_record: true, priority });
        for origins in [vec![None, origin(0)], vec![origin(-7), None, origin(i16::MAX)]] {
            let group = SegmentGroup { origins: origins.clone(), ..SegmentGroup::default() };
            let index = index_of(&encode("me", &[group]).expect("encoded")).expect("an index");
            let read: Vec<_> = (0..origins.len()).map(|line| index.groups[0].origin(line)).collect();
            assert_eq!(read, origins);
        }
    }

    #[test]
    fn parts_that_overlap_are_not_read() {
        let group = SegmentGroup { lines: b"{}\n".to_vec(), ..SegmentGroup::default() };
        let bytes = encode("me", &[group.clone(), group]).expect("encoded");
        let mut index = index_of(&bytes).expect("an index");
        assert!(index.is_in_order());
        let (first, second) = index.groups.split_at_mut(1);
        (second[0].offset, second[0].length) = (first[0].offset, first[0].length);
        assert!(!index.is_in_order());
    }

    #[test]
    fn chunks_of_the_link_graph_do_not_overlap_and_have_a_limit_together() {
        let chunks = vec![vec![b'x'; 600], vec![b'y'; 500]];
        let notes = vec![("h".into(), b"{}".to_vec())];
        let group = SegmentGroup { lines: b"{}\n".to_vec(), graph: chunks.clone(), notes, ..SegmentGroup::default() };
        let bytes = encode("me", &[group.clone(), group]).expect("encoded");
        let read = || index_of(&bytes).expect("an index");
        assert!(read().is_in_order());
        let read_up_to = |limit| read().groups[1].graph_up_to(&bytes, limit).collect::<Option<Vec<_>>>();
        assert_eq!((read_up_to(1_100), read_up_to(1_099)), (Some(chunks), None));
        let damages: [fn(&mut IndexEntry); 3] = [
            |group| group.graph[1] = group.graph[0],
            |group| group.graph = vec![group.place()],
            |group| group.notes = Some(group.graph[0]),
        ];
        for damage in damages {
            let mut index = read();
            damage(&mut index.groups[0]);
            assert!(!index.is_in_order());
        }
    }
}
