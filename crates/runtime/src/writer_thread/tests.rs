use super::progress::MIN_OUTSTANDING_LIMIT;
use super::*;
use crate::keeper_message::KeeperMessage;
use argiope_store::disk::File;
use argiope_store::disk::{self, CrawlSettings};
use std::io;
use std::sync::{Barrier, Condvar, Mutex};

#[test]
fn a_removed_output_file_is_detected_after_a_commit_without_items() {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = disk::open(folder.path(), &CrawlSettings::new(), usize::MAX).expect("opens");
    let files: Arc<dyn Files> = Arc::new(disk::OsFiles::new(folder.path()));
    let outputs = BTreeMap::new();
    let locked = LockedDirectory { log: opened.writer, files, outputs, lock: opened.lock.map(Arc::new) };
    let (mut outputs, _log) = OutputFiles::new(locked);
    outputs.begin(&["archive/1.warc".into()]).expect("created");
    let items = [Item::Line(b"{}\n".to_vec())];
    outputs.append(writer::pieces(&items, Some("archive/1.warc")), None).expect("written");
    outputs.append(Vec::new(), None).expect("nothing to write");
    outputs.check_existence().expect("it is there");
    std::fs::remove_file(folder.path().join("archive/1.warc")).expect("removed");
    assert!(outputs.check_existence().is_err());
}

#[test]
fn the_limit_of_outstanding_visits_follows_their_rate() {
    let at = |millis: u64| Time::ZERO + Duration::from_millis(millis);
    let mut progress = CommitProgress::default();
    (0..40).for_each(|number| progress.add(at(number * 10)));
    assert_eq!(progress.max_outstanding(), MIN_OUTSTANDING_LIMIT, "at a hundred pages a second, the minimum applies");
    // Ten thousand pages a second.
    (0..10_000).for_each(|number| progress.add(at(1_000 + number / 10)));
    assert!(
        (900..=1_000).contains(&progress.max_outstanding()),
        "the limit is the pages of 100 ms: {}",
        progress.max_outstanding()
    );
    // The disk is slow: for half of the time, requests are held back.
    for round in 0..20_u64 {
        let start = 2_000 + round * 200;
        (0..1_000).for_each(|number| progress.add(at(start + number / 10)));
        progress.set_held(true, at(start + 100));
        (0..64).for_each(|_| progress.add(at(start + 150)));
        progress.set_held(false, at(start + 200));
    }
    let most = progress.max_outstanding();
    assert!((900..=1_000).contains(&most), "the limit becomes neither lower nor higher: {most}");
    (0..200).for_each(|number| progress.add(at(7_000 + 100 * number)));
    assert_eq!(progress.max_outstanding(), MIN_OUTSTANDING_LIMIT, "old samples lose their weight");
}

#[test]
fn visits_in_commits_count_until_these_are_durable() {
    let mut progress = CommitProgress::default();
    progress.add_sent(300, 3_000);
    progress.add_sent(200, 2_000);
    assert_eq!((progress.sent_visits(), progress.sent_bytes()), (500, 5_000));
    progress.remove_durable();
    assert_eq!((progress.sent_visits(), progress.sent_bytes()), (200, 2_000));
}

/// Files of a crawl that stop at certain calls.
struct BarrierFiles {
    inner: disk::OsFiles,
    /// If set, a sync of the log waits until an output file was synced twice. If that takes a minute, the test fails.
    barrier: Option<Arc<SyncBarrier>>,
    /// The creation of each file of an index waits here.
    index_gate: Barrier,
}

/// How many times an output file was synced.
#[derive(Default)]
struct SyncBarrier {
    count: Mutex<usize>,
    changed: Condvar,
}

struct BarrierFile {
    inner: Box<dyn File>,
    is_log: bool,
    barrier: Arc<SyncBarrier>,
}

impl BarrierFiles {
    fn wrap(&self, name: &str, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        let is_log = name.starts_with("log/");
        let Some(barrier) = self.barrier.clone().filter(|_| is_log || name == "pages.jsonl") else { return file };
        file.map(|inner| -> Box<dyn File> { Box::new(BarrierFile { inner, is_log, barrier }) })
    }
}

impl Files for BarrierFiles {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.wrap(name, self.inner.open(name))
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        if name.starts_with("index/") {
            self.index_gate.wait();
        }
        self.wrap(name, self.inner.create(name))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.inner.make_folder(name)
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.inner.list(folder)
    }
    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.inner.sync_folder(folder)
    }
    fn describe(&self, name: &str) -> String {
        self.inner.describe(name)
    }
}

impl File for BarrierFile {
    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
    fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        self.inner.read_at(into, position)
    }
    fn write_at(&mut self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.inner.write_at(bytes, position)
    }
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn sync(&mut self) -> io::Result<()> {
        let SyncBarrier { count, changed } = &*self.barrier;
        let mut count = count.lock().expect("not poisoned");
        if self.is_log {
            let is_too_low = |count: &mut usize| *count < 2;
            let (_count, waited) =
                changed.wait_timeout_while(count, Duration::from_secs(60), is_too_low).expect("not poisoned");
            assert!(!waited.timed_out(), "the outputs of the next commit must not wait for the log");
        } else {
            *count += 1;
            changed.notify_all();
        }
        self.inner.sync()
    }
}

struct Lines(Vec<u8>);

impl VisitConsumer for Lines {
    fn take(&mut self, _: Settled) {}
    fn line(&mut self, line: &[u8]) {
        self.0.extend_from_slice(line);
    }
    fn flush(&mut self) {}
}

#[test]
fn outputs_are_synced_while_the_log_of_the_previous_commit_is_synced() {
    let folder = tempfile::tempdir().expect("a folder");
    let files: Arc<dyn Files> = Arc::new(BarrierFiles {
        inner: disk::OsFiles::new(folder.path()),
        barrier: Some(Arc::default()),
        index_gate: Barrier::new(1),
    });
    let mut opened = disk::open_in(Arc::clone(&files), &CrawlSettings::new()).expect("opens");
    let locked = LockedDirectory { log: opened.writer, files, outputs: BTreeMap::new(), lock: None };
    let (outputs, log) = OutputFiles::new(locked);
    let (inbox, messages) = std::sync::mpsc::channel();
    let (to_writer, commits) = sync_channel(3);
    for number in 1..=3_u64 {
        let line = format!("{{\"line\":{number}}}\n").into_bytes();
        opened.frontier.keep_line(&line).expect("kept");
        // Each line has 11 bytes.
        let batch = opened.frontier.commit(&[("pages.jsonl", 11 * number)]).expect("commits");
        let begins = if number == 1 { vec!["pages.jsonl".into()] } else { Vec::new() };
        to_writer.send(CommitUnit { begins, items: vec![Item::Line(line)], batch }).expect("a receiver");
    }
    drop(to_writer);
    let jsonl = Some("pages.jsonl".into());
    let writer =
        Writer { outputs: Some(outputs), log: Some(log), jsonl, consumer: Lines(Vec::new()), inbox: inbox.into() };
    writer.run(commits).expect("written");
    assert_eq!(messages.iter().filter(|message| matches!(message, KeeperMessage::Durable(_))).count(), 3);
    let written = std::fs::read_to_string(folder.path().join("pages.jsonl")).expect("a file");
    assert_eq!(written, "{\"line\":1}\n{\"line\":2}\n{\"line\":3}\n");
}

#[test]
fn the_directory_is_locked_until_the_compaction_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let (inner, index_gate) = (disk::OsFiles::new(folder.path()), Barrier::new(2));
    let files = Arc::new(BarrierFiles { inner, barrier: None, index_gate });
    let shared: Arc<dyn Files> = Arc::clone(&files) as _;
    let mut opened = disk::open_in(Arc::clone(&shared), &CrawlSettings::new()).expect("opens");
    opened.frontier.set_max_file_size(1);
    let lock = Some(Arc::new(Lock::take(&folder.path().join("lock")).expect("locks")));
    let locked = LockedDirectory { log: opened.writer, files: shared, outputs: BTreeMap::new(), lock };
    let target = OutputTarget { folder: Some(locked), ..OutputTarget::default() };
    let (inbox, messages) = std::sync::mpsc::channel();
    let mut commits = CommitQueue::new(target, Lines(Vec::new()), inbox, None);
    for _ in 0..2 {
        opened.frontier.keep_line(b"{}\n").expect("kept");
        commits.send(&mut opened.frontier).expect("sent");
        let Ok(KeeperMessage::Durable(batch)) = messages.recv() else { panic!("the commit is durable") };
        commits.mark_durable(&batch, &mut opened.frontier).expect("marked");
    }
    // An index is written through two files, so the compaction waits for the second passage.
    files.index_gate.wait();
    commits.to_writer = None;
    let WriterThread::Running(writer) = std::mem::replace(&mut commits.writer, WriterThread::Ended) else {
        panic!("the writer runs");
    };
    writer.join().expect("no panic").expect("written");
    let compaction = commits.compaction.take().expect("a compaction");
    drop(commits);
    assert!(disk::crawled_by(folder.path()).is_some(), "the compaction writes to the directory");
    files.index_gate.wait();
    compaction.join().expect("no panic").expect("indexed");
    assert_eq!(disk::crawled_by(folder.path()), None);
}
