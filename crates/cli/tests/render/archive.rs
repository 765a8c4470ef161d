//! Rendered documents in the archive, and rendering from an archive.

use std::collections::BTreeSet;
use std::path::Path;

use argiope_practice::app::SPIDERS;
use argiope_practice::{PracticeWeb, Response, Site};
use serde_json::Value;

use super::{argiope, crawl, start};

fn stdout(folder: &Path, arguments: &[&str]) -> String {
    let output = argiope(folder, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The records of a crawl directory, with the addresses of its links.
fn pages(folder: &Path, directory: &str) -> Vec<Value> {
    let text = stdout(folder, &["export", directory, "--format", "jsonl"]);
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut pages: Vec<Value> = records.filter(|record| record["type"] == "page").collect();
    pages.sort_by_key(|page| page["url"].to_string());
    pages
}

#[test]
#[ignore = "needs headless-shell"]
fn exports_of_the_archive_have_what_scripts_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let (records, _) = crawl(folder.path(), &[&root, "-d", "a.crawl", "--render", "always", "--warc"]);
    drop(web);
    let spider = &records["/spider/3"];
    assert!(spider["warc"]["rendered"].as_u64() > Some(0), "{spider}");
    assert_eq!(spider["render"]["static"]["title"], "Loading");
    for format in ["text", "markdown"] {
        let output = argiope(folder.path(), &["export", "a.crawl", "--format", format, "-o", &format!("{format}/")]);
        assert!(output.status.success());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!message.contains("without what scripts made"), "{message}");
    }
    let markdown = files_with(&folder.path().join("markdown"), "Spider No. 3");
    assert!(markdown >= 2, "the page and the list have its name: {markdown}");
    stdout(folder.path(), &["export", "a.crawl", "--format", "site", "-o", "copy"]);
    assert!(files_with(&folder.path().join("copy"), "Spider No. 3") >= 2);
    let data = stdout(folder.path(), &["export", "a.crawl", "--format", "csv", "--extract", "name=h1"]);
    assert!(data.contains("Spider No. 3"), "{data}");
}

/// How many files below a folder contain a text.
fn files_with(folder: &Path, text: &str) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let count = |path: std::path::PathBuf| match path.is_dir() {
        true => files_with(&path, text),
        false => usize::from(String::from_utf8_lossy(&std::fs::read(path).expect("a file")).contains(text)),
    };
    entries.map(count).sum()
}

#[test]
#[ignore = "needs headless-shell"]
fn the_index_lists_rendered_documents_and_the_requests_of_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    for compression in ["gzip", "zstd"] {
        let directory = format!("{compression}.crawl");
        let arguments = ["crawl", &*root, "-q", "-d", &directory, "--render", "always", "--warc"];
        stdout(folder.path(), &[&arguments[..], &["--warc-compression", compression]].concat());
        let index = stdout(folder.path(), &["export", &directory, "--format", "cdxj"]);
        let entries: Vec<Value> = index
            .lines()
            .map(|line| serde_json::from_str(line.splitn(3, ' ').nth(2).expect("JSON")).expect("JSON"))
            .collect();
        let found = |url: &str| entries.iter().filter(|entry| entry["url"] == url).collect::<Vec<_>>();
        for path in ["", "app.js", "app.css", "api/spiders.json", "api/spider/3.json", "spider/3"] {
            let found = found(&format!("{root}{path}"));
            assert_eq!(found.len(), 1, "{compression} {path}: {found:?}");
            // The page of each spider is the same response.
            let is_revisit = found[0]["mime"] == "warc/revisit";
            assert!(is_revisit || found[0]["status"] == "200", "{found:?}");
        }
        let document = found(&format!("urn:dom:{root}spider/3"));
        assert_eq!((document.len(), &document[0]["mime"]), (1, &"text/html".into()));
        let places: BTreeSet<String> = entries.iter().map(|entry| entry["offset"].to_string()).collect();
        assert_eq!(places.len(), entries.len(), "each record is listed once");
        let wacz = stdout_bytes(folder.path(), &["export", &directory, "--format", "wacz"]);
        let text = String::from_utf8_lossy(&wacz);
        assert!(text.contains(&format!("\"rendered\":\"urn:dom:{root}spider/3\"")), "the list of pages says it");
        assert_eq!(text.matches("{\"url\":\"urn:dom:").count(), SPIDERS + 2, "{compression}");
    }
    drop(web);
}

fn stdout_bytes(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = argiope(folder, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
#[ignore = "needs headless-shell"]
fn an_archive_is_rendered_without_a_network() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let arguments = ["crawl", &*root, "-q", "-d", "a.crawl", "--render", "always", "--warc", "--with", "links"];
    stdout(folder.path(), &arguments);
    drop(web);
    let first = pages(folder.path(), "a.crawl");
    assert_eq!(first.len(), SPIDERS + 2);
    let output = argiope(folder.path(), &["render", "a.crawl", "--no-progress"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    assert!(!message.contains("not in the archive"), "{message}");
    let again = pages(folder.path(), "a.rendered.crawl");
    let shown = |page: &Value| ["url", "title", "words", "digest", "link_list"].map(|field| page[field].clone());
    assert_eq!(first.iter().map(shown).collect::<Vec<_>>(), again.iter().map(shown).collect::<Vec<_>>());
    // The new directory is a crawl like others, with an archive.
    let text = stdout(folder.path(), &["export", "a.rendered.crawl", "--format", "text"]);
    assert!(text.contains("Spider No. 3"), "{text}");
}

#[test]
#[ignore = "needs headless-shell"]
fn what_an_archive_lacks_is_listed_and_not_requested() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "document.body.innerHTML += '<a href=/by-script>x</a>'; fetch('/data.json').catch(() => 0);";
    let site = Site::http("127.0.0.1:0").expect("a socket").robots("User-agent: *\nDisallow:\n");
    let root = site.url("/");
    let site = site
        .page("/", Response::html(format!("<title>Start</title><body><a href=/a>a</a><script>{script}</script>")))
        .page("/a", Response::html("<title>A</title><body>text"))
        .page("/by-script", Response::html("<title>B</title>"))
        .page("/data.json", Response::text("{}").content_type("application/json"));
    let web = PracticeWeb::new().site(site).start().expect("a server");
    stdout(folder.path(), &["crawl", &root, "-q", "-d", "a.crawl", "--warc"]);
    let requests = web.log().len();
    let output = argiope(folder.path(), &["render", "a.crawl", "-d", "b.crawl", "--no-progress"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    let list = format!("not in the archive: 2 URLs\n  {root}by-script\n  {root}data.json\n");
    assert!(message.ends_with(&list), "{message}");
    assert_eq!(web.log().len(), requests, "nothing is requested");
    let found: Vec<String> =
        pages(folder.path(), "b.crawl").iter().map(|page| page["title"].as_str().expect("a title").into()).collect();
    assert_eq!(found, ["Start", "A"]);
    // The archive itself, and a crawl that was not rendered, are no targets.
    stdout(folder.path(), &["crawl", &root, "-q", "-d", "c.crawl"]);
    for (target, why) in [("a.crawl", "is the archive"), ("c.crawl", "has another crawl")] {
        let refused = argiope(folder.path(), &["render", "a.crawl", "-d", target]);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), message.contains(why)), (Some(2), true), "{message}");
    }
}

#[test]
fn a_crawl_without_an_archive_cannot_be_rendered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root) = start();
    stdout(folder.path(), &["crawl", &root, "-q", "-d", "a.crawl"]);
    let output = argiope(folder.path(), &["render", "a.crawl"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("a.crawl"), "{message}");
    assert!(!folder.path().join("a.rendered.crawl").exists());
}

#[test]
#[ignore = "needs headless-shell"]
fn pictures_of_pages_are_archived_and_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = Site::http("127.0.0.1:0").expect("a socket").robots("User-agent: *\nDisallow:\n");
    let root = site.url("/");
    let tall = "<title>Tall</title><body style=\"margin:0\"><div style=\"height:2500px;background:#c33\"></div>";
    let endless =
        "<title>Endless</title><body style=\"margin:0\"><div style=\"height:90000px\"></div><a href=/tall>x</a>";
    let site = site.page("/", Response::html(endless)).page("/tall", Response::html(tall));
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let arguments = ["crawl", &*root, "-q", "-d", "a.crawl", "--render", "always", "--warc", "--screenshot"];
    stdout(folder.path(), &[&arguments[..], &["--interact", "click"]].concat());
    let pages = pages(folder.path(), "a.crawl");
    assert!(pages.iter().all(|page| page["warc"]["screenshot"].as_u64() > Some(0)), "{pages:?}");
    let output = argiope(folder.path(), &["export", "a.crawl", "--format", "screenshots", "-o", "pictures/"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && message.contains("2 pictures"), "{message}");
    let mut sizes = Vec::new();
    png_sizes(&folder.path().join("pictures"), &mut sizes);
    sizes.sort_unstable();
    assert_eq!(sizes, [(1280, 2500), (1280, 8000)]);
    let index = stdout(folder.path(), &["export", "a.crawl", "--format", "cdxj"]);
    assert!(index.contains(&format!("urn:view:{root}tall")), "{index}");
}

/// Width and height of the PNG files below a folder.
fn png_sizes(folder: &Path, sizes: &mut Vec<(u32, u32)>) {
    for path in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            png_sizes(&path, sizes);
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        assert!(bytes.starts_with(b"\x89PNG"), "{path:?}");
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        sizes.push((number(16), number(20)));
    }
}
