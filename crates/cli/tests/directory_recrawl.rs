//! `--recrawl` of a finished crawl: new, changed, gone and unchanged pages.

mod durable_kit;

use argiope_practice::{GraphPlan, PracticeWeb, Response, Site};
use durable_kit::{CrawlFixture, GraphWeb, SeededRng, wait};
use serde_json::Value;
use std::process::Command;

/// The path and the outcome of each page, sorted.
fn pages(records: &[Value]) -> Vec<(String, String)> {
    let pages = records.iter().filter(|record| record["type"] == "page");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let path = |url: &Value| text(url).split('/').skip(3).collect::<Vec<_>>().join("/");
    let mut pages: Vec<_> = pages.map(|record| (path(&record["url"]), text(&record["outcome"]))).collect();
    pages.sort_unstable();
    pages
}

/// The numbers of the changes section of the report.
fn changes(report: &str) -> [(&'static str, u64); 4] {
    ["new", "changed", "gone", "unchanged"].map(|what| {
        let (_, section) = report.split_once("Changes since the last round\n").expect("a section");
        let count = section.lines().find_map(|line| line.trim_start().strip_prefix(what)).expect(what);
        (what, count.trim().parse().expect("a number"))
    })
}

#[test]
fn requests_are_conditional_and_the_report_counts_the_changes() {
    let hub = |links: &[&str]| Response::links(links.iter().copied());
    let before = ["/same", "/dated", "/changed", "/gone", "/moved", "/missing"];
    let site = Site::http("127.0.0.1:0").expect("a port").robots("");
    let site = site
        .sequence("/", [hub(&before), hub(&["/same", "/new"])])
        .page("/same", Response::html("<p>as ever").etag("v1"))
        .page("/dated", Response::html("<p>old").last_modified("Mon, 02 Jan 2006 15:04:05 GMT"))
        .sequence("/changed", [Response::html("<p>one").etag("1"), Response::html("<p>two").etag("2")])
        .sequence("/gone", [Response::html("<p>here"), Response::status(410)])
        .redirect("/moved", "/same", 301)
        .page("/missing", Response::status(404))
        .page("/new", Response::html("<p>new"));
    let root = site.url("/");
    let web = PracticeWeb::new().keep_headers().site(site).start().expect("a server");
    let fixture = CrawlFixture::new(&[root], &["--no-progress"]);
    // Without an earlier crawl, `--recrawl` is an ordinary crawl.
    fixture.succeed(&["--recrawl"]);
    let first = fixture.records();
    assert_eq!(pages(&first).len(), 7);
    assert!(fixture.succeed(&[]).contains("use --recrawl to check for changes"));

    let stderr = fixture.succeed(&["--recrawl"]);
    assert!(stderr.contains("recrawling 7 URLs"), "{stderr}");
    assert_eq!(changes(&stderr), [("new", 1), ("changed", 2), ("gone", 1), ("unchanged", 4)], "{stderr}");
    let records = fixture.records();
    let second = &records[first.len()..];
    let expected = [
        ("", "ok"),
        ("changed", "ok"),
        ("dated", "not_modified"),
        ("gone", "http_error"),
        ("missing", "http_error"),
        ("moved", "redirect"),
        ("new", "ok"),
        ("same", "not_modified"),
    ];
    assert_eq!(pages(second), expected.map(|(path, outcome)| (path.to_owned(), outcome.to_owned())));
    assert_eq!(second.last().expect("records")["changes"]["gone"], 1);
    // Validators that a 304 omits are kept: the next request is conditional too.
    let same = second.iter().find(|record| record["url"].as_str().is_some_and(|url| url.ends_with("/same")));
    let same = same.expect("a record");
    assert!(same["etag"].is_string() && same["digest"].is_string(), "{same}");
    assert_eq!(same["status"], 304);

    let requests = web.requests();
    let stderr = fixture.succeed(&["--recrawl"]);
    assert!(stderr.contains("recrawling 8 URLs"), "{stderr}");
    assert_eq!(changes(&stderr), [("new", 0), ("changed", 0), ("gone", 0), ("unchanged", 8)], "{stderr}");
    let third: Vec<_> = web.log().into_iter().skip(usize::try_from(requests).expect("few")).collect();
    let conditional = |seen: &&argiope_practice::SeenRequest| {
        seen.headers.iter().any(|(name, _)| {
            name.eq_ignore_ascii_case("if-none-match") || name.eq_ignore_ascii_case("if-modified-since")
        })
    };
    let mut requested: Vec<&str> = third.iter().filter(conditional).map(|seen| seen.path.as_str()).collect();
    requested.sort_unstable();
    assert_eq!(requested, ["/changed", "/dated", "/same"]);

    // Reports and exports have each page once, as of the latest round.
    let stdout_of = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).current_dir(fixture.folder.path()).output();
        String::from_utf8(output.expect("the command runs").stdout).expect("UTF-8")
    };
    let report = stdout_of(&["report", "d.crawl"]);
    assert!(report.contains(": 8 pages from"), "{report}");
    assert_eq!(stdout_of(&["export", "d.crawl", "--format", "csv"]).lines().count(), 1 + 8);
    // Pages that were not modified are still in the sitemap.
    let sitemap = stdout_of(&["export", "d.crawl", "--format", "sitemap"]);
    for path in ["/same", "/dated", "/changed", "/new"] {
        assert!(sitemap.contains(&format!("{path}</loc>")), "{path} in {sitemap}");
    }
    assert!(!sitemap.contains("/gone"), "{sitemap}");
    // Compaction may have removed the first round already.
    let records = stdout_of(&["export", "d.crawl", "--format", "jsonl"]).lines().count();
    // Eight pages in each round, and the `run` records.
    assert!(records > 16, "{records} records: the last two rounds are kept");
}

/// An unchanged page keeps its facts and its links.
#[test]
fn the_record_of_a_304_keeps_the_facts_and_links_of_the_page() {
    let page = |title: &str, body: &str| Response::html(format!("<title>{title}</title>{body}")).etag("v1");
    let site = Site::http("127.0.0.1:0").expect("a port").robots("");
    let site = site
        .page("/", page("Start", "<a href=/a>a</a><a href=/b>b</a><a href=/c>c</a>"))
        .page("/a", page("A", "<link rel=canonical href=/b><a href=/b>b</a><a href=http://127.0.0.1:1/>e</a>"))
        .sequence("/b", [Response::html("<a href=/a>a</a>"), Response::html("<a href=/>home</a>")])
        .sequence("/c", [Response::html("<a href=/a>a</a>"), Response::status(404)]);
    let root = site.url("/");
    let base = root.trim_end_matches('/').to_owned();
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let fixture = CrawlFixture::new(&[root], &["--no-progress"]);
    let links = || {
        let output = Command::new(env!("CARGO_BIN_EXE_argiope"))
            .args(["export", "d.crawl", "--format", "links"])
            .current_dir(fixture.folder.path())
            .output();
        let output = String::from_utf8(output.expect("the command runs").stdout).expect("UTF-8").replace(&base, "");
        let mut links: Vec<String> = output.lines().skip(1).map(str::to_owned).collect();
        links.sort_unstable();
        links
    };
    fixture.succeed(&[]);
    let before = fixture.records();
    let mut expected = vec![
        "/,/a,anchor,false",
        "/,/b,anchor,false",
        "/,/c,anchor,false",
        "/a,/b,anchor,false",
        "/a,/b,canonical,false",
        "/a,http://127.0.0.1:1/,anchor,false",
        "/b,/a,anchor,false",
        "/c,/a,anchor,false",
    ];
    assert_eq!(links(), expected);
    for _ in 0..2 {
        fixture.succeed(&["--recrawl"]);
        expected.retain(|link| !link.starts_with("/c,") && !link.starts_with("/b,"));
        expected.push("/b,/,anchor,false");
        expected.sort_unstable();
        assert_eq!(links(), expected);
    }
    let record_of_a = |records: &[Value]| {
        let is_page_a = |record: &&Value| record["url"].as_str().is_some_and(|url| url.ends_with("/a"));
        records.iter().rfind(is_page_a).expect("a record").clone()
    };
    let (first, last) = (record_of_a(&before), record_of_a(&fixture.records()));
    assert_eq!(last["outcome"], "not_modified");
    for field in ["title", "bytes_body", "links", "digest", "canonical", "content_type", "charset"] {
        assert!(!first[field].is_null() && first[field] == last[field], "{field}: {first} {last}");
    }
}

/// Pages that never change stay in every export, although compaction removes the records of their first fetch.
#[test]
fn unchanged_pages_are_in_all_exports_after_several_rounds() {
    let page = |name: &str, more: &str| {
        let body = format!("<title>{name}</title><h1>{name}</h1><p>The main text of this page is {name}.</p>{more}");
        Response::html(body).etag("v1")
    };
    let site = Site::http("127.0.0.1:0").expect("a port").robots("");
    let site = site
        .page("/", page("Start", "<a href=/a>a</a><a href=/b>b</a><a href=/c>c</a>"))
        .page("/a", page("Alpha", ""))
        // Two pages with the same body; the first one of them changes later.
        .sequence("/b", [page("Twin", ""), page("Twin", "").etag("v1"), page("Changed", "").etag("v2")])
        .page("/c", page("Twin", ""));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let fixture = CrawlFixture::new(&[root], &["--no-progress", "--per-host", "1"]);
    let stdout_of = |arguments: &[&str]| {
        let command =
            Command::new(env!("CARGO_BIN_EXE_argiope")).args(arguments).current_dir(fixture.folder.path()).output();
        let output = command.expect("the command runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The first run writes no archive. The second fetches all pages unconditionally, because the archive lacks them.
    fixture.succeed(&[]);
    for round in 1..=5 {
        fixture.succeed(&["--recrawl", "--warc"]);
        let expected = ["Start", "Alpha", if round < 2 { "Twin" } else { "Changed" }, "Twin"];
        let records = fixture.records();
        let unchanged = records.iter().rfind(|record| record["title"] == "Alpha").expect("a record");
        let outcome = if round == 1 { "ok" } else { "not_modified" };
        assert_eq!(unchanged["outcome"], outcome, "{unchanged}");
        for format in ["text", "markdown"] {
            let texts = stdout_of(&["export", "d.crawl", "--format", format]);
            assert_eq!(texts.lines().count(), 4, "{format} in round {round}: {texts}");
            for title in expected {
                assert!(texts.contains(&format!("is {title}.")), "{title} in round {round}: {texts}");
            }
        }
        let csv = stdout_of(&["export", "d.crawl", "--format", "csv", "--extract", "name=h1"]);
        for title in expected {
            assert!(csv.contains(&format!(",{title}\r\n")), "{title} in round {round}: {csv}");
        }
        let index = stdout_of(&["export", "d.crawl", "--format", "cdxj"]);
        let responses = index.lines().filter(|line| line.contains("\"status\":\"200\"")).count();
        // The bodies of /, /a and /b, and from the second round on also the earlier body of /b, which /c still has.
        assert!(responses >= if round < 2 { 3 } else { 4 }, "the bodies of round {round}: {index}");
        let folder = format!("site{round}/");
        stdout_of(&["export", "d.crawl", "--format", "site", "-o", &folder]);
        let list = std::fs::read_to_string(fixture.path(&folder).join("argiope-site.jsonl")).expect("a list");
        assert_eq!(list.lines().count(), 4);
        for line in list.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let file = fixture.path(&folder).join(line["file"].as_str().expect("a name"));
            let body = std::fs::read_to_string(file).expect("a file");
            assert!(expected.iter().any(|title| body.contains(&format!("<h1>{title}"))), "{line}: {body}");
        }
        let wacz = format!("w{round}.wacz");
        stdout_of(&["export", "d.crawl", "--format", "wacz", "-o", &wacz]);
        let zip = std::fs::read(fixture.path(&wacz)).expect("a file");
        let zip = String::from_utf8_lossy(&zip).into_owned();
        assert_eq!(zip.matches("\"ts\":").count(), 4, "pages of round {round}");
    }
}

#[test]
fn the_final_report_covers_the_whole_crawl() {
    let practice = GraphWeb::serve(GraphPlan { pages: 40, links: 6, ..GraphPlan::default() });
    let fixture = CrawlFixture::new(&practice.roots, &["--no-progress"]);
    let first = fixture.succeed(&["--max-pages", "10"]);
    assert!(first.contains(": 10 pages from"), "{first}");
    let whole = fixture.succeed(&[]);
    let all = fixture.records().iter().filter(|record| record["type"] == "page").count();
    assert!(whole.contains(&format!(": {all} pages from")), "{all} in {whole}");
}

/// A 304 may carry a new ETag, which is used from then on. The digest stays that of the body.
#[test]
fn a_304_updates_the_etag_and_keeps_the_digest() {
    let again = Response::status(304).header("ETag", "\"v2\"");
    let site = Site::http("127.0.0.1:0").expect("a port").robots("");
    let page = "<html lang=en><title>T</title><h1>Heading</h1><p>two words <a href=/>home</a>";
    let site = site.sequence("/", [Response::html(page).header("ETag", "\"v1\""), again]);
    let root = site.url("/");
    let web = PracticeWeb::new().keep_headers().site(site).start().expect("a server");
    let fixture = CrawlFixture::new(&[root], &["--no-progress"]);
    for arguments in [&[] as &[&str], &["--recrawl"], &["--recrawl"]] {
        fixture.succeed(arguments);
    }
    let records = fixture.records();
    let pages: Vec<&Value> = records.iter().filter(|record| record["type"] == "page").collect();
    let [first, second, third] = pages[..] else { panic!("{pages:?}") };
    assert_eq!((&second["outcome"], &third["outcome"]), (&"not_modified".into(), &"not_modified".into()));
    assert_eq!((&second["etag"], &third["etag"]), (&"\"v2\"".into(), &"\"v2\"".into()));
    assert!(first["digest"].is_string() && first["digest"] == second["digest"] && first["digest"] == third["digest"]);
    for field in ["title", "h1", "lang", "words", "links", "bytes_body", "content_type", "charset"] {
        assert!(!first[field].is_null() && first[field] == third[field], "{field}: {first} {third}");
    }
    let requested: Vec<_> =
        web.log().into_iter().filter(|seen| seen.path == "/").flat_map(|seen| seen.headers).collect();
    let tags = requested.iter().filter(|(name, _)| name.eq_ignore_ascii_case("if-none-match"));
    assert_eq!(tags.map(|(_, tag)| tag.as_str()).collect::<Vec<_>>(), ["\"v1\"", "\"v2\""]);
}

#[test]
fn a_killed_recrawl_is_resumed() {
    let practice =
        GraphWeb::serve(GraphPlan { pages: 300, links: 6, latency_us: (20_000, 60_000), ..GraphPlan::default() });
    let fixture = CrawlFixture::new(&practice.roots, &["-q", "--per-host", "12"]);
    fixture.succeed(&[]);
    let first = fixture.records().len();
    let mut rng = SeededRng::new(5);
    for _ in 0..4 {
        let target = practice.web.requests() + rng.below(60);
        let mut crawl = fixture.spawn(&["--recrawl"]);
        practice.wait_for(target, &mut crawl);
        crawl.kill().expect("the process is killed");
        wait(&mut crawl);
    }
    fixture.succeed(&["--recrawl"]);
    // If a process is killed before the recrawl starts, a later run starts it. A recrawl that has started is resumed. In
    // both cases each page is recorded once.
    practice.check(&fixture.records()[first..]);
    let changes = fixture.records().last().expect("records")["changes"].clone();
    assert_eq!((changes["same"].as_u64(), changes["new"].as_u64()), (Some(300), Some(0)), "{changes}");
}
