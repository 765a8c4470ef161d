//! [`Crawl`]: a crawl as an asynchronous stream of pages that accepts more links while it runs.
//!
//! It works with any executor: the crawl runs on its own threads, or on those of its [`Crawler`](crate::Crawler), and only
//! its results are awaited.
//!
//! The end is detected exactly. A delivered page counts as unfinished work until the caller has processed it, because the
//! caller may still feed links found on it: until the caller requests the next page ([`Crawl::next`]), or acknowledges
//! the page ([`Crawl::next_acked`]). The stream ends when nothing is queued, nothing is in flight, and the caller has
//! processed all delivered pages.
//!
//! Pages are numbered in the order of delivery. The numbers of processed pages also make delivery reliable: a crawl
//! directory stores which pages the caller has processed, and the next run fetches and delivers the others again.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use argiope_core::Time;
use argiope_core::crawl::rules::{Config, Rules};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_core::crawl::visit::Visit;
use argiope_runtime::directory::{Directory, DirectoryParts};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{
    Clock, CrawlSetup, KeeperHandle, KeeperMessage, MemoryFrontier, Summary, VisitConsumer, wall_clock,
};
use argiope_runtime::shared_hosts::SharedHosts;
use argiope_runtime::writer_thread::OutputTarget;
use argiope_runtime::{Error, Store, run_lines};
use tokio::sync::mpsc;

use crate::ack::{Ack, Deliveries, add_number};
use crate::block_on::block_on;
use crate::ending::Ending;
use crate::events;
use crate::feed::Feeding;
use crate::handle::CrawlHandle;
use crate::library_messages::in_library_words;
use crate::page::Page;
use crate::page_links::LinkRules;
use crate::request::IntoRequest;

/// The caller's progress is reported to the keeper after this many processed pages. After a crash, the next run
/// delivers at most this many processed pages again, and those that were processed since the last commit.
const REPORT_INTERVAL: u64 = 16;
/// Taken pages are reported to the keeper in groups of this size.
const TAKEN_INTERVAL: u64 = 128;

/// A running crawl, as a stream of its pages.
///
/// Dropping it stops the crawl at once; [`Crawl::close`] ends it gracefully.
///
/// In a [crawl directory](crate::CrawlBuilder::directory), each page is delivered at least once: pages that were not processed
/// are fetched and delivered again by the next run, even after a crash. A page from [`Crawl::next`] counts as processed
/// when the next one is requested, or the crawl is closed. A page from [`Crawl::next_acked`] or [`Crawl::next_batch`]
/// counts as processed when it is acknowledged. Requests that must not be repeated, such as a POST, are the exception:
/// their pages are not delivered again, because that would send them again.
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
#[must_use = "a crawl stops when it is dropped"]
pub struct Crawl {
    /// Settled pages that the caller has not taken yet.
    visits: mpsc::UnboundedReceiver<SettledPage>,
    link_rules: Arc<LinkRules>,
    ending: Ending,
    handle: CrawlHandle,
    deliveries: Arc<Deliveries>,
    /// How many pages were received from the keeper.
    taken: u64,
    /// The page that [`Crawl::next`] has returned. It is processed when the next one is requested.
    held: Option<u64>,
    /// Processed pages that the keeper does not know about.
    unreported: Vec<Range<u64>>,
    /// How many pages these are.
    unreported_count: u64,
    /// Whether the keeper knows that the caller reads pages.
    has_reported: bool,
    /// The value of `taken` that the keeper knows.
    told: u64,
    /// Whether the keeper knows that the caller waits for a page.
    is_waiting: bool,
    /// What the keeper was asked for last.
    asked: Asked,
}

/// What the keeper was asked for. Only the answer to the latest question counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// A signal when the time is over in which a batch is collected.
    BatchTime,
    /// A signal when no work is left but pages that are not acknowledged.
    Idle,
}

/// The result of [`Crawl::next_or_idle`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Delivery {
    /// A page, and its acknowledgement.
    Page(Page, Ack),
    /// No work is left, but pages that are not acknowledged. The crawl continues if requests are added, or if an
    /// acknowledgement is dropped.
    Idle,
    /// The crawl is over.
    End,
}

impl fmt::Debug for Crawl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crawl").field("taken", &self.taken).field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Crawl {
    /// Starts a crawl in its crawl directory, or in memory.
    pub(crate) fn open(config: &Config, rules: Rules, means: Means) -> Result<Self, Error> {
        let directory = config.out.as_deref();
        Self::open_with(rules, directory, |rules, consumer| begin(config, rules, means, consumer))
    }

    /// Starts a crawl with a store of the user.
    pub(crate) fn open_on<F>(rules: Rules, means: Means, frontier: F) -> Result<Self, Error>
    where
        F: Store + Send + 'static,
    {
        let target = OutputTarget::default();
        let begin = |rules, consumer| begin_on(means, rules, Clock::start(), frontier, target, consumer);
        let mut crawl = Self::open_with(rules, None, begin)?;
        crawl.ending.has_custom_frontier = true;
        Ok(crawl)
    }

    /// Starts a crawl with `begin`, which gets the consumer that sends the pages to this stream.
    fn open_with(
        rules: Rules,
        directory: Option<&Path>,
        begin: impl FnOnce(Rules, PageSender) -> Result<KeeperHandle, Error>,
    ) -> Result<Self, Error> {
        // The keeper starts no requests while too many pages are unread, so the channel is bounded. It must not block: the
        // caller may wait for an answer of the keeper or the writer.
        let (sender, visits) = mpsc::unbounded_channel();
        let (link_rules, max_redirects) = (Arc::new(LinkRules::of(&rules)), rules.max_redirects);
        let keeper = begin(rules, PageSender(sender)).map_err(in_library_words)?;
        let number = events::next_number();
        events::started(number, directory);
        let deliveries = Deliveries::new(keeper.inbox.clone());
        let handle = CrawlHandle::new(Arc::clone(&deliveries), max_redirects, directory.map(Arc::from));
        Ok(Self {
            visits,
            link_rules,
            ending: Ending::of(keeper, number),
            handle,
            deliveries,
            taken: 0,
            held: None,
            unreported: Vec::new(),
            unreported_count: 0,
            has_reported: false,
            told: 0,
            is_waiting: false,
            asked: Asked::Nothing,
        })
    }

    // anchor: crawl-next
    /// The next page; `None` when the crawl is over. The page that the last call returned counts as processed.
    pub async fn next(&mut self) -> Option<Page> {
        std::future::poll_fn(|cx| self.poll_page(cx)).await
    }
    // end: crawl-next

    /// As [`Crawl::next`], but the error that ended the crawl early is returned when all pages are read, so that it
    /// cannot be lost. [`Crawl::close`] then returns it again. If the future is dropped, no page and no error is lost.
    ///
    /// ```
    /// # async fn run(root: &str) -> Result<(), argiope::Error> {
    /// let mut crawl = argiope::Crawl::builder(root).start().await?;
    /// while let Some(page) = crawl.try_next().await? {
    ///     println!("{} {:?}", page.url(), page.title());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The crawl ended early, for example because its directory cannot be written.
    pub async fn try_next(&mut self) -> Result<Option<Page>, Error> {
        if let Some(page) = self.next().await {
            return Ok(Some(page));
        }
        std::future::poll_fn(|cx| self.ending.poll(cx)).await.map(|_| None)
    }

    /// As [`Crawl::try_next`], on this thread.
    pub(crate) fn try_next_blocking(&mut self) -> Result<Option<Page>, Error> {
        if let Some(page) = block_on(|context| self.poll_page(context)) {
            return Ok(Some(page));
        }
        block_on(|cx| self.ending.poll(cx)).map(|_| None)
    }

    /// The next page, with its acknowledgement; `None` when the crawl is over. The page counts as processed when
    /// [`Ack::done`] is called. Several pages may be open at once, so that tasks can process them in parallel.
    ///
    /// If the future is dropped, no page is lost.
    ///
    /// ```
    /// # async fn save(page: &argiope::Page) {}
    /// # async fn run(root: &str) -> Result<(), argiope::Error> {
    /// let mut crawl = argiope::Crawl::builder(root).directory("pages.crawl").start().await?;
    /// while let Some((page, ack)) = crawl.next_acked().await {
    ///     tokio::spawn(async move {
    ///         save(&page).await;
    ///         ack.done();
    ///     });
    /// }
    /// crawl.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_acked(&mut self) -> Option<(Page, Ack)> {
        std::future::poll_fn(|cx| self.poll_acked(cx)).await
    }

    /// The next pages, at most `max`, with one acknowledgement for all of them; `None` when the crawl is over. Waits for
    /// the first page, and then for at most `wait` for more of them. It does not wait for pages that can only come when
    /// pages are acknowledged.
    ///
    /// If the future is dropped, no page is lost.
    pub async fn next_batch(&mut self, max: usize, wait: Duration) -> Option<(Vec<Page>, Ack)> {
        let mut batch = Ack::default();
        std::future::poll_fn(|cx| self.poll_batch(&mut batch, max, wait, cx)).await
    }

    /// As [`Crawl::next_acked`], but also returns when no work is left except pages that are not acknowledged. So
    /// several tasks that read one crawl can end while another one still processes a page.
    pub async fn next_or_idle(&mut self) -> Delivery {
        std::future::poll_fn(|cx| self.poll_or_idle(cx)).await
    }

    /// The pages with their acknowledgements as a stream, for adapters such as `for_each_concurrent`.
    pub fn acked(&mut self) -> AckedPages<'_> {
        AckedPages { crawl: self }
    }

    /// Adds URLs to the crawl: text, [`Url`](crate::Url)s or [`Request`](crate::Request)s. Like roots, they are fetched
    /// even if they are out of scope. Known URLs are not fetched again, unless the request has a
    /// [`key`](crate::Request::key). The result can be awaited: it says which requests were added. If it is dropped, they
    /// are added nevertheless.
    ///
    /// ```
    /// # async fn run(crawl: &argiope::Crawl) -> Result<(), argiope::Error> {
    /// let report = crawl.feed(["https://example.com/a", "https://example.com/b"])?.await;
    /// println!("{} added, {} known before", report.added(), report.known());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// One of them is not an http or https URL, has a header that cannot be sent, or is too large; then none of them is
    /// added. Or the crawl has ended: [`Crawl::next`] has returned `None`.
    pub fn feed<R: IntoRequest>(&self, requests: impl IntoIterator<Item = R>) -> Result<Feeding, Error> {
        self.handle.feed(requests)
    }

    /// Adds the URLs of the elements of a page that a CSS selector matches: see [`CrawlHandle::follow`].
    ///
    /// # Errors
    ///
    /// `css` is not a selector, or the crawl has ended.
    pub fn follow(&self, page: &Page, css: &str) -> Result<Feeding, Error> {
        self.handle.follow(page, css)
    }

    /// A handle that adds requests from another task or thread, and shows and controls the crawl.
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
    /// All pages that [`Crawl::next`] has returned count as processed. [`Summary::unread`] is the number of pages that were
    /// not taken or not acknowledged. The next run in the same crawl directory fetches and delivers them again; without a
    /// directory they are dropped. To get them from this run, call [`Crawl::stop`] and read until `None` first.
    ///
    /// # Errors
    ///
    /// The error that ended the crawl early.
    pub async fn close(mut self) -> Result<Summary, Error> {
        self.detach();
        std::future::poll_fn(|cx| self.ending.poll(cx)).await
    }

    /// Stops the crawl, and takes no more pages.
    fn detach(&mut self) {
        self.process_held();
        self.report_processed();
        self.stop();
        self.handle.send(KeeperMessage::Detach);
        self.drop_unread();
    }
    // end: crawl-close

    /// Ends the crawl at once: fetches in flight are given up. In a crawl directory, the next run sends them again. Of the
    /// pages that were delivered, those that are processed are, as with [`Crawl::close`].
    ///
    /// # Errors
    ///
    /// The error that ended the crawl early.
    pub async fn abort(mut self) -> Result<Summary, Error> {
        self.process_held();
        self.end_now();
        self.drop_unread();
        std::future::poll_fn(|cx| self.ending.poll(cx)).await
    }

    /// Refuses further pages. Those that wait are dropped, because fetches in flight may need their memory.
    fn drop_unread(&mut self) {
        self.visits.close();
        while self.visits.try_recv().is_ok() {}
        self.deliveries.clear();
    }

    /// Like [`Crawl::close`], on this thread. A panic of a user's store continues in the caller.
    pub(crate) fn close_blocking(mut self) -> Result<Summary, Error> {
        self.detach();
        block_on(|cx| self.ending.poll(cx))
    }

    /// Ends the crawl at once, because the page that was taken last could not be processed.
    pub(crate) fn abandon(mut self) {
        self.end_now();
        self.drop_unread();
        // Ignored: the caller has an error to report that came first.
        let _ = block_on(|cx| self.ending.poll(cx));
    }

    /// Polls for the next page. The page that was taken before counts as processed.
    pub(crate) fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Page>> {
        self.process_held();
        self.poll_delivery(cx).map(|delivered| {
            let (number, page) = delivered?;
            self.held = Some(number);
            Some(page)
        })
    }

    /// Polls for the next page and its acknowledgement.
    pub(crate) fn poll_acked(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Page, Ack)>> {
        self.poll_numbered(cx).map(|delivered| {
            let (number, page) = delivered?;
            Some((page.clone(), Ack::of(number, page, &self.deliveries)))
        })
    }

    /// Polls until `batch` has `max` pages, or no more pages come within `wait`.
    pub(crate) fn poll_batch(
        &mut self,
        batch: &mut Ack,
        max: usize,
        wait: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(Vec<Page>, Ack)>> {
        while batch.pages().len() < max.max(1) {
            match self.poll_acked(cx) {
                Poll::Ready(Some((_, ack))) => batch.merge(ack),
                Poll::Ready(None) => break,
                Poll::Pending if batch.pages().len() == 0 => {
                    self.asked = Asked::Nothing;
                    return Poll::Pending;
                }
                Poll::Pending if wait.is_zero() || self.is_answered(Asked::BatchTime) => break,
                Poll::Pending if self.asked == Asked::BatchTime => return Poll::Pending,
                Poll::Pending => {
                    self.asked = Asked::BatchTime;
                    self.deliveries.ask_alarm(wait);
                    return Poll::Pending;
                }
            }
        }
        self.asked = Asked::Nothing;
        let pages: Vec<Page> = batch.pages().cloned().collect();
        Poll::Ready((!pages.is_empty()).then(|| (pages, std::mem::take(batch))))
    }

    /// Polls for the next page, or for the state in which no work is left but pages that are not acknowledged.
    pub(crate) fn poll_or_idle(&mut self, cx: &mut Context<'_>) -> Poll<Delivery> {
        match self.poll_acked(cx) {
            Poll::Ready(Some((page, ack))) => {
                // An answer from before this page is processed would not say whether the crawl is idle after it.
                self.asked = Asked::Nothing;
                Poll::Ready(Delivery::Page(page, ack))
            }
            Poll::Ready(None) => Poll::Ready(Delivery::End),
            Poll::Pending if self.is_answered(Asked::Idle) => {
                self.asked = Asked::Nothing;
                Poll::Ready(Delivery::Idle)
            }
            Poll::Pending => {
                if self.asked != Asked::Idle {
                    self.asked = Asked::Idle;
                    self.deliveries.ask_idle();
                }
                Poll::Pending
            }
        }
    }

    /// Whether the keeper has answered this question, and all pages that were delivered before are taken.
    fn is_answered(&self, question: Asked) -> bool {
        self.asked == question && self.deliveries.answered().is_some_and(|delivered| delivered <= self.taken)
    }

    /// Polls for the next page and its number, which the caller passes to [`Crawl::process`].
    pub(crate) fn poll_numbered(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u64, Page)>> {
        self.process_held();
        self.poll_delivery(cx)
    }

    /// The pages with these numbers are processed.
    pub(crate) fn process(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            add_number(&mut self.unreported, number);
            self.unreported_count += 1;
        }
        if self.unreported_count > 0 {
            self.report_processed();
        }
    }

    /// Polls for the next page and its number.
    fn poll_delivery(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u64, Page)>> {
        if let Poll::Ready(returned) = self.deliveries.poll_returned(cx) {
            if self.is_waiting {
                self.tell_taken(false);
            }
            return Poll::Ready(Some(returned));
        }
        match self.visits.poll_recv(cx) {
            Poll::Ready(Some((visit, record_line))) => {
                let number = self.taken;
                self.taken += 1;
                if self.is_waiting || self.taken - self.told >= TAKEN_INTERVAL {
                    self.tell_taken(false);
                }
                if self.unreported_count >= REPORT_INTERVAL {
                    self.report_processed();
                }
                let page = Page::new(visit, record_line, Arc::clone(&self.link_rules));
                events::page(self.ending.crawl(), &page);
                Poll::Ready(Some((number, page)))
            }
            Poll::Ready(None) => {
                self.handle.set_over();
                Poll::Ready(None)
            }
            Poll::Pending => {
                // The caller has processed all pages from `next`, so the keeper may end the crawl if no work is left. A
                // crawl without pages also needs this report.
                if self.unreported_count > 0 || !self.has_reported {
                    self.report_processed();
                }
                if !self.is_waiting || self.told != self.taken {
                    self.tell_taken(true);
                }
                Poll::Pending
            }
        }
    }

    /// Tells the keeper how many pages the caller has taken, and whether it waits for the next one.
    fn tell_taken(&mut self, is_waiting: bool) {
        (self.told, self.is_waiting) = (self.taken, is_waiting);
        self.handle.send(KeeperMessage::Taken { pages: self.taken, is_waiting });
    }

    /// The page that [`Crawl::next`] has returned is processed.
    fn process_held(&mut self) {
        if let Some(number) = self.held.take() {
            add_number(&mut self.unreported, number);
            self.unreported_count += 1;
        }
    }

    /// Reports the caller's progress to the keeper.
    fn report_processed(&mut self) {
        (self.has_reported, self.unreported_count) = (true, 0);
        self.handle.send(KeeperMessage::Processed(std::mem::take(&mut self.unreported), None));
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

/// The pages of a crawl with their acknowledgements, as a stream. Created by [`Crawl::acked`].
#[derive(Debug)]
#[must_use = "a stream does nothing unless it is polled"]
pub struct AckedPages<'a> {
    crawl: &'a mut Crawl,
}

impl futures_core::Stream for AckedPages<'_> {
    type Item = (Page, Ack);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.crawl.poll_acked(cx)
    }
}

impl Drop for Crawl {
    fn drop(&mut self) {
        if self.ending.is_running() {
            self.end_now();
        }
    }
}

/// What a crawl sends requests with, and whom it shares hosts with.
pub(crate) struct Means {
    pub fetchers: Fetchers,
    /// The hosts of the [`Crawler`](crate::Crawler) to which the crawl belongs, if there is one.
    pub hosts: Option<SharedHosts>,
}

/// Starts a crawl in its crawl directory, or in memory if it has none.
fn begin(config: &Config, rules: Rules, means: Means, consumer: PageSender) -> Result<KeeperHandle, Error> {
    let Some(path) = &config.out else {
        let frontier = MemoryFrontier::new(rules.fingerprint_key);
        return begin_on(means, rules, Clock::start(), frontier, OutputTarget::default(), consumer);
    };
    let mut directory = Directory::open(path, &rules, config)?;
    directory.requeue_unread()?;
    directory.begin(config.recrawl)?;
    let jsonl = config.jsonl.as_deref().map(|jsonl| directory.open_output(jsonl)).transpose()?;
    let clock = Clock::start();
    let first_line = run_lines::first(config, &wall_clock(&clock).text(Time::ZERO));
    let DirectoryParts { frontier, target, rules } = directory.into_parts(rules, jsonl, first_line)?;
    begin_on(means, rules, clock, frontier, target, consumer)
}

/// Starts a crawl with this frontier.
fn begin_on<F: Store + Send + 'static>(
    means: Means,
    rules: Rules,
    clock: Clock,
    frontier: F,
    target: OutputTarget,
    consumer: PageSender,
) -> Result<KeeperHandle, Error> {
    let Means { fetchers, hosts } = means;
    // In virtual time there are no hosts that could be asked too often.
    let hosts = hosts.filter(|_| fetchers.virtual_start().is_none());
    let (rules, frontier) = (Arc::new(rules), SharedHosts::share(hosts.as_ref(), frontier));
    KeeperHandle::start(CrawlSetup { frontier, fetchers, rules, clock, consumer, target, accepts_links: true })
}

/// A settled page, with the line of its record.
type SettledPage = (Box<Visit>, Vec<u8>);

/// Sends the pages to the stream.
struct PageSender(mpsc::UnboundedSender<SettledPage>);

impl VisitConsumer for PageSender {
    fn may_block(&self) -> bool {
        false
    }

    fn take(&mut self, settled: Settled) {
        // Only pages are delivered, not robots.txt and sitemaps. If the reader is gone, the send fails and is ignored.
        if settled.visit.is_page() {
            let _ = self.0.send((settled.visit, settled.line));
        }
    }

    fn flush(&mut self) {}
}
