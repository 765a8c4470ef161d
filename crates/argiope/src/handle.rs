//! [`CrawlHandle`]: adds requests to a running crawl, from any thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use argiope_core::crawl::schedule::keeper::End;
use argiope_runtime::keeper_thread::KeeperMessage;
use tokio::sync::oneshot;

use crate::ack::Deliveries;
use crate::feed::Feeding;
use crate::request::IntoRequest;
use crate::{Error, Request};

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
    /// Whether the reader has received the end of the stream.
    is_over: Arc<AtomicBool>,
}

impl fmt::Debug for CrawlHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrawlHandle").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl CrawlHandle {
    pub(crate) fn new(deliveries: Arc<Deliveries>, max_redirects: u8) -> Self {
        Self { deliveries, max_redirects, is_over: Arc::default() }
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
