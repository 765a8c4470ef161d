//! The file `processing`: which pages are being processed, and which were when an earlier run died.
//!
//! The file has one page of memory, in entries of fixed size. A mark is one positioned write into the page cache of the
//! kernel. It survives the death of the process, and that is all it is for, so nothing is synced. After a power cut the
//! entries may be old; then pages are processed alone without need.
//!
//! Invariant: an entry is used only if its checksum is right. A file with another beginning is not changed.

use super::files::Files;
use super::os_files::OsFiles;
use argiope_core::LaneId;
use argiope_core::crawl::marks::{MarkStore, MarkedPage, Suspect};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The name of the file.
pub(super) const NAME: &str = "processing";
/// How the file begins. The rest of the first entry is zero.
const MAGIC: &[u8; 8] = b"ARGPROC1";
const FILE_LENGTH: usize = 4096;
/// The length of an entry: fingerprint, lane, deaths plus one, three bytes of the checksum.
const ENTRY: usize = 16;
/// The entry of the suspect that is processed alone.
const ALONE: usize = 1;
/// The entries of suspects.
const SUSPECTS: std::ops::Range<usize> = 2..64;
/// The entries of marks.
const MARKS: std::ops::Range<usize> = 64..FILE_LENGTH / ENTRY;
/// The words with one bit for each of them.
const WORDS: usize = (FILE_LENGTH / ENTRY - 64) / 64;

/// The marks of a crawl directory.
pub struct MarkFile {
    file: File,
    /// The seed of the checksums: the key of the fingerprints.
    key: u64,
    /// One bit for each entry of a mark: whether it is in use.
    used: [AtomicU64; WORDS],
    /// By entry; `None` is an empty one.
    suspects: Mutex<Vec<Option<Suspect>>>,
    had_marks: bool,
}

impl MarkFile {
    /// Opens the file of a locked crawl directory, or creates it. Marks that an earlier run left become suspects. `key`
    /// is the key of the fingerprints.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or it was not written by a crawl.
    pub fn open(directory: &Path, key: u64) -> io::Result<Self> {
        let file = OsFiles::new(directory).open_or_create(NAME)?;
        let mut before = vec![0; FILE_LENGTH];
        let length = read_all(&file, &mut before)?;
        if length > 0 && !before.starts_with(MAGIC) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it was not written by a crawl"));
        }
        let suspects = suspects_of(&before, key);
        let had_marks = before.get(MARKS.start * ENTRY..).is_some_and(|marks| marks.iter().any(|byte| *byte != 0));
        file.write_all_at(&image(&suspects, key), 0)?;
        Ok(Self { file, key, used: Default::default(), suspects: Mutex::new(suspects), had_marks })
    }

    /// Whether an earlier run left marks, also those that cannot be read, because the run died before it stored its key.
    pub fn had_marks(&self) -> bool {
        self.had_marks
    }

    /// Forgets the suspects: a new round requests every page again.
    pub fn forget_suspects(&self) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let _ = self.file.write_all_at(&image(&[], self.key), 0);
    }

    fn write(&self, index: usize, entry: [u8; ENTRY]) {
        // Without the mark, the crawl only learns less from its next death.
        let _ = self.file.write_all_at(&entry, (index * ENTRY) as u64);
    }
}

impl MarkStore for MarkFile {
    fn begin(&self, page: MarkedPage) -> Option<usize> {
        let place = self.used.iter().enumerate().find_map(|(word, bits)| {
            let take = |bits: u64| (bits != u64::MAX).then(|| bits | (bits + 1));
            let before = bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
            Some(word * 64 + before.trailing_ones() as usize)
        })?;
        self.write(MARKS.start + place, entry(MARKS.start + place, Suspect { page, deaths: 0 }, self.key));
        Some(place)
    }

    fn end(&self, place: usize) {
        self.write(MARKS.start + place, [0; ENTRY]);
        if let Some(bits) = self.used.get(place / 64) {
            bits.fetch_and(!(1 << (place % 64)), Ordering::Relaxed);
        }
    }

    fn suspects(&self) -> Vec<Suspect> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().flatten().collect()
    }

    fn set_alone(&self, page: Option<MarkedPage>) {
        self.write(ALONE, page.map_or([0; ENTRY], |page| entry(ALONE, Suspect { page, deaths: 0 }, self.key)));
    }

    fn clear(&self, fingerprint: u64) {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |suspect: &Option<Suspect>| suspect.is_some_and(|known| known.page.fingerprint == fingerprint);
        if let Some(place) = suspects.iter().position(is_meant) {
            self.write(SUSPECTS.start + place, [0; ENTRY]);
            if let Some(suspect) = suspects.get_mut(place) {
                *suspect = None;
            }
        }
    }
}

/// Whether a directory has the file, written by a crawl.
pub(super) fn is_ours(files: &dyn Files) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = files.open(NAME).and_then(|file| file.read_at(&mut magic, 0));
    read.is_ok_and(|read| read == 0 || magic == *MAGIC)
}

/// Reads the file from its start; returns how many bytes it has, up to the length of `into`.
fn read_all(file: &File, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The suspects after the death of the run that left these bytes.
fn suspects_of(bytes: &[u8], key: u64) -> Vec<Option<Suspect>> {
    let in_entries = |range: std::ops::Range<usize>| range.filter_map(|index| read_entry(bytes, index, key));
    let mut suspects: Vec<Suspect> = in_entries(SUSPECTS).collect();
    let marked: Vec<MarkedPage> = in_entries(MARKS).map(|mark| mark.page).collect();
    let alone = read_entry(bytes, ALONE, key).map(|alone| alone.page.fingerprint);
    let is_only_mark = |page: &MarkedPage| marked.iter().all(|other| other.fingerprint == page.fingerprint);
    for page in &marked {
        let was_alone = alone == Some(page.fingerprint) && is_only_mark(page);
        match suspects.iter_mut().find(|suspect| suspect.page.fingerprint == page.fingerprint) {
            Some(suspect) => {
                suspect.page = *page;
                suspect.deaths = suspect.deaths.saturating_add(u8::from(was_alone)).min(u8::MAX - 1);
            }
            None => suspects.push(Suspect { page: *page, deaths: u8::from(was_alone) }),
        }
    }
    // There is no room for more. Those with the fewest deaths are left out.
    suspects.sort_by_key(|suspect| std::cmp::Reverse(suspect.deaths));
    suspects.truncate(SUSPECTS.len());
    suspects.into_iter().map(Some).collect()
}

/// The bytes of a file with these suspects and no marks.
fn image(suspects: &[Option<Suspect>], key: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.resize(SUSPECTS.start * ENTRY, 0);
    for (index, suspect) in SUSPECTS.zip(suspects) {
        bytes.extend(suspect.map_or([0; ENTRY], |suspect| entry(index, suspect, key)));
    }
    bytes.resize(FILE_LENGTH, 0);
    bytes
}

fn entry(index: usize, suspect: Suspect, key: u64) -> [u8; ENTRY] {
    let Suspect { page: MarkedPage { fingerprint, lane }, deaths } = suspect;
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&fingerprint.to_le_bytes());
    bytes[8..12].copy_from_slice(&lane.0.to_le_bytes());
    bytes[12] = deaths.saturating_add(1);
    let check = checksum(&bytes, index, key);
    bytes[13..].copy_from_slice(&check);
    bytes
}

fn read_entry(bytes: &[u8], index: usize, key: u64) -> Option<Suspect> {
    let bytes: &[u8; ENTRY] = bytes.get(index * ENTRY..)?.first_chunk()?;
    let (fingerprint, rest) = bytes.split_first_chunk()?;
    let (lane, rest) = rest.split_first_chunk()?;
    let (deaths, check) = rest.split_first()?;
    let page = MarkedPage { fingerprint: u64::from_le_bytes(*fingerprint), lane: LaneId(u32::from_le_bytes(*lane)) };
    let is_valid = *deaths > 0 && check == checksum(bytes, index, key);
    is_valid.then_some(Suspect { page, deaths: deaths.saturating_sub(1) })
}

/// The checksum of an entry without its last three bytes.
fn checksum(entry: &[u8; ENTRY], index: usize, key: u64) -> [u8; 3] {
    let [content @ .., _, _, _] = entry;
    let [first, second, third, ..] = xxh3_64_with_seed(content, key ^ index as u64).to_le_bytes();
    [first, second, third]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(fingerprint: u64) -> MarkedPage {
        MarkedPage { fingerprint, lane: LaneId(3) }
    }

    /// What the next run finds after a run with these actions died.
    fn after(directory: &Path, run: impl FnOnce(&MarkFile)) -> Vec<Suspect> {
        let file = MarkFile::open(directory, 7).expect("a file");
        run(&file);
        drop(file);
        MarkFile::open(directory, 7).expect("a file").suspects()
    }

    #[test]
    fn pages_whose_processing_had_begun_and_not_ended_are_suspects() {
        let directory = tempfile::tempdir().expect("a directory");
        let suspects = after(directory.path(), |file| {
            let first = file.begin(page(1)).expect("a place");
            file.begin(page(2));
            file.end(first);
            file.begin(page(5));
        });
        assert_eq!(suspects, [5, 2].map(|fingerprint| Suspect { page: page(fingerprint), deaths: 0 }));
        let suspects = after(directory.path(), |file| file.clear(2));
        assert_eq!(suspects, [Suspect { page: page(5), deaths: 0 }]);
    }

    #[test]
    fn only_deaths_at_which_a_page_was_alone_are_counted() {
        let directory = tempfile::tempdir().expect("a directory");
        let alone = |file: &MarkFile| {
            file.set_alone(Some(page(1)));
            file.begin(page(1));
        };
        let deaths = |suspects: Vec<Suspect>| suspects.first().map(|suspect| suspect.deaths);
        let with_others = |file: &MarkFile| {
            file.begin(page(1));
        };
        assert_eq!(deaths(after(directory.path(), with_others)), Some(0));
        assert_eq!(deaths(after(directory.path(), alone)), Some(1));
        // Its response had not arrived.
        assert_eq!(deaths(after(directory.path(), |file| file.set_alone(Some(page(1))))), Some(1));
        assert_eq!(deaths(after(directory.path(), alone)), Some(2));
        // Another page was processed.
        let suspects = after(directory.path(), |file| {
            alone(file);
            file.begin(page(2));
        });
        assert_eq!(deaths(suspects), Some(2));
        let damaged = vec![0xFF; FILE_LENGTH - ENTRY];
        let file = File::options().write(true).open(directory.path().join(NAME)).expect("the file");
        file.write_all_at(&damaged, ENTRY as u64).expect("written");
        assert_eq!(after(directory.path(), |_| ()), [], "an entry with a wrong checksum is not used");
    }

    #[test]
    fn a_page_is_not_marked_when_all_places_are_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = MarkFile::open(directory.path(), 7).expect("a file");
        let places: Vec<usize> = std::iter::from_fn(|| file.begin(page(1))).collect();
        assert_eq!(places, (0..MARKS.len()).collect::<Vec<_>>());
        file.end(77);
        assert_eq!((file.begin(page(2)), file.begin(page(2))), (Some(77), None));
    }

    #[test]
    fn a_file_of_another_program_is_not_changed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(NAME);
        std::fs::write(&path, "mine").expect("written");
        assert!(MarkFile::open(directory.path(), 7).is_err());
        assert_eq!(std::fs::read(&path).expect("readable"), b"mine");
    }
}
