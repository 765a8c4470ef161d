//! The end of a folder check: turns faults into findings. Documents with faults that the first pass could not detect are
//! read again.

use std::collections::BTreeSet;
use std::sync::{OnceLock, PoisonError};

use hashbrown::HashMap;

use super::tree::FileId;
use super::{FolderCheck, OpenDocument, PendingFragment, ReferenceVerdict, parallel, read_file};
use crate::anchors::FragmentId;
use crate::document::{self, DecodedText, LineCounter, Reference};
use crate::finding::{CheckReport, Fault, FaultKind, LinkFinding, Occurrence, TargetVerdict};
use crate::remote::{RemoteFaults, RemoteTarget};
use crate::suggest::{MAX_SUGGESTED, PathIndex, Suggester};
use crate::text_fragment::{self, SearchBudget};

/// A fault and where it occurs.
pub(super) struct FoundFault {
    /// The target, as the output names it.
    url: String,
    fault: Fault,
    hint: Hint,
    occurrence: Occurrence,
}

impl FoundFault {
    /// A fault of a reference in a page: the name of the target, the fault, and the data for a suggestion.
    pub fn new(
        (url, fault, hint): (String, Fault, Hint),
        page: &str,
        lines: &mut LineCounter<'_>,
        reference: &Reference<'_>,
    ) -> Self {
        let (line, column) = lines.at(reference.offset);
        let text = lines.link_text(&reference.text);
        Self { url, fault, hint, occurrence: Occurrence { page: page.to_owned(), line, column, text } }
    }
}

impl FoundFault {
    /// The length of its texts.
    pub fn bytes(&self) -> usize {
        self.url.len() + self.occurrence.page.len() + self.occurrence.text.len()
    }
}

/// The data from which a suggestion can be made.
pub(super) enum Hint {
    None,
    /// The path that does not exist, and the index in `FolderCheck::sources` for the document that references the path.
    MissingPath(String, usize),
    /// The document, and the decoded fragment.
    MissingElement(FileId, String),
}

impl FolderCheck<'_> {
    /// Ends the check, given the faults of remote URLs.
    pub fn finish(mut self, remote: &RemoteFaults) -> CheckReport {
        self.search_texts();
        let table = self.remote.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_faulty_target: Vec<bool> =
            table.targets.iter().map(|target| remote.faults.contains_key(target)).collect();
        let is_left_out: Vec<bool> = table.targets.iter().map(|target| remote.left_out.contains(target)).collect();
        let is_in = |list: &[bool], id: &u32| list.get(*id as usize).copied().unwrap_or(false);
        let mut to_reread: Vec<FileId> = Vec::new();
        let mut found: Vec<(FileId, Vec<FoundFault>)> = Vec::new();
        for scan in std::mem::take(&mut self.scans) {
            let is_missing = |pending: &PendingFragment| {
                let anchors = self.anchors.get(pending.file as usize).and_then(OnceLock::get);
                anchors.is_some_and(|anchors| !anchors.has(pending.fragment))
            };
            let has_faulty_target = || scan.remote.iter().any(|id| is_in(&is_faulty_target, id));
            self.summary.over_limits += scan.remote.iter().filter(|id| is_in(&is_left_out, id)).count() as u64;
            let searches = || scan.texts.iter().filter_map(|text| self.text_searches.get(text));
            let has_missing_text = searches().any(|search| matches!(search, TargetVerdict::Faulty(_)));
            self.summary.over_limits +=
                searches().filter(|search| **search == TargetVerdict::OverLimits).count() as u64;
            if scan.pending.iter().any(is_missing) || has_missing_text || has_faulty_target() {
                to_reread.push(scan.document);
            } else {
                self.summary.over_limits += scan.unkept;
                found.push((scan.document, scan.faults));
            }
        }
        let check = &self;
        let no_state = || ();
        let reread = parallel(&to_reread, no_state, |id, buffer, ()| {
            let (faults, unkept) = check.find_all_faults(*id, buffer, remote);
            Some((*id, faults, unkept))
        });
        let mut unkept = 0;
        for (id, faults, unkept_here) in reread {
            unkept += unkept_here;
            found.push((id, faults));
        }
        // The position of each document in the output.
        let rank: HashMap<FileId, usize> = self.documents.iter().enumerate().map(|(rank, id)| (*id, rank)).collect();
        let mut found: Vec<(usize, Vec<FoundFault>)> =
            found.into_iter().map(|(id, faults)| (rank.get(&id).copied().unwrap_or(0), faults)).collect();
        found.sort_by_key(|(rank, _)| *rank);
        self.summary.over_limits += unkept;
        let mut report =
            CheckReport { summary: self.summary, notes: std::mem::take(&mut self.notes), ..Default::default() };
        let mut hints = Vec::new();
        let mut index: HashMap<(String, FaultKind), usize> = HashMap::new();
        for FoundFault { url, fault, hint, occurrence } in found.into_iter().flat_map(|(_, faults)| faults) {
            let next = report.findings.len();
            let position = *index.entry((url.clone(), fault.kind)).or_insert(next);
            if position == next {
                report.findings.push(LinkFinding { url, fault, on: Vec::new() });
                hints.push(hint);
            }
            if let Some(finding) = report.findings.get_mut(position) {
                finding.on.push(occurrence);
            }
        }
        self.suggest(&mut report.findings, &hints);
        report.findings.extend(self.refused());
        report.update_counts();
        report
    }

    /// The fault that follows from the verdict on a reference, with the name of the target and the data for a
    /// suggestion. `source` is the index in `FolderCheck::sources` for the document that contains the reference. `None`
    /// if there is no fault, if the target is remote, or if the document with the element was not read yet.
    pub(super) fn fault_of(
        &self,
        verdict: ReferenceVerdict<'_>,
        open: &OpenDocument<'_>,
        source: usize,
    ) -> Option<(String, Fault, Hint)> {
        match verdict {
            ReferenceVerdict::Good
            | ReferenceVerdict::NotChecked
            | ReferenceVerdict::Ignored
            | ReferenceVerdict::OverLimits
            | ReferenceVerdict::Remote(_) => None,
            ReferenceVerdict::Fault(url, fault, None) => Some((url, fault, Hint::None)),
            ReferenceVerdict::Fault(url, fault, Some(path)) => Some((url, fault, Hint::MissingPath(path, source))),
            ReferenceVerdict::Element(file, element) => self.missing_element(file, &element, open),
            ReferenceVerdict::Text(file, element, fragment) => {
                element.and_then(|element| self.missing_element(file, &element, open)).or_else(|| {
                    let Some(TargetVerdict::Faulty(fault)) = self.text_searches.get(&(file, fragment.into())) else {
                        return None;
                    };
                    let url = format!("{}#{fragment}", self.name(&open.path, open.source));
                    Some((url, fault.clone(), Hint::None))
                })
            }
        }
    }

    /// The fault of a reference to an element that the document does not have, if the document was read.
    fn missing_element(
        &self,
        file: FileId,
        element: &FragmentId<'_>,
        open: &OpenDocument<'_>,
    ) -> Option<(String, Fault, Hint)> {
        let anchors = self.anchors.get(file as usize).and_then(OnceLock::get);
        if anchors.is_none_or(|anchors| anchors.has(element.hash())) {
            return None;
        }
        let url = format!("{}#{}", self.name(&open.path, open.source), element.text());
        let message = format!("no element has the id {:?}", element.text());
        let hint = Hint::MissingElement(file, element.text().to_owned());
        Some((url, Fault::broken(FaultKind::Fragment, message), hint))
    }

    /// Looks for the texts that fragments lead to, reading each document once.
    fn search_texts(&mut self) {
        let mut wanted: HashMap<FileId, BTreeSet<&str>> = HashMap::new();
        for (file, fragment) in self.scans.iter().flat_map(|scan| &scan.texts) {
            wanted.entry(*file).or_default().insert(fragment);
        }
        let (mut searches, mut buffer) = (HashMap::new(), Vec::new());
        for (file, fragments) in wanted {
            let Some(entry) = self.entry(file) else { continue };
            let Some(kind) = entry.kind.filter(|_| read_file(entry, &mut buffer).is_ok()) else { continue };
            let page = document::page_text(&DecodedText::of_file(&buffer, kind).text, kind);
            let mut budget = SearchBudget::default();
            for fragment in fragments {
                let search = text_fragment::search(fragment, &page, &mut budget);
                if search != TargetVerdict::Good {
                    searches.insert((file, Box::from(fragment)), search);
                }
            }
        }
        self.text_searches = searches;
    }

    /// Reads a document with faults again, and finds all its faults with their positions.
    fn find_all_faults(&self, id: FileId, buffer: &mut Vec<u8>, remote: &RemoteFaults) -> (Vec<FoundFault>, u64) {
        let (mut found, mut unkept) = (Vec::new(), 0);
        let Some(entry) = self.entry(id) else { return (found, unkept) };
        let Some(kind) = entry.kind else { return (found, unkept) };
        if read_file(entry, buffer).is_err() {
            return (found, unkept);
        }
        let decoded = DecodedText::of_file(buffer, kind);
        // The anchors are known from the first pass.
        let document = document::read(&decoded.text, kind, &mut ());
        let Some(mut open) = self.open(id, entry, kind, document.base.as_deref(), &decoded) else {
            return (found, unkept);
        };
        let page = self.shown_path(&entry.path, entry.source);
        let mut lines = LineCounter::new(&decoded.text);
        for reference in &document.references {
            let fault = match self.judge(&mut open, reference) {
                ReferenceVerdict::Remote(fragment) => {
                    let target = RemoteTarget { url: open.url.clone(), fragment: fragment.map(str::to_owned) };
                    let Some(fault) = remote.faults.get(&target) else { continue };
                    let url = if fault.kind == FaultKind::Fragment { target.full_url() } else { target.url };
                    Some((url, fault.clone(), Hint::None))
                }
                verdict => self.fault_of(verdict, &open, entry.source),
            };
            let Some(fault) = fault.map(|fault| FoundFault::new(fault, &page, &mut lines, reference)) else { continue };
            if self.has_room(fault.bytes()) {
                found.push(fault);
            } else {
                unkept += 1;
            }
        }
        (found, unkept)
    }

    /// A finding for each document and folder that must not be read, and for each document that was not read to its end.
    fn refused(&self) -> impl Iterator<Item = LinkFinding> + '_ {
        let entries = self.tree.entries().iter();
        let documents = entries.filter_map(|entry| Some((entry.path.as_str(), entry.source, entry.refusal?)));
        let reason = "not read: the symbolic link leads out of the folder";
        let folders = self.tree.refused_folders.iter().map(move |(path, source)| (path.as_str(), *source, reason));
        let cut = self.cut.iter().filter_map(|id| self.entry(*id));
        let cut = cut.map(|entry| (entry.path.as_str(), entry.source, document::CUT));
        let all = documents.chain(folders).chain(cut);
        all.map(|(path, source, reason)| LinkFinding::not_read(self.shown_path(path, source), reason))
    }

    /// Adds suggestions to the findings.
    fn suggest(&self, findings: &mut [LinkFinding], hints: &[Hint]) {
        // Every missing element of a document needs the document's ids: read them once.
        let mut ids: HashMap<FileId, Vec<String>> = HashMap::new();
        let mut buffer = Vec::new();
        let mut suggester = Suggester::new();
        let paths = PathIndex::new(self.tree.paths());
        for (finding, hint) in findings.iter_mut().zip(hints).take(MAX_SUGGESTED) {
            finding.fault.suggestion = match hint {
                Hint::None => continue,
                Hint::MissingPath(path, source) => {
                    let similar = suggester.similar_path(path, &paths);
                    similar.map(|path| format!("did you mean {}?", self.shown_path(path, *source)))
                }
                Hint::MissingElement(file, fragment) => {
                    let ids = ids.entry(*file).or_insert_with(|| self.ids_of(*file, &mut buffer));
                    let similar = suggester.similar(fragment, ids.iter().map(String::as_str));
                    similar.map(|id| format!("did you mean #{id}?"))
                }
            };
        }
    }

    /// The ids and names in a document.
    fn ids_of(&self, file: FileId, buffer: &mut Vec<u8>) -> Vec<String> {
        let mut ids = Vec::new();
        if let Some(entry) = self.entry(file)
            && let Some(kind) = entry.kind
            && read_file(entry, buffer).is_ok()
        {
            document::read(&DecodedText::of_file(buffer, kind).text, kind, &mut ids);
        }
        ids
    }
}
