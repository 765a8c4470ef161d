//! [`Next`]: what to do next, and [`End`]: why a crawl ended.

use std::sync::Arc;

use crate::base::job::{Job, LaneId};
use crate::base::time::Time;

/// What to do next. The workbench never says [`Next::Done`]: the keeper decides that.
#[derive(Debug)]
pub enum Next {
    /// Fetch this.
    Fetch(Job),
    /// Look up the addresses of this lane's host name. The answer goes to `resolved`.
    Resolve(LaneId, Arc<str>),
    /// Nothing before this time, unless an event occurs first; [`Time::NEVER`] if only an event can change that.
    Wait(Time),
    /// The crawl is over.
    Done(End),
}

/// Why a crawl ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// No work is left.
    Finished,
    /// `--max-pages`.
    MaxPages,
    /// `--max-bytes`.
    MaxBytes,
    /// `--max-time`.
    MaxTime,
    /// `--max-disk`.
    MaxDisk,
    /// `--max-memory`: only deferred links are left, and memory has no room for their hosts.
    MaxMemory,
    /// A user stopped it with `argiope ctl` or in the dashboard.
    Stopped,
    /// A signal ended it, or the process crashed.
    Interrupted,
}

impl End {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::MaxPages => "max_pages",
            Self::MaxBytes => "max_bytes",
            Self::MaxTime => "max_time",
            Self::MaxDisk => "max_disk",
            Self::MaxMemory => "max_memory",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let limits = [Self::MaxPages, Self::MaxBytes, Self::MaxTime, Self::MaxDisk, Self::MaxMemory];
        let all = [Self::Finished, Self::Stopped, Self::Interrupted].into_iter().chain(limits);
        all.into_iter().find(|end| end.as_str() == name)
    }
}
