//! State that the keeper stores for the next run, and restores from the previous one: see
//! [`crate::crawl::schedule::carryover`].
//!
//! An unreadable note is ignored. Its robots.txt, for example, is then fetched again.

use std::sync::Arc;
use std::time::Duration;

use super::Keeper;
use crate::base::job::LaneId;
use crate::base::outcome::Outcome;
use crate::base::time::Time;
use crate::base::url::Origin;
use crate::crawl::schedule::carryover::{self, LaneNote, Progress, RobotsNote, UnreadPages};
use crate::crawl::schedule::frontier::{Frontier, History, StoreError};
use crate::crawl::schedule::lane::RobotsState;
use crate::crawl::visit::Visit;
use crate::page::robots::Robots;

/// A shorter back-off is not stored.
const MIN_NOTED_BACKOFF: Duration = Duration::from_secs(1);

impl<F: Frontier + History> Keeper<F> {
    /// Restores the counts of the previous run.
    pub(super) fn recall_progress(&mut self) -> Result<(), StoreError> {
        let Some(note) = self.frontier.note(None)? else { return Ok(()) };
        let Ok(progress) = serde_json::from_slice::<Progress>(&note) else { return Ok(()) };
        self.bench.spend_pages(progress.pages);
        self.pages_before = progress.pages;
        self.previous_end = progress.at;
        // The library has already queued unread pages again, and the command has no unread pages.
        self.progress = Progress { unread: UnreadPages::default(), ..progress };
        Ok(())
    }

    /// Stores the counts; to be called before a commit.
    pub fn note_progress(&mut self, now: Time) -> Result<(), StoreError> {
        self.progress.at = carryover::unix_millis(self.clock, now);
        let note = serde_json::to_vec(&self.progress).unwrap_or_default();
        self.frontier.keep_note(None, &note)
    }

    /// Sets how many settled pages the user of the library has not processed.
    pub fn set_unread(&mut self, unread: UnreadPages) {
        self.progress.unread = unread;
    }

    /// Counts over all runs.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The part of `--max-pages` that earlier runs did not use.
    pub fn max_pages(&self) -> Option<u64> {
        self.rules.max_pages.map(|limit| limit.saturating_sub(self.pages_before))
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
        let Some(note) = self.lane_note(lane)? else { return Ok(None) };
        for RobotsNote { https, port, text, until } in note.robots {
            let until = carryover::robots_until(until, self.clock, now);
            if until > now {
                let rules = self.parse_noted(&text);
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

    /// Parses a stored robots.txt. It is empty if the host has none.
    fn parse_noted(&self, text: &str) -> Arc<Robots> {
        if text.is_empty() { Robots::none() } else { Arc::new(Robots::parse(text.as_bytes(), &self.rules.agent_token)) }
    }

    /// Loads an evicted robots.txt again, if it was stored.
    pub(super) fn recall_robots(&mut self, lane: LaneId, origin: &Origin, now: Time) -> Result<(), StoreError> {
        let note = self.lane_note(lane)?.unwrap_or_default();
        let noted = note.robots.iter().find(|noted| (noted.https, noted.port) == (origin.https, origin.port));
        let until = noted.map_or(now, |noted| carryover::robots_until(noted.until, self.clock, now));
        match noted.filter(|_| until > now) {
            Some(noted) => {
                let rules = self.parse_noted(&noted.text);
                self.bench.robots_recalled(lane, origin, RobotsState::Rules { rules, until, evictable_from: now }, now);
            }
            None => self.bench.robots_not_stored(lane, origin, now),
        }
        Ok(())
    }

    /// Applies the delay between requests across runs. The time of each host's last request is not stored, so every
    /// lane counts the delay from the end of the previous run, or from when another process may have sent one (`asked`).
    pub(super) fn keep_initial_delay(&mut self, lane: LaneId, asked: Option<i64>, now: Time) {
        let previous_end = Some(self.previous_end).filter(|end| *end > 0);
        if let Some(last) = previous_end.max(asked) {
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
        let mut note = self.lane_note(lane)?.unwrap_or_default();
        let Some(text) = std::str::from_utf8(text).ok().filter(|text| text.len() <= carryover::MAX_NOTED_LENGTH) else {
            // The text is too long or not UTF-8, so the next run fetches it again. The previous text must not be used.
            let before = note.clone();
            note.forget_robots(https, port);
            note.delay_ms = delay.as_millis() as u64;
            return if note == before { Ok(()) } else { self.keep_lane_note(lane, &note) };
        };
        note.delay_ms = delay.as_millis() as u64;
        let until = carryover::unix_millis(self.clock, *until);
        note.set_robots(RobotsNote { https, port, text: text.to_owned(), until });
        self.keep_lane_note(lane, &note)?;
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
        let mut note = self.lane_note(lane)?.unwrap_or_default();
        note.rest = Some(carryover::unix_millis(self.clock, until));
        self.keep_lane_note(lane, &note)
    }

    /// The note about a lane's host, if there is a readable one.
    pub(super) fn lane_note(&mut self, lane: LaneId) -> Result<Option<LaneNote>, StoreError> {
        let note = self.frontier.note(Some(lane))?;
        Ok(note.and_then(|note| serde_json::from_slice(&note).ok()))
    }

    /// Stores the note about a lane's host.
    pub(super) fn keep_lane_note(&mut self, lane: LaneId, note: &LaneNote) -> Result<(), StoreError> {
        self.frontier.keep_note(Some(lane), &serde_json::to_vec(note).unwrap_or_default())
    }
}
