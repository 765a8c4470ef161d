//! The keeper's thread: connects frontier, engine, resolver and writer.
//!
//! All decisions are made by [`Keeper`]; this file only passes messages and waits. All events arrive in one inbox, so
//! there is one place to wait, and a crawl ends as soon as there is nothing left to wait for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use argiope_core::budget::MemoryPart;
use argiope_core::control::{Control, ControlVerdict};
use argiope_core::output::record::WallClock;
use argiope_core::rules::Rules;
use argiope_core::schedule::carryover::UnreadPages;
use argiope_core::schedule::frontier::FrontierWaker;
use argiope_core::schedule::job::{Job, SendReporter, SentRequest};
use argiope_core::schedule::keeper::{Changes, End, Keeper, Order, Settled};
use argiope_core::schedule::trap::Cut;
use argiope_core::status::{HostStatus, Status};
use argiope_core::visit::{SiteFile, Visit};
use argiope_core::{LaneId, Link, Time, Url};
pub use argiope_engine::Clock;
use argiope_engine::{DnsAnswer, DnsQuery, EngineKind, Resolver, StopMode, VisitSender, WorkerPool};
pub use argiope_store::MemoryFrontier;

use crate::disk_limit::DiskLimit;
use crate::error::Error;
use crate::fair_queue::FairQueue;
use crate::run_lines;
use crate::status::{self, CrawlTally};
use crate::writer_thread::{CommitBatch, CommitFrontier, CommitQueue, OutputTarget};

/// How many visits one iteration of the loop processes before new jobs are handed out. With a larger number, fast hosts
/// would delay all others.
const VISITS_PER_ITERATION: usize = 4;
/// How often memory use is reported to the memory budget.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The average length of a link, in bytes.
const LINK_BYTES: usize = 128;
/// The minimum memory for host names, even if `--max-memory` is smaller.
const MIN_HOST_BYTES: u64 = 1 << 20;

/// The messages to the keeper.
pub enum KeeperMessage {
    Visits(Vec<Box<Visit>>),
    /// A request to a host with a delay was sent.
    Sent(SentRequest),
    Resolved(DnsAnswer),
    /// Links that the user of the library adds.
    Feed(Vec<Link>),
    /// Fetch this robots.txt, but no pages of its host.
    Robots(Url),
    /// The user of the library has processed this many pages since the start.
    Processed(u64),
    /// Keeps the crawl open for more links, until every `Hold` is followed by a [`KeeperMessage::Release`].
    Hold,
    Release,
    /// The reader takes no more pages. The crawl does not wait for it.
    Detach,
    /// A commit is durable.
    Durable(CommitBatch),
    /// The writer has failed.
    Fault(Error),
    /// Hand out no more jobs; end when the jobs in flight have ended, or after the drain time.
    Stop(End),
    /// Answer with the crawl's status.
    Status(Sender<Status>),
    /// Answer with the state of the host with this name, if there is work for it now.
    Host(Box<str>, Sender<Option<HostStatus>>),
    /// Apply a command of the user to the running crawl, and answer whether it was applied.
    Control(Control, Sender<Result<(), String>>),
    /// End now, without waiting for the jobs in flight.
    EndNow,
    /// Wakes the keeper, because `Frontier::news` has something to return.
    Wake,
}

/// Receives the settled visits once they are durable, to print, count or show them.
pub trait VisitConsumer: Send {
    /// Called for each settled visit, in order.
    fn take(&mut self, settled: Settled);
    /// Called for a record that does not belong to a visit: the start or the end of a run.
    fn line(&mut self, _line: &[u8]) {}
    /// A batch is complete: flush what readers may be waiting for.
    fn flush(&mut self);
}

/// A running crawl.
pub struct KeeperHandle {
    pub inbox: Sender<KeeperMessage>,
    thread: JoinHandle<Result<Summary, Error>>,
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
    pub engine: EngineKind,
    pub clock: Clock,
    pub consumer: T,
    pub target: OutputTarget,
    /// Whether the user of the library may add links during the crawl. The crawl then stays open until the user has
    /// processed all pages.
    pub accepts_links: bool,
}

impl KeeperHandle {
    /// Starts the workers, hands out the first jobs, and starts the keeper's thread. The first jobs are handed out on
    /// the caller's thread, so that the first request is on the wire before the other threads have started.
    pub fn start<F, T>(setup: CrawlSetup<F, T>) -> Result<Self, Error>
    where
        F: CommitFrontier + Send + 'static,
        T: VisitConsumer + 'static,
    {
        let (inbox, messages) = channel();
        let mut running = KeeperLoop::new(setup, &inbox)?;
        // If the disk limit is already reached, no pages are fetched.
        running.check_disk(running.clock.now());
        // The result is ignored, because the keeper's thread calls `hand_out` again.
        let _ = running.hand_out(running.clock.now())?;
        let thread = thread::Builder::new().name("keeper".into()).spawn(move || running.run_to_end(&messages));
        Ok(Self { inbox, thread: thread.map_err(Error::no_thread)? })
    }

    /// Waits for the end of the crawl.
    pub fn join(self) -> Result<Summary, Error> {
        drop(self.inbox);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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
    pool: WorkerPool,
    resolver: Resolver,
    commits: CommitQueue,
    clock: Clock,
    tally: CrawlTally,
    /// When `--max-time` is over; [`Time::NEVER`] without this limit.
    deadline: Time,
    /// How long the crawl waits for the requests in flight after [`KeeperMessage::Stop`].
    drain_time: Duration,
    rules: Arc<Rules>,
    /// When the drain time ends; [`Time::NEVER`] before [`KeeperMessage::Stop`].
    drain_until: Time,
    /// How many pages were passed to the consumer, or are about to be.
    delivered: u64,
    /// Whether a user of the library reads the pages and may add links.
    accepts_links: bool,
    /// One entry for each page that the reader has not processed, in order: whether the page was fetched.
    unread: VecDeque<bool>,
    /// Whether the reader takes no more pages.
    has_reader_left: bool,
    /// The number of [`KeeperMessage::Hold`]s that were not released.
    holds: usize,
    next_memory_check: Time,
    /// The check of `--max-disk`; `None` without this limit or without a crawl directory.
    disk: Option<DiskLimit>,
    /// Visits that have arrived and are not processed yet.
    visits: FairQueue<Option<LaneId>, Box<Visit>>,
    /// Jobs collected for each worker.
    batches: Vec<Vec<Job>>,
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

/// The estimated work of a visit for the keeper, in units of one link of average length.
fn processing_cost(visit: &Visit) -> usize {
    let listed = match visit.for_keeper.site_file.as_deref() {
        Some(SiteFile::Sitemap(sitemap, _)) => sitemap.entries.len() + sitemap.children.len(),
        _ => 0,
    };
    1 + listed + visit.for_keeper.found.len().max(visit.for_keeper.found.bytes() / LINK_BYTES)
}

/// The result of [`KeeperLoop::hand_out`].
enum HandedOut {
    /// Wait until this time or until a message arrives.
    WaitUntil(Time),
    /// The crawl is over.
    Over(End),
}

impl<F: CommitFrontier> KeeperLoop<F> {
    fn new<T: VisitConsumer + 'static>(setup: CrawlSetup<F, T>, inbox: &Sender<KeeperMessage>) -> Result<Self, Error> {
        let CrawlSetup { frontier, rules, engine, clock, consumer, mut target, accepts_links } = setup;
        let to_keeper = inbox.clone();
        let reports = VisitSender::new(move |visits: &mut Vec<Box<Visit>>| {
            // Sending fails if the keeper has ended. Then the visits are not needed.
            let _ = to_keeper.send(KeeperMessage::Visits(std::mem::take(visits)));
        });
        let mut pool = WorkerPool::start(engine, &rules, clock, &reports).map_err(no_engine)?;
        let to_keeper = inbox.clone();
        let resolver = Resolver::start(&rules, move |answer| {
            let _ = to_keeper.send(KeeperMessage::Resolved(answer));
        });
        let mut keeper = Keeper::new(frontier, Arc::clone(&rules), wall_clock(&clock));
        keeper.bench_mut().limit_concurrency(pool.capacity());
        let to_keeper = inbox.clone();
        keeper.bench_mut().set_send_reporter(SendReporter::new(move |request| {
            let _ = to_keeper.send(KeeperMessage::Sent(request));
        }));
        let to_keeper = inbox.clone();
        keeper.frontier_mut().set_waker(FrontierWaker::new(move || {
            // Sending fails if the keeper has ended. Then it needs no news.
            let _ = to_keeper.send(KeeperMessage::Wake);
        }));
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
        commits.prepare_first_commit(keeper.frontier_mut())?;
        if let Some(line) = first_line {
            commits.add_line(line, keeper.frontier_mut(), clock.now())?;
        }
        // Wait for the workers only now, because nothing above needs them.
        pool.wait_ready().map_err(no_engine)?;
        Ok(Self {
            keeper,
            resolver,
            commits,
            clock,
            tally: CrawlTally::default(),
            deadline: rules.max_time.map_or(Time::NEVER, |span| Time::ZERO + span),
            drain_time: rules.drain_time,
            drain_until: Time::NEVER,
            delivered: 0,
            accepts_links,
            unread: VecDeque::new(),
            has_reader_left: false,
            holds: 0,
            next_memory_check: Time::ZERO,
            disk,
            visits: FairQueue::default(),
            batches: (0..pool.len()).map(|_| Vec::new()).collect(),
            unsent: Vec::new(),
            has_run_records,
            pool,
            rules,
        })
    }

    /// Runs the crawl to its end, and makes the last commit.
    fn run_to_end(mut self, messages: &Receiver<KeeperMessage>) -> Result<Summary, Error> {
        let clock = self.clock;
        let end = self.run(messages);
        let end = end.and_then(|end| self.process_rest(messages).map(|()| end));
        let mode = if matches!(end, Ok(End::Finished)) { StopMode::Drain } else { StopMode::Now };
        if mode == StopMode::Now {
            self.pool.stop(mode);
        }
        // Requests that were not sent are queued again, without a try, so that the next run sends them.
        let unsent = std::mem::take(&mut self.unsent).into_iter();
        let end = end.and_then(|end| {
            for (_, job) in unsent {
                self.keeper.frontier_mut().give_back(Link { tries: 0, ..job.link })?;
            }
            Ok(end)
        });
        let elapsed = clock.now() - Time::ZERO;
        let end = end.and_then(|end| self.wait_for_reader(messages).map(|()| end));
        // Pages that the next run delivers again are unfinished work.
        let is_all_read = self.unread.is_empty();
        let end = end.map(|end| if end == End::Finished && !is_all_read { End::Interrupted } else { end });
        let left = self.keeper.unfinished();
        let unread = self.unread.len() as u64;
        let Self { mut keeper, mut commits, tally, pool, has_run_records, .. } = self;
        let end = end.and_then(|end| {
            if has_run_records {
                let changes = keeper.progress().changes;
                let last = run_lines::last(&tally.outcomes, left, tally.bytes, end, elapsed, changes, keeper.cuts());
                commits.add_line(last, keeper.frontier_mut(), clock.now())?;
            }
            keeper.note_progress(clock.now())?;
            commits.send_last(keeper.frontier_mut())?;
            Ok(end)
        });
        // Close connections in parallel with the last writes.
        pool.stop(mode);
        // The error of the crawl takes precedence, but the writer must be ended in any case.
        let written = commits.end();
        let notices = pool.notices();
        pool.shut_down(mode);
        let end = end?;
        written?;
        let (changes, cuts) = (keeper.progress().changes, keeper.cuts());
        Ok(Summary { end, left, unread, elapsed, tally, changes, cuts, notices })
    }

    /// Hands out all jobs that are due.
    fn hand_out(&mut self, now: Time) -> Result<HandedOut, Error> {
        if now >= self.deadline {
            return Ok(HandedOut::Over(End::MaxTime));
        }
        let wait = loop {
            match self.keeper.next(now)? {
                // The request must not be sent twice, so the log says first that it is sent.
                Order::Fetch(job) if !job.link.is_repeatable() => {
                    self.keeper.frontier_mut().mark_sent(&job.link)?;
                    self.unsent.push((self.keeper.frontier().log_end(), job));
                    self.commits.request_commit(now);
                }
                Order::Fetch(job) => {
                    self.assign(job);
                }
                Order::Resolve(lane, host) => match Resolver::parse_literal(&host) {
                    Some(found) => self.keeper.resolved(lane, Ok(found), now),
                    None => self.resolver.query(DnsQuery { lane, host }),
                },
                Order::Wait(until) => break HandedOut::WaitUntil(until),
                Order::Done(end) => break HandedOut::Over(end),
            }
        };
        // Hand out the jobs whose mark in the log is durable.
        if !self.unsent.is_empty() {
            let durable = self.keeper.frontier().durable_end();
            let (ready, waiting) = std::mem::take(&mut self.unsent).into_iter().partition(|(end, _)| *end <= durable);
            self.unsent = waiting;
            let ready: Vec<(u64, Job)> = ready;
            ready.into_iter().for_each(|(_, job)| self.assign(job));
        }
        for (worker, batch) in self.batches.iter_mut().enumerate() {
            self.pool.send(worker, batch);
        }
        Ok(wait)
    }

    /// Adds a job to the batch of its worker.
    fn assign(&mut self, job: Job) {
        // Jobs that share a connection go to the same worker.
        let slot = if job.shares_connection() { 0 } else { usize::from(job.slot) };
        let worker = (job.lane.index() + slot) % self.batches.len().max(1);
        if let Some(batch) = self.batches.get_mut(worker) {
            batch.push(job);
        }
    }

    /// Hands out jobs and processes messages until the crawl ends; returns why it ended.
    fn run(&mut self, messages: &Receiver<KeeperMessage>) -> Result<End, Error> {
        loop {
            let now = self.clock.now();
            let is_behind = self.commits.is_behind(self.keeper.bench().in_flight(), now);
            self.keeper.bench_mut().hold_back(is_behind);
            let wait = match self.hand_out(now)? {
                HandedOut::WaitUntil(until) => until,
                HandedOut::Over(end) => {
                    // Do not commit yet: the last pages and the last record of the run belong to one commit.
                    self.collect_settled(now)?;
                    return Ok(end);
                }
            };
            self.commits.send_first_commit()?;
            self.collect_settled(now)?;
            if self.commits.should_send(now) {
                self.note_unread();
                self.keeper.note_progress(now)?;
                self.commits.send(self.keeper.frontier_mut())?;
            }
            self.check_memory(now);
            self.check_disk(now);
            if self.pool.has_dead_worker() {
                return Err(Error::engine("a worker thread died", None));
            }
            if now >= self.drain_until {
                return Ok(self.keeper.ended().unwrap_or(End::Interrupted));
            }
            if self.visits.is_empty() {
                let until = wait.min(self.deadline).min(self.drain_until).min(self.commits.due());
                let first = match self.clock.until(until) {
                    None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    Some(span) => messages.recv_timeout(span),
                };
                // No message arrived in time: check what is due now.
                let Ok(first) = first else { continue };
                if self.receive(first)? {
                    return Ok(End::Interrupted);
                }
            }
            while let Ok(more) = messages.try_recv() {
                if self.receive(more)? {
                    return Ok(End::Interrupted);
                }
            }
            self.process_visits(VISITS_PER_ITERATION, self.clock.now())?;
        }
    }

    /// Processes at most `max_visits` visits that have arrived.
    fn process_visits(&mut self, max_visits: usize, now: Time) -> Result<(), Error> {
        for _ in 0..max_visits {
            let Some(visit) = self.visits.pop() else { break };
            if self.has_disk_room(&visit, now)? {
                self.keeper.finished(visit, now)?;
            }
        }
        Ok(())
    }

    /// Processes the visits that arrived before the end, and collects settled visits.
    fn process_rest(&mut self, messages: &Receiver<KeeperMessage>) -> Result<(), Error> {
        while let Ok(more) = messages.try_recv() {
            self.receive(more)?;
        }
        let now = self.clock.now();
        self.process_visits(usize::MAX, now)?;
        self.collect_settled(now)
    }

    /// Delivers the last pages, and waits until the reader has processed them or has left. The last commit to the crawl
    /// directory then says which pages the next run has to deliver again.
    fn wait_for_reader(&mut self, messages: &Receiver<KeeperMessage>) -> Result<(), Error> {
        if !self.accepts_links || !self.commits.is_durable() {
            return Ok(());
        }
        if !self.unread.is_empty() && !self.has_reader_left {
            self.note_unread();
            self.keeper.note_progress(self.clock.now())?;
            self.commits.send(self.keeper.frontier_mut())?;
        }
        while !self.unread.is_empty() && !self.has_reader_left {
            let Ok(message) = messages.recv() else { break };
            self.receive(message)?;
        }
        self.note_unread();
        Ok(())
    }

    /// Passes the number of unread pages to the keeper, for the next commit.
    fn note_unread(&mut self) {
        if self.accepts_links && self.commits.is_durable() {
            let fetched = self.unread.iter().filter(|is_fetched| **is_fetched).count() as u64;
            self.keeper.set_unread(UnreadPages { pages: self.unread.len() as u64, fetched });
        }
    }

    /// Updates whether the crawl stays open when no work is left. It does while the reader has pages to process, and
    /// while the user holds it open.
    fn update_open(&mut self) {
        if self.accepts_links {
            self.keeper.set_open(self.holds > 0 || (!self.unread.is_empty() && !self.has_reader_left));
        }
    }

    /// Processes one message; returns whether to end at once.
    fn receive(&mut self, message: KeeperMessage) -> Result<bool, Error> {
        let now = self.clock.now();
        match message {
            KeeperMessage::Visits(visits) => {
                for visit in visits {
                    let cost = processing_cost(&visit);
                    self.visits.push(visit.for_keeper.slot.map(|(lane, _)| lane), visit, cost);
                }
            }
            KeeperMessage::Sent(request) => self.keeper.bench_mut().sent(request, now),
            KeeperMessage::Resolved(DnsAnswer { lane, result }) => self.keeper.resolved(lane, result, now),
            KeeperMessage::Feed(links) => drop(self.keeper.put(links, now)?),
            KeeperMessage::Robots(url) => self.keeper.ask_robots(url, now)?,
            KeeperMessage::Processed(count) => {
                // Update `delivered` first: it must include the visits that are already settled.
                self.collect_settled(now)?;
                let left = usize::try_from(self.delivered.saturating_sub(count)).unwrap_or(usize::MAX);
                if left < self.unread.len() {
                    self.unread.drain(..self.unread.len() - left);
                    if self.commits.is_durable() {
                        // The next commit says that these pages were processed.
                        self.commits.request_commit(now);
                    }
                }
                self.update_open();
            }
            KeeperMessage::Hold => {
                self.holds += 1;
                self.update_open();
            }
            KeeperMessage::Release => {
                self.holds = self.holds.saturating_sub(1);
                // Settled pages that were not collected yet keep the crawl open too.
                self.collect_settled(now)?;
                self.update_open();
            }
            KeeperMessage::Detach => {
                self.has_reader_left = true;
                self.update_open();
            }
            KeeperMessage::Durable(batch) => self.commits.mark_durable(&batch, self.keeper.frontier_mut())?,
            KeeperMessage::Fault(fault) => return Err(fault),
            KeeperMessage::Stop(end) => {
                self.keeper.stop(end);
                self.drain_until = self.drain_until.min(now + self.drain_time);
            }
            KeeperMessage::Status(answer) => {
                // The receiver may be gone.
                let _ = answer.send(status::compute(&self.keeper, &mut self.tally, &self.rules, now));
            }
            KeeperMessage::Host(name, answer) => {
                let _ = answer.send(status::host_named(&self.keeper, &name, now));
            }
            KeeperMessage::Control(Control::Stop, answer) => {
                let _ = answer.send(Ok(()));
                return self.receive(KeeperMessage::Stop(End::Stopped));
            }
            KeeperMessage::Control(control, answer) => {
                let verdict = self.keeper.control(&control, now)?;
                if verdict == ControlVerdict::Done {
                    self.collect_settled(now)?;
                    self.note_unread();
                    self.keeper.note_progress(now)?;
                    self.commits.send(self.keeper.frontier_mut())?;
                }
                let _ = answer.send(verdict.into_result());
            }
            KeeperMessage::EndNow => {
                self.has_reader_left = true;
                return Ok(true);
            }
            KeeperMessage::Wake => {}
        }
        Ok(false)
    }

    /// Passes the settled visits to the next commit.
    fn collect_settled(&mut self, now: Time) -> Result<(), Error> {
        for mut settled in self.keeper.take_settled() {
            self.tally.count(&settled.visit);
            let bytes = settled.visit.heap_bytes();
            if let Some(charge) = &mut settled.visit.for_keeper.charge {
                // Until they are written, the record and the links are also in the buffer of the log.
                charge.resize(bytes + settled.line.len() * 2 + settled.visit.for_keeper.found.bytes());
            }
            if settled.visit.is_page() {
                self.delivered += 1;
                if self.accepts_links {
                    self.unread.push_back(settled.visit.is_fetched_page());
                }
            }
            self.commits.add_visit(settled, self.keeper.frontier_mut(), now)?;
        }
        Ok(())
    }

    /// Checks `--max-disk`. Near the limit, no more requests start, and pages in flight are still written if they fit.
    fn check_disk(&mut self, now: Time) {
        let unwritten = self.commits.outstanding_bytes();
        if self.disk.as_mut().is_some_and(|disk| disk.is_near(unwritten, now)) {
            self.keeper.stop(End::MaxDisk);
            self.drain_until = self.drain_until.min(now + self.drain_time);
        }
    }

    /// Whether the archive has room for a page. If not, the crawl ends now, and the next run fetches the page again.
    fn has_disk_room(&mut self, visit: &Visit, now: Time) -> Result<bool, Error> {
        let Some((disk, exchange)) = self.disk.as_mut().zip(visit.for_keeper.archive.as_ref()) else { return Ok(true) };
        let bytes = exchange.bytes() as u64;
        if disk.admit(bytes) {
            return Ok(true);
        }
        self.collect_settled(now)?;
        let unwritten = self.commits.outstanding_bytes();
        let fits = self.disk.as_mut().is_none_or(|disk| {
            disk.measure(unwritten);
            disk.admit(bytes)
        });
        if !fits {
            self.keeper.stop(End::MaxDisk);
            self.drain_until = now;
        }
        Ok(fits)
    }

    /// Reports memory use to the [`Budget`](argiope_core::budget::Budget). The frontier moves links beyond its share to
    /// disk, but host names stay in memory. Therefore links to unknown hosts are deferred when host names use three
    /// eighths of the limit.
    fn check_memory(&mut self, now: Time) {
        if now < self.next_memory_check {
            return;
        }
        self.next_memory_check = now + MEMORY_CHECK_INTERVAL;
        let bytes = self.keeper.frontier().bytes() as u64;
        self.rules.budget.set(MemoryPart::Frontier, bytes);
        self.rules.budget.set(MemoryPart::Connections, self.pool.idle_bytes() as u64);
        self.keeper.report_memory();
        if let Some(limit) = self.rules.max_memory {
            let hosts = self.keeper.frontier().host_bytes() as u64;
            self.keeper.set_full_of_hosts(hosts > (limit / 8 * 3).max(MIN_HOST_BYTES));
        }
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::Outcome;
    use argiope_core::rules::{Config, Pace, RobotsPolicy};

    use super::*;

    struct Discard;

    impl VisitConsumer for Discard {
        fn take(&mut self, _: Settled) {}
        fn flush(&mut self) {}
    }

    #[test]
    fn visits_that_arrived_before_the_deadline_are_still_processed() {
        const PAGES: usize = 40;
        let config = Config {
            roots: (0..PAGES).map(|page| format!("http://93.184.216.1/{page}")).collect(),
            robots: RobotsPolicy::Ignore,
            pace: Pace::Full,
            per_host: Some(PAGES),
            ..Config::default()
        };
        let (inbox, messages) = channel();
        let setup = CrawlSetup {
            frontier: MemoryFrontier::new(0),
            rules: Arc::new(config.compile(0).expect("the settings are valid")),
            engine: EngineKind::Threads,
            clock: Clock::start(),
            consumer: Discard,
            target: OutputTarget::default(),
            accepts_links: false,
        };
        let mut running = KeeperLoop::new(setup, &inbox).expect("the engine starts");
        running.deadline = Time::ZERO;
        let mut visits = Vec::new();
        loop {
            match running.keeper.next(Time::ZERO).expect("a frontier in memory does not fail") {
                Order::Fetch(job) => {
                    let slot = Some((job.lane, job.slot));
                    let mut visit = Visit::with_outcome(job.link, job.purpose, Outcome::Ok, Time::ZERO);
                    visit.for_keeper.slot = slot;
                    visit.facts.status = Some(200);
                    visits.push(Box::new(visit));
                }
                Order::Resolve(lane, _) => {
                    let ip = "93.184.216.1".parse().expect("an address");
                    running.keeper.resolved(lane, Ok((vec![ip], Duration::MAX)), Time::ZERO);
                }
                Order::Wait(_) | Order::Done(_) => break,
            }
        }
        assert_eq!(visits.len(), PAGES);
        // Half of the visits are in the fair queue. The other half is still in the inbox.
        running
            .receive(KeeperMessage::Visits(visits.split_off(PAGES / 2)))
            .expect("a frontier in memory does not fail");
        inbox.send(KeeperMessage::Visits(visits)).expect("the receiver is alive");
        let end = running.run(&messages).expect("a frontier in memory does not fail");
        assert_eq!((end, running.keeper.progress().pages), (End::MaxTime, 0));
        running.process_rest(&messages).expect("a frontier in memory does not fail");
        assert_eq!((running.keeper.progress().pages, running.delivered), (PAGES as u64, PAGES as u64));
        assert_eq!(running.keeper.unfinished(), 0);
        running.pool.shut_down(StopMode::Now);
        running.commits.end().expect("a frontier in memory does not fail");
    }
}
