//! [`Pages`]: a crawl as an ordinary iterator.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::request::IntoRequest;
use crate::{Crawl, CrawlHandle, Error, Page, Summary};

/// The pages of a crawl as an ordinary iterator, for programs without async. Created by
/// [`CrawlBuilder::start_blocking`](crate::CrawlBuilder::start_blocking).
///
/// The iterator ends when the crawl ends, even if an error ended it. [`Pages::close`] returns that error. Iterate over
/// `&mut pages`, as below, so that the iterator can be closed after the loop.
///
/// ```no_run
/// # fn main() -> Result<(), argiope::Error> {
/// let mut pages = argiope::Crawl::builder("https://example.com/").max_pages(10).start_blocking()?;
/// for page in &mut pages {
///     println!("{} {:?}", page.url(), page.title());
/// }
/// println!("{} URLs left", pages.close()?.left);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pages {
    crawl: Crawl,
}

/// A waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Calls `poll` until it is ready. The thread is parked in between.
pub(crate) fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

impl Pages {
    pub(crate) fn new(crawl: Crawl) -> Self {
        Self { crawl }
    }

    /// Adds URLs to the crawl, like [`Crawl::feed`].
    ///
    /// # Errors
    ///
    /// As [`Crawl::feed`].
    pub fn feed<R: IntoRequest>(&self, requests: impl IntoIterator<Item = R>) -> Result<(), Error> {
        self.crawl.feed(requests)
    }

    /// Stops the crawl gracefully: fetches in flight are still delivered, then the iterator ends.
    pub fn stop(&self) {
        self.crawl.stop();
    }

    /// A handle that adds requests from another thread.
    pub fn handle(&self) -> CrawlHandle {
        self.crawl.handle()
    }

    /// Ends the crawl gracefully and returns its summary, like [`Crawl::close`].
    ///
    /// # Errors
    ///
    /// The error that ended the crawl early.
    pub fn close(self) -> Result<Summary, Error> {
        self.crawl.close_blocking()
    }
}

impl Iterator for Pages {
    type Item = Page;

    fn next(&mut self) -> Option<Page> {
        block_on(|context| self.crawl.poll_page(context))
    }
}
