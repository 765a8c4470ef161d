//! [`Ending`]: the end of a crawl, and who waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use argiope_runtime::Error;
use argiope_runtime::keeper_thread::{KeeperHandle, KeeperResult, Summary};
use tokio::sync::oneshot;

use crate::events;
use crate::library_messages::in_library_words;

/// The end of a crawl. Polling can stop and begin again: the result is kept.
pub(crate) struct Ending {
    state: State,
    /// The number of the crawl, for events.
    crawl: u64,
    /// Whether the frontier is a custom one. If it panics, the panic continues in the caller.
    pub has_custom_frontier: bool,
}

enum State {
    /// No caller waits for the end yet.
    Running(KeeperHandle),
    /// The end of a keeper that is a task, or of a thread that waits for the end of the keeper's thread.
    Joining(oneshot::Receiver<KeeperResult>),
    Ended(Box<Result<Summary, Error>>),
}

impl Ending {
    pub fn of(keeper: KeeperHandle, crawl: u64) -> Self {
        Self { state: State::Running(keeper), crawl, has_custom_frontier: false }
    }

    /// The number of the crawl, for events.
    pub fn crawl(&self) -> u64 {
        self.crawl
    }

    /// Whether no caller has waited for the end yet.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Waits for the end of the crawl.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Summary, Error>> {
        loop {
            match &mut self.state {
                State::Ended(result) => return Poll::Ready(Result::clone(result)),
                State::Joining(receiver) => {
                    let joined = ready!(Pin::new(receiver).poll(cx));
                    self.state = State::Ended(Box::new(Err(Error::internal("the keeper thread died"))));
                    match joined {
                        Ok(Ok(result)) => self.state = State::Ended(Box::new(result.map_err(in_library_words))),
                        Ok(Err(panic)) if self.has_custom_frontier => resume_unwind(panic),
                        Ok(Err(_)) | Err(_) => {}
                    }
                    if let State::Ended(result) = &self.state {
                        events::ended(self.crawl, result);
                    }
                }
                State::Running(_) => self.join(),
            }
        }
    }

    /// Waits for the end of the keeper: on a thread, unless the keeper is a task.
    fn join(&mut self) {
        let (sender, receiver) = oneshot::channel();
        let State::Running(keeper) = std::mem::replace(&mut self.state, State::Joining(receiver)) else { return };
        let keeper = match keeper.into_end() {
            Ok(end) => return self.state = State::Joining(end),
            Err(keeper) => keeper,
        };
        let join = move || {
            // Ignored: the crawl may have been dropped.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(|| keeper.join())));
        };
        if let Err(error) = std::thread::Builder::new().name("argiope-close".into()).spawn(join) {
            self.state = State::Ended(Box::new(Err(Error::no_thread(error))));
        }
    }
}
