//! What a keeper tells the next run, and what it takes from the last one: see [`crate::schedule::carryover`].
//!
//! A note that cannot be read is none: the host is asked for its robots.txt again.

use std::sync::Arc;

use super::Keeper;
use crate::outcome::Outcome;
use crate::page::robots::Robots;
use crate::page::url::Origin;
use crate::schedule::carryover::{self, LaneNote, Progress, RobotsNote};
use crate::schedule::frontier::{Frontier, LaneId, StoreError};
use crate::schedule::lane::RobotsState;
use crate::time::Time;
use crate::visit::Visit;

/// A rest that is over sooner is not worth a note.
const SHORT_REST: std::time::Duration = std::time::Duration::from_secs(1);

impl<F: Frontier> Keeper<F> {
    /// Goes on counting where the last run stopped.
    pub(super) fn recall_progress(&mut self) -> Result<(), StoreError> {
        let Some(note) = self.frontier.note(None)? else { return Ok(()) };
        let Ok(progress) = serde_json::from_slice::<Progress>(&note) else { return Ok(()) };
        self.bench.spend_pages(progress.pages);
        self.pages_before = progress.pages;
        self.progress = progress;
        Ok(())
    }

    /// Notes how far the crawl came; to be called before a commit.
    pub fn note_progress(&mut self, now: Time) -> Result<(), StoreError> {
        self.progress.at = carryover::wall(self.clock, now);
        let note = serde_json::to_vec(&self.progress).unwrap_or_default();
        self.frontier.keep_note(None, &note)
    }

    /// How far the crawl came, over all its runs.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The limit on pages, as far as earlier runs left anything of it.
    pub fn max_pages(&self) -> Option<u64> {
        self.rules.max_pages.map(|most| most.saturating_sub(self.pages_before))
    }

    /// Takes up what the last run knew of a lane's host.
    pub(super) fn recall_lane(&mut self, lane: LaneId, name: &str, now: Time) -> Result<(), StoreError> {
        let Some(note) = self.lane_note(lane)? else { return Ok(()) };
        for RobotsNote { https, port, text, until } in note.robots {
            let until = carryover::robots_until(until, self.clock, now);
            if until > now {
                let rules = Arc::new(Robots::parse(text.as_bytes(), &self.rules.agent_token));
                let origin = Origin { https, host: Arc::from(name), port };
                self.bench.robots_known(lane, &origin, RobotsState::Rules { rules, until, kept: now }, now);
            }
        }
        if let Some(rest) = note.rest {
            self.bench.let_rest(lane, name, carryover::rest_until(rest, self.clock, now));
        }
        Ok(())
    }

    /// Takes up again what an origin's robots.txt said, where that had to make room and was noted.
    pub(super) fn recall_robots(&mut self, lane: LaneId, origin: &Origin, now: Time) -> Result<(), StoreError> {
        let note = self.lane_note(lane)?.unwrap_or_default();
        let noted = note.robots.iter().find(|noted| (noted.https, noted.port) == (origin.https, origin.port));
        let until = noted.map_or(now, |noted| carryover::robots_until(noted.until, self.clock, now));
        match noted.filter(|_| until > now) {
            Some(noted) => {
                let rules = Arc::new(Robots::parse(noted.text.as_bytes(), &self.rules.agent_token));
                self.bench.robots_recalled(lane, origin, RobotsState::Rules { rules, until, kept: now }, now);
            }
            None => self.bench.robots_forgotten(lane, origin, now),
        }
        Ok(())
    }

    /// A lane that the last run may have asked a moment ago keeps its distance from that. Which lanes were asked, and
    /// when exactly, is not noted: all of them wait.
    pub(super) fn keep_distance(&mut self, lane: LaneId, now: Time) {
        if self.progress.at > 0 {
            self.bench.keep_distance(lane, carryover::age(self.progress.at, self.clock, now), now);
        }
    }

    /// Notes a robots.txt that was read. Where that lasts, its rules need not be kept: they can be recalled.
    pub(super) fn note_robots(
        &mut self,
        lane: LaneId,
        origin: &Origin,
        state: &mut RobotsState,
        (visit, bytes): (&Visit, &[u8]),
    ) -> Result<(), StoreError> {
        let RobotsState::Rules { until, kept, .. } = state else { return Ok(()) };
        // Where there is no file, an error page is none.
        let text = if visit.facts.outcome == Outcome::Ok { bytes } else { &[] };
        let Origin { https, port, .. } = *origin;
        let mut note = self.lane_note(lane)?.unwrap_or_default();
        let Some(text) = std::str::from_utf8(text).ok().filter(|text| text.len() <= carryover::LONGEST_NOTED) else {
            // It is asked for once more in the next run, and no harm done; what it said before would do some.
            let noted = note.robots.len();
            note.forget_robots(https, port);
            return if note.robots.len() < noted { self.keep_lane_note(lane, &note) } else { Ok(()) };
        };
        let until = carryover::wall(self.clock, *until);
        note.set_robots(RobotsNote { https, port, text: text.to_owned(), until });
        self.keep_lane_note(lane, &note)?;
        if self.frontier.note(Some(lane))?.is_some() {
            *kept = Time::ZERO;
        }
        Ok(())
    }

    /// Notes that a host wants to be left alone for long.
    pub(super) fn note_rest(&mut self, lane: LaneId, before: Time, now: Time) -> Result<(), StoreError> {
        let rest = self.bench.rests_until(lane);
        if rest <= before || rest <= now + SHORT_REST {
            return Ok(());
        }
        let mut note = self.lane_note(lane)?.unwrap_or_default();
        note.rest = Some(carryover::wall(self.clock, rest));
        self.keep_lane_note(lane, &note)
    }

    pub(super) fn lane_note(&mut self, lane: LaneId) -> Result<Option<LaneNote>, StoreError> {
        let note = self.frontier.note(Some(lane))?;
        Ok(note.and_then(|note| serde_json::from_slice(&note).ok()))
    }

    pub(super) fn keep_lane_note(&mut self, lane: LaneId, note: &LaneNote) -> Result<(), StoreError> {
        self.frontier.keep_note(Some(lane), &serde_json::to_vec(note).unwrap_or_default())
    }
}
