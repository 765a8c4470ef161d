//! Error messages of the store: which file, what is wrong, and what to do.

use super::files::Files;
use argiope_core::{Remedy, StoreError, StoreErrorKind};
use std::io;

/// The error for a failed call to the file system. `doing` is the verb of the message, such as "write to".
pub fn failed(files: &dyn Files, name: &str, doing: &str, error: io::Error) -> StoreError {
    let (kind, remedy) = match error.kind() {
        _ if is_full(&error) => (StoreErrorKind::Full, Remedy::FreeSpace),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (StoreErrorKind::File, Remedy::MakeWritable)
        }
        _ => (StoreErrorKind::File, Remedy::RemoveCause),
    };
    let message = format!("cannot {doing} {}: {error}", files.describe(name));
    StoreError::new(kind, message).with_remedy(remedy).with_source(error)
}

/// Whether there is no space for what was to be written.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Like [`failed`], before a crawl was opened. The error has no remedy: its text would mention committed data, and
/// there may be no crawl.
pub(super) fn failed_to_open(files: &dyn Files, name: &str, doing: &str, error: io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::NotADirectory && !name.is_empty() {
        let message = format!("{} is a file, not a crawl directory", files.describe(""));
        return StoreError::new(StoreErrorKind::Format, message).with_source(error);
    }
    StoreError::new(StoreErrorKind::File, format!("cannot {doing} {}: {error}", files.describe(name)))
        .with_source(error)
}

/// The error for a file whose content is not what was written.
pub(super) fn damaged(files: &dyn Files, name: &str, what: &str) -> StoreError {
    let message = format!("{} is damaged: {what}", files.describe(name));
    StoreError::new(StoreErrorKind::Damaged, message).with_remedy(Remedy::RestoreOrStartOver)
}
