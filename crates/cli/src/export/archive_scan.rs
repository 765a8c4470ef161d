//! Reads the files of an archive from their beginning: one WARC record after the other, each a gzip member or a zstd frame.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Component, Path};

use flate2::bufread::GzDecoder;

use super::archived;
use crate::records::{self, ReadError};
use crate::results::Results;

/// The first byte of a zstd frame. A gzip member begins with another byte.
const ZSTD_FIRST_BYTE: u8 = 0x28;

/// The compressed records of a file.
pub(super) struct ArchiveScan<R> {
    archive: CountingReader<BufReader<R>>,
}

/// Where a compressed record is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemberPlace {
    pub offset: u64,
    pub length: u64,
}

impl<R: Read> ArchiveScan<R> {
    pub fn new(archive: R) -> Self {
        Self { archive: CountingReader { inner: BufReader::new(archive), count: 0 } }
    }

    /// Writes the next record, decompressed, to `out`. `None` at the end of the file.
    pub fn next_record(&mut self, out: &mut impl Write) -> io::Result<Option<MemberPlace>> {
        let archive = &mut self.archive;
        let offset = archive.count;
        let is_zstd = match archive.fill_buf()? {
            [] => return Ok(None),
            [first, ..] => *first == ZSTD_FIRST_BYTE,
        };
        if is_zstd {
            io::copy(&mut zstd::stream::read::Decoder::with_buffer(&mut *archive)?.single_frame(), out)?;
        } else {
            io::copy(&mut GzDecoder::new(&mut *archive), out)?;
        }
        // The decoder consumed nothing.
        if archive.count == offset {
            return Err(io::Error::other(format!("no record at byte {offset}")));
        }
        Ok(Some(MemberPlace { offset, length: archive.count - offset }))
    }
}

/// Keeps the beginning of what is written.
pub(super) struct RecordStart {
    pub bytes: Vec<u8>,
    limit: usize,
}

impl RecordStart {
    pub fn of(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }
}

impl Write for RecordStart {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let room = self.limit.saturating_sub(self.bytes.len()).min(buffer.len());
        self.bytes.extend_from_slice(buffer.get(..room).unwrap_or_default());
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The archive files, and how many bytes of each are exported: up to the end of the last record that is committed. A running
/// crawl may already have written more.
pub(super) fn archives(results: &Results) -> Result<BTreeMap<String, u64>, ReadError> {
    let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
    results.lines(|line| {
        let record = records::read(line)?;
        for location in record.warc.iter().flat_map(|location| archived::all_locations(location)) {
            // Names come from the log. Skip those that lead out of the directory.
            if Path::new(&location.file).components().all(|part| matches!(part, Component::Normal(_))) {
                let length = lengths.entry(location.file).or_default();
                *length = (*length).max(location.offset.saturating_add(location.length));
            }
        }
        Ok(())
    })?;
    Ok(lengths)
}

/// Counts the bytes that are consumed from a reader.
struct CountingReader<R> {
    inner: R,
    count: u64,
}

impl<R: BufRead> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for CountingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.count += amount as u64;
        self.inner.consume(amount);
    }
}
