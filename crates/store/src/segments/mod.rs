//! The results of a fleet: immutable segments of records, and the positions up to which they are settled.
//!
//! A reader keeps a group of a segment where its sequence number is at or below the last settled one of its bucket,
//! epoch and owner: what a process wrote and never settled is left out, and what it settled is there once.

mod encoding;
mod folder;
#[cfg(feature = "object-storage")]
mod objects;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;

use encoding::{encode, index_of};
use folder::ResultFolder;
#[cfg(feature = "object-storage")]
use objects::ObjectPrefix;

pub use encoding::SegmentGroup;

const RECORDS: &str = "records";
const SETTLED: &str = "settled";
/// The name of the positions that are written at the end of the crawl.
const FINAL: &str = "final";
/// The file that marks a folder as a fleet's results.
const FLEET_FILE: &str = "fleet.json";
/// How the crawl ended, once it has.
const END_FILE: &str = "end.json";

/// The last settled sequence number of a bucket, an epoch and an owner.
pub type Position = (u32, u64, String, u64);

/// A part of a group, as a reader gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentItem<'a> {
    /// A record, with its line feed.
    Line(&'a [u8]),
    /// A chunk of the link graph. The chunks of a group follow one another.
    Graph(&'a [u8]),
    /// What is stored for a host, replacing what was stored before.
    Note { host: &'a str, note: &'a [u8] },
}

/// Where results are: a folder, or a prefix in object storage.
#[derive(Clone, Debug)]
enum ResultPlace {
    Folder(ResultFolder),
    #[cfg(feature = "object-storage")]
    Objects(ObjectPrefix),
    /// Why it cannot be used.
    Unusable(String),
}

/// The results of a fleet. Files are never changed or overwritten.
#[derive(Clone, Debug)]
pub struct SegmentStore {
    place: ResultPlace,
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

/// A place of results as messages show it. What is before an `@` in an address of object storage may be a secret.
pub fn shown_place(place: &Path) -> String {
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
    /// Opens or creates the results of a crawl. `about` describes the crawl; results of another crawl are refused.
    pub fn create(place: &Path, about: &str) -> io::Result<Self> {
        let store = Self::open(place);
        store.create_new(FLEET_FILE, about.as_bytes())?;
        if store.about()? != about {
            return Err(io::Error::other("it holds the results of another crawl"));
        }
        Ok(store)
    }

    /// The description that the results were created with.
    pub fn about(&self) -> io::Result<String> {
        String::from_utf8(self.get(FLEET_FILE)?).map_err(io::Error::other)
    }

    /// Whether this location holds the results of a fleet. Object storage is assumed to; reading it returns an error if
    /// it does not.
    pub fn is_there(place: &Path) -> bool {
        if is_object_storage(place) { true } else { place.join(FLEET_FILE).is_file() }
    }

    /// Opens a folder or a prefix. If it cannot be used, the first operation returns the error.
    pub fn open(place: &Path) -> Self {
        if !is_object_storage(place) {
            return Self { place: ResultPlace::Folder(ResultFolder::new(place)) };
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
        Self { place }
    }

    /// Writes one segment. A segment of this name with other content is an error: its records would be lost.
    pub fn write(&self, owner: &str, name: &str, groups: &[SegmentGroup]) -> io::Result<()> {
        self.create_same(&format!("{RECORDS}/{name}.jsonl.zst"), &encode(owner, groups)?)
    }

    pub fn write_positions(&self, name: &str, positions: &[Position]) -> io::Result<()> {
        let text = serde_json::to_vec(positions).map_err(io::Error::other)?;
        self.create_same(&format!("{SETTLED}/{name}.json"), &text)
    }

    /// Writes the positions of the whole crawl after its end. All processes have the same positions; the first process
    /// writes them.
    pub fn write_final_positions(&self, positions: &[Position]) -> io::Result<()> {
        let text = serde_json::to_vec(positions).map_err(io::Error::other)?;
        self.create_new(&format!("{SETTLED}/{FINAL}.json"), &text).map(drop)
    }

    /// Whether the crawl is over and all positions are written.
    pub fn is_final(&self) -> io::Result<bool> {
        match self.get(&format!("{SETTLED}/{FINAL}.json")) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How the crawl ended, if it has: what was written first.
    pub fn write_end(&self, text: &str) -> io::Result<()> {
        self.create_new(END_FILE, text.as_bytes()).map(drop)
    }

    pub fn end(&self) -> io::Result<Option<String>> {
        match self.get(END_FILE) {
            Ok(text) => String::from_utf8(text).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file of the archive.
    pub fn write_archive(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.create_same(name, content)
    }

    /// A file of the archive, as records name it.
    pub fn archive(&self, name: &str) -> io::Result<Vec<u8>> {
        // Names come from records: one that leads out of the archive is not followed.
        let is_inside = name.strip_prefix("archive/").is_some_and(|file| !file.contains(['/', '\\']) && file != "..");
        if is_inside { self.get(name) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Hands every record that counts to `each`, segment by segment.
    pub fn read(&self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.read_items(|item| match item {
            SegmentItem::Line(line) => each(line),
            SegmentItem::Graph(_) | SegmentItem::Note { .. } => Ok(()),
        })
    }

    /// Hands everything that counts to `each`: of every group the notes, the links, then the records.
    pub fn read_items(&self, mut each: impl FnMut(SegmentItem<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut settled: HashMap<(u32, u64, String), u64> = HashMap::new();
        for name in self.list(SETTLED, ".json")? {
            let positions: Vec<Position> = serde_json::from_slice(&self.get(&name)?).map_err(io::Error::other)?;
            for (bucket, epoch, owner, last) in positions {
                let known = settled.entry((bucket, epoch, owner)).or_default();
                *known = last.max(*known);
            }
        }
        for name in self.list(RECORDS, ".zst")? {
            let bytes = self.get(&name)?;
            let damaged = || io::Error::other(format!("{name} is damaged"));
            let index = index_of(&bytes).ok_or_else(damaged)?;
            for group in index.groups {
                let key = (group.bucket, group.epoch, index.owner.clone());
                if settled.get(&key).is_none_or(|last| group.sequence > *last) {
                    continue;
                }
                for (host, note) in group.notes(&bytes).ok_or_else(damaged)? {
                    each(SegmentItem::Note { host: &host, note: note.as_bytes() })?;
                }
                for chunk in group.graph(&bytes).ok_or_else(damaged)? {
                    each(SegmentItem::Graph(&chunk))?;
                }
                let lines = group.lines(&bytes).ok_or_else(damaged)?;
                for line in lines.split_inclusive(|byte| *byte == b'\n') {
                    each(SegmentItem::Line(line))?;
                }
            }
        }
        Ok(())
    }

    /// Creates a file with this content. An existing file must have the same content.
    fn create_same(&self, name: &str, content: &[u8]) -> io::Result<()> {
        if self.create_new(name, content)? || self.get(name)? == content {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} exists with other content")))
    }

    /// Creates a file with this content atomically; returns whether it is new. An existing file is not changed.
    fn create_new(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        match &self.place {
            ResultPlace::Folder(folder) => folder.create_new(name, content),
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.create_new(name, content),
            ResultPlace::Unusable(why) => Err(io::Error::other(why.clone())),
        }
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        match &self.place {
            ResultPlace::Folder(folder) => folder.get(name),
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.get(name),
            ResultPlace::Unusable(why) => Err(io::Error::other(why.clone())),
        }
    }

    /// The sorted names in a folder that end with `end`.
    fn list(&self, folder: &str, end: &str) -> io::Result<Vec<String>> {
        let mut names = match &self.place {
            ResultPlace::Folder(results) => results.list(folder)?,
            #[cfg(feature = "object-storage")]
            ResultPlace::Objects(prefix) => prefix.list(folder)?,
            ResultPlace::Unusable(why) => return Err(io::Error::other(why.clone())),
        };
        names.retain(|name| name.ends_with(end));
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_an_address_is_not_shown() {
        let shown = |text: &str| shown_place(Path::new(text));
        assert_eq!(shown("s3://KEY:SEC/RET@bucket/prefix"), "s3://***@bucket/prefix");
        assert_eq!(shown("s3://bucket/prefix"), "s3://bucket/prefix");
        assert_eq!(shown("/home/me@work/out"), "/home/me@work/out");
    }

    #[test]
    fn a_reader_keeps_what_was_settled_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SegmentStore::create(folder.path(), "{}").expect("made");
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
        store.write_final_positions(&[(1, 2, "two".into(), 1), (1, 1, "one".into(), 1)]).expect("written");
        let mut lines = Vec::new();
        store
            .read(|line| {
                lines.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            })
            .expect("read");
        assert_eq!(lines, ["a\n", "b\n", "c\n"]);
        assert!(store.is_final().expect("read") && SegmentStore::is_there(folder.path()));
        assert!(SegmentStore::create(folder.path(), "another crawl").is_err());
        let with_more = SegmentGroup {
            graph: vec![b"chunk 1".to_vec(), b"chunk 2".to_vec()],
            notes: vec![("h".into(), b"{}".to_vec())],
            ..group(2, 1, 2, "d")
        };
        store.write("one", "one-3", &[with_more]).expect("written");
        store.write_positions("one-3", &[(2, 1, "one".into(), 2)]).expect("written");
        let mut items = Vec::new();
        let keep = |item: SegmentItem<'_>| {
            items.push(format!("{item:?}"));
            Ok(())
        };
        store.read_items(keep).expect("read");
        assert!(items[2].contains("Note") && items[3].contains("Graph") && items[4].contains("Graph"), "{items:?}");
        assert!(store.archive("archive/../fleet.json").is_err());
        // Any zstd tool reads a segment.
        let path = folder.path().join("records/one-3.jsonl.zst");
        let text = zstd::decode_all(std::fs::File::open(path).expect("there")).expect("zstd");
        assert_eq!(text, b"d\n");
        let path = folder.path().join("records/one-1.jsonl.zst");
        let text = zstd::decode_all(std::fs::File::open(path).expect("there")).expect("zstd");
        assert_eq!(text, b"a\nb\n");
    }
}
