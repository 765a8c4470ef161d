//! [`ReferenceSpool`]: the references of a site's pages, in a temporary file until the verdicts are known.
//!
//! Only references with faults are needed later, and a site has far more references than faults. So references are not kept
//! in memory.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

/// A reference on a page, with its position and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpooledReference {
    /// The number of the page.
    pub page: u32,
    /// The number of the target.
    pub target: u32,
    pub line: u32,
    pub column: u32,
    pub text: String,
}

/// Stores references in a temporary file.
pub(super) struct ReferenceSpool {
    file: BufWriter<File>,
}

impl ReferenceSpool {
    /// Creates an unnamed file, which is deleted when the process ends.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile().map_err(in_folder)?) })
    }

    /// Appends a reference.
    pub fn add(&mut self, reference: &SpooledReference) -> io::Result<()> {
        self.write(reference).map_err(in_folder)
    }

    fn write(&mut self, reference: &SpooledReference) -> io::Result<()> {
        let SpooledReference { page, target, line, column, text } = reference;
        let text = text.as_bytes();
        for number in [*page, *target, *line, *column, u32::try_from(text.len()).unwrap_or(0)] {
            self.file.write_all(&number.to_le_bytes())?;
        }
        self.file.write_all(text)
    }

    /// Calls `each` with every reference, in the order in which they were added.
    pub fn read(self, mut each: impl FnMut(SpooledReference)) -> io::Result<()> {
        let mut file = self.file.into_inner().map_err(|error| in_folder(error.into_error()))?;
        let length = file.stream_position()?;
        file.seek(SeekFrom::Start(0))?;
        let mut file = BufReader::new(file.take(length));
        loop {
            let mut numbers = [0_u32; 5];
            for (index, number) in numbers.iter_mut().enumerate() {
                let mut bytes = [0; 4];
                match file.read_exact(&mut bytes) {
                    Ok(()) => *number = u32::from_le_bytes(bytes),
                    Err(error) if index == 0 && error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            let [page, target, line, column, length] = numbers;
            let mut text = vec![0; length as usize];
            file.read_exact(&mut text)?;
            let text = String::from_utf8(text).unwrap_or_default();
            each(SpooledReference { page, target, line, column, text });
        }
    }
}

/// Names the folder of the file, which has no name.
fn in_folder(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    io::Error::new(error.kind(), format!("a temporary file in {} (see TMPDIR): {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_in_the_order_of_writing() {
        let mut spool = ReferenceSpool::new().expect("a temporary file");
        let reference = |page, text: &str| SpooledReference { page, target: 7, line: 1, column: 2, text: text.into() };
        let all = [reference(0, ""), reference(1, "é"), reference(2, "text")];
        all.iter().for_each(|one| spool.add(one).expect("written"));
        let mut read = Vec::new();
        spool.read(|one| read.push(one)).expect("read");
        assert_eq!(read, all);
    }
}
