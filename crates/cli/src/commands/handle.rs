//! [`CrawlControl`]: through it, other threads query and control a running crawl. Used by the live view, the dashboard,
//! the control socket and the signal handler.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argiope_core::control::{Control, CrawlSource};
use argiope_core::status::{FleetStatus, HostStatus, Status};
use argiope_runtime::keeper_thread::{KeeperHandle, KeeperMessage};
use argiope_runtime::status;

use super::source;

/// How long the live view waits for a status. It must not wait long: the keeper may wait for the writer, and the writer
/// for the live view.
const STATUS_TIMEOUT: Duration = Duration::from_millis(50);
/// How long other views wait; then they show the last status.
const PATIENCE: Duration = Duration::from_secs(2);
/// Memory and disk usage are measured again after this time.
const MEASURED_FOR: Duration = Duration::from_secs(2);

/// The state of all processes of a shared crawl, as this one knows it.
pub type SharedFleet = Arc<Mutex<Option<FleetStatus>>>;

/// A running crawl, for other threads.
#[derive(Clone)]
pub struct CrawlControl(Arc<Shared>);

struct Shared {
    /// The crawl directory, where there is one.
    directory: Option<PathBuf>,
    state: Mutex<State>,
    /// The other processes, if several share the crawl.
    fleet: SharedFleet,
    /// The last status, and when memory and disk were measured for it.
    last: Mutex<(Status, Option<Instant>)>,
}

enum State {
    /// The crawl has not started. Contains the messages sent so far.
    NotYet(Vec<KeeperMessage>),
    Running(Sender<KeeperMessage>),
}

impl CrawlControl {
    /// `fleet` is set while the crawl runs, if several processes share it.
    pub fn new(directory: Option<PathBuf>, fleet: SharedFleet) -> Self {
        let state = Mutex::new(State::NotYet(Vec::new()));
        Self(Arc::new(Shared { directory, state, fleet, last: Mutex::default() }))
    }

    /// Connects the handle to the started crawl and delivers the messages that were sent before.
    pub fn set(&self, keeping: &KeeperHandle) {
        let before = std::mem::replace(&mut *self.state(), State::Running(keeping.inbox.clone()));
        if let State::NotYet(early) = before {
            for mail in early {
                self.send(mail);
            }
        }
    }

    /// Sends a message. Returns `false` if the crawl has ended.
    pub fn send(&self, mail: KeeperMessage) -> bool {
        match &mut *self.state() {
            State::NotYet(early) => {
                early.push(mail);
                true
            }
            State::Running(inbox) => inbox.send(mail).is_ok(),
        }
    }

    /// The status for the live view; the last known one if the keeper does not answer within [`STATUS_TIMEOUT`].
    pub fn status_or_last(&self) -> Status {
        self.ask(STATUS_TIMEOUT).unwrap_or_else(|| self.last().0.clone())
    }

    /// How many requests are in flight now.
    pub fn in_flight(&self) -> usize {
        self.ask(PATIENCE).map_or(0, |status| status.in_flight)
    }

    /// Asks the keeper for its status. `None` if the crawl has ended; the last known status after a timeout.
    fn ask(&self, patience: Duration) -> Option<Status> {
        let (sender, answer) = channel();
        if matches!(&*self.state(), State::NotYet(_)) {
            return Some(Status::default());
        }
        if !self.send(KeeperMessage::Status(sender)) {
            return None;
        }
        let status = match answer.recv_timeout(patience) {
            Ok(status) => status,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return Some(self.last().0.clone()),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
        };
        let mut last = self.last();
        let (memory, disk) = (last.0.memory_bytes, last.0.disk_bytes);
        let fleet = self.0.fleet.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.0 = Status { memory_bytes: memory, disk_bytes: disk, fleet, ..status };
        Some(last.0.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, (Status, Option<Instant>)> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CrawlSource for CrawlControl {
    fn status(&self) -> Option<Status> {
        self.ask(PATIENCE)?;
        let mut last = self.last();
        if last.1.is_none_or(|measured| measured.elapsed() >= MEASURED_FOR) {
            status::measure(&mut last.0, self.0.directory.as_deref());
            last.1 = Some(Instant::now());
        }
        Some(last.0.clone())
    }

    fn host(&self, name: &str) -> Option<HostStatus> {
        let (sender, answer) = channel();
        if matches!(&*self.state(), State::NotYet(_)) || !self.send(KeeperMessage::Host(name.into(), sender)) {
            return None;
        }
        answer.recv_timeout(PATIENCE).ok()?
    }

    fn control(&self, control: Control) -> Result<(), String> {
        let (sender, answer) = channel();
        if !self.send(KeeperMessage::Control(control, sender)) {
            return Err("the crawl has ended".to_owned());
        }
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| Err("the crawl did not answer in time".to_owned()))
    }

    fn explain(&self, url: &str) -> Result<String, String> {
        source::explain(self.0.directory.as_deref(), url)
    }

    fn report(&self) -> Result<String, String> {
        source::report(self.0.directory.as_deref())
    }
}
