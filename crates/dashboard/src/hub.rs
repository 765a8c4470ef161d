//! [`Hub`]: the only component that requests a [`Status`] from the crawl; all clients share it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argiope_core::crawl::control::Control;
use argiope_core::crawl::status::Status;
use serde::Serialize;
use tokio::sync::watch;

use crate::CrawlSource;

/// Interval between two statuses while clients are subscribed.
const FAST_INTERVAL: Duration = Duration::from_millis(400);
/// Interval between two statuses while only the history needs them.
const SLOW_INTERVAL: Duration = Duration::from_secs(5);
/// Number of samples in the history: two hours at the slow interval.
const MAX_SAMPLES: usize = 1_440;

/// How long a report is served again instead of a new one.
const MAX_REPORT_AGE: Duration = Duration::from_secs(10);

/// One point of the charts on the page.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HistorySample {
    /// The time since the start of the run.
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
    /// When it arrived from the crawl. `None` before the first one.
    pub at: Option<Instant>,
    /// `None` if the crawl is not running.
    pub status: Option<Arc<Status>>,
    /// The status as JSON, serialized once for all clients.
    pub json: Arc<str>,
}

/// A report that is served again.
struct Report {
    /// When it was ready.
    at: Instant,
    page: Arc<str>,
}

/// Requests statuses from the crawl and distributes them to clients.
pub struct Hub {
    source: Arc<dyn CrawlSource>,
    latest: watch::Sender<LatestStatus>,
    history: Mutex<VecDeque<HistorySample>>,
    /// Locked while a status is requested from the crawl. Clients that arrive in the meantime share its result.
    request_lock: tokio::sync::Mutex<()>,
    /// The last report. Locked while a report is made: there is one at a time.
    report: Arc<tokio::sync::Mutex<Option<Report>>>,
    /// Locked while an explanation is made.
    explain_lock: Arc<tokio::sync::Mutex<()>>,
}

impl Hub {
    pub fn new(source: Arc<dyn CrawlSource>) -> Arc<Self> {
        let no_status = LatestStatus { at: None, status: None, json: Arc::from("null") };
        Arc::new(Self {
            source,
            latest: watch::Sender::new(no_status),
            history: Mutex::default(),
            request_lock: tokio::sync::Mutex::new(()),
            report: Arc::default(),
            explain_lock: Arc::default(),
        })
    }

    /// Requests statuses as long as the server runs.
    pub async fn run(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(FAST_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last = None::<Instant>;
        loop {
            ticks.tick().await;
            let has_subscribers = self.latest.receiver_count() > 0;
            if has_subscribers || last.is_none_or(|last| last.elapsed() >= SLOW_INTERVAL) {
                last = Some(Instant::now());
                self.status_within(Duration::ZERO).await;
            }
        }
    }

    /// The status of the crawl, at most `max_age` old.
    pub async fn status_within(&self, max_age: Duration) -> LatestStatus {
        let called_at = Instant::now();
        let _guard = self.request_lock.lock().await;
        {
            let latest = self.latest.borrow();
            // A status that arrived after the start of this call is recent too. Another client requested it.
            let is_recent = |at: Instant| at > called_at || (!max_age.is_zero() && at.elapsed() < max_age);
            if latest.at.is_some_and(is_recent) {
                return latest.clone();
            }
        }
        let source = Arc::clone(&self.source);
        let status = tokio::task::spawn_blocking(move || source.status()).await.ok().flatten();
        let json = serde_json::to_string(&status).unwrap_or_else(|_| "null".to_owned());
        let latest = LatestStatus { at: Some(Instant::now()), status: status.map(Arc::new), json: json.into() };
        if let Some(status) = &latest.status {
            self.add_sample(status);
        }
        self.latest.send_replace(latest.clone());
        latest
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
        let lock = Arc::clone(&self.explain_lock);
        to_the_end(async move {
            let _guard = lock.lock().await;
            blocking(move || source.explain(&url)).await
        })
        .await
    }

    /// The report, at most [`MAX_REPORT_AGE`] old.
    pub async fn report(&self) -> Result<Arc<str>, String> {
        let source = Arc::clone(&self.source);
        let lock = Arc::clone(&self.report);
        to_the_end(async move {
            let mut last = lock.lock().await;
            if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < MAX_REPORT_AGE) {
                return Ok(Arc::clone(&last.page));
            }
            let page: Arc<str> = blocking(move || source.report()).await?.into();
            *last = Some(Report { at: Instant::now(), page: Arc::clone(&page) });
            Ok(page)
        })
        .await
    }

    /// Adds a sample to the history, unless the last one is younger than the slow interval.
    fn add_sample(&self, status: &Status) {
        let mut samples = self.samples();
        let at_seconds = status.elapsed.as_secs_f64();
        let is_due = samples.back().is_none_or(|last| {
            // Intervals are not exact, so a tenth less is enough.
            at_seconds < last.at_seconds || at_seconds - last.at_seconds >= SLOW_INTERVAL.as_secs_f64() * 0.9
        });
        if !is_due {
            return;
        }
        if samples.back().is_some_and(|last| at_seconds < last.at_seconds) {
            // A new run of the crawl has begun.
            samples.clear();
        }
        if samples.len() >= MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(HistorySample {
            at_seconds,
            pages: status.pages,
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

/// Runs work to its end, even if the client that asked for it disconnects: its lock is held as long as its thread works.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err("the request failed inside the crawler".to_owned()))
}

/// Runs a blocking call to the crawl on another thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("the request failed inside the crawler".to_owned()))
}
