//! `argiope check`: finds broken links of sites, folders and single files.
//!
//! | step | module |
//! |---|---|
//! | sources: a folder is walked, a site is crawled | `folder`, `web` |
//! | documents: references and anchors of HTML and Markdown, with positions | `document`, `anchors` |
//! | targets: a reference is resolved to a file or a URL, or is malformed | `target`, `mail` |
//! | budgets of pages, hosts and the whole check | `limits` |
//! | verdicts: good, broken or unknown, each with a reason | `folder`, `web`, `suggest` |
//! | output: findings grouped by target, in seven formats | `finding`, `output` |
//!
//! Folders are read in two passes. The first pass collects which files and anchors exist and which are referenced, without
//! positions. The second pass reads only the pages with faults that the first pass could not detect, to find lines, columns
//! and link texts. So a link takes at most a few bytes of memory.

mod anchors;
mod cache;
mod document;
mod finding;
mod folder;
mod limits;
mod mail;
mod options;
pub mod output;
mod remote;
mod suggest;
mod target;
mod text_fragment;
mod web;

pub use cache::CheckCache;
pub use document::{DocumentType, ReferenceKind, steps_of_reading};
pub use finding::{CheckReport, CheckSummary, Fault, FaultKind, LinkFinding, Occurrence, Verdict};
pub use folder::FolderCheck;
pub use options::{BadStatusRanges, CheckLimits, CheckOptions, CheckProgress, StatusRanges, read_ignore_file};
pub use remote::{RemoteFaults, RemoteTarget};
pub use web::{CHECK_FILE, LIST_NAME, WebCheck};
