//! The crawl directory from the command line: created, resumed, refused, started over.

mod durable_kit;

use std::fs;

use argiope_practice::{GraphPlan, PracticeWeb, Response, Site};
use durable_kit::{Bench, PATIENCE, Practice, poll, records, wait};

fn small() -> Practice {
    Practice::serve(GraphPlan { pages: 60, links: 6, missing: 50, ..GraphPlan::default() })
}

fn runs(records: &[serde_json::Value]) -> usize {
    records.iter().filter(|record| record["type"] == "run").count()
}

#[test]
fn a_finished_crawl_says_so_and_adds_nothing() {
    let practice = small();
    let bench = Bench::new(&practice.roots, &[]);
    bench.succeed(&[]);
    practice.check(&bench.records());
    for file in ["crawl.json", "log/000001.log", "lock", "report.txt"] {
        assert!(bench.path("d.crawl").join(file).exists(), "{file}");
    }
    let (before, requests) = (fs::read(bench.path("p.jsonl")).expect("records"), practice.web.requests());
    let said = bench.succeed(&[]);
    assert!(said.contains("d.crawl: this crawl is finished, with 60 URLs"), "{said}");
    assert_eq!(fs::read(bench.path("p.jsonl")).expect("records"), before);
    assert_eq!(practice.web.requests(), requests);
}

#[test]
fn a_higher_limit_resumes_and_pages_are_counted_over_all_runs() {
    let practice = small();
    let bench = Bench::new(&practice.roots, &[]);
    for (limit, pages) in [("7", 7), ("7", 7), ("20", 20)] {
        bench.succeed(&["--max-pages", limit]);
        let records = bench.records();
        let found = records.iter().filter(|record| record["type"] == "page").count();
        assert_eq!(found, pages, "--max-pages {limit}");
    }
    bench.succeed(&[]);
    let records = bench.records();
    practice.check(&records);
    assert_eq!(runs(&records), 8, "two lines for each run");
    assert_eq!(records.last().expect("records")["reason"], "finished");
    // Nothing was requested twice; robots.txt was stored too.
    assert!(practice.requests().values().all(|count| *count == 1));
    assert_eq!(practice.web.log().iter().filter(|seen| seen.path == "/robots.txt").count(), 1);
}

#[test]
fn settings_that_may_change_apply_and_others_are_refused() {
    let practice = small();
    let bench = Bench::new(&practice.roots, &[]);
    bench.succeed(&["--max-pages", "5"]);
    let said = bench.fail(2, &["--exclude", "x$", "--no-robots", "http://127.0.0.1:9/"]);
    for line in ["  + exclude: x$", "  - robots: obey", "  + robots: ignore", "  + roots: http://127.0.0.1:9/"] {
        assert!(said.contains(line), "{line} is missing:\n{said}");
    }
    bench.succeed(&["--engine", "threads", "--delay", "1ms", "--max-tries", "2", "--max-pages", "10"]);
    bench.succeed(&[]);
    practice.check(&bench.records());
}

#[test]
fn fresh_lists_the_files_it_removes_and_removes_nothing_else() {
    let practice = small();
    let bench = Bench::new(&practice.roots, &[]);
    bench.succeed(&["--max-pages", "5"]);
    fs::write(bench.path("d.crawl/mine.txt"), "mine").expect("written");
    let said = bench.succeed(&["--fresh", "--exclude", "x$"]);
    for name in ["d.crawl/crawl.json", "d.crawl/log/000001.log", "p.jsonl", "d.crawl/report.txt"] {
        assert!(said.lines().any(|line| line.starts_with("removed ") && line.ends_with(name)), "{name}: {said}");
    }
    assert_eq!(runs(&bench.records()), 2, "the earlier records are gone");
    assert_eq!(fs::read_to_string(bench.path("d.crawl/mine.txt")).expect("still there"), "mine");

    fs::create_dir(bench.path("thesis")).expect("made");
    fs::write(bench.path("thesis/chapter1"), "years").expect("written");
    let roots: Vec<&str> = practice.roots.iter().map(String::as_str).collect();
    for fresh in [&["--fresh"][..], &[]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
        command.current_dir(bench.folder.path()).arg("crawl").args(&roots).args(["-d", "thesis"]).args(fresh);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("thesis is not a crawl directory and is not empty: chapter1 is in it; give another --out"),
            "{said}"
        );
        assert_eq!(fs::read_dir(bench.path("thesis")).expect("listed").count(), 1);
    }
}

#[test]
fn the_directory_is_named_after_the_first_root_and_its_port() {
    let practice = small();
    let folder = tempfile::tempdir().expect("a folder");
    let port = practice.web.addresses()[0].port();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
    let output = command.current_dir(&folder).args(["crawl", "-q", "--max-pages", "1", &practice.roots[0]]).output();
    assert!(output.expect("it runs").status.success());
    assert!(folder.path().join(format!("127.1.0.1-{port}.crawl/crawl.json")).exists());
}

#[test]
fn the_second_process_is_refused_at_once_and_a_dead_one_holds_nothing() {
    let site = Site::http("127.0.0.1:0").expect("a port").page("/", Response::hang()).robots("");
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let bench = Bench::new(&[root], &[]);
    let mut first = bench.spawn(&[]);
    assert!(web.wait_requests(2, PATIENCE), "the first crawl is running");
    let said = bench.fail(1, &[]);
    assert!(said.contains(&format!("process {} on ", first.id())), "{said}");
    assert!(bench.fail(1, &["--fresh"]).contains("is being crawled by"));
    first.kill().expect("it is killed");
    wait(&mut first);
    let mut third = bench.spawn(&[]);
    assert!(web.wait_requests(3, PATIENCE), "the crawl resumed and requested only the page");
    third.kill().expect("it is killed");
    wait(&mut third);
}

#[test]
fn a_foreign_output_is_refused_and_an_output_added_later_gets_the_remaining_records() {
    let practice = small();
    let bench = Bench::new(&practice.roots, &[]);
    fs::write(bench.path("p.jsonl"), "a letter\n").expect("written");
    let said = bench.fail(1, &[]);
    assert!(said.contains("p.jsonl exists and was not written by this crawl"), "{said}");
    assert_eq!(fs::read_to_string(bench.path("p.jsonl")).expect("still there"), "a letter\n");
    fs::remove_file(bench.path("p.jsonl")).expect("removed");

    bench.succeed(&["--max-pages", "10"]);
    // A crawl whose output file is missing cannot be resumed.
    fs::rename(bench.path("p.jsonl"), bench.path("first.jsonl")).expect("renamed");
    let said = bench.fail(1, &[]);
    assert!(said.contains("p.jsonl is missing") && said.contains("argiope export"), "{said}");

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"));
    let roots = practice.roots.iter().map(String::as_str);
    let common = "crawl --scope any --allow-private -q -d d.crawl --jsonl".split(' ');
    let output = command.current_dir(bench.folder.path()).args(common.chain(["-"]).chain(roots)).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(bench.path("rest.jsonl"), &output.stdout).expect("written");
    let mut all = records(&bench.path("first.jsonl"));
    all.extend(records(&bench.path("rest.jsonl")));
    practice.check(&all);
}

#[test]
fn a_low_limit_on_open_files_loses_nothing() {
    let practice = Practice::serve(GraphPlan { pages: 300, latency_us: (2_000, 20_000), ..GraphPlan::default() });
    let bench = Bench::new(&practice.roots, &[]);
    let roots = practice.roots.join(" ");
    for engine in ["tokio", "coroutines", "callbacks", "threads"] {
        let shell = format!(
            "ulimit -n 64; exec {} crawl --scope any --allow-private --pace full --per-ip 0 -c 1000 -q -d {engine} \
             --jsonl {engine}.jsonl --engine {engine} {roots}",
            env!("CARGO_BIN_EXE_argiope")
        );
        let mut command = std::process::Command::new("/bin/sh");
        let output = command.current_dir(bench.folder.path()).args(["-c", &shell]).output().expect("it runs");
        assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
        practice.check(&records(&bench.path(&format!("{engine}.jsonl"))));
    }
}

/// The next run obeys an earlier Retry-After and an earlier Crawl-delay.
#[test]
fn politeness_state_is_kept_across_runs() {
    let busy = Response::status(503).header("Retry-After", "3600");
    let site = Site::http("127.0.0.1:0").expect("a port").page("/", busy).robots("");
    let root = site.url("/");
    let web = PracticeWeb::new().site(site).start().expect("a server");
    let bench = Bench::new(&[root], &[]);
    let mut crawl = bench.spawn(&[]);
    assert!(web.wait_answered(2, PATIENCE), "robots.txt and the page were asked for");
    // Wait until the response was processed and stored.
    let log = bench.path("d.crawl/log/000001.log");
    let noted = || fs::read(&log).is_ok_and(|bytes| bytes.windows(7).any(|part| part == b"\"rest\":"));
    assert!(poll(noted), "the pause is stored");
    crawl.kill().expect("it is killed");
    wait(&mut crawl);
    let output = bench.run(&["--max-time", "1s"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(web.requests(), 2, "the second run sent no request");
    let records = bench.records();
    assert_eq!(
        (records.last().expect("records")["reason"].as_str(), records[0]["type"].as_str()),
        (Some("max_time"), Some("run"))
    );
    assert_eq!(records.last().expect("records")["queued"], 1);
}

/// Scope, depth and patterns may be changed: known links are judged again.
#[test]
fn a_crawl_is_widened_and_narrowed_by_the_same_command() {
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
    let bench = Bench::new(&[root], &["--no-progress"]);
    let fetched = || {
        let mut paths: Vec<String> =
            web.log().into_iter().map(|seen| seen.path).filter(|path| path != "/robots.txt").collect();
        paths.sort_unstable();
        paths
    };
    bench.succeed(&["--depth", "1"]);
    assert_eq!(fetched(), ["/", "/a", "/b", "/nofollow"]);
    // Wider: the links at the old limit are followed, and nothing is fetched twice.
    let said = bench.succeed(&["--depth", "2", "--exclude", "b/1"]);
    assert!(said.contains("--depth is changed: it was 1, and is 2"), "{said}");
    assert!(said.contains("--exclude is changed: it was none, and is b/1"), "{said}");
    assert!(said.contains("1 more are queued"), "{said}");
    assert_eq!(fetched(), ["/", "/a", "/a/1", "/b", "/nofollow"]);
    // The same command again has nothing to do and reports no changes.
    let said = bench.succeed(&["--depth", "2", "--exclude", "b/1"]);
    assert!(said.contains("is finished") && !said.contains("is changed"), "{said}");
    // A finished crawl has nothing to do, but it stores the change: the second time, no change is reported.
    for is_changed in [true, false] {
        let said = bench.succeed(&["--depth", "2", "--exclude", "b"]);
        assert_eq!(said.contains("--exclude is changed: it was b/1, and is b"), is_changed, "{said}");
        assert!(said.contains("is finished"), "{said}");
    }
    let explain = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"))
        .args(["explain", "d.crawl", "/b"])
        .current_dir(bench.folder.path())
        .output();
    let explained = String::from_utf8(explain.expect("it runs").stdout).expect("UTF-8");
    assert!(explained.contains("out of scope, rule exclude"), "{explained}");
    // Without the pattern, the link that it excluded is fetched.
    bench.succeed(&["--depth", "2"]);
    assert_eq!(fetched(), ["/", "/a", "/a/1", "/b", "/b/1", "/nofollow"]);
    bench.succeed(&[]);
    assert_eq!(fetched(), ["/", "/a", "/a/1", "/a/2", "/b", "/b/1", "/nofollow"]);
    let records = bench.records().iter().filter(|record| record["type"] == "page").count();
    assert_eq!(records, 7);
}

#[test]
fn queued_links_that_no_longer_qualify_leave_the_queue() {
    let links: Vec<String> =
        (0..20).map(|number| format!("/{}/{number}", if number < 10 { "low" } else { "high" })).collect();
    let site = argiope_practice::Site::http("127.0.0.1:0").expect("a port").robots("");
    let site = site
        .page("/", argiope_practice::Response::links(links.iter().map(String::as_str)))
        .fallback(argiope_practice::Response::html("<p>end"));
    let root = site.url("/");
    let web = argiope_practice::PracticeWeb::new().site(site).start().expect("a server");
    let bench = Bench::new(std::slice::from_ref(&root), &["--no-progress"]);
    bench.succeed(&["--max-pages", "1"]);
    let said = bench.succeed(&["--exclude", "/high/"]);
    assert!(said.contains("--exclude is changed"), "{said}");
    let high = || web.log().iter().filter(|seen| seen.path.starts_with("/high")).count();
    let pages = || bench.records().iter().filter(|record| record["type"] == "page").count();
    assert_eq!((high(), pages()), (0, 11));
    let explain = std::process::Command::new(env!("CARGO_BIN_EXE_argiope"))
        .args(["explain", "d.crawl", &format!("{root}high/15")])
        .current_dir(bench.folder.path())
        .output();
    let explained = String::from_utf8(explain.expect("it runs").stdout).expect("UTF-8");
    assert!(explained.contains("exclude"), "{explained}");
    // Links that are in scope again are queued again.
    let said = bench.succeed(&[]);
    assert!(said.contains("10 more are queued"), "{said}");
    assert_eq!((high(), pages()), (10, 21));
}
