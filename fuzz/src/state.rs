//! Properties of a crawl directory with modified files: it is recovered or rejected, and never causes a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use argiope_core::crawl::schedule::frontier::{History as _, Settlement, put_all};
use argiope_core::{FinalOutcome, Frontier, Link, LinkKind, Outcome, StoreError, Url};
use argiope_store::disk::{CrawlSettings, File, Files, history_in, open_in};

/// The contents of one file.
type Bytes = Arc<Mutex<Vec<u8>>>;

/// Files in memory.
#[derive(Clone, Default)]
struct MemoryFiles(Arc<Mutex<BTreeMap<String, Bytes>>>);

/// An open file.
struct MemoryFile(Bytes);

impl MemoryFiles {
    /// Calls `access` with the contents of all files by name.
    fn with_files<T>(&self, access: impl FnOnce(&mut BTreeMap<String, Bytes>) -> T) -> T {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A deep copy.
    fn copy(&self) -> Self {
        let contents = self.with_files(|files| {
            let copy = |bytes: &Bytes| bytes.lock().unwrap_or_else(PoisonError::into_inner).clone();
            files.iter().map(|(name, bytes)| (name.clone(), Arc::new(Mutex::new(copy(bytes))))).collect()
        });
        Self(Arc::new(Mutex::new(contents)))
    }
}

impl Files for MemoryFiles {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let bytes = self.with_files(|files| files.get(name).cloned()).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(MemoryFile(bytes)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let bytes = Bytes::default();
        self.with_files(|files| files.insert(name.to_owned(), Arc::clone(&bytes)));
        Ok(Box::new(MemoryFile(bytes)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.with_files(|files| files.remove(from).map(|bytes| drop(files.insert(to.to_owned(), bytes))))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.with_files(|files| files.remove(name)).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn make_folder(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let name = |full: &String| Some(full.strip_prefix(&prefix)?.split('/').next()?.to_owned());
        let names: BTreeSet<String> = self.with_files(|files| files.keys().filter_map(name).collect());
        Ok(names.into_iter().collect())
    }

    fn sync_folder(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl File for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = bytes.get(usize::try_from(position).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&mut self, new: &[u8], position: u64) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(position).map_err(io::Error::other)?;
        let end = start + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(new);
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An unmodified crawl directory with three commits and a snapshot of the second, and the URLs that were put into it.
fn intact_directory() -> &'static (MemoryFiles, BTreeSet<String>) {
    static INTACT: OnceLock<(MemoryFiles, BTreeSet<String>)> = OnceLock::new();
    INTACT.get_or_init(|| {
        let (files, mut all) = (MemoryFiles::default(), BTreeSet::new());
        for round in 0..3 {
            let mut opened = open_in(Arc::new(files.clone()), &CrawlSettings::new()).expect("it opens");
            let mut links = Vec::new();
            for number in 0..20 {
                let url = Url::parse(&format!("http://h{}.example/{round}/{number}", number % 3)).expect("a valid URL");
                all.insert(url.to_string());
                links.push(Link {
                    url,
                    via: None,
                    depth: 1,
                    redirects: 3,
                    tries: 0,
                    kind: LinkKind::Anchor,
                    request: None,
                });
            }
            let lanes = put_all(&mut opened.frontier, &links).expect("it puts").lanes;
            for link in opened.frontier.take(lanes[0], 4).expect("it takes") {
                let final_outcome = FinalOutcome {
                    outcome: Outcome::Ok,
                    status: Some(200),
                    record: b"{\"type\":\"page\"}",
                    is_fetched_page: true,
                };
                opened.frontier.settle(&mut [Settlement::of(&link, final_outcome)]).expect("it settles");
            }
            opened.frontier.keep_note(Some(lanes[0]), b"{\"rest\":1}").expect("it keeps");
            let outputs: &[(&str, u64)] = &[("pages.jsonl", 64 * (round + 1))];
            let frontier = &mut opened.frontier;
            // A snapshot at the end of a run, however short the log is.
            frontier.set_snapshots(u64::MAX, 0, 1 << 20);
            let batch = if round == 1 { frontier.commit_at_end(outputs) } else { frontier.commit(outputs) };
            opened.writer.write(&batch.expect("it commits").expect("a batch")).expect("it writes");
        }
        (files, all)
    })
}

/// The names of the files of the unmodified crawl directory. The changes that `state` reads refer to their order.
#[cfg(test)]
pub fn file_names() -> Vec<String> {
    intact_directory().0.with_files(|files| files.keys().cloned().collect())
}

/// Modifies files and opens the directory. Each five bytes of the input describe one change: file, kind of change,
/// position (two bytes) and value. The counts of the directory must be consistent, and it must contain only known URLs.
pub fn state(data: &[u8]) {
    let (intact, all) = intact_directory();
    let files = intact.copy();
    let names: Vec<String> = files.with_files(|files| files.keys().cloned().collect());
    for change in data.chunks_exact(5) {
        let [file, kind, high, low, value] = [change[0], change[1], change[2], change[3], change[4]];
        let Some(bytes) = files.with_files(|files| files.get(&names[usize::from(file) % names.len()]).cloned()) else {
            continue;
        };
        let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let position = usize::from(high) << 8 | usize::from(low);
        let position = if bytes.is_empty() { 0 } else { position % bytes.len() };
        match kind % 5 {
            0 if !bytes.is_empty() => bytes[position] ^= value,
            1 => bytes.truncate(position),
            2 => bytes.insert(position, value),
            3 => bytes.extend(std::iter::repeat_n(value, usize::from(low))),
            _ => bytes.clear(),
        }
    }
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let _ = history_in(Arc::clone(&shared), |_| Ok::<(), StoreError>(()));
    let Ok(mut opened) = open_in(shared, &CrawlSettings::new()) else { return };
    let counts = opened.frontier.counts();
    assert_eq!(counts.known, counts.queued + counts.settled, "every known URL is queued or settled");
    assert!(counts.known <= all.len() as u64, "not more URLs than were put");
    for lane in opened.frontier.lanes_with_work() {
        let Ok(links) = opened.frontier.take(lane, 1_000) else { continue };
        for link in links {
            assert!(all.contains(link.url.as_str()), "{} was never put", link.url);
        }
    }
}
