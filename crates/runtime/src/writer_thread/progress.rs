//! [`CommitProgress`]: how fast visits arrive, and how many of them are not durable yet.

use std::collections::VecDeque;
use std::time::Duration;

use argiope_core::Time;

/// At least this many visits may be outstanding, which means not durable yet. At the limit, no request starts.
pub(super) const MIN_OUTSTANDING_LIMIT: usize = 512;
/// The limit of outstanding visits is the average number of visits that arrive in this time, if that is higher.
const OUTSTANDING_TIME: Duration = Duration::from_millis(100);
/// The weight of older samples in the average number of visits. The latest sample has weight 1.
const OLDER_SAMPLES: usize = 3;

/// How fast visits arrive, and how many of them are not durable yet.
#[derive(Default)]
pub(super) struct CommitProgress {
    /// Since when requests are held back because of the disk; `None` if they are not.
    held_since: Option<Time>,
    /// How long requests were held back in total, without the current hold.
    held_total: Duration,
    /// The current sample: its start, measured in time without `held_total`, and its number of visits.
    sample: (Duration, usize),
    /// The average number of visits that arrive in [`OUTSTANDING_TIME`].
    average: usize,
    /// For each commit that was sent and is not durable yet, its visits and its bytes. The oldest is first.
    sent: VecDeque<(usize, usize)>,
}

impl CommitProgress {
    /// Adds a visit to the sample. While requests are held back, neither visits nor time are added. Otherwise a slow
    /// disk would lower the average, which lowers the limit, which lowers the average further.
    pub fn add(&mut self, now: Time) {
        if self.held_since.is_some() {
            return;
        }
        let active = (now - Time::ZERO).saturating_sub(self.held_total);
        let span = active.saturating_sub(self.sample.0);
        if span >= OUTSTANDING_TIME {
            let visits = self.sample.1 as u128 * OUTSTANDING_TIME.as_micros() / span.as_micros().max(1);
            let visits = usize::try_from(visits).unwrap_or(usize::MAX);
            self.average = match self.average {
                0 => visits,
                average => (average * OLDER_SAMPLES + visits) / (OLDER_SAMPLES + 1),
            };
            self.sample = (active, 0);
        }
        self.sample.1 += 1;
    }

    /// Records that a commit with this many visits and bytes was sent to the writer.
    pub fn add_sent(&mut self, visits: usize, bytes: usize) {
        self.sent.push_back((visits, bytes));
    }

    /// Records that the oldest commit is durable.
    pub fn remove_durable(&mut self) {
        self.sent.pop_front();
    }

    /// Visits in commits that are not durable yet.
    pub fn sent_visits(&self) -> usize {
        self.sent.iter().map(|(visits, _)| visits).sum()
    }

    /// Bytes in commits that are not durable yet.
    pub fn sent_bytes(&self) -> usize {
        self.sent.iter().map(|(_, bytes)| bytes).sum()
    }

    /// How many visits may be outstanding.
    pub fn max_outstanding(&self) -> usize {
        self.average.max(MIN_OUTSTANDING_LIMIT)
    }

    /// Sets whether requests are held back.
    pub fn set_held(&mut self, is_held: bool, now: Time) {
        match (self.held_since, is_held) {
            (None, true) => self.held_since = Some(now),
            (Some(since), false) => {
                self.held_total += now - since;
                self.held_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    pub fn is_held(&self) -> bool {
        self.held_since.is_some()
    }
}
