//! [`Sink`]: receives pages by callback.

use std::task::Poll;

use crate::blocking::block_on;
use crate::{Crawl, CrawlHandle, Error, Page, Summary};

/// Any error of a [`Sink`]. The operator `?` converts all error types to it.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// Receives the pages of a crawl, in the order of completion, on the thread that called
/// [`CrawlBuilder::run`](crate::CrawlBuilder::run). A slow sink slows the crawl.
///
/// The crawl borrows the sink, so that its state can be used afterwards. An error ends the crawl. A panic is not
/// caught: it ends the crawl and continues in the caller.
///
/// ```no_run
/// use argiope::{Crawl, CrawlHandle, Page, Sink, SinkError};
///
/// struct Titles(Vec<String>);
///
/// impl Sink for Titles {
///     fn page(&mut self, page: Page, _crawl: &CrawlHandle) -> Result<(), SinkError> {
///         self.0.push(page.title().ok_or("a page without a title")?.to_owned());
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<(), argiope::Error> {
/// let mut titles = Titles(Vec::new());
/// Crawl::builder("https://example.com/").run(&mut titles)?;
/// println!("{:?}", titles.0);
/// # Ok(())
/// # }
/// ```
pub trait Sink {
    /// Called for each settled page. If the crawl has a directory, the result is already durable. `crawl` adds
    /// requests.
    ///
    /// # Errors
    ///
    /// The page cannot be processed. This ends the crawl; the next run in the same directory delivers the page again.
    fn page(&mut self, page: Page, crawl: &CrawlHandle) -> Result<(), SinkError>;

    /// Called before the crawl waits for the next page, and at the end, so that buffered data can be written.
    ///
    /// # Errors
    ///
    /// The data cannot be written. This ends the crawl.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A closure as a sink.
pub(crate) struct ClosureSink<F>(pub F);

impl<F: FnMut(Page, &CrawlHandle) -> Result<(), SinkError>> Sink for ClosureSink<F> {
    fn page(&mut self, page: Page, crawl: &CrawlHandle) -> Result<(), SinkError> {
        (self.0)(page, crawl)
    }
}

/// Passes all pages of a crawl to a sink.
pub(crate) fn run(mut crawl: Crawl, sink: &mut (impl Sink + ?Sized)) -> Result<Summary, Error> {
    let handle = crawl.handle();
    let failed = loop {
        // The result of `flush`, which is called once before this thread waits for the next page.
        let mut flushed = None;
        let next = block_on(|context| match crawl.poll_page(context) {
            Poll::Pending if flushed.is_none() => match flushed.insert(sink.flush()) {
                Ok(()) => Poll::Pending,
                Err(_) => Poll::Ready(None),
            },
            polled => polled,
        });
        if let Some(Err(error)) = flushed {
            break Some(Error::sink("to flush", error));
        }
        let Some(page) = next else { break None };
        let url = page.url().clone();
        if let Err(error) = sink.page(page, &handle) {
            break Some(Error::sink(&format!("at {url}"), error));
        }
    };
    match failed {
        Some(error) => {
            crawl.abandon();
            Err(error)
        }
        None => {
            let flushed = sink.flush().map_err(|error| Error::sink("to flush", error));
            let summary = crawl.close_blocking()?;
            flushed.map(|()| summary)
        }
    }
}
