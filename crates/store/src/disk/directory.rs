//! The crawl directory: `crawl.json`, opening, locking and removing.
//!
//! The first commit writes `crawl.json` under a temporary name and renames it. A crawl exists if and only if this file
//! exists. Other files without it are leftovers of an interrupted start.

use super::crawl_file::{CrawlFile, CrawlSettings, NAME, OtherRoots, SettingChange, TEMPORARY_NAME};
use super::fault::{damaged, failed, failed_to_open};
use super::files::Files;
use super::frontier::DiskFrontier;
use super::lock::{self, Lock};
use super::log::{FOLDER, LogWriter};
use super::os_files::OsFiles;
use super::record::Record;
use super::{index, log, marks, run, snapshot_file, spill};
use argiope_core::{Remedy, StoreError, StoreErrorKind};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The name of `crawl.json` while the crawl is being removed.
const REMOVAL_NAME: &str = "crawl.json.gone";
const LOCK: &str = "lock";
/// The folder of archives.
const ARCHIVE: &str = "archive";
/// The report at the end of the last run.
pub const REPORT: &str = "report.txt";
/// What receivers have of the records (`--to`).
pub const PUSH: &str = "push.json";
/// How this file begins.
const PUSH_START: &[u8] = b"{\"argiope_push\":";
/// The control socket of a running crawl. It is meaningless after the process ends.
pub const SOCKET: &str = "control.sock";
/// The folder in which the control socket is created, before it is moved.
pub const SOCKET_FOLDER: &str = "control.new";

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
    open_with(directory, settings, memory_limit, OtherRoots::Refused)
}

/// As [`open`]. `roots` says whether the roots may be others than those of the directory.
pub fn open_with(
    directory: &Path,
    settings: &CrawlSettings,
    memory_limit: usize,
    roots: OtherRoots,
) -> Result<OpenedDirectory, StoreError> {
    let (files, lock) = lock_directory(directory)?;
    let opened = open_files(files, settings, memory_limit, roots)?;
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

/// The settings of the crawl in a directory; `None` if it has no crawl that can be read.
pub fn settings_of(directory: &Path) -> Option<CrawlSettings> {
    CrawlFile::find(&OsFiles::new(directory), NAME).ok().flatten().map(|crawl| crawl.settings)
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
    open_files(files, settings, memory_limit, OtherRoots::Refused)
}

fn open_files(
    files: Arc<dyn Files>,
    settings: &CrawlSettings,
    memory_limit: usize,
    roots: OtherRoots,
) -> Result<OpenedDirectory, StoreError> {
    if is_being_removed(&*files) {
        remove_in(&files, None)?;
    }
    match CrawlFile::find(&*files, NAME)? {
        Some(mut found) => {
            let changes = found.compare(&*files, settings, roots)?;
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
            marks::NAME => (!marks::is_ours(files)).then(|| marks::NAME.to_owned()),
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
    let incomplete = format!("{}.new", snapshot_file::NAME);
    let snapshots =
        [snapshot_file::NAME, &incomplete].into_iter().filter(|name| snapshot_file::is_ours(&**files, name));
    others.extend(snapshots.map(str::to_owned));
    others.extend(may_be_crawl_file(&**files, TEMPORARY_NAME).then(|| TEMPORARY_NAME.to_owned()));
    others.extend(marks::is_ours(&**files).then(|| marks::NAME.to_owned()));
    others.extend(is_push_file(&**files).then(|| PUSH.to_owned()));
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

/// Whether `push.json` is that of a crawl.
fn is_push_file(files: &dyn Files) -> bool {
    let mut start = [0; PUSH_START.len()];
    let read = files.open(PUSH).and_then(|file| file.read_at(&mut start, 0));
    read.is_ok_and(|length| start.get(..length) == Some(PUSH_START))
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
