//! State that is carried over to the next run of a crawl: counts, and the state of hosts.
//!
//! The state is stored as notes: one JSON value for the crawl ([`Progress`]), and one for each host ([`LaneNote`]).
//!
//! Notes hold wall-clock times, since the crawl's own time starts at zero in every run. The wall clock may have been
//! adjusted in between, so times are clamped: a back-off ends within the longest accepted `Retry-After`, a robots.txt
//! expires within a day, and ages are not negative.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::time::Time;
use crate::base::time::WallClock;
use crate::crawl::rules::Pace;
use crate::crawl::schedule::keeper::Changes;
use crate::crawl::schedule::lane::ROBOTS_LIFE;
use crate::http::retry_after::MAX_RETRY_AFTER;

/// Counts over all runs of a crawl.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Pages that were fetched and settled: `--max-pages` counts these.
    pub pages: u64,
    /// Bytes received: `--max-bytes` counts these.
    pub bytes: u64,
    /// When this was stored, in milliseconds since the Unix epoch.
    pub at: i64,
    /// In a recrawl: how pages compare with the previous round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Changes that were made while the crawl was running.
    #[serde(skip_serializing_if = "Steering::is_empty")]
    pub steering: Steering,
    /// Whether scope, depth or patterns were changed. Queued links are then judged again when they are taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub scope_changed: bool,
    /// Links of this round that failed because their host could not be reached. The next run queues those again whose
    /// host had responded before.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreached: u64,
    /// The pages that the user of the library has not processed.
    #[serde(skip_serializing_if = "UnreadPages::is_none")]
    pub unread: UnreadPages,
}

/// Pages that were settled and that the user of the library has not processed. The next run delivers them again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreadPages {
    /// The number of pages.
    pub pages: u64,
    /// How many of them count for `--max-pages`.
    pub fetched: u64,
    /// Which pages they are, from the page that was settled last backwards: pairs of a number of processed pages and
    /// the number of unread pages that precede them. Empty if the unread pages are the last ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<(u64, u64)>,
}

impl UnreadPages {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds an unread page, the last one first. `processed` is the number of processed pages between the page added
    /// before, or the end, and this one.
    pub fn add_earlier(&mut self, processed: u64, is_fetched: bool) {
        self.pages += 1;
        self.fetched += u64::from(is_fetched);
        match self.runs.last_mut().filter(|_| processed == 0) {
            Some((_, unread)) => *unread += 1,
            // The first run is stored only if others follow.
            None if processed == 0 => {}
            None => {
                if self.runs.is_empty() && self.pages > 1 {
                    self.runs.push((0, self.pages - 1));
                }
                self.runs.push((processed, 1));
            }
        }
    }

    /// Counts a page that was settled after the unread ones and that is not unread.
    pub fn add_later(&mut self) {
        match self.runs.first_mut() {
            Some((processed, _)) => *processed = processed.saturating_add(1),
            None if self.pages > 0 => self.runs.push((1, self.pages)),
            None => {}
        }
    }

    /// The unread pages by their distance from the page that was settled last, in ascending order.
    pub fn distances(&self) -> Vec<Range<u64>> {
        if self.runs.is_empty() {
            return std::iter::once(0..self.pages).collect();
        }
        let mut end = 0_u64;
        let range = |&(processed, unread): &(u64, u64)| {
            let start = end.saturating_add(processed);
            end = start.saturating_add(unread);
            start..end
        };
        self.runs.iter().map(range).collect()
    }
}

/// Changes that the user made to a running crawl and that also apply to its later runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Steering {
    /// The pace of the command line when the change was made, and the chosen pace. If a later command line has another
    /// pace, the change is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<(Pace, Pace)>,
    /// The same for the rate, in pages a second. The inner `None` means unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<(Option<f64>, Option<f64>)>,
    /// URLs that match one of these are not fetched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
}

impl Steering {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The stored state of a lane's host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneNote {
    pub robots: Vec<RobotsNote>,
    /// The end of the host's back-off, in milliseconds since the Unix epoch.
    pub rest: Option<i64>,
    /// The Crawl-delay of the host in milliseconds; 0 if there is none. It counts even if its robots.txt is not stored.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// When another process may have sent the last request to the host, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<i64>,
    /// How many links to the host entered the frontier. Counted only with `--max-pages-per-host`.
    #[serde(skip_serializing_if = "is_zero")]
    pub pages: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde requires
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The text of a robots.txt. Scheme and port identify its origin at the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotsNote {
    pub https: bool,
    pub port: u16,
    pub text: String,
    /// When it expires, in milliseconds since the Unix epoch.
    pub until: i64,
}

/// A longer robots.txt is not stored.
pub const MAX_NOTED_LENGTH: usize = 64 << 10;
/// Maximum number of origins of one host whose robots.txt is stored.
const MAX_NOTED_ORIGINS: usize = 8;
/// Limit on the total size of one host's stored robots.txt files. Every change rewrites the whole note, and the host
/// determines how often that happens.
const MAX_NOTED_TOTAL: usize = 2 * MAX_NOTED_LENGTH;

impl LaneNote {
    /// Stores a robots.txt in place of its previous text. If there is no room, the oldest are removed.
    pub fn set_robots(&mut self, note: RobotsNote) {
        self.forget_robots(note.https, note.port);
        self.robots.push(note);
        // Keep the newest ones that fit.
        let mut room = MAX_NOTED_TOTAL;
        let fitting = self.robots.iter().rev().take(MAX_NOTED_ORIGINS).take_while(|noted| {
            let fits = noted.text.len() <= room;
            room = room.saturating_sub(noted.text.len());
            fits
        });
        let removed = self.robots.len() - fitting.count();
        self.robots.drain(..removed);
    }

    /// Removes the stored robots.txt of an origin.
    pub fn forget_robots(&mut self, https: bool, port: u16) {
        self.robots.retain(|old| (old.https, old.port) != (https, port));
    }
}

/// Converts a time of this run to milliseconds since the Unix epoch.
pub fn unix_millis(clock: WallClock, time: Time) -> i64 {
    clock.at(time).as_millisecond()
}

/// Converts the stored end of a back-off to this run's time.
pub fn back_off_until(note: i64, clock: WallClock, now: Time) -> Time {
    now + span(unix_millis(clock, now), note).min(MAX_RETRY_AFTER)
}

/// Converts the stored expiry of a robots.txt to this run's time.
pub fn robots_until(note: i64, clock: WallClock, now: Time) -> Time {
    now + span(unix_millis(clock, now), note).min(ROBOTS_LIFE)
}

/// How long ago something was stored; zero if the clock was set back.
pub fn age(note: i64, clock: WallClock, now: Time) -> Duration {
    span(note, unix_millis(clock, now))
}

/// The time between two points in milliseconds, clamped to zero.
fn span(from: i64, to: i64) -> Duration {
    Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    #[test]
    fn restored_times_are_clamped_after_clock_changes() {
        let clock = WallClock { start: 1_800_000_000_000_000 };
        let now = Time::from_micros(5_000_000);
        let at = unix_millis(clock, now);
        assert_eq!(back_off_until(at + 2_000, clock, now), now + Duration::from_secs(2));
        // Clock set forward by a day: the back-off is over. Set back: it is at most the longest accepted `Retry-After`.
        assert_eq!(back_off_until(at - DAY, clock, now), now);
        assert_eq!(back_off_until(at + 30 * 365 * DAY, clock, now), now + MAX_RETRY_AFTER);
        assert_eq!(robots_until(at + 30 * 365 * DAY, clock, now), now + ROBOTS_LIFE);
        assert_eq!(robots_until(at - 1, clock, now), now);
        assert_eq!(age(at + DAY, clock, now), Duration::ZERO);
        assert_eq!(age(at - 1_500, clock, now), Duration::from_millis(1_500));
        for extreme in [i64::MIN, i64::MAX, 0] {
            assert!(back_off_until(extreme, clock, now) >= now && robots_until(extreme, clock, now) >= now);
            age(extreme, clock, now);
        }
    }

    #[test]
    fn unread_pages_are_stored_as_runs_from_the_last_page_backwards() {
        let unread = |gaps: &[u64]| {
            let mut unread = UnreadPages::default();
            gaps.iter().for_each(|gap| unread.add_earlier(*gap, true));
            unread
        };
        assert_eq!(unread(&[0, 0, 0]), UnreadPages { pages: 3, fetched: 3, runs: Vec::new() });
        assert_eq!(unread(&[0, 0, 0]).distances().first(), Some(&(0..3)));
        assert_eq!(unread(&[0, 0, 2, 0]).runs, [(0, 2), (2, 2)]);
        assert_eq!(unread(&[0, 0, 2, 0]).distances(), [0..2, 4..6]);
        assert_eq!(unread(&[5, 1]).distances(), [5..6, 7..8]);
        for (gaps, first, last) in [(&[0, 0, 0][..], 2..5, 2..5), (&[0, 0, 2], 2..4, 6..7), (&[5, 1], 7..8, 9..10)] {
            let mut unread = unread(gaps);
            unread.add_later();
            unread.add_later();
            let distances = unread.distances();
            assert_eq!(
                (distances.first(), distances.last()),
                (Some(&first), Some(&last)),
                "two pages were settled later"
            );
        }
        let mut none = UnreadPages::default();
        none.add_later();
        assert!(none.is_none());
        let stored = serde_json::to_string(&unread(&[5, 0])).unwrap();
        assert_eq!(serde_json::from_str::<UnreadPages>(&stored).unwrap(), unread(&[5, 0]));
        assert_eq!(
            serde_json::from_str::<UnreadPages>(r#"{"pages":4,"fetched":3}"#).unwrap().distances().first(),
            Some(&(0..4))
        );
        let damaged = UnreadPages { runs: vec![(u64::MAX, 7), (1, u64::MAX)], ..UnreadPages::default() };
        assert_eq!(damaged.distances().len(), 2);
    }

    #[test]
    fn a_later_robots_txt_replaces_the_one_of_its_origin() {
        let robots = |https, text: &str| RobotsNote { https, port: 80, text: text.into(), until: 0 };
        let mut note = LaneNote::default();
        note.set_robots(robots(false, "a"));
        note.set_robots(robots(true, "b"));
        note.set_robots(robots(false, "c"));
        assert_eq!(note.robots, [robots(true, "b"), robots(false, "c")]);
    }

    #[test]
    fn the_oldest_stored_robots_txt_is_evicted_first() {
        let robots = |port, size| RobotsNote { https: false, port, text: "x".repeat(size), until: 0 };
        let ports = |note: &LaneNote| note.robots.iter().map(|noted| noted.port).collect::<Vec<_>>();
        let mut note = LaneNote::default();
        for port in 1..=9 {
            note.set_robots(robots(port, 10));
        }
        assert_eq!(ports(&note), (2..=9).collect::<Vec<_>>());
        note.set_robots(robots(2, 20));
        assert_eq!(ports(&note), [3, 4, 5, 6, 7, 8, 9, 2], "storing an origin again evicts no other");
        note.set_robots(robots(10, MAX_NOTED_LENGTH));
        note.set_robots(robots(11, MAX_NOTED_LENGTH));
        assert_eq!(ports(&note), [10, 11]);
    }
}
