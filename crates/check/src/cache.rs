//! [`CheckCache`]: successful external results that later checks reuse.
//!
//! The cache is a text file that CI systems can keep. It has one line per URL, with the time of its last success in seconds
//! since 1970. It is dropped when the settings change that decide what is good. Failures are not stored, so the next
//! check requests those URLs again.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use argiope_runtime::atomic_file::AtomicFile;
use xxhash_rust::xxh3::xxh3_64;

use crate::options::read_small_file;

/// The first line of the file.
const HEADER: &str = "# argiope check cache 1";

/// The longest cache that is read.
const MAX_CACHE_FILE: u64 = 64 << 20;

/// Successful external results of earlier checks.
#[derive(Clone, Debug)]
pub struct CheckCache {
    /// The time of the last success of each URL, in seconds since the Unix epoch.
    good: BTreeMap<String, u64>,
    /// The time of this check.
    now: u64,
    /// Seconds for which a success is reused.
    lifetime: u64,
    /// The digest of the settings that decide what is good.
    settings: u64,
}

impl CheckCache {
    /// Reads a cache. A file that does not exist is an empty cache, and so is one of a check with other settings.
    /// `settings` are those that decide what is good, as text without secrets.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a cache.
    pub fn read(path: &Path, lifetime: Duration, settings: &str) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let settings = xxh3_64(settings.as_bytes());
        let mut cache = Self { good: BTreeMap::new(), now, lifetime: lifetime.as_secs(), settings };
        let text = match read_small_file(path, MAX_CACHE_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(cache),
            Err(error) => return Err(error),
        };
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(io::Error::other("it is not a cache of argiope check"));
        }
        if lines.next() != Some(&cache.settings_line()) {
            return Ok(cache);
        }
        for line in lines {
            if let Some((seconds, url)) = line.split_once(' ')
                && let Ok(seconds) = seconds.parse::<u64>()
                // Entries with a time in the future are ignored.
                && seconds <= now
                && now - seconds <= cache.lifetime
            {
                cache.good.insert(url.to_owned(), seconds);
            }
        }
        Ok(cache)
    }

    /// The second line of the file.
    fn settings_line(&self) -> String {
        format!("# settings {:016x}", self.settings)
    }

    /// Whether a URL was good within the lifetime of the cache.
    pub fn is_good(&self, url: &str) -> bool {
        self.good.contains_key(url)
    }

    /// Stores a success. A failure removes an earlier success.
    pub(crate) fn set(&mut self, url: &str, is_good: bool) {
        // An entry is one line, so a URL with a line break cannot be stored.
        if is_good && !url.contains(['\n', '\r']) {
            self.good.insert(url.to_owned(), self.now);
        } else {
            self.good.remove(url);
        }
    }

    /// Writes the cache. The file is replaced atomically.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = format!("{HEADER}\n{}\n", self.settings_line());
        for (url, seconds) in &self.good {
            text.push_str(&format!("{seconds} {url}\n"));
        }
        AtomicFile::write(path, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_results_are_reused_within_the_lifetime() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cache");
        let hour = Duration::from_secs(3600);
        let mut cache = CheckCache::read(&path, hour, "accept 200").expect("an empty cache");
        cache.set("https://a.example/", true);
        cache.set("https://b.example/", false);
        cache.write(&path).expect("written");
        let cache = CheckCache::read(&path, hour, "accept 200").expect("a cache");
        assert!(cache.is_good("https://a.example/") && !cache.is_good("https://b.example/"));
        let other = CheckCache::read(&path, hour, "accept 403").expect("a cache");
        assert!(!other.is_good("https://a.example/"), "it was good for other settings");
        let old = format!("{HEADER}\n{}\n{} https://a.example/\n", cache.settings_line(), cache.now - 7200);
        std::fs::write(&path, old).expect("written");
        assert!(!CheckCache::read(&path, hour, "accept 200").expect("a cache").is_good("https://a.example/"));
        std::fs::write(&path, "something else").expect("written");
        assert!(CheckCache::read(&path, hour, "accept 200").is_err());
    }
}
