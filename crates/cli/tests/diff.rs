//! `argiope diff`: what changed between two rounds of a crawl or between two crawls. The text, JSON and HTML reports
//! must agree.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use argiope_practice::{PracticeWeb, Response, RunningWeb, Site};
use serde_json::Value;

fn argiope(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A site that changes after the first visit of each page.
fn changing_site() -> (RunningWeb, String) {
    let twice = |before: &str, after: &str| [Response::html(before), Response::html(after)];
    let before = ["/same", "/changed", "/gone", "/mended", "/moved", "/missing", "/away"];
    let after = ["/same", "/changed", "/gone", "/mended", "/moved", "/missing", "/new", "/new-broken"];
    let site = Site::http("127.0.0.1:0").expect("a port").robots("");
    let site = site
        .sequence("/", [Response::links(before), Response::links(after)])
        .page("/same", Response::html("<p>as ever"))
        .sequence("/changed", twice("<p>one", "<p>two"))
        .sequence("/gone", [Response::html("<p>here"), Response::status(410)])
        .sequence("/mended", [Response::status(500), Response::html("<p>whole")])
        .sequence("/moved", [Response::html("<p>there"), Response::redirect("/same", 301)])
        .page("/missing", Response::status(404))
        .page("/away", Response::html("<p>only linked once"))
        .page("/new", Response::html("<p>new"))
        .page("/new-broken", Response::status(404));
    let root = site.url("/");
    (PracticeWeb::new().site(site).start().expect("a server"), root)
}

/// The path of each change in a JSON document, and the change with its note.
fn changes(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let path = |url: &Value| format!("/{}", text(url).splitn(4, '/').nth(3).unwrap_or_default());
    let entries = document["changes"].as_array().expect("a list");
    entries
        .iter()
        .map(|entry| (path(&entry["url"]), format!("{} {}", text(&entry["change"]), text(&entry["note"]))))
        .collect()
}

/// Every member of a loop of redirects is broken, not only the one that closes it.
#[test]
fn all_members_of_a_new_redirect_loop_are_newly_broken() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = Site::http("127.0.0.1:0").expect("a port").robots("");
    let site = site
        .page("/", Response::links(["/a"]))
        .sequence("/a", [Response::html("<p>a"), Response::redirect("/b", 302)])
        .page("/b", Response::redirect("/c", 302))
        .page("/c", Response::redirect("/a", 302));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let crawl = ["crawl", &root, "-d", "d.crawl", "-q"];
    assert_eq!(argiope(folder.path(), &crawl).status.code(), Some(0));
    let again = argiope(folder.path(), &[&crawl[..], &["--recrawl", "--fail-on", "new-broken"]].concat());
    assert_eq!(again.status.code(), Some(3), "{again:?}");
    let file = ["diff", "d.crawl", "--format", "json", "-o", "changes.json", "--fail-on", "new-broken"];
    let output = argiope(folder.path(), &file);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b""[..]), "{output:?}");
    let document = std::fs::read(folder.path().join("changes.json")).expect("a file");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let expected = [("/a", "gone newly_broken"), ("/b", "new newly_broken"), ("/c", "new newly_broken")];
    assert_eq!(changes(&document), expected.map(|(path, what)| (path.to_owned(), what.to_owned())));
    assert_eq!(document["summary"]["newly_broken"], 3);
    let listed = argiope(folder.path(), &["report", "d.crawl", "--list", "broken"]);
    let mut listed: Vec<String> = text(&listed.stdout).lines().map(|url| url.replace(&root, "/")).collect();
    listed.sort();
    assert_eq!(listed, ["/a", "/b", "/c"]);
}

/// A scheduled job always runs the same command. Its first run has nothing to compare with.
#[test]
fn the_first_run_of_a_recrawl_has_no_newly_broken_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root) = changing_site();
    let command = ["crawl", &root, "-d", "d.crawl", "-q", "--max-tries", "1", "--recrawl", "--fail-on", "new-broken"];
    for code in [0, 3] {
        let output = argiope(folder.path(), &command);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

#[test]
fn the_last_two_rounds_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root) = changing_site();
    let crawl = ["crawl", &root, "-d", "d.crawl", "-q", "--max-tries", "1"];
    assert_eq!(argiope(folder.path(), &crawl).status.code(), Some(0));
    // With a single round there is nothing to compare with, so the command could never exit with 3.
    std::fs::create_dir(folder.path().join("empty.crawl")).expect("a folder");
    for directory in ["d.crawl", "other.crawl", "empty.crawl"] {
        let single = ["crawl", &root, "-d", directory, "--fail-on", "new-broken"];
        let output = argiope(folder.path(), &single);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("there is none; add --recrawl"), "{output:?}");
    }
    assert!(!folder.path().join("other.crawl").exists(), "a usage error creates no directory");
    std::fs::remove_dir(folder.path().join("empty.crawl")).expect("a usage error writes no file");
    let fresh = ["crawl", &root, "-d", "d.crawl", "--fresh", "--fail-on", "new-broken"];
    let output = argiope(folder.path(), &fresh);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("give --recrawl instead of --fresh"), "{output:?}");
    let once = argiope(folder.path(), &["diff", "d.crawl"]);
    assert_eq!(once.status.code(), Some(2));
    assert!(text(&once.stderr).contains("d.crawl has been crawled once"), "{once:?}");

    // The exit code describes the directory, so the second run of the same command has it too.
    let fail_on_new = ["--fail-on", "new-broken"];
    for more in [&["--recrawl"][..], &[]] {
        let output = argiope(folder.path(), &[&crawl, &fail_on_new[..], more].concat());
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("Newly broken links (2)") && stderr.contains("/new-broken  404 Not Found"), "{stderr}");
        assert!(stderr.contains("/gone  410 Gone") && !stderr.contains("/missing"), "{stderr}");
    }

    let output = argiope(folder.path(), &["diff", "d.crawl", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let expected = [
        ("/", "changed "),
        ("/changed", "changed "),
        ("/gone", "gone newly_broken"),
        ("/mended", "changed repaired"),
        ("/moved", "changed redirected"),
        ("/new", "new "),
        ("/new-broken", "new newly_broken"),
    ];
    assert_eq!(changes(&document), expected.map(|(path, change)| (path.to_owned(), change.to_owned())));
    // Exports can be limited to changes, which records have too.
    for status in ["new", "changed", "gone"] {
        let export = |format: &[&str]| {
            text(
                &argiope(folder.path(), &[&["export", "d.crawl", "--status", status, "--format"], format].concat())
                    .stdout,
            )
        };
        let lines = export(&["jsonl"]);
        let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let mut exported: Vec<String> = records
            .inspect(|record| assert_eq!(record["change"], status))
            .map(|record| record["url"].as_str().expect("a URL").replace(&root, "/"))
            .collect();
        exported.sort();
        let is_listed = |(_, what): &(String, String)| what.split(' ').next() == Some(status);
        let listed: Vec<String> = changes(&document).into_iter().filter(is_listed).map(|(path, _)| path).collect();
        assert_eq!(exported, listed, "{status}");
        assert_eq!(export(&["csv", "--columns", "url,change"]).lines().count(), 1 + listed.len());
    }
    let summary = serde_json::json!({
        "new": 2, "changed": 4, "gone": 1, "same": 3, "newly_broken": 2, "repaired": 1, "redirected": 1, "unvisited": 0,
    });
    assert_eq!(document["summary"], summary);
    assert_eq!(document["changes"][2]["before"]["status"], 200);
    assert_eq!(document["changes"][2]["after"]["status"], 410);

    let output = argiope(folder.path(), &[&["diff", "d.crawl"], &fail_on_new[..]].concat());
    assert_eq!(output.status.code(), Some(3));
    let shown = text(&output.stdout);
    assert!(shown.contains(&format!("gone, newly broken     {root}gone  410 Gone, was 200 OK\n")), "{shown}");
    assert!(
        shown.contains(&format!(
            "changed, redirected    {root}moved  301 Moved Permanently to {root}same, was 200 OK\n"
        ))
    );
    assert!(
        shown.ends_with("2 new, 4 changed, 1 gone, 3 unchanged; 2 newly broken, 1 repaired, 1 redirected\n"),
        "{shown}"
    );

    // Older rounds are compacted away: the last two remain, and they are the same.
    for _ in 0..3 {
        let output = argiope(folder.path(), &[&crawl, &["--recrawl"][..]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let shown = text(&argiope(folder.path(), &["diff", "d.crawl"]).stdout);
    assert_eq!(shown, "0 new, 0 changed, 0 gone, 10 unchanged; 0 newly broken, 0 repaired, 0 redirected\n");
}

#[test]
fn two_crawls_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_web, root) = changing_site();
    for name in ["monday.crawl", "tuesday.crawl"] {
        let output = argiope(folder.path(), &["crawl", &root, "-d", name, "-q", "--max-tries", "1"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let output = argiope(folder.path(), &["diff", "monday.crawl", "tuesday.crawl", "--format", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = changes(&document);
    // No link of the second crawl leads to `/away`.
    assert!(found.contains(&("/away".to_owned(), "gone ".to_owned())), "{found:?}");
    assert_eq!(found.len(), 8, "{found:?}");
    // A directory compared with itself is the same.
    let output = argiope(folder.path(), &["diff", "monday.crawl", "monday.crawl", "--fail-on", "new-broken"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout),
        "0 new, 0 changed, 0 gone, 8 unchanged; 0 newly broken, 0 repaired, 0 redirected\n"
    );
    let output = argiope(folder.path(), &["diff", "monday.crawl", "no-such.crawl"]);
    assert_eq!(output.status.code(), Some(1));
    let full = Command::new("sh")
        .args(["-c", "$0 diff monday.crawl tuesday.crawl >/dev/full", env!("CARGO_BIN_EXE_argiope")])
        .current_dir(folder.path())
        .output();
    assert_eq!(full.expect("a shell").status.code(), Some(1));
}

/// A section of a text report, from its heading to the next empty line.
fn section<'a>(report: &'a str, heading: &str) -> &'a str {
    let start = report.find(&format!("\n{heading}")).unwrap_or_else(|| panic!("{heading} in {report}"));
    let rest = &report[start + 1..];
    rest.find("\n\n").map_or(rest, |end| &rest[..=end])
}

#[test]
fn the_final_report_and_the_report_of_the_directory_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let links =
        |page: usize| Response::links([format!("/page{}", page + 1), "/gone".into(), "/twin1".into(), "/twin2".into()]);
    let mut site = Site::http("127.0.0.1:0").expect("a port").robots("").page("/", links(0));
    for page in 1..=14 {
        site = site.page(&format!("/page{page}"), links(page));
    }
    let site = site
        .page("/twin1", Response::html("<p>twins"))
        .page("/twin2", Response::html("<p>twins"))
        .sequence("/gone", [Response::html("<p>here"), Response::status(404)])
        // Requests to port 1 are blocked.
        .page("/page15", Response::redirect("http://127.0.0.1:1/", 302));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("a server");
    let crawl = |more: &[&str]| {
        let output = argiope(
            folder.path(),
            &[&["crawl", &root, "-d", "d.crawl", "--no-progress", "--scope", "any"], more].concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output.stderr)
    };
    crawl(&[]);
    let at_the_end = crawl(&["--recrawl"]);
    let report = text(&argiope(folder.path(), &["report", "d.crawl"]).stdout);
    for heading in ["Changes since the last round", "Failures", "Broken links", "Duplicates", "Redirects"] {
        assert_eq!(section(&at_the_end, heading), section(&report, heading));
    }
    let broken = section(&report, "Broken links (1)");
    assert!(broken.contains("/gone  404 Not Found"), "{broken}");
    assert_eq!(broken.matches("      on ").count(), 10, "{broken}");
    assert!(broken.contains("and on 5 more pages, 15 altogether"), "{broken}");
    // The page that was fetched first is listed first.
    let twins = section(&report, "Duplicates (1)");
    assert!(twins.contains("twin1") && twins.contains("\n      same as ") && twins.contains("twin2"), "{twins}");
    assert!(section(&report, "Failures").contains("http://127.0.0.1:1/"), "{report}");
    assert!(section(&report, "Changes since").contains("newly broken"), "{report}");

    let json: Value =
        serde_json::from_slice(&argiope(folder.path(), &["report", "d.crawl", "--json"]).stdout).expect("JSON");
    let broken = &json["broken_links"][0];
    assert_eq!((broken["referrers"].as_u64(), broken["on"].as_array().map(Vec::len)), (Some(15), Some(10)), "{broken}");
    assert_eq!(json["changes"]["newly_broken"]["first"][0], format!("{root}gone"));
    assert_eq!(json["duplicates"]["groups"][0]["total"], 1);
    assert_eq!(json["failures"]["blocked_port"]["first"][0], "http://127.0.0.1:1/");

    let html = text(&argiope(folder.path(), &["report", "d.crawl", "--html", "-"]).stdout);
    for part in ["Changes since the last round", "newly broken", "and 5 more", "Duplicates", "twin2"] {
        assert!(html.contains(part), "{part}");
    }
    // The suggested next steps.
    assert!(at_the_end.contains("\nCrawl directory: d.crawl\n"), "{at_the_end}");
    assert!(at_the_end.contains("argiope report d.crawl --html report.html"), "{at_the_end}");
    assert!(at_the_end.contains("argiope diff d.crawl"), "{at_the_end}");
}

#[test]
fn a_directory_keeps_its_digest_and_crawls_with_different_ones_are_not_compared() {
    let site = Site::http("127.0.0.1:0").expect("a socket").page("/", Response::html("text"));
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the web is served");
    let folder = tempfile::tempdir().expect("a folder");
    let crawl = |directory: &str, more: &[&str]| {
        let arguments = [&["crawl", &root, "-d", directory, "-q", "--allow-private"], more].concat();
        argiope(folder.path(), &arguments).status.code()
    };
    let digest = |directory: &str| {
        let lines = argiope(folder.path(), &["export", directory, "--format", "jsonl"]).stdout;
        let lines = String::from_utf8(lines).expect("UTF-8");
        let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let digests: Vec<Value> = records.map(|record| record["digest"].clone()).filter(Value::is_string).collect();
        digests.last().expect("a digest").as_str().expect("a text").to_owned()
    };
    assert_eq!((crawl("fast", &[]), crawl("archive", &["--warc"])), (Some(0), Some(0)));
    // The digests of `text`, from other implementations.
    assert_eq!(digest("fast"), "xxh3:c5a64efff9224e392680525687aac7c5");
    let sha256 = "sha256:982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1";
    assert_eq!(digest("archive"), sha256);

    let refused = argiope(folder.path(), &["diff", "fast", "archive"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("one has xxh3, the other sha256"), "{message}");
    assert_eq!(crawl("fast", &["--recrawl", "--digest", "sha256"]), Some(2));

    assert_eq!((crawl("fast", &["--recrawl", "--warc"]), crawl("archive", &["--recrawl"])), (Some(0), Some(0)));
    assert!(digest("fast").starts_with("xxh3:") && digest("archive") == sha256);
    assert_eq!(crawl("other", &["--digest", "sha256"]), Some(0));
    assert_eq!(argiope(folder.path(), &["diff", "other", "archive"]).status.code(), Some(0));
}
