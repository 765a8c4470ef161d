//! [`Job`]: the permission to fetch one link now, over one slot of its lane. Moved, never cloned.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::http::cookies::CookieHeader;
use crate::output::record::WallClock;
use crate::page::link::Link;
use crate::page::url::Origin;

/// A host name's number in the frontier and on the workbench.
pub use crate::schedule::frontier::LaneId;

/// The permission to fetch one link over one slot of its lane. An engine returns every job as a
/// [`Visit`](crate::visit::Visit), whatever happens.
#[derive(Debug)]
pub struct Job {
    pub link: Link,
    pub purpose: Purpose,
    pub lane: LaneId,
    /// Which of the lane's slots. Each slot has at most one connection.
    pub slot: u16,
    /// Addresses to connect to, in order of preference. All were checked.
    pub addresses: Arc<[IpAddr]>,
    /// Fields that few jobs need, boxed to keep waiting jobs small.
    pub rare: Option<Box<Rare>>,
}

/// Fields that few jobs need.
#[derive(Debug, Default)]
pub struct Rare {
    /// Duration of the DNS lookup, if this job waited for it.
    pub dns: Option<Duration>,
    /// Validators of the previous crawl, for a conditional request.
    pub conditional: Option<Conditional>,
    /// The cookies to send.
    pub cookie: Option<CookieHeader>,
    /// The wall clock, for archive records.
    pub wall: WallClock,
}

impl Job {
    /// Duration of the DNS lookup, if this job waited for it.
    pub fn dns(&self) -> Option<Duration> {
        self.rare.as_ref()?.dns
    }

    /// The rare fields, created if absent.
    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// What a fetch is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A page, to be recorded and searched for links.
    Page,
    /// The robots.txt of this origin. After a redirect, the link's own origin differs.
    Robots(Box<Origin>),
    /// A sitemap.
    Sitemap,
}

/// Validators of an earlier response.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Conditional {
    pub etag: Option<Box<str>>,
    pub last_modified: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_carries_nothing_special_is_small() {
        assert!(size_of::<Job>() <= 112, "{} bytes", size_of::<Job>());
    }
}
