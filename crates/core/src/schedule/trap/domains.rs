//! Limit on the hosts of one registrable domain, since a wildcard DNS record can create any number of them.
//!
//! Hosts that the user or a sitemap names are always admitted. For hosts found by links, a domain has a small free
//! allowance; each host with enough new pages adds a few more. Links to other hosts wait, so that a large legitimate
//! domain is crawled eventually.
//!
//! Invariant: a host is counted once; memory is bounded, and hosts beyond the bound are admitted.

use hashbrown::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

use crate::page::link::Link;
use crate::page::scope::domain_key;
use crate::schedule::frontier::{LaneId, LinkRef};

/// A host with this many pages with new text is useful.
const USEFUL: u8 = 4;
/// Hosts that one useful host adds to the limit.
const HOSTS_PER_USEFUL_HOST: u32 = 4;
/// Limit on waiting links.
const WAITING: usize = 1_024;
/// Limit on remembered hosts.
const HOSTS: usize = 1 << 20;

/// The known hosts of each domain.
#[derive(Debug)]
pub struct Domains {
    /// Free hosts per domain.
    free: u32,
    /// Hashes of the admitted hosts.
    hosts: HashSet<u64>,
    domains: HashMap<u64, Domain>,
    /// By lane: pages with new text, up to [`USEFUL`].
    useful_pages: Vec<u8>,
    /// The first link to each host that is not admitted yet, with the key of the host's domain.
    waiting: Vec<(u64, Link)>,
    /// Links whose hosts are now admitted.
    released: Vec<Link>,
}

/// The counts of one registrable domain: hosts that count towards its limit, and hosts with enough new pages.
#[derive(Clone, Copy, Debug, Default)]
struct Domain {
    hosts: u32,
    useful: u32,
}

impl Domains {
    pub fn new(free: u32) -> Self {
        Self {
            free,
            hosts: HashSet::new(),
            domains: HashMap::new(),
            useful_pages: Vec::new(),
            waiting: Vec::new(),
            released: Vec::new(),
        }
    }

    /// Admits a host unconditionally.
    pub fn admit_always(&mut self, host: &str) {
        if self.hosts.len() < HOSTS {
            self.hosts.insert(xxh3_64(host.as_bytes()));
        }
    }

    /// Restores a host of an earlier run; it counts towards its domain.
    pub fn recall(&mut self, host: &str) {
        if !self.knows(host) {
            self.domains.entry(key_of(host)).or_default().hosts += 1;
            self.admit_always(host);
        }
    }

    /// Whether a host is admitted. True for every host once the memory for hosts is full.
    pub fn knows(&self, host: &str) -> bool {
        self.hosts.len() >= HOSTS || self.hosts.contains(&xxh3_64(host.as_bytes()))
    }

    /// Admits an unknown host if its domain's limit allows.
    pub fn admit(&mut self, host: &str) -> bool {
        let domain = self.domains.entry(key_of(host)).or_default();
        if domain.hosts >= self.free.saturating_add(domain.useful.saturating_mul(HOSTS_PER_USEFUL_HOST)) {
            return false;
        }
        domain.hosts += 1;
        self.admit_always(host);
        true
    }

    /// Keeps the first link to a host that has to wait.
    pub fn wait(&mut self, link: LinkRef<'_>) {
        let known = |(_, waiting): &(u64, Link)| waiting.url.host() == link.url.host();
        if self.waiting.len() < WAITING && !self.waiting.iter().any(known) {
            self.waiting.push((key_of(link.url.host()), link.to_link()));
        }
    }

    /// Counts a page with new text.
    pub fn useful_page(&mut self, lane: LaneId, host: &str) {
        if self.useful_pages.len() <= lane.index() {
            self.useful_pages.resize(lane.index() + 1, 0);
        }
        let Some(pages) = self.useful_pages.get_mut(lane.index()).filter(|pages| **pages < USEFUL) else { return };
        *pages += 1;
        if *pages < USEFUL {
            return;
        }
        let key = key_of(host);
        self.domains.entry(key).or_default().useful += 1;
        for _ in 0..HOSTS_PER_USEFUL_HOST {
            let Some(at) = self.waiting.iter().position(|(domain, _)| *domain == key) else { break };
            let (_, link) = self.waiting.remove(at);
            if self.knows(link.url.host()) || self.admit(link.url.host()) {
                self.released.push(link);
            } else {
                // An earlier run admitted more hosts than this run has earned so far: keep waiting.
                self.waiting.insert(at, (key, link));
                break;
            }
        }
    }

    /// Takes the links whose hosts are now admitted.
    pub fn take_released(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.released)
    }
}

fn key_of(host: &str) -> u64 {
    xxh3_64(domain_key(host).as_bytes())
}
