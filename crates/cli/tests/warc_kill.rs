//! A crawl with an archive, killed at random moments: every record of the archive is complete, and every page is in it once,
//! at the position that its record names.

mod durable_kit;
mod readers;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use argiope_practice::GraphPlan;
use durable_kit::{CrawlFixture, GraphWeb, SeededRng, is_long, wait};
use serde_json::{Value, json};

#[test]
#[ignore = "needs python"]
fn an_archive_is_complete_after_random_kills() {
    let kills = if is_long() { 100 } else { 6 };
    let pages = u32::try_from(kills * 100).expect("few");
    let plan = GraphPlan {
        seed: 9,
        hosts: 3,
        pages,
        links: 8,
        missing: 40,
        redirects: 60,
        latency_us: (1_000, 30_000),
        ..GraphPlan::default()
    };
    let practice = GraphWeb::serve(plan);
    let fixture = CrawlFixture::new(&practice.roots, &["--warc"]);
    let mut rng = SeededRng::new(9);
    let mut killed = 0;
    for _ in 0..kills {
        let target = practice.web.requests() + rng.below(100);
        let mut crawl = fixture.spawn(&[]);
        practice.wait_for(target, &mut crawl);
        killed += u64::from(crawl.try_wait().expect("the state of the process can be read").is_none());
        // Ignored: the process may have ended just before.
        let _ = crawl.kill();
        wait(&mut crawl);
    }
    assert!(killed > kills / 2, "the crawl finished before most kills");
    assert!(wait(&mut fixture.spawn(&[])).success());
    let records = fixture.records();
    practice.check(&records);

    let directory = fixture.path("d.crawl");
    let mut in_archive = BTreeMap::new();
    for (file, offset, kind, url) in members(&directory.join("archive")) {
        if ["response", "revisit"].contains(&kind.as_str()) {
            let before = in_archive.insert(url.clone(), json!({"file": file, "offset": offset}));
            assert!(before.is_none() || url.ends_with("/robots.txt"), "{url} is in the archive twice");
        }
    }
    let recorded: BTreeMap<String, Value> = records
        .iter()
        .filter(|record| record["type"] == "page")
        .map(|record| (record["url"].as_str().expect("a URL").to_owned(), &record["warc"]))
        .map(|(url, location)| (url, json!({"file": location["file"], "offset": location["offset"]})))
        .collect();
    in_archive.retain(|url, _| !url.ends_with("/robots.txt"));
    assert_eq!(in_archive, recorded);
    // Without expected pages, the script only verifies the archive.
    let no_pages = fixture.path("expected.json");
    std::fs::write(&no_pages, "[]").expect("written");
    readers::run("replay.py", &[&directory.join("archive"), &no_pages]);
}

/// File name, offset, type and URL of every record of the archive, which is read completely.
fn members(archive: &Path) -> Vec<(String, u64, String, String)> {
    let mut names: Vec<_> =
        std::fs::read_dir(archive).expect("an archive").map(|entry| entry.expect("a file").file_name()).collect();
    names.sort();
    let mut found = Vec::new();
    for name in names {
        let file = File::open(archive.join(&name)).expect("a file");
        let mut bytes = vec![0; usize::try_from(file.metadata().expect("a size").len()).expect("small")];
        file.read_exact_at(&mut bytes, 0).expect("bytes");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let offset = (bytes.len() - rest.len()) as u64;
            let mut member = flate2::bufread::GzDecoder::new(rest);
            let mut text = Vec::new();
            member.read_to_end(&mut text).expect("a whole member");
            rest = member.into_inner();
            let text = String::from_utf8_lossy(&text);
            let field = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                line.unwrap_or_default().to_owned()
            };
            found.push((
                format!("archive/{}", name.to_string_lossy()),
                offset,
                field("WARC-Type"),
                field("WARC-Target-URI"),
            ));
        }
    }
    found
}
