//! [`Sorted`]: external merge sort of lines in a fixed amount of memory.
//!
//! Lines are buffered. When the buffer is full, it is sorted and written to an unnamed temporary file. At the end, the files
//! are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};

use crate::temporary::TemporaryFile;

/// Size of the sort buffer.
const MEMORY_LIMIT: usize = 32 << 20;
/// Estimated memory that the allocator needs per line.
const ALLOCATION_OVERHEAD: usize = 16;

/// Collects lines to sort. A line must not contain a line feed.
pub struct Sorted {
    memory_limit: usize,
    /// Memory that `lines` take.
    bytes: usize,
    lines: Vec<Box<[u8]>>,
    /// Sorted temporary files.
    runs: Vec<File>,
}

impl Default for Sorted {
    fn default() -> Self {
        Self::with_memory_limit(MEMORY_LIMIT)
    }
}

impl Sorted {
    fn with_memory_limit(memory_limit: usize) -> Self {
        Self { memory_limit, bytes: 0, lines: Vec::new(), runs: Vec::new() }
    }

    /// Adds a line.
    pub fn push(&mut self, line: &[u8]) -> io::Result<()> {
        self.lines.push(line.into());
        self.bytes += line.len() + size_of::<Box<[u8]>>() + ALLOCATION_OVERHEAD;
        if self.bytes > self.memory_limit {
            self.spill()?;
        }
        Ok(())
    }

    /// Writes the buffered lines to a sorted file.
    fn spill(&mut self) -> io::Result<()> {
        self.lines.sort_unstable();
        let mut run = BufWriter::new(TemporaryFile::create()?);
        for line in self.lines.drain(..) {
            run.write_all(&line)?;
            run.write_all(b"\n")?;
        }
        self.runs.push(run.into_inner().map_err(|error| error.into_error())?.0);
        self.bytes = 0;
        Ok(())
    }

    /// Calls `each` with all lines in order, including duplicates. May be called again.
    pub fn each<E: From<io::Error>>(&mut self, mut each: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.runs.is_empty() {
            self.lines.sort_unstable();
            return self.lines.iter().try_for_each(|line| each(line));
        }
        if !self.lines.is_empty() {
            self.spill()?;
        }
        let mut runs = Vec::with_capacity(self.runs.len());
        for mut run in &self.runs {
            run.rewind()?;
            runs.push(BufReader::new(run));
        }
        // The next line of each file, smallest first.
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(next_line(run, Vec::new())?.map(|line| Reverse((line, number))));
        }
        while let Some(Reverse((line, number))) = heads.pop() {
            each(&line)?;
            if let Some(run) = runs.get_mut(number) {
                heads.extend(next_line(run, line)?.map(|line| Reverse((line, number))));
            }
        }
        Ok(())
    }
}

/// Reads the next line into the given buffer. `None` at the end of the file.
fn next_line(run: &mut BufReader<&File>, mut line: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    line.clear();
    let read = run.read_until(b'\n', &mut line)?;
    line.pop();
    Ok((read > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_in_memory_and_across_files() {
        for memory_limit in [usize::MAX, 200] {
            let mut sorted = Sorted::with_memory_limit(memory_limit);
            let mut expected = Vec::new();
            for number in 0..500u32 {
                // Multiplicative hashing, for lines in no order.
                let line = format!("{}", number.wrapping_mul(2_654_435_761) % 300).into_bytes();
                sorted.push(&line).unwrap();
                expected.push(line);
            }
            sorted.push(b"").unwrap();
            expected.push(Vec::new());
            expected.sort();
            for _ in 0..2 {
                let mut found = Vec::new();
                let result = sorted.each(|line| {
                    found.push(line.to_vec());
                    Ok::<_, io::Error>(())
                });
                result.unwrap();
                assert_eq!(found, expected);
            }
        }
    }
}
