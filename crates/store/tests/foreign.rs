//! Files that a crawl did not write are neither overwritten nor removed. Symbolic and hard links are not written
//! through.

use argiope_core::crawl::schedule::frontier::put_all;
use argiope_core::{Frontier, Link, StoreError, StoreErrorKind, Url};
use argiope_store::Commits as _;
use argiope_store::disk::{CommitBatch, CrawlSettings, OpenedDirectory, history, open, remove, start_over};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Opens a directory without a memory limit.
fn open_directory(directory: &Path) -> Result<OpenedDirectory, StoreError> {
    open(directory, &CrawlSettings::new(), usize::MAX)
}

/// Creates a directory with one commit, which lists an output and a report.
fn make_crawl(directory: &Path) {
    let mut opened = open_directory(directory).expect("opens");
    let root = Link::root(Url::parse("https://h.example/").expect("a URL"), 5);
    put_all(&mut opened.frontier, &[root]).expect("put");
    opened.frontier.record_created("report.txt").expect("keeps");
    let batch = opened.frontier.commit(&[("archive/00001.warc.gz", 0)]).expect("commits").expect("a batch");
    opened.writer.write(&batch).expect("writes");
}

/// The error of opening the directory.
fn refusal_of(directory: &Path) -> StoreError {
    open_directory(directory).err().expect("it is refused")
}

#[test]
fn a_folder_with_files_of_the_user_is_refused() {
    for name in ["report.txt", "log/000001.log", "log/notes.txt", "snapshot", "archive/00001.warc.gz", "crawl.json.new"]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(&file, "years of work").expect("written");
        let error = refusal_of(folder.path());
        assert!(error.kind == StoreErrorKind::Format && error.message.contains(name), "{name}: {error}");
        assert!(start_over(folder.path(), &CrawlSettings::new(), None, usize::MAX).is_err(), "{name}");
        assert!(remove(folder.path(), None).is_err(), "{name}");
        assert_eq!(fs::read_to_string(&file).expect("still there"), "years of work", "{name}");
    }
}

#[test]
fn leftovers_of_an_interrupted_start_are_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open_directory(folder.path()).expect("opens"));
    assert!(folder.path().join("log/000001.log").exists() && !folder.path().join("crawl.json").exists());
    fs::write(folder.path().join("pages.jsonl"), "").expect("written");
    fs::write(folder.path().join("crawl.json.new"), "{\n  \"form").expect("written");
    make_crawl(folder.path());
    assert!(open_directory(folder.path()).expect("opens").resumed);
}

/// Puts many links, as a list of roots does, and seals them in a commit.
fn commit_links(opened: &mut OpenedDirectory, numbers: Range<u32>) -> CommitBatch {
    let url = |number| Url::parse(&format!("https://h.example/{number}")).expect("a URL");
    put_all(&mut opened.frontier, &numbers.map(|number| Link::root(url(number), 5)).collect::<Vec<_>>()).expect("put");
    opened.frontier.commit(&[]).expect("commits").expect("a batch")
}

/// The second commit is sealed while the first one is being written. Then the process is killed.
#[test]
fn nothing_is_spilled_before_the_first_commit_is_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let open_small = || open(folder.path(), &CrawlSettings::new(), 16 << 10).expect("it is not refused");
    let spilled = || fs::read_dir(folder.path().join("spill")).map_or(0, Iterator::count);
    let mut killed = open_small();
    commit_links(&mut killed, 0..2_000);
    commit_links(&mut killed, 2_000..4_000);
    drop(killed);
    assert_eq!(spilled(), 0);
    let mut opened = open_small();
    let first = commit_links(&mut opened, 0..2_000);
    opened.writer.write(&first).expect("writes");
    opened.frontier.acknowledge(&first).expect("acknowledges");
    commit_links(&mut opened, 2_000..4_000);
    assert!(spilled() > 0, "so many links need more memory");
}

#[test]
fn remove_deletes_the_files_that_the_log_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    make_crawl(folder.path());
    fs::create_dir(folder.path().join("archive")).expect("a folder");
    let files = ["archive/00001.warc.gz", "archive/mine.warc.gz", "report.txt", "report.html", "log/notes.log"];
    for name in files {
        fs::write(folder.path().join(name), "text").expect("written");
    }
    let removed = remove(folder.path(), None).expect("removes");
    assert_eq!(removed, ["archive/00001.warc.gz", "report.txt", "log/000001.log", "crawl.json"]);
    for name in ["archive/mine.warc.gz", "report.html", "log/notes.log"] {
        assert_eq!(fs::read_to_string(folder.path().join(name)).expect("still there"), "text", "{name}");
    }
}

#[test]
fn a_foreign_snapshot_in_a_crawl_directory_is_not_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    make_crawl(folder.path());
    fs::write(folder.path().join("snapshot"), "a picture of the sea, taken in summer").expect("written");
    assert!(refusal_of(folder.path()).message.contains("snapshot"));
    let removed = remove(folder.path(), None).expect("removes");
    assert!(!removed.contains(&"snapshot".to_owned()), "{removed:?}");
    assert!(fs::read_to_string(folder.path().join("snapshot")).expect("still there").starts_with("a picture"));
}

#[test]
fn symbolic_and_hard_links_are_not_written_through() {
    let outside = tempfile::tempdir().expect("a folder");
    let victim = outside.path().join("victim");
    let original = "{\n  \"format\": the user's own text";
    fs::write(&victim, original).expect("written");
    let assert_unchanged = |name: &str| {
        assert_eq!(fs::read_to_string(&victim).expect("still there"), original, "{name}");
        assert_eq!(fs::read_dir(outside.path()).expect("a folder").count(), 1, "{name}");
    };
    for name in ["log", "lock", "crawl.json.new", "crawl.json", "archive", "snapshot"] {
        let folder = tempfile::tempdir().expect("a folder");
        let target = if matches!(name, "log" | "archive") { outside.path() } else { &victim };
        symlink(target, folder.path().join(name)).expect("a link");
        let opened = open_directory(folder.path());
        assert_unchanged(name);
        assert!(opened.is_err(), "{name}");
    }
    for name in ["lock", "crawl.json.new"] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::hard_link(&victim, folder.path().join(name)).expect("a link");
        let refused = match open_directory(folder.path()) {
            Err(error) => error,
            Ok(mut opened) => {
                opened.frontier.keep_line(b"{}").expect("keeps");
                let batch = opened.frontier.commit(&[]).expect("commits").expect("a batch");
                opened.writer.write(&batch).expect_err("it is not written to")
            }
        };
        assert!(refused.message.contains("hard link") || refused.message.contains("not the lock"), "{refused}");
        assert_unchanged(name);
    }
    let folder = tempfile::tempdir().expect("a folder");
    make_crawl(folder.path());
    let log = folder.path().join("log/000001.log");
    fs::hard_link(&log, folder.path().join("copy")).expect("a link");
    history(folder.path(), |_| Ok::<(), StoreError>(())).expect("it can be read");
}

#[test]
fn a_pipe_is_refused_without_waiting() {
    for name in ["lock", "crawl.json", "crawl.json.new", "log/000001.log", "snapshot"] {
        let folder = tempfile::tempdir().expect("a folder");
        if name == "snapshot" {
            make_crawl(folder.path());
        }
        let pipe = folder.path().join(name);
        fs::create_dir_all(pipe.parent().expect("a folder")).expect("made");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
        assert!(open_directory(folder.path()).is_err(), "{name}");
    }
}

/// Sparse files take no disk space. Data that cannot be a commit is refused without reading all of it.
#[test]
fn huge_sparse_files_are_refused_without_reading_them_whole() {
    for name in ["log/000001.log", "crawl.json"] {
        let folder = tempfile::tempdir().expect("a folder");
        make_crawl(folder.path());
        let file = fs::File::options().write(true).open(folder.path().join(name)).expect("there");
        file.set_len(16 << 30).expect("a sparse file");
        let error = refusal_of(folder.path());
        assert!(error.kind == StoreErrorKind::Damaged && error.message.contains(name), "{error}");
    }
    // A short tail is a normal result of a crash.
    let folder = tempfile::tempdir().expect("a folder");
    make_crawl(folder.path());
    let file = fs::File::options().write(true).open(folder.path().join("log/000001.log")).expect("there");
    let length = file.metadata().expect("metadata").len();
    file.set_len(length + (64 << 20)).expect("a sparse file");
    let opened = open_directory(folder.path()).expect("opens");
    assert_eq!(opened.messages.len(), 1, "{:?}", opened.messages);
    assert_eq!(file.metadata().expect("metadata").len(), length);
}

#[test]
fn bytes_that_look_like_frames_are_searched_in_linear_time() {
    let folder = tempfile::tempdir().expect("a folder");
    make_crawl(folder.path());
    let log = folder.path().join("log/000001.log");
    let original = fs::read(&log).expect("reads");
    // The start of a frame with a wrong checksum.
    let mark = [b"\xA7FRM".as_slice(), &(1_u32 << 20).to_le_bytes(), &[7; 8]].concat();
    fs::write(&log, [&original[..], &mark.repeat(1 << 17)].concat()).expect("written");
    let error = refusal_of(folder.path());
    assert!(
        error.message.contains("look like the start of a commit")
            && error.message.contains(&format!("cut the file to {}", original.len())),
        "{error}"
    );
    // Follows the advice of the message.
    fs::File::options().write(true).open(&log).expect("there").set_len(original.len() as u64).expect("cut");
    assert_eq!(open_directory(folder.path()).expect("opens").frontier.counts().known, 1);
}
