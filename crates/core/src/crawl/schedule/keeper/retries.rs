//! [`Retries`]: whether a request is sent again, and which hosts answer HEAD as they answer GET.
//!
//! With `head_first`, a GET follows a HEAD that failed, because some hosts answer HEAD wrongly. On a host that answers HEAD
//! well, a missing page would then be requested twice.

use std::collections::HashMap;
use std::time::Duration;

use crate::base::job::{LaneId, Purpose};
use crate::crawl::rules::Rules;
use crate::crawl::schedule::retry::{self, RetryVerdict};
use crate::crawl::visit::Visit;

/// How many GETs must confirm a missing page before HEAD is trusted on a host that has not answered a HEAD with success.
const ENOUGH_CONFIRMATIONS: u8 = 3;

/// Judges whether a request is sent again.
pub(super) struct Retries {
    max_tries: u8,
    wait: Duration,
    longest_wait: Option<Duration>,
    /// With `head_first` only.
    head: Option<HeadAnswers>,
}

impl Retries {
    pub fn new(rules: &Rules) -> Self {
        Self {
            max_tries: rules.max_tries,
            wait: rules.retry_wait,
            longest_wait: rules.longest_wait,
            head: rules.head_first.then(HeadAnswers::default),
        }
    }

    /// Whether the request of this visit is sent again.
    pub fn judge(&mut self, visit: &Visit) -> RetryVerdict {
        if visit.for_keeper.asks_to_wait_longer_than(self.longest_wait) {
            return RetryVerdict::GiveUp;
        }
        if let Some(head) = self.head.as_mut().filter(|_| visit.purpose == Purpose::Page) {
            head.note(visit);
            if visit.link.tries == 1 && !head.is_final(visit) {
                return retry::judge_head(visit, self.max_tries, self.wait);
            }
        }
        retry::judge(visit, visit.link.tries, self.max_tries, self.wait)
    }
}

/// What the requests of each lane have shown so far.
#[derive(Debug, Default)]
struct HeadAnswers(HashMap<LaneId, HeadTrust>);

#[derive(Clone, Copy, Debug)]
enum HeadTrust {
    /// This many GETs have confirmed that a page is missing.
    Confirmed(u8),
    Trusted,
    /// A HEAD failed, and the GET after it did not. This holds for the rest of the run.
    Distrusted,
}

impl HeadAnswers {
    /// Notes the answer to the first (HEAD) or a later attempt (GET) at a page.
    fn note(&mut self, visit: &Visit) {
        let (Some((lane, _)), Some(status)) = (visit.for_keeper.slot, visit.facts.status) else { return };
        let (is_good, is_head) = ((200..300).contains(&status), visit.link.tries <= 1);
        let known = self.0.entry(lane).or_insert(HeadTrust::Confirmed(0));
        *known = match (*known, is_head, is_good) {
            (HeadTrust::Distrusted, ..) | (_, false, true) => HeadTrust::Distrusted,
            (HeadTrust::Trusted, ..) | (_, true, true) => HeadTrust::Trusted,
            (HeadTrust::Confirmed(count), false, false) if is_missing(status) => match count + 1 {
                ENOUGH_CONFIRMATIONS => HeadTrust::Trusted,
                count => HeadTrust::Confirmed(count),
            },
            (HeadTrust::Confirmed(count), ..) => HeadTrust::Confirmed(count),
        };
    }

    /// Whether this answer to a HEAD says that the page is missing, and the host answers HEAD well.
    fn is_final(&self, visit: &Visit) -> bool {
        let trust = visit.for_keeper.slot.and_then(|(lane, _)| self.0.get(&lane));
        let is_trusted = matches!(trust, Some(HeadTrust::Trusted));
        is_trusted && visit.facts.status.is_some_and(is_missing)
    }
}

fn is_missing(status: u16) -> bool {
    matches!(status, 404 | 410)
}
