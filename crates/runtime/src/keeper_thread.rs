//! The keeper's thread: the one file in which frontier, engine, resolver and writer meet.
//!
//! All deciding is [`Keeper`]'s; this file only carries messages and waits. Everything that happens arrives in one
//! inbox, so there is one place to wait, and a crawl ends the moment that nothing is left to wait for.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use argiope_core::control::Control;
use argiope_core::output::record::WallClock;
use argiope_core::rules::Rules;
use argiope_core::schedule::frontier::{StoreError, StoreErrorKind};
use argiope_core::schedule::job::Job;
use argiope_core::schedule::keeper::{Changes, End, Keeper, Order, Settled};
use argiope_core::schedule::trap::Cut;
use argiope_core::status::Status;
use argiope_core::visit::Visit;
use argiope_core::{LaneId, Link, Time, Url};
pub use argiope_engine::Clock;
use argiope_engine::{DnsAnswer, DnsQuery, EngineKind, Resolver, StopMode, VisitSender, WorkerPool};
pub use argiope_store::MemoryFrontier;

use crate::error::Error;
use crate::fair_queue::FairQueue;
use crate::run_lines;
use crate::status::{self, Tally};
use crate::writer_thread::{CommitBatch, CommitFrontier, CommitQueue, OutputTarget};

/// Visits that are taken up before their hosts are asked again: with more, hosts that answer at once would keep the others
/// waiting.
const AT_ONCE: usize = 4;
/// How often the frontier is weighed.
const WEIGH_EVERY: Duration = Duration::from_secs(1);

/// What can happen to a keeper.
pub enum KeeperMessage {
    Visits(Vec<Box<Visit>>),
    Resolved(DnsAnswer),
    /// Links from outside.
    Feed(Vec<Link>),
    /// Fetch this robots.txt for its own sake.
    Robots(Url),
    /// Whoever reads the visits has read this many and waits for more.
    Read(u64),
    /// A commit is durable.
    Durable(CommitBatch),
    /// Nothing more can be written down.
    Fault(Error),
    /// Hand out no more work; leave when what is under way has ended, or after the drain time.
    Stop(End),
    /// Answer with the crawl's status.
    Status(Sender<Status>),
    /// Make a change, and answer whether it was made.
    Control(Control, Sender<Result<(), String>>),
    /// Leave now.
    Leave,
}

/// Who takes the settled visits, once they are durable: prints their lines, counts them, shows them.
pub trait VisitConsumer: Send {
    fn take(&mut self, settled: Settled);
    /// A record that is no visit's: a run's beginning and end.
    fn line(&mut self, _line: &[u8]) {}
    /// A batch is over: flush what people may be waiting for.
    fn flush(&mut self);
}

/// A crawl that runs.
pub struct KeeperHandle {
    pub inbox: Sender<KeeperMessage>,
    thread: JoinHandle<Result<Summary, Error>>,
}

/// How a crawl went.
#[derive(Clone, Debug)]
pub struct Summary {
    pub end: End,
    pub tally: Tally,
    /// Known and not settled.
    pub left: u64,
    pub elapsed: Duration,
    /// How pages compare with the last time, where there was one.
    pub changes: Option<Changes>,
    /// Where links were left out because there is no end to them.
    pub cuts: Vec<Cut>,
    /// What people should know about how it ran.
    pub notices: Vec<String>,
}

/// What a keeper needs.
pub struct CrawlSetup<F, T> {
    pub frontier: F,
    pub rules: Arc<Rules>,
    pub engine: EngineKind,
    pub clock: Clock,
    pub consumer: T,
    pub target: OutputTarget,
    /// Whether links may come from outside while it runs.
    pub open: bool,
}

impl KeeperHandle {
    /// Starts the workers, hands out the first work, and starts the keeper. What cannot wait for other threads is done on
    /// the caller's: a crawl that begins has its first request on the wire before the others have woken up.
    pub fn start<F, T>(setting: CrawlSetup<F, T>) -> Result<Self, Error>
    where
        F: CommitFrontier + Send + 'static,
        T: VisitConsumer + 'static,
    {
        let (inbox, mail) = channel();
        let mut running = Running::new(setting, &inbox)?;
        // How long there is nothing more to do, the thread asks for itself.
        let _ = running.hand_out(running.clock.now())?;
        let thread = thread::Builder::new().name("keeper".into()).spawn(move || running.keep(&mail));
        Ok(Self { inbox, thread: thread.map_err(Error::no_thread)? })
    }

    /// Waits for the end.
    pub fn join(self) -> Result<Summary, Error> {
        drop(self.inbox);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// What the wall clock says at the crawl's time zero.
pub fn wall_clock(clock: &Clock) -> WallClock {
    let since = clock.wall_start().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallClock { start: i64::try_from(since.as_micros()).unwrap_or(i64::MAX) }
}

struct Running<F> {
    keeper: Keeper<F>,
    pool: WorkerPool,
    resolver: Resolver,
    outbox: CommitQueue,
    clock: Clock,
    tally: Tally,
    /// `--max-time`.
    deadline: Time,
    drain_time: Duration,
    rules: Arc<Rules>,
    /// When draining has lasted long enough.
    leave_at: Time,
    delivered: u64,
    open: bool,
    next_weighing: Time,
    /// Visits that have come and are not taken up yet.
    visits: FairQueue<Option<LaneId>, Box<Visit>>,
    /// Jobs on their way to each worker.
    batches: Vec<Vec<Job>>,
    /// Whether the run's first and last line are records.
    tells_runs: bool,
}

/// The engine could not be started.
fn no_engine(error: std::io::Error) -> Error {
    Error::engine(format!("the engine could not be started: {error}"), Some(error))
}

/// What [`Running::hand_out`] leaves to do.
enum HandedOut {
    /// Nothing before this time, unless a message arrives.
    WaitUntil(Time),
    /// The crawl is over.
    Over(End),
}

impl<F: CommitFrontier> Running<F> {
    fn new<T: VisitConsumer + 'static>(
        setting: CrawlSetup<F, T>,
        inbox: &Sender<KeeperMessage>,
    ) -> Result<Self, Error> {
        let CrawlSetup { frontier, rules, engine, clock, consumer, mut target, open } = setting;
        let to_keeper = inbox.clone();
        let reports = VisitSender::new(move |visits: &mut Vec<Box<Visit>>| {
            // A keeper that has left needs no reports.
            let _ = to_keeper.send(KeeperMessage::Visits(std::mem::take(visits)));
        });
        let mut pool = WorkerPool::start(engine, &rules, clock, &reports).map_err(no_engine)?;
        let to_keeper = inbox.clone();
        let resolver = Resolver::start(&rules, move |answer| {
            let _ = to_keeper.send(KeeperMessage::Resolved(answer));
        });
        let mut keeper = Keeper::new(frontier, Arc::clone(&rules), wall_clock(&clock));
        keeper.bench_mut().limit_concurrency(pool.most());
        if let Some(folder) = &target.folder {
            keeper.resume_archive(folder.outputs.iter().map(|(name, length)| (&**name, *length)));
        }
        if open {
            keeper.set_fed();
        }
        keeper.begin(clock.now())?;
        let first_line = target.first_line.take();
        let tells_runs = first_line.is_some();
        let mut outbox = CommitQueue::new(target, consumer, inbox.clone());
        outbox.announce(keeper.frontier_mut())?;
        if let Some(line) = first_line {
            outbox.line(line, keeper.frontier_mut(), clock.now())?;
        }
        // All that could be done meanwhile is done.
        pool.wait_ready().map_err(no_engine)?;
        Ok(Self {
            keeper,
            resolver,
            outbox,
            clock,
            tally: Tally::default(),
            deadline: rules.max_time.map_or(Time::NEVER, |span| Time::ZERO + span),
            drain_time: rules.drain_time,
            leave_at: Time::NEVER,
            delivered: 0,
            open,
            next_weighing: Time::ZERO,
            visits: FairQueue::default(),
            batches: (0..pool.len()).map(|_| Vec::new()).collect(),
            tells_runs,
            pool,
            rules,
        })
    }

    /// The keeper's thread, from the first order to the last commit.
    fn keep(mut self, mail: &Receiver<KeeperMessage>) -> Result<Summary, Error> {
        let clock = self.clock;
        let end = self.run(mail);
        let end = end.and_then(|end| self.clear_away(mail).map(|()| end));
        let ending = if matches!(end, Ok(End::Finished)) { StopMode::Drain } else { StopMode::Now };
        if ending == StopMode::Now {
            self.pool.end(ending);
        }
        let left = self.keeper.unfinished();
        let elapsed = clock.now() - Time::ZERO;
        let Self { mut keeper, mut outbox, tally, pool, tells_runs, .. } = self;
        let end = end.and_then(|end| {
            if tells_runs {
                let changes = keeper.progress().changes;
                let last = run_lines::last(&tally.outcomes, left, tally.bytes, end, elapsed, changes, keeper.cuts());
                outbox.line(last, keeper.frontier_mut(), clock.now())?;
            }
            keeper.note_progress(clock.now())?;
            outbox.send_last(keeper.frontier_mut())?;
            Ok(end)
        });
        // Connections are closed while the disk is at work, not before.
        pool.end(ending);
        // The crawl's own fault comes first; but the writer must have ended either way.
        let written = outbox.end();
        let notices = pool.notices();
        pool.shut_down(ending);
        let end = end?;
        written?;
        Ok(Summary { end, left, elapsed, tally, changes: keeper.progress().changes, cuts: keeper.cuts(), notices })
    }

    /// Hands out all the work that there is now. Says until when there is no more, or that the crawl is over.
    fn hand_out(&mut self, now: Time) -> Result<HandedOut, Error> {
        if now >= self.deadline {
            return Ok(HandedOut::Over(End::MaxTime));
        }
        let wait = loop {
            match self.keeper.next(now)? {
                Order::Fetch(job) => {
                    let worker = (job.lane.index() + usize::from(job.slot)) % self.batches.len().max(1);
                    if let Some(batch) = self.batches.get_mut(worker) {
                        batch.push(job);
                    }
                }
                Order::Resolve(lane, host) => match Resolver::known(&host) {
                    Some(found) => self.keeper.resolved(lane, Ok(found), now),
                    None => self.resolver.ask(DnsQuery { lane, host }),
                },
                Order::Wait(until) => break HandedOut::WaitUntil(until),
                Order::Done(end) => break HandedOut::Over(end),
            }
        };
        for (worker, batch) in self.batches.iter_mut().enumerate() {
            self.pool.send(worker, batch);
        }
        Ok(wait)
    }

    fn run(&mut self, mail: &Receiver<KeeperMessage>) -> Result<End, Error> {
        loop {
            let now = self.clock.now();
            let wait = match self.hand_out(now)? {
                HandedOut::WaitUntil(until) => until,
                HandedOut::Over(end) => {
                    // Not sent off: the last page and the run's last line belong to one commit.
                    self.gather(now)?;
                    return Ok(end);
                }
            };
            self.outbox.wake()?;
            self.gather(now)?;
            if self.outbox.is_time(now) {
                self.keeper.note_progress(now)?;
                self.outbox.send(self.keeper.frontier_mut())?;
            }
            self.weigh(now)?;
            if self.pool.has_dead_worker() {
                return Err(Error::engine("a worker thread died; run the same command to resume", None));
            }
            if now >= self.leave_at {
                return Ok(End::Interrupted);
            }
            if self.visits.is_empty() {
                let until = wait.min(self.deadline).min(self.leave_at).min(self.outbox.due());
                let first = match self.clock.until(until) {
                    None => mail.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    Some(span) => mail.recv_timeout(span),
                };
                let Ok(first) = first else {
                    continue;
                };
                if self.receive(first)? {
                    return Ok(End::Interrupted);
                }
            }
            while let Ok(more) = mail.try_recv() {
                if self.receive(more)? {
                    return Ok(End::Interrupted);
                }
            }
            self.take_up(AT_ONCE, self.clock.now())?;
        }
    }

    /// Takes up visits that have come, so many at most.
    fn take_up(&mut self, most: usize, now: Time) -> Result<(), Error> {
        for _ in 0..most {
            let Some(visit) = self.visits.pop() else { break };
            self.keeper.finished(visit, now)?;
        }
        Ok(())
    }

    /// What has come before the end, and what was settled on the way out, has happened too.
    fn clear_away(&mut self, mail: &Receiver<KeeperMessage>) -> Result<(), Error> {
        while let Ok(more) = mail.try_recv() {
            self.receive(more)?;
        }
        let now = self.clock.now();
        self.take_up(usize::MAX, now)?;
        self.gather(now)
    }

    /// Takes in one message; says whether to leave at once.
    fn receive(&mut self, mail: KeeperMessage) -> Result<bool, Error> {
        let now = self.clock.now();
        match mail {
            KeeperMessage::Visits(visits) => {
                for visit in visits {
                    self.visits.push(visit.message.slot.map(|(lane, _)| lane), visit);
                }
            }
            KeeperMessage::Resolved(DnsAnswer { lane, result }) => self.keeper.resolved(lane, result, now),
            KeeperMessage::Feed(links) => drop(self.keeper.put(links, now)?),
            KeeperMessage::Robots(url) => self.keeper.ask_robots(url, now)?,
            KeeperMessage::Read(count) => {
                // What was settled since is on its way to the reader: it counts as delivered.
                self.gather(now)?;
                if self.open {
                    self.keeper.set_open(count < self.delivered);
                }
            }
            KeeperMessage::Durable(batch) => self.outbox.durable(&batch, self.keeper.frontier_mut())?,
            KeeperMessage::Fault(fault) => return Err(fault),
            KeeperMessage::Stop(end) => {
                self.keeper.stop(end);
                self.leave_at = self.leave_at.min(now + self.drain_time);
            }
            KeeperMessage::Status(answer) => {
                // Whoever asked may have left meanwhile.
                let _ = answer.send(status::take(&self.keeper, &mut self.tally, &self.rules, now));
            }
            KeeperMessage::Control(Control::Stop, answer) => {
                let _ = answer.send(Ok(()));
                return self.receive(KeeperMessage::Stop(End::Interrupted));
            }
            KeeperMessage::Control(control, answer) => {
                let made = self.keeper.control(&control, now)?;
                if made.is_ok() {
                    self.keeper.note_progress(now)?;
                    self.outbox.send(self.keeper.frontier_mut())?;
                }
                let _ = answer.send(made);
            }
            KeeperMessage::Leave => return Ok(true),
        }
        Ok(false)
    }

    /// Takes what was settled, for the next commit.
    fn gather(&mut self, now: Time) -> Result<(), Error> {
        for settled in self.keeper.take_settled() {
            self.tally.count(&settled.visit);
            self.delivered += u64::from(settled.visit.is_page());
            self.outbox.visit(settled, self.keeper.frontier_mut(), now)?;
        }
        Ok(())
    }

    /// Links beyond what memory has room for are on the disk. The names of hosts and their
    /// robots.txt are not, so there is an end to everything.
    fn weigh(&mut self, now: Time) -> Result<(), Error> {
        let Some(limit) = self.rules.max_memory.filter(|_| now >= self.next_weighing) else { return Ok(()) };
        self.next_weighing = now + WEIGH_EVERY;
        // The frontier has moved to the disk what it can. The rest is for connections, pages and parcels.
        let bytes = self.keeper.frontier().bytes().saturating_add(self.keeper.bench().robots_bytes());
        if bytes as u64 <= limit / 4 * 3 {
            return Ok(());
        }
        let message = "so many hosts are known that --max-memory has no room for their names and robots.txt; what was \
                       committed is safe: run the same command again with a higher --max-memory";
        Err(StoreError::new(StoreErrorKind::Full, message).into())
    }
}

#[cfg(test)]
mod tests {
    use argiope_core::Outcome;
    use argiope_core::rules::{Config, Pace, RobotsPolicy};

    use super::*;

    struct Nobody;

    impl VisitConsumer for Nobody {
        fn take(&mut self, _: Settled) {}
        fn flush(&mut self) {}
    }

    #[test]
    fn visits_that_have_come_are_taken_up_when_time_is_over() {
        const PAGES: usize = 40;
        let config = Config {
            roots: (0..PAGES).map(|page| format!("http://93.184.216.1/{page}")).collect(),
            robots: RobotsPolicy::Ignore,
            pace: Pace::Full,
            per_host: Some(PAGES),
            ..Config::default()
        };
        let (inbox, mail) = channel();
        let setting = CrawlSetup {
            frontier: MemoryFrontier::new(0),
            rules: Arc::new(config.compile(0).expect("settings that make sense")),
            engine: EngineKind::Threads,
            clock: Clock::start(),
            consumer: Nobody,
            target: OutputTarget::default(),
            open: false,
        };
        let mut running = Running::new(setting, &inbox).expect("threads");
        running.deadline = Time::ZERO;
        let mut visits = Vec::new();
        loop {
            match running.keeper.next(Time::ZERO).expect("nothing fails in memory") {
                Order::Fetch(job) => {
                    let slot = Some((job.lane, job.slot));
                    let mut visit = Visit::bare(job.link, job.purpose, Outcome::Ok, Time::ZERO);
                    visit.message.slot = slot;
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
        // Some wait for their turn, and some have only just come.
        running.receive(KeeperMessage::Visits(visits.split_off(PAGES / 2))).expect("nothing fails in memory");
        inbox.send(KeeperMessage::Visits(visits)).expect("somebody reads it");
        let end = running.run(&mail).expect("nothing fails in memory");
        assert_eq!((end, running.keeper.progress().pages), (End::MaxTime, 0));
        running.clear_away(&mail).expect("nothing fails in memory");
        assert_eq!((running.keeper.progress().pages, running.delivered), (PAGES as u64, PAGES as u64));
        assert_eq!(running.keeper.unfinished(), 0);
        running.pool.shut_down(StopMode::Now);
        running.outbox.end().expect("nothing fails in memory");
    }
}
