//! [`LibraryReader`]: what the keeper knows about the reader of the library: the pages that it has not processed, and
//! what it waits for. Unread pages keep the crawl open, and the next run delivers those that are left.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use argiope_core::Time;
use argiope_core::crawl::schedule::carryover::UnreadPages;
use argiope_store::Store;

use super::KeeperLoop;
use crate::error::Error;
#[cfg(doc)]
use crate::keeper_message::KeeperMessage;
use crate::keeper_message::{Mailbox, Signal};

/// The number of pages that the reader has not taken at which no more requests start.
const MAX_UNREAD: u64 = 1_024;

/// The reader of the library.
#[derive(Default)]
pub(super) struct LibraryReader {
    /// The number of pages that were passed to the consumer, or are about to be. Pages are numbered in this order.
    pub delivered: u64,
    /// The pages that are not processed, by number: whether the page counts for `--max-pages`
    /// (`Visit::is_fetched_page`).
    unread: BTreeMap<u64, bool>,
    /// Whether the reader takes no more pages.
    pub is_gone: bool,
    /// How many pages the reader has taken.
    taken: u64,
    /// Whether it waits for the next page.
    is_waiting: bool,
    /// How many [`KeeperMessage::Hold`]s have had no [`KeeperMessage::Release`] yet. While there is one, the crawl
    /// stays open for more links.
    pub holds: usize,
    /// Called when the next commit is durable.
    next_receipts: Vec<Signal>,
    /// Called when the log is durable up to the position beside it.
    receipts: VecDeque<(u64, Signal)>,
    /// What the reader waits for: this time, or that no work is left but pages that are not processed.
    awaited: Option<(Time, Signal)>,
}

impl LibraryReader {
    /// Numbers a page that is about to be delivered.
    pub fn deliver(&mut self, is_fetched: bool) {
        self.unread.insert(self.delivered, is_fetched);
        self.delivered += 1;
    }

    /// The pages with these numbers are processed. Returns whether any of them was unread.
    pub fn process(&mut self, pages: &[Range<u64>]) -> bool {
        let before = self.unread.len();
        for range in pages.iter().filter(|range| !range.is_empty()) {
            while let Some(number) = self.unread.range(range.clone()).next().map(|(number, _)| *number) {
                self.unread.remove(&number);
            }
        }
        self.unread.len() < before
    }

    /// How many pages are not processed.
    pub fn unread(&self) -> usize {
        self.unread.len()
    }

    /// Whether the crawl waits for the reader.
    fn has_work(&self) -> bool {
        !self.unread.is_empty() && !self.is_gone
    }

    /// Whether the reader may still do something: it has a page that is not processed, and does not wait for the next
    /// one. `collected` pages are not delivered yet.
    pub fn is_working(&self, collected: usize) -> bool {
        let has_pages = self.unread.len() > collected && !self.is_gone;
        has_pages && !(self.is_waiting && self.taken == self.delivered - collected as u64)
    }

    /// The reader has taken this number of pages.
    pub fn has_taken(&mut self, pages: u64, is_waiting: bool) {
        (self.taken, self.is_waiting) = (pages, is_waiting);
    }

    /// Backpressure: whether the reader is so far behind that no request should start.
    pub fn is_behind(&self) -> bool {
        !self.is_gone && self.delivered - self.taken >= MAX_UNREAD
    }

    /// Whether the reader is so far behind that nothing should be decided, not even without a request.
    pub fn is_far_behind(&self) -> bool {
        !self.is_gone && self.delivered - self.taken >= 2 * MAX_UNREAD
    }

    /// The unread pages, for the next run.
    fn note(&self) -> UnreadPages {
        let mut note = UnreadPages::default();
        let mut next = self.delivered;
        for (number, is_fetched) in self.unread.iter().rev() {
            note.add_earlier(next - number - 1, *is_fetched);
            next = *number;
        }
        note
    }

    /// Calls this signal at this time, or when no work is left but pages that are not processed. It replaces the signal
    /// that the reader asked for before.
    pub fn await_idle(&mut self, until: Time, signal: Signal) {
        self.awaited = Some((until, signal));
    }

    /// When the signal that the reader waits for is due.
    pub fn signal_due(&self) -> Time {
        self.awaited.as_ref().map_or(Time::NEVER, |(at, _)| *at)
    }
}

impl<F: Store> KeeperLoop<F> {
    /// Applies the reader's report that it has processed these pages. `receipt` is called when this is durable.
    pub(super) fn pages_processed(
        &mut self,
        pages: &[Range<u64>],
        receipt: Option<Signal>,
        now: Time,
    ) -> Result<(), Error> {
        // First, because the settled pages keep the crawl open too.
        self.collect_settled(now)?;
        if self.reader.process(pages) && self.commits.has_crawl_directory() {
            // The next commit says that these pages were processed.
            self.commits.request_commit(now);
        }
        match receipt {
            Some(receipt) if self.commits.has_crawl_directory() => {
                self.reader.next_receipts.push(receipt);
                self.commits.request_commit_at_once(now);
            }
            Some(receipt) => receipt(self.reader.delivered),
            None => {}
        }
        self.update_open();
        Ok(())
    }

    /// The receipts of the reports so far belong to the commit that is being made.
    pub(super) fn await_receipts(&mut self) {
        let end = self.keeper.frontier().log_end();
        self.reader.receipts.extend(self.reader.next_receipts.drain(..).map(|receipt| (end, receipt)));
    }

    /// Calls the receipts of the commits that are durable.
    pub(super) fn give_receipts(&mut self) {
        let durable = self.keeper.frontier().durable_end();
        while let Some((_, receipt)) = self.reader.receipts.pop_front_if(|(end, _)| *end <= durable) {
            receipt(self.reader.delivered);
        }
    }

    /// The receipts of all reports, whatever their commit. Called after the last commit.
    pub(super) fn take_receipts(&mut self) -> Vec<Signal> {
        let committed = self.reader.receipts.drain(..).map(|(_, receipt)| receipt);
        committed.chain(self.reader.next_receipts.drain(..)).collect()
    }

    /// Gives the reader the signal that it waits for, if its time has come or nothing is left to be done.
    pub(super) fn signal_reader(&mut self, now: Time) {
        if self.reader.awaited.is_some() && (self.reader.signal_due() <= now || self.is_idle()) {
            self.give_signal();
        }
    }

    /// Whether no link is queued or in flight, no user holds the crawl open, every page is delivered, and one of them is
    /// not processed. If all are processed, the crawl is about to end.
    fn is_idle(&self) -> bool {
        let is_over = self.keeper.ended().is_some();
        let has_work = !is_over && (self.keeper.unfinished() > 0 || self.keeper.bench().link_count() > 0);
        let is_busy = self.keeper.bench().in_flight() > 0 || self.keeper.postponed() > 0 || !self.visits.is_empty();
        self.reader.has_work() && self.reader.holds == 0 && !has_work && !is_busy && self.is_all_delivered()
    }

    fn is_all_delivered(&self) -> bool {
        self.commits.collected_pages() == 0 && !self.commits.is_busy()
    }

    fn give_signal(&mut self) {
        let delivered = self.reader.delivered.saturating_sub(self.commits.collected_pages() as u64);
        self.reader.awaited.take().into_iter().for_each(|(_, signal)| signal(delivered));
    }

    /// Delivers the last pages, and waits until the reader has processed them or has left. The last commit to the crawl
    /// directory then says which pages the next run has to deliver again.
    pub(super) async fn wait_for_reader(&mut self, messages: &Mailbox) -> Result<(), Error> {
        if !self.accepts_links {
            return Ok(());
        }
        if self.reader.has_work() {
            self.send_commit(self.clock.now())?;
        }
        while self.reader.has_work() {
            let now = self.clock.now();
            if self.commits.should_send(now) {
                self.send_commit(now)?;
            }
            // Requests that were in flight at the end are abandoned, so nothing but the delivery is awaited.
            if self.is_all_delivered() || self.reader.signal_due() <= now {
                self.give_signal();
            }
            let until = self.commits.due().min(self.reader.signal_due());
            if let Some(message) = self.next_message(messages, until).await {
                self.receive(message)?;
            }
        }
        self.note_unread();
        Ok(())
    }

    /// Passes the unread pages to the keeper, for the next commit.
    pub(super) fn note_unread(&mut self) {
        if self.accepts_links && self.commits.has_crawl_directory() {
            self.keeper.set_unread(self.reader.note());
        }
    }

    /// Updates whether the crawl stays open when no work is left. It does while the reader has pages to process, and
    /// while the user holds it open.
    pub(super) fn update_open(&mut self) {
        if self.accepts_links {
            self.keeper.set_open(self.reader.holds > 0 || self.reader.has_work());
        }
    }
}
