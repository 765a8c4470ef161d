//! [`FleetSession`]: the threads of one fleet process, from joining to leaving.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use argiope_core::base::time::WallClock;
use argiope_core::crawl::lease::Lease;
use argiope_core::{StoreError, Time};

use super::client::FleetClient;
use super::crawl::FleetSettings;
use super::fleet::FleetFrontier;
use super::lease_thread::{FleetWatcher, LeaseThread, LeaseTimes};
use super::recall_thread::RecallThread;
use super::settle_thread::{ArchiveStart, SettleThread};
use super::shared::{LeaseCommand, Shared};
use crate::segments::SegmentStore;

/// The parameters of a session.
pub struct SessionSetup {
    /// The clients of the lease thread and of the settle thread. Each has its own connections.
    pub clients: [FleetClient; 2],
    pub settings: FleetSettings,
    /// The generation of the crawl: see [`CrawlHead`](super::CrawlHead).
    pub generation: String,
    /// Where the results are stored.
    pub segments: SegmentStore,
    pub times: LeaseTimes,
    /// The number of this session in its process. It is a part of the names of segments, so that a process that lost
    /// its lease and joined again writes new segments.
    pub session: u64,
    /// The clock of the crawl.
    pub now: Box<dyn Fn() -> Time + Send + Sync>,
    /// Converts times of the crawl to the times in notes.
    pub wall: WallClock,
    /// The lease that the workers check before they send a request.
    pub lease: Lease,
    /// Called with messages for the user.
    pub notice: Box<dyn Fn(&str) + Send + Sync>,
    /// Makes the first record (`warcinfo`) of an archive file with this name.
    pub archive_start: ArchiveStart,
    /// Limit on requests in flight to one IP address, used if the settings of the crawl contain none. It is divided
    /// among the processes, at least one each.
    pub default_per_ip: Option<usize>,
    /// Called with the state of the fleet.
    pub watcher: FleetWatcher,
}

/// The membership of a process in a fleet. If it is dropped without [`close`], its leases are not released but expire,
/// and unsettled links are crawled again.
///
/// [`close`]: FleetSession::close
pub struct FleetSession {
    shared: Arc<Shared>,
    /// The lease thread.
    leases: Option<JoinHandle<()>>,
    /// The settle thread.
    settles: Option<JoinHandle<Result<(), StoreError>>>,
    /// The recall thread, in a recrawl.
    recalls: Option<JoinHandle<()>>,
}

impl FleetSession {
    /// Starts the threads. Returns the session and the frontier for the keeper.
    pub fn start(setup: SessionSetup) -> io::Result<(Self, FleetFrontier)> {
        let SessionSetup {
            clients: [leasing, settling],
            settings,
            generation,
            segments,
            times,
            session,
            now,
            wall,
            lease,
            notice,
            archive_start,
            default_per_ip,
            watcher,
        } = setup;
        let key = settings.key;
        let mut settling = settling;
        settling.set_max_per_host(settings.max_pages_per_host);
        let (to_leases, commands) = channel();
        lease.renew(now() + times.lease, now());
        let shared = Shared::new(now, lease, to_leases, notice);
        let frontier = FleetFrontier::new(Arc::clone(&shared), &settings, wall);
        let (mut to_recall, mut recalls) = (None, None);
        if settings.round > 1 {
            let (sender, taken) = channel();
            let thread = RecallThread::new(Arc::clone(&shared), segments.clone());
            recalls = Some(thread::Builder::new().name("recall".into()).spawn(move || thread.run(&taken))?);
            to_recall = Some(sender);
        }
        let leases = LeaseThread::new(
            leasing,
            Arc::clone(&shared),
            (settings, generation),
            times,
            to_recall,
            (default_per_ip, watcher),
        );
        let leases = thread::Builder::new().name("leases".into()).spawn(move || leases.run(&commands))?;
        let settles = SettleThread::new(settling, Arc::clone(&shared), segments, session, key, archive_start);
        let settles = thread::Builder::new().name("settles".into()).spawn(move || settles.run())?;
        Ok((Self { shared, leases: Some(leases), settles: Some(settles), recalls }, frontier))
    }

    /// Calls `waker` whenever the frontier has new events.
    pub fn set_waker(&self, waker: impl Fn() + Send + 'static) {
        self.shared.set_waker(Box::new(waker));
    }

    /// Settles finished links and releases all buckets, so that other processes can continue at once. Returns an error
    /// if the last results could not be stored; other processes fetch their links again.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.shared.outgoing().close = true;
        self.shared.outgoing_changed.notify_all();
        let settled = join(self.settles.take()).unwrap_or(Ok(()));
        self.shared.has_closed.store(true, Ordering::Release);
        self.shared.send_command(LeaseCommand::Close);
        join(self.leases.take());
        join(self.recalls.take());
        settled
    }
}

/// The result of a thread, if it ran to its end. A panic is ignored: what the thread did not settle is crawled again.
fn join<T>(thread: Option<JoinHandle<T>>) -> Option<T> {
    thread.and_then(|thread| thread.join().ok())
}

impl Drop for FleetSession {
    fn drop(&mut self) {
        self.shared.has_closed.store(true, Ordering::Release);
        self.shared.outgoing().abandon = true;
        self.shared.outgoing_changed.notify_all();
        self.shared.send_command(LeaseCommand::Abandon);
        join(self.settles.take());
        join(self.leases.take());
        join(self.recalls.take());
    }
}
