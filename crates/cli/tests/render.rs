//! `crawl --render`: the practice application and pages with hostile scripts, in a real browser.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use argiope_practice::app::{SPIDERS, app, hostile_paths};
use argiope_practice::{PracticeWeb, RunningWeb};
use serde_json::Value;

fn argiope(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder).args(arguments).output().expect("the command was built")
}

fn start() -> (RunningWeb, String) {
    let site = app("127.0.0.1:0").expect("a socket");
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("a server"), root)
}

/// Crawls with `--render always` unless `more` says otherwise. Returns the records by path, and the output.
fn crawl(folder: &Path, more: &[&str]) -> (BTreeMap<String, Value>, Output) {
    let usual = ["crawl", "--jsonl", "-", "-q", "--with", "links,requests"];
    let output = argiope(folder, &[&usual, more].concat());
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let pages = records.filter(|record| record["type"] == "page").map(|record| {
        let url = record["url"].as_str().expect("a URL");
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        (format!("/{path}"), record)
    });
    (pages.collect(), output)
}

#[test]
#[ignore = "needs headless-shell"]
fn an_application_is_crawled_as_a_person_sees_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let (plain, _) = crawl(folder.path(), &[&root, "-d", "plain.crawl"]);
    assert_eq!(plain.len(), 1, "without scripts there is nothing to follow");
    let requests_before = web.log().len();
    let begun = Instant::now();
    let (pages, output) = crawl(folder.path(), &[&root, "-d", "a.crawl", "--render", "always"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut expected: BTreeSet<String> = (1..=SPIDERS).map(|number| format!("/spider/{number}")).collect();
    expected.extend(["/".to_owned(), "/from-shadow".to_owned()]);
    assert_eq!(pages.keys().cloned().collect::<BTreeSet<_>>(), expected);
    for number in 1..=SPIDERS {
        let page = &pages[&format!("/spider/{number}")];
        assert_eq!(
            page["title"],
            format!("Spider No. {number}").as_str(),
            "the title after three seconds of virtual time"
        );
        assert_eq!(page["render"]["end"], "idle");
        assert!(page["render"]["virtual_ms"].as_u64() >= Some(3_000));
    }
    // Thirty-six seconds of timers took much less.
    assert!(begun.elapsed() < Duration::from_secs(30));
    let from_script = pages["/"]["link_list"].as_array().expect("links").iter().filter(|link| link["kind"] == "script");
    assert_eq!(from_script.count(), SPIDERS);
    // One request a URL: the page is not requested again for the browser, and scripts are shared.
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let log = web.log();
    log[requests_before..].iter().for_each(|request| *counts.entry(request.path.clone()).or_default() += 1);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert_eq!(counts.len(), 2 * SPIDERS + 6, "{counts:?}");
    // Two crawls of the same pages give the same documents.
    let (again, _) = crawl(folder.path(), &[&root, "-d", "b.crawl", "--render", "always", "--text"]);
    let shown = |page: &Value| (page["title"].clone(), page["words"].clone(), page["link_list"].clone());
    for (path, page) in &pages {
        assert_eq!(shown(page), shown(&again[path]), "{path}");
    }
}

#[test]
#[ignore = "needs headless-shell"]
fn auto_renders_what_is_empty_and_samples_of_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root) = start();
    let (pages, _) = crawl(folder.path(), &[&root, "-d", "a.crawl", "--render", "auto"]);
    assert_eq!(pages.len(), SPIDERS + 2);
    let reason = |path: &str| pages[path]["render"]["reason"].as_str().map(str::to_owned);
    assert_eq!(reason("/from-shadow").as_deref(), Some("sample"), "a static page is a sample of its template");
    let spiders = (1..=SPIDERS).filter_map(|number| reason(&format!("/spider/{number}")));
    assert_eq!(spiders.count(), SPIDERS);
}

#[test]
#[ignore = "needs headless-shell"]
fn hostile_scripts_cost_their_own_page_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let urls: Vec<String> = hostile_paths().map(|path| root.trim_end_matches('/').to_owned() + path).collect();
    let mut arguments: Vec<&str> = urls.iter().map(String::as_str).collect();
    let limits = ["-d", "a.crawl", "--depth", "0", "--render", "always", "--render-timeout", "3s"];
    arguments.extend(limits.iter().chain(&["--render-requests", "20", "--render-memory", "700M"]));
    let (pages, output) = crawl(folder.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for path in hostile_paths() {
        assert_eq!(pages[path]["outcome"], "ok", "{path}");
        assert!(pages[path]["render"]["end"].is_string(), "{path}");
    }
    assert_eq!(pages["/hostile/loop"]["render"]["end"], "timeout");
    assert_eq!(pages["/hostile/requests"]["render"]["end"], "requests");
    let links = |path: &str| pages[path]["link_list"].to_string();
    assert!(links("/hostile/away").contains("/away-by-script"), "{}", links("/hostile/away"));
    assert!(links("/hostile/windows").contains("/window/2"));
    assert!(pages["/hostile/doors"]["render"]["refused"].as_u64() >= Some(8), "{}", pages["/hostile/doors"]);
    let seen: BTreeSet<String> = web.log().iter().map(|request| request.path.clone()).collect();
    for closed in ["/events", "/worker.js", "/beacon", "/window/1", "/away-by-script"] {
        assert!(!seen.contains(closed), "{closed} was requested");
    }
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "needs headless-shell"]
fn no_process_of_the_browser_survives_a_killed_crawl() {
    let folder = tempfile::tempdir().expect("a folder");
    let (web, root) = start();
    let page = root.trim_end_matches('/').to_owned() + "/hostile/loop";
    // The lock files and profiles of the browser are below this folder, so its processes are known by it.
    let profiles = folder.path().join("profiles");
    std::fs::create_dir(&profiles).expect("a folder");
    let crawl = |timeout: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.current_dir(folder.path()).env("TMPDIR", &profiles);
        command.args(["crawl", &page, "-q", "-d", "a.crawl", "--render", "always", "--render-timeout", timeout]);
        command
    };
    let mut first = crawl("1m").spawn().expect("the command was built");
    wait_until("the page is requested", || web.log().iter().any(|request| request.path == "/hostile/loop"));
    wait_until("the browser runs", || processes_naming(&profiles) > 0);
    first.kill().expect("it runs");
    first.wait().expect("it has ended");
    wait_until("all processes have ended", || processes_naming(&profiles) == 0);
    // The next start removes what is left on the disk.
    let mut second = crawl("1s").spawn().expect("the command was built");
    assert!(second.wait().expect("it ends").success());
    assert_eq!(processes_naming(&profiles), 0);
    let own_folder = std::fs::read_dir(&profiles).expect("a folder").flatten().next().expect("the browsers' folder");
    assert_eq!(std::fs::read_dir(own_folder.path()).expect("a folder").count(), 0);
}

/// The number of processes whose command line contains this path.
#[cfg(target_os = "linux")]
fn processes_naming(path: &Path) -> usize {
    let text = path.to_str().expect("UTF-8");
    let commands = std::fs::read_dir("/proc").expect("a folder").flatten().map(|entry| entry.path().join("cmdline"));
    commands.filter(|file| std::fs::read(file).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))).count()
}

#[cfg(target_os = "linux")]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_missing_browser_is_an_error_of_usage_and_nothing_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments =
        ["crawl", "http://127.0.0.1:1/", "--render", "always", "--browser", "/nonexistent", "-d", "a.crawl"];
    let output = argiope(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("/nonexistent is not a program") && message.contains("install"), "{message}");
    assert!(!folder.path().join("a.crawl").exists());
}
