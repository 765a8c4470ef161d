//! Charges to paths, patterns and hosts: for combinations of parameters, and for links on pages without new text.

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::cuts::path_of;
use super::{Judging, Novelty, TrapRule, Traps};
use crate::base::url::UrlRef;
use crate::crawl::visit::Visit;
use crate::page::url_shape::{self, pattern};

/// Limit on hosts with charges. Links to further hosts are not charged.
///
/// Also the limit on paths in each of the two generations of combinations of parameters.
pub(super) const MAX_TRACKED: usize = 4_096;
/// Limit on patterns per host with their own budgets. Links of other patterns are charged to the host only.
pub(super) const MAX_PATTERNS: usize = 64;
/// The budget of a host is this many times that of one of its patterns.
pub(super) const PATTERNS_PER_HOST: u32 = 16;
/// Number of charges that a page with new text refunds.
pub(super) const REFUND: u32 = 16;
/// Free combinations of parameter names per path, because one script may serve a whole site.
pub(super) const FREE_COMBINATIONS: usize = 16;

/// The budgets, all derived from `--trap-budget`. Each is a number of links, except `hosts`. The weaker a sign of a trap
/// is, the larger is its budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budgets {
    /// Per pattern: links on pages with the same text as another page.
    same: u32,
    /// Per pattern: links on distant pages with nearly the same text as another page.
    alike: u32,
    /// Per host: links with paths that repeat themselves.
    circular: u32,
    /// Per path: links with new combinations of parameters.
    variants: u32,
    /// Per host: links on pages that link almost only to unknown pages.
    pub unknown: u32,
    /// How many hosts a registrable domain without useful hosts may have: see [`super::Domains`].
    pub hosts: u32,
}

impl Budgets {
    pub fn new(budget: u32) -> Self {
        Self {
            same: budget,
            alike: budget.saturating_mul(4),
            circular: (budget / 256).max(1),
            variants: budget.saturating_mul(4),
            unknown: budget.saturating_mul(256),
            hosts: (budget / 64).max(1),
        }
    }
}

/// The charges of one host: in total, and by the hash of a pattern.
#[derive(Debug, Default)]
pub(super) struct HostCharges {
    all: Charges,
    /// Number of links with paths that repeat themselves. Nothing refunds them: a trap can give each page a new text.
    circular: u32,
    pub patterns: HashMap<u64, Charges>,
}

/// Numbers of charged links.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Charges {
    /// Links on pages with the same text as another page.
    same: u32,
    /// Links on pages with nearly the same text as another page.
    alike: u32,
}

impl Charges {
    fn of(&mut self, novelty: Novelty) -> &mut u32 {
        if novelty == Novelty::Same { &mut self.same } else { &mut self.alike }
    }
}

/// The combinations of parameters of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Variants {
    /// Hashes of the free combinations.
    combinations: Vec<u64>,
    /// Number of links with other combinations.
    charged: u32,
}

impl Traps {
    /// Refunds charges to the pattern and host of a page with new text.
    pub(super) fn refund(&mut self, judging: &Judging, visit: &Visit) {
        if judging.novelty == Novelty::Same || visit.for_keeper.likeness.is_none() {
            return;
        }
        if let (Some(domains), Some(lane)) = (&mut self.domains, judging.lane) {
            domains.count_useful_page(lane, visit.link.url.host());
        }
        let url = visit.link.url.as_ref();
        let Some(host) = self.charges.get_mut(&xxh3_64(url.host().as_bytes())) else { return };
        let of_pattern = host.patterns.get_mut(&xxh3_64(pattern(url).as_bytes()));
        for charges in of_pattern.into_iter().chain([&mut host.all]) {
            charges.same = charges.same.saturating_sub(REFUND);
            if judging.novelty == Novelty::New {
                charges.alike = charges.alike.saturating_sub(REFUND);
            }
        }
    }

    /// Charges a new combination of parameters to its path.
    pub(super) fn charge_combination(&mut self, url: UrlRef<'_>, query: &str, budgets: Budgets) -> Option<TrapRule> {
        let path = path_of(url);
        let key = xxh3_64(path.as_bytes());
        if self.variants.len() >= MAX_TRACKED && !self.variants.contains_key(&key) {
            self.older_variants = std::mem::take(&mut self.variants);
        }
        let older = &mut self.older_variants;
        let variants = self.variants.entry(key).or_insert_with(|| older.remove(&key).unwrap_or_default());
        let combination = url_shape::combination(query);
        if variants.combinations.contains(&combination) {
            return None;
        }
        if variants.combinations.len() < FREE_COMBINATIONS {
            variants.combinations.push(combination);
            return None;
        }
        if variants.charged >= budgets.variants {
            return self.skip_link(TrapRule::QueryVariants, &path, url);
        }
        variants.charged += 1;
        None
    }

    /// Charges a link with a path that repeats itself to its host. Such a link to a host without charges is skipped if
    /// no further host can have charges.
    pub(super) fn charge_circular(&mut self, url: UrlRef<'_>, budgets: Budgets) -> Option<TrapRule> {
        let key = xxh3_64(url.host().as_bytes());
        let has_room = self.charges.len() < MAX_TRACKED || self.charges.contains_key(&key);
        match has_room.then(|| self.charges.entry(key).or_default()) {
            Some(host) if host.circular < budgets.circular => {
                host.circular += 1;
                None
            }
            _ => self.skip_link(TrapRule::PathRepeats, url.host(), url),
        }
    }

    /// Charges a link on a page without new text to its pattern and its host.
    pub(super) fn charge_stale(&mut self, novelty: Novelty, url: UrlRef<'_>, budgets: Budgets) -> Option<TrapRule> {
        let pattern = pattern(url);
        let is_same = novelty == Novelty::Same;
        let pattern_budget = if is_same { budgets.same } else { budgets.alike };
        let rules = if is_same {
            [TrapRule::StalePattern, TrapRule::StaleHost]
        } else {
            [TrapRule::AlikePattern, TrapRule::AlikeHost]
        };
        let key = xxh3_64(url.host().as_bytes());
        if self.charges.len() >= MAX_TRACKED && !self.charges.contains_key(&key) {
            return None;
        }
        let HostCharges { all, patterns, .. } = self.charges.entry(key).or_default();
        let key = xxh3_64(pattern.as_bytes());
        let has_budget = patterns.len() < MAX_PATTERNS || patterns.contains_key(&key);
        let pattern_charges = has_budget.then(|| patterns.entry(key).or_default());
        let charged_to_host = all.of(novelty);
        let mut charged_to_pattern = pattern_charges.map(|charges| charges.of(novelty));
        if charged_to_pattern.as_ref().is_some_and(|charged| **charged >= pattern_budget) {
            return self.skip_link(rules[0], &pattern, url);
        }
        if *charged_to_host >= pattern_budget.saturating_mul(PATTERNS_PER_HOST) {
            return self.skip_link(rules[1], url.host(), url);
        }
        *charged_to_host += 1;
        if let Some(charged) = &mut charged_to_pattern {
            **charged += 1;
        }
        None
    }
}
