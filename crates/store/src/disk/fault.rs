//! Error messages of the store: which file, what is wrong, and what to do.

use super::files::Files;
use argiope_core::{StoreError, StoreErrorKind};
use std::io;

/// The error for a failed call to the file system. `doing` is the verb of the message, such as "write to".
pub fn failed(files: &dyn Files, name: &str, doing: &str, error: &io::Error) -> StoreError {
    let file = files.describe(name);
    let (kind, remedy) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            (StoreErrorKind::Full, "free some space and run the same command to resume")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (StoreErrorKind::File, "make it writable and run the same command to resume")
        }
        _ => (StoreErrorKind::File, "once the cause is removed, run the same command to resume"),
    };
    StoreError::new(kind, format!("cannot {doing} {file}: {error}; what was committed is safe: {remedy}"))
}

/// Like [`failed`], before a crawl was opened. There may be no crawl, so the message does not mention committed data.
pub(super) fn failed_to_open(files: &dyn Files, name: &str, doing: &str, error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::NotADirectory && !name.is_empty() {
        let message = format!("{} is a file, not a crawl directory", files.describe(""));
        return StoreError::new(StoreErrorKind::Format, message);
    }
    StoreError::new(StoreErrorKind::File, format!("cannot {doing} {}: {error}", files.describe(name)))
}

/// The error for a file whose content is not what was written.
pub(super) fn damaged(files: &dyn Files, name: &str, what: &str) -> StoreError {
    let file = files.describe(name);
    let remedy = "restore it from a copy, or start over with --fresh";
    StoreError::new(StoreErrorKind::Damaged, format!("{file} is damaged: {what}; {remedy}"))
}
