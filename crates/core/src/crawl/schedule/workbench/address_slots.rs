//! [`AddressSlots`]: how many requests are in flight at each IP address, and which lanes wait there (`--per-ip`).

use std::collections::VecDeque;
use std::net::IpAddr;

use hashbrown::HashMap;

use crate::base::job::LaneId;

/// The use of all addresses, which several hosts may share.
pub(super) struct AddressSlots {
    /// Limit on the requests in flight at one address.
    limit: Option<usize>,
    /// Only addresses with requests in flight or waiting lanes. Empty without a limit.
    by_ip: HashMap<IpAddr, AddressUse>,
}

#[derive(Default)]
struct AddressUse {
    in_flight: usize,
    /// Lanes that wait for a free slot.
    waiting: VecDeque<LaneId>,
}

impl AddressSlots {
    pub fn new(limit: Option<usize>) -> Self {
        Self { limit, by_ip: HashMap::new() }
    }

    /// Sets the limit. Requests in flight above a lower limit may finish.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    /// The first of these addresses that has no free slot.
    pub fn find_full(&self, ips: &[IpAddr]) -> Option<IpAddr> {
        let limit = self.limit?;
        let in_flight = |ip: &IpAddr| self.by_ip.get(ip).map_or(0, |address| address.in_flight);
        ips.iter().find(|ip| in_flight(ip) >= limit).copied()
    }

    /// Queues a lane until a slot of this address is free.
    pub fn wait(&mut self, ip: IpAddr, lane: LaneId) {
        self.by_ip.entry(ip).or_default().waiting.push_back(lane);
    }

    /// Counts a request that starts and may use any of these addresses.
    pub fn start(&mut self, ips: &[IpAddr]) {
        if self.limit.is_some() {
            for ip in ips {
                self.by_ip.entry(*ip).or_default().in_flight += 1;
            }
        }
    }

    /// Counts the end of a request at this address. Returns a lane that may use the free slot.
    pub fn end(&mut self, ip: IpAddr) -> Option<LaneId> {
        self.limit?;
        if let Some(address) = self.by_ip.get_mut(&ip) {
            address.in_flight = address.in_flight.saturating_sub(1);
        }
        self.pop_waiting(ip)
    }

    /// Removes the lane that has waited longest for this address, if a slot is free.
    pub fn pop_waiting(&mut self, ip: IpAddr) -> Option<LaneId> {
        let address = self.by_ip.get_mut(&ip)?;
        if self.limit.is_some_and(|limit| address.in_flight >= limit) {
            return None;
        }
        let lane = address.waiting.pop_front();
        if address.in_flight == 0 && address.waiting.is_empty() {
            self.by_ip.remove(&ip);
        }
        lane
    }

    /// Whether no address has a request in flight or a waiting lane.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.by_ip.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_freed_slot_goes_to_the_lane_that_waited_longest() {
        let ips = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let mut slots = AddressSlots::new(Some(1));
        slots.start(&ips);
        assert_eq!(slots.find_full(&ips), Some(ips[0]));
        slots.wait(ips[0], LaneId(7));
        slots.wait(ips[0], LaneId(3));
        assert_eq!((slots.pop_waiting(ips[0]), slots.end(ips[1])), (None, None));
        assert_eq!(slots.end(ips[0]), Some(LaneId(7)));
        assert_eq!(slots.pop_waiting(ips[0]), Some(LaneId(3)), "the first one did not use the slot");
        assert!(slots.is_idle());
        let mut unlimited = AddressSlots::new(None);
        unlimited.start(&ips);
        assert!(unlimited.is_idle() && unlimited.find_full(&ips).is_none());
    }
}
