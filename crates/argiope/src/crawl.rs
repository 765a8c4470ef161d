//! [`Crawl`]: a crawl as an asynchronous stream of pages that accepts more links while it runs.
//!
//! It works with any executor: the crawl runs on its own threads, and only its results are awaited.
//!
//! The end is detected exactly. A delivered page counts as unfinished work until the caller requests the next one,
//! because the caller may still feed links found on it. The stream ends when nothing is queued, nothing is in flight,
//! and the caller has processed all delivered pages.
//!
//! The count of processed pages also makes delivery reliable: a crawl directory stores how many pages the caller has
//! processed, and the next run fetches and delivers the others again.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use argiope_core::Time;
use argiope_core::crawl::rules::{Config, Rules};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_core::crawl::visit::Visit;
use argiope_runtime::directory::{Directory, DirectoryParts};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{
    Clock, CrawlSetup, KeeperHandle, KeeperMessage, MemoryFrontier, Summary, VisitConsumer, wall_clock,
};
use argiope_runtime::writer_thread::{CommitFrontier, OutputTarget};
use argiope_runtime::{Error, run_lines};
use tokio::sync::{mpsc, oneshot};

use crate::handle::CrawlHandle;
use crate::library_messages::in_library_words;
use crate::page::Page;
use crate::request::IntoRequest;

/// Maximum number of unread pages. Beyond that, the crawl waits (backpressure). Bodies of unread pages count towards
/// the memory budget for bodies.
const MAX_UNREAD: usize = 1_024;
/// The caller's progress is reported to the keeper after this many processed pages. After a crash, the next run
/// delivers at most this many processed pages again, and those that were processed since the last commit.
const REPORT_INTERVAL: u64 = 16;

/// A running crawl, as a stream of its pages.
///
/// Dropping it stops the crawl at once; [`Crawl::close`] ends it gracefully.
///
/// In a [crawl directory](CrawlBuilder::directory), each page is delivered at least once: pages that were not processed
/// are fetched and delivered again by the next run, even after a crash. A page counts as processed when the next one
/// is requested, or the crawl is closed.
///
/// ```
/// # async fn run() -> Result<(), argiope::Error> {
/// let mut crawl = argiope::Crawl::builder("https://example.com/").max_pages(100).start().await?;
/// while let Some(page) = crawl.next().await {
///     println!("{} {:?}", page.url(), page.title());
/// }
/// println!("{} URLs left", crawl.close().await?.left);
/// # Ok(())
/// # }
/// ```
pub struct Crawl {
    /// Settled pages that the caller has not taken yet.
    visits: mpsc::Receiver<Box<Visit>>,
    /// `None` once the crawl is closed or abandoned.
    keeper: Option<KeeperHandle>,
    handle: CrawlHandle,
    /// Pages that the caller has taken.
    taken: u64,
    /// Pages that the caller has processed: all pages that were taken before the latest request for a page.
    processed: u64,
    /// The number of processed pages that was last reported to the keeper.
    reported: u64,
    /// Whether the frontier is a custom one. If it panics, the panic continues in the caller.
    has_custom_frontier: bool,
}

impl fmt::Debug for Crawl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crawl").field("taken", &self.taken).field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Crawl {
    /// Starts a crawl in its crawl directory, or in memory.
    pub(crate) fn open(config: &Config, rules: Rules, fetchers: Fetchers) -> Result<Self, Error> {
        Self::open_with(rules, |rules, consumer| begin(config, rules, fetchers, consumer))
    }

    /// Starts a crawl with a custom frontier.
    pub(crate) fn open_on<F>(rules: Rules, fetchers: Fetchers, frontier: F) -> Result<Self, Error>
    where
        F: CommitFrontier + Send + 'static,
    {
        let target = OutputTarget::default();
        let begin = |rules, consumer| begin_on(fetchers, rules, Clock::start(), frontier, target, consumer);
        let mut crawl = Self::open_with(rules, begin)?;
        crawl.has_custom_frontier = true;
        Ok(crawl)
    }

    /// Starts a crawl with `begin`, which gets the consumer that sends the pages to this stream.
    fn open_with(
        rules: Rules,
        begin: impl FnOnce(Rules, PageSender) -> Result<KeeperHandle, Error>,
    ) -> Result<Self, Error> {
        let (sender, visits) = mpsc::channel(MAX_UNREAD);
        let max_redirects = rules.max_redirects;
        let keeper = begin(rules, PageSender(sender)).map_err(in_library_words)?;
        let handle = CrawlHandle::new(keeper.inbox.clone(), max_redirects);
        Ok(Self {
            visits,
            keeper: Some(keeper),
            handle,
            taken: 0,
            processed: 0,
            reported: 0,
            has_custom_frontier: false,
        })
    }

    // anchor: crawl-next
    /// The next page; `None` when the crawl is over.
    pub async fn next(&mut self) -> Option<Page> {
        std::future::poll_fn(|cx| self.poll_page(cx)).await
    }
    // end: crawl-next

    /// Adds URLs to the crawl: text, [`Url`](crate::Url)s or [`Request`](crate::Request)s. Like roots, they are fetched
    /// even if they are out of scope. Known URLs are not fetched again.
    ///
    /// # Errors
    ///
    /// One of them is not an http or https URL, has a header that cannot be sent, or is too large; then none of them is
    /// added. Or the crawl has ended: [`Crawl::next`] has returned `None`.
    pub fn feed<R: IntoRequest>(&self, requests: impl IntoIterator<Item = R>) -> Result<(), Error> {
        self.handle.feed(requests)
    }

    /// A handle that adds requests from another task or thread.
    pub fn handle(&self) -> CrawlHandle {
        self.handle.clone()
    }

    /// Stops the crawl gracefully: fetches in flight are still delivered, then the stream ends.
    pub fn stop(&self) {
        self.handle.stop();
    }

    // anchor: crawl-close
    /// Ends the crawl gracefully: stops it, lets fetches in flight end, and returns the summary.
    ///
    /// All pages that were taken count as processed. [`Summary::unread`] is the number of those that were not taken.
    /// The next run in the same crawl directory fetches and delivers them again; without a directory they are dropped.
    /// To get them from this run, call [`Crawl::stop`] and read until `None` first.
    ///
    /// # Errors
    ///
    /// The error that ended the crawl early.
    pub async fn close(mut self) -> Result<Summary, Error> {
        let keeper = self.detach()?;
        let (sender, receiver) = oneshot::channel();
        let thread = std::thread::Builder::new().name("argiope-close".into());
        let join = move || {
            // Ignored: the future that waits for this may have been dropped.
            let _ = sender.send(keeper.join());
        };
        thread.spawn(join).map_err(Error::no_thread)?;
        match receiver.await {
            Ok(summary) => summary.map_err(in_library_words),
            Err(_) => Err(Error::internal("the keeper thread died")),
        }
    }

    /// Stops the crawl, and takes no more pages.
    fn detach(&mut self) -> Result<KeeperHandle, Error> {
        self.handle.send(KeeperMessage::Processed(self.taken));
        self.stop();
        self.handle.send(KeeperMessage::Detach);
        self.drop_unread();
        self.keeper.take().ok_or_else(|| Error::internal("the crawl was closed before"))
    }
    // end: crawl-close

    /// Refuses further pages. Those that wait are dropped, because fetches in flight may need their memory.
    fn drop_unread(&mut self) {
        self.visits.close();
        while self.visits.try_recv().is_ok() {}
    }

    /// Like [`Crawl::close`], on this thread. A panic of a custom frontier continues in the caller.
    pub(crate) fn close_blocking(mut self) -> Result<Summary, Error> {
        let keeper = self.detach()?;
        match catch_unwind(AssertUnwindSafe(|| keeper.join())) {
            Ok(summary) => summary.map_err(in_library_words),
            Err(panic) if self.has_custom_frontier => resume_unwind(panic),
            Err(_) => Err(Error::internal("the keeper thread died")),
        }
    }

    /// Ends the crawl at once, because the page that was taken last could not be processed.
    pub(crate) fn abandon(mut self) {
        self.end_now();
        self.drop_unread();
        if let Some(keeper) = self.keeper.take() {
            // Ignored: the caller has an error to report that came first.
            let _ = keeper.join();
        }
    }

    /// Polls for the next page. All pages that were taken before count as processed.
    pub(crate) fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Page>> {
        self.processed = self.taken;
        let polled = self.visits.poll_recv(cx);
        match &polled {
            Poll::Ready(Some(_)) => {
                self.taken += 1;
                if self.processed - self.reported >= REPORT_INTERVAL {
                    self.report_processed();
                }
            }
            // The caller has processed all delivered pages, so the keeper may end the crawl if no work is left. A crawl
            // without pages also needs this report.
            Poll::Pending if self.reported != self.processed || self.processed == 0 => self.report_processed(),
            Poll::Ready(None) => self.handle.set_over(),
            Poll::Pending => {}
        }
        polled.map(|visit| visit.map(Page::new))
    }

    /// Reports the caller's progress to the keeper.
    fn report_processed(&mut self) {
        self.reported = self.processed;
        self.handle.send(KeeperMessage::Processed(self.processed));
    }

    /// Ends the crawl at once.
    fn end_now(&mut self) {
        self.report_processed();
        self.handle.send(KeeperMessage::EndNow);
    }
}

impl futures_core::Stream for Crawl {
    type Item = Page;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_page(cx)
    }
}

impl Drop for Crawl {
    fn drop(&mut self) {
        if self.keeper.is_some() {
            self.end_now();
        }
    }
}

/// Starts a crawl in its crawl directory, or in memory if it has none.
fn begin(config: &Config, rules: Rules, fetchers: Fetchers, consumer: PageSender) -> Result<KeeperHandle, Error> {
    let Some(path) = &config.out else {
        let frontier = MemoryFrontier::new(rules.fingerprint_key);
        return begin_on(fetchers, rules, Clock::start(), frontier, OutputTarget::default(), consumer);
    };
    let mut directory = Directory::open(path, &rules, config)?;
    directory.requeue_unread()?;
    directory.begin(config.recrawl)?;
    let jsonl = config.jsonl.as_deref().map(|jsonl| directory.open_output(jsonl)).transpose()?;
    let clock = Clock::start();
    let first_line = run_lines::first(config, &wall_clock(&clock).text(Time::ZERO));
    let DirectoryParts { frontier, target, rules } = directory.into_parts(rules, jsonl, first_line)?;
    begin_on(fetchers, rules, clock, frontier, target, consumer)
}

/// Starts a crawl with this frontier.
fn begin_on<F: CommitFrontier + Send + 'static>(
    fetchers: Fetchers,
    rules: Rules,
    clock: Clock,
    frontier: F,
    target: OutputTarget,
    consumer: PageSender,
) -> Result<KeeperHandle, Error> {
    let rules = Arc::new(rules);
    KeeperHandle::start(CrawlSetup { frontier, fetchers, rules, clock, consumer, target, accepts_links: true })
}

/// Sends the pages to the stream. Blocks while [`MAX_UNREAD`] pages are unread.
struct PageSender(mpsc::Sender<Box<Visit>>);

impl VisitConsumer for PageSender {
    fn take(&mut self, settled: Settled) {
        // Only pages are delivered, not robots.txt and sitemaps. If the reader is gone, the send fails and is ignored.
        if settled.visit.is_page() {
            let _ = self.0.blocking_send(settled.visit);
        }
    }

    fn flush(&mut self) {}
}
