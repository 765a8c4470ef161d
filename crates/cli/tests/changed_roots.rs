//! Roots of an existing crawl are added and removed: `--add-root` and `--remove-root`.

use std::path::Path;
use std::process::{Command, Output};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

fn argiope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).output().expect("the command was built")
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A command that succeeds: what it prints on standard error.
fn succeeds(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {messages}");
    messages
}

/// A command of wrong usage: its message.
fn is_refused(arguments: &[&str]) -> String {
    let output = argiope(arguments);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {messages}");
    messages
}

/// A web of two hosts, of which each page links to the other host. Returns the first page of each.
fn web() -> (RunningWeb, [String; 2]) {
    let sites = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| Site::http(address).expect("a socket"));
    let roots = [sites[0].url("/"), sites[1].url("/")];
    let web = sites.into_iter().zip([1, 0]).fold(PracticeWeb::new(), |web, (site, other)| {
        let linked = format!("{}linked", roots[other]);
        let site = site.page("/", Response::links([&*linked, "/own"])).page("/own", Response::html(""));
        web.site(site.page("/linked", Response::html("")).fallback(Response::status(404)))
    });
    (web.start().expect("the web is served"), roots)
}

/// The pages that were requested, sorted: the number of the site, and the path.
fn requested(web: &RunningWeb) -> Vec<(usize, String)> {
    let log = web.log().into_iter().map(|request| (request.site, request.path));
    let mut pages: Vec<_> = log.filter(|(_, path)| path != "/robots.txt").collect();
    pages.sort();
    pages
}

fn pages(list: &[(usize, &str)]) -> Vec<(usize, String)> {
    list.iter().map(|(site, path)| (*site, (*path).to_owned())).collect()
}

#[test]
fn a_root_is_added_to_a_crawl_and_links_that_are_in_scope_now_are_followed() {
    let (web, [first, second]) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    let flags = ["--delay", "0s", "-d", directory];
    succeeds(&[&["crawl", &first], &flags[..]].concat());
    assert_eq!(requested(&web), pages(&[(0, "/"), (0, "/own")]));

    let list = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(list.path(), format!("# more\n{second}\n")).expect("written");
    let add = format!("@{}", as_text(list.path()));
    let messages = succeeds(&[&["crawl", "--add-root", &add], &flags[..]].concat());
    assert!(messages.contains(&format!("the roots are changed; added {second}")), "{messages}");
    let all = [(0, "/"), (0, "/linked"), (0, "/own"), (1, "/"), (1, "/linked"), (1, "/own")];
    assert_eq!(requested(&web), pages(&all));

    // The same command again, and one with all roots, request nothing.
    succeeds(&[&["crawl", "--add-root", &add], &flags[..]].concat());
    succeeds(&[&["crawl", &first, &second], &flags[..]].concat());
    assert_eq!(requested(&web), pages(&all));
    assert!(is_refused(&[&["crawl", &first], &flags[..]].concat()).contains("belongs to another crawl"));
}

#[test]
fn links_to_the_host_of_a_removed_root_are_not_followed() {
    let (web, [first, second]) = web();
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    let flags = ["--delay", "0s", "-d", directory];
    // One page is fetched, and the others are queued.
    succeeds(&[&["crawl", &first, &second, "--max-pages", "2"], &flags[..]].concat());
    let messages =
        succeeds(&[&["crawl", "--remove-root", &second, "--remove-root", "other.example"], &flags[..]].concat());
    assert!(messages.contains(&format!("the roots are changed; removed {second}")), "{messages}");
    assert!(messages.contains("other.example is not a root of this crawl"), "{messages}");
    let of_removed = requested(&web).into_iter().filter(|(site, path)| *site == 1 && path != "/").count();
    assert!(of_removed <= 1, "at most what the first run fetched: {:?}", requested(&web));
    assert!(requested(&web).contains(&(0, "/own".to_owned())));
    succeeds(&[&["crawl", &first], &flags[..]].concat());
    assert!(is_refused(&[&["crawl", "--remove-root", &first], &flags[..]].concat()).contains("leave no root"));
}

#[test]
fn a_change_of_roots_needs_a_crawl() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = as_text(folder.path());
    let add = ["--add-root", "http://127.0.0.1:9/"];
    assert!(is_refused(&[&["crawl"], &add[..]].concat()).contains("need -d"));
    assert!(is_refused(&[&["crawl", "-d", directory], &add[..]].concat()).contains("need an earlier crawl"));
    let with_root = [&["crawl", "h.example", "-d", directory], &add[..]].concat();
    assert!(is_refused(&with_root).contains("leave out the other roots"));
    let fresh = [&["crawl", "--fresh", "-d", directory], &add[..]].concat();
    assert!(is_refused(&fresh).contains("contradict --fresh"));
    let shared = [&["crawl", "-d", directory, "--frontier", "redis://127.0.0.1:9", "--name", "x"], &add[..]].concat();
    assert!(is_refused(&shared).contains("cannot be used in a fleet"));
}
