//! The frontier suite for the frontiers in memory and on disk, and tests of resumed crawls and snapshots.

use argiope_core::crawl::schedule::frontier::{
    CrawlEvent, NewHosts, Placement, QueuedLane, ReturnTo, Settlement, Standing,
};
use argiope_core::{Counts, Frontier, LaneId, Link, LinkRef, StoreError};
use argiope_store::Commits as _;
use argiope_store::disk::{CrawlSettings, DiskFrontier, LogWriter, open_within};
use argiope_testkit::crash_files::CrashFiles;
use argiope_testkit::frontier_suite::FrontierHistory;
use std::sync::Arc;

argiope_testkit::frontier_suite!(memory, argiope_store::MemoryFrontier::new);
argiope_testkit::frontier_suite!(disk_never_committed, |_| super::Committing::new(
    super::NEVER,
    super::UNLIMITED_MEMORY
));
argiope_testkit::frontier_suite!(disk_committed_at_each_call, |_| super::Committing::new(1, super::UNLIMITED_MEMORY));
argiope_testkit::frontier_suite!(disk_committed_now_and_then, |_| super::Committing::new(7, super::UNLIMITED_MEMORY));
argiope_testkit::frontier_suite!(disk_without_memory, |_| super::Committing::new(1, super::NO_MEMORY));
argiope_testkit::frontier_suite!(disk_with_little_memory, |_| super::Committing::new(3, super::LITTLE_MEMORY));

const UNLIMITED_MEMORY: usize = usize::MAX;
/// A memory limit with which the frontier keeps as little as possible in memory.
const NO_MEMORY: usize = 0;
const LITTLE_MEMORY: usize = 3_000;
const NEVER: usize = usize::MAX;

/// A frontier on disk that commits regularly, so that links are read from the disk, from unacknowledged commits and
/// from the current frame.
struct Committing {
    frontier: DiskFrontier,
    writer: LogWriter,
    /// Number of calls per commit.
    calls_per_commit: usize,
    calls: usize,
}

impl Committing {
    fn new(calls_per_commit: usize, memory_limit: usize) -> Self {
        let opened =
            open_within(Arc::new(CrashFiles::default()), &CrawlSettings::new(), memory_limit).expect("a new directory");
        let mut frontier = opened.frontier;
        // Small, so that the log has several files.
        frontier.set_max_file_size(3_000);
        Self { frontier, writer: opened.writer, calls_per_commit, calls: 0 }
    }

    /// Counts a call, and commits after every `calls_per_commit` calls. Returns `result`, the result of the call.
    fn commit_after<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        self.calls += 1;
        if self.calls.is_multiple_of(self.calls_per_commit)
            && let Some(batch) = self.frontier.commit(&[("pages.jsonl", self.calls as u64)])?
        {
            self.writer.write(&batch)?;
            // Every second commit is acknowledged only together with the next one.
            if self.calls.is_multiple_of(2) {
                self.frontier.acknowledge(&batch)?;
            }
        }
        result
    }
}

impl Frontier for Committing {
    fn put(
        &mut self,
        links: &[LinkRef<'_>],
        new_hosts: NewHosts,
        admit: &mut dyn FnMut(usize, Standing) -> bool,
    ) -> Result<Vec<Placement>, StoreError> {
        let result = self.frontier.put(links, new_hosts, admit);
        self.commit_after(result)
    }

    fn take(&mut self, lane: LaneId, max_links: usize) -> Result<Vec<Link>, StoreError> {
        let result = self.frontier.take(lane, max_links);
        self.commit_after(result)
    }

    fn settle(&mut self, batch: &mut [Settlement<'_>]) -> Result<(), StoreError> {
        let result = self.frontier.settle(batch);
        self.commit_after(result)
    }

    fn give_back(&mut self, links: Vec<Link>, to: ReturnTo) -> Result<(), StoreError> {
        let result = self.frontier.give_back(links, to);
        self.commit_after(result)
    }

    fn lane_of(&mut self, host: &str) -> Result<LaneId, StoreError> {
        self.frontier.lane_of(host)
    }

    fn lane(&self, lane: LaneId) -> Option<QueuedLane<'_>> {
        self.frontier.lane(lane)
    }

    fn lanes_with_work(&self) -> Vec<LaneId> {
        self.frontier.lanes_with_work()
    }

    fn counts(&self) -> Counts {
        self.frontier.counts()
    }

    fn tell(&mut self, event: CrawlEvent<'_>) -> Result<(), StoreError> {
        let result = self.frontier.tell(event);
        self.commit_after(result)
    }
}

#[test]
fn a_crawl_that_is_resumed_many_times_agrees_with_the_model() {
    const RUNS: u64 = 8;
    for (seed, memory_limit) in (0..30).zip([UNLIMITED_MEMORY, NO_MEMORY, LITTLE_MEMORY].into_iter().cycle()) {
        let files = CrashFiles::default();
        let mut history = FrontierHistory::new(seed);
        for run in 0..RUNS {
            let opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), memory_limit).expect("opens");
            assert_eq!((opened.resumed, opened.messages.len()), (run > 0, 0));
            let (mut frontier, mut writer) = (opened.frontier, opened.writer);
            frontier.set_max_file_size(2_000);
            // A snapshot only at the end of a run, in one portion.
            frontier.set_snapshots(u64::MAX, 0, 1 << 20);
            history.model.restart();
            history.run(&mut frontier, 60);
            let output = [("pages.jsonl", run)];
            // Alternates between commits with and without a snapshot.
            let batch = if run % 2 == 0 { frontier.commit(&output) } else { frontier.commit_at_end(&output) };
            writer.write(&batch.expect("commits").expect("a batch")).expect("writes");
        }
        history.model.restart();
        let opened = open_within(Arc::new(files), &CrawlSettings::new(), memory_limit).expect("opens");
        let mut frontier = opened.frontier;
        assert_eq!(frontier.outputs().get("pages.jsonl"), Some(&(RUNS - 1)));
        history.model.compare_all(&mut frontier);
    }
}

/// Links are put, taken, settled and given back between the portions of a snapshot. Opening the directory after any
/// commit must find the committed state, usually with a snapshot whose parts were written at different times.
#[test]
fn a_snapshot_taken_during_a_crawl_is_correct() {
    let mut with_snapshot = 0;
    for (seed, memory_limit) in (0..6).zip([UNLIMITED_MEMORY, NO_MEMORY, LITTLE_MEMORY].into_iter().cycle()) {
        let files = CrashFiles::default();
        let mut history = FrontierHistory::new(seed);
        let opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), memory_limit).expect("opens");
        let (mut frontier, mut writer) = (opened.frontier, opened.writer);
        frontier.set_max_file_size(4_000);
        // A snapshot whenever possible, in small portions.
        frontier.set_snapshots(0, 0, 60 + 80 * seed as usize);
        for _ in 0..50 {
            history.run(&mut frontier, 8);
            frontier.keep_line(b"{}").expect("keeps");
            let batch = frontier.commit(&[]).expect("commits").expect("a batch");
            writer.write(&batch).expect("writes");
            frontier.acknowledge(&batch).expect("acknowledges");
            let files_after_kill = files.after_kill();
            let opened =
                open_within(Arc::new(files_after_kill.clone()), &CrawlSettings::new(), memory_limit).expect("opens");
            assert_eq!(opened.messages, [""; 0]);
            let mut model = history.model.clone();
            model.restart();
            let mut copy = opened.frontier;
            model.compare_all(&mut copy);
            // Opening removes a snapshot that is incomplete.
            let names: Vec<String> = files_after_kill.names().into_iter().map(|(name, _)| name).collect();
            assert!(names.iter().all(|name| name != "snapshot.new"), "{names:?}");
            with_snapshot += usize::from(names.iter().any(|name| name == "snapshot"));
        }
    }
    assert!(with_snapshot > 6 * 20, "only {with_snapshot} commits had a snapshot");
}

/// A snapshot in progress is abandoned when the run ends, and the last commits write another.
#[test]
fn a_run_that_ends_during_a_snapshot_leaves_a_complete_one() {
    for has_more_calls in [false, true] {
        let files = CrashFiles::default();
        let mut history = FrontierHistory::new(7);
        let opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), UNLIMITED_MEMORY).expect("opens");
        let (mut frontier, mut writer) = (opened.frontier, opened.writer);
        // A snapshot whenever possible, in small portions.
        frontier.set_snapshots(0, 0, 50);
        history.run(&mut frontier, 60);
        frontier.keep_line(b"{}").expect("keeps");
        let batch = frontier.commit(&[]).expect("commits").expect("a batch");
        writer.write(&batch).expect("writes");
        frontier.acknowledge(&batch).expect("acknowledges");
        assert!(files.names().iter().all(|(name, _)| name != "snapshot"), "only its first portion is written");
        if has_more_calls {
            history.run(&mut frontier, 5);
            frontier.keep_line(b"{}").expect("keeps");
        }
        while let Some(batch) = frontier.commit_at_end(&[]).expect("commits") {
            writer.write(&batch).expect("writes");
            frontier.acknowledge(&batch).expect("acknowledges");
        }
        let names: Vec<String> = files.names().into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().any(|name| name == "snapshot"), "{names:?}");
        history.model.restart();
        let opened = open_within(Arc::new(files), &CrawlSettings::new(), UNLIMITED_MEMORY).expect("opens");
        assert_eq!(opened.messages, [""; 0]);
        history.model.compare_all(&mut { opened.frontier });
    }
}
