//! Limit on the hosts of one registrable domain, since a wildcard DNS record can create any number of them.
//!
//! Hosts that the user or a sitemap names are always admitted. Of the hosts found by links, every domain may have a
//! small number. Each of its hosts that proves useful, by enough pages with text that is new on the host, raises this
//! limit. Links to other hosts wait, so that a large legitimate domain is crawled eventually.
//!
//! Invariant: a host is counted once. Memory is bounded, and hosts beyond the bound are admitted.

use hashbrown::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

use crate::base::job::LaneId;
use crate::base::link::Link;
use crate::base::link::LinkRef;
use crate::page::scope::domain_key;

/// A host is useful if it has this many pages whose text differs from the other pages of the host.
const USEFUL_PAGES: u8 = 4;
/// How many hosts one useful host adds to the limit of its domain.
const HOSTS_PER_USEFUL_HOST: u32 = 4;
/// Limit on waiting links.
const MAX_WAITING: usize = 1_024;
/// Limit on admitted hosts in memory.
const MAX_HOSTS: usize = 1 << 20;

/// The admitted hosts of each domain, and the links that wait for their hosts to be admitted.
#[derive(Debug)]
pub struct Domains {
    /// How many hosts a domain without useful hosts may have.
    base_limit: u32,
    /// Hashes of the admitted hosts.
    hosts: HashSet<u64>,
    /// The counts by the hash of the domain.
    domains: HashMap<u64, Domain>,
    /// The number of useful pages (with new text) by lane, up to [`USEFUL_PAGES`].
    useful_pages: Vec<u8>,
    /// The first link to each host that is not admitted yet, with the key of the host's domain.
    waiting: Vec<(u64, Link)>,
    /// Links whose hosts are now admitted.
    released: Vec<Link>,
}

/// The counts of one registrable domain.
#[derive(Clone, Copy, Debug, Default)]
struct Domain {
    /// Hosts that count towards the limit.
    hosts: u32,
    /// Hosts with enough useful pages.
    useful_hosts: u32,
}

impl Domains {
    pub fn new(base_limit: u32) -> Self {
        Self {
            base_limit,
            hosts: HashSet::new(),
            domains: HashMap::new(),
            useful_pages: Vec::new(),
            waiting: Vec::new(),
            released: Vec::new(),
        }
    }

    /// Admits a host unconditionally.
    pub fn admit_always(&mut self, host: &str) {
        if self.hosts.len() < MAX_HOSTS {
            self.hosts.insert(xxh3_64(host.as_bytes()));
        }
    }

    /// Restores a host of an earlier run. It counts towards the limit of its domain.
    pub fn recall(&mut self, host: &str) {
        if !self.knows(host) {
            self.domains.entry(key_of(host)).or_default().hosts += 1;
            self.admit_always(host);
        }
    }

    /// Whether a host is admitted. True for every host once the memory for hosts is full.
    pub fn knows(&self, host: &str) -> bool {
        self.hosts.len() >= MAX_HOSTS || self.hosts.contains(&xxh3_64(host.as_bytes()))
    }

    /// Admits an unknown host if the limit of its domain allows. Returns whether it is admitted.
    pub fn admit(&mut self, host: &str) -> bool {
        let domain = self.domains.entry(key_of(host)).or_default();
        if domain.hosts >= self.base_limit.saturating_add(domain.useful_hosts.saturating_mul(HOSTS_PER_USEFUL_HOST)) {
            return false;
        }
        domain.hosts += 1;
        self.admit_always(host);
        true
    }

    /// Keeps a link to a host that has to wait, if it is the first one to this host.
    pub fn wait(&mut self, link: LinkRef<'_>) {
        let is_same_host = |(_, waiting): &(u64, Link)| waiting.url.host() == link.url.host();
        if self.waiting.len() < MAX_WAITING && !self.waiting.iter().any(is_same_host) {
            self.waiting.push((key_of(link.url.host()), link.to_link()));
        }
    }

    /// Counts a page with new text. If its host becomes useful, admits waiting hosts of its domain.
    pub fn count_useful_page(&mut self, lane: LaneId, host: &str) {
        if self.useful_pages.len() <= lane.index() {
            self.useful_pages.resize(lane.index() + 1, 0);
        }
        let Some(pages) = self.useful_pages.get_mut(lane.index()).filter(|pages| **pages < USEFUL_PAGES) else {
            return;
        };
        *pages += 1;
        if *pages < USEFUL_PAGES {
            return;
        }
        let key = key_of(host);
        self.domains.entry(key).or_default().useful_hosts += 1;
        for _ in 0..HOSTS_PER_USEFUL_HOST {
            let Some(index) = self.waiting.iter().position(|(domain, _)| *domain == key) else { break };
            let (_, link) = self.waiting.remove(index);
            if self.knows(link.url.host()) || self.admit(link.url.host()) {
                self.released.push(link);
            } else {
                // The hosts of earlier runs count towards the limit, but which of them were useful is not stored. So the
                // domain may have more hosts than its limit.
                self.waiting.insert(index, (key, link));
                break;
            }
        }
    }

    /// Takes the links whose hosts are now admitted.
    pub fn take_released(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.released)
    }
}

/// The key of a host's domain.
fn key_of(host: &str) -> u64 {
    xxh3_64(domain_key(host).as_bytes())
}
