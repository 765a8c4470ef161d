//! The lock of a crawl directory: one process at a time.
//!
//! The lock is `flock`, not the existence of the file: the operating system releases it when the process dies, and no
//! stale file has to be removed. The file's text (process id and host name) is for messages. A file with another text
//! is refused.

use super::os_files::{OsFile, describe_symlink_error};
use argiope_core::{Remedy, StoreError, StoreErrorKind};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long [`Lock::take`] retries. Read-only commands take a shared lock for a moment to test it; a lock that is held
/// longer than this belongs to another crawl.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(500);
/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// How many bytes of the file's text are read.
const MAX_TEXT: u64 = 200;
/// The first word of the file's text.
const TEXT_PREFIX: &str = "process ";

/// The exclusive lock of a crawl directory, released on drop.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock. If another process holds it, the error names that process.
    pub fn take(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::new(StoreErrorKind::File, format!("cannot lock {}: {error}", path.display())).with_source(error)
        };
        let mut file = open(path, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
        let deadline = Instant::now() + ACQUIRE_TIMEOUT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(RETRY_INTERVAL),
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    // If the text cannot be read, the message says "another process".
                    let holder = read_text(&file).unwrap_or_default();
                    let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                    let directory = path.parent().unwrap_or(path).display();
                    let message = format!("{directory} is being crawled by {holder}");
                    let error = StoreError::new(StoreErrorKind::Locked, message);
                    return Err(error.with_remedy(Remedy::WaitOrOtherDirectory));
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
        let text = read_text(&file).map_err(failed)?;
        if !text.is_empty() && !text.starts_with(TEXT_PREFIX) {
            let message = format!("{} is not the lock of a crawl", path.display());
            return Err(StoreError::new(StoreErrorKind::Format, message).with_remedy(Remedy::MoveOrOtherDirectory));
        }
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        file.set_len(0).map_err(failed)?;
        std::io::Seek::rewind(&mut file).map_err(failed)?;
        file.write_all(format!("{TEXT_PREFIX}{} on {machine}\n", std::process::id()).as_bytes()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// Opens the file; refuses anything but a regular file without further hard links.
fn open(path: &Path, access: OFlags) -> std::io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(0o666));
    let file = File::from(opened.map_err(|error| describe_symlink_error(error, path))?);
    OsFile::new(file)?.into_writable()
}

fn read_text(file: &File) -> std::io::Result<String> {
    let mut text = Vec::new();
    file.take(MAX_TEXT).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The text of the process that holds the lock now, for read-only commands. Does not keep the lock.
pub fn holder(path: &Path) -> Option<String> {
    let file = open(path, OFlags::RDONLY).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        _ => return None,
    }
    Some(read_text(&file).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_with_the_id_of_the_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        std::fs::write(&path, "process 1 on a machine that crashed, and a longer line than the next one\n")
            .expect("write");
        let held = Lock::take(&path).expect("a stale text does not lock");
        let refused = Lock::take(&path).expect_err("held");
        assert_eq!(refused.kind, StoreErrorKind::Locked);
        assert!(refused.message.contains(&format!("process {} on ", std::process::id())), "{refused}");
        assert_eq!(
            holder(&path),
            refused.message.split(" by ").nth(1).and_then(|text| Some(text.split(';').next()?.into()))
        );
        drop(held);
        assert_eq!(holder(&path), None);
        Lock::take(&path).expect("free again");
    }

    #[test]
    fn a_shared_lock_for_a_moment_does_not_prevent_a_crawl() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        drop(Lock::take(&path).expect("free"));
        let reader = open(&path, OFlags::RDONLY).expect("it is there");
        flock(&reader, FlockOperation::NonBlockingLockShared).expect("free");
        let starting = std::thread::spawn({
            let path = path.clone();
            move || Lock::take(&path).map(drop)
        });
        // The other thread may be waiting for the lock or may not have started yet. Both cases are valid here.
        drop(reader);
        starting.join().expect("it ends").expect("the lock is free by then");
    }

    #[test]
    fn a_file_that_is_not_a_lock_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [mine, linked, pipe] = ["mine", "linked", "pipe"].map(|name| folder.path().join(name));
        std::fs::write(&mine, "my own text").expect("written");
        assert_eq!(Lock::take(&mine).expect_err("foreign").kind, StoreErrorKind::Format);
        std::fs::write(folder.path().join("victim"), "process of its own").expect("written");
        std::fs::hard_link(folder.path().join("victim"), &linked).expect("linked");
        assert!(Lock::take(&linked).expect_err("linked").message.contains("hard link"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .expect("a pipe");
        assert!(Lock::take(&pipe).expect_err("a pipe").message.contains("named pipe"));
        assert_eq!(holder(&pipe), None);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("victim", &link).expect("linked");
        assert!(Lock::take(&link).expect_err("a link").message.contains("it is a symbolic link"));
        assert_eq!(std::fs::read_to_string(&mine).expect("there"), "my own text");
        assert_eq!(std::fs::read_to_string(folder.path().join("victim")).expect("there"), "process of its own");
    }
}
