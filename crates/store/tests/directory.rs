//! The crawl directory on a real file system.

use argiope_core::crawl::schedule::frontier::{Settlement, put_all};
use argiope_core::{FinalOutcome, Frontier, Link, LinkKind, Outcome, StoreError, StoreErrorKind, Url};
use argiope_store::Commits as _;
use argiope_store::disk::{self, CrawlSettings, HistoryEvent, OsFiles, history, open, remove, truncate_output};
use std::fs;
use std::path::Path;

fn settings(pairs: &[(&str, &[&str])]) -> CrawlSettings {
    let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    pairs.iter().map(|(name, values)| ((*name).to_owned(), texts(values))).collect()
}

fn link(address: &str, via: Option<&str>) -> Link {
    let url = |text: &str| Url::parse(text).expect("a URL");
    let via = via.map(url);
    Link { url: url(address), via, depth: 1, redirects: 3, tries: 0, kind: LinkKind::Anchor, request: None }
}

/// Puts three links, settles one, stores a record and two notes about one lane, and commits.
fn crawl_a_little(directory: &Path) {
    let mut opened = open(directory, &CrawlSettings::new(), usize::MAX).expect("opens");
    let page = Some("https://a.example/");
    let put = put_all(
        &mut opened.frontier,
        &[link("https://a.example/", None), link("https://a.example/x?y", page), link("http://b.example:81/", page)],
    );
    let lane = put.expect("put").lanes[0];
    opened.frontier.keep_line(br#"{"type":"run"}"#).expect("keeps");
    let taken = opened.frontier.take(lane, 1).expect("takes");
    let final_outcome = FinalOutcome {
        outcome: Outcome::HttpError,
        status: Some(404),
        record: br#"{"type":"page"}"#,
        is_fetched_page: true,
    };
    opened.frontier.settle(&mut [Settlement::of(&taken[0], final_outcome)]).expect("settles");
    opened.frontier.write_note(lane, b"early").expect("keeps");
    opened.frontier.write_note(lane, b"resting").expect("keeps");
    let batch = opened.frontier.commit(&[("pages.jsonl", 16)]).expect("commits").expect("a batch");
    opened.writer.write(&batch).expect("writes");
    opened.frontier.acknowledge(&batch).expect("acknowledges");
    assert!(
        opened.frontier.commit(&[("pages.jsonl", 16)]).expect("commits").is_none(),
        "a commit without events is not made"
    );
}

#[test]
fn committed_data_survives_a_restart_and_is_in_the_history() {
    let folder = tempfile::tempdir().expect("a folder");
    crawl_a_little(folder.path());
    for has_snapshot in [false, true, true] {
        let mut opened = open(folder.path(), &CrawlSettings::new(), usize::MAX).expect("opens");
        let counts = opened.frontier.counts();
        assert_eq!((opened.resumed, counts.known, counts.queued, counts.settled), (true, 3, 2, 1));
        let lane = opened.frontier.lane_of("a.example").expect("a lane");
        assert_eq!(opened.frontier.read_note(lane).expect("reads").as_deref(), Some(b"resting".as_slice()));
        assert_eq!((opened.frontier.lines(), opened.frontier.outputs().get("pages.jsonl")), (1, Some(&16)));
        assert_eq!(folder.path().join("snapshot").exists(), has_snapshot);
        // The log is short, so a snapshot is not worth its syncs unless one is requested explicitly.
        assert!(opened.frontier.commit_at_end(&[]).expect("commits").is_none());
        // A snapshot at the end of the run, however little the log has grown.
        opened.frontier.set_snapshots(u64::MAX, 0, 1 << 20);
        if let Some(batch) = opened.frontier.commit_at_end(&[]).expect("commits") {
            opened.writer.write(&batch).expect("writes");
        }
    }
    let mut events = Vec::new();
    history(folder.path(), |event| {
        events.push(match event {
            HistoryEvent::Link { url, via, .. } => format!("{url} via {}", via.unwrap_or("none")),
            HistoryEvent::FinalOutcome { outcome, status, line } => {
                format!("{outcome} {status:?} {}", String::from_utf8_lossy(line))
            }
            HistoryEvent::Line { line } => String::from_utf8_lossy(line).into_owned(),
            HistoryEvent::Round => "round".to_owned(),
            HistoryEvent::Note { host, note } => format!("{host} is {}", String::from_utf8_lossy(note)),
        });
        Ok::<(), StoreError>(())
    })
    .expect("a history");
    assert_eq!(
        events,
        [
            "https://a.example/ via none",
            "https://a.example/x?y via https://a.example/",
            "http://b.example:81/ via https://a.example/",
            r#"{"type":"run"}"#,
            r#"http_error Some(404) {"type":"page"}"#,
            "a.example is early",
            "a.example is resting",
        ]
    );
}

#[test]
fn a_directory_in_use_is_refused_and_its_history_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    crawl_a_little(folder.path());
    let locked = open(folder.path(), &CrawlSettings::new(), usize::MAX).expect("opens");
    let refused = open(folder.path(), &CrawlSettings::new(), usize::MAX).err().expect("the directory is locked");
    assert_eq!(refused.kind, StoreErrorKind::Locked);
    assert!(refused.message.contains(&std::process::id().to_string()), "{refused}");
    assert_eq!(remove(folder.path(), None).expect_err("the directory is locked").kind, StoreErrorKind::Locked);
    history(folder.path(), |_| Ok::<(), StoreError>(())).expect("a history");
    drop(locked);
    open(folder.path(), &CrawlSettings::new(), usize::MAX).expect("the lock is released");
}

#[test]
fn other_settings_are_refused_and_the_difference_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = settings(&[("roots", &["https://a/", "https://b/"]), ("scope", &["host"])]);
    let mut opened = open(folder.path(), &first, usize::MAX).expect("opens");
    opened.frontier.keep_line(b"{}").expect("keeps");
    let batch = opened.frontier.commit(&[]).expect("commits").expect("a batch");
    opened.writer.write(&batch).expect("writes");
    drop(opened);
    assert!(open(folder.path(), &first, usize::MAX).expect("opens again").resumed);
    let second = settings(&[("roots", &["https://a/", "https://c/"]), ("scope", &["host"]), ("exclude", &["x"])]);
    let refused = open(folder.path(), &second, usize::MAX).err().expect("another crawl");
    assert_eq!(refused.kind, StoreErrorKind::OtherCrawl);
    let shown: Vec<&str> = refused.message.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(shown, ["  + exclude: x", "  - roots: https://b/", "  + roots: https://c/"]);
}

#[test]
fn another_format_is_refused_and_so_is_a_changed_crawl_file() {
    let folder = tempfile::tempdir().expect("a folder");
    crawl_a_little(folder.path());
    let file = folder.path().join("crawl.json");
    let text = fs::read_to_string(&file).expect("reads");
    fs::write(&file, text.replace("\"format\": 1", "\"format\": 2")).expect("writes");
    assert_eq!(
        open(folder.path(), &CrawlSettings::new(), usize::MAX).err().expect("another format").kind,
        StoreErrorKind::Format
    );
    fs::write(&file, text.replace("\"settings\": {}", "\"settings\": {\"a\": []}")).expect("writes");
    assert_eq!(
        open(folder.path(), &CrawlSettings::new(), usize::MAX).err().expect("changed").kind,
        StoreErrorKind::Damaged
    );
}

#[test]
fn a_folder_with_foreign_files_is_not_modified() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("thesis.tex"), "years of work").expect("writes");
    let refused = open(folder.path(), &CrawlSettings::new(), usize::MAX).err().expect("no crawl directory");
    assert!(refused.kind == StoreErrorKind::Format && refused.message.contains("thesis.tex"), "{refused}");
    assert_eq!(remove(folder.path(), None).expect_err("no crawl directory").kind, StoreErrorKind::Format);
    assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 1);
}

#[test]
fn remove_deletes_only_files_of_the_crawl() {
    let folder = tempfile::tempdir().expect("a folder");
    crawl_a_little(folder.path());
    fs::write(folder.path().join("pages.jsonl"), "{\"type\":\"page\"}\n").expect("writes");
    fs::write(folder.path().join("notes.txt"), "mine").expect("writes");
    fs::write(folder.path().join("log/mine.log"), "mine too").expect("writes");
    let removed = remove(folder.path(), None).expect("removes");
    assert_eq!(removed, ["pages.jsonl", "log/000001.log", "crawl.json"]);
    assert!(folder.path().join("notes.txt").exists() && folder.path().join("log/mine.log").exists());
}

#[test]
fn outputs_are_truncated_to_their_committed_length() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = OsFiles::new(folder.path());
    fs::write(folder.path().join("out"), "committed, and more").expect("writes");
    assert_eq!(truncate_output(&files, "out", 9), Ok(10));
    assert_eq!(fs::read_to_string(folder.path().join("out")).expect("reads"), "committed");
    assert_eq!(truncate_output(&files, "out", 9), Ok(0));
    assert_eq!(truncate_output(&files, "none", 0), Ok(0));
    let lost = truncate_output(&files, "out", 10).expect_err("shorter than what is committed");
    assert!(lost.kind == StoreErrorKind::Damaged && lost.message.contains("out"), "{lost}");
    assert_eq!(truncate_output(&files, "none", 1).expect_err("missing").kind, StoreErrorKind::Damaged);
}

#[test]
fn a_missing_log_file_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    crawl_a_little(folder.path());
    fs::remove_file(folder.path().join("log/000001.log")).expect("removes");
    let refused = disk::open(folder.path(), &CrawlSettings::new(), usize::MAX).err().expect("no log");
    assert!(refused.kind == StoreErrorKind::Damaged && refused.message.contains("000001.log"), "{refused}");
}

#[test]
fn failed_links_count_as_fetched_only_if_their_host_was_contacted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut opened = open(folder.path(), &CrawlSettings::new(), usize::MAX).expect("opens");
    let error = |kind: &str| format!(r#""error":{{"kind":"{kind}","message":"x"}}"#);
    let records = [
        (Outcome::Ok, r#""tries":1,"ms":{"total":5}"#.to_owned()),
        (Outcome::Failed, format!(r#""tries":1,"ms":{{"total":5}},{}"#, error("reset"))),
        (Outcome::Failed, format!(r#""tries":0,"ms":{{}},{}"#, error("dns_timeout"))),
        (Outcome::Failed, format!(r#""tries":0,"ms":{{}},{}"#, error("dns_nxdomain"))),
        // An earlier attempt was answered, and the last one found no connection: the page was not counted.
        (Outcome::Failed, format!(r#""tries":2,"ms":{{"total":5}},{}"#, error("connect_refused"))),
        (Outcome::Failed, format!(r#""tries":2,"ms":{{}},{}"#, error("dns_timeout"))),
    ];
    let links: Vec<_> = (0..records.len()).map(|number| link(&format!("https://a.example/{number}"), None)).collect();
    let lane = put_all(&mut opened.frontier, &links).expect("put").lanes[0];
    let taken = opened.frontier.take(lane, records.len()).expect("takes");
    for (link, (outcome, fields)) in taken.iter().zip(records) {
        let record = format!(r#"{{"v":1,"type":"page",{fields}}}"#);
        let final_outcome =
            FinalOutcome { outcome, status: None, record: record.as_bytes(), is_fetched_page: outcome == Outcome::Ok };
        opened.frontier.settle(&mut [Settlement::of(link, final_outcome)]).expect("settles");
    }
    let batch = opened.frontier.commit(&[]).expect("commits").expect("a batch");
    opened.writer.write(&batch).expect("writes");
    opened.frontier.acknowledge(&batch).expect("acknowledges");
    let unreached = opened.frontier.unreached_links().expect("reads");
    assert_eq!((unreached.len(), unreached.fetched), (5, 1));
}
