//! [`TemporaryFile`]: an unnamed file in the folder for temporary files. Its write errors name that folder, because the
//! file of the export is on another disk.

use std::fs::File;
use std::io::{self, Write};

/// A temporary file that is being written. Its field is the file, to be read.
pub struct TemporaryFile(pub File);

impl TemporaryFile {
    pub fn create() -> io::Result<Self> {
        tempfile::tempfile().map(Self).map_err(in_folder)
    }

    /// Creates a file that has a name while `open` opens it a second time.
    #[cfg(feature = "sqlite")]
    pub fn create_named<T>(open: impl FnOnce(&std::path::Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        let create = || {
            let named = tempfile::NamedTempFile::new()?;
            let opened = open(named.path())?;
            let (file, path) = named.into_parts();
            path.close()?;
            Ok((Self(file), opened))
        };
        create().map_err(in_folder)
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(in_folder)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(in_folder)
    }
}

/// The error, with the folder of temporary files.
pub fn in_folder(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    io::Error::new(error.kind(), format!("a temporary file in {} (see TMPDIR): {error}", folder.display()))
}
