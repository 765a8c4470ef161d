//! [`Fetcher`]: takes jobs and returns a visit for each. It is the first of the two seams of a crawl.
//!
//! The keeper decides that a request may be sent, and says so with a [`Job`]. It does not know how the request is sent:
//! over sockets (the engines), by a program that renders pages, or not at all (a replay from an archive, a test double).
//! A crawl has one or more fetchers. Each job is offered to them in order, until one of them accepts it. So the choice is
//! made for each job, and not once for the crawl.
//!
//! What a fetcher receives becomes a visit in one place, which all fetchers share: a
//! [`Session`](crate::crawl::session::Session) over a connection, or a
//! [`WholeResponse`](crate::crawl::response::WholeResponse) that is there as a whole. So limits, charsets, links,
//! digests and the archive do not depend on the fetcher.
//!
//! A page may need two fetchers. When the visit of one fetcher is complete, its slot is released, and the visit is offered
//! to the other fetchers ([`Fetcher::resume`]). One that accepts it returns it later, changed or not.
//!
//! Invariant: a fetcher returns exactly one visit for every job and every visit that it has accepted, unless it is stopped
//! with [`StopMode::Now`].

use std::io;
use std::sync::Arc;

use crate::base::job::{Job, PagePart};
use crate::base::link::Link;
use crate::base::time::Time;
use crate::crawl::rules::Rules;
use crate::crawl::visit::Visit;
use crate::http::address::DnsResult;

/// Takes jobs and returns a visit for each, through the [`VisitSender`] that it gets at its start.
///
/// The driver of the crawl calls the methods on one thread. A fetcher may have threads of its own.
pub trait Fetcher: Send {
    /// Starts the fetcher. This is called once, before all other methods.
    ///
    /// # Errors
    ///
    /// The fetcher cannot work on this system. The crawl then does not start.
    fn start(&mut self, crawl: &FetcherContext) -> io::Result<()>;

    /// Waits until jobs can be accepted. This is called once, before the first job.
    ///
    /// # Errors
    ///
    /// As for [`Fetcher::start`].
    fn wait_ready(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Accepts a job, or returns it, to be offered to the next fetcher. The last fetcher accepts every job.
    ///
    /// # Errors
    ///
    /// The job, if another fetcher must take it.
    fn accept(&mut self, job: Job, now: Time) -> Result<(), Job>;

    /// Accepts a complete visit of another fetcher, to continue it, or returns it. A visit that is returned by all
    /// fetchers is settled as it is. A visit is continued once at most.
    ///
    /// # Errors
    ///
    /// The visit, unchanged.
    fn resume(&mut self, visit: Box<Visit>, _now: Time) -> Result<(), Box<Visit>> {
        Err(visit)
    }

    /// Takes the response to a request that this fetcher made for a page that it continues ([`PartRequest`]). The
    /// fetcher may take its body.
    fn take_part(&mut self, _visit: &mut Visit, _now: Time) {}

    /// Begins with what was accepted since the last call. A fetcher with threads passes it on in one batch.
    fn flush(&mut self) {}

    /// Does what is due at `now`, and returns when to call this again. Only a fetcher without threads needs this.
    fn advance(&mut self, _now: Time) -> Time {
        Time::NEVER
    }

    /// The addresses of a host, if this fetcher knows them. If no fetcher does, the name is looked up.
    fn resolve(&self, _host: &str) -> Option<DnsResult> {
        None
    }

    /// How many fetches the system allows at once.
    fn capacity(&self) -> usize {
        usize::MAX
    }

    /// The estimated memory of idle connections, in bytes.
    fn idle_bytes(&self) -> usize {
        0
    }

    /// Messages for the user since the last call.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a part of the fetcher has died, so that some jobs will not be returned.
    fn has_died(&self) -> bool {
        false
    }

    /// Stops, without waiting.
    fn stop(&mut self, mode: StopMode);

    /// Waits for the end of a fetcher that was stopped with [`StopMode::Drain`].
    fn join(&mut self) {}
}

/// What a fetcher gets at its start.
#[derive(Clone)]
pub struct FetcherContext {
    pub rules: Arc<Rules>,
    /// Where visits are returned.
    pub visits: VisitSender,
    /// Where a fetcher that continues pages asks for their parts.
    pub parts: PartSender,
}

/// A request of a page that a fetcher continues. It becomes a job of its host like every other request.
#[derive(Debug)]
pub struct PartRequest {
    pub link: Link,
    pub part: PagePart,
}

/// What a fetcher that continues pages tells the keeper about their parts.
#[derive(Debug)]
pub enum PartMessage {
    Request(PartRequest),
    /// The page with this [`PagePart::tab`] makes no more requests. Those that are not sent yet are refused.
    PageEnded(u64),
}

/// Asks the keeper for parts of pages.
#[derive(Clone)]
pub struct PartSender(Arc<dyn Fn(PartMessage) + Send + Sync>);

impl PartSender {
    /// `deliver` is called on the threads of the fetcher.
    pub fn new(deliver: impl Fn(PartMessage) + Send + Sync + 'static) -> Self {
        Self(Arc::new(deliver))
    }

    /// For a crawl without fetchers that continue pages.
    pub fn none() -> Self {
        Self::new(drop)
    }

    pub fn send(&self, request: PartRequest) {
        (self.0)(PartMessage::Request(request));
    }

    /// Says that a page makes no more requests: every page that sent one ends with this.
    pub fn page_ended(&self, tab: u64) {
        (self.0)(PartMessage::PageEnded(tab));
    }
}

/// How a fetcher stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopMode {
    /// Finish what was accepted, then end.
    Drain,
    /// Drop everything and end.
    Now,
}

/// Returns visits to the keeper in batches: `push` adds a visit, `send` is called before the caller sleeps.
pub struct VisitSender<R = Box<Visit>> {
    batch: Vec<R>,
    deliver: Arc<Deliver<R>>,
}

/// Takes the contents of the vector and leaves it empty.
type Deliver<R> = dyn Fn(&mut Vec<R>) + Send + Sync;

/// A batch of this size is sent at once.
const FULL_BATCH: usize = 64;

impl<R> Clone for VisitSender<R> {
    /// The clone has a batch of its own, empty at first.
    fn clone(&self) -> Self {
        Self { batch: Vec::new(), deliver: Arc::clone(&self.deliver) }
    }
}

impl<R> VisitSender<R> {
    /// `deliver` takes the contents of the vector and leaves it empty. It is called on the threads of the fetcher.
    pub fn new(deliver: impl Fn(&mut Vec<R>) + Send + Sync + 'static) -> Self {
        Self { batch: Vec::new(), deliver: Arc::new(deliver) }
    }

    pub fn push(&mut self, visit: R) {
        self.batch.push(visit);
        if self.batch.len() >= FULL_BATCH {
            self.send();
        }
    }

    pub fn send(&mut self) {
        if !self.batch.is_empty() {
            (self.deliver)(&mut self.batch);
            self.batch.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn visits_are_sent_in_batches() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let mut visit_sender = VisitSender::new(move |batch: &mut Vec<u8>| seen.lock().unwrap().push(batch.len()));
        for _ in 0..FULL_BATCH + 1 {
            visit_sender.push(0);
        }
        visit_sender.send();
        visit_sender.send();
        assert_eq!(*sizes.lock().unwrap(), [FULL_BATCH, 1]);
    }
}
