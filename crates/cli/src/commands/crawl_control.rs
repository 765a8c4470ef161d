//! [`CrawlControl`]: queries and controls a running crawl from other threads. Used by the live view, the dashboard, the
//! control socket and the signal handler.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argiope_core::crawl::control::{Control, CrawlSource};
use argiope_core::crawl::status::{FleetStatus, HostStatus, Status};
use argiope_runtime::keeper_thread::{Inbox, KeeperHandle, KeeperMessage};
use argiope_runtime::status;

use super::source;

/// How long the live view and the handler of SIGUSR1 wait for a status. The time is short because the keeper may be
/// waiting for the writer, and the writer for the live view.
const LIVE_VIEW_TIMEOUT: Duration = Duration::from_millis(50);
/// How long all other requests wait for a response of the keeper.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Memory and disk usage are measured at most once in this time.
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);

/// Makes a change for all processes of a fleet.
pub type FleetControl = Box<dyn Fn(&Control) -> Result<(), String> + Send + Sync>;

/// What connects the views of a process to its fleet.
#[derive(Clone, Default)]
pub struct SharedFleet(Arc<FleetLink>);

#[derive(Default)]
struct FleetLink {
    /// The state of the fleet as this process last read it from the store. `None` if the crawl is not shared, or before
    /// the first read.
    status: Mutex<Option<FleetStatus>>,
    /// `None` if the crawl is not shared: changes are then for this process.
    control: Option<FleetControl>,
}

impl SharedFleet {
    /// For a process of a fleet.
    pub fn with_control(control: FleetControl) -> Self {
        Self(Arc::new(FleetLink { status: Mutex::default(), control: Some(control) }))
    }

    pub fn set_status(&self, status: FleetStatus) {
        *self.0.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    fn status(&self) -> Option<FleetStatus> {
        self.0.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A handle to a running crawl, for other threads.
#[derive(Clone)]
pub struct CrawlControl(Arc<Shared>);

struct Shared {
    /// The crawl directory; `None` for a crawl in memory or in a fleet.
    directory: Option<PathBuf>,
    state: Mutex<State>,
    fleet: SharedFleet,
    last: Mutex<LastStatus>,
}

/// The last known status.
#[derive(Default)]
struct LastStatus {
    status: Status,
    /// When its memory and disk usage were measured.
    measured: Option<Instant>,
}

enum State {
    /// The crawl has not started. Contains the messages to deliver when it starts.
    NotStarted(Vec<KeeperMessage>),
    Running(Inbox),
}

impl CrawlControl {
    /// If several processes share the crawl, another thread updates `fleet` while the crawl runs.
    pub fn new(directory: Option<PathBuf>, fleet: SharedFleet) -> Self {
        let state = Mutex::new(State::NotStarted(Vec::new()));
        Self(Arc::new(Shared { directory, state, fleet, last: Mutex::default() }))
    }

    /// Connects the handle to the started crawl and delivers the messages that were sent before.
    pub fn connect(&self, keeper: &KeeperHandle) {
        let previous = std::mem::replace(&mut *self.state(), State::Running(keeper.inbox.clone()));
        if let State::NotStarted(early) = previous {
            for message in early {
                self.send(message);
            }
        }
    }

    /// Sends a message to the keeper, or stores it if the crawl has not started. Returns `false` if the crawl has ended.
    pub fn send(&self, message: KeeperMessage) -> bool {
        match &mut *self.state() {
            State::NotStarted(early) => {
                early.push(message);
                true
            }
            State::Running(inbox) => inbox.send(message).is_ok(),
        }
    }

    /// The status for the live view; the last known one if the keeper does not respond within [`LIVE_VIEW_TIMEOUT`], or if
    /// the crawl has ended.
    pub fn status_or_last(&self) -> Status {
        self.request_status(LIVE_VIEW_TIMEOUT).unwrap_or_else(|| self.last().status.clone())
    }

    /// How many requests are in flight now; 0 if the crawl has ended.
    pub fn in_flight(&self) -> usize {
        self.request_status(RESPONSE_TIMEOUT).map_or(0, |status| status.in_flight)
    }

    /// Requests a status from the keeper. Returns the last known status after a timeout, `None` if the crawl has ended, and a
    /// default status if the crawl has not started.
    fn request_status(&self, timeout: Duration) -> Option<Status> {
        let (sender, response) = channel();
        if matches!(&*self.state(), State::NotStarted(_)) {
            return Some(Status::default());
        }
        if !self.send(KeeperMessage::Status(sender)) {
            return None;
        }
        let status = match response.recv_timeout(timeout) {
            Ok(status) => status,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return Some(self.last().status.clone()),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
        };
        let mut last = self.last();
        // The keeper does not measure memory and disk: keep the last values.
        let (memory, disk) = (last.status.memory_bytes, last.status.disk_bytes);
        let fleet = self.0.fleet.status();
        last.status = Status { memory_bytes: memory, disk_bytes: disk, fleet, ..status };
        Some(last.status.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, LastStatus> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CrawlSource for CrawlControl {
    fn status(&self) -> Option<Status> {
        self.request_status(RESPONSE_TIMEOUT)?;
        let mut last = self.last();
        if last.measured.is_none_or(|measured| measured.elapsed() >= MEASURE_INTERVAL) {
            status::measure(&mut last.status, self.0.directory.as_deref());
            last.measured = Some(Instant::now());
        }
        Some(last.status.clone())
    }

    fn host(&self, name: &str) -> Option<HostStatus> {
        let (sender, response) = channel();
        if matches!(&*self.state(), State::NotStarted(_)) || !self.send(KeeperMessage::Host(name.into(), sender)) {
            return None;
        }
        response.recv_timeout(RESPONSE_TIMEOUT).ok()?
    }

    fn control(&self, control: Control) -> Result<(), String> {
        if let Some(change) = &self.0.fleet.0.control {
            return change(&control);
        }
        let (sender, response) = channel();
        if !self.send(KeeperMessage::Control(control, sender)) {
            return Err("the crawl has ended".to_owned());
        }
        response.recv_timeout(RESPONSE_TIMEOUT).unwrap_or_else(|_| Err("the crawl did not respond in time".to_owned()))
    }

    fn explain(&self, url: &str) -> Result<String, String> {
        source::explain(self.0.directory.as_deref(), url)
    }

    fn report(&self) -> Result<String, String> {
        source::report(self.0.directory.as_deref())
    }
}
