//! [`KeeperMessage`]: the messages to the keeper. [`Inbox`] and [`Mailbox`]: their way. [`VisitConsumer`]: what receives
//! its results.
//!
//! A keeper with a thread of its own blocks until a message arrives. A keeper that is a task on a shared thread waits
//! for [`Arrivals`].

use std::ops::Range;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::time::{Duration, Instant};

use argiope_core::base::job::SentRequest;
use argiope_core::crawl::control::Control;
use argiope_core::crawl::fetcher::PartMessage;
use argiope_core::crawl::schedule::keeper::{End, Settled};
use argiope_core::crawl::status::{HostStatus, Status};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Link, Url};
use argiope_engine::{Arrivals, DnsAnswer};
use argiope_store::disk::CommitBatch;

use crate::error::Error;

/// Called when what the reader waits for has happened, with the number of pages that are delivered; dropped if the crawl
/// ends before.
pub type Signal = Box<dyn FnOnce(u64) + Send>;

/// The messages to the keeper.
pub enum KeeperMessage {
    Visits(Vec<Box<Visit>>),
    /// A fetcher that continues a page asks for a part of it.
    Part(PartMessage),
    /// A request to a host with a delay was sent.
    Sent(SentRequest),
    Resolved(DnsAnswer),
    /// Links that the user of the library adds. The answer says for each whether it was new. There is no answer if the
    /// crawl is ending and no later run can fetch them.
    Feed(Vec<Link>, Box<dyn FnOnce(Vec<bool>) + Send>),
    /// Fetch this robots.txt, but no pages of its host.
    Robots(Url),
    /// The user of the library has processed these pages, which are numbered in the order of delivery from 0. The signal
    /// is given when this is durable.
    Processed(Vec<Range<u64>>, Option<Signal>),
    /// Give this signal when no work is left but pages that the user of the library has not processed, or after this
    /// time. It replaces the signal of the message before.
    AwaitIdle(Duration, Signal),
    /// The user of the library has taken this number of pages, and waits for the next one or not.
    Taken {
        pages: u64,
        is_waiting: bool,
    },
    /// Keeps the crawl open for more links, until every `Hold` is followed by a [`KeeperMessage::Release`].
    Hold,
    Release,
    /// The reader takes no more pages. The crawl does not wait for it.
    Detach,
    /// A commit is durable.
    Durable(CommitBatch),
    /// The writer has failed.
    Fault(Error),
    /// Hand out no more jobs; end when the jobs in flight have ended, or after the drain time.
    Stop(End),
    /// Answer with the crawl's status.
    Status(Sender<Status>),
    /// Answer with the state of the host with this name, if there is work for it now.
    Host(Box<str>, Sender<Option<HostStatus>>),
    /// Apply a command of the user to the running crawl, and answer whether it was applied.
    Control(Control, Sender<Result<(), String>>),
    /// End now, without waiting for the jobs in flight.
    EndNow,
    /// Wakes the keeper, because the store has news.
    Wake,
}

/// Sends messages to the keeper. A clone sends to the same keeper.
#[derive(Clone)]
pub struct Inbox {
    sender: Sender<KeeperMessage>,
    /// Wakes a keeper that is a task.
    arrivals: Option<Arrivals>,
}

impl Inbox {
    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The keeper has ended.
    #[expect(clippy::result_large_err, reason = "a message that was not sent is dropped at once, or matched on")]
    pub fn send(&self, message: KeeperMessage) -> Result<(), SendError<KeeperMessage>> {
        self.sender.send(message)?;
        self.arrivals.iter().for_each(Arrivals::announce);
        Ok(())
    }
}

impl From<Sender<KeeperMessage>> for Inbox {
    fn from(sender: Sender<KeeperMessage>) -> Self {
        Self { sender, arrivals: None }
    }
}

/// Where the keeper takes its messages.
pub(crate) struct Mailbox {
    messages: Receiver<KeeperMessage>,
    /// What a keeper waits for that is a task.
    arrivals: Option<Arrivals>,
}

impl Mailbox {
    /// A mailbox, of a keeper that is a task or has a thread of its own, and its inbox.
    pub fn open(is_task: bool) -> (Inbox, Self) {
        let (sender, messages) = channel();
        let arrivals = is_task.then(Arrivals::default);
        (Inbox { sender, arrivals: arrivals.clone() }, Self { messages, arrivals })
    }

    /// A message that has arrived.
    pub fn take(&self) -> Option<KeeperMessage> {
        self.messages.try_recv().ok()
    }

    /// Waits for the next message, until this time at the latest. On a thread of its own, this blocks and is never
    /// pending.
    pub async fn next(&self, until: Option<Instant>) -> Option<KeeperMessage> {
        let Some(arrivals) = &self.arrivals else {
            return match until {
                None => self.messages.recv().ok(),
                Some(until) => self.messages.recv_timeout(until.saturating_duration_since(Instant::now())).ok(),
            };
        };
        if let Some(message) = self.take() {
            return Some(message);
        }
        arrivals.wait(until).await;
        self.take()
    }

    /// Lets other tasks of a shared thread run.
    pub async fn yield_to_others(&self) {
        if self.arrivals.is_some() {
            argiope_engine::shared_tasks::yield_to_others().await;
        }
    }
}

/// Receives the settled visits once they are durable, to print, count or show them.
pub trait VisitConsumer: Send {
    /// Whether its methods may block, for example to print. If not, a crawl without a crawl directory needs no thread for
    /// it.
    fn may_block(&self) -> bool {
        true
    }
    /// Called for each settled visit, in order.
    fn take(&mut self, settled: Settled);
    /// Called for a record that does not belong to a visit: the start or the end of a run.
    fn line(&mut self, _line: &[u8]) {}
    /// A batch is complete: flush what readers may be waiting for.
    fn flush(&mut self);
}
