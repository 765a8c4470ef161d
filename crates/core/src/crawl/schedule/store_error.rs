//! [`StoreError`]: why the store stops the crawl, and the [`Remedy`] for it.

use std::fmt;
use std::io;
use std::sync::Arc;

/// A failure of the store, which stops the crawl.
///
/// The message names the file and what is wrong with it. [`fmt::Display`] adds the remedy, in words without settings
/// unless [`StoreError::reworded`] has replaced them.
#[derive(Clone, Debug)]
pub struct StoreError {
    pub kind: StoreErrorKind,
    pub message: Box<str>,
    /// What the user can do, and the words for it.
    remedy: Option<(Remedy, &'static str)>,
    source: Option<Arc<io::Error>>,
}

/// The kinds of failures of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Another process holds the crawl directory.
    Locked,
    /// A file does not contain what was written to it.
    Damaged,
    /// The directory was written by a newer version, or is not a crawl directory.
    Format,
    /// The directory belongs to a crawl with other roots, scope or robots policy.
    OtherCrawl,
    /// The disk, the memory limit or a counter is full.
    Full,
    /// A file could not be read or written.
    File,
    /// A call that the contract forbids, such as settling a link that is not leased.
    Misuse,
    /// The lease ended, or another process has leased these hosts. Everything that is not settled must be dropped.
    LeaseLost,
}

/// What the user can do about an error of the store. [`Remedy::as_str`] has words without settings. The command and the
/// library have words of their own, with flags and with the names of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Free some space on the disk, then resume.
    FreeSpace,
    /// Make the file or the directory writable, then resume.
    MakeWritable,
    /// Remove the cause that the message names, then resume.
    RemoveCause,
    /// Start again: the damaged file is rebuilt from the log.
    Rebuild,
    /// Remove the snapshot, then start again: the damaged file is rebuilt from the log.
    RemoveSnapshot,
    /// Restore the file from a copy, or start a new crawl.
    RestoreOrStartOver,
    /// Use another crawl directory.
    OtherDirectory,
    /// Wait for the other process, or use another crawl directory.
    WaitOrOtherDirectory,
    /// Move the file away, or use another crawl directory.
    MoveOrOtherDirectory,
    /// Use another crawl directory, or start a new crawl in this one.
    OtherDirectoryOrStartOver,
    /// Remove the output file, or name another one.
    RemoveOrOtherFile,
    /// Name another output file. The records of the changed one can be exported from the crawl directory.
    ExportOrOtherFile,
    /// Use a newer version of Argiope.
    NewerVersion,
}

impl StoreError {
    pub fn new(kind: StoreErrorKind, message: impl Into<Box<str>>) -> Self {
        Self { kind, message: message.into(), remedy: None, source: None }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn with_remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some((remedy, remedy.as_str())), ..self }
    }

    /// Adds the error of the system that was the cause.
    #[must_use]
    pub fn with_source(self, source: io::Error) -> Self {
        Self { source: Some(Arc::new(source)), ..self }
    }

    /// What the user can do, if it is known.
    pub fn remedy(&self) -> Option<Remedy> {
        self.remedy.map(|(remedy, _)| remedy)
    }

    /// The same error with the remedy in other words.
    #[must_use]
    pub fn reworded(self, words: impl FnOnce(Remedy) -> &'static str) -> Self {
        Self { remedy: self.remedy.map(|(remedy, _)| (remedy, words(remedy))), ..self }
    }
}

/// Two errors are equal if users see the same. Errors of the system cannot be compared.
impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message, self.remedy) == (other.kind, &other.message, other.remedy)
    }
}

impl Eq for StoreError {}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.remedy.map_or(Ok(()), |(_, words)| write!(f, "; {words}"))
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl Remedy {
    /// All remedies.
    pub const ALL: [Self; 13] = [
        Self::FreeSpace,
        Self::MakeWritable,
        Self::RemoveCause,
        Self::Rebuild,
        Self::RemoveSnapshot,
        Self::RestoreOrStartOver,
        Self::OtherDirectory,
        Self::WaitOrOtherDirectory,
        Self::MoveOrOtherDirectory,
        Self::OtherDirectoryOrStartOver,
        Self::RemoveOrOtherFile,
        Self::ExportOrOtherFile,
        Self::NewerVersion,
    ];

    /// Words without settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FreeSpace => "what was committed is safe: free some space and start the crawl again to resume",
            Self::MakeWritable => "what was committed is safe: make it writable and start the crawl again to resume",
            Self::RemoveCause => {
                "what was committed is safe: once the cause is removed, start the crawl again to resume"
            }
            Self::Rebuild => "start the crawl again: it is rebuilt from the log",
            Self::RemoveSnapshot => "remove the file `snapshot`, and start the crawl again: it is rebuilt from the log",
            Self::RestoreOrStartOver => "restore it from a copy, or start over",
            Self::OtherDirectory => "use another crawl directory",
            Self::WaitOrOtherDirectory => "wait for it, or use another crawl directory",
            Self::MoveOrOtherDirectory => "move it, or use another crawl directory",
            Self::OtherDirectoryOrStartOver => "use another crawl directory, or start over in this one",
            Self::RemoveOrOtherFile => "remove it or name another file",
            Self::ExportOrOtherFile => "name another file; an export of the crawl directory has all records",
            Self::NewerVersion => "use a newer version of Argiope",
        }
    }
}
