//! A program with the library fetches pages again that it did not process before it ended. Such pages count once.

use std::path::Path;
use std::process::Command;

use argiope_core::crawl::schedule::frontier::{FoundEdges, Settlement, put_all};
use argiope_core::{FinalOutcome, Frontier, Link, LinkKind, LinkList, Outcome, Url};
use argiope_store::Commits as _;
use argiope_store::disk::{self, CrawlSettings, DiskFrontier, LogWriter};

fn url(page: usize) -> Url {
    Url::parse(&format!("https://h.example/{page}")).expect("an address")
}

/// Commits everything to the log.
fn commit(frontier: &mut DiskFrontier, writer: &mut LogWriter) {
    while let Some(batch) = frontier.commit_at_end(&[]).expect("a commit") {
        writer.write(&batch).expect("written");
        frontier.acknowledge(&batch.without_portion()).expect("acknowledged");
    }
}

/// Settles all queued pages with this title, and returns their number. Every page links to the first page and to one that is
/// not fetched.
fn settle(frontier: &mut DiskFrontier, title: &str) -> usize {
    let lane = frontier.lane_of("h.example").expect("a lane");
    let links = frontier.take(lane, 100).expect("taken");
    for link in &links {
        let mut found = LinkList::default();
        let nofollow = false;
        found.push(url(0).as_str(), LinkKind::Anchor, nofollow);
        found.push(&format!("{}?more", link.url), LinkKind::Anchor, nofollow);
        frontier.keep_edges(&FoundEdges { source: &link.url, is_sitemap: false, links: &found, cut: 0 }).expect("kept");
        let record = format!(
            r#"{{"v":1,"type":"page","url":"{}","status":200,"outcome":"ok","depth":{},"tries":1,"content_type":"text/html","title":"{title}"}}"#,
            link.url, link.depth
        );
        let (outcome, status, record) = (Outcome::Ok, Some(200), record.as_bytes());
        let final_outcome = FinalOutcome { outcome, status, record, is_fetched_page: true };
        frontier.settle(&mut [Settlement::of(link, final_outcome)]).expect("settled");
    }
    links.len()
}

fn argiope(arguments: &[&str], directory: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_argiope"))
        .arg(arguments[0])
        .arg(directory)
        .args(&arguments[1..])
        .output()
        .expect("the command runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_page_that_was_fetched_again_counts_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c.crawl");
    let memory_limit = usize::MAX;
    {
        let opened = disk::open(&directory, &CrawlSettings::new(), memory_limit).expect("a directory");
        let (mut frontier, mut writer) = (opened.frontier, opened.writer);
        // A root may follow ten redirects.
        let link = |page: usize| Link { depth: u32::from(page > 0), ..Link::root(url(page), 10) };
        put_all(&mut frontier, &(0..6).map(link).collect::<Vec<_>>()).expect("put");
        assert_eq!(settle(&mut frontier, "first"), 6);
        commit(&mut frontier, &mut writer);
    }
    // The two pages of the second time are among the four of the first time.
    for count in [4, 2] {
        let opened = disk::open(&directory, &CrawlSettings::new(), memory_limit).expect("a directory");
        let (mut frontier, mut writer) = (opened.frontier, opened.writer);
        assert_eq!(
            frontier.requeue_last_pages(&std::iter::once(0..count as u64).collect::<Vec<_>>()).expect("queued").queued,
            count as u64
        );
        assert_eq!(frontier.counts().known, 6);
        assert!(!frontier.counts().is_done());
        assert_eq!(settle(&mut frontier, "again"), count);
        assert!(frontier.counts().is_done());
        commit(&mut frontier, &mut writer);
    }
    let records = argiope(&["export", "--format", "jsonl"], &directory);
    assert_eq!((records.lines().count(), records.matches("\"again\"").count()), (6, 4), "{records}");
    assert_eq!(argiope(&["export", "--format", "csv"], &directory).lines().count(), 1 + 6);
    let links = argiope(&["export", "--format", "links"], &directory);
    let mut unique: Vec<&str> = links.lines().collect();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!((unique.len(), links.lines().count()), (1 + 12, 1 + 12), "{links}");
    let report: serde_json::Value =
        serde_json::from_str(&argiope(&["report", "--json"], &directory)).expect("a report");
    assert_eq!(report["outcomes"]["ok"], 6, "{report}");
}
