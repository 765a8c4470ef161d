//! [`Files`]: the operations that the store needs of a file system, as a trait.
//!
//! [`OsFiles`] is the real one. Tests use another that loses, tears and reorders whatever was not synced, or fails at
//! the k-th call, so the promises about power cuts and full disks are tested at every single call.
//!
//! Guarantees of every implementation, on which the store relies:
//! - after `sync` returned, the file's bytes and length are durable; before, any part of what was written may be
//!   missing;
//! - after `sync_folder` returned, the names in that folder are durable; before, a new name, a rename or a removal may
//!   be undone;
//! - a rename is atomic: the name leads to the old file or to the new one.
//!
//! Names are relative to the crawl directory and use `/`.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Every name here is that of a file made by a crawl: a symbolic link in its place may be an attack, and is not
/// followed.
fn no_links() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}

/// A file system, as far as the store needs it.
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
    /// The name as users know it, for messages.
    fn describe(&self, name: &str) -> String;
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

/// A directory of the machine's file system.
pub struct OsFiles {
    path: PathBuf,
}

impl OsFiles {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn at(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.clone() } else { self.path.join(name) }
    }
}

impl Files for OsFiles {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        // Reports also open directories that are read-only.
        let file = fs::File::options().read(true).write(true).custom_flags(no_links()).open(self.at(name));
        Ok(Box::new(match file {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                fs::File::options().read(true).custom_flags(no_links()).open(self.at(name))?
            }
            file => file?,
        }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let options = fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(no_links())
            .open(self.at(name))?;
        Ok(Box::new(options))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.at(name))
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        fs::create_dir_all(self.at(name))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.at(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        fs::File::open(self.at(folder))?.sync_all()
    }

    fn describe(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }
}

/// The file was opened for reading because writing was not allowed: the kernel reports a bad descriptor then.
fn read_only(error: io::Error) -> io::Error {
    let words = [rustix::io::Errno::BADF, rustix::io::Errno::INVAL].map(rustix::io::Errno::raw_os_error);
    match error.raw_os_error() {
        Some(number) if words.contains(&number) => io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"),
        _ => error,
    }
}

impl File for fs::File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match FileExt::read_at(self, rest, position + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, position).map_err(read_only)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        fs::File::set_len(self, len).map_err(read_only)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
