//! [`CrashFiles`]: in-memory files that simulate a power loss.
//!
//! At a power cut, each sector of unsynced data is kept or lost independently. Of the unsynced changes of names in a
//! folder, a random number of the first ones is kept. In addition, any call can be made to fail. A test can therefore
//! run the same history again and again, each time with a fault at another call.

use argiope_store::disk::{File, Files};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit that a power cut keeps or loses, in bytes.
const SECTOR: usize = 512;

/// The fault at the chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The power fails during the call. Half of a write is done; any other call has no effect. All later calls
    /// fail in the same way.
    PowerCut,
    /// Only this call fails.
    Once(io::ErrorKind),
    /// This call and all later ones fail.
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
    contents: BTreeMap<u64, FileContent>,
    names: BTreeMap<String, u64>,
    /// The names that survive a power cut.
    durable_names: BTreeMap<String, u64>,
    /// The changes of names since the last sync, by folder.
    unsynced_names: BTreeMap<String, Vec<NameChange>>,
    /// The id of the next new file.
    next: u64,
    /// Number of calls so far, without those that only read.
    calls: u64,
    /// The planned fault and the number of its call.
    planned_fault: Option<(u64, InjectedFault)>,
}

/// One file.
#[derive(Clone, Default)]
struct FileContent {
    /// The content as a running process reads it.
    current: Vec<u8>,
    /// The content that survives a power cut.
    durable: Vec<u8>,
    /// The changes since the last sync.
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
    /// Applies the change. `keep` is called for each sector, and decides whether the change of that sector is kept.
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

    /// The number of calls so far, without those that only read.
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Schedules a fault at the call with this number.
    pub fn plan(&self, call: u64, fault: InjectedFault) {
        self.disk().planned_fault = Some((call, fault));
    }

    /// The files as another process finds them after this one was killed. They contain all writes, because the operating
    /// system has received them.
    pub fn after_kill(&self) -> Self {
        let mut disk = self.disk().clone();
        disk.planned_fault = None;
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The files as found after a power cut. `below(n)` returns a random number below `n`.
    pub fn after_power_cut(&self, mut below: impl FnMut(u64) -> u64) -> Self {
        let mut disk = self.disk().clone();
        disk.planned_fault = None;
        // The percentage of unsynced sectors that are kept: 0, 25, 50, 75 or 100.
        let percentage = below(5) * 25;
        for name_changes in std::mem::take(&mut disk.unsynced_names).into_values() {
            let kept = below(name_changes.len() as u64 + 1) as usize;
            name_changes.iter().take(kept).for_each(|name_change| name_change.apply(&mut disk.durable_names));
        }
        disk.names = disk.durable_names.clone();
        for content in disk.contents.values_mut() {
            for change in std::mem::take(&mut content.unsynced) {
                change.apply(&mut content.durable, || below(100) < percentage);
            }
            content.current = content.durable.clone();
        }
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Changes the bytes of a file directly.
    pub fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut disk = self.disk();
        if let Some(id) = disk.names.get(name).copied()
            && let Some(content) = disk.contents.get_mut(&id)
        {
            change(&mut content.current);
            content.durable = content.current.clone();
        }
    }

    /// All names with the length of their files.
    pub fn names(&self) -> Vec<(String, usize)> {
        let disk = self.disk();
        let length = |id: &u64| disk.contents.get(id).map_or(0, |content| content.current.len());
        disk.names.iter().map(|(name, id)| (name.clone(), length(id))).collect()
    }
}

impl Disk {
    /// Counts a call that does more than read; returns an error if a fault is due.
    fn call(&mut self) -> io::Result<()> {
        let number = self.calls;
        self.calls += 1;
        match self.planned_fault {
            Some((at, InjectedFault::PowerCut)) if number >= at => Err(io::Error::other("power cut")),
            Some((at, InjectedFault::Once(kind))) if number == at => Err(kind.into()),
            Some((at, InjectedFault::Always(kind))) if number >= at => Err(kind.into()),
            _ => Ok(()),
        }
    }

    /// Applies a change of names in the folder of `path`. It is unsynced until the folder is synced.
    fn change_name(&mut self, path: &str, name_change: NameChange) {
        name_change.apply(&mut self.names);
        self.unsynced_names.entry(folder(path).to_owned()).or_default().push(name_change);
    }
}

/// The folder part of a path; empty without one.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Files for CrashFiles {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let id = *self.disk().names.get(name).ok_or_else(not_found)?;
        Ok(Box::new(CrashFile { disk: Arc::clone(&self.disk), id }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut disk = self.disk();
        disk.call()?;
        if let Some(id) = disk.names.get(name).copied() {
            if let Some(content) = disk.contents.get_mut(&id) {
                content.current.clear();
                content.unsynced.push(Change::Length(0));
            }
            return Ok(Box::new(CrashFile { disk: Arc::clone(&self.disk), id }));
        }
        let id = disk.next;
        disk.next += 1;
        disk.contents.insert(id, FileContent::default());
        disk.change_name(name, NameChange::Create(name.to_owned(), id));
        Ok(Box::new(CrashFile { disk: Arc::clone(&self.disk), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.call()?;
        disk.change_name(to, NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.names.get(name).ok_or_else(not_found)?;
        disk.call()?;
        disk.change_name(name, NameChange::Remove(name.to_owned()));
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
        for name_change in disk.unsynced_names.remove(folder).unwrap_or_default() {
            name_change.apply(&mut disk.durable_names);
        }
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        format!("crawl/{name}")
    }
}

/// An open file.
struct CrashFile {
    disk: Arc<Mutex<Disk>>,
    id: u64,
}

impl CrashFile {
    /// Calls `access` with the content of the file.
    fn with<T>(&self, access: impl FnOnce(&mut FileContent) -> T) -> T {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        access(disk.contents.entry(self.id).or_default())
    }

    fn call(&self) -> io::Result<()> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).call()
    }

    fn change(&self, change: Change) {
        self.with(|content| {
            change.apply(&mut content.current, || true);
            content.unsynced.push(change);
        });
    }
}

impl File for CrashFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.with(|content| content.current.len() as u64))
    }

    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.with(|content| {
            let rest = content.current.get(position as usize..).unwrap_or_default();
            let length = rest.len().min(into.len());
            into[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        })
    }

    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<()> {
        let position = position as usize;
        let result = self.call();
        // A write that fails, or that a power cut interrupts, is done by half.
        let written = if result.is_ok() { bytes } else { bytes.get(..bytes.len() / 2).unwrap_or_default() };
        self.change(Change::Write { position, bytes: written.to_vec() });
        result
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.call()?;
        self.change(Change::Length(len as usize));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.call()?;
        self.with(|content| {
            content.durable = content.current.clone();
            content.unsynced.clear();
        });
        Ok(())
    }
}
