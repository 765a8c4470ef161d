//! The budgets of a check: what one page may cause, and what one external host and the whole check are asked for.

use std::collections::{HashMap, HashSet};

use argiope_core::Url;
use argiope_core::page::page_budget::{PageBudget, VISIT};
use xxhash_rust::xxh3::xxh3_64;

use crate::options::CheckLimits;
use crate::remote::RemoteTarget;

/// Memory of a target beside the bytes of its URL, which is stored twice.
const TARGET_BYTES: u64 = 160;
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

/// The external targets that are requested, and those for which there is no budget.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub targets: Vec<RemoteTarget>,
    pub left_out: HashSet<RemoteTarget>,
    pub notes: Vec<String>,
}

/// Selects from sorted targets those within the limits. `is_external`: the limits apply to this URL.
pub(crate) fn select(
    targets: Vec<RemoteTarget>,
    limits: &CheckLimits,
    is_external: impl Fn(&str) -> bool,
) -> Selection {
    let mut selection = Selection::default();
    let mut hosts: HashMap<String, HostCount> = HashMap::new();
    let mut run = HostCount::default();
    // The last URL, and whether it is requested: the fragments of a URL follow each other.
    let mut last: Option<(String, bool)> = None;
    for target in targets {
        let is_selected = match &last {
            Some((url, is_selected)) if *url == target.url => *is_selected,
            _ if !is_external(&target.url) => true,
            _ => {
                let host = Url::parse(&target.url).map(|url| url.host().to_owned()).unwrap_or_default();
                let has_room = run.requested < limits.external_urls;
                let host = hosts.entry(host).or_default();
                let is_selected = has_room && host.add(limits.host_urls);
                if has_room {
                    run.requested += usize::from(is_selected)
                } else {
                    run.left_out += 1
                }
                is_selected
            }
        };
        if last.as_ref().is_none_or(|(url, _)| *url != target.url) {
            last = Some((target.url.clone(), is_selected));
        }
        match is_selected {
            true => selection.targets.push(target),
            false => {
                selection.left_out.insert(target);
            }
        }
    }
    selection.notes = notes(hosts, &run, limits);
    selection
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
    let flag = format!("--max-external-per-host {}", limits.host_urls);
    let more = over.len().saturating_sub(MAX_NAMED);
    let named = over.iter().take(MAX_NAMED);
    let mut lines: Vec<String> =
        named.map(|(left_out, host)| format!("{host}: {left_out} of its URLs were not requested ({flag})")).collect();
    if more > 0 {
        lines.push(format!("{more} more hosts have URLs that were not requested ({flag})"));
    }
    if run.left_out > 0 {
        let (left_out, limit) = (run.left_out, limits.external_urls);
        lines.push(format!("{left_out} external URLs were not requested (--max-external {limit})"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> CheckLimits {
        CheckLimits { page_urls: 2, host_urls: 2, external_urls: 4, memory: 1000 }
    }

    fn target(url: &str, fragment: Option<&str>) -> RemoteTarget {
        RemoteTarget { url: url.to_owned(), fragment: fragment.map(str::to_owned) }
    }

    #[test]
    fn the_urls_of_a_host_and_of_the_run_are_limited_and_fragments_do_not_count() {
        let mut targets: Vec<RemoteTarget> = ["a", "b", "c", "d"]
            .iter()
            .flat_map(|host| (0..3).map(move |page| target(&format!("https://{host}.example/{page}"), None)))
            .collect();
        targets.push(target("https://a.example/0", Some("x")));
        targets.push(target("https://own.example/1", None));
        targets.sort_unstable();
        let selection = select(targets, &limits(), |url| !url.contains("own"));
        let urls: Vec<&str> = selection.targets.iter().map(|target| target.url.as_str()).collect();
        let first = ["https://a.example/0", "https://a.example/0", "https://a.example/1"];
        assert_eq!(
            urls,
            [&first[..], &["https://b.example/0", "https://b.example/1", "https://own.example/1"]].concat()
        );
        assert_eq!(selection.left_out.len(), 8);
        assert_eq!(
            selection.notes,
            [
                "a.example: 1 of its URLs were not requested (--max-external-per-host 2)",
                "7 external URLs were not requested (--max-external 4)",
            ]
        );
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
