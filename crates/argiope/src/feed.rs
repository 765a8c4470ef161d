//! [`Feeding`]: what became of requests that were added to a crawl.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use crate::block_on::block_on;

/// Requests that are being added to a crawl. The result of [`Crawl::feed`](crate::Crawl::feed): await it, or call
/// [`Feeding::wait`], to know what became of them.
#[derive(Debug)]
pub struct Feeding {
    count: usize,
    answer: oneshot::Receiver<Vec<bool>>,
}

/// What became of a request that was added to a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fed {
    /// It is queued.
    Added,
    /// The same request was added or found before, so it is not sent again.
    Known,
    /// The crawl does not send it, because it is ending.
    Refused,
}

/// What became of the requests that were added to a crawl with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedReport {
    requests: Vec<Fed>,
}

impl Feeding {
    pub(crate) fn new(count: usize, answer: oneshot::Receiver<Vec<bool>>) -> Self {
        Self { count, answer }
    }

    /// Waits until the crawl has added the requests. Blocks this thread; in async code, await the value instead.
    pub fn wait(mut self) -> FeedReport {
        block_on(|context| Pin::new(&mut self).poll(context))
    }
}

impl Future for Feeding {
    type Output = FeedReport;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FeedReport> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        let requests = match answer {
            Ok(new) => new.into_iter().map(|is_new| if is_new { Fed::Added } else { Fed::Known }).collect(),
            Err(_) => vec![Fed::Refused; self.count],
        };
        Poll::Ready(FeedReport { requests })
    }
}

impl FeedReport {
    /// What became of each request, in order.
    pub fn requests(&self) -> &[Fed] {
        &self.requests
    }

    /// How many requests are queued.
    pub fn added(&self) -> usize {
        self.count(Fed::Added)
    }

    /// How many requests were known.
    pub fn known(&self) -> usize {
        self.count(Fed::Known)
    }

    /// How many requests were refused.
    pub fn refused(&self) -> usize {
        self.count(Fed::Refused)
    }

    fn count(&self, wanted: Fed) -> usize {
        self.requests.iter().filter(|fed| **fed == wanted).count()
    }
}
