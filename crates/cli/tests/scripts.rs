//! The command in scripts: exit codes that describe the crawl directory, and standard output that is closed or full.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};

fn argiope(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs a shell command in which `$ARGIOPE` is the binary.
fn shell(folder: &Path, script: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", script]).env("ARGIOPE", env!("CARGO_BIN_EXE_argiope")).current_dir(folder);
    command.stdin(Stdio::null()).output().expect("a shell")
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn serve(site: Site) -> RunningWeb {
    PracticeWeb::new().site(site).start().expect("the practice web starts")
}

fn site(address: &str) -> Site {
    Site::http(&format!("{address}:0")).expect("a loopback address")
}

#[test]
fn broken_links_give_exit_code_3_in_the_second_run_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site("127.6.9.1").page("/", Response::links(["/gone"]));
    let root = site.url("/");
    let _web = serve(site);
    // The first run crawls. The others find a finished crawl, print no report, and name the broken links nevertheless.
    for flags in [&[][..], &["-q"], &[], &["--log-json"], &["-q", "--log-json"]] {
        let mut command = argiope(folder.path());
        let output = command.args(["crawl", &root, "-d", "crawl", "--fail-on", "broken"]).args(flags).output().unwrap();
        let stderr = stderr_of(&output);
        assert_eq!(output.status.code(), Some(3), "{flags:?}: {stderr}");
        assert!(stderr.contains("/gone") && stderr.contains("404"), "{flags:?}: {stderr}");
        let is_json = stderr.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
        assert_eq!(is_json, flags.contains(&"--log-json"), "{flags:?}: {stderr}");
    }
}

/// The robots.txt is valid for a day, so running the command again does not help.
#[test]
fn no_second_run_is_suggested_for_a_root_that_robots_txt_disallows() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site("127.6.9.28").robots("User-agent: *\nDisallow: /\n").page("/", Response::html("here"));
    let root = site.url("/");
    let _web = serve(site);
    for _ in 0..2 {
        let output = argiope(folder.path()).args(["crawl", &root, "-d", "crawl"]).output().expect("the binary runs");
        let stderr = stderr_of(&output);
        assert_eq!(output.status.code(), Some(4), "{stderr}");
        assert!(stderr.contains("robots.txt disallows them; argiope explain DIR URL shows the rule"), "{stderr}");
        assert!(!stderr.contains("run the same command to try"), "{stderr}");
    }
}

#[test]
fn roots_that_all_failed_give_exit_code_4_and_are_queued_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.6.9.2:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let root = format!("http://127.6.9.2:{port}/");
    let run = |more: &[&str]| {
        let mut command = argiope(folder.path());
        command.args(["crawl", &root, "-d", "crawl", "-q", "--retry-wait", "10ms"]).args(more);
        command.output().expect("the binary runs")
    };
    for _ in 0..2 {
        let output = run(&[]);
        assert_eq!(output.status.code(), Some(4), "{}", stderr_of(&output));
        let stderr = stderr_of(&output);
        assert!(stderr.contains("no root has given a page") && stderr.contains("refused"), "{stderr}");
    }
    let site = Site::http(&format!("127.6.9.2:{port}")).expect("the port is free").page("/", Response::html("here"));
    let _web = serve(site);
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    // Every view shows one record per URL: the latest.
    let export =
        argiope(folder.path()).args(["export", "crawl", "--format", "jsonl"]).output().expect("the binary runs");
    let text = String::from_utf8(export.stdout).expect("UTF-8");
    let pages: Vec<&str> = text.lines().filter(|line| line.contains("\"type\":\"page\"")).collect();
    assert_eq!(pages.len(), 1, "{text}");
    assert!(pages[0].contains("\"outcome\":\"ok\""), "{text}");
    let report = argiope(folder.path()).args(["report", "crawl"]).output().expect("the binary runs");
    assert!(String::from_utf8_lossy(&report.stdout).contains("1 page from 1 host"), "{report:?}");
}

/// A host that is down during one run: the next run requests its URLs again.
#[test]
fn urls_of_a_host_that_stopped_responding_are_requested_by_the_next_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages: Vec<String> = (0..30).map(|page| format!("/{page}")).collect();
    let site_at = |address: &str| {
        let site = Site::http(address).expect("the port is free").page("/", Response::links(&pages));
        pages.iter().fold(site, |site, page| site.page(page, Response::html("a page")))
    };
    let site = site_at("127.6.9.7:0");
    let (root, address) = (site.url("/"), site.url("/").replace("http://", "").replace('/', ""));
    let run = |more: &[&str]| {
        let mut command = argiope(folder.path());
        command.args(["crawl", &root, "-d", "crawl", "--retry-wait", "1ms", "--jsonl", "all.jsonl"]).args(more);
        let output = command.output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
        stderr_of(&output)
    };
    let web = serve(site);
    run(&["--max-pages", "1"]);
    drop(web);
    let stderr = run(&[]);
    assert!(stderr.contains("Hosts that stopped responding\n  127.6.9.7: 30 URLs not fetched"), "{stderr}");
    assert!(stderr.contains("to request the URLs of hosts that stopped responding"), "{stderr}");
    let explained =
        argiope(folder.path()).args(["explain", "crawl", &format!("{root}29")]).output().expect("the binary runs");
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("run the same command"), "{explained}");

    let web = serve(site_at(&address));
    // URLs that are queued again and not fetched yet are not failures.
    let stderr = run(&["--max-pages", "6"]);
    assert!(stderr.contains("30 URLs of hosts that stopped responding queued again"), "{stderr}");
    assert!(stderr.contains("6 pages from 1 host") && stderr.contains("25 URLs still queued"), "{stderr}");
    assert!(!stderr.contains("failed") && !stderr.contains("Broken links"), "{stderr}");
    let stderr = run(&["--max-pages", "31"]);
    assert!(stderr.contains("resuming, 6 pages fetched, 25 URLs queued"), "{stderr}");
    assert!(stderr.contains("Finished after") && stderr.contains("31 pages from 1 host"), "{stderr}");
    assert!(!stderr.contains("Hosts that stopped responding"), "{stderr}");
    let export =
        argiope(folder.path()).args(["export", "crawl", "--format", "jsonl"]).output().expect("the binary runs");
    let text = String::from_utf8(export.stdout).expect("UTF-8");
    let records: Vec<&str> = text.lines().filter(|line| line.contains("\"type\":\"page\"")).collect();
    assert_eq!(records.len(), 31, "{text}");
    assert!(records.iter().all(|record| record.contains("\"outcome\":\"ok\"")), "{text}");
    let requests = web.requests();
    let stderr = run(&[]);
    assert!(stderr.contains("this crawl is finished, with 31 pages"), "{stderr}");
    assert_eq!(web.requests(), requests);
}

#[test]
fn a_crawl_whose_reader_closed_the_pipe_ends_silently_and_resumes() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages: Vec<String> = (0..300).map(|page| format!("/{page}")).collect();
    let mut site = site("127.6.9.3").page("/", Response::links(pages.iter().map(String::as_str)));
    for page in &pages {
        site = site.page(page, Response::html("a page"));
    }
    let root = site.url("/");
    let _web = serve(site);
    let script = format!("set -o pipefail; \"$ARGIOPE\" crawl {root} -d crawl --jsonl - --per-host 1 | head -n 3");
    let output = shell(folder.path(), &script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    assert!(!stderr_of(&output).contains("error"), "{}", stderr_of(&output));
    let output = argiope(folder.path()).args(["crawl", &root, "-d", "crawl", "-q"]).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    let export =
        argiope(folder.path()).args(["export", "crawl", "--format", "jsonl"]).output().expect("the binary runs");
    let text = String::from_utf8(export.stdout).expect("UTF-8");
    assert_eq!(text.lines().filter(|line| line.contains("\"type\":\"page\"")).count(), 301);
}

#[test]
fn a_closed_or_full_standard_output_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site("127.6.9.4").page("/", Response::html("a page"));
    let root = site.url("/");
    let _web = serve(site);
    let crawled = argiope(folder.path()).args(["crawl", &root, "-d", "crawl", "-q"]).output().expect("the binary runs");
    assert_eq!(crawled.status.code(), Some(0), "{}", stderr_of(&crawled));
    for command in [
        format!("crawl {root} -d other --jsonl -"),
        format!("explain crawl {root}"),
        "export crawl --format jsonl".to_owned(),
        "report crawl".to_owned(),
        format!("fetch {root}"),
        "completions bash".to_owned(),
        "man".to_owned(),
        "--version".to_owned(),
        "crawl --help".to_owned(),
        "help crawl".to_owned(),
        "exhibition --hosts 1 --pages 1 --latency 1ms --engine tokio --json".to_owned(),
    ] {
        for to in [">&-", ">/dev/full"] {
            let output = shell(folder.path(), &format!("\"$ARGIOPE\" {command} {to}"));
            assert_eq!(output.status.code(), Some(1), "{command} {to}: {}", stderr_of(&output));
            assert!(stderr_of(&output).contains("standard output cannot be written"), "{}", stderr_of(&output));
        }
        let output = shell(folder.path(), &format!("\"$ARGIOPE\" {command} >/dev/null"));
        assert_ne!(output.status.code(), None, "{command}");
    }
}

#[test]
fn a_file_that_reaches_the_size_limit_is_a_write_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = "x".repeat(2_000);
    let links: Vec<String> = (0..200).map(|page| format!("/{page}/{long}")).collect();
    let site = site("127.6.9.5").page("/", Response::links(links.iter().map(String::as_str)));
    let root = site.url("/");
    let _web = serve(site);
    // `ulimit -f` of bash counts blocks of 1,024 bytes.
    let output = shell(folder.path(), &format!("ulimit -f 64; \"$ARGIOPE\" crawl {root} -d crawl -q"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr_of(&output));
}

#[test]
fn all_members_of_a_redirect_loop_are_reported_as_broken() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site("127.6.9.6")
        .page("/", Response::links(["/a", "/fine"]))
        .page("/a", Response::redirect("/b", 302))
        .page("/b", Response::redirect("/c", 302))
        .page("/c", Response::redirect("/a", 302))
        .page("/fine", Response::redirect("/", 302));
    let root = site.url("/");
    let _web = serve(site);
    let mut command = argiope(folder.path());
    let output = command.args(["crawl", &root, "-d", "crawl", "-q", "--fail-on", "broken", "--jsonl", "-"]).output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(3), "{}", stderr_of(&output));
    let records = String::from_utf8_lossy(&output.stdout);
    assert_eq!(records.matches("redirect_loop").count(), 1, "{records}");
    let stderr = stderr_of(&output);
    for member in ["/a", "/b", "/c"] {
        assert!(stderr.contains(&format!("{}{member}", root.trim_end_matches('/'))), "{stderr}");
    }
    assert!(!stderr.contains("/fine"), "{stderr}");
}

#[test]
fn the_crawl_directory_may_be_a_symbolic_link_to_a_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("real")).expect("a folder");
    std::os::unix::fs::symlink("real", folder.path().join("link")).expect("a link");
    let site = site("127.6.9.31").page("/", Response::html("here"));
    let root = site.url("/");
    let _web = serve(site);
    for flag in ["--pace=full", "--recrawl", "--fresh"] {
        let output =
            argiope(folder.path()).args(["crawl", &root, "-d", "link", flag]).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{flag}: {}", stderr_of(&output));
    }
    assert!(folder.path().join("real/crawl.json").is_file());
    let output = argiope(folder.path()).args(["report", "link"]).output().expect("the binary runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 page from 1 host"), "{output:?}");
}

#[test]
fn a_crawl_of_the_longest_host_name_gets_a_default_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site("127.6.9.32").page("/", Response::html("here"));
    let port = site.address().port();
    let _web = serve(site);
    // A label has at most 63 characters. With the port and `.crawl`, the name would be longer than the 255 bytes of a file
    // name.
    let name = format!("{}.{}.{}.{}.bb", "a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(63));
    assert_eq!(name.len(), 249);
    let resolve = format!("{name}:{port}:127.6.9.32");
    let mut command = argiope(folder.path());
    let output = command.args(["crawl", &format!("http://{name}:{port}/"), "--resolve", &resolve]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    let created: Vec<_> = std::fs::read_dir(folder.path()).expect("the folder").collect();
    assert_eq!(created.len(), 1, "{created:?}");
}

#[test]
#[ignore = "needs script"]
fn parquet_is_not_written_to_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site("127.6.9.33").page("/", Response::html("here"));
    let root = site.url("/");
    let _web = serve(site);
    let output = argiope(folder.path()).args(["crawl", &root, "-d", "crawl", "-q"]).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr_of(&output));
    let output = shell(folder.path(), "script -qec \"$ARGIOPE export crawl --format parquet\" /dev/null");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("not written to a terminal") && !shown.contains("PAR1"), "{shown}");
    assert_eq!(output.status.code(), Some(2));
    let output = shell(folder.path(), "$ARGIOPE export crawl --format parquet | head -c 4");
    assert_eq!(output.stdout, b"PAR1");
}

/// `--fresh` would remove the crawl that `--recrawl` compares with. Exports of bodies need an archive.
#[test]
fn contradictory_flags_and_exports_without_an_archive_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = site("127.6.9.8").page("/", Response::html("a page"));
    let root = site.url("/");
    let web = serve(site);
    let run = |arguments: &[&str]| argiope(folder.path()).args(arguments).output().expect("the binary runs");
    assert_eq!(run(&["crawl", &root, "-d", "crawl", "-q"]).status.code(), Some(0));
    let requests = web.requests();
    let output = run(&["crawl", &root, "-d", "crawl", "-q", "--fresh", "--recrawl"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr_of(&output));
    assert!(stderr_of(&output).contains("'--fresh' cannot be used with '--recrawl'"), "{}", stderr_of(&output));
    assert_eq!(web.requests(), requests);
    assert_eq!(run(&["report", "crawl"]).status.code(), Some(0), "the crawl is still there");
    for format in ["cdxj", "wacz", "site", "text"] {
        let output = run(&["export", "crawl", "--format", format, "-o", "out/"]);
        assert_eq!(output.status.code(), Some(2), "{format}: {}", stderr_of(&output));
        assert!(stderr_of(&output).contains("--warc"), "{format}: {}", stderr_of(&output));
    }
    let output = run(&["export", "crawl", "--format", "cdxj"]);
    assert!(output.stdout.is_empty() && output.status.code() == Some(2), "{}", stderr_of(&output));
}
