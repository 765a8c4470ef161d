//! [`Run`]: an immutable file of fingerprints in ascending order (an SSTable).
//!
//! The file consists of pages of 4 KiB, each with a checksum, followed by the first fingerprint of every page, a
//! filter, and a trailer. The first fingerprints (the index) and the filter are also in memory. The filter rejects most
//! fingerprints that are not in the run, and the index gives the page. So a query costs at most one read.
//!
//! Runs can always be rebuilt from the log.

use super::files::{File, Files};
use super::filter::{BLOCK, Filter};
use std::io;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const FOLDER: &str = "spill";
/// Size of a page: a checksum and [`PER_PAGE`] fingerprints.
const PAGE: usize = 4096;
/// Fingerprints per page.
const PER_PAGE: usize = PAGE / 8 - 1;
/// Length of the trailer:
/// `number of fingerprints (8) · number of pages (8) · number of filter blocks (8) · checksum (8)`.
const TRAILER: usize = 32;
/// How many pages are written and read at once.
const PAGES_AT_ONCE: usize = 64;

pub(super) fn file_name(number: u32) -> String {
    format!("{FOLDER}/{number:06}.run")
}

/// The number of a run; `None` for anything else in its folder.
pub(super) fn file_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".run")?.parse().ok()?;
    (file_name(number).strip_prefix(FOLDER)?.strip_prefix('/')? == name).then_some(number)
}

/// The error for a page whose checksum does not match.
fn checksum_error(page: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("page {page} does not match its checksum"))
}

/// A sorted file of fingerprints.
pub(super) struct Run {
    /// The number in the name of the file.
    pub number: u32,
    /// How many fingerprints it has.
    pub count: u64,
    file: Box<dyn File>,
    /// Seed of the checksums.
    seed: u64,
    /// The first fingerprint of each page.
    firsts: Vec<u64>,
    filter: Filter,
}

impl Run {
    /// Opens a finished run. `None` if it is incomplete or damaged, belongs to another crawl, or does not have `count`
    /// fingerprints.
    pub fn open(files: &dyn Files, crawl: u64, number: u32, count: u64) -> Option<Self> {
        let file = files.open(&file_name(number)).ok()?;
        let seed = seed(crawl, number);
        let length = file.length().ok()?;
        let trailer_at = length.checked_sub(TRAILER as u64)?;
        let mut trailer = [0; TRAILER];
        file.read_at(&mut trailer, trailer_at).ok().filter(|read| *read == TRAILER)?;
        let numbers: Vec<u64> = numbers(&trailer).collect();
        let [stored_count, pages, blocks, sum] = *numbers.first_chunk()?;
        let tail_at = pages.checked_mul(PAGE as u64)?;
        let tail_length = pages.checked_mul(8)?.checked_add(blocks.checked_mul(BLOCK as u64)?)?;
        if stored_count != count || tail_at.checked_add(tail_length)? != trailer_at {
            return None;
        }
        let mut tail = vec![0; usize::try_from(tail_length).ok()?];
        file.read_at(&mut tail, tail_at).ok().filter(|read| *read == tail.len())?;
        if tail_sum(&tail, &trailer, seed) != sum {
            return None;
        }
        let (firsts, filter) = tail.split_at_checked(usize::try_from(pages).ok()?.checked_mul(8)?)?;
        Some(Self { number, count, file, seed, firsts: numbers_in(firsts), filter: Filter::decode(filter) })
    }

    /// Whether the run contains a fingerprint.
    pub fn contains(&self, fingerprint: u64) -> io::Result<bool> {
        if !self.filter.may_contain(fingerprint) {
            return Ok(false);
        }
        let Some(page) = self.firsts.partition_point(|first| *first <= fingerprint).checked_sub(1) else {
            return Ok(false);
        };
        let mut bytes = [0; PAGE];
        self.read_pages(page, &mut bytes)?;
        let number_at =
            |index: usize| u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().unwrap_or_default());
        // Binary search. The number at index 0 is the checksum. A page that is not full is padded with zeros.
        let (mut low, mut high) = (1, PER_PAGE + 1);
        while low < high {
            let middle = usize::midpoint(low, high);
            match number_at(middle) {
                number if number == fingerprint => return Ok(true),
                number if number == 0 || number > fingerprint => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(false)
    }

    /// Reads whole pages and checks them.
    fn read_pages(&self, first: usize, into: &mut [u8]) -> io::Result<()> {
        if self.file.read_at(into, (first * PAGE) as u64)? < into.len() {
            return Err(checksum_error(first));
        }
        for (number, page) in (first..).zip(into.chunks_exact(PAGE)) {
            let (sum, fingerprints) = page.split_at(8);
            if xxh3_64_with_seed(fingerprints, self.seed ^ number as u64).to_le_bytes() != sum {
                return Err(checksum_error(number));
            }
        }
        Ok(())
    }

    /// All fingerprints in order.
    pub fn iter(&self) -> impl Iterator<Item = io::Result<u64>> + '_ {
        let groups = (0..self.firsts.len()).step_by(PAGES_AT_ONCE);
        groups.flat_map(move |first| {
            let mut bytes = vec![0; PAGES_AT_ONCE.min(self.firsts.len() - first) * PAGE];
            let (fault, bytes) = match self.read_pages(first, &mut bytes) {
                Ok(()) => (None, bytes),
                Err(error) => (Some(Err(error)), Vec::new()),
            };
            // The first number of each page is its checksum.
            let fingerprints = (0..bytes.len() / 8).filter(|index| index % (PER_PAGE + 1) != 0);
            let fingerprints = fingerprints
                .map(move |index| u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().unwrap_or_default()));
            fault.into_iter().chain(fingerprints.filter(|fingerprint| *fingerprint != 0).map(Ok))
        })
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.firsts.len() * 8 + self.filter.bytes()
    }
}

/// Writes a run.
pub(super) struct RunWriter {
    run: Run,
    /// The bytes of pages that are not written to the file yet, at most [`PAGES_AT_ONCE`] pages.
    pages: Vec<u8>,
    /// How many fingerprints the last page has. At the start it is [`PER_PAGE`], so that the first fingerprint begins a
    /// page.
    in_page: usize,
}

impl RunWriter {
    /// Starts a run of about `count` fingerprints, with a filter of at most `max_filter_bytes` bytes.
    pub fn begin(files: &dyn Files, crawl: u64, number: u32, count: u64, max_filter_bytes: usize) -> io::Result<Self> {
        let (file, seed) = (files.create(&file_name(number))?, seed(crawl, number));
        let filter = Filter::for_count(count, max_filter_bytes);
        let run = Run { number, count: 0, file, seed, firsts: Vec::new(), filter };
        Ok(Self { run, pages: Vec::with_capacity(PAGES_AT_ONCE * PAGE), in_page: PER_PAGE })
    }

    /// Adds a fingerprint. The caller adds them in ascending order.
    pub fn push(&mut self, fingerprint: u64) -> io::Result<()> {
        if self.in_page == PER_PAGE {
            self.end_page();
            if self.pages.len() >= PAGES_AT_ONCE * PAGE {
                self.write_pages()?;
            }
            self.run.firsts.push(fingerprint);
            self.pages.extend([0; 8]);
            self.in_page = 0;
        }
        self.pages.extend(fingerprint.to_le_bytes());
        self.in_page += 1;
        self.run.count += 1;
        self.run.filter.insert(fingerprint);
        Ok(())
    }

    /// Pads the last page and sets its checksum.
    fn end_page(&mut self) {
        self.pages.resize(self.pages.len().next_multiple_of(PAGE), 0);
        let Some(start) = self.pages.len().checked_sub(PAGE) else { return };
        let number = self.run.firsts.len() as u64 - 1;
        let (head, fingerprints) = self.pages[start..].split_at_mut(8);
        head.copy_from_slice(&xxh3_64_with_seed(fingerprints, self.run.seed ^ number).to_le_bytes());
    }

    /// Writes the collected pages to the file.
    fn write_pages(&mut self) -> io::Result<()> {
        let pages_before = self.run.firsts.len() - self.pages.len() / PAGE;
        self.run.file.write_at(&self.pages, (pages_before * PAGE) as u64)?;
        self.pages.clear();
        Ok(())
    }

    /// Writes the rest: last pages, index, filter and trailer. Nothing is synced.
    pub fn finish(mut self) -> io::Result<Run> {
        self.end_page();
        self.write_pages()?;
        let mut run = self.run;
        let mut tail = Vec::with_capacity(run.bytes() + TRAILER);
        tail.extend(run.firsts.iter().flat_map(|first| first.to_le_bytes()));
        run.filter.encode(&mut tail);
        let blocks = run.filter.bytes() / BLOCK;
        let mut trailer = [0; TRAILER];
        for (field, number) in trailer.chunks_exact_mut(8).zip([run.count, run.firsts.len() as u64, blocks as u64]) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        let sum = tail_sum(&tail, &trailer, run.seed);
        trailer[TRAILER - 8..].copy_from_slice(&sum.to_le_bytes());
        tail.extend(trailer);
        run.file.write_at(&tail, (run.firsts.len() * PAGE) as u64)?;
        Ok(run)
    }
}

/// The seed of the checksums of a run.
fn seed(crawl: u64, number: u32) -> u64 {
    crawl ^ (u64::from(number) << 32)
}

/// The checksum of index, filter and trailer.
fn tail_sum(tail: &[u8], trailer: &[u8; TRAILER], seed: u64) -> u64 {
    xxh3_64_with_seed(tail, seed ^ xxh3_64_with_seed(&trailer[..TRAILER - 8], seed))
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()))
}

fn numbers_in(bytes: &[u8]) -> Vec<u64> {
    numbers(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::super::os_files::OsFiles;
    use super::*;

    /// The id of the crawl.
    const CRAWL: u64 = 9;
    /// The number of the run.
    const NUMBER: u32 = 3;

    #[test]
    fn a_run_contains_exactly_the_written_fingerprints() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = OsFiles::new(folder.path());
        files.make_folder(FOLDER).expect("a folder");
        // No fingerprint, less than a page, one page, one more, the pages that are written at once, one more, many.
        let (page, batch) = (PER_PAGE as u64, (PER_PAGE * PAGES_AT_ONCE) as u64);
        for count in [0, 7, page, page + 1, batch, batch + 1, 100_000] {
            for max_filter_bytes in [0, usize::MAX] {
                let mut writer = RunWriter::begin(&files, CRAWL, NUMBER, count, max_filter_bytes).expect("begins");
                (1..=count).try_for_each(|number| writer.push(number << 32)).expect("writes");
                let written = writer.finish().expect("finishes");
                let opened = Run::open(&files, CRAWL, NUMBER, count).expect("whole");
                for run in [&written, &opened] {
                    assert_eq!(run.iter().filter(Result::is_ok).count() as u64, count);
                    let step = 1 + count as usize / 500;
                    for number in (1..=count).step_by(step) {
                        assert!(run.contains(number << 32).expect("reads"), "{number} of {count}");
                        assert!(!run.contains((number << 32) + 1).expect("reads"));
                    }
                    assert!(!run.contains(1).expect("reads") && !run.contains(u64::MAX).expect("reads"));
                }
                assert!(Run::open(&files, CRAWL - 1, NUMBER, count).is_none(), "the crawl is another one");
                assert!(
                    Run::open(&files, CRAWL, NUMBER, count + 1).is_none(),
                    "the number of fingerprints is another one"
                );
            }
        }
    }

    #[test]
    fn a_changed_byte_is_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = OsFiles::new(folder.path());
        files.make_folder(FOLDER).expect("a folder");
        let mut writer = RunWriter::begin(&files, CRAWL, NUMBER, 2_000, usize::MAX).expect("begins");
        (1..=2_000_u64).try_for_each(|number| writer.push(number << 40)).expect("writes");
        writer.finish().expect("finishes");
        let path = folder.path().join(file_name(NUMBER));
        let bytes = std::fs::read(&path).expect("reads");
        for at in (0..bytes.len()).step_by(97) {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            std::fs::write(&path, changed).expect("writes");
            let Some(run) = Run::open(&files, CRAWL, NUMBER, 2_000) else { continue };
            assert!(run.iter().any(|number| number.is_err()), "byte {at}");
        }
    }
}
