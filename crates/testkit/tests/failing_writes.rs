//! Every call of every file operation fails, once or from then on, while keeper, outputs thread and writer thread run.
//!
//! No thread may wait for another one that has stopped, and the next run must find every file that has content in the
//! log. So the crawl can be resumed and nothing is lost.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use argiope_core::Time;
use argiope_core::crawl::rules::{Config, EngineName, ProgramSettings, Rules};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_engine::Clock;
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use argiope_runtime::Error;
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{CrawlSetup, KeeperHandle, KeeperMessage, VisitConsumer};
use argiope_runtime::writer_thread::{CommitQueue, LockedDirectory, OutputFile, OutputTarget};
use argiope_store::disk::{CrawlSettings, DiskFrontier, Files, OutputHash, open_in, truncate_output};
use argiope_testkit::crash_files::{CrashFiles, InjectedFault};
use argiope_testkit::crawling;

const OUTPUT: &str = "pages.jsonl";
/// The output file that a commit in the middle of a run begins.
const SECOND_OUTPUT: &str = "archive/00001.warc.gz";
/// After this time, a thread counts as waiting for ever.
const TIMEOUT: Duration = Duration::from_secs(100);
const FAULTS: [InjectedFault; 2] =
    [InjectedFault::Once(ErrorKind::StorageFull), InjectedFault::Always(ErrorKind::StorageFull)];
/// How many runs are in progress at the same time.
const AT_ONCE: u64 = 8;

/// Opens the directory in these files as a crawl does: truncates the outputs to the last commit, and refuses files that
/// have content and are not listed.
fn open(files: &CrashFiles) -> (DiskFrontier, OutputTarget) {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let opened = open_in(Arc::clone(&shared), &CrawlSettings::new()).expect("opens after every fault");
    let outputs = opened.frontier.outputs().clone();
    for (name, length) in files.names() {
        let is_output = [OUTPUT, SECOND_OUTPUT].contains(&&*name);
        assert!(!is_output || length == 0 || outputs.contains_key(&*name), "{name} has content and is not listed");
    }
    for (name, committed) in &outputs {
        truncate_output(&*shared, name, *committed).expect("the output is complete up to the commit");
    }
    let length = outputs.get(OUTPUT).copied().unwrap_or(0);
    let hash = OutputHash::of(&*shared, OUTPUT, length).expect("can be read");
    let folder = LockedDirectory { log: opened.writer, files: shared, outputs, lock: None };
    let jsonl = Some(OutputFile { name: OUTPUT.into(), hash });
    (opened.frontier, OutputTarget { folder: Some(folder), jsonl, first_line: None })
}

/// The content of a file.
fn content(files: &CrashFiles, name: &str) -> Vec<u8> {
    let length = files.names().into_iter().find_map(|(found, length)| (found == name).then_some(length));
    let mut bytes = vec![0; length.unwrap_or(0)];
    if length.is_some() {
        files.open(name).and_then(|file| file.read_at(&mut bytes, 0)).expect("can be read");
    }
    bytes
}

/// Runs `run` for the first call, the second and so on, until `run` returns false: the run made fewer calls.
fn at_every_call(run: impl Fn(u64, InjectedFault) -> bool + Sync) -> u64 {
    let mut calls = 0;
    loop {
        let all_hit = thread::scope(|scope| {
            let cases = (calls..calls + AT_ONCE).flat_map(|call| FAULTS.map(|fault| (call, fault)));
            let run = &run;
            let runs: Vec<_> = cases.map(|(call, fault)| scope.spawn(move || run(call, fault))).collect();
            runs.into_iter().map(|run| run.join().expect("the run is as expected")).filter(|is_hit| !is_hit).count()
                == 0
        });
        if !all_hit {
            return calls;
        }
        calls += AT_ONCE;
    }
}

/// Runs work that may hang; panics if it does.
fn within_timeout<R: Send + 'static>(what: &str, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, result) = channel();
    thread::spawn(move || sender.send(work()));
    match result.recv_timeout(TIMEOUT) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: a thread waits for ever"),
        Err(RecvTimeoutError::Disconnected) => panic!("{what}: a panic"),
    }
}

struct Discard;

impl VisitConsumer for Discard {
    fn take(&mut self, _: Settled) {}
    fn flush(&mut self) {}
}

/// How the keeper of [`write_lines`] sends commits.
#[derive(Clone, Copy, Debug)]
enum Sending {
    /// As a keeper that has nothing else to do: when [`CommitQueue::should_send`] says so, and after each commit it waits
    /// until that is durable if `true`.
    WhenDue { one_by_one: bool },
    /// As a keeper whose next commit is many times its usual size: at once, even if the writer is behind.
    AtOnce,
}

const LINES: u64 = 9;

/// The keeper's part of a run with several commits, without a network.
fn write_lines((mut frontier, target): (DiskFrontier, OutputTarget), sending: Sending) -> Result<(), Error> {
    let (inbox, messages) = channel();
    frontier.set_snapshots(0, 0, 50);
    frontier.set_max_file_size(300);
    let mut commits = CommitQueue::new(target, Discard, inbox, None);
    let sent = send_lines(&mut commits, &mut frontier, &messages, sending);
    let ended = commits.end();
    sent.and(ended)
}

fn send_lines(
    commits: &mut CommitQueue,
    frontier: &mut DiskFrontier,
    messages: &Receiver<KeeperMessage>,
    sending: Sending,
) -> Result<(), Error> {
    let mut now = Time::ZERO;
    let wait = |commits: &mut CommitQueue, frontier: &mut DiskFrontier| match messages.recv() {
        Ok(KeeperMessage::Durable(batch)) => commits.mark_durable(&batch, frontier),
        Ok(KeeperMessage::Fault(fault)) => Err(fault),
        _ => panic!("the writer ended without a message"),
    };
    commits.prepare_first_commit(frontier)?;
    let written = frontier.lines();
    commits.send_first_commit_once()?;
    for number in written..LINES {
        if number == LINES / 2 {
            commits.begin_output(SECOND_OUTPUT);
        }
        commits.add_line(format!("{{\"line\":{number}}}\n").into_bytes(), frontier, now)?;
        now += Duration::from_secs(1);
        while matches!(sending, Sending::WhenDue { .. }) && !commits.should_send(now) {
            wait(commits, frontier)?;
        }
        commits.send(frontier)?;
        while matches!(sending, Sending::WhenDue { one_by_one: true }) && commits.outstanding_bytes() > 0 {
            wait(commits, frontier)?;
        }
    }
    // As a keeper that waits for the reader of the last page.
    while commits.outstanding_bytes() > 0 {
        wait(commits, frontier)?;
    }
    commits.send_last(frontier)
}

#[test]
fn no_failure_of_a_write_leaves_keeper_outputs_or_log_waiting() {
    let expected: String = (0..LINES).map(|number| format!("{{\"line\":{number}}}\n")).collect();
    for sending in [Sending::WhenDue { one_by_one: true }, Sending::WhenDue { one_by_one: false }, Sending::AtOnce] {
        let calls = at_every_call(|call, fault| {
            let what = format!("{sending:?}, call {call}, {fault:?}");
            let files = CrashFiles::default();
            let run = |opened| within_timeout(&what, move || write_lines(opened, sending));
            let opened = open(&files);
            let planned = files.calls() + call;
            files.plan(planned, fault);
            let result = run(opened);
            let is_hit = files.calls() > planned;
            assert_eq!(result.is_err(), is_hit, "{what}: {result:?}");
            let remaining = files.after_kill();
            let result = run(open(&remaining));
            assert!(result.is_ok(), "{what}, resumed: {result:?}");
            assert_eq!(String::from_utf8_lossy(&content(&remaining, OUTPUT)), expected, "{what}");
            is_hit
        });
        assert!(calls >= 40, "{calls}");
    }
}

/// Passes all visits to the test.
struct Reader(Sender<Settled>);

impl VisitConsumer for Reader {
    fn take(&mut self, settled: Settled) {
        // Ignored: the test may have stopped reading.
        let _ = self.0.send(settled);
    }

    fn flush(&mut self) {}
}

const PAGES: usize = 12;

fn serve() -> (RunningWeb, String) {
    let path = |number: usize| format!("/{number}");
    let mut site = Site::http("127.5.3.2:0").expect("a loopback address");
    for number in 0..PAGES {
        let links = (number + 1 < PAGES).then(|| path(number + 1));
        // Each page takes as long as a commit may wait, so that most pages are in a commit of their own.
        site = site.page(&path(number), Response::links(links).delay(Duration::from_millis(30)));
    }
    let root = site.url("/0");
    (PracticeWeb::new().site(site).start().expect("a server"), root)
}

/// Crawls as the library does: the crawl waits until its reader has processed each page.
fn crawl((mut frontier, target): (DiskFrontier, OutputTarget), rules: Arc<Rules>) -> Result<(), Error> {
    frontier.set_snapshots(0, 0, 200);
    let (sender, visits) = channel();
    let keeper = KeeperHandle::start(CrawlSetup {
        frontier,
        fetchers: Fetchers::engine(EngineName::Tokio),
        rules,
        clock: Clock::start(),
        consumer: Reader(sender),
        target,
        accepts_links: true,
    })?;
    let mut processed = 0;
    loop {
        // Ignored: the keeper may have ended.
        let _ = keeper.inbox.send(KeeperMessage::Processed(std::iter::once(0..processed).collect(), None));
        let _ = keeper.inbox.send(KeeperMessage::Taken { pages: processed, is_waiting: true });
        match visits.recv() {
            Ok(settled) => processed += u64::from(settled.visit.is_page()),
            Err(_) => break,
        }
    }
    keeper.join().map(drop)
}

#[test]
fn a_crawl_with_an_archive_resumes_after_every_failing_call() {
    let (_web, root) = serve();
    let config = Config { warc: true, ..crawling::config(EngineName::Tokio, &[&root]) };
    let rules = || Arc::new(argiope_runtime::rules(&config, ProgramSettings::default()).expect("valid settings"));
    let calls = at_every_call(|call, fault| {
        let what = format!("call {call}, {fault:?}");
        let files = CrashFiles::default();
        let run = |opened| {
            let rules = rules();
            within_timeout(&what, move || crawl(opened, rules))
        };
        let opened = open(&files);
        let planned = files.calls() + call;
        files.plan(planned, fault);
        let result = run(opened);
        let is_hit = files.calls() > planned;
        assert_eq!(result.is_err(), is_hit, "{what}: {result:?}");
        let remaining = files.after_kill();
        let result = run(open(&remaining));
        assert!(result.is_ok(), "{what}, resumed: {result:?}");
        check_records(&remaining, &what);
        is_hit
    });
    assert!(calls >= 40, "{calls}");
}

/// Checks that each page has one record, and that the archive has each page where its record says.
fn check_records(files: &CrashFiles, what: &str) {
    let archive = content(files, SECOND_OUTPUT);
    let mut pages = BTreeMap::new();
    for line in content(files, OUTPUT).split_inclusive(|byte| *byte == b'\n') {
        let record: serde_json::Value = serde_json::from_slice(line).expect("a record is JSON");
        if record["type"] == "page" {
            let place = &record["warc"];
            let offset = place["offset"].as_u64().expect("an offset") as usize;
            let member = archive.get(offset..).unwrap_or_default();
            assert!(member.starts_with(&[0x1f, 0x8b]), "{what}: the archive has no record at {offset}");
            let url = record["url"].as_str().expect("a URL").to_owned();
            assert_eq!(pages.insert(url, offset), None, "{what}: a second record");
        }
    }
    assert_eq!(pages.len(), PAGES, "{what}: {pages:?}");
}
