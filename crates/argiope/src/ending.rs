//! [`Ending`]: the end of a crawl, and who waits for it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use argiope_runtime::Error;
use argiope_runtime::keeper_thread::{KeeperHandle, Summary};
use tokio::sync::oneshot;

use crate::library_messages::in_library_words;

/// The result of the keeper's thread, or the payload of its panic.
type Joined = Result<Result<Summary, Error>, Box<dyn Any + Send>>;

/// The end of a crawl. Polling can stop and begin again: the result is kept.
pub(crate) struct Ending {
    state: State,
    /// Whether the frontier is a custom one. If it panics, the panic continues in the caller.
    pub has_custom_frontier: bool,
}

enum State {
    /// No caller waits for the end yet.
    Running(KeeperHandle),
    /// A thread waits for the end of the keeper's thread.
    Joining(oneshot::Receiver<Joined>),
    Ended(Box<Result<Summary, Error>>),
}

impl Ending {
    pub fn of(keeper: KeeperHandle) -> Self {
        Self { state: State::Running(keeper), has_custom_frontier: false }
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
                }
                State::Running(_) => self.join(),
            }
        }
    }

    /// Starts the thread that waits for the end of the keeper's thread.
    fn join(&mut self) {
        let (sender, receiver) = oneshot::channel();
        let State::Running(keeper) = std::mem::replace(&mut self.state, State::Joining(receiver)) else { return };
        let join = move || {
            // Ignored: the crawl may have been dropped.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(|| keeper.join())));
        };
        if let Err(error) = std::thread::Builder::new().name("argiope-close".into()).spawn(join) {
            self.state = State::Ended(Box::new(Err(Error::no_thread(error))));
        }
    }
}
