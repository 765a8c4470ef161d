//! The options of a check: which references are checked, and which statuses are accepted.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use argiope_core::{Advice, Url};
use regex::RegexSet;
use rustix::fs::OFlags;

/// The options of a check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Check URLs outside of the site or folder.
    pub external: bool,
    /// Check that the target page has an element with the id that the fragment names.
    pub fragments: bool,
    /// Check images, styles, scripts and media.
    pub assets: bool,
    /// References to skip. Matched against both the reference as written and its resolved URL.
    pub ignore: RegexSet,
    /// The folder to which references with a leading `/` are relative. `None` means the checked folder, or the current
    /// folder if a single file is checked.
    pub root_dir: Option<PathBuf>,
    /// The public URL of the root folder.
    pub base_url: Option<Url>,
    /// Status codes that are accepted as success.
    pub accept: StatusRanges,
    /// Report a timeout as unknown, not as broken.
    pub timeouts_unknown: bool,
    pub limits: CheckLimits,
    /// The words for what the user can do about a failed request.
    pub advice_words: AdviceWords,
}

/// Words for what the user can do about a failed request.
pub type AdviceWords = fn(Advice) -> &'static str;

/// How much a check requests and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckLimits {
    /// Maximum number of distinct URLs of one page that are requested.
    pub page_urls: usize,
    /// Maximum number of distinct URLs of one external host that are requested.
    pub host_urls: usize,
    /// Maximum number of distinct external URLs that are requested.
    pub external_urls: usize,
    /// Maximum bytes of the URLs that wait for their verdict.
    pub memory: u64,
}

impl Default for CheckLimits {
    fn default() -> Self {
        Self { page_urls: 10_000, host_urls: 1_000, external_urls: 100_000, memory: 1 << 30 }
    }
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            external: true,
            fragments: true,
            assets: true,
            ignore: RegexSet::empty(),
            root_dir: None,
            base_url: None,
            accept: StatusRanges::default(),
            timeouts_unknown: false,
            limits: CheckLimits::default(),
            advice_words: Advice::as_str,
        }
    }
}

/// A set of status codes, such as `200..=299,403`, as inclusive ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRanges(Vec<(u16, u16)>);

impl Default for StatusRanges {
    fn default() -> Self {
        Self(vec![(200, 299)])
    }
}

/// The error for text that is not a set of status codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write status codes and ranges such as 200..=299,403")]
pub struct BadStatusRanges;

impl std::str::FromStr for StatusRanges {
    type Err = BadStatusRanges;

    fn from_str(text: &str) -> Result<Self, BadStatusRanges> {
        let parse_code = |text: &str| text.trim().parse().ok().filter(|code| (100..=999).contains(code));
        let ranges = text.split(',').map(|part| {
            let (first, last) = match part.split_once("..") {
                Some((first, last)) => match last.strip_prefix('=') {
                    Some(last) => (parse_code(first)?, parse_code(last)?),
                    // Without `=`, the end is excluded.
                    None => (parse_code(first)?, parse_code(last)? - 1),
                },
                None => match part.split_once('-') {
                    Some((first, last)) => (parse_code(first)?, parse_code(last)?),
                    None => (parse_code(part)?, parse_code(part)?),
                },
            };
            (first <= last).then_some((first, last))
        });
        ranges.collect::<Option<Vec<_>>>().map(Self).ok_or(BadStatusRanges)
    }
}

impl StatusRanges {
    /// Whether the set contains a status.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&status))
    }
}

/// The progress of a check, for display.
#[derive(Debug, Default)]
pub struct CheckProgress {
    /// Pages read plus URLs requested.
    pub done: AtomicU64,
    /// The total known so far; it grows during the check.
    pub total: AtomicU64,
}

impl CheckProgress {
    /// Pages read plus URLs requested so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The total known so far.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

/// Reads a file with one pattern per line. Skips empty lines and lines that begin with `#`.
pub fn read_ignore_file(path: &Path) -> std::io::Result<Vec<String>> {
    let text = read_small_file(path, MAX_IGNORE_FILE)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// The longest file of patterns that is read.
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// Reads a regular file of up to `max` bytes. Never waits: a file of the current folder may be a pipe or a link to a device,
/// which a change in version control may have put there.
pub(crate) fn read_small_file(path: &Path, max: u64) -> std::io::Result<String> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if metadata.len() > max {
        return Err(std::io::Error::other(format!("it is larger than {} MiB", max >> 20)));
    }
    let mut text = String::new();
    file.take(max).read_to_string(&mut text).map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_folder_are_read_only_if_they_are_regular_and_small() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("small"), "# a comment\n\n a.* \n").expect("a file");
        File::create(at("large")).expect("a file").set_len(MAX_IGNORE_FILE + 1).expect("a sparse file");
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).expect("a pipe");
        std::os::unix::fs::symlink("/dev/zero", at("zero")).expect("a link");
        assert_eq!(read_ignore_file(&at("small")).expect("read"), ["a.*"]);
        for (name, why) in [
            ("pipe", "it is not a regular file"),
            ("zero", "it is not a regular file"),
            ("large", "it is larger than 1 MiB"),
        ] {
            assert_eq!(read_ignore_file(&at(name)).expect_err(name).to_string(), why);
        }
    }

    #[test]
    fn ranges_are_parsed_and_invalid_ones_are_refused() {
        let set: StatusRanges = "200..=299, 403,500..502,600-610".parse().expect("ranges");
        for (status, is_contained) in
            [(200, true), (299, true), (300, false), (403, true), (501, true), (502, false), (605, true)]
        {
            assert_eq!(set.contains(status), is_contained, "{status}");
        }
        for bad in ["", "x", "20", "300..=200", "200..=", "200..200"] {
            assert!(bad.parse::<StatusRanges>().is_err(), "{bad}");
        }
    }
}
