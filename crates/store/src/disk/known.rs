//! [`Known`]: the fingerprints of all known URLs, in memory while they fit, then on disk.
//!
//! New fingerprints go to a table in memory, like an LSM tree's memtable. When the frontier runs out of memory, the
//! table becomes a sorted [`Run`] on disk and starts empty. Runs are merged so that each is more than twice as long as
//! the next. So the number of runs is logarithmic, and so is the number of times that a fingerprint is rewritten.
//!
//! Invariants: each fingerprint is stored once, in the table or in one run. A run that the current snapshot lists is
//! not removed before the next snapshot is complete.

use super::fault::failed;
use super::files::Files;
use super::run::{self, Run, RunWriter};
use super::snapshot_file;
use crate::seen::{SeenSet, as_stored};
use argiope_core::{Remedy, StoreError, StoreErrorKind};
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

/// The set of all fingerprints.
pub(super) struct Known {
    files: Arc<dyn Files>,
    /// The id of the crawl.
    crawl: u64,
    /// The table in memory.
    pub in_memory: SeenSet,
    pub runs: Vec<Run>,
    /// The number of the next run.
    next_number: u32,
    /// Runs that were merged into others, but that the last snapshot may still list.
    retired: Vec<u32>,
    /// A direct-mapped cache of fingerprints recently found in runs. It helps because consecutive pages share most of
    /// their links.
    recent: Vec<u64>,
}

impl Known {
    pub fn new(files: Arc<dyn Files>, crawl: u64) -> Self {
        Self {
            files,
            crawl,
            in_memory: SeenSet::default(),
            runs: Vec::new(),
            next_number: 1,
            retired: Vec::new(),
            recent: Vec::new(),
        }
    }

    /// Adds a fingerprint; returns whether it was new.
    pub fn insert(&mut self, fingerprint: u64) -> Result<bool, StoreError> {
        if !self.runs.is_empty() {
            let number = as_stored(fingerprint);
            let slot = self.recent_slot(number);
            if self.recent.get(slot) == Some(&number) {
                return Ok(false);
            }
            if !self.in_memory.contains(number) && self.is_in_a_run(number)? {
                if let Some(recent) = self.recent.get_mut(slot) {
                    *recent = number;
                }
                return Ok(false);
            }
        }
        Ok(self.in_memory.insert(fingerprint))
    }

    pub fn contains(&self, fingerprint: u64) -> Result<bool, StoreError> {
        Ok(self.in_memory.contains(fingerprint) || self.is_in_a_run(as_stored(fingerprint))?)
    }

    /// Whether a run contains a fingerprint, which is given as it is stored.
    fn is_in_a_run(&self, number: u64) -> Result<bool, StoreError> {
        for run in &self.runs {
            if run.contains(number).map_err(|error| self.unreadable(run.number, error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The slot of a fingerprint in the cache.
    fn recent_slot(&self, number: u64) -> usize {
        ((u128::from(number) * self.recent.len() as u128) >> 64) as usize
    }

    /// The error for a run that is damaged or cannot be read. If it is damaged, removes the snapshot, so that the next
    /// start rebuilds the run from the log.
    fn unreadable(&self, number: u32, error: io::Error) -> StoreError {
        let name = run::file_name(number);
        if error.kind() != io::ErrorKind::InvalidData {
            return failed(&*self.files, &name, "read", error);
        }
        let message = format!("{} is damaged: {error}", self.files.describe(&name));
        let is_removed = snapshot_file::remove(&*self.files).is_ok();
        let remedy = if is_removed { Remedy::Rebuild } else { Remedy::RemoveSnapshot };
        StoreError::new(StoreErrorKind::Damaged, message).with_remedy(remedy).with_source(error)
    }

    pub fn len(&self) -> u64 {
        self.in_memory.len() + self.runs.iter().map(|run| run.count).sum::<u64>()
    }

    /// Memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.in_memory.bytes() + self.recent.capacity() * 8 + self.runs.iter().map(Run::bytes).sum::<usize>()
    }

    /// Flushes the table in memory to disk and empties it. The filters of all runs use at most `max_filter_bytes`
    /// bytes.
    pub fn spill(&mut self, max_filter_bytes: usize) -> Result<(), StoreError> {
        self.files.make_folder(run::FOLDER).map_err(|error| failed(&*self.files, run::FOLDER, "make", error))?;
        let in_memory = std::mem::take(&mut self.in_memory);
        // Merge every run that is at most twice as long as everything after it: the runs from `first_merged` on.
        let (mut first_merged, mut merged_count) = (self.runs.len(), in_memory.len());
        while let Some(before) = first_merged.checked_sub(1).and_then(|before| self.runs.get(before))
            && before.count <= merged_count * 2
        {
            merged_count += before.count;
            first_merged -= 1;
        }
        let merging = self.runs.split_off(first_merged);
        self.write_run(merged_count, max_filter_bytes, Merge::of(&in_memory, &merging))?;
        self.retired.extend(merging.iter().map(|run| run.number));
        self.reset_recent();
        Ok(())
    }

    /// Writes these fingerprints, in ascending order, as a new run. All filters together use at most `max_filter_bytes`
    /// bytes.
    fn write_run(
        &mut self,
        count: u64,
        max_filter_bytes: usize,
        numbers: impl Iterator<Item = Result<u64, (u32, io::Error)>>,
    ) -> Result<(), StoreError> {
        let number = self.next_number;
        let used_bytes: usize = self.runs.iter().map(Run::bytes).sum();
        let fail = |error: io::Error| failed(&*self.files, &run::file_name(number), "write", error);
        let filter_bytes = max_filter_bytes.saturating_sub(used_bytes);
        let mut writer = RunWriter::begin(&*self.files, self.crawl, number, count, filter_bytes).map_err(fail)?;
        for fingerprint in numbers {
            let fingerprint = fingerprint.map_err(|(number, error)| self.unreadable(number, error))?;
            writer.push(fingerprint).map_err(fail)?;
        }
        let run = writer.finish().map_err(fail)?;
        self.runs.push(run);
        self.next_number = self.next_number.saturating_add(1);
        Ok(())
    }

    /// The runs that can be deleted once the snapshot being written is complete.
    pub fn take_retired(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.retired)
    }

    /// Opens the runs that a snapshot lists with their number and their count of fingerprints. `None` if one of them is
    /// missing or does not match.
    pub fn open_runs(&mut self, runs: &[(u32, u64)]) -> Option<()> {
        for &(number, count) in runs {
            self.runs.push(Run::open(&*self.files, self.crawl, number, count)?);
            self.next_number = self.next_number.max(number.checked_add(1)?);
        }
        self.reset_recent();
        Some(())
    }

    /// Allocates an empty cache for fingerprints found in runs, small compared with the runs.
    fn reset_recent(&mut self) {
        let slots = self.runs.iter().map(|run| run.count / 256).sum::<u64>().next_power_of_two();
        self.recent = vec![0; if self.runs.is_empty() { 0 } else { slots.clamp(1 << 4, 1 << 16) as usize }];
    }

    /// Deletes run files that are not in `runs`.
    pub fn remove_leftovers(&mut self) -> Result<(), StoreError> {
        let fail = |error| failed(&*self.files, run::FOLDER, "list", error);
        let names = self.files.list(run::FOLDER).map_err(fail)?;
        for number in names.iter().filter_map(|name| run::file_number(name)) {
            // Never reuse the number of a file that exists.
            self.next_number = self.next_number.max(number.saturating_add(1));
            if !self.runs.iter().any(|run| run.number == number) {
                remove(&*self.files, &[number])?;
            }
        }
        Ok(())
    }
}

/// Removes the files of runs; those that do not exist are skipped.
pub(super) fn remove(files: &dyn Files, runs: &[u32]) -> Result<(), StoreError> {
    for name in runs.iter().map(|number| run::file_name(*number)) {
        match files.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(files, &name, "remove", error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The fingerprints of one run, in ascending order.
type Fingerprints<'a> = Box<dyn Iterator<Item = io::Result<u64>> + 'a>;

/// Merges the fingerprints of the table and of some runs in ascending order.
struct Merge<'a> {
    runs: Vec<(u32, Fingerprints<'a>)>,
    /// The next fingerprint of each run, the smallest first.
    heads: BinaryHeap<std::cmp::Reverse<(u64, usize)>>,
    /// A read error and the number of its run, until it is returned.
    fault: Option<(u32, io::Error)>,
}

impl<'a> Merge<'a> {
    fn of(in_memory: &'a SeenSet, runs: &'a [Run]) -> Self {
        // The table in memory has the number 0, which no run has.
        let mut all: Vec<(u32, Fingerprints<'a>)> = vec![(0, Box::new(in_memory.iter().map(Ok)))];
        all.extend(runs.iter().map(|run| (run.number, Box::new(run.iter()) as Box<_>)));
        let mut merge = Self { heads: BinaryHeap::with_capacity(all.len()), fault: None, runs: all };
        (0..merge.runs.len()).for_each(|index| merge.advance(index));
        merge
    }

    /// Reads the next fingerprint of one run.
    fn advance(&mut self, index: usize) {
        let Some((number, run)) = self.runs.get_mut(index) else { return };
        match run.next() {
            Some(Ok(fingerprint)) => self.heads.push(std::cmp::Reverse((fingerprint, index))),
            Some(Err(error)) => self.fault = Some((*number, error)),
            None => {}
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<u64, (u32, io::Error)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(fault) = self.fault.take() {
            return Some(Err(fault));
        }
        let std::cmp::Reverse((fingerprint, index)) = self.heads.pop()?;
        self.advance(index);
        Some(Ok(fingerprint))
    }
}
