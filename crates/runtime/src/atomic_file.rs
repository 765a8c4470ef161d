//! [`AtomicFile`]: a file that is written under a temporary name and renamed when it is complete.
//!
//! Invariant: a symbolic link under the final name is replaced, never followed; an incomplete file never has the final
//! name; no other file is touched. The exception is a stream that the user names: see [`is_stream`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, XattrFlags, fsetxattr, lgetxattr, renameat_with};
use rustix::io::Errno;

/// A file being written.
pub struct AtomicFile {
    /// `None` once [`AtomicFile::rename_into_place`] has closed it.
    file: Option<File>,
    /// The temporary path; `None` if the file is written in place.
    temporary: Option<PathBuf>,
    /// The final path.
    path: PathBuf,
    /// Whether it is marked as written by this program: see [`AtomicFile::create_output`].
    is_marked: bool,
    /// Whether there must still be no file of the final name when this one is complete.
    is_new: bool,
}

/// The extended attribute that marks an output. Its value is the size and the time of change of the file, so that a file
/// that somebody has changed since then does not count as ours.
const MARK: &str = "user.argiope.output";

impl AtomicFile {
    /// Creates the temporary file, in the folder of `path`. A [stream](is_stream) is opened instead.
    pub fn create(path: &Path) -> io::Result<Self> {
        let final_path = path.to_owned();
        if is_stream(path) {
            let file = File::options().write(true).open(path)?;
            return Ok(Self { file: Some(file), temporary: None, path: final_path, is_marked: false, is_new: false });
        }
        if path.file_name().is_none() || path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        refuse_special(path)?;
        // A unique name. It is short, so that it is valid even if the final name has the maximum length.
        let temporary = path.with_file_name(format!(".{:016x}.part", crate::unpredictable()));
        let file = File::options().write(true).create_new(true).open(&temporary)?;
        Ok(Self { file: Some(file), temporary: Some(temporary), path: final_path, is_marked: false, is_new: false })
    }

    /// Creates a file that the user names for an output. An existing file is replaced only if it is empty, or if this
    /// program has written it and it has not been changed since.
    pub fn create_output(path: &Path) -> io::Result<Self> {
        Self::check_output(path)?;
        let mut file = Self::create(path)?;
        file.is_marked = file.temporary.is_some();
        file.is_new = path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        Ok(file)
    }

    /// The error that [`AtomicFile::create_output`] would return for an existing file.
    pub fn check_output(path: &Path) -> io::Result<()> {
        foreign_content(path).map_or(Ok(()), |why| Err(refused(why)))
    }

    /// Renames the complete file to its final name.
    pub fn rename_into_place(mut self) -> io::Result<()> {
        if let Some(file) = self.file.take().filter(|_| self.is_marked) {
            // Ignored: where the file system has no such attributes, the file is not replaced later, and the error says
            // that its origin is not known.
            let _ = fsetxattr(&file, MARK, mark_of(&file.metadata()?).as_bytes(), XattrFlags::empty());
        }
        match self.temporary.take() {
            None => Ok(()),
            Some(temporary) => self.rename(&temporary).inspect_err(|_| {
                // Remove the temporary file, which could be mistaken for the complete one.
                let _ = fs::remove_file(&temporary);
            }),
        }
    }

    /// Gives the complete file its final name.
    fn rename(&self, temporary: &Path) -> io::Result<()> {
        if self.is_new {
            match renameat_with(CWD, temporary, CWD, &self.path, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => return Err(refused("it was created in the meantime")),
                // The file system does not have this operation.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                renamed => return Ok(renamed?),
            }
        }
        fs::rename(temporary, &self.path)
    }

    /// Writes a whole file of a crawl directory. Unlike [`AtomicFile::write`], it refuses a symbolic link, a device or
    /// a pipe of this name.
    pub fn write_own(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        refuse_irregular(path)?;
        Self::write(path, bytes)
    }

    /// Writes a whole output into a folder that the user names: see [`AtomicFile::create_output`]. It refuses a symbolic
    /// link, a device or a pipe of this name, which the user does not name.
    pub fn write_output_in_folder(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        refuse_irregular(path)?;
        Self::write_output(path, bytes)
    }

    /// Writes a whole output: see [`AtomicFile::create_output`].
    pub fn write_output(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut temporary = Self::create_output(path)?;
        temporary.write_all(bytes.as_ref())?;
        temporary.rename_into_place()
    }

    /// Writes a whole file.
    pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut temporary = Self::create(path)?;
        temporary.write_all(bytes.as_ref())?;
        temporary.rename_into_place()
    }
}

/// Why this is a file with content that this program may not have written; `None` if it is not. A symbolic link has no
/// content of its own.
fn foreign_content(path: &Path) -> Option<&'static str> {
    let metadata = path.symlink_metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() > 0)?;
    let mut value = [0; 64];
    let length = lgetxattr(path, MARK, &mut value).ok();
    match length.and_then(|length| value.get(..length)) {
        Some(mark) if mark == mark_of(&metadata).as_bytes() => None,
        Some(_) => Some("it was changed after Argiope had written it"),
        // A file of somebody else, or the file system has no attributes, or they were lost when it was copied.
        None => Some("it exists, and it cannot be told whether Argiope wrote it"),
    }
}

/// The error for an output that is not replaced.
fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, format!("{why}; remove it or name another file"))
}

/// The error for a symbolic link, a device or a pipe.
fn refuse_irregular(path: &Path) -> io::Result<()> {
    match path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file; remove it")),
        false => Ok(()),
    }
}

/// Whether a path means a stream, which is written to directly: a name of an open file of this process (`/dev/stdout`,
/// `/dev/fd/3`), or a character device (`/dev/null`). A link to a device somewhere else is not one, and neither are pipes
/// and disks: others may have put them there.
pub fn is_stream(path: &Path) -> bool {
    let is_open_file = path.parent().is_some_and(|folder| {
        folder == Path::new("/dev/fd")
            || folder == Path::new("/proc/self/fd")
            || (folder == Path::new("/dev") && (path.ends_with("stdout") || path.ends_with("stderr")))
    });
    is_open_file || path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_char_device())
}

/// The error for a pipe, a socket or a disk, which others may have put there. Opening a pipe waits for its reader.
fn refuse_special(path: &Path) -> io::Result<()> {
    let is_special = |meta: fs::Metadata| !meta.is_file() && !meta.is_dir() && !meta.is_symlink();
    match path.symlink_metadata().is_ok_and(is_special) {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe, a socket or a block device")),
        false => Ok(()),
    }
}

/// The value of [`MARK`] for a file.
fn mark_of(metadata: &fs::Metadata) -> String {
    format!("{} {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Opens a file for writing, and creates it if needed. Its contents are kept; a symbolic link, a device and a pipe are
/// refused.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    refuse_special(path)?;
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let opened = File::options().write(true).create(true).truncate(false).custom_flags(no_follow).open(path);
    opened.map_err(|error| match path.is_symlink() {
        true => io::Error::new(error.kind(), "it is a symbolic link; name the file it points to"),
        false => error,
    })
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // The file was not completed.
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_output_replaces_only_what_this_program_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        for text in ["one", "two"] {
            AtomicFile::write_output(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        // A changed output, and a file of somebody else.
        for (is_removed, why) in [(false, "it was changed after Argiope"), (true, "it cannot be told whether Argiope")]
        {
            if is_removed {
                fs::remove_file(&path).unwrap();
            }
            fs::write(&path, "precious").unwrap();
            let error = AtomicFile::write_output(&path, "new").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        }
        fs::write(&path, "").unwrap();
        AtomicFile::write_output(&path, "in an empty file").unwrap();
    }

    #[test]
    fn an_output_does_not_replace_a_file_that_was_created_in_the_meantime() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let mut output = AtomicFile::create_output(&path).unwrap();
        output.write_all(b"new").unwrap();
        fs::write(&path, "precious").unwrap();
        let error = output.rename_into_place().unwrap_err().to_string();
        assert!(error.contains("created in the meantime"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_regular_files_are_written_in_a_folder_of_outputs() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        (0..2).for_each(|_| AtomicFile::write_output_in_folder(&file, "new").unwrap());
        symlink("/dev/null", &link).unwrap();
        for path in [&link, Path::new("/dev/null")] {
            let error = AtomicFile::write_output_in_folder(path, "new").unwrap_err().to_string();
            assert_eq!(error, "it is not a regular file; remove it");
        }
    }

    #[test]
    fn a_symbolic_link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, link] = ["victim", "link"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        AtomicFile::write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert!(!link.is_symlink());
    }

    #[test]
    fn pipes_disks_and_links_to_devices_are_not_streams() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, link] = ["pipe", "link"].map(|name| folder.path().join(name));
        rustix::fs::mkfifoat(CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let error = AtomicFile::write_output(&pipe, "new").unwrap_err().to_string();
        assert_eq!(error, "it is a pipe, a socket or a block device");
        for target in [Path::new("/dev/full"), &pipe] {
            symlink(target, &link).unwrap();
            AtomicFile::write_output(&link, "new").unwrap();
            assert!(!link.is_symlink() && fs::read_to_string(&link).unwrap() == "new", "the link is replaced");
            fs::remove_file(&link).unwrap();
        }
        for stream in ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/2", "/dev/null"] {
            assert!(is_stream(Path::new(stream)), "{stream}");
        }
        assert!(!is_stream(Path::new("/dev/shm/stdout")) && !is_stream(folder.path()));
    }

    #[test]
    fn files_of_similar_names_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [file, part] = ["file", "file.part"].map(|name| folder.path().join(name));
        fs::write(&part, "the user's own").unwrap();
        AtomicFile::write(&file, "new").unwrap();
        drop(AtomicFile::create(&file).unwrap());
        assert_eq!(fs::read_to_string(&part).unwrap(), "the user's own");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn open_or_create_refuses_a_symbolic_link() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        open_or_create(&file).unwrap().write_all(b"kept").unwrap();
        open_or_create(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        symlink(&file, &link).unwrap();
        assert_eq!(open_or_create(&link).unwrap_err().to_string(), "it is a symbolic link; name the file it points to");
    }

    #[test]
    fn an_incomplete_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let mut temporary = AtomicFile::create(&path).unwrap();
        temporary.write_all(b"incomplete").unwrap();
        drop(temporary);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_to_and_a_folder_is_refused() {
        AtomicFile::write(Path::new("/dev/null"), "x").unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert!(AtomicFile::write(folder.path(), "x").is_err());
        assert!(AtomicFile::write(&folder.path().join("no/such/folder"), "x").is_err());
    }
}
