//! [`FolderCheck`]: checks folders and files without a network.
//!
//! The first pass over all documents collects anchors. It also checks whether referenced files exist, and whether elements
//! exist in documents that were read before. References to elements of documents that are read later, and to remote URLs,
//! are stored in a few bytes each. [`FolderCheck::finish`] checks them, and reads the documents with such faults again to find
//! lines, columns and link texts.

mod faults;
mod folder_urls;
mod tree;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use argiope_core::page::examine::BaseUrl;
use encoding_rs::Encoding;
use hashbrown::HashMap;
use rustix::fs::OFlags;

use crate::anchors::{AnchorHashes, AnchorSet, Fragment, FragmentHash, FragmentId};
use crate::document::{self, DecodedText, DocumentType, LineCounter, Reference, ReferenceKind};
use crate::finding::{CheckSummary, Fault, FaultKind, TargetVerdict};
use crate::limits::{ReferenceBudget, TargetMemory};
use crate::options::{CheckOptions, CheckProgress};
use crate::remote::RemoteTarget;
use crate::target::{self, Target};
use crate::text_fragment;
use faults::FoundFault;
use folder_urls::FolderUrls;
use tree::{FileEntry, FileId, FileTree, MAX_DOCUMENT, PathTarget, refusal};

/// A check of folders and files.
pub struct FolderCheck<'a> {
    options: &'a CheckOptions,
    tree: FileTree,
    /// The paths that the user gave.
    sources: Vec<FolderSource>,
    /// The current folder; paths are shown relative to it.
    current: String,
    /// The anchors of each file, set when it is read.
    anchors: Vec<OnceLock<AnchorSet>>,
    /// The documents in output order.
    documents: Vec<FileId>,
    /// The documents that were not read to their end.
    cut: Vec<FileId>,
    /// The results of the first pass.
    scans: Vec<PageScan>,
    remote: Mutex<RemoteTable>,
    /// The fragments whose texts the documents do not have, or could not be searched for.
    text_searches: HashMap<(FileId, Box<str>), TargetVerdict>,
    summary: CheckSummary,
    notes: Vec<String>,
}

/// A path that the user gave.
struct FolderSource {
    /// The path as the user wrote it.
    shown: String,
    /// The absolute path.
    path: String,
    /// Maps files to URLs.
    urls: FolderUrls,
}

/// The distinct remote URLs that documents reference, with their indices.
struct RemoteTable {
    index: HashMap<RemoteTarget, u32>,
    targets: Vec<RemoteTarget>,
    memory: TargetMemory,
}

/// The result of the first pass over a document.
#[derive(Default)]
struct PageScan {
    document: FileId,
    /// Elements that must exist in documents that were not read yet.
    pending: Vec<PendingFragment>,
    /// Documents and fragments that lead to a text in them.
    texts: Vec<(FileId, Box<str>)>,
    /// The index of the remote URL of each reference.
    remote: Vec<u32>,
    /// Faults that were found in the first pass.
    faults: Vec<FoundFault>,
    links: u64,
    not_checked: u64,
    ignored: u64,
    over_limits: u64,
    /// References with faults for which memory had no room.
    unkept: u64,
    /// A note for the user, if the document could not be read.
    unreadable: Option<String>,
    /// Whether the document was not read to its end.
    is_cut: bool,
}

/// A reference to an element of a document that was not read yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PendingFragment {
    file: FileId,
    fragment: FragmentHash,
}

/// A document that is being read.
struct OpenDocument<'a> {
    id: FileId,
    source: &'a FolderSource,
    kind: DocumentType,
    base: BaseUrl,
    encoding: &'static Encoding,
    /// The URL of the current reference.
    url: String,
    /// The path of the file that `url` maps to.
    path: String,
    budget: ReferenceBudget,
}

/// The result of checking a reference against the file system.
enum ReferenceVerdict<'a> {
    Good,
    NotChecked,
    Ignored,
    /// A limit was reached.
    OverLimits,
    /// Good if the file has this element.
    Element(FileId, FragmentId<'a>),
    /// Good if the document has this element, if one is given, and the text that the fragment leads to.
    Text(FileId, Option<FragmentId<'a>>, &'a str),
    /// A remote URL, which is in [`OpenDocument::url`]. The value is its fragment, if that must be checked.
    Remote(Option<&'a str>),
    /// The name of the target in the output, the fault, and the path if the fault is that it does not exist.
    Fault(String, Fault, Option<String>),
}

impl<'a> FolderCheck<'a> {
    /// Reads all documents below the paths.
    ///
    /// # Errors
    ///
    /// The current folder cannot be determined.
    pub fn scan(paths: &[PathBuf], options: &'a CheckOptions, progress: &CheckProgress) -> std::io::Result<Self> {
        let current = std::env::current_dir()?;
        let absolute: Vec<PathBuf> = paths.iter().map(|path| normalize(&current.join(path))).collect();
        let root_dir = options.root_dir.as_ref().map(|root| normalize(&current.join(root)));
        let mut sources = Vec::new();
        for (path, given) in absolute.iter().zip(paths) {
            let root = root_dir.as_deref().unwrap_or(if path.is_dir() { path } else { &current });
            sources.push(FolderSource {
                shown: given.to_string_lossy().into_owned(),
                path: path.to_string_lossy().into_owned(),
                urls: FolderUrls::new(root, options.base_url.as_ref()),
            });
        }
        let mut tree = FileTree::walk(&absolute, root_dir.as_deref());
        let notes = std::mem::take(&mut tree.unreadable);
        let numbered = tree.entries().iter().enumerate().filter(|(_, entry)| entry.kind.is_some());
        let mut documents: Vec<FileId> = numbered.filter_map(|(id, _)| FileId::try_from(id).ok()).collect();
        documents.sort_by(|a, b| {
            let path = |id: &FileId| tree.entries().get(*id as usize).map(|entry| (entry.source, entry.path.as_str()));
            path(a).cmp(&path(b))
        });
        let anchors = tree.entries().iter().map(|_| OnceLock::new()).collect();
        let mut check = Self {
            options,
            tree,
            sources,
            current: current.to_string_lossy().into_owned(),
            anchors,
            documents,
            cut: Vec::new(),
            scans: Vec::new(),
            remote: Mutex::new(RemoteTable {
                index: HashMap::new(),
                targets: Vec::new(),
                memory: TargetMemory::new(&options.limits),
            }),
            text_searches: HashMap::new(),
            summary: CheckSummary::default(),
            notes,
        };
        progress.total.fetch_add(check.documents.len() as u64, Ordering::Relaxed);
        check.read_all(progress);
        check.read_outside();
        Ok(check)
    }

    /// The distinct remote URLs that the documents reference.
    pub fn remote_targets(&self) -> Vec<RemoteTarget> {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner).targets.clone()
    }

    /// The number of references in the documents, checked or not.
    pub fn links(&self) -> u64 {
        self.summary.links
    }

    /// Runs the first pass over all documents.
    fn read_all(&mut self, progress: &CheckProgress) {
        // Large documents come first, so that no thread still reads a large one when the others have finished.
        let mut order = self.documents.clone();
        order.sort_by_key(|id| std::cmp::Reverse(self.entry(*id).map_or(0, |entry| entry.size)));
        let check = &*self;
        let mut scans = parallel(&order, AnchorHashes::default, |id, buffer, hashes| {
            let scan = check.scan_document(*id, buffer, hashes);
            progress.done.fetch_add(1, Ordering::Relaxed);
            Some(scan)
        });
        let mut summary = CheckSummary::default();
        for scan in &mut scans {
            summary.pages += u64::from(scan.unreadable.is_none());
            summary.links += scan.links;
            summary.not_checked += scan.not_checked;
            summary.ignored += scan.ignored;
            summary.over_limits += scan.over_limits;
            self.notes.extend(scan.unreadable.take());
            self.cut.extend(scan.is_cut.then_some(scan.document));
        }
        self.summary = summary;
        self.scans = scans;
    }

    /// Runs the first pass over one document.
    fn scan_document(&self, id: FileId, buffer: &mut Vec<u8>, hashes: &mut AnchorHashes) -> PageScan {
        let mut scan = PageScan { document: id, ..PageScan::default() };
        let Some(entry) = self.entry(id) else { return scan };
        let Some(kind) = entry.kind else { return scan };
        if let Err(error) = read_file(entry, buffer) {
            scan.unreadable = Some(format!("{}: {error}", self.shown_path(&entry.path, entry.source)));
            return scan;
        }
        let decoded = DecodedText::of_file(buffer, kind);
        let document = document::read(&decoded.text, kind, hashes);
        scan.is_cut = document.is_cut;
        let found = hashes.take();
        // Of a document that was not read to its end, fragments are not judged.
        if let Some(anchors) = self.anchors.get(id as usize).filter(|_| !document.is_cut) {
            // Ignored: each document is read once, so the anchors are not set yet.
            let _ = anchors.set(found);
        }
        let Some(mut open) = self.open(id, entry, kind, document.base.as_deref(), &decoded) else {
            return scan;
        };
        let mut lines = LineCounter::new(&decoded.text);
        for reference in &document.references {
            scan.links += 1;
            match self.judge(&mut open, reference) {
                ReferenceVerdict::Good => {}
                ReferenceVerdict::NotChecked => scan.not_checked += 1,
                ReferenceVerdict::Ignored => scan.ignored += 1,
                ReferenceVerdict::OverLimits => scan.over_limits += 1,
                ReferenceVerdict::Element(file, fragment)
                    if self.anchors.get(file as usize).and_then(OnceLock::get).is_none() =>
                {
                    scan.pending.push(PendingFragment { file, fragment: fragment.hash() });
                }
                ReferenceVerdict::Text(file, element, fragment) => {
                    let pending = element.map(|element| PendingFragment { file, fragment: element.hash() });
                    scan.pending.extend(pending);
                    scan.texts.push((file, fragment.into()));
                }
                ReferenceVerdict::Remote(fragment) => {
                    let fragment = fragment.map(str::to_owned);
                    match self.remote_id(RemoteTarget { url: open.url.clone(), fragment }) {
                        Some(id) => scan.remote.push(id),
                        None => scan.over_limits += 1,
                    }
                }
                verdict @ (ReferenceVerdict::Fault(..) | ReferenceVerdict::Element(..)) => {
                    if let Some(fault) = self.fault_of(verdict, &open, entry.source) {
                        let page = self.shown_path(&entry.path, entry.source);
                        let found = FoundFault::new(fault, &page, &mut lines, reference);
                        if self.has_room(found.bytes()) {
                            scan.faults.push(found);
                        } else {
                            scan.unkept += 1;
                        }
                    }
                }
            }
        }
        scan.pending.sort_unstable();
        scan.pending.dedup();
        scan.pending.shrink_to_fit();
        scan.remote.shrink_to_fit();
        scan
    }

    /// Reads the anchors of referenced documents that were not found by walking.
    fn read_outside(&mut self) {
        let mut buffer = Vec::new();
        let mut hashes = AnchorHashes::default();
        for entry in self.tree.outside() {
            let anchors = OnceLock::new();
            if let Some(kind) = entry.kind
                && read_file(entry, &mut buffer).is_ok()
            {
                let decoded = DecodedText::of_file(&buffer, kind);
                document::read(&decoded.text, kind, &mut hashes);
                let _ = anchors.set(hashes.take());
            }
            self.anchors.push(anchors);
        }
    }

    /// The index of a remote URL in the table; adds it if it is new. `None` if there is no room for it.
    fn remote_id(&self, target: RemoteTarget) -> Option<u32> {
        let mut table = self.remote.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&id) = table.index.get(&target) {
            return Some(id);
        }
        if !table.memory.charge(target.url.len() + target.fragment.as_ref().map_or(0, String::len)) {
            return None;
        }
        let id = u32::try_from(table.targets.len()).ok()?;
        table.targets.push(target.clone());
        table.index.insert(target, id);
        Some(id)
    }

    /// Charges the place of a fault to the memory of the targets. Returns whether there is room for it.
    fn has_room(&self, bytes: usize) -> bool {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner).memory.charge(bytes)
    }

    fn entry(&self, id: FileId) -> Option<&FileEntry> {
        self.tree.entries().get(id as usize)
    }

    /// Prepares a document whose references are to be checked.
    fn open<'s>(
        &'s self,
        id: FileId,
        entry: &FileEntry,
        kind: DocumentType,
        base: Option<&str>,
        decoded: &DecodedText<'_>,
    ) -> Option<OpenDocument<'s>> {
        let encoding = decoded.encoding;
        let source = self.sources.get(entry.source)?;
        let base = source.urls.base_of(&entry.path, base, encoding)?;
        let budget = ReferenceBudget::new(decoded.text.len(), &self.options.limits);
        Some(OpenDocument { id, source, kind, base, encoding, url: String::new(), path: String::new(), budget })
    }

    /// Checks a reference against the file system.
    fn judge<'r>(&self, open: &mut OpenDocument<'_>, reference: &'r Reference<'_>) -> ReferenceVerdict<'r> {
        if reference.kind == ReferenceKind::Asset && !self.options.assets {
            return ReferenceVerdict::NotChecked;
        }
        let has_ignore_patterns = !self.options.ignore.is_empty();
        if has_ignore_patterns && self.options.ignore.is_match(&reference.href) {
            return ReferenceVerdict::Ignored;
        }
        if !open.budget.may_resolve(&reference.href, &open.url) {
            return ReferenceVerdict::OverLimits;
        }
        let (address, fragment) = target::split_fragment(&reference.href);
        let rooted = open.source.urls.rooted(address);
        match target::resolve(&rooted, &open.base, open.encoding, &mut open.url) {
            Target::Web => {}
            Target::Mail => return ReferenceVerdict::Good,
            Target::NotChecked => return ReferenceVerdict::NotChecked,
            Target::Malformed(message) => {
                let fault = Fault::broken(FaultKind::Malformed, message);
                return ReferenceVerdict::Fault(reference.href.trim().to_owned(), fault, None);
            }
        }
        if has_ignore_patterns && self.options.ignore.is_match(&open.url) {
            return ReferenceVerdict::Ignored;
        }
        let element = match fragment.map(Fragment::parse) {
            Some(Fragment::Element(id)) if self.options.fragments => Some(id),
            _ => None,
        };
        let text = fragment.filter(|fragment| self.options.fragments && text_fragment::has_text(fragment));
        let OpenDocument { url, path, source, .. } = open;
        let Some(path) = source.urls.path(url, path) else {
            if !self.options.external {
                return ReferenceVerdict::NotChecked;
            }
            if !open.budget.may_request(&open.url) {
                return ReferenceVerdict::OverLimits;
            }
            return ReferenceVerdict::Remote(fragment.filter(|_| element.is_some() || text.is_some()));
        };
        let from_markdown = open.kind == DocumentType::Markdown;
        match self.tree.find(path, from_markdown) {
            Some(PathTarget::File(file)) if text.is_some() && self.is_document(file) => {
                let element = element.filter(|element| !element.is_top() && !element.is_route());
                ReferenceVerdict::Text(file, element, text.unwrap_or_default())
            }
            Some(PathTarget::File(file)) => match element {
                Some(element) if self.is_refused(file) => {
                    let name = format!("{}#{}", self.name(path, source), element.text());
                    let fault = Fault::unknown(FaultKind::NotRead, "the document was not read");
                    ReferenceVerdict::Fault(name, fault, None)
                }
                Some(element) if !element.is_top() && self.has_anchors(file) => self.judge_element(open, file, element),
                _ => ReferenceVerdict::Good,
            },
            // Code hosts, which show Markdown, list the files of a folder.
            Some(PathTarget::Folder) if from_markdown => ReferenceVerdict::Good,
            Some(PathTarget::Folder) => {
                let message = "the folder has no index.html: whether a server lists it is not known";
                ReferenceVerdict::Fault(self.name(path, source), Fault::unknown(FaultKind::MissingFile, message), None)
            }
            None => {
                let fault = Fault::broken(FaultKind::MissingFile, "no such file");
                ReferenceVerdict::Fault(self.name(path, source), fault, Some(path.to_owned()))
            }
        }
    }

    /// Whether a file is a document that was found by walking and is read.
    fn is_document(&self, file: FileId) -> bool {
        self.entry(file).is_some_and(|entry| entry.kind.is_some())
    }

    /// Whether a file is a document that must not be read.
    fn is_refused(&self, file: FileId) -> bool {
        self.entry(file).is_some_and(|entry| entry.refusal.is_some())
    }

    /// Whether a fragment can refer to an element of this file.
    fn has_anchors(&self, file: FileId) -> bool {
        match self.entry(file) {
            Some(entry) => entry.kind.is_some(),
            // A file that was not found by walking: its anchors are not known before `read_outside`.
            None => true,
        }
    }

    /// Checks a fragment. A fragment that scripts probably interpret is unknown, unless the document that contains the
    /// reference has this anchor. The anchors of other documents may not have been read yet.
    fn judge_element<'r>(
        &self,
        open: &OpenDocument<'_>,
        file: FileId,
        element: FragmentId<'r>,
    ) -> ReferenceVerdict<'r> {
        if !element.is_route() {
            return ReferenceVerdict::Element(file, element);
        }
        if file == open.id
            && self.anchors.get(file as usize).and_then(OnceLock::get).is_some_and(|a| a.has(element.hash()))
        {
            return ReferenceVerdict::Good;
        }
        let name = format!("{}#{}", self.name(&open.path, open.source), element.text());
        let message = "scripts of the page interpret this fragment: whether it leads anywhere is not known";
        ReferenceVerdict::Fault(name, Fault::unknown(FaultKind::Fragment, message), None)
    }

    /// The name of a target in the output: its URL if the site has a base URL, otherwise its path.
    fn name(&self, path: &str, source: &FolderSource) -> String {
        source.urls.public_url(path).unwrap_or_else(|| self.shown_below(path, source).into_owned())
    }

    /// A path as the output shows it. `source` is the index of the given path below which the file was found.
    fn shown_path(&self, path: &str, source: usize) -> String {
        match self.sources.get(source) {
            Some(source) => self.shown_below(path, source).into_owned(),
            None => path.to_owned(),
        }
    }

    /// A path in the form in which the user gave `source`; relative to the current folder if it is not below `source`.
    fn shown_below<'p>(&self, path: &'p str, source: &FolderSource) -> Cow<'p, str> {
        match path.strip_prefix(source.path.as_str()) {
            Some("") => Cow::Owned(source.shown.clone()),
            Some(rest) if rest.starts_with('/') => {
                let shown = source.shown.trim_end_matches('/');
                Cow::Owned(if shown == "." {
                    rest.trim_start_matches('/').to_owned()
                } else {
                    format!("{shown}{rest}")
                })
            }
            _ => match path.strip_prefix(self.current.as_str()).and_then(|rest| rest.strip_prefix('/')) {
                Some(rest) if !rest.is_empty() => Cow::Borrowed(rest),
                _ => Cow::Borrowed(path),
            },
        }
    }
}

/// Reads a document into the buffer. Never waits: a pipe or a device, which may have replaced the document since the walk, is
/// opened without blocking and refused.
fn read_file(entry: &FileEntry, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    buffer.clear();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let path = entry.raw_path.as_deref().unwrap_or(Path::new(&entry.path));
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if let Some(refusal) = refusal(&metadata, true) {
        return Err(std::io::Error::other(refusal));
    }
    buffer.reserve(usize::try_from(metadata.len()).unwrap_or(0).saturating_add(1));
    file.take(MAX_DOCUMENT).read_to_end(buffer).map(drop)
}

/// Applies `work` to all items on all cores. Each thread has its own buffer and state.
fn parallel<I: Sync, S, R: Send>(
    items: &[I],
    new_state: impl Fn() -> S + Sync,
    work: impl Fn(&I, &mut Vec<u8>, &mut S) -> Option<R> + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let (mut buffer, mut state, mut results) = (Vec::new(), new_state(), Vec::new());
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            results.extend(work(item, &mut buffer, &mut state));
        }
        results
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    if threads <= 1 {
        return run();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        // A thread panics only because of a bug in this crate. Its results are then missing.
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// An absolute path without `.` and `..`. Symbolic links are not resolved, because `..` in a URL ignores them too.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
