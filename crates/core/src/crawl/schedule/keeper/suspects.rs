//! Suspects: pages that were being processed when an earlier run died, see [`crate::crawl::marks`].
//!
//! A suspect is handed out when nothing else is in flight, and nothing but its own parts is handed out until it has ended,
//! that is, until its rendered document is examined. Suspects
//! that are queued when the run starts come first: until they have ended, no other lane gets on the workbench. A suspect
//! that is found only later is alone too. So if the process dies again, it is known which page did it.
//!
//! Invariant: a page is settled as a failure without a request only if [`MAX_DEATHS`] runs died while it was alone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Keeper, reset_tries};
use crate::base::job::{Job, LaneId};
use crate::base::link::Link;
use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::base::time::Time;
use crate::crawl::marks::{MarkStore, MarkedPage, Suspect};
use crate::crawl::rules::Rules;
use crate::crawl::schedule::frontier::{Frontier, History, ReturnTo, StoreError};
use crate::crawl::schedule::workbench::MayStart;
use crate::crawl::visit::Visit;

/// A suspect that was alone at this many deaths is settled without another request.
const MAX_DEATHS: u8 = 3;
/// For how long suspects come before all other pages. A host that is slow, or that has to wait, delays the crawl only
/// for this long; its suspect is alone later.
const FIRST_FOR: Duration = Duration::from_secs(30);
/// How many queued links of a lane are searched for a suspect. A link that was leased when the process died is among
/// the first ones.
const MAX_SEARCHED: usize = 4_096;

/// The suspects of earlier runs.
#[derive(Default)]
pub(super) struct Suspects {
    /// `None` without marks.
    store: Option<Arc<dyn MarkStore>>,
    /// Suspects that were not processed yet, or that are settled without a request.
    known: Vec<Suspect>,
    /// The fingerprints of those that come before all other pages.
    first: HashSet<u64>,
    /// Until when they do.
    first_until: Time,
    fingerprint_key: u64,
    /// The suspect that is alone, or that waits for the end of all requests in flight.
    alone: Option<Alone>,
}

struct Alone {
    page: MarkedPage,
    is_part: bool,
    /// `None` once the job is handed out.
    job: Option<Job>,
}

impl Suspects {
    /// Reads the suspects of earlier runs.
    fn recall(rules: &Rules, now: Time) -> Self {
        let store = rules.marks.0.clone();
        let known = store.as_ref().map_or_else(Vec::new, |store| store.suspects());
        let (fingerprint_key, first_until) = (rules.fingerprint_key, now + FIRST_FOR);
        Self { store, known, fingerprint_key, first_until, ..Self::default() }
    }

    /// Whether only suspects are handed out now.
    pub fn are_first(&self, now: Time) -> bool {
        !self.first.is_empty() && now < self.first_until
    }

    /// When the other pages may start at the latest.
    pub fn due(&self) -> Time {
        if self.first.is_empty() { Time::NEVER } else { self.first_until }
    }

    /// Keeps the job of a suspect until nothing else is in flight.
    fn hold(&mut self, job: Job) {
        let page = MarkedPage::of(&job.link, job.lane, self.fingerprint_key);
        self.alone = Some(Alone { page, is_part: job.purpose.is_part(), job: Some(job) });
    }

    /// Takes the job of the suspect that waits, if nothing else is in flight and no other page is being rendered.
    fn take_alone(&mut self, in_flight: usize, rendered: usize) -> Option<Job> {
        // The suspect itself counts as in flight. The page of a suspected part is being rendered.
        let alone = self.alone.as_mut().filter(|alone| in_flight <= 1 && (rendered == 0 || alone.is_part))?;
        let job = alone.job.take()?;
        if let Some(store) = &self.store {
            store.set_alone(Some(alone.page));
        }
        Some(job)
    }

    /// Whether the suspect that waits is a part of a page.
    fn awaits_part(&self) -> bool {
        self.alone.as_ref().is_some_and(|alone| alone.is_part)
    }

    /// Takes the job of the suspect that waits, because the crawl ends.
    fn take_waiting(&mut self) -> Option<Job> {
        self.alone.take_if(|alone| alone.job.is_some())?.job
    }

    /// Ends the time in which a suspect was alone, if this is its visit and no fetcher continues it.
    pub fn end_alone(&mut self, visit: &Visit) {
        if self.known.is_empty() {
            return;
        }
        let fingerprint = visit.link.fingerprint(self.fingerprint_key);
        let is_visited =
            |alone: &mut Alone| alone.page.fingerprint == fingerprint && alone.is_part == visit.purpose.is_part();
        if self.alone.take_if(is_visited).is_some()
            && let Some(store) = &self.store
        {
            store.set_alone(None);
        }
        self.first.remove(&fingerprint);
    }

    /// What may start beside a suspect that is alone, or that waits to be alone.
    fn may_start(&self) -> MayStart {
        match &self.alone {
            None => MayStart::All,
            Some(alone) if alone.is_part => MayStart::Nothing,
            // The parts of pages that are being rendered, so that these pages end.
            Some(_) => MayStart::Parts,
        }
    }

    /// Forgets a suspect that is settled, and so was processed. One that is settled without a request stays a suspect
    /// until the next round.
    pub fn clear(&mut self, visit: &Visit) {
        if self.deaths_of(&visit.link).is_some_and(|deaths| deaths < MAX_DEATHS) {
            let fingerprint = visit.link.fingerprint(self.fingerprint_key);
            self.known.retain(|suspect| suspect.page.fingerprint != fingerprint);
            if let Some(store) = &self.store {
                store.clear(fingerprint);
            }
        }
    }

    /// How many runs died while this page was alone; `None` if it is no suspect.
    fn deaths_of(&self, link: &Link) -> Option<u8> {
        if self.known.is_empty() {
            return None;
        }
        let fingerprint = link.fingerprint(self.fingerprint_key);
        self.known.iter().find(|suspect| suspect.page.fingerprint == fingerprint).map(|suspect| suspect.deaths)
    }
}

impl<F: Frontier + History> Keeper<F> {
    /// Reads the suspects of earlier runs. Those that are queued are moved to the workbench, before all other links.
    pub(super) fn recall_suspects(&mut self, now: Time) -> Result<(), StoreError> {
        self.suspects = Suspects::recall(&self.rules, now);
        for suspect in self.suspects.known.clone() {
            let MarkedPage { fingerprint, lane } = suspect.page;
            if let Some(link) = self.take_link(lane, fingerprint)? {
                self.begin_first(lane, link, now)?;
                self.suspects.first.insert(fingerprint);
            }
        }
        Ok(())
    }

    /// Takes the link with this fingerprint from a lane, if it is among the next ones.
    fn take_link(&mut self, lane: LaneId, fingerprint: u64) -> Result<Option<Link>, StoreError> {
        if self.queued_in(lane) == 0 {
            return Ok(None);
        }
        let key = self.rules.fingerprint_key;
        let mut links = self.frontier.take(lane, MAX_SEARCHED)?;
        let found =
            links.iter().rposition(|link| link.fingerprint(key) == fingerprint).map(|index| links.remove(index));
        self.frontier.give_back(links, ReturnTo::OldPlace)?;
        Ok(found)
    }

    /// Puts the lane of a suspect on the workbench, with no other link.
    fn begin_first(&mut self, lane: LaneId, link: Link, now: Time) -> Result<(), StoreError> {
        let Some(name) = self.lane_name(lane).map(str::to_owned) else { return Ok(()) };
        if !self.bench.holds(lane) {
            let asked = self.recall_lane(lane, &name, now)?;
            self.bench.set_backlog(lane, &name, 0, now);
            self.keep_initial_delay(lane, asked, now);
        }
        self.bench.add_links(lane, vec![link], 0, now);
        Ok(())
    }

    /// Keeps the job of a suspect until nothing else is in flight, or settles it without a request. Returns the job of
    /// any other page.
    pub(super) fn hold_suspect(&mut self, job: Job, now: Time) -> Result<Option<Job>, StoreError> {
        match self.suspects.deaths_of(&job.link) {
            None => return Ok(Some(job)),
            Some(deaths) if deaths >= MAX_DEATHS => {
                self.bench.return_page(&job, now);
                let message = format!("{MAX_DEATHS} runs died while they processed this page and no other");
                let mut visit = Visit::unsent(job, Failure::new(ErrorKind::Internal, message), now);
                visit.facts.outcome = Outcome::Failed;
                self.finished(Box::new(visit), now)?;
            }
            Some(_) => self.suspects.hold(job),
        }
        Ok(None)
    }

    /// The job of a suspect that can be alone now. While one is alone or waits to be, the others are held back.
    pub(super) fn next_alone(&mut self, now: Time) -> Result<Option<Job>, StoreError> {
        if self.ended().is_some() {
            self.return_waiting(now)?;
        }
        // Like every page it waits while the crawl is paused. A part waits for nothing, so that its page ends.
        let is_held = self.bench.holds_pages() && !self.suspects.awaits_part();
        let job = if is_held { None } else { self.suspects.take_alone(self.bench.in_flight(), self.postponed()) };
        self.bench.hold_for_suspect(self.suspects.may_start());
        Ok(job)
    }

    /// Returns a suspect that waits to be alone to its queue, because the crawl ends.
    fn return_waiting(&mut self, now: Time) -> Result<(), StoreError> {
        let Some(job) = self.suspects.take_waiting() else { return Ok(()) };
        self.bench.return_page(&job, now);
        let visit = Visit::unsent(job, Failure::new(ErrorKind::Internal, "the crawl ends"), now);
        self.bench.finish(&visit, now);
        if visit.purpose.is_in_frontier() {
            self.frontier.give_back(vec![reset_tries(visit.link)], ReturnTo::End)?;
        }
        Ok(())
    }
}
