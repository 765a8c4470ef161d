//! The simulation engine, with virtual time and without sockets.
//!
//! [`Sim`] drives the same [`Keeper`] as a real crawl. The web is a [`SimWeb`], a function from requests to replies. A
//! simulated day takes milliseconds, and every run is reproducible. A [`PolitenessChecker`] observes each request and
//! each response. It does not use the lanes of the scheduler.
//!
//! Invariant: time advances only to the next event or to the time that the keeper waits for. A simulation fails if the
//! keeper waits for a time in the past, or waits forever while no event is scheduled.

pub mod broad;
pub mod model;
pub mod politeness;
pub mod rng;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::{Job, Purpose};
use argiope_core::base::time::WallClock;
use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::keeper::{End, Keeper, Next, Settled};
use argiope_core::crawl::visit::{SiteFile, Visit};
use argiope_core::page::likeness::LikenessReader;
use argiope_core::page::sitemap::Sitemap;
use argiope_core::{Counts, ErrorKind, Failure, Frontier, LaneId, Link, LinkList, Outcome, StoreError, Time, Url};
use argiope_store::MemoryFrontier;

pub use politeness::PolitenessChecker;

/// A simulated web.
pub trait SimWeb {
    /// Resolves a name. Returns how long that takes, and the result.
    fn resolve(&mut self, host: &str, now: Time) -> (Duration, ResolveResult);

    /// The reply to a request.
    fn reply(&mut self, job: &Job, now: Time) -> SimReply;
}

/// The addresses of a name and their time to live, or the error.
pub type ResolveResult = Result<(Vec<IpAddr>, Duration), Failure>;

/// The reply to a request.
#[derive(Debug)]
pub struct SimReply {
    /// The time from request to reply.
    pub after: Duration,
    /// The address that was connected to: one of the addresses of the job.
    pub ip: Option<IpAddr>,
    pub response: SimResponse,
    /// The header `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The size on the wire.
    pub bytes: u64,
    pub arrival: Arrival,
}

/// How the bytes of a reply arrive. The crawler may close a reply that drips or is silent before its end, because it is
/// too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All at once, at the end. The simulated crawler does not close such a reply.
    Whole,
    /// The body begins at once and arrives a few bytes at a time.
    Drips,
    /// Nothing arrives before the end.
    Silent,
}

/// The content of a reply.
#[derive(Debug)]
pub enum SimResponse {
    /// 200 with links.
    Page(LinkList),
    /// 200 with links and a text.
    Text(LinkList, String),
    /// 200 with a robots.txt body.
    Robots(Vec<u8>),
    /// 200 with a sitemap.
    Sitemap(Sitemap),
    /// A response with this status and without content.
    Status(u16),
    /// 302 with this Location.
    Redirect(String),
    /// No response, with this error.
    Nothing(ErrorKind),
}

impl SimReply {
    pub fn new(after: Duration, ip: Option<IpAddr>, response: SimResponse) -> Self {
        Self { after, ip, response, retry_after: None, bytes: 1_000, arrival: Arrival::Whole }
    }
}

/// A request that was made.
#[derive(Clone, Debug)]
pub struct SimFetch {
    pub url: Url,
    pub purpose: Purpose,
    pub start: Time,
    /// When the response ends, or would have ended if the crawler had not closed it.
    pub end: Time,
    pub ip: Option<IpAddr>,
}

/// The result of a simulated crawl.
#[derive(Debug)]
pub struct SimReport {
    /// Why the crawl ended.
    pub end: End,
    /// When the keeper reported the end.
    pub ended: Time,
    /// The time of the last event: a response, a resolved name, or links or commands from outside.
    pub last_event: Time,
    /// All requests, in order of start.
    pub fetches: Vec<SimFetch>,
    /// All settled visits, in order of completion.
    pub settled: Vec<Settled>,
    pub counts: Counts,
    /// The number of calls of `Keeper::next`.
    pub orders: u64,
}

/// Why a simulation failed.
#[derive(Debug)]
pub enum SimFault {
    /// The keeper waits forever, and no event is scheduled.
    WaitsForever {
        at: Time,
        /// Number of links that are known and not settled.
        unfinished: u64,
    },
    /// The keeper waits for the current time or an earlier one.
    WaitsForThePast {
        at: Time,
    },
    Store(StoreError),
}

impl From<StoreError> for SimFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// How often a response that drips or is silent is checked. Bytes of a response that drips arrive in this interval.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// An event of the simulation.
enum Event {
    Replied(Box<Visit>),
    /// Checks a response that drips or is silent: it is complete, or it continues, or it is closed because it is too
    /// slow.
    Check(Box<SlowFetch>),
    Resolved(LaneId, ResolveResult),
    /// Links from outside arrive.
    Feed(Vec<Link>),
    /// No more links will come from outside.
    Close,
    Stop(End),
}

/// A fetch whose response drips or is silent.
struct SlowFetch {
    job: Job,
    reply: SimReply,
    start: Time,
}

/// An event and its time. Events with equal times are processed in the order in which they were scheduled.
struct ScheduledEvent {
    at: Time,
    /// The number of events that were scheduled up to this one.
    number: u64,
    event: Event,
}

/// A crawl in virtual time.
pub struct Sim<W> {
    pub keeper: Keeper<MemoryFrontier>,
    pub web: W,
    pub politeness: PolitenessChecker,
    rules: Arc<Rules>,
    events: BinaryHeap<Reverse<ScheduledEvent>>,
    now: Time,
    /// Number of events that were scheduled.
    scheduled: u64,
}

impl<W: SimWeb> Sim<W> {
    pub fn new(rules: Arc<Rules>, web: W) -> Self {
        let frontier = MemoryFrontier::new(rules.fingerprint_key);
        // Any time will do: 2 January 2026.
        let clock = WallClock { start: 1_767_322_800_000_000 };
        Self {
            keeper: Keeper::new(frontier, Arc::clone(&rules), clock),
            web,
            politeness: PolitenessChecker::new(Arc::clone(&rules)),
            rules,
            events: BinaryHeap::new(),
            now: Time::ZERO,
            scheduled: 0,
        }
    }

    /// Starts at this time instead of zero.
    pub fn begin_at(mut self, now: Time) -> Self {
        self.now = now;
        self
    }

    /// Adds links from outside at this time. The crawl does not end before [`Sim::close_at`].
    pub fn feed_at(&mut self, at: Time, links: Vec<Link>) {
        self.keeper.set_open(true);
        self.schedule(at, Event::Feed(links));
    }

    /// No links come from outside after this time, so the crawl can end.
    pub fn close_at(&mut self, at: Time) {
        self.schedule(at, Event::Close);
    }

    /// Stops the crawl at this time, for this reason.
    pub fn stop_at(&mut self, at: Time, end: End) {
        self.schedule(at, Event::Stop(end));
    }

    /// Crawls to the end.
    pub fn run(&mut self) -> Result<SimReport, SimFault> {
        self.keeper.begin(self.now)?;
        let mut fetches = Vec::new();
        let (mut last_event, mut orders) = (self.now, 0);
        let end = loop {
            orders += 1;
            match self.keeper.next(self.now)? {
                Next::Fetch(job) => fetches.push(self.fetch(job)),
                Next::Resolve(lane, host) => {
                    let (duration, resolved) = self.web.resolve(&host, self.now);
                    self.schedule(self.now + duration, Event::Resolved(lane, resolved));
                }
                Next::Wait(until) if until <= self.now => return Err(SimFault::WaitsForThePast { at: self.now }),
                Next::Wait(until) => match self.events.peek() {
                    Some(Reverse(scheduled)) if scheduled.at <= until => {
                        last_event = self.now.max(scheduled.at);
                        self.process_next_event()?;
                    }
                    _ if until.is_never() => {
                        return Err(SimFault::WaitsForever { at: self.now, unfinished: self.keeper.unfinished() });
                    }
                    _ => self.now = until,
                },
                Next::Done(end) => break end,
            }
        };
        Ok(SimReport {
            end,
            ended: self.now,
            last_event,
            fetches,
            settled: self.keeper.take_settled(),
            counts: self.keeper.frontier().counts(),
            orders,
        })
    }

    /// Performs a request: schedules its reply.
    fn fetch(&mut self, job: Job) -> SimFetch {
        let reply = self.web.reply(&job, self.now);
        let (start, end) = (self.now, self.now + reply.after);
        self.politeness.start(&job, reply.ip, self.now);
        let fetch = SimFetch { url: job.link.url.clone(), purpose: job.purpose.clone(), start, end, ip: reply.ip };
        if reply.arrival != Arrival::Whole {
            self.schedule(start + CHECK_INTERVAL, Event::Check(Box::new(SlowFetch { job, reply, start })));
        } else {
            let visit = visit(job, reply, start, end, &self.rules);
            self.schedule(end, Event::Replied(Box::new(visit)));
        }
        fetch
    }

    /// Processes the next event.
    fn process_next_event(&mut self) -> Result<(), StoreError> {
        let Some(Reverse(scheduled)) = self.events.pop() else {
            return Ok(());
        };
        self.now = self.now.max(scheduled.at);
        match scheduled.event {
            Event::Replied(visit) => {
                self.politeness.end(&visit, self.now);
                self.keeper.finished(visit, self.now)
            }
            Event::Check(mut fetch) => {
                let age = self.now - fetch.start;
                let is_complete = age >= fetch.reply.after;
                // The workbench sets the quota: the number of slow responses to close.
                let quota = &fetch.job.slow_responses;
                let is_silent = fetch.reply.arrival == Arrival::Silent;
                let is_closed = !is_complete && if is_silent { quota.take_silent(age) } else { quota.take(age) };
                if !is_complete && !is_closed {
                    self.schedule(self.now + CHECK_INTERVAL, Event::Check(fetch));
                    return Ok(());
                }
                if is_closed {
                    fetch.reply.response = SimResponse::Nothing(ErrorKind::TooSlow);
                }
                let SlowFetch { job, reply, start } = *fetch;
                let visit = Box::new(visit(job, reply, start, self.now, &self.rules));
                self.politeness.end(&visit, self.now);
                self.keeper.finished(visit, self.now)
            }
            Event::Resolved(lane, resolved) => {
                self.keeper.resolved(lane, resolved, self.now);
                Ok(())
            }
            Event::Feed(links) => self.keeper.put(links, self.now).map(drop),
            Event::Close => {
                self.keeper.set_open(false);
                Ok(())
            }
            Event::Stop(end) => {
                self.politeness.stop();
                self.keeper.stop(end);
                Ok(())
            }
        }
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse(ScheduledEvent { at, number: self.scheduled, event }));
    }
}

/// The visit that an engine would report for this reply.
fn visit(job: Job, reply: SimReply, start: Time, end: Time, rules: &Rules) -> Visit {
    if let SimResponse::Nothing(kind) = reply.response {
        let mut visit = Visit::failed(job, Failure::new(kind, "a simulated failure"), start, end);
        visit.facts.ip = reply.ip;
        return visit;
    }
    let mut visit = Visit::requested(job, Outcome::Ok, end);
    visit.facts.started = start;
    visit.facts.status = Some(200);
    visit.facts.ip = reply.ip;
    visit.facts.http = Some("1.1");
    visit.facts.bytes_wire = reply.bytes;
    visit.for_keeper.set_retry_after(reply.retry_after);
    visit.facts.timings.ttfb = Some(reply.after);
    visit.facts.timings.total = Some(reply.after);
    // No page of a simulated web has a nofollow directive.
    let nofollow = false;
    match reply.response {
        SimResponse::Page(links) => visit.follow_links(&links, nofollow, &[], rules),
        SimResponse::Text(links, text) => {
            let mut reader = LikenessReader::default();
            reader.text(text.as_bytes());
            visit.for_keeper.set_likeness(reader.finish());
            visit.follow_links(&links, nofollow, &[], rules);
        }
        SimResponse::Robots(bytes) => visit.for_keeper.set_site_file(SiteFile::Robots(bytes)),
        SimResponse::Sitemap(map) => visit.for_keeper.set_site_file(SiteFile::Sitemap(map, rules.budget.hold())),
        SimResponse::Status(status) => {
            visit.facts.status = Some(status);
            visit.facts.outcome = if (200..300).contains(&status) { Outcome::Ok } else { Outcome::HttpError };
        }
        SimResponse::Redirect(location) => {
            visit.facts.status = Some(302);
            visit.facts.outcome = Outcome::Redirect;
            visit.follow_redirect(location.as_bytes(), rules);
        }
        SimResponse::Nothing(_) => {}
    }
    visit
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for ScheduledEvent {}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScheduledEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
