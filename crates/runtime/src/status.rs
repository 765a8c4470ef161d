//! [`Status`]: a crawl at one moment, as plain data. Whoever shows progress needs nothing else.

use std::time::Duration;

use argiope_core::Outcome;
pub use argiope_core::schedule::wait::WaitReason;

/// A crawl at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Since this run began.
    pub elapsed: Duration,
    /// URLs whose fate is settled.
    pub outcomes: OutcomeCounts,
    /// Answers with a status of 1xx, 2xx, … 5xx (and beyond).
    pub classes: [u64; 5],
    pub in_flight: usize,
    /// Known, and not taken up yet.
    pub queued: u64,
    /// Bytes from the wire.
    pub bytes: u64,
    /// Pages and bytes a second, over the last few seconds.
    pub pages_per_second: f64,
    pub bytes_per_second: f64,
    /// Hosts seen so far.
    pub hosts: u64,
    /// Those with the most fetches in flight, the first the busiest.
    pub busiest: Vec<HostStatus>,
    /// Those that answer slowest, the first the slowest.
    pub slowest: Vec<HostStatus>,
    /// What the crawl waits for, where nothing else keeps it busy.
    pub waiting: Option<HostWait>,
    pub max_pages: Option<u64>,
    pub max_time: Option<Duration>,
    /// An interrupt came: nothing new is started.
    pub draining: bool,
}

/// One host at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostStatus {
    pub host: Box<str>,
    pub in_flight: usize,
    pub queued: u64,
    pub done: u64,
    /// How long it takes to answer, lately; none where it has not answered yet.
    pub typical: Option<Duration>,
}

/// Why nothing is being fetched from a host now, and until when.
#[derive(Clone, Debug, PartialEq)]
pub struct HostWait {
    pub host: Box<str>,
    pub reason: WaitReason,
    pub next_in: Duration,
    /// How many other hosts wait as well.
    pub others: u64,
}

/// How many URLs met each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts([u64; Outcome::ALL.len()]);

impl OutcomeCounts {
    pub fn add(&mut self, outcome: Outcome) {
        if let Some(count) = self.0.get_mut(outcome as usize) {
            *count += 1;
        }
    }

    pub fn get(&self, outcome: Outcome) -> u64 {
        self.0.get(outcome as usize).copied().unwrap_or(0)
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that were asked for: what robots.txt forbids and what is refused never is.
    pub fn fetched(&self) -> u64 {
        self.total() - self.get(Outcome::Robots) - self.get(Outcome::Refused)
    }

    /// Those that happened, in the order of the record format.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        Outcome::ALL.iter().map(|outcome| (*outcome, self.get(*outcome))).filter(|(_, count)| *count > 0)
    }
}

impl FromIterator<(Outcome, u64)> for OutcomeCounts {
    fn from_iter<I: IntoIterator<Item = (Outcome, u64)>>(counts: I) -> Self {
        let mut outcomes = Self::default();
        for (outcome, count) in counts {
            if let Some(slot) = outcomes.0.get_mut(outcome as usize) {
                *slot += count;
            }
        }
        outcomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_count() {
        let mut outcomes = OutcomeCounts::default();
        for outcome in Outcome::ALL {
            outcomes.add(*outcome);
        }
        assert_eq!((outcomes.total(), outcomes.fetched()), (7, 5));
        assert!(outcomes.iter().all(|(_, count)| count == 1));
        let one: OutcomeCounts = [(Outcome::Robots, 3)].into_iter().collect();
        assert_eq!(one.iter().collect::<Vec<_>>(), [(Outcome::Robots, 3)]);
    }
}
