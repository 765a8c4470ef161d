//! [`BroadWeb`]: a simulated web of many hosts, for measuring crawl time. Its pages are computed, not stored: the
//! latency of a host, and whether it is a root, are functions of its number.
//!
//! Page 0 of every host links to all its other pages. A host that is not a root is linked from the last page of the
//! root before it, so that it is found late. [`BroadWeb::ideal`] is a lower bound of the time that any polite schedule
//! takes that fetches the pages of a host in the order of their numbers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use argiope_core::base::job::{Job, Purpose};
use argiope_core::{LinkKind, LinkList, Time, Url};

use super::rng::SimRng;
use super::{ResolveResult, SimReply, SimResponse, SimWeb};

/// A web of many hosts.
#[derive(Clone, Debug)]
pub struct BroadWeb {
    pub seed: u64,
    /// Number of pages of each host.
    pub sizes: Vec<u32>,
    /// The range of response times of hosts.
    pub latency: (Duration, Duration),
    /// The percentage of hosts that are not roots.
    pub found_late: u64,
    /// How long it takes to resolve a name.
    pub dns: Duration,
    /// This number of hosts, the first ones, have a robots.txt with this Crawl-delay.
    pub crawl_delay: (usize, Duration),
}

impl BroadWeb {
    /// Sizes of hosts by Zipf's law with this exponent: about `total` pages in all, at least one per host.
    pub fn zipf(hosts: usize, total: u64, exponent: f64) -> Vec<u32> {
        let weights: Vec<f64> = (1..=hosts).map(|rank| (rank as f64).powf(-exponent)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| ((weight / sum * total as f64).round() as u32).max(1)).collect()
    }

    pub fn roots(&self) -> Vec<String> {
        (0..self.sizes.len()).filter(|host| self.is_root(*host)).map(|host| page_url(host, 0)).collect()
    }

    /// Number of all pages.
    pub fn total(&self) -> u64 {
        self.sizes.iter().map(|size| u64::from(*size)).sum()
    }

    fn is_root(&self, host: usize) -> bool {
        host == 0 || !SimRng::for_item(self.seed, host as u64).chance(self.found_late)
    }

    /// The root that links to a host: the last root before it.
    fn root_before(&self, host: usize) -> usize {
        (0..host).rev().find(|before| self.is_root(*before)).unwrap_or(0)
    }

    /// The response time of a host.
    pub fn latency_of(&self, host: usize) -> Duration {
        let (low, high) = (self.latency.0.as_micros() as u64, self.latency.1.as_micros() as u64);
        // Another seed than in `is_root`, so that the two are independent.
        Duration::from_micros(SimRng::for_item(self.seed ^ 7, host as u64).between(low, high))
    }

    /// The delay between requests to a host. `delay` is that of the settings.
    fn delay_of(&self, host: usize, delay: Duration) -> Duration {
        if host < self.crawl_delay.0 { delay.max(self.crawl_delay.1) } else { delay }
    }

    fn links(&self, host: usize, number: u32) -> LinkList {
        let (mut links, nofollow) = (LinkList::default(), false);
        let size = self.sizes.get(host).copied().unwrap_or(1);
        if number == 0 {
            for other in 1..size {
                links.push(&page_url(host, other), LinkKind::Anchor, nofollow);
            }
        }
        if number + 1 == size && self.is_root(host) {
            for late_host in (host + 1..self.sizes.len()).take_while(|late_host| !self.is_root(*late_host)) {
                links.push(&page_url(late_host, 0), LinkKind::Anchor, nofollow);
            }
        }
        links
    }

    /// A lower bound for any polite schedule that fetches the pages of a host one after the other, in the order of
    /// their numbers. It is the larger of two times. The first is the longest time of a host; for a host that is found
    /// late, the time of the root that links to it is added. The second is the sum of all response times divided by
    /// `concurrency`.
    pub fn ideal(&self, delay: Duration, concurrency: usize) -> Duration {
        let hosts = 0..self.sizes.len();
        // Name resolution, then robots.txt and the pages, one after the other.
        let host_time = |host: usize| {
            let (latency, delay) = (self.latency_of(host), self.delay_of(host, delay));
            self.dns + latency.max(delay).saturating_mul(self.sizes.get(host).copied().unwrap_or(1)) + latency
        };
        let by_host = hosts.clone().map(|host| {
            let found_after = if self.is_root(host) { Duration::ZERO } else { host_time(self.root_before(host)) };
            found_after + host_time(host)
        });
        // The pages and robots.txt of every host.
        let all: Duration =
            hosts.map(|host| self.latency_of(host) * (self.sizes.get(host).copied().unwrap_or(1) + 1)).sum();
        by_host.max().unwrap_or_default().max(all / u32::try_from(concurrency).unwrap_or(u32::MAX))
    }
}

impl SimWeb for BroadWeb {
    fn resolve(&mut self, host: &str, _now: Time) -> (Duration, ResolveResult) {
        let number = host_number(host).unwrap_or(0) as u32;
        // Public addresses: from 80.0.0.0 on.
        let ip = IpAddr::V4(Ipv4Addr::from(0x5000_0000 + number));
        (self.dns, Ok((vec![ip], Duration::from_secs(300))))
    }

    fn reply(&mut self, job: &Job, _now: Time) -> SimReply {
        let ip = job.addresses.first().copied();
        let host = host_number(job.link.url.host()).unwrap_or(0);
        let response = match (&job.purpose, page_of(&job.link.url)) {
            (Purpose::Page, Some((host, number))) => SimResponse::Page(self.links(host, number)),
            (Purpose::Robots(_), _) if host < self.crawl_delay.0 => SimResponse::Robots(
                format!("User-agent: *\nCrawl-delay: {}\n", self.crawl_delay.1.as_secs_f64()).into_bytes(),
            ),
            _ => SimResponse::Status(404),
        };
        SimReply::new(self.latency_of(host), ip, response)
    }
}

/// The URL of a page.
fn page_url(host: usize, number: u32) -> String {
    format!("http://h{host}.example/{number}")
}

fn host_number(host: &str) -> Option<usize> {
    host.strip_prefix('h')?.strip_suffix(".example")?.parse().ok()
}

/// The host and the number of a page.
fn page_of(url: &Url) -> Option<(usize, u32)> {
    Some((host_number(url.host())?, url.path().strip_prefix('/')?.parse().ok()?))
}
