//! [`CrawlHandle`]: adds requests to a running crawl, from any thread.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use argiope_core::crawl::control::Control;
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::crawl::status::Status;
use argiope_runtime::keeper_thread::KeeperMessage;
use tokio::sync::oneshot;

use crate::ack::Deliveries;
use crate::feed::Feeding;
use crate::request::IntoRequest;
use crate::{Error, Page, Request};

/// Adds requests to a running crawl, holds it open, and stops it, from any task or thread. Created by
/// [`Crawl::handle`](crate::Crawl::handle); clones belong to the same crawl.
///
/// A handle alone does not keep the crawl running: without queued requests, a crawl ends when all its pages are read.
/// [`CrawlHandle::hold`] keeps it open for requests that come later.
///
/// ```
/// # async fn run(root: String, receive: std::sync::mpsc::Receiver<String>) -> Result<(), argiope::Error> {
/// let mut crawl = argiope::Crawl::builder(root).start().await?;
/// let handle = crawl.handle();
/// let hold = handle.hold()?;
/// std::thread::spawn(move || {
///     for url in receive {
///         if handle.feed([url]).is_err() {
///             break;
///         }
///     }
///     // The crawl may end now.
///     drop(hold);
/// });
/// while let Some(page) = crawl.next().await {
///     println!("{}", page.url());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CrawlHandle {
    deliveries: Arc<Deliveries>,
    max_redirects: u8,
    /// The crawl directory, if there is one.
    directory: Option<Arc<Path>>,
    /// Whether the reader has received the end of the stream.
    is_over: Arc<AtomicBool>,
}

impl fmt::Debug for CrawlHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrawlHandle").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl CrawlHandle {
    pub(crate) fn new(deliveries: Arc<Deliveries>, max_redirects: u8, directory: Option<Arc<Path>>) -> Self {
        Self { deliveries, max_redirects, directory, is_over: Arc::default() }
    }

    /// Adds URLs to the crawl: text, [`Url`](crate::Url)s or [`Request`]s. Like roots, they are fetched even if they
    /// are out of scope. Known URLs are not fetched again. The result says which were added, as that of
    /// [`Crawl::feed`](crate::Crawl::feed).
    ///
    /// # Errors
    ///
    /// One of them is not an http or https URL, has a header that cannot be sent, or is too large; then none of
    /// them is added. Or the crawl has ended.
    pub fn feed<R: IntoRequest>(&self, requests: impl IntoIterator<Item = R>) -> Result<Feeding, Error> {
        let mut links = Vec::new();
        for (index, request) in requests.into_iter().enumerate() {
            let request: Request =
                request.into_request().map_err(|why| Error::input(format!("request {}: {why}", index + 1)))?;
            links.push(request.into_link(self.max_redirects)?);
        }
        let (sender, answer) = oneshot::channel();
        let count = links.len();
        let tell = Box::new(move |new| {
            // Ignored: the caller need not wait for the answer.
            let _ = sender.send(new);
        });
        if self.is_over.load(Ordering::Acquire) || !self.send(KeeperMessage::Feed(links, tell)) {
            return Err(Error::input("the crawl has ended: start another one for these requests"));
        }
        self.deliveries.ask_idle_again();
        Ok(Feeding::new(count, answer))
    }

    /// Adds the URLs of the elements of a page that a CSS selector matches: their `href` or `src` attributes. The
    /// requests are marked as found on the page. Like all requests that are fed, they are fetched even if they are out
    /// of scope. Elements without a usable URL are left out.
    ///
    /// ```
    /// # fn run(crawl: &argiope::Crawl, page: &argiope::Page) -> Result<(), argiope::Error> {
    /// crawl.follow(page, "a.next")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `css` is not a selector, or the crawl has ended.
    pub fn follow(&self, page: &Page, css: &str) -> Result<Feeding, Error> {
        let elements = page.select(css)?;
        let urls = elements.iter().filter_map(|element| element.url("href").or_else(|| element.url("src")));
        let requests: Vec<Request> = urls.filter_map(|url| Some(Request::get(&url).ok()?.found_on(page))).collect();
        self.feed(requests)
    }

    /// The state of the crawl now: counts, rates, hosts, errors. Blocks for a moment, because the crawl answers.
    ///
    /// # Errors
    ///
    /// The crawl has ended: [`Crawl::close`](crate::Crawl::close) returns its summary.
    pub fn status(&self) -> Result<Status, Error> {
        let ended = || Error::input("the crawl has ended: its summary has the final counts");
        let (sender, answer) = channel();
        self.send(KeeperMessage::Status(sender));
        let mut status = answer.recv().map_err(|_| ended())?;
        argiope_runtime::status::measure(&mut status, self.directory.as_deref());
        Ok(status)
    }

    /// Starts no new requests until [`CrawlHandle::resume`]. Requests in flight are still delivered.
    pub fn pause(&self) {
        self.control(Control::Pause);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.control(Control::Resume);
    }

    fn control(&self, control: Control) {
        // The answer is not needed: both always succeed.
        let (sender, _) = channel();
        self.send(KeeperMessage::Control(control, sender));
    }

    /// Keeps the crawl open until the result is dropped, even if no request is queued and all pages are read.
    ///
    /// Take the hold before the crawl can end: right after the start, or while a page is not processed yet.
    /// [`CrawlHandle::stop`], [`Crawl::close`](crate::Crawl::close) and limits such as
    /// [`max_pages`](crate::CrawlBuilder::max_pages) end the crawl nevertheless.
    ///
    /// # Errors
    ///
    /// The crawl has ended.
    pub fn hold(&self) -> Result<CrawlHold, Error> {
        if self.is_over.load(Ordering::Acquire) || !self.send(KeeperMessage::Hold) {
            return Err(Error::input("the crawl has ended: it cannot be held open"));
        }
        Ok(CrawlHold { deliveries: Arc::clone(&self.deliveries) })
    }

    /// Stops the crawl gracefully: fetches in flight are still delivered, then the stream ends.
    pub fn stop(&self) {
        self.send(KeeperMessage::Stop(End::Interrupted));
    }

    pub(crate) fn set_over(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Sends a message to the keeper; returns false if the keeper has ended.
    pub(crate) fn send(&self, message: KeeperMessage) -> bool {
        self.deliveries.send(message)
    }
}

/// Keeps a crawl open while it exists. Created by [`CrawlHandle::hold`].
#[must_use = "the crawl is held open only while this exists"]
pub struct CrawlHold {
    deliveries: Arc<Deliveries>,
}

impl fmt::Debug for CrawlHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrawlHold").finish_non_exhaustive()
    }
}

impl Drop for CrawlHold {
    fn drop(&mut self) {
        // Sending fails if the crawl has ended. Then there is nothing to release.
        self.deliveries.send(KeeperMessage::Release);
    }
}
