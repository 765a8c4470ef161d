//! [`Pages`]: a crawl as an ordinary iterator.

use std::time::Duration;

use crate::block_on::block_on;
use crate::feed::Feeding;
use crate::request::IntoRequest;
use crate::{Ack, Crawl, CrawlHandle, Delivery, Error, Page, Summary};

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
#[must_use = "a crawl stops when it is dropped"]
pub struct Pages {
    crawl: Crawl,
}

impl Pages {
    pub(crate) fn new(crawl: Crawl) -> Self {
        Self { crawl }
    }

    /// The next page with its acknowledgement, like [`Crawl::next_acked`].
    pub fn next_acked(&mut self) -> Option<(Page, Ack)> {
        block_on(|context| self.crawl.poll_acked(context))
    }

    /// The next pages with one acknowledgement, like [`Crawl::next_batch`].
    ///
    /// ```no_run
    /// # fn save(pages: &[argiope::Page]) -> Result<(), argiope::Error> { Ok(()) }
    /// # fn main() -> Result<(), argiope::Error> {
    /// use std::time::Duration;
    ///
    /// let mut crawl = argiope::Crawl::builder("https://example.com/").directory("pages.crawl").start_blocking()?;
    /// while let Some((pages, ack)) = crawl.next_batch(256, Duration::from_secs(1)) {
    ///     save(&pages)?;
    ///     ack.done();
    /// }
    /// crawl.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_batch(&mut self, max: usize, wait: Duration) -> Option<(Vec<Page>, Ack)> {
        let mut batch = Ack::default();
        block_on(|context| self.crawl.poll_batch(&mut batch, max, wait, context))
    }

    /// As [`Crawl::next_or_idle`].
    pub fn next_or_idle(&mut self) -> Delivery {
        block_on(|context| self.crawl.poll_or_idle(context))
    }

    /// Adds URLs to the crawl, like [`Crawl::feed`]. [`Feeding::wait`] waits for the report.
    ///
    /// # Errors
    ///
    /// As [`Crawl::feed`].
    pub fn feed<R: IntoRequest>(&self, requests: impl IntoIterator<Item = R>) -> Result<Feeding, Error> {
        self.crawl.feed(requests)
    }

    /// The next page, or the error that ended the crawl early, like [`Crawl::try_next`].
    ///
    /// # Errors
    ///
    /// As [`Crawl::try_next`].
    pub fn try_next(&mut self) -> Result<Option<Page>, Error> {
        self.crawl.try_next_blocking()
    }

    /// Adds the URLs of elements of a page, like [`CrawlHandle::follow`].
    ///
    /// # Errors
    ///
    /// As [`CrawlHandle::follow`].
    pub fn follow(&self, page: &Page, css: &str) -> Result<Feeding, Error> {
        self.crawl.follow(page, css)
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
