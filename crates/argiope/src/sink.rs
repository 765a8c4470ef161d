//! [`Sink`]: receives pages by callback.

use std::task::Poll;

use crate::block_on::block_on;
use crate::{Crawl, CrawlHandle, Error, Page, Summary};

/// A sink is flushed after this many pages, even if the crawl does not wait.
const FLUSH_INTERVAL: usize = 256;
/// The same for a closure, which has no buffer to write.
pub(crate) const CLOSURE_INTERVAL: usize = 16;

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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a sink",
    note = "implement `argiope::Sink`, or pass a closure to `CrawlBuilder::for_each`"
)]
pub trait Sink {
    /// Called for each settled page. If the crawl has a directory, the result is already durable. `crawl` adds
    /// requests.
    ///
    /// # Errors
    ///
    /// The page cannot be processed. This ends the crawl, after `flush` was called for the pages before it. The next run
    /// in the same directory delivers the page again.
    fn page(&mut self, page: Page, crawl: &CrawlHandle) -> Result<(), SinkError>;

    /// Called before the crawl waits for the next page, after 256 pages at the latest, and at the end, so that buffered
    /// data can be written. When it returns, all pages so far count as processed.
    ///
    /// # Errors
    ///
    /// The data cannot be written. This ends the crawl. The next run in the same directory delivers all pages again that
    /// were passed to the sink since `flush` last succeeded.
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

/// Passes all pages of a crawl to a sink, which is flushed after [`FLUSH_INTERVAL`] pages.
pub(crate) fn run(crawl: Crawl, sink: &mut (impl Sink + ?Sized)) -> Result<Summary, Error> {
    run_with_interval(crawl, sink, FLUSH_INTERVAL)
}

/// Passes all pages of a crawl to a sink, which is flushed after `interval` pages.
pub(crate) fn run_with_interval(
    mut crawl: Crawl,
    sink: &mut (impl Sink + ?Sized),
    interval: usize,
) -> Result<Summary, Error> {
    match pass_pages(&mut crawl, sink, interval) {
        Ok(()) => crawl.close_blocking(),
        Err(error) => {
            // The next run delivers the pages that are not processed.
            crawl.abandon();
            Err(error)
        }
    }
}

fn pass_pages(crawl: &mut Crawl, sink: &mut (impl Sink + ?Sized), interval: usize) -> Result<(), Error> {
    let handle = crawl.handle();
    // The pages that the sink has not written.
    let mut unwritten = Vec::new();
    loop {
        // The result of `flush`, which is called once before this thread waits for the next page.
        let mut flushed = None;
        let next = block_on(|context| match crawl.poll_numbered(context) {
            Poll::Pending if flushed.is_none() => {
                let result = flushed.insert(write(crawl, sink, &mut unwritten));
                if result.is_ok() { crawl.poll_numbered(context) } else { Poll::Ready(None) }
            }
            polled => polled,
        });
        flushed.unwrap_or(Ok(()))?;
        let Some((number, page)) = next else { break };
        let url = page.url().clone();
        if let Err(error) = sink.page(page, &handle) {
            // The pages before count as processed if they can be written.
            let _ = write(crawl, sink, &mut unwritten);
            return Err(Error::sink(&format!("at {url}"), error));
        }
        unwritten.push(number);
        if unwritten.len() >= interval {
            write(crawl, sink, &mut unwritten)?;
        }
    }
    write(crawl, sink, &mut unwritten)
}

/// Flushes the sink. The pages that it has written are processed.
fn write(crawl: &mut Crawl, sink: &mut (impl Sink + ?Sized), unwritten: &mut Vec<u64>) -> Result<(), Error> {
    sink.flush().map_err(|error| Error::sink("to flush", error))?;
    crawl.process(unwritten.drain(..));
    Ok(())
}
