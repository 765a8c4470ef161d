//! Commands that write to a file system that is full: the exit code is 1, the message names the file, and no part of a
//! file has the name of the whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

const PAGES: usize = 100;
/// The least size of a tmpfs: one page of memory.
const ONE_PAGE: &str = "4k";

fn argiope(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder).args(arguments).output().expect("the command was built")
}

fn path(number: usize) -> String {
    format!("/{number}-{}", "x".repeat(50))
}

/// A site whose pages are linked from its root, with more than a kilobyte of text each. Half of them link to a missing
/// page.
fn serve() -> (RunningWeb, String) {
    let mut site = Site::http("127.0.0.1:0").expect("a socket").page("/", Response::links((0..PAGES).map(path)));
    for number in 0..PAGES {
        let text = format!("<p>This is paragraph {number} of a page that the main text contains. ").repeat(20);
        let link = if number % 2 == 0 { format!("<a href=/missing/{number}>m</a>") } else { String::new() };
        site =
            site.page(&path(number), Response::html(format!("<title>{number}</title><article>{text}{link}</article>")));
    }
    let root = site.url("/");
    let site = site.fallback(Response::status(404));
    (PracticeWeb::new().site(site).start().expect("the web is served"), root)
}

/// Crawls the site into a directory with this name.
fn crawl(folder: &Path, root: &str, name: &str) {
    let flags = ["-q", "--allow-private", "--pace", "full", "--warc", "--assets"];
    let output = argiope(folder, &[&["crawl", root, "-d", name], &flags[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the command while `disk` is a file system of this size. Asserts the exit code 1. Returns the messages; what is on
/// that file system is in the folder `after`.
fn fail_on_small_disk(folder: &Path, size: &str, arguments: &[&str]) -> String {
    fail_with_temporary_folder(folder, &std::env::temp_dir(), size, arguments)
}

/// As [`fail_on_small_disk`], with another folder for temporary files.
fn fail_with_temporary_folder(folder: &Path, temporary: &Path, size: &str, arguments: &[&str]) -> String {
    let script = format!(
        "rm -rf after; mkdir -p disk after; mount -t tmpfs -o size={size} none disk || exit 77; \
         timeout 100 \"$0\" \"$@\" > stdout; code=$?; cp -a disk/. after; exit $code"
    );
    let mut unshare = Command::new("unshare");
    unshare.current_dir(folder).args(["-m", "/bin/sh", "-c", &script, env!("CARGO_BIN_EXE_argiope")]).args(arguments);
    let output = unshare.env("TMPDIR", temporary).output().expect("unshare runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
    assert!(stderr.contains("No space left on device"), "{arguments:?}: {stderr}");
    stderr
}

/// The files below a folder, by their path in it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is inside").display().to_string();
                found.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    found
}

#[test]
#[ignore = "needs mount"]
fn a_file_that_cannot_be_written_whole_is_named_and_removed() {
    let (_web, root) = serve();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    crawl(folder, &root, "d.crawl");
    crawl(folder, &format!("{}{}", root.trim_end_matches('/'), path(0)), "e.crawl");
    let formats =
        ["jsonl", "csv", "parquet", "links", "graphml", "sitemap", "cdxj", "text", "markdown", "wacz"].into_iter();
    let exports = formats.map(|format| vec!["export", "d.crawl", "--format", format, "-o"]);
    let others = [
        vec!["report", "d.crawl", "--html"],
        vec!["audit", "d.crawl", "--format", "json", "-o"],
        vec!["diff", "d.crawl", "e.crawl", "-o"],
        vec!["check", &root, "--allow-private", "--pace", "full", "--format", "json", "-o"],
    ];
    for arguments in exports.chain(others) {
        let stderr = fail_on_small_disk(folder, ONE_PAGE, &[&arguments[..], &["disk/file"]].concat());
        assert!(stderr.contains("disk/file cannot be written: "), "{arguments:?}: {stderr}");
        assert_eq!(files(&folder.join("after")), BTreeMap::new(), "{arguments:?}");
    }
}

#[test]
#[ignore = "needs mount"]
fn each_file_of_an_export_to_a_full_folder_is_whole() {
    let (_web, root) = serve();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    crawl(folder, &root, "d.crawl");
    for format in ["text", "markdown", "site"] {
        let whole = argiope(folder, &["export", "d.crawl", "--format", format, "-o", "whole/"]);
        assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
        let whole = files(&folder.join("whole"));
        fs::remove_dir_all(folder.join("whole")).expect("removed");
        let stderr = fail_on_small_disk(folder, "66k", &["export", "d.crawl", "--format", format, "-o", "disk/copy/"]);
        let after = files(&folder.join("after/copy"));
        assert!(stderr.contains("disk/copy/") && after.len() > 5 && after.len() < whole.len(), "{format}: {stderr}");
        let (named, _) = stderr.split_once(": No space").expect("the error");
        assert!(whole.keys().any(|name| named.ends_with(&format!("disk/copy/{name}"))), "{format}: {stderr}");
        for (name, content) in after {
            // The list of a site is empty until the site is complete.
            let is_whole = whole.get(&name) == Some(&content) || (name == "argiope-site.jsonl" && content.is_empty());
            assert!(is_whole, "{format}: {name} has {} bytes", content.len());
        }
    }
}

#[test]
#[ignore = "needs mount"]
fn a_full_folder_for_temporary_files_is_named() {
    let (_web, root) = serve();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    crawl(folder, &root, "d.crawl");
    let check = ["check", &root, "--allow-private", "--pace", "full"];
    for arguments in [&["export", "d.crawl", "--format", "wacz", "-o", "copy.wacz"][..], &check] {
        let stderr = fail_with_temporary_folder(folder, Path::new("disk"), ONE_PAGE, arguments);
        assert!(stderr.contains("a temporary file in disk"), "{arguments:?}: {stderr}");
    }
    assert!(!folder.join("copy.wacz").exists());
}

#[test]
#[ignore = "needs mount"]
fn a_check_whose_crawl_directory_is_full_names_its_file() {
    let (_web, root) = serve();
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["check", &root, "--allow-private", "--pace", "full", "-d", "disk/d.crawl"];
    for size in ["16k", "64k"] {
        let stderr = fail_on_small_disk(folder.path(), size, &arguments);
        assert!(stderr.contains("disk/d.crawl/"), "{size}: {stderr}");
    }
}
