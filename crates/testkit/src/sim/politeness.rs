//! [`PolitenessChecker`]: observes every request and response, and collects violations of politeness.
//!
//! It has its own state, derived from the settings and the responses. It does not use the lanes, windows or queues of
//! the scheduler, so it detects errors in them.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::page::robots::Robots;
use argiope_core::rules::{Pace, RobotsPolicy, Rules};
use argiope_core::schedule::job::{Job, Purpose};
use argiope_core::visit::{SiteFile, Visit};
use argiope_core::{ErrorKind, Origin, Outcome, Time, Url};

/// The longest Retry-After that must be obeyed.
const HOUR: Duration = Duration::from_secs(3600);
/// Maximum age of a robots.txt.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Observes requests and collects violations.
pub struct PolitenessChecker {
    rules: Arc<Rules>,
    hosts: HashMap<Box<str>, Host>,
    addresses: HashMap<IpAddr, usize>,
    robots: HashMap<Origin, (Robots, Time)>,
    /// For each URL whose request failed: no retry before this time.
    again: HashMap<Url, Time>,
    pages: HashSet<Url>,
    under_way: usize,
    max_in_flight: usize,
    bytes: u64,
    last_page: Option<Time>,
    stopped: bool,
    faults: Vec<String>,
}

/// The requests to one host.
#[derive(Default)]
struct Host {
    under_way: usize,
    max_in_flight: usize,
    last_start: Option<Time>,
    /// The largest Crawl-delay of the host's origins.
    crawl_delay: Option<Duration>,
    /// No request before this time, because of a pause or a Retry-After.
    not_before: Time,
}

impl PolitenessChecker {
    pub fn new(rules: Arc<Rules>) -> Self {
        Self {
            rules,
            hosts: HashMap::new(),
            addresses: HashMap::new(),
            robots: HashMap::new(),
            again: HashMap::new(),
            pages: HashSet::new(),
            under_way: 0,
            max_in_flight: 0,
            bytes: 0,
            last_page: None,
            stopped: false,
            faults: Vec::new(),
        }
    }

    /// The violations.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// The distinct pages that were requested.
    pub fn pages(&self) -> &HashSet<Url> {
        &self.pages
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
        self.stopped = true;
    }

    /// A request starts.
    pub fn start(&mut self, job: &Job, ip: Option<IpAddr>, now: Time) {
        let url = &job.link.url;
        let mut faults = Vec::new();
        if self.stopped {
            faults.push("after the crawl was stopped".to_owned());
        }
        if self.rules.max_bytes.is_some_and(|most| self.bytes >= most) {
            faults.push("after the limit on bytes was reached".to_owned());
        }
        if self.rules.max_time.is_some_and(|most| now >= Time::ZERO + most) {
            faults.push("after the limit on time was reached".to_owned());
        }
        self.under_way += 1;
        self.max_in_flight = self.max_in_flight.max(self.under_way);
        if self.under_way > self.rules.concurrency {
            faults.push(format!("{} under way", self.under_way));
        }
        let host = self.hosts.entry(url.host().into()).or_default();
        host.under_way += 1;
        host.max_in_flight = host.max_in_flight.max(host.under_way);
        let width = if host.crawl_delay.is_some() { 1 } else { self.rules.per_host };
        if host.under_way > width {
            faults.push(format!("{} under way at the host", host.under_way));
        }
        let delay = self.rules.delay.max(host.crawl_delay.unwrap_or_default());
        if let Some(last) = host.last_start
            && now < last + delay
        {
            faults.push(format!("{:?} after the last start at the host, not {delay:?}", now - last));
        }
        host.last_start = Some(now);
        if now < host.not_before {
            faults.push(format!("{:?} too early for what the host said or did", host.not_before - now));
        }
        if self.again.get(url).is_some_and(|not_before| now < *not_before) {
            faults.push("a second try too early".to_owned());
        }
        if let (Some(ip), Some(cap)) = (ip, self.rules.per_ip) {
            let count = self.addresses.entry(ip).or_default();
            *count += 1;
            if *count > cap {
                faults.push(format!("{count} under way at {ip}"));
            }
        }
        if job.purpose == Purpose::Page {
            self.pages.insert(url.clone());
            if self.rules.max_pages.is_some_and(|most| self.pages.len() as u64 > most) {
                faults.push("one page too many".to_owned());
            }
            if let (Some(last), Some(rate)) = (self.last_page, self.rules.rate)
                && now + Duration::from_micros(1) < last + Duration::from_secs_f64(1.0 / rate)
            {
                faults.push("faster than the rate".to_owned());
            }
            self.last_page = Some(now);
        }
        if self.rules.robots == RobotsPolicy::Obey && !matches!(job.purpose, Purpose::Robots(_)) {
            match self.robots.get(&url.origin()) {
                None => faults.push("before its robots.txt".to_owned()),
                Some((_, until)) if *until <= now => faults.push("its robots.txt was read too long ago".to_owned()),
                Some((robots, _)) if !robots.allows(url.target()) => faults.push("robots.txt forbids it".to_owned()),
                Some(_) => {}
            }
        }
        self.faults.extend(faults.into_iter().map(|fault| format!("{url} at {now:?}: {fault}")));
    }

    /// A request ends.
    pub fn end(&mut self, visit: &Visit, now: Time) {
        self.under_way -= 1;
        self.bytes += visit.facts.bytes_wire;
        if let Some(ip) = visit.facts.ip
            && let Some(count) = self.addresses.get_mut(&ip)
        {
            *count -= 1;
        }
        let wait = self.rules.retry_wait;
        let took = visit.facts.timings.total.unwrap_or_default();
        let host = self.hosts.entry(visit.link.url.host().into()).or_default();
        host.under_way -= 1;
        let mut pause = Duration::ZERO;
        if self.rules.pace == Pace::Gentle {
            pause = Duration::from_secs(1);
            if visit.facts.status.is_some_and(|status| !matches!(status, 429 | 503)) {
                pause = pause.max(took * 5);
            }
        }
        if let Some(429 | 503) = visit.facts.status {
            pause = pause.max(visit.message.retry_after.map_or(wait, |asked| asked.min(HOUR)));
        }
        host.not_before = host.not_before.max(now + pause);
        let asked = visit.message.retry_after.map(|asked| asked.min(HOUR));
        let doubled = wait.saturating_mul(1 << u32::from(visit.link.tries.clamp(1, 17) - 1));
        if !matches!(visit.purpose, Purpose::Robots(_)) {
            self.again.insert(visit.link.url.clone(), now + asked.unwrap_or(doubled));
        }
        if let Purpose::Robots(origin) = &visit.purpose {
            self.record_robots(origin, visit, now);
        }
    }

    fn record_robots(&mut self, origin: &Origin, visit: &Visit, now: Time) {
        let robots = match (visit.message.site_file.as_deref(), visit.facts.status) {
            (Some(SiteFile::Robots(bytes)), _) => Robots::parse(bytes, &self.rules.agent_token),
            (_, Some(400..=428 | 430..=499)) => Robots::default(),
            _ => {
                // While the file is unavailable, earlier rules may be used for one more hour.
                let is_over = visit.facts.outcome != Outcome::Redirect && visit.link.tries >= self.rules.max_tries;
                let is_final = visit.facts.error.as_ref().is_some_and(|failure| failure.kind == ErrorKind::Tls);
                if (is_over || is_final)
                    && let Some((_, until)) = self.robots.get_mut(origin)
                {
                    *until = now + HOUR;
                }
                return;
            }
        };
        if let Some(delay) = robots.crawl_delay().filter(|delay| !delay.is_zero()) {
            let host = self.hosts.entry((&*origin.host).into()).or_default();
            let delay = delay.min(self.rules.max_crawl_delay);
            host.crawl_delay = Some(host.crawl_delay.map_or(delay, |known| known.max(delay)));
        }
        self.robots.insert(origin.clone(), (robots, now + DAY));
    }
}
