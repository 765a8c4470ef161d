//! [`Hub`]: the only component that requests a [`Status`] from the crawl; all clients share it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argiope_core::control::Control;
use argiope_core::status::Status;
use serde::Serialize;
use tokio::sync::watch;

use crate::CrawlSource;

/// Interval between two statuses while clients are subscribed.
const WATCHED: Duration = Duration::from_millis(400);
/// Interval between two statuses while only the history needs them.
const UNWATCHED: Duration = Duration::from_secs(5);
/// Number of samples in the history: two hours at the slow interval.
const HISTORY: usize = 1_440;

/// One point of the charts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HistorySample {
    pub at_seconds: f64,
    pub pages: u64,
    pub pages_per_second: f64,
    pub bytes_per_second: f64,
    pub in_flight: usize,
    pub queued: u64,
    pub memory_bytes: u64,
}

/// The latest status.
#[derive(Clone, Debug)]
pub struct LatestStatus {
    pub at: Instant,
    /// `None` if the crawl is not running.
    pub status: Option<Arc<Status>>,
    /// The status as JSON, serialized once for all clients.
    pub json: Arc<str>,
}

/// Requests statuses from the crawl and distributes them to clients.
pub struct Hub {
    source: Arc<dyn CrawlSource>,
    latest: watch::Sender<LatestStatus>,
    history: Mutex<VecDeque<HistorySample>>,
    /// Held while a status is requested from the crawl. Clients that arrive in the meantime share its result.
    taking: tokio::sync::Mutex<()>,
}

impl Hub {
    pub fn new(source: Arc<dyn CrawlSource>) -> Arc<Self> {
        let nothing = LatestStatus { at: Instant::now(), status: None, json: Arc::from("null") };
        Arc::new(Self {
            source,
            latest: watch::Sender::new(nothing),
            history: Mutex::default(),
            taking: tokio::sync::Mutex::new(()),
        })
    }

    /// Requests statuses as long as the server runs.
    pub async fn run(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(WATCHED);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last = None::<Instant>;
        loop {
            ticks.tick().await;
            let watched = self.latest.receiver_count() > 0;
            if watched || last.is_none_or(|last| last.elapsed() >= UNWATCHED) {
                last = Some(Instant::now());
                self.take(Duration::ZERO).await;
            }
        }
    }

    /// The status of the crawl, at most `max_age` old.
    pub async fn take(&self, max_age: Duration) -> LatestStatus {
        let began = Instant::now();
        let _turn = self.taking.lock().await;
        {
            let latest = self.latest.borrow();
            let is_recent = latest.at > began || (!max_age.is_zero() && latest.at.elapsed() < max_age);
            if latest.status.is_some() && is_recent {
                return latest.clone();
            }
        }
        let source = Arc::clone(&self.source);
        let status = tokio::task::spawn_blocking(move || source.status()).await.ok().flatten();
        let json = serde_json::to_string(&status).unwrap_or_else(|_| "null".to_owned());
        let taken = LatestStatus { at: Instant::now(), status: status.map(Arc::new), json: json.into() };
        if let Some(status) = &taken.status {
            self.remember(status);
        }
        self.latest.send_replace(taken.clone());
        taken
    }

    /// Subscribes to all further statuses. While a subscriber exists, the fast interval applies.
    pub fn subscribe(&self) -> watch::Receiver<LatestStatus> {
        self.latest.subscribe()
    }

    pub fn history(&self) -> Vec<HistorySample> {
        self.samples().iter().copied().collect()
    }

    pub async fn control(&self, control: Control) -> Result<(), String> {
        let source = Arc::clone(&self.source);
        blocking(move || source.control(control)).await
    }

    pub async fn explain(&self, url: String) -> Result<String, String> {
        let source = Arc::clone(&self.source);
        blocking(move || source.explain(&url)).await
    }

    pub async fn report(&self) -> Result<String, String> {
        let source = Arc::clone(&self.source);
        blocking(move || source.report()).await
    }

    /// Adds a sample to the history, at the slow interval.
    fn remember(&self, status: &Status) {
        let mut samples = self.samples();
        let at_seconds = status.elapsed.as_secs_f64();
        let is_due = samples.back().is_none_or(|last| {
            at_seconds < last.at_seconds || at_seconds - last.at_seconds >= UNWATCHED.as_secs_f64() * 0.9
        });
        if !is_due {
            return;
        }
        if samples.back().is_some_and(|last| at_seconds < last.at_seconds) {
            // A new run of the crawl has begun.
            samples.clear();
        }
        if samples.len() >= HISTORY {
            samples.pop_front();
        }
        samples.push_back(HistorySample {
            at_seconds,
            pages: status.outcomes.fetched(),
            pages_per_second: status.pages_per_second,
            bytes_per_second: status.bytes_per_second,
            in_flight: status.in_flight,
            queued: status.queued,
            memory_bytes: status.memory_bytes,
        });
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<HistorySample>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a blocking call to the crawl on another thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("the request failed inside the crawler".to_owned()))
}
