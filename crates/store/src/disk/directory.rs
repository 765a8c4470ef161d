//! The crawl directory: `crawl.json`, opening, locking and removing.
//!
//! The first commit writes `crawl.json` under a temporary name and renames it. A crawl exists if and only if this file
//! exists. Other files without it are leftovers of an interrupted start.

use super::fault::{damaged, failed, failed_to_open};
use super::files::Files;
use super::frontier::DiskFrontier;
use super::lock::{self, Lock};
use super::log::{FOLDER, LogWriter, VERSION};
use super::os_files::OsFiles;
use super::record::Record;
use super::{index, log, run, snapshot, spill};
use crate::unpredictable;
use argiope_core::{Remedy, StoreError, StoreErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The file that identifies a crawl directory.
const NAME: &str = "crawl.json";
/// The name under which `crawl.json` is written before it is renamed.
const TEMPORARY_NAME: &str = "crawl.json.new";
/// The name of `crawl.json` while the crawl is being removed.
const REMOVAL_NAME: &str = "crawl.json.gone";
const LOCK: &str = "lock";
/// Limit on the length of `crawl.json`. It is large because the settings contain all roots.
const MAX_CRAWL_FILE: u64 = 1 << 30;
/// The folder of archives.
const ARCHIVE: &str = "archive";
/// The report at the end of the last run.
pub const REPORT: &str = "report.txt";
/// The control socket of a running crawl. It is meaningless after the process ends.
pub const SOCKET: &str = "control.sock";
/// The folder in which the control socket is created, before it is moved.
pub const SOCKET_FOLDER: &str = "control.new";

/// The settings that decide which pages are crawled: roots, scope, robots. Each name has a list of values, as text.
/// A crawl with other settings is another crawl and needs another directory. The exceptions are in `MAY_CHANGE`.
pub type CrawlSettings = BTreeMap<String, Vec<String>>;

/// The settings that a later run may change. The new values are then applied to all known links again.
const MAY_CHANGE: [&str; 4] = ["scope", "include", "exclude", "depth"];

/// A setting whose value in the current command differs from that in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    pub name: String,
    pub before: Vec<String>,
    pub now: Vec<String>,
}

/// The contents of `crawl.json`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CrawlFile {
    /// The format version of the directory.
    format: u32,
    /// The id of the crawl. It is the seed of all checksums in its files.
    #[serde(with = "hex")]
    pub(super) crawl: u64,
    /// The key of the fingerprints.
    #[serde(with = "hex")]
    pub(super) key: u64,
    pub settings: CrawlSettings,
    /// The hash of the file's text, computed with zero in place of this field.
    #[serde(with = "hex")]
    check: u64,
}

impl CrawlFile {
    /// The contents for results that are not in a crawl directory, such as the segments of a fleet.
    pub fn without_directory() -> Self {
        Self::new(&CrawlSettings::new())
    }

    fn new(settings: &CrawlSettings) -> Self {
        Self { format: VERSION, crawl: unpredictable(), key: unpredictable(), settings: settings.clone(), check: 0 }
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The checksum of the contents.
    fn checksum(&mut self) -> u64 {
        // The field is cleared in place. Copying the settings would be expensive with many roots.
        let check = std::mem::take(&mut self.check);
        let checksum = xxh3_64(self.text().as_bytes());
        self.check = check;
        checksum
    }

    /// Reads `crawl.json`.
    pub(super) fn read(files: &dyn Files) -> Result<Self, StoreError> {
        Self::find(files, NAME)?.ok_or_else(|| {
            // `list` does not distinguish a missing directory from an empty one.
            let is_missing = files.sync_folder("").is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            let why = if is_missing { "it does not exist".to_owned() } else { format!("it has no {NAME}") };
            let message = format!("{} is not a crawl directory: {why}", files.describe(""));
            StoreError::new(StoreErrorKind::Format, message)
        })
    }

    /// Reads a file with the format of `crawl.json`; `None` if it does not exist.
    fn find(files: &dyn Files, name: &str) -> Result<Option<Self>, StoreError> {
        let file = match files.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| failed_to_open(files, name, "read", error))?,
        };
        let length = file.length().map_err(|error| failed(files, name, "read", error))?;
        if length > MAX_CRAWL_FILE {
            return Err(damaged(files, name, &format!("it has {length} bytes, more than a crawl writes")));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = file.read_at(&mut bytes, 0).map_err(|error| failed(files, name, "read", error))?;
        bytes.truncate(read);
        #[derive(serde::Deserialize)]
        struct Format {
            format: u32,
        }
        if let Ok(Format { format }) = serde_json::from_slice(&bytes)
            && format != VERSION
        {
            let file = files.describe(name);
            let message = format!("{file} has format {format}, this program knows {VERSION}");
            return Err(StoreError::new(StoreErrorKind::Format, message).with_remedy(Remedy::NewerVersion));
        }
        let mut found: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(files, name, &error.to_string()))?;
        if found.checksum() != found.check {
            return Err(damaged(files, name, "it does not match its checksum"));
        }
        Ok(Some(found))
    }

    /// Makes this a crawl directory: writes `crawl.json` under a temporary name, syncs it, renames it.
    pub(super) fn write(&mut self, files: &dyn Files) -> Result<(), StoreError> {
        self.check = self.checksum();
        let write = || -> io::Result<()> {
            let mut file = files.create(TEMPORARY_NAME)?;
            file.write_at(self.text().as_bytes(), 0)?;
            file.sync()?;
            files.rename(TEMPORARY_NAME, NAME)?;
            files.sync_folder("")
        };
        write().map_err(|error| failed(files, NAME, "write", error))
    }

    /// Returns the settings that the command changes. If one of them may not change, the error lists all differences.
    fn compare(&self, files: &dyn Files, settings: &CrawlSettings) -> Result<Vec<SettingChange>, StoreError> {
        let values = |settings: &CrawlSettings, name: &str| settings.get(name).cloned().unwrap_or_default();
        let names: BTreeSet<&String> = self.settings.keys().chain(settings.keys()).collect();
        let differs = |name: &&&String| self.settings.get(**name) != settings.get(**name);
        if names.iter().filter(differs).all(|name| MAY_CHANGE.contains(&name.as_str())) {
            let changed = names.iter().filter(differs).map(|name| {
                let (before, now) = (values(&self.settings, name), values(settings, name));
                SettingChange { name: (*name).clone(), before, now }
            });
            return Ok(changed.collect());
        }
        let mut message = format!("{} belongs to another crawl:", files.describe(""));
        let none = Vec::new();
        for name in names {
            let stored = self.settings.get(name).unwrap_or(&none);
            let requested = settings.get(name).unwrap_or(&none);
            for value in stored.iter().filter(|value| !requested.contains(value)) {
                message += &format!("\n  - {name}: {value}");
            }
            for value in requested.iter().filter(|value| !stored.contains(value)) {
                message += &format!("\n  + {name}: {value}");
            }
            if stored != requested
                && stored.iter().all(|value| requested.contains(value))
                && stored.len() == requested.len()
            {
                message += &format!("\n  {name}: in another order");
            }
        }
        message += "\n(- is in the directory, + was requested now)";
        Err(StoreError::new(StoreErrorKind::OtherCrawl, message).with_remedy(Remedy::OtherDirectoryOrStartOver))
    }
}

/// Numbers as hexadecimal text.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{number:016x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

/// An open crawl directory.
pub struct OpenedDirectory {
    pub frontier: DiskFrontier,
    pub writer: LogWriter,
    /// Whether the directory already had a crawl.
    pub resumed: bool,
    /// The settings that differ from those of the last run.
    pub changes: Vec<SettingChange>,
    /// Messages for the user about damage that was found and repaired.
    pub messages: Vec<String>,
    /// The lock of the directory; `None` without one (see [`open_within`]).
    pub lock: Option<Lock>,
}

/// Opens a crawl directory, or creates it. Output files are not changed (see [`truncate_output`]). The frontier may use
/// `memory_limit` bytes of memory; beyond that it uses the disk.
pub fn open(directory: &Path, settings: &CrawlSettings, memory_limit: usize) -> Result<OpenedDirectory, StoreError> {
    let (files, lock) = lock_directory(directory)?;
    let opened = open_within(files, settings, memory_limit)?;
    Ok(OpenedDirectory { lock: Some(lock), ..opened })
}

/// Removes an earlier crawl (see [`remove`]), then opens the directory as [`open`] does. Also returns the names of the
/// removed files.
pub fn start_over(
    directory: &Path,
    settings: &CrawlSettings,
    outside_output: Option<&str>,
    memory_limit: usize,
) -> Result<(OpenedDirectory, Vec<String>), StoreError> {
    let (files, lock) = lock_directory(directory)?;
    let (opened, removed) = start_over_in(files, settings, outside_output, memory_limit)?;
    Ok((OpenedDirectory { lock: Some(lock), ..opened }, removed))
}

/// As [`start_over`], for any implementation of [`Files`], without a lock.
pub fn start_over_in(
    files: Arc<dyn Files>,
    settings: &CrawlSettings,
    outside_output: Option<&str>,
    memory_limit: usize,
) -> Result<(OpenedDirectory, Vec<String>), StoreError> {
    let removed = remove_in(&files, outside_output)?;
    Ok((open_within(files, settings, memory_limit)?, removed))
}

/// Creates the directory if it does not exist, checks that it has no files of other programs, and locks it.
fn lock_directory(directory: &Path) -> Result<(Arc<dyn Files>, Lock), StoreError> {
    let files: Arc<dyn Files> = Arc::new(OsFiles::new(directory));
    files.make_folder("").map_err(|error| failed_to_open(&*files, "", "make", error))?;
    refuse_foreign(&*files)?;
    let lock = Lock::take(&directory.join(LOCK))?;
    Ok((files, lock))
}

/// As [`open`], for any implementation of [`Files`], without a lock and without a memory limit.
pub fn open_in(files: Arc<dyn Files>, settings: &CrawlSettings) -> Result<OpenedDirectory, StoreError> {
    open_within(files, settings, usize::MAX)
}

/// As [`open`], for any implementation of [`Files`], without a lock.
pub fn open_within(
    files: Arc<dyn Files>,
    settings: &CrawlSettings,
    memory_limit: usize,
) -> Result<OpenedDirectory, StoreError> {
    if is_being_removed(&*files) {
        remove_in(&files, None)?;
    }
    match CrawlFile::find(&*files, NAME)? {
        Some(mut found) => {
            let changes = found.compare(&*files, settings)?;
            let recovered = DiskFrontier::open(files, found.crawl, found.key, memory_limit)?;
            let (frontier, mut writer, messages) = (recovered.frontier, recovered.writer, recovered.messages);
            if !changes.is_empty() {
                found.settings.clone_from(settings);
                writer.write_settings(found);
            }
            Ok(OpenedDirectory { frontier, writer, resumed: true, changes, messages, lock: None })
        }
        None => {
            let (frontier, writer) = DiskFrontier::create(files, CrawlFile::new(settings), memory_limit)?;
            Ok(OpenedDirectory {
                frontier,
                writer,
                resumed: false,
                changes: Vec::new(),
                messages: Vec::new(),
                lock: None,
            })
        }
    }
}

/// Refuses a directory that has files of other programs, unless it contains a crawl. The contents of most files decide,
/// not their names: before its first commit, a crawl leaves only a lock, a log without frames, and empty files.
fn refuse_foreign(files: &dyn Files) -> Result<(), StoreError> {
    let names = files.list("").map_err(|error| failed_to_open(files, "", "list", error))?;
    if names.iter().any(|name| name == NAME || name == REMOVAL_NAME) {
        return Ok(());
    }
    for name in &names {
        let foreign = match name.as_str() {
            LOCK | SOCKET | SOCKET_FOLDER => None,
            FOLDER => foreign_in(files, FOLDER, |name| {
                log::COMPACTION_OUTPUT.strip_prefix(FOLDER) == Some(&format!("/{name}"))
                    || log::file_number(name).is_some_and(|number| log::is_without_frames(files, number))
            })?,
            ARCHIVE | run::FOLDER | index::FOLDER => {
                foreign_in(files, name, |inner| is_empty(files, &format!("{name}/{inner}")))?
            }
            TEMPORARY_NAME => (!may_be_crawl_file(files, TEMPORARY_NAME)).then(|| TEMPORARY_NAME.to_owned()),
            other => (!is_empty(files, other)).then(|| other.to_owned()),
        };
        if let Some(foreign) = foreign {
            let directory = files.describe("");
            let message = format!("{directory} is not a crawl directory and is not empty: {foreign} is in it");
            return Err(StoreError::new(StoreErrorKind::Format, message).with_remedy(Remedy::OtherDirectory));
        }
    }
    Ok(())
}

/// The first file in a folder that does not belong to a crawl.
fn foreign_in(files: &dyn Files, folder: &str, is_ours: impl Fn(&str) -> bool) -> Result<Option<String>, StoreError> {
    let names = files.list(folder).map_err(|error| failed_to_open(files, folder, "list", error))?;
    Ok(names.iter().find(|name| !is_ours(name)).map(|name| format!("{folder}/{name}")))
}

fn is_empty(files: &dyn Files, name: &str) -> bool {
    files.open(name).and_then(|file| file.length()).is_ok_and(|length| length == 0)
}

/// Whether a file may be the beginning of `crawl.json`, or zeros that a crash left in its place.
fn may_be_crawl_file(files: &dyn Files, name: &str) -> bool {
    const START: &[u8] = b"{\n  \"format\": ";
    let mut found = [0; START.len()];
    let read = files.open(name).and_then(|file| file.read_at(&mut found, 0));
    read.is_ok_and(|read| {
        let found = found.get(..read).unwrap_or_default();
        START.starts_with(found) || found.iter().all(|byte| *byte == 0)
    })
}

/// Truncates an output file to its committed length. Returns how many bytes were removed.
pub fn truncate_output(files: &dyn Files, name: &str, committed: u64) -> Result<u64, StoreError> {
    let error = |error| failed(files, name, "cut back", error);
    let mut file = match files.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && committed == 0 => return Ok(0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(files, name, &format!("it is missing, and {committed} bytes of it are committed")));
        }
        file => file.map_err(error)?,
    };
    let length = file.length().map_err(error)?;
    if length < committed {
        return Err(damaged(files, name, &format!("{committed} bytes of it are committed, but it has {length}")));
    }
    if length > committed {
        file.set_len(committed).map_err(error)?;
        file.sync().map_err(error)?;
    }
    Ok(length - committed)
}

/// Removes the files of a crawl, for `--fresh`; returns their names. A directory that has no crawl, but files of other
/// programs, is refused. An output outside of the directory is removed only if its path is `outside_output`, which the
/// current command names, because a manipulated log could name any file.
///
/// `crawl.json` is renamed first; from then on the crawl does not exist. The renamed file is removed last. Until then,
/// a process that opens the directory finds it and continues the removal.
pub fn remove(directory: &Path, outside_output: Option<&str>) -> Result<Vec<String>, StoreError> {
    let files: Arc<dyn Files> = Arc::new(OsFiles::new(directory));
    refuse_foreign(&*files)?;
    let _lock = Lock::take(&directory.join(LOCK))?;
    remove_in(&files, outside_output)
}

/// As [`remove`], for any implementation of [`Files`], without a lock.
fn remove_in(files: &Arc<dyn Files>, outside_output: Option<&str>) -> Result<Vec<String>, StoreError> {
    match CrawlFile::find(&**files, NAME) {
        // If `crawl.json` is damaged, a log shows that the directory belongs to a crawl.
        Err(error) if error.kind != StoreErrorKind::Damaged || !log::has_log(&**files) => return Err(error),
        Ok(None) => {}
        _ => {
            let rename = || files.rename(NAME, REMOVAL_NAME).and_then(|()| files.sync_folder(""));
            rename().map_err(|error| failed(&**files, NAME, "remove", error))?;
        }
    }
    let list = |folder| files.list(folder).map_err(|error| failed(&**files, folder, "list", error));
    // Files other than the log and `crawl.json`.
    let mut others = outputs_of(files, outside_output);
    others.sort_unstable();
    others.dedup();
    let incomplete = format!("{}.new", snapshot::NAME);
    let snapshots = [snapshot::NAME, &incomplete].into_iter().filter(|name| snapshot::is_ours(&**files, name));
    others.extend(snapshots.map(str::to_owned));
    others.extend(may_be_crawl_file(&**files, TEMPORARY_NAME).then(|| TEMPORARY_NAME.to_owned()));
    others.extend([spill::NAME, log::COMPACTION_OUTPUT].map(str::to_owned));
    others.extend(index::names(&**files));
    others.extend(list(run::FOLDER)?.iter().filter_map(|name| run::file_number(name)).map(run::file_name));
    let mut in_log: Vec<u32> = list(FOLDER)?.iter().filter_map(|name| log::file_number(name)).collect();
    in_log.retain(|number| log::is_log(&**files, *number) || log::is_without_frames(&**files, *number));
    // The last file is removed first, so that the files that a crash leaves are a log without gaps.
    in_log.sort_unstable_by(|one, other| other.cmp(one));
    let mut removed = Vec::new();
    // The log names the outputs, so it is removed only after their removal is durable. `crawl.json.gone` is last.
    for names in [others, in_log.into_iter().map(log::file_name).collect(), vec![REMOVAL_NAME.to_owned()]] {
        let removed_before = removed.len();
        for name in names {
            match files.remove(&name) {
                Ok(()) if name == REMOVAL_NAME => removed.push(NAME.to_owned()),
                Ok(()) => removed.push(name),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&**files, &name, "remove", error)),
            }
        }
        let inside = removed.iter().skip(removed_before).filter(|name| is_inside(name));
        let folders: BTreeSet<&str> =
            inside.map(|name| name.rsplit_once('/').map_or("", |(folder, _)| folder)).collect();
        for folder in folders {
            files.sync_folder(folder).map_err(|error| failed(&**files, folder, "sync", error))?;
        }
    }
    Ok(removed)
}

/// Whether the removal of a crawl from this directory was interrupted.
fn is_being_removed(files: &dyn Files) -> bool {
    files.open(REMOVAL_NAME).is_ok()
}

/// The files that the log lists as created by this crawl. If the log is damaged, files may be missing from the list.
fn outputs_of(files: &Arc<dyn Files>, outside_output: Option<&str>) -> Vec<String> {
    let mut outputs = Vec::new();
    if let Ok(Some(crawl)) = CrawlFile::find(&**files, REMOVAL_NAME)
        && let Ok((log, _)) = log::LogReader::open(Arc::clone(files), crawl.crawl)
    {
        if crawl.format < 2 {
            // Format 1 did not list the report.
            outputs.push(REPORT.to_owned());
        }
        let walked = log.walk(log.first(), |_, record| {
            match record {
                Record::Output { name, .. } | Record::Created { name }
                    if is_inside(name) || outside_output == Some(name) =>
                {
                    outputs.push(name.to_owned());
                }
                _ => {}
            }
            Ok::<(), StoreError>(())
        });
        // An error ends the walk early. The list is then incomplete.
        drop(walked);
    }
    outputs
}

/// The process that is using this directory now, as text for messages: its id and its host name.
pub fn crawled_by(directory: &Path) -> Option<String> {
    lock::holder(&directory.join(LOCK))
}

/// Whether a path stays inside the directory: it is relative and has no `..`.
pub fn is_inside(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}
