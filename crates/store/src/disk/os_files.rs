//! [`OsFiles`]: a directory of the operating system's file system.
//!
//! Everything is opened relative to the directory, which is opened once. Another user may have placed files in it to
//! cause harm. So symbolic links are not followed, only regular files are opened, and a file with several hard links is
//! never written to.

use super::files::{File, Files};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Flags for opening files. Nonblocking, because opening a named pipe must not hang.
const FILE_FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Flags for opening folders.
const FOLDER_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// A directory of the machine's file system.
pub struct OsFiles {
    path: PathBuf,
    /// The directory itself, once it exists.
    root: OnceLock<Arc<OwnedFd>>,
}

impl OsFiles {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), root: OnceLock::new() }
    }

    /// The open directory.
    fn root(&self) -> io::Result<Arc<OwnedFd>> {
        if let Some(root) = self.root.get() {
            return Ok(Arc::clone(root));
        }
        // The path of the directory itself may contain symbolic links, because the user gave it.
        let root = Arc::new(rustix::fs::open(&self.path, FOLDER_FLAGS, Mode::empty())?);
        Ok(Arc::clone(self.root.get_or_init(|| root)))
    }

    /// The folder that a name is in, and the name within it. Only output files outside of the directory have absolute
    /// names.
    fn locate<'a>(&self, name: &'a str) -> io::Result<(Arc<OwnedFd>, &'a OsStr)> {
        let path = Path::new(name);
        let file = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        if path.is_absolute() {
            return Ok((Arc::new(rustix::fs::open(parent, FOLDER_FLAGS, Mode::empty())?), file));
        }
        Ok((self.folder(parent)?, file))
    }

    /// A folder within the directory.
    fn folder(&self, path: &Path) -> io::Result<Arc<OwnedFd>> {
        let mut folder = self.root()?;
        for part in path.components() {
            let Component::Normal(part) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
            let opened = rustix::fs::openat(&*folder, part, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty());
            folder = Arc::new(opened.map_err(|error| describe_symlink_error(error, &self.path.join(path)))?);
        }
        Ok(folder)
    }

    /// Opens a file for writing, or creates it.
    pub(super) fn open_or_create(&self, name: &str) -> io::Result<fs::File> {
        self.open_as(name, OFlags::RDWR | OFlags::CREATE)?.into_writable()
    }

    /// Opens a file for this kind of access.
    fn open_as(&self, name: &str, access: OFlags) -> io::Result<OsFile> {
        let (folder, file) = self.locate(name)?;
        let opened = rustix::fs::openat(&*folder, file, FILE_FLAGS | access, Mode::from_raw_mode(0o666));
        OsFile::new(opened.map_err(|error| describe_symlink_error(error, &self.path.join(name)))?.into())
    }
}

/// Replaces the error of an open that failed because it does not follow symbolic links. Other errors are returned
/// unchanged.
pub(super) fn describe_symlink_error(error: Errno, path: &Path) -> io::Error {
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    if is_link && matches!(error, Errno::LOOP | Errno::NOTDIR) {
        return io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link, which a crawl never makes");
    }
    error.into()
}

impl Files for OsFiles {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        // Fall back to reading: reports can be made from read-only directories.
        Ok(Box::new(match self.open_as(name, OFlags::RDWR) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) =>
            {
                self.open_as(name, OFlags::RDONLY)?
            }
            file => file?,
        }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(match self.open_as(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut file = self.open_as(name, OFlags::RDWR)?;
                // Truncate only now, because `set_len` checks that the file has no other hard links.
                file.set_len(0)?;
                file
            }
            file => file?,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (self.locate(from)?, self.locate(to)?);
        Ok(rustix::fs::renameat(&*from_folder, from, &*to_folder, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (folder, file) = self.locate(name)?;
        Ok(rustix::fs::unlinkat(&*folder, file, AtFlags::empty())?)
    }

    fn make_folder(&self, name: &str) -> io::Result<()> {
        if name.is_empty() || Path::new(name).is_absolute() {
            return fs::create_dir_all(self.path.join(name));
        }
        let mut made = PathBuf::new();
        for part in Path::new(name).components() {
            let parent = self.folder(&made)?;
            made.push(part);
            match rustix::fs::mkdirat(&*parent, part.as_os_str(), Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // An error if the last part exists and is not a folder.
        self.folder(&made).map(drop)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let opened = match self.folder(Path::new(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&*opened)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        if Path::new(folder).is_absolute() {
            return fs::File::open(folder)?.sync_all();
        }
        Ok(rustix::fs::fsync(&*self.folder(Path::new(folder))?)?)
    }

    fn describe(&self, name: &str) -> String {
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        path.display().to_string()
    }

    fn size(&self) -> u64 {
        folder_size(&self.path)
    }
}

/// The total size of the files in a folder and its subfolders. Does not follow symbolic links.
pub fn folder_size(folder: &Path) -> u64 {
    let mut size = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) if metadata.is_file() => size += metadata.len(),
                _ => {}
            }
        }
    }
    size
}

/// An open regular file.
pub(super) struct OsFile {
    file: fs::File,
    /// Whether the file has several hard links.
    is_shared: bool,
}

impl OsFile {
    pub fn new(file: fs::File) -> io::Result<Self> {
        let meta = file.metadata()?;
        if !meta.is_file() {
            let what = match FileType::from_raw_mode(meta.mode()) {
                FileType::Directory => "it is a folder",
                FileType::Fifo => "it is a named pipe",
                FileType::Socket => "it is a socket",
                _ => "it is a device",
            };
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{what}, not a file")));
        }
        Ok(Self { file, is_shared: meta.nlink() > 1 })
    }

    /// The file itself; an error if it has several hard links.
    pub fn into_writable(self) -> io::Result<fs::File> {
        self.writable()?;
        Ok(self.file)
    }

    /// The file for writing; an error if it has several hard links.
    fn writable(&self) -> io::Result<&fs::File> {
        if self.is_shared {
            let why = "it has another name (a hard link), so it is not written to; replace it by a copy";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(&self.file)
    }
}

/// Replaces the error of a write to a file that was opened read-only. The kernel reports EBADF for a write, and EINVAL
/// for a change of the length.
fn read_only(error: io::Error) -> io::Error {
    let numbers = [Errno::BADF, Errno::INVAL].map(Errno::raw_os_error);
    match error.raw_os_error() {
        Some(number) if numbers.contains(&number) => io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"),
        _ => error,
    }
}

impl File for OsFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match FileExt::read_at(&self.file, rest, position + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.writable()?.write_all_at(bytes, position).map_err(read_only)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.writable()?.set_len(len).map_err(read_only)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
