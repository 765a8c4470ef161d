//! [`OwnAnswers`]: answers requests with a closure of the user, in place of the network. It is a fetcher.
//!
//! Invariant: what the closure answers is read by the same code as a response from a connection. So limits, links, digests
//! and the archive do not depend on where a response comes from.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use argiope_core::base::custom_request::Method;
use argiope_core::base::job::Job;
use argiope_core::crawl::canned::CannedResponse;
use argiope_core::crawl::fetcher::{Fetcher, FetcherContext, StopMode};
use argiope_core::crawl::visit::Visit;
use argiope_core::{ErrorKind, Failure, Time, Url};

/// The closure of [`CrawlBuilder::answer_with`](crate::CrawlBuilder::answer_with).
pub(crate) type AnswerClosure = dyn Fn(&Url) -> Option<CannedResponse> + Send + Sync;

/// The closure, and what a fetcher gets at its start.
#[derive(Clone)]
pub(crate) struct OwnAnswers {
    answer: Arc<AnswerClosure>,
    /// `None` before the start.
    crawl: Option<FetcherContext>,
}

impl OwnAnswers {
    pub fn new(answer: Arc<AnswerClosure>) -> Self {
        Self { answer, crawl: None }
    }
}

impl fmt::Debug for OwnAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnAnswers")
    }
}

impl Fetcher for OwnAnswers {
    fn start(&mut self, crawl: &FetcherContext) -> io::Result<()> {
        self.crawl = Some(crawl.clone());
        Ok(())
    }

    fn accept(&mut self, job: Job, now: Time) -> Result<(), Job> {
        let method = job.link.request.as_ref().map_or(Method::Get, |request| request.method);
        let Some(crawl) = self.crawl.as_mut().filter(|_| method == Method::Get) else { return Err(job) };
        let answered = catch_unwind(AssertUnwindSafe(|| (self.answer)(&job.link.url)));
        let visit = match answered {
            Ok(None) => return Err(job),
            Ok(Some(response)) => match response.answer(&job, now) {
                Ok(response) => response.into_visit(job, &crawl.rules),
                Err((failure, after)) => Box::new(Visit::failed(job, failure, now, now + after)),
            },
            Err(_) => {
                let failure = Failure::new(ErrorKind::Hook, "the closure answer_with panicked");
                Box::new(Visit::failed(job, failure, now, now))
            }
        };
        crawl.visits.push(visit);
        Ok(())
    }

    fn flush(&mut self) {
        self.crawl.iter_mut().for_each(|crawl| crawl.visits.send());
    }

    fn stop(&mut self, _mode: StopMode) {}
}
