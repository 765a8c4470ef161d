//! Exports of a crawl in which a program with the library has sent forms. Tables distinguish the results of forms. Formats
//! that identify pages by their URL omit them.

use std::path::Path;
use std::process::Command;

use argiope::{Crawl, Request, RobotsPolicy};
use argiope_practice::{PracticeWeb, RequestMatch, Response, RunningWeb, Site};
use serde_json::Value;

fn export(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    let output = command.arg("export").arg(directory).args(arguments).output().expect("the command was built");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("UTF-8")
}

/// A page and a search form at the same URL.
fn web() -> (RunningWeb, String) {
    let site = Site::http("127.5.11.1:0").expect("a loopback address");
    let root = site.url("/");
    let site = site
        .page("/", Response::html("<title>Search</title><a href=/other>other</a>"))
        .page("/other", Response::html("<title>Other</title>"))
        .when(RequestMatch::post("/"), Response::html("<title>Result</title><a href=/found>found</a>"))
        .page("/found", Response::html("<title>Found</title>"));
    (PracticeWeb::new().site(site).start().expect("the web is served"), root)
}

/// Crawls the web and sends two forms.
fn crawl(root: &str, directory: &Path) {
    let mut pages = Crawl::builder(root)
        .robots(RobotsPolicy::Ignore)
        .directory(directory)
        .configure(|config| config.warc = true)
        .start_blocking()
        .expect("the crawl starts");
    pages.next().expect("the root");
    let form = |word: &str| Request::post(root).expect("a request").form([("q", word)]);
    pages.feed([form("orb"), form("funnel")]).expect("forms that can be sent");
    let titles: Vec<String> = (&mut pages).filter_map(|page| page.title().map(str::to_owned)).collect();
    pages.close().expect("it ends well");
    assert_eq!(titles.iter().filter(|title| *title == "Result").count(), 2, "{titles:?}");
    assert!(titles.iter().any(|title| title == "Found"), "{titles:?}");
}

#[test]
fn tables_distinguish_forms_and_other_formats_omit_them() {
    let (_web, root) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("c");
    crawl(&root, &directory);

    let csv = text(export(&directory, &["--format", "csv"]));
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().expect("a header");
    let column = |name: &str| header.iter().position(|column| *column == name).expect("a column");
    let (method, id, title) = (column("method"), column("request_id"), column("title"));
    let rows: Vec<_> = rows.collect();
    let ids: std::collections::BTreeSet<&str> =
        rows.iter().filter(|row| row[method] == "POST" && row[title] == "Result").map(|row| row[id]).collect();
    assert_eq!(ids.len(), 2, "{csv}");
    assert!(ids.iter().all(|id| id.len() == 16), "{csv}");
    assert!(rows.iter().filter(|row| row[method] == "GET").all(|row| row[id].is_empty()), "{csv}");
    let jsonl = text(export(&directory, &["--format", "jsonl"]));
    let records = jsonl.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let posted: Vec<Value> = records.filter(|record| record["method"] == "POST").collect();
    assert!(posted.len() == 2 && posted.iter().all(|record| ids.contains(record["request_id"].as_str().expect("id"))));

    let sitemap = text(export(&directory, &["--format", "sitemap"]));
    assert_eq!(sitemap.matches(&format!("<loc>{root}</loc>")).count(), 1, "{sitemap}");
    let graph = text(export(&directory, &["--format", "graphml"]));
    assert!(graph.contains("Search") && !graph.contains("Result"), "{graph}");
    let index = text(export(&directory, &["--format", "cdxj"]));
    assert_eq!(index.matches(&format!("\"{root}\"")).count(), 1, "{index}");

    let wacz = folder.path().join("c.wacz");
    export(&directory, &["--format", "wacz", "-o", wacz.to_str().expect("UTF-8")]);
    // The list of pages is stored, not compressed.
    let wacz = String::from_utf8_lossy(&std::fs::read(&wacz).expect("a file")).into_owned();
    assert!(wacz.contains("\"title\":\"Search\"") && !wacz.contains("\"title\":\"Result\""));

    let site = folder.path().join("site");
    export(&directory, &["--format", "site", "-o", &format!("{}/", site.display())]);
    let mut pages = Vec::new();
    let mut folders = vec![site];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                pages.push(String::from_utf8_lossy(&std::fs::read(&path).expect("a file")).into_owned());
            }
        }
    }
    assert!(pages.iter().any(|page| page.contains("<title>Search</title>")));
    assert!(!pages.iter().any(|page| page.contains("<title>Result</title>")), "{pages:?}");
}
