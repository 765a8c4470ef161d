//! [`Fetchers`]: the fetchers of a crawl, in the order in which a job is offered to them.
//!
//! Invariant: every job has a visit. One that no fetcher accepts fails.

use std::io;

pub use argiope_browser::BrowserError;
use argiope_browser::{BrowserFetcher, BrowserProgram};
use argiope_core::base::job::Job;
use argiope_core::base::time::WallClock;
use argiope_core::crawl::fetcher::{Fetcher, FetcherContext, StopMode, VisitSender};
use argiope_core::crawl::rules::{EngineName, Rules};
use argiope_core::crawl::transport::{Transport, VirtualFetcher};
use argiope_core::crawl::visit::Visit;
use argiope_core::http::address::DnsResult;
use argiope_core::{ErrorKind, Failure, Time};
use argiope_engine::resolver::{ResolverSettings, ResolverThread};
use argiope_engine::{Clock, SharedThread, SharedThreads, WorkerPool};

use crate::engine_kind;

/// The fetchers of a crawl. The last one accepts every job.
pub struct Fetchers {
    list: Vec<Box<dyn Fetcher>>,
    /// The engine, until the start makes it the last fetcher.
    engine: Option<EngineName>,
    /// For the visits of jobs that no fetcher accepts; `None` before the start.
    visits: Option<VisitSender>,
    /// The wall-clock time at which virtual time begins; `None` if the machine's time counts.
    virtual_start: Option<WallClock>,
    /// The threads that the crawl shares with others, and the one for its tasks.
    shared: Option<(SharedThreads, SharedThread)>,
}

impl Fetchers {
    /// One fetcher: this engine.
    pub fn engine(name: EngineName) -> Self {
        Self { list: Vec::new(), engine: Some(name), visits: None, virtual_start: None, shared: None }
    }

    /// One fetcher: this engine, on threads that the crawl shares with others. Only `tokio` can share threads; the other
    /// engines ignore this.
    ///
    /// # Errors
    ///
    /// The system refuses the threads.
    pub fn shared_engine(name: EngineName, threads: &SharedThreads) -> io::Result<Self> {
        let shared = match name {
            EngineName::Tokio => Some((threads.clone(), threads.place()?)),
            _ => None,
        };
        Ok(Self { shared, ..Self::engine(name) })
    }

    /// The thread that looks names up for several crawls, if the crawl has none of its own.
    pub(crate) fn shared_resolver(&self, rules: &Rules) -> Option<ResolverThread> {
        self.shared.as_ref().map(|(threads, _)| threads.resolver(&ResolverSettings::of(rules)))
    }

    /// The shared thread on which the tasks of the crawl run.
    pub(crate) fn shared_thread(&self) -> Option<&SharedThread> {
        self.shared.as_ref().map(|(_, thread)| thread)
    }

    /// No engine: this transport answers all requests, in virtual time.
    pub fn transport(transport: Box<dyn Transport>) -> Self {
        let virtual_start = Some(transport.wall_clock());
        let list: Vec<Box<dyn Fetcher>> = vec![Box::new(VirtualFetcher::new(transport))];
        Self { list, engine: None, visits: None, virtual_start, shared: None }
    }

    /// The wall-clock time at which virtual time begins; `None` if the machine's time counts.
    pub fn virtual_start(&self) -> Option<WallClock> {
        self.virtual_start
    }

    /// Adds a browser before the others, if the rules say that pages are rendered.
    ///
    /// # Errors
    ///
    /// No browser was found, or it cannot be started safely.
    pub fn with_browser(self, rules: &Rules) -> Result<Self, BrowserError> {
        let Some(render) = &rules.render else { return Ok(self) };
        Ok(self.preceded_by(Box::new(BrowserFetcher::new(BrowserProgram::find(render)?))))
    }

    /// Adds a fetcher before the others.
    #[must_use]
    pub fn preceded_by(mut self, fetcher: Box<dyn Fetcher>) -> Self {
        self.list.insert(0, fetcher);
        self
    }

    pub(crate) fn start(&mut self, crawl: &FetcherContext, clock: Clock) -> io::Result<()> {
        self.visits = Some(crawl.visits.clone());
        let shared = self.shared_thread().cloned();
        let engine = self.engine.take().map(|name| WorkerPool::new(engine_kind(name), clock).sharing(shared));
        self.list.extend(engine.map(|engine| Box::new(engine) as Box<dyn Fetcher>));
        self.list.iter_mut().try_for_each(|fetcher| fetcher.start(crawl))
    }

    pub(crate) fn wait_ready(&mut self) -> io::Result<()> {
        self.list.iter_mut().try_for_each(|fetcher| fetcher.wait_ready())
    }

    /// Passes a job to the first fetcher that accepts it.
    pub(crate) fn fetch(&mut self, job: Job, now: Time) {
        let mut left = Some(job);
        for fetcher in &mut self.list {
            let Some(job) = left.take() else { return };
            left = fetcher.accept(job, now).err();
        }
        if let Some((job, visits)) = left.zip(self.visits.as_mut()) {
            let failure = Failure::new(ErrorKind::Internal, "no fetcher of the crawl accepts this request");
            visits.push(Box::new(Visit::failed(job, failure, now, now)));
            visits.send();
        }
    }

    /// Passes a visit to the first fetcher that continues it. Returns the visit if there is none.
    pub(crate) fn resume(&mut self, mut visit: Box<Visit>, now: Time) -> Option<Box<Visit>> {
        for fetcher in &mut self.list {
            visit = fetcher.resume(visit, now).err()?;
        }
        Some(visit)
    }

    /// Passes the response of a part of a page to the fetcher that asked for it.
    pub(crate) fn take_part(&mut self, visit: &mut Visit, now: Time) {
        self.list.iter_mut().for_each(|fetcher| fetcher.take_part(visit, now));
    }

    pub(crate) fn flush(&mut self) {
        self.list.iter_mut().for_each(|fetcher| fetcher.flush());
    }

    /// Does what is due. Returns when to call this again.
    pub(crate) fn advance(&mut self, now: Time) -> Time {
        self.list.iter_mut().map(|fetcher| fetcher.advance(now)).min().unwrap_or(Time::NEVER)
    }

    /// The addresses of a host, if a fetcher knows them.
    pub(crate) fn resolve(&self, host: &str) -> Option<DnsResult> {
        self.list.iter().find_map(|fetcher| fetcher.resolve(host))
    }

    /// How many fetches the system allows at once.
    pub(crate) fn capacity(&self) -> usize {
        self.list.iter().map(|fetcher| fetcher.capacity()).min().unwrap_or(usize::MAX)
    }

    pub(crate) fn idle_bytes(&self) -> usize {
        self.list.iter().map(|fetcher| fetcher.idle_bytes()).sum()
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        self.list.iter().flat_map(|fetcher| fetcher.notices()).collect()
    }

    pub(crate) fn has_died(&self) -> bool {
        self.list.iter().any(|fetcher| fetcher.has_died())
    }

    pub(crate) fn stop(&mut self, mode: StopMode) {
        self.list.iter_mut().for_each(|fetcher| fetcher.stop(mode));
    }

    /// Stops the fetchers. With [`StopMode::Drain`], waits for their end. With [`StopMode::Now`], does not wait, because
    /// one may be busy with a huge page whose result is not needed any more.
    pub(crate) fn shut_down(mut self, mode: StopMode) {
        self.stop(mode);
        if mode == StopMode::Drain {
            self.list.iter_mut().for_each(|fetcher| fetcher.join());
        }
    }
}
