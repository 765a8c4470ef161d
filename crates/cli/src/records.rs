//! Reads single records, with messages for users.

use argiope_core::crawl::record::{CrawlRecord, LazyRecord};
use argiope_core::crawl::rules::Config;
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_core::{StoreError, StoreErrorKind};

use crate::flags::settings::crawl_settings_of_stored;
use crate::wording;

/// How many bytes of a record an error message contains.
const MAX_SHOWN_BYTES: usize = 80;
/// The key of fingerprints in commands that read results. They are never compared with those of the crawl, so any key works.
pub const ANY_FINGERPRINT_KEY: u64 = 0;

/// A record that was read from a crawl.
pub type StoredRecord = CrawlRecord<'static>;

/// Reads a record. The error message contains its beginning.
pub fn read(bytes: &[u8]) -> Result<StoredRecord, StoreError> {
    CrawlRecord::read(bytes).map_err(|error| damaged(bytes, &error.to_string()))
}

/// Finds the fields of a record. The error message contains its beginning.
pub fn read_lazily(bytes: &[u8]) -> Result<LazyRecord<'_>, StoreError> {
    LazyRecord::read(bytes).ok_or_else(|| damaged(bytes, "not a JSON object"))
}

fn damaged(bytes: &[u8], error: &str) -> StoreError {
    let start = String::from_utf8_lossy(bytes.get(..MAX_SHOWN_BYTES).unwrap_or(bytes)).into_owned();
    StoreError::new(StoreErrorKind::Damaged, format!("a record cannot be read ({error}): {start:?}"))
}

/// The settings of the crawl in the record of a run. `None` if the record has none, or those of a version that has other
/// settings.
pub fn settings_of(run: &RunRecord<'_>) -> Option<Config> {
    crawl_settings_of_stored(run.settings.clone()?).ok()
}

/// Why reading or exporting records failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Store(StoreError),
    /// The data could not be written to its target.
    #[error(transparent)]
    Output(#[from] std::io::Error),
    /// The crawl cannot be written in the requested form, for the given reason.
    #[error("{0}")]
    Refused(String),
    /// The request needs another flag or another crawl.
    #[error("{0}")]
    Usage(String),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.reworded(wording::remedy))
    }
}

impl ReadError {
    /// Whether the reader closed its end of the pipe (`| head`), which is not an error.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_another_version_are_not_the_defaults() {
        let run = |settings: &str| format!(r#"{{"v":1,"type":"run","settings":{settings}}}"#);
        let depth =
            |line: &str| settings_of(&RunRecord::read(line.as_bytes()).expect("a run")).map(|found| found.depth);
        assert_eq!(depth(&run(r#"{"depth":3}"#)), Some(Some(3)));
        assert_eq!(depth(&run(r#"{"depth":"three"}"#)), None);
    }
}
