//! Tests of the crawl directory under faults: power cuts with torn and reordered writes, failing calls, changed bytes.
//!
//! Most tests run a random history with commits, and open the directory again after the fault. The state must then be
//! that of the last acknowledged commit or of the one in progress.

use argiope_core::crawl::schedule::frontier::ReturnTo;
use argiope_core::{Frontier, Remedy, StoreError, StoreErrorKind};
use argiope_store::Commits as _;
use argiope_store::disk::{
    CrawlSettings, DiskFrontier, Files, HistoryEvent, history_in, open_in, open_within, start_over_in, truncate_output,
};
use argiope_testkit::crash_files::{CrashFiles, InjectedFault};
use argiope_testkit::frontier_suite::{FrontierHistory, FrontierModel};
use std::io::ErrorKind;
use std::sync::Arc;

const OUTPUT: &str = "pages.jsonl";
/// A memory limit with which the frontier keeps as little as possible in memory.
const NO_MEMORY: usize = 0;

/// A commit: the state of the frontier, and the length of the output.
#[derive(Clone, Default)]
struct Commit {
    model: FrontierModel,
    output: u64,
}

/// The result of a history.
struct HistoryResult {
    /// The frontier's memory limit.
    memory_limit: usize,
    /// The last acknowledged commit.
    acknowledged: Commit,
    /// The commit that was being written at the fault, if any.
    in_progress: Option<Commit>,
    /// Whether the fault occurred.
    has_failed: bool,
}

/// When snapshots are written.
#[derive(Clone, Copy)]
struct SnapshotSettings {
    /// The log growth in bytes after which a snapshot starts during a run.
    min_growth: u64,
    /// The log growth in bytes after which a snapshot is written at the end of a run.
    min_growth_at_end: u64,
    /// The minimum size of a portion in bytes.
    min_portion: usize,
}

impl SnapshotSettings {
    const ALWAYS: Self = Self { min_growth: 0, min_growth_at_end: 0, min_portion: 200 };
    const SOMETIMES: Self = Self { min_growth: 2_000, min_growth_at_end: 1_500, min_portion: 500 };
    /// At the end of a run, in one portion.
    const AT_END: Self = Self { min_growth: u64::MAX, min_growth_at_end: 0, min_portion: 1 << 20 };
    const NEVER: Self = Self { min_growth: u64::MAX, min_growth_at_end: u64::MAX, min_portion: 0 };

    fn of_seed(seed: u64) -> Self {
        [Self::AT_END, Self::ALWAYS, Self::SOMETIMES, Self::NEVER][seed as usize % 4]
    }

    fn apply(self, frontier: &mut DiskFrontier) {
        frontier.set_snapshots(self.min_growth, self.min_growth_at_end, self.min_portion);
    }
}

/// The frontier's memory limit for a seed: unlimited or zero. Eight consecutive seeds combine both limits with each of
/// the four snapshot settings.
fn memory_limit_of(seed: u64) -> usize {
    if (seed ^ seed >> 2).is_multiple_of(2) { usize::MAX } else { NO_MEMORY }
}

/// Runs a history on the files until it ends or a call fails.
fn run_history(files: &CrashFiles, history: &mut FrontierHistory, start: Commit, commits: usize) -> HistoryResult {
    let memory_limit = memory_limit_of(history.seed());
    let mut result = HistoryResult { memory_limit, acknowledged: start, in_progress: None, has_failed: true };
    history.model = result.acknowledged.model.clone();
    history.model.restart();
    let Ok(opened) = open_within(Arc::new(files.clone()), &CrawlSettings::new(), memory_limit) else { return result };
    let (mut frontier, mut writer) = (opened.frontier, opened.writer);
    // Small, so that the log has several files.
    frontier.set_max_file_size(1_500);
    SnapshotSettings::of_seed(history.seed()).apply(&mut frontier);
    // So that starting over removes this file too.
    frontier.record_created("report.txt").expect("keeps");
    let mut output = result.acknowledged.output;
    if truncate_output(files, OUTPUT, output).is_err() {
        return result;
    }
    let file = if output == 0 { files.create(OUTPUT) } else { files.open(OUTPUT) };
    let Ok(mut file) = file else { return result };
    for number in 0..commits {
        for _ in 0..1 + history.below(6) {
            history.call(&mut frontier);
        }
        let line = vec![b'0' + (number % 10) as u8; 1 + history.below(900) as usize];
        frontier.keep_line(&line).expect("keeps");
        if file.write_at(&line, output).is_err() || file.sync().is_err() || files.sync_folder("").is_err() {
            return result;
        }
        output += line.len() as u64;
        let at_end = history.below(4) == 0;
        let positions = [(OUTPUT, output)];
        let commit = Commit { model: history.model.clone(), output };
        let batch = if at_end { frontier.commit_at_end(&positions) } else { frontier.commit(&positions) };
        let Ok(batch) = batch else { return result };
        let batch = batch.expect("a batch");
        result.in_progress = Some(commit);
        if writer.write(&batch).is_err() {
            return result;
        }
        if let Some(commit) = result.in_progress.take() {
            result.acknowledged = commit;
        }
        // Some commits are never acknowledged to the frontier, which then reads their links from memory.
        if history.below(3) > 0 && frontier.acknowledge(&batch).is_err() {
            return result;
        }
        // At the end of a run, further commits write the remaining portions of the snapshot.
        loop {
            let Ok(batch) = (if at_end { frontier.commit_at_end(&positions) } else { Ok(None) }) else { return result };
            let Some(batch) = batch else { break };
            if writer.write(&batch).is_err() || frontier.acknowledge(&batch).is_err() {
                return result;
            }
        }
    }
    HistoryResult { has_failed: false, ..result }
}

/// Opens the remaining files and checks that they hold one of the two possible commits. Returns that commit.
fn check_files(files: &CrashFiles, result: HistoryResult) -> Commit {
    let files = files.after_kill();
    let opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), result.memory_limit)
        .expect("opens after every fault");
    let mut frontier = opened.frontier;
    let output = frontier.outputs().get(OUTPUT).copied().unwrap_or(0);
    let mut commit = match result.in_progress {
        Some(commit) if commit.output == output => commit,
        _ => result.acknowledged,
    };
    assert_eq!(commit.output, output, "neither the acknowledged commit nor the one in progress");
    commit.model.restart();
    truncate_output(&files, OUTPUT, output).expect("the output is complete up to the commit");
    if !opened.resumed {
        // Nothing was ever committed, so there is no crawl yet.
        assert_eq!((output, frontier.counts().known), (0, 0));
        return commit;
    }
    // The history must agree with the frontier.
    let (mut links, mut final_outcomes, mut lines) = (0, 0, 0);
    let read = history_in(Arc::new(files), |event| {
        match event {
            HistoryEvent::Link { again, .. } => links += u64::from(!again),
            HistoryEvent::FinalOutcome { .. } => final_outcomes += 1,
            HistoryEvent::Line { line } => lines += line.len() as u64,
            HistoryEvent::Note { .. } | HistoryEvent::Round => {}
        }
        Ok::<(), StoreError>(())
    });
    read.expect("a history");
    let counts = frontier.counts();
    assert_eq!((links, final_outcomes, lines), (counts.known, counts.settled, output));
    commit.model.clone().compare_all(&mut frontier);
    commit
}

/// The number of file system calls of a seed's history without a fault.
fn calls_of(seed: u64, commits: usize) -> u64 {
    let files = CrashFiles::default();
    let result = run_history(&files, &mut FrontierHistory::new(seed), Commit::default(), commits);
    assert!(!result.has_failed);
    check_files(&files, result);
    files.calls()
}

#[test]
fn a_power_cut_at_any_call_loses_at_most_the_commit_in_progress() {
    const COMMITS: usize = 14;
    for seed in 0..8 {
        for call in 0..calls_of(seed, COMMITS) {
            let files = CrashFiles::default();
            files.plan(call, InjectedFault::PowerCut);
            let mut history = FrontierHistory::new(seed);
            let result = run_history(&files, &mut history, Commit::default(), COMMITS);
            let remaining = files.after_power_cut(|bound| history.below(bound));
            let commit = check_files(&remaining, result);
            // A second power cut soon after opening: recovery itself may be interrupted.
            let next_cut = remaining.calls() + history.below(12);
            remaining.plan(next_cut, InjectedFault::PowerCut);
            let result = run_history(&remaining, &mut history, commit, 5);
            let remaining = remaining.after_power_cut(|bound| history.below(bound));
            let commit = check_files(&remaining, result);
            let result = run_history(&remaining, &mut history, commit, 3);
            assert!(!result.has_failed, "resumes after two power cuts");
            check_files(&remaining, result);
        }
    }
}

#[test]
fn a_crawl_resumes_after_any_call_failed_once_or_always() {
    let kinds = [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied];
    const COMMITS: usize = 10;
    for seed in 0..4 {
        for call in 0..calls_of(seed, COMMITS) {
            let kind = kinds[(call % 4) as usize];
            for fault in [InjectedFault::Once(kind), InjectedFault::Always(kind)] {
                let files = CrashFiles::default();
                files.plan(call, fault);
                let mut history = FrontierHistory::new(seed);
                let result = run_history(&files, &mut history, Commit::default(), COMMITS);
                // The fingerprint key is random and changes the sizes of tables, so some runs make fewer calls.
                assert!(result.has_failed || files.calls() <= call, "call {call} failed without being noticed");
                let remaining = files.after_kill();
                let commit = check_files(&remaining, result);
                let result = run_history(&remaining, &mut history, commit, 3);
                assert!(!result.has_failed, "resumes once the cause is removed");
                check_files(&remaining, result);
            }
        }
    }
}

#[test]
fn a_full_disk_is_named_and_nothing_is_written_after_a_failure() {
    let files = CrashFiles::default();
    let opened = open_in(Arc::new(files.clone()), &CrawlSettings::new()).expect("opens");
    let (mut frontier, mut writer) = (opened.frontier, opened.writer);
    frontier.keep_line(b"{}").expect("keeps");
    let batch = frontier.commit(&[]).expect("commits").expect("a batch");
    files.plan(files.calls(), InjectedFault::Once(ErrorKind::StorageFull));
    let error = writer.write(&batch).expect_err("the disk is full");
    assert_eq!(error.kind, StoreErrorKind::Full);
    assert!(error.message.contains("crawl/log/000001.log") && error.remedy() == Some(Remedy::FreeSpace), "{error}");
    assert_eq!(writer.write(&batch).expect_err("the failure is permanent"), error);
}

/// Changes one byte of a file, or truncates the file there. Opening must recover some commit, or return an error with
/// a path in the directory.
#[test]
fn a_changed_byte_is_detected() {
    let mut commits = vec![Commit::default()];
    let files = CrashFiles::default();
    let mut history = FrontierHistory::new(77);
    for number in 0..6 {
        let opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), 2_500).expect("opens");
        let (mut frontier, mut writer) = (opened.frontier, opened.writer);
        frontier.set_max_file_size(2_500);
        SnapshotSettings::AT_END.apply(&mut frontier);
        history.model.restart();
        history.run(&mut frontier, 12);
        let positions = [(OUTPUT, number + 1)];
        let batch = if number == 3 { frontier.commit_at_end(&positions) } else { frontier.commit(&positions) };
        writer.write(&batch.expect("commits").expect("a batch")).expect("writes");
        commits.push(Commit { model: history.model.clone(), output: number + 1 });
    }
    let (mut recovered, mut refused) = (0, 0);
    for (name, length) in files.names() {
        // About 300 places of each file (50 of a run file), with a different bit at each.
        let step = 1 + if name.ends_with(".run") { length / 50 } else { length / 300 };
        for at in (0..length).step_by(step) {
            for is_truncated in [false, true] {
                let tampered = files.after_kill();
                tampered
                    .tamper(&name, |bytes| if is_truncated { bytes.truncate(at) } else { bytes[at] ^= 1 << (at % 8) });
                match open_within(Arc::new(tampered), &CrawlSettings::new(), 20_000) {
                    Ok(opened) => {
                        let mut frontier = opened.frontier;
                        // The committed length of the output is also the index of the commit.
                        let output = frontier.outputs().get(OUTPUT).copied().unwrap_or(0);
                        let mut model = commits[output as usize].model.clone();
                        model.restart();
                        if opened.resumed {
                            compare_or_refuse(model, &mut frontier);
                        }
                        recovered += 1;
                    }
                    Err(error) => {
                        assert!(error.message.contains("crawl/"), "{error}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(recovered > 200 && refused > 200, "{recovered} recovered, {refused} refused");
}

/// Compares all links with the model. A link with changed bytes must be detected when it is taken, at the latest.
fn compare_or_refuse(model: FrontierModel, frontier: &mut DiskFrontier) {
    for lane in frontier.lanes_with_work() {
        match frontier.take(lane, usize::MAX) {
            Ok(links) => {
                for link in links {
                    frontier.give_back(vec![link], ReturnTo::End).expect("gives back");
                }
            }
            Err(error) => {
                assert_eq!(error.kind, StoreErrorKind::Damaged, "{error}");
                return;
            }
        }
    }
    match model.knows_all_urls(frontier) {
        Ok(_) => model.compare_all(frontier),
        Err(error) => assert_eq!(error.kind, StoreErrorKind::Damaged, "{error}"),
    }
}

/// Changed fingerprints on disk are detected when they are read, and rebuilt from the log.
#[test]
fn a_damaged_run_file_is_named_and_rebuilt() {
    let files = CrashFiles::default();
    let mut history = FrontierHistory::new(5);
    let opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), NO_MEMORY).expect("opens");
    let (mut frontier, mut writer) = (opened.frontier, opened.writer);
    SnapshotSettings::AT_END.apply(&mut frontier);
    for _ in 0..2 {
        history.run(&mut frontier, 30);
        let batch = frontier.commit_at_end(&[]).expect("commits").expect("a batch");
        writer.write(&batch).expect("writes");
        frontier.acknowledge(&batch).expect("acknowledges");
    }
    let runs: Vec<String> =
        files.names().into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".run")).collect();
    assert_eq!(runs, ["spill/000001.run"]);
    files.tamper(&runs[0], |bytes| bytes[100] ^= 1);
    let mut model = history.model.clone();
    model.restart();
    let mut opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), NO_MEMORY)
        .expect("opening does not read the pages of the run");
    let error = model.knows_all_urls(&mut opened.frontier).expect_err("damaged");
    assert_eq!(error.kind, StoreErrorKind::Damaged);
    assert!(error.message.contains("000001.run") && error.remedy() == Some(Remedy::Rebuild), "{error}");
    let opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), NO_MEMORY).expect("opens");
    let mut frontier = opened.frontier;
    model.compare_all(&mut frontier);
}

/// `--fresh` may be interrupted at any call. The next command must find the old crawl completely, or nothing of it.
#[test]
fn starting_over_may_be_interrupted_at_any_call() {
    let before = CrashFiles::default();
    let result = run_history(&before, &mut FrontierHistory::new(1), Commit::default(), 8);
    assert!(!result.has_failed && result.acknowledged.output > 0);
    before.create("report.txt").and_then(|mut file| file.write_at(b"a report", 0)).expect("writes");
    before.sync_folder("").expect("syncs");
    let complete = before.after_kill();
    let (_, removed) =
        start_over_in(Arc::new(complete.clone()), &CrawlSettings::new(), None, NO_MEMORY).expect("starts over");
    assert!(removed.len() > 5 && removed.iter().any(|name| name == OUTPUT), "{removed:?}");
    let (first, last) = (before.calls(), complete.calls());
    let mut resumed = 0;
    for (call, seed) in (first..last).flat_map(|call| (0..4).map(move |seed| (call, seed))) {
        let files = before.after_kill();
        files.plan(call, InjectedFault::PowerCut);
        assert!(start_over_in(Arc::new(files.clone()), &CrawlSettings::new(), None, NO_MEMORY).is_err());
        let mut random = FrontierHistory::new(seed);
        let remaining = if seed == 0 { files.after_kill() } else { files.after_power_cut(|bound| random.below(bound)) };
        let opened = open_within(Arc::new(remaining.clone()), &CrawlSettings::new(), NO_MEMORY).expect("opens");
        let names: Vec<String> = remaining.names().into_iter().map(|(name, _)| name).collect();
        assert_eq!(opened.resumed, names.iter().any(|name| name == OUTPUT), "{names:?}");
        if opened.resumed {
            resumed += 1;
            truncate_output(&remaining, OUTPUT, result.acknowledged.output).expect("the output is complete");
            assert_eq!(opened.frontier.counts().known, result.acknowledged.model.counts().known);
        } else {
            assert_eq!(opened.frontier.counts().known, 0);
            assert!(names.iter().all(|name| name.starts_with("log/")), "{names:?}");
        }
    }
    assert!(resumed > 0, "an early power cut keeps the old crawl");
}
