//! [`Race`]: which address of a host to try next, and when (Happy Eyeballs, RFC 8305), as a pure decision.
//!
//! Addresses are tried in turn, IPv6 and IPv4 alternating, each attempt 250 ms after the previous one, or at once if
//! that one failed. The first connection wins. Engines only connect and wait.
//!
//! Invariant: every address is tried at most once, at most four in total, and none after the deadline.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::{ErrorKind, Failure, Time};

/// The delay before the next attempt starts in parallel (the recommended value of RFC 8305, section 5).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A name may have a thousand addresses. After this many failures the others are not tried.
const MAX_ADDRESSES: usize = 4;

/// The connection attempts for one host.
///
/// It owns no heap memory until an attempt fails: most hosts have one address, and it responds.
pub struct Race {
    addresses: Arc<[IpAddr]>,
    port: u16,
    /// Attempts started so far; the next one uses the n-th address in connecting order.
    begun: u16,
    failed: u16,
    /// When the next attempt may start.
    due: Time,
    deadline: Time,
    /// The most informative failure so far.
    clearest: Option<Failure>,
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
        Self { addresses, port, begun: 0, failed: 0, due: started, deadline: started + connect_timeout, clearest: None }
    }

    /// The next step. Call it again after every event and after every `Connect`.
    pub fn next(&mut self, now: Time) -> RaceStep {
        if usize::from(self.failed) >= self.count() {
            return RaceStep::Lost(self.verdict());
        }
        if now >= self.deadline {
            let late = if self.begun > 1 {
                format!("none of {} addresses answered in time", self.begun)
            } else {
                "no connection in time".to_owned()
            };
            self.remember(Failure::new(ErrorKind::ConnectTimeout, late));
            return RaceStep::Lost(self.verdict());
        }
        match self.nth(usize::from(self.begun)) {
            Some(address) if now >= self.due => {
                self.begun += 1;
                self.due = now + ATTEMPT_DELAY;
                RaceStep::Connect(SocketAddr::new(address, self.port))
            }
            Some(_) => RaceStep::Wait(self.due.min(self.deadline)),
            None => RaceStep::Wait(self.deadline),
        }
    }

    /// Reports a failed attempt: the next one may start at once.
    pub fn failed(&mut self, address: SocketAddr, failure: Failure, now: Time) {
        debug_assert!(self.addresses.contains(&address.ip()));
        self.failed = self.failed.saturating_add(1);
        self.due = now;
        self.remember(failure);
    }

    /// When the race is lost.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    fn count(&self) -> usize {
        self.addresses.len().min(MAX_ADDRESSES)
    }

    /// The n-th address in connecting order: the families alternate, IPv6 first, each in the given order, followed by
    /// the rest of the longer family. Computed on each call: lists are short, and storing the order would allocate for
    /// every connection.
    fn nth(&self, n: usize) -> Option<IpAddr> {
        if n >= self.count() {
            return None;
        }
        let six = self.addresses.iter().filter(|address| address.is_ipv6()).count();
        let four = self.addresses.len() - six;
        let paired = six.min(four);
        let (want_six, index) = if n < 2 * paired { (n.is_multiple_of(2), n / 2) } else { (six > four, n - paired) };
        self.addresses.iter().filter(|address| address.is_ipv6() == want_six).nth(index).copied()
    }

    fn remember(&mut self, failure: Failure) {
        let better = self.clearest.as_ref().is_none_or(|known| clarity(failure.kind) > clarity(known.kind));
        if better {
            self.clearest = Some(failure);
        }
    }

    fn verdict(&mut self) -> Failure {
        let failure = self.clearest.take();
        failure.unwrap_or_else(|| Failure::new(ErrorKind::Unreachable, "the host has no address to connect to"))
    }
}

/// How much a failure says about the host. "Refused" comes from the host itself; a timeout may be caused by the path;
/// "unreachable" is mostly local (without IPv6 it occurs for every IPv6 address).
fn clarity(kind: ErrorKind) -> u8 {
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

    const LIMIT: Duration = Duration::from_secs(10);

    fn race(addresses: &[&str]) -> Race {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Race::new(addresses, 80, Time::ZERO, LIMIT)
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
    fn families_take_turns_with_ipv6_first() {
        let mut race = race(&["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"]);
        let mut now = Time::ZERO;
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(connects_to(race.next(now)));
            now += ATTEMPT_DELAY;
        }
        assert_eq!(order, ["2001:db8::1", "192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        assert_eq!(race.next(now), RaceStep::Wait(Time::ZERO + LIMIT));
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
    fn a_failed_address_is_followed_at_once() {
        let mut race = race(&["2001:db8::1", "192.0.2.1"]);
        connects_to(race.next(at(0)));
        race.failed("[2001:db8::1]:80".parse().unwrap(), unreachable(), at(3));
        assert_eq!(connects_to(race.next(at(3))), "192.0.2.1");
        assert_eq!(race.next(at(3)), RaceStep::Wait(at(10_000)));
    }

    #[test]
    fn the_most_telling_failure_is_the_verdict_in_either_order() {
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
    fn the_next_attempt_is_never_awaited_beyond_the_deadline() {
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
    fn it_stays_small() {
        assert!(size_of::<Race>() <= 72, "{}", size_of::<Race>());
    }
}
