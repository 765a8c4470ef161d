//! Exports of a crawl that is larger than their memory limit.

use std::path::Path;
use std::process::Command;

use argiope_core::crawl::schedule::frontier::{FoundEdges, Settlement, put_all};
use argiope_core::{FinalOutcome, Frontier, Link, LinkKind, LinkList, Outcome, Url};
use argiope_store::Commits as _;
use argiope_store::disk::{self, CrawlSettings};

/// Pages in one frame of the log.
const BATCH: u32 = 1_000;
/// Memory limit of an export.
const MEMORY_KB: u32 = 350_000;
/// Maximum entries and bytes of a sitemap, by the sitemap protocol.
const MAX_SITEMAP_ENTRIES: usize = 50_000;
const MAX_SITEMAP_BYTES: usize = 50 << 20;

/// Creates the crawl directory of a finished crawl with this number of pages.
fn create_directory(path: &Path, pages: u32) {
    let memory_limit = usize::MAX;
    let disk::OpenedDirectory { mut frontier, mut writer, .. } =
        disk::open(path, &CrawlSettings::new(), memory_limit).expect("a directory");
    let root = Url::parse("https://large.example/").expect("an address");
    let mut link_to_root = LinkList::default();
    let nofollow = false;
    link_to_root.push(root.as_str(), LinkKind::Anchor, nofollow);
    let title = "A title of the usual length, more or less ".repeat(8);
    for first in (0..pages).step_by(BATCH as usize) {
        let urls: Vec<Url> = (first..pages.min(first + BATCH))
            .map(|page| {
                // The product makes the order of the paths differ from that of the pages.
                Url::parse(&format!("https://large.example/p/{:08}?n={page}", page.wrapping_mul(2_654_435_761)))
            })
            .collect::<Result<_, _>>()
            .expect("addresses");
        let link = |url: &Url| Link {
            via: Some(root.clone()),
            depth: 1,
            kind: LinkKind::Anchor,
            // Ten redirects are allowed.
            ..Link::root(url.clone(), 10)
        };
        put_all(&mut frontier, &urls.iter().map(link).collect::<Vec<_>>()).expect("put");
        let lane = frontier.lane_of("large.example").expect("a lane");
        for link in frontier.take(lane, BATCH as usize).expect("taken") {
            let line = format!(
                r#"{{"v":1,"type":"page","url":"{}","status":200,"outcome":"ok","via":"{root}","depth":1,"tries":1,"content_type":"text/html","title":"{title}","started":"2026-01-02T03:04:05.678Z"}}"#,
                link.url
            );
            let final_outcome = FinalOutcome {
                outcome: Outcome::Ok,
                status: Some(200),
                record: line.as_bytes(),
                is_fetched_page: true,
            };
            frontier.settle(&mut [Settlement::of(&link, final_outcome)]).expect("settled");
            // Every page links back to the root.
            let edges = FoundEdges { source: &link.url, is_sitemap: false, links: &link_to_root, cut: 0 };
            frontier.keep_edges(&edges).expect("kept");
        }
        if let Some(batch) = frontier.commit(&[]).expect("sealed") {
            writer.write(&batch).expect("written");
            frontier.acknowledge(&batch).expect("known");
        }
    }
}

/// Runs an export with a limit on its memory, in kilobytes.
fn export(folder: &Path, format: &str, file: &Path, kilobytes: u32) {
    let script = format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_argiope"), "export"])
        .arg(folder)
        .args(["--format", format, "-o"])
        .arg(file)
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn exports_that_need_no_archive_stay_within_a_memory_limit() {
    let long = std::env::var_os("ARGIOPE_LONG").is_some();
    // The record of a page has about half a kilobyte.
    let pages = if long { 1_000_000 } else { 110_000 };
    let folder = tempfile::tempdir().expect("a folder");
    let crawl = folder.path().join("c");
    create_directory(&crawl, pages);
    for format in ["jsonl", "csv", "parquet", "arrow", "sqlite", "links", "graphml"] {
        let file = folder.path().join(format);
        export(&crawl, format, &file, MEMORY_KB);
        let length = file.metadata().expect("an export").len();
        // At least one byte per page. Parquet can be smaller, because it is compressed.
        assert!(length > u64::from(pages) || format == "parquet", "{format}: {length} bytes");
    }
    let sitemap = folder.path().join("sitemap.xml");
    export(&crawl, "sitemap", &sitemap, MEMORY_KB);
    let index = std::fs::read_to_string(&sitemap).expect("an index");
    let parts = (pages as usize).div_ceil(MAX_SITEMAP_ENTRIES);
    assert_eq!(index.matches("<sitemap><loc>https://large.example/sitemap-").count(), parts, "{index}");
    let mut listed = 0;
    for part in 1..=parts {
        let text = std::fs::read_to_string(folder.path().join(format!("sitemap-{part}.xml"))).expect("a part");
        let count = text.matches("<url>").count();
        assert!(count <= MAX_SITEMAP_ENTRIES && text.len() < MAX_SITEMAP_BYTES && text.ends_with("</urlset>\n"));
        listed += count;
    }
    assert_eq!(listed, pages as usize);
    let refused = Command::new(env!("CARGO_BIN_EXE_argiope"))
        .arg("export")
        .arg(&crawl)
        .args(["--format", "sitemap"])
        .output()
        .expect("the command runs");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("-o FILE"), "one stream cannot be several files");
}
