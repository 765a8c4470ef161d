//! `--max-disk`: the crawl ends when its directory reaches the limit, and resumes with a higher limit.

mod durable_kit;

use argiope_practice::GraphPlan;
use argiope_store::disk::folder_size;
use durable_kit::{CrawlFixture, GraphWeb};

#[test]
fn a_crawl_stops_at_the_disk_limit_and_resumes_with_a_higher_one() {
    let practice =
        GraphWeb::serve(GraphPlan { hosts: 2, pages: 3_000, links: 30, size: 2_000, ..GraphPlan::default() });
    let fixture = CrawlFixture::new(&practice.roots, &["-q", "--warc"]);
    let limit = 2_u64 << 20;
    // The rate is low enough that the size is checked several times.
    fixture.succeed(&["--max-disk", "2M", "--rate", "1500/s"]);
    let last = fixture.records().pop().expect("records");
    assert_eq!(last["reason"], "max_disk", "{last}");
    assert!(last["queued"].as_u64().is_some_and(|queued| queued > 0), "{last}");
    let size = folder_size(&fixture.path("d.crawl"));
    // The size is measured at intervals, and the directory grows in between. So a quarter more is accepted.
    assert!(size > limit / 4 && size <= limit / 4 * 5, "{size} bytes");
    let report = std::fs::read_to_string(fixture.path("d.crawl/report.txt")).expect("a report");
    assert!(report.contains("run the same command with a higher limit"), "{report}");
    // If the limit is already exceeded, nothing is fetched, and that is not an error.
    let requests = practice.web.requests();
    let half = format!("{}k", size / 2_048);
    fixture.succeed(&["--max-disk", &half]);
    assert_eq!(practice.web.requests(), requests);
    fixture.succeed(&["--max-disk", "1G"]);
    let records = fixture.records();
    assert_eq!(records.last().expect("records")["reason"], "finished");
    practice.check(&records);
}

#[test]
fn large_pages_of_an_archive_do_not_exceed_the_limit() {
    let practice = GraphWeb::serve(GraphPlan { hosts: 1, pages: 40, links: 30, size: 900_000, ..GraphPlan::default() });
    let fixture = CrawlFixture::new(&practice.roots, &["-q", "--warc", "--per-host", "32"]);
    fixture.succeed(&["--max-disk", "2M"]);
    let last = fixture.records().pop().expect("records");
    assert_eq!(last["reason"], "max_disk", "{last}");
    let size = folder_size(&fixture.path("d.crawl"));
    assert!(size > 1 << 20 && size <= 2 << 20, "{size} bytes");
    fixture.succeed(&["--max-disk", "1G"]);
    let records = fixture.records();
    assert_eq!(records.last().expect("records")["reason"], "finished");
    practice.check(&records);
    let size = folder_size(&fixture.path("d.crawl"));
    assert!(size > 4 << 20, "{size} bytes");
}
