//! The oracle: the records that a correct crawl of a graph must contain, computed without a server.
//!
//! Invariant: the oracle uses only [`Graph::kind`], [`Graph::links`] and [`Graph::url`], never the bytes of a page.
//! Tests check that the rendered pages agree with it.

use crate::graph::{Graph, PageId, PageKind};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// The hosts that a crawl may visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlReach {
    /// Only the hosts of the roots.
    RootHosts,
    /// Every host.
    Everywhere,
}

/// The expected record of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedRecord {
    /// 0 for a host that never responds.
    pub status: u16,
    /// Distinct URLs that the page links to, in scope or not.
    pub links: u32,
    /// The redirect target.
    pub redirect: Option<String>,
}

impl Graph {
    /// Every URL that a crawl from these roots must visit, with its expected record.
    pub fn reachable(
        &self,
        roots: impl IntoIterator<Item = PageId>,
        reach: CrawlReach,
    ) -> BTreeMap<String, ExpectedRecord> {
        let mut queue: VecDeque<PageId> = roots.into_iter().collect();
        let root_hosts: HashSet<u32> = queue.iter().map(|id| id.host).collect();
        let mut known: HashSet<PageId> = queue.iter().copied().collect();
        let mut records = BTreeMap::new();
        while let Some(id) = queue.pop_front() {
            let mut targets = BTreeSet::new();
            let expected = match self.kind(id) {
                PageKind::Page => {
                    self.links(id, |target| {
                        targets.insert(target);
                    });
                    ExpectedRecord { status: 200, links: targets.len() as u32, redirect: None }
                }
                PageKind::Error(status) => ExpectedRecord { status, links: 0, redirect: None },
                PageKind::Redirect(to) => {
                    targets.insert(to);
                    ExpectedRecord { status: 302, links: 0, redirect: Some(self.url(to)) }
                }
                PageKind::Dead => ExpectedRecord { status: 0, links: 0, redirect: None },
            };
            records.insert(self.url(id), expected);
            for target in targets {
                if (reach == CrawlReach::Everywhere || root_hosts.contains(&target.host)) && known.insert(target) {
                    queue.push_back(target);
                }
            }
        }
        records
    }
}
