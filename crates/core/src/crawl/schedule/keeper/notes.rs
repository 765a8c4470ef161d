//! [`Notes`]: what the keeper stores for the next run, and restores from the previous one: see
//! [`crate::crawl::schedule::carryover`].
//!
//! An unreadable note is ignored. Its robots.txt, for example, is then fetched again.

use std::sync::Arc;
use std::time::Duration;

use super::Keeper;
use crate::base::job::LaneId;
use crate::base::outcome::{Failure, Outcome};
use crate::base::time::Time;
use crate::base::url::Origin;
use crate::crawl::schedule::carryover::{self, LaneNote, Progress, RobotsNote, UnreadPages};
use crate::crawl::schedule::frontier::{Frontier, History, StoreError};
use crate::crawl::schedule::lane::RobotsState;
use crate::crawl::visit::Visit;
use crate::page::robots::Robots;

/// A shorter back-off is not stored.
const MIN_NOTED_BACKOFF: Duration = Duration::from_secs(1);

/// Counts over all runs, and when the previous one ended.
#[derive(Default)]
pub(super) struct Notes {
    pub progress: Progress,
    /// Pages fetched by earlier runs.
    pages_before: u64,
    /// When the previous run ended, in milliseconds since the Unix epoch; `None` if there was none.
    previous_end: Option<i64>,
}

impl Notes {
    /// Restores the counts of earlier runs.
    pub fn recall(history: &mut impl History) -> Result<Self, StoreError> {
        let note = history.note(None)?;
        let Some(progress) = note.and_then(|note| serde_json::from_slice::<Progress>(&note).ok()) else {
            return Ok(Self::default());
        };
        let previous_end = Some(progress.at).filter(|end| *end > 0);
        Ok(Self { pages_before: progress.pages, previous_end, progress })
    }

    /// Stores the counts. `at` is the time, in milliseconds since the Unix epoch.
    fn keep(&mut self, history: &mut impl History, at: i64) -> Result<(), StoreError> {
        self.progress.at = at;
        history.keep_note(None, &serde_json::to_vec(&self.progress).unwrap_or_default())
    }

    /// The note about a lane's host, if there is a readable one.
    pub fn of_lane(history: &mut impl History, lane: LaneId) -> Result<Option<LaneNote>, StoreError> {
        let note = history.note(Some(lane))?;
        Ok(note.and_then(|note| serde_json::from_slice(&note).ok()))
    }

    /// Changes the note about a lane's host, if `change` returns true.
    pub fn change_lane(
        history: &mut impl History,
        lane: LaneId,
        change: impl FnOnce(&mut LaneNote) -> bool,
    ) -> Result<(), StoreError> {
        let mut note = Self::of_lane(history, lane)?.unwrap_or_default();
        if change(&mut note) {
            history.keep_note(Some(lane), &serde_json::to_vec(&note).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Counts a settled visit.
    pub fn count(&mut self, visit: &Visit) {
        self.progress.pages += u64::from(visit.is_fetched_page());
        if visit.is_page() {
            // A program has queued its unread pages again. The command leaves them to the next run of the program.
            self.progress.unread.add_later();
        }
        let is_unreached = visit.facts.error.as_ref().is_some_and(Failure::concerns_host);
        self.progress.unreached += u64::from(is_unreached && visit.purpose.is_in_frontier());
    }
}

impl<F: Frontier + History> Keeper<F> {
    /// Stores the counts; to be called before a commit.
    pub fn note_progress(&mut self, now: Time) -> Result<(), StoreError> {
        self.notes.progress.steering.clone_from(self.steering.changes());
        self.notes.keep(&mut self.frontier, carryover::unix_millis(self.clock, now))
    }

    /// Sets how many settled pages the user of the library has not processed.
    pub fn set_unread(&mut self, unread: UnreadPages) {
        self.notes.progress.unread = unread;
    }

    /// Counts over all runs.
    pub fn progress(&self) -> &Progress {
        &self.notes.progress
    }

    /// The part of `--max-pages` that earlier runs did not use.
    pub fn max_pages(&self) -> Option<u64> {
        self.rules.max_pages.map(|limit| limit.saturating_sub(self.notes.pages_before))
    }

    /// Restores the stored state of the host of an active lane.
    pub(super) fn restore_lane(&mut self, lane: LaneId, now: Time) -> Result<(), StoreError> {
        let Some(name) = self.lane_name(lane).map(str::to_owned) else { return Ok(()) };
        let asked = self.recall_lane(lane, &name, now)?;
        self.keep_initial_delay(lane, asked, now);
        Ok(())
    }

    /// Restores the stored state of a lane's host. Returns when another process may have sent the last request to it.
    pub(super) fn recall_lane(&mut self, lane: LaneId, name: &str, now: Time) -> Result<Option<i64>, StoreError> {
        let Some(note) = Notes::of_lane(&mut self.frontier, lane)? else { return Ok(None) };
        for RobotsNote { https, port, text, until } in note.robots {
            let until = carryover::robots_until(until, self.clock, now);
            if until > now {
                let rules = self.parse_noted(name, &text);
                let origin = Origin { https, host: Arc::from(name), port };
                self.bench.robots_known(lane, &origin, RobotsState::Rules { rules, until, evictable_from: now }, now);
            }
        }
        if let Some(rest) = note.rest {
            self.bench.pause_until(lane, name, carryover::back_off_until(rest, self.clock, now));
        }
        if note.delay_ms > 0 {
            self.bench.obey_crawl_delay(lane, name, Duration::from_millis(note.delay_ms));
        }
        Ok(note.asked)
    }

    /// Parses the stored robots.txt of a host. It is empty if the host has none.
    fn parse_noted(&self, host: &str, text: &str) -> Arc<Robots> {
        let token = self.rules.agent_token_for(host);
        if text.is_empty() { Robots::none() } else { Arc::new(Robots::parse(text.as_bytes(), token)) }
    }

    /// Loads an evicted robots.txt again, if it was stored.
    pub(super) fn recall_robots(&mut self, lane: LaneId, origin: &Origin, now: Time) -> Result<(), StoreError> {
        let note = Notes::of_lane(&mut self.frontier, lane)?.unwrap_or_default();
        let noted = note.robots.iter().find(|noted| (noted.https, noted.port) == (origin.https, origin.port));
        let until = noted.map_or(now, |noted| carryover::robots_until(noted.until, self.clock, now));
        match noted.filter(|_| until > now) {
            Some(noted) => {
                let rules = self.parse_noted(&origin.host, &noted.text);
                self.bench.robots_recalled(lane, origin, RobotsState::Rules { rules, until, evictable_from: now }, now);
            }
            None => self.bench.robots_not_stored(lane, origin, now),
        }
        Ok(())
    }

    /// Applies the delay between requests across runs. The time of each host's last request is not stored, so every
    /// lane counts the delay from the end of the previous run, or from when another process may have sent one (`asked`).
    pub(super) fn keep_initial_delay(&mut self, lane: LaneId, asked: Option<i64>, now: Time) {
        if let Some(last) = self.notes.previous_end.max(asked) {
            self.bench.keep_initial_delay(lane, carryover::age(last, self.clock, now), now);
        }
    }

    /// Stores the robots.txt that `visit` fetched; `bytes` is its content. If the frontier is durable, the rules in
    /// memory may be evicted from now on.
    pub(super) fn note_robots(
        &mut self,
        lane: LaneId,
        origin: &Origin,
        state: &mut RobotsState,
        (visit, bytes): (&Visit, &[u8]),
    ) -> Result<(), StoreError> {
        let RobotsState::Rules { rules, until, evictable_from } = state else { return Ok(()) };
        let delay = rules.crawl_delay().unwrap_or_default().min(self.rules.max_crawl_delay);
        // An error page is not a robots.txt.
        let text = if visit.facts.outcome == Outcome::Ok { bytes } else { &[] };
        let Origin { https, port, .. } = *origin;
        let until = carryover::unix_millis(self.clock, *until);
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= carryover::MAX_NOTED_LENGTH);
        Notes::change_lane(&mut self.frontier, lane, |note| {
            let before = note.clone();
            note.delay_ms = delay.as_millis() as u64;
            match text {
                Some(text) => note.set_robots(RobotsNote { https, port, text: text.to_owned(), until }),
                // The text is too long or not UTF-8, so the next run fetches it again. The previous text must not be used.
                None => note.forget_robots(https, port),
            }
            text.is_some() || *note != before
        })?;
        if text.is_none() {
            return Ok(());
        }
        // A frontier that is not durable has no notes.
        if self.frontier.note(Some(lane))?.is_some() {
            *evictable_from = Time::ZERO;
        }
        Ok(())
    }

    /// Stores the back-off of a host if it is long and ends after `before`, the end of its previous back-off.
    pub(super) fn note_backoff(&mut self, lane: LaneId, before: Time, now: Time) -> Result<(), StoreError> {
        let until = self.bench.backs_off_until(lane);
        if until <= before || until <= now + MIN_NOTED_BACKOFF {
            return Ok(());
        }
        let rest = Some(carryover::unix_millis(self.clock, until));
        Notes::change_lane(&mut self.frontier, lane, |note| {
            note.rest = rest;
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::link::Link;
    use crate::base::url::Url;

    /// Notes without a frontier.
    #[derive(Default)]
    struct Stored(std::collections::HashMap<Option<LaneId>, Vec<u8>>);

    impl History for Stored {
        fn keep_note(&mut self, about: Option<LaneId>, note: &[u8]) -> Result<(), StoreError> {
            self.0.insert(about, note.to_vec());
            Ok(())
        }

        fn note(&mut self, about: Option<LaneId>) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.0.get(&about).cloned())
        }
    }

    #[test]
    fn counts_and_unread_pages_continue_in_the_next_run() {
        let mut stored = Stored::default();
        let mut first = Notes::recall(&mut stored).expect("no disk");
        assert_eq!((first.pages_before, first.previous_end), (0, None));
        (first.progress.pages, first.progress.bytes) = (7, 900);
        first.progress.unread.add_earlier(0, true);
        first.keep(&mut stored, 1_234).expect("no disk");
        let mut second = Notes::recall(&mut stored).expect("no disk");
        assert_eq!((second.pages_before, second.previous_end, second.progress.bytes), (7, Some(1_234), 900));
        assert_eq!(second.progress.unread, first.progress.unread);
        let link = Link::root(Url::parse("http://h.example/").expect("a URL"), 0);
        second.count(&Visit::not_fetched(link, Outcome::Failed, None, Time::ZERO));
        let distances = second.progress.unread.distances();
        assert_eq!(distances.first(), Some(&(1..2)), "a run of the command settles pages after the unread ones");
    }

    #[test]
    fn a_note_about_a_host_is_stored_when_it_changes_and_an_unreadable_one_is_ignored() {
        let (mut stored, lane) = (Stored::default(), LaneId(3));
        Notes::change_lane(&mut stored, lane, |_| false).expect("no disk");
        assert!(stored.0.is_empty());
        stored.keep_note(Some(lane), b"{").expect("no disk");
        Notes::change_lane(&mut stored, lane, |note| {
            note.pages = 5;
            true
        })
        .expect("no disk");
        assert_eq!(Notes::of_lane(&mut stored, lane).expect("no disk").map(|note| note.pages), Some(5));
    }
}
