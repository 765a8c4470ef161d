//! [`Transport`]: answers requests in place of the network. [`VirtualFetcher`] is the fetcher that asks it.
//!
//! A transport is a function from requests to responses and times. It has no sockets and no threads, so a crawl over it
//! can run in virtual time: a response that takes a minute is there at once, and every run is the same.
//!
//! Invariant: a response arrives at the time that the transport gives, or not before memory has room for it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::base::job::Job;
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::time::{Time, WallClock};
use crate::base::user_code::call_closure;
use crate::crawl::fetcher::{Fetcher, FetcherContext, StopMode};
use crate::crawl::response::{Playback, WholeResponse};
use crate::crawl::visit::Visit;
use crate::http::address::DnsResult;

/// Answers requests in place of the network.
pub trait Transport: Send {
    /// The response to a request that is sent at `now`, with the times at which it arrives. The three times of a response
    /// must not be in the past.
    ///
    /// # Errors
    ///
    /// There is no response, for this reason, after this time.
    fn respond(&mut self, job: &Job, now: Time) -> Result<WholeResponse, (Failure, Duration)>;

    /// The addresses of a host.
    fn resolve(&self, host: &str) -> DnsResult;

    /// The wall-clock time at which virtual time begins.
    fn wall_clock(&self) -> WallClock {
        // 2 January 2026: without records of the past, any time will do.
        WallClock { start: 1_767_322_800_000_000 }
    }
}

/// An address for a host that has none: a public one, the same for the same name. Nothing connects to it.
pub fn placeholder_address(host: &str) -> IpAddr {
    let [.., third, second, first, last] = xxh3_64(host.as_bytes()).to_be_bytes().map(u16::from);
    // A part of 2000::/3 that is not assigned to anybody.
    IpAddr::V6(Ipv6Addr::new(0x2fff, 0, 0, 0, third, second, first, last))
}

/// Fetches jobs from a [`Transport`].
pub struct VirtualFetcher {
    transport: Box<dyn Transport>,
    /// `None` before the start.
    crawl: Option<FetcherContext>,
    /// The fetches by the time of their next event. Fetches with equal times are in the order in which they were added.
    fetches: BTreeMap<(Time, u64), VirtualFetch>,
    /// How often a fetch was added.
    added: u64,
}

/// A fetch in progress.
enum VirtualFetch {
    Response(Box<Playback>),
    /// There is no response.
    Failure {
        job: Box<Job>,
        failure: Failure,
        started: Time,
    },
}

impl VirtualFetcher {
    pub fn new(transport: Box<dyn Transport>) -> Self {
        Self { transport, crawl: None, fetches: BTreeMap::new(), added: 0 }
    }

    fn add(&mut self, at: Time, fetch: VirtualFetch) {
        self.added += 1;
        self.fetches.insert((at, self.added), fetch);
    }
}

impl Fetcher for VirtualFetcher {
    fn start(&mut self, crawl: &FetcherContext) -> io::Result<()> {
        self.crawl = Some(crawl.clone());
        Ok(())
    }

    fn accept(&mut self, job: Job, now: Time) -> Result<(), Job> {
        let Some(crawl) = &self.crawl else { return Err(job) };
        let transport = &mut self.transport;
        let response = call_closure("respond", || transport.respond(&job, now));
        match response.unwrap_or_else(|panic| Err((panic, Duration::ZERO))) {
            Ok(response) => {
                let playback = Playback::new(response, job, &crawl.rules);
                self.add(now, VirtualFetch::Response(Box::new(playback)));
            }
            Err((failure, after)) => {
                self.add(now + after, VirtualFetch::Failure { job: Box::new(job), failure, started: now });
            }
        }
        Ok(())
    }

    fn advance(&mut self, now: Time) -> Time {
        while let Some(entry) = self.fetches.first_entry().filter(|entry| entry.key().0 <= now) {
            let visit = match entry.remove() {
                VirtualFetch::Failure { job, failure, started } => Box::new(Visit::failed(*job, failure, started, now)),
                VirtualFetch::Response(mut playback) => match playback.advance(now) {
                    None => playback.finish(now),
                    Some(due) => {
                        self.add(due.max(now + Duration::from_micros(1)), VirtualFetch::Response(playback));
                        continue;
                    }
                },
            };
            if let Some(crawl) = &mut self.crawl {
                crawl.visits.push(visit);
            }
        }
        if let Some(crawl) = &mut self.crawl {
            crawl.visits.send();
        }
        self.fetches.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at)
    }

    fn resolve(&self, host: &str) -> Option<DnsResult> {
        let known = call_closure("resolve", || self.transport.resolve(host));
        Some(known.unwrap_or_else(|panic| Err(Failure::new(ErrorKind::DnsInvalid, panic.message))))
    }

    fn stop(&mut self, mode: StopMode) {
        if mode == StopMode::Now {
            self.fetches.clear();
        }
    }
}
