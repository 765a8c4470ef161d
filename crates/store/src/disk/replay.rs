//! [`LogReplay`]: applies the records of the log to a state.
//!
//! Invariant: the resulting state is the same, whether it starts empty or from a snapshot. The queues of a snapshot may
//! include records after its start, because a snapshot is written in portions; these records are not applied to them
//! again ([`QueuePositions`]).

use super::fault::damaged;
use super::files::Files;
use super::log::FOLDER;
use super::record::{DEFERRED, LinkRecord, QueuedAs, Record};
use super::snapshot_reader::QueuePositions;
use super::state::State;
use argiope_core::{LaneId, StoreError};
use std::collections::{HashMap, HashSet};

/// Number of links that are removed from their queues in one batch.
const REMOVAL_BATCH: usize = 1 << 18;

/// Applies records to a state. Links that leave their queue are collected and removed in batches.
pub(super) struct LogReplay<'a> {
    /// The key of the fingerprints.
    key: u64,
    files: &'a dyn Files,
    /// The part of the log that the queues already include.
    included: QueuePositions,
    /// The positions of the collected links, by lane.
    removals: HashMap<LaneId, HashSet<u64>>,
    /// Number of collected links that are not removed yet.
    collected: usize,
    /// The log position of the last check of memory use.
    last_size_check: u64,
    /// A buffer for URLs.
    text: String,
}

impl<'a> LogReplay<'a> {
    /// Starts at a position of the log.
    pub fn new(files: &'a dyn Files, key: u64, included: QueuePositions, from: u64) -> Self {
        Self {
            key,
            files,
            included,
            removals: HashMap::new(),
            collected: 0,
            last_size_check: from,
            text: String::new(),
        }
    }

    /// Applies the record at a position.
    pub fn apply(&mut self, state: &mut State, position: u64, record: Record<'_>) -> Result<(), StoreError> {
        if self.collected >= REMOVAL_BATCH {
            self.remove_collected(state)?;
        }
        if position - self.last_size_check > state.check_interval() {
            self.last_size_check = position;
            // The frontier has no other memory yet, and no snapshot is in progress.
            state.spill_if_full(0, false)?;
        }
        match record {
            Record::Lane { name } => {
                state.names.intern(name)?;
            }
            Record::Link(LinkRecord { lane, replaces, queued_as, link, .. }) => {
                let Some(host) = state.names.name(lane) else {
                    return Err(damaged(self.files, FOLDER, "a link has an unknown lane"));
                };
                match replaces {
                    Some(earlier) if queued_as == QueuedAs::Admitted => {
                        let Some(deferred) = state.names.find(DEFERRED) else {
                            return Err(damaged(
                                self.files,
                                FOLDER,
                                "a link was deferred, but there is no lane of deferred links",
                            ));
                        };
                        self.collect(deferred, earlier, position);
                    }
                    Some(earlier) => self.collect(lane, earlier, position),
                    None => {
                        let Some(fingerprint) = link.fingerprint(host, self.key, &mut self.text) else {
                            return Err(damaged(self.files, FOLDER, "a link is not a URL"));
                        };
                        // In a compacted log, a URL that is queued again may be new.
                        let is_new = state.known.insert(fingerprint)?;
                        if queued_as == QueuedAs::Again && !is_new {
                            let Some(settled) = state.settled.checked_sub(1) else {
                                return Err(damaged(
                                    self.files,
                                    FOLDER,
                                    "more links are queued again than were settled",
                                ));
                            };
                            state.settled = settled;
                        }
                    }
                }
                if !self.included.includes(lane, position) {
                    state.queue(lane, link.rank(), position);
                }
            }
            Record::FinalOutcome { lane, link, .. } => {
                self.collect(lane, link, position);
                state.settled += 1;
            }
            Record::Note { lane, .. } => {
                state.notes.insert(lane, position);
            }
            Record::Output { length, hash, name } => {
                state.outputs.insert(name.into(), length);
                match hash {
                    Some(hash) => state.output_hashes.insert(name.into(), hash),
                    None => state.output_hashes.remove(name),
                };
            }
            Record::Created { name } => {
                state.created.insert(name.into());
            }
            Record::Line { .. } => state.lines += 1,
            Record::Page { .. } | Record::Edges { .. } => {}
        }
        Ok(())
    }

    /// Collects the link at the position `link`, which leaves its queue. `record` is the position of the record that
    /// says so.
    fn collect(&mut self, lane: LaneId, link: u64, record: u64) {
        if !self.included.includes(lane, record) {
            self.removals.entry(lane).or_default().insert(link);
            self.collected += 1;
        }
    }

    /// Removes the collected links.
    pub fn remove_collected(&mut self, state: &mut State) -> Result<(), StoreError> {
        self.collected = 0;
        for (lane, removals) in self.removals.drain() {
            let mut queue = std::mem::take(state.queue_mut(lane));
            queue.remove(removals, &mut state.storage)?;
            *state.queue_mut(lane) = queue;
        }
        Ok(())
    }
}
