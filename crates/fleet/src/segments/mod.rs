//! The results of a fleet: immutable segments of records, and the positions up to which they are settled.
//!
//! The first round is at the top of the folder or prefix. Later rounds (`--recrawl`) are in `rounds/N/` with the same
//! layout. The file `rounds/N.json` exists if round N has begun. It contains the settings of the round, which the
//! process that creates it chooses. All rounds share the archive.
//!
//! A process holds leases on buckets of hosts. A lease is identified by bucket, epoch (which increases with every lease
//! of the bucket) and owner (the process). The records that are settled together are a *group* of a segment. Groups are
//! numbered for each lease, and the files in `settled/` contain the number of the last settled group. A reader uses the
//! groups up to that number. So the reader skips records that a process wrote but never settled, and gets each settled
//! record once.

mod encoding;
mod folder;
mod graph;
#[cfg(feature = "object-storage")]
mod objects;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::Path;

use encoding::{encode, index_of};
use folder::ResultFolder;
#[cfg(feature = "object-storage")]
use objects::ObjectPrefix;

use encoding::{IndexEntry, decompress};
pub use encoding::{LinkOrigin, SegmentGroup};
pub use graph::{graph_of, graph_of_round, open_graph};

/// The folder of segments.
const RECORDS: &str = "records";
/// The folder of positions.
const SETTLED: &str = "settled";
/// The name of the positions that are written at the end of the crawl.
const FINAL: &str = "final";
/// The file that marks a folder as a fleet's results.
const FLEET_FILE: &str = "fleet.json";
/// The name of the file that says how the crawl ended.
const END: &str = "end";
/// The folder whose files say that the crawl was continued after an end: `2.json`, `3.json` and so on.
const LEGS: &str = "legs";
/// The folder of later rounds.
const ROUNDS: &str = "rounds";
/// The list of the previous round's segments. The queued links of a round refer to records in them.
const EARLIER_FILE: &str = "earlier.json";

/// The largest file that is read, in whole or in part. Files of archives are closed long before.
const MAX_FILE: u64 = 2 << 30;
/// The largest segment that is read. A segment is closed when its records have 64 MiB, uncompressed.
const MAX_SEGMENT: u64 = 256 << 20;
/// The largest JSON file that is read: positions, settings, or a list of segments.
const MAX_JSON: u64 = 32 << 20;

/// A lease and how far it is settled: bucket, epoch, owner, and the sequence number of the last settled group.
pub type Position = (u32, u64, String, u64);

/// A part of a group, as a reader gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentItem<'a> {
    /// A record with its line feed, and the origin of its link; `None` for a robots.txt.
    Line { line: &'a [u8], origin: Option<LinkOrigin> },
    /// A chunk of the link graph. The chunks of a group follow one another.
    Graph(&'a [u8]),
    /// The note about a host, which replaces its earlier note.
    Note { host: &'a str, note: &'a [u8] },
}

/// Where a record of the previous round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierPlace {
    /// The index of the segment in [`SegmentStore::earlier_segments`].
    pub segment: u32,
    /// Offset and length of the compressed frame of its group.
    pub offset: u64,
    pub length: u64,
    /// The number of its line in the group, counted from 0.
    pub line: u32,
}

/// A settled record, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct PlacedRecord<'a> {
    pub line: &'a [u8],
    pub origin: Option<LinkOrigin>,
    pub place: EarlierPlace,
}

/// Where results are: a folder, or a prefix in object storage.
#[derive(Clone, Debug)]
enum ResultPlace {
    Folder(ResultFolder),
    #[cfg(feature = "object-storage")]
    Objects(ObjectPrefix),
    /// A place that cannot be used, and why.
    Unusable(String),
}

/// The results of one round of a fleet's crawl. Files are never changed or overwritten.
#[derive(Clone, Debug)]
pub struct SegmentStore {
    place: ResultPlace,
    /// Counted from 1.
    round: u32,
    /// Whether readers skip settled groups that are missing.
    allows_missing: bool,
}

/// What is settled, by the positions of a round.
struct Settled {
    /// The last settled sequence number of each lease: bucket, epoch, owner. All groups up to it are settled.
    last: HashMap<(u32, u64, String), u64>,
    /// The segments whose positions exist.
    segments: Vec<String>,
}

impl fmt::Display for SegmentStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            ResultPlace::Folder(folder) => folder.fmt(f),
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.fmt(f),
            ResultPlace::Unusable(_) => f.write_str("object storage"),
        }
    }
}

/// The place of results for messages. In a URL of object storage, the part before an `@` is hidden, because it may be a
/// secret.
pub fn redacted_place(place: &Path) -> String {
    let text = place.display().to_string();
    match text.split_once("://").zip(text.rsplit_once('@')) {
        Some(((scheme, _), (_, rest))) if is_object_storage(place) => format!("{scheme}://***@{rest}"),
        _ => text,
    }
}

/// Whether this path is a URL of object storage: `s3://BUCKET/PREFIX`, `gs://`, `az://`.
pub fn is_object_storage(place: &Path) -> bool {
    let place = place.to_str().unwrap_or_default();
    ["s3://", "gs://", "az://"].iter().any(|scheme| place.starts_with(scheme))
}

impl SegmentStore {
    /// Opens or creates the results of a round. `about` describes the crawl. Results with another description are
    /// refused.
    pub fn create(place: &Path, round: u32, about: &str) -> io::Result<Self> {
        let store = Self::open(place).of_round(round);
        if store.begin_round(about)? != about {
            return Err(io::Error::other("it holds the results of another crawl"));
        }
        Ok(store)
    }

    /// The description that the round was created with.
    pub fn about(&self) -> io::Result<String> {
        String::from_utf8(self.get_top(&round_file(self.round))?).map_err(io::Error::other)
    }

    /// How many rounds have begun: 0 if there are no results.
    pub fn rounds(&self) -> io::Result<u32> {
        match self.get_top(FLEET_FILE) {
            Ok(_) => {}
            // There are no results, or the bucket of the object storage does not exist. (A listing would not
            // distinguish that from other errors.)
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        }
        let number = |name: &String| name.strip_prefix("rounds/")?.strip_suffix(".json")?.parse().ok();
        Ok(self.list_top(ROUNDS, ".json")?.iter().filter_map(number).max().unwrap_or(1))
    }

    /// The results of another round of the same crawl.
    #[must_use]
    pub fn of_round(&self, round: u32) -> Self {
        Self { round, ..self.clone() }
    }

    /// The same results for a reader that skips what is missing. Without this, missing segments are an error.
    #[must_use]
    pub fn allowing_missing(self, allows_missing: bool) -> Self {
        Self { allows_missing, ..self }
    }

    /// The results of the last round that has begun.
    pub fn latest(place: &Path) -> io::Result<Self> {
        let store = Self::open(place);
        let rounds = store.rounds()?;
        Ok(store.of_round(rounds.max(1)))
    }

    /// The number of this round, counted from 1.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Begins this round, unless it has begun. Returns the description that the first process gave it.
    pub fn begin_round(&self, about: &str) -> io::Result<String> {
        self.create_top(&round_file(self.round), about.as_bytes())?;
        self.about()
    }

    /// The segments of the previous round. Queued links of this round refer to them by their index in this list. The
    /// first call of any process stores the list, and all later calls return it. So the indexes stay valid even if a
    /// delayed process of the previous round adds a segment.
    pub fn earlier_segments(&self) -> io::Result<Vec<String>> {
        let names = self.of_round(self.round.saturating_sub(1)).list(RECORDS, ".zst")?;
        let names = serde_json::to_vec(&names).map_err(io::Error::other)?;
        self.create_new(EARLIER_FILE, &names)?;
        serde_json::from_slice(&self.get(EARLIER_FILE)?).map_err(io::Error::other)
    }

    /// Passes every settled record of these segments of the round to `each`.
    pub fn placed_records(
        &self,
        segments: &[String],
        mut each: impl FnMut(PlacedRecord<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.each_group(&self.settled()?, segments, |segment, group, bytes| {
            let lines = group.lines(bytes).ok_or_else(|| damaged(&segments[segment]))?;
            let (segment, (offset, length)) = (u32::try_from(segment).map_err(io::Error::other)?, group.place());
            for (number, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
                let place = EarlierPlace { segment, offset, length, line: number as u32 };
                each(PlacedRecord { line, origin: group.origin(number), place })?;
            }
            Ok(())
        })
    }

    /// The records of one group of a segment: see [`EarlierPlace`].
    pub fn group_lines(&self, segment: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let frame = match &self.place {
            ResultPlace::Folder(folder) => folder.get_range(segment, offset, length)?,
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.get_range(segment, offset, length)?,
            ResultPlace::Unusable(why) => return Err(io::Error::other(why.clone())),
        };
        decompress(&frame).ok_or_else(|| damaged(segment))
    }

    /// Whether this location holds the results of a fleet. This is assumed for object storage. If it is wrong,
    /// reading returns an error.
    pub fn has_results(place: &Path) -> bool {
        if is_object_storage(place) { true } else { place.join(FLEET_FILE).is_file() }
    }

    /// Opens a folder or a prefix. If it cannot be used, the first operation returns the error.
    pub fn open(place: &Path) -> Self {
        if !is_object_storage(place) {
            let place = ResultPlace::Folder(ResultFolder::new(place));
            return Self { place, round: 1, allows_missing: false };
        }
        #[cfg(feature = "object-storage")]
        let place = match ObjectPrefix::open(place.to_str().unwrap_or_default()) {
            Ok(prefix) => ResultPlace::Objects(prefix),
            Err(error) => ResultPlace::Unusable(error.to_string()),
        };
        #[cfg(not(feature = "object-storage"))]
        let place = ResultPlace::Unusable(
            "this build cannot use object storage; build it with the feature object-storage, or name a folder".into(),
        );
        Self { place, round: 1, allows_missing: false }
    }

    /// Writes one segment. It is an error if a segment of this name has other content, because records would be lost.
    pub fn write(&self, owner: &str, name: &str, groups: &[SegmentGroup]) -> io::Result<()> {
        self.create_same(&format!("{RECORDS}/{name}.jsonl.zst"), &encode(owner, groups)?)
    }

    /// Writes the positions after a segment was settled.
    pub fn write_positions(&self, name: &str, positions: &[Position]) -> io::Result<()> {
        let text = serde_json::to_vec(positions).map_err(io::Error::other)?;
        self.create_same(&format!("{SETTLED}/{name}.json"), &text)
    }

    /// The number of the leg that the round is in: 1, and 1 more for each time it was continued after an end.
    fn leg(&self) -> io::Result<u32> {
        let number = |name: &String| name.rsplit_once('/')?.1.strip_suffix(".json")?.parse().ok();
        Ok(self.list(LEGS, ".json")?.iter().filter_map(number).max().unwrap_or(1))
    }

    /// Continues the round after an end, unless another process has done that. `leg` counts from 1, with which a round
    /// begins. Must be called before results of the leg are written.
    pub fn begin_leg(&self, leg: u32) -> io::Result<()> {
        if leg > 1 { self.create_new(&format!("{LEGS}/{leg}.json"), b"{}").map(drop) } else { Ok(()) }
    }

    /// Writes the positions of the whole crawl after its end. All processes have the same positions; the first process
    /// writes them.
    pub fn write_final_positions(&self, positions: &[Position]) -> io::Result<()> {
        let text = serde_json::to_vec(positions).map_err(io::Error::other)?;
        self.create_new(&of_leg(&format!("{SETTLED}/{FINAL}"), self.leg()?), &text).map(drop)
    }

    /// Whether the crawl is over and all positions are written.
    pub fn is_final(&self) -> io::Result<bool> {
        match self.get(&of_leg(&format!("{SETTLED}/{FINAL}"), self.leg()?)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stores how the crawl ended, unless that is already stored.
    pub fn write_end(&self, text: &str) -> io::Result<()> {
        self.create_new(&of_leg(END, self.leg()?), text.as_bytes()).map(drop)
    }

    /// How the crawl ended; `None` if it has not ended.
    pub fn end(&self) -> io::Result<Option<String>> {
        match self.get(&of_leg(END, self.leg()?)) {
            Ok(text) => String::from_utf8(text).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file of the archive. An existing file must have the same content.
    pub fn write_archive(&self, name: &str, content: &[u8]) -> io::Result<()> {
        if self.create_top(name, content)? || self.get_top(name)? == content {
            return Ok(());
        }
        Err(exists(name))
    }

    /// A file of the archive. `name` is the name in the records.
    pub fn archive(&self, name: &str) -> io::Result<Vec<u8>> {
        if is_archive_name(name) { self.get_top(name) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// A part of a file of the archive. `name` is the name in the records.
    pub fn archive_range(&self, name: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        if !is_archive_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match &self.place {
            ResultPlace::Folder(folder) => folder.get_range(name, offset, length),
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.get_range(name, offset, length),
            ResultPlace::Unusable(why) => Err(io::Error::other(why.clone())),
        }
    }

    /// The files of the archive, sorted.
    pub fn archives(&self) -> io::Result<Vec<String>> {
        let mut names = self.list_top("archive", "")?;
        names.retain(|name| is_archive_name(name) && !name.ends_with(".partial"));
        Ok(names)
    }

    /// Passes every settled record of this round to `each`, segment by segment.
    pub fn read(&self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.read_items(|item| match item {
            SegmentItem::Line { line, .. } => each(line),
            SegmentItem::Graph(_) | SegmentItem::Note { .. } => Ok(()),
        })
    }

    /// Passes the content of all settled groups of this round to `each`. Each group has first its notes, then
    /// its links, then its records.
    pub fn read_items(&self, mut each: impl FnMut(SegmentItem<'_>) -> io::Result<()>) -> io::Result<()> {
        // A segment exists before its positions do. In this order, a segment that is written meanwhile is not missing.
        let settled = self.settled()?;
        let names = self.list(RECORDS, ".zst")?;
        self.each_group(&settled, &names, |segment, group, bytes| {
            let damaged = || damaged(&names[segment]);
            for (host, note) in group.notes(bytes).ok_or_else(damaged)? {
                each(SegmentItem::Note { host: &host, note: note.as_bytes() })?;
            }
            for chunk in group.graph(bytes) {
                each(SegmentItem::Graph(&chunk.ok_or_else(damaged)?))?;
            }
            let lines = group.lines(bytes).ok_or_else(damaged)?;
            for (number, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
                each(SegmentItem::Line { line, origin: group.origin(number) })?;
            }
            Ok(())
        })
    }

    /// Whether this round has records, settled or not.
    pub fn has_records(&self) -> io::Result<bool> {
        Ok(!self.list(RECORDS, ".zst")?.is_empty())
    }

    /// The positions of this round.
    pub fn positions(&self) -> io::Result<Vec<Position>> {
        let last = self.settled()?.last.into_iter();
        Ok(last.map(|((bucket, epoch, owner), last)| (bucket, epoch, owner, last)).collect())
    }

    /// What is settled in this round.
    fn settled(&self) -> io::Result<Settled> {
        let mut last: HashMap<(u32, u64, String), u64> = HashMap::new();
        let names = self.list(SETTLED, ".json")?;
        let of_last_end = self.round_path(&of_leg(&format!("{SETTLED}/{FINAL}"), self.leg()?));
        // The final positions include all others. Those of an earlier end do not, because the crawl was continued.
        let files = if names.contains(&of_last_end) { vec![of_last_end] } else { names.clone() };
        let is_of_end = |name: &String| name.rsplit_once('/').is_some_and(|(_, file)| file.starts_with(FINAL));
        let of_segments: Vec<String> = names.into_iter().filter(|name| !is_of_end(name)).collect();
        for name in files {
            let positions: Vec<Position> = serde_json::from_slice(&self.get_top(&name)?).map_err(io::Error::other)?;
            for (bucket, epoch, owner, sequence) in positions {
                let max = last.entry((bucket, epoch, owner)).or_default();
                *max = sequence.max(*max);
            }
        }
        let segment_of = |name: &String| {
            let name = name.rsplit_once('/')?.1.strip_suffix(".json")?;
            Some(self.round_path(&format!("{RECORDS}/{name}.jsonl.zst")))
        };
        Ok(Settled { last, segments: of_segments.iter().filter_map(segment_of).collect() })
    }

    /// Calls `each` with every settled group of these segments. The arguments are the index of the segment, the group,
    /// and the bytes of the segment. Afterwards, settled groups that were in no segment are an error.
    fn each_group(
        &self,
        settled: &Settled,
        segments: &[String],
        mut each: impl FnMut(usize, &IndexEntry, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let there: HashSet<&String> = segments.iter().collect();
        if let Some(name) = settled.segments.iter().find(|name| !there.contains(name) && !self.allows_missing) {
            return Err(missing(&format!("{name} is missing, although its records are settled")));
        }
        // The number of settled groups of each lease that are read.
        let mut found: HashMap<(u32, u64, String), u64> = HashMap::new();
        for (segment, name) in segments.iter().enumerate() {
            let bytes = self.get_top(name)?;
            let index = index_of(&bytes).filter(encoding::SegmentIndex::is_in_order).ok_or_else(|| damaged(name))?;
            for group in &index.groups {
                let key = (group.bucket, group.epoch, index.owner.clone());
                if settled.last.get(&key).is_none_or(|last| group.sequence > *last) {
                    continue;
                }
                *found.entry(key).or_default() += 1;
                each(segment, group, &bytes)?;
            }
        }
        // Every settle of a lease has the next sequence number, and is one group.
        let left_out = |(key, last): (&(u32, u64, String), &u64)| last.saturating_sub(*found.get(key).unwrap_or(&0));
        match settled.last.iter().map(left_out).sum::<u64>() {
            0 => Ok(()),
            _ if self.allows_missing => Ok(()),
            count => Err(missing(&format!("{count} settled groups of records are in no segment"))),
        }
    }

    /// Creates a file with this content. An existing file must have the same content.
    fn create_same(&self, name: &str, content: &[u8]) -> io::Result<()> {
        if self.create_new(name, content)? || self.get(name)? == content {
            return Ok(());
        }
        Err(exists(name))
    }

    /// The path of a file of this round, relative to the top.
    fn round_path(&self, name: &str) -> String {
        if self.round == 1 { name.to_owned() } else { format!("{ROUNDS}/{}/{name}", self.round) }
    }

    /// Creates a file of this round: see [`Self::create_top`].
    fn create_new(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        self.create_top(&self.round_path(name), content)
    }

    /// A file of this round.
    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.get_top(&self.round_path(name))
    }

    /// The sorted paths of the files in a folder of this round that end with `suffix`, relative to the top.
    fn list(&self, folder: &str, suffix: &str) -> io::Result<Vec<String>> {
        self.list_top(&self.round_path(folder), suffix)
    }

    /// Creates a file with this content atomically. `name` is relative to the top. Returns whether the file is new. An
    /// existing file is not changed.
    fn create_top(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        match &self.place {
            ResultPlace::Folder(folder) => folder.create_new(name, content),
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.create_new(name, content),
            ResultPlace::Unusable(why) => Err(io::Error::other(why.clone())),
        }
    }

    /// A file by its path relative to the top.
    fn get_top(&self, name: &str) -> io::Result<Vec<u8>> {
        match &self.place {
            ResultPlace::Folder(folder) => folder.get(name, max_bytes(name)),
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.get(name, max_bytes(name)),
            ResultPlace::Unusable(why) => Err(io::Error::other(why.clone())),
        }
    }

    /// The sorted paths of the files in a folder that end with `suffix`, relative to the top.
    fn list_top(&self, folder: &str, suffix: &str) -> io::Result<Vec<String>> {
        let mut names = match &self.place {
            ResultPlace::Folder(results) => results.list(folder)?,
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.list(folder)?,
            ResultPlace::Unusable(why) => return Err(io::Error::other(why.clone())),
        };
        names.retain(|name| name.ends_with(suffix));
        names.sort();
        Ok(names)
    }
}

/// The name of a file of a leg: `NAME.json`, or `NAME-2.json` and so on after the crawl was continued.
fn of_leg(name: &str, leg: u32) -> String {
    if leg <= 1 { format!("{name}.json") } else { format!("{name}-{leg}.json") }
}

/// The file that exists if a round has begun.
fn round_file(round: u32) -> String {
    if round == 1 { FLEET_FILE.to_owned() } else { format!("{ROUNDS}/{round}.json") }
}

/// Whether this is the name of a file of the archive. Names come from records, so a name that leads out of the archive
/// is rejected.
fn is_archive_name(name: &str) -> bool {
    name.strip_prefix("archive/").is_some_and(|file| !file.contains(['/', '\\']) && file != "..")
}

/// The size of the largest file of this name that is read. Anyone who can write to the store chooses the sizes.
fn max_bytes(name: &str) -> u64 {
    match name {
        _ if name.ends_with(".json") => MAX_JSON,
        _ if is_archive_name(name) => MAX_FILE,
        _ => MAX_SEGMENT,
    }
}

/// The error for a file that exceeds its limit.
fn too_large(name: &str, size: u64) -> io::Error {
    io::Error::other(format!("{name} has {size} bytes, more than Argiope writes"))
}

/// The error for records that were settled and are gone.
fn missing(what: &str) -> io::Error {
    let rest =
        "files were deleted. Restore them, or let argiope merge --allow-missing make a crawl directory of the rest";
    io::Error::new(io::ErrorKind::NotFound, format!("{what}: {rest}"))
}

fn damaged(name: &str) -> io::Error {
    io::Error::other(format!("{name} is damaged"))
}

fn exists(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} exists with other content"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_an_address_is_not_shown() {
        let shown = |text: &str| redacted_place(Path::new(text));
        assert_eq!(shown("s3://KEY:SEC/RET@bucket/prefix"), "s3://***@bucket/prefix");
        assert_eq!(shown("s3://bucket/prefix"), "s3://bucket/prefix");
        assert_eq!(shown("/home/me@work/out"), "/home/me@work/out");
    }

    #[test]
    fn a_missing_segment_is_an_error_unless_it_is_allowed() {
        // The names of the positions, and the file that is deleted with the segment.
        for (has_end, also_deleted) in [(false, None), (true, None), (true, Some("settled/me-2.json"))] {
            let folder = tempfile::tempdir().expect("a folder");
            let store = SegmentStore::create(folder.path(), 1, "{}").expect("the store is created");
            for sequence in 1..=3 {
                let lines = format!("{sequence}\n").into_bytes();
                let group = SegmentGroup { bucket: 1, epoch: 1, sequence, lines, ..SegmentGroup::default() };
                store.write("me", &format!("me-{sequence}"), &[group]).expect("written");
                store.write_positions(&format!("me-{sequence}"), &[(1, 1, "me".into(), sequence)]).expect("written");
            }
            if has_end {
                store.write_final_positions(&[(1, 1, "me".into(), 3)]).expect("written");
            }
            store.read(|_| Ok(())).expect("complete");
            for file in [Some("records/me-2.jsonl.zst"), also_deleted].into_iter().flatten() {
                std::fs::remove_file(folder.path().join(file)).expect("removed");
            }
            let why = store.read(|_| Ok(())).expect_err("a segment is missing").to_string();
            assert!(why.contains("--allow-missing"), "{why}");
            assert!(why.contains("me-2") || also_deleted.is_some(), "{why}");
            let mut count = 0;
            let counted = |_: &[u8]| {
                count += 1;
                Ok(())
            };
            store.allowing_missing(true).read(counted).expect("the rest is read");
            assert_eq!(count, 2);
        }
    }

    #[test]
    fn a_reader_gets_settled_records_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SegmentStore::create(folder.path(), 1, "{}").expect("the store is created");
        let group = |bucket, epoch, sequence, text: &str| SegmentGroup {
            bucket,
            epoch,
            sequence,
            lines: format!("{text}\n").into_bytes(),
            ..SegmentGroup::default()
        };
        store.write("one", "one-1", &[group(1, 1, 1, "a"), group(2, 1, 1, "b")]).expect("written");
        store.write("one", "one-2", &[group(1, 1, 2, "never settled")]).expect("written");
        store.write("two", "two-1", &[group(1, 2, 1, "c")]).expect("written");
        store.write("two", "two-1", &[group(1, 2, 1, "c")]).expect("written again");
        assert!(store.write("two", "two-1", &[group(1, 2, 1, "another")]).is_err(), "records would be lost");
        store.write_positions("one-1", &[(1, 1, "one".into(), 1), (2, 1, "one".into(), 1)]).expect("written");
        assert!(!store.is_final().expect("read"));
        let all = [(1, 2, "two".into(), 1), (1, 1, "one".into(), 1), (2, 1, "one".into(), 1)];
        store.write_final_positions(&all).expect("written");
        let mut lines = Vec::new();
        store
            .read(|line| {
                lines.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            })
            .expect("read");
        assert_eq!(lines, ["a\n", "b\n", "c\n"]);
        assert!(store.is_final().expect("read") && SegmentStore::has_results(folder.path()));
        assert!(SegmentStore::create(folder.path(), 1, "another crawl").is_err());
        // A round is stored next to the previous round and refers to its records.
        let second = SegmentStore::create(folder.path(), 2, "{}").expect("the store is created");
        assert_eq!(second.begin_round("later").expect("read"), "{}", "the first process decides");
        assert_eq!((store.rounds().expect("read"), second.is_final().expect("read")), (2, false));
        let names = second.earlier_segments().expect("read");
        let mut places = Vec::new();
        let keep = |record: PlacedRecord<'_>| {
            places.push((String::from_utf8_lossy(record.line).into_owned(), record.place));
            Ok(())
        };
        store.placed_records(&names, keep).expect("read");
        assert_eq!(places.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), ["a\n", "b\n", "c\n"]);
        for (line, EarlierPlace { segment, offset, length, .. }) in places {
            let lines = second.group_lines(&names[segment as usize], offset, length).expect("read");
            assert_eq!(lines, line.as_bytes());
        }
        second.write("three", "three-1", &[group(1, 1, 1, "again")]).expect("written");
        second.write_positions("three-1", &[(1, 1, "three".into(), 1)]).expect("written");
        assert_eq!(second.earlier_segments().expect("read"), names);
        // A crawl that ended at a limit can be continued. Its results then have no end until the next one.
        store.write_end("limit").expect("written");
        store.begin_leg(2).expect("begun");
        assert!(!store.is_final().expect("read") && store.end().expect("read").is_none());
        store.write("two", "two-2", &[group(1, 2, 2, "e")]).expect("written");
        store.write_positions("two-2", &[(1, 2, "two".into(), 2)]).expect("written");
        let count = |store: &SegmentStore| {
            let mut count = 0;
            let counted = |_: &[u8]| {
                count += 1;
                Ok(())
            };
            store.read(counted).map(|()| count).expect("read")
        };
        assert_eq!(count(&store), 4);
        let positions = [(1, 2, "two".into(), 2), (1, 1, "one".into(), 1), (2, 1, "one".into(), 1)];
        store.write_final_positions(&positions).expect("written");
        store.write_end("finished").expect("written");
        assert_eq!((store.is_final().expect("read"), store.end().expect("read")), (true, Some("finished".into())));
        assert_eq!(count(&store), 4);
        let with_more = SegmentGroup {
            graph: vec![b"chunk 1".to_vec(), b"chunk 2".to_vec()],
            notes: vec![("h".into(), b"{}".to_vec())],
            ..group(2, 1, 1, "d")
        };
        let unfinished = tempfile::tempdir().expect("a folder");
        let store = SegmentStore::create(unfinished.path(), 1, "{}").expect("the store is created");
        store.write("one", "one-3", &[with_more]).expect("written");
        store.write_positions("one-3", &[(2, 1, "one".into(), 1)]).expect("written");
        let mut items = Vec::new();
        let keep = |item: SegmentItem<'_>| {
            items.push(format!("{item:?}"));
            Ok(())
        };
        store.read_items(keep).expect("read");
        assert!(items[0].contains("Note") && items[1].contains("Graph") && items[2].contains("Graph"), "{items:?}");
        assert!(store.archive("archive/../fleet.json").is_err());
        // Any zstd tool reads a segment.
        let path = unfinished.path().join("records/one-3.jsonl.zst");
        let text = zstd::decode_all(std::fs::File::open(path).expect("the segment exists")).expect("valid zstd");
        assert_eq!(text, b"d\n");
        let path = folder.path().join("records/one-1.jsonl.zst");
        let text = zstd::decode_all(std::fs::File::open(path).expect("the segment exists")).expect("valid zstd");
        assert_eq!(text, b"a\nb\n");
    }
}
