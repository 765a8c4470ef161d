//! The crawl that a fleet works on: its settings (set by the first process), its state and its processes.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::client::{FleetClient, array, bytes};
use super::connection::Unreachable;
use super::orders::CrawlOrders;

/// The settings that all processes of a crawl share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetSettings {
    /// The version of the program that created the crawl.
    pub version: String,
    /// The key of the fingerprints.
    pub key: u64,
    /// The round of the crawl, counted from 1. Each recrawl starts a round.
    #[serde(deserialize_with = "bounded_round")]
    pub round: u32,
    /// The number of buckets.
    #[serde(deserialize_with = "bounded_buckets")]
    pub buckets: u32,
    /// Maximum number of pages, over all processes.
    pub max_pages: Option<u64>,
    /// Maximum bytes received, over all processes.
    pub max_bytes: Option<u64>,
    /// Maximum pages per second, over all processes.
    #[serde(deserialize_with = "positive_rate")]
    pub rate: Option<f64>,
    /// Maximum number of requests in flight to one IP address, over all processes.
    pub per_ip: Option<u64>,
    /// Maximum number of pages per host.
    pub max_pages_per_host: Option<u64>,
    /// Maximum time from the start of the crawl, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_ms: Option<u64>,
    /// When the crawl was created, in milliseconds since the Unix epoch by the clock of the store.
    pub created: u64,
    /// The folder of the results.
    pub out: String,
    /// The settings of the first process as JSON, without those that each process sets for itself.
    pub config: String,
}

/// The largest number of buckets. Their number sizes tables, and the loops over all of them.
pub const MAX_BUCKETS: u32 = 65_536;
/// The largest number of a round.
pub(crate) const MAX_ROUND: u32 = 10_000;

/// A number of at least 1 and at most `max`. The store and the results may have been written by others.
fn bounded<'de, D: Deserializer<'de>>(deserializer: D, max: u32, what: &str) -> Result<u32, D::Error> {
    let number = u32::deserialize(deserializer)?;
    let is_valid = (1..=max).contains(&number);
    is_valid.then_some(number).ok_or_else(|| D::Error::custom(format!("{number} is not a number of {what}")))
}

fn bounded_buckets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    bounded(deserializer, MAX_BUCKETS, "buckets")
}

fn bounded_round<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    bounded(deserializer, MAX_ROUND, "rounds")
}

fn positive_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let rate = Option::<f64>::deserialize(deserializer)?;
    let is_valid = rate.is_none_or(|rate| rate.is_finite() && rate > 0.0);
    is_valid.then_some(rate).ok_or_else(|| D::Error::custom("a rate must be positive"))
}

/// What the store holds about the crawl as a whole, beside its settings. Every process reads it with every heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct CrawlHead {
    /// A random text, chosen when the store got the crawl. A store that was emptied and got the crawl again has another
    /// one. Empty if the store does not hold the crawl.
    pub generation: String,
    pub state: FleetState,
    /// How often the crawl was continued after it had ended at a limit, plus 1.
    pub leg: u32,
    pub orders: CrawlOrders,
    /// `orders` as the store has them.
    pub(super) orders_text: Vec<u8>,
}

impl CrawlHead {
    pub fn read(client: &mut FleetClient) -> Result<Self, Unreachable> {
        let key = client.crawl_key("meta");
        let names: [&[u8]; 4] = [b"generation", b"state", b"continued", b"orders"];
        let fields = array(client.plain(&key, &[&[b"HMGET", key.as_bytes()][..], &names[..]].concat())?);
        let text_at = |index: usize| fields.get(index).map(bytes).unwrap_or_default();
        let generation = String::from_utf8_lossy(&text_at(0)).into_owned();
        let continued: u32 = String::from_utf8_lossy(&text_at(2)).parse().unwrap_or(0);
        let orders_text = text_at(3);
        Ok(Self {
            generation,
            state: FleetState::from_bytes(&text_at(1)),
            leg: continued.min(MAX_ROUND).saturating_add(1),
            orders: CrawlOrders::read(&orders_text),
            orders_text,
        })
    }

    /// Changes the orders of the crawl. A crawl that has ended at a limit, or was stopped, continues if the orders allow
    /// it then. Returns the orders.
    ///
    /// # Errors
    ///
    /// The inner error is that of `change`, which refuses the change.
    pub fn change_orders<E>(
        client: &mut FleetClient,
        settings: &FleetSettings,
        mut change: impl FnMut(&mut CrawlOrders) -> Result<(), E>,
    ) -> Result<Result<CrawlOrders, E>, Unreachable> {
        loop {
            let head = Self::read(client)?;
            let mut orders = head.orders.clone();
            if let Err(refused) = change(&mut orders) {
                return Ok(Err(refused));
            }
            let age = settings.age(client)?;
            let continues = head.state.is_lifted(&head.orders, &orders, settings, age);
            if orders == head.orders && !continues {
                return Ok(Ok(orders));
            }
            let before = head.orders.max_pages.or(settings.max_pages).unwrap_or(0);
            let more_pages = orders.max_pages.map_or(0, |limit| limit.saturating_sub(before));
            let text = serde_json::to_vec(&orders).unwrap_or_default();
            if client.steer(&head.orders_text, text, more_pages, continues)? {
                return Ok(Ok(orders));
            }
        }
    }

    /// As [`Self::read`]. It is a final error if the store does not hold the crawl of this generation.
    pub fn read_of(client: &mut FleetClient, generation: &str) -> Result<Self, Unreachable> {
        let head = Self::read(client)?;
        if head.generation == generation { Ok(head) } else { Err(Unreachable::lost()) }
    }
}

/// The progress of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetState {
    /// The roots may not have been put yet.
    Created,
    /// The crawl is being put into the store again. Processes wait.
    Restoring,
    Running,
    /// All links are settled.
    Finished,
    /// The crawl has reached its page limit, and links are left.
    MaxPages,
    /// The crawl has reached its byte limit, and links are left.
    MaxBytes,
    /// The crawl has reached its time limit, and links are left.
    MaxTime,
    /// A user has stopped the crawl, and links are left.
    Stopped,
}

impl FleetSettings {
    /// Reads the settings of an existing crawl.
    pub fn read(client: &mut FleetClient) -> Result<Option<Self>, Unreachable> {
        let key = client.crawl_key("meta");
        let text = bytes(&client.plain(&key, &[b"HGET", key.as_bytes(), b"crawl"])?);
        if text.is_empty() {
            return Ok(None);
        }
        let damaged = |_| Unreachable::permanent(format!("{key} is not a crawl of this program"));
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    /// Creates the crawl unless another process has created it. Returns the settings that apply.
    pub fn create(&self, client: &mut FleetClient) -> Result<Self, Unreachable> {
        let key = client.crawl_key("meta");
        // The caller sets the time for a new round of a recrawl.
        let created = if self.created > 0 { self.created } else { store_time(client, &key)? };
        let text = serde_json::to_vec(&Self { created, ..self.clone() }).unwrap_or_default();
        if let Some(max_pages) = self.max_pages {
            let pool = client.crawl_key("pool");
            client.plain_replicated(&pool, &[b"HSETNX", pool.as_bytes(), b"left", max_pages.to_string().as_bytes()])?;
        }
        let generation = format!("{:016x}", RandomState::new().hash_one(client.owner()));
        let generation = [b"HSETNX", key.as_bytes(), b"generation", generation.as_bytes()];
        client.plain_replicated(&key, &generation)?;
        client.plain_replicated(&key, &[b"HSETNX", key.as_bytes(), b"crawl", &text])?;
        Ok(Self::read(client)?.unwrap_or_else(|| self.clone()))
    }
}

impl FleetSettings {
    /// The current time of the store, in milliseconds since the Unix epoch.
    pub fn store_time(client: &mut FleetClient) -> Result<u64, Unreachable> {
        let key = client.crawl_key("meta");
        store_time(client, &key)
    }

    /// These settings with the limits that were changed since.
    #[must_use]
    pub fn with_orders(&self, orders: &CrawlOrders) -> Self {
        Self {
            max_pages: orders.max_pages.or(self.max_pages),
            max_bytes: orders.max_bytes.or(self.max_bytes),
            max_time_ms: orders.max_time_ms.or(self.max_time_ms),
            rate: match orders.rate {
                None => self.rate,
                Some(rate) => (rate > 0.0).then_some(rate),
            },
            ..self.clone()
        }
    }

    /// What is left of the time of the crawl at this age; `None` without a limit.
    pub fn time_left(&self, age: Duration) -> Option<Duration> {
        Some(Duration::from_millis(self.max_time_ms?).saturating_sub(age))
    }

    /// The time since the crawl was created.
    pub fn age(&self, client: &mut FleetClient) -> Result<Duration, Unreachable> {
        let key = client.crawl_key("meta");
        Ok(Duration::from_millis(store_time(client, &key)?.saturating_sub(self.created)))
    }
}

impl FleetState {
    pub fn read(client: &mut FleetClient) -> Result<Self, Unreachable> {
        Ok(CrawlHead::read(client)?.state)
    }

    fn from_bytes(state: &[u8]) -> Self {
        match state {
            b"restoring" => Self::Restoring,
            b"running" => Self::Running,
            b"finished" => Self::Finished,
            b"max_pages" => Self::MaxPages,
            b"max_bytes" => Self::MaxBytes,
            b"max_time" => Self::MaxTime,
            b"stopped" => Self::Stopped,
            _ => Self::Created,
        }
    }

    /// Whether the crawl has ended: it is finished, it has reached a limit, or a user has stopped it.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Created | Self::Restoring | Self::Running)
    }

    /// Whether these orders lift the end of a crawl in this state, whose orders were `before`.
    fn is_lifted(self, before: &CrawlOrders, orders: &CrawlOrders, settings: &FleetSettings, age: Duration) -> bool {
        match self {
            Self::MaxPages => orders.max_pages > before.max_pages,
            Self::MaxBytes => orders.max_bytes > before.max_bytes,
            Self::MaxTime => settings.with_orders(orders).time_left(age).is_none_or(|left| !left.is_zero()),
            Self::Stopped => !orders.is_stopped,
            Self::Created | Self::Restoring | Self::Running | Self::Finished => false,
        }
    }

    /// The end that a crawl has when no process takes part in it any more: stopped, or out of time. `None` if it has
    /// neither been stopped nor run out of time, or is not running.
    pub fn end_without_processes(head: &CrawlHead, settings: &FleetSettings, age: Duration) -> Option<Self> {
        match head.state {
            Self::Running if head.orders.is_stopped => Some(Self::Stopped),
            Self::Running if settings.with_orders(&head.orders).time_left(age).is_some_and(|left| left.is_zero()) => {
                Some(Self::MaxTime)
            }
            _ => None,
        }
    }

    /// Ends a crawl that was stopped or has run out of time, if no process takes part in it any more. A process without
    /// a heartbeat for `timeout` is gone.
    pub fn end_after_last(
        client: &mut FleetClient,
        settings: &FleetSettings,
        timeout: Duration,
    ) -> Result<(), Unreachable> {
        let (head, age) = (CrawlHead::read(client)?, settings.age(client)?);
        let Some(end) = Self::end_without_processes(&head, settings, age) else { return Ok(()) };
        let now = FleetSettings::store_time(client)?;
        let is_live = |member: &MemberInfo| member.at.saturating_add(timeout.as_millis() as u64) > now;
        if Members::all(client)?.iter().any(is_live) { Ok(()) } else { end.set(client) }
    }

    /// Makes this the state of the crawl.
    pub(super) fn set(self, client: &mut FleetClient) -> Result<(), Unreachable> {
        let name: &[u8] = match self {
            Self::Created => b"created",
            Self::Restoring => b"restoring",
            Self::Running => b"running",
            Self::Finished => b"finished",
            Self::MaxPages => b"max_pages",
            Self::MaxBytes => b"max_bytes",
            Self::MaxTime => b"max_time",
            Self::Stopped => b"stopped",
        };
        let key = client.crawl_key("meta");
        client.plain_replicated(&key, &[b"HSET", key.as_bytes(), b"state", name]).map(drop)
    }

    /// Records that the roots are in the store.
    pub fn set_running(client: &mut FleetClient) -> Result<(), Unreachable> {
        let key = client.crawl_key("meta");
        client.plain_replicated(&key, &[b"HSETNX", key.as_bytes(), b"state", b"running"]).map(drop)
    }
}

/// One process of a fleet, as it describes itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberInfo {
    pub id: String,
    pub version: String,
    /// Time of its last heartbeat, in milliseconds since the Unix epoch, by the clock of the store.
    pub at: u64,
    /// The number of buckets that it has leased.
    pub buckets: usize,
    /// Pages fetched per second, averaged over the last ten seconds.
    pub pages_per_second: f64,
    /// Pages that this process has fetched.
    pub pages: u64,
    /// Milliseconds until its leases end if they are not renewed.
    pub lease_ms: u64,
    /// Hosts with work in its buckets.
    #[serde(default)]
    pub hosts: usize,
    /// Records that it has fetched and not settled.
    #[serde(default)]
    pub backlog: u64,
    /// The number of hosts to which it sends no requests for a while (back-off, Retry-After).
    pub resting: usize,
    /// The host with the longest of these waits, and its remaining milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_rest: Option<(String, u64)>,
    /// Why results cannot be stored, if they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<String>,
}

impl MemberInfo {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: 0,
            buckets: 0,
            pages_per_second: 0.0,
            pages: 0,
            lease_ms: 0,
            hosts: 0,
            backlog: 0,
            resting: 0,
            longest_rest: None,
            stalled: None,
        }
    }
}

/// The processes of a fleet.
pub struct Members {
    /// The number of processes that sent a heartbeat recently.
    pub live: usize,
    /// All known processes, sorted by id.
    pub all: Vec<MemberInfo>,
    /// The time of the store in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// A process is live if its last heartbeat is not older than this, in milliseconds.
    timeout_ms: u64,
}

impl Members {
    /// Sends a heartbeat and counts the live processes, which sent one within `timeout`. Deletes the processes that did
    /// not send one within four times as long.
    pub(super) fn heartbeat(
        client: &mut FleetClient,
        info: MemberInfo,
        timeout: Duration,
    ) -> Result<Self, Unreachable> {
        let timeout_ms = timeout.as_millis() as u64;
        let key = client.crawl_key("members");
        let now_ms = store_time(client, &key)?;
        let info = MemberInfo { at: now_ms, ..info };
        let text = serde_json::to_vec(&info).unwrap_or_default();
        client.keep_field("members", &info.id, text)?;
        let all = Self::all(client)?;
        let live: Vec<&MemberInfo> =
            all.iter().filter(|member| member.at.saturating_add(timeout_ms) > now_ms).collect();
        for gone in all.iter().filter(|member| member.at.saturating_add(4 * timeout_ms) < now_ms) {
            client.plain(&key, &[b"HDEL", key.as_bytes(), gone.id.as_bytes()])?;
        }
        // At least this process is live.
        let live = live.len().max(1);
        Ok(Self { live, all, now_ms, timeout_ms })
    }

    /// Whether this process has sent a heartbeat recently.
    pub fn is_live(&self, member: &MemberInfo) -> bool {
        member.at.saturating_add(self.timeout_ms) > self.now_ms
    }

    /// The processes that sent a heartbeat recently.
    pub fn live(&self) -> impl Iterator<Item = &MemberInfo> {
        self.all.iter().filter(|member| self.is_live(member))
    }

    /// All processes that are registered, sorted by id.
    pub fn all(client: &mut FleetClient) -> Result<Vec<MemberInfo>, Unreachable> {
        let key = client.crawl_key("members");
        let values = match client.plain(&key, &[b"HVALS", key.as_bytes()])? {
            Value::Array(values) => values,
            _ => Vec::new(),
        };
        let mut all: Vec<MemberInfo> =
            values.iter().filter_map(|value| serde_json::from_slice(&bytes(value)).ok()).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }

    /// Removes this process from the list.
    pub(super) fn leave(client: &mut FleetClient) -> Result<(), Unreachable> {
        let key = client.crawl_key("members");
        let id = client.owner().to_owned();
        client.plain(&key, &[b"HDEL", key.as_bytes(), id.as_bytes()]).map(drop)
    }
}

/// The current time of the node that holds `key`, in milliseconds since the Unix epoch. The local time if the reply
/// cannot be read.
fn store_time(client: &mut FleetClient, key: &str) -> Result<u64, Unreachable> {
    let local_time = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    match client.plain(key, &[b"TIME"])? {
        Value::Array(parts) => {
            let number = |index: usize| {
                parts.get(index).and_then(|part| String::from_utf8(bytes(part)).ok()?.parse::<u64>().ok())
            };
            Ok(number(0).zip(number(1)).map_or_else(local_time, |(seconds, micros)| seconds * 1_000 + micros / 1_000))
        }
        _ => Ok(local_time()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_the_store_are_bounded() {
        let settings = |change: (&str, serde_json::Value)| {
            let mut text = serde_json::json!({
                "version": "1", "key": 1, "round": 1, "buckets": 64, "max_pages": null, "max_bytes": null, "rate": null, "per_ip": null,
                "max_pages_per_host": null, "created": 0, "out": "x", "config": "{}",
            });
            text[change.0] = change.1;
            serde_json::from_value::<FleetSettings>(text)
        };
        for good in [("buckets", 65_536.into()), ("round", 1.into()), ("rate", 0.5.into())] {
            settings(good).expect("valid settings");
        }
        for bad in [
            ("buckets", u32::MAX.into()),
            ("buckets", 0.into()),
            ("round", u32::MAX.into()),
            ("round", 0.into()),
            ("rate", (-1.0).into()),
            ("rate", 0.0.into()),
        ] {
            assert!(settings(bad.clone()).is_err(), "{bad:?}");
        }
    }
}
