//! Recrawling: every URL of a finished crawl is fetched again.
//!
//! A round starts by queueing every settled link again. This is done in portions that are committed one by one, because
//! millions of links in one commit would take hundreds of megabytes. Each portion stores the position of its last link
//! in the note of a reserved lane ([`REQUEUE_NOTE`]). After a crash, the next run continues after this link.
//!
//! The outcomes of the previous round are called *earlier* outcomes. They are found by the fingerprints of their links.
//! If a link has several, the last one is used. The outcomes stay in the log. Memory holds only their positions, and
//! only during the round.

use super::DiskFrontier;
use crate::disk::record::{LinkRecord, REFETCH_NOTE, REQUEUE_NOTE, ROUND_NOTE, Record};
use argiope_core::base::link::link_fingerprint;
use argiope_core::crawl::record::page_state::{Changes, Comparison};
use argiope_core::crawl::record::{CrawlRecord, LazyRecord};
use argiope_core::{Frontier, LaneId, Link, LinkKind, LinkRef, Outcome, StoreError, StoreErrorKind, UrlRef};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The size in the log at which a portion of a round's links ends.
const REQUEUE_PORTION: u64 = 1 << 20;
/// The content of [`REQUEUE_NOTE`] when all links of the round are queued.
const ALL_QUEUED: u64 = u64::MAX;

/// Failed links of hosts that stopped responding.
#[derive(Debug, Default)]
pub struct UnreachedLinks {
    /// Lanes and positions of the links that are not queued again yet.
    links: Vec<(LaneId, u64)>,
    /// How many of the failed links were requested and count for `--max-pages`.
    pub fetched: u64,
}

impl UnreachedLinks {
    /// How many links are not queued again yet.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}

/// Whether the record of a settled link is that of a page.
fn is_page(line: &[u8]) -> bool {
    LazyRecord::read(line).is_some_and(|record| record.is_page())
}

/// Whether the record of a settled link is that of a link which left the queue without having been fetched.
fn is_skip(line: &[u8]) -> bool {
    LazyRecord::read(line).is_some_and(|record| record.is_skip())
}

/// A settled link: its lane, and the positions of its log entry and of that of its outcome.
struct SettledLink {
    lane: LaneId,
    position: u64,
    outcome: u64,
}

/// What became of settled links that were to be queued again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requeued {
    /// How many are queued.
    pub queued: u64,
    /// How many pages are left out, because their requests must not be repeated, but were fetched: they still count.
    pub fetched_before: u64,
    /// In a recrawl: how their superseded records compare with the previous round. The new records are compared again.
    pub changes: Changes,
}

/// What a root, or the target of a redirect of a root, led to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RootResult {
    Page,
    Failure,
    /// A redirect that was followed, or a sitemap.
    Other,
}

/// The log positions of the outcomes of the previous round: sorted pairs of a link's fingerprint and a position. A hash
/// table would take twice the memory for millions of them.
#[derive(Default)]
pub(super) struct EarlierOutcomes(Vec<(u64, u64)>);

impl EarlierOutcomes {
    /// Takes pairs in any order: the fingerprint of a link and the position of an outcome of it. Keeps the last outcome
    /// of each link. Also returns the positions of the other outcomes, in ascending order.
    fn of(mut final_outcomes: Vec<(u64, u64)>) -> (Self, Vec<u64>) {
        // The last outcome of a link comes first, so that `dedup_by` drops the others.
        final_outcomes.sort_unstable_by_key(|(key, final_outcome)| (*key, Reverse(*final_outcome)));
        let mut superseded = Vec::new();
        final_outcomes.dedup_by(|(key, final_outcome), (latest, _)| {
            let is_superseded = key == latest;
            superseded.extend(is_superseded.then_some(*final_outcome));
            is_superseded
        });
        final_outcomes.shrink_to_fit();
        superseded.sort_unstable();
        (Self(final_outcomes), superseded)
    }

    /// The position of the outcome of the link with this fingerprint.
    fn find(&self, key: u64) -> Option<u64> {
        let place = self.0.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.0.get(place).map(|(_, position)| *position)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, u64)>()
    }
}

/// The links of a round that are not queued again yet: the position of each link, and that of its outcome. Sorted in
/// descending order.
#[derive(Default)]
pub(super) struct Requeue(Vec<(u64, u64)>);

impl Requeue {
    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, u64)>()
    }
}

impl DiskFrontier {
    /// Starts a round; returns the number of links. [`Self::requeue_portion`] queues them. Only a finished crawl can be
    /// recrawled.
    pub fn begin_round(&mut self) -> Result<u64, StoreError> {
        if !self.counts().is_done() {
            return Err(StoreError::new(StoreErrorKind::Misuse, "this crawl is not finished"));
        }
        // A round has its own files, so that earlier ones can be compacted.
        self.journal.begin_file();
        let start = self.journal.end();
        let previous_start = self.round_note()?.map_or(0, |(start, _)| start);
        self.recall_earlier(previous_start, start)?;
        let count = self.requeue.0.len() as u64;
        self.write_note(ROUND_NOTE, &[start.to_le_bytes(), previous_start.to_le_bytes()].concat())?;
        self.write_note(REQUEUE_NOTE, &0_u64.to_le_bytes())?;
        self.rewrite_state()?;
        self.rounds = Some((start, previous_start));
        self.is_recrawl = true;
        Ok(count)
    }

    /// Queues a portion of the links of a round. The caller then commits it. Returns `false` if all were queued before.
    pub fn requeue_portion(&mut self) -> Result<bool, StoreError> {
        if !self.is_requeueing() {
            return Ok(false);
        }
        // All portions go to the log file that begins with the round, even if it gets full: the index recognises links
        // that a round queued again only in that file.
        self.journal.stay_in_file(true);
        let (start, mut last) = (self.journal.appended_end(), 0);
        while self.journal.appended_end() - start < REQUEUE_PORTION {
            let Some((position, _)) = self.requeue.0.pop() else { break };
            let link = Link { tries: 0, ..self.read_link(None, position)? };
            let lane = self.lane_of(link.url.host())?;
            // A request that is not idempotent, such as that of a form, is not sent again.
            if link.is_repeatable() {
                self.append_again(lane, LinkRef::from(&link))?;
            }
            last = position;
        }
        if self.requeue.0.is_empty() {
            self.requeue = Requeue::default();
            self.journal.stay_in_file(false);
            last = ALL_QUEUED;
        }
        self.write_note(REQUEUE_NOTE, &last.to_le_bytes())?;
        Ok(true)
    }

    /// Whether links of the current round wait to be queued by [`Self::requeue_portion`].
    pub fn is_requeueing(&self) -> bool {
        !self.requeue.0.is_empty()
    }

    /// If no root has led to a page: queues failed roots again, and failed targets of their redirects. Returns the number
    /// of links.
    ///
    /// Their new records replace the old ones.
    pub fn requeue_failed_roots(&mut self) -> Result<Requeued, StoreError> {
        let mut final_outcomes = Vec::new();
        self.journal.walk(|position, record| {
            // Roots and the targets of their redirects have the depth 0.
            if let Record::FinalOutcome { lane, link, outcome, line, .. } = record
                && let Some(line) = LazyRecord::read(line)
                && line.depth() == Some(0)
            {
                let result = match outcome {
                    Outcome::Ok | Outcome::NotModified if line.is_page() => RootResult::Page,
                    Outcome::Ok | Outcome::NotModified => RootResult::Other,
                    // A redirect has an error if it cannot be followed.
                    Outcome::Redirect if !line.has_error() => RootResult::Other,
                    _ => RootResult::Failure,
                };
                final_outcomes.push((SettledLink { lane, position: link, outcome: position }, result));
            }
            Ok(())
        })?;
        let mut results = HashMap::new();
        // In log order, so that the last outcome of a link decides.
        for (settled, result) in final_outcomes {
            let link = self.read_link(Some(settled.lane), settled.position)?;
            results.insert(link.fingerprint(self.key()), (settled, result, link.is_repeatable()));
        }
        if results.values().any(|(_, result, _)| *result == RootResult::Page) {
            return Ok(Requeued::default());
        }
        let is_failed = |(_, result, is_repeatable): &(_, _, bool)| *result == RootResult::Failure && *is_repeatable;
        let mut failed: Vec<SettledLink> = results.into_values().filter(is_failed).map(|(link, ..)| link).collect();
        failed.sort_unstable_by_key(|settled| settled.position);
        let mut requeued = Requeued::default();
        for settled in &failed {
            let link = self.read_link(Some(settled.lane), settled.position)?;
            self.requeue_settled(settled, link, &mut requeued)?;
        }
        Ok(requeued)
    }

    /// Queues a settled link again. Its new record replaces the old one.
    fn requeue_settled(
        &mut self,
        settled: &SettledLink,
        link: Link,
        requeued: &mut Requeued,
    ) -> Result<(), StoreError> {
        if self.is_recrawl {
            if self.earlier.is_empty() {
                // The round was done when the directory was opened.
                let (start, previous_start) = self.round_note()?.unwrap_or_default();
                self.recall_earlier(previous_start, start)?;
                self.requeue = Requeue::default();
            }
            let superseded = self.final_record(settled.outcome)?.unwrap_or_default();
            let superseded = CrawlRecord::read(&superseded).ok().filter(|record| record.change.is_some());
            if let Some(state) = superseded.as_ref().and_then(CrawlRecord::state) {
                let earlier = self.earlier_record(link.url.as_ref(), link.kind)?.unwrap_or_default();
                let earlier = CrawlRecord::read(&earlier).ok();
                let before = earlier.as_ref().and_then(CrawlRecord::state);
                requeued.changes.count(Comparison::of(before.as_ref(), Some(&state)));
            }
        }
        requeued.queued += 1;
        self.append_again(settled.lane, LinkRef::from(&Link { tries: 0, ..link }))
    }

    /// Queues pages again because their results were not used. `distances` says which: their numbers of pages that were
    /// settled later, in ascending order. Requests that must not be repeated are left out. Their new records
    /// replace the old ones.
    pub fn requeue_last_pages(&mut self, distances: &[Range<u64>]) -> Result<Requeued, StoreError> {
        // The log is read twice, so that only the wanted pages are held in memory.
        let mut later = 0_u64;
        self.walk_pages(|_, _| later += 1)?;
        let (mut wanted, mut last) = (distances, Vec::new());
        self.walk_pages(|settled, record| {
            later -= 1;
            // The largest distances come first.
            while wanted.last().is_some_and(|range| later < range.start) {
                wanted = &wanted[..wanted.len() - 1];
            }
            if wanted.last().is_some_and(|range| range.contains(&later)) {
                last.push((settled, record.is_fetched_page()));
            }
        })?;
        let (mut known, mut requeued) = (HashSet::new(), Requeued::default());
        for (settled, is_fetched) in &last {
            let link = self.read_link(Some(settled.lane), settled.position)?;
            if !link.is_repeatable() {
                requeued.fetched_before += u64::from(*is_fetched);
            } else if known.insert(link.fingerprint(self.key())) {
                self.requeue_settled(settled, link, &mut requeued)?;
            }
        }
        if requeued.queued > 0 {
            self.write_note(REFETCH_NOTE, &u64::to_le_bytes(requeued.queued))?;
        }
        Ok(requeued)
    }

    /// Calls `visit` for each settled page in the log and its record, in order.
    fn walk_pages(&mut self, mut visit: impl FnMut(SettledLink, &LazyRecord<'_>)) -> Result<(), StoreError> {
        self.journal.walk(|outcome, record| {
            if let Record::FinalOutcome { lane, link, line, .. } = record
                && let Some(page) = LazyRecord::read(line).filter(LazyRecord::is_page)
            {
                visit(SettledLink { lane, position: link, outcome }, &page);
            }
            Ok(())
        })
    }

    /// The links of the current round to request again because their host stopped responding: all failed links of a
    /// host that has responded in any round, and that was unreachable for at least one link of this round.
    pub fn unreached_links(&mut self) -> Result<UnreachedLinks, StoreError> {
        let start = self.rounds.map_or(0, |(start, _)| start);
        let (mut failed, mut responding, mut unreachable) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut fetched_failures = HashSet::new();
        self.journal.walk(|position, record| {
            let Record::FinalOutcome { lane, link, outcome, line, .. } = record else { return Ok(()) };
            match outcome {
                Outcome::Ok | Outcome::Redirect | Outcome::NotModified | Outcome::HttpError
                    if !responding.contains(&lane) && is_page(line) =>
                {
                    responding.insert(lane);
                }
                Outcome::Failed | Outcome::Robots if position >= start => {
                    let Some(record) = LazyRecord::read(line) else { return Ok(()) };
                    let Some(error) = record.error() else { return Ok(()) };
                    if error.concerns_host() {
                        unreachable.insert(lane);
                    }
                    if record.is_fetched_page() {
                        fetched_failures.insert(link);
                    }
                    failed.push((link, lane));
                }
                _ => {}
            }
            Ok(())
        })?;
        failed.retain(|(_, lane)| unreachable.contains(lane) && responding.contains(lane));
        let is_failed = |outcome, line: &[u8]| match outcome {
            Outcome::Failed => true,
            Outcome::Robots => LazyRecord::read(line).is_some_and(|record| record.has_error()),
            _ => false,
        };
        let mut links: Vec<(LaneId, u64)> = self.filter_by_last_outcome(failed, is_failed)?.into_values().collect();
        // In descending order: portions are taken from the end.
        links.sort_unstable_by_key(|(_, position)| Reverse(*position));
        let fetched = links.iter().filter(|(_, position)| fetched_failures.contains(position)).count() as u64;
        Ok(UnreachedLinks { links, fetched })
    }

    /// Queues a portion of these links. The caller then commits it. Returns `false` if none was left.
    pub fn requeue_unreached(&mut self, unreached: &mut UnreachedLinks) -> Result<bool, StoreError> {
        let start = self.journal.appended_end();
        let is_left = !unreached.links.is_empty();
        while self.journal.appended_end() - start < REQUEUE_PORTION {
            let Some((lane, position)) = unreached.links.pop() else { break };
            let link = Link { tries: 0, ..self.read_link(Some(lane), position)? };
            if link.is_repeatable() {
                self.append_again(lane, LinkRef::from(&link))?;
            }
        }
        Ok(is_left)
    }

    /// Those of the settled links whose last outcome satisfies `is_wanted`. The links are given by position and lane.
    /// Some of them may have been queued again since, and have another outcome or none. In the result, the key is the
    /// fingerprint of the link, the value its lane and position.
    fn filter_by_last_outcome(
        &mut self,
        mut settled: Vec<(u64, LaneId)>,
        is_wanted: impl Fn(Outcome, &[u8]) -> bool,
    ) -> Result<HashMap<u64, (LaneId, u64)>, StoreError> {
        settled.sort_unstable();
        let mut found: HashMap<u64, (LaneId, u64)> = HashMap::new();
        for (position, lane) in settled {
            let link = self.read_link(Some(lane), position)?;
            found.insert(link.fingerprint(self.key()), (lane, position));
        }
        if found.is_empty() {
            return Ok(found);
        }
        let (mut positions, mut is_wanted_now, mut text) = (HashMap::new(), HashMap::new(), String::new());
        self.journal.walk(|position, record| {
            match record {
                Record::Link(LinkRecord { lane, link, .. }) => {
                    let key = link.fingerprint(self.state.names.name(lane).unwrap_or(""), self.key(), &mut text);
                    if let Some(key) = key.filter(|key| found.contains_key(key)) {
                        positions.insert(position, key);
                        // A queued link has no outcome yet.
                        is_wanted_now.insert(key, false);
                    }
                }
                Record::FinalOutcome { link, outcome, line, .. } => {
                    if let Some(key) = positions.get(&link) {
                        is_wanted_now.insert(*key, is_wanted(outcome, line));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        found.retain(|key, _| is_wanted_now.get(key) == Some(&true));
        Ok(found)
    }

    /// Queues those links again that were skipped without a fetch and for which `qualifies` is true. Returns the number
    /// of links.
    pub fn requeue_skipped(&mut self, mut qualifies: impl FnMut(&Link) -> bool) -> Result<u64, StoreError> {
        let mut skipped = Vec::new();
        self.journal.walk(|_, record| {
            if let Record::FinalOutcome { lane, link, line, .. } = record
                && is_skip(line)
            {
                skipped.push((link, lane));
            }
            Ok(())
        })?;
        let mut links = Vec::new();
        for (lane, position) in self.filter_by_last_outcome(skipped, |_, line| is_skip(line))?.into_values() {
            let link = self.read_link(Some(lane), position)?;
            if qualifies(&link) {
                links.push((lane, link));
            }
        }
        links.sort_unstable_by(|(_, one), (_, other)| one.url.as_str().cmp(other.url.as_str()));
        for (lane, link) in &links {
            self.append_again(*lane, LinkRef::from(&Link { tries: 0, ..link.clone() }))?;
        }
        Ok(links.len() as u64)
    }

    /// Restores the earlier outcomes after a restart during a round, and the links that are still to be queued.
    pub(super) fn recall_round(&mut self) -> Result<(), StoreError> {
        let Some((start, previous_start)) = self.round_note()? else { return Ok(()) };
        self.is_recrawl = true;
        self.rounds = Some((start, previous_start));
        let last_queued = self.read_note(REQUEUE_NOTE)?.and_then(|note| note.try_into().ok());
        let last_queued = last_queued.map_or(ALL_QUEUED, u64::from_le_bytes);
        if last_queued != ALL_QUEUED || !self.counts().is_done() {
            self.recall_earlier(previous_start, start)?;
        }
        self.requeue.0.retain(|(link, _)| *link > last_queued);
        if self.requeue.0.is_empty() {
            self.requeue = Requeue::default();
        }
        Ok(())
    }

    /// Finds the last outcome of every link that was settled between two positions, the start and the end of the
    /// previous round. All of these links are to be queued again.
    fn recall_earlier(&mut self, start: u64, end: u64) -> Result<(), StoreError> {
        // Most links have one outcome, so this capacity is enough, and the list does not grow by doubling.
        let count = usize::try_from(self.counts().settled).unwrap_or(0);
        // The position of each link, and that of an outcome of it.
        let mut links: Vec<(u64, u64)> = Vec::with_capacity(count);
        self.journal.walk(|position, record| {
            if let Record::FinalOutcome { link, .. } = record
                && (start..end).contains(&position)
            {
                links.push((link, position));
            }
            Ok(())
        })?;
        // Sorted by position, so that neighbours on disk are read together.
        links.sort_unstable();
        let mut final_outcomes = Vec::with_capacity(links.len());
        for &(link, final_outcome) in &links {
            final_outcomes.push((self.read_link(None, link)?.fingerprint(self.key()), final_outcome));
        }
        let (earlier, superseded) = EarlierOutcomes::of(final_outcomes);
        self.earlier = earlier;
        if !superseded.is_empty() {
            links.retain(|(_, final_outcome)| superseded.binary_search(final_outcome).is_err());
        }
        links.reverse();
        self.requeue = Requeue(links);
        Ok(())
    }

    /// The record that a link had before this round.
    pub(super) fn earlier_record(&mut self, url: UrlRef<'_>, kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        let position = self.earlier.find(link_fingerprint(url, kind, self.key()));
        position.map_or(Ok(None), |position| self.final_record(position))
    }

    /// The record of an outcome in the log.
    fn final_record(&mut self, position: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.journal.read(position, |record| match record {
            Record::FinalOutcome { line, .. } => Some(line.to_vec()),
            _ => None,
        })
    }

    /// The positions where the last round and the one before it began. A position is 0 if the round is the first one,
    /// or if the position is not stored.
    fn round_note(&mut self) -> Result<Option<(u64, u64)>, StoreError> {
        let Some(note) = self.read_note(ROUND_NOTE)? else { return Ok(None) };
        let number =
            |at: usize| note.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
        Ok(Some((number(0), number(8))))
    }
}
