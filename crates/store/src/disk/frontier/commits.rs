//! Commits of the [`DiskFrontier`], and the snapshots that they carry.

use super::{DiskFrontier, Leased};
use crate::disk::commits::{Commits, CommittedOutput};
use crate::disk::compaction::Compaction;
use crate::disk::known;
use crate::disk::log::{CommitBatch, LogReader};
use crate::disk::record::Record;
use crate::disk::snapshot_file::{LogMark, Portion};
use crate::disk::snapshot_writer::SnapshotWriter;
use argiope_core::StoreError;
use std::sync::Arc;

/// A snapshot is due when the log has grown by this many bytes, and by more than half of the last snapshot's length. So
/// opening a directory replays little of the log, and snapshots do not cost much more than the log itself.
const SNAPSHOT_AFTER: u64 = 16 << 20;
/// At the end of a run, a snapshot is written only if more of the log than this would have to be replayed. Replaying
/// less takes milliseconds, while a snapshot costs several syncs.
const MAX_REPLAY_AT_END: u64 = 4 << 20;
/// A snapshot is written in portions, at most one with each commit. A portion has at least this many bytes.
const MIN_PORTION: usize = 1 << 20;
/// A portion has at least this many times the bytes that the log has grown by since the previous portion.
const PORTION_PER_GROWTH: u64 = 4;
/// A portion has at most this many bytes, unless a single indivisible part is longer.
const MAX_PORTION: usize = 8 << 20;

/// The last complete snapshot, the one in progress, and when the next is due.
pub(super) struct Snapshots {
    /// The end of the log when the last complete snapshot was started.
    last_start: u64,
    /// The length of the last complete snapshot.
    last_length: u64,
    /// The snapshot in progress.
    pub in_progress: Option<SnapshotWriter>,
    /// The end of the commit that completes the last snapshot, and the run files that can be deleted once it is
    /// durable.
    unacknowledged: Option<(u64, Vec<u32>)>,
    /// The growth of the log after which a snapshot is started.
    min_growth: u64,
    /// The same for a snapshot at the end of a run.
    min_growth_at_end: u64,
    /// See [`MIN_PORTION`].
    min_portion: usize,
    /// See [`PORTION_PER_GROWTH`].
    portion_per_growth: u64,
    /// The end of the commit with the last portion, and whether that commit is still being written.
    last_portion: (u64, bool),
}

impl Snapshots {
    pub fn new(last_start: u64, last_length: u64) -> Self {
        Self {
            last_start,
            last_length,
            in_progress: None,
            unacknowledged: None,
            min_growth: SNAPSHOT_AFTER,
            min_growth_at_end: MAX_REPLAY_AT_END,
            min_portion: MIN_PORTION,
            portion_per_growth: PORTION_PER_GROWTH,
            last_portion: (last_start, false),
        }
    }
}

impl DiskFrontier {
    /// Seals everything since the last commit, with the length of each output file that belongs to it. `None` if there
    /// is nothing to commit. The batch also has a portion of a snapshot when one is due.
    pub fn commit(&mut self, outputs: &[(&str, u64)]) -> Result<Option<CommitBatch>, StoreError> {
        self.seal(outputs, false)
    }

    /// Like [`Self::commit`], at the end of a run. Must be called until it returns `None`. These commits include a
    /// snapshot, so that the next run opens quickly, unless the log is short.
    pub fn commit_at_end(&mut self, outputs: &[(&str, u64)]) -> Result<Option<CommitBatch>, StoreError> {
        self.seal(outputs, true)
    }

    /// Makes a commit, as described at [`Self::commit`] and [`Self::commit_at_end`].
    fn seal(&mut self, outputs: &[(&str, u64)], at_end: bool) -> Result<Option<CommitBatch>, StoreError> {
        if let Some(chunk) = self.graph.take() {
            self.append_chunk(&chunk)?;
        }
        for &(name, length) in outputs {
            let is_new = self.state.outputs.get(name) != Some(&length);
            // Without a new hash, the stored one is valid only if the length is the same.
            let hash = match self.new_hashes.remove(name) {
                None if !is_new => self.state.output_hashes.get(name).copied(),
                hash => hash,
            };
            if is_new || self.state.output_hashes.get(name).copied() != hash {
                self.journal.append(&Record::Output { length, hash, name })?;
                self.state.outputs.insert(name.into(), length);
                match hash {
                    Some(hash) => self.state.output_hashes.insert(name.into(), hash),
                    None => self.state.output_hashes.remove(name),
                };
            }
        }
        if at_end {
            // Abandon a snapshot that was started earlier: it would leave a part of the log to replay.
            self.snapshots.in_progress.take_if(|in_progress| !in_progress.is_at_end);
        }
        // At the end a snapshot is taken even if nothing happened, unless the last one is recent enough.
        let is_old = self.journal.end().saturating_sub(self.snapshots.last_start) > self.snapshots.min_growth_at_end;
        let needs_snapshot = self.snapshots.in_progress.is_some() || is_old;
        if self.journal.is_empty() && !(at_end && needs_snapshot) {
            return Ok(None);
        }
        if self.has_durable_commit() && self.journal.end() - self.last_size_check > self.state.check_interval() {
            self.last_size_check = self.journal.end();
            let other_bytes = self.earlier.bytes() + self.requeue.bytes();
            self.state.spill_if_full(other_bytes, self.snapshots.in_progress.is_some())?;
        }
        let (mut batch, mark) = self.journal.seal();
        let growth = mark.end.saturating_sub(self.snapshots.last_start);
        let usual_growth = self.snapshots.min_growth.max(self.snapshots.last_length / 2);
        let is_due = growth > if at_end { self.snapshots.min_growth_at_end } else { usual_growth };
        if is_due && self.snapshots.in_progress.is_none() {
            self.snapshots.last_portion.0 = mark.end;
            self.snapshots.in_progress = Some(SnapshotWriter::begin(self.crawl, mark, &self.state, at_end));
        }
        batch.snapshot = self.portion(mark)?.map(Arc::new);
        batch.completes_snapshot = batch.snapshot.as_ref().is_some_and(|portion| portion.completes.is_some());
        Ok(Some(batch))
    }

    /// Whether this is a crawl for the next process too. Before that, only the files of an interrupted start may exist,
    /// and `spill/` is not among them.
    fn has_durable_commit(&self) -> bool {
        self.durable > LogReader::FIRST
    }

    /// The next portion of the snapshot in progress, if any. Portions are large and the disk may be slow, so only one
    /// is written at a time, except at the end of a run.
    fn portion(&mut self, mark: LogMark) -> Result<Option<Portion>, StoreError> {
        let (before, is_pending) = self.snapshots.last_portion;
        let Some(in_progress) =
            self.snapshots.in_progress.as_mut().filter(|in_progress| in_progress.is_at_end || !is_pending)
        else {
            return Ok(None);
        };
        let wanted = mark.end.saturating_sub(before).saturating_mul(self.snapshots.portion_per_growth);
        let size = usize::try_from(wanted).unwrap_or(MAX_PORTION).min(MAX_PORTION).max(self.snapshots.min_portion);
        self.snapshots.last_portion = (mark.end, true);
        let leased = self.leased.values().map(|link| (link.lane, link.rank, link.position));
        let portion = in_progress.portion(size, mark, &self.state, leased)?;
        if portion.completes.is_some() {
            (self.snapshots.last_start, self.snapshots.last_length) = (in_progress.started_at, in_progress.length());
            self.snapshots.in_progress = None;
            let (end, retired) = self.snapshots.unacknowledged.get_or_insert_default();
            *end = mark.end;
            retired.extend(self.state.known.take_retired());
        }
        Ok(Some(portion))
    }

    /// For tests: sets the log growth that starts a snapshot, during a run and at its end, and the portion size.
    #[doc(hidden)]
    pub fn set_snapshots(&mut self, min_growth: u64, min_growth_at_end: u64, min_portion: usize) {
        let snapshots = &mut self.snapshots;
        (snapshots.min_growth, snapshots.min_growth_at_end) = (min_growth, min_growth_at_end);
        (snapshots.min_portion, snapshots.portion_per_growth) = (min_portion, 0);
    }

    /// For tests: sets the size at which a new file of the log starts.
    #[doc(hidden)]
    pub fn set_max_file_size(&mut self, size: u64) {
        self.journal.set_max_file_size(size);
    }

    /// Appends a chunk of the link graph to the journal.
    pub(super) fn append_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        self.journal.append(&Record::Edges { chunk }).map(drop)
    }
}

impl Commits for DiskFrontier {
    fn commit(&mut self, outputs: &[CommittedOutput<'_>], is_last: bool) -> Result<Option<CommitBatch>, StoreError> {
        for CommittedOutput { name, hash, .. } in outputs {
            self.new_hashes.extend(hash.map(|hash| ((*name).into(), hash)));
        }
        let outputs: Vec<(&str, u64)> = outputs.iter().map(|output| (output.name, output.length)).collect();
        self.seal(&outputs, is_last)
    }

    fn acknowledge(&mut self, batch: &CommitBatch) -> Result<(), StoreError> {
        let (last_portion, is_pending) = &mut self.snapshots.last_portion;
        *is_pending &= *last_portion > batch.end();
        let is_durable = |(end, _): &mut (u64, Vec<u32>)| batch.completes_snapshot && *end <= batch.end();
        if let Some((_, retired)) = self.snapshots.unacknowledged.take_if(is_durable) {
            // The earlier snapshot is replaced, so its run files are not needed any more.
            known::remove(&*self.files, &retired)?;
        }
        self.durable = self.durable.max(batch.end());
        self.has_completed_file |= batch.new_file_number.is_some();
        self.journal.acknowledge(batch.end())
    }

    /// One is due when the commit that begins a round is durable, and when
    /// a file of the log is complete.
    fn take_compaction(&mut self) -> Option<Compaction> {
        let rounds = self.rounds.take_if(|(start, _)| self.durable > *start);
        let keep_from = rounds.map(|(_, keep_from)| keep_from).filter(|from| self.journal.needs_compaction(*from));
        if !std::mem::take(&mut self.has_completed_file) && keep_from.is_none() {
            return None;
        }
        if let Some(keep_from) = keep_from {
            self.journal.forget_before(keep_from);
        }
        Some(Compaction { files: Arc::clone(&self.files), crawl: self.crawl, keep_from })
    }

    fn log_end(&self) -> u64 {
        self.journal.appended_end()
    }

    fn durable_end(&self) -> u64 {
        self.durable
    }

    /// Without the commits that are being written.
    fn bytes(&self) -> usize {
        self.state.bytes()
            + self.graph.bytes()
            + self.earlier.bytes()
            + self.requeue.bytes()
            // The hash table has one byte of metadata per entry.
            + self.leased.capacity() * (size_of::<(u64, Leased)>() + 1)
    }

    /// Names, the entry of each queue, and the position of each lane's note.
    fn host_bytes(&self) -> usize {
        self.state.host_bytes()
    }
}
