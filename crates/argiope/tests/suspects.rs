//! A page that ends the process: later runs process it alone, and after three such deaths it is settled as a failure.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use argiope::{Crawl, RobotsPolicy};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::Value;

const PAGES: usize = 40;
const FATAL: &str = "/20";
/// Set if the first page is fatal, and ends the process at once.
const FATAL_ROOT: &str = "ARGIOPE_SUSPECTS_FATAL_ROOT";
const ROOT: &str = "ARGIOPE_SUSPECTS_ROOT";
const FOLDER: &str = "ARGIOPE_SUSPECTS_FOLDER";
const MAX_PAGES: &str = "ARGIOPE_SUSPECTS_MAX_PAGES";

/// The child process of the tests: a crawl that ends the process when it processes one of the pages. Returns at once if
/// the test runner calls it.
#[test]
fn crawler() {
    let (Ok(root), Ok(folder)) = (std::env::var(ROOT), std::env::var(FOLDER)) else { return };
    let folder = Path::new(&folder);
    let mut builder = Crawl::builder(root).robots(RobotsPolicy::Ignore).directory(folder.join("x.crawl"));
    if let Some(max_pages) = std::env::var(MAX_PAGES).ok().and_then(|number| number.parse().ok()) {
        builder = builder.max_pages(max_pages);
    }
    let builder = builder.configure(|config| config.jsonl = Some(folder.join("records.jsonl")));
    // A death before the directory is a crawl directory is one more, so the other tests wait until it is.
    let crawl_file = folder.join("x.crawl/crawl.json");
    let is_root_fatal = std::env::var_os(FATAL_ROOT).is_some();
    let crawl = builder.on_response(move |response| {
        if is_root_fatal {
            std::process::abort();
        }
        if response.url().path() != FATAL {
            return true;
        }
        while !crawl_file.exists() {
            std::thread::yield_now();
        }
        std::process::abort()
    });
    crawl.start_blocking().expect("it starts").for_each(drop);
}

/// Runs the crawl once; returns whether it ended by itself, and the paths that it requested.
fn run(web: &RunningWeb, root: &str, folder: &Path, max_pages: Option<usize>) -> (bool, Vec<String>) {
    let mut command = command(root, folder);
    if let Some(max_pages) = max_pages {
        command.env(MAX_PAGES, max_pages.to_string());
    }
    run_command(web, command)
}

fn command(root: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", "crawler"]).env(ROOT, root).env(FOLDER, folder).stdout(Stdio::null());
    command
}

fn run_command(web: &RunningWeb, mut command: Command) -> (bool, Vec<String>) {
    let before = web.log().len();
    let status = command.stderr(Stdio::null()).status().expect("this program runs");
    (status.success(), web.log().into_iter().skip(before).map(|request| request.path).collect())
}

fn serve(address: &str) -> (RunningWeb, String) {
    let paths: Vec<String> = (0..PAGES).map(|number| format!("/{number}")).collect();
    let site = Site::http(address).expect("a loopback address").page("/", Response::links(&paths));
    let site = site.fallback(Response::html("<title>x</title>"));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

/// The last record of each page, by path. A page that was not read when the process died has two.
fn records(folder: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(folder.join("records.jsonl")).expect("records");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut by_path = BTreeMap::new();
    for record in records.filter(|record| record["type"] == "page") {
        let url = argiope::Url::parse(record["url"].as_str().expect("a URL")).expect("a URL");
        by_path.insert(url.path().to_owned(), record);
    }
    by_path
}

fn assert_settled(folder: &Path) {
    let mut records = records(folder);
    assert_eq!(records.len(), PAGES + 1);
    let fatal = records.remove(FATAL).expect("a record");
    assert_eq!((&fatal["outcome"], &fatal["error"]["kind"]), (&"failed".into(), &"internal".into()), "{fatal}");
    assert!(fatal["error"]["message"].as_str().is_some_and(|message| message.contains("3 runs died")), "{fatal}");
    assert!(records.values().all(|record| record["outcome"] == "ok"));
}

#[test]
fn a_page_that_ends_the_process_is_requested_first_and_alone_and_settled_after_three_deaths() {
    let (web, root) = serve("127.5.1.31:0");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert!(run(&web, &root, folder, Some(1)).0, "the first run requests only the root");
    assert!(!run(&web, &root, folder, None).0, "the page ends the process");
    for death in 1..=3 {
        let (has_ended, requested) = run(&web, &root, folder, None);
        assert!(!has_ended, "death {death}");
        assert_eq!(requested, [FATAL], "death {death}: no other page is requested");
    }
    let (has_ended, requested) = run(&web, &root, folder, None);
    assert!(has_ended && !requested.contains(&FATAL.to_owned()), "{requested:?}");
    assert_settled(folder);
    let (has_ended, requested) = run(&web, &root, folder, None);
    assert!(has_ended && requested.is_empty(), "the crawl is finished: {requested:?}");
}

/// The process dies before the page with the link is committed, so the next run has to find the link again.
#[test]
fn a_suspect_that_is_found_again_is_processed_alone() {
    let (web, root) = serve("127.5.1.32:0");
    let folder = tempfile::tempdir().expect("a folder");
    let deaths = (0..20).take_while(|_| !run(&web, &root, folder.path(), None).0).count();
    assert_eq!(deaths, 4, "one while other pages were in flight, and three alone");
    assert_settled(folder.path());
}

/// The process dies before its directory is a crawl directory, again and again if nothing prevents it.
#[test]
fn a_page_that_ends_the_process_at_once_is_settled() {
    let (web, root) = serve("127.5.1.33:0");
    let folder = tempfile::tempdir().expect("a folder");
    let is_dead = |_: &usize| {
        let mut command = command(&root, folder.path());
        command.env(FATAL_ROOT, "1");
        !run_command(&web, command).0
    };
    let deaths = (0..20).take_while(is_dead).count();
    assert!((4..=5).contains(&deaths), "{deaths}: one before the directory is one, one with a mark, and three alone");
    let fatal = records(folder.path()).remove("/").expect("a record");
    assert_eq!((&fatal["outcome"], &fatal["error"]["kind"]), (&"failed".into(), &"internal".into()), "{fatal}");
}
