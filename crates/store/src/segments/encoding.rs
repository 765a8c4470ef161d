//! The bytes of a segment: a zstd file of JSON lines that any zstd tool reads.
//!
//! | part | |
//! |---|---|
//! | group | one frame for each bucket, epoch and sequence number: its records, one a line |
//! | links | after it, in skippable frames: chunks of the link graph, compressed each |
//! | notes | in a skippable frame: what was noted about hosts, as JSON, compressed |
//! | index | the last skippable frame: owner and groups with the places of their parts, as JSON; then its length, 4 bytes |

use std::io::{self, Read as _, Write as _};

use serde::{Deserialize, Serialize};

/// A skippable frame of zstd.
const SKIPPABLE: u32 = 0x184D_2A50;
const LEVEL: i32 = 3;

/// The records that one settle brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentGroup {
    pub bucket: u32,
    pub epoch: u64,
    pub sequence: u64,
    /// Records, each with its line feed.
    pub lines: Vec<u8>,
    /// The links of their pages, as chunks of the link graph.
    pub graph: Vec<Vec<u8>>,
    /// What is known about hosts since then.
    pub notes: Vec<(Box<str>, Vec<u8>)>,
}

/// Offset and length of a part.
type Place = (u64, u64);

/// Where a group is in its segment.
#[derive(Serialize, Deserialize)]
pub struct IndexEntry {
    pub bucket: u32,
    pub epoch: u64,
    pub sequence: u64,
    offset: u64,
    length: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    graph: Vec<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notes: Option<Place>,
}

#[derive(Serialize, Deserialize)]
pub struct SegmentIndex {
    pub owner: String,
    pub groups: Vec<IndexEntry>,
}

pub fn encode(owner: &str, groups: &[SegmentGroup]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut index = SegmentIndex { owner: owner.to_owned(), groups: Vec::new() };
    for SegmentGroup { bucket, epoch, sequence, lines, graph, notes } in groups {
        let offset = bytes.len() as u64;
        let mut encoder = zstd::Encoder::new(&mut bytes, LEVEL)?;
        encoder.write_all(lines)?;
        encoder.finish()?;
        let length = bytes.len() as u64 - offset;
        let graph = graph.iter().map(|chunk| skip(&mut bytes, chunk)).collect::<io::Result<_>>()?;
        let notes = match notes.as_slice() {
            [] => None,
            notes => {
                let notes: Vec<(&str, String)> =
                    notes.iter().map(|(host, note)| (&**host, String::from_utf8_lossy(note).into_owned())).collect();
                Some(skip(&mut bytes, &serde_json::to_vec(&notes).map_err(io::Error::other)?)?)
            }
        };
        let (bucket, epoch, sequence) = (*bucket, *epoch, *sequence);
        index.groups.push(IndexEntry { bucket, epoch, sequence, offset, length, graph, notes });
    }
    let text = serde_json::to_vec(&index).map_err(io::Error::other)?;
    bytes.extend(SKIPPABLE.to_le_bytes());
    bytes.extend((text.len() as u32 + 4).to_le_bytes());
    bytes.extend(&text);
    bytes.extend((text.len() as u32).to_le_bytes());
    Ok(bytes)
}

/// Adds a skippable frame with this content, compressed.
fn skip(bytes: &mut Vec<u8>, content: &[u8]) -> io::Result<Place> {
    let packed = zstd::encode_all(content, LEVEL)?;
    let length = u32::try_from(packed.len()).map_err(io::Error::other)?;
    bytes.extend(SKIPPABLE.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    let offset = bytes.len() as u64;
    bytes.extend(packed);
    Ok((offset, u64::from(length)))
}

pub fn index_of(segment: &[u8]) -> Option<SegmentIndex> {
    let (rest, length) = segment.split_last_chunk::<4>()?;
    let start = rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
    serde_json::from_slice(rest.get(start..)?).ok()
}

impl IndexEntry {
    pub fn lines(&self, segment: &[u8]) -> Option<Vec<u8>> {
        unpack(segment, (self.offset, self.length))
    }

    pub fn graph(&self, segment: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.graph.iter().map(|place| unpack(segment, *place)).collect()
    }

    pub fn notes(&self, segment: &[u8]) -> Option<Vec<(String, String)>> {
        let Some(place) = self.notes else { return Some(Vec::new()) };
        serde_json::from_slice(&unpack(segment, place)?).ok()
    }
}

fn unpack(segment: &[u8], (offset, length): Place) -> Option<Vec<u8>> {
    let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(length)?).ok()?);
    let mut content = Vec::new();
    zstd::Decoder::new(segment.get(start..end)?).ok()?.read_to_end(&mut content).ok()?;
    Some(content)
}
