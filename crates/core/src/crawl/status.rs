//! [`Status`]: a running crawl at one moment, as plain data.
//!
//! One value feeds the live view, the dashboard, `/metrics` and `ctl status`: no view computes numbers of its own. The
//! JSON form of this type is part of the public interface (`/api/v1/status`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::base::budget::MemoryPart;
use crate::base::outcome::{ErrorKind, Outcome};
use crate::crawl::rules::Pace;
pub use crate::crawl::wait::{WaitReason, WidthReason};

/// A running crawl at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    pub state: CrawlState,
    /// Time since this run began.
    #[serde(rename = "elapsed_seconds", with = "seconds")]
    pub elapsed: Duration,
    /// URLs that this run requested and settled. URLs whose host was not contacted are not included.
    pub pages: u64,
    /// URLs that this run settled, by outcome.
    pub outcomes: OutcomeCounts,
    /// Responses with a status of 1xx, 2xx, 3xx, 4xx, and 5xx or above.
    pub status_classes: [u64; 5],
    /// Errors by kind.
    pub error_kinds: BTreeMap<ErrorKind, u64>,
    pub in_flight: usize,
    /// URLs that are known and not requested yet.
    pub queued: u64,
    /// Bytes received, robots.txt and sitemaps included.
    pub bytes: u64,
    /// Pages a second over the last few seconds.
    pub pages_per_second: f64,
    /// Received bytes a second over the last few seconds.
    pub bytes_per_second: f64,
    /// Hosts that had work in this run.
    pub hosts: u64,
    /// The hosts with the most requests in flight, busiest first, then those with the longest queues.
    pub busiest: Vec<HostStatus>,
    /// The hosts that take longest to respond, slowest first.
    pub slowest: Vec<HostStatus>,
    /// Why the crawl waits, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<HostWait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u64>,
    #[serde(rename = "max_time_seconds", with = "optional_seconds", skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Duration>,
    pub pace: Pace,
    /// Limit on pages a second over all hosts, if set by `--rate` or `ctl rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Patterns that were excluded while the crawl was running.
    pub excludes: Vec<Box<str>>,
    /// Resident memory of the process; zero if unknown.
    pub memory_bytes: u64,
    /// `--max-memory`, or its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<u64>,
    /// The parts of the memory account that are not empty, in bytes.
    pub memory_parts: BTreeMap<MemoryPart, u64>,
    /// Size of the crawl directory; zero without one.
    pub disk_bytes: u64,
    /// The latest URLs that could not be fetched, newest first.
    pub errors: Vec<RecentError>,
    /// Some requests in flight, those that take longest first.
    pub current: Vec<CurrentFetch>,
    /// All processes of the crawl, if several share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetStatus>,
}

/// A crawl that several processes share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetStatus {
    /// The round of the crawl, counted from 1.
    pub round: u32,
    /// Number of buckets.
    pub buckets: u64,
    /// Number of buckets that no process owns.
    pub free_buckets: u64,
    /// Number of known URLs. This and all following counts are sums over all processes.
    pub known: u64,
    pub queued: u64,
    pub leased: u64,
    pub settled: u64,
    pub pages_per_second: f64,
    pub processes: Vec<ProcessStatus>,
}

/// One process of a shared crawl.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    pub id: Box<str>,
    /// Whether this process reported the status.
    pub is_this: bool,
    /// Number of buckets that it owns.
    pub buckets: u64,
    /// Pages fetched since it joined.
    pub pages: u64,
    pub pages_per_second: f64,
    /// Time since its last heartbeat.
    pub silent_seconds: f64,
    /// Number of hosts that it backs off from.
    pub resting: u64,
    /// Why its results cannot be stored; `None` if they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Box<str>>,
}

/// What a crawl is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlState {
    #[default]
    Running,
    /// No new requests are started until the crawl is resumed.
    Paused,
    /// No new requests are started. The crawl ends when requests in flight have ended.
    Draining,
}

impl CrawlState {
    pub const ALL: &'static [Self] = &[Self::Running, Self::Paused, Self::Draining];

    /// The name in JSON and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Draining => "draining",
        }
    }
}

/// One host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostStatus {
    pub host: Box<str>,
    pub in_flight: usize,
    /// How many requests may be in flight at once now.
    pub width: usize,
    /// The reason for this width.
    pub width_reason: WidthReason,
    /// Limit on requests a second, because the host refused a higher rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_cap: Option<f64>,
    /// The time from one request to the next at the present pace.
    #[serde(rename = "spacing_seconds", with = "seconds")]
    pub spacing: Duration,
    pub queued: u64,
    /// The moving average of the time to the first byte; none before the first response.
    #[serde(rename = "mean_ttfb_seconds", with = "optional_seconds", skip_serializing_if = "Option::is_none")]
    pub mean_ttfb: Option<Duration>,
    /// Why no request starts now, if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<WaitReason>,
    /// Time until the next request may start; zero if it waits for an event.
    #[serde(rename = "next_in_seconds", with = "seconds")]
    pub next_in: Duration,
}

/// Why the crawl starts no request at a host now, and until when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostWait {
    pub host: Box<str>,
    pub reason: WaitReason,
    #[serde(rename = "next_in_seconds", with = "seconds")]
    pub next_in: Duration,
}

/// A URL that could not be fetched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecentError {
    pub url: Box<str>,
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// When it failed, counted from the start of the run.
    #[serde(rename = "at_seconds", with = "seconds")]
    pub at: Duration,
}

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurrentFetch {
    pub url: Box<str>,
    /// How long it has been in flight.
    #[serde(rename = "for_seconds", with = "seconds")]
    pub elapsed: Duration,
}

/// How many URLs ended with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts([u64; Outcome::ALL.len()]);

impl OutcomeCounts {
    pub fn add(&mut self, outcome: Outcome) {
        if let Some(count) = self.0.get_mut(outcome as usize) {
            *count += 1;
        }
    }

    pub fn get(&self, outcome: Outcome) -> u64 {
        self.0.get(outcome as usize).copied().unwrap_or(0)
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Outcomes with a count above zero, in the order of the record format.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        Outcome::ALL.iter().map(|outcome| (*outcome, self.get(*outcome))).filter(|(_, count)| *count > 0)
    }
}

impl FromIterator<(Outcome, u64)> for OutcomeCounts {
    fn from_iter<I: IntoIterator<Item = (Outcome, u64)>>(counts: I) -> Self {
        let mut outcomes = Self::default();
        for (outcome, count) in counts {
            if let Some(slot) = outcomes.0.get_mut(outcome as usize) {
                *slot += count;
            }
        }
        outcomes
    }
}

/// An object with one key for every outcome, zeros included.
impl Serialize for OutcomeCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Outcome::ALL.iter().map(|outcome| (outcome.as_str(), self.get(*outcome))))
    }
}

impl<'de> Deserialize<'de> for OutcomeCounts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = BTreeMap::<Outcome, u64>::deserialize(deserializer)?;
        Ok(counts.into_iter().collect())
    }
}

/// Serializes durations as seconds with a fraction.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(span.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Ok(Duration::try_from_secs_f64(f64::deserialize(deserializer)?).unwrap_or_default())
    }
}

/// Like [`seconds`]; `None` becomes null.
mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option)]
    pub fn serialize<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        span.map(|span| span.as_secs_f64()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_separately() {
        let mut outcomes = OutcomeCounts::default();
        for outcome in Outcome::ALL {
            outcomes.add(*outcome);
        }
        assert_eq!(outcomes.total(), 7);
        assert!(outcomes.iter().all(|(_, count)| count == 1));
        let one: OutcomeCounts = [(Outcome::Robots, 3)].into_iter().collect();
        assert_eq!(one.iter().collect::<Vec<_>>(), [(Outcome::Robots, 3)]);
    }

    #[test]
    fn a_status_is_restored_from_its_json_form() {
        let status = Status {
            state: CrawlState::Paused,
            elapsed: Duration::from_millis(1_500),
            outcomes: [(Outcome::Ok, 2), (Outcome::Failed, 1)].into_iter().collect(),
            error_kinds: [(ErrorKind::Reset, 1)].into_iter().collect(),
            busiest: vec![HostStatus {
                host: "h".into(),
                reason: Some(WaitReason::CrawlDelay),
                mean_ttfb: Some(Duration::from_millis(250)),
                next_in: Duration::from_millis(500),
                ..HostStatus::default()
            }],
            waiting: Some(HostWait { host: "h".into(), reason: WaitReason::Dns, next_in: Duration::ZERO }),
            max_time: Some(Duration::from_secs(60)),
            rate: Some(2.5),
            excludes: vec!["/private".into()],
            max_memory: Some(1 << 30),
            memory_parts: [(MemoryPart::Frontier, 7)].into_iter().collect(),
            errors: vec![RecentError {
                url: "http://h/".into(),
                outcome: Outcome::Failed,
                status: None,
                kind: Some(ErrorKind::Reset),
                at: Duration::from_secs(1),
            }],
            current: vec![CurrentFetch { url: "http://h/slow".into(), elapsed: Duration::from_secs(2) }],
            ..Status::default()
        };
        let json = serde_json::to_string(&status).expect("plain data");
        assert_eq!(serde_json::from_str::<Status>(&json).expect("its own form"), status);
        assert!(json.contains(r#""elapsed_seconds":1.5"#) && json.contains(r#""not_modified":0"#), "{json}");
    }
}
