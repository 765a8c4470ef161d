//! The index of the log: the positions of each URL's records, so that `explain` does not have to read the whole log.
//!
//! Each completed log file has an index file (`index/000001.idx`). Indexes are optional: a missing index, such as that
//! of the log file being written, is built in memory from the log.
//!
//! An index is a sorted list of key-value pairs. A key is the hash of an [`IndexKey`]. A value is a position in the
//! log, a lane number, or a count. Readers check whether an entry of the log is the one that they searched for, so a hash
//! collision is harmless. Only counts are not checked.
//!
//! An index file is written while the crawl runs, so its memory must not grow with the log. Therefore the pairs are
//! sorted with an external merge sort: sorted portions are written to a temporary file and then merged.

use super::crawl_file::CrawlFile;
use super::fault::failed;
use super::files::{File, Files};
use super::log::{self, LogReader};
use super::record::{LinkRecord, QueuedAs, REFETCH_NOTE, ROUND_NOTE, Record};
use argiope_core::StoreError;
use argiope_core::crawl::record::LazyRecord;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const FOLDER: &str = "index";
/// The first bytes of an index file.
const MAGIC: &[u8; 8] = b"ARGINDX1";
/// Length of the header of an index file. It holds: magic, header and length of the log file, number of lanes before
/// and after it, number of pairs, checksum.
const HEADER_BYTES: usize = 8 + log::FILE_HEADER + 8 * 5;
/// Length of a pair: key and value.
const PAIR_BYTES: usize = 16;
/// How many pairs one read fetches.
const PAIRS_PER_READ: usize = 256;
/// How many pairs are sorted in memory before they are written to the temporary file.
const PAIRS_PER_PORTION: usize = 1 << 17;
/// The temporary name of an index while it is written.
const TEMPORARY_NAME: &str = "index/new";
/// The temporary file of the sorted portions.
const PORTIONS: &str = "index/portions";

/// What can be searched for. Its hash is the key of a pair.
#[derive(Clone, Copy)]
pub(super) enum IndexKey<'a> {
    /// A host; the value is the number of its lane.
    Host(&'a str),
    /// The entry that assigns this lane number to a host.
    Lane(u32),
    /// Links: lane, whether https, the URL after the host name.
    Link(u32, bool, &'a str),
    /// Outcomes of the link whose record is at this log position.
    FinalOutcome(u64),
    /// Notes about a lane.
    Note(u32),
    /// Records with this URL that have a log entry of their own ([`Record::Line`]).
    Line(&'a str),
    /// The records that begin and end runs.
    Run,
    /// Chunks of the link graph.
    Chunk,
    /// Starts of rounds.
    Round,
    /// Counts of a lane's links: new, queued again by a round, queued again for another reason, settled.
    Count(u32, LaneCount),
}

/// What a count of a lane's links counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LaneCount {
    /// Links that were queued for the first time.
    New,
    /// Settled links that a round queued again.
    Round,
    /// Settled links that were queued again for another reason.
    Again,
    Settled,
}

impl IndexKey<'_> {
    fn hash(self) -> u64 {
        // The tag is the seed, so that keys of different kinds have different hashes. `Run`, `Chunk` and `Round` have
        // one key each, which is the tag itself.
        let hash = |tag: u64, bytes: &[u8]| xxh3_64_with_seed(bytes, tag);
        match self {
            Self::Host(name) => hash(1, name.as_bytes()),
            Self::Link(lane, https, rest) => hash(2 | u64::from(lane) << 9 | u64::from(https) << 8, rest.as_bytes()),
            Self::FinalOutcome(link) => hash(3, &link.to_le_bytes()),
            Self::Note(lane) => hash(4, &lane.to_le_bytes()),
            Self::Line(url) => hash(5, url.as_bytes()),
            Self::Run => 6,
            Self::Chunk => 7,
            Self::Round => 8,
            Self::Lane(lane) => hash(10, &lane.to_le_bytes()),
            Self::Count(lane, count) => hash(9 | (count as u64) << 8, &lane.to_le_bytes()),
        }
    }
}

/// Pairs of key and value.
type Pairs = Vec<(u64, u64)>;

/// Builds the pairs of one log file.
#[derive(Default)]
struct Builder {
    /// The number of lanes before the next record.
    lanes: u32,
    pairs: Pairs,
    /// The numbers of links, by lane and by what is counted.
    counts: BTreeMap<(u32, LaneCount), u64>,
    /// Whether the last records are links that a round queues again.
    is_in_round: bool,
}

impl Builder {
    /// Adds the pairs of a record.
    fn add(&mut self, position: u64, record: &Record<'_>) {
        let mut push = |key: IndexKey<'_>| self.pairs.push((key.hash(), position));
        match *record {
            Record::Lane { name } => {
                push(IndexKey::Lane(self.lanes));
                self.pairs.push((IndexKey::Host(name).hash(), u64::from(self.lanes)));
                self.lanes += 1;
            }
            Record::Link(LinkRecord { lane, replaces, queued_as, link, .. }) => {
                push(IndexKey::Link(lane.0, link.https, link.rest));
                let count = match queued_as {
                    // A deferred link was new in its host's lane when it was moved there.
                    QueuedAs::Admitted => LaneCount::New,
                    _ if replaces.is_some() => return,
                    QueuedAs::Found => LaneCount::New,
                    QueuedAs::Again if self.is_in_round => LaneCount::Round,
                    QueuedAs::Again => LaneCount::Again,
                };
                *self.counts.entry((lane.0, count)).or_default() += 1;
            }
            Record::FinalOutcome { lane, link, .. } => {
                push(IndexKey::FinalOutcome(link));
                self.is_in_round = false;
                *self.counts.entry((lane.0, LaneCount::Settled)).or_default() += 1;
            }
            Record::Note { lane: ROUND_NOTE, .. } => {
                push(IndexKey::Round);
                self.is_in_round = true;
            }
            Record::Note { lane, .. } => push(IndexKey::Note(lane.0)),
            Record::Line { line } => {
                self.is_in_round = false;
                if let Some(record) = LazyRecord::read(line) {
                    let url = record.url();
                    let key = if record.r#type() == "run" { IndexKey::Run } else { IndexKey::Line(&url) };
                    self.pairs.push((key.hash(), position));
                }
            }
            Record::Edges { .. } => push(IndexKey::Chunk),
            Record::Page { .. } | Record::Output { .. } | Record::Created { .. } => {}
        }
    }

    /// Adds the counts, and returns all pairs that the caller has not taken out of `pairs`, sorted.
    fn finish(mut self) -> Pairs {
        let counts = std::mem::take(&mut self.counts);
        self.pairs
            .extend(counts.into_iter().map(|((lane, count), number)| (IndexKey::Count(lane, count).hash(), number)));
        self.pairs.sort_unstable();
        self.pairs
    }
}

/// The index of one log file.
enum FileIndex {
    Memory(Pairs),
    Disk { file: Box<dyn File>, count: u64 },
}

impl FileIndex {
    /// Appends the values of a key to `into`.
    fn values(&self, key: u64, into: &mut Vec<u64>) -> io::Result<()> {
        match self {
            Self::Memory(pairs) => {
                let start = pairs.partition_point(|pair| pair.0 < key);
                let found = pairs.get(start..).unwrap_or_default().iter().take_while(|pair| pair.0 == key);
                into.extend(found.map(|pair| pair.1));
            }
            Self::Disk { file, count } => {
                let offset = |pair: u64| HEADER_BYTES as u64 + pair * PAIR_BYTES as u64;
                let (mut low, mut high) = (0, *count);
                while low < high {
                    let middle = low.midpoint(high);
                    let pair = read_pairs(&**file, offset(middle), 1)?;
                    if pair.first().is_some_and(|pair| pair.0 < key) {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                'equal: while low < *count {
                    let pairs = read_pairs(&**file, offset(low), PAIRS_PER_READ.min((*count - low) as usize))?;
                    if pairs.is_empty() {
                        break;
                    }
                    low += pairs.len() as u64;
                    for (found, value) in pairs {
                        if found != key {
                            break 'equal;
                        }
                        into.push(value);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads pairs at an offset of a file.
fn read_pairs(file: &dyn File, at: u64, count: usize) -> io::Result<Pairs> {
    let mut bytes = vec![0; count * PAIR_BYTES];
    let read = file.read_at(&mut bytes, at)?;
    let whole = bytes.get(..read).unwrap_or_default().chunks_exact(PAIR_BYTES);
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    Ok(whole
        .map(|pair| (number(pair.get(..8).unwrap_or_default()), number(pair.get(8..).unwrap_or_default())))
        .collect())
}

/// The indexes of all log files.
pub(super) struct LogIndex {
    /// One for each log file, in order.
    parts: Vec<FileIndex>,
    /// Whether the first log file is the output of a compaction.
    is_compacted: bool,
}

impl LogIndex {
    /// Opens the indexes of a log and builds missing ones in memory.
    pub fn open(files: &dyn Files, log: &LogReader) -> Result<Self, StoreError> {
        Self::open_with(files, log, |_| true)
    }

    /// Like `open`, but indexes built in memory have only what the link graph needs.
    pub fn open_for_graph(files: &dyn Files, log: &LogReader) -> Result<Self, StoreError> {
        Self::open_with(files, log, |record| {
            matches!(
                record,
                Record::Edges { .. } | Record::Note { lane: ROUND_NOTE | REFETCH_NOTE, .. } | Record::Lane { .. }
            )
        })
    }

    /// Opens the indexes of a log. Those that are missing are built in memory from the log entries that `is_needed`
    /// selects.
    fn open_with(
        files: &dyn Files,
        log: &LogReader,
        is_needed: impl Fn(&Record<'_>) -> bool,
    ) -> Result<Self, StoreError> {
        let (mut parts, mut lanes) = (Vec::new(), 0);
        for number in log.numbers() {
            if let Some((part, lanes_after)) = open_index(files, log, number, lanes) {
                parts.push(part);
                lanes = lanes_after;
                continue;
            }
            let mut builder = Builder { lanes, ..Builder::default() };
            log.walk_file(number, |position, record| {
                if is_needed(&record) {
                    builder.add(position, &record);
                }
                Ok(())
            })?;
            lanes = builder.lanes;
            parts.push(FileIndex::Memory(builder.finish()));
        }
        Ok(Self { parts, is_compacted: log.is_compacted })
    }

    /// For tests of collisions: also returns the values of `from` when `to` is searched for.
    #[cfg(test)]
    pub fn add_collision(&mut self, files: &dyn Files, from: IndexKey<'_>, to: IndexKey<'_>) {
        let mut pairs: Pairs = Vec::new();
        pairs.extend(self.values(files, from).expect("values").into_iter().map(|value| (to.hash(), value)));
        assert!(!pairs.is_empty(), "there are values to find");
        self.parts.insert(0, FileIndex::Memory(pairs));
    }

    /// All values of a key, in log order.
    pub fn values(&self, files: &dyn Files, key: IndexKey<'_>) -> Result<Vec<u64>, StoreError> {
        let mut values = Vec::new();
        for part in &self.parts {
            let read = part.values(key.hash(), &mut values);
            read.map_err(|error| failed(files, FOLDER, "read", error))?;
        }
        Ok(values)
    }

    /// How many URLs of a lane are known, and how many of them are settled.
    pub fn counts(&self, files: &dyn Files, lane: u32) -> Result<(u64, u64), StoreError> {
        let (mut known, mut settled) = (0_u64, 0_u64);
        for (part_number, part) in self.parts.iter().enumerate() {
            let count = |count| -> Result<u64, StoreError> {
                let mut values = Vec::new();
                let read = part.values(IndexKey::Count(lane, count).hash(), &mut values);
                read.map_err(|error| failed(files, FOLDER, "read", error))?;
                Ok(values.first().copied().unwrap_or(0))
            };
            known += count(LaneCount::New)?;
            settled += count(LaneCount::Settled)?;
            let (round, again) = (count(LaneCount::Round)?, count(LaneCount::Again)?);
            // In the log file after the output of a compaction, the URLs that a round queues again count as new,
            // because the entries of their first discovery were removed.
            if self.is_compacted && part_number == 1 {
                known += round;
            } else {
                settled = settled.saturating_sub(round);
            }
            settled = settled.saturating_sub(again);
        }
        Ok((known, settled))
    }
}

/// The name of the index of a log file.
fn file_name(number: u32) -> String {
    format!("{FOLDER}/{number:06}.idx")
}

/// Encodes the header of an index file. It identifies the log file and has the number of pairs. `lanes` are the numbers
/// of lanes before and after the log file.
fn encode_header(log: &LogReader, number: u32, lanes: (u32, u32), count: u64, crawl: u64) -> Option<Vec<u8>> {
    let (header, length) = log.header_and_length(number)?;
    let mut encoded = [MAGIC.as_slice(), &header, &length.to_le_bytes()].concat();
    for value in [u64::from(lanes.0), u64::from(lanes.1), count] {
        encoded.extend(value.to_le_bytes());
    }
    encoded.extend(xxh3_64_with_seed(&encoded, crawl).to_le_bytes());
    Some(encoded)
}

/// Opens the index of a log file, if it exists and matches the log file. `lanes` is the number of lanes before the log
/// file. Also returns the number of lanes after it.
fn open_index(files: &dyn Files, log: &LogReader, number: u32, lanes: u32) -> Option<(FileIndex, u32)> {
    let file = files.open(&file_name(number)).ok()?;
    let mut found = [0; HEADER_BYTES];
    file.read_at(&mut found, 0).ok()?;
    let value = |at: usize| found.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    // The offset of the number of lanes before the log file.
    let start = 8 + log::FILE_HEADER + 8;
    let (lanes_after, count) = (u32::try_from(value(start + 8)).ok()?, value(start + 16));
    let is_whole = file.length().ok()? == HEADER_BYTES as u64 + count.checked_mul(PAIR_BYTES as u64)?;
    let expected = encode_header(log, number, (lanes, lanes_after), count, log.crawl())?;
    (is_whole && expected == found).then_some((FileIndex::Disk { file, count }, lanes_after))
}

/// Writes missing indexes of all log files except the last. The folder is not synced: a lost index is built again.
pub(super) fn write_missing(files: &Arc<dyn Files>, crawl: u64) -> Result<(), StoreError> {
    let (log, _) = LogReader::open(Arc::clone(files), crawl)?;
    let numbers: Vec<u32> = log.numbers().collect();
    let mut lanes = 0;
    for number in numbers.iter().copied().take(numbers.len().saturating_sub(1)) {
        if let Some((_, lanes_after)) = open_index(&**files, &log, number, lanes) {
            lanes = lanes_after;
            continue;
        }
        let fail = |error: io::Error| failed(&**files, &file_name(number), "write", error);
        let mut builder = Builder { lanes, ..Builder::default() };
        files.make_folder(FOLDER).map_err(fail)?;
        let mut sorter = PairSorter::create(&**files).map_err(fail)?;
        log.walk_file(number, |position, record| {
            builder.add(position, &record);
            if builder.pairs.len() < PAIRS_PER_PORTION { Ok(()) } else { sorter.add(&mut builder.pairs).map_err(fail) }
        })?;
        let lanes_after = builder.lanes;
        sorter.add(&mut builder.finish()).map_err(fail)?;
        let Some(header) = encode_header(&log, number, (lanes, lanes_after), sorter.count(), crawl) else {
            continue;
        };
        let write = || -> io::Result<()> {
            let mut file = files.create(TEMPORARY_NAME)?;
            sorter.merge(&header, &mut *file)?;
            file.sync()?;
            files.rename(TEMPORARY_NAME, &file_name(number))?;
            files.remove(PORTIONS)
        };
        write().map_err(fail)?;
        lanes = lanes_after;
    }
    // Remove the indexes of log files that a compaction removed.
    let listed = files.list(FOLDER).map_err(|error| failed(&**files, FOLDER, "list", error))?;
    for old in listed.iter().filter_map(|name| number_of(name)).filter(|number| !numbers.contains(number)) {
        files.remove(&file_name(old)).map_err(|error| failed(&**files, &file_name(old), "remove", error))?;
    }
    Ok(())
}

/// Sorts pairs on disk: each portion is sorted in memory and appended to a temporary file.
struct PairSorter {
    file: Box<dyn File>,
    /// The ends of the portions in the file, in pairs.
    ends: Vec<u64>,
}

impl PairSorter {
    fn create(files: &dyn Files) -> io::Result<Self> {
        let mut file = files.create(PORTIONS)?;
        // The file begins with the magic, so that `names` recognises it when the crawl is removed.
        file.write_at(MAGIC, 0)?;
        Ok(Self { file, ends: Vec::new() })
    }

    /// The offset of a pair in the file. The magic is in the place of a pair before the first one.
    fn offset(pair: u64) -> u64 {
        (pair + 1) * PAIR_BYTES as u64
    }

    /// The number of pairs that were added.
    fn count(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Sorts a portion, writes it, and leaves the list empty.
    fn add(&mut self, pairs: &mut Pairs) -> io::Result<()> {
        pairs.sort_unstable();
        let (start, mut bytes) = (self.count(), Vec::with_capacity(pairs.len() * PAIR_BYTES));
        pairs.iter().for_each(|pair| encode_pair(*pair, &mut bytes));
        self.file.write_at(&bytes, Self::offset(start))?;
        self.ends.push(start + pairs.len() as u64);
        pairs.clear();
        Ok(())
    }

    /// Writes a header and all pairs in order.
    fn merge(&self, header: &[u8], into: &mut dyn File) -> io::Result<()> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut portions: Vec<PortionReader<'_>> = starts
            .zip(&self.ends)
            .map(|(next, end)| PortionReader { file: &*self.file, next, end: *end, read: Vec::new().into_iter() })
            .collect();
        let mut heads = BinaryHeap::with_capacity(portions.len());
        for (index, portion) in portions.iter_mut().enumerate() {
            heads.extend(portion.pop()?.map(|pair| Reverse((pair, index))));
        }
        let (mut at, mut bytes) = (0, header.to_vec());
        while let Some(Reverse((pair, index))) = heads.pop() {
            encode_pair(pair, &mut bytes);
            if bytes.len() >= PAIRS_PER_READ * PAIR_BYTES {
                into.write_at(&bytes, at)?;
                at += bytes.len() as u64;
                bytes.clear();
            }
            if let Some(portion) = portions.get_mut(index) {
                heads.extend(portion.pop()?.map(|pair| Reverse((pair, index))));
            }
        }
        into.write_at(&bytes, at)
    }
}

/// Reads the pairs of one sorted portion.
struct PortionReader<'a> {
    file: &'a dyn File,
    /// The number of the next pair to read.
    next: u64,
    /// The number of the pair after the last one.
    end: u64,
    /// Pairs that were read and not returned yet.
    read: std::vec::IntoIter<(u64, u64)>,
}

impl PortionReader<'_> {
    fn pop(&mut self) -> io::Result<Option<(u64, u64)>> {
        if self.read.as_slice().is_empty() && self.next < self.end {
            let count = PAIRS_PER_READ.min(usize::try_from(self.end - self.next).unwrap_or(usize::MAX));
            let pairs = read_pairs(self.file, PairSorter::offset(self.next), count)?;
            if pairs.len() < count {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.next += count as u64;
            self.read = pairs.into_iter();
        }
        Ok(self.read.next())
    }
}

fn encode_pair((key, value): (u64, u64), bytes: &mut Vec<u8>) {
    bytes.extend(key.to_le_bytes());
    bytes.extend(value.to_le_bytes());
}

/// The number in the name of an index file; `None` for any other name.
fn number_of(text: &str) -> Option<u32> {
    let number = text.strip_suffix(".idx")?.parse().ok()?;
    file_name(number).ends_with(&format!("/{text}")).then_some(number)
}

/// The names of all index files, recognised by name and magic.
pub(super) fn names(files: &dyn Files) -> Vec<String> {
    let is_ours = |name: &String| {
        let mut start = [0; MAGIC.len()];
        let read = files.open(name).and_then(|file| file.read_at(&mut start, 0));
        read.is_ok_and(|read| read == 0 || start == *MAGIC)
    };
    let listed = files.list(FOLDER).unwrap_or_default().into_iter().map(|name| format!("{FOLDER}/{name}"));
    let is_named = |name: &String| {
        name == TEMPORARY_NAME || name == PORTIONS || name.rsplit('/').next().and_then(number_of).is_some()
    };
    listed.filter(is_named).filter(is_ours).collect()
}

/// Reads the settings of a crawl and opens its log.
pub(super) fn open_log(files: &Arc<dyn Files>) -> Result<(CrawlFile, LogReader), StoreError> {
    let crawl = CrawlFile::read(&**files)?;
    let (log, _) = LogReader::open(Arc::clone(files), crawl.crawl)?;
    Ok((crawl, log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OsFiles;

    #[test]
    fn pairs_are_sorted_in_portions_like_in_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = OsFiles::new(folder.path());
        files.make_folder(FOLDER).expect("a folder");
        let mut all: Pairs =
            (0..5_000_u64).map(|number| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 997, number)).collect();
        let mut sorter = PairSorter::create(&files).expect("a file");
        for portion in all.chunks(700) {
            sorter.add(&mut portion.to_vec()).expect("written");
        }
        sorter.add(&mut Pairs::new()).expect("nothing to write");
        assert_eq!(sorter.count(), 5_000);
        files.create("index/000001.idx").and_then(|mut file| file.write_at(b"ARGINDX1...", 0)).expect("written");
        files.create("index/000002.idx").and_then(|mut file| file.write_at(b"foreign file", 0)).expect("written");
        let mut ours = names(&files);
        ours.sort_unstable();
        assert_eq!(ours, ["index/000001.idx", PORTIONS], "they are removed with the crawl");
        let mut file = files.create(TEMPORARY_NAME).expect("a file");
        sorter.merge(&[7; 10], &mut *file).expect("merged");
        all.sort_unstable();
        assert_eq!(file.length().expect("a length"), 10 + 5_000 * PAIR_BYTES as u64);
        assert_eq!(read_pairs(&*file, 10, 6_000).expect("reads"), all);
    }
}
