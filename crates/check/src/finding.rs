//! The result of a check: findings with their occurrences, and a summary.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

/// Whether a target is broken or could not be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Broken,
    /// The target could not be checked, for example because robots.txt disallows it. Does not count as a failure.
    Unknown,
}

/// What is wrong with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// A status that is not accepted.
    HttpError,
    /// No response, a response that could not be read, or a redirect that could not be followed.
    Failed,
    /// The page exists, but it has no element with the id that the fragment names.
    Fragment,
    /// Not a valid address.
    Malformed,
    RedirectLoop,
    MissingFile,
    /// robots.txt disallows the request.
    Robots,
    /// The address is on a private network.
    PrivateAddress,
    /// A document that must not be read, or was not read to its end, or a fragment of it.
    NotRead,
}

impl FaultKind {
    pub const ALL: [Self; 9] = [
        Self::HttpError,
        Self::Failed,
        Self::Fragment,
        Self::Malformed,
        Self::RedirectLoop,
        Self::MissingFile,
        Self::Robots,
        Self::PrivateAddress,
        Self::NotRead,
    ];

    /// The name in machine-readable output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HttpError => "http_error",
            Self::Failed => "failed",
            Self::Fragment => "fragment",
            Self::Malformed => "malformed",
            Self::RedirectLoop => "redirect_loop",
            Self::MissingFile => "missing_file",
            Self::Robots => "robots",
            Self::PrivateAddress => "private_address",
            Self::NotRead => "not_read",
        }
    }

    /// A description, for output formats that describe their rules.
    pub fn description(self) -> &'static str {
        match self {
            Self::HttpError => "The server responds with an error",
            Self::Failed => "The server gives no usable response",
            Self::Fragment => "The page exists, but not the part of it that the link names",
            Self::Malformed => "The address is not valid",
            Self::RedirectLoop => "The redirects form a loop",
            Self::MissingFile => "The file does not exist",
            Self::Robots => "robots.txt disallows the request",
            Self::PrivateAddress => "The address is on a private network and was not requested",
            Self::NotRead => "The document was not read, or not to its end",
        }
    }
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is wrong with one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub verdict: Verdict,
    pub kind: FaultKind,
    pub status: Option<u16>,
    pub message: String,
    /// A likely correction, if there is one.
    pub suggestion: Option<String>,
}

impl Fault {
    pub(crate) fn broken(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Broken, kind, status: None, message: message.into(), suggestion: None }
    }

    pub(crate) fn unknown(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, ..Self::broken(kind, message) }
    }
}

/// The verdict on one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetVerdict {
    Good,
    Faulty(Fault),
    /// A limit was reached before it could be judged.
    OverLimits,
}

/// A place where a target is referenced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Occurrence {
    /// The path of a file relative to the current folder, or the URL of a page.
    pub page: String,
    /// Counted from 1; 0 if the line is not known.
    pub line: u32,
    /// Counted from 1, in characters.
    pub column: u32,
    /// The text of the link, or the alternative text of the image.
    pub text: String,
}

/// A target that is broken or could not be checked, with every place that references it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFinding {
    /// The URL, or the path for files. Includes the fragment if the fragment is the fault.
    pub url: String,
    pub fault: Fault,
    /// Every place that references the target.
    pub on: Vec<Occurrence>,
}

impl LinkFinding {
    /// The finding of a document that was not read, or not to its end. What it references is not known.
    pub(crate) fn not_read(page: String, why: &str) -> Self {
        let on = vec![Occurrence { page: page.clone(), line: 0, column: 0, text: String::new() }];
        Self { url: page, fault: Fault::unknown(FaultKind::NotRead, why), on }
    }
}

/// The totals of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckSummary {
    /// Documents that were read.
    pub pages: u64,
    /// References in these documents.
    pub links: u64,
    /// References that are not checked because of their scheme, or because of an option other than `--ignore`.
    pub not_checked: u64,
    /// References that `--ignore` excludes.
    pub ignored: u64,
    /// External URLs that were requested.
    pub external: u64,
    /// External URLs that were not requested, because the cache has them.
    pub cached: u64,
    /// References that were not checked because a limit was reached.
    pub over_limits: u64,
    /// Broken targets.
    pub broken: u64,
    /// The references to broken targets.
    pub broken_places: u64,
    /// Targets that could not be checked.
    pub unknown: u64,
    /// The references to targets that could not be checked.
    pub unknown_places: u64,
    /// Duration of the whole check.
    pub milliseconds: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// In the order of the pages and lines where the targets first occur.
    pub findings: Vec<LinkFinding>,
    pub summary: CheckSummary,
    /// Notes for the user about the check itself, such as files that could not be read.
    pub notes: Vec<String>,
    /// Whether no external host could be reached.
    pub is_network_down: bool,
}

impl CheckReport {
    /// Adds the findings of another part of the same check. Occurrences of the same target are joined. The caller sets
    /// `external`, `cached` and `milliseconds` of the summary, because they apply to the whole check.
    pub fn merge(&mut self, other: Self) {
        let mut index: HashMap<(String, FaultKind), usize> = HashMap::new();
        for (position, finding) in self.findings.iter().enumerate() {
            index.insert((finding.url.clone(), finding.fault.kind), position);
        }
        for finding in other.findings {
            match index
                .get(&(finding.url.clone(), finding.fault.kind))
                .and_then(|position| self.findings.get_mut(*position))
            {
                Some(known) => known.on.extend(finding.on),
                None => self.findings.push(finding),
            }
        }
        self.notes.extend(other.notes);
        let (summary, added) = (&mut self.summary, other.summary);
        summary.pages += added.pages;
        summary.links += added.links;
        summary.not_checked += added.not_checked;
        summary.ignored += added.ignored;
        summary.over_limits += added.over_limits;
        self.update_counts();
    }

    /// Sets the numbers of broken and unknown targets, and of their places, in the summary.
    pub fn update_counts(&mut self) {
        let count = |verdict| {
            let found = self.findings.iter().filter(move |finding| finding.fault.verdict == verdict);
            (found.clone().count() as u64, found.map(|finding| finding.on.len() as u64).sum())
        };
        (self.summary.broken, self.summary.broken_places) = count(Verdict::Broken);
        (self.summary.unknown, self.summary.unknown_places) = count(Verdict::Unknown);
    }

    /// Whether no reference could be checked: at least one should have been checked, and the targets of all are unknown.
    pub fn is_all_unknown(&self) -> bool {
        let CheckSummary { links, not_checked, ignored, over_limits, broken, .. } = self.summary;
        let unknown: u64 = self.findings.iter().map(|finding| finding.on.len() as u64).sum();
        broken == 0 && unknown > 0 && unknown >= links.saturating_sub(not_checked + ignored + over_limits)
    }

    /// The findings for people: without the external links that are unknown because no external host could be reached, which
    /// one note reports.
    pub fn shown_findings(&self) -> impl Iterator<Item = &LinkFinding> {
        let is_unreached = |fault: &Fault| fault.verdict == Verdict::Unknown && fault.kind == FaultKind::Failed;
        self.findings.iter().filter(move |finding| !(self.is_network_down && is_unreached(&finding.fault)))
    }

    /// Whether at least one target is broken.
    pub fn has_broken(&self) -> bool {
        self.summary.broken > 0
    }
}
