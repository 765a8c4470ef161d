//! [`CommitProgress`]: how fast visits come, and how many of them are not durable yet.

use std::collections::VecDeque;
use std::time::Duration;

use argiope_core::Time;

/// No request starts while this many visits are not durable, ...
pub(super) const MAX_OUTSTANDING: usize = 512;
/// ... or as many as come in this time, where that is more.
const OUTSTANDING_TIME: Duration = Duration::from_millis(100);
/// The weight of older samples in the average number of visits, to one for the latest.
const OLDER_SAMPLES: usize = 3;

/// How fast visits come, and how many of them are not durable yet.
#[derive(Default)]
pub(super) struct CommitProgress {
    /// Since when no request starts because of the disk.
    held_since: Option<Time>,
    /// How long requests were held back in total.
    held: Duration,
    /// The start of a sample, in time without that, and the visits in it.
    sample: (Duration, usize),
    /// Visits in [`OUTSTANDING_TIME`], averaged.
    usual: usize,
    /// Visits of the commits that are not durable yet.
    sent: VecDeque<usize>,
}

impl CommitProgress {
    /// Counts a visit. Those that arrive while requests are held back do not count and that time does not either:
    /// otherwise a slow disk would lower the average, and with it the speed, more and more.
    pub fn add(&mut self, now: Time) {
        if self.held_since.is_some() {
            return;
        }
        let active = (now - Time::ZERO).saturating_sub(self.held);
        let span = active.saturating_sub(self.sample.0);
        if span >= OUTSTANDING_TIME {
            let visits = self.sample.1 as u128 * OUTSTANDING_TIME.as_micros() / span.as_micros().max(1);
            let visits = usize::try_from(visits).unwrap_or(usize::MAX);
            self.usual = match self.usual {
                0 => visits,
                usual => (usual * OLDER_SAMPLES + visits) / (OLDER_SAMPLES + 1),
            };
            self.sample = (active, 0);
        }
        self.sample.1 += 1;
    }

    /// A commit with this many visits was sent to the writer.
    pub fn sent(&mut self, visits: usize) {
        self.sent.push_back(visits);
    }

    /// The oldest commit is durable.
    pub fn durable(&mut self) {
        self.sent.pop_front();
    }

    /// Visits in commits that are not durable yet.
    pub fn sent_visits(&self) -> usize {
        self.sent.iter().sum()
    }

    /// How many visits may be outstanding.
    pub fn max_outstanding(&self) -> usize {
        self.usual.max(MAX_OUTSTANDING)
    }

    /// Sets whether requests are held back.
    pub fn hold(&mut self, is_held: bool, now: Time) {
        match (self.held_since, is_held) {
            (None, true) => self.held_since = Some(now),
            (Some(since), false) => {
                self.held += now - since;
                self.held_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    pub fn is_held(&self) -> bool {
        self.held_since.is_some()
    }
}
