//! The keeper's thread: connects frontier, engine, resolver and writer.
//!
//! A crawl without a crawl directory that shares threads with others has no thread of its own: its keeper is a task. The
//! code is the same; only `Mailbox` waits in another way.
//!
//! [`Keeper`] decides what is fetched and when. This module passes messages, waits, and applies the limits of the process:
//! time, disk and memory. All events arrive in one inbox, so there is one place to wait, and a crawl ends as soon as there
//! is nothing left to wait for.

mod crawl_clock;
mod limits;
mod messages;
mod run;
#[cfg(test)]
mod tests;
mod unread;

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use argiope_core::base::job::{Job, SendReporter};
use argiope_core::base::time::WallClock;
use argiope_core::crawl::fetcher::{FetcherContext, PartSender};
use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::frontier::{CrawlEvent, FrontierWaker};
use argiope_core::crawl::schedule::keeper::{Changes, End, Keeper};
use argiope_core::crawl::schedule::trap::Cut;
use argiope_core::crawl::visit::Visit;
use argiope_core::{LaneId, Time};
pub use argiope_engine::Clock;
use argiope_engine::{Resolver, SharedThread, VisitSender};
pub use argiope_store::MemoryFrontier;
use argiope_store::Store;
use tokio::sync::oneshot;

use self::crawl_clock::CrawlClock;
use self::unread::LibraryReader;
use crate::disk_limit::DiskLimit;
use crate::error::Error;
use crate::fair_queue::FairQueue;
use crate::fetchers::Fetchers;
use crate::keeper_message::Mailbox;
pub use crate::keeper_message::{Inbox, KeeperMessage, Signal, VisitConsumer};
use crate::status::CrawlTally;
use crate::writer_thread::{CommitQueue, OutputTarget};

/// A running crawl.
pub struct KeeperHandle {
    pub inbox: Inbox,
    keeper: RunningKeeper,
}

/// The result of a keeper, or the payload of its panic.
pub type KeeperResult = Result<Result<Summary, Error>, Box<dyn Any + Send>>;

enum RunningKeeper {
    OnThread(JoinHandle<Result<Summary, Error>>),
    /// A task on a shared thread.
    OnSharedThread(oneshot::Receiver<KeeperResult>),
}

/// The result of a crawl.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// Why it ended.
    pub end: End,
    /// Counts of this run.
    pub tally: CrawlTally,
    /// The number of known URLs that are not finished.
    pub left: u64,
    /// The number of pages that the reader of the library has not processed. The next run in the crawl directory
    /// delivers them again.
    pub unread: u64,
    /// How long the run took.
    pub elapsed: Duration,
    /// The changes since the last round, if there was one.
    pub changes: Option<Changes>,
    /// Places where links were skipped as crawler traps.
    pub cuts: Vec<Cut>,
    /// Messages for the user about the run.
    pub notices: Vec<String>,
}

/// The parts from which a crawl is started.
pub struct CrawlSetup<F, T> {
    pub frontier: F,
    pub rules: Arc<Rules>,
    pub fetchers: Fetchers,
    pub clock: Clock,
    pub consumer: T,
    pub target: OutputTarget,
    /// Whether the user of the library may add links during the crawl. The crawl then stays open until the user has
    /// processed all pages.
    pub accepts_links: bool,
}

impl KeeperHandle {
    /// Starts the workers, hands out the first jobs, and starts the keeper's thread. Once the workers run, the first jobs
    /// are handed out on the caller's thread, so that they do not wait until the threads of keeper and writer have
    /// started.
    pub fn start<F, T>(setup: CrawlSetup<F, T>) -> Result<Self, Error>
    where
        F: Store + Send + 'static,
        T: VisitConsumer + 'static,
    {
        // Whoever writes to a disk waits for it, which would delay the other crawls of a shared thread.
        let shared = setup.fetchers.shared_thread().filter(|_| setup.target.folder.is_none()).cloned();
        let (inbox, mailbox) = Mailbox::open(shared.is_some());
        let mut running = KeeperLoop::new(setup, &inbox)?;
        // If the disk limit is already reached, no pages are fetched.
        running.check_disk(running.clock.now());
        // The result is ignored, because the keeper's thread calls `hand_out` again.
        let _ = running.hand_out(running.clock.now())?;
        let keeper = match shared {
            Some(thread) => RunningKeeper::OnSharedThread(running.spawn_on(&thread, mailbox)),
            None => {
                let run = move || run_blocking(running.run_to_end(&mailbox));
                let thread = thread::Builder::new().name("keeper".into()).spawn(run);
                RunningKeeper::OnThread(thread.map_err(Error::no_thread)?)
            }
        };
        Ok(Self { inbox, keeper })
    }

    /// Waits for the end of the crawl. A task is not waited for on a thread that runs tasks.
    pub fn join(self) -> Result<Summary, Error> {
        drop(self.inbox);
        let joined = match self.keeper {
            RunningKeeper::OnThread(thread) => thread.join(),
            RunningKeeper::OnSharedThread(end) => end.blocking_recv().unwrap_or_else(|_| Ok(Err(died()))),
        };
        joined.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The end of a keeper that is a task, to be awaited.
    ///
    /// # Errors
    ///
    /// The keeper has a thread of its own: see [`join`](Self::join).
    pub fn into_end(self) -> Result<oneshot::Receiver<KeeperResult>, Self> {
        match self.keeper {
            RunningKeeper::OnSharedThread(end) => Ok(end),
            keeper => Err(Self { keeper, ..self }),
        }
    }
}

/// The error for a keeper that has ended without a result.
fn died() -> Error {
    Error::internal("the keeper thread died")
}

/// Runs a future that blocks in place of being pending.
fn run_blocking<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

/// The wall-clock time at the crawl's time zero.
pub fn wall_clock(clock: &Clock) -> WallClock {
    let since = clock.wall_start().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallClock { start: i64::try_from(since.as_micros()).unwrap_or(i64::MAX) }
}

/// The state of the keeper's thread.
struct KeeperLoop<F> {
    keeper: Keeper<F>,
    fetchers: Fetchers,
    resolver: Resolver,
    commits: CommitQueue,
    clock: CrawlClock,
    tally: CrawlTally,
    /// How long the crawl waits for the requests in flight after [`KeeperMessage::Stop`].
    drain_time: Duration,
    rules: Arc<Rules>,
    /// When the drain time ends; [`Time::NEVER`] before [`KeeperMessage::Stop`].
    drain_until: Time,
    /// Whether a user of the library reads the pages and may add links.
    accepts_links: bool,
    reader: LibraryReader,
    next_memory_check: Time,
    /// The check of `--max-disk`; `None` without this limit or without a crawl directory.
    disk: Option<DiskLimit>,
    /// Visits that have arrived and are not processed yet.
    visits: FairQueue<Option<LaneId>, Box<Visit>>,
    /// Jobs whose requests must not be sent twice, such as forms. Each is marked as sent in the log. It is handed out
    /// when the log is durable up to the position beside it.
    unsent: Vec<(u64, Job)>,
    /// Whether the run begins and ends with a record.
    has_run_records: bool,
}

/// The error for an engine that could not be started.
fn no_engine(error: std::io::Error) -> Error {
    Error::engine(format!("the engine could not be started: {error}"), Some(error))
}

impl<F: Store + Send + 'static> KeeperLoop<F> {
    /// Runs the crawl as a task on this thread.
    fn spawn_on(self, thread: &SharedThread, mailbox: Mailbox) -> oneshot::Receiver<KeeperResult> {
        let (sender, end) = oneshot::channel();
        thread.spawn(move || async move {
            let mut run = Box::pin(async move { self.run_to_end(&mailbox).await });
            let result = poll_fn(|cx| {
                let polled = catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx)));
                polled.map_or_else(|panic| Poll::Ready(Err(panic)), |poll| poll.map(Ok))
            });
            // Ignored: the crawl may have been dropped.
            let _ = sender.send(result.await);
        });
        end
    }
}

impl<F: Store> KeeperLoop<F> {
    fn new<T: VisitConsumer + 'static>(setup: CrawlSetup<F, T>, inbox: &Inbox) -> Result<Self, Error> {
        let CrawlSetup { frontier, rules, mut fetchers, clock, consumer, mut target, accepts_links } = setup;
        let to_keeper = inbox.clone();
        let reports = VisitSender::new(move |visits: &mut Vec<Box<Visit>>| {
            // Sending fails if the keeper has ended. Then the visits are not needed.
            let _ = to_keeper.send(KeeperMessage::Visits(std::mem::take(visits)));
        });
        let to_keeper = inbox.clone();
        let parts = PartSender::new(move |message| {
            let _ = to_keeper.send(KeeperMessage::Part(message));
        });
        fetchers
            .start(&FetcherContext { rules: Arc::clone(&rules), visits: reports, parts }, clock)
            .map_err(no_engine)?;
        let to_keeper = inbox.clone();
        let resolver = Resolver::start(&rules, fetchers.shared_resolver(&rules), move |answer| {
            let _ = to_keeper.send(KeeperMessage::Resolved(answer));
        });
        let wall_clock = fetchers.virtual_start().unwrap_or_else(|| wall_clock(&clock));
        let clock = CrawlClock::new(clock, fetchers.virtual_start().is_some());
        let mut keeper = Keeper::new(frontier, Arc::clone(&rules), wall_clock);
        keeper.bench_mut().limit_concurrency(fetchers.capacity());
        let to_keeper = inbox.clone();
        keeper.bench_mut().set_send_reporter(SendReporter::new(move |request| {
            let _ = to_keeper.send(KeeperMessage::Sent(request));
        }));
        let to_keeper = inbox.clone();
        let waker = FrontierWaker::new(move || {
            // Sending fails if the keeper has ended. Then it needs no news.
            let _ = to_keeper.send(KeeperMessage::Wake);
        });
        keeper.frontier_mut().tell(CrawlEvent::Started(&waker))?;
        if let Some(folder) = &target.folder {
            keeper.resume_archive(folder.outputs.iter().map(|(name, length)| (&**name, *length)));
        }
        if accepts_links {
            keeper.keep_open_after_pages();
        }
        keeper.begin(clock.now())?;
        let folder = target.folder.as_ref().zip(rules.max_disk);
        let disk = folder.map(|(folder, limit)| DiskLimit::new(Arc::clone(&folder.files), limit));
        let first_line = target.first_line.take();
        let has_run_records = first_line.is_some();
        let mut commits = CommitQueue::new(target, consumer, inbox.clone(), rules.max_memory);
        // The first commit lists the output files, so it precedes all writes to them. It is sent after the first
        // requests.
        commits.prepare_first_commit(keeper.frontier_mut())?;
        if let Some(line) = first_line {
            commits.add_line(line, keeper.frontier_mut(), clock.now())?;
        }
        // Wait for the workers only now, because nothing above needs them.
        fetchers.wait_ready().map_err(no_engine)?;
        Ok(Self {
            keeper,
            resolver,
            commits,
            clock,
            tally: CrawlTally::default(),
            drain_time: rules.drain_time,
            drain_until: Time::NEVER,
            accepts_links,
            reader: LibraryReader::default(),
            next_memory_check: Time::ZERO,
            disk,
            visits: FairQueue::default(),
            unsent: Vec::new(),
            has_run_records,
            fetchers,
            rules,
        })
    }
}
