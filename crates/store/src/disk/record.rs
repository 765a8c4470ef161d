//! The records of the log, and their encoding.
//!
//! A record is `tag (1) · length of the body (4) · checksum (4) · body`. The checksum is a hash of tag and body whose
//! seed contains the record's position, so a single record can be read and verified on its own. Numbers in bodies are
//! varints (seven bits per byte, low first). Positions of earlier records are stored as the distance back from this
//! record, which is a small number; zero means none.
//!
//! Decoding is total: any input yields a record or an error, never a panic.

use crate::link_codec::BareLink;
use crate::varint::{Bytes, write_varint};
use argiope_core::{LaneId, Outcome};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The size of the part before the body.
pub(super) const RECORD_HEADER: usize = 9;

/// The name of the lane of deferred links. No host has this name.
pub(super) const DEFERRED: &str = "";
/// A reserved lane number: notes under it belong to the crawl itself.
pub(super) const CRAWL_NOTES: LaneId = LaneId(u32::MAX);
/// A reserved lane number: its note has the log positions at which the last round and the round before it began.
pub(super) const ROUND_NOTE: LaneId = LaneId(u32::MAX - 1);
/// A reserved lane number: its note has the log position of the last link that this round has queued again.
pub(super) const REQUEUE_NOTE: LaneId = LaneId(u32::MAX - 2);
/// A reserved lane number: a note under it says that settled pages were queued again within a round. Readers of the
/// link graph then expect several entries of a page.
pub(super) const REFETCH_NOTE: LaneId = LaneId(u32::MAX - 3);

/// One entry of the crawl's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// Assigns the next lane number to this host name.
    Lane { name: &'a str },
    /// The URL of a page on which links were found.
    Page { url: &'a str },
    /// A link to queue: a new one, one that replaces its earlier record, a deferred one that gets a lane, or a settled
    /// one that is queued again.
    Link(LinkRecord<'a>),
    /// The outcome of a link; `line` is its record.
    FinalOutcome { lane: LaneId, link: u64, outcome: Outcome, status: Option<u16>, line: &'a [u8] },
    /// A record that does not belong to an outcome: run, robots.txt, skip.
    Line { line: &'a [u8] },
    /// What is stored for the next run about a lane or about the crawl; replaces the previous note with the same lane
    /// number.
    Note { lane: LaneId, note: &'a [u8] },
    /// The length of an output file as of this commit, and the hash of its bytes if known; replaces the previous
    /// record.
    Output { length: u64, hash: Option<u64>, name: &'a str },
    /// The name of a file, other than an output, that this crawl created.
    Created { name: &'a str },
    /// Links of pages: a chunk of the link graph (see `graph_codec`).
    Edges { chunk: &'a [u8] },
}

/// A queued link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkRecord<'a> {
    pub lane: LaneId,
    /// The position of the [`Record::Page`] on which the link was found.
    pub via: Option<u64>,
    /// If the link was given back unfinished, marked as sent, or moved from the deferred links to a lane: the position
    /// of the record that this record replaces.
    pub replaces: Option<u64>,
    pub queued_as: QueuedAs,
    /// The link itself. The name of the lane of deferred links is empty, so the rest of their URLs begins with the host
    /// name.
    pub link: BareLink<'a>,
}

/// Why a link is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum QueuedAs {
    /// It is new, or replaces its own earlier record.
    #[default]
    Found,
    /// It was settled, and is queued again.
    Again,
    /// It was deferred: the record that it replaces is in the queue of deferred links.
    Admitted,
}

// The tags of records.
const LANE: u8 = 1;
const PAGE: u8 = 2;
const LINK: u8 = 3;
const FINAL_OUTCOME: u8 = 4;
const LINE: u8 = 5;
const NOTE: u8 = 6;
const OUTPUT: u8 = 7;
/// A settled link that is queued again.
const AGAIN: u8 = 8;
const EDGES: u8 = 9;
/// An output with its hash.
const HASHED_OUTPUT: u8 = 10;
const CREATED: u8 = 11;
/// A deferred link that gets a lane.
const ADMITTED: u8 = 12;

impl<'a> Record<'a> {
    fn tag(&self) -> u8 {
        match self {
            Self::Lane { .. } => LANE,
            Self::Page { .. } => PAGE,
            Self::Link(LinkRecord { queued_as: QueuedAs::Found, .. }) => LINK,
            Self::Link(LinkRecord { queued_as: QueuedAs::Again, .. }) => AGAIN,
            Self::Link(LinkRecord { queued_as: QueuedAs::Admitted, .. }) => ADMITTED,
            Self::FinalOutcome { .. } => FINAL_OUTCOME,
            Self::Line { .. } => LINE,
            Self::Note { .. } => NOTE,
            Self::Output { hash: None, .. } => OUTPUT,
            Self::Output { hash: Some(_), .. } => HASHED_OUTPUT,
            Self::Created { .. } => CREATED,
            Self::Edges { .. } => EDGES,
        }
    }

    /// Appends the record's bytes. `position` is their position in the log; `crawl` is the id of the crawl.
    pub fn encode(&self, crawl: u64, position: u64, out: &mut Vec<u8>) {
        let start = out.len();
        // Length and checksum are filled in below.
        out.extend([self.tag(), 0, 0, 0, 0, 0, 0, 0, 0]);
        // The distance back to an earlier record.
        let back = |earlier: Option<u64>| earlier.map_or(0, |earlier| position - earlier);
        match *self {
            Self::Lane { name: text } | Self::Page { url: text } | Self::Created { name: text } => {
                out.extend(text.as_bytes());
            }
            Self::Link(LinkRecord { lane, via, replaces, link, .. }) => {
                write_varint(u64::from(lane.0), out);
                write_varint(back(via), out);
                write_varint(back(replaces), out);
                link.encode(out);
            }
            Self::FinalOutcome { lane, link, outcome, status, line } => {
                out.push(outcome as u8);
                write_varint(u64::from(status.unwrap_or(0)), out);
                write_varint(u64::from(lane.0), out);
                write_varint(back(Some(link)), out);
                out.extend(line);
            }
            Self::Line { line: bytes } | Self::Edges { chunk: bytes } => out.extend(bytes),
            Self::Note { lane, note } => {
                write_varint(u64::from(lane.0), out);
                out.extend(note);
            }
            Self::Output { length, hash, name } => {
                write_varint(length, out);
                out.extend(hash.map(u64::to_le_bytes).iter().flatten());
                out.extend(name.as_bytes());
            }
        }
        let (header, body) = out[start..].split_at_mut(RECORD_HEADER);
        header[1..5].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[5..9].copy_from_slice(&checksum(self.tag(), body, crawl, position).to_le_bytes());
    }

    /// Reads the record at the start of `bytes`; also returns its length.
    pub fn decode(bytes: &'a [u8], crawl: u64, position: u64) -> Result<(Self, usize), Unreadable> {
        let Some((&[tag, l0, l1, l2, l3, c0, c1, c2, c3], rest)) = bytes.split_first_chunk::<RECORD_HEADER>() else {
            return Err(Unreadable::TooShort(RECORD_HEADER));
        };
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let body = rest.get(..length).ok_or(Unreadable::TooShort(RECORD_HEADER + length))?;
        if checksum(tag, body, crawl, position) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(Unreadable::Invalid);
        }
        let record = Self::decode_body(tag, body, position).ok_or(Unreadable::Invalid)?;
        Ok((record, RECORD_HEADER + length))
    }

    fn decode_body(tag: u8, body: &'a [u8], position: u64) -> Option<Self> {
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let mut body = Bytes(body);
        // The position of the record this far back.
        let earlier = |distance: u64| match distance {
            0 => Some(None),
            _ => position.checked_sub(distance).map(Some),
        };
        Some(match tag {
            LANE => Self::Lane { name: text(body.0)? },
            PAGE => Self::Page { url: text(body.0)? },
            LINK | AGAIN | ADMITTED => Self::Link(LinkRecord {
                queued_as: match tag {
                    AGAIN => QueuedAs::Again,
                    ADMITTED => QueuedAs::Admitted,
                    _ => QueuedAs::Found,
                },
                lane: body.lane()?,
                via: earlier(body.varint()?)?,
                replaces: earlier(body.varint()?)?,
                link: BareLink::decode(body)?,
            }),
            FINAL_OUTCOME => {
                let outcome = *Outcome::ALL.get(usize::from(body.byte()?))?;
                let status = u16::try_from(body.varint()?).ok()?;
                Self::FinalOutcome {
                    outcome,
                    status: (status != 0).then_some(status),
                    lane: body.lane()?,
                    link: earlier(body.varint()?)??,
                    line: body.0,
                }
            }
            LINE => Self::Line { line: body.0 },
            NOTE => Self::Note { lane: body.lane()?, note: body.0 },
            OUTPUT => Self::Output { length: body.varint()?, hash: None, name: text(body.0)? },
            HASHED_OUTPUT => {
                let length = body.varint()?;
                let (hash, name) = body.0.split_first_chunk()?;
                Self::Output { length, hash: Some(u64::from_le_bytes(*hash)), name: text(name)? }
            }
            CREATED => Self::Created { name: text(body.0)? },
            EDGES => Self::Edges { chunk: body.0 },
            _ => return None,
        })
    }
}

/// Why bytes cannot be decoded as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The input is too short: this many bytes are needed.
    TooShort(usize),
    /// The checksum does not match, or the body is malformed.
    Invalid,
}

/// The checksum of a record.
fn checksum(tag: u8, body: &[u8], crawl: u64, position: u64) -> u32 {
    xxh3_64_with_seed(body, crawl ^ position ^ (u64::from(tag) << 56)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use argiope_core::LinkKind;

    /// The id of the crawl.
    const CRAWL: u64 = 7;
    /// The position of the encoded record. Earlier records have smaller positions.
    const POSITION: u64 = 1_000_000;

    fn samples() -> Vec<Record<'static>> {
        let stored = BareLink {
            kind: LinkKind::Other,
            https: true,
            redirects: 10,
            tries: 0,
            depth: 2,
            request: None,
            rest: ":8080/é?q",
        };
        let link = LinkRecord {
            lane: LaneId(300),
            via: Some(POSITION - 77),
            replaces: None,
            queued_as: QueuedAs::Found,
            link: stored,
        };
        let bare = BareLink { https: false, rest: "", depth: u32::MAX, ..stored };
        let with_request = |request| BareLink { request: Some(request), ..stored };
        vec![
            Record::Lane { name: "h.example" },
            Record::Page { url: "https://h.example/" },
            Record::Link(link),
            Record::Link(LinkRecord { queued_as: QueuedAs::Again, ..link }),
            Record::Link(LinkRecord { link: with_request(&[1, 2, 0]), ..link }),
            Record::Link(LinkRecord { link: with_request(&[]), queued_as: QueuedAs::Again, ..link }),
            Record::Link(LinkRecord { queued_as: QueuedAs::Admitted, replaces: Some(999), ..link }),
            Record::Link(LinkRecord { via: None, replaces: Some(1), link: bare, ..link }),
            Record::FinalOutcome {
                lane: LaneId(0),
                link: POSITION - 1,
                outcome: Outcome::Refused,
                status: None,
                line: b"{}",
            },
            Record::FinalOutcome { lane: LaneId(9), link: 0, outcome: Outcome::Ok, status: Some(200), line: b"" },
            Record::Line { line: b"{\"type\":\"run\"}" },
            Record::Note { lane: LaneId(u32::MAX), note: &[0, 255] },
            Record::Output { length: u64::MAX, hash: None, name: "pages.jsonl" },
            Record::Output { length: 7, hash: Some(u64::MAX), name: "pages.jsonl" },
            Record::Created { name: "report.txt" },
            Record::Edges { chunk: &[0, 0] },
            Record::Edges { chunk: &[] },
        ]
    }

    #[test]
    fn a_record_can_be_decoded_only_at_its_position() {
        for record in samples() {
            let mut bytes = b"before".to_vec();
            record.encode(CRAWL, POSITION, &mut bytes);
            let own = &bytes[b"before".len()..];
            assert_eq!(Record::decode(own, CRAWL, POSITION), Ok((record, own.len())));
            assert_eq!(Record::decode(own, CRAWL, POSITION + 1), Err(Unreadable::Invalid), "{record:?}");
            assert_eq!(Record::decode(own, CRAWL + 1, POSITION), Err(Unreadable::Invalid), "{record:?}");
        }
    }

    #[test]
    fn changed_and_missing_bytes_are_detected() {
        for record in samples() {
            let mut bytes = Vec::new();
            record.encode(CRAWL, POSITION, &mut bytes);
            for at in 0..bytes.len() {
                assert!(matches!(Record::decode(&bytes[..at], CRAWL, POSITION), Err(Unreadable::TooShort(_))));
                let mut other = bytes.clone();
                other[at] ^= 0x10;
                let read = Record::decode(&other, CRAWL, POSITION);
                assert!(read.is_err(), "byte {at} of {record:?} gives {read:?}");
            }
        }
    }
}
