//! [`ArchiveFiles`]: the files of an archive, in a folder or in object storage.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use argiope_core::{StoreError, StoreErrorKind};
use argiope_fleet::segments::{SegmentStore, is_object_storage, redacted_place};

use crate::records::ReadError;
use crate::temporary::TemporaryFile;

/// Minimum number of bytes that one request to object storage reads. Records are often read in the order in which they
/// are stored, so the following ones are likely among the bytes that were read already (the window).
const WINDOW: u64 = 1 << 20;

/// The files of an archive. The last used file stays open.
pub struct ArchiveFiles {
    /// The crawl directory, or the prefix in object storage.
    location: PathBuf,
    /// Set if the archive is in object storage.
    objects: Option<SegmentStore>,
    /// The file that was read last, with its name.
    open: Option<(String, File)>,
    /// The part of an object that was read last: its name, offset and bytes.
    window: Option<(String, u64, Vec<u8>)>,
}

impl ArchiveFiles {
    pub fn new(location: &Path) -> Self {
        let objects = is_object_storage(location).then(|| SegmentStore::open(location));
        Self { location: location.to_owned(), objects, open: None, window: None }
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> Result<bool, ReadError> {
        match &self.objects {
            Some(objects) => Ok(objects.archives().map_err(|error| self.read_error("archive", &error))?.is_empty()),
            None => Ok(!std::fs::read_dir(self.location.join("archive")).is_ok_and(|mut files| files.next().is_some())),
        }
    }

    /// Reads a part of a file. `file` is the name in records.
    pub fn read(&mut self, file: &str, offset: u64, length: u64) -> Result<Vec<u8>, ReadError> {
        let read = if self.objects.is_some() {
            self.read_object(file, offset, length)
        } else {
            self.read_file(file, offset, length)
        };
        Ok(read.map_err(|error| self.read_error(file, &error))?)
    }

    /// Opens a whole file. An object is copied to a temporary file first.
    pub fn open_whole(&self, file: &str) -> Result<File, ReadError> {
        let opened = match &self.objects {
            None => open_inside(&self.location, file),
            Some(objects) => objects.archive(file).and_then(|content| {
                let mut copy = TemporaryFile::create()?;
                copy.write_all(&content)?;
                copy.0.rewind()?;
                Ok(copy.0)
            }),
        };
        Ok(opened.map_err(|error| self.read_error(file, &error))?)
    }

    fn read_file(&mut self, name: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let file = match self.open.take() {
            Some((open, file)) if open == name => file,
            _ => open_inside(&self.location, name)?,
        };
        let mut part = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut part, offset)?;
        self.open = Some((name.to_owned(), file));
        Ok(part)
    }

    fn read_object(&mut self, name: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        // Cuts the requested part out of a window, if it contains the part.
        let cut = |(file, start, bytes): &(String, u64, Vec<u8>)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            let part = bytes.get(from..)?.get(..usize::try_from(length).ok()?)?;
            (file == name).then(|| part.to_vec())
        };
        if let Some(part) = self.window.as_ref().and_then(cut) {
            return Ok(part);
        }
        let Some(objects) = &self.objects else { return Err(io::ErrorKind::NotFound.into()) };
        // If a range ends beyond the end of the object, most servers shorten it. Some refuse it, so the exact range is tried
        // next.
        let bytes = objects
            .archive_range(name, offset, length.max(WINDOW))
            .or_else(|_| objects.archive_range(name, offset, length))?;
        let window = (name.to_owned(), offset, bytes);
        let part = cut(&window).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.window = Some(window);
        Ok(part)
    }

    fn read_error(&self, file: &str, error: &io::Error) -> StoreError {
        let name = redacted_place(&self.location.join(file));
        StoreError::new(StoreErrorKind::File, format!("{name} cannot be read: {error}"))
    }
}

/// Opens a file of a directory. Refuses names that lead out of the directory, because names come from records.
fn open_inside(directory: &Path, file: &str) -> io::Result<File> {
    let is_inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    if is_inside { File::open(directory.join(file)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}
