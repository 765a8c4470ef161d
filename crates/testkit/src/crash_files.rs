//! [`CrashFiles`]: in-memory files that simulate a power loss.
//!
//! At a power cut, unsynced data is kept, lost or torn, sector by sector, in any order. Of the unsynced changes of
//! names in a folder, the first few are kept. In addition, any call can be made to fail. So a test can run the same
//! history with a fault at every single call.

use argiope_store::disk::{File, Files};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit that a power cut keeps or loses, in bytes.
const SECTOR: usize = 512;

/// The fault at the chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The power fails before the call has any effect.
    PowerCut,
    /// Only this call fails.
    Once(io::ErrorKind),
    /// This call and all later ones fail. A write may have been done partially.
    Always(io::ErrorKind),
}

/// In-memory files that simulate a power loss. Clones share the same files.
#[derive(Clone, Default)]
pub struct CrashFiles {
    disk: Arc<Mutex<Disk>>,
}

/// The simulated disk.
#[derive(Clone, Default)]
struct Disk {
    /// The files by id. A name refers to an id, like a directory entry to an inode.
    contents: BTreeMap<u64, Content>,
    names: BTreeMap<String, u64>,
    /// The names that survive a power cut.
    durable_names: BTreeMap<String, u64>,
    /// The changes of names since the last sync, by folder.
    unsynced_names: BTreeMap<String, Vec<NameChange>>,
    next: u64,
    calls: u64,
    /// The planned fault and the number of its call.
    accident: Option<(u64, InjectedFault)>,
}

/// One file.
#[derive(Clone, Default)]
struct Content {
    /// The content as a running process sees it.
    now: Vec<u8>,
    /// The content that survives a power cut.
    lasting: Vec<u8>,
    unsynced: Vec<Change>,
}

/// An unsynced change of a file.
#[derive(Clone)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    Length(usize),
}

/// A change of names in a folder.
#[derive(Clone)]
enum NameChange {
    Create(String, u64),
    Rename(String, String),
    Remove(String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Create(name, id) => {
                names.insert(name.clone(), *id);
            }
            Self::Rename(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, mut keep: impl FnMut() -> bool) {
        match self {
            Self::Length(length) => {
                if keep() {
                    bytes.resize(*length, 0);
                }
            }
            Self::Write { position, bytes: new } => {
                let mut at = *position;
                let end = position + new.len();
                while at < end {
                    let next = ((at / SECTOR + 1) * SECTOR).min(end);
                    if keep() {
                        if bytes.len() < next {
                            bytes.resize(next, 0);
                        }
                        bytes[at..next].copy_from_slice(&new[at - position..next - position]);
                    }
                    at = next;
                }
            }
        }
    }
}

impl CrashFiles {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of calls so far that changed something.
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Schedules a fault at the call with this number.
    pub fn plan(&self, call: u64, accident: InjectedFault) {
        self.disk().accident = Some((call, accident));
    }

    /// The files as another process finds them after this one was killed: with all writes, because the operating system
    /// has them.
    pub fn after_kill(&self) -> Self {
        let mut disk = self.disk().clone();
        disk.accident = None;
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The files as found after a power cut. `below` returns random numbers.
    pub fn after_power_cut(&self, mut below: impl FnMut(u64) -> u64) -> Self {
        let mut disk = self.disk().clone();
        disk.accident = None;
        // The percentage of unsynced sectors that are kept: 0, 25, 50, 75 or 100.
        let share = below(5) * 25;
        for namings in std::mem::take(&mut disk.unsynced_names).into_values() {
            let kept = below(namings.len() as u64 + 1) as usize;
            namings.iter().take(kept).for_each(|naming| naming.apply(&mut disk.durable_names));
        }
        disk.names = disk.durable_names.clone();
        for content in disk.contents.values_mut() {
            for change in std::mem::take(&mut content.unsynced) {
                change.apply(&mut content.lasting, || below(100) < share);
            }
            content.now = content.lasting.clone();
        }
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Changes the bytes of a file directly.
    pub fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut disk = self.disk();
        if let Some(id) = disk.names.get(name).copied()
            && let Some(content) = disk.contents.get_mut(&id)
        {
            change(&mut content.now);
            content.lasting = content.now.clone();
        }
    }

    /// All names with the length of their files.
    pub fn names(&self) -> Vec<(String, usize)> {
        let disk = self.disk();
        let length = |id: &u64| disk.contents.get(id).map_or(0, |content| content.now.len());
        disk.names.iter().map(|(name, id)| (name.clone(), length(id))).collect()
    }
}

impl Disk {
    /// Counts a call that changes something; returns an error if a fault is due.
    fn call(&mut self) -> io::Result<()> {
        let number = self.calls;
        self.calls += 1;
        let lost = || Err(io::Error::other("the power is gone"));
        match self.accident {
            Some((at, InjectedFault::PowerCut)) if number >= at => lost(),
            Some((at, InjectedFault::Once(kind))) if number == at => Err(kind.into()),
            Some((at, InjectedFault::Always(kind))) if number >= at => Err(kind.into()),
            _ => Ok(()),
        }
    }

    /// Applies a change of names, which is unsynced until the folder is synced.
    fn name(&mut self, folder_of: &str, naming: NameChange) {
        naming.apply(&mut self.names);
        self.unsynced_names.entry(folder(folder_of).to_owned()).or_default().push(naming);
    }
}

fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Files for CrashFiles {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let id = *self.disk().names.get(name).ok_or_else(missing)?;
        Ok(Box::new(CrashFile { disk: Arc::clone(&self.disk), id }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut disk = self.disk();
        disk.call()?;
        if let Some(id) = disk.names.get(name).copied() {
            if let Some(content) = disk.contents.get_mut(&id) {
                content.now.clear();
                content.unsynced.push(Change::Length(0));
            }
            return Ok(Box::new(CrashFile { disk: Arc::clone(&self.disk), id }));
        }
        let id = disk.next;
        disk.next += 1;
        disk.contents.insert(id, Content::default());
        disk.name(name, NameChange::Create(name.to_owned(), id));
        Ok(Box::new(CrashFile { disk: Arc::clone(&self.disk), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call()?;
        disk.name(to, NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.names.get(name).ok_or_else(missing)?;
        disk.call()?;
        disk.name(name, NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn make_folder(&self, _name: &str) -> io::Result<()> {
        self.disk().call()
    }

    fn list(&self, inside: &str) -> io::Result<Vec<String>> {
        let disk = self.disk();
        let names = disk.names.keys().filter(|name| folder(name) == inside);
        Ok(names.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()).collect())
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call()?;
        for naming in disk.unsynced_names.remove(folder).unwrap_or_default() {
            naming.apply(&mut disk.durable_names);
        }
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        format!("crawl/{name}")
    }
}

struct CrashFile {
    disk: Arc<Mutex<Disk>>,
    id: u64,
}

impl CrashFile {
    fn with<T>(&self, act: impl FnOnce(&mut Content) -> T) -> T {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        act(disk.contents.entry(self.id).or_default())
    }

    fn call(&self) -> io::Result<()> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).call()
    }

    fn change(&self, change: Change) {
        self.with(|content| {
            change.apply(&mut content.now, || true);
            content.unsynced.push(change);
        });
    }
}

impl File for CrashFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.with(|content| content.now.len() as u64))
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.with(|content| {
            let rest = content.now.get(position as usize..).unwrap_or_default();
            let length = rest.len().min(into.len());
            into[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        })
    }

    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<()> {
        let position = position as usize;
        let failed = self.call();
        // A write that fails or is interrupted by a power cut may have been done partially.
        let done = if failed.is_ok() { bytes } else { bytes.get(..bytes.len() / 2).unwrap_or_default() };
        self.change(Change::Write { position, bytes: done.to_vec() });
        failed
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.call()?;
        self.change(Change::Length(len as usize));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.call()?;
        self.with(|content| {
            content.lasting = content.now.clone();
            content.unsynced.clear();
        });
        Ok(())
    }
}
