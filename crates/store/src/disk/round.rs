//! Recrawling: every URL of a finished crawl is fetched again.
//!
//! A round starts when every settled link is queued again, in one commit. The outcomes of the previous round are then
//! called *earlier*: the last record of each link before that commit, found by its fingerprint. They stay in the log;
//! memory holds only their positions, and only during such a round.

use super::frontier::{DiskFrontier, ROUND_NOTE};
use super::record::Record;
use argiope_core::schedule::frontier::seen_key;
use argiope_core::{Frontier, LaneId, Link, LinkKind, LinkRef, Outcome, StoreError, StoreErrorKind, UrlRef};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The beginning of the record of a link that left the queue without having been fetched.
const SKIP: &[u8] = br#"{"v":1,"type":"skip""#;

/// A settled link, and the position of its last outcome.
struct Settled {
    lane: LaneId,
    link: u64,
    fate: u64,
}

/// Where the outcomes of the previous round are: pairs of a link's fingerprint and a position, sorted. There may be
/// millions, and a hash table would take twice the memory.
#[derive(Default)]
pub(super) struct EarlierFates(Box<[(u64, u64)]>);

impl EarlierFates {
    /// Of settled links in the order of their fingerprints.
    fn of(settled: &[(u64, Settled)]) -> Self {
        Self(settled.iter().map(|(key, settled)| (*key, settled.fate)).collect())
    }

    fn find(&self, key: u64) -> Option<u64> {
        let place = self.0.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.0.get(place).map(|(_, position)| *position)
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

impl DiskFrontier {
    /// Queues everything again. Only a finished crawl can be recrawled; returns the number of links.
    pub fn begin_round(&mut self) -> Result<u64, StoreError> {
        if !self.is_done() {
            return Err(StoreError::new(StoreErrorKind::Misuse, "this crawl is not finished"));
        }
        // A round has its own files, so that earlier ones can be compacted.
        self.journal.begin_file();
        let start = self.journal.end();
        let previous = self.round_note()?.map_or(0, |(start, _)| start);
        let mut settled = self.settled_before(start)?;
        self.earlier = EarlierFates::of(&settled);
        // In the order in which they were found.
        settled.sort_unstable_by_key(|(_, settled)| settled.link);
        self.keep_lane_state(ROUND_NOTE, &[start.to_le_bytes(), previous.to_le_bytes()].concat())?;
        self.keep_all_again()?;
        self.rounds = Some((start, previous));
        for (_, Settled { lane, link: position, .. }) in &settled {
            let link = Link { tries: 0, ..self.read_link(*lane, *position)? };
            // A form that was sent is not sent again.
            if link.is_repeatable() {
                self.append_again(*lane, LinkRef::from(&link))?;
            }
        }
        self.is_again = true;
        Ok(settled.len() as u64)
    }

    /// Queues the roots again that gave no page, and their redirect targets. Returns the number of links.
    ///
    /// Their new records replace the old ones.
    pub fn requeue_failed_roots(&mut self) -> Result<u64, StoreError> {
        let mut failed = HashMap::new();
        let mut fates = Vec::new();
        self.journal.walk(|position, record| {
            if let Record::Fate { lane, link, outcome, line, .. } = record {
                let is_failure = match outcome {
                    Outcome::Ok | Outcome::NotModified => false,
                    Outcome::Redirect => line.windows(9).any(|window| window == b"\"error\":{"),
                    Outcome::HttpError | Outcome::Failed | Outcome::Robots | Outcome::Refused => true,
                };
                if line.windows(10).any(|window| window == b"\"depth\":0,") {
                    fates.push((Settled { lane, link, fate: position }, is_failure));
                }
            }
            Ok(())
        })?;
        for (settled, is_failure) in fates {
            let link = self.read_link(settled.lane, settled.link)?;
            let key = link.seen_key(self.key());
            if is_failure && link.is_repeatable() {
                failed.insert(key, settled)
            } else {
                failed.remove(&key)
            };
        }
        let mut failed: Vec<Settled> = failed.into_values().collect();
        failed.sort_unstable_by_key(|settled| settled.link);
        for Settled { lane, link: position, .. } in &failed {
            let link = Link { tries: 0, ..self.read_link(*lane, *position)? };
            self.append_again(*lane, LinkRef::from(&link))?;
        }
        Ok(failed.len() as u64)
    }

    /// Queues links again that left the queue without a fetch and now qualify; returns the number of links.
    pub fn requeue_skipped(&mut self, mut qualifies: impl FnMut(&Link) -> bool) -> Result<u64, StoreError> {
        let mut skipped = Vec::new();
        self.journal.walk(|_, record| {
            if let Record::Fate { lane, link, line, .. } = record
                && line.starts_with(SKIP)
            {
                skipped.push((link, lane));
            }
            Ok(())
        })?;
        skipped.sort_unstable();
        let mut found: HashMap<u64, (LaneId, Link)> = HashMap::new();
        for (position, lane) in skipped {
            let link = self.read_link(lane, position)?;
            found.insert(link.seen_key(self.key()), (lane, link));
        }
        if found.is_empty() {
            return Ok(0);
        }
        // Some of them were queued again later.
        let (mut positions, mut is_out, mut text) = (HashMap::new(), HashMap::new(), String::new());
        self.journal.walk(|position, record| {
            match record {
                Record::Link(link) => {
                    let key = link.seen_key(self.lane_name(link.lane).unwrap_or(""), self.key(), &mut text);
                    if let Some(key) = key.filter(|key| found.contains_key(key)) {
                        positions.insert(position, key);
                        is_out.insert(key, false);
                    }
                }
                Record::Fate { link, line, .. } => {
                    if let Some(key) = positions.get(&link) {
                        is_out.insert(*key, line.starts_with(SKIP));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        found.retain(|key, (_, link)| is_out.get(key) == Some(&true) && qualifies(link));
        let mut links: Vec<(LaneId, Link)> = found.into_values().collect();
        links.sort_unstable_by(|(_, one), (_, other)| one.url.as_str().cmp(other.url.as_str()));
        for (lane, link) in &links {
            self.append_again(*lane, LinkRef::from(&Link { tries: 0, ..link.clone() }))?;
        }
        Ok(links.len() as u64)
    }

    /// Restores the earlier outcomes after a restart during a round.
    pub(super) fn recall_round(&mut self) -> Result<(), StoreError> {
        let Some((start, previous)) = self.round_note()? else { return Ok(()) };
        self.is_again = true;
        self.rounds = Some((start, previous));
        if !self.is_done() {
            self.earlier = EarlierFates::of(&self.settled_before(start)?);
        }
        Ok(())
    }

    /// The last outcome of every link that was settled before a position, by and in the order of their fingerprints.
    fn settled_before(&mut self, end: u64) -> Result<Vec<(u64, Settled)>, StoreError> {
        let mut fates = Vec::new();
        self.journal.walk(|position, record| {
            if let Record::Fate { lane, link, .. } = record
                && position < end
            {
                fates.push(Settled { lane, link, fate: position });
            }
            Ok(())
        })?;
        // Sorted by position, so that neighbours on disk are read together.
        fates.sort_unstable_by_key(|settled| settled.link);
        let mut keyed: Vec<(u64, Settled)> = Vec::with_capacity(fates.len());
        for settled in fates {
            let link = self.read_link(settled.lane, settled.link)?;
            keyed.push((link.seen_key(self.key()), settled));
        }
        // The latest of each link first: the others are dropped.
        keyed.sort_unstable_by_key(|(key, settled)| (*key, Reverse(settled.fate)));
        keyed.dedup_by_key(|(key, _)| *key);
        Ok(keyed)
    }

    /// The record that a link had before this round.
    pub(super) fn earlier_record(&mut self, url: UrlRef<'_>, kind: LinkKind) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(position) = self.earlier.find(seen_key(url, kind, self.key())) else { return Ok(None) };
        self.journal.read(position, |record| match record {
            Record::Fate { line, .. } => Some(line.to_vec()),
            _ => None,
        })
    }

    /// The positions where the last round and the one before it began; 0 for the first round, or if not known.
    fn round_note(&mut self) -> Result<Option<(u64, u64)>, StoreError> {
        let Some(note) = self.lane_state(ROUND_NOTE)? else { return Ok(None) };
        let number =
            |at: usize| note.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
        Ok(Some((number(0), number(8))))
    }
}
