//! [`Workbench::next`]: what to do next, and the start of a request.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;

use super::Workbench;
use super::lane_table::Entry;
use super::selection::Selection;
use super::steering::MayStart;
use super::wait::{Ready, Wait};
use crate::base::job::{Job, JobExtras, LaneId, Purpose};
use crate::base::link::Link;
use crate::base::time::Time;
use crate::crawl::schedule::lane::Addresses;
use crate::crawl::schedule::next::Next;

impl Workbench {
    /// What to do next. `None`: first handle [`Workbench::take_recall`], then [`Workbench::take_decided`], so that a lane
    /// does not change between its selection and the reload of its rules.
    pub fn next(&mut self, now: Time) -> Option<Next> {
        self.lanes.check_counts();
        loop {
            if self.robots.awaits_recall() || !self.decided.is_empty() {
                return None;
            }
            if let Some(id) = self.to_resolve.pop_front() {
                if let Some(entry) = self.lanes.get(id) {
                    return Some(Next::Resolve(id, Arc::clone(&entry.lane.name)));
                }
                continue;
            }
            self.wake_due(now);
            let only_parts = self.holds.may_start() < MayStart::All;
            if let Some(until) = self.blocked_until(only_parts, now) {
                return Some(Next::Wait(until));
            }
            if now >= self.pages.next_start() {
                self.queues.release_one_for_rate(&mut self.lanes);
            }
            self.wake_for_free_slots(now);
            match self.queues.pop_ready(only_parts, &mut self.lanes) {
                Some(ready) => {
                    if let Some(job) = self.serve(ready, now) {
                        return Some(Next::Fetch(job));
                    }
                }
                None => {
                    if let Some(until) = self.next_turn(now) {
                        return Some(Next::Wait(until));
                    }
                }
            }
        }
    }

    /// Until when no request may start, because all slots are in use or requests are held back; `None` if one may. With
    /// `only_parts`, no other requests than those of rendered pages may start.
    fn blocked_until(&mut self, only_parts: bool, now: Time) -> Option<Time> {
        let is_full = self.slots.are_all_taken(self.lanes.counts());
        if is_full && !only_parts {
            return Some(self.slots.close_slow_responses(&self.lanes, &self.queues, now));
        }
        self.wake_for_unreserved(now);
        let has_parts = self.holds.may_start() == MayStart::Parts && self.lanes.counts().with_parts() > 0;
        if only_parts && (is_full || !has_parts) {
            self.slots.keep_slow_responses();
            return Some(Time::NEVER);
        }
        None
    }

    /// When a lane may get its turn, if none has it now. `None`: now, because slots are not reserved any more.
    fn next_turn(&mut self, now: Time) -> Option<Time> {
        let next_check = self.slots.lift_unused_reserve(&self.lanes, &self.queues, now)?;
        let mut until = self.queues.first_later().map_or(Time::NEVER, |(time, _)| time).min(next_check);
        if self.queues.has_lane_for_unreserved() {
            until = until.min(self.slots.close_slow_responses(&self.lanes, &self.queues, now));
        } else {
            self.slots.keep_slow_responses();
        }
        Some(if self.queues.has_lane_for_rate() { until.min(self.pages.next_start()) } else { until })
    }

    /// Starts a request of a lane that has its turn, or puts the lane in the queue for what it lacks.
    fn serve(&mut self, ready: Ready, now: Time) -> Option<Job> {
        let id = ready.lane;
        let lack = self.lack(ready, now);
        let entry = self.lanes.get_mut(id)?;
        if let Some(wait) = lack {
            self.queues.move_to(id, &mut entry.wait, wait);
            return None;
        }
        let woken_by = entry.woken_by.take();
        let job = self.start(id, now);
        if let Some(ip) = woken_by
            && let Some(next) = self.addresses.pop_waiting(ip)
        {
            self.wake_for_address(next, ip);
        }
        job
    }

    /// What a lane that has its turn lacks for its next request.
    fn lack(&self, ready: Ready, now: Time) -> Option<Wait> {
        let counts = self.lanes.counts();
        let Entry { lane, counted, .. } = self.lanes.get(ready.lane)?;
        if ready.weight > 0 && lane.is_without_rules() {
            // The rules of the lane were evicted while it was queued, so it is queued again as the last one.
            Some(Wait::Turn(Ready { weight: 0, ..ready }))
        } else if !counted.is_quick() && self.slots.is_reserved(counts, now) {
            Some(Wait::UnreservedSlot(ready))
        } else if lane.in_flight() > 0 && self.slots.is_short(counts, now) && lane.is_slow(now) {
            Some(Wait::FreeSlots)
        } else {
            None
        }
    }

    /// Starts the next request of a lane. If none can start, puts the lane in the right queue.
    fn start(&mut self, id: LaneId, now: Time) -> Option<Job> {
        let selection = self.select(id, now);
        if let Selection::Go { link, purpose, addresses } = selection {
            return self.send(id, link, purpose, addresses, now);
        }
        // Links may have ended without a request.
        self.update_lane(id);
        match selection {
            Selection::Go { .. } => {}
            Selection::Blocked(until) => self.enqueue_later(id, until),
            Selection::Full(ip) => {
                self.addresses.wait(ip, id);
                if let Some(entry) = self.lanes.get_mut(id) {
                    self.queues.move_to(id, &mut entry.wait, Wait::Address);
                }
            }
            Selection::RateLimited => {
                let order = Reverse(self.queues.next_seq());
                self.enqueue_ranked(id, order, Wait::Rate);
            }
            Selection::NoRobotsRoom => match self.robots.retry_eviction(&mut self.lanes, now) {
                Some(later) => self.enqueue_later(id, later),
                None => self.enqueue_ready(id),
            },
        }
        None
    }

    /// The job for a selected link. It takes a slot of its lane.
    fn send(&mut self, id: LaneId, link: Link, purpose: Purpose, addresses: Arc<[IpAddr]>, now: Time) -> Option<Job> {
        self.addresses.start(&addresses);
        if purpose.is_rated() {
            self.pages.start(purpose == Purpose::Page && link.tries == 0, now);
        }
        let lane = self.lanes.lane_mut(id)?;
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
        let slow_responses = self.slots.slow_responses().clone();
        let has_extras = dns.is_some() || send_reporter.is_some();
        let extras = has_extras.then(|| Box::new(JobExtras { dns, send_reporter, ..JobExtras::default() }));
        Some(Job { link, purpose, lane: id, slot, http, unprocessed: 0, addresses, slow_responses, extras })
    }
}
