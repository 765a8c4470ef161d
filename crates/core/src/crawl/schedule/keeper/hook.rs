//! The last check before a request is sent, and the hooks of the library's user before and after an attempt.

use super::Keeper;
use crate::base::job::{Job, Purpose};
use crate::base::link::ALREADY_SENT;
use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::base::user_code::call_closure;
use crate::crawl::hooks::{OutgoingRequest, PageAttempt, RequestChanges, RetryChoice};
use crate::crawl::schedule::frontier::{Frontier, History};
use crate::crawl::schedule::retry::{self, RetryVerdict};
use crate::crawl::visit::Visit;

impl<F: Frontier + History> Keeper<F> {
    /// Checks whether the request may be sent, and runs the request hook, which may add headers or abort the request.
    /// Returns the reason if the request must not be sent.
    pub(super) fn check_before_send(&self, job: &mut Job) -> Option<Failure> {
        if job.link.tries == ALREADY_SENT && !job.link.is_repeatable() {
            let message = "an earlier run may have sent the request and ended before the response; it is not repeated";
            return Some(Failure::new(ErrorKind::NotRepeated, message));
        }
        let hook = self.rules.request_hook.as_ref().filter(|_| !matches!(job.purpose, Purpose::Robots(_)))?;
        let mut request = OutgoingRequest::new(&job.link);
        let run = call_closure("on_request", || hook.before_request(&mut request));
        let RequestChanges { headers, target, abort_reason } = request.into_changes();
        if !headers.is_empty() || target.is_some() {
            let extras = job.extras_mut();
            (extras.headers, extras.target) = (headers, target);
        }
        match run {
            Ok(()) => abort_reason.map(|reason| Failure::new(ErrorKind::Hook, reason)),
            Err(panic) => Some(panic),
        }
    }
    /// Asks the retry hook about an attempt at a page. If it panics, the page fails.
    pub(super) fn choose_retry(&self, visit: &mut Visit, usual: RetryVerdict) -> RetryVerdict {
        let Some(hook) = self.rules.retry_hook.as_ref().filter(|_| visit.purpose == Purpose::Page) else {
            return usual;
        };
        let attempt = PageAttempt {
            link: &visit.link,
            status: visit.facts.status,
            error: visit.facts.error.as_ref(),
            title: visit.findings.title.as_deref(),
        };
        match call_closure("retry_if", || hook.after_attempt(&attempt)) {
            Ok(RetryChoice::AsUsual) => usual,
            Ok(RetryChoice::Again) => match usual {
                RetryVerdict::GiveUp => retry::judge_wished(visit, self.rules.max_tries, self.rules.retry_wait),
                usual @ RetryVerdict::After(_) => usual,
            },
            Ok(RetryChoice::GiveUp) => RetryVerdict::GiveUp,
            Err(panic) => {
                (visit.facts.outcome, visit.facts.error) = (Outcome::Failed, Some(panic));
                RetryVerdict::GiveUp
            }
        }
    }
}
