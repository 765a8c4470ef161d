//! `crawl.json`: the identity and the settings of a crawl. A crawl exists if and only if this file exists.

use super::fault::{damaged, failed, failed_to_open};
use super::files::Files;
use crate::unpredictable;
use argiope_core::crawl::settings::{Config, Resume, Settings as _};
use argiope_core::{Remedy, StoreError, StoreErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// The format of the crawl directory. No other format can be read.
pub(super) const FORMAT: u32 = 1;
/// The file that identifies a crawl directory.
pub(super) const NAME: &str = "crawl.json";
/// The name under which `crawl.json` is written before it is renamed.
pub(super) const TEMPORARY_NAME: &str = "crawl.json.new";
/// Limit on the length of `crawl.json`. It is large because the settings contain all roots.
const MAX_CRAWL_FILE: u64 = 1 << 30;

/// The settings that decide which pages are crawled: roots, scope, robots. Each name has a list of values, as text.
/// A crawl with other settings is another crawl and needs another directory, except for those that the table of settings
/// marks as rejudged.
pub type CrawlSettings = BTreeMap<String, Vec<String>>;

/// Whether a run may have other roots than the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherRoots {
    /// The crawl in the directory is another one then.
    Refused,
    /// Known links are judged again, as when the scope changes.
    Accepted,
}

/// Whether a later run may change a setting. The new value is then applied to all known links again.
fn may_change(key: &str, roots: OtherRoots) -> bool {
    (key == "roots" && roots == OtherRoots::Accepted)
        || Config::TABLE.iter().any(|setting| setting.key == key && setting.resume == Resume::Rejudged)
}

/// A setting whose value in the current command differs from that in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    pub name: String,
    pub before: Vec<String>,
    pub now: Vec<String>,
}

/// The contents of `crawl.json`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CrawlFile {
    /// The format version of the directory.
    format: u32,
    /// The id of the crawl. It is the seed of all checksums in its files.
    #[serde(with = "hex")]
    pub(super) crawl: u64,
    /// The key of the fingerprints.
    #[serde(with = "hex")]
    pub(super) key: u64,
    pub settings: CrawlSettings,
    /// The hash of the file's text, computed with zero in place of this field.
    #[serde(with = "hex")]
    check: u64,
}

impl CrawlFile {
    pub(super) fn new(settings: &CrawlSettings) -> Self {
        Self { format: FORMAT, crawl: unpredictable(), key: unpredictable(), settings: settings.clone(), check: 0 }
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The checksum of the contents.
    fn checksum(&mut self) -> u64 {
        // The field is cleared in place. Copying the settings would be expensive with many roots.
        let check = std::mem::take(&mut self.check);
        let checksum = xxh3_64(self.text().as_bytes());
        self.check = check;
        checksum
    }

    /// Reads `crawl.json`.
    pub(super) fn read(files: &dyn Files) -> Result<Self, StoreError> {
        Self::find(files, NAME)?.ok_or_else(|| {
            // `list` does not distinguish a missing directory from an empty one.
            let is_missing = files.sync_folder("").is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            let why = if is_missing { "it does not exist".to_owned() } else { format!("it has no {NAME}") };
            let message = format!("{} is not a crawl directory: {why}", files.describe(""));
            StoreError::new(StoreErrorKind::Format, message)
        })
    }

    /// Reads a file with the format of `crawl.json`; `None` if it does not exist.
    pub(super) fn find(files: &dyn Files, name: &str) -> Result<Option<Self>, StoreError> {
        let file = match files.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| failed_to_open(files, name, "read", error))?,
        };
        let length = file.length().map_err(|error| failed(files, name, "read", error))?;
        if length > MAX_CRAWL_FILE {
            return Err(damaged(files, name, &format!("it has {length} bytes, more than a crawl writes")));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = file.read_at(&mut bytes, 0).map_err(|error| failed(files, name, "read", error))?;
        bytes.truncate(read);
        #[derive(serde::Deserialize)]
        struct Format {
            format: u32,
        }
        if let Ok(Format { format }) = serde_json::from_slice(&bytes)
            && format != FORMAT
        {
            let file = files.describe(name);
            let message = format!("{file} has format {format}, this program knows {FORMAT}");
            return Err(StoreError::new(StoreErrorKind::Format, message).with_remedy(Remedy::NewerVersion));
        }
        let mut found: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(files, name, &error.to_string()))?;
        if found.checksum() != found.check {
            return Err(damaged(files, name, "it does not match its checksum"));
        }
        Ok(Some(found))
    }

    /// Makes this a crawl directory: writes `crawl.json` under a temporary name, syncs it, renames it.
    pub(super) fn write(&mut self, files: &dyn Files) -> Result<(), StoreError> {
        self.check = self.checksum();
        let write = || -> io::Result<()> {
            let mut file = files.create(TEMPORARY_NAME)?;
            file.write_at(self.text().as_bytes(), 0)?;
            file.sync()?;
            files.rename(TEMPORARY_NAME, NAME)?;
            files.sync_folder("")
        };
        write().map_err(|error| failed(files, NAME, "write", error))
    }

    /// Returns the settings that the command changes. If one of them may not change, the error lists all differences.
    pub(super) fn compare(
        &self,
        files: &dyn Files,
        settings: &CrawlSettings,
        roots: OtherRoots,
    ) -> Result<Vec<SettingChange>, StoreError> {
        let values = |settings: &CrawlSettings, name: &str| settings.get(name).cloned().unwrap_or_default();
        let names: BTreeSet<&String> = self.settings.keys().chain(settings.keys()).collect();
        let differs = |name: &&&String| self.settings.get(**name) != settings.get(**name);
        if names.iter().filter(differs).all(|name| may_change(name, roots)) {
            let changed = names.iter().filter(differs).map(|name| {
                let (before, now) = (values(&self.settings, name), values(settings, name));
                SettingChange { name: (*name).clone(), before, now }
            });
            return Ok(changed.collect());
        }
        let mut message = format!("{} belongs to another crawl:", files.describe(""));
        let none = Vec::new();
        for name in names {
            let stored = self.settings.get(name).unwrap_or(&none);
            let requested = settings.get(name).unwrap_or(&none);
            for value in stored.iter().filter(|value| !requested.contains(value)) {
                message += &format!("\n  - {name}: {value}");
            }
            for value in requested.iter().filter(|value| !stored.contains(value)) {
                message += &format!("\n  + {name}: {value}");
            }
            if stored != requested
                && stored.iter().all(|value| requested.contains(value))
                && stored.len() == requested.len()
            {
                message += &format!("\n  {name}: in another order");
            }
        }
        message += "\n(- is in the directory, + was requested now)";
        Err(StoreError::new(StoreErrorKind::OtherCrawl, message).with_remedy(Remedy::OtherDirectoryOrStartOver))
    }
}

/// Numbers as hexadecimal text.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{number:016x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
