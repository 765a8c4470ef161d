//! The hosts of the model: what a process must know to be polite, what the store keeps for the next owner, and the
//! oracle.
//!
//! Every host has a delay. A process learns it from the robots.txt of the host or from the note of an earlier owner.
//! The first request for some pages is refused, with a demand to wait. Every process and every node has a clock of its
//! own; a failover changes the clock of a node.

use std::collections::BTreeMap;

use super::names::{ModelPage, ModelToken, ProcessId};

/// A host of a bucket.
pub type HostId = usize;

/// How many hosts a bucket has.
pub const HOSTS: usize = 2;
/// The delay between requests to every host, which all processes know. In ticks.
pub const BASE_DELAY: u64 = 3;
/// The delay that the robots.txt of some hosts demands, in ticks.
const CRAWL_DELAY: u64 = 14;
/// How long a refused request demands to wait, in ticks.
const DEMANDED_WAIT: u64 = 80;
/// The clocks of two processes differ by at most this, in ticks.
pub const MAX_PROCESS_SKEW: usize = 60;

/// The host of a page.
pub fn host_of(page: ModelPage, buckets: usize) -> HostId {
    page as usize / buckets % HOSTS
}

/// The delay of a host, as its robots.txt states it.
pub fn delay_of(bucket: usize, host: HostId) -> u64 {
    if (bucket + host).is_multiple_of(2) { CRAWL_DELAY } else { BASE_DELAY }
}

/// How long the first request for a page is told to wait.
pub fn demanded_wait(page: ModelPage) -> u64 {
    if page % 3 == 2 { DEMANDED_WAIT } else { 0 }
}

/// What the store knows about a host.
#[derive(Clone, Copy, Debug)]
pub struct ModelNote {
    /// The delay that its robots.txt demands.
    pub delay: u64,
    /// Until when it demands to wait, by the clock of the node that stored the note.
    pub due: u64,
    /// How long that was when it was stored.
    pub span: u64,
    /// The node that stored it.
    pub node: u64,
}

/// What a take tells about the host of its pages.
#[derive(Clone, Copy, Debug)]
pub struct ModelHostNews {
    pub host: HostId,
    /// `None` if there is no note.
    pub delay: Option<u64>,
    /// How long the host still demands to wait.
    pub wait: u64,
    /// How long ago an earlier owner may have sent a request; `None` if there was no earlier owner.
    pub asked_ago: Option<u64>,
}

/// A host as its owner knows it.
#[derive(Clone, Copy, Debug)]
pub struct ModelHost {
    /// `None` until the robots.txt was fetched, unless there was a note.
    pub delay: Option<u64>,
    /// The earliest time of the next request.
    pub next: u64,
}

impl ModelHost {
    /// The host after a take whose reply arrived at `now`.
    pub fn new(news: ModelHostNews, now: u64) -> Self {
        let delay = news.delay.unwrap_or(BASE_DELAY);
        let pause = news.asked_ago.map_or(0, |ago| delay.saturating_sub(ago));
        Self { delay: news.delay, next: now + pause.max(news.wait) }
    }
}

/// The requests that the hosts have seen.
#[derive(Default)]
pub struct HostLogs(BTreeMap<(usize, HostId), HostLog>);

#[derive(Clone, Copy, Debug, Default)]
struct HostLog {
    /// The last request, and who sent it.
    last: Option<(u64, ModelToken)>,
    /// Whether a page was requested. Before that, no process may know the delay.
    has_served_page: bool,
    /// Until when the host demands to wait.
    closed_until: u64,
    /// A demand that is not stored yet: the process that knows it.
    unstored: Option<(ProcessId, u64)>,
}

impl HostLogs {
    /// Checks a request to a host, and records it. `wait` is what the host answers to demand.
    pub fn request(
        &mut self,
        (bucket, host): (usize, HostId),
        token: ModelToken,
        is_page: bool,
        wait: u64,
        now: u64,
    ) -> Result<(), String> {
        let log = self.0.entry((bucket, host)).or_default();
        let delay = if log.has_served_page { delay_of(bucket, host) } else { BASE_DELAY };
        if let Some((last, before)) = log.last.filter(|(last, _)| now < last + delay) {
            return Err(format!(
                "host {host} of bucket {bucket} was asked by {before:?} at {last} and by {token:?} at {now}: its delay is \
                 {delay}"
            ));
        }
        if now < log.closed_until {
            return Err(format!(
                "host {host} of bucket {bucket} demanded to wait until {}, and {token:?} asked at {now}",
                log.closed_until
            ));
        }
        log.last = Some((now, token));
        log.has_served_page |= is_page;
        log.unstored = (wait > 0).then_some((token.owner, now + wait));
        Ok(())
    }

    /// Records that the note of a process about a host is stored.
    pub fn stored(&mut self, process: ProcessId, bucket: usize, host: HostId) {
        if let Some(log) = self.0.get_mut(&(bucket, host))
            && let Some((_, until)) = log.unstored.take_if(|(owner, _)| *owner == process)
        {
            log.closed_until = log.closed_until.max(until);
        }
    }
}
