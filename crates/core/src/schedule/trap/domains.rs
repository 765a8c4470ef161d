//! How many hosts of one registrable domain are taken up: a name server that answers for every name makes endless ones.
//!
//! Hosts that the user or a sitemap names are taken up whatever their number. Of those that links lead
//! to, a domain has some for nothing; each that proves useful, by pages that say something new, earns a few more. What
//! has to wait for that is kept, so that a large and honest domain is crawled after all.
//!
//! Invariant: a host is counted once; memory has an end, and beyond it nothing is held back.

use hashbrown::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

use crate::page::link::Link;
use crate::page::scope::domain_key;
use crate::schedule::frontier::{LaneId, LinkRef};

/// Pages with something new to say that make a host a useful one.
const USEFUL: u8 = 4;
/// Hosts that a useful one makes room for.
const EARNED: u32 = 4;
/// Links that are kept for hosts that have to wait.
const WAITING: usize = 1_024;
/// Hosts that are remembered.
const HOSTS: usize = 1 << 20;

/// The hosts of each domain, as far as they are known.
#[derive(Debug)]
pub struct Domains {
    /// What a domain has for nothing.
    free: u32,
    hosts: HashSet<u64>,
    domains: HashMap<u64, Domain>,
    /// By lane: pages that said something new, up to [`USEFUL`].
    useful_pages: Vec<u8>,
    waiting: Vec<(u64, Link)>,
    /// What may be taken up now.
    released: Vec<Link>,
}

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

    /// A host that nobody needs to allow.
    pub fn meet(&mut self, host: &str) {
        if self.hosts.len() < HOSTS {
            self.hosts.insert(xxh3_64(host.as_bytes()));
        }
    }

    /// A host of an earlier run: it counts for its domain, whatever the number.
    pub fn recall(&mut self, host: &str) {
        if !self.knows(host) {
            self.domains.entry(key_of(host)).or_default().hosts += 1;
            self.meet(host);
        }
    }

    pub fn knows(&self, host: &str) -> bool {
        self.hosts.len() >= HOSTS || self.hosts.contains(&xxh3_64(host.as_bytes()))
    }

    /// Takes up a host that is not known, if its domain has room.
    pub fn admit(&mut self, host: &str) -> bool {
        let domain = self.domains.entry(key_of(host)).or_default();
        if domain.hosts >= self.free.saturating_add(domain.useful.saturating_mul(EARNED)) {
            return false;
        }
        domain.hosts += 1;
        self.meet(host);
        true
    }

    /// Keeps a link to a host that has to wait: the first one to each.
    pub fn wait(&mut self, link: LinkRef<'_>) {
        let known = |(_, waiting): &(u64, Link)| waiting.url.host() == link.url.host();
        if self.waiting.len() < WAITING && !self.waiting.iter().any(known) {
            self.waiting.push((key_of(link.url.host()), link.to_link()));
        }
    }

    /// A page of a host said something new.
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
        for _ in 0..EARNED {
            let Some(at) = self.waiting.iter().position(|(domain, _)| *domain == key) else { break };
            let (_, link) = self.waiting.remove(at);
            if self.knows(link.url.host()) || self.admit(link.url.host()) {
                self.released.push(link);
            } else {
                // An earlier run took up more hosts than are earned so far: it goes on waiting.
                self.waiting.insert(at, (key, link));
                break;
            }
        }
    }

    /// What may be taken up now, after all.
    pub fn take_released(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.released)
    }
}

fn key_of(host: &str) -> u64 {
    xxh3_64(domain_key(host).as_bytes())
}
