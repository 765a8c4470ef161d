//! [`AtomicFile`]: a file that is written under a temporary name and renamed when it is complete.
//!
//! Invariant: a symbolic link under the final name is replaced, never followed; an incomplete file never has the final
//! name; no other file is touched. The exception is a device or a pipe (`/dev/stdout`), which is written to directly.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A file being written.
pub struct AtomicFile {
    /// `None` once [`AtomicFile::rename_into_place`] has closed it.
    file: Option<File>,
    /// The temporary path; `None` if the file is written in place.
    temporary: Option<PathBuf>,
    /// The final path.
    path: PathBuf,
}

impl AtomicFile {
    /// Creates the temporary file, in the folder of `path`. A device or a pipe is opened instead.
    pub fn create(path: &Path) -> io::Result<Self> {
        let final_path = path.to_owned();
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            // A device or a pipe. For a directory, the system returns an error.
            let file = File::options().write(true).open(path)?;
            return Ok(Self { file: Some(file), temporary: None, path: final_path });
        }
        if path.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A unique name. It is short, so that it is valid even if the final name has the maximum length.
        let temporary = path.with_file_name(format!(".{:016x}.part", crate::unpredictable()));
        let file = File::options().write(true).create_new(true).open(&temporary)?;
        Ok(Self { file: Some(file), temporary: Some(temporary), path: final_path })
    }

    /// Renames the complete file to its final name.
    pub fn rename_into_place(mut self) -> io::Result<()> {
        drop(self.file.take());
        match self.temporary.take() {
            None => Ok(()),
            Some(temporary) => fs::rename(&temporary, &self.path).inspect_err(|_| {
                // Remove the temporary file, which could be mistaken for the complete one.
                let _ = fs::remove_file(&temporary);
            }),
        }
    }

    /// Writes a whole file of a crawl directory. Unlike [`AtomicFile::write`], it refuses a symbolic link, a device or
    /// a pipe of this name.
    pub fn write_own(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        if path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file; remove it"));
        }
        Self::write(path, bytes)
    }

    /// Writes a whole file.
    pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut temporary = Self::create(path)?;
        temporary.write_all(bytes.as_ref())?;
        temporary.rename_into_place()
    }
}

/// Opens a file for writing, and creates it if needed. Its contents are kept; a symbolic link is refused.
pub fn open_or_create(path: &Path) -> io::Result<File> {
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
