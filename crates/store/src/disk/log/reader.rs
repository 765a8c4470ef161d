//! [`LogReader`]: reads a log from front to back, or single records.

use super::{
    BEGINS_LOG, FILE_HEADER, FOLDER, FRAME_HEADER, LogWriter, MARK, MAX_RECORDS, POSITION_FIELD, compacted_header,
    file_name, file_number, frame_head, header, remove_obsolete,
};
use crate::disk::crawl_file::FORMAT;
use crate::disk::fault::{damaged, failed};
use crate::disk::files::{File, Files};
use crate::disk::record::{Record, Unreadable};
use crate::disk::snapshot_file::SnapshotFile;
use argiope_core::StoreError;
use std::io;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// How many bytes a scan reads at once.
const SCAN_BYTES: usize = 1 << 20;
/// How many bytes are read to get a single record. This is more than one record, because the links of a page are
/// adjacent and are usually read together.
const WINDOW_BYTES: usize = 8 * 1024;

/// One file of the log, open for reading.
struct Section {
    number: u32,
    /// The position of its header.
    base: u64,
    file: Box<dyn File>,
}

/// Reads a log: from front to back, or single records.
pub(in crate::disk) struct LogReader {
    files: Arc<dyn Files>,
    crawl: u64,
    sections: Vec<Section>,
    /// The part of the log that was read last.
    window: Vec<u8>,
    /// The position of `window`.
    window_at: u64,
    /// Whether the first file is the output of a compaction.
    pub is_compacted: bool,
}

/// The end of the complete frames, and what follows them.
pub(in crate::disk) struct Tail {
    /// The end of the last complete frame.
    pub end: u64,
    /// The number of bytes of an incomplete frame.
    pub torn_bytes: u64,
}

impl LogReader {
    /// Opens all files of a log. The second value is the name of a last file that was never used, if there is one.
    pub fn open(files: Arc<dyn Files>, crawl: u64) -> Result<(Self, Option<String>), StoreError> {
        let numbers = |files: &dyn Files| -> Result<Vec<u32>, StoreError> {
            let names = files.list(FOLDER).map_err(|error| failed(files, FOLDER, "list", error))?;
            let mut numbers: Vec<u32> = names.iter().filter_map(|name| file_number(name)).collect();
            numbers.sort_unstable();
            Ok(numbers)
        };
        loop {
            let listed = numbers(&*files)?;
            match Self::open_listed(&files, crawl, &listed) {
                // Retry if a concurrent compaction has changed the list of files.
                Err(error) if numbers(&*files)? == listed => return Err(error),
                Err(_) => {}
                opened => return opened,
            }
        }
    }

    /// Opens the log files with these numbers.
    fn open_listed(files: &Arc<dyn Files>, crawl: u64, listed: &[u32]) -> Result<(Self, Option<String>), StoreError> {
        let last = listed.last().copied().unwrap_or(0);
        let is_compacted = |number: &&u32| {
            let mut found = [0; FILE_HEADER];
            let read = files.open(&file_name(**number)).and_then(|file| file.read_at(&mut found, 0));
            read.is_ok() && found == compacted_header(**number, crawl)
        };
        let compacted_file = listed.iter().rev().find(is_compacted).copied();
        let mut reader = Self {
            files: Arc::clone(files),
            crawl,
            sections: Vec::new(),
            window: Vec::new(),
            window_at: 0,
            is_compacted: compacted_file.is_some(),
        };
        let mut base = 0;
        for number in compacted_file.unwrap_or(1)..=last.max(1) {
            let name = file_name(number);
            let read_error = |error: io::Error| match error.kind() {
                io::ErrorKind::NotFound => damaged(&**files, &name, "it is missing"),
                _ => failed(&**files, &name, "read", error),
            };
            let file = files.open(&name).map_err(read_error)?;
            let mut found = [0; FILE_HEADER];
            let read = file.read_at(&mut found, 0).map_err(read_error)?;
            // A compacted file ends before the position of the next file. So this position is read from the header.
            if compacted_file.is_some_and(|first| number == first + 1) {
                let position =
                    found.get(POSITION_FIELD).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
                base = base.max(position);
            }
            let flag = if compacted_file == Some(number) { BEGINS_LOG } else { 0 };
            let is_valid = read == FILE_HEADER && found == header(FORMAT | flag, number, crawl, base);
            let section = Section { number, base, file };
            if !is_valid {
                // If a frame starts at or after the end of the header, the header was complete before: it is damaged.
                if number == last && number > 1 && !reader.has_frame_after(&section, FILE_HEADER as u64 - 1)? {
                    return Ok((reader, Some(name)));
                }
                return Err(damaged(&**files, &name, "its header does not match the log"));
            }
            base += section.file.length().map_err(read_error)?;
            reader.sections.push(section);
        }
        Ok((reader, None))
    }

    /// The position of the first frame of a new log.
    pub const FIRST: u64 = FILE_HEADER as u64;

    /// The position of the first frame of this log.
    pub fn first(&self) -> u64 {
        self.sections.first().map_or(0, |section| section.base) + FILE_HEADER as u64
    }

    /// The position of the first file that is not the output of a compaction.
    pub fn uncompacted_start(&self) -> u64 {
        self.sections.get(usize::from(self.is_compacted)).map_or(0, |section| section.base)
    }

    /// Returns the number of the file that replaces all files before `keep_from`. Returns `None` if no file starts at
    /// `keep_from`, or if there is nothing to compact before it.
    pub fn compaction_number(&self, keep_from: u64) -> Option<u32> {
        let index = self.sections.iter().position(|section| section.base == keep_from)?;
        let kept = self.sections.get(index)?.number;
        (index > usize::from(self.is_compacted)).then(|| kept - 1)
    }

    /// Closes the files before a position.
    pub fn forget_before(&mut self, position: u64) {
        self.sections.retain(|section| section.base >= position);
    }

    /// Adds a file that the writer starts.
    pub fn add_section(&mut self, number: u32, base: u64) -> Result<(), StoreError> {
        let name = file_name(number);
        let file = self.files.open(&name).map_err(|error| failed(&*self.files, &name, "read", error))?;
        self.sections.push(Section { number, base, file });
        Ok(())
    }

    /// Calls `each` with the position and the content of every record from `from` to the end of the log. `from` must be
    /// the start of a frame or the end of the log. An error of `each` ends the walk.
    pub fn walk<E: From<StoreError>>(
        &self,
        from: u64,
        each: impl FnMut(u64, Record<'_>) -> Result<(), E>,
    ) -> Result<Tail, E> {
        self.walk_until(from, u64::MAX, each)
    }

    /// Like [`Self::walk`], but stops before the first frame that starts at or after `until`.
    pub fn walk_until<E: From<StoreError>>(
        &self,
        from: u64,
        until: u64,
        mut each: impl FnMut(u64, Record<'_>) -> Result<(), E>,
    ) -> Result<Tail, E> {
        let mut at = from;
        let mut records = Vec::new();
        loop {
            if at >= until {
                return Ok(Tail { end: at, torn_bytes: 0 });
            }
            let Some((section, next)) = self.section_at(at) else { return Ok(Tail { end: at, torn_bytes: 0 }) };
            // `at` is the end of the previous file, so `section` is the file after it. Skip its header.
            if at == section.base {
                at += FILE_HEADER as u64;
                continue;
            }
            let name = file_name(section.number);
            let len = section.file.length().map_err(|error| failed(&*self.files, &name, "read", error))?;
            if at == section.base + len {
                // After a compacted file, there is a gap in the positions.
                match next.filter(|next| self.is_compacted && next.base > at) {
                    Some(next) => at = next.base,
                    None => return Ok(Tail { end: at, torn_bytes: 0 }),
                }
                continue;
            }
            if !self.read_frame(section, at, &mut records)? {
                let is_followed = next.is_some() || self.has_frame_after(section, at - section.base)?;
                // If the crawl writes the log meanwhile, this frame may have been incomplete when it was read, and
                // complete when the next frame was found. So read it again.
                let is_damaged = is_followed && !self.read_frame(section, at, &mut records)?;
                if is_damaged {
                    let what = format!("the frame at byte {} is incomplete", at - section.base);
                    return Err(damaged(&*self.files, &name, &what).into());
                }
                if !is_followed {
                    return Ok(Tail { end: at, torn_bytes: (section.base + len).saturating_sub(at) });
                }
            }
            let mut rest = records.as_slice();
            let mut position = at + FRAME_HEADER as u64;
            while !rest.is_empty() {
                let (record, length) = Record::decode(rest, self.crawl, position).map_err(|_| {
                    damaged(&*self.files, &name, &format!("no record at byte {}", position - section.base))
                })?;
                each(position, record)?;
                rest = rest.get(length..).unwrap_or_default();
                position += length as u64;
            }
            at = position;
        }
    }

    /// Whether a complete frame with this checksum starts at `start` and ends at `end`.
    pub fn has_frame(&self, start: u64, end: u64, checksum: u64) -> Result<bool, StoreError> {
        let Some((section, _)) = self.section_at(start) else { return Ok(false) };
        let mut records = Vec::new();
        let is_complete = self.read_frame(section, start, &mut records)?;
        let sum = xxh3_64_with_seed(&records, self.crawl ^ start);
        Ok(is_complete && start + (FRAME_HEADER + records.len()) as u64 == end && sum == checksum)
    }

    /// The file that contains a position, and the next file. A position at the very end belongs to the last file.
    fn section_at(&self, position: u64) -> Option<(&Section, Option<&Section>)> {
        let index = self.sections.partition_point(|section| section.base <= position).checked_sub(1)?;
        Some((self.sections.get(index)?, self.sections.get(index + 1)))
    }

    /// Reads the records of the frame at a position; `false` if it is incomplete.
    fn read_frame(&self, section: &Section, start: u64, records: &mut Vec<u8>) -> Result<bool, StoreError> {
        let read_error = |error| failed(&*self.files, &file_name(section.number), "read", error);
        let mut head = [0; FRAME_HEADER];
        let offset = start - section.base;
        let read = section.file.read_at(&mut head, offset).map_err(read_error)?;
        let Some((length, checksum)) = frame_head(&head).filter(|_| read == FRAME_HEADER) else { return Ok(false) };
        let left = section.file.length().map_err(read_error)?.saturating_sub(offset + FRAME_HEADER as u64);
        if length as u64 > left || length > MAX_RECORDS {
            return Ok(false);
        }
        // Verify the checksum before allocating memory: the length may be wrong.
        if length > SCAN_BYTES && self.hash(section, offset + FRAME_HEADER as u64, length, start)? != checksum {
            return Ok(false);
        }
        records.resize(length, 0);
        let read = section.file.read_at(records, offset + FRAME_HEADER as u64).map_err(read_error)?;
        Ok(read == length && xxh3_64_with_seed(records, self.crawl ^ start) == checksum)
    }

    /// The checksum of the records at the offset `at` of a file, which are not in memory. `start` is the position of
    /// their frame.
    fn hash(&self, section: &Section, at: u64, length: usize, start: u64) -> Result<u64, StoreError> {
        let read_error = |error| failed(&*self.files, &file_name(section.number), "read", error);
        let mut hash = Xxh3::with_seed(self.crawl ^ start);
        let mut piece = vec![0; SCAN_BYTES.min(length)];
        let mut done = 0;
        while done < length {
            let wanted = piece.len().min(length - done);
            let read = section.file.read_at(piece.get_mut(..wanted).unwrap_or_default(), at + done as u64);
            let read = read.map_err(read_error)?;
            if read == 0 {
                break;
            }
            hash.update(piece.get(..read).unwrap_or_default());
            done += read;
        }
        Ok(hash.digest())
    }

    /// Whether a complete frame starts anywhere after the offset `from` in a file.
    ///
    /// Uses constant memory and linear time. A tail that would take longer cannot come from a crash and is reported as
    /// damage.
    fn has_frame_after(&self, section: &Section, from: u64) -> Result<bool, StoreError> {
        let name = file_name(section.number);
        let read_error = |error| failed(&*self.files, &name, "read", error);
        let len = section.file.length().map_err(read_error)?;
        let tail = len.saturating_sub(from);
        let refuse = |why: &str| {
            let what =
                format!("{tail} bytes after byte {from} {why}; cut the file to {from} bytes to resume without them");
            Err(damaged(&*self.files, &name, &what))
        };
        if tail > (MAX_RECORDS + FRAME_HEADER) as u64 {
            return refuse("are not a commit, and are more than a crash can leave");
        }
        // How many more bytes the search may hash. It hashes a frame for every place that looks like a frame mark.
        let mut hash_allowance = 4 * tail + (1 << 20);
        let mut piece = vec![0; SCAN_BYTES + FRAME_HEADER];
        let mut at = from + 1;
        while at + (FRAME_HEADER as u64) <= len {
            let read = section.file.read_at(&mut piece, at).map_err(read_error)?;
            let scanned = piece.get(..read).unwrap_or_default();
            let candidates =
                scanned.windows(FRAME_HEADER).enumerate().take(SCAN_BYTES).filter(|(_, head)| head.starts_with(MARK));
            for (offset, head) in candidates {
                let Some((length, checksum)) = frame_head(head) else { continue };
                let start = at + (offset + FRAME_HEADER) as u64;
                if start + length as u64 > len {
                    continue;
                }
                let Some(left) = hash_allowance.checked_sub(length as u64) else {
                    return refuse("contain too many byte sequences that look like the start of a commit");
                };
                hash_allowance = left;
                if self.hash(section, start, length, section.base + at + offset as u64)? == checksum {
                    return Ok(true);
                }
            }
            at += SCAN_BYTES as u64;
        }
        Ok(false)
    }

    /// Reads the record at a position that is on disk.
    pub fn read<T>(&mut self, position: u64, with: impl FnOnce(Record<'_>) -> T) -> Result<T, StoreError> {
        let mut wanted = WINDOW_BYTES;
        // Try the buffered window first, which may be outdated. Then read it again, then read a larger one.
        for should_read in [false, true, true] {
            if should_read {
                self.fill_window(position, wanted)?;
            }
            let skip = position.checked_sub(self.window_at).and_then(|skip| usize::try_from(skip).ok());
            let bytes = skip.and_then(|skip| self.window.get(skip..)).unwrap_or_default();
            match Record::decode(bytes, self.crawl, position) {
                Ok((record, _)) => return Ok(with(record)),
                Err(Unreadable::TooShort(length)) => wanted = wanted.max(length),
                Err(Unreadable::Invalid) => {}
            }
        }
        let (name, offset) = self
            .section_at(position)
            .map_or((FOLDER.to_owned(), position), |(section, _)| (file_name(section.number), position - section.base));
        Err(damaged(&*self.files, &name, &format!("no record at byte {offset}")))
    }

    /// Reads `wanted` bytes at a position into the window.
    fn fill_window(&mut self, position: u64, wanted: usize) -> Result<(), StoreError> {
        let mut window = std::mem::take(&mut self.window);
        if let Some((section, _)) = self.section_at(position) {
            let read_error = |error| failed(&*self.files, &file_name(section.number), "read", error);
            let offset = position - section.base;
            // The length of a record is untrusted: check it against the file before allocating memory.
            let left = if wanted > WINDOW_BYTES {
                section.file.length().map_err(read_error)?.saturating_sub(offset)
            } else {
                u64::MAX
            };
            window.resize(usize::try_from(left).unwrap_or(wanted).min(wanted), 0);
            let read = section.file.read_at(&mut window, offset).map_err(read_error)?;
            window.truncate(read);
        }
        (self.window, self.window_at) = (window, position);
        Ok(())
    }

    /// Truncates a torn frame, and returns the writer that continues from there.
    pub fn writer(&self, tail: &Tail, unused: Option<String>) -> Result<LogWriter, StoreError> {
        let files = Arc::clone(&self.files);
        if let Some(name) = unused {
            files.remove(&name).map_err(|error| failed(&*files, &name, "remove", error))?;
            files.sync_folder(FOLDER).map_err(|error| failed(&*files, FOLDER, "sync", error))?;
        }
        let (Some(first), Some(last)) = (self.sections.first(), self.sections.last()) else {
            return Err(damaged(&*files, FOLDER, "it is empty"));
        };
        remove_obsolete(&*files, first.number)?;
        let name = file_name(last.number);
        let cut = || -> io::Result<Box<dyn File>> {
            let mut file = files.open(&name)?;
            if tail.torn_bytes > 0 {
                file.set_len(tail.end - last.base)?;
                file.sync()?;
            }
            Ok(file)
        };
        let file = cut().map_err(|error| failed(&*files, &name, "cut back", error))?;
        let snapshot = SnapshotFile::default();
        Ok(LogWriter {
            crawl: self.crawl,
            base: last.base,
            file,
            name,
            snapshot,
            unwritten_crawl_file: None,
            changed_settings: None,
            failure: None,
            files,
        })
    }

    /// The id of the crawl.
    pub fn crawl(&self) -> u64 {
        self.crawl
    }

    /// The numbers of the files, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.sections.iter().map(|section| section.number)
    }

    /// The header of a file, and the length of the file.
    pub fn header_and_length(&self, number: u32) -> Option<([u8; FILE_HEADER], u64)> {
        let section = self.sections.iter().find(|section| section.number == number)?;
        let mut header = [0; FILE_HEADER];
        section.file.read_at(&mut header, 0).ok()?;
        Some((header, section.file.length().ok()?))
    }

    /// Like [`Self::walk`], for the records of one file.
    pub fn walk_file(
        &self,
        number: u32,
        each: impl FnMut(u64, Record<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(index) = self.sections.iter().position(|section| section.number == number) else { return Ok(()) };
        let from = self.sections.get(index).map_or(0, |section| section.base + FILE_HEADER as u64);
        let until = self.sections.get(index + 1).map_or(u64::MAX, |section| section.base);
        self.walk_until(from, until, each).map(drop)
    }

    /// The number and the start of the last file.
    pub fn last_file(&self) -> (u32, u64) {
        self.sections.last().map_or((0, 0), |section| (section.number, section.base))
    }
}
