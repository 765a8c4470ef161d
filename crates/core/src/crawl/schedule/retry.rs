//! The retry policy: decides from a failure and the number of attempts whether to try again, and when.
//!
//! Invariant: this is the only retry policy, for pages, robots.txt and sitemaps alike.

use std::time::Duration;

use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::crawl::visit::Visit;
use crate::http::retry_after::MAX_RETRY_AFTER;

/// The wait is doubled at most this often.
const MAX_DOUBLINGS: u32 = 16;

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryVerdict {
    /// Try again after this long.
    After(Duration),
    /// This was the last attempt, or another one would fail the same way.
    GiveUp,
}

/// Whether a failure of this kind is transient: another attempt may succeed.
pub fn is_transient(kind: ErrorKind) -> bool {
    use ErrorKind as K;
    matches!(
        kind,
        K::DnsServfail
            | K::DnsTimeout
            | K::DnsInvalid
            | K::ConnectRefused
            | K::ConnectTimeout
            | K::Unreachable
            | K::Reset
            | K::EmptyReply
            | K::TimeoutFirstByte
            | K::TimeoutIdle
            | K::TimeoutTotal
            | K::TooSlow
    )
}

/// Whether a status is transient: another attempt may succeed.
pub fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Decides whether to try again. `tries` counts the attempts so far. `wait` is the wait after the first attempt; it
/// doubles with every further one. A `Retry-After` replaces the doubled wait; the result is at least `wait`.
pub fn judge(visit: &Visit, tries: u8, max_tries: u8, wait: Duration) -> RetryVerdict {
    let is_transient_failure = visit.facts.error.as_ref().is_some_and(|failure| is_transient(failure.kind))
        || visit.facts.status.is_some_and(is_transient_status);
    // A form is sent again only if it cannot have been received.
    let may_repeat =
        visit.link.is_repeatable() || visit.facts.error.as_ref().is_some_and(Failure::is_before_connection);
    if !is_transient_failure || !may_repeat || tries >= max_tries {
        return RetryVerdict::GiveUp;
    }
    wait_after(visit, tries, wait)
}

/// Decides whether to try again because the library's user wishes it. A request that must not be repeated is not.
pub fn judge_wished(visit: &Visit, max_tries: u8, wait: Duration) -> RetryVerdict {
    if !visit.link.is_repeatable() || visit.link.tries >= max_tries {
        return RetryVerdict::GiveUp;
    }
    wait_after(visit, visit.link.tries, wait)
}

fn wait_after(visit: &Visit, tries: u8, wait: Duration) -> RetryVerdict {
    let doublings = u32::from(tries.saturating_sub(1)).min(MAX_DOUBLINGS);
    let doubled = wait.saturating_mul(2u32.saturating_pow(doublings));
    RetryVerdict::After(
        visit.for_keeper.retry_after.map_or(doubled, |requested| requested.min(MAX_RETRY_AFTER).max(doubled.min(wait))),
    )
}

/// Decides after a first attempt with HEAD. If the failure may be specific to HEAD, GET follows at once. Other failures
/// are judged as usual, but with at least two tries.
pub fn judge_head(visit: &Visit, max_tries: u8, wait: Duration) -> RetryVerdict {
    use ErrorKind as K;
    // Whether a GET may succeed where the HEAD failed.
    let may_be_head_only = match (visit.facts.outcome, visit.facts.status, &visit.facts.error) {
        (Outcome::HttpError, Some(status), _) => !is_transient_status(status) || matches!(status, 408 | 500),
        (Outcome::Failed, _, Some(failure)) => matches!(
            failure.kind,
            K::Reset
                | K::EmptyReply
                | K::Protocol
                | K::Decode
                | K::TimeoutFirstByte
                | K::TimeoutIdle
                | K::TimeoutTotal
                | K::TooSlow
        ),
        _ => false,
    };
    if may_be_head_only { RetryVerdict::After(Duration::ZERO) } else { judge(visit, 1, max_tries.max(2), wait) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::base::custom_request::{CustomRequest, Method};
    use crate::base::job::Purpose;
    use crate::base::link::Link;
    use crate::base::outcome::Failure;
    use crate::base::time::Time;
    use crate::base::url::Url;

    const WAIT: Duration = Duration::from_secs(1);

    fn visit(status: Option<u16>, kind: Option<ErrorKind>, retry_after: Option<u64>) -> Visit {
        let link = Link::root(Url::parse("https://h.example/").expect("a URL"), 10);
        let mut visit = Visit::with_outcome(link, Purpose::Page, Outcome::Failed, Time::ZERO);
        visit.facts.status = status;
        visit.facts.error = kind.map(|kind| Failure::new(kind, "because"));
        visit.for_keeper.retry_after = retry_after.map(Duration::from_secs);
        visit
    }

    #[test]
    fn the_wait_doubles_with_every_try() {
        let visit = visit(None, Some(ErrorKind::Reset), None);
        let waits: Vec<RetryVerdict> = (1..=4).map(|tries| judge(&visit, tries, 4, WAIT)).collect();
        assert_eq!(
            waits,
            [
                RetryVerdict::After(WAIT),
                RetryVerdict::After(WAIT * 2),
                RetryVerdict::After(WAIT * 4),
                RetryVerdict::GiveUp
            ]
        );
    }

    #[test]
    fn only_transient_failures_are_retried() {
        for status in [408, 429, 500, 502, 503, 504] {
            assert_ne!(judge(&visit(Some(status), None, None), 1, 4, WAIT), RetryVerdict::GiveUp, "{status}");
        }
        for status in [200, 301, 304, 400, 401, 403, 404, 410, 451, 501, 505, 999] {
            assert_eq!(judge(&visit(Some(status), None, None), 1, 4, WAIT), RetryVerdict::GiveUp, "{status}");
        }
        for kind in
            [ErrorKind::DnsNxdomain, ErrorKind::Tls, ErrorKind::Protocol, ErrorKind::TooLarge, ErrorKind::Decode]
        {
            assert_eq!(judge(&visit(None, Some(kind), None), 1, 4, WAIT), RetryVerdict::GiveUp, "{kind}");
        }
        let truncated = visit(Some(200), Some(ErrorKind::Reset), None);
        assert_ne!(judge(&truncated, 1, 4, WAIT), RetryVerdict::GiveUp, "a truncated body");
    }

    #[test]
    fn a_failed_head_is_followed_by_get() {
        let answered = |outcome, status, kind| {
            let mut visit = visit(status, kind, None);
            visit.facts.outcome = outcome;
            judge_head(&visit, 1, WAIT)
        };
        for status in [400, 403, 404, 405, 410, 500, 501, 999] {
            let verdict = answered(Outcome::HttpError, Some(status), None);
            assert_eq!(verdict, RetryVerdict::After(Duration::ZERO), "{status}");
        }
        for status in [429, 502, 503, 504] {
            let verdict = answered(Outcome::HttpError, Some(status), None);
            assert_eq!(verdict, RetryVerdict::After(WAIT), "{status}");
        }
        for kind in [ErrorKind::Reset, ErrorKind::EmptyReply, ErrorKind::Protocol, ErrorKind::TimeoutFirstByte] {
            assert_eq!(answered(Outcome::Failed, None, Some(kind)), RetryVerdict::After(Duration::ZERO), "{kind}");
        }
        assert_eq!(answered(Outcome::Failed, None, Some(ErrorKind::ConnectRefused)), RetryVerdict::After(WAIT));
        assert_eq!(answered(Outcome::Failed, None, Some(ErrorKind::DnsNxdomain)), RetryVerdict::GiveUp);
        assert_eq!(answered(Outcome::Ok, Some(200), None), RetryVerdict::GiveUp);
        assert_eq!(answered(Outcome::Redirect, Some(301), None), RetryVerdict::GiveUp);
    }

    #[test]
    fn a_form_is_sent_again_only_if_it_was_not_received() {
        let form = |is_idempotent| CustomRequest { method: Method::Post, is_idempotent, ..CustomRequest::default() };
        let judged = |kind, is_idempotent| {
            let mut visit = visit(None, Some(kind), None);
            visit.link.request = Some(Arc::new(form(is_idempotent)));
            judge(&visit, 1, 4, WAIT)
        };
        for kind in [ErrorKind::ConnectRefused, ErrorKind::DnsTimeout] {
            assert_ne!(judged(kind, false), RetryVerdict::GiveUp, "{kind}");
        }
        for kind in [ErrorKind::Reset, ErrorKind::EmptyReply, ErrorKind::TimeoutFirstByte] {
            assert_eq!(judged(kind, false), RetryVerdict::GiveUp, "{kind}");
            assert_ne!(judged(kind, true), RetryVerdict::GiveUp, "{kind}: the user marked it as idempotent");
        }
    }

    #[test]
    fn retry_after_replaces_the_wait_within_limits() {
        let wait = |seconds| judge(&visit(Some(503), None, Some(seconds)), 3, 4, WAIT);
        assert_eq!(wait(90), RetryVerdict::After(Duration::from_secs(90)));
        assert_eq!(wait(0), RetryVerdict::After(WAIT), "at least the first wait");
        assert_eq!(wait(1_000_000), RetryVerdict::After(MAX_RETRY_AFTER));
    }

    #[test]
    fn huge_waits_do_not_overflow() {
        let visit = visit(None, Some(ErrorKind::Reset), None);
        assert_eq!(judge(&visit, 200, 255, Duration::MAX), RetryVerdict::After(Duration::MAX));
    }
}
