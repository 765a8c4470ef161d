//! [`Job`]: one slot of a lane, one link, now. Moved, never cloned.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::http::cookies::CookieHeader;
use crate::output::record::WallClock;
use crate::page::link::Link;
use crate::page::url::Origin;

/// A host name's number in the frontier and on the workbench.
pub use crate::schedule::frontier::LaneId;

/// The right to fetch one link over one slot of its lane. Whoever holds it gives it back as a
/// [`Visit`](crate::visit::Visit), whatever happens.
#[derive(Debug)]
pub struct Job {
    pub link: Link,
    pub purpose: Purpose,
    pub lane: LaneId,
    /// Which of the lane's slots: at most one connection lives in each.
    pub slot: u16,
    /// Where to connect, in order of preference. Every one of them was checked.
    pub addresses: Arc<[IpAddr]>,
    /// What few jobs carry. Most wait without it, ten thousand at a time.
    pub rare: Option<Box<Rare>>,
}

/// What few jobs carry.
#[derive(Debug, Default)]
pub struct Rare {
    /// How long the name took to resolve, where this job had to wait for it.
    pub dns: Option<Duration>,
    /// What an earlier visit said of the page: asked for again only if it changed.
    pub conditional: Option<Conditional>,
    /// The cookies that its host set.
    pub cookie: Option<CookieHeader>,
    /// What people's clocks say, where there is an archive.
    pub wall: WallClock,
}

impl Job {
    /// How long the name took to resolve, where this job had to wait for it.
    pub fn dns(&self) -> Option<Duration> {
        self.rare.as_ref()?.dns
    }

    /// What few jobs carry; this one does from now on.
    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// What a fetch is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A page, to be recorded and searched for links.
    Page,
    /// The robots.txt of this origin; the link's own origin differs once it was redirected.
    Robots(Box<Origin>),
    /// A sitemap.
    Sitemap,
}

/// Validators of an earlier answer.
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
