//! [`Spill`]: pieces of long queues, stored on disk instead of in memory.
//!
//! They are in `spill/queues`, a scratch file of slots of equal size. Only the current process uses it. The next
//! process rebuilds its queues from the snapshot and the log. The checksum of a piece is verified when it is read back.

use super::fault::{damaged, failed};
use super::files::{File, Files};
use super::run::FOLDER;
use argiope_core::StoreError;
use std::io;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const NAME: &str = "spill/queues";
/// The maximum length of a piece.
pub(super) const PIECE: usize = 4 * 1024;
/// The size of a slot: checksum and piece.
const SLOT_BYTES: usize = CHECKSUM_BYTES + PIECE;
/// The size of the checksum of a piece.
const CHECKSUM_BYTES: usize = 8;

/// The scratch file, which is created when it is first needed.
pub(super) struct Spill {
    files: Arc<dyn Files>,
    /// The id of the crawl.
    crawl: u64,
    file: Option<Box<dyn File>>,
    /// Number of slots in the file.
    slots: u32,
    /// Free slots.
    free: Vec<u32>,
    /// When a snapshot is read, a level of a queue (its links of one rank, see `queue.rs`) with more bytes than this is
    /// spilled.
    pub max_level_bytes: usize,
}

/// A piece that is on disk.
#[derive(Clone, Copy)]
pub(super) struct SpilledPiece {
    slot: u32,
    pub length: u32,
}

impl Spill {
    pub fn new(files: Arc<dyn Files>, crawl: u64, max_level_bytes: usize) -> Self {
        Self { files, crawl, file: None, slots: 0, free: Vec::new(), max_level_bytes }
    }

    /// Writes a piece to disk. It is at most [`PIECE`] long.
    pub fn store(&mut self, piece: &[u8]) -> Result<SpilledPiece, StoreError> {
        let slot = self.free.pop().unwrap_or(self.slots);
        let mut bytes = xxh3_64_with_seed(piece, self.crawl ^ u64::from(slot)).to_le_bytes().to_vec();
        bytes.extend_from_slice(piece);
        let mut write = || -> io::Result<()> {
            let file = match &mut self.file {
                Some(file) => file,
                none => {
                    self.files.make_folder(FOLDER)?;
                    none.insert(self.files.create(NAME)?)
                }
            };
            file.write_at(&bytes, u64::from(slot) * SLOT_BYTES as u64)
        };
        write().map_err(|error| failed(&*self.files, NAME, "write", error))?;
        self.slots = self.slots.max(slot + 1);
        Ok(SpilledPiece { slot, length: piece.len() as u32 })
    }

    /// Reads a piece without freeing its slot.
    pub fn read(&self, spilled: SpilledPiece) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; CHECKSUM_BYTES + spilled.length as usize];
        let read = self
            .file
            .as_ref()
            .map_or(Ok(0), |file| file.read_at(&mut bytes, u64::from(spilled.slot) * SLOT_BYTES as u64));
        let read = read.map_err(|error| failed(&*self.files, NAME, "read", error))?;
        let piece = bytes.split_off(CHECKSUM_BYTES);
        if read < CHECKSUM_BYTES + piece.len()
            || xxh3_64_with_seed(&piece, self.crawl ^ u64::from(spilled.slot)).to_le_bytes() != bytes.as_slice()
        {
            return Err(damaged(&*self.files, NAME, &format!("slot {} is not what was written", spilled.slot)));
        }
        Ok(piece)
    }

    /// Reads a piece and frees its slot.
    pub fn take(&mut self, spilled: SpilledPiece) -> Result<Vec<u8>, StoreError> {
        let piece = self.read(spilled)?;
        self.free.push(spilled.slot);
        Ok(piece)
    }

    pub fn bytes(&self) -> usize {
        self.free.capacity() * 4
    }
}

/// Removes the file that an earlier process left.
pub(super) fn remove_leftovers(files: &dyn Files) -> Result<(), StoreError> {
    match files.remove(NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(files, NAME, "remove", error)),
        _ => Ok(()),
    }
}
