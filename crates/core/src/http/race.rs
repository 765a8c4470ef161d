//! [`Race`]: which address of a host to try next, and when (Happy Eyeballs, RFC 8305), as a pure decision.
//!
//! Addresses are tried in turn, IPv6 and IPv4 alternating. An attempt starts 250 ms after the previous one, or at once
//! if an attempt failed. The first connection wins. The engine only opens the sockets and waits for them.
//!
//! Invariant: every address is tried at most once, at most four addresses are tried, and no attempt starts after the
//! deadline.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::{ErrorKind, Failure, Time};

/// The delay before the next attempt starts in parallel (the recommended value of RFC 8305, section 5).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A name may have a thousand addresses. Only this many are tried.
const MAX_ADDRESSES: usize = 4;

/// The connection attempts for one host.
///
/// A race allocates nothing until an attempt fails. Most races have one address, and its attempt succeeds.
pub struct Race {
    addresses: Arc<[IpAddr]>,
    port: u16,
    /// Attempts started so far; the next one uses the n-th address in connecting order.
    started_attempts: u16,
    failed_attempts: u16,
    /// When the next attempt may start.
    next_start: Time,
    deadline: Time,
    /// The failure with the highest [`rank`] so far. It is reported if the race is lost.
    best_failure: Option<Failure>,
}

/// What the engine does next.
#[derive(Debug, PartialEq, Eq)]
pub enum RaceStep {
    /// Start connecting to this address, then call `next` again.
    Connect(SocketAddr),
    /// Wait for an attempt to succeed or fail, but not beyond this time, then call `next` again.
    Wait(Time),
    /// No address is left, or the deadline has passed.
    Lost(Failure),
}

impl Race {
    pub fn new(addresses: Arc<[IpAddr]>, port: u16, started: Time, connect_timeout: Duration) -> Self {
        Self {
            addresses,
            port,
            started_attempts: 0,
            failed_attempts: 0,
            next_start: started,
            deadline: started + connect_timeout,
            best_failure: None,
        }
    }

    /// The next step. Call it again after every event and after every `Connect`.
    pub fn next(&mut self, now: Time) -> RaceStep {
        if usize::from(self.failed_attempts) >= self.max_attempts() {
            return RaceStep::Lost(self.final_failure());
        }
        if now >= self.deadline {
            let message = if self.started_attempts > 1 {
                format!("none of {} addresses answered in time", self.started_attempts)
            } else {
                "no connection in time".to_owned()
            };
            self.keep_best(Failure::new(ErrorKind::ConnectTimeout, message));
            return RaceStep::Lost(self.final_failure());
        }
        match self.nth_address(usize::from(self.started_attempts)) {
            Some(address) if now >= self.next_start => {
                self.started_attempts += 1;
                self.next_start = now + ATTEMPT_DELAY;
                RaceStep::Connect(SocketAddr::new(address, self.port))
            }
            Some(_) => RaceStep::Wait(self.next_start.min(self.deadline)),
            None => RaceStep::Wait(self.deadline),
        }
    }

    /// Reports a failed attempt: the next one may start at once.
    pub fn failed(&mut self, address: SocketAddr, failure: Failure, now: Time) {
        debug_assert!(self.addresses.contains(&address.ip()));
        self.failed_attempts = self.failed_attempts.saturating_add(1);
        self.next_start = now;
        self.keep_best(failure);
    }

    /// When the race is lost.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// How many addresses are tried at most.
    fn max_attempts(&self) -> usize {
        self.addresses.len().min(MAX_ADDRESSES)
    }

    /// The n-th address in connecting order: the families alternate, IPv6 first, each in the given order. When one
    /// family is used up, the addresses left in the other follow. The order is computed on each call, because lists are
    /// short and storing it would allocate for every connection.
    fn nth_address(&self, n: usize) -> Option<IpAddr> {
        if n >= self.max_attempts() {
            return None;
        }
        let ipv6_count = self.addresses.iter().filter(|address| address.is_ipv6()).count();
        let ipv4_count = self.addresses.len() - ipv6_count;
        let pairs = ipv6_count.min(ipv4_count);
        let (is_ipv6, index) =
            if n < 2 * pairs { (n.is_multiple_of(2), n / 2) } else { (ipv6_count > ipv4_count, n - pairs) };
        self.addresses.iter().filter(|address| address.is_ipv6() == is_ipv6).nth(index).copied()
    }

    /// Keeps the failure if it has a higher rank than the one kept so far.
    fn keep_best(&mut self, failure: Failure) {
        let is_better = self.best_failure.as_ref().is_none_or(|best| rank(failure.kind) > rank(best.kind));
        if is_better {
            self.best_failure = Some(failure);
        }
    }

    /// The failure of the whole race.
    fn final_failure(&mut self) -> Failure {
        let failure = self.best_failure.take();
        failure.unwrap_or_else(|| Failure::new(ErrorKind::Unreachable, "the host has no address to connect to"))
    }
}

/// Higher for a failure that says more about the host. "Refused" comes from the host itself. A timeout may be caused by
/// the network path. "Unreachable" is mostly local: without IPv6 it occurs for every IPv6 address.
fn rank(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::ConnectRefused => 4,
        ErrorKind::Reset => 3,
        ErrorKind::ConnectTimeout => 2,
        ErrorKind::Unreachable => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    fn race(addresses: &[&str]) -> Race {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Race::new(addresses, 80, Time::ZERO, CONNECT_TIMEOUT)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn connects_to(step: RaceStep) -> String {
        match step {
            RaceStep::Connect(address) => address.ip().to_string(),
            other => panic!("expected an attempt, not {other:?}"),
        }
    }

    fn refused() -> Failure {
        Failure::new(ErrorKind::ConnectRefused, "refused")
    }

    fn unreachable() -> Failure {
        Failure::new(ErrorKind::Unreachable, "no route")
    }

    #[test]
    fn address_families_alternate_with_ipv6_first() {
        let mut race = race(&["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"]);
        let mut now = Time::ZERO;
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(connects_to(race.next(now)));
            now += ATTEMPT_DELAY;
        }
        assert_eq!(order, ["2001:db8::1", "192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        assert_eq!(race.next(now), RaceStep::Wait(Time::ZERO + CONNECT_TIMEOUT));
    }

    #[test]
    fn more_ipv6_than_ipv4_ends_with_the_rest_of_ipv6() {
        let mut race = race(&["2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.1"]);
        let order: Vec<_> = (0..4).map(|n| connects_to(race.next(at(n * 250)))).collect();
        assert_eq!(order, ["2001:db8::1", "192.0.2.1", "2001:db8::2", "2001:db8::3"]);
    }

    #[test]
    fn the_second_attempt_starts_after_250_ms() {
        let mut race = race(&["2001:db8::1", "192.0.2.1"]);
        assert_eq!(connects_to(race.next(at(0))), "2001:db8::1");
        assert_eq!(race.next(at(0)), RaceStep::Wait(at(250)));
        assert_eq!(race.next(at(249)), RaceStep::Wait(at(250)));
        assert_eq!(connects_to(race.next(at(250))), "192.0.2.1");
        assert_eq!(race.next(at(250)), RaceStep::Wait(at(10_000)));
    }

    #[test]
    fn the_next_attempt_starts_at_once_after_a_failure() {
        let mut race = race(&["2001:db8::1", "192.0.2.1"]);
        connects_to(race.next(at(0)));
        race.failed("[2001:db8::1]:80".parse().unwrap(), unreachable(), at(3));
        assert_eq!(connects_to(race.next(at(3))), "192.0.2.1");
        assert_eq!(race.next(at(3)), RaceStep::Wait(at(10_000)));
    }

    #[test]
    fn the_most_informative_failure_is_reported_in_either_order() {
        for order in [[refused(), unreachable()], [unreachable(), refused()]] {
            let mut race = race(&["2001:db8::1", "192.0.2.1"]);
            for failure in order {
                let RaceStep::Connect(address) = race.next(at(1)) else { panic!("an address is left") };
                race.failed(address, failure, at(1));
            }
            assert_eq!(race.next(at(1)), RaceStep::Lost(refused()));
        }
    }

    #[test]
    fn no_attempt_starts_after_the_deadline() {
        let mut race = race(&["192.0.2.1"]);
        connects_to(race.next(at(0)));
        assert_eq!(race.next(at(9_999)), RaceStep::Wait(at(10_000)));
        match race.next(at(10_000)) {
            RaceStep::Lost(failure) => assert_eq!(failure.kind, ErrorKind::ConnectTimeout),
            other => panic!("{other:?}"),
        }
        let mut race = self::race(&["2001:db8::1", "192.0.2.1"]);
        connects_to(race.next(at(0)));
        race.failed("[2001:db8::1]:80".parse().unwrap(), unreachable(), at(10_000));
        assert!(matches!(race.next(at(10_000)), RaceStep::Lost(failure) if failure.kind == ErrorKind::ConnectTimeout));
    }

    #[test]
    fn the_wait_for_the_next_attempt_ends_at_the_deadline() {
        let addresses: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let mut race = Race::new(addresses.into(), 80, at(0), Duration::from_millis(100));
        connects_to(race.next(at(0)));
        assert_eq!(race.next(at(1)), RaceStep::Wait(at(100)));
    }

    #[test]
    fn a_race_without_addresses_is_lost_at_once() {
        assert!(matches!(race(&[]).next(at(0)), RaceStep::Lost(failure) if failure.kind == ErrorKind::Unreachable));
    }

    #[test]
    fn a_race_takes_at_most_72_bytes() {
        assert!(size_of::<Race>() <= 72, "{}", size_of::<Race>());
    }
}
