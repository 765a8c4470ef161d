//! [`Crawl`]: a crawl as an asynchronous stream of pages that accepts more links while it runs.
//!
//! It works with any executor: the crawl runs on its own threads, and only its results are awaited.
//!
//! A delivered page counts as unfinished work until the caller asks for the next one, because the caller may still add
//! links found on it. So the stream ends when no URL is queued or in flight, and the caller has processed all pages.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use argiope_core::Time;
use argiope_core::rules::{AssetsScope, Config, ConfigError, Rules, WarcCompression};
use argiope_core::schedule::keeper::{End, Settled};
use argiope_core::visit::Visit;
use argiope_runtime::directory::Directory;
use argiope_runtime::keeper_thread::{
    Clock, CrawlSetup, KeeperHandle, KeeperMessage, MemoryFrontier, Summary, VisitConsumer, wall_clock,
};
use argiope_runtime::writer_thread::{CommitFrontier, OutputTarget};
use argiope_runtime::{Error, engine_kind, run_lines};
use tokio::sync::{mpsc, oneshot};

use crate::builder::{CrawlBuilder, Extras, off_executor};
use crate::page::Page;
use crate::request::IntoRequest;

/// Maximum number of unread pages. Beyond that, the crawl waits (backpressure). Bodies of unread pages count towards
/// the memory budget for bodies.
const MAX_UNREAD: usize = 1_024;

/// A running crawl, as a stream of its pages.
///
/// Dropping it stops the crawl at once; [`Crawl::close`] ends it gracefully.
///
/// ```
/// # async fn run() -> Result<(), argiope::Error> {
/// let mut crawl = argiope::Crawl::builder("https://example.com/").max_pages(100).start().await?;
/// while let Some(page) = crawl.next().await {
///     println!("{} {:?}", page.url(), page.title());
/// }
/// println!("{} pages left", crawl.close().await?.left);
/// # Ok(())
/// # }
/// ```
pub struct Crawl {
    visits: mpsc::Receiver<Box<Visit>>,
    keeper: Option<KeeperHandle>,
    max_redirects: u8,
    /// How many pages the caller has received.
    read: u64,
    /// How many of them the keeper was told about.
    told: u64,
    /// All pages were read.
    is_over: bool,
}

impl Crawl {
    /// Returns the settings of a crawl that begins at `root`: a URL, or a host name, which is tried as https, then
    /// http.
    pub fn builder(root: impl Into<String>) -> CrawlBuilder {
        CrawlBuilder::new(root.into())
    }

    /// Starts a crawl with a given configuration, for example from a file. It is stored in the crawl directory
    /// `config.out`, which is created or resumed, or in memory if `out` is not set.
    ///
    /// # Errors
    ///
    /// A setting cannot be used or has no effect, or the crawl directory cannot be opened.
    pub async fn start(config: &Config) -> Result<Self, Error> {
        let config = config.clone();
        off_executor(move || Self::open(&config, Extras::library_defaults())).await
    }

    pub(crate) fn open(config: &Config, extras: Extras) -> Result<Self, Error> {
        let rules = extras.rules(config)?;
        let (sender, visits) = mpsc::channel(MAX_UNREAD);
        let max_redirects = rules.max_redirects;
        let keeper = begin(config, rules, Streaming(sender), true)?;
        Ok(Self { visits, keeper: Some(keeper), max_redirects, read: 0, told: 0, is_over: false })
    }

    // anchor: crawl-feed
    /// The next page; `None` when the crawl is over.
    pub async fn next(&mut self) -> Option<Page> {
        std::future::poll_fn(|cx| self.poll_page(cx)).await
    }
    // end: crawl-feed

    /// Adds URLs to the crawl: text, [`Url`](crate::Url)s or [`Request`](crate::Request)s. Like roots, they are fetched
    /// even if they are out of scope. Known URLs are not fetched again.
    ///
    /// # Errors
    ///
    /// One of them is not an http or https URL, has a header that cannot be sent, or is too large; then none of them is
    /// added. Or the crawl has ended: [`Crawl::next`] has returned `None`.
    pub fn feed<R: IntoRequest>(&self, requests: impl IntoIterator<Item = R>) -> Result<(), Error> {
        let mut links = Vec::new();
        for (index, request) in requests.into_iter().enumerate() {
            let request =
                request.into_request().map_err(|why| Error::input(format!("request {}: {why}", index + 1)))?;
            links.push(request.into_link(self.max_redirects)?);
        }
        if self.is_over || !self.tell(KeeperMessage::Feed(links)) {
            return Err(Error::input("the crawl has ended: start another one for these requests"));
        }
        Ok(())
    }

    /// Stops the crawl gracefully: fetches in flight are still delivered, then the stream ends.
    pub fn stop(&self) {
        self.tell(KeeperMessage::Stop(End::Interrupted));
    }

    // anchor: crawl-close
    /// Ends the crawl gracefully: stops it, waits for the fetches in flight, and returns its summary.
    ///
    /// Pages that were not read yet are dropped. In a crawl directory they count as finished, so a later run does not
    /// deliver them either. To lose none, call [`Crawl::stop`] first and read until `None`.
    ///
    /// # Errors
    ///
    /// The error that ended the crawl early.
    pub async fn close(mut self) -> Result<Summary, Error> {
        self.stop();
        while self.next().await.is_some() {}
        let Some(keeper) = self.keeper.take() else {
            return Err(Error::internal("the crawl was closed before"));
        };
        let (sender, receiver) = oneshot::channel();
        std::thread::spawn(move || {
            // This fails if the future that waits for the result was dropped.
            let _ = sender.send(keeper.join());
        });
        match receiver.await {
            Ok(summary) => summary,
            Err(_) => Err(Error::internal("the keeper thread died")),
        }
    }
    // end: crawl-close

    /// Polls for the next page, and tells the keeper how many pages were read before it waits.
    pub(crate) fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Page>> {
        let polled = self.visits.poll_recv(cx);
        match &polled {
            Poll::Ready(Some(_)) => self.read += 1,
            // The caller has processed all delivered pages: the keeper may end the crawl if nothing is left.
            Poll::Pending if self.told != self.read || self.read == 0 => {
                self.told = self.read;
                self.tell(KeeperMessage::Read(self.read));
            }
            Poll::Ready(None) => self.is_over = true,
            Poll::Pending => {}
        }
        polled.map(|visit| visit.map(Page::new))
    }

    /// Sends a message to the keeper. Returns `false` if the keeper has ended, so that the crawl is over.
    fn tell(&self, mail: KeeperMessage) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.inbox.send(mail).is_ok())
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
        self.tell(KeeperMessage::Leave);
    }
}

/// The error for a setting that would have no effect.
pub(crate) fn no_effect(key: &'static str, why: &str) -> Error {
    Error::from(ConfigError { key, value: String::new(), problem: why.to_owned() })
}

/// Rejects settings that would have no effect here.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    let needs_directory = "it has an effect only with a crawl directory: set `out` too";
    let needs_warc = "it has an effect only with `warc`";
    let needs_assets = "it has an effect only with `assets`";
    if config.input.is_some() {
        return Err(no_effect("input", "read the file, and give its lines as roots"));
    }
    if config.csv.is_some() {
        return Err(no_effect("csv", "the table is written by the command, not by the library"));
    }
    if config.serve.is_some() || config.serve_token_file.is_some() {
        return Err(no_effect("serve", "the dashboard is a part of the command, not of the library"));
    }
    for (is_set, key, why) in [
        (config.out.is_none() && config.fresh, "fresh", needs_directory),
        (config.out.is_none() && config.recrawl, "recrawl", needs_directory),
        (config.out.is_none() && config.jsonl.is_some(), "jsonl", needs_directory),
        (config.out.is_none() && config.warc, "warc", needs_directory),
        (config.out.is_none() && config.max_disk.is_some(), "max_disk", needs_directory),
        (!config.warc && config.warc_compression != WarcCompression::default(), "warc_compression", needs_warc),
        (!config.assets && config.assets_scope != AssetsScope::default(), "assets_scope", needs_assets),
        (config.out.is_none() && config.log_skips, "log_skips", needs_directory),
        (config.out.is_none() && !config.with.is_empty(), "with", needs_directory),
    ] {
        if is_set {
            return Err(no_effect(key, why));
        }
    }
    Ok(())
}

/// Starts a crawl in its directory, or in memory.
fn begin<C: VisitConsumer + 'static>(
    config: &Config,
    rules: Rules,
    consumer: C,
    open: bool,
) -> Result<KeeperHandle, Error> {
    let Some(path) = &config.out else {
        let frontier = MemoryFrontier::new(rules.fingerprint_key);
        return begin_on(config, rules, Clock::start(), frontier, OutputTarget::default(), consumer, open);
    };
    let mut directory = if config.fresh {
        Directory::start_over(path, &rules, config)?.0
    } else {
        Directory::open(path, &rules, config)?
    };
    if config.recrawl && directory.is_finished() {
        directory.begin_round()?;
    }
    let jsonl = config.jsonl.as_deref().map(|jsonl| directory.take_output(jsonl)).transpose()?;
    let clock = Clock::start();
    let first_line = run_lines::first(config, &wall_clock(&clock).text(Time::ZERO));
    let (frontier, target) = directory.into_parts(jsonl, first_line)?;
    begin_on(config, rules, clock, frontier, target, consumer, open)
}

/// Starts a crawl with this frontier and these outputs.
fn begin_on<F: CommitFrontier + Send + 'static, C: VisitConsumer + 'static>(
    config: &Config,
    rules: Rules,
    clock: Clock,
    frontier: F,
    target: OutputTarget,
    consumer: C,
    open: bool,
) -> Result<KeeperHandle, Error> {
    let (engine, rules) = (engine_kind(config.engine), Arc::new(rules));
    KeeperHandle::start(CrawlSetup { frontier, engine, rules, clock, consumer, target, open })
}

/// Runs a crawl to its end.
pub(crate) fn run<C: VisitConsumer + 'static>(config: &Config, rules: Rules, consumer: C) -> Result<Summary, Error> {
    begin(config, rules, consumer, false)?.join()
}

/// Runs a crawl to its end with a custom frontier.
pub(crate) fn run_on<F: CommitFrontier + Send + 'static, C: VisitConsumer + 'static>(
    config: &Config,
    rules: Rules,
    frontier: F,
    consumer: C,
) -> Result<Summary, Error> {
    let target = OutputTarget::default();
    begin_on(config, rules, Clock::start(), frontier, target, consumer, false)?.join()
}

/// Sends the pages to the stream. Blocks while [`MAX_UNREAD`] pages are unread.
struct Streaming(mpsc::Sender<Box<Visit>>);

impl VisitConsumer for Streaming {
    fn take(&mut self, settled: Settled) {
        // Only pages are delivered, not robots.txt and sitemaps. If the reader is gone, the send fails and is ignored.
        if settled.visit.is_page() {
            let _ = self.0.blocking_send(settled.visit);
        }
    }

    fn flush(&mut self) {}
}
