//! The crawl directory: a crawl that survives whatever happens to the process and to the machine.
//!
//! # Theory
//!
//! There is one truth, the **log** (`log`): everything that happened, appended, in frames with checksums. A frame is
//! one commit. It holds the fates of some pages with their records, the links that they brought, what lanes want to
//! remember, and up to where each output file belongs to it. So fate, links and outputs become durable together, by one
//! write and one sync for many pages.
//!
//! Everything else can be made from the log. In memory there are the fingerprints of all known addresses, the names of
//! the lanes, and the queues, whose links are only positions in the log. The **snapshot** (`snapshot`) is a copy of
//! that, so that opening need not read the whole log; when in doubt it is thrown away. It is taken in portions, one with
//! each commit (`taking`): the crawl does not stand still for it.
//!
//! Memory has a limit ([`open_within`]). Beyond it fingerprints go to sorted files (`known`, `run`) and the middle of long
//! queues to a scratch file (`spill`). Both can be made from the log as well.
//!
//! A call on [`DiskFrontier`] changes memory at once and appends to the frame in the making. [`DiskFrontier::commit`]
//! seals the frame. Whoever may wait for disks hands it to [`LogWriter::write`], after syncing the outputs that it
//! speaks of, and tells the frontier when it is durable ([`DiskFrontier::acknowledge`]). The frontier never waits.
//!
//! Leases are not written down. Whoever opens the directory finds what was leased in the queue again, and what was
//! written to outputs behind the last commit is cut off. Fetching is at least once; records are exactly once.
//!
//! `docs/format.md` describes all files to the byte.

mod blocks;
mod chains;
mod directory;
mod fault;
mod files;
mod filter;
mod frontier;
mod history;
mod journal;
mod known;
mod lock;
mod log;
mod queue;
mod record;
mod replay;
mod round;
mod run;
mod snapshot;
mod spill;
mod taking;

pub use directory::{
    CrawlFile, CrawlSettings, OpenedDirectory, REPORT, SOCKET, SOCKET_FOLDER, crawled_by, cut_back, is_inside, open,
    open_in, open_within, remove, start_over, start_over_in,
};
pub use fault::failed;
pub use files::{File, Files, OsFiles};
pub use frontier::DiskFrontier;
pub use history::{HistoryEvent, history, history_in};
pub use lock::Lock;
pub use log::{CommitBatch, LogWriter};
