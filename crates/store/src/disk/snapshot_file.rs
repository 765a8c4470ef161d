//! The file of a snapshot: how it is written, replaced, recognised and removed. Its contents are in `snapshot_writer` and
//! `snapshot_reader`.

use super::fault::{damaged, failed};
use super::files::{File, Files};
use super::run;
use argiope_core::{LaneId, StoreError};
use std::io;

pub(super) const NAME: &str = "snapshot";
const TEMPORARY_NAME: &str = "snapshot.new";
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ARGSNAP1");
/// The file is synced after this many bytes, because a sync of more would delay a commit for too long.
const SYNC_AFTER: usize = 8 << 20;

/// A leased link: its lane, rank and position.
pub(super) type LeasedLink = (LaneId, i32, u64);

/// Identifies a frame of the log: where it starts, where it ends, and its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogMark {
    /// The position of the frame.
    pub frame: u64,
    /// The position after the frame.
    pub end: u64,
    pub checksum: u64,
}

/// A part of a snapshot's bytes, written with a commit.
pub(super) struct Portion {
    /// The offset in the file. Zero starts a new file.
    pub at: u64,
    pub blocks: Vec<Vec<u8>>,
    /// `None` except for the last portion, which completes the snapshot: the numbers of the run files that the snapshot
    /// refers to.
    pub completes: Option<Vec<u32>>,
}

/// The snapshot being written, used by the writer thread.
#[derive(Default)]
pub(super) struct SnapshotFile {
    /// The temporary file; `None` if no snapshot is in progress.
    file: Option<Box<dyn File>>,
    /// How many bytes were written since the last sync.
    unsynced: usize,
}

impl SnapshotFile {
    /// Writes a portion; the last portion completes the snapshot. The log must already be synced up to all positions in
    /// the portion.
    pub fn write(&mut self, files: &dyn Files, portion: &Portion) -> Result<(), StoreError> {
        self.append(files, portion).map_err(|error| failed(files, TEMPORARY_NAME, "write", error))?;
        portion.completes.as_deref().map_or(Ok(()), |runs| self.publish(files, runs))
    }

    /// Writes a portion to the temporary file.
    fn append(&mut self, files: &dyn Files, portion: &Portion) -> io::Result<()> {
        if portion.at == 0 {
            *self = Self { file: Some(files.create(TEMPORARY_NAME)?), unsynced: 0 };
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut at = portion.at;
        for block in &portion.blocks {
            file.write_at(block, at)?;
            at += block.len() as u64;
            self.unsynced += block.len();
        }
        if self.unsynced >= SYNC_AFTER || portion.completes.is_some() {
            file.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Syncs the runs that the snapshot refers to, then renames the snapshot.
    fn publish(&mut self, files: &dyn Files, runs: &[u32]) -> Result<(), StoreError> {
        for name in runs.iter().map(|number| run::file_name(*number)) {
            let synced = files.open(&name).and_then(|mut file| file.sync());
            synced.map_err(|error| failed(files, &name, "sync", error))?;
        }
        let rename = || -> io::Result<()> {
            if !runs.is_empty() {
                files.sync_folder(run::FOLDER)?;
            }
            files.rename(TEMPORARY_NAME, NAME)?;
            files.sync_folder("")
        };
        self.file = None;
        rename().map_err(|error| failed(files, NAME, "replace", error))
    }
}

/// Removes all snapshots. Refuses a file of that name that is not a snapshot.
pub(super) fn remove(files: &dyn Files) -> Result<(), StoreError> {
    if !is_ours(files, NAME) {
        return Err(damaged(files, NAME, "it is not a snapshot of a crawl"));
    }
    remove_all(files, &[NAME, TEMPORARY_NAME])
}

/// Whether a file is a snapshot, begins with zeros as after a crash, is empty, or does not exist.
pub(super) fn is_ours(files: &dyn Files, name: &str) -> bool {
    let file = match files.open(name) {
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
        Ok(file) => file,
    };
    // A file starts with the length and the checksum of the first block, 12 bytes. The magic follows, 8 bytes.
    let mut start = [0; 20];
    let read = file.read_at(&mut start, 0).unwrap_or(0);
    let content = start.get(12..read.max(12)).unwrap_or_default();
    read == 0 || start.iter().all(|byte| *byte == 0) || content == MAGIC.to_le_bytes()
}

/// Removes an incomplete snapshot.
pub(super) fn remove_leftovers(files: &dyn Files) -> Result<(), StoreError> {
    remove_all(files, &[TEMPORARY_NAME])
}

/// Removes files; those that do not exist are skipped.
fn remove_all(files: &dyn Files, names: &[&str]) -> Result<(), StoreError> {
    let mut removed = false;
    for name in names {
        match files.remove(name) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(files, name, "remove", error)),
        }
    }
    if removed {
        files.sync_folder("").map_err(|error| failed(files, "", "sync", error))?;
    }
    Ok(())
}
