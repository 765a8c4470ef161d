//! The budgets of sitemaps: their number, their bytes and their entries.

use super::costs::{self, Cost};
use super::{TrapRule, Traps};
use crate::base::link::{Link, LinkKind};
use crate::base::url::UrlRef;
use crate::page::scope::domain_key;
use crate::page::sitemap::Sitemap;

impl Traps {
    /// Removes the links of a sitemap, or those to sitemaps, that the budgets of the site of `host` do not allow. They
    /// are counted as skipped.
    pub fn limit_sitemap(&mut self, host: &str, links: &mut Vec<Link>) {
        let Some(costs) = &self.costs else { return };
        let left = |cost| costs.left(cost, host);
        let (mut files, mut entries, mut log) = (left(Cost::SitemapFiles), left(Cost::SitemapEntries), left(Cost::Log));
        if left(Cost::SitemapBytes) == 0 {
            files = 0;
        }
        let site = domain_key(host);
        links.retain(|link| {
            let text = link.url.as_str();
            let (cost, left, amount) = match link.kind {
                LinkKind::SitemapFile => (Cost::SitemapFiles, &mut files, 1),
                // An amount that never fits.
                _ if costs::of_entry(text) > log => (Cost::Log, &mut log, u64::MAX),
                _ => (Cost::SitemapEntries, &mut entries, 1),
            };
            let fits = *left >= amount;
            if fits {
                *left -= amount;
                log = log.saturating_sub(costs::of_entry(text));
            } else {
                self.cuts.add(cost.rule(), site, 1, text);
            }
            fits
        });
    }

    /// Charges the links that a site's sitemap, or the list of its sitemaps, added to the frontier.
    pub fn charge_sitemap<'a>(&mut self, host: &str, new: impl Iterator<Item = &'a Link>) {
        let Some(costs) = &mut self.costs else { return };
        let (mut files, mut entries, mut log) = (0, 0, 0);
        for link in new {
            let is_file = link.kind == LinkKind::SitemapFile;
            files += u64::from(is_file);
            entries += u64::from(!is_file);
            log += costs::of_entry(link.url.as_str());
        }
        costs.charge(Cost::SitemapFiles, host, files, 0);
        costs.charge(Cost::SitemapEntries, host, entries, 0);
        costs.charge(Cost::Log, host, log, 0);
    }

    /// Charges the bytes of a sitemap, after decoding, to its site. Returns whether the site has now used up its budget
    /// for bytes of sitemaps.
    pub fn charge_sitemap_bytes(&mut self, host: &str, bytes: u64, sitemap: &Sitemap) -> bool {
        let Some(costs) = &mut self.costs else { return false };
        let credit = (sitemap.entries.len() as u64).saturating_mul(costs::BYTES_PER_ENTRY);
        costs.charge(Cost::SitemapBytes, host, bytes, credit);
        costs.left(Cost::SitemapBytes, host) == 0
    }

    /// Whether the site of a sitemap file has used up its budget for bytes of sitemaps.
    pub fn is_sitemap_spent(&self, host: &str) -> bool {
        self.costs.as_ref().is_some_and(|costs| !costs.is_empty() && costs.left(Cost::SitemapBytes, host) == 0)
    }

    /// Counts a queued sitemap file that is skipped because the budget of its site is spent.
    pub fn drop_sitemap(&mut self, url: UrlRef<'_>) -> TrapRule {
        self.cuts.add(TrapRule::SitemapBytes, domain_key(url.host()), 1, url.as_str());
        TrapRule::SitemapBytes
    }
}
