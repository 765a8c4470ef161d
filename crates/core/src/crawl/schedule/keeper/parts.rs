//! Parts of rendered pages: requests that are jobs of their hosts like all others, and no links of the frontier.

use hashbrown::{HashMap, HashSet};

use super::{Keeper, Settled};
use crate::base::job::{LaneId, PagePart, Purpose};
use crate::base::link::Link;
use crate::base::outcome::{ErrorKind, Failure, Outcome};
use crate::base::time::Time;
use crate::crawl::record;
use crate::crawl::rules::Rules;
use crate::crawl::schedule::frontier::{Frontier, History, Settlement, StoreError};
use crate::crawl::visit::Visit;
use crate::page::reader::{DeliveredBodies, HeldBody};

/// The lanes that each page in the browser has requested parts from.
#[derive(Default)]
pub(super) struct PartLanes(HashMap<u64, HashSet<LaneId>>);

impl<F: Frontier + History> Keeper<F> {
    /// Requests a part of a page that a fetcher continues. [`Keeper::received`] returns its visit. It is refused if it
    /// would add a host that the budgets against crawler traps or the memory do not allow.
    pub fn ask_part(&mut self, link: Link, part: PagePart, now: Time) -> Result<(), StoreError> {
        self.ending.open_parts += 1;
        let tab = part.tab;
        let purpose = Purpose::Part(Box::new(part));
        if let Some(rule) = self.admission.traps.judge_part(&link, self.admission.is_full_of_hosts) {
            let mut visit = Visit::with_outcome(link, purpose, Outcome::Refused, now);
            visit.facts.error = Some(Failure::new(ErrorKind::Trap, rule.description()));
            return self.finished(Box::new(visit), now);
        }
        let lane = self.frontier.lane_of(link.url.host())?;
        self.part_lanes.0.entry(tab).or_default().insert(lane);
        self.bench.add_site_file(lane, link, purpose, now);
        Ok(())
    }

    /// Refuses the parts of a page that are not requested yet, because the page in the browser has ended.
    pub fn end_parts(&mut self, tab: u64, now: Time) {
        for lane in self.part_lanes.0.remove(&tab).into_iter().flatten() {
            self.bench.end_parts(lane, |part| part.tab == tab, now);
        }
    }

    /// Heap bytes of the parts that are not requested yet.
    pub(super) fn parts_bytes(&self) -> usize {
        let lanes: HashSet<LaneId> = self.part_lanes.0.values().flatten().copied().collect();
        let links = lanes.iter().filter_map(|lane| self.bench.lane(*lane)).flat_map(|lane| lane.site_files.links());
        links.filter_map(|link| Some(link.request.as_ref()?.bytes())).sum()
    }

    /// Archives the response of a part, and writes its record if there is one.
    pub(super) fn settle_part(&mut self, mut visit: Box<Visit>) -> Result<(), StoreError> {
        self.ending.open_parts = self.ending.open_parts.saturating_sub(1);
        let (place, mut archive) = self.outbox.archive(&mut visit, None).unzip();
        let mut line = Vec::new();
        // The segments of a fleet store an exchange with its record.
        if self.rules.with_requests || self.rules.archive_segments {
            record::encode_part(&visit, place.as_ref(), &mut line);
            let archive = place.as_ref().zip(archive.as_mut());
            self.frontier.settle(&mut [Settlement { archive, ..Settlement::line(&line) }])?;
        }
        self.outbox.push(Settled { visit, line, archive, change: None });
        Ok(())
    }
}

/// Drops the body of a page that was delivered for rendering only.
pub(super) fn release_body(visit: &mut Visit, rules: &Rules) {
    if !rules.bodies.rendered {
        return;
    }
    match &mut visit.body {
        Some(body) if rules.bodies.delivered != DeliveredBodies::None => {
            let headers = std::mem::take(&mut body.headers);
            **body = HeldBody::new(rules.budget.hold());
            body.headers = headers;
        }
        body => *body = None,
    }
}
