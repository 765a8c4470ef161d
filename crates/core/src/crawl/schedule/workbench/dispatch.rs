//! [`Workbench::next`]: what to do next, and the start of a request.

use std::cmp::Reverse;
use std::sync::Arc;

use super::lane_queues::Ready;
use super::placement::WaitState;
use super::selection::Selection;
use super::steering::spacing;
use super::{Entry, Next, Workbench};
use crate::base::job::{Job, JobExtras, LaneId, Purpose};
use crate::base::time::Time;
use crate::crawl::schedule::lane::Addresses;

impl Workbench {
    /// What to do next.
    pub fn next(&mut self, now: Time) -> Next {
        self.check_counts();
        loop {
            // Recalls come first, so that a lane does not change between its selection and the reload of its rules.
            if let Some((id, origin)) = self.recalls.pop_front() {
                return Next::Recall(id, origin);
            }
            if let Some(visit) = self.decided.pop_front() {
                return Next::Settle(visit);
            }
            if let Some(id) = self.to_resolve.pop_front() {
                if let Some(entry) = self.lanes.get(&id) {
                    return Next::Resolve(id, Arc::clone(&entry.lane.name));
                }
                continue;
            }
            self.wake_due(now);
            let is_held = self.draining || self.paused || self.held_back || self.held_for_share;
            if !is_held && self.in_flight() >= self.concurrency {
                return Next::Wait(self.close_slow_responses(now));
            }
            self.admit_unproven(now);
            if is_held {
                self.keep_slow_responses();
                return Next::Wait(Time::NEVER);
            }
            if now >= self.next_start {
                self.queues.release_rated();
            }
            self.wake_crowded(now);
            let Some(Ready { lane, weight, seq }) = self.queues.pop_ready() else {
                let Some(next_check) = self.lift_unused_reserve(now) else { continue };
                let due = self.queues.first_later().map_or(Time::NEVER, |(time, _)| time).min(next_check);
                let due = if self.queues.has_unproven() {
                    due.min(self.close_slow_responses(now))
                } else {
                    self.keep_slow_responses();
                    due
                };
                return Next::Wait(if self.queues.has_rated() { due.min(self.next_start) } else { due });
            };
            if weight > 0 && self.lanes.get(&lane).is_some_and(|entry| entry.lane.is_without_rules()) {
                // The rules of the lane were evicted while it was queued, so it is queued again as the last one.
                let last = Ready { weight: 0, seq, lane };
                if let Some(WaitState::Ready(wait)) = self.lanes.get_mut(&lane).map(|entry| &mut entry.wait) {
                    *wait = last;
                }
                self.queues.insert_ready(last);
                continue;
            }
            if self.queue_if_reserved(Ready { lane, weight, seq }, now) {
                continue;
            }
            let holds_slots_long = |entry: &Entry| entry.lane.in_flight() > 0 && entry.lane.is_slow(now);
            if self.is_crowded(now) && self.lanes.get(&lane).is_some_and(|entry| holds_slots_long(entry)) {
                if let Some(entry) = self.lanes.get_mut(&lane) {
                    entry.wait = WaitState::Crowded;
                    self.queues.insert_crowded(lane);
                }
                continue;
            }
            let woken_by = self.lanes.get_mut(&lane).and_then(|entry| {
                entry.wait = WaitState::Nowhere;
                entry.woken_by.take()
            });
            let job = self.start(lane, now);
            if let Some(ip) = woken_by {
                self.wake_next(ip);
            }
            if let Some(job) = job {
                return Next::Fetch(job);
            }
        }
    }

    /// Starts the next request of a lane. If none can start, puts the lane in the right queue.
    fn start(&mut self, id: LaneId, now: Time) -> Option<Job> {
        let selection = self.select(id, now);
        if !matches!(selection, Selection::Go(..)) {
            // Links may have ended without a request.
            self.update_lane(id);
        }
        let (link, purpose, addresses) = match selection {
            Selection::Go(link, purpose, addresses) => (link, purpose, addresses),
            Selection::Blocked(until) => {
                if !until.is_never() {
                    self.enqueue_later(id, until);
                }
                return None;
            }
            Selection::Full(ip) => {
                self.queues.wait_for_address(ip, id);
                if let Some(entry) = self.lanes.get_mut(&id) {
                    entry.wait = WaitState::Queued;
                }
                return None;
            }
            Selection::RateLimited => {
                let order = Reverse(self.queues.next_seq());
                if let Some(ready) = self.rank(id, order)
                    && let Some(entry) = self.lanes.get_mut(&id)
                {
                    entry.wait = WaitState::Rated;
                    self.queues.insert_rated(ready);
                }
                return None;
            }
            Selection::NoRobotsRoom => {
                match self.retry_eviction(now) {
                    Some(later) => self.enqueue_later(id, later),
                    None => self.enqueue_ready(id),
                }
                return None;
            }
        };
        if self.rules.per_ip.is_some() {
            for ip in addresses.iter() {
                self.queues.start_at(*ip);
            }
        }
        if purpose == Purpose::Page {
            if link.tries == 0 {
                self.pages_left = self.pages_left.saturating_sub(1);
            }
            if let Some(rate) = self.rules.rate {
                self.next_start = now + spacing(rate);
            }
        }
        let lane = &mut self.lanes.get_mut(&id)?.lane;
        lane.pace.started(now);
        let slot = lane.take_slot(link.url.clone(), Arc::clone(&addresses), now);
        // The first job after a lookup reports how long the lookup took.
        let dns = match &mut lane.addresses {
            Addresses::Known { took, .. } => std::mem::take(took).get(),
            _ => None,
        };
        let send_reporter = self.send_reporter.clone().filter(|_| !lane.pace.delay().is_zero());
        if send_reporter.is_some() {
            lane.pace.await_send(slot);
        }
        let http = lane.http_for(&link.url, &self.rules);
        self.place(id, now);
        let has_extras = dns.is_some() || send_reporter.is_some();
        let extras = has_extras.then(|| Box::new(JobExtras { dns, send_reporter, ..JobExtras::default() }));
        Some(Job { link, purpose, lane: id, slot, http, unprocessed: 0, addresses, extras })
    }
}
