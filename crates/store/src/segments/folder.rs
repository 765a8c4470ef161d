//! [`ResultFolder`]: results in a folder that all processes can write to.
//!
//! Invariant: no name leads out of the folder. Files are opened step by step without following symbolic links below the
//! folder, and only regular files are read, so that a foreign link or pipe neither redirects nor blocks a reader.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// The largest file that is read. Segments and files of archives are closed long before.
pub(super) const MAX_FILE: u64 = 2 << 30;

/// A folder with the results of a fleet.
#[derive(Clone, Debug)]
pub struct ResultFolder {
    path: PathBuf,
}

impl fmt::Display for ResultFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl ResultFolder {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Creates a file, which appears under its name only after its content is durable. Returns `false` if the name
    /// already exists.
    pub fn create_new(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        let path = self.path.join(name);
        if path.exists() {
            return Ok(false);
        }
        let folder = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(folder)?;
        let mut partial = path.clone().into_os_string();
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = PathBuf::from(partial);
        // Unlike a rename, a hard link fails if the file exists.
        let linked = write_durably(&partial, content).and_then(|()| fs::hard_link(&partial, &path));
        // Also after a failure: the partial file would take space on a disk that may be full.
        let removed = fs::remove_file(&partial);
        let is_new = match linked {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        removed?;
        File::open(folder)?.sync_all()?;
        Ok(is_new)
    }

    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let (file, length) = self.open(name)?;
        if length > MAX_FILE {
            return Err(io::Error::other(format!("{name} has {length} bytes, more than Argiope writes")));
        }
        let mut content = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut content)?;
        Ok(content)
    }

    /// A part of a file.
    pub fn get_range(&self, name: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let (file, size) = self.open(name)?;
        // Offset and length may come from the store. They are checked before the memory is allocated.
        if length > MAX_FILE || offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut part = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut part, offset)?;
        Ok(part)
    }

    /// Opens a regular file, and returns its size.
    fn open(&self, name: &str) -> io::Result<(File, u64)> {
        let is_plain = |part: &&str| !part.is_empty() && *part != "." && *part != "..";
        if !name.split('/').all(|part| is_plain(&part)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not the name of a result")));
        }
        let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
        let within = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = openat(CWD, &self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            folder = openat(&folder, part, within | OFlags::DIRECTORY, Mode::empty())?;
        }
        // Without NONBLOCK, opening a pipe would wait for a writer.
        let file = File::from(openat(&folder, file, within | OFlags::NONBLOCK, Mode::empty())?);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok((file, metadata.len())),
            false => Err(io::Error::other(format!("{name} is not a regular file"))),
        }
    }

    /// The files of a folder, each as `folder/name`. Empty if the folder does not exist.
    pub fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.path.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().to_str().map(|name| format!("{folder}/{name}")));
        }
        Ok(names)
    }
}

fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_links_and_pipes_do_not_lead_out_of_the_folder() {
        let outer = tempfile::tempdir().expect("a folder");
        let path = outer.path().join("results");
        fs::create_dir_all(path.join("records")).expect("created");
        fs::write(outer.path().join("secret"), "secret").expect("written");
        fs::write(path.join("records/a"), "content").expect("written");
        std::os::unix::fs::symlink(outer.path().join("secret"), path.join("records/link")).expect("linked");
        std::os::unix::fs::symlink(outer.path(), path.join("up")).expect("linked");
        rustix::fs::mknodat(CWD, path.join("records/pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
        let folder = ResultFolder::new(&path);
        assert_eq!(folder.get("records/a").expect("read"), b"content");
        assert_eq!(folder.get_range("records/a", 3, 4).expect("read"), b"tent");
        for name in ["../secret", "records/link", "up/secret", "records/pipe", "records", "/etc/passwd", ""] {
            assert!(folder.get(name).is_err(), "{name}");
            assert!(folder.get_range(name, 0, 1).is_err(), "{name}");
        }
        for (offset, length) in [(0, u64::MAX), (u64::MAX, 1), (4, 4), (0, 1 << 40)] {
            assert!(folder.get_range("records/a", offset, length).is_err(), "{offset} {length}");
        }
        fs::OpenOptions::new()
            .write(true)
            .open(path.join("records/a"))
            .expect("opened")
            .set_len(20 << 30)
            .expect("sparse");
        assert!(folder.get("records/a").is_err());
    }
}
