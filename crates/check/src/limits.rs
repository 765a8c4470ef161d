//! The budgets of a check: what one page may cause, and what one external host and the whole check are asked for.

use std::collections::{HashMap, HashSet};

use argiope_core::Url;
use argiope_core::base::url::registrable_domain;
use argiope_core::page::page_budget::{PageBudget, VISIT};
use xxhash_rust::xxh3::xxh3_64;

use crate::options::CheckLimits;

/// Memory of a target beside the bytes of its URL, which is stored twice.
const TARGET_BYTES: u64 = 160;
/// How many times the URLs of one host all hosts of a domain may have: anyone can give a domain any number of names.
const DOMAIN_FACTOR: usize = 4;
/// Maximum number of hosts that are named in the notes about limits.
const MAX_NAMED: usize = 10;

/// What one page may cause: the work on its references, and the URLs that are requested because of them.
#[derive(Debug)]
pub(crate) struct ReferenceBudget {
    work: PageBudget,
    urls_left: usize,
    /// The hashes of the URLs of this page that are requested.
    urls: HashSet<u64>,
}

impl ReferenceBudget {
    /// The budget of a page with this many bytes.
    pub fn new(page_bytes: usize, limits: &CheckLimits) -> Self {
        Self { work: PageBudget::for_page(page_bytes), urls_left: limits.page_urls, urls: HashSet::new() }
    }

    /// The budget of a list that the user gives: it may have any number of URLs.
    pub fn of_list(bytes: usize, limits: &CheckLimits) -> Self {
        Self { urls_left: usize::MAX, ..Self::new(bytes, limits) }
    }

    /// Charges a reference before it is resolved. A long base URL makes every short reference long, so the caller passes the
    /// length of the URL before it, which has the same base. Returns whether the reference may be resolved.
    pub fn may_resolve(&self, href: &str, last_url: &str) -> bool {
        self.work.spend(VISIT + href.len() + last_url.len())
    }

    /// Whether this URL may be requested. A URL that the page references twice is charged once.
    pub fn may_request(&mut self, url: &str) -> bool {
        let hash = xxh3_64(url.as_bytes());
        if self.urls.contains(&hash) {
            return true;
        }
        let left = self.urls_left.checked_sub(1);
        self.urls_left = left.unwrap_or(0);
        left.is_some() && self.urls.insert(hash)
    }
}

/// The memory of the distinct targets that wait for their verdict.
#[derive(Debug)]
pub(crate) struct TargetMemory(u64);

impl TargetMemory {
    pub fn new(limits: &CheckLimits) -> Self {
        Self(limits.memory)
    }

    /// Charges a new target. Returns whether there is room for it.
    pub fn charge(&mut self, target_bytes: usize) -> bool {
        let left = self.0.checked_sub(2 * target_bytes as u64 + TARGET_BYTES);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// How many distinct external URLs of each host, of each domain and of all, a check requests. Targets of redirects count too.
#[derive(Debug)]
pub(crate) struct RequestLimits {
    limits: CheckLimits,
    /// Whether a URL may be requested, by its hash. Holds every external URL that was counted.
    counted: HashMap<u64, bool>,
    hosts: HashMap<String, HostCount>,
    /// By registrable domain, written as `*.DOMAIN`. A host without one, such as an address, is not listed.
    domains: HashMap<String, HostCount>,
    run: HostCount,
}

impl RequestLimits {
    pub fn new(limits: CheckLimits) -> Self {
        let (hosts, domains) = (HashMap::new(), HashMap::new());
        Self { limits, counted: HashMap::new(), hosts, domains, run: HostCount::default() }
    }

    /// Whether this URL may be requested. A URL is counted once.
    pub fn may_request(&mut self, url: &str) -> bool {
        let hash = xxh3_64(url.as_bytes());
        if let Some(known) = self.counted.get(&hash) {
            return *known;
        }
        let has_room = self.run.requested < self.limits.external_urls;
        let host = host_of(url);
        let host_urls = self.limits.host_urls;
        let is_within = has_room && self.domain_has_room(&host) && self.count_of(host).add(host_urls);
        self.run.requested += usize::from(is_within);
        self.run.left_out += usize::from(!has_room);
        self.counted.insert(hash, is_within);
        is_within
    }

    fn count_of(&mut self, host: String) -> &mut HostCount {
        self.hosts.entry(host).or_default()
    }

    /// Counts a URL for the domain of its host, if the host itself has room. Returns whether it is within the limit.
    fn domain_has_room(&mut self, host: &str) -> bool {
        let is_full = self.hosts.get(host).is_some_and(|count| count.requested >= self.limits.host_urls);
        match registrable_domain(host) {
            Some(domain) if !is_full => {
                let limit = self.limits.host_urls.saturating_mul(DOMAIN_FACTOR);
                self.domains.entry(format!("*.{domain}")).or_default().add(limit)
            }
            _ => true,
        }
    }

    /// Counts a URL that was requested because another one redirects to it.
    pub fn count(&mut self, url: &str) {
        if self.counted.insert(xxh3_64(url.as_bytes()), true).is_none() {
            let host = host_of(url);
            if let Some(domain) = registrable_domain(&host) {
                self.domains.entry(format!("*.{domain}")).or_default().requested += 1;
            }
            self.count_of(host).requested += 1;
            self.run.requested += 1;
        }
    }

    /// What the user reads about URLs over the limits.
    pub fn notes(mut self) -> Vec<String> {
        self.hosts.extend(self.domains);
        notes(self.hosts, &self.run, &self.limits)
    }
}

fn host_of(url: &str) -> String {
    Url::parse(url).map(|url| url.host().to_owned()).unwrap_or_default()
}

/// The URLs of one host, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct HostCount {
    requested: usize,
    left_out: usize,
}

impl HostCount {
    /// Counts a URL. Returns whether it is within the limit.
    fn add(&mut self, limit: usize) -> bool {
        let is_within = self.requested < limit;
        if is_within {
            self.requested += 1
        } else {
            self.left_out += 1
        }
        is_within
    }
}

/// One line for each of the hosts that have the most URLs over the limit, and one for the limit of the run.
fn notes(hosts: HashMap<String, HostCount>, run: &HostCount, limits: &CheckLimits) -> Vec<String> {
    let mut over: Vec<(usize, String)> = hosts.into_iter().map(|(host, count)| (count.left_out, host)).collect();
    over.retain(|(left_out, _)| *left_out > 0);
    over.sort_unstable_by(|a, b| b.cmp(a));
    let limit = format!("at most {} of one host are", limits.host_urls);
    let more = over.len().saturating_sub(MAX_NAMED);
    let named = over.iter().take(MAX_NAMED);
    let mut lines: Vec<String> =
        named.map(|(left_out, host)| format!("{host}: {left_out} of its URLs were not requested ({limit})")).collect();
    if more > 0 {
        lines.push(format!("{more} more hosts have URLs that were not requested ({limit})"));
    }
    if run.left_out > 0 {
        let (left_out, limit) = (run.left_out, limits.external_urls);
        lines.push(format!("{left_out} external URLs were not requested (at most {limit} are)"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_fragment::{MAX_DIRECTIVES, MAX_FRAGMENT_TEXT, MAX_SEARCHED};

    fn limits() -> CheckLimits {
        CheckLimits { page_urls: 2, host_urls: 2, external_urls: 4, memory: 1000 }
    }

    #[test]
    fn the_urls_of_a_host_and_of_the_run_are_limited_and_a_url_counts_once() {
        let mut requests = RequestLimits::new(limits());
        let mut may = |url: &str| requests.may_request(&format!("https://{url}"));
        assert_eq!(["a/0", "a/0", "a/1", "a/2", "a/1"].map(&mut may), [true, true, true, false, true]);
        assert_eq!(["b/0", "c/0", "c/1", "d/0"].map(&mut may), [true, true, false, false]);
        assert_eq!(
            requests.notes(),
            [
                "a: 1 of its URLs were not requested (at most 2 of one host are)",
                "2 external URLs were not requested (at most 4 are)",
            ]
        );
    }

    #[test]
    fn the_hosts_of_a_domain_share_a_limit() {
        let mut requests = RequestLimits::new(CheckLimits { external_urls: 100, ..limits() });
        let within = |requests: &mut RequestLimits, domain: &str| {
            (0..20).filter(|n| requests.may_request(&format!("https://h{n}.{domain}/"))).count()
        };
        assert_eq!(within(&mut requests, "victim.example"), 8);
        assert_eq!(within(&mut requests, "github.io"), 20, "the hosts of different owners are domains of their own");
        let full = (0..20).filter(|n| requests.may_request(&format!("https://one.other.example/{n}"))).count();
        assert_eq!(
            (full, within(&mut requests, "other.example")),
            (2, 6),
            "URLs over the limit of a host do not count"
        );
        let notes = requests.notes();
        assert!(
            notes.contains(&"*.victim.example: 12 of its URLs were not requested (at most 2 of one host are)".into())
        );
    }

    #[test]
    fn the_targets_of_redirects_count_for_their_host() {
        let mut requests = RequestLimits::new(limits());
        for url in ["https://v/1", "https://v/1", "https://v/2"] {
            requests.count(url);
        }
        assert!(requests.may_request("https://v/1") && !requests.may_request("https://v/3"));
        assert!(requests.may_request("https://w/1"));
    }

    #[test]
    fn the_documented_limits_are_those_of_the_code() {
        let page = include_str!("../../../docs/limits.md");
        let (_, section) = page.split_once("\n## A check of links\n").expect("the section");
        let limits = CheckLimits::default();
        let count = |count: usize| format!("{},{:03}", count / 1000, count % 1000);
        for (name, value) in [
            ("distinct URLs of one page that are requested", count(limits.page_urls)),
            ("distinct URLs of one external host", count(limits.host_urls)),
            ("distinct external URLs of a run", count(limits.external_urls)),
            ("text that is searched for text fragments", format!("{} MiB for each page", MAX_SEARCHED >> 20)),
            ("a text fragment", format!("{MAX_FRAGMENT_TEXT} bytes, {MAX_DIRECTIVES} directives")),
        ] {
            assert!(section.contains(&format!("| {name} | {value} |")), "{name}: {value}");
        }
    }

    #[test]
    fn a_page_has_a_budget_of_urls_and_of_bytes() {
        let mut budget = ReferenceBudget::new(10, &limits());
        assert_eq!(["a", "b", "a", "c", "b"].map(|url| budget.may_request(url)), [true, true, true, false, true]);
        let long = "x".repeat(1 << 20);
        let resolved = (0..1000).take_while(|_| budget.may_resolve("a", &long)).count();
        assert!((2..100).contains(&resolved), "{resolved}");
        let mut memory = TargetMemory::new(&limits());
        assert_eq!([100, 1000, 100].map(|bytes| memory.charge(bytes)), [true, false, true]);
    }
}
