//! [`CrawlTally`]: the keeper's counters, from which a [`Status`] is made.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use argiope_core::base::job::LaneId;
use argiope_core::base::outcome::{ErrorKind, Outcome};
use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::frontier::{Frontier, History};
use argiope_core::crawl::schedule::keeper::Keeper;
use argiope_core::crawl::schedule::lane::Lane;
use argiope_core::crawl::schedule::workbench::Workbench;
use argiope_core::crawl::status::{
    CrawlState, CurrentFetch, HostStatus, HostWait, MemoryPart, OutcomeCounts, RecentError, Status, WaitReason,
};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Time, Url};

/// The time window over which rates are computed.
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// The maximum number of busiest hosts in a status.
const MAX_BUSIEST: usize = 50;
/// The maximum number of slowest hosts in a status.
const MAX_SLOWEST: usize = 5;
/// The maximum number of errors in a status.
const MAX_ERRORS: usize = 50;
/// The maximum number of requests in flight in a status.
const MAX_CURRENT: usize = 10;

/// The counters of the keeper.
#[derive(Clone, Debug, Default)]
pub struct CrawlTally {
    pub outcomes: OutcomeCounts,
    pages: u64,
    /// Responses with status 1xx, 2xx, 3xx, 4xx and 5xx.
    pub status_classes: [u64; 5],
    pub error_kinds: BTreeMap<ErrorKind, u64>,
    /// Bytes received, robots.txt and sitemaps included.
    pub bytes: u64,
    /// The latest errors, the newest first.
    errors: VecDeque<RecentError>,
    /// Time, pages and bytes at the last calls of `rates`, the oldest first.
    samples: VecDeque<(Time, u64, u64)>,
}

impl CrawlTally {
    /// Counts a settled visit.
    pub fn count(&mut self, visit: &Visit) {
        self.bytes += visit.facts.bytes_wire;
        if !visit.is_page() {
            return;
        }
        self.outcomes.add(visit.facts.outcome);
        self.pages += u64::from(visit.is_fetched_page());
        if let Some(status) = visit.facts.status {
            let class = usize::from(status / 100).clamp(1, 5) - 1;
            if let Some(count) = self.status_classes.get_mut(class) {
                *count += 1;
            }
        }
        if let Some(error) = &visit.facts.error {
            *self.error_kinds.entry(error.kind).or_default() += 1;
        }
        if visit.facts.error.is_some() || matches!(visit.facts.outcome, Outcome::HttpError | Outcome::Failed) {
            self.errors.truncate(MAX_ERRORS - 1);
            self.errors.push_front(RecentError {
                url: visit.link.url.as_str().into(),
                outcome: visit.facts.outcome,
                status: visit.facts.status,
                kind: visit.facts.error.as_ref().map(|error| error.kind),
                at: visit.facts.ended - Time::ZERO,
            });
        }
    }

    /// The number of pages whose host was contacted, as `--max-pages` and the report count them.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages and bytes per second since the oldest sample, which is about [`RATE_WINDOW`] old. Adds a sample.
    fn rates(&mut self, now: Time) -> (f64, f64) {
        if self.samples.is_empty() {
            self.samples.push_back((Time::ZERO, 0, 0));
        }
        let (pages, bytes) = (self.pages, self.bytes);
        self.samples.push_back((now, pages, bytes));
        while self.samples.len() > 2 && self.samples.front().is_some_and(|(at, ..)| now - *at > RATE_WINDOW) {
            self.samples.pop_front();
        }
        let Some((at, old_pages, old_bytes)) = self.samples.front().copied() else {
            return (0.0, 0.0);
        };
        let span = (now - at).as_secs_f64();
        if span <= 0.0 {
            return (0.0, 0.0);
        }
        ((pages - old_pages) as f64 / span, (bytes - old_bytes) as f64 / span)
    }
}

/// The state of the crawl, without memory and disk use. The caller measures these ([`measure`]), because that is too
/// slow for the keeper.
pub fn compute<F: Frontier + History>(keeper: &Keeper<F>, tally: &mut CrawlTally, rules: &Rules, now: Time) -> Status {
    let (pages_per_second, bytes_per_second) = tally.rates(now);
    let bench = keeper.bench();
    let mut busiest = Vec::new();
    let mut slowest = Vec::new();
    for (id, lane) in bench.lanes() {
        let (in_flight, queued) = (lane.in_flight(), lane.left());
        if in_flight == 0 && queued == 0 {
            continue;
        }
        // Ordered by requests in flight, then by queued links.
        keep_top(&mut busiest, MAX_BUSIEST, ((in_flight, queued), id));
        if let Some(mean_ttfb) = lane.pace.mean_ttfb().filter(|_| in_flight > 0) {
            keep_top(&mut slowest, MAX_SLOWEST, (mean_ttfb, id));
        }
    }
    let host = |id| host_status(bench, id, now);
    let current = longest_fetches(busiest.iter().filter_map(|(_, id)| bench.lane(*id)), now);
    let busiest: Vec<HostStatus> = busiest.into_iter().filter_map(|(_, id)| host(id)).collect();
    Status {
        pages: tally.pages,
        state: match (bench.is_draining(), bench.is_paused()) {
            (true, _) => CrawlState::Draining,
            (false, true) => CrawlState::Paused,
            (false, false) => CrawlState::Running,
        },
        elapsed: now - Time::ZERO,
        outcomes: tally.outcomes,
        status_classes: tally.status_classes,
        error_kinds: tally.error_kinds.clone(),
        in_flight: bench.in_flight(),
        queued: keeper.unfinished().saturating_sub(bench.in_flight() as u64),
        bytes: tally.bytes,
        pages_per_second,
        bytes_per_second,
        hosts: keeper.hosts(),
        waiting: waiting(keeper, busiest.first(), now),
        busiest,
        slowest: slowest.into_iter().filter_map(|(_, id)| host(id)).collect(),
        max_pages: keeper.max_pages(),
        max_time: rules.max_time,
        pace: bench.pace(),
        rate: bench.rate(),
        // The patterns that were excluded while the crawl was running.
        excludes: keeper.steering().excludes.iter().map(|pattern| pattern.as_str().into()).collect(),
        memory_bytes: 0,
        max_memory: rules.max_memory,
        memory_parts: memory_parts(rules),
        disk_bytes: 0,
        errors: tally.errors.iter().cloned().collect(),
        current,
        fleet: None,
    }
}

/// The state of the host with this name, if its lane is being worked on.
pub fn host_named<F: Frontier + History>(keeper: &Keeper<F>, name: &str, now: Time) -> Option<HostStatus> {
    let bench = keeper.bench();
    let (id, _) = bench.lanes().find(|(_, lane)| &*lane.name == name)?;
    host_status(bench, id, now)
}

/// The state of a lane's host.
fn host_status(bench: &Workbench, id: LaneId, now: Time) -> Option<HostStatus> {
    let lane = bench.lane(id)?;
    let wait = bench.wait_of(id, now);
    Some(HostStatus {
        host: lane.name.as_ref().into(),
        in_flight: lane.in_flight(),
        width: lane.pace.width(),
        width_reason: lane.pace.width_reason(),
        rate_cap: lane.pace.rate_cap().map(f64::from),
        spacing: lane.pace.expected_spacing(),
        queued: lane.left(),
        mean_ttfb: lane.pace.mean_ttfb(),
        reason: wait.map(|(reason, _)| reason),
        next_in: wait.map(|(_, next_in)| next_in).unwrap_or_default(),
    })
}

/// The requests of these lanes that have been in flight longest.
fn longest_fetches<'a>(lanes: impl Iterator<Item = &'a Lane>, now: Time) -> Vec<CurrentFetch> {
    let mut oldest: Vec<(Time, &Url)> = Vec::with_capacity(MAX_CURRENT + 1);
    for (url, started) in lanes.flat_map(Lane::flights) {
        if oldest.len() >= MAX_CURRENT && oldest.last().is_some_and(|(last, _)| *last <= started) {
            continue;
        }
        let index = oldest.partition_point(|(other, _)| *other <= started);
        oldest.insert(index, (started, url));
        oldest.truncate(MAX_CURRENT);
    }
    oldest.iter().map(|(started, url)| CurrentFetch { url: url.as_str().into(), elapsed: now - *started }).collect()
}

/// The parts of the memory budget that are in use, in bytes.
fn memory_parts(rules: &Rules) -> BTreeMap<MemoryPart, u64> {
    let parts = MemoryPart::ALL.into_iter().map(|part| (part, rules.budget.part(part)));
    parts.filter(|(_, bytes)| *bytes > 0).collect()
}

/// Measures memory of the process and disk use of the crawl directory.
pub fn measure(status: &mut Status, directory: Option<&Path>) {
    status.memory_bytes = resident_memory();
    status.disk_bytes = directory.map_or(0, argiope_store::disk::folder_size);
}

/// Inserts an entry into a list of the `max_len` largest entries, the largest first.
fn keep_top<T: Ord + Copy>(top: &mut Vec<T>, max_len: usize, entry: T) {
    if top.len() >= max_len && top.last().is_some_and(|last| *last >= entry) {
        return;
    }
    let index = top.partition_point(|other| *other > entry);
    top.insert(index, entry);
    top.truncate(max_len);
}

/// The host that the crawl waits for, and why.
fn waiting<F: Frontier + History>(keeper: &Keeper<F>, busiest: Option<&HostStatus>, now: Time) -> Option<HostWait> {
    if keeper.bench().is_paused() {
        return None;
    }
    if let Some(first) = keeper.bench().first_wait(now) {
        return Some(first);
    }
    let host = busiest.filter(|host| host.in_flight > 0)?;
    Some(HostWait { host: host.host.clone(), reason: WaitReason::Responses, next_in: Duration::ZERO })
}

/// Resident memory of this process; zero if the system does not report it.
fn resident_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")).and_then(|number| number.trim().parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use argiope_core::base::link::Link;
    use argiope_core::{FailedPart, Failure};

    use super::*;

    #[test]
    fn urls_that_were_not_requested_do_not_count_as_pages() {
        let visit = |outcome, tries| {
            let mut link = Link::root(Url::parse("http://h/").expect("a URL"), 1);
            link.tries = tries;
            let mut error = Failure::new(ErrorKind::Reset, "the host was given up on");
            error.part = FailedPart::Host;
            Visit::not_fetched(link, outcome, (outcome == Outcome::Failed).then_some(error), Time::ZERO)
        };
        let mut tally = CrawlTally::default();
        // One URL of each outcome, without a request. Two of the outcomes are errors.
        Outcome::ALL.iter().for_each(|outcome| tally.count(&visit(*outcome, 0)));
        assert_eq!((tally.outcomes.total(), tally.pages), (7, 0));
        assert_eq!(tally.errors.len(), 2);
        // The host stopped responding after the first request for this URL.
        tally.count(&visit(Outcome::Failed, 1));
        assert_eq!((tally.outcomes.total(), tally.pages), (8, 1));
        tally.rates(Time::ZERO + Duration::from_secs(10));
        tally.rates(Time::ZERO + Duration::from_secs(20));
        tally.count(&visit(Outcome::Robots, 0));
        assert!(tally.rates(Time::ZERO + Duration::from_secs(21)).0 <= 0.0, "nothing was fetched");
    }

    #[test]
    fn only_the_latest_errors_are_kept() {
        let mut tally = CrawlTally::default();
        for number in 0..3 * MAX_ERRORS {
            let link = Link::root(Url::parse(&format!("http://h/{number}")).expect("a URL"), 1);
            tally.count(&Visit::not_fetched(link, Outcome::Failed, None, Time::ZERO));
        }
        assert_eq!(tally.errors.len(), MAX_ERRORS);
        assert_eq!(&*tally.errors[0].url, "http://h/149");
    }

    #[test]
    fn the_largest_entries_are_kept_in_order() {
        let mut top = Vec::new();
        [3, 9, 1, 7, 8, 2].into_iter().for_each(|number| keep_top(&mut top, 3, number));
        assert_eq!(top, [9, 8, 7]);
    }
}
