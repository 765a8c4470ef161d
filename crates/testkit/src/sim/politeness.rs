//! [`PolitenessChecker`]: observes every request and response, and collects violations of politeness.
//!
//! It has its own state, derived from the settings and the responses. It does not use the lanes, windows or queues of
//! the scheduler, so it detects errors in them.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::{Job, Purpose};
use argiope_core::crawl::rules::{Pace, RobotsPolicy, Rules};
use argiope_core::crawl::visit::{SiteFile, Visit};
use argiope_core::page::robots::Robots;
use argiope_core::{ErrorKind, Origin, Outcome, Time, Url};

/// The longest Retry-After that must be obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// How long rules may be used after a renewal of the robots.txt has failed.
const ROBOTS_GRACE: Duration = Duration::from_secs(3600);
/// Maximum age of a robots.txt.
const MAX_ROBOTS_AGE: Duration = Duration::from_secs(24 * 3600);

/// Observes requests and collects violations.
pub struct PolitenessChecker {
    rules: Arc<Rules>,
    hosts: HashMap<Box<str>, HostRequests>,
    /// Requests in flight, by address.
    addresses: HashMap<IpAddr, usize>,
    /// The rules of each origin, and until when they may be used.
    robots: HashMap<Origin, (Robots, Time)>,
    /// For each page or sitemap that was requested: no further request for it before this time.
    retry_not_before: HashMap<Url, Time>,
    /// The distinct pages that were requested.
    pages: HashSet<Url>,
    /// Those of them whose last attempt ended before there was a connection.
    unconnected: HashSet<Url>,
    in_flight: usize,
    max_in_flight: usize,
    /// Bytes of all responses.
    bytes: u64,
    /// The start of the last request for a page.
    last_page: Option<Time>,
    is_stopped: bool,
    violations: Vec<String>,
}

/// The requests to one host.
#[derive(Default)]
struct HostRequests {
    in_flight: usize,
    max_in_flight: usize,
    last_start: Option<Time>,
    /// The largest Crawl-delay of the host's origins.
    crawl_delay: Option<Duration>,
    /// No request before this time, because of the pace, or after a 429 or 503.
    not_before: Time,
}

impl PolitenessChecker {
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            rules,
            hosts: HashMap::new(),
            addresses: HashMap::new(),
            robots: HashMap::new(),
            retry_not_before: HashMap::new(),
            pages: HashSet::new(),
            unconnected: HashSet::new(),
            in_flight: 0,
            max_in_flight: 0,
            bytes: 0,
            last_page: None,
            is_stopped: false,
            violations: Vec::new(),
        }
    }

    /// All violations so far, each with URL and time.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The distinct pages that were requested.
    pub fn requested_pages(&self) -> &HashSet<Url> {
        &self.pages
    }

    /// How many of these pages count towards `--max-pages`: all but those whose last attempt found no connection.
    pub fn counted_pages(&self) -> u64 {
        (self.pages.len() - self.unconnected.len()) as u64
    }

    /// The maximum number of requests in flight.
    pub fn max_in_flight(&self) -> usize {
        self.max_in_flight
    }

    /// As [`PolitenessChecker::max_in_flight`], for one host.
    pub fn max_in_flight_at(&self, host: &str) -> usize {
        self.hosts.get(host).map_or(0, |host| host.max_in_flight)
    }

    /// From now on, starting a request is a violation.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Records the start of a request, and checks it.
    pub fn start(&mut self, job: &Job, ip: Option<IpAddr>, now: Time) {
        let url = &job.link.url;
        let mut violations = Vec::new();
        if self.is_stopped {
            violations.push("after the crawl was stopped".to_owned());
        }
        if self.rules.max_bytes.is_some_and(|max| self.bytes >= max) {
            violations.push("after the limit on bytes was reached".to_owned());
        }
        if self.rules.max_time.is_some_and(|max| now >= Time::ZERO + max) {
            violations.push("after the limit on time was reached".to_owned());
        }
        self.in_flight += 1;
        self.max_in_flight = self.max_in_flight.max(self.in_flight);
        if self.in_flight > self.rules.concurrency {
            violations.push(format!("{} in flight", self.in_flight));
        }
        let host = self.hosts.entry(url.host().into()).or_default();
        host.in_flight += 1;
        host.max_in_flight = host.max_in_flight.max(host.in_flight);
        // With a Crawl-delay, requests to a host are sent one at a time.
        let width = if host.crawl_delay.is_some() { 1 } else { self.rules.per_host };
        if host.in_flight > width {
            violations.push(format!("{} in flight at the host", host.in_flight));
        }
        let delay = self.rules.delay.max(host.crawl_delay.unwrap_or_default());
        if let Some(last) = host.last_start
            && now < last + delay
        {
            violations.push(format!("{:?} after the last start at the host, not {delay:?}", now - last));
        }
        host.last_start = Some(now);
        if now < host.not_before {
            violations.push(format!("{:?} too early after the last response of the host", host.not_before - now));
        }
        if self.retry_not_before.get(url).is_some_and(|not_before| now < *not_before) {
            violations.push("a retry that is too early".to_owned());
        }
        if let (Some(ip), Some(max)) = (ip, self.rules.per_ip) {
            let count = self.addresses.entry(ip).or_default();
            *count += 1;
            if *count > max {
                violations.push(format!("{count} in flight at {ip}"));
            }
        }
        if job.purpose == Purpose::Page {
            self.pages.insert(url.clone());
            self.unconnected.remove(url);
            if self.rules.max_pages.is_some_and(|max| self.counted_pages() > max) {
                violations.push("one page too many".to_owned());
            }
            if let (Some(last), Some(rate)) = (self.last_page, self.rules.rate)
                // Times are rounded to microseconds.
                && now + Duration::from_micros(1) < last + Duration::from_secs_f64(1.0 / rate)
            {
                violations.push("faster than the rate".to_owned());
            }
            self.last_page = Some(now);
        }
        if self.rules.robots == RobotsPolicy::Obey && !matches!(job.purpose, Purpose::Robots(_)) {
            match self.robots.get(&url.origin()) {
                None => violations.push("before its robots.txt".to_owned()),
                Some((_, until)) if *until <= now => violations.push("its robots.txt was read too long ago".to_owned()),
                Some((robots, _)) if !robots.allows(url.target()) => {
                    violations.push("robots.txt forbids it".to_owned())
                }
                Some(_) => {}
            }
        }
        self.violations.extend(violations.into_iter().map(|violation| format!("{url} at {now:?}: {violation}")));
    }

    /// Records the end of a request.
    pub fn end(&mut self, visit: &Visit, now: Time) {
        self.in_flight -= 1;
        self.bytes += visit.facts.bytes_wire;
        if let Some(ip) = visit.facts.ip
            && let Some(count) = self.addresses.get_mut(&ip)
        {
            *count -= 1;
        }
        if visit.is_page() && !visit.is_fetched_page() {
            self.unconnected.insert(visit.link.url.clone());
        }
        let wait = self.rules.retry_wait;
        let duration = visit.facts.timings.total.unwrap_or_default();
        let host = self.hosts.entry(visit.link.url.host().into()).or_default();
        host.in_flight -= 1;
        let mut pause = Duration::ZERO;
        // `--pace gentle` waits at least a second. After a response that is not a refusal, it also waits at least five times
        // as long as the response took.
        if self.rules.pace == Pace::Gentle {
            pause = Duration::from_secs(1);
            if visit.facts.status.is_some_and(|status| !matches!(status, 429 | 503)) {
                pause = pause.max(duration * 5);
            }
        }
        if let Some(429 | 503) = visit.facts.status {
            pause = pause.max(visit.for_keeper.retry_after().map_or(wait, |delay| delay.min(MAX_RETRY_AFTER)));
        }
        host.not_before = host.not_before.max(now + pause);
        let retry_after = visit.for_keeper.retry_after().map(|delay| delay.min(MAX_RETRY_AFTER));
        // Doubled with each attempt, at most 16 times, so that the shift does not overflow.
        let backoff = wait.saturating_mul(1 << u32::from(visit.link.tries.clamp(1, 17) - 1));
        if !matches!(visit.purpose, Purpose::Robots(_)) {
            self.retry_not_before.insert(visit.link.url.clone(), now + retry_after.unwrap_or(backoff));
        }
        if let Purpose::Robots(origin) = &visit.purpose {
            self.record_robots(origin, visit, now);
        }
    }

    /// Stores the rules of a robots.txt that was fetched.
    fn record_robots(&mut self, origin: &Origin, visit: &Visit, now: Time) {
        let robots = match (visit.for_keeper.site_file(), visit.facts.status) {
            (Some(SiteFile::Robots(bytes)), _) => Robots::parse(bytes, &self.rules.agent_token),
            // Any 4xx but 429 means that there are no rules.
            (_, Some(400..=428 | 430..=499)) => Robots::default(),
            _ => {
                // If the last attempt to renew the file has failed, the earlier rules may be used for a while.
                let is_last_try = visit.facts.outcome != Outcome::Redirect && visit.link.tries >= self.rules.max_tries;
                // A TLS error is not tried again.
                let is_final = visit.facts.error.as_ref().is_some_and(|failure| failure.kind == ErrorKind::Tls);
                if (is_last_try || is_final)
                    && let Some((_, until)) = self.robots.get_mut(origin)
                {
                    *until = now + ROBOTS_GRACE;
                }
                return;
            }
        };
        if let Some(delay) = robots.crawl_delay().filter(|delay| !delay.is_zero()) {
            let host = self.hosts.entry((&*origin.host).into()).or_default();
            let delay = delay.min(self.rules.max_crawl_delay);
            host.crawl_delay = Some(host.crawl_delay.map_or(delay, |known| known.max(delay)));
        }
        self.robots.insert(origin.clone(), (robots, now + MAX_ROBOTS_AGE));
    }
}
