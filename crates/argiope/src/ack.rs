//! [`Ack`]: the duty to process delivered pages, and what a crawl and its acknowledgements share.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use argiope_runtime::keeper_thread::{Inbox, KeeperMessage, Signal};
use tokio::sync::oneshot;

use crate::block_on::block_on;
use crate::{Error, Page};

/// Acknowledges delivered pages: the pages of an acknowledgement count as processed when [`Ack::done`] is called.
///
/// Created by [`Crawl::next_acked`](crate::Crawl::next_acked) and [`Crawl::next_batch`](crate::Crawl::next_batch). It
/// may be held as long as necessary, also on another thread. While it is open, the crawl does not end and accepts
/// requests. If it is dropped without a call of `done`, for example because a task failed or was cancelled, its pages
/// are delivered again: by this crawl if it still runs, otherwise by the next run in the crawl directory.
///
/// ```
/// # async fn save(pages: &[argiope::Page]) -> Result<(), argiope::Error> { Ok(()) }
/// # async fn run(root: &str) -> Result<(), argiope::Error> {
/// # use std::time::Duration;
/// let mut crawl = argiope::Crawl::builder(root).directory("pages.crawl").start().await?;
/// while let Some((pages, ack)) = crawl.next_batch(256, Duration::from_secs(1)).await {
///     save(&pages).await?;
///     ack.done();
/// }
/// crawl.close().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "pages whose acknowledgement is dropped are delivered again"]
#[derive(Default)]
pub struct Ack {
    open: Vec<OpenPage>,
}

/// A delivered page that is not processed.
struct OpenPage {
    number: u64,
    page: Page,
    deliveries: Arc<Deliveries>,
}

impl fmt::Debug for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ack").field("pages", &self.open.len()).finish()
    }
}

impl Ack {
    pub(crate) fn of(number: u64, page: Page, deliveries: &Arc<Deliveries>) -> Self {
        Self { open: vec![OpenPage { number, page, deliveries: Arc::clone(deliveries) }] }
    }

    /// The pages are processed. In a crawl directory, this is durable after about a tenth of a second: if the process is
    /// killed before, the next run delivers the pages again. [`Ack::done_durably`] waits for that.
    pub fn done(mut self) {
        for (deliveries, pages) in self.take_open() {
            deliveries.send(KeeperMessage::Processed(pages, None));
        }
    }

    /// The pages are processed. Returns when this is durable: from then on no run delivers them again, also after a
    /// crash. Without a crawl directory, it returns at once.
    ///
    /// # Errors
    ///
    /// The crawl was closed or dropped, or ended with an error, before this was stored. The next run in the crawl
    /// directory may deliver the pages again.
    pub async fn done_durably(self) -> Result<(), Error> {
        for receipt in self.request_receipts() {
            receipt.await.map_err(|_| not_stored())?;
        }
        Ok(())
    }

    /// As [`Ack::done_durably`], for programs without async.
    ///
    /// # Errors
    ///
    /// As [`Ack::done_durably`].
    pub fn done_durably_blocking(self) -> Result<(), Error> {
        for mut receipt in self.request_receipts() {
            block_on(|context| std::pin::Pin::new(&mut receipt).poll(context)).map_err(|_| not_stored())?;
        }
        Ok(())
    }

    /// Gives the pages back: they are delivered again. Dropping the acknowledgement does the same.
    pub fn give_back(self) {
        drop(self);
    }

    /// Adds the pages of another acknowledgement. Both are then acknowledged with one call.
    pub fn merge(&mut self, mut other: Self) {
        self.open.append(&mut other.open);
    }

    /// The pages that are not processed.
    pub fn pages(&self) -> impl ExactSizeIterator<Item = &Page> {
        self.open.iter().map(|open| &open.page)
    }

    fn request_receipts(mut self) -> Vec<oneshot::Receiver<()>> {
        let mut receipts = Vec::new();
        for (deliveries, pages) in self.take_open() {
            let (sender, receipt) = oneshot::channel();
            let signal: Signal = Box::new(move |_| {
                // Ignored: the future that waits for this may have been dropped.
                let _ = sender.send(());
            });
            deliveries.send(KeeperMessage::Processed(pages, Some(signal)));
            receipts.push(receipt);
        }
        receipts
    }

    /// Takes the open pages, by crawl. Usually all are of one crawl.
    fn take_open(&mut self) -> Vec<(Arc<Deliveries>, Vec<Range<u64>>)> {
        let mut crawls: Vec<(Arc<Deliveries>, Vec<Range<u64>>)> = Vec::new();
        for OpenPage { number, deliveries, .. } in std::mem::take(&mut self.open) {
            match crawls.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &deliveries)) {
                Some((_, pages)) => add_number(pages, number),
                None => crawls.push((deliveries, std::iter::once(number..number + 1).collect())),
            }
        }
        crawls
    }
}

impl Extend<Ack> for Ack {
    fn extend<I: IntoIterator<Item = Ack>>(&mut self, acks: I) {
        acks.into_iter().for_each(|ack| self.merge(ack));
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        for OpenPage { number, page, deliveries } in std::mem::take(&mut self.open) {
            deliveries.give_back(number, page);
        }
    }
}

fn not_stored() -> Error {
    Error::input("the crawl has ended before the acknowledgement was stored: the next run may deliver its pages again")
}

/// Adds a page to a list of processed pages.
pub(crate) fn add_number(pages: &mut Vec<Range<u64>>, number: u64) {
    match pages.last_mut() {
        Some(last) if last.end == number => last.end += 1,
        _ => pages.push(number..number + 1),
    }
}

/// What a crawl shares with its acknowledgements and handles.
pub(crate) struct Deliveries {
    inbox: Inbox,
    state: Mutex<DeliveryState>,
}

#[derive(Default)]
struct DeliveryState {
    /// Pages that were given back, to be delivered again.
    returned: VecDeque<(u64, Page)>,
    /// The number of the latest question to the keeper.
    question: u64,
    /// Whether the latest question is when the crawl is idle.
    asks_idle: bool,
    /// The answer to the latest question: the number of pages that were delivered when it was given.
    answer: Option<u64>,
    /// The reader, which waits for a page.
    waker: Option<Waker>,
}

impl Deliveries {
    pub fn new(inbox: Inbox) -> Arc<Self> {
        Arc::new(Self { inbox, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, DeliveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to the keeper; returns false if the keeper has ended.
    pub fn send(&self, message: KeeperMessage) -> bool {
        self.inbox.send(message).is_ok()
    }

    fn give_back(&self, number: u64, page: Page) {
        let mut state = self.lock();
        state.returned.push_back((number, page));
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The next page that was given back. If there is none, the context is woken when there is one, or when a question is
    /// answered.
    pub fn poll_returned(&self, cx: &Context<'_>) -> Poll<(u64, Page)> {
        let mut state = self.lock();
        match state.returned.pop_front() {
            Some(returned) => Poll::Ready(returned),
            None => {
                if state.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                    state.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// Asks the keeper for a signal when this time is over, or no work is left but open pages. Answers to earlier
    /// questions are dropped.
    pub fn ask_alarm(self: &Arc<Self>, after: Duration) {
        let signal = self.new_question(false);
        self.send(KeeperMessage::AwaitIdle(after, signal));
    }

    /// Asks the keeper for a signal when no work is left but open pages. Answers to earlier questions are dropped.
    pub fn ask_idle(self: &Arc<Self>) {
        let signal = self.new_question(true);
        self.send(KeeperMessage::AwaitIdle(Duration::MAX, signal));
    }

    /// Asks again when the crawl is idle, because links were added. An earlier answer does not count any more.
    pub fn ask_idle_again(self: &Arc<Self>) {
        let asks_idle = self.lock().asks_idle;
        if asks_idle {
            self.ask_idle();
        }
    }

    fn new_question(self: &Arc<Self>, asks_idle: bool) -> Signal {
        let mut state = self.lock();
        state.question += 1;
        (state.answer, state.asks_idle) = (None, asks_idle);
        let (question, deliveries) = (state.question, Arc::clone(self));
        Box::new(move |delivered| deliveries.answer(question, delivered))
    }

    fn answer(&self, question: u64, delivered: u64) {
        let mut state = self.lock();
        if state.question == question {
            state.answer = Some(delivered);
            let waker = state.waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// The answer to the latest question.
    pub fn answered(&self) -> Option<u64> {
        self.lock().answer
    }

    /// Drops the pages that were given back: the crawl is closed.
    pub fn clear(&self) {
        let returned = std::mem::take(&mut self.lock().returned);
        drop(returned);
    }
}
