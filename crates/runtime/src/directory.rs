//! Opens a crawl directory: finds its path, checks that the settings match, and finds out where each output file is
//! continued.
//!
//! The same command finds the same directory and resumes the crawl. The settings that decide which pages are crawled
//! are stored with the first commit. If a command changes scope, depth, include or exclude, known links are judged
//! again. If it changes another stored setting, such as the robots policy, it is refused, and so are other roots unless
//! the user asks to change them. Settings that are not stored may change between runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argiope_core::crawl::rules::{Config, DigestAlgorithm, Rules};
use argiope_core::crawl::schedule::carryover::{Progress, UnreadPages};
use argiope_core::crawl::schedule::frontier::{Counts, Frontier, History, StoreError, StoreErrorKind};
use argiope_core::crawl::schedule::keeper::Changes;
use argiope_core::crawl::schedule::store_error::Remedy;
use argiope_core::crawl::settings::{Resume, Setting, Settings as _};
use argiope_store::Commits as _;
use argiope_store::disk::{
    self, CrawlSettings, DiskFrontier, Files, MarkFile, OtherRoots, OutputHash, Requeued, SettingChange,
};

use crate::writer_thread::{LockedDirectory, OutputFile, OutputTarget};
use crate::{atomic_file, changed_roots, rejudge};

/// How many roots a message names.
const MAX_NAMED_ROOTS: usize = 10;

/// The setting that names the digest of bodies.
const DIGEST: &str = "digest";

/// An open crawl directory.
pub struct Directory {
    pub path: PathBuf,
    pub frontier: DiskFrontier,
    /// Whether the directory already held a crawl.
    pub resumed: bool,
    /// With `fresh`: the names of the files of the earlier crawl, which were removed.
    pub removed: Vec<String>,
    /// Messages for the user about damage that was found and repaired.
    pub messages: Vec<String>,
    /// Whether scope, depth or patterns differ from those of the last run.
    pub has_changes: bool,
    /// The log, the output files and the lock, for the writer threads.
    folder: LockedDirectory,
    /// How the bodies of this directory are digested.
    digest: DigestAlgorithm,
}

impl Directory {
    /// Opens the directory of this crawl, or creates it; with `fresh`, after removing the files of an earlier crawl.
    /// Truncates its output files to the last commit.
    pub fn open(path: &Path, rules: &Rules, config: &Config) -> Result<Self, StoreError> {
        Self::open_with(path, rules, config, OtherRoots::Refused)
    }

    /// As [`Directory::open`]; the roots may be others than those of the earlier crawl.
    pub fn open_with_changed_roots(path: &Path, rules: &Rules, config: &Config) -> Result<Self, StoreError> {
        Self::open_with(path, rules, config, OtherRoots::Accepted)
    }

    fn open_with(path: &Path, rules: &Rules, config: &Config, roots: OtherRoots) -> Result<Self, StoreError> {
        check_is_directory(path)?;
        let digest = digest_of(path, rules, config);
        let (settings, memory) = (settings(rules, config, digest), frontier_memory(rules));
        if config.fresh {
            let records_name = config.jsonl.as_deref().and_then(|jsonl| output_name(path, jsonl).ok());
            let (opened, removed) = disk::start_over(path, &settings, records_name.as_deref(), memory)?;
            return Ok(Self { removed, ..Self::of(path, opened, digest)? });
        }
        let mut opened = disk::open_with(path, &settings, memory, roots)?;
        let changes = std::mem::take(&mut opened.changes);
        let mut directory = Self::of(path, opened, digest)?;
        // Continue a recrawl that was interrupted while its links were queued.
        directory.requeue()?;
        if !changes.is_empty() {
            directory.apply_changes(rules, config, &changes)?;
        }
        Ok(directory)
    }

    /// Queues what this run requests again: with `recrawl` all URLs of a finished crawl, otherwise those of hosts that
    /// stopped responding, and the roots of a finished crawl without a page.
    pub fn begin(&mut self, recrawl: bool) -> Result<Beginning, StoreError> {
        let is_finished = self.is_finished();
        if is_finished && recrawl {
            let (pages, queued) = (self.pages()?, self.begin_round()?);
            return Ok(Beginning { run: RunKind::Recrawl(queued), unreached: 0, settled: 0, queued, pages });
        }
        let unreached = self.requeue_unreached()?;
        let (Counts { settled, queued, .. }, pages) = (self.counts(), self.pages()?);
        let run = match () {
            () if is_finished && unreached == 0 => match self.requeue_failed_roots()? {
                0 => RunKind::Finished,
                roots => RunKind::FailedRoots(roots),
            },
            () if self.resumed => RunKind::Resumed,
            () => RunKind::New,
        };
        Ok(Beginning { run, unreached, settled, queued, pages })
    }

    /// Applies changed settings to the known links. Adds messages about the changes to `messages`.
    fn apply_changes(&mut self, rules: &Rules, config: &Config, changes: &[SettingChange]) -> Result<(), StoreError> {
        let queued = rejudge::rejudge(&self.path, &mut self.frontier, rules, config, changes)?;
        let mut progress = self.progress()?;
        progress.scope_changed = true;
        self.keep_progress(&progress)?;
        let listed = |values: &[String]| if values.is_empty() { "none".to_owned() } else { values.join(" ") };
        for SettingChange { name, before, now } in changes {
            self.messages.push(match name.as_str() {
                "roots" => described_roots(before, now),
                name => format!("--{name} is changed: it was {}, and is {}", listed(before), listed(now)),
            });
        }
        self.has_changes = true;
        self.messages.push(format!(
            "known links are judged again: {queued} more are queued; queued ones that are out of scope now are not fetched"
        ));
        Ok(())
    }

    /// The stored progress of the crawl: counts, changes, and commands of the user.
    fn progress(&mut self) -> Result<Progress, StoreError> {
        let note = self.frontier.note(None)?;
        Ok(note.and_then(|note| serde_json::from_slice(&note).ok()).unwrap_or_default())
    }

    fn keep_progress(&mut self, progress: &Progress) -> Result<(), StoreError> {
        self.frontier.keep_note(None, &serde_json::to_vec(progress).unwrap_or_default())
    }

    /// Checks an opened directory, and truncates its output files to the last commit.
    fn of(path: &Path, opened: disk::OpenedDirectory, digest: DigestAlgorithm) -> Result<Self, StoreError> {
        let disk::OpenedDirectory { frontier, writer, resumed, messages, lock, changes: _ } = opened;
        let files: Arc<dyn Files> = Arc::new(disk::OsFiles::new(path));
        if !frontier.has_created(disk::REPORT) {
            refuse_foreign_report(path)?;
        }
        let outputs = frontier.outputs().clone();
        for (name, committed) in &outputs {
            // An output outside of the directory is changed only if the current command names it.
            if disk::is_inside(name) {
                disk::truncate_output(&*files, name, *committed)?;
            }
        }
        let folder = LockedDirectory { log: writer, files, outputs, lock: lock.map(Arc::new) };
        let (path, removed) = (path.to_owned(), Vec::new());
        Ok(Self { path, frontier, resumed, removed, messages, has_changes: false, folder, digest })
    }

    /// Whether the directory holds an earlier crawl that has no work left.
    fn is_finished(&self) -> bool {
        self.resumed && self.frontier.counts().known > 0 && self.frontier.counts().is_done()
    }

    /// Queues every URL of a finished crawl again, to find out what has changed; returns how many there are. Limits on
    /// pages and bytes start from zero.
    fn begin_round(&mut self) -> Result<u64, StoreError> {
        // URLs that were excluded while the crawl was running stay excluded.
        let Progress { steering, scope_changed, .. } = self.progress()?;
        let changes = Some(Changes::default());
        let progress = Progress { changes, steering, scope_changed, ..Progress::default() };
        let count = self.frontier.begin_round()?;
        // A new round requests every page again.
        if let Ok(marks) = MarkFile::open(&self.path, self.frontier.key()) {
            marks.forget_suspects();
        }
        self.keep_progress(&progress)?;
        self.requeue()?;
        Ok(count)
    }

    /// Queues the links of a round again, in several commits. Does nothing if all are queued.
    fn requeue(&mut self) -> Result<(), StoreError> {
        while self.frontier.requeue_portion()? {
            // The last portion is committed later, together with the first record of the run.
            if self.frontier.is_requeueing()
                && let Some(batch) = self.frontier.commit(&[])?
            {
                self.folder.log.write(&batch)?;
                // The frontier does not need the portion of a snapshot that the batch may contain.
                self.frontier.acknowledge(&batch.without_portion())?;
            }
        }
        Ok(())
    }

    /// Queues the links again that failed because their host stopped responding; returns how many. Does nothing in a
    /// recrawl: each page is compared once in a round, and the next round requests them again.
    fn requeue_unreached(&mut self) -> Result<u64, StoreError> {
        let progress = self.progress()?;
        if progress.unreached == 0 || self.frontier.is_recrawl() {
            return Ok(0);
        }
        let mut unreached = self.frontier.unreached_links()?;
        let (count, fetched) = (unreached.len() as u64, unreached.fetched);
        while self.frontier.requeue_unreached(&mut unreached)? {
            // The last portion is committed later, together with the note.
            if !unreached.is_empty()
                && let Some(batch) = self.frontier.commit(&[])?
            {
                self.folder.log.write(&batch)?;
                self.frontier.acknowledge(&batch.without_portion())?;
            }
        }
        // The limit on pages counts `fetched` of these links. They are counted again when they are requested again.
        let progress = Progress { unreached: 0, pages: progress.pages.saturating_sub(fetched), ..progress };
        self.keep_progress(&progress)?;
        Ok(count)
    }

    /// If no root has led to a page: queues the failed ones again; returns how many.
    fn requeue_failed_roots(&mut self) -> Result<u64, StoreError> {
        let Requeued { queued, changes, .. } = self.frontier.requeue_failed_roots()?;
        let progress = self.progress()?;
        if let Some(counted) = progress.changes.filter(|_| queued > 0) {
            let changes = Some(counted.without(changes));
            self.keep_progress(&Progress { changes, ..progress })?;
        }
        Ok(queued)
    }

    /// How many pages earlier runs of this round fetched.
    fn pages(&mut self) -> Result<u64, StoreError> {
        Ok(self.progress()?.pages)
    }

    /// Queues the pages again that the user of the library had not processed when an earlier run ended; returns how
    /// many. They do not count twice towards the limit on pages.
    pub fn requeue_unread(&mut self) -> Result<u64, StoreError> {
        let progress = self.progress()?;
        if progress.unread.pages == 0 {
            return Ok(0);
        }
        let requeued = self.frontier.requeue_last_pages(&progress.unread.distances())?;
        // `fetched` of these pages count towards the limit on pages. They are counted again when they are requested again.
        let counted_again = progress.unread.fetched.saturating_sub(requeued.fetched_before);
        let pages = progress.pages.saturating_sub(counted_again);
        let changes = progress.changes.map(|counted| counted.without(requeued.changes));
        self.keep_progress(&Progress { pages, changes, unread: UnreadPages::default(), ..progress })?;
        Ok(requeued.queued)
    }

    pub fn counts(&self) -> Counts {
        self.frontier.counts()
    }

    /// Opens the output file for all records. A file written by this crawl is continued, unless its committed part was
    /// changed; any other non-empty file is refused.
    pub fn open_output(&self, path: &Path) -> Result<OutputFile, StoreError> {
        let fail = |error: io::Error| {
            let message = format!("{} cannot be written: {error}", path.display());
            StoreError::new(StoreErrorKind::File, message).with_source(error)
        };
        let name = output_name(&self.path, path).map_err(fail)?;
        if let Some(committed) = self.folder.outputs.get(&name) {
            if !path.exists() && *committed > 0 {
                let message = format!("{} is missing, which this crawl wrote", path.display());
                return Err(StoreError::new(StoreErrorKind::File, message).with_remedy(Remedy::ExportOrOtherFile));
            }
            disk::truncate_output(&*self.folder.files, &name, *committed)?;
            let hash = OutputHash::of(&*self.folder.files, &name, *committed)?;
            if self.frontier.output_hash(&name).is_some_and(|known| known != hash.value()) {
                let message = format!("{} was changed since this crawl wrote it", path.display());
                return Err(StoreError::new(StoreErrorKind::File, message).with_remedy(Remedy::ExportOrOtherFile));
            }
            return Ok(OutputFile { name, hash });
        }
        let length = atomic_file::open_or_create(path).and_then(|file| file.metadata()).map_err(fail)?.len();
        if length > 0 {
            let message = format!("{} exists and was not written by this crawl", path.display());
            return Err(StoreError::new(StoreErrorKind::File, message).with_remedy(Remedy::RemoveOrOtherFile));
        }
        Ok(OutputFile { name, hash: OutputHash::default() })
    }

    /// Commits all changes of the frontier.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        while let Some(batch) = self.frontier.commit_at_end(&[])? {
            self.folder.log.write(&batch)?;
            self.frontier.acknowledge(&batch.without_portion())?;
        }
        Ok(())
    }

    /// Splits the directory into the parts of a running crawl. `jsonl` is the file for all records, `first_line` the
    /// first record of the run.
    pub fn into_parts(
        mut self,
        rules: Rules,
        jsonl: Option<OutputFile>,
        first_line: Vec<u8>,
    ) -> Result<DirectoryParts, StoreError> {
        // From now on the report is a file of this crawl, which later runs may overwrite.
        self.frontier.record_created(disk::REPORT)?;
        // With the same key, the frontier does not hash links again that the workers have hashed.
        let key = self.frontier.key();
        let mut rules = rules.with_fingerprint_key(key).with_digest(self.digest);
        // Without the file, the crawl goes on without marks.
        if let Ok(marks) = MarkFile::open(&self.path, key) {
            // A run died before its directory was a crawl directory, and with it the key of its marks. This run makes
            // the key durable before its first request, so the same page cannot end every run unnoticed.
            if marks.had_marks() && !self.resumed {
                self.commit()?;
            }
            rules = rules.with_marks(Arc::new(marks));
        }
        let target = OutputTarget { folder: Some(self.folder), jsonl, first_line: Some(first_line) };
        Ok(DirectoryParts { frontier: self.frontier, target, rules })
    }
}

/// How a run begins in its directory: see [`Directory::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    pub run: RunKind,
    /// How many URLs of hosts that stopped responding are queued again.
    pub unreached: u64,
    /// URLs that earlier runs of this round have finished.
    pub settled: u64,
    /// URLs that are queued.
    pub queued: u64,
    /// Pages that earlier runs have fetched.
    pub pages: u64,
}

/// What a run does in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// The directory had no crawl.
    New,
    Resumed,
    /// The crawl is finished, and nothing is queued again.
    Finished,
    /// The crawl is finished, no root has led to a page, and so many roots are queued again.
    FailedRoots(u64),
    /// The crawl is finished, and all its URLs, so many, are queued again.
    Recrawl(u64),
}

/// The parts of a running crawl.
pub struct DirectoryParts {
    pub frontier: DiskFrontier,
    pub target: OutputTarget,
    pub rules: Rules,
}

/// What a change of roots added and removed.
fn described_roots(before: &[String], now: &[String]) -> String {
    let named = |what: &str, roots: &[String], others: &[String]| {
        let roots: Vec<&str> = roots.iter().filter(|root| !others.contains(root)).map(String::as_str).collect();
        let more = roots.len().saturating_sub(MAX_NAMED_ROOTS);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = roots.get(..MAX_NAMED_ROOTS).unwrap_or(&roots).join(" ");
        if roots.is_empty() { String::new() } else { format!("; {what} {shown}{rest}") }
    };
    format!("the roots are changed{}{}", named("added", now, before), named("removed", before, now))
}

/// Refuses to overwrite a report that this crawl did not write.
fn refuse_foreign_report(directory: &Path) -> Result<(), StoreError> {
    let report = directory.join(disk::REPORT);
    if report.symlink_metadata().is_ok_and(|meta| !meta.is_file() || meta.len() > 0) {
        let message = format!("{} was not written by this crawl", report.display());
        return Err(StoreError::new(StoreErrorKind::Format, message).with_remedy(Remedy::MoveOrOtherDirectory));
    }
    Ok(())
}

/// Refuses a path that exists and is not a directory.
fn check_is_directory(path: &Path) -> Result<(), StoreError> {
    if path.metadata().is_ok_and(|meta| !meta.is_dir()) {
        let message = format!("{} is a file, and a crawl directory must be a directory", path.display());
        return Err(StoreError::new(StoreErrorKind::File, message).with_remedy(Remedy::OtherDirectory));
    }
    Ok(())
}

/// The path of the crawl directory: `--out`, or `./HOST.crawl` with the host and port of the first root.
pub fn directory_path(config: &Config, rules: &Rules) -> PathBuf {
    if let Some(out) = &config.out {
        return out.clone();
    }
    let root = rules.roots.first().and_then(|root| root.candidates.first());
    PathBuf::from(folder_name(root.map_or("", |url| url.authority())))
}

/// The maximum length of a folder name in common file systems.
const MAX_NAME: usize = 255;
/// How many bytes of a longer name are kept. A hash of the whole name follows.
const KEPT_NAME: usize = 200;

/// The name of the crawl directory of a site. Avoids brackets and colons, which are special in shells and in lists of
/// paths, and a leading dash, which looks like a flag.
fn folder_name(authority: &str) -> String {
    let name = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        // An IPv6 address. The port gets a different separator: [::1]:8080 and [::1:8080] are different sites.
        Some((address, port)) => format!("ipv6-{}{}", address.replace(':', "-"), port.replace(':', "_")),
        None => authority.replace(':', "-"),
    };
    let name = name.trim_start_matches('-');
    if name.len() + ".crawl".len() <= MAX_NAME {
        return format!("{name}.crawl");
    }
    // Host names are ASCII.
    format!("{}-{:016x}.crawl", name.get(..KEPT_NAME).unwrap_or_default(), hash_for_name(name))
}

/// A hash for the names of files and folders: FNV-1a. It is the same in every version of the program, so that the same
/// command finds its crawl directory again, and repeated exports give the same names.
pub fn hash_for_name(text: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// The name of an output file: relative to the crawl directory if it is inside, else an absolute path.
fn output_name(directory: &Path, path: &Path) -> io::Result<Box<str>> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let file = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let path = folder.canonicalize()?.join(file);
    let inside =
        directory.canonicalize().ok().and_then(|directory| path.strip_prefix(directory).ok().map(Path::to_owned));
    let name = inside.unwrap_or(path);
    let name = name.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8"))?;
    Ok(name.into())
}

/// The frontier's share of the memory limit: half. The rest is for connections, pages and commits, and for
/// fragmentation.
fn frontier_memory(rules: &Rules) -> usize {
    rules.max_memory.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX))
}

/// How bodies are digested: as the user says, otherwise as the records that the directory has, otherwise as the rules say.
fn digest_of(path: &Path, rules: &Rules, config: &Config) -> DigestAlgorithm {
    let recorded = || disk::settings_of(path)?.get(DIGEST)?.first()?.parse().ok();
    config.digest.or_else(|| recorded().filter(|_| !config.fresh)).unwrap_or(rules.digest)
}

/// The settings that decide which pages are crawled, and how they are compared.
fn settings(rules: &Rules, config: &Config, digest: DigestAlgorithm) -> CrawlSettings {
    let mut roots: Vec<String> = rules
        .roots
        .iter()
        .map(|root| root.candidates.iter().map(|url| url.as_str()).collect::<Vec<_>>().join(changed_roots::OR))
        .collect();
    roots.sort_unstable();
    roots.dedup();
    let is_set = |name: &str| !config.is_same(name, &Config::default());
    let has_effect = |setting: &&Setting| setting.resume != Resume::Free && setting.needs.is_none_or(is_set);
    let settings = Config::TABLE.iter().filter(has_effect);
    let mut settings: CrawlSettings =
        settings.map(|setting| (setting.key.to_owned(), config.texts(setting.name))).collect();
    settings.insert("roots".to_owned(), roots);
    settings.insert(DIGEST.to_owned(), vec![digest.to_string()]);
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_site_has_a_folder_of_its_own() {
        for (authority, expected) in [
            ("example.com", "example.com.crawl"),
            ("example.com:8080", "example.com-8080.crawl"),
            ("[::1]", "ipv6---1.crawl"),
            ("[::1]:8080", "ipv6---1_8080.crawl"),
            ("[::1:8080]", "ipv6---1-8080.crawl"),
        ] {
            assert_eq!(folder_name(authority), expected);
        }
        let long = |last: &str| format!("{}{last}.example", "a.".repeat(120));
        let (one, other) = (folder_name(&long("x")), folder_name(&long("y")));
        assert!(one != other && one.len() <= MAX_NAME && other.len() <= MAX_NAME, "{one} {other}");
        assert!(one.ends_with(".crawl"));
    }

    #[test]
    fn the_hash_for_names_is_fnv_1a() {
        assert_eq!(hash_for_name(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash_for_name("foobar"), 0x8594_4171_f739_67e8);
    }
}
