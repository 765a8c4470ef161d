//! [`Crawl`]: a crawl as an asynchronous stream of visits, which takes links back while it runs.
//!
//! It works under any executor: the crawl itself lives on threads of its own, and only its results are awaited.
//!
//! The end is exact here too. Every visit that was handed to you counts as unfinished work until you ask for the next
//! one, since you may still feed links because of it; the stream ends when nothing is queued, nothing is under way and
//! nothing is in your hands.

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

/// Visits that may wait to be read before the crawl waits for its reader.
const UNREAD: usize = 1_024;

/// A crawl that runs, as a stream of its visits.
///
/// Dropping it stops the crawl at once; [`Crawl::close`] ends it in an orderly way.
pub struct Crawl {
    visits: mpsc::Receiver<Box<Visit>>,
    keeping: Option<KeeperHandle>,
    read: u64,
    told: u64,
}

impl Crawl {
    /// Starts a crawl: in the crawl directory `config.out`, which is made or gone on with, and where visits are handed out
    /// only once they are durable; or in memory where none is named.
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
        let (sender, visits) = mpsc::channel(UNREAD);
        let (engine, rules, consumer) = (engine_kind(config.engine), Arc::new(rules), Streaming(sender));
        let keeping = KeeperHandle::start(CrawlSetup { frontier, engine, rules, clock, consumer, target, open: true })?;
        Ok(Self { visits, keeping: Some(keeping), read: 0, told: 0 })
    }

    // anchor: crawl-feed
    /// The next visit; none when the crawl is over.
    pub async fn next(&mut self) -> Option<Box<Visit>> {
        std::future::poll_fn(|cx| self.poll_visit(cx)).await
    }
    // end: crawl-feed

    /// Gives the crawl more addresses. They need not be in scope: like roots, they are asked for. Those that are known
    /// already are not asked for again.
    pub fn feed<'a>(&self, addresses: impl IntoIterator<Item = &'a str>) -> Result<(), BadUrl> {
        let mut links = Vec::new();
        for address in addresses {
            links.push(Link::root(Url::parse(address)?, 10));
        }
        self.tell(KeeperMessage::Feed(links));
        Ok(())
    }

    /// Hands out no more work: what is under way is still delivered, then the stream ends.
    pub fn stop(&self) {
        self.tell(KeeperMessage::Stop(End::Interrupted));
    }

    // anchor: crawl-close
    /// Ends the crawl in an orderly way: stops it, lets what is under way end, and says how it went.
    pub async fn close(mut self) -> Result<Summary, Error> {
        self.stop();
        while self.next().await.is_some() {}
        let Some(keeping) = self.keeping.take() else {
            return Err(Error::internal("the crawl was closed before"));
        };
        let (sender, receiver) = oneshot::channel();
        std::thread::spawn(move || {
            // Nobody waits for it any more where the future was dropped.
            let _ = sender.send(keeping.join());
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
            // Everything delivered so far has been dealt with: the keeper may call it a day if it has no more.
            Poll::Pending if self.told != self.read || self.read == 0 => {
                self.told = self.read;
                self.tell(KeeperMessage::Read(self.read));
            }
            Poll::Pending | Poll::Ready(None) => {}
        }
        polled
    }

    fn tell(&self, mail: KeeperMessage) {
        if let Some(keeping) = &self.keeping {
            // A keeper that has left has ended the crawl: there is nothing more to tell it.
            let _ = keeping.inbox.send(mail);
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
        // Errands are the crawl's own affair. A reader that is gone wants no more.
        if settled.visit.is_page() {
            let _ = self.0.blocking_send(settled.visit);
        }
    }

    fn flush(&mut self) {}
}
