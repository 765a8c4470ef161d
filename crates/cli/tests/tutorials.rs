//! The tutorials of the book work: their shell blocks are run in order, beside the web that `argiope demo --web` serves.
//! Blocks marked `console` are not run.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const ARGIOPE: &str = env!("CARGO_BIN_EXE_argiope");

/// The web of the tutorials. It is stopped as a user would, with Ctrl-C.
struct Web {
    process: Child,
    port: u16,
}

impl Web {
    fn start() -> Self {
        // The hosts need the same port. Another test may take it in between, so it is tried more than once.
        for _ in 0..20 {
            let free =
                TcpListener::bind("127.20.0.1:0").expect("a free port").local_addr().expect("its address").port();
            let mut command = Command::new(ARGIOPE);
            command.args(["demo", "--web", &free.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut process = command.spawn().expect("the binary runs");
            let lines = BufReader::new(process.stdout.take().expect("its output")).lines().map_while(Result::ok);
            if lines.into_iter().any(|line| line == "serving until Ctrl-C") {
                return Self { process, port: free };
            }
            process.wait().expect("it ended");
        }
        panic!("no port is free on all addresses");
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::INT).expect("it runs");
        assert!(self.process.wait().expect("it ended").success());
    }
}

/// The shell blocks of a page, as one script that ends at the first command that fails.
fn script(page: &str, port: u16) -> String {
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    let script = blocks.fold("set -euo pipefail\n".to_owned(), |script, block| script + block);
    script.replace(":8000", &format!(":{port}"))
}

/// Runs a tutorial, and returns what it printed.
fn follow(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let page = std::fs::read_to_string(page).expect("the tutorial");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let web = Web::start();
    let programs = Path::new(ARGIOPE).parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.arg("-c").arg(script(&page, web.port)).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.env("PATH", format!("{programs}:{path}")).output().expect("bash runs");
    web.stop();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_tutorial_about_tables_gives_products() {
    let printed = follow("tutorial-table.md");
    for part in
        ["\"price\": \"£17.37\"", "\"currency\": \"GBP\"", "/product/1,Funnel web No. 1,17.37,3", "0 changes.jsonl"]
    {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
}

#[test]
fn the_tutorial_about_new_pages_leaves_the_others_out() {
    let printed = follow("tutorial-new.md");
    for part in ["28 list.csv", "not among the links that --pick and --next choose", "27 listed.csv", "0 new.jsonl"] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
}

#[test]
fn the_tutorial_about_archives_finds_the_lost_page() {
    let printed = follow("tutorial-archive.md");
    for part in [".warc.gz", "404 Not Found", "73 pages from 1 host", "73 unchanged"] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
}

#[test]
fn the_tutorial_about_texts_gives_files() {
    let printed = follow("tutorial-search.md");
    for part in ["How to hang a web", "\"kept\"", "29\n"] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
}

#[test]
fn the_tutorial_about_tests_finds_errors() {
    let printed = follow("tutorial-test.md");
    for part in ["exit code 3", "/attic/lost-letter", "unknown-spider", "410"] {
        assert!(printed.contains(part), "{part} is missing in:\n{printed}");
    }
}
