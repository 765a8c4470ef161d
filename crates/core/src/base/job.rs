//! [`Job`]: the permission to fetch one link now, over one slot of its lane. Moved, never cloned.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::link::Link;
use crate::base::time::{Time, WallClock};
use crate::base::url::Origin;

/// A lane's number within one frontier and on the workbench. A lane is a host name; lanes are numbered in order of
/// arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u32);

impl LaneId {
    /// The number, for use as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The permission to fetch one link over one slot of its lane. An engine returns every job as a
/// [`Visit`](crate::crawl::visit::Visit), even after a failure.
#[derive(Debug)]
pub struct Job {
    pub link: Link,
    pub purpose: Purpose,
    pub lane: LaneId,
    /// The slot of the lane. Each slot has at most one connection.
    pub slot: u16,
    /// The HTTP version of the lane's host, as far as known.
    pub http: LaneHttp,
    /// How many times a server returned the request without processing it. This does not count as a try.
    pub unprocessed: u8,
    /// Addresses to connect to, in order of preference. None of them is a refused address.
    pub addresses: Arc<[IpAddr]>,
    /// Fields that few jobs need, boxed to keep waiting jobs small.
    pub extras: Option<Box<JobExtras>>,
}

/// The HTTP version of a lane's host, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneHttp {
    /// No response yet: the host may support HTTP/2.
    #[default]
    Unknown,
    /// A connection has one job at a time: HTTP/1.1, or an engine that does not multiplex in any version.
    Serial,
    /// HTTP/2: the jobs of an origin share a connection.
    Multiplexed,
    /// The origin requires HTTP/1.1. HTTP/2 is not offered to it again.
    Http1Only,
}

/// Fields that few jobs need.
#[derive(Debug, Default)]
pub struct JobExtras {
    /// Duration of the DNS lookup, if this job waited for it.
    pub dns: Option<Duration>,
    /// In a recrawl: validators of the previous round, for a conditional request.
    pub conditional: Option<Conditional>,
    /// Headers that the request hook set.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The cookies to send.
    pub cookie: Option<CookieHeader>,
    /// The wall clock, for archive records.
    pub wall: WallClock,
    /// Where to report that the request was sent, if the lane waits for that.
    pub send_reporter: Option<SendReporter>,
}

/// The value of a `Cookie` header.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieHeader(Box<[u8]>);

impl CookieHeader {
    pub(crate) fn new(value: Vec<u8>) -> Self {
        Self(value.into_boxed_slice())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CookieHeader {
    /// Cookies are secrets and stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Reports to the keeper that a request was sent. Carried by jobs of hosts with a delay between requests, because the
/// delay counts from that time: opening a connection may take longer than the delay.
#[derive(Clone)]
pub struct SendReporter(Arc<dyn Fn(SentRequest) + Send + Sync>);

/// A request that was written to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRequest {
    pub lane: LaneId,
    pub slot: u16,
    pub at: Time,
}

impl SendReporter {
    pub fn new(report: impl Fn(SentRequest) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }
}

impl fmt::Debug for SendReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendReporter")
    }
}

impl Job {
    /// Duration of the DNS lookup, if this job waited for it.
    pub fn dns(&self) -> Option<Duration> {
        self.extras.as_ref()?.dns
    }

    /// Reports that the whole request was written at this time.
    pub fn report_sent(&self, at: Time) {
        if let Some(SendReporter(report)) = self.extras.as_ref().and_then(|extras| extras.send_reporter.as_ref()) {
            report(SentRequest { lane: self.lane, slot: self.slot, at });
        }
    }

    /// Whether its connection may carry other jobs of the origin at the same time.
    pub fn shares_connection(&self) -> bool {
        matches!(self.http, LaneHttp::Unknown | LaneHttp::Multiplexed)
    }

    /// The extra fields, created if absent.
    pub fn extras_mut(&mut self) -> &mut JobExtras {
        self.extras.get_or_insert_default()
    }
}

/// The purpose of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A page, to be recorded and searched for links.
    Page,
    /// The robots.txt of this origin. After a redirect, the link's own origin differs.
    Robots(Box<Origin>),
    /// A sitemap.
    Sitemap,
}

/// Validators of an earlier response, for a conditional request.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Conditional {
    pub etag: Option<Box<str>>,
    pub last_modified: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_small() {
        assert!(size_of::<Job>() <= 112, "{} bytes", size_of::<Job>());
    }
}
