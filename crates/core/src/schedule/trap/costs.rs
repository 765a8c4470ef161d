//! Limits on the costs of a site: bytes in the log, new hosts, and sitemaps.
//!
//! A few bytes on the wire can cause high costs: a compressed page of long links, a page that names thousands of hosts,
//! an index of indexes of sitemaps. So each site (registrable domain) has an account per kind of cost. Costs are added,
//! and the site's contributions are subtracted: received bytes, answered pages, pages with new text. The balance must
//! stay within a limit that ordinary sites do not come near.
//!
//! Invariant: a balance is never negative, and a site whose balances are all zero takes no memory.

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::TrapRule;
use crate::page::scope::domain_key;

/// Limit on sites with accounts. Beyond it, sites with low balances are dropped.
const MAX_SITES: usize = 1 << 16;
/// A received byte pays for this many bytes in the log.
const LOG_PER_BYTE: u64 = 4;
/// An answered page pays for this many bytes in the log.
const LOG_PER_PAGE: u64 = 16 << 10;
/// Bytes of a queued link in the log besides its URL.
const LINK_RECORD: u64 = 24;
/// An entry of a sitemap is free up to this length: sitemaps compress well, and ordinary ones have many entries.
const FREE_ENTRY: u64 = 128;
/// A page with new text pays for this many new hosts, sitemap files and sitemap entries.
const HOSTS_PER_PAGE: u64 = 16;
const FILES_PER_PAGE: u64 = 16;
const ENTRIES_PER_PAGE: u64 = 1_024;
/// An entry of a sitemap pays for this many bytes of the sitemap.
pub(super) const BYTES_PER_ENTRY: u64 = 256;
/// A page with new text pays for this many bytes of sitemaps.
const SITEMAP_BYTES_PER_PAGE: u64 = 64 << 10;

/// A kind of cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Cost {
    Log,
    Hosts,
    SitemapFiles,
    SitemapEntries,
    SitemapBytes,
}

/// The number of kinds of costs.
const KINDS: usize = 5;

impl Cost {
    pub fn rule(self) -> TrapRule {
        match self {
            Self::Log => TrapRule::LogBytes,
            Self::Hosts => TrapRule::SourceHosts,
            Self::SitemapFiles => TrapRule::SitemapFiles,
            Self::SitemapEntries => TrapRule::SitemapEntries,
            Self::SitemapBytes => TrapRule::SitemapBytes,
        }
    }
}

/// The accounts of all sites.
#[derive(Debug)]
pub(super) struct SiteCosts {
    limits: [u64; KINDS],
    /// By the hash of the site's domain; the array is indexed by [`Cost`].
    balances: HashMap<u64, [u64; KINDS]>,
}

impl SiteCosts {
    /// Limits for a `--trap-budget`.
    pub fn new(budget: u32) -> Self {
        let budget = u64::from(budget);
        let limits = [
            budget.saturating_mul(4 << 10),
            (budget / 4).max(1),
            (budget / 4).max(1),
            budget.saturating_mul(256),
            budget.saturating_mul(16 << 10),
        ];
        Self { limits, balances: HashMap::new() }
    }

    /// The unused part of a site's limit.
    pub fn left(&self, cost: Cost, host: &str) -> u64 {
        if self.balances.is_empty() {
            return self.limits[cost as usize];
        }
        let spent = self.balances.get(&site(host)).map_or(0, |balance| balance[cost as usize]);
        self.limits[cost as usize].saturating_sub(spent)
    }

    /// Whether all balances are zero.
    pub fn is_empty(&self) -> bool {
        self.balances.is_empty()
    }

    /// Adds a cost to the balance of a site, and subtracts the contribution of the same response.
    pub fn charge(&mut self, cost: Cost, host: &str, spent: u64, paid: u64) {
        if spent > paid {
            self.add(cost, host, spent - paid);
        } else if paid > spent && !self.balances.is_empty() {
            let mut amounts = [0; KINDS];
            amounts[cost as usize] = paid - spent;
            self.pay(host, amounts);
        }
    }

    /// A page with new text pays for hosts and sitemaps.
    pub fn new_page(&mut self, host: &str) {
        if !self.balances.is_empty() {
            self.pay(host, [0, HOSTS_PER_PAGE, FILES_PER_PAGE, ENTRIES_PER_PAGE, SITEMAP_BYTES_PER_PAGE]);
        }
    }

    fn add(&mut self, cost: Cost, host: &str, amount: u64) {
        let site = site(host);
        if self.balances.len() >= MAX_SITES && !self.balances.contains_key(&site) {
            let limits = self.limits;
            self.balances.retain(|_, balance| balance.iter().zip(limits).any(|(owed, limit)| *owed > limit / 16));
            if self.balances.len() >= MAX_SITES {
                return;
            }
        }
        let balance = self.balances.entry(site).or_default();
        balance[cost as usize] = balance[cost as usize].saturating_add(amount);
    }

    /// Subtracts amounts from the balances of a site.
    fn pay(&mut self, host: &str, amounts: [u64; KINDS]) {
        let hashbrown::hash_map::Entry::Occupied(mut entry) = self.balances.entry(site(host)) else { return };
        let balance = entry.get_mut();
        balance.iter_mut().zip(amounts).for_each(|(owed, paid)| *owed = owed.saturating_sub(paid));
        if balance.iter().all(|owed| *owed == 0) {
            entry.remove();
        }
    }
}

/// The bytes of the log that a response pays for.
pub(super) fn log_paid(bytes: u64, is_answered: bool) -> u64 {
    bytes.saturating_mul(LOG_PER_BYTE).saturating_add(if is_answered { LOG_PER_PAGE } else { 0 })
}

/// The bytes of a link in the log.
pub(super) fn of_link(url: &str) -> u64 {
    url.len() as u64 + LINK_RECORD
}

/// The charge for an entry of a sitemap.
pub(super) fn of_entry(url: &str) -> u64 {
    of_link(url).saturating_sub(FREE_ENTRY)
}

/// The key of a host's site: the hash of its domain.
fn site(host: &str) -> u64 {
    xxh3_64(domain_key(host).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_site_delivers_pays_for_what_it_costs() {
        let mut costs = SiteCosts::new(4_096);
        assert_eq!(costs.left(Cost::Log, "a.example.com"), 16 << 20);
        costs.charge(Cost::Log, "a.example.com", 10 << 20, 0);
        assert_eq!(costs.left(Cost::Log, "b.example.com"), 6 << 20, "hosts of a domain share an account");
        assert_eq!(costs.left(Cost::Log, "example.org"), 16 << 20);
        costs.charge(Cost::Log, "a.example.com", 0, log_paid(1 << 20, true));
        assert_eq!(costs.left(Cost::Log, "a.example.com"), (10 << 20) + (16 << 10));
        costs.charge(Cost::Log, "a.example.com", 0, log_paid(100 << 20, true));
        assert!(costs.is_empty(), "a site with zero balances takes no memory");
    }

    #[test]
    fn very_many_sites_take_bounded_memory_and_those_that_owe_much_stay() {
        let mut costs = SiteCosts::new(4_096);
        costs.charge(Cost::Hosts, "much.example", 1_000, 0);
        for number in 0..2 * MAX_SITES {
            costs.charge(Cost::Hosts, &format!("h{number}.example"), 1, 0);
        }
        assert!(costs.balances.len() <= MAX_SITES, "{}", costs.balances.len());
        assert_eq!(costs.left(Cost::Hosts, "much.example"), 24);
        costs.new_page("much.example");
        assert_eq!(costs.left(Cost::Hosts, "much.example"), 40);
    }
}
