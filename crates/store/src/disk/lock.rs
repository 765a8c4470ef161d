//! The lock of a crawl directory: one process at a time.
//!
//! It is an advisory lock of the operating system, not the file's existence: when the process dies, however it dies,
//! the lock is released, and nothing has to be removed. The file's text (process id and machine) is only for the
//! message.

use argiope_core::{StoreError, StoreErrorKind};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Held as long as it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, or names its holder.
    pub fn take(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::new(StoreErrorKind::File, format!("cannot lock {}: {error}", path.display()))
        };
        let mut options = File::options();
        options.custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0));
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                // The message works without it.
                let _ = (&file).take(200).read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                let directory = path.parent().unwrap_or(path).display();
                let message = format!("{directory} is being crawled by {holder}; wait for it, or give another --out");
                return Err(StoreError::new(StoreErrorKind::Locked, message));
            }
            Err(error) => return Err(failed(error.into())),
        }
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        file.set_len(0).map_err(failed)?;
        file.write_all(format!("process {} on {machine}\n", std::process::id()).as_bytes()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// Who holds the lock now, as far as can be told without taking it: for commands that only read.
pub fn holder(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        _ => return None,
    }
    let mut text = String::new();
    (&file).take(200).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_with_the_holders_id_and_a_dead_holder_is_none() {
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
}
