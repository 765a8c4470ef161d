//! The pages that the reader of the library has not processed. They keep the crawl open, and the next run delivers those
//! that are left.

use std::sync::mpsc::Receiver;

use argiope_core::crawl::schedule::carryover::UnreadPages;

use super::{KeeperLoop, KeeperMessage};
use crate::error::Error;
use crate::writer_thread::CommitFrontier;

impl<F: CommitFrontier> KeeperLoop<F> {
    /// Delivers the last pages, and waits until the reader has processed them or has left. The last commit to the crawl
    /// directory then says which pages the next run has to deliver again.
    pub(super) fn wait_for_reader(&mut self, messages: &Receiver<KeeperMessage>) -> Result<(), Error> {
        if !self.accepts_links || !self.commits.has_crawl_directory() {
            return Ok(());
        }
        if !self.unread.is_empty() && !self.is_reader_gone {
            self.send_commit(self.clock.now())?;
        }
        while !self.unread.is_empty() && !self.is_reader_gone {
            let Ok(message) = messages.recv() else { break };
            self.receive(message)?;
        }
        self.note_unread();
        Ok(())
    }

    /// Passes the number of unread pages to the keeper, for the next commit.
    pub(super) fn note_unread(&mut self) {
        if self.accepts_links && self.commits.has_crawl_directory() {
            let fetched = self.unread.iter().filter(|is_fetched| **is_fetched).count() as u64;
            self.keeper.set_unread(UnreadPages { pages: self.unread.len() as u64, fetched });
        }
    }

    /// Updates whether the crawl stays open when no work is left. It does while the reader has pages to process, and
    /// while the user holds it open.
    pub(super) fn update_open(&mut self) {
        if self.accepts_links {
            self.keeper.set_open(self.holds > 0 || (!self.unread.is_empty() && !self.is_reader_gone));
        }
    }
}
