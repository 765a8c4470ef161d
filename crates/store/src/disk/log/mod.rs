//! The write-ahead log of a crawl. It contains all events in order; all other state can be rebuilt from it.
//!
//! The log is one sequence of bytes, split into files of some hundred megabytes, `log/000001.log` and so on. A position
//! counts from the start of the first file, headers included. A file's header is followed by frames:
//! `mark (4) · length (4) · checksum (8) · records`. A frame is one commit and is atomic.
//!
//! The writer starts a frame only after the previous frame was synced. So a crash can leave:
//! - complete frames, followed by at most one incomplete frame. That frame is **torn**: it was never acknowledged, and
//!   is truncated;
//! - a last file with an incomplete header. It was never used, and is removed.
//!
//! An incomplete frame followed by a complete one cannot come from a crash. It is **damage**, and the log is rejected.

mod reader;
mod writer;

pub(super) use self::reader::LogReader;
pub use self::writer::LogWriter;

use super::crawl_file::FORMAT;
use super::fault::failed;
use super::files::Files;
use super::snapshot_file::Portion;
use argiope_core::StoreError;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const FOLDER: &str = "log";
/// Length of a file's header:
/// `magic (8) · format (4) · number of the file (4) · id of the crawl (8) · position of the header (8) · checksum (8)`.
pub(super) const FILE_HEADER: usize = 40;
/// Where the position of the header is in a file's header.
const POSITION_FIELD: std::ops::Range<usize> = 24..32;
/// Flag in the format field of a file that begins the log: a compaction has replaced all earlier files. After a crash,
/// earlier files may still exist.
const BEGINS_LOG: u32 = 1 << 31;
/// The temporary name of a compaction's output, which becomes the first file of the log.
pub(super) const COMPACTION_OUTPUT: &str = "log/base.new";
const MAGIC: &[u8; 8] = b"ARGIOPE\n";
/// The size of a frame's header.
pub(super) const FRAME_HEADER: usize = 16;
/// The first bytes of a frame.
const MARK: &[u8; 4] = b"\xA7FRM";
/// The maximum length of a frame's records; a larger length is not valid. `Journal::append` rejects further records
/// once a frame is longer than 1 GiB. The other 256 MiB are for the last record that it accepts.
const MAX_RECORDS: usize = (1 << 30) + (256 << 20);

/// One commit: a sealed frame to be written. At the end of a run, a batch may have no frame and only a portion of a
/// snapshot.
#[derive(Clone, Default)]
pub struct CommitBatch {
    /// The log position at which the frame starts.
    pub(super) start: u64,
    pub(super) frame: Arc<Vec<u8>>,
    /// The number of the new file, if this frame starts one.
    pub(super) new_file_number: Option<u32>,
    /// A portion of a snapshot. It does not refer to anything after this frame.
    pub(super) snapshot: Option<Arc<Portion>>,
    /// Whether the portion completes the snapshot.
    pub(super) completes_snapshot: bool,
}

impl CommitBatch {
    /// The log position at which the frame ends. When the frame is durable, everything up to this position is
    /// acknowledged.
    pub fn end(&self) -> u64 {
        self.start + self.frame.len() as u64
    }

    pub fn bytes(&self) -> usize {
        self.frame.len()
    }

    /// Drops the snapshot portion, which is large. The frontier does not need the portion to acknowledge the batch.
    pub fn without_portion(self) -> Self {
        Self { snapshot: None, ..self }
    }
}

/// Fills in the header of a frame that starts at the log position `start`. `crawl` is the id of the crawl.
pub(super) fn seal(frame: &mut [u8], crawl: u64, start: u64) {
    if let Some((head, records)) = frame.split_at_mut_checked(FRAME_HEADER) {
        head[..4].copy_from_slice(MARK);
        head[4..8].copy_from_slice(&(records.len() as u32).to_le_bytes());
        head[8..].copy_from_slice(&xxh3_64_with_seed(records, crawl ^ start).to_le_bytes());
    }
}

/// The length of the records and their checksum, from a frame's header.
fn frame_head(head: &[u8]) -> Option<(usize, u64)> {
    let (&[m0, m1, m2, m3, l0, l1, l2, l3, ref sum @ ..], _) = head.split_first_chunk::<FRAME_HEADER>()?;
    ([m0, m1, m2, m3] == *MARK).then(|| (u32::from_le_bytes([l0, l1, l2, l3]) as usize, u64::from_le_bytes(*sum)))
}

/// The header of a log file. `number` is the number of the file, `position` that of the header.
fn header(format: u32, number: u32, crawl: u64, position: u64) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&format.to_le_bytes());
    header[12..16].copy_from_slice(&number.to_le_bytes());
    header[16..24].copy_from_slice(&crawl.to_le_bytes());
    header[24..32].copy_from_slice(&position.to_le_bytes());
    let sum = xxh3_64_with_seed(&header[..32], 0);
    header[32..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// The header of a compacted file that begins the log. Its position is 0. The positions between its end and the next
/// file belonged to records that were compacted away.
pub(super) fn compacted_header(number: u32, crawl: u64) -> [u8; FILE_HEADER] {
    header(FORMAT | BEGINS_LOG, number, crawl, 0)
}

/// Removes the files before the first file of the log, and the temporary file of an interrupted compaction.
pub(super) fn remove_obsolete(files: &dyn Files, first: u32) -> Result<(), StoreError> {
    let names = files.list(FOLDER).map_err(|error| failed(files, FOLDER, "list", error))?;
    let mut obsolete: Vec<String> =
        names.iter().filter_map(|name| file_number(name)).filter(|number| *number < first).map(file_name).collect();
    obsolete.extend(
        names.iter().any(|name| COMPACTION_OUTPUT.ends_with(&format!("/{name}"))).then(|| COMPACTION_OUTPUT.to_owned()),
    );
    for name in &obsolete {
        files.remove(name).map_err(|error| failed(files, name, "remove", error))?;
    }
    if !obsolete.is_empty() {
        files.sync_folder(FOLDER).map_err(|error| failed(files, FOLDER, "sync", error))?;
    }
    Ok(())
}

pub(super) fn file_name(number: u32) -> String {
    format!("{FOLDER}/{number:06}.log")
}

/// The number of a file of the log; `None` for anything else in its folder.
pub(super) fn file_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".log")?.parse().ok()?;
    (file_name(number).strip_prefix(FOLDER)?.strip_prefix('/')? == name).then_some(number)
}

/// Whether a file is a log file of a crawl, by its header.
pub(super) fn is_log(files: &dyn Files, number: u32) -> bool {
    let mut found = [0; FILE_HEADER];
    let read = files.open(&file_name(number)).and_then(|file| file.read_at(&mut found, 0));
    let (start, sum) = found.split_at(32);
    read.is_ok_and(|read| read == FILE_HEADER)
        && start.starts_with(MAGIC)
        && sum == xxh3_64_with_seed(start, 0).to_le_bytes()
}

/// Whether a file has no frames, as a crash can leave it: it is empty, or it has a header, a part of a header or zeros.
/// The checksum of the header is not checked.
pub(super) fn is_without_frames(files: &dyn Files, number: u32) -> bool {
    let mut found = [0; FILE_HEADER + 1];
    let read = files.open(&file_name(number)).and_then(|file| file.read_at(&mut found, 0));
    read.is_ok_and(|read| match found.get(..read) {
        Some(bytes) if read <= FILE_HEADER => {
            bytes.iter().all(|byte| *byte == 0) || bytes.starts_with(MAGIC) || MAGIC.starts_with(bytes)
        }
        _ => false,
    })
}

/// Whether at least one log file has a valid header. The rest of the log may be damaged.
pub(super) fn has_log(files: &dyn Files) -> bool {
    let names = files.list(FOLDER).unwrap_or_default();
    names.iter().filter_map(|name| file_number(name)).any(|number| is_log(files, number))
}
