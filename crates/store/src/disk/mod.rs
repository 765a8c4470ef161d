//! The crawl directory: a crawl that survives crashes of the process and of the machine.
//!
//! # Design
//!
//! The single source of truth is the **log** (`log`): all events, appended in frames with checksums. A frame is one
//! commit. It holds the outcomes of some pages with their records, the links found on them, notes about lanes, and the
//! length of each output file. So outcomes, links and outputs become durable together, with one write and one sync for
//! many pages.
//!
//! Everything else can be rebuilt from the log. In memory there are the fingerprints of all known URLs, the names of
//! the lanes, and the queues, whose links are only positions in the log. The **snapshot** (`snapshot_reader`) is a
//! checkpoint of this state, so that opening need not read the whole log. A snapshot that does not match the log is
//! discarded. A snapshot is taken in portions, at most one with each commit (`snapshot_writer`), so the crawl does not
//! pause for it.
//!
//! Memory is limited ([`open_within`]). Beyond the limit fingerprints go to sorted files (`known`, `run`) and the
//! middle of long queues to a scratch file (`spill`). Both can be rebuilt from the log as well.
//!
//! A call on [`DiskFrontier`] changes memory at once and appends to the frame being built. [`DiskFrontier::commit`]
//! seals the frame. The writer thread syncs the output files, then passes the frame to [`LogWriter::write`]. When the
//! frame is durable, the frontier is notified ([`DiskFrontier::acknowledge`]). The frontier itself never waits for a
//! sync.
//!
//! Leases are not stored. When the directory is opened, leased links are queued again, and outputs are truncated to
//! their length at the last commit. So a page is fetched at least once, and its record is stored exactly once.
//!
//! `docs/format.md` specifies all files.

mod blocks;
mod chains;
mod commits;
mod compaction;
mod crawl_file;
mod directory;
mod fault;
mod files;
mod filter;
mod frontier;
mod graph;
mod graph_codec;
mod history;
mod index;
mod journal;
mod known;
mod lock;
mod log;
mod marks;
mod os_files;
mod output_hash;
mod queue;
mod record;
mod record_log;
mod replay;
mod run;
mod snapshot_file;
mod snapshot_reader;
mod snapshot_writer;
mod spill;
mod state;
mod trace;

pub use commits::{Commits, CommittedOutput, Store};
pub use compaction::Compaction;
pub use crawl_file::{CrawlFile, CrawlSettings, OtherRoots, SettingChange};
pub use directory::{
    OpenedDirectory, PUSH, REPORT, SOCKET, SOCKET_FOLDER, crawled_by, is_inside, open, open_in, open_with, open_within,
    remove, settings_of, start_over, start_over_in, truncate_output,
};
pub use fault::failed;
pub use fault::is_full;
pub use files::{File, Files};
pub use frontier::{DiskFrontier, Requeued, UnreachedLinks};
pub use graph::{GraphChunks, GraphRound, Inlinks, LinkGraph, Referrers};
pub use graph_codec::{GraphEdge, GraphEncoder, NewEdge, PageEdges};
pub use history::{HistoryEvent, history, history_in};
pub use lock::Lock;
pub use log::{CommitBatch, LogWriter};
pub use marks::MarkFile;
pub use os_files::{OsFiles, folder_size};
pub use output_hash::OutputHash;
pub use record_log::RecordLog;
pub use trace::{HostTrace, TracedLink, UrlTrace, UrlTracer};
