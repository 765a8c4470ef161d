//! [`Crawl`]: a crawl as an asynchronous stream of visits, to which links can be added while it runs.
//!
//! It works with any executor: the crawl runs on its own threads, and only its results are awaited.
//!
//! The end is exact. A visit counts as unfinished work until you ask for the next one, since you may still feed links
//! because of it; the stream ends when nothing is queued, nothing is in flight and you have asked for the next visit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use argiope_core::rules::{Config, Rules};
use argiope_core::schedule::keeper::{End, Settled};
use argiope_core::visit::Visit;
use argiope_core::{BadUrl, Link, Time, Url};
use argiope_runtime::{Error, engine_kind};
use tokio::sync::{mpsc, oneshot};

use argiope_runtime::directory::Directory;
use argiope_runtime::keeper_thread::{
    Clock, CrawlSetup, KeeperHandle, KeeperMessage, MemoryFrontier, Summary, VisitConsumer, wall_clock,
};
use argiope_runtime::run_lines;
use argiope_runtime::writer_thread::{CommitFrontier, OutputTarget};

/// Backpressure: the crawl pauses while this many visits are unread.
const MAX_UNREAD: usize = 1_024;

/// A running crawl, as a stream of its visits.
///
/// Dropping it stops the crawl at once; [`Crawl::close`] ends it gracefully.
pub struct Crawl {
    visits: mpsc::Receiver<Box<Visit>>,
    keeper: Option<KeeperHandle>,
    read: u64,
    told: u64,
}

impl Crawl {
    /// Starts a crawl: in the crawl directory `config.out`, which is created or resumed, and then visits are delivered
    /// only once they are durable; or in memory if none is named.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let rules = argiope_runtime::rules(config)?;
        let Some(path) = &config.out else {
            let frontier = MemoryFrontier::new(rules.fingerprint_key);
            return Self::begin(config, rules, Clock::start(), frontier, OutputTarget::default());
        };
        let directory = Directory::open(path, &rules, config)?;
        let jsonl = config.jsonl.as_deref().map(|jsonl| directory.take_output(jsonl)).transpose()?;
        let clock = Clock::start();
        let first_line = run_lines::first(config, &wall_clock(&clock).text(Time::ZERO));
        let (frontier, target) = directory.into_parts(jsonl, first_line);
        Self::begin(config, rules, clock, frontier, target)
    }

    fn begin<F: CommitFrontier + Send + 'static>(
        config: &Config,
        rules: Rules,
        clock: Clock,
        frontier: F,
        target: OutputTarget,
    ) -> Result<Self, Error> {
        let (sender, visits) = mpsc::channel(MAX_UNREAD);
        let (engine, rules, consumer) = (engine_kind(config.engine), Arc::new(rules), Streaming(sender));
        let keeper = KeeperHandle::start(CrawlSetup { frontier, engine, rules, clock, consumer, target, open: true })?;
        Ok(Self { visits, keeper: Some(keeper), read: 0, told: 0 })
    }

    // anchor: crawl-feed
    /// The next visit; none when the crawl is over.
    pub async fn next(&mut self) -> Option<Box<Visit>> {
        std::future::poll_fn(|cx| self.poll_visit(cx)).await
    }
    // end: crawl-feed

    /// Adds URLs to the crawl. Like roots, they need not be in scope. Known URLs are not fetched again.
    pub fn feed<'a>(&self, addresses: impl IntoIterator<Item = &'a str>) -> Result<(), BadUrl> {
        let mut links = Vec::new();
        for address in addresses {
            links.push(Link::root(Url::parse(address)?, 10));
        }
        self.tell(KeeperMessage::Feed(links));
        Ok(())
    }

    /// Stops handing out jobs: what is in flight is still delivered, then the stream ends.
    pub fn stop(&self) {
        self.tell(KeeperMessage::Stop(End::Interrupted));
    }

    // anchor: crawl-close
    /// Ends the crawl gracefully: stops it, waits for what is in flight, and returns the summary.
    pub async fn close(mut self) -> Result<Summary, Error> {
        self.stop();
        while self.next().await.is_some() {}
        let Some(keeper) = self.keeper.take() else {
            return Err(Error::internal("the crawl was closed before"));
        };
        let (sender, receiver) = oneshot::channel();
        std::thread::spawn(move || {
            // The receiver is gone if the future was dropped.
            let _ = sender.send(keeper.join());
        });
        match receiver.await {
            Ok(summary) => summary,
            Err(_) => Err(Error::internal("the keeper thread died")),
        }
    }
    // end: crawl-close

    fn poll_visit(&mut self, cx: &mut Context<'_>) -> Poll<Option<Box<Visit>>> {
        let polled = self.visits.poll_recv(cx);
        match &polled {
            Poll::Ready(Some(_)) => self.read += 1,
            // The reader is done with everything delivered so far: the crawl may end if nothing is left.
            Poll::Pending if self.told != self.read || self.read == 0 => {
                self.told = self.read;
                self.tell(KeeperMessage::Read(self.read));
            }
            Poll::Pending | Poll::Ready(None) => {}
        }
        polled
    }

    fn tell(&self, message: KeeperMessage) {
        if let Some(keeper) = &self.keeper {
            // A keeper that has ended has no inbox.
            let _ = keeper.inbox.send(message);
        }
    }
}

impl futures_core::Stream for Crawl {
    type Item = Box<Visit>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_visit(cx)
    }
}

impl Drop for Crawl {
    fn drop(&mut self) {
        self.tell(KeeperMessage::Leave);
    }
}

struct Streaming(mpsc::Sender<Box<Visit>>);

impl VisitConsumer for Streaming {
    fn take(&mut self, settled: Settled) {
        // Visits made for the crawl itself (robots.txt, sitemaps) are not delivered. The receiver may be gone.
        if settled.visit.is_page() {
            let _ = self.0.blocking_send(settled.visit);
        }
    }

    fn flush(&mut self) {}
}
