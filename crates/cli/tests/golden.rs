//! Crawl directories of earlier versions can be read, reported, exported and resumed.
//!
//! `golden/format-1` is a crawl of six URLs that was stopped with one URL queued. It is never regenerated: a later
//! format gets its own directory.

use argiope_core::{Frontier, StoreError};
use argiope_store::disk;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The frontier may use any amount of memory.
const NO_MEMORY_LIMIT: usize = usize::MAX;

const FILES: [&str; 4] = ["crawl.json", "snapshot", "pages.jsonl", "log/000001.log"];

/// Copies the crawl directory, because tests change it.
fn copy_golden() -> tempfile::TempDir {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format-1");
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("log")).expect("a folder");
    for name in FILES {
        fs::copy(golden.join(name), folder.path().join(name)).expect(name);
    }
    folder
}

fn argiope(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.args(arguments).arg(folder).output().expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_directory_of_format_1_is_reported_and_exported() {
    let folder = copy_golden();
    let report = text(&argiope(&["report"], folder.path()).stdout);
    assert!(report.contains(": 4 pages from 1 host") && report.contains("1 URL still queued"), "{report}");
    let records = fs::read_to_string(folder.path().join("pages.jsonl")).expect("reads");
    assert_eq!(text(&argiope(&["export", "--format", "jsonl"], folder.path()).stdout), records);
    for (format, lines) in [("csv", 6), ("sitemap", 7), ("links", 6)] {
        let out = text(&argiope(&["export", "--format", format], folder.path()).stdout);
        assert_eq!(out.lines().count(), lines, "{out}");
    }
}

#[test]
fn a_directory_of_format_1_is_resumed() {
    for with_snapshot in [true, false] {
        let folder = copy_golden();
        if !with_snapshot {
            fs::remove_file(folder.path().join("snapshot")).expect("removes");
        }
        let settings = disk::history(folder.path(), |_| Ok::<(), StoreError>(())).expect("a history").settings;
        let opened = disk::open(folder.path(), &settings, NO_MEMORY_LIMIT).expect("opens");
        assert!(opened.resumed && opened.messages.is_empty(), "{:?}", opened.messages);
        let mut frontier = opened.frontier;
        let counts = frontier.counts();
        assert_eq!((counts.known, counts.queued, counts.settled), (6, 1, 5));
        let lanes = frontier.lanes_with_work();
        let links = frontier.take(lanes[0], 10).expect("takes");
        assert_eq!(links.len(), 1);
        assert_eq!(links[0].url.as_str(), "http://127.0.0.1:18080/missing.html");
        assert_eq!(links[0].via.as_ref().map(|via| via.as_str()), Some("http://127.0.0.1:18080/"));
        // The committed length of the file of records.
        assert_eq!(frontier.outputs().get("pages.jsonl"), Some(&3_440));
        // From now on the directory has the new format, with a new log file.
        let json = fs::read_to_string(folder.path().join("crawl.json")).expect("reads");
        assert!(json.contains("\"format\": 2,"), "{json}");
        drop((frontier, opened.writer, opened.lock));
        let again = disk::open(folder.path(), &settings, NO_MEMORY_LIMIT).expect("opens again");
        assert_eq!(again.frontier.counts().known, 6);
    }
}

#[test]
fn a_directory_of_a_later_format_is_refused_and_not_changed() {
    let folder = copy_golden();
    let file = folder.path().join("crawl.json");
    let later = fs::read_to_string(&file).expect("reads").replace("\"format\": 1,", "\"format\": 9,");
    fs::write(&file, &later).expect("writes");
    let commands: [&[&str]; 3] = [
        &["report"],
        &["export", "--format", "csv"],
        &["crawl", "http://127.0.0.1:18080/", "--allow-private", "-q", "--fresh", "-d"],
    ];
    for command in commands {
        let out = argiope(command, folder.path());
        assert_eq!(out.status.code(), Some(1), "{command:?}");
        let stderr = text(&out.stderr);
        assert!(stderr.contains("has format 9, this program knows 2; use a newer argiope"), "{stderr}");
    }
    assert_eq!(fs::read_to_string(&file).expect("reads"), later);
    assert!(FILES.iter().all(|name| folder.path().join(name).exists()));
}
