//! The target of `--jsonl` if the writer thread does not write it: standard output, a device, a pipe, or the file of a crawl
//! without a crawl directory.
//!
//! Invariant: the target is opened before the crawl starts, so that a bad path fails early; a file that is not empty is
//! never overwritten.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use argiope_runtime::atomic_file::{self, open_or_create};

use super::standard_output;

use argiope_core::base::escape::visible;

/// Size of the write buffer.
const BUFFER: usize = 64 << 10;

/// Why no more records can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordStreamFault {
    /// The reader has closed its end of the pipe.
    PipeClosed,
    /// A write error, as a message for the user.
    Failed(String),
}

/// An open output for records.
pub struct RecordStream {
    writer: Box<dyn Write + Send>,
    /// The target, as messages name it.
    name: String,
}

impl RecordStream {
    /// Whether the target is standard output or another stream: written data cannot be removed again.
    pub fn is_stream(path: &Path) -> bool {
        path == Path::new("-") || atomic_file::is_stream(path)
    }

    /// Opens the target. The error is a message for the user.
    pub fn open(path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            let out = standard_output::open().map_err(|error| format!("standard output cannot be written: {error}"))?;
            return Ok(Self::new(out, "standard output"));
        }
        let name = visible(&path.display().to_string()).into_owned();
        // `open_or_create` does not follow symbolic links, but the path of a device may be one (`/dev/stdout`).
        let opened = if Self::is_stream(path) { File::options().write(true).open(path) } else { open_or_create(path) };
        let file = opened.map_err(|error| format!("{name} cannot be written: {error}"))?;
        // Devices and pipes have no length.
        let length = file.metadata().map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 });
        if length > 0 {
            return Err(format!(
                "{name} already exists and does not belong to this crawl; remove it or choose another file"
            ));
        }
        Ok(Self::new(file, &name))
    }

    fn new(target: impl Write + Send + 'static, name: &str) -> Self {
        Self { writer: Box::new(BufWriter::with_capacity(BUFFER, target)), name: name.to_owned() }
    }

    /// Writes one record, which ends with a line feed.
    pub fn write(&mut self, line: &[u8]) -> Result<(), RecordStreamFault> {
        self.writer.write_all(line).map_err(|error| self.fault_of(&error))
    }

    /// Flushes the buffer, for readers that follow the output.
    pub fn flush(&mut self) -> Result<(), RecordStreamFault> {
        self.writer.flush().map_err(|error| self.fault_of(&error))
    }

    /// Classifies a write error.
    fn fault_of(&self, error: &io::Error) -> RecordStreamFault {
        match error.kind() {
            io::ErrorKind::BrokenPipe => RecordStreamFault::PipeClosed,
            _ => RecordStreamFault::Failed(format!("{} cannot be written: {error}", self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_written_to_a_new_file_and_a_file_with_content_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pages.jsonl");
        let mut output = RecordStream::open(&path).unwrap();
        output.write(b"{}\n").unwrap();
        output.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}\n");
        let refusal = RecordStream::open(&path).err().unwrap();
        assert!(refusal.contains("pages.jsonl already exists"), "{refusal}");
        assert_eq!(std::fs::read(&path).unwrap(), b"{}\n");
    }

    #[test]
    fn a_path_that_cannot_be_written_is_refused_when_it_is_opened() {
        let refusal = RecordStream::open(Path::new("/nonexistent/pages.jsonl")).err().unwrap();
        assert!(refusal.starts_with("/nonexistent/pages.jsonl cannot be written: "), "{refusal}");
        assert!(RecordStream::open(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn a_full_disk_is_reported_by_flush() {
        let mut output = RecordStream::open(Path::new("/dev/full")).unwrap();
        output.write(b"{}\n").unwrap();
        let RecordStreamFault::Failed(fault) = output.flush().unwrap_err() else { panic!("expected a write error") };
        assert!(fault.starts_with("/dev/full cannot be written: "), "{fault}");
    }
}
