//! The crawl directory as a crawl sees it: where it is, whose it is, and which output files belong to it.
//!
//! The same command finds the same directory and goes on there. What decides which pages are crawled (roots, scope,
//! robots) is written down with the first commit, and other choices are refused; how it is done may change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argiope_core::rules::{Config, RobotsPolicy, Rules, Sitemaps};
use argiope_core::schedule::carryover::Progress;
use argiope_core::schedule::frontier::{Counts, Frontier, StoreError, StoreErrorKind};
use argiope_core::schedule::keeper::Changes;
use argiope_store::disk::{self, CrawlSettings, DiskFrontier, Files};

use crate::atomic_file;
use crate::writer_thread::{LockedDirectory, OutputTarget};

/// An open crawl directory.
pub struct Directory {
    pub path: PathBuf,
    pub frontier: DiskFrontier,
    /// Whether there was a crawl already.
    pub resumed: bool,
    /// For people: what was found to be amiss, and put right.
    pub notes: Vec<String>,
    folder: LockedDirectory,
}

impl Directory {
    /// Opens the directory of this crawl, or makes it. What was written to its own output files after the last commit is
    /// cut off.
    pub fn open(path: &Path, rules: &Rules, config: &Config) -> Result<Self, StoreError> {
        may_be_folder(path)?;
        Self::of(path, disk::open(path, &settings(rules, config), room(rules))?)
    }

    /// The same, after removing what an earlier crawl made there; gives the names of what was removed.
    pub fn start_over(path: &Path, rules: &Rules, config: &Config) -> Result<(Self, Vec<String>), StoreError> {
        may_be_folder(path)?;
        let outside = config.jsonl.as_deref().and_then(|jsonl| output_name(path, jsonl).ok());
        let (opened, removed) = disk::start_over(path, &settings(rules, config), outside.as_deref(), room(rules))?;
        Ok((Self::of(path, opened)?, removed))
    }

    fn of(path: &Path, opened: disk::OpenedDirectory) -> Result<Self, StoreError> {
        let disk::OpenedDirectory { frontier, writer, resumed, notes, lock } = opened;
        let files: Arc<dyn Files> = Arc::new(disk::OsFiles::new(path));
        let outputs = frontier.outputs().clone();
        for (name, committed) in &outputs {
            // A path out of the directory is followed only where the user names that file today.
            if disk::is_inside(name) {
                disk::cut_back(&*files, name, *committed)?;
            }
        }
        let folder = LockedDirectory { log: writer, files, outputs, lock };
        Ok(Self { path: path.to_owned(), frontier, resumed, notes, folder })
    }

    /// Whether nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.resumed && self.frontier.counts().known > 0 && self.frontier.is_done()
    }

    /// Queues everything again that a finished crawl has, to learn what has changed; gives how many links there are.
    /// Limits on pages and bytes are counted anew.
    pub fn begin_round(&mut self) -> Result<u64, StoreError> {
        // What was excluded while the crawl was running stays so.
        let before = self.frontier.note(None)?.and_then(|note| serde_json::from_slice::<Progress>(&note).ok());
        let steering = before.unwrap_or_default().steering;
        let progress = Progress { changes: Some(Changes::default()), steering, ..Progress::default() };
        self.frontier.keep_note(None, &serde_json::to_vec(&progress).unwrap_or_default())?;
        self.frontier.begin_round()
    }

    /// Queues the roots of a finished crawl again that have given no page; gives how many there are.
    pub fn requeue_failed_roots(&mut self) -> Result<u64, StoreError> {
        self.frontier.requeue_failed_roots()
    }

    pub fn counts(&self) -> Counts {
        self.frontier.counts()
    }

    /// Takes a file as the one that gets every record, and gives its name among the outputs. A file that this crawl
    /// wrote is gone on with; one that somebody else wrote is refused.
    pub fn take_output(&self, path: &Path) -> Result<Box<str>, StoreError> {
        let fail = |error: &io::Error| {
            StoreError::new(StoreErrorKind::File, format!("{} cannot be written: {error}", path.display()))
        };
        let name = output_name(&self.path, path).map_err(|error| fail(&error))?;
        if let Some(committed) = self.folder.outputs.get(&name) {
            disk::cut_back(&*self.folder.files, &name, *committed)?;
            return Ok(name);
        }
        let length = atomic_file::open_new(path).and_then(|file| file.metadata()).map_err(|error| fail(&error))?.len();
        if length > 0 {
            let message = format!(
                "{} is there already, and this crawl did not write it; remove it or name another file",
                path.display()
            );
            return Err(StoreError::new(StoreErrorKind::File, message));
        }
        Ok(name)
    }

    /// The frontier, and where everything else is written to.
    pub fn into_parts(self, jsonl: Option<Box<str>>, first_line: Vec<u8>) -> (DiskFrontier, OutputTarget) {
        (self.frontier, OutputTarget { folder: Some(self.folder), jsonl, first_line: Some(first_line) })
    }
}

/// A crawl directory is a folder, or is made as one.
fn may_be_folder(path: &Path) -> Result<(), StoreError> {
    if path.metadata().is_ok_and(|meta| !meta.is_dir()) {
        let message = format!("{} is a file, and a crawl needs a folder; give another --out", path.display());
        return Err(StoreError::new(StoreErrorKind::File, message));
    }
    Ok(())
}

/// Where the directory of this crawl is: `--out`, or `./HOST.crawl` by the first root, with its port where that names
/// one.
pub fn place(config: &Config, rules: &Rules) -> PathBuf {
    if let Some(out) = &config.out {
        return out.clone();
    }
    let root = rules.roots.first().and_then(|root| root.candidates.first());
    let authority = root.map_or("", |url| url.authority());
    // Brackets and colons mean something to shells and to programs that take a list of paths.
    let name: String =
        authority.chars().filter(|c| !"[]".contains(*c)).map(|c| if c == ':' { '-' } else { c }).collect();
    // An IPv6 address may begin with colons; a name that begins with a dash looks like a flag.
    PathBuf::from(format!("{}.crawl", name.trim_start_matches('-')))
}

/// What an output file is called: relative to the crawl directory where it is inside, and an absolute path elsewhere.
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

/// How much memory the frontier may have: half of all. The rest is for connections, pages and parcels, and for what an
/// allocator cannot use.
fn room(rules: &Rules) -> usize {
    rules.max_memory.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX))
}

/// What decides which pages are crawled.
fn settings(rules: &Rules, config: &Config) -> CrawlSettings {
    let mut roots: Vec<String> = rules
        .roots
        .iter()
        .map(|root| root.candidates.iter().map(|url| url.as_str()).collect::<Vec<_>>().join(" or "))
        .collect();
    roots.sort_unstable();
    roots.dedup();
    let said = |is: bool| if is { vec!["yes".to_owned()] } else { Vec::new() };
    let sitemaps = match rules.sitemaps {
        Sitemaps::None => "none",
        Sitemaps::Named => "named in robots.txt",
        Sitemaps::Usual => "also /sitemap.xml",
    };
    let robots = match rules.robots {
        RobotsPolicy::Obey => "obey",
        RobotsPolicy::Ignore => "ignore",
    };
    let settings = [
        ("roots", roots),
        ("scope", vec![rules.breadth.to_string()]),
        ("include", config.include.clone()),
        ("exclude", config.exclude.clone()),
        ("depth", config.depth.iter().map(u32::to_string).collect()),
        ("sitemaps", vec![sitemaps.to_owned()]),
        ("assets", said(rules.assets)),
        ("strip-param", config.strip_param.clone()),
        ("follow-nofollow", said(rules.follow_nofollow)),
        ("robots", vec![robots.to_owned()]),
    ];
    settings.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()
}
