//! [`Files`]: the file system operations that the store needs, as a trait.
//!
//! [`OsFiles`](super::OsFiles) is the real implementation. Tests use another one that loses, tears and reorders
//! unsynced writes, or fails at the k-th call. So the guarantees about power cuts and full disks are tested at every
//! single call.
//!
//! Guarantees of every implementation, on which the store relies:
//! - after `sync` returned, the file's bytes and length are durable; before that, any part of what was written may be
//!   lost in a crash;
//! - after `sync_folder` returned, the names in that folder are durable; before that, a crash may undo a creation, a
//!   rename or a removal;
//! - a rename is atomic: at any time the name refers to the old file or to the new one.
//!
//! Names are relative to the crawl directory and use `/`.

use std::io;

/// The file system operations that the store needs.
pub trait Files: Send + Sync {
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Creates an empty file, or truncates an existing one.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Creates a folder unless it exists.
    fn make_folder(&self, name: &str) -> io::Result<()>;
    /// The names in a folder, relative to it, in any order. Empty if there is no such folder.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Makes the names in a folder durable. The crawl directory itself is `""`.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;
    /// The name for messages to users.
    fn describe(&self, name: &str) -> String;
    /// The total size of all files of the crawl directory; zero if it is unknown.
    fn size(&self) -> u64 {
        0
    }
}

/// An open file.
pub trait File: Send {
    fn length(&self) -> io::Result<u64>;
    /// Reads up to `into.len()` bytes; fewer only at the file's end.
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes all bytes.
    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<()>;
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Makes bytes and length durable.
    fn sync(&mut self) -> io::Result<()>;
}
