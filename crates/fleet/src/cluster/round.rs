//! Rounds of a crawl: a recrawl queues every URL of the previous round again.
//!
//! Each round has its own keys in the store, so a late process of an earlier round cannot change it. The records of the
//! previous round are read from its segments. The store only holds the position of each URL's record.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use argiope_core::base::custom_request::CustomRequest;
use argiope_core::crawl::record::LazyRecord;
use argiope_core::{Link, LinkRef, Url};
use redis::Value;

use super::client::{FleetClient, bytes};
use super::codec::QueuedLink;
use super::connection::Unreachable;
use super::crawl::{FleetSettings, MAX_ROUND};
use super::{bucket_of, crawl::FleetState};
use crate::segments::{LinkOrigin, SegmentStore};

/// How many links one put contains.
pub(super) const LINKS_PER_PUT: usize = 4_096;
/// Lifetime of the lock of the process that queues the URLs of a round. It renews the lock after every batch.
const LOCK_TIME: Duration = Duration::from_secs(20);
/// How often the other processes check whether that process is done.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often the progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// The field of the crawl's data that holds its current round.
const ROUND_FIELD: &str = "round";

/// Reads and sets the number of a crawl's current round, which the store holds.
pub struct CrawlRound;

impl CrawlRound {
    /// The name under which the store holds a round. A user cannot choose a name with an `@`.
    pub fn store_name(crawl: &str, round: u32) -> String {
        if round <= 1 { crawl.to_owned() } else { format!("{crawl}@{round}") }
    }

    /// Reads the number of the current round. The client is that of the first round.
    pub fn read(client: &mut FleetClient) -> Result<u32, Unreachable> {
        let key = client.crawl_key("meta");
        let text = bytes(&client.plain(&key, &[b"HGET", key.as_bytes(), ROUND_FIELD.as_bytes()])?);
        Ok(std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.parse().ok())
            .map_or(1, |round: u32| round.clamp(1, MAX_ROUND)))
    }

    /// Makes this round the current one, unless a later one is current. Returns the current one.
    pub fn raise(client: &mut FleetClient, round: u32) -> Result<u32, Unreachable> {
        let raised = client.raise_field("meta", ROUND_FIELD, u64::from(round))?;
        Ok(u32::try_from(raised).unwrap_or(u32::MAX))
    }
}

/// Why the URLs of the previous round could not be queued.
#[derive(Debug)]
pub enum RequeueError {
    Store(Unreachable),
    Results(io::Error),
}

impl fmt::Display for RequeueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(fault) => write!(f, "the store of the fleet: {}", fault.message),
            Self::Results(error) => write!(f, "the results of the previous round cannot be read: {error}"),
        }
    }
}

impl From<Unreachable> for RequeueError {
    fn from(fault: Unreachable) -> Self {
        Self::Store(fault)
    }
}

/// The link that a record settles; `None` for requests other than GET, such as submitted forms.
pub(super) fn link_of(record: &LazyRecord<'_>, origin: LinkOrigin) -> Option<Link> {
    if record.method().is_some() {
        return None;
    }
    Some(Link {
        url: Url::parse(&record.url()).ok()?,
        via: record.via().and_then(|via| Url::parse(&via).ok()),
        depth: record.depth().unwrap_or(0),
        redirects: origin.redirects,
        tries: 0,
        kind: origin.kind,
        request: CustomRequest::of_priority(origin.priority),
    })
}

/// Queues every URL of the previous round. If another process is doing that, waits for it instead. `should_continue` is
/// called regularly, every `REPORT_INTERVAL` with the number of URLs so far. If it returns `false`, the function
/// returns early.
///
/// Puts are idempotent. If a process dies in this function, another one starts from the beginning. If two processes are
/// in it at the same time, the result is the same.
pub fn requeue(
    client: &mut FleetClient,
    settings: &FleetSettings,
    results: &SegmentStore,
    mut should_continue: impl FnMut(Option<u64>) -> bool,
) -> Result<(), RequeueError> {
    while !acquire_lock(client)? {
        if FleetState::read(client)? != FleetState::Created || !should_continue(None) {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    client.set_max_per_host(settings.max_pages_per_host);
    let segments = results.earlier_segments().map_err(RequeueError::Results)?;
    let mut batches: BTreeMap<u32, Vec<QueuedLink>> = BTreeMap::new();
    // The number of links in `batches`, and of all links so far.
    let (mut batched, mut count, mut last_report) = (0, 0_u64, Instant::now());
    // Why the reading was stopped: an error of the store, or `should_continue` returned `false`.
    let (mut store_error, mut is_stopped) = (None, false);
    let previous = results.of_round(settings.round.saturating_sub(1));
    let read = previous.placed_records(&segments, |record| {
        // A record without an origin, such as that of a robots.txt, is not about a link.
        let Some(origin) = record.origin else { return Ok(()) };
        let Some(link) = LazyRecord::read(record.line).and_then(|line| link_of(&line, origin)) else { return Ok(()) };
        let queued = QueuedLink::with_earlier(LinkRef::from(&link), settings.key, Some(record.place));
        batches.entry(bucket_of(link.url.host(), settings.buckets)).or_default().push(queued);
        (batched, count) = (batched + 1, count + 1);
        if batched < LINKS_PER_PUT {
            return Ok(());
        }
        batched = 0;
        put(client, &mut batches).map_err(|fault| {
            store_error = Some(fault);
            io::Error::other("stopped")
        })?;
        let is_report_due = last_report.elapsed() >= REPORT_INTERVAL;
        if is_report_due {
            last_report = Instant::now();
        }
        if should_continue(is_report_due.then_some(count)) {
            return Ok(());
        }
        is_stopped = true;
        Err(io::Error::other("stopped"))
    });
    if is_stopped {
        return Ok(());
    }
    if let Some(fault) = store_error {
        return Err(fault.into());
    }
    read.map_err(RequeueError::Results)?;
    put(client, &mut batches)?;
    FleetState::set_running(client)?;
    Ok(())
}

/// Puts the collected links, and renews the lock.
fn put(client: &mut FleetClient, batches: &mut BTreeMap<u32, Vec<QueuedLink>>) -> Result<(), Unreachable> {
    let batches: Vec<_> = std::mem::take(batches).into_iter().collect();
    client.put(&batches)?;
    acquire_lock(client).map(drop)
}

/// Acquires or renews the lock for queueing the URLs; `false` if another process holds it.
fn acquire_lock(client: &mut FleetClient) -> Result<bool, Unreachable> {
    let (key, owner) = (client.crawl_key("starter"), client.owner().to_owned());
    let lock_ms = LOCK_TIME.as_millis().to_string();
    let set = [b"SET", key.as_bytes(), owner.as_bytes(), b"NX", b"PX", lock_ms.as_bytes()];
    if client.plain(&key, &set)? == Value::Okay {
        return Ok(true);
    }
    if bytes(&client.plain(&key, &[b"GET", key.as_bytes()])?) != owner.as_bytes() {
        return Ok(false);
    }
    client.plain(&key, &[b"PEXPIRE", key.as_bytes(), lock_ms.as_bytes()])?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use argiope_core::LinkKind;

    use super::*;

    #[test]
    fn a_link_keeps_its_priority_in_the_next_round() {
        let record = br#"{"v":1,"type":"page","url":"http://h.example/a","outcome":"ok","depth":3}"#;
        let rank = |priority| {
            let origin = LinkOrigin { kind: LinkKind::Anchor, redirects: 5, has_earlier_record: false, priority };
            link_of(&LazyRecord::read(record).expect("a record"), origin).expect("a link").rank()
        };
        assert_eq!(rank(0), 3);
        assert!(rank(9) < rank(1) && rank(1) < 0, "{} {}", rank(9), rank(1));
    }
}
