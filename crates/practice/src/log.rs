//! The request log: counters, and optionally an entry per request.
//!
//! Tests of politeness rely on what the server saw: how many requests a host had in flight, how soon one followed
//! another, whether a disallowed page was requested. Most counters are atomics, so that threads rarely wait for
//! each other. The map of host names, the set of pages and the list of [`SeenRequest`] entries are behind mutexes; the
//! list can be disabled for long runs.
//!
//! Invariant: `begin` and `end` are called exactly once per request, whatever happens to its connection.

use crate::pages::PageSet;
use crate::request::ReceivedRequest;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A condition that a test waits for may change without a new log entry, such as the state of a file. So it is checked at
/// least this often.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// One request as the server saw it. Times are relative to the start of the web.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenRequest {
    /// Number of the connection, in the order of acceptance.
    pub connection: u64,
    /// Position of the site in the web.
    pub site: usize,
    pub method: String,
    /// Host name as requested, without the port.
    pub host: String,
    /// Path and query.
    pub path: String,
    pub user_agent: String,
    /// All headers, with [`crate::PracticeWeb::keep_headers`]; empty otherwise.
    pub headers: Vec<(String, String)>,
    /// The body, with [`crate::PracticeWeb::keep_headers`]; empty otherwise.
    pub body: String,
    /// The status sent; 0 if there is none (raw bytes, hang, reset).
    pub status: u16,
    /// When the request was complete, with its body.
    pub start: Duration,
    /// When the script of the response ended, with the last byte or with a scripted close or reset; `None` before that,
    /// or if the connection broke.
    pub end: Option<Duration>,
}

/// Limits that a crawler must respect. A request that exceeds one is counted as a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolitenessLimits {
    /// Minimum time between the starts of two requests to the same host name.
    /// A tenth less is tolerated, because requests arrive with varying delays.
    pub min_gap: Option<Duration>,
    /// Maximum number of concurrent requests to the same host name.
    pub max_at_once: Option<u32>,
}

/// Counters of one host name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCount {
    pub requests: u64,
    /// Peak of concurrent requests.
    pub max_at_once: u32,
    /// Minimum time between the starts of two requests, in microseconds; `None` before the second request.
    pub min_gap_us: Option<u64>,
    pub violations: u64,
}

/// Counters of one site: all host names behind one listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteCount {
    pub requests: u64,
    /// Open connections.
    pub open: u64,
    /// Peak of open connections.
    pub peak_open: u64,
    /// Peak of concurrent requests.
    pub max_at_once: u64,
}

/// All counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub requests: u64,
    /// Requests whose response was sent as scripted.
    pub answered: u64,
    /// Number of distinct pages (host name, path and query) with status 200.
    pub pages: u64,
    /// A digest of the set of these pages.
    pub pages_digest: String,
    /// Accepted connections.
    pub connections: u64,
    /// Open connections.
    pub open: u64,
    pub peak_open: u64,
    /// Peak of concurrent requests over all hosts.
    pub max_at_once: u64,
    pub handshakes_full: u64,
    pub handshakes_resumed: u64,
    pub handshakes_failed: u64,
    pub bytes_sent: u64,
    pub violations: u64,
    /// Time from the first request to the last end of a response, in microseconds.
    pub span_us: u64,
    /// By host name as requested, without the port.
    pub hosts: BTreeMap<String, HostCount>,
    /// In the order the sites were added.
    pub sites: Vec<SiteCount>,
}

/// A gauge with its peak.
#[derive(Debug, Default)]
struct Gauge {
    current: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    fn increase(&self) {
        let current = self.current.fetch_add(1, SeqCst) + 1;
        self.peak.fetch_max(current, Relaxed);
    }

    fn decrease(&self) {
        self.current.fetch_sub(1, SeqCst);
    }
}

/// Live counters of one site.
#[derive(Debug, Default)]
struct SiteState {
    requests: AtomicU64,
    /// Open connections.
    open: Gauge,
    /// Requests in flight.
    at_once: Gauge,
}

/// Live counters of one host name. Times are in nanoseconds; [`u64::MAX`] means none.
#[derive(Debug)]
pub(crate) struct HostState {
    pub(crate) name: Box<str>,
    requests: AtomicU64,
    in_flight: AtomicU32,
    peak_in_flight: AtomicU32,
    last_start: AtomicU64,
    min_gap: AtomicU64,
    violations: AtomicU64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    /// The response was sent as scripted.
    Complete,
    /// The connection or the HTTP/2 stream ended before.
    Incomplete,
}

/// The index of a request in the list; `None` if the list is disabled.
pub(crate) type RequestIndex = Option<usize>;

/// All counters, shared by all threads of a web.
#[derive(Debug)]
pub(crate) struct RequestLog {
    /// The time of the web's start.
    started: Instant,
    keep_entries: bool,
    keep_headers: bool,
    politeness: PolitenessLimits,
    entries: Mutex<Vec<SeenRequest>>,
    hosts: Mutex<HashMap<Box<str>, Arc<HostState>>>,
    pages: Mutex<PageSet>,
    /// Number of threads in `wait`.
    waiters: AtomicUsize,
    wait_lock: Mutex<()>,
    /// Notified after every event, if a thread waits.
    changed: Condvar,
    requests: AtomicU64,
    /// Responses that were sent as scripted.
    answered: AtomicU64,
    /// Accepted connections.
    connections: AtomicU64,
    /// Requests in flight.
    at_once: Gauge,
    /// Open connections.
    open: Gauge,
    sites: Vec<SiteState>,
    pub(crate) handshakes_full: AtomicU64,
    pub(crate) handshakes_resumed: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    /// In nanoseconds since `started`.
    first_start: AtomicU64,
    last_end: AtomicU64,
}

/// Locks a mutex even if a thread panicked while holding it: the counters can still be read.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RequestLog {
    pub(crate) fn new(
        sites: usize,
        keep_entries: bool,
        keep_headers: bool,
        politeness: PolitenessLimits,
    ) -> RequestLog {
        let zero = || AtomicU64::new(0);
        RequestLog {
            started: Instant::now(),
            keep_entries,
            keep_headers,
            politeness,
            entries: Mutex::default(),
            hosts: Mutex::default(),
            pages: Mutex::default(),
            waiters: AtomicUsize::new(0),
            wait_lock: Mutex::default(),
            changed: Condvar::new(),
            requests: zero(),
            answered: zero(),
            connections: zero(),
            at_once: Gauge::default(),
            open: Gauge::default(),
            sites: std::iter::repeat_with(SiteState::default).take(sites).collect(),
            handshakes_full: zero(),
            handshakes_resumed: zero(),
            handshakes_failed: zero(),
            bytes_sent: zero(),
            first_start: AtomicU64::new(u64::MAX),
            last_end: zero(),
        }
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// The counters of this host name, created at its first request.
    pub(crate) fn host(&self, name: &str) -> Arc<HostState> {
        let mut hosts = locked(&self.hosts);
        if let Some(host) = hosts.get(name) {
            return Arc::clone(host);
        }
        let host = Arc::new(HostState {
            name: name.into(),
            requests: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            peak_in_flight: AtomicU32::new(0),
            last_start: AtomicU64::new(u64::MAX),
            min_gap: AtomicU64::new(u64::MAX),
            violations: AtomicU64::new(0),
        });
        hosts.insert(name.into(), Arc::clone(&host));
        host
    }

    /// Counts an accepted connection to this site, and returns its number.
    pub(crate) fn count_opened(&self, site: usize) -> u64 {
        self.open.increase();
        if let Some(site) = self.sites.get(site) {
            site.open.increase();
        }
        let id = self.connections.fetch_add(1, SeqCst);
        self.notify();
        id
    }

    /// Counts a closed connection to this site.
    pub(crate) fn count_closed(&self, site: usize) {
        self.open.decrease();
        if let Some(site) = self.sites.get(site) {
            site.open.decrease();
        }
        self.notify();
    }

    /// Records a complete request.
    pub(crate) fn begin(
        &self,
        host: &HostState,
        request: &ReceivedRequest<'_>,
        // The number of the connection, and the index of its site.
        (connection, site): (u64, usize),
        (status, is_violation): (u16, bool),
        now: Instant,
    ) -> RequestIndex {
        let start = now.saturating_duration_since(self.started);
        let nanos = start.as_nanos() as u64;
        self.first_start.fetch_min(nanos, Relaxed);
        host.requests.fetch_add(1, Relaxed);
        let in_flight = host.in_flight.fetch_add(1, Relaxed) + 1;
        host.peak_in_flight.fetch_max(in_flight, Relaxed);
        let previous = host.last_start.swap(nanos, Relaxed);
        let mut violations = u64::from(is_violation);
        if previous != u64::MAX {
            let gap = nanos.saturating_sub(previous);
            host.min_gap.fetch_min(gap, Relaxed);
            violations +=
                u64::from(self.politeness.min_gap.is_some_and(|min| u128::from(gap) < min.as_nanos() * 9 / 10));
        }
        violations += u64::from(self.politeness.max_at_once.is_some_and(|max| in_flight > max));
        if violations > 0 {
            host.violations.fetch_add(violations, Relaxed);
        }
        if status == 200 && request.method == "GET" {
            locked(&self.pages).add(&host.name, request.target);
        }
        self.at_once.increase();
        if let Some(site) = self.sites.get(site) {
            site.requests.fetch_add(1, Relaxed);
            site.at_once.increase();
        }
        let index = self.keep_entries.then(|| {
            let headers = match self.keep_headers {
                true => request.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                false => Vec::new(),
            };
            let mut entries = locked(&self.entries);
            entries.push(SeenRequest {
                connection,
                site,
                method: request.method.to_owned(),
                host: host.name.to_string(),
                path: request.target.to_owned(),
                user_agent: request.user_agent.to_owned(),
                headers,
                body: if self.keep_headers {
                    String::from_utf8_lossy(request.body).into_owned()
                } else {
                    String::new()
                },
                status,
                start,
                end: None,
            });
            entries.len() - 1
        });
        self.requests.fetch_add(1, SeqCst);
        self.notify();
        index
    }

    /// Records the end of a request.
    pub(crate) fn end(&self, host: &HostState, site: usize, index: RequestIndex, end: RequestEnd, now: Instant) {
        host.in_flight.fetch_sub(1, Relaxed);
        self.at_once.decrease();
        if let Some(site) = self.sites.get(site) {
            site.at_once.decrease();
        }
        if end == RequestEnd::Complete {
            let end_time = now.saturating_duration_since(self.started);
            self.last_end.fetch_max(end_time.as_nanos() as u64, Relaxed);
            if let Some(index) = index
                && let Some(entry) = locked(&self.entries).get_mut(index)
            {
                entry.end = Some(end_time);
            }
            self.answered.fetch_add(1, SeqCst);
        }
        self.notify();
    }

    /// Wakes the threads in `wait`. Usually there are none. The caller has changed its counter with `SeqCst`, so that either
    /// the condition of a new waiter sees the change, or this call sees the waiter.
    fn notify(&self) {
        if self.waiters.load(SeqCst) > 0 {
            // While this thread holds the lock, a waiter is either before its check or inside the wait, so it cannot
            // miss the notification.
            let _lock = locked(&self.wait_lock);
            self.changed.notify_all();
        }
    }

    /// Blocks until the condition is met or the timeout has passed; returns whether it is met.
    pub(crate) fn wait(&self, timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        self.waiters.fetch_add(1, SeqCst);
        let mut lock = locked(&self.wait_lock);
        let is_met = loop {
            if condition() {
                break true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            let pause = left.min(RECHECK_INTERVAL);
            lock = self.changed.wait_timeout(lock, pause).unwrap_or_else(PoisonError::into_inner).0;
        };
        self.waiters.fetch_sub(1, SeqCst);
        is_met
    }

    pub(crate) fn entries(&self) -> Vec<SeenRequest> {
        locked(&self.entries).clone()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(SeqCst)
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(SeqCst)
    }

    pub(crate) fn open(&self) -> u64 {
        self.open.current.load(SeqCst)
    }

    pub(crate) fn stats(&self) -> Stats {
        let hosts: BTreeMap<String, HostCount> = locked(&self.hosts)
            .values()
            .map(|host| {
                let gap = host.min_gap.load(Relaxed);
                let count = HostCount {
                    requests: host.requests.load(Relaxed),
                    max_at_once: host.peak_in_flight.load(Relaxed),
                    min_gap_us: (gap != u64::MAX).then_some(gap / 1000),
                    violations: host.violations.load(Relaxed),
                };
                (host.name.to_string(), count)
            })
            .collect();
        let count = |site: &SiteState| SiteCount {
            requests: site.requests.load(Relaxed),
            open: site.open.current.load(SeqCst),
            peak_open: site.open.peak.load(Relaxed),
            max_at_once: site.at_once.peak.load(Relaxed),
        };
        let (pages, pages_digest) = {
            let pages = locked(&self.pages);
            (pages.count(), pages.digest())
        };
        Stats {
            requests: self.requests(),
            answered: self.answered(),
            pages,
            pages_digest,
            connections: self.connections.load(SeqCst),
            open: self.open(),
            peak_open: self.open.peak.load(Relaxed),
            max_at_once: self.at_once.peak.load(Relaxed),
            handshakes_full: self.handshakes_full.load(Relaxed),
            handshakes_resumed: self.handshakes_resumed.load(Relaxed),
            handshakes_failed: self.handshakes_failed.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            violations: hosts.values().map(|host| host.violations).sum(),
            span_us: self.last_end.load(Relaxed).saturating_sub(self.first_start.load(Relaxed)) / 1000,
            hosts,
            sites: self.sites.iter().map(count).collect(),
        }
    }
}
