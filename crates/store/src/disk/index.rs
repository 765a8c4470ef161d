//! The index of the log: where the records of a URL are, so that `explain` need not read everything.
//!
//! Each file of the log gets one when it is complete (`index/000001.idx`). It is never needed: where there is none, as
//! for the file that is being written, the same is made in memory from the log.
//!
//! An index is a sorted list of pairs, a key and a value. Keys are hashes of what is looked for; a value is a position in
//! the log, the number of a lane, or a count. What is found is compared with what was looked for, so a collision of keys
//! does no harm.

use super::directory::CrawlFile;
use super::fault::failed;
use super::files::{File, Files};
use super::frontier::ROUND_NOTE;
use super::log::{self, LogReader};
use super::record::Record;
use argiope_core::StoreError;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const FOLDER: &str = "index";
const MAGIC: &[u8; 8] = b"ARGINDX1";
/// Magic, header of the log's file, its length, lanes before and behind it, number of pairs, hash of all that.
const HEAD: usize = 8 + log::HEADER + 8 * 5;
const PAIR: usize = 16;
/// Pairs that are read at once.
const BLOCK: usize = 256;

/// What a key is made of.
#[derive(Clone, Copy)]
pub(super) enum IndexKey<'a> {
    /// The number of a host's lane.
    Host(&'a str),
    /// Links: lane, https, what follows the host name.
    Link(u32, bool, &'a str),
    /// Outcomes of the link at a position.
    Fate(u64),
    /// Notes of a lane.
    Note(u32),
    /// Other records that name this URL.
    Line(&'a str),
    /// First and last records of runs.
    Run,
    /// Chunks of the link graph.
    Chunk,
    /// Beginnings of rounds.
    Round,
    /// Counts of a lane: links that were new, queued again by a round, queued again otherwise, and settled.
    Count(u32, LaneCount),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LaneCount {
    New,
    Round,
    Again,
    Settled,
}

impl IndexKey<'_> {
    fn hash(self) -> u64 {
        let hash = |tag: u64, bytes: &[u8]| xxh3_64_with_seed(bytes, tag);
        match self {
            Self::Host(name) => hash(1, name.as_bytes()),
            Self::Link(lane, https, rest) => hash(2 | u64::from(lane) << 9 | u64::from(https) << 8, rest.as_bytes()),
            Self::Fate(link) => hash(3, &link.to_le_bytes()),
            Self::Note(lane) => hash(4, &lane.to_le_bytes()),
            Self::Line(url) => hash(5, url.as_bytes()),
            Self::Run => 6,
            Self::Chunk => 7,
            Self::Round => 8,
            Self::Count(lane, count) => hash(9 | (count as u64) << 8, &lane.to_le_bytes()),
        }
    }
}

type Pairs = Vec<(u64, u64)>;

/// Makes the pairs of one file of the log.
#[derive(Default)]
struct Builder {
    lanes: u32,
    pairs: Pairs,
    counts: BTreeMap<(u32, LaneCount), u64>,
    /// Within the links that a round queues again.
    in_round: bool,
}

impl Builder {
    fn add(&mut self, position: u64, record: &Record<'_>) {
        let mut push = |key: IndexKey<'_>| self.pairs.push((key.hash(), position));
        match *record {
            Record::Lane { name } => {
                self.pairs.push((IndexKey::Host(name).hash(), u64::from(self.lanes)));
                self.lanes += 1;
            }
            Record::Link(link) => {
                push(IndexKey::Link(link.lane.0, link.https, link.rest));
                let count = match (link.replaces, link.again) {
                    (Some(_), _) => return,
                    (None, false) => LaneCount::New,
                    (None, true) if self.in_round => LaneCount::Round,
                    (None, true) => LaneCount::Again,
                };
                *self.counts.entry((link.lane.0, count)).or_default() += 1;
            }
            Record::Fate { lane, link, .. } => {
                push(IndexKey::Fate(link));
                self.in_round = false;
                *self.counts.entry((lane.0, LaneCount::Settled)).or_default() += 1;
            }
            Record::LaneState { lane: ROUND_NOTE, .. } => {
                push(IndexKey::Round);
                self.in_round = true;
            }
            Record::LaneState { lane, .. } => push(IndexKey::Note(lane.0)),
            Record::Line { line } => {
                self.in_round = false;
                if line.starts_with(br#"{"v":1,"type":"run""#) {
                    self.pairs.push((IndexKey::Run.hash(), position));
                } else if let Some(url) = url_of(line) {
                    self.pairs.push((IndexKey::Line(url).hash(), position));
                }
            }
            Record::Edges { .. } => push(IndexKey::Chunk),
            Record::Page { .. } | Record::Output { .. } | Record::Made { .. } => {}
        }
    }

    fn finish(mut self) -> Pairs {
        let counts = std::mem::take(&mut self.counts);
        self.pairs
            .extend(counts.into_iter().map(|((lane, count), number)| (IndexKey::Count(lane, count).hash(), number)));
        self.pairs.sort_unstable();
        self.pairs
    }
}

/// The URL of a record, by its bytes: this program writes them, and URLs have no characters that JSON escapes.
fn url_of(line: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"\"url\":\"";
    let start = line.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let rest = line.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

/// The index of one file of the log.
enum Part {
    Memory(Pairs),
    Disk { file: Box<dyn File>, count: u64 },
}

impl Part {
    fn values(&self, key: u64, into: &mut Vec<u64>) -> io::Result<()> {
        match self {
            Self::Memory(pairs) => {
                let start = pairs.partition_point(|pair| pair.0 < key);
                let found = pairs.get(start..).unwrap_or_default().iter().take_while(|pair| pair.0 == key);
                into.extend(found.map(|pair| pair.1));
            }
            Self::Disk { file, count } => {
                let (mut low, mut high) = (0, *count);
                while low < high {
                    let middle = low.midpoint(high);
                    let pair = read_pairs(&**file, middle, 1)?;
                    if pair.first().is_some_and(|pair| pair.0 < key) {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                'all: while low < *count {
                    let pairs = read_pairs(&**file, low, BLOCK.min((*count - low) as usize))?;
                    if pairs.is_empty() {
                        break;
                    }
                    low += pairs.len() as u64;
                    for (found, value) in pairs {
                        if found != key {
                            break 'all;
                        }
                        into.push(value);
                    }
                }
            }
        }
        Ok(())
    }
}

fn read_pairs(file: &dyn File, from: u64, count: usize) -> io::Result<Pairs> {
    let mut bytes = vec![0; count * PAIR];
    let read = file.read_at(&mut bytes, HEAD as u64 + from * PAIR as u64)?;
    let whole = bytes.get(..read).unwrap_or_default().chunks_exact(PAIR);
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    Ok(whole
        .map(|pair| (number(pair.get(..8).unwrap_or_default()), number(pair.get(8..).unwrap_or_default())))
        .collect())
}

/// The indexes of all files of a log.
pub(super) struct LogIndex {
    parts: Vec<Part>,
    is_compacted: bool,
}

impl LogIndex {
    /// Opens the indexes of a log; makes those that are missing in memory. With `for_graph` these have only what the
    /// link graph needs.
    pub fn open(files: &dyn Files, log: &LogReader, for_graph: bool) -> Result<Self, StoreError> {
        let (mut parts, mut lanes) = (Vec::new(), 0);
        for number in log.numbers() {
            if let Some((part, behind)) = read(files, log, number, lanes) {
                parts.push(part);
                lanes = behind;
                continue;
            }
            let mut builder = Builder { lanes, ..Builder::default() };
            log.walk_file(number, |position, record| {
                if !for_graph
                    || matches!(
                        record,
                        Record::Edges { .. } | Record::LaneState { lane: ROUND_NOTE, .. } | Record::Lane { .. }
                    )
                {
                    builder.add(position, &record);
                }
                Ok(())
            })?;
            lanes = builder.lanes;
            parts.push(Part::Memory(builder.finish()));
        }
        Ok(Self { parts, is_compacted: log.is_compacted })
    }

    /// All values of a key, in the order of the log.
    pub fn values(&self, files: &dyn Files, key: IndexKey<'_>) -> Result<Vec<u64>, StoreError> {
        let mut values = Vec::new();
        for part in &self.parts {
            let read = part.values(key.hash(), &mut values);
            read.map_err(|error| failed(files, FOLDER, "read", &error))?;
        }
        Ok(values)
    }

    /// How many URLs of a lane are known, and how many of them are finished.
    pub fn counts(&self, files: &dyn Files, lane: u32) -> Result<(u64, u64), StoreError> {
        let (mut known, mut settled) = (0_u64, 0_u64);
        for (place, part) in self.parts.iter().enumerate() {
            let count = |count| -> Result<u64, StoreError> {
                let mut values = Vec::new();
                let read = part.values(IndexKey::Count(lane, count).hash(), &mut values);
                read.map_err(|error| failed(files, FOLDER, "read", &error))?;
                Ok(values.first().copied().unwrap_or(0))
            };
            known += count(LaneCount::New)?;
            settled += count(LaneCount::Settled)?;
            let (round, again) = (count(LaneCount::Round)?, count(LaneCount::Again)?);
            // Behind what a compaction kept, the first round's URLs are new.
            if self.is_compacted && place == 1 {
                known += round;
            } else {
                settled = settled.saturating_sub(round);
            }
            settled = settled.saturating_sub(again);
        }
        Ok((known, settled))
    }
}

fn name(number: u32) -> String {
    format!("{FOLDER}/{number:06}.idx")
}

/// The start of an index: what it is of, and how long it is.
fn head(log: &LogReader, number: u32, lanes: (u32, u32), count: u64, crawl: u64) -> Option<Vec<u8>> {
    let (header, length) = log.file_start(number)?;
    let mut head = [MAGIC.as_slice(), &header, &length.to_le_bytes()].concat();
    for value in [u64::from(lanes.0), u64::from(lanes.1), count] {
        head.extend(value.to_le_bytes());
    }
    head.extend(xxh3_64_with_seed(&head, crawl).to_le_bytes());
    Some(head)
}

/// The index of a file of the log, if there is one and it is of this file; also the number of lanes behind it.
fn read(files: &dyn Files, log: &LogReader, number: u32, lanes: u32) -> Option<(Part, u32)> {
    let file = files.open(&name(number)).ok()?;
    let mut found = [0; HEAD];
    file.read_at(&mut found, 0).ok()?;
    let value = |at: usize| found.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let start = 8 + log::HEADER + 8;
    let (behind, count) = (u32::try_from(value(start + 8)).ok()?, value(start + 16));
    let is_whole = file.length().ok()? == HEAD as u64 + count.checked_mul(PAIR as u64)?;
    let expected = head(log, number, (lanes, behind), count, log.crawl())?;
    (is_whole && expected == found).then_some((Part::Disk { file, count }, behind))
}

/// Writes the indexes that are missing, of all files but the last. They are not synced: one that is torn is made anew.
pub(super) fn write_missing(files: &Arc<dyn Files>, crawl: u64) -> Result<(), StoreError> {
    let (log, _) = LogReader::open(Arc::clone(files), crawl)?;
    let numbers: Vec<u32> = log.numbers().collect();
    let mut lanes = 0;
    for number in numbers.iter().copied().take(numbers.len().saturating_sub(1)) {
        if let Some((_, behind)) = read(&**files, &log, number, lanes) {
            lanes = behind;
            continue;
        }
        let mut builder = Builder { lanes, ..Builder::default() };
        log.walk_file(number, |position, record| {
            builder.add(position, &record);
            Ok(())
        })?;
        let behind = builder.lanes;
        let pairs = builder.finish();
        let Some(mut bytes) = head(&log, number, (lanes, behind), pairs.len() as u64, crawl) else { continue };
        bytes.reserve(pairs.len() * PAIR);
        for (key, value) in pairs {
            bytes.extend(key.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        let write = || -> io::Result<()> {
            files.make_folder(FOLDER)?;
            let aside = format!("{FOLDER}/new");
            let mut file = files.create(&aside)?;
            file.write_at(&bytes, 0)?;
            file.sync()?;
            files.rename(&aside, &name(number))
        };
        write().map_err(|error| failed(&**files, &name(number), "write", &error))?;
        lanes = behind;
    }
    // Those of files that a compaction removed.
    let listed = files.list(FOLDER).map_err(|error| failed(&**files, FOLDER, "list", &error))?;
    for old in listed.iter().filter_map(|name| number_of(name)).filter(|number| !numbers.contains(number)) {
        files.remove(&name(old)).map_err(|error| failed(&**files, &name(old), "remove", &error))?;
    }
    Ok(())
}

fn number_of(text: &str) -> Option<u32> {
    let number = text.strip_suffix(".idx")?.parse().ok()?;
    name(number).ends_with(&format!("/{text}")).then_some(number)
}

/// The names of all files that are indexes, by what they hold.
pub(super) fn names(files: &dyn Files) -> Vec<String> {
    let is_ours = |name: &String| {
        let mut start = [0; MAGIC.len()];
        let read = files.open(name).and_then(|file| file.read_at(&mut start, 0));
        read.is_ok_and(|read| read == 0 || start == *MAGIC)
    };
    let listed = files.list(FOLDER).unwrap_or_default();
    let ours = listed.into_iter().filter(|name| name == "new" || number_of(name).is_some());
    ours.map(|name| format!("{FOLDER}/{name}")).filter(is_ours).collect()
}

/// Reads the settings of a crawl and opens its log.
pub(super) fn open_log(files: &Arc<dyn Files>) -> Result<(CrawlFile, LogReader), StoreError> {
    let crawl = CrawlFile::read(&**files)?;
    let (log, _) = LogReader::open(Arc::clone(files), crawl.crawl)?;
    Ok((crawl, log))
}
