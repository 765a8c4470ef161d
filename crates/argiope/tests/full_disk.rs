//! A crawl of the library on a file system that is really full: it ends with an error, and resumes with more room.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use argiope::{Crawl, Error, Pace, RobotsPolicy};
use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

const PAGES: usize = 1_500;
/// A timeout that a passing test does not reach.
const TIMEOUT: Duration = Duration::from_secs(100);

fn path(number: usize) -> String {
    format!("/{number}-{}", "x".repeat(200))
}

fn serve() -> (RunningWeb, String) {
    let site = Site::http("127.5.4.6:0").expect("a loopback address");
    let site = site.page("/", Response::links((0..PAGES).map(path))).fallback(Response::html("<title>x</title>"));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("the practice web starts"), root)
}

/// A file system in memory, mounted in the name space of a shell. Other processes reach it through `/proc`.
struct SmallDisk {
    shell: Child,
    path: PathBuf,
}

impl SmallDisk {
    fn mount(folder: &Path, size: &str) -> Self {
        let script = format!(
            "mount -t tmpfs -o size={size} none . && echo ready; read -r _; mount -o remount,size=64m . && echo ready; read -r _"
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "/bin/sh", "-c", &script]).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let shell = unshare.spawn().expect("unshare runs");
        let inside = folder.strip_prefix("/").expect("an absolute path");
        let path = Path::new(&format!("/proc/{}/root", shell.id())).join(inside);
        let mut disk = Self { shell, path };
        disk.wait();
        disk
    }

    fn enlarge(&mut self) {
        self.shell.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("the shell reads");
        self.wait();
    }

    /// Waits until the shell has done its next step.
    fn wait(&mut self) {
        let mut line = String::new();
        BufReader::new(self.shell.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("the shell writes");
        assert_eq!(line, "ready\n");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Without input, the shell ends.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Crawls to the end or to an error. Returns the pages that were delivered.
fn crawl(root: &str, directory: &Path, is_archived: bool) -> (BTreeSet<String>, Result<u64, Error>) {
    let (sender, result) = channel();
    let (root, directory) = (root.to_owned(), directory.to_owned());
    std::thread::spawn(move || {
        let builder = Crawl::builder(root.as_str()).robots(RobotsPolicy::Ignore).pace(Pace::Full).directory(&directory);
        let builder = builder.configure(|config| config.warc = is_archived);
        let mut delivered = BTreeSet::new();
        let left = builder.start_blocking().and_then(|mut pages| {
            delivered.extend(pages.by_ref().map(|page| page.url().path().to_owned()));
            pages.close().map(|summary| summary.left)
        });
        sender.send((delivered, left))
    });
    result.recv_timeout(TIMEOUT).expect("no thread waits for ever")
}

#[test]
#[ignore = "needs mount"]
fn a_full_file_system_ends_the_crawl_and_no_page_is_lost_when_it_resumes() {
    let (_web, root) = serve();
    let expected: BTreeSet<String> = (0..PAGES).map(path).chain(["/".to_owned()]).collect();
    let plain = ["16k", "64k", "150k", "256k", "400k"].map(|size| (size, false));
    let archived = ["16k", "64k", "150k", "256k", "400k", "1m"].map(|size| (size, true));
    for (size, is_archived) in plain.into_iter().chain(archived) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut disk = SmallDisk::mount(&folder.path().canonicalize().expect("a path"), size);
        let directory = disk.path.join("full.crawl");
        let (mut delivered, result) = crawl(&root, &directory, is_archived);
        let message = result.expect_err("the disk is full").to_string();
        assert!(message.contains("No space left on device"), "{size}, {is_archived}: {message}");
        disk.enlarge();
        let (more, result) = crawl(&root, &directory, is_archived);
        assert_eq!(result.expect("it resumes"), 0, "{size}, {is_archived}");
        delivered.extend(more);
        assert_eq!(delivered, expected, "{size}, {is_archived}");
    }
}
