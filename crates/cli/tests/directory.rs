//! The crawl directory from the command line: created, resumed, refused, started over.

mod durable_kit;

use std::fs;
use std::net::TcpListener;

use argiope_practice::{GraphPlan, PracticeWeb, Response, Site};
use durable_kit::{CrawlFixture, GraphWeb, TIMEOUT, poll, records, wait};

fn small_web() -> GraphWeb {
    GraphWeb::serve(GraphPlan { pages: 60, links: 6, missing: 50, ..GraphPlan::default() })
}

/// The number of `run` records.
fn run_records(records: &[serde_json::Value]) -> usize {
    records.iter().filter(|record| record["type"] == "run").count()
}

#[test]
fn a_finished_crawl_is_reported_and_not_changed() {
    let practice = small_web();
    let fixture = CrawlFixture::new(&practice.roots, &[]);
    fixture.succeed(&[]);
    practice.check(&fixture.records());
    for file in ["crawl.json", "log/000001.log", "lock", "report.txt"] {
        assert!(fixture.path("d.crawl").join(file).exists(), "{file}");
    }
    let (before, requests) = (fs::read(fixture.path("p.jsonl")).expect("records"), practice.web.requests());
    let stderr = fixture.succeed(&[]);
    assert!(stderr.contains("d.crawl: this crawl is finished, with 60 pages"), "{stderr}");
    assert_eq!(fs::read(fixture.path("p.jsonl")).expect("records"), before);
    assert_eq!(practice.web.requests(), requests);
}

#[test]
fn a_higher_limit_resumes_and_pages_are_counted_over_all_runs() {
    let practice = small_web();
    let fixture = CrawlFixture::new(&practice.roots, &[]);
    for (limit, pages) in [("7", 7), ("7", 7), ("20", 20)] {
        fixture.succeed(&["--max-pages", limit]);
        let records = fixture.records();
        let found = records.iter().filter(|record| record["type"] == "page").count();
        assert_eq!(found, pages, "--max-pages {limit}");
    }
    fixture.succeed(&[]);
    let records = fixture.records();
    practice.check(&records);
    assert_eq!(run_records(&records), 8, "two lines for each run");
    assert_eq!(records.last().expect("records")["reason"], "finished");
    // No page was requested twice, and robots.txt was requested only by the first run.
    assert!(practice.requests().values().all(|count| *count == 1));
    assert_eq!(practice.web.log().iter().filter(|seen| seen.path == "/robots.txt").count(), 1);
}

/// Nothing listens on the hosts of the first roots, and without robots.txt their pages start at once. The first of them uses
/// up a limit of one page, and gives it back.
#[test]
fn a_page_without_a_connection_does_not_count_towards_the_limit() {
    let practice = small_web();
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let dead = (1..=5).map(|host| format!("http://127.9.0.{host}:{closed}/"));
    let roots: Vec<String> = dead.chain(practice.roots.iter().cloned()).collect();
    let fixture = CrawlFixture::new(&roots, &["--robots", "ignore", "--max-tries", "1"]);
    for limit in [1, 7, 20] {
        let stderr = fixture.succeed(&["--max-pages", &limit.to_string()]);
        let records = fixture.records();
        let count = |is_failed: bool| {
            let pages = records.iter().filter(|record| record["type"] == "page");
            pages.filter(|record| (record["error"]["kind"] == "connect_refused") == is_failed).count()
        };
        assert_eq!((count(false), count(true) > 0), (limit, true), "{stderr}");
        assert_eq!(records.last().expect("records")["reason"], "max_pages");
        assert_eq!(practice.web.requests(), limit as u64, "each page is requested once");
    }
}

#[test]
fn a_directory_of_another_format_is_refused_and_not_changed() {
    let practice = small_web();
    let fixture = CrawlFixture::new(&practice.roots, &[]);
    fixture.succeed(&["--max-pages", "5"]);
    let path = fixture.path("d.crawl/crawl.json");
    let other = fs::read_to_string(&path).expect("reads").replace("\"format\": 1,", "\"format\": 9,");
    fs::write(&path, &other).expect("writes");
    let requests = practice.web.requests();
    let read = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
        let output = command.current_dir(fixture.folder.path()).args(arguments).output().expect("the command runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let refusals = [
        fixture.fail(1, &[]),
        fixture.fail(1, &["--fresh"]),
        read(&["report", "d.crawl"]),
        read(&["export", "d.crawl", "--format", "csv"]),
    ];
    for stderr in refusals {
        assert!(stderr.contains("has format 9, this program knows 1; use a newer argiope"), "{stderr}");
    }
    assert_eq!(fs::read_to_string(&path).expect("reads"), other);
    assert!(fixture.path("d.crawl/log/000001.log").exists());
    assert_eq!(practice.web.requests(), requests);
}

#[test]
fn settings_that_may_change_apply_and_others_are_refused() {
    let practice = small_web();
    let fixture = CrawlFixture::new(&practice.roots, &[]);
    fixture.succeed(&["--max-pages", "5"]);
    let stderr = fixture.fail(2, &["--exclude", "x$", "--robots", "ignore", "http://127.0.0.1:9/"]);
    for line in ["  + exclude: x$", "  - robots: obey", "  + robots: ignore", "  + roots: http://127.0.0.1:9/"] {
        assert!(stderr.contains(line), "{line} is missing:\n{stderr}");
    }
    fixture.succeed(&["--engine", "threads", "--delay", "1ms", "--max-tries", "2", "--max-pages", "10"]);
    fixture.succeed(&[]);
    practice.check(&fixture.records());
}

#[test]
fn fresh_lists_the_files_it_removes_and_removes_nothing_else() {
    let practice = small_web();
    let fixture = CrawlFixture::new(&practice.roots, &[]);
    fixture.succeed(&["--max-pages", "5"]);
    fs::write(fixture.path("d.crawl/mine.txt"), "mine").expect("written");
    let stderr = fixture.succeed(&["--fresh", "--exclude", "x$"]);
    for name in ["d.crawl/crawl.json", "d.crawl/log/000001.log", "p.jsonl", "d.crawl/report.txt"] {
        assert!(stderr.lines().any(|line| line.starts_with("removed ") && line.ends_with(name)), "{name}: {stderr}");
    }
    assert_eq!(run_records(&fixture.records()), 2, "the earlier records are gone");
    assert_eq!(fs::read_to_string(fixture.path("d.crawl/mine.txt")).expect("still there"), "mine");

    fs::create_dir(fixture.path("thesis")).expect("made");
    fs::write(fixture.path("thesis/chapter1"), "years").expect("written");
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    for fresh in [&["--fresh"][..], &[]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.current_dir(fixture.folder.path()).arg("crawl").args(&roots).args(["-d", "thesis"]).args(fresh);
        let output = command.output().expect("the command runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.contains("thesis is not a crawl directory and is not empty: chapter1 is in it; give another --out"),
            "{stderr}"
        );
        assert_eq!(fs::read_dir(fixture.path("thesis")).expect("listed").count(), 1);
    }
}

#[test]
fn the_directory_is_named_after_the_first_root_and_its_port() {
    let practice = small_web();
    let folder = tempfile::tempdir().expect("a folder");
    let port = practice.web.addresses()[0].port();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
    let output = command.current_dir(&folder).args(["crawl", "-q", "--max-pages", "1", &practice.roots[0]]).output();
    assert!(output.expect("the command runs").status.success());
    assert!(folder.path().join(format!("127.1.0.1-{port}.crawl/crawl.json")).exists());
}

#[test]
fn a_second_process_is_refused_until_the_first_one_is_dead() {
    let site = Site::http("127.0.0.1:0").expect("a port").page("/", Response::hang()).robots("");
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let fixture = CrawlFixture::new(&[root], &[]);
    let mut first = fixture.spawn(&[]);
    // robots.txt and the page that hangs.
    assert!(web.wait_requests(2, TIMEOUT), "the first crawl is running");
    let stderr = fixture.fail(1, &[]);
    assert!(stderr.contains(&format!("process {} on ", first.id())), "{stderr}");
    assert!(fixture.fail(1, &["--fresh"]).contains("is being crawled by"));
    first.kill().expect("the process is killed");
    wait(&mut first);
    let mut third = fixture.spawn(&[]);
    assert!(web.wait_requests(3, TIMEOUT), "the crawl resumed and requested only the page");
    third.kill().expect("the process is killed");
    wait(&mut third);
}

#[test]
fn a_file_of_another_program_is_refused_and_a_new_output_gets_the_remaining_records() {
    let practice = small_web();
    let fixture = CrawlFixture::new(&practice.roots, &[]);
    fs::write(fixture.path("p.jsonl"), "a letter\n").expect("written");
    let stderr = fixture.fail(1, &[]);
    assert!(stderr.contains("p.jsonl exists and was not written by this crawl"), "{stderr}");
    assert_eq!(fs::read_to_string(fixture.path("p.jsonl")).expect("still there"), "a letter\n");
    fs::remove_file(fixture.path("p.jsonl")).expect("removed");

    fixture.succeed(&["--max-pages", "10"]);
    // A crawl whose output file is missing cannot be resumed.
    fs::rename(fixture.path("p.jsonl"), fixture.path("first.jsonl")).expect("renamed");
    let stderr = fixture.fail(1, &[]);
    assert!(stderr.contains("p.jsonl is missing") && stderr.contains("argiope export"), "{stderr}");

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
    let roots = practice.roots.iter().map(String::as_str);
    let common = "crawl --scope any --allow-private -q -d d.crawl --jsonl".split(' ');
    let output = command.current_dir(fixture.folder.path()).args(common.chain(["-"]).chain(roots)).output();
    let output = output.expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(fixture.path("rest.jsonl"), &output.stdout).expect("written");
    let mut all = records(&fixture.path("first.jsonl"));
    all.extend(records(&fixture.path("rest.jsonl")));
    practice.check(&all);
}

#[test]
fn all_pages_are_fetched_with_a_low_limit_on_open_files() {
    let practice = GraphWeb::serve(GraphPlan { pages: 300, latency_us: (2_000, 20_000), ..GraphPlan::default() });
    let fixture = CrawlFixture::new(&practice.roots, &[]);
    let roots = practice.roots.join(" ");
    for engine in ["tokio", "coroutines", "callbacks", "threads"] {
        let shell = format!(
            "ulimit -n 64; exec {} crawl --scope any --allow-private --pace full --per-ip 0 -c 1000 -q -d {engine} \
             --jsonl {engine}.jsonl --engine {engine} {roots}",
            env!("CARGO_BIN_EXE_argiope")
        );
        let mut command = std::process::Command::new("/bin/sh");
        let output =
            command.current_dir(fixture.folder.path()).args(["-c", &shell]).output().expect("the command runs");
        assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
        practice.check(&records(&fixture.path(&format!("{engine}.jsonl"))));
    }
}

/// A run obeys the Retry-After that an earlier run received.
#[test]
fn politeness_state_is_kept_across_runs() {
    let busy = Response::status(503).header("Retry-After", "3600");
    let site = Site::http("127.0.0.1:0").expect("a port").page("/", busy).robots("");
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let fixture = CrawlFixture::new(&[root], &[]);
    let mut crawl = fixture.spawn(&[]);
    assert!(web.wait_answered(2, TIMEOUT), "robots.txt and the page were requested");
    // Wait until the response was processed and stored.
    let log = fixture.path("d.crawl/log/000001.log");
    let key = b"\"rest\":";
    let is_stored = || fs::read(&log).is_ok_and(|bytes| bytes.windows(key.len()).any(|part| part == key));
    assert!(poll(is_stored), "the pause is stored");
    crawl.kill().expect("the process is killed");
    wait(&mut crawl);
    let output = fixture.run(&["--max-time", "1s"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(web.requests(), 2, "the second run sent no request");
    let records = fixture.records();
    assert_eq!(
        (records.last().expect("records")["reason"].as_str(), records[0]["type"].as_str()),
        (Some("max_time"), Some("run"))
    );
    assert_eq!(records.last().expect("records")["queued"], 1);
}

/// Scope, depth and patterns may be changed: known links are judged again.
#[test]
fn the_scope_of_a_crawl_can_be_widened_and_narrowed() {
    let site = argiope_practice::Site::http("127.0.0.1:0").expect("a port").robots("");
    let page = |links: &[&str]| argiope_practice::Response::links(links.iter().copied());
    let site = site
        .page("/", page(&["/a", "/b", "/nofollow"]))
        .page("/a", page(&["/a/1", "/"]))
        .page("/a/1", page(&["/a/2"]))
        .page("/a/2", page(&["/b/1"]))
        .page("/b", page(&["/b/1"]))
        .page("/nofollow", argiope_practice::Response::html("<meta name=robots content=nofollow><a href=/never>n</a>"))
        .fallback(argiope_practice::Response::html("<p>end"));
    let root = site.url("/");
    let web = argiope_practice::PracticeWeb::new().site(site).start().expect("a server");
    let fixture = CrawlFixture::new(&[root], &["--no-progress"]);
    let fetched = || {
        let mut paths: Vec<String> =
            web.log().into_iter().map(|seen| seen.path).filter(|path| path != "/robots.txt").collect();
        paths.sort_unstable();
        paths
    };
    fixture.succeed(&["--depth", "1"]);
    assert_eq!(fetched(), ["/", "/a", "/b", "/nofollow"]);
    // Wider: the links at the old limit are followed, and nothing is fetched twice.
    let stderr = fixture.succeed(&["--depth", "2", "--exclude", "b/1"]);
    assert!(stderr.contains("--depth is changed: it was 1, and is 2"), "{stderr}");
    assert!(stderr.contains("--exclude is changed: it was none, and is b/1"), "{stderr}");
    assert!(stderr.contains("1 more are queued"), "{stderr}");
    assert_eq!(fetched(), ["/", "/a", "/a/1", "/b", "/nofollow"]);
    // The same command again has nothing to do and reports no changes.
    let stderr = fixture.succeed(&["--depth", "2", "--exclude", "b/1"]);
    assert!(stderr.contains("is finished") && !stderr.contains("is changed"), "{stderr}");
    // The crawl is finished, but the change of the settings is stored. So the second run reports no change.
    for is_changed in [true, false] {
        let stderr = fixture.succeed(&["--depth", "2", "--exclude", "b"]);
        assert_eq!(stderr.contains("--exclude is changed: it was b/1, and is b"), is_changed, "{stderr}");
        assert!(stderr.contains("is finished"), "{stderr}");
    }
    let explain = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"))
        .args(["explain", "d.crawl", "/b"])
        .current_dir(fixture.folder.path())
        .output();
    let explained = String::from_utf8(explain.expect("the command runs").stdout).expect("UTF-8");
    assert!(explained.contains("out of scope, rule exclude"), "{explained}");
    // Without the pattern, the link that it excluded is fetched.
    fixture.succeed(&["--depth", "2"]);
    assert_eq!(fetched(), ["/", "/a", "/a/1", "/b", "/b/1", "/nofollow"]);
    fixture.succeed(&[]);
    assert_eq!(fetched(), ["/", "/a", "/a/1", "/a/2", "/b", "/b/1", "/nofollow"]);
    let records = fixture.records().iter().filter(|record| record["type"] == "page").count();
    assert_eq!(records, 7);
}

#[test]
fn queued_links_that_are_out_of_scope_now_leave_the_queue() {
    let links: Vec<String> =
        (0..20).map(|number| format!("/{}/{number}", if number < 10 { "low" } else { "high" })).collect();
    let site = argiope_practice::Site::http("127.0.0.1:0").expect("a port").robots("");
    let site = site
        .page("/", argiope_practice::Response::links(links.iter().map(String::as_str)))
        .fallback(argiope_practice::Response::html("<p>end"));
    let root = site.url("/");
    let web = argiope_practice::PracticeWeb::new().site(site).start().expect("a server");
    let fixture = CrawlFixture::new(std::slice::from_ref(&root), &["--no-progress"]);
    fixture.succeed(&["--max-pages", "1"]);
    let stderr = fixture.succeed(&["--exclude", "/high/"]);
    assert!(stderr.contains("--exclude is changed"), "{stderr}");
    let high = || web.log().iter().filter(|seen| seen.path.starts_with("/high")).count();
    let pages = || fixture.records().iter().filter(|record| record["type"] == "page").count();
    assert_eq!((high(), pages()), (0, 11));
    let explain = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"))
        .args(["explain", "d.crawl", &format!("{root}high/15")])
        .current_dir(fixture.folder.path())
        .output();
    let explained = String::from_utf8(explain.expect("the command runs").stdout).expect("UTF-8");
    assert!(explained.contains("exclude"), "{explained}");
    // Links that are in scope again are queued again.
    let stderr = fixture.succeed(&[]);
    assert!(stderr.contains("10 more are queued"), "{stderr}");
    assert_eq!((high(), pages()), (10, 21));
}
