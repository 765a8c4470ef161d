//! [`ResultFolder`]: results in a folder that all processes can write to.
//!
//! Invariant: no name leads out of the folder. Files are opened step by step without following symbolic links below the
//! folder, and only regular files are read, so that a foreign link or pipe neither redirects nor blocks a reader.

use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, linkat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::{MAX_FILE, too_large};

/// How a file or folder below the top is opened: never through a symbolic link.
const WITHIN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

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
        fs::create_dir_all(&self.path)?;
        let (folder, name) =
            self.folder_of(name, |folder, part| match mkdirat(folder, part, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) => Ok(()),
                created => created,
            })?;
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Ok(false),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // A name that cannot be foreseen: see `create_partial`.
        let partial = format!("{name}.{:016x}.partial", RandomState::new().hash_one(std::process::id()));
        let written = create_partial(&folder, &partial, content);
        // Unlike a rename, a hard link fails if the file exists.
        let linked = written.and_then(|()| Ok(linkat(&folder, &partial, &folder, name, AtFlags::empty())?));
        // Also after a failure: the partial file would take space on a disk that may be full.
        let removed = unlinkat(&folder, &partial, AtFlags::empty());
        let is_new = match linked {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        removed?;
        fsync(&folder)?;
        Ok(is_new)
    }

    /// A file of at most this size.
    pub fn get(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let (file, length) = self.open(name)?;
        if length > limit {
            return Err(too_large(name, length));
        }
        let mut content = Vec::new();
        file.take(limit).read_to_end(&mut content)?;
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

    /// Opens the folder of a result step by step, and returns it with the last part of the name. `prepare` is called
    /// for each folder below the top before it is opened.
    fn folder_of<'a>(
        &self,
        name: &'a str,
        prepare: impl Fn(&OwnedFd, &str) -> rustix::io::Result<()>,
    ) -> io::Result<(OwnedFd, &'a str)> {
        let is_plain = |part: &&str| !part.is_empty() && *part != "." && *part != "..";
        if !name.split('/').all(|part| is_plain(&part)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not the name of a result")));
        }
        let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
        let mut folder = openat(CWD, &self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            prepare(&folder, part)?;
            folder = openat(&folder, part, WITHIN | OFlags::DIRECTORY, Mode::empty())?;
        }
        Ok((folder, file))
    }

    /// Opens a regular file, and returns its size.
    fn open(&self, name: &str) -> io::Result<(File, u64)> {
        let (folder, file) = self.folder_of(name, |_, _| Ok(()))?;
        // Without NONBLOCK, opening a pipe would wait for a writer.
        let file = File::from(openat(&folder, file, WITHIN | OFlags::NONBLOCK, Mode::empty())?);
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

/// Writes a new file. If it exists already, even as a link, that is an error.
fn create_partial(folder: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let flags = WITHIN | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = File::from(openat(folder, name, flags, Mode::from_raw_mode(0o666))?);
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
        assert_eq!(folder.get("records/a", 7).expect("read"), b"content");
        assert!(folder.get("records/a", 6).is_err());
        assert_eq!(folder.get_range("records/a", 3, 4).expect("read"), b"tent");
        for name in ["../secret", "records/link", "up/secret", "records/pipe", "records", "/etc/passwd", ""] {
            assert!(folder.get(name, MAX_FILE).is_err(), "{name}");
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
        assert!(folder.get("records/a", MAX_FILE).is_err());
    }

    #[test]
    fn files_are_not_written_through_links() {
        let outer = tempfile::tempdir().expect("a folder");
        let [path, foreign] = ["results", "foreign"].map(|name| outer.path().join(name));
        fs::create_dir(&foreign).expect("created");
        let folder = ResultFolder::new(&path);
        assert!(folder.create_new("records/a", b"one").expect("written"));
        assert!(!folder.create_new("records/a", b"two").expect("there already"));
        assert_eq!(folder.get("records/a", 3).expect("read"), b"one");
        std::os::unix::fs::symlink(&foreign, path.join("settled")).expect("linked");
        std::os::unix::fs::symlink(foreign.join("new"), path.join("end.json")).expect("linked");
        for name in ["settled/a.json", "../foreign/a", "rounds/../../foreign/a"] {
            assert!(folder.create_new(name, b"x").is_err(), "{name}");
        }
        assert!(!folder.create_new("end.json", b"x").expect("there already"));
        assert_eq!(fs::read_dir(&foreign).expect("there").count(), 0);
        assert_eq!(folder.list("records").expect("listed"), ["records/a"]);
    }
}
