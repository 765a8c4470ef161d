//! [`Tally`]: what the keeper counts as it goes, and how a [`Status`] is taken of it all.

use std::collections::VecDeque;
use std::time::Duration;

use argiope_core::Time;
use argiope_core::rules::Rules;
use argiope_core::schedule::frontier::Frontier;
use argiope_core::schedule::keeper::Keeper;
use argiope_core::visit::Visit;

use crate::status::{HostStatus, HostWait, OutcomeCounts, Status, WaitReason};

/// Rates are over this long.
const LATELY: Duration = Duration::from_secs(5);
/// Hosts that are shown.
const SHOWN: usize = 5;

/// What the keeper counts as it goes.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub outcomes: OutcomeCounts,
    pub classes: [u64; 5],
    /// Bytes from the wire, errands included.
    pub bytes: u64,
    /// (when, pages, bytes) at the pictures of the last few seconds.
    past: VecDeque<(Time, u64, u64)>,
}

impl Tally {
    pub fn count(&mut self, visit: &Visit) {
        self.bytes += visit.facts.bytes_wire;
        if !visit.is_page() {
            return;
        }
        self.outcomes.add(visit.facts.outcome);
        if let Some(status) = visit.facts.status {
            let class = usize::from(status / 100).clamp(1, 5) - 1;
            if let Some(count) = self.classes.get_mut(class) {
                *count += 1;
            }
        }
    }

    /// Pages, as the report counts them.
    pub fn pages(&self) -> u64 {
        self.outcomes.fetched()
    }

    fn rates(&mut self, now: Time) -> (f64, f64) {
        let (pages, bytes) = (self.pages(), self.bytes);
        self.past.push_back((now, pages, bytes));
        while self.past.len() > 2 && self.past.front().is_some_and(|(at, ..)| now - *at > LATELY) {
            self.past.pop_front();
        }
        let Some((at, old_pages, old_bytes)) = self.past.front().copied() else {
            return (0.0, 0.0);
        };
        let span = (now - at).as_secs_f64();
        if span <= 0.0 {
            return (0.0, 0.0);
        }
        ((pages - old_pages) as f64 / span, (bytes - old_bytes) as f64 / span)
    }
}

/// The crawl at this moment.
pub fn snapshot<F: Frontier>(
    keeper: &Keeper<F>,
    tally: &mut Tally,
    rules: &Rules,
    draining: bool,
    now: Time,
) -> Status {
    let (pages_per_second, bytes_per_second) = tally.rates(now);
    let bench = keeper.bench();
    let mut busiest: Vec<HostStatus> = Vec::new();
    let mut slowest: Vec<HostStatus> = Vec::new();
    for (_, lane) in bench.lanes() {
        if lane.in_flight() == 0 {
            continue;
        }
        let host = || HostStatus {
            host: lane.name.as_ref().into(),
            in_flight: lane.in_flight(),
            queued: lane.backlog + lane.queue.len() as u64,
            done: 0,
            typical: lane.pace.typical(),
        };
        if busiest.len() < SHOWN || busiest.last().is_some_and(|last| last.in_flight < lane.in_flight()) {
            busiest.push(host());
            busiest.sort_by_key(|host| std::cmp::Reverse(host.in_flight));
            busiest.truncate(SHOWN);
        }
        let typical = lane.pace.typical();
        if typical.is_some() && (slowest.len() < SHOWN || slowest.last().is_some_and(|last| last.typical < typical)) {
            slowest.push(host());
            slowest.sort_by_key(|host| std::cmp::Reverse(host.typical));
            slowest.truncate(SHOWN);
        }
    }
    let unfinished = keeper.unfinished();
    Status {
        elapsed: now - Time::ZERO,
        outcomes: tally.outcomes,
        classes: tally.classes,
        in_flight: bench.in_flight(),
        queued: unfinished.saturating_sub(bench.in_flight() as u64),
        bytes: tally.bytes,
        pages_per_second,
        bytes_per_second,
        hosts: bench.hosts() as u64,
        waiting: waiting(keeper, busiest.first(), now),
        busiest,
        slowest,
        max_pages: keeper.max_pages(),
        max_time: rules.max_time,
        draining,
    }
}

fn waiting<F: Frontier>(keeper: &Keeper<F>, busiest: Option<&HostStatus>, now: Time) -> Option<HostWait> {
    if let Some((host, reason, next_in)) = keeper.bench().waits_for(now) {
        return Some(HostWait { host: host.as_ref().into(), reason, next_in, others: 0 });
    }
    busiest.map(|host| HostWait {
        host: host.host.clone(),
        reason: WaitReason::Answers,
        next_in: Duration::ZERO,
        others: 0,
    })
}

#[cfg(test)]
mod tests {
    use argiope_core::Outcome;
    use argiope_core::page::link::Link;
    use argiope_core::page::url::Url;

    use super::*;

    #[test]
    fn what_was_never_asked_for_is_no_page() {
        let visit = |outcome| {
            let link = Link::root(Url::parse("http://h/").expect("an address"), 1);
            Visit::unasked(link, outcome, None, Time::ZERO)
        };
        let mut tally = Tally::default();
        Outcome::ALL.iter().for_each(|outcome| tally.count(&visit(*outcome)));
        assert_eq!((tally.outcomes.total(), tally.pages()), (7, 5));
        tally.rates(Time::ZERO);
        tally.count(&visit(Outcome::Robots));
        assert!(tally.rates(Time::ZERO + Duration::from_secs(1)).0 <= 0.0, "nothing was fetched");
    }
}
