//! Limits on the costs of a site: bytes in the log, new hosts, and sitemaps.
//!
//! A few bytes on the wire can cause high costs: a compressed page of long links, a page with links to thousands of
//! hosts, an index of indexes of sitemaps. So each site (registrable domain) has a balance per kind of cost. Costs are
//! added to it. Credits are subtracted: for received bytes, for responses, for pages with new text. The balance must
//! stay within a limit that ordinary sites do not come near.
//!
//! Invariant: a balance is never negative, and a site whose balances are all zero takes no memory.

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::TrapRule;
use crate::page::scope::domain_key;

/// Limit on sites with balances. Beyond it, sites with low balances are dropped.
const MAX_SITES: usize = 1 << 16;
/// A balance is low up to its limit divided by this.
const LOW_BALANCE_DIVISOR: u64 = 16;
/// The credit for a received byte, in bytes of the log.
const LOG_PER_BYTE: u64 = 4;
/// The credit for a response, in bytes of the log.
const LOG_PER_PAGE: u64 = 16 << 10;
/// Bytes of a queued link in the log besides its URL.
const LINK_OVERHEAD: u64 = 24;
/// An entry of a sitemap is free up to this length: sitemaps compress well, and ordinary ones have many entries.
const FREE_ENTRY: u64 = 128;
/// The credit for a page with new text, in new hosts, sitemap files and sitemap entries.
const HOSTS_PER_PAGE: u64 = 16;
const FILES_PER_PAGE: u64 = 16;
const ENTRIES_PER_PAGE: u64 = 1_024;
/// The credit for an entry of a sitemap, in bytes of the sitemap.
pub(super) const BYTES_PER_ENTRY: u64 = 256;
/// The credit for a page with new text, in bytes of sitemaps.
const SITEMAP_BYTES_PER_PAGE: u64 = 64 << 10;

/// A kind of cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Cost {
    /// Bytes in the log.
    Log,
    /// New hosts of other sites.
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

/// The balances of all sites.
#[derive(Debug)]
pub(super) struct SiteCosts {
    /// The limits of a site, indexed by [`Cost`].
    limits: [u64; KINDS],
    /// The balances by the hash of the site's domain. The array is indexed by [`Cost`].
    balances: HashMap<u64, [u64; KINDS]>,
}

impl SiteCosts {
    /// Limits for a `--trap-budget`.
    pub fn new(budget: u32) -> Self {
        let budget = u64::from(budget);
        let mut limits = [0; KINDS];
        limits[Cost::Log as usize] = budget.saturating_mul(4 << 10);
        limits[Cost::Hosts as usize] = (budget / 4).max(1);
        limits[Cost::SitemapFiles as usize] = (budget / 4).max(1);
        limits[Cost::SitemapEntries as usize] = budget.saturating_mul(256);
        limits[Cost::SitemapBytes as usize] = budget.saturating_mul(16 << 10);
        Self { limits, balances: HashMap::new() }
    }

    /// The unused part of a site's limit.
    pub fn left(&self, cost: Cost, host: &str) -> u64 {
        if self.balances.is_empty() {
            return self.limits[cost as usize];
        }
        let balance = self.balances.get(&site_key(host)).map_or(0, |balances| balances[cost as usize]);
        self.limits[cost as usize].saturating_sub(balance)
    }

    /// Whether all balances are zero.
    pub fn is_empty(&self) -> bool {
        self.balances.is_empty()
    }

    /// Adds a cost to the balance of a site, and subtracts the credit for the same response.
    pub fn charge(&mut self, cost: Cost, host: &str, amount: u64, credit: u64) {
        if amount > credit {
            self.add(cost, host, amount - credit);
        } else if credit > amount && !self.balances.is_empty() {
            let mut credits = [0; KINDS];
            credits[cost as usize] = credit - amount;
            self.subtract(host, credits);
        }
    }

    /// Subtracts the credits for a page with new text.
    pub fn credit_new_page(&mut self, host: &str) {
        if !self.balances.is_empty() {
            // In the order of `Cost`. The response itself gives credit for the log: see `log_credit`.
            self.subtract(host, [0, HOSTS_PER_PAGE, FILES_PER_PAGE, ENTRIES_PER_PAGE, SITEMAP_BYTES_PER_PAGE]);
        }
    }

    fn add(&mut self, cost: Cost, host: &str, amount: u64) {
        let key = site_key(host);
        if self.balances.len() >= MAX_SITES && !self.balances.contains_key(&key) {
            let limits = self.limits;
            let is_high = |(balance, limit): (&u64, u64)| *balance > limit / LOW_BALANCE_DIVISOR;
            self.balances.retain(|_, balances| balances.iter().zip(limits).any(is_high));
            if self.balances.len() >= MAX_SITES {
                return;
            }
        }
        let balances = self.balances.entry(key).or_default();
        balances[cost as usize] = balances[cost as usize].saturating_add(amount);
    }

    /// Subtracts credits from the balances of a site.
    fn subtract(&mut self, host: &str, credits: [u64; KINDS]) {
        let hashbrown::hash_map::Entry::Occupied(mut entry) = self.balances.entry(site_key(host)) else { return };
        let balances = entry.get_mut();
        balances.iter_mut().zip(credits).for_each(|(balance, credit)| *balance = balance.saturating_sub(credit));
        if balances.iter().all(|balance| *balance == 0) {
            entry.remove();
        }
    }
}

/// The credit for a response of this many bytes, in bytes of the log.
pub(super) fn log_credit(bytes: u64, has_response: bool) -> u64 {
    bytes.saturating_mul(LOG_PER_BYTE).saturating_add(if has_response { LOG_PER_PAGE } else { 0 })
}

/// The bytes of a link in the log.
pub(super) fn of_link(url: &str) -> u64 {
    url.len() as u64 + LINK_OVERHEAD
}

/// The charge for an entry of a sitemap.
pub(super) fn of_entry(url: &str) -> u64 {
    of_link(url).saturating_sub(FREE_ENTRY)
}

/// The key of a host's site: the hash of its domain.
fn site_key(host: &str) -> u64 {
    xxh3_64(domain_key(host).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_of_a_site_reduce_its_balance() {
        let mut costs = SiteCosts::new(4_096);
        assert_eq!(costs.left(Cost::Log, "a.example.com"), 16 << 20);
        costs.charge(Cost::Log, "a.example.com", 10 << 20, 0);
        assert_eq!(costs.left(Cost::Log, "b.example.com"), 6 << 20, "hosts of a domain share a balance");
        assert_eq!(costs.left(Cost::Log, "example.org"), 16 << 20);
        costs.charge(Cost::Log, "a.example.com", 0, log_credit(1 << 20, true));
        assert_eq!(costs.left(Cost::Log, "a.example.com"), (10 << 20) + (16 << 10));
        costs.charge(Cost::Log, "a.example.com", 0, log_credit(100 << 20, true));
        assert!(costs.is_empty(), "a site with zero balances takes no memory");
    }

    #[test]
    fn memory_is_bounded_and_sites_with_high_balances_are_kept() {
        let mut costs = SiteCosts::new(4_096);
        costs.charge(Cost::Hosts, "much.example", 1_000, 0);
        for number in 0..2 * MAX_SITES {
            costs.charge(Cost::Hosts, &format!("h{number}.example"), 1, 0);
        }
        assert!(costs.balances.len() <= MAX_SITES, "{}", costs.balances.len());
        assert_eq!(costs.left(Cost::Hosts, "much.example"), 24);
        costs.credit_new_page("much.example");
        assert_eq!(costs.left(Cost::Hosts, "much.example"), 40);
    }
}
