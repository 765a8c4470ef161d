//! Rounds of a crawl: a recrawl queues every URL of the previous round again.
//!
//! Each round has its own keys in the store, so a late process of an earlier round cannot change it. The records of the
//! previous round are read from its segments. The store only holds the position of each URL's record.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use argiope_core::{Link, LinkKind, LinkRef, Url};
use redis::Value;
use serde::Deserialize;

use super::client::{FleetClient, bytes};
use super::codec::QueuedLink;
use super::connection::Unreachable;
use super::crawl::FleetSettings;
use super::{bucket_of, crawl::FleetState};
use crate::segments::{PlacedRecord, SegmentStore};

/// Links that are put together.
const BATCH: usize = 4_096;
/// Lifetime of the lock of the process that queues the URLs of a round. It renews the lock after every batch.
const STARTER: Duration = Duration::from_secs(20);
/// How often the other processes check whether that process is done.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How often the progress is reported.
const TELL_AFTER: Duration = Duration::from_secs(2);
/// The field of the crawl's data that holds its current round.
const ROUND: &str = "round";

/// The current round of a crawl.
pub struct CrawlRound;

impl CrawlRound {
    /// The name under which the store holds a round. A user cannot choose a name with an `@`.
    pub fn store_name(crawl: &str, round: u32) -> String {
        if round <= 1 { crawl.to_owned() } else { format!("{crawl}@{round}") }
    }

    /// Reads the number of the current round. The client is that of the first round.
    pub fn read(client: &mut FleetClient) -> Result<u32, Unreachable> {
        let key = client.crawl_key("meta");
        let text = bytes(&client.plain(&key, &[b"HGET", key.as_bytes(), ROUND.as_bytes()], false)?);
        Ok(std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(1))
    }

    /// Makes this round the current one, unless a later one is current. Returns the current one.
    pub fn raise(client: &mut FleetClient, round: u32) -> Result<u32, Unreachable> {
        let raised = client.raise_field("meta", ROUND, u64::from(round))?;
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

/// The fields of a record from which its link is reconstructed.
#[derive(Deserialize)]
struct RecrawlRecord {
    #[serde(default)]
    r#type: Box<str>,
    url: Box<str>,
    via: Option<Box<str>>,
    #[serde(default)]
    depth: u32,
    method: Option<Box<str>>,
    r#for: Option<Box<str>>,
    outcome: Option<Box<str>>,
}

impl RecrawlRecord {
    /// The link to crawl again; `None` for records that are not about a link, and for forms that were submitted.
    fn link(&self, record: &PlacedRecord<'_>, max_redirects: u8) -> Option<Link> {
        if self.outcome.is_none() || self.method.is_some() || self.r#for.as_deref() == Some("robots") {
            return None;
        }
        let is_page = &*self.r#type == "page";
        // Segments written by earlier versions do not contain the kind.
        let guess = match (is_page, self.via.is_some()) {
            (false, _) => LinkKind::SitemapFile,
            (true, false) => LinkKind::Root,
            (true, true) => LinkKind::Anchor,
        };
        Some(Link {
            url: Url::parse(&self.url).ok()?,
            via: self.via.as_deref().and_then(|via| Url::parse(via).ok()),
            depth: self.depth,
            redirects: record.origin.map_or(max_redirects, |origin| origin.redirects),
            tries: 0,
            kind: record.origin.map_or(guess, |origin| origin.kind),
            request: None,
        })
    }
}

/// Queues every URL of the previous round. If another process is doing that, waits for it instead. `goes_on` is called
/// regularly, sometimes with the number of URLs so far. If it returns `false`, the function returns early.
///
/// Puts are idempotent. If a process dies here, another one starts again, and if two do it at once, the result is the
/// same.
pub fn requeue(
    client: &mut FleetClient,
    settings: &FleetSettings,
    results: &SegmentStore,
    max_redirects: u8,
    mut goes_on: impl FnMut(Option<u64>) -> bool,
) -> Result<(), RequeueError> {
    while !begin(client)? {
        if FleetState::read(client)? != FleetState::Created || !goes_on(None) {
            return Ok(());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    client.limit_hosts(settings.max_pages_per_host);
    let segments = results.earlier_segments().map_err(RequeueError::Results)?;
    let mut batches: BTreeMap<u32, Vec<QueuedLink>> = BTreeMap::new();
    let (mut waiting, mut count, mut told) = (0, 0_u64, Instant::now());
    // Why the reading was stopped: by a fault of the store, or because `goes_on` returned `false`.
    let (mut stopped, mut is_stopped) = (None, false);
    let previous = results.of_round(settings.round.saturating_sub(1));
    let read = previous.placed_records(&segments, |record| {
        let Ok(outline) = serde_json::from_slice::<RecrawlRecord>(record.line) else { return Ok(()) };
        let Some(link) = outline.link(&record, max_redirects) else { return Ok(()) };
        let queued = QueuedLink::with_earlier(LinkRef::from(&link), settings.key, Some(record.place));
        batches.entry(bucket_of(link.url.host(), settings.buckets)).or_default().push(queued);
        (waiting, count) = (waiting + 1, count + 1);
        if waiting < BATCH {
            return Ok(());
        }
        waiting = 0;
        put(client, &mut batches).map_err(|fault| {
            stopped = Some(fault);
            io::Error::other("stopped")
        })?;
        let is_told = told.elapsed() >= TELL_AFTER;
        if is_told {
            told = Instant::now();
        }
        if goes_on(is_told.then_some(count)) {
            return Ok(());
        }
        is_stopped = true;
        Err(io::Error::other("stopped"))
    });
    if is_stopped {
        return Ok(());
    }
    if let Some(fault) = stopped {
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
    begin(client).map(drop)
}

/// Acquires or renews the lock for queueing the URLs; `false` if another process holds it.
fn begin(client: &mut FleetClient) -> Result<bool, Unreachable> {
    let (key, owner) = (client.crawl_key("starter"), client.owner().to_owned());
    let span = STARTER.as_millis().to_string();
    let set = [b"SET", key.as_bytes(), owner.as_bytes(), b"NX", b"PX", span.as_bytes()];
    if client.plain(&key, &set, false)? == Value::Okay {
        return Ok(true);
    }
    if bytes(&client.plain(&key, &[b"GET", key.as_bytes()], false)?) != owner.as_bytes() {
        return Ok(false);
    }
    client.plain(&key, &[b"PEXPIRE", key.as_bytes(), span.as_bytes()], false)?;
    Ok(true)
}
