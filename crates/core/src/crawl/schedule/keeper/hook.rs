//! The last check before a request is sent, and the request hook of the library's user.

use super::Keeper;
use crate::base::job::{Job, Purpose};
use crate::base::link::ALREADY_SENT;
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::user_code::call_closure;
use crate::crawl::hooks::OutgoingRequest;
use crate::crawl::schedule::frontier::{Frontier, History};

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
        let (headers, abort_reason) = request.into_parts();
        if !headers.is_empty() {
            job.extras_mut().headers = headers;
        }
        match run {
            Ok(()) => abort_reason.map(|reason| Failure::new(ErrorKind::Hook, reason)),
            Err(panic) => Some(panic),
        }
    }
}
